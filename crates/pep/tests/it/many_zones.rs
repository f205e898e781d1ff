//! What holds in a scope is looked up; here it is held against going through all zones for each item, at random.

use std::time::Duration;

use access_model::{Action, Now, Reason, ScopeMap};
use pep::{
    Contact, FailMode, FailState, Gate, GateConfig, LedgerTrouble, LocalGrant, LocalScopes, Standing, Who, Zone,
};
use proptest::prelude::*;
use token::{Claims, RightsClaim};

use crate::common::*;

/// Contact is lost when nothing was heard for this long.
const SILENCE: u64 = 10;

/// `public` is in front of them.
const SCOPES: [&str; 5] = ["mixer", "reactor", "tank", "pump", "oven"];

fn mode() -> impl Strategy<Value = FailMode> {
    prop_oneof![
        Just(FailMode::Closed),
        Just(FailMode::ReadOnly),
        (0..40_u64).prop_map(|span| FailMode::LastKnownGood(Duration::from_secs(span))),
    ]
}

fn zone() -> impl Strategy<Value = Zone> {
    let names = [SCOPES.as_slice(), &["public", "elsewhere"]].concat();
    let scopes = prop::collection::vec(prop::sample::select(names), 0..4);
    (prop::collection::vec(mode(), 0..3), scopes).prop_map(|(modes, scopes)| Zone {
        name: "some".into(),
        modes,
        scopes: scopes.into_iter().map(str::to_owned).collect(),
    })
}

/// What is lost at a moment, and since when, by seconds from the start.
#[derive(Clone, Copy)]
struct Lost {
    trouble: Option<(LedgerTrouble, u64)>,
    at: u64,
}

/// One mode, as the configuration describes it.
fn after(mode: FailMode, since: u64, at: u64) -> FailState {
    match mode {
        FailMode::Closed => FailState::Closed,
        FailMode::ReadOnly => FailState::ReadOnly,
        FailMode::LastKnownGood(span) if at < since + span.as_secs() => FailState::LastKnown,
        FailMode::LastKnownGood(_) => FailState::Closed,
    }
}

fn strictest(modes: &[FailMode], since: u64, at: u64) -> FailState {
    modes.iter().map(|mode| after(*mode, since, at)).max().unwrap_or(FailState::InStep)
}

impl Lost {
    fn authority(self, modes: &[FailMode], own: FailMode) -> FailState {
        if self.at < SILENCE {
            return FailState::InStep;
        }
        strictest(if modes.is_empty() { std::slice::from_ref(&own) } else { modes }, SILENCE, self.at)
    }

    fn ledger(self, modes: &[FailMode]) -> FailState {
        match self.trouble {
            None => FailState::InStep,
            Some((LedgerTrouble::Full, _)) => FailState::Closed,
            Some((LedgerTrouble::Failing, since)) => strictest(modes, since, self.at),
        }
    }

    /// Why somebody whose grant allows everything may not.
    fn denies(authority: FailState, ledger: FailState, action: Action) -> Option<Reason> {
        let (state, reason) =
            if ledger > authority { (ledger, Reason::AuditUnavailable) } else { (authority, Reason::AuthorityLost) };
        let denied = state == FailState::Closed || state == FailState::ReadOnly && action.changes();
        denied.then_some(reason)
    }
}

/// All modes of all zones with this scope, one after the other.
fn modes_around(zones: &[Zone], scope: &str) -> Vec<FailMode> {
    let around = zones.iter().filter(|zone| zone.scopes.iter().any(|name| name == scope));
    around.flat_map(|zone| zone.modes.iter().copied()).collect()
}

/// The modes of each zone with scopes in this map, and none where some scope is in no zone.
fn parts(zones: &[Zone], map: &ScopeMap) -> Vec<Vec<FailMode>> {
    let holds = |zone: &Zone, scope: &str| zone.scopes.iter().any(|name| name == scope);
    let here = zones.iter().filter(|zone| map.iter().any(|(_, name)| holds(zone, name)));
    let mut parts: Vec<_> = here.map(|zone| zone.modes.clone()).collect();
    if map.iter().any(|(_, name)| !zones.iter().any(|zone| holds(zone, name))) {
        parts.push(Vec::new());
    }
    parts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_look_up_decides_as_going_through_all_zones_does(
        zones in prop::collection::vec(zone(), 0..8),
        later in prop::option::of(prop::collection::vec(zone(), 0..8)),
        own in mode(),
        count in 1..=SCOPES.len(),
        trouble in prop::option::of((prop::bool::ANY, 0..30_u64)),
        mut times in prop::collection::vec(0..80_u64, 1..6),
    ) {
        let (authority, now) = (Authority::new(), start());
        let map = ScopeMap::new(SCOPES[..count].iter().copied()).unwrap();
        let scopes = 0..u32::try_from(map.len()).unwrap();
        let contact = Some(Contact { issuer: ISSUER.into(), timeout: seconds(SILENCE), fail_mode: own });
        let all = vec![(access_model::Rights::ALL, LocalScopes::All)];
        let local = LocalGrant { who: Who::Anonymous, require_encryption: false, roles: vec![], rights: all };
        let config = GateConfig { contact, zones: zones.clone(), map: map.clone(), local: vec![local], ..authority.config() };
        let mut gate = Gate::new(config, now).unwrap();
        gate.on_update(&authority.seal(&full(1, now)), now).unwrap();
        let rights = RightsClaim::new(token::map_digest(&map), [(access_model::Rights::ALL, scopes.clone())]);
        let claims = Claims { rights: Some(rights), expires: now.unix + seconds(3_000), ..claims("a", now) };
        let granted = gate.present(&authority.token(&claims), &binding(), now).unwrap();
        let pep::Admission::Granted(local) = gate.admit(&pep::Identity::Anonymous, &binding(), now) else {
            panic!("the gate itself lets them in")
        };
        times.sort_unstable();
        let middle = times[times.len() / 2];
        let mut zones = zones;
        let mut told = None;
        for at in times {
            let moment = |after| -> Now { now.after(seconds(after)) };
            if let Some((full, since)) = trouble.filter(|(_, since)| told.is_none() && *since <= at) {
                let trouble = if full { LedgerTrouble::Full } else { LedgerTrouble::Failing };
                gate.on_ledger(Some(trouble), moment(since));
                told = Some((trouble, since));
            }
            if at >= middle && let Some(later) = &later {
                zones.clone_from(later);
                gate.set_zones(later.clone(), moment(at));
            }
            let lost = Lost { trouble: told, at };
            for (scope, name) in map.iter() {
                let modes = modes_around(&zones, name);
                // On `public` everybody holds the same.
                let actions = if scope.0 == 0 { vec![Action::Read] } else { Action::ALL.to_vec() };
                for action in actions {
                    let wanted = Lost::denies(lost.authority(&modes, own), lost.ledger(&modes), action);
                    prop_assert_eq!(denied(&gate, granted, action, scope.0, moment(at)), wanted, "{} at {}", name, at);
                    let wanted = Lost::denies(FailState::InStep, lost.ledger(&modes), action);
                    prop_assert_eq!(denied(&gate, local, action, scope.0, moment(at)), wanted, "{} at {}", name, at);
                }
            }
            // Beyond the map no zone is, and no grant; the first that speaks against it is named.
            let beyond = Lost::denies(lost.authority(&[], own), lost.ledger(&[]), Action::Read);
            let wanted = beyond.or(Some(Reason::ScopeNotGranted));
            prop_assert_eq!(denied(&gate, granted, Action::Read, u32::MAX, moment(at)), wanted);
            let parts = parts(&zones, &map);
            let of = |state: &dyn Fn(&[FailMode]) -> FailState| -> Vec<FailState> { parts.iter().map(|it| state(it)).collect() };
            let (by_authority, by_ledger) = (of(&|modes| lost.authority(modes, own)), of(&|modes| lost.ledger(modes)));
            prop_assert_eq!(gate.fail_state(moment(at)), *by_authority.iter().max().unwrap());
            prop_assert_eq!(gate.ledger_state(moment(at)), *by_ledger.iter().max().unwrap());
            let (most, recorded) = (*by_authority.iter().min().unwrap(), *by_ledger.iter().min().unwrap());
            let suspended = match Lost::denies(most, recorded, Action::Read) {
                Some(reason) => matches!(gate.standing(granted, moment(at)), Standing::Suspended { reason: told } if told == reason),
                None => matches!(gate.standing(granted, moment(at)), Standing::Live { .. }),
            };
            prop_assert!(suspended, "{:?}: {:?} and {:?}", gate.standing(granted, moment(at)), most, recorded);
        }
    }
}
