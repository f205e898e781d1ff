//! Events through the guard: by the rights on their source and their type, at the moment they leave.

use std::time::Duration;

use access_model::{Mono, Rights};
use opcua_types::*;

use super::subscriptions::SECOND;
use super::world::*;
use crate::client::{CallId, RawRequest, Request, Response};
use crate::event::NewEvent;
use crate::server::front::Reader;
use crate::server::{AuditConfig, ConnId, Input};
use crate::space::ns0;

const HANDLE: u32 = 7;

pub(super) fn field(name: &str) -> SimpleAttributeOperand {
    SimpleAttributeOperand {
        type_definition_id: NodeId::new(0, 2041_u32),
        browse_path: Some(vec![QualifiedName::new(0, name)]),
        attribute_id: 13,
        index_range: NumericRange::None,
    }
}

pub(super) fn filter(fields: &[&str], elements: Vec<ContentFilterElement>) -> EventFilter {
    EventFilter {
        select_clauses: Some(fields.iter().map(|name| field(name)).collect()),
        where_clause: ContentFilter { elements: (!elements.is_empty()).then_some(elements) },
    }
}

pub(super) fn element(operator: FilterOperator, operands: Vec<ExtensionObject>) -> ContentFilterElement {
    ContentFilterElement { filter_operator: operator, filter_operands: Some(operands) }
}

pub(super) fn literal(value: impl Into<Variant>) -> ExtensionObject {
    ExtensionObject::from_message(LiteralOperand { value: value.into() })
}

fn listen(
    world: &mut World,
    client: ConnId,
    notifier: NodeId,
    filter: EventFilter,
) -> (u32, MonitoredItemCreateResult) {
    let request = CreateSubscriptionRequest {
        requested_publishing_interval: 1_000.0,
        requested_lifetime_count: 600,
        requested_max_keep_alive_count: 10,
        publishing_enabled: true,
        ..CreateSubscriptionRequest::default()
    };
    let created: CreateSubscriptionResponse = world.ask(client, request).unwrap();
    let item = MonitoredItemCreateRequest {
        item_to_monitor: ReadValueId { attribute_id: 12, ..value_of(notifier) },
        monitoring_mode: MonitoringMode::Reporting,
        requested_parameters: MonitoringParameters {
            client_handle: HANDLE,
            filter: ExtensionObject::from_message(filter),
            queue_size: 10,
            discard_oldest: true,
            ..MonitoringParameters::default()
        },
    };
    let request = CreateMonitoredItemsRequest {
        subscription_id: created.subscription_id,
        timestamps_to_return: TimestampsToReturn::Both,
        items_to_create: Some(vec![item]),
        ..CreateMonitoredItemsRequest::default()
    };
    let response: CreateMonitoredItemsResponse = world.ask(client, request).unwrap();
    (created.subscription_id, response.results.unwrap().remove(0))
}

fn raise(world: &mut World, source: &str, kind: u32, message: &str) {
    let source = world.plant.space().find(&id(source)).unwrap();
    let event_type = ns0::find_numeric(kind).unwrap();
    let event =
        NewEvent { event_type, source, severity: 500, message: message.into(), fields: Vec::new(), values: Vec::new() };
    let now = world.now;
    world.plant.handle_input(Input::Event(event), now);
    world.run();
}

/// A structure that the client leaves closed.
pub(super) fn opened<T: BinaryDecodable + Clone + Send + Sync + 'static>(object: &ExtensionObject) -> T {
    match object.inner_as::<ByteStringBody>() {
        Some(closed) => T::decode(&mut closed.raw_body().as_ref(), &ContextOwned::default().context()).unwrap(),
        None => object.inner_as::<T>().expect("such a structure").clone(),
    }
}

const PUBLISH: (ObjectId, ObjectId) =
    (ObjectId::PublishRequest_Encoding_DefaultBinary, ObjectId::PublishResponse_Encoding_DefaultBinary);

/// Publish, whose answer stays as it is: our client does not open events.
fn publish(world: &mut World, client: ConnId) -> CallId {
    world.send(client, Request::Raw(RawRequest::new(PUBLISH.0, PUBLISH.1, vec![0xff; 4])))
}

/// The fields of the events in an answer to Publish, and its number.
fn heard(world: &mut World, client: ConnId, call: CallId) -> Option<(u32, Vec<Vec<Variant>>)> {
    let Response::Raw(body) = world.answer(client, call)?.expect("no fault") else { panic!("another answer") };
    let mut reader = Reader::new(&body);
    reader.u32().unwrap();
    let available = reader.array_len(4).unwrap();
    reader.bytes(available * 4 + 1).unwrap();
    let owned = ContextOwned::default();
    let message = NotificationMessage::decode(&mut reader.rest(), &owned.context()).unwrap();
    let mut seen = Vec::new();
    for part in message.notification_data.iter().flatten() {
        for event in opened::<EventNotificationList>(part).events.into_iter().flatten() {
            assert_eq!(event.client_handle, HANDLE);
            seen.push(event.event_fields.clone().unwrap_or_default());
        }
    }
    Some((message.sequence_number, seen))
}

pub(super) fn text(message: &str) -> Variant {
    Variant::from(LocalizedText { locale: UAString::null(), text: message.into() })
}

fn listener(world: &mut World) -> ConnId {
    world.client_by_token(vec![(Rights::ALL, 1), (Rights::BROWSE, 2)], Duration::from_secs(60))
}

pub(super) const SERVER: NodeId = NodeId { namespace: 0, identifier: Identifier::Numeric(2253) };

#[test]
fn events_come_by_the_rights_on_their_source_and_type() {
    let mut world = World::new();
    let client = listener(&mut world);
    let (_, result) = listen(&mut world, client, SERVER, filter(&["Message", "Severity"], Vec::new()));
    assert_eq!(result.status_code, StatusCode::Good);
    let call = publish(&mut world, client);
    world.pass(SECOND * 2);
    assert_eq!(heard(&mut world, client, call), Some((1, Vec::new())), "a first keep-alive");
    let calls: Vec<_> = (0..3).map(|_| publish(&mut world, client)).collect();
    for (source, kind, message) in [
        ("Unit", 2041, "seen"),
        ("Secret", 2041, "of a hidden source"),
        ("Speed", 2041, "of a source without the right"),
        ("Unit", 2052, "an audit event"),
        ("Unit", 2132, "a change of the model"),
        ("Setpoint", 2130, "seen too"),
    ] {
        raise(&mut world, source, kind, message);
    }
    world.pass(SECOND * 3);
    let seen: Vec<_> = calls.iter().filter_map(|call| heard(&mut world, client, *call)).collect();
    let severity = Variant::from(500_u16);
    let expected = vec![vec![text("seen"), severity.clone()], vec![text("seen too"), severity]];
    assert_eq!(seen, [(1, expected)], "the two fields that were asked for, and nothing of the others");
}

#[test]
fn the_server_is_asked_for_source_and_type_and_the_client_does_not_hear_of_it() {
    let mut world = World::new();
    let client = listener(&mut world);
    world.reached.clear();
    let asked = EventFilter {
        select_clauses: Some(vec![field("Message"), SimpleAttributeOperand { attribute_id: 5, ..field("Severity") }]),
        ..filter(&[], Vec::new())
    };
    let (_, result) = listen(&mut world, client, SERVER, asked);
    let sent = &world.at_plant(ObjectId::CreateMonitoredItemsRequest_Encoding_DefaultBinary)[0];
    let item = super::world::field::<MonitoredItemCreateRequest>(&sent[8..]).remove(0);
    let sent = opened::<EventFilter>(&item.requested_parameters.filter);
    let names: Vec<_> = sent.select_clauses.iter().flatten().map(|clause| clause.browse_path.clone()).collect();
    let name = |name: &str| Some(vec![QualifiedName::new(0, name)]);
    assert_eq!(names, [name("Message"), name("Severity"), name("SourceNode"), name("EventType")]);
    let told = opened::<EventFilterResult>(&result.filter_result);
    let expected = vec![StatusCode::Good, StatusCode::BadAttributeIdInvalid];
    assert_eq!(told.select_clause_results, Some(expected), "without the guard's clauses");
}

#[test]
fn a_filter_names_what_is_visible_and_nothing_else() {
    use FilterOperator as F;
    let mut world = World::new();
    let client = listener(&mut world);
    let operand = |name| ExtensionObject::from_message(field(name));
    let of = |type_definition_id| SimpleAttributeOperand { type_definition_id, ..field("Message") };
    let select = |clause| EventFilter { select_clauses: Some(vec![clause]), ..filter(&[], Vec::new()) };
    let is = |node: NodeId| vec![element(F::Equals, vec![operand("SourceNode"), literal(node)])];
    let walk = ExtensionObject::from_message(AttributeOperand::default());
    let (good, bad) = (StatusCode::Good, StatusCode::BadEventFilterInvalid);
    for (rule, filter, expected) in [
        ("a source that is seen", filter(&["Message"], is(id("Setpoint"))), good),
        ("a hidden source", filter(&["Message"], is(id("Secret"))), bad),
        ("a source that is not there", filter(&["Message"], is(NodeId::new(7, 7_u32))), bad),
        ("a type", filter(&["Message"], vec![element(F::OfType, vec![literal(NodeId::new(0, 2130_u32))])]), good),
        ("a hidden type", filter(&["Message"], vec![element(F::OfType, vec![literal(id("Vault"))])]), bad),
        ("a field of a hidden type", select(of(id("Vault"))), bad),
        ("no field", filter(&[], Vec::new()), bad),
        (
            "nodes in an array",
            filter(&["Message"], vec![element(F::InList, vec![operand("SourceNode"), literal(vec![id("Secret")])])]),
            bad,
        ),
        ("a walk over nodes", filter(&["Message"], vec![element(F::IsNull, vec![walk])]), StatusCode::BadDecodingError),
    ] {
        let (_, result) = listen(&mut world, client, SERVER, filter);
        assert_eq!(result.status_code, expected, "{rule}");
    }
    let (_, result) = listen(&mut world, client, id("Vault"), filter(&["Message"], Vec::new()));
    assert_eq!(result.status_code, StatusCode::BadNodeIdUnknown, "a hidden notifier");
}

#[test]
fn the_where_clause_works_as_the_server_understands_it() {
    let mut world = World::new();
    let client = listener(&mut world);
    let operand = ExtensionObject::from_message(field("SourceNode"));
    let clause = vec![element(FilterOperator::Equals, vec![operand, literal(id("Setpoint"))])];
    listen(&mut world, client, SERVER, filter(&["Message"], clause));
    raise(&mut world, "Unit", 2041, "of another node");
    raise(&mut world, "Setpoint", 2041, "of this one");
    let calls = [publish(&mut world, client), publish(&mut world, client)];
    world.pass(SECOND * 3);
    let seen: Vec<_> =
        calls.iter().filter_map(|call| heard(&mut world, client, *call)).flat_map(|heard| heard.1).collect();
    assert_eq!(seen, [vec![text("of this one")]]);
}

#[test]
fn when_the_grant_ends_events_end_and_cannot_be_had_again() {
    let mut world = World::new();
    let client = listener(&mut world);
    let (subscription, _) = listen(&mut world, client, SERVER, filter(&["Message"], Vec::new()));
    raise(&mut world, "Unit", 2041, "before");
    let calls: Vec<_> = (0..2).map(|_| publish(&mut world, client)).collect();
    world.pass(SECOND * 3);
    let seen: Vec<_> = calls.iter().filter_map(|call| heard(&mut world, client, *call)).collect();
    assert_eq!(seen, [(1, vec![vec![text("before")]])]);
    // In the queue of the plant and on the way when the grant ends.
    world.hold = true;
    raise(&mut world, "Unit", 2041, "on the way");
    world.pass(Duration::from_secs(58));
    world.release();
    raise(&mut world, "Unit", 2041, "after");
    let token = world.token("alice", vec![(Rights::ALL, 1)], Duration::from_secs(600));
    world.peers.get_mut(&client).unwrap().session.reactivate(token, world.now);
    world.run();
    let more: Vec<_> = (0..2).map(|_| publish(&mut world, client)).collect();
    world.pass(SECOND * 3);
    let again: Vec<_> = calls
        .iter()
        .chain(&more)
        .filter_map(|call| heard(&mut world, client, *call))
        .flat_map(|heard| heard.1)
        .collect();
    assert!(again.is_empty(), "{again:?}");
    let refused: Result<RepublishResponse, _> = world.ask(
        client,
        RepublishRequest { subscription_id: subscription, retransmit_sequence_number: 1, ..Default::default() },
    );
    assert_eq!(refused.unwrap_err(), StatusCode::BadMessageNotAvailable);
    raise(&mut world, "Unit", 2041, "anew");
    world.pass(SECOND * 3);
    let anew: Vec<_> = calls
        .iter()
        .chain(&more)
        .filter_map(|call| heard(&mut world, client, *call))
        .flat_map(|heard| heard.1)
        .collect();
    assert_eq!(anew, [vec![text("anew")]]);
}

/// When a keep-alive comes shows nothing of events that a session may not have.
#[test]
fn hidden_events_do_not_move_keep_alives() {
    let keep_alives = |hidden: bool| {
        let mut world = World::new();
        let client = listener(&mut world);
        listen(&mut world, client, SERVER, filter(&["Message"], Vec::new()));
        let mut waiting = publish(&mut world, client);
        let mut times: Vec<Mono> = Vec::new();
        for step in 0..450 {
            if hidden && step % 37 == 0 {
                raise(&mut world, "Secret", 2041, "hidden");
            }
            world.pass(Duration::from_millis(100));
            if heard(&mut world, client, waiting).is_some() {
                times.push(world.now.mono);
                waiting = publish(&mut world, client);
            }
        }
        times
    };
    let (without, with) = (keep_alives(false), keep_alives(true));
    assert!(without.len() >= 4, "{without:?}");
    assert_eq!(without, with);
}

/// What clients do through the guard is told by the guard, to those who may hear of it and of the node.
#[test]
fn the_guard_tells_of_what_was_done_through_it() {
    let audit = AuditConfig { events: Some("mixer".into()), ..AuditConfig::default() };
    let mut world = World::made(|_| {}, audit);
    let receive = Rights::BROWSE | Rights::RECEIVE_EVENTS;
    let auditor = world.client_by_token(vec![(Rights::ALL, 1), (receive, 2)], Duration::from_secs(600));
    let other = world.client_by_token(vec![(Rights::ALL, 1)], Duration::from_secs(600));
    let fields = ["EventType", "SourceNode", "Status", "ClientUserId", "AttributeId", "MethodId", "NewValue"];
    for client in [auditor, other] {
        listen(&mut world, client, SERVER, filter(&fields, Vec::new()));
    }
    let calls: Vec<_> = (0..10).map(|_| publish(&mut world, auditor)).collect();
    let nothing: Vec<_> = (0..3).map(|_| publish(&mut world, other)).collect();
    world.pass(SECOND * 3);
    let hear = |world: &mut World, client, calls: &[CallId]| -> Vec<Vec<Variant>> {
        let heard: Vec<_> = calls.iter().filter_map(|call| heard(world, client, *call)).collect();
        heard.into_iter().flat_map(|heard| heard.1).collect()
    };
    let _sessions = hear(&mut world, auditor, &calls);
    let user = world.client_by_token(vec![(Rights::ALL, 1), (Rights::BROWSE, 2)], Duration::from_secs(600));
    let _activation = hear(&mut world, auditor, &calls);
    let items = vec![("Setpoint", 1.0.into()), ("Speed", 1.into()), ("Secret", 1.into())];
    let _: WriteResponse = world.ask(user, write(items)).unwrap();
    let _called = world.send(user, call("Unit", "Reset"));
    world.returned(Vec::new());
    world.pass(SECOND * 2);
    let told = |kind: u32, node: &str, status: bool, attribute: Variant, method: Variant| {
        let (kind, node) = (Variant::from(NodeId::new(0, kind)), Variant::from(id(node)));
        vec![kind, node, status.into(), Variant::from("alice"), attribute, method, Variant::Empty]
    };
    let value = Variant::from(13_u32);
    let expected = [
        told(2100, "Speed", false, value.clone(), Variant::Empty),
        told(2100, "Setpoint", true, value, Variant::Empty),
        told(2127, "Unit", true, Variant::Empty, id("Reset").into()),
    ];
    assert_eq!(hear(&mut world, auditor, &calls), expected, "nothing of the hidden node, and no value");
    assert!(hear(&mut world, other, &nothing).is_empty(), "who has no right on the scope of audit events");
}
