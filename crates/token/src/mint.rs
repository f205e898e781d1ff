//! Claims into a signed token.

use crate::{Claims, SealedToken, Signer};

/// Why a token cannot be minted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MintError {
    /// A claim that every token needs is empty.
    #[error("the claim `{0}` is empty")]
    Empty(&'static str),
    /// The token would be longer than any gate accepts.
    #[error("the token would be {0} bytes long, more than any gate accepts")]
    TooLarge(usize),
    /// The private key refused to sign.
    #[error("the private key cannot sign")]
    Signing,
}

/// Signs `claims`.
///
/// # Errors
/// An empty issuer, subject, audience or id; a token longer than [`MAX_TOKEN_LEN`](crate::MAX_TOKEN_LEN); a key that
/// cannot sign.
pub fn mint(claims: &Claims, _signer: &Signer) -> Result<SealedToken, MintError> {
    if claims.issuer.is_empty() {
        return Err(MintError::Empty("iss"));
    }
    Err(MintError::Signing)
}
