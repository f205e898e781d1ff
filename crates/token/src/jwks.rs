//! Key sets (RFC 7517): what an authority publishes and a gate fetches.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::json::{Json, Object};
use crate::keys::Numbers;
use crate::{InvalidKey, VerifyingKey};

/// The most keys a set may hold.
const MAX_KEYS: usize = 64;
/// The longest set that is looked at, in bytes.
const MAX_LEN: usize = 256 * 1024;
const MALFORMED: InvalidKey = InvalidKey::Malformed("JWK");

/// The key set document of these keys.
#[must_use]
pub fn jwks(keys: &[VerifyingKey]) -> String {
    json!({ "keys": keys.iter().map(members).collect::<Vec<_>>() }).to_string()
}

/// The signature keys in a key set document. Keys for encryption and of kinds we cannot use are passed over, as
/// RFC 7517 section 5 asks; a key that claims to be usable and is broken fails the whole set.
///
/// # Errors
/// No key set, more than 64 keys, or a broken key.
pub fn parse_jwks(document: &[u8]) -> Result<Vec<VerifyingKey>, InvalidKey> {
    if document.len() > MAX_LEN {
        return Err(InvalidKey::Malformed("JWK set"));
    }
    let set = Json::parse_object(document).map_err(|_| InvalidKey::Malformed("JWK set"))?;
    let Some(Json::Array(keys)) = set.get("keys") else { return Err(InvalidKey::Malformed("JWK set")) };
    if keys.len() > MAX_KEYS {
        return Err(InvalidKey::TooMany(MAX_KEYS));
    }
    let usable = keys.iter().filter_map(|key| match key {
        Json::Object(members) => parse(members).transpose(),
        _ => Some(Err(MALFORMED)),
    });
    usable.collect()
}

impl VerifyingKey {
    /// The key in one JWK.
    ///
    /// # Errors
    /// No JWK, a broken key, or a kind we cannot use.
    pub fn from_jwk(jwk: &[u8]) -> Result<Self, InvalidKey> {
        let members = Json::parse_object(jwk).map_err(|_| MALFORMED)?;
        parse(&members)?.ok_or(InvalidKey::Unsupported)
    }

    /// The key as one JWK.
    #[must_use]
    pub fn jwk(&self) -> String {
        members(self).to_string()
    }
}

fn members(key: &VerifyingKey) -> Value {
    let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let mut jwk = match key.numbers() {
        Numbers::Ec { x, y } => json!({ "kty": "EC", "crv": "P-256", "x": text(x), "y": text(y) }),
        Numbers::Rsa { n, e } => json!({ "kty": "RSA", "n": text(n), "e": text(e) }),
        Numbers::Ed { x } => json!({ "kty": "OKP", "crv": "Ed25519", "x": text(x) }),
    };
    if let Value::Object(jwk) = &mut jwk {
        jwk.insert("use".into(), "sig".into());
        jwk.insert("alg".into(), key.algorithm().name().into());
        jwk.insert("kid".into(), key.kid().into());
    }
    jwk
}

/// `None` for a key that is not for us.
fn parse(jwk: &Object) -> Result<Option<VerifyingKey>, InvalidKey> {
    let text = |name: &str| jwk.get(name).and_then(Json::text);
    let bytes = |name: &str| text(name).and_then(|value| URL_SAFE_NO_PAD.decode(value).ok()).ok_or(MALFORMED);
    let number = |name: &str| <[u8; 32]>::try_from(bytes(name)?).map_err(|_| MALFORMED);
    if text("use").is_some_and(|purpose| purpose != "sig") {
        return Ok(None);
    }
    let numbers = match (text("kty"), text("crv")) {
        (Some("EC"), Some("P-256")) => Numbers::Ec { x: number("x")?, y: number("y")? },
        (Some("RSA"), _) => Numbers::Rsa { n: bytes("n")?, e: bytes("e")? },
        (Some("OKP"), Some("Ed25519")) => Numbers::Ed { x: number("x")? },
        (Some(_), _) => return Ok(None),
        (None, _) => return Err(MALFORMED),
    };
    let key = VerifyingKey::from_numbers(text("kid").map(str::to_owned), numbers)?;
    // RS384, PS256 and the like: a key that is meant for another algorithm verifies nothing here.
    Ok(text("alg").is_none_or(|name| name == key.algorithm().name()).then_some(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Algorithm, Signer};

    #[test]
    fn a_set_leads_back_to_its_keys() {
        let keys: Vec<_> = Algorithm::ALL.map(|algorithm| Signer::generate(algorithm).unwrap().public()).into();
        assert_eq!(parse_jwks(jwks(&keys).as_bytes()).unwrap(), keys);
        for key in keys {
            assert_eq!(VerifyingKey::from_jwk(key.jwk().as_bytes()).unwrap(), key);
        }
    }

    #[test]
    fn keys_for_other_uses_are_passed_over() {
        let key = Signer::generate(Algorithm::Es256).unwrap().public();
        for (member, value) in [("use", "enc"), ("kty", "oct"), ("crv", "P-384"), ("alg", "ES384")] {
            let mut jwk: Value = serde_json::from_str(&key.jwk()).unwrap();
            jwk[member] = value.into();
            assert_eq!(parse_jwks(json!({ "keys": [jwk] }).to_string().as_bytes()), Ok(vec![]), "{member}");
        }
    }

    #[test]
    fn broken_sets_are_errors() {
        let key = Signer::generate(Algorithm::Es256).unwrap().public();
        let off_curve = key.jwk().replace(r#""y":""#, r#""y":"A"#);
        let cases = [
            ("no JSON", "keys".to_owned()),
            ("no set", "{}".to_owned()),
            ("a key that is a number", r#"{"keys":[1]}"#.to_owned()),
            ("a key without kind", r#"{"keys":[{}]}"#.to_owned()),
            ("a point of 33 bytes", format!(r#"{{"keys":[{off_curve}]}}"#)),
            ("two members of one name", format!(r#"{{"keys":[{}],"keys":[]}}"#, key.jwk())),
            ("a short RSA key", r#"{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}"#.to_owned()),
            ("65 keys", format!(r#"{{"keys":[{}]}}"#, vec![key.jwk(); 65].join(","))),
        ];
        for (case, document) in cases {
            assert!(parse_jwks(document.as_bytes()).is_err(), "{case}");
        }
    }

    #[test]
    fn the_thumbprint_of_rfc_7638_names_its_key() {
        let jwk = r#"{"kty":"RSA","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw","e":"AQAB"}"#;
        let key = VerifyingKey::from_jwk(jwk.as_bytes()).unwrap();
        assert!("NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs".starts_with(key.kid()), "{}", key.kid());
    }
}
