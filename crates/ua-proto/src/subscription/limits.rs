//! Bounds of what one session may ask for. Everything a peer can make grow is named here.

use std::time::Duration;

/// Bounds and defaults for the subscriptions of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionLimits {
    /// Most subscriptions.
    pub max_subscriptions: usize,
    /// Most monitored items over all subscriptions.
    pub max_items: usize,
    /// Most links from triggering items to others, over all items.
    pub max_links: usize,
    /// Most monitored items that report events: each of them looks at every event.
    pub max_event_items: usize,
    /// Most entries of one item's queue.
    pub max_queue_size: u32,
    /// Most queue entries over all items; when they are used up, further items get a queue of one.
    pub max_queued_values: usize,
    /// Most Publish requests that wait; one more turns the oldest away.
    pub max_publish_requests: usize,
    /// Most sent messages kept for Republish, for each subscription.
    pub max_retained_messages: usize,
    /// Most values in sent messages kept for Republish, for each subscription; the newest message is always kept.
    pub max_retained_values: usize,
    /// Most notifications in one message, whatever the client asks for.
    pub max_notifications: u32,
    /// Shortest publishing interval.
    pub min_publishing_interval: Duration,
    /// Longest publishing interval.
    pub max_publishing_interval: Duration,
    /// Most publishing cycles without a message.
    pub max_keep_alive_count: u32,
    /// Most publishing cycles without a Publish request.
    pub max_lifetime_count: u32,
    /// Shortest cycle in which computed values are sampled, and shortest sampling interval that is not zero.
    pub min_sampling_interval: Duration,
}

impl Default for SubscriptionLimits {
    fn default() -> Self {
        Self {
            max_subscriptions: 32,
            max_items: 10_000,
            max_links: 10_000,
            max_event_items: 100,
            max_queue_size: 1_000,
            max_queued_values: 50_000,
            max_publish_requests: 32,
            max_retained_messages: 64,
            max_retained_values: 20_000,
            max_notifications: 5_000,
            min_publishing_interval: Duration::from_millis(5),
            max_publishing_interval: Duration::from_secs(3_600),
            max_keep_alive_count: 10_000,
            max_lifetime_count: 30_000,
            min_sampling_interval: Duration::from_millis(5),
        }
    }
}
