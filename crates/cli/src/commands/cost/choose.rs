//! `trapkey cost choose`: constraints in, ranked settings out.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use cost::choose::{Minimum, Mode, Wanted, choose, csv, svg, text, verify};
use serde_json::json;

use super::{Source, Spend, write};
use crate::answer::Answer;
use crate::failure::Failure;

/// A model, and what is wanted of its settings.
#[derive(Debug, Args)]
pub(crate) struct Choose {
    #[command(flatten)]
    source: Source,

    /// Half of the requests within this many milliseconds
    #[arg(long, value_name = "MS", value_parser = above_zero)]
    p50: Option<f64>,

    /// 95 % of the requests within this many milliseconds
    #[arg(long, value_name = "MS", value_parser = above_zero)]
    p95: Option<f64>,

    /// 99 % of the requests within this many milliseconds
    #[arg(long, value_name = "MS", value_parser = above_zero)]
    p99: Option<f64>,

    /// Mean time of at most this many milliseconds
    #[arg(long, value_name = "MS", value_parser = above_zero)]
    mean: Option<f64>,

    /// Requests a second that must be carried (the arrivals of an open workload)
    #[arg(long, value_name = "PER_SECOND", value_parser = above_zero)]
    rate: Option<f64>,

    /// No node busier than this many percent
    #[arg(long, value_name = "PERCENT", value_parser = above_zero)]
    cpu: Option<f64>,

    /// At most this many percent of the requests turned away
    #[arg(long, value_name = "PERCENT", value_parser = above_zero)]
    loss: Option<f64>,

    /// What must be protected wherever it is annotated
    #[arg(long, value_enum, default_value = "none", value_name = "MODE")]
    min_mode: Modes,

    /// Bits of strength (NIST SP 800-57) of everything that is done
    #[arg(long, value_name = "BITS")]
    min_strength: Option<u32>,

    /// Bits of each RSA key
    #[arg(long, value_name = "BITS")]
    min_rsa: Option<u32>,

    /// A security level that the model declares (`[level.2]`), with those below it
    #[arg(long, value_name = "LEVEL")]
    min_level: Option<u32>,

    /// Solve this many settings, spread over all, once more by their whole nets, and say how far that is from what was said
    #[arg(long, default_value_t = 0, value_name = "COUNT")]
    check: usize,

    /// Write all settings to this file as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    /// Write the front to this file as a picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    #[command(flatten)]
    spend: Spend,
}

/// What must be protected.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Modes {
    /// Optional annotations may be left out.
    None,
    /// Integrity, origin and peers.
    Sign,
    /// Confidentiality, too.
    SignAndEncrypt,
}

pub(super) fn run(args: &Choose) -> Result<Answer, Failure> {
    let model = args.source.read()?;
    let milliseconds = |value: Option<f64>| value.map(|value| value / 1e3);
    let percent = |value: Option<f64>| value.map(|value| value / 100.0);
    let mode = match args.min_mode {
        Modes::None => Mode::None,
        Modes::Sign => Mode::Sign,
        Modes::SignAndEncrypt => Mode::SignAndEncrypt,
    };
    let wanted = Wanted {
        p50: milliseconds(args.p50),
        p95: milliseconds(args.p95),
        p99: milliseconds(args.p99),
        mean: milliseconds(args.mean),
        rate: args.rate,
        cpu: percent(args.cpu),
        loss: percent(args.loss),
        minimum: Minimum { mode, strength: args.min_strength, rsa: args.min_rsa, level: args.min_level },
    };
    let (choice, checked) = args.spend.within(|budget| {
        let choice = choose(&model, &wanted, budget)?;
        let count = args.check.min(choice.settings.len());
        let spread = (0..count).map(|index| index * choice.settings.len() / count);
        let checked = spread.map(|setting| verify(&model, &choice, setting, budget)).collect::<Result<Vec<_>, _>>()?;
        Ok((choice, checked))
    })?;
    if let Some(path) = &args.csv {
        write(path, &csv(&choice))?;
    }
    if let Some(path) = &args.svg {
        write(path, &svg(&choice))?;
    }
    let mut said = text(&choice);
    if !checked.is_empty() {
        let worst = checked.iter().map(|it| it.off).fold(0.0, f64::max);
        said.push_str(&format!("\n{} settings solved by their whole nets: {worst:.1e} off at most\n", checked.len()));
    }
    let mut answer = json!(choice);
    answer["checked"] = json!(checked);
    Ok(Answer::verdict(!choice.ranked.is_empty(), said, answer))
}

fn above_zero(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    if number.is_finite() && number > 0.0 { Ok(number) } else { Err(format!("`{text}`: above 0 is wanted")) }
}
