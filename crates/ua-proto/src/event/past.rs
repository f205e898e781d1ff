//! Events that a client writes into history (OPC 10000-11 §6.9.4): made of its fields, or corrected by them. Whether it may
//! is asked by whoever calls; where an event comes from and of what type it is never changes.

use access_model::Now;
use opcua_types::{DateTime, QualifiedName, StatusCode, UAString, Variant};

use super::{About, Event, MAX_FIELD, MAX_FIELDS, MAX_MESSAGE, size};
use crate::space::{NodeRef, Space, date_time};

/// What a client has to say of an event that it tells, beside source and type: what is left out here the server knows.
pub(crate) const NEEDED: [&str; 3] = ["Time", "Message", "Severity"];

/// A field as a client names it, where it can be the name of one.
pub(crate) type Said = (Option<QualifiedName>, Variant);

impl Event {
    /// An event of the past; and whether something of what was said of it is not kept.
    ///
    /// # Errors
    /// Bad_OutOfRange for a time that is not of the past, Bad_InvalidArgument for a field that cannot have its value.
    pub(crate) fn told(
        space: &Space,
        (about, id): (About, [u8; 16]),
        said: Vec<Said>,
        now: Now,
    ) -> Result<(Self, bool), StatusCode> {
        let mut event = Self::new(space, about, id, 1, "", now);
        event.take(space, said, now).map(|ignored| (event, ignored))
    }

    /// This event told anew, with the values of variables that it has; and whether something of what was said of it is not
    /// kept.
    ///
    /// # Errors
    /// As [`Event::told`].
    pub(crate) fn retold(&self, space: &Space, said: Vec<Said>, now: Now) -> Result<(Self, bool), StatusCode> {
        let mut event = Self::new(space, self.about, self.id, 1, "", now);
        event.fields.extend(self.fields.iter().filter(|field| field.guard.is_some()).cloned());
        event.take(space, said, now).map(|ignored| (event, ignored))
    }

    /// This event with other fields; and whether something of what was said of them is not kept.
    ///
    /// # Errors
    /// As [`Event::told`].
    pub(crate) fn corrected(&self, space: &Space, said: Vec<Said>, now: Now) -> Result<(Self, bool), StatusCode> {
        let Self { about, id, time, ref notifiers, ref fields } = *self;
        let mut event = Self { about, id, time, notifiers: notifiers.clone(), fields: fields.clone() };
        event.take(space, said, now).map(|ignored| (event, ignored))
    }

    fn take(&mut self, space: &Space, said: Vec<Said>, now: Now) -> Result<bool, StatusCode> {
        let mut ignored = false;
        let mut known: Vec<QualifiedName> = Vec::with_capacity(said.len());
        for (name, value) in said {
            let Some(name) = name.filter(|name| !known.contains(name)) else {
                ignored |= value != Variant::Empty;
                continue;
            };
            ignored |= !self.take_field(space, &name, value, now)?;
            known.push(name);
        }
        Ok(ignored)
    }

    /// Sets one field; whether it is kept.
    fn take_field(
        &mut self,
        space: &Space,
        name: &QualifiedName,
        value: Variant,
        now: Now,
    ) -> Result<bool, StatusCode> {
        let standard = if name.namespace_index == 0 { name.name.as_ref() } else { "" };
        match (standard, &value) {
            ("EventId" | "EventType" | "SourceNode", _) => return Ok(true),
            ("SourceName", _) => {
                return Ok(value == Variant::Empty || value == UAString::from(space.name(self.about.source).1).into());
            }
            ("Time", Variant::DateTime(time)) => self.time = past(time, now)?,
            ("Message", Variant::LocalizedText(text)) if text.text.as_ref().len() <= MAX_MESSAGE => {}
            ("Severity", Variant::UInt16(1..=1_000)) => {}
            ("ReceiveTime", Variant::DateTime(time)) => drop(past(time, now)?),
            ("ReceiveTime", Variant::Empty) => return Ok(true),
            ("Time" | "Message" | "Severity" | "ReceiveTime", _) => return Err(StatusCode::BadInvalidArgument),
            (_, Variant::Empty) => return Ok(true),
            _ => return self.take_own(space, name, value),
        }
        self.set_field(name.clone(), value, None);
        Ok(true)
    }

    /// A field of the event's own type. One with the value of a variable stays as it was: it takes rights on that.
    fn take_own(&mut self, space: &Space, name: &QualifiedName, value: Variant) -> Result<bool, StatusCode> {
        let Some(declared) = declared(space, self.about.event_type, name) else { return Ok(false) };
        if !space.value_fits_node(&value, declared) {
            return Err(StatusCode::BadInvalidArgument);
        }
        let held = self.fields.iter().find(|field| field.name == *name);
        let has_place = held.map_or(self.fields.len() < MAX_FIELDS + 8, |field| field.guard.is_none());
        let kept = has_place && size(&value) <= MAX_FIELD;
        if kept {
            self.set_field(name.clone(), value, None);
        }
        Ok(kept)
    }
}

/// An instant of the past, in ticks.
fn past(time: &DateTime, now: Now) -> Result<i64, StatusCode> {
    let ticks = time.ticks();
    let fits = ticks > 0 && ticks <= date_time(now.unix).ticks();
    if fits { Ok(ticks) } else { Err(StatusCode::BadOutOfRange) }
}

/// The node of a field of this event type, or of one that it is derived from.
fn declared(space: &Space, kind: NodeRef, name: &QualifiedName) -> Option<NodeRef> {
    let mut at = Some(kind);
    while let Some(type_) = at {
        if let Some(found) = space.child(type_, name) {
            return Some(found);
        }
        at = space.supertype(type_);
    }
    None
}
