//! A peer with a live session and every right, who sends requests of any shape: the decoding and serving of every
//! service, parked calls, subscriptions and time.

use std::time::Duration;

use opcua_types::{
    ActivateSessionRequest, ActivateSessionResponse, AnonymousIdentityToken, ByteString, CreateSessionRequest,
    CreateSessionResponse, DateTime, ExtensionObject, NodeId, RequestHeader, StatusCode,
};
use ua_proto::server::{Answer, ConnId, Input};

use super::Feed;
use crate::world::{Peer, RawPeer, Setup, URL, World, request_head};

/// A row of steps: a byte that says what, then what it needs.
pub fn services(data: &[u8]) {
    let mut feed = Feed(data);
    let mut world = Setup::open_to_all().start();
    let now = world.now();
    let conn = world.connect(Peer::Raw(Box::new(RawPeer::unprotected(URL, now))));
    world.run();
    let token = log_in(&mut world, conn).expect("anonymous may log in");
    let mut steps = 0;
    while !feed.is_empty() && steps < 64 {
        steps += 1;
        match feed.byte() {
            0..200 => {
                let mut body = request_head(u32::from(feed.number()), &token, steps);
                body.extend(feed.part());
                send(&mut world, conn, &body);
            }
            by @ 200..230 => world.pass(Duration::from_millis(100 * u64::from(by - 200))),
            230..240 => {
                if let Some((id, _)) = world.invoked.pop_front() {
                    let answer = Answer { status: StatusCode::Good, input_results: Vec::new(), outputs: Vec::new() };
                    world.input(Input::Answer { id, answer });
                }
            }
            240.. => {
                let body = feed.part();
                send(&mut world, conn, body);
            }
        }
        if !world.peers.contains_key(&conn) {
            break;
        }
    }
    world.pass(Duration::from_secs(2));
    let (connections, sessions) = world.server.load();
    assert!(connections <= 1 && sessions <= 64, "{connections} connections, {sessions} sessions of one peer");
}

fn send(world: &mut World, conn: ConnId, body: &[u8]) {
    let now = world.now();
    if let Some(Peer::Raw(peer)) = world.peers.get_mut(&conn) {
        // A channel that is over takes nothing; the loop ends then.
        let _ = peer.send(body, now);
        peer.answers.clear();
    }
    world.run();
}

/// A session, and the token that its requests carry.
fn log_in(world: &mut World, conn: ConnId) -> Option<NodeId> {
    let create = CreateSessionRequest {
        request_header: RequestHeader::new(&NodeId::null(), &DateTime::null(), 1),
        endpoint_url: URL.into(),
        session_name: "fuzz".into(),
        client_nonce: ByteString::from(vec![7_u8; 32]),
        requested_session_timeout: 600_000.0,
        ..CreateSessionRequest::default()
    };
    let created: CreateSessionResponse = world.ask(conn, &create)?;
    let activate = ActivateSessionRequest {
        request_header: RequestHeader::new(&created.authentication_token, &DateTime::null(), 2),
        user_identity_token: ExtensionObject::new(AnonymousIdentityToken { policy_id: "anonymous".into() }),
        ..ActivateSessionRequest::default()
    };
    let _: ActivateSessionResponse = world.ask(conn, &activate)?;
    Some(created.authentication_token)
}
