//! From node id to added node and back, without a hash map of ids.
//!
//! Numeric ids that run on with the nodes share one range of 16 bytes. Other ids lie in one byte arena, found through
//! an open-addressed table of `u32`.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher as _};

use opcua_types::{ByteString, Guid, Identifier, NodeId, UAString};

/// The longest string or opaque identifier, in bytes (OPC 10000-3 §8.2.4 asks for 4,096 characters).
const MAX_IDENTIFIER: usize = 4096;
/// Bytes of a key before the identifier.
const HEAD: usize = 5;

/// Numeric ids `first..first + len` of a namespace are the added nodes `node..node + len`.
#[derive(Clone, Copy, Debug)]
struct Run {
    node: u32,
    first: u32,
    len: u32,
    namespace: u16,
}

/// Ids of the added nodes, which are numbered from 0 here.
#[derive(Clone, Debug, Default)]
pub(super) struct Ids {
    /// Ascending by node.
    runs: Vec<Run>,
    /// Namespace and first id of a run; its position.
    by_id: BTreeMap<(u16, u32), u32>,
    /// Node and place in `bytes`, ascending by node.
    named: Vec<(u32, u32)>,
    bytes: Vec<u8>,
    /// Position in `named` plus one; 0 is empty. The length is a power of two or 0.
    slots: Vec<u32>,
}

impl Ids {
    /// Whether one more id of any kind fits.
    pub(super) fn has_room(&self, id: &NodeId) -> bool {
        let len = match &id.identifier {
            Identifier::Numeric(_) => 0,
            Identifier::Guid(_) => 16,
            Identifier::String(text) => text.as_ref().len(),
            Identifier::ByteString(bytes) => bytes.as_ref().len(),
        };
        len <= MAX_IDENTIFIER && u32::try_from(self.bytes.len() + MAX_IDENTIFIER + HEAD).is_ok()
    }

    /// Gives `node`, which is greater than every node before, an id that is not in use and fits.
    pub(super) fn push(&mut self, node: u32, id: &NodeId) {
        match &id.identifier {
            Identifier::Numeric(number) => self.push_number(node, id.namespace, *number),
            other => self.push_named(node, id.namespace, other),
        }
    }

    pub(super) fn find(&self, id: &NodeId) -> Option<u32> {
        match &id.identifier {
            Identifier::Numeric(number) => {
                let (_, at) = self.by_id.range(..=(id.namespace, *number)).next_back()?;
                let run = self.runs.get(*at as usize)?;
                let offset = number.checked_sub(run.first)?;
                (run.namespace == id.namespace && offset < run.len).then_some(run.node + offset)
            }
            other => self.find_named(&key(id.namespace, other)?),
        }
    }

    pub(super) fn id(&self, node: u32) -> NodeId {
        let at = self.runs.partition_point(|run| run.node <= node);
        if let Some(run) = at.checked_sub(1).and_then(|at| self.runs.get(at))
            && node - run.node < run.len
        {
            return NodeId::new(run.namespace, run.first + (node - run.node));
        }
        let at = self.named.partition_point(|(first, _)| *first < node);
        match self.named.get(at) {
            Some((found, place)) if *found == node => self.read(*place).unwrap_or_default(),
            _ => NodeId::null(),
        }
    }

    fn push_number(&mut self, node: u32, namespace: u16, number: u32) {
        if let Some(last) = self.runs.last_mut()
            && last.namespace == namespace
            && last.node + last.len == node
            && last.first.checked_add(last.len) == Some(number)
        {
            last.len += 1;
            return;
        }
        // There are no more runs than nodes, and those are numbered with 32 bits.
        self.by_id.insert((namespace, number), self.runs.len() as u32);
        self.runs.push(Run { node, first: number, len: 1, namespace });
    }

    fn push_named(&mut self, node: u32, namespace: u16, identifier: &Identifier) {
        let (Some(key), Ok(place)) = (key(namespace, identifier), u32::try_from(self.bytes.len())) else { return };
        if self.named.len() >= self.slots.len() / 8 * 7 {
            self.grow();
        }
        self.bytes.extend_from_slice(&key);
        self.named.push((node, place));
        let position = self.named.len() as u32;
        occupy(&mut self.slots, &key, position);
    }

    fn find_named(&self, key: &[u8]) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash(key) as usize & mask;
        loop {
            let position = (*self.slots.get(at)? as usize).checked_sub(1)?;
            let (node, place) = self.named.get(position)?;
            if self.bytes.get(*place as usize..).is_some_and(|rest| rest.starts_with(key)) {
                return Some(*node);
            }
            at = (at + 1) & mask;
        }
    }

    /// Doubles the slots and places every id again.
    fn grow(&mut self) {
        let mut slots = vec![0; (self.slots.len() * 2).max(16)];
        for (position, (_, place)) in (1_u32..).zip(&self.named) {
            occupy(&mut slots, self.key_at(*place), position);
        }
        self.slots = slots;
    }

    fn key_at(&self, place: u32) -> &[u8] {
        let rest = self.bytes.get(place as usize..).unwrap_or_default();
        let Some([_, _, _, low, high]) = rest.first_chunk() else { return &[] };
        rest.get(..HEAD + usize::from(u16::from_le_bytes([*low, *high]))).unwrap_or_default()
    }

    fn read(&self, place: u32) -> Option<NodeId> {
        let ([kind, one, two, _, _], rest) = self.key_at(place).split_first_chunk()?;
        let namespace = u16::from_le_bytes([*one, *two]);
        let identifier = match kind {
            1 => Identifier::String(UAString::from(std::str::from_utf8(rest).ok()?)),
            2 => Identifier::Guid(Guid::from_slice(rest).ok()?),
            _ => Identifier::ByteString(ByteString::from(rest.to_vec())),
        };
        Some(NodeId { namespace, identifier })
    }
}

fn occupy(slots: &mut [u32], key: &[u8], position: u32) {
    let mask = slots.len().wrapping_sub(1);
    let mut at = hash(key) as usize & mask;
    while let Some(slot) = slots.get_mut(at) {
        if *slot == 0 {
            *slot = position;
            return;
        }
        at = (at + 1) & mask;
    }
}

/// Kind, namespace, length, bytes: no key is the beginning of another.
fn key(namespace: u16, identifier: &Identifier) -> Option<Vec<u8>> {
    let guid;
    let (kind, bytes): (u8, &[u8]) = match identifier {
        Identifier::Numeric(_) => return None,
        Identifier::String(text) => (1, text.as_ref().as_bytes()),
        Identifier::Guid(id) => {
            guid = id.to_bytes();
            (2, &guid)
        }
        Identifier::ByteString(bytes) => (3, bytes.as_ref()),
    };
    let len = u16::try_from(bytes.len()).ok()?;
    let mut key = Vec::with_capacity(bytes.len() + HEAD);
    key.push(kind);
    key.extend_from_slice(&namespace.to_le_bytes());
    key.extend_from_slice(&len.to_le_bytes());
    key.extend_from_slice(bytes);
    Some(key)
}

/// Only the application adds ids, so a fixed hash key gives a peer nothing to attack.
fn hash(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(key);
    hasher.finish()
}
