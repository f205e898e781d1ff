//! Numbers that equations are solved in.

use std::ops::{Add, AddAssign, Div, Mul};

use crate::product::wide::Wide;

/// What state reduction needs of a number; the default is 0.
pub(super) trait Number:
    Copy + Default + PartialEq + Add<Output = Self> + AddAssign + Mul<Output = Self> + Div<Output = Self>
{
}

impl Number for f64 {}
impl Number for Complex {}
impl Number for Wide {}

/// A complex number.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Complex {
    pub(super) re: f64,
    pub(super) im: f64,
}

impl From<f64> for Complex {
    fn from(re: f64) -> Self {
        Self { re, im: 0.0 }
    }
}

impl Complex {
    pub(super) fn minus(self, other: Self) -> Self {
        Self { re: self.re - other.re, im: self.im - other.im }
    }

    pub(super) fn size(self) -> f64 {
        self.re.hypot(self.im)
    }

    pub(super) fn exp(self) -> Self {
        let size = self.re.exp();
        Self { re: size * self.im.cos(), im: size * self.im.sin() }
    }
}

impl Add for Complex {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { re: self.re + other.re, im: self.im + other.im }
    }
}

impl AddAssign for Complex {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Mul for Complex {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self { re: self.re * other.re - self.im * other.im, im: self.re * other.im + self.im * other.re }
    }
}

impl Div for Complex {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        // By the larger part, so that no square is larger or smaller than a number can say.
        let scale = other.re.abs().max(other.im.abs());
        let (re, im) = (other.re / scale, other.im / scale);
        let size = scale * (re * re + im * im);
        Self { re: (self.re * re + self.im * im) / size, im: (self.im * re - self.re * im) / size }
    }
}
