//! The measures, each a function that gives records.

pub mod pdp;
