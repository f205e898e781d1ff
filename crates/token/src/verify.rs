//! A token into verified claims.

use access_model::{Reason, Refusal, UnixTime};

use crate::{Claims, Verified, VerifyingKey};

/// The longest token that is looked at, whatever an [`Expectation`] says.
pub const MAX_TOKEN_LEN: usize = 256 * 1024;

/// Someone whose tokens are accepted.
#[derive(Clone, Debug)]
pub struct Issuer {
    /// `iss`, compared byte by byte.
    pub name: String,
    /// The keys it may sign with; several while keys rotate.
    pub keys: Vec<VerifyingKey>,
    /// Whether its tokens must name the client's certificate (`cnf`). Only for a foreign issuer that cannot is this
    /// ever false.
    pub require_confirmation: bool,
}

/// What a token must be to be accepted.
#[derive(Clone, Copy, Debug)]
pub struct Expectation<'a> {
    /// Whose tokens are accepted.
    pub issuers: &'a [Issuer],
    /// `aud`: this server's own name.
    pub audience: &'a str,
    /// The wall clock.
    pub now: UnixTime,
    /// The longest token accepted, in bytes; at most [`MAX_TOKEN_LEN`].
    pub max_len: usize,
}

/// Checks everything a token can show by itself: form, signature, issuer, audience, time. What it is bound to (`cnf`,
/// the scope map) is compared by the gate that knows the channel.
///
/// # Errors
/// The first fault found, under its own reason.
pub fn verify(_token: &[u8], _expected: &Expectation<'_>) -> Result<Verified<Claims>, Refusal> {
    Err(Refusal::new(Reason::TokenMalformed, "not three parts"))
}

/// What a token says about itself, believed by nobody.
#[derive(Clone, Debug, PartialEq)]
pub struct Peeked {
    /// `alg` of the header.
    pub algorithm: String,
    /// `kid` of the header.
    pub key_id: Option<String>,
    /// The payload, as JSON text.
    pub payload: String,
    /// The claims, if they can be read as ours.
    pub claims: Option<Claims>,
}

/// Reads a token without checking its signature, for people who look at tokens. Never decide anything by it.
///
/// # Errors
/// A token that is too long or no compact JWS of JSON.
pub fn danger_peek_unverified(_token: &[u8]) -> Result<Peeked, Refusal> {
    Err(Refusal::new(Reason::TokenMalformed, "not three parts"))
}
