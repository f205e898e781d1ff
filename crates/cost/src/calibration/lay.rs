//! What was measured, in the place of what a model says.

use std::collections::BTreeMap;

use super::Calibration;
use crate::model::Price;
use crate::{Class, Fault};

/// What became of the prices of a platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Laid {
    /// Operations that were measured.
    pub measured: usize,
    /// Prices that there were before.
    pub before: usize,
    /// How many of them have been replaced.
    pub replaced: usize,
    /// Those that were not measured and stay as they are.
    pub stay: Vec<String>,
}

impl Calibration {
    /// Puts what was measured in the place of the prices of the same names, and beside the others. An energy stays: nobody has measured it.
    ///
    /// # Errors
    /// Those of [`Self::operations`], and [`Class::Missing`] for an operation that was measured with one size and has a price of each byte:
    /// one size says nothing of others. Then no price has changed.
    pub fn lay(&self, prices: &mut BTreeMap<String, Price>) -> Result<Laid, Fault> {
        let measured = self.operations()?;
        let grows = |name: &str| prices.get(name).is_some_and(|price| price.per_byte > 0.0);
        let sizes = |name: &str| self.steps.iter().filter(|step| step.name() == name).count();
        for (index, step) in self.steps.iter().enumerate() {
            let name = step.name();
            let flat = measured.get(&name).is_some_and(|it| it.price.per_byte == 0.0);
            if flat && sizes(&name) == 1 && grows(&name) {
                let why = format!(
                    "`{name}` was measured with one size, and the model has a price of each byte of it: measure it with two sizes, or take it \
                     out of the file or of the model"
                );
                return Err(Fault::new(Class::Missing, format!("steps[{index}]"), why));
            }
        }
        let before = prices.len();
        let replaced = measured.keys().filter(|name| prices.contains_key(*name)).count();
        let stay = prices.keys().filter(|name| !measured.contains_key(*name)).cloned().collect();
        let laid = Laid { measured: measured.len(), before, replaced, stay };
        for (name, known) in measured {
            let energy = prices.get(&name).map_or(0.0, |price| price.energy);
            prices.insert(name, Price { error: sure(known.error), energy, ..known.price });
        }
        Ok(laid)
    }
}

/// A single timing says nothing of its error, and two say little.
const fn sure(error: f64) -> f64 {
    if error.is_finite() { error.min(1.0) } else { 1.0 }
}
