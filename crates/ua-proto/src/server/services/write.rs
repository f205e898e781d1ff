//! Write (OPC 10000-4 §5.11.4) in two steps: a request is decided item by item and recorded, and carried out when the
//! record is kept. Rights are looked at again in between.

use access_model::{Action, AuditKind, AuditRecord, Now, Outcome, Reason, Rights};
use opcua_types::{AttributeId, DataValue, NodeId, NumericRange, ObjectId, StatusCode, Variant};
use pep::Permit;

use super::{bounds, operations};
use crate::interlock::{Broken, No, Unapproved};
use crate::server::audit::{AuditId, event};
use crate::server::codec::{write_diagnostics, write_header, write_len};
use crate::server::config::AuditFailMode;
use crate::server::desk::Desk;
use crate::server::occasion::{Calling, Told, Updating, Writing};
use crate::server::reader::{Malformed, Reader};
use crate::server::values::IndexRange;
use crate::space::{AccessLevel, NodeRef, read_range};

/// One item of a request, decided.
pub(crate) enum Planned {
    /// Nothing is written.
    Refused(No),
    /// Allowed and recorded.
    Write(Box<PlannedWrite>),
}

/// An allowed write.
pub(crate) struct PlannedWrite {
    node: NodeRef,
    range: NumericRange,
    value: DataValue,
    permit: Option<Permit>,
}

/// What a request comes to.
pub(crate) struct Plan {
    pub(crate) items: Vec<Planned>,
    /// The record to wait for.
    pub(crate) audit: Option<AuditId>,
}

/// A value that was written.
pub(crate) struct Written {
    pub(crate) node: NodeRef,
    pub(crate) value: DataValue,
}

struct Item<'a> {
    node: NodeId,
    attribute: u32,
    range: &'a str,
    value: &'a [u8],
}

impl<'a> Item<'a> {
    const LEAST: usize = 11;

    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let node = reader.node_id()?;
        Ok(Self { node, attribute: reader.u32()?, range: reader.string()?, value: reader.data_value()? })
    }

    /// The bytes of the value, without status and times; nothing if there is none.
    fn written(&self) -> &'a [u8] {
        let mut reader = Reader::new(self.value);
        let written = reader.u8().ok().filter(|mask| mask & 0x01 != 0).and_then(|_| reader.variant().ok());
        written.unwrap_or_default()
    }
}

/// Decides each item and records what is allowed. The whole body is read before the first item is decided.
/// `explain`: the client wants to hear why not.
pub(crate) fn plan(desk: &mut Desk<'_>, mut reader: Reader<'_>, explain: bool) -> Result<Plan, StatusCode> {
    let count = reader.array_len(Item::LEAST)?;
    operations(count, desk.config.limits.operations.max_nodes_per_write)?;
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        let item = Item::read(&mut reader)?;
        let value: DataValue = desk.codec.decode(item.value)?;
        items.push((item, value));
    }
    let mut records = Vec::new();
    let decide = |(item, value)| match decide(desk, &item, value, &mut records) {
        Ok(write) => Planned::Write(Box::new(write)),
        Err(no) => Planned::Refused(No { told: no.told.filter(|_| explain), ..no }),
    };
    let items = items.into_iter().map(decide).collect();
    Ok(Plan { items, audit: keep(desk, records) })
}

/// Queues the records; where the server is so configured, the last one asks for an acknowledgement.
pub(crate) fn keep(desk: &mut Desk<'_>, records: Vec<(AuditRecord, Told)>) -> Option<AuditId> {
    if desk.audit.config().acknowledge {
        return desk.audit.tell_acknowledged(records);
    }
    for (record, told) in records {
        desk.audit.tell(record, || told);
    }
    None
}

/// Refuses what changes the plant while the ledger cannot be written. The refusal is itself sent with a request for an
/// acknowledgement: that is how the server learns that the ledger is back.
pub(crate) fn audit_open(desk: &mut Desk<'_>, kind: AuditKind, node: NodeRef) -> Result<(), StatusCode> {
    if desk.audit.available() || desk.audit.config().unavailable == AuditFailMode::Open {
        return Ok(());
    }
    let outcome = Outcome::Denied(Reason::AuditUnavailable);
    let record = event(desk.now, kind, &desk.session.actor, desk.space.id(node).to_string(), outcome);
    let told = if desk.audit.heard() { told_of_request_at(kind, node) } else { Told::Nothing };
    desk.audit.tell_acknowledged(vec![(record, told)]);
    Err(StatusCode::BadResourceUnavailable)
}

fn told_of_request_at(kind: AuditKind, node: NodeRef) -> Told {
    match kind {
        AuditKind::Call => Told::Called(Box::new(Calling { object: Some(node), ..Calling::default() })),
        AuditKind::HistoryChanged => Told::Updated(Box::new(Updating { node: Some(node), ..Updating::default() })),
        _ => written_at(node, AttributeId::Value as u32, ""),
    }
}

/// What is told of a write that changed nothing: no value, for what was denied is nobody's business.
fn written_at(node: NodeRef, attribute: u32, range: &str) -> Told {
    Told::Written(Box::new(Writing { node: Some(node), attribute, range: range.to_owned(), ..Writing::default() }))
}

fn decide(
    desk: &mut Desk<'_>,
    item: &Item<'_>,
    value: DataValue,
    records: &mut Vec<(AuditRecord, Told)>,
) -> Result<PlannedWrite, No> {
    let node = desk.space.find(&item.node).ok_or(StatusCode::BadNodeIdUnknown)?;
    let attribute = AttributeId::from_u32(item.attribute).map_err(|_| StatusCode::BadAttributeIdInvalid);
    let action = attribute.as_ref().map_or(Action::WriteAttribute, |known| needed(*known));
    let permit = desk.permit(action, node).map_err(|denial| {
        desk.denied_and_told(&denial, node, AuditKind::Write, || written_at(node, item.attribute, item.range))
    })?;
    let attribute = attribute?;
    if attribute != AttributeId::Value {
        desk.space.attribute(node, attribute)?;
        return Err(StatusCode::BadNotWritable.into());
    }
    let level = desk.space.access_level(node);
    if !level.contains(AccessLevel::CURRENT_WRITE) {
        return Err(StatusCode::BadNotWritable.into());
    }
    if value.status().bits() != 0 && !level.contains(AccessLevel::STATUS_WRITE) {
        return Err(StatusCode::BadWriteNotSupported.into());
    }
    check_range(desk, node, item, &value)?;
    let ranged = bounds::ranged(desk, node, value.value.as_ref());
    ranged.map_err(|broken| broke(desk, node, item, (&broken, value.value.as_ref())))?;
    let range = parse_range(item.range)?;
    check_fit(desk, node, &range, &value)?;
    let changed = bounds::changed(desk, node, (value.value.as_ref(), &range), false);
    changed.map_err(|broken| broke(desk, node, item, (&broken, value.value.as_ref())))?;
    audit_open(desk, AuditKind::Write, node)?;
    // Last of all: a consent is used up by asking for it.
    let note = bounds::consented_write(desk, node, (item.attribute, item.range), (&value, item.written()))
        .map_err(|unapproved| unapproved_at(desk, node, item, unapproved))?;
    records.push(record(desk, node, item, (&range, &note), &value));
    Ok(PlannedWrite { node, range, value, permit })
}

/// What writing an attribute takes (facts section 8).
fn needed(attribute: AttributeId) -> Action {
    match attribute {
        AttributeId::Value => Action::Write,
        AttributeId::RolePermissions => Action::WriteRolePermissions,
        AttributeId::Historizing => Action::WriteHistorizing,
        _ => Action::WriteAttribute,
    }
}

/// Keeps written numbers inside the range that the server was told for the node, whoever writes. Not a number is outside.
fn check_range(desk: &mut Desk<'_>, node: NodeRef, item: &Item<'_>, value: &DataValue) -> Result<(), No> {
    let Some((_, low, high)) = desk.config.write_ranges.iter().find(|(ranged, ..)| *ranged == node) else {
        return Ok(());
    };
    let inside = |value: &Variant| value.as_f64().is_some_and(|number| *low <= number && number <= *high);
    let fits = match &value.value {
        Some(Variant::Array(array)) => array.values.iter().all(inside),
        Some(value) => inside(value),
        None => false,
    };
    if fits {
        return Ok(());
    }
    let scope = desk.space.scope(node);
    let detail = format!("{} is outside {low} to {high}", shown(value.value.as_ref()));
    let told = || written_at(node, item.attribute, item.range);
    desk.tell_denial(AuditKind::Write, Reason::ValueOutOfRange, scope, node, &detail, told);
    let bound = format!("only {low} to {high} is allowed");
    Err(No { status: StatusCode::BadOutOfRange, told: Some(bound) })
}

/// Records that a bound did not hold, and says what the item is told.
fn broke(desk: &mut Desk<'_>, node: NodeRef, item: &Item<'_>, (broken, value): (&Broken, Option<&Variant>)) -> No {
    let told = || written_at(node, item.attribute, item.range);
    bounds::record(desk, AuditKind::Write, node, (broken, &shown(value)), told);
    No { status: broken.status(), told: Some(broken.bound.clone()) }
}

/// Records that a second person must approve, and says what the item is told.
fn unapproved_at(desk: &mut Desk<'_>, node: NodeRef, item: &Item<'_>, Unapproved { detail, no }: Unapproved) -> No {
    let (scope, told) = (desk.space.scope(node), || written_at(node, item.attribute, item.range));
    desk.tell_denial(AuditKind::Write, Unapproved::REASON, scope, node, &detail, told);
    no
}

fn parse_range(text: &str) -> Result<NumericRange, StatusCode> {
    IndexRange::parse(text)?;
    text.parse().map_err(|_| StatusCode::BadIndexRangeInvalid)
}

/// Looks at the type before anything is recorded, so that a record says "allowed" only of what can be written.
fn check_fit(desk: &Desk<'_>, node: NodeRef, range: &NumericRange, value: &DataValue) -> Result<(), StatusCode> {
    let (Some(data_type), Some(new)) = (desk.space.data_type(node), &value.value) else {
        return Ok(());
    };
    let whole = !range.has_range();
    if whole && !desk.space.value_fits(new, data_type, desk.space.value_rank(node)) {
        return Err(StatusCode::BadTypeMismatch);
    }
    Ok(())
}

fn record(
    desk: &Desk<'_>,
    node: NodeRef,
    item: &Item<'_>,
    (range, note): (&NumericRange, &str),
    value: &DataValue,
) -> (AuditRecord, Told) {
    let old = desk.space.value(node, desk.now.unix);
    let record =
        event(desk.now, AuditKind::Write, &desk.session.actor, desk.space.id(node).to_string(), Outcome::Allowed);
    let record = AuditRecord {
        detail: format!("{} instead of {}{note}", shown(value.value.as_ref()), shown(old.value.as_ref())),
        epoch: desk.session.login.as_ref().and_then(|login| login.epoch),
        ..record
    };
    if !desk.audit.heard() {
        return (record, Told::Nothing);
    }
    let whole = old.value.unwrap_or_default();
    let told = Writing {
        node: Some(node),
        attribute: item.attribute,
        range: item.range.to_owned(),
        old: if range.has_range() { read_range(&whole, range).unwrap_or_default() } else { whole },
        new: value.value.clone().unwrap_or_default(),
        ..Writing::default()
    };
    (record, Told::Written(Box::new(told)))
}

/// A value in a record: numbers and truth values as they are, everything else by its kind, for texts may hold secrets.
pub(super) fn shown(value: Option<&Variant>) -> String {
    match value {
        Some(Variant::Boolean(value)) => value.to_string(),
        Some(value) if value.is_numeric() => value.to_string(),
        Some(Variant::Array(array)) => format!("an array of {}", array.values.len()),
        Some(Variant::Empty) | None => "nothing".to_owned(),
        Some(_) => "a value".to_owned(),
    }
}

/// Carries out a plan. An item whose right is gone by now is refused.
pub(crate) fn apply(desk: &mut Desk<'_>, items: Vec<Planned>, written: &mut Vec<Written>) -> Vec<No> {
    let carry_out = |item| match item {
        Planned::Refused(no) => no,
        Planned::Write(write) => apply_one(desk, *write, written).into(),
    };
    items.into_iter().map(carry_out).collect()
}

fn apply_one(desk: &mut Desk<'_>, write: PlannedWrite, written: &mut Vec<Written>) -> StatusCode {
    let node = write.node;
    if write.permit.is_some() && !desk.rights(node).contains(Rights::WRITE) {
        let scope = desk.space.scope(node);
        let told = || written_at(node, AttributeId::Value as u32, "");
        let text = "the right ended before the write";
        desk.tell_denial(AuditKind::Write, Reason::GrantRevoked, scope, node, text, told);
        return StatusCode::BadUserAccessDenied;
    }
    // Once more, and now it counts: what was planned before may have been carried out meanwhile.
    let value = write.value.value.as_ref();
    if let Err(broken) = bounds::changed(desk, node, (value, &write.range), true) {
        let told = || written_at(node, AttributeId::Value as u32, "");
        bounds::record(desk, AuditKind::Write, node, (&broken, &shown(value)), told);
        return broken.status();
    }
    let _accounted = write.permit.map(Permit::spend);
    let status = desk.space.write_value(node, &write.range, write.value.clone(), desk.now.unix);
    if status.is_bad() {
        let object = desk.space.id(node).to_string();
        let outcome = Outcome::Failed(status.bits());
        let record = event(desk.now, AuditKind::Write, &desk.session.actor, object, outcome);
        desk.audit.tell(record, || written_at(node, AttributeId::Value as u32, ""));
    } else {
        written.push(Written { node, value: write.value });
    }
    status
}

/// The status of each item when none was carried out.
pub(crate) fn refuse(items: Vec<Planned>, status: StatusCode) -> Vec<No> {
    let refused = |item| match item {
        Planned::Refused(no) => no,
        Planned::Write(_) => status.into(),
    };
    items.into_iter().map(refused).collect()
}

/// Writes the response.
pub(crate) fn respond(out: &mut Vec<u8>, results: &[No], now: Now, handle: u32) {
    write_header(out, ObjectId::WriteResponse_Encoding_DefaultBinary, now, handle, StatusCode::Good);
    write_len(out, results.len());
    results.iter().for_each(|result| out.extend_from_slice(&result.status.bits().to_le_bytes()));
    write_diagnostics(out, results.iter().map(|result| result.told.as_deref()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stay_out_of_records() {
        for (value, expected) in [
            (Some(Variant::from(2.5_f64)), "2.5"),
            (Some(Variant::from(true)), "true"),
            (Some(Variant::from("secret")), "a value"),
            (Some(Variant::from(vec![1_u8, 2])), "an array of 2"),
            (None, "nothing"),
        ] {
            assert_eq!(shown(value.as_ref()), expected);
        }
    }
}
