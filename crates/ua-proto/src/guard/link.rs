//! One session at the upstream server, and what waits for its answers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use access_model::{Mono, Now, ScopeIndex};
use opcua_types::{NodeId, ObjectId, StatusCode};

use super::config::UpstreamIdentity;
use super::io::LinkId;
use super::pool::{Berth, Shared};
use super::subs::{self, Late, Own, Subscriptions};
use super::survey::{Mapping, Moment};
use super::{browse, change, history_events, history_read, learn, read, register, translate};
use crate::client::{CallId, ClientSession, RawRequest, Request};
use crate::server::front::{Reader, Taken, Ticket};

/// A request that gives something back: its type and that of its response, and its body.
pub(super) type Unwanted = ((ObjectId, ObjectId), Vec<u8>);

/// How far a link has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Not connected; the next attempt is at this time.
    Down { at: Mono },
    /// A connection is being made, until then at the latest.
    Dialing { until: Mono },
    /// Channel and session are being opened.
    Opening,
    /// The NamespaceArray was asked for.
    Checking,
    /// The NamespaceArray is not the one that the scopes were made for: nothing is forwarded.
    Unmapped,
    /// Subscriptions are restored; requests wait for that.
    Restoring,
    /// Requests are forwarded.
    Ready,
}

/// What an alias stands for.
#[derive(Clone, Debug)]
pub(super) struct Alias {
    pub(super) scope: ScopeIndex,
    /// The NodeId that was registered.
    pub(super) real: Vec<u8>,
    /// The session in which the server gave it, as [`Link::session`] counts them.
    pub(super) session: u64,
}

/// Where a browse goes on.
pub(super) struct Point {
    pub(super) node: NodeId,
    pub(super) scope: ScopeIndex,
    pub(super) max: usize,
    /// References that did not fit the page any more.
    pub(super) held: Vec<browse::Reference>,
    /// The server's continuation point.
    pub(super) upstream: Option<Vec<u8>>,
}

/// The continuation points of one session.
pub(super) struct Points {
    most: usize,
    last: u64,
    points: BTreeMap<u64, Point>,
    /// Bytes of the references that did not fit.
    weight: usize,
}

impl Points {
    pub(super) fn new(most: usize) -> Self {
        Self { most, last: 0, points: BTreeMap::new(), weight: 0 }
    }

    /// Keeps a point; gives it back when there are too many.
    pub(super) fn add(&mut self, point: Point) -> Result<[u8; 8], Box<Point>> {
        if self.points.len() >= self.most {
            return Err(Box::new(point));
        }
        self.last += 1;
        self.weight = self.weight.saturating_add(browse::weight(&point.held));
        self.points.insert(self.last, point);
        Ok(self.last.to_le_bytes())
    }

    pub(super) fn take(&mut self, id: &[u8]) -> Option<Point> {
        let point = self.points.remove(&u64::from_le_bytes(id.try_into().ok()?))?;
        self.weight = self.weight.saturating_sub(browse::weight(&point.held));
        Some(point)
    }

    /// Gives up the points at which references are held; gives the server's ids of them, which are void from now on.
    pub(super) fn unburden(&mut self) -> Vec<Vec<u8>> {
        self.weight = 0;
        let heavy = self.points.extract_if(.., |_, point| !point.held.is_empty());
        heavy.filter_map(|(_, point)| point.upstream).collect()
    }

    /// The node of a point.
    pub(super) fn node(&self, id: &[u8]) -> Option<&NodeId> {
        self.points.get(&u64::from_le_bytes(id.try_into().ok()?)).map(|point| &point.node)
    }

    /// The server's ids of them, which are void from now on.
    pub(super) fn take_upstream(&mut self) -> Vec<Vec<u8>> {
        self.weight = 0;
        std::mem::take(&mut self.points).into_values().filter_map(|point| point.upstream).collect()
    }

    /// The server has forgotten its points.
    pub(super) fn forget(&mut self) {
        self.weight = 0;
        self.points.clear();
    }
}

/// A request of the client that is not answered yet.
pub(super) struct Job {
    pub(super) ticket: Ticket,
    pub(super) deadline: Mono,
    pub(super) work: Work,
}

/// How far it has come.
pub(super) enum Work {
    /// The link is not ready.
    Waiting(Box<Taken>),
    /// Something must be known before it is decided.
    Learning(learn::Learning),
    Read(read::Asked),
    HistoryRead(history_read::Asked),
    HistoryEvents(Box<history_events::Asked>),
    Change(Box<change::Asked>),
    Browse(browse::Asked),
    Translate(translate::Asked),
    Register(register::Asked),
    Subscription(Box<subs::Asked>),
    Transfer(subs::Moving),
}

impl Work {
    /// Bytes that it holds, beside what is small for all.
    fn weight(&self) -> usize {
        match self {
            Self::Waiting(taken) => taken.body.len(),
            Self::Learning(learning) => learning.weight(),
            Self::Change(asked) => asked.weight(),
            Self::Browse(asked) => asked.weight(),
            Self::Translate(asked) => asked.weight(),
            Self::HistoryRead(asked) => asked.weight(),
            Self::HistoryEvents(asked) => asked.weight(),
            Self::Read(_) | Self::Register(_) | Self::Subscription(_) | Self::Transfer(_) => 0,
        }
    }

    /// Whether a subscription may come of it.
    pub(super) fn makes_subscription(&self) -> bool {
        matches!(self, Self::Subscription(asked) if asked.makes_subscription())
    }
}

/// The link.
pub(super) struct Link {
    pub(super) identity: UpstreamIdentity,
    pub(super) stage: Stage,
    pub(super) wire: Option<LinkId>,
    pub(super) client: Option<ClientSession>,
    /// Its place in a pool, in place of a connection of its own.
    pub(super) berth: Option<Box<Berth>>,
    /// What those share who have a place in it.
    pub(super) shared: Option<Box<Shared>>,
    /// Which of the identities it uses, counted from 0.
    pub(super) place: usize,
    pub(super) pause: Duration,
    /// Since when the session that is being opened is.
    pub(super) dialed: Option<Mono>,
    /// Since when there is no upstream session.
    pub(super) down_since: Option<Mono>,
    /// Why the last connection ended.
    pub(super) trouble: Option<StatusCode>,
    /// The NamespaceArray of this session.
    pub(super) namespaces: Vec<String>,
    /// When the server behind this session was started.
    pub(super) started: Option<Moment>,
    /// When the server was started that the subscriptions were made at.
    pub(super) run: Option<Moment>,
    /// The session is a new one, and what it restores was not begun.
    pub(super) fresh: bool,
    /// The scopes by which aliases, continuation points and monitored items were made.
    pub(super) bound: Option<Arc<Mapping>>,
    /// Its session is over; how long it is tried to close what is left upstream.
    pub(super) closing: Option<Mono>,
    pub(super) question: Option<CallId>,
    pub(super) jobs: BTreeMap<u64, Job>,
    /// Numbers are the session's, not the link's: what is held for one, or waits for the ledger, is no other's.
    pub(super) last_job: u64,
    /// For each the request it is of, which part of it, and when it was sent.
    pub(super) in_flight: HashMap<CallId, (u64, u32, Mono)>,
    /// Requests that no request of the client waits for.
    pub(super) own: HashMap<CallId, Own>,
    pub(super) subs: Subscriptions,
    /// Counts the upstream sessions.
    pub(super) session: u64,
    pub(super) aliases: HashMap<NodeId, Alias>,
    pub(super) points: Points,
    pub(super) history: history_read::Points,
    /// Requests that give back what is kept at the server for nobody.
    pub(super) loose: Vec<Unwanted>,
    pub(super) facts: learn::Facts,
    /// Bytes that are counted for it, as long as no session holds them.
    pub(super) counted: usize,
}

impl Link {
    pub(super) fn new(identity: UpstreamIdentity, now: Mono, points: usize, first_handle: u32) -> Self {
        Self {
            identity,
            stage: Stage::Down { at: now },
            wire: None,
            client: None,
            berth: None,
            shared: None,
            place: 0,
            pause: Duration::ZERO,
            dialed: None,
            down_since: Some(now),
            trouble: None,
            namespaces: Vec::new(),
            started: None,
            run: None,
            fresh: true,
            bound: None,
            closing: None,
            question: None,
            jobs: BTreeMap::new(),
            last_job: 0,
            in_flight: HashMap::new(),
            own: HashMap::new(),
            subs: Subscriptions::with_handles(first_handle),
            session: 0,
            aliases: HashMap::new(),
            points: Points::new(points),
            history: history_read::Points::default(),
            loose: Vec::new(),
            facts: learn::Facts::default(),
            counted: 0,
        }
    }

    /// When something has to be done about it, its client session's own deadlines included.
    pub(super) fn poll_timeout(&self) -> Option<Mono> {
        let stage = match self.stage {
            Stage::Down { at } => Some(at),
            Stage::Dialing { until } => Some(until),
            _ => None,
        };
        let client = self.client.as_ref().filter(|_| self.wire.is_some()).and_then(ClientSession::poll_timeout);
        // Nobody waits for the jobs of one that is being closed.
        let jobs = self.jobs.values().map(|job| job.deadline).min().filter(|_| self.closing.is_none());
        [stage, client, jobs, self.subs.poll_timeout(), self.closing].into_iter().flatten().min()
    }

    /// Bytes that are held for its session: what requests have gathered, references and history that did not fit a page, what
    /// was learned, and what waits on the connection to the server or has begun to come.
    pub(super) fn weight(&self) -> usize {
        let jobs: usize = self.jobs.values().map(|job| job.work.weight()).sum();
        let client = self.client.as_ref().map_or(0, ClientSession::burden);
        let points = self.points.weight.saturating_add(self.history.weight());
        jobs.saturating_add(points).saturating_add(self.facts.weight()).saturating_add(client)
    }

    /// From now on it goes by these scopes. Under another NamespaceArray the names that were given out mean something else:
    /// subscriptions end, aliases and continuation points are void.
    pub(super) fn bind(&mut self, mapping: Arc<Mapping>) {
        let before = self.bound.replace(Arc::clone(&mapping));
        if before.is_some_and(|before| before.table.namespaces() != mapping.table.namespaces()) {
            self.aliases.clear();
            self.points.forget();
            self.history.forget();
            self.facts.forget();
            self.subs.end_all(StatusCode::BadSubscriptionIdInvalid);
            return;
        }
        #[expect(clippy::disallowed_methods, reason = "each by itself")]
        for alias in self.aliases.values_mut() {
            alias.scope = Reader::new(&alias.real).node_id().map_or(ScopeIndex::NOWHERE, |id| mapping.table.scope(&id));
        }
        self.subs.rescope(|id| mapping.table.scope(id));
    }

    /// A request is given up before the server has answered it. What the server makes of it all the same is deleted when
    /// the answer comes; what it changes is held until then.
    pub(super) fn outlive(&mut self, number: u64, work: &mut Work) {
        let late = match work {
            Work::Subscription(asked) => asked.late(&mut self.subs),
            Work::Transfer(moving) => moving.late(),
            Work::Browse(asked) => {
                self.loose.extend(browse::unwanted(asked.held()));
                asked.late()
            }
            Work::Translate(asked) => {
                self.loose.extend(browse::unwanted(asked.held()));
                asked.late()
            }
            Work::HistoryRead(asked) => asked.late(),
            Work::HistoryEvents(asked) => {
                self.loose.extend(asked.held());
                asked.late()
            }
            Work::Register(asked) => asked.late(),
            Work::Change(asked) => asked.is_sent().then_some(Late::Change(number)),
            Work::Waiting(_) | Work::Learning(_) | Work::Read(_) => None,
        };
        let Some(late) = late else { return };
        // Only changes have more than one part of which something comes.
        let counts = |part: u32| part == 0 || matches!(late, Late::Change(_));
        let of_it = self.in_flight.extract_if(|_, (of, part, _)| *of == number && counts(*part));
        self.own.extend(of_it.map(|(call, _)| (call, Own::Late(late.clone()))));
    }

    /// Its session is somebody else's: the places where it could go on are given back.
    pub(super) fn loosen(&mut self) {
        self.loose.extend(browse::unwanted(self.points.take_upstream()));
        self.loose.extend(self.history.take_releases());
    }

    /// What is kept at the server for nobody is given back. Nobody waits for the answer.
    pub(super) fn give_back(&mut self, now: Now) {
        if self.loose.is_empty() || !self.is_active() {
            return;
        }
        for ((request, response), body) in std::mem::take(&mut self.loose) {
            let _kept_no_longer = self.request(Request::Raw(RawRequest::new(request, response, body)), None, now);
        }
    }

    /// The last request under way by which a subscription may be made, up to this one; the guard's own have no number.
    pub(super) fn makes_subscription(&self, up_to: u64) -> Option<u64> {
        #[expect(clippy::disallowed_methods, reason = "whether there is one")]
        if self.own.values().any(Own::makes_subscription) {
            return Some(0);
        }
        let mut makers = self.jobs.range(..=up_to).filter(|(_, job)| job.work.makes_subscription());
        makers.next_back().map(|(number, _)| *number)
    }

    /// The upstream session is another one: what the server kept for the old one is gone.
    pub(super) fn forget_session(&mut self) {
        self.points.forget();
        self.history.forget();
        self.loose.clear();
        self.session += 1;
        self.fresh = true;
        self.subs.forget_session();
    }
}
