//! `trapkey model simulate`.

use clap::Args;
use gspn::simulate::{Estimates, Plan, simulate};
use gspn::{Budget, Limits};
use serde_json::json;

use super::source::{Source, usual};
use super::{gone, limit, progress, refused};
use crate::answer::{Answer, table};
use crate::failure::Failure;

/// A net, and how finely it is simulated.
#[derive(Debug, Args)]
pub(crate) struct Simulate {
    #[command(flatten)]
    source: Source,

    /// How small each 95 % interval is to be: half of its length over the estimate
    #[arg(long, allow_negative_numbers = true, default_value_t = Plan::default().relative, value_name = "PART")]
    relative: f64,

    /// Of the random numbers; the same seed gives the same numbers
    #[arg(long, allow_negative_numbers = true, default_value_t = Plan::default().seed, value_name = "NUMBER")]
    seed: u64,

    /// The most firings; the first thousands, which say how long a batch is, are done in any case
    #[arg(long, allow_negative_numbers = true, default_value_t = Plan::default().firings, value_name = "COUNT")]
    firings: u64,

    /// The most time (`30 s`, `2 min`; a number alone is seconds)
    #[arg(long, allow_hyphen_values = true, default_value = "30 s", value_name = "TIME", value_parser = limit)]
    time: f64,
}

impl Simulate {
    pub(super) fn answer(&self) -> Result<Answer, Failure> {
        if self.relative.is_nan() || self.relative <= 0.0 {
            return Err(Failure::bad_input(format!("`--relative {}`: above 0", self.relative)));
        }
        let mut go_on = progress(self.time)?;
        let gone = gone(self.time);
        let answered = self.source.read()?.and_then(|document| {
            let asks = if document.asks.is_empty() { usual(&document.net, None) } else { document.asks };
            let plan = Plan { seed: self.seed, relative: self.relative, firings: self.firings };
            simulate(&document.net, &asks, plan, &mut Budget::new(Limits::default(), &mut go_on).sharing(&gone))
        });
        Ok(match answered {
            Ok(found) => shown(&found),
            Err(refusal) => refused(&refusal),
        })
    }
}

fn shown(found: &Estimates) -> Answer {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (id, estimate) in &found.estimates {
        let remark = if estimate.reached { "" } else { "not as small as was wanted: allow more firings or time" };
        let half = format!("± {:.2e}", estimate.half_width);
        rows.push(vec![id.clone(), format!("{:.6}", estimate.mean), half, remark.to_owned()]);
    }
    for (id, refusal) in &found.unanswered {
        rows.push(vec![id.clone(), "-".to_owned(), String::new(), super::open(refusal)]);
    }
    let mut text = table(&["question", "estimate", "95 %", "remark"], &rows);
    text.push_str(&format!("{} firings, seed {}\n", found.firings, found.seed));
    Answer::ok(text, json!(found))
}
