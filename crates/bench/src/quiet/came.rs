//! What of a run came while it was quiet.

use super::{Part, Quiet};

/// The share of a run that is quiet at least if only that counts.
pub const LEAST: f64 = 0.25;
/// What comes where somebody else computes, for each that would come else, at least: a core has two threads.
const LEAST_WEIGHT: f64 = 0.3;
/// Times that were quiet which are enough: one in twenty of them is the longest.
const ENOUGH: usize = 20;
/// How often the longest find room for each time that those in the middle do, at least, if only those count that did.
const ALIKE: f64 = 0.85;
/// Times after which count and weight do not change any more.
const TIMES: u32 = 6;

/// How many of something came.
#[derive(Clone, Debug, PartialEq)]
pub struct Came {
    /// In quiet windows; a part of one, of which a part was done in them.
    pub count: f64,
    /// These windows.
    pub part: Part,
    quiet: Quiet,
    /// How many come where it is not calm, for each that would come else.
    weight: f64,
}

impl Quiet {
    /// Of what came one after the other from a moment on, the ends of which are these, in nanoseconds of the monotonic clock: each was worked on
    /// since the one before. None where nothing of it was quiet.
    #[must_use]
    pub fn came(&self, begun: u64, ends: &[u64]) -> Option<Came> {
        let last = *ends.last()?;
        let (quiet, all) = (self.within((begun, last)), super::seconds(last.saturating_sub(begun)));
        let part = quiet.part();
        if part.seconds <= 0.0 {
            return None;
        }
        let begins = std::iter::once(begun).chain(ends.iter().copied());
        let shares = begins.zip(ends).map(|(before, end)| (quiet.share((before, *end)), quiet.calm((before, *end))));
        let shares: Vec<(f64, f64)> = shares.collect();
        let calm = all * quiet.calm((begun, last));
        let mut came = Came { count: 0.0, part, quiet, weight: 1.0 };
        for _ in 0..TIMES {
            // What is done in other windows takes longer there.
            let of = |(quiet, calm): &(f64, f64)| if *quiet > 0.0 { quiet / came.weighed(*calm) } else { 0.0 };
            came.count = shares.iter().map(of).sum();
            // So much time would all of it have taken where it is quiet.
            let time = ends.len() as f64 / came.count * part.seconds;
            came.weight = ((time - calm) / (all - calm).max(1e-9)).clamp(LEAST_WEIGHT, 1.0);
        }
        Some(came)
    }
}

impl Came {
    /// A time of which such a share was calm, as if all of it had been quiet, relative.
    fn weighed(&self, calm: f64) -> f64 {
        calm + (1.0 - calm) * self.weight
    }

    /// Seconds of the quiet windows without the looks in them, in which nobody works, by the usual clock.
    #[must_use]
    pub fn without_looks(&self) -> f64 {
        let pace = self.part.usual / self.part.seconds;
        (self.part.seconds - self.quiet.stopped()).max(0.0) * pace
    }

    /// Seconds that ended then, as if all of them had been quiet and at the usual clock, and without the looks in them. Where long ones find room in quiet times nearly as often as
    /// short ones, those that did are taken as they are.
    #[must_use]
    pub fn times(&self, times: impl Iterator<Item = (u64, f64)>) -> Vec<f64> {
        let spans = times.map(|(end, seconds)| ((end.saturating_sub((seconds * 1e9) as u64), end), seconds));
        let spans: Vec<((u64, u64), f64)> = spans.collect();
        let mut lengths: Vec<u64> = spans.iter().map(|((from, to), _)| to - from).collect();
        lengths.sort_unstable();
        let room = |share: f64| {
            let place = (lengths.len() as f64 * share) as usize;
            lengths.get(place.min(lengths.len().saturating_sub(1))).map_or(0.0, |length| self.quiet.room(*length))
        };
        let without_looks = |span, seconds: f64| (seconds - self.quiet.looking(span)).max(0.0) * self.quiet.pace(span);
        if room(0.99) >= ALIKE * room(0.5) {
            let kept = spans.iter().filter(|(span, _)| self.quiet.share(*span) >= 1.0);
            let kept: Vec<f64> = kept.map(|(span, seconds)| without_looks(*span, *seconds)).collect();
            if kept.len() >= ENOUGH {
                return kept;
            }
        }
        let weighed =
            |(span, seconds): &((u64, u64), f64)| without_looks(*span, *seconds) * self.weighed(self.quiet.calm(*span));
        spans.iter().map(weighed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{looks, of};
    use super::super::{Look, PERIOD};
    use crate::random::Random;

    /// Ends of what takes so many nanoseconds each, and longer by this factor where it is not quiet.
    fn ends(looks: &[Look], each: f64, longer: f64) -> (u64, Vec<u64>) {
        let (begun, end) = (looks[0].at, looks[looks.len() - 1].at);
        let (mut done, mut ends) = (0.0, Vec::new());
        for at in (begun..end).step_by(500) {
            let tick = usize::try_from((at - begun) / PERIOD).unwrap();
            // Somebody is there from the look before to the look behind.
            let loud = [tick, tick + 1]
                .iter()
                .any(|tick| looks.get(*tick).is_some_and(|look| look.took > look.usual * 11 / 10));
            done += 500.0 / if loud { each * longer } else { each };
            if done >= ends.len() as f64 + 1.0 {
                ends.push(at + 500);
            }
        }
        (begun, ends)
    }

    #[test]
    fn as_many_come_as_would_if_all_was_quiet() {
        for (rule, signs, each, longer) in [
            ("short ones", "......!!!........!.......!!!!!!......", 30e3, 1.4),
            ("long ones", "......!!!........!.......!!!!!!......", 2.7e6, 1.4),
            ("nothing takes longer", "......!!!........!.......!!!!!!......", 300e3, 1.0),
            ("nobody was there", ".....................................", 800e3, 1.0),
        ] {
            let looks = looks(&signs.repeat(8));
            let quiet = of(std::slice::from_ref(&looks));
            let (begun, ends) = ends(&looks, each, longer);
            let came = quiet.came(begun, &ends).unwrap();
            let found = came.part.seconds * 1e9 / came.count / each;
            let plain = (ends[ends.len() - 1] - begun) as f64 / ends.len() as f64 / each;
            assert!((found - 1.0).abs() < 0.01, "{rule}: {found}");
            assert!(longer == 1.0 || plain > 1.1, "{rule}: {plain}");
            let times = came.times(ends.windows(2).map(|pair| (pair[1], (pair[1] - pair[0]) as f64 * 1e-9)));
            let mean = times.iter().sum::<f64>() * 1e9 / times.len() as f64 / each;
            assert!((mean - 1.0).abs() < 0.02, "{rule}: {mean}");
        }
    }

    #[test]
    fn long_times_do_not_become_rarer() {
        let looks = looks(&"....................!!!!!".repeat(40));
        let quiet = of(std::slice::from_ref(&looks));
        let (begun, ends) = ends(&looks, 40e3, 1.4);
        let came = quiet.came(begun, &ends).unwrap();
        // One in ten takes twice as long as others.
        for (rule, each) in [("short", 1e-4), ("as long as it is quiet, and longer", 1e-2)] {
            let mut random = Random::new(7);
            let times = (0_u32..4_000).map(|number| {
                let span = (looks.len() as u64 - 100) * PERIOD / 4_000 * u64::from(number);
                (begun + 50 * PERIOD + span, if random.below(10) == 3 { 2.0 * each } else { each })
            });
            let times = came.times(times);
            let long = times.iter().filter(|time| **time > 1.5 * each).count() as f64 / times.len() as f64;
            assert!((0.08..0.12).contains(&long), "{rule}: {long}");
        }
    }

    #[test]
    fn of_what_was_never_quiet_nothing_came() {
        let quiet = of(&[looks("!!!!!!!!")]);
        assert!(quiet.came(0, &[PERIOD * 105]).is_none() && quiet.came(0, &[]).is_none());
    }
}
