//! What tools say for themselves in `toolspecific` of PNML: what is known to change no firing is passed over, all else refused. Left out: times,
//! which nets of these tools get from a file beside them.

use roxmltree::Node;

use super::xml::{self, inside, line, name, owner};
use crate::{Class, Refusal};

/// Elements by which tools say in `toolspecific` how something looks, with all that is in them.
const DRAWN: [&str; 23] = [
    "graphics",
    "tokengraphics",
    "position",
    "dimension",
    "offset",
    "orientation",
    "fill",
    "line",
    "font",
    // JARP
    "FrameColor",
    "FillColor",
    // WoPeD; a unit of time says nothing without a time
    "bounds",
    "scale",
    "timeUnit",
    "displayProbabilityOn",
    "displayProbabilityPosition",
    "treeWidth",
    "treeWidthRight",
    "treeHeight",
    "treeHeightOverview",
    "treePanelVisible",
    "overviewPanelVisible",
    "verticalLayout",
];

/// What a tool says in attributes of `toolspecific` of no firing: ProM whether a log has it, and its own id.
const REMARKS: [&str; 4] = ["tool", "version", "localNodeID", "activity"];

/// What one tool says for itself: ISO/IEC 15909-2 has others pass over it. Times and gateways stand there, too; so what is known to change no
/// firing is passed over, and the rest refused.
pub(super) fn remark(node: Node<'_, '_>) -> Result<(), Refusal> {
    let tool = node.attribute("tool").unwrap_or_default();
    // Units of a nested net order its places and fire nothing.
    if tool == "nupn" {
        return Ok(());
    }
    let refused = |at: Node<'_, '_>, what: &str| {
        let why = format!(
            "line {}: what the tool `{tool}` says of it (`{what}`) is not understood: {}",
            line(at),
            advice(name(at))
        );
        Err(Refusal::new(Class::Unsupported, owner(node, "toolspecific"), why))
    };
    if let Some(other) = node.attributes().find(|it| it.namespace().is_none() && !REMARKS.contains(&it.name())) {
        return refused(node, other.name());
    }
    if !xml::text(node).is_empty() {
        return refused(node, &xml::text(node).chars().take(40).collect::<String>());
    }
    match inside(node).find(|child| !DRAWN.contains(&name(*child)) && !usual(*child)) {
        Some(child) => {
            let said = child.attribute("key").map_or_else(String::new, |key| format!(" {key}"));
            refused(child, &format!("{}{said}", name(child)))
        }
        None => Ok(()),
    }
}

/// A time of 0, a branch that is taken whenever it can be and lists with nothing in them are what WoPeD writes everywhere.
fn usual(child: Node<'_, '_>) -> bool {
    match name(child) {
        "time" => xml::text(child).parse() == Ok(0.0),
        "probability" => xml::text(child).parse() == Ok(1.0),
        "resources" | "simulations" | "partnerLinks" | "variables" => {
            inside(child).next().is_none() && xml::text(child).is_empty()
        }
        _ => false,
    }
}

/// What helps with what a tool says of its own.
fn advice(what: &str) -> &'static str {
    match what {
        "time" | "probability" => "say it in the file of rates, and take it out here",
        // The parameter of an exponential time is a mean to ProM, and a rate to pm4py, which write the same.
        "property" => {
            "say in the file of rates when transitions fire, and take it out here; tools do not agree on whether a parameter is a mean or a rate"
        }
        _ => "take it out if it does not change what fires, or when",
    }
}
