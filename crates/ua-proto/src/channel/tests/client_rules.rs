//! The same rules at the client's end, one row each: what a rogue server sends, when, and how the channel ends. Nothing
//! of it is delivered, except what came before by the rules.

use std::sync::Arc;

use opcua_types::{MessageSecurityMode, StatusCode};

use super::rules::{acknowledge, chunk, hello_bytes};
use super::{World, closed, messages, put};
use crate::channel::{ChannelEvent, ClientChannel};
use crate::crypto::SecurityPolicyId;
use crate::testing::{Counting, noon};
use crate::wire::{ChunkKind, MessageHeader, MessageKind, OpenHeader, OpenResponse, SequenceHeader, finish};

const NONE: &str = "http://opcfoundation.org/UA/SecurityPolicy#None";

/// How far the rogue server goes by the rules before it breaks one.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// Hello is out.
    Hello,
    /// The first OPN is out, with request id 1.
    Opening,
    /// Channel 77, token 1, sequence number 51; the requests 2 and 3 are under way.
    Open,
    /// The same, and a renewal is out with request id 4.
    Renewing,
}

fn client(stage: Stage) -> ClientChannel {
    let world = World::new(2048, 2048);
    let config = world.client_config(SecurityPolicyId::None, MessageSecurityMode::None);
    let mut client = ClientChannel::new(Arc::new(config), noon()).unwrap();
    let mut entropy = Counting(1);
    if stage != Stage::Hello {
        client.receive(&acknowledge(), noon(), &mut entropy);
    }
    if matches!(stage, Stage::Open | Stage::Renewing) {
        client.receive(&open(77, 1, 51, 1), noon(), &mut entropy);
        let ids = [b"a", b"b"].map(|body| client.send(&mut |out| put(out, body), noon()).unwrap());
        assert_eq!(ids, [2, 3]);
    }
    if stage == Stage::Renewing {
        client.handle_timeout(noon().after(std::time::Duration::from_secs(75)), &mut entropy);
    }
    assert!(!client.is_closed());
    while client.poll_event().is_some() {}
    client
}

/// The answer to an OPN, without protection.
fn open(channel_id: u32, token_id: u32, number: u32, request_id: u32) -> Vec<u8> {
    let mut out = Vec::new();
    MessageHeader::begin(MessageKind::Open, ChunkKind::Final, &mut out);
    OpenHeader { channel_id, policy_uri: NONE, sender: None, receiver: None, end: 0 }.put(&mut out);
    SequenceHeader { number, request_id }.put(&mut out);
    let response = OpenResponse {
        request_handle: request_id,
        status: StatusCode::Good,
        channel_id,
        token_id,
        lifetime_ms: 100_000,
        nonce: Vec::new().into(),
    };
    response.put(noon().unix, &mut out).unwrap();
    finish(&mut out, 0);
    out
}

fn msg(part: ChunkKind, number: u32, request_id: u32, body: &[u8]) -> Vec<u8> {
    chunk(MessageKind::Message, part, (77, 1), number, request_id, body)
}

/// A rule, the stage it is broken in, the bytes, how many messages were delivered before, and how it ends.
type Rule = (&'static str, Stage, Vec<u8>, usize, StatusCode);

fn before_open() -> Vec<Rule> {
    use ChunkKind::Final;
    use Stage::{Hello, Opening};
    use StatusCode as S;
    let small = [&b"ACKF\x1c\0\0\0\0\0\0\0"[..], &[0; 16]].concat();
    vec![
        ("the first answer is Acknowledge", Hello, open(77, 1, 51, 1), 0, S::BadTcpMessageTypeInvalid),
        ("no message before Acknowledge", Hello, msg(Final, 51, 1, b"x"), 0, S::BadTcpMessageTypeInvalid),
        ("servers send no Hello", Hello, hello_bytes(|_| {}), 0, S::BadTcpMessageTypeInvalid),
        ("another protocol is not spoken", Hello, b"HTTP/1.1 400".to_vec(), 0, S::BadTcpMessageTypeInvalid),
        ("buffers have a minimum", Hello, small, 0, S::BadTcpNotEnoughResources),
        ("Acknowledge comes once", Opening, acknowledge(), 0, S::BadTcpMessageTypeInvalid),
        ("no message before the channel is open", Opening, msg(Final, 51, 1, b"x"), 0, S::BadTcpMessageTypeInvalid),
        ("a channel has an id", Opening, open(0, 1, 51, 1), 0, S::BadTcpSecureChannelUnknown),
        ("an open answers what was asked", Opening, open(77, 1, 51, 2), 0, S::BadSecurityChecksFailed),
    ]
}

fn while_open() -> Vec<Rule> {
    use ChunkKind::{Abort, Final, Intermediate};
    use Stage::Open;
    use StatusCode as S;
    let two = |a: Vec<u8>, b: Vec<u8>| [a, b].concat();
    let other = |ids: (u32, u32)| chunk(MessageKind::Message, Final, ids, 52, 2, b"x");
    let answer = msg(Final, 52, 2, b"x");
    let aborted = [0, 0, 0xb8, 0x80, 0xff, 0xff, 0xff, 0xff];
    vec![
        ("a response answers a request", Open, msg(Final, 52, 9, b"x"), 0, S::BadSecurityChecksFailed),
        ("an OPN's request id is no request", Open, msg(Final, 52, 1, b"x"), 0, S::BadSecurityChecksFailed),
        ("an answer comes once", Open, two(answer.clone(), msg(Final, 53, 2, b"x")), 1, S::BadSecurityChecksFailed),
        ("an answer is not repeated", Open, two(answer.clone(), answer), 1, S::BadSequenceNumberInvalid),
        ("a number is not skipped", Open, msg(Final, 53, 2, b"x"), 0, S::BadSequenceNumberInvalid),
        (
            "chunks are not reordered",
            Open,
            two(msg(Final, 53, 2, b"x"), msg(Intermediate, 52, 2, b"x")),
            0,
            S::BadSequenceNumberInvalid,
        ),
        (
            "chunks of two responses are not interleaved",
            Open,
            two(msg(Intermediate, 52, 2, b"x"), msg(Final, 53, 3, b"y")),
            0,
            S::BadSecurityChecksFailed,
        ),
        (
            "an abort is for the message at hand",
            Open,
            two(msg(Intermediate, 52, 2, b"x"), msg(Abort, 53, 3, &aborted)),
            0,
            S::BadSecurityChecksFailed,
        ),
        (
            "what was aborted is answered",
            Open,
            two(msg(Abort, 52, 2, &aborted), msg(Final, 53, 2, b"x")),
            0,
            S::BadSecurityChecksFailed,
        ),
        ("an abort answers a request", Open, msg(Abort, 52, 9, &aborted), 0, S::BadSecurityChecksFailed),
        ("an abort has a status", Open, msg(Abort, 52, 2, b"x"), 0, S::BadDecodingError),
        ("a message names its channel", Open, other((78, 1)), 0, S::BadTcpSecureChannelUnknown),
        ("a message names its token", Open, other((77, 2)), 0, S::BadSecureChannelTokenUnknown),
        ("a chunk has its headers", Open, b"MSGF\x0c\0\0\0\x4d\0\0\0".to_vec(), 0, S::BadDecodingError),
        ("a chunk fits the buffer", Open, b"MSGF\x01\0\x01\0".to_vec(), 0, S::BadTcpMessageTooLarge),
        ("no open that was not asked for", Open, open(77, 2, 52, 1), 0, S::BadTcpMessageTypeInvalid),
        ("Acknowledge does not come again", Open, acknowledge(), 0, S::BadTcpMessageTypeInvalid),
    ]
}

fn while_renewing() -> Vec<Rule> {
    use ChunkKind::{Final, Intermediate};
    use Stage::Renewing;
    use StatusCode as S;
    let two = |a: Vec<u8>, b: Vec<u8>| [a, b].concat();
    let renewed = || open(77, 2, 52, 4);
    vec![
        ("a renewal keeps the channel", Renewing, open(78, 2, 52, 4), 0, S::BadTcpSecureChannelUnknown),
        ("a renewal answers the renewal", Renewing, open(77, 2, 52, 1), 0, S::BadSecurityChecksFailed),
        ("the first open is not repeated", Renewing, open(77, 1, 51, 1), 0, S::BadSequenceNumberInvalid),
        ("a renewal is answered once", Renewing, two(renewed(), open(77, 3, 53, 4)), 0, S::BadTcpMessageTypeInvalid),
        ("a renewal has the next number", Renewing, open(77, 2, 53, 4), 0, S::BadSequenceNumberInvalid),
        ("a renewal is no answer", Renewing, msg(Final, 52, 4, b"x"), 0, S::BadSecurityChecksFailed),
        (
            "no renewal comes inside a message",
            Renewing,
            two(msg(Intermediate, 52, 2, b"x"), open(77, 2, 53, 4)),
            0,
            S::BadSecurityChecksFailed,
        ),
        (
            "a message is not repeated after a renewal",
            Renewing,
            [msg(Final, 52, 2, b"x"), open(77, 2, 53, 4), msg(Final, 52, 2, b"x")].concat(),
            1,
            S::BadSequenceNumberInvalid,
        ),
        (
            "a message is answered once, under whichever token",
            Renewing,
            [renewed(), msg(Final, 53, 2, b"x"), chunk(MessageKind::Message, Final, (77, 2), 54, 2, b"x")].concat(),
            1,
            S::BadSecurityChecksFailed,
        ),
    ]
}

#[test]
fn every_rule_of_the_channel_holds_at_the_client() {
    for (name, stage, sends, delivered, status) in [before_open(), while_open(), while_renewing()].concat() {
        // Whole, and byte by byte: framing must not change what is decided.
        for piece in [sends.len(), 1] {
            let mut client = client(stage);
            for bytes in sends.chunks(piece) {
                client.receive(bytes, noon(), &mut Counting(2));
            }
            let mut events: Vec<ChannelEvent> = std::iter::from_fn(|| client.poll_event()).collect();
            assert_eq!(closed(&events), Some(status), "{name}");
            let delivered_to: Vec<u32> = messages(&mut events).into_iter().map(|(id, _)| id).collect();
            assert_eq!(delivered_to, vec![2; delivered], "{name}");
            assert!(client.is_closed() && client.poll_timeout().is_none());
        }
    }
}

#[test]
fn by_the_rules_the_rogue_server_is_heard() {
    let mut client = client(Stage::Renewing);
    let answers = [
        msg(ChunkKind::Intermediate, 52, 3, b"in "),
        msg(ChunkKind::Final, 53, 3, b"order"),
        open(77, 2, 54, 4),
        chunk(MessageKind::Message, ChunkKind::Final, (77, 1), 55, 2, b"late"),
    ];
    client.receive(&answers.concat(), noon(), &mut Counting(2));
    let mut events: Vec<ChannelEvent> = std::iter::from_fn(|| client.poll_event()).collect();
    assert_eq!(messages(&mut events), [(3, b"in order".to_vec()), (2, b"late".to_vec())]);
    assert!(matches!(events.as_slice(), [ChannelEvent::Renewed]));
}
