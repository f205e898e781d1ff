//! Predicted beside measured: the median of the rounds with the interval that holds it in 95 of 100 cases, the error over the measurement, and
//! whether the goals are met. Intervals that overlap say nothing by themselves.

mod show;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

pub use self::show::{conclusions, html, svg, text};

use super::Scenario;
use super::launch::Launch;
use super::organisation::Figures;
use super::run::{Plan, Series, Single, measure};
use crate::record::median;
use crate::state::{self, Beside, Foreseen};
use crate::{Failed, files};

/// The largest half of an interval, %, of what counts as measurable.
const MEASURABLE: f64 = 2.0;
/// Goals: the worst error, the median error, and the worst of the 95th percentile, %.
const GOALS: (f64, f64, f64) = (2.0, 1.0, 10.0);
/// Most rows that may not be measurable: one in five.
const UNMEASURABLE: f64 = 0.2;

/// A figure of a row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cell {
    /// Median over the rounds that count.
    pub predicted: f64,
    /// Median over the same.
    pub measured: f64,
    /// Half of the 95 % interval of the measured median, % of it.
    pub half_width: f64,
    /// Predicted over measured, less one, %: above 0 where the model promises more.
    pub error: f64,
    /// Whether the interval is narrow enough.
    pub measurable: bool,
    /// The error of all rounds and all of their time, what does not count with the rest, and half of the interval of what was measured, %.
    pub all: (f64, f64),
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// What was run.
    pub scenario: Scenario,
    /// As it is printed.
    pub name: String,
    /// Runs that count.
    pub runs: usize,
    /// Tags a second.
    pub throughput: Cell,
    /// Processor seconds a tag.
    pub processor: Cell,
    /// The 95th percentile of the time from tag to tag of a client, seconds.
    pub p95: Cell,
    /// Of its predictions, in the register.
    pub predictions: Vec<String>,
    /// Of its runs, in the register.
    pub run_ids: Vec<String>,
}

/// What all rows say of one figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// Rows whose measurement is good enough to tell.
    pub measurable: usize,
    /// The others.
    pub not_measurable: usize,
    /// Largest error without its sign, %; none where nothing is measurable.
    pub worst: Option<f64>,
    /// Median of the errors without their signs, %.
    pub median: Option<f64>,
    /// Mean of the errors with their signs, %.
    pub bias: Option<f64>,
    /// Whether the goals are met.
    pub met: bool,
}

/// The report.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The rows, in the order of the paper.
    pub rows: Vec<Row>,
    /// Of tags a second.
    pub throughput: Verdict,
    /// Of processor seconds a tag.
    pub processor: Verdict,
    /// Of the 95th percentile.
    pub p95: Verdict,
    /// Measured steps that the predictions were made of; nothing else was, and none was fitted.
    pub parameters: Vec<String>,
    /// How many.
    pub parameter_count: usize,
    /// Rounds, from 1, that found the machine in another state than most did, and do not count.
    pub apart: Vec<u32>,
    /// How far the slowest round and the fastest are off the middle by what was predicted in them, relative.
    pub wandered: Option<[f64; 2]>,
    /// Share of the runs in each state of the machine, in the order of the distances of the series. Rows with ten runs in the commonest one
    /// are of those; in others each state is as heavy as it was common.
    pub states: Vec<f64>,
    /// Predictions and runs that came to no end, in all series of the folder.
    pub abandoned: Vec<String>,
    /// Everything that was found.
    pub series: Series,
}

/// Compares.
#[must_use]
pub fn of(series: Series) -> Report {
    let mut by_row: BTreeMap<Order, Vec<&Single>> = BTreeMap::new();
    for single in &series.singles {
        let row = single.scenario;
        by_row.entry((row.database, row.clients, row.configuration, row.key)).or_default().push(single);
    }
    let (numbers, foreseen) = foreseen(&by_row);
    let (apart, wandered) = (apart(numbers, &foreseen), state::wandered(&foreseen));
    let states = state::shares(series.singles.iter().map(|single| single.state), series.distances.len());
    let common = state::common(&states);
    let rows: Vec<Row> = by_row.values().filter_map(|singles| row(singles, &apart, common)).collect();
    let parameters: BTreeSet<&String> = series.singles.iter().flat_map(|it| &it.prediction.parameters).collect();
    let parameters: Vec<String> = parameters.into_iter().cloned().collect();
    let verdict = |cell: fn(&Row) -> &Cell, goals| verdict(&rows, cell, goals);
    let (throughput, processor) =
        (verdict(|row| &row.throughput, (GOALS.0, GOALS.1)), verdict(|row| &row.processor, (GOALS.0, GOALS.1)));
    let p95 = verdict(|row| &row.p95, (GOALS.2, GOALS.2));
    let abandoned = abandoned(&series);
    let parameter_count = parameters.len();
    Report { rows, throughput, processor, p95, parameters, parameter_count, apart, wandered, states, abandoned, series }
}

/// Measures, compares, and writes `report.json`, `report.html` and `report.svg` beside the register; progress goes to standard error.
///
/// # Errors
/// As [`measure`]; the folder cannot be written.
pub fn take(launch: &Launch, plan: &Plan, folder: &Path) -> Result<Report, Failed> {
    let report = of(measure(launch, plan, folder, &mut |line| eprintln!("{line}"))?);
    files::write(&folder.join("report.json"), serde_json::to_string_pretty(&report)?)?;
    files::write(&folder.join("report.html"), html(&report))?;
    files::write(&folder.join("report.svg"), svg(&report))?;
    Ok(report)
}

type Order = (super::Kind, u32, super::Configuration, u32);

/// Ids of predictions without a run and of runs without an end.
fn abandoned(series: &Series) -> Vec<String> {
    let run: BTreeSet<&str> = series.register.iter().filter_map(|it| it.id.strip_prefix('r')).collect();
    let left = series.register.iter().filter(|it| match it.id.split_at_checked(1) {
        Some(("p", number)) => !run.contains(number),
        Some(("r", _)) => it.state != "ended",
        _ => false,
    });
    left.map(|it| format!("{} ({}, {})", it.id, it.of, it.state)).collect()
}

/// What each round predicted of each row, and the numbers of the rounds.
fn foreseen(by_row: &BTreeMap<Order, Vec<&Single>>) -> (BTreeSet<u32>, Vec<Vec<Foreseen>>) {
    let numbers: BTreeSet<u32> = by_row.values().flatten().map(|single| single.round).collect();
    let of = |round: u32| {
        let of = |singles: &Vec<&Single>| {
            singles.iter().find(|it| it.round == round).map(|it| (it.state, it.prediction.throughput))
        };
        by_row.values().map(of).collect::<Vec<_>>()
    };
    let foreseen = numbers.iter().map(|round| of(*round)).collect();
    (numbers, foreseen)
}

/// Rounds that found the machine in another state than most did: by what was predicted in them.
fn apart(numbers: BTreeSet<u32>, foreseen: &[Vec<Foreseen>]) -> Vec<u32> {
    numbers.into_iter().zip(state::counted(foreseen)).filter(|(_, counted)| !counted).map(|(round, _)| round).collect()
}

/// Of the rounds that are not `apart`.
fn row(singles: &[&Single], apart: &[u32], common: Option<usize>) -> Option<Row> {
    let scenario = singles.first()?.scenario;
    let counted: Vec<&Single> = singles.iter().copied().filter(|single| !apart.contains(&single.round)).collect();
    let counted = state::quiet(&counted, |single| single.outcome.quiet.is_some());
    let groups = state::alike(&counted, |single| single.state, common);
    let cell = |predicted: fn(&Single) -> f64, measured: fn(&Figures) -> f64, limit: f64| {
        let foreseen = |group: &[&Single]| group.iter().map(|it| predicted(it)).collect::<Vec<_>>();
        let came = |group: &[&Single]| group.iter().map(|it| measured(it.outcome.counting())).collect::<Vec<_>>();
        let all = singles.iter().map(|it| measured(&it.outcome.all)).collect();
        let whole = cell(&[foreseen(singles)], &[all], limit)?;
        let of = |values: &dyn Fn(&[&Single]) -> Vec<f64>| groups.iter().map(|group| values(group)).collect::<Vec<_>>();
        // A row whose runs all lie apart stays a row, and is not measurable.
        let cell = cell(&of(&foreseen), &of(&came), limit);
        Some(cell.map_or(Cell { measurable: false, ..whole.clone() }, |cell| Cell { all: whole.all, ..cell }))
    };
    Some(Row {
        scenario,
        name: scenario.name(),
        runs: groups.iter().map(Vec::len).sum(),
        throughput: cell(|it| it.prediction.throughput, Figures::rate, MEASURABLE)?,
        processor: cell(|it| it.prediction.processor, Figures::of_tag, MEASURABLE)?,
        p95: cell(|it| it.prediction.p95, |it| it.p95, MEASURABLE)?,
        predictions: singles.iter().map(|it| it.prediction_id.clone()).collect(),
        run_ids: singles.iter().map(|it| it.run_id.clone()).collect(),
    })
}

fn cell(predicted: &[Vec<f64>], measured: &[Vec<f64>], limit: f64) -> Option<Cell> {
    let beside = Beside::of(predicted, measured)?;
    let Beside { predicted, measured, .. } = beside;
    let (half_width, error) = (beside.half_width * 100.0, beside.error * 100.0);
    let measurable = beside.measurable(limit / 100.0);
    Some(Cell { predicted, measured, half_width, error, measurable, all: (error, half_width) })
}

fn verdict(rows: &[Row], cell: fn(&Row) -> &Cell, (worst_goal, median_goal): (f64, f64)) -> Verdict {
    let errors: Vec<f64> = rows.iter().map(cell).filter(|cell| cell.measurable).map(|cell| cell.error).collect();
    let sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    let worst = sizes.iter().copied().reduce(f64::max);
    let middle = median(&sizes);
    let bias = (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64);
    let (measurable, not_measurable) = (errors.len(), rows.len() - errors.len());
    let met = worst.is_some_and(|worst| worst <= worst_goal)
        && middle.is_some_and(|middle| middle <= median_goal)
        && not_measurable as f64 <= UNMEASURABLE * rows.len() as f64;
    Verdict { measurable, not_measurable, worst, median: middle, bias, met }
}

#[cfg(test)]
mod tests {
    use cost::reproduce::here::Prediction;

    use super::*;
    use crate::gd::organisation::Outcome;

    fn row(error: f64, half_width: f64) -> Row {
        let (measurable, all) = (half_width <= MEASURABLE, (error, half_width));
        let cell = Cell { predicted: 1.0, measured: 1.0, half_width, error, measurable, all };
        let scenario = Scenario::all(&[super::super::Kind::Sqlite], &[2048], &[1])[0];
        let (throughput, processor, p95) = (cell.clone(), cell.clone(), cell);
        let (name, predictions, run_ids) = (scenario.name(), Vec::new(), Vec::new());
        Row { scenario, name, runs: 10, throughput, processor, p95, predictions, run_ids }
    }

    #[test]
    fn goals_hold_for_the_rows_that_can_be_measured_and_only_if_those_are_enough() {
        for (rule, rows, met, worst) in [
            ("all within", vec![row(1.0, 0.5), row(-0.5, 0.5), row(0.9, 1.0)], true, Some(1.0)),
            ("the worst is too far off", vec![row(2.1, 0.5), row(0.1, 0.5), row(0.1, 0.5)], false, Some(2.1)),
            ("the median is too far off", vec![row(1.5, 0.5), row(1.2, 0.5), row(0.1, 0.5)], false, Some(1.5)),
            (
                "one in five cannot be measured",
                vec![row(0.1, 0.5); 4].into_iter().chain([row(9.0, 3.0)]).collect(),
                true,
                Some(0.1),
            ),
            ("one in four cannot", vec![row(0.1, 0.5), row(0.1, 0.5), row(0.1, 0.5), row(9.0, 3.0)], false, Some(0.1)),
            ("a wide interval that overlaps does not pass", vec![row(1.0, 5.0)], false, None),
            ("nothing was measured", vec![], false, None),
        ] {
            let verdict = verdict(&rows, |row| &row.throughput, (2.0, 1.0));
            assert_eq!((verdict.met, verdict.worst), (met, worst), "{rule}");
        }
    }

    /// One row, each of its runs as fast as the state in which it was, of which everything but that is predicted as it is.
    fn singles(states: &[usize]) -> Vec<Single> {
        let single = |(round, state): (u32, &usize)| {
            let (tags, state) = ([100, 80, 60][*state], *state);
            let time = 1.0 / f64::from(tags);
            let prediction = Prediction {
                throughput: f64::from(tags) * if state == 0 { 1.01 } else { 1.05 },
                processor: time,
                at_store: time,
                p95: time,
                organisation: 1.0,
                store: 1.0,
                parameters: Vec::new(),
            };
            let (tags, seconds, processor, at_store) = (f64::from(tags), 1.0, 1.0, 1.0);
            let all = Figures { tags, seconds, processor, at_store, mean: time, p50: time, p95: time };
            let outcome = Outcome { all, quiet: None };
            let (prediction_id, run_id) = (format!("p{round}"), format!("r{round}"));
            let scenario = Scenario::all(&[super::super::Kind::Sqlite], &[2048], &[1])[0];
            Single { round, scenario, state, prediction_id, prediction, run_id, outcome }
        };
        (1..).zip(states).map(single).collect()
    }

    #[test]
    fn a_row_is_of_the_commonest_state_where_that_has_runs_enough() {
        let mixed = |one: usize, other: usize| [vec![0; one], vec![1; other]].concat();
        for (rule, states, common, runs, measured, error) in [
            ("enough", mixed(12, 9), 0, 12, 100.0, 1.0),
            ("the rarer one is not asked", mixed(9, 12), 1, 12, 80.0, 5.0),
            (
                "too few of any, each as heavy as it is common",
                mixed(9, 3),
                0,
                12,
                95.0,
                (101.0 * 9.0 + 84.0 * 3.0) / 11.4 - 100.0,
            ),
            ("as common as each other", mixed(6, 6), 0, 12, 90.0, (101.0 + 84.0) / 1.8 - 100.0),
            ("one that was hardly met", mixed(9, 2), 0, 11, 100.0, 1.0),
            (
                "and is not needed",
                [mixed(6, 5), vec![2]].concat(),
                0,
                11,
                (600.0 + 400.0) / 11.0,
                (606.0 + 420.0) / 10.0 - 100.0,
            ),
            ("one state", mixed(11, 0), 0, 11, 100.0, 1.0),
        ] {
            let singles = singles(&states);
            let row = super::row(&singles.iter().collect::<Vec<_>>(), &[], Some(common)).unwrap();
            assert_eq!(row.runs, runs, "{rule}");
            assert!((row.throughput.measured / measured - 1.0).abs() < 1e-9, "{rule}: {}", row.throughput.measured);
            assert!((row.throughput.error - error).abs() < 1e-9, "{rule}: {}", row.throughput.error);
        }
    }

    #[test]
    fn intervals_are_those_of_the_median_and_few_runs_are_not_enough() {
        let spread: Vec<f64> = (0..10).map(|number| 100.0 + f64::from(number)).collect();
        let wide = cell(&[vec![104.5]], &[spread], 2.0).unwrap();
        assert!((wide.measured - 104.5).abs() < 1e-9 && wide.error.abs() < 1e-9);
        assert!((1.5..4.5).contains(&wide.half_width), "{}", wide.half_width);
        let narrow = cell(&[vec![101.0]], &[vec![100.0; 10]], 2.0).unwrap();
        assert!(narrow.half_width < 1e-9 && narrow.measurable && (narrow.error - 1.0).abs() < 1e-9);
        assert!(!cell(&[vec![101.0]], &[vec![100.0; 9]], 2.0).unwrap().measurable, "nine runs");
    }
}
