//! What the server asks of channels for the nodes that an answer leads to (ApplyRestrictionsToBrowse, OPC 10000-3 §8.56):
//! asked before they are told to a client whose channel is weaker than the guard's own. What is not said for certain is
//! not told.

use opcua_types::{NodeId, StatusCode};

use super::desk::Desk;
use super::learn;

/// The number of the first part that asks; those of the service itself lie below.
const FIRST: u32 = 1 << 16;

/// Questions that are under way.
#[derive(Default)]
pub(super) struct Looking {
    parts: Vec<Vec<NodeId>>,
    open: usize,
}

impl Looking {
    /// Asks for what is not known of these nodes, which the session may know of; `false`: all of it is known.
    pub(super) fn start(
        &mut self,
        desk: &mut Desk<'_>,
        nodes: impl IntoIterator<Item = NodeId>,
    ) -> Result<bool, StatusCode> {
        *self = Self::default();
        for chunk in learn::unknown(desk, nodes) {
            let part = FIRST.saturating_add(u32::try_from(self.parts.len()).unwrap_or(u32::MAX));
            learn::ask_restrictions(desk, &chunk, part)?;
            self.parts.push(chunk);
            self.open += 1;
        }
        Ok(self.open > 0)
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
            learn::take_restrictions(desk, nodes, &body)?;
        }
        Ok(self.open == 0)
    }
}
