//! Why there is no answer.

use std::fmt;

use serde::Serialize;

/// What kind of reason it is. The words are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// The net or a question about it breaks a rule of the format.
    Invalid,
    /// Some place gathers tokens without end, and this is proven.
    Unbounded,
    /// A closed set of vanishing markings: immediate transitions that fire for ever.
    TimelessTrap,
    /// A limit of markings, memory or time was reached.
    TooLarge,
    /// The net is sound, and this program has no method for it.
    Unsupported,
}

impl Class {
    /// As it is written.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Unbounded => "unbounded",
            Self::TimelessTrap => "timeless-trap",
            Self::TooLarge => "too-large",
            Self::Unsupported => "unsupported",
        }
    }
}

/// One reason, for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// What kind of reason it is.
    #[serde(rename = "refused")]
    pub class: Class,
    /// A sentence: what is wrong and, where it is known, what to do.
    pub why: String,
    /// The place, transition, question or member that it is about; empty where it is about the whole.
    #[serde(rename = "where")]
    pub name: String,
    /// Names of transitions which, fired in this order from the initial marking, lead to the bad marking; empty where there is none.
    pub trace: Vec<String>,
}

impl Refusal {
    /// A reason of `class` about `name`.
    #[must_use]
    pub fn new(class: Class, name: &str, why: impl Into<String>) -> Self {
        Self { class, why: why.into(), name: name.to_owned(), trace: Vec::new() }
    }

    /// [`Class::Invalid`] about `name`.
    #[must_use]
    pub fn invalid(name: &str, why: impl Into<String>) -> Self {
        Self::new(Class::Invalid, name, why)
    }

    /// The same reason with the way to the bad marking.
    #[must_use]
    pub fn along(mut self, trace: Vec<String>) -> Self {
        self.trace = trace;
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() { f.write_str(&self.why) } else { write!(f, "`{}`: {}", self.name, self.why) }
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::Class;

    #[test]
    fn people_and_programs_read_the_same_words() {
        for class in [Class::Invalid, Class::Unbounded, Class::TimelessTrap, Class::TooLarge, Class::Unsupported] {
            assert_eq!(serde_json::json!(class), class.word());
        }
    }
}
