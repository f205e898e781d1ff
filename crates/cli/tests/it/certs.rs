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
