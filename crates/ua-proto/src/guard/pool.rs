//! Sessions upstream that several sessions share, for servers that allow few: one for each identity.
//!
//! A session that shares has a berth in place of a connection of its own. Its requests wait there, are sent under the
//! pool's own call ids and answered to it alone, so nobody can be answered for somebody else. Publish is the exception:
//! the server answers the session, not the subscription, and who gets the message is decided by whose subscription it is.
//! Subscription, item and continuation ids of the server never leave the guard, and registered nodes are not asked for:
//! what the server would hand out for them is good for the whole session.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;

use access_model::{Mono, Now};
use opcua_types::{ObjectId, StatusCode};

use super::desk::not_sent;
use super::io::LinkId;
use super::link::{Link, Stage};
use super::links::Owner;
use super::subs::{Late, Own, Strangers};
use super::{Guard, browse, history_read};
use crate::client::{Activated, CallId, ClientEvent, ClientSession, RawRequest, Request, RequestError, Response};
use crate::server::front::{Reader, write_len};

const PUBLISH: ObjectId = ObjectId::PublishRequest_Encoding_DefaultBinary;
const PUBLISHED: ObjectId = ObjectId::PublishResponse_Encoding_DefaultBinary;
const DELETE: (ObjectId, ObjectId) = (
    ObjectId::DeleteSubscriptionsRequest_Encoding_DefaultBinary,
    ObjectId::DeleteSubscriptionsResponse_Encoding_DefaultBinary,
);
/// Names the answer to a Publish request of somebody else, with a message for this session. No request has this number.
pub(super) const UNASKED: CallId = CallId(0);
/// How long a Publish request may wait at the server.
const PATIENCE: Duration = Duration::from_secs(24 * 3_600);
/// How often a session without a connection looks for its pool; the pool tells it when it is there.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// A session's place in a pool.
pub(super) struct Berth {
    pub(super) pool: usize,
    active: bool,
    last: u64,
    outbox: VecDeque<(CallId, Request, Option<Duration>)>,
    inbox: VecDeque<ClientEvent>,
}

impl Berth {
    fn new(pool: usize) -> Self {
        Self { pool, active: false, last: 0, outbox: VecDeque::new(), inbox: VecDeque::new() }
    }

    pub(super) fn is_stirred(&self) -> bool {
        !self.outbox.is_empty() || !self.inbox.is_empty()
    }
}

/// What a pool keeps about those who share it.
#[derive(Default)]
pub(super) struct Shared {
    calls: BTreeMap<CallId, (Owner, CallId)>,
    /// Publish requests at the server.
    published: HashSet<CallId>,
    /// Publish requests of the sessions, in order.
    publishes: VecDeque<(Owner, CallId)>,
    /// What sessions that have ended asked for and is to be deleted.
    late: BTreeMap<CallId, Late>,
    strangers: Strangers,
}

impl Link {
    /// Sends a request over the link's own session, or its pool's.
    pub(super) fn request(
        &mut self,
        request: Request,
        timeout: Option<Duration>,
        now: Now,
    ) -> Result<CallId, RequestError> {
        match &mut self.berth {
            Some(berth) if !berth.active => Err(RequestError::NotActive),
            Some(berth) => {
                berth.last += 1;
                let id = CallId(berth.last);
                berth.outbox.push_back((id, request, timeout));
                Ok(id)
            }
            None => self.client.as_mut().ok_or(RequestError::NotActive)?.request(request, timeout, now),
        }
    }

    /// Whether requests are taken.
    pub(super) fn is_active(&self) -> bool {
        match &self.berth {
            Some(berth) => berth.active,
            None => self.client.as_ref().is_some_and(ClientSession::is_active),
        }
    }

    pub(super) fn poll_event(&mut self) -> Option<ClientEvent> {
        match &mut self.berth {
            Some(berth) => berth.inbox.pop_front(),
            None => self.client.as_mut().and_then(ClientSession::poll_event),
        }
    }
}

impl Guard {
    /// Makes sure that there is a pool for an identity.
    pub(super) fn open_pool(&mut self, pool: usize, now: Now) {
        let owner = Owner::Pool(pool);
        let Some(identity) = self.config.upstream.get(pool).cloned() else { return };
        if self.links.contains_key(&owner) {
            return;
        }
        let mut link = Box::new(Link::new(identity, now.mono, 0, 0));
        link.shared = Some(Box::default());
        self.dial(owner, &mut link, now);
        self.put_back(owner, link, now);
    }

    /// Whether the session that is shared where the server is full is open, or was refused. Until then nobody opens another: it
    /// could be the last one for which there is room. Gives why the server is out of reach, if it is.
    pub(super) fn pool_has_its_room(&mut self, pool: usize, now: Now) -> Result<(), Option<StatusCode>> {
        self.open_pool(pool, now);
        let pool = self.links.get(&Owner::Pool(pool)).filter(|pool| !pool.is_active());
        match pool.map(|pool| pool.trouble) {
            Some(trouble) if !is_refusal(trouble) => Err(trouble),
            _ => Ok(()),
        }
    }

    /// Gives a link a place in a pool.
    pub(super) fn take_berth(&mut self, link: &mut Link, pool: usize, now: Now) {
        self.open_pool(pool, now);
        link.client = None;
        let mut berth = Berth::new(pool);
        if self.links.get(&Owner::Pool(pool)).is_some_and(|pool| pool.is_active()) {
            berth.active = true;
            berth.inbox.push_back(ClientEvent::Activated(Activated::Fresh));
        }
        link.berth = Some(Box::new(berth));
        link.stage = Stage::Down { at: now.mono + LOOK };
    }

    /// A session with a berth looks for its pool.
    pub(super) fn look_for_pool(&mut self, link: &mut Link, now: Now) {
        let Some(pool) = link.berth.as_ref().map(|berth| berth.pool) else { return };
        self.open_pool(pool, now);
        link.stage = Stage::Down { at: now.mono + LOOK };
        let active = self.links.get(&Owner::Pool(pool)).is_some_and(|pool| pool.is_active());
        if let Some(berth) = link.berth.as_mut().filter(|_| active) {
            berth.active = true;
            berth.inbox.push_back(ClientEvent::Activated(Activated::Moved));
        }
    }

    /// Something happened to a pool that concerns everybody in it.
    fn tell_all(&mut self, pool: usize, active: bool, event: impl Fn() -> ClientEvent) {
        let all = self.links.iter_mut().filter(|(owner, _)| matches!(owner, Owner::Session(_)));
        for (owner, link) in all {
            if let Some(berth) = link.berth.as_mut().filter(|berth| berth.pool == pool) {
                berth.active = active;
                berth.inbox.push_back(event());
                self.stirred.insert(*owner);
            }
        }
    }

    fn tell(&mut self, owner: Owner, event: ClientEvent) {
        if let Some(berth) = self.links.get_mut(&owner).and_then(|link| link.berth.as_mut()) {
            berth.inbox.push_back(event);
            self.stirred.insert(owner);
        }
    }

    /// The pool's session may be used.
    pub(super) fn pool_activated(&mut self, pool: usize, link: &mut Link, kind: Activated, now: Now) {
        link.stage = Stage::Ready;
        link.pause = Duration::ZERO;
        (link.down_since, link.trouble) = (None, None);
        if let Some(shared) = link.shared.as_mut().filter(|_| kind == Activated::Fresh) {
            shared.strangers.forget();
        }
        self.tell_all(pool, true, || ClientEvent::Activated(kind));
        self.end_waiting(pool, now);
    }

    /// Those that waited for the pool to have its room, or to be refused, dial at once.
    fn end_waiting(&mut self, pool: usize, now: Now) {
        let waits = |link: &Link| {
            let down = matches!(link.stage, Stage::Down { at } if at != Mono::NEVER);
            down && link.place == pool && link.berth.is_none() && link.client.is_none()
        };
        let mut waiting = Vec::new();
        for (owner, link) in self.links.iter_mut().filter(|(_, link)| waits(link)) {
            if let Owner::Session(_) = owner {
                link.stage = Stage::Down { at: now.mono };
                waiting.push(*owner);
            }
        }
        for owner in waiting {
            self.arm_by(owner, Some(now.mono));
        }
    }

    /// The pool's server has forgotten its session; another is being made.
    pub(super) fn pool_lost(&mut self, pool: usize) {
        self.tell_all(pool, false, || ClientEvent::Lost);
    }

    /// The pool's connection is over.
    pub(super) fn pool_down(&mut self, pool: usize, link: &mut Link, status: StatusCode, now: Now) {
        let shared = link.shared.as_mut().map(std::mem::take).unwrap_or_default();
        let publishes = shared.publishes.into_iter();
        for (owner, call) in shared.calls.into_values().chain(publishes) {
            self.tell(owner, ClientEvent::Answer(call, Err(StatusCode::BadConnectionClosed)));
        }
        self.tell_all(pool, false, || ClientEvent::Disconnected(status));
        if is_refusal(link.trouble) {
            self.end_waiting(pool, now);
        }
    }

    /// A request over the pool's session was answered.
    pub(super) fn pool_answered(
        &mut self,
        link: &mut Link,
        call: CallId,
        answer: Result<Response, StatusCode>,
        now: Now,
    ) {
        let Some(shared) = &mut link.shared else { return };
        if !shared.published.remove(&call) {
            if let Some((owner, id)) = shared.calls.remove(&call) {
                self.tell(owner, ClientEvent::Answer(id, answer));
            } else if let (Some(late), Ok(Response::Raw(body))) = (shared.late.remove(&call), answer) {
                match late {
                    Late::Subscription => {
                        let left: Vec<u32> = Reader::new(&body).u32().into_iter().collect();
                        delete(link, &left, now);
                    }
                    Late::Moved(moved) => delete(link, &self.moved_away(&moved, &body, now), now),
                    Late::Browse(count) => link.loose.extend(browse::came_late(&body, count)),
                    Late::HistoryRead(again) => link.loose.extend(history_read::came_late(&again, &body)),
                    Late::Items { .. } | Late::Register(_) | Late::Change(_) => {}
                }
            }
            return;
        }
        let body = match answer {
            Ok(Response::Raw(body)) => body,
            Ok(_) => return,
            Err(status) => {
                if let Some((owner, id)) = shared.publishes.pop_front() {
                    self.tell(owner, ClientEvent::Answer(id, Err(status)));
                }
                return;
            }
        };
        let upstream = Reader::new(&body).u32().unwrap_or_default();
        // The id of one that is to be restored may be that of another by now.
        let known = |link: &Link| link.subs.all_upstream().contains(&upstream);
        let maybe = |link: &Link| link.subs.hold_any(&[upstream]);
        let holder = self.links.iter().find(|(_, link)| known(link));
        let holder = holder.or_else(|| self.links.iter().find(|(_, link)| maybe(link))).map(|(owner, _)| *owner);
        match holder {
            Some(owner) => {
                let waiting = shared.publishes.iter().position(|(of, _)| *of == owner);
                let asked = waiting.and_then(|at| shared.publishes.remove(at));
                let id = asked.map_or(UNASKED, |(_, id)| id);
                self.tell(owner, ClientEvent::Answer(id, Ok(Response::Raw(body))));
            }
            None => {
                let last = |link: &Link| link.makes_subscription(u64::MAX);
                let makers = self.links.iter().filter_map(|(owner, link)| Some((*owner, last(link)?))).collect();
                let of = |owner: &Owner| self.links.get(owner);
                let still = |owner, number| of(&owner).is_some_and(|link| link.makes_subscription(number).is_some());
                if shared.strangers.unclaimed(upstream, makers, still) {
                    delete(link, &[upstream], now);
                }
            }
        }
        top_up(link, now);
    }

    /// Does what sessions with berths and their pools have left for one another.
    pub(super) fn settle_pools(&mut self, now: Now) {
        if std::mem::replace(&mut self.settling, true) {
            return;
        }
        while let Some(owner) = self.stirred.pop_first() {
            // One that is being worked on is stirred again when it is given back.
            let Some(link) = self.links.remove(&owner) else { continue };
            self.put_back(owner, link, now);
            self.ship(owner, now);
        }
        self.settling = false;
    }

    /// Sends what a session has in its outbox.
    fn ship(&mut self, owner: Owner, now: Now) {
        let Some(berth) = self.links.get_mut(&owner).and_then(|link| link.berth.as_mut()) else { return };
        if berth.outbox.is_empty() {
            return;
        }
        let pool = Owner::Pool(berth.pool);
        let outbox = std::mem::take(&mut berth.outbox);
        let Some(mut link) = self.links.remove(&pool) else {
            for (id, ..) in outbox {
                self.tell(owner, ClientEvent::Answer(id, Err(StatusCode::BadServerNotConnected)));
            }
            return;
        };
        for (id, request, timeout) in outbox {
            if let Some(event) = ship_one(&mut link, owner, (id, request, timeout), now) {
                self.tell(owner, event);
            }
        }
        self.put_back(pool, link, now);
    }

    /// A session gives its berth up: nothing of it is left in the pool's session.
    pub(super) fn leave_berth(&mut self, owner: Owner, mut link: Box<Link>, now: Now) {
        let Some(berth) = &link.berth else { return };
        let at = Owner::Pool(berth.pool);
        let Some(mut pool) = self.links.remove(&at) else { return };
        if let Some(shared) = &mut pool.shared {
            for (call, (_, id)) in shared.calls.extract_if(.., |_, (of, _)| *of == owner) {
                if let Some(late) = link.own.remove(&id).and_then(Own::left_behind) {
                    shared.late.insert(call, late);
                }
            }
            shared.publishes.retain(|(of, _)| *of != owner);
        }
        delete(&mut pool, &link.subs.all_upstream(), now);
        link.loosen();
        pool.loose.append(&mut link.loose);
        self.put_back(at, pool, now);
    }

    /// A pool ends with the last session of its identity.
    pub(super) fn close_idle_pools(&mut self, now: Now) {
        for pool in 0..self.config.upstream.len() {
            let at = Owner::Pool(pool);
            let mut sessions = self.links.iter().filter(|(owner, _)| matches!(owner, Owner::Session(_)));
            let used = sessions.any(|(_, link)| link.place == pool);
            if !used && let Some(link) = self.links.remove(&at) {
                self.arm(at, None);
                self.close_link(at, link, now);
            }
        }
    }

    /// A restarted server took the name of the pool's old session for that of somebody else's.
    pub(super) fn renew_pool(&mut self, link: &mut Link, now: Now) {
        let Some(berth) = &mut link.berth else { return };
        (berth.active, link.stage) = (false, Stage::Down { at: now.mono + LOOK });
        let at = Owner::Pool(berth.pool);
        let Some(mut link) = self.links.remove(&at) else { return };
        link.client = None;
        self.went_down(at, &mut link, StatusCode::BadSessionIdInvalid, now);
        self.put_back(at, link, now);
    }

    /// The name for a link that is being closed.
    pub(super) fn next_name(&mut self) -> LinkId {
        self.last_wire += 1;
        LinkId(self.last_wire)
    }
}

/// Whether a server has said no, as against one that could not be reached: it may say something else to others.
fn is_refusal(trouble: Option<StatusCode>) -> bool {
    use StatusCode as S;
    let away = [S::BadConnectionRejected, S::BadConnectionClosed, S::BadTimeout, S::BadCommunicationError];
    trouble.is_some_and(|trouble| !away.contains(&trouble))
}

/// Sends a request; gives the event for its session if that is known already.
fn ship_one(
    pool: &mut Link,
    owner: Owner,
    (id, request, timeout): (CallId, Request, Option<Duration>),
    now: Now,
) -> Option<ClientEvent> {
    let failed = |error: RequestError| Some(ClientEvent::Answer(id, Err(not_sent(error))));
    let publish = matches!(&request, Request::Raw(raw) if raw.request == PUBLISH as u32);
    let (Some(client), Some(shared)) = (&mut pool.client, &mut pool.shared) else {
        return failed(RequestError::NotActive);
    };
    if !publish {
        return match client.request(request, timeout, now) {
            Ok(call) => {
                shared.calls.insert(call, (owner, id));
                None
            }
            Err(error) => failed(error),
        };
    }
    if shared.published.len() <= shared.publishes.len() {
        match client.request(request, Some(PATIENCE), now) {
            Ok(call) => shared.published.insert(call),
            Err(error) => return failed(error),
        };
    }
    shared.publishes.push_back((owner, id));
    None
}

/// As many Publish requests wait at the server as sessions have waiting.
fn top_up(pool: &mut Link, now: Now) {
    let (Some(client), Some(shared)) = (&mut pool.client, &mut pool.shared) else { return };
    while shared.published.len() < shared.publishes.len() {
        let request = Request::Raw(RawRequest::new(PUBLISH, PUBLISHED, vec![0; 4]));
        match client.request(request, Some(PATIENCE), now) {
            Ok(call) => shared.published.insert(call),
            Err(_) => return,
        };
    }
}

fn delete(pool: &mut Link, subscriptions: &[u32], now: Now) {
    if subscriptions.is_empty() {
        return;
    }
    let mut body = Vec::new();
    write_len(&mut body, subscriptions.len());
    subscriptions.iter().for_each(|id| body.extend_from_slice(&id.to_le_bytes()));
    send_and_forget(pool, DELETE, body, now);
}

/// Nobody waits for the answer; when it is not sent, the session is gone, and with it what it was about.
fn send_and_forget(pool: &mut Link, (request, response): (ObjectId, ObjectId), body: Vec<u8>, now: Now) {
    if let Some(client) = &mut pool.client {
        let _gone = client.request(Request::Raw(RawRequest::new(request, response, body)), None, now);
    }
}
