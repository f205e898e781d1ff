//! Faults of a configuration, and where they stand in its text.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::{At, Invalid};

/// Something that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The way to the key.
    pub(crate) way: Vec<Step>,
    pub(crate) message: String,
    pub(crate) help: String,
}

/// One step of the way to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Key(&'static str),
    Entry(usize),
}

impl Fault {
    pub(crate) fn at(key: &'static str, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { way: vec![Step::Key(key)], message: message.into(), help: help.into() }
    }

    pub(crate) fn below(mut self, way: &[Step]) -> Self {
        self.way.splice(0..0, way.iter().copied());
        self
    }

    pub(crate) fn into_invalid(self, at: At) -> Invalid {
        Invalid { at, message: self.message, help: Some(self.help) }
    }

    /// How a variable would name the key: `SERVER__0__MODES`.
    pub(crate) fn variable(&self) -> String {
        let step = |step: &Step| match step {
            Step::Key(key) => key.to_uppercase(),
            Step::Entry(entry) => entry.to_string(),
        };
        self.way.iter().map(step).collect::<Vec<_>>().join("__")
    }
}

/// Where the key at the end of a way stands in a text, or the last step of the way that stands there at all.
pub(crate) fn place(text: &str, way: &[Step]) -> Range<usize> {
    let Ok(table) = DeTable::parse(text) else { return 0..0 };
    let mut found = 0..0;
    let mut tables = Some(table.get_ref());
    let mut list: Option<&[Spanned<DeValue<'_>>]> = None;
    for step in way {
        let value = match step {
            Step::Key(key) => {
                tables.and_then(|table| table.iter().find(|(name, _)| name.get_ref() == key)).map(|(_, value)| value)
            }
            Step::Entry(at) => list.and_then(|list| list.get(*at)),
        };
        let Some(value) = value else { return found };
        found = value.span();
        tables = value.get_ref().as_table();
        list = value.get_ref().as_array().map(|array| &**array);
    }
    found
}
