//! When the transitions of a net fire, for nets whose own file does not say it.

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
    tree: Tree,
}

/// Reads `{transition: rate}` or `{transition: {"kind", "rate", ..}}`, with the members that transitions have in a document.
///
/// # Errors
/// [`crate::Class::Invalid`], naming the transition. What is wrong with its members is said by [`Timing::kind`].
pub fn read_rates(text: &[u8]) -> Result<Vec<Timing>, Refusal> {
    match Tree::read(text)? {
        Tree::Object(members) => Ok(members.into_iter().map(|(name, tree)| Timing { name, tree }).collect()),
        other => Err(Refusal::invalid("rates", format!("this is {}, and an object is wanted", other.sort()))),
    }
}

impl Timing {
    /// Its kind, in a net where places have these names and indices.
    ///
    /// # Errors
    /// [`crate::Class::Invalid`], naming the transition.
    pub fn kind(&self, places: &HashMap<String, usize>) -> Result<Kind, Refusal> {
        let tree = match &self.tree {
            rate @ (Tree::Whole(_) | Tree::Number(_)) => Tree::Object(vec![
                ("kind".to_owned(), Tree::Text("timed".to_owned())),
                ("rate".to_owned(), rate.clone()),
            ]),
            other => other.clone(),
        };
        let mut members = Members::of(tree, &self.name)?;
        let kind = nets::kind(&mut members, places)?;
        members.end()?;
        Ok(kind)
    }
}
