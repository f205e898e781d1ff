//! How long a Markov chain takes from where it is to a goal, by its transform: `(s + exit) g = rate into the goal + sum rate g`, where
//! rates may be any number of powers apart.

use gspn::{Budget, Progress};

use super::complex::Complex;
use super::invert::{self, Likely};
use crate::{Class, Fault};

/// Sweeps over one system.
const MAX_SWEEPS: u64 = 20_000;

/// The ways of a chain until it reaches its goal.
#[derive(Debug)]
pub(super) struct Passage {
    /// States but the goal, those that are reached last first; a row has positions in this order.
    rows: Vec<Vec<(usize, f64)>>,
    exits: Vec<f64>,
    /// The rate into the goal.
    done: Vec<f64>,
    /// Where it begins.
    initial: Vec<(usize, f64)>,
    /// No way leads back: one sweep is the answer.
    forward: bool,
    mean: f64,
}

impl Passage {
    /// From where `initial` (weights of any sum) says until a state that `goal` names, over the edges that `row` gives.
    pub(super) fn new<R: Iterator<Item = (usize, f64)>>(
        states: usize,
        row: impl Fn(usize) -> R,
        initial: &[f64],
        goal: &[bool],
    ) -> Self {
        let (order, forward) = backwards(states, &row, initial, goal);
        let mut position = vec![usize::MAX; states];
        for (at, state) in order.iter().enumerate() {
            position[*state] = at;
        }
        let (mut rows, mut exits, mut done) = (Vec::new(), Vec::new(), Vec::new());
        for state in &order {
            let (mut ways, mut ends, mut exit) = (Vec::new(), 0.0, 0.0);
            for (to, rate) in row(*state) {
                exit += rate;
                if goal[to] { ends += rate } else { ways.push((position[to], rate)) }
            }
            rows.push(ways);
            exits.push(exit);
            done.push(ends);
        }
        let sum: f64 = initial.iter().zip(goal).filter(|(_, goal)| !**goal).map(|(share, _)| share).sum();
        let begin = initial.iter().enumerate().filter(|(state, share)| **share > 0.0 && !goal[*state]);
        let initial = begin.map(|(state, share)| (position[state], share / sum)).collect();
        Self { rows, exits, done, initial, forward, mean: 0.0 }
    }

    /// Mean time.
    pub(super) fn mean(&mut self, budget: &mut Budget<'_>) -> Result<f64, Fault> {
        let mut times = vec![0.0; self.rows.len()];
        let mut sweeps = 0;
        loop {
            let mut change = 0.0_f64;
            for at in 0..times.len() {
                let sum: f64 = 1.0 + self.rows[at].iter().map(|(to, rate)| rate * times[*to]).sum::<f64>();
                let time = sum / self.exits[at];
                change = change.max((time - times[at]).abs() / time);
                times[at] = time;
            }
            step(&mut sweeps, change, budget)?;
            if self.forward || change < 1e-12 {
                break;
            }
        }
        self.mean = self.initial.iter().map(|(at, share)| share * times[*at]).sum();
        Ok(self.mean)
    }

    /// The time by which the goal is reached with probability `level`.
    pub(super) fn quantile(&mut self, level: f64, budget: &mut Budget<'_>) -> Result<f64, Fault> {
        let mean = if self.mean > 0.0 { self.mean } else { self.mean(budget)? };
        invert::quantile(level, 2.0 * mean, |time| self.likely(time, budget, |_, reached| reached))
    }

    /// How likely it is that the goal is reached by `time`, or something else whose transform `whole` makes of that one.
    pub(super) fn likely(
        &self,
        time: f64,
        budget: &mut Budget<'_>,
        mut whole: impl FnMut(Complex, Complex) -> Complex,
    ) -> Result<Likely, Fault> {
        let mut g = vec![Complex::default(); self.rows.len()];
        let mut failed = None;
        let value = invert::likely(time, |s| match self.transform(s, &mut g, budget) {
            Ok(value) => whole(s, value),
            Err(fault) => {
                failed = Some(fault);
                Complex::default()
            }
        });
        failed.map_or(value, Err)
    }

    fn transform(&self, s: Complex, g: &mut [Complex], budget: &mut Budget<'_>) -> Result<Complex, Fault> {
        let mut sweeps = 0;
        loop {
            let mut change = 0.0_f64;
            for at in 0..g.len() {
                let mut sum = Complex::real(self.done[at]);
                for (to, rate) in &self.rows[at] {
                    sum = sum.plus(g[*to].times(*rate));
                }
                let new = sum.over(s.plus(Complex::real(self.exits[at])));
                change = change.max(new.change(g[at]));
                g[at] = new;
            }
            step(&mut sweeps, change, budget)?;
            if self.forward || change < 1e-13 {
                break;
            }
        }
        let begin = self.initial.iter().map(|(at, share)| g[*at].times(*share));
        Ok(begin.fold(Complex::default(), Complex::plus))
    }
}

fn step(sweeps: &mut u64, error: f64, budget: &mut Budget<'_>) -> Result<(), Fault> {
    *sweeps += 1;
    budget.look(Progress::Solving { sweeps: *sweeps, error })?;
    if *sweeps < MAX_SWEEPS {
        return Ok(());
    }
    Err(Fault::new(Class::Unanswered, "percentile", "the equations of its transform do not settle"))
}

/// The states that are passed, each after all that it leads to where no way leads back; and whether that is so.
fn backwards<R: Iterator<Item = (usize, f64)>>(
    states: usize,
    row: &impl Fn(usize) -> R,
    initial: &[f64],
    goal: &[bool],
) -> (Vec<usize>, bool) {
    // 0 new, 1 on the way, 2 done.
    let mut marks: Vec<u8> = goal.iter().map(|goal| if *goal { 2 } else { 0 }).collect();
    let (mut order, mut forward) = (Vec::new(), true);
    for start in (0..states).filter(|state| initial[*state] > 0.0) {
        if marks[start] != 0 {
            continue;
        }
        marks[start] = 1;
        let mut way = vec![(start, row(start))];
        while let Some((state, ways)) = way.last_mut() {
            let state = *state;
            match ways.next() {
                Some((to, _)) if marks[to] == 0 => {
                    marks[to] = 1;
                    way.push((to, row(to)));
                }
                Some((to, _)) => forward &= marks[to] == 2,
                None => {
                    marks[state] = 2;
                    order.push(state);
                    way.pop();
                }
            }
        }
    }
    (order, forward)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gspn::Limits;

    /// A birth and death chain: against uniformization, done here in the plain way.
    #[test]
    fn ways_that_lead_back_come_out_as_by_uniformization() {
        let (up, down) = (3.0, 4.0);
        let row = |state: usize| {
            let down = (state > 0).then(|| (state.wrapping_sub(1), down));
            down.into_iter().chain((state < 6).then_some((state + 1, up)))
        };
        let mut goal = [false; 7];
        goal[0] = true;
        let initial = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0];
        let mut passage = Passage::new(7, row, &initial, &goal);
        assert!(!passage.forward);
        let mut go_on = |_| true;
        let mut budget = Budget::new(Limits::default(), &mut go_on);
        for time in [0.3, 1.0, 3.0, 8.0] {
            let (jumps, mut now, mut wanted) = (7.0_f64 * time, initial, 0.0);
            let mut weight = (-jumps).exp();
            for n in 1..400 {
                wanted += weight * now[0];
                let mut next = [0.0; 7];
                next[0] += now[0];
                for state in 1..7 {
                    let mut stay = 7.0;
                    for (to, rate) in row(state) {
                        next[to] += now[state] * rate / 7.0;
                        stay -= rate;
                    }
                    next[state] += now[state] * stay / 7.0;
                }
                now = next;
                weight *= jumps / f64::from(n);
            }
            let got = passage.likely(time, &mut budget, |_, it| it).unwrap().within;
            assert!((got - wanted).abs() < 1e-7, "{time}: {got} {wanted}");
        }
        let mean = passage.mean(&mut budget).unwrap();
        let p99 = passage.quantile(0.99, &mut budget).unwrap();
        assert!((passage.likely(p99, &mut budget, |_, it| it).unwrap().within - 0.99).abs() < 1e-7);
        assert!(mean > 2.0 && mean < p99, "{mean} {p99}");
    }
}
