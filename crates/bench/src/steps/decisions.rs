//! Tokens, decisions and records of the audit.

use std::sync::Arc;
use std::time::Duration;

use access_model::{Actor, AuditKind, AuditRecord, Epoch, Outcome, Rights};
use gates::clock;
use store::{CheckpointKey, KeyKind, Ledger, LedgerConfig};
use token::{Algorithm, Claims, Expectation, Issuer, RightsClaim, Signer};

use super::{Bed, Entry, Once, used};
use crate::Failed;
use crate::fixture::{CLIENT_URI, ISSUER, SCOPES, SERVER_URI, USER};
use crate::measures::pdp::Subject;

/// Entities in the plant that is decided about.
const PLANT: u32 = 1_200;

/// What the issuer's keys are called in price lists.
const ALGORITHMS: [(Algorithm, &str); 3] =
    [(Algorithm::EdDsa, "token-ed25519"), (Algorithm::Es256, "token-es256"), (Algorithm::Rs256, "token-rs256")];

pub(super) fn entries() -> Vec<Entry> {
    let mut entries = Vec::new();
    for (algorithm, name) in ALGORITHMS {
        entries.push(Entry::new("sign", name, 0, move |_| {
            let (signer, claims) = (Signer::generate(algorithm)?, claims());
            Ok(Box::new(move || {
                used(token::mint(&claims, &signer)?);
                Ok(())
            }))
        }));
        entries.push(Entry::new("verify", name, 0, move |_| verifying(algorithm)));
    }
    entries.push(Entry::new("decide", "", 0, |_| {
        let mut subject = Subject::new(PLANT);
        let (snapshot, mut step) = (subject.snapshot(), 0_u32);
        Ok(Box::new(move || {
            step = step.wrapping_add(1);
            subject.decide(&snapshot, step);
            Ok(())
        }))
    }));
    for (name, sync) in [("audit", store::Sync::Os), ("audit-disk", store::Sync::Disk)] {
        entries.push(Entry::of_process("append", name, 0, move |bed| writing(bed, sync)));
    }
    entries
}

/// A token as our authority issues it, with rights on all scopes of the server.
fn claims() -> Claims {
    let now = clock::now().unix;
    let map = token::map_digest(&crate::fixture::scopes());
    Claims {
        issuer: ISSUER.into(),
        subject: USER.into(),
        audience: SERVER_URI.into(),
        expires: now + Duration::from_secs(7_200),
        not_before: now,
        issued_at: now,
        id: "step".into(),
        client: Some(CLIENT_URI.into()),
        confirmation: Some(access_model::Thumbprint([7; 32])),
        roles: vec!["Operator".into()],
        groups: Vec::new(),
        rights: Some(RightsClaim::new(map, [(Rights::BROWSE | Rights::READ, 1..=SCOPES)])),
        epoch: Epoch(1),
        padding: 0,
    }
}

/// Everything that a token can show by itself.
fn verifying(algorithm: Algorithm) -> Result<Once, Failed> {
    let signer = Signer::generate(algorithm)?;
    let token = token::mint(&claims(), &signer)?;
    let issuers = vec![Issuer { name: ISSUER.into(), keys: vec![signer.public()], require_confirmation: true }];
    let now = clock::now().unix;
    Ok(Box::new(move || {
        let expected = Expectation { issuers: &issuers, audience: SERVER_URI, now, max_len: token::MAX_TOKEN_LEN };
        let claims = token::verify(token.as_bytes(), &expected).map_err(|refusal| refusal.to_string())?;
        used(claims);
        Ok(())
    }))
}

/// One record that somebody waits for.
fn writing(bed: &Bed, sync: store::Sync) -> Result<Once, Failed> {
    let folder = tempfile::tempdir_in(bed.folder())?;
    let config = LedgerConfig { sync, ..LedgerConfig::default() };
    let ledger = Ledger::open(folder.path(), config, CheckpointKey::generate(KeyKind::Ed25519)?)?;
    let record = Arc::new(record());
    Ok(Box::new(move || {
        let _folder = &folder;
        ledger.append(&*record).wait_blocking().map_err(|error| error.to_string())?;
        Ok(())
    }))
}

fn record() -> AuditRecord {
    AuditRecord {
        at: clock::now().unix,
        kind: AuditKind::Write,
        actor: Actor::default(),
        object: "ns=2;i=1001".into(),
        outcome: Outcome::Allowed,
        detail: "1 value written".into(),
        count: 1,
        epoch: Some(Epoch(1)),
        place: None,
    }
}
