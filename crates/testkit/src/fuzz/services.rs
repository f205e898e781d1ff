//! A peer with a live session and every right, who sends requests of any shape: the decoding and serving of every
//! service, parked calls, subscriptions and time.

use std::time::Duration;

use opcua_types::{
    ActivateSessionRequest, ActivateSessionResponse, AnonymousIdentityToken, ByteString, CreateMonitoredItemsRequest,
    CreateMonitoredItemsResponse, CreateSessionRequest, CreateSessionResponse, CreateSubscriptionRequest,
    CreateSubscriptionResponse, DateTime, EventFilter, ExtensionObject, MonitoredItemCreateRequest, MonitoringMode,
    MonitoringParameters, NodeId, QualifiedName, ReadValueId, RequestHeader, SimpleAttributeOperand, StatusCode,
    TimestampsToReturn, Variant,
};
use ua_proto::event::NewEvent;
use ua_proto::server::{Answer, ConnId, Input};
use ua_proto::space::ns0;

use super::Feed;
use crate::world::{Peer, RawPeer, Setup, URL, World, request_head, variable_id};

/// A row of steps: a byte that says what, then what it needs.
pub fn services(data: &[u8]) {
    let mut feed = Feed(data);
    let mut world = Setup::open_to_all().start();
    let now = world.now();
    let conn = world.connect(Peer::Raw(Box::new(RawPeer::unprotected(URL, now))));
    world.run();
    let token = log_in(&mut world, conn).expect("anonymous may log in");
    listen(&mut world, conn, &token).expect("whoever may see the server may listen");
    let mut steps = 0;
    while !feed.is_empty() && steps < 64 {
        steps += 1;
        match feed.byte() {
            0..200 => throw(&mut feed, &mut world, (conn, &token), steps),
            by @ 200..230 => world.pass(Duration::from_millis(100 * u64::from(by - 200))),
            by @ 230..233 => raise(&mut world, by),
            233..240 => {
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

/// Sends a request with a body of whatever comes.
pub(super) fn throw(feed: &mut Feed<'_>, world: &mut World, (conn, token): (ConnId, &NodeId), handle: u32) {
    let mut body = request_head(u32::from(feed.number()), token, handle);
    body.extend(feed.part());
    send(world, conn, &body);
}

pub(crate) fn send(world: &mut World, conn: ConnId, body: &[u8]) {
    let now = world.now();
    if let Some(Peer::Raw(peer)) = world.peers.get_mut(&conn) {
        // A channel that is over takes nothing; the loop ends then.
        let _ = peer.send(body, now);
        peer.answers.clear();
    }
    world.run();
}

/// An item that reports every event of the server, audit events among them.
fn listen(world: &mut World, conn: ConnId, token: &NodeId) -> Option<()> {
    let create = CreateSubscriptionRequest {
        request_header: RequestHeader::new(token, &DateTime::null(), 3),
        requested_publishing_interval: 100.0,
        requested_lifetime_count: 1_000,
        requested_max_keep_alive_count: 10,
        publishing_enabled: true,
        ..CreateSubscriptionRequest::default()
    };
    let created: CreateSubscriptionResponse = world.ask(conn, &create)?;
    let field = |name: &str| SimpleAttributeOperand {
        type_definition_id: NodeId::new(0, 2041),
        browse_path: Some(vec![QualifiedName::new(0, name)]),
        attribute_id: 13,
        index_range: Default::default(),
    };
    let filter = EventFilter {
        select_clauses: Some(["EventType", "Message", "OldValue", "NewValue", "InputArguments"].map(field).to_vec()),
        where_clause: Default::default(),
    };
    let item = MonitoredItemCreateRequest {
        item_to_monitor: ReadValueId { node_id: NodeId::new(0, 2253), attribute_id: 12, ..ReadValueId::default() },
        monitoring_mode: MonitoringMode::Reporting,
        requested_parameters: MonitoringParameters {
            client_handle: 1,
            filter: ExtensionObject::from_message(filter),
            queue_size: 4,
            discard_oldest: true,
            ..MonitoringParameters::default()
        },
    };
    let items = CreateMonitoredItemsRequest {
        request_header: RequestHeader::new(token, &DateTime::null(), 4),
        subscription_id: created.subscription_id,
        timestamps_to_return: TimestampsToReturn::Both,
        items_to_create: Some(vec![item]),
    };
    let response: CreateMonitoredItemsResponse = world.ask(conn, &items)?;
    response.results?.first().filter(|result| result.status_code.is_good()).map(|_| ())
}

/// The application tells of something at one of its nodes.
fn raise(world: &mut World, which: u8) {
    let space = world.server.space();
    let source = space.find(&variable_id(u32::from(which % 3) + 1, 0)).unwrap_or(ns0::SERVER);
    let fields = vec![(QualifiedName::new(1, "Value"), Variant::from(which))];
    let event_type = ns0::BASE_EVENT_TYPE;
    let event = NewEvent { event_type, source, severity: 1, message: "something".into(), fields, values: Vec::new() };
    world.input(Input::Event(event));
}

/// A session, and the token that its requests carry.
pub(crate) fn log_in(world: &mut World, conn: ConnId) -> Option<NodeId> {
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
