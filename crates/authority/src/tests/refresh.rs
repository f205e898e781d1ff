//! Refreshing while something ends: whatever ends first, wins. Each test stops the refresh at one place, lets the other
//! thing happen, and goes on.

use std::sync::atomic::Ordering;

use access_model::{Reason, Refusal};
use hyper::StatusCode;
use serde_json::Value;
use store::{Application, User};

use super::world::*;
use crate::issue::Accounts;
use crate::refresh::hash;
use crate::{Flow, Issued, Refreshing, TokenRequest};

/// Olga's token, its refresh token taken, and the request that goes on from there.
struct Underway {
    world: World,
    first: String,
    request: TokenRequest,
}

impl Underway {
    async fn new() -> Self {
        let world = World::new().await;
        let first = world.olga().await.1;
        let secret = first["refresh_token"].as_str().unwrap();
        let now = world.authority.now().unix;
        let taken = world.authority.db().take_refresh(&hash(secret), now).await.unwrap().unwrap();
        let id = world.verify(&first["access_token"], MIXER).await.unwrap().id.clone();
        let request = TokenRequest {
            flow: Flow::Refresh,
            person: taken.principal.person.clone(),
            application: HMI.into(),
            confirmation: world.hmi.thumbprint,
            audience: MIXER.into(),
            roles: None,
            break_glass: None,
            padding: 0,
            refresh: Refreshing::In { family: taken.family, ends: taken.ends, way: None },
            address: None,
        };
        Self { world, first: id, request }
    }

    /// Goes on after the accounts were looked at.
    async fn go_on(&self) -> Result<Issued, Refusal> {
        let accounts = Accounts { person: true, application: true };
        let id = format!("{}.next", self.first);
        self.world.authority.decide_and_mint(&self.request, accounts, &id, None).await.map(Option::unwrap)
    }

    async fn put_olga(&self, change: impl FnOnce(&mut User)) {
        let mut olga = self.world.authority.db().user("olga").await.unwrap().unwrap();
        change(&mut olga);
        self.world.authority.db().put_user(&olga).await.unwrap();
    }
}

#[tokio::test]
async fn a_refresh_that_nothing_overtakes_gives_a_token() {
    let underway = Underway::new().await;
    let issued = underway.go_on().await.unwrap();
    assert!(issued.refresh.is_some());
    assert!(underway.world.authority.live().grants.contains_key(&issued.id));
}

#[tokio::test]
async fn a_refresh_under_way_does_not_win_over_what_ends_meanwhile() {
    for (rule, what, reason) in [
        ("the token is revoked", 0, Reason::UserCredentials),
        ("the person is locked", 1, Reason::UserCredentials),
        ("the person is removed", 2, Reason::UserCredentials),
        ("the password is another", 3, Reason::UserCredentials),
        ("the application is locked", 4, Reason::UnknownClient),
        ("the application is removed", 5, Reason::UnknownClient),
        ("the line is cut", 6, Reason::UserCredentials),
    ] {
        let underway = Underway::new().await;
        let authority = &underway.world.authority;
        let db = authority.db();
        match what {
            0 => assert_eq!(authority.revoke(&underway.first, &by(), "lost").await.unwrap(), Some(true)),
            1 => underway.put_olga(|olga| olga.enabled = false).await,
            2 => assert!(db.remove_user("olga").await.unwrap()),
            3 => underway.put_olga(|olga| olga.password_hash = None).await,
            4 => {
                let hmi = db.application(HMI).await.unwrap().unwrap();
                db.put_application(&Application { enabled: false, ..hmi }).await.unwrap();
            }
            5 => assert!(db.remove_application(HMI).await.unwrap()),
            _ => assert_eq!(db.remove_refresh_family(&underway.first).await.unwrap(), 0),
        }
        let refused = underway.go_on().await.err().unwrap_or_else(|| panic!("{rule}"));
        assert_eq!(refused.reason, reason, "{rule}: {refused}");
        let id = format!("{}.next", underway.first);
        assert!(!authority.live().grants.contains_key(&id), "{rule}: no grant lives");
        assert_eq!(db.token(&id).await.unwrap(), None, "{rule}: nothing is written");
    }
}

#[tokio::test]
async fn a_revocation_takes_what_was_refreshed_with_it() {
    let underway = Underway::new().await;
    let next = underway.go_on().await.unwrap();
    let authority = &underway.world.authority;
    assert_eq!(authority.revoke(&underway.first, &by(), "lost").await.unwrap(), Some(true));
    assert!(authority.live().grants.is_empty(), "{:?}", next.id);
    assert!(authority.db().token(&next.id).await.unwrap().unwrap().revoked.is_some());
    assert!(underway.world.audited("token_revoked", "allowed", &next.id).await);
}

#[tokio::test]
async fn a_line_ends_however_often_it_is_refreshed() {
    let world = World::with(|config| config.refresh_line = std::time::Duration::from_secs(3 * 3_600)).await;
    let mut body = world.olga().await.1;
    assert_eq!(body["refresh_expires_in"], 3 * 3_600, "never beyond the end of the line");
    let refresh = async |body: &Value| {
        let secret = body["refresh_token"].as_str().unwrap();
        world.token(Some(&world.hmi), &[("grant_type", "refresh_token"), ("refresh_token", secret)]).await
    };
    for hour in 1..3 {
        world.seconds.fetch_add(3_600, Ordering::SeqCst);
        let (status, next) = refresh(&body).await;
        assert_eq!(status, StatusCode::OK, "{next}");
        assert_eq!(next["refresh_expires_in"], (3 - hour) * 3_600);
        body = next;
    }
    world.seconds.fetch_add(3_600, Ordering::SeqCst);
    assert_eq!(refresh(&body).await.0, StatusCode::BAD_REQUEST);
}

/// It is not told as if policies granted nothing: a guard that observes would let its bearer in.
#[tokio::test]
async fn what_is_withdrawn_while_it_is_issued_is_told_as_revoked() {
    let underway = Underway::new().await;
    let authority = &underway.world.authority;
    let issued = underway.go_on().await.unwrap();
    let minted = authority.live().grants.remove(&issued.id).unwrap();
    let refusal = authority.catch_up(&minted, &issued.id).await.unwrap_err();
    assert_eq!(refusal.reason, Reason::TokenRevoked);
}
