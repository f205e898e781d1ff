//! Events of the past through the guard: each by itself, by the rights on its source and type, without a trace of others.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use access_model::Rights;
use opcua_types::*;

use super::events::{SERVER, element, filter, literal, opened, text};
use super::history::IDS;
use super::world::*;
use crate::client::{RawRequest, Request};
use crate::server::ConnId;
use crate::server::front::{Reader, write_header, write_len, write_no_diagnostics};

/// The instant of the first event, and between one and the next.
const FIRST: i64 = 134_000_000_000_000_000;
const STEP: i64 = 10_000_000;

/// How a server gives what it keeps.
#[derive(Clone, Copy)]
struct Manner {
    /// The most events of one response.
    page: usize,
    /// It says where the rest is.
    points: bool,
}

const PLAIN: Manner = Manner { page: 1_000_000, points: true };

/// What a server was asked for: how many events, from which point, and whether it was given back.
type Question = (u32, Vec<u8>, bool);

/// Source, type and message of an event.
type Happened = (&'static str, u32, String);

/// A server that keeps these events at every notifier.
fn historian(world: &mut World, events: Vec<Happened>, manner: Manner) -> Rc<RefCell<Vec<Question>>> {
    let seen: Rc<RefCell<Vec<Question>>> = Rc::default();
    let log = Rc::clone(&seen);
    world.script = Some(Box::new(move |_, body, handle| {
        let mut reader = Reader::new(body);
        let (kind, details) = reader.extension_object()?;
        let newer = kind == Some(ObjectId::ReadEventDetails2_Encoding_DefaultBinary as u32);
        let mut details = Reader::new(details);
        let (most, start, end) = (details.u32()?, details.i64()?, details.i64()?);
        let owned = ContextOwned::default();
        let asked = EventFilter::decode(&mut details.rest(), &owned.context()).unwrap();
        reader.u32()?;
        let release = reader.u8()? == 1;
        assert_eq!(reader.array_len(1)?, 1, "one at a time");
        let node = reader.node_id()?;
        reader.string()?;
        reader.u16()?;
        reader.string()?;
        let point = reader.byte_string()?.unwrap_or_default().to_vec();
        log.borrow_mut().push((most, point.clone(), release));
        let there = node.namespace == 0 || events.iter().any(|(source, ..)| node == id(source)) || node == id("Unit");
        let time = |at: usize| FIRST + STEP * i64::try_from(at).unwrap();
        let mut chosen: Vec<usize> = (0..events.len()).collect();
        if end < start {
            chosen.reverse();
            chosen.retain(|at| time(*at) > end && time(*at) <= start);
        } else {
            chosen.retain(|at| time(*at) >= start && time(*at) < end);
        }
        let from = point.first().map_or(0, |_| usize::from(u16::from_le_bytes([point[0], point[1]])));
        let room = manner.page.min(if most == 0 { usize::MAX } else { most as usize });
        let page: Vec<usize> = chosen.iter().copied().skip(from).take(room).collect();
        let next = u16::try_from(from + page.len()).unwrap();
        let more = manner.points && usize::from(next) < chosen.len() && !release;
        let fields = |at: &usize| {
            let (source, kind, message) = &events[*at];
            let field = |clause: &SimpleAttributeOperand| match clause.browse_path.as_ref().unwrap()[0].name.as_ref() {
                "Message" => text(message),
                "SourceNode" => id(source).into(),
                "EventType" => NodeId::new(0, *kind).into(),
                _ => Variant::Empty,
            };
            let fields = asked.select_clauses.iter().flatten().map(field).collect();
            HistoryEventFieldList { event_fields: Some(fields) }
        };
        let found: Vec<_> = if release || !there { Vec::new() } else { page.iter().map(fields).collect() };
        let info = |at: &usize| ModificationInfo { user_name: events[*at].2.as_str().into(), ..Default::default() };
        let data = match newer {
            true => ExtensionObject::from_message(HistoryModifiedEvent {
                events: Some(found),
                modification_infos: Some(page.iter().map(info).collect()),
            }),
            false => ExtensionObject::from_message(HistoryEvent { events: Some(found) }),
        };
        let mut out = Vec::new();
        write_header(&mut out, IDS.1, super::world::start(), handle, StatusCode::Good);
        write_len(&mut out, 1);
        let result = HistoryReadResult {
            status_code: if there { StatusCode::Good } else { StatusCode::BadNodeIdUnknown },
            continuation_point: if more { ByteString::from(next.to_le_bytes().to_vec()) } else { ByteString::null() },
            history_data: data,
        };
        out.extend_from_slice(&crate::guard::desk::encoded(&result));
        write_no_diagnostics(&mut out);
        Ok(out)
    }));
    seen
}

fn happened(all: &[(&'static str, &str)]) -> Vec<Happened> {
    all.iter().map(|(source, message)| (*source, 2041, (*message).to_owned())).collect()
}

/// Start and end as places in the list of events, and a number.
#[derive(Clone, Copy)]
struct Span(Option<i64>, Option<i64>, u32);

const ALL: Span = Span(Some(-1), Some(1_000_000), 0);

fn details_of(Span(start, end, most): Span, filter: EventFilter) -> ExtensionObject {
    let time = |at: Option<i64>| at.map_or(DateTime::from(0), |at| DateTime::from(FIRST + STEP * at));
    let (start_time, end_time) = (time(start), time(end));
    ExtensionObject::from_message(ReadEventDetails { num_values_per_node: most, start_time, end_time, filter })
}

fn details(span: Span) -> ExtensionObject {
    details_of(span, filter(&["Message"], Vec::new()))
}

fn body(details: ExtensionObject, nodes: &[(NodeId, &[u8])], release: bool) -> Vec<u8> {
    let one = |(node_id, point): &(NodeId, &[u8])| HistoryReadValueId {
        node_id: node_id.clone(),
        continuation_point: if point.is_empty() { ByteString::null() } else { ByteString::from(point.to_vec()) },
        ..HistoryReadValueId::default()
    };
    body_of(&HistoryReadRequest {
        history_read_details: details,
        timestamps_to_return: TimestampsToReturn::Both,
        release_continuation_points: release,
        nodes_to_read: Some(nodes.iter().map(one).collect()),
        ..HistoryReadRequest::default()
    })
}

/// Status, messages, continuation point.
type Told = (StatusCode, Vec<String>, Vec<u8>);

fn ask(
    world: &mut World,
    client: ConnId,
    details: ExtensionObject,
    nodes: &[(NodeId, &[u8])],
) -> Result<Vec<Told>, StatusCode> {
    let answer = world.raw(client, IDS, body(details, nodes, false))?;
    let told = |result: HistoryReadResult| {
        let found = match result.history_data.is_null() {
            true => Vec::new(),
            false => opened::<HistoryEvent>(&result.history_data).events.unwrap_or_default(),
        };
        let message = |event: HistoryEventFieldList| match event.event_fields.unwrap().as_slice() {
            [Variant::LocalizedText(text)] => text.text.to_string(),
            other => panic!("{other:?}"),
        };
        let point = result.continuation_point.as_ref().to_vec();
        (result.status_code, found.into_iter().map(message).collect(), point)
    };
    Ok(field::<HistoryReadResult>(&answer).into_iter().map(told).collect())
}

/// All pages of one notifier: of each its status, its messages, and whether there was more.
fn pages(world: &mut World, client: ConnId, span: Span, notifier: &NodeId) -> Vec<(StatusCode, Vec<String>, bool)> {
    let mut pages = Vec::new();
    let mut point = Vec::new();
    loop {
        let (status, messages, next) =
            ask(world, client, details(span), &[(notifier.clone(), &point)]).unwrap().remove(0);
        pages.push((status, messages, !next.is_empty()));
        point = next;
        if point.is_empty() {
            return pages;
        }
        assert!(pages.len() < 100, "it ends");
    }
}

/// Everything on the reactor, and the mixer to be seen.
fn reader(world: &mut World) -> ConnId {
    world.client_by_token(vec![(Rights::ALL, 1), (Rights::BROWSE, 2)], Duration::from_secs(60))
}

#[test]
fn each_event_of_the_past_takes_the_rights_of_a_living_one_and_that_to_read_history() {
    use StatusCode as S;
    let events = [
        ("Unit", 2041, "one"),
        ("Secret", 2041, "hidden"),
        ("Speed", 2041, "of the mixer"),
        ("Unit", 2052, "an audit event"),
        ("Unit", 2132, "a change of the model"),
        ("Setpoint", 2130, "two"),
    ];
    let (browse, receive, past) = (Rights::BROWSE, Rights::RECEIVE_EVENTS, Rights::READ_HISTORY);
    type Row = (&'static str, Vec<(Rights, u32)>, NodeId, S, &'static [&'static str]);
    let rows: [Row; 9] = [
        ("one's own scope", vec![(Rights::ALL, 1)], id("Unit"), S::Good, &["one", "two"]),
        ("at the Server object", vec![(Rights::ALL, 1)], SERVER, S::Good, &["one", "two"]),
        (
            "two scopes",
            vec![(Rights::ALL, 1), (browse | receive | past, 2)],
            SERVER,
            S::Good,
            &["one", "of the mixer", "two"],
        ),
        ("received alive only", vec![(Rights::ALL, 1), (browse | receive, 2)], SERVER, S::Good, &["one", "two"]),
        ("values of the past only", vec![(Rights::ALL, 1), (browse | past, 2)], SERVER, S::Good, &["one", "two"]),
        ("no right to the past", vec![(browse | receive, 1)], id("Unit"), S::BadUserAccessDenied, &[]),
        ("no right to events", vec![(browse | past, 1)], id("Unit"), S::BadUserAccessDenied, &[]),
        ("nothing at the Server object", vec![(browse, 1)], SERVER, S::GoodNoData, &[]),
        ("not of a hidden notifier", vec![(Rights::ALL, 1)], id("Secret"), S::BadNodeIdUnknown, &[]),
    ];
    for (rule, rights, notifier, status, expected) in rows {
        let mut world = World::new();
        let all = events.iter().map(|(source, kind, message)| (*source, *kind, (*message).to_owned())).collect();
        let _seen = historian(&mut world, all, PLAIN);
        let client = world.client_by_token(rights, Duration::from_secs(60));
        let told = ask(&mut world, client, details(ALL), &[(notifier, &[])]).unwrap().remove(0);
        assert_eq!(told, (status, expected.iter().map(|one| (*one).to_owned()).collect(), Vec::new()), "{rule}");
    }
}

/// What is told, in how many pages, and where they end: the same as if the others had never been.
#[test]
fn events_of_hidden_sources_leave_no_trace() {
    let seen = ["one", "two", "three", "four", "five"];
    let mut hidden: Vec<(&'static str, &str)> = Vec::new();
    for (at, message) in seen.into_iter().enumerate() {
        hidden.extend(std::iter::repeat_n(("Secret", "hidden"), 7 * at + 1));
        hidden.push(("Unit", message));
    }
    hidden.extend([("Secret", "hidden"); 300]);
    let bare: Vec<(&'static str, &str)> = seen.into_iter().map(|message| ("Unit", message)).collect();
    let length = i64::try_from(hidden.len()).unwrap();
    let spans = |most| [Span(Some(-1), Some(length), most), Span(Some(length), Some(-1), most)];
    let ends = |most| [Span(Some(-1), None, most), Span(None, Some(length), most)];
    let numbers = [0, 1, 2, 5, 6];
    let all = numbers.into_iter().flat_map(spans).chain(numbers.into_iter().skip(1).flat_map(ends));
    for (nth, span) in all.enumerate() {
        for (page, points) in [(1_000_000, true), (3, true), (150, true), (1_000_000, false)] {
            let told = [&bare, &hidden].map(|events| {
                let mut world = World::new();
                let _log = historian(&mut world, happened(events), Manner { page, points });
                let client = reader(&mut world);
                pages(&mut world, client, span, &SERVER)
            });
            assert_eq!(told[0], told[1], "{nth}: {page}, {points}");
            let messages: Vec<_> = told[1].iter().flat_map(|page| page.1.clone()).collect();
            let wanted = if span.0.is_none() || span.1.is_none() { span.2 as usize } else { 5 };
            assert_eq!(messages.len(), wanted.min(5), "{nth}: all of them");
        }
    }
    let mut world = World::new();
    let _log = historian(&mut world, happened(&[("Secret", "hidden"); 9]), Manner { page: 4, points: true });
    let client = reader(&mut world);
    assert_eq!(pages(&mut world, client, ALL, &SERVER), [(StatusCode::GoodNoData, Vec::new(), false)], "nothing");
}

#[test]
fn where_a_read_of_events_goes_on_is_known_to_its_session_node_and_details_only() {
    use StatusCode as S;
    let mut world = World::new();
    let events = happened(&[("Unit", "one"), ("Secret", "hidden"), ("Unit", "two"), ("Unit", "three")]);
    let log = historian(&mut world, events, Manner { page: 1, points: true });
    let (client, other) = (reader(&mut world), reader(&mut world));
    let two = Span(Some(-1), Some(9), 2);
    let (_, messages, point) = ask(&mut world, client, details(two), &[(id("Unit"), &[])]).unwrap().remove(0);
    assert_eq!(messages, ["one", "two"]);
    let values = ExtensionObject::from_message(ReadRawModifiedDetails::default());
    let elsewhere = filter(&["Message"], vec![element(FilterOperator::IsNull, vec![literal(1_u8)])]);
    for (rule, who, details, node, point) in [
        ("another session's", other, details(two), id("Unit"), point.as_slice()),
        ("another node's", client, details(two), SERVER, &point),
        ("the server's own", client, details(two), id("Unit"), &[3, 0]),
        ("of values", client, values, id("Unit"), &point),
        ("of another span", client, details(ALL), id("Unit"), &point),
        ("of another filter", client, details_of(two, elsewhere), id("Unit"), &point),
    ] {
        let told = world.raw(who, IDS, body(details, &[(node, point)], false)).unwrap();
        let told = field::<HistoryReadResult>(&told).remove(0).status_code;
        assert_eq!(told, S::BadContinuationPointInvalid, "{rule}");
    }
    let next = ask(&mut world, client, details(two), &[(id("Unit"), &point)]).unwrap().remove(0);
    assert_eq!(next, (S::Good, vec!["three".to_owned()], Vec::new()));
    let again = ask(&mut world, client, details(two), &[(id("Unit"), &point)]).unwrap().remove(0);
    assert_eq!(again.0, S::BadContinuationPointInvalid, "good once");
    let one = Span(Some(-1), Some(9), 1);
    let point = ask(&mut world, client, details(one), &[(id("Unit"), &[])]).unwrap().remove(0).2;
    log.borrow_mut().clear();
    let released = world.raw(client, IDS, body(details(one), &[(id("Unit"), &point)], true)).unwrap();
    assert_eq!(field::<HistoryReadResult>(&released)[0].status_code, S::Good);
    assert_eq!(*log.borrow(), [(101, vec![3, 0], true)], "the server hears of it");
}

#[test]
fn places_where_a_read_of_events_goes_on_are_given_back_when_nobody_has_them() {
    let seconds = Duration::from_secs;
    let one = Span(Some(-1), Some(9), 1);
    for rule in ["come late", "come when the right is gone", "make room", "have another user"] {
        let mut world = World::new();
        let events = happened(&[("Unit", "one"), ("Unit", "two"), ("Unit", "three")]);
        let log = historian(&mut world, events, Manner { page: 2, points: true });
        let client = reader(&mut world);
        match rule {
            "make room" => (0..17).for_each(|_| {
                ask(&mut world, client, details(one), &[(id("Unit"), &[])]).unwrap();
            }),
            "have another user" => {
                ask(&mut world, client, details(one), &[(id("Unit"), &[])]).unwrap();
                let other = world.token("bert", vec![(Rights::BROWSE, 1)], seconds(60));
                world.reactivate(client, other);
            }
            _ => {
                world.hold = true;
                let request = RawRequest::new(IDS.0, IDS.1, body(details(one), &[(id("Unit"), &[])], false));
                let call = world.send_for(client, Request::Raw(request), seconds(2));
                world.pass(seconds(if rule == "come late" { 3 } else { 1 }));
                if rule == "come when the right is gone" {
                    let poorer = world.token("alice", vec![(Rights::BROWSE, 1)], seconds(60));
                    world.reactivate(client, poorer);
                }
                world.release();
                assert!(world.answer(client, call).is_some(), "{rule}");
            }
        }
        let given_back: Vec<_> = log.borrow().iter().filter(|asked| asked.2).cloned().collect();
        assert_eq!(given_back, [(101, vec![2, 0], true)], "{rule}");
    }
}

/// A where clause is evaluated by the server, which knows everything: it is told of nothing that its reader may not see.
#[test]
fn a_where_clause_is_no_way_to_ask_for_hidden_sources() {
    let mut world = World::new();
    let log = historian(&mut world, happened(&[("Unit", "one"), ("Secret", "hidden")]), PLAIN);
    let client = reader(&mut world);
    let is = |node: NodeId| {
        let operand = ExtensionObject::from_message(super::events::field("SourceNode"));
        filter(&["Message"], vec![element(FilterOperator::Equals, vec![operand, literal(node)])])
    };
    let mut told =
        |node: NodeId| ask(&mut world, client, details_of(ALL, is(node)), &[(id("Unit"), &[])]).unwrap().remove(0).0;
    assert_eq!(told(id("Unit")), StatusCode::Good);
    let before = log.borrow().len();
    assert_eq!(told(id("Secret")), StatusCode::BadEventFilterInvalid);
    assert_eq!(told(NodeId::new(7, 7_u32)), StatusCode::BadEventFilterInvalid, "told as one that is not there");
    assert_eq!(log.borrow().len(), before, "the server was not asked");
}

#[test]
fn events_of_the_past_that_wait_for_the_next_page_are_decided_anew() {
    let mut world = World::new();
    let events = happened(&[("Unit", "one"), ("Speed", "two"), ("Unit", "three"), ("Unit", "four")]);
    let log = historian(&mut world, events, PLAIN);
    let richer = vec![(Rights::ALL, 1), (Rights::ALL, 2)];
    let client = world.client_by_token(richer, Duration::from_secs(60));
    let one = Span(Some(-1), Some(9), 1);
    let (_, messages, point) = ask(&mut world, client, details(one), &[(id("Unit"), &[])]).unwrap().remove(0);
    assert_eq!(messages, ["one"]);
    let poorer = world.token("alice", vec![(Rights::ALL, 1), (Rights::BROWSE, 2)], Duration::from_secs(60));
    world.reactivate(client, poorer);
    let (_, messages, point) = ask(&mut world, client, details(one), &[(id("Unit"), &point)]).unwrap().remove(0);
    assert_eq!(
        (messages, log.borrow().len()),
        (vec!["three".to_owned()], 1),
        "kept since, and held to the rights of now"
    );
    world.hold = true;
    let request = RawRequest::new(IDS.0, IDS.1, body(details(ALL), &[(id("Unit"), &[])], false));
    let call = world.send(client, Request::Raw(request));
    world.pass(Duration::from_secs(61));
    world.release();
    assert!(world.answer(client, call).unwrap().is_err(), "on the way when the grant ends");
    assert!(!point.is_empty());
}

/// A server that does not say where its events come from, or says something else than it was asked for.
#[test]
fn events_that_the_server_does_not_account_for_are_not_told() {
    for (rule, fields, expected) in [
        ("no source", vec![text("one"), Variant::Empty, NodeId::new(0, 2041_u32).into()], Ok(StatusCode::GoodNoData)),
        ("no type", vec![text("one"), id("Unit").into(), Variant::Empty], Ok(StatusCode::GoodNoData)),
        ("too few fields", vec![id("Unit").into(), NodeId::new(0, 2041_u32).into()], Ok(StatusCode::GoodNoData)),
        (
            "too many fields",
            vec![text("one"), text("two"), id("Unit").into(), NodeId::new(0, 2041_u32).into()],
            Ok(StatusCode::GoodNoData),
        ),
        ("values", Vec::new(), Err(StatusCode::BadUnknownResponse)),
    ] {
        let mut world = World::new();
        world.script = Some(Box::new(move |_, _, handle| {
            let event = HistoryEventFieldList { event_fields: Some(fields.clone()) };
            let history_data = match fields.is_empty() {
                true => ExtensionObject::from_message(HistoryData::default()),
                false => ExtensionObject::from_message(HistoryEvent { events: Some(vec![event]) }),
            };
            let result = HistoryReadResult { history_data, ..HistoryReadResult::default() };
            let mut out = Vec::new();
            write_header(&mut out, IDS.1, start(), handle, StatusCode::Good);
            write_len(&mut out, 1);
            out.extend_from_slice(&crate::guard::desk::encoded(&result));
            write_no_diagnostics(&mut out);
            Ok(out)
        }));
        let client = reader(&mut world);
        let told = ask(&mut world, client, details(ALL), &[(id("Unit"), &[])]).map(|mut told| told.remove(0));
        assert_eq!(told, expected.map(|status| (status, Vec::new(), Vec::new())), "{rule}");
        let recorded = world
            .records
            .iter()
            .any(|record| record.detail.contains("the answer") || record.detail.contains("without its source"));
        assert!(recorded, "{rule}: the record says so");
    }
}

#[test]
fn events_that_clients_changed_come_with_who_did() {
    let mut world = World::new();
    let events = happened(&[("Secret", "hidden"), ("Unit", "one"), ("Secret", "hidden"), ("Unit", "two")]);
    let _log = historian(&mut world, events, PLAIN);
    let client = reader(&mut world);
    let details = ExtensionObject::from_message(ReadEventDetails2 {
        start_time: DateTime::from(FIRST),
        end_time: DateTime::from(FIRST + 9 * STEP),
        filter: filter(&["Message"], Vec::new()),
        read_modified: true,
        ..ReadEventDetails2::default()
    });
    let answer = world.raw(client, IDS, body(details, &[(id("Unit"), &[])], false)).unwrap();
    let result = field::<HistoryReadResult>(&answer).remove(0);
    let found = opened::<HistoryModifiedEvent>(&result.history_data);
    let messages: Vec<_> = found.events.unwrap().into_iter().flat_map(|event| event.event_fields.unwrap()).collect();
    assert_eq!(messages, [text("one"), text("two")]);
    let names: Vec<_> = found.modification_infos.unwrap().into_iter().map(|info| info.user_name.to_string()).collect();
    assert_eq!(names, ["one", "two"], "each with its own");
}

#[test]
fn what_is_kept_for_the_next_page_of_events_is_bounded() {
    let mut world = World::new();
    let long: Vec<Happened> = (0..300).map(|at| ("Unit", 2041, format!("{at} {}", "x".repeat(8_000)))).collect();
    let log = historian(&mut world, long, PLAIN);
    let client = reader(&mut world);
    let few = Span(Some(-1), Some(1_000), 100);
    let told = pages(&mut world, client, few, &id("Unit"));
    let messages: Vec<_> = told.iter().flat_map(|page| page.1.clone()).collect();
    assert_eq!(messages.len(), 300);
    assert!(messages.iter().enumerate().all(|(at, message)| message.starts_with(&format!("{at} "))), "in order, once");
    let bytes = |page: &Vec<String>| page.iter().map(String::len).sum::<usize>();
    assert!(told.iter().all(|page| bytes(&page.1) <= 1 << 20), "a page is bounded in bytes");
    let one = Span(Some(-1), Some(1_000), 1);
    log.borrow_mut().clear();
    let point = ask(&mut world, client, details(one), &[(id("Unit"), &[])]).unwrap().remove(0).2;
    let second = ask(&mut world, client, details(one), &[(id("Unit"), &point)]).unwrap().remove(0).1;
    assert!(second[0].starts_with("1 "));
    let asked: Vec<_> = log.borrow().iter().map(|asked| (asked.1.len(), asked.2)).collect();
    assert_eq!(asked, [(0, false), (2, true), (0, false), (2, true)], "too much to keep: given back and read again");
}

/// What is kept counts for the connection of its session, as everything that is held for clients.
#[test]
fn what_is_kept_of_history_for_the_next_page_counts_as_held() {
    let mut world = World::new();
    let long: Vec<Happened> = (0..30).map(|at| ("Unit", 2041, format!("{at} {}", "x".repeat(4_000)))).collect();
    let _log = historian(&mut world, long, PLAIN);
    let client = reader(&mut world);
    let before = world.guard.front.held();
    let one = Span(Some(-1), Some(1_000), 1);
    let point = ask(&mut world, client, details(one), &[(id("Unit"), &[])]).unwrap().remove(0).2;
    let kept = world.guard.front.held() - before;
    assert!((29 * 4_000..200_000).contains(&kept), "29 events wait: {kept}");
    let released = world.raw(client, IDS, body(details(one), &[(id("Unit"), &point)], true)).unwrap();
    assert_eq!(field::<HistoryReadResult>(&released)[0].status_code, StatusCode::Good);
    assert_eq!(world.guard.front.held(), before, "given back");
}

/// A session without a connection counts for nobody.
#[test]
fn nothing_heavy_is_kept_of_history_for_a_session_without_a_connection() {
    let one = Span(Some(-1), Some(1_000), 1);
    for (rule, text, under_way, left) in [
        ("what waits for the next page", "x".repeat(4_000), false, 0),
        ("a place and little more", String::new(), false, 1),
        ("a request under way", String::new(), true, 0),
    ] {
        let mut world = World::new();
        let _log = historian(&mut world, (0..3).map(|_| ("Unit", 2041, text.clone())).collect(), PLAIN);
        let client = reader(&mut world);
        world.hold = under_way;
        let request = RawRequest::new(IDS.0, IDS.1, body(details(one), &[(id("Unit"), &[])], false));
        world.send(client, Request::Raw(request));
        let link = |world: &World| {
            let link = world.guard.links.values().next().unwrap();
            (link.jobs.len(), usize::from(link.history.weight() > 0))
        };
        assert_eq!(link(&world), if under_way { (1, 0) } else { (0, 1) }, "{rule}");
        let gone = crate::server::Input::Disconnected { conn: client };
        world.guard.handle_input(crate::guard::Input::Down(gone), world.now);
        assert_eq!(link(&world), (0, left), "{rule}");
    }
}

/// It would be kept with the place where reading goes on.
#[test]
fn events_have_no_parts_and_no_encoding_of_their_own() {
    let mut world = World::new();
    let log = historian(&mut world, happened(&[("Unit", "one")]), PLAIN);
    let client = reader(&mut world);
    let name = |namespace: u16, name: &str| QualifiedName::new(namespace, name.to_owned());
    for (encoding, range, status) in [
        (QualifiedName::null(), NumericRange::None, StatusCode::Good),
        (name(0, ""), NumericRange::Index(0), StatusCode::BadIndexRangeInvalid),
        (name(0, &"x".repeat(100_000)), NumericRange::None, StatusCode::BadDataEncodingInvalid),
        (name(1, ""), NumericRange::None, StatusCode::BadDataEncodingInvalid),
    ] {
        let one = HistoryReadValueId {
            node_id: id("Unit"),
            index_range: range,
            data_encoding: encoding,
            ..HistoryReadValueId::default()
        };
        let request = HistoryReadRequest {
            history_read_details: details(ALL),
            nodes_to_read: Some(vec![one]),
            ..HistoryReadRequest::default()
        };
        log.borrow_mut().clear();
        let told = field::<HistoryReadResult>(&world.raw(client, IDS, body_of(&request)).unwrap()).remove(0);
        assert_eq!((told.status_code, log.borrow().len()), (status, usize::from(status.is_good())));
    }
}

pub(super) const UPDATE: (ObjectId, ObjectId) =
    (ObjectId::HistoryUpdateRequest_Encoding_DefaultBinary, ObjectId::HistoryUpdateResponse_Encoding_DefaultBinary);

/// A server that keeps events with these ids and sources, and deletes what it is told to: which, in order. `tells`: it says
/// what it keeps, all of it whatever is asked for.
fn deleting(world: &mut World, kept: &'static [(&'static str, &'static str)], tells: bool) -> Rc<RefCell<Vec<String>>> {
    let deleted: Rc<RefCell<Vec<String>>> = Rc::default();
    let log = Rc::clone(&deleted);
    world.script = Some(Box::new(move |service, body, handle| {
        let owned = ContextOwned::default();
        let mut out = Vec::new();
        if service == crate::server::front::Service::HistoryRead {
            if !tells {
                return Err(StatusCode::BadServiceUnsupported);
            }
            let event = |(name, source): &(&str, &str)| {
                let fields: Vec<Variant> = vec![
                    ByteString::from(name.as_bytes().to_vec()).into(),
                    id(source).into(),
                    NodeId::new(0, 2041_u32).into(),
                ];
                HistoryEventFieldList { event_fields: Some(fields) }
            };
            let history = HistoryEvent { events: Some(kept.iter().map(event).collect()) };
            let history_data = ExtensionObject::from_message(history);
            let result = HistoryReadResult { history_data, ..HistoryReadResult::default() };
            write_header(&mut out, IDS.1, start(), handle, StatusCode::Good);
            write_len(&mut out, 1);
            out.extend_from_slice(&crate::guard::desk::encoded(&result));
        } else {
            let mut reader = Reader::new(body);
            reader.array_len(1)?;
            let (_, details) = reader.extension_object()?;
            let details = DeleteEventDetails::decode(&mut &*details, &owned.context()).unwrap();
            let ids = details.event_ids.unwrap_or_default();
            let status = |id: &ByteString| match kept.iter().find(|(name, _)| name.as_bytes() == id.as_ref()) {
                Some((name, _)) => {
                    log.borrow_mut().push((*name).to_owned());
                    StatusCode::Good
                }
                None => StatusCode::BadEventIdUnknown,
            };
            let operation_results = Some(ids.iter().map(status).collect());
            let result = HistoryUpdateResult { operation_results, ..HistoryUpdateResult::default() };
            write_header(&mut out, UPDATE.1, start(), handle, StatusCode::Good);
            write_len(&mut out, 1);
            out.extend_from_slice(&crate::guard::desk::encoded(&result));
        }
        write_no_diagnostics(&mut out);
        Ok(out)
    }));
    deleted
}

/// The server behind would delete whatever it is told to.
#[test]
fn events_are_deleted_through_a_guard_by_right_of_notifier_and_source() {
    use StatusCode as S;
    const KEPT: &[(&str, &str)] = &[("one", "Unit"), ("hidden", "Secret"), ("mixed", "Speed"), ("two", "Setpoint")];
    let (unknown, denied) = (S::BadEventIdUnknown, S::BadUserAccessDenied);
    let (browse, receive, delete) = (Rights::BROWSE, Rights::RECEIVE_EVENTS, Rights::DELETE_HISTORY);
    let ids = ["one", "hidden", "nowhere", "mixed", "two"];
    type Row = (&'static str, Vec<(Rights, u32)>, bool, Result<[S; 5], S>);
    let rows: [Row; 6] = [
        ("one's own", vec![(Rights::ALL, 1)], true, Ok([S::Good, unknown, unknown, unknown, S::Good])),
        (
            "of two scopes",
            vec![(Rights::ALL, 1), (browse | receive | delete, 2)],
            true,
            Ok([S::Good, unknown, unknown, S::Good, S::Good]),
        ),
        (
            "received, not deleted",
            vec![(Rights::ALL, 1), (browse | receive, 2)],
            true,
            Ok([S::Good, unknown, unknown, unknown, S::Good]),
        ),
        ("not received", vec![(browse | delete, 1)], true, Ok([unknown; 5])),
        ("read only", vec![(browse | receive | Rights::READ_HISTORY, 1)], true, Err(denied)),
        ("a server that does not say", vec![(Rights::ALL, 1)], false, Ok([unknown; 5])),
    ];
    for (rule, rights, tells, expected) in rows {
        let mut world = World::new();
        let deleted = deleting(&mut world, KEPT, tells);
        let client = world.client_by_token(rights, Duration::from_secs(60));
        let event_ids = Some(ids.map(|id| ByteString::from(id.as_bytes().to_vec())).to_vec());
        let details = ExtensionObject::from_message(DeleteEventDetails { node_id: id("Unit"), event_ids });
        let request =
            HistoryUpdateRequest { history_update_details: Some(vec![details]), ..HistoryUpdateRequest::default() };
        let answer = world.raw(client, UPDATE, body_of(&request)).unwrap();
        let result = field::<HistoryUpdateResult>(&answer).remove(0);
        let told = match result.status_code {
            S::Good => Ok(result.operation_results.unwrap()),
            status => Err(status),
        };
        let gone: Vec<&str> = match &expected {
            Ok(expected) => {
                ids.into_iter().zip(expected).filter(|(_, status)| status.is_good()).map(|one| one.0).collect()
            }
            Err(_) => Vec::new(),
        };
        assert_eq!(told, expected.map(|expected| expected.to_vec()), "{rule}");
        assert_eq!(*deleted.borrow(), gone, "{rule}: at the server");
        let recorded = world.records.iter().any(|record| record.detail.starts_with("5 events are deleted"));
        assert_eq!(recorded, told.is_ok(), "{rule}: recorded");
    }
}

/// A server with two notifiers, of which each has an event with the same id; `first`: the client asks this one first.
#[test]
fn an_event_is_known_by_its_notifier_and_its_id() {
    use StatusCode as S;
    for first in ["Unit", "Speed"] {
        let mut world = World::new();
        let asked: Rc<RefCell<Vec<(NodeId, usize)>>> = Rc::default();
        let log = Rc::clone(&asked);
        world.script = Some(Box::new(move |service, body, handle| {
            let owned = ContextOwned::default();
            let mut out = Vec::new();
            let mut reader = Reader::new(body);
            if service == crate::server::front::Service::HistoryRead {
                reader.extension_object()?;
                reader.bytes(5 + 4)?;
                let node = reader.node_id()?;
                let source = if node == id("Unit") { id("Unit") } else { id("Secret") };
                let fields = vec![ByteString::from(b"7".to_vec()).into(), source.into(), NodeId::new(0, 2041).into()];
                let events = Some(vec![HistoryEventFieldList { event_fields: Some(fields) }]);
                let history_data = ExtensionObject::from_message(HistoryEvent { events });
                let result = HistoryReadResult { history_data, ..HistoryReadResult::default() };
                write_header(&mut out, IDS.1, start(), handle, StatusCode::Good);
                write_len(&mut out, 1);
                out.extend_from_slice(&crate::guard::desk::encoded(&result));
            } else {
                let count = reader.array_len(1)?;
                write_header(&mut out, UPDATE.1, start(), handle, StatusCode::Good);
                write_len(&mut out, count);
                for _ in 0..count {
                    let (_, details) = reader.extension_object()?;
                    let details = DeleteEventDetails::decode(&mut &*details, &owned.context()).unwrap();
                    let ids = details.event_ids.unwrap_or_default();
                    let known = |id: &ByteString| id.as_ref() == b"7";
                    log.borrow_mut().push((details.node_id, ids.iter().filter(|id| known(id)).count()));
                    let status = |id| if known(id) { S::Good } else { S::BadEventIdUnknown };
                    let operation_results = Some(ids.iter().map(status).collect());
                    let result = HistoryUpdateResult { operation_results, ..HistoryUpdateResult::default() };
                    out.extend_from_slice(&crate::guard::desk::encoded(&result));
                }
            }
            write_no_diagnostics(&mut out);
            Ok(out)
        }));
        let client = world.client_by_token(vec![(Rights::ALL, 1), (Rights::ALL, 2)], Duration::from_secs(60));
        let second = if first == "Unit" { "Speed" } else { "Unit" };
        let delete = |name: &str| {
            let event_ids = Some(vec![ByteString::from(b"7".to_vec())]);
            ExtensionObject::from_message(DeleteEventDetails { node_id: id(name), event_ids })
        };
        let history_update_details = Some([first, second, first].map(delete).to_vec());
        let request = HistoryUpdateRequest { history_update_details, ..HistoryUpdateRequest::default() };
        let answer = world.raw(client, UPDATE, body_of(&request)).unwrap();
        let told = |result: HistoryUpdateResult| result.operation_results.unwrap_or_default().remove(0);
        let told: Vec<S> = field::<HistoryUpdateResult>(&answer).into_iter().map(told).collect();
        let expected = |name: &str| if name == "Unit" { S::Good } else { S::BadEventIdUnknown };
        assert_eq!(told, [first, second, first].map(expected), "{first} first");
        let reached = |name: &str| (id(name), usize::from(name == "Unit"));
        assert_eq!(*asked.borrow(), [first, second, first].map(reached), "{first} first, at the server");
    }
}
