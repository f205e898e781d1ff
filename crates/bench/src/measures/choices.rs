//! `cost.choose`: ten thousand settings from the bytes of a model to the ranked answer.

use cost::choose::{Effort, Wanted, check, choose, text};
use cost::read::{Language, read};
use gspn::Limits;

use super::Bench;
use crate::Failed;
use crate::clock::Stopwatch;

/// Three annotations with 25, 20 and 20 ways.
const MODEL: &str = include_str!("ten-thousand.toml");
/// Settings that are solved once more by their whole nets, and how far they may be off.
const CHECKED: (usize, f64) = (100, 1e-3);

/// Takes the measure.
///
/// # Errors
/// The model is refused, or the short cut and the whole nets do not agree.
pub fn run(bench: &mut Bench) -> Result<(), Failed> {
    let threads = std::thread::available_parallelism()?.get();
    let effort = Effort { limits: Limits::default(), threads, go_on: &|_| true };
    let wanted = Wanted { p99: Some(0.2), ..Wanted::default() };
    let failed = |fault: cost::Fault| Failed::from(fault.to_string());
    let mut runs = Vec::new();
    for run in 0..bench.runs {
        let watch = Stopwatch::start();
        let model = read(MODEL, Language::Toml).map_err(failed)?;
        let choice = choose(&model, &wanted, &effort).map_err(failed)?;
        let said = text(&choice);
        runs.push(watch.seconds());
        if choice.settings.len() != 10_000 || !choice.reduced || !said.starts_with("10000 settings") {
            return Err(format!("{} settings: {said}", choice.settings.len()).into());
        }
        if run == 0 {
            let checked = check(&model, &choice, CHECKED.0, &effort).map_err(failed)?;
            let worst = checked.iter().map(|it| it.off).fold(0.0, f64::max);
            eprintln!("  {} settings by their whole nets: {worst:.1e} off at most", checked.len());
            if checked.len() != CHECKED.0 || worst.is_nan() || worst > CHECKED.1 {
                return Err(format!("the whole nets are {worst:.1e} off").into());
            }
        }
    }
    bench.alone("cost.choose", "s", &runs, 10.0, "cost.choose")
}
