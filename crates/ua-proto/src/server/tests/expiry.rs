//! Grants end, shrink and grow while sessions run (DESIGN D2, invariant 2).

use std::time::Duration;

use access_model::{AuditKind, Epoch, Outcome, Reason, Rights, ScopeMap};
use opcua_types::*;
use pep::{FailMode, GateEvent};
use token::control::{Replacement, Revocation, Update, seal};
use token::{RightsClaim, map_digest};

use super::ask::*;
use super::keys::{ISSUER, SERVER_URI};
use super::services::{FOR_GUARDS, value_of};
use super::world::*;
use crate::server::dispatch::{SERVICES, Service};
use crate::server::{Answer, Input};

const MINUTE: Duration = Duration::from_secs(60);

fn update(world: &World, epoch: u64, previous: Option<u64>) -> Update {
    Update {
        issuer: "authority".into(),
        audience: SERVER_URI.into(),
        epoch: Epoch(epoch),
        previous: previous.map(Epoch),
        issued_at: world.now.unix,
        revoked: Vec::new(),
        replaced: Vec::new(),
        approved: Vec::new(),
        mode: None,
    }
}

fn publish(world: &mut World, update: &Update) {
    let sealed = seal(update, &ISSUER).unwrap();
    world.input(Input::ControlUpdate(&sealed));
}

/// A world in step with its authority, and alice in it by token.
fn in_step() -> (World, crate::server::ConnId, Login) {
    let mut world = Setup { contact: Some(contact(FailMode::Closed)), ..Setup::default() }.start();
    let first = update(&world, 1, None);
    publish(&mut world, &first);
    let token = world.token(10 * MINUTE);
    let (conn, login) = world.log_in_by_token(&token);
    assert!(world.read_one(conn, &login, "Setpoint").is_ok());
    (world, conn, login)
}

fn revoke(world: &mut World) {
    let expires = world.now.unix + 10 * MINUTE;
    let next = Update { revoked: vec![Revocation { id: "token-1".into(), expires }], ..update(world, 2, Some(1)) };
    publish(world, &next);
}

fn narrow(world: &mut World, epoch: u64, rights: Rights) {
    let map = ScopeMap::new(SCOPES).unwrap();
    let end = world.now.unix + 10 * MINUTE;
    let replacement = Replacement {
        id: "token-1".into(),
        rights: RightsClaim::new(map_digest(&map), [(rights, vec![1])]),
        not_after: end,
        expires: end,
    };
    let next = Update { replaced: vec![replacement], ..update(world, epoch, Some(epoch - 1)) };
    publish(world, &next);
}

#[test]
fn an_expired_token_stops_every_service_but_activate_and_close() {
    let mut world = World::new();
    let token = world.token(MINUTE);
    let (conn, mut login) = world.log_in_by_token(&token);
    world.pass(MINUTE - Duration::from_millis(1));
    assert!(world.read_one(conn, &login, "Setpoint").is_ok(), "good to the last moment");
    world.pass(Duration::from_millis(1));
    let denied = Some(StatusCode::BadUserAccessDenied);
    assert_eq!(world.read(conn, &login, vec![value_of("Setpoint")]).err(), denied);
    assert_eq!(world.write(conn, &login, vec![(id("Setpoint"), Variant::from(1.0))]).err(), denied);
    let call = world.call_request(&login, vec![(id("Unit"), id("Reset"), vec![Variant::from(1.0)])]);
    assert_eq!(world.ask::<_, CallResponse>(conn, &call).err(), denied);
    let mut tried = 0;
    for (number, service) in SERVICES {
        let without_session = [
            Service::FindServers,
            Service::FindServersOnNetwork,
            Service::GetEndpoints,
            Service::RegisterServer,
            Service::RegisterServer2,
            Service::CreateSession,
        ];
        let allowed = [Service::ActivateSession, Service::CloseSession, Service::Unsupported];
        if without_session.contains(&service) || allowed.contains(&service) || FOR_GUARDS.contains(&service) {
            continue;
        }
        let owned = ContextOwned::default();
        let mut body = NodeId::new(0, number).encode_to_vec(&owned.context());
        body.extend(world.header(&login.token).encode_to_vec(&owned.context()));
        // Null nodes, empty arrays, zeros: enough of them for every service.
        body.extend([0; 64]);
        let request = world.send_raw(conn, &body);
        let answer = world.answer::<ResponseHeader>(conn, request);
        assert_eq!(answer, Some(Err(StatusCode::BadUserAccessDenied)), "{service:?}");
        tried += 1;
    }
    assert_eq!(tried, 23, "every service that needs a grant");
    assert_eq!(world.last_reason(AuditKind::Read), Some(Reason::GrantExpired));
    assert_eq!(world.outcomes(AuditKind::GrantExpired), [Outcome::Denied(Reason::GrantExpired)]);

    let stale = world.activate(conn, &mut login, clear_token(token.as_bytes()));
    assert_eq!(stale, Err(StatusCode::BadIdentityTokenRejected));
    let fresh = world.token(MINUTE);
    world.activate(conn, &mut login, clear_token(fresh.as_bytes())).unwrap();
    assert!(world.read_one(conn, &login, "Setpoint").is_ok(), "it lives again");
}

#[test]
fn an_expired_session_can_be_closed_by_its_client() {
    let mut world = World::new();
    let token = world.token(MINUTE);
    let (conn, login) = world.log_in_by_token(&token);
    world.pass(MINUTE);
    let close = CloseSessionRequest { request_header: world.header(&login.token), delete_subscriptions: true };
    assert!(world.ask::<_, CloseSessionResponse>(conn, &close).is_ok());
}

#[test]
fn an_expired_token_never_falls_to_anonymous() {
    let mut world = World::new();
    let token = world.token(MINUTE);
    let (conn, login) = world.log_in_by_token(&token);
    world.pass(MINUTE);
    let root = ReadValueId { node_id: NodeId::new(0, 2258_u32), attribute_id: 13, ..ReadValueId::default() };
    assert_eq!(world.read(conn, &login, vec![root]).err(), Some(StatusCode::BadUserAccessDenied));
}

#[test]
fn after_the_grace_the_session_is_closed() {
    let mut world = World::new();
    let token = world.token(MINUTE);
    let (conn, login) = world.log_in_by_token(&token);
    world.pass(MINUTE + Duration::from_secs(59));
    assert_eq!(world.read_one(conn, &login, "Setpoint"), Err(StatusCode::BadUserAccessDenied));
    world.pass(Duration::from_secs(1));
    assert_eq!(world.read_one(conn, &login, "Setpoint"), Err(StatusCode::BadSessionIdInvalid));
    assert!(world.server.gate().is_empty());
}

#[test]
fn a_wall_clock_set_back_does_not_stretch_a_token() {
    let mut world = World::new();
    let token = world.token(MINUTE);
    let (conn, login) = world.log_in_by_token(&token);
    world.now.unix = access_model::UnixTime::from_micros(world.now.unix.as_micros() - 3_600_000_000);
    world.pass(MINUTE);
    assert_eq!(world.read_one(conn, &login, "Setpoint"), Err(StatusCode::BadUserAccessDenied));
}

#[test]
fn a_refresh_is_not_noticed() {
    let mut world = World::new();
    let token = world.token(MINUTE);
    let (conn, mut login) = world.log_in_by_token(&token);
    for round in 0..10 {
        world.pass(Duration::from_secs(48));
        let mut claims = world.claims(MINUTE);
        claims.id = format!("round-{round}");
        let fresh = mint(&claims, &ISSUER);
        world.hold_jobs = true;
        let request = world.activation(conn, &login, clear_token(fresh.as_bytes()));
        let pending = world.send(conn, &request);
        assert!(world.read_one(conn, &login, "Setpoint").is_ok(), "under the old token meanwhile");
        world.hold_jobs = false;
        let job = world.held_jobs.pop_front().unwrap();
        world.finish(job);
        world.run();
        let response = world.answer::<ActivateSessionResponse>(conn, pending).unwrap().unwrap();
        login.nonce = response.server_nonce;
        assert!(world.read_one(conn, &login, "Setpoint").is_ok());
    }
    assert_eq!(world.server.gate().len(), 1);
}

#[test]
fn a_failed_refresh_keeps_the_old_grant() {
    let mut world = World::new();
    let token = world.token(10 * MINUTE);
    let (conn, mut login) = world.log_in_by_token(&token);
    let mut claims = world.claims(MINUTE);
    claims.audience = "urn:else".into();
    let wrong = mint(&claims, &ISSUER);
    assert!(world.activate(conn, &mut login, clear_token(wrong.as_bytes())).is_err());
    assert!(world.read_one(conn, &login, "Setpoint").is_ok());
}

#[test]
fn a_revoked_token_stops_at_once() {
    let (mut world, conn, mut login) = in_step();
    revoke(&mut world);
    assert_eq!(world.read_one(conn, &login, "Setpoint"), Err(StatusCode::BadUserAccessDenied));
    assert_eq!(world.last_reason(AuditKind::Read), Some(Reason::GrantRevoked));
    assert!(world.events.iter().any(|event| matches!(event, GateEvent::Revoked(_))));
    let token = world.token(MINUTE);
    let again = world.activate(conn, &mut login, clear_token(token.as_bytes()));
    assert_eq!(again, Err(StatusCode::BadIdentityTokenRejected), "the same token id stays revoked");
}

#[test]
fn narrowed_rights_hold_for_the_next_item() {
    let (mut world, conn, login) = in_step();
    narrow(&mut world, 2, Rights::BROWSE | Rights::READ);
    assert!(world.read_one(conn, &login, "Setpoint").is_ok());
    let statuses = world.write(conn, &login, vec![(id("Setpoint"), Variant::from(1.0))]).unwrap();
    assert_eq!(statuses, [StatusCode::BadUserAccessDenied]);
    narrow(&mut world, 3, Rights::NONE);
    assert_eq!(world.read_one(conn, &login, "Setpoint"), Err(StatusCode::BadNodeIdUnknown), "hidden by now");
}

#[test]
fn a_write_recorded_before_revocation_is_not_carried_out_after() {
    let (mut world, conn, login) = in_step();
    world.ledger = None;
    let request = world.write_request(&login, vec![(id("Setpoint"), Variant::from(50.0))]);
    let pending = world.send(conn, &request);
    revoke(&mut world);
    let audit = world.held_audits.pop().unwrap();
    world.input(Input::Audited { id: audit, result: crate::server::Audited::Kept });
    let response = world.answer::<WriteResponse>(conn, pending).unwrap().unwrap();
    assert_eq!(response.results, Some(vec![StatusCode::BadUserAccessDenied]));
    assert!(world.written.is_empty());
}

#[test]
fn a_call_that_comes_back_after_revocation_gives_its_status_only() {
    let (mut world, conn, login) = in_step();
    let request = world.call_request(&login, vec![(id("Unit"), id("Reset"), vec![Variant::from(1.0)])]);
    let pending = world.send(conn, &request);
    let (call, _) = world.invoked.pop_front().unwrap();
    revoke(&mut world);
    let answer = Answer { status: StatusCode::Good, input_results: Vec::new(), outputs: vec![Variant::from(9.0)] };
    world.input(Input::Answer { id: call, answer });
    let response = world.answer::<CallResponse>(conn, pending).unwrap().unwrap();
    let result = response.results.unwrap().remove(0);
    assert_eq!((result.status_code, result.output_arguments), (StatusCode::Good, None));
}

/// Sends a call, lets something happen, and tells what the client hears of its result.
fn call_meanwhile(meanwhile: impl FnOnce(&mut World, crate::server::ConnId, &mut Login)) -> CallMethodResult {
    let (mut world, conn, mut login) = in_step();
    let request = world.call_request(&login, vec![(id("Unit"), id("Reset"), vec![Variant::from(1.0)])]);
    let pending = world.send(conn, &request);
    let (call, _) = world.invoked.pop_front().unwrap();
    meanwhile(&mut world, conn, &mut login);
    let answer = Answer { status: StatusCode::Good, input_results: Vec::new(), outputs: vec![Variant::from(9.0)] };
    world.input(Input::Answer { id: call, answer });
    world.answer::<CallResponse>(conn, pending).unwrap().unwrap().results.unwrap().remove(0)
}

fn fresh_token(world: &mut World, conn: crate::server::ConnId, login: &mut Login) {
    let mut claims = world.claims(MINUTE);
    claims.id = "token-2".into();
    let fresh = mint(&claims, &ISSUER);
    world.activate(conn, login, clear_token(fresh.as_bytes())).unwrap();
}

#[test]
fn the_results_of_a_call_need_the_right_when_they_go_out() {
    let whole = call_meanwhile(|_, _, _| {});
    assert_eq!(whole.output_arguments, Some(vec![Variant::from(9.0)]));
    let refreshed = call_meanwhile(fresh_token);
    assert_eq!(refreshed.output_arguments, Some(vec![Variant::from(9.0)]), "a refresh takes nothing away");

    let narrowed = call_meanwhile(|world, _, _| narrow(world, 2, Rights::BROWSE | Rights::READ));
    let revived = call_meanwhile(|world, conn, login| {
        revoke(world);
        fresh_token(world, conn, login);
    });
    let expired = call_meanwhile(|world, conn, login| {
        world.now.unix = world.now.unix + 10 * MINUTE;
        world.pass(Duration::from_millis(1));
        fresh_token(world, conn, login);
    });
    let other_user = call_meanwhile(|world, conn, login| {
        let identity = world.user(conn, login, "bob", "bob-password");
        world.activate(conn, login, identity).unwrap();
    });
    for (rule, result) in [
        ("narrowed", narrowed),
        ("revoked, lives again", revived),
        ("expired, lives again", expired),
        ("another user", other_user),
    ] {
        assert_eq!((result.status_code, result.output_arguments), (StatusCode::Good, None), "{rule}");
    }
}

#[test]
fn what_one_user_asked_for_is_not_carried_out_under_the_next() {
    let (mut world, conn, mut login) = in_step();
    world.ledger = None;
    let request = world.write_request(&login, vec![(id("Setpoint"), Variant::from(50.0))]);
    let pending = world.send(conn, &request);
    let identity = world.user(conn, &login, "bob", "bob-password");
    world.activate(conn, &mut login, identity).unwrap();
    let response = world.answer::<WriteResponse>(conn, pending).unwrap().unwrap();
    assert_eq!(response.results, Some(vec![StatusCode::BadUserAccessDenied]));
    for id in std::mem::take(&mut world.held_audits) {
        world.input(Input::Audited { id, result: crate::server::Audited::Kept });
    }
    assert!(world.written.is_empty());
    assert_eq!(world.last_reason(AuditKind::Write), Some(Reason::NoGrant));
}

#[test]
fn the_fail_mode_applies_when_the_authority_is_lost() {
    let (mut world, conn, login) = in_step();
    world.pass(Duration::from_secs(11));
    assert_eq!(world.read_one(conn, &login, "Setpoint"), Err(StatusCode::BadUserAccessDenied));
    assert_eq!(world.last_reason(AuditKind::Read), Some(Reason::AuthorityLost));
    assert!(world.last_reason(AuditKind::FailMode).is_some(), "visible in the audit");
    let (other, alice) = world.log_in(ENCRYPT, "alice");
    assert!(world.read_one(other, &alice, "Setpoint").is_ok(), "local grants do not depend on the authority");
}

#[test]
fn an_update_that_is_not_the_authoritys_changes_nothing() {
    let (mut world, conn, login) = in_step();
    let expires = world.now.unix + MINUTE;
    let forged = Update { revoked: vec![Revocation { id: "token-1".into(), expires }], ..update(&world, 2, Some(1)) };
    let sealed = seal(&forged, &super::keys::STRANGER).unwrap();
    world.input(Input::ControlUpdate(&sealed));
    world.input(Input::ControlUpdate(b"nonsense"));
    assert!(world.read_one(conn, &login, "Setpoint").is_ok());
    assert_eq!(world.outcomes(AuditKind::Contact).len(), 2);
}
