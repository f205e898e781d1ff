//! Parallel fragments: which models have one.

use super::{Model, Step};

impl Model {
    /// Whether a request does several things at once somewhere.
    #[must_use]
    pub fn is_parallel(&self) -> bool {
        self.sequences.iter().any(|sequence| has_fragment(&sequence.steps))
    }
}

fn has_fragment(steps: &[Step]) -> bool {
    steps.iter().any(|step| match step {
        Step::Par(_) => true,
        Step::Choice(ways) => ways.iter().any(|(_, steps)| has_fragment(steps)),
        Step::Operation(_) | Step::Send(_) | Step::Ref { .. } => false,
        Step::Acquire(_) | Step::Release(_) | Step::Protect(_) => false,
    })
}
