//! Events of the past under rights: of the notifier, of the type, of the source, and of values in them.

use std::time::Duration;

use access_model::{AuditKind, Outcome, Rights};
use opcua_types::*;
use pep::Who;

use super::events::{SERVER, event_filter};
use super::history::{ask, at, change};
use super::world::*;
use crate::event::NewEvent;
use crate::server::{ConnId, Input, ServerLimits};
use crate::space::{NodeRef, ns0};

pub(super) const SEE: Rights = match Rights::from_bits(Rights::BROWSE.bits() | Rights::RECEIVE_EVENTS.bits()) {
    Some(rights) => rights,
    None => Rights::NONE,
};

/// Pump, motor and door have told, the pump twice; the pump and the Server object keep it.
fn world_with(limits: ServerLimits) -> World {
    let past = SEE | Rights::READ_HISTORY;
    let user = |name: &str, rights| grant(Who::User(name.into()), rights);
    let local = vec![
        user("keeper", vec![(past | Rights::READ | Rights::DELETE_HISTORY, "reactor"), (past, "vault")]),
        user("reader", vec![(past, "reactor")]),
        user("listener", vec![(SEE | Rights::READ, "reactor")]),
        user("historian", vec![(Rights::BROWSE | Rights::READ_HISTORY, "reactor")]),
        user("deleter", vec![(SEE | Rights::DELETE_HISTORY, "reactor"), (SEE, "vault")]),
        user("bob", vec![(past, "mixer")]),
    ];
    let mut world = Setup { local, limits, ..Setup::default() }.start();
    let [pump, motor, door] = world.machines();
    let space = world.server.space_mut();
    space.historize_events(pump, 100, true).unwrap();
    space.historize_events(ns0::SERVER, 100, false).unwrap();
    for (source, message) in [(pump, "one"), (motor, "two"), (door, "three"), (pump, "four")] {
        raise(&mut world, source, message);
        world.pass(Duration::from_secs(1));
    }
    world
}

fn world() -> World {
    world_with(ServerLimits::default())
}

pub(super) fn raise(world: &mut World, source: NodeRef, message: &str) {
    let setpoint = world.server.space().find(&id("Setpoint")).unwrap();
    let event = NewEvent {
        event_type: ns0::BASE_EVENT_TYPE,
        source,
        severity: 500,
        message: message.into(),
        fields: Vec::new(),
        values: vec![(QualifiedName::new(0, "Level"), setpoint)],
    };
    world.input(Input::Event(event));
}

/// Reads message, id and level.
fn details(start: i64, end: i64, most: u32, elements: Vec<ContentFilterElement>) -> ExtensionObject {
    let filter = event_filter(&["Message", "EventId", "Level"], elements);
    ExtensionObject::from_message(ReadEventDetails {
        num_values_per_node: most,
        start_time: DateTime::from(start),
        end_time: DateTime::from(end),
        filter: filter.inner_as::<EventFilter>().unwrap().clone(),
    })
}

pub(super) fn everything() -> ExtensionObject {
    details(1, i64::MAX / 2, 0, Vec::new())
}

fn item(notifier: &NodeId, point: &ByteString) -> HistoryReadValueId {
    HistoryReadValueId { node_id: notifier.clone(), ..at("Pump", point) }
}

pub(super) fn fields(result: &HistoryReadResult) -> Vec<Vec<Variant>> {
    let events = match result.history_data.inner_as::<HistoryEvent>() {
        Some(history) => history.events.clone(),
        None => result.history_data.inner_as::<HistoryModifiedEvent>().and_then(|history| history.events.clone()),
    };
    events.into_iter().flatten().map(|event| event.event_fields.unwrap()).collect()
}

pub(super) fn messages(result: &HistoryReadResult) -> Vec<String> {
    let text = |fields: Vec<Variant>| match fields.into_iter().next() {
        Some(Variant::LocalizedText(text)) => text.text.to_string(),
        other => format!("{other:?}"),
    };
    fields(result).into_iter().map(text).collect()
}

pub(super) fn read(
    world: &mut World,
    by: (ConnId, &Login),
    details: ExtensionObject,
    notifier: &NodeId,
) -> HistoryReadResult {
    ask(world, by, details, vec![item(notifier, &ByteString::null())], false).unwrap().remove(0)
}

#[test]
fn events_of_the_past_take_the_rights_of_living_ones_and_that_to_read_history() {
    use StatusCode as S;
    let all = ["one", "two", "three", "four"];
    let rows: [(&str, &str, NodeId, S, &[&str]); 10] = [
        ("all of it", "keeper", id("Pump"), S::Good, &all),
        ("all of it at the Server object", "keeper", SERVER, S::Good, &all),
        ("a hidden source", "reader", id("Pump"), S::Good, &["one", "two", "four"]),
        ("hidden at the Server object as well", "reader", SERVER, S::Good, &["one", "two", "four"]),
        ("no right to read history", "listener", id("Pump"), S::BadUserAccessDenied, &[]),
        ("nor at the Server object", "listener", SERVER, S::GoodNoData, &[]),
        ("no right to receive events", "historian", id("Pump"), S::BadUserAccessDenied, &[]),
        ("not of a hidden notifier", "bob", id("Pump"), S::BadNodeIdUnknown, &[]),
        ("an object that keeps nothing", "keeper", id("Motor"), S::BadHistoryOperationUnsupported, &[]),
        ("a variable", "keeper", id("Setpoint"), S::BadHistoryOperationUnsupported, &[]),
    ];
    for (rule, user, notifier, status, expected) in rows {
        let mut world = world();
        let (conn, login) = world.log_in(ENCRYPT, user);
        let result = read(&mut world, (conn, &login), everything(), &notifier);
        assert_eq!(
            (result.status_code, messages(&result)),
            (status, expected.iter().map(|one| (*one).to_owned()).collect()),
            "{rule}"
        );
        if status.is_bad() {
            assert!(result.history_data.is_null());
        }
    }
}

#[test]
fn time_number_and_direction_choose_among_events() {
    let mut world = world();
    let (conn, login) = world.log_in(ENCRYPT, "keeper");
    let first = crate::space::date_time(world.now.unix).ticks() - 4 * 10_000_000;
    let second = 10_000_000;
    for (rule, start, end, most, expected) in [
        ("up to the end, which is not part of it", first, first + 2 * second, 0, vec!["one", "two"]),
        ("backward", first + 3 * second, first, 0, vec!["four", "three", "two"]),
        ("an instant", first + second, first + second, 0, vec!["two"]),
        ("the last two", 0, first + 9 * second, 2, vec!["four", "three"]),
        ("two from the second on", first + second, 0, 2, vec!["two", "three"]),
        ("none", first + 9 * second, first + 10 * second, 0, vec![]),
    ] {
        let result = read(&mut world, (conn, &login), details(start, end, most, Vec::new()), &id("Pump"));
        assert_eq!(messages(&result), expected, "{rule}");
        assert!(result.continuation_point.is_null(), "{rule}");
    }
    let no_domain = read(&mut world, (conn, &login), details(first, 0, 0, Vec::new()), &id("Pump"));
    assert_eq!(no_domain.status_code, StatusCode::BadHistoryOperationInvalid);
    let nothing =
        ReadEventDetails { start_time: DateTime::from(1), num_values_per_node: 1, ..ReadEventDetails::default() };
    let no_filter = read(&mut world, (conn, &login), ExtensionObject::from_message(nothing), &id("Pump"));
    assert_eq!(no_filter.status_code, StatusCode::BadEventFilterInvalid);
}

#[test]
fn values_in_events_of_the_past_are_for_who_may_read_the_node_and_its_history() {
    let mut world = world();
    let level = |number: f64| {
        let operand = SimpleAttributeOperand {
            type_definition_id: NodeId::new(0, 2041),
            browse_path: Some(vec![QualifiedName::new(0, "Level")]),
            attribute_id: 13,
            index_range: NumericRange::None,
        };
        let literal = LiteralOperand { value: number.into() };
        vec![ContentFilterElement {
            filter_operator: FilterOperator::GreaterThan,
            filter_operands: Some(vec![ExtensionObject::from_message(operand), ExtensionObject::from_message(literal)]),
        }]
    };
    for (user, readable) in [("keeper", true), ("reader", false)] {
        let (conn, login) = world.log_in(ENCRYPT, user);
        let result = read(&mut world, (conn, &login), everything(), &id("Pump"));
        let levels = fields(&result).into_iter().map(|mut fields| fields.remove(2));
        let denied = Variant::StatusCode(StatusCode::BadUserAccessDenied);
        assert!(levels.into_iter().all(|level| (level.as_f64().is_some(), level == denied) == (readable, !readable)));
        let asked = details(1, i64::MAX / 2, 0, level(-1.0));
        let result = read(&mut world, (conn, &login), asked, &id("Pump"));
        assert_eq!(messages(&result).is_empty(), !readable, "a clause tells {user} no more than the field");
    }
}

#[test]
fn where_a_page_ends_tells_nothing_of_hidden_events() {
    let limits = ServerLimits { max_history_values: 2, ..ServerLimits::default() };
    let mut world = world_with(limits);
    let [door, motor] = ["Door", "Motor"].map(|name| world.server.space().find(&id(name)).unwrap());
    (0..5).for_each(|_| raise(&mut world, door, "hidden"));
    let (conn, login) = world.log_in(ENCRYPT, "reader");
    let first = read(&mut world, (conn, &login), everything(), &id("Pump"));
    assert_eq!(messages(&first), ["one", "two"]);
    let invalid = StatusCode::BadContinuationPointInvalid;
    let (other, elsewhere) = world.log_in(ENCRYPT, "reader");
    let modified = ReadEventDetails2 {
        start_time: DateTime::from(1),
        end_time: DateTime::from(i64::MAX / 2),
        filter: event_filter(&["Message"], Vec::new()).inner_as::<EventFilter>().unwrap().clone(),
        read_modified: true,
        ..ReadEventDetails2::default()
    };
    let point = &first.continuation_point;
    for (rule, by, notifier) in
        [("another session", (other, &elsewhere), id("Pump")), ("another notifier", (conn, &login), SERVER)]
    {
        let result = ask(&mut world, by, everything(), vec![item(&notifier, point)], false).unwrap().remove(0);
        assert_eq!(result.status_code, invalid, "{rule}");
    }
    let next = |world: &mut World, details, point: &ByteString| {
        ask(world, (conn, &login), details, vec![item(&id("Pump"), point)], false).unwrap().remove(0)
    };
    let last = next(&mut world, everything(), point);
    assert_eq!(
        (messages(&last), last.continuation_point.is_null()),
        (vec!["four".to_owned()], true),
        "hidden ones follow"
    );
    assert_eq!(next(&mut world, everything(), point).status_code, invalid, "good once");
    raise(&mut world, motor, "five");
    let again = read(&mut world, (conn, &login), everything(), &id("Pump")).continuation_point;
    assert_eq!(
        next(&mut world, ExtensionObject::from_message(modified), &again).status_code,
        invalid,
        "of other details"
    );
}

#[test]
fn events_are_deleted_by_right_of_notifier_and_source_and_who_did_is_kept() {
    use StatusCode as S;
    let mut world = world();
    let (keeper, kept) = world.log_in(ENCRYPT, "keeper");
    let result = read(&mut world, (keeper, &kept), everything(), &id("Pump"));
    let ids: Vec<ByteString> = fields(&result)
        .into_iter()
        .map(|mut fields| match fields.remove(1) {
            Variant::ByteString(id) => id,
            other => panic!("{other:?}"),
        })
        .collect();
    let unknown = ByteString::from(vec![7; 16]);
    let delete = |world: &mut World, (conn, login): (ConnId, &Login), node: NodeId, ids: Vec<ByteString>| {
        change(world, conn, login, DeleteEventDetails { node_id: node, event_ids: Some(ids) })
    };
    for (rule, user, notifier, status) in [
        ("to read is not to delete", "reader", id("Pump"), S::BadUserAccessDenied),
        ("the Server object's", "keeper", SERVER, S::BadUserAccessDenied),
        ("a hidden notifier", "bob", id("Pump"), S::BadNodeIdUnknown),
        ("an object that keeps nothing", "keeper", id("Motor"), S::BadHistoryOperationUnsupported),
    ] {
        let (conn, login) = world.log_in(ENCRYPT, user);
        assert_eq!(delete(&mut world, (conn, &login), notifier, ids.clone()).status_code, status, "{rule}");
    }
    let (conn, login) = world.log_in(ENCRYPT, "deleter");
    let asked = vec![ids[0].clone(), ids[2].clone(), unknown.clone()];
    let result = delete(&mut world, (conn, &login), id("Pump"), asked);
    let expected = vec![S::Good, S::BadUserAccessDenied, S::BadEventIdUnknown];
    assert_eq!((result.status_code, result.operation_results), (S::Good, Some(expected)), "the door is of the vault");
    let none = delete(&mut world, (conn, &login), id("Pump"), vec![unknown]);
    assert_eq!(none.status_code, S::BadNoData);
    let left = read(&mut world, (keeper, &kept), everything(), &id("Pump"));
    assert_eq!(messages(&left), ["two", "three", "four"]);
    let elsewhere = read(&mut world, (keeper, &kept), everything(), &SERVER);
    assert_eq!(messages(&elsewhere).len(), 4, "each notifier keeps its own");
    let modified = ReadEventDetails2 {
        start_time: DateTime::from(1),
        end_time: DateTime::from(i64::MAX / 2),
        filter: event_filter(&["Message"], Vec::new()).inner_as::<EventFilter>().unwrap().clone(),
        read_modified: true,
        ..ReadEventDetails2::default()
    };
    let changes = read(&mut world, (keeper, &kept), ExtensionObject::from_message(modified), &id("Pump"));
    assert_eq!(messages(&changes), ["one"]);
    let infos = changes.history_data.inner_as::<HistoryModifiedEvent>().unwrap().modification_infos.clone().unwrap();
    let info = (infos[0].user_name.to_string(), infos[0].update_type);
    assert_eq!((infos.len(), info), (1, ("deleter".to_owned(), HistoryUpdateType::Delete)));
    let recorded = world.records.iter().filter(|record| record.kind == AuditKind::HistoryChanged);
    let allowed: Vec<&str> =
        recorded.filter(|record| record.outcome == Outcome::Allowed).map(|record| record.detail.as_str()).collect();
    assert_eq!(allowed, ["3 events are deleted", "1 event is deleted"]);
}

#[test]
fn events_that_are_kept_are_bounded_and_audit_events_are_not_among_them() {
    let mut world = world();
    let pump = world.server.space().find(&id("Pump")).unwrap();
    world.server.space_mut().historize_events(pump, 3, false).unwrap();
    for message in ["a", "b", "c", "d"] {
        raise(&mut world, pump, message);
    }
    let (conn, login) = world.log_in(ENCRYPT, "keeper");
    let result = read(&mut world, (conn, &login), everything(), &id("Pump"));
    assert_eq!(messages(&result), ["b", "c", "d"]);
    world.write(conn, &login, vec![(id("Setpoint"), 5.0.into())]).unwrap();
    let all = read(&mut world, (conn, &login), everything(), &SERVER);
    assert_eq!(messages(&all), ["one", "two", "three", "four", "a", "b", "c", "d"]);
    let space = world.server.space();
    let number = |name: &str| space.event_notifier(space.find(&id(name)).unwrap());
    assert_eq!([number("Pump"), number("Motor"), space.event_notifier(ns0::SERVER)], [Some(5), Some(0), Some(5)]);
    let setpoint = space.find(&id("Setpoint")).unwrap();
    assert!(world.server.space_mut().historize_events(setpoint, 3, false).is_err(), "a variable notifies of nothing");
}
