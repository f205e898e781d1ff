//! Turns the nodes of namespace 0, as the registry crate `async-opcua-core-namespace` holds them, into one binary
//! table and the constants that say where its parts lie. `src/space/ns0.rs` reads both; nothing is parsed at run time.
//!
//! Three things differ from the source on purpose: every reference is listed at both of its ends, structure
//! definitions name the fields of their ancestors too (OPC 10000-3 §8.48 wants all fields), and nodes that
//! administer a server or report on its sessions carry a flag that keeps them out of every scope.

#![expect(clippy::disallowed_methods, reason = "a build script writes files")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use opcua_core_namespace::CoreNamespace;
use opcua_nodes::{ImportedItem, NodeSetImport, NodeType};
use opcua_types::{
    BinaryEncodable, ContextOwned, DataTypeDefinition, Identifier, NamespaceMap, NodeId, NodeSetNamespaceMapper,
    StructureField, Variant,
};

/// "No node" in a 16-bit column.
const NONE: u16 = u16::MAX;

const HAS_SUBTYPE: u32 = 45;
const HAS_TYPE_DEFINITION: u32 = 40;
/// Organizes, HasProperty, HasComponent, HasOrderedComponent: what a subtree of instances hangs together by.
const DOWN: [u32; 4] = [35, 46, 47, 49];

/// Roots of subtrees that no session sees unless the application puts them into a scope: server and session
/// diagnostics, server configuration, publish-subscribe, user and alias management, optional parts of the Server
/// object that this server does not serve, and its methods.
const HIDDEN: [u32; 23] = [
    2275, 2289, 2290, 3706, 12637, 14443, 18155, 24290, 23470, 11492, 12873, 12749, 12886, 11312, 11313, 11314, 14415,
    12885, 15004, 17634, 24226, 32637, 32754,
];
/// Nodes that the code of this crate names: constant and id.
const KNOWN: [(&str, u32); 36] = [
    ("REFERENCES_TYPE", 31),
    ("HIERARCHICAL_REFERENCES", 33),
    ("ORGANIZES", 35),
    ("HAS_TYPE_DEFINITION", 40),
    ("HAS_SUBTYPE", 45),
    ("HAS_PROPERTY", 46),
    ("HAS_COMPONENT", 47),
    ("HAS_ORDERED_COMPONENT", 49),
    ("HAS_EVENT_SOURCE", 36),
    ("HAS_NOTIFIER", 48),
    ("BASE_EVENT_TYPE", 2041),
    ("AUDIT_EVENT_TYPE", 2052),
    ("EVENT_FILTER", 725),
    ("EVENT_QUEUE_OVERFLOW_EVENT_TYPE", 3035),
    ("BASE_DATA_TYPE", 24),
    ("STRUCTURE", 22),
    ("ENUMERATION", 29),
    ("BYTE", 3),
    ("INT32", 6),
    ("BASE_OBJECT_TYPE", 58),
    ("FOLDER_TYPE", 61),
    ("BASE_DATA_VARIABLE_TYPE", 63),
    ("PROPERTY_TYPE", 68),
    ("NAMESPACE_METADATA_TYPE", 11616),
    ("ROOT", 84),
    ("OBJECTS", 85),
    ("TYPES", 86),
    ("VIEWS", 87),
    ("SERVER", 2253),
    ("NAMESPACE_ARRAY", 2255),
    ("SERVER_STATUS", 2256),
    ("SERVER_STATUS_STATE", 2259),
    ("SERVICE_LEVEL", 2267),
    ("NAMESPACES", 11715),
    ("ARGUMENT", 296),
    ("USER_TOKEN_POLICY", 304),
];
/// RoleSet, whose roles are shown and whose methods and role properties are not (OPC 10000-18 §4.2.2).
const ROLE_SET: u32 = 15606;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let items = import();
    let table = Table::new(&items).write();
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(Path::new(&out).join("ns0.bin"), &table.bytes).expect("the table can be written");
    std::fs::write(Path::new(&out).join("ns0_layout.rs"), &table.layout).expect("the layout can be written");
}

/// The nodes of namespace 0 by numeric id.
fn import() -> BTreeMap<u32, ImportedItem> {
    let mut namespaces = NamespaceMap::new();
    let mut mapper = NodeSetNamespaceMapper::new(&mut namespaces);
    CoreNamespace.register_namespaces(&mut mapper);
    let items: BTreeMap<u32, ImportedItem> =
        CoreNamespace.load(&mapper).map(|item| (numeric(item.node.as_node().node_id()), item)).collect();
    assert!(items.len() < usize::from(NONE), "16 bits number the nodes");
    items
}

fn numeric(id: &NodeId) -> u32 {
    match (id.namespace, &id.identifier) {
        (0, Identifier::Numeric(number)) => *number,
        _ => panic!("{id} is not a number in namespace 0"),
    }
}

/// A reference in forward direction: source, type, target.
type Triple = (u32, u32, u32);

struct Table<'a> {
    items: &'a BTreeMap<u32, ImportedItem>,
    /// Position of an id.
    position: BTreeMap<u32, u16>,
    references: BTreeSet<Triple>,
    supertype: BTreeMap<u32, u32>,
    hidden: BTreeSet<u32>,
}

struct Written {
    bytes: Vec<u8>,
    layout: String,
}

impl<'a> Table<'a> {
    fn new(items: &'a BTreeMap<u32, ImportedItem>) -> Self {
        let position = items.keys().copied().zip(0_u16..).collect();
        let references = references(items);
        let supertype =
            references.iter().filter(|(_, by, _)| *by == HAS_SUBTYPE).map(|(from, _, to)| (*to, *from)).collect();
        let hidden = hidden(items, &references);
        Self { items, position, references, supertype, hidden }
    }

    fn at(&self, id: u32) -> u16 {
        *self.position.get(&id).unwrap_or_else(|| panic!("i={id} is referenced and missing"))
    }

    fn write(&self) -> Written {
        let mut strings = Strings::new();
        let mut blobs = Blobs::new();
        let palette: Vec<u32> =
            self.references.iter().map(|(_, by, _)| *by).collect::<BTreeSet<_>>().into_iter().collect();
        assert!(palette.len() < 128, "7 bits number the reference types in use");
        let ends = self.ends(&palette);
        let (mut ids, mut records, mut packed) = (Vec::new(), Vec::new(), Vec::new());
        for (id, item) in self.items {
            ids.extend_from_slice(&id.to_le_bytes());
            let first = u32::try_from(packed.len() / 4).expect("references are few");
            for end in ends.get(id).into_iter().flatten() {
                packed.extend_from_slice(&end.to_le_bytes());
            }
            self.record(*id, item, first, &mut strings, &mut blobs, &mut records);
        }
        let mut sentinel = vec![0_u8; RECORD];
        sentinel[16..20].copy_from_slice(&u32::try_from(packed.len() / 4).expect("few").to_le_bytes());
        records.extend_from_slice(&sentinel);
        let palette: Vec<u8> = palette.iter().flat_map(|id| self.at(*id).to_le_bytes()).collect();
        let mut written = lay_out(
            self.items.len(),
            &[
                ("IDS", &ids),
                ("RECORDS", &records),
                ("REFERENCES", &packed),
                ("PALETTE", &palette),
                ("STRINGS", &strings.bytes),
                ("BLOBS", &blobs.bytes),
            ],
        );
        for (name, id) in KNOWN {
            let place = self.at(id);
            writeln!(written.layout, "/// `i={id}`.\npub const {name}: NodeRef = NodeRef({place});").expect("a string");
        }
        written
    }

    /// Per node: its references, forward ones first, each as target (16 bits), type in the palette (7), direction (1).
    fn ends(&self, palette: &[u32]) -> BTreeMap<u32, BTreeSet<u32>> {
        let mut ends: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for (from, by, to) in &self.references {
            let kind = u32::try_from(palette.binary_search(by).expect("every type is in it")).expect("few") << 16;
            ends.entry(*from).or_default().insert(u32::from(self.at(*to)) | kind);
            ends.entry(*to).or_default().insert(u32::from(self.at(*from)) | kind | 1 << 31);
        }
        ends
    }

    /// One record; `src/space/ns0.rs` names the offsets.
    fn record(
        &self,
        id: u32,
        item: &ImportedItem,
        first: u32,
        strings: &mut Strings,
        blobs: &mut Blobs,
        out: &mut Vec<u8>,
    ) {
        let node = item.node.as_node();
        assert_eq!(node.browse_name().namespace_index, 0, "names of namespace 0 lie in namespace 0");
        let facts = self.facts(id, &item.node);
        let value = match &item.node {
            NodeType::ReferenceType(kind) => kind.inverse_name().map_or(0, |name| strings.place(name.text.as_ref())),
            _ => facts.value.as_ref().map_or(0, |value| blobs.place_value(value)),
        };
        let words = [
            strings.place(node.browse_name().name.as_ref()),
            strings.place(node.display_name().text.as_ref()),
            node.description().map_or(0, |text| strings.place(text.text.as_ref())),
            value,
            first,
            facts.dimensions.map_or(0, |dimensions| blobs.place_dimensions(&dimensions)),
        ];
        let type_definition = self.targets(id, HAS_TYPE_DEFINITION).next();
        let halves = [
            facts.data_type.map_or(NONE, |id| self.at(id)),
            self.supertype.get(&id).map_or(NONE, |id| self.at(*id)),
            type_definition.map_or(NONE, |id| self.at(id)),
        ];
        let mut flags = facts.flags;
        if self.hidden.contains(&id) {
            flags |= 1 << 7;
        }
        let class = u8::try_from(node.node_class() as i32).expect("a class fits a byte");
        let before = out.len();
        words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        halves.iter().for_each(|half| out.extend_from_slice(&half.to_le_bytes()));
        out.extend_from_slice(&[class, flags, facts.access, facts.rank.to_le_bytes()[0], 0, 0]);
        assert_eq!(out.len() - before, RECORD);
    }

    fn targets(&self, from: u32, by: u32) -> impl Iterator<Item = u32> {
        self.references.range((from, by, 0)..=(from, by, u32::MAX)).map(|(_, _, to)| *to)
    }

    fn facts(&self, id: u32, node: &NodeType) -> Facts {
        match node {
            NodeType::Variable(it) => Facts {
                data_type: data_type(&it.data_type()),
                rank: rank(it.value_rank()),
                access: it.access_level().bits(),
                dimensions: it.array_dimensions(),
                value: it
                    .value(
                        opcua_types::TimestampsToReturn::Neither,
                        &opcua_types::NumericRange::None,
                        &Default::default(),
                        0.0,
                    )
                    .value
                    .filter(|value| *value != Variant::Empty),
                flags: u8::from(it.historizing()) << 3,
            },
            NodeType::VariableType(it) => Facts {
                data_type: data_type(it.data_type()),
                rank: rank(it.value_rank()),
                dimensions: it.array_dimensions(),
                value: it.value().and_then(|value| value.value.clone()).filter(|value| *value != Variant::Empty),
                flags: u8::from(it.is_abstract()),
                ..Facts::default()
            },
            NodeType::Object(it) => Facts { access: it.event_notifier().bits(), ..Facts::default() },
            NodeType::ObjectType(it) => Facts { flags: u8::from(it.is_abstract()), ..Facts::default() },
            NodeType::ReferenceType(it) => {
                Facts { flags: u8::from(it.is_abstract()) | u8::from(it.symmetric()) << 1, ..Facts::default() }
            }
            NodeType::DataType(it) => Facts {
                value: it.data_type_definition().map(|own| self.whole(id, own)),
                flags: u8::from(it.is_abstract()),
                ..Facts::default()
            },
            NodeType::Method(it) => Facts { flags: u8::from(it.executable()) << 2, ..Facts::default() },
            NodeType::View(it) => Facts { access: it.event_notifier().bits(), ..Facts::default() },
        }
    }

    /// The definition with the fields of all ancestors in front, and the base data type named.
    fn whole(&self, id: u32, own: &DataTypeDefinition) -> Variant {
        match own {
            DataTypeDefinition::Enum(it) => it.clone().into(),
            DataTypeDefinition::Structure(it) => {
                let mut whole = it.clone();
                whole.fields = Some(self.fields(id));
                if whole.base_data_type.is_null() {
                    whole.base_data_type = self.supertype.get(&id).map_or(NodeId::null(), |base| NodeId::new(0, *base));
                }
                whole.into()
            }
        }
    }

    fn fields(&self, id: u32) -> Vec<StructureField> {
        let mut fields = self.supertype.get(&id).map(|base| self.fields(*base)).unwrap_or_default();
        if let Some(NodeType::DataType(it)) = self.items.get(&id).map(|item| &item.node)
            && let Some(DataTypeDefinition::Structure(own)) = it.data_type_definition()
        {
            fields.extend(own.fields.iter().flatten().cloned());
        }
        fields
    }
}

/// What only some classes have.
struct Facts {
    data_type: Option<u32>,
    rank: i8,
    access: u8,
    dimensions: Option<Vec<u32>>,
    value: Option<Variant>,
    /// Bits: 0 abstract, 1 symmetric, 2 executable, 3 historizing, 7 hidden.
    flags: u8,
}

impl Default for Facts {
    fn default() -> Self {
        Self { data_type: None, rank: -1, access: 0, dimensions: None, value: None, flags: 0 }
    }
}

fn data_type(id: &NodeId) -> Option<u32> {
    if id.is_null() { None } else { Some(numeric(id)) }
}

fn rank(rank: i32) -> i8 {
    i8::try_from(rank).expect("a rank fits a byte")
}

/// Every reference once, turned forward.
fn references(items: &BTreeMap<u32, ImportedItem>) -> BTreeSet<Triple> {
    let mut all = BTreeSet::new();
    for (id, item) in items {
        for reference in &item.references {
            let (by, other) = (numeric(&reference.type_id), numeric(&reference.target_id));
            all.insert(if reference.is_forward { (*id, by, other) } else { (other, by, *id) });
        }
    }
    all
}

fn hidden(items: &BTreeMap<u32, ImportedItem>, references: &BTreeSet<Triple>) -> BTreeSet<u32> {
    let mut hidden = BTreeSet::new();
    let below = |from: u32| {
        DOWN.into_iter()
            .flat_map(move |by| references.range((from, by, 0)..=(from, by, u32::MAX)).map(|(_, _, to)| *to))
    };
    let is_object = |id: &u32| matches!(items.get(id).map(|item| &item.node), Some(NodeType::Object(_)));
    let mut open: Vec<u32> = HIDDEN.into_iter().filter(|id| items.contains_key(id)).collect();
    for part in below(ROLE_SET) {
        if is_object(&part) { open.extend(below(part)) } else { open.push(part) }
    }
    while let Some(id) = open.pop() {
        if hidden.insert(id) {
            open.extend(below(id));
        }
    }
    hidden
}

/// Bytes of one record.
const RECORD: usize = 36;

struct Strings {
    bytes: Vec<u8>,
    known: BTreeMap<String, u32>,
}

impl Strings {
    /// The empty string lies at 0.
    fn new() -> Self {
        Self { bytes: vec![0, 0], known: BTreeMap::from([(String::new(), 0)]) }
    }

    /// Where the string lies: two bytes of length, then UTF-8.
    fn place(&mut self, text: &str) -> u32 {
        if let Some(at) = self.known.get(text) {
            return *at;
        }
        let at = u32::try_from(self.bytes.len()).expect("the table is small");
        self.bytes.extend_from_slice(&u16::try_from(text.len()).expect("texts are short").to_le_bytes());
        self.bytes.extend_from_slice(text.as_bytes());
        self.known.insert(text.to_owned(), at);
        at
    }
}

struct Blobs {
    bytes: Vec<u8>,
    known: BTreeMap<Vec<u8>, u32>,
}

impl Blobs {
    /// Nothing lies at 0.
    fn new() -> Self {
        Self { bytes: vec![0], known: BTreeMap::new() }
    }

    fn place(&mut self, blob: Vec<u8>) -> u32 {
        if let Some(at) = self.known.get(&blob) {
            return *at;
        }
        let at = u32::try_from(self.bytes.len()).expect("the table is small");
        self.bytes.extend_from_slice(&blob);
        self.known.insert(blob, at);
        at
    }

    fn place_value(&mut self, value: &Variant) -> u32 {
        let context = ContextOwned::default();
        let mut blob = Vec::new();
        value.encode(&mut blob, &context.context()).expect("a value of the standard can be encoded");
        self.place(blob)
    }

    fn place_dimensions(&mut self, dimensions: &[u32]) -> u32 {
        let count = u32::try_from(dimensions.len()).expect("few");
        self.place(std::iter::once(&count).chain(dimensions).flat_map(|word| word.to_le_bytes()).collect())
    }
}

fn lay_out(nodes: usize, parts: &[(&str, &[u8])]) -> Written {
    let mut bytes = Vec::new();
    let mut layout = format!("const NODES: usize = {nodes};\nconst RECORD: usize = {RECORD};\n");
    for (name, part) in parts {
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let (from, to) = (bytes.len(), bytes.len() + part.len());
        writeln!(layout, "const {name}: std::ops::Range<usize> = {from}..{to};").expect("a string takes all");
        bytes.extend_from_slice(part);
    }
    Written { bytes, layout }
}
