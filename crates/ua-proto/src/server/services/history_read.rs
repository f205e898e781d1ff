//! HistoryRead (OPC 10000-4 §5.11.3, OPC 10000-11 §6.5) of values: raw, processed, of given instants. Each node needs the
//! right to read its history, asked anew for each page. Modified values and events are not kept.

use access_model::{Action, AuditKind};
use opcua_types::{
    ByteString, DataValue, ExtensionObject, HistoryData, HistoryReadResponse, HistoryReadResult, NodeId, ObjectId,
    StatusCode,
};

use super::operations;
use super::read::{Stamps, check_encoding};
use crate::history::{Aggregate, Domain, Processed, Resume, Room, Series, Shape};
use crate::server::codec::{response_header, write_message};
use crate::server::desk::Desk;
use crate::server::history_points::Going;
use crate::server::reader::{Malformed, Reader};
use crate::server::values::IndexRange;
use crate::space::{AccessLevel, NodeRef};

/// Ticks of a millisecond.
const MILLISECOND: f64 = 10_000.0;

/// The most instants or aggregates of one request.
const MAX_LIST: usize = 10_000;

/// What is to be read, of every node.
enum Details {
    Raw(Domain),
    /// One aggregate for each node; none where it is not known.
    Processed {
        start: i64,
        end: i64,
        interval: i64,
        aggregates: Vec<Option<Aggregate>>,
        shape: Shape,
    },
    AtTime {
        times: Vec<i64>,
        simple: bool,
    },
    /// A kind that is not served, or values that cannot be: each node that may be read says so.
    Refused(StatusCode),
}

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

fn boolean(reader: &mut Reader<'_>) -> Result<bool, Malformed> {
    reader.u8().map(|byte| byte != 0)
}

pub(crate) fn history_read(
    desk: &mut Desk<'_>,
    handle: u32,
    mut reader: Reader<'_>,
    out: &mut Vec<u8>,
) -> Result<(), StatusCode> {
    let (kind, body) = reader.extension_object()?;
    let details = details(kind, body)?;
    let stamps = Stamps::from_wire(reader.i32()?)?;
    if !stamps.source && !stamps.server {
        return Err(StatusCode::BadTimestampsToReturnInvalid);
    }
    let release = boolean(&mut reader)?;
    let count = reader.array_len(Item::LEAST)?;
    operations(count, desk.config.limits.operations.max_nodes_per_history_read_data)?;
    let items = (0..count).map(|_| Item::read(&mut reader)).collect::<Result<Vec<_>, _>>()?;
    if let Details::Processed { aggregates, .. } = &details
        && aggregates.len() != items.len()
    {
        return Err(StatusCode::BadAggregateListMismatch);
    }
    let limits = &desk.config.limits;
    let mut room = Room { values: limits.max_history_values, bytes: limits.max_history_bytes };
    let mut results = Vec::with_capacity(count);
    for (nth, item) in items.iter().enumerate() {
        let result = if release { let_go(desk, item) } else { read_one(desk, nth, item, &details, &mut room) };
        results.push(match result {
            Ok((values, point)) => told(values, point, stamps),
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

/// Reads the details to their end, for their length may lie.
fn details(kind: Option<u32>, body: &[u8]) -> Result<Details, StatusCode> {
    const RAW: u32 = ObjectId::ReadRawModifiedDetails_Encoding_DefaultBinary as u32;
    const PROCESSED: u32 = ObjectId::ReadProcessedDetails_Encoding_DefaultBinary as u32;
    const AT_TIME: u32 = ObjectId::ReadAtTimeDetails_Encoding_DefaultBinary as u32;
    let mut reader = Reader::new(body);
    let details = match kind {
        None | Some(0) => return Err(StatusCode::BadHistoryOperationInvalid),
        Some(RAW) => raw(&mut reader)?,
        Some(PROCESSED) => processed(&mut reader)?,
        Some(AT_TIME) => {
            let count = reader.array_len(8)?;
            if count > MAX_LIST {
                return Err(StatusCode::BadTooManyOperations);
            }
            let times = (0..count).map(|_| reader.i64()).collect::<Result<Vec<_>, _>>()?;
            Details::AtTime { times, simple: boolean(&mut reader)? }
        }
        Some(_) => return Ok(Details::Refused(StatusCode::BadHistoryOperationUnsupported)),
    };
    if reader.rest().is_empty() { Ok(details) } else { Err(StatusCode::BadDecodingError) }
}

fn raw(reader: &mut Reader<'_>) -> Result<Details, StatusCode> {
    let modified = boolean(reader)?;
    let (start, end, most) = (reader.i64()?, reader.i64()?, reader.u32()?);
    let bounds = boolean(reader)?;
    if modified {
        return Ok(Details::Refused(StatusCode::BadHistoryOperationUnsupported));
    }
    Ok(Domain::new(start, end, most, bounds).map_or_else(Details::Refused, Details::Raw))
}

fn processed(reader: &mut Reader<'_>) -> Result<Details, StatusCode> {
    let (start, end, interval) = (reader.i64()?, reader.i64()?, reader.f64()?);
    let count = reader.array_len(2)?;
    let aggregates = (0..count).map(|_| reader.node_id().map(|id| Aggregate::of(&id))).collect::<Result<_, _>>()?;
    let defaults = boolean(reader)?;
    let uncertain_is_bad = boolean(reader)?;
    let (percent_bad, percent_good) = (reader.u8()?, reader.u8()?);
    let sloped = boolean(reader)?;
    let shape = Shape { uncertain_is_bad, percent_bad, percent_good };
    let possible = percent_bad <= 100 && percent_good <= 100 && percent_bad.saturating_add(percent_good) >= 100;
    if !defaults && (sloped || !possible) {
        return Ok(Details::Refused(StatusCode::BadAggregateConfigurationRejected));
    }
    let shape = if defaults { Shape::default() } else { shape };
    let interval = interval * MILLISECOND;
    if !interval.is_finite() || interval < 0.0 || (interval > 0.0 && interval < 1.0) {
        return Ok(Details::Refused(StatusCode::BadInvalidArgument));
    }
    Ok(Details::Processed { start, end, interval: interval as i64, aggregates, shape })
}

/// Values, and where the read goes on.
type Found = (Vec<DataValue>, Option<ByteString>);

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

fn let_go(desk: &mut Desk<'_>, item: &Item<'_>) -> Result<Found, StatusCode> {
    let node = readable(desk, item)?;
    match desk.session.history_points.take(item.point, node) {
        Some(_) => Ok((Vec::new(), None)),
        None => Err(StatusCode::BadContinuationPointInvalid),
    }
}

fn read_one(
    desk: &mut Desk<'_>,
    nth: usize,
    item: &Item<'_>,
    details: &Details,
    room: &mut Room,
) -> Result<Found, StatusCode> {
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
    let (mut values, rest) = match going {
        Going::Raw(domain, resume) => {
            let (values, rest) = series.page(&domain, resume, room);
            (values, rest.map(|resume| Going::Raw(domain, resume)))
        }
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
    let most = usize::from(desk.config.limits.operations.max_history_continuation_points);
    let point = rest.map(|going| desk.session.history_points.add(node, going, most));
    Ok((values, point))
}

fn begin(desk: &Desk<'_>, node: NodeRef, nth: usize, details: &Details) -> Result<Going, StatusCode> {
    match details {
        Details::Refused(status) => Err(*status),
        Details::Raw(domain) => Ok(Going::Raw(*domain, Resume::Start)),
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

fn told(mut values: Vec<DataValue>, point: Option<ByteString>, stamps: Stamps) -> HistoryReadResult {
    for value in &mut values {
        if !stamps.source {
            (value.source_timestamp, value.source_picoseconds) = (None, None);
        }
        if !stamps.server {
            (value.server_timestamp, value.server_picoseconds) = (None, None);
        }
    }
    HistoryReadResult {
        status_code: if values.is_empty() { StatusCode::GoodNoData } else { StatusCode::Good },
        continuation_point: point.unwrap_or_else(ByteString::null),
        history_data: ExtensionObject::from_message(HistoryData { data_values: Some(values) }),
    }
}

fn bare(status_code: StatusCode) -> HistoryReadResult {
    let history_data = ExtensionObject::null();
    HistoryReadResult { status_code, continuation_point: ByteString::null(), history_data }
}
