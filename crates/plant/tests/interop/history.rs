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
