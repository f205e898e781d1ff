//! The time by which a condition has held with some probability.

use super::cascade::{Cascade, Reward};
use super::course::courses;
use super::embedded::Embedded;
use super::{BY_CASCADE, ENOUGH, ROUNDED, Said, Solver};
use crate::ask::Condition;
use crate::chain;
use crate::{Budget, Class, Refusal};

/// How often the time that is looked at is doubled, and the one that is sought halved.
const DOUBLED: usize = 200;
const HALVED: usize = 200;
/// What the time may be off, relatively, that is said, and what a probability may be rounded by, as those of immediates are.
const RIGHT: f64 = 1e-4;
const ROUNDING: f64 = 1e-12;

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
        let system = self.system.ending(&goal);
        let starts = system.regenerations();
        let Some(courses) = courses(&system, &starts, budget)? else { return Ok(Said::Nothing) };
        self.effort += courses.work;
        let Some(embedded) = Embedded::new(&system, &starts, &courses.all, budget) else { return Ok(Said::Nothing) };
        let reached = embedded.passage(&goal, budget)?;
        if reached.probability <= level && !reached.certain {
            let why = format!("it is ever reached with probability {} only", reached.probability);
            return Ok(Said::Refused(Refusal::new(Class::Unsupported, "", why)));
        }
        // Whichever is the smaller one: the probability to be there, or not yet.
        let later = level > 0.5 && reached.certain;
        let states = goal.iter().map(|goal| if *goal != later { 1.0 } else { 0.0 }).collect();
        let reward = [Reward { states, ends: vec![0.0; goal.len()] }];
        let wanted = if later { 1.0 - level } else { level };
        // What is rare is there long before the mean time.
        let mut until = reached.mean * level.min(0.5);
        for _ in 0..DOUBLED {
            if !until.is_normal() {
                break;
            }
            let Some(cascade) = Cascade::new(&system, &courses.all, &reward, until, budget)? else { break };
            self.effort += cascade.work;
            if self.effort > ENOUGH {
                break;
            }
            // How much is missing at a time, and how far that may be off.
            let missing = |time: f64| {
                let (value, off) = cascade.behind(0, time);
                (if later { value - wanted } else { wanted - value }, off + (ROUNDING + courses.off) * wanted)
            };
            let (left, off) = missing(until);
            if left + off < 0.0 {
                return Ok(sought(until, missing, ROUNDED + courses.off));
            }
            until *= 2.0;
        }
        Ok(Said::Nothing)
    }
}

/// The time before `until` at which nothing is missing any more.
fn sought(until: f64, missing: impl Fn(f64) -> (f64, f64), error: f64) -> Said {
    let first = |side: f64| {
        let (mut low, mut high) = (0.0, until);
        for _ in 0..HALVED {
            let middle = 0.5 * (low + high);
            let (left, off) = missing(middle);
            if left + side * off > 0.0 {
                low = middle
            } else {
                high = middle
            }
            if high - low <= 1e-14 * high {
                break;
            }
        }
        (low, high)
    };
    let ((before, early), (_, late)) = (first(-1.0), first(1.0));
    let wide = (late - early) / early;
    if wide <= RIGHT {
        return Said::Known { value: 0.5 * (early + late), error: wide + error, method: BY_CASCADE };
    }
    // A step may end at just this probability; then nothing is missing behind it.
    let (left, off) = missing(before);
    if left > 100.0 * off {
        return Said::Known { value: early, error, method: BY_CASCADE };
    }
    Said::Nothing
}
