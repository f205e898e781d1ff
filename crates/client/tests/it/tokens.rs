//! The life of an access token, seen from the client, against real servers on the loopback.

use std::sync::atomic::Ordering;
use std::time::Duration;

use access_model::{Rights, Thumbprint};
use client::{CallError, Client, ClientError, KnownAuthority, Login, TokenError, WatchOptions};
use opcua_types::{DataValue, StatusCode, Variant};
use tokio::time::timeout;

use crate::support::{PATIENCE, Plant, id};

fn read_only() -> Rights {
    Rights::BROWSE | Rights::READ
}

fn number(value: &DataValue) -> Result<f64, StatusCode> {
    match &value.value {
        Some(Variant::Double(number)) => Ok(*number),
        _ => Err(value.status()),
    }
}

#[tokio::test]
async fn the_client_finds_out_that_a_token_is_needed_and_gets_it() {
    let plant = Plant::start(read_only(), 3_600).await;
    let client = Client::connect(plant.options(Login::Automatic)).await.unwrap();
    assert_eq!(number(&client.read(&[id("Speed")]).await.unwrap()[0]), Ok(1.0));
    assert_eq!(plant.policy.issued.load(Ordering::Relaxed), 1);
    let objects = opcua_types::ObjectId::ObjectsFolder.into();
    assert_eq!(client.translate(&objects, "1:Speed").await.unwrap(), Some(id("Speed")));
    let names: Vec<String> =
        client.browse(&objects).await.unwrap().iter().map(|found| found.browse_name.name.to_string()).collect();
    assert!(names.contains(&"Level".to_owned()), "{names:?}");
    client.close().await;
}

#[tokio::test]
async fn a_denied_write_is_tried_once_more_with_a_fresh_token() {
    let plant = Plant::start(read_only(), 3_600).await;
    let client = Client::connect(plant.options(Login::Token)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    *plant.policy.rights.lock().unwrap() = Rights::ALL;
    assert_eq!(client.write(vec![(id("Speed"), 9.0.into())]).await.unwrap(), [StatusCode::Good]);
    assert_eq!(client.token_generation(), 2);
    assert_eq!(number(&client.read(&[id("Speed")]).await.unwrap()[0]), Ok(9.0));
}

#[tokio::test]
async fn a_denial_that_stays_is_passed_on_after_one_more_try() {
    let plant = Plant::start(read_only(), 3_600).await;
    let client = Client::connect(plant.options(Login::Token)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mixed = vec![(id("Speed"), 9.0.into()), (id("Nothing"), 9.0.into())];
    let results = client.write(mixed).await.unwrap();
    assert_eq!(results, [StatusCode::BadUserAccessDenied, StatusCode::BadNodeIdUnknown]);
    assert_eq!(plant.policy.issued.load(Ordering::Relaxed), 2);
}

/// Lives of tokens in seconds, of which a fifth is left at the renewal: a computer that stands still for longer than that
/// renews too late, and is given more the next time.
const LIVES: [u64; 3] = [5, 25, 150];

#[tokio::test]
async fn renewal_goes_unnoticed_by_reads_and_watches() {
    let mut noticed = Vec::new();
    for life in LIVES {
        match renewed_unnoticed(life).await {
            Ok(()) => return,
            Err(what) => noticed.push((life, what)),
        }
    }
    panic!("{noticed:?}");
}

async fn renewed_unnoticed(life: u64) -> Result<(), String> {
    let plant = Plant::start(read_only(), life).await;
    let client = Client::connect(plant.options(Login::Token)).await.map_err(|error| error.to_string())?;
    let mut watch = client.watch(&[id("Level")], WatchOptions::default()).await.map_err(|error| error.to_string())?;
    let mut sent = 1.0;
    let watched = |value: &DataValue, sent| {
        let seen = number(value);
        if seen == Ok(sent) { Ok(()) } else { Err(format!("{seen:?} in place of {sent}")) }
    };
    watched(&watch.next().await.unwrap().value, sent)?;
    while client.token_generation() < 2 {
        sent += 1.0;
        plant.set("Level", sent.into()).await;
        watched(&timeout(PATIENCE, watch.next()).await.unwrap().unwrap().value, sent)?;
        let read = client.read(&[id("Level")]).await.map_err(|error| error.to_string())?;
        watched(&read[0], sent)?;
    }
    // A read that is denied fetches a token by itself: the session that goes on, and one token a life, say that none was.
    assert_eq!(client.session_count(), 1);
    let issued = plant.policy.issued.load(Ordering::Relaxed);
    if issued == 2 { Ok(()) } else { Err(format!("{issued} tokens")) }
}

#[tokio::test]
async fn an_authority_that_was_restarted_is_asked_again() {
    let mut plant = Plant::start(read_only(), 3_600).await;
    let client = Client::connect(plant.options(Login::Token)).await.unwrap();
    plant.restart_authority().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    client.renew().await.unwrap();
    assert_eq!(client.token_generation(), 2);
}

#[tokio::test]
async fn watches_go_on_after_the_server_was_restarted() {
    let mut plant = Plant::start(read_only(), 3_600).await;
    let client = Client::connect(plant.options(Login::Token)).await.unwrap();
    let mut watch = client.watch(&[id("Level")], WatchOptions::default()).await.unwrap();
    assert_eq!(number(&watch.next().await.unwrap().value), Ok(1.0));
    plant.restart_mixer().await;
    plant.set("Level", 5.0.into()).await;
    let seen = async {
        loop {
            if number(&watch.next().await.unwrap().value) == Ok(5.0) {
                return;
            }
        }
    };
    timeout(PATIENCE, seen).await.unwrap();
    assert_eq!(client.session_count(), 2);
    assert_eq!(number(&client.read(&[id("Level")]).await.unwrap()[0]), Ok(5.0));
}

#[tokio::test]
async fn refusals_say_who_refused() {
    let plant = Plant::start(read_only(), 3_600).await;
    *plant.policy.refuse.lock().unwrap() = Some(StatusCode::BadUserAccessDenied);
    let refused = Client::connect(plant.options(Login::Token)).await.err().unwrap();
    assert!(matches!(refused, ClientError::Token(TokenError::Refused { .. })), "{refused}");
    *plant.policy.refuse.lock().unwrap() = None;
    *plant.policy.audience.lock().unwrap() = "urn:test:another".into();
    let refused = Client::connect(plant.options(Login::Token)).await.err().unwrap();
    assert!(matches!(refused, ClientError::Refused(_)), "{refused}");
    let nobody = Client::connect(plant.options(Login::Anonymous)).await.err().unwrap();
    assert!(matches!(nobody, ClientError::Endpoint(_)), "{nobody}");
}

#[tokio::test]
async fn a_client_that_was_closed_says_so() {
    let plant = Plant::start(read_only(), 3_600).await;
    let client = Client::connect(plant.options(Login::Token)).await.unwrap();
    let again = client.clone();
    client.close().await;
    let error = again.read(&[id("Speed")]).await.err().unwrap();
    assert!(matches!(error, ClientError::Call(CallError::Closed)), "{error}");
}

/// The name says where the secret would go; the authority here is one that the trust list covers.
#[tokio::test]
async fn a_password_goes_to_known_authorities_only() {
    let plant = Plant::start(read_only(), 3_600).await;
    let url = format!("opc.tcp://{}", plant.authority.address());
    let right = plant.authority_thumbprint();
    for (rule, known, told) in [
        ("nobody is known", vec![], false),
        ("another is known", vec![KnownAuthority::Url("opc.tcp://elsewhere:4840".into())], false),
        ("another certificate", vec![KnownAuthority::Certificate(Thumbprint([0; 32]))], false),
        ("another application", vec![KnownAuthority::Application("urn:test:mixer".into())], false),
        ("its url", vec![KnownAuthority::Url(url.clone())], true),
        ("its certificate", vec![KnownAuthority::Certificate(right)], true),
        ("its uri", vec![KnownAuthority::Application("urn:test:authority".into())], true),
    ] {
        let before = plant.policy.passwords.load(Ordering::Relaxed);
        let mut options = plant.options(Login::Token);
        options.authority.login = Login::UserName { name: "operator".into(), password: "secret".to_owned().into() };
        options.authority.known = known;
        match Client::connect(options).await {
            Ok(client) => client.close().await,
            Err(error) => {
                assert!(matches!(error, ClientError::Token(TokenError::UnknownAuthority(_))), "{rule}: {error}")
            }
        }
        assert_eq!(plant.policy.passwords.load(Ordering::Relaxed) > before, told, "{rule}");
    }
}

/// P0, first optimisation: the session with the authority stays, so that a token costs one exchange and no log-in.
#[tokio::test]
async fn one_session_at_the_authority_gives_every_token() {
    let plant = Plant::start(read_only(), 3_600).await;
    let mut options = plant.options(Login::Token);
    options.authority.login = Login::UserName { name: "operator".into(), password: "secret".to_owned().into() };
    options.authority.known = vec![KnownAuthority::Certificate(plant.authority_thumbprint())];
    let client = Client::connect(options).await.unwrap();
    for generation in 2..=4 {
        while client.token_generation() < generation {
            match client.renew().await {
                Ok(()) => {}
                Err(ClientError::Token(TokenError::AlreadyFresh)) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert_eq!(plant.policy.issued.load(Ordering::Relaxed), 4);
    assert_eq!(plant.policy.passwords.load(Ordering::Relaxed), 1, "log-ins at the authority");
    assert_eq!(client.session_count(), 1);
    client.close().await;
}
