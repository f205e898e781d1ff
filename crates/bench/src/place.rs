//! Which processor a thread keeps to.

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::Failed;
use crate::gd::accounts;

/// Two processors that this program may use: the first for who asks, the other for who answers. None where it may use only one.
#[must_use]
pub fn pair() -> Option<(usize, usize)> {
    accounts::processors()
}

/// Keeps the calling thread, and those that it starts from now on, to a processor.
///
/// # Errors
/// There is none of this number, or this program may not use it.
pub fn keep_to(processor: usize) -> Result<(), Failed> {
    if processor >= CpuSet::MAX_CPU {
        return Err(format!("processor {processor}: there are none above {}", CpuSet::MAX_CPU - 1).into());
    }
    let mut only = CpuSet::new();
    only.set(processor);
    sched_setaffinity(None, &only).map_err(|error| format!("processor {processor}: {error}").into())
}

#[cfg(test)]
mod tests {
    use rustix::thread::sched_getaffinity;

    use super::*;

    #[test]
    fn a_thread_stays_where_it_is_told_to_and_nobody_else_does() {
        let mine = sched_getaffinity(None).unwrap();
        let last = (0..CpuSet::MAX_CPU).rfind(|it| mine.is_set(*it)).unwrap();
        let there = std::thread::spawn(move || {
            keep_to(last).unwrap();
            let kept = std::thread::spawn(|| sched_getaffinity(None).unwrap()).join().unwrap();
            assert!(keep_to(CpuSet::MAX_CPU).is_err());
            assert!(keep_to(CpuSet::MAX_CPU - 1).is_err(), "this machine has not so many");
            kept
        });
        let there = there.join().unwrap();
        assert!(there.is_set(last) && there.count() == 1);
        assert!(sched_getaffinity(None).unwrap() == mine);
    }
}
