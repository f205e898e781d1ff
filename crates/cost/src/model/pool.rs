//! What requests hold for a while beside cores and lines: connections of a pool, locks, tokens of a licence.

use serde::Serialize;

/// So many of something that a request acquires, keeps over any number of steps, and releases (`PaLogicalResource` of MARTE).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Units of it, at least 1.
    pub size: u32,
    /// The most units that one request holds at a time, at most `size`.
    pub most: u32,
}

impl Pool {
    /// Whether some of so many requests may wait for it.
    #[must_use]
    pub const fn is_short(&self, requests: u32) -> bool {
        self.most.saturating_mul(requests) > self.size
    }
}

/// Units of a pool that a step acquires or releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Units {
    /// Index of the pool.
    pub of: usize,
    /// At least 1.
    pub count: u32,
    /// Line of the model.
    #[serde(skip)]
    pub line: usize,
}
