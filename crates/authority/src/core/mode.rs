//! The switch between observing and enforcing at a guard: ordered here, signed with the updates that the guard hears,
//! kept over restarts.

use access_model::{Actor, AuditKind, AuditRecord, Mode, Outcome};

use super::{Authority, to_the_end};
use crate::error::AuthorityError;
use crate::live::Delta;

/// What an order changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switched {
    /// The server's ApplicationUri.
    pub server: String,
    /// What was ordered before, if anything.
    pub before: Option<Mode>,
}

impl Authority {
    /// What was ordered of the guard of a server, by short name or ApplicationUri; nothing: it goes by its own
    /// configuration. `None` when the plant has no such server.
    #[must_use]
    pub fn guard_mode(&self, server: &str) -> Option<(String, Option<Mode>)> {
        let snapshot = self.snapshot();
        let (uri, _) = snapshot.plant().server(server)?;
        Some((uri.to_owned(), self.live().mode(uri)))
    }

    /// Orders the guard of a server to enforce or to observe. Returns when it was recorded, kept and told to every guard
    /// that listens; `None` when the plant has no such server.
    ///
    /// # Errors
    /// It cannot be recorded, kept or signed. What cannot be recorded is not done.
    pub async fn switch_guard(&self, server: &str, mode: Mode, by: &Actor) -> Result<Option<Switched>, AuthorityError> {
        let (authority, server, by) = (self.clone(), server.to_owned(), by.clone());
        to_the_end(async move { authority.switch_guard_now(&server, mode, &by).await }).await
    }

    async fn switch_guard_now(&self, server: &str, mode: Mode, by: &Actor) -> Result<Option<Switched>, AuthorityError> {
        let _one = self.inner.change.lock().await;
        let Some((uri, before)) = self.guard_mode(server) else { return Ok(None) };
        let epoch = self.inner.db.next_epoch().await?;
        let was = before.map_or("what it is configured with", Mode::name);
        let detail = format!("the guard has to {} from now on; before: {was}", mode.name());
        let record = self.audit(AuditKind::ConfigurationChanged, by, &uri, Outcome::Allowed, &detail);
        let deed = async {
            self.inner.db.put_guard_mode(&uri, mode, self.now().unix).await?;
            let (keys, now) = (self.inner.keys.load(), self.now().unix);
            let delta = Delta { mode: Some(mode), ..Delta::default() };
            Ok(self.live().publish(&uri, epoch, delta, &keys.current, now)?)
        };
        self.recorded(AuditRecord { epoch: Some(epoch), ..record }, deed).await?;
        tracing::warn!(server = uri, mode = mode.name(), by = by.name, "the mode of a guard was switched");
        Ok(Some(Switched { server: uri, before }))
    }
}
