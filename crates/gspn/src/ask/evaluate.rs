//! From questions to numbers.

use hashbrown::HashMap;

use super::derivatives::Known;
use super::{Answer, Ask, Checks, Question, Value};
use crate::Budget;
use crate::chain::{self, At, LongRun};
use crate::explore::{Space, explore};
use crate::lump::Lumped;
use crate::net::{Kind, Net, invariants};
use crate::product::Product;
use crate::{Class, Refusal};

/// Phases that stand for a fixed time: the first try. Each further try has twice as many.
const STAGES: u32 = 8;
/// The most that are tried.
const MOST_STAGES: u32 = 512;
/// How far two tries in a row may differ, relatively.
const CLOSE: f64 = 1e-3;
/// What a check may be off.
const OFF: f64 = 1e-8;

/// Answers `asks` about `net`: by exploring it, or by its product form where it has one and too many markings.
///
/// # Errors
/// When nothing can be answered, because the net has no end or is larger than the budget. A question that has no answer by
/// itself stands in [`Answer::unanswered`].
pub fn answer(net: &Net, asks: &[Ask], budget: &mut Budget<'_>) -> Result<Answer, Refusal> {
    match Product::of(net) {
        Some(product) => product.answer(asks, budget, |budget| explored(net, asks, budget)),
        None => explored(net, asks, budget),
    }
}

fn explored(net: &Net, asks: &[Ask], budget: &mut Budget<'_>) -> Result<Answer, Refusal> {
    let fixed = net.transitions().iter().any(|transition| matches!(transition.kind, Kind::Deterministic { .. }));
    if !fixed {
        return match Lumped::of(net, asks) {
            Some(lumped) => lumped.answer(net, asks, budget, |asks, budget| plain(net, asks, budget)),
            None => plain(net, asks, budget),
        };
    }
    stages(net, asks, budget)
}

/// Explores every marking.
fn plain(net: &Net, asks: &[Ask], budget: &mut Budget<'_>) -> Result<Answer, Refusal> {
    Solved::new(net, asks, 1, budget)?.answer(net, asks, budget)
}

/// Answers with ever more phases for a fixed time, and carries each value on to infinitely many.
fn stages(net: &Net, asks: &[Ask], budget: &mut Budget<'_>) -> Result<Answer, Refusal> {
    let is_probability =
        |ask: &&Ask| matches!(ask.question, Question::Probability { .. } | Question::InitialProbability { .. });
    let probabilities: Vec<&String> = asks.iter().filter(is_probability).map(|ask| &ask.id).collect();
    let mut stages = STAGES;
    let mut before = Solved::new(net, asks, stages, budget)?.answer(net, asks, budget)?;
    let mut carried: HashMap<String, f64> = HashMap::new();
    loop {
        stages *= 2;
        let solved = Solved::new(net, asks, stages, budget).and_then(|solved| solved.answer(net, asks, budget));
        let mut now = match solved {
            Ok(now) => now,
            Err(refusal) => return Ok(give_up(before, &refusal)),
        };
        let mut worst = 0.0_f64;
        let mut next = HashMap::new();
        for (id, value) in &now.values {
            let (Value::Number(value), Some(Value::Number(other))) = (value, before.values.get(id)) else { continue };
            // The error falls with one over the number of phases.
            let limit = 2.0 * value - other;
            let limit = if probabilities.contains(&id) { limit.clamp(0.0, 1.0) } else { limit };
            let earlier = carried.get(id).copied().unwrap_or(f64::INFINITY);
            let error = if limit == earlier { 0.0 } else { ((limit - earlier) / limit).abs() };
            worst = worst.max(error);
            next.insert(id.clone(), limit);
            now.error.insert(id.clone(), error);
        }
        if worst <= CLOSE || stages >= MOST_STAGES {
            for (id, limit) in next {
                let error = now.error.get(&id).copied().unwrap_or(f64::INFINITY);
                if error <= 10.0 * CLOSE {
                    now.values.insert(id.clone(), Value::Number(limit));
                    now.method.insert(
                        id,
                        format!("{} and {stages} exponential phases, carried on to infinitely many", stages / 2),
                    );
                } else {
                    now.values.remove(&id);
                    now.method.remove(&id);
                    let why = format!("{stages} phases for the fixed time are still {error:.1e} off, relatively");
                    now.unanswered.insert(id, Refusal::new(Class::Unsupported, "", why));
                }
            }
            let known = &now.method;
            now.error.retain(|id, _| known.contains_key(id));
            return Ok(now);
        }
        carried = next;
        before = now;
    }
}

fn give_up(mut answer: Answer, refusal: &Refusal) -> Answer {
    for (id, value) in std::mem::take(&mut answer.values) {
        match value {
            Value::Count(_) => drop(answer.values.insert(id, value)),
            Value::Number(_) => drop(answer.unanswered.insert(id, refusal.clone())),
        }
    }
    answer.method.clear();
    answer.error.clear();
    answer
}

pub(super) struct Solved {
    pub(super) space: Space,
    pub(super) long_run: Option<Result<LongRun, Refusal>>,
    at: HashMap<u64, Result<At, Refusal>>,
    /// How the last value was found, where that is worth saying, and how far it may be off, relatively.
    method: Option<(String, f64)>,
    /// The values of the questions, and what the edges count for those, whose derivatives were asked for.
    pub(super) worth: Vec<Known>,
}

impl Solved {
    fn new(net: &Net, asks: &[Ask], stages: u32, budget: &mut Budget<'_>) -> Result<Self, Refusal> {
        let (mut counted, mut watched) = (Vec::new(), Vec::new());
        for ask in asks {
            let mut question = &ask.question;
            while let Question::Sensitivity { of, by } = question {
                question = of;
                watched.push(*by);
            }
            if let Question::Throughput { transition, .. } = question {
                counted.push(*transition);
            }
        }
        for indices in [&mut counted, &mut watched] {
            indices.sort_unstable();
            indices.dedup();
        }
        let space = explore(net, stages, &counted, &watched, budget)?;
        Ok(Self { space, long_run: None, at: HashMap::new(), method: None, worth: Vec::new() })
    }

    fn answer(mut self, net: &Net, asks: &[Ask], budget: &mut Budget<'_>) -> Result<Answer, Refusal> {
        let mut answer = Answer::default();
        for ask in asks {
            self.method = None;
            let value = self.value(net, &ask.question, budget);
            if let (Ok(_), Some((method, error))) = (&value, self.method.take()) {
                answer.method.insert(ask.id.clone(), method);
                answer.error.insert(ask.id.clone(), error);
            }
            match value {
                Ok(Value::Number(value)) if !value.is_finite() => {
                    let why = "the value is more than a number can say";
                    answer.unanswered.insert(ask.id.clone(), Refusal::new(Class::TooLarge, &ask.id, why));
                }
                Ok(value) => drop(answer.values.insert(ask.id.clone(), value)),
                Err(mut refusal) => {
                    refusal.name.clone_from(&ask.id);
                    answer.unanswered.insert(ask.id.clone(), refusal);
                }
            }
        }
        if let Some(Ok(long_run)) = &self.long_run {
            answer.checks = self.checks(net, long_run);
            let Checks { residual, flow_balance, invariants } = answer.checks;
            if [residual, flow_balance, invariants].iter().any(|off| off.is_nan() || *off > OFF) {
                let why = format!(
                    "the solution does not pass its checks: residual {residual:e}, flow balance {flow_balance:e}, invariants {invariants:e}"
                );
                return Ok(give_up(answer, &Refusal::new(Class::Unsupported, "", why)));
            }
        }
        Ok(answer)
    }

    pub(super) fn value(&mut self, net: &Net, question: &Question, budget: &mut Budget<'_>) -> Result<Value, Refusal> {
        Ok(match question {
            Question::Tangible => Value::Count(self.space.tangible() as u64),
            Question::Vanishing => Value::Count(self.space.vanishing() as u64),
            Question::Deadlocks => Value::Count(self.deadlocks()),
            Question::BottomComponents => Value::Count(self.long_run(budget)?.bottoms as u64),
            Question::Bound { place } => Value::Count(self.space.bound(*place)),
            Question::MeanTokens { at, .. } | Question::Probability { at, .. } | Question::Throughput { at, .. } => {
                let reward = self.reward(question);
                Value::Number(self.mean(*at, &reward, budget)?)
            }
            Question::InitialProbability { condition } => {
                let holds = self.holds(condition);
                let initial = self.space.initial().iter().filter(|(state, _)| holds[*state as usize]);
                Value::Number(initial.map(|(_, probability)| probability).sum())
            }
            Question::TimeToAbsorption => Value::Number(self.long_run(budget)?.time_to_bottom),
            Question::PassageMean { condition } => {
                let goal = self.holds(condition);
                let reached = chain::passage(self.space.chain(), self.space.initial(), &goal, budget)?;
                if !reached.certain {
                    let why = format!(
                        "it is ever reached with probability {} only, so there is no mean time",
                        reached.probability
                    );
                    return Err(Refusal::new(Class::Unsupported, "", why));
                }
                Value::Number(reached.mean)
            }
            Question::PassageQuantile { condition, level } => {
                let goal = self.holds(condition);
                let found = chain::quantile(self.space.chain(), self.space.initial(), &goal, *level, budget)?;
                self.method = found.method;
                Value::Number(found.value)
            }
            Question::Sensitivity { of, by } => Value::Number(self.sensitivity(net, of, *by, budget)?),
        })
    }

    pub(super) fn long_run(&mut self, budget: &mut Budget<'_>) -> Result<&LongRun, Refusal> {
        let Self { space, long_run, .. } = self;
        let solved = long_run.get_or_insert_with(|| chain::long_run(space.chain(), space.initial(), budget));
        solved.as_ref().map_err(Clone::clone)
    }

    /// The mean of `rewards` at a time, or in the long run.
    pub(super) fn mean(&mut self, at: Option<f64>, rewards: &[f64], budget: &mut Budget<'_>) -> Result<f64, Refusal> {
        let Some(at) = at else { return Ok(dot(&self.long_run(budget)?.distribution, rewards)) };
        let Self { space, at: known, method, .. } = self;
        let (chain, initial) = (space.chain(), space.initial());
        let solved = known.entry(at.to_bits()).or_insert_with(|| chain::at(chain, initial, at, budget));
        let mean = solved.as_mut().map_err(|refusal| refusal.clone())?.mean(chain, rewards, budget)?;
        *method = mean.method;
        Ok(mean.value)
    }

    /// What a question sums up, state by state.
    pub(super) fn reward(&self, question: &Question) -> Vec<f64> {
        match question {
            #[expect(clippy::cast_precision_loss, reason = "tokens beyond 2^53 are meant to 53 bits")]
            Question::MeanTokens { place, .. } => self.map(|tokens| tokens[*place] as f64),
            Question::Probability { condition, .. } => {
                self.map(|tokens| if condition.holds(tokens) { 1.0 } else { 0.0 })
            }
            Question::Throughput { transition, .. } => self.space.rates(*transition),
            _ => vec![0.0; self.space.chain().len()],
        }
    }

    pub(super) fn holds(&self, condition: &super::Condition) -> Vec<bool> {
        self.map(|tokens| condition.holds(tokens))
    }

    fn map<T>(&self, mut value: impl FnMut(&[u64]) -> T) -> Vec<T> {
        let mut tokens = vec![0; self.space.places()];
        let states = self.space.chain().len();
        (0..states)
            .map(|state| {
                #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
                self.space.load(self.space.marking_of(state as u32), &mut tokens);
                value(&tokens)
            })
            .collect()
    }

    /// Markings that are never left for another marking.
    fn deadlocks(&self) -> u64 {
        let chain = self.space.chain();
        let mut left = vec![false; self.space.tangible()];
        for state in 0..chain.len() {
            #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
            let marking = |state: usize| self.space.marking_of(state as u32);
            let own = marking(state);
            if chain.row(state).any(|(to, _)| marking(to) != own) {
                left[own as usize] = true;
            }
        }
        left.iter().filter(|left| !**left).count() as u64
    }

    fn checks(&self, net: &Net, long_run: &LongRun) -> Checks {
        let chain = self.space.chain();
        let places = self.space.places();
        // What flows into each state less what flows out; times the tokens there it says what a place gains.
        let mut gains: Vec<f64> =
            (0..chain.len()).map(|state| -long_run.distribution[state] * chain.exit(state)).collect();
        for state in 0..chain.len() {
            for (to, rate) in chain.row(state) {
                gains[to] += long_run.distribution[state] * rate;
            }
        }
        let (mut net_gain, mut gross, mut means) = (vec![0.0; places], vec![0.0_f64; places], vec![0.0; places]);
        let mut tokens = vec![0; places];
        for (state, gain) in gains.iter().enumerate() {
            #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
            self.space.load(self.space.marking_of(state as u32), &mut tokens);
            let share = long_run.distribution[state];
            for (place, tokens) in tokens.iter().enumerate() {
                #[expect(clippy::cast_precision_loss, reason = "a check to eight digits")]
                let tokens = *tokens as f64;
                net_gain[place] += tokens * gain;
                gross[place] += tokens * share * chain.exit(state);
                means[place] += tokens * share;
            }
        }
        let balance =
            net_gain.iter().zip(&gross).filter(|(_, gross)| **gross > 0.0).map(|(gain, gross)| (gain / gross).abs());
        Checks {
            residual: long_run.residual,
            flow_balance: balance.fold(0.0, f64::max),
            invariants: invariant_error(net, &means),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a check to eight digits")]
pub(crate) fn invariant_error(net: &Net, means: &[f64]) -> f64 {
    let mut worst = 0.0_f64;
    for weights in invariants::places(net) {
        let (mut sum, mut start, mut size) = (0.0, 0.0, 0.0_f64);
        for (place, weight) in weights {
            let weight = weight as f64;
            let tokens = net.places()[place].tokens as f64;
            sum += weight * means[place];
            start += weight * tokens;
            size += weight.abs() * means[place].max(tokens);
        }
        if size > 0.0 {
            worst = worst.max((sum - start).abs() / size);
        }
    }
    worst
}

pub(super) fn dot(distribution: &[f64], reward: &[f64]) -> f64 {
    chain::sum(distribution.iter().zip(reward).map(|(share, reward)| share * reward))
}
