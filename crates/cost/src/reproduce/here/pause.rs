//! Steps that were timed once more after a longer pause: how long, and how their names say so. Who times and who predicts have it from here.

use serde::{Deserialize, Serialize};

use crate::calibration::Calibration;
use crate::{Class, Fault};

/// Between the name of a step and its pause.
const AFTER: &str = "-after-";

/// A time without a step before each of its timings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pause(u32);

impl Pause {
    /// Of what a tag without security is most of, where tags come one after the other: 5 µs.
    pub const SOON: Self = Self(5);
    /// Of messages that wait for each other: 15 µs.
    pub const QUEUED: Self = Self(15);
    /// 50 µs.
    pub const SHORT: Self = Self(50);
    /// 250 µs.
    pub const LONG: Self = Self(250);
    /// 1.5 ms.
    pub const LONGEST: Self = Self(1_500);
    /// All that predictions look for.
    pub const ALL: [Self; 5] = [Self::SOON, Self::QUEUED, Self::SHORT, Self::LONG, Self::LONGEST];
    /// Seconds before each timing of a step whose name says nothing of a pause.
    pub const USUAL: f64 = 25e-6;

    /// Its microseconds.
    #[must_use]
    pub const fn micros(self) -> u32 {
        self.0
    }

    /// Its seconds.
    #[must_use]
    pub fn seconds(self) -> f64 {
        f64::from(self.0) * 1e-6
    }

    /// What the name of such a step ends with: `-after-250us`.
    #[must_use]
    pub fn ending(self) -> String {
        format!("{AFTER}{}us", self.0)
    }
}

/// Each step after a pause is one that a prediction would look for, and stands beside the same without.
pub(super) fn check(calibration: &Calibration) -> Result<(), Fault> {
    for step in &calibration.steps {
        let name = step.name();
        let Some((of, _)) = name.rsplit_once(AFTER) else { continue };
        let ending = name.get(of.len()..).unwrap_or_default();
        if Pause::ALL.iter().all(|pause| pause.ending() != ending) {
            let known = Pause::ALL.map(Pause::ending).join(", ");
            let why = format!("`{ending}` is no pause that a prediction looks for; known: {known}");
            return Err(Fault::new(Class::Unknown, name, why));
        }
        if calibration.step(of, step.bytes).is_none() {
            let why =
                format!("`{of}` on {} bytes was not measured without a pause: there is nothing to compare", step.bytes);
            return Err(Fault::new(Class::NoPrice, name, why));
        }
    }
    Ok(())
}
