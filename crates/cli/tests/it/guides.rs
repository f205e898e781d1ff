//! Guides that run: the commands of `docs/guides/guard-a-server.md`, word for word but for the ports, against a server of
//! another stack. A line that is indented is what its command says; one that ends in "in a terminal of its own" goes on
//! running.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const APART: &str = "# in a terminal of its own";

/// One command and what it says.
#[derive(Debug)]
struct Run {
    command: String,
    says: Vec<String>,
}

/// The commands in the `sh` blocks of a guide.
fn commands(guide: &str) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut open = false;
    let mut text: Option<String> = None;
    for line in guide.lines() {
        if line.starts_with("```") {
            open = line == "```sh";
        } else if let Some(whole) = &mut text {
            whole.push_str(&format!("\n{line}"));
            if line == "END" {
                runs.extend(text.take().map(|command| Run { command, says: Vec::new() }));
            }
        } else if open && line.ends_with("<<'END'") {
            text = Some(line.to_owned());
        } else if let Some(said) = line.strip_prefix("    ").filter(|_| open) {
            runs.last_mut().unwrap().says.push(said.to_owned());
        } else if open && !line.is_empty() {
            runs.push(Run { command: line.to_owned(), says: Vec::new() });
        }
    }
    runs
}

/// A program that goes on running, and ends with the test.
struct Apart(Child);

impl Drop for Apart {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Stage {
    folder: tempfile::TempDir,
    path: String,
}

impl Stage {
    fn shell(&self, program: &[&str], command: &str) -> Command {
        let mut shell = Command::new(program[0]);
        shell.args(&program[1..]).args(["-c", command]).current_dir(self.folder.path()).env("PATH", &self.path);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TRAPKEY")) {
            shell.env_remove(name);
        }
        shell
    }

    /// Runs to the end, which is not waited for for ever; what it says is all there.
    fn run(&self, run: &Run) {
        let patient = ["timeout", "300", "bash"];
        let done = self.shell(&patient, &format!("set -eo pipefail; {{ {}\n}} 2>&1", run.command)).output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "{}\n{said}", run.command);
        for expected in &run.says {
            assert!(said.contains(expected.as_str()), "`{expected}` is not what it says:\n{}\n{said}", run.command);
        }
    }

    /// Starts it and waits for the last line that it is to say.
    fn start(&self, run: &Run) -> Apart {
        let command = run.command.split(APART).next().unwrap();
        let shell =
            self.shell(&["bash"], &format!("exec {command}")).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut apart = Apart(shell.unwrap());
        let mut lines = BufReader::new(apart.0.stdout.take().unwrap()).lines();
        for expected in &run.says {
            let found = lines.by_ref().map_while(Result::ok).any(|line| line.contains(expected.as_str()));
            assert!(found, "`{command}` ended before it said `{expected}`");
        }
        // Nobody reads on; the pipe holds what little there is.
        std::mem::forget(lines);
        apart
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A program of other people; none, with a line that says so, when it is not installed.
pub(super) fn peers(program: &str) -> Option<PathBuf> {
    let peers = std::env::var_os("TRAPKEY_PEERS_DIR").map_or_else(|| root().join("peers"), PathBuf::from);
    let program = peers.join(program);
    if program.exists() {
        return Some(program);
    }
    println!("SKIPPED: {} is not there; `make peers` installs it", program.display());
    assert!(std::env::var("TRAPKEY_PEERS").as_deref() != Ok("required"), "a required peer is missing");
    None
}

/// The folder of Python with asyncua.
fn python() -> Option<PathBuf> {
    peers("asyncua/bin/python")?.parent().map(Path::to_path_buf)
}

#[test]
fn a_guide_is_taken_apart_into_commands() {
    let guide = "text\n```sh\na   # in a terminal of its own\n    says\ncat > f <<'END'\n    x\nEND\nb\n```\n    no\n```\nc\n```\n";
    let runs = commands(guide);
    let seen: Vec<(&str, usize)> = runs.iter().map(|run| (run.command.as_str(), run.says.len())).collect();
    assert_eq!(seen, [("a   # in a terminal of its own", 1), ("cat > f <<'END'\n    x\nEND", 0), ("b", 0)]);
}

#[test]
fn guard_a_server() {
    let Some(python) = python() else { return };
    let mut guide = std::fs::read_to_string(root().join("docs/guides/guard-a-server.md")).unwrap();
    let sockets: Vec<TcpListener> = (0..4).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    for (known, socket) in ["8443", "4841", "4850", "4840"].iter().zip(&sockets) {
        assert!(guide.contains(known));
        guide = guide.replace(known, &socket.local_addr().unwrap().port().to_string());
    }
    drop(sockets);
    let program = Path::new(env!("CARGO_BIN_EXE_trapkey")).parent().unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root().join("examples"), folder.path().join("examples")).unwrap();
    let path = format!("{}:{}:{}", program.display(), python.display(), std::env::var("PATH").unwrap());
    let stage = Stage { folder, path };
    let runs = commands(&guide);
    assert!(runs.len() > 15, "{runs:?}");
    let mut running = Vec::new();
    for run in &runs {
        if run.command.contains(APART) {
            running.push(stage.start(run));
        } else {
            stage.run(run);
        }
    }
    assert_eq!(running.len(), 2);
}
