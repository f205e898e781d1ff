//! OPC UA without sockets: what the core of our server and the machine of our client do for one Read on a channel without protection
//! (decode, dispatch, check the right, encode), and what it takes to protect one message and to open it again.

use std::time::Duration;

use cost::whatif::READ;
use token::SystemEntropy;
use ua_proto::client::{ClientEvent, Response};
use ua_proto::crypto::{ChannelKeys, KeyLayout, Role, SecurityPolicyId};

use super::between::Between;
use super::socket::CONNECTIONS;
use super::{Bed, Entry, Once, Timings, used};
use crate::clock::Stopwatch;
use crate::measures::instructions::{Pair, serve};
use crate::random::Random;
use crate::{Failed, fixture, load};

/// Variables of the server.
pub(super) const NODES: u32 = 10_000;
/// Reads at least.
const LEAST: usize = 32;
/// Share of the time that goes by before the first Read counts.
const WARM_UP: f64 = 0.2;
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
    let mut entries = Vec::new();
    for sessions in CONNECTIONS {
        for (end, name) in [(End::Server, "server"), (End::Client, "client")] {
            let name = format!("{name}-of-{sessions}");
            entries.push(Entry::with("read", name, 0, move |bed, time| reads(bed, time, end, sessions)));
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
    // What a single client and its server do with a Read, each asleep before.
    for (encrypt, mode) in [(false, "sign"), (true, "sign-and-encrypt")] {
        for size in [READ.0, READ.1] {
            let name = format!("basic256sha256-{mode}-of-1");
            let once = move |time, seal: bool| {
                let (policy, size) = (SecurityPolicyId::Basic256Sha256, size as usize);
                asleep(time, if seal { sealing(policy, encrypt, size) } else { opening(policy, encrypt, size) }?)
            };
            entries.push(Entry::with("seal", &name, size, move |_, time| once(time, true)));
            entries.push(Entry::with("open", &name, size, move |_, time| once(time, false)));
        }
    }
    entries
}

/// Something that takes microseconds, each time after the thread has slept.
fn asleep(time: Duration, mut once: Once) -> Result<Timings, Failed> {
    let (mut between, watch) = (Between::asleep()?, Stopwatch::start());
    let mut timings = Timings::of(1);
    while timings.cpu.len() < LEAST || watch.seconds() < time.as_secs_f64() {
        between.pass()?;
        let (done, seconds) = lap(&mut once);
        done?;
        if watch.seconds() > WARM_UP * time.as_secs_f64() {
            timings.push(seconds, seconds);
        }
    }
    Ok(timings)
}

/// One Read after the other, each of another of so many sessions, with other work between what the ends do, each of which is timed alone. A
/// single client sends its next Read when the other end has done its part, and each end sleeps meanwhile.
fn reads(bed: &Bed, time: Duration, end: End, sessions: u32) -> Result<Timings, Failed> {
    let (mut pair, activated) =
        (Pair::new(bed.folder(), NODES)?, |event: &ClientEvent| matches!(event, ClientEvent::Activated(_)));
    pair.until(serve, activated)?;
    for _ in 1..sessions {
        pair.another()?;
        pair.until(serve, activated)?;
    }
    let mut between = if sessions == 1 { Between::asleep()? } else { Between::awake()? };
    let (mut random, watch) = (Random::new(1), Stopwatch::start());
    let mut timings = Timings::of(1);
    // Both ends keep their buffers from message to message.
    let (mut request, mut answer) = (Vec::new(), Vec::new());
    while timings.cpu.len() < LEAST || watch.seconds() < time.as_secs_f64() {
        let warm = watch.seconds() > WARM_UP * time.as_secs_f64();
        pair.turn();
        request.clear();
        answer.clear();
        between.pass()?;
        let (done, asked) = lap(|| ask_for(&mut pair, random.below(NODES), &mut request));
        done?;
        between.pass()?;
        let (_, served) = lap(|| {
            serve(&mut pair.server, pair.conn, &request, &mut answer, pair.now);
            // The shell asks when it has sent everything.
            pair.server.holds_input(pair.conn)
        });
        between.pass()?;
        let (told, understood) = lap(|| understand(&mut pair, &answer));
        told?;
        pair.now.mono = pair.now.mono + Duration::from_micros(50);
        if warm {
            let seconds = if end == End::Server { served } else { asked + understood };
            timings.push(seconds, seconds);
        }
    }
    Ok(timings)
}

/// What something gives, and how many seconds it took.
fn lap<T>(once: impl FnOnce() -> T) -> (T, f64) {
    let watch = Stopwatch::start();
    let given = once();
    (given, watch.net())
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
