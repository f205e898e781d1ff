//! Services that change the plant: Write, Call, node management, updates of history. One form for all of them: each item
//! is decided at every node it touches and recorded; it is sent on as the bytes it came in when the record is kept, if
//! the rights are still there then; results come back in the order of the request.
//!
//! An item about a hidden node takes the same way as one about a node that is not there: it waits for the ledger as
//! well, and the server is asked about a node that never exists.

mod decide;
mod item;

use std::collections::BTreeMap;

use access_model::{AuditKind, Denial, Reason};
use opcua_types::{NodeId, ObjectId, StatusCode};
use pep::Permit;

use super::batch::{Batch, batches};
use super::desk::{Desk, Progress, told};
use super::survey::Limits;
use super::walk::{end, results};
use crate::interlock::No;
use crate::server::front::{Malformed, Reader, Told, operations, write_diagnostics, write_header, write_len};
use decide::decide;
pub(super) use item::{Cursor, Item, Touched};

/// A way of reading a result: its status, and all of it if it says more.
pub(super) type Outcome = Result<(StatusCode, Vec<u8>), Malformed>;

/// What tells one of these services from another.
pub(super) struct Form {
    /// Request and response.
    pub(super) ids: (ObjectId, ObjectId),
    /// How it is recorded.
    pub(super) kind: AuditKind,
    /// Fewest bytes of an item.
    pub(super) least: usize,
    pub(super) limit: fn(&Limits) -> u32,
    pub(super) read: fn(&mut Cursor<'_>) -> Result<Item, Malformed>,
    /// Looks at what an item would do, once all rights are there.
    pub(super) check: fn(&mut Desk<'_>, &Item, &[u8]) -> Result<(), No>,
    /// What the guard answers itself, from its own books; what goes on may be written anew.
    pub(super) own: fn(&mut Desk<'_>, &mut Item, &[u8]) -> Option<Vec<u8>>,
    pub(super) result: fn(&mut Reader<'_>) -> Outcome,
    /// What follows the status in a result that says nothing else.
    pub(super) bare: &'static [u8],
    /// What an item is told whose node is not there.
    pub(super) unknown: StatusCode,
    /// What clients are told of an item.
    pub(super) told: fn(&Item, &[u8]) -> Told,
}

/// A request under way.
pub(super) struct Asked {
    form: &'static Form,
    body: Vec<u8>,
    items: Vec<Item>,
    /// Bytes that it holds.
    weight: usize,
    plan: Vec<Plan>,
    /// The items of each part that was sent.
    parts: Vec<Vec<usize>>,
    open: usize,
    /// A part was sent and its answer did not come: nobody knows whether it was carried out.
    unanswered: bool,
    /// Why items were turned away, for a client that wants to hear it.
    told: BTreeMap<usize, String>,
    /// The grant was over, or the session given to another user, at some moment since it was sent.
    pub(super) over: bool,
}

enum Plan {
    /// Answered with a status and nothing else.
    Status(StatusCode),
    /// Answered by the server.
    Result { status: StatusCode, bytes: Vec<u8> },
    /// Answered by the guard.
    Own(Vec<u8>),
    /// Allowed and recorded: a permit for each node.
    Allowed(Vec<Option<Permit>>),
    /// To be asked of a node that is not there.
    Hidden,
    /// Sent.
    Sent,
}

/// What was turned away as hidden and is not recorded yet: the item, the node, why.
type Unrecorded = Vec<(usize, NodeId, Denial)>;

/// Reads and decides a request, and records what is allowed.
pub(super) fn start(
    desk: &mut Desk<'_>,
    form: &'static Form,
    body: Vec<u8>,
    (handle, explain): (u32, bool),
) -> Result<(Asked, Progress), StatusCode> {
    let mut items = parse(desk, form, &body)?;
    let (mut records, mut hidden, mut why) = (Vec::new(), Vec::new(), BTreeMap::new());
    let mut plan = Vec::with_capacity(items.len());
    for (at, item) in items.iter_mut().enumerate() {
        let decided = decide(desk, form, (at, item), &body, (&mut hidden, &mut why));
        if let Plan::Allowed(permits) = &decided
            && let Some(record) = item.record(desk, form.kind, permits)
        {
            records.push((record, desk.told(|| (form.told)(item, &body))));
        }
        plan.push(decided);
    }
    for (at, node, denial) in hidden {
        let told = |item: Option<&Item>| item.map_or(Told::Nothing, |item| (form.told)(item, &[]));
        if records.is_empty()
            && desk.waits_for_records()
            && let Some(record) = desk.record_of_denial(form.kind, &node, &denial)
        {
            // Who asks for nothing else waits for the ledger as well.
            records.push((record, desk.told(|| told(items.get(at)))));
        } else {
            desk.turned_away(form.kind, &denial, &node, || told(items.get(at)));
        }
    }
    why.retain(|_, _| explain);
    let permits = |plan: &Plan| if let Plan::Allowed(permits) = plan { permits.len() } else { 0 };
    let permits = plan.iter().map(permits).sum::<usize>().saturating_mul(size_of::<Option<Permit>>());
    let weight = items.iter().map(Item::weight).fold(body.len().saturating_add(permits), usize::saturating_add);
    let (parts, told) = (Vec::new(), why);
    let mut asked = Asked { form, body, items, weight, plan, parts, open: 0, unanswered: false, told, over: false };
    let progress = if desk.keep(records) { Progress::Waits } else { asked.forward(desk, handle) };
    Ok((asked, progress))
}

fn parse(desk: &Desk<'_>, form: &Form, body: &[u8]) -> Result<Vec<Item>, StatusCode> {
    let mut cursor = Cursor::new(body);
    let count = cursor.reader.array_len(form.least)?;
    operations(count, (form.limit)(&desk.mapping.limits))?;
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        items.push((form.read)(&mut cursor)?);
    }
    end(&cursor.reader)?;
    Ok(items)
}

/// The items of a request; none of one that cannot be read.
pub(super) fn items(desk: &Desk<'_>, form: &Form, body: &[u8]) -> Vec<Item> {
    parse(desk, form, body).unwrap_or_default()
}

/// The nodes of a request.
pub(super) fn nodes(desk: &Desk<'_>, form: &Form, body: &[u8]) -> Vec<NodeId> {
    items(desk, form, body).into_iter().flat_map(|item| item.touched).map(|touched| touched.node).collect()
}

impl Asked {
    /// Whether the server may still carry it out.
    pub(super) fn is_sent(&self) -> bool {
        self.open > 0 || self.unanswered
    }

    /// The client hears this, and nobody will hear what the server has made of it: recorded.
    pub(super) fn abandoned(&self, desk: &mut Desk<'_>, status: StatusCode) {
        for at in self.parts.iter().flatten() {
            let hidden = matches!(self.plan.get(*at), Some(Plan::Hidden));
            let Some(item) = self.items.get(*at).filter(|_| !hidden) else { continue };
            desk.record_failed(self.form.kind, item.object(), status, || (self.form.told)(item, &[]));
        }
    }

    /// Bytes that it holds.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// The record is kept, or none was needed: what is still allowed goes upstream.
    pub(super) fn forward(&mut self, desk: &mut Desk<'_>, handle: u32) -> Progress {
        let mut batch = Vec::new();
        for (at, (item, plan)) in self.items.iter().zip(&mut self.plan).enumerate() {
            let hidden = matches!(plan, Plan::Hidden);
            match plan {
                Plan::Allowed(permits) => {
                    if let Some(lost) = item.missing(desk) {
                        let text = format!("the right ended before the {}", self.form.kind.name());
                        desk.deny(self.form.kind, Reason::GrantRevoked, (&lost.node, lost.scope), &text);
                        *plan = Plan::Status(StatusCode::BadUserAccessDenied);
                        continue;
                    }
                    // Permitted only because the guard observed, and it does not any more.
                    let against = permits.iter().flatten().find_map(Permit::against);
                    if let (Some(reason), false, Some(first)) = (against, desk.observes(), item.touched.first()) {
                        let text = format!("the guard enforced before the {}", self.form.kind.name());
                        desk.deny(self.form.kind, reason, (&first.node, first.scope), &text);
                        *plan = Plan::Status(StatusCode::BadUserAccessDenied);
                        continue;
                    }
                    for permit in permits {
                        let _accounted = permit.take().map(Permit::spend);
                    }
                }
                Plan::Hidden => {}
                _ => continue,
            }
            batch.push(Batch { item: at, bytes: item.written(desk, &self.body, hidden), alone: item.structures });
        }
        for (items, body) in batches(&batch) {
            let part = u32::try_from(self.parts.len()).unwrap_or(u32::MAX);
            let sent = desk.send_changing(self.form.ids, body, part);
            for at in &items {
                self.settle(*at, sent.map_or_else(Plan::Status, |()| Plan::Sent));
            }
            if sent.is_ok() {
                self.parts.push(items);
                self.open += 1;
            }
        }
        self.progress(desk, handle)
    }

    /// A hidden node stays unknown, whatever else happens.
    fn settle(&mut self, at: usize, to: Plan) {
        let Some(plan) = self.plan.get_mut(at) else { return };
        *plan = match (&*plan, to) {
            (Plan::Hidden, Plan::Sent) => Plan::Hidden,
            (Plan::Hidden, _) => Plan::Status(self.form.unknown),
            (_, to) => to,
        };
    }

    /// The record could not be written, or the session belongs to somebody else: nothing is carried out that was not
    /// sent yet.
    pub(super) fn give_up(&mut self, desk: &mut Desk<'_>, status: StatusCode, handle: u32) -> Progress {
        for plan in &mut self.plan {
            match plan {
                Plan::Allowed(_) => *plan = Plan::Status(status),
                Plan::Hidden if self.parts.is_empty() => *plan = Plan::Status(self.form.unknown),
                _ => {}
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
        self.unanswered |= answer.as_ref().is_err_and(|status| !proves_nothing_done(*status));
        let found = answer.map_err(told).and_then(|body| {
            self.results(&body, items.len())
                .map_err(|status| desk.misbehaved(status, "an answer of the server does not fit the request"))
        });
        for (nth, at) in items.iter().enumerate() {
            let told = match &found {
                Ok(found) => found.get(nth).cloned(),
                Err(status) => Some((*status, Vec::new())),
            };
            let (status, bytes) =
                told.zip(self.items.get(*at)).and_then(|(told, item)| item.merged(told)).unwrap_or_else(|| {
                    let text = "a result of the server is about another number of parts than were sent";
                    (desk.misbehaved(StatusCode::BadUnknownResponse, text), Vec::new())
                });
            let hidden = matches!(self.plan.get(*at), Some(Plan::Hidden));
            if status.is_bad()
                && !hidden
                && let Some(item) = self.items.get(*at)
            {
                desk.record_failed(self.form.kind, item.object(), status, || (self.form.told)(item, &[]));
            }
            self.settle(*at, if bytes.is_empty() { Plan::Status(status) } else { Plan::Result { status, bytes } });
        }
        self.progress(desk, handle)
    }

    fn results(&self, body: &[u8], expected: usize) -> Result<Vec<(StatusCode, Vec<u8>)>, StatusCode> {
        let walk = self.form.result;
        let mut found = Vec::with_capacity(expected);
        results(body, expected, |reader| {
            found.push(walk(reader)?);
            Ok(())
        })?;
        Ok(found)
    }

    fn progress(&mut self, desk: &mut Desk<'_>, handle: u32) -> Progress {
        if self.open > 0 {
            return Progress::Waits;
        }
        let mut out = Vec::new();
        write_header(&mut out, self.form.ids.1, desk.now, handle, StatusCode::Good);
        write_len(&mut out, self.plan.len());
        for (plan, item) in self.plan.iter().zip(&self.items) {
            let status = match plan {
                Plan::Own(bytes) => {
                    out.extend_from_slice(bytes);
                    continue;
                }
                // What comes back under a grant that is over is told by its status only.
                Plan::Result { bytes, .. } if !self.over && item.missing(desk).is_none() => {
                    out.extend_from_slice(bytes);
                    continue;
                }
                Plan::Status(status) | Plan::Result { status, .. } => *status,
                Plan::Hidden => self.form.unknown,
                Plan::Allowed(_) | Plan::Sent => StatusCode::BadInternalError,
            };
            out.extend_from_slice(&status.bits().to_le_bytes());
            out.extend_from_slice(self.form.bare);
        }
        write_diagnostics(&mut out, (0..self.plan.len()).map(|at| self.told.get(&at).map(String::as_str)));
        Progress::Done(Ok(out))
    }
}

/// Whether a server that answers a whole request with this has looked at none of its items (OPC 10000-4 §7.39.2): any other
/// fault may come when some of them are carried out. Nobody on the way makes these.
pub(super) fn proves_nothing_done(fault: StatusCode) -> bool {
    const BEFORE: [StatusCode; 6] = [
        StatusCode::BadNothingToDo,
        StatusCode::BadTooManyOperations,
        StatusCode::BadSessionIdInvalid,
        StatusCode::BadSessionNotActivated,
        StatusCode::BadServiceUnsupported,
        StatusCode::BadRequestHeaderInvalid,
    ];
    BEFORE.contains(&fault)
}

/// Nothing but a status.
pub(super) fn status_only(reader: &mut Reader<'_>) -> Outcome {
    Ok((StatusCode::from(reader.u32()?), Vec::new()))
}

/// For services without a check of their own.
pub(super) fn unchecked(_: &mut Desk<'_>, _: &Item, _: &[u8]) -> Result<(), No> {
    Ok(())
}

/// For services of which the guard answers nothing itself.
pub(super) fn never_own(_: &mut Desk<'_>, _: &mut Item, _: &[u8]) -> Option<Vec<u8>> {
    None
}
