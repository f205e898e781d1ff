//! The task behind all watches of a client: keeps subscriptions in existence, keeps Publish requests at the server, hands
//! out what comes back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gates::opcua::client::CallError;
use opcua_types::{
    AttributeId, CreateMonitoredItemsRequest, CreateMonitoredItemsResponse, CreateSubscriptionRequest,
    CreateSubscriptionResponse, DataChangeNotification, DataValue, DeleteSubscriptionsRequest, EventNotificationList,
    ExtensionObject, MonitoredItemCreateRequest, MonitoringMode, MonitoringParameters, NodeId, NotificationMessage,
    PublishRequest, PublishResponse, ReadValueId, RepublishRequest, StatusChangeNotification, StatusCode,
    SubscriptionAcknowledgement, TimestampsToReturn, Variant,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::sleep;
use ua_proto::client::{Request, Response};

use crate::connection::Core;
use crate::denials::{Denied, Turn};
use crate::error::ClientError;
use crate::operations::is_denial;
use crate::session::Session;
use crate::watch::{Change, WatchOptions};

/// Items in one CreateMonitoredItems request.
const BATCH: usize = 500;
/// Most Publish requests at the server.
const MOST: usize = 8;
/// Lost messages that are asked for again at once.
const MOST_LOST: u32 = 32;
/// How often a lost message is asked for while connections break over it.
const FETCHES: usize = 8;
/// Pause after something went wrong; doubles up to the second.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(4));

/// What a watch wants.
pub(crate) struct Wanted {
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) options: WatchOptions,
    pub(crate) kind: Kind,
}

/// What of the nodes, and where it goes.
pub(crate) enum Kind {
    Values(mpsc::Sender<Change>),
    /// With the filter that selects the fields.
    Events(ExtensionObject, mpsc::Sender<Vec<Variant>>),
}

type Added = Result<(u64, Vec<StatusCode>), ClientError>;

/// What the publisher is told to do.
pub(crate) enum Order {
    Add(Box<Wanted>, oneshot::Sender<Added>),
    Remove(u64),
}

impl Order {
    /// A watch was dropped.
    pub(crate) fn remove(orders: &mpsc::Sender<Self>, id: u64) {
        if orders.try_send(Self::Remove(id)).is_err()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let orders = orders.clone();
            runtime.spawn(async move { orders.send(Self::Remove(id)).await });
        }
    }
}

struct Running {
    wanted: Wanted,
    /// The subscription at the server, while there is one.
    subscription: Option<u32>,
    /// The number of the next message.
    next: u32,
    /// How many subscriptions had been made before, this one included.
    made: u64,
    denied: Denied,
}

#[derive(Clone, Copy)]
struct Sent {
    session: u64,
    made: u64,
    /// The token that the session had.
    generation: u64,
}

struct Publisher {
    core: Arc<Core>,
    session: Session,
    running: BTreeMap<u64, Running>,
    last_id: u64,
    /// The session whose subscriptions these are.
    of_session: u64,
    acknowledgements: Vec<SubscriptionAcknowledgement>,
    /// Subscriptions made so far.
    made: u64,
    /// Requests at the server, each with the session and the number of subscriptions made when it was sent.
    requests: JoinSet<(Sent, Result<Response, CallError>)>,
    most: usize,
    /// Something failed: wait a little before the next try.
    paused: bool,
    pause: Duration,
    /// The session as a whole is denied its subscriptions, last with the token of this generation.
    denied: Option<u64>,
}

/// Runs until the client is dropped.
pub(crate) async fn run(core: Arc<Core>, mut orders: mpsc::Receiver<Order>) {
    let session = core.session.clone();
    let of_session = session.state.borrow().sessions;
    let mut state = session.state.clone();
    let mut publisher = Publisher {
        core,
        session,
        running: BTreeMap::new(),
        last_id: 0,
        of_session,
        acknowledgements: Vec::new(),
        made: 0,
        requests: JoinSet::new(),
        most: MOST,
        paused: false,
        pause: PAUSE.0,
        denied: None,
    };
    loop {
        let now = state.borrow_and_update().clone();
        if now.active {
            publisher.restore(now.sessions).await;
            publisher.request_more();
        }
        tokio::select! {
            order = orders.recv() => match order {
                Some(Order::Add(wanted, answer)) => drop(answer.send(publisher.add(*wanted).await)),
                Some(Order::Remove(id)) => publisher.remove(id).await,
                None => return,
            },
            Some(done) = publisher.requests.join_next() => if let Ok((sent, outcome)) = done {
                publisher.answered(sent, outcome).await;
            },
            changed = state.changed() => {
                (publisher.paused, publisher.pause) = (false, PAUSE.0);
                if changed.is_err() {
                    return;
                }
            },
            () = sleep(publisher.pause), if publisher.paused => publisher.go_on(),
        }
    }
}

impl Publisher {
    /// Tries again after a failure; the next pause is longer unless something succeeds.
    fn go_on(&mut self) {
        self.paused = false;
        self.pause = (self.pause * 2).min(PAUSE.1);
    }

    async fn add(&mut self, wanted: Wanted) -> Added {
        self.session.ready().await?;
        let sessions = self.session.state.borrow().sessions;
        self.restore(sessions).await;
        let (subscription, results) = self.create(&wanted).await?;
        self.last_id += 1;
        self.made += 1;
        let id = self.last_id;
        let denied = Denied::default();
        self.running.insert(id, Running { wanted, subscription: Some(subscription), next: 1, made: self.made, denied });
        Ok((id, results))
    }

    async fn remove(&mut self, id: u64) {
        let removed = self.running.remove(&id);
        self.count_denied();
        let Some(Running { subscription: Some(subscription), .. }) = removed else { return };
        self.delete(subscription).await;
    }

    async fn delete(&self, subscription: u32) {
        let request = DeleteSubscriptionsRequest {
            request_header: Default::default(),
            subscription_ids: Some(vec![subscription]),
        };
        // If this fails the server forgets the subscription by itself.
        let _ = self.session.handle.request(Request::DeleteSubscriptions(request), None).await;
    }

    /// Creates what does not exist (any more) at the server.
    async fn restore(&mut self, session: u64) {
        if session != self.of_session {
            self.of_session = session;
            self.acknowledgements.clear();
            self.running.values_mut().for_each(|one| one.subscription = None);
        }
        let missing: Vec<u64> =
            self.running.iter().filter(|(_, one)| one.subscription.is_none()).map(|(id, _)| *id).collect();
        if self.paused {
            return;
        }
        for id in missing {
            let Some(one) = self.running.get(&id) else { continue };
            match self.create(&one.wanted).await {
                Ok((subscription, results)) => {
                    self.made += 1;
                    if let Some(one) = self.running.get_mut(&id) {
                        (one.subscription, one.next, one.made) = (Some(subscription), 1, self.made);
                    }
                    self.tell_refusals(id, results).await;
                }
                Err(error) => {
                    tracing::debug!(%error, "a watch could not be restored yet");
                    self.failed(is_denial(&error), self.core.generation());
                    return;
                }
            }
        }
    }

    /// What could not be watched any more after a reconnection.
    async fn tell_refusals(&mut self, id: u64, results: Vec<StatusCode>) {
        for (item, status) in results.into_iter().enumerate().filter(|(_, status)| status.is_bad()) {
            let value = DataValue { status: Some(status), ..DataValue::null() };
            if !self.hand_out_one(id, Change { item, value }).await {
                return;
            }
        }
    }

    async fn create(&self, wanted: &Wanted) -> Result<(u32, Vec<StatusCode>), ClientError> {
        let options = &wanted.options;
        let request = CreateSubscriptionRequest {
            request_header: Default::default(),
            requested_publishing_interval: options.publishing_interval.as_secs_f64() * 1_000.0,
            requested_lifetime_count: options.lifetime_count,
            requested_max_keep_alive_count: options.keep_alive_count,
            max_notifications_per_publish: 0,
            publishing_enabled: true,
            priority: options.priority,
        };
        let created: CreateSubscriptionResponse = self.session.handle.call(request).await?;
        let subscription = created.subscription_id;
        match self.create_items(subscription, wanted).await {
            Ok(results) => Ok((subscription, results)),
            Err(error) => {
                self.delete(subscription).await;
                Err(error)
            }
        }
    }

    async fn create_items(&self, subscription_id: u32, wanted: &Wanted) -> Result<Vec<StatusCode>, ClientError> {
        let (attribute, filter, sampling) = match &wanted.kind {
            Kind::Values(_) => (AttributeId::Value, wanted.options.filter(), wanted.options.sampling_interval),
            Kind::Events(filter, _) => (AttributeId::EventNotifier, filter.clone(), Duration::ZERO),
        };
        let mut results = Vec::with_capacity(wanted.nodes.len());
        for (batch, nodes) in wanted.nodes.chunks(BATCH).enumerate() {
            let item = |(at, node): (usize, &NodeId)| MonitoredItemCreateRequest {
                item_to_monitor: ReadValueId {
                    node_id: node.clone(),
                    attribute_id: attribute as u32,
                    ..ReadValueId::default()
                },
                monitoring_mode: MonitoringMode::Reporting,
                requested_parameters: MonitoringParameters {
                    client_handle: u32::try_from(batch * BATCH + at).unwrap_or(u32::MAX),
                    sampling_interval: sampling.as_secs_f64() * 1_000.0,
                    filter: filter.clone(),
                    queue_size: wanted.options.queue_size,
                    discard_oldest: wanted.options.discard_oldest,
                },
            };
            let request = CreateMonitoredItemsRequest {
                request_header: Default::default(),
                subscription_id,
                timestamps_to_return: TimestampsToReturn::Both,
                items_to_create: Some(nodes.iter().enumerate().map(item).collect()),
            };
            let response: CreateMonitoredItemsResponse = self.session.handle.call(request).await?;
            let created = response.results.unwrap_or_default();
            if created.len() != nodes.len() {
                return Err(ClientError::WrongCount { got: created.len(), asked: nodes.len() });
            }
            results.extend(created.into_iter().map(|result| result.status_code));
        }
        Ok(results)
    }

    /// Keeps as many Publish requests at the server as its subscriptions can use.
    fn request_more(&mut self) {
        let subscriptions = self.running.values().filter(|one| one.subscription.is_some()).count();
        if subscriptions == 0 || self.paused {
            return;
        }
        let limit = self.patience();
        while self.requests.len() < (subscriptions + 1).min(self.most) {
            let acknowledgements = std::mem::take(&mut self.acknowledgements);
            let request = Request::Publish(PublishRequest {
                request_header: Default::default(),
                subscription_acknowledgements: (!acknowledgements.is_empty()).then_some(acknowledgements),
            });
            let handle = self.session.handle.clone();
            let sent = Sent { session: self.of_session, made: self.made, generation: self.core.generation() };
            self.requests.spawn(async move { (sent, handle.request(request, Some(limit)).await) });
        }
    }

    /// A Publish request waits for a whole keep-alive, behind others.
    fn patience(&self) -> Duration {
        let longest = self
            .running
            .values()
            .map(|one| one.wanted.options.publishing_interval * one.wanted.options.keep_alive_count.saturating_add(2));
        let most = u32::try_from(self.most).unwrap_or(u32::MAX);
        longest.max().unwrap_or_default() * most + Duration::from_secs(10)
    }

    async fn answered(&mut self, sent: Sent, outcome: Result<Response, CallError>) {
        match outcome {
            Ok(Response::Publish(response)) if sent.session == self.of_session => {
                (self.pause, self.denied) = (PAUSE.0, None);
                self.count_denied();
                self.take(*response).await;
            }
            Ok(_) => {}
            Err(CallError::Service(StatusCode::BadTooManyPublishRequests)) => {
                self.most = self.requests.len().max(1);
            }
            // Says nothing about subscriptions that were made after the request was sent.
            Err(CallError::Service(StatusCode::BadNoSubscription)) if sent.session == self.of_session => {
                let gone = self.running.values_mut().filter(|one| one.made <= sent.made);
                gone.for_each(|one| one.subscription = None);
            }
            Err(CallError::Service(StatusCode::BadTimeout)) => {}
            Err(error) => {
                tracing::debug!(%error, "a Publish request failed");
                self.failed(is_denial(&error.into()), sent.generation);
            }
        }
    }

    /// A service failed: a pause, and a fresh token when it was denied and had not been before with this one.
    fn failed(&mut self, denied: bool, generation: u64) {
        self.paused = true;
        if denied && self.denied.is_none_or(|before| before < generation) {
            self.denied = Some(generation);
            self.count_denied();
            self.core.denials.denied(generation);
        }
    }

    /// Tells how much is denied now, so that nobody asks for a token that nothing needs.
    fn count_denied(&self) {
        let items: usize = self.running.values().map(|one| one.denied.len()).sum();
        self.core.denials.stand(items + usize::from(self.denied.is_some()));
    }

    async fn take(&mut self, response: PublishResponse) {
        let (subscription, message) = (response.subscription_id, response.notification_message);
        let Some(id) = self.id_of(subscription) else {
            // Nobody here wants it: of a watch that was dropped, or given up for lost too early.
            return self.delete(subscription).await;
        };
        let carries = message.notification_data.is_some();
        if let Some(next) = self.running.get(&id).map(|one| one.next) {
            let lost = message.sequence_number.saturating_sub(next);
            // More than this is another count: the server restarted it, or it wrapped.
            if lost > 0 && lost <= MOST_LOST {
                for sequence in next..message.sequence_number {
                    self.fetch_lost(id, subscription, sequence).await;
                }
            }
        }
        if carries {
            if let Some(one) = self.running.get_mut(&id) {
                one.next = message.sequence_number.checked_add(1).unwrap_or(1);
            }
            self.acknowledgements.push(SubscriptionAcknowledgement {
                subscription_id: subscription,
                sequence_number: message.sequence_number,
            });
            self.hand_out(id, message).await;
        }
    }

    async fn fetch_lost(&mut self, id: u64, subscription_id: u32, sequence: u32) {
        let request = RepublishRequest {
            request_header: Default::default(),
            subscription_id,
            retransmit_sequence_number: sequence,
        };
        for _ in 0..FETCHES {
            match self.session.request(request.clone().into(), None).await {
                Ok(Response::Republish(response)) => return self.hand_out(id, response.notification_message).await,
                // The connection broke over it: the session may have moved to the next one.
                Err(ClientError::Call(CallError::Service(
                    StatusCode::BadConnectionClosed | StatusCode::BadTimeout,
                ))) => {}
                // What the server does not have any more, or may not give any more, stays lost; the next value comes anyway.
                _ => return,
            }
        }
    }

    async fn hand_out(&mut self, id: u64, message: NotificationMessage) {
        for part in message.notification_data.into_iter().flatten() {
            if part.inner_is::<StatusChangeNotification>() {
                // The server gave the subscription up; it is created again.
                self.running.get_mut(&id).into_iter().for_each(|one| one.subscription = None);
            } else if part.inner_is::<EventNotificationList>() {
                let Some(list) = part.into_inner_as::<EventNotificationList>() else { continue };
                for event in list.events.into_iter().flatten() {
                    let Some(Kind::Events(_, events)) = self.running.get(&id).map(|one| &one.wanted.kind) else {
                        return;
                    };
                    if events.clone().send(event.event_fields.unwrap_or_default()).await.is_err() {
                        return;
                    }
                }
            } else if let Some(values) = part.into_inner_as::<DataChangeNotification>() {
                for item in values.monitored_items.into_iter().flatten() {
                    let change = Change { item: item.client_handle as usize, value: item.value };
                    if !self.hand_out_one(id, change).await {
                        return;
                    }
                }
            }
        }
    }

    /// Gives a change to its reader, and notes what it says of the rights. Whether there still is a reader.
    async fn hand_out_one(&mut self, id: u64, change: Change) -> bool {
        let Some(one) = self.running.get_mut(&id) else { return false };
        // A number that was never given to the server.
        if change.item >= one.wanted.nodes.len() {
            return true;
        }
        // A token that is on its way may be the one that this denial is of: then it must not count as the answer to it.
        let generation = self.core.generation_under_way();
        let turn = one.denied.note(change.item, change.value.status(), generation);
        let changes = if let Kind::Values(changes) = &one.wanted.kind { Some(changes.clone()) } else { None };
        if let Some(turn) = turn {
            self.count_denied();
            match turn {
                Turn::Denied => self.core.denials.denied(generation),
                Turn::Permitted => self.core.denials.permitted(),
            }
        }
        match changes {
            Some(changes) => changes.send(change).await.is_ok(),
            None => true,
        }
    }

    fn id_of(&self, subscription: u32) -> Option<u64> {
        self.running.iter().find(|(_, one)| one.subscription == Some(subscription)).map(|(id, _)| *id)
    }
}
