//! History of other people's servers, through a guard. `interop/README.md` says what of it is the stack's own.

use access_model::Rights;
use client::{Client, Request, Response};
use opcua_types::{
    BinaryDecodable, BinaryEncodable, ByteString, ByteStringBody, ContextOwned, DataValue, DateTime, DiagnosticInfo,
    EventFilter, ExtensionObject, HistoryData, HistoryReadResult, HistoryReadValueId, LocalizedText, NodeId, ObjectId,
    ObjectTypeId, PerformUpdateType, ReadRawModifiedDetails, StatusCode, TimestampsToReturn, Variant,
};
use ua_proto::client::RawRequest;

use crate::guarded::{connected, guard, node};
use crate::peers::{Serving, Stack};

/// HistoryRead of one node, the newest values first: its status, and the values.
async fn history(client: &Client, node: &NodeId) -> (StatusCode, Vec<DataValue>) {
    let owned = ContextOwned::default();
    let context = owned.context();
    let details = ReadRawModifiedDetails {
        is_read_modified: false,
        start_time: DateTime::from(DateTime::now().ticks() + 36_000_000_000),
        end_time: DateTime::from(DateTime::now().ticks() - 36_000_000_000),
        num_values_per_node: 10,
        return_bounds: false,
    };
    let item = HistoryReadValueId { node_id: node.clone(), ..HistoryReadValueId::default() };
    let parts = [
        ExtensionObject::from_message(details).encode_to_vec(&context),
        TimestampsToReturn::Source.encode_to_vec(&context),
        false.encode_to_vec(&context),
        Some(vec![item]).encode_to_vec(&context),
    ];
    let body = parts.concat();
    let (request, response) =
        (ObjectId::HistoryReadRequest_Encoding_DefaultBinary, ObjectId::HistoryReadResponse_Encoding_DefaultBinary);
    let answer = client.request(Request::Raw(RawRequest::new(request, response, body))).await;
    let Response::Raw(bytes) = answer.expect("HistoryRead is answered") else { panic!("another response") };
    let mut rest = bytes.as_slice();
    let results = Option::<Vec<HistoryReadResult>>::decode(&mut rest, &context).expect("results");
    let _diagnostics = Option::<Vec<DiagnosticInfo>>::decode(&mut rest, &context).expect("diagnostics");
    let result = results.into_iter().flatten().next().expect("one result");
    let values = result.history_data.inner_as::<HistoryData>().and_then(|data| data.data_values.clone());
    (result.status_code, values.unwrap_or_default())
}

async fn has_guarded_history(stack: Stack) {
    let Some(program) = stack.program("server") else { return };
    let name = format!("{}-server", stack.name());
    let server = Serving::start(&program, &name, &["trapkey"], &["--history"]);
    let (all, url) = guard(&server, Rights::ALL).await;
    let client = connected(&url, &name).await;
    let setpoint = node(&client, "Line.Setpoint").await;
    for value in [1.25, 2.25, 3.25] {
        let written = client.write(vec![(setpoint.clone(), Variant::Double(value))]).await.expect("it is answered");
        assert_eq!(written, [StatusCode::Good], "{name}");
    }
    let mut seen = Vec::new();
    // A server may take a moment to keep a value.
    for _ in 0..300 {
        let (status, values) = history(&client, &setpoint).await;
        assert!(status.is_good(), "{name}: {status}");
        seen = values.into_iter().filter_map(|value| value.value).collect();
        if seen.first() == Some(&Variant::Double(3.25)) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(seen.get(..3), Some([3.25, 2.25, 1.25].map(Variant::Double).as_slice()), "{name}: {seen:?}");
    client.close().await;
    all.stop().await;
    for (rights, expected) in [
        (Rights::BROWSE | Rights::READ | Rights::WRITE, StatusCode::BadUserAccessDenied),
        (Rights::NONE, StatusCode::BadNodeIdUnknown),
    ] {
        let (few, url) = guard(&server, rights).await;
        let client = connected(&url, &name).await;
        let (status, values) = history(&client, &setpoint).await;
        assert_eq!((status, values), (expected, Vec::new()), "{name}, {rights}");
        client.close().await;
        few.stop().await;
    }
}

#[tokio::test]
async fn asyncua_histories_are_guarded() {
    has_guarded_history(Stack::Asyncua).await;
}

#[tokio::test]
async fn open62541_histories_are_guarded() {
    has_guarded_history(Stack::Open62541).await;
}

#[tokio::test]
async fn milo_histories_are_guarded() {
    has_guarded_history(Stack::Milo).await;
}

#[tokio::test]
async fn node_opcua_histories_are_guarded() {
    has_guarded_history(Stack::NodeOpcua).await;
}

/// The messages of the events that a notifier keeps; the newest first where `backward`.
async fn past_events(client: &Client, notifier: &NodeId, backward: bool, most: usize) -> Vec<String> {
    let hours = |number: i64| DateTime::from(DateTime::now().ticks() + number * 36_000_000_000);
    let span = if backward { (hours(1), hours(-1)) } else { (hours(-1), hours(1)) };
    let events = client.past_events(notifier, &["Message".to_owned()], span, most).await;
    let text = |fields: Vec<Variant>| match fields.as_slice() {
        [Variant::LocalizedText(text)] => text.text.to_string(),
        other => panic!("{other:?}"),
    };
    events.expect("the events can be read").into_iter().map(text).collect()
}

/// A server that knows of no filters for the past, and tells everybody everything.
#[tokio::test]
async fn asyncua_events_of_the_past_are_guarded() {
    let Some(program) = Stack::Asyncua.program("server") else { return };
    let server = Serving::start(&program, "asyncua-server", &["trapkey"], &["--history"]);
    let both: Vec<String> =
        (0..3).flat_map(|number| ["Line", "Setpoint"].map(|name| format!("{name} {number}"))).collect();
    let own: Vec<String> = (0..3).map(|number| format!("Line {number}")).collect();
    let notifier = ObjectId::Server.into();
    for (rights, expected) in [
        (Rights::ALL, &both),
        (Rights::BROWSE | Rights::RECEIVE_EVENTS, &own),
        (Rights::BROWSE | Rights::READ_HISTORY, &own),
        (Rights::NONE, &own),
    ] {
        let (guarding, url) = guard(&server, rights).await;
        let client = connected(&url, "asyncua").await;
        // The server takes a moment to keep what happened.
        for _ in 0..300 {
            if past_events(&client, &notifier, false, 100).await.len() == expected.len() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        assert_eq!(past_events(&client, &notifier, false, 100).await, *expected, "{rights}");
        let newest: Vec<String> = expected.iter().rev().take(2).cloned().collect();
        assert_eq!(past_events(&client, &notifier, true, 2).await, newest, "{rights}, backward");
        client.close().await;
        guarding.stop().await;
    }
}

const FIELDS: [&str; 6] = ["EventId", "EventType", "SourceNode", "Time", "Message", "Severity"];

/// The fields of [`FIELDS`].
fn event(id: Option<&ByteString>, source: &NodeId, message: &str) -> Vec<Variant> {
    vec![
        id.map_or(Variant::Empty, |id| id.clone().into()),
        NodeId::from(ObjectTypeId::BaseEventType).into(),
        source.clone().into(),
        DateTime::from(DateTime::now().ticks() - 10_000_000).into(),
        LocalizedText::new("", message).into(),
        Variant::UInt16(200),
    ]
}

/// The ids of the events of a notifier by their messages.
async fn ids(client: &Client, notifier: &NodeId) -> Vec<(String, ByteString)> {
    let always = (DateTime::from(10_000_000), DateTime::endtimes());
    let fields = ["Message", "EventId"].map(str::to_owned);
    let events = client.past_events(notifier, &fields, always, 100).await.expect("the events can be read");
    let one = |fields: Vec<Variant>| match fields.as_slice() {
        [Variant::LocalizedText(text), Variant::ByteString(id)] => (text.text.to_string(), id.clone()),
        other => panic!("{other:?}"),
    };
    events.into_iter().map(one).collect()
}

/// Our server keeps what it has told, and behind a guard clients read, write and delete of it what they may.
#[tokio::test]
async fn events_of_the_past_of_our_own_server_are_read_and_changed_through_a_guard() {
    use PerformUpdateType::{Insert, Replace, Update};
    use StatusCode as S;
    if Stack::Asyncua.program("server").is_none() {
        return;
    }
    let server = crate::our_server::serve(&["--history"]);
    let fields = FIELDS.map(str::to_owned);
    let (all, url) = guard(&server, Rights::ALL).await;
    let client = connected(&url, "all").await;
    let [line, setpoint] = [node(&client, "Line").await, node(&client, "Line.Setpoint").await];
    let both = ids(&client, &line).await;
    let messages = |of: &[(String, ByteString)]| of.iter().map(|one| one.0.clone()).collect::<Vec<_>>();
    assert_eq!(messages(&both), ["Line 0", "Setpoint 0", "Line 1", "Setpoint 1", "Line 2", "Setpoint 2"]);
    let inside = client.browse(&line).await.expect("it can be browsed");
    let filter = inside.iter().find(|found| found.browse_name.name.as_ref() == "HistoricalEventFilter");
    let filter = filter.expect("OPC 10000-11 §5.4.2: whoever keeps events says which").node_id.node_id.clone();
    let value = client.read(&[filter]).await.expect("it can be read").remove(0);
    let Some(Variant::ExtensionObject(value)) = &value.value else { panic!("{value:?}") };
    let closed = value.inner_as::<ByteStringBody>().expect("the client leaves structures closed");
    let filter = EventFilter::decode(&mut closed.raw_body().as_ref(), &ContextOwned::default().context());
    assert_eq!(filter.expect("a filter").select_clauses.map(|clauses| clauses.len()), Some(8));
    client.close().await;
    all.stop().await;

    // Whoever has nothing on the setpoint: its events are not there.
    let (few, url) = guard(&server, Rights::NONE).await;
    let client = connected(&url, "few").await;
    assert_eq!(messages(&ids(&client, &line).await), ["Line 0", "Line 1", "Line 2"]);
    let new = vec![event(None, &setpoint, "x"), event(None, &line, "Line 3"), event(Some(&both[1].1), &line, "x")];
    let told = client.update_events(&line, Insert, &fields, new).await.expect("an answer");
    assert_eq!(told, [S::BadSourceNodeIdInvalid, S::GoodEntryInserted, S::BadEventIdUnknown]);
    let changed = vec![event(Some(&both[1].1), &line, "x"), event(Some(&both[0].1), &line, "Line 0, corrected")];
    let told = client.update_events(&line, Replace, &fields, changed).await.expect("an answer");
    assert_eq!(told, [S::BadNoEntryExists, S::GoodEntryReplaced]);
    let told = client.delete_events(&line, vec![both[1].1.clone(), both[2].1.clone()]).await.expect("an answer");
    assert_eq!(told, [S::BadEventIdUnknown, S::Good]);
    let nameless = ["Time", "Message", "Severity"].map(str::to_owned);
    let told = client.update_events(&line, Insert, &nameless, vec![event(None, &line, "x")[3..].to_vec()]).await;
    let told = told.expect_err("a filter that does not say where its events come from").to_string();
    assert!(told.contains("BadArgumentsMissing"), "{told}");
    client.close().await;
    few.stop().await;

    // Whoever receives the events of the setpoint and may not write them.
    let (reading, url) = guard(&server, Rights::BROWSE | Rights::RECEIVE_EVENTS | Rights::READ_HISTORY).await;
    let client = connected(&url, "reading").await;
    let changed = vec![event(Some(&both[1].1), &setpoint, "x"), event(Some(&both[4].1), &line, "Line 2, updated")];
    let told = client.update_events(&line, Update, &fields, changed).await.expect("an answer");
    assert_eq!(told, [S::BadUserAccessDenied, S::GoodEntryReplaced]);
    let mut left = messages(&ids(&client, &line).await);
    left.sort();
    let expected = ["Line 0, corrected", "Line 2, updated", "Line 3", "Setpoint 0", "Setpoint 1", "Setpoint 2"];
    assert_eq!(left, expected, "nothing that was denied has reached the server");
    client.close().await;
    reading.stop().await;
}
