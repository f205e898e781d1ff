//! PNPRO, the project files of the GreatSPN editor.

use roxmltree::Node;

use super::document;
use super::draft::Draft;
use super::encoding::xml_text;
use super::expression::{Constants, Definition, of};
use super::strays::loose;
use super::xml::{self, escape, holdable, inside, line, name};
use super::{Beside, chosen, no_net};
use crate::net::{Arc, Kind, Net, PHASES, Phase, Rate, Servers, Transition};
use crate::{Class, Refusal};

/// What only says how a node or an arc looks, or what it is called on a drawing.
const LOOKS: [&str; 12] = [
    "x",
    "y",
    "width",
    "height",
    "rotation",
    "color",
    "magnets",
    "head-magnet",
    "tail-magnet",
    "text-size",
    "alt-name-fn",
    "shown-as",
];

/// What a project has besides nets: automata that watch one, measures, nets that are joined of others, and pictures.
const PAGES: [&str; 7] = ["dta", "measures", "algebra", "algebra2", "unfolding", "multinet", "resource-list"];

/// What matters only when nets are joined (`superposition-tags`), or for the order of variables in a decision diagram (`partition`).
const ELSEWHERE: [&str; 2] = ["superposition-tags", "partition"];

pub(super) fn read(text: &[u8], beside: &Beside<'_>) -> Result<Net, Refusal> {
    let text = xml_text(text)?;
    let parsed = document::parse(&text)?;
    let root = parsed.root_element();
    if name(root) != "project" {
        return Err(Refusal::invalid(name(root), "the outermost element of a PNPRO project is `project`"));
    }
    let (nets, pages): (Vec<_>, Vec<_>) = inside(root).partition(|node| name(*node) == "gspn");
    let nets: Vec<_> = nets.into_iter().map(|gspn| (gspn.attribute("name").unwrap_or_default(), gspn)).collect();
    // Other tools have projects, too: Maven's are the most.
    if nets.is_empty() {
        return Err(no_net("its `project` has no `gspn`, as those of the GreatSPN editor do"));
    }
    if let Some(page) = pages.into_iter().find(|page| !PAGES.contains(&name(*page))) {
        return Err(strange(page, name(page), "a project"));
    }
    loose(root, "project")?;
    let gspn = chosen("project", &nets, beside.net)?;
    let mut draft = Draft::default();
    // Before what else is wrong: numbers of a net of colours have no values of their own.
    inside(gspn).filter(|part| name(*part) == "nodes").flat_map(inside).try_for_each(known)?;
    loose(gspn, gspn.attribute("name").unwrap_or("gspn"))?;
    inside(gspn).try_for_each(|part| loose(part, name(part)))?;
    let constants = constants(gspn, beside.set)?;
    for part in inside(gspn) {
        match name(part) {
            "nodes" => inside(part).try_for_each(|node| self::node(node, &constants, &mut draft))?,
            "edges" => {}
            other => return Err(strange(part, other, "a net")),
        }
    }
    for edges in inside(gspn).filter(|part| name(*part) == "edges") {
        inside(edges).try_for_each(|arc| self::arc(arc, &constants, &mut draft))?;
    }
    if let Some(name) = draft.unbounded() {
        let why = "it has infinitely many servers, as where no `nservers` is written, and no input arc: nothing bounds its rate; \
                   write `nservers=\"1\"` for one server";
        return Err(Refusal::invalid(name, why));
    }
    draft.net(gspn.attribute("name").unwrap_or_default())
}

fn unsupported(name: &str, why: impl Into<String>) -> Refusal {
    Refusal::new(Class::Unsupported, name, why)
}

/// An element that nothing is known of.
fn strange(node: Node<'_, '_>, called: &str, around: &str) -> Refusal {
    let why = format!("line {}: the element `{}` in {around} is not understood", line(node), name(node));
    unsupported(called, why)
}

/// Refuses elements in one, but for those of one name, and text: all that the editor says of it stands in attributes.
fn bare(node: Node<'_, '_>, called: &str, known: Option<&str>) -> Result<(), Refusal> {
    match inside(node).find(|child| Some(name(*child)) != known) {
        Some(child) => Err(strange(child, called, &format!("its `{}`", name(node)))),
        None => loose(node, called),
    }
}

fn constants(gspn: Node<'_, '_>, set: &[(String, String)]) -> Result<Constants, Refusal> {
    let nodes = gspn.descendants().filter(|node| node.is_element() && matches!(name(*node), "constant" | "template"));
    let definitions = nodes.map(|node| {
        let whole = node.attribute("consttype").or(node.attribute("type"));
        let called = xml::need(node, "name")?;
        let text = node.attribute("value").unwrap_or_default();
        plain(called, "value", text)?;
        fixed(called, "its `value`", text)?;
        Ok(Definition {
            name: called,
            text: node.attribute("value").filter(|text| !text.trim().is_empty()),
            whole: whole.filter(|sort| *sort == "INTEGER"),
        })
    });
    Constants::of(definitions.collect::<Result<Vec<_>, Refusal>>()?, set, false)
}

/// Refuses an attribute that is neither in `known` nor about looks.
fn only(node: Node<'_, '_>, called: &str, known: &[&str]) -> Result<(), Refusal> {
    for attribute in node.attributes() {
        let key = attribute.name();
        let looks = LOOKS.contains(&key) || key.ends_with("-x") || key.ends_with("-y") || key.starts_with("show-");
        if !looks && !ELSEWHERE.contains(&key) && !known.contains(&key) {
            return Err(unsupported(
                called,
                format!("its attribute `{key}` (`{}`) is not understood", attribute.value()),
            ));
        }
    }
    Ok(())
}

/// Refuses tokens of colours, such as `<c1> + 2<All>`: the nets are sound, and have no meaning here.
fn plain(called: &str, key: &str, text: &str) -> Result<(), Refusal> {
    if text.contains('<') {
        return Err(unsupported(called, format!("its `{key}` is `{text}`: coloured tokens")));
    }
    Ok(())
}

/// Refuses a number that another marking would change, and one that needs a function: all of the editor's have brackets.
fn fixed(called: &str, key: &str, text: &str) -> Result<(), Refusal> {
    if text.contains('#') {
        return Err(unsupported(called, format!("{key} is `{text}`, which depends on the marking")));
    }
    let before = text.split_once('[').map(|(before, _)| before.trim_end()).unwrap_or_default();
    let function = before.rsplit(|next: char| !next.is_alphanumeric()).next().unwrap_or_default();
    if function.is_empty() {
        return Ok(());
    }
    Err(unsupported(called, format!("{key} is `{text}`: the function `{function}` is not understood")))
}

/// Refuses a kind of node that nets here have not, and what stands in one.
fn known(node: Node<'_, '_>) -> Result<(), Refusal> {
    let called = node.attribute("name").unwrap_or(name(node));
    let why = match name(node) {
        "place" | "transition" | "constant" | "template" => return bare(node, called, None),
        "text-box" => return Ok(()),
        sort @ ("color-class" | "color-var") => format!("nodes of kind `{sort}` are not understood: coloured tokens"),
        sort => format!("nodes of kind `{sort}` are not understood"),
    };
    Err(unsupported(called, why))
}

fn node(node: Node<'_, '_>, constants: &Constants, draft: &mut Draft) -> Result<(), Refusal> {
    match name(node) {
        "place" => {
            let called = xml::need(node, "name")?;
            if node.attribute("domain").is_some_and(|domain| !domain.is_empty()) {
                return Err(unsupported(called, "its tokens are coloured (`domain`)"));
            }
            only(node, called, &["name", "marking", "domain"])?;
            let marking = node.attribute("marking").filter(|marking| !marking.is_empty()).unwrap_or("0");
            plain(called, "marking", marking)?;
            fixed(called, "its `marking`", marking)?;
            let tokens = constants.whole(marking).map_err(of("marking"));
            draft.place(called, called, tokens.map_err(|why| Refusal::invalid(called, why))?)
        }
        "transition" => {
            let called = xml::need(node, "name")?;
            only(node, called, &["name", "type", "delay", "weight", "priority", "nservers", "guard"])?;
            if node.attribute("guard").is_some_and(|guard| !guard.is_empty() && guard != "True") {
                return Err(unsupported(called, "it has a guard"));
            }
            draft.transition(called, called, kind(node, called, constants)?)
        }
        _ => known(node),
    }
}

fn kind(node: Node<'_, '_>, called: &str, constants: &Constants) -> Result<Kind, Refusal> {
    let invalid = |why: String| Refusal::invalid(called, why);
    let sort = xml::need(node, "type")?;
    for key in ["delay", "weight", "priority", "nservers"] {
        let text = node.attribute(key).unwrap_or_default();
        // What is general is written as a function, and read as one.
        if (key, sort) != ("delay", "GEN") || text.contains('#') {
            fixed(called, &format!("its `{key}`"), text)?;
        }
    }
    let value = |key: &str, usual: &str| {
        constants.value(node.attribute(key).unwrap_or(usual)).map_err(of(key)).map_err(invalid)
    };
    match sort {
        "IMM" => {
            let priority = constants.whole(node.attribute("priority").unwrap_or("1"));
            let priority = priority.map_err(of("priority")).map_err(invalid)?;
            let priority =
                u32::try_from(priority).map_err(|_| invalid(format!("`priority` is {priority}: too large")))?;
            Ok(Kind::Immediate { weight: value("weight", "1.0")?, priority, by: None })
        }
        // What the editor calls the delay of an exponential transition is its rate.
        "EXP" => {
            Ok(Kind::Timed { rate: Rate::Constant(value("delay", "1.0")?), servers: servers(node, called, constants)? })
        }
        "GEN" => general(node, called, constants),
        other => Err(unsupported(called, format!("transitions of type `{other}` are not understood"))),
    }
}

fn servers(node: Node<'_, '_>, called: &str, constants: &Constants) -> Result<Servers, Refusal> {
    match node.attribute("nservers").unwrap_or("Infinite") {
        "Infinite" => Ok(Servers::Infinite),
        "Single" | "single" => Ok(Servers::Finite(1)),
        text => {
            let servers = constants.whole(text).map_err(of("nservers")).map_err(|why| Refusal::invalid(called, why))?;
            if servers == 0 {
                return Err(Refusal::invalid(called, "its `nservers` is 0: a whole number from 1, or `Infinite`"));
            }
            Ok(Servers::Finite(servers))
        }
    }
}

/// `I[d]` is a fixed time, `Erlang[rate, k]` has phases. A number alone is refused: GreatSPN takes it for a density.
fn general(node: Node<'_, '_>, called: &str, constants: &Constants) -> Result<Kind, Refusal> {
    if let Some(servers) = node.attribute("nservers").filter(|servers| !matches!(*servers, "1" | "Single")) {
        return Err(unsupported(called, format!("`nservers` is `{servers}`: a fixed time has one server here")));
    }
    let Some(text) = node.attribute("delay").map(str::trim) else {
        let why = "it is of type `GEN` and has no `delay`: write `delay=\"I[1.0]\"` for a fixed time of 1.0";
        return Err(Refusal::invalid(called, why));
    };
    let inner = |word: &str| {
        let inner = text.strip_prefix(word)?.trim_start().strip_prefix('[')?.trim_end().strip_suffix(']')?;
        // Brackets in it are of other functions, or the first and the last of a sum.
        (!inner.contains(['[', ']'])).then_some(inner)
    };
    let invalid = |why: String| Refusal::invalid(called, of("delay")(why));
    let value = |text: &str| constants.value(text).map_err(invalid);
    if let Some(delay) = inner("I") {
        return Ok(Kind::Deterministic { delay: value(delay)? });
    }
    if let Some((rate, stages)) = inner("Erlang").and_then(|inner| inner.split_once(',')) {
        let stages = constants.whole(stages).map_err(invalid)?;
        let stages = u32::try_from(stages).map_err(|_| {
            Refusal::new(Class::TooLarge, called, format!("its time has {stages} phases: at most {PHASES}"))
        })?;
        return Ok(Kind::Phase(Phase::Erlang { stages, rate: value(rate)? }));
    }
    match constants.value(text) {
        Ok(_) => {
            let why =
                format!("`{text}` alone is a density to GreatSPN, and no time: write `I[{text}]` for a fixed time");
            Err(Refusal::invalid(called, of("delay")(why)))
        }
        // What has brackets is a function, and no number.
        Err(_) if text.contains('[') => Err(unsupported(called, format!("its time `{text}` is not understood"))),
        Err(why) => Err(unsupported(called, format!("its time `{text}` is not understood: {why} (its `delay`)"))),
    }
}

fn arc(node: Node<'_, '_>, constants: &Constants, draft: &mut Draft) -> Result<(), Refusal> {
    if name(node) != "arc" {
        return Err(unsupported(name(node), "an edge that is not an arc"));
    }
    let (from, to) = (xml::need(node, "tail")?, xml::need(node, "head")?);
    bare(node, from, Some("point"))?;
    inside(node).try_for_each(|point| bare(point, from, None))?;
    only(node, from, &["kind", "type", "tail", "head", "mult", "multiplicity", "broken", "mult-k", "multiplicity-k"])?;
    // Old versions of the editor had other words.
    let either = |new: &str, old: &str| node.attribute(new).or(node.attribute(old));
    let count = either("mult", "multiplicity").unwrap_or("1");
    plain(from, "mult", count)?;
    fixed(from, &format!("the multiplicity of its arc to `{to}`"), count)?;
    let count = constants.whole(count).map_err(|why| format!("{why} (the multiplicity of its arc to `{to}`)"));
    let count = count.map_err(|why| Refusal::invalid(from, why))?;
    let kind = either("kind", "type").ok_or_else(|| Refusal::invalid(from, "an arc has no `kind`"))?;
    match kind {
        "INPUT" | "OUTPUT" => {
            draft.arc(from, to, count)?;
            directed(kind, from, to, draft)
        }
        "INHIBITOR" => draft.inhibitor(from, to, count),
        other => Err(unsupported(from, format!("arcs of kind `{other}` are not understood"))),
    }
}

/// Refuses an arc that leads the other way than its kind says: one of both is a slip, and nobody knows which.
fn directed(kind: &str, from: &str, to: &str, draft: &Draft) -> Result<(), Refusal> {
    let (ends, other) = match (kind, draft.is_place(from)?) {
        ("INPUT", false) => ("a place to a transition", "OUTPUT"),
        ("OUTPUT", true) => ("a transition to a place", "INPUT"),
        _ => return Ok(()),
    };
    let why = format!(
        "its arc to `{to}` is of kind `{kind}`, which leads from {ends}: write `{other}`, or turn `tail` and `head` round"
    );
    Err(Refusal::invalid(from, why))
}

pub(super) fn write(net: &Net) -> Result<String, Refusal> {
    let layout = super::layout::Layout::of(net);
    holdable(net.name())?;
    let called = escape(net.name());
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"no\"?>\n<project name=\"{called}\" version=\"121\">\n  \
         <gspn name=\"{called}\">\n    <nodes>\n"
    );
    for (index, place) in net.places().iter().enumerate() {
        identifier(&place.name)?;
        let (x, y) = layout.place(index);
        let name = escape(&place.name);
        out += &format!(
            "      <place marking=\"{}\" name=\"{name}\" x=\"{:.1}\" y=\"{:.1}\"/>\n",
            place.tokens,
            x / 20.0,
            y / 20.0
        );
    }
    for (index, transition) in net.transitions().iter().enumerate() {
        identifier(&transition.name)?;
        let (x, y) = layout.transition(index);
        let (name, timing) = (escape(&transition.name), timing(transition)?);
        out += &format!("      <transition {timing} name=\"{name}\" x=\"{:.1}\" y=\"{:.1}\"/>\n", x / 20.0, y / 20.0);
    }
    out += "    </nodes>\n    <edges>\n";
    for transition in net.transitions() {
        for (arcs, kind) in
            [(&transition.inputs, "INPUT"), (&transition.outputs, "OUTPUT"), (&transition.inhibitors, "INHIBITOR")]
        {
            arcs.iter().for_each(|arc| out += &edge(net, transition, *arc, kind));
        }
    }
    Ok(out + "    </edges>\n  </gspn>\n</project>\n")
}

/// The editor wants names of letters, digits and underscores.
fn identifier(name: &str) -> Result<(), Refusal> {
    let first = name.chars().next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    if first && name.chars().all(|next| next.is_ascii_alphanumeric() || next == '_') {
        return Ok(());
    }
    Err(unsupported(name, "PNPRO wants names of letters, digits and `_`, which begin with a letter or `_`: rename it"))
}

fn edge(net: &Net, transition: &Transition, arc: Arc, kind: &str) -> String {
    let place = net.places().get(arc.place).map_or("", |place| place.name.as_str());
    let (tail, head) =
        if kind == "OUTPUT" { (transition.name.as_str(), place) } else { (place, transition.name.as_str()) };
    let mult = if arc.count == 1 { String::new() } else { format!(" mult=\"{}\"", arc.count) };
    format!("      <arc head=\"{}\" kind=\"{kind}\"{mult} tail=\"{}\"/>\n", escape(head), escape(tail))
}

/// A number as the editor has one: a point stands before an exponent.
fn real(number: f64) -> String {
    let text = format!("{number:?}");
    match text.split_once('e') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0e{exponent}"),
        _ => text,
    }
}

fn timing(transition: &Transition) -> Result<String, Refusal> {
    let no = |why: &str| Err(unsupported(&transition.name, format!("PNPRO has no words for {why}")));
    match &transition.kind {
        Kind::Timed { rate: Rate::Constant(rate), servers } => {
            let servers = match servers {
                Servers::Finite(servers) => format!(" nservers=\"{servers}\""),
                Servers::Infinite => " nservers=\"Infinite\"".to_owned(),
            };
            Ok(format!("type=\"EXP\" delay=\"{}\"{servers}", real(*rate)))
        }
        Kind::Timed { .. } => no("a table of rates by tokens"),
        Kind::Immediate { by: Some(_), .. } => no("a weight that depends on tokens"),
        Kind::Immediate { weight, priority, by: None } => {
            Ok(format!("type=\"IMM\" weight=\"{}\" priority=\"{priority}\"", real(*weight)))
        }
        Kind::Deterministic { delay } => Ok(format!("type=\"GEN\" delay=\"I[{}]\" nservers=\"1\"", real(*delay))),
        Kind::Phase(Phase::Erlang { stages, rate }) => {
            Ok(format!("type=\"GEN\" delay=\"Erlang[{}, {stages}]\" nservers=\"1\"", real(*rate)))
        }
        Kind::Phase(_) => no("a time of phase type, but for Erlang's"),
    }
}
