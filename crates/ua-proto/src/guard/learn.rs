//! What the guard has to know of nodes before it can decide about them, asked of the upstream server once and again when
//! it is old:
//!
//! - their AccessRestrictions, where the client's channel is weaker than the guard's own to the server, which the server
//!   takes for the client's (OPC 10000-3 §8.56);
//! - the EURange that a percent deadband is a part of: who may not read it would learn of it by what is told and what is
//!   not (OPC 10000-8 §7.2).
//!
//! Of hidden nodes a node that never exists is asked in their place.

use std::collections::HashMap;
use std::time::Duration;

use access_model::{Mono, Now, Restrictions, Rights};
use opcua_types::{AttributeId, MessageSecurityMode, NodeId, ObjectId, StatusCode};

use super::desk::{Desk, encoded, told};
use super::link::{Job, Link, Work};
use super::walk::{data_value, expanded, parts_of, results, span};
use super::{Guard, call, change, history, history_read, nodes, read, subs, write};
use crate::server::front::{Service, SessionKey, Taken, write_len};

const READ: (ObjectId, ObjectId) =
    (ObjectId::ReadRequest_Encoding_DefaultBinary, ObjectId::ReadResponse_Encoding_DefaultBinary);
const TRANSLATE: (ObjectId, ObjectId) = (
    ObjectId::TranslateBrowsePathsToNodeIdsRequest_Encoding_DefaultBinary,
    ObjectId::TranslateBrowsePathsToNodeIdsResponse_Encoding_DefaultBinary,
);
/// How long what was learned holds.
const FRESH: Duration = Duration::from_secs(60);
/// Most nodes of which something is kept.
const MOST: usize = 10_000;
/// Most nodes asked about at once.
const AT_ONCE: usize = 500;

/// What is known of nodes, for one session upstream.
#[derive(Default)]
pub(super) struct Facts {
    restrictions: HashMap<NodeId, (Mono, Restrictions)>,
    /// The node of the EURange, if there is one.
    ranges: HashMap<NodeId, (Mono, Option<NodeId>)>,
}

impl Facts {
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

/// A request that waits for answers to questions of the guard.
pub(super) struct Learning {
    taken: Box<Taken>,
    /// The nodes that each part asks about, and whether for their EURange.
    parts: Vec<(Vec<NodeId>, bool)>,
    open: usize,
}

/// Asks for what must be known before this request can be decided; `None` if all of it is.
pub(super) fn start(desk: &mut Desk<'_>, taken: Box<Taken>) -> Result<Learning, Result<Box<Taken>, StatusCode>> {
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
    if restricted.is_empty() && ranged.is_empty() {
        return Err(Ok(taken));
    }
    let old = desk.now.mono;
    // Before anything counts as known: what is forgotten now is asked for again.
    if desk.link.facts.restrictions.len().saturating_add(desk.link.facts.ranges.len()) > MOST {
        desk.link.facts.forget();
    }
    let facts = &desk.link.facts;
    let known = |at: Option<&Mono>| at.is_some_and(|at| old.since(*at) < FRESH);
    let restricted = distinct(restricted, |id| known(facts.restrictions.get(id).map(|(at, _)| at)));
    let ranged = distinct(ranged, |id| known(facts.ranges.get(id).map(|(at, _)| at)));
    if restricted.is_empty() && ranged.is_empty() {
        return Err(Ok(taken));
    }
    let mut learning = Learning { taken, parts: Vec::new(), open: 0 };
    let sent = learning.ask(desk, &restricted, false).and_then(|()| learning.ask(desk, &ranged, true));
    sent.map(|()| learning).map_err(Err)
}

fn distinct(mut nodes: Vec<NodeId>, known: impl Fn(&NodeId) -> bool) -> Vec<NodeId> {
    let mut seen = std::collections::HashSet::new();
    nodes.retain(|id| !known(id) && seen.insert(id.clone()));
    nodes.truncate(MOST);
    nodes
}

/// The nodes that a request is about. One that cannot be read names none: its service says so.
fn touched(desk: &Desk<'_>, service: Service, body: &[u8]) -> Vec<NodeId> {
    let form = match service {
        Service::Read => return read::nodes(body),
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
    fn ask(&mut self, desk: &mut Desk<'_>, nodes: &[NodeId], ranges: bool) -> Result<(), StatusCode> {
        let limit = if ranges { desk.mapping.limits.translate } else { desk.mapping.limits.read };
        let most = if limit == 0 { AT_ONCE } else { AT_ONCE.min(limit as usize) };
        for chunk in nodes.chunks(most) {
            let mut body = Vec::new();
            if !ranges {
                // No age, no timestamps.
                body.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0]);
            }
            write_len(&mut body, chunk.len());
            for id in chunk {
                let bytes = encoded(&desk.real(id));
                let seen = desk.visible(desk.scope(id));
                body.extend_from_slice(&if seen { bytes } else { desk.never(id) });
                if ranges {
                    write_len(&mut body, 1);
                    // HasProperty and its subtypes, forward, to EURange.
                    body.extend_from_slice(&[0, 46, 0, 1, 0, 0, 7, 0, 0, 0]);
                    body.extend_from_slice(b"EURange");
                } else {
                    body.extend_from_slice(&(AttributeId::AccessRestrictions as u32).to_le_bytes());
                    body.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff]);
                }
            }
            let part = u32::try_from(self.parts.len()).unwrap_or(u32::MAX);
            desk.send(if ranges { TRANSLATE } else { READ }, body, part)?;
            self.parts.push((chunk.to_vec(), ranges));
            self.open += 1;
        }
        Ok(())
    }

    fn take(&mut self, link: &mut Link, part: u32, body: &[u8], now: Mono) -> Result<(), StatusCode> {
        let Some((nodes, ranges)) = self.parts.get_mut(part as usize).map(std::mem::take) else { return Ok(()) };
        if ranges {
            let mut found = Vec::with_capacity(nodes.len());
            results(body, nodes.len(), |reader| {
                let good = StatusCode::from(reader.u32()?).is_good();
                let mut target = None;
                for _ in 0..reader.array_len(6)? {
                    let at = expanded(reader)?;
                    let whole = reader.u32()? == u32::MAX && at.uri.is_none() && at.server == 0;
                    target = target.or(Some(at.id).filter(|_| whole && good));
                }
                found.push(target);
                Ok(())
            })?;
            link.facts.ranges.extend(nodes.into_iter().zip(found).map(|(id, target)| (id, (now, target))));
            return Ok(());
        }
        let spans =
            results(body, nodes.len(), |reader| span(reader, |reader| data_value(reader, &mut false)).map(drop))?;
        let restrictions = spans.into_iter().map(|span| match parts_of(span) {
            // A UInt16; a server that has no such attribute restricts nothing by it.
            Some((_, [5, low, high], _)) => Restrictions::from_bits(u16::from_le_bytes([*low, *high])),
            _ => Restrictions::NONE,
        });
        link.facts.restrictions.extend(nodes.into_iter().zip(restrictions).map(|(id, known)| (id, (now, known))));
        Ok(())
    }
}

impl Desk<'_> {
    /// What the client's channel does not meet of what the guard's own to the server does.
    fn unmet_by_client(&self) -> Restrictions {
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

    /// Whether the server asks for a better channel for this node than the client has.
    pub(super) fn restricted(&self, id: &NodeId) -> bool {
        let unmet = self.unmet_by_client();
        !unmet.is_empty() && self.link.facts.restrictions.get(id).is_some_and(|(_, asked)| asked.touches(unmet))
    }

    /// Whether the session may have what a percent deadband of this node tells.
    pub(super) fn reads_range(&self, id: &NodeId) -> bool {
        let range = self.link.facts.ranges.get(id).and_then(|(_, range)| range.as_ref());
        range.is_some_and(|range| self.rights(self.mapping.table.scope(range)).contains(Rights::READ))
    }
}

impl Guard {
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
        let taken = answer.map_err(told).and_then(|body| learning.take(link, part, &body, now.mono));
        match taken {
            Err(status) => self.front.refuse(ticket, status, now),
            Ok(()) if learning.open > 0 => {
                link.jobs.insert(number, Job { ticket, deadline, work: Work::Learning(learning) });
            }
            Ok(()) => {
                let work = Work::Waiting(learning.taken);
                link.jobs.insert(number, Job { ticket, deadline, work });
                self.begin_known(key, link, number, now);
            }
        }
    }
}
