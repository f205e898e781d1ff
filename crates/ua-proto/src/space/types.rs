//! The plain values that go into the address space and come out of it.

use access_model::{ScopeIndex, UnixTime};
use opcua_types::{
    Argument, BrowseDirection, ByteString, NodeClass, NodeId, QualifiedName, ReferenceDescription, ServerState,
    UserTokenPolicy, Variant,
};

/// A node of one [`super::Space`]: dense, namespace 0 first, then the added nodes in the order they were added.
/// Means nothing to another space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeRef(pub u32);

/// AccessLevel and AccessLevelEx bits (OPC 10000-3 §8.57, §8.58).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccessLevel(pub u32);

impl AccessLevel {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// The current value may be read.
    pub const CURRENT_READ: Self = Self(1);
    /// The current value may be written.
    pub const CURRENT_WRITE: Self = Self(1 << 1);
    /// History may be read.
    pub const HISTORY_READ: Self = Self(1 << 2);
    /// History may be written.
    pub const HISTORY_WRITE: Self = Self(1 << 3);
    /// A write may carry a status other than Good.
    pub const STATUS_WRITE: Self = Self(1 << 5);
    /// A write may carry a source timestamp.
    pub const TIMESTAMP_WRITE: Self = Self(1 << 6);
    /// Readable only.
    pub const READ: Self = Self::CURRENT_READ;
    /// Readable and writable, with status and source timestamp.
    pub const READ_WRITE: Self =
        Self(Self::CURRENT_READ.0 | Self::CURRENT_WRITE.0 | Self::STATUS_WRITE.0 | Self::TIMESTAMP_WRITE.0);

    /// Whether every bit of `other` is set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// One reference, seen from the node that was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    /// The reference type.
    pub type_: NodeRef,
    /// Whether the asked node is its source.
    pub forward: bool,
    /// The node at the other end.
    pub target: NodeRef,
}

/// What a space is made of at its start.
#[derive(Clone, Debug, Default)]
pub struct SpaceConfig {
    /// The server's ApplicationUri: becomes namespace 1 and the only entry of ServerArray.
    pub application_uri: String,
    /// Namespaces 2 and up.
    pub namespaces: Vec<String>,
}

/// Why a node could not be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpaceError {
    /// The id is taken.
    #[error("node id `{0}` is already in use")]
    Taken(NodeId),
    /// Namespace 0 belongs to the standard, and an unknown namespace to nobody.
    #[error("namespace {0} takes no nodes here")]
    Namespace(u16),
    /// A node that does not exist.
    #[error("there is no node {0:?}")]
    NoNode(NodeRef),
    /// The value does not fit the data type or the rank.
    #[error("the value does not fit data type {0:?} and rank {1}")]
    Value(NodeRef, i32),
    /// The name is empty or longer than 255 bytes.
    #[error("a name takes 1 to 255 bytes, this one has {0}")]
    Name(usize),
    /// Only variables that were added have a history.
    #[error("{0:?} is not a variable that can have a history")]
    NoHistory(NodeRef),
    /// The space cannot number another node, name or shape.
    #[error("the address space is full")]
    Full,
}

/// A variable to add. [`NewVariable::new`] fills what is usual.
#[derive(Clone, Debug)]
pub struct NewVariable<'a> {
    /// The node's id; `None` takes the next free number of namespace 1.
    pub id: Option<NodeId>,
    /// The node it hangs under.
    pub parent: NodeRef,
    /// How it hangs there; HasComponent unless changed.
    pub reference: NodeRef,
    /// The browse name, also the display name; in the namespace of the id unless `name_namespace` says otherwise.
    pub name: &'a str,
    /// The browse name's namespace.
    pub name_namespace: Option<u16>,
    /// The first value; its built-in type gives the data type and its shape the rank where those are `None`.
    pub value: Variant,
    /// The data type.
    pub data_type: Option<NodeRef>,
    /// ValueRank (OPC 10000-3 §5.6.2).
    pub value_rank: Option<i32>,
    /// ArrayDimensions; empty for none.
    pub array_dimensions: Vec<u32>,
    /// The variable type; BaseDataVariableType unless changed.
    pub type_definition: NodeRef,
    /// What the variable itself allows, whoever asks.
    pub access: AccessLevel,
    /// The scope it lies in.
    pub scope: ScopeIndex,
}

/// An object, object type, variable type, data type, reference type or method to add.
#[derive(Clone, Debug)]
pub struct NewNode<'a> {
    /// The node's id; `None` takes the next free number of namespace 1.
    pub id: Option<NodeId>,
    /// Its class; not `Variable` and not `View`.
    pub class: NodeClass,
    /// The node it hangs under.
    pub parent: NodeRef,
    /// How it hangs there.
    pub reference: NodeRef,
    /// The browse name, also the display name.
    pub name: &'a str,
    /// The browse name's namespace; the id's unless given.
    pub name_namespace: Option<u16>,
    /// The type it is an instance of, for objects.
    pub type_definition: Option<NodeRef>,
    /// Whether a type is abstract.
    pub is_abstract: bool,
    /// EventNotifier bits of an object.
    pub event_notifier: u8,
    /// The scope it lies in.
    pub scope: ScopeIndex,
}

/// A method to add, with its argument properties.
#[derive(Clone, Debug)]
pub struct NewMethod<'a> {
    /// The node's id; `None` takes the next free number of namespace 1.
    pub id: Option<NodeId>,
    /// Ids of the InputArguments and OutputArguments properties; `None` as above.
    pub argument_ids: [Option<NodeId>; 2],
    /// The object or object type it is a component of.
    pub parent: NodeRef,
    /// The browse name.
    pub name: &'a str,
    /// The browse name's namespace; the id's unless given.
    pub name_namespace: Option<u16>,
    /// What it takes; no property when empty.
    pub inputs: Vec<Argument>,
    /// What it gives; no property when empty.
    pub outputs: Vec<Argument>,
    /// The scope it lies in, together with its properties.
    pub scope: ScopeIndex,
}

/// What [`super::Space::browse`] looks for. Plain data: kept in a continuation point as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrowseSpec {
    /// Where it starts.
    pub node: NodeRef,
    /// Which way.
    pub direction: BrowseDirection,
    /// Only references of this type; `None` follows all.
    pub reference_type: Option<NodeRef>,
    /// Also of its subtypes.
    pub include_subtypes: bool,
    /// Classes of targets to return; 0 returns all.
    pub node_class_mask: u32,
    /// Fields to fill (OPC 10000-4 §5.9.2).
    pub result_mask: u32,
    pub(super) resume: super::references::Cursor,
}

/// One answer to a browse.
#[derive(Clone, Debug, Default)]
pub struct BrowsePage {
    /// The references.
    pub references: Vec<ReferenceDescription>,
    /// How to go on; `None` when nothing is left.
    pub rest: Option<BrowseSpec>,
}

/// Which nodes changed their value since [`super::Space::take_changes`] was called last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// In the order of the changes; a node written twice in a row is listed once.
    pub nodes: Vec<NodeRef>,
    /// More changed than fit: treat every node as changed.
    pub overflow: bool,
}

/// Limits the server keeps, as the OperationLimits and ServerCapabilities objects publish them. 0 is "no limit".
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "each field is the property of the same name, OPC 10000-5 §6.3.2 and §6.3.11")]
pub struct Limits {
    pub max_nodes_per_read: u32,
    pub max_nodes_per_write: u32,
    pub max_nodes_per_method_call: u32,
    pub max_nodes_per_browse: u32,
    pub max_nodes_per_register_nodes: u32,
    pub max_nodes_per_translate: u32,
    pub max_monitored_items_per_call: u32,
    pub max_nodes_per_history_read_data: u32,
    pub max_nodes_per_history_read_events: u32,
    pub max_nodes_per_history_update_data: u32,
    pub max_history_continuation_points: u16,
    pub max_return_data_values: u32,
    pub max_array_length: u32,
    pub max_string_length: u32,
    pub max_byte_string_length: u32,
    pub max_browse_continuation_points: u16,
    pub max_sessions: u32,
    pub max_subscriptions: u32,
    pub max_monitored_items: u32,
    pub max_subscriptions_per_session: u32,
    pub max_monitored_items_per_subscription: u32,
    pub max_monitored_items_queue_size: u32,
    /// Milliseconds.
    pub min_sample_rate: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_nodes_per_read: 1_000,
            max_nodes_per_write: 1_000,
            max_nodes_per_method_call: 100,
            max_nodes_per_browse: 1_000,
            max_nodes_per_register_nodes: 1_000,
            max_nodes_per_translate: 1_000,
            max_monitored_items_per_call: 1_000,
            max_nodes_per_history_read_data: 100,
            max_nodes_per_history_read_events: 10,
            max_nodes_per_history_update_data: 100,
            max_history_continuation_points: 16,
            max_return_data_values: 10_000,
            max_array_length: 65_535,
            max_string_length: 1 << 20,
            max_byte_string_length: 1 << 20,
            max_browse_continuation_points: 16,
            max_sessions: 100,
            max_subscriptions: 1_000,
            max_monitored_items: 100_000,
            max_subscriptions_per_session: 100,
            max_monitored_items_per_subscription: 10_000,
            max_monitored_items_queue_size: 1_000,
            min_sample_rate: 10.0,
        }
    }
}

/// What the Server object tells about the running server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerFacts {
    /// BuildInfo.ProductUri.
    pub product_uri: String,
    /// BuildInfo.ManufacturerName.
    pub manufacturer: String,
    /// BuildInfo.ProductName.
    pub product: String,
    /// BuildInfo.SoftwareVersion.
    pub version: String,
    /// BuildInfo.BuildNumber.
    pub build_number: String,
    /// BuildInfo.BuildDate.
    pub build_date: UnixTime,
    /// ServerStatus.StartTime.
    pub started: UnixTime,
    /// ServerStatus.State.
    pub state: ServerState,
    /// Seconds until shutdown, and why.
    pub shutdown: Option<(u32, String)>,
    /// ServiceLevel: 255 is healthy.
    pub service_level: u8,
    /// Whether audit events are generated.
    pub auditing: bool,
    /// ServerProfileArray; a server fills it in by how it is set up.
    pub profiles: Vec<String>,
    /// LocaleIdArray; likewise.
    pub locales: Vec<String>,
    /// The limits it keeps.
    pub limits: Limits,
    /// DefaultRolePermissions of the added namespaces: role and permission bits. Empty is "no role may do anything",
    /// which is true of a server whose rights come from tokens.
    pub default_role_permissions: Vec<(NodeId, u32)>,
}

/// What the nodes of an authorization service (OPC 10000-12 §9) tell.
#[derive(Clone, Debug)]
pub struct AuthorizationService<'a> {
    /// The service's browse name under AuthorizationServices.
    pub name: &'a str,
    /// ServiceUri.
    pub uri: &'a str,
    /// ServiceCertificate: verifies the token signatures; DER, a chain has the leaf first.
    pub certificate: ByteString,
    /// UserTokenPolicies.
    pub policies: Vec<UserTokenPolicy>,
    /// Whether the deprecated RequestAccessToken is offered.
    pub request_access_token: bool,
    /// The scope of the service object, its properties and its methods.
    pub scope: ScopeIndex,
}

/// Nodes of an authorization service that the server and the authority look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthorizationNodes {
    /// The GDS namespace's index.
    pub namespace: u16,
    /// The AuthorizationServices folder.
    pub folder: NodeRef,
    /// The service object.
    pub service: NodeRef,
    /// Its property ServiceCertificate: another value whenever another key signs.
    pub service_certificate: NodeRef,
    /// Method GetServiceDescription.
    pub get_service_description: NodeRef,
    /// Method StartRequestToken.
    pub start_request_token: NodeRef,
    /// Method FinishRequestToken.
    pub finish_request_token: NodeRef,
    /// Method RefreshToken.
    pub refresh_token: NodeRef,
    /// Method RequestAccessToken, if offered.
    pub request_access_token: Option<NodeRef>,
}

/// A browse name to look for: see [`super::Space::child`].
pub(super) fn same_name(name: &QualifiedName, namespace: u16, text: &str) -> bool {
    name.namespace_index == namespace && name.name.as_ref() == text
}
