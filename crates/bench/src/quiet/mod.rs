//! When nobody else computes on the cores of two processors.
//!
//! A host lends the other thread of a core to somebody else, for milliseconds or seconds, and what takes a second then takes up to a half longer;
//! nothing in the machine says so. So each processor is looked at every millisecond ([`Probes`]), and of steps and of runs counts what
//! lies between looks that found it as fast as it is when it has its core for itself. Looks are taken by the clock and know nothing of what steps
//! and runs come to. What counts is told in seconds of the usual clock.

mod came;
mod pace;
mod probe;
mod samples;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use came::{Came, LEAST};
pub use probe::{Probes, TRIES, quietest};
pub use samples::{Chosen, Samples, choose, without};

use crate::{Failed, files};
use pace::Pace;

/// Nanoseconds from one look to the next.
pub const PERIOD: u64 = 1_000_000;
/// A look that comes so many nanoseconds after its time says nothing: somebody else had the processor itself.
const LATE: u64 = 300_000;
/// Times as long as usual from which on a look found somebody else on the core.
const SLOW: f64 = 1.05;
/// The same where no more steps of a clock were needed than usual: it may be a fifth slower for a while.
const CLOCK: f64 = 1.3;
/// Bytes of a look in its file.
const BYTES: usize = 40;

/// One look at a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// When, nanoseconds of the monotonic clock.
    pub at: u64,
    /// Nanoseconds that the middle one of its loops took.
    pub took: u32,
    /// What the quickest looks of this processor took so far.
    pub usual: u32,
    /// How many steps of the clock it took, in parts of a thousand of a chain of operations that need each other, which nobody else on the core
    /// makes longer.
    pub steps: u32,
    /// Those of the looks with the fewest so far.
    pub fewest: u32,
    /// How fast the clock was, in millionths of the usual one.
    pub pace: u32,
    /// Nanoseconds of processor time that those have used who are watched on it.
    pub used: u64,
    /// Nanoseconds from then until it was done, but for writing it down.
    pub lasted: u32,
}

impl Look {
    fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&self.at.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.took.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.usual.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.steps.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.fewest.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.used.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.lasted.to_le_bytes());
        bytes[36..].copy_from_slice(&self.pace.to_le_bytes());
        bytes
    }

    fn of(bytes: &[u8; BYTES]) -> Self {
        let four = |from: usize| u32::from_le_bytes([bytes[from], bytes[from + 1], bytes[from + 2], bytes[from + 3]]);
        let eight = |from: usize| u64::from(four(from)) | u64::from(four(from + 4)) << 32;
        let (took, usual, steps, fewest) = (four(8), four(12), four(16), four(20));
        Self { at: eight(0), took, usual, steps, fewest, pace: four(36), used: eight(24), lasted: four(32) }
    }

    const fn tick(&self) -> u64 {
        self.at / PERIOD
    }

    fn is_quiet(&self) -> bool {
        let within = |found: u32, times: f64, usual: u32| f64::from(found) <= times * f64::from(usual);
        let slower_clock = || within(self.took, CLOCK, self.usual) && within(self.steps, SLOW, self.fewest);
        self.at % PERIOD <= LATE && (within(self.took, SLOW, self.usual) || slower_clock())
    }
}

/// Where looks are written, for the programs that steps and runs consist of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Looks {
    /// The folder of their files.
    pub folder: PathBuf,
    /// The processors whose looks count.
    pub processors: Vec<usize>,
    /// The only one of these on which somebody works who is timed, if it is so.
    pub works: Option<usize>,
    /// For how long a look stops whoever computes.
    pub around: Around,
}

/// Nanoseconds for which whoever computes is stopped by a look before it begins and after it is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Around {
    /// Before.
    pub before: u64,
    /// After.
    pub after: u64,
    /// Of all of it, what the kernel accounts to who is stopped: most of what it does itself.
    pub accounted: u64,
}

impl Around {
    /// From when to when somebody is stopped by this look.
    fn stopped(self, look: &Look) -> (u64, u64) {
        (look.at.saturating_sub(self.before), look.at + u64::from(look.lasted).min(LATE) + self.after)
    }

    /// The same of all looks at a processor.
    fn all_stopped(self, looks: &[Look]) -> Vec<(u64, u64)> {
        let mut stopped: Vec<(u64, u64)> = looks.iter().map(|look| self.stopped(look)).collect();
        stopped.dedup_by(|next, last| {
            let meet = next.0 <= last.1;
            if meet {
                last.1 = last.1.max(next.1);
            }
            meet
        });
        stopped
    }
}

impl Looks {
    /// Those at one of the processors.
    #[must_use]
    pub fn only(&self, processor: usize) -> Self {
        Self { processors: vec![processor], ..self.clone() }
    }

    /// Those at all of them, for somebody who works on this one.
    #[must_use]
    pub fn working(&self, processor: usize) -> Self {
        Self { works: Some(processor), ..self.clone() }
    }

    fn file(&self, processor: usize) -> PathBuf {
        self.folder.join(format!("looks-{processor}"))
    }

    /// What they found since they were begun anew.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(&self) -> Result<Quiet, Failed> {
        let looks = self.processors.iter().map(|processor| self.at(*processor)).collect::<Result<Vec<_>, _>>()?;
        let quiet = Quiet::of(&looks, self.around);
        let works = self.works.and_then(|works| self.processors.iter().position(|processor| *processor == works));
        Ok(match works {
            Some(place) => quiet.at(place),
            None => quiet,
        })
    }

    /// The looks at a processor.
    fn at(&self, processor: usize) -> Result<Vec<Look>, Failed> {
        let bytes = files::read(&self.file(processor))?;
        Ok(bytes.as_chunks().0.iter().map(Look::of).collect())
    }
}

/// What lies between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Window {
    /// By the looks at the first processor.
    from: u64,
    to: u64,
    /// Processor time of who is watched on the first two processors, nanoseconds, by the looks at each.
    used: [u64; 2],
}

/// The times in which nobody else computed on any of the processors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quiet {
    windows: Vec<Window>,
    /// Those that follow each other at once, together.
    stretches: Vec<(u64, u64)>,
    /// The same of all windows with quiet looks at both ends, whatever the looks before and after found: mostly nobody computed in these, either.
    calm: Vec<(u64, u64)>,
    /// When looks stopped whoever computed on each of the processors.
    looks: Vec<Vec<(u64, u64)>>,
    /// What of each is accounted to who is stopped, nanoseconds.
    accounted: u64,
    pace: Pace,
}

/// How much was quiet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Part {
    /// Seconds of whole windows.
    pub seconds: f64,
    /// The same of the usual clock.
    pub usual: f64,
    /// Seconds of processor time of who was watched on each processor, by the usual clock.
    pub used: [f64; 2],
}

impl Quiet {
    /// Of the looks at each processor, in their order. A window counts if the looks at both of its ends found all processors quiet, and those before
    /// and after them: what begins or ends between two looks is seen by one of them only.
    pub(crate) fn of(looks: &[Vec<Look>], around: Around) -> Self {
        let first = looks.iter().filter_map(|looks| looks.first()).map(Look::tick).max();
        let last = looks.iter().filter_map(|looks| looks.last()).map(Look::tick).min();
        let (Some(first), Some(last)) = (first, last) else { return Self::default() };
        let mut at = vec![0; looks.len()];
        let mut next = |tick: u64| {
            let mut quiet = Vec::with_capacity(looks.len());
            for (looks, at) in looks.iter().zip(&mut at) {
                *at += looks[*at..].iter().take_while(|look| look.tick() < tick).count();
                quiet.extend(looks.get(*at).filter(|look| look.tick() == tick && look.is_quiet()));
            }
            (quiet.len() == looks.len()).then_some(quiet)
        };
        let mut quiet = Self {
            looks: looks.iter().map(|looks| around.all_stopped(looks)).collect(),
            accounted: around.accounted,
            pace: Pace::of(looks),
            ..Self::default()
        };
        // The looks at the last four ticks.
        let mut row: [Option<Vec<Look>>; 4] = Default::default();
        for tick in first..=last {
            row.rotate_left(1);
            row[3] = next(tick);
            if let [before, Some(from), Some(to), after] = &row {
                lengthen(&mut quiet.calm, (from[0].at, to[0].at));
                if before.is_some() && after.is_some() {
                    quiet.add(from, to);
                }
            }
        }
        quiet
    }

    fn add(&mut self, from: &[Look], to: &[Look]) {
        let mut window = Window { from: from[0].at, to: to[0].at, used: [0; 2] };
        for (used, (from, to)) in window.used.iter_mut().zip(from.iter().zip(to)) {
            *used = to.used.saturating_sub(from.used);
        }
        self.push(window);
    }

    fn push(&mut self, window: Window) {
        lengthen(&mut self.stretches, (window.from, window.to));
        self.windows.push(window);
    }

    /// The share of a span, in nanoseconds of the monotonic clock, that was quiet.
    #[must_use]
    pub fn share(&self, span: (u64, u64)) -> f64 {
        share(&self.stretches, span)
    }

    /// The share of a span in which mostly nobody else computed.
    fn calm(&self, span: (u64, u64)) -> f64 {
        share(&self.calm, span)
    }

    /// The same times, of somebody who computes on this one of the processors alone, by its place among them.
    #[must_use]
    pub fn at(mut self, place: usize) -> Self {
        self.looks = self.looks.into_iter().nth(place).into_iter().collect();
        self
    }

    /// Seconds of a span in which looks stopped whoever computed, quiet or not: in the mean of the processors. They are looked at for the same tick,
    /// some microseconds apart, and stop only who works at that moment.
    #[must_use]
    pub fn looking(&self, (from, to): (u64, u64)) -> f64 {
        let stopped = |looks: &Vec<(u64, u64)>| {
            let begin = looks.partition_point(|look| look.1 <= from);
            let within = looks[begin..].iter().take_while(|look| look.0 < to);
            seconds(within.map(|look| look.1.min(to) - look.0.max(from)).sum())
        };
        self.looks.iter().map(stopped).sum::<f64>() / self.looks.len().max(1) as f64
    }

    /// Seconds that ended then, without those of looks.
    #[must_use]
    pub fn but_looks(&self, end: u64, seconds: f64) -> f64 {
        (seconds - self.looking((end.saturating_sub((seconds * 1e9) as u64), end))).max(0.0)
    }

    /// The share of the quiet time at which something of so many nanoseconds could begin and be quiet to its end.
    fn room(&self, length: u64) -> f64 {
        let all: u64 = self.stretches.iter().map(|stretch| stretch.1 - stretch.0).sum();
        let room: u64 = self.stretches.iter().map(|stretch| (stretch.1 - stretch.0).saturating_sub(length)).sum();
        room as f64 / all.max(1) as f64
    }

    /// The windows that lie within a span, and nothing else.
    #[must_use]
    pub fn within(&self, (from, to): (u64, u64)) -> Self {
        let mut quiet = Self { windows: Vec::new(), stretches: Vec::new(), ..self.clone() };
        let begin = self.windows.partition_point(|window| window.from < from);
        self.windows[begin..].iter().take_while(|window| window.to <= to).for_each(|window| quiet.push(*window));
        quiet
    }

    /// Seconds of all windows in which looks stopped whoever computed.
    fn stopped(&self) -> f64 {
        self.stretches.iter().map(|stretch| self.looking(*stretch)).sum()
    }

    /// Seconds that the kernel accounted to somebody, without what of looks it did: these stop them as often as they compute.
    #[must_use]
    pub fn own(&self, accounted: f64) -> f64 {
        accounted * (1.0 - self.accounted as f64 / PERIOD as f64).max(0.0)
    }

    /// Times as fast as usual that the clock was in a span: what a time in it is multiplied by, to be one of the usual clock.
    #[must_use]
    pub fn pace(&self, span: (u64, u64)) -> f64 {
        self.pace.mean(span)
    }

    /// All windows together.
    #[must_use]
    pub fn part(&self) -> Part {
        let mut part = Part::default();
        for window in &self.windows {
            let (lasts, pace) = (seconds(window.to - window.from), self.pace((window.from, window.to)));
            part.seconds += lasts;
            part.usual += lasts * pace;
            for (all, used) in part.used.iter_mut().zip(window.used) {
                *all += self.own(seconds(used)) * pace;
            }
        }
        part
    }
}

/// As [`Quiet::own`] where somebody looked.
#[must_use]
pub fn own(quiet: Option<&Quiet>, accounted: f64) -> f64 {
    quiet.map_or(accounted, |quiet| quiet.own(accounted))
}

/// With another stretch behind them.
fn lengthen(stretches: &mut Vec<(u64, u64)>, (from, to): (u64, u64)) {
    match stretches.last_mut() {
        Some(last) if last.1 == from => last.1 = to,
        _ => stretches.push((from, to)),
    }
}

/// The share of a span that lies in stretches; of a moment all or nothing.
fn share(stretches: &[(u64, u64)], (from, to): (u64, u64)) -> f64 {
    let begin = stretches.partition_point(|stretch| stretch.1 <= from);
    let within = stretches[begin..].iter().take_while(|stretch| stretch.0 < to.max(from + 1));
    let part: u64 = within.map(|stretch| stretch.1.min(to.max(from + 1)) - stretch.0.max(from)).sum();
    part as f64 / to.saturating_sub(from).max(1) as f64
}

/// What is said of the share of the time of runs that counts.
#[must_use]
pub fn said(share: f64) -> String {
    format!(
        "{:.0} % of the time of runs counts: by looks at the cores nobody else computed on them in it",
        share * 100.0
    )
}

/// What is said where nobody looked.
#[must_use]
pub fn unlooked(why: &str) -> String {
    format!("all of the time of steps and runs counts, also while others compute on the cores: {why}")
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 * 1e-9
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Looks one tick after the other: `.` a quiet one, `!` one that found somebody, `-` one with a slower clock, `#` one where it is slower by far, `~`
    /// one that came late, a blank where there was none. Who is watched works a quarter of the time.
    pub(crate) fn looks(of: &str) -> Vec<Look> {
        let look = |(tick, sign): (u64, char)| {
            let at = PERIOD * (100 + tick) + if sign == '~' { LATE + 1 } else { 20_000 };
            let (took, steps, pace) = match sign {
                '!' => (800, 1_700, pace::USUAL),
                '-' => (800, 1_520, 900_000),
                '#' => (950, 1_500, 700_000),
                _ => (720, 1_600, pace::USUAL),
            };
            let usual = Look { at, took, usual: 700, steps, fewest: 1_500, pace, used: at / 4, lasted: 0 };
            (sign != ' ').then_some(usual)
        };
        (0..).zip(of.chars()).filter_map(look).collect()
    }

    /// Of looks that stop nobody.
    pub(super) fn of(looks: &[Vec<Look>]) -> Quiet {
        Quiet::of(looks, Around::default())
    }

    fn windows(quiet: &Quiet) -> Vec<u64> {
        quiet.windows.iter().map(|window| window.from / PERIOD - 100).collect()
    }

    #[test]
    fn what_counts_lies_between_looks_that_found_all_processors_quiet() {
        for (rule, one, other, wanted) in [
            ("all of it but its ends", "......", "......", &[1, 2, 3][..]),
            ("one was not", "...!.......", "...........", &[5, 6, 7, 8]),
            ("the other was not", "...........", ".....!.....", &[1, 2, 7, 8]),
            ("one was late", "...........", ".....~.....", &[1, 2, 7, 8]),
            ("the clock was slower", "....--.....", ".....-.....", &[1, 2, 3, 4, 5, 6, 7, 8]),
            ("much slower", "...........", ".....#.....", &[1, 2, 7, 8]),
            ("one is missing", "..... .....", "...........", &[1, 2, 7, 8]),
            ("one began later", "   ........", "...........", &[4, 5, 6, 7, 8]),
            ("too short", "...", "...", &[]),
            ("nobody looked", "", "......", &[]),
        ] {
            assert_eq!(windows(&of(&[looks(one), looks(other)])), wanted, "{rule}");
        }
        assert_eq!(windows(&of(&[looks("......")])), [1, 2, 3], "one processor");
        assert_eq!(of(&[]), Quiet::default());
    }

    #[test]
    fn of_spans_counts_what_was_quiet() {
        let quiet = of(&[looks("......!......"), looks(".............")]);
        assert_eq!(windows(&quiet), [1, 2, 3, 8, 9, 10]);
        assert_eq!(quiet.stretches.len(), 2);
        let at = |tick: u64| PERIOD * (100 + tick) + 20_000;
        for (rule, from, to, share) in [
            ("within one", at(1), at(3), 1.0),
            ("from one to the other", at(3), at(9), 2.0 / 6.0),
            ("none", at(5), at(7), 0.0),
            ("half of a window", at(4) - PERIOD / 2, at(4) + PERIOD / 2, 0.5),
            ("before all", 0, 10, 0.0),
            ("a moment", at(2), at(2), 1.0),
            ("a moment between them", at(6), at(6), 0.0),
        ] {
            assert!((quiet.share((from, to)) - share).abs() < 1e-12, "{rule}: {}", quiet.share((from, to)));
        }
        let within = quiet.within((at(1) + 1, at(10)));
        assert_eq!(windows(&within), [2, 3, 8, 9], "whole ones");
        let part = within.part();
        assert!((part.seconds - 4e-3).abs() < 1e-12 && (part.used[0] - 1e-3).abs() < 1e-9, "{part:?}");
        assert_eq!(quiet.within((at(5), at(7))).part(), Part::default());
        let slow = of(&[looks("--------")]).part();
        assert!((slow.usual - 0.9 * slow.seconds).abs() < 1e-12, "{slow:?}");
        assert!((slow.used[0] - 0.25 * slow.usual).abs() < 1e-9, "{slow:?}");
    }

    #[test]
    fn looks_stop_whoever_computes() {
        let mut looks = looks("......!.....");
        looks.iter_mut().for_each(|look| look.lasted = 5_000);
        let quiet = Quiet::of(&[looks], Around { before: 1_000, after: 2_000, accounted: 4_000 });
        let at = |tick: u64| PERIOD * (100 + tick) + 20_000;
        for (rule, from, to, nanoseconds) in [
            ("two and a half", at(1) - 30_000, at(3) + 3_000, 20_000.0),
            ("between two", at(1) + 7_000, at(2) - 1_000, 0.0),
            ("the last part of one", at(1) + 5_000, at(2) - 1_000, 2_000.0),
            ("a part of one", at(1) + 1_000, at(1) + 3_000, 2_000.0),
            ("one that was not quiet", at(6) - 10_000, at(6) + 10_000, 8_000.0),
            ("none", 0, 10, 0.0),
        ] {
            assert!((quiet.looking((from, to)) - nanoseconds * 1e-9).abs() < 1e-12, "{rule}");
        }
        // Five windows of two stretches: of each look that one begins with what is after it, and of that which one ends with what is before it.
        assert!((quiet.stopped() - 5.0 * 8e-6).abs() < 1e-12, "{}", quiet.stopped());
        // Who is watched is accounted a quarter of the time, and in that a quarter of what looks are accounted to somebody.
        let used = quiet.part().used[0];
        assert!((used - 5.0 * 0.25 * (1e-3 - 4e-6)).abs() < 1e-9, "{used}");
    }

    #[test]
    fn of_several_processors_each_look_stops_one() {
        let of = |lasted: u32, later: u64| {
            let mut looks = looks("......");
            looks.iter_mut().for_each(|look| (look.lasted, look.at) = (lasted, look.at + later));
            looks
        };
        let around = Around { before: 1_000, after: 2_000, accounted: 0 };
        let at = PERIOD * 102 + 20_000;
        for (rule, looks, both, first) in [
            ("one", vec![of(5_000, 0)], 8_000.0, 8_000.0),
            ("both alike", vec![of(5_000, 0), of(5_000, 0)], 8_000.0, 8_000.0),
            ("the other longer, and later", vec![of(5_000, 0), of(9_000, 1_000)], 10_000.0, 8_000.0),
            ("the other after it", vec![of(5_000, 0), of(5_000, 100_000)], 8_000.0, 8_000.0),
            ("stopped by the host itself", vec![of(5_000_000, 0)], 303_000.0, 303_000.0),
        ] {
            let (quiet, span) = (Quiet::of(&looks, around), (at - 10_000, at + PERIOD - 10_000));
            let found = [quiet.looking(span), quiet.at(0).looking(span)];
            let wanted = [both, first].map(|nanoseconds| nanoseconds * 1e-9);
            assert!(found.iter().zip(wanted).all(|(it, wanted)| (it - wanted).abs() < 1e-12), "{rule}: {found:?}");
        }
    }

    #[test]
    fn long_ones_find_less_room() {
        let quiet = of(&[looks("......!......"), looks(".............")]);
        let room = |millis: u64| quiet.room(millis * PERIOD);
        assert_eq!((room(0), room(1), room(3)), (1.0, 4.0 / 6.0, 0.0));
    }

    #[test]
    fn a_look_is_the_same_in_its_file() {
        let look = Look {
            at: u64::MAX - 5,
            took: 7,
            usual: u32::MAX,
            steps: 3,
            fewest: 1 << 20,
            pace: 11,
            used: 1 << 40,
            lasted: 9,
        };
        assert_eq!(Look::of(&look.to_bytes()), look);
    }
}
