//! OPC UA without sockets: what the core of our server and the machine of our client do for one Read on a channel without protection
//! (decode, dispatch, check the right, encode), and what it takes to protect one message and to open it again.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use cost::whatif::READ;
use opcua_types::ReadResponse;
use token::SystemEntropy;
use ua_proto::client::ClientEvent;
use ua_proto::crypto::{ChannelKeys, KeyLayout, Role, SecurityPolicyId};

use super::socket::{CONNECTIONS, End, Part, among_messages};
use super::{Entry, Once, used};
use crate::clock::{Stopwatch, Timing};
use crate::measures::instructions::{Pair, serve};
use crate::random::Random;
use crate::{Failed, fixture, load};

/// Variables of the server.
pub(super) const NODES: u32 = 10_000;
/// Seconds that a Read takes at both ends together, and what protects a message, about.
const OF_READ: f64 = 2e-6;
const OF_CRYPTOGRAPHY: f64 = 0.5e-6;
/// Bytes in front of the body of a chunk: header of the message, ids of channel and token, sequence header.
const HEADERS: usize = 24;
/// Bytes of it that are in the clear.
const CLEAR: usize = 16;
/// Sizes of bodies.
const BODIES: [usize; 3] = [64, 1_024, 16_384];

pub(super) fn entries() -> Vec<Entry> {
    let mut entries = Vec::new();
    for sessions in CONNECTIONS {
        for (end, name) in [(End::Server, "server"), (End::Client, "client")] {
            let name = format!("{name}-of-{sessions}");
            entries.push(Entry::with("read", name, 0, move |bed, time| {
                let folder = bed.folder().to_owned();
                among_messages(sessions, end, OF_READ, time, Box::new(move || reads(&folder, sessions, end)))
            }));
        }
    }
    for (policy, name) in [
        (SecurityPolicyId::Basic256Sha256, "basic256sha256"),
        (SecurityPolicyId::Aes128Sha256RsaOaep, "aes128-sha256-rsaoaep"),
        (SecurityPolicyId::EccCurve25519, "ecc-curve25519"),
    ] {
        for (encrypt, mode) in [(false, "sign"), (true, "sign-and-encrypt")] {
            let name = format!("{name}-{mode}");
            for size in BODIES {
                entries.push(Entry::among_others("seal", &name, size as u64, move |_| sealing(policy, encrypt, size)));
                entries.push(Entry::among_others("open", &name, size as u64, move |_| opening(policy, encrypt, size)));
            }
        }
    }
    // What an end does with a Read and its answer, each time of another of so many channels.
    for channels in CONNECTIONS {
        for (encrypt, mode) in [(false, "sign"), (true, "sign-and-encrypt")] {
            for size in [READ.0, READ.1] {
                let name = format!("basic256sha256-{mode}-of-{channels}");
                for (operation, seals) in [("seal", true), ("open", false)] {
                    entries.push(Entry::with(operation, &name, size, move |_, time| {
                        let make = Box::new(move || in_turn(channels, encrypt, size as usize, seals));
                        among_messages(channels, End::Server, OF_CRYPTOGRAPHY, time, make)
                    }));
                }
            }
        }
    }
    entries
}

/// A message is sealed, or opened, each time of another of so many channels.
fn in_turn(channels: u32, encrypt: bool, size: usize, seals: bool) -> Result<Part, Failed> {
    let (plain, mut ends) = (chunk(size), Vec::new());
    for _ in 0..channels {
        let (client, server) = keys(SecurityPolicyId::Basic256Sha256, encrypt)?;
        let mut sealed = plain.clone();
        client.send.seal(&mut sealed, 0)?;
        ends.push((client, server, sealed));
    }
    let (mut next, mut message) = ((0..ends.len()).cycle(), Vec::new());
    Ok(Box::new(move || {
        let (client, server, sealed) = next.next().and_then(|next| ends.get(next)).ok_or("no channel")?;
        if seals {
            message.clear();
            message.extend_from_slice(&plain);
            let (done, timing) = lap(|| client.send.seal(&mut message, 0));
            done?;
            return Ok(timing);
        }
        message.clear();
        message.extend_from_slice(sealed);
        let (header, rest) = message.split_at_mut(CLEAR);
        let (opened, timing) = lap(|| server.receive.open(header, rest, 0));
        used(opened?);
        Ok(timing)
    }))
}

/// One end of Reads, each of another of so many sessions: what the server does with a request, or the client with an answer and for its next request.
fn reads(folder: &Path, sessions: u32, end: End) -> Result<Part, Failed> {
    let mut reads = Reads::new(folder, sessions)?;
    Ok(Box::new(move || {
        let [served, asked] = reads.next()?;
        Ok(if end == End::Server { served } else { asked })
    }))
}

/// Reads, each of another of so many sessions.
struct Reads {
    pair: Pair,
    random: Random,
    /// The next request of each session.
    requests: VecDeque<Vec<u8>>,
    answer: Vec<u8>,
}

impl Reads {
    fn new(folder: &Path, sessions: u32) -> Result<Self, Failed> {
        let (mut pair, activated) =
            (Pair::new(folder, NODES)?, |event: &ClientEvent| matches!(event, ClientEvent::Activated(_)));
        pair.until(serve, activated)?;
        for _ in 1..sessions {
            pair.another()?;
            pair.until(serve, activated)?;
        }
        let mut reads = Self { pair, random: Random::new(1), requests: VecDeque::new(), answer: Vec::new() };
        for _ in 0..sessions {
            reads.pair.turn();
            reads.ask(Vec::new())?;
        }
        Ok(reads)
    }

    /// What the server takes for a request of the next session, and what the client takes for the answer and its next request. Both ends keep their buffers
    /// from message to message.
    fn next(&mut self) -> Result<[Timing; 2], Failed> {
        self.pair.turn();
        self.pair.now.mono = self.pair.now.mono + Duration::from_micros(50);
        let mut request = self.requests.pop_front().ok_or("no session")?;
        let ((), served) = lap(|| {
            self.answer.clear();
            serve(&mut self.pair.server, self.pair.conn, &request, &mut self.answer, self.pair.now);
            // The shell asks when it has sent everything.
            used(self.pair.server.holds_input(self.pair.conn));
        });
        request.clear();
        let (done, asked) = lap(|| {
            understand(&mut self.pair, &self.answer)?;
            self.ask(request)
        });
        done?;
        Ok([served, asked])
    }

    fn ask(&mut self, mut request: Vec<u8>) -> Result<(), Failed> {
        ask_for(&mut self.pair, self.random.below(NODES), &mut request)?;
        self.requests.push_back(request);
        Ok(())
    }
}

/// What something gives, and how long it took.
fn lap<T>(once: impl FnOnce() -> T) -> (T, Timing) {
    let watch = Stopwatch::start();
    let given = once();
    (given, watch.timing())
}

/// Asks for a value; what is to be sent goes into `request`, which is empty.
fn ask_for(pair: &mut Pair, variable: u32, request: &mut Vec<u8>) -> Result<(), Failed> {
    pair.client.request(load::value_of(fixture::number(variable)).into(), None, pair.now)?;
    if let Some(bytes) = pair.client.outgoing() {
        request.append(bytes);
    }
    Ok(())
}

fn understand(pair: &mut Pair, answer: &[u8]) -> Result<(), Failed> {
    pair.client.receive(answer, pair.now, &mut pair.entropy);
    while let Some(event) = pair.client.poll_event() {
        if let ClientEvent::Answer(_, Ok(answer)) = event {
            let read = ReadResponse::try_from(answer).map_err(|_| "an answer of another service")?;
            return load::has_value(&read);
        }
    }
    Err("no answer".into())
}

/// The keys of both ends of a channel.
fn keys(policy: SecurityPolicyId, encrypt: bool) -> Result<(ChannelKeys, ChannelKeys), Failed> {
    let mut entropy = SystemEntropy::new();
    let mut end = || policy.algorithms().agree(&mut entropy, KeyLayout::default());
    let (client, server) = (end(), end());
    let at_server = server.keys(Role::Server, client.nonce(), encrypt)?;
    Ok((client.keys(Role::Client, server.nonce(), encrypt)?, at_server))
}

/// A chunk as it is before it is protected; its sequence number is 1.
fn chunk(size: usize) -> Vec<u8> {
    let mut chunk = vec![0; HEADERS + size];
    chunk[..4].copy_from_slice(b"MSGF");
    chunk[CLEAR] = 1;
    chunk
}

fn sealing(policy: SecurityPolicyId, encrypt: bool, size: usize) -> Result<Once, Failed> {
    let (client, _) = keys(policy, encrypt)?;
    let (plain, mut out) = (chunk(size), Vec::new());
    Ok(Box::new(move || {
        out.clear();
        out.extend_from_slice(&plain);
        Ok(client.send.seal(&mut out, 0)?)
    }))
}

fn opening(policy: SecurityPolicyId, encrypt: bool, size: usize) -> Result<Once, Failed> {
    let (client, server) = keys(policy, encrypt)?;
    let mut sealed = chunk(size);
    client.send.seal(&mut sealed, 0)?;
    let mut opened = sealed.clone();
    Ok(Box::new(move || {
        opened.copy_from_slice(&sealed);
        let (header, rest) = opened.split_at_mut(CLEAR);
        used(server.receive.open(header, rest, 0)?);
        Ok(())
    }))
}
