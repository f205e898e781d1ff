//! A guard with a hostile client, and with a hostile server behind it.

use std::time::Duration;

use access_model::Action;
use opcua_types::{
    DateTime, MessageSecurityMode, NodeId, ReadRequest, ReadResponse, ReadValueId, RequestHeader, StatusCode, Variant,
};
use ua_proto::crypto::SecurityPolicyId;
use ua_proto::guard::{Sharing, Upstream};
use ua_proto::server::{Answer, ConnId, EndpointSecurity, Input};
use ua_proto::space::ServerFacts;

use super::Feed;
use super::services::{log_in, send, throw};
use crate::world::{Peer, RawPeer, Setup, URL, World, asked_of, scope_of, variable_id};

const BARE: EndpointSecurity = (SecurityPolicyId::None, MessageSecurityMode::None);

fn start() -> (World, ConnId, NodeId) {
    let mut world = Setup::open_to_some().start_guarded(BARE, Sharing::Never);
    let now = world.now();
    let conn = world.connect(Peer::Raw(Box::new(RawPeer::unprotected(URL, now))));
    world.run();
    let token = log_in(&mut world, conn).expect("anonymous may log in");
    (world, conn, token)
}

/// What reached the plant, as another decoder reads it: nothing but what a client may do. A request that the walk over its
/// bytes and the decoder read differently would show here.
fn judge(world: &mut World) {
    let reached = world.guarded.as_mut().map(|guarded| std::mem::take(&mut guarded.reached)).unwrap_or_default();
    for body in reached {
        let asked = asked_of(&body).expect("what a guard forwards ends where another decoder ends");
        for (node, action) in asked {
            let allowed = match scope_of(&node) {
                Some(1) | None => true,
                Some(2) => action == Action::Browse,
                Some(_) => false,
            };
            assert!(allowed, "{action:?} of {node} reaches the plant");
        }
    }
}

fn answer_calls(world: &mut World) {
    while let Some((id, _)) = world.invoked.pop_front() {
        let outputs = vec![Variant::from(7_i32)];
        let answer = Answer { status: StatusCode::Good, input_results: Vec::new(), outputs };
        world.plant_input(Input::Answer { id, answer });
    }
}

/// A row of steps: a byte that says what, then what it needs.
pub fn guard_client(data: &[u8]) {
    let mut feed = Feed(data);
    let (mut world, conn, token) = start();
    let mut steps = 0;
    while !feed.is_empty() && steps < 64 {
        steps += 1;
        match feed.byte() {
            0..200 => throw(&mut feed, &mut world, (conn, &token), steps),
            by @ 200..225 => world.pass(Duration::from_millis(100 * u64::from(by - 200))),
            225..230 => world.cut_upstream(),
            230..233 => world.restart_upstream(ServerFacts { started: world.now().unix, ..ServerFacts::default() }),
            233..240 => answer_calls(&mut world),
            240.. => {
                let body = feed.part();
                send(&mut world, conn, body);
            }
        }
        judge(&mut world);
        if !world.peers.contains_key(&conn) {
            break;
        }
    }
    world.pass(Duration::from_secs(2));
    judge(&mut world);
    let (connections, sessions) = world.front().load();
    assert!(connections <= 1 && sessions <= 64, "{connections} connections, {sessions} sessions of one peer");
}

/// A row of steps: what the client asks, and what becomes of what the server says.
pub fn guard_server(data: &[u8]) {
    let mut feed = Feed(data);
    let (mut world, conn, token) = start();
    world.hold_upstream(true);
    let mut steps = 0;
    while !feed.is_empty() && steps < 64 {
        steps += 1;
        match feed.byte() {
            0..100 => throw(&mut feed, &mut world, (conn, &token), steps),
            100..140 => tampered(&mut world, |_| {}),
            140..180 => {
                let changes: Vec<(u16, u8)> = (0..=feed.byte() % 4).map(|_| (feed.number(), feed.byte())).collect();
                tampered(&mut world, |body| {
                    for (place, byte) in &changes {
                        if let Some(at) = usize::from(*place).checked_rem(body.len()) {
                            body[at] = *byte;
                        }
                    }
                });
            }
            180..200 => {
                let (keep, more) = (feed.number(), feed.part());
                tampered(&mut world, |body| {
                    body.truncate(usize::from(keep));
                    body.extend_from_slice(more);
                });
            }
            200..215 => {
                let bytes = feed.part();
                let links = world.guarded.as_mut().map(|guarded| guarded.take_held()).unwrap_or_default();
                for (link, _) in links {
                    world.deliver_upstream(link, Upstream::Bytes(bytes));
                }
            }
            by @ 215..240 => world.pass(Duration::from_millis(200 * u64::from(by - 215))),
            240..245 => world.cut_upstream(),
            245..250 => world.restart_upstream(ServerFacts { started: world.now().unix, ..ServerFacts::default() }),
            250.. => answer_calls(&mut world),
        }
        judge(&mut world);
        if !world.peers.contains_key(&conn) {
            return;
        }
    }
    recovers(&mut world, conn, &token);
}

/// Delivers what the server has said, after `change` was done to the body of each message.
fn tampered(world: &mut World, change: impl Fn(&mut Vec<u8>)) {
    /// Header, channel, token, sequence and request.
    const HEAD: usize = 24;
    let held = world.guarded.as_mut().map(|guarded| guarded.take_held()).unwrap_or_default();
    for (link, bytes) in held {
        let mut out = Vec::new();
        let mut rest = bytes.as_slice();
        while rest.len() >= 8 {
            let size = u32::from_le_bytes([rest[4], rest[5], rest[6], rest[7]]) as usize;
            let (message, behind) = rest.split_at(size.clamp(8, rest.len()));
            rest = behind;
            if !message.starts_with(b"MSGF") || message.len() < HEAD {
                out.extend_from_slice(message);
                continue;
            }
            let mut body = message[HEAD..].to_vec();
            change(&mut body);
            out.extend_from_slice(&message[..4]);
            out.extend_from_slice(&u32::try_from(HEAD + body.len()).unwrap_or(u32::MAX).to_le_bytes());
            out.extend_from_slice(&message[8..HEAD]);
            out.extend_from_slice(&body);
        }
        world.deliver_upstream(link, Upstream::Bytes(&out));
    }
}

/// Behind a server that behaves again, the client reads what it may, and nothing else.
fn recovers(world: &mut World, conn: ConnId, token: &NodeId) {
    world.hold_upstream(false);
    world.restart_upstream(ServerFacts { started: world.now().unix, ..ServerFacts::default() });
    world.pass(Duration::from_secs(60));
    judge(world);
    let item = |scope| ReadValueId { node_id: variable_id(scope, 0), attribute_id: 13, ..ReadValueId::default() };
    let request = ReadRequest {
        request_header: RequestHeader::new(token, &DateTime::null(), 1),
        nodes_to_read: Some((1..=3).map(item).collect()),
        ..ReadRequest::default()
    };
    // Its session may be over by now; then there is no such answer.
    let Some(response) = world.ask::<ReadRequest, ReadResponse>(conn, &request) else { return };
    if response.response_header.service_result.is_good() {
        let statuses: Vec<_> = response.results.iter().flatten().map(opcua_types::DataValue::status).collect();
        use StatusCode as S;
        assert_eq!(statuses, [S::Good, S::BadUserAccessDenied, S::BadNodeIdUnknown]);
    }
    judge(world);
}
