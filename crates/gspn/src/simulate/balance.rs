//! Whether a net goes round, or still goes somewhere: in the long run no place gets more than it gives away, or less.
//!
//! What is seen of a net that comes to its end after thousands of millions of firings looks like a long run, and is none: a place
//! that gives away ten tokens for each that it gets says so.

use super::figures::{Z, mean, spread};
use super::machine::{Level, Machine};
use super::model::{Model, Part, Time};
use crate::{Class, Refusal};

/// How many times its standard error a drift is, at least.
const SURE: f64 = 5.0;
/// The same for what is not known well: one in a hundred long runs shows so much.
const HARDLY: f64 = 3.0;
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

    /// Firings of a transition since then.
    pub(super) fn fired(&self, machine: &Machine<'_>, transition: usize) -> u64 {
        machine.fired()[transition] - self.fired[transition]
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

/// What the runs say of a place, from the moment noted of each until now.
#[derive(Debug, Clone)]
struct Place {
    /// Tokens that came or went in a run, whichever were more: the mean of the runs.
    flow: f64,
    /// Tokens that a run has more at its end, and the standard error of that.
    more: f64,
    error: f64,
    one_way: bool,
    /// The most tokens that one firing brings or takes.
    grain: f64,
    /// It gathers tokens, and with more of them the net around it is the same; `aside` where that is beyond doubt, and was so before.
    plenty: bool,
    aside: bool,
}

/// How well what comes into each place and what goes are in balance.
#[derive(Debug, Clone, Default)]
pub(super) struct Balance(Vec<Option<Place>>);

impl Balance {
    /// From the moment noted of each run until now.
    #[expect(clippy::cast_precision_loss, reason = "a number of runs")]
    pub(super) fn of<'a>(model: &Model, runs: impl Iterator<Item = (&'a Moment, &'a Machine<'a>)> + Clone) -> Self {
        let places = model.places.len();
        let (mut into, mut out) = (vec![0.0; places], vec![0.0; places]);
        for (moment, machine) in runs.clone() {
            for (part, (now, before)) in model.parts.iter().zip(machine.fired().iter().zip(&moment.fired)) {
                let fired = float(now - before);
                for change in &part.changes {
                    let flow = if change.grows { &mut into } else { &mut out };
                    flow[change.place] +=
                        fired * float(if change.grows { change.by } else { change.by.wrapping_neg() });
                }
            }
        }
        let place = |place: usize| {
            let most = f64::max(into[place], out[place]);
            let net: Vec<f64> = runs.clone().map(|(moment, machine)| change(moment, machine, place)).collect();
            if most == 0.0 || net.len() < 2 {
                return None;
            }
            let (more, count) = (mean(&net), net.len() as f64);
            let error = (spread(&net, more) / (count - 1.0) / count).sqrt();
            let moved = net.iter().filter(|change| **change != 0.0).count();
            let one_way = f64::min(into[place], out[place]) == 0.0 && moved >= ONE_WAY;
            let moves = model.parts.iter().flat_map(|part| &part.changes).filter(|change| change.place == place);
            let grain = moves.map(|it| float(it.by.min(it.by.wrapping_neg()))).fold(0.0, f64::max);
            let enough = |tokens: u64| model.parts.iter().all(|part| plenty(part, place, tokens));
            let plenty = more > 0.0 && runs.clone().all(|(_, machine)| enough(machine.marking[place]));
            let sure = one_way || more > SURE * error;
            let aside = plenty && sure && runs.clone().all(|(moment, _)| enough(moment.marking[place]));
            Some(Place { flow: most / count, more, error, one_way, grain, plenty, aside })
        };
        Self((0..places).map(place).collect())
    }

    /// The places whose tokens rise or fall by more than chance and by more than `relative` of what goes through them. Runs that are in step
    /// all have those of one firing more, or fewer, at times.
    pub(super) fn drifts(&self, relative: f64) -> Vec<Drift> {
        let drift = |(place, it): (usize, &Place)| {
            let risen = it.one_way || it.more.abs() > SURE * it.error && it.more.abs() > it.grain;
            let drifts = risen && it.more.abs() > relative / 2.0 * it.flow;
            drifts.then_some(Drift { place, grows: it.more > 0.0, plenty: it.plenty })
        };
        self.places().filter_map(drift).collect()
    }

    /// A place of `level` whose tokens rise or fall by what chance hardly does: what is not known well either is no long run of it.
    pub(super) fn moves(&self, level: &Level) -> Option<Drift> {
        let moves = |(place, it): &(usize, &Place)| {
            level.places().contains(place) && it.more.abs() > HARDLY * it.error && it.more.abs() > 1.0
        };
        self.places().find(moves).map(|(place, it)| Drift { place, grows: it.more > 0.0, plenty: it.plenty })
    }

    /// The part of their flow by which places may still be out of balance, the most of all. By so much what is measured may be off: a queue
    /// that fills lets less out than comes in, long before that is more than chance. A token of each run may be on its way at once, though, where
    /// fixed times keep runs `in_step`. `scale` is the flow of what is measured: what moves a few tokens beside it decides nothing. A place that has
    /// plenty all the time is left out, but of `level`.
    pub(super) fn off(&self, level: Option<&Level>, scale: f64, in_step: bool) -> f64 {
        let counts = |place: usize, it: &Place| !it.aside || level.is_some_and(|level| level.places().contains(&place));
        let on_its_way = f64::from(u8::from(in_step));
        let off = |it: &Place| (it.more.abs() + Z * it.error - on_its_way).max(0.0) / f64::max(it.flow, scale);
        self.places().filter(|(place, it)| counts(*place, it)).map(|(_, it)| off(it)).fold(0.0, f64::max)
    }

    /// What comes into a place, or goes, in a run; 0 where nothing does.
    pub(super) fn flow(&self, place: usize) -> f64 {
        self.0.get(place).and_then(Option::as_ref).map_or(0.0, |it| it.flow)
    }

    fn places(&self) -> impl Iterator<Item = (usize, &Place)> {
        self.0.iter().enumerate().filter_map(|(place, it)| Some((place, it.as_ref()?)))
    }
}

/// What a place has more now.
fn change(moment: &Moment, machine: &Machine<'_>, place: usize) -> f64 {
    let (now, before) = (machine.marking[place], moment.marking[place]);
    if now < before { -float(before - now) } else { float(now - before) }
}

/// Whether more than so many tokens in `place` would change nothing for a transition.
fn plenty(part: &Part, place: usize, tokens: u64) -> bool {
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
