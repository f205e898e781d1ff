//! What the cost model says that a connection does, held against what our own ends do: how often each uses its private keys (here), and
//! how long each message is. A difference is a fault of one of them.

mod lengths;
mod service;
#[path = "../../../client/tests/it/support/mod.rs"]
#[allow(dead_code, reason = "the pretend authority is for tests of the client")]
mod support;
mod tls;
mod wire;
#[path = "../../../client/tests/it/support/world.rs"]
#[allow(dead_code, reason = "some people are for tests of the client")]
mod world;

use cost::algorithm::Key;
use cost::choose::Mode;
use cost::protocol::opcua::{Channel, OpcUa, Policy, User};
use cost::protocol::tls::Tls;
use cost::protocol::tokens::{Flow, Tokens};
use cost::protocol::{Line, Party, Phase, lines};
use gates::pki::make::Curve;
use opcua_types::MessageSecurityMode::{self, Sign, SignAndEncrypt};
use ua_proto::client::Credential;
use ua_proto::crypto::SecurityPolicyId;
use wire::{Kind, LIFETIME, PASSWORD, People, Uses, Wire};

/// A policy as both call it, with a kind of key that it takes.
struct Row {
    real: SecurityPolicyId,
    policy: Policy,
    key: Key,
    kind: Kind,
}

/// Without a policy users still prove who they are, with RSA.
fn rows() -> Vec<Row> {
    use SecurityPolicyId as Id;
    let rsa = |real, policy, bits| Row { real, policy, key: Key::Rsa(u32::from(bits)), kind: Kind::Rsa(bits) };
    vec![
        rsa(Id::None, Policy::None, 2_048),
        rsa(Id::Basic256Sha256, Policy::Basic256Sha256, 2_048),
        rsa(Id::Basic256Sha256, Policy::Basic256Sha256, 4_096),
        rsa(Id::Aes128Sha256RsaOaep, Policy::Aes128Sha256RsaOaep, 2_048),
        rsa(Id::Aes256Sha256RsaPss, Policy::Aes256Sha256RsaPss, 3_072),
        Row { real: Id::EccNistP256, policy: Policy::EccNistP256, key: Key::Ecdsa(256), kind: Kind::On(Curve::P256) },
        Row {
            real: Id::EccCurve25519,
            policy: Policy::EccCurve25519,
            key: Key::Ed25519,
            kind: Kind::On(Curve::Ed25519),
        },
    ]
}

/// The modes that go with a policy.
fn modes(row: &Row) -> Vec<(MessageSecurityMode, Mode)> {
    match row.policy {
        Policy::None => vec![(MessageSecurityMode::None, Mode::None)],
        _ => vec![(Sign, Mode::Sign), (SignAndEncrypt, Mode::SignAndEncrypt)],
    }
}

/// Signatures and decrypted blocks of an end.
fn private(lines: &[Line], by: Party) -> (u64, u64) {
    let of = |verb: &str| {
        let own = lines.iter().filter(|line| line.by == by && line.private && line.operation.starts_with(verb));
        own.map(|line| line.times).sum()
    };
    (of("sign"), of("decrypt"))
}

/// What is done with the server, authority aside.
fn at_server(phases: Vec<Phase>) -> Vec<Line> {
    lines(&phases.into_iter().filter(|phase| phase.ends.1 == Party::Server).collect::<Vec<_>>())
}

fn predicted(phases: Vec<Phase>) -> Uses {
    let lines = at_server(phases);
    Uses { client: private(&lines, Party::Client), server: private(&lines, Party::Server) }
}

fn since(now: Uses, before: Uses) -> Uses {
    let less = |one: (u64, u64), other: (u64, u64)| (one.0 - other.0, one.1 - other.1);
    Uses { client: less(now.client, before.client), server: less(now.server, before.server) }
}

/// A user, as the model and as the client have it, and whether its token is encrypted once more.
fn users(people: &People, row: &Row, mode: Mode) -> Vec<(&'static str, User, Credential, bool)> {
    let (token, bytes) = people.token();
    let tokens = |encrypted| {
        let flow = Flow::OAuth2(Tls::new(Key::Ecdsa(256)));
        User::Token(Box::new(Tokens { bytes, encrypted, ..Tokens::new(flow) }))
    };
    let mut users = vec![
        ("anonymous", User::Anonymous, Credential::Anonymous, false),
        ("password", User::Password(PASSWORD.len() as u64), People::password(), false),
        ("certificate", User::Certificate(row.key), people.certificate(), false),
    ];
    // Without a policy there is no place for a token; without encryption by the channel it is always encrypted for the server.
    if mode != Mode::None {
        users.push(("token twice", tokens(true), token.clone(), true));
    }
    if mode == Mode::SignAndEncrypt {
        users.push(("token", tokens(false), token, false));
    }
    users
}

/// Every policy, mode and user: opening, activating once more, renewing the channel's keys.
#[test]
fn keys_are_used_as_often_as_the_model_says() {
    for row in rows() {
        let people = People::new(row.kind);
        for (real, mode) in modes(&row) {
            for (name, user, credential, twice) in users(&people, &row, mode) {
                let rule = format!("{} {} {mode:?} {name}", row.policy.word(), row.key);
                let channel = Channel::new(row.policy, mode, row.key).unwrap();
                let opcua = OpcUa { channel, user };
                let mut wire = Wire::new(&people, vec![(row.real, real)]);
                let before = people.uses();
                wire.connect(&people, (row.real, real), credential.clone(), twice);
                assert_eq!(wire.activated, 1, "{rule}");
                let opened = people.uses();
                assert_eq!(since(opened, before), predicted(opcua.connect()), "{rule}: opened");

                // What a new token does at the server; anybody else may do it, too.
                wire.reactivate(credential);
                assert_eq!(wire.activated, 2, "{rule}");
                let again = people.uses();
                let activation = opcua.connect().into_iter().filter(|phase| phase.name == "session activated");
                assert_eq!(since(again, opened), predicted(activation.collect()), "{rule}: activated again");
                if name.starts_with("token") {
                    assert_eq!(since(again, opened), predicted(opcua.refresh()), "{rule}: refreshed");
                }

                // Three quarters of a lifetime later, and not yet six.
                wire.pass(LIFETIME * 4 / 5);
                assert_eq!(since(people.uses(), again), predicted(opcua.renew()), "{rule}: renewed");
                let renewals = wire.sent.client.iter().filter(|(kind, _)| kind == "OPN").count() - 1;
                assert_eq!(renewals, 1, "{rule}");
            }
        }
    }
}
