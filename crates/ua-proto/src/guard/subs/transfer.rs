//! TransferSubscriptions (OPC 10000-4 §5.14.7): whose subscription it is, is decided here, for the upstream server sees
//! one user. A subscription moves with its books: items, handles, messages that were sent or wait, numbers.

use access_model::{AuditKind, AuditRecord, Mono, Now, Outcome, Reason, ScopeIndex};
use opcua_types::{ObjectId, StatusCode};

use super::late::Late;
use super::message::{Message, Told};
use super::publish::Own;
use super::standing::Standing;
use crate::guard::Guard;
use crate::guard::batch::items;
use crate::guard::desk::{deny, told};
use crate::guard::link::{Job, Link, Stage, Work};
use crate::guard::links::Owner;
use crate::guard::walk::{boolean, end, results, span};
use crate::server::front::{
    Reader, SessionKey, Taken, Ticket, Told as Heard, event, write_header, write_len, write_no_diagnostics,
};

const IDS: (ObjectId, ObjectId) = (
    ObjectId::TransferSubscriptionsRequest_Encoding_DefaultBinary,
    ObjectId::TransferSubscriptionsResponse_Encoding_DefaultBinary,
);

/// A request under way.
pub(in crate::guard) struct Moving {
    plan: Vec<Plan>,
}

enum Plan {
    Refused(StatusCode),
    /// It is the session's own already.
    Own(u32),
    /// It moves from another session, if the server agrees. It is not asked (no id there) when both sessions share one
    /// upstream.
    Move {
        id: u32,
        upstream: Option<u32>,
        from: SessionKey,
    },
}

/// A subscription of another session.
struct Found {
    id: u32,
    from: SessionKey,
    upstream: u32,
    standing: Standing,
    /// The pool that its session shares.
    pool: Option<usize>,
    load: Load,
}

/// What counts towards the bounds of a session.
#[derive(Clone, Copy, Default)]
struct Load {
    subscriptions: usize,
    items: usize,
    event_items: usize,
}

impl Load {
    fn with(self, other: Self) -> Self {
        Self {
            subscriptions: self.subscriptions.saturating_add(other.subscriptions),
            items: self.items.saturating_add(other.items),
            event_items: self.event_items.saturating_add(other.event_items),
        }
    }
}

impl super::Subscription {
    fn load(&self) -> Load {
        let event_items = self.items.values().filter(|item| item.fields.is_some()).count();
        Load { subscriptions: 1, items: self.handles.len(), event_items }
    }
}

impl super::Subscriptions {
    fn load(&self) -> Load {
        let all = self.subscriptions.values().map(|subscription| subscription.load());
        all.fold(Load::default(), Load::with)
    }
}

impl Moving {
    fn moves(&self, subscription: u32) -> bool {
        let is = |plan: &Plan| matches!(plan, Plan::Move { upstream: Some(upstream), .. } if *upstream == subscription);
        self.plan.iter().any(is)
    }

    /// What the server may move although nobody waits for it.
    pub(in crate::guard) fn late(&self) -> Option<Late> {
        let moved = self.plan.iter().filter_map(|plan| match plan {
            Plan::Move { id, upstream, from } => Some((*id, (*upstream)?, *from)),
            _ => None,
        });
        Some(Late::Moved(moved.collect()))
    }
}

impl Link {
    /// Whether the server was asked to move a subscription of its to this session, and has not answered.
    pub(super) fn moves(&self, subscription: u32) -> bool {
        let asked = |work: &Work| match work {
            Work::Transfer(moving) => moving.moves(subscription),
            _ => false,
        };
        let given_up = |own: &Own| match own {
            Own::Late(Late::Moved(moved)) => moved.iter().any(|(_, upstream, _)| *upstream == subscription),
            _ => false,
        };
        #[expect(clippy::disallowed_methods, reason = "whether there is one")]
        let late = self.own.values().any(given_up);
        late || self.jobs.values().any(|job| asked(&job.work))
    }
}

impl Guard {
    /// A session that asks for its own subscriptions, as clients do that come back on another channel, is answered by
    /// the guard's books, whether the server is there or not. `false`: the request has to wait for its turn.
    pub(in crate::guard) fn stays(&mut self, key: SessionKey, link: &mut Link, taken: &Taken, now: Now) -> bool {
        let most = self.front.front_config().limits.subscriptions.max_subscriptions;
        let Some(plan) = own(link, &taken.body, most) else { return false };
        self.moved(key, link, taken.ticket, plan, Vec::new(), now);
        true
    }

    /// Starts a request that has waited for its turn.
    pub(in crate::guard) fn begin_transfer(
        &mut self,
        key: SessionKey,
        link: &mut Link,
        (number, deadline): (u64, Mono),
        taken: &Taken,
        now: Now,
    ) {
        let ticket = taken.ticket;
        let (plan, initial) = match self.plan_transfer(key, link, &taken.body, now) {
            Ok(planned) => planned,
            Err(status) => return self.front.refuse(ticket, status, now),
        };
        let mut body = Vec::new();
        let known = |plan: &Plan| if let Plan::Move { upstream, .. } = plan { *upstream } else { None };
        let upstream: Vec<u32> = plan.iter().filter_map(known).collect();
        if upstream.is_empty() {
            return self.moved(key, link, ticket, plan, Vec::new(), now);
        }
        write_len(&mut body, upstream.len());
        upstream.iter().for_each(|id| body.extend_from_slice(&id.to_le_bytes()));
        body.push(u8::from(initial));
        let sent = self.at_desk(key, link, (number, deadline), now, |desk| desk.send_making(IDS, body));
        match sent {
            Some(Ok(())) => {
                let work = Work::Transfer(Moving { plan });
                link.jobs.insert(number, Job { ticket, deadline, work });
            }
            Some(Err(status)) => self.front.refuse(ticket, status, now),
            None => self.front.refuse(ticket, StatusCode::BadServerNotConnected, now),
        }
    }

    fn plan_transfer(
        &mut self,
        key: SessionKey,
        link: &Link,
        body: &[u8],
        now: Now,
    ) -> Result<(Vec<Plan>, bool), StatusCode> {
        let mut reader = Reader::new(body);
        let ids = items(&mut reader, 4, 0, |reader| reader.u32())?;
        let initial = boolean(&mut reader)?;
        end(&reader)?;
        if ids.len() > self.front.front_config().limits.subscriptions.max_subscriptions {
            return Err(StatusCode::BadTooManyOperations);
        }
        let mut plan: Vec<Plan> = Vec::with_capacity(ids.len());
        let mut more = Load::default();
        for id in ids {
            let twice = plan.iter().any(|plan| matches!(plan, Plan::Move { id: known, .. } if *known == id));
            plan.push(match self.subscription_of(id).filter(|_| !twice) {
                _ if link.subs.subscriptions.contains_key(&id) => Plan::Own(id),
                None => Plan::Refused(StatusCode::BadSubscriptionIdInvalid),
                Some(found) => match self.may_move(key, link, &found, more, now) {
                    Err(status) => Plan::Refused(status),
                    Ok(()) => {
                        more = more.with(found.load);
                        let shared = found.pool.is_some() && found.pool == link.berth.as_ref().map(|berth| berth.pool);
                        Plan::Move { id, upstream: (!shared).then_some(found.upstream), from: found.from }
                    }
                },
            });
        }
        Ok((plan, initial))
    }

    /// Whether a session may take a subscription over, beside `more` that it takes with the same request.
    fn may_move(
        &mut self,
        key: SessionKey,
        link: &Link,
        found: &Found,
        more: Load,
        now: Now,
    ) -> Result<(), StatusCode> {
        if !self.front.same_owner(key, found.from) {
            let text = format!("subscription {} belongs to another user or application", found.id);
            self.deny_transfer(key, Reason::NoGrant, &text, now);
            return Err(StatusCode::BadUserAccessDenied);
        }
        if found.standing != Standing::Live {
            // Between two sessions upstream: whether it is there will be known soon.
            return Err(StatusCode::BadCommunicationError);
        }
        if self.mode_of(key) < self.mode_of(found.from) {
            // What the server asks of channels was asked of that session's.
            let text = format!("subscription {} belongs to a session whose channel is better protected", found.id);
            self.deny_transfer(key, Reason::ChannelTooWeak, &text, now);
            return Err(StatusCode::BadSecurityModeInsufficient);
        }
        let limits = &self.front.front_config().limits.subscriptions;
        let sum = link.subs.load().with(more).with(found.load);
        if sum.subscriptions > limits.max_subscriptions {
            return Err(StatusCode::BadTooManySubscriptions);
        }
        if sum.items > limits.max_items || sum.event_items > limits.max_event_items {
            return Err(StatusCode::BadTooManyMonitoredItems);
        }
        Ok(())
    }

    fn deny_transfer(&mut self, key: SessionKey, reason: Reason, text: &str, now: Now) {
        let Some(session) = self.front.session(key).map(|session| session.id.clone()) else { return };
        let told = || Heard::Transferred { session: session.clone() };
        let place = (&session, ScopeIndex::NOWHERE);
        deny(&mut self.front, key, AuditKind::Notify, reason, place, (text, told), now);
    }

    fn record_transfer(&mut self, key: SessionKey, from: SessionKey, id: u32, now: Now) {
        let (Some(to), Some(from)) = (self.front.session(key), self.front.session(from)) else { return };
        let record = AuditRecord {
            detail: format!("subscription {id} was taken over from session {}", from.id),
            ..event(now, AuditKind::Notify, &to.actor, to.id.to_string(), Outcome::Allowed)
        };
        let session = to.id.clone();
        self.front.audit_log().tell(record, || Heard::Transferred { session });
    }

    /// How well the channel of a session is protected: the number of its MessageSecurityMode grows with it.
    fn mode_of(&self, key: SessionKey) -> i32 {
        self.front.session(key).map_or(0, |session| session.binding.mode as i32)
    }

    /// Another session's subscription.
    fn subscription_of(&self, id: u32) -> Option<Found> {
        self.links.iter().find_map(|(owner, link)| match owner {
            Owner::Session(from) => {
                let subscription = link.subs.subscriptions.get(&id)?;
                let pool = link.berth.as_ref().map(|berth| berth.pool);
                let (upstream, standing) = (subscription.upstream, subscription.standing);
                Some(Found { id, from: *from, upstream, standing, pool, load: subscription.load() })
            }
            _ => None,
        })
    }

    /// The server answered.
    pub(in crate::guard) fn transferred(
        &mut self,
        key: SessionKey,
        link: &mut Link,
        number: u64,
        answer: Result<Vec<u8>, StatusCode>,
        now: Now,
    ) {
        let Some(Job { ticket, work: Work::Transfer(moving), .. }) = link.jobs.remove(&number) else { return };
        let expected = moving.plan.iter().filter(|plan| matches!(plan, Plan::Move { upstream: Some(_), .. })).count();
        match answer.map_err(told).and_then(|body| statuses(&body, expected)) {
            Ok(statuses) => self.moved(key, link, ticket, moving.plan, statuses, now),
            Err(status) => self.front.refuse(ticket, status, now),
        }
    }

    fn moved(
        &mut self,
        key: SessionKey,
        link: &mut Link,
        ticket: Ticket,
        plan: Vec<Plan>,
        statuses: Vec<StatusCode>,
        now: Now,
    ) {
        let mut statuses = statuses.into_iter();
        let moves = plan.iter().any(|plan| matches!(plan, Plan::Move { .. }));
        let mut out = Vec::new();
        write_header(&mut out, IDS.1, now, ticket.handle, StatusCode::Good);
        write_len(&mut out, plan.len());
        for plan in plan {
            let (status, id) = match plan {
                Plan::Refused(status) => (status, None),
                Plan::Own(id) => (StatusCode::Good, Some(id)),
                Plan::Move { id, from, upstream } => match upstream.and_then(|_| statuses.next()) {
                    None if upstream.is_some() => (StatusCode::BadUnknownResponse, None),
                    Some(status) if status.is_bad() => (status, None),
                    _ => match self.move_here(key, link, (id, from), now) {
                        Ok(()) => (StatusCode::Good, Some(id)),
                        Err(status) => {
                            if let Some(upstream) = upstream {
                                self.discard(link, upstream, now);
                                self.strayed((id, upstream, from), now);
                            }
                            (status, None)
                        }
                    },
                },
            };
            out.extend_from_slice(&status.bits().to_le_bytes());
            let sent = id.and_then(|id| link.subs.subscriptions.get(&id)).map(|subscription| &subscription.retained);
            write_len(&mut out, sent.map_or(0, std::collections::VecDeque::len));
            sent.into_iter().flatten().for_each(|message| out.extend_from_slice(&message.sequence.to_le_bytes()));
        }
        write_no_diagnostics(&mut out);
        self.answer(key, ticket, Ok(out), now);
        if moves {
            // What the other session could see is not what this one may.
            self.recheck(key, link, false, now);
        }
    }

    /// Moves a subscription if that is still allowed: sessions may be another user's by now, or full.
    fn move_here(
        &mut self,
        key: SessionKey,
        link: &mut Link,
        (id, from): (u32, SessionKey),
        now: Now,
    ) -> Result<(), StatusCode> {
        let gone = StatusCode::BadSubscriptionIdInvalid;
        let found = self.subscription_of(id).filter(|found| found.from == from).ok_or(gone)?;
        self.may_move(key, link, &found, Load::default(), now)?;
        if !self.take_from(from, id, link, now) {
            return Err(gone);
        }
        self.record_transfer(key, from, id, now);
        Ok(())
    }

    /// The server has moved what stays where it is: it is deleted there, and made again for the session that has it.
    fn strayed(&mut self, (id, upstream, from): (u32, u32, SessionKey), now: Now) {
        let owner = Owner::Session(from);
        let Some(mut holder) = self.links.remove(&owner) else { return };
        if holder.subs.strayed(id, upstream) && holder.stage == Stage::Ready {
            self.restore(from, &mut holder, false, now);
        }
        self.put_back(owner, holder, now);
    }

    /// The server has moved subscriptions for a request that was given up; gives their ids there.
    pub(in crate::guard) fn moved_away(&mut self, moved: &[(u32, u32, SessionKey)], body: &[u8], now: Now) -> Vec<u32> {
        let statuses = statuses(body, moved.len()).unwrap_or_default();
        let mut gone = Vec::new();
        for (one, status) in moved.iter().zip(statuses) {
            if !status.is_bad() {
                gone.push(one.1);
                self.strayed(*one, now);
            }
        }
        gone
    }

    /// Moves a subscription; the session that had it is told so.
    fn take_from(&mut self, from: SessionKey, id: u32, to: &mut Link, now: Now) -> bool {
        let owner = Owner::Session(from);
        let Some(mut other) = self.links.remove(&owner) else { return false };
        let taken = other.subs.subscriptions.remove(&id);
        let moved = taken.is_some();
        if let Some(mut subscription) = taken {
            let told = Told::Status(StatusCode::GoodSubscriptionTransferred);
            // Of a session that never asks for messages no more are kept than it may have subscriptions.
            let most = self.front.front_config().limits.subscriptions.max_subscriptions;
            other.subs.farewells.retain(|(known, _)| *known != id);
            to.subs.farewells.retain(|(known, _)| *known != id);
            while other.subs.farewells.len() >= most.max(1) {
                other.subs.farewells.pop_front();
            }
            other.subs.farewells.push_back((id, Message { sequence: subscription.sequence, time: 0, told }));
            subscription.quiet_at = now.mono + subscription.silence;
            to.subs.hold(id, subscription);
        }
        self.pump_publish(from, &mut other, now);
        self.put_back(owner, other, now);
        moved
    }
}

#[cfg(test)]
impl super::Subscriptions {
    /// How many moves are still to be told.
    pub(in crate::guard) fn farewells(&self) -> usize {
        self.farewells.len()
    }
}

/// What the request asks for, if all of it is the session's own.
fn own(link: &Link, body: &[u8], most: usize) -> Option<Vec<Plan>> {
    let mut reader = Reader::new(body);
    let ids = items(&mut reader, 4, 0, |reader| reader.u32()).ok().filter(|ids| ids.len() <= most)?;
    boolean(&mut reader).ok()?;
    end(&reader).ok()?;
    ids.into_iter().map(|id| link.subs.subscriptions.contains_key(&id).then_some(Plan::Own(id))).collect()
}

/// TransferResults without the numbers of messages, which are the guard's own.
fn statuses(body: &[u8], expected: usize) -> Result<Vec<StatusCode>, StatusCode> {
    let mut found = Vec::with_capacity(expected);
    results(body, expected, |reader| {
        found.push(StatusCode::from(reader.u32()?));
        span(reader, |reader| {
            let count = reader.array_len(4)?;
            reader.bytes(count.saturating_mul(4)).map(drop)
        })
        .map(drop)
    })?;
    Ok(found)
}
