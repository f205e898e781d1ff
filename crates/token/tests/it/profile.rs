//! The JWT profile: what is minted verifies, and everything else is refused under its own reason.

use access_model::{Epoch, MapDigest, Reason, Rights, Thumbprint, UnixTime};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use serde_json::{Value, json};
use token::{
    Algorithm, ClaimPath, Claims, DangerWithout, Expectation, Issuer, MintError, RightsClaim, Signer,
    danger_peek_unverified, danger_verify_foreign_without, mint, verify,
};

use crate::common;
use crate::common::{AUDIENCE, ISSUER, NOW, claims, expectation, issuer, seconds, signer, some_rights};

/// Signs any payload with the key and header of a real token, as a broken or foreign issuer might.
fn forge(signer: &Signer, payload: &str) -> String {
    forge_with(signer, &json!({ "alg": signer.algorithm().name(), "kid": signer.kid() }).to_string(), payload)
}

/// A token with this header and payload and a signature that is right for them.
fn forge_with(signer: &Signer, header: &str, payload: &str) -> String {
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload));
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, signer.to_pkcs8()).unwrap();
    let signature = key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn reason(token: &str, expected: &Expectation<'_>) -> Option<Reason> {
    verify(token.as_bytes(), expected).err().map(|refusal| refusal.reason)
}

fn payload(change: impl FnOnce(&mut Value)) -> String {
    let mut payload = json!({
        "iss": ISSUER, "sub": "maria", "aud": AUDIENCE, "exp": NOW.as_seconds() + 300, "iat": NOW.as_seconds(),
        "jti": "a", "cnf": { "x5t#S256": URL_SAFE_NO_PAD.encode([1; 32]) },
    });
    change(&mut payload);
    payload.to_string()
}

#[test]
fn every_algorithm_mints_and_verifies() {
    for algorithm in Algorithm::ALL {
        let signer = Signer::generate(algorithm).unwrap();
        let wanted = claims(Some(some_rights()));
        let token = mint(&wanted, &signer).unwrap();
        let verified = verify(token.as_bytes(), &expectation(&[issuer(&signer)])).unwrap();
        assert_eq!(*verified, wanted, "{algorithm:?}");
    }
}

/// Keycloak has the roles of a realm in `realm_access`, `roles`.
#[test]
fn roles_count_where_they_are_said_to_stand_and_nowhere_else() {
    let signer = signer();
    let issuers = [issuer(&signer)];
    let path = |names: &[&str]| ClaimPath::new(names.iter().map(|&name| name.to_owned()).collect()).unwrap();
    let (plain, nested) = (ClaimPath::default(), path(&["realm_access", "roles"]));
    assert_eq!((plain.clone(), ClaimPath::new(Vec::new())), (path(&["roles"]), None));
    let read = |more: &Value, path: &ClaimPath| {
        let token = forge(&signer, &payload(|p| p.as_object_mut().unwrap().extend(more.as_object().unwrap().clone())));
        let expected = expectation(&issuers);
        let claims = danger_verify_foreign_without(token.as_bytes(), &expected, path, DangerWithout::Nothing);
        claims.map(|claims| claims.roles.clone()).map_err(|refusal| refusal.reason)
    };
    let some = |name: &str| Ok(vec![name.to_owned()]);
    let (none, malformed) = (Ok(Vec::new()), Err(Reason::TokenMalformed));
    for (claims, at_nested, at_plain) in [
        (json!({ "realm_access": { "roles": ["operator"] } }), some("operator"), none.clone()),
        (json!({ "roles": ["operator"] }), none.clone(), some("operator")),
        (json!({ "roles": ["a"], "realm_access": { "roles": ["b"] } }), some("b"), some("a")),
        (json!({ "realm_access": { "groups": ["operator"] } }), none.clone(), none.clone()),
        (json!({ "realm_access": ["operator"] }), malformed.clone(), none.clone()),
        (json!({ "realm_access": { "roles": "operator" } }), malformed.clone(), none.clone()),
        (json!({ "realm_access": { "roles": [["operator"]] } }), malformed.clone(), none.clone()),
        (json!({ "realm_access.roles": ["operator"] }), none.clone(), none.clone()),
        (json!({ "roles": "operator" }), malformed.clone(), malformed),
    ] {
        assert_eq!((read(&claims, &nested), read(&claims, &plain)), (at_nested, at_plain), "{claims}");
    }
}

#[test]
fn what_is_odd_but_right_is_accepted() {
    let signer = signer();
    let issuers = [issuer(&signer)];
    let kid = signer.kid();
    let cases = [
        ("as it is", forge(&signer, &payload(|_| {}))),
        ("no kid, and only one key", forge_with(&signer, r#"{"alg":"ES256"}"#, &payload(|_| {}))),
        (
            "RFC 9068 type",
            forge_with(&signer, &format!(r#"{{"alg":"ES256","typ":"at+JWT","kid":"{kid}"}}"#), &payload(|_| {})),
        ),
        ("aud is a list", forge(&signer, &payload(|p| p["aud"] = json!(["urn:other", AUDIENCE])))),
        ("exp with a fraction", forge(&signer, &payload(|p| p["exp"] = json!(NOW.as_seconds() as f64 + 1.5)))),
        ("exp beyond time", forge(&signer, &payload(|p| p["exp"] = json!(1e300)))),
        ("no jti", forge(&signer, &payload(|p| drop(p.as_object_mut().unwrap().remove("jti"))))),
        ("unknown members", forge(&signer, &payload(|p| p["realm_access"] = json!({ "roles": [1, null, {}] })))),
        ("one second to go", forge(&signer, &payload(|p| p["exp"] = json!(NOW.as_seconds() + 1)))),
        ("issued 60 s ahead", forge(&signer, &payload(|p| p["iat"] = json!(NOW.as_seconds() + 60)))),
        ("starts 60 s ahead", forge(&signer, &payload(|p| p["nbf"] = json!(NOW.as_seconds() + 60)))),
    ];
    for (case, token) in cases {
        assert_eq!(reason(&token, &expectation(&issuers)), None, "{case}");
    }
}

#[test]
fn every_fault_has_its_reason() {
    let signer = signer();
    let issuers = [issuer(&signer)];
    let kid = signer.kid();
    let header = |members: &str| format!(r#"{{"alg":"ES256","kid":"{kid}"{members}}}"#);
    let with = |name: &str, value: Value| forge(&signer, &payload(|p| p[name] = value));
    let without = |name: &str| forge(&signer, &payload(|p| drop(p.as_object_mut().unwrap().remove(name))));
    let good = payload(|_| {});
    let at = NOW.as_seconds();
    let cases = [
        (Reason::TokenMalformed, "empty", String::new()),
        (Reason::TokenMalformed, "two parts", "e30.e30".into()),
        (Reason::TokenMalformed, "four parts", format!("{}.e30", forge(&signer, &good))),
        (Reason::TokenMalformed, "padding", forge(&signer, &good) + "="),
        (Reason::TokenMalformed, "line break", forge(&signer, &good) + "\n"),
        (Reason::TokenMalformed, "header is no JSON", forge_with(&signer, "alg", &good)),
        (Reason::TokenMalformed, "payload is no object", forge(&signer, "[]")),
        (Reason::TokenMalformed, "no alg", forge_with(&signer, &format!(r#"{{"kid":"{kid}"}}"#), &good)),
        (Reason::TokenMalformed, "kid is a number", forge_with(&signer, r#"{"alg":"ES256","kid":7}"#, &good)),
        (
            Reason::TokenMalformed,
            "critical extension",
            forge_with(&signer, &header(r#","crit":["b64"],"b64":false"#), &good),
        ),
        (
            Reason::TokenMalformed,
            "type of a control update",
            forge_with(&signer, &header(r#","typ":"tk-update+jwt""#), &good),
        ),
        (Reason::TokenMalformed, "no sub", without("sub")),
        (Reason::TokenMalformed, "empty sub", with("sub", json!(""))),
        (Reason::TokenMalformed, "sub is a number", with("sub", json!(7))),
        (Reason::TokenMalformed, "no exp", without("exp")),
        (Reason::TokenMalformed, "exp is a text", with("exp", json!("2030-01-01"))),
        (Reason::TokenMalformed, "roles are one text", with("roles", json!("admin"))),
        (Reason::TokenMalformed, "a role is a number", with("roles", json!(["a", 1]))),
        (Reason::TokenMalformed, "jti of 129 bytes", with("jti", json!("x".repeat(129)))),
        (
            Reason::TokenMalformed,
            "thumbprint of 31 bytes",
            with("cnf", json!({ "x5t#S256": URL_SAFE_NO_PAD.encode([1; 31]) })),
        ),
        (Reason::TokenMalformed, "map digest of 3 bytes", with("tk", json!({ "m": "AAAA", "g": [], "e": 1 }))),
        (Reason::TokenMalformed, "negative epoch", with("tk", json!({ "e": -1 }))),
        (Reason::TokenDuplicateClaim, "sub twice", forge(&signer, &good.replacen('{', r#"{"sub":"root","#, 1))),
        (
            Reason::TokenDuplicateClaim,
            "cnf member twice",
            forge(&signer, &good.replace(r#""cnf":{"#, r#""cnf":{"x5t#S256":"","#)),
        ),
        (Reason::TokenDuplicateClaim, "alg twice", forge_with(&signer, &header(r#","alg":"none""#), &good)),
        (Reason::TokenAlgorithm, "none", forge_with(&signer, &header("").replace("ES256", "none"), &good)),
        (Reason::TokenAlgorithm, "None", forge_with(&signer, &header("").replace("ES256", "None"), &good)),
        (Reason::TokenAlgorithm, "ES384", forge_with(&signer, &header("").replace("ES256", "ES384"), &good)),
        (
            Reason::TokenAlgorithm,
            "RS256 with an EC key",
            forge_with(&signer, &header("").replace("ES256", "RS256"), &good),
        ),
        (Reason::TokenUnknownKey, "a key of yesterday", forge_with(&signer, r#"{"alg":"ES256","kid":"old"}"#, &good)),
        (
            Reason::TokenIssuer,
            "a stranger's key and name",
            forge_with(
                &signer,
                r#"{"alg":"ES256","kid":"his"}"#,
                &payload(|p| p["iss"] = json!("https://evil.example")),
            ),
        ),
        (Reason::TokenIssuer, "a stranger's name under our key", with("iss", json!("https://evil.example"))),
        (Reason::TokenIssuer, "no iss", without("iss")),
        (Reason::TokenIssuer, "iss with a slash more", with("iss", json!(format!("{ISSUER}/")))),
        (Reason::TokenAudience, "another server", with("aud", json!("urn:other"))),
        (Reason::TokenAudience, "no aud", without("aud")),
        (Reason::TokenAudience, "a list of others", with("aud", json!(["urn:other", 7]))),
        (Reason::TokenExpired, "ends now", with("exp", json!(at))),
        (Reason::TokenExpired, "ended one second ago", with("exp", json!(at - 1))),
        (Reason::TokenExpired, "ended before 1970", with("exp", json!(-1e300))),
        (Reason::TokenNotYetValid, "starts in 61 s", with("nbf", json!(at + 61))),
        (Reason::TokenNotYetValid, "issued in 61 s", with("iat", json!(at + 61))),
        (Reason::TokenUnbound, "no cnf", without("cnf")),
        (Reason::TokenConfirmation, "bound to a DPoP key", with("cnf", json!({ "jkt": "abc" }))),
        (
            Reason::TokenConfirmation,
            "bound to two things",
            with("cnf", json!({ "x5t#S256": URL_SAFE_NO_PAD.encode([1; 32]), "jkt": "abc" })),
        ),
        (Reason::TokenConfirmation, "cnf is null", with("cnf", json!(null))),
        (Reason::TokenRights, "a right beyond the standard", with("tk", rights_json(json!([[1 << 17, "!!"]])))),
        (Reason::TokenRights, "no right at all", with("tk", rights_json(json!([[0, "!!"]])))),
        (Reason::TokenRights, "a broken set", with("tk", rights_json(json!([[1, "~~~~"]])))),
        (
            Reason::TokenRights,
            "a scope in two sets",
            with("tk", rights_json(json!([[1, set([3, 4])], [2, set([4, 5])]]))),
        ),
        (
            Reason::TokenRights,
            "rights out of order",
            with("tk", rights_json(json!([[2, set([3, 4])], [1, set([5, 6])]]))),
        ),
    ];
    for (wanted, case, token) in cases {
        assert_eq!(reason(&token, &expectation(&issuers)), Some(wanted), "{case}");
    }
}

fn set(scopes: [u32; 2]) -> String {
    token::ScopeSet::from_sorted(scopes).encode()
}

fn rights_json(entries: Value) -> Value {
    json!({ "m": URL_SAFE_NO_PAD.encode([7; 16]), "g": entries, "e": 1 })
}

#[test]
fn a_public_key_is_no_hmac_secret() {
    let signer = signer();
    let issuers = [issuer(&signer)];
    for secret in [signer.public().jwk(), token::jwks(&[signer.public()]), signer.kid().to_owned()] {
        let signed = format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"HS256","kid":"{}"}}"#, signer.kid())),
            URL_SAFE_NO_PAD.encode(payload(|_| {}))
        );
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), signed.as_bytes());
        let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag));
        assert_eq!(reason(&token, &expectation(&issuers)), Some(Reason::TokenAlgorithm));
    }
}

#[test]
fn a_signature_of_another_key_or_message_is_refused() {
    let (signer, thief) = (signer(), common::signer());
    let issuers = [issuer(&signer)];
    let header = format!(r#"{{"alg":"ES256","kid":"{}"}}"#, signer.kid());
    let forged = forge_with(&thief, &header, &payload(|_| {}));
    assert_eq!(reason(&forged, &expectation(&issuers)), Some(Reason::TokenSignature));
    let good = forge(&signer, &payload(|_| {}));
    let mut parts: Vec<&str> = good.split('.').collect();
    let other = URL_SAFE_NO_PAD.encode(payload(|p| p["sub"] = json!("root")));
    parts[1] = &other;
    assert_eq!(reason(&parts.join("."), &expectation(&issuers)), Some(Reason::TokenSignature));
    parts[2] = "";
    assert_eq!(reason(&parts.join("."), &expectation(&issuers)), Some(Reason::TokenSignature), "stripped signature");
}

#[test]
fn a_key_in_the_header_is_not_looked_at() {
    let (signer, thief) = (signer(), common::signer());
    let issuers = [issuer(&signer)];
    let header = format!(
        r#"{{"alg":"ES256","kid":"{}","jwk":{},"jku":"https://evil.example"}}"#,
        thief.kid(),
        thief.public().jwk()
    );
    let token = forge_with(&thief, &header, &payload(|_| {}));
    assert_eq!(reason(&token, &expectation(&issuers)), Some(Reason::TokenUnknownKey));
}

#[test]
fn a_key_speaks_only_for_its_own_issuer() {
    let (ours, foreign) = (signer(), common::signer());
    let keycloak = Issuer {
        name: "https://keycloak.example/realms/plant".into(),
        keys: vec![foreign.public()],
        require_confirmation: false,
    };
    let issuers = [issuer(&ours), keycloak];
    let token = forge(&foreign, &payload(|_| {}));
    assert_eq!(
        reason(&token, &expectation(&issuers)),
        Some(Reason::TokenIssuer),
        "the foreign key signs as our authority"
    );
    let unbound = payload(|p| {
        p["iss"] = json!("https://keycloak.example/realms/plant");
        p.as_object_mut().unwrap().remove("cnf");
    });
    assert_eq!(reason(&forge(&foreign, &unbound), &expectation(&issuers)), None, "configured to need no cnf");
}

#[test]
fn length_is_bounded_before_anything_is_read() {
    let signer = signer();
    let issuers = [issuer(&signer)];
    let padded = |padding| mint(&Claims { padding, ..claims(None) }, &signer);
    let large = padded(190_000).unwrap();
    assert!(large.as_str().len() > 250_000);
    assert_eq!(reason(large.as_str(), &expectation(&issuers)), None, "up to 256 kB");
    assert!(matches!(padded(200_000), Err(MintError::TooLarge(_))));
    let huge = forge(&signer, &payload(|p| p["pad"] = json!("x".repeat(197_000))));
    assert!((257_000..300_000).contains(&huge.len()));
    assert!(huge.len() > 256 * 1024);
    let unlimited = Expectation { max_len: usize::MAX, ..expectation(&issuers) };
    assert_eq!(reason(&huge, &unlimited), Some(Reason::TokenTooLarge));
    let short = Expectation { max_len: 1_000, ..expectation(&issuers) };
    assert_eq!(reason(large.as_str(), &short), Some(Reason::TokenTooLarge));
}

#[test]
fn an_end_beyond_time_mints_again() {
    let signer = signer();
    let issuers = [issuer(&signer)];
    for end in ["1e300", "9223372036854775807", "99999999999999999999"] {
        let text = payload(|_| {}).replace(&(NOW.as_seconds() + 300).to_string(), end);
        let verified = verify(forge(&signer, &text).as_bytes(), &expectation(&issuers)).unwrap();
        let again = mint(&verified, &signer).unwrap();
        assert_eq!(verify(again.as_bytes(), &expectation(&issuers)), Ok(verified), "{end}");
    }
}

#[test]
fn time_has_no_slack_at_the_end() {
    let signer = signer();
    let issuers = [issuer(&signer)];
    let token = mint(&claims(None), &signer).unwrap();
    let at = |now: UnixTime| reason(token.as_str(), &Expectation { now, ..expectation(&issuers) });
    assert_eq!(at(seconds(299)), None);
    assert_eq!(at(UnixTime::from_micros(seconds(300).as_micros() - 1)), None);
    assert_eq!(at(seconds(300)), Some(Reason::TokenExpired));
    assert_eq!(at(seconds(-60)), None);
    assert_eq!(at(UnixTime::from_micros(seconds(-60).as_micros() - 1)), Some(Reason::TokenNotYetValid));
}

#[test]
fn what_every_token_needs_must_be_there_to_mint() {
    let signer = signer();
    type Strip = fn(&mut Claims);
    let cases: [(&str, Strip); 4] = [
        ("iss", |c| c.issuer.clear()),
        ("sub", |c| c.subject.clear()),
        ("aud", |c| c.audience.clear()),
        ("jti", |c| c.id.clear()),
    ];
    for (name, strip) in cases {
        let mut claims = claims(None);
        strip(&mut claims);
        assert_eq!(mint(&claims, &signer), Err(MintError::Empty(name)));
    }
    assert_eq!(mint(&Claims { id: "x".repeat(129), ..claims(None) }, &signer), Err(MintError::LongId(129)));
}

#[test]
fn peeking_shows_and_debug_hides() {
    let signer = signer();
    let wanted = claims(Some(some_rights()));
    let token = mint(&wanted, &signer).unwrap();
    let peeked = danger_peek_unverified(token.as_bytes()).unwrap();
    assert_eq!(peeked.key_id.as_deref(), Some(signer.kid()));
    assert_eq!((peeked.algorithm.as_str(), peeked.claims), ("ES256", Some(wanted)));
    assert_eq!(format!("{token:?}"), format!("SealedToken({} bytes)", token.as_str().len()));
}

#[test]
fn private_keys_travel_as_pkcs8() {
    for algorithm in Algorithm::ALL {
        let signer = Signer::generate(algorithm).unwrap();
        for again in [
            Signer::from_pkcs8_der(signer.to_pkcs8()).unwrap(),
            Signer::from_pkcs8_pem(&signer.to_pkcs8_pem()).unwrap(),
        ] {
            assert_eq!((again.public(), again.algorithm()), (signer.public(), algorithm));
        }
    }
    assert!(Signer::from_pkcs8_der(b"no key").is_err());
    assert!(Signer::from_pkcs8_pem("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----").is_err());
}

fn any_claims() -> impl Strategy<Value = Claims> {
    let text = "[ -~\u{e4}\u{20ac}]{1,20}";
    let rights = proptest::option::of(proptest::collection::vec(
        (1_u32..1 << 17, proptest::collection::vec(0_u32..100_000, 0..30)),
        0..5,
    ));
    let texts = proptest::collection::vec(text, 0..3);
    let bound = proptest::option::of(proptest::array::uniform32(any::<u8>()));
    (
        text,
        text,
        proptest::option::of(text),
        texts.clone(),
        texts,
        rights,
        any::<u32>(),
        (0..60_i64, 1..100_000_i64),
        bound,
    )
        .prop_map(|(subject, id, client, roles, groups, rights, epoch, (ago, left), bound)| Claims {
            subject,
            id,
            client,
            roles,
            groups,
            rights: rights.map(|rights| {
                RightsClaim::new(
                    MapDigest([3; 16]),
                    rights.into_iter().map(|(bits, scopes)| (Rights::from_bits(bits).unwrap(), scopes)),
                )
            }),
            epoch: Epoch(u64::from(epoch)),
            not_before: seconds(-ago),
            expires: seconds(left),
            confirmation: bound.map(Thumbprint),
            padding: usize::try_from(ago).unwrap(),
            ..claims(None)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn verify_gives_back_what_was_minted(wanted in any_claims()) {
        let signer = signer();
        let issuers = [Issuer { require_confirmation: false, ..issuer(&signer) }];
        let token = mint(&wanted, &signer).unwrap();
        prop_assert_eq!(verify(token.as_bytes(), &expectation(&issuers)).map(token::Verified::into_inner), Ok(wanted));
    }

    #[test]
    fn no_bytes_make_verify_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let signer = signer();
        prop_assert!(verify(&bytes, &expectation(&[issuer(&signer)])).is_err());
    }
}

#[test]
fn any_flipped_bit_is_an_error() {
    for algorithm in [Algorithm::Es256, Algorithm::EdDsa] {
        let signer = Signer::generate(algorithm).unwrap();
        let issuers = [issuer(&signer)];
        let token = mint(&claims(Some(some_rights())), &signer).unwrap();
        for at in 0..token.as_bytes().len() {
            for bit in 0..8 {
                let mut bytes = token.as_bytes().to_vec();
                bytes[at] ^= 1 << bit;
                assert!(verify(&bytes, &expectation(&issuers)).is_err(), "byte {at}, bit {bit}");
            }
        }
    }
}
