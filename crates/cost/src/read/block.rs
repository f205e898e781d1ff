//! What every language asks of a block: an `opt` or `loop` with nothing in it, and an `opt` that is always taken, change nothing.

use super::draft::Line;
use crate::{Class, Fault};

/// Refuses an `opt` or `loop` without steps.
pub(super) fn filled(what: &str, line: usize, steps: &[Line]) -> Result<(), Fault> {
    if steps.is_empty() {
        return Err(Fault::new(Class::NoEffect, what, "there is no message in it").at(line));
    }
    Ok(())
}

/// What is wrong with the probability of an `opt` or `break`, which `key` says.
pub(super) fn not_sometimes(word: &str, key: &str, taken: f64) -> Option<String> {
    let is_sometimes = taken > 0.0 && taken < 1.0;
    (!is_sometimes).then(|| format!("`{key}` is {taken}: of `{word}` it is a probability between 0 and 1"))
}
