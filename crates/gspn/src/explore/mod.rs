//! The tangible markings that a net can reach, and the rates between them.
//!
//! Vanishing markings are taken out on the way: an edge goes from tangible to tangible marking with the rate of the timed
//! transition times the probability of the immediates behind it. A transition whose time is not exponential has a clock; then a
//! *state* is a tangible marking and the phases of the clocks that run. A clock is reset when its transition is not enabled in
//! the next tangible marking, or fires itself.

mod batch;
mod climb;
mod compiled;
mod explorer;
mod hunt;
mod layout;
mod markings;
mod packed;
pub(crate) mod proof;
mod rates;
mod rows;
mod states;
mod store;
mod sums;
mod tuples;
mod vanish;
mod vanishing;
mod visits;
mod way;

use self::compiled::Compiled;
use self::explorer::Explorer;
use self::markings::Markings;
use self::sums::Sums;
use self::tuples::Tuples;
use crate::chain::Chain;
use crate::lump::Symmetry;
use crate::net::{Kind, Net, semiflows};
use crate::{Budget, Class, Refusal};

/// What was explored.
#[derive(Debug)]
pub struct Space {
    net: Compiled,
    markings: Markings,
    /// With clocks: the number of the marking and the phases. Without: states are markings.
    states: Option<Tuples>,
    /// Distribution at time 0.
    initial: Vec<(u32, f64)>,
    chain: Chain,
    /// For each counted immediate its firings per time unit in each state.
    fired: Vec<(usize, Vec<f64>)>,
    watched: Vec<Watched>,
}

/// What one timed transition has part in.
#[derive(Debug, Clone)]
pub struct Watched {
    /// Its index in the net.
    pub transition: usize,
    /// The edges that it makes.
    pub chain: Chain,
    /// For each counted immediate (in the order of the question) its firings per time unit in each state that this one leads to.
    fired: Vec<(usize, Vec<f64>)>,
}

impl Watched {
    /// Of the firings per time unit of the counted immediate `transition`, by state, those that the watched one leads to.
    #[must_use]
    pub fn fired(&self, transition: usize) -> Option<&[f64]> {
        self.fired.iter().find(|(counted, _)| *counted == transition).map(|(_, fired)| fired.as_slice())
    }
}

impl Space {
    /// Distinct tangible markings.
    #[must_use]
    pub fn tangible(&self) -> usize {
        self.markings.tangible.len()
    }

    /// Distinct vanishing markings.
    #[must_use]
    pub fn vanishing(&self) -> usize {
        self.markings.vanishing.len()
    }

    /// The most tokens that a place holds in any marking.
    #[must_use]
    pub fn bound(&self, place: usize) -> u64 {
        self.markings.most(&self.net, place)
    }

    /// How many places a marking has.
    #[must_use]
    pub fn places(&self) -> usize {
        self.net.places
    }

    /// The Markov chain over the states.
    #[must_use]
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Bytes of all but the chain.
    pub(crate) fn beside_chain(&self) -> u64 {
        let states = self.states.as_ref().map_or(0, Tuples::bytes);
        let fired = |fired: &[(usize, Vec<f64>)]| 8 * (fired.len() * self.chain.len()) as u64;
        let watched = self.watched.iter().map(|it| it.chain.bytes() + fired(&it.fired)).sum::<u64>();
        (self.markings.bytes() + states) as u64 + fired(&self.fired) + watched
    }

    /// The part of one of the watched transitions.
    #[must_use]
    pub fn watched(&self, transition: usize) -> Option<&Watched> {
        self.watched.iter().find(|watched| watched.transition == transition)
    }

    /// States at time 0 and their probabilities.
    #[must_use]
    pub fn initial(&self) -> &[(u32, f64)] {
        &self.initial
    }

    /// The number of the tangible marking of `state`.
    #[must_use]
    pub fn marking_of(&self, state: u32) -> u32 {
        marking_of(self.states.as_ref(), state)
    }

    /// The transitions (indices in the net) whose clocks have phases.
    pub fn clocks(&self) -> impl Iterator<Item = usize> + '_ {
        self.net.clocks.iter().map(|clock| clock.transition)
    }

    /// The phases of these clocks in `state`, from 1, and 0 where one does not run.
    #[must_use]
    pub fn phases(&self, state: u32) -> Vec<u64> {
        let Some(states) = &self.states else { return Vec::new() };
        let mut entries = vec![0; 1 + self.net.clocks.len()];
        states.load(state, &mut entries);
        entries.split_off(1)
    }

    /// How many tangible and vanishing markings stand behind those explored; `None` beyond what a number can say.
    pub(crate) fn stand_for(&self, symmetry: &Symmetry) -> (Option<u64>, Option<u64>) {
        self.markings.stand_for(symmetry)
    }

    /// Whether a timed transition may fire in a tangible marking.
    pub(crate) fn moves(&self, tokens: &[u64]) -> bool {
        self.net.timed.iter().any(|timed| self.net.rate(timed, tokens) > 0.0)
    }

    /// Writes the tokens of the tangible marking `marking` into `tokens`, one entry a place.
    pub fn load(&self, marking: u32, tokens: &mut [u64]) {
        self.markings.load_tangible(marking, tokens);
    }

    /// The tokens of one place in the tangible marking `marking`.
    pub(crate) fn tokens(&self, marking: u32, place: usize) -> u64 {
        self.markings.tokens(marking, place)
    }

    /// For each place the sums of its tokens in all states, each of which counts with `weights`.
    pub(crate) fn sums<const N: usize>(&self, weights: impl IntoIterator<Item = [f64; N]>) -> Vec<[f64; N]> {
        let layout = self.markings.layout();
        let mut sums = Sums::new(layout, self.net.places);
        for (state, weights) in (0..).zip(weights) {
            sums.add(self.markings.tangible.get(self.marking_of(state)), weights);
        }
        sums.done(layout)
    }

    /// Firings per time unit of `transition` in each state.
    #[must_use]
    pub fn rates(&self, transition: usize) -> Vec<f64> {
        if let Some((_, fired)) = self.fired.iter().find(|(counted, _)| *counted == transition) {
            return fired.clone();
        }
        let states = self.chain.len();
        if let Some(timed) = self.net.timed.iter().find(|timed| timed.transition == transition) {
            #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
            let markings = (0..states).map(|state| self.marking_of(state as u32));
            // To unpack all places takes long where there are thousands, and as many transitions are asked about.
            return markings.map(|marking| self.net.rate_by(timed, |place| self.tokens(marking, place))).collect();
        }
        let clock = self.net.clocks.iter().enumerate().find(|(_, clock)| clock.transition == transition);
        let (Some((position, clock)), Some(store)) = (clock, &self.states) else { return vec![0.0; states] };
        let mut entries = vec![0; 1 + self.net.clocks.len()];
        (0..states)
            .map(|state| {
                #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
                store.load(state as u32, &mut entries);
                match usize::try_from(entries[1 + position]) {
                    Ok(phase) if phase > 0 => clock.phases[phase - 1].0 * (1.0 - clock.phases[phase - 1].1),
                    _ => 0.0,
                }
            })
            .collect()
    }
}

/// The number of the tangible marking of `state`: with clocks it is the first entry of a state.
fn marking_of(states: Option<&Tuples>, state: u32) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "the number of a marking was put there")]
    states.map_or(state, |states| states.first(state) as u32)
}

/// Explores `net`; a fixed time becomes `stages` exponential phases. Firings of the immediates in `counted` (indices) are counted,
/// and the edges of the timed transitions in `watched` kept by themselves, too.
///
/// # Errors
/// [`Class::Unbounded`] and [`Class::TimelessTrap`] with the way there, [`Class::TooLarge`] with the limit, [`Class::Unsupported`]
/// when two fixed times run at once.
pub fn explore(
    net: &Net,
    stages: u32,
    counted: &[usize],
    watched: &[usize],
    budget: &mut Budget<'_>,
) -> Result<Space, Refusal> {
    explorer(net, stages, counted, watched)?.run(budget)
}

/// What is explored for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Aim {
    /// Vanishing markings may be left out that differ from others in the order alone in which immediates fired that have nothing to do
    /// with each other: [`Space::vanishing`] and [`Space::bound`] are not right then.
    pub(crate) one_order: bool,
    /// What is there is counted, and nothing solved: the memory of a solution is not asked for.
    pub(crate) counts: bool,
}

/// [`explore`] for an aim.
pub(crate) fn explore_for(
    aim: Aim,
    net: &Net,
    stages: u32,
    counted: &[usize],
    watched: &[usize],
    budget: &mut Budget<'_>,
) -> Result<Space, Refusal> {
    let explorer = explorer(net, stages, counted, watched)?;
    let explorer = if aim.one_order { explorer.in_one_order() } else { explorer };
    if aim.counts { explorer.counting().run(budget) } else { explorer.run(budget) }
}

fn explorer(net: &Net, stages: u32, counted: &[usize], watched: &[usize]) -> Result<Explorer, Refusal> {
    for it in net.transitions() {
        if let Kind::Deterministic { delay } = it.kind
            && (f64::from(stages) / delay).is_infinite()
        {
            let why = format!("`delay` is {delay:e}: {stages} phases for it fire faster than a number can say");
            return Err(Refusal::new(Class::TooLarge, &it.name, why));
        }
    }
    Ok(Explorer::new(Compiled::new(net, stages), semiflows::bounds(net), counted, watched, None))
}

/// Explores `net` with its fixed times kept apart: the chain is what happens while they run, each of them is watched and leads from each
/// state in which it runs, with probabilities in place of rates, to others or back.
///
/// # Errors
/// As [`explore`] does.
pub(crate) fn explore_apart(net: &Net, counted: &[usize], budget: &mut Budget<'_>) -> Result<Space, Refusal> {
    let fixed = |index: &usize| matches!(net.transitions()[*index].kind, Kind::Deterministic { .. });
    let fixed: Vec<usize> = (0..net.transitions().len()).filter(fixed).collect();
    Explorer::new(Compiled::new(net, 0), semiflows::bounds(net), counted, &fixed, None).apart().run(budget)
}

/// Explores one of all tangible markings that `symmetry` exchanges into each other. Every place of `net` has a proven bound, and every
/// time is exponential.
pub(crate) fn explore_lumped(
    net: &Net,
    counted: &[usize],
    watched: &[usize],
    symmetry: Symmetry,
    budget: &mut Budget<'_>,
) -> Result<Space, Refusal> {
    Explorer::new(Compiled::new(net, 1), semiflows::bounds(net), counted, watched, Some(symmetry)).run(budget)
}
