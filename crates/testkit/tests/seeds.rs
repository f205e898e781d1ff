//! Writes the first inputs of the fuzz corpora: `cargo test -p testkit --test seeds -- --ignored`.

#![allow(clippy::disallowed_methods, reason = "a tool of its developers, run by hand")]

use access_model::{Epoch, Rights};
use opcua_types::*;
use testkit::keys::{AUTHORITY, CLIENT_A, SERVER, SERVER_URI};
use testkit::world::{AUTHORITY_NAME, RawPeer, Setup, URL, method_id, scope_map, variable_id};
use token::control::{Replacement, Revocation, Update, seal};
use token::{Claims, RightsClaim, ScopeSet, map_digest, mint};

fn write(target: &str, name: &str, parts: &[&[u8]]) {
    let folder = format!("{}/../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(format!("{folder}/{name}"), parts.concat()).unwrap();
}

fn part(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_le_bytes(), bytes].concat()
}

#[test]
#[ignore = "writes the seeds"]
fn transport_and_channel() {
    let world = Setup::open_to_all().start();
    let mut peer = RawPeer::unprotected(URL, world.now());
    let hello = std::mem::take(peer.channel.outgoing());
    write("transport", "hello", &[&[0, 255], &hello]);
    write("transport", "hello-by-bytes", &[&[0, 0], &hello]);
    let mut acknowledge = Vec::new();
    ua_proto::wire::Acknowledge {
        protocol_version: 0,
        receive_buffer: 65_536,
        send_buffer: 65_536,
        max_message: 0,
        max_chunks: 0,
    }
    .put(&mut acknowledge);
    write("transport", "acknowledge", &[&[1, 255], &acknowledge]);
    let mut error = Vec::new();
    ua_proto::wire::ErrorMessage::put(StatusCode::BadTcpInternalError, "no", &mut error);
    write("transport", "error", &[&[1, 7], &error]);
    peer.channel.receive(&acknowledge, world.now(), &mut testkit::Counting(1));
    while peer.channel.poll_event().is_some() {}
    let open = std::mem::take(peer.channel.outgoing());
    assert!(open.starts_with(b"OPNF"));
    write("transport", "hello-open", &[&[0, 255], &hello, &open]);
    write("transport", "parts-hello", &[&[2, 0], &hello[8..]]);
    write("transport", "parts-open", &[&[2, 0], &open]);
    // Kind, chunk, wrong, sequence and request of a good message; then parts of it.
    let message = [&[0, 0, 0][..], &part(b"body")].concat();
    write("channel", "message", &[&[0], &message, &message]);
    write("channel", "chunks", &[&[0, 0, 3, 2], &part(b"one"), &[0, 3, 2], &part(b"two"), &[0, 0, 0], &part(b"three")]);
    write("channel", "abort", &[&[0, 0, 3, 2], &part(b"one"), &[0, 5, 0], &part(&[0; 8])]);
    write("channel", "close", &[&[0, 6, 0, 0], &part(b"")]);
    // Behind header and channel id come policy, two empty thumbprints, sequence header and body.
    let header = 12 + 4 + 47 + 8;
    write("channel", "open-again", &[&[0, 5, 0, 0], &part(&open[12..header]), &part(&open[header + 8..])]);
    write("channel", "wrong-channel", &[&[0, 0, 0, 4], &part(b"body")]);
    write("channel", "certificate", &[&[2], SERVER.certificate.der()]);
    write("channel", "chain", &[&[2], CLIENT_A.certificate.der(), SERVER.certificate.der()]);
    let issuer = format!(
        r#"{{"ua:resourceId":"{SERVER_URI}","ua:authorityUrl":"https://a.example","ua:tokenEndpoint":"/token"}}"#
    );
    write("channel", "issuer", &[&[3], issuer.as_bytes()]);
}

fn step<T: BinaryEncodable + MessageInfo>(request: &T) -> Vec<u8> {
    let owned = ContextOwned::default();
    let ctx = owned.context();
    let id = request.type_id() as u32;
    let header = RequestHeader::default().encode_to_vec(&ctx).len();
    let body = request.encode_to_vec(&ctx);
    [&[0][..], &u16::try_from(id).unwrap().to_le_bytes(), &part(&body[header..])].concat()
}

fn value_of(node: NodeId) -> ReadValueId {
    ReadValueId { node_id: node, attribute_id: 13, ..ReadValueId::default() }
}

/// A life behind a guard: requests with a hostile client's cuts, and answers of a hostile server.
fn guarded(name: &str, rows: &[Vec<u8>]) {
    write("guard_client", name, &[&rows.concat()]);
    write("guard_client", &format!("{name}-cut"), &[&rows.join(&[225, 205][..]), &[230, 220]]);
    // As they are, with changed bytes, cut off, and replaced.
    let whole = [100, 216];
    let changed = [140, 1, 30, 0, 0xff, 41, 0, 0x80, 216, 100];
    let truncated = [180, 20, 0, 2, 0, 0xff, 0xff, 216];
    let replaced = [200, 3, 0, b'M', b'S', b'G', 220, 240, 235];
    for (what, after) in
        [("", &whole[..]), ("-changed", &changed), ("-truncated", &truncated), ("-replaced", &replaced)]
    {
        let row = |row: &Vec<u8>| [row, &whole[..], after].concat();
        write("guard_server", &format!("{name}{what}"), &[&rows.iter().map(row).collect::<Vec<_>>().concat()]);
    }
}

#[test]
#[ignore = "writes the seeds"]
fn access() {
    let nodes: Vec<NodeId> = (1..=3).map(|scope| variable_id(scope, 0)).collect();
    let read = ReadRequest {
        timestamps_to_return: TimestampsToReturn::Both,
        nodes_to_read: Some(nodes.iter().cloned().map(value_of).collect()),
        ..ReadRequest::default()
    };
    let call = CallMethodRequest {
        object_id: NodeId::new(1, "reactor"),
        method_id: method_id(1),
        input_arguments: Some(vec![Variant::from(3_i32)]),
    };
    let call = CallRequest { methods_to_call: Some(vec![call]), ..CallRequest::default() };
    let browse = BrowseDescription {
        node_id: NodeId::new(0, 85_u32),
        browse_direction: BrowseDirection::Forward,
        include_subtypes: true,
        result_mask: 63,
        ..BrowseDescription::default()
    };
    let browse = BrowseRequest {
        nodes_to_browse: Some(vec![browse]),
        requested_max_references_per_node: 1,
        ..BrowseRequest::default()
    };
    let element =
        RelativePathElement { target_name: QualifiedName::new(0, "Objects"), ..RelativePathElement::default() };
    let path = BrowsePath {
        starting_node: NodeId::new(0, 84_u32),
        relative_path: RelativePath { elements: Some(vec![element]) },
    };
    let translate = TranslateBrowsePathsToNodeIdsRequest { browse_paths: Some(vec![path]), ..Default::default() };
    let register = RegisterNodesRequest { nodes_to_register: Some(nodes.clone()), ..Default::default() };
    let unregister = UnregisterNodesRequest { nodes_to_unregister: Some(nodes), ..Default::default() };
    guarded("access", &[step(&read), step(&write_request()), step(&call), step(&read)]);
    guarded("browse", &[step(&browse), step(&BrowseNextRequest::default()), step(&translate)]);
    guarded("register", &[step(&register), step(&read), step(&unregister)]);
    write("services", "read", &[&step(&read)]);
    write("services", "write", &[&step(&write_request())]);
    write("services", "call", &[&step(&call), &[230]]);
    write("services", "call-parked", &[&step(&call), &[229; 4]]);
    write("services", "browse", &[&step(&browse), &step(&BrowseNextRequest::default())]);
    write("services", "translate", &[&step(&translate)]);
    write("services", "register", &[&step(&register), &step(&unregister)]);
}

fn write_request() -> WriteRequest {
    let value = WriteValue {
        node_id: variable_id(1, 0),
        attribute_id: 13,
        index_range: NumericRange::None,
        value: DataValue { value: Some(Variant::from(5_i32)), ..DataValue::default() },
    };
    WriteRequest { nodes_to_write: Some(vec![value]), ..WriteRequest::default() }
}

#[test]
#[ignore = "writes the seeds"]
fn sessions() {
    let subscribe = CreateSubscriptionRequest {
        requested_publishing_interval: 100.0,
        requested_lifetime_count: 100,
        requested_max_keep_alive_count: 3,
        publishing_enabled: true,
        ..Default::default()
    };
    let item = |filter: ExtensionObject| MonitoredItemCreateRequest {
        item_to_monitor: value_of(variable_id(1, 0)),
        monitoring_mode: MonitoringMode::Reporting,
        requested_parameters: MonitoringParameters {
            client_handle: 1,
            sampling_interval: 100.0,
            filter,
            queue_size: 2,
            discard_oldest: true,
        },
    };
    let deadband = DataChangeFilter { trigger: DataChangeTrigger::StatusValue, deadband_type: 1, deadband_value: 2.0 };
    let items = CreateMonitoredItemsRequest {
        subscription_id: 1,
        timestamps_to_return: TimestampsToReturn::Both,
        items_to_create: Some(vec![item(ExtensionObject::null()), item(ExtensionObject::from_message(deadband))]),
        ..Default::default()
    };
    let publish = PublishRequest::default();
    let republish = RepublishRequest { subscription_id: 1, retransmit_sequence_number: 1, ..Default::default() };
    let mode = SetMonitoringModeRequest {
        subscription_id: 1,
        monitoring_mode: MonitoringMode::Sampling,
        monitored_item_ids: Some(vec![1]),
        ..Default::default()
    };
    let publishing = SetPublishingModeRequest { subscription_ids: Some(vec![1]), ..Default::default() };
    let delete_items =
        DeleteMonitoredItemsRequest { subscription_id: 1, monitored_item_ids: Some(vec![1, 2]), ..Default::default() };
    let delete = DeleteSubscriptionsRequest { subscription_ids: Some(vec![1]), ..Default::default() };
    let create = [step(&subscribe), step(&items), step(&publish), step(&publish), vec![215]].concat();
    let change = [step(&write_request()), vec![215], step(&republish)].concat();
    let end = [step(&mode), step(&publishing), step(&delete_items), step(&delete)].concat();
    let published = [step(&publish), vec![215], step(&publish), vec![215]].concat();
    guarded("subscribe", &[step(&subscribe), step(&items), published, change.clone(), end.clone()]);
    write("services", "subscribe", &[&create, &change, &end]);
    write("services", "endpoints", &[&step(&GetEndpointsRequest::default()), &step(&FindServersRequest::default())]);
    let (session, activate) = (step(&CreateSessionRequest::default()), step(&ActivateSessionRequest::default()));
    write("services", "create-session", &[&session, &activate]);
    write("services", "close", &[&step(&CancelRequest::default()), &step(&CloseSessionRequest::default())]);
    let link = SetTriggeringRequest {
        subscription_id: 2,
        triggering_item_id: 1,
        links_to_add: Some(vec![2]),
        links_to_remove: Some(vec![1]),
        ..Default::default()
    };
    let transfer = TransferSubscriptionsRequest {
        subscription_ids: Some(vec![1, 2]),
        send_initial_values: true,
        ..Default::default()
    };
    write("services", "trigger", &[&create, &step(&link), &step(&mode), &change, &step(&transfer)]);
    write("services", "unsupported", &[&step(&AddNodesRequest::default()), &step(&DeleteNodesRequest::default())]);
    write("services", "raw", &[&[240], &part(&[1, 0, 119, 2, 0, 0])]);
}

fn past(at: i64) -> DataValue {
    DataValue { value: Some(Variant::from(7_i32)), source_timestamp: Some(DateTime::from(at)), ..DataValue::default() }
}

#[test]
#[ignore = "writes the seeds"]
fn history() {
    let node_id = variable_id(1, 0);
    let (start_time, end_time) = (DateTime::from(1), DateTime::from(i64::MAX));
    let update = UpdateDataDetails {
        node_id: node_id.clone(),
        perform_insert_replace: PerformUpdateType::Update,
        update_values: Some(vec![past(10), past(20), past(30)]),
    };
    let range = DeleteRawModifiedDetails {
        node_id: node_id.clone(),
        is_delete_modified: false,
        start_time,
        end_time: DateTime::from(15),
    };
    let times = DeleteAtTimeDetails { node_id: node_id.clone(), req_times: Some(vec![DateTime::from(20)]) };
    let change = |details: Vec<ExtensionObject>| HistoryUpdateRequest {
        history_update_details: Some(details),
        ..HistoryUpdateRequest::default()
    };
    let fill = step(&change(vec![ExtensionObject::from_message(update)]));
    let empty = step(&change(vec![ExtensionObject::from_message(range), ExtensionObject::from_message(times)]));
    let read = |details: ExtensionObject, point: Vec<u8>| HistoryReadRequest {
        history_read_details: details,
        timestamps_to_return: TimestampsToReturn::Both,
        nodes_to_read: Some(vec![HistoryReadValueId {
            node_id: variable_id(1, 0),
            continuation_point: ByteString::from(point),
            ..HistoryReadValueId::default()
        }]),
        ..HistoryReadRequest::default()
    };
    let raw = || {
        ExtensionObject::from_message(ReadRawModifiedDetails {
            is_read_modified: false,
            start_time,
            end_time,
            num_values_per_node: 2,
            return_bounds: true,
        })
    };
    let processed = ExtensionObject::from_message(ReadProcessedDetails {
        start_time,
        end_time: DateTime::from(40),
        processing_interval: 0.001,
        aggregate_type: Some(vec![NodeId::new(0, 2341)]),
        aggregate_configuration: AggregateConfiguration { percent_data_good: 100, ..Default::default() },
    });
    let instants = ExtensionObject::from_message(ReadAtTimeDetails {
        req_times: Some(vec![DateTime::from(15)]),
        use_simple_bounds: true,
    });
    let first = [step(&read(raw(), Vec::new())), step(&read(raw(), 1_u64.to_le_bytes().to_vec()))].concat();
    let computed = [step(&read(processed, Vec::new())), step(&read(instants, Vec::new()))].concat();
    write("services", "history", &[&fill, &first, &computed, &empty, &step(&read(raw(), Vec::new()))]);
}

#[test]
#[ignore = "writes the seeds"]
fn tokens() {
    let now = testkit::clock::Clock::default().now();
    let rights = RightsClaim::new(map_digest(&scope_map()), [(Rights::READ, vec![1_u32, 2]), (Rights::ALL, vec![3])]);
    let claims = Claims {
        issuer: AUTHORITY_NAME.into(),
        subject: "maria".into(),
        audience: SERVER_URI.into(),
        expires: now.unix + std::time::Duration::from_secs(60),
        not_before: now.unix,
        issued_at: now.unix,
        id: "t".into(),
        client: None,
        confirmation: Some(CLIENT_A.certificate.thumbprint()),
        roles: vec!["Operator".into()],
        groups: vec![],
        rights: Some(rights.clone()),
        epoch: Epoch(3),
        padding: 0,
    };
    let stranger = token::Signer::generate(token::Algorithm::Es256).unwrap();
    write("tokens", "token-of-another", &[&[0], mint(&claims, &stranger).unwrap().as_bytes()]);
    let payload = token::claims_json(&claims);
    write("tokens", "claims", &[&[1], payload.as_bytes()]);
    let array = payload.replace(&format!("\"{SERVER_URI}\""), &format!("[\"x\",\"{SERVER_URI}\"]"));
    write("tokens", "claims-array", &[&[1], array.as_bytes()]);
    let update = Update {
        issuer: AUTHORITY_NAME.into(),
        audience: SERVER_URI.into(),
        epoch: Epoch(4),
        previous: Some(Epoch(3)),
        issued_at: now.unix,
        revoked: vec![Revocation { id: "a".into(), expires: now.unix }],
        replaced: vec![Replacement { id: "b".into(), rights, not_after: now.unix, expires: now.unix }],
        approved: Vec::new(),
        mode: None,
    };
    let sealed = seal(&update, &AUTHORITY).unwrap();
    write("tokens", "update", &[&[2], token::danger_peek_unverified(&sealed).unwrap().payload.as_bytes()]);
    for (name, set) in [
        ("set-gaps", ScopeSet::from_sorted([1, 7, 30, 99])),
        ("set-runs", ScopeSet::from_sorted((5..40).chain(60..90))),
        ("set-bitmap", ScopeSet::from_sorted((0..80).filter(|at| at % 3 != 1))),
    ] {
        write("tokens", name, &[&[3], set.encode().as_bytes()]);
    }
    write("tokens", "key-set", &[&[4], token::jwks(&[AUTHORITY.public()]).as_bytes()]);
    write("tokens", "certificate", &[&[4], SERVER.certificate.der()]);
    let header = format!(r#"{{"alg":"EdDSA","kid":"{}"}}"#, AUTHORITY.kid());
    write("tokens", "header", &[&[5], &part(header.as_bytes()), payload.as_bytes()]);
}

#[test]
#[ignore = "writes the seeds"]
fn files() {
    let example = |name: &str| {
        std::fs::read(format!("{}/../../examples/batch-plant/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    };
    write("policy", "policies", &[&[0], &example("policies.cedar")]);
    write("policy", "permit-all", &[b"\0permit(principal, action, resource);"]);
    write(
        "policy",
        "forbid-when",
        &[b"\0forbid(principal, action, resource) when { context.steps.contains(\"filling\") };"],
    );
    write("policy", "cases", &[&[1], &example("cases.toml")]);
    write("config", "plant", &[&[0], &example("plant.toml")]);
    write("config", "plant-small", &[b"\0[site.west]\nname = \"West\"\n"]);
    write("config", "workflow", &[&[1], &example("workflow.toml")]);
    write("config", "program", &[&[2], config::TEMPLATE.as_bytes()]);
    let least = b"\x02[plant]\nfile = \"p\"\npolicies = \"c\"\n";
    write("config", "program-least", &[least]);
    let wrong = b"[audits]\nrotate_mb = \"much\"\n[[server]]\nname = 1\n";
    write("config", "program-wrong", &[least, wrong]);
    write("config", "program-variables", &[least, b"\0AUDIT__SYNC=disk\0LOG__FILTER=[7]\0SERVER__0__NAME=mixer"]);
    write(
        "config",
        "program-overrides",
        &[&[2], config::TEMPLATE.as_bytes(), b"\0SERVER__1__LISTEN=[::1]:9\0AUDIT__ROTATE_MIB=9"],
    );
}
