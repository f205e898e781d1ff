//! Which node hangs where, and in which order they can be added: after their parents and types, whatever the file's order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use opcua_types::{NodeClass, NodeId};

use super::super::{NodeRef, Space, ns0};
use super::read::{NodeSet, Planned};
use super::{NodeSetError, NodeSetFault};

/// One end of a reference: a node of the space, or one of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    Known(NodeRef),
    New(usize),
}

/// A reference from its source, as (source, type, target).
pub(super) type Edge = (End, End, End);

/// Where a node hangs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// None when nothing leads to the node: it can be read and referred to, but not browsed to.
    pub(super) parent: Option<End>,
    pub(super) reference: End,
    pub(super) type_definition: Option<End>,
    pub(super) data_type: Option<End>,
}

/// A file whose every id has been found.
pub(super) struct Ordered {
    /// Positions in the file, each behind all that it needs.
    pub(super) order: Vec<(usize, Place)>,
    /// References beside those that make the places.
    pub(super) edges: BTreeSet<Edge>,
}

type Fallible<T> = Result<T, NodeSetError>;

pub(super) fn order(space: &Space, set: &NodeSet) -> Fallible<Ordered> {
    let mut ids = BTreeMap::new();
    for (at, node) in set.nodes.iter().enumerate() {
        let id = node.id.to_string();
        if node.id.namespace == 0 {
            return Err(NodeSetFault::StandardNamespace(id).at(node.line));
        }
        if space.find(&node.id).is_some() || ids.insert(id.clone(), at).is_some() {
            return Err(NodeSetFault::Taken(id).at(node.line));
        }
    }
    let mut graph = Graph { space, set, ids, edges: BTreeSet::new(), above: vec![Vec::new(); set.nodes.len()] };
    graph.read_edges()?;
    graph.order()
}

struct Graph<'a> {
    space: &'a Space,
    set: &'a NodeSet,
    ids: BTreeMap<String, usize>,
    edges: BTreeSet<Edge>,
    /// For each node of the file: what leads to it, by source and type.
    above: Vec<Vec<(End, End)>>,
}

impl<'a> Graph<'a> {
    fn end(&self, id: &NodeId) -> Option<End> {
        let known = self.space.find(id).map(End::Known);
        known.or_else(|| self.ids.get(&id.to_string()).copied().map(End::New))
    }

    fn find(&self, from: &Planned, id: &NodeId, line: u32) -> Fallible<End> {
        let unknown = || NodeSetFault::Unknown { from: from.id.to_string(), to: id.to_string() }.at(line);
        self.end(id).ok_or_else(unknown)
    }

    fn planned(&self, end: End) -> Option<&'a Planned> {
        match end {
            End::New(at) => self.set.nodes.get(at),
            End::Known(_) => None,
        }
    }

    fn class(&self, end: End) -> NodeClass {
        match end {
            End::Known(node) => self.space.class(node),
            End::New(at) => self.set.nodes.get(at).map_or(NodeClass::Unspecified, |node| node.class),
        }
    }

    fn read_edges(&mut self) -> Fallible<()> {
        for (at, node) in self.set.nodes.iter().enumerate() {
            for reference in &node.references {
                let type_ = self.find(node, &reference.type_, reference.line)?;
                if self.class(type_) != NodeClass::ReferenceType {
                    let fault = NodeSetFault::WrongClass(reference.type_.to_string(), "a reference type");
                    return Err(fault.at(reference.line));
                }
                let other = self.find(node, &reference.target, reference.line)?;
                let (source, target) = if reference.forward { (End::New(at), other) } else { (other, End::New(at)) };
                if self.edges.insert((source, type_, target))
                    && let End::New(below) = target
                    && source != target
                    && let Some(above) = self.above.get_mut(below)
                {
                    above.push((source, type_));
                }
            }
        }
        Ok(())
    }

    /// Whether a reference type is a subtype of `ancestor`, through the file and the space.
    fn is_subtype(&self, mut type_: End, ancestor: NodeRef) -> bool {
        for _ in 0..=self.set.nodes.len() {
            match type_ {
                End::Known(known) => return self.space.is_subtype_of(known, ancestor),
                End::New(at) => {
                    let above = self.above.get(at).map_or(&[][..], Vec::as_slice);
                    let super_ = above.iter().find(|(_, by)| *by == End::Known(ns0::HAS_SUBTYPE));
                    let Some((next, _)) = super_ else { return false };
                    type_ = *next;
                }
            }
        }
        false
    }

    /// What leads to a node, the best parent first.
    fn parents(&self, at: usize) -> Vec<(End, End)> {
        let Some(node) = self.set.nodes.get(at) else { return Vec::new() };
        let stated = node.parent.as_ref().and_then(|parent| self.end(parent));
        let is_type =
            !matches!(node.class, NodeClass::Object | NodeClass::Variable | NodeClass::Method | NodeClass::View);
        let mut all: Vec<(u8, End, End)> = self
            .above
            .get(at)
            .into_iter()
            .flatten()
            .filter(|(_, by)| *by != End::Known(ns0::HAS_TYPE_DEFINITION))
            .map(|(source, by)| {
                let rank = if is_type && *by == End::Known(ns0::HAS_SUBTYPE) {
                    0
                } else if !self.is_subtype(*by, ns0::HIERARCHICAL_REFERENCES) {
                    3
                } else if Some(*source) == stated {
                    1
                } else {
                    2
                };
                (rank, *source, *by)
            })
            .collect();
        all.sort_unstable();
        all.into_iter().map(|(_, source, by)| (source, by)).collect()
    }

    fn type_definition(&self, at: usize, node: &Planned) -> Fallible<Option<End>> {
        let (usual, class) = match node.class {
            NodeClass::Object => (ns0::BASE_OBJECT_TYPE, NodeClass::ObjectType),
            NodeClass::Variable => (ns0::BASE_DATA_VARIABLE_TYPE, NodeClass::VariableType),
            _ => return Ok(None),
        };
        let by = End::Known(ns0::HAS_TYPE_DEFINITION);
        let from = (End::New(at), by, End::Known(NodeRef(0)));
        let found = self.edges.range(from..).next().filter(|edge| (edge.0, edge.1) == (End::New(at), by));
        let Some((_, _, found)) = found else { return Ok(Some(End::Known(usual))) };
        if self.class(*found) == class {
            return Ok(Some(*found));
        }
        let id = node.id.to_string();
        Err(NodeSetFault::WrongClass(id, "typed by a type of its own kind").at(node.line))
    }

    fn data_type(&self, node: &Planned) -> Fallible<Option<End>> {
        let Some(id) = &node.data_type else { return Ok(None) };
        let found = self.find(node, id, node.line)?;
        if self.class(found) == NodeClass::DataType {
            return Ok(Some(found));
        }
        Err(NodeSetFault::WrongClass(id.to_string(), "a data type").at(node.line))
    }

    fn order(mut self) -> Fallible<Ordered> {
        let mut waits = Waits::new(self.set.nodes.len());
        let mut parents = Vec::with_capacity(self.set.nodes.len());
        for (at, node) in self.set.nodes.iter().enumerate() {
            let all = self.parents(at);
            let best = all.first().copied();
            let (parent, reference) = (best.map(|best| best.0), best.map(|best| best.1));
            let reference = reference.unwrap_or(End::Known(ns0::HIERARCHICAL_REFERENCES));
            let (type_definition, data_type) = (self.type_definition(at, node)?, self.data_type(node)?);
            let place = Place { parent, reference, type_definition, data_type };
            waits.add(at, place);
            parents.push(all);
        }
        waits.run();
        // Where every way up leads in a circle, another way up may not.
        while waits.order.len() < self.set.nodes.len() && waits.detour(&parents) {
            waits.run();
        }
        if let Some(stuck) = waits.placed.iter().position(|placed| !placed) {
            let node = self.planned(End::New(stuck));
            let (id, line) = node.map_or((String::new(), 1), |node| (node.id.to_string(), node.line));
            return Err(NodeSetFault::Cycle(id).at(line));
        }
        for (at, place) in &waits.order {
            if let Some(parent) = place.parent {
                self.edges.remove(&(parent, place.reference, End::New(*at)));
            }
            if let Some(type_definition) = place.type_definition {
                self.edges.remove(&(End::New(*at), End::Known(ns0::HAS_TYPE_DEFINITION), type_definition));
            }
        }
        Ok(Ordered { order: waits.order, edges: self.edges })
    }
}

/// Nodes that wait for others.
struct Waits {
    places: Vec<Option<Place>>,
    /// How many others a node waits for.
    open: Vec<usize>,
    /// Who waits for a node.
    waiting: Vec<Vec<usize>>,
    ready: VecDeque<usize>,
    placed: Vec<bool>,
    order: Vec<(usize, Place)>,
}

impl Waits {
    fn new(count: usize) -> Self {
        Self {
            places: Vec::with_capacity(count),
            open: Vec::with_capacity(count),
            waiting: vec![Vec::new(); count],
            ready: VecDeque::new(),
            placed: vec![false; count],
            order: Vec::with_capacity(count),
        }
    }

    fn add(&mut self, at: usize, place: Place) {
        let mut open = 0;
        for need in needs(&place) {
            if let Some(waiting) = self.waiting.get_mut(need) {
                waiting.push(at);
                open += 1;
            }
        }
        self.places.push(Some(place));
        self.open.push(open);
        if open == 0 {
            self.ready.push_back(at);
        }
    }

    fn run(&mut self) {
        while let Some(at) = self.ready.pop_front() {
            let Some(place) = self.places.get_mut(at).and_then(Option::take) else { continue };
            if let Some(placed) = self.placed.get_mut(at) {
                *placed = true;
            }
            self.order.push((at, place));
            for next in self.waiting.get_mut(at).map(std::mem::take).unwrap_or_default() {
                let Some(open) = self.open.get_mut(next) else { continue };
                *open = open.saturating_sub(1);
                if *open == 0 {
                    self.ready.push_back(next);
                }
            }
        }
    }

    fn is_placed(&self, end: End) -> bool {
        match end {
            End::Known(_) => true,
            End::New(at) => self.placed.get(at).copied().unwrap_or(false),
        }
    }

    /// Hangs nodes that wait for their parents alone under others that are there; says whether there were any.
    fn detour(&mut self, parents: &[Vec<(End, End)>]) -> bool {
        let mut found = Vec::new();
        for (at, place) in self.places.iter().enumerate() {
            let Some(place) = place else { continue };
            let rest = [Some(place.reference), place.type_definition, place.data_type];
            if !rest.into_iter().flatten().all(|end| self.is_placed(end)) {
                continue;
            }
            let other = parents.get(at).into_iter().flatten();
            if let Some((parent, reference)) =
                other.into_iter().find(|(parent, by)| self.is_placed(*parent) && self.is_placed(*by))
            {
                found.push((at, Place { parent: Some(*parent), reference: *reference, ..*place }));
            }
        }
        for (at, place) in &found {
            if let (Some(slot), Some(open)) = (self.places.get_mut(*at), self.open.get_mut(*at)) {
                (*slot, *open) = (Some(*place), 0);
                self.ready.push_back(*at);
            }
        }
        !found.is_empty()
    }
}

/// The nodes of the file that have to be there before a place can be taken.
fn needs(place: &Place) -> BTreeSet<usize> {
    let ends = [place.parent, Some(place.reference), place.type_definition, place.data_type];
    let new = |end: End| match end {
        End::New(at) => Some(at),
        End::Known(_) => None,
    };
    ends.into_iter().flatten().filter_map(new).collect()
}
