//! What the guard has to know of nodes before it can decide about them, asked of the upstream server once and again when
//! it is old:
//!
//! - their AccessRestrictions, where the client's channel is weaker than the guard's own to the server, which the server
//!   takes for the client's (OPC 10000-3 §8.56);
//! - the EURange that a percent deadband is a part of: who may not read it would learn of it by what is told and what is
//!   not (OPC 10000-8 §7.2);
//! - the present values that interlocks are taken against: each time, for they are old at once;
//! - where events come from that are to be deleted by their ids.
//!
//! Of hidden nodes a node that never exists is asked in their place, and nothing is learned. What was not said for certain
//! is asked again; what is not known when a request is decided counts as restricted.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use access_model::{Mono, Now, Restrictions, Rights};
use opcua_types::{AttributeId, MessageSecurityMode, NodeId, ObjectId, StatusCode};

use super::desk::{Desk, encoded, told};
use super::link::{Job, Link, Work};
use super::walk::{data_value, expanded, parts_of, results, span, status_of};
use super::{
    Guard, bounds, browse, call, change, history, history_events, history_read, nodes, read, register, subs, translate,
    write,
};
use crate::interlock::{Holder, Interlocks};
use crate::server::front::{Malformed, Reader, Service, SessionKey, Taken, Ticket, write_len};

const READ: (ObjectId, ObjectId) =
    (ObjectId::ReadRequest_Encoding_DefaultBinary, ObjectId::ReadResponse_Encoding_DefaultBinary);
const TRANSLATE: (ObjectId, ObjectId) = (
    ObjectId::TranslateBrowsePathsToNodeIdsRequest_Encoding_DefaultBinary,
    ObjectId::TranslateBrowsePathsToNodeIdsResponse_Encoding_DefaultBinary,
);
/// How long what was learned holds.
const FRESH: Duration = Duration::from_secs(60);
/// Most nodes of which something is kept.
const MOST: usize = if cfg!(test) { 1_000 } else { 10_000 };
/// Bytes that what is known of one node costs.
const COST: usize = 128;
/// Most nodes asked about at once.
const AT_ONCE: usize = 500;
/// How often is asked for one request.
const ROUNDS: u8 = 2;

/// What is known of nodes, for one session upstream: by the names that every session knows.
#[derive(Default)]
pub(super) struct Facts {
    restrictions: HashMap<NodeId, Known>,
    /// The node of the EURange, if there is one.
    ranges: HashMap<NodeId, (Mono, Option<NodeId>)>,
    /// Where events come from.
    pub(super) events: history_events::Origins,
}

/// The restrictions of one node.
struct Known {
    /// When they were told; `None` of a node that was not there, which is good for the request that asked only.
    at: Option<Mono>,
    restrictions: Restrictions,
}

impl Facts {
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Forgets what nodes ask for; it is asked for again.
    fn forget_nodes(&mut self) {
        self.restrictions.clear();
        self.ranges.clear();
    }

    /// Bytes that it holds.
    pub(super) fn weight(&self) -> usize {
        let known = self.restrictions.len().saturating_add(self.ranges.len());
        known.saturating_mul(COST).saturating_add(self.events.weight())
    }

    /// What was said of restrictions; of what the session may not know of nothing is kept.
    fn learn<'a>(&mut self, said_of: impl Iterator<Item = (Question, &'a [u8])>, now: Mono) {
        for (question, span) in said_of.filter(|(question, _)| question.seen) {
            match said(span) {
                Some((lasting, restrictions)) => {
                    let known = Known { at: lasting.then_some(now), restrictions };
                    self.restrictions.insert(question.real, known)
                }
                None => self.restrictions.remove(&question.real),
            };
        }
    }
}

/// A node that is asked about.
#[derive(Clone)]
struct Question {
    real: NodeId,
    /// Whether the session may know of it.
    seen: bool,
}

/// A request that waits for answers to questions of the guard.
pub(super) struct Learning {
    taken: Box<Taken>,
    round: u8,
    /// The nodes that each part asks about, and for what.
    parts: Vec<(Vec<Question>, What)>,
    /// How points in the answer to a part are given back.
    points: BTreeMap<u32, history_read::Again>,
    open: usize,
}

/// What is asked of nodes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum What {
    #[default]
    Restrictions,
    EuRange,
    Present,
    Events,
}

/// Asks for what must be known before this request can be decided; gives the request back if all of it is. What was
/// forgotten or not said in an earlier round is asked for once more.
pub(super) fn start(
    desk: &mut Desk<'_>,
    taken: Box<Taken>,
    round: u8,
) -> Result<Learning, Result<Box<Taken>, StatusCode>> {
    if round >= ROUNDS {
        return Err(Ok(taken));
    }
    let restricted = match desk.unmet_by_client() {
        Restrictions::NONE => Vec::new(),
        _ => touched(desk, taken.service, &taken.body),
    };
    let ranged = match taken.service {
        Service::CreateMonitoredItems | Service::ModifyMonitoredItems => {
            subs::percent(desk, taken.service, &taken.body)
        }
        _ => Vec::new(),
    };
    // Held and read once, in the first round.
    let present = if round == 0 { bounds::present(desk, taken.service, &taken.body) } else { Vec::new() };
    let deleted = match taken.service {
        Service::HistoryUpdate if round == 0 => history_events::lookups(desk, &taken.body),
        _ => Vec::new(),
    };
    if restricted.is_empty() && ranged.is_empty() && present.is_empty() && deleted.is_empty() {
        return Err(Ok(taken));
    }
    let now = desk.now.mono;
    // Before anything counts as known: what is forgotten now is asked for again.
    if round == 0 && desk.link.facts.restrictions.len().saturating_add(desk.link.facts.ranges.len()) > MOST {
        desk.link.facts.forget_nodes();
    }
    let facts = &desk.link.facts;
    let fresh = |at: Mono| round > 0 || now.since(at) < FRESH;
    let restricted = distinct(desk, restricted, round, |id| {
        facts.restrictions.get(id).is_some_and(|known| known.at.map_or(round > 0, fresh))
    });
    let ranged = distinct(desk, ranged, round, |id| facts.ranges.get(id).is_some_and(|(at, _)| fresh(*at)));
    if restricted.is_empty() && ranged.is_empty() && present.is_empty() && deleted.is_empty() {
        return Err(Ok(taken));
    }
    // Until it is said anew, nothing of it is known: not for a request that is decided meanwhile either.
    for question in &restricted {
        desk.link.facts.restrictions.remove(&question.real);
    }
    for question in &ranged {
        desk.link.facts.ranges.remove(&question.real);
    }
    let mut learning = Learning { taken, round, parts: Vec::new(), points: BTreeMap::new(), open: 0 };
    let present = present.into_iter().map(|real| Question { real, seen: true }).collect();
    let all = [(restricted, What::Restrictions), (ranged, What::EuRange), (present, What::Present)];
    let sent = all.iter().try_for_each(|(nodes, what)| learning.ask(desk, nodes, *what));
    let sent = sent.and_then(|()| learning.look_up(desk, deleted));
    sent.map(|()| learning).map_err(Err)
}

/// What is asked: each node once. Hidden ones are asked about in the first round only, of which nothing is learned.
fn distinct(desk: &Desk<'_>, nodes: Vec<NodeId>, round: u8, known: impl Fn(&NodeId) -> bool) -> Vec<Question> {
    let mut asked = HashSet::new();
    let question = |id: NodeId| Question { real: desk.real(&id), seen: desk.visible(desk.scope(&id)) };
    let wanted = |question: &Question| (question.seen || round == 0) && !known(&question.real);
    let mut questions: Vec<Question> = nodes.into_iter().map(question).filter(wanted).collect();
    questions.retain(|question| asked.insert(question.real.clone()));
    questions.truncate(MOST);
    questions
}

/// The nodes that a request is about. One that cannot be read names none: its service says so.
fn touched(desk: &Desk<'_>, service: Service, body: &[u8]) -> Vec<NodeId> {
    let form = match service {
        Service::Read => return read::nodes(body),
        Service::Browse => return browse::nodes(body),
        Service::BrowseNext => return browse::nodes_of_points(desk, body),
        Service::Translate => return translate::nodes(body),
        Service::RegisterNodes => return register::nodes_of(desk, body),
        Service::HistoryRead => return history_read::nodes(body),
        Service::CreateMonitoredItems => return subs::nodes(body),
        Service::Write => &write::FORM,
        Service::Call => &call::FORM,
        Service::AddNodes => &nodes::ADD_NODES,
        Service::AddReferences => &nodes::ADD_REFERENCES,
        Service::DeleteNodes => &nodes::DELETE_NODES,
        Service::DeleteReferences => &nodes::DELETE_REFERENCES,
        Service::HistoryUpdate => &history::UPDATE,
        _ => return Vec::new(),
    };
    change::nodes(desk, form, body)
}

impl Learning {
    /// Bytes that it holds.
    pub(super) fn weight(&self) -> usize {
        let asked: usize = self.parts.iter().map(|(nodes, _)| nodes.len()).sum();
        let points = self.points.values().map(history_read::Again::weight).fold(0, usize::saturating_add);
        self.taken.body.len().saturating_add(asked.saturating_mul(COST)).saturating_add(points)
    }

    fn ask(&mut self, desk: &mut Desk<'_>, nodes: &[Question], what: What) -> Result<(), StatusCode> {
        let ranges = what == What::EuRange;
        let attribute = if what == What::Present { AttributeId::Value } else { AttributeId::AccessRestrictions };
        let limit = if ranges { desk.mapping.limits.translate } else { desk.mapping.limits.read };
        let most = if limit == 0 { AT_ONCE } else { AT_ONCE.min(limit as usize) };
        for chunk in nodes.chunks(most) {
            let body = if ranges { paths_to_ranges(desk, chunk) } else { reading(desk, chunk, attribute) };
            let part = u32::try_from(self.parts.len()).unwrap_or(u32::MAX);
            desk.send(if ranges { TRANSLATE } else { READ }, body, part)?;
            self.parts.push((chunk.to_vec(), what));
            self.open += 1;
        }
        Ok(())
    }

    fn look_up(&mut self, desk: &mut Desk<'_>, lookups: Vec<history_events::Lookup>) -> Result<(), StatusCode> {
        for history_events::Lookup { notifier, body, again } in lookups {
            let part = u32::try_from(self.parts.len()).unwrap_or(u32::MAX);
            desk.send(history_read::IDS, body, part)?;
            self.parts.push((vec![Question { real: notifier, seen: true }], What::Events));
            self.points.insert(part, again);
            self.open += 1;
        }
        Ok(())
    }

    /// A server that does not say where events come from leaves them unknown.
    fn is_lookup(&self, part: u32) -> bool {
        matches!(self.parts.get(part as usize), Some((_, What::Events)))
    }

    fn take(
        &mut self,
        link: &mut Link,
        (book, holder): (&mut Interlocks, Holder),
        (part, body): (u32, &[u8]),
        now: Mono,
    ) -> Result<(), StatusCode> {
        let Some((nodes, what)) = self.parts.get_mut(part as usize).map(std::mem::take) else { return Ok(()) };
        if what == What::Events {
            let unwanted = self.points.get(&part).and_then(|again| history_read::came_late(again, body));
            link.loose.extend(unwanted);
            for (id, about) in history_events::found(body)? {
                nodes.iter().for_each(|Question { real, .. }| link.facts.events.learn(real, &id, about.clone()));
            }
            return Ok(());
        }
        if what == What::EuRange {
            let mut found = Vec::with_capacity(nodes.len());
            results(body, nodes.len(), |reader| {
                found.push(range(reader)?);
                Ok(())
            })?;
            for (question, found) in nodes.into_iter().zip(found).filter(|(question, _)| question.seen) {
                match found {
                    Some(target) => link.facts.ranges.insert(question.real, (now, target)),
                    None => link.facts.ranges.remove(&question.real),
                };
            }
            return Ok(());
        }
        let spans =
            results(body, nodes.len(), |reader| span(reader, |reader| data_value(reader, &mut false)).map(drop))?;
        if what == What::Present {
            for (question, span) in nodes.iter().zip(spans) {
                if let Some(value) = bounds::value(span) {
                    book.know(&question.real, holder, value);
                }
            }
            return Ok(());
        }
        link.facts.learn(nodes.into_iter().zip(spans), now);
        Ok(())
    }
}

/// The body of a request for an attribute of these nodes.
fn reading(desk: &Desk<'_>, chunk: &[Question], attribute: AttributeId) -> Vec<u8> {
    // No age, no timestamps.
    let mut body = vec![0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0];
    write_len(&mut body, chunk.len());
    for Question { real, seen } in chunk {
        body.extend_from_slice(&if *seen { encoded(real) } else { desk.never(real) });
        body.extend_from_slice(&(attribute as u32).to_le_bytes());
        body.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    }
    body
}

/// The body of a request for the nodes of their EURanges.
fn paths_to_ranges(desk: &Desk<'_>, chunk: &[Question]) -> Vec<u8> {
    let mut body = Vec::new();
    write_len(&mut body, chunk.len());
    for Question { real, seen } in chunk {
        body.extend_from_slice(&if *seen { encoded(real) } else { desk.never(real) });
        write_len(&mut body, 1);
        // HasProperty and its subtypes, forward, to EURange.
        body.extend_from_slice(&[0, 46, 0, 1, 0, 0, 7, 0, 0, 0]);
        body.extend_from_slice(b"EURange");
    }
    body
}

/// What is known of a node, and not old.
pub(super) fn known(desk: &Desk<'_>, node: &NodeId) -> Option<Restrictions> {
    let known = desk.link.facts.restrictions.get(node)?;
    known.at.filter(|at| desk.now.mono.since(*at) < FRESH).map(|_| known.restrictions)
}

/// These nodes, whose restrictions must be asked for, in parts as large as the server takes them; what was known of them
/// is not any more.
pub(super) fn to_ask(desk: &mut Desk<'_>, nodes: Vec<NodeId>) -> Vec<Vec<NodeId>> {
    if desk.link.facts.restrictions.len() >= MOST {
        desk.link.facts.forget_nodes();
    }
    for node in &nodes {
        desk.link.facts.restrictions.remove(node);
    }
    let most = match desk.mapping.limits.read {
        0 => AT_ONCE,
        limit => AT_ONCE.min(limit as usize),
    };
    nodes.chunks(most).map(<[NodeId]>::to_vec).collect()
}

fn questions(nodes: &[NodeId]) -> Vec<Question> {
    nodes.iter().map(|real| Question { real: real.clone(), seen: true }).collect()
}

/// Asks for the restrictions of nodes that the session may know of.
pub(super) fn ask_restrictions(desk: &mut Desk<'_>, nodes: &[NodeId], part: u32) -> Result<(), StatusCode> {
    let body = reading(desk, &questions(nodes), AttributeId::AccessRestrictions);
    desk.send(READ, body, part)
}

/// What was said of them for certain. Of what lasts as much is kept as there is room for.
pub(super) fn take_restrictions(
    desk: &mut Desk<'_>,
    nodes: Vec<NodeId>,
    body: &[u8],
) -> Result<Vec<(NodeId, Restrictions)>, StatusCode> {
    let spans = results(body, nodes.len(), |reader| span(reader, |reader| data_value(reader, &mut false)).map(drop))?;
    let (now, facts) = (desk.now.mono, &mut desk.link.facts.restrictions);
    let mut certain = Vec::with_capacity(nodes.len());
    for (node, span) in nodes.into_iter().zip(spans) {
        let Some((lasting, restrictions)) = said(span) else { continue };
        if lasting && facts.len() < MOST {
            facts.insert(node.clone(), Known { at: Some(now), restrictions });
        }
        certain.push((node, restrictions));
    }
    Ok(certain)
}

/// What the value of the attribute says for certain, and whether it holds for longer than this request. A passing trouble,
/// or a server that does not tell, leaves the node unknown: whoever could bring that about would be rid of the restriction.
fn said(value: &[u8]) -> Option<(bool, Restrictions)> {
    match (status_of(value), parts_of(value)) {
        // A UInt16.
        (status, Some((_, [5, low, high], _))) if status.is_good() => {
            Some((true, Restrictions::from_bits(u16::from_le_bytes([*low, *high]))))
        }
        // A server that has no such attribute, or nothing in it, restricts nothing by it.
        (status, None | Some((_, [] | [0], _))) if status.is_good() => Some((true, Restrictions::NONE)),
        (StatusCode::BadAttributeIdInvalid, _) => Some((true, Restrictions::NONE)),
        // It may be there the next time.
        (StatusCode::BadNodeIdUnknown, _) => Some((false, Restrictions::NONE)),
        _ => None,
    }
}

/// Where the path to the EURange leads; nothing if that was not said for certain.
fn range(reader: &mut Reader<'_>) -> Result<Option<Option<NodeId>>, Malformed> {
    let status = StatusCode::from(reader.u32()?);
    let mut target = None;
    for _ in 0..reader.array_len(6)? {
        let at = expanded(reader)?;
        let whole = reader.u32()? == u32::MAX && at.uri.is_none() && at.server == 0;
        target = target.or(Some(at.id).filter(|_| whole));
    }
    Ok(match status {
        status if status.is_good() => Some(target),
        StatusCode::BadNoMatch => Some(None),
        _ => None,
    })
}

impl Desk<'_> {
    /// What the client's channel does not meet of what the guard's own to the server does.
    pub(super) fn unmet_by_client(&self) -> Restrictions {
        let own = self.link.identity.session.choice.endpoint.security_mode;
        let mode = self.front.session(self.key).map_or(MessageSecurityMode::None, |session| session.binding.mode);
        match (mode, own) {
            (MessageSecurityMode::SignAndEncrypt, _) | (_, MessageSecurityMode::None) => Restrictions::NONE,
            (MessageSecurityMode::Sign, MessageSecurityMode::SignAndEncrypt) => Restrictions::ENCRYPTION,
            (MessageSecurityMode::Sign, _) => Restrictions::NONE,
            (_, MessageSecurityMode::SignAndEncrypt) => Restrictions::SIGNING | Restrictions::ENCRYPTION,
            _ => Restrictions::SIGNING,
        }
    }

    /// Whether the server asks for a better channel for this node than the client has, or did not say that it does not.
    pub(super) fn restricted(&self, id: &NodeId) -> bool {
        let unmet = self.unmet_by_client();
        if unmet.is_empty() {
            return false;
        }
        let known = self.link.facts.restrictions.get(&self.real(id));
        known.is_none_or(|known| known.restrictions.touches(unmet))
    }

    /// The same for browsing, which is restricted only where the server says so.
    pub(super) fn restricted_to_browse(&self, id: &NodeId) -> bool {
        let unmet = self.unmet_by_client();
        if unmet.is_empty() {
            return false;
        }
        let known = self.link.facts.restrictions.get(&self.real(id)).map(|known| known.restrictions);
        known.is_none_or(|known| known.touches(unmet) && known.touches(Restrictions::BROWSE))
    }

    /// Whether the session may have what a percent deadband of this node tells.
    pub(super) fn reads_range(&self, id: &NodeId) -> bool {
        let range = self.link.facts.ranges.get(&self.real(id)).and_then(|(_, range)| range.as_ref());
        range.is_some_and(|range| self.rights(self.mapping.table.scope(range)).contains(Rights::READ))
    }
}

impl Guard {
    /// Asks for what must be known, or starts the request if all of it is.
    pub(super) fn learn(
        &mut self,
        key: SessionKey,
        link: &mut Link,
        (number, ticket, deadline): (u64, Ticket, Mono),
        (taken, round): (Box<Taken>, u8),
        now: Now,
    ) {
        let status = match self.at_desk(key, link, (number, deadline), now, |desk| start(desk, taken, round)) {
            Some(Ok(learning)) => {
                link.jobs.insert(number, Job { ticket, deadline, work: Work::Learning(learning) });
                return;
            }
            Some(Err(Ok(taken))) => return self.begin_known(key, link, (number, ticket, deadline), taken, now),
            Some(Err(Err(status))) => status,
            None => StatusCode::BadServerNotConnected,
        };
        self.front.interlocks().release((key.serial, number), now);
        self.front.refuse(ticket, status, now);
    }

    /// A question about nodes was answered; when the last one is, the request starts.
    pub(super) fn learned_of_nodes(
        &mut self,
        key: SessionKey,
        link: &mut Link,
        (number, part): (u64, u32),
        answer: Result<Vec<u8>, StatusCode>,
        now: Now,
    ) {
        let Some(Job { ticket, deadline, work: Work::Learning(mut learning) }) = link.jobs.remove(&number) else {
            return;
        };
        learning.open = learning.open.saturating_sub(1);
        let holder = (key.serial, number);
        let book = (self.front.interlocks(), holder);
        let taken = match answer {
            Err(_) if learning.is_lookup(part) => Ok(()),
            answer => answer.map_err(told).and_then(|body| learning.take(link, book, (part, &body), now.mono)),
        };
        match taken {
            Err(status) => {
                self.front.interlocks().release(holder, now);
                self.front.refuse(ticket, status, now);
            }
            Ok(()) if learning.open > 0 => {
                link.jobs.insert(number, Job { ticket, deadline, work: Work::Learning(learning) });
            }
            Ok(()) => {
                let Learning { taken, round, .. } = learning;
                self.learn(key, link, (number, ticket, deadline), (taken, round + 1), now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(status: Option<StatusCode>, variant: &[u8]) -> Vec<u8> {
        let mut out = vec![u8::from(!variant.is_empty()) | if status.is_some() { 2 } else { 0 }];
        out.extend_from_slice(variant);
        status.iter().for_each(|status| out.extend_from_slice(&status.bits().to_le_bytes()));
        out
    }

    #[test]
    fn only_what_is_certain_is_learned_of_restrictions() {
        use StatusCode as S;
        let encryption = Restrictions::from_bits(2);
        for (rule, status, variant, expected) in [
            ("a value", None, [5, 2, 0].as_slice(), Some((true, encryption))),
            ("none", None, &[5, 0, 0], Some((true, Restrictions::NONE))),
            ("nothing in it", None, &[], Some((true, Restrictions::NONE))),
            ("no such attribute", Some(S::BadAttributeIdInvalid), &[], Some((true, Restrictions::NONE))),
            ("no such node, for now", Some(S::BadNodeIdUnknown), &[], Some((false, Restrictions::NONE))),
            ("a server without time", Some(S::BadTimeout), &[], None),
            ("a node that does not answer", Some(S::BadCommunicationError), &[], None),
            ("a server that does not tell", Some(S::BadUserAccessDenied), &[], None),
            ("a bad value", Some(S::BadOutOfService), &[5, 0, 0], None),
            ("another type", None, &[3, 0], None),
        ] {
            assert_eq!(said(&value(status, variant)), expected, "{rule}");
        }
    }

    #[test]
    fn only_what_is_certain_is_learned_of_ranges() {
        let answer = |status: StatusCode| [status.bits().to_le_bytes().as_slice(), &[0xff; 4]].concat();
        for (status, expected) in [
            (StatusCode::Good, Some(None)),
            (StatusCode::BadNoMatch, Some(None)),
            (StatusCode::BadTooManyOperations, None),
            (StatusCode::BadTimeout, None),
        ] {
            assert_eq!(range(&mut Reader::new(&answer(status))).unwrap(), expected, "{status}");
        }
    }
}
