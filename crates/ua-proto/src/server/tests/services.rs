//! Each service, and what it answers per item.

use access_model::AuditKind;
use opcua_types::*;

use super::keys::HOST;
use super::world::*;
use crate::server::dispatch::{SERVICES, Service};
use crate::server::{Answer, Input};

pub(super) fn value_of(name: &str) -> ReadValueId {
    attribute_of(&id(name), AttributeId::Value)
}

pub(super) fn attribute_of(node: &NodeId, attribute: AttributeId) -> ReadValueId {
    ReadValueId { node_id: node.clone(), attribute_id: attribute as u32, ..ReadValueId::default() }
}

impl World {
    pub(super) fn read(
        &mut self,
        conn: crate::server::ConnId,
        login: &Login,
        nodes: Vec<ReadValueId>,
    ) -> Result<Vec<DataValue>, StatusCode> {
        let request = ReadRequest {
            request_header: self.header(&login.token),
            max_age: 0.0,
            timestamps_to_return: TimestampsToReturn::Both,
            nodes_to_read: Some(nodes),
        };
        self.ask::<_, ReadResponse>(conn, &request).map(|response| response.results.unwrap_or_default())
    }

    pub(super) fn read_one(
        &mut self,
        conn: crate::server::ConnId,
        login: &Login,
        name: &str,
    ) -> Result<Variant, StatusCode> {
        let value = self.read(conn, login, vec![value_of(name)])?.remove(0);
        match value.status {
            Some(status) if status.is_bad() => Err(status),
            _ => Ok(value.value.unwrap_or_default()),
        }
    }

    pub(super) fn write(
        &mut self,
        conn: crate::server::ConnId,
        login: &Login,
        values: Vec<(NodeId, Variant)>,
    ) -> Result<Vec<StatusCode>, StatusCode> {
        let request = self.write_request(login, values);
        self.ask::<_, WriteResponse>(conn, &request).map(|response| response.results.unwrap_or_default())
    }

    pub(super) fn write_request(&mut self, login: &Login, values: Vec<(NodeId, Variant)>) -> WriteRequest {
        let write = |(node_id, value): (NodeId, Variant)| WriteValue {
            node_id,
            attribute_id: AttributeId::Value as u32,
            index_range: NumericRange::None,
            value: DataValue::value_only(value),
        };
        WriteRequest {
            request_header: self.header(&login.token),
            nodes_to_write: Some(values.into_iter().map(write).collect()),
        }
    }

    pub(super) fn call_request(&mut self, login: &Login, calls: Vec<(NodeId, NodeId, Vec<Variant>)>) -> CallRequest {
        let call =
            |(object_id, method_id, inputs)| CallMethodRequest { object_id, method_id, input_arguments: Some(inputs) };
        CallRequest {
            request_header: self.header(&login.token),
            methods_to_call: Some(calls.into_iter().map(call).collect()),
        }
    }

    pub(super) fn browse(
        &mut self,
        conn: crate::server::ConnId,
        login: &Login,
        node: NodeId,
        max: u32,
    ) -> BrowseResult {
        let request = BrowseRequest {
            request_header: self.header(&login.token),
            requested_max_references_per_node: max,
            nodes_to_browse: Some(vec![BrowseDescription {
                node_id: node,
                browse_direction: BrowseDirection::Forward,
                reference_type_id: ReferenceTypeId::HierarchicalReferences.into(),
                include_subtypes: true,
                node_class_mask: 0,
                result_mask: 63,
            }]),
            ..BrowseRequest::default()
        };
        let response: BrowseResponse = self.ask(conn, &request).unwrap();
        response.results.unwrap().remove(0)
    }
}

fn names(result: &BrowseResult) -> Vec<String> {
    result.references.iter().flatten().map(|reference| reference.browse_name.name.to_string()).collect()
}

#[test]
fn the_server_says_which_profiles_hold_as_it_is_set_up() {
    let strings = |world: &mut World, conn, login: &Login, id: u32| {
        let item = attribute_of(&NodeId::new(0, id), AttributeId::Value);
        match world.read(conn, login, vec![item]).unwrap().remove(0).value {
            Some(Variant::Array(array)) => array.values.iter().map(ToString::to_string).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        }
    };
    const CERTIFICATE: &str = "http://opcfoundation.org/UA-Profile/Security/UserToken/Server/X509Certificate";
    for by_certificate in [true, false] {
        let mut setup = Setup::default();
        if !by_certificate {
            setup.identities.certificate = None;
        }
        let mut world = setup.start();
        let token = world.token(std::time::Duration::from_secs(3_600));
        let (conn, login) = world.log_in_by_token(&token);
        let told = strings(&mut world, conn, &login, 2269);
        for always in [
            "http://opcfoundation.org/UA-Profile/Transport/uatcp-uasc-uabinary",
            "http://opcfoundation.org/UA-Profile/Server/Core2017Facet",
            "http://opcfoundation.org/UA/SecurityPolicy#Basic256Sha256",
            "http://opcfoundation.org/UA-Profile/Security/UserToken/Server/JsonWebToken",
        ] {
            assert!(told.iter().any(|uri| uri == always), "{always}: {told:?}");
        }
        assert_eq!(told.iter().any(|uri| uri == CERTIFICATE), by_certificate, "{told:?}");
        let unlike = |uri: &String| uri.contains("StandardUA") || uri.contains("Embedded") && uri.contains("Device");
        assert!(!told.iter().any(unlike), "no full profile is claimed: {told:?}");
        assert_eq!(strings(&mut world, conn, &login, 2271), ["en"]);
    }
}

#[test]
fn discovery_needs_no_session() {
    let mut world = World::new();
    let conn = world.connect(BARE);
    let response: GetEndpointsResponse = world.ask(conn, &GetEndpointsRequest::default()).unwrap();
    let endpoints = response.endpoints.unwrap();
    assert_eq!(endpoints.len(), 3);
    let ids = |at: usize| -> Vec<String> {
        endpoints[at].user_identity_tokens.iter().flatten().map(|policy| policy.policy_id.to_string()).collect()
    };
    assert!(ids(0).contains(&"jwt_None".to_owned()));
    assert!(!ids(2).iter().any(|id| id.starts_with("jwt")), "no token on an endpoint without security");
    let servers: FindServersResponse = world.ask(conn, &FindServersRequest::default()).unwrap();
    assert_eq!(servers.servers.unwrap().len(), 1);
    let other = FindServersRequest { server_uris: Some(vec!["urn:none".into()]), ..FindServersRequest::default() };
    let servers: FindServersResponse = world.ask(conn, &other).unwrap();
    assert_eq!(servers.servers.unwrap_or_default().len(), 0);
}

/// OPC 10000-4 §5.5.2, §5.5.4, §5.7.2: the URL that the client used decides which one it is told.
#[test]
fn a_client_is_told_the_host_it_dialled_if_it_is_one_of_ours() {
    let mut world = World::new();
    let conn = world.connect(BARE);
    let of_the_certificate = URL.replace("server", HOST);
    assert_ne!(of_the_certificate, URL);
    for (rule, dialled, told) in [
        ("ours", URL.to_owned(), URL),
        ("of the certificate", of_the_certificate.clone(), &of_the_certificate),
        ("our port, whatever was dialled", format!("opc.tcp://{HOST}:9999/x"), &of_the_certificate),
        ("a stranger's", "opc.tcp://evil.test:4840".to_owned(), URL),
        ("no URL", String::new(), URL),
        ("another scheme", format!("https://{HOST}"), URL),
        ("more than a host", format!("opc.tcp://{HOST}@evil.test:4840"), URL),
    ] {
        let ask = GetEndpointsRequest { endpoint_url: dialled.as_str().into(), ..GetEndpointsRequest::default() };
        let listed: GetEndpointsResponse = world.ask(conn, &ask).unwrap();
        let listed = listed.endpoints.unwrap();
        assert!(listed.iter().all(|one| one.endpoint_url.as_ref() == told), "{rule}: {listed:?}");
        let ask = FindServersRequest { endpoint_url: dialled.as_str().into(), ..FindServersRequest::default() };
        let found: FindServersResponse = world.ask(conn, &ask).unwrap();
        let found = found.servers.unwrap().remove(0).discovery_urls.unwrap();
        assert_eq!(found.iter().map(UAString::as_ref).collect::<Vec<_>>(), [told], "{rule}");
        let create = CreateSessionRequest { endpoint_url: dialled.as_str().into(), ..CreateSessionRequest::default() };
        let created: CreateSessionResponse = world.ask(conn, &create).unwrap();
        assert_eq!(created.server_endpoints, Some(listed), "{rule}: CreateSession says what GetEndpoints says");
        let header = world.header(&created.authentication_token);
        let close = CloseSessionRequest { request_header: header, delete_subscriptions: true };
        let _: CloseSessionResponse = world.ask(conn, &close).unwrap();
    }
}

/// Known by guards; this server has not got them.
pub(super) const FOR_GUARDS: [Service; 4] =
    [Service::AddNodes, Service::AddReferences, Service::DeleteNodes, Service::DeleteReferences];

#[test]
fn every_request_type_is_answered() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    for (number, service) in SERVICES {
        if matches!(service, Service::CloseSession | Service::Publish) {
            continue;
        }
        let owned = ContextOwned::default();
        let mut body = NodeId::new(0, number).encode_to_vec(&owned.context());
        body.extend(world.header(&login.token).encode_to_vec(&owned.context()));
        let request = world.send_raw(conn, &body);
        let answer = world.answer::<ResponseHeader>(conn, request).expect("an answer");
        match service {
            _ if FOR_GUARDS.contains(&service) => {
                assert_eq!(answer, Err(StatusCode::BadServiceUnsupported), "{service:?}")
            }
            Service::Unsupported => assert_eq!(answer, Err(StatusCode::BadServiceUnsupported), "{number}"),
            _ => assert!(answer.is_err(), "{service:?} takes a body, and there was none"),
        }
    }
    assert!(world.read_one(conn, &login, "Setpoint").is_ok(), "the session is none the worse");
}

#[test]
fn read_answers_item_by_item_in_order() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let items = ["Setpoint", "Secret", "Speed", "Missing", "Pressure"].map(value_of).to_vec();
    let values = world.read(conn, &login, items).unwrap();
    let statuses: Vec<_> = values.iter().map(|value| value.status()).collect();
    let (hidden, denied) = (StatusCode::BadNodeIdUnknown, StatusCode::BadUserAccessDenied);
    assert_eq!(statuses, [StatusCode::Good, hidden, denied, hidden, StatusCode::Good]);
    assert_eq!(values[0].value, Some(Variant::from(20.0)));
    assert!(values[0].server_timestamp.is_some());
    assert!(values[1].value.is_none() && values[2].value.is_none(), "nothing leaks");
    assert_eq!(values[1].server_timestamp, values[3].server_timestamp, "hidden and missing look the same");
    assert_eq!(values[1].source_timestamp, None);
}

#[test]
fn read_says_what_is_wrong_with_a_request() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let mut base = ReadRequest {
        request_header: world.header(&login.token),
        max_age: 0.0,
        timestamps_to_return: TimestampsToReturn::Both,
        nodes_to_read: Some(vec![value_of("Setpoint")]),
    };
    type Change = fn(&mut ReadRequest);
    let cases: [(Change, StatusCode); 5] = [
        (|read| read.max_age = -1.0, StatusCode::BadMaxAgeInvalid),
        (|read| read.max_age = f64::NAN, StatusCode::BadMaxAgeInvalid),
        (|read| read.timestamps_to_return = TimestampsToReturn::Invalid, StatusCode::BadTimestampsToReturnInvalid),
        (|read| read.nodes_to_read = None, StatusCode::BadNothingToDo),
        (|read| read.nodes_to_read = Some(vec![value_of("Setpoint"); 1_001]), StatusCode::BadTooManyOperations),
    ];
    for (change, expected) in cases {
        let mut request = base.clone();
        change(&mut request);
        assert_eq!(world.ask::<_, ReadResponse>(conn, &request).err(), Some(expected));
    }
    base.nodes_to_read = Some(vec![
        ReadValueId { index_range: NumericRange::Range(1, 2), ..value_of("Samples") },
        ReadValueId { index_range: NumericRange::Index(9), ..value_of("Samples") },
        ReadValueId { data_encoding: QualifiedName::new(0, "Default XML"), ..value_of("Setpoint") },
        ReadValueId { attribute_id: 99, ..value_of("Setpoint") },
        attribute_of(&id("Unit"), AttributeId::Value),
    ]);
    let response: ReadResponse = world.ask(conn, &base).unwrap();
    let statuses: Vec<_> = response.results.iter().flatten().map(DataValue::status).collect();
    assert_eq!(
        statuses,
        [
            StatusCode::Good,
            StatusCode::BadIndexRangeNoData,
            StatusCode::BadDataEncodingUnsupported,
            StatusCode::BadAttributeIdInvalid,
            StatusCode::BadAttributeIdInvalid,
        ]
    );
}

#[test]
fn write_answers_item_by_item_and_tells_the_application() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let cases = [
        (id("Setpoint"), Variant::from(30.0), StatusCode::Good),
        (id("Setpoint"), Variant::from(101.0), StatusCode::BadOutOfRange),
        (id("Setpoint"), Variant::from(f64::NAN), StatusCode::BadOutOfRange),
        (id("Secret"), Variant::from("x"), StatusCode::BadNodeIdUnknown),
        (id("Missing"), Variant::from("x"), StatusCode::BadNodeIdUnknown),
        (id("Speed"), Variant::from(1_i32), StatusCode::BadUserAccessDenied),
        (id("Pressure"), Variant::from(1.0), StatusCode::BadNotWritable),
        (id("Samples"), Variant::from("text"), StatusCode::BadTypeMismatch),
        (NodeId::new(0, 2258_u32), Variant::from(1_i32), StatusCode::BadUserAccessDenied),
    ];
    let values = cases.iter().map(|(node, value, _)| (node.clone(), value.clone())).collect();
    let expected: Vec<_> = cases.iter().map(|(_, _, status)| *status).collect();
    assert_eq!(world.write(conn, &login, values).unwrap(), expected);
    assert_eq!(world.read_one(conn, &login, "Setpoint"), Ok(Variant::from(30.0)));
    let written: Vec<_> = world.written.iter().map(|(node, _)| node.clone()).collect();
    assert_eq!(written, [id("Setpoint")]);
}

#[test]
fn browse_shows_what_may_be_seen_and_goes_on_from_continuation_points() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let all = names(&world.browse(conn, &login, id("Unit"), 0));
    assert!(all.contains(&"Setpoint".to_owned()) && all.contains(&"Speed".to_owned()));
    assert!(!all.contains(&"Secret".to_owned()) && !all.contains(&"Open".to_owned()), "{all:?}");

    let mut page = world.browse(conn, &login, id("Unit"), 2);
    let mut seen = names(&page);
    while !page.continuation_point.is_null_or_empty() {
        let request = BrowseNextRequest {
            request_header: world.header(&login.token),
            release_continuation_points: false,
            continuation_points: Some(vec![page.continuation_point.clone()]),
        };
        let response: BrowseNextResponse = world.ask(conn, &request).unwrap();
        page = response.results.unwrap().remove(0);
        assert_eq!(page.status_code, StatusCode::Good);
        seen.extend(names(&page));
    }
    assert_eq!(seen, all);

    let hidden = world.browse(conn, &login, id("Secret"), 0).status_code;
    let missing = world.browse(conn, &login, id("Missing"), 0).status_code;
    assert_eq!((hidden, missing), (StatusCode::BadNodeIdUnknown, StatusCode::BadNodeIdUnknown));
}

#[test]
fn continuation_points_are_bounded_and_used_once() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let points: Vec<_> = (0..16).map(|_| world.browse(conn, &login, id("Unit"), 1).continuation_point).collect();
    assert_eq!(world.browse(conn, &login, id("Unit"), 1).status_code, StatusCode::BadNoContinuationPoints);
    let mut next = |point: &ByteString, release| {
        let request = BrowseNextRequest {
            request_header: world.header(&login.token),
            release_continuation_points: release,
            continuation_points: Some(vec![point.clone()]),
        };
        let response: BrowseNextResponse = world.ask(conn, &request).unwrap();
        response.results.unwrap().remove(0).status_code
    };
    assert_eq!(next(&points[0], true), StatusCode::Good);
    assert_eq!(next(&points[0], false), StatusCode::BadContinuationPointInvalid);
    assert_eq!(next(&ByteString::from(vec![1, 2]), false), StatusCode::BadContinuationPointInvalid);
}

#[test]
fn browse_paths_do_not_lead_through_hidden_nodes() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let mut follow = |start: NodeId, name: &str| {
        let element = RelativePathElement {
            reference_type_id: ReferenceTypeId::HierarchicalReferences.into(),
            include_subtypes: true,
            target_name: QualifiedName::new(1, name),
            ..RelativePathElement::default()
        };
        let request = TranslateBrowsePathsToNodeIdsRequest {
            request_header: world.header(&login.token),
            browse_paths: Some(vec![BrowsePath {
                starting_node: start,
                relative_path: RelativePath { elements: Some(vec![element]) },
            }]),
        };
        let response: TranslateBrowsePathsToNodeIdsResponse = world.ask(conn, &request).unwrap();
        response.results.unwrap().remove(0).status_code
    };
    assert_eq!(follow(id("Unit"), "Setpoint"), StatusCode::Good);
    assert_eq!(follow(id("Unit"), "Secret"), StatusCode::BadNoMatch);
    assert_eq!(follow(id("Unit"), "Missing"), StatusCode::BadNoMatch);
    assert_eq!(follow(id("Secret"), "Missing"), StatusCode::BadNodeIdUnknown);
}

#[test]
fn registered_nodes_are_no_way_around_rights() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let mut register = |nodes: Vec<NodeId>| {
        let request =
            RegisterNodesRequest { request_header: world.header(&login.token), nodes_to_register: Some(nodes) };
        world.ask::<_, RegisterNodesResponse>(conn, &request).map(|response| response.registered_node_ids.unwrap())
    };
    assert_eq!(register(vec![id("Setpoint")]), Ok(vec![id("Setpoint")]));
    assert_eq!(register(vec![id("Setpoint"), id("Secret")]), Err(StatusCode::BadNodeIdUnknown));
    assert_eq!(register(vec![id("Missing")]), Err(StatusCode::BadNodeIdUnknown));
    let request = UnregisterNodesRequest {
        request_header: world.header(&login.token),
        nodes_to_unregister: Some(vec![id("Unit")]),
    };
    world.ask::<_, UnregisterNodesResponse>(conn, &request).unwrap();
}

#[test]
fn call_checks_object_and_method_and_arguments() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let level = vec![Variant::from(1.0)];
    let cases = [
        (id("Unit"), id("Reset"), Vec::new(), StatusCode::BadArgumentsMissing),
        (id("Unit"), id("Reset"), vec![Variant::from(1.0); 2], StatusCode::BadTooManyArguments),
        (id("Unit"), id("Reset"), vec![Variant::from("x")], StatusCode::BadInvalidArgument),
        (id("Unit"), id("Stir"), Vec::new(), StatusCode::BadUserAccessDenied),
        (id("Unit"), id("Open"), Vec::new(), StatusCode::BadNodeIdUnknown),
        (id("Unit"), id("Missing"), Vec::new(), StatusCode::BadNodeIdUnknown),
        (id("Unit"), id("Setpoint"), Vec::new(), StatusCode::BadMethodInvalid),
        (id("Setpoint"), id("Reset"), level.clone(), StatusCode::BadMethodInvalid),
        (id("Secret"), id("Reset"), level.clone(), StatusCode::BadNodeIdUnknown),
    ];
    let calls =
        cases.iter().map(|(object, method, inputs, _)| (object.clone(), method.clone(), inputs.clone())).collect();
    let request = world.call_request(&login, calls);
    let response: CallResponse = world.ask(conn, &request).unwrap();
    let statuses: Vec<_> = response.results.iter().flatten().map(|result| result.status_code).collect();
    let expected: Vec<_> = cases.iter().map(|(_, _, _, status)| *status).collect();
    assert_eq!(statuses, expected);
    let results = response.results.unwrap().remove(2).input_argument_results;
    assert_eq!(results, Some(vec![StatusCode::BadTypeMismatch]));
    assert!(world.invoked.is_empty(), "nothing reached the application");

    let request = world.call_request(&login, vec![(id("Unit"), id("Reset"), level)]);
    let pending = world.send(conn, &request);
    let (call, invocation) = world.invoked.pop_front().expect("the call left");
    assert_eq!(invocation.inputs, [Variant::from(1.0)]);
    assert_eq!(invocation.caller.user.as_deref(), Some("alice"));
    assert_eq!(invocation.caller.application.as_deref(), Some(super::keys::CLIENT_URI));
    assert!(world.answer::<CallResponse>(conn, pending).is_none(), "not before the method answered");
    let answer = Answer { status: StatusCode::Good, input_results: Vec::new(), outputs: vec![Variant::from(2.0)] };
    world.input(Input::Answer { id: call, answer });
    let response = world.answer::<CallResponse>(conn, pending).unwrap().unwrap();
    assert_eq!(response.results.unwrap()[0].output_arguments, Some(vec![Variant::from(2.0)]));
    assert_eq!(world.outcomes(AuditKind::Call).last(), Some(&access_model::Outcome::Allowed));
}

#[test]
fn cancel_answers_what_waits_and_counts_it() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let request = world.call_request(&login, vec![(id("Unit"), id("Reset"), vec![Variant::from(1.0)])]);
    let handle = request.request_header.request_handle;
    let pending = world.send(conn, &request);
    let cancel = CancelRequest { request_header: world.header(&login.token), request_handle: handle };
    let response: CancelResponse = world.ask(conn, &cancel).unwrap();
    assert_eq!(response.cancel_count, 1);
    assert_eq!(world.answer::<CallResponse>(conn, pending), Some(Err(StatusCode::BadRequestCancelledByClient)));
    let (call, _) = world.invoked.pop_front().unwrap();
    let answer = Answer { status: StatusCode::Good, input_results: Vec::new(), outputs: Vec::new() };
    world.input(Input::Answer { id: call, answer });
    let response: CancelResponse = world.ask(conn, &cancel).unwrap();
    assert_eq!(response.cancel_count, 0);
}
