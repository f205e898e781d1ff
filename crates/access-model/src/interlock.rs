//! Interlocks: what holds for values that are written and for arguments of methods, whoever writes or calls. They keep
//! honest mistakes and stolen sessions within bounds; they are no safety function (IEC 61511), for what they look at is
//! told by the same network and the same computers that they watch.

use std::collections::BTreeMap;
use std::time::Duration;

/// Bounds of a number, in the units of the variable. Arrays are held to them element by element; not a number is outside
/// of every bound.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    /// Least and most, both allowed.
    pub range: Option<(f64, f64)>,
    /// The most by which a new value may differ from the present one.
    pub step: Option<f64>,
    /// The most by which the value may be changed within any second, all changes added up.
    pub rate: Option<f64>,
}

impl Bounds {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the present value must be known to decide.
    #[must_use]
    pub const fn need_present(&self) -> bool {
        self.step.is_some() || self.rate.is_some()
    }
}

/// Bounds of one argument of a method.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ArgumentBounds {
    /// The bounds.
    pub bounds: Bounds,
    /// The variable that the argument sets, by NodeId as in the plant file: step and rate are taken against it, and its
    /// writes and the calls count together.
    pub of: Option<String>,
}

/// Nothing is changed here unless a second person approves of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TwoPersons {
    /// The role that the second person must have.
    pub role: String,
    /// How long a question waits for an answer, and an answer for the change.
    pub within: Duration,
}

/// What holds in one scope.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interlock {
    /// Of values that are written.
    pub bounds: Bounds,
    /// Of arguments of its methods, by their position from 1 on.
    pub arguments: BTreeMap<u32, ArgumentBounds>,
    /// Whether two persons are needed.
    pub two_persons: Option<TwoPersons>,
}

impl Interlock {
    /// Whether nothing holds.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
