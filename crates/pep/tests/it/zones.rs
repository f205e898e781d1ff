//! What is left zone by zone while the authority or the ledger is lost, and while it is another guard's turn: tables in
//! virtual time.

use access_model::{Action, Mode, Now, Reason};
use pep::{Contact, FailMode, FailState, Gate, GateConfig, GateEvent, GrantId, LedgerTrouble, Standing, Zone};
use token::Claims;

use crate::common::*;

const LOST: Option<Reason> = Some(Reason::AuthorityLost);
const UNRECORDED: Option<Reason> = Some(Reason::AuditUnavailable);
const OK: Option<Reason> = None;

fn zone(name: &str, modes: &[FailMode], scopes: &[&str]) -> Zone {
    Zone { name: name.into(), modes: modes.to_vec(), scopes: scopes.iter().map(|&scope| scope.to_owned()).collect() }
}

/// A gate in step, with a grant that may read and write everywhere.
fn gate(authority: &Authority, fail_mode: FailMode, zones: Vec<Zone>) -> (Gate, GrantId) {
    let now = start();
    let contact = Some(Contact { issuer: ISSUER.into(), timeout: seconds(10), fail_mode });
    let mut gate = Gate::new(GateConfig { contact, zones, ..authority.config() }, now).unwrap();
    gate.on_update(&authority.seal(&full(1, now)), now).unwrap();
    let all = rights(&[(READ | access_model::Rights::WRITE, &[1, 2, 3])]);
    let claims = Claims { rights: Some(all), expires: now.unix + seconds(3_000), ..claims("a", now) };
    let grant = gate.present(&authority.token(&claims), &binding(), now).unwrap();
    events(&mut gate);
    (gate, grant)
}

/// Why read and write are denied in scopes 1 to 3, before any timer ran and after.
fn left(gate: &mut Gate, grant: GrantId, at: Now) -> [(Option<Reason>, Option<Reason>); 3] {
    let look = |gate: &Gate| {
        [1, 2, 3]
            .map(|scope| (denied(gate, grant, Action::Read, scope, at), denied(gate, grant, Action::Write, scope, at)))
    };
    let before = look(gate);
    gate.handle_timeout(at);
    assert!(gate.poll_timeout().is_none_or(|next| next > at.mono), "what is due was done");
    assert_eq!(look(gate), before, "at {at:?}: the same without a timer");
    before
}

#[test]
fn each_zone_keeps_what_its_mode_leaves_while_the_authority_is_lost() {
    use FailMode::{Closed, LastKnownGood, ReadOnly};
    let authority = Authority::new();
    // Mixer, reactor and tank; the gate's own mode holds where there is no zone.
    let zones = vec![
        zone("wet", &[LastKnownGood(seconds(60))], &["mixer", "gone"]),
        zone("hot", &[ReadOnly], &["reactor"]),
        zone("empty", &[Closed], &[]),
    ];
    let (mut gate, grant) = gate(&authority, Closed, zones);
    for (after, mixer, reactor, tank, strictest) in [
        (9, (OK, OK), (OK, OK), (OK, OK), FailState::InStep),
        (10, (OK, OK), (OK, LOST), (LOST, LOST), FailState::Closed),
        (69, (OK, OK), (OK, LOST), (LOST, LOST), FailState::Closed),
        (70, (LOST, LOST), (OK, LOST), (LOST, LOST), FailState::Closed),
        (900, (LOST, LOST), (OK, LOST), (LOST, LOST), FailState::Closed),
    ] {
        let at = start().after(seconds(after));
        assert_eq!(left(&mut gate, grant, at), [mixer, reactor, tank], "after {after} s");
        assert_eq!(gate.fail_state(at), strictest, "after {after} s");
    }
    let told = events(&mut gate);
    assert_eq!(
        told,
        [GateEvent::FailMode(FailState::Closed); 2],
        "once when it is lost, once when the wet zone closes"
    );
    let at = start().after(seconds(900));
    let states: Vec<_> = gate.zone_states(at).into_iter().map(|zone| (zone.name, zone.authority)).collect();
    assert_eq!(states, [("wet".to_owned(), FailState::Closed), ("hot".to_owned(), FailState::ReadOnly)]);
    assert!(matches!(gate.standing(grant, at), Standing::Live { .. }), "something is left");
    gate.on_update(&authority.seal(&full(1, at)), at).unwrap();
    assert_eq!(left(&mut gate, grant, at), [(OK, OK); 3]);
}

#[test]
fn of_several_modes_the_strictest_holds_at_any_time() {
    use FailMode::{Closed, LastKnownGood, ReadOnly};
    let authority = Authority::new();
    let span = LastKnownGood(seconds(60));
    for (modes, before, after) in [
        (vec![span, ReadOnly], (OK, LOST), (LOST, LOST)),
        (vec![span, LastKnownGood(seconds(999))], (OK, OK), (LOST, LOST)),
        (vec![ReadOnly, Closed], (LOST, LOST), (LOST, LOST)),
        (vec![ReadOnly, ReadOnly], (OK, LOST), (OK, LOST)),
    ] {
        let together = vec![zone("z", &modes, &["mixer"])];
        let apart = modes.iter().map(|mode| zone("z", &[*mode], &["mixer"])).collect();
        for zones in [together, apart] {
            let (mut gate, grant) = gate(&authority, Closed, zones);
            assert_eq!(left(&mut gate, grant, start().after(seconds(69)))[0], before, "{modes:?}");
            assert_eq!(left(&mut gate, grant, start().after(seconds(70)))[0], after, "{modes:?}");
        }
    }
}

#[test]
fn each_zone_keeps_what_its_mode_leaves_while_nothing_can_be_recorded() {
    use FailMode::{Closed, LastKnownGood, ReadOnly};
    let authority = Authority::new();
    let zones = vec![
        zone("wet", &[LastKnownGood(seconds(5))], &["mixer"]),
        zone("hot", &[ReadOnly], &["reactor"]),
        zone("shut", &[Closed], &["public"]),
    ];
    let (mut gate, grant) = gate(&authority, Closed, zones);
    let foreign = Claims { issuer: FOREIGN.into(), ..claims("f", start()) };
    let foreign = gate.present(&authority.token(&foreign), &binding(), start()).unwrap();
    let at = |after| start().after(seconds(after));
    gate.on_ledger(Some(LedgerTrouble::Failing), at(1));
    assert_eq!(events(&mut gate), [GateEvent::Ledger(FailState::Closed)], "the strictest: the public scope");
    assert_eq!(left(&mut gate, grant, at(5)), [(OK, OK), (OK, UNRECORDED), (OK, OK)], "no zone: as it was");
    assert_eq!(denied(&gate, grant, Action::Read, 0, at(5)), UNRECORDED);
    assert_eq!(denied(&gate, foreign, Action::Write, 1, at(5)), OK);
    assert_eq!(denied(&gate, foreign, Action::Read, 0, at(5)), UNRECORDED, "whoever has granted it");
    assert_eq!(left(&mut gate, grant, at(6)), [(UNRECORDED, UNRECORDED), (OK, UNRECORDED), (OK, OK)]);
    gate.on_ledger(Some(LedgerTrouble::Full), at(7));
    assert_eq!(left(&mut gate, grant, at(7)), [(UNRECORDED, UNRECORDED); 3], "nothing can be recorded later");
    assert_eq!(gate.standing(grant, at(7)), Standing::Suspended { reason: Reason::AuditUnavailable });
    gate.on_ledger(Some(LedgerTrouble::Failing), at(8));
    assert_eq!(left(&mut gate, grant, at(8))[0], (UNRECORDED, UNRECORDED), "the time runs since the first trouble");
    gate.on_ledger(None, at(9));
    assert_eq!(left(&mut gate, grant, at(9)), [(OK, OK); 3]);
    assert_eq!(events(&mut gate).last(), Some(&GateEvent::Ledger(FailState::InStep)));
    gate.on_ledger(Some(LedgerTrouble::Failing), at(9));
    assert_eq!(left(&mut gate, grant, at(9))[0], (OK, OK), "a new loss has its own time");
}

#[test]
fn both_lost_leaves_what_both_leave() {
    let authority = Authority::new();
    let zones = vec![zone("hot", &[FailMode::ReadOnly], &["mixer"])];
    let (mut gate, grant) = gate(&authority, FailMode::LastKnownGood(seconds(99)), zones);
    let at = start().after(seconds(20));
    gate.on_ledger(Some(LedgerTrouble::Failing), at);
    assert_eq!(left(&mut gate, grant, at), [(OK, LOST), (OK, OK), (OK, OK)]);
    gate.on_ledger(Some(LedgerTrouble::Full), at);
    assert_eq!(left(&mut gate, grant, at), [(UNRECORDED, UNRECORDED); 3]);
}

#[test]
fn zones_follow_the_plant_and_its_scopes() {
    let authority = Authority::new();
    let (mut gate, grant) = gate(&authority, FailMode::ReadOnly, vec![]);
    let at = start().after(seconds(20));
    assert_eq!(left(&mut gate, grant, at), [(OK, LOST); 3]);
    gate.set_zones(vec![zone("z", &[FailMode::Closed], &["reactor"])], at);
    assert_eq!(left(&mut gate, grant, at), [(OK, LOST), (LOST, LOST), (OK, LOST)]);
    let turned = access_model::ScopeMap::new(["reactor", "mixer", "tank"]).unwrap();
    gate.set_map(turned, at).unwrap();
    assert_eq!(gate.zone_states(at)[0].authority, FailState::Closed);
    let now = start();
    let mut quiet = self::gate(&authority, FailMode::ReadOnly, vec![]).0;
    quiet.set_zones(vec![zone("z", &[FailMode::Closed], &["reactor"])], now);
    assert_eq!(events(&mut quiet), [], "zones that come while nothing is lost are no news");
}

#[test]
fn a_gate_that_needs_a_lease_serves_only_while_it_has_one_by_both_clocks() {
    let authority = Authority::new();
    let now = start();
    let mut gate =
        Gate::new(GateConfig { leased: true, mode: Mode::Observe, switchable: true, ..authority.config() }, now)
            .unwrap();
    let token = Claims { expires: now.unix + seconds(3_000), ..claims("a", now) };
    let grant = gate.present(&authority.token(&token), &binding(), now).unwrap();
    events(&mut gate);
    let at = |after| start().after(seconds(after));
    let read = |gate: &Gate, at: Now| denied(gate, grant, Action::Read, 1, at);
    assert_eq!(read(&gate, now), Some(Reason::StandingBy), "also a gate that observes");
    gate.lease_until(Some(at(10)), now);
    assert_eq!((read(&gate, at(9)), events(&mut gate)), (OK, vec![GateEvent::Lease(true)]));
    assert_eq!(read(&gate, at(10)), Some(Reason::StandingBy), "before any timer ran");
    assert_eq!(gate.poll_timeout(), Some(at(10).mono));
    gate.lease_until(Some(at(14)), at(9));
    assert_eq!((read(&gate, at(13)), events(&mut gate)), (OK, vec![]), "renewed: no news");
    // The whole machine slept: the monotonic clock stood still.
    let woken = Now { mono: at(11).mono, unix: at(99).unix };
    assert!(gate.is_due(woken));
    gate.handle_timeout(woken);
    assert_eq!((read(&gate, woken), events(&mut gate)), (Some(Reason::StandingBy), vec![GateEvent::Lease(false)]));
    gate.lease_until(Some(at(200)), woken);
    gate.lease_until(None, woken);
    assert_eq!(read(&gate, woken), Some(Reason::StandingBy));
    assert_eq!(gate.standing(grant, woken), Standing::Suspended { reason: Reason::StandingBy });
    let mut free = authority.gate();
    let grant = free.present(&authority.token(&token), &binding(), now).unwrap();
    free.lease_until(None, now);
    assert_eq!(denied(&free, grant, Action::Read, 1, now), OK, "a gate that needs none does not care");
}
