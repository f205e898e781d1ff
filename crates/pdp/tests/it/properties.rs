//! What must hold for every plant, policy and question.

use access_model::{AccessRequest, Action, Effect, Epoch, MapDigest, Principal, Rights, UnixTime};
use pdp::{Snapshot, Sources, decide, grant};
use proptest::prelude::*;

const ROLES: [&str; 3] = ["r0", "r1", "r2"];
const LABELS: [&str; 3] = ["l0", "l1", "l2"];
const STEPS: [&str; 3] = ["s0", "s1", "s2"];
const ACTIONS: [Action; 5] = [Action::Read, Action::Write, Action::Call, Action::Browse, Action::UpdateHistory];

#[derive(Clone, Debug)]
struct Rule {
    forbid: bool,
    role: Option<usize>,
    action: Option<usize>,
    label: Option<usize>,
    step: Option<usize>,
    scope: Option<usize>,
    remote: bool,
}

#[derive(Clone, Debug)]
struct World {
    rules: Vec<Rule>,
    scopes: Vec<(Vec<usize>, Vec<usize>, bool)>,
    held: Vec<Vec<usize>>,
    step: usize,
}

fn rule() -> impl Strategy<Value = Rule> {
    let pick = |n: usize| prop::option::of(0..n);
    (
        prop::bool::weighted(0.25),
        pick(3),
        pick(5),
        pick(3),
        pick(3),
        prop::option::weighted(0.2, 0..4_usize),
        prop::bool::weighted(0.2),
    )
        .prop_map(|(forbid, role, action, label, step, scope, remote)| Rule {
            forbid,
            role,
            action,
            label,
            step,
            scope,
            remote,
        })
}

fn world() -> impl Strategy<Value = World> {
    let some = || prop::collection::vec(0..3_usize, 0..3);
    (
        prop::collection::vec(rule(), 1..7),
        prop::collection::vec((some(), some(), any::<bool>()), 4..8),
        prop::collection::vec(some(), 2..4),
        0..3_usize,
    )
        .prop_map(|(rules, scopes, held, step)| World { rules, scopes, held, step })
}

fn quoted(words: &[&str], picked: &[usize]) -> String {
    picked.iter().map(|at| format!("\"{}\"", words[*at])).collect::<Vec<_>>().join(", ")
}

fn load(world: &World) -> Snapshot {
    let mut plant = "[plant]\nname=\"p\"\n[[site]]\nname=\"s\"\n[[zone]]\nname=\"z\"\nsite=\"s\"\n[[equipment]]\nname=\"e\"\nzone=\"z\"\n\
         [[application]]\nuri=\"near\"\n[[application]]\nuri=\"far\"\nlabels=[\"remote\"]\n".to_owned();
    for role in ROLES {
        plant += &format!("[[role]]\nname=\"{role}\"\n");
    }
    for (at, roles) in world.held.iter().enumerate() {
        plant += &format!("[[person]]\nname=\"p{at}\"\nroles=[{}]\n", quoted(&ROLES, roles));
    }
    plant += "[[server]]\nname=\"m\"\nuri=\"urn:m\"\nequipment=\"e\"\n";
    for (at, (labels, steps, _)) in world.scopes.iter().enumerate().filter(|(_, (_, _, method))| !method) {
        plant += &format!(
            "[[server.scope]]\nname=\"x{at}\"\nlabels=[{}]\nsteps=[{}]\n",
            quoted(&LABELS, labels),
            quoted(&STEPS, steps)
        );
    }
    for (at, (labels, steps, _)) in world.scopes.iter().enumerate().filter(|(_, (_, _, method))| *method) {
        plant += &format!(
            "[[server.method]]\nname=\"x{at}\"\nlabels=[{}]\nsteps=[{}]\n",
            quoted(&LABELS, labels),
            quoted(&STEPS, steps)
        );
    }
    let mut policies = String::new();
    for rule in &world.rules {
        let effect = if rule.forbid { "forbid" } else { "permit" };
        let principal = rule.role.map_or("principal".into(), |r| format!("principal in Role::\"{}\"", ROLES[r]));
        let action = rule.action.map_or("action".into(), |a| match ACTIONS[a] {
            Action::UpdateHistory => "action == Action::\"insert_history\"".into(),
            action => format!("action == Action::\"{}\"", action.name()),
        });
        let mut when: Vec<String> = Vec::new();
        when.extend(rule.label.map(|l| format!("resource.labels.contains(\"{}\")", LABELS[l])));
        when.extend(rule.step.map(|s| {
            format!("(context.steps.contains(Step::\"{}\") || context.steps.containsAny(resource.steps))", STEPS[s])
        }));
        when.extend(
            rule.remote
                .then(|| "context has application && context.application.labels.contains(\"remote\")".to_owned()),
        );
        let scope = rule.scope.map(|s| (s, world.scopes[s].2));
        let resource = scope.map_or("resource".into(), |(s, method)| {
            format!("resource == {}::\"m/x{s}\"", if method { "Method" } else { "Scope" })
        });
        let when = if when.is_empty() { String::new() } else { format!(" when {{ {} }}", when.join(" && ")) };
        policies += &format!("{effect}({principal}, {action}, {resource}){when};\n");
    }
    let mut workflow = "[[procedure]]\nname=\"b\"\n".to_owned();
    for (at, step) in STEPS.iter().enumerate() {
        workflow += &format!("[[step]]\nname=\"{step}\"\ntokens={}\n", u32::from(at == world.step));
    }
    workflow += "[[transition]]\nname=\"t\"\nfrom=[\"s0\"]\nto=[\"s1\"]\n";
    let sources = Sources { plant: &plant, policies: &policies, workflow: Some(&workflow) };
    Snapshot::load(sources, &|_| MapDigest([7; 16]), Epoch(3))
        .unwrap_or_else(|faults| panic!("{faults}\n{plant}\n{policies}"))
}

/// The rules read by hand, as a person would.
fn expected(world: &World, person: usize, remote: bool, action: Action, scope: usize) -> Effect {
    let (labels, steps, _) = &world.scopes[scope];
    let applies = |rule: &&Rule| {
        let named =
            rule.action.map(|a| if ACTIONS[a] == Action::UpdateHistory { Action::InsertHistory } else { ACTIONS[a] });
        rule.role.is_none_or(|r| world.held[person].contains(&r))
            && named.is_none_or(|named| named == action)
            && rule.label.is_none_or(|l| labels.contains(&l))
            && rule.step.is_none_or(|s| world.step == s || steps.contains(&world.step))
            && rule.scope.is_none_or(|s| s == scope)
            && (!rule.remote || remote)
    };
    let all: Vec<&Rule> = world.rules.iter().filter(applies).collect();
    if all.iter().any(|rule| rule.forbid) || all.is_empty() { Effect::Forbid } else { Effect::Permit }
}

fn ask(snapshot: &Snapshot, principal: Principal, action: Action, scope: usize) -> access_model::Decision {
    let scope = format!("x{scope}");
    decide(
        snapshot,
        &AccessRequest {
            principal,
            action,
            server: "urn:m".into(),
            scope,
            at: UnixTime::from_seconds(9),
            break_glass: None,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Forbid wins, no rule is forbid, and the answer is what a reader of the rules expects. A second snapshot from
    /// the same texts, and a second question, answer the same.
    #[test]
    fn decisions_are_what_the_rules_say(world in world()) {
        let (snapshot, again) = (load(&world), load(&world));
        for person in 0..world.held.len() {
            for (uri, remote) in [("near", false), ("far", true)] {
                let who = snapshot.principal(Some(&format!("p{person}")), Some(uri), false);
                for action in ACTIONS {
                    for scope in 0..world.scopes.len() {
                        let got = ask(&snapshot, who.clone(), action, scope);
                        let want = match action {
                            Action::UpdateHistory => [Action::InsertHistory, Action::ModifyHistory]
                                .map(|one| expected(&world, person, remote, one, scope))
                                .into_iter().max().unwrap(),
                            one => expected(&world, person, remote, one, scope),
                        };
                        prop_assert_eq!(got.effect, want, "p{} {} x{}", person, action.name(), scope);
                        prop_assert_eq!(&got, &ask(&again, who.clone(), action, scope));
                        prop_assert_eq!(&got, &ask(&snapshot, who.clone(), action, scope));
                        if got.effect == Effect::Forbid {
                            prop_assert!(got.depends_on.is_empty());
                        }
                    }
                }
            }
        }
    }

    /// A grant holds exactly what deciding scope by scope allows.
    #[test]
    fn a_grant_is_the_sum_of_its_decisions(world in world(), person in 0..2_usize) {
        let snapshot = load(&world);
        let who = snapshot.principal(Some(&format!("p{person}")), Some("far"), false);
        let map = snapshot.plant().servers["urn:m"].scope_map().unwrap();
        let spec = grant(&snapshot, &who, "urn:m", UnixTime::from_seconds(9), None).map(|grant| grant.spec.rights).unwrap_or_default();
        for scope in 0..world.scopes.len() {
            let index = map.position(&format!("x{scope}")).unwrap();
            let held = spec.iter().find(|(_, scopes)| scopes.contains(&index)).map_or(Rights::NONE, |(rights, _)| *rights);
            for action in Action::ALL {
                let permitted = ask(&snapshot, who.clone(), action, scope).effect == Effect::Permit;
                prop_assert_eq!(held.contains(action.needed()), permitted, "{} on x{}", action.name(), scope);
            }
        }
    }

    /// Giving up roles never gains anything, and made-up roles never help.
    #[test]
    fn fewer_roles_never_allow_more(world in world(), keep in prop::collection::vec(any::<bool>(), 3)) {
        let snapshot = load(&world);
        let all = snapshot.principal(Some("p0"), Some("near"), false);
        let mut fewer = all.clone();
        fewer.roles.retain(|role| keep[ROLES.iter().position(|known| known == role).unwrap()]);
        let mut more = all.clone();
        more.roles = ROLES.iter().map(ToString::to_string).chain(["admin".into()]).collect();
        for action in ACTIONS {
            for scope in 0..world.scopes.len() {
                let full = ask(&snapshot, all.clone(), action, scope).effect;
                let narrow = ask(&snapshot, fewer.clone(), action, scope).effect;
                prop_assert!(!(full == Effect::Forbid && narrow == Effect::Permit));
                prop_assert_eq!(ask(&snapshot, more.clone(), action, scope).effect, full);
            }
        }
    }

    /// Nothing written into a file makes the reader panic.
    #[test]
    fn no_text_panics(text in "\\PC{0,200}", at in 0..400_usize, insert in "[\\[\\]{}=\"'a-z0-9;:.() \n]{0,12}") {
        let plant = include_str!("../../../../examples/batch-plant/plant.toml");
        let policies = include_str!("../../../../examples/batch-plant/policies.cedar");
        let workflow = include_str!("../../../../examples/batch-plant/workflow.toml");
        let mangle = |source: &str| {
            let mut out = source.to_owned();
            let at = (0..=at.min(out.len())).rev().find(|at| out.is_char_boundary(*at)).unwrap();
            out.insert_str(at, &insert);
            out
        };
        for sources in [
            Sources { plant: &text, policies: &text, workflow: Some(&text) },
            Sources { plant: &mangle(plant), policies, workflow: Some(workflow) },
            Sources { plant, policies: &mangle(policies), workflow: Some(workflow) },
            Sources { plant, policies, workflow: Some(&mangle(workflow)) },
        ] {
            if let Err(faults) = Snapshot::load(sources, &|_| MapDigest([0; 16]), Epoch(0)) {
                prop_assert!(!faults.0.is_empty());
            }
        }
    }
}
