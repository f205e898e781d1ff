//! Derivatives with respect to the rates of timed transitions: one solution of equations a question gives all of them.

use super::solution::PART_KEPT;
use super::{Answer, Answers, Ask, Question, Value, answer, float};
use crate::chain::{self, Worth};
use crate::net::{Kind, Net, Rate};
use crate::{Budget, Class, Refusal};

/// What may be rounding of a derivative times its rate, against that and against the value itself.
const ROUNDING: f64 = 1e-8;

/// A value and how it changes with the rates of a net.
#[derive(Debug, Clone, PartialEq)]
pub struct Derivatives {
    /// What the question's answer is.
    pub value: f64,
    /// Index of each timed transition that has one `rate`, in the order of the net, and the derivative of the value with
    /// respect to that rate; or why there is none.
    pub by_rate: Vec<(usize, Result<f64, Refusal>)>,
}

impl Derivatives {
    /// By how many percent the value changes when the rate of `transition` in `net` grows by one percent, in the first order.
    /// `None` where the derivative is not known, or the value is 0.
    #[must_use]
    pub fn elasticity(&self, net: &Net, transition: usize) -> Option<f64> {
        let (_, slope) = self.by_rate.iter().find(|(index, _)| *index == transition)?;
        let elasticity = *slope.as_ref().ok()? * rate(net, transition)? / self.value;
        elasticity.is_finite().then_some(elasticity)
    }
}

/// Explores `net` once and answers each of `questions` (means, probabilities, throughputs, in the long run or at a time, and
/// passages) together with its derivatives with respect to every `rate`. The derivatives of a question cost about as much as the
/// question, however many rates there are; with a fixed time in the net, all is solved again with more and more phases.
///
/// # Errors
/// When nothing can be answered; a question that has no answer by itself has a refusal in its place.
pub fn derivatives(
    net: &Net,
    questions: &[Question],
    budget: &mut Budget<'_>,
) -> Result<Vec<Result<Derivatives, Refusal>>, Refusal> {
    let rates: Vec<usize> = (0..net.transitions().len()).filter(|index| rate(net, *index).is_some()).collect();
    let mut asks = Vec::new();
    for (index, question) in questions.iter().enumerate() {
        asks.push(Ask { id: index.to_string(), question: question.clone() });
        asks.extend(rates.iter().map(|by| Ask {
            id: format!("{index} {by}"),
            question: Question::Sensitivity { of: Box::new(question.clone()), by: *by },
        }));
    }
    let answer = answer(net, &asks, budget)?;
    let found = (0..questions.len()).map(|index| {
        let value = number(&answer, &index.to_string())?;
        let by_rate = rates.iter().map(|by| (*by, number(&answer, &format!("{index} {by}")))).collect();
        Ok(Derivatives { value, by_rate })
    });
    Ok(found.collect())
}

fn number(answer: &Answer, id: &str) -> Result<f64, Refusal> {
    match answer.values.get(id) {
        Some(Value::Number(value)) => Ok(*value),
        #[expect(clippy::cast_precision_loss, reason = "a count of markings")]
        Some(Value::Count(value)) => Ok(*value as f64),
        None => {
            Err(answer.unanswered.get(id).cloned().unwrap_or_else(|| Refusal::new(Class::Unsupported, id, "no value")))
        }
    }
}

fn rate(net: &Net, transition: usize) -> Option<f64> {
    match net.transitions().get(transition)?.kind {
        Kind::Timed { rate: Rate::Constant(rate), .. } => Some(rate),
        _ => None,
    }
}

/// Whether no rate has a part in the answer.
pub(crate) fn structural(question: &Question) -> bool {
    matches!(
        question,
        Question::Tangible
            | Question::Vanishing
            | Question::Deadlocks
            | Question::BottomComponents
            | Question::Bound { .. }
            | Question::InitialProbability { .. }
    )
}

/// The value of a question and what the edges count for it, or why that is not known.
pub(super) type Known = (Question, Result<(f64, Worth), Refusal>);

/// Whoever derives what it answers: from a space in which the transitions that are derived by were watched.
pub(crate) trait Derives: Answers {
    fn net(&self) -> &Net;

    /// What a question sums up, state by state.
    fn reward(&self, question: &Question) -> Vec<f64>;

    /// Those of whose firings the mean is meant where those of one transition are asked for.
    fn alike<'a>(&'a self, transition: &'a usize) -> &'a [usize];

    /// The derivative of `of` with respect to the rate of `by`.
    fn sensitivity(&mut self, of: &Question, by: usize, budget: &mut Budget<'_>) -> Result<f64, Refusal> {
        let Some(rate) = rate(self.net(), by) else {
            return Err(Refusal::new(Class::Unsupported, "", "the transition has no one rate"));
        };
        if structural(of) {
            return Ok(0.0);
        }
        let bytes = |worth: &[Known]| worth.iter().flat_map(|(_, found)| found).map(|(_, worth)| worth.bytes()).sum();
        if !self.solution().worth.iter().any(|(question, _)| question == of) {
            if self.constant(of) {
                // Of firings that are alike everywhere the rate alone says how many they are.
                return Ok(self.direct(of, by, budget)? / rate);
            }
            let known = &mut self.solution().worth;
            if bytes(known) > budget.limits().bytes / PART_KEPT {
                known.clear();
            }
            let budget = &mut budget.beside(bytes(known));
            let worth = self.worth_of(of, budget);
            if self.solution().put_off {
                return worth.map(|(value, _)| value);
            }
            self.solution().worth.push((of.clone(), worth));
        }
        let held = bytes(&self.solution().worth);
        let direct = self.direct(of, by, &mut budget.beside(held))?;
        let solution = self.solution();
        let known = solution.worth.iter().find(|(question, _)| question == of);
        let (Some((_, worth)), Some(watched)) = (known, solution.space.watched(by)) else {
            return Err(Refusal::new(Class::Unsupported, "", "nothing was watched"));
        };
        let (value, worth) = worth.as_ref().map_err(Clone::clone)?;
        let (indirect, rounding) = worth.along(&watched.chain);
        let change = indirect + direct;
        if rounding > ROUNDING * change.abs().max(value.abs()) {
            if *value == 0.0 {
                return Err(chain::of_nothing());
            }
            let why = format!(
                "times the rate it comes out as {change:.1e}, and rounding may have made {rounding:.1e} of that: rates are too far apart"
            );
            return Err(Refusal::new(Class::TooLarge, "", why));
        }
        if rounding > ROUNDING * change.abs() {
            solution.rounded(if change == 0.0 { 1.0 } else { rounding / change.abs() });
        }
        Ok(change / rate)
    }

    /// Whether each state counts the same for a mean, so that it does not matter how likely they are.
    fn constant(&self, of: &Question) -> bool {
        let mean =
            matches!(of, Question::MeanTokens { .. } | Question::Probability { .. } | Question::Throughput { .. });
        let rewards = if mean { self.reward(of) } else { Vec::new() };
        rewards.split_first().is_some_and(|(first, others)| others.iter().all(|other| other == first))
    }

    /// How the firings that are asked for change by themselves with a factor on the rate of `by`.
    fn direct(&mut self, of: &Question, by: usize, budget: &mut Budget<'_>) -> Result<f64, Refusal> {
        let Question::Throughput { transition, at } = of else { return Ok(0.0) };
        let firings = if *transition == by {
            self.reward(of)
        } else {
            let alike = self.alike(transition).to_vec();
            let Some(watched) = self.solution().space.watched(by) else { return Ok(0.0) };
            let fired: Vec<&[f64]> = alike.iter().filter_map(|it| watched.fired(*it)).collect();
            let Some(first) = fired.first() else { return Ok(0.0) };
            let mean = |state: usize| fired.iter().map(|fired| fired[state]).sum::<f64>() / float(alike.len() as u64);
            (0..first.len()).map(mean).collect()
        };
        self.solution().mean(*at, &firings, budget)
    }

    /// The value of `of`, and how much the edges count for it.
    fn worth_of(&mut self, of: &Question, budget: &mut Budget<'_>) -> Result<(f64, Worth), Refusal> {
        let Value::Number(value) = self.value(of, budget)? else {
            return Err(Refusal::new(Class::Unsupported, "", "a count of markings does not change with a rate"));
        };
        let (mean, at) = match of {
            Question::MeanTokens { at, .. } | Question::Probability { at, .. } | Question::Throughput { at, .. } => {
                (true, *at)
            }
            _ => (false, None),
        };
        if mean && at.is_none() {
            // What a rate changes may hang on rare states even where the value does not.
            self.solution().long_run(budget)?;
        }
        let rewards = if mean { self.reward(of) } else { Vec::new() };
        let solution = self.solution();
        let (chain, initial) = (solution.space.chain(), solution.space.initial());
        let found = || match &solution.known {
            Some(Ok(found)) => Ok(found),
            _ => Err(Refusal::new(Class::Unsupported, "", "the long run is not known")),
        };
        let worth = match (of, at) {
            (_, Some(at)) => chain::worth_at(chain, initial, &rewards, at, budget)?,
            _ if mean => chain::worth(chain, initial, found()?, &rewards, budget)?,
            (Question::TimeToAbsorption, _) => chain::worth_of_time(chain, initial, found()?, budget)?,
            (Question::PassageMean { condition }, _) => {
                chain::worth_of_passage(chain, initial, &solution.holds(condition), budget)?
            }
            (Question::PassageQuantile { condition, .. }, _) => {
                chain::worth_of_quantile(chain, initial, &solution.holds(condition), value, budget)?
            }
            _ => {
                let why = "a sensitivity of this question is not known here";
                return Err(Refusal::new(Class::Unsupported, "", why));
            }
        };
        Ok((value, worth))
    }
}
