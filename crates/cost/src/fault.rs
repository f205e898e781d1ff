//! What is wrong with a model.

use std::fmt;

use serde::Serialize;

/// What kind of fault it is. The words are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Not of the language that it is said to be in.
    Syntax,
    /// A key, statement or element that nothing here knows.
    Unknown,
    /// A stereotype that nothing here knows.
    UnknownStereotype,
    /// Something that is needed is not there.
    Missing,
    /// An annotation that is needed is not there: an element without the price or place that it needs.
    MissingAnnotation,
    /// A name that nothing has, or that has the wrong sort.
    NoSuchName,
    /// A name or key that stands twice.
    Doubled,
    /// A value that cannot be read, or lies out of its range.
    Invalid,
    /// Something that changes nothing where it stands.
    NoEffect,
    /// A sequence that refers to itself, directly or through others.
    Cycle,
    /// An operation whose price is not known on the platform that runs it.
    NoPrice,
    /// More of something than this program takes.
    TooLarge,
    /// The solver has no answer.
    Unanswered,
}

impl Class {
    /// As it is written.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::Unknown => "unknown",
            Self::UnknownStereotype => "unknown-stereotype",
            Self::Missing => "missing",
            Self::MissingAnnotation => "missing-annotation",
            Self::NoSuchName => "no-such-name",
            Self::Doubled => "doubled",
            Self::Invalid => "invalid",
            Self::NoEffect => "no-effect",
            Self::Cycle => "cycle",
            Self::NoPrice => "no-price",
            Self::TooLarge => "too-large",
            Self::Unanswered => "unanswered",
        }
    }
}

/// One fault, for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// What kind of fault it is.
    #[serde(rename = "fault")]
    pub class: Class,
    /// The line, from 1, where the text has one to point at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// What it is about.
    #[serde(rename = "where")]
    pub name: String,
    /// A sentence: what is wrong and, where it is known, what to do.
    pub why: String,
}

impl Fault {
    /// A fault of `class` about `name`.
    #[must_use]
    pub fn new(class: Class, name: impl Into<String>, why: impl Into<String>) -> Self {
        Self { class, line: None, name: name.into(), why: why.into() }
    }

    /// The same fault at a line, from 1; 0 is no line.
    #[must_use]
    pub fn at(mut self, line: usize) -> Self {
        self.line = self.line.or((line > 0).then_some(line));
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if self.name.is_empty() { f.write_str(&self.why) } else { write!(f, "{}: {}", self.name, self.why) }
    }
}

impl std::error::Error for Fault {}

impl From<gspn::Refusal> for Fault {
    fn from(refusal: gspn::Refusal) -> Self {
        Self::new(Class::Unanswered, refusal.name.clone(), refusal.why.clone())
    }
}
