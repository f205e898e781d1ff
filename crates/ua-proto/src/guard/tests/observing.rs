//! A guard that observes: everything passes, and nothing that enforcement would turn away is recorded as allowed.

use std::collections::BTreeMap;
use std::time::Duration;

use access_model::{Action, AuditKind, Bounds, Interlock, Mode, Outcome, Reason, ScopeIndex};
use opcua_types::*;

use super::services::{BATCH, browse, statuses};
use super::world::*;
use crate::server::{AuditConfig, Audited};

fn ranges(config: &mut crate::guard::GuardConfig) {
    let bounds = Bounds { range: Some((0.0, 100.0)), ..Bounds::default() };
    config.interlocks.insert(ScopeIndex(1), Interlock { bounds, ..Interlock::default() });
}

fn world(mode: Mode) -> World {
    World::made_in(mode, ranges, AuditConfig { denials_per_second: 1_000, ..AuditConfig::default() })
}

/// A client that does a bit of everything.
fn life(world: &mut World) -> Vec<StatusCode> {
    let client = world.client();
    let values: ReadResponse = world.ask(client, read(&BATCH)).unwrap();
    let mut all = statuses(&values);
    for items in [
        vec![("Setpoint", 5.0.into()), ("Setpoint", 500.0.into()), ("Speed", 1_i32.into()), ("Secret", "x".into())],
        vec![("Secret", "y".into())],
    ] {
        let written: WriteResponse = world.ask(client, write(items)).unwrap();
        all.extend(written.results.unwrap());
    }
    let seen: BrowseResponse = world.ask(client, browse(&["Unit", "Vault"], 0)).unwrap();
    all.extend(seen.results.unwrap().iter().map(|result| result.status_code));
    for method in ["Reset", "Stir", "Open"] {
        let called = world.send(client, call("Unit", method));
        while !world.invoked.is_empty() {
            world.returned(Vec::new());
        }
        let response = CallResponse::try_from(world.answer(client, called).unwrap().unwrap()).unwrap();
        all.push(response.results.unwrap()[0].status_code);
    }
    world.pass(Duration::from_secs(2));
    all
}

/// How often each thing was recorded with a reason.
fn against(world: &World, enforced: bool) -> BTreeMap<(AuditKind, Reason), u64> {
    let mut all = BTreeMap::new();
    for record in &world.records {
        match record.outcome {
            Outcome::Denied(reason) if enforced => *all.entry((record.kind, reason)).or_default() += record.count,
            Outcome::Observed(reason) if !enforced => *all.entry((record.kind, reason)).or_default() += record.count,
            Outcome::Denied(reason) => panic!("denied while it observes: {reason}"),
            Outcome::Observed(reason) => panic!("observed while it enforces: {reason}"),
            _ => {}
        }
    }
    all
}

#[test]
fn observing_denies_nothing_and_records_each_would_be_denial_as_one() {
    let (mut enforcing, mut observing) = (world(Mode::Enforce), world(Mode::Observe));
    let (denied, passed) = (life(&mut enforcing), life(&mut observing));
    assert!(denied.iter().any(|status| status.is_bad()));
    // `Nothing` is not there, and a folder has no value: the server behind says so itself.
    let upstream: Vec<_> = passed.iter().filter(|status| status.is_bad()).collect();
    assert_eq!(upstream, [&StatusCode::BadNodeIdUnknown, &StatusCode::BadAttributeIdInvalid], "{passed:?}");
    let (would, was) = (against(&observing, false), against(&enforcing, true));
    assert_eq!(would.keys().collect::<Vec<_>>(), was.keys().collect::<Vec<_>>(), "no kind of denial is hidden");
    for (what, count) in &was {
        assert!(would[what] >= *count, "{what:?}: {count} denials, {} observed", would[what]);
    }
}

#[test]
fn records_say_which_node_and_what_it_takes_and_in_which_step() {
    let mut world = world(Mode::Observe);
    world.guard.set_steps("fill".into(), world.now);
    let client = world.client();
    let _: ReadResponse = world.ask(client, read(&["Secret", "Secret", "Setpoint"])).unwrap();
    world.guard.set_steps("drain".into(), world.now);
    let _: WriteResponse = world.ask(client, write(vec![("Setpoint", 500.0.into())])).unwrap();
    world.pass(Duration::from_secs(2));
    let seen: Vec<_> = world.records.iter().filter_map(|record| Some((record, record.place.as_ref()?))).collect();
    let of = |node: &str, action: Action| {
        let found = seen.iter().find(|(record, place)| record.object.ends_with(node) && place.action == action);
        let (record, place) = found.unwrap_or_else(|| panic!("{node}: {seen:#?}"));
        (place.scope.as_str(), place.steps.as_str(), record.outcome, record.count)
    };
    assert_eq!(of("s=Secret", Action::Read), ("vault", "fill", Outcome::Observed(Reason::ScopeNotGranted), 2));
    assert_eq!(of("s=Setpoint", Action::Read), ("reactor", "fill", Outcome::Allowed, 1));
    let out = Outcome::Observed(Reason::ValueOutOfRange);
    assert_eq!(of("s=Setpoint", Action::Write), ("reactor", "drain", out, 1));
    assert!(seen.iter().any(|(record, _)| record.object.starts_with("nsu=urn:test:plant;")), "by URI, not by number");
}

#[test]
fn what_nobody_named_is_seen_while_it_observes_and_hidden_when_it_enforces() {
    let vault = |world: &mut World| {
        let client = world.client();
        let seen: BrowseResponse = world.ask(client, browse(&["Unit"], 0)).unwrap();
        let results = seen.results.unwrap().remove(0).references.unwrap_or_default();
        results.iter().any(|reference| reference.browse_name.name.as_ref() == "Vault")
    };
    assert!(vault(&mut world(Mode::Observe)));
    assert!(!vault(&mut world(Mode::Enforce)));
}

#[test]
fn what_was_permitted_only_by_observing_is_not_sent_once_it_enforces() {
    for (rule, value, switched, expected) in [
        ("still observes", 500.0, false, StatusCode::Good),
        ("enforces by then", 500.0, true, StatusCode::BadUserAccessDenied),
        ("enforces, and nothing is against it", 50.0, true, StatusCode::Good),
    ] {
        let mut world = World::listening(Mode::Observe, ranges);
        let client = world.client();
        world.ledger = None;
        let asked = world.send(client, write(vec![("Setpoint", value.into())]));
        let waiting = world.unacknowledged.pop().expect("it waits for the ledger");
        if switched {
            world.update(2, |update| update.mode = Some(Mode::Enforce));
        }
        let kept = crate::server::Input::Audited { id: waiting, result: Audited::Kept };
        world.guard.handle_input(crate::guard::Input::Down(kept), world.now);
        world.run();
        let response = WriteResponse::try_from(world.answer(client, asked).unwrap().unwrap()).unwrap();
        assert_eq!(response.results, Some(vec![expected]), "{rule}");
    }
}
