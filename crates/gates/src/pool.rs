//! The bounded pool that runs private-key operations and password hashes, away from the cores (DESIGN section 2).
//!
//! Its threads are nicer than the threads that serve: when many log in at once, on a machine with one processor, those who
//! are in already wait for at most what one thread does until the kernel looks again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

type Work = Box<dyn FnOnce() + Send>;

/// How much nicer the threads are than the program. They get a tenth of a processor that is wanted elsewhere: logins go on
/// beside any load.
#[cfg(target_os = "linux")]
const NICER: i32 = 10;
/// The nicest there is.
#[cfg(target_os = "linux")]
const NICEST: i32 = 19;

/// Threads that run queued work, first come first served. Dropping the last clone ends them.
#[derive(Clone)]
pub struct Pool {
    queue: SyncSender<Work>,
}

/// The pool's queue is full: the caller refuses its peer instead of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many private-key operations are waiting")]
pub struct PoolFull;

impl Pool {
    /// A pool of `threads` threads with room for `waiting` pieces of work besides those that run.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn new(threads: usize, waiting: usize) -> std::io::Result<Self> {
        let (queue, work) = sync_channel::<Work>(waiting);
        let work = Arc::new(Mutex::new(work));
        for number in 0..threads.max(1) {
            let work = Arc::clone(&work);
            thread::Builder::new().name(format!("crypto-{number}")).spawn(move || run(&work))?;
        }
        Ok(Self { queue })
    }

    /// Queues one piece of work.
    ///
    /// # Errors
    /// The queue is full.
    pub fn run(&self, work: impl FnOnce() + Send + 'static) -> Result<(), PoolFull> {
        self.queue.try_send(Box::new(work)).map_err(|error| match error {
            TrySendError::Full(_) | TrySendError::Disconnected(_) => PoolFull,
        })
    }
}

/// Makes this thread nicer. On Linux a thread has a niceness of its own; elsewhere it would be that of all.
fn give_way() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getpriority_process, setpriority_process};
        let nicer = getpriority_process(None).map(|niceness| (niceness + NICER).min(NICEST));
        if let Err(error) = nicer.and_then(|niceness| setpriority_process(None, niceness)) {
            tracing::warn!(%error, "threads that use private keys compete with those that serve");
        }
    }
}

fn run(work: &Mutex<Receiver<Work>>) {
    give_way();
    loop {
        let next = work.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match next {
            // A thread that ended with its work would be missed by everybody who comes later.
            Ok(work) => drop(catch_unwind(AssertUnwindSafe(work))),
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_full_queue_refuses_instead_of_waiting() {
        let pool = Pool::new(1, 1).unwrap();
        let (release, wait) = channel::<()>();
        let (started, running) = channel::<()>();
        pool.run(move || {
            started.send(()).unwrap();
            wait.recv().unwrap();
        })
        .unwrap();
        running.recv().unwrap();
        let (done, finished) = channel::<()>();
        pool.run(move || done.send(()).unwrap()).unwrap();
        assert_eq!(pool.run(|| ()), Err(PoolFull));
        release.send(()).unwrap();
        finished.recv().unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn who_serves_goes_before_those_who_wait_for_keys() {
        let niceness = || rustix::process::getpriority_process(None).unwrap();
        let serving = niceness();
        let pool = Pool::new(1, 1).unwrap();
        let (told, working) = channel();
        pool.run(move || told.send(niceness()).unwrap()).unwrap();
        assert_eq!(working.recv().unwrap(), (serving + NICER).min(NICEST));
        assert_eq!(niceness(), serving, "the thread's own, not the program's");
    }
}
