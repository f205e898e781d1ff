//! The session: made, activated, and for whom.

use super::{Channel, NONCE, Policy, User, record};
use crate::mechanism::{self, Basic, Part, Role, certificate_bytes, priced, private, signature_bytes};
use crate::protocol::{Party, Per, Phase, certificates, digest, free, tcp_closed, times, using};

/// Bodies of CreateSession without certificates, signature and endpoints.
const CREATE: (u64, u64) = (185, 130);
/// Bodies of ActivateSession without signature and identity.
const ACTIVATE: (u64, u64) = (110, 72);
/// Bodies of CloseSession: what it is, a header with the session's token of 36 bytes, whether subscriptions end with it; the answer's
/// header alone.
const CLOSE: (u64, u64) = (4 + 70 + 1, 4 + 24);
/// An additional header that names a policy, without its URI; what a key and its signature add to it.
const KEY: (u64, u64) = (34, 31);
/// An EccEncryptedSecret beside its policy's URI, certificates, keys, content and signature (OPC 10000-4 section
/// 7.40.2.5): type and length, lengths of URI and certificates, time, lengths of both keys and of each.
const SECRET: u64 = 5 + 4 + 4 + 4 + 8 + 2 + 2 * 4;
/// Its content is filled up to a multiple of so many bytes, whatever encrypts it.
const BLOCK: u64 = 16;

/// CreateSession and ActivateSession.
pub(crate) fn session(channel: &Channel, user: &User, ends: (Party, Party)) -> Vec<Phase> {
    let (name, source) = ("session created", "OPC 10000-4 5.7.2");
    let created = Phase { name, source, per: Per::Connection, ends, parts: creation(channel, user) };
    vec![created, activation(channel, user, ends)]
}

/// CloseSession, which the server records, the channel's end, and that of the connection.
pub(crate) fn closing(channel: &Channel, ends: (Party, Party)) -> Vec<Phase> {
    let mut parts = channel.message("CloseSession", Role::Own, CLOSE.0);
    if channel.audited {
        parts.push(record(Role::Peer));
    }
    parts.extend(channel.message("CloseSession answer", Role::Peer, CLOSE.1));
    let closed = Phase { name: "session closed", source: "OPC 10000-4 5.7.4", per: Per::Connection, ends, parts };
    vec![closed, channel.close(ends), tcp_closed(ends)]
}

/// The server proves that it has the key of its certificate: it signs the client's nonce.
fn creation(channel: &Channel, user: &User) -> Vec<Part> {
    let (own, peer) = (Role::Own, Role::Peer);
    let (key, protected) = (channel.key, channel.policy != Policy::None);
    let scheme = channel.policy.scheme(key);
    // Both show their certificates without a policy, too.
    let certificate = certificate_bytes(key);
    let next = server_key(channel, user);
    let mut parts = vec![free("nonce", own, "random", NONCE)];
    parts.extend(channel.message("CreateSession", own, CREATE.0 + certificate + next.asked));
    let mut bytes = CREATE.1 + certificate + channel.told();
    if protected {
        let signing = mechanism::signing(scheme, digest(key), certificate + NONCE);
        parts.push(using(Basic::SignatureGeneration, peer, signing));
        bytes += signature_bytes(key) + channel.policy.algorithms().0;
    }
    if channel.audited {
        parts.push(record(peer));
    }
    parts.extend(next.given);
    parts.extend(channel.message("CreateSession answer", peer, bytes + next.told));
    if protected {
        let verifying = mechanism::verifying(scheme, digest(key), certificate + NONCE, channel.valid);
        parts.push(using(Basic::SignatureVerification, own, verifying));
    }
    parts.extend(next.believed);
    parts
}

/// The client proves that it has the key of its certificate, and shows who its user is.
pub(super) fn activation(channel: &Channel, user: &User, ends: (Party, Party)) -> Phase {
    let (own, peer) = (Role::Own, Role::Peer);
    let (key, protected) = (channel.key, channel.policy != Policy::None);
    let scheme = channel.policy.scheme(key);
    let certificate = if protected { certificate_bytes(key) } else { 0 };
    let next = server_key(channel, user);
    let mut parts = Vec::new();
    let mut bytes = ACTIVATE.0 + next.asked;
    if protected {
        parts.push(using(
            Basic::SignatureGeneration,
            own,
            mechanism::signing(scheme, digest(key), certificate + NONCE),
        ));
        bytes += signature_bytes(key) + channel.policy.algorithms().0;
    }
    let (shown, seen, size) = identity(channel, user);
    parts.extend(shown);
    parts.extend(channel.message("ActivateSession", own, bytes + size));
    if protected {
        let verifying = mechanism::verifying(scheme, digest(key), certificate + NONCE, channel.valid);
        parts.push(using(Basic::SignatureVerification, peer, verifying));
    }
    parts.extend(seen);
    if channel.audited {
        parts.push(record(peer));
    }
    parts.extend(next.given);
    parts.extend(channel.message("ActivateSession answer", peer, ACTIVATE.1 + next.told));
    parts.extend(next.believed);
    Phase { name: "session activated", source: "OPC 10000-4 5.7.3", per: Per::Connection, ends, parts }
}

/// What the client does to show a user, what the server does to believe it, and its bytes.
fn identity(channel: &Channel, user: &User) -> (Vec<Part>, Vec<Part>, u64) {
    match user {
        User::Anonymous => (Vec::new(), Vec::new(), 10),
        User::Password(bytes) => {
            let (seal, mut open, size) = secret(channel, *bytes);
            open.push(priced("checkPassword", Role::Peer, "check password".to_owned(), 0));
            (seal, open, size + 20)
        }
        User::Certificate(key) => {
            let bytes = certificate_bytes(channel.key) + NONCE;
            let scheme = channel.users().scheme(*key);
            let signing = mechanism::signing(scheme, digest(*key), bytes);
            let verifying = mechanism::verifying(scheme, digest(*key), bytes, channel.valid);
            let seen = vec![
                certificates(Role::Peer, *key, channel.certificates),
                using(Basic::SignatureVerification, Role::Peer, verifying),
            ];
            let size = certificate_bytes(*key) + signature_bytes(*key) + channel.users().algorithms().0 + 30;
            (vec![using(Basic::SignatureGeneration, Role::Own, signing)], seen, size)
        }
        User::Token(tokens) => {
            let (seal, mut open, size) =
                if tokens.encrypted { secret(channel, tokens.bytes) } else { (Vec::new(), Vec::new(), tokens.bytes) };
            open.extend(tokens.verified(Role::Peer, channel.valid));
            (seal, open, size + 30)
        }
    }
}

/// A secret in an identity token: RSA block by block with the nonce of the session (OPC 10000-4 section 7.40.2.2), or an
/// EccEncryptedSecret (section 7.40.2.5).
fn secret(channel: &Channel, bytes: u64) -> (Vec<Part>, Vec<Part>, u64) {
    let (key, own, peer) = (channel.key, Role::Own, Role::Peer);
    let Some(curve) = channel.policy.curve() else {
        let cipher = channel.users().sealing(key);
        let (blocks, step) = (cipher.blocks(4 + bytes + NONCE), cipher.step());
        let encrypt = times(priced("encryptAlgorithm", own, format!("encrypt {step}"), 0), blocks);
        let decrypt = times(private("decryptAlgorithm", own, format!("decrypt {step}"), 0), blocks);
        let seal = vec![using(Basic::Encryption, own, vec![encrypt])];
        let open = vec![using(Basic::Decryption, peer, vec![decrypt])];
        return (seal, open, cipher.sealed(4 + bytes + NONCE) + channel.users().algorithms().1);
    };
    let policy = channel.policy;
    // A vector for a block of AES, or for ChaCha20, which adds a tag; the signature stands where AES would have a code.
    let (vector, tag) = if policy == Policy::EccCurve25519 { (12, 16) } else { (16, 0) };
    let plain = filled(bytes);
    let sealed = SECRET + policy.uri() + channel.chain() + 2 * policy.nonce() + plain + tag;
    let exchange = |by: Role| {
        [
            priced("agreeOnSecret", by, format!("agree {curve}"), 0),
            priced("deriveKeys", by, "derive hkdf-sha256".to_owned(), policy.key_bytes() + vector),
        ]
    };
    let cipher = channel.policy.cipher();
    let mut seal = vec![priced("ephemeralKey", own, format!("generate {curve}"), 0)];
    seal.extend(exchange(own));
    let encrypt = priced("encryptAlgorithm", own, format!("encrypt {cipher}"), plain);
    seal.push(using(Basic::Encryption, own, vec![encrypt]));
    seal.push(using(Basic::SignatureGeneration, own, mechanism::signing(key, digest(key), sealed)));
    let verifying = mechanism::verifying(key, digest(key), sealed, channel.valid);
    let mut open = vec![using(Basic::SignatureVerification, peer, verifying)];
    open.extend(exchange(peer));
    let decrypt = priced("decryptAlgorithm", own, format!("decrypt {cipher}"), plain);
    open.push(using(Basic::Decryption, peer, vec![decrypt]));
    (seal, open, sealed + signature_bytes(key))
}

/// Bytes of the content of an EccEncryptedSecret: nonce, secret, filling and how long that is. A short secret gets a
/// block more, so that it does not show its length (OPC 10000-6 section 6.8.3).
const fn filled(secret: u64) -> u64 {
    let used = 4 + NONCE + 4 + secret + 2;
    let filling = used.next_multiple_of(BLOCK) - used;
    used + filling + if filling + secret < BLOCK { BLOCK } else { 0 }
}

/// The ephemeral key that the server gives for the next secret (OPC 10000-6 section 6.8.2).
#[derive(Default)]
struct ServerKey {
    /// Bytes in which the client asks for it.
    asked: u64,
    /// What the server does to give it.
    given: Vec<Part>,
    /// Bytes in which it comes.
    told: u64,
    /// What the client does to believe it.
    believed: Vec<Part>,
}

/// Each request of a session that shows a secret asks for the key of the next one.
fn server_key(channel: &Channel, user: &User) -> ServerKey {
    let secret = match user {
        User::Anonymous | User::Certificate(_) => false,
        User::Password(_) => true,
        User::Token(tokens) => tokens.encrypted,
    };
    let (Some(curve), true) = (channel.policy.curve(), secret) else { return ServerKey::default() };
    let (key, bytes) = (channel.key, channel.policy.nonce());
    let signing = mechanism::signing(key, digest(key), bytes);
    let given = vec![
        priced("ephemeralKey", Role::Peer, format!("generate {curve}"), 0),
        using(Basic::SignatureGeneration, Role::Peer, signing),
    ];
    let verifying = mechanism::verifying(key, digest(key), bytes, channel.valid);
    let asked = KEY.0 + channel.policy.uri();
    ServerKey {
        asked,
        given,
        told: asked + KEY.1 + bytes + signature_bytes(key),
        believed: vec![using(Basic::SignatureVerification, Role::Own, verifying)],
    }
}
