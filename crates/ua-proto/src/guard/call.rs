//! Call (OPC 10000-4 §5.12.2): object and method are both decided; recorded, then sent on. What comes back under a grant
//! that is over is told by its status only.

use std::ops::Range;

use access_model::{Action, AuditKind, Reason, Rights, ScopeIndex};
use opcua_types::{NodeId, ObjectId, StatusCode};
use pep::Permit;

use super::batch::{Batch, batches};
use super::desk::{Decision, Desk, Progress, told};
use super::walk::{diagnostics, end, results, span, variant};
use crate::server::front::{Malformed, Reader, operations, write_header, write_len, write_no_diagnostics};

const IDS: (ObjectId, ObjectId) =
    (ObjectId::CallRequest_Encoding_DefaultBinary, ObjectId::CallResponse_Encoding_DefaultBinary);
/// Most arguments of one call.
const MAX_INPUTS: usize = 64;

/// A request under way.
pub(super) struct Asked {
    body: Vec<u8>,
    items: Vec<Item>,
    plan: Vec<Plan>,
    parts: Vec<Vec<usize>>,
    open: usize,
    /// The grant was over, or the session given to another user, at some moment since it was sent.
    pub(super) over: bool,
}

struct Item {
    object: NodeId,
    method: NodeId,
    object_bytes: Range<usize>,
    method_bytes: Range<usize>,
    inputs: Range<usize>,
    structures: bool,
}

enum Plan {
    /// Answered with a status and nothing else.
    Status(StatusCode),
    /// Answered by the server.
    Result {
        scopes: [ScopeIndex; 2],
        status: StatusCode,
        bytes: Vec<u8>,
    },
    /// Allowed and recorded: a permit for the object and one for the method.
    Call {
        scopes: [ScopeIndex; 2],
        permits: [Option<Permit>; 2],
    },
    Hidden,
    Sent {
        scopes: [ScopeIndex; 2],
    },
}

/// Reads and decides a request, and records what is allowed.
pub(super) fn start(desk: &mut Desk<'_>, body: Vec<u8>, handle: u32) -> Result<(Asked, Progress), StatusCode> {
    let items = parse(desk, &body)?;
    let mut records = Vec::new();
    let mut plan = Vec::with_capacity(items.len());
    for item in &items {
        let decided = decide(desk, item);
        if let Plan::Call { .. } = &decided {
            let text = format!("method {}", item.method);
            records.extend(desk.record_of(AuditKind::Call, item.object.to_string(), text));
        }
        plan.push(decided);
    }
    let mut asked = Asked { body, items, plan, parts: Vec::new(), open: 0, over: false };
    let progress = if desk.keep(records) { Progress::Waits } else { asked.forward(desk, handle) };
    Ok((asked, progress))
}

fn parse(desk: &Desk<'_>, body: &[u8]) -> Result<Vec<Item>, StatusCode> {
    let mut reader = Reader::new(body);
    let at = |reader: &Reader<'_>| body.len().saturating_sub(reader.rest().len());
    let count = reader.array_len(8)?;
    operations(count, desk.mapping.limits.call)?;
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        let start = at(&reader);
        let object = reader.node_id()?;
        let middle = at(&reader);
        let method = reader.node_id()?;
        let behind = at(&reader);
        let inputs = reader.array_len(1)?;
        if inputs > MAX_INPUTS {
            return Err(Malformed::Limit.status());
        }
        let mut structures = false;
        for _ in 0..inputs {
            variant(&mut reader, &mut structures)?;
        }
        items.push(Item {
            object,
            method,
            object_bytes: start..middle,
            method_bytes: middle..behind,
            inputs: behind..at(&reader),
            structures,
        });
    }
    end(&reader)?;
    Ok(items)
}

/// The object first: a method that everybody may call on a type is not thereby callable on each instance.
fn decide(desk: &mut Desk<'_>, item: &Item) -> Plan {
    let mut permits = [None, None];
    let scopes = [desk.scope(&item.object), desk.scope(&item.method)];
    // A hidden node is hidden also where the other one is denied.
    for (node, scope) in [&item.object, &item.method].into_iter().zip(scopes) {
        if !desk.visible(scope) {
            return match desk.decide(Action::Call, (node, scope), AuditKind::Call, None) {
                Decision::Denied => Plan::Status(StatusCode::BadUserAccessDenied),
                _ if desk.config.hide_timing => Plan::Hidden,
                _ => Plan::Status(StatusCode::BadNodeIdUnknown),
            };
        }
    }
    for ((node, scope), place) in [&item.object, &item.method].into_iter().zip(scopes).zip(&mut permits) {
        match desk.decide(Action::Call, (node, scope), AuditKind::Call, None) {
            Decision::Pass(permit) => *place = permit,
            decision => return Plan::Status(decision.status()),
        }
    }
    match desk.audit_open(AuditKind::Call, &item.object) {
        Ok(()) => Plan::Call { scopes, permits },
        Err(status) => Plan::Status(status),
    }
}

impl Asked {
    /// The record is kept, or none was needed: what is still allowed goes upstream.
    pub(super) fn forward(&mut self, desk: &mut Desk<'_>, handle: u32) -> Progress {
        let mut batch = Vec::new();
        for (at, (item, plan)) in self.items.iter().zip(&mut self.plan).enumerate() {
            let part = |range: &Range<usize>| self.body.get(range.clone()).unwrap_or_default();
            let bytes = match plan {
                Plan::Call { scopes, permits } => {
                    if !scopes.iter().all(|scope| desk.rights(*scope).contains(Rights::CALL)) {
                        let text = "the right ended before the call";
                        desk.deny(AuditKind::Call, Reason::GrantRevoked, (&item.object, scopes[0]), text);
                        *plan = Plan::Status(StatusCode::BadUserAccessDenied);
                        continue;
                    }
                    for permit in permits {
                        let _accounted = permit.take().map(Permit::spend);
                    }
                    let object = desk.known_as(&item.object, part(&item.object_bytes));
                    [object, desk.known_as(&item.method, part(&item.method_bytes)), part(&item.inputs)].concat()
                }
                Plan::Hidden => {
                    let mut bytes = desk.never(&item.object);
                    bytes.extend_from_slice(&desk.never(&item.method));
                    bytes.extend_from_slice(&[0xff; 4]);
                    bytes
                }
                Plan::Status(_) | Plan::Result { .. } | Plan::Sent { .. } => continue,
            };
            batch.push(Batch { item: at, bytes, alone: item.structures });
        }
        for (items, body) in batches(&batch) {
            let sent = desk.send(IDS, body, u32::try_from(self.parts.len()).unwrap_or(u32::MAX));
            for at in &items {
                let Some(plan) = self.plan.get_mut(*at) else { continue };
                *plan = match (&*plan, sent) {
                    (Plan::Hidden, Ok(())) => Plan::Hidden,
                    (Plan::Hidden, Err(_)) => Plan::Status(StatusCode::BadNodeIdUnknown),
                    (Plan::Call { scopes, .. }, Ok(())) => Plan::Sent { scopes: *scopes },
                    (_, sent) => Plan::Status(sent.err().unwrap_or(StatusCode::BadInternalError)),
                };
            }
            if sent.is_ok() {
                self.parts.push(items);
                self.open += 1;
            }
        }
        self.progress(desk, handle)
    }

    /// Nothing is carried out that was not sent yet.
    pub(super) fn give_up(&mut self, desk: &mut Desk<'_>, status: StatusCode, handle: u32) -> Progress {
        for plan in &mut self.plan {
            match plan {
                Plan::Call { .. } => *plan = Plan::Status(status),
                Plan::Hidden => *plan = Plan::Status(StatusCode::BadNodeIdUnknown),
                Plan::Status(_) | Plan::Result { .. } | Plan::Sent { .. } => {}
            }
        }
        self.progress(desk, handle)
    }

    /// The upstream server answered one part.
    pub(super) fn answered(
        &mut self,
        desk: &mut Desk<'_>,
        part: u32,
        answer: Result<Vec<u8>, StatusCode>,
        handle: u32,
    ) -> Progress {
        let items = self.parts.get_mut(part as usize).map(std::mem::take).unwrap_or_default();
        self.open = self.open.saturating_sub(1);
        let found = answer.map_err(told).and_then(|body| {
            let found = results(&body, items.len(), |reader| result(reader).map(drop)).and_then(|spans| {
                let read = |span: &&[u8]| result(&mut Reader::new(span));
                Ok(spans.iter().map(read).collect::<Result<Vec<_>, Malformed>>()?)
            });
            found.map_err(|status| desk.misbehaved(status, "the answer to Call does not fit the request"))
        });
        for (nth, at) in items.iter().enumerate() {
            let (status, bytes) = match &found {
                Ok(found) => found.get(nth).cloned().unwrap_or((StatusCode::BadUnknownResponse, Vec::new())),
                Err(status) => (*status, Vec::new()),
            };
            let Some(plan) = self.plan.get_mut(*at) else { continue };
            let Plan::Sent { scopes } = *plan else {
                *plan = Plan::Status(StatusCode::BadNodeIdUnknown);
                continue;
            };
            *plan = if bytes.is_empty() { Plan::Status(status) } else { Plan::Result { scopes, status, bytes } };
            if status.is_bad()
                && let Some(item) = self.items.get(*at)
            {
                desk.record_failed(AuditKind::Call, item.object.to_string(), status);
            }
        }
        self.progress(desk, handle)
    }

    fn progress(&mut self, desk: &mut Desk<'_>, handle: u32) -> Progress {
        if self.open > 0 {
            return Progress::Waits;
        }
        let mut out = Vec::new();
        write_header(&mut out, IDS.1, desk.now, handle, StatusCode::Good);
        write_len(&mut out, self.plan.len());
        for plan in &self.plan {
            match plan {
                Plan::Result { scopes, bytes, .. }
                    if !self.over && scopes.iter().all(|scope| desk.rights(*scope).contains(Rights::CALL)) =>
                {
                    out.extend_from_slice(bytes);
                }
                Plan::Status(status) | Plan::Result { status, .. } => write_bare(&mut out, *status),
                Plan::Hidden => write_bare(&mut out, StatusCode::BadNodeIdUnknown),
                Plan::Call { .. } | Plan::Sent { .. } => write_bare(&mut out, StatusCode::BadInternalError),
            }
        }
        write_no_diagnostics(&mut out);
        Progress::Done(Ok(out))
    }
}

/// A result with a status and nothing else.
fn write_bare(out: &mut Vec<u8>, status: StatusCode) {
    out.extend_from_slice(&status.bits().to_le_bytes());
    out.extend_from_slice(&[0xff; 12]);
}

/// A CallMethodResult without its diagnostics.
fn result(reader: &mut Reader<'_>) -> Result<(StatusCode, Vec<u8>), Malformed> {
    let status = reader.u32()?;
    let arguments = span(reader, |reader| {
        let count = reader.array_len(4)?;
        reader.bytes(count.saturating_mul(4)).map(drop)
    })?;
    diagnostics(reader)?;
    let outputs = span(reader, |reader| {
        for _ in 0..reader.array_len(1)? {
            variant(reader, &mut false)?;
        }
        Ok(())
    })?;
    let bytes = [&status.to_le_bytes(), arguments, &[0xff; 4], outputs].concat();
    Ok((StatusCode::from(status), bytes))
}
