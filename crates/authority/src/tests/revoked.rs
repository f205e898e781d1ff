//! Certificates that their issuer has taken back, over HTTPS.

use std::sync::Arc;

use arc_swap::ArcSwap;
use hyper::StatusCode;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use store::{Application, ApplicationKind};
use ua_proto::pki::{Certificate, Crl, TrustList};

use super::world::*;

const ROBOT: &str = "urn:trapkey:demo:robot";
const SERIAL: u64 = 77;

fn plant_authority() -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, "plant authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn list(issuer: &Issuer<'_, KeyPair>, serials: &[u64]) -> Crl {
    let revoked = |serial: &u64| rcgen::RevokedCertParams {
        serial_number: (*serial).into(),
        revocation_time: rcgen::date_time_ymd(2026, 1, 1),
        reason_code: None,
        invalidity_date: None,
    };
    let params = CertificateRevocationListParams {
        this_update: rcgen::date_time_ymd(2026, 1, 1),
        next_update: rcgen::date_time_ymd(2046, 1, 1),
        crl_number: 1_u64.into(),
        issuing_distribution_point: None,
        revoked_certs: serials.iter().map(revoked).collect(),
        key_identifier_method: rcgen::KeyIdMethod::Sha256,
    };
    Crl::from_der(params.signed_by(issuer).unwrap().der()).unwrap()
}

#[tokio::test]
async fn a_revoked_certificate_is_worth_nothing_over_https_however_it_is_registered() {
    let world = World::new().await;
    let key = KeyPair::generate().unwrap();
    let root = plant_authority().self_signed(&key).unwrap().der().to_vec();
    let issuer = Issuer::new(plant_authority(), key);
    let robot = Identity::issued(ROBOT, &issuer, SERIAL);
    let application = Application {
        uri: ROBOT.into(),
        name: ROBOT.into(),
        kind: ApplicationKind::Client,
        certificates: vec![robot.thumbprint],
        secret_hash: None,
        enabled: true,
        created: access_model::UnixTime::from_seconds(0),
    };
    world.authority.db().put_application(&application).await.unwrap();
    let trust = |serials: &[u64]| TrustList {
        trusted: vec![Arc::new(Certificate::from_der(&root).unwrap())],
        crls: vec![list(&issuer, serials)],
        ..TrustList::default()
    };
    let lists = Arc::new(ArcSwap::from_pointee(trust(&[SERIAL + 1])));
    world.authority.heed_revocations(Arc::clone(&lists));

    let form = [("grant_type", "client_credentials"), ("audience", MIXER)];
    let mut open = world.dial(Some(&robot)).await;
    let (_, body) = world.token(Some(&robot), &form).await;
    assert_ne!(body["error"], "certificate_revoked", "another serial number is listed");
    lists.store(Arc::new(trust(&[SERIAL])));
    let (status, body) = world.token(Some(&robot), &form).await;
    assert_eq!((status, &body["error"]), (StatusCode::FORBIDDEN, &"certificate_revoked".into()));
    assert_eq!(get(&mut open, "/oauth2/jwks").await, 403, "a connection from before is held to the list too");
    assert_eq!(world.token(Some(&world.controller), &form).await.0, StatusCode::OK, "others are served");
    let records = world.audit().await;
    assert!(records.iter().any(|one| one.reason.as_deref() == Some("certificate_revoked")));
}

/// The status of a request over a connection that is open already.
async fn get(stream: &mut (impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin), path: &str) -> u16 {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await.unwrap();
    let mut line = [0; 12];
    stream.read_exact(&mut line).await.unwrap();
    std::str::from_utf8(&line[9..12]).unwrap().parse().unwrap()
}
