//! While the private key is at work on an OPN, at either end: what comes meanwhile is not looked at, and is judged
//! afterwards just as if it had come then. One row for each kind of bad luck and malice.

use std::time::Duration;

use opcua_types::{MessageSecurityMode, StatusCode};

use super::rules::{acknowledge, chunk, hello_bytes};
use super::{MODES, Wire, World, closed, opened, renewed};
use crate::crypto::SecurityPolicyId;
use crate::wire::{ChunkKind, MessageKind};

const POLICY: SecurityPolicyId = SecurityPolicyId::Basic256Sha256;
const MODE: MessageSecurityMode = MODES[1];
/// The requests that are under way in an open channel.
const ASKED: [u32; 2] = [2, 3];

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Server,
    Client,
}

/// An end whose job waits, and what its peer has to say meanwhile.
struct Flight {
    wire: Wire,
    /// The OPN that is worked on.
    open: Vec<u8>,
    /// Two messages that follow it by the rules; under other keys when the channel is new.
    messages: [Vec<u8>; 2],
    /// A message of a channel with the same number and other keys.
    foreign: Vec<u8>,
    /// An OPN of another connection.
    foreign_open: Vec<u8>,
}

/// Two messages towards `end`, in the order they were sent.
fn talk(wire: &mut Wire, end: End) -> [Vec<u8>; 2] {
    match end {
        End::Server => [b"one", b"two"].map(|body| {
            wire.ask(body);
            std::mem::take(wire.client.outgoing())
        }),
        End::Client => ASKED.map(|id| {
            wire.answer(id, b"answer");
            std::mem::take(wire.server.outgoing())
        }),
    }
}

fn jobs(wire: &Wire, end: End) -> usize {
    if end == End::Server { wire.server_jobs.len() } else { wire.client_jobs.len() }
}

/// Runs jobs and moves bytes until the OPN towards `end` is ready, and takes it off the wire.
fn open_towards(wire: &mut Wire, end: End) -> Vec<u8> {
    loop {
        let bytes = if end == End::Server { wire.client.outgoing() } else { wire.server.outgoing() };
        if bytes.starts_with(b"OPN") {
            return std::mem::take(bytes);
        }
        let moved = wire.step();
        assert!(wire.work() || moved, "nothing moves");
    }
}

fn feed(wire: &mut Wire, end: End, bytes: &[u8]) {
    match end {
        End::Server => wire.server.receive(bytes, wire.now, &mut wire.entropy),
        End::Client => wire.client.receive(bytes, wire.now, &mut wire.entropy),
    }
    wire.collect();
}

/// An open channel with two requests under way.
fn open_wire(world: &World, seed: u64) -> Wire {
    let mut wire = Wire::new(world, world.client_config(POLICY, MODE));
    wire.entropy = crate::testing::Counting(seed);
    wire.run();
    assert!(opened(&wire.at_client));
    assert_eq!([b"1", b"2"].map(|body| wire.ask(body)), ASKED);
    wire.run();
    assert_eq!(wire.requests().len(), 2);
    wire.slow = true;
    wire
}

fn flight(world: &World, end: End, renewal: bool) -> Flight {
    let mut other = open_wire(world, 99);
    let [foreign, foreign_second] = talk(&mut other, end);
    let mut other = Wire::new(world, world.client_config(POLICY, MODE));
    other.slow = true;
    other.entropy = crate::testing::Counting(98);
    let foreign_open = open_towards(&mut other, end);

    let mut wire = if renewal { open_wire(world, 7) } else { Wire::new(world, world.client_config(POLICY, MODE)) };
    wire.slow = true;
    if renewal {
        wire.pass(Duration::from_secs(75));
    }
    let open = open_towards(&mut wire, end);
    let messages = if renewal { talk(&mut wire, end) } else { [foreign.clone(), foreign_second] };
    wire.at_server.clear();
    wire.at_client.clear();
    Flight { wire, open, messages, foreign, foreign_open }
}

/// What comes meanwhile.
type Sends = fn(&Flight) -> Vec<u8>;
/// How it ends: messages delivered, and the status of the end if there is one.
type Ends = (usize, Option<StatusCode>);

fn rows() -> Vec<(&'static str, Sends, [Ends; 4])> {
    use StatusCode as S;
    const REFUSED: Option<StatusCode> = Some(S::BadSecurityChecksFailed);
    const TYPE: Option<StatusCode> = Some(S::BadTcpMessageTypeInvalid);
    const CHANNEL: Option<StatusCode> = Some(S::BadTcpSecureChannelUnknown);
    vec![
        ("nothing", |_| Vec::new(), [(0, None); 4]),
        ("messages in order", |f| f.messages.concat(), [(0, REFUSED), (2, None), (0, REFUSED), (2, None)]),
        (
            "a truncated message: the rest may still come",
            |f| f.messages[0][..f.messages[0].len() - 1].to_vec(),
            [(0, None); 4],
        ),
        ("a truncated message and the next", |f| [&f.messages[0][..40], &f.messages[1]].concat(), [(0, REFUSED); 4]),
        (
            "a repeated message",
            |f| [&f.messages[0][..], &f.messages[0]].concat(),
            [(0, REFUSED), (1, REFUSED), (0, REFUSED), (1, Some(S::BadSequenceNumberInvalid))],
        ),
        (
            "reordered messages",
            |f| [&f.messages[1][..], &f.messages[0]].concat(),
            [(0, REFUSED), (0, REFUSED), (0, REFUSED), (0, Some(S::BadSequenceNumberInvalid))],
        ),
        ("another channel's message", |f| f.foreign.clone(), [(0, REFUSED); 4]),
        (
            "a message without protection",
            |_| chunk(MessageKind::Message, ChunkKind::Final, (77, 1), 53, 2, b"x"),
            [(0, REFUSED); 4],
        ),
        ("the OPN again", |f| f.open.clone(), [(0, CHANNEL), (0, REFUSED), (0, TYPE), (0, TYPE)]),
        ("another connection's OPN", |f| f.foreign_open.clone(), [(0, CHANNEL), (0, CHANNEL), (0, TYPE), (0, TYPE)]),
        ("Hello", |_| hello_bytes(|_| {}), [(0, TYPE); 4]),
        ("Acknowledge", |_| acknowledge(), [(0, TYPE); 4]),
    ]
}

#[test]
fn what_comes_while_an_open_is_worked_on_is_judged_afterwards_and_no_milder() {
    let world = World::new(2048, 2048);
    let ends = [(End::Server, false), (End::Server, true), (End::Client, false), (End::Client, true)];
    for (name, sends, expected) in rows() {
        for ((end, renewal), (delivered, status)) in ends.into_iter().zip(expected) {
            for meanwhile in [true, false] {
                let case = format!("{name}, at the {end:?}, renewal {renewal}, meanwhile {meanwhile}");
                let mut flight = flight(&world, end, renewal);
                let bytes = sends(&flight);
                let wire = &mut flight.wire;
                feed(wire, end, &flight.open);
                assert_eq!(jobs(wire, end), 1, "{case}");
                if meanwhile {
                    feed(wire, end, &bytes);
                    assert!(wire.at_server.is_empty() && wire.at_client.is_empty(), "{case}: not looked at");
                }
                wire.work();
                if !meanwhile {
                    feed(wire, end, &bytes);
                }
                // What another OPN asked for is not worked on.
                wire.work();
                let at = if end == End::Server { &wire.at_server } else { &wire.at_client };
                assert_eq!(if renewal { renewed(at) } else { usize::from(opened(at)) }, 1, "{case}");
                assert_eq!(closed(at), status, "{case}");
                let got = if end == End::Server { wire.requests() } else { wire.responses() };
                assert_eq!(got.len(), delivered, "{case}");
            }
        }
    }
}
