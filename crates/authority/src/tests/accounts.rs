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
        let update = told(&world, &mut gate).await;
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
async fn a_disabled_application_gets_no_token_by_any_way_and_loses_those_it_has() {
    let world = World::new().await;
    let (olga, sasha) = (world.olga().await.1, world.person("sasha", SECRET, MIXER).await.1);
    let own = [("grant_type", "client_credentials"), ("audience", REACTOR)];
    let controller = world.token(Some(&world.controller), &own).await.1;
    let ids = [&olga, &sasha].map(|one| one["access_token"].clone());
    let path = |what: &str| format!("/admin/v1/applications/{HMI}/{what}");
    let ask = async |by, path: &str| world.ask(by, "POST", path, Body::None).await;
    assert_eq!(ask(Some(&world.hmi), &path("disable")).await.0, StatusCode::FORBIDDEN, "administrators only");
    assert_eq!(ask(Some(&world.admin), "/admin/v1/applications/urn:nobody/disable").await.0, StatusCode::NOT_FOUND);
    let mut gate = world.authority.updates(MIXER).unwrap();
    gate.next().await.unwrap();
    let (status, body) = ask(Some(&world.admin), &path("disable")).await;
    assert_eq!((status, &body["revoked"]), (StatusCode::OK, &json!(2)), "hers and his: {body}");
    let update = told(&world, &mut gate).await;
    let mut gone: Vec<String> = update.revoked.into_iter().map(|one| one.id).collect();
    gone.sort();
    let mut wanted = Vec::new();
    for token in &ids {
        wanted.push(world.verify(token, MIXER).await.unwrap().id.clone());
    }
    wanted.sort();
    assert_eq!(gone, wanted);

    assert_eq!(world.olga().await.0, StatusCode::UNAUTHORIZED, "by its certificate");
    assert_eq!(refresh(&world, &olga["refresh_token"]).await, StatusCode::UNAUTHORIZED, "by a refresh token");
    let secret = [("client_id", HMI), ("client_secret", SECRET), ("grant_type", "client_credentials")];
    let by_secret = world.token(None, &[&secret[..], &[("audience", MIXER)]].concat()).await;
    assert_eq!(by_secret.0, StatusCode::UNAUTHORIZED, "by its secret");
    let by_hand = json!({ "application": HMI, "audience": MIXER, "person": "olga" });
    let by_hand = world.ask(Some(&world.admin), "POST", "/admin/v1/tokens", Body::Json(by_hand)).await;
    assert_eq!(by_hand.0, StatusCode::FORBIDDEN, "by an administrator");
    let face = Face::new(&world);
    let started = face.start(face.caller(), MIXER, IMPLICIT).await;
    let refused = match started {
        Ok(id) => face.finish(face.caller(), &id, &[], opcua_types::Variant::Empty).await.map(drop),
        Err(status) => Err(status),
    };
    assert!(refused.is_err(), "over OPC UA");
    assert!(world.verify(&controller["access_token"], REACTOR).await.is_ok());
    assert_eq!(world.token(Some(&world.controller), &own).await.0, StatusCode::OK, "others go on");

    assert_eq!(ask(Some(&world.admin), &path("enable")).await.0, StatusCode::OK);
    assert_eq!(world.olga().await.0, StatusCode::OK, "it may ask again");
    assert_eq!(refresh(&world, &sasha["refresh_token"]).await, StatusCode::BAD_REQUEST, "what ended stays ended");
    for sentence in ["the application was disabled", "the application was enabled"] {
        let by = |one: &store::Entry| {
            one.kind == "account_changed" && one.actor == ADMIN && one.object == HMI && one.detail == sentence
        };
        assert!(world.audit().await.iter().any(by), "{sentence}");
    }
    assert!(world.audited("token_revoked", "allowed", "the application was disabled").await);
}

#[tokio::test]
async fn an_application_that_only_the_plant_names_is_disabled_too() {
    let pinned = Identity::new("urn:pinned").thumbprint;
    let mut texts = texts();
    texts.plant += &format!("[[application]]\nuri = \"urn:pinned\"\nthumbprint = \"{pinned}\"\n");
    let world = World::open(tempfile::tempdir().unwrap(), crate::PolicySource::Texts(texts), |_| {}).await;
    assert_eq!(world.authority.client_by_certificate(pinned).await.unwrap().uri, "urn:pinned");
    let disable = AccountChange::DisableApplication { uri: "urn:pinned".into(), in_plant: true };
    world.authority.change_account(disable, &by()).await.unwrap();
    assert_eq!(world.authority.client_by_certificate(pinned).await.unwrap_err().reason, Reason::UnknownClient);
    let enable = AccountChange::EnableApplication { uri: "urn:pinned".into() };
    world.authority.change_account(enable, &by()).await.unwrap();
    assert!(world.authority.client_by_certificate(pinned).await.is_ok());
}

/// The first update that is no heartbeat.
async fn told(world: &World, gate: &mut crate::control::Updates) -> token::control::Update {
    loop {
        let frame = gate.next().await.unwrap();
        let update = token::control::open(&frame, &[world.authority.issuer()], MIXER).unwrap().into_inner();
        if update.previous != Some(update.epoch) {
            return update;
        }
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
        ("enabling", AccountChange::EnableApplication { uri: CONTROLLER.into() }),
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
    let disable = AccountChange::DisableApplication { uri: HMI.into(), in_plant: true };
    world.authority.change_account(disable, &by()).await.expect_err("the asker is told that there is no record");
    assert!(!world.authority.db().application(HMI).await.unwrap().unwrap().enabled);
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

#[tokio::test]
async fn unknown_closed_and_wrong_cost_one_hash_each_by_password_and_by_secret() {
    let world = World::new().await;
    let authority = &world.authority;
    let hashed = || authority.inner.passwords.hashed();
    world.put("denis", Some(SECRET), false).await;
    world.put("vera", None, true).await;
    for (number, name) in ["olga", "nobody", "denis", "vera", ""].into_iter().enumerate() {
        hashed();
        let refused = authority.person_by_password(name, "wrong", &format!("10.0.{number}.1:1")).await.unwrap_err();
        assert_eq!((refused.reason, hashed()), (access_model::Reason::UserCredentials, 1), "person `{name}`");
    }
    let closed = authority.db().application(HMI).await.unwrap().unwrap();
    let closed = store::Application { uri: "urn:closed".into(), certificates: vec![], enabled: false, ..closed };
    authority.db().put_application(&closed).await.unwrap();
    for (number, uri) in [HMI, "urn:nobody", "urn:closed", CONTROLLER].into_iter().enumerate() {
        hashed();
        let address = format!("10.1.{number}.1:1");
        let refused = authority.client_by_secret(uri, "wrong", None, &address).await.unwrap_err();
        assert_eq!((refused.reason, hashed()), (access_model::Reason::UnknownClient, 1), "application `{uri}`");
    }
}
