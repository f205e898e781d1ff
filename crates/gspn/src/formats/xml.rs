//! Elements and attributes, and text that is safe between them.

use std::borrow::Cow;

use roxmltree::Node;

use crate::Refusal;

/// The elements inside.
pub(super) fn inside<'a, 'i>(node: Node<'a, 'i>) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(Node::is_element)
}

pub(super) fn name<'a>(node: Node<'a, '_>) -> &'a str {
    node.tag_name().name()
}

/// An attribute that has to be there.
pub(super) fn need<'a>(node: Node<'a, '_>, key: &str) -> Result<&'a str, Refusal> {
    node.attribute(key).ok_or_else(|| Refusal::invalid(name(node), format!("line {}: `{key}` is missing", line(node))))
}

/// Where it begins.
pub(super) fn line(node: Node<'_, '_>) -> u32 {
    node.document().text_pos_at(node.range().start).row
}

/// The id of what it stands in, itself included.
pub(super) fn owner<'a>(node: Node<'a, '_>, otherwise: &'a str) -> &'a str {
    node.ancestors().find_map(|around| around.attribute("id")).unwrap_or(otherwise)
}

/// All text in an element: comments and instructions are no part of it, and may stand in the midst of it (XML 1.0 section 2.5).
pub(super) fn text<'a>(node: Node<'a, '_>) -> Cow<'a, str> {
    let mut parts = node.children().filter(Node::is_text).filter_map(|part| part.text());
    let first = parts.next().unwrap_or_default();
    match parts.next() {
        None => Cow::Borrowed(first.trim()),
        Some(second) => Cow::Owned([first, second].into_iter().chain(parts).collect::<String>().trim().to_owned()),
    }
}

/// Refuses elements that stand twice inside one and do not agree on what it is, but for those that may stand `often`.
pub(super) fn once(node: Node<'_, '_>, owner: &str, often: &[&str]) -> Result<(), Refusal> {
    let mut seen: Vec<&str> = Vec::new();
    for child in inside(node).map(name).filter(|child| !often.contains(child)) {
        if seen.contains(&child) {
            return Err(Refusal::invalid(owner, format!("`{child}` stands twice in `{}`", name(node))));
        }
        seen.push(child);
    }
    Ok(())
}

/// Text between quotes or tags.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for next in text.chars() {
        match next {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\r' | '\t' => escaped.push_str(&format!("&#{};", u32::from(next))),
            _ => escaped.push(next),
        }
    }
    escaped
}

/// Whether XML has a way to write it (XML 1.0 section 2.2).
pub(super) fn in_xml(next: char) -> bool {
    matches!(next, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}')
}

/// A name that XML can hold.
///
/// # Errors
/// Where it has a character that XML has no way to write, or blanks at an end, which readers take away.
pub(super) fn holdable(name: &str) -> Result<(), Refusal> {
    writable(name)?;
    if name.trim() == name {
        return Ok(());
    }
    let why = "this name begins or ends with blanks, which readers of XML take away: rename it";
    Err(Refusal::new(crate::Class::Unsupported, name, why))
}

/// A name that XML can write.
///
/// # Errors
/// Where it has a character that XML has no way to write.
pub(super) fn writable(name: &str) -> Result<(), Refusal> {
    let Some(next) = name.chars().find(|next| !in_xml(*next)) else { return Ok(()) };
    let why = format!("this name has the character U+{:04X}, which XML cannot hold: rename it", u32::from(next));
    Err(Refusal::new(crate::Class::Unsupported, name, why))
}
