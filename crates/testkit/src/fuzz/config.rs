//! Plant, workflow and configuration files.

use config::{At, Overrides, PREFIX, nearest, read};
use pdp::{Plant, Workflow};

/// First byte: plant, workflow or `trapkey.toml`; the rest is the file.
pub fn config(data: &[u8]) {
    let Some((kind, file)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(file) else { return };
    match kind % 3 {
        0 => plant(text),
        1 => workflow(text),
        _ => program(text),
    }
}

/// Up to the first zero the file, behind it variables as `KEY=value` with a zero between two.
fn program(text: &str) {
    let mut parts = text.split('\0');
    let file = parts.next().unwrap_or_default();
    let variables = parts.filter_map(|part| part.split_once('='));
    let overrides: Overrides =
        variables.map(|(key, value)| (format!("{PREFIX}{key}"), value.to_owned())).take(8).collect();
    match read(file, &overrides) {
        Ok(config) => {
            let again = config.to_text().expect("its paths came from text");
            assert_eq!(read(&again, &Overrides::default()), Ok(config), "a configuration reads as it is written");
        }
        Err(invalid) => {
            assert!(!invalid.message.is_empty(), "a refusal says why");
            match invalid.at {
                At::Text(place) => assert!(file.get(place).is_some(), "a fault lies in the file"),
                At::Variable(name) => {
                    assert!(overrides.names().any(|known| known == name), "a fault names its variable")
                }
            }
        }
    }
    let _ = nearest::nearest(file.lines().next().unwrap_or_default(), ["ledger", "rotate_mib"]);
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
