//! The whole program over real sockets: floods, peers that do not read, full disks, killed processes, lost authorities.
//!
//! Loads are bounded in count and time, everything stays on loopback, and nothing is asserted about speed.

#![expect(clippy::disallowed_methods, reason = "tests own their files and wait for other processes")]
#![expect(clippy::disallowed_types, reason = "peers that misbehave block a thread of their own")]

mod common;
mod cut;

mod authority;
mod deaf;
mod flood;
mod gap;
mod kill;
mod ledger;
mod process;
mod renewal;
mod stop;
mod storm;
