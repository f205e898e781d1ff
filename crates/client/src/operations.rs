//! Reading, writing, calling, browsing: each tries once more with a fresh token when it was denied (P0 section 3).

use std::pin::Pin;

use gates::opcua::client::CallError;
use opcua_types::{
    AttributeId, CallMethodRequest, CallMethodResult, CallRequest, CallResponse, DataValue, DiagnosticInfo, NodeId,
    ReadRequest, ReadResponse, ReadValueId, ReferenceDescription, StatusCode, TimestampsToReturn, Variant,
    WriteRequest, WriteResponse, WriteValue,
};
use ua_proto::client::{Request, Response};

use crate::connection::Client;
use crate::error::ClientError;
use crate::nodes;

/// Most items in one request; more are split. Servers that allow fewer say Bad_TooManyOperations.
const BATCH: usize = 1_000;

/// One attempt. Boxed, so that what is built on it can be spawned.
pub(crate) type Sending<'a, T> = Pin<Box<dyn Future<Output = Result<T, ClientError>> + Send + 'a>>;

impl Client {
    /// The values of nodes, in order. What could not be read has a bad status.
    ///
    /// # Errors
    /// The service as a whole fails.
    pub async fn read(&self, nodes: &[NodeId]) -> Result<Vec<DataValue>, ClientError> {
        let value = |node: &NodeId| ReadValueId {
            node_id: node.clone(),
            attribute_id: AttributeId::Value as u32,
            ..ReadValueId::default()
        };
        self.read_attributes(nodes.iter().map(value).collect()).await
    }

    /// Any attributes of nodes, in order.
    ///
    /// # Errors
    /// The service as a whole fails.
    pub async fn read_attributes(&self, items: Vec<ReadValueId>) -> Result<Vec<DataValue>, ClientError> {
        let denied = |value: &DataValue| value.status() == StatusCode::BadUserAccessDenied;
        self.each(items, |items| Box::pin(self.read_once(items)), denied).await
    }

    async fn read_once(&self, items: Vec<ReadValueId>) -> Result<Vec<DataValue>, ClientError> {
        let request = Request::Read(ReadRequest {
            request_header: Default::default(),
            max_age: 0.0,
            timestamps_to_return: TimestampsToReturn::Both,
            nodes_to_read: Some(items),
        });
        let response = self.harmless(request).await?;
        let response = ReadResponse::try_from(response).map_err(CallError::Service)?;
        Ok(response.results.unwrap_or_default())
    }

    /// Writes values; one status for each, in order.
    ///
    /// # Errors
    /// The service as a whole fails. With Bad_ConnectionClosed or Bad_Timeout nobody knows whether the values were
    /// written.
    pub async fn write(&self, values: Vec<(NodeId, Variant)>) -> Result<Vec<StatusCode>, ClientError> {
        Ok(self.write_and_hear(values).await?.into_iter().map(|(status, _)| status).collect())
    }

    /// As [`Client::write`]; with each status, what the server says about it: the bound that did not hold, or the approval
    /// that is needed.
    ///
    /// # Errors
    /// As [`Client::write`].
    pub async fn write_and_hear(
        &self,
        values: Vec<(NodeId, Variant)>,
    ) -> Result<Vec<(StatusCode, Option<String>)>, ClientError> {
        let item = |(node_id, value)| WriteValue {
            node_id,
            attribute_id: AttributeId::Value as u32,
            index_range: opcua_types::NumericRange::None,
            value: DataValue { value: Some(value), ..DataValue::null() },
        };
        let items = values.into_iter().map(item).collect();
        self.each(
            items,
            |items| Box::pin(self.write_once(items)),
            |(status, _)| *status == StatusCode::BadUserAccessDenied,
        )
        .await
    }

    async fn write_once(&self, items: Vec<WriteValue>) -> Result<Vec<(StatusCode, Option<String>)>, ClientError> {
        let request = Request::Write(WriteRequest { request_header: Default::default(), nodes_to_write: Some(items) });
        let response = self.core.session.request(request, None).await?;
        let response = WriteResponse::try_from(response).map_err(CallError::Service)?;
        let mut told = response.diagnostic_infos.unwrap_or_default().into_iter();
        let text = |info: DiagnosticInfo| info.additional_info.map(|text| text.to_string());
        let heard = |status| (status, told.next().and_then(text));
        Ok(response.results.unwrap_or_default().into_iter().map(heard).collect())
    }

    /// Calls a method of an object.
    ///
    /// # Errors
    /// The service as a whole fails; the method's own status is in the result, and what the server says of the whole call
    /// in its diagnostics of the arguments.
    pub async fn call(
        &self,
        object: NodeId,
        method: NodeId,
        inputs: Vec<Variant>,
    ) -> Result<CallMethodResult, ClientError> {
        let item = CallMethodRequest { object_id: object, method_id: method, input_arguments: Some(inputs) };
        let denied = |result: &CallMethodResult| result.status_code == StatusCode::BadUserAccessDenied;
        let results = self.each(vec![item], |items| Box::pin(self.call_once(items)), denied).await?;
        results.into_iter().next().ok_or(ClientError::WrongCount { got: 0, asked: 1 })
    }

    async fn call_once(&self, items: Vec<CallMethodRequest>) -> Result<Vec<CallMethodResult>, ClientError> {
        let request = Request::Call(CallRequest { request_header: Default::default(), methods_to_call: Some(items) });
        let response = self.core.session.request(request, None).await?;
        let response = CallResponse::try_from(response).map_err(CallError::Service)?;
        let mut told = response.diagnostic_infos.unwrap_or_default().into_iter();
        let heard = |result: CallMethodResult| {
            let said = told.next().filter(|info| info.additional_info.is_some()).map(|info| vec![info]);
            CallMethodResult { input_argument_diagnostic_infos: said, ..result }
        };
        Ok(response.results.unwrap_or_default().into_iter().map(heard).collect())
    }

    /// The nodes that a node leads to over hierarchical references.
    ///
    /// # Errors
    /// The node is unknown, hidden, or the service fails.
    pub async fn browse(&self, node: &NodeId) -> Result<Vec<ReferenceDescription>, ClientError> {
        self.whole(|| Box::pin(nodes::browse(&self.core.session, node.clone(), None))).await
    }

    /// The node at the end of a path like `2:Line/2:Mixer/2:Speed` from `start`; `None` when it leads nowhere, or to
    /// something hidden.
    ///
    /// # Errors
    /// The path is malformed or the service fails.
    pub async fn translate(&self, start: &NodeId, path: &str) -> Result<Option<NodeId>, ClientError> {
        let steps = [nodes::path(path)?];
        let found = self.whole(|| Box::pin(nodes::translate(&self.core.session, start, &steps))).await?;
        Ok(found.into_iter().next().flatten())
    }

    /// Sends a request as it is, once.
    ///
    /// # Errors
    /// The service fails or there is no session.
    pub async fn request(&self, request: Request) -> Result<Response, ClientError> {
        self.core.session.request(request, None).await
    }

    /// Sends a request that changes nothing; once more when the connection broke over it.
    async fn harmless(&self, request: Request) -> Result<Response, ClientError> {
        match self.core.session.request(request.clone(), None).await {
            Err(ClientError::Call(CallError::Service(StatusCode::BadConnectionClosed))) => {
                self.core.session.request(request, None).await
            }
            outcome => outcome,
        }
    }

    /// Sends items in batches; those that were denied once more with a fresh token.
    async fn each<'a, I: Clone + Send + Sync, O: Send + 'a>(
        &self,
        items: Vec<I>,
        send: impl Fn(Vec<I>) -> Sending<'a, Vec<O>> + Send + Sync,
        denied: impl Fn(&O) -> bool + Send + Sync,
    ) -> Result<Vec<O>, ClientError> {
        let mut results = Vec::with_capacity(items.len());
        for batch in items.chunks(BATCH) {
            let seen = self.core.generation();
            let act = || -> Sending<'a, Vec<O>> {
                let (sending, asked) = (send(batch.to_vec()), batch.len());
                Box::pin(async move { counted(sending.await?, asked) })
            };
            let mut answers = self.whole(act).await?;
            let refused: Vec<usize> =
                answers.iter().enumerate().filter(|(_, answer)| denied(answer)).map(|(at, _)| at).collect();
            if !refused.is_empty() && self.core.refresh(seen).await.is_ok() {
                let again: Vec<I> = refused.iter().filter_map(|at| batch.get(*at).cloned()).collect();
                let later = counted(send(again).await?, refused.len())?;
                self.core.fresh_token_helped(!later.iter().all(&denied));
                for (at, answer) in refused.into_iter().zip(later) {
                    if let Some(place) = answers.get_mut(at) {
                        *place = answer;
                    }
                }
            }
            results.append(&mut answers);
        }
        Ok(results)
    }

    /// Does something; once more with a fresh token when the service as a whole was denied.
    pub(crate) async fn whole<'a, T: Send>(
        &self,
        act: impl Fn() -> Sending<'a, T> + Send + Sync,
    ) -> Result<T, ClientError> {
        let seen = self.core.generation();
        match act().await {
            Err(error) if is_denial(&error) => match self.core.refresh(seen).await {
                Ok(()) => {
                    let outcome = act().await;
                    self.core.fresh_token_helped(!outcome.as_ref().is_err_and(is_denial));
                    outcome
                }
                Err(_) => Err(error),
            },
            outcome => outcome,
        }
    }
}

pub(crate) fn is_denial(error: &ClientError) -> bool {
    matches!(error, ClientError::Call(CallError::Service(StatusCode::BadUserAccessDenied)))
}

fn counted<T>(results: Vec<T>, asked: usize) -> Result<Vec<T>, ClientError> {
    if results.len() == asked { Ok(results) } else { Err(ClientError::WrongCount { got: results.len(), asked }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClientOptions, WatchOptions};

    #[test]
    fn everything_a_client_does_can_be_spawned() {
        fn spawned<T: Send>(_never_polled: T) {}
        async fn life(options: ClientOptions) -> Result<(), ClientError> {
            let client = Client::connect(options).await?;
            let node = NodeId::null();
            client.read(std::slice::from_ref(&node)).await?;
            client.write(vec![(node.clone(), Variant::Empty)]).await?;
            client.call(node.clone(), node.clone(), Vec::new()).await?;
            client.browse(&node).await?;
            client.translate(&node, "1:A").await?;
            let always = (opcua_types::DateTime::epoch(), opcua_types::DateTime::endtimes());
            client.history(&node, always, 1).await?;
            client.modified_history(&node, always, 1).await?;
            client.past_events(&node, &[], always, 1).await?;
            client.update_history(&node, opcua_types::PerformUpdateType::Insert, Vec::new()).await?;
            client.watch(std::slice::from_ref(&node), WatchOptions::default()).await?.next().await;
            client.close().await;
            Ok(())
        }
        let uri = String::from("urn:test");
        let application = crate::ClientApplication { uri: uri.clone(), product_uri: uri.clone(), name: uri };
        spawned(life(ClientOptions::new("opc.tcp://localhost", application)));
    }
}
