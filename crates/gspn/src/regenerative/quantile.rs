//! The time by which a condition has held with some probability.

use super::cascade::{Cascade, Reward};
use super::{BY_CASCADE, ENOUGH, Entered, ROUNDED, Said, Solver};
use crate::ask::Condition;
use crate::chain;
use crate::{Budget, Class, Progress, Refusal};

/// How often the time that is looked at is doubled, and the one that is sought halved.
const DOUBLED: usize = 200;
const HALVED: u64 = 1_100;
/// What the time may be off, relatively, that is said, and what a probability may be rounded by, as those of immediates are.
const RIGHT: f64 = 1e-4;
const ROUNDING: f64 = 1e-12;
/// How close to a probability one must be that is taken for it.
const EVEN: f64 = 1e-9;

impl Solver<'_> {
    /// The time by which `condition` has held with probability `level`.
    pub(super) fn quantile(
        &mut self,
        condition: &Condition,
        level: f64,
        budget: &mut Budget<'_>,
    ) -> Result<Said, Refusal> {
        let goal = self.solution.holds(condition);
        if chain::there(self.system.initial, &goal, level) {
            return Ok(Said::Known { value: 0.0, error: 0.0, method: BY_CASCADE });
        }
        let Some(Entered { system, courses, reached }) = self.entered(&goal, budget)? else { return Ok(Said::Nothing) };
        if reached.probability <= level && !reached.certain {
            let why = format!("it is ever reached with probability {} only", reached.probability);
            return Ok(Said::Refused(Refusal::new(Class::Unsupported, "", why)));
        }
        // Whichever is the smaller one: the probability to be there, or not yet.
        let later = level > 0.5 && reached.certain;
        let states = goal.iter().map(|goal| if *goal != later { 1.0 } else { 0.0 }).collect();
        let reward = [Reward { states, ends: vec![0.0; goal.len()] }];
        let wanted = if later { 1.0 - level } else { level };
        // What is rare is there long before the mean time; what is there with a probability below 1 may be sooner by far.
        let (mut until, mut late) = (reached.mean * level.min(0.5), f64::INFINITY);
        for _ in 0..DOUBLED {
            if !until.is_normal() || until >= late || self.effort > ENOUGH {
                break;
            }
            let Some(cascade) = Cascade::new(&system, &courses.all, &reward, until, budget)? else {
                late = until;
                until /= 4.0;
                continue;
            };
            self.effort += cascade.work;
            // How much is missing at a time, and how far that may be off.
            let missing = |time: f64| {
                let (value, off) = cascade.behind(0, time);
                (if later { value - wanted } else { wanted - value }, off + (ROUNDING + courses.off) * wanted)
            };
            let (left, off) = missing(until);
            if left + off < 0.0 {
                return sought(until, missing, wanted, ROUNDED + courses.off, budget);
            }
            until *= 2.0;
        }
        Ok(Said::Nothing)
    }
}

/// The time before `until` at which nothing is missing any more of what is `wanted`.
fn sought(
    until: f64,
    missing: impl Fn(f64) -> (f64, f64),
    wanted: f64,
    error: f64,
    budget: &mut Budget<'_>,
) -> Result<Said, Refusal> {
    let mut first = |side: f64| {
        let (mut low, mut high) = (0.0, until);
        for step in 0..HALVED {
            budget.look(Progress::Solving { sweeps: step, error: high - low })?;
            let middle = low + 0.5 * (high - low);
            let (left, off) = missing(middle);
            if left + side * off > 0.0 {
                low = middle
            } else {
                high = middle
            }
            if high - low <= 1e-14 * high {
                return Ok(Some((low, high)));
            }
        }
        Ok(None)
    };
    let (Some((before, early)), Some((_, late))) = (first(-1.0)?, first(1.0)?) else { return Ok(Said::Nothing) };
    let wide = (late - early) / early;
    if wide <= RIGHT {
        return Ok(Said::Known { value: early + 0.5 * (late - early), error: wide + error, method: BY_CASCADE });
    }
    // A step may end at just this probability; then nothing is missing behind it.
    let (left, off) = missing(before);
    if left > 100.0 * off && off <= EVEN * wanted {
        return Ok(Said::Known { value: early, error, method: BY_CASCADE });
    }
    Ok(Said::Nothing)
}
