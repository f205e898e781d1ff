//! Parallel fragments: their branches, and which models have one.

use std::ops::{Deref, DerefMut};

use serde::Serialize;

use super::{Model, Step};

/// The branches of a parallel fragment. Those of two models are the same wherever they stand in their texts.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct Branches {
    steps: Vec<Vec<Step>>,
    /// Line of the model.
    #[serde(skip)]
    pub line: usize,
}

impl Branches {
    /// The steps of each, of a fragment at a line from 1, or 0.
    #[must_use]
    pub fn new(steps: Vec<Vec<Step>>, line: usize) -> Self {
        Self { steps, line }
    }

    /// The same fragment with other steps in each branch.
    #[must_use]
    pub(crate) fn map(self, with: impl FnMut(Vec<Step>) -> Vec<Step>) -> Self {
        Self { steps: self.steps.into_iter().map(with).collect(), ..self }
    }
}

impl PartialEq for Branches {
    fn eq(&self, other: &Self) -> bool {
        self.steps == other.steps
    }
}

impl Deref for Branches {
    type Target = [Vec<Step>];

    fn deref(&self) -> &Self::Target {
        &self.steps
    }
}

impl DerefMut for Branches {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.steps
    }
}

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
