//! `trapkey policy what-if`: what a ledger recorded, under changed policies, case by case.

use access_model::{Action, Actor, AuditKind, AuditRecord, Outcome, Place, Reason, UnixTime};
use store::{CheckpointKey, KeyKind, Ledger, LedgerConfig};

use super::Scene;

/// Somebody writes at the mixer, in this scope and step.
fn write(who: &str, scope: &str, steps: &str, outcome: Outcome) -> AuditRecord {
    let place = Place {
        server: "urn:trapkey:demo:mixer".into(),
        scope: scope.into(),
        action: Action::Write,
        steps: steps.into(),
        roles: "operator".into(),
    };
    AuditRecord {
        at: UnixTime::from_seconds(1_795_262_399),
        kind: AuditKind::Write,
        actor: Actor { name: who.into(), ..Actor::default() },
        object: "ns=1;s=Mixer.Setpoints.Speed".into(),
        outcome,
        detail: "attribute 13 becomes 7.5".into(),
        count: 1,
        epoch: None,
        place: Some(Box::new(place)),
    }
}

/// As [`write`], with a place that says less or other things.
fn with(change: impl FnOnce(&mut AuditRecord)) -> AuditRecord {
    let mut record = write("olga", "setpoints", "charge", Outcome::Allowed);
    change(&mut record);
    record
}

fn moved(to: &str) -> AuditRecord {
    with(|record| {
        record.kind = AuditKind::StepChanged;
        record.place = None;
        record.detail = format!("the workflow stands in {to}");
    })
}

fn summary(detail: &str, count: u64) -> AuditRecord {
    with(|record| {
        record.kind = AuditKind::Read;
        record.count = count;
        record.detail = detail.into();
        if let Some(place) = &mut record.place {
            (place.scope, place.action) = ("*".into(), Action::Read);
        }
    })
}

/// Puts these records into a ledger of a folder of their own.
fn recorded(scene: &Scene, name: &str, records: &[AuditRecord]) {
    let key = CheckpointKey::load_or_create(&scene.path("var/audit.pem"), KeyKind::Ed25519).unwrap();
    let ledger = Ledger::open(&scene.path(name), LedgerConfig::default(), key).unwrap();
    for record in records {
        ledger.append(record).wait_blocking().unwrap();
    }
}

/// Changes, what stays, what cannot be decided; and the exit code that goes with it.
type Found = (Vec<String>, u64, u64);

/// The rule, policies that are added, what was recorded, what must be found.
type Row<'a> = (&'a str, &'a str, Vec<AuditRecord>, (Vec<&'a str>, u64, u64));

fn what_if(scene: &Scene, ledger: &str) -> Found {
    let arguments = ["policy", "what-if", "--folder", ".", "--ledger", ledger];
    let said = scene.json(&arguments);
    let words = |one: &serde_json::Value| {
        let text = |key: &str| one[key].as_str().unwrap().to_owned();
        format!("{}: {} {} {} x{}", text("change"), text("who"), text("action"), text("scope"), one["count"])
    };
    let changes: Vec<String> = said["changes"].as_array().unwrap().iter().map(words).collect();
    let code = if changes.is_empty() { "exit 0" } else { "exit 1" };
    assert!(scene.run(&arguments).starts_with(code), "{said:#}");
    (changes, said["same"].as_u64().unwrap(), said["not_decided"].as_u64().unwrap())
}

const PERMIT: &str = "\n@id(\"more\")\npermit (principal in Role::\"operator\", action == Action::\"write\", resource in Zone::\"line-1\");\n";
const FORBID: &str = "\n@id(\"less\")\nforbid (principal, action == Action::\"write\", resource);\n";
const MISSING: Outcome = Outcome::Denied(Reason::RightMissing);

#[test]
fn permits_that_come_and_go_and_records_that_say_too_little() {
    let scene = Scene::plant();
    let policies = scene.read("policies.cedar");
    let as_it_is = || write("olga", "setpoints", "charge", Outcome::Allowed);
    let lost = "permit to deny: olga write mixer/setpoints x1";
    let gained = "deny to permit: olga write mixer/setpoints x1";
    let denied = write("olga", "setpoints", "idle", MISSING);
    let observed = write("olga", "setpoints", "idle", Outcome::Observed(Reason::RightMissing));
    let rows: Vec<Row<'_>> = vec![
        ("nothing changes", "", vec![as_it_is(), denied.clone()], (vec![], 2, 0)),
        ("a permit goes", FORBID, vec![as_it_is()], (vec![lost], 0, 0)),
        ("a permit comes", PERMIT, vec![denied.clone()], (vec![gained], 0, 0)),
        ("what was only observed counts as denied", PERMIT, vec![observed.clone()], (vec![gained], 0, 0)),
        ("and stays denied", "", vec![observed], (vec![], 1, 0)),
        (
            "equal changes are one row",
            PERMIT,
            vec![denied.clone(), denied.clone()],
            (vec!["deny to permit: olga write mixer/setpoints x2"], 0, 0),
        ),
        ("a permit for others", PERMIT, vec![write("quinn", "setpoints", "idle", MISSING)], (vec![], 1, 0)),
        ("a permit that was there comes again", PERMIT, vec![as_it_is()], (vec![], 1, 0)),
        (
            "a denial that no policy lifts",
            PERMIT,
            vec![write("olga", "setpoints", "idle", Outcome::Denied(Reason::TokenExpired))],
            (vec![], 0, 0),
        ),
        (
            "somebody the plant does not know any more",
            "",
            vec![write("nobody", "setpoints", "charge", Outcome::Allowed)],
            (vec!["permit to deny: nobody write mixer/setpoints x1"], 0, 0),
        ),
        (
            "a scope that is gone",
            "",
            vec![write("olga", "paint", "charge", Outcome::Allowed)],
            (vec!["permit to deny: olga write mixer/paint x1"], 0, 0),
        ),
        ("a step that is gone", FORBID, vec![write("olga", "setpoints", "boil", Outcome::Allowed)], (vec![], 0, 1)),
        (
            "no step: where the workflow is known to have stood",
            "",
            vec![moved("charge"), write("olga", "setpoints", "", Outcome::Allowed)],
            (vec![], 1, 0),
        ),
        (
            "no step and none known: its start",
            "",
            vec![write("olga", "setpoints", "", Outcome::Allowed)],
            (vec![lost], 0, 0),
        ),
        ("no place at all, as older records have it", FORBID, vec![with(|record| record.place = None)], (vec![], 0, 1)),
        (
            "no place, and a denial that no policy lifts",
            FORBID,
            vec![with(|record| (record.place, record.outcome) = (None, Outcome::Denied(Reason::TokenExpired)))],
            (vec![], 0, 0),
        ),
        (
            "a record of something else",
            FORBID,
            vec![with(|record| (record.place, record.kind) = (None, AuditKind::ChannelOpened))],
            (vec![], 0, 0),
        ),
        ("several scopes in one record", "", vec![summary("setpoints=3 valves=2", 5)], (vec![], 5, 0)),
        ("several, of which one is not known", "", vec![summary("setpoints=3 paint=2", 5)], (vec![], 3, 2)),
        ("several, cut short", "", vec![summary("setpoints=3 val", 9)], (vec![], 3, 6)),
    ];
    for (number, (rule, more, records, (changes, same, unasked))) in rows.into_iter().enumerate() {
        let ledger = format!("var/ledger-{number}");
        recorded(&scene, &ledger, &records);
        scene.write("policies.cedar", &format!("{policies}{more}"));
        let expected: Found = (changes.into_iter().map(str::to_owned).collect(), same, unasked);
        assert_eq!(what_if(&scene, &ledger), expected, "{rule}");
    }
}
