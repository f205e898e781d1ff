//! The bound on false alarms: against the exact run lengths of a chain, and by simulation of the whole detector.

use super::*;
use crate::twin::random::Random;

/// The exact mean run length of a one-sided sum of normal scores: the sum on a grid as a chain, `(I - Q) run = 1` (Brook and Evans, 1972).
fn exact(threshold: f64, mean: f64) -> f64 {
    const STATES: usize = 240;
    #[expect(clippy::cast_precision_loss, reason = "a grid")]
    let width = threshold / (STATES as f64 - 0.5);
    let below = |z: f64| 0.5 * erfc(-z / std::f64::consts::SQRT_2);
    let mut rows: Vec<Vec<f64>> = (0..STATES)
        .map(|from| {
            let to = |to: usize| {
                #[expect(clippy::cast_precision_loss, reason = "a grid")]
                let step = (to as f64 - from as f64) * width + ALLOWANCE - mean;
                let high = below(step + width / 2.0);
                if to == 0 { high } else { high - below(step - width / 2.0) }
            };
            let mut row: Vec<f64> = (0..STATES).map(|it| f64::from(u8::from(it == from)) - to(it)).collect();
            row.push(1.0);
            row
        })
        .collect();
    for pivot in 0..STATES {
        let (done, rest) = rows.split_at_mut(pivot + 1);
        let row = &done[pivot];
        for other in rest {
            let factor = other[pivot] / row[pivot];
            other.iter_mut().zip(row).skip(pivot).for_each(|(value, from)| *value -= factor * from);
        }
    }
    let mut run = vec![0.0; STATES];
    for state in (0..STATES).rev() {
        let known: f64 = (state + 1..STATES).map(|it| rows[state][it] * run[it]).sum();
        run[state] = (rows[state][STATES] - known) / rows[state][state];
    }
    run[0]
}

/// The complementary error function (Numerical Recipes' rational fit is not used: a series and a continued fraction are short).
fn erfc(x: f64) -> f64 {
    if x < 0.0 {
        return 2.0 - erfc(-x);
    }
    if x < 2.5 {
        let (mut term, mut sum) = (x, x);
        for n in 1..80 {
            let n = f64::from(n);
            term *= -x * x / n;
            sum += term / (2.0 * n + 1.0);
        }
        return 1.0 - sum * 2.0 / std::f64::consts::PI.sqrt();
    }
    let fraction = (1..60).rev().fold(x, |below, n| x + f64::from(n) / 2.0 / below);
    (-x * x).exp() / (fraction * std::f64::consts::PI.sqrt())
}

#[test]
fn the_run_length_of_the_threshold_is_the_exact_one_within_a_tenth() {
    for wanted in [1e3, 1e4, 1e5, 1e6, 5e6] {
        let run = exact(threshold(wanted), 0.0);
        assert!((0.9..1.15).contains(&(run / wanted)), "{wanted}: {run}");
    }
    let threshold = threshold(5e6);
    assert!(exact(self::threshold(1e3), -0.5) > 5e4, "half a spread inside the band");
    assert!(exact(threshold, 2.0) < 12.0, "two spreads outside");
}

/// Batches of `uses` exponential times around `mean`.
fn batch(random: &mut Random, mean: f64, uses: u32) -> (f64, f64) {
    let sum: f64 = (0..uses).map(|_| -random.unit().ln() * mean).sum();
    ((sum / f64::from(uses)).ln(), f64::from(uses))
}

fn learned(random: &mut Random, uses: u32) -> Reference {
    let batches: Vec<_> = (0..LEARN).map(|_| batch(random, 1.0, uses)).collect();
    Reference::learned(&batches).unwrap()
}

/// The mean number of batches to the first alarm, each run cut at `most`: so it is too small rather than too large.
fn run_length(mean: f64, uses: (u32, u32), threshold: f64, most: usize) -> f64 {
    let runs = 300;
    let total: usize = (1..=runs)
        .map(|seed| {
            let mut random = Random::new(seed);
            let reference = learned(&mut random, uses.0);
            let mut sums = Sums::default();
            let alarm = |random: &mut Random, sums: &mut Sums| {
                let (x, uses) = batch(random, mean, uses.1);
                sums.take(&reference, x, uses, 0.3, threshold).is_some()
            };
            (0..most).position(|_| alarm(&mut random, &mut sums)).unwrap_or(most)
        })
        .sum();
    #[expect(clippy::cast_precision_loss, reason = "batches")]
    let mean = total as f64 / runs as f64;
    mean
}

#[test]
fn false_alarms_are_as_rare_as_asked_also_on_the_edge_of_the_band_with_a_reference_of_twenty_batches() {
    // Both sides: half of the run on one.
    let (wanted, most) = (500.0, 5_000);
    let threshold = threshold(2.0 * wanted);
    for (rule, mean, uses) in [
        ("at the reference", 1.0, (8, 8)),
        ("on the upper edge", 1.3, (8, 8)),
        ("on the lower edge", 1.0 / 1.3, (8, 8)),
        ("with fewer uses than the reference", 1.0, (200, 8)),
        ("with more uses than the reference", 1.0, (8, 200)),
        ("on the edge with fewer uses", 1.3, (64, 8)),
    ] {
        let run = run_length(mean, uses, threshold, most);
        assert!(run >= wanted, "{rule}: {run}");
    }
}

#[test]
fn batches_that_are_like_the_one_before_give_no_more_false_alarms() {
    let (wanted, most, runs) = (500.0, 5_000, 200);
    let threshold = threshold(2.0 * wanted);
    let total: usize = (1..=runs)
        .map(|seed| {
            let (mut random, mut state) = (Random::new(seed), 0.0);
            let mut next = || {
                let normal = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
                state = 0.5 * state + 0.75_f64.sqrt() * normal;
                (0.4 * state, 50.0)
            };
            let batches: Vec<_> = (0..LEARN).map(|_| next()).collect();
            let reference = Reference::learned(&batches).unwrap();
            let mut sums = Sums::default();
            let alarm = |(x, uses)| sums.take(&reference, x, uses, 0.3, threshold).is_some();
            (0..most).map(|_| next()).position(alarm).unwrap_or(most)
        })
        .sum();
    #[expect(clippy::cast_precision_loss, reason = "batches")]
    let run = total as f64 / runs as f64;
    assert!(run >= wanted, "{run}");
}

#[test]
fn a_stage_that_takes_twice_as_long_is_found_within_some_batches_and_comes_back() {
    let threshold = threshold(5e6);
    for seed in 1..=100 {
        let mut random = Random::new(seed);
        let reference = learned(&mut random, 64);
        let mut sums = Sums::default();
        let mut until = |mean: f64| {
            (1..200).find_map(|count| {
                let (x, uses) = batch(&mut random, mean, 64);
                Some((count, sums.take(&reference, x, uses, 0.3, threshold)?))
            })
        };
        let (batches, change) = until(2.0).unwrap();
        assert_eq!(change, Change::Left(Side::Slower));
        assert!(batches <= 60, "{seed}: {batches}");
        let (batches, change) = until(1.0).unwrap();
        assert_eq!(change, Change::Returned(Side::Slower));
        assert!(batches <= 60, "{seed}: {batches}");
        assert_eq!(until(0.3).unwrap().1, Change::Left(Side::Faster));
    }
}

#[test]
fn one_stall_is_no_alarm_and_what_hovers_at_the_edge_does_not_flap() {
    let mut random = Random::new(1);
    let reference = learned(&mut random, 64);
    let threshold = threshold(5e6);
    let mut sums = Sums::default();
    for round in 0..300 {
        let mean = if round % 20 == 0 { 1_000.0 } else { 1.0 };
        let (x, uses) = batch(&mut random, mean, 64);
        assert_eq!(sums.take(&reference, x, uses, 0.3, threshold), None, "{round}");
    }
    // On the edge, from an alarm on: it stands, for as long as a false alarm would take to come.
    let mut changes = 0;
    for round in 0..400 {
        let mean = if round < 60 { 3.0 } else { 1.3 * (3.0 * reference.safe / (LEARN as f64).sqrt()).exp() };
        let (x, uses) = batch(&mut random, mean, 64);
        changes += usize::from(sums.take(&reference, x, uses, 0.3, threshold).is_some());
    }
    assert!((1..=2).contains(&changes), "{changes}");
}

/// A stage that is slow in some batches only has a mean beyond its edge, whatever those between say; it comes back when none is slow any more.
#[test]
fn what_is_slow_now_and_then_is_found_and_stands_until_it_is_not() {
    let threshold = threshold(5e6);
    for (rule, every, factor, most) in [
        ("every other batch", 2, 3.5, 60),
        ("every third", 3, 30.0, 80),
        ("every fifth", 5, 100.0, 200),
        ("every tenth", 10, 40.0, 250),
    ] {
        for seed in 1..=20 {
            let mut random = Random::new(seed);
            let reference = learned(&mut random, 64);
            let mut sums = Sums::default();
            let mut take = |mean: f64| {
                let (x, uses) = batch(&mut random, mean, 64);
                sums.take(&reference, x, uses, 0.3, threshold)
            };
            let mean = |at: usize| if at.is_multiple_of(every) { factor } else { 1.0 };
            let found = (0..1_000).find_map(|at| Some((at, take(mean(at))?))).unwrap();
            assert!(found.1 == Change::Left(Side::Slower) && found.0 <= most, "{rule} {seed}: {found:?}");
            assert!((0..1_000).all(|at| take(mean(at)).is_none()), "{rule} {seed}: it stands");
            let back = (0..1_000).find_map(|at| Some((at, take(1.0)?))).unwrap();
            assert!(back.1 == Change::Returned(Side::Slower) && back.0 <= 250, "{rule} {seed}: {back:?}");
        }
    }
}

#[test]
fn a_record_of_a_reference_is_the_same_reference() {
    let mut random = Random::new(3);
    let batches: Vec<_> = (0..200).map(|_| batch(&mut random, 0.004, 32)).collect();
    let learned = Reference::learned(&batches).unwrap();
    let means: Vec<f64> = batches.iter().map(|(x, _)| x.exp()).collect();
    let sample = crate::calibration::summary(&means).unwrap();
    let recorded = Reference::recorded(sample.mean, sample.sd, 200, 32.0).unwrap();
    assert!((learned.centre - recorded.centre).abs() < 0.01 && (learned.spread - recorded.spread).abs() < 0.02);
    assert_eq!(Reference::recorded(0.0, 1.0, 20, 8.0), None);
    assert_eq!(Reference::recorded(1.0, 1.0, 2, 8.0), None);
}

#[test]
fn one_batch_alone_is_an_alarm_only_far_outside() {
    let mut random = Random::new(5);
    let reference = learned(&mut random, 64);
    let false_alarms = (0..20_000)
        .filter(|_| {
            let (x, uses) = batch(&mut random, 1.0, 64);
            at_once(&reference, x, uses, 0.3).is_some()
        })
        .count();
    assert_eq!(false_alarms, 0);
    assert_eq!(at_once(&reference, 10.0_f64.ln(), 64.0, 0.3), Some(Side::Slower));
    assert_eq!(at_once(&reference, 0.05_f64.ln(), 64.0, 0.3), Some(Side::Faster));
}
