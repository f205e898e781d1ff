//! Adding nodes.

use access_model::ScopeIndex;
use opcua_types::{Argument, Array, ExtensionObject, NodeClass, NodeId, Variant, VariantScalarTypeId};

use super::added::{NO_PARENT, Shape};
use super::typing::inferred;
use super::{AccessLevel, NewMethod, NewNode, NewVariable, NodeRef, Reference, Space, SpaceError, ns0};

/// Where the numbers of nodes without an id of their own begin, in namespace 1.
const FIRST_FREE_ID: u32 = 1 << 31;

impl<'a> NewVariable<'a> {
    /// A readable data variable, a component of `parent`.
    #[must_use]
    pub fn new(parent: NodeRef, id: Option<NodeId>, name: &'a str, value: Variant, scope: ScopeIndex) -> Self {
        Self {
            id,
            parent,
            reference: ns0::HAS_COMPONENT,
            name,
            name_namespace: None,
            value,
            data_type: None,
            value_rank: None,
            array_dimensions: Vec::new(),
            type_definition: ns0::BASE_DATA_VARIABLE_TYPE,
            access: AccessLevel::READ,
            scope,
        }
    }

    /// A readable property of `parent`.
    #[must_use]
    pub fn property(parent: NodeRef, id: Option<NodeId>, name: &'a str, value: Variant, scope: ScopeIndex) -> Self {
        Self {
            reference: ns0::HAS_PROPERTY,
            type_definition: ns0::PROPERTY_TYPE,
            ..Self::new(parent, id, name, value, scope)
        }
    }

    /// The same, with this access.
    #[must_use]
    pub fn access(self, access: AccessLevel) -> Self {
        Self { access, ..self }
    }
}

/// What every node has, whatever its class.
pub(super) struct Common<'a> {
    pub(super) id: Option<NodeId>,
    pub(super) parent: NodeRef,
    pub(super) name: &'a str,
    pub(super) name_namespace: Option<u16>,
    pub(super) scope: ScopeIndex,
}

impl Space {
    /// Adds a folder that `parent` organizes.
    ///
    /// # Errors
    /// The id is taken or foreign, the parent unknown, the name unusable, the space full.
    pub fn add_folder(
        &mut self,
        parent: NodeRef,
        id: Option<NodeId>,
        name: &str,
        scope: ScopeIndex,
    ) -> Result<NodeRef, SpaceError> {
        let reference = ns0::ORGANIZES;
        let type_definition = Some(ns0::FOLDER_TYPE);
        self.add_node(NewNode { reference, type_definition, ..NewNode::object(parent, id, name, scope) })
    }

    /// Adds an object, a component of `parent`.
    ///
    /// # Errors
    /// As [`Space::add_folder`].
    pub fn add_object(
        &mut self,
        parent: NodeRef,
        id: Option<NodeId>,
        name: &str,
        type_definition: NodeRef,
        scope: ScopeIndex,
    ) -> Result<NodeRef, SpaceError> {
        let type_definition = Some(type_definition);
        self.add_node(NewNode { type_definition, ..NewNode::object(parent, id, name, scope) })
    }

    /// Adds a variable.
    ///
    /// # Errors
    /// As [`Space::add_folder`]; the value does not fit the data type, or there is neither.
    pub fn add_variable(&mut self, variable: NewVariable<'_>) -> Result<NodeRef, SpaceError> {
        let (own_type, own_rank) = inferred(&variable.value);
        let data_type = variable.data_type.or(own_type).unwrap_or(ns0::BASE_DATA_TYPE);
        let rank = variable.value_rank.unwrap_or(own_rank);
        if variable.value != Variant::Empty && !self.value_fits(&variable.value, data_type, rank) {
            return Err(SpaceError::Value(data_type, rank));
        }
        let shape = Shape {
            class: NodeClass::Variable as u8,
            flags: 0,
            access: variable.access,
            name_namespace: 0,
            reference: variable.reference,
            type_definition: Some(variable.type_definition),
            data_type: Some(data_type),
            rank,
            dimensions: variable.array_dimensions.into(),
        };
        let NewVariable { id, parent, name, name_namespace, scope, .. } = variable;
        let node = self.push(Common { id, parent, name, name_namespace, scope }, shape)?;
        if let Some(at) = Self::added_at(node) {
            self.added.set_value(at, variable.value);
        }
        Ok(node)
    }

    /// Adds a method with its argument properties.
    ///
    /// # Errors
    /// As [`Space::add_folder`].
    pub fn add_method(&mut self, method: NewMethod<'_>) -> Result<NodeRef, SpaceError> {
        let NewMethod { id, argument_ids: [input_id, output_id], parent, name, name_namespace, .. } = method;
        let NewMethod { inputs, outputs, scope, .. } = method;
        let (class, type_definition) = (NodeClass::Method, None);
        let object = NewNode::object(parent, id, name, scope);
        let node = self.add_node(NewNode { class, type_definition, name_namespace, ..object })?;
        for (id, name, arguments) in [(input_id, "InputArguments", inputs), (output_id, "OutputArguments", outputs)] {
            if !arguments.is_empty() {
                let property = NewVariable::property(node, id, name, structures(arguments), scope);
                let data_type = Some(ns0::ARGUMENT);
                self.add_variable(NewVariable { name_namespace: Some(0), data_type, ..property })?;
            }
        }
        Ok(node)
    }

    /// Adds a node that is not a variable.
    ///
    /// # Errors
    /// As [`Space::add_folder`].
    pub fn add_node(&mut self, node: NewNode<'_>) -> Result<NodeRef, SpaceError> {
        let NewNode { id, class, parent, reference, name, name_namespace, .. } = node;
        let executable = if class == NodeClass::Method { ns0::EXECUTABLE } else { 0 };
        let shape = Shape {
            class: class as u8,
            flags: executable | if node.is_abstract { ns0::ABSTRACT } else { 0 },
            access: AccessLevel(u32::from(node.event_notifier)),
            name_namespace: 0,
            reference,
            type_definition: node.type_definition,
            data_type: None,
            rank: -1,
            dimensions: Box::default(),
        };
        self.push(Common { id, parent, name, name_namespace, scope: node.scope }, shape)
    }

    /// Adds a reference beside those that come with a node, seen from both ends.
    ///
    /// # Errors
    /// One of the nodes does not exist.
    pub fn add_reference(&mut self, source: NodeRef, type_: NodeRef, target: NodeRef) -> Result<(), SpaceError> {
        if let Some(missing) = [source, type_, target].into_iter().find(|node| !self.contains(*node)) {
            return Err(SpaceError::NoNode(missing));
        }
        self.added.extra.entry(source.0).or_default().push(Reference { type_, forward: true, target });
        self.added.extra.entry(target.0).or_default().push(Reference { type_, forward: false, target: source });
        Ok(())
    }

    /// What a method takes and gives.
    #[must_use]
    pub fn method_arguments(&self, method: NodeRef) -> (Vec<Argument>, Vec<Argument>) {
        (self.arguments(method, "InputArguments"), self.arguments(method, "OutputArguments"))
    }

    fn arguments(&self, method: NodeRef, name: &str) -> Vec<Argument> {
        let property = self.child(method, &opcua_types::QualifiedName::new(0, name));
        let Some(Variant::Array(array)) = property.and_then(|it| self.value(it, Default::default()).value) else {
            return Vec::new();
        };
        let argument = |value: Variant| match value {
            Variant::ExtensionObject(object) => object.into_inner_as::<Argument>().map(|argument| *argument),
            _ => None,
        };
        array.values.into_iter().filter_map(argument).collect()
    }

    pub(super) fn push(&mut self, common: Common<'_>, mut shape: Shape) -> Result<NodeRef, SpaceError> {
        let Common { id, parent, name, name_namespace, scope } = common;
        let parents = (parent != NO_PARENT).then_some(parent);
        let ends = [parents, Some(shape.reference), shape.type_definition, shape.data_type];
        if let Some(missing) = ends.into_iter().flatten().find(|node| !self.contains(*node)) {
            return Err(SpaceError::NoNode(missing));
        }
        let (id, numbered) = match id {
            Some(id) => (id, false),
            None => (self.free_id(), true),
        };
        if id.namespace == 0 || usize::from(id.namespace) >= self.namespaces.len() {
            return Err(SpaceError::Namespace(id.namespace));
        }
        if self.find(&id).is_some() {
            return Err(SpaceError::Taken(id));
        }
        shape.name_namespace = name_namespace.unwrap_or(id.namespace);
        let at = self.added.len();
        let node = ns0::COUNT.checked_add(at).filter(|node| *node < u32::MAX - 1).ok_or(SpaceError::Full)?;
        if !self.added.ids.has_room(&id) {
            return Err(SpaceError::Full);
        }
        self.added.push(NodeRef(node), parent, name, scope, shape)?;
        self.added.ids.push(at, &id);
        self.numbered += u32::from(numbered);
        Ok(NodeRef(node))
    }

    /// The next number in namespace 1 that is not in use.
    fn free_id(&mut self) -> NodeId {
        loop {
            let id = NodeId::new(1, FIRST_FREE_ID.wrapping_add(self.numbered));
            if self.find(&id).is_none() {
                return id;
            }
            self.numbered = self.numbered.wrapping_add(1);
        }
    }
}

impl<'a> NewMethod<'a> {
    /// A method without arguments.
    #[must_use]
    pub fn new(parent: NodeRef, id: Option<NodeId>, name: &'a str, scope: ScopeIndex) -> Self {
        let (inputs, outputs) = (Vec::new(), Vec::new());
        Self { id, argument_ids: [None, None], parent, name, name_namespace: None, inputs, outputs, scope }
    }
}

impl<'a> NewNode<'a> {
    /// An object of BaseObjectType, a component of `parent`.
    #[must_use]
    pub fn object(parent: NodeRef, id: Option<NodeId>, name: &'a str, scope: ScopeIndex) -> Self {
        Self {
            id,
            class: NodeClass::Object,
            parent,
            reference: ns0::HAS_COMPONENT,
            name,
            name_namespace: None,
            type_definition: Some(ns0::BASE_OBJECT_TYPE),
            is_abstract: false,
            event_notifier: 0,
            scope,
        }
    }

    /// An object type below `parent`.
    #[must_use]
    pub fn object_type(parent: NodeRef, id: Option<NodeId>, name: &'a str) -> Self {
        let scope = ScopeIndex::PUBLIC;
        let reference = ns0::HAS_SUBTYPE;
        Self { class: NodeClass::ObjectType, reference, type_definition: None, ..Self::object(parent, id, name, scope) }
    }
}

/// An array of structures.
pub(super) fn structures<T: opcua_types::DynEncodable>(items: Vec<T>) -> Variant {
    let values = items.into_iter().map(|item| Variant::ExtensionObject(ExtensionObject::from_message(item))).collect();
    let value_type = VariantScalarTypeId::ExtensionObject;
    Variant::Array(Box::new(Array { value_type, values, dimensions: None }))
}
