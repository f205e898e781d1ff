//! Generalized stochastic Petri nets: read, explored, solved, and every answer with its checks. Knows nothing of security.
//!
//! The path of a question: [`json::read`] makes a [`Net`] and its questions, [`explore`] its tangible markings and
//! their Markov chain, [`chain`] the distributions over them, [`ask`] the numbers. A net that cannot be answered ends in
//! one [`Refusal`] with a class and a name; no number leaves that failed its checks.
//!
//! What its arcs alone say, invariants of places and transitions and conflict sets, [`net::structure`] looks up, for whoever wants to see it.
//!
//! What the words mean, where tools differ: among the enabled immediate transitions of the highest priority each fires
//! with its weight over the sum of all of their weights (one conflict set a priority); a larger priority fires first; timed
//! transitions race and remember nothing but that they are enabled; the degree of enabling is a whole number; a
//! long-run value is meant *from the initial marking*, so several closed classes count by the probability of reaching them.

#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice, clippy::todo)
)]
// Indices in this crate come from a net that was compiled here, and a solver that looks each of them up costs a third of its speed.

pub mod ask;
pub mod bounds;
mod budget;
pub mod chain;
mod components;
pub mod explore;
pub mod fluid;
pub mod formats;
pub mod json;
mod lump;
pub mod net;
mod product;
mod refuse;
mod regenerative;
pub mod simulate;

pub use budget::{Budget, Limits, Progress};
pub use net::Net;
pub use refuse::{Class, Refusal};
