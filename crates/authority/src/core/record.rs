//! What goes into the audit, and who waits for it.

use access_model::{Actor, AuditKind, AuditRecord, Outcome, Reason, Refusal};
use opcua_types::StatusCode;

use super::Authority;
use crate::error::AuthorityError;

impl Authority {
    /// Writes a record and waits until it is kept; when it cannot be, the configuration says whether that matters.
    pub(crate) async fn record(
        &self,
        kind: AuditKind,
        by: &Actor,
        object: &str,
        outcome: Outcome,
        detail: &str,
    ) -> Result<(), store::Unavailable> {
        self.keep_record(self.audit(kind, by, object, outcome, detail)).await
    }

    pub(crate) async fn keep_record(&self, record: AuditRecord) -> Result<(), store::Unavailable> {
        match self.inner.ledger.append(&record).await {
            Err(error) if self.inner.config.audit_required => Err(error),
            Err(error) => {
                tracing::error!(%error, kind = record.kind.name(), "an audit record was lost");
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }

    /// Records that something is done, then does it: what cannot be recorded does not happen, unless the configuration
    /// prefers that it does. When the deed fails after its record, a second record says so.
    pub(crate) async fn recorded<T>(
        &self,
        record: AuditRecord,
        deed: impl Future<Output = Result<T, AuthorityError>>,
    ) -> Result<T, AuthorityError> {
        self.keep_record(record.clone()).await?;
        let done = deed.await;
        if let Err(error) = &done {
            let outcome = Outcome::Failed(StatusCode::BadInternalError.bits());
            let failed = self.audit(record.kind, &record.actor, &record.object, outcome, &error.to_string());
            self.note_record(AuditRecord { epoch: record.epoch, ..failed });
        }
        done
    }

    /// Writes a record that nobody waits for.
    pub(crate) fn note(&self, kind: AuditKind, by: &Actor, object: &str, outcome: Outcome, detail: &str) {
        self.note_record(self.audit(kind, by, object, outcome, detail));
    }

    pub(crate) fn note_record(&self, record: AuditRecord) {
        if let Err(error) = self.inner.ledger.note(&record) {
            tracing::error!(%error, kind = record.kind.name(), "an audit record was lost");
        }
    }

    pub(crate) fn audit(
        &self,
        kind: AuditKind,
        by: &Actor,
        object: &str,
        outcome: Outcome,
        detail: &str,
    ) -> AuditRecord {
        let end = detail.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= 1_024).last();
        AuditRecord {
            at: self.now().unix,
            kind,
            actor: by.clone(),
            object: object.chars().take(256).collect(),
            outcome,
            detail: detail.get(..end.unwrap_or(0)).unwrap_or_default().to_owned(),
            count: 1,
            epoch: Some(self.inner.standing.load().snapshot.epoch()),
            place: None,
        }
    }
}

pub(crate) fn unavailable(error: impl std::fmt::Display) -> Refusal {
    Refusal::new(Reason::AuditUnavailable, error.to_string())
}
