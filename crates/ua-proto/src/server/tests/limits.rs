//! Limits that the server publishes (OPC 10000-5 §6.3.2) are limits that it keeps.

use opcua_types::*;

use super::services::value_of;
use super::world::*;
use crate::server::ServerLimits;

const STRING: usize = 1 << 20;
const ARRAY: usize = 65_535;

fn status(world: &mut World, name: &str, value: Variant) -> StatusCode {
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    world.write(conn, &login, vec![(id(name), value)]).map_or_else(|fault| fault, |all| all[0])
}

#[test]
fn published_lengths_are_kept_to_the_byte() {
    let limits = crate::space::Limits::default();
    assert_eq!((limits.max_string_length, limits.max_byte_string_length), (STRING as u32, STRING as u32));
    assert_eq!(limits.max_array_length, ARRAY as u32);
    let mut world = World::new();
    let text = |length| Variant::from("a".repeat(length));
    let bytes = |length| Variant::from(ByteString::from(vec![7_u8; length]));
    let array = |length| Variant::from(vec![7_i32; length]);
    // A ByteString does not fit the variable; that it is read at all is what tells.
    let cases = [
        ("String", "Note", text(STRING), text(STRING + 1), StatusCode::Good),
        ("ByteString", "Note", bytes(STRING), bytes(STRING + 1), StatusCode::BadTypeMismatch),
        ("array", "Samples", array(ARRAY), array(ARRAY + 1), StatusCode::Good),
    ];
    for (name, node, longest, beyond, expected) in cases {
        assert_eq!(status(&mut world, node, longest), expected, "the longest {name}");
        let refused = [StatusCode::BadEncodingLimitsExceeded, StatusCode::BadDecodingError];
        assert!(refused.contains(&status(&mut world, node, beyond)), "{name}: one more");
    }
}

/// What each service says of so many operations more than its limit allows.
fn operations(world: &mut World, extra: usize) -> Vec<(&'static str, Option<StatusCode>)> {
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let mut said = Vec::new();
    macro_rules! tried {
        ($name:literal, $request:ident { $($field:ident: $value:expr),+ } => $response:ident) => {
            let mut request = $request::default();
            request.request_header = world.header(&login.token);
            $(request.$field = $value;)+
            said.push(($name, world.ask::<_, $response>(conn, &request).err()));
        };
    }
    let write = WriteValue { node_id: id("Setpoint"), attribute_id: 13, ..WriteValue::default() };
    tried!("Read", ReadRequest { nodes_to_read: Some(vec![value_of("Setpoint"); 3 + extra]) } => ReadResponse);
    tried!("Write", WriteRequest { nodes_to_write: Some(vec![write; 4 + extra]) } => WriteResponse);
    let call = CallMethodRequest { object_id: id("Unit"), method_id: id("Stir"), input_arguments: None };
    tried!("Call", CallRequest { methods_to_call: Some(vec![call; 5 + extra]) } => CallResponse);
    let browse = Some(vec![BrowseDescription::default(); 6 + extra]);
    tried!("Browse", BrowseRequest { nodes_to_browse: browse } => BrowseResponse);
    let points = Some(vec![ByteString::null(); 6 + extra]);
    tried!("BrowseNext", BrowseNextRequest { continuation_points: points } => BrowseNextResponse);
    let nodes = Some(vec![id("Setpoint"); 7 + extra]);
    tried!("RegisterNodes", RegisterNodesRequest { nodes_to_register: nodes.clone() } => RegisterNodesResponse);
    tried!("UnregisterNodes", UnregisterNodesRequest { nodes_to_unregister: nodes } => UnregisterNodesResponse);
    let paths = Some(vec![BrowsePath::default(); 8 + extra]);
    tried!("Translate", TranslateBrowsePathsToNodeIdsRequest { browse_paths: paths }
        => TranslateBrowsePathsToNodeIdsResponse);
    let items = Some(vec![MonitoredItemCreateRequest::default(); 9 + extra]);
    tried!("CreateMonitoredItems", CreateMonitoredItemsRequest { items_to_create: items }
        => CreateMonitoredItemsResponse);
    let items = Some(vec![MonitoredItemModifyRequest::default(); 9 + extra]);
    tried!("ModifyMonitoredItems", ModifyMonitoredItemsRequest { items_to_modify: items }
        => ModifyMonitoredItemsResponse);
    let ids = Some(vec![1_u32; 9 + extra]);
    tried!("SetMonitoringMode", SetMonitoringModeRequest { monitored_item_ids: ids.clone() }
        => SetMonitoringModeResponse);
    tried!("DeleteMonitoredItems", DeleteMonitoredItemsRequest { monitored_item_ids: ids.clone() }
        => DeleteMonitoredItemsResponse);
    tried!("SetPublishingMode", SetPublishingModeRequest { subscription_ids: ids.clone() }
        => SetPublishingModeResponse);
    tried!("DeleteSubscriptions", DeleteSubscriptionsRequest { subscription_ids: ids } => DeleteSubscriptionsResponse);
    let nodes = Some(vec![HistoryReadValueId { node_id: id("Setpoint"), ..Default::default() }; 10 + extra]);
    let details = ExtensionObject::from_message(ReadAtTimeDetails::default());
    tried!("HistoryRead", HistoryReadRequest {
        history_read_details: details, timestamps_to_return: TimestampsToReturn::Both, nodes_to_read: nodes
    } => HistoryReadResponse);
    let details = ExtensionObject::from_message(DeleteAtTimeDetails::default());
    let details = Some(vec![details; 11 + extra]);
    tried!("HistoryUpdate", HistoryUpdateRequest { history_update_details: details } => HistoryUpdateResponse);
    let links = Some(vec![1_u32; 9 + extra]);
    tried!("SetTriggering", SetTriggeringRequest { links_to_add: links } => SetTriggeringResponse);
    let ids = Some(vec![1_u32; 12 + extra]);
    tried!("TransferSubscriptions", TransferSubscriptionsRequest { subscription_ids: ids }
        => TransferSubscriptionsResponse);
    said
}

/// OPC 10000-4 §7.38.2: Bad_TooManyOperations. Every limit is another number: a service that keeps to another's fails.
#[test]
fn every_service_keeps_its_own_operation_limit() {
    let mut limits = ServerLimits::default();
    let own = &mut limits.operations;
    (own.max_nodes_per_read, own.max_nodes_per_write, own.max_nodes_per_method_call) = (3, 4, 5);
    (own.max_nodes_per_browse, own.max_nodes_per_register_nodes, own.max_nodes_per_translate) = (6, 7, 8);
    own.max_monitored_items_per_call = 9;
    (own.max_nodes_per_history_read_data, own.max_nodes_per_history_update_data) = (10, 11);
    limits.subscriptions =
        std::sync::Arc::new(crate::subscription::SubscriptionLimits { max_subscriptions: 12, ..Default::default() });
    let mut world = Setup { limits, ..Setup::default() }.start();
    let too_many = Some(StatusCode::BadTooManyOperations);
    for (service, said) in operations(&mut world, 0) {
        assert_ne!(said, too_many, "{service} at its limit");
    }
    for (service, said) in operations(&mut world, 1) {
        assert_eq!(said, too_many, "{service} beyond its limit");
    }
}
