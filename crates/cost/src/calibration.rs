//! The calibration of one machine: what single steps of single mechanisms cost there, as they were measured, with all that one needs
//! to judge the figures. `bench` measures and writes it, predictions are made from it, the twin keeps it current. Nothing is measured here.
//!
//! As a file it is JSON; `docs/reference/calibration.md` has the members.

mod check;
mod compare;
mod lay;
mod statistics;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use compare::Foreign;
pub use lay::Laid;
pub use statistics::{fit, student, summary};

use crate::model::Price;
use crate::{Class, Fault, operation};

/// The version of the file's schema that this program writes and reads.
pub const SCHEMA: u32 = 1;
/// Bytes that a file may have.
pub const MAX_BYTES: usize = 4 << 20;
/// Steps that a calibration may have.
pub const MAX_STEPS: usize = 4_096;
/// Bytes that a name or another word may have.
pub const MAX_WORD: usize = 160;
/// Moments that a step may have.
pub const MAX_MOMENTS: usize = 1_000;

/// What was measured on one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// [`SCHEMA`].
    pub schema: u32,
    /// When it was taken: UTC, `2026-11-22` or `2026-11-22T11:40:00Z`.
    pub taken: String,
    /// Where.
    pub machine: Machine,
    /// What was measured.
    pub versions: Versions,
    /// Shorter than it should be: fewer and shorter timings.
    #[serde(default)]
    pub quick: bool,
    /// Share of all processors that other programs had meanwhile, 0 to 1; 0 where nobody has looked.
    #[serde(default)]
    pub others: f64,
    /// Each name (operation, algorithm, bytes) once.
    pub steps: Vec<Step>,
    /// How times grow with the bytes, where several sizes were measured; each operation and algorithm once.
    #[serde(default)]
    pub laws: Vec<Law>,
}

/// The machine, as its kernel describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Model of the processor.
    pub cpu: String,
    /// Processors that the program may use, at least 1.
    pub cores: u32,
    /// Name and release of the kernel.
    pub kernel: String,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Versions {
    /// Version of Trapkey.
    pub program: String,
    /// Name and version of the library of the cryptography.
    pub library: String,
    /// `release` or `debug`: how the program was built.
    pub build: String,
}

/// One step of one mechanism: so many bytes of one operation by one algorithm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What is done, in the words of price lists (`sign`, `encrypt`, `hash`) or of this program (`decide`, `audit`).
    pub operation: String,
    /// By what: `rsa-2048`, `aes-256-cbc`, `sha-256`; with the padding behind it where that matters (`rsa-2048-pss`). May be empty.
    pub algorithm: String,
    /// Bits of the key, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits: Option<u32>,
    /// Bytes that are worked on.
    pub bytes: u64,
    /// Of all times here.
    pub unit: Unit,
    /// Uses in one timing; times are divided by it.
    pub batch: u64,
    /// Timings that were left out because something interrupted them.
    #[serde(default)]
    pub left_out: u64,
    /// Processor time of the thread or process that works, user and system, of one use.
    pub cpu: Sample,
    /// Time on the clock of one use.
    pub wall: Sample,
    /// The mean processor time in each of the processes that measured it, one after the other. What moves between them (the speed of the
    /// machine, where the memory lies) does not show in the spread within one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moments: Vec<f64>,
}

/// Units of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
}

/// What a number of timings say, each the mean of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// Timings, at least 1.
    pub n: u64,
    /// Their mean, from 0.
    pub mean: f64,
    /// Their standard deviation, from 0.
    pub sd: f64,
    /// The smallest.
    pub min: f64,
    /// The median.
    pub p50: f64,
    /// 95 of 100 are at or below it.
    pub p95: f64,
    /// 99 of 100 are at or below it.
    pub p99: f64,
    /// The largest.
    pub max: f64,
    /// The mean of the 99 of 100 that are the shortest; lines between the quantiles miss it where timings are of two sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below_p99: Option<f64>,
}

/// How the processor time of an operation grows with its bytes: a straight line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Law {
    /// As in [`Step`].
    pub operation: String,
    /// As in [`Step`].
    pub algorithm: String,
    /// Seconds of each use, from 0.
    pub fixed: f64,
    /// Seconds of each byte, from 0. (A kB of a price list is 1,000 bytes.)
    pub per_byte: f64,
    /// The largest distance of a measured mean from the line, relative to the mean.
    pub residual: f64,
    /// The fewest bytes that were measured.
    pub from: u64,
    /// The most.
    pub to: u64,
}

/// A price with what is known of its error.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Known {
    /// What it is.
    pub price: Price,
    /// Half of the 95 % interval around it, relative: 0.01 is 1 %.
    pub error: f64,
}

impl Step {
    /// `sign rsa-2048`, the name under which price lists have it.
    #[must_use]
    pub fn name(&self) -> String {
        named(&self.operation, &self.algorithm)
    }

    /// Half of the 95 % interval around the mean processor time, relative to it: that of the timings or that of the moments, whichever is
    /// wider.
    #[must_use]
    pub fn error(&self) -> f64 {
        let moments = statistics::summary(&self.moments).filter(|moments| moments.n > 1);
        let half = moments.map_or(0.0, |moments| moments.half_width()).max(self.cpu.half_width());
        self.cpu.relative(half)
    }
}

impl Law {
    /// As [`Step::name`].
    #[must_use]
    pub fn name(&self) -> String {
        named(&self.operation, &self.algorithm)
    }

    /// Seconds of one use on so many bytes.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "bytes of a message")]
    pub fn at(&self, bytes: u64) -> f64 {
        self.per_byte.mul_add(bytes as f64, self.fixed)
    }
}

impl Sample {
    /// Half of the 95 % interval around the mean; infinite for a single timing.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts of timings")]
    pub fn half_width(&self) -> f64 {
        if self.n < 2 { f64::INFINITY } else { student(self.n - 1) * self.sd / (self.n as f64).sqrt() }
    }

    /// The same, relative to the mean; 0 for a mean of 0 without spread.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.relative(self.half_width())
    }

    fn relative(&self, half: f64) -> f64 {
        if half == 0.0 { 0.0 } else { half / self.mean }
    }
}

impl Calibration {
    /// Reads a file.
    ///
    /// # Errors
    /// The first fault, with its class and place: text that is no JSON or has other members than the schema, another schema version, a
    /// number out of its range, a name that stands twice, more than [`MAX_BYTES`] or [`MAX_STEPS`].
    pub fn read(text: &str) -> Result<Self, Fault> {
        if text.len() > MAX_BYTES {
            let why = format!("the calibration has more than {} MiB", MAX_BYTES >> 20);
            return Err(Fault::new(Class::TooLarge, "calibration", why));
        }
        check::version(text)?;
        let read: Self = serde_json::from_str(text).map_err(|error| check::of_json(&error))?;
        read.check()?;
        Ok(read)
    }

    /// The file.
    ///
    /// # Errors
    /// What [`Self::read`] would refuse.
    pub fn write(&self) -> Result<String, Fault> {
        self.check()?;
        let text = serde_json::to_string_pretty(self).map_err(|error| check::of_json(&error))?;
        Ok(text + "\n")
    }

    /// The same with the steps that the other one has, as that one has them, and laws of what there is then; when and where stays.
    #[must_use]
    pub fn renewed(&self, other: &Self) -> Self {
        let has = |step: &&Step| other.step(&step.name(), step.bytes).is_none();
        let steps: Vec<Step> = self.steps.iter().filter(has).chain(&other.steps).cloned().collect();
        let mut sized: BTreeMap<String, Vec<&Step>> = BTreeMap::new();
        for step in &steps {
            sized.entry(step.name()).or_default().push(step);
        }
        let laws = sized.values().filter_map(|steps| fit(steps)).collect();
        Self { steps, laws, ..self.clone() }
    }

    /// The step of this name on so many bytes.
    #[must_use]
    pub fn step(&self, name: &str, bytes: u64) -> Option<&Step> {
        self.steps.iter().find(|step| step.bytes == bytes && step.name() == name)
    }

    /// The law of this name.
    #[must_use]
    pub fn law(&self, name: &str) -> Option<&Law> {
        self.laws.iter().find(|law| law.name() == name)
    }

    /// What models need: the price of each operation by its name, from its law where there is one, else from the line through its sizes,
    /// or from its only one; where no line goes through them, from the dearest. The
    /// variation is that of the timings, at least 0.01 and at most 100; where a timing holds many uses, that of one use is larger.
    #[must_use]
    pub fn prices(&self) -> BTreeMap<String, Known> {
        let mut prices = BTreeMap::new();
        let mut sized: BTreeMap<String, Vec<&Step>> = BTreeMap::new();
        for step in &self.steps {
            sized.entry(step.name()).or_default().push(step);
        }
        let lines: BTreeMap<&String, Law> =
            sized.iter().filter_map(|(name, steps)| Some((name, fit(steps)?))).collect();
        for step in &self.steps {
            let (name, variation) = (step.name(), spread(&step.cpu));
            let (each, per_byte, error) = match self.law(&name).or_else(|| lines.get(&name)) {
                Some(law) => (law.fixed, law.per_byte, law.residual.max(step.error())),
                None => (step.cpu.mean, 0.0, step.error()),
            };
            let known = Known { price: Price { each, per_byte, cv2: variation, error, energy: 0.0 }, error };
            // Of several sizes the least certain counts, the one that varies most, and the dearest.
            let kept: &mut Known = prices.entry(name).or_insert(known);
            kept.error = kept.error.max(error);
            kept.price.error = kept.error;
            kept.price.cv2 = kept.price.cv2.max(variation);
            kept.price.each = kept.price.each.max(each);
        }
        prices
    }
}

impl Calibration {
    /// Those of [`Self::prices`] that a model can use. Other steps are no operation of a mechanism (a handshake as a whole, a copy in
    /// memory), and those of other versions may have any name.
    ///
    /// # Errors
    /// [`Class::NoSuchName`] for a step whose name is that of an operation but for a slip.
    pub fn operations(&self) -> Result<BTreeMap<String, Known>, Fault> {
        for (index, step) in self.steps.iter().enumerate() {
            let (name, slip) = (step.name(), operation::slip(&step.name()));
            if !slip.is_empty() {
                let meant = slip.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ");
                let why = format!("`{name}` is no operation, and but for a slip it is {meant}: what was measured?");
                return Err(Fault::new(Class::NoSuchName, format!("steps[{index}]"), why));
            }
        }
        Ok(self.prices().into_iter().filter(|(name, _)| operation::known(name)).collect())
    }
}

/// The squared coefficient of variation, in the range of models.
fn spread(sample: &Sample) -> f64 {
    if sample.mean > 0.0 { (sample.sd / sample.mean).powi(2).clamp(0.01, 100.0) } else { 1.0 }
}

fn named(operation: &str, algorithm: &str) -> String {
    if algorithm.is_empty() { operation.to_owned() } else { format!("{operation} {algorithm}") }
}
