//! The end of tokens: by an administrator, and by themselves.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use access_model::{Actor, AuditKind, Epoch, Outcome, UnixTime};
use store::{NewRevocation, Revoked};
use token::control::Revocation;

use super::{Authority, to_the_end};
use crate::error::AuthorityError;
use crate::live::Delta;

impl Authority {
    /// Revokes a token, and what was refreshed from it or before it. Returns when every gate that listens was told; whether there was something to revoke.
    ///
    /// # Errors
    /// The journal cannot be used. What it did take is in force all the same, and asking again completes the rest.
    pub async fn revoke(&self, id: &str, by: &Actor, reason: &str) -> Result<Option<bool>, AuthorityError> {
        let (authority, id, by, reason) = (self.clone(), id.to_owned(), by.clone(), reason.to_owned());
        to_the_end(async move { authority.revoke_now(&id, &by, &reason).await }).await
    }

    async fn revoke_now(&self, id: &str, by: &Actor, reason: &str) -> Result<Option<bool>, AuthorityError> {
        let one = self.inner.change.lock().await;
        let now = self.now().unix;
        let epoch = self.inner.db.next_epoch().await?;
        let new =
            NewRevocation { token: id.to_owned(), by: by.name.clone(), reason: reason.to_owned(), at: now, epoch };
        let first = self.inner.db.revoke(&new).await?;
        if first == Revoked::Unknown {
            return Ok(None);
        }
        let mut gone: Vec<store::Revocation> = first.revocation().into_iter().collect();
        let now_revoked = !gone.is_empty();
        let rest = self.revoke_line(&new, &mut gone).await;
        // What the journal holds as revoked no gate may go on serving, whatever became of the rest.
        self.publish_gone(&gone, epoch)?;
        drop(one);
        for one in &gone {
            let detail = format!("token {} for {}: {reason}", one.token, one.audience);
            self.record(AuditKind::TokenRevoked, by, &one.token, Outcome::Allowed, &detail).await?;
        }
        rest?;
        for one in &gone {
            self.inner.db.remove_grant(&one.token).await?;
        }
        Ok(Some(now_revoked))
    }

    /// The rest of the line of a token that was just revoked; what the journal took is added to `gone`.
    async fn revoke_line(&self, new: &NewRevocation, gone: &mut Vec<store::Revocation>) -> Result<(), AuthorityError> {
        // What the token was refreshed from would give the next one; one that is being made finds its line gone.
        self.inner.db.remove_refresh_family(family(&new.token)).await?;
        for later in self.live_line(&new.token) {
            gone.extend(self.inner.db.revoke(&NewRevocation { token: later, ..new.clone() }).await?.revocation());
        }
        Ok(())
    }

    /// Tells the gates which tokens are over.
    pub(super) fn publish_gone(&self, gone: &[store::Revocation], epoch: Epoch) -> Result<(), AuthorityError> {
        let mut deltas: BTreeMap<&str, Delta> = BTreeMap::new();
        for one in gone {
            let delta = deltas.entry(&one.audience).or_default();
            delta.revoked.push(Revocation { id: one.token.clone(), expires: one.expires });
        }
        let (keys, now) = (self.inner.keys.load(), self.now().unix);
        for (audience, delta) in deltas {
            self.live().publish(audience, epoch, delta, &keys.current, now)?;
        }
        Ok(())
    }

    /// The other live tokens of the same line.
    fn live_line(&self, id: &str) -> Vec<String> {
        let line = family(id);
        let live = self.live();
        let from = live.grants.range(line.to_owned()..).map(|(id, _)| id).take_while(|one| one.starts_with(line));
        from.filter(|one| family(one) == line && *one != id).cloned().collect()
    }

    /// Forgets what has ended; for a timer of minutes.
    ///
    /// # Errors
    /// The journal cannot be used.
    pub async fn purge(&self) -> Result<u64, AuthorityError> {
        let now = self.now().unix;
        self.live().forget(now);
        self.inner.pending.lock().unwrap_or_else(PoisonError::into_inner).forget(now);
        // Revocations and tokens are kept a day for those who look them up.
        let before = UnixTime::from_micros(now.as_micros().saturating_sub(86_400_000_000));
        Ok(self.inner.db.purge(before).await?)
    }
}

/// The line of refresh tokens that a token belongs to: it is called like the first token of the line.
pub(crate) fn family(id: &str) -> &str {
    id.split_once('.').map_or(id, |(first, _)| first)
}
