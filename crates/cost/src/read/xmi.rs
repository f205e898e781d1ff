//! UML as Papyrus writes it (XMI 2.x): components, their properties and connectors, nodes, interactions; MARTE's stereotypes for times,
//! sizes and load; and four stereotypes of our own for P4's annotations.
//!
//! Elements are matched by their local names and types, because namespaces change with each version of the tools. Every applied
//! stereotype is known here or refused by name: one that was passed over could have said that a step takes an hour.

mod stereotypes;
mod structure;
mod vsl;

use std::collections::{BTreeMap, BTreeSet};

use roxmltree::{Document, Node};

use self::stereotypes::Applied;
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

/// How messages are sent (UML 2.5 section 17.12.22).
const SORTS: [&str; 6] = ["synchCall", "asynchCall", "asynchSignal", "createMessage", "deleteMessage", "reply"];

/// Reads the words of a model; of several scenarios the one of this name is meant.
pub(super) fn draft(text: &str, scenario: Option<&str>) -> Result<Draft, Fault> {
    let document = Document::parse(text).map_err(|error| {
        let row = usize::try_from(error.pos().row).unwrap_or(0);
        Fault::new(Class::Syntax, "", error.to_string()).at(row)
    })?;
    Reader::new(&document)?.draft(scenario)
}

/// An attribute by its local name, whatever its namespace.
fn attribute<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    node.attributes().find(|it| it.name() == name).map(|it| it.value())
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
        _ => "",
    }
}

/// The identifier that an attribute or an `xmi:idref` child says.
fn reference<'a>(node: Node<'a, '_>, key: &str) -> Option<&'a str> {
    let child = || {
        let mut children = node.children().filter(|child| child.tag_name().name() == key);
        children.find_map(|child| attribute(child, "idref"))
    };
    attribute(node, key).or_else(child)
}

fn name<'a>(node: Node<'a, '_>) -> &'a str {
    attribute(node, "name").unwrap_or("")
}

impl Lines {
    /// The line of an element, from 1.
    fn line(&self, node: Node<'_, '_>) -> usize {
        self.at(node.range().start)
    }

    /// The element's words begin with its kind and name, or its identifier, at its line.
    fn words(&self, node: Node<'_, '_>, what: &str) -> Fields {
        let called = Some(name(node)).filter(|name| !name.trim().is_empty()).or_else(|| attribute(node, "id"));
        Fields::new(format!("{what} {}", called.unwrap_or("")), self.line(node))
    }
}

/// The interaction that an element is, or stands in.
fn around<'a>(node: Node<'a, 'a>) -> Option<Node<'a, 'a>> {
    node.ancestors().find(|it| sort(*it) == "Interaction")
}

/// Identifiers that an attribute or `xmi:idref` children list.
fn references(node: Node<'_, '_>, key: &str) -> Vec<String> {
    let written = attribute(node, key).unwrap_or("").split_whitespace().map(str::to_owned);
    let children = node.children().filter(|child| child.tag_name().name() == key);
    let children = children.filter_map(|child| attribute(child, "idref").map(str::to_owned));
    written.chain(children).collect()
}

/// `minint` or `maxint` of an operand's guard: `*` is no end, a literal without a value 0.
///
/// # Errors
/// What it is, if it is no whole number.
fn bound(operand: Node<'_, '_>, key: &str) -> Result<Option<f64>, String> {
    let guard = operand.children().find(|child| child.tag_name().name() == "guard");
    let Some(said) = guard.and_then(|guard| guard.children().find(|child| child.tag_name().name() == key)) else {
        return Ok(None);
    };
    let body = || said.children().find(|child| child.tag_name().name() == "body").and_then(|body| body.text());
    let unsaid = || sort(said).starts_with("Literal").then_some("0");
    let text = attribute(said, "value").or_else(|| attribute(said, "body")).or_else(body).or_else(unsaid);
    let Some(text) = text.map(str::trim) else {
        return Err(format!("its `{key}` is a `{}`: only whole numbers can be used", sort(said)));
    };
    match text.parse::<u32>() {
        Ok(number) => Ok(Some(f64::from(number))),
        Err(_) if matches!(text, "*" | "-1") => Ok(Some(f64::INFINITY)),
        Err(_) => Err(format!("its `{key}` is `{text}`: only whole numbers can be used")),
    }
}

struct Reader<'a> {
    document: &'a Document<'a>,
    by_id: BTreeMap<&'a str, Node<'a, 'a>>,
    applied: Applied,
    lines: Lines,
    /// Of the connectors between two components, in the order of their names: the first, and whether it is the only one.
    joins: BTreeMap<[&'a str; 2], (&'a str, bool)>,
    /// The bodies of loops, which are sequences that are referred to so many times.
    bodies: Vec<Written>,
    /// How many loops begin in a line.
    loops: BTreeMap<usize, usize>,
    /// Messages whose sending stands in a fragment.
    laid: BTreeSet<&'a str>,
    /// Whether what is read now is another scenario, of which only counts what it uses.
    aside: bool,
}

impl<'a> Reader<'a> {
    fn new(document: &'a Document<'a>) -> Result<Self, Fault> {
        let lines = Lines::of(document.input_text());
        let mut by_id = BTreeMap::new();
        for node in document.descendants().filter(Node::is_element) {
            if let Some(id) = attribute(node, "id")
                && by_id.insert(id, node).is_some()
            {
                return Err(Fault::new(Class::Doubled, id, "two elements have this `xmi:id`").at(lines.line(node)));
            }
        }
        let applied = Applied::of(document, &by_id, &lines)?;
        Ok(Self {
            document,
            by_id,
            applied,
            lines,
            joins: BTreeMap::new(),
            bodies: Vec::new(),
            loops: BTreeMap::new(),
            laid: BTreeSet::new(),
            aside: false,
        })
    }

    fn all(&self, wanted: &'static str) -> impl Iterator<Item = Node<'a, 'a>> + use<'a> {
        self.document.descendants().filter(move |node| node.is_element() && sort(*node) == wanted)
    }

    fn draft(mut self, scenario: Option<&str>) -> Result<Draft, Fault> {
        let mut draft = Draft::default();
        let root = self.document.descendants().find(|node| node.tag_name().name() == "Model");
        let Some(root) = root else {
            return Err(Fault::new(Class::Missing, "", "there is no `uml:Model` in it"));
        };
        draft.name = name(root).to_owned();
        self.rules()?;
        self.multiplicities()?;
        self.nodes(&mut draft)?;
        self.components(&mut draft)?;
        self.connectors(&mut draft)?;
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
        match self.document.descendants().find(|node| node.is_element() && is_rule(*node)) {
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

    /// What a lifeline does elsewhere, or which of several it is, would be lost.
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
        for fragment in of.children().filter(|child| child.tag_name().name() == "fragment") {
            match sort(fragment) {
                "MessageOccurrenceSpecification" => {
                    if let Some(step) = self.message(fragment, interaction)? {
                        steps.push(step);
                    }
                }
                "InteractionUse" => steps.push(self.interaction_use(fragment)?),
                "CombinedFragment" => steps.extend(self.combined(fragment, interaction, depth)?),
                // One with a step's stereotype is work; else what lasts and where it begins is said by the messages.
                "BehaviorExecutionSpecification" | "ActionExecutionSpecification" => {
                    steps.extend(self.execution(fragment, interaction)?);
                }
                "ExecutionOccurrenceSpecification" | "DestructionOccurrenceSpecification" => {}
                other => {
                    let why = format!("a fragment of the type `{other}` cannot be laid");
                    return Err(Fault::new(Class::Unknown, name(fragment), why).at(self.lines.line(fragment)));
                }
            }
        }
        Ok(steps)
    }

    /// The step of an execution that a `GaStep` is applied to, done by the component of its lifeline.
    fn execution(&mut self, fragment: Node<'a, 'a>, interaction: Node<'a, 'a>) -> Result<Option<Line>, Fault> {
        let id = attribute(fragment, "id").unwrap_or("");
        let behavior = references(fragment, "behavior").into_iter().find_map(|id| self.by_id.get(id.as_str()).copied());
        if let Some(other) = behavior.filter(|it| sort(*it) == "Interaction" && !self.aside) {
            let why = format!(
                "its `behavior` is the interaction `{}`, which would be lost: an `InteractionUse` is laid",
                name(other)
            );
            let what = format!("execution {}", name(fragment));
            return Err(Fault::new(Class::Unknown, what, why).at(self.lines.line(fragment)));
        }
        if !self.applied.is_step(id) {
            return Ok(None);
        }
        let mut words = self.lines.words(fragment, "execution");
        if !self.aside {
            self.named(fragment, &words)?;
        }
        let on = references(fragment, "covered");
        if on.len() > 1 {
            let why = format!("it is on {} lifelines: who does the work?", on.len());
            return Err(words.fault(Class::Invalid, 0, why));
        }
        let by = on.into_iter().next();
        let lifeline = by.as_ref().and_then(|id| self.by_id.get(id.as_str()));
        let represents = lifeline.and_then(|lifeline| reference(*lifeline, "represents"));
        let Some(by) = represents.and_then(|id| self.component(id)) else {
            let why = format!("it is on no lifeline that represents a component, in `{}`", name(interaction));
            return Err(words.fault(Class::NoSuchName, 0, why));
        };
        words.put("do", vec![name(fragment).to_owned()], self.lines.line(fragment))?;
        words.put("by", vec![by.to_owned()], self.lines.line(fragment))?;
        self.time(id, &mut words)?;
        self.flow(id, &mut words)?;
        Ok(Some(Line::Do(words)))
    }

    /// The step of a message, at the fragment of its sending.
    fn message(&mut self, fragment: Node<'a, 'a>, interaction: Node<'a, 'a>) -> Result<Option<Line>, Fault> {
        let id = attribute(fragment, "id").unwrap_or("");
        let of = reference(fragment, "message").unwrap_or("");
        let Some(message) = self.by_id.get(of).copied().filter(|it| it.tag_name().name() == "message") else {
            let why = format!("it belongs to the message `{of}`, and there is none");
            return Err(Fault::new(Class::NoSuchName, name(fragment), why).at(self.lines.line(fragment)));
        };
        if reference(message, "sendEvent") != Some(id) {
            return Ok(None);
        }
        self.laid.extend(attribute(message, "id"));
        let end = |key: &str| -> Result<&'a str, Fault> {
            let event = reference(message, key).and_then(|id| self.by_id.get(id));
            let lifeline = event.and_then(|event| references(*event, "covered").into_iter().next());
            let represents = lifeline.as_ref().and_then(|id| self.by_id.get(id.as_str()));
            let represents = represents.and_then(|lifeline| reference(*lifeline, "represents"));
            represents.and_then(|id| self.component(id)).ok_or_else(|| {
                let why =
                    format!("its `{key}` leads to no lifeline that represents a component, in `{}`", name(interaction));
                Fault::new(Class::NoSuchName, format!("message {}", name(message)), why).at(self.lines.line(message))
            })
        };
        let (from, to) = (end("sendEvent")?, end("receiveEvent")?);
        let mut words = self.lines.words(message, "message");
        let at = self.lines.line(message);
        if !self.aside {
            self.named(message, &words)?;
            self.in_one_place(message, fragment, &words)?;
        }
        if from == to {
            words.put("do", vec![name(message).to_owned()], at)?;
            words.put("by", vec![from.to_owned()], at)?;
            self.time(of, &mut words)?;
            self.flow(of, &mut words)?;
            return Ok(Some(Line::Do(words)));
        }
        let connector = self.connector(message, &words)?;
        let Some(over) = connector.or_else(|| self.between(from, to)) else {
            let why = format!("it has no `connector`, and not exactly one joins `{from}` and `{to}`");
            return Err(words.fault(Class::MissingAnnotation, at, why));
        };
        words.put("send", vec![name(message).to_owned()], at)?;
        words.put("over", vec![over], at)?;
        words.put("from", vec![from.to_owned()], at)?;
        words.put("to", vec![to.to_owned()], at)?;
        self.applied.step(of, "bytes", &mut words)?;
        self.flow(of, &mut words)?;
        Ok(Some(Line::Send(words)))
    }

    /// A message of a sort that UML has, whose ends are at one lifeline each and both in one operand: one that ends where the way may not
    /// lead would arrive all the same.
    fn in_one_place(&self, message: Node<'a, 'a>, sent: Node<'a, 'a>, words: &Fields) -> Result<(), Fault> {
        let sort = attribute(message, "messageSort").unwrap_or("synchCall");
        if !SORTS.contains(&sort) {
            let why = format!("the `messageSort` `{sort}` is unknown; known: {}", SORTS.join(", "));
            return Err(words.fault(Class::Unknown, 0, why));
        }
        let received = reference(message, "receiveEvent").and_then(|id| self.by_id.get(id).copied());
        for event in [Some(sent), received].into_iter().flatten() {
            let on = references(event, "covered").len();
            if on > 1 {
                let why = format!("its end `{}` is on {on} lifelines: on which?", name(event));
                return Err(words.fault(Class::Invalid, 0, why));
            }
        }
        if received.is_some_and(|it| it.parent_element() != sent.parent_element()) {
            let place = |event: Node<'a, 'a>| event.parent_element().map_or("", name);
            let (from, to) = (place(sent), received.map_or("", place));
            let why = format!("it is sent in `{from}` and received in `{to}`: both ends are in one operand");
            return Err(words.fault(Class::Invalid, 0, why));
        }
        Ok(())
    }

    /// A step is known by its name.
    fn named(&self, step: Node<'a, 'a>, words: &Fields) -> Result<(), Fault> {
        let why = "it has no name: what is done, or sent?";
        if name(step).trim().is_empty() { Err(words.fault(Class::Missing, 0, why)) } else { Ok(()) }
    }

    /// The connector that a message names.
    fn connector(&self, message: Node<'a, 'a>, words: &Fields) -> Result<Option<String>, Fault> {
        let elsewhere = message.children().filter(|child| child.tag_name().name() == "connector");
        let elsewhere = elsewhere.filter_map(|child| attribute(child, "href").map(str::to_owned));
        let mut named = references(message, "connector").into_iter().chain(elsewhere);
        let Some(id) = named.next() else { return Ok(None) };
        if let Some(other) = named.next() {
            return Err(words.fault(
                Class::Doubled,
                0,
                format!("its `connector` is `{id}` and `{other}`: over which?"),
            ));
        }
        match self.by_id.get(id.as_str()).filter(|it| it.tag_name().name() == "ownedConnector") {
            Some(connector) => Ok(Some(name(*connector).to_owned())),
            None => Err(words.fault(
                Class::NoSuchName,
                0,
                format!("its `connector` is `{id}`, which is no connector of this file"),
            )),
        }
    }

    /// The time of an operation; of another scenario nobody asks for it.
    fn time(&mut self, of: &str, words: &mut Fields) -> Result<(), Fault> {
        self.applied.step(of, "time", words)?;
        if self.aside {
            return words.put("time", vec!["0".to_owned()], 0);
        }
        if words.clone().word("time")?.is_none() {
            let why = "it has no `hostDemand` of a `GaStep`: write 0 if it takes none";
            return Err(words.fault(Class::MissingAnnotation, 0, why));
        }
        Ok(())
    }

    /// Properties by identifier become attributes by name.
    fn flow(&mut self, of: &str, words: &mut Fields) -> Result<(), Fault> {
        for (key, ids, at) in self.applied.flow(of) {
            let mut names = Vec::new();
            for id in ids {
                let Some(property) = self.by_id.get(id.as_str()).filter(|it| sort(**it) == "Property") else {
                    return Err(words.fault(
                        Class::NoSuchName,
                        at,
                        format!("`{key}` names `{id}`, which is no property"),
                    ));
                };
                names.push(name(*property).to_owned());
            }
            words.put(key, names, at)?;
        }
        Ok(())
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

    /// `alt` and `opt`, with the probabilities that `GaStep` on their operands says; of `seq` and `strict` one operand after the other, in
    /// the order of the file, which both allow.
    fn combined(
        &mut self,
        fragment: Node<'a, 'a>,
        interaction: Node<'a, 'a>,
        depth: usize,
    ) -> Result<Vec<Line>, Fault> {
        let operator = attribute(fragment, "interactionOperator").unwrap_or("seq");
        match operator {
            "loop" => Ok(vec![self.repeated(fragment, interaction, depth)?]),
            "alt" | "opt" => Ok(vec![self.choice(fragment, interaction, depth, operator)?]),
            "seq" | "strict" => {
                let mut steps = Vec::new();
                for operand in fragment.children().filter(|child| child.tag_name().name() == "operand") {
                    if let Some(guard) = operand.children().find(|child| child.tag_name().name() == "guard") {
                        let why = format!("a guard in `{operator}` is not heeded: say with `opt` how often it holds");
                        return Err(self.lines.words(operand, "operand").fault(
                            Class::Unknown,
                            self.lines.line(guard),
                            why,
                        ));
                    }
                    steps.extend(self.fragments(operand, interaction, depth + 1)?);
                }
                Ok(steps)
            }
            _ => {
                let why =
                    format!("the operator `{operator}` cannot be laid; `alt`, `opt`, `loop`, `seq` and `strict` can");
                Err(self.lines.words(fragment, "fragment").fault(Class::Unknown, 0, why))
            }
        }
    }

    fn choice(
        &mut self,
        fragment: Node<'a, 'a>,
        interaction: Node<'a, 'a>,
        depth: usize,
        operator: &str,
    ) -> Result<Line, Fault> {
        let at = self.lines.line(fragment);
        let mut ways = Vec::new();
        let operands = fragment.children().filter(|child| child.tag_name().name() == "operand");
        let (mut taken, mut all) = (0.0, true);
        for operand in operands.collect::<Vec<_>>() {
            let mut words = self.lines.words(operand, "operand");
            let said = self.applied.probability(attribute(operand, "id").unwrap_or(""), &mut words)?;
            if self.aside {
                words.put("weight", vec!["1".to_owned()], at)?;
            }
            if operator == "alt" && said.is_none() && !self.aside {
                let why = "it has no `prob` of a `GaStep`: how often is it taken?";
                return Err(words.fault(Class::MissingAnnotation, 0, why));
            }
            all &= said.is_some();
            taken += said.unwrap_or(0.0);
            let steps = self.fragments(operand, interaction, depth + 1)?;
            ways.push((words, steps));
        }
        if operator == "opt" && ways.len() != 1 {
            let why = format!("it has {} operands, and one is wanted", ways.len());
            return Err(Fault::new(Class::Invalid, format!("opt {}", name(fragment)), why).at(at));
        }
        // Weights would be taken for probabilities of another sum, and what is done when no operand is would be lost.
        if operator == "alt" && all && (taken - 1.0).abs() > 1e-6 {
            let why = format!("the probabilities of its operands add up to {taken}, not to 1: what is done otherwise?");
            return Err(Fault::new(Class::Invalid, format!("alt {}", name(fragment)), why).at(at));
        }
        if operator == "opt" && taken < 1.0 {
            let mut words = self.lines.words(fragment, "opt");
            words.put("weight", vec![format!("{}", 1.0 - taken)], at)?;
            ways.push((words, Vec::new()));
        }
        Ok(Line::Choice(at, ways))
    }

    /// A `loop`: how often is said by `rep` of a `GaStep` on the fragment or its operand, or by a guard with the same `minint` and
    /// `maxint`. Its body becomes a sequence.
    fn repeated(&mut self, fragment: Node<'a, 'a>, interaction: Node<'a, 'a>, depth: usize) -> Result<Line, Fault> {
        let mut words = self.lines.words(fragment, "loop");
        let at = self.lines.line(fragment);
        let operands: Vec<_> = fragment.children().filter(|child| child.tag_name().name() == "operand").collect();
        let [operand] = operands.as_slice() else {
            return Err(words.fault(
                Class::Invalid,
                0,
                format!("it has {} operands, and one is wanted", operands.len()),
            ));
        };
        for node in [fragment, *operand] {
            self.applied.repeats(attribute(node, "id").unwrap_or(""), &mut words)?;
        }
        self.times(*operand, &mut words)?;
        // A file may be all in one line.
        let same = self.loops.entry(at).and_modify(|same| *same += 1).or_insert(1);
        let called = if *same == 1 { format!("loop of line {at}") } else { format!("loop {same} of line {at}") };
        let steps = self.fragments(*operand, interaction, depth + 1)?;
        words.put("ref", vec![called.clone()], at)?;
        self.bodies.push(Written { name: called, line: at, steps });
        Ok(Line::Ref(words))
    }

    /// How often a loop goes round: both may say it, if they agree.
    fn times(&self, operand: Node<'a, 'a>, words: &mut Fields) -> Result<(), Fault> {
        if self.aside {
            return Ok(());
        }
        let bound = |key: &str| bound(operand, key).map_err(|why| words.fault(Class::Invalid, 0, why));
        let (least, most) = (bound("minint")?, bound("maxint")?);
        let range = || {
            let text = |bound: Option<f64>| {
                bound.map_or(String::new(), |it| if it.is_finite() { it.to_string() } else { "*".to_owned() })
            };
            format!("`{}..{}`", text(least), text(most))
        };
        if let Some(said) = words.clone().word("times")? {
            // What is no number is refused with the other values.
            let out = |times: f64| least.is_some_and(|least| times < least) || most.is_some_and(|most| times > most);
            return match said.text.parse::<f64>() {
                Ok(times) if out(times) => {
                    let why = format!("its `rep` is {times}, and its guard says {}: which is meant?", range());
                    Err(words.fault(Class::Invalid, 0, why))
                }
                _ => Ok(()),
            };
        }
        match (least, most) {
            (Some(least), Some(most)) if least == most && most.is_finite() => {
                if vsl::wanted("rep", &most.to_string()).is_some() {
                    let why = format!("its guard says {}: a whole number from 1 to 100000 is wanted", range());
                    return Err(words.fault(Class::Invalid, 0, why));
                }
                words.put("times", vec![most.to_string()], 0)
            }
            _ => {
                let why = "how often does it go round? Say `rep` of a `GaStep` on it, or the same `minint` and `maxint` in its guard";
                Err(words.fault(Class::MissingAnnotation, 0, why))
            }
        }
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
                "attribute" => self::sort(*element) == "Property",
                _ => self::sort(*element) == "Component",
            };
            if !is {
                let why = format!("it is applied to `{}`, which is no {sort}", name(*element));
                return Err(words.fault(Class::NoSuchName, at, why));
            }
            words.put("on", vec![format!("{sort} {}", name(*element))], at)?;
            secured.push(words);
        }
        Ok(secured)
    }
}
