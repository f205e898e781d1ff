//! From a Laplace transform back to a distribution (Abate and Whitt's Euler algorithm).
//!
//! `gspn::chain` inverts transforms too, along a contour whose points mostly lie left of 0; there it takes states out one by one. Here
//! every point lies right of 0, where the sweeps of [`super::passage`] over large chains always settle. Neither does for the other.

use crate::{Class, Fault};

/// A complex number.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Complex {
    pub(super) re: f64,
    pub(super) im: f64,
}

impl Complex {
    pub(super) fn plus(self, other: Self) -> Self {
        Self { re: self.re + other.re, im: self.im + other.im }
    }

    pub(super) fn times(self, factor: f64) -> Self {
        Self { re: self.re * factor, im: self.im * factor }
    }

    pub(super) fn by(self, other: Self) -> Self {
        Self { re: self.re * other.re - self.im * other.im, im: self.re * other.im + self.im * other.re }
    }

    pub(super) fn over(self, other: Self) -> Self {
        let size = other.re * other.re + other.im * other.im;
        if size.is_infinite() && other.re.is_finite() && other.im.is_finite() {
            // A rate of a time that is hardly one: its square is no number any more.
            let least = 2.0_f64.powi(-512);
            return self.times(least).over(other.times(least));
        }
        Self {
            re: (self.re * other.re + self.im * other.im) / size,
            im: (self.im * other.re - self.re * other.im) / size,
        }
    }
}

/// Terms that are summed as they are, at first and at most, and those whose partial sums are averaged.
const PLAIN: u32 = 15;
const MOST: u32 = 1 << 13;
const AVERAGED: usize = 11;

/// How far averages of the last partial sums may be apart: of the last two, and of the three before them.
const CLOSE: [f64; 2] = [1e-7, 1e-6];

/// The probability that a time is at most `time`, from the transform of its density; right to about 1e-6, mostly to 1e-8.
///
/// A time that varies little has a transform that falls late, and partial sums of few terms say nothing of it, but look like numbers:
/// there are more terms until their averages agree.
///
/// # Errors
/// [`Class::Unanswered`] when they never do.
pub(super) fn distribution(time: f64, mut transform: impl FnMut(Complex) -> Complex) -> Result<f64, Fault> {
    if time <= 0.0 {
        return Ok(0.0);
    }
    // Discretisation error e^-A.
    let a = 18.4;
    // The transform of the complement, (1 - f(s)) / s, whose inverse is small where it matters.
    let mut value = |k: u32| {
        let s = Complex { re: a / (2.0 * time), im: f64::from(k) * std::f64::consts::PI / time };
        let f = transform(s);
        Complex { re: 1.0 - f.re, im: -f.im }.over(s).re
    };
    let scale = (a / 2.0_f64).exp() / time;
    let (mut sum, mut term, mut plain) = (0.5 * value(0), 0, PLAIN);
    let mut last = [0.0; AVERAGED + 1];
    loop {
        while term < plain + AVERAGED as u32 {
            term += 1;
            let next = value(term);
            sum += if term % 2 == 0 { next } else { -next };
            last.rotate_left(1);
            last[AVERAGED] = sum;
        }
        // Averages of neighbours, again and again: in the end the binomial average of all (Euler).
        let mut averages = last;
        let mut apart = [0.0; 2];
        for left in (1..=AVERAGED).rev() {
            for at in 0..left {
                averages[at] = 0.5 * (averages[at] + averages[at + 1]);
            }
            if let Some(apart) = apart.get_mut(left.wrapping_sub(2)) {
                let (least, most) = averages[..left]
                    .iter()
                    .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), it| (low.min(*it), high.max(*it)));
                *apart = scale * (most - least);
            }
        }
        let complement = scale * averages[0];
        if complement.is_finite() && apart.iter().zip(CLOSE).all(|(apart, close)| *apart <= close) {
            return Ok((1.0 - complement).clamp(0.0, 1.0));
        }
        if plain >= MOST || !complement.is_finite() {
            let why = format!("how likely a time of at most {time} s is was not found: times vary too little for that");
            return Err(Fault::new(Class::Unanswered, "percentiles", why));
        }
        plain *= 2;
    }
}

/// The time beyond which a share `1 - level` lies, where `tail` says the share beyond a time; near `guess` if that is known.
pub(super) fn quantile(level: f64, guess: f64, mut tail: impl FnMut(f64) -> Result<f64, Fault>) -> Result<f64, Fault> {
    // How far the tail is from the one that is wanted, in logarithms: tails are nearly straight there.
    let mut off = |time: f64| Ok::<f64, Fault>((tail(time)?.max(1e-300) / (1.0 - level)).ln());
    let (mut low, mut above) = (0.0, -(1.0 - level).ln());
    let mut high = guess;
    let mut below = off(high)?;
    while below > 0.0 && high < 1e12 {
        (low, above) = (high, below);
        high *= 2.0;
        below = off(high)?;
    }
    // Regula falsi with the Illinois correction.
    let mut side = 0;
    for _ in 0..60 {
        if high - low <= 1e-7 * high {
            break;
        }
        let middle = low + (high - low) * (above / (above - below)).clamp(0.01, 0.99);
        let value = off(middle)?;
        if value.abs() < 1e-7 {
            return Ok(middle);
        }
        if value > 0.0 {
            (low, above) = (middle, value);
            below *= if side > 0 { 0.5 } else { 1.0 };
            side = 1;
        } else {
            (high, below) = (middle, value);
            above *= if side < 0 { 0.5 } else { 1.0 };
            side = -1;
        }
    }
    if high - low <= 1e-6 * high {
        return Ok(0.5 * (low + high));
    }
    let why = format!("the time in which a share of {level} is done was not found between {low} s and {high} s");
    Err(Fault::new(Class::Unanswered, "percentiles", why))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step of 1e-300 s before one that takes time.
    #[test]
    fn a_step_that_is_hardly_any_changes_nothing() {
        let rate = |rate: f64, s: Complex| Complex { re: rate, im: 0.0 }.over(Complex { re: rate + s.re, im: s.im });
        let both = distribution(0.01, |s| rate(1e300, s).by(rate(100.0, s))).unwrap();
        assert!((both - (1.0 - (-1.0_f64).exp())).abs() < 1e-7, "{both}");
    }

    #[test]
    fn known_transforms_come_back() {
        let rate = 3.0;
        let exponential = |s: Complex| Complex { re: rate, im: 0.0 }.over(Complex { re: rate + s.re, im: s.im });
        for time in [0.01, 0.1, 1.0, 3.0, 5.0] {
            let off = distribution(time, exponential).unwrap() - (1.0 - (-rate * time).exp());
            assert!(off.abs() < 1e-7, "{time}: {off}");
            // Two of them in a row.
            let two = |s: Complex| exponential(s).by(exponential(s));
            let off = distribution(time, two).unwrap() - (1.0 - (-rate * time).exp() * (1.0 + rate * time));
            assert!(off.abs() < 1e-7, "{time}: {off}");
        }
    }

    /// So many stages in a row that their time hardly varies: against the Poisson sum, and at its percentiles.
    #[test]
    fn times_that_hardly_vary_come_back() {
        for stages in [100_i32, 500, 2000, 10_000] {
            let rate = f64::from(stages);
            let transform = |s: Complex| {
                let one = Complex { re: rate, im: 0.0 }.over(Complex { re: rate + s.re, im: s.im });
                (0..stages).fold(Complex { re: 1.0, im: 0.0 }, |all, _| all.by(one))
            };
            // The probability of fewer than `stages` events in `rate * time`, from the largest term on.
            let later = |time: f64| {
                let events = rate * time;
                let log = (1..stages).map(|n| (events / f64::from(n)).ln()).sum::<f64>() - events;
                let (mut term, mut sum) = (log.exp(), 0.0);
                for n in (0..stages).rev() {
                    sum += term;
                    term *= f64::from(n) / events;
                }
                sum
            };
            for time in [0.9, 0.97, 1.0, 1.02, 1.1, 1.5, 4.0] {
                let off = distribution(time, transform).unwrap() - (1.0 - later(time));
                assert!(off.abs() < 1e-6, "{stages} stages, {time}: {off}");
            }
            for level in [0.5, 0.95, 0.99] {
                let found = quantile(level, 2.0, |time| Ok(1.0 - distribution(time, transform)?)).unwrap();
                let off = later(found) - (1.0 - level);
                assert!(off.abs() < 1e-6, "{stages} stages, {level}: {found}, {off}");
            }
        }
    }
}
