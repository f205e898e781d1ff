//! Load, measurement and records: our server beside its peers, in the same run.

pub mod process;
pub mod record;
