//! Read (OPC 10000-4 §5.11.2): allowed items go upstream as the bytes they came in, results come back as the bytes the
//! server gave, in the order of the request.

use access_model::{Action, AuditKind, Now, Rights, ScopeIndex};
use opcua_types::{AttributeId, NodeId, ObjectId, StatusCode, Variant};

use super::attributes::adapt;
use super::batch::items;
use super::desk::{Desk, Progress, Way, encoded, told};
use super::own::number_of;
use super::walk::{data_value, end, results, status_of};
use crate::server::front::write_no_diagnostics;
use crate::server::front::{Counted, Malformed, Reader, Stamps, needed, ticks, write_header, write_len};

const IDS: (ObjectId, ObjectId) =
    (ObjectId::ReadRequest_Encoding_DefaultBinary, ObjectId::ReadResponse_Encoding_DefaultBinary);

/// A request under way.
pub(super) struct Asked {
    stamps: Stamps,
    plan: Vec<Plan>,
    forwarded: usize,
}

/// What answers one item.
enum Plan {
    Refused(StatusCode),
    /// The guard's own value.
    Own(Variant),
    /// The next result of the upstream server, about a node that is not there.
    Hidden,
    /// The next result.
    Ask {
        scope: ScopeIndex,
        node: NodeId,
        action: Action,
        attribute: Option<AttributeId>,
    },
}

/// A ReadValueId.
pub(super) struct Item<'a> {
    pub(super) node: NodeId,
    pub(super) node_bytes: &'a [u8],
    pub(super) attribute: u32,
    /// All behind the NodeId.
    pub(super) rest: &'a [u8],
}

impl<'a> Item<'a> {
    const LEAST: usize = 16;

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let before = reader.rest();
        let node = reader.node_id()?;
        let node_bytes = taken(before, reader)?;
        let before = reader.rest();
        let attribute = reader.u32()?;
        reader.string()?;
        reader.u16()?;
        reader.string()?;
        Ok(Self { node, node_bytes, attribute, rest: taken(before, reader)? })
    }
}

/// The nodes of a request.
pub(super) fn nodes(body: &[u8]) -> Vec<NodeId> {
    let mut reader = Reader::new(body);
    let read = reader.bytes(12).map_err(Malformed::status).and_then(|_| items(&mut reader, Item::LEAST, 0, Item::read));
    read.unwrap_or_default().into_iter().map(|item| item.node).collect()
}

/// What was read since `before`.
pub(super) fn taken<'a>(before: &'a [u8], reader: &Reader<'a>) -> Result<&'a [u8], Malformed> {
    before.get(..before.len().saturating_sub(reader.rest().len())).ok_or(Malformed::Truncated)
}

/// Decides a request and sends on what is allowed.
pub(super) fn start(desk: &mut Desk<'_>, body: &[u8], handle: u32) -> Result<(Asked, Progress), StatusCode> {
    let mut reader = Reader::new(body);
    let max_age = reader.f64()?;
    if max_age.is_nan() || max_age < 0.0 {
        return Err(StatusCode::BadMaxAgeInvalid);
    }
    let stamps = Stamps::from_wire(reader.i32()?)?;
    let head = taken(body, &reader)?;
    let items = items(&mut reader, Item::LEAST, desk.mapping.limits.read, Item::read)?;
    end(&reader)?;

    let mut asked = Asked { stamps, plan: Vec::with_capacity(items.len()), forwarded: 0 };
    let mut spans = Vec::with_capacity(body.len());
    for item in &items {
        let plan = decide(desk, item, &mut spans);
        asked.forwarded += usize::from(matches!(plan, Plan::Hidden | Plan::Ask { .. }));
        asked.plan.push(plan);
    }
    if asked.forwarded == 0 {
        let progress = Progress::Done(Ok(asked.respond(desk, &[], handle)));
        return Ok((asked, progress));
    }
    let mut out = Vec::with_capacity(head.len() + 4 + spans.len());
    out.extend_from_slice(head);
    write_len(&mut out, asked.forwarded);
    out.extend_from_slice(&spans);
    desk.send(IDS, out, 0)?;
    Ok((asked, Progress::Waits))
}

fn decide(desk: &mut Desk<'_>, item: &Item<'_>, spans: &mut Vec<u8>) -> Plan {
    let attribute = AttributeId::from_u32(item.attribute).ok();
    let action = attribute.map_or(Action::Browse, needed);
    let scope = desk.scope(&item.node);
    // Attributes that say what a node is are counted as browsing, as a resource server counts them.
    let counted = if action == Action::Browse { Counted::Browse } else { Counted::Read };
    match desk.way(action, (&item.node, scope), AuditKind::Read, Some(counted)) {
        Way::Real => {}
        Way::Never(node) => {
            spans.extend_from_slice(&node);
            spans.extend_from_slice(item.rest);
            return Plan::Hidden;
        }
        Way::Refused(status) => return Plan::Refused(status),
    }
    if attribute == Some(AttributeId::Value)
        && let Some(value) = number_of(&item.node).and_then(|number| desk.face().value(number))
    {
        return Plan::Own(value);
    }
    spans.extend_from_slice(desk.known_as(&item.node, item.node_bytes));
    spans.extend_from_slice(item.rest);
    Plan::Ask { scope, node: item.node.clone(), action, attribute }
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
        match results(&body, self.forwarded, |reader| data_value(reader, &mut false)) {
            Ok(values) => Progress::Done(Ok(self.respond(desk, &values, handle))),
            Err(status) => Progress::Done(Err(desk.misbehaved(status, "the answer to Read does not fit the request"))),
        }
    }

    fn respond(&mut self, desk: &mut Desk<'_>, values: &[&[u8]], handle: u32) -> Vec<u8> {
        let (now, stamps) = (desk.now, self.stamps);
        let mut out = Vec::with_capacity(64 + values.iter().map(|value| value.len()).sum::<usize>());
        write_header(&mut out, IDS.1, now, handle, StatusCode::Good);
        write_len(&mut out, self.plan.len());
        let mut values = values.iter();
        for plan in &self.plan {
            match plan {
                Plan::Refused(status) => write_status(&mut out, *status, stamps, now),
                Plan::Own(value) => out.extend_from_slice(&own_data_value(value, stamps, now)),
                Plan::Hidden => match values.next() {
                    Some(value) if status_of(value) == StatusCode::BadNodeIdUnknown => out.extend_from_slice(value),
                    _ => write_status(&mut out, StatusCode::BadNodeIdUnknown, stamps, now),
                },
                Plan::Ask { scope, node, action, attribute } => {
                    let Some(value) = values.next() else { continue };
                    let rights = desk.rights(*scope);
                    if !rights.contains(action.needed()) {
                        write_status(&mut out, refusal(rights), stamps, now);
                        continue;
                    }
                    match adapt(desk.face(), node, *attribute, rights, value) {
                        Ok(value) => out.extend_from_slice(&value),
                        Err(status) => write_status(&mut out, status, stamps, now),
                    }
                }
            }
        }
        write_no_diagnostics(&mut out);
        out
    }
}

/// What an item is told whose right ended while its answer was on the way.
pub(super) fn refusal(rights: Rights) -> StatusCode {
    if rights.contains(Rights::BROWSE) || rights.is_empty() {
        StatusCode::BadUserAccessDenied
    } else {
        StatusCode::BadNodeIdUnknown
    }
}

/// A DataValue that is a status and nothing else.
pub(super) fn write_status(out: &mut Vec<u8>, status: StatusCode, stamps: Stamps, now: Now) {
    out.push(0x02 | if stamps.server { 0x08 } else { 0 });
    out.extend_from_slice(&status.bits().to_le_bytes());
    if stamps.server {
        out.extend_from_slice(&ticks(now.unix).to_le_bytes());
    }
}

/// A DataValue of the guard's own.
pub(super) fn own_data_value(value: &Variant, stamps: Stamps, now: Now) -> Vec<u8> {
    let (source, server) = (if stamps.source { 0x04 } else { 0 }, if stamps.server { 0x08 } else { 0 });
    let mut out = vec![0x01 | source | server];
    out.extend_from_slice(&encoded(value));
    for _stamp in 0..u8::from(stamps.source) + u8::from(stamps.server) {
        out.extend_from_slice(&ticks(now.unix).to_le_bytes());
    }
    out
}
