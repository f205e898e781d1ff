//! Work that a core hands out instead of doing it: private-key operations and other slow computations. The shell runs a
//! [`Job`] on a bounded pool and returns the outcome as input; a core never waits.

use std::any::Any;
use std::fmt;

/// Names a job until its outcome has come back. The upper half is the channel that made it (0: not a channel's).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

impl JobId {
    /// The `sequence`-th job of the channel `channel`.
    #[must_use]
    pub const fn of_channel(channel: u32, sequence: u32) -> Self {
        Self(((channel as u64) << 32) | sequence as u64)
    }

    /// The channel that made this job; 0 when it was not a channel.
    #[must_use]
    pub const fn channel(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// What a job found out; only the core that made the job knows the type inside.
pub type JobOutcome = Box<dyn Any + Send>;

/// One piece of work. It owns what it needs and touches nothing else.
pub struct Job {
    /// Its name.
    pub id: JobId,
    run: Box<dyn FnOnce() -> JobOutcome + Send>,
}

impl Job {
    /// A job that computes `run`.
    pub fn new<T: Any + Send>(id: JobId, run: impl FnOnce() -> T + Send + 'static) -> Self {
        Self { id, run: Box::new(move || Box::new(run())) }
    }

    /// Does the work. Call this outside of every lock.
    #[must_use]
    pub fn run(self) -> (JobId, JobOutcome) {
        (self.id, (self.run)())
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("id", &self.id).finish_non_exhaustive()
    }
}
