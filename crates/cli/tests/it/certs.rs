//! `trapkey certs init`: everybody in the plant gets a certificate that the others accept.

use std::os::unix::fs::PermissionsExt;

use gates::pki::PkiStore;
use ua_proto::pki::{Certificate, Purpose, TrustList, TrustSettings, validate};

use super::Scene;

fn accepts(trust: &TrustList, certificate: &Certificate) -> bool {
    let application_uri = certificate.application_uri();
    validate(certificate, trust, Purpose::Client { application_uri }, gates::clock::now().unix).is_ok()
}

#[test]
fn everybody_in_the_plant_gets_a_certificate_that_the_others_accept() {
    let scene = Scene::plant();
    let said = scene.json(&["certs", "init"]);
    let names: Vec<&str> =
        said["certificates"].as_array().unwrap().iter().map(|made| made["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"authority") && names.contains(&"mixer") && names.contains(&"hmi"), "{names:?}");
    let trust = PkiStore::new(scene.path("pki/mixer"), TrustSettings::default()).load().unwrap();
    for name in names {
        let identity = PkiStore::new(scene.path("pki").join(name), TrustSettings::default()).identity().unwrap();
        assert!(accepts(&trust, &identity.certificate), "{name}");
        assert_eq!(identity.certificate.key_bits(), 2048);
    }
    for key in ["ca/ca-key.pem", "hmi/own/private/own.pem", "authority/tls/tls-key.pem"] {
        let mode = std::fs::metadata(scene.path("pki").join(key)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{key}");
    }
    insta::assert_snapshot!(scene.run(&["certs", "init"]));
    let shown = scene.json(&["certs", "show", "pki/mixer/own/certs/own.der"]);
    assert_eq!(
        (&shown["application_uri"], &shown["hosts"][0]),
        (&"urn:trapkey:demo:mixer".into(), &"localhost".into())
    );
}

#[test]
fn one_more_application_is_signed_by_the_same_authority() {
    let scene = Scene::plant();
    insta::assert_snapshot!(scene.run(&["certs", "add", "spare", "urn:spare"]));
    scene.json(&["certs", "init"]);
    insta::assert_snapshot!(scene.run(&["certs", "add", "spare", "urn:spare", "--host", "10.0.0.7"]));
    insta::assert_snapshot!(scene.run(&["certs", "add", "spare", "urn:spare"]));
    insta::assert_snapshot!(scene.run(&["certs", "add", "../spare", "urn:spare"]));
    let trust = PkiStore::new(scene.path("pki/mixer"), TrustSettings::default()).load().unwrap();
    let spare = PkiStore::new(scene.path("pki/spare"), TrustSettings::default()).identity().unwrap();
    assert!(accepts(&trust, &spare.certificate));
    let other = Scene::plant();
    other.json(&["certs", "init"]);
    let foreign = PkiStore::new(other.path("pki/hmi"), TrustSettings::default()).identity().unwrap();
    assert!(!accepts(&trust, &foreign.certificate));
}

#[test]
fn what_was_taken_back_is_accepted_nowhere_and_stays_taken_back() {
    let scene = Scene::plant();
    scene.json(&["certs", "init", "--days", "40"]);
    let trust = || PkiStore::new(scene.path("pki/mixer"), TrustSettings::default()).load().unwrap();
    let certificate = |name: &str| {
        PkiStore::new(scene.path("pki").join(name), TrustSettings::default()).identity().unwrap().certificate.clone()
    };
    assert!(accepts(&trust(), &certificate("hmi")));
    insta::assert_snapshot!(scene.run(&["certs", "revoke", "hmi"]));
    assert!(!accepts(&trust(), &certificate("hmi")));
    // By file, beside one that was revoked before.
    let said = scene.json(&["certs", "revoke", "hmi", "pki/dashboard/own/certs/own.der", "--reason", "superseded"]);
    assert_eq!((&said["number"], &said["revoked"]), (&3.into(), &2.into()));
    assert_eq!(
        (&said["certificates"][0]["already"], &said["certificates"][1]["already"]),
        (&true.into(), &false.into())
    );
    assert!(!accepts(&trust(), &certificate("hmi")) && !accepts(&trust(), &certificate("dashboard")));
    assert!(accepts(&trust(), &certificate("controller")));
    // Whoever comes later gets the list as it is.
    scene.json(&["certs", "add", "late", "urn:late"]);
    let late = PkiStore::new(scene.path("pki/late"), TrustSettings::default()).load().unwrap();
    assert!(!accepts(&late, &certificate("hmi")) && accepts(&late, &certificate("late")));
    // The list itself ends, and with it everybody's standing.
    let said = scene.json(&["certs", "revoke", "--days", "1"]);
    assert_eq!((&said["number"], &said["revoked"]), (&4.into(), &2.into()));
    let tomorrow = gates::clock::now().unix + std::time::Duration::from_secs(2 * 86_400);
    let controller = certificate("controller");
    let purpose = Purpose::Client { application_uri: controller.application_uri() };
    assert!(validate(&controller, &trust(), purpose, tomorrow).is_err());

    let other = Scene::plant();
    other.json(&["certs", "init"]);
    let foreign = other.path("pki/hmi/own/certs/own.der").display().to_string();
    for (wrong, why) in [
        (foreign.as_str(), "was signed by another certification authority"),
        ("pki/ca/ca.der", "is the certification authority itself"),
        ("nobody", "is neither a folder"),
        ("plant.toml", "holds no certificate"),
    ] {
        let said = scene.run(&["certs", "revoke", wrong]);
        assert!(said.starts_with("exit 2") && said.contains(why), "{said}");
    }
    assert_eq!(scene.json(&["certs", "revoke"])["number"], 5, "what is refused signs nothing");
}

#[test]
fn the_overview_says_what_ends_when() {
    let scene = Scene::plant();
    scene.json(&["certs", "init", "--days", "40"]);
    scene.json(&["certs", "revoke", "hmi"]);
    let said = scene.run(&["certs", "list"]);
    assert!(said.starts_with("exit 0") && said.contains("urn:trapkey:demo:mixer"), "{said}");
    assert!(said.lines().any(|line| line.starts_with("hmi ") && line.ends_with("revoked")), "{said}");
    assert!(said.lines().any(|line| line.contains("revocation list 2, 1 entries")), "{said}");
    assert!(scene.run(&["certs", "list", "--within", "41"]).starts_with("exit 1"));
    let lines = scene.json(&["certs", "list", "--within", "30"]);
    assert!(lines.as_array().unwrap().iter().all(|line| line["due"] == false), "{lines:#}");
}
