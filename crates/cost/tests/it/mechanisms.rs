//! The basic mechanisms, step by step: counts and sizes that follow from the standards, worked out by hand.

use cost::algorithm::{Cipher, Key};
use cost::choose::Mode;
use cost::mechanism::{Part, Role, certificate_bytes, encryption, key_exchange};
use cost::model::Setting;
use cost::protocol::Protocol;
use cost::protocol::ipsec::{Auth, Ipsec};
use cost::protocol::opcua::{Channel, OpcUa, Policy, User};
use cost::read::{Language, read};

/// Operations with how many times they are done, and messages with their bytes, in order.
fn told(parts: &[Part]) -> Vec<(Role, String, u64)> {
    let mut all = Vec::new();
    for part in parts {
        match part {
            Part::Work { by, work, .. } if work.needed => {
                all.push((*by, work.operation.clone().unwrap_or_default(), work.times));
            }
            Part::Message { name, from, bytes } | Part::Unawaited { name, from, bytes } => {
                all.push((*from, (*name).to_owned(), *bytes))
            }
            Part::Either { then, otherwise, .. } => {
                all.extend(told(then));
                all.extend(told(otherwise));
            }
            Part::Use { parts, .. } => all.extend(told(parts)),
            Part::Work { .. } | Part::Check { .. } => {}
        }
    }
    all
}

/// Three messages: a name of 64 bytes, half a key and a nonce of 32; those with both nonces; one nonce. A block of OAEP
/// with SHA-1 holds 42 bytes less than the key has (RFC 8017 section 7.1.1).
#[test]
fn what_a_short_key_cannot_encrypt_at_once_goes_in_several_blocks() {
    for (rsa, bits, first, second) in [
        // 128 and 160 bytes in blocks of 22, 86 and 150.
        (512, 256, (6, 384), (8, 512)),
        (1024, 256, (2, 256), (2, 256)),
        (1536, 256, (1, 192), (2, 384)),
        // Half a key of 16 bytes less: 112 and 144.
        (1024, 128, (2, 256), (2, 256)),
        (1536, 128, (1, 192), (1, 192)),
        (2048, 256, (1, 256), (1, 256)),
        (4096, 256, (1, 512), (1, 512)),
    ] {
        let (encrypt, decrypt) = (format!("encrypt rsa-{rsa}"), format!("decrypt rsa-{rsa}"));
        let (own, peer) = (Role::Own, Role::Peer);
        assert_eq!(
            told(&key_exchange(Key::Rsa(rsa), bits)),
            [
                (own, encrypt.clone(), first.0),
                (own, "{S, K_S, n_S}P(R)".to_owned(), first.1),
                (peer, decrypt.clone(), first.0),
                (peer, encrypt, second.0),
                (peer, "{R, K_R, n_S, n_R}P(S)".to_owned(), second.1),
                (own, decrypt, second.0),
                (own, "n_R".to_owned(), 32),
            ],
            "rsa-{rsa}, {bits} bits"
        );
    }
}

/// Figure 4b: a digest, then the key of who signed. What is hashed of a certificate is all but the signature, its
/// algorithm and their frames: 256 + 5 of a bit string, 15, 4 around all.
#[test]
fn a_certificate_is_verified_as_any_signature() {
    let seen = |by: Role, key: u64| {
        let certificate = certificate_bytes(Key::Rsa(2048));
        assert_eq!((certificate, certificate - 261 - 15 - 4), (869, 589));
        [
            (by.other(), "certificate".to_owned(), certificate),
            (by, "hash sha-256".to_owned(), 1),
            (by, format!("verify rsa-{key}"), 1),
        ]
    };
    let (own, peer) = (Role::Own, Role::Peer);
    let asymmetric = Cipher::read("rsa-2048-oaep-sha256").unwrap();
    let parts = encryption(&asymmetric, &setting("cipher = \"rsa-2048-oaep-sha256\""), 100);
    assert_eq!(told(&parts)[..3], seen(own, 2048));
    assert_eq!(hashed(&parts), [589]);
    let setting = setting("cipher = \"aes-256-gcm\"\nexchange = \"rsa-2048\"\nknown = 0");
    let parts = encryption(&Cipher::read("aes-256-gcm").unwrap(), &setting, 100);
    assert_eq!(told(&parts)[..6], [seen(own, 2048), seen(peer, 2048)].concat());
    assert_eq!(hashed(&parts), [589, 589]);
}

/// `valid` is about what an end itself has signed or coded: however long a chain of certificates is, no more checks can
/// fail.
#[test]
fn a_longer_chain_of_certificates_fails_no_more_often() {
    let channel = |certificates: u32, policy, key| {
        let channel = Channel { certificates, valid: 0.5, ..Channel::new(policy, Mode::SignAndEncrypt, key).unwrap() };
        Protocol::OpcUa(OpcUa { channel, user: User::Certificate(key) })
    };
    let ipsec = |certificates: u32, cipher| {
        let (auth, valid) = (Auth::Signature(Key::Rsa(2048), Key::Ecdsa(256)), 0.5);
        Protocol::Ipsec(Ipsec { certificates, cipher, valid, ..Ipsec::new(auth) })
    };
    type Of<'a> = &'a dyn Fn(u32) -> Protocol;
    let connected: [(&str, Of, usize); 4] = [
        // Both OPN; answer of CreateSession, ActivateSession, and its user; codes of four messages.
        ("RSA", &|chain| channel(chain, Policy::Basic256Sha256, Key::Rsa(2048)), 2 + 3 + 4),
        // The same without codes.
        ("curve25519", &|chain| channel(chain, Policy::EccCurve25519, Key::Ed25519), 2 + 3),
        // The AUTH of both, and with CBC the codes of both messages.
        ("AEAD", &|chain| ipsec(chain, "aes-128-gcm"), 2),
        ("CBC", &|chain| ipsec(chain, "aes-128-cbc"), 2 + 2),
    ];
    for (rule, protocol, wanted) in connected {
        for chain in [1, 2, 5] {
            let parts: Vec<Part> = protocol(chain).connect().into_iter().flat_map(|phase| phase.parts).collect();
            assert_eq!(fails(&parts), wanted, "{rule}: {chain}");
        }
    }
}

/// Checks that may fail.
fn fails(parts: &[Part]) -> usize {
    let each = parts.iter().map(|part| match part {
        Part::Check { passes, .. } => usize::from(*passes < 1.0),
        Part::Use { parts, .. } => fails(parts),
        Part::Either { then, otherwise, .. } => fails(then) + fails(otherwise),
        Part::Work { .. } | Part::Message { .. } | Part::Unawaited { .. } => 0,
    });
    each.sum()
}

/// Confidentiality with nothing known before.
fn setting(words: &str) -> Setting {
    let text = format!(
        "[workload]\nclients = 1\n[node.n]\n[component.x]\nnode = \"n\"\n[component.y]\nnode = \"n\"\n\
         [connector.c]\nfrom = \"x\"\nto = \"y\"\n[[sequence.main]]\nsend = \"give\"\nover = \"c\"\n\
         [[secure]]\nproperty = \"data-confidentiality\"\non = \"connector c\"\nreuse = 0\n{words}\n"
    );
    let model = read(&text, Language::Toml).unwrap_or_else(|fault| panic!("{fault}\n{text}"));
    model.annotations[0].alternatives[0].clone().unwrap()
}

/// Bytes of each digest.
fn hashed(parts: &[Part]) -> Vec<u64> {
    let mut all = Vec::new();
    for part in parts {
        match part {
            Part::Work { name: "execHashFunc", work, .. } => all.push(work.bytes),
            Part::Either { otherwise, .. } => all.extend(hashed(otherwise)),
            _ => {}
        }
    }
    all
}
