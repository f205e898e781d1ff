//! Predicted beside measured, of each row and of all.

use cost::whatif::Setting;
use serde::Serialize;

use crate::record::median;

/// A row counts if half of its 95 % interval is at most this, relative.
pub const MEASURABLE: f64 = 0.02;
/// The goal of the largest error of a row that counts.
pub const WORST: f64 = 0.02;
/// The goal of the median.
pub const MEDIAN: f64 = 0.01;

/// A row and what was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Held {
    /// The setting.
    pub setting: Setting,
    /// Clients.
    pub clients: u32,
    /// Requests a second as predicted: the median of the runs that count. They are those in the commonest state where they are enough, else each
    /// state is as heavy as it was common: see [`crate::state::alike`].
    pub predicted: f64,
    /// As measured: the median of the same.
    pub measured: f64,
    /// Half of the 95 % interval of that median (bootstrap), relative.
    pub half_width: f64,
    /// Predicted over measured, minus 1: above 0 the prediction is too good.
    pub error: f64,
    /// The same of all rounds, those that do not count with the others, and half of the 95 % interval of what was measured, relative.
    pub all: (f64, f64),
    /// The error of each of all rounds: the median, and half of its 95 % interval (bootstrap). What makes the machine faster in one round than
    /// in another is in both, and not in this.
    pub by_round: (f64, f64),
    /// What the rounds predict over what was predicted before them, minus 1: how far the machine is from the one of the calibration.
    pub moved: f64,
    /// Whether it was measured well enough to count.
    pub measurable: bool,
    /// What 95 of 100 answers took at most, in seconds, as predicted and as measured: medians of the rounds that count.
    pub p95: (f64, f64),
    /// Seconds of processor time of the server a request, as predicted and as measured.
    pub cpu: (f64, f64),
    /// Seconds until all clients are connected that begin at once, as predicted and as measured.
    pub storm: (f64, f64),
    /// What was renewed in a run.
    pub renewed: Renewed,
    /// Runs that count.
    pub runs: u64,
}

/// How often all clients together did so in a run: the mean of the runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Renewed {
    /// Keys of a channel.
    pub keys: f64,
    /// Another token was shown.
    pub tokens: f64,
}

/// All rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// One for each row of the prediction.
    pub rows: Vec<Held>,
    /// Rows that count.
    pub measurable: usize,
    /// The largest error of a row that counts, whatever its sign.
    pub worst: Option<f64>,
    /// The median of them.
    pub median: Option<f64>,
    /// The mean of the errors with their signs.
    pub bias: Option<f64>,
    /// Rounds, from 1, that found the machine in another state than most did, and do not count.
    pub apart: Vec<u32>,
    /// Rounds.
    pub rounds: usize,
    /// How far the slowest of them and the fastest are off the middle by what was predicted in them, relative.
    pub wandered: Option<[f64; 2]>,
    /// How long a line of the cache took from one processor to the other in each state in which the machine was met, seconds: the shortest and
    /// the longest.
    pub distances: Vec<[f64; 2]>,
    /// Share of the runs that were in each.
    pub states: Vec<f64>,
    /// Share of the time of runs that counts: nobody else computed on the cores in it. None where nobody looked, and all of it does.
    pub quiet: Option<f64>,
    /// Runs that did not come to their end, or not in the state in which they began, and were begun again.
    pub abandoned: Vec<Abandoned>,
    /// Rows without a run that counts: renewals alone were predicted to take all of a processor in the rounds that do. They are rows that do
    /// not count.
    pub unrun: Vec<Unrun>,
    /// Whether at least four rows in five count, and the goals are met.
    pub met: bool,
}

/// A run of which nothing counts: it did not come to its end, or the machine became another one meanwhile.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Abandoned {
    /// Of which round, from 1.
    pub round: u32,
    /// The setting.
    pub setting: Setting,
    /// Clients.
    pub clients: u32,
    /// Why it ended.
    pub why: String,
}

/// A row without a run that counts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Unrun {
    /// The setting.
    pub setting: Setting,
    /// Clients.
    pub clients: u32,
}

/// What rows say together.
pub(super) fn judged(rows: Vec<Held>, unrun: Vec<Unrun>) -> Verdict {
    let errors: Vec<f64> = rows.iter().filter(|row| row.measurable).map(|row| row.error).collect();
    let sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    let worst = sizes.iter().copied().reduce(f64::max);
    let median = median(&sizes);
    let bias = (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64);
    let enough = errors.len() * 5 >= (rows.len() + unrun.len()) * 4;
    let met = enough && worst.is_some_and(|it| it <= WORST) && median.is_some_and(|it| it <= MEDIAN);
    let (apart, abandoned, distances, states) = Default::default();
    let (rounds, wandered, quiet, measurable) = (0, None, None, errors.len());
    Verdict {
        measurable,
        rows,
        worst,
        median,
        bias,
        apart,
        rounds,
        wandered,
        distances,
        states,
        quiet,
        abandoned,
        unrun,
        met,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(error: f64, half_width: f64) -> Held {
        Held {
            setting: Setting::NONE,
            clients: 1,
            predicted: 100.0 * (1.0 + error),
            measured: 100.0,
            half_width,
            error,
            all: (error, half_width),
            by_round: (error, 0.0),
            moved: 0.0,
            measurable: half_width <= MEASURABLE,
            p95: (1.0, 1.0),
            cpu: (1.0, 1.0),
            storm: (1.0, 1.0),
            renewed: Renewed::default(),
            runs: 10,
        }
    }

    #[test]
    fn only_rows_that_were_measured_well_count_and_most_must_be() {
        let all_run = |rows: Vec<Held>| judged(rows, vec![]);
        let good = all_run(vec![row(0.005, 0.01); 5]);
        assert!(good.met && good.bias.is_some_and(|bias| (bias - 0.005).abs() < 1e-12));
        let with = |last: Held| all_run([vec![row(0.005, 0.01); 4], vec![last]].concat());
        assert!(with(row(0.5, 0.03)).met, "one row in five may be left out");
        assert!(!with(row(0.021, 0.02)).met, "overlapping intervals are no excuse");
        assert!(!all_run([vec![row(0.005, 0.01); 3], vec![row(0.0, 0.03); 2]].concat()).met);
        let none = all_run(vec![row(0.0, 1.0)]);
        assert!(!none.met && none.worst.is_none() && none.bias.is_none());
        let signs = all_run(vec![row(0.01, 0.0), row(-0.01, 0.0)]);
        assert!(signs.bias.is_some_and(|bias| bias.abs() < 1e-12) && signs.worst == Some(0.01));
        for (without, met) in [(1, true), (2, false)] {
            let unrun = vec![Unrun { setting: Setting::NONE, clients: 1 }; without];
            assert_eq!(judged(vec![row(0.005, 0.01); 4], unrun).met, met, "{without} rows were not run");
        }
    }
}
