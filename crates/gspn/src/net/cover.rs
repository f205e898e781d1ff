//! Bounds of places where there are too many sums to look at all of them: for one place after the other the sum that bounds it best, by a
//! linear program. What it finds is rounded and checked on whole numbers, so that no bound hangs on rounding.

use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};

use super::{Net, Tokens};

/// Places and transitions up to which programs are made, and how many.
const LARGEST: usize = 1_000;
const PROGRAMS: usize = 200;
/// Weights are parts of this many at most.
const PARTS: u32 = 12;
/// How far a weight may be from a whole number.
const ROUNDED: f64 = 1e-6;

/// For each place what it can hold at most, where `most` does not say it yet. `changes` holds for each place what each transition changes.
pub(super) fn bounds(net: &Net, changes: &[Vec<(usize, i128)>], most: &mut [Option<Tokens>]) {
    if net.places.len() > LARGEST || net.transitions.len() > LARGEST {
        return;
    }
    for _ in 0..PROGRAMS {
        let Some(place) = most.iter().position(Option::is_none) else { return };
        let Some((weights, start)) = best(net, changes, place) else { return };
        for (most, weight) in most.iter_mut().zip(weights).filter(|(_, weight)| *weight > 0) {
            if let Ok(bound) = Tokens::try_from(start / weight) {
                *most = Some(most.map_or(bound, |known| known.min(bound)));
            }
        }
        if most[place].is_none() {
            return;
        }
    }
}

/// Weights from 0, above it for `place`, whose sum of tokens no firing raises, and what that is at the beginning.
fn best(net: &Net, changes: &[Vec<(usize, i128)>], place: usize) -> Option<(Vec<i128>, i128)> {
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    #[expect(clippy::cast_precision_loss, reason = "what comes of it is checked on whole numbers")]
    let weight = |(index, it): (usize, &super::Place)| {
        let least = f64::from(u8::from(index == place));
        problem.add_var(it.tokens as f64 + 1e-3, (least, f64::INFINITY))
    };
    let weights: Vec<Variable> = net.places.iter().enumerate().map(weight).collect();
    let mut firings: Vec<Vec<(Variable, f64)>> = vec![Vec::new(); net.transitions.len()];
    for (weight, changes) in weights.iter().zip(changes) {
        #[expect(clippy::cast_precision_loss, reason = "what comes of it is checked on whole numbers")]
        changes.iter().for_each(|(transition, change)| firings[*transition].push((*weight, *change as f64)));
    }
    for firing in firings {
        problem.add_constraint(firing, ComparisonOp::Le, 0.0);
    }
    let outcome = problem.solve().ok()?;
    let found = outcome.is_optimal().then(|| outcome.solution()).flatten()?;
    let found: Vec<f64> = weights.iter().map(|weight| found.var_value(*weight)).collect();
    (1..=PARTS).find_map(|parts| whole(net, changes, &found, f64::from(parts)))
}

/// The weights as so many parts each, if they are whole numbers then and no firing raises their sum.
fn whole(net: &Net, changes: &[Vec<(usize, i128)>], found: &[f64], parts: f64) -> Option<(Vec<i128>, i128)> {
    let round = |weight: &f64| {
        let (weight, near) = (weight * parts, (weight * parts).round());
        #[expect(clippy::cast_possible_truncation, reason = "whole numbers up to 2^53")]
        ((weight - near).abs() <= ROUNDED && (0.0..9e15).contains(&near)).then_some(near as i128)
    };
    let weights: Vec<i128> = found.iter().map(round).collect::<Option<_>>()?;
    let mut raised = vec![0_i128; net.transitions.len()];
    for (weight, changes) in weights.iter().zip(changes) {
        for (transition, change) in changes {
            raised[*transition] = raised[*transition].checked_add(weight.checked_mul(*change)?)?;
        }
    }
    let start = weights
        .iter()
        .zip(&net.places)
        .try_fold(0_i128, |sum, (weight, place)| sum.checked_add(weight.checked_mul(i128::from(place.tokens))?))?;
    raised.iter().all(|raised| *raised <= 0).then_some((weights, start))
}
