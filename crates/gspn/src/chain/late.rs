//! Points in time until which states are left often, found in two ways.

use super::rational;
use super::stiff::square;
use super::transient;
use crate::{Budget, Limits};

fn forward(chain: &super::Chain, time: f64, shifts: f64) -> Option<Vec<f64>> {
    let mut start = vec![0.0; chain.len()];
    start[0] = 1.0;
    let mut go_on = |_| true;
    let space = rational::Steps::new(chain, time, shifts)
        .space(&start, &mut Budget::new(Limits::default(), &mut go_on))
        .unwrap()?;
    // What the space says of other times, it says as one of them would.
    for other in [0.4 * time, 0.8 * time, 1.5 * time, 3.0 * time] {
        let mut budget = Budget::new(Limits::default(), &mut go_on);
        if let Some(found) = space.at(other) {
            let own = rational::Steps::new(chain, other, shifts).space(&start, &mut budget).unwrap()?;
            let off = apart(&found, &own.end());
            assert!(off < 1e-8, "{time:e} {other:e}: {off:e}");
        }
    }
    Some(space.end())
}

/// The largest relative difference of a state that is not rare.
fn apart(one: &[f64], other: &[f64]) -> f64 {
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let largest = most(other);
    let off = one.iter().zip(other).map(|(one, other)| (one - other).abs() / (other.abs() + 1e-3 * largest));
    most(&off.collect::<Vec<f64>>())
}

#[test]
fn many_states_are_where_matrices_and_contours_say() {
    are_where_matrices_say(1.0, 1);
}

#[test]
fn many_states_that_hardly_meet_are_where_matrices_and_contours_say() {
    are_where_matrices_say(1e-3, 2);
}

#[test]
fn many_states_that_all_but_never_meet_are_where_matrices_and_contours_say() {
    are_where_matrices_say(1e-9, 3);
}

fn are_where_matrices_say(coupling: f64, seed: u64) {
    let (chain, _) = square(28, coupling, seed);
    for time in [1e-6, 1e-3, 1.0, 1e3, 1e6] {
        let mut go_on = |_| true;
        let mut budget = Budget::new(Limits::default(), &mut go_on);
        let exact = transient::at(&chain, &[(0, 1.0)], time, &mut budget).unwrap();
        for shifts in [13.0, 19.0] {
            let found = forward(&chain, time, shifts).expect("a distribution");
            let off = apart(&found, exact.likely());
            assert!(off < 1e-8, "{coupling:e} {time:e} {shifts}: {off:e}");
        }
    }
}

#[test]
fn in_the_end_they_are_where_they_stay() {
    let (chain, wanted) = square(60, 1e-3, 4);
    let found = forward(&chain, 1e6, 13.0).expect("a distribution");
    let off = apart(&found, &wanted);
    assert!(off < 1e-10, "{off:e}");
}
