//! The subscription services. The machine in `subscription` does the work; this file lends it eyes and conscience: what a
//! node is, what its value is now, and whether the session may have it, asked anew for every sample and every delivery.

use access_model::{Action, AuditKind, Rights};
use opcua_types::{
    AttributeId, DataValue, ExtensionObject, NodeClass, QualifiedName, Range, ReadValueId, StatusCode, Variant,
};

use super::attributes::{needed, read_attribute};
use super::read::{check_encoding, no_value};
use crate::event::About;
use crate::server::codec::date_time;
use crate::server::desk::Desk;
use crate::space::{AccessLevel, NodeRef, Space, ns0};
use crate::subscription::{ItemSource, Sample, Target};

/// The bit of EventNotifier that says that events can be subscribed to.
const SUBSCRIBE_TO_EVENTS: u8 = 1;

/// Data types Number, Float, Double.
const NUMBER: u32 = 26;
const FLOAT: u32 = 10;
const DOUBLE: u32 = 11;

impl ItemSource for Desk<'_> {
    fn resolve(&mut self, item: &ReadValueId) -> Result<Target, StatusCode> {
        let node = self.space.find(&item.node_id).ok_or(StatusCode::BadNodeIdUnknown)?;
        // A session never changes the mode it was made in, so what is too weak now stays so.
        self.see(node)?;
        self.pass_channel(node)?;
        let attribute = AttributeId::from_u32(item.attribute_id).map_err(|_| StatusCode::BadAttributeIdInvalid)?;
        let encoding = &item.data_encoding;
        check_encoding((encoding.namespace_index, encoding.name.as_ref()), attribute)?;
        if attribute == AttributeId::EventNotifier {
            let notifier = self.space.event_notifier(node).ok_or(StatusCode::BadAttributeIdInvalid)?;
            if notifier & SUBSCRIBE_TO_EVENTS == 0 {
                return Err(StatusCode::BadNotSupported);
            }
        } else if attribute == AttributeId::Value {
            if self.space.class(node) != NodeClass::Variable {
                return Err(no_value(self, node));
            }
        } else {
            read_attribute(self, node, attribute)?;
        }
        let id = &item.node_id;
        Ok(Target {
            node,
            attribute: item.attribute_id,
            computed: !matches!(attribute, AttributeId::Value | AttributeId::EventNotifier)
                || attribute == AttributeId::Value && id.namespace == 0,
            numeric: self.is_numeric(node),
            range: self.engineering_range(node),
        })
    }

    fn sample(&mut self, node: NodeRef, attribute: u32) -> Sample {
        let Ok(attribute) = AttributeId::from_u32(attribute) else {
            return Sample::Value(status_only(StatusCode::BadAttributeIdInvalid));
        };
        // Over a channel that is too weak, not even what browsing shows is sampled.
        if !self.rights(node).contains(needed(attribute).needed()) || self.too_weak(node) {
            return Sample::Denied;
        }
        if attribute != AttributeId::Value {
            return Sample::Value(match read_attribute(self, node, attribute) {
                Ok(value) => DataValue { server_timestamp: Some(date_time(self.now)), ..DataValue::value_only(value) },
                Err(status) => status_only(status),
            });
        }
        if !self.space.access_level(node).contains(AccessLevel::CURRENT_READ) {
            return Sample::Value(status_only(no_value(self, node)));
        }
        let mut value = self.space.value(node, self.now.unix);
        value.server_timestamp.get_or_insert_with(|| date_time(self.now));
        Sample::Value(value)
    }

    fn deliver(&mut self, node: NodeRef, attribute: u32) -> bool {
        let action = AttributeId::from_u32(attribute).map_or(Action::Read, needed);
        match self.check_delivery(action, node) {
            Ok(()) => true,
            Err(denial) => {
                self.denied(&denial, node, AuditKind::Notify);
                false
            }
        }
    }

    /// ReceiveEvents on the node of the event's type and on its source (OPC 10000-3 §8.55), on the notifier that was
    /// subscribed to, and for an audit event on the scope that was set aside for them.
    fn may_receive(&self, notifier: NodeRef, about: About) -> bool {
        let receives = |node| self.rights(node).contains(Rights::RECEIVE_EVENTS);
        let nodes = [notifier, about.event_type, about.source];
        nodes.into_iter().all(receives) && (!about.audit || self.receives_audit())
    }

    fn deliver_event(&mut self, notifier: NodeRef, about: About) -> bool {
        self.may_receive(notifier, about) && self.check_delivery(Action::ReceiveEvents, about.source).is_ok()
    }

    fn sees(&self, node: NodeRef) -> bool {
        self.visible(node)
    }

    fn holds(&self, node: NodeRef, rights: Rights) -> bool {
        self.rights(node).contains(rights)
    }

    fn space(&self) -> &Space {
        self.space
    }
}

impl Desk<'_> {
    /// Hidden nodes are unknown to a monitored item as to everything else.
    fn see(&mut self, node: NodeRef) -> Result<(), StatusCode> {
        if self.visible(node) { Ok(()) } else { self.pass(Action::Browse, node, AuditKind::Browse) }
    }

    fn receives_audit(&self) -> bool {
        self.sight().rights_in(self.audit.scope()).contains(Rights::RECEIVE_EVENTS)
    }

    pub(super) fn is_numeric(&self, node: NodeRef) -> bool {
        self.is_a(node, NUMBER)
    }

    /// Whether a straight line lies between two values of a variable: numbers with a fraction change steadily, all others
    /// by steps.
    pub(super) fn slopes(&self, node: NodeRef) -> bool {
        self.is_a(node, FLOAT) || self.is_a(node, DOUBLE)
    }

    fn is_a(&self, node: NodeRef, known: u32) -> bool {
        let (Some(known), Some(data_type)) = (ns0::find_numeric(known), self.space.data_type(node)) else {
            return false;
        };
        self.space.is_subtype_of(data_type, known)
    }

    /// The node's EURange, if the session may read it: a percent deadband must not tell what a read would not.
    fn engineering_range(&self, node: NodeRef) -> Option<(f64, f64)> {
        let property = self.space.child(node, &QualifiedName::new(0, "EURange"))?;
        if !self.rights(property).contains(Rights::READ) {
            return None;
        }
        match self.space.value(property, self.now.unix).value {
            Some(Variant::ExtensionObject(object)) => range_of(&object),
            _ => None,
        }
    }
}

fn range_of(object: &ExtensionObject) -> Option<(f64, f64)> {
    object.inner_as::<Range>().map(|range| (range.low, range.high))
}

fn status_only(status: StatusCode) -> DataValue {
    DataValue { status: Some(status), ..DataValue::null() }
}
