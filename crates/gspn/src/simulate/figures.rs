//! What samples say: means, spreads, where a start is over, whether neighbours are alike.

/// Of the standard normal distribution: 95 % lie between it and its negative.
pub(super) const Z: f64 = 1.959_963_984_540_054;

/// Of Student's distribution with `freedom` degrees, at least 7: 95 % lie between it and its negative. The expansion of Cornish and
/// Fisher, right to 1e-3 there and to 1e-5 from 15 on.
pub(super) fn student(freedom: f64) -> f64 {
    let z = Z;
    let (z3, z5, z7) = (z.powi(3), z.powi(5), z.powi(7));
    z + (z3 + z) / (4.0 * freedom)
        + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * freedom.powi(2))
        + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / (384.0 * freedom.powi(3))
}

#[expect(clippy::cast_precision_loss, reason = "counts of samples")]
pub(super) fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}

/// A power of two near the largest sample: squares of what is measured in it are neither too small nor too large for a number, and nothing is rounded.
pub(super) fn unit<'a>(samples: impl IntoIterator<Item = &'a f64>) -> f64 {
    power(samples.into_iter().fold(0.0, |most: f64, sample| most.max(sample.abs())))
}

/// The power of two below a number.
pub(super) fn power(number: f64) -> f64 {
    const EXPONENT: u64 = 0x7ff0_0000_0000_0000;
    if number == 0.0 || !number.is_finite() {
        return 1.0;
    }
    f64::from_bits(number.to_bits() & EXPONENT).max(f64::MIN_POSITIVE)
}

/// The sum of the squared distances from `mean`.
pub(super) fn spread(samples: &[f64], mean: f64) -> f64 {
    samples.iter().map(|sample| (sample - mean).powi(2)).sum()
}

/// Half of the interval around the mean of independent samples, at least 8, that holds the true one in 95 of 100 cases.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "counts of samples")]
pub fn half_width(samples: &[f64]) -> f64 {
    let (count, unit) = (samples.len() as f64, unit(samples));
    let samples: Vec<f64> = samples.iter().map(|sample| sample / unit).collect();
    student(count - 1.0) * (spread(&samples, mean(&samples)) / (count - 1.0) / count).sqrt() * unit
}

/// Where the start of a series is over, at the latest at its half: MSER (White 1997), which drops what makes the rest's mean less certain.
#[expect(clippy::cast_precision_loss, reason = "counts of samples")]
pub(super) fn settled(series: &[f64]) -> usize {
    let (mut sum, mut squares, mut best, mut least) = (0.0, 0.0, 0, f64::INFINITY);
    let (shift, unit) = (series.last().copied().unwrap_or(0.0), unit(series));
    for (index, value) in series.iter().enumerate().rev() {
        let off = (value - shift) / unit;
        sum += off;
        squares += off.powi(2);
        let count = (series.len() - index) as f64;
        let error = (squares - sum * sum / count) / (count * count);
        if 2 * index <= series.len() && error <= least {
            (best, least) = (index, error);
        }
    }
    best
}

/// How alike neighbours are inside of each row, whatever the others are: rows that have not come round yet still rise or fall.
pub(super) fn alike_inside(rows: &[Vec<f64>]) -> f64 {
    let centred: Vec<Vec<f64>> = rows.iter().map(|row| row.iter().map(|sample| sample - mean(row)).collect()).collect();
    alike(&centred, 0.0)
}

/// How alike neighbours are: the correlation of each sample with the next in its row, all rows together, whose mean is known.
#[must_use]
pub fn alike(rows: &[Vec<f64>], mean: f64) -> f64 {
    let pairs = rows.iter().flat_map(|row| row.windows(2)).map(|pair| (pair[0] - mean) * (pair[1] - mean));
    let spread: f64 = rows.iter().map(|row| spread(row, mean)).sum();
    let rows = rows.first().map_or(1.0, |row| row.len() as f64 / (row.len() as f64 - 1.0).max(1.0));
    if spread > 0.0 { rows * pairs.sum::<f64>() / spread } else { 0.0 }
}

/// The interval for a probability that was seen `hits` times in `count` samples (Wilson 1927).
pub(super) fn wilson(hits: f64, count: f64) -> (f64, f64) {
    let share = hits / count;
    let squared = Z * Z / count;
    let middle = (share + squared / 2.0) / (1.0 + squared);
    let half = Z * (share * (1.0 - share) / count + squared / (4.0 * count)).sqrt() / (1.0 + squared);
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_tables() {
        for (freedom, wanted) in
            [(7.0, 2.364_62), (15.0, 2.131_45), (30.0, 2.042_27), (127.0, 1.978_82), (1e6, 1.959_97)]
        {
            assert!(
                (student(freedom) - wanted).abs() < if freedom < 10.0 { 1e-3 } else { 5e-5 },
                "{freedom}: {}",
                student(freedom)
            );
        }
        // Wilson's interval for 0 and for 20 of 100, from tables.
        let (low, high) = wilson(0.0, 100.0);
        assert!(low < 1e-12 && (high - 0.036_99).abs() < 1e-4, "{high}");
        let (low, high) = wilson(20.0, 100.0);
        assert!((low - 0.133_4).abs() < 1e-3 && (high - 0.288_8).abs() < 1e-3, "{low} {high}");
        assert!(
            (half_width(&(1..=16).map(f64::from).collect::<Vec<_>>()) - 2.131_45 * (22.666_67_f64 / 16.0).sqrt()).abs()
                < 1e-4
        );
    }

    /// Squares of such numbers are none.
    #[test]
    fn very_small_and_very_large_samples_are_spread_as_others_are() {
        let samples = [1.0, 2.0, 4.0, 3.0, 1.5, 2.5, 3.5, 4.5];
        let wanted = half_width(&samples);
        for scale in [2.0_f64.powi(-600), 2.0_f64.powi(600)] {
            let scaled: Vec<f64> = samples.iter().map(|sample| sample * scale).collect();
            assert!((half_width(&scaled) / scale - wanted).abs() < 1e-15, "{scale}");
            let mut series = vec![scale, -scale, scale, -scale, scale, -scale, scale, -scale];
            assert_eq!(settled(&series), 0);
            series.splice(0..0, [30.0 * scale, 20.0 * scale]);
            assert_eq!(settled(&series), 2);
        }
        assert_eq!((power(0.0), power(5e-324), power(3.0), power(f64::INFINITY)), (1.0, f64::MIN_POSITIVE, 2.0, 1.0));
        assert_eq!(half_width(&[5e-324; 8]), 0.0);
    }

    #[test]
    fn a_start_is_dropped_and_likeness_seen() {
        let mut series = vec![1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0];
        assert_eq!(settled(&series), 0);
        series.splice(0..0, [30.0, 20.0]);
        assert_eq!(settled(&series), 2);
        assert!(alike(&[series[2..].to_vec()], 0.0) < -0.9);
        assert!(alike(&[vec![-2.0, -1.0, 0.0, 1.0, 2.0], vec![-2.0, -1.0, 0.0, 1.0, 2.0]], 0.0) > 0.4);
    }
}
