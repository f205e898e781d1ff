//! From a Laplace transform back to a distribution (Abate and Whitt's Euler algorithm).
//!
//! `gspn::chain` inverts transforms too, along a contour whose points mostly lie left of 0; there it takes states out one by one. Here
//! every point lies right of 0, where the sweeps of [`super::passage`] over large chains always settle. Neither does for the other.

use super::complex::{Complex, SIDE};
use crate::{Class, Fault};

/// Terms that are summed as they are, at first and at most, and those whose partial sums are averaged.
const PLAIN: u32 = 15;
const MOST: u32 = 1 << 13;
const AVERAGED: usize = 11;

/// How far averages of the last partial sums may be apart: of the last two, and of the three before them.
const CLOSE: [f64; 2] = [1e-7, 1e-6];

/// So near in its logarithm the tail is as good as straight: a step from there is off by its square.
const NEARLY: f64 = 3e-5;

/// What is known of a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Likely {
    /// The probability of at most this time; right to about 1e-6, mostly to 1e-8.
    pub(super) within: f64,
    /// Its density there, less exactly.
    pub(super) density: f64,
    /// Terms that were summed as they are.
    pub(super) plain: u32,
}

/// Sums whose terms have one sign after the other.
struct Sum {
    sum: f64,
    /// The last partial sums.
    last: [f64; AVERAGED + 1],
}

impl Sum {
    fn add(&mut self, term: f64) {
        self.sum += term;
        self.last.rotate_left(1);
        self.last[AVERAGED] = self.sum;
    }

    /// Averages of neighbours, again and again: in the end the binomial average of all (Euler); and how far the last are apart.
    fn average(&self) -> (f64, [f64; 2]) {
        let mut averages = self.last;
        let mut apart = [0.0; 2];
        for left in (1..=AVERAGED).rev() {
            for at in 0..left {
                averages[at] = 0.5 * (averages[at] + averages[at + 1]);
            }
            if let Some(apart) = apart.get_mut(left.wrapping_sub(2)) {
                let (least, most) = averages[..left]
                    .iter()
                    .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), it| (low.min(*it), high.max(*it)));
                *apart = most - least;
            }
        }
        (averages[0], apart)
    }
}

/// How likely a time of at most `time` is, from the transform of its density.
///
/// A time that varies little has a transform that falls late, and partial sums of few terms say nothing of it, but look like numbers:
/// there are more terms until their averages agree.
///
/// # Errors
/// [`Class::Unanswered`] when they never do.
pub(super) fn likely(time: f64, mut transform: impl FnMut(Complex) -> Complex) -> Result<Likely, Fault> {
    if time <= 0.0 {
        return Ok(Likely { within: 0.0, density: 0.0, plain: 0 });
    }
    let scale = scale(time);
    // Of the complement, (1 - f(s)) / s, whose inverse is small where it matters, and of the density.
    let mut sums = [(); 2].map(|()| Sum { sum: 0.0, last: [0.0; AVERAGED + 1] });
    let (mut term, mut plain) = (0, PLAIN);
    let mut values = [[0.0; SIDE]; 2];
    loop {
        while term <= plain + AVERAGED as u32 {
            let at = term as usize % SIDE;
            if at == 0 {
                let s = point(time, term);
                let f = transform(s);
                values = [Complex::real(1.0).plus(f.times(-1.0)).over(s).re, f.re];
            }
            let part = if term == 0 { 0.5 } else { 1.0 };
            let signed = if term % 2 == 0 { part } else { -part };
            for (sum, values) in sums.iter_mut().zip(&values) {
                sum.add(signed * values[at]);
            }
            term += 1;
        }
        let (complement, apart) = sums[0].average();
        let complement = scale * complement;
        if complement.is_finite() && apart.iter().zip(CLOSE).all(|(apart, close)| scale * apart <= close) {
            let within = (1.0 - complement).clamp(0.0, 1.0);
            return Ok(Likely { within, density: scale * sums[1].average().0, plain });
        }
        if plain >= MOST || !complement.is_finite() {
            let why = format!("how likely a time of at most {time} s is was not found: times vary too little for that");
            return Err(Fault::new(Class::Unanswered, "percentiles", why));
        }
        plain *= 2;
    }
}

/// Discretisation error e^-A.
const A: f64 = 18.4;

fn scale(time: f64) -> f64 {
    (A / 2.0_f64).exp() / time
}

/// Where the transform is wanted for a term and those behind it.
fn point(time: f64, term: u32) -> Complex {
    let mut s = Complex::real(A / (2.0 * time));
    for (im, term) in s.im.iter_mut().zip(term..) {
        *im = f64::from(term) * std::f64::consts::PI / time;
    }
    s
}

/// The same points, and weights by which what a transform changes there adds up to what the probability of at most `time` does: real parts of
/// products. Of the last terms fewer and fewer partial sums know.
pub(super) fn weights(time: f64, plain: u32) -> impl Iterator<Item = (Complex, Complex)> {
    let terms = plain + AVERAGED as u32 + 1;
    // From so many partial sums on, and of all that are averaged: binomial numbers.
    let (mut known, mut left, mut number) = ([1.0; AVERAGED + 1], 1.0, 1.0);
    for (after, known) in known.iter_mut().enumerate() {
        *known = left;
        left -= number / (1_u32 << AVERAGED) as f64;
        number *= (AVERAGED - after) as f64 / (after + 1) as f64;
    }
    (0..terms).step_by(SIDE).map(move |first| {
        let s = point(time, first);
        let mut weight = Complex::default();
        for (re, term) in weight.re.iter_mut().zip(first..terms) {
            let part = if term == 0 { 0.5 } else { 1.0 };
            let signed = if term % 2 == 0 { part } else { -part };
            *re = scale(time) * signed * known[term.saturating_sub(plain) as usize];
        }
        (s, weight.over(s))
    })
}

/// The time beyond which a share `1 - level` lies, where `likely` says how likely a time is; near `guess` if that is known.
pub(super) fn quantile(
    level: f64,
    guess: f64,
    mut likely: impl FnMut(f64) -> Result<Likely, Fault>,
) -> Result<f64, Fault> {
    let (mut low, mut high, mut time) = (0.0_f64, f64::INFINITY, guess);
    let mut last = f64::INFINITY;
    for _ in 0..200 {
        let Likely { within, density, .. } = likely(time)?;
        let tail = (1.0 - within).max(1e-300);
        // How far the tail is from the one that is wanted, in logarithms: tails are nearly straight there.
        let off = (tail / (1.0 - level)).ln();
        *if off > 0.0 { &mut low } else { &mut high } = time;
        let next = time + off * tail / density;
        let is_between = low < next && next < high;
        if off.abs() < 1e-7 || off.abs() < NEARLY && is_between {
            return Ok(if is_between { next } else { time });
        }
        if high.is_finite() && high - low <= 1e-7 * high {
            return Ok(0.5 * (low + high));
        }
        if high.is_infinite() && low >= 1e12 {
            break;
        }
        // What does not come nearer quickly is halved.
        let is_quick = off.abs() < 0.5 * last;
        last = off.abs();
        time = if is_between && (is_quick || high.is_infinite()) {
            if high.is_finite() { next } else { next.min(4.0 * time) }
        } else if high.is_infinite() {
            2.0 * time
        } else {
            0.5 * (low + high)
        };
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
        let rate = |rate: f64, s: Complex| Complex::real(rate).over(Complex::real(rate).plus(s));
        let both = likely(0.01, |s| rate(1e300, s).by(rate(100.0, s))).unwrap().within;
        assert!((both - (1.0 - (-1.0_f64).exp())).abs() < 1e-7, "{both}");
    }

    #[test]
    fn known_transforms_come_back() {
        let rate = 3.0;
        let exponential = |s: Complex| Complex::real(rate).over(Complex::real(rate).plus(s));
        for time in [0.01, 0.1, 1.0, 3.0, 5.0] {
            let found = likely(time, exponential).unwrap();
            let off = found.within - (1.0 - (-rate * time).exp());
            assert!(off.abs() < 1e-7, "{time}: {off}");
            let off = found.density / (rate * (-rate * time).exp()) - 1.0;
            assert!(off.abs() < 1e-2, "{time}: {off}");
            // Two of them in a row.
            let two = |s: Complex| exponential(s).by(exponential(s));
            let off = likely(time, two).unwrap().within - (1.0 - (-rate * time).exp() * (1.0 + rate * time));
            assert!(off.abs() < 1e-7, "{time}: {off}");
        }
    }

    /// So many stages in a row that their time hardly varies: against the Poisson sum, and at its percentiles.
    #[test]
    fn times_that_hardly_vary_come_back() {
        for stages in [100_i32, 500, 2000, 10_000] {
            let rate = f64::from(stages);
            let transform = |s: Complex| {
                let one = Complex::real(rate).over(Complex::real(rate).plus(s));
                (0..stages).fold(Complex::real(1.0), |all, _| all.by(one))
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
                let off = likely(time, transform).unwrap().within - (1.0 - later(time));
                assert!(off.abs() < 1e-6, "{stages} stages, {time}: {off}");
            }
            for level in [0.5, 0.95, 0.99] {
                let found = quantile(level, 2.0, |time| likely(time, transform)).unwrap();
                let off = later(found) - (1.0 - level);
                assert!(off.abs() < 1e-6, "{stages} stages, {level}: {found}, {off}");
            }
        }
    }
}
