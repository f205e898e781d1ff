//! Other scopes, ranges, restrictions and another way to the server, while sessions run.

use std::collections::BTreeMap;
use std::time::Duration;

use access_model::{AuditKind, Bounds, Interlock, Outcome, Reason, Restrictions, Rights, ScopeIndex, ScopeMap};
use opcua_types::*;

use super::world::*;
use crate::client::Credential;
use crate::guard::{Layout, ScopeEntry, ScopeRule, ScopeRules, UpstreamIdentity};

pub(super) fn layout(names: &[&str], rules: ScopeRules) -> Layout {
    let map = ScopeMap::new(names.iter().copied()).unwrap();
    Layout { map, rules, interlocks: BTreeMap::new(), restrictions: (Restrictions::NONE, Vec::new()) }
}

fn node_rule(scope: u32, name: &str) -> ScopeEntry {
    let rule = ScopeRule::Node(Identifier::String(name.into()));
    ScopeEntry { scope: ScopeIndex(scope), namespace: PLANT.into(), rule }
}

fn statuses(world: &mut World, client: crate::server::ConnId, nodes: &[&str]) -> Vec<StatusCode> {
    let response: ReadResponse = world.ask(client, read(nodes)).unwrap();
    response.results.unwrap().iter().map(DataValue::status).collect()
}

fn lay_out(world: &mut World, layout: Layout) -> bool {
    let another = world.guard.lay_out(layout, world.now).unwrap();
    world.run();
    another
}

#[test]
fn changed_rules_hold_for_sessions_that_run() {
    let mut world = World::new();
    let client = world.client();
    let nodes = ["Setpoint", "Speed", "Secret"];
    let (good, denied, hidden) = (StatusCode::Good, StatusCode::BadUserAccessDenied, StatusCode::BadNodeIdUnknown);
    assert_eq!(statuses(&mut world, client, &nodes), [good, denied, hidden]);
    let swapped = ScopeRules { entries: vec![node_rule(3, "Setpoint"), node_rule(1, "Speed"), node_rule(2, "Secret")] };
    assert!(!lay_out(&mut world, layout(&SCOPES, swapped)), "the map is the same");
    assert_eq!(statuses(&mut world, client, &nodes), [hidden, good, denied]);
    assert!(!lay_out(&mut world, layout(&SCOPES, rules())));
    assert_eq!(statuses(&mut world, client, &nodes), [good, denied, hidden]);
}

#[test]
fn another_map_ends_every_token_that_indexes_the_old_one() {
    let mut world = World::new();
    let client = world.client_by_token(vec![(Rights::BROWSE | Rights::READ, 3)], Duration::from_secs(600));
    assert_eq!(statuses(&mut world, client, &["Secret"]), [StatusCode::Good]);
    // The vault's position is the reactor's now: the old token would open it.
    let other = ScopeRules { entries: vec![node_rule(3, "Setpoint")] };
    assert!(lay_out(&mut world, layout(&["vault", "mixer", "reactor"], other)));
    let refused: Result<ReadResponse, _> = world.ask(client, read(&["Setpoint"]));
    assert!(refused.is_err(), "{refused:?}");
}

#[test]
fn browse_paths_are_roots_like_node_ids() {
    let mut world = World::new();
    let client = world.client();
    let path = |scope, steps: &[(u16, &str)]| ScopeEntry {
        scope: ScopeIndex(scope),
        namespace: String::new(),
        rule: ScopeRule::Path(steps.iter().map(|(namespace, name)| (*namespace, (*name).to_owned())).collect()),
    };
    let entries = vec![
        path(1, &[(0, "Objects"), (1, "Unit")]),
        path(3, &[(0, "Objects"), (1, "Unit"), (1, "Vault")]),
        path(2, &[(0, "Objects"), (1, "Nowhere")]),
    ];
    lay_out(&mut world, layout(&SCOPES, ScopeRules { entries }));
    let nodes = ["Setpoint", "Secret", "Inner", "Vault"];
    let good = StatusCode::Good;
    let hidden = StatusCode::BadNodeIdUnknown;
    let read = statuses(&mut world, client, &nodes);
    assert_eq!((&read[..3], read[3]), (&[good, good, hidden][..], hidden));
}

#[test]
fn a_written_value_lies_in_the_range_of_its_scope() {
    let mut world = World::with(|config| {
        let bounds = Bounds { range: Some((0.0, 100.0)), ..Bounds::default() };
        config.interlocks.insert(ScopeIndex(1), Interlock { bounds, ..Interlock::default() });
    });
    let client = world.client();
    for (rule, node, value, expected) in [
        ("inside", "Setpoint", Variant::from(99.5_f64), StatusCode::Good),
        ("above", "Setpoint", Variant::from(100.5_f64), StatusCode::BadOutOfRange),
        ("not a number", "Setpoint", Variant::from(f64::NAN), StatusCode::BadOutOfRange),
        ("text", "Note", Variant::from("99"), StatusCode::BadOutOfRange),
        ("one of an array", "Samples", Variant::from(vec![1_i32, 101]), StatusCode::BadOutOfRange),
        ("all of an array", "Samples", Variant::from(vec![1_i32, 2, 100]), StatusCode::Good),
    ] {
        let written: WriteResponse = world.ask(client, write(vec![(node, value)])).unwrap();
        assert_eq!(written.results, Some(vec![expected]), "{rule}");
    }
    let denied = |record: &&access_model::AuditRecord| record.outcome == Outcome::Denied(Reason::ValueOutOfRange);
    assert!(world.records.iter().filter(denied).all(|record| record.kind == AuditKind::Write));
    assert_eq!(world.records.iter().filter(denied).count(), 4);
}

#[test]
fn a_channel_is_what_its_nodes_ask_for() {
    let mut world = World::new();
    let client = world.client();
    let mut strict = layout(&SCOPES, rules());
    strict.restrictions = (Restrictions::NONE, vec![(ScopeIndex(1), Restrictions::ENCRYPTION)]);
    lay_out(&mut world, strict);
    assert_eq!(statuses(&mut world, client, &["Setpoint"]), [StatusCode::BadSecurityModeInsufficient]);
    let written: WriteResponse = world.ask(client, write(vec![("Setpoint", 1.0.into())])).unwrap();
    assert_eq!(written.results, Some(vec![StatusCode::BadSecurityModeInsufficient]));
    let rights = vec![(Rights::BROWSE | Rights::READ, 1)];
    let encrypted = world.client_by_token(rights, Duration::from_secs(600));
    assert_eq!(statuses(&mut world, encrypted, &["Setpoint"]), [StatusCode::Good]);
}

#[test]
fn a_guard_that_was_started_without_a_way_to_its_server_gets_one() {
    let mut upstream = Vec::new();
    let mut world = World::with(|config| upstream = std::mem::take(&mut config.upstream));
    let client = world.client();
    let refused: Result<ReadResponse, _> = world.ask(client, read(&["Setpoint"]));
    assert_eq!(refused.unwrap_err(), StatusCode::BadServerNotConnected);
    let now = world.now;
    world.guard.reach(upstream.clone(), now);
    world.run();
    assert_eq!(statuses(&mut world, client, &["Setpoint"]), [StatusCode::Good]);
    let another = upstream.into_iter().map(|one| UpstreamIdentity {
        session: std::sync::Arc::new((*one.session).clone()),
        credential: Credential::Anonymous,
        ..one
    });
    world.guard.reach(another.collect(), now);
    world.run();
    assert_eq!(statuses(&mut world, client, &["Setpoint"]), [StatusCode::Good]);
    assert_eq!(world.plant.load().1, 1, "the session that was reached in the old way is closed");
}
