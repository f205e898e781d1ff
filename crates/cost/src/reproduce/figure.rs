//! Figure 7: throughput over arrivals, platform 1 with 1024 bits, for queue sizes.

use gspn::Budget;
use serde::Serialize;

use super::{calibrated, open, printed, two};
use crate::draw::{Line, Plot};
use crate::model::Model;
use crate::{Fault, solve, weave};

/// Arrivals a second up to which the curves go.
const LAST: u32 = 30;
/// Rooms for which curves are drawn.
const ROOMS: [u32; 6] = [1, 3, 9, 15, 27, 50];
/// The largest room that is looked at for the knee.
const LARGEST: u32 = 60;

/// The family.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// One a configuration and room.
    pub curves: Vec<Curve>,
    /// What the paper says of its curves, and the rooms with which ours do the same.
    pub knees: Vec<Knee>,
}

/// A curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// SC1 or SC2.
    pub configuration: String,
    /// Requests that are there at once.
    pub room: u32,
    /// Arrivals a second, and tags a second.
    pub points: Vec<(u32, f64)>,
}

/// Where a curve reaches its most.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Knee {
    /// SC1 or SC2.
    pub configuration: String,
    /// Arrivals a second at which the paper's curve reaches its most.
    pub arrivals: u32,
    /// That most.
    pub most: f64,
    /// The rooms with which ours first shows the printed two decimals at the same arrivals.
    pub rooms: Vec<u32>,
    /// The same if the whole scenario were one exponential time.
    pub rooms_of_one_stage: Vec<u32>,
}

pub(super) fn solve(model: &Model, budget: &mut Budget<'_>) -> Result<Figure, Fault> {
    let (mut curves, mut knees) = (Vec::new(), Vec::new());
    let Some(row) = printed::ROWS.first() else { return Ok(Figure { curves, knees }) };
    let (time, added) = (1.0 / row.sc1.model, 1.0 / row.sc2.model - 1.0 / row.sc1.model);
    for (configuration, arrivals, most) in printed::KNEES {
        let scenario = model.configuration(configuration)?;
        let model = calibrated(&scenario, time, added);
        for room in ROOMS {
            let at = |rate| Ok((rate, throughput(&model, rate, room, budget)?));
            let points = (1..=LAST).map(at).collect::<Result<_, Fault>>()?;
            curves.push(Curve { configuration: configuration.to_owned(), room, points });
        }
        let whole = if configuration == "SC2" { time + added } else { time };
        let rooms = rooms(&model, arrivals, most, budget)?;
        let rooms_of_one_stage = self::rooms(&calibrated(&scenario, whole, 0.0), arrivals, most, budget)?;
        knees.push(Knee { configuration: configuration.to_owned(), arrivals, most, rooms, rooms_of_one_stage });
    }
    Ok(Figure { curves, knees })
}

fn throughput(model: &Model, rate: u32, room: u32, budget: &mut Budget<'_>) -> Result<f64, Fault> {
    Ok(solve::solve(&weave(&open(model, f64::from(rate), room)), budget)?.throughput)
}

/// The rooms with which the printed most first comes out at `arrivals`, and not one below.
fn rooms(model: &Model, arrivals: u32, most: f64, budget: &mut Budget<'_>) -> Result<Vec<u32>, Fault> {
    let mut rooms = Vec::new();
    for room in 1..=LARGEST {
        // More room never carries less, so the first that is there too early ends the search.
        if two(throughput(model, arrivals - 1, room, budget)?) >= most {
            break;
        }
        if two(throughput(model, arrivals, room, budget)?) >= most {
            rooms.push(room);
        }
    }
    Ok(rooms)
}

impl Figure {
    /// As SVG.
    #[must_use]
    pub fn svg(&self) -> String {
        let mut plot =
            Plot::new("GD generation throughput, platform 1, 1024 bits", "arrivals a second", "tags a second");
        for curve in &self.curves {
            let points = curve.points.iter().map(|(rate, value)| (f64::from(*rate), *value)).collect();
            let name = format!("{}, room for {}", curve.configuration, curve.room);
            let colour = if curve.configuration == "SC1" { 0 } else { 1 };
            plot.line(Line { name, points, colour });
        }
        for knee in &self.knees {
            let label = format!("the paper: {} at {}", knee.most, knee.arrivals);
            plot.mark(f64::from(knee.arrivals), knee.most, &label);
        }
        plot.svg()
    }
}
