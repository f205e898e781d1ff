//! What a file says where nothing looks for it, says twice, or says elsewhere: each of it would be lost.

use std::collections::BTreeSet;

use roxmltree::Node;

use super::combined::is_guard;
use super::{Reader, attribute, called, kind, led, sort};
use crate::{Class, Fault};

/// What leads to one element, by the elements that have it.
const ONE: [(&str, &[&str]); 6] = [
    ("ownedAttribute", &["type"]),
    ("end", &["role", "partWithPort"]),
    ("lifeline", &["represents"]),
    ("message", &["sendEvent", "receiveEvent"]),
    ("fragment", &["message", "start", "finish", "refersTo"]),
    ("deployment", &["location"]),
];
/// What stands in an element once at most, and is read there.
const AT_MOST_ONE: [(&str, &[&str]); 3] = [
    ("guard", &["minint", "maxint", "specification"]),
    ("ownedAttribute", &["upperValue"]),
    ("ownedEnd", &["upperValue"]),
];
/// What an element is made of, by its tag: what stands there stands in this file.
const PARTS: [(&str, &[&str]); 4] = [
    ("CombinedFragment", &["operand"]),
    ("Interaction", &["lifeline", "message", "fragment"]),
    ("InteractionOperand", &["fragment", "guard"]),
    ("", &["packagedElement", "nestedClassifier", "nestedNode", "ownedAttribute", "ownedConnector", "ownedBehavior"]),
];

impl<'a> Reader<'a> {
    pub(super) fn strays(&self, left_out: &[String]) -> Result<(), Fault> {
        for element in self.elements.iter().copied() {
            self.inside(element, left_out)?;
            self.elsewhere(element)?;
            self.said_once(element)?;
        }
        Ok(())
    }

    /// A stereotype that is applied inside of the model.
    fn inside(&self, element: Node<'a, 'a>, left_out: &[String]) -> Result<(), Fault> {
        let stereotype = element.tag_name().name();
        let is_base = |name: &str| name.starts_with("base_");
        let is_applied = element.attributes().any(|it| is_base(it.name()))
            || element.children().any(|it| it.is_element() && is_base(it.tag_name().name()));
        let in_model = || element.ancestors().skip(1).any(|around| around.tag_name().name() == "Model");
        if !is_applied || !in_model() || left_out.iter().any(|it| it == stereotype) {
            return Ok(());
        }
        let why =
            "it is applied inside of the model, where none is looked for: write it behind `uml:Model`, in `xmi:XMI`";
        Err(Fault::new(Class::UnknownStereotype, stereotype, why).at(self.lines.line(element)))
    }

    /// A part that lies in another file.
    fn elsewhere(&self, part: Node<'a, 'a>) -> Result<(), Fault> {
        let Some(around) = part.parent_element() else { return Ok(()) };
        let (tag, of) = (part.tag_name().name(), sort(around));
        let is_part = PARTS.iter().any(|(whole, tags)| (whole.is_empty() || *whole == of) && tags.contains(&tag));
        let Some(href) = part.attributes().find(|it| it.name() == "href").filter(|_| is_part) else { return Ok(()) };
        let why = format!("its part `{tag}` is `{}`, which is not followed: one file is read", href.value());
        Err(self.lines.words(around, around.tag_name().name()).fault(Class::NoSuchName, self.lines.line(part), why))
    }

    /// One that is wanted and of which two are said, and which are not the same.
    fn said_once(&self, element: Node<'a, 'a>) -> Result<(), Fault> {
        let tag = element.tag_name().name();
        let mut guards = element.children().filter(|it| is_guard(*it));
        if let (Some(_), Some(second)) = (guards.next(), guards.next()) {
            let words = self.lines.words(element, tag);
            return Err(words.fault(Class::Doubled, self.lines.line(second), "it has two guards: which is meant?"));
        }
        for key in AT_MOST_ONE.iter().filter(|(of, _)| *of == tag).flat_map(|(_, keys)| *keys) {
            let second = element.children().filter(|it| it.tag_name().name() == *key).nth(1);
            if let Some(second) = second {
                let why = format!("its `{key}` is said twice: which is meant?");
                return Err(self.lines.words(element, tag).fault(Class::Doubled, self.lines.line(second), why));
            }
        }
        for key in ONE.iter().filter(|(of, _)| *of == tag).flat_map(|(_, keys)| *keys) {
            let attributes = element.attributes().filter(|it| it.name() == *key && kind(element, it.value()).is_none());
            let children = element.children().filter(|it| it.tag_name().name() == *key);
            let children = children.filter_map(|it| led(it).or_else(|| attribute(it, "href")));
            let said: BTreeSet<&str> = attributes.map(|it| it.value()).chain(children).collect();
            if let [one, other, ..] = said.into_iter().collect::<Vec<_>>().as_slice() {
                let why = format!("its `{key}` is `{one}` and `{other}`: which is meant?");
                return Err(self.lines.words(element, tag).fault(Class::Doubled, 0, why));
            }
        }
        Ok(())
    }

    /// A message between two parts of one component would count as a call of its own, and one to itself goes over no connector.
    pub(super) fn stays(&self, message: Node<'a, 'a>, ends: [Node<'a, 'a>; 2], of: &str) -> Result<(), Fault> {
        let words = self.lines.words(message, "message");
        let [from, to] = ends;
        if from != to {
            let why = format!(
                "it is sent from `{}` to `{}`, which are both the component `{of}`: it would count as a call of its own, give each a component",
                called(from),
                called(to)
            );
            return Err(words.fault(Class::Invalid, 0, why));
        }
        if self.connector(message, &words)?.is_some() {
            let why = format!("it has a `connector`, and goes from `{of}` to itself: nothing is sent, take it out");
            return Err(words.fault(Class::Invalid, 0, why));
        }
        Ok(())
    }
}
