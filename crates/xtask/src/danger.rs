//! Who may name the settings that take a check away. They exist so that `trapkey demo --danger-without` and tests can show that the absence
//! of each check is noticed; a configuration, a command or a server that is really run must not be able to reach them.

use std::path::Path;

use crate::{Tracked, tracked};

/// The settings.
const NAMES: [&str; 9] = [
    "DangerWithout",
    "danger_without",
    "danger_verify_foreign_without",
    "danger_verify_without",
    "danger_any_nonce",
    "danger_decrypt_for_any_nonce",
    "danger_turn_newcomers_away",
    "danger_trust_everybody",
    "danger_permit_always",
];

/// Where the checks themselves are, and the demo.
const ALLOWED: [&str; 5] =
    ["crates/token/src/", "crates/pep/src/", "crates/ua-proto/src/", "crates/cli/src/demo/", "crates/xtask/src/"];

/// Faults: places outside `ALLOWED` and outside tests that name such a setting.
pub fn stay_in_the_demo(root: &Path) -> Result<Vec<String>, String> {
    Ok(tracked(root)?.iter().filter(|file| !may(&file.path)).flat_map(named).collect())
}

fn may(path: &str) -> bool {
    let rust_or_configuration = path.ends_with(".rs") || path.ends_with(".toml");
    !rust_or_configuration || path.contains("/tests/") || ALLOWED.iter().any(|start| path.starts_with(start))
}

fn named(file: &Tracked) -> Vec<String> {
    let mut faults = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        for name in NAMES.into_iter().filter(|name| is_word_of(line, name)) {
            faults.push(format!("{}:{}: `{name}` takes a check away and belongs to the demo", file.path, number + 1));
        }
    }
    faults
}

fn is_word_of(line: &str, name: &str) -> bool {
    let part = |letter: char| letter.is_alphanumeric() || letter == '_';
    line.match_indices(name).any(|(at, _)| !line[..at].ends_with(part) && !line[at + name.len()..].starts_with(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_run_cannot_name_them() {
        let file = |path: &str, text: &str| Tracked { path: path.into(), text: text.into() };
        let up = file("crates/cli/src/commands/up/server.rs", "gate.danger_without = x;\n");
        assert!(!may(&up.path));
        assert_eq!(named(&up).len(), 1);
        assert!(named(&file("a.rs", "options.danger_without_security()")).is_empty(), "another word");
        assert!(!may("crates/cli/src/config/trapkey.toml"));
        assert!(may("crates/cli/src/demo/danger.rs") && may("crates/pep/tests/gate.rs") && may("docs/holes.md"));
    }
}
