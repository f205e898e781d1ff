//! Events that clients write into history through the guard: each by itself, and none that is denied reaches the server.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use access_model::{AuditRecord, Rights, ScopeIndex};
use opcua_types::*;

use super::events::{element, filter, text};
use super::history::IDS;
use super::past_events::UPDATE;
use super::world::*;
use crate::guard::link::Alias;
use crate::server::ConnId;
use crate::server::front::{Reader, Service, write_header, write_len, write_no_diagnostics};

const FULL: [&str; 4] = ["EventId", "SourceNode", "EventType", "Message"];
/// Ids, sources and types of what the server keeps.
const KEPT: [(&str, &str, u32); 4] =
    [("one", "Unit", 2041), ("hidden", "Secret", 2041), ("mixed", "Speed", 2041), ("audit", "Unit", 2052)];

/// How the server answers updates of events.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    /// Each is good.
    Good,
    /// None at all.
    Unsupported,
    /// Good, and nothing of each.
    Terse,
    /// One result too many.
    Extra,
}

/// A server that keeps events, tells of all of them whatever the filter says, and writes what it is told to: which, in order.
fn writing(world: &mut World, manner: Manner) -> Rc<RefCell<Vec<String>>> {
    let written: Rc<RefCell<Vec<String>>> = Rc::default();
    let log = Rc::clone(&written);
    world.script = Some(Box::new(move |service, body, handle| {
        let owned = ContextOwned::default();
        let mut out = Vec::new();
        if service == Service::HistoryRead {
            let event = |(name, source, kind): &(&str, &str, u32)| {
                let fields: Vec<Variant> = vec![
                    ByteString::from(name.as_bytes().to_vec()).into(),
                    id(source).into(),
                    NodeId::new(0, *kind).into(),
                ];
                HistoryEventFieldList { event_fields: Some(fields) }
            };
            let history = HistoryEvent { events: Some(KEPT.iter().map(event).collect()) };
            let history_data = ExtensionObject::from_message(history);
            let result = HistoryReadResult { history_data, ..HistoryReadResult::default() };
            write_header(&mut out, IDS.1, start(), handle, StatusCode::Good);
            write_len(&mut out, 1);
            out.extend_from_slice(&crate::guard::desk::encoded(&result));
        } else {
            let mut reader = Reader::new(body);
            let count = reader.array_len(1)?;
            write_header(&mut out, UPDATE.1, start(), handle, StatusCode::Good);
            write_len(&mut out, count);
            for _ in 0..count {
                let (_, details) = reader.extension_object()?;
                let details = UpdateEventDetails::decode(&mut &*details, &owned.context()).unwrap();
                let events = details.event_data.unwrap_or_default();
                let there = details.node_id == id("Unit");
                for event in events.iter().flat_map(|event| event.event_fields.iter().flatten()) {
                    if let Variant::LocalizedText(text) = event {
                        log.borrow_mut().push(text.text.to_string());
                    }
                }
                let extra = usize::from(manner == Manner::Extra);
                let result = match manner {
                    _ if !there => {
                        HistoryUpdateResult { status_code: StatusCode::BadNodeIdUnknown, ..Default::default() }
                    }
                    Manner::Unsupported => {
                        let status_code = StatusCode::BadHistoryOperationUnsupported;
                        HistoryUpdateResult { status_code, ..HistoryUpdateResult::default() }
                    }
                    Manner::Terse => HistoryUpdateResult::default(),
                    _ => HistoryUpdateResult {
                        operation_results: Some(vec![StatusCode::GoodEntryInserted; events.len() + extra]),
                        ..HistoryUpdateResult::default()
                    },
                };
                out.extend_from_slice(&crate::guard::desk::encoded(&result));
            }
        }
        write_no_diagnostics(&mut out);
        Ok(out)
    }));
    written
}

/// The fields of [`FULL`]; an empty id stands for none, and so do no source and no type.
fn event(kept: &str, source: &str, kind: u32, message: &str) -> Vec<Variant> {
    vec![
        if kept.is_empty() { Variant::Empty } else { ByteString::from(kept.as_bytes().to_vec()).into() },
        if source.is_empty() { Variant::Empty } else { id(source).into() },
        if kind == 0 { Variant::Empty } else { NodeId::new(0, kind).into() },
        text(message),
    ]
}

fn details(
    perform_insert_replace: PerformUpdateType,
    filter: EventFilter,
    events: Vec<Vec<Variant>>,
) -> UpdateEventDetails {
    let events = events.into_iter().map(|fields| HistoryEventFieldList { event_fields: Some(fields) });
    UpdateEventDetails { node_id: id("Unit"), perform_insert_replace, filter, event_data: Some(events.collect()) }
}

fn put(world: &mut World, client: ConnId, details: Vec<UpdateEventDetails>) -> Vec<(StatusCode, Vec<StatusCode>)> {
    let details = details.into_iter().map(ExtensionObject::from_message).collect();
    let request = HistoryUpdateRequest { history_update_details: Some(details), ..HistoryUpdateRequest::default() };
    let answer = world.raw(client, UPDATE, body_of(&request)).unwrap();
    let results = field::<HistoryUpdateResult>(&answer).into_iter();
    results.map(|result| (result.status_code, result.operation_results.unwrap_or_default())).collect()
}

fn base() -> EventFilter {
    filter(&FULL, Vec::new())
}

#[test]
fn events_are_written_through_a_guard_by_right_of_notifier_source_and_type() {
    use PerformUpdateType::{Insert, Replace, Update};
    use StatusCode as S;
    let (browse, receive) = (Rights::BROWSE, Rights::RECEIVE_EVENTS);
    let (insert, modify) = (Rights::INSERT_HISTORY, Rights::MODIFY_HISTORY);
    let (denied, unknown, good) = (S::BadUserAccessDenied, S::BadEventIdUnknown, S::GoodEntryInserted);
    let new = vec![
        event("", "Unit", 2041, "a"),
        event("", "Secret", 2041, "b"),
        event("", "Speed", 2041, "c"),
        event("", "Nowhere", 2041, "d"),
        event("", "Setpoint", 2041, "e"),
        event("", "Unit", 2052, "f"),
        event("", "Unit", 2132, "g"),
        event("", "Unit", 0, "h"),
        event("nowhere", "Unit", 2041, "i"),
        event("hidden", "Unit", 2041, "j"),
        event("one", "Unit", 2041, "k"),
        event("", "Unit", 2041, "l")[..3].to_vec(),
    ];
    let (no_source, no_type, unfit) = (S::BadSourceNodeIdInvalid, S::BadTypeDefinitionInvalid, S::BadInvalidArgument);
    let told = |third: S| {
        vec![
            good,
            no_source,
            third,
            no_source,
            good,
            no_type,
            no_type,
            unfit,
            unknown,
            unknown,
            S::BadEntryExists,
            unfit,
        ]
    };
    let old = vec![
        event("one", "Unit", 2041, "a"),
        event("hidden", "Secret", 2041, "b"),
        event("nowhere", "Unit", 2041, "c"),
        event("mixed", "Speed", 2041, "d"),
        event("one", "Setpoint", 2041, "e"),
        event("one", "", 2041, "f"),
        event("audit", "Unit", 2041, "g"),
        event("one", "Unit", 2130, "h"),
        event("one", "Unit", 0, "i"),
    ];
    let gone = S::BadNoEntryExists;
    let replaced = |fourth: S| vec![good, gone, gone, fourth, unfit, unfit, gone, unfit, unfit];
    let either = vec![
        event("one", "Unit", 2041, "a"),
        event("", "Unit", 2041, "b"),
        event("hidden", "Unit", 2041, "c"),
        event("one", "", 2041, "d"),
        event("one", "Unit", 0, "e"),
    ];
    type Row = (&'static str, Vec<(Rights, u32)>, PerformUpdateType, Vec<Vec<Variant>>, Result<Vec<S>, S>);
    let rows: [Row; 11] = [
        ("one's own", vec![(Rights::ALL, 1)], Insert, new.clone(), Ok(told(no_source))),
        ("of two scopes", vec![(Rights::ALL, 1), (browse | receive | insert, 2)], Insert, new.clone(), Ok(told(good))),
        (
            "received, not written",
            vec![(Rights::ALL, 1), (browse | receive | modify, 2)],
            Insert,
            new.clone(),
            Ok(told(denied)),
        ),
        ("written, not received", vec![(Rights::ALL, 1), (browse | insert, 2)], Insert, new.clone(), Ok(told(denied))),
        ("read only", vec![(browse | receive | Rights::READ_HISTORY, 1)], Insert, new.clone(), Err(denied)),
        ("to replace is not to insert", vec![(browse | receive | modify, 1)], Insert, new, Err(denied)),
        ("replacing", vec![(browse | receive | modify, 1)], Replace, old.clone(), Ok(replaced(gone))),
        (
            "of another scope",
            vec![(Rights::ALL, 1), (browse | receive | insert, 2)],
            Replace,
            old.clone(),
            Ok(replaced(denied)),
        ),
        ("to insert is not to replace", vec![(browse | receive | insert, 1)], Replace, old, Err(denied)),
        (
            "either",
            vec![(browse | receive | insert | modify, 1)],
            Update,
            either.clone(),
            Ok(vec![good, good, unknown, unfit, unfit]),
        ),
        ("either takes both", vec![(browse | receive | insert, 1)], Update, either, Err(denied)),
    ];
    let mut named = false;
    for (rule, rights, perform, events, expected) in rows {
        let mut world = World::new();
        let written = writing(&mut world, Manner::Good);
        let client = world.client_by_token(rights, Duration::from_secs(60));
        let count = events.len();
        let messages: Vec<String> = ('a'..='z').map(String::from).take(count).collect();
        let result = put(&mut world, client, vec![details(perform, base(), events)]).remove(0);
        let reached: Vec<&String> = match &expected {
            Ok(each) => messages.iter().zip(each).filter(|(_, status)| status.is_good()).map(|one| one.0).collect(),
            Err(_) => Vec::new(),
        };
        assert_eq!(written.borrow().iter().collect::<Vec<_>>(), reached, "{rule}: at the server");
        let whole = match expected {
            Ok(each) => (S::Good, each),
            Err(status) => (status, Vec::new()),
        };
        assert_eq!(result, whole, "{rule}");
        let about = |record: &&AuditRecord| record.detail.starts_with(&format!("{count} events are "));
        let detail = world.records.iter().find(about).map(|record| record.detail.clone());
        assert_eq!(detail.is_some(), result.0.is_good(), "{rule}: recorded");
        let allowed = result.1.iter().filter(|status| status.is_good()).count();
        let sifted = allowed > 0 && allowed < result.1.len();
        let told = detail.as_ref().is_some_and(|detail| detail.contains(&format!(", {allowed} of them allowed")));
        assert_eq!(told, sifted, "{rule}: {detail:?}");
        let source = detail.as_ref().is_some_and(|detail| detail.contains(", of "));
        assert!(allowed > 0 || !source, "{rule}: {detail:?}");
        named |= source;
    }
    assert!(named, "sources besides the notifier are named");
}

/// Two servers may read a filter in two ways; what the guard decides by must be beyond doubt.
#[test]
fn a_filter_of_events_to_be_written_that_leaves_a_doubt_reaches_nobody() {
    use StatusCode as S;
    let written_with = |filter: EventFilter, fields: Vec<Variant>| {
        let mut world = World::new();
        let written = writing(&mut world, Manner::Good);
        let client = world.client_by_token(vec![(Rights::ALL, 1)], Duration::from_secs(60));
        let told = put(&mut world, client, vec![details(PerformUpdateType::Insert, filter, vec![fields])]).remove(0);
        (told.0, written.borrow().len())
    };
    let full = || event("", "Unit", 2041, "new");
    let and = |more: Variant| [full(), vec![more]].concat();
    let twice = [&FULL[..], &["SourceNode"]].concat();
    let mut elsewhere = filter(&twice, Vec::new());
    elsewhere.select_clauses.as_mut().unwrap()[4].browse_path = Some(vec![QualifiedName::new(1, "SourceNode")]);
    let mut narrower = base();
    narrower.select_clauses.as_mut().unwrap()[1].type_definition_id = NodeId::new(0, 2130);
    let mut hidden = filter(&[&FULL[..], &["Level"]].concat(), Vec::new());
    hidden.select_clauses.as_mut().unwrap()[4].type_definition_id = id("Secret");
    let conditional = filter(&FULL, vec![element(FilterOperator::IsNull, vec![super::events::literal(1_u8)])]);
    for (rule, filter, fields, status) in [
        ("nothing to object to", base(), full(), S::Good),
        ("two sources", filter(&twice, Vec::new()), and(id("Secret").into()), S::BadEventFilterInvalid),
        ("one of another namespace", elsewhere, and(id("Secret").into()), S::BadEventFilterInvalid),
        ("one that only some types have", narrower, full(), S::BadEventFilterInvalid),
        ("a hidden type", hidden, and(Variant::Empty), S::BadEventFilterInvalid),
        ("a where clause", conditional, full(), S::BadEventFilterInvalid),
        ("no source", filter(&FULL[2..], Vec::new()), full()[2..].to_vec(), S::BadArgumentsMissing),
        ("no type", filter(&["SourceNode"], Vec::new()), full()[1..2].to_vec(), S::BadArgumentsMissing),
    ] {
        assert_eq!(written_with(filter, fields), (status, usize::from(status.is_good())), "{rule}");
    }
}

/// What does not say source and type cannot take them from an event.
#[test]
fn a_known_event_may_be_replaced_without_saying_where_it_comes_from() {
    let mut world = World::new();
    let written = writing(&mut world, Manner::Good);
    let client = world.client_by_token(vec![(Rights::ALL, 1)], Duration::from_secs(60));
    let short = |kept: &str, message: &str| vec![ByteString::from(kept.as_bytes().to_vec()).into(), text(message)];
    let events = vec![short("one", "first"), short("hidden", "second")];
    let filter = filter(&["EventId", "Message"], Vec::new());
    let told = put(&mut world, client, vec![details(PerformUpdateType::Replace, filter, events)]).remove(0);
    assert_eq!(told.1, [StatusCode::GoodEntryInserted, StatusCode::BadNoEntryExists]);
    assert_eq!(*written.borrow(), ["first"]);
}

/// The server knows nothing of names that a guard has given to one session.
#[test]
fn a_new_event_says_its_source_and_type_by_names_that_everybody_knows() {
    use StatusCode as S;
    for (rule, place, name, status) in [
        ("the source", 1, id("Unit"), S::BadSourceNodeIdInvalid),
        ("the type", 2, NodeId::new(0, 2041), S::BadTypeDefinitionInvalid),
    ] {
        let mut world = World::new();
        let client = world.client_by_token(vec![(Rights::ALL, 1)], Duration::from_secs(60));
        let alias = NodeId::new(3, 7);
        let link = world.guard.links.values_mut().next().unwrap();
        let stands_for =
            Alias { real: crate::guard::desk::encoded(&name), scope: ScopeIndex(1), session: link.session };
        link.aliases.insert(alias.clone(), stands_for);
        let written = writing(&mut world, Manner::Good);
        let mut fields = event("", "Unit", 2041, "new");
        fields[place] = alias.into();
        let told = put(&mut world, client, vec![details(PerformUpdateType::Insert, base(), vec![fields])]).remove(0);
        assert_eq!((told.1, written.borrow().len()), (vec![status], 0), "{rule}");
    }
}

/// A structure may say another length than the server finds: what follows it would be other fields, of other events.
#[test]
fn no_event_with_a_structure_among_its_fields_reaches_the_server() {
    use StatusCode as S;
    let structure = || ExtensionObject::from_message(EUInformation::default());
    let level = filter(&["Level", "EventId", "SourceNode", "EventType", "Message"], Vec::new());
    for (rule, field, status) in [
        ("a number", Variant::from(7_u8), S::GoodEntryInserted),
        ("a structure of nothing", ExtensionObject::null().into(), S::GoodEntryInserted),
        ("a structure", structure().into(), S::BadNotSupported),
        ("in a list", Variant::from(vec![ExtensionObject::null(), structure()]), S::BadNotSupported),
        ("in a value", Variant::Variant(Box::new(structure().into())), S::BadNotSupported),
        ("in a data value", DataValue::value_only(structure()).into(), S::BadNotSupported),
    ] {
        for perform in [PerformUpdateType::Insert, PerformUpdateType::Update] {
            let mut world = World::new();
            let written = writing(&mut world, Manner::Good);
            let client = world.client_by_token(vec![(Rights::ALL, 1)], Duration::from_secs(60));
            let with = |field: Variant, message: &str| [vec![field], event("", "Unit", 2041, message)].concat();
            let events = vec![with(field.clone(), "first"), with(Variant::Empty, "second")];
            let told = put(&mut world, client, vec![details(perform, level.clone(), events)]).remove(0);
            assert_eq!(told, (S::Good, vec![status, S::GoodEntryInserted]), "{rule}");
            let reached: &[&str] = if status.is_good() { &["first", "second"] } else { &["second"] };
            assert_eq!(*written.borrow(), reached, "{rule}");
        }
    }
}

#[test]
fn results_of_the_guard_and_of_the_server_stand_in_the_order_of_the_request() {
    use PerformUpdateType::Insert;
    use StatusCode as S;
    let mixed = || vec![event("", "Secret", 2041, "x"), event("", "Unit", 2041, "a"), event("", "Speed", 2041, "x")];
    let none = || vec![event("", "Secret", 2041, "x"), event("", "Speed", 2041, "x")];
    let gone = S::BadSourceNodeIdInvalid;
    for (rule, manner, expected, reached) in [
        ("each", Manner::Good, [(S::Good, vec![gone, S::GoodEntryInserted, gone]), (S::Good, vec![gone, gone])], 1),
        (
            "a server that cannot",
            Manner::Unsupported,
            [(S::BadHistoryOperationUnsupported, Vec::new()), (S::Good, vec![gone, gone])],
            1,
        ),
        (
            "one that says it of all",
            Manner::Terse,
            [(S::Good, vec![gone, S::Good, gone]), (S::Good, vec![gone, gone])],
            1,
        ),
        ("one that miscounts", Manner::Extra, [(S::BadUnknownResponse, Vec::new()), (S::Good, vec![gone, gone])], 1),
    ] {
        let mut world = World::new();
        let written = writing(&mut world, manner);
        let client = world.client_by_token(vec![(Rights::ALL, 1)], Duration::from_secs(60));
        let all = vec![details(Insert, base(), mixed()), details(Insert, base(), none())];
        assert_eq!(put(&mut world, client, all), expected, "{rule}");
        assert_eq!(written.borrow().len(), reached, "{rule}");
    }
}

#[test]
fn the_notifier_of_events_to_be_written_is_decided_first() {
    use StatusCode as S;
    for (rule, notifier, filter, status) in [
        ("a hidden one", id("Secret"), base(), S::BadNodeIdUnknown),
        ("whatever the filter says", id("Secret"), filter(&["Message"], Vec::new()), S::BadNodeIdUnknown),
        ("one of a scope that is read only", id("Speed"), filter(&["Message"], Vec::new()), S::BadUserAccessDenied),
    ] {
        let mut world = World::new();
        let written = writing(&mut world, Manner::Good);
        let rights = vec![(Rights::ALL, 1), (Rights::BROWSE, 2)];
        let client = world.client_by_token(rights, Duration::from_secs(60));
        let asked = details(PerformUpdateType::Insert, filter, vec![event("", "Unit", 2041, "x")]);
        let told = put(&mut world, client, vec![UpdateEventDetails { node_id: notifier, ..asked }]).remove(0);
        assert_eq!(told, (status, Vec::new()), "{rule}");
        assert!(written.borrow().is_empty(), "{rule}");
    }
}
