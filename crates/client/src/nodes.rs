//! Browsing, browse paths, and NodeIds as text.

use gates::opcua::client::CallError;
use opcua_types::{
    BrowseDescription, BrowseDirection, BrowseNextRequest, BrowseNextResponse, BrowsePath, BrowseRequest,
    BrowseResponse, BrowseResult, ByteString, NodeId, QualifiedName, ReferenceDescription, RelativePath,
    RelativePathElement, StatusCode, TranslateBrowsePathsToNodeIdsRequest, TranslateBrowsePathsToNodeIdsResponse,
    ViewDescription,
};
use ua_proto::client::Request;

use crate::error::ClientError;
use crate::session::Session;

/// HierarchicalReferences.
const HIERARCHICAL: u32 = 33;
/// Bounds what one browse may collect, against a server that never stops answering.
const MAX_REFERENCES: usize = 1_000_000;
const EVERYTHING: u32 = 0x3f;

/// One step of a browse path: a name reached over a type of reference or its subtypes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BrowseStep {
    pub(crate) name: QualifiedName,
    pub(crate) reference: NodeId,
}

/// Reads a path like `2:Line/2:Mixer/2:Speed`; names without a number are in namespace 0.
pub(crate) fn path(text: &str) -> Result<Vec<BrowseStep>, ClientError> {
    let wrong = || ClientError::BrowsePath(text.to_owned());
    let step = |part: &str| {
        let (namespace, name) = match part.split_once(':') {
            Some((number, name)) if number.bytes().all(|byte| byte.is_ascii_digit()) && !number.is_empty() => {
                (number.parse().map_err(|_| wrong())?, name)
            }
            _ => (0, part),
        };
        if name.is_empty() {
            return Err(wrong());
        }
        Ok(BrowseStep { name: QualifiedName::new(namespace, name), reference: NodeId::new(0, HIERARCHICAL) })
    };
    text.trim_start_matches('/').split('/').map(step).collect()
}

/// A NodeId whose namespace is given by its URI (`nsu=uri;i=1`) or its number.
pub(crate) fn expanded(text: &str, namespaces: &[String]) -> Option<NodeId> {
    let Some(rest) = text.strip_prefix("nsu=") else { return text.parse().ok() };
    let (uri, id) = rest.split_once(';')?;
    let uri = uri.replace("%3B", ";").replace("%3b", ";").replace("%25", "%");
    let namespace = u16::try_from(namespaces.iter().position(|known| *known == uri)?).ok()?;
    let mut id: NodeId = id.parse().ok()?;
    id.namespace = namespace;
    Some(id)
}

/// All forward references of a node, of `reference` and its subtypes (all hierarchical ones by default).
pub(crate) async fn browse(
    session: &Session,
    node: NodeId,
    reference: Option<NodeId>,
) -> Result<Vec<ReferenceDescription>, ClientError> {
    let request = BrowseRequest {
        request_header: Default::default(),
        view: ViewDescription { view_id: NodeId::null(), ..ViewDescription::default() },
        requested_max_references_per_node: 0,
        nodes_to_browse: Some(vec![BrowseDescription {
            node_id: node,
            browse_direction: BrowseDirection::Forward,
            reference_type_id: reference.unwrap_or_else(|| NodeId::new(0, HIERARCHICAL)),
            include_subtypes: true,
            node_class_mask: 0,
            result_mask: EVERYTHING,
        }]),
    };
    let response = session.request(Request::Browse(request), None).await?;
    let response = BrowseResponse::try_from(response).map_err(CallError::Service)?;
    let mut result = single(response.results)?;
    let mut all = Vec::new();
    loop {
        all.extend(result.references.unwrap_or_default());
        let point = result.continuation_point;
        if point.is_null_or_empty() {
            return Ok(all);
        }
        let enough = all.len() > MAX_REFERENCES;
        let response = browse_next(session, point, enough).await?;
        if enough {
            return Ok(all);
        }
        result = single(response.results)?;
    }
}

async fn browse_next(session: &Session, point: ByteString, release: bool) -> Result<BrowseNextResponse, ClientError> {
    let request = BrowseNextRequest {
        request_header: Default::default(),
        release_continuation_points: release,
        continuation_points: Some(vec![point]),
    };
    let response = session.request(Request::BrowseNext(request), None).await?;
    Ok(BrowseNextResponse::try_from(response).map_err(CallError::Service)?)
}

fn single(results: Option<Vec<BrowseResult>>) -> Result<BrowseResult, ClientError> {
    let result = results.into_iter().flatten().next().ok_or(ClientError::WrongCount { got: 0, asked: 1 })?;
    if result.status_code.is_bad() { Err(CallError::Service(result.status_code).into()) } else { Ok(result) }
}

/// The nodes at the ends of paths from `start`; `None` where a path leads nowhere.
pub(crate) async fn translate(
    session: &Session,
    start: &NodeId,
    paths: &[Vec<BrowseStep>],
) -> Result<Vec<Option<NodeId>>, ClientError> {
    let element = |step: &BrowseStep| RelativePathElement {
        reference_type_id: step.reference.clone(),
        is_inverse: false,
        include_subtypes: true,
        target_name: step.name.clone(),
    };
    let path = |steps: &Vec<BrowseStep>| BrowsePath {
        starting_node: start.clone(),
        relative_path: RelativePath { elements: Some(steps.iter().map(element).collect()) },
    };
    let request = TranslateBrowsePathsToNodeIdsRequest {
        request_header: Default::default(),
        browse_paths: Some(paths.iter().map(path).collect()),
    };
    let response = session.request(Request::TranslateBrowsePaths(request), None).await?;
    let response = TranslateBrowsePathsToNodeIdsResponse::try_from(response).map_err(CallError::Service)?;
    let results = response.results.unwrap_or_default();
    if results.len() != paths.len() {
        return Err(ClientError::WrongCount { got: results.len(), asked: paths.len() });
    }
    let target = |result: opcua_types::BrowsePathResult| match result.status_code {
        StatusCode::BadUserAccessDenied => Err(CallError::Service(result.status_code).into()),
        status if status.is_bad() => Ok(None),
        _ => Ok(result.targets.into_iter().flatten().next().map(|target| target.target_id.node_id)),
    };
    results.into_iter().map(target).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_their_namespaces() {
        let steps = path("/2:Line/Server/3:a:b").unwrap();
        let names: Vec<(u16, String)> =
            steps.iter().map(|step| (step.name.namespace_index, step.name.name.to_string())).collect();
        assert_eq!(names, [(2, "Line".into()), (0, "Server".into()), (3, "a:b".into())]);
        for wrong in ["", "2:", "a//b", "99999:x"] {
            assert!(path(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn node_ids_with_a_namespace_uri() {
        let namespaces = ["http://opcfoundation.org/UA/".to_owned(), "urn:x;y".to_owned()];
        assert_eq!(expanded("nsu=urn:x%3By;i=7", &namespaces), Some(NodeId::new(1, 7_u32)));
        assert_eq!(expanded("ns=3;s=a", &namespaces), Some(NodeId::new(3, "a")));
        assert_eq!(expanded("nsu=urn:unknown;i=7", &namespaces), None);
        assert_eq!(expanded("i=7", &namespaces), Some(NodeId::new(0, 7_u32)));
    }
}
