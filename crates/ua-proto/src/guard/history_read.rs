//! HistoryRead (OPC 10000-4 §5.11.3) of values: decided item by item by the right to read history; bodies come back as
//! the bytes the server gave. Continuation points are the guard's own, each for one node of one session. Events are read
//! elsewhere: each of them is decided by itself.

use std::collections::BTreeMap;

use access_model::{Action, AuditKind, ScopeIndex};
use opcua_types::{NodeId, ObjectId, StatusCode};

use super::batch::items;
use super::desk::{Desk, Progress, Way, told};
use super::history_events::Reading;
use super::link::Unwanted;
use super::read::{refusal, taken};
use super::subs::Late;
use super::walk::{boolean, end, extension_object, results, span};
use crate::server::front::{Counted, Malformed, Reader, Stamps, write_header, write_len, write_no_diagnostics};

pub(super) const IDS: (ObjectId, ObjectId) =
    (ObjectId::HistoryReadRequest_Encoding_DefaultBinary, ObjectId::HistoryReadResponse_Encoding_DefaultBinary);

/// Longest request, in bytes, that is kept to give one point back.
const MAX_RELEASE: usize = 4_096;

/// Most bytes that all points of one session keep.
const MAX_KEPT: usize = 1 << 20;

/// What a point may hold that is kept while its session has no connection.
const LIGHT: usize = 1_024;

/// About what a point takes beside what is read there.
const POINT: usize = 128;

/// A request under way.
pub(super) struct Asked {
    plan: Vec<Plan>,
    forwarded: usize,
    again: Again,
}

/// What continuation points are given back with: they are told to the server with all that they were asked for with.
#[derive(Clone, Default)]
pub(super) struct Again {
    /// Details, timestamps, and that points are released; empty if none can come.
    head: Vec<u8>,
    /// Of each item that was sent: node, index range and encoding.
    items: Vec<Vec<u8>>,
}

impl Again {
    /// `head` says that points are released.
    pub(super) fn new(head: Vec<u8>, items: Vec<Vec<u8>>) -> Self {
        Self { head, items }
    }

    /// Bytes that it holds.
    pub(super) fn weight(&self) -> usize {
        self.head.len().saturating_add(self.items.iter().map(Vec::len).sum())
    }

    fn release<'a>(&self, points: impl IntoIterator<Item = (usize, &'a [u8])>) -> Option<Unwanted> {
        let mut spans = Vec::new();
        let mut count = 0;
        for (at, point) in points {
            let Some(item) = self.items.get(at).filter(|_| !point.is_empty() && !self.head.is_empty()) else {
                continue;
            };
            count += 1;
            spans.extend_from_slice(item);
            write_bytes(&mut spans, point);
        }
        let mut body = self.head.clone();
        write_len(&mut body, count);
        body.extend_from_slice(&spans);
        (count > 0).then_some((IDS, body))
    }
}

/// What answers one item.
enum Plan {
    Status(StatusCode),
    /// The next result, about a node that is not there.
    Hidden,
    /// The next result.
    Ask {
        node: NodeId,
        scope: ScopeIndex,
    },
}

/// The continuation points of one session, by the guard's names of them.
#[derive(Default)]
pub(super) struct Points {
    last: u64,
    /// With about how many bytes each holds.
    points: BTreeMap<u64, (Kept, usize)>,
    /// All of these bytes.
    weight: usize,
}

/// One of them.
pub(super) struct Kept {
    pub(super) node: NodeId,
    pub(super) what: What,
    /// Gives it back. Not kept of a request that is long: such a point ends with the session.
    pub(super) release: Option<Unwanted>,
}

/// What is read there.
pub(super) enum What {
    /// Values: the server's name of the point.
    Values(Vec<u8>),
    Events(Box<Reading>),
}

impl Kept {
    fn weight(&self) -> usize {
        let release = self.release.as_ref().map_or(0, |(_, body)| body.len());
        let what = match &self.what {
            What::Values(point) => point.len(),
            What::Events(reading) => reading.weight(),
        };
        what.saturating_add(release).saturating_add(POINT)
    }

    fn released(mut self) -> Option<Unwanted> {
        match &mut self.what {
            What::Values(_) => self.release,
            What::Events(reading) => reading.release(),
        }
    }
}

impl Points {
    /// Takes a point of this node that `fits`; each is good once.
    pub(super) fn take(&mut self, id: &[u8], node: &NodeId, fits: impl FnOnce(&What) -> bool) -> Option<Kept> {
        let id = u64::from_le_bytes(id.try_into().ok()?);
        self.points.get(&id).filter(|(kept, _)| kept.node == *node && fits(&kept.what))?;
        let (kept, weight) = self.points.remove(&id)?;
        self.weight = self.weight.saturating_sub(weight);
        Some(kept)
    }

    /// About how many bytes they hold.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// Keeps a point; the oldest make room for it, as the server does the like. They are to be given back.
    pub(super) fn add(&mut self, kept: Kept, most: usize) -> ([u8; 8], Vec<Unwanted>) {
        let mut unwanted = Vec::new();
        let weight = kept.weight();
        while self.points.len() >= most.max(1) || self.weight.saturating_add(weight) > MAX_KEPT {
            let Some((_, (oldest, gone))) = self.points.pop_first() else { break };
            self.weight = self.weight.saturating_sub(gone);
            unwanted.extend(oldest.released());
        }
        self.last += 1;
        self.points.insert(self.last, (kept, weight));
        self.weight = self.weight.saturating_add(weight);
        (self.last.to_le_bytes(), unwanted)
    }

    /// What gives all of them back; they are void from now on.
    pub(super) fn take_releases(&mut self) -> Vec<Unwanted> {
        self.weight = 0;
        std::mem::take(&mut self.points).into_values().filter_map(|(kept, _)| kept.released()).collect()
    }

    /// Where much is kept for the next page it is not any more: what gives it back.
    pub(super) fn unburden(&mut self) -> Vec<Unwanted> {
        let heavy: Vec<_> = self.points.extract_if(.., |_, (_, weight)| *weight > LIGHT).collect();
        self.weight = self.points.values().map(|(_, weight)| *weight).sum();
        heavy.into_iter().filter_map(|(_, (kept, _))| kept.released()).collect()
    }

    /// The server has forgotten its points.
    pub(super) fn forget(&mut self) {
        self.points.clear();
        self.weight = 0;
    }
}

pub(super) struct Item<'a> {
    pub(super) node: NodeId,
    pub(super) node_bytes: &'a [u8],
    /// Index range and encoding.
    pub(super) rest: &'a [u8],
    pub(super) point: &'a [u8],
}

impl<'a> Item<'a> {
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let before = reader.rest();
        let node = reader.node_id()?;
        let node_bytes = taken(before, reader)?;
        let before = reader.rest();
        reader.string()?;
        reader.u16()?;
        reader.string()?;
        let rest = taken(before, reader)?;
        Ok(Self { node, node_bytes, rest, point: reader.byte_string()?.unwrap_or_default() })
    }
}

/// Decides a request and sends on what is allowed.
pub(super) fn start(desk: &mut Desk<'_>, body: &[u8], handle: u32) -> Result<(Asked, Progress), StatusCode> {
    let mut reader = Reader::new(body);
    details(desk, &mut reader)?;
    Stamps::from_wire(reader.i32()?)?;
    let releases = boolean(&mut reader)?;
    let head = taken(body, &reader)?.to_vec();
    let asked = items(&mut reader, 14, desk.mapping.limits.history_read, Item::read)?;
    end(&reader)?;
    let mut spans = Vec::new();
    let mut again = Again::default();
    let plan: Vec<Plan> = asked.iter().map(|item| decide(desk, item, (&mut spans, &mut again.items))).collect();
    let forwarded = again.items.len();
    if let (false, Some((_, rest))) = (releases, head.split_last()) {
        again.head = [rest, &[1]].concat();
    }
    let mut asked = Asked { plan, forwarded, again };
    if forwarded == 0 {
        let progress = Progress::Done(Ok(asked.respond(desk, &[], handle)));
        return Ok((asked, progress));
    }
    let mut out = head;
    write_len(&mut out, forwarded);
    out.extend_from_slice(&spans);
    desk.send_making(IDS, out)?;
    Ok((asked, Progress::Waits))
}

/// The nodes of a request.
pub(super) fn nodes(body: &[u8]) -> Vec<NodeId> {
    let mut reader = Reader::new(body);
    let head = extension_object(&mut reader).and_then(|_| reader.bytes(5).map(drop));
    let read = head.map_err(Malformed::status).and_then(|()| items(&mut reader, 14, 0, Item::read));
    read.unwrap_or_default().into_iter().map(|item| item.node).collect()
}

/// The details: of kinds that are about values, and read to their end, for their length may lie.
fn details(desk: &Desk<'_>, reader: &mut Reader<'_>) -> Result<(), StatusCode> {
    let (kind, body) = extension_object(reader)?;
    let mut body = Reader::new(body.ok_or(StatusCode::BadHistoryOperationInvalid)?);
    match kind.as_object_id() {
        Ok(ObjectId::ReadRawModifiedDetails_Encoding_DefaultBinary) => {
            boolean(&mut body)?;
            body.bytes(20)?;
            boolean(&mut body)?;
        }
        Ok(ObjectId::ReadAtTimeDetails_Encoding_DefaultBinary) => {
            let count = body.array_len(8)?;
            body.bytes(count.saturating_mul(8))?;
            boolean(&mut body)?;
        }
        Ok(ObjectId::ReadProcessedDetails_Encoding_DefaultBinary) => {
            body.bytes(24)?;
            for _ in 0..body.array_len(2)? {
                let aggregate = body.node_id()?;
                if !desk.visible(desk.scope(&aggregate)) {
                    return Err(StatusCode::BadAggregateNotSupported);
                }
            }
            boolean(&mut body)?;
            boolean(&mut body)?;
            body.bytes(2)?;
            boolean(&mut body)?;
        }
        _ => return Err(StatusCode::BadHistoryOperationUnsupported),
    }
    end(&body)
}

fn decide(desk: &mut Desk<'_>, item: &Item<'_>, (spans, sent): (&mut Vec<u8>, &mut Vec<Vec<u8>>)) -> Plan {
    let scope = desk.scope(&item.node);
    let way = desk.way(Action::ReadHistory, (&item.node, scope), AuditKind::Read, Some(Counted::Read));
    let mut point = Vec::new();
    if let (Way::Real, false) = (&way, item.point.is_empty()) {
        match desk.link.history.take(item.point, &item.node, |what| matches!(what, What::Values(_))) {
            Some(Kept { what: What::Values(upstream), .. }) => point = upstream,
            _ => return Plan::Status(StatusCode::BadContinuationPointInvalid),
        }
    }
    let start = spans.len();
    let plan = match way {
        Way::Refused(status) => return Plan::Status(status),
        Way::Never(node) => {
            spans.extend_from_slice(&node);
            Plan::Hidden
        }
        Way::Real => {
            spans.extend_from_slice(desk.known_as(&item.node, item.node_bytes));
            Plan::Ask { node: item.node.clone(), scope }
        }
    };
    spans.extend_from_slice(item.rest);
    sent.push(spans.get(start..).unwrap_or_default().to_vec());
    write_bytes(spans, &point);
    plan
}

/// A ByteString; null when there is nothing in it.
pub(super) fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.is_empty() {
        return out.extend_from_slice(&[0xff; 4]);
    }
    write_len(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// A HistoryReadResult: status, continuation point, the data as they came.
pub(super) fn result<'a>(reader: &mut Reader<'a>) -> Result<(StatusCode, &'a [u8], &'a [u8]), Malformed> {
    let status = StatusCode::from(reader.u32()?);
    let point = reader.byte_string()?.unwrap_or_default();
    let data = span(reader, |reader| extension_object(reader).map(drop))?;
    Ok((status, point, data))
}

/// A result that says nothing else.
pub(super) fn bare(out: &mut Vec<u8>, status: StatusCode) {
    out.extend_from_slice(&status.bits().to_le_bytes());
    out.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0]);
}

/// The points in an answer that nobody waits for.
pub(super) fn came_late(again: &Again, body: &[u8]) -> Option<Unwanted> {
    let mut points = Vec::new();
    let read = results(body, again.items.len(), |reader| {
        points.push(result(reader)?.1);
        Ok(())
    });
    read.ok().and_then(|_| again.release(points.into_iter().enumerate()))
}

impl Asked {
    /// Bytes that it holds.
    pub(super) fn weight(&self) -> usize {
        self.again.weight()
    }

    /// The client does not wait any longer: what is to be done when the answer comes.
    pub(super) fn late(&mut self) -> Option<Late> {
        let again = std::mem::take(&mut self.again);
        (!again.head.is_empty()).then_some(Late::HistoryRead(again))
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
            Err(status) => return Progress::Done(Err(told(status))),
        };
        let mut found = Vec::with_capacity(self.forwarded);
        let walked = results(&body, self.forwarded, |reader| {
            found.push(result(reader)?);
            Ok(())
        });
        match walked {
            Ok(_) => Progress::Done(Ok(self.respond(desk, &found, handle))),
            Err(status) => Progress::Done(Err(desk.misbehaved(status, "the answer to HistoryRead does not fit"))),
        }
    }

    fn respond(&mut self, desk: &mut Desk<'_>, found: &[(StatusCode, &[u8], &[u8])], handle: u32) -> Vec<u8> {
        let mut out = Vec::new();
        write_header(&mut out, IDS.1, desk.now, handle, StatusCode::Good);
        write_len(&mut out, self.plan.len());
        let mut found = found.iter().enumerate();
        for plan in std::mem::take(&mut self.plan) {
            let (node, scope) = match plan {
                Plan::Status(status) => {
                    bare(&mut out, status);
                    continue;
                }
                Plan::Hidden => {
                    found.next();
                    bare(&mut out, StatusCode::BadNodeIdUnknown);
                    continue;
                }
                Plan::Ask { node, scope } => (node, scope),
            };
            let Some((at, (status, point, data))) = found.next() else { continue };
            let release = self.again.release([(at, *point)]);
            let rights = desk.rights(scope);
            if !rights.contains(Action::ReadHistory.needed()) {
                desk.link.loose.extend(release);
                bare(&mut out, refusal(rights));
                continue;
            }
            out.extend_from_slice(&status.bits().to_le_bytes());
            let most = desk.config.limits.max_continuation_points;
            if point.is_empty() {
                write_bytes(&mut out, &[]);
            } else {
                let release = release.filter(|(_, body)| body.len() <= MAX_RELEASE);
                let what = What::Values(point.to_vec());
                let (own, unwanted) = desk.link.history.add(Kept { node, what, release }, most);
                desk.link.loose.extend(unwanted);
                write_bytes(&mut out, &own);
            }
            out.extend_from_slice(data);
        }
        write_no_diagnostics(&mut out);
        out
    }
}
