//! One request by itself that does several things at once. How much work it makes is a sum (`service`), how long it takes is none: that is what
//! its net says, in which its branches may wait for each other.

use gspn::Budget;

use super::{simulated, times};
use crate::model::{Model, Workload};
use crate::net::{self, Form};
use crate::{Class, Fault, solve, weave};

/// So many halves of its interval a run may be off.
const SURELY: f64 = 3.0;

/// What a request takes that waits for nobody but itself.
#[derive(Debug)]
pub(super) struct Alone {
    /// How long it takes, at least: as far as a run knows it, where its net is too large.
    pub(super) mean: f64,
    /// For how long it holds how many units of each pool.
    pub(super) pools: Vec<f64>,
}

impl Alone {
    /// Of a model in which requests do several things at once; none of others.
    ///
    /// # Errors
    /// As [`net::lay`], and when neither its net nor a run has an answer.
    pub(super) fn of(model: &Model, budget: &mut Budget<'_>) -> Result<Option<Self>, Fault> {
        if !model.is_parallel() {
            return Ok(None);
        }
        let mut alone = model.clone();
        alone.workload = Workload::Closed { clients: 1, think: 0.0, threads: None };
        let secured = weave(&alone);
        if let Some(found) = times::exact(budget, |budget| solve::of(&alone, &net::lay(&secured)?, budget))? {
            let done = found.throughput + found.aborted;
            let held = found.pools.iter().zip(&alone.pools);
            let pools = held.map(|(it, pool)| it.utilisation * f64::from(pool.size) / done).collect();
            return Ok(Some(Self { mean: found.response, pools }));
        }
        if let Some(pool) = alone.pools.first() {
            let why =
                "one request that does several things at once has too many markings to say for how long it holds it";
            return Err(Fault::new(Class::Unanswered, format!("pool {}", pool.name), why));
        }
        let laid = net::lay_as(&secured, Form::Shared)?;
        let mean = simulated::known(&laid, alone.workload, &[], budget)?.mean();
        Ok(Some(Self { mean: mean.value - SURELY * mean.half, pools: Vec::new() }))
    }
}
