//! The client against our own authority, both real: every way to a token, and refreshing instead of asking again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use client::{Client, ClientError, ClientOptions, Login, TokenError};

use crate::support::{CLIENT, id};
use crate::world::{World, password};

/// Connects, reads, and says how the token was asked for.
async fn way(world: &World, options: ClientOptions) -> Result<(String, String), ClientError> {
    let client = Client::connect(options).await?;
    assert!(client.read(&[id("Speed")]).await.unwrap()[0].value.is_some());
    client.close().await;
    Ok(world.flows().await.into_iter().next().unwrap())
}

fn of(flow: &str, who: &str) -> (String, String) {
    (flow.to_owned(), who.to_owned())
}

#[tokio::test]
async fn every_way_leads_to_a_token_that_the_server_takes() {
    let world = World::new().await;
    let certificate = || Login::Certificate(Arc::clone(&world.olga));
    for (rule, options, want) in [
        ("implicit, nobody", world.options(Login::Anonymous), of("request_token", CLIENT)),
        ("implicit, a password", world.options(password()), of("request_token", "olga")),
        ("explicit, a password", world.explicit(password()), of("request_token", "olga")),
        ("explicit, a user certificate", world.explicit(certificate()), of("request_token", "olga")),
        ("sessions take no such thing: explicit", world.options(certificate()), of("request_token", "olga")),
        ("explicit, a token", world.explicit(world.vouched()), of("request_token", "olga")),
        ("https, client credentials", world.https(Login::Anonymous), of("client_credentials", CLIENT)),
        ("https, a password", world.https(password()), of("exchange", "olga")),
        ("https, a token", world.https(world.vouched()), of("exchange", "olga")),
    ] {
        assert_eq!(way(&world, options).await.unwrap_or_else(|error| panic!("{rule}: {error}")), want, "{rule}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let wrong = Login::UserName { name: "olga".into(), password: "wrong".to_owned().into() };
    for (rule, options) in [("explicit", world.explicit(wrong.clone())), ("https", world.https(wrong))] {
        let refused = way(&world, options).await.unwrap_err();
        assert!(matches!(refused, ClientError::Token(TokenError::Refused { .. })), "{rule}: {refused}");
    }
    assert!(world.folder.path().exists());
}

#[tokio::test]
async fn a_token_is_refreshed_without_the_password() {
    let world = World::new().await;
    for (rule, options) in [("https", world.https(password())), ("explicit", world.explicit(password()))] {
        let client = Client::connect(options).await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        client.renew().await.unwrap();
        assert_eq!(world.flows().await.first(), Some(&of("refresh", "olga")), "{rule}");
        tokio::time::sleep(Duration::from_millis(300)).await;
        client.renew().await.unwrap();
        assert_eq!(world.flows().await.iter().filter(|(flow, _)| flow == "refresh").count() % 2, 0, "{rule}");
        client.close().await;
    }
    assert_eq!(world.passwords.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_line_that_was_cut_makes_the_client_ask_again() {
    let world = World::new().await;
    let client = Client::connect(world.https(password())).await.unwrap();
    let newest = world.authority.db().tokens(&store::TokenFilter::default()).await.unwrap().remove(0);
    world.authority.db().remove_refresh_family(&newest.id).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    client.renew().await.unwrap();
    assert_eq!(world.flows().await.first(), Some(&of("exchange", "olga")));
    world.lock_out_olga().await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    let refused = client.renew().await.unwrap_err();
    assert!(matches!(refused, ClientError::Token(TokenError::Refused { .. })), "{refused}");
}
