//! Watching events: what a caller asks for and what it gets. Filters beyond the choice of fields are the server's business.

use std::time::Duration;

use opcua_types::{
    AttributeId, ContentFilter, EventFilter, ExtensionObject, NodeId, NumericRange, QualifiedName,
    SimpleAttributeOperand, StatusCode, Variant,
};
use tokio::sync::{mpsc, oneshot};

use crate::connection::Client;
use crate::error::ClientError;
use crate::nodes;
use crate::operations::Sending;
use crate::publisher::{Kind, Order, Wanted};
use crate::watch::WatchOptions;
use gates::opcua::client::CallError;

/// Events that wait for their reader; then the client stops asking the server for more.
const WAITING: usize = 4_096;
/// BaseEventType, whose subtypes have all of its fields (OPC 10000-5 §6.4.2).
const BASE_EVENT_TYPE: u32 = 2041;

/// How events are watched.
#[derive(Clone, Debug, PartialEq)]
pub struct EventOptions {
    /// The fields of each event, as browse paths from its type: `Message`, `2:Batch/2:Number`. A field that an event does
    /// not have is empty.
    pub fields: Vec<String>,
    /// How often the server sends what has happened.
    pub publishing_interval: Duration,
    /// How many events the server keeps between two messages.
    pub queue_size: u32,
}

impl Default for EventOptions {
    fn default() -> Self {
        let fields = ["Time", "SourceName", "Severity", "Message", "EventType"].map(str::to_owned).to_vec();
        Self { fields, publishing_interval: Duration::from_millis(100), queue_size: 1_000 }
    }
}

impl EventOptions {
    fn filter(&self) -> Result<ExtensionObject, ClientError> {
        filter(&self.fields).map(ExtensionObject::from_message)
    }
}

/// A filter that chooses these fields of every event.
pub(crate) fn filter(fields: &[String]) -> Result<EventFilter, ClientError> {
    let select = |text: &String| {
        let path: Vec<QualifiedName> = nodes::path(text)?.into_iter().map(|step| step.name).collect();
        Ok::<_, ClientError>(SimpleAttributeOperand {
            type_definition_id: NodeId::new(0, BASE_EVENT_TYPE),
            browse_path: Some(path),
            attribute_id: AttributeId::Value as u32,
            index_range: NumericRange::None,
        })
    };
    let select_clauses = fields.iter().map(select).collect::<Result<Vec<_>, _>>()?;
    let where_clause = ContentFilter { elements: None };
    Ok(EventFilter { select_clauses: Some(select_clauses), where_clause })
}

/// Running, until it is dropped. It goes on over reconnections; what happened meanwhile is lost.
pub struct EventWatch {
    id: u64,
    events: mpsc::Receiver<Vec<Variant>>,
    orders: mpsc::Sender<Order>,
}

impl EventWatch {
    /// The fields of the next event, as many as were asked for and in that order; `None` when the client was closed.
    pub async fn next(&mut self) -> Option<Vec<Variant>> {
        self.events.recv().await
    }
}

impl Drop for EventWatch {
    fn drop(&mut self) {
        Order::remove(&self.orders, self.id);
    }
}

impl Client {
    /// Watches the events that a node notifies of: the Server object (`i=2253`) of everything that the session may hear of.
    ///
    /// # Errors
    /// A field is no browse path, the subscription cannot be made, or the node notifies of nothing that this session may
    /// hear: then with the status that the server gives.
    pub async fn watch_events(&self, notifier: &NodeId, options: EventOptions) -> Result<EventWatch, ClientError> {
        let filter = options.filter()?;
        let once = || -> Sending<'_, EventWatch> { Box::pin(self.watch_events_once(notifier, &filter, &options)) };
        self.whole(once).await
    }

    async fn watch_events_once(
        &self,
        notifier: &NodeId,
        filter: &ExtensionObject,
        options: &EventOptions,
    ) -> Result<EventWatch, ClientError> {
        let (sender, events) = mpsc::channel(WAITING);
        let (answer, answered) = oneshot::channel();
        let (publishing_interval, queue_size) = (options.publishing_interval, options.queue_size);
        let wanted = Wanted {
            nodes: vec![notifier.clone()],
            options: WatchOptions { publishing_interval, queue_size, ..WatchOptions::default() },
            kind: Kind::Events(filter.clone(), sender),
        };
        self.orders.send(Order::Add(Box::new(wanted), answer)).await.map_err(|_| CallError::Closed)?;
        let (id, results) = answered.await.map_err(|_| CallError::Closed)??;
        let watch = EventWatch { id, events, orders: self.orders.clone() };
        match results.first() {
            Some(status) if status.is_bad() => Err(CallError::Service(*status).into()),
            Some(_) => Ok(watch),
            None => Err(CallError::Service(StatusCode::BadUnexpectedError).into()),
        }
    }
}
