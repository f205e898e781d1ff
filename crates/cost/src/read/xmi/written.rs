//! What an element says as text: comments and processing instructions in it say nothing, and what stands on both sides of them is one text.
//! A property may be written as an element with its text instead of an attribute.

use std::collections::BTreeSet;

use roxmltree::Node;

use super::Reader;
use crate::{Class, Fault};

/// Properties that are one text, and that XMI lets tools write as elements.
const PROPERTIES: [&str; 5] = ["name", "interactionOperator", "messageSort", "aggregation", "value"];

/// The text of an element.
///
/// # Errors
/// An element in it, which would be lost.
pub(super) fn text<'a>(element: Node<'a, 'a>) -> Result<String, Node<'a, 'a>> {
    match element.children().find(Node::is_element) {
        Some(inside) => Err(inside),
        None => Ok(element.children().filter(Node::is_text).filter_map(|it| it.text()).collect()),
    }
}

/// A property that is written as an element: its text, if that is one piece.
pub(super) fn property<'a>(of: Node<'a, '_>, name: &str) -> Option<&'a str> {
    let element = of.children().find(|it| it.is_element() && it.tag_name().name() == name)?;
    match pieces(element).as_slice() {
        [only] => Some(only.trim()),
        _ => None,
    }
}

/// What stands between comments and elements.
fn pieces<'a>(element: Node<'a, '_>) -> Vec<&'a str> {
    let texts = element.children().filter(Node::is_text).filter_map(|it| it.text());
    texts.filter(|it| !it.trim().is_empty()).collect()
}

impl Reader<'_> {
    /// Refuses a property that is written as an element and of which only a part would be read.
    pub(super) fn whole_properties(&self) -> Result<(), Fault> {
        let mut before = BTreeSet::new();
        for element in self.elements.iter().copied() {
            let name = element.tag_name().name();
            let Some(of) = element.parent_element().filter(|_| PROPERTIES.contains(&name)) else { continue };
            let (pieces, inside) = (pieces(element).len(), element.children().any(|it| it.is_element()));
            if pieces == 0 {
                continue;
            }
            let fault = |class, why: &str| {
                let words = self.lines.words(of, of.tag_name().name());
                Err(words.fault(class, self.lines.line(element), format!("its `{name}` {why}")))
            };
            if pieces > 1 || inside {
                return fault(Class::Invalid, "is cut by what stands in it: write it as one text");
            }
            if !before.insert((of, name)) || of.attributes().any(|it| it.name() == name) {
                return fault(Class::Doubled, "stands twice: which is meant?");
            }
        }
        Ok(())
    }
}
