//! Files, restarts, and changes that race with issuing.

use std::collections::BTreeSet;

use hyper::StatusCode;
use pdp::{Change, LiveGrant, redecide};
use serde_json::json;
use store::{CheckpointKey, KeyKind, Ledger, LedgerConfig};

use super::world::*;
use crate::{Authority, AuthorityError, PolicySource};

fn write(folder: &std::path::Path) -> PolicySource {
    let texts = texts();
    for (name, text) in
        [("plant.toml", &texts.plant), ("p.cedar", &texts.policies), ("w.toml", &texts.workflow.unwrap())]
    {
        std::fs::write(folder.join(name), text).unwrap();
    }
    PolicySource::Files {
        plant: folder.join("plant.toml"),
        policies: folder.join("p.cedar"),
        workflow: Some(folder.join("w.toml")),
    }
}

#[tokio::test]
async fn broken_files_change_nothing_and_say_where() {
    let folder = tempfile::tempdir().unwrap();
    let source = write(folder.path());
    let world = World::open(folder, source, |_| {}).await;
    let path = world.folder.path().join("p.cedar");
    let whole = std::fs::read_to_string(&path).unwrap();
    let epoch = world.authority.snapshot().epoch();
    std::fs::write(&path, whole.replace("Role::\"observer\"", "Role::\"obsrver\"")).unwrap();
    let (status, body) = world.ask(Some(&world.admin), "POST", "/admin/v1/reload", Body::None).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(body["faults"][0]["file"], "policies");
    assert_eq!(body["faults"][0]["line"], 7);
    assert_eq!(body["faults"][0]["hint"], "did you mean `observer`?");
    assert_eq!(world.authority.snapshot().epoch(), epoch);
    assert_eq!(world.olga().await.0, StatusCode::OK, "the old policies are in force");
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(world.authority.reload(&by()).await, Err(AuthorityError::File { .. })));
    assert!(world.audited("policy_changed", "denied", "no role is called `obsrver`").await);

    std::fs::write(&path, whole.replace("@lifetime(\"1h\")", "@lifetime(\"1m\")")).unwrap();
    let (status, body) = world.ask(Some(&world.admin), "POST", "/admin/v1/reload", Body::None).await;
    assert_eq!((status, &body["narrowed"]), (StatusCode::OK, &json!(1)), "a shorter life is a narrower one: {body}");
    assert!(world.authority.snapshot().epoch() > epoch);
}

#[tokio::test]
async fn a_watched_file_is_read_when_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let source = write(folder.path());
    let world = World::open(folder, source, |_| {}).await;
    let watching = world.authority.clone();
    let watch = tokio::spawn(async move { watching.watch_files().await });
    let path = world.folder.path().join("p.cedar");
    // What it finds at its first look is no change to it.
    for round in 0..120 {
        let text = format!("// {round}\n@id(\"none\") forbid(principal, action, resource);\n");
        std::fs::write(&path, text).unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        if world.authority.snapshot().policies() == 1 {
            break;
        }
    }
    watch.abort();
    assert_eq!(world.authority.snapshot().policies(), 1);
}

#[tokio::test]
async fn a_step_that_is_gone_stops_the_reload() {
    let world = World::new().await;
    world.authority.fire("start", &by()).await.unwrap();
    let mut texts = texts();
    texts.workflow = texts.workflow.map(|text| text.replace("\"charge\"", "\"load\""));
    texts.plant = texts.plant.replace("\"charge\"", "\"load\"");
    let error = world.authority.replace(texts, &by()).await.unwrap_err();
    assert!(matches!(error, AuthorityError::LostStep(_)), "{error}");
    assert!(world.authority.snapshot().steps().contains("charge"));
}

#[tokio::test]
async fn a_restart_forgets_neither_step_nor_key_nor_revocation() {
    let world = World::new().await;
    let keep = world.olga().await.1;
    let gone = world.olga().await.1;
    let keep = world.verify(&keep["access_token"], MIXER).await.unwrap().id.clone();
    let gone = world.verify(&gone["access_token"], MIXER).await.unwrap().id.clone();
    world.authority.revoke(&gone, &by(), "").await.unwrap();
    world.authority.fire("start", &by()).await.unwrap();
    let (jwks, epoch) = (world.authority.jwks(), world.authority.snapshot().epoch());

    let db = database(&world.folder).await;
    let key = CheckpointKey::generate(KeyKind::Ed25519).unwrap();
    let ledger = Ledger::open(&world.folder.path().join("other"), LedgerConfig::default(), key).unwrap();
    let config = world.authority.config().clone();
    let source = PolicySource::Texts(texts());
    let again = Authority::open(config, source, db, ledger, clock(&world.seconds)).await.unwrap();
    assert_eq!(again.jwks(), jwks);
    assert!(again.snapshot().epoch() > epoch, "no epoch is used twice");
    assert_eq!(again.snapshot().steps(), &BTreeSet::from(["charge".to_owned()]));
    let issuers = [again.issuer()];
    let frame = again.updates(MIXER).unwrap().next().await.unwrap();
    let full = token::control::open(&frame, &issuers, MIXER).unwrap().into_inner();
    assert_eq!(full.revoked.iter().map(|one| &one.id).collect::<Vec<_>>(), [&gone]);
    assert_eq!(full.replaced.iter().map(|one| &one.id).collect::<Vec<_>>(), [&keep]);
    // The token lives on: the next step takes its writes.
    let changed = again.fire("charged", &by()).await.unwrap();
    assert_eq!(changed.narrowed, 1);
}

#[tokio::test]
async fn what_is_over_is_forgotten() {
    let world = World::new().await;
    world.olga().await;
    assert_eq!(world.authority.live().grants.len(), 1);
    world.seconds.fetch_add(3 * 86_400, std::sync::atomic::Ordering::SeqCst);
    assert!(world.authority.purge().await.unwrap() >= 2);
    assert_eq!(world.authority.live().grants.len(), 0);
}

/// A change that runs while tokens are issued must see each of them, or be seen by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_token_slips_past_a_change() {
    let world = World::with(|config| config.password_jobs = 64).await;
    let authority = &world.authority;
    let request = |name: &str| crate::TokenRequest {
        flow: crate::Flow::Exchange,
        person: Some(name.into()),
        application: HMI.into(),
        confirmation: world.hmi.thumbprint,
        audience: MIXER.into(),
        roles: None,
        break_glass: None,
        padding: 0,
        refresh: crate::Refreshing::No,
        address: None,
    };
    let mut tasks = tokio::task::JoinSet::new();
    for round in 0..60 {
        let (authority, request) = (authority.clone(), request(if round % 2 == 0 { "olga" } else { "sasha" }));
        tasks.spawn(async move { authority.issue(&request).await.map(|_| ()) });
    }
    for _ in 0..3 {
        for transition in ["start", "charged", "abort-heating", "empty", "cleaned"] {
            authority.fire(transition, &by()).await.unwrap();
        }
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap().unwrap();
    }
    let (snapshot, now) = (authority.snapshot(), authority.now().unix);
    let live = authority.live();
    assert_eq!(live.grants.len(), 60);
    for (id, token) in &live.grants {
        let asked = LiveGrant { principal: &token.principal, break_glass: None, spec: &token.spec };
        assert_eq!(redecide(&snapshot, asked, now), Change::Same, "{id}");
    }
}

/// A world with so many more rules.
async fn under(rules: usize, change: impl FnOnce(&mut crate::AuthorityConfig)) -> (World, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let source = write(folder.path());
    let path = folder.path().join("p.cedar");
    let more: String = (0..rules)
        .map(|rule| {
            format!("@id(\"x{rule}\")\nforbid (principal, action == Action::\"write\", resource) when {{ resource.labels.contains(\"none\") }};\n")
        })
        .collect();
    std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + "\n" + &more).unwrap();
    (World::open(folder, source, change).await, path)
}

/// Whoever is told to ask again does so with the refresh token that was not used for anything.
#[tokio::test]
async fn a_refresh_whose_turn_does_not_come_loses_nothing() {
    let (world, _) = under(400, |config| config.patience = std::time::Duration::from_secs(9)).await;
    let olga = world.olga().await.1;
    let form = [("grant_type", "refresh_token"), ("refresh_token", olga["refresh_token"].as_str().unwrap())];
    let deciding = std::sync::Arc::clone(&world.authority.inner.deciding);
    let all = u32::try_from(deciding.available_permits()).unwrap();
    let turns = deciding.acquire_many(all).await.unwrap();
    {
        let (status, body) = world.token(Some(&world.hmi), &form).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{body}");
    }
    // Who hangs up while it waits has used nothing either.
    let hung_up = world.token(Some(&world.hmi), &form);
    assert!(tokio::time::timeout(std::time::Duration::from_millis(300), hung_up).await.is_err());
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    drop(turns);
    let (status, body) = world.token(Some(&world.hmi), &form).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let (status, body) = world.token(Some(&world.hmi), &form).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "it was used: {body}");
}

/// Many policies take long: they are asked beside, in turn, and what needs none of them goes on. Few are asked at once.
#[tokio::test]
async fn many_policies_are_decided_in_turn() {
    for (rules, waits) in [(0, false), (400, true)] {
        let (world, path) = under(rules, |_| {}).await;
        let deciding = std::sync::Arc::clone(&world.authority.inner.deciding);
        let all = u32::try_from(deciding.available_permits()).unwrap();
        let turns = deciding.acquire_many(all).await.unwrap();
        let mut asked = Box::pin(world.olga());
        // Of few policies it ends while others have all turns.
        let patience = std::time::Duration::from_millis(if waits { 500 } else { 60_000 });
        let early = tokio::time::timeout(patience, &mut asked).await.ok();
        assert_eq!(early.is_none(), waits, "its turn has not come");
        let (status, _) = world.ask(Some(&world.admin), "GET", "/admin/v1/status", Body::None).await;
        assert_ne!(status, StatusCode::SERVICE_UNAVAILABLE);
        drop(turns);
        let (status, body) = match early {
            Some(answer) => answer,
            None => asked.await,
        };
        assert_eq!(status, StatusCode::OK, "{body}");
        // A change decides them again, without any of those turns.
        let turns = deciding.acquire_many(all).await.unwrap();
        std::fs::write(
            &path,
            std::fs::read_to_string(&path).unwrap().replace("@lifetime(\"1h\")", "@lifetime(\"1m\")"),
        )
        .unwrap();
        let (status, body) = world.ask(Some(&world.admin), "POST", "/admin/v1/reload", Body::None).await;
        assert_eq!((status, &body["narrowed"]), (StatusCode::OK, &json!(1)), "{body}");
        drop(turns);
    }
}
