//! What the authority takes over from its journal when it starts, and the rows it writes there.

use std::collections::BTreeMap;

use access_model::{Epoch, UnixTime};
use pdp::{Marking, Snapshot};
use store::{Db, TokenFilter};
use token::control::Revocation;

use crate::config::PolicyTexts;
use crate::error::AuthorityError;
use crate::live::{Delta, Live, LiveToken};
use crate::standing::Standing;

pub(super) async fn load(texts: PolicyTexts, epoch: Epoch) -> Result<Standing, AuthorityError> {
    let work = move || Standing::load(&texts, epoch);
    let loaded = tokio::task::spawn_blocking(work).await.map_err(|_| AuthorityError::Thread)?;
    Ok(loaded?)
}

pub(super) async fn stored_marking(
    db: &Db,
    name: &str,
    snapshot: &Snapshot,
) -> Result<Option<Marking>, AuthorityError> {
    let Some(state) = db.workflow(name).await? else { return Ok(None) };
    let tokens: BTreeMap<String, u32> = serde_json::from_str(&state.marking).unwrap_or_default();
    if tokens.is_empty() {
        return Ok(None);
    }
    snapshot.workflow().marking(&tokens).map(Some).map_err(AuthorityError::LostStep)
}

/// Live tokens and what the gates were told about them, from the journal.
pub(super) async fn restore(db: &Db, issuer: &str, snapshot: &Snapshot, now: UnixTime) -> Result<Live, AuthorityError> {
    let mut live = Live::new(issuer, snapshot.epoch());
    let mut deltas: BTreeMap<String, Delta> = BTreeMap::new();
    for gone in db.live_revocations(now).await? {
        let delta = deltas.entry(gone.audience).or_default();
        delta.revoked.push(Revocation { id: gone.token, expires: gone.expires });
    }
    let filter = TokenFilter { live_at: Some(now), ..TokenFilter::default() };
    let minted: BTreeMap<String, Epoch> =
        db.tokens(&filter).await?.into_iter().map(|one| (one.id, one.epoch)).collect();
    for grant in db.live_grants(now).await? {
        let Some(epoch) = minted.get(&grant.token) else { continue };
        let time_box = |role: &String| snapshot.plant().roles.get(role).is_some_and(|row| row.break_glass.is_some());
        let break_glass = grant.principal.roles.iter().any(time_box).then(|| "given before a restart".to_owned());
        let token = LiveToken { principal: grant.principal, break_glass, spec: grant.spec, expires: grant.expires };
        if token.spec.epoch != *epoch {
            deltas.entry(token.spec.audience.clone()).or_default().replaced.push(token.replacement(&grant.token));
        }
        live.grants.insert(grant.token, token);
    }
    for (audience, mode) in db.guard_modes().await? {
        deltas.entry(audience).or_default().mode = Some(mode);
    }
    for (audience, delta) in deltas {
        live.restore(&audience, delta);
    }
    Ok(live)
}

pub(crate) fn row(id: &str, token: &LiveToken, now: UnixTime) -> store::Grant {
    store::Grant {
        id: id.to_owned(),
        principal: token.principal.clone(),
        spec: token.spec.clone(),
        token: id.to_owned(),
        expires: token.expires,
        changed: now,
    }
}
