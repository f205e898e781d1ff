//! What was ordered of guards, so that a restart of the authority changes nothing there.

use access_model::{Mode, UnixTime};

use super::{Db, DbError, rows};

impl Db {
    /// Every order, by the server's ApplicationUri. A word that is no mode enforces.
    ///
    /// # Errors
    /// The statement failed or a row is unreadable.
    pub async fn guard_modes(&self) -> Result<Vec<(String, Mode)>, DbError> {
        let all = sqlx::query("SELECT server, mode FROM guard_modes ORDER BY server")
            .fetch_all(&self.pool)
            .await
            .map_err(DbError::at("list the modes of guards"))?;
        let read = |row| {
            let mode = rows::text(row, "mode")?;
            Ok((rows::text(row, "server")?, Mode::from_name(&mode).unwrap_or_default()))
        };
        all.iter().map(read).collect()
    }

    /// Keeps an order over the one before.
    ///
    /// # Errors
    /// The statement failed; then the one before stands.
    pub async fn put_guard_mode(&self, server: &str, mode: Mode, at: UnixTime) -> Result<(), DbError> {
        let statement = "INSERT INTO guard_modes (server, mode, changed) VALUES ($1, $2, $3) \
                         ON CONFLICT (server) DO UPDATE SET mode = excluded.mode, changed = excluded.changed";
        let query = sqlx::query(statement).bind(server).bind(mode.name()).bind(at.as_micros());
        query.execute(&self.pool).await.map_err(DbError::at("keep the mode of a guard"))?;
        Ok(())
    }
}
