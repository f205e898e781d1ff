//! Notification messages: taken apart as the server sent them, put together for the client. Values stay bytes.

use access_model::Now;
use opcua_types::{ObjectId, StatusCode};

use super::events::About;
use crate::guard::read::taken;
use crate::guard::walk::{asked_extension_object, data_value, diagnostics, end, extension_object, span, variant};
use crate::server::front::{Malformed, Reader, ticks, write_len};

const DATA_CHANGE: ObjectId = ObjectId::DataChangeNotification_Encoding_DefaultBinary;
const EVENTS: ObjectId = ObjectId::EventNotificationList_Encoding_DefaultBinary;
const STATUS_CHANGE: ObjectId = ObjectId::StatusChangeNotification_Encoding_DefaultBinary;

/// One value of a message.
pub(super) struct Entry {
    /// Its item, by the number the client knows.
    pub(super) item: u32,
    pub(super) client_handle: u32,
    /// The value-less Bad_UserAccessDenied, which takes no right.
    pub(super) denial: bool,
    /// A DataValue, or the fields of an event.
    pub(super) value: Vec<u8>,
    /// Of an event: what decides who may hear of it.
    pub(super) about: Option<About>,
}

/// What a message tells.
pub(super) enum Told {
    Values(Vec<Entry>),
    Status(StatusCode),
}

/// A message for the client.
pub(super) struct Message {
    /// Given when it is sent first.
    pub(super) sequence: u32,
    /// As the server wrote it.
    pub(super) time: i64,
    pub(super) told: Told,
}

/// What the server sent.
#[derive(Clone)]
pub(super) struct Incoming<'a> {
    pub(super) subscription: u32,
    pub(super) sequence: u32,
    pub(super) time: i64,
    /// Handle and DataValue of each value.
    pub(super) values: Vec<(u32, &'a [u8])>,
    /// Handle and fields of each event.
    pub(super) events: Vec<(u32, Vec<&'a [u8]>)>,
    pub(super) status: Option<StatusCode>,
    /// It carries notifications, of whatever kind.
    pub(super) numbered: bool,
}

impl<'a> Incoming<'a> {
    /// The body of a PublishResponse.
    pub(super) fn read(body: &'a [u8]) -> Result<Self, StatusCode> {
        let mut reader = Reader::new(body);
        let subscription = reader.u32()?;
        let available = reader.array_len(4)?;
        reader.bytes(available.saturating_mul(4))?;
        reader.u8()?;
        let incoming = Self::message(&mut reader, subscription)?;
        let results = reader.array_len(4)?;
        reader.bytes(results.saturating_mul(4))?;
        diagnostics(&mut reader)?;
        end(&reader)?;
        Ok(incoming)
    }

    /// A NotificationMessage.
    pub(super) fn message(reader: &mut Reader<'a>, subscription: u32) -> Result<Self, StatusCode> {
        let mut incoming = Self {
            subscription,
            sequence: reader.u32()?,
            time: reader.i64()?,
            values: Vec::new(),
            events: Vec::new(),
            status: None,
            numbered: false,
        };
        for _ in 0..reader.array_len(3)? {
            incoming.numbered = true;
            incoming.part(reader)?;
        }
        Ok(incoming)
    }

    /// Kinds of notification that nobody here knows are left out.
    fn part(&mut self, reader: &mut Reader<'a>) -> Result<(), StatusCode> {
        let (kind, body) = extension_object(reader)?;
        let mut body = Reader::new(body.unwrap_or_default());
        if kind == DATA_CHANGE {
            for _ in 0..body.array_len(5)? {
                let handle = body.u32()?;
                self.values.push((handle, span(&mut body, |reader| data_value(reader, &mut false))?));
            }
            diagnostics(&mut body)?;
            end(&body)?;
        } else if kind == EVENTS {
            for _ in 0..body.array_len(8)? {
                let handle = body.u32()?;
                let mut fields = Vec::new();
                for _ in 0..body.array_len(1)? {
                    fields.push(span(&mut body, |reader| variant(reader, &mut false))?);
                }
                self.events.push((handle, fields));
            }
            end(&body)?;
        } else if kind == STATUS_CHANGE {
            self.status = Some(StatusCode::from(body.u32()?));
        }
        Ok(())
    }
}

/// A DataValue with a status and the time, and no value.
pub(super) fn valueless(status: StatusCode, now: Now) -> Vec<u8> {
    let status = status.bits().to_le_bytes();
    [&[0x0a], status.as_slice(), &ticks(now.unix).to_le_bytes()].concat()
}

/// A DataValue that tells that values before it may be missing: InfoType DataValue and the Overflow bit
/// (OPC 10000-4 §7.39.1).
pub(super) fn overflowed(value: &[u8]) -> Result<Vec<u8>, Malformed> {
    const OVERFLOW: u32 = 0x0480;
    let mut reader = Reader::new(value);
    let mask = reader.u8()?;
    let inner = match mask & 0x01 {
        0 => &[],
        _ => span(&mut reader, |reader| variant(reader, &mut false))?,
    };
    let status = if mask & 0x02 != 0 { reader.u32()? } else { 0 };
    Ok([&[mask | 0x02], inner, (status | OVERFLOW).to_le_bytes().as_slice(), reader.rest()].concat())
}

impl Message {
    /// Writes the NotificationMessage.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&self.time.to_le_bytes());
        match &self.told {
            Told::Values(entries) => {
                let (events, values): (Vec<&Entry>, Vec<&Entry>) =
                    entries.iter().partition(|entry| entry.about.is_some());
                write_len(out, usize::from(!values.is_empty()) + usize::from(!events.is_empty()));
                if !values.is_empty() {
                    // With no diagnostics behind the values.
                    write_part(out, DATA_CHANGE, &[list(&values), vec![0xff; 4]].concat());
                }
                if !events.is_empty() {
                    write_part(out, EVENTS, &list(&events));
                }
            }
            Told::Status(status) => {
                write_len(out, 1);
                write_part(out, STATUS_CHANGE, &[status.bits().to_le_bytes().as_slice(), &[0]].concat());
            }
        }
    }
}

fn list(entries: &[&Entry]) -> Vec<u8> {
    let mut body = Vec::new();
    write_len(&mut body, entries.len());
    for entry in entries {
        body.extend_from_slice(&entry.client_handle.to_le_bytes());
        body.extend_from_slice(&entry.value);
    }
    body
}

fn write_part(out: &mut Vec<u8>, kind: ObjectId, body: &[u8]) {
    let [low, high, ..] = (kind as u32).to_le_bytes();
    out.extend_from_slice(&[1, 0, low, high, 1]);
    write_len(out, body.len());
    out.extend_from_slice(body);
}

/// Writes a NotificationMessage without notifications.
pub(super) fn write_keep_alive(sequence: u32, now: Now, out: &mut Vec<u8>) {
    out.extend_from_slice(&sequence.to_le_bytes());
    out.extend_from_slice(&ticks(now.unix).to_le_bytes());
    out.extend_from_slice(&[0xff; 4]);
}

/// The filter of a monitored item.
#[derive(Clone, Copy)]
pub(super) enum Filter<'a> {
    /// None, or a DataChangeFilter: it says no more than the item's own value.
    Data(&'a [u8]),
    /// The body of an EventFilter.
    Event(&'a [u8]),
    /// One that nobody here understands, or whose length is not what it should be.
    Other,
}

impl Filter<'_> {
    /// Whether it is a data change with a part of the EURange.
    pub(super) fn is_percent(self) -> bool {
        const PERCENT: u32 = 2;
        let Self::Data(bytes) = self else { return false };
        bytes
            .last_chunk::<16>()
            .is_some_and(|[_, _, _, _, a, b, c, d, ..]| u32::from_le_bytes([*a, *b, *c, *d]) == PERCENT)
    }
}

/// Reads the filter of a monitored item.
pub(super) fn filter<'a>(reader: &mut Reader<'a>) -> Result<Filter<'a>, Malformed> {
    let before = reader.rest();
    let (kind, body) = asked_extension_object(reader)?;
    let whole = taken(before, reader)?;
    Ok(match body {
        None if kind.is_null() => Filter::Data(whole),
        Some(body) if kind == ObjectId::DataChangeFilter_Encoding_DefaultBinary && body.len() == 16 => {
            Filter::Data(whole)
        }
        Some(body) if kind == ObjectId::EventFilter_Encoding_DefaultBinary => Filter::Event(body),
        _ => Filter::Other,
    })
}
