//! Changes of accounts: recorded, and what ends with an account ends at once.

use access_model::Reason;
use hyper::StatusCode;
use serde_json::json;
use store::CheckpointKey;

use super::opcua::Face;
use super::world::*;
use crate::{AccountChange, Books, IMPLICIT};

async fn refresh(world: &World, secret: &serde_json::Value) -> StatusCode {
    let form = [("grant_type", "refresh_token"), ("refresh_token", secret.as_str().unwrap())];
    world.token(Some(&world.hmi), &form).await.0
}

#[tokio::test]
async fn a_closed_account_takes_its_tokens_with_it() {
    for (method, path, sentence) in [
        ("POST", "/admin/v1/users/olga/disable", "the account was disabled"),
        ("DELETE", "/admin/v1/users/olga", "the account was removed"),
    ] {
        let world = World::new().await;
        let (olga, sasha) = (world.olga().await.1, world.person("sasha", SECRET, MIXER).await.1);
        let id = world.verify(&olga["access_token"], MIXER).await.unwrap().id.clone();
        let mut gate = world.authority.updates(MIXER).unwrap();
        gate.next().await.unwrap();
        let (status, body) = world.ask(Some(&world.admin), method, path, Body::None).await;
        assert_eq!((status, &body["revoked"]), (StatusCode::OK, &json!(1)), "{path}: {body}");
        // The first frame that is no heartbeat.
        let update = loop {
            let frame = gate.next().await.unwrap();
            let update = token::control::open(&frame, &[world.authority.issuer()], MIXER).unwrap().into_inner();
            if update.previous != Some(update.epoch) {
                break update;
            }
        };
        assert_eq!(update.revoked.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), [id.as_str()], "{path}");
        assert_eq!(refresh(&world, &olga["refresh_token"]).await, StatusCode::BAD_REQUEST, "{path}");
        assert_eq!(world.olga().await.0, StatusCode::BAD_REQUEST, "{path}: no password fits any more");
        assert_eq!(refresh(&world, &sasha["refresh_token"]).await, StatusCode::OK, "{path}: others go on");
        assert!(world.audited("account_changed", "allowed", sentence).await, "{path}");
        assert!(world.audited("token_revoked", "allowed", &id).await, "{path}");
        let by = |one: &store::Entry| one.kind == "account_changed" && one.actor == ADMIN && one.object == "olga";
        assert!(world.audit().await.iter().any(by), "{path}: by whom, to whom");
    }
}

#[tokio::test]
async fn a_session_of_a_closed_account_asks_for_nothing_more() {
    for change in [AccountChange::Disable { name: "olga".into() }, AccountChange::Remove { name: "olga".into() }] {
        let world = World::new().await;
        let face = Face::new(&world);
        let id = face.start(face.caller(), MIXER, IMPLICIT).await.unwrap();
        world.authority.change_account(change.clone(), &by()).await.unwrap();
        let finished = face.finish(face.caller(), &id, &[], opcua_types::Variant::Empty).await;
        assert_eq!(finished, Err(opcua_types::StatusCode::BadIdentityTokenRejected), "{change:?}");
    }
}

#[tokio::test]
async fn passwords_and_certificates_are_set_by_administrators_and_recorded() {
    let world = World::new().await;
    let admin = Some(&world.admin);
    let password = |password: &str| Body::Json(json!({ "password": password }));
    let path = "/admin/v1/users/olga/password";
    assert_eq!(world.ask(Some(&world.hmi), "PUT", path, password("another password")).await.0, StatusCode::FORBIDDEN);
    assert_eq!(world.ask(admin, "PUT", path, password("short")).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(world.ask(admin, "PUT", path, password("another password")).await.0, StatusCode::OK);
    assert_eq!(world.olga().await.0, StatusCode::BAD_REQUEST);
    assert_eq!(world.person("olga", "another password", MIXER).await.0, StatusCode::OK);
    let certify = async |name: &str, thumbprint: &str| {
        let path = format!("/admin/v1/users/{name}/certificates");
        world.ask(admin, "POST", &path, Body::Json(json!({ "thumbprint": thumbprint }))).await.0
    };
    let thumbprint = world.stranger.thumbprint.to_string();
    assert_eq!(certify("olga", "nonsense").await, StatusCode::BAD_REQUEST);
    assert_eq!(certify("olga", &thumbprint).await, StatusCode::OK);
    assert_eq!(certify("sasha", &thumbprint).await, StatusCode::CONFLICT, "it is olga's");
    assert_eq!(world.ask(admin, "DELETE", "/admin/v1/users/nobody", Body::None).await.0, StatusCode::NOT_FOUND);
    assert!(world.audited("account_changed", "allowed", "a password was set").await);
    assert!(world.audited("account_changed", "allowed", &thumbprint).await);
    assert!(!format!("{:?}", world.audit().await).contains("another password"));
}

#[tokio::test]
async fn accounts_change_with_a_record_only_and_close_in_any_case() {
    let world = World::new().await;
    world.olga().await;
    world.ledger.close().await;
    let hash = Some("$argon2id$of nothing".to_owned());
    for (rule, change) in [
        ("password", AccountChange::Password { name: "olga".into(), hash: "x".into() }),
        ("certificate", AccountChange::Certificate { name: "olga".into(), thumbprint: world.stranger.thumbprint }),
        ("removal", AccountChange::Remove { name: "olga".into() }),
        ("secret", AccountChange::ClientSecret { uri: CONTROLLER.into(), hash, in_plant: true }),
    ] {
        let before = (world.authority.db().users().await.unwrap(), world.authority.db().applications().await.unwrap());
        world.authority.change_account(change, &by()).await.expect_err(rule);
        let after = (world.authority.db().users().await.unwrap(), world.authority.db().applications().await.unwrap());
        assert_eq!(before, after, "{rule}");
    }
    assert_eq!(world.authority.live().grants.len(), 1);
    let disable = AccountChange::Disable { name: "olga".into() };
    world.authority.change_account(disable, &by()).await.expect_err("the asker is told that there is no record");
    assert!(!world.authority.db().user("olga").await.unwrap().unwrap().enabled);
    assert_eq!(world.authority.live().grants.len(), 0);
}

#[tokio::test]
async fn a_client_secret_is_told_once_and_the_next_one_replaces_it() {
    let world = World::new().await;
    let path = format!("/admin/v1/applications/{CONTROLLER}/secret");
    let set = async || {
        let (status, body) = world.ask(Some(&world.admin), "PUT", &path, Body::None).await;
        assert_eq!((status, &body["client_id"]), (StatusCode::OK, &json!(CONTROLLER)), "{body}");
        body["client_secret"].as_str().unwrap().to_owned()
    };
    let ask = async |secret: &str| {
        let id = [("client_id", CONTROLLER), ("client_secret", secret)];
        let form = [&[("grant_type", "client_credentials"), ("audience", REACTOR)][..], &id].concat();
        world.token(None, &form).await
    };
    assert_eq!(ask("guessed").await.0, StatusCode::UNAUTHORIZED);
    let first = set().await;
    let (status, body) = ask(&first).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let claims = world.verify(&body["access_token"], REACTOR).await.unwrap();
    assert_eq!(claims.confirmation, Some(world.controller.thumbprint), "bound to the registered certificate");
    let second = set().await;
    assert_eq!(ask(&first).await.0, StatusCode::UNAUTHORIZED, "replaced");
    assert_eq!(ask(&second).await.0, StatusCode::OK);
    assert_eq!(world.ask(Some(&world.admin), "DELETE", &path, Body::None).await.0, StatusCode::OK);
    assert_eq!(ask(&second).await.0, StatusCode::UNAUTHORIZED, "removed");
    let nobody = "/admin/v1/applications/urn:nobody/secret";
    assert_eq!(world.ask(Some(&world.admin), "PUT", nobody, Body::None).await.0, StatusCode::NOT_FOUND);
    let row = world.authority.db().application(CONTROLLER).await.unwrap().unwrap();
    assert_eq!(row.certificates, [world.controller.thumbprint], "nothing else of it changed");
    let audit = format!("{:?}", world.audit().await);
    assert!(audit.contains("a client secret was set") && !audit.contains(&first) && !audit.contains(&second));
}

#[tokio::test]
async fn while_no_authority_runs_tokens_end_in_the_journal() {
    let world = World::new().await;
    let olga = world.olga().await.1;
    let id = world.verify(&olga["access_token"], MIXER).await.unwrap().id.clone();
    let folder = tempfile::tempdir().unwrap();
    let key = CheckpointKey::generate(store::KeyKind::Ed25519).unwrap();
    let ledger = store::Ledger::open(folder.path(), store::LedgerConfig::default(), key).unwrap();
    let now = world.authority.now().unix;
    let books = Books { db: world.authority.db().clone(), ledger: ledger.clone(), audit_required: true, now };
    let changed = books.change(&AccountChange::Disable { name: "olga".into() }, &by()).await.unwrap();
    assert_eq!(books.conclude(changed, &by()).await.unwrap(), 1);
    ledger.close().await;
    let kinds: Vec<String> = store::tail(folder.path(), 100).unwrap().into_iter().map(|one| one.kind).collect();
    assert!(kinds.contains(&"account_changed".to_owned()) && kinds.contains(&"token_revoked".to_owned()), "{kinds:?}");
    assert!(world.authority.db().token(&id).await.unwrap().unwrap().revoked.is_some());
    let refused = world.authority.person_by_password("olga", SECRET, "10.0.0.1").await.unwrap_err();
    assert_eq!(refused.reason, Reason::UserCredentials);
}
