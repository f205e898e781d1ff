//! What is said of the machines of a node, and of money.

use super::fields::Fields;
use crate::calibration::student;
use crate::model::Price;
use crate::plant::{Failures, Machines, Power};
use crate::{Class, Fault, quantity};

/// Machines of a node, at most.
const MOST: u32 = 1000;

pub(super) fn machines(fields: &mut Fields) -> Result<Machines, Fault> {
    let mut counts = Vec::new();
    if let Some((words, line)) = fields.list("machines") {
        if words.is_empty() {
            return Err(fields.fault(Class::Missing, line, "`machines` is an empty list"));
        }
        for word in words {
            let count = word.trim().parse().ok().filter(|count| (1..=MOST).contains(count));
            let why = format!("`machines` is `{word}`: whole numbers from 1 to {MOST} are wanted");
            let count = count.ok_or_else(|| fields.fault(Class::Invalid, line, why))?;
            if counts.contains(&count) {
                return Err(fields.fault(Class::Doubled, line, format!("`machines` has {count} twice")));
            }
            counts.push(count);
        }
    }
    if counts.is_empty() {
        counts.push(1);
    }
    let fewest = counts.iter().copied().min().unwrap_or(1);
    let line = fields.line();
    let needed = fields.count("needed", MOST)?.unwrap_or(1);
    if needed > fewest {
        let why = format!("`needed` is {needed}, and of `machines` there are {fewest} at the fewest");
        return Err(fields.fault(Class::Invalid, line, why));
    }
    let every = fields.value("fails", "a mean time above 0 such as `2000 h` or `1 year`", above_zero)?;
    let repair = fields.value("repair", "a mean time above 0 such as `8 h`", above_zero)?;
    let crews = fields.count("crews", MOST)?;
    let failures = match (every, repair) {
        (Some(every), Some(repair)) => Some(Failures { every, repair, crews: crews.unwrap_or(1) }),
        (None, None) if crews.is_none() => None,
        _ => {
            let crews = if crews.is_some() { "`crews` are there for repairs: " } else { "" };
            let why = format!(
                "{crews}`fails` (mean time until a machine fails) and `repair` (mean time of a repair) belong together"
            );
            return Err(fields.fault(Class::Missing, 0, why));
        }
    };
    let watts = |text: &str| quantity::watts(text);
    let (idle, busy) = (
        fields.value("idle", "a power such as `40 W`", watts)?,
        fields.value("busy", "a power such as `12 W`", watts)?,
    );
    let power = match (idle, busy) {
        (None, None) => None,
        (idle, busy) => Some(Power { idle: idle.unwrap_or(0.0), busy: busy.unwrap_or(0.0) }),
    };
    let money = fields.value("money", "money by time such as `0.12/h` or `900/year`", quantity::an_hour)?;
    Ok(Machines { counts, needed, failures, power, money })
}

fn above_zero(text: &str) -> Option<f64> {
    quantity::long_seconds(text).filter(|seconds| *seconds > 0.0)
}

/// `[money]`: what energy costs.
pub(super) fn energy(fields: Option<Fields>) -> Result<Option<f64>, Fault> {
    let Some(mut fields) = fields else { return Ok(None) };
    let energy = fields.value("energy", "money for a MWh, a number from 0", quantity::number)?;
    fields.end()?;
    Ok(energy)
}

/// A price of an operation: its time, how sure that is, and its energy.
pub(super) fn price(mut fields: Fields) -> Result<Price, Fault> {
    let each = fields.seconds("each")?;
    let per_kb = fields.seconds("per_kb")?;
    if each.is_none() && per_kb.is_none() {
        return Err(fields.fault(Class::Missing, 0, "neither `each` nor `per_kb`: one of them at least"));
    }
    let cv2 = fields.variation()?;
    let error = error(&mut fields, each, cv2)?;
    let energy = fields.value("energy", "an energy such as `3 mJ`", quantity::joules)?.unwrap_or(0.0);
    let (each, per_byte) = (each.unwrap_or(0.0), per_kb.unwrap_or(0.0) / 1000.0);
    if energy > 0.0 && each <= 0.0 && per_byte <= 0.0 {
        return Err(fields.fault(Class::Invalid, 0, "what takes no time has no `energy` here"));
    }
    fields.end()?;
    Ok(Price { each, per_byte, cv2, error, energy })
}

/// Half of the 95 % interval, relative: said as such, as an interval of `each` (the farther end), or by how many were measured.
fn error(fields: &mut Fields, each: Option<f64>, cv2: f64) -> Result<f64, Fault> {
    let said = fields.value("error", "half of an interval, up to 100 % of the price,", quantity::share)?;
    let measured = fields.count("n", u32::MAX)?;
    let interval = fields.list("interval");
    let ways = usize::from(said.is_some()) + usize::from(measured.is_some()) + usize::from(interval.is_some());
    if ways > 1 {
        return Err(fields.fault(Class::Doubled, 0, "`error`, `interval` and `n` say the same: one of them"));
    }
    if let Some(count) = measured {
        let half = match count {
            1 => f64::INFINITY,
            _ => student(u64::from(count) - 1) * (cv2 / f64::from(count)).sqrt(),
        };
        if half <= 1.0 {
            return Ok(half);
        }
        let why = format!(
            "`n`: the interval of {count} with a variation of {cv2} is wider than the price: more timings are needed"
        );
        return Err(fields.fault(Class::Invalid, 0, why));
    }
    let Some((words, line)) = interval else { return Ok(said.unwrap_or(0.0)) };
    let ends: Vec<f64> = words.iter().filter_map(|word| quantity::seconds(word)).collect();
    let half = match (words.len(), ends.as_slice(), each) {
        (2, [low, high], Some(each)) if *low <= each && each <= *high && each > 0.0 => {
            (each - low).max(high - each) / each
        }
        _ => f64::NAN,
    };
    if half <= 1.0 {
        return Ok(half);
    }
    let why =
        "`interval` is two times with `each` between them, none more than twice `each`: `[\"0.55 ms\", \"0.65 ms\"]`";
    Err(fields.fault(Class::Invalid, line, why))
}
