//! Numbers above 0 of any size: sums over a million customers go far beyond what 64 bits say.

use std::ops::{Add, AddAssign, Div, Mul};

/// The base of exponents is 2^512.
const STEP: f64 = f64::from_bits((1023 + 512) << 52);
const DOWN: f64 = 1.0 / STEP;
/// Mantissas are 0 or in this range, so that a product of two is a number.
const MOST: f64 = f64::from_bits((1023 + 256) << 52);
const LEAST: f64 = 1.0 / MOST;

/// `mantissa` times 2^(512 `exponent`), not below 0, with the precision of 64 bits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Wide {
    mantissa: f64,
    exponent: i64,
}

impl Wide {
    pub(crate) const ZERO: Self = Self { mantissa: 0.0, exponent: i64::MIN / 2 };
    pub(crate) const ONE: Self = Self { mantissa: 1.0, exponent: 0 };

    /// A finite number, not below 0.
    pub(crate) fn of(value: f64) -> Self {
        if value == 0.0 {
            return Self::ZERO;
        }
        // The least number is 2^-1074: three steps are enough.
        let mut wide = Self { mantissa: value, exponent: 0 };
        for _ in 0..3 {
            wide = wide.in_range();
        }
        wide
    }

    fn in_range(mut self) -> Self {
        if self.mantissa >= MOST {
            self.mantissa *= DOWN;
            self.exponent += 1;
        } else if self.mantissa < LEAST && self.mantissa > 0.0 {
            self.mantissa *= STEP;
            self.exponent -= 1;
        }
        self
    }

    /// This over `other`, which is not 0, as far as a number can say.
    pub(crate) fn over(self, other: Self) -> f64 {
        if self.mantissa == 0.0 {
            return 0.0;
        }
        let steps = (self.exponent - other.exponent).clamp(-4, 4);
        let (by, count) = if steps < 0 { (DOWN, -steps) } else { (STEP, steps) };
        (0..count).fold(self.mantissa / other.mantissa, |ratio, _| ratio * by)
    }
}

impl Default for Wide {
    fn default() -> Self {
        Self::ZERO
    }
}

impl From<f64> for Wide {
    fn from(value: f64) -> Self {
        Self::of(value)
    }
}

impl Mul for Wide {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        if self.mantissa == 0.0 || other.mantissa == 0.0 {
            return Self::ZERO;
        }
        let (mantissa, exponent) = (self.mantissa * other.mantissa, self.exponent + other.exponent);
        Self { mantissa, exponent }.in_range()
    }
}

impl Div for Wide {
    type Output = Self;

    /// By what is not 0.
    fn div(self, other: Self) -> Self {
        if self.mantissa == 0.0 {
            return Self::ZERO;
        }
        let (mantissa, exponent) = (self.mantissa / other.mantissa, self.exponent - other.exponent);
        Self { mantissa, exponent }.in_range()
    }
}

impl Add for Wide {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let (large, small) = if self.exponent >= other.exponent { (self, other) } else { (other, self) };
        let mantissa = match large.exponent - small.exponent {
            0 => large.mantissa + small.mantissa,
            1 => large.mantissa + small.mantissa * DOWN,
            _ => return large,
        };
        Self { mantissa, exponent: large.exponent }.in_range()
    }
}

impl AddAssign for Wide {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beyond_all_numbers_come_back() {
        let (up, down) = (Wide::of(1e300), Wide::of(1e-300));
        let high = (0..1000).fold(Wide::ONE, |all, _| all * up);
        let back = (0..1000).fold(high, |all, _| all * down);
        assert!((back.over(Wide::ONE) - 1.0).abs() < 1e-12);
        assert!((high.over(high + high) - 0.5).abs() < 1e-15);
        assert_eq!(high.over(Wide::ONE), f64::INFINITY);
        assert_eq!(Wide::ONE.over(high), 0.0);
        assert_eq!((high + Wide::ONE).over(high), 1.0);
    }

    #[test]
    fn sums_and_products_across_a_step_are_those_of_numbers() {
        for (one, other) in
            [(1e-78, 1e77), (1e-77, 1e-79), (3e76, 1e80), (5e-324, 2.0), (1e308, 1e-290), (1e77, 1e-78), (0.0, 3.0)]
        {
            let sum = (Wide::of(one) + Wide::of(other)).over(Wide::ONE);
            assert!((sum - (one + other)).abs() <= 1e-15 * sum, "{one} + {other} is {sum}");
            let product = (Wide::of(one) * Wide::of(other)).over(Wide::ONE);
            assert!((product - one * other).abs() <= 1e-15 * product, "{one} * {other} is {product}");
            if other != 0.0 {
                let back = (Wide::of(one) * Wide::of(other) / Wide::of(other)).over(Wide::ONE);
                assert!((back - one).abs() <= 1e-15 * one, "{one} * {other} / {other} is {back}");
            }
        }
    }
}
