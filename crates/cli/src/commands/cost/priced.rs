//! `--prices`: a price list, or what `trapkey cost measure` has measured on a machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cost::Model;
use cost::calibration::{Calibration, Laid};

use crate::failure::Failure;
use crate::files;

/// One `--prices`.
#[derive(Debug)]
pub(super) enum Prices {
    /// A text with `[price]` only.
    List(PathBuf, Arc<str>),
    /// A calibration, and the platform that is such a machine, if it was said.
    Measured(Option<String>, PathBuf, Box<Calibration>),
}

impl Prices {
    /// `FILE`, or `PLATFORM=FILE.json`.
    pub(super) fn read(given: &str) -> Result<Self, Failure> {
        let (platform, file) = parts(given);
        if !measured(given) {
            // A list may have such a name itself.
            if given.contains('=') && !Path::new(given).exists() {
                let message = format!(
                    "`--prices {given}`: there is no such file, and `PLATFORM=` stands before a calibration (`FILE.json`)"
                );
                let help = "a list of prices says itself of which platforms they are: `--prices FILE.toml`";
                return Err(Failure::bad_input(message).help(help));
            }
            return Ok(Self::List(file.into(), files::text(Path::new(file))?));
        }
        let text = files::text(Path::new(file))?;
        let calibration = Calibration::read(&text)
            .map_err(|fault| Failure::bad_input(format!("`{file}`: {}: {fault}", fault.class.word())))?;
        Ok(Self::Measured(platform.map(str::to_owned), file.into(), Box::new(calibration)))
    }

    /// The platform whose prices were measured.
    pub(super) fn platform(&self, model: &Model) -> Result<Option<String>, Failure> {
        let Self::Measured(platform, file, _) = self else { return Ok(None) };
        let platforms: BTreeSet<&String> = model.nodes.iter().filter_map(|node| node.platform.as_ref()).collect();
        let names = platforms.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let file = file.display();
        match (platform, platforms.first()) {
            (Some(platform), _) if platforms.contains(platform) => Ok(Some(platform.clone())),
            (Some(platform), _) => {
                let message = format!("no node of the model is of the platform `{platform}`; there are {names}");
                Err(Failure::bad_input(message))
            }
            (None, Some(platform)) if platforms.len() == 1 => Ok(Some((*platform).clone())),
            (None, Some(platform)) => {
                let message = format!("which of the platforms {names} was `{file}` measured on?");
                Err(Failure::bad_input(message).help(format!("say it: `--prices {platform}={file}`")))
            }
            (None, None) => Err(Failure::bad_input("no node of the model has a platform that prices could be of")),
        }
    }

    /// Puts what was measured in the place of the prices of the same names that the model has of a platform, and says so.
    pub(super) fn lay(&self, platform: &str, model: &mut Model) -> Result<(), Failure> {
        let Self::Measured(_, file, calibration) = self else { return Ok(()) };
        let file = file.display();
        let laid = calibration
            .lay(model.prices.entry(platform.to_owned()).or_default())
            .map_err(|fault| Failure::bad_input(format!("`{file}`: {}: {fault}", fault.class.word())))?;
        let foreign = calibration.compare(&bench::steps::machine(), &bench::steps::versions());
        let warnings = foreign.iter().map(ToString::to_string).chain(doubts(calibration));
        warnings.for_each(|warning| eprintln!("warning: `{file}`: {warning}"));
        let told = told(&laid);
        eprintln!(
            "note: prices of `{platform}` as measured on {} ({}): {told}",
            calibration.machine.cpu, calibration.taken
        );
        Ok(())
    }
}

/// What became of prices.
fn told(Laid { measured, before, replaced, stay }: &Laid) -> String {
    match before {
        0 => format!("{measured} of them, the model has none"),
        _ if stay.is_empty() => format!("{replaced} of {before} that the model has are replaced"),
        _ => format!(
            "{replaced} of {before} that the model has are replaced; it was not measured, and stays as it is in the model: {}",
            stay.join(", ")
        ),
    }
}

/// Whether it is a calibration.
fn measured(given: &str) -> bool {
    Path::new(given).extension().is_some_and(|end| end == "json")
}

/// The platform, if one is said, and the file.
pub(super) fn parts(given: &str) -> (Option<&str>, &str) {
    match given.split_once('=') {
        Some((platform, file)) if measured(given) && !platform.is_empty() && !platform.contains('/') => {
            (Some(platform), file)
        }
        _ => (None, given),
    }
}

/// What is doubtful about a calibration, today.
pub(super) fn doubts(calibration: &Calibration) -> Vec<String> {
    let today = gates::clock::now().unix.as_micros().div_euclid(86_400_000_000);
    calibration.doubts().into_iter().chain(calibration.out_of_date(today)).collect()
}
