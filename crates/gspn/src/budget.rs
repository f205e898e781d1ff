//! How much may be spent, and who is told how far it has come.

use crate::{Class, Refusal};

/// The most that an answer may cost. What costs more is refused as [`Class::TooLarge`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Markings, tangible and vanishing.
    pub markings: u64,
    /// Bytes of markings, edges and vectors.
    pub bytes: u64,
}

impl Default for Limits {
    /// 8 million markings, 2 GiB.
    fn default() -> Self {
        Self { markings: 8_000_000, bytes: 2 << 30 }
    }
}

/// How far the work has come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress {
    /// Markings are being explored: tangible ones found and done, vanishing ones found, edges so far.
    Exploring {
        /// Found so far.
        tangible: u64,
        /// Of these, how many are done.
        done: u64,
        /// Found so far.
        vanishing: u64,
        /// Between tangible markings.
        edges: u64,
    },
    /// Runs of a simulation.
    Simulating {
        /// Of timed transitions, in all runs so far.
        firings: u64,
    },
    /// A linear system is being solved: sweeps so far and how far the last answer is off, relatively.
    Solving {
        /// So far.
        sweeps: u64,
        /// As estimated.
        error: f64,
    },
    /// All markings and their shares of time are known, and questions are being answered.
    Answering {
        /// Questions so far.
        done: u64,
    },
}

/// The limits, and a clock in somebody else's hands.
pub struct Budget<'a> {
    limits: Limits,
    /// Bytes of what is kept while the work goes on, besides what it asks for.
    held: u64,
    go_on: &'a mut dyn FnMut(Progress) -> bool,
    gone: Option<&'a dyn Fn() -> f64>,
}

impl std::fmt::Debug for Budget<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Budget").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl<'a> Budget<'a> {
    /// `go_on` is called every few milliseconds; when it says no, the work ends as [`Class::TooLarge`] for its time.
    pub fn new(limits: Limits, go_on: &'a mut dyn FnMut(Progress) -> bool) -> Self {
        Self { limits, held: 0, go_on, gone: None }
    }

    /// The same, where `gone` says how much of the time is over, from 0 to 1: what is done one after the other can share the rest.
    #[must_use]
    pub fn sharing(self, gone: &'a dyn Fn() -> f64) -> Self {
        Self { gone: Some(gone), ..self }
    }

    /// How much of the time is over, from 0 to 1; 0 where nobody says it.
    pub(crate) fn gone(&self) -> f64 {
        self.gone.map_or(0.0, |gone| gone())
    }

    /// Does `work` in at most `part` of the time that is left, where somebody says how much is over.
    pub(crate) fn part<T>(&mut self, part: f64, work: impl FnOnce(&mut Budget<'_>) -> T) -> T {
        let Some(gone) = self.gone.filter(|_| part < 1.0) else { return work(self) };
        let until = gone() + (1.0 - gone()) * part;
        let outer = &mut *self.go_on;
        let mut go_on = |progress| outer(progress) && gone() < until;
        work(&mut Budget { limits: self.limits, held: self.held, go_on: &mut go_on, gone: Some(gone) })
    }

    /// The same for work beside so many bytes that are kept until it is done.
    pub(crate) fn beside(&mut self, bytes: u64) -> Budget<'_> {
        let held = self.held.saturating_add(bytes);
        Budget { limits: self.limits, held, go_on: &mut *self.go_on, gone: self.gone }
    }

    /// The limits.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// # Errors
    /// When whoever looks at the clock says stop.
    pub fn look(&mut self, progress: Progress) -> Result<(), Refusal> {
        if (self.go_on)(progress) {
            return Ok(());
        }
        let at = match progress {
            Progress::Exploring { tangible, vanishing, .. } => {
                format!("after {tangible} tangible and {vanishing} vanishing markings")
            }
            Progress::Simulating { firings } => format!("after {firings} simulated firings"),
            Progress::Solving { sweeps, .. } => format!("after {sweeps} sweeps over the linear system"),
            // How many were, says little: they are answered in several goes.
            Progress::Answering { .. } => "before this was answered".to_owned(),
        };
        Err(Refusal::new(Class::TooLarge, "time", format!("the limit of time was reached {at}: allow more time")))
    }

    /// # Errors
    /// When there are more markings than the limit.
    pub fn markings(&self, count: u64) -> Result<(), Refusal> {
        if count <= self.limits.markings {
            return Ok(());
        }
        let why =
            format!("more than {} markings can be reached: allow more, or make the net smaller", self.limits.markings);
        Err(Refusal::new(Class::TooLarge, "markings", why))
    }

    /// # Errors
    /// When there are more states, markings with the phases of their clocks, than the limit of markings or, if that is more, the
    /// usual one: a few markings may have many phases.
    pub(crate) fn states(&self, count: u64) -> Result<(), Refusal> {
        let most = self.limits.markings.max(Limits::default().markings);
        if count <= most {
            return Ok(());
        }
        let why =
            format!("the markings have more than {most} states with the phases of their clocks: take fewer phases");
        Err(Refusal::new(Class::TooLarge, "markings", why))
    }

    /// # Errors
    /// When so many bytes are more than the limit, beside what is kept.
    pub fn bytes(&self, bytes: u64) -> Result<(), Refusal> {
        if self.held.saturating_add(bytes) <= self.limits.bytes {
            return Ok(());
        }
        let mib = self.limits.bytes >> 20;
        Err(Refusal::new(
            Class::TooLarge,
            "memory",
            format!("more than {mib} MiB are needed: allow more memory, or make the net smaller"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_part_of_the_time_leaves_the_rest() {
        let looks = Cell::new(0.0);
        let gone = || looks.get() / 100.0;
        let mut go_on = |_| {
            looks.set(looks.get() + 1.0);
            gone() < 1.0
        };
        let mut budget = Budget::new(Limits::default(), &mut go_on).sharing(&gone);
        let until_refused = |budget: &mut Budget<'_>| while budget.look(Progress::Answering { done: 0 }).is_ok() {};
        budget.part(0.75, until_refused);
        assert_eq!(looks.get(), 75.0);
        budget.part(0.6, until_refused);
        assert_eq!(looks.get(), 90.0);
        budget.part(1.0, until_refused);
        assert_eq!(looks.get(), 100.0);
    }
}
