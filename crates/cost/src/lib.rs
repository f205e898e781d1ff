//! What a security setting costs. Security mechanisms as small nets, an application with annotations that ask for them, the net
//! that comes of both, and what it says. Nothing is measured here and no file is read: prices of operations come in as values.
//!
//! The path is the one of P4's Figure 1, each step a value that can be printed: [`read`] gives an annotated [`Model`];
//! [`weave`] puts the mechanisms of the library ([`mechanism`]) where annotations ask for them and gives a [`Secured`] model;
//! [`net::lay`] makes a stochastic Petri net of it; [`solve::solve`] asks the solver (`gspn`) and gives its answer in the words of the
//! application. [`protocol`] composes today's protocols of the same mechanisms. [`reproduce`] does it for the tables of the paper.

#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice, clippy::todo)
)]
// Indices in this crate come from a model whose names were resolved by `read`, the only maker of models.

pub mod algorithm;
pub mod calibration;
pub mod choose;
mod draw;
mod fault;
pub mod mechanism;
pub mod model;
pub mod net;
pub mod operation;
pub mod plant;
pub mod print;
pub mod protocol;
pub mod quantity;
pub mod read;
pub mod reproduce;
pub mod solve;
pub mod twin;
mod weave;
pub mod whatif;

pub use fault::{Class, Fault};
pub use model::Model;
pub use weave::{Secured, weave};
