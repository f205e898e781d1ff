//! Who may ask for a grant on another's behalf, and what comes of it.

use access_model::{Reason, Thumbprint};
use hyper::StatusCode;
use serde_json::{Value, json};

use super::world::*;
use crate::{PolicySource, PolicyTexts};

const OPEN: &str = "sign_in = [\"user_name\", \"x509\", \"anonymous\"]\n";

/// The batch plant, where clients without a token may sign in at the mixer like this.
fn plant(sign_in: &str, anonymous: bool) -> PolicyTexts {
    let mixer = "uri = \"urn:trapkey:demo:mixer\"\n";
    let mut texts = texts();
    assert!(texts.plant.contains(mixer));
    texts.plant = texts.plant.replacen(mixer, &format!("{mixer}{sign_in}"), 1);
    if anonymous {
        texts.plant += "\n[[person]]\nname = \"anonymous@mixer\"\nroles = [\"observer\"]\n";
    }
    texts
}

async fn world(sign_in: &str, anonymous: bool) -> World {
    World::open(tempfile::tempdir().unwrap(), PolicySource::Texts(plant(sign_in, anonymous)), |_| {}).await
}

async fn ask(world: &World, asker: Option<&Identity>, question: Value) -> (StatusCode, Value) {
    world.ask(asker, "POST", "/guard/v1/grants", Body::Json(question)).await
}

fn olga(client: Option<Thumbprint>) -> Value {
    let by = json!({"user_name": {"name": "olga", "password": SECRET}});
    json!({"audience": MIXER, "by": by, "client": client.map(|one| one.to_string()), "address": "10.0.0.9:50000"})
}

#[tokio::test]
async fn only_the_server_itself_asks_and_only_for_itself() {
    let world = world(OPEN, true).await;
    for (rule, asker, audience, status, error) in [
        ("the server", Some(&world.mixer), MIXER, StatusCode::OK, None),
        ("nobody", None, MIXER, StatusCode::UNAUTHORIZED, Some("unknown_client")),
        ("a stranger", Some(&world.stranger), MIXER, StatusCode::UNAUTHORIZED, Some("unknown_client")),
        ("a client", Some(&world.hmi), MIXER, StatusCode::UNAUTHORIZED, Some("unknown_client")),
        ("an administrator", Some(&world.admin), MIXER, StatusCode::UNAUTHORIZED, Some("unknown_client")),
        ("for another server", Some(&world.mixer), REACTOR, StatusCode::UNAUTHORIZED, Some("unknown_client")),
        ("for itself, which is no server", Some(&world.hmi), HMI, StatusCode::NOT_FOUND, Some("unknown_audience")),
    ] {
        let mut question = olga(Some(world.hmi.thumbprint));
        question["audience"] = audience.into();
        let (got, body) = ask(&world, asker, question).await;
        assert_eq!((got, body["error"].as_str()), (status, error), "{rule}: {body}");
    }
    assert!(world.audited("token_issued", "denied", "no application has the certificate").await);
}

#[tokio::test]
async fn the_plant_file_says_how_clients_may_sign_in() {
    for (rule, sign_in, status) in [
        ("not at all", "", StatusCode::FORBIDDEN),
        ("in another way", "sign_in = [\"x509\", \"anonymous\"]\n", StatusCode::FORBIDDEN),
        ("like this", "sign_in = [\"user_name\"]\n", StatusCode::OK),
    ] {
        let world = world(sign_in, true).await;
        let (got, body) = ask(&world, Some(&world.mixer), olga(Some(world.hmi.thumbprint))).await;
        assert_eq!(got, status, "{rule}: {body}");
    }
    let faults = pdp::Plant::parse(&plant("sign_in = [\"user\"]\n", true).plant).unwrap_err().to_string();
    assert!(faults.contains("nobody signs in by `user`"), "{faults}");
}

#[tokio::test]
async fn a_grant_is_for_this_server_and_this_client_and_of_this_person() {
    let world = world(OPEN, true).await;
    let mixer = Some(&world.mixer);
    world.authority.db().put_user(&world.user("sasha", vec![world.stranger.thumbprint], None)).await.unwrap();
    let by_certificate = json!({"x509": world.stranger.thumbprint.to_string()});
    for (rule, by, client, subject, bound_to, through) in [
        ("by password", olga(None)["by"].clone(), Some(world.hmi.thumbprint), "olga", world.hmi.thumbprint, Some(HMI)),
        ("by certificate", by_certificate, Some(world.hmi.thumbprint), "sasha", world.hmi.thumbprint, Some(HMI)),
        ("anonymous", json!("anonymous"), None, "anonymous@mixer", world.mixer.thumbprint, None),
        (
            "with a certificate that nobody has registered",
            olga(None)["by"].clone(),
            Some(Thumbprint([7; 32])),
            "olga",
            Thumbprint([7; 32]),
            None,
        ),
    ] {
        let client = client.map(|one| one.to_string());
        let (status, body) = ask(&world, mixer, json!({"audience": MIXER, "by": by, "client": client})).await;
        assert_eq!(status, StatusCode::OK, "{rule}: {body}");
        assert_eq!(body["bound_to"], bound_to.to_string(), "{rule}");
        let claims = world.verify(&body["access_token"], MIXER).await.unwrap();
        assert_eq!((claims.subject.as_str(), claims.client.as_deref()), (subject, through), "{rule}");
        assert_eq!(claims.confirmation, Some(bound_to), "{rule}");
    }
}

#[tokio::test]
async fn what_is_wrong_gives_nothing_and_a_wrong_password_looks_like_an_unknown_name() {
    let world = world(OPEN, false).await;
    let mixer = Some(&world.mixer);
    let name = |name: &str, password: &str| json!({"user_name": {"name": name, "password": password}});
    let mut answers = Vec::new();
    for (rule, by, reason) in [
        ("wrong password", name("olga", "wrong"), Reason::UserCredentials),
        ("unknown name", name("nobody", SECRET), Reason::UserCredentials),
        ("a certificate of nobody", json!({"x509": world.hmi.thumbprint.to_string()}), Reason::UserCredentials),
        ("no such renewal", json!({"renewal": "x.y"}), Reason::UserCredentials),
        ("anonymous, whom the plant does not know", json!("anonymous"), Reason::PolicyNoPermit),
    ] {
        let client = world.hmi.thumbprint.to_string();
        let (status, body) = ask(&world, mixer, json!({"audience": MIXER, "by": by, "client": client})).await;
        assert_eq!((status.is_success(), body["error"].as_str()), (false, Some(reason.word())), "{rule}: {body}");
        answers.push((status, body));
    }
    assert_eq!(answers[0], answers[1]);
    let odd = json!({"audience": MIXER, "by": "anonymous", "client": "zz"});
    assert_eq!(ask(&world, mixer, odd).await.0, StatusCode::BAD_REQUEST);
    let secret = json!({"audience": MIXER, "by": {"user_name": {"name": "olga", "secret": "hush-hush"}}});
    let (status, body) = ask(&world, mixer, secret).await;
    assert!(status == StatusCode::BAD_REQUEST && !body.to_string().contains("hush"), "{body}");
    let all = format!("{:?}", world.audit().await);
    assert!(!all.contains(SECRET) && !all.contains("hush"), "passwords are nobody's to read");
    let mut hmi = world.authority.db().application(HMI).await.unwrap().unwrap();
    hmi.enabled = false;
    world.authority.db().put_application(&hmi).await.unwrap();
    let (status, body) = ask(&world, mixer, olga(Some(world.hmi.thumbprint))).await;
    assert_eq!((status, &body["error"]), (StatusCode::UNAUTHORIZED, &json!("unknown_client")), "switched off");
}

#[tokio::test]
async fn a_grant_goes_on_once_for_each_renewal_and_only_where_it_was() {
    let world = world(OPEN, true).await;
    let mixer = Some(&world.mixer);
    for client in [Some(world.hmi.thumbprint), None] {
        let (_, first) = ask(&world, mixer, olga(client)).await;
        let renew = |secret: &Value| {
            let client = client.map(|one| one.to_string());
            json!({"audience": MIXER, "by": {"renewal": secret}, "client": client})
        };
        let (status, second) = ask(&world, mixer, renew(&first["renewal"])).await;
        assert_eq!(status, StatusCode::OK, "{second}");
        let claims = world.verify(&second["access_token"], MIXER).await.unwrap();
        assert_eq!((claims.subject.as_str(), claims.confirmation), ("olga", client.or(Some(world.mixer.thumbprint))));
        let (status, _) = ask(&world, mixer, renew(&first["renewal"])).await;
        assert!(!status.is_success(), "a renewal works once");
        let (status, _) = ask(&world, mixer, renew(&second["renewal"])).await;
        assert!(!status.is_success(), "and one that was used takes its line with it");
    }
    let (_, first) = ask(&world, mixer, olga(Some(world.hmi.thumbprint))).await;
    let elsewhere = json!({"audience": MIXER, "by": {"renewal": first["renewal"]}, "client": world.controller.thumbprint.to_string()});
    assert!(!ask(&world, mixer, elsewhere).await.0.is_success(), "another client");
}

#[tokio::test]
async fn a_way_that_is_not_offered_any_more_ends_what_began_by_it() {
    let world = world(OPEN, true).await;
    let mixer = Some(&world.mixer);
    world.authority.db().put_user(&world.user("sasha", vec![world.stranger.thumbprint], None)).await.unwrap();
    let client = world.hmi.thumbprint.to_string();
    let ways = [olga(None)["by"].clone(), json!({"x509": world.stranger.thumbprint.to_string()}), json!("anonymous")];
    let mut renewals = Vec::new();
    for by in ways {
        let (status, body) = ask(&world, mixer, json!({"audience": MIXER, "by": by, "client": client})).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        renewals.push(body["renewal"].clone());
    }
    world.authority.replace(plant("sign_in = [\"x509\"]\n", true), &by()).await.unwrap();
    for ((rule, expected), renewal) in [
        ("by password", StatusCode::FORBIDDEN),
        ("by certificate", StatusCode::OK),
        ("not at all", StatusCode::FORBIDDEN),
    ]
    .into_iter()
    .zip(renewals)
    {
        let question = json!({"audience": MIXER, "by": {"renewal": renewal}, "client": client});
        let (status, body) = ask(&world, mixer, question).await;
        assert_eq!(status, expected, "{rule}: {body}");
    }
}

/// A guard vouches for its clients' certificates: what others hold, or it got for them elsewhere, is not its to spend.
#[tokio::test]
async fn a_guard_spends_and_cuts_what_guards_were_given_for_its_own_server() {
    let world = world(OPEN, true).await;
    let mixer = Some(&world.mixer);
    let renew = |secret: &str| {
        let client = world.hmi.thumbprint.to_string();
        json!({"audience": MIXER, "by": {"renewal": secret}, "client": client})
    };
    let refresh = async |secret: &str| {
        world.token(Some(&world.hmi), &[("grant_type", "refresh_token"), ("refresh_token", secret)]).await
    };
    for audience in [MIXER, REACTOR] {
        let own = world.person("olga", SECRET, audience).await.1;
        let own = own["refresh_token"].as_str().unwrap();
        let (used, line) = (format!("{}.used", own.split('.').next().unwrap()), own);
        for secret in [line.to_owned(), format!("{line}~u"), used.clone(), format!("{used}~u")] {
            assert!(!ask(&world, mixer, renew(&secret)).await.0.is_success(), "{audience}");
        }
        if audience == REACTOR {
            assert_eq!(refresh(line).await.0, StatusCode::OK, "the line of another server is whole");
        }
    }
    let (_, given) = ask(&world, mixer, olga(Some(world.hmi.thumbprint))).await;
    let given = given["renewal"].as_str().unwrap();
    assert!(!refresh(given).await.0.is_success(), "nor does its client spend what the guard was given");
    assert_eq!(ask(&world, mixer, renew(given)).await.0, StatusCode::OK);
}

#[tokio::test]
async fn nobody_is_called_as_nobody_is() {
    let world = world(OPEN, true).await;
    let mixer = Some(&world.mixer);
    for name in ["anonymous@mixer", "Anonymous@mixer", "anonymous@elsewhere"] {
        let path = format!("/admin/v1/users/{name}/password");
        let (status, body) = world.ask(Some(&world.admin), "PUT", &path, Body::Json(json!({"password": SECRET}))).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{name}: {body}");
    }
    // One that is in the store all the same, by whatever way it came there.
    let hash = Some(crate::hash_secret(SECRET).unwrap());
    let user = world.user("anonymous@mixer", vec![world.stranger.thumbprint], hash);
    world.authority.db().put_user(&user).await.unwrap();
    let by_name = json!({"user_name": {"name": "anonymous@mixer", "password": SECRET}});
    let by_certificate = json!({"x509": world.stranger.thumbprint.to_string()});
    for by in [by_name, by_certificate] {
        let client = world.hmi.thumbprint.to_string();
        let (status, body) = ask(&world, mixer, json!({"audience": MIXER, "by": by, "client": client})).await;
        assert_eq!((status, body["error"].as_str()), (StatusCode::FORBIDDEN, Some("identity_not_accepted")), "{body}");
    }
    assert!(!world.person("anonymous@mixer", SECRET, MIXER).await.0.is_success());
    let faults = plant(OPEN, true).plant.replace("anonymous@mixer", "anonymous@mixr");
    let faults = pdp::Plant::parse(&faults).unwrap_err().to_string();
    assert!(faults.contains("nobody at a server that there is not"), "{faults}");
}
