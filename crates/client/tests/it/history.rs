//! History of a server, as its clients read and change it.

use access_model::Rights;
use client::{CallError, Client, ClientError, Login};
use opcua_types::{DataValue, DateTime, HistoryUpdateType, NodeId, PerformUpdateType, StatusCode, Variant};
use ua_proto::server::Server;

use crate::support::{Plant, id};

/// Values at 10, 20, ... 100 ticks, ten times as large.
async fn keep(plant: &Plant) {
    let keep = |server: &mut Server, _| {
        let node = server.space().find(&id("Speed")).unwrap();
        server.space_mut().historize(node, 100, true).unwrap();
        server.space_mut().fill_history(node, (1..=10).map(|at| value(at * 10, at as f64 * 100.0)));
    };
    plant.mixer.with(keep).await.unwrap();
}

fn value(at: i64, number: f64) -> DataValue {
    DataValue { value: Some(Variant::from(number)), source_timestamp: Some(DateTime::from(at)), ..DataValue::null() }
}

fn between(start: i64, end: i64) -> (DateTime, DateTime) {
    (DateTime::from(start), DateTime::from(end))
}

fn numbers(values: &[DataValue]) -> Vec<f64> {
    values.iter().filter_map(|value| value.value.as_ref().and_then(Variant::as_f64)).collect()
}

fn status<T>(outcome: Result<T, ClientError>) -> Option<StatusCode> {
    match outcome.err()? {
        ClientError::Call(CallError::Service(status)) => Some(status),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn history_is_read_and_changed() {
    let all = Rights::READ_HISTORY | Rights::INSERT_HISTORY | Rights::MODIFY_HISTORY | Rights::DELETE_HISTORY;
    let plant = Plant::start(Rights::BROWSE | Rights::READ | all, 3_600).await;
    keep(&plant).await;
    let client = Client::connect(plant.options(Login::Token)).await.unwrap();
    let speed = id("Speed");
    let values = client.history(&speed, between(20, 50), 100).await.unwrap();
    assert_eq!(numbers(&values), [200.0, 300.0, 400.0]);
    let back = client.history(&speed, between(50, 20), 2).await.unwrap();
    assert_eq!(numbers(&back), [500.0, 400.0], "backward, and no more than was asked for");
    let average = NodeId::new(0, 2342);
    let averages = client.aggregated(&speed, average, between(10, 50), 0.002, 10).await.unwrap();
    assert_eq!(numbers(&averages), [150.0, 350.0], "two microseconds each");
    let new = vec![value(15, 1.0), value(20, 2.0)];
    let told = client.update_history(&speed, PerformUpdateType::Update, new).await.unwrap();
    assert_eq!(told, [StatusCode::GoodEntryInserted, StatusCode::GoodEntryReplaced]);
    client.delete_history(&speed, between(30, 100)).await.unwrap();
    let left = client.history(&speed, between(1, 101), 100).await.unwrap();
    assert_eq!(numbers(&left), [100.0, 1.0, 2.0, 1_000.0]);
    assert_eq!(status(client.delete_history(&speed, between(30, 40)).await), Some(StatusCode::BadNoData));
    let changed = client.modified_history(&speed, between(1, 31), 100).await.unwrap();
    let told = changed.iter().map(|(value, info)| {
        (value.value.as_ref().and_then(Variant::as_f64), info.update_type, info.user_name.to_string())
    });
    let by = |number, what| (Some(number), what, "tester".to_owned());
    use HistoryUpdateType as What;
    let expected = [by(1.0, What::Insert), by(200.0, What::Update), by(300.0, What::Delete)];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    client.close().await;
}

#[tokio::test]
async fn who_may_not_read_history_is_told_so() {
    let plant = Plant::start(Rights::BROWSE | Rights::READ, 3_600).await;
    keep(&plant).await;
    let client = Client::connect(plant.options(Login::Token)).await.unwrap();
    let denied = Some(StatusCode::BadUserAccessDenied);
    assert_eq!(status(client.history(&id("Speed"), between(1, 50), 9).await), denied);
    let speed = id("Speed");
    let write = client.update_history(&speed, PerformUpdateType::Insert, vec![value(15, 1.0)]);
    assert_eq!(status(write.await), denied);
    client.close().await;
}
