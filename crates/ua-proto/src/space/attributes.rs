//! Attributes other than Value and those that depend on who asks.

use opcua_types::{
    Array, AttributeId, LocalizedText, NodeClass, NodeId, QualifiedName, StatusCode, Variant, VariantScalarTypeId,
};

use super::added::{Shape, Texts};
use super::{AccessLevel, NodeRef, Space, Status, ns0};

impl Space {
    /// An attribute of a node. Value is [`Space::value`]; UserAccessLevel, UserExecutable, RolePermissions and
    /// UserRolePermissions depend on rights and are the server's to answer.
    ///
    /// # Errors
    /// `Bad_NodeIdUnknown`; `Bad_AttributeIdInvalid` where the node's class has no such attribute or it is absent.
    pub fn attribute(&self, node: NodeRef, attribute: AttributeId) -> Result<Variant, StatusCode> {
        let class = self.class(node);
        if class == NodeClass::Unspecified {
            return Err(StatusCode::BadNodeIdUnknown);
        }
        match attribute {
            AttributeId::NodeId => Ok(self.id(node).into()),
            AttributeId::NodeClass => Ok(Variant::Int32(class as i32)),
            AttributeId::BrowseName => Ok(self.browse_name(node).into()),
            AttributeId::DisplayName => Ok(self.display_name(node).into()),
            AttributeId::Description => Ok(self.description(node).into()),
            AttributeId::WriteMask | AttributeId::UserWriteMask => Ok(Variant::UInt32(0)),
            AttributeId::AccessRestrictions => Ok(Variant::UInt16(self.restrictions(self.scope(node)).bits())),
            other => self.class_attribute(node, class, other),
        }
    }

    /// What the variable itself allows, whoever asks; nothing for other classes.
    #[must_use]
    pub fn access_level(&self, node: NodeRef) -> AccessLevel {
        match (self.class(node), self.shape(node)) {
            (NodeClass::Variable, Some(shape)) => shape.access,
            (NodeClass::Variable, None) => AccessLevel(u32::from(ns0::access(node))),
            _ => AccessLevel::NONE,
        }
    }

    /// Whether a method can be called at all.
    #[must_use]
    pub fn executable(&self, node: NodeRef) -> bool {
        self.class(node) == NodeClass::Method && self.flags(node) & ns0::EXECUTABLE != 0
    }

    /// The data type of a variable or variable type.
    #[must_use]
    pub fn data_type(&self, node: NodeRef) -> Option<NodeRef> {
        self.shape(node).map_or_else(|| ns0::data_type(node), |shape| shape.data_type)
    }

    /// The ValueRank of a variable or variable type.
    #[must_use]
    pub fn value_rank(&self, node: NodeRef) -> i32 {
        self.shape(node).map_or_else(|| ns0::rank(node), |shape| shape.rank)
    }

    pub(super) fn dimensions(&self, node: NodeRef) -> Vec<u32> {
        self.shape(node).map_or_else(|| ns0::dimensions(node), |shape| shape.dimensions.to_vec())
    }

    pub(super) fn shape(&self, node: NodeRef) -> Option<&Shape> {
        Self::added_at(node).and_then(|at| self.added.shape(at))
    }

    fn flags(&self, node: NodeRef) -> u8 {
        self.shape(node).map_or_else(|| ns0::flags(node), |shape| shape.flags)
    }

    fn description(&self, node: NodeRef) -> LocalizedText {
        match Self::added_at(node) {
            None => text(ns0::description(node)),
            Some(at) => self.texts(at).and_then(|texts| texts.description.clone()).unwrap_or_else(LocalizedText::null),
        }
    }

    fn class_attribute(&self, node: NodeRef, class: NodeClass, attribute: AttributeId) -> Status<Variant> {
        match class {
            NodeClass::Variable => self.variable_attribute(node, attribute),
            NodeClass::Object | NodeClass::View if attribute == AttributeId::EventNotifier => {
                Ok(Variant::Byte(self.event_notifier(node).unwrap_or(0)))
            }
            NodeClass::View if attribute == AttributeId::ContainsNoLoops => Ok(Variant::Boolean(true)),
            NodeClass::Method if attribute == AttributeId::Executable => Ok(Variant::Boolean(self.executable(node))),
            NodeClass::ObjectType | NodeClass::VariableType | NodeClass::ReferenceType | NodeClass::DataType => {
                self.type_attribute(node, class, attribute)
            }
            _ => Err(StatusCode::BadAttributeIdInvalid),
        }
    }

    fn variable_attribute(&self, node: NodeRef, attribute: AttributeId) -> Status<Variant> {
        let access = self.access_level(node).0;
        match attribute {
            AttributeId::AccessLevel => Ok(Variant::Byte(access.to_le_bytes()[0])),
            AttributeId::AccessLevelEx => Ok(Variant::UInt32(access)),
            AttributeId::MinimumSamplingInterval => Ok(Variant::Double(0.0)),
            AttributeId::Historizing => Ok(Variant::Boolean(self.flags(node) & ns0::HISTORIZING != 0)),
            other => self.value_attribute(node, other),
        }
    }

    /// What variables and variable types share.
    fn value_attribute(&self, node: NodeRef, attribute: AttributeId) -> Status<Variant> {
        match attribute {
            AttributeId::DataType => {
                Ok(self.data_type(node).map_or_else(NodeId::null, |data_type| self.id(data_type)).into())
            }
            AttributeId::ValueRank => Ok(Variant::Int32(self.value_rank(node))),
            AttributeId::ArrayDimensions => self.array_dimensions(node),
            _ => Err(StatusCode::BadAttributeIdInvalid),
        }
    }

    /// An array whose dimensions are not stated has them all open (0).
    fn array_dimensions(&self, node: NodeRef) -> Status<Variant> {
        let mut dimensions = self.dimensions(node);
        if dimensions.is_empty() {
            let rank = usize::try_from(self.value_rank(node)).unwrap_or(0);
            dimensions = vec![0; rank.min(32)];
        }
        if dimensions.is_empty() {
            return Err(StatusCode::BadAttributeIdInvalid);
        }
        let values = dimensions.into_iter().map(Variant::UInt32).collect();
        let array = Array { value_type: VariantScalarTypeId::UInt32, values, dimensions: None };
        Ok(Variant::Array(Box::new(array)))
    }

    fn type_attribute(&self, node: NodeRef, class: NodeClass, attribute: AttributeId) -> Status<Variant> {
        let none = StatusCode::BadAttributeIdInvalid;
        match (class, attribute) {
            (_, AttributeId::IsAbstract) => Ok(Variant::Boolean(self.flags(node) & ns0::ABSTRACT != 0)),
            (NodeClass::ReferenceType, AttributeId::Symmetric) => {
                Ok(Variant::Boolean(self.flags(node) & ns0::SYMMETRIC != 0))
            }
            (NodeClass::ReferenceType, AttributeId::InverseName) => {
                let name = match Self::added_at(node) {
                    None => text(ns0::inverse_name(node)),
                    Some(at) => {
                        self.texts(at).and_then(|texts| texts.inverse.clone()).unwrap_or_else(LocalizedText::null)
                    }
                };
                if name.text.is_empty() { Err(none) } else { Ok(name.into()) }
            }
            (NodeClass::DataType, AttributeId::DataTypeDefinition) | (NodeClass::VariableType, AttributeId::Value) => {
                match Self::added_at(node) {
                    None => ns0::value(node, &self.context.context()).ok_or(none),
                    Some(at) => match self.added.value(at) {
                        Variant::Empty => Err(none),
                        value => Ok(value),
                    },
                }
            }
            (NodeClass::VariableType, other) => self.value_attribute(node, other),
            _ => Err(none),
        }
    }

    /// EventNotifier of an object or view; none for other classes.
    #[must_use]
    pub fn event_notifier(&self, node: NodeRef) -> Option<u8> {
        let notifies = matches!(self.class(node), NodeClass::Object | NodeClass::View);
        // HistoryRead and HistoryWrite.
        let kept = self.event_history.get(&node).map_or(0, |log| if log.is_writable() { 0b1100 } else { 0b100 });
        let own = || self.shape(node).map_or_else(|| ns0::access(node), |shape| shape.access.0.to_le_bytes()[0]);
        notifies.then(|| own() | kept)
    }

    /// The node's browse name.
    #[must_use]
    pub fn browse_name(&self, node: NodeRef) -> QualifiedName {
        let (namespace, name) = self.name(node);
        QualifiedName::new(namespace, name)
    }

    /// The node's display name: its browse name without the namespace, unless the standard has another.
    #[must_use]
    pub fn display_name(&self, node: NodeRef) -> LocalizedText {
        match Self::added_at(node) {
            None => text(ns0::display_name(node)),
            Some(at) => {
                let stated = self.texts(at).and_then(|texts| texts.display.clone());
                stated.unwrap_or_else(|| text(self.added.name(at)))
            }
        }
    }

    fn texts(&self, at: u32) -> Option<&Texts> {
        self.added.texts.get(&at)
    }

    /// The browse name, without copying it.
    #[must_use]
    pub fn name(&self, node: NodeRef) -> (u16, &str) {
        match Self::added_at(node) {
            None => (0, ns0::name(node)),
            Some(at) => (self.shape(node).map_or(0, |shape| shape.name_namespace), self.added.name(at)),
        }
    }
}

fn text(text: &str) -> LocalizedText {
    if text.is_empty() {
        LocalizedText::null()
    } else {
        LocalizedText { locale: opcua_types::UAString::null(), text: text.into() }
    }
}
