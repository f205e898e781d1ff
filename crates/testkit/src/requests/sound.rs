//! Sound requests, of every service that names nodes, about nodes that a client of a guard may touch, see, or not know of.

use opcua_types::*;

use super::Request;
use crate::world::{method_id, variable_id};

fn request<T: BinaryEncodable + MessageInfo>(request: &T) -> Request {
    let owned = ContextOwned::default();
    let ctx = owned.context();
    let header = RequestHeader::default().encode_to_vec(&ctx).len();
    let body = request.encode_to_vec(&ctx);
    let service = u16::try_from(request.type_id() as u32).unwrap_or(0);
    Request { service, body: body.get(header..).unwrap_or_default().to_vec() }
}

fn five() -> Variant {
    Variant::from(5_i32)
}

/// The requests: each about nodes of one scope, and about one of each.
#[must_use]
pub fn sound() -> Vec<Request> {
    let object = |scope: u32| NodeId::new(1, crate::world::SCOPES[scope as usize - 1]);
    [vec![1], vec![2], vec![3], vec![1, 2, 3], vec![1, 1]]
        .iter()
        .flat_map(|scopes| {
            let nodes: Vec<(NodeId, NodeId, NodeId)> =
                scopes.iter().map(|scope| (object(*scope), variable_id(*scope, 0), method_id(*scope))).collect();
            [access(&nodes), structure(&nodes), monitoring(&nodes), history(&nodes)].concat()
        })
        .collect()
}

type Nodes<'a> = &'a [(NodeId, NodeId, NodeId)];

fn value(node: &NodeId) -> ReadValueId {
    ReadValueId { node_id: node.clone(), attribute_id: 13, ..ReadValueId::default() }
}

fn access(nodes: Nodes<'_>) -> Vec<Request> {
    let read = ReadRequest {
        timestamps_to_return: TimestampsToReturn::Both,
        nodes_to_read: Some(nodes.iter().map(|(_, variable, _)| value(variable)).collect()),
        ..ReadRequest::default()
    };
    let write = |(_, variable, _): &(NodeId, NodeId, NodeId)| WriteValue {
        node_id: variable.clone(),
        attribute_id: 13,
        index_range: NumericRange::None,
        value: DataValue { value: Some(five()), ..DataValue::default() },
    };
    let write = WriteRequest { nodes_to_write: Some(nodes.iter().map(write).collect()), ..WriteRequest::default() };
    let call = |(object, _, method): &(NodeId, NodeId, NodeId)| CallMethodRequest {
        object_id: object.clone(),
        method_id: method.clone(),
        input_arguments: Some(vec![five(), Variant::from(2.5_f64), five()]),
    };
    let call = CallRequest { methods_to_call: Some(nodes.iter().map(call).collect()), ..CallRequest::default() };
    vec![request(&read), request(&write), request(&call)]
}

fn structure(nodes: Nodes<'_>) -> Vec<Request> {
    let browse = |(object, ..): &(NodeId, NodeId, NodeId)| BrowseDescription {
        node_id: object.clone(),
        browse_direction: BrowseDirection::Forward,
        reference_type_id: NodeId::new(0, 33_u32),
        include_subtypes: true,
        result_mask: 63,
        ..BrowseDescription::default()
    };
    let browse = BrowseRequest { nodes_to_browse: Some(nodes.iter().map(browse).collect()), ..Default::default() };
    let path = |(object, ..): &(NodeId, NodeId, NodeId)| {
        let name = QualifiedName::new(1, "reactor-0");
        let element = RelativePathElement { target_name: name, include_subtypes: true, ..Default::default() };
        BrowsePath { starting_node: object.clone(), relative_path: RelativePath { elements: Some(vec![element]) } }
    };
    let translate = TranslateBrowsePathsToNodeIdsRequest {
        browse_paths: Some(nodes.iter().map(path).collect()),
        ..Default::default()
    };
    let variables: Vec<NodeId> = nodes.iter().map(|(_, variable, _)| variable.clone()).collect();
    let register = RegisterNodesRequest { nodes_to_register: Some(variables.clone()), ..Default::default() };
    let unregister = UnregisterNodesRequest { nodes_to_unregister: Some(variables), ..Default::default() };
    let attributes = ObjectAttributes { display_name: "new".into(), ..ObjectAttributes::default() };
    let add = |(object, variable, _): &(NodeId, NodeId, NodeId)| AddNodesItem {
        parent_node_id: object.clone().into(),
        reference_type_id: NodeId::new(0, 35_u32),
        browse_name: QualifiedName::new(1, "new"),
        node_class: NodeClass::Object,
        node_attributes: ExtensionObject::from_message(attributes.clone()),
        type_definition: variable.clone().into(),
        ..AddNodesItem::default()
    };
    let add = AddNodesRequest { nodes_to_add: Some(nodes.iter().map(add).collect()), ..Default::default() };
    let link = |(object, variable, _): &(NodeId, NodeId, NodeId)| AddReferencesItem {
        source_node_id: object.clone(),
        reference_type_id: NodeId::new(0, 35_u32),
        is_forward: true,
        target_node_id: variable.clone().into(),
        target_node_class: NodeClass::Variable,
        ..AddReferencesItem::default()
    };
    let link = AddReferencesRequest { references_to_add: Some(nodes.iter().map(link).collect()), ..Default::default() };
    let delete = |(_, variable, _): &(NodeId, NodeId, NodeId)| DeleteNodesItem {
        node_id: variable.clone(),
        delete_target_references: true,
    };
    let delete = DeleteNodesRequest { nodes_to_delete: Some(nodes.iter().map(delete).collect()), ..Default::default() };
    let unlink = |(object, variable, _): &(NodeId, NodeId, NodeId)| DeleteReferencesItem {
        source_node_id: object.clone(),
        reference_type_id: NodeId::new(0, 35_u32),
        is_forward: true,
        target_node_id: variable.clone().into(),
        delete_bidirectional: true,
    };
    let unlink = DeleteReferencesRequest {
        references_to_delete: Some(nodes.iter().map(unlink).collect()),
        ..Default::default()
    };
    vec![
        request(&browse),
        request(&translate),
        request(&register),
        request(&unregister),
        request(&add),
        request(&link),
        request(&delete),
        request(&unlink),
    ]
}

fn monitoring(nodes: Nodes<'_>) -> Vec<Request> {
    let deadband = DataChangeFilter { trigger: DataChangeTrigger::StatusValue, deadband_type: 1, deadband_value: 2.0 };
    let field = SimpleAttributeOperand {
        type_definition_id: NodeId::new(0, 2041_u32),
        browse_path: Some(vec![QualifiedName::new(0, "Message")]),
        attribute_id: 13,
        index_range: NumericRange::None,
    };
    let events = EventFilter { select_clauses: Some(vec![field]), ..EventFilter::default() };
    let filters = [
        (13, ExtensionObject::null()),
        (13, ExtensionObject::from_message(deadband)),
        (12, ExtensionObject::from_message(events)),
    ];
    let create = |(attribute, filter): &(u32, ExtensionObject)| {
        let item = |(object, variable, _): &(NodeId, NodeId, NodeId)| MonitoredItemCreateRequest {
            item_to_monitor: ReadValueId {
                attribute_id: *attribute,
                ..value(if *attribute == 12 { object } else { variable })
            },
            monitoring_mode: MonitoringMode::Reporting,
            requested_parameters: MonitoringParameters {
                client_handle: 1,
                sampling_interval: 100.0,
                filter: filter.clone(),
                queue_size: 2,
                discard_oldest: true,
            },
        };
        request(&CreateMonitoredItemsRequest {
            subscription_id: 1,
            timestamps_to_return: TimestampsToReturn::Both,
            items_to_create: Some(nodes.iter().map(item).collect()),
            ..Default::default()
        })
    };
    filters.iter().map(create).collect()
}

fn history(nodes: Nodes<'_>) -> Vec<Request> {
    let (start_time, end_time) = (DateTime::from(1), DateTime::from(i64::MAX));
    let item = |(_, variable, _): &(NodeId, NodeId, NodeId)| HistoryReadValueId {
        node_id: variable.clone(),
        ..HistoryReadValueId::default()
    };
    let raw = ReadRawModifiedDetails {
        is_read_modified: false,
        start_time,
        end_time,
        num_values_per_node: 2,
        return_bounds: true,
    };
    let processed = ReadProcessedDetails {
        start_time,
        end_time: DateTime::from(40),
        processing_interval: 0.001,
        aggregate_type: Some(vec![NodeId::new(0, 2341_u32)]),
        aggregate_configuration: AggregateConfiguration::default(),
    };
    let at_times = ReadAtTimeDetails { req_times: Some(vec![DateTime::from(15)]), use_simple_bounds: true };
    let read = |details: ExtensionObject| {
        request(&HistoryReadRequest {
            history_read_details: details,
            timestamps_to_return: TimestampsToReturn::Both,
            nodes_to_read: Some(nodes.iter().map(item).collect()),
            ..HistoryReadRequest::default()
        })
    };
    let update = |(_, variable, _): &(NodeId, NodeId, NodeId)| {
        let past = DataValue { value: Some(five()), source_timestamp: Some(DateTime::from(10)), ..Default::default() };
        ExtensionObject::from_message(UpdateDataDetails {
            node_id: variable.clone(),
            perform_insert_replace: PerformUpdateType::Update,
            update_values: Some(vec![past.clone(), past]),
        })
    };
    let delete = |(_, variable, _): &(NodeId, NodeId, NodeId)| {
        let req_times = Some(vec![DateTime::from(20)]);
        ExtensionObject::from_message(DeleteAtTimeDetails { node_id: variable.clone(), req_times })
    };
    let change = |details: Vec<ExtensionObject>| {
        request(&HistoryUpdateRequest { history_update_details: Some(details), ..Default::default() })
    };
    vec![
        read(ExtensionObject::from_message(raw)),
        read(ExtensionObject::from_message(processed)),
        read(ExtensionObject::from_message(at_times)),
        change(nodes.iter().map(update).collect()),
        change(nodes.iter().map(delete).collect()),
    ]
}
