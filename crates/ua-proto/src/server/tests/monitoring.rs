//! Monitored items under rights that come and go (facts section 8, P4 §5.13.2).

use std::time::Duration;

use access_model::{AuditKind, Epoch, Rights, ScopeMap};
use opcua_types::*;
use pep::FailMode;
use token::control::{Replacement, Revocation, Update, seal};
use token::{RightsClaim, map_digest};

use super::ask::*;
use super::keys::{ISSUER, SERVER_URI};
use super::world::*;
use crate::server::{ConnId, Input};

pub(super) const TICK: Duration = Duration::from_millis(100);

impl World {
    pub(super) fn subscribe(&mut self, conn: ConnId, login: &Login, nodes: &[&str]) -> Vec<MonitoredItemCreateResult> {
        let nodes = nodes.iter().map(|name| super::services::value_of(name)).collect();
        self.subscribe_to(conn, login, nodes)
    }

    pub(super) fn subscribe_to(
        &mut self,
        conn: ConnId,
        login: &Login,
        nodes: Vec<ReadValueId>,
    ) -> Vec<MonitoredItemCreateResult> {
        let request = CreateSubscriptionRequest {
            request_header: self.header(&login.token),
            requested_publishing_interval: 100.0,
            requested_lifetime_count: 10_000,
            requested_max_keep_alive_count: 5,
            max_notifications_per_publish: 0,
            publishing_enabled: true,
            priority: 0,
        };
        let subscription: CreateSubscriptionResponse = self.ask(conn, &request).unwrap();
        let item = |(at, node): (usize, ReadValueId)| MonitoredItemCreateRequest {
            item_to_monitor: node,
            monitoring_mode: MonitoringMode::Reporting,
            requested_parameters: MonitoringParameters {
                client_handle: at as u32,
                sampling_interval: 0.0,
                filter: ExtensionObject::null(),
                queue_size: 10,
                discard_oldest: true,
            },
        };
        let request = CreateMonitoredItemsRequest {
            request_header: self.header(&login.token),
            subscription_id: subscription.subscription_id,
            timestamps_to_return: TimestampsToReturn::Both,
            items_to_create: Some(nodes.into_iter().enumerate().map(item).collect()),
        };
        let response: CreateMonitoredItemsResponse = self.ask(conn, &request).unwrap();
        response.results.unwrap()
    }

    pub(super) fn publish(&mut self, conn: ConnId, login: &Login) -> u32 {
        let request = PublishRequest { request_header: self.header(&login.token), subscription_acknowledgements: None };
        self.send(conn, &request)
    }

    pub(super) fn set(&mut self, name: &str, value: Variant) {
        let node = self.server.space().find(&id(name)).unwrap();
        self.input(Input::SetValue { node, value: DataValue::value_only(value) });
    }

    /// What came for each client handle.
    pub(super) fn notified(&mut self, conn: ConnId, request: u32) -> Option<Vec<(u32, Result<Variant, StatusCode>)>> {
        let response = self.answer::<PublishResponse>(conn, request)?.expect("no fault");
        let mut seen = Vec::new();
        for data in response.notification_message.notification_data.iter().flatten() {
            let Some(change) = data.inner_as::<DataChangeNotification>() else { continue };
            for item in change.monitored_items.iter().flatten() {
                let value = match item.value.status() {
                    status if status.is_bad() => {
                        assert!(item.value.value.is_none(), "a bad status comes without a value");
                        Err(status)
                    }
                    _ => Ok(item.value.value.clone().unwrap_or_default()),
                };
                seen.push((item.client_handle, value));
            }
        }
        Some(seen)
    }
}

#[test]
fn visible_unreadable_items_are_created_and_say_so_once() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let results = world.subscribe(conn, &login, &["Setpoint", "Speed", "Secret", "Missing"]);
    let statuses: Vec<_> = results.iter().map(|result| result.status_code).collect();
    let unknown = StatusCode::BadNodeIdUnknown;
    assert_eq!(statuses, [StatusCode::Good, StatusCode::Good, unknown, unknown]);
    let first = world.publish(conn, &login);
    world.pass(TICK);
    let seen = world.notified(conn, first).unwrap();
    assert_eq!(seen, [(0, Ok(Variant::from(20.0))), (1, Err(StatusCode::BadUserAccessDenied))]);
    let second = world.publish(conn, &login);
    world.set("Speed", Variant::from(8_i32));
    world.pass(TICK);
    assert_eq!(world.notified(conn, second), None, "nothing more of what may not be read");
    world.set("Setpoint", Variant::from(21.0));
    world.pass(TICK);
    assert_eq!(world.notified(conn, second).unwrap(), [(0, Ok(Variant::from(21.0)))]);
}

#[test]
fn writes_of_other_sessions_are_seen() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    world.subscribe(conn, &login, &["Setpoint"]);
    let first = world.publish(conn, &login);
    world.pass(TICK);
    assert!(world.notified(conn, first).is_some());
    let (other, writer) = world.log_in(ENCRYPT, "alice");
    let second = world.publish(conn, &login);
    assert_eq!(world.write(other, &writer, vec![(id("Setpoint"), Variant::from(60.0))]), Ok(vec![StatusCode::Good]));
    world.pass(TICK);
    assert_eq!(world.notified(conn, second).unwrap(), [(0, Ok(Variant::from(60.0)))]);
    world.pass(Duration::from_secs(2));
    assert!(!world.outcomes(AuditKind::Notify).is_empty(), "deliveries are counted");
}

/// Alice by token, with an item on the setpoint whose first value has come.
fn watching(fail_mode: FailMode) -> (World, ConnId, Login) {
    let mut world = Setup { contact: Some(contact(fail_mode)), ..Setup::default() }.start();
    update(&mut world, 1, None, |_| {});
    let token = world.token(Duration::from_secs(600));
    let (conn, login) = world.log_in_by_token(&token);
    world.subscribe(conn, &login, &["Setpoint"]);
    let first = world.publish(conn, &login);
    world.pass(TICK);
    assert_eq!(world.notified(conn, first).unwrap(), [(0, Ok(Variant::from(20.0)))]);
    (world, conn, login)
}

pub(super) fn update(world: &mut World, epoch: u64, previous: Option<u64>, change: impl FnOnce(&mut Update)) {
    let mut update = Update {
        issuer: "authority".into(),
        audience: SERVER_URI.into(),
        epoch: Epoch(epoch),
        previous: previous.map(Epoch),
        issued_at: world.now.unix,
        revoked: Vec::new(),
        replaced: Vec::new(),
        approved: Vec::new(),
        mode: None,
    };
    change(&mut update);
    let sealed = seal(&update, &ISSUER).unwrap();
    world.input(Input::ControlUpdate(&sealed));
}

pub(super) fn rights(world: &mut World, epoch: u64, rights: Rights) {
    let end = world.now.unix + Duration::from_secs(600);
    let map = ScopeMap::new(SCOPES).unwrap();
    let claim = RightsClaim::new(map_digest(&map), [(rights, vec![1])]);
    update(world, epoch, Some(epoch - 1), |update| {
        update.replaced.push(Replacement { id: "token-1".into(), rights: claim, not_after: end, expires: end });
    });
}

#[test]
fn items_fall_silent_on_revocation_even_with_values_queued() {
    let (mut world, conn, login) = watching(FailMode::Closed);
    let waiting = world.publish(conn, &login);
    world.set("Setpoint", Variant::from(33.0));
    let expires = world.now.unix + Duration::from_secs(600);
    update(&mut world, 2, Some(1), |update| update.revoked.push(Revocation { id: "token-1".into(), expires }));
    world.set("Setpoint", Variant::from(34.0));
    world.pass(10 * TICK);
    let seen = world.notified(conn, waiting).unwrap();
    assert_eq!(seen, [(0, Err(StatusCode::BadUserAccessDenied))], "once, and no value");
}

#[test]
fn items_fall_silent_when_rights_narrow_and_speak_again_when_they_return() {
    let (mut world, conn, login) = watching(FailMode::Closed);
    rights(&mut world, 2, Rights::BROWSE);
    let waiting = world.publish(conn, &login);
    world.set("Setpoint", Variant::from(41.0));
    world.pass(TICK);
    assert_eq!(world.notified(conn, waiting).unwrap(), [(0, Err(StatusCode::BadUserAccessDenied))]);
    let waiting = world.publish(conn, &login);
    world.set("Setpoint", Variant::from(42.0));
    world.pass(TICK);
    assert_eq!(world.notified(conn, waiting), None);
    rights(&mut world, 3, Rights::BROWSE | Rights::READ);
    world.pass(TICK);
    assert_eq!(world.notified(conn, waiting).unwrap(), [(0, Ok(Variant::from(42.0)))], "the present value");
}

#[test]
fn items_fall_silent_on_expiry_and_resume_with_a_new_token() {
    let mut world = World::new();
    let token = world.token(Duration::from_secs(10));
    let (conn, mut login) = world.log_in_by_token(&token);
    world.subscribe(conn, &login, &["Setpoint"]);
    let first = world.publish(conn, &login);
    world.pass(TICK);
    assert!(world.notified(conn, first).is_some());
    let waiting: Vec<u32> = (0..30).map(|_| world.publish(conn, &login)).collect();
    world.pass(Duration::from_secs(11));
    world.set("Setpoint", Variant::from(50.0));
    world.pass(10 * TICK);
    let seen: Vec<_> = waiting.iter().filter_map(|request| world.notified(conn, *request)).flatten().collect();
    assert_eq!(seen, [(0, Err(StatusCode::BadUserAccessDenied))], "once, without a value");
    world.set("Setpoint", Variant::from(51.0));
    let fresh = world.token(Duration::from_secs(100));
    world.activate(conn, &mut login, clear_token(fresh.as_bytes())).unwrap();
    world.pass(10 * TICK);
    let seen: Vec<_> = waiting.iter().filter_map(|request| world.notified(conn, *request)).flatten().collect();
    assert_eq!(seen, [(0, Ok(Variant::from(51.0)))], "the present value");
}

#[test]
fn the_subscriptions_of_an_ended_session_are_gone() {
    let (mut world, conn, login) = watching(FailMode::Closed);
    let expires = world.now.unix + Duration::from_secs(600);
    let waiting = world.publish(conn, &login);
    update(&mut world, 2, Some(1), |update| update.revoked.push(Revocation { id: "token-1".into(), expires }));
    for epoch in 3..20 {
        world.pass(Duration::from_secs(4));
        update(&mut world, epoch, Some(epoch - 1), |_| {});
    }
    assert_eq!(world.server.load().1, 0);
    assert!(world.server.watchers.is_empty());
    let _ = world.answer::<PublishResponse>(conn, waiting);
}

#[test]
fn a_peer_that_does_not_read_gets_no_more_values() {
    let mut setup = Setup::default();
    setup.limits.max_unsent = 20_000;
    let mut world = setup.start();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    world.subscribe(conn, &login, &["Note"]);
    for _ in 0..20 {
        world.publish(conn, &login);
    }
    world.peers.get_mut(&conn).unwrap().deaf = true;
    for round in 0..100 {
        world.set("Note", Variant::from("x".repeat(4_000) + &round.to_string()));
        world.pass(TICK);
    }
    let backlog = world.server.outgoing(conn).map_or(0, |bytes| bytes.len());
    assert!((20_000..30_000).contains(&backlog), "{backlog}");
    assert_eq!(world.server.load(), (1, 1), "it is still there");
    world.hear(conn);
    world.read_one(conn, &login, "Pressure").unwrap();
    world.pass(10 * TICK);
    assert_eq!(world.server.outgoing(conn).map_or(0, |bytes| bytes.len()), 0, "it goes on where it was");
}
