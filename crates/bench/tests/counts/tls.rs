//! Handshakes of TLS 1.3 between the client of our gates and the server of our authority, in memory: the bytes of each flight.

use std::sync::Arc;

use cost::algorithm::Key;
use cost::protocol::tls::{Group, Tls};
use cost::protocol::{Party, lines};
use gates::clock;
use gates::https::client_config;
use gates::pki::make::{Application, Curve, Made, self_signed, self_signed_on};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, ConnectionCommon, HandshakeKind, RootCertStore, ServerConnection};

use super::lengths::{compare, messages};

fn made(key: Key) -> Made {
    let (application, now) = (Application::local("server", "urn:test:server"), clock::now().unix);
    match key {
        Key::Rsa(bits) => {
            let key_bits = u16::try_from(bits).unwrap();
            self_signed(&Application { key_bits, ..application }, now)
        }
        Key::Ecdsa(256) => self_signed_on(Curve::P256, &application, now),
        Key::Ed25519 => self_signed_on(Curve::Ed25519, &application, now),
        other => panic!("no certificate is made for {other}"),
    }
    .unwrap()
}

/// The cipher and the group of a client that takes no other.
fn only(root: &Made, cipher: &str, group: Group) -> ClientConfig {
    let suite = match cipher {
        "aes-128-gcm" => aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256,
        "aes-256-gcm" => aws_lc_rs::cipher_suite::TLS13_AES_256_GCM_SHA384,
        _ => aws_lc_rs::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    };
    let group = match group {
        Group::X25519 => aws_lc_rs::kx_group::X25519,
        Group::EcdhP256 => aws_lc_rs::kx_group::SECP256R1,
    };
    let provider =
        CryptoProvider { cipher_suites: vec![suite], kx_groups: vec![group], ..aws_lc_rs::default_provider() };
    let mut store = RootCertStore::empty();
    store.add(CertificateDer::from(root.der.clone())).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(provider)).with_safe_default_protocol_versions();
    builder.unwrap().with_root_certificates(store).with_no_client_auth()
}

/// The server, and clients that connect to it one after the other.
struct Ends {
    client: Arc<ClientConfig>,
    server: Arc<rustls::ServerConfig>,
}

impl Ends {
    fn new(server: &Made, client: ClientConfig) -> Self {
        let mut client = client;
        client.resumption = Resumption::in_memory_sessions(16);
        let key = PrivateKeyDer::try_from(server.key_der.to_vec()).unwrap();
        let server = authority::server_config(vec![CertificateDer::from(server.der.clone())], key).unwrap();
        Self { client: Arc::new(client), server }
    }

    /// What went each way, flight by flight: the client's hello, the server's, the client's end, tickets.
    fn handshake(&self) -> (HandshakeKind, [Vec<(String, u64)>; 2]) {
        let name = ServerName::try_from("localhost").unwrap();
        let mut client = ClientConnection::new(Arc::clone(&self.client), name).unwrap();
        let mut server = ServerConnection::new(Arc::clone(&self.server)).unwrap();
        let mut sent = [Vec::new(), Vec::new()];
        let mut down = Vec::new();
        loop {
            let up = carry(&mut client, &down);
            down = carry(&mut server, &up);
            for (way, bytes) in sent.iter_mut().zip([&up, &down]) {
                if !bytes.is_empty() {
                    way.push(("a flight".to_owned(), bytes.len() as u64));
                }
            }
            if up.is_empty() && down.is_empty() {
                return (client.handshake_kind().unwrap(), sent);
            }
        }
    }
}

/// Takes what came in and gives what goes out.
fn carry<D>(end: &mut ConnectionCommon<D>, mut from: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while !from.is_empty() {
        end.read_tls(&mut from).unwrap();
        end.process_new_packets().unwrap();
    }
    while end.wants_write() {
        end.write_tls(&mut out).unwrap();
    }
    out
}

fn held(rule: &str, tls: Tls, ends: &Ends, far: &mut Vec<String>) {
    for (resumed, kind) in [(0.0, HandshakeKind::Full), (1.0, HandshakeKind::Resumed)] {
        let model = lines(&[Tls { resumed, ..tls }.connect((Party::Client, Party::Server))]);
        let (real, sent) = ends.handshake();
        assert_eq!(real, kind, "{rule}");
        for (by, sent) in [Party::Client, Party::Server].into_iter().zip(&sent) {
            let model = messages(&model, by);
            assert_eq!(model.len(), sent.len(), "{rule} {kind:?}: {model:?} {sent:?}");
            compare(&format!("{rule} {kind:?}"), &model, sent, far);
        }
    }
}

/// Every kind of certificate, with and without one of the client; full handshakes and resumed ones.
#[test]
fn handshakes_are_about_as_long_as_the_model_says() {
    let mut far = Vec::new();
    let own = |one: &Made| (vec![one.der.clone()], one.key_der.to_vec());
    for key in [Key::Rsa(2048), Key::Rsa(3072), Key::Rsa(4096), Key::Ecdsa(256), Key::Ed25519] {
        let server = made(key);
        for shown in [None, Some(Key::Rsa(2048)), Some(Key::Ecdsa(256))] {
            let identity = shown.map(|key| own(&made(key)));
            let client = ClientConfig::clone(&client_config([server.der.clone()], identity).unwrap());
            let tls = Tls { client: shown, ..Tls::ours(key) };
            held(&format!("{key}, the client {shown:?}"), tls, &Ends::new(&server, client), &mut far);
        }
    }
    assert!(far.is_empty(), "{} flights:\n{}", far.len(), far.join("\n"));
}

/// Ciphers and groups that our own ends take, but would not pick.
#[test]
fn other_ciphers_and_groups_are_about_as_long_as_the_model_says() {
    let mut far = Vec::new();
    let key = Key::Ecdsa(256);
    let server = made(key);
    for cipher in ["aes-128-gcm", "aes-256-gcm", "chacha20-poly1305"] {
        for group in [Group::X25519, Group::EcdhP256] {
            let tls = Tls { certificates: 1, cipher, group, ..Tls::new(key) };
            let ends = Ends::new(&server, only(&server, cipher, group));
            held(&format!("{cipher} {}", group.word()), tls, &ends, &mut far);
        }
    }
    assert!(far.is_empty(), "{} flights:\n{}", far.len(), far.join("\n"));
}
