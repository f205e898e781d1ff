//! General orderings (UML 2.5 section 17.12.10): one that says what the order of the fragments says anyway may stand. One that contradicts
//! it, that asks for what is not done, or that leads nowhere is refused; and so is a lifeline that does before a message arrives what is laid
//! behind it. Left out: messages that overtake each other, of which each is there before the next step.

use std::collections::{BTreeMap, BTreeSet};

use roxmltree::Node;

use super::super::ring::ring;
use super::combined::is_break;
use super::{Reader, around, attribute, called, is_occurrence, name, reference, references, sort};
use crate::{Class, Fault};

/// The ends of an ordering, and what an occurrence calls the ordering at whose end it is.
const ENDS: [(&str, &str); 2] = [("before", "toAfter"), ("after", "toBefore")];

/// An ordering, and its ends.
type Ordering<'a> = (Node<'a, 'a>, [Node<'a, 'a>; 2]);
/// On a lifeline: what stands there, where the fragments lay it, and whether it waits for nothing.
type Event<'a> = (Node<'a, 'a>, Node<'a, 'a>, bool);
/// What occurrences say: by the ordering and the end.
type Ends<'a> = BTreeMap<(Node<'a, 'a>, usize), Vec<Node<'a, 'a>>>;

impl<'a> Reader<'a> {
    /// Refuses orderings that are not heeded, but for those of other scenarios.
    pub(super) fn orderings(&self, others: &BTreeSet<&str>) -> Result<(), Fault> {
        let is_aside =
            |node: Node<'a, 'a>| around(node).and_then(|it| attribute(it, "id")).is_some_and(|id| others.contains(id));
        let own: Vec<_> = self.all("GeneralOrdering").filter(|it| !is_aside(*it)).collect();
        let ends = self.ends_of_orderings(is_aside)?;
        let mut all: Vec<Ordering<'a>> = Vec::new();
        for ordering in own {
            let [before, after] = [0, 1].map(|end| self.end_of(ordering, end, &ends));
            all.push((ordering, [before?, after?]));
        }
        self.no_ring(&all)?;
        all.iter().try_for_each(|ordering| self.heeded(ordering))
    }

    /// What occurrences say of the orderings at whose ends they are.
    fn ends_of_orderings(&self, is_aside: impl Fn(Node<'a, 'a>) -> bool) -> Result<Ends<'a>, Fault> {
        let mut ends = Ends::new();
        for occurrence in self.elements.iter().copied().filter(|it| is_occurrence(*it)) {
            for (end, (_, key)) in ENDS.iter().enumerate() {
                for id in references(occurrence, key) {
                    match self.by_id.get(id.as_str()).filter(|it| sort(**it) == "GeneralOrdering") {
                        Some(ordering) => ends.entry((*ordering, end)).or_default().push(occurrence),
                        None if is_aside(occurrence) => {}
                        None => {
                            let why = format!(
                                "its `{key}` is `{id}`, which is no `GeneralOrdering` of this file: take it out"
                            );
                            let words = self.lines.words(occurrence, "occurrence");
                            return Err(words.fault(Class::NoSuchName, 0, why));
                        }
                    }
                }
            }
        }
        Ok(ends)
    }

    /// The occurrence at one end: the ordering may say it, the occurrence, or both, if they agree.
    fn end_of(&self, ordering: Node<'a, 'a>, end: usize, ends: &Ends<'a>) -> Result<Node<'a, 'a>, Fault> {
        let words = self.lines.words(ordering, "ordering");
        let (key, other) = ENDS[end];
        let mut found = ends.get(&(ordering, end)).cloned().unwrap_or_default();
        for id in references(ordering, key) {
            let Some(said) = self.by_id.get(id.as_str()).filter(|it| is_occurrence(**it)) else {
                let why = format!("its `{key}` is `{id}`, which is no occurrence of this file: take the ordering out");
                return Err(words.fault(Class::NoSuchName, 0, why));
            };
            found.push(*said);
        }
        match found.as_slice() {
            [] => Err(words.fault(Class::Missing, 0, format!("nothing says what is `{key}`: take the ordering out"))),
            [first, rest @ ..] => match rest.iter().find(|it| *it != first) {
                None => Ok(*first),
                Some(second) => {
                    let (first, second) = (called(*first), called(*second));
                    let why = format!("`{first}` and `{second}` are `{key}` (`{other}`): which is meant?");
                    Err(words.fault(Class::Doubled, 0, why))
                }
            },
        }
    }

    /// Orderings that lead back to where they begin.
    fn no_ring(&self, all: &[Ordering<'a>]) -> Result<(), Fault> {
        let occurrences: BTreeSet<_> = all.iter().flat_map(|(_, ends)| *ends).collect();
        let occurrences: Vec<_> = occurrences.into_iter().collect();
        let place = |node: &Node<'a, 'a>| occurrences.binary_search(node).unwrap_or(0);
        let mut leads = vec![Vec::new(); occurrences.len()];
        for (_, [before, after]) in all {
            leads[place(before)].push(place(after));
        }
        let Some(way) = ring(&leads) else { return Ok(()) };
        let is_first = |ends: &[Node<'a, 'a>; 2]| way.starts_with(&ends.map(|end| place(&end)));
        let first = all.iter().find(|(_, ends)| is_first(ends)).or(all.first());
        let names: Vec<&str> = way.iter().map(|at| called(occurrences[*at])).collect();
        let why = format!("it comes before itself: {}: take one of these orderings out", names.join(" -> "));
        let Some((ordering, _)) = first else { return Ok(()) };
        Err(self.lines.words(*ordering, "ordering").fault(Class::Cycle, 0, why))
    }

    /// Refuses an ordering that the fragments do not keep to.
    fn heeded(&self, (ordering, [before, after]): &Ordering<'a>) -> Result<(), Fault> {
        let words = self.lines.words(*ordering, "ordering");
        let said = format!("it says that `{}` comes before `{}`", called(*before), called(*after));
        match self.apart(*before, *after) {
            Place::InOrder => {}
            Place::Never => return Ok(()),
            Place::Elsewhere => {
                let why = format!("{said}, which are not in one interaction: this is not heeded, take it out");
                return Err(words.fault(Class::Unknown, 0, why));
            }
            Place::Beside(par) => {
                let why = format!(
                    "{said}, which are in two operands of `par {}` that do not wait for each other: this is not heeded, put what is in order into one operand",
                    called(par)
                );
                return Err(words.fault(Class::Unknown, 0, why));
            }
        }
        let on = references(*after, "covered");
        let together = references(*before, "covered").into_iter().find(|id| on.contains(id));
        if before > after
            && let Some(lifeline) = together
        {
            let lifeline = self.by_id.get(lifeline.as_str()).map_or(lifeline.as_str(), |it| called(*it));
            let why = format!("{said}, and on the lifeline `{lifeline}` it comes behind it: turn the ordering round");
            return Err(words.fault(Class::Invalid, 0, why));
        }
        let message = reference(*before, "message").filter(|id| reference(*after, "message") == Some(id));
        let message = message.and_then(|id| self.by_id.get(id));
        if let Some(message) = message.filter(|it| reference(**it, "sendEvent") == attribute(*after, "id")) {
            let why =
                format!("{said}, and the message `{}` is sent before it is received: turn it round", name(*message));
            return Err(words.fault(Class::Invalid, 0, why));
        }
        if self.done(*before) > self.done(*after) {
            let why = format!(
                "{said}, and what is done follows the order of the fragments, each message arriving before the next step: put them in this order"
            );
            return Err(words.fault(Class::Invalid, 0, why));
        }
        Ok(())
    }

    /// Where an occurrence stands in what is done: a message arrives before what follows its sending.
    pub(super) fn done(&self, occurrence: Node<'a, 'a>) -> (Node<'a, 'a>, bool) {
        let message = reference(occurrence, "message").and_then(|id| self.by_id.get(id));
        let received = message.filter(|it| reference(**it, "receiveEvent") == attribute(occurrence, "id"));
        let sent = received.and_then(|it| reference(*it, "sendEvent")).and_then(|id| self.by_id.get(id));
        sent.map_or((occurrence, false), |sent| (*sent, true))
    }

    /// Refuses a lifeline that works or sends before a message arrives there, where what is done is laid behind its arrival.
    pub(super) fn overtaken(&self, interaction: Node<'a, 'a>) -> Result<(), Fault> {
        let mut on: BTreeMap<String, Vec<Event<'a>>> = BTreeMap::new();
        let inside = interaction.descendants().filter(|it| it.tag_name().name() == "fragment");
        for fragment in inside.filter(|it| around(*it) == Some(interaction)) {
            if let Some(event) = self.event(fragment) {
                references(fragment, "covered").into_iter().for_each(|on_it| on.entry(on_it).or_default().push(event));
            }
        }
        for (lifeline, mut events) in on {
            events.sort_by_key(|(stands, _, does)| (*stands, *does));
            let mut last: Option<Node<'a, 'a>> = None;
            for (stands, laid, does) in events {
                if does {
                    last = last.max(Some(laid));
                } else if let Some(early) = last.filter(|early| *early > laid) {
                    let lifeline = self.by_id.get(lifeline.as_str()).map_or(lifeline.as_str(), |it| called(*it));
                    let why = format!(
                        "on the lifeline `{lifeline}` it comes behind `{}`, and what is done follows the order of the fragments, each message arriving before the next step: put them in this order",
                        called(early)
                    );
                    return Err(self.lines.words(stands, "occurrence").fault(Class::Invalid, 0, why));
                }
            }
        }
        Ok(())
    }

    /// What a fragment does on its lifelines: work from where it starts, an end of a message, or all that another interaction does there.
    fn event(&self, fragment: Node<'a, 'a>) -> Option<Event<'a>> {
        match sort(fragment) {
            "MessageOccurrenceSpecification" => {
                let (sent, arrives) = self.done(fragment);
                Some((fragment, sent, !arrives))
            }
            "BehaviorExecutionSpecification" | "ActionExecutionSpecification" => {
                let start = reference(fragment, "start").and_then(|id| self.by_id.get(id).copied());
                let start = start.filter(|it| around(*it) == around(fragment)).unwrap_or(fragment);
                let is_step = self.applied.is_step(attribute(fragment, "id").unwrap_or(""));
                is_step.then_some((start, fragment, true))
            }
            "InteractionUse" => Some((fragment, fragment, true)),
            _ => None,
        }
    }

    /// How two occurrences stand to each other.
    fn apart(&self, one: Node<'a, 'a>, other: Node<'a, 'a>) -> Place<'a> {
        let (Some(first), Some(second)) = (way(one), way(other)) else { return Place::Elsewhere };
        let common = first.iter().zip(&second).take_while(|(one, other)| one == other).count();
        let Some(around) = common.checked_sub(1).and_then(|at| first.get(at)) else { return Place::Elsewhere };
        let is_combined = sort(*around) == "CombinedFragment";
        let operator = is_combined.then(|| attribute(*around, "interactionOperator")).flatten().unwrap_or("seq");
        let ends = |way: &[Node<'a, 'a>]| way.get(common).is_some_and(|it| is_break(*it));
        match operator {
            "par" => Place::Beside(*around),
            "alt" => Place::Never,
            _ if ends(&first) || ends(&second) => Place::Never,
            _ => Place::InOrder,
        }
    }
}

enum Place<'a> {
    /// Not in one interaction.
    Elsewhere,
    /// A request does one of both at most.
    Never,
    /// In two branches of this fragment.
    Beside(Node<'a, 'a>),
    /// One after the other.
    InOrder,
}

/// From the interaction to a fragment: the fragments and operands that it stands in.
fn way<'a>(fragment: Node<'a, 'a>) -> Option<Vec<Node<'a, 'a>>> {
    let mut way = Vec::new();
    for node in fragment.ancestors() {
        way.push(node);
        if sort(node) == "Interaction" {
            way.reverse();
            return Some(way);
        }
        if !matches!(node.tag_name().name(), "fragment" | "operand") {
            return None;
        }
    }
    None
}
