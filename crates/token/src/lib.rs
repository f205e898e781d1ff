//! Access tokens and signed control updates: mint and verify.

mod entropy;

pub use entropy::{Entropy, SystemEntropy};
