//! The rules of the transport and the channel (facts sections 5.1 and 5.2, DESIGN D2), one row each: what a rogue client
//! sends, what it is told, and what the audit says.

use std::sync::Arc;
use std::time::Duration;

use access_model::Reason;
use opcua_types::{MessageSecurityMode, StatusCode};

use super::{MODES, World, closed, of, opened, refusal};
use crate::Entropy;
use crate::channel::task::seal_open;
use crate::channel::{ChannelEvent, ChannelSecurity, ServerChannel};
use crate::crypto::{KeyAgreement, KeyLayout, SecurityPolicyId};
use crate::testing::{Counting, identity, noon};
use crate::wire::{
    Acknowledge, ChunkKind, Hello, MessageHeader, MessageKind, OpenHeader, OpenRequest, SequenceHeader, finish,
};

fn hello() -> Hello {
    Hello {
        protocol_version: 0,
        receive_buffer: 65_536,
        send_buffer: 65_536,
        max_message: 0,
        max_chunks: 0,
        endpoint_url: "opc.tcp://plant.example".into(),
    }
}

pub(super) fn hello_bytes(change: impl FnOnce(&mut Hello)) -> Vec<u8> {
    let mut hello = hello();
    change(&mut hello);
    let mut out = Vec::new();
    hello.put(&mut out);
    out
}

fn request(change: impl FnOnce(&mut OpenRequest)) -> OpenRequest {
    let mut request = OpenRequest {
        request_handle: 1,
        issue: true,
        mode: MessageSecurityMode::None,
        nonce: Vec::new().into(),
        lifetime_ms: 100_000,
    };
    change(&mut request);
    request
}

/// An OPN without protection.
fn open(channel_id: u32, uri: &str, number: u32, change: impl FnOnce(&mut OpenRequest)) -> Vec<u8> {
    let mut out = Vec::new();
    MessageHeader::begin(MessageKind::Open, ChunkKind::Final, &mut out);
    OpenHeader { channel_id, policy_uri: uri, sender: None, receiver: None, end: 0 }.put(&mut out);
    SequenceHeader { number, request_id: 1 }.put(&mut out);
    request(change).put(noon().unix, &mut out).unwrap();
    finish(&mut out, 0);
    out
}

/// A MSG or CLO chunk without protection.
pub(super) fn chunk(
    kind: MessageKind,
    part: ChunkKind,
    ids: (u32, u32),
    number: u32,
    request_id: u32,
    body: &[u8],
) -> Vec<u8> {
    let mut out = Vec::new();
    MessageHeader::begin(kind, part, &mut out);
    out.extend_from_slice(&ids.0.to_le_bytes());
    out.extend_from_slice(&ids.1.to_le_bytes());
    SequenceHeader { number, request_id }.put(&mut out);
    out.extend_from_slice(body);
    finish(&mut out, 0);
    out
}

fn msg(part: ChunkKind, number: u32, request_id: u32, body: &[u8]) -> Vec<u8> {
    chunk(MessageKind::Message, part, (77, 1), number, request_id, body)
}

fn patched(mut bytes: Vec<u8>, at: usize, with: &[u8]) -> Vec<u8> {
    bytes[at..at + with.len()].copy_from_slice(with);
    bytes
}

const NONE: &str = "http://opcfoundation.org/UA/SecurityPolicy#None";

/// How far the rogue client goes by the rules before it breaks one.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    New,
    Acknowledged,
    Open,
}

fn at(stage: Stage, server: &mut ServerChannel) {
    let mut entropy = Counting(1);
    if stage != Stage::New {
        server.receive(&hello_bytes(|_| {}), noon(), &mut entropy);
    }
    if stage == Stage::Open {
        server.receive(&open(0, NONE, 51, |_| {}), noon(), &mut entropy);
    }
    server.outgoing().clear();
    while server.poll_event().is_some() {}
}

fn events(server: &mut ServerChannel) -> Vec<ChannelEvent> {
    std::iter::from_fn(|| server.poll_event()).collect()
}

struct Rule {
    name: &'static str,
    stage: Stage,
    sends: Vec<u8>,
    told: StatusCode,
    /// The true status in the audit.
    truth: StatusCode,
}

fn rule(name: &'static str, stage: Stage, sends: Vec<u8>, told: StatusCode) -> Rule {
    Rule { name, stage, sends, told, truth: told }
}

fn hidden(name: &'static str, stage: Stage, sends: Vec<u8>, truth: StatusCode) -> Rule {
    Rule { name, stage, sends, told: StatusCode::BadSecurityChecksFailed, truth }
}

fn transport_rules() -> Vec<Rule> {
    use Stage::{Acknowledged, New};
    use StatusCode as S;
    vec![
        rule(
            "another protocol is refused on its first bytes",
            New,
            b"GET / HTTP/1.1".to_vec(),
            S::BadTcpMessageTypeInvalid,
        ),
        rule("the first message is Hello", New, msg(ChunkKind::Final, 1, 1, b""), S::BadTcpMessageTypeInvalid),
        rule("an open before Hello is refused", New, open(0, NONE, 1, |_| {}), S::BadTcpMessageTypeInvalid),
        rule("Hello is one chunk", New, patched(hello_bytes(|_| {}), 3, b"C"), S::BadTcpMessageTypeInvalid),
        rule("a chunk kind is F, C or A", New, patched(hello_bytes(|_| {}), 3, b"X"), S::BadTcpMessageTypeInvalid),
        rule("a message is not smaller than its header", New, b"HELF\x07\0\0\0".to_vec(), S::BadDecodingError),
        rule("Hello has a bound", New, b"HELF\0\0\x01\0".to_vec(), S::BadTcpMessageTooLarge),
        rule(
            "the endpoint URL has a bound",
            New,
            hello_bytes(|h| h.endpoint_url = "x".repeat(4097)),
            S::BadTcpEndpointUrlInvalid,
        ),
        rule("the endpoint URL is UTF-8", New, patched(hello_bytes(|_| {}), 32, b"\xff"), S::BadDecodingError),
        rule(
            "a receive buffer has a minimum",
            New,
            hello_bytes(|h| h.receive_buffer = 8191),
            S::BadTcpNotEnoughResources,
        ),
        rule("a send buffer has a minimum", New, hello_bytes(|h| h.send_buffer = 0), S::BadTcpNotEnoughResources),
        rule("nothing follows the URL", New, trailing(), S::BadDecodingError),
        rule("an Acknowledge comes from servers", New, acknowledge(), S::BadTcpMessageTypeInvalid),
        rule("Hello comes once", Acknowledged, hello_bytes(|_| {}), S::BadTcpMessageTypeInvalid),
        rule(
            "a message needs an open channel",
            Acknowledged,
            msg(ChunkKind::Final, 1, 1, b""),
            S::BadTcpMessageTypeInvalid,
        ),
        rule(
            "a close needs an open channel",
            Acknowledged,
            chunk(MessageKind::Close, ChunkKind::Final, (0, 0), 1, 1, b""),
            S::BadTcpMessageTypeInvalid,
        ),
    ]
}

fn trailing() -> Vec<u8> {
    let mut bytes = hello_bytes(|_| {});
    bytes.push(0);
    finish(&mut bytes, 0);
    bytes
}

pub(super) fn acknowledge() -> Vec<u8> {
    let mut out = Vec::new();
    let acknowledge =
        Acknowledge { protocol_version: 0, receive_buffer: 8192, send_buffer: 8192, max_message: 0, max_chunks: 0 };
    acknowledge.put(&mut out);
    out
}

fn open_rules() -> Vec<Rule> {
    use Stage::{Acknowledged, Open};
    use StatusCode as S;
    let policy = |name: &str| open(0, &format!("http://opcfoundation.org/UA/SecurityPolicy#{name}"), 1, |_| {});
    vec![
        rule(
            "an open is one chunk",
            Acknowledged,
            patched(open(0, NONE, 1, |_| {}), 3, b"C"),
            S::BadTcpMessageTypeInvalid,
        ),
        rule("an open has a bound", Acknowledged, b"OPNF\x01\x40\0\0".to_vec(), S::BadTcpMessageTooLarge),
        rule("Basic128Rsa15 is refused", Acknowledged, policy("Basic128Rsa15"), S::BadSecurityPolicyRejected),
        rule("Basic256 is refused", Acknowledged, policy("Basic256"), S::BadSecurityPolicyRejected),
        rule("an unknown policy is refused", Acknowledged, policy("Rot13"), S::BadSecurityPolicyRejected),
        rule("a protected open names its sender", Acknowledged, policy("Basic256Sha256"), S::BadSecurityChecksFailed),
        rule("a new channel has no id yet", Acknowledged, open(5, NONE, 1, |_| {}), S::BadTcpSecureChannelUnknown),
        rule(
            "without a policy the mode is None",
            Acknowledged,
            open(0, NONE, 1, |r| r.mode = MessageSecurityMode::Sign),
            S::BadSecurityModeRejected,
        ),
        rule(
            "the mode is a mode",
            Acknowledged,
            open(0, NONE, 1, |r| r.mode = MessageSecurityMode::Invalid),
            S::BadSecurityModeRejected,
        ),
        rule(
            "a new channel is issued, not renewed",
            Acknowledged,
            open(0, NONE, 1, |r| r.issue = false),
            S::BadRequestTypeInvalid,
        ),
        rule(
            "the body of an open is an OpenSecureChannelRequest",
            Acknowledged,
            opened_by_garbage(),
            S::BadDecodingError,
        ),
        rule("an open channel is renewed, not issued", Open, open(77, NONE, 52, |_| {}), S::BadRequestTypeInvalid),
        rule(
            "a renewal names its channel",
            Open,
            open(78, NONE, 52, |r| r.issue = false),
            S::BadTcpSecureChannelUnknown,
        ),
        hidden(
            "a renewal keeps the policy",
            Open,
            open(77, SecurityPolicyId::Basic256Sha256.uri(), 52, |_| {}),
            S::BadSecurityChecksFailed,
        ),
        hidden(
            "a renewal has the next sequence number",
            Open,
            open(77, NONE, 53, |r| r.issue = false),
            S::BadSequenceNumberInvalid,
        ),
    ]
}

fn opened_by_garbage() -> Vec<u8> {
    let mut bytes = open(0, NONE, 1, |_| {});
    let end = bytes.len() - 1;
    bytes.truncate(end);
    finish(&mut bytes, 0);
    bytes
}

fn message_rules() -> Vec<Rule> {
    use ChunkKind::{Abort, Final, Intermediate};
    use Stage::Open;
    use StatusCode as S;
    let two = |a: Vec<u8>, b: Vec<u8>| [a, b].concat();
    let many: Vec<u8> = (0..513).flat_map(|n| msg(Intermediate, 52 + n, 9, b"x")).collect();
    let piece = vec![0; 65_000];
    let large: Vec<u8> = (0..65).flat_map(|n| msg(Intermediate, 52 + n, 9, &piece)).collect();
    let other = |ids: (u32, u32)| chunk(MessageKind::Message, Final, ids, 52, 9, b"x");
    vec![
        rule("a message names its channel", Open, other((78, 1)), S::BadTcpSecureChannelUnknown),
        rule("a message names its token", Open, other((77, 2)), S::BadSecureChannelTokenUnknown),
        rule("a chunk fits the negotiated buffer", Open, b"MSGF\x01\0\x01\0".to_vec(), S::BadTcpMessageTooLarge),
        rule("a chunk has its headers", Open, b"MSGF\x0c\0\0\0\x4d\0\0\0".to_vec(), S::BadDecodingError),
        hidden("a sequence number is not skipped", Open, msg(Final, 53, 9, b"x"), S::BadSequenceNumberInvalid),
        hidden("a sequence number is not repeated", Open, msg(Final, 51, 9, b"x"), S::BadSequenceNumberInvalid),
        hidden(
            "a message is not repeated",
            Open,
            two(msg(Final, 52, 9, b"x"), msg(Final, 52, 9, b"x")),
            S::BadSequenceNumberInvalid,
        ),
        hidden(
            "chunks are not reordered",
            Open,
            two(msg(Intermediate, 53, 9, b"x"), msg(Final, 52, 9, b"x")),
            S::BadSequenceNumberInvalid,
        ),
        hidden("a sequence number wraps late only", Open, msg(Final, 1, 9, b"x"), S::BadSequenceNumberInvalid),
        hidden(
            "chunks of two messages are not interleaved",
            Open,
            two(msg(Intermediate, 52, 9, b"x"), msg(Final, 53, 10, b"x")),
            S::BadSecurityChecksFailed,
        ),
        hidden(
            "no open comes inside a message",
            Open,
            two(msg(Intermediate, 52, 9, b"x"), open(77, NONE, 53, |r| r.issue = false)),
            S::BadSecurityChecksFailed,
        ),
        hidden(
            "an abort is for the message at hand",
            Open,
            two(msg(Intermediate, 52, 9, b"x"), msg(Abort, 53, 10, &[0; 8])),
            S::BadSecurityChecksFailed,
        ),
        rule("an abort has a status", Open, msg(Abort, 52, 9, b"x"), S::BadDecodingError),
        hidden(
            "a request id is used once at a time",
            Open,
            two(msg(Final, 52, 9, b"x"), msg(Final, 53, 9, b"x")),
            S::BadSecurityChecksFailed,
        ),
        rule("a message has a bound in chunks", Open, many, S::BadRequestTooLarge),
        rule("a message has a bound in bytes", Open, large, S::BadRequestTooLarge),
        rule(
            "a close is one chunk",
            Open,
            chunk(MessageKind::Close, Intermediate, (77, 1), 52, 9, b""),
            S::BadTcpMessageTypeInvalid,
        ),
        rule(
            "a close names its token",
            Open,
            chunk(MessageKind::Close, Final, (77, 2), 52, 9, b""),
            S::BadSecureChannelTokenUnknown,
        ),
        rule("clients send no errors", Open, b"ERRF\x10\0\0\0\0\0\0\0\0\0\0\0".to_vec(), S::BadTcpMessageTypeInvalid),
        rule("Hello does not come again", Open, hello_bytes(|_| {}), S::BadTcpMessageTypeInvalid),
    ]
}

/// The status in the ERR that ends `bytes`.
fn err_status(bytes: &[u8]) -> Option<(StatusCode, usize)> {
    let start = bytes.windows(4).rposition(|window| window == b"ERRF")?;
    let status = u32::from_le_bytes(bytes[start + 8..start + 12].try_into().ok()?);
    Some((StatusCode::from(status), bytes.len() - start))
}

#[test]
fn every_rule_of_the_transport_and_the_channel_holds() {
    let world = World::new(2048, 2048);
    for rule in [transport_rules(), open_rules(), message_rules()].concat_rules() {
        // Whole, and byte by byte: framing must not change what is decided.
        for piece in [usize::MAX, 1] {
            let mut server = ServerChannel::new(77, world.config.clone(), noon());
            at(rule.stage, &mut server);
            if piece == 1 && rule.sends.len() > 100_000 {
                continue;
            }
            for bytes in rule.sends.chunks(piece.min(rule.sends.len())) {
                server.receive(bytes, noon(), &mut Counting(2));
            }
            let events = events(&mut server);
            assert_eq!(closed(&events), Some(rule.told), "{}", rule.name);
            let (told, length) = err_status(server.outgoing()).expect(rule.name);
            assert_eq!(told, rule.told, "{}", rule.name);
            // ERR without a reason has 16 bytes: security failures are not explained.
            assert_eq!(length == 16, rule.told == StatusCode::BadSecurityChecksFailed, "{}", rule.name);
            assert_eq!(refusal(&events).expect(rule.name).status, rule.truth, "{}", rule.name);
            assert!(server.is_closed() && server.poll_timeout().is_none());
        }
    }
}

trait ConcatRules {
    fn concat_rules(self) -> Vec<Rule>;
}

impl ConcatRules for [Vec<Rule>; 3] {
    fn concat_rules(self) -> Vec<Rule> {
        self.into_iter().flatten().collect()
    }
}

#[test]
fn by_the_rules_the_rogue_client_gets_in() {
    let world = World::new(2048, 2048);
    let mut server = ServerChannel::new(77, world.config.clone(), noon());
    server.receive(&hello_bytes(|_| {}), noon(), &mut Counting(1));
    server.receive(&open(0, NONE, 51, |_| {}), noon(), &mut Counting(1));
    assert!(opened(&events(&mut server)));
    assert_eq!(server.endpoint_url(), "opc.tcp://plant.example");
    // An abort drops its message and keeps the channel; the next message is whole.
    let bytes = [
        msg(ChunkKind::Intermediate, 52, 9, b"dropped"),
        msg(ChunkKind::Abort, 53, 9, &[0, 0, 0xb8, 0x80, 0xff, 0xff, 0xff, 0xff]),
        msg(ChunkKind::Intermediate, 54, 9, b"ke"),
        msg(ChunkKind::Final, 55, 9, b"pt"),
    ];
    server.receive(&bytes.concat(), noon(), &mut Counting(1));
    let bodies: Vec<_> = events(&mut server)
        .into_iter()
        .filter_map(|event| match event {
            ChannelEvent::Message { body, .. } => Some(body),
            _ => None,
        })
        .collect();
    assert_eq!(bodies, [b"kept".to_vec()]);
    server.receive(&open(77, NONE, 56, |r| r.issue = false), noon(), &mut Counting(1));
    assert!(matches!(events(&mut server).as_slice(), [ChannelEvent::Renewed]));
}

#[test]
fn hello_and_open_have_their_times() {
    let world = World::new(2048, 2048);
    for (stage, seconds) in [(Stage::New, 10), (Stage::Acknowledged, 10)] {
        let mut server = ServerChannel::new(77, world.config.clone(), noon());
        at(stage, &mut server);
        let due = noon().after(Duration::from_secs(seconds));
        assert_eq!(server.poll_timeout(), Some(due.mono));
        server.handle_timeout(noon().after(Duration::from_millis(seconds * 1000 - 1)));
        assert!(!server.is_closed());
        server.handle_timeout(due);
        assert_eq!(closed(&events(&mut server)), Some(StatusCode::BadTimeout), "{stage:?}");
    }
}

#[test]
fn before_the_channel_is_open_a_peer_makes_us_hold_little() {
    let world = World::new(2048, 2048);
    // An OPN that never ends.
    let mut server = ServerChannel::new(77, world.config.clone(), noon());
    at(Stage::Acknowledged, &mut server);
    server.receive(b"OPNF\x00\x40\0\0", noon(), &mut Counting(1));
    server.receive(&[0; 16 * 1024 - 9], noon(), &mut Counting(1));
    assert!(!server.is_closed());
    assert!(server.held() <= 32 * 1024, "{}", server.held());
    // A flood behind an OPN that is worked on.
    let mut server = ServerChannel::new(77, world.config.clone(), noon());
    at(Stage::Acknowledged, &mut server);
    let mut rogue = Rogue::new(&world, SecurityPolicyId::Basic256Sha256, MODES[1]);
    let bytes = rogue.open(1, |_| {});
    server.receive(&bytes, noon(), &mut Counting(1));
    assert!(!server.wants_input() && !server.is_closed());
    server.receive(&[0; 64 * 1024], noon(), &mut Counting(1));
    assert_eq!(closed(&events(&mut server)), Some(StatusCode::BadTcpNotEnoughResources));
    assert_eq!(server.held(), 0);
}

#[test]
fn requests_beyond_the_bound_wait_in_the_peer() {
    let world = World::with(2048, 2048, |config| config.limits.max_pending = 2);
    let mut server = ServerChannel::new(77, world.config.clone(), noon());
    at(Stage::Open, &mut server);
    let bytes: Vec<u8> = (0..3).flat_map(|n| msg(ChunkKind::Final, 52 + n, 9 + n, b"x")).collect();
    server.receive(&bytes, noon(), &mut Counting(1));
    assert_eq!(events(&mut server).len(), 2);
    assert!(!server.wants_input());
    server.send(9, &mut |_| Ok(()), noon()).unwrap();
    assert!(server.wants_input());
    server.receive(&[], noon(), &mut Counting(1));
    assert_eq!(events(&mut server).len(), 1);
}

#[test]
fn a_peer_that_does_not_read_is_not_read() {
    let world = World::with(2048, 2048, |config| config.limits.max_outgoing = 10_000);
    let mut server = ServerChannel::new(77, world.config.clone(), noon());
    at(Stage::Open, &mut server);
    server.receive(&msg(ChunkKind::Final, 52, 9, b"x"), noon(), &mut Counting(1));
    assert_eq!(events(&mut server).len(), 1);
    let large = vec![0; 20_000];
    server.send(9, &mut |out| super::put(out, &large), noon()).unwrap();
    assert!(!server.wants_input());
    server.receive(&msg(ChunkKind::Final, 53, 10, b"y"), noon(), &mut Counting(1));
    assert!(events(&mut server).is_empty());
    server.outgoing().clear();
    server.receive(&[], noon(), &mut Counting(1));
    assert_eq!(events(&mut server).len(), 1);
}

#[test]
fn requests_wait_while_answers_pile_up_and_end_with_the_channel() {
    type End = fn(&mut ServerChannel);
    let cases: [(&str, End, usize); 3] = [
        ("the answers are taken", |server| server.outgoing().clear(), 2),
        ("closed in order: what was asked before is done", ServerChannel::close, 2),
        ("ended by the server", |server| server.fail(StatusCode::BadTimeout, ""), 0),
    ];
    for (case, end, left) in cases {
        let world = World::with(2048, 2048, |config| config.limits.max_outgoing = 10_000);
        let mut server = ServerChannel::new(77, world.config.clone(), noon());
        at(Stage::Open, &mut server);
        let bytes: Vec<u8> = (0..3).flat_map(|n| msg(ChunkKind::Final, 52 + n, 9 + n, b"x")).collect();
        server.receive(&bytes, noon(), &mut Counting(1));
        assert!(matches!(server.poll_event(), Some(ChannelEvent::Message { request_id: 9, .. })), "{case}");
        let large = vec![0; 20_000];
        server.send(9, &mut |out| super::put(out, &large), noon()).unwrap();
        assert!(server.poll_event().is_none() && !server.holds_input(), "{case}");
        end(&mut server);
        assert_eq!(server.holds_input(), !server.is_closed(), "{case}");
        let requests = events(&mut server).into_iter().filter(|event| matches!(event, ChannelEvent::Message { .. }));
        assert_eq!(requests.count(), left, "{case}");
    }
}

/// A client with keys that says what it likes.
struct Rogue {
    security: ChannelSecurity,
    agreement: Box<dyn KeyAgreement>,
}

impl Rogue {
    fn new(world: &World, policy: SecurityPolicyId, mode: MessageSecurityMode) -> Self {
        let mut entropy: Box<dyn Entropy> = Box::new(Counting(99));
        Self {
            security: ChannelSecurity {
                channel_id: 0,
                policy,
                mode,
                peer: Some(of(&world.server, policy).certificate.clone()),
                own: Some(of(&world.client, policy)),
                discovery_only: false,
            },
            agreement: policy.algorithms().agree(&mut *entropy, KeyLayout::default()),
        }
    }

    fn open(&mut self, number: u32, change: impl FnOnce(&mut OpenRequest)) -> Vec<u8> {
        let request = request(|request| {
            request.mode = self.security.mode;
            request.nonce = self.agreement.nonce().to_vec().into();
            change(request);
        });
        let sequence = SequenceHeader { number, request_id: number };
        let put = |out: &mut Vec<u8>| request.put(noon().unix, out);
        seal_open(self.security.policy.algorithms(), &self.security, sequence, &put).unwrap()
    }
}

/// Hands `bytes` over and does the work that comes out of it.
fn deliver(server: &mut ServerChannel, bytes: &[u8]) -> Vec<ChannelEvent> {
    server.receive(bytes, noon(), &mut Counting(3));
    let mut seen = Vec::new();
    while let Some(event) = server.poll_event() {
        if let ChannelEvent::Job(job) = event {
            let (id, outcome) = job.run();
            server.job_done(id, outcome, noon(), &mut Counting(4));
        } else {
            seen.push(event);
        }
    }
    seen
}

#[test]
fn every_rule_of_protected_opens_and_renewals_holds() {
    type Change = fn(&mut Rogue, &World) -> Vec<u8>;
    let rows: [(&str, bool, Change, StatusCode, Reason); 9] = [
        (
            "a nonce has the policy's length",
            false,
            |r, _| r.open(1, |q| q.nonce.truncate(31)),
            StatusCode::BadNonceInvalid,
            Reason::ProtocolMisbehavior,
        ),
        (
            "a nonce is there",
            false,
            |r, _| r.open(1, |q| q.nonce.clear()),
            StatusCode::BadNonceInvalid,
            Reason::ProtocolMisbehavior,
        ),
        (
            "the mode is offered",
            false,
            |r, _| r.open(1, |q| q.mode = MessageSecurityMode::None),
            StatusCode::BadSecurityModeRejected,
            Reason::ChannelPolicy,
        ),
        (
            "the receiver is our certificate",
            false,
            |r, w| {
                r.security.peer = Some(w.client.certificate.clone());
                r.open(1, |_| {})
            },
            StatusCode::BadCertificateInvalid,
            Reason::ChannelSecurity,
        ),
        (
            "a renewal keeps the mode",
            true,
            |r, _| {
                r.open(2, |q| {
                    q.issue = false;
                    q.mode = MessageSecurityMode::Sign;
                })
            },
            StatusCode::BadSecurityChecksFailed,
            Reason::ChannelSecurity,
        ),
        (
            "a renewal keeps the policy",
            true,
            |r, _| {
                r.security.policy = SecurityPolicyId::Aes128Sha256RsaOaep;
                r.open(2, |q| q.issue = false)
            },
            StatusCode::BadSecurityChecksFailed,
            Reason::ChannelSecurity,
        ),
        (
            "a renewal keeps the certificate",
            true,
            |r, w| {
                let other = identity("client2", 2048, 3);
                let trusted = vec![w.client.certificate.clone(), other.certificate.clone()];
                w.server_trust.store(Arc::new(crate::pki::TrustList { trusted, ..Default::default() }));
                r.security.own = Some(Arc::new(other));
                r.open(2, |q| q.issue = false)
            },
            StatusCode::BadSecurityChecksFailed,
            Reason::ChannelSecurity,
        ),
        (
            "a renewal is a renewal",
            true,
            |r, _| r.open(2, |_| {}),
            StatusCode::BadRequestTypeInvalid,
            Reason::ProtocolMisbehavior,
        ),
        (
            "a renewal is not replayed",
            true,
            |r, _| r.open(1, |q| q.issue = false),
            StatusCode::BadSecurityChecksFailed,
            Reason::ProtocolMisbehavior,
        ),
    ];
    for (name, open_first, sends, told, reason) in rows {
        let world = World::new(2048, 2048);
        let mut server = ServerChannel::new(77, world.config.clone(), noon());
        at(Stage::Acknowledged, &mut server);
        let mut rogue = Rogue::new(&world, SecurityPolicyId::Basic256Sha256, MODES[1]);
        if open_first {
            let bytes = rogue.open(1, |_| {});
            assert!(opened(&deliver(&mut server, &bytes)), "{name}");
            rogue.security.channel_id = 77;
        }
        let bytes = sends(&mut rogue, &world);
        let seen = deliver(&mut server, &bytes);
        assert_eq!(closed(&seen), Some(told), "{name}");
        assert_eq!(refusal(&seen).unwrap().reason, Some(reason), "{name}");
    }
}

#[test]
fn only_offered_pairs_of_policy_and_mode_are_accepted() {
    for policy in super::POLICIES {
        for mode in MODES {
            let world = World::with(2048, 2048, |config| {
                config.offered = vec![(SecurityPolicyId::Basic256Sha256, MessageSecurityMode::SignAndEncrypt)];
            });
            let wire = world.connect(policy, mode);
            let fits = (policy, mode) == (SecurityPolicyId::Basic256Sha256, MessageSecurityMode::SignAndEncrypt);
            assert_eq!(opened(&wire.at_client), fits, "{policy} {mode:?}");
        }
    }
}

#[test]
fn the_size_of_no_padding_may_stand_behind_an_open_under_curves_and_nothing_else() {
    let world = World::new(2048, 2048);
    let rows: [(SecurityPolicyId, &[u8], bool); 6] = [
        (SecurityPolicyId::EccNistP256, &[], true),
        (SecurityPolicyId::EccNistP256, &[0], true),
        (SecurityPolicyId::EccCurve25519, &[0], true),
        (SecurityPolicyId::EccNistP256, &[1], false),
        (SecurityPolicyId::EccNistP256, &[0, 0], false),
        (SecurityPolicyId::Basic256Sha256, &[0], false),
    ];
    for (policy, behind, fits) in rows {
        let mut server = ServerChannel::new(77, world.config.clone(), noon());
        at(Stage::Acknowledged, &mut server);
        let rogue = Rogue::new(&world, policy, MODES[1]);
        let request = request(|request| {
            request.mode = MODES[1];
            request.nonce = rogue.agreement.nonce().to_vec().into();
        });
        let put = |out: &mut Vec<u8>| {
            request.put(noon().unix, out)?;
            out.extend_from_slice(behind);
            Ok(())
        };
        let sequence = SequenceHeader { number: 1, request_id: 1 };
        let bytes = seal_open(policy.algorithms(), &rogue.security, sequence, &put).unwrap();
        assert_eq!(opened(&deliver(&mut server, &bytes)), fits, "{policy} {behind:?}");
    }
}

#[test]
fn the_outcome_of_another_job_changes_nothing() {
    let world = World::new(2048, 2048);
    let mut server = ServerChannel::new(77, world.config.clone(), noon());
    at(Stage::Acknowledged, &mut server);
    let bytes = Rogue::new(&world, SecurityPolicyId::Basic256Sha256, MODES[1]).open(1, |_| {});
    server.receive(&bytes, noon(), &mut Counting(3));
    server.job_done(crate::JobId::of_channel(77, 99), Box::new(()), noon(), &mut Counting(3));
    assert!(!server.is_closed());
    let Some(ChannelEvent::Job(job)) = server.poll_event() else { panic!("a job was expected") };
    assert_eq!(job.id.channel(), 77);
    // The right id with a wrong outcome ends the channel instead of opening it.
    server.job_done(job.id, Box::new(()), noon(), &mut Counting(3));
    assert!(server.is_closed());
}
