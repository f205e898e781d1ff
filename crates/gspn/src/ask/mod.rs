//! Questions about a net, and their answers.

mod answer;
mod derivatives;
mod evaluate;
mod phases;
mod solution;

pub use self::answer::{Answer, Checks, Value};
pub use self::derivatives::{Derivatives, derivatives};
pub(crate) use self::derivatives::{Derives, structural};
pub use self::evaluate::answer;
pub(crate) use self::evaluate::{Answers, PART, certainly, fired, in_turn, invariant_error, is_passage, is_uncertain};
pub(crate) use self::solution::{Flows, Solution, float};

use crate::net::Tokens;

/// A question with its name.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// Under which its answer stands.
    pub id: String,
    /// What is asked.
    pub question: Question,
}

/// What can be asked. Places and transitions are indices in the net; `at` is a time, without one the long run is meant.
#[derive(Debug, Clone, PartialEq)]
pub enum Question {
    /// Distinct tangible markings.
    Tangible,
    /// Distinct vanishing markings.
    Vanishing,
    /// Tangible markings from which no firing leads to another tangible marking.
    Deadlocks,
    /// Closed classes of the Markov chain, deadlocks among them.
    BottomComponents,
    /// The most tokens in a place, over all markings.
    Bound {
        /// Which place.
        place: usize,
    },
    /// Mean tokens in a place.
    MeanTokens {
        /// Which place.
        place: usize,
        /// When.
        at: Option<f64>,
    },
    /// Probability of a condition.
    Probability {
        /// Which condition.
        condition: Condition,
        /// When.
        at: Option<f64>,
    },
    /// Firings per time unit.
    Throughput {
        /// Of which transition.
        transition: usize,
        /// When.
        at: Option<f64>,
    },
    /// Probability of a condition at time 0, when the immediates have fired.
    InitialProbability {
        /// Which condition.
        condition: Condition,
    },
    /// Mean time until a closed class is entered.
    TimeToAbsorption,
    /// Mean time until a condition first holds.
    PassageMean {
        /// Which condition.
        condition: Condition,
    },
    /// The time by which a condition has held with some probability.
    PassageQuantile {
        /// Which condition.
        condition: Condition,
        /// The probability, between 0 and 1.
        level: f64,
    },
    /// The derivative of an answer with respect to the rate of a timed transition.
    Sensitivity {
        /// Of which answer.
        of: Box<Question>,
        /// With respect to the rate of this transition.
        by: usize,
    },
}

/// All of these hold of a tangible marking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The tokens of a place, compared with a number.
    pub terms: Vec<(usize, Compare, Tokens)>,
}

/// How numbers compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Compare {
    pub(crate) fn holds(self, tokens: Tokens, count: Tokens) -> bool {
        match self {
            Self::Equal => tokens == count,
            Self::NotEqual => tokens != count,
            Self::Less => tokens < count,
            Self::LessOrEqual => tokens <= count,
            Self::Greater => tokens > count,
            Self::GreaterOrEqual => tokens >= count,
        }
    }
}

impl Condition {
    /// Whether it holds of a marking.
    #[must_use]
    pub fn holds(&self, tokens: &[Tokens]) -> bool {
        self.holds_by(|place| tokens[place])
    }

    /// Whether it holds of a marking with so many `tokens` in each place that it looks at.
    pub(crate) fn holds_by(&self, tokens: impl Fn(usize) -> Tokens) -> bool {
        self.terms.iter().all(|(place, compare, count)| compare.holds(tokens(*place), *count))
    }

    /// Whether what it says about one place holds there of so many tokens.
    pub(crate) fn allows(&self, place: usize, tokens: Tokens) -> bool {
        self.terms.iter().filter(|(at, _, _)| *at == place).all(|(_, compare, count)| compare.holds(tokens, *count))
    }
}
