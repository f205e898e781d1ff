//! History: values of the past, read and changed; each tries once more with a fresh token when it was denied.

use gates::opcua::client::CallError;
use opcua_types::{
    AggregateConfiguration, ByteString, DataValue, DateTime, DeleteRawModifiedDetails, ExtensionObject, HistoryData,
    HistoryReadRequest, HistoryReadResponse, HistoryReadResult, HistoryReadValueId, HistoryUpdateRequest,
    HistoryUpdateResponse, HistoryUpdateResult, NodeId, PerformUpdateType, ReadProcessedDetails,
    ReadRawModifiedDetails, StatusCode, TimestampsToReturn, UpdateDataDetails,
};
use ua_proto::client::Request;

use crate::connection::Client;
use crate::error::ClientError;

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
        self.pages(node, &ExtensionObject::from_message(details), most).await
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
        self.pages(node, &ExtensionObject::from_message(details), most).await
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

    async fn pages(
        &self,
        node: &NodeId,
        details: &ExtensionObject,
        most: usize,
    ) -> Result<Vec<DataValue>, ClientError> {
        let mut values = Vec::new();
        let mut point = ByteString::null();
        loop {
            let page = self.whole(|| Box::pin(self.page(node.clone(), details.clone(), point.clone(), false))).await?;
            let found = page.history_data.into_inner_as::<HistoryData>();
            let before = values.len();
            values.extend(found.and_then(|found| found.data_values).unwrap_or_default());
            point = page.continuation_point;
            if values.len() >= most || values.len() == before || point.as_ref().is_empty() {
                break;
            }
        }
        if !point.as_ref().is_empty() {
            // A point that is not let go takes one of few places at the server until the session ends.
            let _not_worth_an_error = self.page(node.clone(), details.clone(), point, true).await;
        }
        values.truncate(most);
        Ok(values)
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
