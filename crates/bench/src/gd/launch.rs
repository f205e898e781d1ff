//! The programs of the scenario are this program again, each kept to one processor.
//!
//! There they run as batch work (`SCHED_BATCH`): a thread that is woken waits until the one that woke it has done what it had to do. The store's
//! inserts hand over to another thread or process and back; whether that takes the processor at once or a little later is otherwise chance,
//! and makes a third of their time.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::store::Ready;
use crate::Failed;
use crate::scratch::{self, Started};

/// How it is started: a program, and the words that make it call [`super::part::run`] with the rest.
#[derive(Debug, Clone)]
pub struct Launch {
    program: PathBuf,
    words: Vec<String>,
}

impl Launch {
    /// With these words in front of the name of the part and what it is told.
    #[must_use]
    pub fn new(program: PathBuf, words: &[&str]) -> Self {
        Self { program, words: words.iter().map(|word| (*word).to_owned()).collect() }
    }

    fn command(&self, processor: usize, part: &str, told: &impl Serialize) -> Result<Command, Failed> {
        let mut command = kept(processor, &self.program);
        command.args(&self.words).arg(part);
        command.arg(serde_json::to_string(told)?);
        Ok(command)
    }

    /// Runs a part to its end, and gives what it says in its last line.
    ///
    /// # Errors
    /// It fails, or says something else.
    pub fn ask<T: DeserializeOwned>(&self, processor: usize, part: &str, told: &impl Serialize) -> Result<T, Failed> {
        self.ask_seen(processor, part, told, |_| Ok(()))
    }

    /// The same; `seen` hears which process it is as soon as it has begun.
    ///
    /// # Errors
    /// As [`Self::ask`] and `seen`.
    pub fn ask_seen<T: DeserializeOwned>(
        &self,
        processor: usize,
        part: &str,
        told: &impl Serialize,
        seen: impl FnOnce(u32) -> Result<(), Failed>,
    ) -> Result<T, Failed> {
        let mut command = self.command(processor, part, told)?;
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (child, _started) = scratch::start(command).map_err(|it| unstarted(&it))?;
        let seen = seen(child.id());
        let output = child.wait_with_output().map_err(|it| unstarted(&it))?;
        seen?;
        let said = String::from_utf8_lossy(&output.stdout);
        let line = said.lines().last().filter(|_| output.status.success());
        let line = line.ok_or_else(|| format!("{part}: {}", String::from_utf8_lossy(&output.stderr).trim()))?;
        Ok(serde_json::from_str(line)?)
    }

    /// Starts a part that listens.
    ///
    /// # Errors
    /// It does not come up.
    pub fn start(&self, processor: usize, part: &str, told: &impl Serialize) -> Result<Listening, Failed> {
        let mut command = self.command(processor, part, told)?;
        let (mut child, started) =
            scratch::start(command.stdin(Stdio::null()).stdout(Stdio::piped())).map_err(|it| unstarted(&it))?;
        let out = child.stdout.take().ok_or("no output")?;
        let (out, at) = (BufReader::new(out), SocketAddr::from(([127, 0, 0, 1], 0)));
        let mut listening = Listening { child, _started: started, out, at, backend: None };
        let mut line = String::new();
        listening.out.read_line(&mut line)?;
        let ready: Ready = serde_json::from_str(&line).map_err(|_| format!("{part} does not come up"))?;
        listening.at.set_port(ready.port);
        listening.backend = ready.backend;
        Ok(listening)
    }
}

pub(super) fn unstarted(error: &std::io::Error) -> Failed {
    format!("programs are started by setpriv, chrt and taskset (util-linux): {error}").into()
}

/// What keeps a program to a processor, as batch work: words in front of its own.
const KEPT: [&str; 5] = ["chrt", "--batch", "0", "taskset", "-c"];

/// A program on one processor, as batch work; its words are to be added.
fn kept(processor: usize, program: &Path) -> Command {
    let [first, others @ ..] = KEPT;
    let mut command = Command::new(first);
    command.args(others).arg(processor.to_string()).arg(program);
    command
}

/// The same for one that is not ours: it is told to end (SIGINT) as soon as whoever starts it has gone, killed or not.
pub(super) fn ending_with_us(processor: usize, program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "INT"]).args(KEPT).arg(processor.to_string()).arg(program);
    command
}

/// A part that listens; it ends with this.
#[derive(Debug)]
pub struct Listening {
    child: Child,
    _started: Started,
    out: BufReader<ChildStdout>,
    at: SocketAddr,
    backend: Option<u32>,
}

impl Listening {
    /// Where.
    #[must_use]
    pub const fn at(&self) -> SocketAddr {
        self.at
    }

    /// Its process, and the one that works for it.
    pub fn processes(&self) -> impl Iterator<Item = u32> {
        [Some(self.child.id()), self.backend].into_iter().flatten()
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// It failed.
    pub fn end(mut self) -> Result<(), Failed> {
        let status = self.child.wait()?;
        status.success().then_some(()).ok_or_else(|| format!("a part ended: {status}").into())
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ended = self.child.kill();
            let _waited = self.child.wait();
        }
    }
}
