//! How much a search may cost, and its threads.
//!
//! *Long ones last.* Nobody knows before how long a setting takes, and one of a million markings must not use up the time of a thousand
//! others. So whoever has looked at the clock many times as often as any that is done already is put back, and begun anew when the others
//! are done, those before them that are likely to be short; what is put back again and again may look more often each time, and so little is done in vain. When the time is over, those
//! that are not done have no answer; the others have theirs.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use gspn::{Budget, Limits, Progress};

use crate::{Class, Fault};

/// Settings that a thread takes at a time, at most; of few, which may take seconds each, fewer.
const BLOCK: usize = 16;
/// Looks at the clock after which the first one is put back.
const LOOKS: u64 = 1000;
/// A setting may take so many times as many as the longest that is done, and as many times more when it is begun anew.
const LONGER: u64 = 16;

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
        self.share(count, |number, budget| {
            budget.look(Progress::Solving { sweeps: number as u64, error: 1.0 })?;
            make(number, budget)
        })
    }

    /// The same without a look at the clock before each.
    fn share<T: Send>(
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
                    let result = make(number, &mut budget);
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

    /// `make` of 0, 1, .. `count`, each by itself: one that has no answer leaves the others theirs. Those of which `size` says less come first.
    /// `told` hears how many are done.
    ///
    /// # Errors
    /// Of the first, in an order of its own, that is refused for anything but that it has no answer.
    pub(super) fn each_alone<T: Send>(
        &self,
        count: usize,
        size: impl Fn(usize) -> u64,
        told: &(dyn Fn(usize) + Sync),
        make: impl Fn(usize, &mut Budget<'_>) -> Result<T, Fault> + Sync,
    ) -> Result<Vec<Result<T, Fault>>, Fault> {
        let done = AtomicUsize::new(0);
        let mut all: Vec<Option<Result<T, Fault>>> = (0..count).map(|_| None).collect();
        // Neighbours are alike: long ones do not come all at first.
        let step = stride(count);
        let mut left: Vec<usize> = (0..count).map(|place| place * step % count).collect();
        left.sort_by_key(|number| size(*number));
        let mut least = LOOKS;
        while !left.is_empty() {
            let most = Most { least, longest: AtomicU64::new(0), back: AtomicU64::new(0) };
            // Each of so few has a thread.
            let unlimited = left.len() <= self.threads.max(1) || least > u64::MAX / LONGER;
            let made = self.share(left.len(), |place, budget| {
                let number = left[place];
                let (mut looks, mut stopped) = (0_u64, false);
                let limits = budget.limits();
                let mut go_on = |progress| {
                    looks += 1;
                    stopped |= !unlimited && most.less_than(looks);
                    !stopped && budget.look(progress).is_ok()
                };
                let mut own = Budget::new(limits, &mut go_on);
                let looked = own.look(Progress::Solving { sweeps: number as u64, error: 1.0 });
                let result = looked.map_err(Fault::from).and_then(|()| make(number, &mut own));
                if stopped {
                    most.back.fetch_add(1, Ordering::Relaxed);
                    return Ok(Err(number));
                }
                most.longest.fetch_max(looks, Ordering::Relaxed);
                told(done.fetch_add(1, Ordering::Relaxed) + 1);
                match result {
                    Err(fault) if fault.class != Class::Unanswered => Err(fault),
                    result => Ok(Ok((number, result))),
                }
            })?;
            left.clear();
            for made in made {
                match made {
                    Ok((number, result)) => all[number] = Some(result),
                    Err(number) => left.push(number),
                }
            }
            left.sort_unstable();
            left.sort_by_key(|number| size(*number));
            least = most.now().saturating_mul(LONGER);
        }
        Ok(all.into_iter().flatten().collect())
    }
}

/// Looks that a setting may take.
struct Most {
    least: u64,
    /// Of those that are done.
    longest: AtomicU64,
    /// Settings that were put back.
    back: AtomicU64,
}

impl Most {
    fn less_than(&self, looks: u64) -> bool {
        looks > self.least && looks > self.now()
    }

    fn now(&self) -> u64 {
        let longest = self.longest.load(Ordering::Relaxed);
        if longest > 0 {
            return longest.saturating_mul(LONGER).max(self.least);
        }
        // While none is done, nobody knows what is long: a quarter more for each that was put back.
        let back = self.back.load(Ordering::Relaxed).min(100);
        (0..back).fold(self.least, |most, _| most.saturating_add(most / 4))
    }
}

/// A step that leads through all of so many, far from where it was.
fn stride(count: usize) -> usize {
    let divides = |mut one: usize, mut other: usize| {
        while other > 0 {
            (one, other) = (other, one % other);
        }
        one
    };
    let golden = count / 8 * 5;
    (golden.max(1)..).find(|step| divides(*step, count.max(1)) == 1).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(budget: &mut Budget<'_>, times: u64) -> Result<(), Fault> {
        (0..times).try_for_each(|_| Ok(budget.look(Progress::Answering { done: 0 })?))
    }

    /// Five of forty take for ever, the very first among them; the others are all done before the time is over.
    #[test]
    fn long_ones_leave_the_others_their_answers() {
        for threads in [1, 2, 3] {
            let left = AtomicU64::new(200_000);
            let go_on = |_| left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1)).is_ok();
            let effort = Effort { limits: Limits::default(), threads, go_on: &go_on };
            let long = |number: usize| number < 3 || number == 20 || number == 39;
            let made = effort.each_alone(
                40,
                |_| 0,
                &|_| (),
                |number, budget| {
                    look(budget, if long(number) { u64::MAX } else { 500 })?;
                    Ok(number)
                },
            );
            for (number, made) in made.unwrap().into_iter().enumerate() {
                match made {
                    Ok(it) => assert!(!long(number) && it == number),
                    Err(fault) => assert!(long(number) && fault.name == "time", "{number} {fault}"),
                }
            }
        }
    }

    /// What is put back is begun anew, but not much is done in vain.
    #[test]
    fn little_is_done_twice() {
        let (looks, told) = (AtomicU64::new(0), AtomicUsize::new(0));
        let go_on = |_| looks.fetch_add(1, Ordering::Relaxed) < u64::MAX;
        let effort = Effort { limits: Limits::default(), threads: 1, go_on: &go_on };
        let made =
            effort.each_alone(50, |_| 0, &|done| told.store(done, Ordering::Relaxed), |_, budget| look(budget, 20_000));
        assert!(made.unwrap().iter().all(Result::is_ok));
        assert_eq!(told.into_inner(), 50);
        assert!(looks.load(Ordering::Relaxed) < 50 * 20_000 * 3 / 2, "{looks:?}");
    }

    /// What is said to be small is done, though it takes as long as a hundredth of what there is time for.
    #[test]
    fn small_ones_come_first() {
        let left = AtomicU64::new(20_000);
        let go_on = |_| left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1)).is_ok();
        let effort = Effort { limits: Limits::default(), threads: 1, go_on: &go_on };
        let size = |number: usize| (number % 20) as u64;
        let made = effort.each_alone(60, size, &|_| (), |number, budget| {
            look(budget, if size(number) < 2 { 200 } else { 15_000 })?;
            Ok(number)
        });
        for (number, made) in made.unwrap().into_iter().enumerate().filter(|(number, _)| size(*number) < 2) {
            assert!(made.is_ok(), "{number} {made:?}");
        }
    }

    #[test]
    fn a_stride_comes_to_all() {
        for count in 1..200 {
            let all: std::collections::BTreeSet<usize> = (0..count).map(|it| it * stride(count) % count).collect();
            assert_eq!(all.len(), count);
        }
    }

    #[test]
    fn what_is_no_lack_of_an_answer_ends_all() {
        let effort = Effort { limits: Limits::default(), threads: 2, go_on: &|_| true };
        let fails = |number: usize| if number == 7 { Err(Fault::new(Class::NoPrice, "x", "")) } else { Ok(()) };
        assert_eq!(effort.each_alone(9, |_| 0, &|_| (), |number, _| fails(number)).unwrap_err().class, Class::NoPrice);
    }
}
