//! Continuation points of one session: bounded, and worth nothing outside it.

use std::collections::BTreeMap;

use opcua_types::{ByteString, StatusCode};

use crate::space::BrowseSpec;

/// A browse that can be gone on with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BrowsePoint {
    pub(crate) spec: BrowseSpec,
    /// References per answer.
    pub(crate) max: usize,
}

/// The points of one session.
#[derive(Debug)]
pub(crate) struct BrowsePoints {
    points: BTreeMap<u64, BrowsePoint>,
    next: u64,
    max: usize,
}

impl BrowsePoints {
    pub(crate) fn new(max: usize) -> Self {
        Self { points: BTreeMap::new(), next: 0, max }
    }

    /// Keeps a point.
    pub(crate) fn add(&mut self, point: BrowsePoint) -> Result<ByteString, StatusCode> {
        if self.points.len() >= self.max {
            return Err(StatusCode::BadNoContinuationPoints);
        }
        self.next += 1;
        self.points.insert(self.next, point);
        Ok(ByteString::from(self.next.to_le_bytes().to_vec()))
    }

    /// Takes a point out: each is good for one BrowseNext.
    pub(crate) fn take(&mut self, id: &ByteString) -> Option<BrowsePoint> {
        let id = <[u8; 8]>::try_from(id.as_ref()).ok()?;
        self.points.remove(&u64::from_le_bytes(id))
    }
}
