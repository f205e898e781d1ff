//! Filters that cost much: for one request for the past, and for one event at one session.

use std::time::Duration;

use access_model::Rights;
use opcua_types::*;
use pep::Who;

use super::events::event_filter;
use super::history::{ask, at};
use super::monitoring::TICK;
use super::world::*;
use crate::event::Steps;
use crate::space::NodeRef;

/// What one of the patterns takes at least, in steps.
const DEAR: usize = 150_000;

fn literal(value: impl Into<Variant>) -> ExtensionObject {
    ExtensionObject::from_message(LiteralOperand { value: value.into() })
}

/// A clause that every event passes, behind which stand so many patterns that nothing refers to.
fn dear(patterns: usize) -> Vec<ContentFilterElement> {
    let element = |filter_operator, operands| ContentFilterElement { filter_operator, filter_operands: Some(operands) };
    let pattern = format!("%{}b", "a".repeat(250));
    let like = element(FilterOperator::Like, vec![literal("a".repeat(1_000)), literal(pattern)]);
    let mut elements = vec![element(FilterOperator::IsNull, vec![literal(Variant::Empty)])];
    elements.extend(std::iter::repeat_n(like, patterns));
    elements
}

/// A pump that has told four things and keeps them.
fn world() -> (World, NodeRef) {
    let rights = Rights::BROWSE | Rights::RECEIVE_EVENTS | Rights::READ_HISTORY | Rights::READ;
    let local = vec![grant(Who::User("keeper".into()), vec![(rights, "reactor")])];
    let mut world = Setup { local, ..Setup::default() }.start();
    let [pump, ..] = world.machines();
    world.server.space_mut().historize_events(pump, 100, true).unwrap();
    for message in ["one", "two", "three", "four"] {
        world.raise(pump, message);
        world.pass(Duration::from_secs(1));
    }
    (world, pump)
}

/// How many events each node of a request gave, with its status and where it goes on.
fn read(patterns: usize, points: &[ByteString]) -> Vec<(usize, StatusCode, ByteString)> {
    let (mut world, _) = world();
    let (conn, login) = world.log_in(ENCRYPT, "keeper");
    let asked = || {
        ExtensionObject::from_message(ReadEventDetails {
            num_values_per_node: 0,
            start_time: DateTime::from(1),
            end_time: DateTime::from(i64::MAX / 2),
            filter: event_filter(&["Message"], dear(patterns)).inner_as::<EventFilter>().unwrap().clone(),
        })
    };
    let items = points.iter().map(|point| HistoryReadValueId { node_id: id("Pump"), ..at("Pump", point) }).collect();
    let mut results = ask(&mut world, (conn, &login), asked(), items, false).unwrap();
    // What the last one still has comes with the next request, if any could be looked at.
    if let Some(point) = results.last().map(|last| last.continuation_point.clone()).filter(|point| !point.is_null()) {
        let item = HistoryReadValueId { node_id: id("Pump"), ..at("Pump", &point) };
        results.extend(ask(&mut world, (conn, &login), asked(), vec![item], false).unwrap());
    }
    let events = |result: &HistoryReadResult| {
        let found = result.history_data.inner_as::<HistoryEvent>();
        found.and_then(|found| found.events.as_ref()).map_or(0, Vec::len)
    };
    results.iter().map(|result| (events(result), result.status_code, result.continuation_point.clone())).collect()
}

#[test]
fn what_filters_cost_is_bounded_for_a_whole_request() {
    let ten = vec![ByteString::null(); 10];
    let four = (4, StatusCode::Good, ByteString::null());
    assert!(read(0, &ten).iter().all(|one| *one == four), "what is cheap is told at once");
    let mut results = read(2, &ten);
    let next = results.pop().unwrap();
    let told: usize = results.iter().map(|(events, ..)| events).sum();
    assert!(told > 4 && told * 2 * DEAR <= Steps::PAST, "{told}");
    assert_eq!(results[0], four);
    for (events, status, point) in &results {
        assert_eq!(
            (*status, point.is_null()),
            (StatusCode::Good, *events == 4),
            "what is left comes with the next page"
        );
    }
    assert_eq!(next, four, "and there it is");
    let results = read(40, &ten);
    assert_eq!(results[0], (0, StatusCode::BadTooManyOperations, ByteString::null()), "one event is too much");
    assert!(results[1..10].iter().all(|(events, ..)| *events == 0), "and is not tried again");
}

#[test]
fn what_filters_cost_is_bounded_for_one_event_at_one_session() {
    let lost = "events were lost, for the filters of this session cost too much";
    // What two items need together is there for one of them only.
    for (items, expected) in [
        (vec![0, 0], ["hot", "hot"]),
        (vec![0, 1], ["hot", "hot"]),
        (vec![1, 1], ["hot", lost]),
        (vec![3, 0], [lost, "hot"]),
        (vec![3, 3], [lost, lost]),
    ] {
        let (mut world, pump) = world();
        let (conn, login) = world.log_in(ENCRYPT, "keeper");
        for patterns in &items {
            let elements = if *patterns == 0 { Vec::new() } else { dear(*patterns) };
            let filter = event_filter(&["Message"], elements);
            let (_, result) = world.listen_as(conn, &login, id("Pump"), filter, (10, true));
            assert_eq!(result.status_code, StatusCode::Good);
        }
        world.raise(pump, "hot");
        let requests = [world.publish(conn, &login), world.publish(conn, &login)];
        world.pass(TICK);
        let mut told: Vec<String> =
            requests.into_iter().filter_map(|request| world.messages(conn, request)).flatten().collect();
        let mut expected = expected.to_vec();
        told.sort_unstable();
        expected.sort_unstable();
        assert_eq!(told, expected, "{items:?}");
    }
}
