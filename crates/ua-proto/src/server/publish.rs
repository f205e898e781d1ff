//! The subscription machine of each session, driven: requests in, answers out, changes routed to those who watch.

use std::time::Duration;

use access_model::Now;
use opcua_types::{
    BinaryEncodable, CreateMonitoredItemsResponse, CreateSubscriptionRequest, DeleteMonitoredItemsResponse,
    DeleteSubscriptionsResponse, MessageInfo, ModifyMonitoredItemsResponse, PublishRequest, RepublishResponse,
    SetMonitoringModeResponse, SetPublishingModeResponse, SetTriggeringResponse, StatusCode,
};

use super::Server;
use super::codec::{response_header, write_message};
use super::desk::Desk;
use super::dispatch::{Request, Service};
use super::session::UaSession;
use super::timers::{SessionKey, Timer};
use crate::channel::EncodeError;
use crate::subscription::{PublishAnswer, PublishTicket, Subscriptions, WatchChange};

/// How long a session's notifications are put off at a time while the peer does not read.
const RETRY: Duration = Duration::from_millis(100);

impl Server {
    /// Lends everything that a service needs of an activated session.
    pub(super) fn at_desk<R>(
        &mut self,
        key: SessionKey,
        now: Now,
        serve: impl FnOnce(&mut Desk<'_>, &mut Subscriptions) -> R,
    ) -> Option<R> {
        let Self { config, codec, space, gate, audit, interlocks, sessions, .. } = self;
        let UaSession { core, subscriptions } = sessions.get_mut(key)?;
        let grant = core.login.as_ref()?.grant;
        let mut desk = Desk { config, codec, space, gate, audit, interlocks, session: core, grant, now };
        Some(serve(&mut desk, subscriptions))
    }

    /// Serves a request straight into the connection's buffer.
    #[inline]
    pub(super) fn reply(
        &mut self,
        key: SessionKey,
        request: &Request<'_>,
        now: Now,
        mut serve: impl FnMut(&mut Desk<'_>, &mut Subscriptions, &mut Vec<u8>) -> Result<(), StatusCode>,
    ) -> Result<(), StatusCode> {
        let Self { config, codec, space, gate, audit, interlocks, sessions, connections, .. } = self;
        let UaSession { core, subscriptions } = sessions.get_mut(key).ok_or(StatusCode::BadSessionIdInvalid)?;
        let connection = connections.get_mut(&request.conn).ok_or(StatusCode::BadSecureChannelClosed)?;
        let grant = core.login.as_ref().ok_or(StatusCode::BadSessionNotActivated)?.grant;
        let most = core.max_response as usize;
        let mut desk = Desk { config, codec, space, gate, audit, interlocks, session: core, grant, now };
        let mut write = |out: &mut Vec<u8>| {
            let start = out.len();
            serve(&mut desk, subscriptions, out).map_err(EncodeError)?;
            if most != 0 && out.len().saturating_sub(start) > most {
                return Err(EncodeError(StatusCode::BadResponseTooLarge));
            }
            Ok(())
        };
        if let Err(error) = connection.channel.send(request.request_id, &mut write, now) {
            self.unsendable(request.conn, request.request_id, request.header.handle, error, now);
        }
        Ok(())
    }

    /// The subscription services but Publish.
    pub(super) fn subscription_service(
        &mut self,
        service: Service,
        key: SessionKey,
        request: &Request<'_>,
        now: Now,
    ) -> Result<(), StatusCode> {
        let items = self.config.limits.operations.max_monitored_items_per_call;
        let mut body = Vec::new();
        let handle = request.header.handle;
        let header = response_header(now, handle);
        let whole = request.whole;
        match service {
            Service::CreateSubscription => {
                let asked: CreateSubscriptionRequest = self.codec.decode(whole)?;
                self.last_subscription = self.last_subscription.checked_add(1).unwrap_or(1);
                let id = self.last_subscription;
                self.served(key, now, &mut body, |_, subscriptions| {
                    let mut response = subscriptions.create(id, &asked, now)?;
                    response.response_header = header;
                    Ok(response)
                })?;
            }
            Service::ModifySubscription => {
                let asked = self.codec.decode(whole)?;
                self.served(key, now, &mut body, |_, subscriptions| {
                    let mut response = subscriptions.modify(&asked, now)?;
                    response.response_header = header;
                    Ok(response)
                })?;
            }
            Service::DeleteSubscriptions => {
                let asked: opcua_types::DeleteSubscriptionsRequest = self.codec.decode(whole)?;
                some(asked.subscription_ids.as_ref().map_or(0, Vec::len), items)?;
                self.served(key, now, &mut body, |_, subscriptions| {
                    let results = Some(subscriptions.delete(&asked));
                    Ok(DeleteSubscriptionsResponse { response_header: header, results, diagnostic_infos: None })
                })?;
            }
            Service::SetPublishingMode => {
                let asked: opcua_types::SetPublishingModeRequest = self.codec.decode(whole)?;
                some(asked.subscription_ids.as_ref().map_or(0, Vec::len), items)?;
                self.served(key, now, &mut body, |_, subscriptions| {
                    let results = Some(subscriptions.set_publishing_mode(&asked));
                    Ok(SetPublishingModeResponse { response_header: header, results, diagnostic_infos: None })
                })?;
            }
            Service::CreateMonitoredItems => {
                let asked: opcua_types::CreateMonitoredItemsRequest = self.codec.decode(whole)?;
                some(asked.items_to_create.as_ref().map_or(0, Vec::len), items)?;
                self.served(key, now, &mut body, |desk, subscriptions| {
                    let results = Some(subscriptions.create_items(&asked, desk, now)?);
                    Ok(CreateMonitoredItemsResponse { response_header: header, results, diagnostic_infos: None })
                })?;
            }
            Service::ModifyMonitoredItems => {
                let asked: opcua_types::ModifyMonitoredItemsRequest = self.codec.decode(whole)?;
                some(asked.items_to_modify.as_ref().map_or(0, Vec::len), items)?;
                self.served(key, now, &mut body, |desk, subscriptions| {
                    let results = Some(subscriptions.modify_items(&asked, desk, now)?);
                    Ok(ModifyMonitoredItemsResponse { response_header: header, results, diagnostic_infos: None })
                })?;
            }
            Service::DeleteMonitoredItems => {
                let asked: opcua_types::DeleteMonitoredItemsRequest = self.codec.decode(whole)?;
                some(asked.monitored_item_ids.as_ref().map_or(0, Vec::len), items)?;
                self.served(key, now, &mut body, |_, subscriptions| {
                    let results = Some(subscriptions.delete_items(&asked)?);
                    Ok(DeleteMonitoredItemsResponse { response_header: header, results, diagnostic_infos: None })
                })?;
            }
            Service::SetMonitoringMode => {
                let asked: opcua_types::SetMonitoringModeRequest = self.codec.decode(whole)?;
                some(asked.monitored_item_ids.as_ref().map_or(0, Vec::len), items)?;
                self.served(key, now, &mut body, |desk, subscriptions| {
                    let results = Some(subscriptions.set_monitoring_mode(&asked, desk, now)?);
                    Ok(SetMonitoringModeResponse { response_header: header, results, diagnostic_infos: None })
                })?;
            }
            Service::SetTriggering => {
                let asked: opcua_types::SetTriggeringRequest = self.codec.decode(whole)?;
                let count = |links: &Option<Vec<u32>>| links.as_ref().map_or(0, Vec::len);
                some(count(&asked.links_to_add).saturating_add(count(&asked.links_to_remove)), items)?;
                self.served(key, now, &mut body, |_, subscriptions| {
                    let (added, removed) = subscriptions.set_triggering(&asked)?;
                    Ok(SetTriggeringResponse {
                        response_header: header,
                        add_results: Some(added),
                        add_diagnostic_infos: None,
                        remove_results: Some(removed),
                        remove_diagnostic_infos: None,
                    })
                })?;
            }
            Service::Republish => {
                let asked = self.codec.decode(whole)?;
                self.served(key, now, &mut body, |desk, subscriptions| {
                    let notification_message = subscriptions.republish(&asked, desk)?;
                    Ok(RepublishResponse { response_header: header, notification_message })
                })?;
            }
            _ => return Err(StatusCode::BadServiceUnsupported),
        }
        self.respond(request.conn, request.request_id, handle, now, |_, out| {
            *out = body;
            Ok(())
        });
        self.pump_subscriptions(key, now);
        Ok(())
    }

    /// Runs a service and encodes its response.
    fn served<R: BinaryEncodable + MessageInfo>(
        &mut self,
        key: SessionKey,
        now: Now,
        body: &mut Vec<u8>,
        serve: impl FnOnce(&mut Desk<'_>, &mut Subscriptions) -> Result<R, StatusCode>,
    ) -> Result<(), StatusCode> {
        let response = self.at_desk(key, now, serve).ok_or(StatusCode::BadSessionClosed)??;
        write_message(body, &response, &self.codec.context(0))
    }

    /// Publish: the request waits in the machine; its answer comes out of [`Server::pump_subscriptions`].
    pub(super) fn publish(&mut self, key: SessionKey, request: &Request<'_>, now: Now) -> Result<(), StatusCode> {
        let asked: PublishRequest = self.codec.decode(request.whole)?;
        let ticket = PublishTicket { request_id: request.request_id, request_handle: request.header.handle };
        let acknowledged = asked.subscription_acknowledgements.as_deref();
        self.at_desk(key, now, |desk, subscriptions| subscriptions.publish(ticket, acknowledged, desk, now));
        self.pump_subscriptions(key, now);
        Ok(())
    }

    /// The next cycle of a session's subscriptions is due. While the peer does not read, it is put off: values that nobody
    /// takes are not handed out, and can still be held back when rights end.
    pub(super) fn subscriptions_due(&mut self, key: SessionKey, now: Now) {
        let Some(session) = self.sessions.get(key) else { return };
        let most = self.config.limits.max_unsent;
        if let Some(connection) = self.connections.get_mut(&session.core.conn)
            && connection.backlog() > most
        {
            if !connection.stalled.contains(&key) {
                connection.stalled.push(key);
            }
            // A shell that got rid of the bytes at once does not say so.
            self.timers.set(Timer::Subscriptions(key), now.mono + RETRY);
            return;
        }
        self.at_desk(key, now, |desk, subscriptions| subscriptions.handle_timeout(desk, now));
        self.pump_subscriptions(key, now);
    }

    /// Sends answers to Publish requests, keeps the list of watchers, arms the next cycle.
    pub(super) fn pump_subscriptions(&mut self, key: SessionKey, now: Now) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let conn = session.core.conn;
        let mut answers = Vec::new();
        while let Some(answer) = session.subscriptions.poll_answer() {
            answers.push(answer);
        }
        while let Some(change) = session.subscriptions.poll_watch() {
            match change {
                WatchChange::Added(node) => self.watchers.entry(node).or_default().push(key),
                WatchChange::Removed(node) => {
                    if let Some(watching) = self.watchers.get_mut(&node) {
                        watching.retain(|other| *other != key);
                        if watching.is_empty() {
                            self.watchers.remove(&node);
                        }
                    }
                }
            }
        }
        self.events.listens(key, session.subscriptions.wants_events());
        // Who listens to a guard is not among these sessions.
        if self.handed.is_none() {
            self.audit.set_heard(self.events.heard());
        }
        match session.subscriptions.poll_timeout() {
            Some(at) => self.timers.set(Timer::Subscriptions(key), at),
            None => self.timers.clear(Timer::Subscriptions(key)),
        }
        if answers.is_empty() {
            return;
        }
        for PublishAnswer { ticket, outcome } in answers {
            match outcome {
                Ok(mut response) => {
                    response.response_header = response_header(now, ticket.request_handle);
                    self.respond(conn, ticket.request_id, ticket.request_handle, now, |server, out| {
                        write_message(out, &*response, &server.codec.context(0))
                    });
                }
                Err(status) => self.fault(conn, ticket.request_id, ticket.request_handle, status, now),
            }
        }
        self.after(conn, now);
    }
}

fn some(count: usize, limit: u32) -> Result<(), StatusCode> {
    super::services::operations(count, limit)
}
