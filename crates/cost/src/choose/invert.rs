//! From a Laplace transform back to a distribution (Abate and Whitt's Euler algorithm).
//!
//! `gspn::chain` inverts transforms too, along a contour whose points mostly lie left of 0; there it takes states out one by one. Here
//! every point lies right of 0, where the sweeps of [`super::passage`] over large chains always settle. Neither does for the other.

use crate::Fault;

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
        Self {
            re: (self.re * other.re + self.im * other.im) / size,
            im: (self.im * other.re - self.re * other.im) / size,
        }
    }
}

/// Terms that are summed as they are, and those whose partial sums are averaged.
const PLAIN: u32 = 15;
const AVERAGED: u32 = 11;

/// Binomial coefficients of [`AVERAGED`], over 2 to its power.
const WEIGHTS: [f64; 12] = [
    1.0 / 2048.0,
    11.0 / 2048.0,
    55.0 / 2048.0,
    165.0 / 2048.0,
    330.0 / 2048.0,
    462.0 / 2048.0,
    462.0 / 2048.0,
    330.0 / 2048.0,
    165.0 / 2048.0,
    55.0 / 2048.0,
    11.0 / 2048.0,
    1.0 / 2048.0,
];

/// The probability that a time is at most `time`, from the transform of its density; right to about 1e-8 where it is smooth.
pub(super) fn distribution(time: f64, mut transform: impl FnMut(Complex) -> Complex) -> f64 {
    if time <= 0.0 {
        return 0.0;
    }
    // Discretisation error e^-A.
    let a = 18.4;
    // The transform of the complement, (1 - f(s)) / s, whose inverse is small where it matters.
    let mut value = |k: u32| {
        let s = Complex { re: a / (2.0 * time), im: f64::from(k) * std::f64::consts::PI / time };
        let f = transform(s);
        Complex { re: 1.0 - f.re, im: -f.im }.over(s).re
    };
    let mut sum = 0.5 * value(0);
    let mut averaged = 0.0;
    for k in 1..=(PLAIN + AVERAGED) {
        let term = value(k);
        sum += if k % 2 == 0 { term } else { -term };
        if k >= PLAIN {
            averaged += WEIGHTS.get((k - PLAIN) as usize).copied().unwrap_or(0.0) * sum;
        }
    }
    let complement = (a / 2.0).exp() / time * averaged;
    (1.0 - complement).clamp(0.0, 1.0)
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
    Ok(0.5 * (low + high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_transforms_come_back() {
        let rate = 3.0;
        let exponential = |s: Complex| Complex { re: rate, im: 0.0 }.over(Complex { re: rate + s.re, im: s.im });
        for time in [0.01, 0.1, 1.0, 3.0, 5.0] {
            let off = distribution(time, exponential) - (1.0 - (-rate * time).exp());
            assert!(off.abs() < 1e-7, "{time}: {off}");
            // Two of them in a row.
            let two = |s: Complex| exponential(s).by(exponential(s));
            let off = distribution(time, two) - (1.0 - (-rate * time).exp() * (1.0 + rate * time));
            assert!(off.abs() < 1e-7, "{time}: {off}");
        }
    }
}
