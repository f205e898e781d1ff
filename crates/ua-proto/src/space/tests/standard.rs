//! Namespace 0 as stock clients walk it, and the nodes this crate adds to it.

use std::collections::BTreeSet;

use access_model::ScopeIndex;
use opcua_types::{
    AttributeId, BrowseDescription, BrowseDirection, ByteString, NodeClass, NodeId, QualifiedName, RelativePath,
    RelativePathElement, ServerStatusDataType, StatusCode, StructureDefinition, Variant,
};

use super::{NOW, i, space};
use crate::space::{AuthorizationService, NodeRef, ServerFacts, Space, gds, ns0};

fn describe(node: NodeId) -> BrowseDescription {
    BrowseDescription {
        node_id: node,
        browse_direction: BrowseDirection::Forward,
        reference_type_id: NodeId::new(0, 33),
        include_subtypes: true,
        node_class_mask: 0,
        result_mask: 63,
    }
}

fn names(space: &Space, node: u32) -> Vec<String> {
    let spec = space.browse_spec(&describe(NodeId::new(0, node))).unwrap();
    let page = space.browse(&spec, 0, &mut |node| space.scope(node) != ScopeIndex::NOWHERE);
    page.references.into_iter().map(|found| found.browse_name.name.to_string()).collect()
}

#[test]
fn a_client_walks_from_root_to_the_server_object() {
    let space = space();
    assert_eq!(names(&space, 84), ["Objects", "Types", "Views"]);
    assert!(names(&space, 85).contains(&"Server".to_owned()));
    let server = names(&space, 2253);
    for part in ["ServerArray", "NamespaceArray", "ServerStatus", "ServiceLevel", "ServerCapabilities", "Namespaces"] {
        assert!(server.contains(&part.to_owned()), "{part} of {server:?}");
    }
    assert!(!server.contains(&"GetMonitoredItems".to_owned()), "methods nobody serves are hidden");
}

#[test]
fn every_reference_is_seen_from_both_ends() {
    let space = space();
    for node in space.nodes().filter(|node| node.0 < ns0::COUNT) {
        for found in space.references(node, BrowseDirection::Both, None, false) {
            assert!(space.contains(found.target), "{node:?} {found:?}");
            assert_eq!(space.class(found.type_), NodeClass::ReferenceType);
            let mut back = space.references(found.target, BrowseDirection::Both, Some(found.type_), false);
            assert!(back.any(|back| back.target == node && back.forward != found.forward), "{node:?} {found:?}");
        }
    }
}

#[test]
fn the_type_trees_reach_every_type() {
    let space = space();
    for (root, class) in [
        (24, NodeClass::DataType),
        (58, NodeClass::ObjectType),
        (62, NodeClass::VariableType),
        (31, NodeClass::ReferenceType),
    ] {
        let (mut open, mut seen) = (vec![i(root)], BTreeSet::new());
        while let Some(node) = open.pop() {
            assert!(seen.insert(node), "{} is derived twice", space.id(node));
            let below = space.references(node, BrowseDirection::Forward, Some(ns0::HAS_SUBTYPE), true);
            open.extend(below.map(|found| found.target));
        }
        let all = space.nodes().filter(|node| node.0 < ns0::COUNT && space.class(*node) == class).count();
        assert_eq!(seen.len(), all, "{class:?}");
    }
}

#[test]
fn ids_lead_to_nodes_and_back() {
    let space = space();
    for node in space.nodes() {
        let id = space.id(node);
        assert_eq!(space.find(&id), Some(node), "{id}");
        assert!(!space.browse_name(node).name.is_empty(), "{id}");
    }
    for unknown in [NodeId::new(0, 0), NodeId::new(0, 4_000_000_000_u32), NodeId::new(0, "Server"), NodeId::new(9, 1)] {
        assert_eq!(space.find(&unknown), None);
    }
    assert_eq!(space.class(NodeRef(u32::MAX)), NodeClass::Unspecified);
    assert_eq!(space.attribute(NodeRef(u32::MAX), AttributeId::NodeId), Err(StatusCode::BadNodeIdUnknown));
}

#[test]
fn instances_have_types_and_variables_have_data_types() {
    let space = space();
    for node in space.nodes() {
        let class = space.class(node);
        if matches!(class, NodeClass::Object | NodeClass::Variable) {
            assert!(space.type_definition(node).is_some(), "{}", space.id(node));
        }
        if matches!(class, NodeClass::Variable | NodeClass::VariableType) {
            let id = space.attribute(node, AttributeId::DataType).unwrap();
            assert!(matches!(id, Variant::NodeId(id) if space.find(&id).is_some()), "{}", space.id(node));
        }
    }
}

/// Instances under Objects whose value this server tells: everything a session sees has one that fits its type.
#[test]
fn every_visible_instance_variable_has_a_fitting_value() {
    let mut space = space();
    space.set_server_facts(ServerFacts::default());
    let (mut open, mut seen) = (vec![ns0::OBJECTS], BTreeSet::new());
    let mut wrong = Vec::new();
    while let Some(node) = open.pop() {
        if !seen.insert(node) || space.scope(node) == ScopeIndex::NOWHERE {
            continue;
        }
        if space.class(node) == NodeClass::Variable {
            let value = space.value(node, NOW).value.unwrap_or_default();
            if !space.value_fits_node(&value, node) {
                wrong.push(format!("{} {} {value:?}", space.id(node), space.browse_name(node).name));
            }
        }
        let below = space.references(node, BrowseDirection::Forward, Some(ns0::HIERARCHICAL_REFERENCES), true);
        open.extend(below.map(|found| found.target).filter(|target| {
            matches!(space.class(*target), NodeClass::Object | NodeClass::Variable | NodeClass::Method)
        }));
    }
    assert!(seen.len() > 200, "{}", seen.len());
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn administrative_nodes_lie_in_no_scope() {
    let space = space();
    // Session diagnostics, AddRole, ServerConfiguration and one of its methods, GetMonitoredItems.
    for hidden in [3707, 2290, 16301, 12637, 12740, 11492] {
        let node = i(hidden);
        assert_eq!(space.scope(node), ScopeIndex::NOWHERE, "i={hidden} {}", space.browse_name(node).name);
    }
    for shown in [2253, 2256, 2274, 2294, 15606, 15644, 15668, 11705, 85, 58] {
        assert_eq!(space.scope(i(shown)), ScopeIndex::PUBLIC, "i={shown}");
    }
    let operator = space.references(i(15680), BrowseDirection::Forward, Some(ns0::HIERARCHICAL_REFERENCES), true);
    let parts: Vec<_> = operator.map(|found| found.target).collect();
    assert!(parts.len() >= 5 && parts.iter().all(|part| space.scope(*part) == ScopeIndex::NOWHERE));
}

#[test]
fn the_server_object_follows_time_and_state() {
    let mut space = space();
    space.set_server_facts(ServerFacts { started: NOW, service_level: 199, ..ServerFacts::default() });
    let later = NOW + std::time::Duration::from_secs(60);
    let Some(Variant::ExtensionObject(status)) = space.value(ns0::SERVER_STATUS, later).value else { panic!() };
    let status = *status.into_inner_as::<ServerStatusDataType>().unwrap();
    assert_eq!((status.current_time - status.start_time).num_seconds(), 60);
    assert_eq!(space.value(ns0::SERVICE_LEVEL, later).value, Some(Variant::Byte(199)));
    assert_eq!(space.value(i(11705), later).value, Some(Variant::UInt32(1_000)));
    let Some(Variant::Array(uris)) = space.value(ns0::NAMESPACE_ARRAY, later).value else { panic!() };
    let uris: Vec<String> = uris.values.iter().map(ToString::to_string).collect();
    assert_eq!(uris, ["http://opcfoundation.org/UA/", "urn:test", "urn:plant"]);
}

#[test]
fn structure_definitions_name_inherited_fields() {
    let space = space();
    // UserNameIdentityToken derives from UserIdentityToken, which has PolicyId.
    let Ok(Variant::ExtensionObject(found)) = space.attribute(i(322), AttributeId::DataTypeDefinition) else {
        panic!()
    };
    let found = found.into_inner_as::<StructureDefinition>().unwrap();
    let fields: Vec<String> = found.fields.iter().flatten().map(|field| field.name.to_string()).collect();
    assert_eq!(fields, ["PolicyId", "UserName", "Password", "EncryptionAlgorithm"]);
    assert_eq!(found.base_data_type, NodeId::new(0, 316));
}

#[test]
fn pages_of_a_browse_join_to_the_whole() {
    let mut space = space();
    for number in 0..57 {
        super::variable(&mut space, number, 1_i32);
    }
    let description = BrowseDescription { browse_direction: BrowseDirection::Both, ..describe(NodeId::new(0, 85)) };
    let mut visible = |node: NodeRef| !node.0.is_multiple_of(3);
    let start = space.browse_spec(&description).unwrap();
    let whole = space.browse(&start, 0, &mut visible).references;
    assert!(whole.len() > 30);
    for size in [1, 2, 7, 1_000] {
        let (mut parts, mut spec) = (Vec::new(), Some(start));
        while let Some(at) = spec {
            let page = space.browse(&at, size, &mut visible);
            assert!(page.references.len() <= size && !page.references.is_empty());
            parts.extend(page.references);
            spec = page.rest;
        }
        assert_eq!(parts, whole, "pages of {size}");
    }
}

#[test]
fn browse_requests_are_checked() {
    let space = space();
    let with = |change: fn(&mut BrowseDescription)| {
        let mut description = describe(NodeId::new(0, 85));
        change(&mut description);
        space.browse_spec(&description).map(|_| ())
    };
    assert_eq!(with(|_| ()), Ok(()));
    assert_eq!(with(|it| it.node_id = NodeId::new(3, 1)), Err(StatusCode::BadNodeIdUnknown));
    assert_eq!(with(|it| it.reference_type_id = NodeId::new(0, 85)), Err(StatusCode::BadReferenceTypeIdInvalid));
    let invalid = with(|it| it.browse_direction = BrowseDirection::Invalid);
    assert_eq!(invalid, Err(StatusCode::BadBrowseDirectionInvalid));
}

#[test]
fn class_and_result_masks_are_kept() {
    let space = space();
    let spec = |class, result| {
        let description = describe(NodeId::new(0, 2253));
        space.browse_spec(&BrowseDescription { node_class_mask: class, result_mask: result, ..description }).unwrap()
    };
    let only_objects = space.browse(&spec(1, 63), 0, &mut |_| true).references;
    assert!(!only_objects.is_empty() && only_objects.iter().all(|found| found.node_class == NodeClass::Object));
    let bare = space.browse(&spec(0, 0), 0, &mut |_| true).references;
    assert!(bare.iter().all(|found| found.browse_name.is_null() && found.type_definition.is_null()));
    assert!(bare.iter().all(|found| !found.node_id.is_null()));
}

fn path(names: &[&str]) -> RelativePath {
    let element = |name: &&str| RelativePathElement {
        reference_type_id: NodeId::new(0, 33),
        is_inverse: false,
        include_subtypes: true,
        target_name: QualifiedName::new(0, *name),
    };
    RelativePath { elements: Some(names.iter().map(element).collect()) }
}

#[test]
fn paths_lead_where_every_step_is_visible() {
    let space = space();
    let state = path(&["Server", "ServerStatus", "State"]);
    let found = space.translate_browse_path(ns0::OBJECTS, &state, &mut |_| true).unwrap();
    assert_eq!(found.iter().map(|it| it.target_id.node_id.clone()).collect::<Vec<_>>(), [NodeId::new(0, 2259)]);
    assert_eq!(found[0].remaining_path_index, u32::MAX);
    for hidden in [ns0::SERVER, ns0::SERVER_STATUS, ns0::SERVER_STATUS_STATE] {
        let blind = space.translate_browse_path(ns0::OBJECTS, &state, &mut |node| node != hidden);
        assert_eq!(blind.unwrap_err(), StatusCode::BadNoMatch);
    }
    let with = |names: &[&str]| space.translate_browse_path(ns0::OBJECTS, &path(names), &mut |_| true).unwrap_err();
    assert_eq!(with(&[]), StatusCode::BadNothingToDo);
    assert_eq!(with(&["Server", "Nothing"]), StatusCode::BadNoMatch);
    let mut nameless = path(&["Server", "ServerStatus"]);
    nameless.elements.as_mut().unwrap()[0].target_name = QualifiedName::null();
    let refused = space.translate_browse_path(ns0::OBJECTS, &nameless, &mut |_| true).unwrap_err();
    assert_eq!(refused, StatusCode::BadBrowseNameInvalid);
}

#[test]
fn an_authorization_service_can_be_found_and_called() {
    let mut space = space();
    let service = AuthorizationService {
        name: "Authority",
        uri: "urn:authority",
        certificate: ByteString::from(vec![1, 2, 3]),
        policies: Vec::new(),
        request_access_token: false,
        scope: ScopeIndex(4),
    };
    let nodes = gds::add(&mut space, &service).unwrap();
    assert_eq!(space.find(&NodeId::new(nodes.namespace, 959)), Some(nodes.folder));
    assert_eq!(space.parent(nodes.folder), Some(ns0::OBJECTS));
    assert_eq!(space.type_definition(nodes.folder), space.find(&NodeId::new(nodes.namespace, 233)));
    assert_eq!(space.scope(nodes.service), ScopeIndex(4));
    let uri = space.child(nodes.service, &QualifiedName::new(nodes.namespace, "ServiceUri")).unwrap();
    assert_eq!(space.value(uri, NOW).value, Some(Variant::String("urn:authority".into())));
    let (inputs, outputs) = space.method_arguments(nodes.finish_request_token);
    let names: Vec<&str> = inputs.iter().map(|argument| argument.name.as_ref()).collect();
    assert_eq!(names, ["RequestId", "RequestedRoles", "UserIdentityToken", "UserTokenSignature"]);
    assert_eq!(outputs.len(), 4);
    assert!(space.method_on(nodes.service, nodes.start_request_token));
    assert!(!space.method_on(nodes.folder, nodes.start_request_token));
    let declared = space.find(&NodeId::new(nodes.namespace, 95)).unwrap();
    assert!(space.method_on(nodes.service, declared), "by the method of its type");
    assert_eq!(nodes.request_access_token, None);
}

#[test]
fn every_value_and_definition_of_the_table_can_be_read() {
    let space = space();
    let mut definitions = 0;
    for node in space.nodes().filter(|node| node.0 < ns0::COUNT && ns0::has_value(*node)) {
        let value = ns0::value(node, &ns0::context().context());
        assert!(value.is_some_and(|value| value != Variant::Empty), "{}", space.id(node));
        definitions += usize::from(space.class(node) == NodeClass::DataType);
    }
    assert!(definitions > 200, "{definitions}");
}

#[test]
fn default_role_permissions_of_a_namespace_are_told() {
    let mut space = space();
    let operator = NodeId::new(0, 15680);
    space.set_server_facts(ServerFacts { default_role_permissions: vec![(operator, 33)], ..ServerFacts::default() });
    let plant = space.child(ns0::NAMESPACES, &QualifiedName::new(1, "urn:plant")).unwrap();
    let property = space.child(plant, &QualifiedName::new(0, "DefaultRolePermissions")).unwrap();
    let Some(Variant::Array(roles)) = space.value(property, NOW).value else { panic!() };
    assert_eq!(roles.values.len(), 1);
}

#[test]
fn no_node_number_makes_it_panic() {
    let mut space = space();
    for node in [0, ns0::COUNT - 1, ns0::COUNT, ns0::COUNT + 1_000_000, u32::MAX - 1, u32::MAX].map(NodeRef) {
        let _ = (space.id(node), space.name(node), space.scope(node), space.parent(node), space.supertype(node));
        let _ = (space.data_type(node), space.type_definition(node), space.method_arguments(node));
        let _ = (space.value(node, NOW), space.references(node, BrowseDirection::Both, None, true).count());
        (1..=27).for_each(|id| {
            let _ = space.attribute(node, AttributeId::from_u32(id).unwrap());
        });
        let _ = space.write_value(node, &opcua_types::NumericRange::None, super::bare(1_i32), NOW);
        space.set_scope(node, ScopeIndex(3));
        assert_eq!(space.contains(node), space.class(node) != NodeClass::Unspecified);
    }
}
