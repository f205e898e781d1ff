//! Claims as JSON, and back.

use access_model::{Epoch, MapDigest, Reason, Refusal, Rights, ScopeMap, Thumbprint, UnixTime};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use crate::json::{Json, Object};
use crate::jws::malformed;
use crate::{Claims, RightsClaim, ScopeSet};

/// The longest `jti`: gates remember ids of tokens they have not seen.
pub(crate) const MAX_ID_LEN: usize = 128;
/// `cnf` member of RFC 8705 section 3.1.
const THUMBPRINT: &str = "x5t#S256";

/// The claims as a JSON object, in the order people read them.
impl Serialize for Claims {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Claims", 13)?;
        out.serialize_field("iss", &self.issuer)?;
        out.serialize_field("sub", &self.subject)?;
        out.serialize_field("aud", &self.audience)?;
        out.serialize_field("exp", &self.expires.as_seconds())?;
        if self.not_before != self.issued_at {
            out.serialize_field("nbf", &self.not_before.as_seconds())?;
        }
        out.serialize_field("iat", &self.issued_at.as_seconds())?;
        out.serialize_field("jti", &self.id)?;
        if let Some(client) = &self.client {
            out.serialize_field("client_id", client)?;
        }
        if let Some(confirmation) = self.confirmation {
            out.serialize_field("cnf", &Confirmation(confirmation))?;
        }
        if !self.roles.is_empty() {
            out.serialize_field("roles", &self.roles)?;
        }
        if !self.groups.is_empty() {
            out.serialize_field("groups", &self.groups)?;
        }
        if self.rights.is_some() || self.epoch != Epoch::default() {
            out.serialize_field("tk", &Decided { rights: self.rights.as_ref(), epoch: self.epoch })?;
        }
        if self.padding > 0 {
            out.serialize_field("pad", &"x".repeat(self.padding))?;
        }
        out.end()
    }
}

struct Confirmation(Thumbprint);

impl Serialize for Confirmation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Confirmation", 1)?;
        out.serialize_field(THUMBPRINT, &URL_SAFE_NO_PAD.encode(self.0.0))?;
        out.end()
    }
}

/// The `tk` claim: `m` the map, `g` the grants as pairs of rights and scopes, `e` the epoch.
struct Decided<'a> {
    rights: Option<&'a RightsClaim>,
    epoch: Epoch,
}

impl Serialize for Decided<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Decided", 3)?;
        if let Some(rights) = self.rights {
            serialize_rights::<S>(rights, &mut out)?;
        }
        out.serialize_field("e", &self.epoch.0)?;
        out.end()
    }
}

/// `m` and `g` of a struct that is being written.
pub(crate) fn serialize_rights<S: Serializer>(
    rights: &RightsClaim,
    out: &mut S::SerializeStruct,
) -> Result<(), S::Error> {
    let entries: Vec<(u32, String)> =
        rights.entries.iter().map(|(held, scopes)| (held.bits(), scopes.encode())).collect();
    out.serialize_field("m", &URL_SAFE_NO_PAD.encode(rights.map.0))?;
    out.serialize_field("g", &entries)
}

/// The claims in a payload. Members we do not know are passed over; members we know must be as we know them.
pub(crate) fn parse(payload: &Object) -> Result<Claims, Refusal> {
    let text = |name: &str| payload.get(name).map(|value| value.text().ok_or_else(|| wrong(name))).transpose();
    let needed = |name: &str| match text(name)? {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        _ => Err(malformed(&format!("the claim `{name}` is missing"))),
    };
    let time = |name: &str| payload.get(name).map(|value| numeric_date(value).ok_or_else(|| wrong(name))).transpose();
    let issued_at = time("iat")?;
    let not_before = time("nbf")?.or(issued_at);
    let id = text("jti")?.unwrap_or_default().to_owned();
    if id.len() > MAX_ID_LEN {
        return Err(wrong("jti"));
    }
    let decided = payload.get("tk").map(|tk| tk.object().ok_or_else(|| wrong("tk"))).transpose()?;
    Ok(Claims {
        issuer: needed("iss")?,
        subject: needed("sub")?,
        audience: text("aud").unwrap_or_default().unwrap_or_default().to_owned(),
        expires: time("exp")?.ok_or_else(|| malformed("the claim `exp` is missing"))?,
        not_before: not_before.unwrap_or_default(),
        issued_at: issued_at.unwrap_or_default(),
        id,
        client: text("client_id")?.map(str::to_owned),
        confirmation: payload.get("cnf").map(confirmation).transpose()?,
        roles: texts(payload, "roles")?,
        groups: texts(payload, "groups")?,
        rights: decided.filter(|tk| tk.contains_key("m") || tk.contains_key("g")).map(rights).transpose()?,
        epoch: decided.map(epoch).transpose()?.unwrap_or_default(),
        padding: text("pad")?.map_or(0, str::len),
    })
}

/// Whether `aud` (a text or an array of texts, RFC 7519 section 4.1.3) names this audience.
pub(crate) fn is_for(payload: &Object, audience: &str) -> bool {
    match payload.get("aud") {
        Some(Json::Text(name)) => name == audience,
        Some(Json::Array(names)) => names.iter().any(|name| name.text() == Some(audience)),
        _ => false,
    }
}

pub(crate) fn wrong(name: &str) -> Refusal {
    malformed(&format!("the claim `{name}` has a value of another kind"))
}

/// Seconds since 1970, whole or not (RFC 7519 section 2). Fractions are cut off; what lies beyond time becomes the last
/// whole second of it.
fn numeric_date(value: &Json) -> Option<UnixTime> {
    match value {
        Json::Whole(seconds) => Some(whole_seconds(*seconds)),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "beyond the range of time a float saturates, which is right"
        )]
        Json::Real(seconds) if seconds.is_finite() => Some(whole_seconds(seconds.floor() as i64)),
        _ => None,
    }
}

/// The time that a number of seconds stands for, kept where it can be written as whole seconds again.
pub(crate) fn whole_seconds(seconds: i64) -> UnixTime {
    const END: i64 = i64::MAX / 1_000_000;
    UnixTime::from_seconds(seconds.clamp(-END, END))
}

/// A claim that is a list of texts; none when it is not there.
pub(crate) fn texts(payload: &Object, name: &str) -> Result<Vec<String>, Refusal> {
    let Some(value) = payload.get(name) else { return Ok(Vec::new()) };
    let all = value.array().ok_or_else(|| wrong(name))?;
    all.iter().map(|entry| entry.text().map(str::to_owned).ok_or_else(|| wrong(name))).collect()
}

/// `cnf`: exactly one certificate thumbprint. A token bound to something that we cannot check is not an unbound one.
fn confirmation(value: &Json) -> Result<Thumbprint, Refusal> {
    let refused =
        || Refusal::new(Reason::TokenConfirmation, "the token is bound to something other than a certificate");
    let members = value.object().filter(|members| members.len() == 1).ok_or_else(refused)?;
    let text = members.get(THUMBPRINT).and_then(Json::text).ok_or_else(refused)?;
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| wrong("cnf"))?;
    bytes.try_into().map(Thumbprint).map_err(|_| wrong("cnf"))
}

fn epoch(tk: &Object) -> Result<Epoch, Refusal> {
    let number = tk.get("e").map_or(Some(0), |value| value.whole().and_then(|number| u64::try_from(number).ok()));
    number.map(Epoch).ok_or_else(|| wrong("tk"))
}

/// `m` and `g`: rights ascend, none is empty or outside the standard, and no scope stands in two sets.
pub(crate) fn rights(tk: &Object) -> Result<RightsClaim, Refusal> {
    let map = tk.get("m").and_then(Json::text).and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
    let map = MapDigest(map.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| wrong("tk"))?);
    let pairs = tk.get("g").and_then(Json::array).ok_or_else(|| wrong("tk"))?;
    let entries = pairs.iter().map(entry).collect::<Result<Vec<_>, _>>()?;
    let ascends = entries.iter().zip(entries.iter().skip(1)).all(|((one, _), (next, _))| one < next);
    if !ascends || !disjoint(&entries) {
        return Err(Refusal::new(Reason::TokenRights, "rights or scopes are granted twice"));
    }
    Ok(RightsClaim { map, entries })
}

fn entry(pair: &Json) -> Result<(Rights, ScopeSet), Refusal> {
    let refused = |detail: String| Refusal::new(Reason::TokenRights, detail);
    let Some([bits, scopes]) = pair.array() else { return Err(wrong("tk")) };
    let held = bits.whole().and_then(|bits| u32::try_from(bits).ok()).and_then(Rights::from_bits);
    let held = held
        .filter(|held| !held.is_empty())
        .ok_or_else(|| refused("a set of rights that the standard does not know".into()))?;
    let scopes = scopes.text().ok_or_else(|| wrong("tk"))?;
    let max = u32::try_from(ScopeMap::MAX).unwrap_or(u32::MAX);
    ScopeSet::decode(scopes, max).map(|scopes| (held, scopes)).map_err(|fault| refused(fault.to_string()))
}

/// Together the sets can then never hold more scopes than the map, whatever the token says.
fn disjoint(entries: &[(Rights, ScopeSet)]) -> bool {
    let mut runs: Vec<(u32, u32)> = entries.iter().flat_map(|(_, scopes)| scopes.runs().iter().copied()).collect();
    runs.sort_unstable();
    runs.iter().zip(runs.iter().skip(1)).all(|((_, last), (first, _))| last < first)
}
