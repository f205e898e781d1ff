//! Keeps the processors from halting while times of single messages are taken.
//!
//! A virtual machine gives a processor with nothing to do back to its host at once, and every message then waits until it has it again: a
//! Read through a guard twice as often as a direct one, for as long as the host likes. The time that is meant is the guard's.
//!
//! Where the kernel lets processors look for work in a loop of its own (the idle state `POLL`), it is asked to (`/dev/cpu_dma_latency`, for
//! which one mostly has to be root): whoever wakes somebody up on such a processor writes a word in memory. Elsewhere a program without end keeps it
//! busy. It has to be interrupted by the other processor, which in a virtual machine is once more a matter of the host, and where two
//! processors are threads of one core it slows the other one down.

use std::fs::File;
use std::process::{Child, Command, Stdio};

use crate::{Failed, process};

/// Processor seconds after which each program without end ends by itself.
const MOST: u32 = 2_400;

/// Works as long as the one that has started it is there: one that is killed ends nobody.
const WHILE_WANTED: &str = "while kill -0 $PPID; do i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; done";

/// While there is one, the processors do not halt.
#[derive(Debug)]
pub enum Awake {
    /// The kernel is held to a latency of 0, as long as this is open.
    Polling(File),
    /// A busy process for each processor.
    Busy(Vec<Busy>),
}

impl Awake {
    /// For all processors that this program may use.
    ///
    /// # Errors
    /// When the kernel does not poll and `chrt` (util-linux) is missing.
    pub fn start() -> Result<Self, Failed> {
        if let Some(awake) = Self::polling() {
            return Ok(awake);
        }
        let count = std::thread::available_parallelism()?.get();
        let processes = (0..count).map(|_| Busy::start()).collect::<Result<_, _>>()?;
        Ok(Self::Busy(processes))
    }

    /// The same for these processors, from a thread that may keep to one of them: what it starts would keep to that one, too.
    ///
    /// # Errors
    /// As [`Self::start`], also when `taskset` (util-linux) is missing, or there is no such processor.
    pub fn on(processors: impl IntoIterator<Item = usize>) -> Result<Self, Failed> {
        if let Some(awake) = Self::polling() {
            return Ok(awake);
        }
        let mut processes = Vec::new();
        for processor in processors {
            let busy = Busy::start()?;
            process::pin(busy.0.id(), processor)?;
            processes.push(busy);
        }
        Ok(Self::Busy(processes))
    }

    /// Asks the kernel to poll, where it can and this program may. That takes no time from anybody, not even from who gives way.
    #[must_use]
    pub fn polling() -> Option<Self> {
        process::poll().map(Self::Polling)
    }
}

/// A process without end, in the class that anything else interrupts at once. It ends with this.
#[derive(Debug)]
pub struct Busy(Child);

impl Busy {
    fn start() -> Result<Self, Failed> {
        let mut busy = Command::new("chrt");
        busy.args(["--idle", "0", "sh", "-c", &format!("ulimit -t {MOST}; {WHILE_WANTED}")]);
        let started = busy.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
        started.map(Self).map_err(|error| format!("processors cannot be kept awake: chrt (util-linux): {error}").into())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // One that has ended by itself is not there any more.
        let _ended = self.0.kill();
        let _waited = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_processor_that_can_poll_does_not_halt() {
        let awake = Awake::start().unwrap();
        let Awake::Polling(_) = awake else { return println!("skip: no polling here, or it takes root") };
        // Whoever sleeps already does so until the next interrupt.
        let settle = Duration::from_millis(50);
        std::thread::sleep(settle);
        let before = process::halts();
        std::thread::sleep(settle);
        assert_eq!(process::halts(), before);
    }
}
