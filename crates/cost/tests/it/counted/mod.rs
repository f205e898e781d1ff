//! What phases of a protocol are made of, counted.

use cost::protocol::{Party, Phase, lines};

pub(crate) const CLIENT: Party = Party::Client;
pub(crate) const SERVER: Party = Party::Server;
pub(crate) const ENDS: (Party, Party) = (CLIENT, SERVER);

/// How often `by` does an operation; all that begin like this.
pub(crate) fn count(phases: &[Phase], by: Party, operation: &str) -> u64 {
    let own = lines(phases).into_iter().filter(|line| line.by == by && line.operation.starts_with(operation));
    own.map(|line| line.times).sum()
}

/// Name, sender and bytes of the messages.
pub(crate) fn messages(phases: &[Phase]) -> Vec<(&'static str, Party, u64)> {
    let sent = lines(phases).into_iter().filter(|line| line.to.is_some());
    sent.map(|line| (line.name, line.by, line.bytes)).collect()
}
