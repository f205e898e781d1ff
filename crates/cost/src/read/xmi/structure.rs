//! The static side: nodes, components and where they are, attributes, connectors.

use std::collections::{BTreeMap, BTreeSet};

use roxmltree::Node;

use super::{Reader, attribute, kind, led, name, reference, references, sort};
use crate::read::draft::Draft;
use crate::{Class, Fault};

const ENVIRONMENT: &str = "ExecutionEnvironment";

impl<'a> Reader<'a> {
    /// `uml:Node` and `uml:Device`, and whatever else is a `GaExecHost`.
    pub(super) fn nodes(&mut self, draft: &mut Draft) -> Result<(), Fault> {
        let all: Vec<_> = self.elements.iter().copied().filter(|node| self.is_node(*node)).collect();
        for node in all {
            let mut words = self.lines.words(node, "node");
            self.applied.host(attribute(node, "id").unwrap_or(""), &mut words)?;
            draft.nodes.push((name(node).to_owned(), words));
        }
        Ok(())
    }

    /// An execution environment is software: it runs on the node that it is nested in, if it is no `GaExecHost` itself.
    fn is_node(&self, node: Node<'_, '_>) -> bool {
        let is_host = |it: Node<'_, '_>| self.applied.is_host(attribute(it, "id").unwrap_or(""));
        let may_be = |it: Node<'_, '_>| matches!(sort(it), "Node" | "Device" | ENVIRONMENT) || is_host(it);
        let is_nested = || sort(node) == ENVIRONMENT && node.ancestors().skip(1).any(may_be);
        node.is_element() && (is_host(node) || may_be(node) && !is_nested())
    }

    /// What a part may be of.
    fn is_whole(&self, of: Node<'_, '_>) -> bool {
        matches!(sort(of), "Component" | ENVIRONMENT) || self.is_node(of)
    }

    /// The node that an element is, or that the environment it is runs on.
    fn node_of(&self, element: Node<'a, 'a>) -> Option<Node<'a, 'a>> {
        let mut around = element.ancestors().take_while(|it| *it == element || sort(element) == ENVIRONMENT);
        around.find(|it| self.is_node(*it))
    }

    /// Components that a node, an allocation or a deployment places; one without a place is refused where it is used.
    pub(super) fn components(&mut self, draft: &mut Draft) -> Result<(), Fault> {
        let places = self.places()?;
        let parts: Vec<_> = self.all("Component").filter(|node| !self.is_node(*node)).collect();
        let mut attributes = Vec::new();
        for component in parts {
            // A component that only holds parts and connectors is the frame of the diagram.
            let frame = component.children().any(|child| child.tag_name().name() == "ownedConnector");
            let id = attribute(component, "id").unwrap_or("");
            // One that has no place and is a resource is held by others, and does nothing itself.
            if (frame || self.is_pool(component)) && !places.contains_key(id) {
                continue;
            }
            let mut words = self.lines.words(component, "component");
            if let Some(node) = places.get(id) {
                words.put("node", vec![node.clone()], self.lines.line(component))?;
            }
            self.applied.size(id, "credentials", &mut words)?;
            self.had.extend(attribute(component, "id"));
            draft.components.push((name(component).to_owned(), words));
            for property in self.values(component) {
                let mut words = self.lines.words(property, "attribute");
                words.put("of", vec![name(component).to_owned()], self.lines.line(property))?;
                self.applied.size(attribute(property, "id").unwrap_or(""), "size", &mut words)?;
                attributes.push((property, words));
            }
        }
        self.had.extend(attributes.iter().filter_map(|(property, _)| attribute(*property, "id")));
        self.distinguish(attributes.iter().map(|(property, _)| *property));
        draft.attributes.extend(attributes.into_iter().map(|(property, words)| (self.called(property), words)));
        Ok(())
    }

    /// The properties of a component that are no parts: the type of a part is a component or node.
    fn values(&self, component: Node<'a, 'a>) -> Vec<Node<'a, 'a>> {
        let is_part = |it: Node<'a, 'a>| self.type_of(it).is_some_and(|of| self.is_whole(of));
        component.children().filter(|it| sort(*it) == "Property" && !is_part(*it)).collect()
    }

    /// Of those that have one name, the name of what they stand in goes before it.
    fn distinguish(&mut self, all: impl Iterator<Item = Node<'a, 'a>> + Clone) {
        let mut times: BTreeMap<&str, usize> = BTreeMap::new();
        for node in all.clone().filter(|it| !name(*it).trim().is_empty()) {
            *times.entry(name(node)).or_default() += 1;
        }
        for node in all.filter(|it| times.get(name(*it)).is_some_and(|times| *times > 1)) {
            if let Some((id, of)) = attribute(node, "id").zip(node.parent_element()) {
                self.called.insert(id, format!("{}.{}", name(of), name(node)));
            }
        }
    }

    /// The name of an attribute or connector.
    pub(super) fn called(&self, node: Node<'a, 'a>) -> String {
        let called = attribute(node, "id").and_then(|id| self.called.get(id));
        called.map_or_else(|| name(node).to_owned(), Clone::clone)
    }

    /// Component to the name of its node: `nestedClassifier` of a node, or a dependency (allocation, deployment) from one to the other; an
    /// artifact stands for the components that it manifests.
    fn places(&self) -> Result<BTreeMap<&'a str, String>, Fault> {
        let mut places: BTreeMap<&'a str, String> = BTreeMap::new();
        let mut place = |id: &'a str, component: Node<'a, 'a>, node: Node<'a, 'a>| {
            let here = name(node).to_owned();
            match places.insert(id, here.clone()) {
                Some(before) if before != here => {
                    let why = format!("it is placed on `{before}` and on `{here}`: where does it run?");
                    let what = format!("component {}", name(component));
                    Err(Fault::new(Class::Doubled, what, why).at(self.lines.line(component)))
                }
                _ => Ok(()),
            }
        };
        for component in self.all("Component") {
            let around = component.ancestors().skip(1).find(|node| self.is_node(*node));
            if let (Some(id), Some(node)) = (attribute(component, "id"), around) {
                place(id, component, node)?;
            }
        }
        let manifested = self.manifested();
        for artifact in self.all("Artifact") {
            let around = artifact.ancestors().skip(1).find(|node| self.is_node(*node));
            if let (Some(id), Some(node)) = (attribute(artifact, "id"), around) {
                for (id, component) in manifested.get(id).into_iter().flatten() {
                    place(id, *component, node)?;
                }
            }
        }
        for kind in ["Abstraction", "Dependency", "Deployment"] {
            for dependency in self.all(kind) {
                let suppliers =
                    || ["supplier", "deployedArtifact"].into_iter().flat_map(|key| references(dependency, key));
                // A deployment may say where only by `location`, or by the node that it stands in.
                let inside =
                    dependency.parent_element().filter(|_| kind == "Deployment").and_then(|it| self.node_of(it));
                let inside = inside.and_then(|it| attribute(it, "id")).map(str::to_owned);
                let clients = ["client", "location"].into_iter().flat_map(|key| references(dependency, key));
                for client in clients.chain(inside) {
                    for supplier in suppliers() {
                        // Of a deployment the node is the client (UML 2.5 section 19.5.2), of the others it is the supplier.
                        for (part, host) in [(&client, &supplier), (&supplier, &client)] {
                            let host = self.by_id.get(host.as_str());
                            let Some(node) = host.and_then(|host| self.node_of(*host)) else { continue };
                            let Some((id, part)) = self.by_id.get_key_value(part.as_str()) else { continue };
                            let itself = (sort(*part) == "Component").then_some((*id, *part));
                            for (id, component) in itself.iter().chain(manifested.get(id).into_iter().flatten()) {
                                place(id, *component, node)?;
                            }
                        }
                    }
                }
            }
        }
        Ok(places)
    }

    /// The components that artifacts are the files of, by the artifact (UML 2.5 section 19.5.9).
    fn manifested(&self) -> BTreeMap<&'a str, Vec<(&'a str, Node<'a, 'a>)>> {
        let mut manifested: BTreeMap<&'a str, Vec<_>> = BTreeMap::new();
        for manifestation in self.all("Manifestation") {
            let owner = manifestation.parent_element().filter(|it| sort(*it) == "Artifact");
            let owner = owner.and_then(|it| attribute(it, "id")).map(str::to_owned);
            let artifacts = references(manifestation, "client").into_iter().chain(owner);
            for artifact in artifacts.filter_map(|id| self.by_id.get_key_value(id.as_str())) {
                for key in ["supplier", "utilizedElement"] {
                    let used = references(manifestation, key).into_iter();
                    let used = used.filter_map(|id| self.by_id.get_key_value(id.as_str()));
                    let components = used.filter(|(_, it)| sort(**it) == "Component").map(|(id, it)| (*id, *it));
                    manifested.entry(artifact.0).or_default().extend(components);
                }
            }
        }
        manifested
    }

    /// The type of a property; `xmi:type` says what the property itself is.
    fn type_of(&self, property: Node<'a, 'a>) -> Option<Node<'a, 'a>> {
        let mut types = property.attributes().filter(|it| it.name() == "type").map(|it| it.value());
        let attribute = types.find(|it| kind(property, it).is_none());
        let child = || {
            let mut types = property.children().filter(|child| child.tag_name().name() == "type");
            types.find_map(led)
        };
        self.by_id.get(attribute.or_else(child)?).copied()
    }

    /// A part is one component: of several, each would do its own share of the work.
    pub(super) fn multiplicities(&self) -> Result<(), Fault> {
        let elements = || self.elements.iter().copied();
        let named = elements().filter(|it| matches!(it.tag_name().name(), "lifeline" | "end"));
        let keys = |it: Node<'a, 'a>| ["represents", "role", "partWithPort"].map(|key| reference(it, key));
        let used: BTreeSet<&str> = named.flat_map(keys).flatten().collect();
        for part in elements().filter(|it| sort(*it) == "Property") {
            // An association's end that nothing stands for says how many others know of it.
            let is_part = attribute(part, "aggregation") == Some("composite")
                || attribute(part, "id").is_some_and(|id| used.contains(id));
            if !is_part || !self.type_of(part).is_some_and(|of| self.is_whole(of)) {
                continue;
            }
            let upper = part.children().find(|it| it.tag_name().name() == "upperValue");
            // A literal without a value is 0.
            let unsaid = |it: Node<'_, '_>| if sort(it).starts_with("Literal") { "0" } else { "an expression" };
            if let Some(upper) = upper
                && let times = attribute(upper, "value").unwrap_or_else(|| unsaid(upper))
                && times != "1"
            {
                let why = format!("its multiplicity is `{times}`, and it would count as one: draw each of them");
                return Err(Fault::new(Class::Invalid, format!("part {}", name(part)), why).at(self.lines.line(upper)));
            }
        }
        Ok(())
    }

    /// What a connector's end, a lifeline or a property stands for: itself, or its type.
    fn stands_for(&self, id: &str) -> Option<Node<'a, 'a>> {
        let node = *self.by_id.get(id)?;
        let of = if sort(node) == "Component" { node } else { self.type_of(node)? };
        (sort(of) == "Component").then_some(of)
    }

    /// The component that it is, if the model has it.
    pub(super) fn component(&self, id: &str) -> Option<&'a str> {
        let of = self.stands_for(id)?;
        attribute(of, "id").is_some_and(|id| self.had.contains(id)).then(|| name(of))
    }

    /// What is to be said of one that the model does not have.
    pub(super) fn hollow(&self, id: &str) -> &'static str {
        match self.stands_for(id) {
            Some(of) if self.component(id).is_none() && !self.is_node(of) => {
                " (one that only holds parts, or is a resource, is none until it is placed on a node)"
            }
            _ => "",
        }
    }

    pub(super) fn connectors(&mut self, draft: &mut Draft) -> Result<(), Fault> {
        let all = self.elements.iter().copied().filter(|node| node.tag_name().name() == "ownedConnector");
        let all: Vec<_> = all.collect();
        self.distinguish(all.iter().copied());
        for connector in all {
            let mut words = self.lines.words(connector, "connector");
            let ends: Vec<_> = connector.children().filter(|child| child.tag_name().name() == "end").collect();
            let [from, to] = ends.as_slice() else {
                return Err(words.fault(Class::Invalid, 0, format!("it has {} ends, and two are wanted", ends.len())));
            };
            let mut joined = [""; 2];
            for ((key, end), joined) in [("from", from), ("to", to)].into_iter().zip(&mut joined) {
                // A port is on a part, which says which component it is.
                let role = reference(*end, "partWithPort").or_else(|| reference(*end, "role")).unwrap_or("");
                let Some(component) = self.component(role) else {
                    let there = ["partWithPort", "role"].into_iter().find_map(|key| elsewhere(*end, key));
                    let typed = self.by_id.get(role).and_then(|part| elsewhere(*part, "type"));
                    let why = match (there, typed) {
                        (Some(role), _) => {
                            format!("its end has the role `{role}`, which lies in another file: one file is read")
                        }
                        (None, Some(of)) => format!(
                            "its end with the role `{role}` is a part of the type `{of}`, which lies in another file: one file is read"
                        ),
                        _ => format!(
                            "its end with the role `{role}` is no part whose type is a component{}",
                            self.hollow(role)
                        ),
                    };
                    return Err(words.fault(Class::NoSuchName, self.lines.line(*end), why));
                };
                words.put(key, vec![component.to_owned()], self.lines.line(*end))?;
                *joined = component;
            }
            let id = attribute(connector, "id").unwrap_or("");
            if name(connector).trim().is_empty() {
                self.called.insert(id, format!("{}-{}", joined[0], joined[1]));
            }
            let called = self.called(connector);
            let found = self.joins.entry(pair(joined[0], joined[1]));
            found.and_modify(|(_, only)| *only = false).or_insert((called.clone(), true));
            self.applied.line(id, &mut words)?;
            draft.connectors.push((called, words));
        }
        Ok(())
    }

    /// The only connector that joins two components.
    pub(super) fn between(&self, from: &str, to: &str) -> Option<String> {
        let (name, only) = self.joins.get(&pair(from, to))?;
        only.then(|| name.clone())
    }
}

/// What an element leads to in another file.
fn elsewhere<'a>(element: Node<'a, '_>, key: &str) -> Option<&'a str> {
    let mut children = element.children().filter(|child| child.tag_name().name() == key);
    children.find_map(|child| attribute(child, "href").filter(|href| !href.starts_with('#')))
}

fn pair<'n>(from: &'n str, to: &'n str) -> [&'n str; 2] {
    if from <= to { [from, to] } else { [to, from] }
}
