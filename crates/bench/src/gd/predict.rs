//! From a calibration to predictions.

use cost::calibration::Calibration;
use cost::reproduce::here::{Prediction, Setting, predict};
use gspn::{Budget, Limits};

use super::{Configuration, Scenario, period, tag};
use crate::Failed;
use crate::clock::Stopwatch;

/// A prediction may take so long, seconds.
const PATIENCE: f64 = 30.0;
/// What a calibration says of a row.
///
/// # Errors
/// A step is missing, or the solver has no answer.
pub fn of(calibration: &Calibration, row: &Scenario, reuse: f64) -> Result<Prediction, Failed> {
    let setting = Setting {
        configuration: match row.configuration {
            Configuration::Sc0 => "SC0",
            Configuration::Sc1 => "SC1",
            Configuration::Sc2 => "SC2",
        }
        .to_owned(),
        key: row.key,
        database: row.database.word().to_owned(),
        clients: row.clients,
        period: period(reuse),
        tag: tag::bytes() as u64,
    };
    let watch = Stopwatch::start();
    let mut go_on = |_| watch.seconds() < PATIENCE;
    Ok(predict(calibration, &setting, &mut Budget::new(Limits::default(), &mut go_on))?)
}
