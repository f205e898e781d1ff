//! TransferSubscriptions (OPC 10000-4 §5.14.7): a client that had to create a new session takes over what its old one has.
//!
//! Only the same user with the same application may, over a channel that is protected at least as well: what was sampled
//! for an encrypted channel does not leave over a weaker one. What the new session's grant does not cover is dropped
//! before anything is sent, the messages kept for Republish included. Of a session that is over nothing can be taken: its
//! subscriptions ended with the grant that covered them.

use access_model::{AuditKind, AuditRecord, Now, Outcome, Reason};
use opcua_types::{StatusCode, TransferResult, TransferSubscriptionsRequest, TransferSubscriptionsResponse};

use super::Server;
use super::audit::event;
use super::codec::{response_header, write_message};
use super::dispatch::Request;
use super::occasion::Told;
use super::services::operations;
use super::session::UaSession;
use super::timers::SessionKey;

impl Server {
    pub(super) fn transfer_subscriptions(
        &mut self,
        key: SessionKey,
        request: &Request<'_>,
        now: Now,
    ) -> Result<(), StatusCode> {
        let asked: TransferSubscriptionsRequest = self.codec.decode(request.whole)?;
        let ids = asked.subscription_ids.as_deref().unwrap_or_default();
        let most = u32::try_from(self.config.limits.subscriptions.max_subscriptions).unwrap_or(u32::MAX);
        operations(ids.len(), most)?;
        let mut results = Vec::with_capacity(ids.len());
        for id in ids {
            let taken = self.take_over(key, *id, asked.send_initial_values, now);
            let status_code = taken.err().unwrap_or(StatusCode::Good);
            let session = self.sessions.get(key).filter(|_| status_code.is_good());
            let available = session.map(|session| session.subscriptions.available(*id)).unwrap_or_default();
            results.push(TransferResult { status_code, available_sequence_numbers: Some(available) });
        }
        self.respond(request.conn, request.request_id, request.header.handle, now, |server, out| {
            let response = TransferSubscriptionsResponse {
                response_header: response_header(now, request.header.handle),
                results: Some(results),
                diagnostic_infos: None,
            };
            write_message(out, &response, &server.codec.context(0))
        });
        self.pump_subscriptions(key, now);
        Ok(())
    }

    fn take_over(&mut self, key: SessionKey, id: u32, initial: bool, now: Now) -> Result<(), StatusCode> {
        let has = |session: &&UaSession| session.subscriptions.has(id);
        let from = self.sessions.iter().find(has).map(|session| session.core.key);
        let from = from.ok_or(StatusCode::BadSubscriptionIdInvalid)?;
        if from == key {
            return Ok(());
        }
        if !self.same_owner(key, from) {
            let text = format!("subscription {id} belongs to another user or application");
            self.deny_transfer(key, Reason::NoGrant, text, now);
            return Err(StatusCode::BadUserAccessDenied);
        }
        if self.mode_of(key) < self.mode_of(from) {
            let text = format!("subscription {id} belongs to a session whose channel is better protected");
            self.deny_transfer(key, Reason::ChannelTooWeak, text, now);
            return Err(StatusCode::BadSecurityModeInsufficient);
        }
        let moving = self.sessions.get_mut(from).and_then(|session| session.subscriptions.take(id));
        let moving = moving.ok_or(StatusCode::BadSubscriptionIdInvalid)?;
        let given = self.at_desk(key, now, |desk, subscriptions| subscriptions.give(moving, initial, desk, now));
        match given.ok_or(StatusCode::BadSessionClosed)? {
            Ok(sequence) => {
                if let Some(session) = self.sessions.get_mut(from) {
                    session.subscriptions.moved(id, sequence, now);
                }
                self.record_transfer(key, from, id, now);
                self.pump_subscriptions(from, now);
                Ok(())
            }
            Err((status, moving)) => {
                // There was no room: it stays where it was.
                self.at_desk(from, now, |desk, subscriptions| drop(subscriptions.give(*moving, false, desk, now)));
                self.pump_subscriptions(from, now);
                Err(status)
            }
        }
    }

    /// How well the channel of a session is protected: the number of its MessageSecurityMode grows with it.
    fn mode_of(&self, key: SessionKey) -> i32 {
        self.sessions.get(key).map_or(0, |session| session.core.binding.mode as i32)
    }

    fn record_transfer(&mut self, key: SessionKey, from: SessionKey, id: u32, now: Now) {
        let (Some(to), Some(from)) = (self.sessions.get(key), self.sessions.get(from)) else { return };
        let record = AuditRecord {
            detail: format!("subscription {id} was taken over from session {}", from.core.id),
            ..event(now, AuditKind::Notify, &to.core.actor, to.core.id.to_string(), Outcome::Allowed)
        };
        let session = to.core.id.clone();
        self.audit.tell(record, || Told::Transferred { session });
    }

    fn deny_transfer(&mut self, key: SessionKey, reason: Reason, detail: String, now: Now) {
        let Some(core) = self.sessions.get(key).map(|session| &session.core) else { return };
        let session = core.id.clone();
        let record = AuditRecord {
            detail,
            ..event(now, AuditKind::Notify, &core.actor, session.to_string(), Outcome::Denied(reason))
        };
        self.count_denial(Some(key), AuditKind::Notify, reason, now, record, || Told::Transferred { session });
    }
}
