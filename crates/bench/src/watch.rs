//! A session that monitors values: what notifications bring, and Publish requests that are always under way.

use std::collections::BTreeSet;
use std::ops::Range;

use access_model::UnixTime;
use gates::clock;
use opcua_types::{
    AttributeId, CreateMonitoredItemsRequest, CreateMonitoredItemsResponse, CreateSubscriptionRequest,
    CreateSubscriptionResponse, DataChangeNotification, ExtensionObject, MonitoredItemCreateRequest,
    MonitoredItemNotification, MonitoringMode, MonitoringParameters, NodeId, PublishRequest, ReadValueId,
    SubscriptionAcknowledgement, TimestampsToReturn,
};
use ua_proto::client::{CallId, ClientEvent, Response};

use crate::Failed;
use crate::fixture;
use crate::load::Link;

/// Publish requests that wait at the server.
const PUBLISHES: usize = 4;
/// Items made in one request.
const AT_ONCE: usize = 1_000;

/// The session.
pub struct Watch {
    link: Link,
    publishes: BTreeSet<CallId>,
    received: Vec<SubscriptionAcknowledgement>,
}

impl Watch {
    /// Monitors these variables, whose numbers become the client handles, published every `cycle` milliseconds.
    ///
    /// # Errors
    /// The server refuses an item.
    pub async fn open(mut link: Link, variables: Range<u32>, cycle: f64) -> Result<Self, Failed> {
        let request = CreateSubscriptionRequest {
            request_header: Default::default(),
            requested_publishing_interval: cycle,
            requested_lifetime_count: 10_000,
            requested_max_keep_alive_count: 1_000,
            max_notifications_per_publish: 0,
            publishing_enabled: true,
            priority: 0,
        };
        let subscription: CreateSubscriptionResponse = link.call(request).await?;
        let variables: Vec<u32> = variables.collect();
        for some in variables.chunks(AT_ONCE) {
            let request = CreateMonitoredItemsRequest {
                request_header: Default::default(),
                subscription_id: subscription.subscription_id,
                timestamps_to_return: TimestampsToReturn::Source,
                items_to_create: Some(some.iter().map(|nth| item(*nth, 2)).collect()),
            };
            let created: CreateMonitoredItemsResponse = link.call(request).await?;
            if let Some(bad) = created.results.unwrap_or_default().iter().find(|item| item.status_code.is_bad()) {
                return Err(format!("an item could not be monitored: {}", bad.status_code).into());
            }
        }
        let mut watch = Self { link, publishes: BTreeSet::new(), received: Vec::new() };
        watch.ask()?;
        Ok(watch)
    }

    fn ask(&mut self) -> Result<(), Failed> {
        while self.publishes.len() < PUBLISHES {
            let acknowledgements = std::mem::take(&mut self.received);
            let request = PublishRequest {
                request_header: Default::default(),
                subscription_acknowledgements: (!acknowledgements.is_empty()).then_some(acknowledgements),
            };
            self.publishes.insert(self.link.send(request)?);
        }
        Ok(())
    }

    /// Waits for what comes next and hands each value in it on, with the time at which it came.
    ///
    /// # Errors
    /// The connection or the subscription ends.
    pub async fn next(&mut self, mut take: impl FnMut(&MonitoredItemNotification, UnixTime)) -> Result<(), Failed> {
        let event = self.link.next().await?;
        let now = clock::now().unix;
        match event {
            ClientEvent::Answer(id, Ok(Response::Publish(published))) if self.publishes.remove(&id) => {
                let message = &published.notification_message;
                for part in message.notification_data.iter().flatten() {
                    let changes = part.inner_as::<DataChangeNotification>();
                    changes
                        .iter()
                        .flat_map(|change| change.monitored_items.iter().flatten())
                        .for_each(|item| take(item, now));
                }
                self.received.push(SubscriptionAcknowledgement {
                    subscription_id: published.subscription_id,
                    sequence_number: message.sequence_number,
                });
                self.ask()
            }
            ClientEvent::Answer(_, Err(status)) => Err(format!("a subscription failed with {status}").into()),
            ClientEvent::Disconnected(status) => Err(format!("disconnected: {status}").into()),
            _ => Ok(()),
        }
    }
}

/// The request for an item that reports every change of a value, with room for `queue` of them.
pub fn item(nth: u32, queue: u32) -> MonitoredItemCreateRequest {
    MonitoredItemCreateRequest {
        item_to_monitor: ReadValueId {
            node_id: NodeId::new(2, fixture::number(nth)),
            attribute_id: AttributeId::Value as u32,
            ..ReadValueId::default()
        },
        monitoring_mode: MonitoringMode::Reporting,
        requested_parameters: MonitoringParameters {
            client_handle: nth,
            sampling_interval: 0.0,
            filter: ExtensionObject::null(),
            queue_size: queue,
            discard_oldest: true,
        },
    }
}
