//! What changes the plant: node management, ranges, restrictions of the channel, and the way of what is hidden.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use access_model::{AuditKind, Outcome, Reason, Restrictions, Rights};
use opcua_types::*;

use super::world::*;
use crate::client::Credential;
use crate::guard::{Layout, ScopeRule, WriteRange};
use crate::server::front::{Reader, Service, write_header, write_len, write_no_diagnostics};
use crate::server::{Audited, Input};

pub(super) type Ids = (ObjectId, ObjectId);

pub(super) const ADD_NODES: Ids =
    (ObjectId::AddNodesRequest_Encoding_DefaultBinary, ObjectId::AddNodesResponse_Encoding_DefaultBinary);
pub(super) const ADD_REFERENCES: Ids =
    (ObjectId::AddReferencesRequest_Encoding_DefaultBinary, ObjectId::AddReferencesResponse_Encoding_DefaultBinary);
pub(super) const DELETE_NODES: Ids =
    (ObjectId::DeleteNodesRequest_Encoding_DefaultBinary, ObjectId::DeleteNodesResponse_Encoding_DefaultBinary);
pub(super) const DELETE_REFERENCES: Ids = (
    ObjectId::DeleteReferencesRequest_Encoding_DefaultBinary,
    ObjectId::DeleteReferencesResponse_Encoding_DefaultBinary,
);
pub(super) const HISTORY_UPDATE: Ids =
    (ObjectId::HistoryUpdateRequest_Encoding_DefaultBinary, ObjectId::HistoryUpdateResponse_Encoding_DefaultBinary);

/// A server that does whatever it is asked, item by item.
pub(super) fn obliging() -> Script {
    Box::new(|service, body, handle| {
        let (ids, result): (Ids, &[u8]) = match service {
            Service::AddNodes => (ADD_NODES, &[0, 0, 0, 0, 0, 9]),
            Service::AddReferences => (ADD_REFERENCES, &[0; 4]),
            Service::DeleteNodes => (DELETE_NODES, &[0; 4]),
            Service::DeleteReferences => (DELETE_REFERENCES, &[0; 4]),
            _ => (HISTORY_UPDATE, &[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        };
        let count = Reader::new(body).array_len(1)?;
        let mut out = Vec::new();
        write_header(&mut out, ids.1, start(), handle, StatusCode::Good);
        write_len(&mut out, count);
        (0..count).for_each(|_| out.extend_from_slice(result));
        write_no_diagnostics(&mut out);
        Ok(out)
    })
}

/// The first four bytes of each result of this length.
pub(super) fn statuses(body: &[u8], length: usize) -> Vec<StatusCode> {
    let mut reader = Reader::new(body);
    let count = reader.array_len(1).unwrap();
    (0..count).map(|_| StatusCode::from(Reader::new(reader.bytes(length).unwrap()).u32().unwrap())).collect()
}

fn expanded(name: &str) -> ExpandedNodeId {
    ExpandedNodeId::from(id(name))
}

pub(super) fn new_node(parent: &str, wanted: ExpandedNodeId) -> AddNodesItem {
    AddNodesItem {
        parent_node_id: expanded(parent),
        reference_type_id: NodeId::new(0, 35_u32),
        requested_new_node_id: wanted,
        browse_name: QualifiedName::new(1, "New"),
        node_class: NodeClass::Object,
        node_attributes: ExtensionObject::from_message(ObjectAttributes::default()),
        type_definition: ExpandedNodeId::from(NodeId::new(0, 58_u32)),
    }
}

pub(super) fn new_reference(source: &str, target: &str) -> AddReferencesItem {
    AddReferencesItem {
        source_node_id: id(source),
        reference_type_id: NodeId::new(0, 35_u32),
        is_forward: true,
        target_server_uri: UAString::null(),
        target_node_id: expanded(target),
        target_node_class: NodeClass::Variable,
    }
}

pub(super) fn old_reference(source: &str, target: &str) -> DeleteReferencesItem {
    DeleteReferencesItem {
        source_node_id: id(source),
        reference_type_id: NodeId::new(0, 35_u32),
        is_forward: true,
        target_node_id: expanded(target),
        delete_bidirectional: true,
    }
}

/// Everything on the reactor; the mixer is seen, and nodes may be added there but no references.
fn builder(world: &mut World) -> crate::server::ConnId {
    world.script = Some(obliging());
    world.client_by_token(vec![(Rights::ALL, 1), (Rights::BROWSE | Rights::ADD_NODE, 2)], Duration::from_secs(600))
}

#[test]
fn node_management_takes_the_rights_of_every_node_it_touches() {
    use StatusCode as S;
    let denied = S::BadUserAccessDenied;
    let none = ExpandedNodeId::null();
    let foreign = ExpandedNodeId { server_index: 1, ..expanded("Unit") };
    let named = ExpandedNodeId { namespace_uri: PLANT.into(), ..expanded("Unit") };
    let add = AddNodesRequest {
        nodes_to_add: Some(vec![
            new_node("Unit", none.clone()),
            new_node("Unit", expanded("Setpoint")),
            new_node("Speed", none.clone()),
            new_node("Vault", none.clone()),
            new_node("Unit", expanded("Vault")),
            AddNodesItem { parent_node_id: foreign, ..new_node("Unit", none.clone()) },
            AddNodesItem { parent_node_id: named, ..new_node("Unit", none.clone()) },
            AddNodesItem { parent_node_id: ExpandedNodeId::null(), ..new_node("Unit", none.clone()) },
            AddNodesItem { type_definition: expanded("Vault"), ..new_node("Unit", none) },
        ]),
        ..AddNodesRequest::default()
    };
    let parent = S::BadParentNodeIdInvalid;
    let references =
        [("Unit", "Pressure"), ("Unit", "Speed"), ("Unit", "Secret"), ("Secret", "Unit"), ("Speed", "Unit")];
    let source = S::BadSourceNodeIdInvalid;
    let expected_references = vec![S::Good, denied, source, source, denied];
    let add_references = AddReferencesRequest {
        references_to_add: Some(references.map(|(from, to)| new_reference(from, to)).to_vec()),
        ..AddReferencesRequest::default()
    };
    let delete_references = DeleteReferencesRequest {
        references_to_delete: Some(references.map(|(from, to)| old_reference(from, to)).to_vec()),
        ..DeleteReferencesRequest::default()
    };
    let node = |name| DeleteNodesItem { node_id: id(name), delete_target_references: true };
    let delete = DeleteNodesRequest {
        nodes_to_delete: Some(["Setpoint", "Speed", "Secret", "Note"].map(node).to_vec()),
        ..DeleteNodesRequest::default()
    };
    let cases = [
        (
            ADD_NODES,
            body_of(&add),
            vec![S::Good, S::Good, denied, parent, parent, parent, parent, parent, parent],
            6,
            2,
        ),
        (ADD_REFERENCES, body_of(&add_references), expected_references.clone(), 4, 1),
        (DELETE_REFERENCES, body_of(&delete_references), expected_references, 4, 1),
        (DELETE_NODES, body_of(&delete), vec![S::Good, denied, S::BadNodeIdUnknown, S::Good], 4, 2),
    ];
    for (ids, body, expected, length, allowed) in cases {
        let mut world = World::with(|config| config.hide_timing = false);
        let client = builder(&mut world);
        let before = world.records.len();
        world.reached.clear();
        let response = world.raw(client, ids, body).unwrap();
        assert_eq!(statuses(&response, length), expected, "{ids:?}");
        let count = |body: &Vec<u8>| Reader::new(body).array_len(1).unwrap();
        let sent: usize = world.at_plant(ids.0).iter().map(count).sum();
        assert_eq!(sent, allowed, "{ids:?} reaches the plant");
        let kept = world.records[before..].iter();
        let kept = kept.filter(|record| record.kind == AuditKind::NodesChanged && record.outcome == Outcome::Allowed);
        assert_eq!(kept.count(), allowed, "a record each");
    }
}

#[test]
fn node_management_of_hidden_nodes_asks_for_what_never_exists() {
    let mut world = World::new();
    let client = builder(&mut world);
    world.reached.clear();
    let request =
        AddNodesRequest { nodes_to_add: Some(vec![new_node("Vault", expanded("Mine"))]), ..AddNodesRequest::default() };
    let response = world.raw(client, ADD_NODES, body_of(&request)).unwrap();
    assert_eq!(statuses(&response, 6), [StatusCode::BadParentNodeIdInvalid], "whatever the server says");
    let sent = world.at_plant(ADD_NODES.0);
    let item = &field::<AddNodesItem>(&sent[0])[0];
    assert!(matches!(item.parent_node_id.node_id.identifier, Identifier::Guid(_)));
    assert!(item.node_attributes.is_null() && item.node_class == NodeClass::Unspecified);
}

#[test]
fn history_is_changed_by_the_right_for_each_kind_of_change() {
    use StatusCode as S;
    let update = |kind, node| {
        ExtensionObject::from_message(UpdateDataDetails {
            node_id: id(node),
            perform_insert_replace: kind,
            update_values: Some(vec![DataValue::value_only(1.0)]),
        })
    };
    let delete = |node| {
        let time = DateTime::from(1);
        let (start_time, end_time) = (time, time);
        ExtensionObject::from_message(DeleteRawModifiedDetails {
            node_id: id(node),
            is_delete_modified: false,
            start_time,
            end_time,
        })
    };
    let events = DeleteEventDetails { node_id: id("Note"), event_ids: None };
    use PerformUpdateType as P;
    let items = vec![
        update(P::Insert, "Setpoint"),
        update(P::Replace, "Setpoint"),
        update(P::Update, "Setpoint"),
        update(P::Remove, "Setpoint"),
        delete("Setpoint"),
        update(P::Insert, "Speed"),
        update(P::Insert, "Secret"),
        delete("Secret"),
        ExtensionObject::from_message(events),
        ExtensionObject::from_message(EventFilter::default()),
    ];
    let request = HistoryUpdateRequest { history_update_details: Some(items), ..HistoryUpdateRequest::default() };
    let body = body_of(&request);
    let (denied, unknown, unsupported) =
        (S::BadUserAccessDenied, S::BadNodeIdUnknown, S::BadHistoryOperationUnsupported);
    let browse = Rights::BROWSE;
    for (rule, held, expected) in [
        ("insert", browse | Rights::INSERT_HISTORY, [S::Good, denied, denied, denied, denied]),
        ("modify", browse | Rights::MODIFY_HISTORY, [denied, S::Good, denied, denied, denied]),
        ("both", browse | Rights::INSERT_HISTORY | Rights::MODIFY_HISTORY, [S::Good, S::Good, S::Good, denied, denied]),
        ("delete", browse | Rights::DELETE_HISTORY, [denied, denied, denied, S::Good, S::Good]),
        ("write only", browse | Rights::WRITE | Rights::READ_HISTORY, [denied; 5]),
    ] {
        let mut world = World::new();
        world.script = Some(obliging());
        let client = world.client_by_token(vec![(held, 1), (browse, 2)], Duration::from_secs(600));
        let response = world.raw(client, HISTORY_UPDATE, body.clone()).unwrap();
        let deleted = expected[4];
        let expected = [expected.as_slice(), &[denied, unknown, unknown, deleted, unsupported]].concat();
        let expected = expected.as_slice();
        assert_eq!(statuses(&response, 12), expected, "{rule}");
    }
    let mut lying = body;
    // The length of the first details: behind the count, the type id and the encoding.
    lying[9] ^= 1;
    let mut world = World::new();
    let client = builder(&mut world);
    assert_eq!(world.raw(client, HISTORY_UPDATE, lying), Err(S::BadDecodingError));
}

#[test]
fn a_range_holds_for_every_number_that_is_written() {
    use StatusCode as S;
    let mut world = World::with(|config| {
        let range = |node: &str| WriteRange { namespace: PLANT.into(), node: node.into(), low: 0.0, high: 100.0 };
        config.write_ranges = vec![range("Setpoint"), range("Samples")];
    });
    let client = world.client();
    let outside = S::BadOutOfRange;
    for (rule, node, value, expected) in [
        ("inside", "Setpoint", Variant::from(100.0), S::Good),
        ("above", "Setpoint", Variant::from(100.5), outside),
        ("below", "Setpoint", Variant::from(-0.5), outside),
        ("not a number", "Setpoint", Variant::from(f64::NAN), outside),
        ("a text", "Setpoint", Variant::from("50"), outside),
        ("nothing", "Setpoint", Variant::Empty, outside),
        ("in a variant", "Setpoint", Variant::Variant(Box::new(Variant::from(500.0))), outside),
        ("an array inside", "Samples", Variant::from(vec![1, 2]), S::Good),
        ("one element above", "Samples", Variant::from(vec![1, 101]), outside),
        ("no range", "Note", Variant::from("x"), S::Good),
    ] {
        let response: WriteResponse = world.ask(client, write(vec![(node, value)])).unwrap();
        assert_eq!(response.results, Some(vec![expected]), "{rule}");
    }
    let part = WriteValue {
        node_id: id("Samples"),
        attribute_id: 13,
        index_range: "1".parse().unwrap(),
        value: DataValue::value_only(vec![101_i32]),
    };
    world.reached.clear();
    let request = WriteRequest { nodes_to_write: Some(vec![part]), ..WriteRequest::default() };
    let response: WriteResponse = world.ask(client, request).unwrap();
    assert_eq!(response.results, Some(vec![outside]), "a part of an array");
    assert!(world.at_plant(ObjectId::WriteRequest_Encoding_DefaultBinary).is_empty());
    let out = world.records.iter().filter(|record| record.outcome == Outcome::Denied(Reason::ValueOutOfRange));
    assert!(out.count() >= 1);
}

#[test]
fn a_channel_that_is_too_weak_may_browse_and_nothing_else() {
    use StatusCode as S;
    let mut world = World::with(|config| config.restrictions = (Restrictions::SIGNING, Vec::new()));
    let weak = world.client();
    world.reached.clear();
    let response: ReadResponse = world.ask(weak, read(&["Setpoint", "Secret"])).unwrap();
    let status: Vec<_> = response.results.unwrap().iter().map(DataValue::status).collect();
    assert_eq!(status, [S::BadSecurityModeInsufficient, S::BadNodeIdUnknown], "what is hidden stays hidden");
    let response: WriteResponse = world.ask(weak, write(vec![("Setpoint", 1.0.into())])).unwrap();
    assert_eq!(response.results, Some(vec![S::BadSecurityModeInsufficient]));
    let response: CallResponse = world.ask(weak, call("Unit", "Reset")).unwrap();
    assert_eq!(response.results.unwrap()[0].status_code, S::BadSecurityModeInsufficient);
    let (_, results) = super::subscriptions::subscribe(&mut world, weak, &["Setpoint"]);
    assert_eq!(results[0].status_code, S::BadSecurityModeInsufficient);
    assert!(world.at_plant(ObjectId::WriteRequest_Encoding_DefaultBinary).is_empty());
    let strong = world.client_by_token(vec![(Rights::ALL, 1)], Duration::from_secs(600));
    let response: ReadResponse = world.ask(strong, read(&["Setpoint"])).unwrap();
    assert_eq!(response.results.unwrap()[0].status(), S::Good);
}

/// A write and a call of a hidden node wait for the ledger as real ones do, and go upstream.
#[test]
fn what_is_hidden_takes_the_way_of_what_is_not_there() {
    for service in ["write", "call"] {
        let mut world = World::new();
        let client = world.client();
        world.ledger = None;
        world.reached.clear();
        let before = world.records.len();
        let (kind, asked) = match service {
            "write" => (
                ObjectId::WriteRequest_Encoding_DefaultBinary,
                world.send(client, write(vec![("Secret", "x".into()), ("Vault", "x".into())])),
            ),
            _ => (ObjectId::CallRequest_Encoding_DefaultBinary, world.send(client, call("Unit", "Open"))),
        };
        assert!(world.answer(client, asked).is_none(), "{service} waits for the ledger");
        assert!(world.at_plant(kind).is_empty());
        let waiting = world.unacknowledged.pop().expect("a record to wait for");
        world.ledger = Some(Audited::Kept);
        let kept = Input::Audited { id: waiting, result: Audited::Kept };
        world.guard.handle_input(crate::guard::Input::Down(kept), world.now);
        world.run();
        assert_eq!(world.at_plant(kind).len(), 1, "{service} is asked of a node that never exists");
        match world.answer(client, asked).unwrap().unwrap() {
            crate::client::Response::Write(response) => {
                assert_eq!(response.results, Some(vec![StatusCode::BadNodeIdUnknown; 2]));
            }
            crate::client::Response::Call(response) => {
                assert_eq!(response.results.unwrap()[0].status_code, StatusCode::BadNodeIdUnknown);
            }
            other => panic!("{other:?}"),
        }
        let denied = world.records[before..].iter().filter(|record| matches!(record.outcome, Outcome::Denied(_)));
        assert_eq!(denied.count(), if service == "write" { 2 } else { 1 }, "each once");
    }
}

/// The guard's own channel to the server is good enough for everything; the server takes it for the client's.
#[test]
fn what_the_server_asks_of_channels_is_asked_of_the_clients() {
    use StatusCode as S;
    let mut world = World::with(|config| {
        config.upstream[0].session = Arc::new(session_config(ENCRYPT, "anonymous"));
    });
    world.plant.space_mut().set_restrictions(Restrictions::ENCRYPTION, []);
    let weak = world.client();
    let insufficient = S::BadSecurityModeInsufficient;
    for _again in 0..2 {
        let response: ReadResponse = world.ask(weak, read(&["Setpoint", "Secret", "Speed", "Nothing"])).unwrap();
        let status: Vec<_> = response.results.unwrap().iter().map(DataValue::status).collect();
        assert_eq!(status, [insufficient, S::BadNodeIdUnknown, S::BadUserAccessDenied, S::BadNodeIdUnknown]);
    }
    let response: WriteResponse = world.ask(weak, write(vec![("Setpoint", 1.0.into()), ("Secret", 1.into())])).unwrap();
    assert_eq!(response.results, Some(vec![insufficient, S::BadNodeIdUnknown]));
    let response: CallResponse = world.ask(weak, call("Unit", "Reset")).unwrap();
    assert_eq!(response.results.unwrap()[0].status_code, insufficient);
    let (_, results) = super::subscriptions::subscribe(&mut world, weak, &["Setpoint"]);
    assert_eq!(results[0].status_code, insufficient);
    let strong = world.client_by_token(vec![(Rights::ALL, 1)], Duration::from_secs(600));
    let response: ReadResponse = world.ask(strong, read(&["Setpoint"])).unwrap();
    assert_eq!(response.results.unwrap()[0].status(), S::Good);
    // What was learned grows old.
    world.plant.space_mut().set_restrictions(Restrictions::NONE, []);
    world.pass(Duration::from_secs(61));
    let response: ReadResponse = world.ask(weak, read(&["Setpoint"])).unwrap();
    assert_eq!(response.results.unwrap()[0].status(), S::Good);
}

/// ApplyRestrictionsToBrowse: each service that browses, from and to nodes that ask for a better channel.
#[test]
fn browsing_is_held_to_restrictions_where_the_server_says_so() {
    use StatusCode as S;
    let weak_status = S::BadSecurityModeInsufficient;
    let (encryption, signing) = (Restrictions::ENCRYPTION, Restrictions::SIGNING);
    for (rule, restrictions, client_signs, allowed) in [
        ("nothing is asked for", Restrictions::NONE, false, true),
        ("not of browsing", encryption, false, true),
        ("the bit alone", Restrictions::BROWSE, false, true),
        ("encryption, of browsing too", encryption | Restrictions::BROWSE, false, false),
        ("encryption, which signing is not", encryption | Restrictions::BROWSE, true, false),
        ("signing, of browsing too", signing | Restrictions::BROWSE, false, false),
        ("signing, which the client does", signing | Restrictions::BROWSE, true, true),
    ] {
        let mut world = World::with(|config| {
            config.upstream[0].session = Arc::new(session_config(ENCRYPT, "anonymous"));
        });
        // What a folder leads to is restricted, not the folder of all.
        world.plant.space_mut().set_restrictions(restrictions, []);
        let client = match client_signs {
            true => world.client_with(session_config(SIGN, "anonymous"), Credential::Anonymous),
            false => world.client(),
        };
        let expected = if allowed { S::Good } else { weak_status };
        for _again in 0..2 {
            let response: BrowseResponse = world.ask(client, super::services::browse(&["Unit"], 0)).unwrap();
            let result = &response.results.unwrap()[0];
            assert_eq!(result.status_code, expected, "{rule}: from it");
            let mut from_above = super::services::browse(&["Unit"], 0);
            from_above.nodes_to_browse.as_mut().unwrap()[0].node_id = ObjectId::ObjectsFolder.into();
            let response: BrowseResponse = world.ask(client, from_above).unwrap();
            let references = response.results.unwrap().remove(0).references.unwrap_or_default();
            let there = references.iter().any(|reference| reference.node_id.node_id == id("Unit"));
            assert_eq!(there, allowed, "{rule}: to it");
            let server = NodeId::new(0, 2253_u32);
            assert!(references.iter().any(|reference| reference.node_id.node_id == server), "{rule}");
            let path = |start: NodeId, name: &str| BrowsePath {
                starting_node: start,
                relative_path: RelativePath {
                    elements: Some(vec![RelativePathElement {
                        reference_type_id: ReferenceTypeId::HierarchicalReferences.into(),
                        is_inverse: false,
                        include_subtypes: true,
                        target_name: QualifiedName::new(1, name),
                    }]),
                },
            };
            let request = TranslateBrowsePathsToNodeIdsRequest {
                browse_paths: Some(vec![path(id("Unit"), "Setpoint"), path(ObjectId::ObjectsFolder.into(), "Unit")]),
                ..Default::default()
            };
            let response: TranslateBrowsePathsToNodeIdsResponse = world.ask(client, request).unwrap();
            let status: Vec<_> = response.results.unwrap().iter().map(|result| result.status_code).collect();
            assert_eq!(status, [expected, if allowed { S::Good } else { S::BadNoMatch }], "{rule}: paths");
            let request = RegisterNodesRequest {
                nodes_to_register: Some(vec![id("Setpoint")]),
                ..RegisterNodesRequest::default()
            };
            let registered = world.ask::<RegisterNodesResponse>(client, request).err().unwrap_or(S::Good);
            assert_eq!(registered, expected, "{rule}: an alias");
        }
        let strong = world.client_by_token(vec![(Rights::ALL, 1)], Duration::from_secs(600));
        let response: BrowseResponse = world.ask(strong, super::services::browse(&["Unit"], 0)).unwrap();
        assert_eq!(response.results.unwrap()[0].status_code, S::Good, "{rule}: over a good channel");
    }
}

/// What was asked of a hidden node says nothing of it: when it is seen, it is asked about anew.
#[test]
fn of_a_hidden_node_nothing_is_learned() {
    let insufficient = StatusCode::BadSecurityModeInsufficient;
    let mut world = World::with(|config| {
        config.upstream[0].session = Arc::new(session_config(ENCRYPT, "anonymous"));
    });
    world.plant.space_mut().set_restrictions(Restrictions::ENCRYPTION, []);
    let weak = world.client_with(session_config(SIGN, "anonymous"), Credential::Anonymous);
    let first = |world: &mut World, name: &str| {
        let response: ReadResponse = world.ask(weak, read(&[name])).unwrap();
        response.results.unwrap()[0].status()
    };
    assert_eq!(first(&mut world, "Secret"), StatusCode::BadNodeIdUnknown);
    // The secret comes to lie where the session may read.
    let mut seen = rules();
    seen.entries.retain(|entry| entry.rule != ScopeRule::Node(Identifier::String("Secret".into())));
    let map = access_model::ScopeMap::new(SCOPES).unwrap();
    let restrictions = (Restrictions::NONE, Vec::new());
    let layout = Layout { map, rules: seen, interlocks: BTreeMap::new(), restrictions };
    world.guard.lay_out(layout, world.now).unwrap();
    world.run();
    assert_eq!(first(&mut world, "Secret"), insufficient);
}

/// A request that found a fact known waits for another one; what it found is forgotten meanwhile.
#[test]
fn what_is_forgotten_while_a_request_waits_is_not_taken_for_free() {
    let insufficient = StatusCode::BadSecurityModeInsufficient;
    let mut world = World::with(|config| {
        config.upstream[0].session = Arc::new(session_config(ENCRYPT, "anonymous"));
    });
    world.plant.space_mut().set_restrictions(Restrictions::ENCRYPTION, []);
    let weak = world.client();
    let response: ReadResponse = world.ask(weak, read(&["Setpoint"])).unwrap();
    assert_eq!(response.results.unwrap()[0].status(), insufficient);
    world.hold = true;
    let call = world.send(weak, read(&["Setpoint", "Pressure"]));
    world.guard.links.values_mut().for_each(|link| link.facts.forget());
    world.release();
    let response = ReadResponse::try_from(world.answer(weak, call).expect("an answer").unwrap()).unwrap();
    let status: Vec<_> = response.results.unwrap().iter().map(DataValue::status).collect();
    assert_eq!(status, [insufficient; 2]);
}

/// Whoever asks for so many nodes that the guard forgets what it learned gets nothing for it.
#[test]
fn what_is_forgotten_of_restrictions_is_asked_for_again() {
    let insufficient = StatusCode::BadSecurityModeInsufficient;
    let mut world = World::with(|config| {
        config.upstream[0].session = Arc::new(session_config(ENCRYPT, "anonymous"));
    });
    world.plant.space_mut().set_restrictions(Restrictions::ENCRYPTION, []);
    let weak = world.client();
    let first = |world: &mut World, names: &[&str]| {
        let response: ReadResponse = world.ask(weak, read(names)).unwrap();
        response.results.unwrap()[0].status()
    };
    assert_eq!(first(&mut world, &["Setpoint"]), insufficient);
    for hundred in 0..101 {
        let names: Vec<String> = (0..100).map(|one| format!("Unit.{}", hundred * 100 + one)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let _nothing = first(&mut world, &names);
        // With one that is new, the others known, at every fill.
        let news = format!("News.{hundred}");
        assert_eq!(first(&mut world, &["Setpoint", &news]), insufficient, "after {hundred} hundred");
    }
}

/// What the standard puts on every server and no rule names: diagnostics, configuration, files; and queries.
#[test]
fn what_no_rule_names_is_not_there() {
    use StatusCode as S;
    for named in [false, true] {
        let mut world = World::with(|config| {
            if named {
                // FileType.Open, as it is called on every file.
                let rule = crate::guard::ScopeRule::Node(Identifier::Numeric(11_580));
                let namespace = "http://opcfoundation.org/UA/".to_owned();
                let scope = access_model::ScopeIndex(1);
                config.rules.entries.push(crate::guard::ScopeEntry { scope, namespace, rule });
            }
        });
        let client = world.client();
        world.reached.clear();
        let one = |object_id: NodeId, method_id: u32| CallMethodRequest {
            object_id,
            method_id: NodeId::new(0, method_id),
            input_arguments: Some(vec![Variant::from(1_u8)]),
        };
        // ServerConfiguration.UpdateCertificate, and Open on an object of the plant.
        let calls = vec![one(NodeId::new(0, 12_637_u32), 13_737), one(id("Unit"), 11_580)];
        let request = CallRequest { methods_to_call: Some(calls), ..CallRequest::default() };
        let response: CallResponse = world.ask(client, request).unwrap();
        let status: Vec<_> = response.results.unwrap().iter().map(|result| result.status_code).collect();
        let file = if named { S::BadMethodInvalid } else { S::BadUserAccessDenied };
        assert_eq!(status, [S::BadNodeIdUnknown, file], "as the server says, if it is named");
        let nodes = [2275_u32, 3706, 12_637].map(|number| value_of(NodeId::new(0, number)));
        let request = ReadRequest { nodes_to_read: Some(nodes.to_vec()), ..ReadRequest::default() };
        let response: ReadResponse = world.ask(client, request).unwrap();
        let status: Vec<_> = response.results.unwrap().iter().map(DataValue::status).collect();
        assert_eq!(status, [S::BadNodeIdUnknown; 3], "diagnostics and configuration");
        let query =
            (ObjectId::QueryFirstRequest_Encoding_DefaultBinary, ObjectId::QueryFirstResponse_Encoding_DefaultBinary);
        assert_eq!(world.raw(client, query, vec![0; 32]), Err(S::BadServiceUnsupported));
    }
}
