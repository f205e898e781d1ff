//! Complex numbers, four side by side: a transform is wanted at many points, and at one point each step waits for the one before it.

/// So many are side by side.
pub(super) const SIDE: usize = 4;
/// Squares of what is divided by that are no numbers, or have lost digits, are not used.
const SQUARES: std::ops::Range<f64> = 1e-290..f64::INFINITY;

/// Complex numbers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Complex {
    pub(super) re: [f64; SIDE],
    pub(super) im: [f64; SIDE],
}

impl Complex {
    /// The same real number four times.
    pub(super) fn real(value: f64) -> Self {
        Self { re: [value; SIDE], im: [0.0; SIDE] }
    }

    fn of(each: impl Fn(usize) -> (f64, f64)) -> Self {
        let mut all = Self::default();
        for at in 0..SIDE {
            (all.re[at], all.im[at]) = each(at);
        }
        all
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self::of(|at| (self.re[at] + other.re[at], self.im[at] + other.im[at]))
    }

    pub(super) fn times(self, factor: f64) -> Self {
        Self::of(|at| (self.re[at] * factor, self.im[at] * factor))
    }

    pub(super) fn by(self, other: Self) -> Self {
        Self::of(|at| {
            let ((a, b), (c, d)) = ((self.re[at], self.im[at]), (other.re[at], other.im[at]));
            (a * c - b * d, a * d + b * c)
        })
    }

    pub(super) fn over(self, other: Self) -> Self {
        self.by(other.inverse())
    }

    /// One over each.
    pub(super) fn inverse(self) -> Self {
        let size: [f64; SIDE] = std::array::from_fn(|at| self.re[at] * self.re[at] + self.im[at] * self.im[at]);
        if size.iter().all(|size| SQUARES.contains(size)) {
            return Self::of(|at| {
                let by = 1.0 / size[at];
                (self.re[at] * by, -self.im[at] * by)
            });
        }
        // A rate of a time that is hardly one, or of one that hardly ends.
        Self::of(|at| {
            let most = self.re[at].abs().max(self.im[at].abs());
            let (re, im) = (self.re[at] / most, self.im[at] / most);
            let size = re * re + im * im;
            (re / size / most, -im / size / most)
        })
    }

    /// How far the farthest is from what it was.
    pub(super) fn change(self, was: Self) -> f64 {
        let each = (0..SIDE).map(|at| (self.re[at] - was.re[at]).abs() + (self.im[at] - was.im[at]).abs());
        each.fold(0.0, f64::max)
    }
}
