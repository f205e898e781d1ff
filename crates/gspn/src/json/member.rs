//! Members of an object, taken out one by one; what is left over at the end is an error.

use std::borrow::Cow;

use super::tree::Tree;
use crate::Refusal;
use crate::net::Tokens;

/// The largest whole number that a JSON number with a fraction point still means exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// An object that is being read, and its path for errors.
pub(super) struct Members<'a> {
    path: String,
    left: Vec<(Cow<'a, str>, Tree<'a>)>,
}

impl<'a> Members<'a> {
    pub(super) fn of(tree: Tree<'a>, path: &str) -> Result<Self, Refusal> {
        match tree {
            Tree::Object(left) => Ok(Self { path: path.to_owned(), left }),
            other => Err(Refusal::invalid(path, format!("this is {}, and an object is wanted", other.sort()))),
        }
    }

    /// From here on errors name the object `name` instead of its path.
    pub(super) fn call(&mut self, name: &str) {
        name.clone_into(&mut self.path);
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn take(&mut self, key: &str) -> Option<Tree<'a>> {
        let index = self.left.iter().position(|(name, _)| name == key)?;
        Some(self.left.remove(index).1)
    }

    pub(super) fn need(&mut self, key: &str) -> Result<Tree<'a>, Refusal> {
        self.take(key).ok_or_else(|| self.wrong(format!("`{key}` is missing")))
    }

    pub(super) fn text(&mut self, key: &str) -> Result<Cow<'a, str>, Refusal> {
        match self.need(key)? {
            Tree::Text(text) => Ok(text),
            other => Err(self.wrong(format!("`{key}` is {}, and a string is wanted", other.sort()))),
        }
    }

    pub(super) fn number(&mut self, key: &str) -> Result<Option<f64>, Refusal> {
        self.take(key).map(|tree| number(&tree, key, &self.path)).transpose()
    }

    pub(super) fn need_number(&mut self, key: &str) -> Result<f64, Refusal> {
        let tree = self.need(key)?;
        number(&tree, key, &self.path)
    }

    pub(super) fn whole(&mut self, key: &str) -> Result<Option<Tokens>, Refusal> {
        self.take(key).map(|tree| whole(&tree, key, &self.path)).transpose()
    }

    pub(super) fn list(&mut self, key: &str) -> Result<Vec<Tree<'a>>, Refusal> {
        let tree = self.need(key)?;
        list(tree, key, &self.path)
    }

    /// Every pair of an object under `key`; none where the key is missing.
    pub(super) fn pairs(&mut self, key: &str) -> Result<Vec<(Cow<'a, str>, Tree<'a>)>, Refusal> {
        match self.take(key) {
            None => Ok(Vec::new()),
            Some(Tree::Object(pairs)) => Ok(pairs),
            Some(other) => Err(self.wrong(format!("`{key}` is {}, and an object is wanted", other.sort()))),
        }
    }

    /// # Errors
    /// When a member is left that nobody took.
    pub(super) fn end(self) -> Result<(), Refusal> {
        match self.left.first() {
            None => Ok(()),
            Some((key, _)) => Err(Refusal::invalid(&self.path, format!("`{key}` is not known here"))),
        }
    }

    pub(super) fn wrong(&self, why: String) -> Refusal {
        Refusal::invalid(&self.path, why)
    }
}

pub(super) fn list<'a>(tree: Tree<'a>, key: &str, path: &str) -> Result<Vec<Tree<'a>>, Refusal> {
    match tree {
        Tree::List(items) => Ok(items),
        other => Err(Refusal::invalid(path, format!("`{key}` is {}, and a list is wanted", other.sort()))),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate written with more than 53 bits means the nearest double")]
pub(super) fn number(tree: &Tree<'_>, key: &str, path: &str) -> Result<f64, Refusal> {
    match tree {
        Tree::Whole(whole) => Ok(*whole as f64),
        Tree::Number(number) if number.is_finite() => Ok(*number),
        Tree::Number(_) => Err(Refusal::invalid(path, format!("`{key}` is not finite"))),
        other => Err(Refusal::invalid(path, format!("`{key}` is {}, and a number is wanted", other.sort()))),
    }
}

/// A whole number not below 0; `3.0` is one, too.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole, not negative and below 2^53 by the guard"
)]
pub(super) fn whole(tree: &Tree<'_>, key: &str, path: &str) -> Result<Tokens, Refusal> {
    match tree {
        Tree::Whole(whole) => Ok(*whole),
        Tree::Number(number) if *number >= 0.0 && *number < EXACT && number.fract() == 0.0 => Ok(*number as Tokens),
        Tree::Number(number) => {
            let most = if *number >= EXACT { format!(" to {}", Tokens::MAX) } else { String::new() };
            Err(Refusal::invalid(path, format!("`{key}` is {number}, and a whole number from 0{most} is wanted")))
        }
        other => Err(Refusal::invalid(path, format!("`{key}` is {}, and a whole number is wanted", other.sort()))),
    }
}
