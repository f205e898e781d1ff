//! What `--danger-without` takes away, in the words of the crates that check it. Nothing else of the program may name
//! these settings: `xtask tidy` sees to it.

use std::sync::Arc;

use arc_swap::ArcSwap;
use ua_proto::pki::{SharedTrust, TrustList, TrustSettings};

use super::Without;

/// What the gates do not check.
pub(crate) fn of_gate(without: Option<Without>) -> pep::DangerWithout {
    use pep::DangerWithout::{Confirmation, Nothing, Revocation, Rights, Token};
    match without {
        Some(Without::Expiry) => Token(token::DangerWithout::Expiry),
        Some(Without::Audience) => Token(token::DangerWithout::Audience),
        Some(Without::Signature) => Token(token::DangerWithout::Signature),
        Some(Without::Algorithm) => Token(token::DangerWithout::Algorithm),
        Some(Without::Confirmation) => Confirmation,
        Some(Without::Rights) => Rights,
        Some(Without::Revocation) => Revocation,
        _ => Nothing,
    }
}

/// What the servers do not check of an activation.
pub(crate) fn of_server(without: Option<Without>) -> ua_proto::server::DangerWithout {
    use ua_proto::server::DangerWithout::{ClientSignature, Nonce, Nothing};
    match without {
        Some(Without::Nonce) => Nonce,
        Some(Without::ClientSignature) => ClientSignature,
        _ => Nothing,
    }
}

/// A list that trusts every certificate.
pub(crate) fn everybody() -> SharedTrust {
    let settings = TrustSettings { danger_trust_everybody: true, ..TrustSettings::default() };
    Arc::new(ArcSwap::from_pointee(TrustList { settings, ..TrustList::default() }))
}
