//! A net as it is written down, checked. What is built here has unique names, arcs to places that exist and numbers in range.

mod check;
mod cover;
pub(crate) mod invariants;
pub(crate) mod semiflows;
mod structure;

pub(crate) use check::PHASES;
pub use check::{build, sound};
pub use structure::{Structure, Sum, Weights, structure};

/// Tokens and multiplicities.
pub type Tokens = u64;

/// A checked net. Made by [`build`] only.
#[derive(Debug, Clone, PartialEq)]
pub struct Net {
    pub(crate) name: String,
    pub(crate) places: Vec<Place>,
    pub(crate) transitions: Vec<Transition>,
}

/// A place and its tokens in the initial marking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Unique over places and transitions.
    pub name: String,
    /// Tokens in the initial marking.
    pub tokens: Tokens,
}

/// A transition with its arcs.
#[derive(Debug, Clone, PartialEq)]
pub struct Transition {
    /// Unique over places and transitions.
    pub name: String,
    /// When and how it fires.
    pub kind: Kind,
    /// Tokens that it takes, one entry a place.
    pub inputs: Vec<Arc>,
    /// Tokens that it puts, one entry a place.
    pub outputs: Vec<Arc>,
    /// It is enabled only while each of these places holds *fewer* tokens than the arc says, one entry a place.
    pub inhibitors: Vec<Arc>,
}

/// An arc between its transition and a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arc {
    /// Index of the place in [`Net::places`].
    pub place: usize,
    /// Its multiplicity, at least 1.
    pub count: Tokens,
}

/// When and how a transition fires.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// After an exponential time, a race with the others.
    Timed {
        /// Firings per time unit of one server.
        rate: Rate,
        /// How many firings run side by side.
        servers: Servers,
    },
    /// At once, before every timed transition.
    Immediate {
        /// Its part among those enabled at the same priority, above 0.
        weight: f64,
        /// At least 1; the larger fires first.
        priority: u32,
        /// Index of an input place whose tokens the weight is multiplied with, if there is one: of all who wait there, each counts as much.
        by: Option<usize>,
    },
    /// After exactly this time of being enabled without a break; a single server.
    Deterministic {
        /// In time units, above 0.
        delay: f64,
    },
    /// After a time of phase type, counted while it is enabled without a break; a single server.
    Phase(Phase),
}

/// The rate of a timed transition.
#[derive(Debug, Clone, PartialEq)]
pub enum Rate {
    /// Above 0.
    Constant(f64),
    /// By the tokens of a place: entry `min(tokens, last)`; 0 means not enabled there.
    ByTokens {
        /// Index of the place.
        place: usize,
        /// At least one entry, none below 0.
        rates: Vec<f64>,
    },
}

/// How many firings of a timed transition run side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Servers {
    /// At most this many, at least 1.
    Finite(u64),
    /// As many as its input places allow.
    Infinite,
}

/// A time made of exponential phases.
#[derive(Debug, Clone, PartialEq)]
pub enum Phase {
    /// `stages` phases in a row, each of `rate`.
    Erlang {
        /// At least 1.
        stages: u32,
        /// Of each phase.
        rate: f64,
    },
    /// One of these phases: its probability and its rate. The probabilities add up to 1.
    Hyper(Vec<(f64, f64)>),
    /// Phases in a row: the rate of each and the probability that another follows, 0 at the last.
    Coxian(Vec<(f64, f64)>),
}

impl Net {
    /// Its name, as given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its places, in the order given.
    #[must_use]
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Its transitions, in the order given.
    #[must_use]
    pub fn transitions(&self) -> &[Transition] {
        &self.transitions
    }

    /// The index of a place.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<usize> {
        self.places.iter().position(|place| place.name == name)
    }

    /// The index of a transition.
    #[must_use]
    pub fn transition(&self, name: &str) -> Option<usize> {
        self.transitions.iter().position(|transition| transition.name == name)
    }
}
