//! Requests that leave for a while: parking, time-outs, records, method calls, Cancel.

use access_model::{AuditKind, AuditRecord, Now, Outcome, Reason, Rights};
use opcua_types::{CallMethodResult, CancelRequest, CancelResponse, StatusCode};
use std::time::Duration;

use super::audit::{AuditId, Audited, event};
use super::codec::{response_header, write_message};
use super::config::AuditFailMode;
use super::create::Signed;
use super::desk::Sight;
use super::dispatch::Request;
use super::identity::TurnedAway;
use super::jobs::TooBusy;
use super::occasion::Told;
use super::parked::{Calling, Parked, What};
use super::proof::Proven;
use super::services::{call, history_update, write};
use super::timers::{SessionKey, Timer};
use super::{Answer, Caller, Invocation, InvokeId, Output, Server};
use crate::space::NodeRef;
use crate::{Job, JobOutcome};

impl Server {
    /// Parks a request until it goes on or its time is over.
    pub(super) fn park(&mut self, parked: Parked, timeout_hint: u32, now: Now) -> u64 {
        let most = self.config.limits.request_timeout;
        let time = match timeout_hint {
            0 => most,
            hint => Duration::from_millis(u64::from(hint)).min(most),
        };
        if let Some(session) = self.sessions.get_mut(parked.session) {
            session.core.parked += 1;
        }
        let id = self.parked.add(parked);
        self.timers.set(Timer::Parked(id), now.mono + time);
        id
    }

    /// Takes a request back.
    pub(super) fn unpark(&mut self, id: u64) -> Option<Parked> {
        let parked = self.parked.take(id)?;
        self.timers.clear(Timer::Parked(id));
        if let Some(session) = self.sessions.get_mut(parked.session) {
            session.core.parked = session.core.parked.saturating_sub(1);
            if matches!(parked.what, What::Activate(_)) {
                session.core.activating = false;
            }
        }
        Some(parked)
    }

    pub(super) fn submit(&mut self, job: Job) -> Result<(), TooBusy> {
        let job = self.jobs.submit(job)?;
        self.outputs.extend(job.map(Output::Job));
        Ok(())
    }

    /// A job of a parked request is done.
    pub(super) fn work_done(&mut self, id: u64, outcome: JobOutcome, now: Now) {
        match self.parked.get_mut(id).map(|parked| &parked.what) {
            Some(What::Create(_)) => {
                let signed = outcome.downcast::<Signed>().ok().and_then(|signed| (*signed).ok());
                let Some(parked) = self.unpark(id) else { return };
                match signed {
                    Some((signature, given)) => self.respond_created(&parked, Some(signature), &given, now),
                    None => {
                        let status = StatusCode::BadInternalError;
                        self.end_session(parked.session, status, "its creation could not be signed", now);
                        self.fault(parked.conn, parked.request_id, parked.handle, status, now);
                    }
                }
                self.after(parked.conn, now);
            }
            Some(What::Activate(_)) => {
                let lost = || TurnedAway::new(StatusCode::BadInternalError, Reason::TooBusy, "the job was lost");
                let proven = outcome.downcast::<Proven>().map_or_else(|_| Err(lost()), |proven| *proven);
                self.proven(id, proven, now);
            }
            _ => {}
        }
    }

    fn room_to_park(&self, key: SessionKey) -> Result<(), StatusCode> {
        let parked = self.sessions.get(key).map_or(usize::MAX, |session| session.core.parked);
        if parked >= self.config.limits.max_parked_per_session {
            return Err(StatusCode::BadTooManyOperations);
        }
        Ok(())
    }

    pub(super) fn write(&mut self, key: SessionKey, request: &Request<'_>, now: Now) -> Result<(), StatusCode> {
        self.room_to_park(key)?;
        let plan = self
            .at_desk(key, now, |desk, _| write::plan(desk, request.rest, request.header.explain))
            .ok_or(StatusCode::BadSessionClosed)??;
        let parked = Parked {
            conn: request.conn,
            request_id: request.request_id,
            handle: request.header.handle,
            session: key,
            what: What::Write(plan.items),
        };
        self.park_for_record(parked, plan.audit, request.header.timeout_hint, now);
        Ok(())
    }

    pub(super) fn call(&mut self, key: SessionKey, request: &Request<'_>, now: Now) -> Result<(), StatusCode> {
        self.room_to_park(key)?;
        let plan = self
            .at_desk(key, now, |desk, own| call::plan(desk, own, request.rest, request.header.explain))
            .ok_or(StatusCode::BadSessionClosed)??;
        // The methods that are about subscriptions have done their work.
        self.pump_subscriptions(key, now);
        let parked = Parked {
            conn: request.conn,
            request_id: request.request_id,
            handle: request.header.handle,
            session: key,
            what: What::Recording(plan.items),
        };
        self.park_for_record(parked, plan.audit, request.header.timeout_hint, now);
        Ok(())
    }

    pub(super) fn history_update(
        &mut self,
        key: SessionKey,
        request: &Request<'_>,
        now: Now,
    ) -> Result<(), StatusCode> {
        self.room_to_park(key)?;
        let plan = self.at_desk(key, now, |desk, _| history_update::plan(desk, request.rest));
        let plan = plan.ok_or(StatusCode::BadSessionClosed)??;
        let parked = Parked {
            conn: request.conn,
            request_id: request.request_id,
            handle: request.header.handle,
            session: key,
            what: What::History(plan.items),
        };
        self.park_for_record(parked, plan.audit, request.header.timeout_hint, now);
        Ok(())
    }

    fn park_for_record(&mut self, parked: Parked, audit: Option<AuditId>, timeout_hint: u32, now: Now) {
        let id = self.park(parked, timeout_hint, now);
        match audit {
            Some(audit) => self.parked.wait_for_record(audit, id),
            None => self.recorded(id, now),
        }
    }

    /// A record was acknowledged, or could not be written.
    pub(super) fn audited(&mut self, audit: AuditId, result: Audited, now: Now) {
        let kept = result == Audited::Kept;
        if self.audit.set_available(kept) {
            let outcome = if kept { Outcome::Allowed } else { Outcome::Denied(Reason::AuditUnavailable) };
            let record = event(now, AuditKind::FailMode, &Default::default(), "audit ledger".to_owned(), outcome);
            self.audit.record(record);
        }
        self.audit.settle(audit, kept || self.config.audit.unavailable == AuditFailMode::Open);
        let Some(id) = self.parked.recorded(audit) else { return };
        if kept || self.config.audit.unavailable == AuditFailMode::Open {
            self.recorded(id, now);
        } else {
            self.unrecorded(id, StatusCode::BadResourceUnavailable, now);
        }
    }

    /// The record is kept: the request is carried out.
    fn recorded(&mut self, id: u64, now: Now) {
        let Some(parked) = self.unpark(id) else { return };
        match parked.what {
            What::Write(items) => {
                let mut written = Vec::new();
                let statuses = self.at_desk(parked.session, now, |desk, _| write::apply(desk, items, &mut written));
                let Some(statuses) = statuses else { return };
                for write::Written { node, value } in written {
                    self.outputs.push_back(Output::Written { node, value });
                }
                self.respond(parked.conn, parked.request_id, parked.handle, now, |_, out| {
                    write::respond(out, &statuses, now, parked.handle);
                    Ok(())
                });
                self.values_changed(now);
            }
            What::History(items) => {
                let mut ids = self.events.next_ids(history_update::new_events(&items)).into_iter();
                let results = self.at_desk(parked.session, now, |desk, _| history_update::apply(desk, items, &mut ids));
                let Some(results) = results else { return };
                self.respond(parked.conn, parked.request_id, parked.handle, now, |server, out| {
                    history_update::respond(&server.codec, results, now, parked.handle, out)
                });
            }
            What::Recording(items) => {
                let (conn, request_id, handle, session) =
                    (parked.conn, parked.request_id, parked.handle, parked.session);
                self.invoke(parked_as_call(conn, request_id, handle, session), items, now);
            }
            _ => {}
        }
    }

    /// What a session's user has asked for is not carried out in the name of the next one.
    pub(super) fn give_up_parked(&mut self, key: SessionKey, now: Now) {
        for id in self
            .parked
            .of_session(key, |parked| matches!(parked.what, What::Write(_) | What::History(_) | What::Recording(_)))
        {
            let Some(core) = self.sessions.get(key).map(|session| &session.core) else { return };
            let kind = match self.parked.get_mut(id).map(|parked| &parked.what) {
                Some(What::Write(_)) => AuditKind::Write,
                Some(What::History(_)) => AuditKind::HistoryChanged,
                _ => AuditKind::Call,
            };
            let record = AuditRecord {
                detail: "the session was given to another user before it was carried out".to_owned(),
                ..event(now, kind, &core.actor, String::new(), Outcome::Denied(Reason::NoGrant))
            };
            self.count_denial(Some(key), kind, Reason::NoGrant, now, record, || Told::of_request(kind));
            self.unrecorded(id, StatusCode::BadUserAccessDenied, now);
        }
    }

    /// Nothing of a request that waits for its record is carried out.
    fn unrecorded(&mut self, id: u64, status: StatusCode, now: Now) {
        let Some(parked) = self.unpark(id) else { return };
        match parked.what {
            What::Write(items) => {
                let statuses = write::refuse(items, status);
                self.respond(parked.conn, parked.request_id, parked.handle, now, |_, out| {
                    write::respond(out, &statuses, now, parked.handle);
                    Ok(())
                });
            }
            What::History(items) => {
                let results = history_update::refuse(items, status);
                self.respond(parked.conn, parked.request_id, parked.handle, now, |server, out| {
                    history_update::respond(&server.codec, results, now, parked.handle, out)
                });
            }
            What::Recording(items) => {
                let refused = |item| match item {
                    call::Planned::Answered(result) => result,
                    call::Planned::Call(_) => call::failed(status),
                };
                let results = items.into_iter().map(refused).collect();
                self.respond_called(
                    &parked_as_call(parked.conn, parked.request_id, parked.handle, parked.session),
                    results,
                    now,
                );
            }
            _ => {}
        }
    }

    /// Sends the calls of a request out. Those whose right ended meanwhile stay here.
    fn invoke(&mut self, parked: Parked, items: Vec<call::Planned>, now: Now) {
        let Some(caller) = self.caller(parked.session) else { return };
        let (conn, request_id, handle, session) = (parked.conn, parked.request_id, parked.handle, parked.session);
        let id = self.park(parked, 0, now);
        let mut results = Vec::with_capacity(items.len());
        let mut nodes = Vec::with_capacity(items.len());
        for (at, item) in items.into_iter().enumerate() {
            nodes.push(match &item {
                call::Planned::Answered(_) => None,
                call::Planned::Call(call) => Some((call.object, call.method)),
            });
            results.push(match item {
                call::Planned::Answered(result) => Some(result),
                call::Planned::Call(call) => self.invoke_one(id, at, session, &caller, *call, now),
            });
        }
        if results.iter().all(Option::is_some) {
            self.unpark(id);
            let parked = parked_as_call(conn, request_id, handle, session);
            return self.respond_called(&parked, results.into_iter().flatten().collect(), now);
        }
        if let Some(parked) = self.parked.get_mut(id) {
            parked.what = What::Calling(Calling { user: caller.user, over: false, nodes, results });
        }
    }

    fn invoke_one(
        &mut self,
        id: u64,
        at: usize,
        session: SessionKey,
        caller: &Caller,
        mut call: call::PlannedCall,
        now: Now,
    ) -> Option<CallMethodResult> {
        let place = (id, u64::try_from(at).unwrap_or(u64::MAX));
        match self.at_desk(session, now, |desk, _| call.leave(desk, place)) {
            Some(Ok(())) => {}
            Some(Err(refused)) => return Some(refused),
            None => return Some(call::failed(StatusCode::BadUserAccessDenied)),
        }
        let invocation = Invocation {
            caller: caller.clone(),
            object: self.space.id(call.object),
            method: self.space.id(call.method),
            method_node: call.method,
            inputs: call.inputs,
        };
        let id = self.parked.wait_for_call(id, at);
        self.outputs.push_back(Output::Invoke { id, invocation: Box::new(invocation) });
        None
    }

    fn caller(&self, key: SessionKey) -> Option<Caller> {
        let core = &self.sessions.get(key)?.core;
        let login = core.login.as_ref()?;
        let peer = core.binding.peer.as_ref();
        Some(Caller {
            session: core.id.clone(),
            user: login.user.clone(),
            user_certificate: login.certificate.as_ref().map(|certificate| certificate.thumbprint()),
            roles: self.gate.claims(login.grant).map(|facts| facts.roles.clone()).unwrap_or_default(),
            application: peer.and_then(|certificate| certificate.application_uri()).map(str::to_owned),
            certificate: peer.map(|certificate| certificate.thumbprint()),
            policy: core.binding.policy,
            mode: core.binding.mode,
            address: core.actor.address.clone().unwrap_or_default(),
        })
    }

    /// A method came back.
    pub(super) fn answered(&mut self, call: InvokeId, answer: Answer, now: Now) {
        let Some((id, at)) = self.parked.called(call) else { return };
        self.interlocks.release((id, u64::try_from(at).unwrap_or(u64::MAX)), now);
        let Some(Parked { what: What::Calling(calling), session, .. }) = self.parked.get_mut(id) else { return };
        let session = *session;
        if let Some(place) = calling.results.get_mut(at) {
            *place = Some(CallMethodResult {
                status_code: answer.status,
                input_argument_results: (!answer.input_results.is_empty()).then_some(answer.input_results),
                input_argument_diagnostic_infos: None,
                output_arguments: Some(answer.outputs),
            });
        }
        let nodes = calling.nodes.get(at).copied().flatten();
        let complete = calling.results.iter().all(Option::is_some);
        if answer.status.is_bad() {
            self.record_failed_call(session, nodes, answer.status, now);
        }
        if !complete {
            return;
        }
        let Some(parked) = self.unpark(id) else { return };
        if let What::Calling(calling) = parked.what {
            let parked = parked_as_call(parked.conn, parked.request_id, parked.handle, parked.session);
            let results = self.tellable(session, calling, now);
            self.respond_called(&parked, results, now);
        }
    }

    /// The results of calls, without what may not be told any more: the user is another, the grant was over meanwhile, or
    /// the right to call is gone. Of those calls the status goes out, nothing else.
    fn tellable(&self, key: SessionKey, calling: Calling, now: Now) -> Vec<CallMethodResult> {
        let core = self.sessions.get(key).map(|session| &session.core);
        let same = core.and_then(|core| {
            let login = core.login.as_ref().filter(|login| !calling.over && login.user == calling.user)?;
            Some(Sight::of(core, login.grant, (&self.space, &self.gate), now))
        });
        let may = |node| {
            cfg!(feature = "danger-permit-always")
                || same.is_some_and(|sight| sight.rights(node).contains(Rights::CALL))
        };
        let results = calling.results.into_iter().zip(calling.nodes).filter_map(|(result, nodes)| {
            let told = nodes.is_none_or(|(object, method)| may(object) && may(method));
            result.map(|result| if told { result } else { call::failed(result.status_code) })
        });
        results.collect()
    }

    fn record_failed_call(&mut self, key: SessionKey, nodes: Option<(NodeRef, NodeRef)>, status: StatusCode, now: Now) {
        let Some(core) = self.sessions.get(key).map(|session| &session.core) else { return };
        let outcome = Outcome::Failed(status.bits());
        let record = AuditRecord {
            detail: "the method said so".to_owned(),
            ..event(now, AuditKind::Call, &core.actor, String::new(), outcome)
        };
        self.audit.tell(record, || call::called_at((nodes.map(|(object, _)| object), nodes.map(|(_, method)| method))));
    }

    /// Answers a Call.
    fn respond_called(&mut self, parked: &Parked, results: Vec<CallMethodResult>, now: Now) {
        self.respond(parked.conn, parked.request_id, parked.handle, now, |server, out| {
            call::respond(&server.codec, results, now, parked.handle, out)
        });
    }

    /// Cancel answers the requests with this handle that wait here (OPC 10000-4 §5.7.5).
    pub(super) fn cancel(&mut self, key: SessionKey, request: &Request<'_>, now: Now) -> Result<(), StatusCode> {
        let asked: CancelRequest = self.codec.decode(request.whole)?;
        let mut cancelled = match self.sessions.get_mut(key) {
            Some(session) => session.subscriptions.cancel(asked.request_handle),
            None => return Err(StatusCode::BadSessionIdInvalid),
        };
        self.pump_subscriptions(key, now);
        for id in self.parked.of_session(key, |parked| parked.handle == asked.request_handle) {
            if let Some(parked) = self.unpark(id) {
                let status = StatusCode::BadRequestCancelledByClient;
                self.fault(parked.conn, parked.request_id, parked.handle, status, now);
                cancelled += 1;
            }
        }
        self.record_cancel(key, asked.request_handle, cancelled, now);
        self.respond(request.conn, request.request_id, request.header.handle, now, |server, out| {
            let response = CancelResponse {
                response_header: response_header(now, asked.request_header.request_handle),
                cancel_count: cancelled,
            };
            write_message(out, &response, &server.codec.context(0))
        });
        Ok(())
    }

    pub(super) fn record_cancel(&mut self, key: SessionKey, handle: u32, cancelled: u32, now: Now) {
        let Some(core) = self.sessions.get(key).map(|session| &session.core) else { return };
        let record = AuditRecord {
            detail: format!("{cancelled} requests with handle {handle}"),
            ..event(now, AuditKind::Cancelled, &core.actor, core.id.to_string(), Outcome::Allowed)
        };
        self.audit.tell(record, || Told::Cancelled { session: core.id.clone(), handle });
    }

    /// A parked request waited too long.
    pub(super) fn parked_too_long(&mut self, id: u64, now: Now) {
        let Some(parked) = self.unpark(id) else { return };
        if matches!(parked.what, What::Create(_)) {
            self.end_session(parked.session, StatusCode::BadTimeout, "its creation took too long", now);
        }
        self.fault(parked.conn, parked.request_id, parked.handle, StatusCode::BadTimeout, now);
        self.after(parked.conn, now);
    }
}

/// The address of a Call's answer.
fn parked_as_call(conn: super::ConnId, request_id: u32, handle: u32, session: SessionKey) -> Parked {
    Parked { conn, request_id, handle, session, what: What::Recording(Vec::new()) }
}
