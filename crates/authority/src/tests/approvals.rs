//! The second person: who may answer which question, how it is proven, and what gates and audit hear of it.

use std::time::Duration;

use access_model::Reason;
use base64::Engine as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, StatusCode};
use serde_json::{Value, json};
use token::control::{Approved, open};

use super::world::*;
use crate::approvals::{AnswerError, Second, Waiting};

fn question(id: &str) -> Waiting {
    Waiting {
        id: id.into(),
        audience: MIXER.into(),
        subject: "olga".into(),
        client: Some(HMI.into()),
        roles: vec!["administrator".into()],
        within: Duration::from_secs(300),
        change: "write 7 to Speed".into(),
    }
}

fn person(name: &str, application: Option<&str>) -> Second {
    Second { person: name.into(), application: application.map(str::to_owned), address: "192.0.2.1".into() }
}

async fn why_not(world: &World, id: &str, second: &Second) -> String {
    match world.authority.answer_second(id, second, true).await {
        Err(AnswerError::Refused(refusal)) => refusal.detail,
        other => panic!("{other:?}"),
    }
}

/// What the gate of the mixer would be told if it asked now.
async fn approved(world: &World) -> Vec<Approved> {
    let frame = world.authority.updates(MIXER).unwrap().next().await.unwrap();
    open(&frame, &[world.authority.issuer()], MIXER).unwrap().into_inner().approved
}

#[tokio::test]
async fn another_person_with_the_role_approves_once_and_the_gate_and_the_audit_hear_of_it() {
    let world = World::new().await;
    world.authority.ask_second(question("g-1")).await.unwrap();
    world.authority.ask_second(question("g-1")).await.unwrap();
    for (rule, second, why) in [
        ("who asked", person("olga", None), "cannot be the second person"),
        ("who asked, written otherwise", person("OLGA", None), "cannot be the second person"),
        ("another without the role", person("sasha", None), "lacks the role `administrator`"),
        ("through the application that asked", person(ADMIN, Some(HMI)), "cannot be the second one"),
        ("an application by itself", person(CONTROLLER, None), "lacks the role"),
    ] {
        let said = why_not(&world, "g-1", &second).await;
        assert!(said.contains(why), "{rule}: {said}");
        assert_eq!(world.authority.waiting_for(&second), [], "{rule}");
    }
    assert_eq!(approved(&world).await, []);
    let ada = person(ADMIN, None);
    assert_eq!(world.authority.waiting_for(&ada), [question("g-1")]);
    let answered = world.authority.answer_second("g-1", &ada, true).await.unwrap();
    assert_eq!(answered, Some(question("g-1")));
    let told = approved(&world).await;
    assert_eq!((told[0].id.as_str(), told[0].by.as_str(), told.len()), ("g-1", ADMIN, 1));
    assert_eq!(told[0].expires.as_seconds(), 1_800_000_300);
    assert_eq!(world.authority.answer_second("g-1", &ada, true).await.unwrap(), None, "of two who answer, one does");
    let both = "approved g-1: write 7 to Speed at urn:trapkey:demo:mixer for `olga`";
    assert!(world.audited("approval", "allowed", both).await);
    let records = world.audit().await;
    let asked = records.iter().filter(|one| one.kind == "approval" && one.actor == "olga" && one.outcome == "denied");
    assert!(asked.count() >= 1);
    assert!(records.iter().any(|one| one.kind == "approval" && one.outcome == "allowed" && one.actor == ADMIN));
    world.seconds.fetch_add(300, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(approved(&world).await, [], "its time is over");
}

#[tokio::test]
async fn questions_end_by_themselves_and_when_they_are_declined() {
    let world = World::new().await;
    let ada = person(ADMIN, None);
    world.authority.ask_second(question("g-1")).await.unwrap();
    world.authority.answer_second("g-1", &ada, false).await.unwrap();
    assert!(world.audited("approval", "denied", "declined g-1").await);
    assert_eq!(world.authority.answer_second("g-1", &ada, true).await.unwrap(), None);
    world.authority.ask_second(question("g-2")).await.unwrap();
    assert_eq!(world.authority.waiting_for(&ada), [question("g-2")]);
    world.seconds.fetch_add(300, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(world.authority.waiting_for(&ada), []);
    assert_eq!(world.authority.answer_second("g-2", &ada, true).await.unwrap(), None);
}

#[tokio::test]
async fn a_flood_of_questions_ends_at_a_bound_of_its_asker() {
    let world = World::new().await;
    let ask = |number: usize, subject: &str| {
        let question = Waiting { subject: subject.into(), ..question(&format!("{subject}-{number}")) };
        world.authority.ask_second(question)
    };
    for number in 0..16 {
        ask(number, "olga").await.unwrap();
    }
    assert_eq!(ask(16, "olga").await.unwrap_err().reason, Reason::TooBusy);
    ask(0, "sasha").await.unwrap();
    for (rule, broken) in [
        ("nobody may answer", Waiting { roles: Vec::new(), ..question("x") }),
        ("no time", Waiting { within: Duration::ZERO, ..question("x") }),
        ("no name", Waiting { id: String::new(), ..question("x") }),
        ("too long", Waiting { change: "x".repeat(2_000), ..question("x") }),
        ("another change by the same name", Waiting { change: "write 9 to Speed".into(), ..question("olga-0") }),
    ] {
        assert_eq!(world.authority.ask_second(broken).await.unwrap_err().reason, Reason::ProtocolMisbehavior, "{rule}");
    }
}

async fn as_person(
    world: &World,
    who: &Identity,
    (method, path): (&str, &str),
    login: Option<&str>,
) -> (StatusCode, Value) {
    let request = Request::builder().method(method).uri(path).header("host", "localhost");
    let basic = |login: &str| format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(login));
    let request = match login {
        Some(login) => request.header("authorization", basic(login)),
        None => request,
    };
    let response = world.send(Some(who), request.body(Full::<Bytes>::default()).unwrap()).await;
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

#[tokio::test]
async fn gates_ask_for_their_own_server_and_persons_prove_who_they_are() {
    let world = World::new().await;
    let body = json!({
        "id": "g-1", "subject": "olga", "client": HMI, "roles": ["administrator"], "within": 300,
        "change": "write 7 to Speed",
    });
    let path = format!("/control/v1/questions?audience={MIXER}");
    let elsewhere = format!("/control/v1/questions?audience={REACTOR}");
    for (identity, path) in [(Some(&world.hmi), &path), (None, &path), (Some(&world.mixer), &elsewhere)] {
        let (status, _) = world.ask(identity, "POST", path, Body::Json(body.clone())).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}");
    }
    let (status, said) = world.ask(Some(&world.mixer), "POST", &path, Body::Json(body)).await;
    assert_eq!(status, StatusCode::OK, "{said}");
    const LIST: (&str, &str) = ("GET", "/approvals/v1");
    const APPROVE: (&str, &str) = ("POST", "/approvals/v1/g-1/approve");
    let ada = format!("{ADMIN}:{}", SECRET.replace(' ', "+"));
    for (rule, who, login, want) in [
        ("a stranger", &world.stranger, None, StatusCode::UNAUTHORIZED),
        ("a stranger with a good password", &world.stranger, Some(ada.as_str()), StatusCode::UNAUTHORIZED),
        ("an application alone", &world.controller, None, StatusCode::UNAUTHORIZED),
        ("a wrong password", &world.controller, Some("ada:wrong"), StatusCode::UNAUTHORIZED),
        ("through the application that asked", &world.hmi, Some(ada.as_str()), StatusCode::FORBIDDEN),
    ] {
        let (status, said) = as_person(&world, who, APPROVE, login).await;
        assert_eq!(status, want, "{rule}: {said}");
    }
    let (_, listed) = as_person(&world, &world.controller, LIST, Some(&ada)).await;
    assert_eq!(listed["approvals"][0]["id"], "g-1");
    let (_, listed) = as_person(&world, &world.hmi, LIST, Some(&ada)).await;
    assert_eq!(listed["approvals"], json!([]), "what one may not answer is not shown");
    let (status, said) = as_person(&world, &world.admin, APPROVE, None).await;
    assert_eq!((status, &said["by"]), (StatusCode::OK, &json!(ADMIN)), "{said}");
    let (status, _) = as_person(&world, &world.controller, APPROVE, Some(&ada)).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(approved(&world).await.len(), 1);
}

/// A gate asks again while its client tries again: nobody is worn down by it.
#[tokio::test]
async fn what_was_declined_is_not_asked_again_until_its_time_is_over() {
    let world = World::new().await;
    let (ada, pass) =
        (person(ADMIN, None), |seconds| world.seconds.fetch_add(seconds, std::sync::atomic::Ordering::SeqCst));
    world.authority.ask_second(question("g-1")).await.unwrap();
    world.authority.answer_second("g-1", &ada, false).await.unwrap();
    for _ in 0..29 {
        pass(10);
        world.authority.ask_second(question("g-1")).await.unwrap();
        assert_eq!(world.authority.waiting_for(&ada), []);
        assert_eq!(world.authority.answer_second("g-1", &ada, true).await.unwrap(), None, "it was answered");
    }
    assert_eq!(approved(&world).await, []);
    // Declined ones take the places of others of who asks.
    for number in 0..15 {
        world.authority.ask_second(question(&format!("h-{number}"))).await.unwrap();
    }
    assert_eq!(world.authority.ask_second(question("i-1")).await.unwrap_err().reason, Reason::TooBusy);
    pass(10);
    world.authority.ask_second(question("g-1")).await.unwrap();
    assert!(world.authority.waiting_for(&ada).contains(&question("g-1")), "the time of the first is over");
}
