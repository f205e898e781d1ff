//! Interlocks of the resource server: the present value is in the address space.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use access_model::{AuditKind, Bounds, Interlock, ScopeIndex, TwoPersons};
use opcua_types::{DataValue, NodeId, NumericRange, Variant};

use crate::interlock::{Broken, Change, Holder, Unapproved, consent, inside, node_id, shown};
use crate::server::desk::Desk;
use crate::server::occasion::Told;
use crate::space::NodeRef;
use crate::subscription::ItemSource as _;

/// The most bytes of the words for a change of history: a second person reads them.
const MOST_WORDS: usize = 2_000;

/// Holds a value that is written to the range of its scope.
pub(crate) fn ranged(desk: &Desk<'_>, node: NodeRef, value: Option<&Variant>) -> Result<(), Broken> {
    if desk.interlocks.is_empty() {
        return Ok(());
    }
    inside(desk.interlocks.bounds(desk.space.scope(node)), value)
}

/// Holds a value to the range that the server was told for the node, whoever puts it there.
pub(crate) fn node_range(desk: &Desk<'_>, node: NodeRef, value: Option<&Variant>) -> Result<(), Broken> {
    let own = desk.config.write_ranges.iter().find(|(ranged, ..)| *ranged == node);
    inside(Bounds { range: own.map(|(_, low, high)| (*low, *high)), ..Bounds::default() }, value)
}

/// Holds it to step and rate. `count`: it is written now.
pub(crate) fn changed(
    desk: &mut Desk<'_>,
    node: NodeRef,
    (value, range): (Option<&Variant>, &NumericRange),
    count: bool,
) -> Result<(), Broken> {
    let bounds = desk.interlocks.bounds(desk.space.scope(node));
    if !bounds.need_present() {
        return Ok(());
    }
    let present = desk.space.value(node, desk.now.unix);
    let new = value.unwrap_or(&Variant::Empty);
    desk.interlocks.change((&desk.space.id(node), &present), (bounds, new, range), None, count, desk.now)
}

/// Holds the arguments of a call to theirs; gives the argument, counted from 0, that is outside. `by`: it is made now, and
/// what it sets is held until it is answered.
pub(crate) fn called(
    desk: &mut Desk<'_>,
    method: NodeRef,
    inputs: &[Variant],
    by: Option<Holder>,
) -> Result<(), (usize, Broken)> {
    let rule = desk.interlocks.rule(desk.space.scope(method));
    let Some(Interlock { arguments, .. }) = rule.filter(|rule| !rule.arguments.is_empty()).cloned() else {
        return Ok(());
    };
    for (position, argument) in arguments {
        let at = (position as usize).saturating_sub(1);
        let held = argument_fits(desk, &argument, inputs.get(at), by);
        held.map_err(|broken| (at, broken))?;
    }
    Ok(())
}

fn argument_fits(
    desk: &mut Desk<'_>,
    argument: &access_model::ArgumentBounds,
    input: Option<&Variant>,
    by: Option<Holder>,
) -> Result<(), Broken> {
    inside(argument.bounds, input)?;
    if !argument.bounds.need_present() {
        return Ok(());
    }
    let (id, node) = variable(desk, argument.of.as_deref()).ok_or_else(Broken::nowhere)?;
    let until = desk.now.mono + desk.config.limits.request_timeout;
    if let Some(by) = by
        && !desk.interlocks.hold(&id, by, until, desk.now)
    {
        return Err(Broken::busy());
    }
    let present = desk.space.value(node, desk.now.unix);
    let new = input.unwrap_or(&Variant::Empty);
    let (whole, count) = (NumericRange::None, by.is_some());
    desk.interlocks.change((&id, &present), (argument.bounds, new, &whole), by, count, desk.now)
}

fn variable(desk: &Desk<'_>, of: Option<&str>) -> Option<(NodeId, NodeRef)> {
    let id = node_id(of?, desk.space.namespaces())?;
    let node = desk.space.find(&id)?;
    Some((id, node))
}

/// Whether a second person approved of a write, where that is needed; gives what its record says of it. What makes a
/// change this one are the bytes that it came in: `written` for a write, but for its times, which who tries again may state
/// anew.
pub(crate) fn consented_write(
    desk: &mut Desk<'_>,
    node: NodeRef,
    (attribute, range): (u32, &str),
    (value, written): (&DataValue, &[u8]),
) -> Result<String, Unapproved> {
    let terms = desk.interlocks.two_persons([desk.space.scope(node)]);
    if terms.is_empty() {
        return Ok(String::new());
    }
    let id = desk.space.id(node);
    let part = if range.is_empty() { String::new() } else { format!("[{range}]") };
    let words = format!("write to {id}{part}: {}", shown(value.value.as_ref()));
    let change = Change::by("write").with_encoded(&id).with(&attribute.to_le_bytes()).with(range.as_bytes());
    let status = value.status().bits().to_le_bytes();
    asked(desk, (change.with(written).with(&status), &words), &terms)
}

/// The same of a call.
pub(crate) fn consented_call(
    desk: &mut Desk<'_>,
    (object, method): (NodeRef, NodeRef),
    (inputs, sent): (&[Variant], &[u8]),
) -> Result<String, Unapproved> {
    let terms = desk.interlocks.two_persons([object, method].map(|node| desk.space.scope(node)));
    if terms.is_empty() {
        return Ok(String::new());
    }
    let [object, method] = [object, method].map(|node| desk.space.id(node));
    let arguments: Vec<String> = inputs.iter().map(|input| shown(Some(input))).collect();
    let words = format!("call {method} of {object} with ({})", arguments.join(", "));
    let change = Change::by("call").with_encoded(&object).with_encoded(&method);
    asked(desk, (change.with(sent), &words), &terms)
}

/// The same of a change of history.
pub(crate) fn consented_history(
    desk: &mut Desk<'_>,
    node: NodeRef,
    (change, (kind, sent)): (&crate::history::Change, (u32, &[u8])),
) -> Result<String, Unapproved> {
    if desk.interlocks.is_empty() {
        return Ok(String::new());
    }
    let scopes: BTreeSet<ScopeIndex> =
        sources(desk, node, change).chain([node]).map(|of| desk.space.scope(of)).collect();
    let terms = desk.interlocks.two_persons(scopes);
    if terms.is_empty() {
        return Ok(String::new());
    }
    let id = desk.space.id(node);
    let mut words = Words(String::new());
    // Stopped when there are enough of them.
    let _cut = write!(words, "change the history of {id}: {change:?}");
    let Words(words) = words;
    let change = Change::by("history").with_encoded(&id).with(&kind.to_le_bytes()).with(sent);
    asked(desk, (change, &words), &terms)
}

/// Where the events come from that are to be written or deleted, as far as the session may know: as they say, or as it is kept.
fn sources<'a>(
    desk: &'a Desk<'_>,
    notifier: NodeRef,
    change: &'a crate::history::Change,
) -> impl Iterator<Item = NodeRef> + 'a {
    use crate::history::Change as To;
    let log = desk.space.event_log(notifier);
    let kept = move |id: &[u8]| {
        let about = log.and_then(|log| log.find(id))?.about();
        desk.may_receive(notifier, about).then_some(about.source)
    };
    let (ids, put) = match change {
        To::DeleteEvents(ids) => (ids.as_slice(), None),
        To::PutEvents(_, puts) => (&[][..], Some(puts)),
        _ => (&[][..], None),
    };
    let said = put.into_iter().flat_map(move |puts| {
        let at = |fields: &'a [Variant], place: Option<usize>| place.and_then(|place| fields.get(place));
        puts.events.iter().flat_map(move |fields| {
            let known = match at(fields, puts.places.id) {
                Some(Variant::ByteString(id)) => kept(id.as_ref()),
                _ => None,
            };
            let named = match at(fields, puts.places.source) {
                Some(Variant::NodeId(id)) => desk.space.find(id).filter(|node| desk.visible(*node)),
                _ => None,
            };
            [known, named]
        })
    });
    ids.iter().map(move |id| kept(id)).chain(said).flatten()
}

/// Words of a bounded length.
struct Words(String);

impl std::fmt::Write for Words {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = MOST_WORDS.saturating_sub(self.0.len());
        if text.len() > room {
            return Err(std::fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

fn asked(desk: &mut Desk<'_>, change: (Change, &str), terms: &[TwoPersons]) -> Result<String, Unapproved> {
    let note = consent(desk.gate, desk.grant, change, terms, desk.now)?;
    Ok(format!(", {note}"))
}

/// Records that a bound did not hold.
pub(crate) fn record(
    desk: &mut Desk<'_>,
    kind: AuditKind,
    node: NodeRef,
    (broken, shown): (&Broken, &str),
    told: impl FnOnce() -> Told,
) {
    let scope = desk.space.scope(node);
    let detail = format!("{shown} is denied: {}", broken.detail());
    desk.tell_denial(kind, broken.reason, scope, node, &detail, told);
}
