//! A token into verified claims.

use std::time::Duration;

use access_model::{Reason, Refusal, UnixTime};

use crate::json::Json;
use crate::jws::{Kind, Parts, malformed};
use crate::{ClaimPath, Claims, DangerWithout, Verified, VerifyingKey, payload};

/// How far `nbf` and `iat` may lie ahead of this clock. `exp` has no such slack.
const SKEW: Duration = Duration::from_secs(60);

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
pub fn verify(token: &[u8], expected: &Expectation<'_>) -> Result<Verified<Claims>, Refusal> {
    danger_verify_without(token, expected, DangerWithout::Nothing)
}

/// [`verify`] with one check left out: only to see that somebody notices.
///
/// # Errors
/// As [`verify`], but for what is left out.
pub fn danger_verify_without(
    token: &[u8],
    expected: &Expectation<'_>,
    without: DangerWithout,
) -> Result<Verified<Claims>, Refusal> {
    danger_verify_foreign_without(token, expected, &ClaimPath::default(), without)
}

/// [`danger_verify_without`] for an issuer that has its roles in another claim. What stands in `roles` itself then counts
/// for nothing.
///
/// # Errors
/// As [`danger_verify_without`]; also a claim of another kind on the way to the roles.
pub fn danger_verify_foreign_without(
    token: &[u8],
    expected: &Expectation<'_>,
    roles: &ClaimPath,
    without: DangerWithout,
) -> Result<Verified<Claims>, Refusal> {
    let parts = Parts::split(token, expected.max_len.min(MAX_TOKEN_LEN))?;
    let (issuer, payload) = parts.verify(Kind::AccessToken, expected.issuers, without)?;
    if without != DangerWithout::Audience && !payload::is_for(&payload, expected.audience) {
        return Err(Refusal::new(Reason::TokenAudience, "the token is for another server"));
    }
    let (audience, roles) = (expected.audience.to_owned(), roles.read(&payload)?);
    let claims = Claims { audience, roles, ..payload::parse(&payload)? };
    check_time(&claims, expected.now, without)?;
    // A token that is bound to no certificate can be used by whoever steals it.
    if issuer.require_confirmation && claims.confirmation.is_none() {
        return Err(Refusal::new(Reason::TokenUnbound, "the token names no client certificate"));
    }
    Ok(Verified::new(claims))
}

fn check_time(claims: &Claims, now: UnixTime, without: DangerWithout) -> Result<(), Refusal> {
    if without != DangerWithout::Expiry && now >= claims.expires {
        let late = now.since(claims.expires).as_secs();
        return Err(Refusal::new(Reason::TokenExpired, format!("the token ended {late} s ago")));
    }
    let starts = claims.not_before.max(claims.issued_at);
    if starts > now + SKEW {
        let early = starts.since(now).as_secs();
        return Err(Refusal::new(Reason::TokenNotYetValid, format!("the token starts in {early} s")));
    }
    Ok(())
}

/// The `iss` of a token, believed by nobody: for choosing whose keys a token is held against. None in a token that
/// cannot be read or is too long.
#[must_use]
pub fn claimed_issuer(token: &[u8]) -> Option<String> {
    let payload = Parts::split(token, MAX_TOKEN_LEN).and_then(|parts| parts.unverified_payload()).ok()?;
    let members = Json::parse_object(&payload).ok()?;
    members.get("iss").and_then(Json::text).map(str::to_owned)
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
pub fn danger_peek_unverified(token: &[u8]) -> Result<Peeked, Refusal> {
    let parts = Parts::split(token, MAX_TOKEN_LEN)?;
    let text = |name: &str| parts.header.get(name).and_then(Json::text).map(str::to_owned);
    let bytes = parts.unverified_payload()?;
    let members = Json::parse_object(&bytes).map_err(|_| malformed("the payload is no JSON object"))?;
    Ok(Peeked {
        algorithm: text("alg").unwrap_or_default(),
        key_id: text("kid"),
        claims: payload::parse(&members).ok(),
        payload: String::from_utf8(bytes).map_err(|_| malformed("the payload is not UTF-8"))?,
    })
}
