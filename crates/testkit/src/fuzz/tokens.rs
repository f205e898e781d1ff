//! Tokens, control updates, key sets and scope sets, signed or not.

use std::sync::LazyLock;

use access_model::ScopeMap;
use aws_lc_rs::signature::Ed25519KeyPair;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pep::{ChannelBinding, Gate, GateConfig};
use token::{
    Expectation, Issuer, MAX_TOKEN_LEN, ScopeSet, VerifyingKey, control, danger_peek_unverified, mint, parse_jwks,
    verify,
};

use super::Feed;
use crate::clock::Clock;
use crate::keys::{AUTHORITY, CLIENT_A, SERVER_URI};
use crate::world::{AUTHORITY_NAME, scope_map};

/// First byte: what the rest is.
pub fn tokens(data: &[u8]) {
    let mut feed = Feed(data);
    match feed.byte() % 6 {
        0 => unsigned(feed.0),
        1 => signed(&sign("JWT", feed.0)),
        2 => updates(&sign("tk-update+jwt", feed.0)),
        3 => scope_sets(feed.0),
        4 => key_sets(feed.0),
        _ => {
            let header = feed.part();
            signed(&join(header, feed.0));
        }
    }
}

fn issuers() -> [Issuer; 1] {
    [Issuer { name: AUTHORITY_NAME.into(), keys: vec![AUTHORITY.public()], require_confirmation: false }]
}

fn expectation(issuers: &[Issuer]) -> Expectation<'_> {
    Expectation { issuers, audience: SERVER_URI, now: Clock::default().now().unix, max_len: MAX_TOKEN_LEN }
}

fn unsigned(bytes: &[u8]) {
    assert!(verify(bytes, &expectation(&issuers())).is_err(), "a token that the authority did not sign");
    assert!(control::open(bytes, &issuers(), SERVER_URI).is_err(), "an update that the authority did not sign");
    let _ = danger_peek_unverified(bytes);
}

/// What the authority signed, however odd: if it verifies, it says the same when it is minted again, and a gate takes it
/// or refuses it.
fn signed(bytes: &[u8]) {
    let _ = danger_peek_unverified(bytes);
    let Ok(claims) = verify(bytes, &expectation(&issuers())) else { return };
    if let Ok(again) = mint(&claims, &AUTHORITY) {
        let again = verify(again.as_bytes(), &expectation(&issuers())).expect("what was minted verifies");
        assert_eq!((&again.subject, &again.rights, again.expires), (&claims.subject, &claims.rights, claims.expires));
    }
    let config = GateConfig { issuers: issuers().into(), ..GateConfig::new(SERVER_URI, scope_map()) };
    let now = Clock::default().now();
    let mut gate = Gate::new(config, now).expect("the gate is consistent");
    let binding = ChannelBinding { certificate: Some(CLIENT_A.certificate.thumbprint()), ..ChannelBinding::default() };
    if let Ok(grant) = gate.present(bytes, &binding, now) {
        assert!(gate.poll_timeout().is_none_or(|end| end > now.mono), "the end of a grant is to come");
        gate.release(grant);
    }
}

fn updates(bytes: &[u8]) {
    if let Ok(update) = control::open(bytes, &issuers(), SERVER_URI)
        && let Ok(again) = control::seal(&update, &AUTHORITY)
    {
        assert_eq!(control::open(&again, &issuers(), SERVER_URI), Ok(update));
    }
}

fn scope_sets(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for max in [100, 1 << 24] {
        if let Ok(set) = ScopeSet::decode(text, max) {
            assert!(set.runs().len() <= 7 * text.len(), "memory follows the text");
            assert!(set.last().is_none_or(|last| last < max), "no position beyond the map");
            if set.len() < 10_000 {
                assert_eq!(ScopeSet::decode(&set.encode(), max), Ok(set));
            }
        }
    }
    let _ = ScopeMap::new(text.split(','));
}

fn key_sets(bytes: &[u8]) {
    if let Ok(keys) = parse_jwks(bytes) {
        assert_eq!(parse_jwks(token::jwks(&keys).as_bytes()), Ok(keys));
    }
    let _ = VerifyingKey::from_jwk(bytes);
    let _ = VerifyingKey::from_certificate_der(bytes);
    let _ = VerifyingKey::from_spki_der(bytes);
}

/// A compact JWS of this payload as the authority would sign it.
fn sign(kind: &str, payload: &[u8]) -> Vec<u8> {
    let header = format!(r#"{{"alg":"EdDSA","typ":"{kind}","kid":"{}"}}"#, AUTHORITY.kid());
    join(header.as_bytes(), payload)
}

fn join(header: &[u8], payload: &[u8]) -> Vec<u8> {
    static KEY: LazyLock<Ed25519KeyPair> = LazyLock::new(|| {
        Ed25519KeyPair::from_pkcs8_maybe_unchecked(AUTHORITY.to_pkcs8()).expect("the authority's key is Ed25519")
    });
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload));
    let signature = KEY.sign(signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)).into_bytes()
}
