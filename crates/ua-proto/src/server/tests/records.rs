//! What the audit gets, and what waits for it (DESIGN D12).

use std::time::Duration;

use access_model::{AuditKind, Outcome, Reason};
use opcua_types::*;

use super::ask::*;
use super::services::value_of;
use super::world::*;
use crate::server::{AuditConfig, AuditFailMode, Audited, Input};

#[test]
fn a_write_is_answered_only_when_its_record_is_kept() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    world.ledger = None;
    let request =
        world.write_request(&login, vec![(id("Setpoint"), Variant::from(50.0)), (id("Note"), Variant::from("n"))]);
    let pending = world.send(conn, &request);
    assert!(world.answer::<WriteResponse>(conn, pending).is_none());
    assert_eq!(world.read_one(conn, &login, "Setpoint"), Ok(Variant::from(20.0)), "not carried out either");
    let records: Vec<_> = world.records.iter().filter(|record| record.kind == AuditKind::Write).cloned().collect();
    assert_eq!(records.len(), 2, "a record each");
    assert_eq!(records[0].object, id("Setpoint").to_string());
    assert_eq!(records[0].actor.name, "alice");
    assert!(records[0].actor.session.is_some() && records[0].actor.application.is_some());
    let audit = world.held_audits.pop().unwrap();
    assert!(world.held_audits.is_empty(), "one acknowledgement for both");
    world.input(Input::Audited { id: audit, result: Audited::Kept });
    let response = world.answer::<WriteResponse>(conn, pending).unwrap().unwrap();
    assert_eq!(response.results, Some(vec![StatusCode::Good; 2]));
    assert_eq!(world.read_one(conn, &login, "Setpoint"), Ok(Variant::from(50.0)));
    world.input(Input::Audited { id: audit, result: Audited::Kept });
    assert_eq!(world.written.len(), 2, "an acknowledgement counts once");
}

#[test]
fn every_channel_that_was_opened_is_closed_once() {
    let mut world = World::new();
    let count = |world: &World, kind| {
        let of_kind = world.records.iter().filter(|record| record.kind == kind && record.outcome == Outcome::Allowed);
        of_kind.count()
    };
    let lost = world.connect(ENCRYPT);
    world.input(Input::Disconnected { conn: lost });
    assert_eq!(count(&world, AuditKind::ChannelClosed), 1, "without a word");
    world.input(Input::Disconnected { conn: lost });
    assert_eq!(count(&world, AuditKind::ChannelClosed), 1, "it is gone already");
    let ended = world.connect(ENCRYPT);
    world.input(Input::Shutdown);
    world.input(Input::Disconnected { conn: ended });
    assert_eq!(count(&world, AuditKind::ChannelClosed), 2);
    assert_eq!(count(&world, AuditKind::ChannelOpened), 2);
    world.input(Input::Accepted { conn: crate::server::ConnId(99), peer: "peer".into() });
    world.input(Input::Disconnected { conn: crate::server::ConnId(99) });
    assert_eq!(count(&world, AuditKind::ChannelClosed), 2, "no channel was opened on it");
}

#[test]
fn a_call_leaves_only_when_its_record_is_kept() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    world.ledger = None;
    let request = world.call_request(&login, vec![(id("Unit"), id("Reset"), vec![Variant::from(1.0)])]);
    world.send(conn, &request);
    assert!(world.invoked.is_empty());
    let audit = world.held_audits.pop().unwrap();
    world.input(Input::Audited { id: audit, result: Audited::Kept });
    assert_eq!(world.invoked.len(), 1);
}

#[test]
fn an_unwritable_ledger_stops_writes_and_calls_until_it_is_back() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    world.ledger = Some(Audited::Unavailable);
    let refused = Ok(vec![StatusCode::BadResourceUnavailable]);
    let write = |world: &mut World| world.write(conn, &login, vec![(id("Setpoint"), Variant::from(50.0))]);
    assert_eq!(write(&mut world), refused, "the write that found out");
    assert_eq!(write(&mut world), refused);
    let request = world.call_request(&login, vec![(id("Unit"), id("Reset"), vec![Variant::from(1.0)])]);
    let response: CallResponse = world.ask(conn, &request).unwrap();
    assert_eq!(response.results.unwrap()[0].status_code, StatusCode::BadResourceUnavailable);
    assert!(world.written.is_empty() && world.invoked.is_empty());
    assert_eq!(world.outcomes(AuditKind::FailMode), [Outcome::Denied(Reason::AuditUnavailable)], "visible, once");
    assert!(world.read_one(conn, &login, "Setpoint").is_ok(), "reads go on");

    world.ledger = Some(Audited::Kept);
    let _ = write(&mut world);
    assert_eq!(write(&mut world), Ok(vec![StatusCode::Good]), "the refusals' own records tell that it is back");
    assert_eq!(world.outcomes(AuditKind::FailMode).len(), 2);
}

#[test]
fn an_open_fail_mode_lets_writes_through() {
    let audit = AuditConfig { unavailable: AuditFailMode::Open, ..AuditConfig::default() };
    let mut world = Setup { audit, ..Setup::default() }.start();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    world.ledger = Some(Audited::Unavailable);
    assert_eq!(world.write(conn, &login, vec![(id("Setpoint"), Variant::from(50.0))]), Ok(vec![StatusCode::Good]));
}

#[test]
fn without_acknowledgement_writes_do_not_wait() {
    let audit = AuditConfig { acknowledge: false, ..AuditConfig::default() };
    let mut world = Setup { audit, ..Setup::default() }.start();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    world.ledger = None;
    assert_eq!(world.write(conn, &login, vec![(id("Setpoint"), Variant::from(50.0))]), Ok(vec![StatusCode::Good]));
    assert!(world.held_audits.is_empty());
}

#[test]
fn reads_and_browses_are_counted_exactly_per_scope_and_second() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    for _ in 0..7 {
        world.read(conn, &login, ["Setpoint", "Pressure", "Speed", "Secret"].map(value_of).to_vec()).unwrap();
    }
    world.browse(conn, &login, id("Unit"), 0);
    world.browse(conn, &login, NodeId::new(0, 85_u32), 0);
    assert!(world.outcomes(AuditKind::Read).iter().all(|outcome| *outcome != Outcome::Allowed), "not yet");
    world.pass(Duration::from_secs(1));
    let sums = |world: &World, kind| -> Vec<(String, u64)> {
        let of = world.records.iter().filter(|record| record.kind == kind && record.outcome == Outcome::Allowed);
        of.map(|record| (record.object.clone(), record.count)).collect()
    };
    assert_eq!(sums(&world, AuditKind::Read), [("reactor".into(), 14)]);
    assert_eq!(sums(&world, AuditKind::Browse), [("public".into(), 1), ("reactor".into(), 1)]);
    world.read_one(conn, &login, "Setpoint").unwrap();
    let close = CloseSessionRequest { request_header: world.header(&login.token), delete_subscriptions: true };
    world.ask::<_, CloseSessionResponse>(conn, &close).unwrap();
    assert_eq!(sums(&world, AuditKind::Read).last(), Some(&("reactor".into(), 1)), "nothing is lost at the end");
}

#[test]
fn equal_denials_collapse_into_a_count() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    world.read(conn, &login, vec![value_of("Secret"); 500]).unwrap();
    world.pass(Duration::from_secs(1));
    let denials: Vec<_> = world.records.iter().filter(|record| record.kind == AuditKind::Read).collect();
    assert!(denials.iter().all(|record| record.outcome == Outcome::Denied(Reason::ScopeNotGranted)));
    assert_eq!(denials.len(), 6, "five, and one for the rest");
    assert_eq!(denials.iter().map(|record| record.count).sum::<u64>(), 500);
}

#[test]
fn the_life_of_a_session_is_on_record() {
    let mut world = World::new();
    let token = world.token(Duration::from_secs(60));
    let (conn, mut login) = world.log_in_by_token(&token);
    world.activate(conn, &mut login, clear_token(token.as_bytes())).unwrap();
    world.pass(Duration::from_secs(200));
    let kinds: Vec<_> = world.records.iter().map(|record| record.kind).collect();
    let expected = [
        AuditKind::ChannelOpened,
        AuditKind::SessionCreated,
        AuditKind::SessionActivated,
        AuditKind::TokenRefreshed,
        AuditKind::GrantExpired,
        AuditKind::SessionClosed,
    ];
    let told: Vec<_> = kinds.into_iter().filter(|kind| expected.contains(kind)).collect();
    assert_eq!(told, expected);
    let activated = world.records.iter().find(|record| record.kind == AuditKind::SessionActivated).unwrap();
    assert!(activated.detail.contains("token-1"), "a token is named by its id");
    assert!(!format!("{:?}", world.records).contains(token.as_str()), "and never by itself");
}
