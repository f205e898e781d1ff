//! Events of a server, as its clients see them.

use access_model::Rights;
use client::{CallError, Client, ClientError, EventOptions, EventWatch, Login};
use opcua_types::{DateTime, ObjectId, StatusCode, Variant};
use tokio::time::timeout;
use ua_proto::event::NewEvent;
use ua_proto::server::{Input, Server};
use ua_proto::space::ns0;

use crate::support::{PATIENCE, Plant, id};

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
async fn events_of_the_past_are_read_and_deleted() {
    let all = listener() | Rights::READ_HISTORY | Rights::DELETE_HISTORY;
    let plant = Plant::start(all, 3_600).await;
    let keep = |server: &mut Server, _| {
        server.space_mut().historize_events(ns0::SERVER, 100, true).unwrap();
    };
    plant.mixer.with(keep).await.unwrap();
    for message in ["one", "two", "three"] {
        raise(&plant, message).await;
    }
    let client = Client::connect(plant.options(Login::Token)).await.unwrap();
    let server = ObjectId::Server.into();
    let always = (DateTime::from(1), DateTime::endtimes());
    let fields = ["Message", "Severity", "EventId"].map(str::to_owned);
    let events = client.past_events(&server, &fields, always, 100).await.unwrap();
    let messages = |events: &[Vec<Variant>]| {
        let text = |event: &Vec<Variant>| match &event[0] {
            Variant::LocalizedText(text) => text.text.to_string(),
            other => panic!("{other:?}"),
        };
        events.iter().map(text).collect::<Vec<_>>()
    };
    assert_eq!(messages(&events), ["one", "two", "three"]);
    assert_eq!(events[0][1], Variant::from(300_u16));
    let back = client.past_events(&server, &fields, (always.1, always.0), 2).await.unwrap();
    assert_eq!(messages(&back), ["three", "two"], "backward, and no more than was asked for");
    let Variant::ByteString(first) = events[0][2].clone() else { panic!("{events:?}") };
    // What the Server object keeps is public: nobody is granted its deletion.
    let refused = client.delete_events(&server, vec![first]).await.err().unwrap();
    assert!(matches!(refused, ClientError::Call(CallError::Service(StatusCode::BadUserAccessDenied))), "{refused}");
    let wrong = client.past_events(&server, &["2:".to_owned()], always, 1).await.err().unwrap();
    assert!(matches!(wrong, ClientError::BrowsePath(_)), "{wrong}");
    let none = client.past_events(&id("Speed"), &fields, always, 1).await.err().unwrap();
    assert!(matches!(none, ClientError::Call(CallError::Service(status)) if status.is_bad()), "{none}");
    client.close().await;
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
