//! What tools say for themselves in `toolspecific` of PNML: what is known to change no firing is passed over, all else refused. Left out: times,
//! which nets of these tools get from a file beside them.

use hashbrown::HashMap;
use roxmltree::Node;

use super::pnml::value;
use super::xml::{self, inside, line, name, owner};
use crate::{Class, Refusal};

/// Elements by which tools say in `toolspecific` how something looks, with all that is in them.
const DRAWN: [&str; 26] = [
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
    "FontName",
    "FontSize",
    "FontStyle",
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
    match inside(node).find(|child| !DRAWN.contains(&name(*child)) && !usual(tool, *child)) {
        Some(child) => {
            let said = child.attribute("key").map_or_else(String::new, |key| format!(" {key}"));
            refused(child, &format!("{}{said}", name(child)))
        }
        None => Ok(()),
    }
}

/// What tools write everywhere and what changes no firing: of WoPeD a time of 0, a branch that is taken whenever it can be, lists with nothing in
/// them, what a transition waits for, which is a part of its time, and which transitions are drawn as one (see [`branches`]); of JARP an arrow
/// with its tip at the end; of Yasper comments, and how it compares the names of cases, which plain tokens have not.
fn usual(tool: &str, child: Node<'_, '_>) -> bool {
    match name(child) {
        "time" => number(child) == Some(0.0),
        "probability" => number(child) == Some(1.0),
        // Who works in the company, and in which part of it: a transition says for itself whom it needs.
        "resources" if tool == "WoPeD" && said_of(child) == "net" => true,
        "resources" | "simulations" | "partnerLinks" | "variables" => {
            inside(child).next().is_none() && xml::text(child).is_empty()
        }
        "trigger" => tool == "WoPeD" && inside(child).all(|inner| name(inner) == "graphics"),
        "operator" => tool == "WoPeD" && gateway(child).is_some(),
        "comment" | "tokenCaseSensitive" => tool == "Yasper",
        "ArrowMode" => value(child).as_deref() == Some("2"),
        _ => false,
    }
}

/// What stands in it, if that is a number and nothing else.
fn number(child: Node<'_, '_>) -> Option<f64> {
    xml::text(child).parse().ok().filter(|_| inside(child).next().is_none())
}

/// The element of which it is said, around the tool's.
fn said_of<'a>(child: Node<'a, '_>) -> &'a str {
    child.parent().and_then(|tool| tool.parent()).map(name).unwrap_or_default()
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

/// Whether each transition of a gateway of WoPeD takes from one place only, and gives to one only. The net has a transition for each branch, so
/// that its arcs say all that the gateway does.
fn gateway(operator: Node<'_, '_>) -> Option<(bool, bool)> {
    match operator.attribute("type")? {
        // AND: split, join, both.
        "101" | "102" | "107" => Some((false, false)),
        // XOR: split, or split behind an AND-join.
        "104" | "108" => Some((false, true)),
        // XOR: join, or join in front of an AND-split.
        "105" | "109" => Some((true, false)),
        // XOR-join and XOR-split, with a place between.
        "106" => Some((true, true)),
        _ => None,
    }
}

/// A file that somebody else wrote may have one transition where WoPeD has one for each branch of an XOR: its arcs would be those of an AND.
pub(super) fn branches(nodes: &[Node<'_, '_>]) -> Result<(), Refusal> {
    let mut arcs: HashMap<(&str, &str), usize> = HashMap::new();
    for arc in nodes.iter().filter(|node| name(**node) == "arc") {
        for key in ["source", "target"] {
            *arcs.entry((key, arc.attribute(key).unwrap_or_default())).or_default() += 1;
        }
    }
    for node in nodes.iter().filter(|node| name(**node) == "transition") {
        let remarks = inside(*node).filter(|child| child.attribute("tool") == Some("WoPeD"));
        let operators = remarks.flat_map(inside).filter(|child| name(*child) == "operator");
        for (operator, (takes, gives)) in operators.filter_map(|it| Some((it, gateway(it)?))) {
            let id = xml::need(*node, "id")?;
            for (alone, key, side) in
                [(takes, "target", "takes from one of its places"), (gives, "source", "gives to one of its places")]
            {
                if alone && arcs.get(&(key, id)).is_some_and(|count| *count > 1) {
                    let why = format!(
                        "line {}: the tool `WoPeD` says that it {side} (`operator`), and its arcs say all of them: have a transition for each",
                        line(operator)
                    );
                    return Err(Refusal::new(Class::Unsupported, id, why));
                }
            }
        }
    }
    Ok(())
}
