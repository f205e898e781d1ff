//! The basic mechanisms, step by step.

use super::x509::{certificate_bytes, issued_bytes, to_be_signed};
use super::{Basic, Part, Role, Work, priced, private, set};
use crate::algorithm::{Cipher, Hash, Key, Scheme};
use crate::model::Setting;

/// Bytes of a nonce.
const NONCE: u64 = 32;
/// Bytes in which a party of a key exchange says who it is.
const NAME: u64 = 64;
/// Bytes of each block that OAEP with SHA-1 takes (RFC 8017 section 7.1.1).
const OAEP_SHA1: u32 = 42;

/// Figure 2a: a key pair is made. Done once by everybody who is named in an annotation.
#[must_use]
pub fn key_generation(key: Key) -> Vec<Part> {
    vec![
        set("setKeyType", Role::Own),
        set("setKeyLength", Role::Own),
        // The two keys of a pair come of one computation; the price is that of the pair. It is made where its private key stays.
        private("generatePKey", Role::Own, format!("generate {key}"), 0),
        set("generateSKey", Role::Own),
    ]
}

/// Figure 2b: the peer, a certification authority, looks at who asks and, if it trusts, signs. `trusted` is 0 to 1.
#[must_use]
pub fn certificate(key: Key, authority: Key, hash: Hash, trusted: f64) -> Vec<Part> {
    let bytes = to_be_signed(key, authority);
    let mut parts = vec![
        Part::Message { name: "reqCertificate", from: Role::Own, bytes },
        set("checkEntityInfo", Role::Peer),
        Part::Check { name: "entity trusted", passes: trusted },
    ];
    let signed = super::swapped(signing(authority, hash, bytes));
    parts.push(Part::Use { mechanism: Basic::SignatureGeneration, parts: signed });
    parts.push(set("generateCertificate", Role::Peer));
    let bytes = issued_bytes(key, authority);
    parts.push(Part::Message { name: "sendCertificate", from: Role::Peer, bytes });
    parts
}

/// Figure 3: a message of `bytes` is encrypted by its sender for the peer.
#[must_use]
pub fn encryption(cipher: &Cipher, setting: &Setting, bytes: u64) -> Vec<Part> {
    let mut parts = vec![set("setAlgorithmType", Role::Own), set("setKeyLength", Role::Own)];
    match cipher {
        Cipher::Asymmetric { key, .. } => {
            parts.push(set("setPaddingScheme", Role::Own));
            parts.push(unless_known(Role::Own, *key, setting.reuse, setting));
            parts.push(blocks("encryptAlgorithm", "encrypt", Role::Own, cipher, bytes));
        }
        Cipher::Symmetric { name, bits, .. } => {
            parts.push(set("setAlgorithmMode", Role::Own));
            if let Some(key) = setting.exchange {
                parts.push(Part::Either {
                    guard: "key is shared",
                    probability: setting.reuse,
                    then: Vec::new(),
                    otherwise: vec![
                        unless_known(Role::Own, key, setting.known, setting),
                        unless_known(Role::Peer, key, setting.known, setting),
                        Part::Use { mechanism: Basic::KeyExchange, parts: key_exchange(key, *bits) },
                    ],
                });
            }
            parts.push(priced("encryptAlgorithm", Role::Own, format!("encrypt {name}"), bytes));
        }
    }
    parts
}

/// Decryption, by its receiver, of a message of `bytes`.
#[must_use]
pub fn decryption(cipher: &Cipher, bytes: u64) -> Vec<Part> {
    let extract = [set("extractAlgorithmType", Role::Own), set("extractKeyLength", Role::Own)];
    let decrypt = match cipher {
        Cipher::Asymmetric { .. } => blocks("decryptAlgorithm", "decrypt", Role::Own, cipher, bytes),
        Cipher::Symmetric { name, .. } => priced("decryptAlgorithm", Role::Own, format!("decrypt {name}"), bytes),
    };
    extract.into_iter().chain([decrypt]).collect()
}

/// ISO/IEC 11770-3, three messages, after which both share a key that both had part in: `{S, K_S, n_S}` for R, `{R, K_R, n_S, n_R}`
/// for S, `n_R` for R. What a short key cannot encrypt at once goes in several blocks.
#[must_use]
pub fn key_exchange(key: Key, bits: u32) -> Vec<Part> {
    let half = u64::from(bits / 8);
    // What price lists call `encrypt rsa-N`.
    let cipher = Cipher::Asymmetric { key, padding: OAEP_SHA1 };
    let mut parts = Vec::new();
    for (from, message, bytes) in [
        (Role::Own, "{S, K_S, n_S}P(R)", NAME + half + NONCE),
        (Role::Peer, "{R, K_R, n_S, n_R}P(S)", NAME + half + 2 * NONCE),
    ] {
        parts.push(set("generateKey", from));
        parts.push(blocks("encryptAlgorithm", "encrypt", from, &cipher, bytes));
        parts.push(Part::Message { name: message, from, bytes: cipher.sealed(bytes) });
        parts.push(blocks("decryptAlgorithm", "decrypt", from.other(), &cipher, bytes));
    }
    parts.push(set("checkNonce", Role::Own));
    parts.push(Part::Message { name: "n_R", from: Role::Own, bytes: NONCE });
    parts.push(set("checkNonce", Role::Peer));
    parts.push(set("combineKeys", Role::Own));
    parts.push(set("combineKeys", Role::Peer));
    parts
}

/// Figure 4a: a signature over `bytes`; a key alone is RSA with PKCS #1 v1.5.
#[must_use]
pub fn signing(scheme: impl Into<Scheme>, hash: Hash, bytes: u64) -> Vec<Part> {
    let scheme = scheme.into();
    vec![
        set("setHashFunction", Role::Own),
        priced("generateDigest", Role::Own, format!("hash {hash}"), bytes),
        private("encryptAlgorithm", Role::Own, format!("sign {scheme}"), 0),
    ]
}

/// Figure 4b: a signature over `bytes` is looked at; `valid` is the probability that it is right.
#[must_use]
pub fn verifying(scheme: impl Into<Scheme>, hash: Hash, bytes: u64, valid: f64) -> Vec<Part> {
    let scheme = scheme.into();
    vec![
        priced("execHashFunc", Role::Own, format!("hash {hash}"), bytes),
        priced("encryptAlgorithm", Role::Own, format!("verify {scheme}"), 0),
        set("verifyDigitSign", Role::Own),
        Part::Check { name: "signature valid", passes: valid },
    ]
}

/// `by` gets and checks the certificate of the other, unless it knows it: the signature on it, over all else that
/// stands there, is looked at as any other (Figure 4b). Certificates of RSA are signed over SHA-256 here.
fn unless_known(by: Role, key: Key, known: f64, setting: &Setting) -> Part {
    let (bytes, signed) = (certificate_bytes(key), to_be_signed(key, key));
    Part::Either {
        guard: "certificate is known",
        probability: known,
        then: Vec::new(),
        otherwise: vec![
            Part::Message { name: "certificate", from: by.other(), bytes },
            priced("execHashFunc", by, format!("hash {}", Hash::Sha256), signed),
            priced("verifyCertificate", by, format!("verify {key}"), 0),
            Part::Check { name: "certificate trusted", passes: setting.trusted },
        ],
    }
}

/// Asymmetric encryption works block by block.
fn blocks(name: &'static str, verb: &str, by: Role, cipher: &Cipher, bytes: u64) -> Part {
    let operation = format!("{verb} {}", cipher.step());
    let times = cipher.blocks(bytes);
    let private = verb == "decrypt";
    Part::Work { name, by, work: Work { operation: Some(operation), bytes: 0, times, needed: true, private } }
}
