//! The first choice as a run: requests one after the other through its net, drawn by chance, beside what was worked out without any.

use gspn::Budget;
use serde::Serialize;

use super::figures::{LEVELS, is_one};
use super::simulated::{Figure, SEED};
use super::{Choice, asked, follow, service, set};
use crate::model::Model;
use crate::{Class, Fault};

/// What runs of a setting showed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trial {
    /// The index of the setting.
    pub setting: usize,
    /// What its random numbers come from.
    pub seed: u64,
    /// Runs that have nothing to do with each other.
    pub runs: usize,
    /// Requests of all runs.
    pub requests: usize,
    /// Throughput (unless it is what comes, as nobody was turned away), mean, and the percentiles that were asked for.
    pub figures: Vec<Seen>,
}

/// A figure as it was worked out, and as the run showed it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Seen {
    /// Its name as in a setting.
    pub figure: &'static str,
    /// What was said.
    pub predicted: f64,
    /// What the run showed.
    pub seen: f64,
    /// Half of the 95 % interval of the run.
    pub plus_minus: f64,
    /// Predicted over seen, minus 1.
    pub error: f64,
}

/// Runs the first choice, with the random numbers of a seed; nothing where none was chosen.
///
/// # Errors
/// [`Class::Unanswered`] where the run did not come to figures within the budget, and where the setting was simulated before with the same
/// seed ([`SEED`]): the same run would say the same.
pub fn trial(model: &Model, choice: &Choice, seed: u64, budget: &mut Budget<'_>) -> Result<Option<Trial>, Fault> {
    let Some(index) = choice.ranked.first().copied() else { return Ok(None) };
    let said = &choice.settings[index];
    let no = |why: &str| Err(Fault::new(Class::Unanswered, "run", why));
    if said.simulated.is_some() && seed == SEED {
        return no("its figures are those of a run already: another `--seed` makes another run");
    }
    let chosen = set(&asked(model, &choice.wanted)?, &said.ways, &said.machines);
    let (service, alone) = service::service(&chosen, budget)?;
    let times = LEVELS.into_iter().zip([said.p50, said.p95, said.p99]);
    let times: Vec<_> = times.filter_map(|((name, level), time)| Some((name, level, time?))).collect();
    let levels: Vec<f64> = times.iter().map(|(_, level, _)| *level).collect();
    let run = follow::runs(&chosen, is_one(&chosen, &service, &alone), &levels, seed, budget)?;
    let (flow, half) = run.flow();
    let row = |figure, predicted: f64, Figure { value, half }| Seen {
        figure,
        predicted,
        seen: value,
        plus_minus: half,
        error: predicted / value - 1.0,
    };
    let rate = Figure { value: flow.rate * service.finished, half: half.rate * service.finished };
    // Where none was turned away all that come leave, and the run says nothing of how many come.
    let mut figures: Vec<Seen> =
        (half.rate > 0.0).then(|| row("throughput", said.throughput, rate)).into_iter().collect();
    figures.extend(said.mean.map(|mean| row("mean", mean, run.mean())));
    figures.extend(times.into_iter().map(|(name, level, time)| row(name, time, run.quantile(level))));
    Ok(Some(Trial { setting: index, seed, runs: run.runs(), requests: run.requests, figures }))
}
