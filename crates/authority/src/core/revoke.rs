//! The end of tokens: by an administrator, and by themselves.

use std::sync::PoisonError;

use access_model::{Actor, AuditKind, Outcome, UnixTime};
use store::{NewRevocation, Revoked};
use token::control::Revocation;

use super::{Authority, to_the_end};
use crate::error::AuthorityError;
use crate::live::Delta;

impl Authority {
    /// Revokes a token. Returns when every gate that listens was told; whether there was something to revoke.
    ///
    /// # Errors
    /// The journal cannot be used.
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
        let revoked = self.inner.db.revoke(&new).await?;
        if revoked != Revoked::Unknown {
            // What the token was refreshed from would give the next one.
            self.inner.db.remove_refresh_family(family(id)).await?;
        }
        let revocation = match revoked {
            Revoked::Unknown => return Ok(None),
            Revoked::Already => return Ok(Some(false)),
            Revoked::New(revocation) => revocation,
        };
        let delta = Delta {
            revoked: vec![Revocation { id: id.to_owned(), expires: revocation.expires }],
            replaced: Vec::new(),
        };
        let keys = self.inner.keys.load();
        self.live().publish(&revocation.audience, epoch, delta, &keys.current, now)?;
        drop(one);
        self.inner.db.remove_grant(id).await?;
        let detail = format!("token {id} for {}: {reason}", revocation.audience);
        self.record(AuditKind::TokenRevoked, by, id, Outcome::Allowed, &detail).await?;
        Ok(Some(true))
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
