//! Steps that were timed once more after another pause: how long, whether whoever does it slept, and how their names say so. Who times and who
//! predicts have it from here.

use serde::{Deserialize, Serialize};

use crate::calibration::Calibration;
use crate::{Class, Fault};

/// Between the name of a step and its pause: of one who worked meanwhile, and of one who slept until somebody else woke it.
const AFTER: &str = "-after-";
const ASLEEP: &str = "-asleep-";

/// Behind that, where messages went over several lines in turn: how many.
const AMONG: &str = "-among-";

/// What the names of messages end with that went over so many lines in turn, as those of so many clients: `-among-64`.
#[must_use]
pub fn among(lines: u32) -> String {
    format!("{AMONG}{lines}")
}

/// A time without a step before each of its timings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    micros: u32,
    asleep: bool,
}

impl Pause {
    /// Of what a tag without security is most of, where tags come one after the other: 5 µs.
    pub const SOON: Self = Self::at_work(5);
    /// Of messages of several clients that wait for each other: 15 µs.
    pub const QUEUED: Self = Self::at_work(15);
    /// Of messages of tags without security, one after the other: 50 µs.
    pub const SHORT: Self = Self::at_work(50);
    /// 250 µs.
    pub const LONG: Self = Self::at_work(250);
    /// 1.5 ms.
    pub const LONGEST: Self = Self::at_work(1_500);
    /// Of one who waits for a tag without security: 25 µs.
    pub const NAP: Self = Self::asleep(25);
    /// Of one who waits for a signature: 250 µs.
    pub const REST: Self = Self::asleep(250);
    /// Of one who waits for one by a longer key: 0.6 ms. What a database takes grows most by then.
    pub const DOZE: Self = Self::asleep(600);
    /// Of one who waits for a long one: 1.5 ms.
    pub const SLEEP: Self = Self::asleep(1_500);
    /// All that predictions look for.
    pub const ALL: [Self; 9] = [
        Self::SOON,
        Self::QUEUED,
        Self::SHORT,
        Self::LONG,
        Self::LONGEST,
        Self::NAP,
        Self::REST,
        Self::DOZE,
        Self::SLEEP,
    ];
    /// Seconds before each timing of a step whose name says nothing of a pause.
    pub const USUAL: f64 = 25e-6;

    const fn at_work(micros: u32) -> Self {
        Self { micros, asleep: false }
    }

    const fn asleep(micros: u32) -> Self {
        Self { micros, asleep: true }
    }

    /// Whether it is slept through.
    #[must_use]
    pub const fn is_asleep(self) -> bool {
        self.asleep
    }

    /// Its seconds.
    #[must_use]
    pub fn seconds(self) -> f64 {
        f64::from(self.micros) * 1e-6
    }

    /// Whether there is so little time that whoever does the step leaves a part of the first cache to it.
    #[must_use]
    pub const fn is_brief(self) -> bool {
        self.micros <= Self::SHORT.micros
    }

    /// What the name of such a step ends with: `-after-250us`, `-asleep-250us`.
    #[must_use]
    pub fn ending(self) -> String {
        format!("{}{}us", if self.asleep { ASLEEP } else { AFTER }, self.micros)
    }
}

/// Each step after a pause or over several lines is one that a prediction would look for, and stands beside the same without.
pub(super) fn check(calibration: &Calibration) -> Result<(), Fault> {
    for step in &calibration.steps {
        let whole = step.name();
        let name = match whole.rsplit_once(AMONG) {
            Some((name, lines)) if lines.parse().is_ok_and(|lines: u32| lines > 1) => name,
            Some((_, lines)) => {
                let why = format!("`{AMONG}{lines}` is no number of lines above one");
                return Err(Fault::new(Class::Unknown, whole, why));
            }
            None => whole.as_str(),
        };
        let paused = name.rsplit_once(AFTER).or_else(|| name.rsplit_once(ASLEEP));
        if paused.is_none() && name == whole {
            continue;
        }
        let of = paused.map_or(name, |(of, _)| of);
        let ending = name.get(of.len()..).unwrap_or_default();
        if paused.is_some() && Pause::ALL.iter().all(|pause| pause.ending() != ending) {
            let known = Pause::ALL.map(Pause::ending).join(", ");
            let why = format!("`{ending}` is no pause that a prediction looks for; known: {known}");
            return Err(Fault::new(Class::Unknown, whole, why));
        }
        if calibration.step(of, step.bytes).is_none() {
            let why = format!("`{of}` on {} bytes was not measured by itself: there is nothing to compare", step.bytes);
            return Err(Fault::new(Class::NoPrice, whole, why));
        }
    }
    Ok(())
}
