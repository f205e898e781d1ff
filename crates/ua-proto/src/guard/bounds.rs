//! Interlocks of the guard: what they are taken against is read from the upstream server just before, while the node is
//! held for the request that changes it.

use std::collections::BTreeSet;

use access_model::{ArgumentBounds, AuditKind, Bounds, Rights};
use opcua_types::{AttributeId, BinaryDecodable, ContextOwned, DataValue, NodeId, NumericRange, StatusCode, Variant};

use super::change::{self, Form, Item};
use super::desk::Desk;
use super::{call, write};
use crate::interlock::{Broken, Change, Holder, No, Unapproved, inside, node_id, shown};
use crate::server::front::{Reader, Service, Told};

impl Desk<'_> {
    /// For whom nodes are held while this request runs.
    pub(super) fn holder(&self) -> Holder {
        (self.key.serial, self.job)
    }
}

/// The nodes whose present values must be known to decide a request, held for it from now on. Of what the session may not
/// change nothing is held or read: it would keep others from it, and tell by its time that it is there.
pub(super) fn present(desk: &mut Desk<'_>, service: Service, body: &[u8]) -> Vec<NodeId> {
    let form = match service {
        Service::Write => &write::FORM,
        Service::Call => &call::FORM,
        _ => return Vec::new(),
    };
    if desk.front.interlocks().is_empty() {
        return Vec::new();
    }
    let mut wanted = BTreeSet::new();
    let mut nodes = Vec::new();
    for item in change::items(desk, form, body) {
        for node in of_item(desk, service, &item) {
            if wanted.insert(super::desk::encoded(&node)) {
                nodes.push(node);
            }
        }
    }
    // What the client waits for is sent by the deadline, and has as long again to be answered: whoever says that it waits
    // for a moment only does not have the node freed before the server has made its change.
    let until = desk.deadline + desk.config.limits.request_timeout;
    let (holder, now) = (desk.holder(), desk.now);
    nodes.retain(|node| desk.front.interlocks().hold(node, holder, until, now));
    nodes
}

fn of_item(desk: &mut Desk<'_>, service: Service, item: &Item) -> Vec<NodeId> {
    let may = |desk: &Desk<'_>, right| {
        item.touched.iter().all(|touched| desk.rights(desk.scope(&touched.node)).contains(right))
    };
    match (service, item.touched.as_slice()) {
        (Service::Write, [touched, ..]) if item.number == AttributeId::Value as u32 && may(desk, Rights::WRITE) => {
            let scope = desk.scope(&touched.node);
            let needed = desk.front.interlocks().bounds(scope).need_present();
            needed.then(|| desk.real(&touched.node)).into_iter().collect()
        }
        (Service::Call, [_, method, ..]) if may(desk, Rights::CALL) => {
            let arguments = arguments(desk, &method.node);
            let needed = arguments.values().filter(|argument| argument.bounds.need_present());
            needed.filter_map(|argument| variable(desk, argument)).collect()
        }
        _ => Vec::new(),
    }
}

fn arguments(desk: &mut Desk<'_>, method: &NodeId) -> std::collections::BTreeMap<u32, ArgumentBounds> {
    let scope = desk.scope(method);
    desk.front.interlocks().rule(scope).map(|rule| rule.arguments.clone()).unwrap_or_default()
}

fn variable(desk: &Desk<'_>, argument: &ArgumentBounds) -> Option<NodeId> {
    node_id(argument.of.as_deref()?, desk.mapping.table.namespaces())
}

/// Whether nothing is bounded anywhere.
pub(super) fn unbounded(desk: &mut Desk<'_>) -> bool {
    desk.config.write_ranges.is_empty() && desk.front.interlocks().is_empty()
}

/// Holds a value to the range that is configured for the node itself, by whatever name the session calls it, and to that of
/// its scope. What is no number is outside.
pub(super) fn ranged(desk: &mut Desk<'_>, item: &Item, value: Option<&Variant>) -> Result<(), Broken> {
    let Some(touched) = item.touched.first() else { return Ok(()) };
    let node = desk.real(&touched.node);
    let uri = desk.mapping.table.namespaces().get(usize::from(node.namespace)).map_or("", String::as_str);
    let own = desk.config.write_ranges.iter().find(|range| range.namespace == uri && range.node == node.identifier);
    let range = own.map(|range| (range.low, range.high));
    inside(Bounds { range, ..Bounds::default() }, value)?;
    inside(desk.front.interlocks().bounds(touched.scope), value)
}

/// Holds a value that is written to its ranges, and to step and rate.
pub(super) fn written(desk: &mut Desk<'_>, item: &Item, value: Option<&Variant>) -> Result<(), Broken> {
    let Some(touched) = item.touched.first() else { return Ok(()) };
    ranged(desk, item, value)?;
    let bounds = desk.front.interlocks().bounds(touched.scope);
    let part = item.part.parse().map_err(|_| Broken::unread())?;
    changed(desk, &desk.real(&touched.node), bounds, (value, &part))
}

fn changed(
    desk: &mut Desk<'_>,
    node: &NodeId,
    bounds: Bounds,
    (value, part): (Option<&Variant>, &NumericRange),
) -> Result<(), Broken> {
    if !bounds.need_present() {
        return Ok(());
    }
    let (holder, now) = (desk.holder(), desk.now);
    let book = desk.front.interlocks();
    let present = match book.known(node, holder) {
        Some(present) => present.clone(),
        None if book.is_held(node, holder, now) => return Err(Broken::busy()),
        None => return Err(Broken::unread()),
    };
    book.change((node, &present), (bounds, value.unwrap_or(&Variant::Empty), part), Some(holder), true, now)
}

/// Holds the arguments of a call to theirs.
pub(super) fn called(desk: &mut Desk<'_>, item: &Item, body: &[u8]) -> Result<(), No> {
    let [_, method, ..] = item.touched.as_slice() else { return Ok(()) };
    let arguments = arguments(desk, &method.node);
    if arguments.is_empty() {
        return Ok(());
    }
    let inputs = inputs(body.get(item.value.clone()).unwrap_or_default());
    for (position, argument) in arguments {
        let input = inputs.get((position as usize).saturating_sub(1)).and_then(Option::as_ref);
        let fits = inside(argument.bounds, input).and_then(|()| match argument.bounds.need_present() {
            false => Ok(()),
            true => {
                let node = variable(desk, &argument).ok_or_else(Broken::nowhere)?;
                changed(desk, &node, argument.bounds, (input, &NumericRange::None))
            }
        });
        if let Err(broken) = fits {
            let text = format!("argument {position} is denied: {}", broken.detail());
            let place = (&method.node, method.scope);
            desk.deny_and_tell(AuditKind::Call, broken.reason, place, &text, || (call::FORM.told)(item, &[]));
            let told = Some(format!("argument {position}: {}", broken.bound));
            return Err(No { status: StatusCode::BadInvalidArgument, told });
        }
    }
    Ok(())
}

/// Whether a second person approved of a change, where that is needed; its record will say so.
pub(super) fn consented(desk: &mut Desk<'_>, form: &Form, item: &mut Item, body: &[u8]) -> Result<(), No> {
    let terms = desk.front.interlocks().two_persons(item.touched.iter().map(|touched| touched.scope));
    if terms.is_empty() {
        return Ok(());
    }
    if desk.doubts(item, Unapproved::REASON) {
        return Ok(());
    }
    let (change, words) = described(desk, form, item, body);
    match desk.front.consent(desk.key, (change, &words), &terms, desk.now) {
        Ok(note) => {
            item.text = format!("{}, {note}", item.text);
            Ok(())
        }
        Err(Unapproved { detail, no }) => {
            if let Some(touched) = item.touched.last() {
                let place = (&touched.node, touched.scope);
                desk.deny_and_tell(form.kind, Unapproved::REASON, place, &detail, || (form.told)(item, &[]));
            }
            Err(no)
        }
    }
}

/// What makes the change this one, and its words for the second person. Nodes are the ones that names of the session
/// stand for now, and everything else is the bytes that are sent on.
fn described(desk: &Desk<'_>, form: &Form, item: &Item, body: &[u8]) -> (Change, String) {
    let bytes = body.get(item.value.clone()).unwrap_or_default();
    let nodes: Vec<NodeId> = item.touched.iter().map(|touched| desk.real(&touched.node)).collect();
    let named = || nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let change = nodes.iter().fold(Change::by(form.kind.name()), Change::with_encoded);
    match (form.kind, nodes.first(), value(bytes)) {
        (AuditKind::Write, Some(node), Some(written)) => {
            let part = if item.part.is_empty() { String::new() } else { format!("[{}]", item.part) };
            let what = match item.number == AttributeId::Value as u32 {
                true => format!("{node}{part}"),
                false => format!("attribute {} of {node}", item.number),
            };
            let words = format!("write to {what}: {}", shown(written.value.as_ref()));
            // Who tries again may state another time.
            let value = super::walk::parts_of(bytes).map_or(&[][..], |(_, value, _)| value);
            let status = written.status().bits().to_le_bytes();
            let change = change.with(&item.number.to_le_bytes()).with(item.part.as_bytes());
            (change.with(value).with(&status), words)
        }
        (AuditKind::Call, ..) => {
            let unread = || "what nobody here can read".to_owned();
            let arguments =
                inputs(bytes).into_iter().map(|input| input.map_or_else(unread, |input| shown(Some(&input))));
            let arguments = arguments.collect::<Vec<_>>().join(", ");
            let words = format!("call of {} with ({arguments})", named());
            (item.besides(body).fold(change, Change::with), words)
        }
        _ => {
            let change = item.besides(body).fold(change, Change::with);
            let words = format!("{} at {}: {} (digest {})", form.kind.name(), named(), item.text, change.short());
            (change, words)
        }
    }
}

/// The arguments; one that cannot be read is none. Nor is one behind a structure: whose decoder ends that elsewhere than
/// its length says takes something else for the argument.
fn inputs(bytes: &[u8]) -> Vec<Option<Variant>> {
    let mut reader = Reader::new(bytes);
    let count = reader.array_len(1).unwrap_or(0);
    let mut structures = false;
    let input = |_| {
        let behind = structures;
        let bytes = super::walk::span(&mut reader, |reader| super::walk::variant(reader, &mut structures)).ok()?;
        let input = Variant::decode(&mut &*bytes, &ContextOwned::default().context()).ok();
        input.filter(|_| !behind)
    };
    (0..count).map(input).collect()
}

/// Records that a written value is outside of its bounds, and says what the item is told.
pub(super) fn broke(
    desk: &mut Desk<'_>,
    item: &Item,
    kind: AuditKind,
    (broken, shown): (&Broken, &str),
    told: impl FnOnce() -> Told,
) -> No {
    if let Some(touched) = item.touched.first() {
        let text = format!("{shown} is denied: {}", broken.detail());
        desk.deny_and_tell(kind, broken.reason, (&touched.node, touched.scope), &text, told);
    }
    No { status: broken.status(), told: Some(broken.bound.clone()) }
}

/// A value as the server told it.
pub(super) fn value(bytes: &[u8]) -> Option<DataValue> {
    DataValue::decode(&mut &*bytes, &ContextOwned::default().context()).ok()
}
