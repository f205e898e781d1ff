//! What is watched is denied: a fresh token brings it back, or policy has decided and the client leaves it at that.

use std::sync::atomic::Ordering;
use std::time::Duration;

use access_model::Rights;
use client::{Client, Login, Watch, WatchOptions};
use opcua_types::{StatusCode, Variant};
use tokio::time::timeout;

use crate::support::{PATIENCE, Plant, id};

const DENIED: Result<f64, StatusCode> = Err(StatusCode::BadUserAccessDenied);

fn read_only() -> Rights {
    Rights::BROWSE | Rights::READ
}

/// The next change of an item.
async fn next(watch: &mut Watch) -> (usize, Result<f64, StatusCode>) {
    let change = timeout(PATIENCE, watch.next()).await.unwrap().unwrap();
    let value = match &change.value.value {
        Some(Variant::Double(number)) => Ok(*number),
        _ => Err(change.value.status()),
    };
    (change.item, value)
}

/// Waits for the token of this number.
async fn token(client: &Client, number: u64) {
    let there = async {
        while client.token_generation() < number {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, there).await.unwrap();
}

/// The session as a whole is denied, Publish included.
#[tokio::test]
async fn a_watch_goes_on_with_a_fresh_token_after_a_revocation() {
    let plant = Plant::start(read_only(), 3_600).await;
    let client = Client::connect(plant.options(Login::Token)).await.unwrap();
    let mut watch = client.watch(&[id("Level")], WatchOptions::default()).await.unwrap();
    assert_eq!(next(&mut watch).await, (0, Ok(1.0)));
    for round in 1..=2_u32 {
        plant.take_away(u64::from(round) + 1, None).await;
        assert_eq!(next(&mut watch).await, (0, DENIED));
        let value = match next(&mut watch).await {
            (0, Ok(value)) => value,
            other => panic!("round {round}: {other:?}"),
        };
        plant.set("Level", (value + 1.0).into()).await;
        assert_eq!(next(&mut watch).await, (0, Ok(value + 1.0)));
        assert_eq!(plant.policy.issued.load(Ordering::Relaxed), round + 1, "one fresh token a revocation");
    }
    assert_eq!(client.session_count(), 1);
}

/// The fresh token is revoked before the value that it permits was reported: two denials in a row, of two tokens.
#[tokio::test]
async fn a_token_that_is_revoked_before_it_brought_anything_back_is_replaced_too() {
    let plant = Plant::start(read_only(), 3_600).await;
    let client = Client::connect(plant.options(Login::Token)).await.unwrap();
    let options = WatchOptions { publishing_interval: Duration::from_secs(2), ..WatchOptions::default() };
    let mut watch = client.watch(&[id("Level")], options).await.unwrap();
    assert_eq!(next(&mut watch).await, (0, Ok(1.0)));
    plant.take_away(2, None).await;
    token(&client, 2).await;
    plant.take_away(3, None).await;
    let mut last = next(&mut watch).await;
    while last != (0, Ok(1.0)) || client.token_generation() < 3 {
        assert!(last == (0, DENIED) || last == (0, Ok(1.0)), "{last:?}");
        last = next(&mut watch).await;
    }
}

/// Only some rights go, and the service goes on: the item alone tells.
#[tokio::test]
async fn an_item_that_is_denied_is_asked_for_once_and_comes_back_when_the_token_says_so() {
    let plant = Plant::start(read_only(), 3_600).await;
    let client = Client::connect(plant.options(Login::Token)).await.unwrap();
    let mut watch = client.watch(&[id("Level")], WatchOptions::default()).await.unwrap();
    assert_eq!(next(&mut watch).await, (0, Ok(1.0)));
    plant.take_away(2, Some(Rights::BROWSE)).await;
    assert_eq!(next(&mut watch).await, (0, DENIED));
    assert_eq!(next(&mut watch).await, (0, Ok(1.0)));
    assert_eq!((client.token_generation(), plant.policy.issued.load(Ordering::Relaxed)), (2, 2));
}

/// The fresh token says the same: nothing is asked again before there is something new.
#[tokio::test]
async fn a_denial_by_policy_costs_one_token() {
    let plant = Plant::start(Rights::BROWSE, 3_600).await;
    let client = Client::connect(plant.options(Login::Token)).await.unwrap();
    let options = WatchOptions { publishing_interval: Duration::from_millis(50), ..WatchOptions::default() };
    let mut watch = client.watch(&[id("Level"), id("Speed")], options).await.unwrap();
    let mut told = [next(&mut watch).await, next(&mut watch).await];
    told.sort_by_key(|(item, _)| *item);
    assert_eq!(told, [(0, DENIED), (1, DENIED)]);
    token(&client, 2).await;
    // Longer than the pause between two tokens.
    tokio::time::sleep(Duration::from_millis(2_600)).await;
    assert_eq!(plant.policy.issued.load(Ordering::Relaxed), 2, "one for the session, one for the denial");
    *plant.policy.rights.lock().unwrap() = read_only();
    client.renew().await.unwrap();
    let mut told = [next(&mut watch).await, next(&mut watch).await];
    told.sort_by_key(|(item, _)| *item);
    assert_eq!(told, [(0, Ok(1.0)), (1, Ok(1.0))]);
    assert_eq!(plant.policy.issued.load(Ordering::Relaxed), 3);
}

/// The item was denied before and says nothing more: that Publish is refused now is all there is to see.
#[tokio::test]
async fn a_session_that_is_denied_as_a_whole_gets_a_fresh_token() {
    let plant = Plant::start(Rights::BROWSE, 3_600).await;
    let client = Client::connect(plant.options(Login::Token)).await.unwrap();
    let options = WatchOptions { publishing_interval: Duration::from_millis(50), ..WatchOptions::default() };
    let mut watch = client.watch(&[id("Level")], options).await.unwrap();
    assert_eq!(next(&mut watch).await, (0, DENIED));
    token(&client, 2).await;
    *plant.policy.rights.lock().unwrap() = read_only();
    plant.take_away(2, None).await;
    assert_eq!(next(&mut watch).await, (0, Ok(1.0)));
    assert_eq!((client.token_generation(), plant.policy.issued.load(Ordering::Relaxed)), (3, 3));
}
