//! What the subscription machine asks of the server it runs in.

use access_model::Rights;
use opcua_types::{DataValue, ReadValueId, StatusCode};

use super::NodeRef;
use crate::event::About;
use crate::space::Space;

/// Why and where an item may be monitored, as the server found it out from a `ReadValueId`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// The node.
    pub node: NodeRef,
    /// The attribute, numbered as in OPC 10000-6 A.1. 13 is Value.
    pub attribute: u32,
    /// The value changes without [`Subscriptions::on_change`](super::Subscriptions::on_change) being called (a clock,
    /// a counter computed when read): sample it in cycles.
    pub computed: bool,
    /// Whether the data type is a number, so that a deadband makes sense.
    pub numeric: bool,
    /// Low and high end of the node's EURange property, for a percent deadband.
    pub range: Option<(f64, f64)>,
}

/// What one look at an item gave.
#[derive(Clone, Debug, PartialEq)]
pub enum Sample {
    /// The present value with both timestamps; a bad status (say Bad_NotReadable) is a value too.
    Value(DataValue),
    /// The session's rights do not cover the value now.
    Denied,
}

/// The server's side of every sample and every delivery. Implemented for a short-lived borrow of address space, gate and
/// session, so that the rights that answer are those of this moment.
pub trait ItemSource {
    /// Finds the node and attribute, checks that the session may see the node, the data encoding and the index range's
    /// form. Not whether it may read: an unreadable visible node can be monitored (OPC 10000-4 §5.13.2).
    ///
    /// # Errors
    /// The status of this one item: Bad_NodeIdUnknown (also for hidden nodes), Bad_AttributeIdInvalid, ...
    fn resolve(&mut self, item: &ReadValueId) -> Result<Target, StatusCode>;

    /// The present value, unless the session may not read it. The index range is applied by the caller.
    fn sample(&mut self, node: NodeRef, attribute: u32) -> Sample;

    /// Whether a value of this node may leave now. Called exactly once for each value that goes into a notification, first
    /// sending and Republish alike, so this is the place to check, spend the permit and count the delivery.
    fn deliver(&mut self, node: NodeRef, attribute: u32) -> bool;

    /// Whether an event may go to an item at `notifier` now. Asked when it is raised, so that an event that must not be
    /// heard of takes no place in a queue either.
    fn may_receive(&self, notifier: NodeRef, about: About) -> bool;

    /// The same for an event that goes into a notification, to be counted: as [`ItemSource::deliver`].
    fn deliver_event(&mut self, notifier: NodeRef, about: About) -> bool;

    /// Whether the session may know that a node is there.
    fn sees(&self, node: NodeRef) -> bool;

    /// Whether the session has all these rights on a node: events hold values of nodes.
    fn holds(&self, node: NodeRef, rights: Rights) -> bool;

    /// The address space, for the types of events.
    fn space(&self) -> &Space;
}
