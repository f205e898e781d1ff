//! The pages of `docs/reference` that the program itself writes. `TRAPKEY_UPDATE=1 cargo test -p trapkey reference`
//! writes them anew.

use std::path::PathBuf;

use super::Scene;
use super::help::COMMANDS;

fn holds(name: &str, made: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var_os("TRAPKEY_UPDATE").is_some() {
        std::fs::write(&path, made).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == made, "docs/reference/{name} is out of date: TRAPKEY_UPDATE=1 cargo test -p trapkey reference");
}

#[test]
fn the_commands_are_documented() {
    let mut page = String::from(
        "# Commands\n\nWritten by the program itself; see `crates/cli/tests/it/reference.rs`.\n\
         Exit codes: 0 done or yes; 1 no, denied or broken; 2 wrong arguments, configuration or files; 3 out of reach, also where nobody reads\n\
         standard output any more; 130 and 143 stopped by SIGINT and SIGTERM.\n\n\
         With `--output json` a failure is one object on standard output: `{\"error\": {\"kind\", \"message\", \"causes\", \"help\", \"faults\"}}`. `kind` is\n\
         `denied`, `bad_input` or `unavailable`; `causes` is a list of texts, `help` a text or `null`; each of `faults` says `file`, `line` and `column`\n\
         (from 1), `message` and `help`. Arguments that cannot be understood are told so, too,\n\
         if `--output json` is among them.\n",
    );
    for command in COMMANDS.iter().filter(|command| !command.is_empty()) {
        let mut args: Vec<&str> = command.split_whitespace().collect();
        args.push("-h");
        let said = Scene::empty().run(&args);
        let said = said.strip_prefix("exit 0\n--- stdout\n").unwrap();
        let lines: Vec<&str> = said.lines().map(str::trim_end).collect();
        page += &format!("\n## trapkey {command}\n\n```text\n{}\n```\n", lines.join("\n"));
    }
    holds("commands.md", &page);
}

#[test]
fn the_configuration_is_documented() {
    let scene = Scene::empty();
    assert!(scene.run(&["config", "init"]).starts_with("exit 0"));
    holds("trapkey.toml", &scene.read("trapkey.toml"));
}

#[test]
fn the_bounds_are_documented() {
    let mut page = String::from(
        "# Configuration\n\nWritten by the program itself; see `crates/cli/tests/it/reference.rs`.\n\n\
         The bounds of `[server.limits]`. What lies outside its range is refused with its line. Every other key stands in\n\
         [`trapkey.toml`](trapkey.toml).\n\n\
         | Key | Bounds | Without the key | Range |\n|---|---|---|---|\n",
    );
    for key in ::config::Limits::keys() {
        page += &format!("| `{}` | {} | `{}` | {} |\n", key.name, key.meaning, key.default, key.range);
    }
    holds("configuration.md", &page);
}

#[test]
fn the_schema_of_nets_is_documented() {
    let said = Scene::empty().run(&["model", "schema"]);
    holds("net.schema.json", said.strip_prefix("exit 0\n--- stdout\n").unwrap());
}
