//! `trapkey model fluid`.

use clap::Args;
use gspn::fluid::{Fluids, fluid};
use gspn::{Budget, Limits};
use serde_json::json;

use super::solve::{at, at_times};
use super::source::Source;
use super::{limit, progress, refused};
use crate::answer::{Answer, table};
use crate::failure::Failure;

/// A net, and points in time.
#[derive(Debug, Args)]
pub(crate) struct Fluid {
    #[command(flatten)]
    source: Source,

    /// The points in time, from 0: questions about the long run are asked for each of them instead
    #[arg(long, allow_negative_numbers = true, required = true, value_delimiter = ',', value_name = "TIME", value_parser = at)]
    at: Vec<f64>,

    /// The most time (`30 s`, `2 min`; a number alone is seconds)
    #[arg(long, allow_hyphen_values = true, default_value = "30 s", value_name = "TIME", value_parser = limit)]
    time: f64,
}

impl Fluid {
    pub(super) fn answer(&self) -> Result<Answer, Failure> {
        let timed = at_times(&self.at);
        let mut go_on = progress(self.time)?;
        let answered =
            self.source.read()?.and_then(timed).and_then(|document| {
                fluid(&document.net, &document.asks, &mut Budget::new(Limits::default(), &mut go_on))
            });
        Ok(match answered {
            Ok(found) => shown(&found),
            Err(refusal) => refused(&refusal),
        })
    }
}

fn shown(found: &Fluids) -> Answer {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (id, fluid) in &found.fluid {
        let by = fluid.checked.iter().map(|checked| format!("{} tokens {}", checked.tokens, checked.by));
        let by: Vec<String> = by.collect();
        // As beside estimates, of the value itself.
        let off = format!("± {:.1e}", fluid.error * fluid.value.abs());
        rows.push(vec![id.clone(), format!("{:.6}", fluid.value), off, by.join(", ")]);
    }
    for (id, refusal) in &found.unanswered {
        rows.push(vec![id.clone(), "-".to_owned(), String::new(), super::open(refusal)]);
    }
    Answer::ok(table(&["question", "flow", "off by about", "checked"], &rows), json!(found))
}
