//! Compact JWS (RFC 7515): the envelope of tokens and control updates.
//!
//! The signature is checked before the payload is parsed. The key is one that the caller configured; nothing in the
//! header can bring one along (`jwk`, `jku`, `x5c` are never looked at), and the algorithm is the key's own.

use access_model::{Reason, Refusal};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;

use crate::json::{InvalidJson, Json, Object};
use crate::{Algorithm, DangerWithout, Issuer, Signer, VerifyingKey};

/// What an envelope holds; the header's `typ` keeps the two apart, so that neither passes for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    AccessToken,
    ControlUpdate,
}

impl Kind {
    const fn header_type(self) -> &'static str {
        match self {
            Self::AccessToken => "JWT",
            Self::ControlUpdate => "tk-update+jwt",
        }
    }

    fn accepts(self, header_type: Option<&str>) -> bool {
        match (self, header_type) {
            (Self::AccessToken, None) => true,
            (Self::AccessToken, Some(name)) => {
                ["JWT", "at+jwt", "application/at+jwt"].iter().any(|known| known.eq_ignore_ascii_case(name))
            }
            (Self::ControlUpdate, name) => name == Some(self.header_type()),
        }
    }
}

#[derive(Serialize)]
struct Header<'a> {
    alg: &'a str,
    typ: &'a str,
    kid: &'a str,
}

/// Header, payload and signature, joined; `None` when the key refuses to sign.
pub(crate) fn seal(kind: Kind, payload: &[u8], signer: &Signer) -> Option<String> {
    let header = Header { alg: signer.algorithm().name(), typ: kind.header_type(), kid: signer.kid() };
    let mut text = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&header).ok()?);
    text.push('.');
    URL_SAFE_NO_PAD.encode_string(payload, &mut text);
    let signature = signer.sign(text.as_bytes())?;
    text.push('.');
    URL_SAFE_NO_PAD.encode_string(signature, &mut text);
    Some(text)
}

/// A compact JWS taken apart, nothing believed.
pub(crate) struct Parts<'a> {
    signed: &'a [u8],
    payload: &'a [u8],
    signature: &'a [u8],
    pub(crate) header: Object,
}

pub(crate) fn malformed(detail: &str) -> Refusal {
    Refusal::new(Reason::TokenMalformed, detail)
}

impl<'a> Parts<'a> {
    /// Takes a compact JWS apart and parses its header.
    pub(crate) fn split(token: &'a [u8], max_len: usize) -> Result<Self, Refusal> {
        if token.len() > max_len {
            return Err(Refusal::new(
                Reason::TokenTooLarge,
                format!("{} bytes, at most {max_len} are accepted", token.len()),
            ));
        }
        let dots: Vec<usize> =
            token.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(at, _)| at).take(3).collect();
        let [first, second] = *dots else { return Err(malformed("not three parts joined by dots")) };
        let part = |from: usize, to: usize| token.get(from..to).unwrap_or_default();
        let header = object(&decode(part(0, first))?, "header")?;
        Ok(Self {
            signed: part(0, second),
            payload: part(first + 1, second),
            signature: part(second + 1, token.len()),
            header,
        })
    }

    /// The payload, believed by nobody.
    pub(crate) fn unverified_payload(&self) -> Result<Vec<u8>, Refusal> {
        decode(self.payload)
    }

    /// Checks header, key and signature; then parses the payload and checks that its `iss` owns the key.
    pub(crate) fn verify<'i>(
        &self,
        kind: Kind,
        issuers: &'i [Issuer],
        without: DangerWithout,
    ) -> Result<(&'i Issuer, Object), Refusal> {
        let text = |name: &str| {
            self.header
                .get(name)
                .map(|value| value.text().ok_or_else(|| malformed("a header member is no text")))
                .transpose()
        };
        if !kind.accepts(text("typ")?) {
            return Err(malformed("the header's `typ` is of another kind"));
        }
        // RFC 7515 section 4.1.11: what must be understood and is not, is refused.
        if self.header.contains_key("crit") {
            return Err(malformed("the header names critical extensions"));
        }
        let name = text("alg")?.ok_or_else(|| malformed("the header names no algorithm"))?;
        let algorithm = Algorithm::from_name(name);
        if algorithm.is_none() && without != DangerWithout::Algorithm {
            let detail = format!("algorithm `{}` is not accepted", shown(name));
            return Err(Refusal::new(Reason::TokenAlgorithm, detail));
        }
        let candidates = self.candidates(text("kid")?, issuers)?;
        let signature = decode(self.signature)?;
        let mut owners = Vec::new();
        let mut fault = Refusal::new(Reason::TokenAlgorithm, format!("the key is not for `{name}`"));
        for (issuer, key) in candidates {
            // The key decides: RS256 with an EC key, or a public key taken for an HMAC secret, end here.
            if algorithm.is_some_and(|algorithm| key.algorithm() != algorithm) {
                continue;
            }
            // An unknown algorithm comes this far only where the check above was taken away.
            let unchecked = algorithm.is_none() || without == DangerWithout::Signature;
            if unchecked || key.verifies(self.signed, &signature) {
                owners.push(issuer);
            } else {
                fault = Refusal::new(
                    Reason::TokenSignature,
                    format!("the signature does not verify with key `{}`", shown(key.kid())),
                );
            }
        }
        if owners.is_empty() {
            return Err(fault);
        }
        let payload = object(&self.unverified_payload()?, "payload")?;
        let claimed = payload.get("iss").and_then(Json::text);
        let owner = owners.into_iter().find(|issuer| Some(issuer.name.as_str()) == claimed);
        owner
            .map(|issuer| (issuer, payload))
            .ok_or_else(|| Refusal::new(Reason::TokenIssuer, "the key does not belong to `iss`"))
    }

    /// The keys that the header may mean: all with its `kid`, or the only key there is.
    fn candidates<'i>(
        &self,
        kid: Option<&str>,
        issuers: &'i [Issuer],
    ) -> Result<Vec<(&'i Issuer, &'i VerifyingKey)>, Refusal> {
        let mut all: Vec<_> =
            issuers.iter().flat_map(|issuer| issuer.keys.iter().map(move |key| (issuer, key))).collect();
        match kid {
            Some(kid) => all.retain(|(_, key)| key.kid() == kid),
            None if all.len() > 1 => all.clear(),
            None => {}
        }
        if all.is_empty() { Err(self.no_key(kid, issuers)) } else { Ok(all) }
    }

    /// No key: says whether that is because the issuer is a stranger. It decides nothing, so the payload may be read.
    fn no_key(&self, kid: Option<&str>, issuers: &[Issuer]) -> Refusal {
        let payload = self.unverified_payload().and_then(|bytes| object(&bytes, "payload"));
        let claimed =
            payload.as_ref().ok().and_then(|payload| payload.get("iss")).and_then(Json::text).unwrap_or_default();
        if issuers.iter().any(|issuer| issuer.name == claimed) {
            let kid = kid.map_or_else(|| "none".into(), |kid| format!("`{}`", shown(kid)));
            Refusal::new(Reason::TokenUnknownKey, format!("the issuer has no key with id {kid}"))
        } else {
            Refusal::new(Reason::TokenIssuer, format!("issuer `{}` is not configured", shown(claimed)))
        }
    }
}

/// Base64url without padding; other spellings of the same bytes are refused, so that every bit of a token counts.
fn decode(part: &[u8]) -> Result<Vec<u8>, Refusal> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| malformed("a part is not base64url"))
}

fn object(text: &[u8], part: &str) -> Result<Object, Refusal> {
    Json::parse_object(text).map_err(|fault| match fault {
        InvalidJson::Duplicate => Refusal::new(Reason::TokenDuplicateClaim, format!("the {part} has a member twice")),
        InvalidJson::Syntax => malformed(&format!("the {part} is no JSON object")),
    })
}

/// Foreign text for a log line: short, and without control characters.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(64).flat_map(char::escape_debug).collect()
}
