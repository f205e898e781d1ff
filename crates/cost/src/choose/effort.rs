//! How much a search may cost, and its threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gspn::{Budget, Limits, Progress};

use crate::Fault;

/// Settings that a thread takes at a time, at most; of few, which may take seconds each, fewer.
const BLOCK: usize = 16;

/// What a search may cost.
pub struct Effort<'a> {
    /// Of each net.
    pub limits: Limits,
    /// Threads that share the work; 0 counts as 1. The answer is the same, bit by bit, for any number.
    pub threads: usize,
    /// Called every few milliseconds, by any of the threads; when it says no, the search ends.
    pub go_on: &'a (dyn Fn(Progress) -> bool + Sync),
}

impl std::fmt::Debug for Effort<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Effort").field("limits", &self.limits).field("threads", &self.threads).finish_non_exhaustive()
    }
}

impl Effort<'_> {
    /// `make` of 0, 1, .. `count`, in this order. Of several faults that of the smallest number is given.
    pub(super) fn each<T: Send>(
        &self,
        count: usize,
        make: impl Fn(usize, &mut Budget<'_>) -> Result<T, Fault> + Sync,
    ) -> Result<Vec<T>, Fault> {
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let block = (count / (4 * self.threads.max(1))).clamp(1, BLOCK);
        let work = || {
            let mut go_on = |progress| (self.go_on)(progress);
            let mut budget = Budget::new(self.limits, &mut go_on);
            let mut made = Vec::new();
            // Whoever has a block ends it, so the smallest number that fails is always reached.
            while !failed.load(Ordering::Relaxed) {
                let first = next.fetch_add(block, Ordering::Relaxed);
                if first >= count {
                    break;
                }
                for number in first..(first + block).min(count) {
                    let looked = budget.look(Progress::Solving { sweeps: number as u64, error: 1.0 });
                    let result = looked.map_err(Fault::from).and_then(|()| make(number, &mut budget));
                    let fails = result.is_err();
                    made.push((number, result));
                    if fails {
                        failed.store(true, Ordering::Relaxed);
                        break;
                    }
                }
            }
            made
        };
        let threads = self.threads.clamp(1, count.div_ceil(block).max(1));
        let mut all = Vec::with_capacity(count);
        std::thread::scope(|scope| {
            let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            all.extend(work());
            for helper in helpers {
                match helper.join() {
                    Ok(made) => all.extend(made),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
        all.sort_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, result)| result).collect()
    }
}
