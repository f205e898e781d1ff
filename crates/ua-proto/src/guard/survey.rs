//! What the guard finds out about the upstream server before anything is forwarded: its NamespaceArray, its limits, and
//! which nodes lie below the roots of the rules.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use access_model::ScopeIndex;
use opcua_types::{
    AttributeId, BrowseDescription, BrowseDirection, BrowseNextRequest, BrowsePath, BrowsePathResult, BrowseRequest,
    BrowseResult, ByteString, DataValue, ExpandedNodeId, NodeId, QualifiedName, ReadRequest, ReadValueId, RelativePath,
    RelativePathElement, StatusCode, TimestampsToReturn, TranslateBrowsePathsToNodeIdsRequest, VariableId, Variant,
};

use super::attributes::{own_limit, smaller};
use super::scopes::{ScopeRules, ScopeTable};
use super::subs::withheld;
use super::walk::Expanded;
use crate::client::{Request, Response};
use crate::server::Server;

/// Nodes browsed in one request.
const AT_ONCE: usize = 50;
/// References asked for at once for one node.
const PAGE: u32 = 1_000;
/// Most names in a NamespaceArray.
const MAX_NAMESPACES: usize = 1_024;
/// The Server object: nothing below it is the plant's.
const SERVER: u32 = 2253;
/// ServerStatus.StartTime.
const START_TIME: u32 = 2257;
/// Two times of one start; servers that reckon it from their uptime are not exact.
const SAME_START: Duration = Duration::from_secs(2);
/// The Root folder, where browse paths begin.
const ROOT: u32 = 84;
const LIMITS: [u32; 10] = [11_705, 11_707, 11_709, 11_710, 11_711, 11_712, 11_714, 11_713, 12_167, 12_165];

/// The smaller of the guard's and the server's operation limits; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) read: u32,
    pub(super) write: u32,
    pub(super) call: u32,
    pub(super) browse: u32,
    pub(super) register: u32,
    pub(super) translate: u32,
    pub(super) items: u32,
    pub(super) nodes: u32,
    pub(super) history_update: u32,
    pub(super) history_read: u32,
}

/// When a server was started, by its own clock: 100 ns since 1601.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment(i64);

impl Moment {
    /// Whether both are of one run of the server.
    pub(super) fn same_run(self, other: Self) -> bool {
        u128::from(self.0.abs_diff(other.0)) * 100 <= SAME_START.as_nanos()
    }

    fn later_run(self, than: Self) -> bool {
        self.0 > than.0 && !self.same_run(than)
    }
}

/// How many nodes or paths are asked for in one request.
fn at_once(limit: u32) -> usize {
    match limit {
        0 => AT_ONCE,
        limit => AT_ONCE.min(limit as usize),
    }
}

/// What is known of the upstream server.
pub(super) struct Mapping {
    pub(super) table: ScopeTable,
    /// When the server was started that was looked at.
    started: Option<Moment>,
    pub(super) limits: Limits,
    /// The identifier of a node that never exists.
    pub(super) never: [u8; 16],
}

impl Mapping {
    /// Whether it is true of a session that sees these namespaces of a server started then. A server that was started
    /// since may have other nodes below the roots.
    pub(super) fn fits(&self, namespaces: &[String], started: Option<Moment>) -> bool {
        let later = started.zip(self.started).is_some_and(|(now, then)| now.later_run(then));
        self.table.namespaces() == namespaces && !later
    }

    /// The node that an answer names, under its index here, and its scope; `None` for nodes of other servers and of
    /// namespaces that are not in the NamespaceArray.
    pub(super) fn scope_of(&self, expanded: &Expanded<'_>) -> Option<(NodeId, ScopeIndex)> {
        let mut id = expanded.id.clone();
        if let Some(uri) = expanded.uri {
            id.namespace = self.table.namespace(uri)?;
        }
        let scope = self.table.scope(&id);
        (expanded.server == 0).then_some((id, scope))
    }
}

/// The request for the NamespaceArray, behind it for the limits, and for the start of the server.
pub(super) fn first_question() -> Request {
    let limits = LIMITS.map(|number| NodeId::new(0, number));
    let start = NodeId::new(0, START_TIME);
    let nodes = [NodeId::from(VariableId::Server_NamespaceArray)].into_iter().chain(limits).chain([start]);
    let item = |node_id| ReadValueId { node_id, attribute_id: AttributeId::Value as u32, ..ReadValueId::default() };
    Request::Read(ReadRequest {
        request_header: Default::default(),
        max_age: 0.0,
        timestamps_to_return: TimestampsToReturn::Neither,
        nodes_to_read: Some(nodes.map(item).collect()),
    })
}

/// The NamespaceArray in an answer to [`first_question`].
pub(super) fn namespaces(response: &Response) -> Result<Vec<String>, StatusCode> {
    let Response::Read(read) = response else { return Err(StatusCode::BadUnknownResponse) };
    let first = read.results.as_deref().and_then(<[DataValue]>::first);
    let Some(Variant::Array(array)) = first.and_then(|value| value.value.as_ref()) else {
        return Err(StatusCode::BadUnknownResponse);
    };
    let name = |value: &Variant| match value {
        Variant::String(name) => Some(name.as_ref().to_owned()),
        _ => None,
    };
    let names: Option<Vec<String>> = array.values.iter().map(name).collect();
    names.filter(|names| !names.is_empty() && names.len() <= MAX_NAMESPACES).ok_or(StatusCode::BadUnknownResponse)
}

/// When the server was started, in an answer to [`first_question`]; `None` when it does not say.
pub(super) fn started(response: &Response) -> Option<Moment> {
    let Response::Read(read) = response else { return None };
    match read.results.as_deref()?.get(LIMITS.len() + 1)?.value {
        Some(Variant::DateTime(ref time)) => Some(Moment(time.ticks())),
        _ => None,
    }
}

/// A survey under way.
pub(super) struct Survey {
    namespaces: Vec<String>,
    started: Option<Moment>,
    limits: Limits,
    /// Browse paths that were not asked for yet.
    paths: VecDeque<(Vec<(u16, String)>, ScopeIndex)>,
    found: HashMap<NodeId, ScopeIndex>,
    /// Nodes of namespace 0 that were stepped through; they keep their own scope.
    passed: HashMap<NodeId, ScopeIndex>,
    open: VecDeque<(NodeId, ScopeIndex)>,
    /// Found one step further away than what is being browsed: of two roots at equal distance none wins.
    next: Vec<(NodeId, ScopeIndex)>,
    /// Where in `next` a node is.
    places: HashMap<NodeId, usize>,
    asked: Vec<ScopeIndex>,
    unfinished: Vec<(ByteString, ScopeIndex)>,
    room: usize,
}

impl Survey {
    /// Starts with the answer to [`first_question`].
    pub(super) fn new(
        response: &Response,
        rules: &ScopeRules,
        front: &Server,
        room: usize,
    ) -> Result<Self, StatusCode> {
        let namespaces = namespaces(response)?;
        let Response::Read(read) = response else { return Err(StatusCode::BadUnknownResponse) };
        let mut told = read.results.iter().flatten().skip(1).map(|value| match value.value {
            Some(Variant::UInt32(limit)) => limit,
            _ => 0,
        });
        let [read, write, call, browse, register, translate, items, nodes, history_update, history_read] =
            LIMITS.map(|number| smaller(own_limit(front, number), told.next().unwrap_or_default()));
        let mut roots = rules.roots(&namespaces);
        roots.extend(withheld().map(|root| (root, ScopeIndex::NOWHERE)));
        let places = roots.iter().enumerate().map(|(place, (node, _))| (node.clone(), place)).collect();
        Ok(Self {
            namespaces,
            started: started(response),
            limits: Limits {
                read,
                write,
                call,
                browse,
                register,
                translate,
                items,
                nodes,
                history_update,
                history_read,
            },
            paths: rules.paths().into(),
            found: HashMap::new(),
            passed: HashMap::new(),
            open: VecDeque::new(),
            next: roots,
            places,
            asked: Vec::new(),
            unfinished: Vec::new(),
            room,
        })
    }

    /// The next request; `None` when everything is known.
    pub(super) fn question(&mut self) -> Option<Request> {
        if !self.paths.is_empty() {
            return Some(self.next_paths());
        }
        if !self.unfinished.is_empty() {
            let points: Vec<(ByteString, ScopeIndex)> =
                self.unfinished.drain(..self.unfinished.len().min(AT_ONCE)).collect();
            self.asked = points.iter().map(|(_, scope)| *scope).collect();
            return Some(Request::BrowseNext(BrowseNextRequest {
                request_header: Default::default(),
                release_continuation_points: false,
                continuation_points: Some(points.into_iter().map(|(point, _)| point).collect()),
            }));
        }
        if self.open.is_empty() {
            self.next_level();
        }
        if self.open.is_empty() {
            return None;
        }
        let most = at_once(self.limits.browse);
        let nodes: Vec<(NodeId, ScopeIndex)> = self.open.drain(..self.open.len().min(most)).collect();
        self.asked = nodes.iter().map(|(_, scope)| *scope).collect();
        let below = |(node_id, _)| BrowseDescription {
            node_id,
            browse_direction: BrowseDirection::Forward,
            reference_type_id: NodeId::new(0, 33_u32),
            include_subtypes: true,
            node_class_mask: 0,
            result_mask: 0,
        };
        Some(Request::Browse(BrowseRequest {
            request_header: Default::default(),
            view: Default::default(),
            requested_max_references_per_node: PAGE,
            nodes_to_browse: Some(nodes.into_iter().map(below).collect()),
        }))
    }

    /// Asks where browse paths lead.
    fn next_paths(&mut self) -> Request {
        let most = at_once(self.limits.translate);
        let paths: Vec<(Vec<(u16, String)>, ScopeIndex)> = self.paths.drain(..self.paths.len().min(most)).collect();
        self.asked = paths.iter().map(|(_, scope)| *scope).collect();
        let step = |(namespace, name): (u16, String)| RelativePathElement {
            reference_type_id: NodeId::new(0, 33_u32),
            is_inverse: false,
            include_subtypes: true,
            target_name: QualifiedName::new(namespace, name),
        };
        let path = |(steps, _): (Vec<(u16, String)>, ScopeIndex)| BrowsePath {
            starting_node: NodeId::new(0, ROOT),
            relative_path: RelativePath { elements: Some(steps.into_iter().map(step).collect()) },
        };
        Request::TranslateBrowsePaths(TranslateBrowsePathsToNodeIdsRequest {
            request_header: Default::default(),
            browse_paths: Some(paths.into_iter().map(path).collect()),
        })
    }

    /// The ends of browse paths are roots like others.
    fn ends(&mut self, results: Vec<BrowsePathResult>) -> Result<(), StatusCode> {
        if results.len() != self.asked.len() {
            return Err(StatusCode::BadUnknownResponse);
        }
        for (result, scope) in results.into_iter().zip(std::mem::take(&mut self.asked)) {
            let targets = result.targets.unwrap_or_default();
            let ends = targets.into_iter().filter(|target| target.remaining_path_index == u32::MAX);
            let before = self.next.len();
            for target in ends {
                self.found_at(target.target_id, scope)?;
            }
            if self.next.len() == before {
                tracing::warn!(scope = scope.0, status = %result.status_code, "a browse path of this scope leads nowhere");
            }
        }
        Ok(())
    }

    /// Takes the answer to the last question.
    pub(super) fn answered(&mut self, response: Response) -> Result<(), StatusCode> {
        let results = match response {
            Response::TranslateBrowsePaths(response) => return self.ends(response.results.unwrap_or_default()),
            Response::Browse(response) => response.results,
            Response::BrowseNext(response) => response.results,
            _ => None,
        };
        let results = results.unwrap_or_default();
        if results.len() != self.asked.len() {
            return Err(StatusCode::BadUnknownResponse);
        }
        for (result, scope) in results.into_iter().zip(std::mem::take(&mut self.asked)) {
            self.take(result, scope)?;
        }
        Ok(())
    }

    fn take(&mut self, result: BrowseResult, scope: ScopeIndex) -> Result<(), StatusCode> {
        for reference in result.references.unwrap_or_default() {
            self.found_at(reference.node_id, scope)?;
        }
        if !result.continuation_point.is_null_or_empty() {
            self.unfinished.push((result.continuation_point, scope));
        }
        Ok(())
    }

    /// A node lies below a root, or is one.
    fn found_at(&mut self, node: ExpandedNodeId, scope: ScopeIndex) -> Result<(), StatusCode> {
        let ExpandedNodeId { node_id, namespace_uri, server_index } = node;
        let elsewhere = server_index != 0 || !namespace_uri.is_empty() || node_id == NodeId::new(0, SERVER);
        if elsewhere || self.found.contains_key(&node_id) || self.passed.contains_key(&node_id) {
            return Ok(());
        }
        match self.places.get(&node_id).and_then(|place| self.next.get_mut(*place)) {
            Some((_, claimed)) if *claimed != scope => *claimed = ScopeIndex::NOWHERE,
            Some(_) => {}
            None => {
                self.places.insert(node_id.clone(), self.next.len());
                self.next.push((node_id, scope));
            }
        }
        if self.found.len().saturating_add(self.passed.len()).saturating_add(self.next.len()) > self.room {
            return Err(StatusCode::BadTooManyOperations);
        }
        Ok(())
    }

    /// The nodes found on the last level are settled, and browsed in turn.
    fn next_level(&mut self) {
        self.places.clear();
        for (node, scope) in std::mem::take(&mut self.next) {
            if node.namespace == 0 {
                self.passed.insert(node.clone(), scope);
            } else {
                self.found.insert(node.clone(), scope);
            }
            self.open.push_back((node, scope));
        }
    }

    /// What was found out.
    pub(super) fn finish(self, rules: &ScopeRules, never: [u8; 16]) -> Mapping {
        let Self { started, limits, .. } = self;
        Mapping { table: rules.bind(self.namespaces, self.found), started, limits, never }
    }
}
