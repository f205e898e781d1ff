//! Watching values: what a caller asks for and what it gets.

use std::time::Duration;

use opcua_types::{DataChangeFilter, DataChangeTrigger, DataValue, DeadbandType, ExtensionObject, NodeId, StatusCode};
use tokio::sync::{mpsc, oneshot};

use crate::connection::Client;
use crate::error::ClientError;
use crate::operations::Sending;
use crate::publisher::{Kind, Order, Wanted};
use gates::opcua::client::CallError;

/// Changes that wait for their reader. When they are used up the client stops asking the server for more, for all its
/// watches, and the queues at the server decide what is lost.
const WAITING: usize = 4_096;

/// Changes smaller than this are not reported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Deadband {
    /// A difference of the value.
    Absolute(f64),
    /// A part of the node's range, in percent.
    Percent(f64),
}

/// How values are watched.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchOptions {
    /// How often the server sends what has changed.
    pub publishing_interval: Duration,
    /// How often the server looks at a value; zero: every change counts.
    pub sampling_interval: Duration,
    /// How many changes of one value the server keeps between two messages.
    pub queue_size: u32,
    /// Which are lost when there are more: the oldest, or all but the newest of the last place.
    pub discard_oldest: bool,
    /// Publishing intervals without a change after which the server shows that it is there.
    pub keep_alive_count: u32,
    /// Publishing intervals without a request after which the server forgets the subscription.
    pub lifetime_count: u32,
    /// Who is served first.
    pub priority: u8,
    /// What is too small to be reported.
    pub deadband: Option<Deadband>,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self {
            publishing_interval: Duration::from_millis(100),
            sampling_interval: Duration::ZERO,
            queue_size: 16,
            discard_oldest: true,
            keep_alive_count: 30,
            lifetime_count: 300,
            priority: 0,
            deadband: None,
        }
    }
}

impl WatchOptions {
    pub(crate) fn filter(&self) -> ExtensionObject {
        let Some(deadband) = self.deadband else { return ExtensionObject::null() };
        let (kind, deadband_value) = match deadband {
            Deadband::Absolute(value) => (DeadbandType::Absolute, value),
            Deadband::Percent(value) => (DeadbandType::Percent, value),
        };
        let trigger = DataChangeTrigger::StatusValue;
        ExtensionObject::from_message(DataChangeFilter { trigger, deadband_type: kind as u32, deadband_value })
    }
}

/// A value that changed, or became unreadable: then it has a bad status and no value.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The position of the node in the list that is watched.
    pub item: usize,
    /// The new value.
    pub value: DataValue,
}

/// A running watch. It goes on over reconnections; after one, each value is reported again. When a node becomes denied, that
/// is reported, and the client asks for a fresh token once, a while after the last at the earliest; if that permits the node
/// again, its values go on. Dropping it ends it.
pub struct Watch {
    id: u64,
    changes: mpsc::Receiver<Change>,
    results: Vec<StatusCode>,
    orders: mpsc::Sender<Order>,
}

impl Watch {
    /// The next change; `None` when the client was closed.
    pub async fn next(&mut self) -> Option<Change> {
        self.changes.recv().await
    }

    /// What became of each node when the watch began: `Good`, or why it cannot be watched.
    #[must_use]
    pub fn results(&self) -> &[StatusCode] {
        &self.results
    }

    /// How many nodes were denied.
    fn refused(&self) -> usize {
        self.results.iter().filter(|status| **status == StatusCode::BadUserAccessDenied).count()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        Order::remove(&self.orders, self.id);
    }
}

impl Client {
    /// Watches the values of nodes.
    ///
    /// # Errors
    /// The subscription cannot be made. A single node that cannot be watched is no error: see [`Watch::results`].
    pub async fn watch(&self, nodes: &[NodeId], options: WatchOptions) -> Result<Watch, ClientError> {
        let seen = self.core.generation();
        let watch = self.whole(|| -> Sending<'_, Watch> { Box::pin(self.watch_once(nodes, options.clone())) }).await?;
        let refused = watch.refused();
        if refused == 0 || self.core.refresh(seen).await.is_err() {
            return Ok(watch);
        }
        let Ok(again) = self.watch_once(nodes, options).await else { return Ok(watch) };
        self.core.fresh_token_helped(again.refused() < refused);
        Ok(again)
    }

    async fn watch_once(&self, nodes: &[NodeId], options: WatchOptions) -> Result<Watch, ClientError> {
        let (sender, changes) = mpsc::channel(WAITING);
        let (answer, answered) = oneshot::channel();
        let wanted = Wanted { nodes: nodes.to_vec(), options, kind: Kind::Values(sender) };
        self.orders.send(Order::Add(Box::new(wanted), answer)).await.map_err(|_| CallError::Closed)?;
        let (id, results) = answered.await.map_err(|_| CallError::Closed)??;
        Ok(Watch { id, changes, results, orders: self.orders.clone() })
    }
}
