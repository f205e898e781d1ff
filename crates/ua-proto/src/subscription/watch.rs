//! Who wants to hear of a change, and which samples fall due: the two indexes that spare a scan over all items.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use access_model::Mono;

use super::NodeRef;

/// A change of the set of nodes whose values a session watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchChange {
    /// Call `on_change` for this node from now on.
    Added(NodeRef),
    /// Nobody in this session watches this node any more.
    Removed(NodeRef),
}

/// Which items watch which node.
#[derive(Default)]
pub(super) struct Watchers {
    keys: HashMap<NodeRef, Vec<usize>>,
    changes: VecDeque<WatchChange>,
}

impl Watchers {
    pub(super) fn add(&mut self, node: NodeRef, key: usize) {
        let keys = self.keys.entry(node).or_default();
        if keys.is_empty() {
            self.changes.push_back(WatchChange::Added(node));
        }
        keys.push(key);
    }

    pub(super) fn remove(&mut self, node: NodeRef, key: usize) {
        let Some(keys) = self.keys.get_mut(&node) else { return };
        keys.retain(|known| *known != key);
        if keys.is_empty() {
            self.keys.remove(&node);
            self.changes.push_back(WatchChange::Removed(node));
        }
    }

    pub(super) fn of(&self, node: NodeRef) -> &[usize] {
        self.keys.get(&node).map_or(&[], Vec::as_slice)
    }

    pub(super) fn poll_change(&mut self) -> Option<WatchChange> {
        self.changes.pop_front()
    }
}

/// A planned sample: when, the item's slot, and its serial number to tell it from a later item in the same slot.
pub(super) type Planned = (Mono, usize, u64);

/// Planned samples by time. An entry whose item has gone or was planned anew is stale and skipped by the caller.
#[derive(Default)]
pub(super) struct Due {
    heap: BinaryHeap<Reverse<Planned>>,
}

impl Due {
    pub(super) fn plan(&mut self, planned: Planned) {
        self.heap.push(Reverse(planned));
    }

    pub(super) fn next(&self) -> Option<Mono> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }

    /// The earliest entry that is due by `now`.
    pub(super) fn pop(&mut self, now: Mono) -> Option<Planned> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(planned)| planned)
    }

    /// Keeps only live entries once the stale ones outnumber the items.
    pub(super) fn compact(&mut self, items: usize, live: impl Fn(&Planned) -> bool) {
        if self.heap.len() > items * 2 + 64 {
            self.heap.retain(|Reverse(planned)| live(planned));
        }
    }
}
