//! Events of a server, as its clients see them.

mod support;

use access_model::Rights;
use client::{CallError, Client, ClientError, EventOptions, EventWatch, Login};
use opcua_types::{ObjectId, StatusCode, Variant};
use support::{PATIENCE, Plant, id};
use tokio::time::timeout;
use ua_proto::event::NewEvent;
use ua_proto::server::{Input, Server};
use ua_proto::space::ns0;

fn listener() -> Rights {
    Rights::BROWSE | Rights::READ | Rights::RECEIVE_EVENTS
}

async fn raise(plant: &Plant, message: &'static str) {
    let raise = move |server: &mut Server, now| {
        let source = server.space().find(&id("Speed")).unwrap();
        let event_type = ns0::BASE_EVENT_TYPE;
        let event = NewEvent {
            event_type,
            source,
            severity: 300,
            message: message.into(),
            fields: Vec::new(),
            values: Vec::new(),
        };
        server.handle_input(Input::Event(event), now);
    };
    plant.mixer.with(raise).await.unwrap();
}

async fn next(watch: &mut EventWatch) -> Vec<String> {
    let event = timeout(PATIENCE, watch.next()).await.unwrap().unwrap();
    let text = |field: Variant| match field {
        Variant::LocalizedText(text) => text.text.to_string(),
        other => other.to_string(),
    };
    event.into_iter().map(text).collect()
}

#[tokio::test]
async fn what_happens_is_told_with_the_fields_that_were_asked_for() {
    let plant = Plant::start(listener(), 3_600).await;
    let client = Client::connect(plant.options(Login::Token)).await.unwrap();
    let fields = ["Message", "Severity", "SourceName", "NoSuchField"].map(str::to_owned).to_vec();
    let options = EventOptions { fields, ..EventOptions::default() };
    let mut watch = client.watch_events(&ObjectId::Server.into(), options).await.unwrap();
    for message in ["the first", "the second"] {
        raise(&plant, message).await;
        let event = next(&mut watch).await;
        assert_eq!(event[..3], [message, "300", "Speed"]);
        assert_eq!(event.len(), 4, "a field that it has not is empty: {event:?}");
    }
    let wrong = EventOptions { fields: vec!["2:".into()], ..EventOptions::default() };
    let refused = client.watch_events(&ObjectId::Server.into(), wrong).await.err().unwrap();
    assert!(matches!(refused, ClientError::BrowsePath(_)), "{refused}");
    let refused = client.watch_events(&id("Speed"), EventOptions::default()).await.err().unwrap();
    assert!(matches!(refused, ClientError::Call(CallError::Service(status)) if status.is_bad()), "{refused}");
}

#[tokio::test]
async fn events_go_on_after_the_server_was_restarted() {
    let mut plant = Plant::start(listener(), 3_600).await;
    let client = Client::connect(plant.options(Login::Token)).await.unwrap();
    let mut watch = client.watch_events(&ObjectId::Server.into(), EventOptions::default()).await.unwrap();
    raise(&plant, "before").await;
    assert_eq!(next(&mut watch).await[3], "before");
    plant.restart_mixer().await;
    // What happens before the client is back is lost.
    let mut heard = None;
    while heard.is_none() {
        raise(&plant, "after").await;
        heard = timeout(std::time::Duration::from_millis(500), watch.next()).await.ok();
    }
    assert_eq!(client.session_count(), 2);
}

#[tokio::test]
async fn who_may_not_receive_events_hears_of_none() {
    let plant = Plant::start(Rights::BROWSE | Rights::READ, 3_600).await;
    let client = Client::connect(plant.options(Login::Token)).await.unwrap();
    match client.watch_events(&ObjectId::Server.into(), EventOptions::default()).await {
        Err(ClientError::Call(CallError::Service(status))) => assert_eq!(status, StatusCode::BadUserAccessDenied),
        Err(other) => panic!("{other}"),
        Ok(mut watch) => {
            raise(&plant, "not for everybody").await;
            // Whatever was on its way is there before the answer to the next request but one.
            for _ in 0..20 {
                client.read(&[id("Speed")]).await.unwrap();
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            assert!(timeout(std::time::Duration::ZERO, watch.next()).await.is_err(), "nothing is told");
        }
    }
}
