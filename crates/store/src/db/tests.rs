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
        ends: at(500),
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
async fn what_was_taken_for_nothing_is_put_back_unless_its_line_was_cut() {
    let db = Db::in_memory().await.unwrap();
    db.put_refresh(&refresh("h1")).await.unwrap();
    let taken = db.take_refresh("h1", at(50)).await.unwrap().unwrap();
    assert!(db.put_refresh_back(&taken).await.unwrap());
    assert!(db.put_refresh_back(&taken).await.is_err(), "it is there");
    assert_eq!(db.take_refresh("h1", at(50)).await.unwrap().as_ref(), Some(&taken));
    db.remove_refresh_family(&taken.family).await.unwrap();
    assert!(!db.put_refresh_back(&taken).await.unwrap());
    assert_eq!(db.take_refresh("h1", at(50)).await.unwrap(), None);
}

#[tokio::test]
async fn a_line_of_refresh_tokens_ends_at_a_time_that_no_refresh_moves() {
    let db = Db::in_memory().await.unwrap();
    let ends = |hash: &str, ends: i64| RefreshToken { ends: at(ends), expires: at(1_000), ..refresh(hash) };
    db.put_refresh(&ends("h1", 200)).await.unwrap();
    db.put_refresh(&ends("h2", 900)).await.unwrap();
    db.put_refresh(&ends("h3", 900)).await.unwrap();
    assert_eq!(db.take_refresh("h1", at(199)).await.unwrap().unwrap().ends, at(200));
    assert_eq!(db.take_refresh("h2", at(199)).await.unwrap().unwrap().ends, at(200), "the end of the line stays");
    assert_eq!(db.take_refresh("h3", at(200)).await.unwrap(), None);
}

#[tokio::test]
async fn closed_accounts_and_new_passwords_end_their_lines() {
    type Change = fn(&mut User, &mut Application);
    let changes: [(&str, Change, bool); 5] = [
        ("nothing", |_, _| {}, true),
        ("a role", |user, _| user.roles = vec![], true),
        ("another password", |user, _| user.password_hash = Some("$argon2id$other".into()), false),
        ("the person is locked", |user, _| user.enabled = false, false),
        ("the application is locked", |_, application| application.enabled = false, false),
    ];
    for (rule, change, stays) in changes {
        let db = Db::in_memory().await.unwrap();
        let (mut user, mut application) = accounts(&db).await;
        db.put_refresh(&refresh("h1")).await.unwrap();
        change(&mut user, &mut application);
        db.put_user(&user).await.unwrap();
        db.put_application(&application).await.unwrap();
        assert_eq!(db.take_refresh("h1", at(50)).await.unwrap().is_some(), stays, "{rule}");
    }
    let db = Db::in_memory().await.unwrap();
    let (user, application) = accounts(&db).await;
    db.put_refresh(&refresh("h1")).await.unwrap();
    assert!(db.remove_user(&user.name).await.unwrap());
    assert_eq!(db.take_refresh("h1", at(50)).await.unwrap(), None, "the person is gone");
    db.put_refresh(&refresh("h2")).await.unwrap();
    assert!(db.remove_application(&application.uri).await.unwrap());
    assert_eq!(db.take_refresh("h2", at(50)).await.unwrap(), None, "the application is gone");
}

/// The accounts of `principal()`.
async fn accounts(db: &Db) -> (User, Application) {
    let principal = principal();
    let user = User { name: principal.person.unwrap(), ..user("x") };
    let application = application(&principal.application.unwrap().0, 8);
    db.put_user(&user).await.unwrap();
    db.put_application(&application).await.unwrap();
    (user, application)
}

#[tokio::test]
async fn what_ended_while_a_token_was_made_wins() {
    for (rule, change, want) in [
        ("nothing", 0, Ok(())),
        ("the person is locked", 1, Err(Overtaken::Person)),
        ("the person is gone", 2, Err(Overtaken::Person)),
        ("the application is locked", 3, Err(Overtaken::Application)),
        ("the application is gone", 4, Err(Overtaken::Application)),
        ("the line was cut", 5, Err(Overtaken::Line)),
        ("the line is over", 6, Err(Overtaken::Line)),
    ] {
        let db = Db::in_memory().await.unwrap();
        let (user, application) = accounts(&db).await;
        db.put_refresh(&refresh("h1")).await.unwrap();
        let taken = db.take_refresh("h1", at(50)).await.unwrap().unwrap();
        match change {
            1 => db.put_user(&User { enabled: false, ..user.clone() }).await.unwrap(),
            2 => assert!(db.remove_user(&user.name).await.unwrap()),
            3 => db.put_application(&Application { enabled: false, ..application.clone() }).await.unwrap(),
            4 => assert!(db.remove_application(&application.uri).await.unwrap()),
            5 => assert_eq!(db.remove_refresh_family("f1").await.unwrap(), 0),
            _ => {}
        }
        let token = IssuedToken { issued: at(if change == 6 { 500 } else { 51 }), ..token("t9", 900) };
        let next = RefreshToken { hash: "h2".into(), ..taken };
        let issue = Issue {
            token: &token,
            grant: &grant("t9", 900),
            refresh: Some(&next),
            goes_on: true,
            person: Some((&user.name, true)),
            application: (&application.uri, true),
        };
        assert_eq!(db.issue(issue).await.unwrap(), want, "{rule}");
        assert_eq!(db.token("t9").await.unwrap().is_some(), want.is_ok(), "{rule}: all or nothing");
        assert_eq!(db.take_refresh("h2", at(60)).await.unwrap().is_some(), want.is_ok(), "{rule}: all or nothing");
    }
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
