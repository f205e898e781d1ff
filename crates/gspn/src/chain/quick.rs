//! Chains of few states whose rates are not far apart: sweeps over two solutions side by side.
//!
//! Taking out states one by one is right whatever the rates, but costs up to the cube of their number. Most small chains settle
//! in some tens of sweeps. That they did is believed only when two solutions with different starts fell steadily to the same:
//! where groups of states hardly know of each other, each keeps what its start gave it.

use super::solve::{Component, normalize, sum};

/// States from which it is worth a try, and up to which: more are left to sweeps that may take longer.
const LEAST: usize = 48;
pub(super) const MOST: usize = 5_000;
/// Edges up to which it is: all sweeps together take a fraction of a second.
const EDGES: usize = 200_000;
/// No edge has less than this part of the rate at which its state is left.
const RARE: f64 = 1e-4;
/// Sweeps in all, and from one look at the changes to the next.
const SWEEPS: usize = 200;
const LOOK: usize = 5;
/// Estimated relative error of each state at the end, and what the two solutions may be apart.
const CLOSE: f64 = 1e-12;
const AGREE: f64 = 1e-10;
/// By what the changes fall at least, from sweep to sweep, and from where they fall evenly.
const FALLS: f64 = 0.95;
const EVENLY: f64 = 0.02;

/// The edges into each state, with the part of the target's exit rate that each is.
struct Scaled {
    starts: Vec<u32>,
    edges: Vec<(u32, f64)>,
    inflow: Vec<f64>,
}

/// The stationary distribution of a component that nothing leaves; `None` when it does not settle soon.
pub(super) fn stationary(component: &Component<'_>) -> Option<Vec<f64>> {
    let mut pairs: Vec<[f64; 2]> = {
        let count = component.nodes.len();
        #[expect(clippy::cast_precision_loss, reason = "fewer than 2^32")]
        (0..count).map(|state| [1.0 / count as f64, 1.0 / (state + 1) as f64]).collect()
    };
    Scaled::new(component, None)?.settle(&mut pairs)?;
    let [mut one, mut other] = [0, 1].map(|lane| pairs.iter().map(|pair| pair[lane]).collect::<Vec<f64>>());
    normalize(&mut one);
    normalize(&mut other);
    agree(&one, &other).then_some(one)
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
    let [one, other] = [0, 1].map(|lane| pairs.iter().map(|pair| pair[lane]).collect::<Vec<f64>>());
    agree(&one, &other).then_some(one)
}

fn agree(one: &[f64], other: &[f64]) -> bool {
    one.iter().zip(other).all(|(one, other)| (one - other).abs() <= AGREE * one)
}

/// Goes as far as changes lead that fall by `fall` from sweep to sweep, unless that turns a number round, or nearly.
fn ahead(pairs: &mut [[f64; 2]], before: &[[f64; 2]], fall: f64) -> bool {
    let far = fall / (1.0 - fall);
    let led = |now: f64, before: f64| now + (now - before) * far;
    let pairs_of = || pairs.iter().zip(before).flat_map(|(now, before)| now.iter().zip(before));
    let sound = fall < 1.0 && pairs_of().all(|(now, before)| led(*now, *before) > 0.1 * now);
    if sound {
        for (now, before) in pairs.iter_mut().zip(before) {
            *now = [led(now[0], before[0]), led(now[1], before[1])];
        }
    }
    sound
}

impl Scaled {
    /// `None` where the component is too small or too large for it, or has rare edges.
    fn new(component: &Component<'_>, inflow: Option<&[f64]>) -> Option<Self> {
        let count = component.nodes.len();
        if !(LEAST..=MOST).contains(&count) {
            return None;
        }
        let level = component.level();
        if level.sources.len() > EDGES {
            return None;
        }
        let mut edges = Vec::with_capacity(level.sources.len());
        for (state, span) in level.starts.windows(2).enumerate() {
            let span = span[0] as usize..span[1] as usize;
            for (from, rate) in level.sources[span.clone()].iter().zip(&level.rates[span]) {
                if *rate < RARE * level.exits[*from as usize] {
                    return None;
                }
                edges.push((*from, rate / level.exits[state]));
            }
        }
        let inflow = match inflow {
            Some(inflow) => inflow.iter().zip(level.exits.iter()).map(|(inflow, exit)| inflow / exit).collect(),
            None => vec![0.0; count],
        };
        Some(Self { starts: level.starts.into_owned(), edges, inflow })
    }

    /// Sweeps until both solutions stand still. Where the changes fall evenly it is known where they lead, and the next sweeps
    /// start from there.
    fn settle(&self, pairs: &mut [[f64; 2]]) -> Option<()> {
        let (mut before, mut fell) = (0.0, 0.0);
        let mut earlier = pairs.to_vec();
        for _ in 0..SWEEPS / LOOK {
            for _ in 1..LOOK {
                self.sweep::<false>(pairs);
            }
            earlier.copy_from_slice(pairs);
            let change = self.sweep::<true>(pairs);
            #[expect(clippy::cast_precision_loss, reason = "a few")]
            let fall = (change / before).powf(1.0 / LOOK as f64);
            if change == 0.0 || (fall < FALLS && change * fall / (1.0 - fall) < CLOSE) {
                return Some(());
            }
            (before, fell) =
                if (fall - fell).abs() < EVENLY && ahead(pairs, &earlier, fall) { (0.0, 0.0) } else { (change, fall) };
        }
        None
    }

    /// One sweep; with `LOOKS`, the largest relative change of a state in one of the two.
    fn sweep<const LOOKS: bool>(&self, pairs: &mut [[f64; 2]]) -> f64 {
        let mut largest = 0.0_f64;
        for (state, span) in self.starts.windows(2).enumerate() {
            let mut new = [self.inflow[state]; 2];
            for (from, part) in &self.edges[span[0] as usize..span[1] as usize] {
                let from = pairs[*from as usize];
                new = [new[0] + from[0] * part, new[1] + from[1] * part];
            }
            if LOOKS {
                for (new, old) in new.iter().zip(pairs[state]) {
                    let change = (new - old).abs();
                    if change > largest * new {
                        largest = if *new > 0.0 { change / new } else { 1.0 };
                    }
                }
            }
            pairs[state] = new;
        }
        largest
    }
}
