//! OPC UA without sockets: what the core of our server and the machine of our client do for one Read on a channel without protection
//! (decode, dispatch, check the right, encode), and what it takes to protect one message and to open it again.

use std::time::Duration;

use token::SystemEntropy;
use ua_proto::client::{ClientEvent, Response};
use ua_proto::crypto::{ChannelKeys, KeyLayout, Role, SecurityPolicyId};

use super::{Bed, Entry, Once, Timings, used};
use crate::clock::{Stopwatch, thread_cpu};
use crate::measures::instructions::{Pair, serve};
use crate::random::Random;
use crate::{Failed, fixture, load};

/// Variables of the server.
pub(super) const NODES: u32 = 10_000;
/// Requests that are made, served and understood one behind the other.
const BATCH: u64 = 64;
/// Bytes in front of the body of a chunk: header of the message, ids of channel and token, sequence header.
const HEADERS: usize = 24;
/// Bytes of it that are in the clear.
const CLEAR: usize = 16;
/// Sizes of bodies.
const BODIES: [usize; 3] = [64, 1_024, 16_384];

/// Which end of a channel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Client,
    Server,
}

pub(super) fn entries() -> Vec<Entry> {
    let mut entries = vec![
        Entry::with("read", "server", 0, |bed, time| reads(bed, time, End::Server)),
        Entry::with("read", "client", 0, |bed, time| reads(bed, time, End::Client)),
    ];
    for (policy, name) in [
        (SecurityPolicyId::Basic256Sha256, "basic256sha256"),
        (SecurityPolicyId::Aes128Sha256RsaOaep, "aes128-sha256-rsaoaep"),
        (SecurityPolicyId::EccCurve25519, "ecc-curve25519"),
    ] {
        for (encrypt, mode) in [(false, "sign"), (true, "sign-and-encrypt")] {
            for size in BODIES {
                let name = format!("{name}-{mode}");
                entries.push(Entry::new("seal", &name, size as u64, move |_| sealing(policy, encrypt, size)));
                entries.push(Entry::new("open", &name, size as u64, move |_| opening(policy, encrypt, size)));
            }
        }
    }
    entries
}

/// Each end works through a whole batch before the other has its turn, so that the clock is read seldom.
fn reads(bed: &Bed, time: Duration, end: End) -> Result<Timings, Failed> {
    let mut pair = Pair::new(bed.folder(), NODES)?;
    pair.until(serve, |event| matches!(event, ClientEvent::Activated(_)))?;
    let (mut random, watch) = (Random::new(1), Stopwatch::start());
    let mut timings = Timings { batch: BATCH, cpu: Vec::new(), wall: Vec::new() };
    // The first rounds warm caches up.
    let mut left_out = 3;
    while timings.cpu.len() < 3 || watch.seconds() < time.as_secs_f64() {
        let ask = Lap::start();
        let requests = (0..BATCH).map(|_| ask_for(&mut pair, random.below(NODES))).collect::<Result<Vec<_>, _>>()?;
        let ask = ask.stop();
        let served = Lap::start();
        let answers: Vec<Vec<u8>> = requests.iter().map(|request| answer(&mut pair, request)).collect();
        let served = served.stop();
        let understood = Lap::start();
        answers.iter().try_for_each(|answer| understand(&mut pair, answer))?;
        let understood = understood.stop();
        pair.now.mono = pair.now.mono + Duration::from_millis(2);
        if left_out > 0 {
            left_out -= 1;
            continue;
        }
        let (cpu, wall) = match end {
            End::Server => served,
            End::Client => (ask.0 + understood.0, ask.1 + understood.1),
        };
        timings.cpu.push(cpu / BATCH as f64);
        timings.wall.push(wall / BATCH as f64);
    }
    Ok(timings)
}

/// Processor time and time on the clock since a moment.
struct Lap(f64, Stopwatch);

impl Lap {
    fn start() -> Self {
        Self(thread_cpu(), Stopwatch::start())
    }

    fn stop(self) -> (f64, f64) {
        (thread_cpu() - self.0, self.1.seconds())
    }
}

fn ask_for(pair: &mut Pair, variable: u32) -> Result<Vec<u8>, Failed> {
    pair.client.request(load::value_of(fixture::number(variable)).into(), None, pair.now)?;
    Ok(pair.client.outgoing().map(std::mem::take).unwrap_or_default())
}

fn answer(pair: &mut Pair, request: &[u8]) -> Vec<u8> {
    let mut answer = Vec::new();
    serve(&mut pair.server, request, &mut answer, pair.now);
    answer
}

fn understand(pair: &mut Pair, answer: &[u8]) -> Result<(), Failed> {
    pair.client.receive(answer, pair.now, &mut pair.entropy);
    while let Some(event) = pair.client.poll_event() {
        if let ClientEvent::Answer(_, Ok(Response::Read(read))) = event {
            let value = read.results.iter().flatten().next();
            return value.and_then(|value| value.value.as_ref()).map(|_| ()).ok_or_else(|| "no value".into());
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
