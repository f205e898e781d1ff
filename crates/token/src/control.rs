//! Signed control updates: what the authority tells its gates about live grants.

use std::time::Duration;

use access_model::{Epoch, Mode, Reason, Refusal, UnixTime};
use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use crate::json::{Json, Object};
use crate::jws::{self, Kind, Parts, malformed};
use crate::payload::{self, MAX_ID_LEN};
use crate::{DangerWithout, Issuer, MintError, RightsClaim, Signer, Verified};

/// A token that is no longer valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocation {
    /// Its `jti`.
    pub id: String,
    /// Its `exp`: until then a gate remembers the revocation.
    pub expires: UnixTime,
}

/// A token whose rights or end have changed since it was minted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// Its `jti`.
    pub id: String,
    /// What it grants from now on.
    pub rights: RightsClaim,
    /// When it ends from now on. A gate takes the earlier of this and the token's own `exp`.
    pub not_after: UnixTime,
    /// Its own `exp`: until then a gate remembers the replacement.
    pub expires: UnixTime,
}

/// An answer to a gate's question whether a second person approves of one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approved {
    /// The question, as the gate called it.
    pub id: String,
    /// The person who approved.
    pub by: String,
    /// Until when the change may be made.
    pub expires: UnixTime,
}

/// One message on the control stream.
///
/// With `previous: None` it is the full list: every revoked or replaced token of this issuer for this audience that
/// has not expired; what is not in it stands as minted. Otherwise it is a delta that applies only to a gate at
/// `previous`. A delta with `previous` equal to `epoch` and nothing in it is the heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// Who signs.
    pub issuer: String,
    /// The gate's audience.
    pub audience: String,
    /// The epoch that a gate is at after this update. Grows with every change that is sent, revocations included.
    pub epoch: Epoch,
    /// The epoch that a gate must be at for this delta; `None` for the full list.
    pub previous: Option<Epoch>,
    /// When it was signed.
    pub issued_at: UnixTime,
    /// Tokens that are no longer valid.
    pub revoked: Vec<Revocation>,
    /// Tokens that grant something else from now on.
    pub replaced: Vec<Replacement>,
    /// Changes that a second person approved of. The full list names all that may still be made.
    pub approved: Vec<Approved>,
    /// Whether the gate holds its denials from now on; `None` says nothing about it.
    pub mode: Option<Mode>,
}

/// The longest update that is looked at.
pub const MAX_UPDATE_LEN: usize = 16 * 1024 * 1024;

/// Signs an update. Times but that of its signing are rounded down to whole seconds.
///
/// # Errors
/// An empty issuer or audience, an update longer than [`MAX_UPDATE_LEN`], a key that cannot sign.
pub fn seal(update: &Update, signer: &Signer) -> Result<Vec<u8>, MintError> {
    for (name, value) in [("iss", &update.issuer), ("aud", &update.audience)] {
        if value.is_empty() {
            return Err(MintError::Empty(name));
        }
    }
    let ids = update.revoked.iter().map(|entry| &entry.id).chain(update.replaced.iter().map(|entry| &entry.id));
    let ids = ids.chain(update.approved.iter().map(|entry| &entry.id));
    if let Some(long) = ids.map(String::len).find(|len| *len > MAX_ID_LEN) {
        return Err(MintError::LongId(long));
    }
    let payload = serde_json::to_vec(update).map_err(|_| MintError::Signing)?;
    let text = jws::seal(Kind::ControlUpdate, &payload, signer).ok_or(MintError::Signing)?;
    if text.len() > MAX_UPDATE_LEN {
        return Err(MintError::TooLarge(text.len()));
    }
    Ok(text.into_bytes())
}

/// Checks form, signature, issuer and audience of an update. Its place in the order of epochs is the gate's business.
///
/// # Errors
/// The first fault found, under its own reason.
pub fn open(bytes: &[u8], issuers: &[Issuer], audience: &str) -> Result<Verified<Update>, Refusal> {
    let parts = Parts::split(bytes, MAX_UPDATE_LEN)?;
    let (issuer, payload) = parts.verify(Kind::ControlUpdate, issuers, DangerWithout::Nothing)?;
    if !payload::is_for(&payload, audience) {
        return Err(Refusal::new(Reason::TokenAudience, "the update is for another gate"));
    }
    parse(&payload, &issuer.name, audience).map(Verified::new).ok_or_else(|| malformed("the update is not in its form"))
}

impl Serialize for Update {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let revoked: Vec<_> = self.revoked.iter().map(|entry| (&entry.id, entry.expires.as_seconds())).collect();
        let micros = self.issued_at.as_micros().rem_euclid(1_000_000);
        let mut out = serializer.serialize_struct("Update", 9)?;
        out.serialize_field("iss", &self.issuer)?;
        out.serialize_field("aud", &self.audience)?;
        out.serialize_field("iat", &self.issued_at.as_seconds())?;
        // Beside `iat`, which older gates read as a whole number.
        if micros > 0 {
            out.serialize_field("us", &micros)?;
        }
        out.serialize_field("epoch", &self.epoch.0)?;
        if let Some(previous) = self.previous {
            out.serialize_field("previous", &previous.0)?;
        }
        out.serialize_field("revoked", &revoked)?;
        out.serialize_field("replaced", &self.replaced)?;
        if !self.approved.is_empty() {
            let approved = self.approved.iter().map(|entry| (&entry.id, &entry.by, entry.expires.as_seconds()));
            out.serialize_field("approved", &approved.collect::<Vec<_>>())?;
        }
        if let Some(mode) = self.mode {
            out.serialize_field("mode", mode.name())?;
        }
        out.end()
    }
}

impl Serialize for Replacement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Replacement", 5)?;
        out.serialize_field("jti", &self.id)?;
        out.serialize_field("exp", &self.expires.as_seconds())?;
        out.serialize_field("end", &self.not_after.as_seconds())?;
        payload::serialize_rights::<S>(&self.rights, &mut out)?;
        out.end()
    }
}

fn parse(members: &Object, issuer: &str, audience: &str) -> Option<Update> {
    let number = |name: &str| members.get(name).and_then(Json::whole).and_then(|number| u64::try_from(number).ok());
    let epoch = Epoch(number("epoch")?);
    let previous = if members.contains_key("previous") { Some(Epoch(number("previous")?)) } else { None };
    let micros = if members.contains_key("us") { number("us").filter(|micros| *micros < 1_000_000)? } else { 0 };
    let update = Update {
        issuer: issuer.to_owned(),
        audience: audience.to_owned(),
        epoch,
        previous,
        issued_at: payload::whole_seconds(members.get("iat")?.whole()?) + Duration::from_micros(micros),
        revoked: members.get("revoked")?.array()?.iter().map(revocation).collect::<Option<_>>()?,
        replaced: members.get("replaced")?.array()?.iter().map(replacement).collect::<Option<_>>()?,
        approved: match members.get("approved") {
            Some(all) => all.array()?.iter().map(approved).collect::<Option<_>>()?,
            None => Vec::new(),
        },
        // A mode that nobody knows here is the one that holds.
        mode: members.get("mode").map(|mode| mode.text().and_then(Mode::from_name).unwrap_or_default()),
    };
    let silent = update.approved.is_empty() && update.mode.is_none();
    let nothing_new = update.revoked.is_empty() && update.replaced.is_empty() && silent;
    let in_order = previous.is_none_or(|previous| previous < epoch || (previous == epoch && nothing_new));
    in_order.then_some(update)
}

fn id(value: &Json) -> Option<String> {
    value.text().filter(|id| !id.is_empty() && id.len() <= MAX_ID_LEN).map(str::to_owned)
}

fn revocation(value: &Json) -> Option<Revocation> {
    let [jti, expires] = value.array()? else { return None };
    Some(Revocation { id: id(jti)?, expires: payload::whole_seconds(expires.whole()?) })
}

fn approved(value: &Json) -> Option<Approved> {
    let [question, by, expires] = value.array()? else { return None };
    let by = by.text().filter(|name| !name.is_empty()).map(str::to_owned)?;
    Some(Approved { id: id(question)?, by, expires: payload::whole_seconds(expires.whole()?) })
}

fn replacement(value: &Json) -> Option<Replacement> {
    let members = value.object()?;
    Some(Replacement {
        id: id(members.get("jti")?)?,
        rights: payload::rights(members).ok()?,
        not_after: payload::whole_seconds(members.get("end")?.whole()?),
        expires: payload::whole_seconds(members.get("exp")?.whole()?),
    })
}
