//! OPC UA without I/O: wire, secure channel, PKI, sessions, services.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::todo
    )
)]

mod body;
pub mod channel;
pub mod client;
pub mod crypto;
pub mod event;
mod history;
mod interlock;
mod job;
pub mod pki;
#[cfg(test)]
pub(crate) mod testing;
pub mod wire;

pub mod subscription;

pub mod space;

pub mod guard;

pub mod server;

pub use job::{Job, JobId, JobOutcome};
pub use token::Entropy;
