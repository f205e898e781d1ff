//! What a server makes that nobody waits for any more: it is deleted when its answer comes, or when a message shows that it
//! is there. Left alone it would sample and queue for as long as the session upstream lives, and take the place of others.

use std::collections::BTreeMap;

use access_model::Now;
use opcua_types::{NodeId, ObjectId, StatusCode};

use super::publish::Own;
use super::restore::Step;
use super::services::{item_result, write_numbers};
use crate::guard::link::Link;
use crate::guard::links::Owner;
use crate::guard::walk::results;
use crate::guard::{Guard, browse, history_read, register};
use crate::server::front::{Reader, SessionKey};

const DELETE_ITEMS: (ObjectId, ObjectId) = (
    ObjectId::DeleteMonitoredItemsRequest_Encoding_DefaultBinary,
    ObjectId::DeleteMonitoredItemsResponse_Encoding_DefaultBinary,
);
/// Most strangers of which it is known who may have made them.
const MOST: usize = 64;

/// What a request was for whose client waits no longer.
#[derive(Clone)]
pub(in crate::guard) enum Late {
    /// A subscription.
    Subscription,
    /// So many items of a subscription with this id at the server.
    Items { upstream: u32, count: usize },
    /// Subscriptions that move from other sessions: the guard's id, the server's, and whose they are.
    Moved(Vec<(u32, u32, SessionKey)>),
    /// So many nodes that were browsed: places to go on from.
    Browse(usize),
    /// The same of history.
    HistoryRead(history_read::Again),
    /// Aliases of these nodes.
    Register(Vec<NodeId>),
    /// The plant is changed, by the request with this number: its nodes are held.
    Change(u64),
}

/// Subscriptions that messages came of and that nobody has: left over, or made by a request whose answer is on the way. A
/// request that was sent after the first message cannot have made them, so nobody keeps one alive by asking for others.
#[derive(Default)]
pub(in crate::guard) struct Strangers(BTreeMap<u32, BTreeMap<Owner, u64>>);

impl Strangers {
    /// Whether nobody can have made it: not `makers`, whose answers are on the way now, and of those who were on the way
    /// when it was first heard of, none `still` is.
    pub(in crate::guard) fn unclaimed(
        &mut self,
        upstream: u32,
        makers: BTreeMap<Owner, u64>,
        still: impl Fn(Owner, u64) -> bool,
    ) -> bool {
        match self.0.get(&upstream) {
            Some(seen) if seen.iter().any(|(owner, number)| still(*owner, *number)) => return false,
            None if !makers.is_empty() => {
                if self.0.len() >= MOST {
                    self.0.pop_first();
                }
                self.0.insert(upstream, makers);
                return false;
            }
            _ => {}
        }
        self.0.remove(&upstream);
        true
    }

    /// The server counts anew.
    pub(in crate::guard) fn forget(&mut self) {
        self.0.clear();
    }
}

impl Own {
    /// Whether a subscription may come of it that somebody has.
    pub(in crate::guard) fn makes_subscription(&self) -> bool {
        matches!(self, Self::Restore(Step::Create { .. }))
    }

    /// What is to be done with the answer when its session has ended.
    pub(in crate::guard) fn left_behind(self) -> Option<Late> {
        match self {
            Self::Restore(Step::Create { .. }) => Some(Late::Subscription),
            // The items of a subscription end with it.
            Self::Late(late @ (Late::Subscription | Late::Moved(_) | Late::Browse(_) | Late::HistoryRead(_))) => {
                Some(late)
            }
            _ => None,
        }
    }
}

impl Guard {
    /// The answer has come that nobody waits for.
    pub(super) fn came_late(&mut self, link: &mut Link, late: Late, body: &[u8], now: Now) {
        match late {
            Late::Subscription => {
                if let Ok(upstream) = Reader::new(body).u32() {
                    self.discard(link, upstream, now);
                }
            }
            Late::Items { upstream, count } => {
                let spans = results(body, count, |reader| item_result(reader, true)).unwrap_or_default();
                let made = spans.iter().filter_map(|span| {
                    let mut reader = Reader::new(span);
                    let (status, id) = (StatusCode::from(reader.u32().ok()?), reader.u32().ok()?);
                    (!status.is_bad()).then_some(id)
                });
                let made: Vec<u32> = made.collect();
                if !made.is_empty() {
                    let mut body = upstream.to_le_bytes().to_vec();
                    write_numbers(&mut body, &made);
                    self.ask_own(link, DELETE_ITEMS, body, Step::Discard, now);
                }
            }
            Late::Moved(moved) => {
                for upstream in self.moved_away(&moved, body, now) {
                    self.discard(link, upstream, now);
                }
            }
            Late::Browse(count) => link.loose.extend(browse::came_late(body, count)),
            Late::HistoryRead(again) => link.loose.extend(history_read::came_late(&again, body)),
            Late::Register(nodes) => {
                let unwanted = register::came_late(link, &nodes, body);
                link.loose.extend(unwanted);
            }
            Late::Change(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::LinkId;

    #[test]
    fn who_asks_later_does_not_keep_a_stranger_alive() {
        let owner = Owner::Closing(LinkId(1));
        let making = |number| BTreeMap::from([(owner, number)]);
        let mut strangers = Strangers::default();
        assert!(strangers.unclaimed(7, BTreeMap::new(), |_, _| true), "nobody makes anything");
        assert!(!strangers.unclaimed(7, making(3), |_, _| true), "it may be the third request's");
        assert!(!strangers.unclaimed(7, making(4), |_, number| number == 3), "which is still under way");
        assert!(strangers.unclaimed(7, making(4), |_, number| number == 4), "the fourth came after it");
        for id in 0..1_000 {
            assert!(!strangers.unclaimed(id, making(5), |_, _| true));
        }
        assert_eq!(strangers.0.len(), MOST);
    }
}
