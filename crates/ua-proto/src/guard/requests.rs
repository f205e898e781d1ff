//! From what the front hands on to what becomes of it: requests start, go on when the upstream server or the ledger
//! answers, and end.

use access_model::{Mono, Now};
use opcua_types::{NodeId, ObjectId, StatusCode};
use std::sync::Arc;
use std::time::Duration;

use super::desk::{Desk, Progress};
use super::link::{Job, Link, Stage, Work};
use super::links::Owner;
use super::own::number_of;
use super::subs::{Late, Own};
use super::walk::end;
use super::{
    Guard, browse, call, change, history, history_events, history_read, nodes, read, register, subs, translate,
    unreachable, write,
};
use crate::server::front::{Handed, Reader, Service, SessionKey, Taken, Ticket, write_header};
use crate::server::{AuditFailMode, AuditId, Audited};

/// What ends the work that is under way for a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Break {
    /// The grant is over: what comes back was obtained under it.
    Over,
    /// The session has another user.
    OtherUser,
    /// The upstream session is gone.
    Lost,
}

impl Guard {
    pub(super) fn handed(&mut self, handed: Handed, now: Now) {
        match handed {
            Handed::Request { key, taken } => self.request(key, taken, now),
            Handed::OtherUser { key } => self.break_off(key, Break::OtherUser, now),
            Handed::Over { key } => self.break_off(key, Break::Over, now),
            Handed::Changed { key } => self.changed(key, now),
            Handed::Left { key } => self.left(key, now),
            Handed::Event(event) => self.own_event(&event, now),
            Handed::Ended { key, status } => self.ended(key, status, now),
        }
    }

    fn request(&mut self, key: SessionKey, taken: Taken, now: Now) {
        let ticket = taken.ticket;
        let Some(mut link) = self.links.remove(&Owner::Session(key)) else {
            return self.front.refuse(ticket, StatusCode::BadServerNotConnected, now);
        };
        match taken.service {
            Service::Publish => {
                self.publish(key, &mut link, &taken, now);
                return self.put_back(Owner::Session(key), link, now);
            }
            Service::Cancel => {
                let result = self.cancel(key, &mut link, &taken, now);
                self.answer(key, ticket, result, now);
                return self.put_back(Owner::Session(key), link, now);
            }
            Service::Republish => {
                let result = self.republish(key, &mut link, &taken, now);
                self.answer(key, ticket, result, now);
                return self.put_back(Owner::Session(key), link, now);
            }
            Service::TransferSubscriptions if self.stays(key, &mut link, &taken, now) => {
                return self.put_back(Owner::Session(key), link, now);
            }
            _ => {}
        }
        let limits = &self.config.limits;
        let time = match taken.timeout_hint {
            0 => limits.request_timeout,
            hint => Duration::from_millis(u64::from(hint)).min(limits.request_timeout),
        };
        let refusal = if link.jobs.len() >= limits.max_requests {
            Some(StatusCode::BadTooManyOperations)
        } else if let (Stage::Down { .. } | Stage::Dialing { .. }, Some(_)) = (link.stage, link.trouble) {
            Some(unreachable(link.trouble))
        } else {
            None
        };
        let alone = refusal.is_some() && self.answers_alone(&link, &taken);
        match refusal.filter(|_| !alone) {
            Some(status) => self.front.refuse(ticket, status, now),
            None => {
                link.last_job += 1;
                let at = (link.last_job, ticket, now.mono + time);
                let taken = Box::new(taken);
                if alone {
                    self.begin_known(key, &mut link, at, taken, now);
                } else if link.stage == Stage::Ready {
                    self.begin(key, &mut link, at, taken, now);
                } else {
                    let job = Job { ticket, deadline: at.2, work: Work::Waiting(taken) };
                    link.jobs.insert(at.0, job);
                }
            }
        }
        self.put_back(Owner::Session(key), link, now);
    }

    /// Whether a request asks for nothing but values of the guard's own: they are told while the server behind is away.
    fn answers_alone(&self, link: &Link, taken: &Taken) -> bool {
        let own = |node: &NodeId| number_of(node).is_some_and(|number| self.face(link).value(number).is_some());
        let few = link.jobs.len() < self.config.limits.max_requests;
        few && taken.service == Service::Read && read::nodes(&taken.body).iter().all(own)
    }

    /// The link is ready: what has waited for it starts, in order.
    pub(super) fn begin_waiting(&mut self, key: SessionKey, link: &mut Link, now: Now) {
        let waiting = link.jobs.iter().filter(|(_, job)| matches!(job.work, Work::Waiting(_)));
        for number in waiting.map(|(number, _)| *number).collect::<Vec<_>>() {
            if let Some(Job { ticket, deadline, work: Work::Waiting(taken) }) = link.jobs.remove(&number) {
                self.begin(key, link, (number, ticket, deadline), taken, now);
            }
        }
    }

    fn begin(&mut self, key: SessionKey, link: &mut Link, at: (u64, Ticket, Mono), taken: Box<Taken>, now: Now) {
        if taken.service == Service::TransferSubscriptions {
            return self.begin_transfer(key, link, (at.0, at.2), &taken, now);
        }
        self.learn(key, link, at, (taken, 0), now);
    }

    /// Starts a request about whose nodes all is known that must be.
    pub(super) fn begin_known(
        &mut self,
        key: SessionKey,
        link: &mut Link,
        (number, ticket, deadline): (u64, Ticket, Mono),
        taken: Box<Taken>,
        now: Now,
    ) {
        self.front.audit_log().set_entry(&taken.entry);
        let started = self.at_desk(key, link, (number, deadline), now, |desk| start(desk, *taken));
        self.front.audit_log().set_entry("");
        if !matches!(started, Some(Ok((_, Progress::Waits)))) {
            self.front.interlocks().release((key.serial, number), now);
        }
        match started {
            Some(Ok((work, Progress::Waits))) => {
                link.jobs.insert(number, Job { ticket, deadline, work });
            }
            Some(Ok((_, Progress::Done(result)))) => self.answer(key, ticket, result, now),
            Some(Err(status)) => self.front.refuse(ticket, status, now),
            None => self.front.refuse(ticket, StatusCode::BadServerNotConnected, now),
        }
    }

    /// Lends what a request is decided and forwarded with; `None` while nothing may be forwarded.
    pub(super) fn at_desk<R>(
        &mut self,
        key: SessionKey,
        link: &mut Link,
        (job, deadline): (u64, Mono),
        now: Now,
        serve: impl FnOnce(&mut Desk<'_>) -> R,
    ) -> Option<R> {
        let mapping = Arc::clone(self.mapping.as_ref()?);
        let Self { front, config, records, .. } = self;
        let mut desk = Desk { front, link, mapping: &mapping, config, records, key, job, deadline, doubt: None, now };
        Some(serve(&mut desk))
    }

    /// Goes on with a request.
    fn go_on(
        &mut self,
        key: SessionKey,
        link: &mut Link,
        number: u64,
        now: Now,
        step: impl FnOnce(&mut Desk<'_>, &mut Work, u32) -> Progress,
    ) {
        let Some(Job { ticket, deadline, mut work }) = link.jobs.remove(&number) else { return };
        let progress = self.at_desk(key, link, (number, deadline), now, |desk| step(desk, &mut work, ticket.handle));
        if let Some(Progress::Waits) = progress {
            link.jobs.insert(number, Job { ticket, deadline, work });
            return;
        }
        self.let_go((key, number), &work, now);
        match progress {
            Some(Progress::Done(result)) => self.answer(key, ticket, result, now),
            _ => self.front.refuse(ticket, StatusCode::BadServerNotConnected, now),
        }
    }

    /// A request is over. What may still be carried out keeps its nodes until the answer comes or its time is over.
    fn let_go(&mut self, (key, number): (SessionKey, u64), work: &Work, now: Now) {
        if !matches!(work, Work::Change(asked) if asked.is_sent()) {
            self.front.interlocks().release((key.serial, number), now);
        }
    }

    /// A request is over for its client before the server has answered it.
    fn abandon(&mut self, (key, number): (SessionKey, u64), link: &mut Link, work: &mut Work, now: Now) {
        self.let_go((key, number), work, now);
        link.outlive(number, work);
    }

    /// A change was answered whose client waited no longer. If that is not all of it, or a part is not heard of any more,
    /// its nodes are kept on.
    pub(super) fn changed_late(&mut self, key: SessionKey, link: &mut Link, (number, heard): (u64, bool), now: Now) {
        let of_it = |own: &Own| matches!(own, Own::Late(Late::Change(of)) if *of == number);
        #[expect(clippy::disallowed_methods, reason = "whether there is one")]
        let more = link.own.values().any(of_it);
        if !heard {
            link.own.retain(|_, own| !of_it(own));
        } else if !more {
            self.front.interlocks().release((key.serial, number), now);
        }
    }

    /// The upstream server answered a part of a request.
    pub(super) fn upstream_answered(
        &mut self,
        key: SessionKey,
        link: &mut Link,
        (number, part): (u64, u32),
        answer: Result<Vec<u8>, StatusCode>,
        now: Now,
    ) {
        if let Some(Job { work: Work::Transfer(_), .. }) = link.jobs.get(&number) {
            return self.transferred(key, link, number, answer, now);
        }
        if let Some(Job { work: Work::Learning(_), .. }) = link.jobs.get(&number) {
            return self.learned_of_nodes(key, link, (number, part), answer, now);
        }
        self.go_on(key, link, number, now, |desk, work, handle| match work {
            Work::Waiting(_) | Work::Learning(_) | Work::Transfer(_) => Progress::Waits,
            Work::Read(asked) => asked.answered(desk, answer, handle),
            Work::HistoryRead(asked) => asked.answered(desk, answer, handle),
            Work::HistoryEvents(asked) => asked.answered(desk, answer, handle),
            Work::Change(asked) => asked.answered(desk, part, answer, handle),
            Work::Browse(asked) => asked.answered(desk, part, answer, handle),
            Work::Translate(asked) => asked.answered(desk, part, answer, handle),
            Work::Register(asked) => asked.answered(desk, answer, handle),
            Work::Subscription(asked) => asked.answered(desk, answer, handle),
        });
    }

    /// A record was acknowledged, or could not be written.
    pub(super) fn audited(&mut self, id: AuditId, result: Audited, now: Now) {
        let Some((key, number)) = self.records.remove(&id) else { return };
        let owner = Owner::Session(key);
        let Some(mut link) = self.links.remove(&owner) else { return };
        let open = self.front.front_config().audit.unavailable == AuditFailMode::Open;
        let kept = result == Audited::Kept || open;
        let unkept = StatusCode::BadResourceUnavailable;
        self.go_on(key, &mut link, number, now, |desk, work, handle| match work {
            Work::Change(asked) if kept => asked.forward(desk, handle),
            Work::Change(asked) => asked.give_up(desk, unkept, handle),
            _ => Progress::Waits,
        });
        self.put_back(owner, link, now);
    }

    fn break_off(&mut self, key: SessionKey, why: Break, now: Now) {
        let owner = Owner::Session(key);
        let Some(mut link) = self.links.remove(&owner) else { return };
        self.break_jobs(key, &mut link, why, now);
        self.recheck(key, &mut link, true, now);
        if why == Break::OtherUser {
            link.loosen();
        }
        self.put_back(owner, link, now);
    }

    /// The upstream session is gone: what was sent is answered by the client session; the rest will not be sent.
    pub(super) fn lost_upstream(&mut self, key: SessionKey, link: &mut Link, now: Now) {
        self.break_jobs(key, link, Break::Lost, now);
        link.subs.interrupt();
    }

    /// The scopes change: what is under way was decided by the old ones.
    pub(super) fn put_off(&mut self, key: SessionKey, link: &mut Link, now: Now) {
        self.break_jobs(key, link, Break::Lost, now);
    }

    fn break_jobs(&mut self, key: SessionKey, link: &mut Link, why: Break, now: Now) {
        let (status, read) = match why {
            Break::Lost => (unreachable(link.trouble), StatusCode::BadCommunicationError),
            Break::Over | Break::OtherUser => (StatusCode::BadUserAccessDenied, StatusCode::BadUserAccessDenied),
        };
        for number in link.jobs.keys().copied().collect::<Vec<_>>() {
            self.go_on(key, link, number, now, |desk, work, handle| match work {
                Work::Waiting(_) | Work::Learning(_) => Progress::Done(Err(status)),
                Work::Read(_) => Progress::Done(Err(read)),
                Work::HistoryRead(_)
                | Work::HistoryEvents(_)
                | Work::Browse(_)
                | Work::Translate(_)
                | Work::Register(_) => {
                    desk.link.outlive(desk.job, work);
                    Progress::Done(Err(read))
                }
                // It says nothing of the plant; only when its answer cannot come any more is it given up.
                Work::Subscription(_) | Work::Transfer(_) if why != Break::Lost => Progress::Waits,
                Work::Subscription(_) | Work::Transfer(_) => {
                    desk.link.outlive(desk.job, work);
                    Progress::Done(Err(read))
                }
                Work::Change(asked) => {
                    asked.over |= why != Break::Lost;
                    if why == Break::Over { Progress::Waits } else { asked.give_up(desk, status, handle) }
                }
            });
        }
    }

    /// Cancel (OPC 10000-4 §5.7.5) answers the requests with this handle that wait. What the server keeps something for,
    /// a subscription or a place where browsing goes on, is not called back.
    fn cancel(&mut self, key: SessionKey, link: &mut Link, taken: &Taken, now: Now) -> Result<Vec<u8>, StatusCode> {
        let mut reader = Reader::new(&taken.body);
        let handle = reader.u32()?;
        end(&reader)?;
        let mut tickets = link.subs.cancel(handle);
        for number in link.jobs.keys().copied().collect::<Vec<_>>() {
            let cancellable = |job: &Job| {
                let kept = matches!(
                    job.work,
                    Work::Subscription(_)
                        | Work::Transfer(_)
                        | Work::Browse(_)
                        | Work::Register(_)
                        | Work::HistoryRead(_)
                        | Work::HistoryEvents(_)
                );
                job.ticket.handle == handle && !kept
            };
            if link.jobs.get(&number).is_some_and(cancellable)
                && let Some(mut job) = link.jobs.remove(&number)
            {
                self.abandon((key, number), link, &mut job.work, now);
                tickets.push(job.ticket);
            }
        }
        let count = u32::try_from(tickets.len()).unwrap_or(u32::MAX);
        for ticket in tickets {
            self.front.refuse(ticket, StatusCode::BadRequestCancelledByClient, now);
        }
        self.front.cancelled(key, handle, count, now);
        let mut out = Vec::new();
        let id = ObjectId::CancelResponse_Encoding_DefaultBinary;
        write_header(&mut out, id, now, taken.ticket.handle, StatusCode::Good);
        out.extend_from_slice(&count.to_le_bytes());
        Ok(out)
    }

    /// The times of requests that have waited too long.
    pub(super) fn expire_jobs(&mut self, key: SessionKey, link: &mut Link, now: Now) {
        let over = link.jobs.iter().filter(|(_, job)| job.deadline <= now.mono).map(|(number, _)| *number);
        for number in over.collect::<Vec<_>>() {
            if let Some(mut job) = link.jobs.remove(&number) {
                self.abandon((key, number), link, &mut job.work, now);
                self.front.refuse(job.ticket, StatusCode::BadTimeout, now);
            }
        }
    }

    /// Nothing of what a session waits for is answered by this link any more: its client hears `status` instead.
    pub(super) fn abandon_all(&mut self, key: SessionKey, link: &mut Link, status: StatusCode, now: Now) {
        for (number, mut job) in std::mem::take(&mut link.jobs) {
            if let Work::Change(asked) = &job.work {
                self.at_desk(key, link, (number, job.deadline), now, |desk| asked.abandoned(desk, status));
            }
            self.abandon((key, number), link, &mut job.work, now);
            self.front.refuse(job.ticket, status, now);
        }
    }

    /// No request of the session waits for a record any more.
    pub(super) fn forget_records(&mut self, key: SessionKey) {
        self.records.retain(|_, (of, _)| *of != key);
    }

    fn ended(&mut self, key: SessionKey, status: StatusCode, now: Now) {
        self.forget_records(key);
        let Some(mut link) = self.links.remove(&Owner::Session(key)) else { return };
        self.arm(Owner::Session(key), None);
        for ticket in link.subs.take_waiting() {
            self.front.refuse(ticket, status, now);
        }
        self.abandon_all(key, &mut link, status, now);
        self.close_link(Owner::Session(key), link, now);
        self.close_idle_pools(now);
    }

    /// The session's connection is gone or another: Publish requests of the old one must not eat what nobody would get.
    fn left(&mut self, key: SessionKey, now: Now) {
        let owner = Owner::Session(key);
        let Some(mut link) = self.links.remove(&owner) else { return };
        for ticket in link.subs.take_waiting() {
            self.front.refuse(ticket, StatusCode::BadSecureChannelClosed, now);
        }
        if self.front.is_alone(key) {
            self.unburden(key, &mut link, now);
        }
        self.put_back(owner, link, now);
    }

    /// The session has no connection for which it could count what is gathered and kept for it: nothing of it is.
    fn unburden(&mut self, key: SessionKey, link: &mut Link, now: Now) {
        let gathers = |job: &Job| {
            matches!(job.work, Work::Browse(_) | Work::Translate(_) | Work::HistoryRead(_) | Work::HistoryEvents(_))
        };
        let gathering = link.jobs.iter().filter(|(_, job)| gathers(job)).map(|(number, _)| *number);
        for number in gathering.collect::<Vec<_>>() {
            if let Some(mut job) = link.jobs.remove(&number) {
                self.abandon((key, number), link, &mut job.work, now);
            }
        }
        let points = link.points.unburden();
        link.loose.extend(browse::unwanted(points));
        link.loose.extend(link.history.unburden());
        link.facts.forget();
    }

    pub(super) fn answer(&mut self, key: SessionKey, ticket: Ticket, result: Result<Vec<u8>, StatusCode>, now: Now) {
        let most = self.front.session(key).map_or(0, |session| session.max_response);
        self.front.answer(ticket, most, result, now);
    }
}

fn start(desk: &mut Desk<'_>, taken: Taken) -> Result<(Work, Progress), StatusCode> {
    let Taken { service, ticket, body, explain, .. } = taken;
    let handle = ticket.handle;
    match service {
        Service::Read => read::start(desk, &body, handle).map(|(asked, progress)| (Work::Read(asked), progress)),
        Service::Write => changing(desk, &write::FORM, body, (handle, explain)),
        Service::Call => changing(desk, &call::FORM, body, (handle, explain)),
        Service::AddNodes => changing(desk, &nodes::ADD_NODES, body, (handle, explain)),
        Service::AddReferences => changing(desk, &nodes::ADD_REFERENCES, body, (handle, explain)),
        Service::DeleteNodes => changing(desk, &nodes::DELETE_NODES, body, (handle, explain)),
        Service::DeleteReferences => changing(desk, &nodes::DELETE_REFERENCES, body, (handle, explain)),
        Service::Browse => browse::start(desk, &body, handle).map(|(asked, progress)| (Work::Browse(asked), progress)),
        Service::BrowseNext => {
            browse::next(desk, &body, handle).map(|(asked, progress)| (Work::Browse(asked), progress))
        }
        Service::Translate => {
            translate::start(desk, &body, handle).map(|(asked, progress)| (Work::Translate(asked), progress))
        }
        Service::RegisterNodes => {
            register::register(desk, &body, handle).map(|(asked, progress)| (Work::Register(asked), progress))
        }
        Service::UnregisterNodes => {
            register::unregister(desk, &body, handle).map(|(asked, progress)| (Work::Register(asked), progress))
        }
        Service::HistoryRead if history_events::is_asked(&body) => history_events::start(desk, &body, handle)
            .map(|(asked, progress)| (Work::HistoryEvents(Box::new(asked)), progress)),
        Service::HistoryRead => {
            history_read::start(desk, &body, handle).map(|(asked, progress)| (Work::HistoryRead(asked), progress))
        }
        Service::HistoryUpdate => changing(desk, &history::UPDATE, body, (handle, explain)),
        other => subs::start(desk, other, &body, handle)
            .map(|(asked, progress)| (Work::Subscription(Box::new(asked)), progress)),
    }
}

fn changing(
    desk: &mut Desk<'_>,
    form: &'static change::Form,
    body: Vec<u8>,
    told: (u32, bool),
) -> Result<(Work, Progress), StatusCode> {
    change::start(desk, form, body, told).map(|(asked, progress)| (Work::Change(Box::new(asked)), progress))
}
