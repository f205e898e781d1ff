//! Signed control updates: what the authority tells its gates about live grants.

use access_model::{Epoch, Reason, Refusal, UnixTime};

use crate::{Issuer, MintError, RightsClaim, Signer, Verified};

/// A token that is no longer valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocation {
    /// Its `jti`.
    pub id: String,
    /// Its `exp`: until then a gate remembers the revocation.
    pub expires: UnixTime,
}

/// A token whose rights or end have changed since it was minted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// Its `jti`.
    pub id: String,
    /// What it grants from now on.
    pub rights: RightsClaim,
    /// When it ends from now on. Never later than its own `exp`: a gate takes the earlier.
    pub not_after: UnixTime,
}

/// One message on the control stream.
///
/// With `previous: None` it is the full list: every revoked or replaced token of this issuer for this audience that
/// has not expired; what is not in it stands as minted. Otherwise it is a delta that applies only to a gate at
/// `previous`. A delta with `previous` equal to `epoch` and nothing in it is the heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// Who signs.
    pub issuer: String,
    /// The gate's audience.
    pub audience: String,
    /// The epoch that a gate is at after this update. Grows with every change that is sent, revocations included.
    pub epoch: Epoch,
    /// The epoch that a gate must be at for this delta; `None` for the full list.
    pub previous: Option<Epoch>,
    /// When it was signed.
    pub issued_at: UnixTime,
    /// Tokens that are no longer valid.
    pub revoked: Vec<Revocation>,
    /// Tokens that grant something else from now on.
    pub replaced: Vec<Replacement>,
}

/// The longest update that is looked at.
pub const MAX_UPDATE_LEN: usize = 16 * 1024 * 1024;

/// Signs an update.
///
/// # Errors
/// An empty issuer or audience, an update longer than [`MAX_UPDATE_LEN`], a key that cannot sign.
pub fn seal(_update: &Update, _signer: &Signer) -> Result<Vec<u8>, MintError> {
    Err(MintError::Signing)
}

/// Checks form, signature, issuer and audience of an update. Its place in the order of epochs is the gate's business.
///
/// # Errors
/// The first fault found, under its own reason.
pub fn open(_bytes: &[u8], _issuers: &[Issuer], _audience: &str) -> Result<Verified<Update>, Refusal> {
    Err(Refusal::new(Reason::TokenMalformed, "not three parts"))
}
