//! References of a node, in a fixed order that a cursor can go on from.

/// Where a walk over a node's references stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) stage: u8,
    pub(super) at: u32,
    pub(super) offset: u32,
}
