//! In which rounds the machine was the same one. A host lends the other half of a core to somebody else for a minute, and all of a
//! processor's figures are a quarter lower until it is given back; the median of all rounds then lies between two machines, and its
//! interval spans both. Rounds are told apart by what was predicted in them before anything was run: what runs came to has no say.

use std::collections::BTreeMap;

use crate::record::{half_of_groups, median, median_of_groups};

/// Runs that a row needs.
pub const RUNS: usize = 10;
/// Runs of a state that has a median.
const OF_STATE: usize = 3;

/// How far predictions of two rounds of one state are apart at most: the mean over all rows, relative.
pub const ALIKE: f64 = 0.03;

/// What was predicted of a row in one round: for the state of its run ([`crate::distance`]), how much.
pub type Foreseen = Option<(usize, f64)>;

/// Whether each round counts: those like one of them do, the one that most are like, where they are [`RUNS`] at least; else all do. Of each
/// round what was predicted of each row, `None` where it was not run. What is known to be of another state by the distance of the
/// processors is compared with its like only.
#[must_use]
pub fn counted(rounds: &[Vec<Foreseen>]) -> Vec<bool> {
    counted_of(&beside_their_like(rounds), RUNS)
}

/// Each over the median of what was predicted of the same row for the same state.
fn beside_their_like(rounds: &[Vec<Foreseen>]) -> Vec<Vec<Option<f64>>> {
    let mut of: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
    for (row, foreseen) in rounds.iter().flat_map(|round| round.iter().enumerate()) {
        if let Some((state, value)) = foreseen {
            of.entry((row, *state)).or_default().push(*value);
        }
    }
    let middle: BTreeMap<_, _> = of.into_iter().map(|(of, values)| (of, median(&values).unwrap_or(f64::NAN))).collect();
    let beside = |(row, foreseen): (usize, &Foreseen)| foreseen.map(|(state, value)| value / middle[&(row, state)]);
    rounds.iter().map(|round| round.iter().enumerate().map(beside).collect()).collect()
}

fn counted_of(rounds: &[Vec<Option<f64>>], least: usize) -> Vec<bool> {
    let like = |one: &[Option<f64>]| rounds.iter().map(|other| apart(one, other) <= ALIKE).collect::<Vec<_>>();
    let size = |alike: &Vec<bool>| alike.iter().filter(|alike| **alike).count();
    // The first of the largest.
    let largest = rounds.iter().map(|round| like(round)).rev().max_by_key(size);
    largest.filter(|alike| size(alike) >= least).unwrap_or_else(|| vec![true; rounds.len()])
}

/// Share of the runs that were in each of so many states.
#[must_use]
pub fn shares(states: impl Iterator<Item = usize>, of: usize) -> Vec<f64> {
    let (mut counts, mut all) = (vec![0.0; of], 0.0_f64);
    for state in states {
        all += 1.0;
        counts.iter_mut().skip(state).take(1).for_each(|count| *count += 1.0);
    }
    counts.into_iter().map(|count| count / all.max(1.0)).collect()
}

/// The commonest, the first of those that are as common.
#[must_use]
pub fn common(shares: &[f64]) -> Option<usize> {
    (0..shares.len()).max_by(|one, other| shares[*one].total_cmp(&shares[*other]).then(other.cmp(one)))
}

/// Runs that were quiet, where they are enough; else all.
#[must_use]
pub fn quiet<T: Clone>(runs: &[T], is_quiet: impl Fn(&T) -> bool) -> Vec<T> {
    let quiet: Vec<T> = runs.iter().filter(|run| is_quiet(run)).cloned().collect();
    if quiet.len() >= RUNS { quiet } else { runs.to_vec() }
}

/// The runs of a row that are compared, by the state in which they were: the median of what two machines do lies somewhere between them. Of
/// those in the commonest state where they are enough; else each state is as heavy as it was common; together only where that leaves too few.
#[must_use]
pub fn alike<T: Clone>(counted: &[T], state: impl Fn(&T) -> usize, common: Option<usize>) -> Vec<Vec<T>> {
    let mut by_state: BTreeMap<usize, Vec<T>> = BTreeMap::new();
    for run in counted {
        by_state.entry(state(run)).or_default().push(run.clone());
    }
    if let Some(alike) = common.and_then(|common| by_state.get(&common)).filter(|alike| alike.len() >= RUNS) {
        return vec![alike.clone()];
    }
    let groups: Vec<_> = by_state.into_values().filter(|group| group.len() >= OF_STATE).collect();
    if groups.iter().map(Vec::len).sum::<usize>() >= RUNS { groups } else { vec![counted.to_vec()] }
}

/// Predicted beside measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Beside {
    /// Median.
    pub predicted: f64,
    /// Median.
    pub measured: f64,
    /// Half of the 95 % interval of the measured one (bootstrap), relative; without a bound for fewer than three runs.
    pub half_width: f64,
    /// Predicted over measured, less 1.
    pub error: f64,
    /// Runs.
    pub runs: usize,
}

impl Beside {
    /// Of groups of runs as [`alike`] has them. None where a group is empty.
    #[must_use]
    pub fn of(predicted: &[Vec<f64>], measured: &[Vec<f64>]) -> Option<Self> {
        let (predicted, middle) = (median_of_groups(predicted)?, median_of_groups(measured)?);
        let runs: usize = measured.iter().map(Vec::len).sum();
        let half_width = if runs < OF_STATE { f64::INFINITY } else { half_of_groups(measured)? / middle };
        Some(Self { predicted, measured: middle, half_width, error: predicted / middle - 1.0, runs })
    }

    /// Whether it tells something: enough runs, whose median is known to so much.
    #[must_use]
    pub fn measurable(&self, limit: f64) -> bool {
        self.runs >= RUNS && self.half_width <= limit
    }
}

/// What is said of rounds that do not count, by their numbers; nothing where all do.
#[must_use]
pub fn said(apart: &[u32]) -> Option<String> {
    let rounds: Vec<String> = apart.iter().map(u32::to_string).collect();
    let (count, rounds) = (rounds.len(), rounds.join(", "));
    let why = "by their predictions the machine was in another state than in most";
    (count > 0).then(|| format!("{count} rounds do not count: {why}: {rounds}"))
}

/// How far the slowest round and the fastest are off the middle by what was predicted in them before anything was run, relative: so much the
/// machine itself was another one. None of no rounds.
#[must_use]
pub fn wandered(rounds: &[Vec<Foreseen>]) -> Option<[f64; 2]> {
    let middle = |round: &Vec<Option<f64>>| median(&round.iter().flatten().copied().collect::<Vec<_>>());
    let middles: Vec<f64> = beside_their_like(rounds).iter().filter_map(middle).collect();
    let [slowest, fastest] = [f64::min, f64::max].map(|of| middles.iter().copied().reduce(of));
    Some([slowest? - 1.0, fastest? - 1.0])
}

/// Why so few of the rows are known and what may help; nothing where four in five are. Of so many rounds that [`wandered`] so far.
#[must_use]
pub fn unknown((known, rows): (usize, usize), rounds: usize, wandered: Option<[f64; 2]>) -> Option<String> {
    if 5 * known >= 4 * rows {
        return None;
    }
    let why = match wandered {
        _ if rounds < RUNS => {
            let were = if rounds == 1 { "was 1 round".to_owned() } else { format!("were {rounds} rounds") };
            format!("{RUNS} runs are needed of each row, and there {were}: take more, or more time")
        }
        Some([slowest, fastest]) if slowest < -ALIKE || fastest > ALIKE => format!(
            "by single steps alone rounds were {:+.0} to {:+.0} % off their middle: others use these processors, or the cores that they are \
             parts of; end that, or take a machine of its own",
            slowest * 100.0,
            fastest * 100.0
        ),
        _ => "runs differ by more than their steps do: more rounds make intervals narrower".to_owned(),
    };
    Some(format!("{} of {rows} rows are not known well enough: {why}", rows - known))
}

/// What is said of a machine that was in several states, by their shares of the runs and the distances of its processors in each, seconds.
#[must_use]
pub fn met(shares: &[f64], distances: &[[f64; 2]]) -> Option<String> {
    let met = shares.iter().zip(distances).filter(|(share, _)| **share > 0.0);
    let met: Vec<String> = met
        .map(|(share, [from, to])| {
            format!("{:.0} to {:.0} ns in {:.0} % of the runs", from * 1e9, to * 1e9, share * 100.0)
        })
        .collect();
    (met.len() > 1).then(|| {
        format!(
            "from one processor to the other a line of the cache takes {}; each run is compared with the prediction for its own of these states, \
             and rows with ten runs in the commonest one count those alone",
            met.join(", ")
        )
    })
}

/// The mean distance of two rounds, over the rows that both have; where those are few they have nothing in common.
fn apart(one: &[Option<f64>], other: &[Option<f64>]) -> f64 {
    let rows: Vec<_> = one.iter().zip(other).filter(|(one, other)| one.is_some() || other.is_some()).collect();
    let ratios = rows.iter().filter_map(|(one, other)| Some(((**one)? / (**other)?).ln().abs()));
    let ratios: Vec<f64> = ratios.collect();
    if 2 * ratios.len() <= rows.len() { f64::INFINITY } else { ratios.iter().sum::<f64>() / ratios.len() as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(speeds: &[f64]) -> Vec<Vec<Option<f64>>> {
        speeds.iter().map(|speed| vec![Some(100.0 * speed), Some(7.0 * speed), Some(0.3 * speed), None]).collect()
    }

    #[test]
    fn quiet_runs_count_where_they_are_enough() {
        let runs = |quiet: usize, loud: usize| [vec![true; quiet], vec![false; loud]].concat();
        for (rule, all, wanted) in
            [("enough", runs(10, 5), 10), ("too few", runs(9, 6), 15), ("nobody looked", runs(0, 12), 12)]
        {
            assert_eq!(quiet(&all, |quiet| *quiet).len(), wanted, "{rule}");
        }
    }

    #[test]
    fn rounds_of_the_commonest_state_count() {
        let (quick, slow) = (1.0, 0.75);
        for (rule, speeds, least, wanted) in [
            ("one state", vec![1.0, 1.01, 0.99, 1.02], 3, vec![true; 4]),
            ("two", vec![quick, slow, quick, slow, quick], 3, vec![true, false, true, false, true]),
            ("the slow one is a state, too", vec![quick, slow, slow], 2, vec![false, true, true]),
            ("too few of either", vec![quick, slow, quick, slow, quick], 4, vec![true; 5]),
            ("the first of two that are as common", vec![slow, quick, slow, quick], 2, vec![true, false, true, false]),
            ("no states, but drift", vec![1.0, 1.02, 1.04, 1.06, 1.08], 3, vec![true, true, true, false, false]),
            ("nothing", vec![], 1, vec![]),
        ] {
            assert_eq!(counted_of(&rounds(&speeds), least), wanted, "{rule}");
        }
    }

    #[test]
    fn rounds_that_do_not_count_are_named() {
        assert_eq!(said(&[]), None);
        assert!(said(&[3, 7]).is_some_and(|it| it.starts_with("2 rounds") && it.ends_with(": 3, 7")));
    }

    #[test]
    fn why_rows_are_not_known_is_said() {
        let round = |speed: f64| vec![Some((0, 100.0 * speed)), Some((1, 7.0 * speed)), None];
        let of = |speeds: &[f64]| wandered(&speeds.iter().map(|speed| round(*speed)).collect::<Vec<_>>());
        let wide = of(&[1.0, 0.8, 1.0, 1.1, 1.0]);
        assert!(wide.is_some_and(|[from, to]| (from + 0.2).abs() < 1e-9 && (to - 0.1).abs() < 1e-9), "{wide:?}");
        assert_eq!((of(&[]), wandered(&[vec![None]])), (None, None));
        for (known, rounds, wandered, wanted) in [
            (4, 12, wide, None),
            (3, 9, wide, Some("10 runs are needed of each row, and there were 9 rounds")),
            (
                3,
                12,
                wide,
                Some("2 of 5 rows are not known well enough: by single steps alone rounds were -20 to +10 % off"),
            ),
            (0, 12, of(&[1.0, 1.01]), Some("more rounds make intervals narrower")),
            (0, 12, None, Some("more rounds make intervals narrower")),
        ] {
            let said = unknown((known, 5), rounds, wandered);
            assert_eq!(said.is_some(), wanted.is_some(), "{said:?}");
            assert!(said.zip(wanted).is_none_or(|(said, wanted)| said.contains(wanted)), "{known} {rounds}");
        }
    }

    #[test]
    fn a_round_in_which_the_state_changed_is_of_none() {
        let mut rounds = rounds(&[1.0, 1.0, 1.0]);
        rounds.push(vec![Some(100.0), Some(5.25), Some(0.225), None]);
        rounds.push(vec![None; 4]);
        rounds.push(vec![Some(100.5), None, Some(0.3), None]);
        rounds.push(vec![None, None, Some(0.3), Some(3.0)]);
        assert_eq!(counted_of(&rounds, 3), [true, true, true, false, false, true, false]);
        rounds[0][0] = Some(f64::NAN);
        assert_eq!(counted_of(&rounds, 3), [false, true, true, false, false, true, false]);
    }

    /// Where processors are far from each other half of the time, that tells no rounds apart.
    #[test]
    fn rounds_are_compared_in_the_state_in_which_each_row_was() {
        let speeds = [100.0, 80.0];
        let round = |number: usize, slower: f64| {
            (0..3)
                .map(|row| {
                    let state = (number + row) % 2;
                    Some((state, speeds[state] * slower))
                })
                .collect::<Vec<_>>()
        };
        let rounds: Vec<_> = (0..13).map(|number| round(number, if number == 5 { 0.9 } else { 1.0 })).collect();
        assert!(counted(&rounds).iter().enumerate().all(|(number, counted)| *counted == (number != 5)));
        let same = counted(&(0..12).map(|number| round(number, 1.0)).collect::<Vec<_>>());
        assert_eq!(same, [true; 12]);
    }
}
