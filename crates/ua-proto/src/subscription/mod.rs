//! The subscriptions of one session: monitored items, queues, Publish, Republish (OPC 10000-4 §5.13 and §5.14).
//!
//! A pure machine. The server that owns it finds nodes, reads values and knows rights; it lends all three as an
//! [`ItemSource`] for the length of a call. Events, triggering and transfer between sessions are not part of it.
//!
//! The calls, in the order in which a session meets them (`s: &mut dyn ItemSource`):
//!
//! ```text
//! Subscriptions::new(limits: Arc<SubscriptionLimits>)
//! create(id: u32, &CreateSubscriptionRequest, now) -> Result<CreateSubscriptionResponse, StatusCode>   // id: unique in the server
//! modify(&ModifySubscriptionRequest, now) -> Result<ModifySubscriptionResponse, StatusCode>
//! delete(&DeleteSubscriptionsRequest) -> Vec<StatusCode>
//! set_publishing_mode(&SetPublishingModeRequest) -> Vec<StatusCode>
//! create_items(&CreateMonitoredItemsRequest, s, now) -> Result<Vec<MonitoredItemCreateResult>, StatusCode>
//! modify_items(&ModifyMonitoredItemsRequest, s, now) -> Result<Vec<MonitoredItemModifyResult>, StatusCode>
//! delete_items(&DeleteMonitoredItemsRequest) -> Result<Vec<StatusCode>, StatusCode>
//! set_monitoring_mode(&SetMonitoringModeRequest, s, now) -> Result<Vec<StatusCode>, StatusCode>
//! publish(PublishTicket, Option<Vec<SubscriptionAcknowledgement>>, s, now)          // answered through poll_answer
//! republish(&RepublishRequest, s) -> Result<NotificationMessage, StatusCode>
//! on_change(node, &DataValue, now)       // the Value attribute of a node changed; cheap when nobody here watches it
//! silence()                              // the grant ended: drop every value, tell each item once, stay silent
//! recheck(s, now)                        // rights changed or returned: silence what is denied, resume what is not
//! cancel(request_handle) -> u32          // waiting Publish requests answered with Bad_RequestCancelledByClient
//! close(status)                          // the session ends: every waiting Publish request is answered with `status`
//! handle_timeout(s, now); poll_timeout() -> Option<Mono>; poll_answer() -> Option<PublishAnswer>;
//! poll_watch() -> Option<WatchChange>    // which nodes on_change is wanted for, so that a server with many sessions can route
//! ```
//!
//! A `Result::Err` is the service result (a ServiceFault); response headers come back empty, the server fills them.

mod limits;
mod source;

pub use limits::SubscriptionLimits;
pub use source::{ItemSource, Sample, Target};

/// A node of the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeRef(pub u32);

/// How a Publish request is answered: the pair that the server needs to address its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishTicket {
    /// Id of the request on its channel.
    pub request_id: u32,
    /// The RequestHandle of its header.
    pub request_handle: u32,
}

/// The answer to one Publish request.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishAnswer {
    /// Whose answer it is.
    pub ticket: PublishTicket,
    /// The response with an empty header, or the service result of a fault.
    pub outcome: Result<Box<opcua_types::PublishResponse>, opcua_types::StatusCode>,
}

/// A change of the set of nodes whose values this session watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchChange {
    /// Call `on_change` for this node from now on.
    Added(NodeRef),
    /// Nobody watches this node any more.
    Removed(NodeRef),
}
