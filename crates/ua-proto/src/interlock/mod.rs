//! Interlocks on values: range, step and rate of what is written, and of arguments of methods. Server and guard keep one
//! book each, over all their sessions.
//!
//! Step and rate are taken against the present value. A node whose value is being looked up, or changed by a request that
//! is not answered yet, is held for that request: another change of it is turned away meanwhile, so that two writers
//! cannot both be judged by what was there before either. What is not known is not allowed.
//!
//! The rate is kept by a log of the last second: a change passes if it and all changes of that second add up to no more
//! than the bound. So no second holds more, wherever it begins. An upstream server that refuses a change has it counted
//! all the same. While its answer is on the way nobody knows when it is made: it counts from when the answer comes.

mod consent;
mod number;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use access_model::{Bounds, Interlock, Mono, Now, Reason, ScopeIndex, TwoPersons};
use opcua_types::{DataValue, NodeId, NumericRange, StatusCode, Variant};

use crate::space::read_range;
pub(crate) use consent::{Change, Unapproved, consent, shown};
use number::{Number, sum_up};

/// The time in which changes add up.
const WINDOW: Duration = Duration::from_secs(1);
/// Most nodes that are held or changed within a second.
const MOST_NODES: usize = 4_096;
/// Most changes of one node that are kept apart. Beyond it the two oldest are counted as one, at the time of the later.
const MOST_CHANGES: usize = 32;

/// Why an item is turned away.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct No {
    pub(crate) status: StatusCode,
    /// For the client, if it asks for diagnostics: the bound, and nothing about the present value.
    pub(crate) told: Option<String>,
}

impl From<StatusCode> for No {
    fn from(status: StatusCode) -> Self {
        Self { status, told: None }
    }
}

/// A bound that does not hold.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Broken {
    pub(crate) reason: Reason,
    /// For the client.
    pub(crate) bound: String,
    /// For the audit besides: how far off it is.
    pub(crate) by: String,
}

impl Broken {
    fn new(reason: Reason, bound: String, by: impl Into<String>) -> Self {
        Self { reason, bound, by: by.into() }
    }

    fn unknown(why: &str) -> Self {
        Self::new(
            Reason::PresentValueUnknown,
            "the present value is not known, against which this is bounded".into(),
            why,
        )
    }

    /// The variable that an argument sets is not there.
    pub(crate) fn nowhere() -> Self {
        Self::unknown("the variable that it sets is not there")
    }

    /// Somebody else is changing it.
    pub(crate) fn busy() -> Self {
        Self::unknown("another change of it is under way")
    }

    /// It was not read, or not for this request.
    pub(crate) fn unread() -> Self {
        Self::unknown("it could not be read")
    }

    /// What the item is told.
    pub(crate) fn status(&self) -> StatusCode {
        match self.reason {
            Reason::PresentValueUnknown => StatusCode::BadInvalidState,
            _ => StatusCode::BadOutOfRange,
        }
    }

    /// What the audit says.
    pub(crate) fn detail(&self) -> String {
        if self.by.is_empty() { self.bound.clone() } else { format!("{}: {}", self.bound, self.by) }
    }
}

/// For which request a node is held: two numbers that its owner chooses, unique among requests that run.
pub(crate) type Holder = (u64, u64);

/// Rules, and what is needed to keep them.
#[derive(Default)]
pub(crate) struct Interlocks {
    rules: BTreeMap<ScopeIndex, Interlock>,
    nodes: HashMap<NodeId, Book>,
    holders: BTreeMap<Holder, Vec<NodeId>>,
}

/// What is known of one node.
#[derive(Default)]
struct Book {
    changes: VecDeque<(Mono, f64)>,
    held: Option<Held>,
}

struct Held {
    by: Holder,
    /// A request that is never heard of again holds no longer.
    until: Mono,
    present: Option<DataValue>,
    /// How many changes were counted for it.
    counted: usize,
}

impl Interlocks {
    /// Other rules. What was counted stays counted.
    pub(crate) fn set(&mut self, rules: BTreeMap<ScopeIndex, Interlock>) {
        self.rules = rules;
    }

    /// How many scopes have rules.
    pub(crate) fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// What holds in a scope.
    pub(crate) fn rule(&self, scope: ScopeIndex) -> Option<&Interlock> {
        self.rules.get(&scope)
    }

    /// The bounds of values that are written in a scope.
    pub(crate) fn bounds(&self, scope: ScopeIndex) -> Bounds {
        self.rule(scope).map(|rule| rule.bounds).unwrap_or_default()
    }

    /// What two persons are needed for in these scopes.
    pub(crate) fn two_persons(&self, scopes: impl IntoIterator<Item = ScopeIndex>) -> Vec<TwoPersons> {
        if self.rules.is_empty() {
            return Vec::new();
        }
        scopes.into_iter().filter_map(|scope| self.rule(scope)?.two_persons.clone()).collect()
    }

    /// Holds a node for a request. `false` when another one holds it, or there is no room.
    pub(crate) fn hold(&mut self, node: &NodeId, by: Holder, until: Mono, now: Now) -> bool {
        let Some(book) = self.book(node, now) else { return false };
        if book.held.as_ref().is_some_and(|held| held.by != by && held.until > now.mono) {
            return false;
        }
        let before = book.held.replace(Held { by, until, present: None, counted: 0 });
        if let Some(Held { by: before, .. }) = before {
            self.let_go(before, node);
        }
        self.holders.entry(by).or_default().push(node.clone());
        true
    }

    /// What the node's present value was found to be, for who holds it.
    pub(crate) fn know(&mut self, node: &NodeId, by: Holder, value: DataValue) {
        if let Some(held) = self.held_mut(node, by) {
            held.present = Some(value);
        }
    }

    /// Whether another request holds it.
    pub(crate) fn is_held(&self, node: &NodeId, by: Holder, now: Now) -> bool {
        let held = self.nodes.get(node).and_then(|book| book.held.as_ref());
        held.is_some_and(|held| held.by != by && held.until > now.mono)
    }

    /// That value. It is good for one change.
    pub(crate) fn known(&self, node: &NodeId, by: Holder) -> Option<&DataValue> {
        let held = self.nodes.get(node)?.held.as_ref()?;
        held.present.as_ref().filter(|_| held.by == by)
    }

    /// What a request holds is free again: it was answered, or will not be made. Changes of it may have been made at any
    /// moment until now.
    pub(crate) fn release(&mut self, by: Holder, now: Now) {
        for node in self.holders.remove(&by).unwrap_or_default() {
            if let Some(book) = self.nodes.get_mut(&node)
                && let Some(held) = book.held.take_if(|held| held.by == by)
            {
                let made = book.changes.iter_mut().rev().take(held.counted);
                made.for_each(|(at, _)| *at = now.mono);
            }
        }
    }

    /// Looks whether a node may be changed like this, by who holds it or, if `by` is none, by nobody in particular.
    /// `count`: it is going to be, and counts from now on.
    pub(crate) fn change(
        &mut self,
        (node, present): (&NodeId, &DataValue),
        (bounds, new, range): (Bounds, &Variant, &NumericRange),
        by: Option<Holder>,
        count: bool,
        now: Now,
    ) -> Result<(), Broken> {
        if !bounds.need_present() {
            return Ok(());
        }
        let change = distance(present, new, range)?;
        if let Some(step) = bounds.step.filter(|step| change > *step) {
            let by = format!("{change} away");
            return Err(Broken::new(Reason::StepTooLarge, format!("a step of more than {step} is not allowed"), by));
        }
        let book = self.book(node, now).ok_or_else(|| Broken::unknown("too many nodes are changed at once"))?;
        if book.held.as_ref().is_some_and(|held| Some(held.by) != by && held.until > now.mono) {
            return Err(Broken::busy());
        }
        let rate = bounds.rate.unwrap_or(f64::INFINITY);
        let sum = book.changes.iter().fold(change, |sum, (_, change)| sum_up(sum, *change));
        if sum > rate {
            let bound = format!("a change of more than {rate} within a second is not allowed");
            return Err(Broken::new(Reason::RateTooHigh, bound, format!("{sum} with this one")));
        }
        if count {
            // A second change in the same request would be taken against what was there before the first.
            let counts = bounds.rate.is_some() && change > 0.0;
            if let Some(held) = &mut book.held {
                held.present = None;
                held.counted += usize::from(counts);
            }
            if counts {
                book.count(change, now.mono);
            }
        }
        Ok(())
    }

    /// The book of a node, without what is over. `None` when there is no room for one more.
    fn book(&mut self, node: &NodeId, now: Now) -> Option<&mut Book> {
        if !self.nodes.contains_key(node) && self.nodes.len() >= MOST_NODES {
            self.nodes.retain(|_, book| !book.is_over(now.mono));
            let Self { nodes, holders, .. } = self;
            holders.retain(|_, held| {
                held.retain(|node| nodes.contains_key(node));
                !held.is_empty()
            });
            if self.nodes.len() >= MOST_NODES {
                return None;
            }
        }
        let book = self.nodes.entry(node.clone()).or_default();
        while book.changes.front().is_some_and(|(at, _)| *at + WINDOW <= now.mono) {
            book.changes.pop_front();
        }
        Some(book)
    }

    fn held_mut(&mut self, node: &NodeId, by: Holder) -> Option<&mut Held> {
        self.nodes.get_mut(node)?.held.as_mut().filter(|held| held.by == by)
    }

    fn let_go(&mut self, by: Holder, node: &NodeId) {
        if let Some(held) = self.holders.get_mut(&by) {
            held.retain(|one| one != node);
            if held.is_empty() {
                self.holders.remove(&by);
            }
        }
    }
}

impl Book {
    fn count(&mut self, change: f64, now: Mono) {
        if self.changes.len() >= MOST_CHANGES
            && let Some((_, oldest)) = self.changes.pop_front()
            && let Some((_, next)) = self.changes.front_mut()
        {
            *next = sum_up(*next, oldest);
        }
        self.changes.push_back((now, change));
    }

    fn is_over(&self, now: Mono) -> bool {
        self.held.as_ref().is_none_or(|held| held.until <= now)
            && self.changes.back().is_none_or(|(at, _)| *at + WINDOW <= now)
    }
}

/// Whether every number of a value lies in the range. What is no number does not.
pub(crate) fn inside(bounds: Bounds, value: Option<&Variant>) -> Result<(), Broken> {
    let Some(range @ (low, high)) = bounds.range else { return Ok(()) };
    let lies_in = |value: &Variant| Number::of(value).is_some_and(|number| number.lies_in(range));
    if value.is_some_and(|value| parts(value).iter().all(lies_in)) {
        return Ok(());
    }
    Err(Broken::new(Reason::ValueOutOfRange, format!("only {low} to {high} is allowed"), ""))
}

/// A NodeId of the plant file (`nsu=urn:mixer;s=Speed`, `ns=2;i=7`, `i=2258`) among these namespaces.
pub(crate) fn node_id(text: &str, namespaces: &[String]) -> Option<NodeId> {
    let Some(rest) = text.strip_prefix("nsu=") else { return text.parse().ok() };
    let (uri, identifier) = rest.rsplit_once(';')?;
    let index = namespaces.iter().position(|known| known == uri)?;
    let id: NodeId = identifier.parse().ok()?;
    Some(NodeId { namespace: u16::try_from(index).ok()?, ..id })
}

/// The numbers that a value consists of: itself, or its elements.
fn parts(value: &Variant) -> &[Variant] {
    match value {
        Variant::Array(array) => &array.values,
        scalar => std::slice::from_ref(scalar),
    }
}

/// By how much a value differs from the present one at most, over all elements.
fn distance(present: &DataValue, new: &Variant, range: &NumericRange) -> Result<f64, Broken> {
    if present.status().bits() & 0xc000_0000 != 0 {
        return Err(Broken::unknown("it is not good"));
    }
    let whole = present.value.as_ref().ok_or_else(|| Broken::unknown("there is none"))?;
    let present = read_range(whole, range).map_err(|_| Broken::unknown("it has no such part"))?;
    if !same_shape(&present, new) {
        return Err(Broken::unknown("it is of another type or size than the new one"));
    }
    let apart = |(one, other): (&Variant, &Variant)| Number::of(one)?.distance(Number::of(other)?);
    let all: Option<Vec<f64>> = parts(&present).iter().zip(parts(new)).map(apart).collect();
    let all = all.ok_or_else(|| Broken::unknown("it, or the new one, is no number"))?;
    Ok(all.into_iter().fold(0.0, f64::max))
}

/// Whether two values have the same type and, as arrays, the same dimensions.
fn same_shape(one: &Variant, other: &Variant) -> bool {
    match (one, other) {
        (Variant::Array(one), Variant::Array(other)) => {
            one.value_type == other.value_type
                && one.values.len() == other.values.len()
                && one.dimensions.as_ref().filter(|sizes| sizes.len() > 1)
                    == other.dimensions.as_ref().filter(|sizes| sizes.len() > 1)
        }
        (Variant::Array(_), _) | (_, Variant::Array(_)) => false,
        (one, other) => one.type_id() == other.type_id(),
    }
}

#[cfg(test)]
mod tests;
