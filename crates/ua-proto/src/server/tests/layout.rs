//! Another set of scopes under running sessions.

use std::time::Duration;

use access_model::{AuditKind, Outcome, Reason, Rights, ScopeIndex, ScopeMap};
use opcua_types::*;
use token::{Claims, RightsClaim, map_digest};

use super::ask::*;
use super::keys::ISSUER;
use super::world::*;
use crate::server::ConnId;
use crate::space::NodeRef;

const MINUTE: Duration = Duration::from_secs(60);

fn write(world: &mut World, conn: ConnId, login: &Login, value: f64) -> StatusCode {
    world.write(conn, login, vec![(id("Setpoint"), Variant::from(value))]).map_or_else(|fault| fault, |all| all[0])
}

fn lay_out(world: &mut World, map: &[&str], scopes: &[(&str, u32)], high: f64) -> Result<bool, pep::InvalidGate> {
    let node = |world: &World, name: &str| world.server.space().find(&id(name)).unwrap();
    let nodes: Vec<(NodeRef, ScopeIndex)> =
        scopes.iter().map(|(name, scope)| (node(world, name), ScopeIndex(*scope))).collect();
    let setpoint = node(world, "Setpoint");
    let arrange = |space: &mut crate::space::Space| {
        nodes.iter().for_each(|(node, scope)| space.set_scope(*node, *scope));
        vec![(setpoint, 0.0, high)]
    };
    let done = world.server.lay_out(ScopeMap::new(map.iter().copied()).unwrap(), arrange, world.now);
    world.run();
    done
}

#[test]
fn a_changed_range_holds_for_the_next_write_of_a_running_session() {
    let mut world = World::new();
    let token = world.token(MINUTE);
    let (conn, login) = world.log_in_by_token(&token);
    assert_eq!(write(&mut world, conn, &login, 90.0), StatusCode::Good);
    assert_eq!(lay_out(&mut world, &SCOPES, &[], 50.0), Ok(false), "the map is the same");
    assert_eq!(write(&mut world, conn, &login, 90.0), StatusCode::BadOutOfRange);
    assert_eq!(write(&mut world, conn, &login, 40.0), StatusCode::Good, "and the grant goes on");
    assert_eq!(world.outcomes(AuditKind::PolicyChanged), [Outcome::Allowed]);
}

#[test]
fn a_node_that_moves_to_a_scope_without_rights_falls_silent_at_once() {
    let mut world = World::new();
    let token = world.token(MINUTE);
    let (conn, login) = world.log_in_by_token(&token);
    assert!(world.read_one(conn, &login, "Pressure").is_ok());
    assert_eq!(lay_out(&mut world, &SCOPES, &[("Pressure", 3)], 100.0), Ok(false));
    assert_eq!(world.read_one(conn, &login, "Pressure"), Err(StatusCode::BadNodeIdUnknown), "in the vault");
    assert!(world.read_one(conn, &login, "Setpoint").is_ok());
    let counted: Vec<_> = world.records.iter().filter(|record| record.kind == AuditKind::Read).collect();
    assert_eq!(counted[0].object, "reactor", "what was read before was read in the old scope");
}

#[test]
fn another_map_ends_grants_and_a_new_token_revives_the_session() {
    let mut world = World::new();
    let token = world.token(MINUTE);
    let (conn, mut login) = world.log_in_by_token(&token);
    let map = ["lock", "reactor", "mixer", "vault"];
    let moved = [("Setpoint", 2), ("Pressure", 2), ("Speed", 3), ("Secret", 4)];
    assert_eq!(lay_out(&mut world, &map, &moved, 100.0), Ok(true));
    assert_eq!(world.read_one(conn, &login, "Setpoint"), Err(StatusCode::BadUserAccessDenied));
    assert_eq!(world.last_reason(AuditKind::GrantRevoked), Some(Reason::GrantRevoked));
    let old = world.activate(conn, &mut login, clear_token(token.as_bytes()));
    assert_eq!(old, Err(StatusCode::BadIdentityTokenRejected));
    assert_eq!(world.last_reason(AuditKind::SessionActivated), Some(Reason::ScopeMapMismatch));

    let digest = map_digest(&ScopeMap::new(map).unwrap());
    let rights = RightsClaim::new(digest, [(Rights::BROWSE | Rights::READ, vec![2])]);
    let fresh = token::mint(&Claims { rights: Some(rights), ..world.claims(MINUTE) }, &ISSUER).unwrap();
    world.activate(conn, &mut login, clear_token(fresh.as_bytes())).unwrap();
    assert!(world.read_one(conn, &login, "Setpoint").is_ok());
    assert_eq!(write(&mut world, conn, &login, 40.0), StatusCode::BadUserAccessDenied);
    assert_eq!(world.read_one(conn, &login, "Secret"), Err(StatusCode::BadNodeIdUnknown));
}

#[test]
fn a_map_that_local_grants_do_not_fit_changes_nothing() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let refused = lay_out(&mut world, &["mixer", "vault"], &[("Setpoint", 2)], 1.0);
    assert_eq!(refused, Err(pep::InvalidGate::UnknownScope("reactor".into())));
    assert!(world.read_one(conn, &login, "Setpoint").is_ok());
    assert_eq!(write(&mut world, conn, &login, 90.0), StatusCode::Good, "nor the ranges");
    assert_eq!(world.outcomes(AuditKind::PolicyChanged), []);
}
