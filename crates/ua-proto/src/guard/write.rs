//! Write (OPC 10000-4 §5.11.4): decided item by item and recorded; sent on when the record is kept, if the rights are
//! still there then.

use std::ops::Range;

use access_model::{Action, AuditKind, Reason, ScopeIndex};
use opcua_types::{AttributeId, NodeId, ObjectId, StatusCode};
use pep::Permit;

use super::batch::{Batch, batches};
use super::desk::{Decision, Desk, Progress, told};
use super::walk::{data_value, end, parts_of, results, span};
use crate::server::front::{Malformed, Reader, operations, write_header, write_len, write_no_diagnostics};

const IDS: (ObjectId, ObjectId) =
    (ObjectId::WriteRequest_Encoding_DefaultBinary, ObjectId::WriteResponse_Encoding_DefaultBinary);

/// A request under way.
pub(super) struct Asked {
    body: Vec<u8>,
    items: Vec<Item>,
    plan: Vec<Plan>,
    /// The items of each part that was sent.
    parts: Vec<Vec<usize>>,
    open: usize,
}

struct Item {
    node: NodeId,
    attribute: u32,
    node_bytes: Range<usize>,
    rest: Range<usize>,
    value: Range<usize>,
    /// Holds an ExtensionObject, whose length the server may see otherwise.
    structures: bool,
}

enum Plan {
    /// Answered.
    Result(StatusCode),
    /// Allowed and recorded.
    Write { scope: ScopeIndex, action: Action, permit: Option<Permit> },
    /// To be asked of a node that is not there.
    Hidden,
    /// Sent.
    Sent,
}

/// Reads and decides a request, and records what is allowed.
pub(super) fn start(desk: &mut Desk<'_>, body: Vec<u8>, handle: u32) -> Result<(Asked, Progress), StatusCode> {
    let items = parse(desk, &body)?;
    let mut records = Vec::new();
    let mut plan = Vec::with_capacity(items.len());
    for item in &items {
        let decided = decide(desk, item);
        if let Plan::Write { .. } = &decided {
            let value = body.get(item.value.clone()).unwrap_or_default();
            let text = format!("attribute {} becomes {}", item.attribute, shown(value));
            records.extend(desk.record_of(AuditKind::Write, item.node.to_string(), text));
        }
        plan.push(decided);
    }
    let mut asked = Asked { body, items, plan, parts: Vec::new(), open: 0 };
    let progress = if desk.keep(records) { Progress::Waits } else { asked.forward(desk, handle) };
    Ok((asked, progress))
}

fn parse(desk: &Desk<'_>, body: &[u8]) -> Result<Vec<Item>, StatusCode> {
    let mut reader = Reader::new(body);
    let at = |reader: &Reader<'_>| body.len().saturating_sub(reader.rest().len());
    let count = reader.array_len(11)?;
    operations(count, desk.mapping.limits.write)?;
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        let start = at(&reader);
        let node = reader.node_id()?;
        let behind = at(&reader);
        let attribute = reader.u32()?;
        reader.string()?;
        let value = at(&reader);
        let mut structures = false;
        span(&mut reader, |reader| data_value(reader, &mut structures))?;
        let end = at(&reader);
        items.push(Item {
            node,
            attribute,
            node_bytes: start..behind,
            rest: behind..end,
            value: value..end,
            structures,
        });
    }
    end(&reader)?;
    Ok(items)
}

/// What writing an attribute takes (facts section 8).
fn needed(attribute: u32) -> Action {
    match AttributeId::from_u32(attribute) {
        Ok(AttributeId::Value) => Action::Write,
        Ok(AttributeId::RolePermissions) => Action::WriteRolePermissions,
        Ok(AttributeId::Historizing) => Action::WriteHistorizing,
        _ => Action::WriteAttribute,
    }
}

fn decide(desk: &mut Desk<'_>, item: &Item) -> Plan {
    let scope = desk.scope(&item.node);
    let action = needed(item.attribute);
    match desk.decide(action, (&item.node, scope), AuditKind::Write, None) {
        Decision::Pass(permit) => match desk.audit_open(AuditKind::Write, &item.node) {
            Ok(()) => Plan::Write { scope, action, permit },
            Err(status) => Plan::Result(status),
        },
        Decision::Hidden if desk.config.hide_timing => Plan::Hidden,
        decision => Plan::Result(decision.status()),
    }
}

impl Asked {
    /// The record is kept, or none was needed: what is still allowed goes upstream.
    pub(super) fn forward(&mut self, desk: &mut Desk<'_>, handle: u32) -> Progress {
        let mut batch = Vec::new();
        for (at, (item, plan)) in self.items.iter().zip(&mut self.plan).enumerate() {
            let bytes = match plan {
                Plan::Write { scope, action, permit } => {
                    if !desk.rights(*scope).contains(action.needed()) {
                        let text = "the right ended before the write";
                        desk.deny(AuditKind::Write, Reason::GrantRevoked, (&item.node, *scope), text);
                        *plan = Plan::Result(StatusCode::BadUserAccessDenied);
                        continue;
                    }
                    let _accounted = permit.take().map(Permit::spend);
                    let node = self.body.get(item.node_bytes.clone()).unwrap_or_default();
                    let rest = self.body.get(item.rest.clone()).unwrap_or_default();
                    [desk.known_as(&item.node, node), rest].concat()
                }
                // No value: even a node that never exists is not written to.
                Plan::Hidden => {
                    let mut bytes = desk.never(&item.node);
                    bytes.extend_from_slice(&item.attribute.to_le_bytes());
                    bytes.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0]);
                    bytes
                }
                Plan::Result(_) | Plan::Sent => continue,
            };
            batch.push(Batch { item: at, bytes, alone: item.structures });
        }
        for (items, body) in batches(&batch) {
            let part = u32::try_from(self.parts.len()).unwrap_or(u32::MAX);
            let sent = desk.send(IDS, body, part);
            for at in &items {
                self.settle(
                    *at,
                    match sent {
                        Ok(()) => Plan::Sent,
                        Err(status) => Plan::Result(status),
                    },
                );
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
        if let Some(plan) = self.plan.get_mut(at) {
            *plan = match (&*plan, to) {
                (Plan::Hidden, Plan::Result(_)) => Plan::Result(StatusCode::BadNodeIdUnknown),
                (Plan::Hidden, _) => Plan::Hidden,
                (_, to) => to,
            };
        }
    }

    /// The record could not be written, or the session belongs to somebody else: nothing is carried out.
    pub(super) fn give_up(&mut self, desk: &mut Desk<'_>, status: StatusCode, handle: u32) -> Progress {
        for plan in &mut self.plan {
            match plan {
                Plan::Write { .. } => *plan = Plan::Result(status),
                Plan::Hidden => *plan = Plan::Result(StatusCode::BadNodeIdUnknown),
                Plan::Result(_) | Plan::Sent => {}
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
        let statuses = answer.map_err(told).and_then(|body| {
            statuses(&body, items.len()).map_err(|status| desk.misbehaved(status, "the answer to Write does not fit"))
        });
        for (nth, at) in items.iter().enumerate() {
            let status = match &statuses {
                Ok(statuses) => statuses.get(nth).copied().unwrap_or(StatusCode::BadUnknownResponse),
                Err(status) => *status,
            };
            let hidden = matches!(self.plan.get(*at), Some(Plan::Hidden));
            if status.is_bad()
                && !hidden
                && let Some(item) = self.items.get(*at)
            {
                desk.record_failed(AuditKind::Write, item.node.to_string(), status);
            }
            self.settle(*at, Plan::Result(status));
        }
        self.progress(desk, handle)
    }

    fn progress(&mut self, desk: &Desk<'_>, handle: u32) -> Progress {
        if self.open > 0 {
            return Progress::Waits;
        }
        let mut out = Vec::new();
        write_header(&mut out, IDS.1, desk.now, handle, StatusCode::Good);
        write_len(&mut out, self.plan.len());
        for plan in &self.plan {
            let status = match plan {
                Plan::Result(status) => *status,
                Plan::Hidden => StatusCode::BadNodeIdUnknown,
                Plan::Write { .. } | Plan::Sent => StatusCode::BadInternalError,
            };
            out.extend_from_slice(&status.bits().to_le_bytes());
        }
        write_no_diagnostics(&mut out);
        Progress::Done(Ok(out))
    }
}

/// Statuses of an answer, one for each item.
pub(super) fn statuses(body: &[u8], expected: usize) -> Result<Vec<StatusCode>, StatusCode> {
    let spans = results(body, expected, |reader| reader.u32().map(drop))?;
    let status = |span: &&[u8]| Reader::new(span).u32().map(StatusCode::from);
    Ok(spans.iter().map(status).collect::<Result<_, Malformed>>()?)
}

/// A value in a record: numbers and truth values as they are, everything else by its kind, for texts may hold secrets.
fn shown(value: &[u8]) -> String {
    let Some((_, inner, _)) = parts_of(value) else { return "nothing".to_owned() };
    match inner {
        [1, yes] => (*yes != 0).to_string(),
        [2, byte] => i8::from_le_bytes([*byte]).to_string(),
        [3, byte] => byte.to_string(),
        [4, a, b] => i16::from_le_bytes([*a, *b]).to_string(),
        [5, a, b] => u16::from_le_bytes([*a, *b]).to_string(),
        [6, a, b, c, d] => i32::from_le_bytes([*a, *b, *c, *d]).to_string(),
        [7, a, b, c, d] => u32::from_le_bytes([*a, *b, *c, *d]).to_string(),
        [10, a, b, c, d] => f32::from_le_bytes([*a, *b, *c, *d]).to_string(),
        [kind @ (8 | 9 | 11), rest @ ..] => match (kind, rest.first_chunk()) {
            (8, Some(bytes)) => i64::from_le_bytes(*bytes).to_string(),
            (9, Some(bytes)) => u64::from_le_bytes(*bytes).to_string(),
            (_, Some(bytes)) => f64::from_le_bytes(*bytes).to_string(),
            (_, None) => "a value".to_owned(),
        },
        [0] => "nothing".to_owned(),
        [kind, ..] if kind & 0x80 != 0 => "an array".to_owned(),
        _ => "a value".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::desk::encoded;
    use opcua_types::{DataValue, Variant};

    #[test]
    fn texts_stay_out_of_records() {
        for (value, expected) in [
            (Variant::from(2.5_f64), "2.5"),
            (Variant::from(-3_i16), "-3"),
            (Variant::from(7_u64), "7"),
            (Variant::from(true), "true"),
            (Variant::from("secret"), "a value"),
            (Variant::from(vec![1_u8, 2]), "an array"),
            (Variant::Empty, "nothing"),
        ] {
            assert_eq!(shown(&encoded(&DataValue::value_only(value))), expected);
        }
    }
}
