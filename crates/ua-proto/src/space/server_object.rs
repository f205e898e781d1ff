//! What the Server object and the namespace metadata answer: values that the table of namespace 0 cannot know.

use access_model::{ScopeIndex, UnixTime};
use opcua_types::{
    Array, BuildInfo, ExtensionObject, LocalizedText, NodeId, PermissionType, RolePermissionType, ServerState,
    ServerStatusDataType, Variant, VariantScalarTypeId,
};

use super::grow::structures;
use crate::history::EventLog;

use super::{Limits, NewVariable, NodeRef, ServerFacts, Space, SpaceError, date_time, ns0};

/// DefaultRolePermissions and DefaultAccessRestrictions of namespace 0.
const DEFAULT_ROLE_PERMISSIONS: u32 = 16134;
const DEFAULT_USER_ROLE_PERMISSIONS: u32 = 16135;
const DEFAULT_ACCESS_RESTRICTIONS: u32 = 16136;
/// The role that every session has.
const ANONYMOUS: u32 = 15644;
/// Browse, Read and ReceiveEvents.
const PUBLIC_RIGHTS: u32 = 1 | 1 << 5 | 1 << 11;

impl Default for ServerFacts {
    fn default() -> Self {
        Self {
            product_uri: "urn:trapkey".into(),
            manufacturer: "Trapkey".into(),
            product: "Trapkey".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            build_number: String::new(),
            build_date: UnixTime::default(),
            started: UnixTime::default(),
            state: ServerState::Running,
            shutdown: None,
            service_level: 255,
            auditing: false,
            profiles: Vec::new(),
            locales: Vec::new(),
            limits: Limits::default(),
            default_role_permissions: Vec::new(),
        }
    }
}

impl Space {
    /// Gives the Server object what it tells.
    pub fn set_server_facts(&mut self, facts: ServerFacts) {
        let defaults = permissions(&facts.default_role_permissions);
        for at in self.default_permissions.clone().into_iter().filter_map(Self::added_at) {
            self.added.set_value(at, defaults.clone());
        }
        self.facts = Some(facts);
    }

    /// What the Server object tells.
    #[must_use]
    pub fn server_facts(&self) -> Option<&ServerFacts> {
        self.facts.as_ref()
    }

    /// The same, to change the state or the service level.
    pub fn server_facts_mut(&mut self) -> Option<&mut ServerFacts> {
        self.facts.as_mut()
    }

    /// A value of namespace 0 that depends on this server and on the time.
    pub(super) fn server_value(&self, node: NodeRef, now: UnixTime) -> Option<Variant> {
        let id = ns0::numeric(node);
        match id {
            2254 => Some(strings(self.namespaces.get(1..2).unwrap_or_default())),
            2255 => Some(strings(&self.namespaces)),
            DEFAULT_ROLE_PERMISSIONS | DEFAULT_USER_ROLE_PERMISSIONS => {
                Some(permissions(&[(NodeId::new(0, ANONYMOUS), PUBLIC_RIGHTS)]))
            }
            DEFAULT_ACCESS_RESTRICTIONS => Some(Variant::UInt16(0)),
            // HistoryServerCapabilities: values are kept, and can be changed where their variable says so.
            11193 | 11196..=11200 => Some(Variant::Boolean(self.has_history())),
            // Events are kept, and can be written and deleted where their notifier says so.
            11242 => Some(Variant::Boolean(self.keeps_events())),
            11281..=11283 | 11502 => Some(Variant::Boolean(self.event_history.values().any(EventLog::is_writable))),
            11275 => Some(Variant::Boolean(false)),
            19091 => Some(Variant::Boolean(true)),
            _ => {
                let facts = self.facts.as_ref()?;
                status_value(facts, id, now).or_else(|| capability(&facts.limits, id)).or_else(|| plain(facts, id))
            }
        }
    }

    /// The NamespaceMetadata object of an added namespace (OPC 10000-5 §6.3.14).
    pub(super) fn add_metadata(&mut self, uri: &str) -> Result<(), SpaceError> {
        let scope = ScopeIndex::PUBLIC;
        let object = self.add_object(ns0::NAMESPACES, None, uri, ns0::NAMESPACE_METADATA_TYPE, scope)?;
        let defaults = self.facts.as_ref().map_or_else(Vec::new, |facts| facts.default_role_permissions.clone());
        let restrictions = self.restrictions.default;
        let mut property = |name, value: Variant, data_type: u32| {
            let data_type = ns0::find_numeric(data_type);
            let new = NewVariable::property(object, None, name, value, scope);
            self.add_variable(NewVariable { name_namespace: Some(0), data_type, ..new })
        };
        property("NamespaceUri", Variant::String(uri.into()), 12)?;
        property("NamespaceVersion", Variant::String("".into()), 12)?;
        property("NamespacePublicationDate", Variant::DateTime(Box::new(date_time(UnixTime::default()))), 13)?;
        property("IsNamespaceSubset", Variant::Boolean(false), 1)?;
        property("StaticNodeIdTypes", empty(VariantScalarTypeId::Int32), 256)?;
        property("StaticNumericNodeIdRange", empty(VariantScalarTypeId::String), 291)?;
        property("StaticStringNodeIdPattern", Variant::String("".into()), 12)?;
        let restrictions = Variant::UInt16(restrictions.bits());
        let restrictions = property("DefaultAccessRestrictions", restrictions, 95)?;
        let defaults = property("DefaultRolePermissions", permissions(&defaults), 96)?;
        self.default_permissions.push(defaults);
        self.default_restrictions.push(restrictions);
        Ok(())
    }
}

fn status_value(facts: &ServerFacts, id: u32, now: UnixTime) -> Option<Variant> {
    let build = || BuildInfo {
        product_uri: facts.product_uri.as_str().into(),
        manufacturer_name: facts.manufacturer.as_str().into(),
        product_name: facts.product.as_str().into(),
        software_version: facts.version.as_str().into(),
        build_number: facts.build_number.as_str().into(),
        build_date: date_time(facts.build_date),
    };
    let (seconds, reason) = match &facts.shutdown {
        Some((seconds, reason)) => (*seconds, LocalizedText::new("", reason)),
        None => (0, LocalizedText::null()),
    };
    Some(match id {
        2256 => structure(ServerStatusDataType {
            start_time: date_time(facts.started),
            current_time: date_time(now),
            state: facts.state,
            build_info: build(),
            seconds_till_shutdown: seconds,
            shutdown_reason: reason,
        }),
        2257 => Variant::DateTime(Box::new(date_time(facts.started))),
        2258 => Variant::DateTime(Box::new(date_time(now))),
        2259 => Variant::Int32(facts.state as i32),
        2260 => structure(build()),
        2261 => Variant::String(facts.product.as_str().into()),
        2262 => Variant::String(facts.product_uri.as_str().into()),
        2263 => Variant::String(facts.manufacturer.as_str().into()),
        2264 => Variant::String(facts.version.as_str().into()),
        2265 => Variant::String(facts.build_number.as_str().into()),
        2266 => Variant::DateTime(Box::new(date_time(facts.build_date))),
        2992 => Variant::UInt32(seconds),
        2993 => reason.into(),
        _ => return None,
    })
}

/// ServerCapabilities and OperationLimits. What this server does not offer has the limit 0 where the standard reads
/// it as "none at all".
fn capability(limits: &Limits, id: u32) -> Option<Variant> {
    Some(match id {
        2272 => Variant::Double(limits.min_sample_rate),
        2735 => Variant::UInt16(limits.max_browse_continuation_points),
        2736 => Variant::UInt16(0),
        2737 => Variant::UInt16(limits.max_history_continuation_points),
        11273 => Variant::UInt32(limits.max_return_data_values),
        11274 => Variant::UInt32(limits.max_return_data_values),
        3704 => empty(VariantScalarTypeId::ExtensionObject),
        11702 => Variant::UInt32(limits.max_array_length),
        11703 => Variant::UInt32(limits.max_string_length),
        12911 => Variant::UInt32(limits.max_byte_string_length),
        24095 => Variant::UInt32(limits.max_sessions),
        24096 => Variant::UInt32(limits.max_subscriptions),
        24097 => Variant::UInt32(limits.max_monitored_items),
        24098 => Variant::UInt32(limits.max_subscriptions_per_session),
        24104 => Variant::UInt32(limits.max_monitored_items_per_subscription),
        31916 => Variant::UInt32(limits.max_monitored_items_queue_size),
        11705 => Variant::UInt32(limits.max_nodes_per_read),
        11707 => Variant::UInt32(limits.max_nodes_per_write),
        11709 => Variant::UInt32(limits.max_nodes_per_method_call),
        11710 => Variant::UInt32(limits.max_nodes_per_browse),
        11711 => Variant::UInt32(limits.max_nodes_per_register_nodes),
        11712 => Variant::UInt32(limits.max_nodes_per_translate),
        12165 => Variant::UInt32(limits.max_nodes_per_history_read_data),
        12166 => Variant::UInt32(limits.max_nodes_per_history_read_events),
        12167 | 12168 => Variant::UInt32(limits.max_nodes_per_history_update_data),
        11713 | 24099 | 24100 => Variant::UInt32(0),
        11714 => Variant::UInt32(limits.max_monitored_items_per_call),
        _ => return None,
    })
}

fn plain(facts: &ServerFacts, id: u32) -> Option<Variant> {
    Some(match id {
        2267 => Variant::Byte(facts.service_level),
        2269 => strings(&facts.profiles),
        2271 => strings(&facts.locales),
        2294 => Variant::Boolean(false),
        2994 => Variant::Boolean(facts.auditing),
        3709 => Variant::Int32(0),
        24101 => empty(VariantScalarTypeId::QualifiedName),
        _ => return None,
    })
}

fn structure<T: opcua_types::DynEncodable>(body: T) -> Variant {
    Variant::ExtensionObject(ExtensionObject::from_message(body))
}

fn strings(texts: &[String]) -> Variant {
    let values = texts.iter().map(|text| Variant::String(text.as_str().into())).collect();
    Variant::Array(Box::new(Array { value_type: VariantScalarTypeId::String, values, dimensions: None }))
}

fn empty(value_type: VariantScalarTypeId) -> Variant {
    Variant::Array(Box::new(Array { value_type, values: Vec::new(), dimensions: None }))
}

fn permissions(of_roles: &[(NodeId, u32)]) -> Variant {
    let one = |(role, bits): &(NodeId, u32)| RolePermissionType {
        role_id: role.clone(),
        permissions: PermissionType::from_bits_truncate(bits.cast_signed()),
    };
    structures(of_roles.iter().map(one).collect())
}
