//! How the long batches of several runs scatter, and which of them are samples of the long run.

use super::figures::{alike, alike_inside, half_width, mean, spread, unit};

/// How alike neighbours may be.
const ALIKE: f64 = 0.1;
/// The same where each row is taken by itself: eight that have nothing to do with each other are alike by -1/8 beside their own mean.
const ALIKE_INSIDE: f64 = 0.0;
/// How much more the means of runs may scatter than their batches make them: hardly once in a hundred times, when nothing is wrong.
const SCATTER: f64 = 2.2;
/// The same where they have ended differently beyond doubt.
const CLEAR: f64 = 20.0;
/// Where most long batches are the same, so many changes from one to the next must have been seen before they say how often there are any;
/// a run that differs from the start counts as two. Of what comes to its end once and for all more is seen by its drift.
const CHANGES: usize = 50;
/// How much less than their batches runs may scatter where there is chance.
const SAME_RUN: f64 = 1e-9;
/// How much more batches of one time may scatter than runs in them, where fixed times may keep runs in step.
const STEP: f64 = 1.5;

/// What is known of runs besides their batches.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    /// They may differ.
    pub(super) chance: bool,
    /// They cannot have ended differently,
    pub(super) one_end: bool,
    /// or have.
    pub(super) differently: bool,
    /// A fixed time may be longer than a batch: none, or whether it is.
    pub(super) fixed: Option<bool>,
}

/// What samples are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Samples {
    /// The batches of one run: every other is the same.
    OneRun,
    /// Runs that are in step, counted from different times.
    InStep,
    /// Runs that ended differently.
    Ends,
    /// Runs, for their batches hang together or say too little.
    Runs,
    /// All batches.
    Batches,
}

/// The long batches of a measure, a row for each run, and what they say.
#[derive(Debug)]
pub(super) struct Scatter {
    /// In units of `unit`.
    rows: Vec<Vec<f64>>,
    unit: f64,
    /// Of each run.
    pub(super) means: Vec<f64>,
    /// Of all runs, by time, in units of `unit`.
    columns: Vec<f64>,
    pub(super) samples: Samples,
    /// How often what most batches showed became something else.
    changes: Option<usize>,
    /// Neighbours are alike, or runs scatter more than their batches make them.
    unclear: bool,
}

impl Scatter {
    /// Of rows that are all as long, two batches at least.
    pub(super) fn of(mut rows: Vec<Vec<f64>>, facts: Facts) -> Self {
        let unit = unit(rows.iter().flatten());
        rows.iter_mut().flatten().for_each(|batch| *batch /= unit);
        let means: Vec<f64> = rows.iter().map(|row| mean(row)).collect();
        let middle = mean(&means);
        let length = rows.first().map_or(0, Vec::len);
        let columns: Vec<f64> =
            (0..length).map(|at| mean(&rows.iter().map(|row| row[at]).collect::<Vec<_>>())).collect();
        let inside: f64 = rows.iter().zip(&means).map(|(row, mean)| spread(row, *mean)).sum();
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let (groups, runs) = (length as f64, rows.len() as f64);
        let within = inside / (runs * (groups - 1.0));
        let between = groups * spread(&means, middle) / (runs - 1.0);
        let changes = changes(&rows);
        // Runs that are too short to have come round differ, too: they are to go on, for more of them begin at the start again. Until one
        // that has ended elsewhere is told from one that is slow, it is neither: the longer runs are, the more the former differ.
        let slow = alike_inside(&rows) > ALIKE_INSIDE;
        let differently = between > CLEAR * within && !slow && !facts.one_end;
        // Without chance every run is the same one, and however many there are, they say no more than one.
        let one = !facts.chance || between > 0.0 && between <= SAME_RUN * within && !facts.differently;
        // Where nothing ever changed, another run may still see it change; where all end alike, so may a longer one, which has the start behind it.
        let still = !facts.one_end && (between == 0.0 || changes == Some(0));
        let mixed = !one && (facts.differently || differently || still);
        // Runs that rise and fall together show it no better than one does, and what is longer than a batch may hide that.
        let common = spread(&columns, middle) * runs;
        let apart = (inside - common) / (runs - 1.0);
        let in_step = facts.fixed.is_some_and(|longer| longer || common > STEP * apart);
        let in_step = in_step && !one && !mixed;
        let neighbours =
            alike(&rows, middle) > ALIKE || in_step && alike(std::slice::from_ref(&columns), middle) > ALIKE;
        let unclear = neighbours || between > SCATTER * within && !mixed;
        let samples = match (one, in_step, mixed) {
            (true, ..) => Samples::OneRun,
            (_, true, _) => Samples::InStep,
            (.., true) => Samples::Ends,
            _ if unclear => Samples::Runs,
            _ => Samples::Batches,
        };
        let means = means.into_iter().map(|mean| mean * unit).collect();
        Self { rows, unit, means, columns, samples, changes, unclear }
    }

    /// Whether one run says as much as all.
    pub(super) fn is_one(&self) -> bool {
        self.samples == Samples::OneRun
    }

    /// Whether there is to be another run rather than longer ones.
    pub(super) fn is_mixed(&self) -> bool {
        self.samples == Samples::Ends
    }

    /// Half of the interval, and how many samples it comes from; in step, `means` are those of runs that begin at different times.
    pub(super) fn half_width(&self, means: &[f64]) -> (f64, usize) {
        match (self.samples, self.rows.first()) {
            (Samples::OneRun, Some(row)) => (half_width(row) * self.unit, row.len()),
            (Samples::InStep, _) => (half_width(means).max(half_width(&self.columns) * self.unit), means.len()),
            (Samples::Batches, _) => {
                let batches = self.rows.concat();
                (half_width(&batches) * self.unit, batches.len())
            }
            (Samples::OneRun | Samples::Ends | Samples::Runs, _) => (half_width(means), means.len()),
        }
    }

    /// Whether there are as many samples as an interval needs, of which runs that ended differently need so many.
    pub(super) fn is_enough(&self, ends: usize) -> bool {
        let changed = self.changes.is_none_or(|changes| changes >= CHANGES);
        match self.samples {
            Samples::OneRun => true,
            Samples::Ends => changed && self.means.len() >= ends,
            Samples::InStep | Samples::Runs | Samples::Batches => changed && !self.unclear,
        }
    }
}

/// How often what most long batches showed became something else, or was it from the start; nothing where no more than half of them are the same.
fn changes(rows: &[Vec<f64>]) -> Option<usize> {
    // A sum of times that is cut into batches is the same but for rounding.
    #[expect(clippy::cast_possible_truncation, reason = "meant")]
    let same = |batch: &f64| (*batch as f32).to_bits();
    let mut all: Vec<u32> = rows.iter().flatten().map(same).collect();
    all.sort_unstable();
    // What more than half of them are stands in the middle.
    let most = *all.get(all.len() / 2)?;
    let many = all.partition_point(|batch| *batch <= most) - all.partition_point(|batch| *batch < most);
    let of_row = |row: &Vec<f64>| {
        let inside = row.windows(2).filter(|pair| same(&pair[0]) != same(&pair[1])).count();
        inside + 2 * usize::from(row.first().is_some_and(|first| same(first) != most))
    };
    (2 * many > all.len()).then(|| rows.iter().map(of_row).sum())
}
