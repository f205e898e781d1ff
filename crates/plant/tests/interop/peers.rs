//! Finds, starts and stops peer programs. All of them are driven by the command line and the JSON lines of `interop/README.md`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde::Deserialize;
use tempfile::TempDir;

/// Long enough for a computer that many people share.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A stack that somebody else wrote.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stack {
    Asyncua,
    NodeOpcua,
    Milo,
    Open62541,
}

/// One line of a peer's report.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Step {
    pub(crate) step: String,
    pub(crate) ok: bool,
    #[serde(default)]
    pub(crate) detail: String,
    #[serde(default)]
    pub(crate) status: Option<String>,
}

impl Stack {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Asyncua => "asyncua",
            Self::NodeOpcua => "node-opcua",
            Self::Milo => "milo",
            Self::Open62541 => "open62541",
        }
    }

    /// The starter of one of its programs; `None`, with a line that says so, when it is not installed.
    pub(crate) fn program(self, role: &str) -> Option<PathBuf> {
        let path = directory().join("bin").join(format!("{}-{role}", self.name()));
        if path.exists() {
            return Some(path);
        }
        println!("SKIPPED {} {role}: {} is not there; `make peers` installs it", self.name(), path.display());
        assert!(
            std::env::var("TRAPKEY_PEERS").as_deref() != Ok("required"),
            "a required peer is missing: {}",
            self.name()
        );
        None
    }
}

fn directory() -> PathBuf {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers");
    std::env::var_os("TRAPKEY_PEERS_DIR").map_or(default, PathBuf::from)
}

/// A certificate that `interop/certs.sh` made, or its key.
pub(crate) fn certificate(file: &str) -> String {
    directory().join("certs").join(file).display().to_string()
}

/// A server program that ends when it is dropped.
pub(crate) struct Serving {
    command: Command,
    child: Child,
    /// What the program leaves behind when it is killed.
    _left: TempDir,
    pub(crate) url: String,
}

impl Serving {
    /// Starts a server program and waits until it listens.
    pub(crate) fn start(program: &Path, name: &str, trusted: &[&str], more: &[&str]) -> Self {
        Self::start_with(program, &[name], trusted, more)
    }

    /// Starts a server program that has several certificates.
    pub(crate) fn start_with(program: &Path, names: &[&str], trusted: &[&str], more: &[&str]) -> Self {
        let port = testkit::ports::free();
        let own = |ending: &str| -> String {
            names.iter().map(|name| certificate(&format!("{name}.{ending}"))).collect::<Vec<_>>().join(",")
        };
        let trusted: Vec<String> = trusted.iter().map(|name| certificate(&format!("{name}.der"))).collect();
        let left = tempfile::tempdir().expect("a folder for what is left behind");
        let mut command = Command::new(program);
        command
            .env("TMPDIR", left.path())
            .args(["--port", &port.to_string(), "--user", "operator:secret", "--trust", &trusted.join(",")])
            .args(["--cert", &own("der"), "--key", &own("key.pem")])
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let child = listening(&mut command).unwrap_or_else(|said| panic!("{names:?} does not listen: {said}"));
        Self { command, child, _left: left, url: format!("opc.tcp://127.0.0.1:{port}") }
    }

    /// Kills the program and starts it anew, at the same address; its Ticks count from nothing.
    pub(crate) fn start_again(&mut self) {
        self.end();
        self.command.args(["--ticks", "0"]);
        // What the program leaves behind may hold the port for a while.
        for _ in 0..300 {
            match listening(&mut self.command) {
                Ok(child) => {
                    self.child = child;
                    return;
                }
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
        panic!("{:?} does not listen any more", self.command);
    }

    fn end(&mut self) {
        let _ended_already = self.child.kill();
        drop(self.child.stdin.take());
        let _status = self.child.wait();
    }
}

/// Starts a server program; gives what it said when it does not listen.
fn listening(command: &mut Command) -> Result<Child, String> {
    let mut child = command.spawn().expect("the server program starts");
    let lines = BufReader::new(child.stdout.take().expect("standard output is piped")).lines();
    let first = lines.map_while(Result::ok).next().unwrap_or_default();
    if first.contains("\"listening\"") && !first.contains("false") {
        return Ok(child);
    }
    let _ended_already = child.kill();
    let _status = child.wait();
    Err(first)
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.end();
    }
}

/// What every client does with our server. Others do not audit, so `events` is not among what clients do unasked.
pub(crate) const STEPS: [&str; 8] = ["connect", "browse", "read", "write", "call", "subscribe", "events", "reconnect"];

/// Runs a client program to its end and gives back its report.
pub(crate) fn run_client(program: &Path, stack: Stack, url: &str, server: &str, arguments: &[&str]) -> Vec<Step> {
    run_client_as(program, stack.name(), url, server, arguments)
}

/// Runs a client program with the certificate `name`, which trusts the certificate `server`.
pub(crate) fn run_client_as(program: &Path, name: &str, url: &str, server: &str, arguments: &[&str]) -> Vec<Step> {
    let steps = STEPS.join(",");
    let arguments = [arguments, &["--steps", &steps]].concat();
    run_steps(program, name, url, server, &arguments, &mut |_| ())
}

/// Runs a client program through the steps of its arguments; `each` hears of each step as soon as it is taken.
pub(crate) fn run_steps(
    program: &Path,
    name: &str,
    url: &str,
    server: &str,
    arguments: &[&str],
    each: &mut dyn FnMut(&Step),
) -> Vec<Step> {
    let mut child = Command::new(program)
        .args(["--url", url, "--trust", &certificate(&format!("{server}.der"))])
        .args(["--cert", &certificate(&format!("{name}.der")), "--key", &certificate(&format!("{name}.key.pem"))])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the client program starts");
    let lines = BufReader::new(child.stdout.take().expect("standard output is piped")).lines();
    let mut steps: Vec<Step> = Vec::new();
    for step in lines.map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok()) {
        each(&step);
        steps.push(step);
    }
    let status = child.wait().expect("a child can be waited for");
    assert!(!steps.is_empty(), "{name} reports nothing and ends with {status}");
    steps
}
