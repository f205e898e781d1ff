//! HistoryRead (OPC 10000-4 §5.11.3, OPC 10000-11 §6.5) of values: raw, modified, processed, of given instants; and of
//! events. Each node needs the right to read its history, asked anew for each page.

mod details;
mod events;

use access_model::{Action, AuditKind};
use opcua_types::{
    ByteString, DataValue, ExtensionObject, HistoryData, HistoryEvent, HistoryEventFieldList, HistoryModifiedData,
    HistoryModifiedEvent, HistoryReadResponse, HistoryReadResult, ModificationInfo, NodeId, StatusCode,
};

use super::operations;
use super::read::{Stamps, check_encoding};
use crate::history::{Domain, Fit, Mark, Processed, Resume, Room, Series, page};
use crate::server::codec::{response_header, write_message};
use crate::server::desk::Desk;
use crate::server::history_points::Going;
use crate::server::reader::{Malformed, Reader};
use crate::server::values::IndexRange;
use crate::space::{AccessLevel, NodeRef};
use details::{Details, Events, boolean, details};
use events::{Past, Patience};

struct Item<'a> {
    node: NodeId,
    range: &'a str,
    encoding: (u16, &'a str),
    point: &'a [u8],
}

impl<'a> Item<'a> {
    const LEAST: usize = 16;

    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let (node, range) = (reader.node_id()?, reader.string()?);
        let encoding = (reader.u16()?, reader.string()?);
        Ok(Self { node, range, encoding, point: reader.byte_string()?.unwrap_or_default() })
    }
}

pub(crate) fn history_read(
    desk: &mut Desk<'_>,
    handle: u32,
    mut reader: Reader<'_>,
    out: &mut Vec<u8>,
) -> Result<(), StatusCode> {
    let (kind, body) = reader.extension_object()?;
    let details = details(kind, body, &Past(desk))?;
    let stamps = Stamps::from_wire(reader.i32()?)?;
    if !stamps.source && !stamps.server {
        return Err(StatusCode::BadTimestampsToReturnInvalid);
    }
    let release = boolean(&mut reader)?;
    let count = reader.array_len(Item::LEAST)?;
    let limits = &desk.config.limits.operations;
    let of_events = matches!(details, Details::Events(_));
    let (data, events) = (limits.max_nodes_per_history_read_data, limits.max_nodes_per_history_read_events);
    operations(count, if of_events { events } else { data })?;
    let items = (0..count).map(|_| Item::read(&mut reader)).collect::<Result<Vec<_>, _>>()?;
    if let Details::Processed { aggregates, .. } = &details
        && aggregates.len() != items.len()
    {
        return Err(StatusCode::BadAggregateListMismatch);
    }
    let limits = &desk.config.limits;
    let mut room = Room { values: limits.max_history_values, bytes: limits.max_history_bytes };
    let mut patience = Patience::default();
    let mut results = Vec::with_capacity(count);
    for (nth, item) in items.iter().enumerate() {
        let result = match &details {
            _ if release => let_go(desk, item, of_events),
            Details::Events(asked) => read_events(desk, item, asked.as_ref(), (&mut room, &mut patience)),
            _ => read_one(desk, nth, item, &details, &mut room),
        };
        results.push(match result {
            Ok((found, point)) => told(found, point, stamps),
            Err(status) => bare(status),
        });
    }
    let response = HistoryReadResponse {
        response_header: response_header(desk.now, handle),
        results: Some(results),
        diagnostic_infos: None,
    };
    write_message(out, &response, &desk.codec.context(0))
}

/// What a read found.
enum Found {
    Values(Vec<DataValue>),
    Modified(Vec<DataValue>, Vec<ModificationInfo>),
    Events(Vec<HistoryEventFieldList>),
    ModifiedEvents(Vec<HistoryEventFieldList>, Vec<ModificationInfo>),
}

/// What was found, and where the read goes on.
type Part = (Found, Option<ByteString>);

/// The node of an item, if its history may be read.
fn readable(desk: &mut Desk<'_>, item: &Item<'_>) -> Result<NodeRef, StatusCode> {
    let node = desk.space.find(&item.node).ok_or(StatusCode::BadNodeIdUnknown)?;
    desk.pass(Action::ReadHistory, node, AuditKind::Read)?;
    let known = desk.space.history(node).is_some();
    if !known || !desk.space.access_level(node).contains(AccessLevel::HISTORY_READ) {
        return Err(StatusCode::BadHistoryOperationUnsupported);
    }
    Ok(node)
}

fn let_go(desk: &mut Desk<'_>, item: &Item<'_>, of_events: bool) -> Result<Part, StatusCode> {
    let node = if of_events { notifying(desk, item)? } else { readable(desk, item)? };
    match desk.session.history_points.take(item.point, node) {
        Some(_) => Ok((Found::Values(Vec::new()), None)),
        None => Err(StatusCode::BadContinuationPointInvalid),
    }
}

fn read_one(
    desk: &mut Desk<'_>,
    nth: usize,
    item: &Item<'_>,
    details: &Details,
    room: &mut Room,
) -> Result<Part, StatusCode> {
    let node = readable(desk, item)?;
    check_encoding(item.encoding, opcua_types::AttributeId::Value)?;
    let range = IndexRange::parse(item.range)?;
    let going = match item.point {
        [] => begin(desk, node, nth, details)?,
        point => {
            let going = desk.session.history_points.take(point, node);
            // With other details than it was made under, a point means nothing.
            going.filter(|going| fits(going, details)).ok_or(StatusCode::BadContinuationPointInvalid)?
        }
    };
    let series = desk.space.history(node).ok_or(StatusCode::BadHistoryOperationUnsupported)?;
    let sloped = desk.slopes(node);
    let mut infos = None;
    let (mut values, rest) = match going {
        Going::Raw(domain, resume) => {
            let (values, rest) = series.page(&domain, resume, room);
            (values, rest.map(|resume| Going::Raw(domain, resume)))
        }
        Going::Modified(domain, mark) => {
            let (values, told, rest) = modified(series, &domain, mark, room);
            infos = Some(told);
            (values, rest.map(|mark| Going::Modified(domain, mark)))
        }
        Going::Events(..) => return Err(StatusCode::BadContinuationPointInvalid),
        Going::Processed(asked, first) => {
            let (values, rest) = series.processed(&asked, first, room);
            (values, rest.map(|next| Going::Processed(asked, next)))
        }
        Going::AtTime(first) => {
            let (values, rest) = at_times(series, details, first, sloped, room);
            (values, rest.map(Going::AtTime))
        }
    };
    if let Some(range) = range {
        values.iter_mut().for_each(|value| cut(value, &range));
    }
    let point = rest.map(|going| keep(desk, node, going));
    let found = match infos {
        Some(infos) => Found::Modified(values, infos),
        None => Found::Values(values),
    };
    Ok((found, point))
}

fn keep(desk: &mut Desk<'_>, node: NodeRef, going: Going) -> ByteString {
    let most = usize::from(desk.config.limits.operations.max_history_continuation_points);
    desk.session.history_points.add(node, going, most)
}

/// What clients changed, by the instant of the value.
fn modified(
    series: &Series,
    domain: &Domain,
    mark: Mark,
    room: &mut Room,
) -> (Vec<DataValue>, Vec<ModificationInfo>, Option<Mark>) {
    let (mut values, mut infos) = (Vec::new(), Vec::new());
    let rest = page(series.journal().entries(), domain, mark, |change, has_place| {
        if !has_place || !room.take_weight(change.weight(), values.is_empty()) {
            return Fit::Full;
        }
        values.push(change.entry.clone());
        infos.push(change.info());
        Fit::Taken
    });
    (values, infos, rest)
}

/// The notifier of an item, if what it keeps may be read.
fn notifying(desk: &mut Desk<'_>, item: &Item<'_>) -> Result<NodeRef, StatusCode> {
    let node = desk.space.find(&item.node).ok_or(StatusCode::BadNodeIdUnknown)?;
    events::pass(desk, node)?;
    if desk.space.event_log(node).is_none() {
        return Err(StatusCode::BadHistoryOperationUnsupported);
    }
    Ok(node)
}

fn read_events(
    desk: &mut Desk<'_>,
    item: &Item<'_>,
    asked: Result<&Events, &StatusCode>,
    bounds: (&mut Room, &mut Patience),
) -> Result<Part, StatusCode> {
    let node = notifying(desk, item)?;
    let Events { domain, modified, filter } = asked.map_err(|status| *status)?;
    let modified = *modified;
    if !item.range.is_empty() {
        return Err(StatusCode::BadIndexRangeInvalid);
    }
    let mark = match (item.point, desk.session.history_points.take(item.point, node)) {
        ([], _) => Mark::default(),
        (_, Some(Going::Events(begun, of, mark))) if begun == *domain && of == modified => mark,
        _ => return Err(StatusCode::BadContinuationPointInvalid),
    };
    let events::Page { events, infos, rest } = events::read(desk, node, (domain, modified, mark), filter, bounds)?;
    let point = rest.map(|mark| keep(desk, node, Going::Events(*domain, modified, mark)));
    Ok((if modified { Found::ModifiedEvents(events, infos) } else { Found::Events(events) }, point))
}

fn begin(desk: &Desk<'_>, node: NodeRef, nth: usize, details: &Details) -> Result<Going, StatusCode> {
    match details {
        Details::Refused(status) => Err(*status),
        Details::Raw(domain) => Ok(Going::Raw(*domain, Resume::Start)),
        Details::Modified(domain) => Ok(Going::Modified(*domain, Mark::default())),
        Details::Events(_) => Err(StatusCode::BadHistoryOperationUnsupported),
        Details::AtTime { times, .. } if times.is_empty() => Err(StatusCode::BadNothingToDo),
        Details::AtTime { .. } => Ok(Going::AtTime(0)),
        Details::Processed { start, end, interval, aggregates, shape } => {
            let aggregate = aggregates.get(nth).copied().flatten().ok_or(StatusCode::BadAggregateNotSupported)?;
            if aggregate.takes_numbers() && !desk.is_numeric(node) {
                return Err(StatusCode::BadAggregateNotSupported);
            }
            let sloped = desk.slopes(node);
            let asked = Processed { start: *start, end: *end, interval: *interval, aggregate, shape: *shape, sloped };
            asked.check()?;
            Ok(Going::Processed(asked, 0))
        }
    }
}

fn fits(going: &Going, details: &Details) -> bool {
    match (going, details) {
        (Going::Raw(domain, _), Details::Raw(asked)) => domain == asked,
        (Going::Modified(domain, _), Details::Modified(asked)) => domain == asked,
        (Going::Processed(known, _), Details::Processed { start, end, interval, .. }) => {
            (known.start, known.end, known.interval) == (*start, *end, *interval)
        }
        (Going::AtTime(_), Details::AtTime { .. }) => true,
        _ => false,
    }
}

fn at_times(
    series: &Series,
    details: &Details,
    first: usize,
    sloped: bool,
    room: &mut Room,
) -> (Vec<DataValue>, Option<usize>) {
    let Details::AtTime { times, simple } = details else { return (Vec::new(), None) };
    let mut values = Vec::new();
    for (at, time) in times.iter().enumerate().skip(first) {
        let value = series.interpolated(*time, sloped, *simple);
        if !room.take(&value, values.is_empty()) {
            return (values, Some(at));
        }
        values.push(value);
    }
    (values, None)
}

/// The part of a value inside an index range; a range that fits no value is told in its status.
fn cut(value: &mut DataValue, range: &IndexRange) {
    if let Some(whole) = &value.value {
        match range.select(whole) {
            Ok(part) => value.value = Some(part),
            Err(status) => (value.value, value.status) = (None, Some(status)),
        }
    }
}

fn told(found: Found, point: Option<ByteString>, stamps: Stamps) -> HistoryReadResult {
    let none = match &found {
        Found::Values(values) | Found::Modified(values, _) => values.is_empty(),
        Found::Events(events) | Found::ModifiedEvents(events, _) => events.is_empty(),
    };
    let history_data = match found {
        Found::Values(values) => {
            ExtensionObject::from_message(HistoryData { data_values: Some(stamped(values, stamps)) })
        }
        Found::Modified(values, infos) => ExtensionObject::from_message(HistoryModifiedData {
            data_values: Some(stamped(values, stamps)),
            modification_infos: Some(infos),
        }),
        Found::Events(events) => ExtensionObject::from_message(HistoryEvent { events: Some(events) }),
        Found::ModifiedEvents(events, infos) => ExtensionObject::from_message(HistoryModifiedEvent {
            events: Some(events),
            modification_infos: Some(infos),
        }),
    };
    HistoryReadResult {
        status_code: if none && point.is_none() { StatusCode::GoodNoData } else { StatusCode::Good },
        continuation_point: point.unwrap_or_else(ByteString::null),
        history_data,
    }
}

fn stamped(mut values: Vec<DataValue>, stamps: Stamps) -> Vec<DataValue> {
    for value in &mut values {
        if !stamps.source {
            (value.source_timestamp, value.source_picoseconds) = (None, None);
        }
        if !stamps.server {
            (value.server_timestamp, value.server_picoseconds) = (None, None);
        }
    }
    values
}

fn bare(status_code: StatusCode) -> HistoryReadResult {
    let history_data = ExtensionObject::null();
    HistoryReadResult { status_code, continuation_point: ByteString::null(), history_data }
}
