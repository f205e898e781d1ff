//! History of other people's servers, through a guard. `interop/README.md` says what of it is the stack's own.

use access_model::Rights;
use client::{Client, Request, Response};
use opcua_types::{
    BinaryDecodable, BinaryEncodable, ContextOwned, DataValue, DateTime, DiagnosticInfo, ExtensionObject, HistoryData,
    HistoryReadResult, HistoryReadValueId, NodeId, ObjectId, ReadRawModifiedDetails, StatusCode, TimestampsToReturn,
    Variant,
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

/// The messages of the events that the Server object keeps; the newest first where `backward`.
async fn past_events(client: &Client, backward: bool, most: usize) -> Vec<String> {
    let hours = |number: i64| DateTime::from(DateTime::now().ticks() + number * 36_000_000_000);
    let span = if backward { (hours(1), hours(-1)) } else { (hours(-1), hours(1)) };
    let events = client.past_events(&ObjectId::Server.into(), &["Message".to_owned()], span, most).await;
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
            if past_events(&client, false, 100).await.len() == expected.len() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        assert_eq!(past_events(&client, false, 100).await, *expected, "{rights}");
        let newest: Vec<String> = expected.iter().rev().take(2).cloned().collect();
        assert_eq!(past_events(&client, true, 2).await, newest, "{rights}, backward");
        client.close().await;
        guarding.stop().await;
    }
}
