//! Timings, each with when it was taken.

use super::Quiet;
use crate::clock::Timing;

/// A timing below so many nanoseconds is short: it lies between two looks, or has one in it.
pub(super) const SHORT: u64 = super::PERIOD / 2;
/// Quiet timings that are enough.
const ENOUGH: usize = 16;
/// Where most timings take longer, nanoseconds, hardly one is quiet, and those that are would be the short ones.
const LONGEST: u64 = 20 * super::PERIOD;
/// Long timings that are enough, and the part of them that counts where fewer were quiet from beginning to end.
const FEW: usize = 6;
/// The share of these that was quiet at least.
const HALF: f64 = 0.5;
const OF_LONG: usize = 4;

/// Timings in the order in which they were taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    spans: Vec<(u64, u64)>,
    values: Vec<f64>,
    /// What of each span is no part of the value.
    apart: Vec<(u64, u64)>,
    /// They are no times, but parts of some.
    parts: bool,
}

impl Samples {
    /// One more.
    pub fn push(&mut self, Timing { end, seconds }: Timing) {
        // A time on the clock is below the clock's.
        self.without((end.saturating_sub((seconds.max(0.0) * 1e9) as u64), end), (end, end), seconds);
    }

    /// One of this span, in nanoseconds of the monotonic clock, without a part of it.
    pub fn without(&mut self, span: (u64, u64), part: (u64, u64), seconds: f64) {
        self.spans.push(span);
        self.apart.push(part);
        self.values.push(seconds);
    }

    /// None yet, and those that come are no times: a slower clock does not make them more.
    #[must_use]
    pub fn of_parts() -> Self {
        Self { parts: true, ..Self::default() }
    }

    /// A value that is of this span, and no time on the clock.
    pub fn add(&mut self, span: (u64, u64), value: f64) {
        self.without(span, span, value);
    }

    /// How many.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Without the first ones.
    pub fn skip(&mut self, count: usize) {
        self.spans.drain(..count.min(self.len()));
        self.apart.drain(..count.min(self.len()));
        self.values.drain(..count.min(self.len()));
    }

    /// Without those that a look is in.
    pub fn leave_looks_out(&mut self, quiet: &Quiet) {
        let all = std::mem::replace(self, Self { parts: self.parts, ..Self::default() });
        for ((span, apart), value) in all.spans.into_iter().zip(all.apart).zip(all.values) {
            if quiet.looking(span) <= 0.0 {
                self.without(span, apart, value);
            }
        }
    }

    /// Those that count (see [`choose`]), without the looks in them, by the usual clock. Short ones stand there again and again until they are as many as there were, so that long ones are as rare.
    #[must_use]
    pub fn counting(&self, quiet: Option<&Quiet>) -> Vec<f64> {
        let mut values = self.without_looks(quiet);
        let Some(quiet) = quiet else { return values };
        if !self.parts {
            values.iter_mut().zip(&self.spans).for_each(|(value, span)| *value *= quiet.pace(*span));
        }
        let Chosen { usual, of, long } = choose(&self.spans, quiet);
        usual.iter().cycle().take(of).chain(&long).filter_map(|place| values.get(*place).copied()).collect()
    }

    /// All of them, without the looks in them, each with the share of its span that was quiet; all of it where nobody looked.
    #[must_use]
    pub fn with_shares(&self, quiet: Option<&Quiet>) -> Vec<(f64, f64)> {
        let share = |span: &(u64, u64)| quiet.map_or(1.0, |quiet| quiet.share(*span));
        self.without_looks(quiet).into_iter().zip(self.spans.iter().map(share)).collect()
    }

    /// All of them, without the looks in them, as they were.
    #[must_use]
    pub fn without_looks(&self, quiet: Option<&Quiet>) -> Vec<f64> {
        let Some(quiet) = quiet else { return self.values.clone() };
        let looking = |(span, apart): (&(u64, u64), &(u64, u64))| quiet.looking(*span) - quiet.looking(*apart);
        let looking: Vec<f64> = self.spans.iter().zip(&self.apart).map(looking).collect();
        without(&self.values, &looking)
    }
}

/// Values, each without so many seconds of looks. Not all looks stop somebody for equally long: none becomes less than the least of those without any, for what is the
/// least says how the others are spread.
pub fn without(values: &[f64], looking: &[f64]) -> Vec<f64> {
    let both = || values.iter().zip(looking);
    let least = both().filter(|(_, looking)| **looking <= 0.0).map(|(value, _)| *value).reduce(f64::min).unwrap_or(0.0);
    let of = |(value, looking): (&f64, &f64)| match *looking {
        looking if looking > 0.0 => (value - looking).max(least.min(*value)),
        _ => *value,
    };
    both().map(of).collect()
}

/// Timings that count, by their places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// Those that were quiet, of all that are not long.
    pub usual: Vec<usize>,
    /// How many of these there were; as many as stand there where nothing was long.
    pub of: usize,
    /// All long ones.
    pub long: Vec<usize>,
}

impl Chosen {
    /// Their places in order, each once: of long ones as large a part as of the others.
    #[must_use]
    pub fn once(self) -> Vec<usize> {
        let Self { usual, of, long } = self;
        let count = (long.len() * usual.len() + of / 2) / of.max(1);
        let mut places: Vec<usize> = (0..count).map(|nth| long[nth * long.len() / count]).chain(usual).collect();
        places.sort_unstable();
        places
    }
}

/// Which of timings with these spans count. Where they are short, by the one in the middle, those that were quiet, if there are enough, and of those that took
/// twice as long, and longer than short ones do, all: they meet somebody more easily, and would be too rare. Where they are not short, those that were quiet
/// from beginning to end, or where these are too few the quietest quarter; all of those that take very long. All where too few were quiet.
#[must_use]
pub fn choose(spans: &[(u64, u64)], quiet: &Quiet) -> Chosen {
    let length = |place: usize| spans[place].1 - spans[place].0;
    let share = |place: &usize| quiet.share(spans[*place]);
    let mut lengths: Vec<u64> = (0..spans.len()).map(length).collect();
    lengths.sort_unstable();
    let middle = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
    let all = || Chosen { usual: (0..spans.len()).collect(), of: spans.len(), long: Vec::new() };
    if middle < SHORT {
        let (usual, long): (Vec<usize>, Vec<usize>) =
            (0..spans.len()).partition(|place| length(*place) <= SHORT.max(2 * middle));
        let of = usual.len();
        let usual: Vec<usize> = usual.into_iter().filter(|place| share(place) >= 1.0).collect();
        return if usual.len() < ENOUGH { all() } else { Chosen { usual, of, long } };
    }
    if middle > LONGEST {
        return all();
    }
    let mut usual: Vec<usize> = (0..spans.len()).collect();
    usual.sort_by(|one, other| share(other).total_cmp(&share(one)));
    let whole = usual.iter().take_while(|place| share(place) >= 1.0).count();
    usual.truncate(if whole >= FEW { whole } else { usual.len().div_ceil(OF_LONG).max(FEW) });
    if usual.last().is_none_or(|place| share(place) < HALF) {
        return all();
    }
    Chosen { of: usual.len(), usual, long: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{looks, of};
    use super::super::{Around, PERIOD};
    use super::*;

    /// Nanoseconds of the clock at a look.
    fn at(tick: u64) -> u64 {
        PERIOD * (100 + tick) + 20_000
    }

    #[test]
    fn short_ones_count_where_it_was_quiet_and_long_ones_do_not_become_rarer() {
        // Of thirty milliseconds, eleven are quiet.
        let quiet = of(&[looks("..............!.!.!.!.!.!.!.!.!.!.!.!")]);
        let mut samples = Samples::default();
        for tick in 0..30 {
            let loud = if tick < 12 { 1.0 } else { 2.0 };
            for part in 1..=4 {
                samples.push(Timing { end: at(tick) + part * PERIOD / 5, seconds: 20e-6 * loud });
            }
            if tick % 3 == 2 {
                samples.add((at(tick), at(tick + 1)), 1e-3);
            }
        }
        assert_eq!(samples.len(), 130);
        let counting = samples.counting(Some(&quiet));
        let (short, long): (Vec<f64>, Vec<f64>) = counting.iter().partition(|time| **time < 0.5e-3);
        assert!(short.len() == 120 && short.iter().all(|time| *time == 20e-6), "{short:?}");
        assert_eq!(long.len(), 10);
        assert_eq!(samples.counting(None).len(), samples.len(), "nobody looked");
        assert_eq!(samples.counting(Some(&Quiet::default())), samples.counting(None), "it was never quiet");
    }

    #[test]
    fn times_are_told_without_looks() {
        let mut looks = looks(&".".repeat(60));
        looks.iter_mut().for_each(|look| look.lasted = 8_000);
        let quiet = Quiet::of(&[looks], Around::default());
        let [mut short, mut long, mut parts, mut values, mut hardly] = <[Samples; 5]>::default();
        for tick in 2..50 {
            short.push(Timing { end: at(tick) + 50_000, seconds: 20e-6 });
            short.push(Timing { end: at(tick) + 10_000, seconds: 28e-6 });
            long.push(Timing { end: at(tick), seconds: 3e-3 });
            parts.without((at(tick) - 10_000, at(tick) + 90_000), (at(tick) - 5_000, at(tick) + 40_000), 55e-6);
            values.add((at(tick), at(tick + 3)), 3e-3);
            hardly.push(Timing { end: at(tick) + 50_000, seconds: 20e-6 });
            hardly.push(Timing { end: at(tick) + 10_000, seconds: 22e-6 });
        }
        let mut others = short.clone();
        others.leave_looks_out(&quiet);
        assert_eq!((short.len(), others.len()), (96, 48));
        for (rule, samples, wanted) in [
            ("short ones", short, 20e-6),
            ("long ones, with some of them", long, 3e-3 - 3.0 * 8e-6),
            ("what was in a part that does not count", parts, 55e-6),
            ("something else than times", values, 3e-3),
            ("one that a look hardly stopped", hardly, 20e-6),
        ] {
            let found = samples.counting(Some(&quiet));
            assert!(found.len() >= 40 && found.iter().all(|it| (it - wanted).abs() < 1e-9), "{rule}: {found:?}");
        }
    }

    /// What takes a little less than what is long takes a little more beside somebody else.
    #[test]
    fn how_long_one_took_does_not_say_whether_it_counts() {
        let quiet = of(&[looks(&"..........!!!!!".repeat(40))]);
        for each in [0.3e-3, 0.45e-3, 0.49e-3, 0.51e-3, 0.7e-3, 1.5e-3] {
            let (mut samples, mut now) = (Samples::default(), at(0));
            while now < at(590) {
                let loud = quiet.calm((now, now + 1)) < 1.0;
                let time = if loud { 1.4 * each } else { each };
                let end = now + (time * 1e9) as u64;
                samples.add((now, end), time);
                now = end;
            }
            let counting = samples.counting(Some(&quiet));
            let mean = counting.iter().sum::<f64>() / counting.len() as f64;
            let all = samples.counting(None).iter().sum::<f64>() / samples.len() as f64;
            assert!((mean / each - 1.0).abs() < 0.01 && all / each > 1.08, "{each}: {mean} {all}");
            let once = choose(&samples.spans, &quiet).once();
            assert!(once.len() < samples.len() && once.windows(2).all(|pair| pair[0] < pair[1]), "{each}");
        }
    }

    #[test]
    fn of_long_ones_count_those_that_were_quiet_or_the_quietest() {
        let quiet = of(&[looks(&".".repeat(40)), looks(&format!("{}!{}", ".".repeat(30), ".".repeat(9)))]);
        let mut samples = Samples::default();
        for part in 0..32 {
            samples.add((at(part), at(part + 1)), f64::from(u32::try_from(part).unwrap()));
        }
        let of = |range: std::ops::Range<u32>| range.map(f64::from).collect::<Vec<_>>();
        assert_eq!(samples.counting(Some(&quiet)), of(1..28));
        assert_eq!(samples.counting(Some(&Quiet::default())), samples.counting(None), "it was never quiet");
        samples.skip(20);
        assert_eq!((samples.len(), samples.is_empty()), (12, false));
        assert_eq!(samples.counting(Some(&quiet)), of(20..28), "they are enough");
        samples.skip(4);
        assert_eq!(samples.counting(Some(&quiet)), samples.counting(None), "too few of the quietest are half quiet");
        samples.skip(5);
        assert_eq!(samples.counting(Some(&quiet)).len(), 3, "there are no more");
        assert!(Samples::default().counting(Some(&quiet)).is_empty());
        for part in 0..9 {
            samples.add((at(0), at(21 + part)), 1.0);
        }
        assert_eq!(samples.counting(Some(&quiet)), samples.counting(None), "keys are found now soon, now late");
    }
}
