//! One measure, as it is kept in `bench-runs/<date>-<machine>/measures.jsonl` and printed in the table.

use serde::Serialize;

use crate::random::Random;

/// A measured figure with its peer's figure from the same run. Lower is better in every unit used.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// What was measured, such as `ua.read.none.20`.
    pub measure: String,
    /// Unit of `here` and `peer`.
    pub unit: String,
    /// Our figure: the median over `runs`.
    pub here: f64,
    /// The peer's figure, if there is a peer.
    pub peer: Option<f64>,
    /// The peer's name.
    pub peer_name: Option<String>,
    /// The peer's version and how it was built.
    pub peer_build: Option<String>,
    /// `here / peer`, the median of the paired ratios; without a peer `here / goal`.
    pub ratio: f64,
    /// The goal: for `ratio` when there is a peer, for `here` when there is none or `absolute` is set.
    pub goal: f64,
    /// The goal is one for `here` although there is a peer.
    #[serde(skip)]
    pub absolute: bool,
    /// Number of counted runs.
    pub runs: usize,
    /// Smallest ratio over the runs (smallest figure without a peer).
    pub min: f64,
    /// Largest ratio over the runs (largest figure without a peer).
    pub max: f64,
    /// The command that repeats it.
    pub command: String,
}

/// Median; the mean of the middle two for an even number. `None` for no value or one that is not a number.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    if values.is_empty() || values.iter().any(|value| value.is_nan()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { Some(sorted[middle]) } else { Some(f64::midpoint(sorted[middle - 1], sorted[middle])) }
}

/// Samples of the bootstrap.
const SAMPLES: u32 = 2_000;

/// Half of the interval between the quantiles 2.5 and 97.5 of the medians of samples drawn from the values (bootstrap). `None` for no value
/// or one that is not a number.
#[must_use]
pub fn half(values: &[f64]) -> Option<f64> {
    half_of_groups(&[values.to_vec()])
}

/// The mean of the medians of some groups, each as heavy as it is large. `None` where a group has none.
#[must_use]
pub fn median_of_groups(groups: &[Vec<f64>]) -> Option<f64> {
    let all = groups.iter().map(Vec::len).sum::<usize>().max(1) as f64;
    let parts = groups.iter().map(|group| Some(median(group)? * group.len() as f64 / all));
    parts.collect::<Option<Vec<_>>>().filter(|parts| !parts.is_empty()).map(|parts| parts.iter().sum())
}

/// The same as [`half`] of [`median_of_groups`]: each group is drawn from by itself.
#[must_use]
pub fn half_of_groups(groups: &[Vec<f64>]) -> Option<f64> {
    let mut random = Random::new(3);
    let mut medians = Vec::new();
    for _ in 0..SAMPLES {
        let mut sample = Vec::new();
        for group in groups {
            let count = u32::try_from(group.len()).ok()?;
            sample.push((0..count).map(|_| group[random.below(count) as usize]).collect());
        }
        medians.push(median_of_groups(&sample)?);
    }
    medians.sort_by(f64::total_cmp);
    let at = |share: f64| medians.get((share * f64::from(SAMPLES)) as usize).copied();
    Some((at(0.975)? - at(0.025)?) / 2.0)
}

/// The peer of a measure.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// Version and build.
    pub build: String,
}

impl Record {
    /// A measure taken in pairs: each run gave our figure and the peer's.
    #[must_use]
    pub fn paired(
        measure: &str,
        unit: &str,
        runs: &[(f64, f64)],
        peer: &Peer,
        goal: f64,
        command: &str,
    ) -> Option<Self> {
        let ratios: Vec<f64> = runs.iter().map(|(here, peer)| here / peer).collect();
        let here: Vec<f64> = runs.iter().map(|run| run.0).collect();
        let peers: Vec<f64> = runs.iter().map(|run| run.1).collect();
        Some(Self {
            measure: measure.into(),
            unit: unit.into(),
            here: median(&here)?,
            peer: Some(median(&peers)?),
            peer_name: Some(peer.name.clone()),
            peer_build: Some(peer.build.clone()),
            ratio: median(&ratios)?,
            goal,
            absolute: false,
            runs: runs.len(),
            min: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            max: ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            command: command.into(),
        })
    }

    /// A measure without a peer, held against its goal.
    #[must_use]
    pub fn alone(measure: &str, unit: &str, runs: &[f64], goal: f64, command: &str) -> Option<Self> {
        let here = median(runs)?;
        Some(Self {
            runs: runs.len(),
            min: runs.iter().copied().fold(f64::INFINITY, f64::min),
            max: runs.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            ..Self::figure(measure, unit, here, goal, command)
        })
    }

    /// A figure that is itself drawn from many, held against its goal.
    #[must_use]
    pub fn figure(measure: &str, unit: &str, here: f64, goal: f64, command: &str) -> Self {
        Self {
            measure: measure.into(),
            unit: unit.into(),
            here,
            peer: None,
            peer_name: None,
            peer_build: None,
            ratio: here / goal,
            goal,
            absolute: false,
            runs: 1,
            min: here,
            max: here,
            command: command.into(),
        }
    }

    /// Whether the goal is met.
    #[must_use]
    pub fn met(&self) -> bool {
        let figure = if self.peer.is_some() && !self.absolute { self.ratio } else { self.here };
        figure <= self.goal
    }
}

/// The records as a table for a terminal.
#[must_use]
pub fn table(records: &[Record]) -> String {
    let mut text = format!(
        "{:<34} {:>12} {:>12} {:>8} {:>16} {:>8}  {}\n",
        "measure", "here", "peer", "ratio", "min … max", "goal", "unit"
    );
    for record in records {
        let peer = record.peer.map_or_else(|| "-".into(), |peer| format!("{peer:.3}"));
        let spread = format!("{:.3} … {:.3}", record.min, record.max);
        let verdict = if record.met() { "met" } else { "MISSED" };
        text.push_str(&format!(
            "{:<26} {:>12.3} {:>12} {:>8.3} {:>16} {:>8}  {} ({verdict}, {} runs)\n",
            record.measure, record.here, peer, record.ratio, spread, record.goal, record.unit, record.runs
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_the_median_of_the_pairs() {
        let peer = Peer { name: "p".into(), build: "b".into() };
        let record = Record::paired("m", "us", &[(1.0, 2.0), (3.0, 3.0), (2.0, 1.0)], &peer, 1.0, "c").unwrap();
        assert_eq!((record.ratio, record.min, record.max), (1.0, 0.5, 2.0));
        assert!(record.met());
    }

    #[test]
    fn without_a_peer_the_figure_is_held_against_the_goal() {
        let record = Record::alone("m", "us", &[9.0, 8.0], 8.0, "c").unwrap();
        assert_eq!(record.here, 8.5);
        assert!(!record.met());
        assert_eq!(median(&[]), None);
    }
}
