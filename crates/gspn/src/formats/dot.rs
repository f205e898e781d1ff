//! Graphviz: circles for places, bars for transitions, a dot at the end of an arc that stops.

use super::xml::in_xml;
use crate::net::{Kind, Net, Phase, Rate, Servers};
use crate::{Class, Refusal};

/// A number as a drawing shows it: to four digits where it has many.
fn short(number: f64) -> String {
    let exact = number.to_string();
    if exact.len() <= 7 { exact } else { format!("{number:.3e}") }
}

/// When a transition fires, in a few words.
pub(super) fn timing(net: &Net, kind: &Kind) -> String {
    let servers = |servers: Servers| match servers {
        Servers::Finite(1) => String::new(),
        Servers::Finite(servers) => format!(" × {servers}"),
        Servers::Infinite => " × ∞".to_owned(),
    };
    match kind {
        Kind::Timed { rate: Rate::Constant(rate), servers: count } => format!("{}{}", short(*rate), servers(*count)),
        Kind::Timed { rate: Rate::ByTokens { place, .. }, servers: count } => {
            let place = net.places().get(*place).map_or("", |place| place.name.as_str());
            format!("by {place}{}", servers(*count))
        }
        Kind::Immediate { weight, priority, by } => {
            let by = by.and_then(|by| net.places().get(by)).map_or_else(String::new, |by| format!(" × {}", by.name));
            let priority = if *priority == 1 { String::new() } else { format!(", p {priority}") };
            format!("w {}{by}{priority}", short(*weight))
        }
        Kind::Deterministic { delay } => format!("= {}", short(*delay)),
        Kind::Phase(Phase::Erlang { stages, rate }) => format!("Erlang {stages}, {}", short(*rate)),
        Kind::Phase(Phase::Hyper(branches)) => format!("hyper {}", branches.len()),
        Kind::Phase(Phase::Coxian(phases)) => format!("Coxian {}", phases.len()),
    }
}

pub(super) fn write(net: &Net) -> Result<String, Refusal> {
    drawable(net.name())?;
    net.places().iter().try_for_each(|place| drawable(&place.name))?;
    net.transitions().iter().try_for_each(|transition| drawable(&transition.name))?;
    let mut out =
        format!("digraph {} {{\n  rankdir=LR;\n  node [fontname=\"sans-serif\", fontsize=10];\n", quoted(net.name()));
    for (index, place) in net.places().iter().enumerate() {
        let tokens = if place.tokens == 0 { String::new() } else { place.tokens.to_string() };
        out += &format!(
            "  p{index} [shape=circle, fixedsize=true, width=0.4, label=\"{tokens}\", xlabel={}];\n",
            label(&place.name)
        );
    }
    for (index, transition) in net.transitions().iter().enumerate() {
        let style = match transition.kind {
            Kind::Timed { .. } => "style=\"\", width=0.15",
            Kind::Immediate { .. } => "style=filled, fillcolor=black, width=0.06",
            Kind::Deterministic { .. } => "style=filled, fillcolor=black, width=0.15",
            Kind::Phase(_) => "style=filled, fillcolor=gray, width=0.15",
        };
        let label = label(&format!("{}\n{}", transition.name, timing(net, &transition.kind)));
        out += &format!("  t{index} [shape=box, fixedsize=true, height=0.45, {style}, label=\"\", xlabel={label}];\n");
    }
    for (index, transition) in net.transitions().iter().enumerate() {
        let label = |count: u64| if count == 1 { String::new() } else { format!("label=\"{count}\"") };
        for arc in &transition.inputs {
            out += &format!("  p{} -> t{index} [{}];\n", arc.place, label(arc.count));
        }
        for arc in &transition.outputs {
            out += &format!("  t{index} -> p{} [{}];\n", arc.place, label(arc.count));
        }
        for arc in &transition.inhibitors {
            out += &format!("  p{} -> t{index} [arrowhead=odot {}];\n", arc.place, label(arc.count));
        }
    }
    Ok(out + "}\n")
}

/// A name without characters that a drawing has no way to hold.
fn drawable(name: &str) -> Result<(), Refusal> {
    match name.chars().find(|next| !in_xml(*next)) {
        None => Ok(()),
        Some(next) => {
            let why =
                format!("this name has the character U+{:04X}, which Graphviz cannot draw: rename it", u32::from(next));
            Err(Refusal::new(Class::Unsupported, name, why))
        }
    }
}

/// Text that is shown: there Graphviz reads `&lt;` as `<`, so that `&` has to be written as what it is read from.
fn label(text: &str) -> String {
    quoted(&text.replace('&', "&amp;"))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
