//! What a HistoryReadRequest asks for of every node, read to its end.

use opcua_types::{ObjectId, StatusCode};

use crate::event::{EventFilter, Viewer};
use crate::history::{Aggregate, Domain, Shape};
use crate::server::reader::{Malformed, Reader};

/// Ticks of a millisecond.
const MILLISECOND: f64 = 10_000.0;

/// The most instants or aggregates of one request.
const MAX_LIST: usize = 10_000;

/// Which events are to be read.
pub(super) struct Events {
    pub(super) domain: Domain,
    /// Those that clients changed.
    pub(super) modified: bool,
    pub(super) filter: EventFilter,
}

/// What is to be read, of every node.
pub(super) enum Details {
    Raw(Domain),
    /// What clients changed.
    Modified(Domain),
    /// Events, or why there are none.
    Events(Result<Events, StatusCode>),
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

pub(super) fn boolean(reader: &mut Reader<'_>) -> Result<bool, Malformed> {
    reader.u8().map(|byte| byte != 0)
}

/// Reads the details to their end, for their length may lie.
/// `viewer`: who looks at event types.
pub(super) fn details(kind: Option<u32>, body: &[u8], viewer: &dyn Viewer) -> Result<Details, StatusCode> {
    const RAW: u32 = ObjectId::ReadRawModifiedDetails_Encoding_DefaultBinary as u32;
    const PROCESSED: u32 = ObjectId::ReadProcessedDetails_Encoding_DefaultBinary as u32;
    const EVENTS: u32 = ObjectId::ReadEventDetails_Encoding_DefaultBinary as u32;
    const EVENTS_2: u32 = ObjectId::ReadEventDetails2_Encoding_DefaultBinary as u32;
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
        Some(EVENTS) => return events(body, false, viewer),
        Some(EVENTS_2) => {
            let (modified, body) = body.split_last().ok_or(StatusCode::BadDecodingError)?;
            return events(body, *modified != 0, viewer);
        }
        Some(_) => return Ok(Details::Refused(StatusCode::BadHistoryOperationUnsupported)),
    };
    if reader.rest().is_empty() { Ok(details) } else { Err(StatusCode::BadDecodingError) }
}

/// Number, start and end; all behind them is the filter, which is read to its end.
fn events(body: &[u8], modified: bool, viewer: &dyn Viewer) -> Result<Details, StatusCode> {
    let mut reader = Reader::new(body);
    let (most, start, end) = (reader.u32()?, reader.i64()?, reader.i64()?);
    let filter = match EventFilter::parse(reader.rest(), viewer) {
        Ok(outcome) => outcome.filter,
        Err(unusable) if unusable.status == StatusCode::BadDecodingError => return Err(unusable.status),
        Err(unusable) => return Ok(Details::Events(Err(unusable.status))),
    };
    let domain = Domain::new(start, end, most, false);
    Ok(Details::Events(domain.map(|domain| Events { domain, modified, filter })))
}

fn raw(reader: &mut Reader<'_>) -> Result<Details, StatusCode> {
    let modified = boolean(reader)?;
    let (start, end, most) = (reader.i64()?, reader.i64()?, reader.u32()?);
    let bounds = boolean(reader)?;
    // What was changed stands by itself: there are no values in front of it and behind (OPC 10000-11 §6.5.3.3).
    if modified && bounds {
        return Ok(Details::Refused(StatusCode::BadInvalidArgument));
    }
    let known = if modified { Details::Modified } else { Details::Raw };
    Ok(Domain::new(start, end, most, bounds).map_or_else(Details::Refused, known))
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
