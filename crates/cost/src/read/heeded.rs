//! Which parameters of an annotation a way of it heeds: what no way heeds would be read and change nothing.

use crate::algorithm::{Cipher, Hash};
use crate::model::Property;

/// What one way heeds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heeded {
    /// Key pairs agree on a key.
    pub(super) exchange: bool,
    /// A certificate is looked at unless it is known.
    pub(super) known: bool,
    /// A certificate is looked at.
    pub(super) trusted: bool,
    /// A signature is looked at.
    pub(super) valid: bool,
    /// Something is signed.
    pub(super) hash: bool,
    /// A private key is used.
    pub(super) engine: bool,
}

impl Heeded {
    /// Of a way of a property with this cipher, probability of reuse and of a known certificate. What steps do with attributes is not
    /// looked at here.
    pub(super) fn of(property: Property, cipher: Option<&Cipher>, reuse: Option<&f64>, known: f64) -> Self {
        let fresh = reuse.is_none_or(|reuse| *reuse < 1.0);
        let signs = property != Property::DataConfidentiality;
        if signs {
            return Self { exchange: false, known: false, trusted: false, valid: fresh, hash: fresh, engine: fresh };
        }
        // The receiver's own key encrypts; or all share a key, which is agreed on where none is there.
        let sealed = matches!(cipher, Some(Cipher::Asymmetric { .. }));
        let agrees = fresh && !sealed;
        let trusted = fresh && (sealed || known < 1.0);
        Self { exchange: agrees, known: agrees, trusted, valid: false, hash: false, engine: sealed || agrees }
    }
}

/// Whether a way heeds a parameter.
type Heeds = fn(&Heeded) -> bool;

/// What was said, one parameter each.
pub(super) struct Told<'a> {
    pub(super) exchange: bool,
    pub(super) known: f64,
    pub(super) trusted: f64,
    pub(super) valid: f64,
    pub(super) hashes: &'a [Hash],
    pub(super) engine: bool,
}

impl Told<'_> {
    /// The first parameter that none of the ways heeds, and why. What stands there without being said may be said, too.
    pub(super) fn in_vain(&self, ways: &[Heeded]) -> Option<(&'static str, &'static str)> {
        let agreed = "no key is ever agreed on, for `reuse` is 1 or the receiver's own key encrypts";
        let proven = "nobody ever proves who he is, for `reuse` is 1";
        let all: [(&str, bool, Heeds, &str); 6] = [
            ("exchange", self.exchange, |way| way.exchange, agreed),
            ("known", self.known < 1.0, |way| way.known, agreed),
            (
                "trusted",
                self.trusted < 1.0,
                |way| way.trusted,
                "no certificate is ever looked at, for `reuse` is 1, or `known` is",
            ),
            ("valid", self.valid < 1.0, |way| way.valid, proven),
            ("hash", self.hashes.iter().any(|hash| *hash != Hash::Sha256), |way| way.hash, proven),
            ("engine", self.engine, |way| way.engine, "no private key is ever used, for `reuse` is 1"),
        ];
        let vain = all.into_iter().find(|(_, said, heeded, _)| *said && !ways.iter().any(heeded));
        vain.map(|(key, _, _, why)| (key, why))
    }
}
