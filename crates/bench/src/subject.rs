//! What is measured, each a process of its own: our server (`bench serve`), our guard (`bench guard`) and the peer
//! (`open62541-bench`).

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::Failed;
use crate::fixture::{Fixture, PASSWORD, USER};
use crate::load::Security;
use crate::process;
use crate::record::Peer;
use crate::scratch::{self, Started};

/// What a server says that has come up.
const LISTENING: &str = "\"listening\", \"ok\": true";

/// A running server.
#[derive(Debug)]
pub struct Subject {
    /// There until somebody else takes it.
    child: Option<Child>,
    _started: Started,
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

    /// Starts ours in a program that has other words in front of those of `bench serve`, and behind them.
    ///
    /// # Errors
    /// It does not come up.
    pub fn ours_by(words: &[String], fixture: &Fixture, nodes: u32, more: &[&str]) -> Result<Self, Failed> {
        let mut command = Command::new("/proc/self/exe");
        command.args(words).arg(fixture.folder()).arg(nodes.to_string()).args(more);
        Self::telling(command, LISTENING, |line| Ok(format!("opc.tcp://127.0.0.1:{}", line["port"])))
    }

    /// Starts ours with variables that change, each once in the period.
    ///
    /// # Errors
    /// It does not come up.
    pub fn ours_changing(
        fixture: &Fixture,
        nodes: u32,
        changing: (u32, Duration),
        authority: Option<&Self>,
    ) -> Result<Self, Failed> {
        let changing = format!("changing={}/{}", changing.0, changing.1.as_millis());
        let authority = authority.map(|authority| format!("authority={}", authority.url));
        let nodes = nodes.to_string();
        let mut words: Vec<&OsStr> = vec!["serve".as_ref(), fixture.folder().as_os_str(), nodes.as_ref()];
        words.extend([Some(changing.as_ref()), authority.as_deref().map(OsStr::new)].into_iter().flatten());
        Self::this("opc.tcp://127.0.0.1", &words)
    }

    /// Starts our guard in front of a server with so many variables, which it reaches in this way.
    ///
    /// # Errors
    /// It does not come up.
    pub fn guard(
        fixture: &Fixture,
        nodes: u32,
        (upstream, security): (&Self, Security),
        authority: Option<&Self>,
    ) -> Result<Self, Failed> {
        let authority = authority.map(|authority| format!("authority={}", authority.url));
        let nodes = nodes.to_string();
        let mut words: Vec<&OsStr> = vec!["guard".as_ref(), fixture.folder().as_os_str(), nodes.as_ref()];
        words.extend([upstream.url.as_ref(), security.name().as_ref()] as [&OsStr; 2]);
        words.extend(authority.as_deref().map(OsStr::new));
        Self::this("opc.tcp://127.0.0.1", &words)
    }

    /// Starts our authority.
    ///
    /// # Errors
    /// It does not come up.
    pub fn authority(fixture: &Fixture) -> Result<Self, Failed> {
        Self::this("https://localhost", &["authority".as_ref(), fixture.folder().as_os_str()])
    }

    /// Starts the running program, even if its file was replaced by a newer build meanwhile. `TRAPKEY_BENCH_UNDER` names a
    /// program under which guards are run, to look into them.
    fn this(base: &str, arguments: &[&OsStr]) -> Result<Self, Failed> {
        let under = std::env::var("TRAPKEY_BENCH_UNDER").ok().filter(|_| arguments.first() == Some(&"guard".as_ref()));
        let mut words = under.as_deref().unwrap_or_default().split_whitespace();
        let mut command = match words.next() {
            Some(under) => {
                let mut command = Command::new(under);
                command.args(words).arg(std::env::current_exe()?);
                command
            }
            None => Command::new("/proc/self/exe"),
        };
        command.args(arguments);
        Self::telling(command, LISTENING, |line| Ok(format!("{base}:{}", line["port"])))
    }

    /// Starts a program that tells its address in its first line, which has `sign` in it.
    ///
    /// # Errors
    /// It does not come up.
    pub fn telling(
        command: Command,
        sign: &str,
        url: impl FnOnce(serde_json::Value) -> Result<String, Failed>,
    ) -> Result<Self, Failed> {
        let (child, started, line) = up(command, sign)?;
        Ok(Self { child: Some(child), _started: started, url: url(serde_json::from_str(&line)?)? })
    }

    /// Its process, which is then the caller's to end.
    ///
    /// # Errors
    /// It is gone.
    pub fn into_child(mut self) -> Result<Child, Failed> {
        self.child.take().ok_or_else(|| "it is gone".into())
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
        let trusted = [fixture.path("client.der"), fixture.path("guard.der")];
        command.arg("--trust").arg(trusted.each_ref().map(|path| path.to_string_lossy()).join(","));
        command.arg("--user").arg(format!("{USER}:{PASSWORD}"));
        let (child, started, _) = up(command, LISTENING)?;
        Ok(Self { child: Some(child), _started: started, url: format!("opc.tcp://127.0.0.1:{port}") })
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
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
        if let Some(child) = &mut self.child {
            let _gone = child.kill();
            let _status = child.wait();
        }
    }
}

/// Starts a server and waits for its first line.
fn up(mut command: Command, sign: &str) -> Result<(Child, Started, String), Failed> {
    let program = command.get_program().to_owned();
    let failed = |error: String| Failed::from(format!("`{}`: {error}", Path::new(&program).display()));
    let (mut child, started) = scratch::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()))
        .map_err(|error| failed(error.to_string()))?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut line)?;
    }
    if line.contains(sign) {
        return Ok((child, started, line));
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
