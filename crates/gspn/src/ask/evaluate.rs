//! From questions to numbers.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::derivatives::{Derives, structural};
use super::phases;
use super::solution::Solution;
use super::{Answer, Ask, Checks, Question, Value};
use crate::Budget;
use crate::chain::{Reached, said_as_zero};
use crate::explore::{Aim, explore_for};
use crate::lump::{self, Lumped};
use crate::net::{Kind, Net, invariants};
use crate::product::Product;
use crate::regenerative::Regenerative;
use crate::{Class, Limits, Progress, Refusal};

/// Phases that stand for a fixed time: the first try. Each further try has twice as many.
const STAGES: u32 = 8;
/// The most that are tried.
const MOST_STAGES: u32 = 512;
/// How far two tries in a row may differ, relatively.
const CLOSE: f64 = 1e-3;

/// Answers `asks` about `net`: by exploring it, or by its product form where it has one and too many markings.
///
/// # Errors
/// When nothing can be answered, because the net has no end or is larger than the budget. A question that has no answer by
/// itself stands in [`Answer::unanswered`].
pub fn answer(net: &Net, asks: &[Ask], budget: &mut Budget<'_>) -> Result<Answer, Refusal> {
    match Product::of(net) {
        Some(product) => {
            let alike = |asks: &[Ask], refusal: Refusal, budget: &mut Budget<'_>| {
                lumped(net, asks, budget, |_, _| Err(refusal))
            };
            product.answer(asks, budget, alike, |asks, budget| explored(net, asks, budget))
        }
        None => explored(net, asks, budget),
    }
}

fn explored(net: &Net, asks: &[Ask], budget: &mut Budget<'_>) -> Result<Answer, Refusal> {
    let fixed = net.transitions().iter().any(|transition| matches!(transition.kind, Kind::Deterministic { .. }));
    if fixed { clocks(net, asks, budget) } else { lumped(net, asks, budget, |asks, budget| plain(net, asks, budget)) }
}

/// Explores one of all markings that are alike; what cannot be known so, by `explore`.
fn lumped(
    net: &Net,
    asks: &[Ask],
    budget: &mut Budget<'_>,
    explore: impl FnOnce(&[Ask], &mut Budget<'_>) -> Result<Answer, Refusal>,
) -> Result<Answer, Refusal> {
    let answer = match Lumped::of(net, asks) {
        Some(lumped) => lumped.answer(net, asks, budget, explore),
        None => explore(asks, budget),
    };
    answer.or_else(|refusal| apart(net, asks, refusal, budget))
}

/// Answers what names no replica by itself, and whatever does by what it names: all together kept too many replicas apart.
///
/// # Errors
/// `refusal`, where nothing can be answered in this way.
fn apart(net: &Net, asks: &[Ask], refusal: Refusal, budget: &mut Budget<'_>) -> Result<Answer, Refusal> {
    // What names the same is answered together.
    let mut groups: Vec<(Vec<usize>, Vec<Ask>)> = vec![(Vec::new(), Vec::new())];
    for ask in asks {
        let names = lump::named(&ask.question, net);
        match groups.iter_mut().find(|(known, _)| *known == names) {
            Some((_, group)) => group.push(ask.clone()),
            None => groups.push((names, vec![ask.clone()])),
        }
    }
    groups.retain(|(_, group)| !group.is_empty());
    if refusal.class != Class::TooLarge || groups.len() < 2 {
        return Err(refusal);
    }
    let mut all = Answer::default();
    for (_, group) in groups {
        // To find out what is alike takes time, too, and time that ends takes nothing away from what is known.
        let in_time = budget.look(Progress::Exploring { tangible: 0, done: 0, vanishing: 0, edges: 0 });
        let lumped = in_time.and_then(|()| Lumped::of(net, &group).ok_or_else(|| refusal.clone()));
        let answer = lumped.and_then(|lumped| lumped.answer(net, &group, budget, |_, _| Err(refusal.clone())));
        match answer {
            Ok(answer) => all.extend(answer),
            Err(refusal) => all.unanswered.extend(group.into_iter().map(|ask| (ask.id, refusal.clone()))),
        }
    }
    if all.values.is_empty() { Err(refusal) } else { Ok(all) }
}

/// Explores every marking.
fn plain(net: &Net, asks: &[Ask], budget: &mut Budget<'_>) -> Result<Answer, Refusal> {
    Solved::new(net, asks, 1, budget)?.answer(net, asks, budget)
}

/// Answers without phases for fixed times, and with them where that takes too much.
fn clocks(net: &Net, asks: &[Ask], budget: &mut Budget<'_>) -> Result<Answer, Refusal> {
    let Regenerative { mut answer, left, at_most, .. } = Regenerative::new(net, asks, budget)?;
    if left.is_empty() {
        return Ok(answer);
    }
    // One solution answers most questions, and each passage needs its own: those are asked apart, and last.
    let (passages, other): (Vec<Ask>, Vec<Ask>) = left.into_iter().partition(|ask| is_passage(&ask.question));
    let parts = [(other, if passages.is_empty() { 1.0 } else { PART }), (passages, 1.0)];
    let (mut refused, mut any) = (None, !answer.values.is_empty());
    for (left, part) in parts.into_iter().filter(|(left, _)| !left.is_empty()) {
        match budget.part(part, |budget| stages(net, &left, budget)) {
            Ok(others) => {
                any = true;
                answer.extend(others);
            }
            Err(refusal) => {
                let refusal = in_phases(refusal);
                answer.unanswered.extend(left.into_iter().map(|ask| (ask.id, refusal.clone())));
                refused = Some(refusal);
            }
        }
    }
    if let Some(refusal) = refused.filter(|_| !any) {
        return Err(refusal);
    }
    for (id, most) in at_most {
        let more = matches!(answer.values.get(&id), Some(Value::Number(value)) if value.abs() > most);
        if answer.unanswered.remove(&id).is_some() || more {
            answer.values.insert(id.clone(), Value::Number(0.0));
            answer.error.insert(id.clone(), 1.0);
            answer.method.insert(id, said_as_zero(most));
        }
    }
    Ok(answer)
}

/// Whether it is asked when something happens first, or for a derivative of that.
pub(crate) fn is_passage(question: &Question) -> bool {
    match question {
        Question::Sensitivity { of, .. } => is_passage(of),
        Question::PassageMean { .. } | Question::PassageQuantile { .. } => true,
        _ => false,
    }
}

/// The same refusal, where it is one for time: how far one of many explorations had come says nothing.
fn in_phases(refusal: Refusal) -> Refusal {
    if refusal.class != Class::TooLarge || refusal.name != "time" {
        return refusal;
    }
    let why = "the limit of time was reached while ever more phases stood for the fixed times: allow more time";
    Refusal::new(Class::TooLarge, "time", why)
}

/// Answers with ever more phases for a fixed time, and carries each value on to infinitely many.
fn stages(net: &Net, asks: &[Ask], budget: &mut Budget<'_>) -> Result<Answer, Refusal> {
    let mut stages = STAGES;
    let mut first = Solved::new(net, asks, stages, budget)?;
    let (jumps, delays) = (phases::jumps(net, &first.solution), phases::delays(net));
    // Of what cannot be told whether it is so late it is not said.
    let late = phases::late(net, asks, &mut first.solution, budget);
    let late = late.unwrap_or_else(|_| (0..asks.len()).filter(|index| phases::has_time(&asks[*index])).collect());
    let late: Vec<&String> = late.into_iter().map(|index| &asks[index].id).collect();
    let mut before = first.answer(net, asks, budget)?;
    let mut tried: HashMap<String, Vec<f64>> = HashMap::new();
    let note = |tried: &mut HashMap<String, Vec<f64>>, answer: &Answer| {
        for (id, value) in &answer.values {
            if let Value::Number(value) = value {
                tried.entry(id.clone()).or_default().push(*value);
            }
        }
    };
    note(&mut tried, &before);
    loop {
        stages *= 2;
        let solved = Solved::new(net, asks, stages, budget).and_then(|solved| solved.answer(net, asks, budget));
        let mut now = match solved {
            Ok(now) => now,
            Err(refusal) => return Ok(give_up(before, &in_phases(refusal))),
        };
        note(&mut tried, &now);
        let carried = |ask: &Ask| {
            let values = tried.get(&ask.id).filter(|_| matches!(now.values.get(&ask.id), Some(Value::Number(_))))?;
            Some((ask.id.clone(), phases::carried(&ask.question, values, stages, &jumps, &delays)))
        };
        let all: Vec<(String, (f64, f64))> = asks.iter().filter_map(carried).collect();
        let worst = all.iter().map(|(_, (_, error))| *error).fold(0.0, f64::max);
        if worst <= CLOSE || stages >= MOST_STAGES {
            for (id, (limit, error)) in all {
                now.error.remove(&id);
                now.method.remove(&id);
                if late.contains(&&id) {
                    now.values.remove(&id);
                    // A simulation counts what fires at one time by its rate.
                    let no_rate = |ask: &Ask| match ask.question {
                        Question::Throughput { transition, .. } => {
                            !matches!(net.transitions()[transition].kind, Kind::Timed { .. })
                        }
                        _ => false,
                    };
                    let instead = match asks.iter().find(|ask| ask.id == id) {
                        Some(ask) if no_rate(ask) => "ask for an earlier time",
                        _ => "`simulate` answers it",
                    };
                    let why = format!(
                        "so many fixed times may have ended by then that phases do not keep their step: {instead}"
                    );
                    now.unanswered.insert(id.clone(), Refusal::new(Class::Unsupported, &id, why));
                } else if error <= 10.0 * CLOSE && limit.is_finite() {
                    now.values.insert(id.clone(), Value::Number(limit));
                    now.error.insert(id.clone(), error);
                    let how = format!("{} and {stages} exponential phases, carried on to infinitely many", stages / 2);
                    now.method.insert(id, how);
                } else {
                    now.values.remove(&id);
                    let why = if !limit.is_finite() {
                        "the value is more than a number can say".to_owned()
                    } else if error.is_finite() {
                        format!("{stages} phases for the fixed time are still {error:.1e} off, relatively")
                    } else {
                        format!(
                            "{stages} phases for the fixed time do not settle: it jumps near this time, or may do so"
                        )
                    };
                    now.unanswered.insert(id.clone(), Refusal::new(Class::Unsupported, &id, why));
                }
            }
            let known = &now.method;
            now.error.retain(|id, _| known.contains_key(id));
            return Ok(now);
        }
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

/// What each but the last of several solutions may take of the time that is left.
pub(crate) const PART: f64 = 0.75;

/// Whoever answers questions from one exploration.
pub(crate) trait Answers {
    fn value(&mut self, question: &Question, budget: &mut Budget<'_>) -> Result<Value, Refusal>;
    fn solution(&mut self) -> &mut Solution;
    /// [`Solution::check`]
    fn check(&self, budget: &mut Budget<'_>) -> Result<Checks, Refusal>;
}

/// Answers `asks`: first what is had from the markings, then what one solution says, and what needs one by itself at the end. What never
/// ends must not take the time of the others, and time that ends takes nothing away from what is known. What hangs on states that are hardly
/// ever taken is asked again at the end. Beside the answer stands why the long run does not pass its checks, if it does not.
pub(crate) fn in_turn(it: &mut impl Answers, asks: &[Ask], budget: &mut Budget<'_>) -> (Answer, Option<Refusal>) {
    let mut order: Vec<((u8, u64, bool), &Ask)> = asks.iter().map(|ask| (turn(&ask.question), ask)).collect();
    // Derivatives of one value stand together.
    let mut values: Vec<&Question> = Vec::new();
    order.sort_by_cached_key(|(turn, ask)| {
        let Question::Sensitivity { of, .. } = &ask.question else { return (*turn, 0) };
        let known = values.iter().position(|value| *value == &**of);
        (
            *turn,
            known.unwrap_or_else(|| {
                values.push(of);
                values.len() - 1
            }),
        )
    });
    let last = order.last().map(|((turn, at, _), _)| (*turn, *at));
    let (mut answer, mut failed, mut checked) = (Answer::default(), None, false);
    let (mut order, mut again) = (VecDeque::from(order), VecDeque::new());
    it.solution().puts_off = true;
    while let Some(((turn, at, more), ask)) = order.pop_front() {
        let done = answer.values.len() as u64;
        let part = if last == Some((turn, at)) { 1.0 } else { PART };
        let value = budget.part(part, |budget| {
            let in_time = budget.look(Progress::Answering { done });
            in_time.or_else(|refusal| if at_once(&ask.question) { Ok(()) } else { Err(refusal) })?;
            it.solution().make_room(at, budget);
            let budget = &mut budget.beside(it.solution().held());
            let value = it.value(&ask.question, budget)?;
            if !checked && matches!(it.solution().known, Some(Ok(_))) {
                checked = true;
                match it.check(budget) {
                    Ok(checks) => answer.checks = checks,
                    // What is not checked is not known.
                    Err(refusal) if refusal.class == Class::TooLarge => {
                        it.solution().known = Some(Err(refusal.clone()));
                        return Err(refusal);
                    }
                    Err(refusal) => failed = Some(refusal),
                }
            }
            Ok(value)
        });
        if std::mem::take(&mut it.solution().put_off) {
            again.push_back(((turn, at, more), ask));
        } else {
            it.solution().put(&mut answer, ask, value);
        }
        if order.is_empty() {
            it.solution().puts_off = false;
            order = std::mem::take(&mut again);
        }
    }
    it.solution().puts_off = false;
    (answer, failed)
}

/// What was explored marking by marking.
struct Plain<'a> {
    solved: &'a mut Solved,
    net: &'a Net,
}

impl Answers for Plain<'_> {
    fn value(&mut self, question: &Question, budget: &mut Budget<'_>) -> Result<Value, Refusal> {
        self.solved.value(self.net, question, budget)
    }

    fn solution(&mut self) -> &mut Solution {
        &mut self.solved.solution
    }

    fn check(&self, budget: &mut Budget<'_>) -> Result<Checks, Refusal> {
        self.solved.solution.check(self.net, None, budget)
    }
}

impl Derives for Plain<'_> {
    fn net(&self) -> &Net {
        self.net
    }

    fn reward(&self, question: &Question) -> Vec<f64> {
        self.solved.reward(question)
    }

    fn alike<'a>(&'a self, transition: &'a usize) -> &'a [usize] {
        std::slice::from_ref(transition)
    }
}

/// When a question has its turn: equal in the first two are those that one solution answers.
fn turn(question: &Question) -> (u8, u64, bool) {
    match question {
        Question::Tangible | Question::Vanishing => (0, 0, false),
        Question::Deadlocks | Question::Bound { .. } | Question::InitialProbability { .. } => (0, 0, true),
        // Closed classes are known with the long run, and without it.
        Question::BottomComponents => (1, 0, true),
        Question::TimeToAbsorption => (1, 0, false),
        Question::MeanTokens { at, .. } | Question::Probability { at, .. } | Question::Throughput { at, .. } => {
            at.map_or((1, 0, false), |at| (2, at.to_bits(), false))
        }
        Question::PassageMean { .. } => (3, 0, false),
        Question::PassageQuantile { .. } => (4, 0, false),
        Question::Sensitivity { of, .. } => {
            let (of, at, last) = turn(of);
            (5 + of, at, last)
        }
    }
}

/// Whether it is answered at once when all markings are known: also when time is over.
fn at_once(question: &Question) -> bool {
    matches!(question, Question::Tangible | Question::Vanishing | Question::BottomComponents)
}

/// The transitions whose firings are asked for, with those of which the mean is meant, and those that are derived by.
pub(crate) fn fired(asks: &[Ask], alike: impl Fn(usize) -> Vec<usize>) -> (Vec<usize>, Vec<usize>) {
    let (mut counted, mut watched) = (Vec::new(), Vec::new());
    for ask in asks {
        let mut question = &ask.question;
        while let Question::Sensitivity { of, by } = question {
            question = of;
            watched.push(*by);
        }
        if let Question::Throughput { transition, .. } = question {
            counted.extend(alike(*transition));
        }
    }
    for indices in [&mut counted, &mut watched] {
        indices.sort_unstable();
        indices.dedup();
    }
    (counted, watched)
}

pub(super) struct Solved {
    pub(super) solution: Solution,
}

impl Solved {
    fn new(net: &Net, asks: &[Ask], stages: u32, budget: &mut Budget<'_>) -> Result<Self, Refusal> {
        let (counted, watched) = fired(asks, |transition| vec![transition]);
        // A net without questions is explored in full, and who allows few markings wants them counted.
        let counts = |ask: &Ask| matches!(ask.question, Question::Vanishing | Question::Bound { .. });
        let few = budget.limits().markings < Limits::default().markings;
        let aim = Aim {
            one_order: !(asks.is_empty() || few || asks.iter().any(counts)),
            counts: asks.iter().all(|ask| structural(&ask.question)),
        };
        let space = explore_for(aim, net, stages, &counted, &watched, budget)?;
        Ok(Self { solution: Solution::new(space) })
    }

    fn answer(mut self, net: &Net, asks: &[Ask], budget: &mut Budget<'_>) -> Result<Answer, Refusal> {
        let (answer, failed) = in_turn(&mut Plain { solved: &mut self, net }, asks, budget);
        Ok(match failed {
            Some(refusal) => give_up(answer, &refusal),
            None => answer,
        })
    }

    pub(super) fn value(&mut self, net: &Net, question: &Question, budget: &mut Budget<'_>) -> Result<Value, Refusal> {
        let Self { solution, .. } = self;
        Ok(match question {
            Question::Tangible => Value::Count(solution.space.tangible() as u64),
            Question::Vanishing => Value::Count(solution.space.vanishing() as u64),
            Question::Deadlocks => Value::Count(self.deadlocks()),
            Question::BottomComponents => Value::Count(solution.bottoms() as u64),
            Question::Bound { place } => Value::Count(solution.space.bound(*place)),
            Question::MeanTokens { at, .. } | Question::Probability { at, .. } | Question::Throughput { at, .. } => {
                let reward = self.reward(question);
                Value::Number(self.solution.mean(*at, &reward, budget)?)
            }
            Question::InitialProbability { condition } => Value::Number(solution.initially(condition)),
            Question::TimeToAbsorption => Value::Number(solution.time_to_bottom(budget)?),
            Question::PassageMean { condition } => Value::Number(certainly(&solution.passage(condition, budget)?)?),
            Question::PassageQuantile { condition, level } => {
                Value::Number(solution.quantile(condition, *level, budget)?)
            }
            Question::Sensitivity { of, by } => {
                Value::Number(Plain { solved: self, net }.sensitivity(of, *by, budget)?)
            }
        })
    }

    /// What a question sums up, state by state.
    pub(super) fn reward(&self, question: &Question) -> Vec<f64> {
        let Self { solution, .. } = self;
        match question {
            Question::MeanTokens { place, .. } => solution.tokens(*place),
            Question::Probability { condition, .. } => {
                solution.holds(condition).into_iter().map(|holds| if holds { 1.0 } else { 0.0 }).collect()
            }
            Question::Throughput { transition, .. } => solution.space.rates(*transition),
            _ => vec![0.0; solution.space.chain().len()],
        }
    }

    /// Markings that are never left for another marking.
    fn deadlocks(&self) -> u64 {
        let space = &self.solution.space;
        let chain = space.chain();
        let mut left = vec![false; space.tangible()];
        for state in 0..chain.len() {
            #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
            let marking = |state: usize| space.marking_of(state as u32);
            let own = marking(state);
            if chain.row(state).any(|(to, _)| marking(to) != own) {
                left[own as usize] = true;
            }
        }
        left.iter().filter(|left| !**left).count() as u64
    }
}

const NO_MEAN: &str = "so there is no mean time";

/// The mean time of a passage, if it is certain.
pub(crate) fn certainly(reached: &Reached) -> Result<f64, Refusal> {
    if reached.certain {
        return Ok(reached.mean);
    }
    let hardly = if reached.probability < 1.0 { "" } else { "less than " };
    let why = format!("it is ever reached with probability {hardly}{} only, {NO_MEAN}", reached.probability);
    Err(Refusal::new(Class::Unsupported, "", why))
}

/// Whether that is why there is none.
pub(crate) fn is_uncertain(refusal: &Refusal) -> bool {
    refusal.why.ends_with(NO_MEAN)
}

#[expect(clippy::cast_precision_loss, reason = "a check to eight digits")]
pub(crate) fn invariant_error(net: &Net, means: &[f64], budget: &mut Budget<'_>) -> Result<f64, Refusal> {
    let mut worst = 0.0_f64;
    for weights in invariants::places(net, budget)? {
        let (mut sum, mut start, mut size) = (0.0, 0.0, 0.0_f64);
        for (place, weight) in weights {
            let weight = weight as f64;
            let tokens = net.places()[place].tokens as f64;
            sum += weight * means[place];
            start += weight * tokens;
            size += weight.abs() * means[place].max(tokens);
        }
        if size > 0.0 {
            let off = (sum - start).abs() / size;
            worst = if off.is_nan() { f64::INFINITY } else { worst.max(off) };
        }
    }
    Ok(worst)
}
