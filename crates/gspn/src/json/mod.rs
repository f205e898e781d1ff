//! A net and its questions as one JSON document: `{ "name", "net": {"places", "transitions"}, "ask", "limit" }`.
//!
//! Strict where a slip changes the answer: a key that stands twice, an unknown member inside `net` or `ask`, a number that is not
//! finite or out of range are refused by name. Unknown members at the top level are passed over.

mod asks;
mod member;
mod nets;
mod rates;
mod tree;
mod write;

use std::borrow::Cow;

pub use self::rates::{Timing, read_rates};
pub use self::write::write;

use self::member::Members;
use self::tree::Tree;
use crate::ask::Ask;
use crate::{Class, Net, Refusal};

/// The JSON schema of documents and answers.
pub const SCHEMA: &str = include_str!("schema.json");

/// A document that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// The net.
    pub net: Net,
    /// The questions, in the order given; none where the document has none.
    pub asks: Vec<Ask>,
    /// The most markings, tangible and vanishing, that may be explored, where the document says so.
    pub limit: Option<u64>,
}

/// Reads a document.
///
/// # Errors
/// [`Class::Invalid`], naming the place, transition, question or member; [`Class::Unsupported`] for JANI, which is JSON, too.
pub fn read(text: &[u8]) -> Result<Document, Refusal> {
    let mut members = Members::of(Tree::read(text, "document")?, "document")?;
    let name = match members.take("name") {
        None => Cow::default(),
        Some(Tree::Text(name)) => name,
        Some(other) => {
            return Err(Refusal::invalid("name", format!("this is {}, and a string is wanted", other.sort())));
        }
    };
    let net = match members.take("net") {
        Some(net) => nets::read(&name, net)?,
        None if members.take("jani-version").is_some() => {
            let why = "this is JANI, which is written (`--to jani`) and not read: nets are read from JSON, PNPRO, PNML and eDSPN";
            return Err(Refusal::new(Class::Unsupported, "document", why));
        }
        None => return Err(members.wrong("`net` is missing".to_owned())),
    };
    let asks = members.take("ask").map(|tree| asks::read(tree, &net)).transpose()?.unwrap_or_default();
    let limit = members.take("limit").map(|tree| member::whole(&tree, "limit", "limit")).transpose()?;
    if limit == Some(0) {
        return Err(Refusal::invalid("limit", "a limit of 0 markings leaves nothing to explore: at least 1"));
    }
    Ok(Document { net, asks, limit })
}

/// Reads questions that stand beside a net: a list, or an object with `ask`.
///
/// # Errors
/// [`Class::Invalid`], naming the question.
pub fn read_asks(text: &[u8], net: &Net) -> Result<Vec<Ask>, Refusal> {
    let tree = match Tree::read(text, "questions")? {
        list @ Tree::List(_) => list,
        other => Members::of(other, "questions")?.need("ask")?,
    };
    asks::read(tree, net)
}
