//! Estimates by simulation, each with an interval that holds the true value in 95 of 100 cases.
//!
//! For nets whose markings are too many, or whose times are neither exponential nor one fixed time alone. The same seed gives the
//! same numbers on every machine. Each transition has random numbers of its own, found by its name: two nets that differ in one
//! setting see the same chances otherwise, so their difference is known better than each of them.

mod balance;
mod figures;
mod known;
mod long_run;
mod machine;
mod model;
mod passing;
mod random;
mod replicate;
mod scatter;
mod sight;
mod single;
mod trap;
mod walk;

use std::collections::BTreeMap;

use serde::Serialize;

pub use self::figures::{alike, half_width};
use self::machine::{Level, Machine, Watch};
use self::model::Model;
pub use self::random::Stream;
use self::single::Single;
use crate::ask::{Ask, Condition, Question};
use crate::net::{Arc, Kind, Net};
use crate::{Budget, Class, Progress, Refusal};

/// Firings between two looks at the clock.
const SLICE: u64 = 1 << 15;

/// How long and how finely.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// Of the random numbers.
    pub seed: u64,
    /// Each half-width is to be at most this part of its mean.
    pub relative: f64,
    /// The most firings of timed transitions, all runs together.
    pub firings: u64,
}

impl Default for Plan {
    /// Seed 1, one percent, four thousand million firings.
    fn default() -> Self {
        Self { seed: 1, relative: 0.01, firings: 4_000_000_000 }
    }
}

/// A mean and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The estimate.
    pub mean: f64,
    /// Half of the interval's length.
    pub half_width: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
    /// How many independent samples it comes from.
    pub samples: u64,
    /// Whether the interval became as small as was wanted.
    pub reached: bool,
}

impl Estimate {
    fn around(mean: f64, half_width: f64, samples: u64, reached: bool) -> Self {
        Self { mean, half_width, low: mean - half_width, high: mean + half_width, samples, reached }
    }

    fn unknown() -> Self {
        Self::around(f64::NAN, f64::NAN, 0, false)
    }
}

/// The estimates for all questions about a net.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Estimates {
    /// By the question's name.
    pub estimates: BTreeMap<String, Estimate>,
    /// By the question's name: why it has no estimate.
    pub unanswered: BTreeMap<String, Refusal>,
    /// Of timed transitions, in all runs.
    pub firings: u64,
    /// As given.
    pub seed: u64,
}

/// Counts firings, and looks at the clock now and then.
struct Meter<'a, 'b> {
    budget: &'a mut Budget<'b>,
    firings: u64,
    next: u64,
    /// Immediates since the last look.
    worked: u64,
    /// Of all questions.
    all: u64,
    /// Firings, and a part of the time, after which the questions that are simulated now have had their share.
    most: u64,
    until: f64,
    /// Questions that have had none.
    waiting: usize,
    /// The limit of all was reached, and that of these questions.
    ended: bool,
    stopped: bool,
}

impl Meter<'_, '_> {
    /// How many firings there may be until the next look.
    fn slice(&self) -> u64 {
        SLICE
    }

    fn bytes(&self) -> usize {
        usize::try_from(self.budget.limits().bytes).unwrap_or(usize::MAX)
    }

    /// So many questions come next: they get their part of what is left, so that no question uses up what the others need.
    fn share(&mut self, questions: usize) {
        let left = self.all.saturating_sub(self.firings);
        (self.most, self.until) = (self.all, f64::INFINITY);
        if questions < self.waiting {
            self.most = self.firings.saturating_add(left / self.waiting as u64 * questions as u64);
            let gone = self.budget.gone();
            #[expect(clippy::cast_precision_loss, reason = "a count of questions")]
            let part = questions as f64 / self.waiting as f64;
            self.until = gone + (1.0 - gone) * part;
        }
        self.waiting = self.waiting.saturating_sub(questions);
        self.stopped = self.ended;
    }

    fn spent(&mut self, firings: u64) {
        self.firings = self.firings.saturating_add(firings);
    }

    /// Takes the firings of a run, and says whether it may go on.
    fn look(&mut self, machine: &mut Machine<'_>) -> bool {
        // A run from the start costs something even where nothing fires.
        self.spent(std::mem::take(&mut machine.firings).max(1));
        self.worked += std::mem::take(&mut machine.worked);
        if self.firings >= self.next || self.worked >= SLICE {
            (self.next, self.worked) = (self.firings + SLICE, 0);
            self.ended |= self.budget.look(Progress::Simulating { firings: self.firings }).is_err();
            self.stopped |= self.budget.gone() >= self.until;
        }
        self.ended |= self.firings >= self.all;
        self.stopped |= self.ended || self.firings >= self.most;
        !self.stopped
    }
}

/// How one question is answered.
enum Way {
    LongRun(long_run::Measure),
    At(f64, replicate::Measure),
    Passage(usize, Option<f64>),
}

/// Simulates `net` and estimates what is asked. A budget that is spent ends it, and the estimates so far say that they are not as
/// good as was wanted; questions that are simulated one after the other share firings and time (see [`Budget::sharing`]).
///
/// # Errors
/// When a run cannot go on: immediates without end, more tokens than can be counted; when the net alone takes more memory than is allowed.
pub fn simulate(net: &Net, asks: &[Ask], plan: Plan, budget: &mut Budget<'_>) -> Result<Estimates, Refusal> {
    budget.bytes(Model::bytes(net))?;
    let model = Model::new(net);
    let (mut levels, mut ways) = (Vec::new(), Vec::new());
    let mut found = Estimates { seed: plan.seed, ..Estimates::default() };
    for ask in asks {
        match (constant(net, &ask.question), way(net, &ask.question, &mut levels)) {
            (Some(value), _) => {
                found.estimates.insert(ask.id.clone(), Estimate::around(value, 0.0, 1, true));
            }
            (None, Ok(way)) => ways.push((ask, way)),
            (None, Err(refusal)) => found.leave(ask, refusal),
        }
    }
    let watch = Watch::new(levels, net.places().len());
    // A start that never ends is none of anything, also of what never changes.
    Machine::new(&model, &watch, plan.seed, 0)?;
    let (all, waiting) = (plan.firings, ways.len());
    let (most, until) = (all, f64::INFINITY);
    let mut meter =
        Meter { budget, firings: 0, next: SLICE, worked: 0, all, most, until, waiting, ended: false, stopped: false };

    let mut long: Vec<(&Ask, long_run::Measure)> = Vec::new();
    let mut timed: Vec<(&Ask, (f64, replicate::Measure))> = Vec::new();
    let (mut passages, mut single) = (Vec::new(), Single::of(net));
    for (ask, way) in ways {
        match way {
            Way::LongRun(measure) => long.push((ask, measure)),
            Way::At(time, measure) => timed.push((ask, (time, measure))),
            Way::Passage(level, quantile) => passages.push((ask, level, quantile)),
        }
    }
    timed.sort_by(|(_, (one, _)), (_, (other, _))| one.total_cmp(other));
    if !long.is_empty() {
        meter.share(long.len());
        let measures: Vec<_> = long.iter().map(|(_, measure)| *measure).collect();
        let asked: Vec<Ask> = long.iter().map(|(ask, _)| (*ask).clone()).collect();
        let net = (net, asked.as_slice());
        let estimates = long_run::simulate(net, &model, &watch, plan.seed, &measures, plan.relative, &mut meter)?;
        for ((ask, _), estimate) in long.iter().zip(estimates) {
            match estimate {
                Ok(estimate) => found.put(ask, estimate),
                Err(refusal) => found.leave(ask, refusal),
            }
        }
    }
    if !timed.is_empty() {
        meter.share(timed.len());
        let (asks, asked): (Vec<Ask>, Vec<_>) = timed.iter().map(|(ask, asked)| ((*ask).clone(), *asked)).unzip();
        let known = (&mut single, asks.as_slice());
        let estimates = replicate::at(known, &model, &watch, plan.seed, &asked, plan.relative, &mut meter)?;
        for ((ask, _), estimate) in timed.iter().zip(estimates) {
            match estimate {
                Ok(estimate) => found.put(ask, estimate),
                Err(refusal) => found.leave(ask, refusal),
            }
        }
    }
    for (ask, level, quantile) in passages {
        meter.share(1);
        let Level::Holds(condition) = watch.level(level) else { continue };
        let known = (&mut single, ask, condition);
        match replicate::passage(known, &model, &watch, plan.seed, (level, quantile), plan.relative, &mut meter) {
            Ok(estimate) => found.put(ask, estimate),
            Err(refusal) => found.leave(ask, refusal),
        }
    }
    found.firings = meter.firings;
    Ok(found)
}

fn way(net: &Net, question: &Question, levels: &mut Vec<Level>) -> Result<Way, Refusal> {
    let mut level = |level: Level| {
        levels.push(level);
        levels.len() - 1
    };
    let holds = |condition: &Condition| Level::Holds(condition.clone());
    let no = |why: &str| Err(Refusal::new(Class::Unsupported, "", why));
    Ok(match question {
        Question::MeanTokens { place, at: None } => {
            Way::LongRun(long_run::Measure::Level(level(Level::Tokens(*place))))
        }
        Question::Probability { condition, at: None } => {
            Way::LongRun(long_run::Measure::Level(level(holds(condition))))
        }
        Question::Throughput { transition, at: None } => Way::LongRun(long_run::Measure::Fired(*transition)),
        Question::MeanTokens { place, at: Some(at) } => {
            Way::At(*at, replicate::Measure::Level { index: level(Level::Tokens(*place)), share: false })
        }
        Question::Probability { condition, at: Some(at) } => {
            Way::At(*at, replicate::Measure::Level { index: level(holds(condition)), share: true })
        }
        Question::InitialProbability { condition } => {
            Way::At(0.0, replicate::Measure::Level { index: level(holds(condition)), share: true })
        }
        Question::Throughput { transition, at: Some(at) } => match net.transitions()[*transition].kind {
            Kind::Timed { .. } => Way::At(*at, replicate::Measure::Rate(*transition)),
            _ => return no("firings per time unit at one time are simulated for exponential transitions only"),
        },
        Question::PassageMean { condition } => Way::Passage(level(holds(condition)), None),
        Question::PassageQuantile { condition, level: quantile } => {
            Way::Passage(level(holds(condition)), Some(*quantile))
        }
        Question::Tangible
        | Question::Vanishing
        | Question::Deadlocks
        | Question::BottomComponents
        | Question::Bound { .. } => return no("a simulation does not see every marking: `solve` answers this"),
        Question::TimeToAbsorption => {
            return no("a simulation does not know closed classes: ask `passage_mean` with the condition that ends it");
        }
        Question::Sensitivity { .. } => return no("derivatives are not simulated: `solve` answers this"),
    })
}

impl Estimates {
    fn leave(&mut self, ask: &Ask, mut refusal: Refusal) {
        refusal.name.clone_from(&ask.id);
        self.unanswered.insert(ask.id.clone(), refusal);
    }

    fn put(&mut self, ask: &Ask, mut estimate: Estimate) {
        if !estimate.mean.is_finite() || !estimate.half_width.is_finite() {
            let why = "the limit of firings or of time was reached before there was an interval";
            return self.leave(ask, Refusal::new(Class::TooLarge, "", why));
        }
        // Nothing that is simulated is below 0.
        estimate.low = estimate.low.max(0.0);
        if matches!(ask.question, Question::Probability { .. } | Question::InitialProbability { .. }) {
            estimate.high = estimate.high.min(1.0);
        }
        // A level that never changed may be constant, or may change hardly ever.
        if estimate.low == estimate.high && !estimate.reached {
            let why = format!(
                "it was {} all the time: it may change too rarely to be seen in a simulation; ask `solve`",
                estimate.mean
            );
            return self.leave(ask, Refusal::new(Class::Unsupported, "", why));
        }
        self.estimates.insert(ask.id.clone(), estimate);
    }
}

/// The value of what is asked about, where no transition changes it.
fn constant(net: &Net, question: &Question) -> Option<f64> {
    let level = match question {
        Question::MeanTokens { place, .. } => Level::Tokens(*place),
        Question::Probability { condition, .. } | Question::InitialProbability { condition } => {
            Level::Holds(condition.clone())
        }
        _ => return None,
    };
    let count = |arcs: &[Arc], place| arcs.iter().find(|arc| arc.place == place).map_or(0, |arc| arc.count);
    let kept = |place| net.transitions().iter().all(|it| count(&it.inputs, place) == count(&it.outputs, place));
    let initial: Vec<u64> = net.places().iter().map(|place| place.tokens).collect();
    level.places().into_iter().all(kept).then(|| level.now(&initial))
}
