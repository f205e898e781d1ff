//! `trapkey cost simulate`.

use clap::Args;
use cost::choose::{Estimate, Followed, SEED, follow};
use cost::weave;
use gspn::Limits;
use serde_json::json;

use super::{Source, Spend, busy, limit, seconds, taken};
use crate::answer::{Answer, table};
use crate::failure::Failure;

/// A model, and how long its requests are followed.
#[derive(Debug, Args)]
pub(crate) struct Simulate {
    #[command(flatten)]
    source: Source,

    /// The most time (`30 s`, `2 min`; a number alone is seconds)
    #[arg(long, allow_hyphen_values = true, default_value = "30 s", value_name = "TIME", value_parser = limit)]
    time: f64,

    /// Of the random numbers; another seed makes other runs
    #[arg(long, allow_negative_numbers = true, default_value_t = SEED, value_name = "NUMBER")]
    seed: u64,
}

pub(super) fn run(args: &Simulate) -> Result<Answer, Failure> {
    let model = args.source.read()?;
    let spend = Spend { markings: Limits::default().markings, time: args.time };
    let followed = spend.within(|budget| follow(&model, args.seed, budget))?;
    Ok(taken(&args.source, &weave(&model), shown(&followed), json!(followed)))
}

fn shown(followed: &Followed) -> String {
    let rates =
        [("throughput", followed.throughput), ("aborted", followed.aborted), ("turned away", followed.turned_away)];
    // What never happens is not worth a line.
    let rates = rates.into_iter().filter(|(name, it)| *name == "throughput" || it.value > 0.0);
    let times = [("mean", followed.mean), ("p50", followed.p50), ("p95", followed.p95), ("p99", followed.p99)];
    let row = |name: &str, it: Estimate, say: &dyn Fn(f64) -> String| {
        vec![name.to_owned(), format!("{} ± {}", say(it.value), say(it.plus_minus))]
    };
    let rates = rates.map(|(name, it)| row(name, it, &|rate| format!("{}/s", cost::quantity::digits(rate))));
    let times = times.into_iter().map(|(name, it)| row(name, it, &seconds));
    let figures = table(&["figure", "simulated"], &rates.chain(times).collect::<Vec<_>>());
    let (runs, s) = (followed.runs, if followed.runs == 1 { "" } else { "s" });
    let of = format!("{} requests in {runs} run{s} (seed {})", followed.requests, followed.seed);
    format!("{figures}\n{}\n{of}, rates and times with their 95 % intervals\n", busy(&followed.nodes))
}
