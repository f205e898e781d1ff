//! PNML as it is read: the dialects of PIPE and Storm, which say rates, and place/transition nets of ISO/IEC 15909-2, which do not. Left out: what
//! belongs to nothing (`strays`), what tools say for themselves (`remarks`), and when transitions fire (`timing`).

use std::borrow::Cow;

use hashbrown::{HashMap, HashSet};
use roxmltree::Node;

use super::classes::class;
use super::document;
use super::draft::Draft;
use super::encoding::xml_text;
use super::remarks::{branches, remark};
use super::strays;
use super::timing::Said;
use super::xml::{self, inside, line, name, owner};
use super::{Beside, chosen, no_net};
use crate::json::Timing;
use crate::net::{Kind, Net};
use crate::{Class, Refusal};

/// What only says how a node looks.
const LOOKS: [&str; 2] = ["graphics", "orientation"];

/// What may stand several times in a node or an arc.
const OFTEN: [&str; 4] = ["graphics", "orientation", "toolspecific", "arcpath"];

/// What the tools that write this dialect say of a node or an arc besides elements.
const ATTRIBUTES: [&str; 3] = ["id", "source", "target"];

/// What is said of a net and changes no firing: labels; notes (JARP); markings in which a run may end (ProM); conditions with a name, which
/// are questions (PIPE).
const NOTES: [&str; 6] = ["name", "graphics", "labels", "comment", "finalmarkings", "stategroup"];

/// What TAPAAL has beside a net in files of its own.
const TAPAAL: [&str; 6] = ["shared-place", "shared-transition", "constant", "query", "k-bound", "feature"];

/// How deep pages may be nested.
const PAGES: u32 = 50;

struct Reader<'a> {
    draft: Draft,
    /// By what a node is called in the file, if all are called something and no two the same.
    names: HashMap<String, String>,
    /// Why they are not, and the names are ids.
    ids: Option<String>,
    places: HashMap<String, usize>,
    rates: HashMap<&'a str, &'a Timing>,
    used: HashSet<&'a str>,
    /// What is added to priorities: they begin at 1 here, and at 0 in some files.
    lift: u64,
}

pub(super) fn read(text: &[u8], beside: &Beside<'_>) -> Result<Net, Refusal> {
    let text = xml_text(text)?;
    let parsed = document::parse(&text)?;
    let root = parsed.root_element();
    if name(root) != "pnml" {
        return Err(Refusal::invalid(name(root), "the outermost element of PNML is `pnml`"));
    }
    strays::text(root)?;
    // Older files have it in a `module`.
    let (modules, others): (Vec<_>, Vec<_>) = inside(root).partition(|node| name(*node) == "module");
    let (nets, others): (Vec<_>, Vec<_>) =
        others.into_iter().chain(modules.into_iter().flat_map(inside)).partition(|node| name(*node) == "net");
    if let Some(other) = others.into_iter().find(|node| name(*node) != "toolspecific" && !NOTES.contains(&name(*node)))
    {
        return Err(beside_net(other));
    }
    let nets: Vec<_> = nets.into_iter().map(|net| (net_name(net), net)).collect();
    if nets.is_empty() {
        return Err(no_net("its `pnml` has no `net`"));
    }
    let named: Vec<_> = nets.iter().map(|(name, net)| (&**name, *net)).collect();
    let net = chosen("pnml", &named, beside.net)?;
    class(net)?;
    let mut nodes = Vec::new();
    gather(net, &mut nodes, 0)?;
    branches(&nodes)?;
    let rates = beside.rates.iter().map(|timing| (timing.name.as_str(), timing)).collect();
    let (names, ids) = match names(&nodes) {
        Ok(names) => (names, None),
        Err(why) => (HashMap::new(), Some(why)),
    };
    let mut reader =
        Reader { draft: Draft::default(), names, ids, places: HashMap::new(), rates, used: HashSet::new(), lift: 0 };
    let of = |wanted: &'static str| nodes.iter().copied().filter(move |node| name(*node) == wanted);
    of("place").try_for_each(|place| reader.place(place))?;
    let transitions = of("transition").map(|it| reader.said(it)).collect::<Result<Vec<_>, _>>()?;
    reader.lift = u64::from(transitions.iter().any(|(called, _, said)| said.lowest() && reader.at_once(called, said)));
    transitions.into_iter().try_for_each(|(called, id, said)| reader.transition(called, id, &said))?;
    of("arc").try_for_each(|arc| reader.arc(arc))?;
    if let Some(unused) = reader.rates.keys().find(|rate| !reader.used.contains(**rate)) {
        return Err(Refusal::invalid(unused, "a rate is given for this transition, and there is none that needs it"));
    }
    // What stands in the file of rates has the words of that.
    if let Some(name) = reader.draft.unbounded().filter(|name| !reader.used.contains(name)) {
        let why = "its `infiniteServer` is `true` and there is no input arc: nothing bounds its rate; \
                   write `false` for one server";
        return Err(Refusal::invalid(name, why));
    }
    reader.draft.net(&net_name(net))
}

/// Its name, or else its id.
fn net_name<'a>(net: Node<'a, '_>) -> Cow<'a, str> {
    let called = child(net, "name").and_then(value).filter(|called| !called.is_empty());
    called.unwrap_or_else(|| net.attribute("id").unwrap_or_default().into())
}

/// The nodes and arcs of a net and its pages.
fn gather<'a, 'i>(around: Node<'a, 'i>, nodes: &mut Vec<Node<'a, 'i>>, depth: u32) -> Result<(), Refusal> {
    if depth > PAGES {
        return Err(Refusal::invalid("page", format!("pages are nested more than {PAGES} deep")));
    }
    strays::elements(around)?;
    strays::text(around)?;
    strays::labels(around)?;
    for node in inside(around) {
        match name(node) {
            "page" => gather(node, nodes, depth + 1)?,
            "place" | "transition" | "arc" => {
                plain(node)?;
                strays::elements(node)?;
                strays::attributes(node)?;
                strays::text(node)?;
                strays::bare(node)?;
                single(node)?;
                strays::labels(node)?;
                nodes.push(node);
            }
            note if NOTES.contains(&note) => {}
            // A colour of which there is nothing changes nothing; see `tokens`.
            "token" => {}
            "toolspecific" => remark(node)?,
            // WoPeD writes it so, with copies of the places before and behind it.
            "net" => {
                let owner = owner(node, "net");
                let why = format!(
                    "line {}: what this transition does stands in a net of its own: put that net in its place",
                    line(node)
                );
                return Err(Refusal::new(Class::Unsupported, owner, why));
            }
            other => return Err(unknown(node, other, "in a net")),
        }
    }
    Ok(())
}

fn unknown(node: Node<'_, '_>, what: &str, where_: &str) -> Refusal {
    let why = format!("line {}: the element `{what}` {where_} is not understood", line(node));
    Refusal::new(Class::Unsupported, owner(node, what), why)
}

/// TAPAAL writes nets with clocks under `pnml`, too.
fn beside_net(other: Node<'_, '_>) -> Refusal {
    let mut refusal = unknown(other, name(other), "beside a net");
    if TAPAAL.contains(&name(other)) && other.tag_name().namespace().is_some_and(|space| space.ends_with("ptNetb")) {
        refusal.why += ": this is the dialect of TAPAAL, for nets with clocks";
    }
    refusal
}

/// Other dialects say how many tokens there are, or what an arc does, by an attribute.
fn plain(node: Node<'_, '_>) -> Result<(), Refusal> {
    let mut attributes = node.attributes().filter(|attribute| attribute.namespace().is_none());
    // That an arc is one like others says nothing more.
    let usual = |key: &str, text: &str| key == "type" && text.eq_ignore_ascii_case("normal");
    match attributes
        .find(|attribute| !ATTRIBUTES.contains(&attribute.name()) && !usual(attribute.name(), attribute.value()))
    {
        None => Ok(()),
        Some(attribute) => {
            let owner = node.attribute("id").unwrap_or_else(|| name(node));
            let (key, text) = (attribute.name(), attribute.value());
            let why = format!("line {}: its attribute `{key}` (`{text}`) is not understood", line(node));
            Err(Refusal::new(Class::Unsupported, owner, why))
        }
    }
}

/// What is said of a node or an arc is said once.
fn single(node: Node<'_, '_>) -> Result<(), Refusal> {
    let owner = node.attribute("id").unwrap_or_else(|| name(node));
    xml::once(node, owner, &OFTEN)?;
    let said = |label: Node<'_, '_>| values(label).count() + usize::from(label.has_attribute("value"));
    match inside(node).find(|child| said(*child) > 1) {
        None => Ok(()),
        Some(child) => Err(Refusal::invalid(owner, format!("`{}` has two values", name(child)))),
    }
}

/// What the nodes are called, by their ids; or why these are the names.
fn names(nodes: &[Node<'_, '_>]) -> Result<HashMap<String, String>, String> {
    let mut seen = HashSet::new();
    let mut names = HashMap::new();
    for node in nodes.iter().filter(|node| name(**node) != "arc") {
        let id = node.attribute("id").unwrap_or_default();
        let called = child(*node, "name").and_then(value).unwrap_or_default();
        if called.is_empty() {
            return Err(format!("the {} `{id}` has no name", name(*node)));
        }
        if !seen.insert(called.clone()) {
            return Err(format!("two nodes are called `{called}`"));
        }
        names.insert(id.to_owned(), called.into_owned());
    }
    Ok(names)
}

fn child<'a, 'i>(node: Node<'a, 'i>, wanted: &str) -> Option<Node<'a, 'i>> {
    inside(node).find(|child| name(*child) == wanted)
}

/// The text in `value` (PIPE) or `text` (ISO).
pub(super) fn value<'a>(node: Node<'a, '_>) -> Option<Cow<'a, str>> {
    values(node).next().map(xml::text)
}

pub(super) fn values<'a, 'i>(node: Node<'a, 'i>) -> impl Iterator<Item = Node<'a, 'i>> {
    inside(node).filter(|child| matches!(name(*child), "value" | "text"))
}

/// A whole number. Only in a `value` there may be colours with it.
pub(super) fn count(node: Node<'_, '_>, owner: &str) -> Result<u64, Refusal> {
    let said = values(node).next();
    let text = said.map(xml::text).unwrap_or_default();
    let alone = said.is_some_and(|said| name(said) == "text");
    let number = if alone { text.parse().ok() } else { tokens(&text) };
    number.ok_or_else(|| {
        let why = format!("`{}` is `{text}`, and a whole number from 0 is wanted", name(node));
        if let Some(instead) = without_commas(&text) {
            return Refusal::invalid(owner, format!("{why}, without a comma{instead}"));
        }
        // `red,2` of PIPE, multisets of terms (2'a or 2`a, <a>), and lists. `Default,-2` has no colour, and is no number of tokens.
        let plain =
            text.split_once(',').is_some_and(|(colour, count)| colour.trim() == "Default" && !count.contains(','));
        if !plain && text.contains([',', '\'', '`', '<', '[']) {
            Refusal::new(Class::Unsupported, owner, why + ": coloured tokens")
        } else {
            Refusal::invalid(owner, why)
        }
    })
}

/// What to write instead of a number with commas, if it is one: those between thousands may be left out.
fn without_commas(text: &str) -> Option<String> {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|next| next.is_ascii_digit());
    let (first, others) = text.split_once(',').filter(|_| text.split(',').map(str::trim).all(digits))?;
    let thousands = first.len() <= 3 && others.split(',').all(|part| part.len() == 3);
    Some(if thousands { format!(": write `{}`", text.replace(',', "")) } else { String::new() })
}

/// PIPE writes `Default,3` for three tokens of its one colour, and `Default,3,Red,0` or `Red,0` where there are others: none of them is in
/// the net.
fn tokens(text: &str) -> Option<u64> {
    if !text.contains(',') {
        return text.parse().ok();
    }
    let mut parts = text.split(',').map(str::trim);
    let mut tokens = None;
    while let Some(colour) = parts.next() {
        let count: u64 = parts.next()?.parse().ok()?;
        match colour {
            "Default" if tokens.is_none() => tokens = Some(count),
            "Default" => return None,
            _ if count > 0 || !colour.starts_with(char::is_alphabetic) => return None,
            _ => {}
        }
    }
    Some(tokens.unwrap_or(0))
}

impl Reader<'_> {
    fn called<'b>(&'b self, id: &'b str) -> &'b str {
        self.names.get(id).map_or(id, String::as_str)
    }

    /// Why it is not known when a transition fires.
    fn untimed(&self) -> String {
        let why = "the net does not say when this transition fires (`timed`, `rate`)";
        match &self.ids {
            _ if self.rates.is_empty() => format!("{why}: give a file of rates beside it that has an entry for it"),
            None => format!("{why}, and the file of rates has no entry for it"),
            Some(ids) => format!("{why}, and the file of rates has no entry for it: ids are the names here, as {ids}"),
        }
    }

    fn place(&mut self, node: Node<'_, '_>) -> Result<(), Refusal> {
        let id = xml::need(node, "id")?;
        let called = self.called(id).to_owned();
        let mut tokens = 0;
        for child in inside(node) {
            match name(child) {
                // PIPE 5 writes nothing for no tokens.
                "initialMarking" if value(child).as_deref() == Some("") => {}
                "initialMarking" => tokens = count(child, &called)?,
                "capacity" if count(child, &called)? == 0 => {}
                "capacity" => {
                    let why = "its capacity is not understood: an inhibitor arc to each transition that fills it says the same";
                    return Err(Refusal::new(Class::Unsupported, &called, why));
                }
                "tagged" => untagged(child)?,
                "name" => {}
                other if LOOKS.contains(&other) => {}
                "toolspecific" => remark(child)?,
                other => return Err(unknown(child, other, "of a place")),
            }
        }
        self.places.insert(called.clone(), self.places.len());
        self.draft.place(id, &called, tokens)
    }

    /// What a transition is called, its id, and what is said of when it fires.
    fn said<'b>(&self, node: Node<'b, '_>) -> Result<(String, &'b str, Said), Refusal> {
        let id = xml::need(node, "id")?;
        let called = self.called(id).to_owned();
        let mut said = Said::default();
        for child in inside(node) {
            match name(child) {
                // That nobody sees it fire changes nothing.
                "name" | "silent" => {}
                other if LOOKS.contains(&other) => {}
                "toolspecific" => remark(child)?,
                _ if said.take(child, &value(child).unwrap_or_default(), &called)? => {}
                other => return Err(unknown(child, other, "of a transition")),
            }
        }
        Ok((called, id, said))
    }

    /// Whether a transition fires at once, by the net or by the file of rates; what is wrong with that is said later.
    fn at_once(&self, called: &str, said: &Said) -> bool {
        let kind = match self.rates.get(called) {
            Some(timing) if said.open() => timing.kind(&self.places).map(Some),
            _ => said.kind(called, 0),
        };
        matches!(kind, Ok(Some(Kind::Immediate { .. })))
    }

    fn transition(&mut self, called: String, id: &str, said: &Said) -> Result<(), Refusal> {
        let beside = self.rates.get(called.as_str()).copied();
        let kind = match beside {
            Some(timing) if said.open() => {
                self.used.insert(timing.name.as_str());
                let kind = timing.kind(&self.places)?;
                said.agrees(&kind, &called, self.lift)?;
                kind
            }
            Some(_) => return Err(said.twice(&called)),
            None => {
                let kind = said.kind(&called, self.lift)?;
                kind.ok_or_else(|| Refusal::invalid(&called, self.untimed()))?
            }
        };
        self.draft.transition(id, &called, kind)
    }

    fn arc(&mut self, node: Node<'_, '_>) -> Result<(), Refusal> {
        let (from, to) = (xml::need(node, "source")?, xml::need(node, "target")?);
        let owner = node.attribute("id").unwrap_or(from);
        self.draft.arc_id(node.attribute("id"))?;
        let sort = sort(node, owner)?;
        let numberless = matches!(&*sort, "inhibition" | "inhibitor" | "test" | "read");
        let mut multiplicity = 1;
        for child in inside(node) {
            match name(child) {
                "inscription" if values(child).next().is_none() => {}
                // An inhibitor arc of PIPE 5 has no number: any token stops. So may one that only looks.
                "inscription" if numberless && value(child).as_deref() == Some("") => {}
                "inscription" => multiplicity = count(child, owner)?,
                "type" | "arctype" => {}
                "tagged" => untagged(child)?,
                "arcpath" | "graphics" | "name" => {}
                "toolspecific" => remark(child)?,
                other => return Err(unknown(child, other, "of an arc")),
            }
        }
        match &*sort {
            "normal" => self.draft.arc(from, to, multiplicity),
            "inhibition" | "inhibitor" => self.draft.inhibitor(from, to, multiplicity),
            "test" | "read" => {
                self.draft.arc(from, to, multiplicity)?;
                self.draft.arc(to, from, multiplicity)
            }
            other => Err(Refusal::new(Class::Unsupported, owner, format!("arcs of type `{other}` are not understood"))),
        }
    }
}

/// What sort of arc it is. ProM and pm4py call it `arctype`.
fn sort<'a>(node: Node<'a, '_>, owner: &str) -> Result<Cow<'a, str>, Refusal> {
    let said = match (child(node, "type"), child(node, "arctype")) {
        (Some(_), Some(_)) => {
            return Err(Refusal::invalid(owner, "what sort it is of stands twice, as `type` and as `arctype`"));
        }
        (one, other) => one.or(other),
    };
    Ok(said.map_or(Cow::Borrowed("normal"), |said| {
        said.attribute("value").map(Cow::Borrowed).or_else(|| value(said)).unwrap_or_default()
    }))
}

/// PIPE follows tokens that pass what is tagged: tokens are all the same here.
fn untagged(child: Node<'_, '_>) -> Result<(), Refusal> {
    let said = value(child).unwrap_or_else(|| xml::text(child));
    if said != "true" {
        return Ok(());
    }
    let why = format!("line {}: `tagged` is `true`, and tokens cannot be followed here: write `false`", line(child));
    Err(Refusal::new(Class::Unsupported, owner(child, "tagged"), why))
}
