//! `trapkey drain`: the running program of this configuration ends in order.

use std::time::Duration;

use serde_json::json;

use super::up::process::Running;
use super::{Common, block_on};
use crate::answer::Answer;
use crate::failure::Failure;

/// What the program may take beyond its time to drain: for last records, and connections that end.
const FAREWELL: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);

pub(crate) fn run(common: &Common) -> Result<Answer, Failure> {
    let config = common.config.load()?;
    let ledger = config.audit.ledger;
    let running = Running::with(&ledger).ok_or_else(|| {
        Failure::unavailable("no program of this configuration runs")
            .help("it is known by its ledger, `[audit] ledger`")
    })?;
    let number = running.number();
    running.terminate().map_err(|error| {
        Failure::unavailable(format!("process {number} cannot be asked to end")).because_of(Some(&error))
    })?;
    let limit = config.operation.drain.get() + FAREWELL;
    let gone = async {
        while running.is_noted(&ledger) {
            tokio::time::sleep(LOOK).await;
        }
    };
    block_on(async {
        tokio::time::timeout(limit, gone)
            .await
            .map_err(|_| Failure::unavailable(format!("process {number} has not ended within {} s", limit.as_secs())))
    })?;
    Ok(Answer::ok(format!("process {number} has ended"), json!({ "process": number })))
}
