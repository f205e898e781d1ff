//! `trapkey token`: a token is shown, and checked as its server would.

use access_model::{Epoch, Thumbprint, UnixTime};
use token::{Algorithm, Claims, Signer};

use super::Scene;

/// A token that ends in an hour, and its issuer's keys, in files.
fn scene(audience: &str) -> Scene {
    let scene = Scene::empty();
    let signer = Signer::generate(Algorithm::Es256).unwrap();
    let now = gates::clock::now().unix.as_seconds();
    let claims = Claims {
        issuer: "https://authority".into(),
        subject: "olga".into(),
        audience: audience.into(),
        expires: UnixTime::from_seconds(now + 3_600),
        not_before: UnixTime::from_seconds(now),
        issued_at: UnixTime::from_seconds(now),
        id: "t-1".into(),
        client: Some("urn:hmi".into()),
        confirmation: Some(Thumbprint([7; 32])),
        roles: vec!["operator".into()],
        groups: Vec::new(),
        rights: None,
        epoch: Epoch(4),
        padding: 0,
    };
    scene.write("token", &format!("{}\n", token::mint(&claims, &signer).unwrap().as_str()));
    scene.write("keys.json", &token::jwks(&[signer.public()]));
    scene.write("other.json", &token::jwks(&[Signer::generate(Algorithm::Es256).unwrap().public()]));
    scene
}

fn verify(scene: &Scene, keys: &str, issuer: &str) -> serde_json::Value {
    scene.json(&["token", "verify", "token", "--keys", keys, "--issuer", issuer, "--audience", "urn:mixer"])
}

#[test]
fn a_token_is_checked_as_its_server_would() {
    let ours = scene("urn:mixer");
    let said = verify(&ours, "keys.json", "https://authority");
    assert_eq!((&said["valid"], &said["claims"]["subject"]), (&true.into(), &"olga".into()));
    assert_eq!(verify(&ours, "other.json", "https://authority")["reason"], "token_unknown_key");
    assert_eq!(verify(&ours, "keys.json", "https://other")["reason"], "token_issuer");
    assert_eq!(verify(&scene("urn:filler"), "keys.json", "https://authority")["reason"], "token_audience");
    let said = scene("urn:filler").run(&[
        "token",
        "verify",
        "token",
        "--keys",
        "keys.json",
        "--issuer",
        "https://authority",
        "--audience",
        "urn:mixer",
    ]);
    insta::assert_snapshot!(said);
}

#[test]
fn a_token_is_shown_with_a_warning() {
    let scene = scene("urn:mixer");
    let said = scene.run(&["token", "inspect", "token"]);
    assert!(said.starts_with("exit 0\n--- stdout\nNOT VERIFIED"), "{said}");
    assert!(said.contains("olga") && said.contains("urn:mixer"), "{said}");
    scene.write("token", "ey.no.token");
    insta::assert_snapshot!(scene.run(&["token", "inspect", "token"]));
}
