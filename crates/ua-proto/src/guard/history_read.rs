//! HistoryRead (OPC 10000-4 §5.11.3) of values: decided item by item by the right to read history; bodies come back as
//! the bytes the server gave. Continuation points are the guard's own, each for one node of one session. History of
//! events is not read through a guard: each of them would have to be decided by a source that it need not name.

use std::collections::BTreeMap;

use access_model::{Action, AuditKind, ScopeIndex};
use opcua_types::{NodeId, ObjectId, StatusCode};

use super::batch::items;
use super::desk::{Desk, Progress, Way, told};
use super::read::{refusal, taken};
use super::walk::{boolean, end, extension_object, results, span};
use crate::server::front::{Counted, Malformed, Reader, Stamps, write_header, write_len, write_no_diagnostics};

const IDS: (ObjectId, ObjectId) =
    (ObjectId::HistoryReadRequest_Encoding_DefaultBinary, ObjectId::HistoryReadResponse_Encoding_DefaultBinary);

/// A request under way.
pub(super) struct Asked {
    plan: Vec<Plan>,
    forwarded: usize,
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

/// The continuation points of one session: the guard's name, the node, the server's name.
#[derive(Default)]
pub(super) struct Points {
    last: u64,
    points: BTreeMap<u64, (NodeId, Vec<u8>)>,
}

impl Points {
    fn take(&mut self, id: &[u8], node: &NodeId) -> Option<Vec<u8>> {
        let id = u64::from_le_bytes(id.try_into().ok()?);
        let (of, _) = self.points.get(&id)?;
        if of == node { self.points.remove(&id).map(|(_, upstream)| upstream) } else { None }
    }

    /// Keeps a point; the oldest makes room for it, as the server does the like.
    fn add(&mut self, node: NodeId, upstream: &[u8], most: usize) -> [u8; 8] {
        while self.points.len() >= most.max(1) {
            self.points.pop_first();
        }
        self.last += 1;
        self.points.insert(self.last, (node, upstream.to_vec()));
        self.last.to_le_bytes()
    }

    /// The server has forgotten its points.
    pub(super) fn forget(&mut self) {
        self.points.clear();
    }
}

struct Item<'a> {
    node: NodeId,
    node_bytes: &'a [u8],
    /// Index range and encoding.
    rest: &'a [u8],
    point: &'a [u8],
}

impl<'a> Item<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
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
    boolean(&mut reader)?;
    let head = taken(body, &reader)?.to_vec();
    let asked = items(&mut reader, 14, desk.mapping.limits.history_read, Item::read)?;
    end(&reader)?;
    let mut spans = Vec::new();
    let plan: Vec<Plan> = asked.iter().map(|item| decide(desk, item, &mut spans)).collect();
    let forwarded = plan.iter().filter(|plan| !matches!(plan, Plan::Status(_))).count();
    let mut asked = Asked { plan, forwarded };
    if forwarded == 0 {
        let progress = Progress::Done(Ok(asked.respond(desk, &[], handle)));
        return Ok((asked, progress));
    }
    let mut out = head;
    write_len(&mut out, forwarded);
    out.extend_from_slice(&spans);
    desk.send(IDS, out, 0)?;
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

fn decide(desk: &mut Desk<'_>, item: &Item<'_>, spans: &mut Vec<u8>) -> Plan {
    let scope = desk.scope(&item.node);
    let way = desk.way(Action::ReadHistory, (&item.node, scope), AuditKind::Read, Some(Counted::Read));
    let mut point = Vec::new();
    if let (Way::Real, false) = (&way, item.point.is_empty()) {
        match desk.link.history.take(item.point, &item.node) {
            Some(upstream) => point = upstream,
            None => return Plan::Status(StatusCode::BadContinuationPointInvalid),
        }
    }
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
    write_bytes(spans, &point);
    plan
}

/// A ByteString; null when there is nothing in it.
fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.is_empty() {
        return out.extend_from_slice(&[0xff; 4]);
    }
    write_len(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// A HistoryReadResult: status, continuation point, the data as they came.
fn result<'a>(reader: &mut Reader<'a>) -> Result<(StatusCode, &'a [u8], &'a [u8]), Malformed> {
    let status = StatusCode::from(reader.u32()?);
    let point = reader.byte_string()?.unwrap_or_default();
    let data = span(reader, |reader| extension_object(reader).map(drop))?;
    Ok((status, point, data))
}

impl Asked {
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
        let mut found = found.iter();
        let bare = |out: &mut Vec<u8>, status: StatusCode| {
            out.extend_from_slice(&status.bits().to_le_bytes());
            out.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0]);
        };
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
            let Some((status, point, data)) = found.next() else { continue };
            let rights = desk.rights(scope);
            if !rights.contains(Action::ReadHistory.needed()) {
                bare(&mut out, refusal(rights));
                continue;
            }
            out.extend_from_slice(&status.bits().to_le_bytes());
            let most = desk.config.limits.max_continuation_points;
            let own = (!point.is_empty()).then(|| desk.link.history.add(node, point, most));
            write_bytes(&mut out, own.as_ref().map_or(&[], |own| own.as_slice()));
            out.extend_from_slice(data);
        }
        write_no_diagnostics(&mut out);
        out
    }
}
