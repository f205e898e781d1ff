//! `cost.choose`: ten thousand settings from the bytes of a model to the ranked answer, and the same where no price is known exactly.

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

/// How sure prices are that were measured: half of the 95 % interval, relative.
const UNSURE: f64 = 0.04;

/// Takes both measures.
///
/// # Errors
/// The model is refused, or the short cut and the whole nets do not agree.
pub fn run(bench: &mut Bench) -> Result<(), Failed> {
    for (measure, error) in [("cost.choose", 0.0), ("cost.choose.unsure", UNSURE)] {
        let runs = (0..bench.runs).map(|run| seconds(error, run == 0)).collect::<Result<Vec<_>, _>>()?;
        bench.alone(measure, "s", &runs, 10.0, "cost.choose")?;
    }
    Ok(())
}

/// The time of one run; `checked` solves some settings by their whole nets, too.
fn seconds(error: f64, checked: bool) -> Result<f64, Failed> {
    let threads = std::thread::available_parallelism()?.get();
    let effort = Effort { limits: Limits::default(), threads, go_on: &|_| true };
    let wanted = Wanted { p99: Some(0.2), ..Wanted::default() };
    let failed = |fault: cost::Fault| Failed::from(fault.to_string());
    let watch = Stopwatch::start();
    let mut model = read(MODEL, Language::Toml).map_err(failed)?;
    model.prices.values_mut().flat_map(|prices| prices.values_mut()).for_each(|price| price.error = error);
    let choice = choose(&model, &wanted, &effort).map_err(failed)?;
    let said = text(&choice);
    let seconds = watch.seconds();
    let sure = choice.settings.iter().all(|it| it.plus_minus.is_empty());
    if choice.settings.len() != 10_000
        || !choice.reduced
        || !said.starts_with("10000 settings")
        || sure != (error == 0.0)
    {
        return Err(format!("{} settings: {said}", choice.settings.len()).into());
    }
    if checked {
        let checked = check(&model, &choice, CHECKED.0, &effort).map_err(failed)?;
        let worst = checked.iter().map(|it| it.off).fold(0.0, f64::max);
        eprintln!("  {} settings by their whole nets: {worst:.1e} off at most", checked.len());
        if checked.len() != CHECKED.0 || worst.is_nan() || worst > CHECKED.1 {
            return Err(format!("the whole nets are {worst:.1e} off").into());
        }
    }
    Ok(seconds)
}
