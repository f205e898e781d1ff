//! Ephemeral keys for secrets in identity tokens (OPC 10000-6 §6.8.2): a client asks for one in CreateSession and
//! ActivateSession, and the newest one it was given counts.
//!
//! A key stays until an activation succeeds: a refused one leaves the session as it was, so that the client can try again
//! with what it has. What was sealed for a key that served is worth nothing, and neither is it with the nonce that is over.

use std::sync::Arc;

use opcua_types::ExtensionObject;

use crate::Entropy;
use crate::crypto::{CryptoFailure, EphemeralKey, SecurityPolicyId, ephemeral_key};
use crate::pki::OwnIdentity;
use crate::wire::{KeyHeader, SignedKey};

/// What a request says about ephemeral keys.
pub(crate) enum Asked {
    Nothing,
    /// A key for a policy that secrets here are not protected with.
    Other(String),
    /// A key, made but not signed.
    Key(SecurityPolicyId, EphemeralKey),
}

impl Asked {
    /// Reads the additional header of a request on a channel of `policy`: secrets are protected with it and no other.
    pub(crate) fn read(header: &ExtensionObject, policy: SecurityPolicyId, entropy: &mut dyn Entropy) -> Self {
        let Some(uri) = KeyHeader::read(header).policy_uri else { return Self::Nothing };
        let key = if uri == policy.uri() { ephemeral_key(policy, entropy) } else { None };
        key.map_or(Self::Other(uri), |key| Self::Key(policy, key))
    }

    /// Signs the key. A private-key operation: inside a job only.
    pub(crate) fn sign(self, own: &OwnIdentity) -> Result<Given, CryptoFailure> {
        Ok(match self {
            Self::Nothing => Given::Nothing,
            Self::Other(uri) => Given::Refused(uri),
            Self::Key(policy, key) => {
                let public = key.public().to_vec();
                let signature = policy.algorithms().sign(&own.key, &public)?;
                Given::Key(policy, Arc::new(key), SignedKey { public, signature })
            }
        })
    }

    /// The answer where nothing can be signed.
    pub(crate) fn unsigned(self) -> Given {
        match self {
            Self::Nothing => Given::Nothing,
            Self::Other(uri) => Given::Refused(uri),
            Self::Key(policy, _) => Given::Refused(policy.uri().to_owned()),
        }
    }
}

/// What a response says about ephemeral keys.
#[derive(Default)]
pub(crate) enum Given {
    #[default]
    Nothing,
    Refused(String),
    Key(SecurityPolicyId, Arc<EphemeralKey>, SignedKey),
}

impl Given {
    /// The additional header of the response.
    pub(crate) fn header(&self) -> ExtensionObject {
        match self {
            Self::Nothing => ExtensionObject::null(),
            Self::Refused(uri) => KeyHeader::answer(uri, None),
            Self::Key(policy, _, signed) => KeyHeader::answer(policy.uri(), Some(signed)),
        }
    }

    /// The key that the session keeps.
    pub(crate) fn key(&self) -> Option<Arc<EphemeralKey>> {
        match self {
            Self::Key(_, key, _) => Some(key.clone()),
            Self::Nothing | Self::Refused(_) => None,
        }
    }
}
