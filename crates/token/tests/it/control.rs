//! Control updates: sealed ones open, everything else is refused.

use access_model::{Epoch, Reason};
use token::control::{Approved, Replacement, Revocation, Update, open, seal};
use token::{MintError, Signer, mint, verify};

use crate::common;
use crate::common::{AUDIENCE, ISSUER, NOW, claims, expectation, issuer, seconds, signer, some_rights};

fn update() -> Update {
    Update {
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
        approved: vec![Approved { id: "c-1".into(), by: "bert".into(), expires: seconds(70) }],
        mode: None,
    }
}

fn reason(update: &Update, signer: &Signer) -> Option<Reason> {
    let sealed = seal(update, signer).unwrap();
    open(&sealed, &[issuer(signer)], AUDIENCE).err().map(|refusal| refusal.reason)
}

#[test]
fn what_is_sealed_opens() {
    let signer = signer();
    let heartbeat =
        Update { previous: Some(Epoch(8)), revoked: vec![], replaced: vec![], approved: vec![], ..update() };
    let finer = Update { issued_at: NOW + std::time::Duration::from_micros(999_999), ..update() };
    for wanted in [update(), Update { previous: None, ..update() }, heartbeat, finer] {
        let sealed = seal(&wanted, &signer).unwrap();
        assert_eq!(*open(&sealed, &[issuer(&signer)], AUDIENCE).unwrap(), wanted);
    }
}

#[test]
fn every_fault_has_its_reason() {
    let signer = signer();
    let cases = [
        (Reason::TokenAudience, "another gate", Update { audience: "urn:other".into(), ..update() }),
        (Reason::TokenIssuer, "another issuer", Update { issuer: "https://evil.example".into(), ..update() }),
        (Reason::TokenMalformed, "back in time", Update { previous: Some(Epoch(9)), ..update() }),
        (
            Reason::TokenMalformed,
            "a heartbeat that approves",
            Update { previous: Some(Epoch(8)), revoked: vec![], replaced: vec![], ..update() },
        ),
        (Reason::TokenMalformed, "a heartbeat that revokes", Update { previous: Some(Epoch(8)), ..update() }),
    ];
    for (wanted, case, update) in cases {
        assert_eq!(reason(&update, &signer), Some(wanted), "{case}");
    }
    let thief = common::signer();
    let sealed = seal(&update(), &thief).unwrap();
    assert_eq!(open(&sealed, &[issuer(&signer)], AUDIENCE).unwrap_err().reason, Reason::TokenUnknownKey);
    assert_eq!(seal(&Update { audience: String::new(), ..update() }, &signer), Err(MintError::Empty("aud")));
}

#[test]
fn tokens_and_updates_do_not_pass_for_each_other() {
    let signer = signer();
    let issuers = [issuer(&signer)];
    let sealed = seal(&update(), &signer).unwrap();
    assert_eq!(verify(&sealed, &expectation(&issuers)).unwrap_err().reason, Reason::TokenMalformed);
    let token = mint(&claims(None), &signer).unwrap();
    assert_eq!(open(token.as_bytes(), &issuers, AUDIENCE).unwrap_err().reason, Reason::TokenMalformed);
}

#[test]
fn any_flipped_bit_is_an_error() {
    let signer = signer();
    let sealed = seal(&update(), &signer).unwrap();
    for at in 0..sealed.len() {
        for bit in 0..8 {
            let mut bytes = sealed.clone();
            bytes[at] ^= 1 << bit;
            assert!(open(&bytes, &[issuer(&signer)], AUDIENCE).is_err(), "byte {at}, bit {bit}");
        }
    }
}
