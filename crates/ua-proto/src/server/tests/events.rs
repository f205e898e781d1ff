//! Events under rights: of the type, of the source, of the notifier, asked when an event is raised and when it leaves.

use std::time::Duration;

use access_model::{Rights, ScopeIndex};
use opcua_types::*;
use pep::{FailMode, Who};
use token::control::Revocation;

use super::ask::*;
use super::monitoring::{TICK, rights, update};
use super::world::*;
use crate::event::NewEvent;
use crate::server::{ConnId, Input};
use crate::space::{NewNode, NodeRef, ns0};

/// The client handle of every item of these tests.
const HANDLE: u32 = 77;

pub(super) const SERVER: NodeId = NodeId { namespace: 0, identifier: Identifier::Numeric(2253) };

pub(super) fn listener() -> Vec<(Rights, &'static str)> {
    let all = Rights::BROWSE | Rights::READ | Rights::WRITE | Rights::CALL | Rights::RECEIVE_EVENTS;
    vec![(all, "reactor"), (Rights::BROWSE, "mixer")]
}

fn field_of(name: &str) -> SimpleAttributeOperand {
    SimpleAttributeOperand {
        type_definition_id: NodeId::new(0, 2041),
        browse_path: Some(vec![QualifiedName::new(0, name)]),
        attribute_id: 13,
        index_range: NumericRange::None,
    }
}

pub(super) fn event_filter(fields: &[&str], elements: Vec<ContentFilterElement>) -> ExtensionObject {
    ExtensionObject::from_message(EventFilter {
        select_clauses: Some(fields.iter().map(|name| field_of(name)).collect()),
        where_clause: ContentFilter { elements: (!elements.is_empty()).then_some(elements) },
    })
}

impl World {
    /// A subscription with one item; both ids and the result.
    pub(super) fn listen_as(
        &mut self,
        conn: ConnId,
        login: &Login,
        notifier: NodeId,
        filter: ExtensionObject,
        queue: (u32, bool),
    ) -> (u32, MonitoredItemCreateResult) {
        let request = CreateSubscriptionRequest {
            request_header: self.header(&login.token),
            requested_publishing_interval: 100.0,
            requested_lifetime_count: 10_000,
            requested_max_keep_alive_count: 5_000,
            publishing_enabled: true,
            ..CreateSubscriptionRequest::default()
        };
        let subscription: CreateSubscriptionResponse = self.ask(conn, &request).unwrap();
        let item = MonitoredItemCreateRequest {
            item_to_monitor: super::services::attribute_of(&notifier, AttributeId::EventNotifier),
            monitoring_mode: MonitoringMode::Reporting,
            requested_parameters: MonitoringParameters {
                client_handle: HANDLE,
                sampling_interval: 0.0,
                filter,
                queue_size: queue.0,
                discard_oldest: queue.1,
            },
        };
        let request = CreateMonitoredItemsRequest {
            request_header: self.header(&login.token),
            subscription_id: subscription.subscription_id,
            timestamps_to_return: TimestampsToReturn::Both,
            items_to_create: Some(vec![item]),
        };
        let response: CreateMonitoredItemsResponse = self.ask(conn, &request).unwrap();
        (subscription.subscription_id, response.results.unwrap().remove(0))
    }

    pub(super) fn listen(&mut self, conn: ConnId, login: &Login, notifier: NodeId, fields: &[&str]) -> u32 {
        let (id, result) = self.listen_as(conn, login, notifier, event_filter(fields, Vec::new()), (0, true));
        assert_eq!(result.status_code, StatusCode::Good);
        id
    }

    /// Gives the reactor a pump that notifies, with a motor below it that does not, and the vault a door.
    pub(super) fn machines(&mut self) -> [NodeRef; 3] {
        let [reactor, vault] = [1, 3].map(ScopeIndex);
        let space = self.server.space_mut();
        let mut object = |name, scope, event_notifier| {
            let node = NewNode::object(ns0::OBJECTS, Some(id(name)), name, scope);
            space.add_node(NewNode { event_notifier, ..node }).unwrap()
        };
        let nodes = [object("Pump", reactor, 1), object("Motor", reactor, 0), object("Door", vault, 0)];
        space.add_reference(nodes[0], ns0::HAS_EVENT_SOURCE, nodes[1]).unwrap();
        space.add_reference(nodes[0], ns0::HAS_NOTIFIER, nodes[2]).unwrap();
        nodes
    }

    pub(super) fn raise(&mut self, source: NodeRef, message: &str) {
        let event_type = ns0::BASE_EVENT_TYPE;
        let event = NewEvent {
            event_type,
            source,
            severity: 500,
            message: message.into(),
            fields: Vec::new(),
            values: Vec::new(),
        };
        self.input(Input::Event(event));
    }

    /// The fields of every event that came in the answer to a Publish request.
    pub(super) fn heard(&mut self, conn: ConnId, request: u32) -> Option<Vec<Vec<Variant>>> {
        let response = self.answer::<PublishResponse>(conn, request)?.expect("no fault");
        let mut seen = Vec::new();
        for part in response.notification_message.notification_data.iter().flatten() {
            for event in part.inner_as::<EventNotificationList>().iter().flat_map(|list| list.events.iter().flatten()) {
                assert_eq!(event.client_handle, HANDLE);
                seen.push(event.event_fields.clone().unwrap_or_default());
            }
        }
        Some(seen)
    }

    /// The messages of the events that came.
    pub(super) fn messages(&mut self, conn: ConnId, request: u32) -> Option<Vec<String>> {
        let text = |fields: Vec<Variant>| match fields.into_iter().next() {
            Some(Variant::LocalizedText(text)) => text.text.to_string(),
            other => format!("{other:?}"),
        };
        self.heard(conn, request).map(|events| events.into_iter().map(text).collect())
    }
}

fn world() -> World {
    let local = vec![
        grant(Who::User("alice".into()), listener()),
        grant(Who::User("bob".into()), vec![(Rights::BROWSE | Rights::READ | Rights::RECEIVE_EVENTS, "mixer")]),
    ];
    Setup { local, ..Setup::default() }.start()
}

#[test]
fn an_event_comes_with_the_fields_that_were_asked_for() {
    let mut world = world();
    let [_, motor, _] = world.machines();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    world.listen(
        conn,
        &login,
        SERVER,
        &["Message", "SourceName", "SourceNode", "EventType", "Severity", "EventId", "Own"],
    );
    let waiting = world.publish(conn, &login);
    let event = NewEvent {
        event_type: ns0::BASE_EVENT_TYPE,
        source: motor,
        severity: 40,
        message: "warm".into(),
        fields: vec![(QualifiedName::new(0, "Own"), Variant::from(7_i32))],
        values: Vec::new(),
    };
    world.input(Input::Event(event));
    world.pass(TICK);
    let mut fields = world.heard(conn, waiting).unwrap().remove(0);
    let Variant::ByteString(event_id) = fields.remove(5) else { panic!("no event id") };
    assert_eq!(event_id.as_ref().len(), 16);
    let expected = [
        LocalizedText::from("warm").into(),
        Variant::from("Motor"),
        id("Motor").into(),
        NodeId::new(0, 2041).into(),
        Variant::from(40_u16),
        Variant::from(7_i32),
    ];
    assert_eq!(fields, expected);
}

#[test]
fn an_equipment_object_tells_of_what_lies_below_it_and_the_server_of_all() {
    let mut world = world();
    let [pump, motor, _] = world.machines();
    let reactor = ScopeIndex(1);
    let apart = world.server.space_mut().add_node(NewNode::object(ns0::OBJECTS, Some(id("Apart")), "Apart", reactor));
    let apart = apart.unwrap();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let (other, elsewhere) = world.log_in(ENCRYPT, "alice");
    world.listen(conn, &login, id("Pump"), &["Message"]);
    world.listen(other, &elsewhere, SERVER, &["Message"]);
    let (below, all) = (world.publish(conn, &login), world.publish(other, &elsewhere));
    for (source, message) in [(pump, "pump"), (motor, "motor"), (apart, "apart")] {
        world.raise(source, message);
    }
    world.pass(TICK);
    assert_eq!(world.messages(conn, below).unwrap(), ["pump", "motor"]);
    assert_eq!(world.messages(other, all).unwrap(), ["pump", "motor", "apart"]);
}

#[test]
fn events_of_a_hidden_source_are_not_heard_of_and_do_not_fill_a_queue() {
    let mut world = world();
    let [pump, _, door] = world.machines();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let filter = event_filter(&["Message"], Vec::new());
    for notifier in [SERVER, id("Pump")] {
        world.listen_as(conn, &login, notifier, filter.clone(), (2, true));
    }
    let waiting = [world.publish(conn, &login), world.publish(conn, &login)];
    for at in 0..10 {
        world.raise(door, &format!("door {at}"));
    }
    world.pass(TICK);
    let silent = |world: &mut World, request| world.messages(conn, request).unwrap_or_default();
    assert!(waiting.iter().all(|request| silent(&mut world, *request).is_empty()), "not one, and no overflow");
    let waiting = [world.publish(conn, &login), world.publish(conn, &login)];
    world.raise(pump, "pump");
    world.pass(TICK);
    assert_eq!(waiting.map(|request| silent(&mut world, request)), [["pump"], ["pump"]]);
}

#[test]
fn an_event_needs_the_right_on_type_source_and_notifier() {
    for (row, hidden, heard) in
        [("none", "", true), ("type", "type", false), ("source", "Motor", false), ("notifier", "Pump", false)]
    {
        let mut world = world();
        let [_, motor, _] = world.machines();
        let mixer = ScopeIndex(2);
        let space = world.server.space_mut();
        match hidden {
            "type" => space.set_scope(ns0::BASE_EVENT_TYPE, mixer),
            "" => {}
            name => {
                let node = space.find(&id(name)).unwrap();
                space.set_scope(node, mixer);
            }
        }
        let (conn, login) = world.log_in(ENCRYPT, "alice");
        world.listen(conn, &login, id("Pump"), &["Message"]);
        let waiting = world.publish(conn, &login);
        world.raise(motor, "motor");
        world.pass(TICK);
        let expected = if heard { vec!["motor".to_owned()] } else { Vec::new() };
        assert_eq!(world.messages(conn, waiting).unwrap_or_default(), expected, "{row}");
    }
}

#[test]
fn which_nodes_take_event_items() {
    let mut world = world();
    world.machines();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let filter = || event_filter(&["Message"], Vec::new());
    let data = || ExtensionObject::from_message(DataChangeFilter::default());
    for (row, node, filter, expected) in [
        ("server", SERVER, filter(), StatusCode::Good),
        ("notifier", id("Pump"), filter(), StatusCode::Good),
        ("object that does not notify", id("Motor"), filter(), StatusCode::BadNotSupported),
        ("variable", id("Setpoint"), filter(), StatusCode::BadAttributeIdInvalid),
        ("hidden", id("Door"), filter(), StatusCode::BadNodeIdUnknown),
        ("missing", id("Nothing"), filter(), StatusCode::BadNodeIdUnknown),
        ("no filter", SERVER, ExtensionObject::null(), StatusCode::BadEventFilterInvalid),
        ("filter for values", SERVER, data(), StatusCode::BadMonitoredItemFilterUnsupported),
    ] {
        let (_, result) = world.listen_as(conn, &login, node, filter, (0, true));
        assert_eq!(result.status_code, expected, "{row}");
    }
    let request = CreateMonitoredItemsRequest {
        request_header: world.header(&login.token),
        subscription_id: 1,
        timestamps_to_return: TimestampsToReturn::Both,
        items_to_create: Some(vec![MonitoredItemCreateRequest {
            item_to_monitor: super::services::value_of("Setpoint"),
            monitoring_mode: MonitoringMode::Reporting,
            requested_parameters: MonitoringParameters { filter: filter(), ..MonitoringParameters::default() },
        }]),
    };
    let response: CreateMonitoredItemsResponse = world.ask(conn, &request).unwrap();
    assert_eq!(
        response.results.unwrap()[0].status_code,
        StatusCode::BadFilterNotAllowed,
        "a filter for events on a value"
    );
}

#[test]
fn a_where_clause_chooses_and_a_faulty_one_is_told() {
    let mut world = world();
    let [pump, ..] = world.machines();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let like = |pattern: &str| ContentFilterElement {
        filter_operator: FilterOperator::Like,
        filter_operands: Some(vec![
            ExtensionObject::from_message(field_of("Message")),
            ExtensionObject::from_message(LiteralOperand { value: pattern.into() }),
        ]),
    };
    let faulty = event_filter(&["Message"], vec![like("[")]);
    let (_, result) = world.listen_as(conn, &login, SERVER, faulty, (0, true));
    assert_eq!(result.status_code, StatusCode::BadEventFilterInvalid);
    let told = result.filter_result.inner_as::<EventFilterResult>().unwrap();
    let element = &told.where_clause_result.element_results.as_ref().unwrap()[0];
    assert_eq!(element.status_code, StatusCode::BadFilterOperandInvalid);
    world.listen_as(conn, &login, SERVER, event_filter(&["Message"], vec![like("%hot%")]), (0, true));
    // One of them is eaten by the subscription whose item was refused.
    let waiting = [world.publish(conn, &login), world.publish(conn, &login)];
    for message in ["cold", "too hot", "hotter"] {
        world.raise(pump, message);
    }
    world.pass(TICK);
    let heard: Vec<String> = waiting.iter().filter_map(|one| world.messages(conn, *one)).flatten().collect();
    assert_eq!(heard, ["too hot", "hotter"]);
}

#[test]
fn a_full_queue_tells_of_the_gap_where_it_is() {
    let lost = "events were lost, for their queue is too short";
    for (queue, discard_oldest, expected) in [
        (2, true, vec![lost, "4", "5"]),
        (2, false, vec!["1", "5", lost]),
        (1, true, vec![lost, "5"]),
        (5, true, vec!["1", "2", "3", "4", "5"]),
    ] {
        let mut world = world();
        let [pump, ..] = world.machines();
        let (conn, login) = world.log_in(ENCRYPT, "alice");
        let filter = event_filter(&["Message"], Vec::new());
        let (_, result) = world.listen_as(conn, &login, SERVER, filter, (queue, discard_oldest));
        assert_eq!(result.revised_queue_size, queue);
        (1..=5).for_each(|at| world.raise(pump, &at.to_string()));
        let waiting = world.publish(conn, &login);
        world.pass(TICK);
        assert_eq!(world.messages(conn, waiting).unwrap(), expected, "{queue} {discard_oldest}");
    }
}

/// Alice by token with ReceiveEvents on the reactor, listening.
fn listening() -> (World, ConnId, Login, NodeRef, u32) {
    let mut world = Setup { contact: Some(contact(FailMode::Closed)), ..Setup::default() }.start();
    let [pump, ..] = world.machines();
    update(&mut world, 1, None, |_| {});
    let token = world.token(Duration::from_secs(600));
    let (conn, login) = world.log_in_by_token(&token);
    rights(&mut world, 2, Rights::BROWSE | Rights::RECEIVE_EVENTS);
    let subscription = world.listen(conn, &login, SERVER, &["Message"]);
    (world, conn, login, pump, subscription)
}

#[test]
fn events_that_are_queued_when_rights_narrow_or_end_are_dropped_without_a_word() {
    let (mut world, conn, login, pump, _) = listening();
    world.raise(pump, "before");
    let waiting = world.publish(conn, &login);
    world.raise(pump, "queued");
    rights(&mut world, 3, Rights::BROWSE);
    world.raise(pump, "narrowed");
    world.pass(10 * TICK);
    assert_eq!(world.messages(conn, waiting).unwrap_or_default(), Vec::<String>::new());
    let waiting = world.publish(conn, &login);
    rights(&mut world, 4, Rights::BROWSE | Rights::RECEIVE_EVENTS);
    world.raise(pump, "again");
    world.pass(TICK);
    assert_eq!(world.messages(conn, waiting).unwrap(), ["again"]);
    let waiting = world.publish(conn, &login);
    world.raise(pump, "queued again");
    let expires = world.now.unix + Duration::from_secs(600);
    update(&mut world, 5, Some(4), |update| update.revoked.push(Revocation { id: "token-1".into(), expires }));
    world.raise(pump, "revoked");
    world.pass(10 * TICK);
    assert_eq!(world.messages(conn, waiting).unwrap_or_default(), Vec::<String>::new());
}

#[test]
fn a_message_with_events_is_sent_again_only_while_they_may_be_received() {
    let (mut world, conn, login, pump, subscription_id) = listening();
    let waiting = world.publish(conn, &login);
    world.raise(pump, "once");
    world.pass(TICK);
    assert_eq!(world.messages(conn, waiting).unwrap(), ["once"]);
    let again = |world: &mut World| -> Result<RepublishResponse, StatusCode> {
        let request_header = world.header(&login.token);
        world.ask(conn, &RepublishRequest { request_header, subscription_id, retransmit_sequence_number: 1 })
    };
    let message = again(&mut world).unwrap().notification_message;
    let list = message.notification_data.unwrap().remove(0);
    assert_eq!(list.inner_as::<EventNotificationList>().unwrap().events.as_ref().unwrap().len(), 1);
    rights(&mut world, 3, Rights::BROWSE);
    assert_eq!(again(&mut world).err(), Some(StatusCode::BadMessageNotAvailable));
    rights(&mut world, 4, Rights::BROWSE | Rights::RECEIVE_EVENTS);
    assert_eq!(again(&mut world).err(), Some(StatusCode::BadMessageNotAvailable), "it is gone for good");
}

#[test]
fn events_and_values_come_in_their_order() {
    let mut world = world();
    let [pump, ..] = world.machines();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let subscription_id = world.listen(conn, &login, SERVER, &["Message"]);
    let request = CreateMonitoredItemsRequest {
        request_header: world.header(&login.token),
        subscription_id,
        timestamps_to_return: TimestampsToReturn::Both,
        items_to_create: Some(vec![MonitoredItemCreateRequest {
            item_to_monitor: super::services::value_of("Setpoint"),
            monitoring_mode: MonitoringMode::Reporting,
            requested_parameters: MonitoringParameters { queue_size: 10, ..MonitoringParameters::default() },
        }]),
    };
    let _: CreateMonitoredItemsResponse = world.ask(conn, &request).unwrap();
    let kinds = |world: &mut World, request| {
        let response = world.answer::<PublishResponse>(conn, request).unwrap().unwrap();
        let parts = response.notification_message.notification_data.unwrap();
        parts.iter().map(|part| part.inner_as::<EventNotificationList>().is_some()).collect::<Vec<_>>()
    };
    let waiting = world.publish(conn, &login);
    world.raise(pump, "after the first value");
    world.pass(TICK);
    assert_eq!(kinds(&mut world, waiting), [false, true]);
    world.raise(pump, "before the second");
    let node = world.server.space().find(&id("Setpoint")).unwrap();
    world.input(Input::SetValue { node, value: DataValue::value_only(3.0) });
    let waiting = world.publish(conn, &login);
    world.pass(TICK);
    assert_eq!(kinds(&mut world, waiting), [true, false]);
}

#[test]
fn what_is_no_event_is_not_raised() {
    let mut world = world();
    let [pump, ..] = world.machines();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    world.listen(conn, &login, SERVER, &["Message"]);
    let waiting = world.publish(conn, &login);
    for (event_type, source) in [(ns0::BASE_OBJECT_TYPE, pump), (ns0::BASE_EVENT_TYPE, NodeRef(u32::MAX))] {
        let event = NewEvent {
            event_type,
            source,
            severity: 1,
            message: "none".into(),
            fields: Vec::new(),
            values: Vec::new(),
        };
        world.input(Input::Event(event));
    }
    world.pass(TICK);
    assert_eq!(world.messages(conn, waiting).unwrap_or_default(), Vec::<String>::new());
}

#[test]
fn a_session_that_has_gone_listens_no_more() {
    let mut world = world();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    world.listen(conn, &login, SERVER, &["Message"]);
    assert!(world.server.events.heard());
    let request = CloseSessionRequest { request_header: world.header(&login.token), delete_subscriptions: true };
    let _: CloseSessionResponse = world.ask(conn, &request).unwrap();
    assert!(!world.server.events.heard());
}

#[test]
fn event_items_are_bounded_for_each_session() {
    let mut setup = Setup::default();
    let limits = crate::subscription::SubscriptionLimits { max_event_items: 2, ..Default::default() };
    setup.limits.subscriptions = std::sync::Arc::new(limits);
    let mut world = setup.start();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let filter = || event_filter(&["Message"], Vec::new());
    let statuses = [(); 3].map(|()| world.listen_as(conn, &login, SERVER, filter(), (0, true)).1.status_code);
    assert_eq!(statuses, [StatusCode::Good, StatusCode::Good, StatusCode::BadTooManyMonitoredItems]);
}
