//! The example plant: its cases hold, its policies are clean, its grants come and go with the recipe.

use access_model::{AccessRequest, Action, Effect, Epoch, MapDigest, Rights, ScopeMap, UnixTime};
use pdp::{Cases, Change, LiveGrant, NoGrant, Snapshot, Sources, check, explain, grant, redecide};

const PLANT: &str = include_str!("../../../../examples/batch-plant/plant.toml");
const POLICIES: &str = include_str!("../../../../examples/batch-plant/policies.cedar");
const WORKFLOW: &str = include_str!("../../../../examples/batch-plant/workflow.toml");
const CASES: &str = include_str!("../../../../examples/batch-plant/cases.toml");
const MIXER: &str = "urn:trapkey:demo:mixer";
const REACTOR: &str = "urn:trapkey:demo:reactor";
const HMI: &str = "urn:trapkey:demo:hmi";

/// Stands in for the digest of the token crate: tells maps apart by length and bytes.
fn digest(map: &ScopeMap) -> MapDigest {
    let mut out = [0_u8; 16];
    for (at, byte) in map.canonical_bytes().into_iter().enumerate() {
        out[at % 16] = out[at % 16].rotate_left(3) ^ byte;
    }
    MapDigest(out)
}

fn load(plant: &str, policies: &str) -> Snapshot {
    let sources = Sources { plant, policies, workflow: Some(WORKFLOW) };
    Snapshot::load(sources, &digest, Epoch(1)).unwrap_or_else(|faults| panic!("{faults}"))
}

fn example() -> Snapshot {
    load(PLANT, POLICIES)
}

fn at() -> UnixTime {
    UnixTime::from_seconds(1_000)
}

#[test]
fn every_case_holds() {
    let snapshot = example();
    let results = Cases::parse(CASES, &snapshot).unwrap().run(&snapshot);
    let broken: Vec<_> = results.iter().filter(|result| !result.differs.is_empty()).collect();
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(results.len() >= 16);
}

#[test]
fn a_wrong_case_is_said() {
    let snapshot = example();
    let wrong = CASES.replacen("expect = \"permit\"", "expect = \"forbid\"", 1).replacen(
        "lifetime = \"5m\"",
        "lifetime = \"6m\"",
        1,
    );
    let results = Cases::parse(&wrong, &snapshot).unwrap().run(&snapshot);
    let broken: Vec<_> = results.iter().filter(|result| !result.differs.is_empty()).collect();
    assert_eq!(broken.len(), 2, "{broken:#?}");
    assert_eq!(broken[0].differs, ["it is permitted by `operators-operate-their-equipment`, forbidden was expected"]);
    assert_eq!(broken[1].differs, ["lives 5m, not 6m"]);
}

#[test]
fn nothing_is_odd() {
    assert_eq!(check(&example()).unwrap(), []);
}

#[test]
fn a_grant_follows_the_recipe() {
    let idle = example();
    let olga = idle.principal(Some("olga"), Some(HMI), false);
    let map = idle.plant().servers[MIXER].scope_map().unwrap();
    let setpoints = map.position("setpoints").unwrap();
    let held = |snapshot: &Snapshot| {
        let grant = grant(snapshot, &olga, MIXER, at(), None).unwrap();
        assert_eq!(grant.spec.map, digest(&map));
        let row = grant.spec.rights.iter().find(|(_, scopes)| scopes.contains(&setpoints)).cloned();
        row.map_or(Rights::NONE, |(rights, _)| rights)
    };
    assert!(!held(&idle).contains(Rights::WRITE));
    let charge = idle.fire("start", Epoch(2)).unwrap();
    assert!(held(&charge).contains(Rights::WRITE));
    let live = grant(&charge, &olga, MIXER, at(), None).unwrap();
    assert_eq!(live.depends_on.iter().collect::<Vec<_>>(), ["charge"]);

    let heat = charge.fire("charged", Epoch(3)).unwrap();
    let spec = LiveGrant { principal: &olga, break_glass: None, spec: &live.spec };
    let Change::Narrowed(narrowed) = redecide(&heat, spec, at()) else { panic!("the step ended") };
    assert_eq!(narrowed.spec.epoch, Epoch(3));
    assert!(narrowed.spec.not_after <= live.spec.not_after);
    let later = UnixTime::from_seconds(1_060);
    let back = LiveGrant { principal: &olga, break_glass: None, spec: &narrowed.spec };
    let Change::Widened(widened) = redecide(&charge, back, later) else { panic!("the step came back") };
    assert_eq!(widened.spec.rights, live.spec.rights);
    assert_eq!(widened.spec.not_after, narrowed.spec.not_after, "only a new token extends");
    assert_eq!(redecide(&charge, spec, later), Change::Same);
}

#[test]
fn a_grant_that_holds_nothing_is_none() {
    let heat = example().in_steps(["heat"]).unwrap();
    let victor = heat.principal(Some("victor"), None, false);
    assert!(matches!(grant(&heat, &victor, REACTOR, at(), None), Err(NoGrant::Nothing { .. })));
    let idle = heat.in_steps(["idle"]).unwrap();
    let live = grant(&idle, &victor, REACTOR, at(), None).unwrap();
    let spec = LiveGrant { principal: &victor, break_glass: None, spec: &live.spec };
    assert!(matches!(redecide(&heat, spec, at()), Change::Revoked(_)));
}

#[test]
fn other_scopes_revoke_what_indexed_the_old_ones() {
    let before = example();
    let olga = before.principal(Some("olga"), Some(HMI), false);
    let live = grant(&before, &olga, MIXER, at(), None).unwrap();
    let renamed = PLANT.replacen("name = \"measurements\"", "name = \"gauges\"", 1);
    let after = load(&renamed, POLICIES);
    let spec = LiveGrant { principal: &olga, break_glass: None, spec: &live.spec };
    let Change::Revoked(why) = redecide(&after, spec, at()) else { panic!("positions mean something else") };
    assert_eq!(why.to_string(), "the scopes of `urn:trapkey:demo:mixer` changed");
}

#[test]
fn break_glass_is_boxed_and_needs_its_reason() {
    let snapshot = example().in_steps(["react"]).unwrap();
    let sasha = snapshot.principal(Some("sasha"), Some(HMI), true);
    let broken = grant(&snapshot, &sasha, MIXER, at(), Some("mixer runs away")).unwrap();
    let plain = grant(&snapshot, &snapshot.principal(Some("sasha"), Some(HMI), false), MIXER, at(), None).unwrap();
    assert!(
        broken.spec.rights.iter().map(|(_, s)| s.len()).sum::<usize>()
            >= plain.spec.rights.iter().map(|(_, s)| s.len()).sum()
    );
    assert!(broken.spec.not_after.since(at()).as_secs() <= 900);
    for reason in ["", "   short ", "x"] {
        let refused = grant(&snapshot, &sasha, MIXER, at(), Some(reason)).unwrap_err();
        assert!(refused.to_string().contains("needs a reason"), "{refused}");
    }
    // The role listed, but the glass whole.
    assert_eq!(grant(&snapshot, &sasha, MIXER, at(), None).unwrap(), plain);
    let olga = snapshot.principal(Some("olga"), Some(HMI), true);
    assert!(
        grant(&snapshot, &olga, MIXER, at(), Some("mixer runs away"))
            .unwrap_err()
            .to_string()
            .contains("no break-glass role")
    );
}

#[test]
fn explanations_name_rule_condition_and_smallest_change() {
    let snapshot = example().in_steps(["heat"]).unwrap();
    let ask = |person: &str, application: &str, scope: &str| AccessRequest {
        principal: snapshot.principal(Some(person), Some(application), false),
        action: Action::Write,
        server: MIXER.into(),
        scope: scope.into(),
        at: at(),
        break_glass: None,
    };
    insta::assert_snapshot!("step", explain(&snapshot, &ask("olga", HMI, "setpoints")));
    insta::assert_snapshot!("two_changes", explain(&snapshot, &ask("omar", HMI, "setpoints")));
    insta::assert_snapshot!("stranger", explain(&snapshot, &ask("mallory", HMI, "setpoints")));
    let permitted = explain(&snapshot.in_steps(["charge"]).unwrap(), &ask("olga", HMI, "setpoints"));
    assert_eq!(permitted.decision.effect, Effect::Permit);
    assert!(permitted.changes.is_empty() && permitted.rules[0].applies());
}

#[test]
fn odd_policies_are_found() {
    let mut odd = POLICIES.to_owned();
    odd.push_str("@id(\"nobody\") permit(principal in Role::\"administrator\", action, resource) when { resource.labels.contains(\"nuclear\") };\n");
    odd.push_str("permit(principal is Application, action == Action::\"write\", resource) when { principal.labels.contains(\"x\") };\n");
    for (at, scope) in ["measurements", "setpoints", "valves", "recipe"].iter().enumerate() {
        odd.push_str(&format!("@id(\"n{at}\") permit(principal in Role::\"operator\", action == Action::\"read\", resource == Scope::\"filler/{scope}\");\n"));
    }
    odd.push_str("@id(\"n4\") permit(principal in Role::\"operator\", action == Action::\"read\", resource == Scope::\"mixer/recipe\");\n");
    odd.push_str("@id(\"wall\") forbid(principal, action == Action::\"add_node\", resource);\n@id(\"beaten\") permit(principal in Role::\"operator\", action == Action::\"add_node\", resource);\n");
    let findings = check(&load(PLANT, &odd)).unwrap();
    let said: Vec<String> = findings.iter().map(|one| format!("{} {}", one.kind.word(), one.message)).collect();
    insta::assert_snapshot!("odd", said.join("\n"));
}
