//! Fixed times, of which at most one runs at once, without phases: from each node on, what the others do until the time is over is a
//! matrix exponential, and what happens at the moments at which nothing fixed runs, or it has just begun, is a chain of steps
//! (Markov regenerative analysis; Choi, Kulkarni and Trivedi 1994).

use std::collections::HashMap;

use gspn::net::{Kind, Net};

use super::{Naive, for_ever, product};

/// exp(A) by its series, and squared back; entries off the diagonal are not negative. The diagonal is lifted to at least 0 first, so that
/// only what is not negative is added and multiplied: an entry of 1e-30 is known as well as one of 0.5.
fn exponential(mut matrix: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let count = matrix.len();
    let lift = (0..count).map(|row| -matrix[row][row]).fold(0.0, f64::max);
    (0..count).for_each(|row| matrix[row][row] += lift);
    let size = matrix.iter().map(|row| row.iter().sum::<f64>()).fold(0.0, f64::max);
    let halvings = (size.max(1e-9).log2().ceil() as i32 + 4).max(0);
    let scale = 0.5_f64.powi(halvings);
    matrix.iter_mut().flatten().for_each(|entry| *entry *= scale);
    let identity = |row: usize, to: usize| if row == to { 1.0 } else { 0.0 };
    let mut term: Vec<Vec<f64>> = (0..count).map(|row| (0..count).map(|to| identity(row, to)).collect()).collect();
    let mut sum = term.clone();
    for order in 1..14 {
        term = product(&term, &matrix);
        term.iter_mut().flatten().for_each(|entry| *entry /= f64::from(order));
        sum.iter_mut().flatten().zip(term.iter().flatten()).for_each(|(sum, term)| *sum += term);
    }
    sum.iter_mut().flatten().for_each(|entry| *entry *= (-lift * scale).exp());
    (0..halvings).fold(sum, |power, _| product(&power, &power))
}

/// What a net does from one moment at which nothing is remembered to the next.
struct Round {
    /// Where the next such moment is.
    step: Vec<Vec<f64>>,
    /// Time spent in each node until then.
    time: Vec<Vec<f64>>,
    /// Of fixed times, how often they end in each node until then.
    ends: Vec<Vec<f64>>,
}

fn round(net: &Net, found: &Naive, settled: &[Vec<f64>]) -> Round {
    let count = found.markings.len();
    let none = || vec![vec![0.0; count]; count];
    let mut rates = none();
    for from in (0..count).filter(|from| !found.vanishing[*from]) {
        for firing in &found.firings[from] {
            rates[from].iter_mut().zip(&settled[firing.to]).for_each(|(sum, part)| *sum += firing.strength * part);
        }
    }
    let mut round = Round { step: none(), time: none(), ends: none() };
    for from in 0..count {
        let exit = found.exit(from);
        if found.vanishing[from] || exit == 0.0 {
            round.step[from][from] = 1.0;
            round.time[from][from] = 1.0;
        } else {
            round.step[from] = rates[from].iter().map(|rate| rate / exit).collect();
            round.time[from][from] = 1.0 / exit;
        }
    }
    for (index, it) in net.transitions().iter().enumerate() {
        let Kind::Deterministic { delay } = it.kind else { continue };
        let runs = |node: usize| found.expiry[node].iter().any(|firing| firing.transition == Some(index));
        // Twice as large: beside each state the time spent in it.
        let mut matrix = vec![vec![0.0; 2 * count]; 2 * count];
        for from in 0..count {
            matrix[from][count + from] = delay;
            if runs(from) {
                for (to, rate) in rates[from].iter().enumerate() {
                    matrix[from][to] += rate * delay;
                }
                matrix[from][from] -= found.exit(from) * delay;
            }
        }
        let exp = exponential(matrix);
        for from in (0..count).filter(|from| runs(*from)) {
            let mut row = vec![0.0; count];
            for at in 0..count {
                let here = exp[from][at];
                if !runs(at) {
                    row[at] += here;
                    continue;
                }
                round.ends[from][at] = here;
                for firing in &found.expiry[at] {
                    let parts = row.iter_mut().zip(&settled[firing.to]);
                    parts.for_each(|(sum, part)| *sum += here * firing.strength * part);
                }
            }
            round.step[from] = row;
            round.time[from] = (0..count).map(|at| if runs(at) { exp[from][count + at] } else { 0.0 }).collect();
        }
    }
    round
}

/// The long-run values of `mean p0`, `rate t0`, ..; no two fixed times run at once, and no vanishing markings are never left. `None`
/// where something happens too rarely for that, see [`for_ever`].
pub(crate) fn long_run(net: &Net, found: &Naive) -> Option<HashMap<String, f64>> {
    let count = found.markings.len();
    let (settled, on_the_way) = found.settle(net.transitions().len());
    let Round { step, time, ends } = round(net, found, &settled);
    // Half of it stays, so that nothing goes round in step.
    let mut lazy = step;
    for (row, entries) in lazy.iter_mut().enumerate() {
        entries.iter_mut().for_each(|entry| *entry /= 2.0);
        entries[row] += 0.5;
    }
    let ever = for_ever(lazy)?;
    let end = product(&[found.starts(&settled)], &ever).remove(0);
    // How long a round takes in the closed class that each node leads to.
    let lengths: Vec<f64> = time.iter().map(|row| row.iter().sum()).collect();
    let mut share = vec![0.0; count];
    let mut ended = vec![0.0; count];
    for (node, part) in end.iter().enumerate().filter(|(_, part)| **part > 1e-13) {
        let length: f64 = ever[node].iter().zip(&lengths).map(|(part, length)| part * length).sum();
        share.iter_mut().zip(&time[node]).for_each(|(sum, time)| *sum += part * time / length);
        ended.iter_mut().zip(&ends[node]).for_each(|(sum, ends)| *sum += part * ends / length);
    }
    let mut values = HashMap::new();
    for (place, mean) in found.means(&share).into_iter().enumerate() {
        values.insert(format!("mean p{place}"), mean);
    }
    for transition in 0..net.transitions().len() {
        let mut rate = 0.0;
        for node in (0..count).filter(|node| !found.vanishing[*node]) {
            for (weight, firings) in [(share[node], &found.firings[node]), (ended[node], &found.expiry[node])] {
                for firing in firings {
                    let own = if firing.transition == Some(transition) { 1.0 } else { 0.0 };
                    rate += weight * firing.strength * (own + on_the_way[firing.to][transition]);
                }
            }
        }
        values.insert(format!("rate t{transition}"), rate);
    }
    Some(values)
}
