//! Load, measurement and records: our server beside its peers, in the same run.

pub mod authority;
pub mod awake;
pub mod clock;
pub mod distance;
pub mod files;
pub mod fixture;
pub mod gd;
pub mod guard;
pub mod journal;
pub mod known;
pub mod load;
pub mod measures;
pub mod nets;
pub mod place;
pub mod process;
pub mod quiet;
pub mod random;
pub mod real;
pub mod record;
pub mod scratch;
pub mod serve;
pub mod state;
pub mod statistics;
pub mod steps;
pub mod stiff;
pub mod subject;
pub mod verify;
pub mod watch;

/// Why a measure could not be taken: for whoever started it to read.
pub type Failed = Box<dyn std::error::Error + Send + Sync>;
