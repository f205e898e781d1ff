//! The first choice as a run: requests one after the other through its net, drawn by chance, beside what was worked out without any.

use gspn::Budget;
use serde::Serialize;

use super::figures::LEVELS;
use super::simulated::{self, Figure};
use super::{Choice, asked, service, set};
use crate::model::Model;
use crate::{Class, Fault, net, weave};

/// What a run of a setting showed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trial {
    /// The index of the setting.
    pub setting: usize,
    /// Requests of the run.
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

/// Runs the first choice; nothing where none was chosen.
///
/// # Errors
/// [`Class::Unanswered`] where the run did not come to figures within the budget, where more comes than is carried, and where the
/// setting was simulated before: the same run would say the same.
pub fn trial(model: &Model, choice: &Choice, budget: &mut Budget<'_>) -> Result<Option<Trial>, Fault> {
    let Some(index) = choice.ranked.first().copied() else { return Ok(None) };
    let said = &choice.settings[index];
    let no = |why: &str| Err(Fault::new(Class::Unanswered, "run", why));
    if said.simulated.is_some() {
        return no("its figures are those of a run already, as its net is too large to be solved");
    }
    if said.saturated {
        return no("more comes than it carries, so that times only grow");
    }
    let chosen = set(&asked(model, &choice.wanted)?, &said.ways, &said.machines);
    let (service, _) = service::service(&chosen, budget)?;
    let times = LEVELS.into_iter().zip([said.p50, said.p95, said.p99]);
    let times: Vec<_> = times.filter_map(|((name, level), time)| Some((name, level, time?))).collect();
    let levels: Vec<f64> = times.iter().map(|(_, level, _)| *level).collect();
    let run = simulated::known(&net::lay_as(&weave(&chosen), net::Form::Shared)?, chosen.workload, &levels, budget)?;
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
    Ok(Some(Trial { setting: index, requests: run.requests, figures }))
}
