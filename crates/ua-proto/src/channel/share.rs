//! How much one peer may hold at this moment: one number that all channels of a server look at.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes. Its owner sets it, the channels that were given a clone go by it.
#[derive(Clone, Debug)]
pub struct Share(Arc<AtomicUsize>);

impl Default for Share {
    /// No bound.
    fn default() -> Self {
        Self(Arc::new(AtomicUsize::new(usize::MAX)))
    }
}

impl Share {
    /// What it is.
    #[must_use]
    pub fn get(&self) -> usize {
        // One thread drives a server and its channels: nothing else is ordered by it.
        self.0.load(Ordering::Relaxed)
    }

    /// From now on it is this.
    pub fn set(&self, bytes: usize) {
        self.0.store(bytes, Ordering::Relaxed);
    }
}
