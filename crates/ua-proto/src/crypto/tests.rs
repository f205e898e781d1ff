//! The policies against known values and against themselves.

use proptest::prelude::*;

use super::secret::{RsaSecretEnvelope, SecretForm};
use super::{
    CbcHmac, ChunkCipher, CryptoFailure, InvalidSecret, KeyLayout, MAX_LEGACY_BLOCKS, Role, SecurityPolicyId,
    decrypt_legacy_secret, encrypt_legacy_secret, legacy_follows, legacy_next, legacy_secret_blocks, open_rsa_secret,
    p_sha256, seal_rsa_secret, tally,
};
use crate::pki::OwnIdentity;
use crate::testing::{Counting, identity, noon};
use crate::wire::put_bytes;

const RSA: [SecurityPolicyId; 3] =
    [SecurityPolicyId::Basic256Sha256, SecurityPolicyId::Aes128Sha256RsaOaep, SecurityPolicyId::Aes256Sha256RsaPss];

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn p_sha256_gives_the_published_values() {
    let secret = hex("9bbe436ba940f017b17652849a71db35");
    let seed = [b"test label".as_slice(), &hex("a0ba9f936cda311827a6f796ffd5198c")].concat();
    let mut out = [0; 100];
    p_sha256(&secret, &seed, &mut out);
    let expected = concat!(
        "e3f229ba727be17b8d122620557cd453c2aab21d07c3d495329b52d4e61edb5a",
        "6b301791e90d35c9c9a46b4e14baf9af0fa022f7077def17abfd3797c0564bab",
        "4fbc91666e9def9b97fce34f796789baa48082d122ee42c5a72e5a5110fff701",
        "87347b66"
    );
    assert_eq!(out.to_vec(), hex(expected));
}

#[test]
fn policies_are_found_by_their_names() {
    for policy in SecurityPolicyId::ALL {
        assert_eq!(SecurityPolicyId::from_uri(policy.uri()), Some(policy));
        assert_eq!(SecurityPolicyId::from_name(policy.name()), Some(policy));
        assert_eq!(policy.algorithms().id(), policy);
    }
    for old in ["Basic128Rsa15", "Basic256", "", "basic256sha256"] {
        assert_eq!(SecurityPolicyId::from_name(old), None, "{old}");
    }
}

#[test]
fn both_ends_derive_the_same_keys_and_each_direction_its_own() {
    for policy in RSA {
        let (mut ours, mut theirs) = (Counting(1), Counting(2));
        let client = policy.algorithms().agree(&mut ours, KeyLayout::default());
        let server = policy.algorithms().agree(&mut theirs, KeyLayout::default());
        for encrypt in [false, true] {
            let at_client = client.keys(Role::Client, server.nonce(), encrypt).unwrap();
            let at_server = server.keys(Role::Server, client.nonce(), encrypt).unwrap();
            let mut chunk = b"MSGF\0\0\0\0\x01\0\0\0\x02\0\0\0sequencebody".to_vec();
            at_client.send.seal(&mut chunk, 0).unwrap();
            assert_eq!(chunk.len() as u32, u32::from_le_bytes(chunk[4..8].try_into().unwrap()));
            let (header, sealed) = chunk.split_at(16);
            let mut wrong = sealed.to_vec();
            assert!(at_client.receive.open(header, &mut wrong, 0).is_err(), "a chunk does not come back as an answer");
            let mut right = sealed.to_vec();
            let end = at_server.receive.open(header, &mut right, 0).unwrap();
            assert_eq!(&right[..end], b"sequencebody");
        }
        assert!(client.keys(Role::Client, &[0; 31], true).is_err());
    }
}

#[test]
fn sequence_numbers_follow_and_wrap_as_the_legacy_policies_do() {
    let edge = 4_294_966_271;
    let rows = [
        (1, 2, true),
        (1, 1, false),
        (1, 3, false),
        (2, 1, false),
        (edge, edge + 1, true),
        (edge, 1, false),
        (edge + 1, 1, true),
        (edge + 1, 0, true),
        (edge + 1, 1023, true),
        (edge + 1, 1024, false),
        (u32::MAX, 0, true),
        (u32::MAX, 1023, true),
        (u32::MAX, u32::MAX, false),
    ];
    for (last, next, follows) in rows {
        assert_eq!(legacy_follows(last, next), follows, "{last} {next}");
    }
    for last in [0, 1, edge, edge + 1, u32::MAX] {
        assert!(legacy_follows(last, legacy_next(last)), "{last}");
    }
}

#[test]
fn bodies_fill_chunks_to_the_last_byte() {
    let both = CbcHmac::new(&[1; 32], &[2; 32], &[3; 16]).unwrap();
    let signed = CbcHmac::sign_only(&[1; 32]);
    for size in [8192usize, 8193, 8200, 8207, 65_535, 65_536] {
        for cipher in [&both, &signed] {
            let most = cipher.body_capacity(size);
            let sealed = |body: usize| {
                let mut chunk = vec![0; 24 + body];
                cipher.seal(&mut chunk, 0).unwrap();
                chunk.len()
            };
            assert!(sealed(most) <= size && sealed(most + 1) > size, "{size} {most}");
        }
    }
}

thread_local! {
    static PAUSES: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[test]
fn there_is_a_pause_before_each_use_of_a_private_key() {
    super::pause_before_key_use(|| PAUSES.set(PAUSES.get() + 1));
    for policy in RSA {
        let policy = policy.algorithms();
        let (own, peer) = (identity("one", 2048, 1), identity("two", 2048, 2));
        let mut chunk = b"OPNF\0\0\0\0\x01\0\0\0".to_vec();
        let from = chunk.len();
        chunk.extend([7; 300]);
        policy.seal_open(&mut chunk, from, Some(&own.key), Some(peer.certificate.key())).unwrap();
        let before = PAUSES.get();
        policy.open_open(&mut chunk, from, Some(own.certificate.key()), Some(&peer.key)).unwrap();
        assert_eq!(PAUSES.get() - before, peer.key.uses().decryptions, "{:?}", policy.id());
        assert!(PAUSES.get() - before > 1, "one for each block");
        let before = PAUSES.get();
        policy.sign(&own.key, b"message").unwrap();
        assert_eq!(PAUSES.get() - before, 1, "{:?}", policy.id());
    }
}

#[test]
fn signatures_verify_with_their_own_policy_and_key_only() {
    let (one, two) = (identity("one", 2048, 1), identity("two", 2048, 2));
    for policy in RSA {
        let algorithms = policy.algorithms();
        let signature = algorithms.sign(&one.key, b"certificate and nonce").unwrap();
        let check = |identity: &OwnIdentity, message: &[u8], signature: &[u8]| {
            algorithms.verify(identity.certificate.key(), message, signature)
        };
        assert_eq!(check(&one, b"certificate and nonce", &signature), Ok(()));
        assert_eq!(check(&one, b"certificate and nonsense", &signature), Err(CryptoFailure));
        assert_eq!(check(&two, b"certificate and nonce", &signature), Err(CryptoFailure));
        assert_eq!(check(&one, b"certificate and nonce", &signature[1..]), Err(CryptoFailure));
        assert!(algorithms.signature_uri().starts_with("http") && algorithms.encryption_uri().starts_with("http"));
    }
    let pss = SecurityPolicyId::Aes256Sha256RsaPss.algorithms();
    let pkcs1 = SecurityPolicyId::Basic256Sha256.algorithms();
    let signature = pkcs1.sign(&one.key, b"x").unwrap();
    assert!(pss.verify(one.certificate.key(), b"x", &signature).is_err());
}

#[test]
fn a_legacy_secret_opens_for_its_nonce_only() {
    let server = identity("server", 2048, 1);
    let nonce = [9; 32];
    for policy in RSA {
        let algorithms = policy.algorithms();
        for length in [0usize, 10, 178, 214, 2000] {
            let secret = vec![b'p'; length];
            let sealed = encrypt_legacy_secret(algorithms, server.certificate.key(), &secret, &nonce).unwrap();
            let open = |cipher: &[u8], nonce: &[u8], most: usize| {
                decrypt_legacy_secret(algorithms, &server.key, cipher, nonce, most).map(|secret| secret.to_vec())
            };
            assert_eq!(open(&sealed, &nonce, MAX_LEGACY_BLOCKS), Ok(secret), "{policy} {length}");
            assert_eq!(open(&sealed, &[8; 32], MAX_LEGACY_BLOCKS), Err(InvalidSecret::Nonce));
            assert_eq!(open(&sealed[1..], &nonce, MAX_LEGACY_BLOCKS), Err(InvalidSecret::Malformed));
            let blocks = sealed.len() / 256;
            assert_eq!(open(&sealed, &nonce, blocks - 1), Err(InvalidSecret::TooLong));
        }
    }
}

#[test]
fn blocks_are_counted_before_anything_is_decrypted() {
    assert_eq!(legacy_secret_blocks(256 * 32, 256, MAX_LEGACY_BLOCKS), Ok(32));
    assert_eq!(legacy_secret_blocks(256 * 33, 256, MAX_LEGACY_BLOCKS), Err(InvalidSecret::TooLong));
    for odd in [0, 1, 255, 257] {
        assert_eq!(legacy_secret_blocks(odd, 256, MAX_LEGACY_BLOCKS), Err(InvalidSecret::Malformed), "{odd}");
    }
}

#[test]
fn the_padding_of_a_legacy_secret_is_zero() {
    let server = identity("server", 2048, 1);
    let algorithms = SecurityPolicyId::Basic256Sha256.algorithms();
    for (padding, good) in [(vec![], true), (vec![0; 7], true), (vec![0, 0, 1], false)] {
        let mut plain = 36u32.to_le_bytes().to_vec();
        plain.extend_from_slice(b"pass");
        plain.extend_from_slice(&[9; 32]);
        plain.extend_from_slice(&padding);
        let cipher = algorithms.encrypt(server.certificate.key(), &plain).unwrap();
        let opened = decrypt_legacy_secret(algorithms, &server.key, &cipher, &[9; 32], MAX_LEGACY_BLOCKS);
        assert_eq!(opened.is_ok(), good, "{padding:?}");
    }
}

#[test]
fn an_rsa_secret_opens_for_its_receiver_and_policy_only() {
    let (server, other) = (identity("server", 2048, 1), identity("other", 2048, 2));
    for policy in RSA {
        for length in [0usize, 1, 100, 5000] {
            let secret = vec![b't'; length];
            let sealed =
                seal_rsa_secret(policy, &server.certificate, &secret, &[7; 32], noon().unix, &mut Counting(5)).unwrap();
            assert_eq!(SecretForm::of(&sealed), SecretForm::Rsa);
            let envelope = RsaSecretEnvelope::parse(&sealed).unwrap();
            assert_eq!((envelope.policy_uri, envelope.signing_time), (policy.uri(), noon().unix));
            let opened = open_rsa_secret(policy, &server.key, &server.certificate, &sealed).unwrap();
            assert_eq!((opened.secret.as_slice(), opened.nonce.as_slice()), (secret.as_slice(), [7; 32].as_slice()));
            let open = |policy, identity: &OwnIdentity, blob: &[u8]| {
                open_rsa_secret(policy, &identity.key, &identity.certificate, blob).map(drop)
            };
            assert_eq!(open(policy, &other, &sealed), Err(InvalidSecret::Certificate));
            let another = RSA.into_iter().find(|one| *one != policy).unwrap();
            assert_eq!(open(another, &server, &sealed), Err(InvalidSecret::Policy));
            let mut changed = sealed.clone();
            let end = changed.len() - 40;
            changed[end] ^= 1;
            assert_eq!(open(policy, &server, &changed), Err(InvalidSecret::Signature));
        }
    }
}

/// What an attacker may not tell apart by the clock costs the private key the same.
#[test]
fn a_secret_that_fails_behind_its_encryption_costs_the_key_as_much_as_one_that_opens() {
    let server = identity("server", 2048, 1);
    let broken = |at: usize, blob: &[u8]| {
        let mut blob = blob.to_vec();
        blob[at] ^= 1;
        blob
    };
    for policy in RSA {
        let algorithms = policy.algorithms();
        let key = server.certificate.key();
        let legacy = |plain: &[u8]| algorithms.encrypt(key, plain).unwrap();
        let good = encrypt_legacy_secret(algorithms, key, &[b't'; 400], &[7; 32]).unwrap();
        let length = |stated: u32| [&stated.to_le_bytes()[..], &[b't'; 400], &[7; 32]].concat();
        assert_eq!(good.len(), 3 * 256);
        for (rule, cipher, opens) in [
            ("good", good.clone(), true),
            ("its first block is broken", broken(0, &good), false),
            ("its last block is broken", broken(600, &good), false),
            ("every block is broken", vec![1; 3 * 256], false),
            ("another nonce", encrypt_legacy_secret(algorithms, key, &[b't'; 400], &[8; 32]).unwrap(), false),
            ("longer than it is", legacy(&length(500)), false),
            ("shorter than it is", legacy(&length(400)), false),
            ("no room for a nonce", legacy(&length(10)), false),
        ] {
            tally::take();
            let opened = decrypt_legacy_secret(algorithms, &server.key, &cipher, &[7; 32], MAX_LEGACY_BLOCKS);
            assert_eq!(opened.is_ok(), opens, "{policy}, legacy: {rule}");
            assert_eq!(tally::take(), tally::Work { decryptions: 3, ..Default::default() }, "{policy}, legacy: {rule}");
        }
        let sealed =
            seal_rsa_secret(policy, &server.certificate, b"secret", &[7; 32], noon().unix, &mut Counting(5)).unwrap();
        let keys = 5 + 4 + 4 + policy.uri().len() + 4 + 20 + 8 + 2;
        let mut no_keys = sealed.clone();
        no_keys[keys..keys + 256].copy_from_slice(&legacy(b"no keys"));
        for (rule, blob, opens) in [
            ("good", sealed.clone(), true),
            ("its keys are broken", broken(keys, &sealed), false),
            ("its keys are none", no_keys, false),
            ("its payload is broken", broken(keys + 256, &sealed), false),
            ("its signature is broken", broken(sealed.len() - 1, &sealed), false),
        ] {
            tally::take();
            let opened = open_rsa_secret(policy, &server.key, &server.certificate, &blob);
            assert_eq!(opened.is_ok(), opens, "{policy}: {rule}");
            assert_eq!(tally::take(), tally::Work { decryptions: 1, ..Default::default() }, "{policy}: {rule}");
        }
    }
}

/// The form that one known implementation writes: raw keys and one byte for the size of the padding.
#[test]
fn an_rsa_secret_in_the_other_form_opens_too() {
    let server = identity("server", 2048, 1);
    let policy = SecurityPolicyId::Basic256Sha256;
    let keys = CbcHmac::new(&[1; 32], &[2; 32], &[3; 16]).unwrap();
    let material = [[1; 32].as_slice(), &[2; 32], &[3; 16]].concat();
    let key_data = policy.algorithms().encrypt(server.certificate.key(), &material).unwrap();
    for length in 0..40usize {
        let mut payload = Vec::new();
        put_bytes(Some(&[7; 32]), &mut payload);
        put_bytes(Some(&vec![b's'; length]), &mut payload);
        let padding = (payload.len() + 1).next_multiple_of(16) - payload.len() - 1;
        payload.resize(payload.len() + padding + 1, padding as u8);
        keys.encrypt(&mut payload).unwrap();
        let mut rest = Vec::new();
        put_bytes(Some(policy.uri().as_bytes()), &mut rest);
        put_bytes(Some(&server.certificate.thumbprint_sha1()), &mut rest);
        rest.extend_from_slice(&[0; 8]);
        rest.extend_from_slice(&(key_data.len() as u16).to_le_bytes());
        rest.extend_from_slice(&key_data);
        rest.extend_from_slice(&payload);
        let mut blob = vec![0x01, 0x00, 0x89, 0x44, 0x01];
        blob.extend_from_slice(&(rest.len() as u32 + 32).to_le_bytes());
        blob.extend_from_slice(&rest);
        let signature = keys.sign(&[&blob]);
        blob.extend_from_slice(&signature);
        let opened = open_rsa_secret(policy, &server.key, &server.certificate, &blob).unwrap();
        assert_eq!(opened.secret.as_slice(), vec![b's'; length]);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_secret_panic(bytes in prop::collection::vec(any::<u8>(), 0..900), rsa in any::<bool>()) {
        let server = identity("server", 2048, 1);
        let mut blob = if rsa { vec![0x01, 0x00, 0x89, 0x44, 0x01] } else { Vec::new() };
        blob.extend_from_slice(&bytes);
        let policy = SecurityPolicyId::Aes256Sha256RsaPss;
        prop_assert!(open_rsa_secret(policy, &server.key, &server.certificate, &blob).is_err());
        prop_assert!(decrypt_legacy_secret(policy.algorithms(), &server.key, &blob, &[0; 32], 32).is_err());
        let _ = SecretForm::of(&blob);
    }

    #[test]
    fn no_bytes_make_a_cipher_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let both = CbcHmac::new(&[1; 32], &[2; 16], &[3; 16]).unwrap();
        prop_assert!(both.open(&[0; 16], &mut bytes.clone(), 0).is_err());
        prop_assert!(CbcHmac::sign_only(&[1; 32]).open(&[0; 16], &mut bytes.clone(), 0).is_err());
    }
}
