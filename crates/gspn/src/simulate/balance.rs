//! Whether a net goes round, or still goes somewhere: in the long run no place gets more than it gives away, or less.
//!
//! What is seen of a net that comes to its end after thousands of millions of firings looks like a long run, and is none: a place
//! that gives away ten tokens for each that it gets says so.

use super::figures::{mean, spread};
use super::machine::{Level, Machine};
use super::model::{Model, Part, Time};
use crate::{Class, Refusal};

/// How many times its standard error a drift is, at least.
const SURE: f64 = 5.0;
/// In so many runs tokens went one way only, and in none the other.
const ONE_WAY: usize = 16;
/// How many times as many tokens as its servers can take a place holds that is never short of any.
const PLENTY: u64 = 2;

/// A run at some moment.
#[derive(Debug, Clone)]
pub(super) struct Moment {
    marking: Vec<u64>,
    fired: Vec<u64>,
}

impl Moment {
    pub(super) fn of(machine: &Machine<'_>) -> Self {
        Self { marking: machine.marking.clone(), fired: machine.fired().to_vec() }
    }
}

/// A place that gathers tokens, or loses them.
#[derive(Debug, Clone)]
pub(super) struct Drift {
    place: usize,
    grows: bool,
    /// Whether the net around it is the same with more of them.
    plenty: bool,
}

impl Drift {
    /// Whether the long run of `level`, or of firings where there is none, is not what is seen.
    pub(super) fn hides(&self, level: Option<&Level>) -> bool {
        !self.plenty || level.is_some_and(|level| level.places().contains(&self.place))
    }

    pub(super) fn refusal(&self, model: &Model) -> Refusal {
        let how = if self.grows { "gathers" } else { "loses" };
        let why = format!(
            "`{}` {how} tokens all the time: its long run had not begun when the limit of firings or of time was reached",
            model.places[self.place]
        );
        Refusal::new(Class::TooLarge, "", why)
    }
}

/// The places whose tokens rise or fall from the moment noted of each run until now, by more than chance and by more than
/// `relative` of what goes through them.
pub(super) fn drifts<'a>(
    model: &Model,
    runs: impl Iterator<Item = (&'a Moment, &'a Machine<'a>)> + Clone,
    relative: f64,
) -> Vec<Drift> {
    let places = model.places.len();
    let (mut into, mut out) = (vec![0.0; places], vec![0.0; places]);
    for (moment, machine) in runs.clone() {
        for (part, (now, before)) in model.parts.iter().zip(machine.fired().iter().zip(&moment.fired)) {
            let fired = float(now - before);
            for change in &part.changes {
                let flow = if change.grows { &mut into } else { &mut out };
                flow[change.place] += fired * float(if change.grows { change.by } else { change.by.wrapping_neg() });
            }
        }
    }
    let drift = |place: usize| {
        let most = f64::max(into[place], out[place]);
        let net: Vec<f64> = runs.clone().map(|(moment, machine)| change(moment, machine, place)).collect();
        if most == 0.0 || net.len() < 2 {
            return None;
        }
        let middle = mean(&net);
        #[expect(clippy::cast_precision_loss, reason = "a number of runs")]
        let count = net.len() as f64;
        let error = (spread(&net, middle) / (count - 1.0) / count).sqrt();
        let moved = net.iter().filter(|change| **change != 0.0).count();
        let one_way = f64::min(into[place], out[place]) == 0.0 && moved >= ONE_WAY;
        let drifts = (one_way || middle.abs() > SURE * error) && middle.abs() * count > relative / 2.0 * most;
        let grows = middle > 0.0;
        let plenty = grows && runs.clone().all(|(_, machine)| model.parts.iter().all(|it| plenty(it, place, machine)));
        drifts.then_some(Drift { place, grows, plenty })
    };
    (0..places).filter_map(drift).collect()
}

/// What a place has more now.
fn change(moment: &Moment, machine: &Machine<'_>, place: usize) -> f64 {
    let (now, before) = (machine.marking[place], moment.marking[place]);
    if now < before { -float(before - now) } else { float(now - before) }
}

/// Whether more tokens in `place` would change nothing for a transition.
fn plenty(part: &Part, place: usize, machine: &Machine<'_>) -> bool {
    let tokens = machine.marking[place];
    let servers = match &part.time {
        Time::Exponential { servers, .. } | Time::Table { servers, .. } => *servers,
        Time::Immediate { .. } | Time::Fixed(_) | Time::Phase(_) => 1,
    };
    let table = match &part.time {
        Time::Table { place: at, rates, .. } if *at == place => rates.len() as u64,
        _ => 0,
    };
    let needed = |count: u64| servers.saturating_mul(count).saturating_mul(PLENTY);
    part.inputs.iter().filter(|arc| arc.place == place).all(|arc| tokens >= needed(arc.count))
        && part.inhibitors.iter().filter(|arc| arc.place == place).all(|arc| tokens >= arc.count.saturating_mul(PLENTY))
        && tokens >= table
}

#[expect(clippy::cast_precision_loss, reason = "tokens beyond 2^53 are meant to 53 bits")]
fn float(count: u64) -> f64 {
    count as f64
}
