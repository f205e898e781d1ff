//! Access tokens and signed control updates: mint and verify.
//!
//! A token is a JWT (RFC 7519) in a compact JWS (RFC 7515), signed with ES256, RS256 or EdDSA. It carries the
//! *decision*: rights on sets of scopes, written compactly ([`ScopeSet`]). No symmetric algorithm, no `none`, no
//! encryption, no key found in or through the token itself. Nothing here knows a clock, a network or a store.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::todo
    )
)]

mod claims;
pub mod control;
mod danger;
mod entropy;
mod json;
mod jwks;
mod jws;
mod keys;
mod mint;
mod path;
mod payload;
mod scope_code;
mod scope_set;
mod verify;

pub use claims::{Claims, RightsClaim, SealedToken, Verified, map_digest};
pub use danger::DangerWithout;
pub use entropy::{Entropy, SystemEntropy, new_id};
pub use jwks::{jwks, parse_jwks};
pub use keys::{Algorithm, InvalidKey, Signer, VerifyingKey};
pub use mint::{MintError, claims_json, mint};
pub use path::ClaimPath;
pub use scope_set::{InvalidScopeSet, ScopeSet};
pub use verify::{
    Expectation, Issuer, MAX_TOKEN_LEN, Peeked, claimed_issuer, danger_peek_unverified, danger_verify_foreign_without,
    danger_verify_without, verify,
};
