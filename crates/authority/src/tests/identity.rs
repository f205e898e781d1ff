//! Every form in which FinishRequestToken and RequestAccessToken take an identity, and how each is refused. The requests
//! are made by hand, as a client of another vendor would make them.

use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};

use access_model::{Thumbprint, UnixTime};
use arc_swap::ArcSwap;
use opcua_types::{
    ByteString, ByteStringBody, ExtensionObject, IssuedIdentityToken, NodeId, SignatureData, StatusCode, UAString,
    UserNameIdentityToken, Variant, X509IdentityToken,
};
use token::{Algorithm, Claims, Issuer, Signer, SystemEntropy, mint};
use ua_proto::crypto::{PrivateKey, SecurityPolicyId, encrypt_legacy_secret, seal_rsa_secret};
use ua_proto::pki::{Certificate, OwnIdentity};
use ua_proto::server::Caller;

use super::opcua::{Face, string, text};
use super::world::*;
use crate::{ISSUED, OpcUaKeys, USER_NAME};

const POLICIES: [SecurityPolicyId; 3] =
    [SecurityPolicyId::Basic256Sha256, SecurityPolicyId::Aes128Sha256RsaOaep, SecurityPolicyId::Aes256Sha256RsaPss];
const BASIC: SecurityPolicyId = SecurityPolicyId::Basic256Sha256;
const NOW: i64 = 1_800_000_000;

type Finished = Result<Vec<Variant>, StatusCode>;

/// RSA keys take their time, so all tests share them.
fn identity(slot: usize) -> OwnIdentity {
    static KEYS: LazyLock<Vec<(Vec<u8>, Vec<u8>)>> = LazyLock::new(|| {
        let make = |(name, until)| {
            let key = rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).unwrap();
            let mut params = rcgen::CertificateParams::default();
            params.distinguished_name.push(rcgen::DnType::CommonName, name);
            params.not_after = rcgen::date_time_ymd(until, 1, 1);
            let uri = format!("urn:test:{name}");
            params.subject_alt_names.push(rcgen::SanType::URI(uri.as_str().try_into().unwrap()));
            (params.self_signed(&key).unwrap().der().to_vec(), key.serialize_der())
        };
        [("authority", 2100), ("olga", 2100), ("victor", 2100), ("past", 2026)].map(make).to_vec()
    });
    let (der, key) = &KEYS[slot];
    OwnIdentity::new(Certificate::from_der(der).unwrap(), PrivateKey::from_der(key).unwrap()).unwrap()
}

fn own() -> OwnIdentity {
    identity(0)
}

/// A world whose authority has an OPC UA side.
async fn world() -> World {
    world_with(Arc::new(own())).await
}

async fn world_with(own: Arc<OwnIdentity>) -> World {
    let world = World::with(|config| {
        config.request_access_token = true;
        config.identity_issuers = vec![provider().1];
    })
    .await;
    let identity = Arc::new(ArcSwap::new(own));
    world.authority.serve_opcua(OpcUaKeys { identity, users: None });
    world
}

fn provider() -> (&'static Signer, Issuer) {
    static SIGNER: LazyLock<Signer> = LazyLock::new(|| Signer::generate(Algorithm::Es256).unwrap());
    let issuer = Issuer { name: "https://idp".into(), keys: vec![SIGNER.public()], require_confirmation: false };
    (&SIGNER, issuer)
}

fn machine(face: &Face<'_>) -> Caller {
    Caller { user: None, ..face.caller() }
}

fn sealed(policy: SecurityPolicyId, secret: &str, at: i64) -> Vec<u8> {
    let at = UnixTime::from_seconds(at);
    seal_rsa_secret(policy, &own().certificate, secret.as_bytes(), &[7; 32], at, &mut SystemEntropy::new()).unwrap()
}

fn legacy(policy: SecurityPolicyId, secret: &str) -> Vec<u8> {
    encrypt_legacy_secret(policy.algorithms(), own().certificate.key(), secret.as_bytes(), &[]).unwrap()
}

fn user_name(policy: &str, name: &str, password: Vec<u8>, algorithm: &str) -> Variant {
    Variant::ExtensionObject(ExtensionObject::new(UserNameIdentityToken {
        policy_id: policy.into(),
        user_name: name.into(),
        password: ByteString::from(password),
        encryption_algorithm: if algorithm.is_empty() { UAString::null() } else { algorithm.into() },
    }))
}

fn issued(policy: &str, token: Vec<u8>, algorithm: &str) -> Variant {
    Variant::ExtensionObject(ExtensionObject::new(IssuedIdentityToken {
        policy_id: policy.into(),
        token_data: ByteString::from(token),
        encryption_algorithm: algorithm.into(),
    }))
}

/// Start, then Finish, under this policy.
async fn ask(face: &Face<'_>, policy: &str, identity: Variant) -> Finished {
    let id = face.start(machine(face), MIXER, policy).await.unwrap();
    face.finish(machine(face), &id, &[], identity).await
}

#[tokio::test]
async fn passwords_are_taken_in_every_form() {
    let world = world().await;
    let face = Face::new(&world);
    for policy in POLICIES {
        let id = format!("{USER_NAME}-{}", policy.name());
        let (_, data) = face.begin(machine(&face), MIXER, &id).await.unwrap();
        assert_eq!(data, own().certificate.der(), "ServiceData is what secrets are encrypted for");
        let algorithm = policy.algorithms().encryption_uri();
        for (form, secret, algorithm) in [
            ("EncryptedSecret", sealed(policy, SECRET, NOW), ""),
            ("legacy", legacy(policy, SECRET), algorithm),
            ("legacy, no algorithm", legacy(policy, SECRET), ""),
        ] {
            let outputs = ask(&face, &id, user_name(&id, "olga", secret, algorithm)).await.unwrap();
            let claims = world.verify(&text(&outputs[0]), MIXER).await.unwrap();
            assert_eq!(claims.subject, "olga", "{form} with {policy}");
        }
        // A policy that only the identity names, and one that only StartRequestToken names.
        assert!(ask(&face, "", user_name(&id, "olga", sealed(policy, SECRET, NOW), "")).await.is_ok());
        assert!(ask(&face, &id, user_name("", "olga", sealed(policy, SECRET, NOW), "")).await.is_ok());
    }
    let method = face.nodes.request_access_token.unwrap();
    let id = format!("{USER_NAME}-{}", BASIC.name());
    let inputs = vec![user_name(&id, "olga", sealed(BASIC, SECRET, NOW), ""), string(MIXER)];
    let answer = face.call(machine(&face), method, inputs).await;
    assert_eq!(answer.status, StatusCode::Good);
    assert_eq!(world.verify(&text(&answer.outputs[0]), MIXER).await.unwrap().subject, "olga");
}

#[tokio::test]
async fn whatever_is_wrong_with_a_secret_is_told_alike_after_the_same_work() {
    let own = Arc::new(own());
    let world = world_with(Arc::clone(&own)).await;
    let face = Face::new(&world);
    let id = format!("{USER_NAME}-{}", BASIC.name());
    let broken = |at: usize, mut blob: Vec<u8>| {
        let at = if at == 0 { blob.len() - 1 } else { at };
        blob[at] ^= 1;
        blob
    };
    let good = sealed(BASIC, SECRET, NOW);
    let shown = sealed(BASIC, SECRET, NOW);
    ask(&face, &id, user_name(&id, "olga", shown.clone(), "")).await.unwrap();
    world.put("denis", Some(SECRET), false).await;
    world.put("vera", None, true).await;
    let key_data = 5 + 4 + 4 + BASIC.uri().len() + 4 + 20 + 8 + 2;
    for (number, (rule, name, secret)) in [
        ("the wrong password", "olga", sealed(BASIC, "wrong", NOW)),
        ("nobody", "nobody", sealed(BASIC, SECRET, NOW)),
        ("a closed account", "denis", sealed(BASIC, SECRET, NOW)),
        ("an account without a password", "vera", sealed(BASIC, SECRET, NOW)),
        ("nobody, legacy", "nobody", legacy(BASIC, SECRET)),
        ("nobody, and broken", "nobody", broken(key_data, good.clone())),
        ("not UTF-8", "olga", legacy_bytes(&[0xff, 0xfe])),
        ("its keys are broken", "olga", broken(key_data, good.clone())),
        ("its payload is broken", "olga", broken(key_data + 256, good.clone())),
        ("its signature is broken", "olga", broken(0, good.clone())),
        ("its time is broken", "olga", broken(key_data - 8, good)),
        ("shown before", "olga", shown),
        ("too old", "olga", sealed(BASIC, SECRET, NOW - 3_601)),
        ("from the future", "olga", sealed(BASIC, SECRET, NOW + 301)),
        ("a broken legacy form", "olga", broken(0, legacy(BASIC, SECRET))),
        ("the wrong password, legacy", "olga", legacy(BASIC, "wrong")),
    ]
    .into_iter()
    .enumerate()
    {
        // Each from another place: guessing is slowed down.
        let caller = Caller { address: format!("10.0.{number}.1:1"), ..machine(&face) };
        let started = face.start(caller.clone(), MIXER, &id).await.unwrap();
        world.authority.inner.passwords.hashed();
        let before = own.key.uses();
        let refused = face.finish(caller, &started, &[], user_name(&id, name, secret, "")).await;
        assert_eq!(refused, Err(StatusCode::BadIdentityTokenRejected), "{rule}");
        let after = own.key.uses();
        let decrypted = (after.decryptions - before.decryptions, after.signatures - before.signatures);
        assert_eq!(decrypted, (1, 0), "{rule}: uses of the private key");
        assert_eq!(world.authority.inner.passwords.hashed(), 1, "{rule}: passwords hashed");
    }
    let reasons: Vec<_> = world.audit().await.into_iter().filter_map(|one| one.reason).collect();
    assert!(reasons.iter().all(|reason| reason == "user_credentials") && reasons.len() == 16, "{reasons:?}");
}

fn legacy_bytes(secret: &[u8]) -> Vec<u8> {
    encrypt_legacy_secret(BASIC.algorithms(), own().certificate.key(), secret, &[]).unwrap()
}

#[tokio::test]
async fn what_cannot_be_a_secret_is_refused_before_any_decryption() {
    let world = world().await;
    let face = Face::new(&world);
    let id = format!("{USER_NAME}-{}", BASIC.name());
    let oaep = BASIC.algorithms().encryption_uri();
    let other = SecurityPolicyId::Aes256Sha256RsaPss;
    let foreign = {
        let at = UnixTime::from_seconds(NOW);
        let receiver = identity(1).certificate;
        seal_rsa_secret(BASIC, &receiver, SECRET.as_bytes(), &[7; 32], at, &mut SystemEntropy::new()).unwrap()
    };
    let mut elliptic = sealed(BASIC, SECRET, NOW);
    elliptic[2] = 0x8a;
    for (rule, policy, identity) in [
        ("clear where it is to be encrypted", id.as_str(), user_name(&id, "olga", SECRET.into(), "")),
        ("encrypted where it is to be clear", USER_NAME, user_name(USER_NAME, "olga", legacy(BASIC, SECRET), oaep)),
        ("another policy", &id, user_name(&id, "olga", sealed(other, SECRET, NOW), "")),
        ("another receiver", &id, user_name(&id, "olga", foreign, "")),
        ("an algorithm beside an EncryptedSecret", &id, user_name(&id, "olga", sealed(BASIC, SECRET, NOW), oaep)),
        ("another algorithm", &id, user_name(&id, "olga", legacy(BASIC, SECRET), other.algorithms().encryption_uri())),
        ("elliptic curves", &id, user_name(&id, "olga", elliptic, "")),
        ("nothing", &id, user_name(&id, "olga", vec![], "")),
        ("half a block", &id, user_name(&id, "olga", vec![1; 300], "")),
        ("too many blocks", &id, user_name(&id, "olga", vec![1; 256 * 33], "")),
        ("cut off", &id, user_name(&id, "olga", sealed(BASIC, SECRET, NOW)[..100].to_vec(), "")),
        ("a name too long", &id, user_name(&id, &"o".repeat(257), sealed(BASIC, SECRET, NOW), "")),
        ("another policy than started", USER_NAME, user_name(&id, "olga", sealed(BASIC, SECRET, NOW), "")),
        ("another kind than started", ISSUED, user_name("", "olga", SECRET.into(), "")),
        ("nothing where a name was started", &id, Variant::Empty),
        ("no structure", &id, string("olga")),
    ] {
        assert_eq!(ask(&face, policy, identity).await, Err(StatusCode::BadIdentityTokenInvalid), "{rule}");
    }
}

#[tokio::test]
async fn tokens_of_identity_providers_are_taken_in_every_form() {
    let world = world().await;
    let face = Face::new(&world);
    let audience = world.authority.config().issuer.clone();
    let at = |seconds: i64| UnixTime::from_seconds(NOW + seconds);
    let claims = Claims {
        issuer: "https://idp".into(),
        subject: "olga".into(),
        audience,
        expires: at(600),
        not_before: at(0),
        issued_at: at(0),
        id: "x".into(),
        client: None,
        confirmation: None,
        roles: vec![],
        groups: vec![],
        rights: None,
        epoch: access_model::Epoch(0),
        padding: 0,
    };
    let jwt = mint(&claims, provider().0).unwrap().as_str().to_owned();
    let encrypted = format!("{ISSUED}-{}", BASIC.name());
    let oaep = BASIC.algorithms().encryption_uri();
    for (form, policy, identity) in [
        ("clear", ISSUED, issued(ISSUED, jwt.clone().into_bytes(), "")),
        ("EncryptedSecret", &encrypted, issued(&encrypted, sealed(BASIC, &jwt, NOW), "")),
        ("legacy", &encrypted, issued(&encrypted, legacy(BASIC, &jwt), oaep)),
    ] {
        let outputs = ask(&face, policy, identity).await.unwrap();
        assert_eq!(world.verify(&text(&outputs[0]), MIXER).await.unwrap().subject, "olga", "{form}");
    }
    let forged = jwt[..jwt.len() - 4].to_owned() + "AAAA";
    for (rule, identity) in [
        ("forged", issued(&encrypted, sealed(BASIC, &forged, NOW), "")),
        ("for another authority", issued(&encrypted, legacy(SecurityPolicyId::Aes256Sha256RsaPss, &jwt), "")),
    ] {
        assert_eq!(ask(&face, &encrypted, identity).await, Err(StatusCode::BadIdentityTokenRejected), "{rule}");
    }
}

/// A signature as the server machine hands it out: the bytes it came in.
fn raw_signature(algorithm: &str, signature: &[u8]) -> Variant {
    let mut bytes = Vec::new();
    for part in [algorithm.as_bytes(), signature] {
        bytes.extend_from_slice(&u32::try_from(part.len()).unwrap().to_le_bytes());
        bytes.extend_from_slice(part);
    }
    Variant::ExtensionObject(ExtensionObject::new(ByteStringBody::new(bytes.into(), NodeId::new(0, 458_u32))))
}

fn x509(policy: &str, user: &OwnIdentity) -> Variant {
    let certificate_data = ByteString::from(user.certificate.der().to_vec());
    Variant::ExtensionObject(ExtensionObject::new(X509IdentityToken { policy_id: policy.into(), certificate_data }))
}

async fn register(world: &World, name: &str, certificate: Thumbprint, enabled: bool) {
    let user = store::User { enabled, ..world.user(name, vec![certificate], None) };
    world.authority.db().put_user(&user).await.unwrap();
}

#[tokio::test]
async fn user_certificates_sign_what_the_service_sent() {
    let world = world().await;
    let face = Face::new(&world);
    let (olga, victor, past) = (identity(1), identity(2), identity(3));
    register(&world, "olga", olga.certificate.thumbprint(), true).await;
    register(&world, "sasha", past.certificate.thumbprint(), true).await;
    let sign = |policy: SecurityPolicyId, user: &OwnIdentity, data: &[u8]| {
        let message = [own().certificate.der(), data].concat();
        policy.algorithms().sign(&user.key, &message).unwrap()
    };
    for policy in POLICIES {
        let id = format!("certificate-{}", policy.name());
        let (started, data) = face.begin(machine(&face), MIXER, &id).await.unwrap();
        assert_eq!(data.len(), 32);
        let signature = raw_signature(policy.algorithms().signature_uri(), &sign(policy, &olga, &data));
        let outputs = face.finish_signed(machine(&face), &started, &[], x509(&id, &olga), signature).await.unwrap();
        assert_eq!(world.verify(&text(&outputs[0]), MIXER).await.unwrap().subject, "olga", "{policy}");
    }
    let id = format!("certificate-{}", BASIC.name());
    let uri = BASIC.algorithms().signature_uri();
    let (rejected, invalid) = (StatusCode::BadIdentityTokenRejected, StatusCode::BadIdentityTokenInvalid);
    let old = face.begin(machine(&face), MIXER, &id).await.unwrap().1;
    for (rule, user, make, want) in [
        (
            "another's signature",
            &olga,
            Box::new(|data: &[u8]| raw_signature(uri, &sign(BASIC, &victor, data))),
            rejected,
        ),
        ("over an old value", &olga, Box::new(|_: &[u8]| raw_signature(uri, &sign(BASIC, &olga, &old))), rejected),
        ("nobody's certificate", &victor, Box::new(|data| raw_signature(uri, &sign(BASIC, &victor, data))), rejected),
        ("out of its time", &past, Box::new(|data| raw_signature(uri, &sign(BASIC, &past, data))), rejected),
        ("no signature", &olga, Box::new(|_| Variant::Empty), invalid),
        ("an empty signature", &olga, Box::new(|_| raw_signature(uri, &[])), rejected),
        ("another algorithm", &olga, Box::new(|data| raw_signature("x", &sign(BASIC, &olga, data))), invalid),
        ("a null signature", &olga, Box::new(|_| null_signature()), invalid),
    ]
        as [(&str, &OwnIdentity, Box<dyn Fn(&[u8]) -> Variant + Send + Sync>, StatusCode); 8]
    {
        let (started, data) = face.begin(machine(&face), MIXER, &id).await.unwrap();
        let finished = face.finish_signed(machine(&face), &started, &[], x509(&id, user), make(&data)).await;
        assert_eq!(finished, Err(want), "{rule}");
    }
    register(&world, "olga", olga.certificate.thumbprint(), false).await;
    let (started, data) = face.begin(machine(&face), MIXER, &id).await.unwrap();
    let signature = raw_signature(uri, &sign(BASIC, &olga, &data));
    let finished = face.finish_signed(machine(&face), &started, &[], x509(&id, &olga), signature).await;
    assert_eq!(finished, Err(rejected), "disabled");
    // RequestAccessToken sends nothing to sign.
    let method = face.nodes.request_access_token.unwrap();
    let answer = face.call(machine(&face), method, vec![x509(&id, &olga), string(MIXER)]).await;
    assert_eq!(answer.status, invalid);
}

fn null_signature() -> Variant {
    let signature = SignatureData { algorithm: UAString::null(), signature: ByteString::null() };
    Variant::ExtensionObject(ExtensionObject::new(signature))
}

#[tokio::test]
async fn a_secret_for_the_certificate_before_still_opens() {
    let world = World::new().await;
    let renewed = identity(1).succeeding(&own());
    let identity = Arc::new(ArcSwap::from_pointee(renewed));
    world.authority.serve_opcua(OpcUaKeys { identity, users: None });
    let face = Face::new(&world);
    let id = format!("{USER_NAME}-{}", BASIC.name());
    world.seconds.store(NOW, Ordering::SeqCst);
    assert!(ask(&face, &id, user_name(&id, "olga", sealed(BASIC, SECRET, NOW), "")).await.is_ok());
}

#[tokio::test]
async fn without_keys_only_clear_forms_are_offered() {
    let world = World::new().await;
    let face = Face::new(&world);
    let id = format!("{USER_NAME}-{}", BASIC.name());
    assert_eq!(face.start(machine(&face), MIXER, &id).await, Err(StatusCode::BadIdentityTokenInvalid));
    let answer = face.call(machine(&face), face.nodes.get_service_description, vec![]).await;
    assert!(matches!(&answer.outputs[2], Variant::Array(policies) if policies.values.len() == 2));
    world.authority.serve_opcua(OpcUaKeys { identity: Arc::new(ArcSwap::from_pointee(own())), users: None });
    let answer = face.call(machine(&face), face.nodes.get_service_description, vec![]).await;
    assert!(matches!(&answer.outputs[2], Variant::Array(policies) if policies.values.len() == 8));
}
