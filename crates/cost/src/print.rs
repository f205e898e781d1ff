//! The three steps of P4's Figure 1, printed: the annotated and the secured model as Mermaid sequence diagrams, the net as a table.
//!
//! What [`annotated`] prints is read back as the same model; so two configurations, or a model before and after, can be compared line by
//! line.

mod order;

use std::collections::BTreeSet;
use std::fmt::Write;

use gspn::net::{Kind, Rate};

use crate::Secured;
use crate::choose::Mode;
use crate::mechanism::{Part, Role, Work};
use crate::model::{Annotation, Duration, Model, Node, Price, Protect, Setting, Step, Units, Workload};
use crate::net::Laid;
use crate::plant::{Failures, Power};
use crate::read::escape::{for_line, for_quotes};

/// The annotated model.
#[must_use]
pub fn annotated(model: &Model) -> String {
    Printer::new(model, true).diagram()
}

/// The secured model: with stars at what annotations are about, and the mechanisms in full: by what each step is worked on, how many times,
/// over how many bytes, and in which engine; of messages how long they became.
#[must_use]
pub fn secured(secured: &Secured) -> String {
    let mut printer = Printer::new(secured.model(), false);
    for way in secured.taken() {
        printer.line(0, &format!("%% the first of several ways: {}", for_line(&way)));
    }
    printer.diagram()
}

/// The net: one line a transition, with what it takes and puts.
#[must_use]
pub fn net(laid: &Laid) -> String {
    let mut text = String::new();
    for place in laid.net.places().iter().filter(|place| place.tokens > 0) {
        let _ = writeln!(text, "place {} holds {}", quoted(&place.name), place.tokens);
    }
    for transition in laid.net.transitions() {
        let names = |arcs: &[gspn::net::Arc]| {
            let names = arcs.iter().map(|arc| quoted(&laid.net.places()[arc.place].name));
            names.collect::<Vec<_>>().join(" + ")
        };
        let when = match &transition.kind {
            Kind::Timed { rate: Rate::Constant(rate), .. } => format!("after {} s", digits(1.0 / rate)),
            Kind::Immediate { weight, priority, by: None } => format!("at once, weight {weight}, priority {priority}"),
            Kind::Immediate { weight, priority, by: Some(by) } => {
                format!(
                    "at once, weight {weight} for each token of {}, priority {priority}",
                    quoted(&laid.net.places()[*by].name)
                )
            }
            _ => String::new(),
        };
        let (from, to) = (names(&transition.inputs), names(&transition.outputs));
        let _ = writeln!(text, "{}: {from} -> {to}, {when}", quoted(&transition.name));
    }
    text
}

struct Printer<'a> {
    model: &'a Model,
    /// Whether the words that a reader needs are printed.
    words: bool,
    text: String,
}

impl<'a> Printer<'a> {
    fn new(model: &'a Model, words: bool) -> Self {
        Self { model, words, text: String::from("sequenceDiagram\n") }
    }

    fn line(&mut self, depth: usize, line: &str) {
        let _ = writeln!(self.text, "{}{line}", "  ".repeat(depth + 1));
    }

    fn say(&mut self, depth: usize, words: &str) {
        if self.words {
            self.line(depth, &format!("%% trapkey: {words}"));
        }
    }

    fn diagram(mut self) -> String {
        let model = self.model;
        for index in 0..model.components.len() {
            self.line(0, &format!("participant c{index} as {}", for_line(&model.components[index].name)));
        }
        self.statics();
        for sequence in &model.sequences {
            if model.sequences.len() > 1 {
                self.line(0, &format!("%% trapkey: sequence {}", quoted(&sequence.name)));
            } else {
                self.say(0, &format!("sequence {}", quoted(&sequence.name)));
            }
            self.steps(0, &sequence.steps);
        }
        self.text
    }

    fn statics(&mut self) {
        let model = self.model;
        self.say(0, &format!("name {}", quoted(&model.name)));
        let threads = |threads: Option<u32>| threads.map_or_else(String::new, |it| format!(" threads={it}"));
        let workload = match model.workload {
            Workload::Closed { clients, think, threads: limit } => {
                format!("workload clients={clients} think={}{}", seconds(think), threads(limit))
            }
            Workload::Open { rate, room, threads: limit } => {
                format!("workload arrivals=\"{}/s\" room={room}{}", shortest(rate), threads(limit))
            }
        };
        let on =
            model.threads_on.map_or_else(String::new, |it| format!(" threads_on={}", quoted(&model.nodes[it].name)));
        self.say(0, &format!("{workload}{on}"));
        if let Some(energy) = model.energy {
            self.say(0, &format!("money energy={}", shortest(energy)));
        }
        for node in &model.nodes {
            let platform = node.platform.as_ref().map_or_else(String::new, |it| format!(" platform={}", quoted(it)));
            let words = format!(
                "node {} cores={} speed={}{platform}{}",
                quoted(&node.name),
                node.cores,
                shortest(node.speed),
                machines(node)
            );
            self.say(0, &words);
        }
        for component in &model.components {
            let node = quoted(&model.nodes[component.node].name);
            self.say(
                0,
                &format!(
                    "component {} node={node} credentials=\"{} B\"",
                    quoted(&component.name),
                    component.credentials
                ),
            );
        }
        for connector in &model.connectors {
            let (from, to) = (&model.components[connector.from].name, &model.components[connector.to].name);
            let rate =
                connector.bytes_a_second.map_or_else(String::new, |it| format!(" rate=\"{} B/s\"", shortest(it)));
            let (name, from, to) = (quoted(&connector.name), quoted(from), quoted(to));
            self.say(0, &format!("connector {name} from={from} to={to} latency={}{rate}", seconds(connector.latency)));
        }
        for attribute in &model.attributes {
            let of = quoted(&model.components[attribute.of].name);
            self.say(0, &format!("attribute {} of={of} size=\"{} B\"", quoted(&attribute.name), attribute.bytes));
        }
        for pool in &model.pools {
            self.say(0, &format!("pool {} size={}", quoted(&pool.name), pool.size));
        }
        for annotation in &model.annotations {
            let words = secure(model, annotation);
            self.say(0, &words);
        }
        for (number, level) in &model.levels {
            let mode = match level.mode {
                Mode::None => "none",
                Mode::Sign => "sign",
                Mode::SignAndEncrypt => "sign-and-encrypt",
            };
            let bits = |key: &str, bits: Option<u32>| bits.map_or_else(String::new, |bits| format!(" {key}={bits}"));
            let (strength, rsa) = (bits("strength", level.strength), bits("rsa", level.rsa));
            self.say(0, &format!("level {number} mode={mode}{strength}{rsa}"));
        }
        for (platform, prices) in &model.prices {
            for (operation, price) in prices {
                let (each, per_kb) = (seconds(price.each), seconds(price.per_byte * 1000.0));
                let variation = variation(price.cv2);
                self.say(
                    0,
                    &format!(
                        "price {} {} each={each} per_kb={per_kb}{variation}{}",
                        quoted(platform),
                        quoted(operation),
                        more(price)
                    ),
                );
            }
        }
    }

    fn steps(&mut self, depth: usize, steps: &[Step]) {
        for step in steps {
            self.step(depth, step);
        }
    }

    fn step(&mut self, depth: usize, step: &Step) {
        let model = self.model;
        let star = |critical: bool| if critical { " *" } else { "" };
        match step {
            Step::Operation(it) => {
                let Duration { mean, cv2 } = it.time;
                let returns = it.returns.map(|it| format!(" returns={}", quoted(&model.attributes[it].name)));
                let words = format!("step time={}{}{}", seconds(mean), variation(cv2), returns.unwrap_or_default());
                self.say(depth, &words);
                self.line(depth, &format!("c{0}->>c{0}: {1}{2}", it.by, for_line(&it.name), star(it.critical)));
            }
            Step::Send(it) => {
                let carries: Vec<String> = it.carries.iter().map(|it| quoted(&model.attributes[*it].name)).collect();
                let carries =
                    if carries.is_empty() { String::new() } else { format!(" carries={}", carries.join(",")) };
                let over = quoted(&model.connectors[it.over].name);
                self.say(depth, &format!("step over={over}{carries} bytes=\"{} B\"", it.bytes));
                let (from, to) = model.ends(it);
                let bytes = if self.words { String::new() } else { format!(" ({} B)", model.size(it)) };
                self.line(depth, &format!("c{from}->>c{to}: {}{bytes}{}", for_line(&it.name), star(it.critical)));
            }
            Step::Ref { sequence, times } => {
                let name = &model.sequences[*sequence].name;
                self.say(depth, &format!("ref {} times={times}", quoted(name)));
                let last = model.components.len().saturating_sub(1);
                self.line(depth, &format!("Note over c0,c{last}: ref {} ({times} times)", for_line(name)));
            }
            Step::Acquire(units) => self.units(depth, "acquire", *units),
            Step::Release(units) => self.units(depth, "release", *units),
            Step::Choice(ways) => {
                for (index, (probability, steps)) in ways.iter().enumerate() {
                    let word = if index == 0 { "alt" } else { "else" };
                    self.line(depth, &format!("{word} with probability {}", shortest(*probability)));
                    self.say(depth + 1, &format!("way weight={}", shortest(*probability)));
                    self.steps(depth + 1, steps);
                }
                self.line(depth, "end");
            }
            Step::Par(branches) => {
                for (index, steps) in branches.iter().enumerate() {
                    let word = if index == 0 { "par" } else { "and" };
                    self.line(depth, &format!("{word} branch {}", index + 1));
                    self.steps(depth + 1, steps);
                }
                self.line(depth, "end");
            }
            Step::Protect(protect) => {
                let annotation = &model.annotations[protect.annotation];
                let (mechanism, property) =
                    (protect.phase.unwrap_or(protect.mechanism.word()), protect.property.word());
                let about = for_line(&model.target(annotation));
                let over = over(&protect.parts, protect);
                self.line(depth, &format!("Note over c{over}: ref {mechanism} for {property} on {about}"));
                self.parts(depth, &protect.parts, protect);
            }
        }
    }

    fn units(&mut self, depth: usize, word: &str, units: Units) {
        let name = &self.model.pools[units.of].name;
        self.say(depth, &format!("{word} {} units={}", quoted(name), units.count));
        let last = self.model.components.len().saturating_sub(1);
        self.line(depth, &format!("Note over c0,c{last}: {word} {} of {}", units.count, for_line(name)));
    }

    fn parts(&mut self, depth: usize, parts: &[Part], protect: &Protect) {
        let who = |role: Role| side(protect, role);
        for part in parts {
            match part {
                Part::Work { name, by, work } => {
                    let engine = if *by == Role::Own { protect.engine } else { protect.peer_engine };
                    let engine = engine.filter(|_| work.private).map(|node| self.model.nodes[node].name.as_str());
                    let much = how_much(work, name, engine);
                    self.line(depth, &format!("c{0}->>c{0}: {name}{much}", who(*by)));
                }
                Part::Message { name, from, bytes } => {
                    let line = format!("c{}->>c{}: {name} ({bytes} B)", who(*from), who(from.other()));
                    self.line(depth, &line);
                }
                Part::Unawaited { name, from, bytes } => {
                    let line = format!("c{}-)c{}: {name} ({bytes} B)", who(*from), who(from.other()));
                    self.line(depth, &line);
                }
                Part::Either { guard, probability, then, otherwise } => {
                    self.line(depth, &format!("alt {guard}, with probability {}", digits(*probability)));
                    self.parts(depth + 1, then, protect);
                    self.line(depth, "else");
                    self.parts(depth + 1, otherwise, protect);
                    self.line(depth, "end");
                }
                Part::Use { mechanism, parts } => {
                    self.line(depth, &format!("Note over c{}: ref {}", over(parts, protect), mechanism.word()));
                    self.parts(depth, parts, protect);
                }
                Part::Check { name, passes } => {
                    if *passes < 1.0 {
                        let line = format!("break unless {name}, with probability {}", digits(1.0 - passes));
                        self.line(depth, &line);
                        self.line(depth, "end");
                    }
                }
            }
        }
    }
}

/// The component at a side of a mechanism.
const fn side(protect: &Protect, role: Role) -> usize {
    match role {
        Role::Own => protect.own,
        Role::Peer => protect.peer,
    }
}

/// Over whom the note of a mechanism stands: who does its steps, of both sides the one that runs it.
fn over(parts: &[Part], protect: &Protect) -> usize {
    side(protect, if !does(parts, Role::Own) && does(parts, Role::Peer) { Role::Peer } else { Role::Own })
}

/// Whether a side does any of the steps.
fn does(parts: &[Part], role: Role) -> bool {
    parts.iter().any(|part| match part {
        Part::Work { by, .. } => *by == role,
        Part::Message { from, .. } | Part::Unawaited { from, .. } => *from == role,
        Part::Either { then, otherwise, .. } => does(then, role) || does(otherwise, role),
        Part::Use { parts, .. } => does(parts, role),
        Part::Check { .. } => false,
    })
}

/// By what a step is worked on: `(3 x derive hkdf-sha256, 96 B in all, in hsm)`. Nothing of one that only sets a parameter.
fn how_much(work: &Work, name: &str, engine: Option<&str>) -> String {
    let times = |of: &str| if work.times == 1 { of.to_owned() } else { format!("{} x {of}", work.times) };
    let operation = work.operation.as_deref().filter(|of| *of != name || work.times != 1).map(times);
    let all = if work.times == 1 { "" } else { " in all" };
    let bytes = (work.bytes > 0).then(|| format!("{} B{all}", work.bytes));
    let engine = engine.map(|node| format!("in {}", for_line(node)));
    let words: Vec<String> = operation.into_iter().chain(bytes).chain(engine).collect();
    if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) }
}

/// The words of an annotation.
fn secure(model: &Model, annotation: &Annotation) -> String {
    let mut text = format!("secure {} on={}", annotation.property.word(), quoted(&model.target(annotation)));
    let settings: Vec<&Setting> = annotation.alternatives.iter().flatten().collect();
    let mut list = |key: &str, values: Vec<String>| {
        if !values.is_empty() {
            let _ = write!(text, " {key}={}", values.join(","));
        }
    };
    let ways: Vec<_> = settings.iter().map(|it| of_lists(annotation, it)).collect();
    let agreed: Vec<_> = settings.iter().filter_map(|it| it.agreed.as_deref()).collect();
    // A protocol has its own words for some of these.
    let own: BTreeSet<&str> = agreed.iter().flat_map(|it| it.words.iter().map(|(key, _)| *key)).collect();
    let other = ["cipher", "signature", "hash", "exchange", "protocol"].into_iter().filter(|key| !own.contains(key));
    for key in other.chain(own.iter().copied()) {
        list(key, order::listed(&ways, key));
    }
    if let Some(first) = agreed.first() {
        list("renewed", vec![shortest(first.renewed)]);
        list("refreshed", vec![shortest(first.refreshed)]);
        list("life", first.life.map(shortest).into_iter().collect());
        list("login", first.login.map(|it| quoted(&model.connectors[it].name)).into_iter().collect());
    }
    if let Some(certified) = settings.first().and_then(|first| first.certified) {
        list("issuer", certified.issuer.iter().map(ToString::to_string).collect());
        list("life", vec![shortest(certified.life)]);
        list("through", vec![quoted(&model.connectors[certified.through].name)]);
    }
    let heeds = |key: &str| annotation.property.heeds(key);
    list("reuse", order::listed(&ways, "reuse"));
    if !settings.is_empty() {
        // 1 and none in a way that heeds them not.
        let least = |of: fn(&Setting) -> f64| settings.iter().map(|it| of(it)).fold(1.0, f64::min);
        for (key, share) in
            [("known", least(|it| it.known)), ("trusted", least(|it| it.trusted)), ("valid", least(|it| it.valid))]
        {
            list(key, heeds(key).then(|| shortest(share)).into_iter().collect());
        }
        let engine = settings.iter().find_map(|it| it.engine);
        list("engine", engine.map(|it| quoted(&model.nodes[it].name)).into_iter().collect());
    }
    list("in", annotation.configurations.iter().map(|it| quoted(it)).collect());
    if annotation.alternatives.iter().any(Option::is_none) {
        list("optional", vec!["true".to_owned()]);
    }
    text
}

/// What a setting has of keys that take lists.
fn of_lists(annotation: &Annotation, it: &Setting) -> Vec<(&'static str, String)> {
    let mut words = Vec::new();
    words.extend(it.cipher.as_ref().map(|it| ("cipher", it.to_string())));
    words.extend(it.signature.map(|it| ("signature", it.to_string())));
    words.extend((annotation.property.of() != "connector").then(|| ("hash", it.hash.to_string())));
    words.extend(it.exchange.map(|it| ("exchange", it.to_string())));
    if let Some(agreed) = &it.agreed {
        words.push(("protocol", agreed.protocol.word().to_owned()));
        words.extend(agreed.words.iter().map(|(key, value)| (*key, quoted(value))));
    }
    words.extend(annotation.property.heeds("reuse").then(|| ("reuse", shortest(it.reuse))));
    words
}

/// What is said of the machines of a node.
fn machines(node: &Node) -> String {
    let (it, mut text) = (&node.machines, String::new());
    if it.counts != [1] {
        let counts: Vec<String> = it.counts.iter().map(ToString::to_string).collect();
        let _ = write!(text, " machines={}", counts.join(","));
    }
    if it.needed != 1 {
        let _ = write!(text, " needed={}", it.needed);
    }
    if let Some(Failures { every, repair, crews }) = it.failures {
        let _ = write!(text, " fails={} repair={} crews={crews}", seconds(every), seconds(repair));
    }
    if let Some(Power { idle, busy }) = it.power {
        let _ = write!(text, " idle=\"{} W\" busy=\"{} W\"", shortest(idle), shortest(busy));
    }
    if let Some(money) = it.money {
        let _ = write!(text, " money=\"{}/h\"", shortest(money));
    }
    text
}

/// How sure a price is, and its energy.
fn more(price: &Price) -> String {
    let error = if price.error > 0.0 { format!(" error={}", shortest(price.error)) } else { String::new() };
    let energy = if price.energy > 0.0 { format!(" energy=\"{} J\"", shortest(price.energy)) } else { String::new() };
    format!("{error}{energy}")
}

fn variation(cv2: f64) -> String {
    if (cv2 - 1.0).abs() < 1e-12 { String::new() } else { format!(" variation={}", shortest(cv2)) }
}

fn seconds(seconds: f64) -> String {
    format!("\"{} s\"", shortest(seconds))
}

/// The shortest digits that are read back as the same number.
fn shortest(value: f64) -> String {
    format!("{value}")
}

/// What was worked out, to the digits that count.
fn digits(value: f64) -> String {
    shortest(format!("{value:.14e}").parse().unwrap_or(value))
}

/// In quotes where a word would end in the middle.
fn quoted(name: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if !name.is_empty() && name.chars().all(plain) { name.to_owned() } else { format!("\"{}\"", for_quotes(name)) }
}
