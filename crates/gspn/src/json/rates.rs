//! When the transitions of a net fire, for nets whose own file does not say it.

use std::borrow::Cow;

use hashbrown::HashMap;

use super::member::Members;
use super::nets;
use super::tree::Tree;
use crate::Refusal;
use crate::net::Kind;

/// When one transition fires.
#[derive(Debug, Clone, PartialEq)]
pub struct Timing {
    /// The name of the transition.
    pub name: String,
    tree: Tree<'static>,
}

/// Reads `{transition: rate}` or `{transition: {"kind", "rate", ..}}`, with the members that transitions have in a document.
///
/// # Errors
/// [`crate::Class::Invalid`], naming the transition. What is wrong with its members is said by [`Timing::kind`].
pub fn read_rates(text: &[u8]) -> Result<Vec<Timing>, Refusal> {
    match Tree::read(text, "rates")? {
        Tree::Object(members) => {
            let timing =
                |(name, tree): (Cow<'_, str>, Tree<'_>)| Timing { name: name.into_owned(), tree: tree.into_owned() };
            Ok(members.into_iter().map(timing).collect())
        }
        other => {
            Err(Refusal::invalid("rates", format!("this is {}, and an object of transitions is wanted", other.sort())))
        }
    }
}

impl Timing {
    /// Its kind, in a net where places have these names and indices.
    ///
    /// # Errors
    /// [`crate::Class::Invalid`], naming the transition.
    pub fn kind(&self, places: &HashMap<String, usize>) -> Result<Kind, Refusal> {
        let tree = match &self.tree {
            rate @ (Tree::Whole(_) | Tree::Number(_)) => {
                Tree::Object(vec![("kind".into(), Tree::Text("timed".into())), ("rate".into(), rate.clone())])
            }
            other => other.clone(),
        };
        let mut members = Members::of(tree, &self.name)?;
        let kind = nets::kind(&mut members, places)?;
        members.end()?;
        Ok(kind)
    }
}
