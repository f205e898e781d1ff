//! The golden vectors in `vectors/tokens/`: the same answers in every implementation and every version.

use access_model::UnixTime;
use serde_json::{Value, json};
use token::{Expectation, Issuer, ScopeSet, VerifyingKey, control, parse_jwks, verify};

const TOKENS: &str = include_str!("../../../../vectors/tokens/tokens.json");
const SCOPE_SETS: &str = include_str!("../../../../vectors/tokens/scope_sets.json");
const UPDATES: &str = include_str!("../../../../vectors/tokens/updates.json");

fn issuers(file: &Value) -> Vec<Issuer> {
    let issuer = |value: &Value| Issuer {
        name: value["name"].as_str().unwrap().into(),
        keys: parse_jwks(value["jwks"].to_string().as_bytes()).unwrap(),
        require_confirmation: value["require_confirmation"].as_bool().unwrap(),
    };
    file["issuers"].as_array().unwrap().iter().map(issuer).collect()
}

#[test]
fn tokens_get_the_answer_that_is_written_beside_them() {
    let file: Value = serde_json::from_str(TOKENS).unwrap();
    let issuers = issuers(&file);
    let cases = file["cases"].as_array().unwrap();
    assert!(cases.len() >= 15);
    for case in cases {
        let expected = Expectation {
            issuers: &issuers,
            audience: file["audience"].as_str().unwrap(),
            now: UnixTime::from_seconds(case["now"].as_i64().unwrap()),
            max_len: token::MAX_TOKEN_LEN,
        };
        let answer = match verify(case["token"].as_str().unwrap().as_bytes(), &expected) {
            Ok(claims) => {
                let shown: Value = serde_json::from_str(&token::claims_json(&claims)).unwrap();
                assert_eq!(shown, case["claims"], "{}", case["name"]);
                "accepted"
            }
            Err(refusal) => refusal.reason.word(),
        };
        assert_eq!(answer, case["answer"], "{}", case["name"]);
    }
}

#[test]
fn scope_sets_have_one_spelling() {
    let file: Value = serde_json::from_str(SCOPE_SETS).unwrap();
    for case in file.as_array().unwrap() {
        let runs: Vec<(u32, u32)> = serde_json::from_value(case["runs"].clone()).unwrap();
        let set = ScopeSet::from_sorted(runs.iter().flat_map(|&(first, last)| first..=last));
        assert_eq!(set.runs(), runs);
        assert_eq!(set.encode(), case["text"].as_str().unwrap(), "{}", case["name"]);
        assert_eq!(ScopeSet::decode(case["text"].as_str().unwrap(), 1 << 24), Ok(set), "{}", case["name"]);
    }
}

#[test]
fn updates_get_the_answer_that_is_written_beside_them() {
    let file: Value = serde_json::from_str(UPDATES).unwrap();
    let issuers = issuers(&file);
    for case in file["cases"].as_array().unwrap() {
        let opened =
            control::open(case["update"].as_str().unwrap().as_bytes(), &issuers, file["audience"].as_str().unwrap());
        let answer = opened.as_ref().map_or_else(|refusal| refusal.reason.word(), |_| "accepted");
        assert_eq!(answer, case["answer"], "{}", case["name"]);
        if let Ok(update) = opened {
            let shown = json!({
                "epoch": update.epoch.0,
                "previous": update.previous.map(|epoch| epoch.0),
                "revoked": update.revoked.iter().map(|entry| entry.id.clone()).collect::<Vec<_>>(),
                "replaced": update.replaced.iter().map(|entry| entry.id.clone()).collect::<Vec<_>>(),
            });
            assert_eq!(shown, case["shows"], "{}", case["name"]);
        }
    }
}

#[test]
fn keys_come_out_of_certificates() {
    let file: Value = serde_json::from_str(TOKENS).unwrap();
    let keys = &issuers(&file)[0].keys;
    let certificates = file["certificates"].as_array().unwrap();
    assert_eq!(certificates.len(), 3);
    for certificate in certificates {
        use base64::Engine as _;
        let der = base64::engine::general_purpose::STANDARD.decode(certificate.as_str().unwrap()).unwrap();
        let key = VerifyingKey::from_certificate_der(&der).unwrap();
        assert!(keys.contains(&key), "{key:?}");
    }
    assert!(VerifyingKey::from_certificate_der(b"no certificate").is_err());
}

/// Makes the vectors anew: `cargo test -p token --test vectors -- --ignored`. Signatures are not deterministic, so
/// only do it when the format changes.
mod writer {
    use access_model::{Epoch, Rights};
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    use token::control::{Replacement, Revocation, Update, seal};
    use token::{Algorithm, Claims, Signer, jwks, mint};

    use super::*;
    use crate::common::{AUDIENCE, ISSUER, NOW, claims, rights, seconds, some_rights};

    const FOREIGN: &str = "https://keycloak.example.com/realms/plant";

    fn answer(token: &str, issuers: &[Issuer], now: i64) -> (String, Value) {
        let expected = Expectation {
            issuers,
            audience: AUDIENCE,
            now: UnixTime::from_seconds(now),
            max_len: token::MAX_TOKEN_LEN,
        };
        match verify(token.as_bytes(), &expected) {
            Ok(claims) => ("accepted".into(), serde_json::from_str(&token::claims_json(&claims)).unwrap()),
            Err(refusal) => (refusal.reason.word().into(), Value::Null),
        }
    }

    #[allow(clippy::disallowed_methods, reason = "a tool of its developers, run by hand")]
    fn write(name: &str, value: &Value) {
        let path = format!("{}/../../vectors/tokens/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::write(path, serde_json::to_string_pretty(value).unwrap() + "\n").unwrap();
    }

    fn issuer_json(name: &str, keys: &[VerifyingKey], require_confirmation: bool) -> Value {
        let jwks: Value = serde_json::from_str(&jwks(keys)).unwrap();
        json!({ "name": name, "jwks": jwks, "require_confirmation": require_confirmation })
    }

    fn certificate(signer: &Signer) -> String {
        let key = rcgen::KeyPair::from_pem(&signer.to_pkcs8_pem()).unwrap();
        let certificate =
            rcgen::CertificateParams::new(vec!["authority.example.com".into()]).unwrap().self_signed(&key);
        STANDARD.encode(certificate.unwrap().der())
    }

    #[test]
    #[ignore = "writes the vectors"]
    fn write_tokens() {
        let signers = Algorithm::ALL.map(|algorithm| Signer::generate(algorithm).unwrap());
        let [es256, rs256, eddsa] = &signers;
        let (foreign, thief) =
            (Signer::generate(Algorithm::Rs256).unwrap(), Signer::generate(Algorithm::Es256).unwrap());
        let keys: Vec<_> = signers.iter().map(Signer::public).collect();
        let file =
            json!({ "issuers": [issuer_json(ISSUER, &keys, true), issuer_json(FOREIGN, &[foreign.public()], false)] });
        let issuers = issuers(&file);
        let full = claims(Some(some_rights()));
        let plain = |claims: &Claims, signer| mint(claims, signer).unwrap().as_str().to_owned();
        let good = plain(&full, es256);
        let parts: Vec<&str> = good.split('.').collect();
        let header = |text: String| URL_SAFE_NO_PAD.encode(text);
        let unsigned = format!("{}.{}.", header(r#"{"alg":"none"}"#.into()), parts[1]);
        let hmac =
            format!("{}.{}.{}", header(format!(r#"{{"alg":"HS256","kid":"{}"}}"#, es256.kid())), parts[1], parts[2]);
        let swapped = plain(&Claims { subject: "root".into(), ..full.clone() }, es256);
        let swapped = format!("{}.{}.{}", parts[0], swapped.split('.').nth(1).unwrap(), parts[2]);
        let whole = claims(Some(rights([(Rights::ALL, &(1..5_000).collect::<Vec<_>>())])));
        let at = NOW.as_seconds();
        let cases = [
            ("ES256 with everything", good.clone(), at),
            ("RS256", plain(&full, rs256), at),
            ("EdDSA", plain(&full, eddsa), at),
            ("no rights, only roles", plain(&claims(None), es256), at),
            ("a whole map in one run", plain(&whole, es256), at),
            ("padding", plain(&Claims { padding: 100, ..claims(None) }, es256), at),
            ("starts before it was issued", plain(&Claims { not_before: seconds(-30), ..claims(None) }, es256), at),
            (
                "a foreign issuer without cnf",
                plain(&Claims { issuer: FOREIGN.into(), confirmation: None, rights: None, ..full.clone() }, &foreign),
                at,
            ),
            ("one second before its end", good.clone(), at + 299),
            ("at its end", good.clone(), at + 300),
            ("60 s before it was issued", good.clone(), at - 60),
            ("61 s before it was issued", good.clone(), at - 61),
            ("no cnf", plain(&Claims { confirmation: None, ..full.clone() }, es256), at),
            ("for another server", plain(&Claims { audience: "urn:other".into(), ..full.clone() }, es256), at),
            ("by a stranger", plain(&Claims { issuer: "https://evil.example".into(), ..full.clone() }, &thief), at),
            ("a stranger's key", plain(&full, &thief), at),
            ("a foreign key for our issuer", plain(&full, &foreign), at),
            ("unsigned", unsigned, at),
            ("HS256", hmac, at),
            ("payload of another token", swapped, at),
            ("cut short", good[..good.len() - 1].to_owned(), at),
        ];
        let cases = cases.map(|(name, token, now)| {
            let (answer, claims) = answer(&token, &issuers, now);
            json!({ "name": name, "now": now, "token": token, "answer": answer, "claims": claims })
        });
        let certificates = signers.each_ref().map(certificate);
        write(
            "tokens.json",
            &json!({ "audience": AUDIENCE, "issuers": file["issuers"], "certificates": certificates, "cases": cases }),
        );
    }

    #[test]
    #[ignore = "writes the vectors"]
    fn write_scope_sets() {
        let cases: [(&str, Vec<u32>); 7] = [
            ("nothing", vec![]),
            ("the first scope after public", vec![1]),
            ("the highest scope of the largest map", vec![(1 << 24) - 1]),
            ("some", vec![3, 5, 8, 13, 21, 34, 55, 89, 144, 233]),
            ("a run", (1_000..2_000).collect()),
            ("every other", (0..64).step_by(2).collect()),
            ("runs", (0..10_000).filter(|at| at % 1_000 < 20).collect()),
        ];
        let cases = cases.map(|(name, scopes)| {
            let set = ScopeSet::from_sorted(scopes);
            json!({ "name": name, "runs": set.runs(), "text": set.encode() })
        });
        write("scope_sets.json", &json!(cases));
    }

    #[test]
    #[ignore = "writes the vectors"]
    fn write_updates() {
        let signer = Signer::generate(Algorithm::Es256).unwrap();
        let update = Update {
            issuer: ISSUER.into(),
            audience: AUDIENCE.into(),
            epoch: Epoch(8),
            previous: Some(Epoch(7)),
            issued_at: NOW,
            revoked: vec![Revocation { id: "a".into(), expires: seconds(60) }],
            replaced: vec![Replacement {
                id: "b".into(),
                rights: some_rights(),
                not_after: seconds(30),
                expires: seconds(90),
            }],
            approved: vec![],
            mode: None,
        };
        let sealed = |update: &Update| String::from_utf8(seal(update, &signer).unwrap()).unwrap();
        let empty = Update { revoked: vec![], replaced: vec![], ..update.clone() };
        let cases = [
            (
                "a delta",
                sealed(&update),
                "accepted",
                json!({ "epoch": 8, "previous": 7, "revoked": ["a"], "replaced": ["b"] }),
            ),
            (
                "a full list",
                sealed(&Update { previous: None, ..update.clone() }),
                "accepted",
                json!({ "epoch": 8, "previous": null, "revoked": ["a"], "replaced": ["b"] }),
            ),
            (
                "a heartbeat",
                sealed(&Update { previous: Some(Epoch(8)), ..empty }),
                "accepted",
                json!({ "epoch": 8, "previous": 8, "revoked": [], "replaced": [] }),
            ),
            (
                "a heartbeat that revokes",
                sealed(&Update { previous: Some(Epoch(8)), ..update.clone() }),
                "token_malformed",
                Value::Null,
            ),
            (
                "for another gate",
                sealed(&Update { audience: "urn:other".into(), ..update.clone() }),
                "token_audience",
                Value::Null,
            ),
            ("a token", mint(&claims(None), &signer).unwrap().as_str().to_owned(), "token_malformed", Value::Null),
        ];
        let cases = cases.map(
            |(name, update, answer, shows)| json!({ "name": name, "update": update, "answer": answer, "shows": shows }),
        );
        let issuers = json!([issuer_json(ISSUER, &[signer.public()], true)]);
        write("updates.json", &json!({ "audience": AUDIENCE, "issuers": issuers, "cases": cases }));
    }
}
