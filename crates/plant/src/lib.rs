//! A simulated batch plant: the equipment behind `trapkey demo`, the interoperation tests and the benchmarks.

pub mod equipment;
mod process;
pub mod scoping;
pub mod station;

pub use process::{Line, Measured, SetPoints, Step};
