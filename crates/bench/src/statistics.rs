//! Whether two samples come from the same distribution: the two-sample test of Kolmogorov and Smirnov.

/// The largest distance between the shares of two samples that lie at or below a value. 0 to 1; 0 when one is empty.
#[must_use]
pub fn distance(one: &[f64], other: &[f64]) -> f64 {
    let sorted = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted
    };
    let (one, other) = (sorted(one), sorted(other));
    if one.is_empty() || other.is_empty() {
        return 0.0;
    }
    let (mut below_one, mut below_other, mut largest) = (0, 0, 0.0_f64);
    while below_one < one.len() && below_other < other.len() {
        // Equal values are passed together: between them nothing can be told.
        let value = one[below_one].min(other[below_other]);
        below_one += one[below_one..].iter().take_while(|at| **at <= value).count();
        below_other += other[below_other..].iter().take_while(|at| **at <= value).count();
        let shares = [(below_one, one.len()), (below_other, other.len())].map(|(part, all)| part as f64 / all as f64);
        largest = largest.max((shares[0] - shares[1]).abs());
    }
    largest
}

/// How often two samples of these sizes from one distribution would be at least so far apart: the limit of large samples,
/// with Stephens' correction for smaller ones (Journal of the Royal Statistical Society B 32, 1970).
#[must_use]
pub fn p_value(distance: f64, one: usize, other: usize) -> f64 {
    let size = (one as f64 * other as f64 / (one + other) as f64).sqrt();
    kolmogorov((size + 0.12 + 0.11 / size) * distance)
}

/// 1 minus Kolmogorov's distribution.
fn kolmogorov(at: f64) -> f64 {
    // Below, the series needs many terms and the sum is 1 to six places.
    if at < 0.27 {
        return 1.0;
    }
    let term = |count: i32| {
        let sign = if count % 2 == 1 { 1.0 } else { -1.0 };
        sign * (-2.0 * f64::from(count * count) * at * at).exp()
    };
    (2.0 * (1..=100).map(term).sum::<f64>()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn distances_are_those_that_one_counts_by_hand() {
        for (one, other, expected) in [
            (&[1.0, 2.0, 3.0][..], &[4.0, 5.0, 6.0][..], 1.0),
            (&[4.0, 5.0, 6.0], &[1.0, 2.0, 3.0], 1.0),
            (&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0], 0.0),
            (&[1.0, 3.0], &[2.0, 4.0], 0.5),
            (&[1.0, 1.0, 2.0, 2.0], &[1.0, 2.0, 2.0, 2.0], 0.25),
            (
                &[0.61, 0.29, 0.06, 0.59, -1.73, -0.74, 0.51, -0.56, 0.39, 1.64],
                &[0.05, -0.06, 0.64, -0.82, 0.37, 1.77, 1.09, -1.28, 2.36, 1.31, 1.05],
                0.445454545,
            ),
            (&[1.0], &[], 0.0),
        ] {
            assert!((distance(one, other) - expected).abs() < 1e-9, "{one:?} {other:?}: {}", distance(one, other));
        }
    }

    /// Smirnov's table, and further values of the series.
    #[test]
    fn the_distribution_has_its_published_values() {
        for (at, expected) in [
            (0.2, 1.0),
            (0.5, 0.963_945_243_664_875_1),
            (1.0, 0.269_999_671_677_354_56),
            (1.36, 0.049_485_876_755_377_876),
            (1.63, 0.009846364888486529),
            (2.0, 0.000_670_925_255_779_695_3),
            (9.0, 0.0),
        ] {
            assert!((kolmogorov(at) - expected).abs() < 1e-6, "{at}: {}", kolmogorov(at));
        }
        // 1.6276 is the critical value for 1 percent.
        let size = (10_000.0_f64 * 10_000.0 / 20_000.0).sqrt();
        assert!((p_value(1.6276 / size, 10_000, 10_000) - 0.01).abs() < 0.000_3);
    }

    #[test]
    fn equal_distributions_pass_and_a_small_shift_is_seen() {
        let mut random = Random::new(5);
        let mut sample = |shift: f64| -> Vec<f64> {
            (0..10_000).map(|_| shift + f64::from(random.below(1_000_000)) / 1_000_000.0).collect()
        };
        let (one, other, moved) = (sample(0.0), sample(0.0), sample(0.04));
        assert!(p_value(distance(&one, &other), 10_000, 10_000) > 0.01);
        assert!(p_value(distance(&one, &moved), 10_000, 10_000) < 0.001);
    }
}
