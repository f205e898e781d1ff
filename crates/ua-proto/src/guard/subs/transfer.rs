//! TransferSubscriptions (OPC 10000-4 §5.14.7): whose subscription it is, is decided here, for the upstream server sees
//! one user. A subscription moves with its books: items, handles, messages that were sent or wait, numbers.

use access_model::{AuditKind, Mono, Now, Reason, ScopeIndex};
use opcua_types::{NodeId, ObjectId, StatusCode};

use super::message::{Message, Told};
use super::standing::Standing;
use crate::guard::Guard;
use crate::guard::batch::items;
use crate::guard::desk::{deny, told};
use crate::guard::link::{Job, Link, Work};
use crate::guard::links::Owner;
use crate::guard::walk::{boolean, end, results, span};
use crate::server::front::{
    Reader, SessionKey, Taken, Ticket, Told as Heard, write_header, write_len, write_no_diagnostics,
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

impl Guard {
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
        let sent = self.at_desk(key, link, (number, deadline), now, |desk| desk.send(IDS, body, 0));
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
        let most = self.front.front_config().limits.subscriptions.max_subscriptions;
        let mut room = most.saturating_sub(link.subs.subscriptions.len());
        if ids.len() > most {
            return Err(StatusCode::BadTooManyOperations);
        }
        let mut plan: Vec<Plan> = Vec::with_capacity(ids.len());
        for id in ids {
            let twice = plan.iter().any(|plan| matches!(plan, Plan::Move { id: known, .. } if *known == id));
            let found = if twice { None } else { self.subscription_of(id) };
            plan.push(match found {
                _ if link.subs.subscriptions.contains_key(&id) => Plan::Own(id),
                None => Plan::Refused(StatusCode::BadSubscriptionIdInvalid),
                Some((from, ..)) if !self.front.same_owner(key, from) => {
                    let text = format!("subscription {id} belongs to another user or application");
                    let nowhere = (&NodeId::null(), ScopeIndex::NOWHERE);
                    let (kind, reason) = (AuditKind::Notify, Reason::NoGrant);
                    deny(&mut self.front, key, kind, reason, nowhere, (&text, || Heard::Nothing), now);
                    Plan::Refused(StatusCode::BadUserAccessDenied)
                }
                // Between two sessions upstream: whether it is there will be known soon.
                Some((_, _, standing, _)) if standing != Standing::Live => {
                    Plan::Refused(StatusCode::BadCommunicationError)
                }
                // What the server asks of channels was asked of that session's.
                Some((from, ..)) if self.mode_of(key) < self.mode_of(from) => {
                    Plan::Refused(StatusCode::BadSecurityModeInsufficient)
                }
                Some(_) if room == 0 => Plan::Refused(StatusCode::BadTooManySubscriptions),
                Some((from, upstream, _, pool)) => {
                    room -= 1;
                    let shared = pool.is_some() && pool == link.berth.as_ref().map(|berth| berth.pool);
                    Plan::Move { id, upstream: (!shared).then_some(upstream), from }
                }
            });
        }
        Ok((plan, initial))
    }

    /// How well the channel of a session is protected: the number of its MessageSecurityMode grows with it.
    fn mode_of(&self, key: SessionKey) -> i32 {
        self.front.session(key).map_or(0, |session| session.binding.mode as i32)
    }

    /// The other session that has a subscription, its id upstream, how it stands there, and the pool it shares.
    fn subscription_of(&self, id: u32) -> Option<(SessionKey, u32, Standing, Option<usize>)> {
        self.links.iter().find_map(|(owner, link)| match owner {
            Owner::Session(key) => {
                let subscription = link.subs.subscriptions.get(&id)?;
                let pool = link.berth.as_ref().map(|berth| berth.pool);
                Some((*key, subscription.upstream, subscription.standing, pool))
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
                    _ if self.take_from(from, id, link, now) => (StatusCode::Good, Some(id)),
                    _ => (StatusCode::BadSubscriptionIdInvalid, None),
                },
            };
            out.extend_from_slice(&status.bits().to_le_bytes());
            let sent = id.and_then(|id| link.subs.subscriptions.get(&id)).map(|subscription| &subscription.retained);
            write_len(&mut out, sent.map_or(0, std::collections::VecDeque::len));
            sent.into_iter().flatten().for_each(|message| out.extend_from_slice(&message.sequence.to_le_bytes()));
        }
        write_no_diagnostics(&mut out);
        self.answer(key, ticket, Ok(out), now);
        // What the other session could see is not what this one may.
        self.recheck(key, link, false, now);
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
            to.subs.subscriptions.insert(id, subscription);
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
