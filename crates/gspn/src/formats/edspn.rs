//! Extended deterministic and stochastic Petri nets as TimeNET saves them.

use roxmltree::Node;

use super::document;
use super::draft::Draft;
use super::encoding::xml_text;
use super::expression::{Constants, Definition, of};
use super::strays::loose;
use super::xml::{self, inside, name};
use crate::net::{Kind, Net, Rate, Servers};
use crate::{Class, Refusal};

/// What a node or an arc is called in the file, and what changes no net of plain tokens: the priority in discrete time, by what a time is
/// specified, who is taken first from a queue, and what is drawn while a net runs.
const HARMLESS: [&str; 6] = ["id", "DTSPNpriority", "specType", "takeFirst", "queue", "watch"];

pub(super) fn read(text: &[u8], set: &[(String, String)]) -> Result<Net, Refusal> {
    let text = xml_text(text)?;
    let parsed = document::parse(&text)?;
    let root = parsed.root_element();
    if !matches!(name(root), "net" | "eDSPNNet" | "EDSPNNet") {
        return Err(Refusal::invalid(
            name(root),
            "the outermost element of an eDSPN is `net`, its `netclass` is `eDSPN`",
        ));
    }
    match (root.attribute("netclass"), root.attribute("type")) {
        (None | Some("eDSPN"), None) | (Some("eDSPN"), _) => {}
        (Some(class), _) => {
            let why =
                format!("nets of class `{class}` are not understood: of TimeNET's those of class `eDSPN` are read");
            return Err(unsupported(name(root), why));
        }
        (None, Some(_)) => {
            return Err(Refusal::invalid(name(root), "a net of PNML stands in a `pnml`: put that around it"));
        }
    }
    loose(root, "net")?;
    let constants = constants(root, set)?;
    let mut draft = Draft::default();
    for node in inside(root) {
        self::node(node, &constants, &mut draft)?;
    }
    for node in inside(root) {
        arc(node, &constants, &mut draft)?;
    }
    if let Some(name) = draft.unbounded() {
        let why = "its `serverType` is `InfiniteServer` and there is no input arc: nothing bounds its rate; \
                   write `ExclusiveServer` for one server";
        return Err(Refusal::invalid(name, why));
    }
    draft.net(root.attribute("id").unwrap_or_default())
}

fn unsupported(name: &str, why: impl Into<String>) -> Refusal {
    Refusal::new(Class::Unsupported, name, why)
}

/// Refuses an attribute that says something and is neither in `known` nor harmless, and an element that is not in `children`.
fn only(node: Node<'_, '_>, called: &str, known: &[&str], children: &[&str]) -> Result<(), Refusal> {
    for attribute in node.attributes().filter(|attribute| attribute.namespace().is_none()) {
        let (key, text) = (attribute.name(), attribute.value().trim());
        // Nobody is kept out where a capacity is 0: so it is saved where there is none.
        let silent = text.is_empty() || (key == "capacity" && text == "0");
        if key == "capacity" && !silent {
            let why = format!(
                "its capacity `{text}` is not understood: an inhibitor arc to each transition that fills it says the same"
            );
            return Err(unsupported(called, why));
        }
        let usual = HARMLESS.contains(&key) || (key == "type" && sort(name(node), text));
        if !silent && !usual && !known.contains(&key) {
            return Err(unsupported(called, format!("its attribute `{key}` (`{text}`) is not understood")));
        }
    }
    xml::once(node, called, &["graphics", "handle"])?;
    loose(node, called)?;
    inside(node).try_for_each(|part| loose(part, called))?;
    match inside(node).map(name).find(|child| *child != "graphics" && !children.contains(child)) {
        Some(child) => Err(unsupported(called, format!("the element `{child}` in it is not understood"))),
        None => Ok(()),
    }
}

/// Whether a `type` says of an element no more than its name does.
fn sort(element: &str, text: &str) -> bool {
    match element {
        "arc" => text == "connector",
        "inhibit" => matches!(text, "connector" | "inhibitor"),
        _ => text == "node",
    }
}

/// Refuses a number that another marking would change.
fn fixed(called: &str, key: &str, text: &str) -> Result<(), Refusal> {
    let choice = text.split_whitespace().next().is_some_and(|word| word.eq_ignore_ascii_case("if"));
    if text.contains('#') || choice {
        return Err(unsupported(called, format!("its `{key}` `{text}` depends on the marking")));
    }
    Ok(())
}

fn constants(net: Node<'_, '_>, set: &[(String, String)]) -> Result<Constants, Refusal> {
    let definitions = inside(net).filter(|node| name(*node) == "definition").map(|node| {
        let whole = node.attribute("defType").unwrap_or("int");
        Ok(Definition {
            name: xml::need(node, "name")?,
            text: node.attribute("expression").filter(|text| !text.trim().is_empty()),
            whole: Some(whole).filter(|whole| *whole == "int"),
        })
    });
    Constants::of(definitions.collect::<Result<Vec<_>, Refusal>>()?, set, true)
}

/// What a node is called: its label, else its id.
fn called<'a>(node: Node<'a, '_>, id: &'a str) -> &'a str {
    let label = inside(node).find(|child| name(*child) == "label");
    label.and_then(|label| label.attribute("text")).filter(|text| !text.is_empty()).unwrap_or(id)
}

fn node(node: Node<'_, '_>, constants: &Constants, draft: &mut Draft) -> Result<(), Refusal> {
    let sort = name(node);
    match sort {
        "place" => {
            let id = xml::need(node, "id")?;
            let called = called(node, id);
            only(node, called, &["initialMarking"], &["label"])?;
            let text = node.attribute("initialMarking").unwrap_or("0");
            fixed(called, "initialMarking", text)?;
            let tokens = constants.whole(text).map_err(of("initialMarking"));
            draft.place(id, called, tokens.map_err(|why| Refusal::invalid(called, why))?)
        }
        "exponentialTransition" | "immediateTransition" | "deterministicTransition" => {
            let id = xml::need(node, "id")?;
            let called = called(node, id);
            let known = match sort {
                "immediateTransition" => ["priority", "weight", "enablingFunction", "serverType"].as_slice(),
                _ => &["delay", "serverType", "preemptionPolicy", "enablingFunction"],
            };
            only(node, called, known, &["label"])?;
            draft.transition(id, called, kind(node, sort, called, constants)?)
        }
        "generalTransition" => {
            let id = xml::need(node, "id")?;
            let time = node.attribute("timeFunction").or(node.attribute("delay"));
            let time = time.map_or_else(String::new, |time| format!(" `{time}`"));
            Err(unsupported(called(node, id), format!("the time{time} of a general transition is not understood")))
        }
        "definition" => loose(node, node.attribute("name").unwrap_or(sort)),
        // A measure is a question, and no part of the net.
        "arc" | "inhibit" | "measure" | "comment" | "graphics" => Ok(()),
        other => {
            let called = node.attribute("id").unwrap_or(other);
            Err(unsupported(called, format!("the element `{other}` is not understood")))
        }
    }
}

fn kind(node: Node<'_, '_>, sort: &str, called: &str, constants: &Constants) -> Result<Kind, Refusal> {
    let invalid = |why: String| Refusal::invalid(called, why);
    let value = |key: &str, usual: &str| {
        constants.value(node.attribute(key).unwrap_or(usual)).map_err(of(key)).map_err(invalid)
    };
    let guard = node.attribute("enablingFunction").unwrap_or_default().trim();
    if !guard.is_empty() {
        return Err(unsupported(called, format!("its enabling function `{guard}` is not understood")));
    }
    for key in ["delay", "weight", "priority"] {
        fixed(called, key, node.attribute(key).unwrap_or_default())?;
    }
    if let Some(policy) = node.attribute("preemptionPolicy").filter(|policy| *policy != "PRD") {
        // What is left of an exponential time is as long as a new one.
        if sort == "deterministicTransition" || policy != "PRS" {
            return Err(unsupported(called, format!("its policy `{policy}` is not understood: only PRD is")));
        }
    }
    let many = match node.attribute("serverType").unwrap_or("ExclusiveServer") {
        "ExclusiveServer" => false,
        "InfiniteServer" => true,
        other => return Err(unsupported(called, format!("its `serverType` `{other}` is not understood"))),
    };
    match sort {
        "immediateTransition" => {
            let priority = constants.whole(node.attribute("priority").unwrap_or("1"));
            let priority = priority.map_err(of("priority")).map_err(invalid)?;
            let priority =
                u32::try_from(priority).map_err(|_| invalid(format!("`priority` is {priority}: too large")))?;
            Ok(Kind::Immediate { weight: value("weight", "1.0")?, priority, by: None })
        }
        // A delay is a mean here.
        "exponentialTransition" => {
            let mean = value("delay", "1.0")?;
            if mean.is_nan() || mean <= 0.0 {
                return Err(invalid(format!("`delay` is {mean}: above 0")));
            }
            let servers = if many { Servers::Infinite } else { Servers::Finite(1) };
            Ok(Kind::Timed { rate: Rate::Constant(1.0 / mean), servers })
        }
        _ if many => Err(unsupported(called, "a fixed time has one server here, and this has infinitely many")),
        _ => Ok(Kind::Deterministic { delay: value("delay", "1.0")? }),
    }
}

fn arc(node: Node<'_, '_>, constants: &Constants, draft: &mut Draft) -> Result<(), Refusal> {
    let sort = name(node);
    if !matches!(sort, "arc" | "inhibit") {
        return Ok(());
    }
    let (from, to) = (xml::need(node, "fromNode")?, xml::need(node, "toNode")?);
    let called = node.attribute("id").unwrap_or(from);
    draft.arc_id(node.attribute("id"))?;
    only(node, called, &["fromNode", "toNode"], &["inscription", "handle"])?;
    let inscription = inside(node).find(|child| name(*child) == "inscription").and_then(|it| it.attribute("text"));
    let text = inscription.filter(|text| !text.trim().is_empty()).unwrap_or("1");
    fixed(called, "inscription", text)?;
    let count = constants.whole(text).map_err(of("inscription")).map_err(|why| Refusal::invalid(called, why))?;
    if sort == "arc" { draft.arc(from, to, count) } else { draft.inhibitor(from, to, count) }
}
