//! `trapkey model bounds`.

use clap::Args;
use gspn::bounds::bounds;
use gspn::{Budget, Limits};
use serde_json::json;

use super::source::{Source, usual};
use super::{limit, progress, refused};
use crate::answer::{Answer, table};
use crate::failure::Failure;

/// A net, and how long its bounds may take.
#[derive(Debug, Args)]
pub(crate) struct Bounds {
    #[command(flatten)]
    source: Source,

    /// The most time (`30 s`, `2 min`; a number alone is seconds)
    #[arg(long, allow_hyphen_values = true, default_value = "30 s", value_name = "TIME", value_parser = limit)]
    time: f64,
}

impl Bounds {
    pub(super) fn answer(&self) -> Result<Answer, Failure> {
        let mut go_on = progress(self.time)?;
        let answered = self.source.read()?.and_then(|document| {
            let asks = if document.asks.is_empty() { usual(&document.net, None) } else { document.asks };
            bounds(&document.net, &asks, &mut Budget::new(Limits::default(), &mut go_on))
        });
        Ok(match answered {
            Ok(found) => shown(&found),
            Err(refusal) => refused(&refusal),
        })
    }
}

fn shown(found: &gspn::bounds::Bounds) -> Answer {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (id, bound) in &found.bounds {
        let [low, high] = bound.by;
        let by = if low == high { low.to_owned() } else { format!("{low}; {high}") };
        rows.push(vec![id.clone(), format!("{:.6}", bound.low), format!("{:.6}", bound.high), by]);
    }
    for (id, refusal) in &found.unanswered {
        rows.push(vec![id.clone(), "-".to_owned(), "-".to_owned(), super::open(refusal)]);
    }
    Answer::ok(table(&["question", "at least", "at most", "remark"], &rows), json!(found))
}
