//! Namespace 0: a table that `build.rs` made, read in place. Pages that nobody touches cost no memory.

use opcua_types::{BinaryDecodable, Context, ContextOwned, DecodingOptions, NamespaceMap, Variant};

use super::{NodeRef, Reference};

static TABLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ns0.bin"));

include!(concat!(env!("OUT_DIR"), "/ns0_layout.rs"));

/// "No node" in a 16-bit column.
const NONE: u16 = u16::MAX;

// Offsets in a record.
const NAME: usize = 0;
const DISPLAY: usize = 4;
const DESCRIPTION: usize = 8;
const VALUE: usize = 12;
const FIRST_REFERENCE: usize = 16;
const DIMENSIONS: usize = 20;
const DATA_TYPE: usize = 24;
const SUPERTYPE: usize = 26;
const TYPE_DEFINITION: usize = 28;
const CLASS: usize = 30;
const FLAGS: usize = 31;
const ACCESS: usize = 32;
const RANK: usize = 33;

// Bits of FLAGS.
pub(super) const ABSTRACT: u8 = 1;
pub(super) const SYMMETRIC: u8 = 1 << 1;
pub(super) const EXECUTABLE: u8 = 1 << 2;
pub(super) const HISTORIZING: u8 = 1 << 3;
const HIDDEN: u8 = 1 << 7;

/// How many nodes the table has; they are numbered from 0.
pub(super) const COUNT: u32 = NODES as u32;

/// The node `i=<id>` of namespace 0.
#[must_use]
pub fn find_numeric(id: u32) -> Option<NodeRef> {
    let (mut low, mut high) = (0, COUNT);
    while low < high {
        let middle = low + (high - low) / 2;
        match numeric(NodeRef(middle)).cmp(&id) {
            std::cmp::Ordering::Equal => return Some(NodeRef(middle)),
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    None
}

/// The numeric id of a node of the table.
pub(super) fn numeric(node: NodeRef) -> u32 {
    word(IDS.start + node.0 as usize * 4)
}

pub(super) fn name(node: NodeRef) -> &'static str {
    text(field(node, NAME))
}

pub(super) fn display_name(node: NodeRef) -> &'static str {
    text(field(node, DISPLAY))
}

pub(super) fn description(node: NodeRef) -> &'static str {
    text(field(node, DESCRIPTION))
}

/// The inverse name of a reference type.
pub(super) fn inverse_name(node: NodeRef) -> &'static str {
    text(field(node, VALUE))
}

pub(super) fn class(node: NodeRef) -> u8 {
    byte(record(node, CLASS))
}

pub(super) fn flags(node: NodeRef) -> u8 {
    byte(record(node, FLAGS))
}

/// Whether the node stays out of every scope unless the application puts it into one.
pub(crate) fn hidden(node: NodeRef) -> bool {
    flags(node) & HIDDEN != 0
}

/// AccessLevel of a variable, EventNotifier of an object.
pub(super) fn access(node: NodeRef) -> u8 {
    byte(record(node, ACCESS))
}

pub(super) fn rank(node: NodeRef) -> i32 {
    i32::from(i8::from_le_bytes([byte(record(node, RANK))]))
}

pub(super) fn data_type(node: NodeRef) -> Option<NodeRef> {
    node_at(record(node, DATA_TYPE))
}

pub(crate) fn supertype(node: NodeRef) -> Option<NodeRef> {
    node_at(record(node, SUPERTYPE))
}

pub(super) fn type_definition(node: NodeRef) -> Option<NodeRef> {
    node_at(record(node, TYPE_DEFINITION))
}

pub(super) fn dimensions(node: NodeRef) -> Vec<u32> {
    match field(node, DIMENSIONS) {
        0 => Vec::new(),
        at => {
            let at = BLOBS.start + at as usize;
            (1..=word(at) as usize).map(|nth| word(at + nth * 4)).collect()
        }
    }
}

/// What values of the table are decoded with: the type dictionaries of the standard are long, and trusted.
pub(super) fn context() -> ContextOwned {
    let options = DecodingOptions {
        max_array_length: 1 << 16,
        max_string_length: 1 << 20,
        max_byte_string_length: 1 << 20,
        ..DecodingOptions::default()
    };
    ContextOwned::new_default(NamespaceMap::new(), options)
}

/// Whether the table has a value or definition for the node.
#[cfg(test)]
pub(super) fn has_value(node: NodeRef) -> bool {
    class(node) != opcua_types::NodeClass::ReferenceType as u8 && field(node, VALUE) != 0
}

/// The value of a variable or variable type, or the definition of a data type.
pub(super) fn value(node: NodeRef, context: &Context<'_>) -> Option<Variant> {
    let at = field(node, VALUE) as usize;
    let mut bytes = TABLE.get(BLOBS)?.get(at..).filter(|_| at != 0)?;
    Variant::decode(&mut bytes, context).ok()
}

/// The nth reference of a node, forward ones first.
pub(super) fn reference(node: NodeRef, nth: u32) -> Option<Reference> {
    let (first, end) = (field(node, FIRST_REFERENCE), field(NodeRef(node.0 + 1), FIRST_REFERENCE));
    let at = first.checked_add(nth).filter(|at| *at < end)?;
    let packed = word(REFERENCES.start + at as usize * 4);
    let type_ = half(PALETTE.start + ((packed >> 16) & 0x7f) as usize * 2);
    Some(Reference { type_: NodeRef(u32::from(type_)), forward: packed >> 31 == 0, target: NodeRef(packed & 0xffff) })
}

fn record(node: NodeRef, offset: usize) -> usize {
    RECORDS.start + node.0 as usize * RECORD + offset
}

fn field(node: NodeRef, offset: usize) -> u32 {
    word(record(node, offset))
}

fn node_at(at: usize) -> Option<NodeRef> {
    match half(at) {
        NONE => None,
        node => Some(NodeRef(u32::from(node))),
    }
}

fn text(at: u32) -> &'static str {
    let at = STRINGS.start + at as usize;
    let bytes = TABLE.get(at + 2..at + 2 + usize::from(half(at))).unwrap_or_default();
    std::str::from_utf8(bytes).unwrap_or_default()
}

fn byte(at: usize) -> u8 {
    TABLE.get(at).copied().unwrap_or_default()
}

fn half(at: usize) -> u16 {
    TABLE.get(at..).and_then(|rest| rest.first_chunk()).map_or(NONE, |bytes| u16::from_le_bytes(*bytes))
}

fn word(at: usize) -> u32 {
    TABLE.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}
