//! The history of one variable in memory (OPC 10000-11): a bounded ring of values by source timestamp, with what reading
//! and changing it takes. Rights, nodes and records are the server's; clocks nobody's.
//!
//! Not here: modified values (a change is in the audit, not in the history), annotations, structured history.

mod aggregate;
mod bounds;
mod raw;
mod series;
#[cfg(test)]
mod tests;
mod update;

pub(crate) use aggregate::{Aggregate, Processed, Shape};
pub(crate) use raw::{Domain, Resume, Room};
pub(crate) use series::{Change, Perform, Series};
pub(crate) use update::{Content, Deed, Details, Update};
