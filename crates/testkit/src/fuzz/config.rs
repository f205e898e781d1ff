//! Plant and workflow files.

use pdp::{Plant, Workflow};

/// First byte: plant or workflow; the rest is the file.
pub fn config(data: &[u8]) {
    let Some((kind, file)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(file) else { return };
    if kind % 2 == 0 { plant(text) } else { workflow(text) }
}

fn plant(text: &str) {
    match Plant::parse(text) {
        Err(faults) => assert!(!faults.0.is_empty(), "a refusal says why"),
        Ok(plant) => {
            for server in plant.servers.values() {
                let _ = server.scope_map();
            }
        }
    }
}

/// A net that was read plays: what is enabled fires, and nothing else does.
fn workflow(text: &str) {
    let workflow = match Workflow::parse(text) {
        Ok(workflow) => workflow,
        Err(faults) => return assert!(!faults.0.is_empty(), "a refusal says why"),
    };
    let mut marking = workflow.initial();
    for _ in 0..32 {
        let enabled: Vec<&str> = workflow.enabled(&marking).collect();
        for transition in workflow.transitions() {
            assert_eq!(workflow.fire(&marking, transition).is_ok(), enabled.contains(&transition), "{transition}");
        }
        let Some(next) = enabled.first().and_then(|transition| workflow.fire(&marking, transition).ok()) else { break };
        marking = next;
    }
}
