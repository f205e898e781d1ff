//! In which rounds the machine was the same one. A host lends the other half of a core to somebody else for a minute, and all of a
//! processor's figures are a quarter lower until it is given back; the median of all rounds then lies between two machines, and its
//! interval spans both. Rounds are told apart by what was predicted in them before anything was run: what runs came to has no say.

/// How far predictions of two rounds of one state are apart at most: the mean over all rows, relative.
pub const ALIKE: f64 = 0.03;

/// Whether each round counts: those like one of them do, the one that most are like, where they are `least`; else all do. Of each round
/// what was predicted of each row, `None` where it was not.
#[must_use]
pub fn counted(rounds: &[Vec<Option<f64>>], least: usize) -> Vec<bool> {
    let like = |one: &[Option<f64>]| rounds.iter().map(|other| apart(one, other) <= ALIKE).collect::<Vec<_>>();
    let size = |alike: &Vec<bool>| alike.iter().filter(|alike| **alike).count();
    // The first of the largest.
    let largest = rounds.iter().map(|round| like(round)).rev().max_by_key(size);
    largest.filter(|alike| size(alike) >= least).unwrap_or_else(|| vec![true; rounds.len()])
}

/// What is said of rounds that do not count, by their numbers; nothing where all do.
#[must_use]
pub fn said(apart: &[u32]) -> Option<String> {
    let rounds: Vec<String> = apart.iter().map(u32::to_string).collect();
    let (count, rounds) = (rounds.len(), rounds.join(", "));
    let why = "by their predictions the machine was in another state than in most";
    (count > 0).then(|| format!("{count} rounds do not count: {why}: {rounds}"))
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
            assert_eq!(counted(&rounds(&speeds), least), wanted, "{rule}");
        }
    }

    #[test]
    fn rounds_that_do_not_count_are_named() {
        assert_eq!(said(&[]), None);
        assert!(said(&[3, 7]).is_some_and(|it| it.starts_with("2 rounds") && it.ends_with(": 3, 7")));
    }

    #[test]
    fn a_round_in_which_the_state_changed_is_of_none() {
        let mut rounds = rounds(&[1.0, 1.0, 1.0]);
        rounds.push(vec![Some(100.0), Some(5.25), Some(0.225), None]);
        rounds.push(vec![None; 4]);
        rounds.push(vec![Some(100.5), None, Some(0.3), None]);
        rounds.push(vec![None, None, Some(0.3), Some(3.0)]);
        assert_eq!(counted(&rounds, 3), [true, true, true, false, false, true, false]);
        rounds[0][0] = Some(f64::NAN);
        assert_eq!(counted(&rounds, 3), [false, true, true, false, false, true, false]);
    }
}
