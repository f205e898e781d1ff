//! What stands in a net of PNML and belongs to nothing that is read: elements and attributes of other namespaces, and text.

use roxmltree::Node;

use super::pnml::values;
use super::remarks::remark;
use super::xml::{self, inside, line, name, owner};
use crate::{Class, Refusal};

/// Attributes of these say nothing of a net: of the language, and of where a schema is.
const SILENT: [&str; 2] = ["http://www.w3.org/XML/1998/namespace", "http://www.w3.org/2001/XMLSchema-instance"];

/// What has its text in a `value` or a `text`.
const VALUED: [&str; 9] =
    ["initialMarking", "capacity", "inscription", "type", "arctype", "rate", "timed", "infiniteServer", "priority"];

/// What has it in an attribute `value`, too.
const SORTS: [&str; 2] = ["type", "arctype"];

/// What else has a value in it, and may be without.
const OTHERS: [&str; 3] = ["name", "tagged", "silent"];

/// Refuses elements of another namespace than what they stand in: they only have the names of what is known.
pub(super) fn elements(around: Node<'_, '_>) -> Result<(), Refusal> {
    let strange = |child: &Node<'_, '_>| space(*child) != space(around) && name(*child) != "toolspecific";
    match inside(around).find(strange) {
        None => Ok(()),
        Some(child) => {
            let of = space(child).map_or_else(|| "no namespace".to_owned(), |space| format!("the namespace `{space}`"));
            let why = format!(
                "line {}: the element `{}` of {of} is not understood: it has another than `{}` around it",
                line(child),
                name(child),
                name(around)
            );
            Err(Refusal::new(Class::Unsupported, owner(child, name(child)), why))
        }
    }
}

/// `xmlns=""` says that there is none.
fn space<'a>(node: Node<'a, '_>) -> Option<&'a str> {
    node.tag_name().namespace().filter(|space| !space.is_empty())
}

/// Refuses attributes of other namespaces.
pub(super) fn attributes(node: Node<'_, '_>) -> Result<(), Refusal> {
    for attribute in node.attributes() {
        if let Some(space) = attribute.namespace().filter(|space| !SILENT.contains(space)) {
            let (key, text) = (attribute.name(), attribute.value());
            let why = format!(
                "line {}: its attribute `{key}` (`{text}`) of the namespace `{space}` is not understood",
                line(node)
            );
            return Err(Refusal::new(Class::Unsupported, owner(node, name(node)), why));
        }
    }
    Ok(())
}

/// Refuses text between elements.
pub(super) fn text(around: Node<'_, '_>) -> Result<(), Refusal> {
    loose(around, owner(around, name(around)))
}

/// Refuses text between elements, by a name.
pub(super) fn loose(around: Node<'_, '_>, owner: &str) -> Result<(), Refusal> {
    let parts = around.children().filter(|child| child.is_text());
    for part in parts {
        let said = part.text().unwrap_or_default().trim();
        if !said.is_empty() {
            let why = format!(
                "line {}: the text `{}` stands in it and belongs to nothing: take it out, or put it into an element",
                begins(part),
                said.chars().take(40).collect::<String>()
            );
            return Err(Refusal::invalid(owner, why));
        }
    }
    Ok(())
}

/// The line of the first letter of a text that is not blank.
fn begins(part: Node<'_, '_>) -> u32 {
    let source = part.document().input_text().get(part.range()).unwrap_or_default();
    let blank = source.len() - source.trim_start().len();
    part.document().text_pos_at(part.range().start + blank).row
}

/// Refuses text that stands where a `value` or a `text` has to be around it.
pub(super) fn bare(around: Node<'_, '_>) -> Result<(), Refusal> {
    for child in inside(around).filter(|child| VALUED.contains(&name(*child))) {
        let (said, called) = (xml::text(child), name(child));
        if !said.is_empty() {
            let said: String = said.chars().take(40).collect();
            let why = match values(child).next() {
                None => format!("write `<{called}><value>{said}</value></{called}>`"),
                Some(_) => "there is a value, too, so take one of both out".to_owned(),
            };
            let why = format!(
                "line {}: the text `{said}` of its `{called}` has no `value` or `text` around it: {why}",
                line(child)
            );
            return Err(Refusal::invalid(owner(around, name(around)), why));
        }
    }
    Ok(())
}

/// Refuses what stands in a label and is none of its parts, and attributes of one: each may say more than the value does.
pub(super) fn labels(around: Node<'_, '_>) -> Result<(), Refusal> {
    for label in inside(around) {
        let valued = VALUED.contains(&name(label));
        if valued {
            attributes(label)?;
            said(label)?;
        }
        if valued || OTHERS.contains(&name(label)) {
            elements(label)?;
            inside(label).try_for_each(|part| self::part(label, part))?;
        }
    }
    Ok(())
}

/// Refuses attributes of a label, but for an id and for what sort an arc is of.
fn said(label: Node<'_, '_>) -> Result<(), Refusal> {
    let called = name(label);
    let usual = |key: &str| key == "id" || (key == "value" && SORTS.contains(&called));
    let Some(other) = label.attributes().find(|it| it.namespace().is_none() && !usual(it.name())) else {
        return Ok(());
    };
    let (key, text) = (other.name(), other.value());
    let instead = match key {
        "value" => format!(": write `<{called}><value>{text}</value></{called}>`"),
        _ => String::new(),
    };
    let why =
        format!("line {}: the attribute `{key}` (`{text}`) of its `{called}` is not understood{instead}", line(label));
    Err(Refusal::new(Class::Unsupported, owner(label, called), why))
}

/// Refuses elements in a label but its value, without any in it, how it looks, and what a tool says and changes nothing.
fn part(label: Node<'_, '_>, part: Node<'_, '_>) -> Result<(), Refusal> {
    let strange = match name(part) {
        "graphics" => None,
        "toolspecific" => return remark(part),
        "value" | "text" => inside(part).next(),
        _ => Some(part),
    };
    let Some(strange) = strange else { return Ok(()) };
    let why = format!(
        "line {}: the element `{}` in its `{}` is not understood: take it out",
        line(strange),
        name(strange),
        name(label)
    );
    Err(Refusal::new(Class::Unsupported, owner(label, name(label)), why))
}
