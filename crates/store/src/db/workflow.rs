//! Where each workflow stands, so that a restart continues in the step it was in.

use access_model::UnixTime;

use super::{Db, DbError, rows};

/// The state of one workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowState {
    /// The workflow's name.
    pub name: String,
    /// Digest of the net that the marking belongs to; a changed net does not take over an old marking.
    pub net: String,
    /// The marking, in its owner's notation.
    pub marking: String,
    /// Grows by one with each change; 0 before the first.
    pub version: u64,
    /// When it last changed.
    pub changed: UnixTime,
}

impl Db {
    /// The state of this workflow.
    ///
    /// # Errors
    /// The statement failed or the row is unreadable.
    pub async fn workflow(&self, name: &str) -> Result<Option<WorkflowState>, DbError> {
        let row = sqlx::query("SELECT * FROM workflows WHERE name = $1")
            .bind(name)
            .fetch_optional(&self.pool)
            .await
            .map_err(DbError::at("look up a workflow"))?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(WorkflowState {
            name: rows::text(&row, "name")?,
            net: rows::text(&row, "net")?,
            marking: rows::text(&row, "marking")?,
            version: rows::count(&row, "version")?,
            changed: rows::time(&row, "changed")?,
        }))
    }

    /// Stores a state over the one with version `state.version` (0: there is none yet). Returns the new version.
    ///
    /// # Errors
    /// [`DbError::Conflict`] when another version is stored, or the statement failed; then nothing changes.
    pub async fn put_workflow(&self, state: &WorkflowState) -> Result<u64, DbError> {
        let doing = "store a workflow's state";
        let done = sqlx::query(
            "INSERT INTO workflows (name, net, marking, version, changed) SELECT $1, $2, $3, 1, $5 WHERE $4 = 0 \
             ON CONFLICT (name) DO NOTHING",
        );
        let statement = if state.version == 0 {
            done
        } else {
            sqlx::query(
                "UPDATE workflows SET net = $2, marking = $3, version = version + 1, changed = $5 \
                 WHERE name = $1 AND version = $4",
            )
        };
        let done = statement
            .bind(&state.name)
            .bind(&state.net)
            .bind(&state.marking)
            .bind(rows::to_sql(state.version))
            .bind(state.changed.as_micros())
            .execute(&self.pool)
            .await
            .map_err(DbError::at(doing))?;
        if done.rows_affected() == 1 {
            return Ok(state.version + 1);
        }
        let found = self.workflow(&state.name).await?.map_or(0, |stored| stored.version);
        Err(DbError::Conflict { key: state.name.clone(), expected: state.version, found })
    }
}
