//! The history of one variable in memory (OPC 10000-11): a bounded ring of values by source timestamp, with what reading
//! and changing it takes, and what clients changed in it; the same for the events of one notifier. Rights, nodes and records are the server's; clocks nobody's.
//!
//! Not here: annotations, structured history.

mod aggregate;
mod bounds;
mod events;
mod journal;
mod places;
mod put;
mod raw;
mod series;
#[cfg(test)]
mod tests;
mod update;

pub(crate) use aggregate::{Aggregate, Processed, Shape};
pub(crate) use events::EventLog;
pub(crate) use journal::Author;
pub(crate) use places::{Fit, Mark, page};
pub(crate) use put::{Places, Put, Puts};
pub(crate) use raw::{Domain, Resume, Room};
pub(crate) use series::{Change, Perform, Series};
pub(crate) use update::{Content, Deed, Details, Update, Walk};
