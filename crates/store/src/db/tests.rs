//! The journal: what goes in comes back, numbers are used once, and several writers get along.

use access_model::{ApplicationUri, GrantSpec, MapDigest, Principal, Rights, ScopeIndex, Thumbprint};

use super::*;

fn at(seconds: i64) -> UnixTime {
    UnixTime::from_seconds(seconds)
}

fn application(uri: &str, certificate: u8) -> Application {
    Application {
        uri: uri.into(),
        name: "a mixer".into(),
        kind: ApplicationKind::Client,
        certificates: vec![Thumbprint([certificate; 32])],
        secret_hash: None,
        enabled: true,
        created: at(1),
    }
}

fn user(name: &str) -> User {
    User {
        name: name.into(),
        password_hash: Some("$argon2id$opaque".into()),
        certificates: vec![Thumbprint([9; 32])],
        roles: vec!["engineer".into(), "operator".into()],
        groups: vec!["shift-a".into()],
        enabled: true,
        created: at(2),
    }
}

fn token(id: &str, expires: i64) -> IssuedToken {
    IssuedToken {
        id: id.into(),
        subject: "anna".into(),
        application: Some("urn:client".into()),
        audience: "urn:server".into(),
        confirmation: Some(Thumbprint([3; 32])),
        flow: "exchange".into(),
        issued: at(10),
        not_before: at(10),
        expires: at(expires),
        epoch: Epoch(4),
        revoked: None,
    }
}

fn principal() -> Principal {
    Principal {
        person: Some("anna".into()),
        application: Some(ApplicationUri("urn:client".into())),
        roles: vec!["operator".into()],
        groups: vec![],
    }
}

fn grant(id: &str, expires: i64) -> Grant {
    let rights = vec![(Rights::READ | Rights::BROWSE, vec![ScopeIndex(1), ScopeIndex(7)])];
    let spec = GrantSpec {
        audience: "urn:server".into(),
        map: MapDigest([5; 16]),
        rights,
        not_after: at(50),
        epoch: Epoch(4),
    };
    Grant { id: id.into(), principal: principal(), spec, token: "t1".into(), expires: at(expires), changed: at(11) }
}

fn refresh(hash: &str) -> RefreshToken {
    RefreshToken {
        hash: hash.into(),
        principal: principal(),
        audience: "urn:server".into(),
        confirmation: Some(Thumbprint([3; 32])),
        family: "f1".into(),
        expires: at(100),
    }
}

fn revocation(token: &str) -> NewRevocation {
    NewRevocation { token: token.into(), by: "admin".into(), reason: "left".into(), at: at(20), epoch: Epoch(4) }
}

#[tokio::test]
async fn applications_come_back_as_they_went_in() {
    let db = Db::in_memory().await.unwrap();
    let mut one = application("urn:a", 1);
    db.put_application(&one).await.unwrap();
    db.put_application(&application("urn:b", 2)).await.unwrap();
    assert_eq!(db.application("urn:a").await.unwrap(), Some(one.clone()));
    one.certificates = vec![Thumbprint([7; 32]), Thumbprint([8; 32])];
    one.enabled = false;
    db.put_application(&one).await.unwrap();
    assert_eq!(db.application_by_certificate(&Thumbprint([8; 32])).await.unwrap(), Some(one));
    assert_eq!(db.application_by_certificate(&Thumbprint([1; 32])).await.unwrap(), None);
    assert_eq!(db.applications().await.unwrap().len(), 2);
    assert!(db.remove_application("urn:a").await.unwrap());
    assert!(!db.remove_application("urn:a").await.unwrap());
    assert_eq!(db.application_by_certificate(&Thumbprint([8; 32])).await.unwrap(), None);
}

#[tokio::test]
async fn a_certificate_belongs_to_one_application_and_a_refused_change_leaves_nothing_behind() {
    let db = Db::in_memory().await.unwrap();
    db.put_application(&application("urn:a", 1)).await.unwrap();
    assert!(db.put_application(&application("urn:b", 1)).await.is_err());
    assert_eq!(db.application("urn:b").await.unwrap(), None);
    assert_eq!(db.application_by_certificate(&Thumbprint([1; 32])).await.unwrap().unwrap().uri, "urn:a");
}

#[tokio::test]
async fn users_come_back_as_they_went_in() {
    let db = Db::in_memory().await.unwrap();
    let mut anna = user("anna");
    db.put_user(&anna).await.unwrap();
    assert_eq!(db.user_by_certificate(&Thumbprint([9; 32])).await.unwrap(), Some(anna.clone()));
    anna.roles = vec!["auditor".into()];
    anna.password_hash = None;
    db.put_user(&anna).await.unwrap();
    assert_eq!(db.users().await.unwrap(), [anna]);
    assert!(db.remove_user("anna").await.unwrap());
    assert_eq!(db.user("anna").await.unwrap(), None);
}

#[tokio::test]
async fn a_token_is_revoked_once_and_numbers_are_never_used_twice() {
    let db = Db::in_memory().await.unwrap();
    db.put_token(&token("t1", 100)).await.unwrap();
    db.put_token(&token("t2", 30)).await.unwrap();
    assert!(db.put_token(&token("t1", 100)).await.is_err());
    let Revoked::New(first) = db.revoke(&revocation("t2")).await.unwrap() else { panic!("not revoked") };
    assert_eq!((first.token.as_str(), first.expires), ("t2", at(30)));
    assert_eq!(db.revoke(&revocation("t2")).await.unwrap(), Revoked::Already);
    assert_eq!(db.revoke(&revocation("t9")).await.unwrap(), Revoked::Unknown);
    let live = TokenFilter { live_at: Some(at(20)), ..TokenFilter::default() };
    assert_eq!(db.tokens(&live).await.unwrap(), [token("t1", 100)]);
    assert_eq!(db.live_revocations(at(29)).await.unwrap(), std::slice::from_ref(&first));
    assert_eq!(db.live_revocations(at(30)).await.unwrap(), []);
    assert_eq!(db.purge(at(40)).await.unwrap(), 2);
    let Revoked::New(next) = db.revoke(&revocation("t1")).await.unwrap() else { panic!("not revoked") };
    assert!(next.number > first.number);
    assert_eq!(db.revocations_since(first.number).await.unwrap(), [next]);
}

#[tokio::test]
async fn tokens_are_filtered_and_limited_newest_first() {
    let db = Db::in_memory().await.unwrap();
    for (id, issued, subject) in [("a", 1, "anna"), ("b", 3, "bert"), ("c", 2, "anna")] {
        let mut one = token(id, 100);
        one.issued = at(issued);
        one.subject = subject.into();
        db.put_token(&one).await.unwrap();
    }
    let ids = async |filter: TokenFilter| -> Vec<String> {
        db.tokens(&filter).await.unwrap().into_iter().map(|token| token.id).collect()
    };
    assert_eq!(ids(TokenFilter::default()).await, ["b", "c", "a"]);
    assert_eq!(ids(TokenFilter { subject: Some("anna".into()), ..TokenFilter::default() }).await, ["c", "a"]);
    assert_eq!(ids(TokenFilter { limit: Some(1), ..TokenFilter::default() }).await, ["b"]);
    assert_eq!(ids(TokenFilter { audience: Some("urn:x".into()), ..TokenFilter::default() }).await, [""; 0]);
}

#[tokio::test]
async fn grants_come_back_as_they_went_in() {
    let db = Db::in_memory().await.unwrap();
    db.put_grant(&grant("g1", 100)).await.unwrap();
    let mut changed = grant("g1", 100);
    changed.spec.rights.clear();
    changed.token = "t2".into();
    db.put_grant(&changed).await.unwrap();
    db.put_grant(&grant("g2", 10)).await.unwrap();
    assert_eq!(db.grant("g1").await.unwrap(), Some(changed.clone()));
    assert_eq!(db.live_grants(at(10)).await.unwrap(), [changed]);
    assert!(db.remove_grant("g1").await.unwrap());
    assert_eq!(db.grant("g1").await.unwrap(), None);
}

#[tokio::test]
async fn a_refresh_token_is_given_once_and_never_after_its_end() {
    let db = Db::in_memory().await.unwrap();
    db.put_refresh(&refresh("h1")).await.unwrap();
    db.put_refresh(&refresh("h2")).await.unwrap();
    db.put_refresh(&refresh("h3")).await.unwrap();
    assert_eq!(db.take_refresh("h1", at(99)).await.unwrap(), Some(refresh("h1")));
    assert_eq!(db.take_refresh("h1", at(99)).await.unwrap(), None);
    assert_eq!(db.take_refresh("h2", at(100)).await.unwrap(), None);
    assert_eq!(db.remove_refresh_family("f1").await.unwrap(), 1);
}

#[tokio::test]
async fn a_workflow_state_is_only_written_over_the_version_that_was_seen() {
    let db = Db::in_memory().await.unwrap();
    let mut state =
        WorkflowState { name: "batch".into(), net: "n".into(), marking: "{}".into(), version: 0, changed: at(1) };
    assert_eq!(db.put_workflow(&state).await.unwrap(), 1);
    assert!(matches!(db.put_workflow(&state).await, Err(DbError::Conflict { expected: 0, found: 1, .. })));
    state.version = 1;
    state.marking = "{\"p\":1}".into();
    assert_eq!(db.put_workflow(&state).await.unwrap(), 2);
    assert!(matches!(db.put_workflow(&state).await, Err(DbError::Conflict { expected: 1, found: 2, .. })));
    state.version = 2;
    assert_eq!(db.workflow("batch").await.unwrap(), Some(state));
}

#[tokio::test]
async fn epochs_grow_across_restarts_and_the_file_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let config = DbConfig { path: folder.path().join("deep/trapkey.db"), sync: Sync::Disk };
    let db = Db::open(&config).await.unwrap();
    assert_eq!(db.next_epoch().await.unwrap(), Epoch(1));
    db.close().await;
    let db = Db::open(&config).await.unwrap();
    assert_eq!(db.epoch().await.unwrap(), Epoch(1));
    assert_eq!(db.next_epoch().await.unwrap(), Epoch(2));
    assert_eq!(db.damage().await.unwrap(), None);
    let mode = std::fs::metadata(&config.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn many_writers_at_once_all_get_through() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(&DbConfig { path: folder.path().join("t.db"), sync: Sync::Os }).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..40 {
        let db = db.clone();
        tasks.spawn(async move {
            db.put_token(&token(&format!("t{number}"), 100)).await.unwrap();
            db.revoke(&revocation(&format!("t{number}"))).await.unwrap();
            db.next_epoch().await.unwrap()
        });
    }
    let mut epochs = tasks.join_all().await;
    epochs.sort_unstable();
    epochs.dedup();
    assert_eq!(epochs.len(), 40);
    assert_eq!(db.revocations_since(0).await.unwrap().len(), 40);
}
