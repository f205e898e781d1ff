//! What a filter may cost: a client writes it, and every event pays for it.

/// What is left of a number of steps. One step is about what a pattern needs for one character.
#[derive(Debug)]
pub(crate) struct Steps(usize);

/// No step is left for what is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exhausted;

impl Steps {
    /// For one event at all the items of one session, and for one event at a guard: ten thousand comparisons.
    pub(crate) const LIVE: usize = 1 << 18;
    /// For one request for events of the past.
    pub(crate) const PAST: usize = 1 << 22;

    /// So many steps.
    pub(crate) const fn new(steps: usize) -> Self {
        Self(steps)
    }

    /// How many are left.
    #[cfg(test)]
    pub(crate) const fn left(&self) -> usize {
        self.0
    }

    /// Takes steps.
    ///
    /// # Errors
    /// Fewer are left; then none is.
    pub(super) fn take(&mut self, steps: usize) -> Result<(), Exhausted> {
        let left = self.0.checked_sub(steps);
        self.0 = left.unwrap_or(0);
        left.map(drop).ok_or(Exhausted)
    }
}
