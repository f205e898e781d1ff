//! How often something may happen for a key that a peer chooses: so many at once, then one each while. Bounded in memory:
//! a key that has nothing outstanding is forgotten first.

use std::collections::BTreeMap;
use std::time::Duration;

use access_model::Mono;

/// Keys of one table.
const KEYS: usize = 4_096;

/// The pace of every key, as the time at which it would have nothing outstanding (the leaky bucket as a meter).
#[derive(Debug)]
pub(crate) struct Pace<K> {
    /// One more is allowed after so long.
    every: Duration,
    /// So many are allowed at once.
    burst: u32,
    clear: BTreeMap<K, Mono>,
}

impl<K: Ord + Clone> Pace<K> {
    pub(crate) fn new(burst: u32, every: Duration) -> Self {
        Self { every, burst: burst.max(1), clear: BTreeMap::new() }
    }

    /// How long this key has to wait; zero: not at all.
    pub(crate) fn wait(&self, key: &K, now: Mono) -> Duration {
        let outstanding = self.clear.get(key).map_or(Duration::ZERO, |clear| clear.since(now));
        outstanding.saturating_sub(self.every * (self.burst - 1))
    }

    /// Counts one for this key, whether it had to wait or not.
    pub(crate) fn count(&mut self, key: &K, now: Mono) {
        if !self.clear.contains_key(key) {
            self.make_room(now);
        }
        let clear = self.clear.entry(key.clone()).or_insert(now);
        *clear = (*clear).max(now) + self.every;
    }

    /// Takes one back.
    pub(crate) fn give_back(&mut self, key: &K) {
        if let Some(clear) = self.clear.get_mut(key) {
            let every = u64::try_from(self.every.as_nanos()).unwrap_or(u64::MAX);
            *clear = Mono::from_nanos(clear.as_nanos().saturating_sub(every));
        }
    }

    /// A full table loses the keys that have nothing outstanding, or the one that has least.
    fn make_room(&mut self, now: Mono) {
        if self.clear.len() < KEYS {
            return;
        }
        self.clear.retain(|_, clear| *clear > now);
        if self.clear.len() >= KEYS
            && let Some(least) = self.clear.iter().min_by_key(|(_, clear)| **clear).map(|(key, _)| key.clone())
        {
            self.clear.remove(&least);
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.clear.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono::from_nanos(seconds * 1_000_000_000)
    }

    fn allowed(pace: &mut Pace<u32>, key: u32, now: Mono) -> bool {
        let allowed = pace.wait(&key, now).is_zero();
        if allowed {
            pace.count(&key, now);
        }
        allowed
    }

    #[test]
    fn a_burst_is_allowed_then_one_each_while() {
        let mut pace = Pace::new(3, Duration::from_secs(10));
        let burst = (0..10).filter(|_| allowed(&mut pace, 1, at(100))).count();
        assert_eq!(burst, 3);
        assert_eq!(pace.wait(&1, at(100)), Duration::from_secs(10));
        assert!(allowed(&mut pace, 2, at(100)), "another key");
        assert!(!allowed(&mut pace, 1, at(109)));
        assert!(allowed(&mut pace, 1, at(110)));
        assert!(!allowed(&mut pace, 1, at(110)));
        pace.give_back(&1);
        assert!(allowed(&mut pace, 1, at(110)), "what was given back can be had again");
        assert_eq!((0..10).filter(|_| allowed(&mut pace, 1, at(10_000))).count(), 3, "rest is not saved up");
    }

    #[test]
    fn the_table_is_bounded_and_forgets_the_idle_first() {
        let mut pace = Pace::new(2, Duration::from_secs(10));
        for _ in 0..5 {
            pace.count(&0, at(0));
        }
        for key in 1..=3 * u32::try_from(KEYS).unwrap() {
            pace.count(&key, at(0));
        }
        assert!(pace.len() <= KEYS, "{}", pace.len());
        assert!(pace.wait(&0, at(0)) > Duration::ZERO, "whoever is far ahead is remembered longest");
    }
}
