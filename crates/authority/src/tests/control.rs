//! The control stream: full list first, then every change, in the order of epochs.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use serde_json::json;
use token::control::{Update, open};

use super::world::*;

struct Stream {
    body: Incoming,
    rest: Vec<u8>,
}

impl Stream {
    async fn open(world: &World, identity: Option<&Identity>, audience: &str) -> Result<Self, StatusCode> {
        let path = format!("/control/v1/updates?audience={audience}");
        let request = Request::get(path).header("host", "localhost").body(Full::<Bytes>::default()).unwrap();
        let response = world.send(identity, request).await;
        if response.status() != StatusCode::OK {
            return Err(response.status());
        }
        assert_eq!(response.headers()["content-type"], crate::control::CONTENT_TYPE);
        Ok(Self { body: response.into_body(), rest: Vec::new() })
    }

    /// The next frame, heartbeats included.
    async fn frame(&mut self, world: &World) -> Update {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let frame: Vec<u8> = self.rest.drain(..=end).collect();
                let issuers = [world.authority.issuer()];
                return open(&frame[..end], &issuers, MIXER).unwrap().into_inner();
            }
            let frame =
                tokio::time::timeout(Duration::from_secs(60), self.body.frame()).await.unwrap().unwrap().unwrap();
            self.rest.extend_from_slice(&frame.into_data().unwrap());
        }
    }

    /// The next change.
    async fn change(&mut self, world: &World) -> Update {
        loop {
            let update = self.frame(world).await;
            if update.previous != Some(update.epoch) {
                return update;
            }
        }
    }
}

#[tokio::test]
async fn a_gate_hears_of_its_own_server_only() {
    let world = World::new().await;
    for (rule, identity, audience, want) in [
        ("no certificate", None, MIXER, StatusCode::UNAUTHORIZED),
        ("another's", Some(&world.hmi), MIXER, StatusCode::UNAUTHORIZED),
        ("stranger", Some(&world.stranger), MIXER, StatusCode::UNAUTHORIZED),
        ("another server", Some(&world.mixer), REACTOR, StatusCode::UNAUTHORIZED),
    ] {
        assert_eq!(Stream::open(&world, identity, audience).await.err(), Some(want), "{rule}");
    }
    assert!(Stream::open(&world, Some(&world.mixer), MIXER).await.is_ok());
}

#[tokio::test]
async fn steps_narrow_and_widen_and_revocations_arrive() {
    let world = World::new().await;
    let admin = Some(&world.admin);
    let olga = world.olga().await.1;
    let id = world.verify(&olga["access_token"], MIXER).await.unwrap().id.clone();
    let mut stream = Stream::open(&world, Some(&world.mixer), MIXER).await.unwrap();
    let full = stream.change(&world).await;
    assert_eq!((full.previous, full.revoked.len(), full.replaced.len()), (None, 0, 0));

    let fire = async |transition: &str| {
        world.ask(admin, "POST", "/admin/v1/workflow/fire", Body::Json(json!({ "transition": transition }))).await
    };
    let (status, body) = fire("start").await;
    assert_eq!((status, &body["widened"]), (StatusCode::OK, &json!(1)), "{body}");
    let wider = stream.change(&world).await;
    assert_eq!(wider.previous, Some(full.epoch));
    assert_eq!(wider.replaced[0].id, id);
    let setpoints = world.position(MIXER, "setpoints").0;
    let writes = |update: &Update| {
        let entries = &update.replaced[0].rights.entries;
        entries.iter().any(|(rights, scopes)| {
            rights.contains(access_model::Rights::WRITE) && scopes.iter().any(|scope| scope == setpoints)
        })
    };
    assert!(writes(&wider));

    let (_, body) = fire("charged").await;
    assert_eq!(body["narrowed"], 1);
    let narrower = stream.change(&world).await;
    assert_eq!(narrower.previous, Some(wider.epoch));
    assert!(!writes(&narrower));
    assert!(narrower.replaced[0].not_after <= narrower.replaced[0].expires);

    let (_, body) = world.ask(admin, "DELETE", &format!("/admin/v1/tokens/{id}"), Body::None).await;
    assert_eq!(body["revoked"], true);
    let gone = stream.change(&world).await;
    assert_eq!((gone.previous, gone.revoked[0].id.as_str()), (Some(narrower.epoch), id.as_str()));

    // Whoever comes later learns it first.
    let mut late = Stream::open(&world, Some(&world.mixer), MIXER).await.unwrap();
    let full = late.frame(&world).await;
    assert_eq!((full.previous, full.epoch), (None, gone.epoch));
    assert_eq!(full.revoked.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), [id.as_str()]);
    assert!(full.replaced.is_empty());

    let (status, body) = fire("charged").await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert!(body["error_description"].as_str().unwrap().contains("nothing in charge"));
    assert!(world.audited("step_changed", "allowed", "stands in heat").await);
    assert!(world.audited("grant_narrowed", "allowed", &id).await);
}

#[tokio::test]
async fn heartbeats_name_the_epoch_a_gate_is_at() {
    let world = World::with(|config| config.heartbeat = Duration::from_millis(20)).await;
    let mut stream = Stream::open(&world, Some(&world.mixer), MIXER).await.unwrap();
    let full = stream.frame(&world).await;
    let beat = stream.frame(&world).await;
    assert_eq!((beat.previous, beat.epoch), (Some(full.epoch), full.epoch));
    assert!(beat.revoked.is_empty() && beat.replaced.is_empty());
}

#[tokio::test]
async fn a_policy_that_goes_takes_its_grants_with_it() {
    let world = World::new().await;
    let olga = world.olga().await.1;
    let id = world.verify(&olga["access_token"], MIXER).await.unwrap().id.clone();
    let mut stream = Stream::open(&world, Some(&world.mixer), MIXER).await.unwrap();
    stream.frame(&world).await;
    let mut texts = texts();
    texts.policies = "@id(\"none\") forbid(principal, action, resource);".into();
    let changed = world.authority.replace(texts, &by()).await.unwrap();
    assert_eq!((changed.revoked, changed.narrowed), (1, 0));
    assert_eq!(stream.change(&world).await.revoked[0].id, id);
    assert_eq!(world.olga().await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_reader_that_lags_gets_the_full_list() {
    let world = World::new().await;
    let mut updates = world.authority.updates(MIXER).unwrap();
    let mut issued = Vec::new();
    for _ in 0..3 {
        let token = world.olga().await.1;
        issued.push(world.verify(&token["access_token"], MIXER).await.unwrap().id.clone());
    }
    // More changes than are kept for it, while it reads nothing.
    for round in 0..80 {
        for transition in ["start", "charged", "abort-heating", "empty", "cleaned"] {
            world.authority.fire(transition, &by()).await.unwrap_or_else(|error| panic!("{round}: {error}"));
        }
    }
    let mut at = None;
    let mut seen_full = 0;
    for id in &issued {
        world.authority.revoke(id, &by(), "").await.unwrap();
    }
    let issuers = [world.authority.issuer()];
    let mut gone = std::collections::BTreeSet::new();
    while gone.len() < issued.len() {
        let frame = tokio::time::timeout(Duration::from_secs(60), updates.next()).await.unwrap().unwrap();
        let update = open(&frame, &issuers, MIXER).unwrap().into_inner();
        match update.previous {
            None => seen_full += 1,
            Some(previous) => assert_eq!(Some(previous), at, "no gap goes unnoticed"),
        }
        at = Some(update.epoch);
        gone.extend(update.revoked.into_iter().map(|one| one.id));
    }
    assert!(seen_full >= 2, "the first list, and the one after the lag");
}

#[tokio::test]
async fn a_revocation_goes_on_when_its_asker_hangs_up() {
    let world = World::new().await;
    let token = world.olga().await.1;
    let id = world.verify(&token["access_token"], MIXER).await.unwrap().id.clone();
    let mut stream = Stream::open(&world, Some(&world.mixer), MIXER).await.unwrap();
    stream.frame(&world).await;
    {
        let by = by();
        let revoking = world.authority.revoke(&id, &by, "lost");
        tokio::select! {
            biased;
            _ = revoking => panic!("it takes more than one step"),
            () = std::future::ready(()) => {}
        }
    }
    let update = tokio::time::timeout(Duration::from_secs(60), stream.change(&world)).await.expect("gates are told");
    assert_eq!(update.revoked.iter().map(|gone| gone.id.as_str()).collect::<Vec<_>>(), [id.as_str()]);
}

#[tokio::test]
async fn gates_hear_of_a_revocation_whose_line_could_not_be_cut_and_a_second_try_completes_it() {
    let world = World::new().await;
    let token = world.olga().await.1;
    let id = world.verify(&token["access_token"], MIXER).await.unwrap().id.clone();
    let mut stream = Stream::open(&world, Some(&world.mixer), MIXER).await.unwrap();
    stream.frame(&world).await;
    let journal = sqlx::SqlitePool::connect_lazy_with(
        sqlx::sqlite::SqliteConnectOptions::new().filename(world.folder.path().join("journal.db")),
    );
    sqlx::query("ALTER TABLE refresh_lines RENAME TO elsewhere").execute(&journal).await.unwrap();
    let failed = world.authority.revoke(&id, &by(), "lost").await;
    assert!(matches!(failed, Err(crate::AuthorityError::Store(_))), "{failed:?}");
    let update = tokio::time::timeout(Duration::from_secs(60), stream.change(&world)).await.expect("gates are told");
    assert_eq!(update.revoked.iter().map(|gone| gone.id.as_str()).collect::<Vec<_>>(), [id.as_str()]);
    let mut late = Stream::open(&world, Some(&world.mixer), MIXER).await.unwrap();
    assert_eq!(late.frame(&world).await.revoked.len(), 1, "also those that come later");
    sqlx::query("ALTER TABLE elsewhere RENAME TO refresh_lines").execute(&journal).await.unwrap();
    assert_eq!(world.authority.revoke(&id, &by(), "lost").await.unwrap(), Some(false));
}

/// Two guards with one certificate vouch for each other; a clone of one is refused, and recorded when it goes on asking.
#[tokio::test]
async fn a_third_guard_gets_no_vote_and_is_recorded() {
    let world = World::new().await;
    let path = format!("/control/v1/turn?audience={MIXER}");
    let ask = async |holder: u64, other: Option<u64>| {
        let term = 10 + holder;
        let body = Body::Json(json!({ "holder": holder, "term": term, "span_ms": 3_000, "other": other }));
        let (status, answer) = world.ask(Some(&world.mixer), "POST", &path, body).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        answer
    };
    let detail = "a third program";
    // The authority was just started, and is silent; it hears who asks.
    for second in 0..12 {
        assert_eq!(ask(1, Some(2)).await["third"], json!(null), "{second}");
        assert_eq!(ask(2, Some(1)).await["third"], json!(null), "{second}");
        let third = ask(3, Some(1)).await;
        assert_eq!((&third["third"], &third["given"]), (&json!(true), &json!(false)), "{second}");
        assert_eq!(world.audited("contact", "denied", detail).await, second >= 6, "{second}");
        world.seconds.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
    assert_eq!(ask(1, Some(2)).await["given"], true);
    let records = world.audit().await;
    assert_eq!(records.iter().filter(|one| one.detail.contains(detail)).count(), 1, "once");
}
