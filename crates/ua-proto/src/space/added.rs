//! The nodes the application added: one array per property, the properties that many nodes share in a palette of
//! shapes, names in one arena. A variable costs 35 bytes plus its name and the byte that holds the name's length.

use std::collections::BTreeMap;

use access_model::ScopeIndex;
use opcua_types::{DateTime, LocalizedText, StatusCode, Variant};

use super::ids::Ids;
use super::{AccessLevel, NodeRef, Reference, SpaceError};

/// "No timestamp".
const NO_TIME: i64 = i64::MIN;
/// Tag of a value that lies in the side table.
const BOXED: u8 = u8::MAX;

/// The parent of a node that hangs nowhere: nothing leads to it.
pub(super) const NO_PARENT: NodeRef = NodeRef(u32::MAX);

/// What many nodes have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shape {
    /// NodeClass.
    pub(super) class: u8,
    /// As in `ns0`.
    pub(super) flags: u8,
    /// AccessLevel of a variable, EventNotifier of an object.
    pub(super) access: AccessLevel,
    pub(super) name_namespace: u16,
    /// How it hangs under its parent.
    pub(super) reference: NodeRef,
    pub(super) type_definition: Option<NodeRef>,
    pub(super) data_type: Option<NodeRef>,
    pub(super) rank: i32,
    pub(super) dimensions: Box<[u32]>,
}

/// Some children of one node that follow each other.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u32,
    len: u32,
    /// Position of the next run plus one; 0 ends.
    next: u32,
}

/// Texts that few nodes have.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Texts {
    /// Where it is not the browse name's.
    pub(super) display: Option<LocalizedText>,
    pub(super) description: Option<LocalizedText>,
    /// InverseName of a reference type.
    pub(super) inverse: Option<LocalizedText>,
}

/// The added nodes, numbered from 0 here.
#[derive(Clone, Debug, Default)]
pub(super) struct Added {
    names: Vec<u8>,
    name: Vec<u32>,
    parent: Vec<u32>,
    scope: Vec<u32>,
    shape: Vec<u16>,
    tag: Vec<u8>,
    payload: Vec<u64>,
    time: Vec<i64>,
    status: Vec<u32>,
    boxed: Vec<Option<Box<Variant>>>,
    free: Vec<u32>,
    shapes: Vec<Shape>,
    shape_at: BTreeMap<Shape, u16>,
    runs: Vec<Run>,
    /// First and last run of a parent (a node of the whole space), as positions in `runs`.
    families: BTreeMap<u32, (u32, u32)>,
    pub(super) ids: Ids,
    /// References beside the one to the parent and the type definition, by node of the whole space.
    pub(super) extra: BTreeMap<u32, Vec<Reference>>,
    pub(super) texts: BTreeMap<u32, Texts>,
}

impl Added {
    pub(super) fn len(&self) -> u32 {
        self.name.len() as u32
    }

    pub(super) fn reserve(&mut self, nodes: usize) {
        self.names.reserve(nodes.saturating_mul(20));
        self.name.reserve(nodes);
        self.parent.reserve(nodes);
        self.scope.reserve(nodes);
        self.shape.reserve(nodes);
        self.tag.reserve(nodes);
        self.payload.reserve(nodes);
        self.time.reserve(nodes);
        self.status.reserve(nodes);
    }

    /// Adds a node; `self_ref` is its number in the whole space. The id is the caller's to push.
    pub(super) fn push(
        &mut self,
        self_ref: NodeRef,
        parent: NodeRef,
        name: &str,
        scope: ScopeIndex,
        shape: Shape,
    ) -> Result<(), SpaceError> {
        let len = u8::try_from(name.len()).ok().filter(|len| *len > 0).ok_or(SpaceError::Name(name.len()))?;
        let place = u32::try_from(self.names.len()).map_err(|_| SpaceError::Full)?;
        let shape = self.intern(shape)?;
        self.names.push(len);
        self.names.extend_from_slice(name.as_bytes());
        self.name.push(place);
        self.parent.push(parent.0);
        self.scope.push(scope.0);
        self.shape.push(shape);
        self.tag.push(0);
        self.payload.push(0);
        self.time.push(NO_TIME);
        self.status.push(0);
        if parent != NO_PARENT {
            self.adopt(parent, self_ref);
        }
        Ok(())
    }

    pub(super) fn name(&self, at: u32) -> &str {
        let rest = self.name.get(at as usize).and_then(|place| self.names.get(*place as usize..));
        let Some((len, rest)) = rest.and_then(<[u8]>::split_first) else { return "" };
        rest.get(..usize::from(*len)).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    pub(super) fn parent(&self, at: u32) -> Option<NodeRef> {
        self.parent.get(at as usize).copied().map(NodeRef).filter(|parent| *parent != NO_PARENT)
    }

    pub(super) fn scope(&self, at: u32) -> ScopeIndex {
        self.scope.get(at as usize).map_or(ScopeIndex::NOWHERE, |scope| ScopeIndex(*scope))
    }

    pub(super) fn set_scope(&mut self, at: u32, scope: ScopeIndex) {
        if let Some(place) = self.scope.get_mut(at as usize) {
            *place = scope.0;
        }
    }

    pub(super) fn shape(&self, at: u32) -> Option<&Shape> {
        self.shapes.get(usize::from(*self.shape.get(at as usize)?))
    }

    /// Gives a node another shape.
    pub(super) fn set_shape(&mut self, at: u32, shape: Shape) -> Result<(), SpaceError> {
        let shape = self.intern(shape)?;
        if let Some(place) = self.shape.get_mut(at as usize) {
            *place = shape;
        }
        Ok(())
    }

    /// The value; `Variant::Empty` where there is none.
    pub(super) fn value(&self, at: u32) -> Variant {
        let at = at as usize;
        let (Some(tag), Some(payload)) = (self.tag.get(at), self.payload.get(at)) else { return Variant::Empty };
        match *tag {
            BOXED => match self.boxed.get(*payload as usize) {
                Some(Some(value)) => (**value).clone(),
                _ => Variant::Empty,
            },
            tag => unpack(tag, *payload),
        }
    }

    pub(super) fn set_value(&mut self, at: u32, value: Variant) {
        let index = at as usize;
        let (Some(tag), Some(payload)) = (self.tag.get_mut(index), self.payload.get_mut(index)) else { return };
        let old = (*tag == BOXED).then_some(*payload as usize);
        if let Some((new_tag, new_payload)) = pack(&value) {
            (*tag, *payload) = (new_tag, new_payload);
            if let Some(slot) = old.and_then(|old| self.boxed.get_mut(old)) {
                *slot = None;
                self.free.extend(old.and_then(|old| u32::try_from(old).ok()));
            }
            return;
        }
        let slot = old.or_else(|| self.free.pop().map(|free| free as usize)).unwrap_or(self.boxed.len());
        (*tag, *payload) = (BOXED, slot as u64);
        match self.boxed.get_mut(slot) {
            Some(place) => *place = Some(Box::new(value)),
            None => self.boxed.push(Some(Box::new(value))),
        }
    }

    pub(super) fn time(&self, at: u32) -> Option<DateTime> {
        self.ticks(at).map(DateTime::from)
    }

    /// The time as it is kept: 100-nanosecond intervals since 1601.
    pub(super) fn ticks(&self, at: u32) -> Option<i64> {
        self.time.get(at as usize).copied().filter(|time| *time != NO_TIME)
    }

    pub(super) fn set_time(&mut self, at: u32, time: Option<&DateTime>) {
        if let Some(place) = self.time.get_mut(at as usize) {
            *place = time.map_or(NO_TIME, DateTime::ticks);
        }
    }

    pub(super) fn status(&self, at: u32) -> StatusCode {
        StatusCode::from(self.status.get(at as usize).copied().unwrap_or_default())
    }

    pub(super) fn set_status(&mut self, at: u32, status: StatusCode) {
        if let Some(place) = self.status.get_mut(at as usize) {
            *place = status.bits();
        }
    }

    /// The first run of a parent's children, as a position plus one; 0 is none.
    pub(super) fn first_run(&self, parent: NodeRef) -> u32 {
        self.families.get(&parent.0).map_or(0, |(first, _)| first + 1)
    }

    /// The child at `offset` in a run; or, past its end, where the next run is (0: nowhere).
    pub(super) fn child(&self, run: u32, offset: u32) -> Result<NodeRef, u32> {
        let Some(run) = run.checked_sub(1).and_then(|at| self.runs.get(at as usize)) else { return Err(0) };
        if offset < run.len { Ok(NodeRef(run.first + offset)) } else { Err(run.next) }
    }

    fn adopt(&mut self, parent: NodeRef, child: NodeRef) {
        let new = self.runs.len() as u32;
        let family = self.families.entry(parent.0).or_insert((new, new));
        if let Some(last) = self.runs.get_mut(family.1 as usize) {
            if last.first + last.len == child.0 {
                last.len += 1;
                return;
            }
            last.next = new + 1;
        }
        family.1 = new;
        self.runs.push(Run { first: child.0, len: 1, next: 0 });
    }

    fn intern(&mut self, shape: Shape) -> Result<u16, SpaceError> {
        if let Some(at) = self.shape_at.get(&shape) {
            return Ok(*at);
        }
        let at = u16::try_from(self.shapes.len()).map_err(|_| SpaceError::Full)?;
        self.shapes.push(shape.clone());
        self.shape_at.insert(shape, at);
        Ok(at)
    }
}

/// A scalar that fits 8 bytes, as the number of its built-in type and its bits.
fn pack(value: &Variant) -> Option<(u8, u64)> {
    Some(match value {
        Variant::Empty => (0, 0),
        Variant::Boolean(it) => (1, u64::from(*it)),
        Variant::SByte(it) => (2, i64::from(*it) as u64),
        Variant::Byte(it) => (3, u64::from(*it)),
        Variant::Int16(it) => (4, i64::from(*it) as u64),
        Variant::UInt16(it) => (5, u64::from(*it)),
        Variant::Int32(it) => (6, i64::from(*it) as u64),
        Variant::UInt32(it) => (7, u64::from(*it)),
        Variant::Int64(it) => (8, *it as u64),
        Variant::UInt64(it) => (9, *it),
        Variant::Float(it) => (10, u64::from(it.to_bits())),
        Variant::Double(it) => (11, it.to_bits()),
        Variant::DateTime(it) => (13, it.ticks() as u64),
        Variant::StatusCode(it) => (19, u64::from(it.bits())),
        _ => return None,
    })
}

fn unpack(tag: u8, payload: u64) -> Variant {
    match tag {
        1 => Variant::Boolean(payload != 0),
        2 => Variant::SByte(payload as i8),
        3 => Variant::Byte(payload as u8),
        4 => Variant::Int16(payload as i16),
        5 => Variant::UInt16(payload as u16),
        6 => Variant::Int32(payload as i32),
        7 => Variant::UInt32(payload as u32),
        8 => Variant::Int64(payload as i64),
        9 => Variant::UInt64(payload),
        10 => Variant::Float(f32::from_bits(payload as u32)),
        11 => Variant::Double(f64::from_bits(payload)),
        13 => Variant::DateTime(Box::new(DateTime::from(payload as i64))),
        19 => Variant::StatusCode(StatusCode::from(payload as u32)),
        _ => Variant::Empty,
    }
}
