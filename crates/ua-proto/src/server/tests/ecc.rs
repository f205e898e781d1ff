//! Ephemeral keys and EccEncryptedSecret at the server: what is taken, and every way to cheat with them.

use access_model::{AuditKind, Reason};
use opcua_types::*;

use super::keys::*;
use super::world::*;
use crate::crypto::{Sealing, SecurityPolicyId, encrypt_legacy_secret, seal_ecc_secret, seal_rsa_secret};
use crate::pki::OwnIdentity;
use crate::server::{ConnId, EndpointSecurity};
use crate::wire::KeyHeader;

const P256: EndpointSecurity = (SecurityPolicyId::EccNistP256, MessageSecurityMode::SignAndEncrypt);
const ED: EndpointSecurity = (SecurityPolicyId::EccCurve25519, MessageSecurityMode::Sign);
const BOTH: [EndpointSecurity; 2] = [P256, ED];

fn world(endpoint: EndpointSecurity) -> (World, ConnId) {
    let mut world = Setup { endpoints: vec![endpoint, ENCRYPT], ..Setup::default() }.start();
    let conn = world.connect(endpoint);
    (world, conn)
}

/// The answer in an additional header: a key whose signature verifies, or a status.
fn key_of(header: &ExtensionObject, policy: SecurityPolicyId) -> Option<Result<Vec<u8>, StatusCode>> {
    let parameters = header.inner_as::<AdditionalParametersType>()?.parameters.clone()?;
    let value = parameters.into_iter().find(|entry| entry.key.name.as_ref() == "ECDHKey")?.value;
    match value {
        Variant::StatusCode(status) => Some(Err(status)),
        Variant::ExtensionObject(object) => {
            let key = object.inner_as::<EphemeralKeyType>()?;
            let (public, signature) = (key.public_key.as_ref(), key.signature.as_ref());
            policy.algorithms().verify(of(&SERVER, policy).certificate.key(), public, signature).unwrap();
            Some(Ok(public.to_vec()))
        }
        _ => None,
    }
}

/// A session, and what the server says about a key for `uri`.
fn create(world: &mut World, conn: ConnId, uri: Option<&str>) -> (Login, Option<Result<Vec<u8>, StatusCode>>) {
    let peer = &world.peers[&conn];
    let (policy, own) = (peer.security.0, peer.own.clone().unwrap());
    let mut header = RequestHeader::new(&NodeId::null(), &DateTime::null(), 1);
    header.additional_header = uri.map_or_else(ExtensionObject::null, KeyHeader::request);
    let request = CreateSessionRequest {
        request_header: header,
        endpoint_url: URL.into(),
        client_nonce: ByteString::from(vec![7_u8; 32]),
        client_certificate: ByteString::from(own.certificate.der().to_vec()),
        client_description: ApplicationDescription { application_uri: CLIENT_URI.into(), ..Default::default() },
        requested_session_timeout: 600_000.0,
        ..CreateSessionRequest::default()
    };
    let response: CreateSessionResponse = world.ask(conn, &request).unwrap();
    let key = key_of(&response.response_header.additional_header, policy);
    (Login { token: response.authentication_token, nonce: response.server_nonce }, key)
}

/// Activates and asks for the next key.
fn activate(
    world: &mut World,
    conn: ConnId,
    login: &mut Login,
    identity: ExtensionObject,
) -> Result<Vec<u8>, StatusCode> {
    let policy = world.peers[&conn].security.0;
    let mut request = world.activation(conn, login, identity);
    request.request_header.additional_header = KeyHeader::request(policy.uri());
    let response: ActivateSessionResponse = world.ask(conn, &request)?;
    login.nonce = response.server_nonce;
    key_of(&response.response_header.additional_header, policy).unwrap()
}

fn sealed(world: &World, policy: SecurityPolicyId, own: &OwnIdentity, receiver: &[u8], login: &Login) -> Vec<u8> {
    let certificate = own.certificate.chain();
    let at = world.now.unix;
    let sealing = Sealing { policy, sender: &own.key, certificate: &certificate, receiver, at };
    let mut entropy = token::SystemEntropy::new();
    seal_ecc_secret(&sealing, b"alice-password", login.nonce.as_ref(), &mut entropy).unwrap()
}

fn user(policy: SecurityPolicyId, blob: Vec<u8>, algorithm: &str) -> ExtensionObject {
    ExtensionObject::new(UserNameIdentityToken {
        policy_id: format!("username_{}", policy.name()).into(),
        user_name: "alice".into(),
        password: blob.into(),
        encryption_algorithm: algorithm.into(),
    })
}

#[test]
fn a_password_travels_as_ecc_encrypted_secret_with_a_new_key_each_time() {
    for endpoint in BOTH {
        let policy = endpoint.0;
        let (mut world, conn) = world(endpoint);
        let (mut login, key) = create(&mut world, conn, Some(policy.uri()));
        let mut key = key.unwrap().unwrap();
        let own = of(&CLIENT, policy);
        for _ in 0..3 {
            let identity = user(policy, sealed(&world, policy, &own, &key, &login), "");
            let next = activate(&mut world, conn, &mut login, identity).unwrap();
            assert_ne!(next, key, "{endpoint:?}");
            key = next;
            assert_eq!(world.read_one(conn, &login, "Setpoint"), Ok(Variant::from(20.0)));
        }
    }
}

#[test]
fn a_key_is_given_to_whoever_asks_for_one_of_the_channels_policy() {
    let (mut world, conn) = world(P256);
    assert_eq!(create(&mut world, conn, None).1, None);
    for other in [ED.0.uri(), POLICY.uri(), "urn:unknown", ""] {
        let (_, key) = create(&mut world, conn, Some(other));
        assert_eq!(key, Some(Err(StatusCode::BadSecurityPolicyRejected)), "{other}");
    }
    let rsa = world.connect(ENCRYPT);
    let (_, key) = create(&mut world, rsa, Some(P256.0.uri()));
    assert_eq!(key, Some(Err(StatusCode::BadSecurityPolicyRejected)), "on a channel of another policy");
}

/// Each row is one thing wrong with the secret.
#[test]
fn a_secret_that_is_not_for_this_activation_is_refused() {
    for endpoint in BOTH {
        let policy = endpoint.0;
        let (mut world, conn) = world(endpoint);
        let (mut login, key) = create(&mut world, conn, Some(policy.uri()));
        let key = key.unwrap().unwrap();
        let (own, other) = (of(&CLIENT, policy), of(&OTHER, policy));
        let good = sealed(&world, policy, &own, &key, &login);
        let (second, foreign_key) = create(&mut world, conn, Some(policy.uri()));
        let foreign_key = foreign_key.unwrap().unwrap();
        let rsa = SERVER.certificate.clone();
        let algorithms = POLICY.algorithms();
        let legacy = encrypt_legacy_secret(algorithms, rsa.key(), b"alice-password", login.nonce.as_ref()).unwrap();
        let mut entropy = token::SystemEntropy::new();
        let encrypted =
            seal_rsa_secret(POLICY, &rsa, b"alice-password", login.nonce.as_ref(), world.now.unix, &mut entropy);
        let rows = [
            ("of another session's key", sealed(&world, policy, &own, &foreign_key, &login), Reason::TokenSecret),
            ("with another session's nonce", sealed(&world, policy, &own, &key, &second), Reason::NonceMismatch),
            ("of another sender", sealed(&world, policy, &other, &key, &login), Reason::TokenSecret),
            ("in the legacy form for RSA", legacy, Reason::TokenSecret),
            ("as RsaEncryptedSecret", encrypted.unwrap(), Reason::TokenSecret),
            ("in clear", b"alice-password".to_vec(), Reason::TokenSecret),
            ("cut off", good[..good.len() - 1].to_vec(), Reason::TokenSecret),
        ];
        for (rule, blob, reason) in rows {
            let refused = activate(&mut world, conn, &mut login, user(policy, blob, ""));
            assert_eq!(refused, Err(StatusCode::BadIdentityTokenInvalid), "{rule} {endpoint:?}");
            assert_eq!(world.last_reason(AuditKind::SessionActivated), Some(reason), "{rule} {endpoint:?}");
        }
        let named = user(policy, good.clone(), algorithms.encryption_uri());
        assert_eq!(activate(&mut world, conn, &mut login, named), Err(StatusCode::BadIdentityTokenInvalid));
        // After all that the key still serves, once.
        activate(&mut world, conn, &mut login, user(policy, good.clone(), "")).unwrap();
        let replayed = activate(&mut world, conn, &mut login, user(policy, good, ""));
        assert_eq!(replayed, Err(StatusCode::BadIdentityTokenInvalid));
    }
}

#[test]
fn without_a_key_no_secret_opens_and_a_spent_one_is_gone() {
    for endpoint in BOTH {
        let policy = endpoint.0;
        let (mut world, conn) = world(endpoint);
        let own = of(&CLIENT, policy);
        let (_, key) = create(&mut world, conn, Some(policy.uri()));
        let key = key.unwrap().unwrap();
        let (mut login, none) = create(&mut world, conn, None);
        assert_eq!(none, None);
        let identity = user(policy, sealed(&world, policy, &own, &key, &login), "");
        assert_eq!(activate(&mut world, conn, &mut login, identity), Err(StatusCode::BadIdentityTokenInvalid));

        let (mut login, key) = create(&mut world, conn, Some(policy.uri()));
        let key = key.unwrap().unwrap();
        let identity = user(policy, sealed(&world, policy, &own, &key, &login), "");
        // The activation does not ask for a next one.
        world.activate(conn, &mut login, identity).unwrap();
        let again = user(policy, sealed(&world, policy, &own, &key, &login), "");
        assert_eq!(activate(&mut world, conn, &mut login, again), Err(StatusCode::BadIdentityTokenInvalid));
    }
}

/// The certificate that an OPN is for must be of the kind that its policy takes, whoever it belongs to.
#[test]
fn a_policy_of_curves_is_not_opened_for_the_rsa_certificate() {
    use crate::wire::{ChunkKind, MessageHeader, MessageKind, OpenHeader};
    for (policy, receiver) in [(P256.0, &*SERVER), (POLICY, &of(&SERVER, P256.0)), (P256.0, &of(&SERVER, ED.0))] {
        let (mut world, conn) = world((policy, MessageSecurityMode::SignAndEncrypt));
        world.server.handle_input(crate::server::Input::Disconnected { conn }, world.now);
        let conn = ConnId(99);
        world.input(crate::server::Input::Accepted { conn, peer: "10.0.0.99".into() });
        let mut bytes = Vec::new();
        crate::wire::Hello {
            protocol_version: 0,
            receive_buffer: 65_536,
            send_buffer: 65_536,
            max_message: 0,
            max_chunks: 0,
            endpoint_url: URL.into(),
        }
        .put(&mut bytes);
        let start = bytes.len();
        MessageHeader::begin(MessageKind::Open, ChunkKind::Final, &mut bytes);
        let chain = of(&CLIENT, policy).certificate.chain();
        OpenHeader {
            channel_id: 0,
            policy_uri: policy.uri(),
            sender: Some(&chain),
            receiver: Some(&receiver.certificate.thumbprint_sha1()),
            end: 0,
        }
        .put(&mut bytes);
        bytes.extend_from_slice(&[0; 600]);
        let size = u32::try_from(bytes.len() - start).unwrap();
        bytes[start + 4..start + 8].copy_from_slice(&size.to_le_bytes());
        let before = world.records.len();
        world.input(crate::server::Input::Bytes { conn, bytes: &bytes });
        let refused = world.records[before..].iter().find(|record| record.kind == AuditKind::ChannelOpened);
        assert!(
            refused.is_some_and(|record| record.detail.contains("another certificate")),
            "{:?}",
            world.records.last()
        );
    }
}
