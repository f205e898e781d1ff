//! The parts that run as processes of their own.

use rustix::process::{Signal, set_parent_process_death_signal};

use super::{message, organisation, steps, store, waker};
use crate::Failed;

/// Runs a part with what it is told, as JSON; prints what it has to say.
///
/// # Errors
/// What it finds wrong.
pub fn run(part: &str, told: &str) -> Result<(), Failed> {
    // Whoever waits for one that has been killed would wait for ever.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    match part {
        "organisation" => {
            let outcome = organisation::run(&serde_json::from_str(told)?)?;
            println!("{}", serde_json::to_string(&outcome)?);
        }
        "store" => store::run(&serde_json::from_str(told)?)?,
        "step" => {
            let found = steps::take(&serde_json::from_str(told)?)?;
            println!("{}", serde_json::to_string(&found)?);
        }
        "waker" => waker::serve()?,
        "echo" => message::echo(serde_json::from_str(told)?)?,
        _ => return Err(format!("there is no part `{part}`").into()),
    }
    Ok(())
}
