//! Policy and case files against a good plant.

use std::sync::LazyLock;

use access_model::{AccessRequest, Action, Epoch, UnixTime};
use pdp::{Cases, Snapshot, Sources, check, decide, explain};
use token::map_digest;

const PLANT: &str = include_str!("../../../../examples/batch-plant/plant.toml");
const WORKFLOW: &str = include_str!("../../../../examples/batch-plant/workflow.toml");
const POLICIES: &str = include_str!("../../../../examples/batch-plant/policies.cedar");

/// First byte: policies or cases; the rest is the file.
pub fn policy(data: &[u8]) {
    let Some((kind, file)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(file) else { return };
    if kind % 2 == 0 { policies(text) } else { cases(text) }
}

fn policies(text: &str) {
    let sources = Sources { plant: PLANT, policies: text, workflow: Some(WORKFLOW) };
    match Snapshot::load(sources, &map_digest, Epoch(1)) {
        Err(faults) => assert!(!faults.0.is_empty(), "a refusal says why"),
        Ok(snapshot) => {
            let _ = check(&snapshot);
            for request in requests(&snapshot) {
                let decision = decide(&snapshot, &request);
                assert_eq!(decision, decide(&snapshot, &request), "a decision is a function of its inputs");
                let _ = explain(&snapshot, &request);
            }
        }
    }
}

/// A few questions: the first persons and scopes of the plant.
fn requests(snapshot: &Snapshot) -> Vec<AccessRequest> {
    let plant = snapshot.plant();
    let scopes =
        plant.servers.iter().take(2).flat_map(|(name, server)| {
            server.scopes.iter().take(2).map(move |scope| (name.clone(), scope.name.clone()))
        });
    let people: Vec<String> = plant.persons.keys().take(2).cloned().collect();
    let ask = |(server, scope): (String, String)| {
        people.clone().into_iter().map(move |person| AccessRequest {
            principal: snapshot.principal(Some(&person), None, false),
            action: Action::Write,
            server: server.clone(),
            scope: scope.clone(),
            at: UnixTime::from_seconds(1_900_000_000),
            break_glass: None,
        })
    };
    scopes.flat_map(ask).collect()
}

fn cases(text: &str) {
    static SNAPSHOT: LazyLock<Snapshot> = LazyLock::new(|| {
        let sources = Sources { plant: PLANT, policies: POLICIES, workflow: Some(WORKFLOW) };
        Snapshot::load(sources, &map_digest, Epoch(1)).expect("the example is whole")
    });
    match Cases::parse(text, &SNAPSHOT) {
        Err(faults) => assert!(!faults.0.is_empty(), "a refusal says why"),
        Ok(cases) => drop(cases.run(&SNAPSHOT)),
    }
}
