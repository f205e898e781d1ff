//! UML as Papyrus writes it (XMI 2.x): components, their properties and connectors, nodes, interactions; MARTE's stereotypes for times,
//! sizes and load; and four stereotypes of our own for P4's annotations.
//!
//! Elements are matched by their local names and types, because namespaces change with each version of the tools. Every applied
//! stereotype is known here or refused by name: one that was passed over could have said that a step takes an hour.

mod combined;
mod messages;
mod ordered;
mod resources;
mod spans;
mod stereotypes;
mod strays;
mod structure;
mod vsl;
mod written;

use std::collections::{BTreeMap, BTreeSet};

use gspn::formats::{UNDECLARED, declared};
use roxmltree::{Document, Node};

use self::combined::is_break;
use self::stereotypes::Applied;
use super::block::Loops;
use super::draft::{Draft, Line, Written};
use super::fields::Fields;
use super::lines::Lines;
use crate::{Class, Fault};

/// Fragments inside fragments.
const MAX_DEPTH: usize = 30;

/// What limits or observes times. A solution that does not keep to them would be told all the same.
const TIMED: [&str; 8] = [
    "Duration",
    "DurationConstraint",
    "DurationInterval",
    "DurationObservation",
    "IntervalConstraint",
    "TimeConstraint",
    "TimeInterval",
    "TimeObservation",
];

/// Reads the words of a model; of several scenarios the one of this name is meant, and stereotypes that are left out are passed over.
pub(super) fn draft(text: &str, scenario: Option<&str>, left_out: &[String]) -> Result<Draft, Fault> {
    if !declared(text) {
        return Err(Fault::new(Class::Syntax, "", UNDECLARED).at(1));
    }
    let document = Document::parse(text).map_err(|error| {
        // Of what is cut off the parser does not say where.
        let row = match error {
            roxmltree::Error::UnexpectedEndOfStream => text.lines().count(),
            _ => usize::try_from(error.pos().row).unwrap_or(0),
        };
        let other = if text.trim_start_matches('\u{feff}').trim_start().starts_with('<') {
            ""
        } else {
            ": this is no XML, which a model in UML (XMI) is written in"
        };
        Fault::new(Class::Syntax, "", format!("{error}{other}")).at(row)
    })?;
    Reader::new(&document, left_out)?.draft(scenario)
}

/// An attribute by its local name, whatever its namespace; what is none of XMI's own may be an element.
fn attribute<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    let of_xmi = matches!(name, "id" | "idref" | "href");
    let attribute = node.attributes().find(|it| it.name() == name).map(|it| it.value());
    attribute.or_else(|| if of_xmi { None } else { written::property(node, name) })
}

/// `Component` of `uml:Component`, whatever prefix the namespace of UML has.
fn kind<'a>(node: Node<'a, '_>, value: &'a str) -> Option<&'a str> {
    let (prefix, kind) = value.split_once(':')?;
    let is_uml = |space: &str| space.split(['/', '.', ':']).any(|part| part.eq_ignore_ascii_case("uml"));
    (prefix == "uml" || node.lookup_namespace_uri(Some(prefix)).is_some_and(is_uml)).then_some(kind)
}

/// `Component` of `xmi:type="uml:Component"`; without one the type that UML's metamodel gives to what stands there.
fn sort<'a>(node: Node<'a, '_>) -> &'a str {
    // What leads to an element, here or in another file, is none.
    if node.attributes().any(|it| matches!(it.name(), "idref" | "href")) {
        return "";
    }
    let mut types = node.attributes().filter(|it| it.name() == "type");
    if let Some(typed) = types.find_map(|it| kind(node, it.value())) {
        return typed;
    }
    if node.attributes().any(|it| it.name() == "type" && it.namespace().is_some()) {
        return "";
    }
    match node.tag_name().name() {
        "ownedAttribute" | "ownedEnd" => "Property",
        "operand" => "InteractionOperand",
        "deployment" => "Deployment",
        "generalOrdering" => "GeneralOrdering",
        "manifestation" => "Manifestation",
        _ => "",
    }
}

/// What a child leads to in this file: `xmi:idref="ID"`, or `href="#ID"`.
fn led<'a>(child: Node<'a, '_>) -> Option<&'a str> {
    attribute(child, "idref").or_else(|| attribute(child, "href")?.strip_prefix('#'))
}

/// The identifier that an attribute or a child says.
fn reference<'a>(node: Node<'a, '_>, key: &str) -> Option<&'a str> {
    let child = || {
        let mut children = node.children().filter(|child| child.tag_name().name() == key);
        children.find_map(led)
    };
    attribute(node, key).or_else(child)
}

fn name<'a>(node: Node<'a, '_>) -> &'a str {
    attribute(node, "name").unwrap_or("")
}

/// Whether it is an end of a message, or where an execution begins or ends.
fn is_occurrence(node: Node<'_, '_>) -> bool {
    node.tag_name().name() == "fragment" && sort(node).ends_with("OccurrenceSpecification")
}

/// The name of an element, or its identifier where it has none.
fn called<'a>(node: Node<'a, '_>) -> &'a str {
    Some(name(node)).filter(|name| !name.trim().is_empty()).or_else(|| attribute(node, "id")).unwrap_or("")
}

impl Lines {
    /// The line of an element, from 1.
    fn line(&self, node: Node<'_, '_>) -> usize {
        self.at(node.range().start)
    }

    /// The element's words begin with its kind and name, or its identifier, at its line.
    fn words(&self, node: Node<'_, '_>, what: &str) -> Fields {
        Fields::new(format!("{what} {}", called(node)), self.line(node))
    }
}

/// The interaction that an element is, or stands in.
fn around<'a>(node: Node<'a, 'a>) -> Option<Node<'a, 'a>> {
    node.ancestors().find(|it| sort(*it) == "Interaction")
}

/// Identifiers that an attribute or children list.
fn references<'a>(node: Node<'a, 'a>, key: &str) -> Vec<String> {
    let attribute = node.attributes().find(|it| it.name() == key).map(|it| it.value().to_owned());
    let children = node.children().filter(|child| child.is_element() && child.tag_name().name() == key);
    let children = children.filter_map(|child| led(child).map(str::to_owned).or_else(|| written::text(child).ok()));
    let lists = attribute.into_iter().chain(children);
    lists.flat_map(|ids| ids.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// What tools write for themselves, which is not of the model though it may look like it.
fn is_for_tools(node: Node<'_, '_>) -> bool {
    let of_xmi = |space: &str| space.to_ascii_lowercase().contains("xmi");
    match node.tag_name().name() {
        "Extension" => node.tag_name().namespace().is_some_and(of_xmi),
        "eAnnotations" => true,
        _ => false,
    }
}

/// The elements of a document, but for what tools write for themselves.
fn elements<'a>(document: &'a Document<'a>) -> Vec<Node<'a, 'a>> {
    let mut end = 0;
    let of_the_model = |node: &Node<'a, 'a>| {
        if node.range().start >= end && is_for_tools(*node) {
            end = node.range().end;
        }
        node.range().start >= end
    };
    document.descendants().filter(Node::is_element).filter(of_the_model).collect()
}

struct Reader<'a> {
    elements: Vec<Node<'a, 'a>>,
    by_id: BTreeMap<&'a str, Node<'a, 'a>>,
    applied: Applied,
    lines: Lines,
    /// Of the connectors between two components, in the order of their names: the first, and whether it is the only one.
    joins: BTreeMap<[&'a str; 2], (String, bool)>,
    /// Names of attributes and connectors whose own is not enough, by their identifiers.
    called: BTreeMap<&'a str, String>,
    /// Components and attributes that the model has; others are none, whatever their names.
    had: BTreeSet<&'a str>,
    /// The bodies of loops, which are sequences that are referred to so many times.
    bodies: Vec<Written>,
    /// What the next of them is called.
    loops: Loops,
    /// Executions, by what starts them.
    starts: BTreeMap<&'a str, Node<'a, 'a>>,
    /// Messages whose sending stands in a fragment.
    laid: BTreeSet<&'a str>,
    /// Whether what is read now is another scenario, of which only counts what it uses.
    aside: bool,
}

impl<'a> Reader<'a> {
    fn new(document: &'a Document<'a>, left_out: &[String]) -> Result<Self, Fault> {
        let lines = Lines::of(document.input_text());
        let mut by_id = BTreeMap::new();
        let elements = elements(document);
        for node in elements.iter().copied() {
            if let Some(id) = attribute(node, "id")
                && by_id.insert(id, node).is_some()
            {
                return Err(Fault::new(Class::Doubled, id, "two elements have this `xmi:id`").at(lines.line(node)));
            }
        }
        let applied = Applied::of(document, &by_id, &lines, left_out)?;
        let reader = Self {
            starts: elements.iter().filter_map(|it| Some((reference(*it, "start")?, *it))).collect(),
            elements,
            by_id,
            applied,
            lines,
            joins: BTreeMap::new(),
            called: BTreeMap::new(),
            had: BTreeSet::new(),
            bodies: Vec::new(),
            loops: Loops::default(),
            laid: BTreeSet::new(),
            aside: false,
        };
        reader.strays(left_out)?;
        Ok(reader)
    }

    fn all(&self, wanted: &'static str) -> impl Iterator<Item = Node<'a, 'a>> {
        self.elements.iter().copied().filter(move |node| sort(*node) == wanted)
    }

    fn draft(mut self, scenario: Option<&str>) -> Result<Draft, Fault> {
        let mut draft = Draft::default();
        let root = self.elements.iter().copied().find(|node| node.tag_name().name() == "Model");
        let Some(root) = root else {
            return Err(Fault::new(Class::Missing, "", "there is no `uml:Model` in it"));
        };
        draft.name = name(root).to_owned();
        self.whole_properties()?;
        self.rules()?;
        self.multiplicities()?;
        self.nodes(&mut draft)?;
        self.components(&mut draft)?;
        self.connectors(&mut draft)?;
        self.pools(&mut draft)?;
        self.sequences(&mut draft, scenario)?;
        draft.workload = self.applied.workload()?;
        if let (None, Some(first)) = (&draft.workload, draft.sequences.first()) {
            let why = "it is missing: a `GaWorkloadEvent` on the interaction, whose `pattern` is such as `closed(population=8)`";
            return Err(Fault::new(Class::MissingAnnotation, "workload", why).at(first.line));
        }
        draft.secured = self.secured()?;
        self.applied.end(&self.by_id)?;
        Ok(draft)
    }

    /// Rules of an interaction, and of times anywhere: nothing here heeds them.
    fn rules(&self) -> Result<(), Fault> {
        let is_rule = |node: Node<'_, '_>| {
            let of = node.parent_element().map_or("", sort);
            TIMED.contains(&sort(node))
                || node.tag_name().name() == "ownedRule" && matches!(of, "Interaction" | "InteractionOperand")
        };
        match self.elements.iter().copied().find(|node| is_rule(*node)) {
            None => Ok(()),
            Some(rule) => {
                let why = format!("a `{}` is not heeded: what it demands of times or values would be lost", sort(rule));
                Err(Fault::new(Class::Unknown, name(rule), why).at(self.lines.line(rule)))
            }
        }
    }

    /// Interactions; the one that is a `GaScenario` comes first, and those that it does not lead to are other scenarios; else one that
    /// nothing refers to.
    fn sequences(&mut self, draft: &mut Draft, wanted: Option<&str>) -> Result<(), Fault> {
        let all: Vec<_> = self.all("Interaction").collect();
        let scenario = self.scenario(wanted)?;
        draft.scenarios = scenario.is_some();
        let others = match scenario.as_ref() {
            None => BTreeSet::new(),
            Some((base, line)) => {
                let meant = all.iter().find(|interaction| attribute(**interaction, "id") == Some(base.as_str()));
                let Some(meant) = meant else {
                    let why = format!("it is applied to `{base}`, which is no interaction");
                    return Err(Fault::new(Class::NoSuchName, "GaScenario", why).at(*line));
                };
                let reached = self.reached(*meant);
                let ids = all.iter().filter_map(|it| attribute(*it, "id"));
                ids.filter(|id| !reached.contains(id)).collect()
            }
        };
        if let Some((meant, _)) = &scenario {
            self.applied.set_aside(&self.by_id, &others, meant);
        }
        let used: Vec<String> = self.all("InteractionUse").flat_map(|node| references(node, "refersTo")).collect();
        let mut written = Vec::new();
        self.loops = Loops::beside(all.iter().map(|interaction| name(*interaction).to_owned()));
        for interaction in all {
            let id = attribute(interaction, "id").unwrap_or("");
            let first = scenario.as_ref().is_some_and(|(base, _)| base == id);
            let rank = (!first, used.iter().any(|used| used == id));
            self.aside = others.contains(id);
            let steps = self.fragments(interaction, interaction, 0)?;
            if !self.aside {
                self.lifelines(interaction)?;
                self.all_laid(interaction)?;
            }
            written.push((
                rank,
                Written { name: name(interaction).to_owned(), line: self.lines.line(interaction), steps },
            ));
        }
        self.orderings(&others)?;
        let own = self.all("Interaction").filter(|it| !attribute(*it, "id").is_some_and(|id| others.contains(id)));
        own.into_iter().try_for_each(|interaction| self.overtaken(interaction))?;
        written.sort_by_key(|(rank, _)| *rank);
        draft.sequences = written.into_iter().map(|(_, written)| written).chain(self.bodies.drain(..)).collect();
        Ok(())
    }

    /// What the scenario that is meant is applied to, and its line: the only `GaScenario`, or the interaction that has the wanted name.
    fn scenario(&self, wanted: Option<&str>) -> Result<Option<(String, usize)>, Fault> {
        let listed = |names: &mut dyn Iterator<Item = &str>| {
            let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
            names.join(", ")
        };
        let Some(wanted) = wanted else {
            let all = self.applied.scenarios();
            let called = |base: &str| self.by_id.get(base).map_or("", |it| name(*it));
            return match all.as_slice() {
                [] => Ok(None),
                [(base, line)] => Ok(Some(((*base).to_owned(), *line))),
                [_, (_, line), ..] => {
                    let names = listed(&mut all.iter().map(|(base, _)| called(base)));
                    let why = format!(
                        "there are {} of them, on {names}: one is solved at a time, say which is meant",
                        all.len()
                    );
                    Err(Fault::new(Class::Doubled, "GaScenario", why).at(*line))
                }
            };
        };
        let found: Vec<_> = self.all("Interaction").filter(|it| name(*it) == wanted).collect();
        let fault = |class, why: String| Fault::new(class, format!("scenario {wanted}"), why);
        match found.as_slice() {
            [only] => Ok(Some((attribute(*only, "id").unwrap_or("").to_owned(), self.lines.line(*only)))),
            [] => {
                let names = listed(&mut self.all("Interaction").map(name));
                Err(fault(Class::NoSuchName, format!("no interaction has this name; there are {names}")))
            }
            [_, second, ..] => {
                let why = "two interactions have this name: which is meant?".to_owned();
                Err(fault(Class::Doubled, why).at(self.lines.line(*second)))
            }
        }
    }

    /// Interactions that one leads to, and itself.
    fn reached(&self, from: Node<'a, 'a>) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::new();
        let mut next = vec![from];
        while let Some(interaction) = next.pop() {
            if !attribute(interaction, "id").is_some_and(|id| reached.insert(id)) {
                continue;
            }
            let inside = interaction.descendants().filter(|it| sort(*it) == "InteractionUse");
            let own = inside.filter(|it| around(*it) == Some(interaction));
            let refers = own.flat_map(|it| references(it, "refersTo"));
            next.extend(refers.filter_map(|id| self.by_id.get(id.as_str()).copied()));
        }
        reached
    }

    /// What a lifeline does elsewhere, which of several it is, or what is on another one, would be lost.
    fn lifelines(&self, interaction: Node<'a, 'a>) -> Result<(), Fault> {
        for lifeline in interaction.children().filter(|child| child.tag_name().name() == "lifeline") {
            for (key, why) in [
                ("decomposedAs", "what another interaction says that it does would be lost"),
                ("selector", "which of several it is would be lost: draw each of them"),
            ] {
                let child = |child: Node<'_, '_>| child.tag_name().name() == key;
                if attribute(lifeline, key).is_some() || lifeline.children().any(child) {
                    let why = format!("a `{key}` is not heeded: {why}");
                    let what = format!("lifeline {}", name(lifeline));
                    return Err(Fault::new(Class::Unknown, what, why).at(self.lines.line(lifeline)));
                }
            }
            let covered = references(lifeline, "coveredBy");
            let covered = covered.iter().filter_map(|id| self.by_id.get(id.as_str()).copied());
            let own = |on: &String| Some(on.as_str()) == attribute(lifeline, "id");
            let is_elsewhere = |it: &Node<'_, '_>| {
                let here = is_occurrence(*it) && around(*it) == Some(interaction);
                let on = if here { references(*it, "covered") } else { Vec::new() };
                !on.is_empty() && !on.iter().any(own)
            };
            if let Some(other) = covered.into_iter().find(is_elsewhere) {
                let why = format!(
                    "its `coveredBy` names `{}`, which is `covered` by another one: on which is it?",
                    called(other)
                );
                let what = format!("lifeline {}", called(lifeline));
                return Err(Fault::new(Class::Invalid, what, why).at(self.lines.line(lifeline)));
            }
        }
        Ok(())
    }

    /// A message whose sending no fragment stands for would be lost.
    fn all_laid(&self, interaction: Node<'a, 'a>) -> Result<(), Fault> {
        let mut messages = interaction.children().filter(|child| child.tag_name().name() == "message");
        match messages.find(|it| !self.laid.contains(attribute(*it, "id").unwrap_or(""))) {
            None => Ok(()),
            Some(lost) => {
                let why = "it would be lost: its `sendEvent` is no fragment of the interaction";
                Err(Fault::new(Class::Invalid, format!("message {}", name(lost)), why).at(self.lines.line(lost)))
            }
        }
    }

    fn fragments(&mut self, of: Node<'a, 'a>, interaction: Node<'a, 'a>, depth: usize) -> Result<Vec<Line>, Fault> {
        if depth > MAX_DEPTH {
            let why = format!("more than {MAX_DEPTH} fragments inside each other");
            return Err(Fault::new(Class::TooLarge, name(interaction), why).at(self.lines.line(of)));
        }
        let mut steps = Vec::new();
        // What comes before a `break`, where it stands, its way and the one on which all goes on, which is one deeper.
        let mut broken_off = Vec::new();
        for fragment in of.children().filter(|child| child.tag_name().name() == "fragment") {
            match sort(fragment) {
                _ if depth == 0 && is_break(fragment) => {
                    if broken_off.len() >= MAX_DEPTH {
                        let why = format!("more than {MAX_DEPTH} fragments that end it");
                        return Err(Fault::new(Class::TooLarge, name(interaction), why).at(self.lines.line(fragment)));
                    }
                    let ways = self.broken_off(fragment, interaction, broken_off.len())?;
                    broken_off.push((std::mem::take(&mut steps), self.lines.line(fragment), ways));
                }
                "MessageOccurrenceSpecification" => {
                    if let Some((message, step)) = self.message(fragment, interaction)? {
                        steps.extend(self.with_resources(message, step)?);
                    }
                }
                "InteractionUse" => steps.push(self.interaction_use(fragment)?),
                "CombinedFragment" => {
                    steps.extend(self.combined(fragment, interaction, depth + broken_off.len())?);
                }
                // One with a step's stereotype is work; else what lasts and where it begins is said by the messages.
                "BehaviorExecutionSpecification" | "ActionExecutionSpecification" => {
                    if let Some(step) = self.execution(fragment, interaction)? {
                        steps.extend(self.with_resources(fragment, step)?);
                    }
                }
                "ExecutionOccurrenceSpecification" | "DestructionOccurrenceSpecification" => {}
                other => {
                    let advice = match other {
                        "StateInvariant" => ": it takes no time, take it out",
                        "Continuation" => ": draw what follows where it is continued",
                        _ => "; messages, executions, interaction uses and combined fragments can",
                    };
                    let why = format!("a fragment of the type `{other}` cannot be laid{advice}");
                    return Err(Fault::new(Class::Unknown, name(fragment), why).at(self.lines.line(fragment)));
                }
            }
        }
        for (mut before, line, [ended, (words, _)]) in broken_off.into_iter().rev() {
            before.push(Line::Choice(line, vec![ended, (words, steps)]));
            steps = before;
        }
        Ok(steps)
    }

    fn interaction_use(&mut self, fragment: Node<'a, 'a>) -> Result<Line, Fault> {
        let mut words = self.lines.words(fragment, "ref");
        let refers = references(fragment, "refersTo");
        let target = refers.first().and_then(|id| self.by_id.get(id.as_str()));
        let Some(target) = target.filter(|it| sort(**it) == "Interaction") else {
            return Err(words.fault(Class::NoSuchName, 0, "it refers to no interaction of this file"));
        };
        words.put("ref", vec![name(*target).to_owned()], self.lines.line(fragment))?;
        self.applied.repeats(attribute(fragment, "id").unwrap_or(""), &mut words)?;
        Ok(Line::Ref(words))
    }

    /// The four annotations.
    fn secured(&mut self) -> Result<Vec<Fields>, Fault> {
        let mut secured = Vec::new();
        for (base, sort, mut words, at) in self.applied.secured()? {
            let Some(element) = self.by_id.get(base.as_str()) else {
                return Err(words.fault(
                    Class::NoSuchName,
                    at,
                    format!("it is applied to `{base}`, and there is none"),
                ));
            };
            // Something else of that name is not meant.
            let is = match sort {
                "connector" => element.tag_name().name() == "ownedConnector",
                "attribute" => self::sort(*element) == "Property" && self.had.contains(base.as_str()),
                _ => self::sort(*element) == "Component" && self.had.contains(base.as_str()),
            };
            if !is {
                let why = format!("it is applied to `{}`, which is no {sort}{}", name(*element), self.hollow(&base));
                return Err(words.fault(Class::NoSuchName, at, why));
            }
            words.put("on", vec![format!("{sort} {}", self.called(*element))], at)?;
            secured.push(words);
        }
        Ok(secured)
    }
}
