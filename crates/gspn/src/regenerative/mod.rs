//! Nets with fixed times, as they are: no phases stand for them. At most one of them runs at once, so that where one begins nothing of
//! the past counts: the net is a Markov regenerative process (a deterministic and stochastic Petri net, M. Ajmone Marsan and G. Chiola).
//!
//! In the long run and until something happens it is the chain of its regenerations (`embedded`), at a time a cascade of functions that
//! fixed times shift (`cascade`). Both need what happens while a fixed time runs (`course`). What takes too much, or cannot be told
//! apart from rounding, is left for phases.

mod cascade;
mod course;
mod embedded;
mod quantile;
mod slope;
mod system;

use hashbrown::HashMap;

use self::cascade::{Cascade, Found, Reward};
use self::course::{Courses, courses};
use self::embedded::{Embedded, LongRun};
use self::system::System;
use crate::ask::{
    Answer, Ask, Checks, Condition, Flows, PART, Question, Solution, Value, certainly, is_passage, structural,
};
use crate::chain::Reached;
use crate::explore::explore_apart;
use crate::net::Net;
use crate::{Budget, Class, Refusal};

/// What an edge costs to be explored, in multiplications, and after how many of them the questions that are left are left to phases.
const EXPLORED: f64 = 500.0;
const ENOUGH: f64 = 1e10;
/// What values may be off by the steps that lead to them, relatively: sums of many numbers above 0.
const ROUNDED: f64 = 1e-9;
/// What may be off of a value at a time, relatively, that is said.
const KNOWN: f64 = 1e-2;
/// Questions about times that are summed up side by side, and how much earlier a time must be to be tried where a later one took too much.
const TOGETHER: usize = 16;
const EARLIER: f64 = 0.8;

/// What is known without phases.
pub(crate) struct Regenerative {
    pub(crate) answer: Answer,
    /// Questions that are left.
    pub(crate) left: Vec<Ask>,
    /// Of these, those whose value is no more than so much.
    pub(crate) at_most: Vec<(String, f64)>,
    /// Multiplications that it took, about.
    effort: f64,
}

impl Regenerative {
    /// Answers what can be answered without phases.
    ///
    /// # Errors
    /// When the net has no end or is larger than the budget.
    pub(crate) fn new(net: &Net, asks: &[Ask], budget: &mut Budget<'_>) -> Result<Self, Refusal> {
        let mut counted: Vec<usize> = asks
            .iter()
            .filter_map(|ask| match &ask.question {
                Question::Throughput { transition, .. } => Some(*transition),
                _ => None,
            })
            .collect();
        counted.sort_unstable();
        counted.dedup();
        let mut known = Self { answer: Answer::default(), left: Vec::new(), at_most: Vec::new(), effort: 0.0 };
        let space = match explore_apart(net, &counted, budget) {
            Ok(space) => space,
            // What firings are counted behind which fixed time takes more here than it does with phases.
            Err(refusal) if refusal.class == Class::TooLarge && refusal.name == "memory" => {
                known.left = asks.to_vec();
                return Ok(known);
            }
            Err(refusal) => return Err(refusal),
        };
        let solution = Solution::new(space);
        let budget = &mut budget.beside(solution.held() + solution.space.chain().bytes());
        let Some(system) = System::new(net, &solution.space) else {
            known.left = asks.to_vec();
            return Ok(known);
        };
        #[expect(clippy::cast_precision_loss, reason = "an estimate of work")]
        let effort = EXPLORED * (1.0 + solution.space.chain().edges() as f64);
        let mut solver = Solver { net, solution: &solution, system, whole: None, long_run: None, effort };
        let mut said: HashMap<String, Said> = HashMap::new();
        // What takes the least, and gives the most answers, first.
        let (dear, cheap): (Vec<&Ask>, Vec<&Ask>) =
            asks.iter().filter(|ask| at(&ask.question).is_none()).partition(|ask| is_alone(&ask.question));
        for ask in cheap {
            said.insert(ask.id.clone(), solver.said(&ask.question, budget).unwrap_or(Said::Nothing));
        }
        // Whether passages take too much does not hang on what times have taken.
        let effort = solver.effort;
        said.extend(solver.at_times(asks, budget));
        let of_times = std::mem::replace(&mut solver.effort, effort) - effort;
        // What takes all the time that it has leaves some to what is asked after it, derivatives among that, and to phases.
        let part = if asks.len() == 1 { 1.0 } else { PART };
        budget.part(part, |budget| {
            for (at, ask) in dear.iter().enumerate() {
                #[expect(clippy::cast_precision_loss, reason = "a share of time")]
                let part = 1.0 / (dear.len() - at) as f64;
                let found = budget.part(part, |budget| solver.said(&ask.question, budget));
                said.insert(ask.id.clone(), found.unwrap_or(Said::Nothing));
            }
        });
        known.effort = solver.effort + of_times;
        said.extend(budget.part(PART, |budget| slope::slopes(net, asks, budget)));
        for ask in asks {
            known.put(ask, said.remove(&ask.id).unwrap_or(Said::Nothing));
        }
        if let Some(Some((_, checks))) = solver.long_run {
            known.answer.checks = checks;
        }
        Ok(known)
    }

    fn put(&mut self, ask: &Ask, said: Said) {
        let Self { answer, left, at_most, .. } = self;
        match said {
            Said::Exact(value) => drop(answer.values.insert(ask.id.clone(), value)),
            Said::Known { value, error, method } if value.is_finite() => {
                answer.values.insert(ask.id.clone(), Value::Number(value));
                answer.error.insert(ask.id.clone(), error);
                answer.method.insert(ask.id.clone(), method.to_owned());
            }
            Said::Refused(mut refusal) => {
                refusal.name.clone_from(&ask.id);
                answer.unanswered.insert(ask.id.clone(), refusal);
            }
            Said::AtMost(most) => {
                at_most.push((ask.id.clone(), most));
                left.push(ask.clone());
            }
            Said::Known { .. } | Said::Nothing => left.push(ask.clone()),
        }
    }
}

/// What is said of a question.
#[derive(Debug, Clone)]
enum Said {
    Exact(Value),
    Known {
        value: f64,
        error: f64,
        method: &'static str,
    },
    /// Nobody can say more.
    Refused(Refusal),
    /// The value cannot be told from rounding, and is no more than this.
    AtMost(f64),
    Nothing,
}

const BY_REGENERATIONS: &str = "chain of regenerations";
const BY_CASCADE: &str = "functions shifted by fixed times";

/// What is worked out once.
struct Solver<'a> {
    net: &'a Net,
    solution: &'a Solution,
    system: System<'a>,
    /// Regenerations and the courses from them, once they were looked for; nothing where they take too much.
    whole: Option<Option<(Vec<bool>, Courses)>>,
    long_run: Option<Option<(LongRun, Checks)>>,
    /// Multiplications so far, about.
    effort: f64,
}

impl<'a> Solver<'a> {
    /// What is said of a question that asks for no time. An error leaves it to phases.
    fn said(&mut self, question: &Question, budget: &mut Budget<'_>) -> Result<Said, Refusal> {
        let space = &self.solution.space;
        if is_alone(question) && self.effort > ENOUGH {
            return Ok(Said::Nothing);
        }
        Ok(match question {
            Question::Tangible => Said::Exact(Value::Count(space.tangible() as u64)),
            Question::Vanishing => Said::Exact(Value::Count(space.vanishing() as u64)),
            #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
            Question::Deadlocks => Said::Exact(Value::Count(
                self.system.deadlocks(|state| space.marking_of(state as u32), space.tangible()),
            )),
            Question::BottomComponents => Said::Exact(Value::Count(self.system.closed().1 as u64)),
            Question::Bound { place } => Said::Exact(Value::Count(space.bound(*place))),
            Question::InitialProbability { condition } => {
                Said::Exact(Value::Number(self.solution.initially(condition)))
            }
            Question::MeanTokens { at: None, .. }
            | Question::Probability { at: None, .. }
            | Question::Throughput { at: None, .. } => {
                let reward = self.reward(question);
                let error = self.error(budget)?;
                self.long_run(budget)?.map_or(Said::Nothing, |found| Said::Known {
                    value: dot(&found.distribution, &reward.states) + dot(&found.ends, &reward.ends),
                    error,
                    method: BY_REGENERATIONS,
                })
            }
            Question::TimeToAbsorption => {
                let (closed, _) = self.system.closed();
                match self.reached(&closed, budget)? {
                    Some((reached, error)) => Said::Known { value: reached.mean, error, method: BY_REGENERATIONS },
                    None => Said::Nothing,
                }
            }
            Question::PassageMean { condition } => self.passage_mean(condition, budget)?,
            Question::PassageQuantile { condition, level } => self.quantile(condition, *level, budget)?,
            Question::Sensitivity { of, .. } if structural(of) => Said::Exact(Value::Number(0.0)),
            // Those at a time are asked for together, and so are derivatives.
            Question::MeanTokens { .. }
            | Question::Probability { .. }
            | Question::Throughput { .. }
            | Question::Sensitivity { .. } => Said::Nothing,
        })
    }

    /// What may be off of all that comes from courses, relatively.
    fn error(&mut self, budget: &mut Budget<'_>) -> Result<f64, Refusal> {
        Ok(ROUNDED + self.whole(budget)?.map_or(0.0, |(_, courses)| courses.off))
    }

    fn whole(&mut self, budget: &mut Budget<'_>) -> Result<Option<&(Vec<bool>, Courses)>, Refusal> {
        if self.whole.is_none() {
            let starts = self.system.regenerations();
            let courses = courses(&self.system, &starts, budget)?;
            self.effort += courses.as_ref().map_or(0.0, |courses| courses.work);
            self.whole = Some(courses.map(|courses| (starts, courses)));
        }
        Ok(self.whole.as_ref().and_then(Option::as_ref))
    }

    /// The long run, where it passes its checks.
    fn long_run(&mut self, budget: &mut Budget<'_>) -> Result<Option<&LongRun>, Refusal> {
        if self.long_run.is_none() {
            // Asked for once, whatever comes of it.
            self.long_run = Some(None);
            self.long_run = Some(self.solved(budget)?);
        }
        Ok(self.long_run.as_ref().and_then(Option::as_ref).map(|(found, _)| found))
    }

    fn solved(&mut self, budget: &mut Budget<'_>) -> Result<Option<(LongRun, Checks)>, Refusal> {
        self.whole(budget)?;
        let Some(Some((starts, courses))) = &self.whole else { return Ok(None) };
        let Some(embedded) = Embedded::new(&self.system, starts, &courses.all, budget) else { return Ok(None) };
        self.effort += embedded.work();
        let found = embedded.long_run(&self.system, &courses.all, budget)?;
        let (closed, classes) = self.system.closed();
        let inside = |(share, closed): (&f64, &bool)| *share == 0.0 || *closed;
        if found.bottoms != classes || !found.distribution.iter().zip(&closed).all(inside) {
            // A way out is too rare for a number.
            return Ok(None);
        }
        let checks = self.solution.balanced(self.net, &flows(&self.system, &found), budget)?;
        Ok(Some((found, checks)))
    }

    /// How the states that `goal` names are reached, and what may be off of it, relatively.
    fn reached(&mut self, goal: &[bool], budget: &mut Budget<'_>) -> Result<Option<(Reached, f64)>, Refusal> {
        Ok(self.entered(goal, budget)?.map(|entered| (entered.reached, ROUNDED + entered.courses.off)))
    }

    /// The system that ends in the states that `goal` names; nothing where that takes too much, or a way is too rare for a number.
    fn entered(&mut self, goal: &[bool], budget: &mut Budget<'_>) -> Result<Option<Entered<'a>>, Refusal> {
        let system = self.system.ending(goal);
        let starts = system.regenerations();
        let Some(courses) = courses(&system, &starts, budget)? else { return Ok(None) };
        let Some(embedded) = Embedded::new(&system, &starts, &courses.all, budget) else { return Ok(None) };
        self.effort += courses.work + embedded.work();
        let reached = embedded.passage(goal, budget)?;
        let (closed, _) = system.closed();
        let certain = closed.iter().zip(goal).all(|(closed, goal)| !closed || *goal);
        Ok((certain == reached.certain).then_some(Entered { system, courses, reached }))
    }

    fn passage_mean(&mut self, condition: &Condition, budget: &mut Budget<'_>) -> Result<Said, Refusal> {
        let Some((reached, error)) = self.reached(&self.solution.holds(condition), budget)? else {
            return Ok(Said::Nothing);
        };
        Ok(match certainly(&reached) {
            Ok(value) => Said::Known { value, error, method: BY_REGENERATIONS },
            Err(refusal) => Said::Refused(refusal),
        })
    }

    /// What is said of those of `asks` that ask for a time. What an error ends is left to phases.
    fn at_times(&mut self, asks: &[Ask], budget: &mut Budget<'_>) -> Vec<(String, Said)> {
        let mut asked: Vec<(&Ask, f64)> = asks.iter().filter_map(|ask| Some((ask, at(&ask.question)?))).collect();
        let mut said = Vec::new();
        let Ok(error) = self.error(budget) else { return said };
        if asked.is_empty() || self.whole.as_ref().is_none_or(Option::is_none) {
            return said;
        }
        // The latest first. What takes too much is not tried again a little earlier.
        asked.sort_by(|one, other| other.1.total_cmp(&one.1));
        let mut within = f64::INFINITY;
        for some in asked.chunks(TOGETHER) {
            let mut parts = vec![some];
            while let Some(part) = parts.pop() {
                let from = part.partition_point(|(_, time)| *time > within);
                let part = &part[from..];
                let Some((_, latest)) = part.first() else { continue };
                if self.effort > ENOUGH {
                    return said;
                }
                match self.told(part, error, budget) {
                    Ok(Some(more)) => said.extend(more),
                    // Fewer take less.
                    Ok(None) if part.len() > 1 => {
                        let (first, second) = part.split_at(part.len() / 2);
                        parts.extend([second, first]);
                    }
                    Ok(None) => within = EARLIER * latest,
                    Err(_) => return said,
                }
            }
        }
        said
    }

    /// What is said of some questions, of which the first asks for the latest time; nothing where that takes too much.
    fn told(
        &mut self,
        asked: &[(&Ask, f64)],
        error: f64,
        budget: &mut Budget<'_>,
    ) -> Result<Option<Vec<(String, Said)>>, Refusal> {
        let (Some(Some((_, courses))), Some((_, latest))) = (&self.whole, asked.first()) else { return Ok(None) };
        let (mut rewards, mut of): (Vec<Reward>, Vec<usize>) = (Vec::new(), Vec::new());
        for (ask, _) in asked {
            let reward = self.reward(&ask.question);
            let known = rewards.iter().position(|known| *known == reward);
            of.push(known.unwrap_or(rewards.len()));
            if known.is_none() {
                rewards.push(reward);
            }
        }
        let Some(cascade) = Cascade::new(&self.system, &courses.all, &rewards, *latest, budget)? else {
            return Ok(None);
        };
        let said = asked.iter().zip(of).map(|((ask, time), reward)| {
            let probability = matches!(ask.question, Question::Probability { .. });
            (ask.id.clone(), told(cascade.at(reward, *time), probability, error))
        });
        let said = said.collect();
        self.effort += cascade.work;
        Ok(Some(said))
    }

    /// What a question sums up.
    fn reward(&self, question: &Question) -> Reward {
        let none = || vec![0.0; self.system.runs.len()];
        let states = match question {
            Question::MeanTokens { place, .. } => self.solution.tokens(*place),
            Question::Probability { condition, .. } => {
                self.solution.holds(condition).into_iter().map(|holds| if holds { 1.0 } else { 0.0 }).collect()
            }
            Question::Throughput { transition, .. } => return self.firings(*transition),
            _ => none(),
        };
        Reward { states, ends: none() }
    }

    fn firings(&self, transition: usize) -> Reward {
        let mut ends = vec![0.0; self.system.runs.len()];
        for (state, times) in ends.iter_mut().enumerate() {
            let Some(clock) = self.system.clock(state) else { continue };
            let own = if clock.transition == transition { 1.0 } else { 0.0 };
            *times = clock.fired(transition).map_or(own, |fired| fired[state]);
        }
        let fixed = self.system.clocks.iter().any(|clock| clock.transition == transition);
        let states = if fixed { vec![0.0; ends.len()] } else { self.solution.space.rates(transition) };
        Reward { states, ends }
    }
}

/// What is said of what was found at a time; `error` may be off of all values, relatively.
fn told(found: Found, probability: bool, error: f64) -> Said {
    match found {
        Found::Value(value, 0.0) if value == 0.0 => Said::Known { value, error: 0.0, method: BY_CASCADE },
        Found::Value(value, off) if value > 0.0 && error + off / value <= KNOWN => {
            let error = error + off / value;
            Said::Known { value: if probability { value.min(1.0) } else { value }, error, method: BY_CASCADE }
        }
        Found::Value(value, off) => Said::AtMost(value.max(0.0) + 2.0 * off),
        Found::Step(before, behind) => {
            let why = format!(
                "it jumps from {before:.9} to {behind:.9} at this time: ask for one a little before or behind it"
            );
            Said::Refused(Refusal::new(Class::Unsupported, "", why))
        }
        Found::Burst => {
            let why = "it fires right at this time with a probability above 0: ask for a time before or behind it";
            Said::Refused(Refusal::new(Class::Unsupported, "", why))
        }
    }
}

/// What ends in some states, and how it comes there.
struct Entered<'a> {
    system: System<'a>,
    courses: Courses,
    reached: Reached,
}

/// Whether a question needs equations of its own.
fn is_alone(question: &Question) -> bool {
    matches!(question, Question::TimeToAbsorption) || is_passage(question)
}

/// What flows into the states and out of them.
fn flows<'a>(system: &System<'_>, found: &'a LongRun) -> Flows<'a> {
    let mut gains = vec![0.0; system.runs.len()];
    let mut out = vec![0.0; system.runs.len()];
    for (state, (share, ends)) in found.distribution.iter().zip(&found.ends).enumerate() {
        out[state] = share * system.chain.exit(state) + ends;
        gains[state] -= out[state];
        system.chain.row(state).for_each(|(to, rate)| gains[to] += share * rate);
        let leads = system.clock(state).into_iter().flat_map(|clock| clock.leads(state));
        leads.for_each(|(to, part)| gains[to] += ends * part);
    }
    let largest =
        |of: &[f64]| of.iter().fold(0.0, |most: f64, it| if it.is_nan() { f64::INFINITY } else { most.max(it.abs()) });
    let (off, most) = (largest(&gains), largest(&out));
    Flows { distribution: &found.distribution, residual: if most > 0.0 { off / most } else { 0.0 }, gains, out }
}

/// The time that a question asks for.
fn at(question: &Question) -> Option<f64> {
    match question {
        Question::MeanTokens { at, .. } | Question::Probability { at, .. } | Question::Throughput { at, .. } => *at,
        _ => None,
    }
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    crate::chain::sum(one.iter().zip(other).map(|(one, other)| one * other))
}
