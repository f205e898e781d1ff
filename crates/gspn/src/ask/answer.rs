//! What is answered.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Refusal;

/// One value: a count stays whole.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// Of markings, classes, tokens.
    Count(u64),
    /// Everything else; finite.
    Number(f64),
}

/// What was checked before anything was said.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Checks {
    /// The largest imbalance of a state over the largest flow.
    pub residual: f64,
    /// The largest imbalance of a place, tokens put against tokens taken per time unit, over the larger of the two.
    pub flow_balance: f64,
    /// The largest distance of a place invariant's weighted mean from its initial value, relative.
    pub invariants: f64,
}

/// The answers to all questions about a net.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Answer {
    /// By the question's name.
    pub values: BTreeMap<String, Value>,
    /// By the question's name: why it has no value.
    pub unanswered: BTreeMap<String, Refusal>,
    /// Where a value is not exact by its method: which method.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub method: BTreeMap<String, String>,
    /// Beside `method`: how far off the value may be, relatively.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub error: BTreeMap<String, f64>,
    /// What was checked.
    pub checks: Checks,
}

impl Checks {
    /// The worse of both; what is no number is the worst.
    pub(crate) fn worse(&self, other: &Self) -> Self {
        let worse = |one: f64, other: f64| if one.is_nan() || other <= one { one } else { other };
        Self {
            residual: worse(self.residual, other.residual),
            flow_balance: worse(self.flow_balance, other.flow_balance),
            invariants: worse(self.invariants, other.invariants),
        }
    }
}

impl Answer {
    /// Takes the answers to other questions.
    pub(crate) fn extend(&mut self, other: Self) {
        self.values.extend(other.values);
        self.unanswered.extend(other.unanswered);
        self.method.extend(other.method);
        self.error.extend(other.error);
        self.checks = self.checks.worse(&other.checks);
    }
}
