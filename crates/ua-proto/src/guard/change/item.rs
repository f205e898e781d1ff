//! One item of a service that changes the plant: the nodes it touches, and how it is put together again for the server.

use std::collections::HashSet;
use std::ops::Range;

use access_model::{Action, AuditKind, AuditRecord, ScopeIndex};
use opcua_types::{NodeId, StatusCode};
use pep::Permit;

use crate::guard::desk::{Desk, text_of};
use crate::server::front::{Malformed, Reader, write_len};

/// As many sources does a record name.
const NAMED: usize = 4;

/// One item of a request.
#[derive(Default)]
pub(in crate::guard) struct Item {
    /// The nodes on which it needs rights, the one it is about first.
    pub(in crate::guard) touched: Vec<Touched>,
    /// Those that were added for what it holds, each once.
    held_to: HashSet<NodeId>,
    pieces: Vec<Piece>,
    /// Holds an ExtensionObject, whose length the server may see otherwise.
    pub(in crate::guard) structures: bool,
    /// What its record says.
    pub(in crate::guard) text: String,
    /// It cannot be allowed, whatever the rights.
    pub(in crate::guard) refused: Option<StatusCode>,
    /// The part of it that holds what is to be.
    pub(in crate::guard) value: Range<usize>,
    /// What goes upstream in its place.
    pub(in crate::guard) replaced: Option<Vec<u8>>,
    /// Where it is a list of which not all goes upstream: what the guard itself says of the others.
    pub(in crate::guard) entries: Vec<Option<StatusCode>>,
    /// A number of the service's own.
    pub(in crate::guard) number: u32,
    /// The part of the node's value that it is about, as an index range.
    pub(in crate::guard) part: String,
}

/// A node and what is to be done with it.
pub(in crate::guard) struct Touched {
    pub(in crate::guard) node: NodeId,
    pub(in crate::guard) action: Action,
    pub(in crate::guard) scope: ScopeIndex,
}

/// How an item is put together again.
enum Piece {
    Bytes(Range<usize>),
    /// One of the touched nodes.
    Node(usize, Range<usize>),
    /// What a node that never exists is not asked with, and what stands for it there.
    Value(Range<usize>, &'static [u8]),
    /// The length in bytes of all that follows.
    Length,
}

/// Reads a body and knows where in it it stands.
pub(in crate::guard) struct Cursor<'a> {
    pub(in crate::guard) reader: Reader<'a>,
    length: usize,
}

impl<'a> Cursor<'a> {
    pub(in crate::guard) fn new(body: &'a [u8]) -> Self {
        Self { reader: Reader::new(body), length: body.len() }
    }

    pub(in crate::guard) fn at(&self) -> usize {
        self.length.saturating_sub(self.reader.rest().len())
    }

    /// Where the bytes stand that `walk` steps over.
    pub(in crate::guard) fn range(
        &mut self,
        walk: impl FnOnce(&mut Reader<'a>) -> Result<(), Malformed>,
    ) -> Result<Range<usize>, Malformed> {
        let start = self.at();
        walk(&mut self.reader)?;
        Ok(start..self.at())
    }
}

impl Item {
    /// Reads a NodeId on which `action` is needed.
    pub(in crate::guard) fn node(&mut self, cursor: &mut Cursor<'_>, action: Action) -> Result<(), Malformed> {
        let start = cursor.at();
        let node = cursor.reader.node_id()?;
        self.touch(node, action, start..cursor.at());
        Ok(())
    }

    /// Adds a node that was read.
    pub(in crate::guard) fn touch(&mut self, node: NodeId, action: Action, bytes: Range<usize>) {
        self.pieces.push(Piece::Node(self.touched.len(), bytes));
        self.touched.push(Touched { node, action, scope: ScopeIndex::NOWHERE });
    }

    /// One more right is needed on a node that was touched already.
    pub(in crate::guard) fn also(&mut self, at: usize, action: Action) {
        if let Some(node) = self.touched.get(at).map(|touched| touched.node.clone()) {
            self.touched.push(Touched { node, action, scope: ScopeIndex::NOWHERE });
        }
    }

    /// It is held to one more node as well, for what is in it.
    pub(in crate::guard) fn hold_to(&mut self, touched: Touched) {
        let first = self.touched.first().is_some_and(|first| first.node == touched.node);
        if !first && self.held_to.insert(touched.node.clone()) {
            self.touched.push(touched);
        }
    }

    /// Says in its record what is left of it and where that comes from, the first few by name.
    pub(in crate::guard) fn name_sources(&mut self) {
        if !self.entries.is_empty() {
            let left = self.entries.iter().filter(|denied| denied.is_none()).count();
            self.text.push_str(&format!(", {left} of them allowed"));
        }
        let mut sources = self.touched.iter().skip(1).map(|touched| touched.node.to_string());
        let named: Vec<String> = sources.by_ref().take(NAMED).collect();
        if !named.is_empty() {
            self.text.push_str(&format!(", of {}", named.join(", ")));
        }
        let more = sources.count();
        if more > 0 {
            self.text.push_str(&format!(" and {more} more"));
        }
    }

    /// About how many bytes it keeps besides the request.
    pub(in crate::guard) fn weight(&self) -> usize {
        let touched: usize = self.touched.iter().map(|touched| text_of(&touched.node) + size_of::<Touched>()).sum();
        let twice = if self.held_to.is_empty() { touched } else { touched.saturating_mul(2) };
        let entries = self.entries.len().saturating_mul(size_of::<Option<StatusCode>>());
        let written = self.replaced.as_ref().map_or(0, Vec::len);
        twice.saturating_add(entries).saturating_add(written).saturating_add(self.text.len())
    }

    /// Adds bytes that go on as they are.
    pub(in crate::guard) fn bytes(&mut self, bytes: Range<usize>) {
        self.pieces.push(Piece::Bytes(bytes));
    }

    /// Adds bytes that only a node that exists is asked with.
    pub(in crate::guard) fn only_real(&mut self, bytes: Range<usize>, otherwise: &'static [u8]) {
        self.pieces.push(Piece::Value(bytes, otherwise));
    }

    /// Adds the length of all that follows.
    pub(in crate::guard) fn length(&mut self) {
        self.pieces.push(Piece::Length);
    }

    /// The item as it goes upstream; `hidden`: in the name of nodes that never exist.
    pub(in crate::guard) fn written(&self, desk: &Desk<'_>, body: &[u8], hidden: bool) -> Vec<u8> {
        let part = |range: &Range<usize>| body.get(range.clone()).unwrap_or_default();
        let mut out = Vec::new();
        let mut length = None;
        for piece in &self.pieces {
            match piece {
                Piece::Bytes(range) => out.extend_from_slice(part(range)),
                Piece::Value(_, otherwise) if hidden => out.extend_from_slice(otherwise),
                Piece::Value(range, _) => {
                    let replaced = self.replaced.as_deref().filter(|_| *range == self.value);
                    out.extend_from_slice(replaced.unwrap_or_else(|| part(range)));
                }
                Piece::Node(at, range) => match self.touched.get(*at) {
                    Some(touched) if hidden => out.extend_from_slice(&desk.never(&touched.node)),
                    Some(touched) => out.extend_from_slice(desk.known_as(&touched.node, part(range))),
                    None => {}
                },
                Piece::Length => {
                    length = Some(out.len());
                    out.extend_from_slice(&[0; 4]);
                }
            }
        }
        if let Some(at) = length {
            let behind = i32::try_from(out.len().saturating_sub(at + 4)).unwrap_or(i32::MAX).to_le_bytes();
            out.iter_mut().skip(at).zip(behind).for_each(|(byte, new)| *byte = new);
        }
        out
    }

    /// What goes upstream of it besides the touched nodes, piece by piece.
    pub(in crate::guard) fn besides<'b>(&'b self, body: &'b [u8]) -> impl Iterator<Item = &'b [u8]> {
        self.pieces.iter().filter_map(move |piece| match piece {
            Piece::Bytes(range) => body.get(range.clone()),
            Piece::Value(range, _) => {
                let replaced = self.replaced.as_deref().filter(|_| *range == self.value);
                replaced.or_else(|| body.get(range.clone()))
            }
            Piece::Node(..) | Piece::Length => None,
        })
    }

    /// What the server says of it, with what the guard says of the parts that were not sent; `None`: it is not about as
    /// many parts as were sent. A status and a list of statuses stand in front of everything else.
    pub(in crate::guard) fn merged(&self, (status, bytes): (StatusCode, Vec<u8>)) -> Option<(StatusCode, Vec<u8>)> {
        if self.entries.is_empty() || bytes.is_empty() {
            return Some((status, bytes));
        }
        let mut reader = Reader::new(&bytes);
        reader.u32().ok()?;
        let count = reader.array_len(4).ok()?;
        if count == 0 && status.is_bad() {
            return Some((status, bytes));
        }
        let mut out = status.bits().to_le_bytes().to_vec();
        write_len(&mut out, self.entries.len());
        // A server may say of all of them at once that they are good.
        let said = |reader: &mut Reader<'_>| if count == 0 { Some(status.bits()) } else { reader.u32().ok() };
        for own in &self.entries {
            let one = own.map_or_else(|| said(&mut reader), |own| Some(own.bits()))?;
            out.extend_from_slice(&one.to_le_bytes());
        }
        let sent = self.entries.iter().filter(|own| own.is_none()).count();
        out.extend_from_slice(reader.rest());
        (count == 0 || sent == count).then_some((status, out))
    }

    pub(in crate::guard) fn object(&self) -> String {
        self.touched.first().map(|touched| touched.node.to_string()).unwrap_or_default()
    }
}

impl Item {
    /// The record of what passes. It stands for the node that the item is about; others that it touches are counted while
    /// the gate observes, for whoever is to be granted the item needs rights on all of them.
    pub(in crate::guard) fn record(
        &self,
        desk: &mut Desk<'_>,
        kind: AuditKind,
        permits: &[Option<Permit>],
    ) -> Option<AuditRecord> {
        let against = permits.iter().flatten().find_map(Permit::against);
        let Some(first) = self.touched.first() else { return desk.record_of(kind, self.object(), self.text.clone()) };
        for touched in self.touched.iter().skip(1) {
            desk.observe(kind, touched.action, (&touched.node, touched.scope));
        }
        let node = if desk.observes() { desk.real(&first.node) } else { first.node.clone() };
        desk.record_of_passing(kind, (&node, first.action, first.scope), (self.text.clone(), against))
    }

    /// A node on which the right is gone by now.
    pub(in crate::guard) fn missing(&self, desk: &Desk<'_>) -> Option<&Touched> {
        self.touched.iter().find(|touched| !desk.rights(touched.scope).contains(touched.action.needed()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_item_is_held_to_stands_there_once_and_counts() {
        let touched =
            |name: &str| Touched { node: NodeId::new(2, name), action: Action::Write, scope: ScopeIndex::NOWHERE };
        let mut item = Item::default();
        item.touch(NodeId::new(2, "first"), Action::Write, 0..0);
        let before = item.weight();
        let long = "x".repeat(1_000);
        for name in ["first", "second", &long, "second", &long, "first"] {
            item.hold_to(touched(name));
        }
        let names: Vec<String> = item.touched.iter().map(|touched| touched.node.identifier.to_string()).collect();
        assert_eq!(names, ["s=first", "s=second", &format!("s={long}")]);
        assert!(item.weight() >= before + 2 * 1_000, "twice: in a list and in a set");
        let before = item.weight();
        item.entries = vec![None; 1_000];
        assert!(item.weight() >= before + 4 * 1_000);
    }
}
