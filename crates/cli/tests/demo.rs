//! The demo checks itself; these tests check the demo: it passes whole, and it notices each protection that is gone.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests run the program and stop at the first surprise"
)]

use std::process::{Command, Output};

use serde_json::Value;

fn demo(options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trapkey"));
    command.args(["demo", "--once", "--output", "json"]).args(options).output().unwrap()
}

/// The checks that failed, by what they say.
fn failed(output: &Output) -> Vec<String> {
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let checks = report["checks"].as_array().cloned().unwrap_or_default();
    checks.iter().filter(|check| check["passed"] == false).map(|check| check["what"].to_string()).collect()
}

#[test]
fn every_step_and_every_refusal_is_as_expected() {
    let output = demo(&["--attack"]);
    assert_eq!(output.status.code(), Some(0), "{:?}\n{}", failed(&output), String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["failed"], 0);
    assert_eq!(report["audit"]["sound"], true);
    assert!(report["checks"].as_array().unwrap().len() >= 78, "checks went missing");
}

/// What is taken away, and a word of a check that must notice.
const SABOTAGE: [(&str, &str); 5] = [
    ("expiry", "one second after its end"),
    ("step", "Mixer.Setpoints.Speed"),
    ("range", "a set point of 5000"),
    ("trust", "an untrusted certificate"),
    ("revocation", "watched value"),
];

#[test]
fn the_demo_notices_each_protection_that_is_gone() {
    std::thread::scope(|scope| {
        for (gone, notices) in SABOTAGE {
            scope.spawn(move || {
                let output = demo(&["--danger-without", gone]);
                let failed = failed(&output);
                assert_eq!(
                    output.status.code(),
                    Some(1),
                    "without {gone}: {}",
                    String::from_utf8_lossy(&output.stderr)
                );
                assert!(
                    failed.iter().any(|what| what.contains(notices)),
                    "without {gone} only these failed: {failed:?}"
                );
            });
        }
    });
}
