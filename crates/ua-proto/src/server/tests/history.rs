//! HistoryRead and HistoryUpdate with the gate of a whole server: every node of every request is decided.

use access_model::{AuditKind, Outcome, Reason, Rights, ScopeIndex, ScopeMap};
use opcua_types::*;
use pep::Who;

use super::world::*;
use crate::server::{Audited, ConnId, Input, ServerLimits};

const ALL: Rights = match Rights::from_bits(
    Rights::INSERT_HISTORY.bits() | Rights::MODIFY_HISTORY.bits() | Rights::DELETE_HISTORY.bits(),
) {
    Some(rights) => rights,
    None => Rights::NONE,
};

/// Everything about the history of the reactor; the mixer may be seen.
pub(super) fn historian() -> Vec<(Rights, &'static str)> {
    let reactor = Rights::BROWSE | Rights::READ | Rights::WRITE | Rights::READ_HISTORY | ALL;
    vec![(reactor, "reactor"), (Rights::BROWSE | Rights::READ, "mixer")]
}

pub(super) fn world_with(limits: ServerLimits) -> World {
    let user = |name: &str, rights| grant(Who::User(name.into()), rights);
    let one = |right: Rights| vec![(Rights::BROWSE | right, "reactor")];
    let local = vec![
        user("dora", historian()),
        user("reader", one(Rights::READ_HISTORY)),
        user("inserter", one(Rights::INSERT_HISTORY)),
        user("modifier", one(Rights::MODIFY_HISTORY)),
        user("updater", one(Rights::INSERT_HISTORY | Rights::MODIFY_HISTORY)),
        user("deleter", one(Rights::DELETE_HISTORY)),
        user("writer", one(Rights::READ | Rights::WRITE)),
    ];
    Setup { local, limits, ..Setup::default() }.start()
}

/// Values at 10 to 50, ten times as large.
fn fill(world: &mut World) {
    for (name, writable) in [("Setpoint", true), ("Speed", true), ("Secret", true), ("Pressure", false)] {
        let node = world.server.space().find(&id(name)).unwrap();
        let space = world.server.space_mut();
        space.historize(node, 100, writable).unwrap();
        let past = (1..=5).map(|at| value(at * 10, at as f64 * 100.0));
        space.fill_history(node, past);
    }
}

/// A session over history.
pub(super) fn begin(world: &mut World, user: &str) -> (ConnId, Login) {
    fill(world);
    world.log_in(ENCRYPT, user)
}

pub(super) fn value(at: i64, number: f64) -> DataValue {
    DataValue { value: Some(Variant::from(number)), source_timestamp: Some(DateTime::from(at)), ..DataValue::null() }
}

fn raw(start: i64, end: i64, most: u32) -> ExtensionObject {
    ExtensionObject::from_message(ReadRawModifiedDetails {
        is_read_modified: false,
        start_time: DateTime::from(start),
        end_time: DateTime::from(end),
        num_values_per_node: most,
        return_bounds: false,
    })
}

pub(super) fn at(name: &str, point: &ByteString) -> HistoryReadValueId {
    HistoryReadValueId {
        node_id: id(name),
        index_range: NumericRange::None,
        data_encoding: QualifiedName::null(),
        continuation_point: point.clone(),
    }
}

pub(super) fn ask(
    world: &mut World,
    (conn, login): (ConnId, &Login),
    details: ExtensionObject,
    nodes: Vec<HistoryReadValueId>,
    release: bool,
) -> Result<Vec<HistoryReadResult>, StatusCode> {
    let request = HistoryReadRequest {
        request_header: world.header(&login.token),
        history_read_details: details,
        timestamps_to_return: TimestampsToReturn::Source,
        release_continuation_points: release,
        nodes_to_read: Some(nodes),
    };
    let response: HistoryReadResponse = world.ask(conn, &request)?;
    Ok(response.results.unwrap())
}

/// Instants and numbers of one result.
fn values(result: &HistoryReadResult) -> Vec<(i64, Option<f64>)> {
    let Some(history) = result.history_data.inner_as::<HistoryData>() else { return Vec::new() };
    let one = |value: &DataValue| {
        assert!(value.server_timestamp.is_none(), "it was not asked for");
        (value.source_timestamp.unwrap().ticks(), value.value.as_ref().and_then(Variant::as_f64))
    };
    history.data_values.iter().flatten().map(one).collect()
}

fn instants(result: &HistoryReadResult) -> Vec<i64> {
    values(result).into_iter().map(|(at, _)| at).collect()
}

fn read(world: &mut World, by: (ConnId, &Login), name: &str) -> Result<Vec<i64>, StatusCode> {
    let result = ask(world, by, raw(10, 1_000, 0), vec![at(name, &ByteString::null())], false)?.remove(0);
    if result.status_code.is_bad() {
        assert!(result.history_data.is_null(), "a bad status comes without values");
        return Err(result.status_code);
    }
    Ok(instants(&result))
}

pub(super) fn change<T: DynEncodable>(
    world: &mut World,
    conn: ConnId,
    login: &Login,
    details: T,
) -> HistoryUpdateResult {
    let request = HistoryUpdateRequest {
        request_header: world.header(&login.token),
        history_update_details: Some(vec![ExtensionObject::from_message(details)]),
    };
    let response: HistoryUpdateResponse = world.ask(conn, &request).unwrap();
    response.results.unwrap().remove(0)
}

pub(super) fn update(
    world: &mut World,
    conn: ConnId,
    login: &Login,
    name: &str,
    perform: PerformUpdateType,
    new: &[(i64, f64)],
) -> HistoryUpdateResult {
    let update_values = Some(new.iter().map(|(at, number)| value(*at, *number)).collect());
    let details = UpdateDataDetails { node_id: id(name), perform_insert_replace: perform, update_values };
    change(world, conn, login, details)
}

pub(super) fn delete_at(
    world: &mut World,
    conn: ConnId,
    login: &Login,
    name: &str,
    times: &[i64],
) -> HistoryUpdateResult {
    let req_times = Some(times.iter().map(|at| DateTime::from(*at)).collect());
    change(world, conn, login, DeleteAtTimeDetails { node_id: id(name), req_times })
}

fn delete(world: &mut World, conn: ConnId, login: &Login, name: &str) -> HistoryUpdateResult {
    let (start_time, end_time) = (DateTime::from(20), DateTime::from(40));
    let details = DeleteRawModifiedDetails { node_id: id(name), is_delete_modified: false, start_time, end_time };
    change(world, conn, login, details)
}

#[test]
fn history_is_read_item_by_item_in_order() {
    let mut world = world_with(ServerLimits::default());
    let (conn, login) = begin(&mut world, "dora");
    let none = ByteString::null();
    let names = ["Setpoint", "Speed", "Secret", "Missing", "Note", "Pressure"];
    let nodes = names.iter().map(|name| at(name, &none)).collect();
    let results = ask(&mut world, (conn, &login), raw(10, 60, 0), nodes, false).unwrap();
    let seen: Vec<(StatusCode, usize)> =
        results.iter().map(|result| (result.status_code, values(result).len())).collect();
    use StatusCode as S;
    let expected = [
        (S::Good, 5),
        (S::BadUserAccessDenied, 0),
        (S::BadNodeIdUnknown, 0),
        (S::BadNodeIdUnknown, 0),
        (S::BadHistoryOperationUnsupported, 0),
        (S::Good, 5),
    ];
    assert_eq!(seen, expected);
    let denied: Vec<Outcome> = world.outcomes(AuditKind::Read);
    assert_eq!(denied.iter().filter(|outcome| matches!(outcome, Outcome::Denied(_))).count(), 2, "{denied:?}");
}

#[test]
fn reading_a_value_is_not_the_right_to_read_its_history() {
    let mut world = world_with(ServerLimits::default());
    let (conn, login) = begin(&mut world, "writer");
    assert_eq!(read(&mut world, (conn, &login), "Setpoint"), Err(StatusCode::BadUserAccessDenied));
    let (conn, login) = world.log_in(ENCRYPT, "reader");
    assert_eq!(read(&mut world, (conn, &login), "Setpoint"), Ok(vec![10, 20, 30, 40, 50]));
    assert_eq!(world.read_one(conn, &login, "Setpoint"), Err(StatusCode::BadUserAccessDenied), "nor the reverse");
}

#[test]
fn continuation_points_belong_to_one_node_of_one_session() {
    let mut limits = ServerLimits { max_history_values: 2, ..ServerLimits::default() };
    limits.operations.max_history_continuation_points = 2;
    let mut world = world_with(limits);
    let (conn, login) = begin(&mut world, "dora");
    let (other, second) = world.log_in(ENCRYPT, "dora");
    let (one, two) = ((conn, &login), (other, &second));
    let next = |world: &mut World, by, name: &str, point: &ByteString, details| {
        let result = ask(world, by, details, vec![at(name, point)], false).unwrap().remove(0);
        (result.status_code, instants(&result), result.continuation_point)
    };
    let (_, first, point) = next(&mut world, one, "Setpoint", &ByteString::null(), raw(10, 60, 0));
    assert_eq!(first, [10, 20]);
    let invalid = StatusCode::BadContinuationPointInvalid;
    assert_eq!(next(&mut world, two, "Setpoint", &point, raw(10, 60, 0)).0, invalid, "of another session");
    assert_eq!(next(&mut world, one, "Pressure", &point, raw(10, 60, 0)).0, invalid, "of another node");
    let (_, middle, point) = next(&mut world, one, "Setpoint", &point, raw(10, 60, 0));
    assert_eq!(middle, [30, 40]);
    let (_, last, end) = next(&mut world, one, "Setpoint", &point, raw(10, 60, 0));
    assert_eq!((last, end.is_null()), (vec![50], true));
    assert_eq!(next(&mut world, one, "Setpoint", &point, raw(10, 60, 0)).0, invalid, "it was used");
    let (_, _, point) = next(&mut world, one, "Setpoint", &ByteString::null(), raw(10, 60, 0));
    assert_eq!(next(&mut world, one, "Setpoint", &point, raw(20, 60, 0)).0, invalid, "with other details");
    let points: Vec<ByteString> =
        (0..3).map(|_| next(&mut world, one, "Setpoint", &ByteString::null(), raw(10, 60, 0)).2).collect();
    assert_eq!(next(&mut world, one, "Setpoint", &points[0], raw(10, 60, 0)).0, invalid, "the oldest made room");
    assert_eq!(next(&mut world, one, "Setpoint", &points[1], raw(10, 60, 0)).1, [30, 40]);
    let released = ask(&mut world, one, raw(10, 60, 0), vec![at("Setpoint", &points[2])], true).unwrap().remove(0);
    assert_eq!((released.status_code.is_good(), instants(&released)), (true, vec![]));
    assert_eq!(next(&mut world, one, "Setpoint", &points[2], raw(10, 60, 0)).0, invalid, "it was released");
}

#[test]
fn the_next_page_of_history_needs_the_right_anew() {
    let mut world = world_with(ServerLimits { max_history_values: 2, ..ServerLimits::default() });
    let (conn, login) = begin(&mut world, "dora");
    let page = |world: &mut World, point: &ByteString| {
        ask(world, (conn, &login), raw(10, 60, 0), vec![at("Setpoint", point)], false).unwrap().remove(0)
    };
    let point = page(&mut world, &ByteString::null()).continuation_point;
    let node = world.server.space().find(&id("Setpoint")).unwrap();
    let map = ScopeMap::new(SCOPES).unwrap();
    let hide = |space: &mut crate::space::Space| {
        space.set_scope(node, ScopeIndex(3));
        Vec::new()
    };
    world.server.lay_out(map, hide, world.now).unwrap();
    world.run();
    let next = page(&mut world, &point);
    assert_eq!((next.status_code, next.history_data.is_null()), (StatusCode::BadNodeIdUnknown, true));
}

#[test]
fn each_change_of_history_takes_its_own_right() {
    use PerformUpdateType as P;
    let (denied, inserted, replaced) =
        (StatusCode::BadUserAccessDenied, StatusCode::GoodEntryInserted, StatusCode::GoodEntryReplaced);
    // user => insert at 15, replace at 20, update at 20, delete a range, delete at 50
    let rows = [
        ("dora", [Ok(inserted), Ok(replaced), Ok(replaced), Ok(StatusCode::Good), Ok(StatusCode::Good)]),
        ("inserter", [Ok(inserted), Err(denied), Err(denied), Err(denied), Err(denied)]),
        ("modifier", [Err(denied), Ok(replaced), Err(denied), Err(denied), Err(denied)]),
        ("updater", [Ok(inserted), Ok(replaced), Ok(replaced), Err(denied), Err(denied)]),
        ("deleter", [Err(denied), Err(denied), Err(denied), Ok(StatusCode::Good), Ok(StatusCode::Good)]),
        ("reader", [Err(denied); 5]),
        ("writer", [Err(denied); 5]),
    ];
    for (user, expected) in rows {
        let mut world = world_with(ServerLimits::default());
        let (conn, login) = begin(&mut world, user);
        let results = [
            update(&mut world, conn, &login, "Setpoint", P::Insert, &[(15, 1.0)]),
            update(&mut world, conn, &login, "Setpoint", P::Replace, &[(20, 2.0)]),
            update(&mut world, conn, &login, "Setpoint", P::Update, &[(20, 3.0)]),
            delete(&mut world, conn, &login, "Setpoint"),
            delete_at(&mut world, conn, &login, "Setpoint", &[50]),
        ];
        let seen = results.map(|result| match result.status_code.is_good() {
            true => Ok(result.operation_results.iter().flatten().next().copied().unwrap_or(StatusCode::Good)),
            false => Err(result.status_code),
        });
        assert_eq!(seen, expected, "{user}");
        let denials = expected.iter().filter(|one| one.is_err()).count();
        let outcomes = world.outcomes(AuditKind::HistoryChanged);
        let counted = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Denied(_))).count();
        assert_eq!((counted, outcomes.len()), (denials, 5), "{user}: a record each");
    }
}

#[test]
fn history_changes_only_where_it_may_and_can() {
    use StatusCode as S;
    let mut world = world_with(ServerLimits::default());
    let (conn, login) = begin(&mut world, "dora");
    for (rule, name, expected) in [
        ("a hidden node", "Secret", S::BadNodeIdUnknown),
        ("no such node", "Missing", S::BadNodeIdUnknown),
        ("a node without the right", "Speed", S::BadUserAccessDenied),
        ("a node without history", "Note", S::BadHistoryOperationUnsupported),
        ("history that can only be read", "Pressure", S::BadHistoryOperationUnsupported),
    ] {
        let result = update(&mut world, conn, &login, name, PerformUpdateType::Update, &[(15, 1.0)]);
        assert_eq!(result.status_code, expected, "{rule}");
    }
    let other_type = DataValue { value: Some(Variant::from(5_i32)), ..value(15, 0.0) };
    let details = UpdateDataDetails {
        node_id: id("Setpoint"),
        perform_insert_replace: PerformUpdateType::Insert,
        update_values: Some(vec![other_type, value(16, 1.0)]),
    };
    let result = change(&mut world, conn, &login, details);
    assert_eq!(result.operation_results, Some(vec![S::BadTypeMismatch, S::GoodEntryInserted]));
    assert_eq!(read(&mut world, (conn, &login), "Setpoint"), Ok(vec![10, 16, 20, 30, 40, 50]));
    let structure = UpdateStructureDataDetails {
        node_id: id("Setpoint"),
        perform_insert_replace: PerformUpdateType::Insert,
        update_values: None,
    };
    assert_eq!(change(&mut world, conn, &login, structure).status_code, S::BadHistoryOperationUnsupported);
}

#[test]
fn a_change_of_history_waits_for_its_record() {
    for (kept, expected) in [(true, 6), (false, 5)] {
        let mut world = world_with(ServerLimits::default());
        let (conn, login) = begin(&mut world, "dora");
        world.ledger = None;
        let details = UpdateDataDetails {
            node_id: id("Setpoint"),
            perform_insert_replace: PerformUpdateType::Insert,
            update_values: Some(vec![value(15, 1.0)]),
        };
        let request = HistoryUpdateRequest {
            request_header: world.header(&login.token),
            history_update_details: Some(vec![ExtensionObject::from_message(details)]),
        };
        let pending = world.send(conn, &request);
        assert!(world.answer::<HistoryUpdateResponse>(conn, pending).is_none());
        assert_eq!(read(&mut world, (conn, &login), "Setpoint").unwrap().len(), 5, "not carried out either");
        let result = if kept { Audited::Kept } else { Audited::Unavailable };
        let record = world.held_audits.pop().unwrap();
        world.ledger = Some(result);
        world.input(Input::Audited { id: record, result });
        let response = world.answer::<HistoryUpdateResponse>(conn, pending).unwrap().unwrap();
        let status = response.results.unwrap().remove(0).status_code;
        assert_eq!(status.is_good(), kept, "{status}");
        assert_eq!(read(&mut world, (conn, &login), "Setpoint").unwrap().len(), expected);
    }
}

#[test]
fn a_right_that_ends_before_the_record_is_kept_changes_no_history() {
    let mut world = world_with(ServerLimits::default());
    let (conn, login) = begin(&mut world, "dora");
    world.ledger = None;
    let req_times = Some(vec![DateTime::from(20)]);
    let request = HistoryUpdateRequest {
        request_header: world.header(&login.token),
        history_update_details: Some(vec![ExtensionObject::from_message(DeleteAtTimeDetails {
            node_id: id("Setpoint"),
            req_times,
        })]),
    };
    let pending = world.send(conn, &request);
    let node = world.server.space().find(&id("Setpoint")).unwrap();
    let map = ScopeMap::new(SCOPES).unwrap();
    let arrange = |space: &mut crate::space::Space| {
        space.set_scope(node, ScopeIndex(2));
        Vec::new()
    };
    world.server.lay_out(map, arrange, world.now).unwrap();
    world.run();
    world.ledger = Some(Audited::Kept);
    let record = world.held_audits.pop().unwrap();
    world.input(Input::Audited { id: record, result: Audited::Kept });
    let response = world.answer::<HistoryUpdateResponse>(conn, pending).unwrap().unwrap();
    assert_eq!(response.results.unwrap().remove(0).status_code, StatusCode::BadUserAccessDenied);
    assert_eq!(world.last_reason(AuditKind::HistoryChanged), Some(Reason::GrantRevoked));
    let kept = world.server.space().history(node).unwrap();
    let touched = kept.touched(&crate::history::Change::DeleteAt(vec![20]));
    assert_eq!(touched.len(), 1, "it is still there");
}

#[test]
fn what_is_written_becomes_history() {
    let mut world = world_with(ServerLimits::default());
    let (conn, login) = begin(&mut world, "dora");
    assert_eq!(world.write(conn, &login, vec![(id("Setpoint"), Variant::from(33.0))]), Ok(vec![StatusCode::Good]));
    world.set("Setpoint", Variant::from(34.0));
    let details = raw(0, i64::MAX, 2);
    let result = ask(&mut world, (conn, &login), details, vec![at("Setpoint", &ByteString::null())], false);
    let numbers: Vec<Option<f64>> = values(&result.unwrap()[0]).into_iter().map(|(_, number)| number).collect();
    assert_eq!(numbers[0], Some(34.0), "the newest first");
    let value_of = ReadValueId { node_id: id("Setpoint"), attribute_id: 20, ..ReadValueId::default() };
    let request = ReadRequest {
        request_header: world.header(&login.token),
        max_age: 0.0,
        timestamps_to_return: TimestampsToReturn::Neither,
        nodes_to_read: Some(vec![value_of.clone(), ReadValueId { attribute_id: 18, ..value_of }]),
    };
    let read: ReadResponse = world.ask(conn, &request).unwrap();
    let attributes: Vec<_> = read.results.unwrap().into_iter().map(|value| value.value).collect();
    assert_eq!(attributes, [Some(Variant::from(true)), Some(Variant::Byte(0x6f))], "Historizing, UserAccessLevel");
    let space = world.server.space();
    for (name, number, expected) in [
        ("AccessHistoryDataCapability", 11_193, Variant::from(true)),
        ("MaxReturnDataValues", 11_273, Variant::UInt32(10_000)),
        ("MaxHistoryContinuationPoints", 2_737, Variant::UInt16(16)),
        ("MaxNodesPerHistoryReadData", 12_165, Variant::UInt32(100)),
        ("MaxNodesPerHistoryUpdateData", 12_167, Variant::UInt32(100)),
    ] {
        let node = crate::space::ns0::find_numeric(number).unwrap();
        assert_eq!(space.value(node, world.now.unix).value, Some(expected), "{name}");
    }
}

#[test]
fn processed_values_and_values_of_instants() {
    let mut world = world_with(ServerLimits { max_history_values: 3, ..ServerLimits::default() });
    let (conn, login) = begin(&mut world, "dora");
    let by = (conn, &login);
    let processed = |kinds: &[u32], start: i64, end: i64| {
        ExtensionObject::from_message(ReadProcessedDetails {
            start_time: DateTime::from(start),
            end_time: DateTime::from(end),
            processing_interval: 0.001,
            aggregate_type: Some(kinds.iter().map(|kind| NodeId::new(0, *kind)).collect()),
            aggregate_configuration: AggregateConfiguration {
                use_server_capabilities_defaults: true,
                ..Default::default()
            },
        })
    };
    let nodes = |names: &[&str]| names.iter().map(|name| at(name, &ByteString::null())).collect::<Vec<_>>();
    let mismatch = ask(&mut world, by, processed(&[2342, 2342], 10, 60), nodes(&["Setpoint"]), false);
    assert_eq!(mismatch.err(), Some(StatusCode::BadAggregateListMismatch));
    // Ten ticks are a microsecond.
    let results = ask(
        &mut world,
        by,
        processed(&[2342, 2343, 2352, 2342], 10, 60),
        nodes(&["Setpoint", "Pressure", "Speed", "Secret"]),
        false,
    )
    .unwrap();
    let statuses: Vec<StatusCode> = results.iter().map(|result| result.status_code).collect();
    use StatusCode as S;
    assert_eq!(statuses, [S::Good, S::BadAggregateNotSupported, S::BadUserAccessDenied, S::BadNodeIdUnknown]);
    assert_eq!(values(&results[0]), [(10, Some(100.0)), (20, Some(200.0)), (30, Some(300.0))]);
    let rest =
        ask(&mut world, by, processed(&[2342], 10, 60), vec![at("Setpoint", &results[0].continuation_point)], false);
    assert_eq!(values(&rest.unwrap()[0]), [(40, Some(400.0)), (50, Some(500.0))]);
    let same = ask(&mut world, by, processed(&[2342], 10, 10), nodes(&["Setpoint"]), false).unwrap();
    assert_eq!(same[0].status_code, S::BadInvalidArgument);
    let times = ExtensionObject::from_message(ReadAtTimeDetails {
        req_times: Some([10, 15, 20, 25].map(DateTime::from).to_vec()),
        use_simple_bounds: false,
    });
    let found = ask(&mut world, by, times.clone(), nodes(&["Setpoint"]), false).unwrap().remove(0);
    assert_eq!(values(&found), [(10, Some(100.0)), (15, Some(150.0)), (20, Some(200.0))]);
    let rest = ask(&mut world, by, times, vec![at("Setpoint", &found.continuation_point)], false).unwrap().remove(0);
    assert_eq!((values(&rest), rest.continuation_point.is_null()), (vec![(25, Some(250.0))], true));
}

#[test]
fn what_is_no_read_of_history() {
    use StatusCode as S;
    let mut world = world_with(ServerLimits::default());
    let (conn, login) = begin(&mut world, "dora");
    let by = (conn, &login);
    let one = || vec![at("Setpoint", &ByteString::null())];
    let modified = ExtensionObject::from_message(ReadRawModifiedDetails {
        is_read_modified: true,
        start_time: DateTime::from(10),
        end_time: DateTime::from(20),
        return_bounds: true,
        ..Default::default()
    });
    let events = ExtensionObject::from_message(ReadEventDetails::default());
    let rows = [
        ("no details", ExtensionObject::null(), one(), Err(S::BadHistoryOperationInvalid)),
        ("no node", raw(10, 20, 0), vec![], Err(S::BadNothingToDo)),
        ("too many nodes", raw(10, 20, 0), vec![one().remove(0); 101], Err(S::BadTooManyOperations)),
        ("neither end nor number", raw(10, 0, 0), one(), Ok(S::BadHistoryOperationInvalid)),
        ("bounds of what was modified", modified, one(), Ok(S::BadInvalidArgument)),
        ("events, without the right to receive them", events, one(), Ok(S::BadUserAccessDenied)),
        ("nothing there", raw(1, 9, 0), one(), Ok(S::GoodNoData)),
    ];
    for (rule, details, nodes, expected) in rows {
        let said = ask(&mut world, by, details, nodes, false).map(|results| results[0].status_code);
        assert_eq!(said, expected, "{rule}");
    }
}
