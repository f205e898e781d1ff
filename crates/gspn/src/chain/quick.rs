//! Chains whose rates are not far apart: sweeps over two solutions side by side.
//!
//! Taking out states one by one is right whatever the rates, but costs up to the cube of their number. Most chains settle
//! in some tens of sweeps. That they did is believed only when two solutions with different starts fell steadily to the same:
//! where groups of states hardly know of each other, each keeps what its start gave it.

use std::borrow::Cow;

use super::level::{NOTHING, together};
use super::solve::{Component, normalize, sum};
use super::{Chain, Incoming};
use crate::{Budget, Progress, Refusal};

/// States from which it is worth a try.
const LEAST: usize = 48;
/// No edge has less than this part of the rate at which its state is left.
const RARE: f64 = 1e-4;
/// Sweeps in all, and those of a round: of the first only what it came to is looked at, of the others what they changed, too. Longer
/// rounds lead further with fewer sweeps, but what is done between them costs by their square: that pays where there are many states.
const SWEEPS: usize = 400;
const ROUND: usize = 6;
const LONG_ROUND: usize = 7;
const MANY: usize = 100_000;
/// Estimated relative error of each state at the end, that from which it is looked at sweep by sweep, and what the two solutions may be
/// apart.
const CLOSE: f64 = 1e-12;
const NEARLY: f64 = 1e-10;
const AGREE: f64 = 1e-12;
/// What a first guess is divided by where it is more.
const FAR: f64 = 1e200;
/// Bytes of an edge that is held once more, and of a state, besides those of the chain itself.
const EDGE: usize = 20;
const STATE: usize = 16 * (LONG_ROUND + 2);
/// After so many sweeps the changes have to be this little, or others may try.
const HALFWAY: usize = 200;
const NEAR: f64 = 1e-6;
/// Where that many more sweeps have made the changes this many times less, others would not be quicker.
const LESS: f64 = 30.0;
/// By what the changes fall at least, from sweep to sweep, or else are rounding.
const FALLS: f64 = 0.95;
const ROUNDED: f64 = 4e-15;

/// The edges into each state, with the part of the target's exit rate that each is.
struct Scaled<'a> {
    starts: Cow<'a, [u32]>,
    sources: Cow<'a, [u32]>,
    parts: Vec<f64>,
    /// Where nothing comes in, solutions have no size of their own.
    inflow: Option<Vec<f64>>,
}

/// The stationary distribution of a component that nothing leaves; `None` when it does not settle soon.
pub(super) fn stationary(component: &Component<'_>, budget: &mut Budget<'_>) -> Result<Option<Vec<f64>>, Refusal> {
    match Scaled::new(component, None, budget) {
        Some(scaled) => scaled.stationary(budget),
        None => Ok(None),
    }
}

/// The same of a whole chain: its edges need not be held twice. `None` where it is not one for this, too.
pub(super) fn of_all(chain: &Chain, incoming: Incoming, budget: &mut Budget<'_>) -> Result<Option<Vec<f64>>, Refusal> {
    let Incoming { starts, sources, rates: mut parts } = incoming;
    for (span, exit) in starts.windows(2).zip(&chain.exits) {
        parts[span[0] as usize..span[1] as usize].iter_mut().for_each(|rate| *rate /= exit);
    }
    Scaled { starts: starts.into(), sources: sources.into(), parts, inflow: None }.stationary(budget)
}

/// Whether a chain that nothing leaves is one for [`of_all`].
pub(super) fn suits(chain: &Chain, budget: &Budget<'_>) -> bool {
    let common = |state: usize| {
        let least = RARE * chain.exit(state);
        chain.row(state).all(|(_, rate)| rate >= least)
    };
    enough(chain.len(), chain, 0, budget) && (0..chain.len()).all(common)
}

/// Whether so many states of a chain are enough, and not too many for the memory, with so many bytes an edge besides those of the chain.
fn enough(count: usize, chain: &Chain, edge: usize, budget: &Budget<'_>) -> bool {
    let besides = (chain.edges() * edge + chain.len() * (8 + STATE)) as u64;
    count >= LEAST && budget.bytes(chain.bytes() + chain.bytes_turned() + besides).is_ok()
}

/// Time spent in each state before the component is left, for an `inflow` of which nothing is below 0; `None` when it does not
/// settle soon.
pub(super) fn occupancy(
    component: &Component<'_>,
    inflow: &[f64],
    budget: &mut Budget<'_>,
) -> Result<Option<Vec<f64>>, Refusal> {
    let total = sum(inflow.iter().copied());
    if total.is_nan() || total <= 0.0 || inflow.iter().any(|inflow| *inflow < 0.0) {
        return Ok(None);
    }
    let Some(scaled) = Scaled::new(component, Some(inflow), budget) else { return Ok(None) };
    let mut pairs: Vec<[f64; 2]> =
        component.nodes.iter().map(|node| [0.0, total / component.chain.exit(*node as usize)]).collect();
    let settled = scaled.settle(&mut pairs, budget)?;
    Ok(settled.then(|| pairs.into_iter().map(|[time, _]| time).collect()))
}

impl<'a> Scaled<'a> {
    /// `None` where the component is too small for it or takes too much memory, or has rare edges.
    fn new(component: &Component<'a>, inflow: Option<&[f64]>, budget: &Budget<'_>) -> Option<Self> {
        if !enough(component.nodes.len(), component.chain, EDGE, budget) {
            return None;
        }
        let level = component.level();
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
        let inflow = inflow.map(|inflow| inflow.iter().zip(level.exits.iter()).map(|(inflow, exit)| inflow / exit));
        Some(Self { starts: level.starts, sources: level.sources, parts, inflow: inflow.map(Iterator::collect) })
    }

    /// The stationary distribution, where nothing comes in; `None` when it does not settle soon.
    fn stationary(&self, budget: &mut Budget<'_>) -> Result<Option<Vec<f64>>, Refusal> {
        #[expect(clippy::cast_precision_loss, reason = "fewer than 2^32")]
        let pair = |(state, weight): (usize, f64)| [weight, weight / (state + 1) as f64];
        let mut pairs: Vec<[f64; 2]> = self.first_guess().into_iter().enumerate().map(pair).collect();
        if !self.settle(&mut pairs, budget)? {
            return Ok(None);
        }
        let mut weights: Vec<f64> = pairs.into_iter().map(|[one, _]| one).collect();
        normalize(&mut weights);
        Ok(Some(weights).filter(|weights| together(&self.starts, &self.sources, weights, [NOTHING; 2])))
    }

    /// What a state counts for at least, however little it has; nothing where it may be much against what is outside.
    fn least(&self) -> f64 {
        if self.inflow.is_none() { NOTHING } else { 0.0 }
    }

    /// Each state gets what states before it bring there: the right order of size for most, which sweeps need many rounds to find.
    fn first_guess(&self) -> Vec<f64> {
        let mut weights: Vec<f64> = Vec::with_capacity(self.starts.len());
        for span in self.starts.windows(2) {
            let span = span[0] as usize..span[1] as usize;
            let edges = self.sources[span.clone()].iter().zip(&self.parts[span]);
            let weight: f64 = edges.map(|(from, part)| weights.get(*from as usize).map_or(0.0, |it| it * part)).sum();
            weights.push(if weight > 0.0 { weight } else { 1.0 });
        }
        let ends = weights.iter().fold((f64::INFINITY, 0.0_f64), |ends, it| (ends.0.min(*it), ends.1.max(*it)));
        if ends.0 < NOTHING || !ends.1.is_finite() {
            weights = self.far_guess();
        }
        normalize(&mut weights);
        weights
    }

    /// The same where that goes beyond what a number can say, and what it then says less and less counts as nothing.
    fn far_guess(&self) -> Vec<f64> {
        let mut weights: Vec<f64> = Vec::with_capacity(self.starts.len());
        // Where all before was made smaller, the last time and the time before that.
        let (mut scaled, mut before) = (0, 0);
        for (state, span) in self.starts.windows(2).enumerate() {
            let span = span[0] as usize..span[1] as usize;
            let edges = self.sources[span.clone()].iter().map(|from| *from as usize).zip(&self.parts[span]);
            let (mut weight, mut known) = (0.0, false);
            for (from, part) in edges.filter(|(from, _)| *from < state) {
                known = true;
                weight += match from {
                    from if from >= scaled => weights[from] * part,
                    from if from >= before => weights[from] / FAR * part,
                    _ => 0.0,
                };
            }
            weights.push(if known { weight } else { 1.0 });
            if weight > FAR {
                (before, scaled) = (scaled, state);
                weights[state] = weight / FAR;
            }
        }
        if scaled > 0 {
            weights[..before].fill(0.0);
            weights[before..scaled].iter_mut().for_each(|weight| *weight /= FAR);
        }
        if !weights.iter().sum::<f64>().is_normal() {
            weights.fill(1.0);
        }
        weights
    }

    /// Sweeps until both solutions stand still at the same, and says whether they do. The next round of sweeps starts from where the
    /// last one leads.
    fn settle(&self, pairs: &mut [[f64; 2]], budget: &mut Budget<'_>) -> Result<bool, Refusal> {
        if pairs.len() < MANY { self.rounds::<ROUND>(pairs, budget) } else { self.rounds::<LONG_ROUND>(pairs, budget) }
    }

    fn rounds<const N: usize>(&self, pairs: &mut [[f64; 2]], budget: &mut Budget<'_>) -> Result<bool, Refusal> {
        let mut kept: [Vec<[f64; 2]>; N] = std::array::from_fn(|_| vec![[0.0; 2]; pairs.len()]);
        let mut slowest = 1.0_f64;
        let mut sweeps = 0;
        // Sweeps of the next round that are done.
        let mut begun = 0;
        // How many there may be, and the change when they were last made more.
        let (mut most, mut before) = (SWEEPS, NEAR);
        while sweeps + N < most {
            sweeps += N - begun;
            kept.iter_mut().skip(begun).for_each(|past| self.sweep(pairs, past));
            let past = Past::<N>(std::array::from_fn(|step| &kept[step][..pairs.len()]));
            let round = Round::of(&past, self.least());
            // Over four sweeps: a small chain would wait for the library that has other roots.
            let fall = (round.last / round.first).sqrt().sqrt();
            // What is left after a guess falls fast at first.
            let fall = (std::mem::replace(&mut slowest, fall), fall);
            let fall = if fall.0 < FALLS { fall.0.max(fall.1) } else { fall.1 };
            budget.look(Progress::Solving { sweeps: sweeps as u64, error: round.last })?;
            if round.first.max(round.last) < ROUNDED {
                return Ok(self.agree(pairs));
            }
            if sweeps >= HALFWAY && round.last > NEAR {
                return Ok(false);
            }
            if sweeps + 2 * N >= most && round.last < before / LESS {
                (most, before) = (most + HALFWAY, round.last);
            }
            round.ahead(&past, self.least(), pairs);
            begun = 0;
            let left = |change: f64| change * fall / (1.0 - fall);
            if fall < FALLS && left(round.last) < NEARLY {
                // The guess takes away most of what was left, and a sweep what it rounded: what that changes says what is left now.
                let [now, guess, ..] = kept.as_mut_slice() else { return Ok(false) };
                guess.copy_from_slice(pairs);
                self.sweep(pairs, now);
                (sweeps, begun) = (sweeps + 1, 1);
                // Guesses hide what falls slowly, but not for both in the same way.
                if left(changed(guess, now, self.least())) < CLOSE && self.agree(pairs) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Whether both solutions are the same.
    fn agree(&self, pairs: &[[f64; 2]]) -> bool {
        let [one, other] = [0, 1].map(|lane| sum(pairs.iter().map(|pair| pair[lane])));
        let scale = if self.inflow.is_none() { one / other } else { 1.0 };
        let least = self.least();
        pairs.iter().all(|[one, other]| (one - other * scale).abs() <= AGREE * more(*one, least))
    }

    /// One sweep; `past` gets what it came to, too.
    fn sweep(&self, pairs: &mut [[f64; 2]], past: &mut [[f64; 2]]) {
        match &self.inflow {
            Some(inflow) => self.pass(pairs, past, inflow.iter().copied()),
            None => self.pass(pairs, past, std::iter::repeat(0.0)),
        }
    }

    #[inline(always)]
    fn pass(&self, pairs: &mut [[f64; 2]], past: &mut [[f64; 2]], inflow: impl Iterator<Item = f64>) {
        let (mut sources, mut parts) = (&*self.sources, self.parts.as_slice());
        let states = self.starts.windows(2).zip(inflow).zip(past);
        for (state, ((span, inflow), past)) in states.enumerate() {
            // The edges of one state stand behind those of the state before.
            let count = (span[1] - span[0]) as usize;
            let (own, own_parts);
            (own, sources) = sources.split_at(count);
            (own_parts, parts) = parts.split_at(count);
            let (sources, source) = own.as_chunks::<2>();
            let (parts, part) = own_parts.as_chunks::<2>();
            // Two sums side by side: neither waits for the other.
            let (mut one, mut other) = ([inflow; 2], [0.0; 2]);
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
            *past = now;
            pairs[state] = now;
        }
    }
}

/// The larger one of two numbers; the second where the first is none.
#[inline(always)]
fn more(one: f64, other: f64) -> f64 {
    if one > other { one } else { other }
}

/// The largest change of a state in one of the two solutions, relative to it, or to `least`.
fn changed(before: &[[f64; 2]], now: &[[f64; 2]], least: f64) -> f64 {
    let mut largest = [0.0_f64; 2];
    for (before, now) in before.iter().zip(now) {
        for lane in 0..2 {
            let change = ((now[lane] - before[lane]) / more(now[lane], least)).abs();
            largest[lane] = if change > largest[lane] { change } else { largest[lane] };
        }
    }
    largest[0].max(largest[1])
}

/// Two solutions after each of the sweeps of a round.
struct Past<'a, const N: usize>([&'a [[f64; 2]]; N]);

impl<const N: usize> Past<'_, N> {
    /// Those of one state.
    fn of(&self, state: usize) -> [[f64; 2]; N] {
        std::array::from_fn(|step| self.0[step][state])
    }
}

/// What the sweeps of a round changed.
struct Round<const N: usize> {
    /// The largest relative change of a state in one of the two, in the last sweep and in the one four before.
    first: f64,
    last: f64,
    /// For each solution the products of the changes, each state by one over its size; the last row and column are not used.
    products: [[[f64; 2]; N]; N],
}

impl<const N: usize> Round<N> {
    fn of(past: &Past<'_, N>, least: f64) -> Self {
        let (mut first, mut last) = ([0.0_f64; 2], [0.0_f64; 2]);
        let mut products = [[[0.0; 2]; N]; N];
        for state in 0..past.0[0].len() {
            let past = past.of(state);
            let now = past[N - 1];
            let mut changes = [[0.0; 2]; N];
            for (step, change) in changes[..N - 1].iter_mut().enumerate() {
                *change = [past[step + 1][0] - past[step][0], past[step + 1][1] - past[step][1]];
            }
            let each = [1.0 / more(now[0], least), 1.0 / more(now[1], least)];
            for (row, products) in products[..N - 1].iter_mut().enumerate() {
                let scaled = [changes[row][0] * each[0], changes[row][1] * each[1]];
                for (product, change) in products.iter_mut().zip(&changes[..=row]) {
                    *product = [product[0] + scaled[0] * change[0], product[1] + scaled[1] * change[1]];
                }
            }
            for lane in 0..2 {
                let change = [changes[N - 6], changes[N - 2]].map(|change| (change[lane] * each[lane]).abs());
                first[lane] = if change[0] > first[lane] { change[0] } else { first[lane] };
                last[lane] = if change[1] > last[lane] { change[1] } else { last[lane] };
            }
        }
        Self { first: first[0].max(first[1]), last: last[0].max(last[1]), products }
    }

    /// Goes where the sweeps lead (reduced rank extrapolation): to the sum of what they came to, in parts that add up to 1, whose
    /// change is the least. Unless that turns a number round, or nearly.
    fn ahead(&self, past: &Past<'_, N>, least: f64, pairs: &mut [[f64; 2]]) {
        let [Some(one), Some(other)] = [0, 1].map(|lane| self.parts(lane)) else { return };
        let mut sound = true;
        for (state, pair) in pairs.iter_mut().enumerate() {
            let past = past.of(state);
            let steps = one.iter().zip(&other).zip(&past[1..]);
            let led = steps.fold([0.0; 2], |sum, ((one, other), now)| [sum[0] + one * now[0], sum[1] + other * now[1]]);
            let now = past[N - 1];
            // Both are asked whatever the first says: that is hardly ever no.
            sound &= [0, 1].map(|lane| (led[lane] + least > 0.1 * now[lane]) & (led[lane] < 10.0 * now[lane] + least))
                == [true; 2];
            *pair = led.map(|led| more(led, 0.0));
        }
        if !sound {
            pairs.copy_from_slice(past.0[N - 1]);
        }
    }

    /// The parts for one of the solutions.
    fn parts(&self, lane: usize) -> Option<[f64; N]> {
        let count = N - 1;
        let product = |row: usize, column: usize| self.products[row.max(column)][row.min(column)][lane];
        let mut matrix: [[f64; N]; N] = std::array::from_fn(|row| {
            std::array::from_fn(|column| if column < count { product(row, column) } else { 1.0 })
        });
        // The diagonal is raised a little: changes that look alike must not be played off against each other.
        (0..count).for_each(|at| matrix[at][at] *= 1.0 + 1e-12);
        for pivot in 0..count {
            let value = matrix[pivot][pivot];
            if value.is_nan() || value <= 0.0 {
                return None;
            }
            let row = matrix[pivot];
            for (_, other) in matrix[..count].iter_mut().enumerate().filter(|(at, _)| *at != pivot) {
                let factor = other[pivot] / value;
                other.iter_mut().zip(&row).for_each(|(entry, own)| *entry -= factor * own);
            }
        }
        let parts: [f64; N] =
            std::array::from_fn(|at| if at < count { matrix[at][count] / matrix[at][at] } else { 0.0 });
        let sum: f64 = parts.iter().sum();
        (sum.is_finite() && sum != 0.0).then(|| parts.map(|part| part / sum))
    }
}
