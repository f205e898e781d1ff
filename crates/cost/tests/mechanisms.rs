//! The basic mechanisms, step by step: counts and sizes that follow from the standards, worked out by hand.

use cost::algorithm::Key;
use cost::mechanism::{Part, Role, key_exchange};

/// Operations with how many times they are done, and messages with their bytes, in order.
fn told(parts: &[Part]) -> Vec<(Role, String, u64)> {
    let mut all = Vec::new();
    for part in parts {
        match part {
            Part::Work { by, work, .. } if work.needed => {
                all.push((*by, work.operation.clone().unwrap_or_default(), work.times));
            }
            Part::Message { name, from, bytes } => all.push((*from, (*name).to_owned(), *bytes)),
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

/// Three messages: a name of 64 bytes, half a key and a nonce of 32; those with both nonces; one nonce. A block of OAEP with SHA-1 holds
/// 42 bytes less than the key has (RFC 8017 section 7.1.1).
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
