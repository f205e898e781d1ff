//! The exchanges of `IKEv2`, and what their messages are made of. Sizes are those of UDP's content, for addresses of IPv4, one proposal
//! and one pair of traffic selectors.

use super::{Auth, Group, Ipsec, TAG};
use crate::algorithm::{Hash, Key};
use crate::mechanism::{self, Basic, Part, Role, algorithm, certificate_bytes, priced, signature_value};
use crate::protocol::{certificates, digest, free, message, times, using};

/// The header of a message and of a payload (RFC 7296 sections 3.1, 3.2).
const HEADER: u64 = 28;
const PAYLOAD: u64 = 4;
/// A nonce: at least half a key of the pseudo-random function (section 2.10).
const NONCE: u64 = 32;
/// Payloads whose length does not vary: a notification beside its data (section 3.10), a KE beside its key (3.4), an ID with the name
/// that it holds (3.5), a CERT beside its certificate (3.6), a CERTREQ for one authority (3.7), an AUTH beside its data (3.8), two TS
/// with one range of addresses each (3.13), a Delete beside its SPI (3.11).
const NOTIFY: u64 = PAYLOAD + 4;
const KE: u64 = PAYLOAD + 4;
const ID: u64 = PAYLOAD + 4 + 24;
const CERT: u64 = PAYLOAD + 1;
const CERTREQ: u64 = PAYLOAD + 1 + 20;
const AUTH: u64 = PAYLOAD + 4;
const TS: u64 = 2 * (PAYLOAD + 4 + 16);
const DELETE: u64 = PAYLOAD + 4;
/// A proposal without its SPI, a transform without attributes (sections 3.3.1, 3.3.2).
const PROPOSAL: u64 = 8;
const TRANSFORM: u64 = 8;
/// SPI of IKE, of ESP.
const IKE_SPI: u64 = 8;
const ESP_SPI: u64 = 4;
/// Both NAT_DETECTION notifications (section 2.23): a SHA-1 each over SPIs, address and port.
const DETECTION: u64 = 2 * (NOTIFY + 20);
const DETECTED: u64 = 2 * IKE_SPI + 4 + 2;
/// SIGNATURE_HASH_ALGORITHMS with three of them (RFC 7427 section 4).
const HASHES: u64 = NOTIFY + 2 * 3;
/// A COOKIE notification with a hash and the version of its secret (section 2.6).
const COOKIE: u64 = NOTIFY + 4 + 32;
/// Marks IKE where ESP goes over UDP too (RFC 3948 section 2.2).
const MARK: u64 = 4;

const OWN: Role = Role::Own;
const PEER: Role = Role::Peer;

impl Ipsec {
    /// IKE_SA_INIT: keys are exchanged and those of IKE derived.
    pub(super) fn initial(&self) -> Vec<Part> {
        let mut parts = self.offer(OWN);
        parts.extend(detection(OWN));
        parts.extend(message("IKE_SA_INIT", OWN, self.heard_bytes(OWN)));
        parts.extend(detection(PEER));
        parts.extend(self.offer(PEER));
        parts.extend([self.agree(PEER), self.ike_keys(PEER)]);
        parts.extend(detection(PEER));
        parts.extend(message("IKE_SA_INIT answer", PEER, self.heard_bytes(PEER)));
        parts.extend(detection(OWN));
        parts.extend([self.agree(OWN), self.ike_keys(OWN)]);
        parts
    }

    /// IKE_AUTH: both prove who they are, and the first keys of ESP are derived.
    pub(super) fn authentication(&self) -> Vec<Part> {
        let mut parts = self.proves(OWN);
        parts.extend(self.sealed("IKE_AUTH", OWN, self.auth_bytes(OWN)));
        parts.extend(self.believes(PEER));
        parts.extend(self.proves(PEER));
        parts.push(self.esp_keys(PEER, 0));
        parts.extend(self.sealed("IKE_AUTH answer", PEER, self.auth_bytes(PEER)));
        parts.extend(self.believes(OWN));
        parts.push(self.esp_keys(OWN, 0));
        parts
    }

    /// A first request in vain: the responder answers with a hash that only it can make and keeps nothing (section 2.6). The request is
    /// sent again with it, keys and nonce as before: that one is counted with IKE_SA_INIT.
    pub(super) fn asked_for_cookie(&self) -> Vec<Part> {
        let hash = || priced("makeCookie", PEER, format!("hash {}", Hash::Sha256), NONCE + 4 + IKE_SPI + 32);
        let mut parts = message("IKE_SA_INIT", OWN, self.init_bytes(OWN)).to_vec();
        parts.push(hash());
        parts.extend(message("cookie", PEER, HEADER + COOKIE));
        parts.push(hash());
        parts
    }

    /// CREATE_CHILD_SA for the keys of ESP; what they replace is deleted.
    pub(super) fn child(&self) -> Vec<Part> {
        let share = if self.fresh_keys { KE + self.group.share() } else { 0 };
        let group = if self.fresh_keys { TRANSFORM } else { 0 };
        let bytes = self.esp_proposal() + group + PAYLOAD + NONCE + share + TS;
        let secret = if self.fresh_keys { self.group.secret() } else { 0 };
        let mut parts = self.fresh(OWN);
        parts.extend(self.sealed("CREATE_CHILD_SA", OWN, NOTIFY + ESP_SPI + bytes));
        parts.extend(self.fresh(PEER));
        let agree = |by: Role| self.fresh_keys.then(|| self.agree(by));
        parts.extend(agree(PEER));
        parts.push(self.esp_keys(PEER, secret));
        parts.extend(self.sealed("CREATE_CHILD_SA answer", PEER, bytes));
        parts.extend(agree(OWN));
        parts.push(self.esp_keys(OWN, secret));
        // Each end names the SPI of what it received with.
        parts.extend(self.sealed("INFORMATIONAL", OWN, DELETE + ESP_SPI));
        parts.extend(self.sealed("INFORMATIONAL answer", PEER, DELETE + ESP_SPI));
        parts
    }

    /// CREATE_CHILD_SA for the keys of IKE, always with a key exchange; what they replace is deleted.
    pub(super) fn renewed(&self) -> Vec<Part> {
        let bytes = self.ike_proposal() + IKE_SPI + PAYLOAD + NONCE + KE + self.group.share();
        let mut parts = self.offer(OWN);
        parts.extend(self.sealed("CREATE_CHILD_SA", OWN, bytes));
        parts.extend(self.offer(PEER));
        parts.extend([self.agree(PEER), self.ike_keys(PEER)]);
        parts.extend(self.sealed("CREATE_CHILD_SA answer", PEER, bytes));
        parts.extend([self.agree(OWN), self.ike_keys(OWN)]);
        parts.extend(self.deleted());
        parts
    }

    /// INFORMATIONAL that deletes the keys of IKE, which has no SPI in it, for that stands in the header; the answer is empty (sections 1.4.1
    /// and 3.11).
    pub(super) fn deleted(&self) -> Vec<Part> {
        [self.sealed("INFORMATIONAL", OWN, DELETE), self.sealed("INFORMATIONAL answer", PEER, 0)].concat()
    }

    /// A new key pair and a nonce.
    fn offer(&self, by: Role) -> Vec<Part> {
        let group: Group = self.group;
        vec![priced("ephemeralKey", by, format!("generate {}", group.word()), 0), free("nonce", by, "random", NONCE)]
    }

    fn fresh(&self, by: Role) -> Vec<Part> {
        if self.fresh_keys { self.offer(by) } else { vec![free("nonce", by, "random", NONCE)] }
    }

    fn agree(&self, by: Role) -> Part {
        priced("agreeOnSecret", by, format!("agree {}", self.group.word()), 0)
    }

    /// So many runs of the pseudo-random function over `bytes` in all.
    fn derive(&self, name: &'static str, by: Role, runs: u64, bytes: u64) -> Part {
        times(priced(name, by, format!("derive prf-{}", self.prf.word()), bytes), runs)
    }

    /// SKEYSEED, and the seven keys that prf+ makes of it (section 2.14) with both nonces and both SPIs.
    fn ike_keys(&self, by: Role) -> Part {
        // SK_d and both SK_p, and for each direction SK_e with SK_a; an authenticated cipher has no SK_a (RFC 5282).
        let keys = 3 * self.prf.bytes() + 2 * self.key_bytes();
        let runs = keys.div_ceil(self.prf.bytes());
        let seed = self.group.secret() + 2 * NONCE;
        self.derive("deriveKeys", by, 1 + runs, seed + self.expanded(runs, 2 * NONCE + 2 * IKE_SPI))
    }

    /// KEYMAT (section 2.17): keys of both directions, of the secret of a key exchange of their own, if they have one.
    fn esp_keys(&self, by: Role, secret: u64) -> Part {
        let runs = (2 * self.key_bytes()).div_ceil(self.prf.bytes());
        self.derive("deriveKeys", by, runs, self.expanded(runs, secret + 2 * NONCE))
    }

    /// Bytes that go into so many runs of prf+: the seed and a number, and before these what came of the run before (section 2.13: the
    /// first has none).
    const fn expanded(&self, runs: u64, seed: u64) -> u64 {
        runs * (seed + 1) + runs.saturating_sub(1) * self.prf.bytes()
    }

    /// What is signed: the own first message as the other heard it, the other's nonce, a code over the own ID (section 2.15).
    fn signed_bytes(&self, of: Role) -> u64 {
        self.heard_bytes(of) + NONCE + self.prf.bytes()
    }

    /// The key that `by` signs with.
    fn key(&self, by: Role) -> Option<Key> {
        match (self.auth, by) {
            (Auth::Shared, _) => None,
            (Auth::Signature(_, initiator), Role::Own) => Some(initiator),
            (Auth::Signature(responder, _), Role::Peer) => Some(responder),
        }
    }

    /// The code over an ID, and with a shared key two more runs: one makes a key of it, one goes over all that is signed.
    fn codes(&self, of: Role, by: Role) -> Part {
        let id = ID - PAYLOAD;
        match self.key(of) {
            Some(_) => self.derive("codeIdentity", by, 1, id),
            None => self.derive("codeIdentity", by, 3, id + 17 + self.signed_bytes(of)),
        }
    }

    /// The AUTH of `by`.
    fn proves(&self, by: Role) -> Vec<Part> {
        let signs = self.key(by).map(|key| {
            let parts = mechanism::signing(key, digest(key), self.signed_bytes(by));
            using(Basic::SignatureGeneration, by, parts)
        });
        [self.codes(by, by)].into_iter().chain(signs).collect()
    }

    /// `by` looks at the certificates and the AUTH of the other.
    fn believes(&self, by: Role) -> Vec<Part> {
        let of = by.other();
        let Some(key) = self.key(of) else {
            return vec![self.codes(of, by), Part::Check { name: "code valid", passes: self.valid }];
        };
        let verifying = mechanism::verifying(key, digest(key), self.signed_bytes(of), self.valid);
        vec![
            certificates(by, key, self.certificates),
            self.codes(of, by),
            using(Basic::SignatureVerification, by, verifying),
        ]
    }

    /// A message in an Encrypted payload (section 3.14): vector, content, filling with its length, code.
    fn sealed(&self, name: &'static str, from: Role, content: u64) -> Vec<Part> {
        let plain = if self.authenticated() { content + 1 } else { (content + 1).next_multiple_of(16) };
        let mark = if self.translated { MARK } else { 0 };
        let coded = HEADER + PAYLOAD + self.vector() + plain;
        let (mut parts, after) = self.protected(from, plain, coded, 1);
        parts.extend(message(name, from, mark + coded + TAG));
        parts.extend(after);
        parts
    }

    /// IKE_SA_INIT; the responder's wish for a certificate goes with it.
    fn init_bytes(&self, from: Role) -> u64 {
        let signs = matches!(self.auth, Auth::Signature(..));
        let hashes = if signs { HASHES } else { 0 };
        let wish = if signs && from == Role::Peer { CERTREQ } else { 0 };
        HEADER + self.ike_proposal() + KE + self.group.share() + PAYLOAD + NONCE + DETECTION + hashes + wish
    }

    /// The IKE_SA_INIT to which there is an answer with keys: with the cookie where one was asked for, else its share in the mean, for
    /// what bytes take is in proportion to them.
    fn heard_bytes(&self, from: Role) -> u64 {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a few bytes"
        )]
        let cookie = (self.cookie * COOKIE as f64).round() as u64;
        self.init_bytes(from) + if from == Role::Own { cookie } else { 0 }
    }

    /// ID, certificates and the initiator's wish for one, AUTH, the first proposal for ESP, traffic selectors.
    fn auth_bytes(&self, from: Role) -> u64 {
        let proof = match self.key(from) {
            None => AUTH + self.prf.bytes(),
            Some(key) => {
                let chain = u64::from(self.certificates.max(1)) * (CERT + certificate_bytes(key));
                let wish = if from == Role::Own { CERTREQ } else { 0 };
                // In front of a signature stands its algorithm, and how long that is (RFC 7427 section 3).
                chain + wish + AUTH + 1 + algorithm(key) + signature_value(key)
            }
        };
        ID + proof + self.esp_proposal() + TS
    }

    /// The transforms of a cipher, with the length of its key where it may have several (section 3.3.5), and of its code.
    fn cipher_transforms(&self) -> u64 {
        let length = if self.cipher.starts_with("aes") { 4 } else { 0 };
        TRANSFORM + length + if self.authenticated() { 0 } else { TRANSFORM }
    }

    /// SA payload: cipher, code unless the cipher has its own, pseudo-random function, group (section 3.3).
    fn ike_proposal(&self) -> u64 {
        PAYLOAD + PROPOSAL + self.cipher_transforms() + 2 * TRANSFORM
    }

    /// The same for ESP: cipher, code, sequence numbers.
    fn esp_proposal(&self) -> u64 {
        PAYLOAD + PROPOSAL + ESP_SPI + self.cipher_transforms() + TRANSFORM
    }
}

/// Two hashes of SHA-1 over addresses: to tell, or to compare with what the other told. Few measure them.
fn detection(by: Role) -> Vec<Part> {
    vec![times(free("detectTranslation", by, "hash sha-1", 2 * DETECTED), 2)]
}
