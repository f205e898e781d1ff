//! Sessions whose roles change go on upstream under another identity, over another link. What the old link had under way
//! is over for the client, and still under way for the plant.

use std::collections::BTreeMap;
use std::time::Duration;

use access_model::{AuditKind, AuditRecord, Bounds, Interlock, Outcome, ScopeIndex};
use opcua_types::*;

use super::world::*;
use crate::guard::links::Owner;
use crate::guard::{GuardConfig, Input, Sharing, Upstream};
use crate::server::{self, Audited, ConnId};

const SECOND: Duration = Duration::from_secs(1);
const WRITE: ObjectId = ObjectId::WriteRequest_Encoding_DefaultBinary;

/// Operators are somebody else upstream.
fn places(config: &mut GuardConfig) {
    let mut identity = config.upstream[0].clone();
    identity.role = Some("Operator".to_owned());
    config.upstream.insert(0, identity);
}

/// Lets the plant's answers through that have come so far, and holds those that come of it.
fn step(world: &mut World) {
    for (link, bytes) in std::mem::take(&mut world.held) {
        world.guard.handle_input(Input::Up { link, event: Upstream::Bytes(&bytes) }, world.now);
    }
    world.run();
}

fn write_statuses(world: &mut World, client: ConnId, value: f64) -> Vec<StatusCode> {
    world.ask::<WriteResponse>(client, write(vec![("Setpoint", value.into())])).unwrap().results.unwrap()
}

/// The link that is closed has nobody who could be told that its requests wait too long: their clients hear at once that
/// nothing comes, and its alarm does not go off for them.
#[test]
fn a_request_under_way_when_the_roles_change_is_answered_once_and_holds_nobody_up() {
    for (sharing, user) in
        [(Sharing::Never, "alice"), (Sharing::Never, "bob"), (Sharing::Always, "alice"), (Sharing::Always, "bob")]
    {
        let rule = format!("{sharing:?}, {user}");
        let mut world = World::with(|config| {
            places(config);
            config.pool = sharing;
        });
        let client = world.client_by_roles(&["Operator"]);
        let links = world.guard.links.len();
        world.hold = true;
        world.reached.clear();
        let asked = world.send_for(client, write(vec![("Setpoint", 25.0.into())]), SECOND * 2);
        assert_eq!(world.at_plant(WRITE).len(), 1, "{rule}: it is sent");
        assert!(world.answer(client, asked).is_none(), "{rule}");
        let other = world.token_by_roles(user, &[]);
        world.reactivate(client, other);
        let answer = world.answer(client, asked).expect(&rule);
        assert_eq!(answer.unwrap_err(), StatusCode::BadCommunicationError, "{rule}");
        let failed = Outcome::Failed(StatusCode::BadCommunicationError.bits());
        let unheard = |record: &&AuditRecord| record.kind == AuditKind::Write && record.outcome == failed;
        assert_eq!(world.records.iter().filter(unheard).count(), 1, "{rule}: that nobody knows is recorded");
        // Beyond its time. That nothing is answered twice is looked after by the world.
        world.pass(SECOND * 3);
        world.release();
        world.pass(SECOND);
        assert!(world.guard.links.values().all(|link| link.jobs.is_empty()), "{rule}: nothing is left of it");
        assert!(world.answer(client, asked).is_none(), "{rule}");
        assert_eq!(write_statuses(&mut world, client, 26.0), [StatusCode::Good], "{rule}: it goes on as somebody else");
        world.pass(SECOND);
        assert_eq!(world.guard.links.len(), links, "{rule}: the old one is gone, and its pool with the last of it");
    }
}

/// Whatever becomes due and never done: the others have their turn, and time goes on.
#[test]
fn an_alarm_that_goes_off_again_and_again_does_not_stop_the_guard() {
    let mut world = World::new();
    world.client();
    let owner = *world.guard.links.keys().find(|owner| matches!(owner, Owner::Session(_))).unwrap();
    let mut stuck = world.guard.links.remove(&owner).unwrap();
    // Only links that are being closed look at this, so nothing takes it away.
    stuck.closing = Some(world.now.mono);
    world.guard.put_back(owner, stuck, world.now);
    world.guard.handle_timeout(world.now);
    assert!(world.guard.poll_timeout().is_some_and(|at| at > world.now.mono), "looked after later");
    let other = world.client();
    assert!(world.ask::<ReadResponse>(other, read(&["Setpoint"])).is_ok());
}

/// A step limit on the setpoint.
fn stepped(config: &mut GuardConfig) {
    places(config);
    let bounds = Bounds { range: Some((0.0, 60.0)), step: Some(5.0), rate: None };
    let rule = Interlock { bounds, arguments: BTreeMap::new(), two_persons: None };
    config.interlocks = [(ScopeIndex(1), rule)].into();
}

#[test]
fn a_node_stays_held_for_a_write_of_the_link_before() {
    const UNKNOWN: StatusCode = StatusCode::BadInvalidState;
    for sharing in [Sharing::Never, Sharing::Always] {
        let mut world = World::with(|config| {
            stepped(config);
            config.pool = sharing;
        });
        let client = world.client_by_roles(&["Operator"]);
        let other = world.client();
        world.hold = true;
        world.reached.clear();
        let asked = world.send(client, write(vec![("Setpoint", 25.0.into())]));
        // The value that was read comes, and what is written goes; its answer does not come.
        step(&mut world);
        assert_eq!(world.at_plant(WRITE).len(), 1, "{sharing:?}: it is sent");
        let plain = world.token_by_roles("alice", &[]);
        world.reactivate(client, plain);
        assert!(world.answer(client, asked).expect("at once").is_err(), "{sharing:?}");
        world.release();
        // Among these is one with the number that the write would have on the new link.
        for _ in 0..8 {
            assert!(world.ask::<ReadResponse>(client, read(&["Note"])).is_ok(), "{sharing:?}");
        }
        assert_eq!(write_statuses(&mut world, other, 21.0), [UNKNOWN], "{sharing:?}: it is held");
        world.pass(SECOND * 61);
        assert_eq!(write_statuses(&mut world, other, 24.0), [StatusCode::Good], "{sharing:?}: its time is over");
    }
}

#[test]
fn an_acknowledgement_is_not_taken_by_a_request_of_the_next_link() {
    let mut world = World::with(places);
    let client = world.client_by_roles(&["Operator"]);
    world.ledger = None;
    world.unacknowledged.clear();
    world.reached.clear();
    let first = world.send(client, write(vec![("Setpoint", 25.0.into())]));
    let before = world.unacknowledged.pop().expect("a record to wait for");
    let plain = world.token_by_roles("alice", &[]);
    world.reactivate(client, plain);
    assert!(world.answer(client, first).is_some(), "it is not carried out any more");
    world.unacknowledged.clear();
    let second = world.send(client, write(vec![("Setpoint", 26.0.into())]));
    let own = world.unacknowledged.pop().expect("a record to wait for");
    for (id, reached) in [(before, 0), (own, 1)] {
        let kept = server::Input::Audited { id, result: Audited::Kept };
        world.guard.handle_input(Input::Down(kept), world.now);
        world.run();
        assert_eq!(world.at_plant(WRITE).len(), reached, "by its own record only");
    }
    assert!(world.answer(client, second).is_some());
}
