//! What every language asks of a block: an `opt` or `loop` with nothing in it, and an `opt` that is always taken, change nothing; and what the
//! body of a loop is called, which has no name of its own.

use hashbrown::HashSet;

use super::draft::Line;
use crate::{Class, Fault};

/// Names for the bodies of loops: by their place in order, so that a line more above them renames none.
#[derive(Debug, Default)]
pub(super) struct Loops {
    taken: HashSet<String>,
    count: usize,
}

impl Loops {
    /// Beside these sequences, whose names are taken.
    pub(super) fn beside(names: impl Iterator<Item = String>) -> Self {
        Self { taken: names.collect(), count: 0 }
    }

    /// The name of the next one that begins, and its place.
    pub(super) fn next(&mut self) -> (String, usize) {
        loop {
            self.count += 1;
            let name = format!("loop {}", self.count);
            if !self.taken.contains(&name) {
                return (name, self.count);
            }
        }
    }
}

/// Refuses an `opt` or `loop` without steps.
pub(super) fn filled(what: &str, line: usize, steps: &[Line]) -> Result<(), Fault> {
    if steps.is_empty() {
        return Err(Fault::new(
            Class::NoEffect,
            what,
            "there is no message in it: take it out, or put its messages in",
        )
        .at(line));
    }
    Ok(())
}

/// What is wrong with the probability of an `opt` or `break`, which `key` says.
pub(super) fn not_sometimes(word: &str, key: &str, taken: f64) -> Option<String> {
    let is_sometimes = taken > 0.0 && taken < 1.0;
    let done = match taken {
        1.0 if word == "opt" => ", and what is always done needs no `opt`",
        0.0 if word == "opt" => ", and what is never done needs no `opt`",
        _ => "",
    };
    (!is_sometimes).then(|| format!("`{key}` is {taken}: of `{word}` it is a probability between 0 and 1{done}"))
}
