//! Chains of few states whose rates are not far apart: sweeps over two solutions side by side.
//!
//! Taking out states one by one is right whatever the rates, but costs up to the cube of their number. Most small chains settle
//! in some tens of sweeps. That they did is believed only when two solutions with different starts fell steadily to the same:
//! where groups of states hardly know of each other, each keeps what its start gave it.

use std::borrow::Cow;

use super::solve::{Component, normalize, sum};

/// States from which it is worth a try, and up to which: more are left to sweeps that may take longer.
const LEAST: usize = 48;
pub(super) const MOST: usize = 5_000;
/// Edges up to which it is: all sweeps together take a fraction of a second.
const EDGES: usize = 200_000;
/// No edge has less than this part of the rate at which its state is left.
const RARE: f64 = 1e-4;
/// Sweeps in all, and those of a round that are looked at; one more goes before them.
const SWEEPS: usize = 200;
const WINDOW: usize = 4;
/// Estimated relative error of each state at the end, and what the two solutions may be apart.
const CLOSE: f64 = 1e-12;
const AGREE: f64 = 1e-12;
/// By what the changes fall at least, from sweep to sweep, or else are rounding.
const FALLS: f64 = 0.95;
const ROUNDED: f64 = 4e-15;

/// The edges into each state, with the part of the target's exit rate that each is.
struct Scaled<'a> {
    starts: Cow<'a, [u32]>,
    sources: Cow<'a, [u32]>,
    parts: Vec<f64>,
    inflow: Vec<f64>,
    /// Nothing comes in: solutions have no size of their own.
    closed: bool,
}

/// The stationary distribution of a component that nothing leaves; `None` when it does not settle soon.
pub(super) fn stationary(component: &Component<'_>) -> Option<Vec<f64>> {
    let scaled = Scaled::new(component, None)?;
    #[expect(clippy::cast_precision_loss, reason = "fewer than 2^32")]
    let pair = |(state, weight): (usize, f64)| [weight, weight / (state + 1) as f64];
    let mut pairs: Vec<[f64; 2]> = scaled.first_guess().into_iter().enumerate().map(pair).collect();
    scaled.settle(&mut pairs)?;
    let mut weights: Vec<f64> = pairs.into_iter().map(|[one, _]| one).collect();
    normalize(&mut weights);
    Some(weights)
}

/// Time spent in each state before the component is left, for an `inflow` of which nothing is below 0; `None` when it does not
/// settle soon.
pub(super) fn occupancy(component: &Component<'_>, inflow: &[f64]) -> Option<Vec<f64>> {
    let total = sum(inflow.iter().copied());
    if total.is_nan() || total <= 0.0 || inflow.iter().any(|inflow| *inflow < 0.0) {
        return None;
    }
    let scaled = Scaled::new(component, Some(inflow))?;
    let mut pairs: Vec<[f64; 2]> =
        component.nodes.iter().map(|node| [0.0, total / component.chain.exit(*node as usize)]).collect();
    scaled.settle(&mut pairs)?;
    Some(pairs.into_iter().map(|[time, _]| time).collect())
}

impl<'a> Scaled<'a> {
    /// `None` where the component is too small or too large for it, or has rare edges.
    fn new(component: &Component<'a>, inflow: Option<&[f64]>) -> Option<Self> {
        let count = component.nodes.len();
        if !(LEAST..=MOST).contains(&count) {
            return None;
        }
        let level = component.level();
        if level.sources.len() > EDGES {
            return None;
        }
        let mut parts = Vec::with_capacity(level.sources.len());
        for (state, span) in level.starts.windows(2).enumerate() {
            let span = span[0] as usize..span[1] as usize;
            for (from, rate) in level.sources[span.clone()].iter().zip(&level.rates[span]) {
                if *rate < RARE * level.exits[*from as usize] {
                    return None;
                }
                parts.push(rate / level.exits[state]);
            }
        }
        let closed = inflow.is_none();
        let inflow = match inflow {
            Some(inflow) => inflow.iter().zip(level.exits.iter()).map(|(inflow, exit)| inflow / exit).collect(),
            None => vec![0.0; count],
        };
        Some(Self { starts: level.starts, sources: level.sources, parts, inflow, closed })
    }

    /// Each state gets what states before it bring there: the right order of size for most, which sweeps need many rounds to find.
    fn first_guess(&self) -> Vec<f64> {
        let mut weights: Vec<f64> = Vec::with_capacity(self.inflow.len());
        for span in self.starts.windows(2) {
            let span = span[0] as usize..span[1] as usize;
            let edges = self.sources[span.clone()].iter().zip(&self.parts[span]);
            let weight: f64 = edges.map(|(from, part)| weights.get(*from as usize).map_or(0.0, |it| it * part)).sum();
            weights.push(if weight > 0.0 { weight } else { 1.0 });
        }
        if !weights.iter().sum::<f64>().is_finite() {
            weights.fill(1.0);
        }
        normalize(&mut weights);
        weights
    }

    /// Sweeps until both solutions stand still at the same. The next round of sweeps starts from where the last one leads.
    fn settle(&self, pairs: &mut [[f64; 2]]) -> Option<()> {
        let mut past = vec![[[0.0; 2]; WINDOW + 1]; pairs.len()];
        let mut slowest = 1.0_f64;
        let mut sweeps = 0;
        while sweeps + WINDOW + 2 <= SWEEPS {
            sweeps += WINDOW + 1;
            for step in 0..=WINDOW {
                self.sweep(pairs, &mut past, step);
            }
            let round = Round::of(&past);
            #[expect(clippy::cast_precision_loss, reason = "a few")]
            let fall = (round.last / round.first).powf(1.0 / (WINDOW - 1) as f64);
            // What is left after a guess falls fast at first.
            let fall = (std::mem::replace(&mut slowest, fall), fall);
            let fall = if fall.0 < FALLS { fall.0.max(fall.1) } else { fall.1 };
            if round.first.max(round.last) < ROUNDED {
                return self.agree(pairs).then_some(());
            }
            round.ahead(&past, pairs);
            if fall < FALLS && round.last * fall / (1.0 - fall) < CLOSE {
                // The guess takes away most of what was left, and a sweep what it rounded.
                self.sweep(pairs, &mut past, 0);
                sweeps += 1;
                // Guesses hide what falls slowly, but not for both in the same way.
                if self.agree(pairs) {
                    return Some(());
                }
            }
        }
        None
    }

    /// Whether both solutions are the same.
    fn agree(&self, pairs: &[[f64; 2]]) -> bool {
        let [one, other] = [0, 1].map(|lane| sum(pairs.iter().map(|pair| pair[lane])));
        let scale = if self.closed { one / other } else { 1.0 };
        pairs.iter().all(|[one, other]| (one - other * scale).abs() <= AGREE * one)
    }

    /// One sweep, the `step`-th of a round.
    fn sweep(&self, pairs: &mut [[f64; 2]], past: &mut [Past], step: usize) {
        let states = self.starts.windows(2).zip(&self.inflow).zip(past);
        for (state, ((span, inflow), past)) in states.enumerate() {
            let span = span[0] as usize..span[1] as usize;
            let (sources, source) = self.sources[span.clone()].as_chunks::<2>();
            let (parts, part) = self.parts[span].as_chunks::<2>();
            // Two sums side by side: neither waits for the other.
            let (mut one, mut other) = ([*inflow; 2], [0.0; 2]);
            let add = |sum: &mut [f64; 2], from: u32, part: f64| {
                let from = pairs[from as usize];
                *sum = [sum[0] + from[0] * part, sum[1] + from[1] * part];
            };
            for (from, part) in sources.iter().zip(parts) {
                add(&mut one, from[0], part[0]);
                add(&mut other, from[1], part[1]);
            }
            if let ([from], [part]) = (source, part) {
                add(&mut one, *from, *part);
            }
            let now = [one[0] + other[0], one[1] + other[1]];
            past[step] = now;
            pairs[state] = now;
        }
    }
}

/// Two solutions of a state after each of the sweeps of a round.
type Past = [[f64; 2]; WINDOW + 1];

/// What the sweeps of a round changed.
struct Round {
    /// The largest relative change of a state in one of the two, in the first and the last sweep that are looked at.
    first: f64,
    last: f64,
    /// For each solution the products of the changes, each state by one over its size.
    products: [[[f64; 2]; WINDOW]; WINDOW],
}

impl Round {
    fn of(past: &[Past]) -> Self {
        let (mut first, mut last) = ([0.0_f64; 2], [0.0_f64; 2]);
        let mut products = [[[0.0; 2]; WINDOW]; WINDOW];
        for past in past {
            let now = past[WINDOW];
            let mut changes = [[0.0; 2]; WINDOW];
            for (step, change) in changes.iter_mut().enumerate() {
                *change = [past[step + 1][0] - past[step][0], past[step + 1][1] - past[step][1]];
            }
            let each = [1.0 / now[0], 1.0 / now[1]];
            for (row, products) in products.iter_mut().enumerate() {
                let scaled = [changes[row][0] * each[0], changes[row][1] * each[1]];
                for (product, change) in products.iter_mut().zip(&changes[..=row]) {
                    *product = [product[0] + scaled[0] * change[0], product[1] + scaled[1] * change[1]];
                }
            }
            for lane in 0..2 {
                let change = [changes[0], changes[WINDOW - 1]].map(|change| (change[lane] * each[lane]).abs());
                first[lane] = if change[0] > first[lane] { change[0] } else { first[lane] };
                last[lane] = if change[1] > last[lane] { change[1] } else { last[lane] };
            }
        }
        Self { first: first[0].max(first[1]), last: last[0].max(last[1]), products }
    }

    /// Goes where the sweeps lead (reduced rank extrapolation): to the sum of what they came to, in parts that add up to 1, whose
    /// change is the least. Unless that turns a number round, or nearly.
    fn ahead(&self, past: &[Past], pairs: &mut [[f64; 2]]) {
        let [Some(one), Some(other)] = [0, 1].map(|lane| self.parts(lane)) else { return };
        let led = |past: &Past| {
            let steps = one.iter().zip(&other).zip(&past[1..]);
            steps.fold([0.0; 2], |sum, ((one, other), now)| [sum[0] + one * now[0], sum[1] + other * now[1]])
        };
        let sound = |past: &Past| {
            let (led, now) = (led(past), past[WINDOW]);
            led.iter().zip(&now).all(|(led, now)| *led > 0.1 * now && *led < 10.0 * now)
        };
        if past.iter().all(sound) {
            pairs.iter_mut().zip(past).for_each(|(pair, past)| *pair = led(past));
        }
    }

    /// The parts for one of the solutions.
    fn parts(&self, lane: usize) -> Option<[f64; WINDOW]> {
        let product = |row: usize, column: usize| self.products[row.max(column)][row.min(column)][lane];
        let mut matrix: [[f64; WINDOW + 1]; WINDOW] = std::array::from_fn(|row| {
            std::array::from_fn(|column| if column < WINDOW { product(row, column) } else { 1.0 })
        });
        // The diagonal is raised a little: changes that look alike must not be played off against each other.
        (0..WINDOW).for_each(|at| matrix[at][at] *= 1.0 + 1e-12);
        for pivot in 0..WINDOW {
            let value = matrix[pivot][pivot];
            if value.is_nan() || value <= 0.0 {
                return None;
            }
            let row = matrix[pivot];
            for (_, other) in matrix.iter_mut().enumerate().filter(|(at, _)| *at != pivot) {
                let factor = other[pivot] / value;
                other.iter_mut().zip(&row).for_each(|(entry, own)| *entry -= factor * own);
            }
        }
        let parts: [f64; WINDOW] = std::array::from_fn(|at| matrix[at][WINDOW] / matrix[at][at]);
        let sum: f64 = parts.iter().sum();
        (sum.is_finite() && sum != 0.0).then(|| parts.map(|part| part / sum))
    }
}
