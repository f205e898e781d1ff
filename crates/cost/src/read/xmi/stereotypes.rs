//! Applied stereotypes: elements beside the model, each with `base_..` = the element that it is about.

use std::collections::{BTreeMap, BTreeSet};

use roxmltree::{Document, Node};

use super::super::fields::Fields;
use super::super::lines::Lines;
use super::{around, attribute, led, vsl, written};
use crate::{Class, Fault};

/// One application: what it says, and where.
#[derive(Debug, Clone)]
struct Said {
    id: String,
    stereotype: String,
    base: String,
    members: BTreeMap<String, Vec<String>>,
    line: usize,
    /// Its place among all that are applied.
    order: usize,
}

/// Our own, and the property and sort of element that each means.
const OWN: [(&str, &str, &str); 7] = [
    ("DataConfidentiality", "data-confidentiality", "connector"),
    ("DataIntegrity", "data-integrity", "attribute"),
    ("PeerEntityAuthentication", "peer-entity-authentication", "component"),
    ("DataOriginAuthentication", "data-origin-authentication", "attribute"),
    ("CertifiedKey", "certified-key", "component"),
    ("SecureChannel", "secure-channel", "connector"),
    ("SecureTunnel", "secure-tunnel", "connector"),
];
/// Those of MARTE that are understood.
const MARTE: [&str; 15] = [
    "GaScenario",
    "GaStep",
    "PaStep",
    "PaCommStep",
    "GaCommStep",
    "GaAcqStep",
    "GaRelStep",
    RESOURCE,
    "GaExecHost",
    "GaCommHost",
    "GaWorkloadEvent",
    "GaAnalysisContext",
    "Allocate",
    "Allocated",
    "PaRunTInstance",
];
/// What steps acquire and release.
const RESOURCE: &str = "PaLogicalResource";
/// Stereotypes that make a step of an execution, and those that a message may have too.
const WORK: [&str; 4] = ["GaStep", "PaStep", "GaAcqStep", "GaRelStep"];
const STEPS: [&str; 6] = ["GaStep", "PaStep", "GaAcqStep", "GaRelStep", "PaCommStep", "GaCommStep"];
/// Of ours, beside those: the size of a property or of a component's credentials; what a message returns or carries, and how much its
/// time varies; whose prices a node uses.
const BESIDE: [&str; 3] = ["Sized", "Flow", "Priced"];

/// Elements beside the model that are no stereotypes.
const NONE: [&str; 2] = ["Model", "Documentation"];
/// Unknown stereotypes that are named beside the first.
const SHOWN: usize = 8;

/// Members of a closed pattern and of an open one, with our keys.
const CLOSED: [(&str, &str); 4] =
    [("population", "clients"), ("extDelay", "think"), ("threads", "threads"), ("threads_on", "threads_on")];
const OPEN: [(&str, &str); 5] = [
    ("arrivalRate", "arrivals"),
    ("rate", "arrivals"),
    ("room", "room"),
    ("threads", "threads"),
    ("threads_on", "threads_on"),
];

/// All that is applied.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// Sorted by what they are applied to.
    said: Vec<Said>,
    /// Where those are among them that steps acquire and release.
    resources: Vec<usize>,
}

impl Applied {
    /// Collects the applications; one that is unknown and not left out, or of nothing that is there, is refused.
    pub(super) fn of<'a>(
        document: &'a Document<'a>,
        by_id: &BTreeMap<&str, Node<'_, '_>>,
        lines: &Lines,
        left_out: &[String],
    ) -> Result<Self, Fault> {
        let mut said = Vec::new();
        let root = document.root_element();
        let all_in_model = root.tag_name().name() == "Model";
        let applied = || root.children().filter(|it| it.is_element() && !all_in_model);
        can_be_left_out(left_out, applied().map(|it| it.tag_name().name()))?;
        for node in applied() {
            let stereotype = node.tag_name().name();
            if NONE.contains(&stereotype) || left_out.iter().any(|it| it == stereotype) {
                continue;
            }
            let at = lines.line(node);
            if !is_known(stereotype) {
                let space = node.tag_name().namespace().unwrap_or("no namespace");
                let why = format!(
                    "the stereotype `{stereotype}` ({space}) is unknown: what it says would be lost{}",
                    others(applied().map(|it| it.tag_name().name()), stereotype, left_out)
                );
                return Err(Fault::new(Class::UnknownStereotype, stereotype, why).at(at));
            }
            let children = node.children().filter(|it| it.tag_name().name().starts_with("base_"));
            let bases = node.attributes().filter(|it| it.name().starts_with("base_")).map(|it| it.value());
            let mut bases = bases.chain(children.filter_map(|it| led(it).or_else(|| attribute(it, "href"))));
            let Some(base) = bases.next() else {
                let why = "it is applied to nothing: no `base_..`";
                return Err(Fault::new(Class::Missing, stereotype, why).at(at));
            };
            if let Some(other) = bases.find(|other| *other != base) {
                let why = format!("it is applied to `{base}` and to `{other}`: say it of each");
                return Err(Fault::new(Class::Doubled, stereotype, why).at(at));
            }
            if !by_id.get(base).is_some_and(|it| it.ancestors().any(|around| around.tag_name().name() == "Model")) {
                let why = format!("it is applied to `{base}`, and there is none");
                return Err(Fault::new(Class::NoSuchName, stereotype, why).at(at));
            }
            let members = members(node).map_err(|(member, inside)| {
                let why = format!(
                    "`{member}` has the element `{}` in it, which would be lost: its value is a text",
                    inside.tag_name().name()
                );
                Fault::new(Class::Unknown, stereotype, why).at(lines.line(inside))
            })?;
            said.push(Said {
                id: attribute(node, "id").unwrap_or("").to_owned(),
                stereotype: stereotype.to_owned(),
                base: base.to_owned(),
                members,
                line: at,
                order: said.len(),
            });
        }
        said.sort_by(|one, other| one.base.cmp(&other.base));
        let resources = (0..said.len()).filter(|at| said[*at].stereotype == RESOURCE).collect();
        Ok(Self { said, resources })
    }

    /// Of other scenarios, only what their messages return and carry says which annotations are theirs. A workload that the `cause` of
    /// the scenario names is its own, wherever it stands.
    pub(super) fn set_aside<'a>(
        &mut self,
        by_id: &BTreeMap<&'a str, Node<'a, 'a>>,
        others: &BTreeSet<&str>,
        meant: &str,
    ) {
        let of_scenario = self.said.iter().filter(|it| it.stereotype == "GaScenario" && it.base == meant);
        let causes = of_scenario.filter_map(|it| it.members.get("cause")).flatten();
        let causes: BTreeSet<String> = causes.flat_map(|ids| ids.split_whitespace()).map(str::to_owned).collect();
        let aside = |said: &Said| {
            let within = by_id.get(said.base.as_str()).and_then(|base| around(*base));
            within.and_then(|within| attribute(within, "id")).is_some_and(|id| others.contains(id))
        };
        self.said.retain_mut(|said| {
            match said.stereotype.as_str() {
                "GaWorkloadEvent" => return causes.contains(&said.id) || !aside(said),
                "GaScenario" => return said.base == meant,
                step if STEPS.contains(&step) && aside(said) => said.members.clear(),
                "Flow" if aside(said) => said.members.retain(|key, _| key != "variation"),
                _ => {}
            }
            true
        });
        self.resources = (0..self.said.len()).filter(|at| self.said[*at].stereotype == RESOURCE).collect();
    }

    fn on<'s>(&'s mut self, base: &'s str, of: &'s [&'s str]) -> impl Iterator<Item = &'s mut Said> {
        let all = self.about(base);
        self.said.get_mut(all).unwrap_or_default().iter_mut().filter(move |it| of.contains(&it.stereotype.as_str()))
    }

    /// Where those stand that are applied to an element.
    fn about(&self, base: &str) -> std::ops::Range<usize> {
        let before = |it: &Said| it.base.as_str() < base;
        let first = self.said.partition_point(before);
        first..first + self.said.get(first..).unwrap_or_default().partition_point(|it| it.base == base)
    }

    pub(super) fn is_host(&self, base: &str) -> bool {
        self.has(base, "GaExecHost")
    }

    /// What each `GaScenario` is applied to, and its line.
    pub(super) fn scenarios(&self) -> Vec<(&str, usize)> {
        let mut all: Vec<&Said> = self.said.iter().filter(|it| it.stereotype == "GaScenario").collect();
        all.sort_by_key(|said| said.order);
        all.into_iter().map(|said| (said.base.as_str(), said.line)).collect()
    }

    /// `GaExecHost`: `resMult` are cores, `speedFactor` the speed. `Priced`, ours: the platform.
    pub(super) fn host(&mut self, base: &str, words: &mut Fields) -> Result<(), Fault> {
        for said in self.on(base, &["GaExecHost", "Priced"]) {
            said.hand(words, &[("resMult", "cores"), ("speedFactor", "speed"), ("platform", "platform")])?;
        }
        Ok(())
    }

    /// Whether a `GaStep` or its kin is applied.
    pub(super) fn is_step(&self, base: &str) -> bool {
        WORK.iter().any(|stereotype| self.has(base, stereotype))
    }

    /// What `PaLogicalResource` is applied to, in the order of the file.
    pub(super) fn logical_resources(&self) -> Vec<String> {
        let mut all: Vec<&Said> = self.said.iter().filter(|it| it.stereotype == RESOURCE).collect();
        all.sort_by_key(|said| said.order);
        all.into_iter().map(|said| said.base.clone()).collect()
    }

    pub(super) fn is_pool(&self, base: &str) -> bool {
        self.has(base, RESOURCE)
    }

    /// Whether something says how long it takes.
    pub(super) fn demands(&mut self, base: &str) -> bool {
        self.on(base, &WORK).any(|said| said.members.contains_key("hostDemand"))
    }

    /// Whether this stereotype is applied to it.
    pub(super) fn has(&self, base: &str, stereotype: &str) -> bool {
        self.said.get(self.about(base)).unwrap_or_default().iter().any(|it| it.stereotype == stereotype)
    }

    /// `PaLogicalResource`: `poolSize`, or `resMult`, which it has of a `Resource`.
    pub(super) fn pool(&mut self, base: &str, words: &mut Fields) -> Result<(), Fault> {
        for said in self.on(base, &[RESOURCE]) {
            if said.members.contains_key("poolSize") && said.members.contains_key("resMult") {
                let why = "it has a `poolSize` and a `resMult`: both say how many units there are";
                return Err(words.fault(Class::Doubled, said.line, why));
            }
            said.hand(words, &[("poolSize", "size"), ("resMult", "size")])?;
        }
        Ok(())
    }

    /// What a resource that is named is applied to: by the identifier of its stereotype, or of the element itself.
    pub(super) fn resource(&self, named: &str) -> Option<&str> {
        // One of another file may have the same identifier.
        let id = named.strip_prefix('#').unwrap_or(named);
        let mut resources = self.resources.iter().filter_map(|at| self.said.get(*at));
        resources.find(|it| !id.is_empty() && (it.id == id || it.base == id)).map(|it| it.base.as_str())
    }

    /// `GaAcqStep` or `GaRelStep` on a step: the resource that its member names, its units, and the line.
    pub(super) fn holds(
        &mut self,
        base: &str,
        stereotype: &'static str,
        member: &str,
    ) -> Result<Vec<(String, Fields, usize)>, Fault> {
        let mut all = Vec::new();
        for said in self.on(base, &[stereotype]) {
            let mut words = Fields::new(stereotype, said.line);
            said.hand(&mut words, &[("resUnits", "units")])?;
            let named = said.members.remove(member).unwrap_or_default();
            let [one] = named.as_slice() else {
                let why = format!("`{member}` is said {} times: which resource is meant?", named.len());
                return Err(words.fault(Class::MissingAnnotation, 0, why));
            };
            all.push((one.clone(), words, said.line));
        }
        Ok(all)
    }

    /// `rep` of a `GaStep`: how often.
    pub(super) fn repeats(&mut self, base: &str, words: &mut Fields) -> Result<(), Fault> {
        for said in self.on(base, &["GaStep", "PaStep"]) {
            said.hand(words, &[("rep", "times")])?;
        }
        Ok(())
    }

    /// `GaCommHost`: `blockT` is the latency, `capacity` the rate.
    pub(super) fn line(&mut self, base: &str, words: &mut Fields) -> Result<(), Fault> {
        for said in self.on(base, &["GaCommHost"]) {
            said.hand(words, &[("blockT", "latency"), ("capacity", "rate")])?;
        }
        Ok(())
    }

    /// `GaStep` and its kin on a message; `hostDemand` is the time of an operation, `msgSize` the bytes of a message.
    pub(super) fn step(&mut self, base: &str, wanted: &str, words: &mut Fields) -> Result<(), Fault> {
        let value = if wanted == "time" { ("hostDemand", "time") } else { ("msgSize", "bytes") };
        for said in self.on(base, &STEPS) {
            said.hand(words, &[value])?;
        }
        for said in self.on(base, &["Flow"]) {
            said.hand(words, &[("variation", "variation")])?;
        }
        Ok(())
    }

    /// `Flow`, ours: the properties that a message `returns` or `carries`, by `xmi:id`, and the line.
    pub(super) fn flow(&mut self, base: &str) -> Vec<(&'static str, Vec<String>, usize)> {
        let mut flow = Vec::new();
        for said in self.on(base, &["Flow"]) {
            for key in ["returns", "carries"] {
                if let Some(values) = said.members.remove(key) {
                    let ids = values.iter().flat_map(|value| value.split_whitespace()).map(str::to_owned);
                    flow.push((key, ids.collect(), said.line));
                }
            }
        }
        flow
    }

    /// `GaStep` on an operand: its `prob`.
    pub(super) fn probability(&mut self, base: &str, words: &mut Fields) -> Result<Option<f64>, Fault> {
        let mut found = None;
        for said in self.on(base, &["GaStep", "PaStep"]) {
            said.hand(words, &[("prob", "weight")])?;
            let mut look = words.clone();
            found = look.share("weight")?;
        }
        Ok(found)
    }

    /// `Sized`, ours: the bytes of an attribute, or of a component's credentials.
    pub(super) fn size(&mut self, base: &str, key: &str, words: &mut Fields) -> Result<(), Fault> {
        for said in self.on(base, &["Sized"]) {
            said.hand(words, &[("size", key)])?;
        }
        Ok(())
    }

    /// `GaWorkloadEvent`: its `pattern`.
    pub(super) fn workload(&mut self) -> Result<Option<Fields>, Fault> {
        let mut found = None;
        for said in self.said.iter_mut().filter(|it| it.stereotype == "GaWorkloadEvent") {
            let mut words = Fields::new("workload", said.line);
            let patterns = said.members.remove("pattern").unwrap_or_default();
            let pattern = match patterns.as_slice() {
                [] => return Err(words.fault(Class::MissingAnnotation, 0, "`GaWorkloadEvent` has no `pattern`")),
                [pattern] => pattern,
                several => {
                    let why = format!("`pattern` is said {} times", several.len());
                    return Err(words.fault(Class::Doubled, 0, why));
                }
            };
            let (word, members) = vsl::pattern(pattern).map_err(|(class, why)| words.fault(class, 0, why))?;
            if !matches!(word.as_str(), "closed" | "open" | "poisson") {
                let why = format!("the pattern `{word}` is not understood; `closed` and `open` are");
                return Err(words.fault(Class::Unknown, 0, why));
            }
            let known: &[(&str, &'static str)] = if word == "closed" { &CLOSED } else { &OPEN };
            for (member, value) in members {
                let Some((_, key)) = known.iter().find(|(known, key)| member == *known || member == *key) else {
                    let names: Vec<&str> = known.iter().map(|(known, _)| *known).collect();
                    let why = format!("`{member}` of `{word}` is not understood; known: {}", names.join(", "));
                    return Err(words.fault(Class::Unknown, 0, why));
                };
                if let Some(wanted) = vsl::wanted(&member, &value) {
                    return Err(words.fault(Class::Invalid, 0, format!("`{member}` is `{value}`: {wanted} is wanted")));
                }
                words.put(key, vec![value], said.line)?;
            }
            let needed: &[(&str, &'static str)] = if word == "closed" {
                &[("population", "clients")]
            } else {
                &[("arrivalRate", "arrivals"), ("room", "room")]
            };
            for (member, key) in needed {
                if words.clone().word(key)?.is_none() {
                    return Err(words.fault(Class::Missing, 0, format!("`{word}` has no `{member}`")));
                }
            }
            if found.replace(words).is_some() {
                let why = "there are two of them: one scenario is solved at a time";
                return Err(Fault::new(Class::Doubled, "GaWorkloadEvent", why).at(said.line));
            }
        }
        Ok(found)
    }

    /// Our own: base, sort of the element, words.
    pub(super) fn secured(&mut self) -> Result<Vec<(String, &'static str, Fields, usize)>, Fault> {
        let mut all = Vec::new();
        let mut written: Vec<&mut Said> = self.said.iter_mut().collect();
        written.sort_by_key(|said| said.order);
        for said in written {
            let Some((name, property, sort)) = OWN.iter().find(|(own, ..)| *own == said.stereotype) else { continue };
            let mut words = Fields::new(*name, said.line);
            words.put("property", vec![(*property).to_owned()], said.line)?;
            for (key, values) in std::mem::take(&mut said.members) {
                let key = if key == "configuration" { "in".to_owned() } else { key };
                words.put(&key, values, said.line)?;
            }
            all.push((said.base.clone(), *sort, words, said.line));
        }
        Ok(all)
    }

    /// What was said and not used would be lost.
    pub(super) fn end(&self, by_id: &BTreeMap<&str, Node<'_, '_>>) -> Result<(), Fault> {
        let mut written: Vec<&Said> = self.said.iter().collect();
        written.sort_by_key(|said| said.order);
        for said in written {
            if let Some(member) = said.lost(by_id) {
                let why = format!(
                    "`{member}` of the stereotype `{}` has no meaning here, where it is applied",
                    said.stereotype
                );
                return Err(Fault::new(Class::Unknown, said.stereotype.clone(), why).at(said.line));
            }
        }
        Ok(())
    }
}

impl Said {
    /// A member that was not used and says something.
    fn lost(&self, by_id: &BTreeMap<&str, Node<'_, '_>>) -> Option<&str> {
        let says = |member: &str, value: &str| {
            // What stands where it leads to is read there.
            let leads = |to: &[&str]| {
                let mut ids = value.split_whitespace().map(|id| by_id.get(id).map(|it| it.tag_name().name()));
                !value.is_empty() && ids.all(|found| found.is_some_and(|found| to.contains(&found)))
            };
            !match (self.stereotype.as_str(), member) {
                ("GaScenario", "root" | "steps") => leads(&STEPS),
                ("GaScenario", "cause") => leads(&["GaWorkloadEvent"]),
                ("GaScenario", "usedResources") => leads(&["GaExecHost", "GaCommHost", RESOURCE]),
                ("GaScenario" | "GaAnalysisContext" | RESOURCE, _) => vsl::asks(value),
                // To be placed is what is understood, of a component on a node.
                ("Allocate", "kind") => value == "structural",
                ("Allocate", "nature") => value == "spatialDistribution",
                ("Allocated", "kind") => matches!(value, "application" | "executionPlatform" | "both" | "undef"),
                _ => false,
            }
        };
        let mut lost = self.members.iter().filter(|(member, values)| values.iter().any(|value| says(member, value)));
        lost.next().map(|(member, _)| member.as_str())
    }

    /// Members under our keys; values in our spelling.
    fn hand(&mut self, words: &mut Fields, keys: &[(&str, &str)]) -> Result<(), Fault> {
        for (member, key) in keys {
            let Some(values) = self.members.remove(*member) else { continue };
            let values = values.iter().map(|value| vsl::of(member, value)).collect::<Result<Vec<_>, _>>();
            let values = values.map_err(|(class, why)| words.fault(class, self.line, why))?;
            let [value] = values.as_slice() else {
                return Err(words.fault(
                    Class::Doubled,
                    self.line,
                    format!("`{member}` is said {} times", values.len()),
                ));
            };
            if let Some(wanted) = vsl::wanted(member, value) {
                let why = format!("`{member}` is `{value}`: {wanted} is wanted");
                return Err(words.fault(Class::Invalid, self.line, why));
            }
            words
                .put(key, values, self.line)
                .map_err(|_| words.fault(Class::Doubled, self.line, format!("`{member}` stands twice")))?;
        }
        Ok(())
    }
}

fn is_known(stereotype: &str) -> bool {
    NONE.contains(&stereotype)
        || MARTE.contains(&stereotype)
        || BESIDE.contains(&stereotype)
        || OWN.iter().any(|(own, ..)| *own == stereotype)
}

/// Only what is applied and not read can be left out.
fn can_be_left_out<'n>(left_out: &[String], applied: impl Iterator<Item = &'n str>) -> Result<(), Fault> {
    let applied: BTreeSet<&str> = applied.collect();
    for name in left_out {
        let fault = |class, why| Err(Fault::new(class, format!("stereotype {name}"), why));
        if is_known(name) {
            return fault(Class::Invalid, "it is read here and cannot be left out: take it out of the model");
        }
        if !applied.contains(name.as_str()) {
            return fault(Class::NoSuchName, "it is applied nowhere, and would be left out");
        }
    }
    Ok(())
}

/// The other stereotypes that are unknown, so that all of them are seen at once.
fn others<'n>(applied: impl Iterator<Item = &'n str>, first: &str, left_out: &[String]) -> String {
    let others: BTreeSet<&str> =
        applied.filter(|it| !is_known(it) && *it != first && !left_out.iter().any(|out| out == it)).collect();
    let named: Vec<String> = others.iter().take(SHOWN).map(|it| format!("`{it}`")).collect();
    match others.len() {
        0 => String::new(),
        1 => format!("; so is {}", named.join(", ")),
        all if all > SHOWN => format!("; so are {} and {} more", named.join(", "), all - SHOWN),
        _ => format!("; so are {}", named.join(", ")),
    }
}

/// Attributes of XMI and XML Schema, which say nothing of an element.
const FOREIGN: [&str; 7] = ["id", "uuid", "label", "version", "type", "nil", "schemaLocation"];

/// Attributes, and children with text, which Papyrus writes where a member may have several values.
///
/// # Errors
/// A member that is no text, and the element in it.
fn members<'a>(node: Node<'a, 'a>) -> Result<BTreeMap<String, Vec<String>>, (&'a str, Node<'a, 'a>)> {
    let mut members: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut put = |key: &str, value: &str| members.entry(key.to_owned()).or_default().push(value.to_owned());
    for it in node.attributes() {
        let foreign = it.name() == "id" || it.namespace().is_some() && FOREIGN.contains(&it.name());
        if !foreign && !it.name().starts_with("base_") {
            put(it.name(), it.value());
        }
    }
    let is_base = |child: &Node<'_, '_>| child.tag_name().name().starts_with("base_");
    for child in node.children().filter(|it| it.is_element() && !is_base(it)) {
        let referred = || attribute(child, "value").or_else(|| led(child)).or_else(|| attribute(child, "href"));
        let member = child.tag_name().name();
        let text = written::text(child).map_err(|inside| (member, inside))?;
        let text = Some(text.trim()).filter(|text| !text.is_empty());
        put(member, text.or_else(referred).unwrap_or("").trim());
    }
    Ok(members)
}
