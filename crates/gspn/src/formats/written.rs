//! PNML as it is written: the dialect that Storm reads, and that of PIPE. Left out: how it is read.

use super::layout::Layout;
use super::xml::{escape, holdable};
use crate::net::{Kind, Net, Place, Rate, Servers, Transition};
use crate::{Class, Refusal};

/// The most tokens, and the highest priority, that PIPE can hold: its numbers have 32 bits.
const MOST: u64 = 2_147_483_647;

/// Half of a node as PIPE draws it, which says where its corner is.
const HALF: f64 = 15.0;

/// Writes the dialect that Storm reads.
pub(super) fn storm(net: &Net) -> Result<String, Refusal> {
    written(net, &Storm)
}

/// Writes what PIPE opens.
pub(super) fn pipe(net: &Net) -> Result<String, Refusal> {
    written(net, &Pipe(Layout::of(net)))
}

/// How a tool has it that what all say of a net is said.
trait Dialect {
    /// What stands in front of all nodes.
    fn head(&self) -> &'static str;
    fn place(&self, index: usize, place: &Place) -> Result<String, Refusal>;
    fn transition(&self, index: usize, transition: &Transition, timing: Timing) -> Result<String, Refusal>;
    fn arc(&self, edge: &Edge<'_>) -> Result<String, Refusal>;
}

/// When a transition fires, as far as PNML has words for it.
#[derive(Clone, Copy)]
struct Timing {
    rate: f64,
    timed: bool,
    infinite: bool,
    priority: Option<u32>,
}

struct Edge<'a> {
    from: &'a str,
    to: &'a str,
    place: usize,
    transition: usize,
    inwards: bool,
    inhibits: bool,
    count: u64,
}

fn written(net: &Net, dialect: &dyn Dialect) -> Result<String, Refusal> {
    holdable(net.name())?;
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<pnml>\n  <net id=\"{}\" type=\"P/T net\">\n{}",
        escape(net.name()),
        dialect.head()
    );
    for (index, place) in net.places().iter().enumerate() {
        holdable(&place.name)?;
        let inner = dialect.place(index, place)?;
        out += &format!("    <place id=\"{}\">\n{inner}    </place>\n", escape(&place.name));
    }
    for (index, transition) in net.transitions().iter().enumerate() {
        holdable(&transition.name)?;
        let inner = dialect.transition(index, transition, timing(transition)?)?;
        out += &format!("    <transition id=\"{}\">\n{inner}    </transition>\n", escape(&transition.name));
    }
    for (number, edge) in edges(net).enumerate() {
        let (from, to, inner) = (escape(edge.from), escape(edge.to), dialect.arc(&edge)?);
        out += &format!("    <arc id=\"arc{number}\" source=\"{from}\" target=\"{to}\">\n{inner}    </arc>\n");
    }
    Ok(out + "  </net>\n</pnml>\n")
}

fn edges(net: &Net) -> impl Iterator<Item = Edge<'_>> {
    net.transitions().iter().enumerate().flat_map(move |(index, transition)| {
        let sorts = [
            (&transition.inputs, true, false),
            (&transition.outputs, false, false),
            (&transition.inhibitors, true, true),
        ];
        sorts.into_iter().flat_map(move |(arcs, inwards, inhibits)| {
            arcs.iter().map(move |arc| {
                let place = net.places().get(arc.place).map_or("", |place| place.name.as_str());
                let called = transition.name.as_str();
                let (from, to) = if inwards { (place, called) } else { (called, place) };
                Edge { from, to, place: arc.place, transition: index, inwards, inhibits, count: arc.count }
            })
        })
    })
}

fn timing(transition: &Transition) -> Result<Timing, Refusal> {
    let no = |why: &str| Err(unsupported(&transition.name, format!("PNML has no words for {why}")));
    match &transition.kind {
        Kind::Timed { rate: Rate::ByTokens { .. }, .. } => no("a rate that depends on tokens"),
        Kind::Timed { servers: Servers::Finite(servers), .. } if *servers > 1 => {
            no(&format!("{servers} servers, only for one and for infinitely many"))
        }
        Kind::Timed { rate: Rate::Constant(rate), servers } => {
            Ok(Timing { rate: *rate, timed: true, infinite: *servers == Servers::Infinite, priority: None })
        }
        Kind::Immediate { by: Some(_), .. } => no("a weight that depends on tokens"),
        Kind::Immediate { weight, priority, by: None } => {
            Ok(Timing { rate: *weight, timed: false, infinite: false, priority: Some(*priority) })
        }
        Kind::Deterministic { .. } => no("a fixed time"),
        Kind::Phase(_) => no("a time of phase type"),
    }
}

fn unsupported(name: &str, why: impl Into<String>) -> Refusal {
    Refusal::new(Class::Unsupported, name, why)
}

struct Storm;

impl Dialect for Storm {
    fn head(&self) -> &'static str {
        ""
    }

    fn place(&self, _: usize, place: &Place) -> Result<String, Refusal> {
        Ok(format!("      <initialMarking><value>Default,{}</value></initialMarking>\n", place.tokens))
    }

    fn transition(&self, _: usize, _: &Transition, timing: Timing) -> Result<String, Refusal> {
        let last = match timing.priority {
            None => format!("<infiniteServer><value>{}</value></infiniteServer>", timing.infinite),
            Some(priority) => format!("<priority><text>{priority}</text></priority>"),
        };
        Ok(format!(
            "      <rate><value>{:?}</value></rate>\n      <timed><value>{}</value></timed>\n      {last}\n",
            timing.rate, timing.timed
        ))
    }

    fn arc(&self, edge: &Edge<'_>) -> Result<String, Refusal> {
        let sort = if edge.inhibits { "inhibition" } else { "normal" };
        Ok(format!(
            "      <inscription><value>Default,{}</value></inscription>\n      <type value=\"{sort}\"/>\n",
            edge.count
        ))
    }
}

struct Pipe(Layout);

impl Dialect for Pipe {
    fn head(&self) -> &'static str {
        "    <token id=\"Default\" enabled=\"true\" red=\"0\" green=\"0\" blue=\"0\"/>\n"
    }

    fn place(&self, index: usize, place: &Place) -> Result<String, Refusal> {
        let tokens = held(place.tokens, &place.name)?;
        Ok(format!(
            "{}      <initialMarking><value>Default,{tokens}</value><graphics><offset x=\"0.0\" y=\"0.0\"/></graphics></initialMarking>\n      \
             <capacity><value>0</value></capacity>\n",
            node(self.0.place(index), &place.name)
        ))
    }

    fn transition(&self, index: usize, transition: &Transition, timing: Timing) -> Result<String, Refusal> {
        let priority = held(u64::from(timing.priority.unwrap_or(1)), &transition.name)?;
        Ok(format!(
            "{}      <orientation><value>0</value></orientation>\n      <rate><value>{}</value></rate>\n      \
             <timed><value>{}</value></timed>\n      <infiniteServer><value>{}</value></infiniteServer>\n      \
             <priority><value>{priority}</value></priority>\n",
            node(self.0.transition(index), &transition.name),
            decimal(timing.rate),
            timing.timed,
            timing.infinite
        ))
    }

    fn arc(&self, edge: &Edge<'_>) -> Result<String, Refusal> {
        if edge.inhibits && edge.count > 1 {
            let why = format!(
                "{} tokens in `{}` stop it, and an inhibitor arc of PIPE has no multiplicity: any token stops",
                edge.count, edge.from
            );
            return Err(unsupported(edge.to, why));
        }
        let sort = if edge.inhibits { "inhibitor" } else { "normal" };
        let count = held(edge.count, if edge.inwards { edge.to } else { edge.from })?;
        let (place, transition) = (self.0.place(edge.place), self.0.transition(edge.transition));
        let [start, end] = if edge.inwards { [place, transition] } else { [transition, place] };
        let path = |number: &str, (x, y): (f64, f64)| {
            format!("      <arcpath id=\"{number}\" x=\"{x:.0}\" y=\"{y:.0}\" curvePoint=\"false\"/>\n")
        };
        Ok(format!(
            "      <graphics/>\n      <inscription><value>Default,{count}</value><graphics/></inscription>\n      \
             <tagged><value>false</value></tagged>\n{}{}      <type value=\"{sort}\"/>\n",
            path("000", start),
            path("001", end)
        ))
    }
}

fn node((x, y): (f64, f64), name: &str) -> String {
    format!(
        "      <graphics><position x=\"{:.1}\" y=\"{:.1}\"/></graphics>\n      \
         <name><value>{}</value><graphics><offset x=\"0.0\" y=\"0.0\"/></graphics></name>\n",
        x - HALF,
        y - HALF,
        escape(name)
    )
}

fn held(number: u64, name: &str) -> Result<u64, Refusal> {
    if number <= MOST { Ok(number) } else { Err(unsupported(name, format!("{number} is more than PIPE can hold"))) }
}

/// PIPE 5 reads a rate as an expression, whose numbers have no exponent.
fn decimal(rate: f64) -> String {
    let text = rate.to_string();
    if text.contains('.') { text } else { text + ".0" }
}
