//! What the markings of a net say of its long run, where they are few: what no run has come to does not show in their scatter.
//!
//! Two parts of a net that hardly know of each other look like one, as long as no run goes from one to the other: all runs agree, and nothing
//! rises or falls. No number of firings tells that from a long run; the solution of a net that is small does.

use std::collections::BTreeMap;

use super::{Estimate, Meter};
use crate::ask::{self, Ask, Value, is_uncertain};
use crate::net::Net;
use crate::{Budget, Class, Limits, Refusal};

/// How many half-widths an interval is off, at least, that chance does not put there.
const FAR: f64 = 5.0;
/// What rounding leaves, relatively.
const ROUNDING: f64 = 1e-6;
/// An error of the solution, relative, beyond which it tells nothing.
pub(super) const VAGUE: f64 = 0.05;
/// The part of the time left that solving takes at most,
const PART: f64 = 0.25;
/// and how often it is asked for the time, every few milliseconds.
pub(super) const LOOKS: u32 = 1_000;
/// The same for values alone, each of which takes its own solution with fixed times: a simulation is over sooner than that.
pub(super) const FEW_LOOKS: u32 = 200;

/// Values of questions about the long run, each with how far it may be off; nothing of those that are not known.
#[derive(Debug)]
pub(super) struct Known {
    values: Vec<Option<(f64, f64)>>,
    unanswered: BTreeMap<String, Refusal>,
}

impl Known {
    /// Solves what is asked about `net`, within `limits` and `most` looks at the clock.
    pub(super) fn of(net: &Net, asks: &[Ask], limits: Limits, most: u32, meter: &mut Meter<'_, '_>) -> Self {
        let answer = within(limits, most, meter, |budget| ask::answer(net, asks, budget)).unwrap_or_default();
        let value = |ask: &Ask| match answer.values.get(&ask.id) {
            Some(Value::Number(value)) => {
                let error = answer.error.get(&ask.id).copied().unwrap_or_default();
                (error <= VAGUE).then_some((*value, error * value.abs()))
            }
            _ => None,
        };
        Self { values: asks.iter().map(value).collect(), unanswered: answer.unanswered }
    }

    /// The value of a question that `estimate` is no interval of.
    pub(super) fn against(&self, question: usize, estimate: &Estimate) -> Option<f64> {
        let (value, error) = (*self.values.get(question)?)?;
        far(estimate, value, error).then_some(value)
    }

    /// Why the mean time that `ask` is about is none, where it need not come to an end.
    pub(super) fn uncertain(&self, ask: &Ask) -> Option<Refusal> {
        self.unanswered.get(&ask.id).filter(|refusal| is_uncertain(refusal)).cloned()
    }

    /// Whether a question has one.
    pub(super) fn has(&self, question: usize) -> bool {
        self.values.get(question).is_some_and(Option::is_some)
    }

    /// By question.
    pub(super) fn values(&self) -> impl Iterator<Item = Option<(f64, f64)>> + '_ {
        self.values.iter().copied()
    }
}

/// Does `work` within `limits` and `most` looks at the clock, in a part of the time that the questions have which are simulated now.
pub(super) fn within<T>(
    limits: Limits,
    most: u32,
    meter: &mut Meter<'_, '_>,
    work: impl FnOnce(&mut Budget<'_>) -> T,
) -> T {
    let gone = meter.budget.gone();
    let (until, mut looks) = (gone + (meter.until.min(1.0) - gone).max(0.0) * PART, 0);
    let outer = &mut *meter.budget;
    let mut go_on = |progress| {
        looks += 1;
        looks < most && outer.gone() <= until && outer.look(progress).is_ok()
    };
    work(&mut Budget::new(limits, &mut go_on))
}

/// Whether `estimate` is no interval of `value`, which may be off by `error`.
pub(super) fn far(estimate: &Estimate, value: f64, error: f64) -> bool {
    let near = FAR * estimate.half_width + error + ROUNDING * f64::max(value.abs(), estimate.mean.abs());
    // Nothing is against an estimate that is none.
    (estimate.mean - value).abs() > near
}

/// Why runs from the start that show `estimate` are not all that there is, where the markings of the net say `value`.
pub(super) fn refusal_of_runs(estimate: &Estimate, value: f64) -> Refusal {
    let why = format!(
        "the runs agree on {:.3e}, and the markings of the net say {value:.3e}: those that carry it had not come, or too few of them, when \
         the limit of firings or of time was reached; allow more, or ask `solve`",
        estimate.mean
    );
    Refusal::new(Class::TooLarge, "", why)
}

/// Why runs that show `estimate` are no long run of a net whose markings say `value`.
pub(super) fn refusal(estimate: &Estimate, value: f64) -> Refusal {
    let why = format!(
        "the runs agree on {:.3e}, and the markings of the net say that its long run is {value:.3e}: none of them, or too few, had come to \
         where it mostly is when the limit of firings or of time was reached; allow more, or ask `solve`",
        estimate.mean
    );
    Refusal::new(Class::TooLarge, "", why)
}
