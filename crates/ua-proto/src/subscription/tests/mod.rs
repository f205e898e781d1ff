//! The machine from outside: a pretend server with a few nodes, rights that come and go, and virtual time.

mod life;
mod moving;
mod publishing;
mod rights;
mod sampling;
mod triggering;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use access_model::{Now, Rights};
use opcua_types::{
    CreateMonitoredItemsRequest, CreateSubscriptionRequest, DataChangeNotification, DataValue, ExtensionObject,
    MonitoredItemCreateRequest, MonitoringMode, MonitoringParameters, NodeId, NotificationMessage, PublishResponse,
    ReadValueId, RepublishRequest, RequestHeader, StatusChangeNotification, StatusCode, SubscriptionAcknowledgement,
    TimestampsToReturn, Variant,
};

use super::*;
use crate::event::About;
use crate::space::Space;

pub(super) const MS: Duration = Duration::from_millis(1);

/// Nodes 0..: each has a number as value; `denied` takes the right to read away.
#[derive(Default)]
pub(super) struct Pretend {
    pub(super) values: BTreeMap<u32, i32>,
    pub(super) denied: BTreeMap<u32, bool>,
    pub(super) computed: BTreeMap<u32, bool>,
    pub(super) delivered: usize,
    pub(super) samples: usize,
    pub(super) space: Option<Space>,
}

impl Pretend {
    fn may(&self, node: NodeRef) -> bool {
        !self.denied.get(&node.0).copied().unwrap_or(false)
    }
}

impl ItemSource for Pretend {
    fn resolve(&mut self, item: &ReadValueId) -> Result<Target, StatusCode> {
        let opcua_types::Identifier::Numeric(node) = item.node_id.identifier else {
            return Err(StatusCode::BadNodeIdUnknown);
        };
        let computed = self.computed.get(&node).copied().unwrap_or(false);
        Ok(Target { node: NodeRef(node), attribute: item.attribute_id, computed, numeric: true, range: None })
    }

    fn sample(&mut self, node: NodeRef, _attribute: u32) -> Sample {
        self.samples += 1;
        if !self.may(node) {
            return Sample::Denied;
        }
        Sample::Value(value(self.values.get(&node.0).copied().unwrap_or(0)))
    }

    fn deliver(&mut self, node: NodeRef, _attribute: u32) -> bool {
        let may = self.may(node);
        self.delivered += usize::from(may);
        may
    }

    fn may_receive(&self, notifier: NodeRef, about: About) -> bool {
        [notifier, about.source, about.event_type].into_iter().all(|node| self.may(node))
    }

    fn deliver_event(&mut self, notifier: NodeRef, about: About) -> bool {
        let may = self.may_receive(notifier, about);
        self.delivered += usize::from(may);
        may
    }

    fn sees(&self, _node: NodeRef) -> bool {
        true
    }

    fn holds(&self, node: NodeRef, _rights: Rights) -> bool {
        self.may(node)
    }

    fn space(&self) -> &Space {
        self.space.as_ref().expect("a test of events has a space")
    }
}

pub(super) fn value(number: i32) -> DataValue {
    DataValue {
        value: Some(Variant::Int32(number)),
        source_timestamp: Some(opcua_types::DateTime::from(1_000)),
        server_timestamp: Some(opcua_types::DateTime::from(2_000)),
        ..DataValue::null()
    }
}

/// What a notification says: client handle and the number, or the status in place of it.
pub(super) type Told = (u32, Result<i32, StatusCode>);

pub(super) struct Bench {
    pub(super) machine: Subscriptions,
    pub(super) source: Pretend,
    pub(super) now: Now,
    tickets: u32,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::with(SubscriptionLimits::default())
    }

    pub(super) fn with(limits: SubscriptionLimits) -> Self {
        let machine = Subscriptions::new(Arc::new(limits));
        Self { machine, source: Pretend::default(), now: Now::default(), tickets: 0 }
    }

    /// 100 ms publishing interval, keep-alive after 3 cycles, lifetime of 9.
    pub(super) fn subscribe(&mut self, id: u32) {
        self.subscribe_with(id, 0, 0);
    }

    pub(super) fn subscribe_with(&mut self, id: u32, priority: u8, max_notifications: u32) {
        let request = CreateSubscriptionRequest {
            request_header: RequestHeader::dummy(),
            requested_publishing_interval: 100.0,
            requested_lifetime_count: 9,
            requested_max_keep_alive_count: 3,
            max_notifications_per_publish: max_notifications,
            publishing_enabled: true,
            priority,
        };
        let response = self.machine.create(id, &request, self.now).unwrap();
        assert_eq!((response.revised_publishing_interval, response.revised_lifetime_count), (100.0, 9));
    }

    /// Monitors `node` with client handle `node`, reporting, and returns the item's id.
    pub(super) fn monitor(&mut self, subscription: u32, node: u32, sampling: f64, queue: u32) -> u32 {
        let result = self.monitor_as(subscription, node, MonitoringMode::Reporting, sampling, queue);
        assert_eq!(result.status_code, StatusCode::Good);
        result.monitored_item_id
    }

    pub(super) fn monitor_as(
        &mut self,
        subscription: u32,
        node: u32,
        monitoring_mode: MonitoringMode,
        sampling_interval: f64,
        queue_size: u32,
    ) -> opcua_types::MonitoredItemCreateResult {
        let item = MonitoredItemCreateRequest {
            item_to_monitor: ReadValueId {
                node_id: NodeId::new(1, node),
                attribute_id: 13,
                index_range: opcua_types::NumericRange::None,
                data_encoding: Default::default(),
            },
            monitoring_mode,
            requested_parameters: MonitoringParameters {
                client_handle: node,
                sampling_interval,
                filter: ExtensionObject::null(),
                queue_size,
                discard_oldest: true,
            },
        };
        let request = CreateMonitoredItemsRequest {
            request_header: RequestHeader::dummy(),
            subscription_id: subscription,
            timestamps_to_return: TimestampsToReturn::Both,
            items_to_create: Some(vec![item]),
        };
        let mut results = self.machine.create_items(&request, &mut self.source, self.now).unwrap();
        results.remove(0)
    }

    pub(super) fn set(&mut self, node: u32, number: i32) {
        self.source.values.insert(node, number);
        self.machine.on_change(NodeRef(node), &value(number), self.now);
    }

    pub(super) fn publish(&mut self) -> u32 {
        self.publish_with(None)
    }

    pub(super) fn publish_times(&mut self, times: usize) {
        for _ in 0..times {
            self.publish();
        }
    }

    pub(super) fn publish_with(&mut self, acknowledgements: Option<&[SubscriptionAcknowledgement]>) -> u32 {
        self.tickets += 1;
        let ticket = PublishTicket { request_id: self.tickets, request_handle: self.tickets };
        self.machine.publish(ticket, acknowledgements, &mut self.source, self.now);
        self.tickets
    }

    /// Moves time forward, serving every deadline on the way.
    pub(super) fn pass(&mut self, by: Duration) {
        let end = self.now.after(by);
        while let Some(at) = self.machine.poll_timeout()
            && at <= end.mono
        {
            self.now = self.now.after(at.since(self.now.mono));
            self.machine.handle_timeout(&mut self.source, self.now);
            let next = self.machine.poll_timeout();
            assert!(next.is_none_or(|next| next > self.now.mono), "a served deadline lies in the past");
        }
        self.now = self.now.after(end.mono.since(self.now.mono));
    }

    pub(super) fn answers(&mut self) -> Vec<(u32, Result<PublishResponse, StatusCode>)> {
        let mut answers = Vec::new();
        while let Some(answer) = self.machine.poll_answer() {
            answers.push((answer.ticket.request_id, answer.outcome.map(|response| *response)));
        }
        answers
    }

    /// The one answer that is there.
    pub(super) fn answer(&mut self) -> PublishResponse {
        let mut answers = self.answers();
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers.remove(0).1.unwrap()
    }

    pub(super) fn republish(&mut self, subscription: u32, sequence: u32) -> Result<Vec<Told>, StatusCode> {
        let request = RepublishRequest {
            request_header: RequestHeader::dummy(),
            subscription_id: subscription,
            retransmit_sequence_number: sequence,
        };
        self.machine.republish(&request, &mut self.source).map(|message| told(&message))
    }
}

pub(super) fn told(message: &NotificationMessage) -> Vec<Told> {
    let parts = message.notification_data.iter().flatten();
    let values = parts.filter_map(|part| part.inner_as::<DataChangeNotification>());
    let values = values.flat_map(|values| values.monitored_items.iter().flatten());
    let read = |value: &DataValue| match value.value {
        Some(Variant::Int32(number)) => Ok(number),
        _ => Err(value.status()),
    };
    values.map(|item| (item.client_handle, read(&item.value))).collect()
}

pub(super) fn ended_with(message: &NotificationMessage) -> Option<StatusCode> {
    let mut parts = message.notification_data.iter().flatten();
    parts.find_map(|part| part.inner_as::<StatusChangeNotification>()).map(|change| change.status)
}

pub(super) fn acknowledge(subscription_id: u32, sequence_number: u32) -> SubscriptionAcknowledgement {
    SubscriptionAcknowledgement { subscription_id, sequence_number }
}
