//! The workflow file as it is written, TOML or JSON alike.

use std::ops::Range;

use serde::Deserialize;

use crate::fault::{FaultList, Faults, Origin, toml_fault};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub procedure: Vec<Procedure>,
    #[serde(default)]
    pub phase: Vec<Phase>,
    pub step: Vec<Step>,
    pub transition: Vec<Transition>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Procedure {
    pub name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Phase {
    pub name: String,
    pub procedure: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    pub name: String,
    pub phase: Option<String>,
    #[serde(default)]
    pub tokens: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Transition {
    pub name: String,
    pub from: Vec<Arc>,
    pub to: Vec<Arc>,
}

/// `"heat"` or `{ step = "heat", weight = 2 }`.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Arc {
    One(String),
    Many(Weighted),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Weighted {
    pub step: String,
    pub weight: u32,
}

impl Arc {
    pub(super) fn parts(&self) -> (&str, u32) {
        match self {
            Self::One(step) => (step, 1),
            Self::Many(arc) => (&arc.step, arc.weight),
        }
    }
}

pub(super) fn read(text: &str) -> Result<File, Faults> {
    if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(|error| json_fault(text, &error))
    } else {
        toml::from_str(text).map_err(|error| toml_fault(Origin::Workflow, text, &error))
    }
}

fn json_fault(text: &str, error: &serde_json::Error) -> Faults {
    let before: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let at = (before + error.column().saturating_sub(1)).min(text.len());
    let mut list = FaultList::new(Origin::Workflow, text);
    list.add(at..at, error.to_string(), None);
    list.finish().err().unwrap_or(Faults(Vec::new()))
}

/// Where the `nth` quoted occurrence of a name stands (from 0); the start of the file when there is none.
pub(super) fn span_of(text: &str, name: &str, nth: usize) -> Range<usize> {
    let quoted = |quote: char| format!("{quote}{name}{quote}");
    let (double, single) = (quoted('"'), quoted('\''));
    let mut places: Vec<usize> =
        text.match_indices(&double).chain(text.match_indices(&single)).map(|(at, _)| at).collect();
    places.sort_unstable();
    places.get(nth).or(places.last()).map_or(0..0, |at| *at..*at + double.len())
}
