//! What is proposed permits what was recorded and, but for what the report says, nothing else.

use std::collections::BTreeSet;

use access_model::{Action, Effect, Epoch, MapDigest, ScopeMap, UnixTime};
use pdp::learn::{Proposal, Seen, propose};
use pdp::{Access, Snapshot, Sources};
use proptest::prelude::*;

const PLANT: &str = include_str!("../../../../examples/batch-plant/plant.toml");
const WORKFLOW: &str = include_str!("../../../../examples/batch-plant/workflow.toml");
const MIXER: &str = "urn:trapkey:demo:mixer";

fn digest(map: &ScopeMap) -> MapDigest {
    let mut out = [0_u8; 16];
    for (at, byte) in map.canonical_bytes().into_iter().enumerate() {
        out[at % 16] = out[at % 16].rotate_left(3) ^ byte;
    }
    MapDigest(out)
}

fn sources() -> Sources<'static> {
    Sources { plant: PLANT, policies: "", workflow: Some(WORKFLOW) }
}

fn at() -> UnixTime {
    UnixTime::from_seconds(1_000)
}

fn seen(who: &str, scope: &str, node: &str, action: Action, step: &str) -> Seen {
    let steps = if step.is_empty() { Vec::new() } else { vec![step.to_owned()] };
    let (who, scope, server) = (who.to_owned(), scope.to_owned(), MIXER.to_owned());
    Seen {
        access: Access { who, application: None, server, scope, action, steps, roles: Vec::new() },
        node: node.into(),
        count: 3,
        against: true,
    }
}

fn proposed(seen: Vec<Seen>) -> (Proposal, Snapshot) {
    let proposal = propose(sources(), seen, &digest, at()).unwrap_or_else(|faults| panic!("{faults}"));
    let plant = proposal.plant.clone().unwrap_or_else(|| PLANT.to_owned());
    let with = Sources { plant: &plant, policies: &proposal.policies, workflow: Some(WORKFLOW) };
    let snapshot = Snapshot::load(with, &digest, Epoch(1)).unwrap_or_else(|faults| panic!("{faults}"));
    (proposal, snapshot)
}

/// Scopes and persons of the example.
fn names() -> (Vec<String>, Vec<String>, Vec<String>) {
    let snapshot = Snapshot::load(sources(), &digest, Epoch(1)).unwrap();
    let plant = snapshot.plant();
    let scopes = plant.servers[MIXER].scopes.iter().map(|scope| scope.name.clone()).collect();
    let steps = snapshot.workflow().steps().iter().map(|step| step.name.clone()).collect();
    (scopes, plant.persons.keys().cloned().collect(), steps)
}

#[test]
fn what_was_seen_passes_and_the_next_thing_does_not() {
    let (scopes, _, steps) = names();
    let (scope, other) = (&scopes[0], &scopes[1]);
    let (proposal, snapshot) = proposed(vec![
        seen("olga", scope, "nsu=urn:m;s=A.Speed", Action::Write, &steps[0]),
        seen("olga", scope, "nsu=urn:m;s=A.Speed", Action::Read, &steps[0]),
    ]);
    assert_eq!(proposal.uncovered, []);
    let decide = |who: &str, scope: &str, action, step: &str| {
        seen(who, scope, "", action, step).access.decide(&snapshot, at()).unwrap()
    };
    assert_eq!(decide("olga", scope, Action::Write, &steps[0]), Effect::Permit, "{}", proposal.policies);
    for (what, effect) in [
        ("another step", decide("olga", scope, Action::Write, &steps[1])),
        ("another scope", decide("olga", other, Action::Write, &steps[0])),
        ("another action", decide("olga", scope, Action::Call, &steps[0])),
        ("somebody else", decide("nobody in the plant", scope, Action::Write, &steps[0])),
    ] {
        assert_eq!(effect, Effect::Forbid, "{what}: {}", proposal.policies);
    }
}

#[test]
fn whoever_and_whatever_the_plant_does_not_know_gets_a_role_and_a_scope() {
    let (proposal, snapshot) = proposed(vec![
        seen("anonymous", "", "nsu=urn:m;s=Old.Pump.Speed", Action::Read, ""),
        seen("anonymous", "", "nsu=urn:m;s=Old.Pump.Level", Action::Read, ""),
        seen("hmi-7", "", "nsu=urn:m;s=Old%20Pump\"s", Action::Write, ""),
        seen("hmi-7", "public", "i=2258", Action::Read, ""),
        seen("hmi-7", "", "further nodes", Action::Read, ""),
    ]);
    assert_eq!(proposal.uncovered, [], "{:?}", proposal.plant);
    assert_eq!(proposal.left_out.len(), 1, "{:?}", proposal.left_out);
    let names: Vec<&str> = proposal.roles.keys().map(String::as_str).collect();
    assert_eq!(names, ["learned-anonymous-mixer", "learned-hmi-7"]);
    let pump = proposal.scopes.iter().find(|scope| scope.nodes.len() == 2).unwrap();
    assert_eq!(pump.name, "old-pump-seen");
    assert!(snapshot.plant().persons.contains_key("anonymous@mixer"));
    let nodes: BTreeSet<String> = proposal.scopes.iter().flat_map(|scope| scope.nodes.clone()).collect();
    assert!(nodes.contains("nsu=urn:m;s=Old Pump\"s"), "{nodes:?}");
}

/// Roles as the record names them: a role that somebody was given since is not what was done by.
#[test]
fn a_right_goes_to_a_role_that_was_held_when_it_was_used() {
    let plant = PLANT.replacen("name = \"olga\"\n", "name = \"olga\"\nroles = [\"novel\"]\n", 1);
    assert_ne!(plant, PLANT);
    let plant = format!("{plant}\n[[role]]\nname = \"novel\"\n");
    let (scopes, _, steps) = names();
    let with = Sources { plant: &plant, policies: "", workflow: Some(WORKFLOW) };
    for (rule, held, role) in [
        ("one that nobody else has", vec![], "novel"),
        ("one that was held then", vec!["operator"], "operator"),
        ("one of today, where none of then is left", vec!["gone"], "novel"),
    ] {
        let mut one = seen("olga", &scopes[0], "n", Action::Write, &steps[0]);
        one.access.roles = held.into_iter().map(str::to_owned).collect();
        let proposal = propose(with, vec![one], &digest, at()).unwrap_or_else(|faults| panic!("{faults}"));
        assert!(proposal.rules.iter().all(|rule| rule.whose.name() == role), "{rule}: {:?}", proposal.rules);
        assert_eq!(proposal.uncovered, [], "{rule}");
    }
}

#[test]
fn coverage_is_told_by_role_and_step() {
    let (scopes, _, steps) = names();
    let mut nowhere = seen("olga", "", "further nodes", Action::Read, &steps[1]);
    nowhere.access.roles = vec!["operator".into()];
    let (proposal, _) = proposed(vec![
        seen("olga", &scopes[0], "n", Action::Write, &steps[0]),
        seen("olga", &scopes[0], "n", Action::Read, &steps[0]),
        seen("olga", &scopes[0], "n", Action::Read, &steps[1]),
        nowhere,
        seen("hmi-7", "", "nsu=urn:m;s=A.B", Action::Read, ""),
    ]);
    let told = |role: &str, step: &str| {
        let found = proposal.coverage.get(&(role.to_owned(), step.to_owned())).copied().unwrap_or_default();
        (found.recorded, found.permitted, found.left_out)
    };
    assert_eq!(told("operator", &steps[0]), (6, 6, 0), "{:?}", proposal.coverage);
    assert_eq!(told("operator", &steps[1]), (3, 3, 3), "{:?}", proposal.coverage);
    assert_eq!(told("learned-hmi-7", ""), (3, 3, 0), "{:?}", proposal.coverage);
    let all: u64 = proposal.coverage.values().map(|one| one.recorded + one.left_out).sum();
    assert_eq!(all, proposal.recorded);
}

#[test]
fn the_report_says_who_else_gets_a_right() {
    let (scopes, _, steps) = names();
    let (proposal, snapshot) = proposed(vec![seen("olga", &scopes[0], "n", Action::Write, &steps[0])]);
    let holders = |role: &str| {
        let plant = snapshot.plant();
        plant.persons.values().filter(|person| person.roles.iter().any(|held| held == role)).count()
    };
    for rule in &proposal.rules {
        let others = rule.used_by.len() + rule.also.len();
        assert!(others >= holders(rule.whose.name()), "{rule:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever was recorded: everything that was chosen is permitted, what is permitted to anybody else in another step,
    /// scope or by another action was asked of nobody, and every word of it loads.
    #[test]
    fn a_proposal_permits_all_of_it_and_only_what_somebody_with_the_same_role_did(
        life in proptest::collection::vec((0_usize..9, 0_usize..12, 0_usize..18, 0_usize..12, "[ -~]{0,12}"), 1..12),
    ) {
        let (scopes, people, steps) = names();
        let pick = |list: &[String], at: usize| list.get(at % (list.len() + 2)).cloned();
        let seen: Vec<Seen> = life.iter().map(|(who, scope, action, step, node)| {
            let who = pick(&people, *who).unwrap_or_else(|| format!("stranger {who}"));
            let scope = pick(&scopes, *scope).unwrap_or_default();
            let step = steps[step % steps.len()].clone();
            self::seen(&who, &scope, &format!("nsu=urn:m;s={node}"), Action::ALL[*action], &step)
        }).collect();
        let (proposal, snapshot) = proposed(seen.clone());
        prop_assert_eq!(&proposal.uncovered, &[]);
        let plant = snapshot.plant();
        for person in plant.persons.keys() {
            for scope in &scopes {
                for action in [Action::Write, Action::Call, Action::Read] {
                    for step in &steps {
                        let asked = self::seen(person, scope, "", action, step).access;
                        if asked.decide(&snapshot, at()).unwrap() == Effect::Permit {
                            let same = seen.iter().any(|one| {
                                let access = &one.access;
                                let roles = |name: &str| plant.persons.get(name).map(|one| one.roles.clone()).unwrap_or_default();
                                let alike = access.who == *person
                                    || roles(&access.who).iter().any(|role| roles(person).contains(role));
                                alike && access.scope == *scope && access.action == action && access.steps == [step.clone()]
                            });
                            prop_assert!(same, "{person} {action:?} {scope} {step}: {}", proposal.policies);
                        }
                    }
                }
            }
        }
    }
}
