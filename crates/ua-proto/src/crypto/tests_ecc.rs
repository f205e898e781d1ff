//! The policies of elliptic curves against known values (vectors/ecc), against themselves, and against cheats.

use proptest::prelude::*;
use serde_json::Value;

use super::ephemeral::{Curve, hkdf};
use super::{
    ChannelKeys, CryptoFailure, EphemeralKey, InvalidSecret, KeyLayout, Role, Sealing, SecurityPolicyId, ephemeral_key,
    open_ecc_secret, seal_ecc_secret,
};
use crate::Entropy;
use crate::pki::OwnIdentity;
use crate::testing::{Counting, Ec, ec_identity, identity, noon};

const ECC: [(SecurityPolicyId, Ec); 2] =
    [(SecurityPolicyId::EccNistP256, Ec::P256), (SecurityPolicyId::EccCurve25519, Ec::Ed25519)];

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// Always the same bytes.
struct Fixed(Vec<u8>);

impl Entropy for Fixed {
    fn fill(&mut self, out: &mut [u8]) {
        out.copy_from_slice(&self.0);
    }
}

fn vector(curve: &str, name: &str) -> Vec<u8> {
    let all: Value = serde_json::from_str(include_str!("../../../../vectors/ecc/channel.json")).unwrap();
    hex(all[curve][name].as_str().unwrap())
}

/// RFC 5869 A.1.
#[test]
fn hkdf_gives_the_published_values() {
    let mut out = [0; 42];
    hkdf(&[0x0b; 22], &hex("000102030405060708090a0b0c"), &hex("f0f1f2f3f4f5f6f7f8f9"), &mut out).unwrap();
    let expected = "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865";
    assert_eq!(out.to_vec(), hex(expected));
}

/// RFC 7748 §5.2 (one iteration) and RFC 5903 §8.1: public keys, and the secret through HKDF with an empty salt.
#[test]
fn exchanges_give_the_published_values() {
    let rows = [
        (
            Curve::X25519,
            "0900000000000000000000000000000000000000000000000000000000000000",
            "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079",
            "0900000000000000000000000000000000000000000000000000000000000000",
            "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079",
        ),
        (
            Curve::P256,
            "c88f01f510d9ac3f70a292daa2316de544e9aab8afe84049c62a9c57862d1433",
            "dad0b65394221cf9b051e1feca5787d098dfe637fc90b9ef945d0c37725811805271a0461cdb8252d61f1c456fa3e59ab1f45b33accf5f58389e0577b8990bb3",
            "d12dfb5289c8d4f81208b70270398c342296970a0bccb74c736fc7554494bf6356fbf3ca366cc23e8157854c13c58d6aac23f046ada30f8353e74f33039872ab",
            "d6840f6b42f6edafd13116e0e12565202fef8e9ece7dce03812464d04b9442de",
        ),
    ];
    for (curve, private, public, peer, secret) in rows {
        let key = EphemeralKey::new(curve, &mut Fixed(hex(private)));
        assert_eq!(key.public(), hex(public));
        let (mut ours, mut expected) = ([0; 64], [0; 64]);
        key.derive(&hex(peer), b"salt", &mut ours).unwrap();
        hkdf(&hex(secret), b"salt", b"salt", &mut expected).unwrap();
        assert_eq!(ours, expected, "{curve:?}");
    }
}

fn agreed(policy: SecurityPolicyId, seeds: [Vec<u8>; 2], layout: KeyLayout, encrypt: bool) -> [ChannelKeys; 2] {
    let [ours, theirs] = seeds;
    let client = policy.algorithms().agree(&mut Fixed(ours), layout);
    let server = policy.algorithms().agree(&mut Fixed(theirs), KeyLayout::default());
    [
        client.keys(Role::Client, server.nonce(), encrypt).unwrap(),
        server.keys(Role::Server, client.nonce(), encrypt).unwrap(),
    ]
}

fn plain_chunk() -> Vec<u8> {
    let head = [&b"MSGF\0\0\0\0"[..], &7_u32.to_le_bytes(), &3_u32.to_le_bytes()].concat();
    [&head[..], &1_u32.to_le_bytes(), &2_u32.to_le_bytes(), b"a body in plain words"].concat()
}

#[test]
fn chunks_are_those_that_others_compute() {
    let p256 = || {
        [
            hex("c88f01f510d9ac3f70a292daa2316de544e9aab8afe84049c62a9c57862d1433"),
            hex("c6ef9c5d78ae012a011164acb397ce2088685d8f06bf9be0b283ab46476bee53"),
        ]
    };
    let x25519 = || [(1..33).collect::<Vec<u8>>(), (101..133).collect()];
    let rows = [
        (SecurityPolicyId::EccNistP256, "p256", "", KeyLayout::Profile),
        (SecurityPolicyId::EccCurve25519, "x25519", "profile_", KeyLayout::Profile),
        (SecurityPolicyId::EccCurve25519, "x25519", "signing_key_", KeyLayout::WithSigningKey),
    ];
    for (policy, curve, prefix, layout) in rows {
        for (mode, encrypt) in [("sign", false), ("encrypt", true)] {
            let seeds = if curve == "p256" { p256() } else { x25519() };
            let [client, server] = agreed(policy, seeds, layout, encrypt);
            let rule = format!("{policy} {prefix}{mode}");
            let mut sent = plain_chunk();
            client.send.seal(&mut sent, 0).unwrap();
            assert_eq!(sent, vector(curve, &format!("client_{prefix}{mode}")), "{rule}");
            let (header, rest) = sent.split_at_mut(16);
            let end = server.receive.open(header, rest, 0).unwrap();
            assert_eq!(&rest[..end], &plain_chunk()[16..], "{rule}");
            // The server answers in the layout that it has seen.
            let mut answered = plain_chunk();
            server.send.seal(&mut answered, 0).unwrap();
            assert_eq!(answered, vector(curve, &format!("server_{prefix}{mode}")), "{rule}");
            let (header, rest) = answered.split_at_mut(16);
            assert!(client.receive.open(header, rest, 0).is_ok(), "{rule}");
        }
    }
}

#[test]
fn the_first_chunk_settles_the_layout() {
    let policy = SecurityPolicyId::EccCurve25519;
    let seeds = || [vec![1; 32], vec![2; 32]];
    let [first, server] = agreed(policy, seeds(), KeyLayout::WithSigningKey, true);
    let [second, _] = agreed(policy, seeds(), KeyLayout::Profile, true);
    let open = |keys: &ChannelKeys| {
        let mut chunk = plain_chunk();
        keys.send.seal(&mut chunk, 0).unwrap();
        let (header, rest) = chunk.split_at_mut(16);
        server.receive.open(header, rest, 0)
    };
    // What opens in neither settles nothing.
    assert_eq!(server.receive.open(&[0; 16], &mut [0; 64], 0), Err(CryptoFailure));
    assert!(open(&first).is_ok());
    assert_eq!(open(&second), Err(CryptoFailure));
    assert!(open(&first).is_ok());
}

#[test]
fn a_chunk_opens_after_the_one_before_it_and_nowhere_else() {
    let [client, server] =
        agreed(SecurityPolicyId::EccCurve25519, [vec![1; 32], vec![2; 32]], KeyLayout::Profile, true);
    let mut chunk = plain_chunk();
    client.send.seal(&mut chunk, 0).unwrap();
    for last in [1, 2, u32::MAX] {
        let mut copy = chunk.clone();
        let (header, rest) = copy.split_at_mut(16);
        assert_eq!(server.receive.open(header, rest, last), Err(CryptoFailure), "{last}");
    }
    let mut other = chunk.clone();
    other[12] ^= 1;
    let (header, rest) = other.split_at_mut(16);
    assert_eq!(server.receive.open(header, rest, 0), Err(CryptoFailure), "another token");
}

#[test]
fn keys_that_are_no_points_or_give_nothing_away_are_refused() {
    // Of the points of small order (RFC 7748 §6.1), these are the ones below the field's prime.
    let small = [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ];
    let curve = SecurityPolicyId::EccCurve25519.algorithms();
    let server = curve.agree(&mut Counting(1), KeyLayout::default());
    for point in small {
        assert!(server.keys(Role::Server, &hex(point), true).is_err(), "{point}");
    }
    let nist = SecurityPolicyId::EccNistP256.algorithms();
    let server = nist.agree(&mut Counting(1), KeyLayout::default());
    let good = nist.agree(&mut Counting(2), KeyLayout::default());
    let mut off_curve = good.nonce().to_vec();
    off_curve[63] ^= 1;
    for (rule, point) in [
        ("the point at infinity", vec![0; 64]),
        ("a point beside the curve", off_curve),
        ("a compressed point", good.nonce()[..33].to_vec()),
        ("a prefixed point", [&[4], good.nonce()].concat()),
        ("coordinates above the prime", vec![0xff; 64]),
        ("nothing", Vec::new()),
        ("the server's own key", server.nonce().to_vec()),
    ] {
        assert!(server.keys(Role::Server, &point, true).is_err(), "{rule}");
    }
    assert!(server.keys(Role::Server, good.nonce(), true).is_ok());
}

#[test]
fn a_seed_that_is_no_scalar_still_makes_a_key() {
    for seed in [vec![0; 32], vec![0xff; 32]] {
        for policy in [SecurityPolicyId::EccNistP256, SecurityPolicyId::EccCurve25519] {
            let key = ephemeral_key(policy, &mut Fixed(seed.clone())).unwrap();
            assert_eq!(key.public().len(), policy.algorithms().nonce_length(), "{policy}");
        }
    }
}

#[test]
fn sequence_numbers_start_at_0_and_use_every_number() {
    for (policy, _) in ECC {
        let algorithms = policy.algorithms();
        assert_eq!(algorithms.first_sequence(), 0);
        assert_eq!(algorithms.next_sequence(u32::MAX), 0);
        for (last, next, follows) in
            [(0, 1, true), (u32::MAX, 0, true), (u32::MAX, 1, false), (u32::MAX - 1, 0, false), (5, 5, false)]
        {
            assert_eq!(algorithms.sequence_follows(last, next), follows, "{last} {next}");
        }
    }
}

#[test]
fn signatures_verify_with_their_own_policy_and_key_only() {
    let rsa = identity("rsa", 2048, 1);
    let [(p256, ec), (ed, ed_kind)] = ECC;
    let (one, two) = (ec_identity("one", ec, 1), ec_identity("two", ed_kind, 1));
    for (policy, own, others) in [(p256, &one, [&two, &rsa]), (ed, &two, [&one, &rsa])] {
        let algorithms = policy.algorithms();
        let signature = algorithms.sign(&own.key, b"message").unwrap();
        assert_eq!(signature.len(), 64);
        algorithms.verify(own.certificate.key(), b"message", &signature).unwrap();
        assert!(algorithms.verify(own.certificate.key(), b"massage", &signature).is_err());
        for other in others {
            assert!(!algorithms.accepts_key(other.certificate.key()));
            assert!(algorithms.sign(&other.key, b"message").is_err());
            assert!(algorithms.verify(other.certificate.key(), b"message", &signature).is_err());
        }
        let rsa_policy = SecurityPolicyId::Basic256Sha256.algorithms();
        assert!(rsa_policy.sign(&own.key, b"message").is_err() && rsa_policy.decrypt(&own.key, &[0; 256]).is_err());
        assert!(!rsa_policy.accepts_key(own.certificate.key()));
    }
}

fn sealed(policy: SecurityPolicyId, own: &OwnIdentity, receiver: &EphemeralKey, secret: &[u8]) -> Vec<u8> {
    let certificate = own.certificate.chain();
    let sealing =
        Sealing { policy, sender: &own.key, certificate: &certificate, receiver: receiver.public(), at: noon().unix };
    seal_ecc_secret(&sealing, secret, b"nonce", &mut Counting(9)).unwrap()
}

#[test]
fn a_secret_opens_for_its_key_and_from_its_sender_only() {
    for (policy, kind) in ECC {
        let (own, other) = (ec_identity("own", kind, 1), ec_identity("other", kind, 2));
        let key = ephemeral_key(policy, &mut Counting(1)).unwrap();
        let later = ephemeral_key(policy, &mut Counting(2)).unwrap();
        let (public, der) = (own.certificate.key(), own.certificate.der());
        for secret in [&b""[..], b"s", b"a password", &[7; 5_000]] {
            let blob = sealed(policy, &own, &key, secret);
            let opened = open_ecc_secret(policy, &key, public, der, &blob).unwrap();
            assert_eq!((opened.secret.as_slice(), opened.nonce.as_slice()), (secret, &b"nonce"[..]));
            assert_eq!(opened.signing_time, noon().unix);
        }
        let blob = sealed(policy, &own, &key, b"secret");
        let refused = |key: &EphemeralKey, own: &OwnIdentity, policy| {
            open_ecc_secret(policy, key, own.certificate.key(), own.certificate.der(), &blob).unwrap_err()
        };
        assert_eq!(refused(&later, &own, policy), InvalidSecret::Receiver);
        assert_eq!(refused(&key, &other, policy), InvalidSecret::Certificate);
        let another = ECC.map(|(policy, _)| policy).into_iter().find(|other| *other != policy).unwrap();
        assert_eq!(refused(&key, &own, another), InvalidSecret::Policy);
        assert_eq!(refused(&key, &own, SecurityPolicyId::Basic256Sha256), InvalidSecret::Policy);
        // Signed by another with the certificate of the first.
        let sealing = Sealing { policy, sender: &other.key, certificate: der, receiver: key.public(), at: noon().unix };
        let forged = seal_ecc_secret(&sealing, b"secret", b"nonce", &mut Counting(9)).unwrap();
        let refused = open_ecc_secret(policy, &key, public, der, &forged).unwrap_err();
        assert_eq!(refused, InvalidSecret::Signature);
    }
}

#[test]
fn short_secrets_do_not_show_their_length() {
    for (policy, kind) in ECC {
        let own = ec_identity("own", kind, 1);
        let key = ephemeral_key(policy, &mut Counting(1)).unwrap();
        let length = |secret: &[u8]| sealed(policy, &own, &key, secret).len();
        assert_eq!(length(b""), length(b"a"));
    }
}

proptest! {
    #[test]
    fn a_changed_secret_never_opens(at in any::<prop::sample::Index>(), mask in 1_u8.., which in 0_usize..2) {
        let (policy, kind) = ECC[which];
        let own = ec_identity("own", kind, 1);
        let key = ephemeral_key(policy, &mut Counting(1)).unwrap();
        let mut blob = sealed(policy, &own, &key, b"a password");
        let at = at.index(blob.len());
        blob[at] ^= mask;
        prop_assert!(open_ecc_secret(policy, &key, own.certificate.key(), own.certificate.der(), &blob).is_err());
    }

    #[test]
    fn noise_never_opens(bytes in prop::collection::vec(any::<u8>(), 0..200), which in 0_usize..2, encrypt: bool) {
        let (policy, _) = ECC[which];
        let [client, server] = agreed(policy, [vec![1; 32], vec![2; 32]], KeyLayout::Profile, encrypt);
        prop_assert!(client.receive.open(&[0; 16], &mut bytes.clone(), 0).is_err());
        prop_assert!(server.receive.open(&[0; 16], &mut bytes.clone(), 0).is_err());
    }
}
