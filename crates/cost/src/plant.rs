//! What a node is besides its cores: how many machines, how often they fail, what power and money they take.

use serde::Serialize;

/// Machines that do the work of a node together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machines {
    /// How many there may be: ways to choose from, each at least 1; the first counts where nothing is chosen.
    pub counts: Vec<u32>,
    /// How many must be up, at least 1, at most the smallest of the counts.
    pub needed: u32,
    /// How often one fails, and how it is repaired; without it none fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures: Option<Failures>,
    /// What power one takes, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<Power>,
    /// Money that one costs an hour, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub money: Option<f64>,
}

impl Default for Machines {
    /// One that never fails.
    fn default() -> Self {
        Self { counts: vec![1], needed: 1, failures: None, power: None, money: None }
    }
}

impl Machines {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.counts.first().copied().unwrap_or(1)
    }
}

/// Machines fail and are repaired; both times are exponential.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Failures {
    /// Mean seconds until one that is up fails, above 0.
    pub every: f64,
    /// Mean seconds of a repair, above 0.
    pub repair: f64,
    /// How many are repaired at once, at least 1.
    pub crews: u32,
}

/// Power in watts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Power {
    /// Of a machine that does nothing.
    pub idle: f64,
    /// More for each busy core.
    pub busy: f64,
}
