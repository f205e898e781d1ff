//! What a calibration must be.

use hashbrown::HashSet;
use serde::Deserialize;
use toml::value::{Datetime, Offset};

use super::{Calibration, Law, MAX_MOMENTS, MAX_STEPS, MAX_WORD, SCHEMA, Sample, Step};
use crate::algorithm::{Cipher, Key};
use crate::{Class, Fault};

/// By so much of it a mean may lie beside the least and the greatest of its moments: digits that were cut off.
const DIGITS: f64 = 0.01;

/// The one member that files of all versions have.
#[derive(Deserialize)]
#[serde(expecting = "the object of a calibration")]
struct Version {
    schema: u32,
}

/// Another version is refused as such, before its other members are found to be unknown.
pub(super) fn version(text: &str) -> Result<(), Fault> {
    let version: Version = serde_json::from_str(text).map_err(|error| of_json(&error))?;
    if version.schema == SCHEMA {
        return Ok(());
    }
    let why = format!("the file has version {}, this program reads version {SCHEMA}", version.schema);
    Err(Fault::new(Class::Invalid, "schema", why))
}

pub(super) fn of_json(error: &serde_json::Error) -> Fault {
    let class = if error.is_data() { Class::Invalid } else { Class::Syntax };
    let (told, place) = (error.to_string(), format!(" at line {} column {}", error.line(), error.column()));
    // The fault says the line.
    let why = told.strip_suffix(&place).unwrap_or(&told);
    Fault::new(class, "calibration", why).at(error.line())
}

impl Calibration {
    /// Whether it is one: what [`Calibration::read`] says of a file.
    ///
    /// # Errors
    /// As [`Calibration::read`].
    pub fn check(&self) -> Result<(), Fault> {
        if self.schema != SCHEMA {
            return Err(invalid("schema", format!("is {}, this program knows {SCHEMA}", self.schema)));
        }
        for (place, text) in [
            ("taken", &self.taken),
            ("machine.cpu", &self.machine.cpu),
            ("machine.kernel", &self.machine.kernel),
            ("versions.program", &self.versions.program),
            ("versions.library", &self.versions.library),
            ("versions.build", &self.versions.build),
        ] {
            word(place, text, false)?;
        }
        let date = self.taken.parse::<Datetime>().ok().filter(|it| it.date.is_some());
        if date.is_none_or(|it| it.time.is_some() && it.offset != Some(Offset::Z)) {
            let why = format!("is `{}`, and is to be a day or a moment in UTC, as `2026-11-22T11:40:00Z`", self.taken);
            return Err(invalid("taken", why));
        }
        if self.machine.cores == 0 {
            return Err(invalid("machine.cores", "is 0"));
        }
        if !(0.0..=1.0).contains(&self.others) {
            return Err(invalid("others", format!("is {}, a share is 0 to 1", self.others)));
        }
        for (place, count) in [("steps", self.steps.len()), ("laws", self.laws.len())] {
            if count > MAX_STEPS {
                return Err(Fault::new(Class::TooLarge, place, format!("has {count} entries, {MAX_STEPS} are taken")));
            }
        }
        self.steps_are_good()?;
        self.laws_are_good()
    }

    fn steps_are_good(&self) -> Result<(), Fault> {
        let mut seen = HashSet::new();
        for (index, step) in self.steps.iter().enumerate() {
            let place = format!("steps[{index}]");
            step.check(&place)?;
            if !seen.insert((step.name(), step.bytes)) {
                let why = format!("`{}` with {} bytes stands twice", step.name(), step.bytes);
                return Err(Fault::new(Class::Doubled, place, why));
            }
        }
        Ok(())
    }

    fn laws_are_good(&self) -> Result<(), Fault> {
        let mut seen = HashSet::new();
        for (index, law) in self.laws.iter().enumerate() {
            let place = format!("laws[{index}]");
            law.check(&place)?;
            if !seen.insert(law.name()) {
                return Err(Fault::new(Class::Doubled, place, format!("`{}` stands twice", law.name())));
            }
            let own = self.steps.iter().filter(|step| step.name() == law.name());
            for step in own.filter(|step| (law.from..=law.to).contains(&step.bytes)) {
                let (line, mean) = (law.at(step.bytes), step.cpu.mean);
                let off = if line == mean { 0.0 } else { (line / mean - 1.0).abs() };
                // Digits of the file and of the sums.
                if off > law.residual * (1.0 + 1e-6) + 1e-9 {
                    let is = if mean == 0.0 { "0".to_owned() } else { format!("{off} off the line") };
                    let why = format!(
                        "is {}, but the measured mean with {} bytes is {is}: measure again, or leave out the law",
                        law.residual, step.bytes
                    );
                    return Err(invalid(&format!("{place}.residual"), why));
                }
            }
        }
        Ok(())
    }
}

impl Step {
    fn check(&self, place: &str) -> Result<(), Fault> {
        word(&format!("{place}.operation"), &self.operation, false)?;
        word(&format!("{place}.algorithm"), &self.algorithm, true)?;
        if self.batch == 0 {
            return Err(invalid(&format!("{place}.batch"), "is 0"));
        }
        if self.moments.len() > MAX_MOMENTS {
            let why = format!("has {} entries, {MAX_MOMENTS} are taken", self.moments.len());
            return Err(Fault::new(Class::TooLarge, format!("{place}.moments"), why));
        }
        for (index, moment) in self.moments.iter().enumerate() {
            not_negative(&format!("{place}.moments[{index}]"), *moment)?;
        }
        self.cpu.check(&format!("{place}.cpu"))?;
        self.wall.check(&format!("{place}.wall"))?;
        self.agrees(place)
    }

    /// That the step does not contradict itself: two lengths of one key, or moments that other timings were made in. A file that was put
    /// together of two would give the price, and the interval, of neither.
    fn agrees(&self, place: &str) -> Result<(), Fault> {
        if let (Some(bits), Some(named)) = (self.bits, key(&self.algorithm))
            && bits != named
        {
            let why = format!("is {bits}, and the key of `{}` has {named} bits", self.name());
            return Err(invalid(&format!("{place}.bits"), why));
        }
        let (least, most) = self
            .moments
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(least, most), moment| (least.min(*moment), most.max(*moment)));
        let slack = DIGITS * self.cpu.mean;
        if !self.moments.is_empty() && (self.cpu.mean < least - slack || self.cpu.mean > most + slack) {
            let why = format!(
                "go from {least} to {most}, and the mean of `{}` over all of them is {}",
                self.name(),
                self.cpu.mean
            );
            return Err(invalid(&format!("{place}.moments"), why));
        }
        Ok(())
    }
}

/// Bits of the key that the name of an algorithm says, or of the only one that it has.
fn key(algorithm: &str) -> Option<u32> {
    match (Key::read(algorithm.trim_end_matches("-pss")), Cipher::read(algorithm)) {
        (Some(key @ (Key::Rsa(_) | Key::Ecdsa(_))), _) | (_, Some(Cipher::Asymmetric { key, .. })) => Some(key.bits()),
        (_, Some(Cipher::Symmetric { bits, .. })) => Some(bits),
        _ => None,
    }
}

impl Sample {
    fn check(&self, place: &str) -> Result<(), Fault> {
        if self.n == 0 {
            return Err(invalid(&format!("{place}.n"), "is 0"));
        }
        for (name, value) in [("mean", self.mean), ("sd", self.sd), ("min", self.min)] {
            not_negative(&format!("{place}.{name}"), value)?;
        }
        let rising = [("min", self.min), ("p50", self.p50), ("p95", self.p95), ("p99", self.p99), ("max", self.max)];
        for pair in rising.windows(2) {
            if let [(below, low), (above, high)] = pair
                && (!high.is_finite() || high < low)
            {
                return Err(invalid(&format!("{place}.{above}"), format!("is {high}, `{below}` is {low}")));
            }
        }
        // Rounding may put the mean of equal timings beside them.
        let slack = 1e-9 * self.max;
        if self.mean < self.min - slack || self.mean > self.max + slack {
            let why = format!("is {}, outside of {} to {}", self.mean, self.min, self.max);
            return Err(invalid(&format!("{place}.mean"), why));
        }
        // The longest are not shorter than the others.
        let most = self.p99.min(self.mean) + slack;
        if let Some(below) = self.below_p99.filter(|below| !(self.min - slack..=most).contains(below)) {
            let why = format!("is {below}, outside of {} to {most}", self.min);
            return Err(invalid(&format!("{place}.below_p99"), why));
        }
        if self.sd > self.max - self.min + slack {
            let why = format!("is {}, more than lies between {} and {}", self.sd, self.min, self.max);
            return Err(invalid(&format!("{place}.sd"), why));
        }
        if self.n == 1 && self.sd > slack {
            return Err(invalid(&format!("{place}.sd"), format!("is {}, and a single timing has none", self.sd)));
        }
        Ok(())
    }
}

impl Law {
    fn check(&self, place: &str) -> Result<(), Fault> {
        word(&format!("{place}.operation"), &self.operation, false)?;
        word(&format!("{place}.algorithm"), &self.algorithm, true)?;
        for (name, value) in [("fixed", self.fixed), ("per_byte", self.per_byte), ("residual", self.residual)] {
            not_negative(&format!("{place}.{name}"), value)?;
        }
        if self.from >= self.to {
            let why = format!("is {}, `from` is {}: a line needs two sizes", self.to, self.from);
            return Err(invalid(&format!("{place}.to"), why));
        }
        Ok(())
    }
}

fn not_negative(place: &str, value: f64) -> Result<(), Fault> {
    if value.is_finite() && value >= 0.0 { Ok(()) } else { Err(invalid(place, format!("is {value}"))) }
}

/// Words end up in terminals and tables.
fn word(place: &str, text: &str, may_be_empty: bool) -> Result<(), Fault> {
    if text.is_empty() && !may_be_empty {
        return Err(Fault::new(Class::Missing, place, "is empty"));
    }
    if text.len() > MAX_WORD {
        return Err(Fault::new(Class::TooLarge, place, format!("has more than {MAX_WORD} bytes")));
    }
    if text.chars().any(char::is_control) {
        return Err(invalid(place, "has a control character"));
    }
    Ok(())
}

fn invalid(place: &str, why: impl Into<String>) -> Fault {
    Fault::new(Class::Invalid, place, why)
}
