//! Which steps of a calibration each security policy asks for (OPC 10000-7, security policies), and what is said where one is missing.

use std::collections::BTreeSet;

use cost::Class;
use cost::algorithm::Key;
use cost::choose::Mode;
use cost::net::lay;
use cost::protocol::opcua::{Channel, OpcUa, Policy, User};
use cost::protocol::tls::Tls;
use cost::protocol::tokens::{Asker, Flow, Tokens};
use cost::protocol::{Party, Phase, lines};
use cost::weave;

use crate::made;

/// The steps with long-lived key pairs that phases ask for.
fn steps(phases: &[Phase]) -> BTreeSet<String> {
    let pairs = ["rsa-", "ecdsa-", "ed25519"];
    let all = lines(phases).into_iter().map(|line| line.operation);
    all.filter(|step| pairs.iter().any(|pair| step.contains(pair))).collect()
}

/// Everything that clients do with a server: by name, by certificate, and with a token that an authority gives for a password.
fn of_policy(policy: Policy, key: Key) -> BTreeSet<String> {
    let channel = Channel::new(policy, Mode::SignAndEncrypt, key).unwrap();
    let tokens = Tokens { asker: Asker::Explicit(10), ..Tokens::new(Flow::StartFinish(channel)) };
    let token = User::Token(Box::new(Tokens { signature: Key::Ecdsa(384), encrypted: true, ..tokens }));
    let users = [User::Anonymous, User::Password(10), User::Certificate(key), token];
    let phases = users.into_iter().flat_map(|user| {
        let opcua = OpcUa { channel, user };
        [opcua.once(), opcua.connect(), opcua.renew(), opcua.refresh(), opcua.request(100, 100, true)].concat()
    });
    let mut steps = steps(&phases.collect::<Vec<_>>());
    steps.retain(|step| !step.ends_with("ecdsa-p384"));
    steps
}

#[test]
fn every_policy_asks_for_the_steps_that_it_uses() {
    let pkcs: &[&str] = &["sign rsa-2048", "verify rsa-2048", "encrypt rsa-2048", "decrypt rsa-2048"];
    // Certificates are signed with PKCS #1 v1.5 with each policy of RSA.
    let pss: &[&str] = &[
        "sign rsa-2048-pss",
        "verify rsa-2048-pss",
        "encrypt rsa-2048-oaep-sha256",
        "decrypt rsa-2048-oaep-sha256",
        "verify rsa-2048",
    ];
    for (policy, key, wanted) in [
        (Policy::Basic256Sha256, Key::Rsa(2048), pkcs),
        (Policy::Aes128Sha256RsaOaep, Key::Rsa(2048), pkcs),
        (Policy::Aes256Sha256RsaPss, Key::Rsa(2048), pss),
        (Policy::EccNistP256, Key::Ecdsa(256), &["sign ecdsa-p256", "verify ecdsa-p256"]),
        (Policy::EccCurve25519, Key::Ed25519, &["sign ed25519", "verify ed25519"]),
    ] {
        let wanted: BTreeSet<String> = wanted.iter().map(|step| (*step).to_owned()).collect();
        assert_eq!(of_policy(policy, key), wanted, "{policy:?}");
    }
    // Without a policy that of users is Basic256Sha256.
    let channel = Channel::new(Policy::None, Mode::None, Key::Rsa(2048)).unwrap();
    let opcua = |user| steps(&OpcUa { channel, user }.connect());
    assert!(opcua(User::Anonymous).is_empty());
    assert_eq!(opcua(User::Password(10)), ["decrypt rsa-2048", "encrypt rsa-2048"].map(str::to_owned).into());
    assert_eq!(
        opcua(User::Certificate(Key::Rsa(2048))),
        ["sign rsa-2048", "verify rsa-2048"].map(str::to_owned).into()
    );
}

/// TLS 1.3 has no other padding in its handshake (RFC 8446 section 4.2.3); certificates may be signed with PKCS #1 v1.5, and ours are.
#[test]
fn a_handshake_of_tls_is_signed_with_pss() {
    let tls = Tls { client: Some(Key::Ecdsa(256)), ..Tls::new(Key::Rsa(3072)) };
    let wanted =
        ["sign ecdsa-p256", "sign rsa-3072-pss", "verify ecdsa-p256", "verify rsa-3072", "verify rsa-3072-pss"];
    assert_eq!(steps(&[tls.connect((Party::Client, Party::Server))]), wanted.map(str::to_owned).into());
}

const MODEL: &str = r#"
[workload]
clients = 1
[node.n]
platform = "p"
[component.a]
node = "n"
[component.b]
node = "n"
[connector.wire]
from = "a"
to = "b"
[[sequence.main]]
send = "ask"
over = "wire"
bytes = "100 B"
[[secure]]
on = "connector wire"
"#;

/// Prices that were taken before a padding had steps of its own do not stand for it: what is missing is named.
#[test]
fn a_step_that_nobody_has_measured_is_named() {
    let channel = "property = \"secure-channel\"\nprotocol = \"opc-ua\"\nkey = \"rsa-2048\"\nreuse = 0\n";
    let cipher = "property = \"data-confidentiality\"\nreuse = 1\n";
    for (annotation, missing) in [
        (format!("{channel}policy = \"Basic256Sha256\""), None),
        (format!("{channel}policy = \"Aes128_Sha256_RsaOaep\""), None),
        (format!("{channel}policy = \"Aes256_Sha256_RsaPss\""), Some("sign rsa-2048-pss")),
        (format!("{cipher}cipher = \"rsa-2048-oaep-sha1\""), None),
        (format!("{cipher}cipher = \"rsa-2048-oaep-sha256\""), Some("encrypt rsa-2048-oaep-sha256")),
        (format!("{cipher}cipher = \"rsa-2048-pkcs1\""), Some("encrypt rsa-2048-pkcs1")),
    ] {
        let text = format!("{MODEL}{annotation}\n");
        let before =
            ["sign rsa-2048", "verify rsa-2048", "encrypt rsa-2048", "decrypt rsa-2048"].map(|it| (it, "1 ms"));
        let before = before.iter().chain(&REST).fold(text.clone(), |text, (operation, each)| {
            format!("{text}[price.p.\"{operation}\"]\neach = \"{each}\"\n")
        });
        let laid = lay(&weave(&made::model(&before)));
        let Some(missing) = missing else {
            laid.unwrap_or_else(|fault| panic!("{fault}\n{annotation}"));
            continue;
        };
        let fault = laid.map(|_| ()).expect_err(&annotation);
        assert_eq!((fault.class, fault.name.as_str()), (Class::NoPrice, missing), "{annotation}");
        assert!(fault.why.contains(&format!("`{missing}` has no price on the platform `p`: measure it")), "{fault}");
        lay(&weave(&made::model(&made::priced(&text, &[])))).unwrap_or_else(|fault| panic!("{fault}"));
    }
}

/// What a channel asks for beside key pairs.
const REST: [(&str, &str); 9] = [
    ("hash sha-256", "0"),
    ("sign hmac-sha256", "0"),
    ("verify hmac-sha256", "0"),
    ("encrypt aes-256-cbc", "0"),
    ("decrypt aes-256-cbc", "0"),
    ("encrypt aes-128-cbc", "0"),
    ("decrypt aes-128-cbc", "0"),
    ("derive p-sha256", "0"),
    ("append audit", "0"),
];
