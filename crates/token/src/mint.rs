//! Claims into a signed token.

use crate::jws::{self, Kind};
use crate::payload::MAX_ID_LEN;
use crate::{Claims, MAX_TOKEN_LEN, SealedToken, Signer};

/// Why a token cannot be minted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MintError {
    /// A claim that every token needs is empty.
    #[error("the claim `{0}` is empty")]
    Empty(&'static str),
    /// The token's id is longer than gates remember.
    #[error("the token id is {0} bytes long, at most 128 are allowed")]
    LongId(usize),
    /// The token or update would be longer than any gate accepts.
    #[error("the result would be {0} bytes long, more than any gate accepts")]
    TooLarge(usize),
    /// The private key refused to sign.
    #[error("the private key cannot sign")]
    Signing,
}

/// Signs `claims`. Times are rounded down to whole seconds.
///
/// # Errors
/// An empty issuer, subject, audience or id; a token longer than [`MAX_TOKEN_LEN`](crate::MAX_TOKEN_LEN); a key that
/// cannot sign.
pub fn mint(claims: &Claims, signer: &Signer) -> Result<SealedToken, MintError> {
    let needed = [("iss", &claims.issuer), ("sub", &claims.subject), ("aud", &claims.audience), ("jti", &claims.id)];
    if let Some((name, _)) = needed.into_iter().find(|(_, value)| value.is_empty()) {
        return Err(MintError::Empty(name));
    }
    if claims.id.len() > MAX_ID_LEN {
        return Err(MintError::LongId(claims.id.len()));
    }
    let payload = serde_json::to_vec(claims).map_err(|_| MintError::Signing)?;
    let text = jws::seal(Kind::AccessToken, &payload, signer).ok_or(MintError::Signing)?;
    if text.len() > MAX_TOKEN_LEN {
        return Err(MintError::TooLarge(text.len()));
    }
    Ok(SealedToken::new(text))
}

/// The claims as the JSON text that a token carries, for people who look at tokens.
#[must_use]
pub fn claims_json(claims: &Claims) -> String {
    serde_json::to_string(claims).unwrap_or_default()
}
