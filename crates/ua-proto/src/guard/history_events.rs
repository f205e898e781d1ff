//! HistoryRead of events (OPC 10000-11 §6.5.2) through the guard. The filter goes to the server as a subscription's does,
//! with clauses for source and type; by them each event of the past is decided as a living one is, and by the right to read
//! the history of its source. What may not be told leaves no trace: pages are the guard's own, filled up with what may be
//! told from as many pages of the server as it takes, and a page that is full ends only in front of an event that may be.
//!
//! One node is asked about at a time, and of it as much as it takes. What an id stands for is asked for here too.

mod ids;
mod origins;
mod puts;
mod reading;

use std::sync::Arc;

use access_model::{Action, AuditKind, ScopeIndex};
use opcua_types::{ObjectId, StatusCode};

use super::batch::items;
use super::desk::{Desk, Progress, Way, told};
use super::history_read::{Again, IDS, Item, Kept, What, bare, result, write_bytes};
use super::link::Unwanted;
use super::read::refusal;
use super::subs::{EventFilter, Late, filter};
use super::walk::{boolean, end, extension_object, results};
use crate::server::front::{Counted, Reader, Stamps, write_header, write_len, write_no_diagnostics};
pub(super) use ids::{DELETES, Lookup, found, lookups, narrow};
pub(super) use origins::Origins;
pub(super) use puts::{NO_EVENTS, PUTS, sift, walks};
pub(super) use reading::Reading;
use reading::needed;

/// The most bytes of events in one response; a first event of a node is never too much.
const ROOM: usize = 1 << 20;

/// A request under way.
pub(super) struct Asked {
    plan: Vec<Plan>,
    /// Whose turn it is.
    turn: usize,
    /// Bytes that the response takes still.
    room: usize,
}

/// What answers one item.
enum Plan {
    Status(StatusCode),
    /// To be asked about a node that is not there.
    Hidden(Box<Reading>),
    Read(Box<Reading>),
}

/// What is asked of every node.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    start: i64,
    end: i64,
    /// Most events of one response, or of all where start or end is missing; 0 for no opinion.
    most: u32,
    /// Those that clients changed.
    modified: bool,
    stamps: i32,
    filter: Vec<u8>,
    fields: usize,
}

/// Whether a HistoryReadRequest is about events.
pub(super) fn is_asked(body: &[u8]) -> bool {
    let kind = extension_object(&mut Reader::new(body)).map(|(kind, _)| kind);
    kind.is_ok_and(|kind| {
        kind == ObjectId::ReadEventDetails_Encoding_DefaultBinary
            || kind == ObjectId::ReadEventDetails2_Encoding_DefaultBinary
    })
}

/// Decides a request and begins to read.
pub(super) fn start(desk: &mut Desk<'_>, body: &[u8], handle: u32) -> Result<(Asked, Progress), StatusCode> {
    let mut reader = Reader::new(body);
    let (kind, details) = extension_object(&mut reader)?;
    let stamps = reader.rest();
    Stamps::from_wire(reader.i32()?)?;
    let stamps = Reader::new(stamps).i32()?;
    let release = boolean(&mut reader)?;
    let asked = items(&mut reader, 14, desk.mapping.limits.history_read, Item::read)?;
    end(&reader)?;
    let newer = kind == ObjectId::ReadEventDetails2_Encoding_DefaultBinary;
    let wanted = wanted(desk, details.ok_or(StatusCode::BadHistoryOperationInvalid)?, (newer, stamps))?.map(Arc::new);
    let decide = |item: &Item<'_>| decide(desk, item, wanted.as_ref(), release).unwrap_or_else(Plan::Status);
    let plan = asked.iter().map(decide).collect();
    let mut asked = Asked { plan, turn: 0, room: ROOM };
    let progress = asked.go_on(desk, handle);
    Ok((asked, progress))
}

/// The details, read to their end. What is wrong with a filter or a time that can be read is for those to hear who may read.
fn wanted(
    desk: &Desk<'_>,
    details: &[u8],
    (newer, stamps): (bool, i32),
) -> Result<Result<Wanted, StatusCode>, StatusCode> {
    let mut reader = Reader::new(details);
    let (most, start, end) = (reader.u32()?, reader.i64()?, reader.i64()?);
    let (rest, modified) = match newer {
        true => {
            let (modified, rest) = reader.rest().split_last().ok_or(StatusCode::BadDecodingError)?;
            (rest, boolean(&mut Reader::new(&[*modified]))?)
        }
        false => (reader.rest(), false),
    };
    let EventFilter { bytes: filter, fields } = match filter(desk, rest) {
        Ok(filter) => filter,
        Err(StatusCode::BadDecodingError) => return Err(StatusCode::BadDecodingError),
        Err(status) => return Ok(Err(status)),
    };
    // Two of start, end and number.
    if u8::from(start > 0) + u8::from(end > 0) + u8::from(most > 0) < 2 {
        return Ok(Err(StatusCode::BadHistoryOperationInvalid));
    }
    Ok(Ok(Wanted { start, end, most, modified, stamps, filter, fields }))
}

/// What reading a notifier takes: the right to read its history and the right to receive its events.
fn decide(
    desk: &mut Desk<'_>,
    item: &Item<'_>,
    wanted: Result<&Arc<Wanted>, &StatusCode>,
    release: bool,
) -> Result<Plan, StatusCode> {
    let scope = desk.scope(&item.node);
    let node = (&item.node, scope);
    let action = if scope == ScopeIndex::PUBLIC { Action::Browse } else { Action::ReadHistory };
    let hidden = match desk.way(action, node, AuditKind::Read, Some(Counted::Read)) {
        Way::Refused(status) => return Err(status),
        Way::Never(never) => Some(never),
        Way::Real => None,
    };
    if hidden.is_none() {
        desk.pass(Action::ReceiveEvents, node, AuditKind::Read, None).map_err(|decision| decision.status())?;
    }
    let wanted = wanted.map_err(|status| *status)?;
    // Events have no parts and no other encoding; names of one would be kept with the point.
    let mut rest = Reader::new(item.rest);
    if !rest.string()?.is_empty() {
        return Err(StatusCode::BadIndexRangeInvalid);
    }
    if (rest.u16()?, rest.string()?) != (0, "") {
        return Err(StatusCode::BadDataEncodingInvalid);
    }
    if let Some(never) = hidden {
        return Ok(Plan::Hidden(Box::new(Reading::new(wanted, (item, scope), never))));
    }
    let name = desk.known_as(&item.node, item.node_bytes).to_vec();
    if item.point.is_empty() && !release {
        return Ok(Plan::Read(Box::new(Reading::new(wanted, (item, scope), name))));
    }
    let begun = desk.link.history.take(item.point, &item.node, |what| match what {
        What::Events(reading) => reading.is_of(wanted),
        What::Values(_) => false,
    });
    let Some(Kept { what: What::Events(mut reading), .. }) = begun else {
        return Err(StatusCode::BadContinuationPointInvalid);
    };
    if release {
        desk.link.loose.extend(reading.release());
        return Err(StatusCode::Good);
    }
    (reading.scope, reading.name) = (scope, name);
    Ok(Plan::Read(reading))
}

impl Asked {
    /// Reads as far as it can be read without an answer of the server.
    fn go_on(&mut self, desk: &mut Desk<'_>, handle: u32) -> Progress {
        while let Some(plan) = self.plan.get_mut(self.turn) {
            let request = match plan {
                Plan::Status(_) => None,
                Plan::Hidden(reading) => Some(reading.request()),
                Plan::Read(reading) => (!reading.fill(desk, &mut self.room)).then(|| reading.request()),
            };
            let Some(request) = request else {
                self.turn += 1;
                continue;
            };
            match desk.send_making(IDS, request) {
                Ok(()) => return Progress::Waits,
                Err(status) => return self.fail(desk, status),
            }
        }
        Progress::Done(Ok(self.respond(desk, handle)))
    }

    /// The upstream server answered.
    pub(super) fn answered(
        &mut self,
        desk: &mut Desk<'_>,
        answer: Result<Vec<u8>, StatusCode>,
        handle: u32,
    ) -> Progress {
        let body = match answer {
            Ok(body) => body,
            Err(status) => return self.fail(desk, told(status)),
        };
        let Some(plan) = self.plan.get_mut(self.turn) else { return Progress::Waits };
        let mut found = None;
        let walked = results(&body, 1, |reader| {
            found = Some(result(reader)?);
            Ok(())
        });
        let taken = walked.and_then(|_| match (&mut *plan, found) {
            (Plan::Read(reading), Some(found)) => reading.take_in(desk, found),
            _ => Ok(()),
        });
        if let Err(status) = taken {
            let status = desk.misbehaved(status, "the answer to HistoryRead does not fit");
            return self.fail(desk, status);
        }
        if let Plan::Hidden(reading) = plan {
            let point = found.map(|(_, point, _)| point).unwrap_or_default();
            desk.link.loose.extend(reading.release_of(point));
            *plan = Plan::Status(StatusCode::BadNodeIdUnknown);
        }
        self.go_on(desk, handle)
    }

    fn fail(&mut self, desk: &mut Desk<'_>, status: StatusCode) -> Progress {
        desk.link.loose.extend(self.held());
        Progress::Done(Err(status))
    }

    /// Bytes that it holds.
    pub(super) fn weight(&self) -> usize {
        let of = |plan: &Plan| match plan {
            Plan::Read(reading) | Plan::Hidden(reading) => reading.weight(),
            Plan::Status(_) => 0,
        };
        self.plan.iter().map(of).sum()
    }

    /// Gives back what the server keeps for it.
    pub(super) fn held(&mut self) -> Vec<Unwanted> {
        let readings = self.plan.iter_mut().filter_map(|plan| match plan {
            Plan::Read(reading) => reading.release(),
            _ => None,
        });
        readings.collect()
    }

    /// The client does not wait any longer: what is to be done when the answer comes.
    pub(super) fn late(&self) -> Option<Late> {
        match self.plan.get(self.turn) {
            Some(Plan::Read(reading) | Plan::Hidden(reading)) => {
                Some(Late::HistoryRead(Again::new(reading.head(true), vec![reading.item()])))
            }
            _ => None,
        }
    }

    fn respond(&mut self, desk: &mut Desk<'_>, handle: u32) -> Vec<u8> {
        let mut out = Vec::new();
        write_header(&mut out, IDS.1, desk.now, handle, StatusCode::Good);
        write_len(&mut out, self.plan.len());
        for plan in std::mem::take(&mut self.plan) {
            let mut reading = match plan {
                Plan::Status(status) => {
                    bare(&mut out, status);
                    continue;
                }
                Plan::Hidden(_) => {
                    bare(&mut out, StatusCode::BadNodeIdUnknown);
                    continue;
                }
                Plan::Read(reading) => reading,
            };
            let rights = desk.rights(reading.scope);
            let refused = if rights.contains(needed(reading.scope)) { reading.refused } else { Some(refusal(rights)) };
            if let Some(status) = refused {
                desk.link.loose.extend(reading.release());
                bare(&mut out, status);
                continue;
            }
            let page = reading.take_page();
            let point = page.more.then(|| {
                let most = desk.config.limits.max_continuation_points;
                desk.link.loose.extend(reading.shrink());
                let node = reading.node.clone();
                let (own, unwanted) =
                    desk.link.history.add(Kept { node, what: What::Events(reading), release: None }, most);
                desk.link.loose.extend(unwanted);
                own
            });
            let none = page.count == 0 && point.is_none();
            let status = if none { StatusCode::GoodNoData } else { StatusCode::Good };
            out.extend_from_slice(&status.bits().to_le_bytes());
            write_bytes(&mut out, point.as_ref().map(<[u8; 8]>::as_slice).unwrap_or_default());
            page.write(&mut out);
        }
        write_no_diagnostics(&mut out);
        out
    }
}
