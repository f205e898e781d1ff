//! What the markings of a net say of a single run, where they are few: what it shows at a time or on its way to a condition, and how much
//! that differs from run to run.
//!
//! Where few runs carry most of a mean, those that are there look alike until one of the few has come, and their scatter says nothing of it.
//! How much runs differ says how many are needed; of a net that is small that is known without them.

use super::figures::Z;
use super::known::{self, FEW_LOOKS, Known, LOOKS};
use super::passing::LIMITS;
use super::{Estimate, Meter};
use crate::ask::{Ask, Condition, Solution, certainly};
use crate::explore::{Aim, explore_for};
use crate::net::{Kind, Net};
use crate::{Refusal, chain};

/// What is known of a question.
#[derive(Debug, Clone, Copy)]
pub(super) struct Truth {
    value: f64,
    /// What the value may be off.
    error: f64,
    /// The standard deviation of what one run shows, where that is known, too.
    pub(super) deviation: Option<f64>,
}

/// The markings of a net, once they were looked at; nothing where they are too many or it has fixed times.
pub(super) struct Single<'a> {
    net: &'a Net,
    solution: Option<Option<Solution>>,
}

impl<'a> Single<'a> {
    pub(super) fn of(net: &'a Net) -> Self {
        Self { net, solution: None }
    }

    /// Whether there are markings to ask. Each question has looks at the clock of its own: what is known of one must not hang on the others.
    fn solution(&mut self, meter: &mut Meter<'_, '_>) -> Option<&mut Solution> {
        let net = self.net;
        let solution = self.solution.get_or_insert_with(|| {
            if net.transitions().iter().any(|it| matches!(it.kind, Kind::Deterministic { .. })) {
                return None;
            }
            let aim = Aim { one_order: true, counts: false };
            let space = known::within(LIMITS, LOOKS, meter, |budget| explore_for(aim, net, 1, &[], &[], budget));
            space.ok().map(Solution::new)
        });
        solution.as_mut()
    }

    /// Of each question what is known of it, where `measure` says what a marking counts for it at its time; that of a condition is 0 or 1.
    pub(super) fn at(
        &mut self,
        asks: &[Ask],
        times: &[f64],
        measure: impl Fn(usize, &[u64]) -> f64,
        meter: &mut Meter<'_, '_>,
    ) -> Vec<Option<Truth>> {
        let Some(solution) = self.solution(meter) else {
            return truths(&Known::of(self.net, asks, LIMITS, FEW_LOOKS, meter));
        };
        let truth = |(question, time): (usize, &f64)| {
            let rewards = solution.map(|marking| measure(question, marking));
            let (value, off, squares) = known::within(LIMITS, LOOKS, meter, |budget| {
                solution.make_room(time.to_bits(), budget);
                let value = solution.mean(Some(*time), &rewards, budget)?;
                let off = solution.off();
                let squares: Vec<f64> = rewards.iter().map(|reward| (reward - value).powi(2)).collect();
                Ok::<_, Refusal>((value, off, solution.mean(Some(*time), &squares, budget)?))
            })
            .ok()?;
            let off = off.max(solution.off());
            (off <= known::VAGUE && squares.is_finite()).then_some(Truth {
                value,
                error: off * value.abs(),
                deviation: Some(squares.max(0.0).sqrt()),
            })
        };
        times.iter().enumerate().map(truth).collect()
    }

    /// What is known of the time until `condition` holds, which `ask` is about.
    ///
    /// # Errors
    /// It has no mean, for it need not come.
    pub(super) fn passage(
        &mut self,
        ask: &Ask,
        condition: &Condition,
        meter: &mut Meter<'_, '_>,
    ) -> Result<Option<Truth>, Refusal> {
        let Some(solution) = self.solution(meter) else {
            let known = Known::of(self.net, std::slice::from_ref(ask), LIMITS, FEW_LOOKS, meter);
            return known.uncertain(ask).map_or_else(|| Ok(truths(&known).pop().flatten()), Err);
        };
        let goal = solution.holds(condition);
        let (chain, initial) = (solution.space.chain(), solution.space.initial());
        let found = known::within(LIMITS, LOOKS, meter, |budget| chain::moments(chain, initial, &goal, budget));
        let Ok((reached, squares)) = found else { return Ok(None) };
        let value = certainly(&reached)?;
        let deviation = (squares - value * value).max(0.0).sqrt();
        let known = value.is_finite() && deviation.is_finite();
        Ok(known.then_some(Truth { value, error: 0.0, deviation: Some(deviation) }))
    }

    /// What `solve` says of a question; how much runs differ it does not say.
    pub(super) fn value(&self, ask: &Ask, meter: &mut Meter<'_, '_>) -> Option<Truth> {
        truths(&Known::of(self.net, std::slice::from_ref(ask), LIMITS, FEW_LOOKS, meter)).pop().flatten()
    }
}

fn truths(known: &Known) -> Vec<Option<Truth>> {
    let truth = |(value, error)| Truth { value, error, deviation: None };
    known.values().map(|value| value.map(truth)).collect()
}

impl Truth {
    /// Whether runs differ, and so many are enough for half an interval of `relative` of the value.
    #[expect(clippy::cast_precision_loss, reason = "a count of runs")]
    pub(super) fn differs_within(&self, runs: u64, relative: f64) -> bool {
        let wide = self.deviation.map(|deviation| Z * deviation / self.value.abs());
        wide.is_some_and(|wide| wide > 0.0 && (wide / relative).powi(2) <= runs as f64)
    }

    /// Why `estimate` is no interval of it, if it is none.
    pub(super) fn against(&self, estimate: &Estimate) -> Option<Refusal> {
        known::far(estimate, self.value, self.error).then(|| known::refusal_of_runs(estimate, self.value))
    }
}
