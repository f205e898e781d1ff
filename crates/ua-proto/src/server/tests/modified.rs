//! What clients changed in history, as it is read (OPC 10000-11 §6.5.3.3).

use opcua_types::*;

use super::history::*;
use super::world::*;
use crate::server::{ConnId, ServerLimits};

fn details(start: i64, end: i64, most: u32, bounds: bool) -> ExtensionObject {
    ExtensionObject::from_message(ReadRawModifiedDetails {
        is_read_modified: true,
        start_time: DateTime::from(start),
        end_time: DateTime::from(end),
        num_values_per_node: most,
        return_bounds: bounds,
    })
}

type Row = (i64, Option<f64>, HistoryUpdateType, String);

fn told(result: &HistoryReadResult) -> Vec<Row> {
    let Some(history) = result.history_data.inner_as::<HistoryModifiedData>() else { return Vec::new() };
    let values = history.data_values.iter().flatten();
    let infos = history.modification_infos.iter().flatten();
    assert_eq!(values.clone().count(), infos.clone().count());
    let one = |(value, info): (&DataValue, &ModificationInfo)| {
        let at = value.source_timestamp.unwrap().ticks();
        (at, value.value.as_ref().and_then(Variant::as_f64), info.update_type, info.user_name.to_string())
    };
    values.zip(infos).map(one).collect()
}

/// Dora has inserted, replaced twice and deleted.
fn changed(limits: ServerLimits) -> (World, ConnId, Login) {
    use PerformUpdateType as P;
    let mut world = world_with(limits);
    let (conn, login) = begin(&mut world, "dora");
    update(&mut world, conn, &login, "Setpoint", P::Insert, &[(15, 1.0), (20, 9.0)]);
    update(&mut world, conn, &login, "Setpoint", P::Replace, &[(20, 2.0)]);
    update(&mut world, conn, &login, "Setpoint", P::Update, &[(20, 3.0)]);
    delete_at(&mut world, conn, &login, "Setpoint", &[50]);
    (world, conn, login)
}

fn expected() -> Vec<Row> {
    use HistoryUpdateType as H;
    let dora = || "dora".to_owned();
    vec![
        (15, Some(1.0), H::Insert, dora()),
        (20, Some(200.0), H::Replace, dora()),
        (20, Some(2.0), H::Update, dora()),
        (50, Some(500.0), H::Delete, dora()),
    ]
}

fn one(world: &mut World, by: (ConnId, &Login), details: ExtensionObject, name: &str) -> HistoryReadResult {
    ask(world, by, details, vec![at(name, &ByteString::null())], false).unwrap().remove(0)
}

#[test]
fn what_was_changed_is_told_with_who_when_and_what() {
    use StatusCode as S;
    let (mut world, conn, login) = changed(ServerLimits::default());
    let made = world.now.unix;
    let result = one(&mut world, (conn, &login), details(10, 1_000, 0, false), "Setpoint");
    assert_eq!((result.status_code, told(&result)), (S::Good, expected()));
    let infos = result.history_data.inner_as::<HistoryModifiedData>().unwrap().modification_infos.clone().unwrap();
    assert!(infos.iter().all(|info| info.modification_time == crate::space::date_time(made)));
    let backward: Vec<Row> = expected().into_iter().rev().collect();
    let result = one(&mut world, (conn, &login), details(1_000, 10, 0, false), "Setpoint");
    assert_eq!(told(&result), backward);
    let (reader, login) = world.log_in(ENCRYPT, "reader");
    let result = one(&mut world, (reader, &login), details(10, 21, 0, false), "Setpoint");
    assert_eq!(told(&result), expected()[..3]);
    for (rule, user, asked, name, status) in [
        (
            "without the right to read history",
            "writer",
            details(10, 1_000, 0, false),
            "Setpoint",
            S::BadUserAccessDenied,
        ),
        (
            "with the right to change it only",
            "updater",
            details(10, 1_000, 0, false),
            "Setpoint",
            S::BadUserAccessDenied,
        ),
        ("a hidden node", "reader", details(10, 1_000, 0, false), "Secret", S::BadNodeIdUnknown),
        ("a node without history", "reader", details(10, 1_000, 0, false), "Note", S::BadHistoryOperationUnsupported),
        ("bounds of what was changed", "reader", details(10, 1_000, 0, true), "Setpoint", S::BadInvalidArgument),
        ("no time domain", "reader", details(0, 0, 0, false), "Setpoint", S::BadHistoryOperationInvalid),
        ("nothing was changed", "reader", details(10, 1_000, 0, false), "Pressure", S::GoodNoData),
    ] {
        let (conn, login) = world.log_in(ENCRYPT, user);
        assert_eq!(one(&mut world, (conn, &login), asked, name).status_code, status, "{rule}");
    }
}

#[test]
fn what_was_changed_comes_page_by_page_to_who_asked_for_it() {
    let invalid = StatusCode::BadContinuationPointInvalid;
    let limits = ServerLimits { max_history_values: 3, ..ServerLimits::default() };
    let (mut world, conn, login) = changed(limits);
    let asked = details(10, 1_000, 0, false);
    let first = one(&mut world, (conn, &login), asked.clone(), "Setpoint");
    assert_eq!(told(&first), expected()[..3], "two of them at one instant");
    let (other, elsewhere) = world.log_in(ENCRYPT, "dora");
    let raw = ExtensionObject::from_message(ReadRawModifiedDetails {
        is_read_modified: false,
        ..asked.inner_as::<ReadRawModifiedDetails>().unwrap().clone()
    });
    let point = first.continuation_point;
    for (rule, by, details, name) in [
        ("of another session", (other, &elsewhere), asked.clone(), "Setpoint"),
        ("of another node", (conn, &login), asked.clone(), "Pressure"),
    ] {
        let result = ask(&mut world, by, details, vec![at(name, &point)], false).unwrap().remove(0);
        assert_eq!(result.status_code, invalid, "{rule}");
    }
    let last = ask(&mut world, (conn, &login), asked.clone(), vec![at("Setpoint", &point)], false).unwrap().remove(0);
    assert_eq!((told(&last), last.continuation_point.is_null()), (expected()[3..].to_vec(), true));
    let again = one(&mut world, (conn, &login), asked, "Setpoint").continuation_point;
    let result = ask(&mut world, (conn, &login), raw, vec![at("Setpoint", &again)], false).unwrap().remove(0);
    assert_eq!(result.status_code, invalid, "for values as they are");
}

#[test]
fn nobody_deletes_what_tells_of_changes() {
    let (mut world, conn, login) = changed(ServerLimits::default());
    let all = DeleteRawModifiedDetails {
        node_id: id("Setpoint"),
        is_delete_modified: true,
        start_time: DateTime::from(1),
        end_time: DateTime::from(1_000),
    };
    let result = change(&mut world, conn, &login, all);
    assert_eq!(result.status_code, StatusCode::BadHistoryOperationUnsupported);
    delete_at(&mut world, conn, &login, "Setpoint", &[15, 20]);
    let result = one(&mut world, (conn, &login), details(10, 1_000, 0, false), "Setpoint");
    assert_eq!(told(&result).len(), expected().len() + 2, "deleting is a change more");
}
