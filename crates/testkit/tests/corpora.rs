//! The corpora of the fuzz targets, replayed: every input that was ever kept returns.

#![allow(clippy::disallowed_methods, reason = "reads the corpora of this repository")]

use std::path::PathBuf;

use testkit::fuzz::TARGETS;

fn corpora() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn replay(name: &str) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("a target of this name");
    let mut inputs = Vec::new();
    for folder in ["corpus", "finds"] {
        let Ok(entries) = std::fs::read_dir(corpora().join(folder).join(name)) else { continue };
        inputs.extend(entries.map(|entry| entry.unwrap().path()));
    }
    inputs.sort();
    assert!(inputs.len() >= 3, "the corpus of `{name}` is missing");
    for path in inputs {
        let bytes = std::fs::read(&path).unwrap();
        // The name shows which input did not return.
        println!("{}", path.display());
        target(&bytes);
    }
    // Inputs of some bytes must not cost memory: one that did filled the machine.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.trim().parse().ok());
    assert!(peak.is_none_or(|peak: u64| peak < 1_500_000), "{peak:?} kB at the peak");
}

#[test]
fn transport_inputs_return() {
    replay("transport");
}

#[test]
fn channel_inputs_return() {
    replay("channel");
}

#[test]
fn services_inputs_return() {
    replay("services");
}

#[test]
fn tokens_inputs_return() {
    replay("tokens");
}

#[test]
fn policy_inputs_return() {
    replay("policy");
}

#[test]
fn config_inputs_return() {
    replay("config");
}

#[test]
fn nodeset_inputs_return() {
    replay("nodeset");
}

#[test]
fn guard_client_inputs_return() {
    replay("guard_client");
}

#[test]
fn guard_server_inputs_return() {
    replay("guard_server");
}

#[test]
fn net_readers_inputs_return() {
    replay("net_readers");
}

#[test]
fn model_readers_inputs_return() {
    replay("model_readers");
}

#[test]
fn figures_inputs_return() {
    replay("figures");
}

#[test]
fn every_target_is_replayed_and_short_inputs_return() {
    let names = [
        "transport",
        "channel",
        "services",
        "tokens",
        "policy",
        "config",
        "nodeset",
        "guard_client",
        "guard_server",
        "net_readers",
        "model_readers",
        "figures",
    ];
    assert_eq!(TARGETS.map(|(name, _)| name), names);
    for (_, target) in TARGETS {
        for first in (0..=u8::MAX).step_by(5) {
            target(&[first]);
        }
        target(&[]);
    }
}
