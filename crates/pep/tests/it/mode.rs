//! A gate that observes: what passes, what is written on it, and what ends when it enforces again.

use access_model::{Action, Mode, Now, Reason, Rights, ScopeIndex};
use pep::{Contact, FailMode, Gate, GateConfig, GateEvent, Identity, Standing, Verdict};
use proptest::prelude::*;
use token::control::Update;

use crate::common;
use crate::common::{
    Authority, ISSUER, READ, binding, claims, delta, events, full, operation, revocation, seconds, start,
};

/// A gate in front of a server, in step with its authority at epoch 1.
fn guard(authority: &Authority, mode: Mode, ordered: Option<Mode>) -> Gate {
    let contact = Some(Contact { issuer: ISSUER.into(), timeout: seconds(10), fail_mode: FailMode::Closed });
    let config = GateConfig { contact, mode, switchable: true, ..authority.config() };
    let mut gate = Gate::new(config, start()).unwrap();
    assert_eq!(gate.mode(), Mode::Enforce, "it has not heard its authority");
    gate.on_update(&authority.seal(&Update { mode: ordered, ..full(1, start()) }), start()).unwrap();
    events(&mut gate);
    gate
}

/// What became of one check: denied, passed, or passed in spite of something.
fn said(gate: &Gate, grant: pep::GrantId, action: Action, scope: u32, now: Now) -> Result<Option<Reason>, Reason> {
    match gate.check(grant, operation(action, scope), now) {
        Verdict::Permit(permit) => {
            let against = permit.against();
            assert_eq!(permit.spend().1.against, against, "what is spent says so too");
            Ok(against)
        }
        Verdict::Deny(denial) => Err(denial.reason),
    }
}

#[test]
fn denials_pass_and_say_what_they_would_have_been() {
    let authority = Authority::new();
    let now = start();
    let mut gate = guard(&authority, Mode::Observe, None);
    let grant = gate.present(&authority.token(&claims("a", now)), &binding(), now).unwrap();
    for (action, scope, expected) in [
        (Action::Read, 1, None),
        (Action::Write, 1, None),
        (Action::Write, 2, Some(Reason::RightMissing)),
        (Action::Read, 3, Some(Reason::ScopeNotGranted)),
        (Action::Read, ScopeIndex::NOWHERE.0, Some(Reason::ScopeNotGranted)),
        (Action::Write, ScopeIndex::PUBLIC.0, Some(Reason::RightMissing)),
    ] {
        assert_eq!(said(&gate, grant, action, scope, now), Ok(expected), "{action:?} on {scope}");
    }
    assert_eq!(gate.rights(grant, ScopeIndex(3), now), Rights::ALL);
    assert_eq!(gate.granted(grant, ScopeIndex(3), now), Rights::NONE);
    assert_eq!(gate.granted(grant, ScopeIndex(2), now), READ);
}

#[test]
fn who_has_not_signed_in_or_whose_grant_is_over_gets_nothing_while_it_observes() {
    let authority = Authority::new();
    let now = start();
    let mut gate = guard(&authority, Mode::Observe, None);
    let [expiring, revoked] =
        ["a", "b"].map(|id| gate.present(&authority.token(&claims(id, now)), &binding(), now).unwrap());
    gate.on_update(&authority.seal(&Update { revoked: vec![revocation("b", now)], ..delta(2, now) }), now).unwrap();
    assert_eq!(said(&gate, revoked, Action::Read, 1, now), Err(Reason::GrantRevoked));
    let late = now.after(seconds(300));
    assert_eq!(said(&gate, expiring, Action::Read, 1, late), Err(Reason::GrantExpired));
    gate.release(expiring);
    assert_eq!(said(&gate, expiring, Action::Read, 1, now), Err(Reason::NoGrant));
    assert!(gate.present(b"no token", &binding(), now).is_err(), "it still asks who somebody is");
}

#[test]
fn a_lost_authority_stops_nothing_that_is_only_observed() {
    let authority = Authority::new();
    let now = start();
    let mut gate = guard(&authority, Mode::Observe, None);
    let grant = gate.present(&authority.token(&claims("a", now)), &binding(), now).unwrap();
    let late = now.after(seconds(60));
    gate.handle_timeout(late);
    assert_eq!(said(&gate, grant, Action::Read, 1, late), Ok(Some(Reason::AuthorityLost)));
    assert!(matches!(gate.standing(grant, late), Standing::Live { .. }));
}

#[test]
fn the_mode_is_what_the_authority_says_else_what_is_configured_else_enforce() {
    let authority = Authority::new();
    let now = start();
    for (configured, ordered, expected) in [
        (Mode::Enforce, None, Mode::Enforce),
        (Mode::Observe, None, Mode::Observe),
        (Mode::Observe, Some(Mode::Enforce), Mode::Enforce),
        (Mode::Enforce, Some(Mode::Observe), Mode::Observe),
    ] {
        assert_eq!(guard(&authority, configured, ordered).mode(), expected, "{configured:?} {ordered:?}");
    }
    let never = Gate::new(GateConfig { mode: Mode::Observe, ..authority.config() }, now).unwrap();
    assert_eq!(never.mode(), Mode::Enforce, "a server that validates tokens itself never observes");
    let mut gate = guard(&authority, Mode::Enforce, None);
    let order = |mode, epoch| authority.seal(&Update { mode: Some(mode), ..delta(epoch, now) });
    let observe = order(Mode::Observe, 2);
    gate.on_update(&observe, now).unwrap();
    assert_eq!(events(&mut gate), [GateEvent::Mode(Mode::Observe)]);
    gate.on_update(&order(Mode::Enforce, 3), now).unwrap();
    assert_eq!(events(&mut gate), [GateEvent::Mode(Mode::Enforce)]);
    gate.on_update(&observe, now).unwrap();
    assert_eq!(gate.mode(), Mode::Enforce, "an order that was heard before does not come back");
    gate.on_update(&order(Mode::Observe, 9), now).unwrap();
    assert_eq!(gate.mode(), Mode::Enforce, "nothing is unlocked while updates are missing");
}

#[test]
fn grants_that_only_observation_holds_up_end_with_it() {
    let authority = Authority::new();
    let now = start();
    let mut gate = guard(&authority, Mode::Observe, None);
    let own = gate.present(&authority.token(&claims("a", now)), &binding(), now).unwrap();
    let olga = Identity::User { name: "olga".into() };
    let guest = gate.admit_observed(&olga, "olga", &binding(), now).unwrap();
    assert_eq!(gate.claims(guest).unwrap().subject, "olga");
    assert_eq!(said(&gate, guest, Action::Write, 1, now), Ok(Some(Reason::ScopeNotGranted)));
    let order = authority.seal(&Update { mode: Some(Mode::Enforce), ..delta(2, now) });
    gate.on_update(&order, now).unwrap();
    assert_eq!(events(&mut gate), [GateEvent::Revoked(guest), GateEvent::Mode(Mode::Enforce)]);
    assert_eq!(said(&gate, guest, Action::Read, 1, now), Err(Reason::GrantRevoked));
    assert_eq!(said(&gate, own, Action::Read, 1, now), Ok(None), "a grant of its own stands");
    assert_eq!(gate.admit_observed(&olga, "olga", &binding(), now), None);
}

/// Nobody takes such a grant back: who was let in only because nothing was denied is asked about again.
#[test]
fn who_is_only_observed_signs_in_again_after_an_hour_by_either_clock() {
    let authority = Authority::new();
    let start = start();
    let olga = Identity::User { name: "olga".into() };
    let ahead = |seconds: u64| Now { unix: start.unix + std::time::Duration::from_secs(seconds), ..start };
    for (rule, now, lives) in [
        ("a moment before", start.after(seconds(3_599)), true),
        ("an hour later", start.after(seconds(3_600)), false),
        ("an hour later by the wall clock", ahead(3_600), false),
    ] {
        let mut gate = guard(&authority, Mode::Observe, None);
        let guest = gate.admit_observed(&olga, "olga", &binding(), start).unwrap();
        gate.handle_timeout(now);
        assert_eq!(said(&gate, guest, Action::Read, 1, now).is_ok(), lives, "{rule}");
        let ended = events(&mut gate).contains(&GateEvent::Ended(guest));
        assert_eq!((ended, gate.len()), if lives { (false, 1) } else { (true, 0) }, "{rule}: there is no grace");
    }
}

#[test]
fn a_gate_that_asks_nobody_observes_only_whom_it_grants_something() {
    let authority = Authority::new();
    let now = start();
    let olga = Identity::User { name: "olga".into() };
    for (asks, turned_away) in [(true, false), (false, true)] {
        let contact = Some(Contact { issuer: ISSUER.into(), timeout: seconds(10), fail_mode: FailMode::Closed });
        let config = GateConfig { contact, mode: Mode::Observe, switchable: true, ask: asks, ..authority.config() };
        let mut gate = Gate::new(config, now).unwrap();
        gate.on_update(&authority.seal(&Update { mode: None, ..full(1, now) }), now).unwrap();
        assert_eq!(gate.mode(), Mode::Observe);
        let admitted = gate.admit(&olga, &binding(), now);
        assert_eq!(matches!(admitted, pep::Admission::Refused(_)), turned_away, "{asks}: {admitted:?}");
        assert_eq!(matches!(admitted, pep::Admission::Ask(_)), asks, "{asks}");
    }
}

proptest! {
    /// The mutation that matters: whatever a gate that enforces denies, one that observes lets pass only with the very
    /// same reason written on it, and what it permits carries none.
    #[test]
    fn observing_hides_no_denial(
        held in proptest::collection::vec((0_u32..0x2_0000, 0_u32..4), 0..4),
        action in proptest::sample::select(Action::ALL.to_vec()),
        scope in prop_oneof![0_u32..6, Just(u32::MAX)],
    ) {
        let authority = Authority::new();
        let now = start();
        let entries: Vec<(Rights, [u32; 1])> =
            held.iter().map(|(bits, scope)| (Rights::from_bits(*bits).unwrap(), [*scope])).collect();
        let rights = common::rights(&entries.iter().map(|(rights, scopes)| (*rights, &scopes[..])).collect::<Vec<_>>());
        let token = authority.token(&token::Claims { rights: Some(rights), ..claims("a", now) });
        let [enforced, observed] = [Mode::Enforce, Mode::Observe].map(|mode| {
            let mut gate = guard(&authority, mode, None);
            let grant = gate.present(&token, &binding(), now).unwrap();
            said(&gate, grant, action, scope, now)
        });
        prop_assert!(observed.is_ok());
        match enforced {
            Ok(against) => {
                prop_assert_eq!(against, None);
                prop_assert_eq!(observed, Ok(None));
            }
            Err(reason) => prop_assert_eq!(observed, Ok(Some(reason))),
        }
    }
}
