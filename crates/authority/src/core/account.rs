//! Accounts of a running authority: what ends with one is told to the gates at once.

use access_model::Actor;

use super::Authority;
use crate::accounts::{AccountChange, AccountError, Books};
use crate::error::AuthorityError;

impl Authority {
    /// Records a change of an account and makes it; how many tokens ended with it. Returns when every gate that listens
    /// was told.
    ///
    /// # Errors
    /// As [`Books::change`] and [`Books::conclude`].
    pub async fn change_account(&self, change: AccountChange, by: &Actor) -> Result<usize, AccountError> {
        let (authority, by) = (self.clone(), by.clone());
        // Carried through, also when its asker hangs up.
        let done = tokio::spawn(async move { authority.change_account_now(&change, &by).await });
        done.await.map_err(|_| AuthorityError::Thread)?
    }

    async fn change_account_now(&self, change: &AccountChange, by: &Actor) -> Result<usize, AccountError> {
        let one = self.inner.change.lock().await;
        let books = Books {
            db: self.inner.db.clone(),
            ledger: self.inner.ledger.clone(),
            audit_required: self.inner.config.audit_required,
            now: self.now().unix,
        };
        let changed = books.change(change, by).await?;
        self.publish_gone(&changed.gone, changed.epoch)?;
        drop(one);
        books.conclude(changed, by).await
    }
}
