//! Events that clients write into history: by rights on notifier, source and type, field by field.

use std::collections::BTreeMap;
use std::time::Duration;

use access_model::{AuditKind, Interlock, Outcome, Rights, TwoPersons};
use opcua_types::*;
use pep::Who;

use super::events::{SERVER, event_filter};
use super::history::change;
use super::past_events::{SEE, everything, fields, messages, raise, read};
use super::world::*;
use crate::server::ConnId;
use crate::space::ns0;

const SECOND: i64 = 10_000_000;
const ALL: [&str; 6] = ["EventId", "EventType", "SourceNode", "Time", "Message", "Severity"];

/// The pump, and the Server object, keep what the door has told, then what the pump has.
fn world() -> World {
    let (past, change) = (SEE | Rights::READ_HISTORY, Rights::INSERT_HISTORY | Rights::MODIFY_HISTORY);
    let user = |name: &str, rights| grant(Who::User(name.into()), rights);
    let local = vec![
        user("owner", vec![(past | change, "reactor"), (past | change, "vault")]),
        user("writer", vec![(past | change, "reactor"), (past, "vault")]),
        user("inserter", vec![(SEE | Rights::INSERT_HISTORY, "reactor")]),
        user("modifier", vec![(SEE | Rights::MODIFY_HISTORY, "reactor")]),
        user("blind", vec![(Rights::BROWSE | change, "reactor")]),
        user("reader", vec![(past | Rights::READ, "reactor")]),
        user("leveller", vec![(past | Rights::READ, "reactor"), (past, "vault")]),
        user("bob", vec![(past | change, "mixer")]),
    ];
    let mut world = Setup { local, ..Setup::default() }.start();
    let [pump, _, door] = world.machines();
    let space = world.server.space_mut();
    space.historize_events(pump, 4, true).unwrap();
    space.historize_events(ns0::SERVER, 100, true).unwrap();
    for (source, message) in [(door, "hidden"), (pump, "one")] {
        raise(&mut world, source, message);
        world.pass(Duration::from_secs(1));
    }
    world
}

fn now(world: &World) -> i64 {
    crate::space::date_time(world.now.unix).ticks()
}

/// The fields of [`ALL`]; an empty id stands for none.
fn event(kept: &[u8], source: &NodeId, kind: u32, time: i64, message: &str) -> Vec<Variant> {
    vec![
        if kept.is_empty() { Variant::Empty } else { ByteString::from(kept.to_vec()).into() },
        NodeId::new(0, kind).into(),
        source.clone().into(),
        DateTime::from(time).into(),
        LocalizedText::new("", message).into(),
        Variant::UInt16(300),
    ]
}

fn put(
    world: &mut World,
    (conn, login): (ConnId, &Login),
    notifier: NodeId,
    perform: PerformUpdateType,
    (names, events): (&[&str], Vec<Vec<Variant>>),
) -> (StatusCode, Vec<StatusCode>) {
    let details = UpdateEventDetails {
        node_id: notifier,
        perform_insert_replace: perform,
        filter: event_filter(names, Vec::new()).inner_as::<EventFilter>().unwrap().clone(),
        event_data: Some(
            events.into_iter().map(|fields| HistoryEventFieldList { event_fields: Some(fields) }).collect(),
        ),
    };
    let result = change(world, conn, login, details);
    (result.status_code, result.operation_results.unwrap_or_default())
}

/// Messages and ids at the pump, as its owner sees them.
fn kept(world: &mut World) -> Vec<(String, Vec<u8>)> {
    let (conn, login) = world.log_in(ENCRYPT, "owner");
    let result = read(world, (conn, &login), everything(), &id("Pump"));
    let ids = fields(&result).into_iter().map(|mut fields| match fields.remove(1) {
        Variant::ByteString(id) => id.as_ref().to_vec(),
        other => panic!("{other:?}"),
    });
    messages(&result).into_iter().zip(ids).collect()
}

/// The values of the setpoint in the events at the pump, as somebody sees them who may read it.
fn levels_of(world: &mut World) -> Vec<Variant> {
    let (conn, login) = world.log_in(ENCRYPT, "leveller");
    let result = read(world, (conn, &login), everything(), &id("Pump"));
    fields(&result).into_iter().map(|mut fields| fields.remove(2)).collect()
}

fn told(world: &mut World) -> Vec<String> {
    kept(world).into_iter().map(|(message, _)| message).collect()
}

#[test]
fn events_are_written_by_right_of_notifier_source_and_type() {
    use StatusCode as S;
    let (good, denied) = (S::GoodEntryInserted, S::BadUserAccessDenied);
    let nowhere = NodeId::new(1, "nowhere");
    type Row = (&'static str, &'static str, NodeId, NodeId, u32, Result<S, S>);
    let rows: [Row; 17] = [
        ("one's own", "writer", id("Pump"), id("Motor"), 2041, Ok(good)),
        ("with no other right", "inserter", id("Pump"), id("Pump"), 2041, Ok(good)),
        ("to read is not to write", "reader", id("Pump"), id("Pump"), 2041, Err(denied)),
        ("to replace is not to insert", "modifier", id("Pump"), id("Pump"), 2041, Err(denied)),
        ("a hidden notifier", "bob", id("Pump"), id("Pump"), 2041, Err(S::BadNodeIdUnknown)),
        ("the Server object is nobody's", "owner", SERVER, id("Pump"), 2041, Err(denied)),
        (
            "an object that keeps nothing",
            "writer",
            id("Motor"),
            id("Motor"),
            2041,
            Err(S::BadHistoryOperationUnsupported),
        ),
        ("somebody else's source", "writer", id("Pump"), id("Door"), 2041, Ok(denied)),
        ("nor a hidden one", "inserter", id("Pump"), id("Door"), 2041, Ok(S::BadSourceNodeIdInvalid)),
        (
            "which is told as one that is not there",
            "inserter",
            id("Pump"),
            nowhere,
            2041,
            Ok(S::BadSourceNodeIdInvalid),
        ),
        ("with the right there", "owner", id("Pump"), id("Door"), 2041, Ok(good)),
        ("one whose events go elsewhere", "owner", id("Pump"), id("Setpoint"), 2041, Ok(S::BadSourceNodeIdInvalid)),
        ("who receives no events writes none", "blind", id("Pump"), id("Pump"), 2041, Ok(denied)),
        ("no audit events", "owner", id("Pump"), id("Pump"), 2052, Ok(S::BadTypeDefinitionInvalid)),
        ("nor those below", "owner", id("Pump"), id("Pump"), 2104, Ok(S::BadTypeDefinitionInvalid)),
        ("no type of events", "owner", id("Pump"), id("Pump"), 58, Ok(S::BadTypeDefinitionInvalid)),
        ("no type at all", "owner", id("Pump"), id("Pump"), 1, Ok(S::BadTypeDefinitionInvalid)),
    ];
    for (rule, user, notifier, source, kind, expected) in rows {
        let mut world = world();
        let (conn, login) = world.log_in(ENCRYPT, user);
        let new = event(&[], &source, kind, now(&world) - SECOND / 2, "new");
        let result = put(&mut world, (conn, &login), notifier, PerformUpdateType::Insert, (&ALL, vec![new]));
        let whole = match expected {
            Ok(one) => (S::Good, vec![one]),
            Err(status) => (status, Vec::new()),
        };
        assert_eq!(result, whole, "{rule}");
        let there = told(&mut world).contains(&"new".to_owned());
        assert_eq!(there, expected == Ok(good), "{rule}");
        let recorded = world.records.iter().any(|record| match expected {
            Ok(_) => record.kind == AuditKind::HistoryChanged && record.detail == "1 event is inserted",
            Err(_) => true,
        });
        let denials = world.records.iter().filter(|record| matches!(record.outcome, Outcome::Denied(_))).count();
        assert_eq!(
            (recorded, denials),
            (
                true,
                usize::from(expected == Ok(denied) || expected == Err(denied) || expected == Err(S::BadNodeIdUnknown))
            ),
            "{rule}"
        );
    }
}

#[test]
fn what_is_said_of_an_event_of_the_past_is_checked_field_by_field() {
    use StatusCode as S;
    let mut world = world();
    let (conn, login) = world.log_in(ENCRYPT, "owner");
    let at = now(&world) - SECOND / 2;
    let pump = id("Pump");
    let mut insert = |rule: &str, names: &[&str], fields: Vec<Variant>, expected: Result<S, S>| {
        let result = put(&mut world, (conn, &login), id("Pump"), PerformUpdateType::Insert, (names, vec![fields]));
        let whole = match expected {
            Ok(one) => (S::Good, vec![one]),
            Err(status) => (status, Vec::new()),
        };
        assert_eq!(result, whole, "{rule}");
    };
    for missing in &ALL[1..] {
        let (names, values): (Vec<&str>, Vec<Variant>) = ALL
            .iter()
            .zip(event(&[], &pump, 2041, at, "new"))
            .filter(|(name, _)| *name != missing)
            .map(|(name, value)| (*name, value))
            .unzip();
        insert(missing, &names, values, Err(S::BadArgumentsMissing));
    }
    let with = |place: usize, value: Variant| {
        let mut fields = event(&[], &pump, 2041, at, "new");
        fields[place] = value;
        fields
    };
    let later = DateTime::from(at + 60 * SECOND);
    for (rule, place, value, expected) in [
        ("the future", 3, later.into(), S::BadOutOfRange),
        ("no time", 3, DateTime::from(0).into(), S::BadOutOfRange),
        ("a time that is none", 3, Variant::Empty, S::BadInvalidArgument),
        ("a message that is none", 4, Variant::UInt16(1), S::BadInvalidArgument),
        ("a message without an end", 4, LocalizedText::new("", &"x".repeat(2_000)).into(), S::BadInvalidArgument),
        ("a severity out of range", 5, Variant::UInt16(1_001), S::BadInvalidArgument),
        ("an id that is none", 0, Variant::UInt16(1), S::BadInvalidArgument),
        ("a source that is none", 2, Variant::Empty, S::BadSourceNodeIdInvalid),
        ("a type that is none", 1, Variant::UInt16(1), S::BadTypeDefinitionInvalid),
    ] {
        insert(rule, &ALL, with(place, value), Ok(expected));
    }
    let short = event(&[], &pump, 2041, at, "new")[..5].to_vec();
    insert("another number of fields than the filter has", &ALL, short, Ok(S::BadInvalidArgument));
    let own = [&ALL[..], &["Level"]].concat();
    let fields = [event(&[], &pump, 2041, at, "a"), vec![5.0_f64.into()]].concat();
    insert("a field that the type does not have", &own, fields, Ok(S::GoodDataIgnored));
    insert("an id of the client's own", &ALL, event(&[7; 16], &pump, 2041, at, "b"), Ok(S::GoodDataIgnored));
    let twice = [&ALL[..], &["SourceNode"]].concat();
    let fields = [event(&[], &pump, 2041, at, "new"), vec![id("Door").into()]].concat();
    insert("two sources", &twice, fields, Err(S::BadEventFilterInvalid));
    let left: Vec<(String, Vec<u8>)> = kept(&mut world);
    assert_eq!(left.iter().map(|one| one.0.as_str()).collect::<Vec<_>>(), ["hidden", "one", "a", "b"]);
    assert!(left.iter().all(|(_, id)| id.len() == 16 && id != &[7; 16]), "ids are the server's");
    // Older than everything, between two, and newer: what is there stays, and the answer says nothing of its times.
    for time in [at - 3_600 * SECOND, at - SECOND, at] {
        let new = event(&[], &pump, 2041, time, "new");
        let told = put(&mut world, (conn, &login), id("Pump"), PerformUpdateType::Insert, (&ALL, vec![new]));
        assert_eq!(told, (S::Good, vec![S::BadResourceUnavailable]), "no place is left");
    }
    assert_eq!(kept(&mut world), left, "nothing is pushed out");
    let pump_node = world.server.space().find(&pump).unwrap();
    raise(&mut world, pump_node, "live");
    assert_eq!(told(&mut world), ["one", "a", "b", "live"], "what happens has its place");
    let none = put(&mut world, (conn, &login), id("Pump"), PerformUpdateType::Insert, (&ALL, Vec::new()));
    assert_eq!(none.0, S::BadNothingToDo);
    let removed = event(&[], &pump, 2041, at, "new");
    let removed = put(&mut world, (conn, &login), id("Pump"), PerformUpdateType::Remove, (&ALL, vec![removed]));
    assert_eq!(removed.0, S::BadInvalidArgument, "§6.9.4.1");
}

#[test]
fn events_are_replaced_by_their_id_and_keep_source_and_type() {
    use PerformUpdateType::{Insert, Replace, Update};
    use StatusCode as S;
    let mut world = world();
    let before = kept(&mut world);
    let levels = levels_of(&mut world);
    assert!(levels.iter().all(|level| *level != Variant::Empty), "{levels:?}");
    let [(_, hidden), (_, one)] = before.as_slice() else { panic!("{before:?}") };
    let at = now(&world) - 2 * SECOND;
    let text =
        |id: &[u8], message: &str| vec![ByteString::from(id.to_vec()).into(), LocalizedText::new("", message).into()];
    let of = |source: &str, id: &[u8]| vec![ByteString::from(id.to_vec()).into(), super::world::id(source).into()];
    type Row<'a> = (&'static str, &'static str, PerformUpdateType, &'a [&'a str], Vec<Variant>, Result<S, S>);
    let rows: [Row<'_>; 13] = [
        ("with the right", "modifier", Replace, &["EventId", "Message"], text(one, "two"), Ok(S::GoodEntryReplaced)),
        (
            "to insert is not to replace",
            "inserter",
            Replace,
            &["EventId", "Message"],
            text(one, "x"),
            Err(S::BadUserAccessDenied),
        ),
        (
            "nor is either of both to update",
            "modifier",
            Update,
            &ALL,
            event(&[], &id("Pump"), 2041, at, "x"),
            Err(S::BadUserAccessDenied),
        ),
        (
            "one that may not be received",
            "modifier",
            Replace,
            &["EventId", "Message"],
            text(hidden, "x"),
            Ok(S::BadNoEntryExists),
        ),
        (
            "is told as one that is not there",
            "modifier",
            Replace,
            &["EventId", "Message"],
            text(&[7; 16], "x"),
            Ok(S::BadNoEntryExists),
        ),
        (
            "one that may be received only",
            "writer",
            Replace,
            &["EventId", "Message"],
            text(hidden, "x"),
            Ok(S::BadUserAccessDenied),
        ),
        ("into other hands", "owner", Replace, &["EventId", "SourceNode"], of("Door", one), Ok(S::BadInvalidArgument)),
        ("into the same", "owner", Replace, &["EventId", "SourceNode"], of("Pump", one), Ok(S::GoodEntryReplaced)),
        (
            "a value is the variable's",
            "owner",
            Replace,
            &["EventId", "Level"],
            vec![ByteString::from(one.clone()).into(), 5.0_f64.into()],
            Ok(S::GoodDataIgnored),
        ),
        ("no id", "owner", Replace, &["Message"], text(one, "x")[1..].to_vec(), Err(S::BadArgumentsMissing)),
        (
            "an id that is there is not inserted",
            "owner",
            Insert,
            &ALL,
            event(one, &id("Pump"), 2041, at, "x"),
            Ok(S::BadEntryExists),
        ),
        (
            "a value stays where all is told anew",
            "owner",
            Update,
            &[&ALL[..], &["Level"]].concat(),
            [event(one, &id("Pump"), 2041, at, "two"), vec![5.0_f64.into()]].concat(),
            Ok(S::GoodDataIgnored),
        ),
        ("all of it", "owner", Update, &ALL, event(one, &id("Pump"), 2041, at, "three"), Ok(S::GoodEntryReplaced)),
    ];
    for (rule, user, perform, names, fields, expected) in rows {
        let (conn, login) = world.log_in(ENCRYPT, user);
        let result = put(&mut world, (conn, &login), id("Pump"), perform, (names, vec![fields]));
        let whole = match expected {
            Ok(one) => (S::Good, vec![one]),
            Err(status) => (status, Vec::new()),
        };
        assert_eq!(result, whole, "{rule}");
        let left = kept(&mut world);
        assert_eq!((left.len(), left.iter().any(|(message, _)| message == "x")), (2, false), "{rule}");
        assert!(left.contains(&before[0]), "{rule}: nobody has changed the door's");
        assert_eq!(levels_of(&mut world), levels, "{rule}: the variable's");
    }
    assert_eq!(kept(&mut world)[1], ("three".to_owned(), one.clone()), "an event that is replaced keeps its id");
    let (conn, login) = world.log_in(ENCRYPT, "owner");
    let new = event(&[], &id("Pump"), 2041, at, "four");
    let result = put(&mut world, (conn, &login), id("Pump"), Update, (&ALL, vec![new]));
    assert_eq!(result, (S::Good, vec![S::GoodEntryInserted]));
    let modified = ReadEventDetails2 {
        start_time: DateTime::from(1),
        end_time: DateTime::from(i64::MAX / 2),
        filter: event_filter(&["Message"], Vec::new()).inner_as::<EventFilter>().unwrap().clone(),
        read_modified: true,
        ..ReadEventDetails2::default()
    };
    let changes = read(&mut world, (conn, &login), ExtensionObject::from_message(modified), &id("Pump"));
    let infos = changes.history_data.inner_as::<HistoryModifiedEvent>().unwrap().modification_infos.clone().unwrap();
    let mut found: Vec<(String, String, HistoryUpdateType)> = messages(&changes)
        .into_iter()
        .zip(infos)
        .map(|(message, info)| (message, info.user_name.to_string(), info.update_type))
        .collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    let row = |message: &str, name: &str, kind| (message.to_owned(), name.to_owned(), kind);
    let expected = [
        row("four", "owner", HistoryUpdateType::Insert),
        row("one", "modifier", HistoryUpdateType::Replace),
        row("two", "owner", HistoryUpdateType::Update),
        row("two", "owner", HistoryUpdateType::Replace),
        row("two", "owner", HistoryUpdateType::Replace),
        row("two", "owner", HistoryUpdateType::Update),
    ];
    assert_eq!(found, expected, "what was there before, and who changed it");
}

/// Where an event comes from is where a second person is asked for; nobody learns by that of events that one may not see.
#[test]
fn a_second_person_is_asked_for_the_sources_of_events_as_well() {
    use PerformUpdateType::{Insert, Replace};
    use StatusCode as S;
    let short: &[&str] = &["EventId", "Message"];
    for (rule, user, perform, (names, of), expected) in [
        ("one that is said", "owner", Insert, (&ALL[..], "Door"), Err(S::BadRequestNotAllowed)),
        ("another", "owner", Insert, (&ALL[..], "Pump"), Ok(S::GoodEntryInserted)),
        ("one that is hidden", "inserter", Insert, (&ALL[..], "Door"), Ok(S::BadSourceNodeIdInvalid)),
        ("one that is kept", "owner", Replace, (short, "hidden"), Err(S::BadRequestNotAllowed)),
        ("one that is kept of another", "owner", Replace, (short, "one"), Ok(S::GoodEntryReplaced)),
        ("one that may not be received", "modifier", Replace, (short, "hidden"), Ok(S::BadNoEntryExists)),
    ] {
        let mut world = world();
        let ids = kept(&mut world);
        let door = world.server.space().find(&id("Door")).unwrap();
        let scope = world.server.space().scope(door);
        let terms = TwoPersons { role: "lead".into(), within: Duration::from_secs(300) };
        let interlock = Interlock { two_persons: Some(terms), ..Interlock::default() };
        world.server.set_interlocks(BTreeMap::from([(scope, interlock)]));
        let (conn, login) = world.log_in(ENCRYPT, user);
        let kept = ids.iter().find(|(message, _)| message == of).map(|(_, id)| ByteString::from(id.clone()));
        let fields = match kept {
            Some(kept) => vec![kept.into(), LocalizedText::new("", "new").into()],
            None => event(&[], &id(of), 2041, now(&world) - SECOND / 2, "new"),
        };
        let told = put(&mut world, (conn, &login), id("Pump"), perform, (names, vec![fields]));
        let whole = match expected {
            Ok(one) => (S::Good, vec![one]),
            Err(status) => (status, Vec::new()),
        };
        assert_eq!(told, whole, "{rule}");
    }
}

/// OPC 10000-11 §5.4.2.
#[test]
fn notifiers_that_keep_events_say_which() {
    let mut world = world();
    let (conn, login) = world.log_in(ENCRYPT, "reader");
    for notifier in [id("Pump"), SERVER] {
        let space = world.server.space();
        let node = space.find(&notifier).unwrap();
        let filter = space.child(node, &QualifiedName::new(0, "HistoricalEventFilter")).unwrap();
        let (filter, restricted) = (space.id(filter), space.scope(filter) == space.scope(node));
        assert!(restricted, "{notifier}: as visible as its notifier");
        let values = world.read(conn, &login, vec![filter.into()]).unwrap();
        let Some(Variant::ExtensionObject(value)) = &values[0].value else { panic!("{:?}", values[0]) };
        let filter = value.inner_as::<EventFilter>().unwrap();
        assert_eq!(filter.select_clauses.as_ref().unwrap().len(), 8, "{notifier}");
        let clause = filter.where_clause.elements.as_ref().unwrap();
        let operators: Vec<FilterOperator> = clause.iter().map(|element| element.filter_operator).collect();
        assert_eq!(operators, [FilterOperator::Not, FilterOperator::OfType], "{notifier}: no audit events");
    }
    let capabilities = [11242_u32, 11281, 11282, 11283, 11502].map(|number| NodeId::new(0, number)).to_vec();
    let values = world.read(conn, &login, capabilities.into_iter().map(Into::into).collect()).unwrap();
    assert!(values.iter().all(|value| value.value == Some(true.into())), "{values:?}");
}
