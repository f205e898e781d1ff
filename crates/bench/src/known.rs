//! What is known of steps on a machine that has several states: see [`crate::distance`].

use std::collections::BTreeMap;

use cost::calibration::Step;

use crate::Failed;

/// Something for each state in which a step was timed.
#[derive(Debug, Clone)]
pub struct ByState<T> {
    /// By the place of the state.
    pub of: BTreeMap<usize, T>,
    /// The one in which the last step was timed: of it is what there is for one that was never met.
    pub latest: usize,
}

impl<T> ByState<T> {
    /// What there is for this one.
    ///
    /// # Errors
    /// No step was timed.
    pub fn at(&self, state: usize) -> Result<&T, Failed> {
        Ok(self.of.get(&state).or_else(|| self.of.get(&self.latest)).ok_or("no step was timed")?)
    }
}

/// The last timing of each step, in each state of the machine and in any.
#[derive(Debug, Default)]
pub struct Known {
    last: BTreeMap<Key, Step>,
    /// Of each state, with the share of the time that was quiet.
    of: BTreeMap<usize, BTreeMap<Key, (f64, Step)>>,
    /// The state in which the last one was timed.
    state: usize,
}

/// The share of a step's time that is quiet at least if it is as good as those before.
const LOUD: f64 = 0.2;
/// So many times as slow as a later one, no step was timed as the machine is, however quiet it was.
const SLOW: f64 = 2.0;

/// Operation, algorithm, bytes.
type Key = (String, String, u64);

impl Known {
    /// Keeps what was timed in this state, of which such a share of the time was quiet. While others computed nearly all of the time, no step takes the place of
    /// a quieter one, unless that was far slower: nobody makes a step faster.
    pub fn keep(&mut self, state: usize, quiet: f64, steps: Vec<Step>) {
        self.state = state;
        for step in steps {
            let key = (step.operation.clone(), step.algorithm.clone(), step.bytes);
            let of = self.of.entry(state).or_default();
            let stays = |known: &(f64, Step)| known.0 > quiet && known.1.wall.mean <= SLOW * step.wall.mean;
            if quiet < LOUD && of.get(&key).is_some_and(stays) {
                continue;
            }
            of.insert(key.clone(), (quiet, step.clone()));
            self.last.insert(key, step);
        }
    }

    /// What can be made of the steps of each state.
    ///
    /// # Errors
    /// As `make`.
    pub fn each<T>(&self, make: impl Fn(Vec<Step>) -> Result<T, Failed>) -> Result<ByState<T>, Failed> {
        let of = self.of.keys().map(|state| Ok((*state, make(self.steps(*state))?)));
        Ok(ByState { of: of.collect::<Result<_, Failed>>()?, latest: self.state })
    }

    /// The steps of a state; what was never timed in it is of the state in which it was timed last.
    fn steps(&self, state: usize) -> Vec<Step> {
        let of = self.of.get(&state);
        let known = |key| of.and_then(|of| of.get(key)).map(|known| &known.1);
        self.last.iter().map(|(key, last)| known(key).unwrap_or(last).clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gd::steps::step;

    #[test]
    fn each_state_has_its_own_steps_and_what_it_lacks_is_of_the_last() {
        let timed = |name: &str, micros: f64| step(name, "message", 100, &[micros * 1e-6; 4]).unwrap();
        let mut known = Known::default();
        known.keep(0, 1.0, vec![timed("write", 4.0), timed("read", 1.0)]);
        known.keep(1, 1.0, vec![timed("write", 5.0)]);
        let micros = |known: &Known, state: usize, name: &str| {
            let steps = known.steps(state);
            (steps.iter().find(|step| step.name() == name).unwrap().wall.mean * 1e7).round() / 10.0
        };
        for (rule, state, write, read) in
            [("the first", 0, 4.0, 1.0), ("the second, which has no read", 1, 5.0, 1.0), ("one never met", 2, 5.0, 1.0)]
        {
            assert_eq!(
                (micros(&known, state, "write message"), micros(&known, state, "read message")),
                (write, read),
                "{rule}"
            );
        }
        known.keep(0, 1.0, vec![timed("write", 4.2)]);
        assert_eq!(micros(&known, 0, "write message"), 4.2, "the last timing of a state counts");
        known.keep(0, 0.1, vec![timed("write", 5.2), timed("sign", 9.0)]);
        assert_eq!(micros(&known, 0, "write message"), 4.2, "but one that was not quiet");
        assert_eq!(micros(&known, 0, "sign message"), 9.0, "which is better than none");
        known.keep(0, 0.15, vec![timed("sign", 8.0)]);
        assert_eq!(micros(&known, 0, "sign message"), 8.0, "and a quieter one better than that");
        assert_eq!(micros(&known, 1, "write message"), 5.0, "and no other state's");
        known.keep(0, 0.1, vec![timed("write", 2.0)]);
        assert_eq!(
            micros(&known, 0, "write message"),
            2.0,
            "a quiet one that was far too slow was not the machine's pace"
        );
        let each = known.each(|steps| Ok(steps.len())).unwrap();
        assert_eq!((each.latest, each.of.into_iter().collect::<Vec<_>>()), (0, vec![(0, 3), (1, 3)]));
        assert!(Known::default().each(Ok).unwrap().at(0).is_err(), "nothing was timed");
    }
}
