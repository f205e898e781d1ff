//! Keeps the processors from halting while times of single messages are taken.
//!
//! A virtual machine gives a processor with nothing to do back to its host at once, and every message then waits until it has it again: a
//! Read through a guard twice as often as a direct one, for as long as the host likes. The time that is meant is the guard's.

use std::process::{Child, Command, Stdio};

use crate::{Failed, process};

/// Processor seconds after which each of them ends by itself.
const MOST: u32 = 2_400;

/// Works as long as the one that has started it is there: one that is killed ends nobody.
const WHILE_WANTED: &str = "while kill -0 $PPID; do i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; done";

/// A busy process for each processor, in the class that anything else interrupts at once. They end with it.
#[derive(Debug)]
pub struct Awake(Vec<Child>);

impl Awake {
    /// Starts them.
    ///
    /// # Errors
    /// When `chrt` (util-linux) is missing.
    pub fn start() -> Result<Self, Failed> {
        let mut awake = Self(Vec::new());
        for _ in 0..std::thread::available_parallelism()?.get() {
            awake.one()?;
        }
        Ok(awake)
    }

    /// The same for these processors, from a thread that may keep to one of them: what it starts would keep to that one, too.
    ///
    /// # Errors
    /// When `chrt` or `taskset` (util-linux) is missing, or there is no such processor.
    pub fn on(processors: impl IntoIterator<Item = usize>) -> Result<Self, Failed> {
        let mut awake = Self(Vec::new());
        for processor in processors {
            process::pin(awake.one()?, processor)?;
        }
        Ok(awake)
    }

    /// One more; gives its process.
    fn one(&mut self) -> Result<u32, Failed> {
        let mut busy = Command::new("chrt");
        busy.args(["--idle", "0", "sh", "-c", &format!("ulimit -t {MOST}; {WHILE_WANTED}")]);
        let started = busy.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
        let busy = started.map_err(|error| format!("processors cannot be kept awake: chrt (util-linux): {error}"))?;
        let number = busy.id();
        self.0.push(busy);
        Ok(number)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        for busy in &mut self.0 {
            // One that has ended by itself is not there any more.
            let _ended = busy.kill();
            let _waited = busy.wait();
        }
    }
}
