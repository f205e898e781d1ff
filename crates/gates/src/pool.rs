//! The bounded pool that runs private-key operations and password hashes, away from the cores (DESIGN section 2).
//!
//! Its threads have the processor while nobody else wants it (`SCHED_IDLE`): a thread that serves takes it from them in the
//! moment it wakes. With a difference of niceness alone the kernel would let them go on until it looks again, for
//! milliseconds; when many log in at once, on a machine with one processor, those who are in already would wait for that.
//! The kernel misses some of these moments: it may find that it is such a thread's turn all the same, and looks again at its
//! next tick, up to four milliseconds later. So they offer the processor themselves before each use of a key.
//!
//! Where others take all of the processor, logins must go on all the same. One thread more, nicer than those that serve
//! but no more than that, steps in when work waits and nothing was begun for a while. It interrupts nobody (`SCHED_BATCH`):
//! after an interruption the kernel may find that it is the turn of one of those that give way.

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

type Work = Box<dyn FnOnce() + Send>;

/// How much nicer the thread is that steps in. It gets a tenth of a processor that is wanted elsewhere.
#[cfg(target_os = "linux")]
const NICER: i32 = 10;
/// The nicest there is.
#[cfg(target_os = "linux")]
const NICEST: i32 = 19;
/// How long nothing is begun although work waits, before somebody steps in.
const PATIENCE: Duration = Duration::from_millis(20);

thread_local! {
    /// Whether this thread gives way to others.
    static GIVES_WAY: Cell<bool> = const { Cell::new(false) };
}

/// Threads that run queued work, first come first served. Dropping the last clone ends them, once they have done what is
/// queued.
#[derive(Clone)]
pub struct Pool(Arc<Owner>);

/// The pool's queue is full: the caller refuses its peer instead of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many private-key operations are waiting")]
pub struct PoolFull;

impl Pool {
    /// A pool of `threads` threads, and of one that steps in for them, with room for `waiting` pieces of work besides those
    /// that run.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn new(threads: usize, waiting: usize) -> std::io::Result<Self> {
        let pool = Self::alone(threads, waiting)?;
        let shared = Arc::clone(&pool.0.0);
        thread::Builder::new().name("crypto-late".into()).spawn(move || shared.step_in())?;
        Ok(pool)
    }

    /// The same without the one that steps in.
    pub(crate) fn alone(threads: usize, waiting: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared { room: waiting, ..Shared::default() });
        let pool = Self(Arc::new(Owner(Arc::clone(&shared))));
        ua_proto::crypto::pause_before_key_use(let_others_go);
        for number in 0..threads.max(1) {
            let shared = Arc::clone(&shared);
            thread::Builder::new().name(format!("crypto-{number}")).spawn(move || shared.serve())?;
        }
        Ok(pool)
    }

    /// Queues one piece of work.
    ///
    /// # Errors
    /// The queue is full.
    pub fn run(&self, work: impl FnOnce() + Send + 'static) -> Result<(), PoolFull> {
        let shared = &self.0.0;
        let mut line = shared.line();
        if line.work.len() >= shared.room {
            return Err(PoolFull);
        }
        let watched = line.watched;
        line.work.push_back(Box::new(work));
        drop(line);
        shared.work.notify_one();
        if !watched {
            shared.late.notify_one();
        }
        Ok(())
    }
}

/// Ends the threads when the last clone of the pool goes.
struct Owner(Arc<Shared>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.line().ended = true;
        self.0.work.notify_all();
        self.0.late.notify_all();
    }
}

/// What waits.
#[derive(Default)]
struct Line {
    work: VecDeque<Work>,
    /// How often a thread that gives way began something.
    begun: u64,
    /// The one that steps in looks at it again by itself.
    watched: bool,
    ended: bool,
}

#[derive(Default)]
struct Shared {
    line: Mutex<Line>,
    room: usize,
    /// There is work, or the end.
    work: Condvar,
    /// The same for the one that steps in: it looks at how the others get on.
    late: Condvar,
}

impl Shared {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The life of a thread that gives way.
    fn serve(&self) {
        give_way();
        let mut line = self.line();
        loop {
            if let Some(work) = line.work.pop_front() {
                line.begun = line.begun.wrapping_add(1);
                drop(line);
                done(work);
                line = self.line();
            } else if line.ended {
                return;
            } else {
                line = self.work.wait(line).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// The life of the thread that steps in.
    fn step_in(&self) {
        be_nicer();
        let mut line = self.line();
        loop {
            if line.work.is_empty() {
                if line.ended {
                    return;
                }
                line.watched = false;
                line = self.late.wait(line).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let before = line.begun;
            line.watched = true;
            line = self.late.wait_timeout(line, PATIENCE).unwrap_or_else(PoisonError::into_inner).0;
            // As long as the others do not get on.
            while line.begun == before
                && let Some(work) = line.work.pop_front()
            {
                drop(line);
                done(work);
                line = self.line();
            }
        }
    }
}

/// A thread that ended with its work would be missed by everybody who comes later.
fn done(work: Work) {
    drop(catch_unwind(AssertUnwindSafe(work)));
}

/// Before a key is used by a thread that gives way: a fraction of a millisecond in which the kernel may not look.
fn let_others_go() {
    if GIVES_WAY.get() {
        thread::yield_now();
    }
}

/// From now on this thread has the processor only while nobody else wants it.
fn give_way() {
    GIVES_WAY.set(true);
    #[cfg(target_os = "linux")]
    {
        use thread_priority::{NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy};
        let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        let asked = thread_priority::set_thread_priority_and_policy(
            thread_priority::thread_native_id(),
            ThreadPriority::Min,
            idle,
        );
        // It also sets the niceness, which means nothing to such a thread, and may fail at that where programs are nicer.
        if thread_priority::thread_schedule_policy() != Ok(idle) {
            tracing::debug!(
                ?asked,
                "threads that use private keys cannot give way; they are nicer than those that serve"
            );
            be_nicer();
        }
    }
}

/// Makes this thread nicer, and one that interrupts nobody who serves when it wakes. On Linux a thread has a niceness of its
/// own; elsewhere it would be that of all.
fn be_nicer() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getpriority_process, setpriority_process};
        use thread_priority::{NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy};
        let nicer = getpriority_process(None).map(|niceness| (niceness + NICER).min(NICEST));
        // It also asks for a niceness that is refused to most; ours comes below.
        let batch = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Batch);
        let _asked = thread_priority::set_thread_priority_and_policy(
            thread_priority::thread_native_id(),
            ThreadPriority::Max,
            batch,
        );
        if let Err(error) = nicer.and_then(|niceness| setpriority_process(None, niceness)) {
            tracing::warn!(%error, "threads that use private keys compete with those that serve");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    /// A pool whose thread that gives way is at work until it is told.
    fn occupied(pool: &Pool) -> Sender<()> {
        let (release, wait) = channel::<()>();
        let (started, running) = channel::<()>();
        pool.run(move || {
            started.send(()).unwrap();
            wait.recv().unwrap();
        })
        .unwrap();
        running.recv().unwrap();
        release
    }

    #[test]
    fn a_full_queue_refuses_instead_of_waiting() {
        let pool = Pool::alone(1, 1).unwrap();
        let release = occupied(&pool);
        let (done, finished) = channel::<()>();
        pool.run(move || done.send(()).unwrap()).unwrap();
        assert_eq!(pool.run(|| ()), Err(PoolFull));
        release.send(()).unwrap();
        finished.recv().unwrap();
    }

    #[test]
    fn work_goes_on_when_those_that_give_way_do_not() {
        let pool = Pool::new(1, 8).unwrap();
        let release = occupied(&pool);
        let (done, finished) = channel();
        for number in 0..3 {
            let done = done.clone();
            pool.run(move || done.send(number).unwrap()).unwrap();
        }
        assert_eq!([0, 1, 2].map(|_| finished.recv().unwrap()), [0, 1, 2]);
        release.send(()).unwrap();
    }

    #[test]
    fn what_is_queued_is_done_although_the_pool_is_gone() {
        let pool = Pool::new(2, 100).unwrap();
        let (done, finished) = channel();
        for number in 0..100 {
            let done = done.clone();
            pool.run(move || done.send(number).unwrap()).unwrap();
        }
        drop((pool, done));
        assert_eq!(finished.iter().count(), 100);
    }

    #[test]
    fn work_that_waits_is_looked_at_again_after_a_time_without_any() {
        let pool = Pool::new(1, 8).unwrap();
        for round in 0..3 {
            let release = occupied(&pool);
            let (done, finished) = channel();
            pool.run(move || done.send(round).unwrap()).unwrap();
            assert_eq!(finished.recv().unwrap(), round, "by the one that steps in");
            release.send(()).unwrap();
            let watched = || pool.0.0.line().watched;
            while watched() {
                thread::yield_now();
            }
        }
    }

    #[test]
    fn work_is_done_although_those_that_serve_never_rest() {
        let serving = Arc::new(std::sync::atomic::AtomicBool::new(true));
        let mut busy = Vec::new();
        for _ in 0..thread::available_parallelism().unwrap().get() {
            let serving = Arc::clone(&serving);
            busy.push(thread::spawn(move || while serving.load(std::sync::atomic::Ordering::Relaxed) {}));
        }
        let pool = Pool::new(2, 100).unwrap();
        let (done, finished) = channel();
        for number in 0..20 {
            let done = done.clone();
            let work = move || {
                let_others_go();
                done.send(number).unwrap();
            };
            pool.run(work).unwrap();
        }
        drop(done);
        let mut all: Vec<i32> = finished.iter().collect();
        serving.store(false, std::sync::atomic::Ordering::Relaxed);
        all.sort_unstable();
        assert_eq!(all, (0..20).collect::<Vec<_>>());
        busy.into_iter().for_each(|busy| busy.join().unwrap());
    }

    /// What `look` sees on the thread that gives way and on the one that steps in.
    fn on_both<T: Send + 'static>(look: fn() -> T) -> (T, T) {
        let pool = Pool::new(1, 8).unwrap();
        let (told, heard) = channel();
        // Whichever of them takes one of the two cannot take the other.
        let both = Arc::new(std::sync::Barrier::new(2));
        for _ in 0..2 {
            let (told, both) = (told.clone(), Arc::clone(&both));
            pool.run(move || {
                both.wait();
                told.send((thread::current().name() == Some("crypto-late"), look())).unwrap();
            })
            .unwrap();
        }
        let mut seen = [heard.recv().unwrap(), heard.recv().unwrap()];
        seen.sort_by_key(|(late, _)| *late);
        let [(false, gives_way), (true, steps_in)] = seen else { panic!("two threads") };
        (gives_way, steps_in)
    }

    #[test]
    fn those_that_give_way_offer_the_processor_and_nobody_else_does() {
        assert_eq!(on_both(|| GIVES_WAY.get()), (true, false));
        assert!(!GIVES_WAY.get(), "who serves");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn who_serves_goes_before_those_who_wait_for_keys() {
        use thread_priority::{NormalThreadSchedulePolicy, ThreadSchedulePolicy, thread_schedule_policy};
        let policy = || thread_schedule_policy().unwrap();
        let serving = policy();
        let pool = Pool::alone(1, 1).unwrap();
        let (told, working) = channel();
        pool.run(move || told.send(policy()).unwrap()).unwrap();
        assert_eq!(working.recv().unwrap(), ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle));
        assert_eq!(policy(), serving, "the thread's own, not the program's");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn who_steps_in_is_nicer_than_who_serves() {
        use thread_priority::{NormalThreadSchedulePolicy, ThreadSchedulePolicy, thread_schedule_policy};
        let look = || (rustix::process::getpriority_process(None).unwrap(), thread_schedule_policy().unwrap());
        let (serving, _) = look();
        let batch = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Batch);
        assert_eq!(on_both(look).1, ((serving + NICER).min(NICEST), batch), "nicer, and it interrupts nobody");
    }
}
