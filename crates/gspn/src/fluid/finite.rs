//! Finite populations beside the flows: the same net with fewer tokens, solved exactly or simulated.

use super::course::course;
use super::flow::{Flow, float};
use crate::ask::{self, Ask, Question, Value};
use crate::net::{Kind, Net, Place, Rate, Servers, Transition, build};
use crate::simulate::{Plan, simulate};
use crate::{Budget, Limits, Refusal};

/// Markings up to which a finite population is solved exactly.
const EXACT: u64 = 20_000;
/// How finely others are simulated, and with how many firings.
const PLAN: Plan = Plan { relative: 2e-3, firings: 20_000_000, seed: 1 };
/// Tokens up to which a net itself is looked at where its servers cannot be divided.
const ITSELF: u64 = 100_000;
/// Tokens of the smallest population that is looked at, and how many times as many the larger one has.
const FEWEST: (u64, u64) = (8, 4);

/// A finite population, and what its flows say of it.
#[derive(Debug)]
pub(super) struct Finite {
    /// All tokens.
    pub(super) tokens: u64,
    /// By question: the value, how far it may be off, and what the flows say.
    pub(super) values: Vec<Option<(f64, f64, f64)>>,
    pub(super) exact: bool,
}

/// One or two populations: two smaller ones, where all tokens can be divided so often, and servers with them; else the net itself, or, where it
/// is too large for that, two with servers that are nearly divided.
pub(super) fn populations(net: &Net, asks: &[Ask], budget: &mut Budget<'_>) -> Result<Vec<Finite>, Refusal> {
    let all = net.places().iter().fold(0_u64, |all, place| all.saturating_add(place.tokens));
    let tokens = net.places().iter().fold(0, |common, place| gcd(common, place.tokens)).max(1);
    // A single server stays one, with less of its rate.
    let servers = net.transitions().iter().filter_map(|it| match it.kind {
        Kind::Timed { servers: Servers::Finite(servers), .. } if servers > 1 => Some(servers),
        _ => None,
    });
    let both = servers.fold(tokens, gcd);
    let chosen = match two(all, both) {
        [1, _] if all > ITSELF => two(all, tokens),
        chosen => chosen,
    };
    let chosen = if chosen[1] < chosen[0] { &chosen[..] } else { &[1] };
    chosen.iter().map(|by| finite(net, asks, *by, budget)).collect()
}

/// By what so many tokens, with `common` as a divisor, are divided for a small and for a larger population; twice by 1 for none.
fn two(all: u64, common: u64) -> [u64; 2] {
    let mut divisors: Vec<u64> = (1..=common.min(10_000_000)).filter(|by| common.is_multiple_of(*by)).collect();
    divisors.push(common);
    let small = |least: u64| divisors.iter().copied().filter(|by| all / by >= least).max().unwrap_or(1);
    let first = small(FEWEST.0);
    let second = small((all / first).saturating_mul(FEWEST.1));
    if second < first { [first, second] } else { [1, 1] }
}

fn gcd(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { gcd(other, one % other) }
}

fn finite(net: &Net, asks: &[Ask], by: u64, budget: &mut Budget<'_>) -> Result<Finite, Refusal> {
    let net = divided(net, by)?;
    let flow = Flow::new(&net)?;
    let times: Vec<f64> = super::times(asks);
    let (markings, _) = course(&flow, &times, false, budget)?;
    let flows = asks.iter().map(|ask| super::value(&flow, &times, &markings, &ask.question));
    let limits = Limits { markings: EXACT.min(budget.limits().markings), bytes: budget.limits().bytes };
    let solved = {
        let mut go_on = |progress| budget.look(progress).is_ok();
        ask::answer(&net, asks, &mut Budget::new(limits, &mut go_on))
    };
    let tokens = net.places().iter().fold(0_u64, |all, place| all.saturating_add(place.tokens));
    if let Ok(solved) = solved
        && solved.unanswered.is_empty()
    {
        let values = asks.iter().zip(flows).map(|(ask, flow)| match solved.values.get(&ask.id) {
            Some(Value::Number(value)) => Some((*value, 0.0, flow?)),
            _ => None,
        });
        return Ok(Finite { tokens, values: values.collect(), exact: true });
    }
    let found = simulate(&net, asks, PLAN, budget)?;
    let values = asks.iter().zip(flows).map(|(ask, flow)| {
        let estimate = found.estimates.get(&ask.id)?;
        Some((estimate.mean, estimate.half_width, flow?))
    });
    Ok(Finite { tokens, values: values.collect(), exact: false })
}

/// The net with tokens, and what its servers do per time unit, over `by`.
fn divided(net: &Net, by: u64) -> Result<Net, Refusal> {
    let places = net.places().iter().map(|it| Place { name: it.name.clone(), tokens: it.tokens / by });
    let transitions = net.transitions().iter().map(|it| {
        let kind = match &it.kind {
            Kind::Timed { rate, servers: Servers::Finite(servers) } if servers % by == 0 => {
                Kind::Timed { rate: rate.clone(), servers: Servers::Finite(servers / by) }
            }
            // As many as come next, and at least one, who do in all what the part of them would do.
            Kind::Timed { rate: Rate::Constant(rate), servers: Servers::Finite(servers) } => {
                let fewer = (servers / by + u64::from(servers % by > by / 2)).max(1);
                let rate = rate * (float(*servers) / float(by) / float(fewer));
                Kind::Timed { rate: Rate::Constant(rate), servers: Servers::Finite(fewer) }
            }
            kind => kind.clone(),
        };
        Transition { kind, ..it.clone() }
    });
    build(net.name(), places.collect(), transitions.collect())
}

/// A question of those that flows answer: when it is meant.
pub(super) fn at(question: &Question) -> Option<f64> {
    match question {
        Question::MeanTokens { at, .. } | Question::Throughput { at, .. } => *at,
        _ => None,
    }
}
