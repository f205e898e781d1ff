//! The program as its users see it: arguments in, text and exit codes out.

mod accounts;
mod approvals;
mod audit;
mod certified;
mod certs;
mod config;
mod cost;
mod doctor;
mod drain;
mod foreign;
mod guard;
mod guides;
mod health;
mod help;
mod inside;
mod issuers;
mod keys;
mod liars;
mod lost;
mod model;
mod nodeset;
mod once;
mod orderly;
mod package;
mod policy;
mod processes;
mod reached;
mod reference;
mod scopes;
mod settings;
mod slower;
mod token;
mod turn;
mod up;
mod watch;
mod whatif;

use std::path::Path;
use std::process::Command;

/// A folder with the batch plant's files and a configuration.
struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    fn empty() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn plant() -> Self {
        let scene = Self::empty();
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/batch-plant");
        for file in ["plant.toml", "policies.cedar", "workflow.toml", "cases.toml"] {
            std::fs::copy(example.join(file), scene.path(file)).unwrap();
        }
        assert!(scene.run(&["config", "init"]).starts_with("exit 0"));
        scene
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn run(&self, args: &[&str]) -> String {
        self.run_with(args, &[])
    }

    /// Exit code, standard output and standard error as one text.
    fn run_with(&self, args: &[&str], environment: &[(&str, &str)]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trapkey"));
        // Help is as wide as the terminal.
        command.env_remove("COLUMNS");
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TRAPKEY")) {
            command.env_remove(name);
        }
        let done =
            command.args(args).envs(environment.iter().copied()).current_dir(self.folder.path()).output().unwrap();
        let mut text = format!("exit {}\n", done.status.code().unwrap());
        for (name, bytes) in [("stdout", &done.stdout), ("stderr", &done.stderr)] {
            if !bytes.is_empty() {
                text += &format!("--- {name}\n{}", String::from_utf8_lossy(bytes));
            }
        }
        text.replace(&self.folder.path().display().to_string(), "[folder]")
    }

    /// What a command answers. A command that could not do its work ends the test there: the rest would show something else.
    fn json(&self, args: &[&str]) -> serde_json::Value {
        let said = self.json_or_error(args);
        assert!(said["error"]["kind"].is_null(), "{args:?}: {said:#}");
        said
    }

    /// The same, also of what could not be done.
    fn json_or_error(&self, args: &[&str]) -> serde_json::Value {
        let args = [args, &["--output", "json"]].concat();
        let said = self.run(&args);
        let (_, json) = said.split_once("--- stdout\n").unwrap_or_else(|| panic!("{said}"));
        // What takes long tells of itself on the other stream.
        let json = json.split("--- stderr\n").next().unwrap_or(json);
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {said}"))
    }
}
