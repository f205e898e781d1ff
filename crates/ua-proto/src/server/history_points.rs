//! Continuation points of one session's reads of history: bounded, each for one node, worth nothing outside the session.

use std::collections::BTreeMap;

use opcua_types::ByteString;

use crate::history::{Domain, Mark, Processed, Resume};
use crate::space::NodeRef;

/// A read that can be gone on with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Going {
    Raw(Domain, Resume),
    Modified(Domain, Mark),
    /// Events of a notifier; those that clients changed.
    Events(Domain, bool, Mark),
    /// The number of the next interval.
    Processed(Processed, i64),
    /// The place of the next instant.
    AtTime(usize),
}

/// The points of one session.
#[derive(Debug, Default)]
pub(crate) struct HistoryPoints {
    points: BTreeMap<u64, (NodeRef, Going)>,
    last: u64,
}

impl HistoryPoints {
    /// Keeps a point; the oldest makes room for it.
    pub(crate) fn add(&mut self, node: NodeRef, going: Going, most: usize) -> ByteString {
        while self.points.len() >= most.max(1) {
            self.points.pop_first();
        }
        self.last += 1;
        self.points.insert(self.last, (node, going));
        ByteString::from(self.last.to_le_bytes().to_vec())
    }

    /// Takes a point out, if it is one of this node: each is good for one read.
    pub(crate) fn take(&mut self, id: &[u8], node: NodeRef) -> Option<Going> {
        let id = u64::from_le_bytes(id.try_into().ok()?);
        self.points.get(&id).filter(|(of, _)| *of == node)?;
        self.points.remove(&id).map(|(_, going)| going)
    }
}
