//! A net while it is read: nodes by the name that arcs call them by.

use hashbrown::{HashMap, HashSet};

use crate::net::{self, Arc, Kind, Place, Servers, Tokens, Transition};
use crate::{Net, Refusal};

#[derive(Debug, Clone, Copy)]
enum Node {
    Place(usize),
    Transition(usize),
}

/// Places and transitions so far.
#[derive(Debug, Default)]
pub(super) struct Draft {
    places: Vec<Place>,
    transitions: Vec<Transition>,
    nodes: HashMap<String, Node>,
    arcs: HashMap<(usize, usize, Sort), usize>,
    arc_ids: HashSet<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Sort {
    In,
    Out,
    Inhibit,
}

impl Draft {
    pub(super) fn place(&mut self, id: &str, name: &str, tokens: Tokens) -> Result<(), Refusal> {
        self.node(id, name, Node::Place(self.places.len()))?;
        self.places.push(Place { name: name.to_owned(), tokens });
        Ok(())
    }

    pub(super) fn transition(&mut self, id: &str, name: &str, kind: Kind) -> Result<(), Refusal> {
        self.node(id, name, Node::Transition(self.transitions.len()))?;
        let name = name.to_owned();
        self.transitions.push(Transition {
            name,
            kind,
            inputs: Vec::new(),
            outputs: Vec::new(),
            inhibitors: Vec::new(),
        });
        Ok(())
    }

    fn node(&mut self, id: &str, name: &str, node: Node) -> Result<(), Refusal> {
        match self.nodes.insert(id.to_owned(), node) {
            None => Ok(()),
            Some(_) => Err(Refusal::invalid(name, format!("two nodes are called `{id}`"))),
        }
    }

    fn find(&self, id: &str) -> Result<Node, Refusal> {
        let node = self.nodes.get(id).copied();
        node.ok_or_else(|| match id {
            "" => Refusal::invalid("arc", "an arc has no node at one of its ends: say which it leads from and to"),
            _ => Refusal::invalid(id, "an arc leads to or from this node, and there is none"),
        })
    }

    /// Whether it is one, and no transition.
    pub(super) fn is_place(&self, id: &str) -> Result<bool, Refusal> {
        Ok(matches!(self.find(id)?, Node::Place(_)))
    }

    /// Refuses an id that another arc has: one of both may be a copy, and arcs that are parallel add up.
    pub(super) fn arc_id(&mut self, id: Option<&str>) -> Result<(), Refusal> {
        match id {
            Some(id) if !self.arc_ids.insert(id.to_owned()) => {
                Err(Refusal::invalid(id, "two arcs have this id: give each its own, or take one out"))
            }
            _ => Ok(()),
        }
    }

    /// An arc that takes or puts tokens.
    pub(super) fn arc(&mut self, from: &str, to: &str, count: Tokens) -> Result<(), Refusal> {
        match (self.find(from)?, self.find(to)?) {
            (Node::Place(place), Node::Transition(transition)) => self.add(transition, place, Sort::In, count, to),
            (Node::Transition(transition), Node::Place(place)) => self.add(transition, place, Sort::Out, count, from),
            _ => {
                Err(Refusal::invalid(from, format!("an arc leads to `{to}`: arcs go between a place and a transition")))
            }
        }
    }

    /// An arc that stops a transition.
    pub(super) fn inhibitor(&mut self, from: &str, to: &str, count: Tokens) -> Result<(), Refusal> {
        match (self.find(from)?, self.find(to)?) {
            (Node::Place(place), Node::Transition(transition)) => self.add(transition, place, Sort::Inhibit, count, to),
            _ => Err(Refusal::invalid(
                from,
                format!("an inhibitor arc leads to `{to}`: it goes from a place to a transition"),
            )),
        }
    }

    fn add(&mut self, transition: usize, place: usize, sort: Sort, count: Tokens, name: &str) -> Result<(), Refusal> {
        let it = self.transitions.get_mut(transition);
        let arcs = it.map(|it| match sort {
            Sort::In => &mut it.inputs,
            Sort::Out => &mut it.outputs,
            Sort::Inhibit => &mut it.inhibitors,
        });
        let Some(arcs) = arcs else { return Err(Refusal::invalid(name, "there is no such transition")) };
        let next = arcs.len();
        let known = *self.arcs.entry((transition, place, sort)).or_insert(next);
        match arcs.get_mut(known) {
            None => arcs.push(Arc { place, count }),
            // Two arcs that take or put are one that does both; of two inhibitors the smaller stops first.
            Some(arc) if sort == Sort::Inhibit => arc.count = arc.count.min(count),
            Some(arc) => {
                arc.count = arc
                    .count
                    .checked_add(count)
                    .filter(|_| count > 0)
                    .ok_or_else(|| Refusal::invalid(name, "a multiplicity is 0, or too large"))?;
            }
        }
        Ok(())
    }

    /// A transition with infinitely many servers that nothing bounds: each format has its own words for what to write instead.
    pub(super) fn unbounded(&self) -> Option<&str> {
        let unbounded = |it: &&Transition| {
            it.inputs.is_empty() && matches!(it.kind, Kind::Timed { servers: Servers::Infinite, .. })
        };
        self.transitions.iter().find(unbounded).map(|it| it.name.as_str())
    }

    pub(super) fn net(self, name: &str) -> Result<Net, Refusal> {
        net::build(name, self.places, self.transitions)
    }
}
