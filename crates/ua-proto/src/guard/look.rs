//! What the server asks of channels for the nodes that an answer leads to (ApplyRestrictionsToBrowse, OPC 10000-3 §8.56):
//! asked before they are told to a client whose channel is weaker than the guard's own. What is not said for certain is
//! not told.

use std::collections::{HashMap, HashSet, VecDeque};

use access_model::Restrictions;
use opcua_types::{NodeId, StatusCode};

use super::desk::Desk;
use super::learn;

/// The number of the first part that asks; those of the service itself lie below.
const FIRST: u32 = 1 << 16;
/// Requests upstream that one request of a client has under way at a time.
const AT_A_TIME: usize = 4;
/// Bytes that one node costs while it is asked about.
const COST: usize = 128;

/// Questions that are under way, and what is said until the next are asked: it does not depend on what is forgotten
/// meanwhile.
#[derive(Default)]
pub(super) struct Looking {
    waiting: VecDeque<Vec<NodeId>>,
    parts: Vec<Vec<NodeId>>,
    open: usize,
    said: HashMap<NodeId, Restrictions>,
}

impl Looking {
    /// Asks for what is not known of these nodes, which the session may know of; `false`: all of it is known.
    pub(super) fn start(
        &mut self,
        desk: &mut Desk<'_>,
        nodes: impl IntoIterator<Item = NodeId>,
    ) -> Result<bool, StatusCode> {
        *self = Self::default();
        if desk.unmet_by_client().is_empty() {
            return Ok(false);
        }
        let (mut seen, mut unknown) = (HashSet::new(), Vec::new());
        for node in nodes {
            if !seen.insert(node.clone()) {
                continue;
            }
            match learn::known(desk, &node) {
                Some(restrictions) => drop(self.said.insert(node, restrictions)),
                None => unknown.push(node),
            }
        }
        self.waiting = learn::to_ask(desk, unknown).into();
        self.ask(desk)?;
        Ok(self.open > 0)
    }

    /// Asks as much as may be asked at a time.
    fn ask(&mut self, desk: &mut Desk<'_>) -> Result<(), StatusCode> {
        while self.open < AT_A_TIME
            && let Some(nodes) = self.waiting.pop_front()
        {
            let part = FIRST.saturating_add(u32::try_from(self.parts.len()).unwrap_or(u32::MAX));
            learn::ask_restrictions(desk, &nodes, part)?;
            self.parts.push(nodes);
            self.open += 1;
        }
        Ok(())
    }

    /// Whether a part is one of these.
    pub(super) fn owns(part: u32) -> bool {
        part >= FIRST
    }

    /// The server answered one of them; whether it was the last. One that fails leaves its nodes unknown.
    pub(super) fn answered(
        &mut self,
        desk: &mut Desk<'_>,
        part: u32,
        answer: Result<Vec<u8>, StatusCode>,
    ) -> Result<bool, StatusCode> {
        let nodes = self.parts.get_mut(part.saturating_sub(FIRST) as usize).map(std::mem::take).unwrap_or_default();
        self.open = self.open.saturating_sub(1);
        if let Ok(body) = answer {
            let said = learn::take_restrictions(desk, nodes, &body);
            self.said.extend(said.map_err(|status| desk.misbehaved(status, "the answer to Read does not fit"))?);
        }
        self.ask(desk)?;
        Ok(self.open == 0)
    }

    /// Whether a node may be told over a channel that does not meet this.
    pub(super) fn lets(&self, node: &NodeId, unmet: Restrictions) -> bool {
        let free = |asked: &Restrictions| !(asked.touches(unmet) && asked.touches(Restrictions::BROWSE));
        unmet.is_empty() || self.said.get(node).is_some_and(free)
    }

    /// Bytes that it holds.
    pub(super) fn weight(&self) -> usize {
        let asked: usize = self.waiting.iter().chain(&self.parts).map(Vec::len).sum();
        asked.saturating_add(self.said.len()).saturating_mul(COST)
    }
}
