//! A simulated batch plant: the equipment behind `trapkey demo`, the interoperation tests and the benchmarks.

mod process;

pub use process::{Line, Measured, SetPoints, Step};
