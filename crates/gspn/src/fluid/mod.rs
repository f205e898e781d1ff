//! Nets with many tokens as flows: what means come to as populations grow, never printed without what finite ones say of it.
//!
//! Tokens become quantities that transitions move at `rate * min(servers, tokens / multiplicity of each input)` (Kurtz; Hillston).
//! Means of a population of N differ from that by about 1/sqrt(N) of themselves at most. How much is measured: two
//! smaller populations of the same net are solved exactly or simulated; their distance from their own flows must fall as they
//! grow, and says how far the whole one is off. It is no value, and answers nothing exactly.

mod course;
mod ends;
mod finite;
mod flow;

use std::collections::BTreeMap;

use serde::Serialize;

use self::course::{LESS, course};
use self::finite::{Finite, at, populations};
use self::flow::{Flow, float};
use crate::ask::{Ask, Question};
use crate::{Budget, Class, Net, Refusal};

/// How far the whole population may be off, relatively, for its flow to say anything.
const VALID: f64 = 0.1;
/// What other powers of the tokens may add to an error that is told from two of them.
const MARGIN: f64 = 1.1;
/// A relative distance that need not fall further.
const CLOSE: f64 = 1e-3;

/// What flows say of one question.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fluid {
    /// The mean as a flow.
    pub value: f64,
    /// How far the mean of the whole population may be from it, relatively, as smaller ones say.
    pub error: f64,
    /// The populations that say so.
    pub checked: Vec<Checked>,
}

/// A finite population.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Checked {
    /// All of its tokens.
    pub tokens: u64,
    /// Its mean.
    pub mean: f64,
    /// Half of the interval of its mean where it was simulated.
    pub half_width: f64,
    /// What its flows say.
    pub fluid: f64,
    /// `solved` or `simulated`.
    pub by: &'static str,
}

/// What flows say of all questions.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Fluids {
    /// By the question's name.
    pub fluid: BTreeMap<String, Fluid>,
    /// By the question's name: why flows say nothing.
    pub unanswered: BTreeMap<String, Refusal>,
}

/// What the flows of `net` say to `asks`: mean tokens and throughputs at a time.
///
/// # Errors
/// Where a transition is no flow ([`Class::Unsupported`], by name), the net gathers tokens without end ([`Class::Unbounded`], with the
/// firings) or is not known not to ([`Class::Unsupported`], with a place), it has too many nodes, or the budget ends.
pub fn fluid(net: &Net, asks: &[Ask], budget: &mut Budget<'_>) -> Result<Fluids, Refusal> {
    let flow = Flow::new(net)?;
    ends::check(net, budget)?;
    let (timed, others): (Vec<Ask>, Vec<Ask>) = asks.iter().cloned().partition(|ask| at(&ask.question).is_some());
    let mut found = Fluids::default();
    for ask in others {
        let why = "flows tell of mean tokens and throughputs at a time only";
        found.unanswered.insert(ask.id.clone(), Refusal::new(Class::Unsupported, &ask.id, why));
    }
    if timed.is_empty() {
        return Ok(found);
    }
    let times = times(&timed);
    let ((rough, earlier), (markings, end)) =
        (course(&flow, &times, false, budget)?, course(&flow, &times, true, budget)?);
    let known = |ask: &Ask| {
        at(&ask.question).is_some_and(|time| times.iter().zip(&rough).zip(&markings).any(|((it, _), _)| *it == time))
    };
    let (timed, late): (Vec<Ask>, Vec<Ask>) = timed.into_iter().partition(known);
    for ask in late {
        if let Some(refusal) = end.as_ref().or(earlier.as_ref()) {
            found.unanswered.insert(ask.id.clone(), Refusal { name: ask.id, ..refusal.clone() });
        }
    }
    let populations = populations(net, &timed, budget)?;
    let all = net.places().iter().fold(0_u64, |all, place| all.saturating_add(place.tokens));
    for (index, ask) in timed.iter().enumerate() {
        let at = |markings| value(&flow, &times, markings, &ask.question);
        let value = at(&markings).zip(at(&rough)).map(|(value, rough)| (value, (rough - value).abs() / (LESS - 1.0)));
        match value.map(|value| checked(value, all, index, &populations)) {
            Some(Ok(fluid)) => drop(found.fluid.insert(ask.id.clone(), fluid)),
            Some(Err(why)) => {
                found.unanswered.insert(ask.id.clone(), Refusal::new(Class::Unsupported, &ask.id, why));
            }
            None => {}
        }
    }
    Ok(found)
}

fn times(asks: &[Ask]) -> Vec<f64> {
    let mut times: Vec<f64> = asks.iter().filter_map(|ask| at(&ask.question)).collect();
    times.sort_by(f64::total_cmp);
    times.dedup();
    times
}

fn value(flow: &Flow, times: &[f64], markings: &[Vec<f64>], question: &Question) -> Option<f64> {
    let time = at(question)?;
    let marking = markings.get(times.iter().position(|other| *other == time)?)?;
    match question {
        Question::MeanTokens { place, .. } => Some(flow.tokens(*place, marking)),
        Question::Throughput { transition, .. } => Some(flow.throughput(*transition, marking)),
        _ => None,
    }
}

/// A distance as a part of what it is a distance of; none is none of nothing, too.
fn relative(distance: f64, of: f64) -> f64 {
    if distance == 0.0 { 0.0 } else { (distance / of).abs() }
}

/// How far a population of the square of `root` tokens may be off its flow, as a part of that, where two smaller ones, with such roots, are off
/// by so much, with a sign, and known to so much. What chance makes at a bend falls with one over the root of the tokens, and elsewhere with one
/// over the tokens: where these have different signs a small population may be off by next to nothing.
fn extrapolated(small: (f64, f64, f64), large: (f64, f64, f64), root: f64) -> f64 {
    let apart = 1.0 / small.0 - 1.0 / large.0;
    let parts = |small_off: f64, large_off: f64| {
        let (one, other) = (small_off * small.0, large_off * large.0);
        let fast = (one - other) / apart;
        ((other - fast / large.0).abs() + (fast / root).abs()) / root
    };
    [(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0)]
        .map(|(up, other)| parts(small.1 + up * small.2, large.1 + other * large.2))
        .into_iter()
        .fold(0.0, f64::max)
}

/// The value, which as a number is so far `off`, with its error, or why it says nothing.
fn checked((value, off): (f64, f64), all: u64, question: usize, populations: &[Finite]) -> Result<Fluid, String> {
    let mut checked = Vec::new();
    let mut errors: Vec<f64> = Vec::new();
    let mut error = 0.0_f64;
    let mut signed: Vec<(f64, f64, f64)> = Vec::new();
    for finite in populations {
        let Some((mean, half_width, fluid)) = finite.values.get(question).copied().flatten() else {
            return Err(format!("a population of {} tokens was neither solved nor simulated", finite.tokens));
        };
        let far = relative((mean - fluid).abs() + half_width, fluid);
        errors.push(far);
        // It falls with one over the root of the tokens, or faster.
        error = error.max(far * (float(finite.tokens.max(1)) / float(all.max(1))).sqrt());
        let off = |distance: f64| if distance == 0.0 { 0.0 } else { distance / fluid.abs() };
        signed.push((float(finite.tokens.max(1)).sqrt(), off(mean - fluid), off(half_width)));
        let by = if finite.exact { "solved" } else { "simulated" };
        checked.push(Checked { tokens: finite.tokens, mean, half_width, fluid, by });
    }
    if let [small, large] = errors.as_slice()
        && *large > (0.8 * small).max(CLOSE)
    {
        return Err(format!(
            "the flow is not where populations tend to: of {} tokens it is {small:.1e} off, of {} still {large:.1e}",
            checked[0].tokens, checked[1].tokens
        ));
    }
    if let [small, large] = signed.as_slice() {
        error = error.max(MARGIN * extrapolated(*small, *large, float(all.max(1)).sqrt()));
    }
    // Neither falls with the tokens: how far the equations are off, and how differently the larger of the small ones flows, where its servers
    // could not be divided as its tokens were.
    let scaled = checked.last().map_or(value, |it| it.fluid * (float(all) / float(it.tokens.max(1))));
    error += relative(off, value) + relative(scaled - value, value);
    if error.is_nan() || error > VALID {
        return Err(format!("{all} tokens are too few for a flow: it may be {error:.1e} off, relatively"));
    }
    Ok(Fluid { value, error, checked })
}
