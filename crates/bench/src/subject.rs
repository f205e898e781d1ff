//! The servers that are measured, each a process of its own: ours (`bench serve`) and the peer (`open62541-bench`).

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::Failed;
use crate::fixture::{Fixture, PASSWORD, USER};
use crate::process;
use crate::record::Peer;

/// A running server.
#[derive(Debug)]
pub struct Subject {
    child: Child,
    url: String,
}

impl Subject {
    /// Starts ours.
    ///
    /// # Errors
    /// It does not come up.
    pub fn ours(fixture: &Fixture, nodes: u32) -> Result<Self, Failed> {
        Self::this("opc.tcp://127.0.0.1", &["serve".as_ref(), fixture.folder().as_os_str(), nodes.to_string().as_ref()])
    }

    /// Starts ours under an authority, with values that change.
    ///
    /// # Errors
    /// It does not come up.
    pub fn ours_under(fixture: &Fixture, nodes: u32, authority: &Self) -> Result<Self, Failed> {
        let words = [nodes.to_string(), authority.url.clone()];
        let [nodes, authority] = words.each_ref().map(OsStr::new);
        Self::this("opc.tcp://127.0.0.1", &["serve".as_ref(), fixture.folder().as_os_str(), nodes, authority])
    }

    /// Starts our authority.
    ///
    /// # Errors
    /// It does not come up.
    pub fn authority(fixture: &Fixture) -> Result<Self, Failed> {
        Self::this("https://localhost", &["authority".as_ref(), fixture.folder().as_os_str()])
    }

    /// Starts the running program, even if its file was replaced by a newer build meanwhile.
    fn this(base: &str, arguments: &[&OsStr]) -> Result<Self, Failed> {
        let mut command = Command::new("/proc/self/exe");
        command.args(arguments);
        let (child, line) = up(command)?;
        let line: serde_json::Value = serde_json::from_str(&line)?;
        Ok(Self { child, url: format!("{base}:{}", line["port"]) })
    }

    /// Starts the peer.
    ///
    /// # Errors
    /// It is not installed or does not come up.
    pub fn peer(fixture: &Fixture, nodes: u32) -> Result<Self, Failed> {
        let port = free_port()?;
        let mut command = Command::new(peers().join("bin/open62541-bench"));
        command.args(["--port", &port.to_string(), "--nodes", &nodes.to_string()]);
        command.arg("--cert").arg(fixture.path("server.der"));
        command.arg("--key").arg(fixture.path("server.key.pem"));
        command.arg("--trust").arg(fixture.path("client.der"));
        command.arg("--user").arg(format!("{USER}:{PASSWORD}"));
        let (child, _) = up(command)?;
        Ok(Self { child, url: format!("opc.tcp://127.0.0.1:{port}") })
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its processor time so far, in seconds.
    ///
    /// # Errors
    /// It is gone.
    pub fn cpu(&self) -> Result<f64, Failed> {
        Ok(process::cpu_seconds(self.pid())?)
    }

    /// Its peak memory so far, in bytes.
    ///
    /// # Errors
    /// It is gone.
    pub fn peak(&self) -> Result<f64, Failed> {
        Ok(process::peak_rss(self.pid())? as f64)
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // Killed rather than asked: nothing of it is needed any more, and millions of nodes take long to free.
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Starts a server and waits for its first line.
fn up(mut command: Command) -> Result<(Child, String), Failed> {
    let program = command.get_program().to_owned();
    let failed = |error: String| Failed::from(format!("`{}`: {error}", Path::new(&program).display()));
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|error| failed(error.to_string()))?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut line)?;
    }
    if line.contains("\"listening\", \"ok\": true") {
        return Ok((child, line));
    }
    let _gone = child.kill();
    let _status = child.wait();
    Err(failed(format!("did not start: {line}")))
}

fn free_port() -> Result<u16, Failed> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    Ok(listener.local_addr()?.port())
}

/// The folder of the peers: `TRAPKEY_PEERS_DIR`, or `peers` beside this workspace's crates.
#[must_use]
pub fn peers() -> PathBuf {
    std::env::var_os("TRAPKEY_PEERS_DIR").map_or_else(|| crate::journal::workspace().join("peers"), PathBuf::from)
}

/// The peer as the records name it.
///
/// # Errors
/// It is not installed.
pub fn open62541() -> Result<Peer, Failed> {
    let library = crate::files::read(&peers().join("open62541/.library"))
        .map_err(|error| Failed::from(format!("the peer open62541 is not installed ({error}); run `make peers`")))?;
    Ok(Peer { name: "open62541 1.5.10".into(), build: String::from_utf8_lossy(&library).trim().to_owned() })
}
