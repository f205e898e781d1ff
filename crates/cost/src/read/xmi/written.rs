//! What an element says as text: comments and processing instructions in it say nothing, and what stands on both sides of them is one text.

use roxmltree::Node;

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
