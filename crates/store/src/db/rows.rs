//! Between columns and the nouns of access control. Serialization of nouns lives here, not in the nouns.

use access_model::{ApplicationUri, Epoch, GrantSpec, MapDigest, Principal, Rights, ScopeIndex, Thumbprint, UnixTime};
use serde::{Deserialize, Serialize};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::DbError;

pub(super) fn text(row: &SqliteRow, column: &'static str) -> Result<String, DbError> {
    row.try_get(column).map_err(DbError::at("read a text column"))
}

pub(super) fn optional_text(row: &SqliteRow, column: &'static str) -> Result<Option<String>, DbError> {
    row.try_get(column).map_err(DbError::at("read a text column"))
}

pub(super) fn number(row: &SqliteRow, column: &'static str) -> Result<i64, DbError> {
    row.try_get(column).map_err(DbError::at("read a number column"))
}

pub(super) fn flag(row: &SqliteRow, column: &'static str) -> Result<bool, DbError> {
    row.try_get(column).map_err(DbError::at("read a yes-or-no column"))
}

pub(super) fn time(row: &SqliteRow, column: &'static str) -> Result<UnixTime, DbError> {
    number(row, column).map(UnixTime::from_micros)
}

pub(super) fn optional_time(row: &SqliteRow, column: &'static str) -> Result<Option<UnixTime>, DbError> {
    let micros: Option<i64> = row.try_get(column).map_err(DbError::at("read a time column"))?;
    Ok(micros.map(UnixTime::from_micros))
}

pub(super) fn count(row: &SqliteRow, column: &'static str) -> Result<u64, DbError> {
    u64::try_from(number(row, column)?).map_err(|_| DbError::unreadable("number", column))
}

pub(super) fn epoch(row: &SqliteRow, column: &'static str) -> Result<Epoch, DbError> {
    count(row, column).map(Epoch)
}

pub(super) fn thumbprint(text: &str) -> Result<Thumbprint, DbError> {
    crate::hex::unhex(text).map(Thumbprint).ok_or_else(|| DbError::unreadable("thumbprint", text))
}

pub(super) fn optional_thumbprint(row: &SqliteRow, column: &'static str) -> Result<Option<Thumbprint>, DbError> {
    optional_text(row, column)?.as_deref().map(thumbprint).transpose()
}

/// SQL integers are signed; an epoch or version never gets near the border.
pub(super) fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredPrincipal {
    person: Option<String>,
    application: Option<String>,
    roles: Vec<String>,
    groups: Vec<String>,
}

pub(super) fn principal_to_text(principal: &Principal) -> String {
    let stored = StoredPrincipal {
        person: principal.person.clone(),
        application: principal.application.as_ref().map(|uri| uri.0.clone()),
        roles: principal.roles.clone(),
        groups: principal.groups.clone(),
    };
    serde_json::to_string(&stored).unwrap_or_default()
}

pub(super) fn principal_from_text(text: &str, key: &str) -> Result<Principal, DbError> {
    let stored: StoredPrincipal = serde_json::from_str(text).map_err(|_| DbError::unreadable("principal", key))?;
    Ok(Principal {
        person: stored.person,
        application: stored.application.map(ApplicationUri),
        roles: stored.roles,
        groups: stored.groups,
    })
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredSpec {
    audience: String,
    map: String,
    rights: Vec<(u32, Vec<u32>)>,
    not_after: i64,
    epoch: u64,
}

pub(super) fn spec_to_text(spec: &GrantSpec) -> String {
    let rights = spec.rights.iter();
    let stored = StoredSpec {
        audience: spec.audience.clone(),
        map: crate::hex::hex(&spec.map.0),
        rights: rights.map(|(held, scopes)| (held.bits(), scopes.iter().map(|scope| scope.0).collect())).collect(),
        not_after: spec.not_after.as_micros(),
        epoch: spec.epoch.0,
    };
    serde_json::to_string(&stored).unwrap_or_default()
}

pub(super) fn spec_from_text(text: &str, key: &str) -> Result<GrantSpec, DbError> {
    let unreadable = || DbError::unreadable("grant", key);
    let stored: StoredSpec = serde_json::from_str(text).map_err(|_| unreadable())?;
    let mut rights = Vec::with_capacity(stored.rights.len());
    for (bits, scopes) in stored.rights {
        let held = Rights::from_bits(bits).ok_or_else(unreadable)?;
        rights.push((held, scopes.into_iter().map(ScopeIndex).collect()));
    }
    Ok(GrantSpec {
        audience: stored.audience,
        map: MapDigest(crate::hex::unhex(&stored.map).ok_or_else(unreadable)?),
        rights,
        not_after: UnixTime::from_micros(stored.not_after),
        epoch: Epoch(stored.epoch),
    })
}
