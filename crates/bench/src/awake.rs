//! Keeps the processors from halting while times of single messages are taken.
//!
//! A virtual machine gives a processor with nothing to do back to its host at once, and every message then waits until it has it again: a
//! Read through a guard twice as often as a direct one, for as long as the host likes. The time that is meant is the guard's.

use std::process::{Child, Command, Stdio};

use crate::Failed;

/// Processor seconds after which each of them ends by itself.
const MOST: u32 = 2_400;

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
            let mut busy = Command::new("chrt");
            busy.args(["--idle", "0", "sh", "-c", &format!("ulimit -t {MOST}; while :; do :; done")]);
            let started = busy.stdin(Stdio::null()).spawn();
            awake
                .0
                .push(started.map_err(|error| format!("processors cannot be kept awake: chrt (util-linux): {error}"))?);
        }
        Ok(awake)
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
