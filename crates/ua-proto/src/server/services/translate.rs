//! TranslateBrowsePathsToNodeIds (OPC 10000-4 §5.9.4). Each step needs the right to browse; a hidden step is no match.

use access_model::{Action, AuditKind};
use opcua_types::{
    BrowsePath, BrowsePathResult, BrowsePathTarget, StatusCode, TranslateBrowsePathsToNodeIdsRequest,
    TranslateBrowsePathsToNodeIdsResponse,
};

use super::operations;
use crate::server::codec::{response_header, write_message};
use crate::server::desk::Desk;

pub(crate) fn translate(
    desk: &mut Desk<'_>,
    request: &TranslateBrowsePathsToNodeIdsRequest,
    out: &mut Vec<u8>,
) -> Result<(), StatusCode> {
    let paths = request.browse_paths.as_deref().unwrap_or_default();
    operations(paths.len(), desk.config.limits.operations.max_nodes_per_translate)?;
    let results = paths.iter().map(|path| match targets(desk, path) {
        Ok(targets) => BrowsePathResult { status_code: StatusCode::Good, targets: Some(targets) },
        Err(status_code) => BrowsePathResult { status_code, targets: None },
    });
    let response = TranslateBrowsePathsToNodeIdsResponse {
        results: Some(results.collect()),
        response_header: response_header(desk.now, request.request_header.request_handle),
        diagnostic_infos: None,
    };
    write_message(out, &response, &desk.codec.context(0))
}

fn targets(desk: &mut Desk<'_>, path: &BrowsePath) -> Result<Vec<BrowsePathTarget>, StatusCode> {
    let start = desk.space.find(&path.starting_node).ok_or(StatusCode::BadNodeIdUnknown)?;
    desk.pass(Action::Browse, start, AuditKind::Browse)?;
    let elements = path.relative_path.elements.as_deref().unwrap_or_default();
    if elements.is_empty() {
        return Err(StatusCode::BadNothingToDo);
    }
    let sight = desk.sight();
    let mut visible = |node| sight.visible(node);
    desk.space.translate_browse_path(start, &path.relative_path, &mut visible)
}
