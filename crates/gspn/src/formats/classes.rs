//! What a net of PNML says of itself as a whole: the class it is of, and attributes. Left out: what stands in it.

use roxmltree::Node;

use super::xml::line;
use crate::{Class, Refusal};

/// What tools say of a net in attributes and what changes no firing: PIPE whether it is the one that is edited.
const ATTRIBUTES: [&str; 4] = ["id", "type", "name", "active"];

/// How the names of classes begin that are known to be others, in small letters without signs; and what nets of it have. Tools have many
/// names for place/transition nets, so that what is not known is read as one.
const OTHERS: [(&str, &str); 19] = [
    ("symmetricnet", COLOURED),
    ("highlevel", COLOURED),
    ("hlpn", COLOURED),
    ("hlnet", COLOURED),
    ("hlcore", COLOURED),
    ("pthlpng", COLOURED),
    ("coloured", COLOURED),
    ("colored", COLOURED),
    ("cpn", COLOURED),
    ("algebraic", COLOURED),
    ("npn", "nets as tokens"),
    ("nested", "nets as tokens"),
    ("hpn", FLOWS),
    ("fspn", FLOWS),
    ("reset", "arcs that take all tokens"),
    ("timed", TIMES),
    ("timepetri", TIMES),
    ("tpn", TIMES),
    ("tapn", TIMES),
];

const COLOURED: &str = "coloured tokens";

const FLOWS: &str = "places that hold no whole numbers of tokens";

const TIMES: &str = "times that are not understood";

/// Refuses what says that the net is of another class, and attributes that are not known: one may say when it fires, or how.
pub(super) fn class(net: Node<'_, '_>) -> Result<(), Refusal> {
    let refused = |why: String| Err(Refusal::new(Class::Unsupported, "net", format!("line {}: {why}", line(net))));
    let sort = net.attribute("type").unwrap_or_default();
    if let Some(have) = other(sort) {
        return refused(format!("nets of type `{sort}` have {have}"));
    }
    for attribute in net.attributes().filter(|attribute| attribute.namespace().is_none()) {
        match (attribute.name(), attribute.value()) {
            // A browser's editor writes which of its nets it is.
            ("netMode", "pt") => {}
            (key, _) if ATTRIBUTES.contains(&key) => {}
            (key, text) => return refused(format!("its attribute `{key}` (`{text}`) is not understood")),
        }
    }
    Ok(())
}

/// What nets of a type have, if it is known to be another one. Most types are addresses, whose last part says it.
fn other(sort: &str) -> Option<&'static str> {
    let address = sort.contains("://");
    let last = sort.trim_end_matches('/').rsplit(['/', '#']).next().filter(|_| address).unwrap_or(sort);
    let letters: String = last.chars().filter(|next| next.is_alphanumeric()).collect();
    let letters = letters.to_lowercase();
    if ["continuous", "hybrid", "fluid"].iter().any(|flows| letters.contains(flows)) {
        return Some(FLOWS);
    }
    OTHERS.iter().find(|(begins, _)| letters.starts_with(begins)).map(|(_, have)| *have)
}
