//! Connections to the upstream server: dialled, opened, checked, lost, dialled again, closed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use access_model::{Actor, AuditKind, AuditRecord, Mono, Now, Outcome};
use opcua_types::StatusCode;

use super::desk::not_sent;
use super::io::{LinkId, Output, Upstream};
use super::link::{Job, Link, Stage, Work};
use super::pool::{LOOK, UNASKED};
use super::subs::Subscriptions;
use super::survey::{first_question, namespaces, started};
use super::{Guard, Sharing, unreachable};
use crate::client::{Activated, ClientEvent, ClientSession, Request, Response};
use crate::server::front::{SessionKey, detail, event};

/// Links beyond which no session is looked for whose connection was cut before it was closed.
const MAX_CLOSING: usize = 4_096;

/// What a link is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    /// Looking at the server.
    Survey,
    /// A session of a client.
    Session(SessionKey),
    /// Sessions that share one upstream, under this identity.
    Pool(usize),
    /// Nothing any more: its session is being closed.
    Closing(LinkId),
}

impl Guard {
    /// The session was activated, or its rights are others: there must be a link, with the identity of its roles.
    pub(super) fn changed(&mut self, key: SessionKey, now: Now) {
        let owner = Owner::Session(key);
        if self.front.parts(key).is_none() {
            return;
        }
        let roles = self.front.roles_of(key);
        let Some(place) = self.config.place_of(&roles) else { return };
        let Some(identity) = self.config.upstream.get(place).cloned() else { return };
        let mut last_job = 0;
        if let Some(link) = self.links.get(&owner) {
            if link.place == place {
                if let Some(mut link) = self.links.remove(&owner) {
                    self.recheck(key, &mut link, false, now);
                    self.put_back(owner, link, now);
                }
                return;
            }
            let Some(mut old) = self.links.remove(&owner) else { return };
            self.lost_upstream(key, &mut old, now);
            for ticket in old.subs.take_waiting() {
                self.front.refuse(ticket, StatusCode::BadNoSubscription, now);
            }
            // What was sent is carried out or not; its answer comes to nobody.
            self.abandon_all(key, &mut old, StatusCode::BadCommunicationError, now);
            self.forget_records(key);
            last_job = old.last_job;
            self.close_link(owner, old, now);
        }
        let points = self.config.limits.max_continuation_points;
        let first_handle = self.draw();
        let mut link = Box::new(Link::new(identity, now.mono, points, first_handle));
        (link.place, link.last_job) = (place, last_job);
        if self.config.pool == Sharing::Always {
            self.take_berth(&mut link, place, now);
        } else if self.mapping.is_some() {
            self.dial(owner, &mut link, now);
        } else {
            link.stage = Stage::Down { at: Mono::NEVER };
            link.trouble = self.links.get(&Owner::Survey).and_then(|survey| survey.trouble);
        }
        self.put_back(owner, link, now);
        // It may have been the last one where it was.
        self.close_idle_pools(now);
    }

    /// Gives a link back after it was worked on: its bytes are announced, its alarm is set.
    pub(super) fn put_back(&mut self, owner: Owner, mut link: Box<Link>, now: Now) {
        self.pump(owner, &mut link, now);
        if let Owner::Session(key) = owner
            && self.tell_own(key, &mut link, now)
        {
            self.pump(owner, &mut link, now);
        }
        if let (Owner::Closing(_), None, Stage::Down { at: Mono::NEVER }) = (owner, link.wire, link.stage) {
            self.count(&mut link, 0);
            return self.arm(owner, None);
        }
        self.weigh(owner, &mut link);
        self.arm_by(owner, link.poll_timeout());
        if link.berth.is_some() {
            self.stir(owner, &link);
        }
        let shared = link.shared.is_some();
        self.links.insert(owner, link);
        if shared {
            self.stir_all(owner);
        }
        if !self.stirred.is_empty() {
            self.settle_pools(now);
        }
    }

    /// Takes account of what a link holds.
    fn weigh(&mut self, owner: Owner, link: &mut Link) {
        let Owner::Session(key) = owner else {
            let held = link.client.as_ref().map_or(0, ClientSession::burden);
            return self.count(link, held);
        };
        self.count(link, 0);
        if link.jobs.is_empty() && self.front.is_tight() {
            link.facts.forget();
        }
        self.front.hold_behind(key, link.weight());
    }

    fn count(&mut self, link: &mut Link, held: usize) {
        if link.counted != held {
            self.common = self.common.saturating_sub(link.counted).saturating_add(held);
            link.counted = held;
            self.front.hold_for_all(self.common);
        }
    }

    pub(super) fn dial(&mut self, owner: Owner, link: &mut Link, now: Now) {
        if link.berth.is_some() {
            return self.look_for_pool(link, now);
        }
        if let Owner::Session(_) = owner
            && link.client.is_none()
            && self.config.pool == Sharing::WhenFull
            && let Err(trouble) = self.pool_has_its_room(link.place, now)
        {
            match trouble {
                Some(trouble) => self.went_down(owner, link, trouble, now),
                None => link.stage = Stage::Down { at: now.mono + LOOK },
            }
            return;
        }
        self.last_wire += 1;
        let wire = LinkId(self.last_wire);
        self.wires.insert(wire, owner);
        link.wire = Some(wire);
        link.stage = Stage::Dialing { until: now.mono + self.config.limits.connect_timeout };
        link.dialed = Some(now.mono);
        self.outputs.push_back(Output::Dial { link: wire, url: link.identity.session.url.clone() });
    }

    /// Something happened on a connection.
    pub(super) fn upstream(&mut self, wire: LinkId, event: Upstream<'_>, now: Now) {
        let Some(owner) = self.wires.get(&wire).copied() else { return };
        let Some(mut link) = self.links.remove(&owner) else { return };
        match (event, &mut link.client) {
            (Upstream::Connected, _) if matches!(link.stage, Stage::Dialing { .. }) => self.connected(&mut link, now),
            (Upstream::Bytes(bytes), Some(client)) => client.receive(bytes, now, &mut *self.entropy),
            (Upstream::JobDone { id, outcome }, Some(client)) => client.job_done(id, outcome, now, &mut *self.entropy),
            (Upstream::Lost, Some(client)) if !matches!(link.stage, Stage::Dialing { .. }) => client.connection_lost(),
            (Upstream::Lost, _) => self.went_down(owner, &mut link, StatusCode::BadConnectionRejected, now),
            _ => {}
        }
        self.put_back(owner, link, now);
        self.mapped(now);
    }

    fn stir(&mut self, owner: Owner, link: &Link) {
        if link.berth.as_ref().is_some_and(|berth| berth.is_stirred()) {
            self.stirred.insert(owner);
        }
    }

    /// A pool is at hand again: who waits for it may go on.
    fn stir_all(&mut self, pool: Owner) {
        let waits = |link: &Link| {
            link.berth.as_ref().is_some_and(|berth| Owner::Pool(berth.pool) == pool && berth.is_stirred())
        };
        let all: Vec<Owner> = self.links.iter().filter(|(_, link)| waits(link)).map(|(owner, _)| *owner).collect();
        self.stirred.extend(all);
    }

    fn connected(&mut self, link: &mut Link, now: Now) {
        link.trouble = None;
        let made = match &mut link.client {
            Some(client) if link.closing.is_some() => client.reconnect_to_close(now),
            Some(client) => client.reconnect(now),
            None => {
                let config = Arc::clone(&link.identity.session);
                ClientSession::new(config, link.identity.credential.clone(), now).map(|client| {
                    link.client = Some(client);
                })
            }
        };
        link.stage = Stage::Opening;
        if made.is_err() {
            link.trouble = Some(StatusCode::BadCertificateUntrusted);
            link.client = None;
        }
    }

    /// Takes what the client session reports, and announces its bytes.
    fn pump(&mut self, owner: Owner, link: &mut Link, now: Now) {
        loop {
            let Some(event) = link.poll_event() else { break };
            self.client_event(owner, link, event, now);
        }
        link.give_back(now);
        if link.client.is_none() && link.stage == Stage::Opening {
            let status = link.trouble.unwrap_or(StatusCode::BadSecurityChecksFailed);
            self.went_down(owner, link, status, now);
        }
        let unsent = link.client.as_mut().and_then(ClientSession::outgoing).is_some_and(|bytes| !bytes.is_empty());
        if let Some(wire) = link.wire.filter(|wire| unsent && !self.sending.contains(wire)) {
            self.sending.insert(wire);
            self.outputs.push_back(Output::UpstreamSend { link: wire });
        }
    }

    fn client_event(&mut self, owner: Owner, link: &mut Link, event: ClientEvent, now: Now) {
        match event {
            ClientEvent::Job(job) => {
                if let Some(wire) = link.wire {
                    self.outputs.push_back(Output::UpstreamJob { link: wire, job });
                }
            }
            ClientEvent::Activated(Activated::Renewed) => {}
            ClientEvent::Activated(kind) => self.activated(owner, link, kind, now),
            ClientEvent::Refused(status) => {
                link.trouble = Some(status);
                if let Some(client) = &mut link.client {
                    client.close(now, &mut *self.entropy);
                }
            }
            ClientEvent::Lost => {
                link.stage = Stage::Opening;
                link.dialed = Some(now.mono);
                if let Owner::Pool(pool) = owner {
                    self.pool_lost(pool);
                }
                if let Owner::Session(key) = owner {
                    self.lost_upstream(key, link, now);
                }
            }
            ClientEvent::Answer(id, answer) if link.question == Some(id) => {
                link.question = None;
                self.learned(owner, link, answer, now);
            }
            ClientEvent::Answer(id, answer) => {
                if let Owner::Pool(_) = owner {
                    return self.pool_answered(link, id, answer, now);
                }
                let Owner::Session(key) = owner else { return };
                let answer = answer.and_then(|answer| match answer {
                    Response::Raw(body) => Ok(body),
                    _ => Err(StatusCode::BadUnknownResponse),
                });
                if id == UNASKED {
                    let body = answer.unwrap_or_default();
                    self.message_came_unasked(key, link, &body, now);
                    self.pump_publish(key, link, now);
                } else if let Some((number, part, sent)) = link.in_flight.remove(&id) {
                    self.front.meters().upstream.observe(now.mono.since(sent));
                    self.upstream_answered(key, link, (number, part), answer, now);
                    self.pump_publish(key, link, now);
                } else if let Some(own) = link.own.remove(&id) {
                    self.own_answered(key, link, own, answer, now);
                }
            }
            ClientEvent::Audit(audit) => {
                let outcome = audit.reason.map_or(Outcome::Failed(audit.status.bits()), Outcome::Denied);
                let text = detail(format!("{} ({})", audit.detail, audit.status));
                let object = link.identity.session.url.clone();
                let record = AuditRecord { detail: text, ..event_of(now, audit.kind, object, outcome) };
                self.front.audit_log().record(record);
            }
            ClientEvent::Disconnected(status) => self.went_down(owner, link, status, now),
        }
    }

    fn activated(&mut self, owner: Owner, link: &mut Link, kind: Activated, now: Now) {
        if let Owner::Closing(_) = owner {
            if let Some(client) = &mut link.client {
                client.close(now, &mut *self.entropy);
            }
            return;
        }
        if let Some(dialed) = link.dialed.take() {
            self.front.meters().upstream_open.observe(now.mono.since(dialed));
        }
        if let Owner::Pool(pool) = owner {
            self.upstream_trouble = None;
            return self.pool_activated(pool, link, kind, now);
        }
        self.upstream_trouble = None;
        if kind == Activated::Fresh {
            link.forget_session();
        }
        link.stage = Stage::Checking;
        self.ask(link, first_question(), now);
    }

    /// Sends a question of the guard's own.
    pub(super) fn ask(&mut self, link: &mut Link, question: Request, now: Now) {
        match link.request(question, None, now) {
            Ok(id) => link.question = Some(id),
            Err(error) => self.hang_up(link, not_sent(error), now),
        }
    }

    /// The session upstream cannot be gone on with: the next one may.
    pub(super) fn hang_up(&mut self, link: &mut Link, status: StatusCode, now: Now) {
        link.trouble = Some(status);
        if let Some(client) = &mut link.client {
            client.close(now, &mut *self.entropy);
        }
        if link.berth.is_some() {
            link.down_since.get_or_insert(now.mono);
            link.stage = Stage::Down { at: now.mono + self.config.limits.longest_pause };
        }
    }

    /// An own question was answered.
    fn learned(&mut self, owner: Owner, link: &mut Link, answer: Result<Response, StatusCode>, now: Now) {
        let learned = answer.and_then(|answer| match owner {
            Owner::Survey => self.surveyed(link, answer, now),
            Owner::Session(key) => {
                link.namespaces = namespaces(&answer)?;
                link.started = started(&answer);
                if !link.fresh && link.run.zip(link.started).is_some_and(|(then, now)| !now.same_run(then)) {
                    // A restarted server took the name of the old session for that of somebody else's.
                    if link.berth.is_some() {
                        self.renew_pool(link, now);
                        self.lost_upstream(key, link, now);
                        link.in_flight.clear();
                        link.own.clear();
                        return Ok(());
                    }
                    link.client = None;
                    self.went_down(owner, link, StatusCode::BadSessionIdInvalid, now);
                    return Ok(());
                }
                self.compare(key, link, now);
                Ok(())
            }
            Owner::Closing(_) | Owner::Pool(_) => Ok(()),
        });
        if let Err(status) = learned {
            self.hang_up(link, status, now);
        }
    }

    /// A connection is over.
    pub(super) fn went_down(&mut self, owner: Owner, link: &mut Link, status: StatusCode, now: Now) {
        if let Some(wire) = link.wire.take() {
            self.wires.remove(&wire);
            self.sending.remove(&wire);
            self.outputs.push_back(Output::UpstreamClose { link: wire });
        }
        link.question = None;
        let limits = &self.config.limits;
        link.pause = (link.pause * 2).clamp(limits.shortest_pause, limits.longest_pause);
        // Some earlier, so that all sessions do not come at once.
        let quarter = u32::try_from(link.pause.as_millis() / 4).unwrap_or(u32::MAX);
        let pause = link.pause - Duration::from_millis(u64::from(self.draw() % quarter.saturating_add(1)));
        link.stage = Stage::Down { at: now.mono + pause };
        if let Owner::Closing(_) = owner {
            let left = link.client.as_ref().is_some_and(ClientSession::may_live_on);
            if !left || link.closing.is_none_or(|until| until <= now.mono) {
                link.stage = Stage::Down { at: Mono::NEVER };
            }
            return;
        }
        link.down_since.get_or_insert(now.mono);
        // A refusal says more than the end of the connection behind it.
        let trouble = *link.trouble.get_or_insert(status);
        self.upstream_trouble = Some(trouble);
        let object = link.identity.session.url.clone();
        let text = "the upstream server is out of reach";
        let record = AuditRecord {
            detail: text.to_owned(),
            ..event_of(now, AuditKind::Contact, object, Outcome::Failed(trouble.bits()))
        };
        self.front.audit_log().record(record);
        match owner {
            Owner::Session(key) => {
                if trouble == StatusCode::BadTooManySessions
                    && self.config.pool == Sharing::WhenFull
                    && link.berth.is_none()
                {
                    return self.share(key, link, now);
                }
                self.lost_upstream(key, link, now);
            }
            Owner::Pool(pool) => self.pool_down(pool, link, status, now),
            Owner::Survey => {
                self.survey = None;
                self.refuse_waiting(trouble, now);
            }
            Owner::Closing(_) => {}
        }
    }

    /// A session for which the server has no room shares one: what was not sent yet waits for that.
    fn share(&mut self, key: SessionKey, link: &mut Link, now: Now) {
        let jobs = std::mem::take(&mut link.jobs).into_iter();
        let (waiting, sent): (BTreeMap<u64, Job>, _) = jobs.partition(|(_, job)| matches!(job.work, Work::Waiting(_)));
        link.jobs = sent;
        self.lost_upstream(key, link, now);
        link.jobs.extend(waiting);
        link.trouble = None;
        self.take_berth(link, link.place, now);
    }

    /// The alarm of a link.
    pub(super) fn link_due(&mut self, owner: Owner, now: Now) {
        let Some(mut link) = self.links.remove(&owner) else { return };
        match link.stage {
            Stage::Down { at } if at <= now.mono && !matches!(owner, Owner::Session(_)) => {
                self.dial(owner, &mut link, now);
            }
            Stage::Down { at } if at <= now.mono => {
                let grace = self.config.limits.upstream_grace;
                if let (Owner::Session(key), Some(since)) = (owner, link.down_since)
                    && since + grace <= now.mono
                {
                    self.links.insert(owner, link);
                    let status = unreachable(None);
                    return self.front.give_up(key, status, "its upstream server stays out of reach", now);
                }
                if self.mapping.is_some() {
                    self.dial(owner, &mut link, now);
                } else {
                    link.stage = Stage::Down { at: Mono::NEVER };
                }
            }
            Stage::Dialing { until } if until <= now.mono => {
                self.went_down(owner, &mut link, StatusCode::BadTimeout, now);
            }
            _ => {}
        }
        if let Some(client) = link.client.as_mut().filter(|_| link.wire.is_some()) {
            client.handle_timeout(now, &mut *self.entropy);
        }
        if let Owner::Session(key) = owner {
            self.expire_jobs(key, &mut link, now);
            self.break_silence(key, &mut link, now);
        }
        if let Owner::Closing(_) = owner
            && link.closing.is_some_and(|until| until <= now.mono)
        {
            self.went_down(owner, &mut link, StatusCode::BadTimeout, now);
        }
        self.put_back(owner, link, now);
        self.mapped(now);
    }

    /// Its session is over: the upstream session is closed at once, with its subscriptions. One whose connection is cut is
    /// looked for until the server has dropped it by itself.
    pub(super) fn close_link(&mut self, before: Owner, mut link: Box<Link>, now: Now) {
        if link.berth.is_some() {
            return self.leave_berth(before, link, now);
        }
        link.shared = None;
        link.in_flight.clear();
        link.own.clear();
        link.question = None;
        link.subs = Subscriptions::default();
        let connected = link.wire.is_some() && !matches!(link.stage, Stage::Dialing { .. });
        let left = link.client.as_ref().is_some_and(ClientSession::may_live_on);
        let wire = link.wire.unwrap_or_else(|| self.next_name());
        let owner = Owner::Closing(wire);
        if link.wire.is_some() {
            self.wires.insert(wire, owner);
        }
        link.closing = Some(now.mono + link.identity.session.session_timeout);
        match &mut link.client {
            Some(client) if connected => {
                client.close(now, &mut *self.entropy);
            }
            _ if left && self.links.len() < MAX_CLOSING => {
                if link.wire.is_none() {
                    link.stage = Stage::Down { at: now.mono + self.config.limits.shortest_pause };
                }
            }
            _ => self.went_down(owner, &mut link, StatusCode::BadSessionClosed, now),
        }
        self.put_back(owner, link, now);
    }
}

fn event_of(now: Now, kind: AuditKind, object: String, outcome: Outcome) -> AuditRecord {
    event(now, kind, &Actor::default(), object, outcome)
}
