//! HistoryUpdate (OPC 10000-4 §5.11.5, OPC 10000-11 §6.9) of values and events, in two steps as Write: each item is decided and recorded, and carried out when the record is kept, if the right is still there then.

use access_model::{Action, AuditKind, AuditRecord, Now, Outcome, Reason, Rights};
use opcua_types::{HistoryUpdateResponse, HistoryUpdateResult, NodeId, StatusCode};
use pep::Permit;

use super::history_put;
use super::write::{audit_open, keep, shown};
use super::{bounds, operations};
use crate::history::{Author, Change, Content, Deed, Details, EventLog, Perform, Puts, Update};
use crate::interlock::Unapproved;
use crate::server::audit::{AuditId, event};
use crate::server::codec::{Codec, response_header, write_message};
use crate::server::desk::Desk;
use crate::server::occasion::{Told, Updating};
use crate::server::reader::Reader;
use crate::space::{AccessLevel, NodeRef, date_time};
use crate::subscription::ItemSource as _;

/// One item of a request, decided.
pub(crate) enum Planned {
    /// Nothing is changed.
    Refused(StatusCode),
    /// Allowed and recorded.
    Change(Box<PlannedChange>),
}

/// An allowed change.
pub(crate) struct PlannedChange {
    node: NodeRef,
    action: Action,
    change: Change,
    permit: Option<Permit>,
}

/// What a request comes to.
pub(crate) struct Plan {
    pub(crate) items: Vec<Planned>,
    /// The record to wait for.
    pub(crate) audit: Option<AuditId>,
}

/// What an item asks for. The node is decided about also when the rest is not possible.
struct Item {
    node: Option<NodeId>,
    action: Action,
    change: Result<Change, StatusCode>,
}

/// The kind of an item and the bytes that it came in.
type Sent<'a> = (u32, &'a [u8]);

/// Decides each item and records what is allowed. The whole body is read before the first item is decided.
pub(crate) fn plan(desk: &mut Desk<'_>, mut reader: Reader<'_>) -> Result<Plan, StatusCode> {
    let count = reader.array_len(3)?;
    operations(count, desk.config.limits.operations.max_nodes_per_history_update_data)?;
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        let (kind, body) = reader.extension_object()?;
        items.push((item(desk.codec, kind, body)?, (kind.unwrap_or_default(), body)));
    }
    let mut records = Vec::new();
    let decide = |(item, sent)| match decide(desk, item, sent, &mut records) {
        Ok(change) => Planned::Change(Box::new(change)),
        Err(status) => Planned::Refused(status),
    };
    let items = items.into_iter().map(decide).collect();
    Ok(Plan { items, audit: keep(desk, records) })
}

/// One of the kinds of HistoryUpdateDetails, read to its end, for its length may lie.
fn item(codec: &Codec, kind: Option<u32>, body: &[u8]) -> Result<Item, StatusCode> {
    let unsupported = StatusCode::BadHistoryOperationUnsupported;
    let mut reader = Reader::new(body);
    let details = match kind.and_then(Details::of) {
        Some(details) => details,
        None => return Ok(Item { node: None, action: Action::UpdateHistory, change: Err(unsupported) }),
    };
    let node = Some(reader.node_id()?);
    if let Some(status) = details.refused(reader.rest()) {
        return Ok(Item { node: None, action: Action::UpdateHistory, change: Err(status) });
    }
    let Update { rule, content } = Update::read(details, &mut reader, (Reader::data_value, Reader::variant))?;
    let perform = match rule.deed {
        Deed::Insert => Some(Perform::Insert),
        Deed::Replace => Some(Perform::Replace),
        Deed::Update => Some(Perform::Update),
        // Only structured history knows values that can be removed.
        Deed::Remove | Deed::Delete => None,
    };
    let change = match content {
        Content::Values(values) => {
            let values = values.into_iter().map(|value| codec.decode(value)).collect::<Result<_, _>>()?;
            perform.map(|perform| Change::Write(perform, values)).ok_or(unsupported)
        }
        Content::Span { modified: false, start, end } => Ok(Change::DeleteRange { start, end }),
        Content::Times(times) => Ok(Change::DeleteAt(times)),
        Content::Events(ids) => Ok(Change::DeleteEvents(ids.into_iter().map(<[u8]>::to_vec).collect())),
        Content::Put(put) => perform
            .ok_or(unsupported)
            .and_then(|perform| Puts::of(&put, perform, codec).map(|puts| Change::PutEvents(perform, puts))),
        // What clients changed stays: it is what tells of them.
        Content::Span { modified: true, .. } => Err(unsupported),
    };
    if reader.rest().is_empty() {
        Ok(Item { node, action: rule.action, change })
    } else {
        Err(StatusCode::BadDecodingError)
    }
}

fn decide(
    desk: &mut Desk<'_>,
    item: Item,
    sent: Sent<'_>,
    records: &mut Vec<(AuditRecord, Told)>,
) -> Result<PlannedChange, StatusCode> {
    let Item { node, action, change } = item;
    let node = match node {
        Some(id) => desk.space.find(&id).ok_or(StatusCode::BadNodeIdUnknown)?,
        None => return Err(change.err().unwrap_or(StatusCode::BadHistoryOperationUnsupported)),
    };
    let permit = desk
        .permit(action, node)
        .map_err(|denial| desk.denied_and_told(&denial, node, AuditKind::HistoryChanged, || at(node)))?;
    let change = change?;
    let known = match &change {
        Change::DeleteEvents(_) | Change::PutEvents(..) => {
            desk.space.event_log(node).is_some_and(EventLog::is_writable)
        }
        _ => desk.space.history(node).is_some() && desk.space.access_level(node).contains(AccessLevel::HISTORY_WRITE),
    };
    if !known {
        return Err(StatusCode::BadHistoryOperationUnsupported);
    }
    if matches!(&change, Change::Write(_, values) if values.is_empty())
        || matches!(&change, Change::DeleteAt(times) if times.is_empty())
        || matches!(&change, Change::DeleteEvents(ids) if ids.is_empty())
        || matches!(&change, Change::PutEvents(_, puts) if puts.events.is_empty())
    {
        return Err(StatusCode::BadNothingToDo);
    }
    ranged(desk, node, &change)?;
    audit_open(desk, AuditKind::HistoryChanged, node)?;
    // Last of all: a consent is used up by asking for it.
    let note = bounds::consented_history(desk, node, (&change, sent)).map_err(|Unapproved { detail, no }| {
        let scope = desk.space.scope(node);
        desk.tell_denial(AuditKind::HistoryChanged, Unapproved::REASON, scope, node, &detail, || at(node));
        no.status
    })?;
    let (record, told) = record(desk, node, &change);
    records.push((AuditRecord { detail: record.detail + &note, ..record }, told));
    Ok(PlannedChange { node, action, change, permit })
}

/// Holds values that become history to the range of their node and of its scope: the past is read by those who decide
/// about the present. Step and rate are of changes of the present value, which this is not.
fn ranged(desk: &mut Desk<'_>, node: NodeRef, change: &Change) -> Result<(), StatusCode> {
    let Change::Write(_, values) = change else { return Ok(()) };
    for value in values.iter().map(|value| value.value.as_ref()) {
        let of_node = bounds::node_range(desk, node, value);
        if let Err(broken) = of_node.and_then(|()| bounds::ranged(desk, node, value)) {
            bounds::record(desk, AuditKind::HistoryChanged, node, (&broken, &shown(value)), || at(node));
            return Err(broken.status());
        }
    }
    Ok(())
}

/// What is told of a change that was not made: no value, for what was denied is nobody's business.
pub(super) fn at(node: NodeRef) -> Told {
    Told::Updated(Box::new(Updating { node: Some(node), ..Updating::default() }))
}

fn record(desk: &Desk<'_>, node: NodeRef, change: &Change) -> (AuditRecord, Told) {
    let object = desk.space.id(node).to_string();
    let record = event(desk.now, AuditKind::HistoryChanged, &desk.session.actor, object, Outcome::Allowed);
    let count = |many: usize| if many == 1 { "1 value is".to_owned() } else { format!("{many} values are") };
    let events = |many: usize| if many == 1 { "1 event is".to_owned() } else { format!("{many} events are") };
    let put = |perform: &Perform| match perform {
        Perform::Insert => "inserted",
        Perform::Replace => "replaced",
        Perform::Update => "inserted or replaced",
    };
    let detail = match change {
        Change::Write(perform, values) => format!("{} {}", count(values.len()), put(perform)),
        Change::DeleteAt(times) => format!("{} deleted", count(times.len())),
        Change::PutEvents(perform, puts) => format!("{} {}", events(puts.events.len()), put(perform)),
        Change::DeleteEvents(ids) => format!("{} deleted", events(ids.len())),
        Change::DeleteRange { .. } => {
            let touched = desk.space.history(node).map_or(0, |series| series.touched(change).len());
            format!("{} deleted", count(touched))
        }
    };
    let epoch = desk.session.login.as_ref().and_then(|login| login.epoch);
    let record = AuditRecord { detail, epoch, ..record };
    if !desk.audit.heard() {
        return (record, Told::Nothing);
    }
    let old = desk.space.history(node).map(|series| series.touched(change)).unwrap_or_default();
    let change = match change {
        // Nothing of the events themselves is told.
        Change::PutEvents(perform, _) => Change::PutEvents(*perform, Puts::default()),
        change => change.clone(),
    };
    (record, Told::Updated(Box::new(Updating { node: Some(node), change: Some(change), old })))
}

/// How many events a plan may add.
pub(crate) fn new_events(items: &[Planned]) -> usize {
    let new = |item: &Planned| match item {
        Planned::Change(planned) => match &planned.change {
            Change::PutEvents(Perform::Insert | Perform::Update, puts) => puts.events.len(),
            _ => 0,
        },
        Planned::Refused(_) => 0,
    };
    items.iter().map(new).sum()
}

/// Carries out a plan. An item whose right is gone by now is refused. `ids` are for events that are added.
pub(crate) fn apply(
    desk: &mut Desk<'_>,
    items: Vec<Planned>,
    ids: &mut dyn Iterator<Item = [u8; 16]>,
) -> Vec<HistoryUpdateResult> {
    let carry_out = |item| match item {
        Planned::Refused(status) => bare(status),
        Planned::Change(change) => apply_one(desk, *change, ids),
    };
    items.into_iter().map(carry_out).collect()
}

fn apply_one(
    desk: &mut Desk<'_>,
    planned: PlannedChange,
    ids: &mut dyn Iterator<Item = [u8; 16]>,
) -> HistoryUpdateResult {
    let PlannedChange { node, action, change, permit } = planned;
    if permit.is_some() && !desk.rights(node).contains(action.needed()) {
        let scope = desk.space.scope(node);
        let text = "the right ended before the change";
        desk.tell_denial(AuditKind::HistoryChanged, Reason::GrantRevoked, scope, node, text, || at(node));
        return bare(StatusCode::BadUserAccessDenied);
    }
    let _accounted = permit.map(Permit::spend);
    let (status, results) = match change {
        Change::DeleteEvents(ids) => delete_events(desk, node, &ids),
        Change::PutEvents(perform, puts) => {
            (StatusCode::Good, history_put::put(desk, node, (perform, action), puts, ids))
        }
        change => {
            let author = Author { name: &desk.session.actor.name, at: date_time(desk.now.unix) };
            desk.space.change_history(node, change, author)
        }
    };
    if status.is_bad() || results.iter().any(StatusCode::is_bad) {
        let failed = results.iter().filter(|status| status.is_bad()).count();
        let code =
            if status.is_bad() { status } else { results.iter().find(|one| one.is_bad()).copied().unwrap_or(status) };
        let object = desk.space.id(node).to_string();
        let record = AuditRecord {
            detail: format!("{failed} of {} entries were not changed", results.len()),
            ..event(desk.now, AuditKind::HistoryChanged, &desk.session.actor, object, Outcome::Failed(code.bits()))
        };
        desk.audit.tell(record, || at(node));
    }
    HistoryUpdateResult { status_code: status, operation_results: Some(results), diagnostic_infos: None }
}

/// Deletes events of a notifier. One that the session may not receive is not there for it; of the others the source takes
/// the right to delete as well, for what happened there is its history.
fn delete_events(desk: &mut Desk<'_>, node: NodeRef, ids: &[Vec<u8>]) -> (StatusCode, Vec<StatusCode>) {
    let results: Vec<StatusCode> = ids.iter().map(|id| delete_event(desk, node, id)).collect();
    let nothing = results.iter().all(|status| *status == StatusCode::BadEventIdUnknown);
    (if nothing { StatusCode::BadNoData } else { StatusCode::Good }, results)
}

fn delete_event(desk: &mut Desk<'_>, node: NodeRef, id: &[u8]) -> StatusCode {
    let about = desk.space.event_log(node).and_then(|log| log.find(id)).map(|event| event.about());
    let Some(about) = about.filter(|about| desk.may_receive(node, *about)) else {
        return StatusCode::BadEventIdUnknown;
    };
    if !desk.rights(about.source).contains(Rights::DELETE_HISTORY) {
        let (scope, text) = (desk.space.scope(about.source), "the source of an event takes the right as well");
        let told = || at(about.source);
        desk.tell_denial(AuditKind::HistoryChanged, Reason::RightMissing, scope, about.source, text, told);
        return StatusCode::BadUserAccessDenied;
    }
    let author = Author { name: &desk.session.actor.name, at: date_time(desk.now.unix) };
    desk.space.delete_event(node, id, author);
    StatusCode::Good
}

/// The result of each item when none was carried out.
pub(crate) fn refuse(items: Vec<Planned>, status: StatusCode) -> Vec<HistoryUpdateResult> {
    let refused = |item| match item {
        Planned::Refused(status) => bare(status),
        Planned::Change(_) => bare(status),
    };
    items.into_iter().map(refused).collect()
}

fn bare(status_code: StatusCode) -> HistoryUpdateResult {
    HistoryUpdateResult { status_code, operation_results: None, diagnostic_infos: None }
}

/// Writes the response.
pub(crate) fn respond(
    codec: &Codec,
    results: Vec<HistoryUpdateResult>,
    now: Now,
    handle: u32,
    out: &mut Vec<u8>,
) -> Result<(), StatusCode> {
    let response_header = response_header(now, handle);
    let response = HistoryUpdateResponse { response_header, results: Some(results), diagnostic_infos: None };
    write_message(out, &response, &codec.context(0))
}
