//! A model as it is, request by request as chance has them: for nets with more markings than can be looked at, and for percentiles.

use gspn::Budget;
use serde::Serialize;

use super::figures::{LEVELS, busy, is_one};
use super::service;
use super::simulated::{self, Figure, Simulated};
use crate::model::{Model, Workload};
use crate::solve::Busy;
use crate::{Class, Fault, net, weave};

/// What runs of a model showed. Times are seconds, rates are per second.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Followed {
    /// Requests that come to their end.
    pub throughput: Estimate,
    /// Requests that a check aborted.
    pub aborted: Estimate,
    /// Requests that found no room; an open workload only.
    pub turned_away: Estimate,
    /// Mean time from coming to the end, waiting included.
    pub mean: Estimate,
    /// Half of the requests are faster.
    pub p50: Estimate,
    /// 95 % are faster.
    pub p95: Estimate,
    /// 99 % are faster.
    pub p99: Estimate,
    /// For each node its share of busy cores.
    pub nodes: Vec<Busy>,
    /// What its random numbers come from.
    pub seed: u64,
    /// Runs that have nothing to do with each other.
    pub runs: usize,
    /// Requests of all runs, the start included.
    pub requests: usize,
}

/// A figure of runs, and half of its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// What the runs showed.
    pub value: f64,
    /// So far it may be off.
    pub plus_minus: f64,
}

impl From<Figure> for Estimate {
    fn from(figure: Figure) -> Self {
        Self { value: figure.value, plus_minus: figure.half }
    }
}

/// Follows requests one by one, with the random numbers of a seed ([`super::SEED`] is what `choose` takes), until the mean and the percentiles are
/// known to 1 % or four million have left.
///
/// # Errors
/// As [`net::lay`]; [`crate::Class::Unanswered`] where the runs did not come to figures within the budget.
pub fn follow(model: &Model, seed: u64, budget: &mut Budget<'_>) -> Result<Followed, Fault> {
    // Where nobody thinks and nothing takes time, all of it happens in one moment; where time passes between requests there is a long run.
    let (service, alone) = match model.workload {
        Workload::Closed { think, .. } if think <= 0.0 => service::service(model, budget)?,
        Workload::Closed { .. } | Workload::Open { .. } => service::any(model, budget)?,
    };
    let levels = LEVELS.map(|(_, level)| level);
    let seen = runs(model, is_one(model, &service, &alone), &levels, seed, budget).map_err(|fault| {
        if fault.name != "time" {
            return fault;
        }
        let why = "the limit of time was reached before so many requests had been followed that all figures are known: allow more time";
        Fault { why: why.to_owned(), ..fault }
    })?;
    let (flow, half) = seen.flow();
    if ![flow.rate, half.rate, seen.mean().value].iter().all(|figure| figure.is_finite()) {
        return Err(Fault::new(
            Class::Unanswered,
            "simulation",
            "its times are more than a number can say: write shorter ones",
        ));
    }
    let part = |of: f64| Estimate { value: flow.rate * of, plus_minus: half.rate * of };
    let nodes = model.nodes.iter().zip(busy(model, &service, flow.rate));
    let [p50, p95, p99] = levels.map(|level| seen.quantile(level).into());
    Ok(Followed {
        throughput: part(service.finished),
        aborted: part(service.aborted),
        turned_away: Estimate { value: flow.turned_away, plus_minus: half.turned_away },
        mean: seen.mean().into(),
        p50,
        p95,
        p99,
        nodes: nodes.map(|(it, utilisation)| Busy { node: it.name.clone(), utilisation }).collect(),
        seed,
        runs: seen.runs(),
        requests: seen.requests,
    })
}

/// Runs of a model. Where one request is served at a time, all that come stand in one line, as they do before a thread.
pub(super) fn runs(
    model: &Model,
    one: bool,
    levels: &[f64],
    seed: u64,
    budget: &mut Budget<'_>,
) -> Result<Simulated, Fault> {
    let mut secured = weave(model);
    if one {
        let line = match model.workload {
            Workload::Open { rate, room, .. } => Workload::Open { rate, room, threads: Some(1) },
            Workload::Closed { clients, think, .. } => Workload::Closed { clients, think, threads: Some(1) },
        };
        secured = secured.of(line);
    }
    let load = secured.model().workload;
    simulated::drawn(&net::lay_as(&secured, net::Form::Shared)?, load, levels, seed, budget)
}
