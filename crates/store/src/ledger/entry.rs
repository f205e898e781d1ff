//! Audit records in the ledger: written from the noun, read back as an [`Entry`].
//!
//! Kinds and reasons are kept as their words, so that a ledger of a later version can still be read and exported.

use access_model::{AuditRecord, Outcome, UnixTime};
use serde::Serialize;

use super::body::{Body, put_optional, put_text, put_time, put_varint, whole};
use super::frame::Frame;

/// One audit record as it stands in the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Its number in the ledger; numbers of checkpoints and notes lie between.
    pub sequence: u64,
    /// When it happened, in microseconds since 1970-01-01T00:00:00Z.
    #[serde(serialize_with = "time_as_text")]
    pub at: UnixTime,
    /// What happened: the word of an [`access_model::AuditKind`].
    pub kind: String,
    /// `allowed`, `denied`, `failed`, or `observed`: done where enforcement would have denied it.
    pub outcome: &'static str,
    /// Why it was denied, or would have been: the word of an [`access_model::Reason`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The protocol's status code, when it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u32>,
    /// The principal.
    pub actor: String,
    /// The client's ApplicationUri.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// Where the request came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What it was done to.
    pub object: String,
    /// The rest, in one sentence.
    pub detail: String,
    /// How many equal events it stands for.
    pub count: u64,
    /// The policy epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// What was decided about, if it was one thing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<EntryPlace>,
    /// SHA-256 that chains it, in hexadecimal.
    pub hash: String,
}

/// What was decided about: an [`access_model::Place`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EntryPlace {
    /// The server's ApplicationUri.
    pub server: String,
    /// The scope's name; empty for what no scope names.
    pub scope: String,
    /// The word of an [`access_model::Action`].
    pub action: String,
    /// Steps of the workflow, joined by `, `; empty when the gate was told none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub steps: String,
    /// Roles of the grant, in the words of [`access_model::Place::roles_of`]; empty when it named none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub roles: String,
}

fn time_as_text<S: serde::Serializer>(at: &UnixTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&super::rfc3339::format(*at))
}

/// Writes the body of an audit record.
pub(super) fn put(out: &mut Vec<u8>, record: &AuditRecord) {
    put_time(out, record.at);
    put_varint(out, record.count);
    put_varint(out, record.epoch.map_or(0, |epoch| epoch.0.saturating_add(1)));
    match record.outcome {
        Outcome::Allowed => out.push(0),
        Outcome::Denied(reason) => {
            out.push(1);
            put_text(out, reason.word());
        }
        Outcome::Failed(status) => {
            out.push(2);
            out.extend_from_slice(&status.to_le_bytes());
        }
        Outcome::Observed(reason) => {
            out.push(3);
            put_text(out, reason.word());
        }
    }
    put_text(out, record.kind.name());
    put_text(out, &record.actor.name);
    put_optional(out, record.actor.application.as_deref());
    put_optional(out, record.actor.address.as_deref());
    put_optional(out, record.actor.session.as_deref());
    put_text(out, &record.object);
    put_text(out, &record.detail);
    // Behind all that the first version wrote: a body that ends here has none.
    if let Some(place) = &record.place {
        for text in [&place.server, &place.scope, &place.steps] {
            put_text(out, text);
        }
        put_text(out, place.action.name());
        if !place.roles.is_empty() {
            put_text(out, &place.roles);
        }
    }
}

/// Reads an audit record back.
pub(super) fn read(frame: &Frame<'_>) -> Option<Entry> {
    whole(frame.body, |body| take(body, frame))
}

fn take(body: &mut Body<'_>, frame: &Frame<'_>) -> Option<Entry> {
    let (at, count, epoch) = (body.time()?, body.varint()?, body.varint()?);
    let (outcome, reason, status) = match body.byte()? {
        0 => ("allowed", None, None),
        1 => ("denied", Some(body.text()?), None),
        2 => ("failed", None, Some(body.u32()?)),
        3 => ("observed", Some(body.text()?), None),
        _ => return None,
    };
    Some(Entry {
        sequence: frame.sequence,
        at,
        outcome,
        reason,
        status,
        kind: body.text()?,
        actor: body.text()?,
        application: body.optional()?,
        address: body.optional()?,
        session: body.optional()?,
        object: body.text()?,
        detail: body.text()?,
        count,
        epoch: epoch.checked_sub(1),
        place: if body.is_over() { None } else { Some(place(body)?) },
        hash: crate::hex::hex(&frame.hash),
    })
}

fn place(body: &mut Body<'_>) -> Option<EntryPlace> {
    let (server, scope, steps) = (body.text()?, body.text()?, body.text()?);
    let action = body.text()?;
    let roles = if body.is_over() { String::new() } else { body.text()? };
    Some(EntryPlace { server, scope, action, steps, roles })
}
