//! Each service: what is denied does not reach the plant, what is allowed reaches it as it was sent, order is kept.

use std::time::Duration;

use access_model::{AuditKind, Outcome, Reason, Rights};
use opcua_types::*;

use super::world::*;
use crate::guard::desk::encoded;
use crate::server::{Audited, ServerLimits};

const READ: ObjectId = ObjectId::ReadRequest_Encoding_DefaultBinary;
const WRITE: ObjectId = ObjectId::WriteRequest_Encoding_DefaultBinary;
const CALL: ObjectId = ObjectId::CallRequest_Encoding_DefaultBinary;
const LOOKED: ObjectId = ObjectId::BrowseRequest_Encoding_DefaultBinary;

/// The names that a Read brought to the plant.
fn names_read(world: &mut World) -> Vec<String> {
    let name = |item: &ReadValueId| item.node_id.identifier.to_string();
    let bodies = world.at_plant(READ);
    bodies.iter().flat_map(|body| field::<ReadValueId>(&body[12..]).iter().map(name).collect::<Vec<_>>()).collect()
}

pub(super) fn statuses(response: &ReadResponse) -> Vec<StatusCode> {
    response.results.iter().flatten().map(DataValue::status).collect()
}

pub(super) const BATCH: [&str; 7] = ["Setpoint", "Secret", "Pressure", "Speed", "Nothing", "Samples", "Vault"];

#[test]
fn a_read_is_decided_item_by_item() {
    use StatusCode as S;
    for hide_timing in [false, true] {
        let mut world = World::with(|config| config.hide_timing = hide_timing);
        let client = world.client();
        world.at_plant(READ);
        let response: ReadResponse = world.ask(client, read(&BATCH)).unwrap();
        let unknown = S::BadNodeIdUnknown;
        let expected = [S::Good, unknown, S::Good, S::BadUserAccessDenied, unknown, S::Good, unknown];
        assert_eq!(statuses(&response), expected);
        let values = response.results.unwrap();
        assert_eq!(values[0].value, Some(Variant::from(20.0)));
        assert_eq!(values[5].value, Some(Variant::from(vec![1, 2, 3])));
        let reached = names_read(&mut world);
        let permitted: Vec<&str> =
            reached.iter().map(String::as_str).filter(|name| BATCH.iter().any(|asked| name.ends_with(asked))).collect();
        assert_eq!(permitted, ["s=Setpoint", "s=Pressure", "s=Samples"]);
        assert_eq!(reached.len(), if hide_timing { 6 } else { 3 }, "{reached:?}");
    }
}

#[test]
fn when_all_is_denied_nothing_goes_upstream() {
    let mut world = World::new();
    let client = world.client();
    world.reached.clear();
    let response: ReadResponse = world.ask(client, read(&["Speed", "Speed"])).unwrap();
    assert_eq!(statuses(&response), [StatusCode::BadUserAccessDenied; 2]);
    let response: WriteResponse = world.ask(client, write(vec![("Speed", 1.into())])).unwrap();
    assert_eq!(response.results, Some(vec![StatusCode::BadUserAccessDenied]));
    let response: CallResponse = world.ask(client, call("Unit", "Stir")).unwrap();
    assert_eq!(response.results.unwrap()[0].status_code, StatusCode::BadUserAccessDenied);
    assert!(world.reached.is_empty());
}

#[test]
fn what_is_allowed_passes_as_it_was_sent_and_as_it_was_answered() {
    let mut world = World::new();
    let client = world.client();
    world.reached.clear();
    // A null string is not an empty one; a NaN keeps its payload, a date before 1601 its ticks, a structure its bytes.
    let id = encoded(&id("Note"));
    let attribute = 13_u32.to_le_bytes();
    let values: [&[u8]; 6] = [
        &[1, 12, 0xff, 0xff, 0xff, 0xff],
        &[1, 12, 0, 0, 0, 0],
        &[1, 11, 1, 2, 3, 4, 5, 6, 0xf8, 0x7f],
        &[1, 13, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x80],
        &[5, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0x80],
        &[1, 22, 2, 9, 0, 0x39, 0x30, 0, 0, 1, 3, 0, 0, 0, 7, 8, 9],
    ];
    for value in values {
        let item = [id.as_slice(), &attribute, &[0xff; 4], value].concat();
        let body = [1_i32.to_le_bytes().as_slice(), &item].concat();
        let ids = (WRITE, ObjectId::WriteResponse_Encoding_DefaultBinary);
        world.raw(client, ids, body.clone()).unwrap();
        assert_eq!(world.at_plant(WRITE), [body], "{value:?}");
    }
    // Two encodings of one id, one of them longer than needed.
    for id in [&[1, 0, 0xcf, 0x08][..], &[2, 0, 0, 0xcf, 0x08, 0, 0]] {
        let item = [id, attribute.as_slice(), &[0xff; 4], &[0, 0, 0xff, 0xff, 0xff, 0xff]].concat();
        let body = [[0; 8].as_slice(), &3_i32.to_le_bytes(), &1_i32.to_le_bytes(), &item].concat();
        let ids = (READ, ObjectId::ReadResponse_Encoding_DefaultBinary);
        world.raw(client, ids, body.clone()).unwrap();
        assert_eq!(world.at_plant(READ), [body]);
    }
}

#[test]
fn bodies_with_a_second_meaning_are_refused_and_reach_nobody() {
    let mut world = World::new();
    let client = world.client();
    world.reached.clear();
    let good = body_of(&read(&["Setpoint"]));
    let good_write = body_of(&write(vec![("Setpoint", 1.0.into())]));
    let item = [encoded(&id("Note")).as_slice(), &13_u32.to_le_bytes(), &[0xff; 4]].concat();
    let one = |value: &[u8]| [1_i32.to_le_bytes().as_slice(), &item, value].concat();
    let ids = |request, response| (request, response);
    let read_ids = ids(READ, ObjectId::ReadResponse_Encoding_DefaultBinary);
    let write_ids = ids(WRITE, ObjectId::WriteResponse_Encoding_DefaultBinary);
    for (rule, ids, body) in [
        ("bytes behind a read", read_ids, [good.as_slice(), &[0]].concat()),
        ("a read cut off", read_ids, good[..good.len() - 1].to_vec()),
        ("bytes behind a write", write_ids, [good_write.as_slice(), &[0]].concat()),
        ("an unknown bit in a data value", write_ids, one(&[0x41, 1, 1])),
        ("an array bit without an array", write_ids, one(&[1, 0x41, 1])),
        ("a structure longer than its message", write_ids, one(&[1, 22, 0, 1, 1, 0xff, 0, 0, 0, 1])),
        ("a length of -2", write_ids, one(&[1, 12, 0xfe, 0xff, 0xff, 0xff])),
    ] {
        assert_eq!(world.raw(client, ids, body), Err(StatusCode::BadDecodingError), "{rule}");
    }
    assert!(world.reached.is_empty());
}

#[test]
fn a_structure_that_may_lie_about_its_length_is_the_last_thing_the_server_reads() {
    let mut world = World::new();
    let client = world.client();
    world.reached.clear();
    // A Range tells 4 bytes and has 16: a server that does not believe the length goes on inside the next item.
    let item = |value: &[u8]| [encoded(&id("Note")).as_slice(), &13_u32.to_le_bytes(), &[0xff; 4], value].concat();
    let lying = item(&[1, 22, 1, 0, 0x76, 3, 1, 4, 0, 0, 0, 1, 2, 3, 4]);
    let plain = item(&[1, 1, 1]);
    let body = [3_i32.to_le_bytes().as_slice(), &plain, &lying, &plain].concat();
    let ids = (WRITE, ObjectId::WriteResponse_Encoding_DefaultBinary);
    world.raw(client, ids, body).unwrap();
    let one = |item: &[u8]| [1_i32.to_le_bytes().as_slice(), item].concat();
    assert_eq!(world.at_plant(WRITE), [one(&plain), one(&lying), one(&plain)]);
}

#[test]
fn writes_wait_for_their_record_and_for_the_right_to_be_still_there() {
    let mut world = World::new();
    let rights = vec![(Rights::ALL, 1)];
    let client = world.client_by_token(rights, Duration::from_secs(30));
    world.ledger = None;
    world.reached.clear();
    let call = world.send(client, write(vec![("Setpoint", 5.0.into()), ("Secret", "x".into())]));
    assert!(world.at_plant(WRITE).is_empty(), "not before the record is kept");
    assert!(world.answer(client, call).is_none());
    let id = world.unacknowledged.pop().unwrap();
    world.ledger = Some(Audited::Kept);
    let kept = crate::server::Input::Audited { id, result: Audited::Kept };
    world.guard.handle_input(crate::guard::Input::Down(kept), world.now);
    world.run();
    let answer = WriteResponse::try_from(world.answer(client, call).unwrap().unwrap()).unwrap();
    assert_eq!(answer.results, Some(vec![StatusCode::Good, StatusCode::BadNodeIdUnknown]));
    let reached = field::<WriteValue>(&world.at_plant(WRITE)[0]);
    assert_eq!(reached[0].node_id, super::world::id("Setpoint"));
    assert!(reached[1..].iter().all(|item| item.node_id.namespace == 1 && item.value.value.is_none()), "no value");

    // The ledger is slow and the grant ends meanwhile: nothing is written.
    world.ledger = None;
    let call = world.send(client, write(vec![("Setpoint", 6.0.into())]));
    world.pass(Duration::from_secs(31));
    let id = world.unacknowledged.pop().unwrap();
    let kept = crate::server::Input::Audited { id, result: Audited::Kept };
    world.guard.handle_input(crate::guard::Input::Down(kept), world.now);
    world.run();
    let answer = world.answer(client, call).unwrap();
    assert!(matches!(answer, Err(StatusCode::BadTimeout) | Ok(_)), "{answer:?}");
    assert!(world.at_plant(WRITE).is_empty());
}

#[test]
fn a_write_whose_record_cannot_be_kept_is_not_made() {
    let mut world = World::new();
    let client = world.client();
    world.ledger = Some(Audited::Unavailable);
    let response: WriteResponse = world.ask(client, write(vec![("Setpoint", 5.0.into())])).unwrap();
    assert_eq!(response.results, Some(vec![StatusCode::BadResourceUnavailable]));
    assert!(world.at_plant(WRITE).is_empty());
}

#[test]
fn other_attributes_take_other_rights() {
    let mut world = World::new();
    let client = world.client();
    let item = |attribute: AttributeId| WriteValue {
        node_id: id("Setpoint"),
        attribute_id: attribute as u32,
        value: DataValue::value_only(true),
        ..WriteValue::default()
    };
    let attributes = [AttributeId::Description, AttributeId::Historizing, AttributeId::RolePermissions];
    let request = WriteRequest { nodes_to_write: Some(attributes.map(item).to_vec()), ..Default::default() };
    let response: WriteResponse = world.ask(client, request).unwrap();
    assert_eq!(response.results, Some(vec![StatusCode::BadUserAccessDenied; 3]));
    assert!(world.at_plant(WRITE).is_empty());
}

#[test]
fn what_a_session_may_do_is_what_both_sides_allow() {
    let mut world = World::new();
    let client = world.client();
    let ask = |name: &str, attribute: AttributeId| ReadValueId {
        node_id: id(name),
        attribute_id: attribute as u32,
        ..ReadValueId::default()
    };
    let items = vec![
        ask("Setpoint", AttributeId::UserAccessLevel),
        ask("Pressure", AttributeId::UserAccessLevel),
        ask("Speed", AttributeId::UserAccessLevel),
        ask("Speed", AttributeId::AccessLevel),
        ask("Reset", AttributeId::UserExecutable),
        ask("Stir", AttributeId::UserExecutable),
    ];
    let request = ReadRequest {
        timestamps_to_return: TimestampsToReturn::Neither,
        nodes_to_read: Some(items),
        ..ReadRequest::default()
    };
    let response: ReadResponse = world.ask(client, request).unwrap();
    let values: Vec<Option<Variant>> = response.results.unwrap().into_iter().map(|value| value.value).collect();
    let expected = [99_u8.into(), 1_u8.into(), 0_u8.into(), 99_u8.into(), true.into(), false.into()];
    assert_eq!(values, expected.map(Some));
}

#[test]
fn the_guard_answers_for_itself() {
    let mut world = World::new();
    let client = world.client();
    let nodes = [2254_u32, 2255, 11_705, 2275, 12_637].map(|number| value_of(NodeId::new(0, number)));
    let request = ReadRequest {
        timestamps_to_return: TimestampsToReturn::Neither,
        nodes_to_read: Some(nodes.to_vec()),
        ..ReadRequest::default()
    };
    let response: ReadResponse = world.ask(client, request).unwrap();
    let values = response.results.unwrap();
    assert_eq!(values[0].value, Some(Variant::from(vec!["urn:test:guard".to_owned()])), "ServerArray");
    let namespaces = vec!["http://opcfoundation.org/UA/".to_owned(), PLANT.to_owned()];
    assert_eq!(values[1].value, Some(Variant::from(namespaces)), "NamespaceArray");
    assert_eq!(values[2].value, Some(Variant::from(crate::space::Limits::default().max_nodes_per_read)));
    assert_eq!(values[3].status(), StatusCode::BadNodeIdUnknown, "ServerDiagnosticsSummary");
    assert_eq!(values[4].status(), StatusCode::BadNodeIdUnknown, "ServerConfiguration");
}

pub(super) fn browse(nodes: &[&str], max: u32) -> BrowseRequest {
    let one = |name: &&str| BrowseDescription {
        node_id: id(name),
        browse_direction: BrowseDirection::Forward,
        reference_type_id: NodeId::new(0, 33_u32),
        include_subtypes: true,
        node_class_mask: 0,
        result_mask: 63,
    };
    BrowseRequest {
        requested_max_references_per_node: max,
        nodes_to_browse: Some(nodes.iter().map(one).collect()),
        ..BrowseRequest::default()
    }
}

fn names(result: &BrowseResult) -> Vec<String> {
    result.references.iter().flatten().map(|reference| reference.browse_name.name.as_ref().to_owned()).collect()
}

const SEEN: [&str; 7] = ["Setpoint", "Pressure", "Samples", "Note", "Speed", "Reset", "Stir"];

#[test]
fn hidden_nodes_are_left_out_of_browse_and_pages_are_full() {
    let mut world = World::new();
    let client = world.client();
    let response: BrowseResponse = world.ask(client, browse(&["Unit", "Vault", "Nothing"], 0)).unwrap();
    let results = response.results.unwrap();
    assert_eq!(names(&results[0]), SEEN);
    assert_eq!(results[1].status_code, StatusCode::BadNodeIdUnknown);
    assert_eq!(results[2].status_code, StatusCode::BadNodeIdUnknown);

    for max in 1..=7 {
        let response: BrowseResponse = world.ask(client, browse(&["Unit"], max)).unwrap();
        let mut result = response.results.unwrap().remove(0);
        let mut seen = names(&result);
        assert_eq!(seen.len(), max as usize);
        while !result.continuation_point.is_null_or_empty() {
            let request = BrowseNextRequest {
                continuation_points: Some(vec![result.continuation_point.clone()]),
                ..BrowseNextRequest::default()
            };
            let response: BrowseNextResponse = world.ask(client, request).unwrap();
            result = response.results.unwrap().remove(0);
            let page = names(&result);
            assert!(page.len() == max as usize || result.continuation_point.is_null_or_empty(), "{page:?}");
            seen.extend(page);
        }
        assert_eq!(seen, SEEN, "pages of {max}");
    }
}

#[test]
fn continuation_points_are_the_sessions_own() {
    let mut world = World::new();
    let (one, other) = (world.client(), world.client());
    let response: BrowseResponse = world.ask(one, browse(&["Unit"], 1)).unwrap();
    let point = response.results.unwrap().remove(0).continuation_point;
    let next = |point: &ByteString, release| BrowseNextRequest {
        release_continuation_points: release,
        continuation_points: Some(vec![point.clone()]),
        ..BrowseNextRequest::default()
    };
    let response: BrowseNextResponse = world.ask(other, next(&point, false)).unwrap();
    assert_eq!(response.results.unwrap()[0].status_code, StatusCode::BadContinuationPointInvalid);
    let response: BrowseNextResponse = world.ask(one, next(&point, true)).unwrap();
    assert_eq!(response.results.unwrap()[0].status_code, StatusCode::Good);
    let response: BrowseNextResponse = world.ask(one, next(&point, false)).unwrap();
    assert_eq!(response.results.unwrap()[0].status_code, StatusCode::BadContinuationPointInvalid);
    let many = (0..20).map(|_| {
        let response: BrowseResponse = world.ask(one, browse(&["Unit"], 1)).unwrap();
        response.results.unwrap()[0].status_code
    });
    let refused = many.filter(|status| *status == StatusCode::BadNoContinuationPoints).count();
    assert_eq!(refused, 4, "16 are kept");
}

fn path(start: &str, names: &[&str]) -> BrowsePath {
    let element = |name: &&str| RelativePathElement {
        reference_type_id: NodeId::new(0, 33_u32),
        is_inverse: false,
        include_subtypes: true,
        target_name: QualifiedName::new(1, *name),
    };
    let elements = Some(names.iter().map(element).collect());
    BrowsePath { starting_node: id(start), relative_path: RelativePath { elements } }
}

#[test]
fn no_path_leads_over_a_hidden_node() {
    let mut world = World::new();
    let client = world.client();
    world.reached.clear();
    let paths = vec![
        path("Unit", &["Setpoint"]),
        path("Unit", &["Secret"]),
        path("Unit", &["Vault", "Inner"]),
        path("Vault", &["Inner"]),
        path("Unit", &["Speed"]),
        path("Unit", &["Absent"]),
        path("Unit", &[]),
    ];
    let request = TranslateBrowsePathsToNodeIdsRequest { browse_paths: Some(paths), ..Default::default() };
    let response: TranslateBrowsePathsToNodeIdsResponse = world.ask(client, request).unwrap();
    let results = response.results.unwrap();
    use StatusCode as S;
    let statuses: Vec<S> = results.iter().map(|result| result.status_code).collect();
    let expected =
        [S::Good, S::BadNoMatch, S::BadNoMatch, S::BadNodeIdUnknown, S::Good, S::BadNoMatch, S::BadNothingToDo];
    assert_eq!(statuses, expected);
    assert_eq!(results[0].targets.as_ref().unwrap()[0].target_id.node_id, id("Setpoint"));
    let reached = world.at_plant(LOOKED);
    assert!(!reached.is_empty());
    for body in reached {
        let asked = field::<BrowseDescription>(&body[18..]);
        assert!(asked.iter().all(|one| one.node_id != id("Vault")), "the hidden step is not gone on from");
    }
}

/// The server is asked the same whatever a step is called, so that the time it takes to find a name tells nothing.
#[test]
fn the_server_does_not_hear_what_a_path_is_looking_for() {
    let mut world = World::new();
    let client = world.client();
    let mut asked = |names: &[&str]| {
        let request = TranslateBrowsePathsToNodeIdsRequest {
            browse_paths: Some(vec![path("Unit", names)]),
            ..Default::default()
        };
        world.reached.clear();
        let response: TranslateBrowsePathsToNodeIdsResponse = world.ask(client, request).unwrap();
        let reached = world.reached.len();
        (world.at_plant(LOOKED), reached, response.results.unwrap()[0].status_code)
    };
    let hidden = asked(&["Secret"]);
    assert_eq!((hidden.0.len(), hidden.1, hidden.2), (1, 1, StatusCode::BadNoMatch));
    assert_eq!(asked(&["Absent"]), hidden);
    assert_eq!(asked(&["Vault", "Inner"]), hidden, "a hidden step is the last");
    assert_eq!(asked(&["Setpoint"]).0, hidden.0);
}

/// A server that tells little at once, and has few places to go on from.
#[test]
fn paths_are_followed_through_all_that_a_node_leads_to() {
    for points in [1, 2, 100] {
        let mut world = World::new();
        world.bound_plant(ServerLimits {
            max_references: 2,
            max_continuation_points: points,
            ..ServerLimits::default()
        });
        let client = world.client();
        let names = ["Setpoint", "Stir", "Secret", "Speed", "Absent"];
        let mut paths: Vec<BrowsePath> = names.iter().map(|name| path("Unit", &[name])).collect();
        paths.push(BrowsePath { starting_node: NodeId::new(0, 85_u32), ..path("Unit", &["Unit", "Reset"]) });
        let request = TranslateBrowsePathsToNodeIdsRequest { browse_paths: Some(paths), ..Default::default() };
        let response: TranslateBrowsePathsToNodeIdsResponse = world.ask(client, request).unwrap();
        let found: Vec<Option<NodeId>> = response
            .results
            .unwrap()
            .into_iter()
            .map(|result| result.targets.unwrap_or_default().pop().map(|target| target.target_id.node_id))
            .collect();
        let expected = [Some("Setpoint"), Some("Stir"), None, Some("Speed"), None, Some("Reset")];
        assert_eq!(found, expected.map(|name| name.map(id)), "{points} places");
    }
}

#[test]
fn an_alias_keeps_the_scope_of_its_node() {
    let mut world = World::new();
    let client = world.client();
    let register = |names: &[&str]| RegisterNodesRequest {
        nodes_to_register: Some(names.iter().map(|name| id(name)).collect()),
        ..RegisterNodesRequest::default()
    };
    let response: RegisterNodesResponse = world.ask(client, register(&["Setpoint", "Speed"])).unwrap();
    assert_eq!(response.registered_node_ids, Some(vec![id("Setpoint"), id("Speed")]));
    let hidden: Result<RegisterNodesResponse, _> = world.ask(client, register(&["Setpoint", "Secret"]));
    assert_eq!(hidden.unwrap_err(), StatusCode::BadNodeIdUnknown);
    let request = UnregisterNodesRequest {
        nodes_to_unregister: Some(vec![id("Setpoint"), id("Secret")]),
        ..UnregisterNodesRequest::default()
    };
    world.reached.clear();
    let _response: UnregisterNodesResponse = world.ask(client, request).unwrap();
    let reached = world.at_plant(ObjectId::UnregisterNodesRequest_Encoding_DefaultBinary);
    assert_eq!(field::<NodeId>(&reached[0]), [id("Setpoint")]);
}

#[test]
fn a_call_takes_the_right_on_object_and_method() {
    let mut world = World::new();
    let client = world.client();
    use StatusCode as S;
    for (object, method, expected) in [
        ("Unit", "Stir", S::BadUserAccessDenied),
        ("Unit", "Open", S::BadNodeIdUnknown),
        ("Vault", "Reset", S::BadNodeIdUnknown),
        ("Speed", "Reset", S::BadUserAccessDenied),
        ("Vault", "Stir", S::BadNodeIdUnknown),
    ] {
        world.reached.clear();
        let response: CallResponse = world.ask(client, call(object, method)).unwrap();
        assert_eq!(response.results.unwrap()[0].status_code, expected, "{method} on {object}");
        for body in world.at_plant(CALL) {
            let reached = field::<CallMethodRequest>(&body);
            assert!(reached.iter().all(|call| call.method_id != id(method) && call.input_arguments.is_none()));
        }
        assert!(world.invoked.is_empty());
    }
    let sent = world.send(client, call("Unit", "Reset"));
    assert_eq!(world.returned(vec![Variant::from("done")]).inputs, [Variant::from(1.0)]);
    let response = CallResponse::try_from(world.answer(client, sent).unwrap().unwrap()).unwrap();
    assert_eq!(response.results.unwrap()[0].output_arguments, Some(vec![Variant::from("done")]));
}

#[test]
fn after_expiry_nothing_obtained_under_the_grant_goes_down() {
    let mut world = World::new();
    let client = world.client_by_token(vec![(Rights::ALL, 1)], Duration::from_secs(10));
    let called = world.send(client, call("Unit", "Reset"));
    world.hold = true;
    let reading = world.send(client, read(&["Setpoint"]));
    let browsing = world.send(client, browse(&["Unit"], 0));
    let writing = world.send(client, write(vec![("Setpoint", 3.0.into())]));
    world.pass(Duration::from_secs(11));
    world.release();
    assert_eq!(world.answer(client, reading).unwrap().unwrap_err(), StatusCode::BadUserAccessDenied);
    assert_eq!(world.answer(client, browsing).unwrap().unwrap_err(), StatusCode::BadUserAccessDenied);
    let written = WriteResponse::try_from(world.answer(client, writing).unwrap().unwrap()).unwrap();
    assert_eq!(written.results, Some(vec![StatusCode::Good]), "its status is told");
    world.returned(vec![Variant::from("done")]);
    let response = CallResponse::try_from(world.answer(client, called).unwrap().unwrap()).unwrap();
    let result = response.results.unwrap().remove(0);
    assert_eq!((result.status_code, result.output_arguments), (StatusCode::Good, None), "its status and no more");
    world.reached.clear();
    let refused: Result<ReadResponse, _> = world.ask(client, read(&["Setpoint"]));
    assert_eq!(refused.unwrap_err(), StatusCode::BadUserAccessDenied);
    assert!(world.at_plant(READ).is_empty());
}

#[test]
fn a_grant_that_lives_again_does_not_bring_back_what_was_on_the_way() {
    let mut world = World::new();
    let client = world.client_by_token(vec![(Rights::ALL, 1)], Duration::from_secs(10));
    let called = world.send(client, call("Unit", "Reset"));
    world.pass(Duration::from_secs(11));
    let token = world.token("alice", vec![(Rights::ALL, 1)], Duration::from_secs(60));
    world.peers.get_mut(&client).unwrap().session.reactivate(token, world.now);
    world.run();
    let response: ReadResponse = world.ask(client, read(&["Setpoint"])).unwrap();
    assert_eq!(statuses(&response), [StatusCode::Good]);
    world.returned(vec![Variant::from("done")]);
    let response = CallResponse::try_from(world.answer(client, called).unwrap().unwrap()).unwrap();
    assert_eq!(response.results.unwrap()[0].output_arguments, None);
}

#[test]
fn denials_are_recorded_and_reads_are_counted() {
    let mut world = World::new();
    let client = world.client();
    let _response: ReadResponse = world.ask(client, read(&BATCH)).unwrap();
    let _response: WriteResponse = world.ask(client, write(vec![("Setpoint", 5.0.into())])).unwrap();
    world.pass(Duration::from_secs(2));
    let of = |kind: AuditKind, outcome: Outcome| -> u64 {
        let same = world.records.iter().filter(|record| record.kind == kind && record.outcome == outcome);
        same.map(|record| record.count).sum()
    };
    assert_eq!(of(AuditKind::Read, Outcome::Denied(Reason::ScopeNotGranted)), 3);
    assert_eq!(of(AuditKind::Read, Outcome::Denied(Reason::RightMissing)), 1);
    assert_eq!(of(AuditKind::Read, Outcome::Allowed), 3);
    assert_eq!(of(AuditKind::Write, Outcome::Allowed), 1);
}
