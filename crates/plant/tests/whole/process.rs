//! The server as a process of its own: this test binary runs itself again.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use store::{CheckpointKey, KeyKind, Ledger, LedgerConfig};

use crate::common::{Setup, client, server, sink, trust};

const FOLDER: &str = "TRAPKEY_TEST_FOLDER";
const PORT: &str = "TRAPKEY_TEST_PORT";

/// Where the process keeps its audit.
pub(crate) fn ledger(folder: &Path) -> PathBuf {
    folder.join("audit")
}

#[test]
#[ignore = "runs as the child of other tests"]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let port: u16 = std::env::var(PORT).unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let key = CheckpointKey::load_or_create(&folder.join("key"), KeyKind::Ed25519).unwrap();
        let ledger = Ledger::open(&ledger(&folder), LedgerConfig::default(), key).unwrap();
        let own = gates::pki::identity(&folder.join("server.der"), &folder.join("server.pem")).unwrap();
        let peer = gates::pki::identity(&folder.join("client.der"), &folder.join("client.pem")).unwrap();
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let mut setup = Setup::new(sink(ledger.clone()));
        setup.identity.store(own.into());
        setup.trust = trust(&[&peer.into()]);
        let handle = setup.start(listener);
        println!("listening {}.", handle.address().port());
        tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await.unwrap().unwrap();
        handle.stop().await;
        ledger.close().await;
    });
}

/// A running server process; killed when dropped.
pub(crate) struct Process {
    child: Child,
    port: u16,
    /// Kept open, for the process still has a last word to say.
    _told: BufReader<ChildStdout>,
}

impl Process {
    /// Starts one in `folder`.
    pub(crate) fn start(folder: &Path) -> Self {
        server().write(folder, "server");
        client().write(folder, "client");
        Self::spawn(folder, testkit::ports::free(), "ulimit -S -n 4096 2>/dev/null")
    }

    /// Starts one with what another left in `folder`, on this port. `before` is a shell command that sets bounds.
    pub(crate) fn spawn(folder: &Path, port: u16, before: &str) -> Self {
        let mut child = Command::new("sh")
            .args(["-c", &format!("{before}; exec \"$0\" process::child --exact --ignored --nocapture")])
            .arg(std::env::current_exe().unwrap())
            .env(FOLDER, folder)
            .env(PORT, port.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(child.stdout.take().unwrap());
        let listening = told.by_ref().lines().map_while(Result::ok).find_map(|line| {
            line.split_once("listening ").map(|(_, port)| port.trim_end_matches('.').parse::<u16>().unwrap())
        });
        Self { port: listening.expect("the server process listens"), child, _told: told }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("opc.tcp://127.0.0.1:{}", self.port)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it as the system does when memory is short: no signal handler, no last words.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Lets it end by itself.
    pub(crate) fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success(), "the server ends in order");
    }

    /// Memory in MB: now, and the most it ever had.
    pub(crate) fn memory(&self) -> (f64, f64) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let value = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1_024.0
        };
        (value("VmRSS:"), value("VmHWM:"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Remembers how much memory a server has, to say later how far it grew at its worst moment in between.
pub(crate) struct Growth<'a>(&'a Process, f64);

impl<'a> Growth<'a> {
    pub(crate) fn of(process: &'a Process) -> Self {
        Self(process, process.memory().0)
    }

    /// Asserts the bound of the project.
    pub(crate) fn is_bounded(&self, what: &str) {
        let grown = self.0.memory().1 - self.1;
        println!("{what}: the server's memory grew by {grown:.1} MB from {:.1} MB", self.1);
        assert!(grown <= 32.0, "{what}: {grown} MB");
    }
}
