//! The tables and the figure of P4 again, from the calibration that the paper allows.
//!
//! The paper prints no time of a step, no routing probability and no message size. Its twelve model numbers of Tables 2 and 3 fit one
//! formula, `1/X = T(platform, key) + c(platform)` with c = 0 in SC1: eight numbers are *fitted* (the six of SC1, and c of each platform from the
//! rows of 1024 bits), four are *predicted* (SC2 with 2048 and 4096 bits). Every value here is the answer of a net that was woven from
//! the annotated model, not of the formula.

mod figure;
pub mod here;
mod html;
mod printed;
mod text;

use gspn::Budget;
use serde::Serialize;

use crate::model::{Model, Price, Workload};
use crate::read::{Language, read};
use crate::{Fault, solve, weave};

pub use figure::{Curve, Figure};
pub use html::html;
pub use text::text;

/// The annotated model of the scenario.
const MODEL: &str = include_str!("../models/cuspis.toml");

/// What the paper prints and what comes out here.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reproduction {
    /// Tables 2 and 3.
    pub rows: Vec<Row>,
    /// Table 4.
    pub degradations: Vec<Degradation>,
    /// For each platform what was fitted.
    pub fitted: Vec<Fitted>,
    /// The measured columns, predicted in the same way from their own rows of 1024 bits and SC1.
    pub measured: Vec<Measured>,
    /// Figure 7 as a family over the queue size, which the paper does not print.
    pub figure: Figure,
    /// How many numbers were fitted, and how many predicted.
    pub count: Count,
    /// The largest distance of a model value from the printed one, %.
    pub worst: f64,
    /// The largest distance of a degradation, made of two-decimal values, from the printed one, points.
    pub worst_degradation: f64,
    /// The paper's own mean error over the measurement, %: above 0 where its model promises too much.
    pub bias: f64,
}

/// How many numbers were fitted, and how many predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Taken from printed values.
    pub fitted: usize,
    /// Not taken from the printed value that they stand beside.
    pub predicted: usize,
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A parameter was taken from the printed value.
    Fitted,
    /// The printed value was not used.
    Predicted,
}

impl Origin {
    /// As it is printed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fitted => "fitted",
            Self::Predicted => "predicted",
        }
    }
}

/// A row of Table 2 or 3. Rates are tags a second.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// 2 (SC1) or 3 (SC2).
    pub table: u8,
    /// 1 or 2.
    pub platform: u8,
    /// Bits of the RSA key (the paper's heading says bytes).
    pub key: u32,
    /// The paper's model.
    pub printed: f64,
    /// The paper's measurement.
    pub measured: f64,
    /// Ours.
    pub value: f64,
    /// Whether a parameter was taken from the printed value.
    pub origin: Origin,
    /// Ours against the printed one, %.
    pub off: f64,
    /// The paper's model against its measurement, % of the model as the paper does.
    pub error_of_model: f64,
    /// The same, % of the measurement.
    pub error_of_measurement: f64,
}

/// A cell of Table 4, %.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Degradation {
    /// 1 or 2.
    pub platform: u8,
    /// Bits of the RSA key.
    pub key: u32,
    /// As printed, model and measurement.
    pub printed: f64,
    /// As printed, of the measurement.
    pub printed_measured: f64,
    /// From our values rounded to two decimals, as the paper does.
    pub value: f64,
    /// From our values as they are.
    pub unrounded: f64,
}

/// What was fitted for a platform, milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fitted {
    /// 1 or 2.
    pub platform: u8,
    /// Time of SC1 by bits of the key.
    pub sc1: Vec<(u32, f64)>,
    /// What SC2 adds.
    pub added: f64,
    /// All values of `added` with which every printed row of SC2 comes out after rounding, for times of SC1 within theirs; empty (low above high) where there is none.
    pub interval: (f64, f64),
}

/// A measured row of SC2, predicted from the measured rows of SC1 and of 1024 bits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// 1 or 2.
    pub platform: u8,
    /// Bits of the RSA key.
    pub key: u32,
    /// As printed.
    pub printed: f64,
    /// Ours.
    pub value: f64,
    /// Ours against the printed one, %.
    pub off: f64,
}

/// Does it.
///
/// # Errors
/// When the solver refuses a net, which no version of this program should.
pub fn p4(budget: &mut Budget<'_>) -> Result<Reproduction, Fault> {
    let model = read(MODEL, Language::Toml)?;
    let printed = &printed::ROWS;
    let (mut rows, mut degradations, mut fitted, mut measured) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for platform in [1, 2] {
        let own: Vec<&printed::Row> = printed.iter().filter(|row| row.platform == platform).collect();
        let Some(first) = own.first() else { continue };
        let added = 1.0 / first.sc2.model - 1.0 / first.sc1.model;
        let added_measured = 1.0 / first.sc2.measured - 1.0 / first.sc1.measured;
        for row in &own {
            let time = 1.0 / row.sc1.model;
            let sc1 = throughput(&model, "SC1", time, 0.0, budget)?;
            let sc2 = throughput(&model, "SC2", time, added, budget)?;
            rows.push(self::row(2, row, row.sc1, sc1, Origin::Fitted));
            let origin = if row.key == first.key { Origin::Fitted } else { Origin::Predicted };
            rows.push(self::row(3, row, row.sc2, sc2, origin));
            degradations.push(degradation(row, sc1, sc2));
            if row.key != first.key {
                let value = throughput(&model, "SC2", 1.0 / row.sc1.measured, added_measured, budget)?;
                let (printed, off) = (row.sc2.measured, percent(value, row.sc2.measured));
                measured.push(Measured { platform, key: row.key, printed, value, off });
            }
        }
        let sc1 = own.iter().map(|row| (row.key, 1e3 / row.sc1.model)).collect();
        fitted.push(Fitted { platform, sc1, added: added * 1e3, interval: interval(&own) });
    }
    rows.sort_by_key(|row| (row.table, row.platform, row.key));
    let worst = rows.iter().map(|row| row.off.abs()).fold(0.0, f64::max);
    let worst_degradation = degradations.iter().map(|it| (it.value - it.printed).abs()).fold(0.0, f64::max);
    let is = |origin| rows.iter().filter(|row| row.origin == origin).count();
    let count = Count { fitted: is(Origin::Fitted), predicted: is(Origin::Predicted) };
    #[expect(clippy::cast_precision_loss, reason = "twelve rows")]
    let bias = rows.iter().map(|row| row.error_of_measurement).sum::<f64>() / rows.len() as f64;
    let figure = figure::solve(&model, budget)?;
    Ok(Reproduction { rows, degradations, fitted, measured, figure, count, worst, worst_degradation, bias })
}

/// Tags a second of one configuration with these times on its two operations that cost anything.
fn throughput(model: &Model, configuration: &str, sc1: f64, added: f64, budget: &mut Budget<'_>) -> Result<f64, Fault> {
    let model = calibrated(&model.configuration(configuration)?, sc1, added);
    Ok(solve::solve(&weave(&model), budget)?.throughput)
}

/// The model with the only two sums that the paper allows: all of SC1 on the signature, all that SC2 adds on the encryption.
fn calibrated(model: &Model, sc1: f64, added: f64) -> Model {
    let mut model = model.clone();
    let price = |each: f64| Price { each, per_byte: 0.0, cv2: 1.0, error: 0.0, energy: 0.0 };
    let operations =
        [("sign rsa-1024", sc1), ("hash sha-1", 0.0), ("encrypt aes-256-cbc", added), ("decrypt aes-256-cbc", 0.0)];
    let prices = operations.into_iter().map(|(operation, each)| (operation.to_owned(), price(each)));
    model.prices.insert("paper".to_owned(), prices.collect());
    model
}

/// The same under arrivals that find `room` places, served one after the other.
fn open(model: &Model, rate: f64, room: u32) -> Model {
    let mut model = model.clone();
    model.workload = Workload::Open { rate, room, threads: Some(1) };
    model
}

fn row(table: u8, of: &printed::Row, pair: printed::Pair, value: f64, origin: Origin) -> Row {
    Row {
        table,
        platform: of.platform,
        key: of.key,
        printed: pair.model,
        measured: pair.measured,
        value,
        origin,
        off: percent(value, pair.model),
        error_of_model: (pair.model - pair.measured) / pair.model * 100.0,
        error_of_measurement: percent(pair.model, pair.measured),
    }
}

fn degradation(of: &printed::Row, sc1: f64, sc2: f64) -> Degradation {
    let fall = |sc1: f64, sc2: f64| 100.0 - sc2 * 100.0 / sc1;
    Degradation {
        platform: of.platform,
        key: of.key,
        printed: of.degradation.model,
        printed_measured: of.degradation.measured,
        value: fall(two(sc1), two(sc2)),
        unrounded: fall(sc1, sc2),
    }
}

/// What SC2 may add, milliseconds, so that every printed row comes out after rounding to two decimals, where SC1 may be anything that is rounded so.
fn interval(rows: &[&printed::Row]) -> (f64, f64) {
    let half = 0.005;
    let bounds = rows.iter().map(|row| {
        let low = 1e3 / (row.sc2.model + half) - 1e3 / (row.sc1.model - half);
        let high = 1e3 / (row.sc2.model - half) - 1e3 / (row.sc1.model + half);
        (low, high)
    });
    bounds.fold((f64::MIN, f64::MAX), |all, it| (all.0.max(it.0), all.1.min(it.1)))
}

/// Rounded to two decimals.
fn two(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn percent(value: f64, of: f64) -> f64 {
    (value - of) / of * 100.0
}
