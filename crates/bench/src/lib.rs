//! Load, measurement and records: our server beside its peers, in the same run.

pub mod clock;
pub mod measures;
pub mod process;
pub mod random;
pub mod record;
