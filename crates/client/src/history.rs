//! History: values and events of the past, read and changed; each tries once more with a fresh token when it was denied.

use gates::opcua::client::CallError;
use opcua_types::{
    AggregateConfiguration, ByteString, DataValue, DateTime, DeleteEventDetails, DeleteRawModifiedDetails,
    ExtensionObject, HistoryData, HistoryEvent, HistoryEventFieldList, HistoryModifiedData, HistoryReadRequest,
    HistoryReadResponse, HistoryReadResult, HistoryReadValueId, HistoryUpdateRequest, HistoryUpdateResponse,
    HistoryUpdateResult, ModificationInfo, NodeId, PerformUpdateType, ReadEventDetails, ReadProcessedDetails,
    ReadRawModifiedDetails, StatusCode, TimestampsToReturn, UpdateDataDetails, UpdateEventDetails, Variant,
};
use ua_proto::client::Request;

use crate::connection::Client;
use crate::error::ClientError;
use crate::events::filter;

impl Client {
    /// The values that a variable had from `start` on up to but without `end`, backward where `end` lies before; at most
    /// `most` of them.
    ///
    /// # Errors
    /// The node has no history, or it may not be read; the service as a whole fails.
    pub async fn history(
        &self,
        node: &NodeId,
        (start, end): (DateTime, DateTime),
        most: usize,
    ) -> Result<Vec<DataValue>, ClientError> {
        let details = ReadRawModifiedDetails {
            is_read_modified: false,
            start_time: start,
            end_time: end,
            num_values_per_node: 0,
            return_bounds: false,
        };
        self.pages(node, &ExtensionObject::from_message(details), most, values).await
    }

    /// The values of this span that clients changed, and who changed them, when and how: what was there before, or what was
    /// inserted (OPC 10000-11 §6.5.3.3); at most `most` of them. A name is empty where the server does not tell it.
    ///
    /// # Errors
    /// As [`Client::history`]; the server does not keep what was changed.
    pub async fn modified_history(
        &self,
        node: &NodeId,
        (start, end): (DateTime, DateTime),
        most: usize,
    ) -> Result<Vec<(DataValue, ModificationInfo)>, ClientError> {
        let details = ReadRawModifiedDetails {
            is_read_modified: true,
            start_time: start,
            end_time: end,
            num_values_per_node: 0,
            return_bounds: false,
        };
        let open = |data: ExtensionObject| {
            let found = data.into_inner_as::<HistoryModifiedData>().map(|found| *found).unwrap_or_default();
            let values = found.data_values.unwrap_or_default();
            values.into_iter().zip(found.modification_infos.unwrap_or_default()).collect()
        };
        self.pages(node, &ExtensionObject::from_message(details), most, open).await
    }

    /// The events that a notifier keeps from `start` on up to but without `end`, backward where `end` lies before; at most
    /// `most` of them. Of each event these fields, as browse paths from its type as in
    /// [`EventOptions::fields`](crate::EventOptions::fields).
    ///
    /// # Errors
    /// A field is no browse path; the node keeps no events, or they may not be read; the service as a whole fails.
    pub async fn past_events(
        &self,
        notifier: &NodeId,
        fields: &[String],
        (start, end): (DateTime, DateTime),
        most: usize,
    ) -> Result<Vec<Vec<Variant>>, ClientError> {
        let filter = filter(fields)?;
        let details = ReadEventDetails { num_values_per_node: 0, start_time: start, end_time: end, filter };
        let open = |data: ExtensionObject| {
            let found = data.into_inner_as::<HistoryEvent>().and_then(|found| found.events).unwrap_or_default();
            found.into_iter().map(|event| event.event_fields.unwrap_or_default()).collect()
        };
        self.pages(notifier, &ExtensionObject::from_message(details), most, open).await
    }

    /// Deletes events that a notifier keeps, by their ids: one status for each.
    ///
    /// # Errors
    /// None of them is known, or they may not be deleted; the service as a whole fails.
    pub async fn delete_events(&self, notifier: &NodeId, ids: Vec<ByteString>) -> Result<Vec<StatusCode>, ClientError> {
        let details = DeleteEventDetails { node_id: notifier.clone(), event_ids: Some(ids) };
        let result = self.change_history(ExtensionObject::from_message(details)).await?;
        Ok(result.operation_results.unwrap_or_default())
    }

    /// Writes events into what a notifier keeps, each with these fields as in [`Client::past_events`]: one status for each.
    /// A new event takes its source and type, `Time`, `Message` and `Severity`; one that is there is named by its `EventId`.
    ///
    /// # Errors
    /// A field is no browse path, or one is missing; the notifier's events may not be changed so; the service as a whole
    /// fails.
    pub async fn update_events(
        &self,
        notifier: &NodeId,
        perform_insert_replace: PerformUpdateType,
        fields: &[String],
        events: Vec<Vec<Variant>>,
    ) -> Result<Vec<StatusCode>, ClientError> {
        let filter = filter(fields)?;
        let events = events.into_iter().map(|fields| HistoryEventFieldList { event_fields: Some(fields) });
        let details = UpdateEventDetails {
            node_id: notifier.clone(),
            perform_insert_replace,
            filter,
            event_data: Some(events.collect()),
        };
        let result = self.change_history(ExtensionObject::from_message(details)).await?;
        Ok(result.operation_results.unwrap_or_default())
    }

    /// One value for each `interval` (in milliseconds) from `start` on, made by an aggregate of OPC 10000-13, named by
    /// its node; at most `most` of them.
    ///
    /// # Errors
    /// As [`Client::history`]; the server does not know the aggregate.
    pub async fn aggregated(
        &self,
        node: &NodeId,
        aggregate: NodeId,
        (start, end): (DateTime, DateTime),
        interval: f64,
        most: usize,
    ) -> Result<Vec<DataValue>, ClientError> {
        let details = ReadProcessedDetails {
            start_time: start,
            end_time: end,
            processing_interval: interval,
            aggregate_type: Some(vec![aggregate]),
            aggregate_configuration: AggregateConfiguration {
                use_server_capabilities_defaults: true,
                ..AggregateConfiguration::default()
            },
        };
        self.pages(node, &ExtensionObject::from_message(details), most, values).await
    }

    /// Writes values into the past, each with its source timestamp: one status for each.
    ///
    /// # Errors
    /// The node's history may not be changed so; the service as a whole fails.
    pub async fn update_history(
        &self,
        node: &NodeId,
        perform_insert_replace: PerformUpdateType,
        values: Vec<DataValue>,
    ) -> Result<Vec<StatusCode>, ClientError> {
        let details = UpdateDataDetails { node_id: node.clone(), perform_insert_replace, update_values: Some(values) };
        let result = self.change_history(ExtensionObject::from_message(details)).await?;
        Ok(result.operation_results.unwrap_or_default())
    }

    /// Deletes the values from `start` on up to but without `end`.
    ///
    /// # Errors
    /// Bad_NoData where there are none; as [`Client::update_history`].
    pub async fn delete_history(&self, node: &NodeId, (start, end): (DateTime, DateTime)) -> Result<(), ClientError> {
        let details = DeleteRawModifiedDetails {
            node_id: node.clone(),
            is_delete_modified: false,
            start_time: start,
            end_time: end,
        };
        self.change_history(ExtensionObject::from_message(details)).await.map(drop)
    }

    async fn pages<T: Send>(
        &self,
        node: &NodeId,
        details: &ExtensionObject,
        most: usize,
        open: impl Fn(ExtensionObject) -> Vec<T> + Send,
    ) -> Result<Vec<T>, ClientError> {
        let mut found = Vec::new();
        let mut point = ByteString::null();
        loop {
            let page = self.whole(|| Box::pin(self.page(node.clone(), details.clone(), point.clone(), false))).await?;
            let before = found.len();
            found.extend(open(page.history_data));
            point = page.continuation_point;
            if found.len() >= most || found.len() == before || point.as_ref().is_empty() {
                break;
            }
        }
        if !point.as_ref().is_empty() {
            // A point that is not let go takes one of few places at the server until the session ends.
            let _not_worth_an_error = self.page(node.clone(), details.clone(), point, true).await;
        }
        found.truncate(most);
        Ok(found)
    }

    async fn page(
        &self,
        node_id: NodeId,
        details: ExtensionObject,
        continuation_point: ByteString,
        release: bool,
    ) -> Result<HistoryReadResult, ClientError> {
        let item = HistoryReadValueId { node_id, continuation_point, ..HistoryReadValueId::default() };
        let request = Request::HistoryRead(HistoryReadRequest {
            request_header: Default::default(),
            history_read_details: details,
            timestamps_to_return: TimestampsToReturn::Both,
            release_continuation_points: release,
            nodes_to_read: Some(vec![item]),
        });
        let response = self.request(request).await?;
        let response = HistoryReadResponse::try_from(response).map_err(CallError::Service)?;
        let result = only(response.results)?;
        good(result.status_code).map(|()| result)
    }

    async fn change_history(&self, details: ExtensionObject) -> Result<HistoryUpdateResult, ClientError> {
        self.whole(|| Box::pin(self.change_history_once(details.clone()))).await
    }

    async fn change_history_once(&self, details: ExtensionObject) -> Result<HistoryUpdateResult, ClientError> {
        let history_update_details = Some(vec![details]);
        let request =
            Request::HistoryUpdate(HistoryUpdateRequest { request_header: Default::default(), history_update_details });
        let response = self.request(request).await?;
        let response = HistoryUpdateResponse::try_from(response).map_err(CallError::Service)?;
        let result = only(response.results)?;
        good(result.status_code).map(|()| result)
    }
}

fn values(data: ExtensionObject) -> Vec<DataValue> {
    data.into_inner_as::<HistoryData>().and_then(|found| found.data_values).unwrap_or_default()
}

fn only<T>(results: Option<Vec<T>>) -> Result<T, ClientError> {
    let mut results = results.unwrap_or_default();
    match (results.pop(), results.len()) {
        (Some(one), 0) => Ok(one),
        (_, more) => Err(ClientError::WrongCount { got: more, asked: 1 }),
    }
}

fn good(status: StatusCode) -> Result<(), ClientError> {
    if status.is_bad() { Err(CallError::Service(status).into()) } else { Ok(()) }
}
