//! Questions to a guard about nodes that are hidden from the asker and nodes that are not there, which must be told apart by
//! nothing: not by the answer, nor by what it takes to give it.

use opcua_types::{
    AttributeId, BinaryEncodable, BrowseDescription, BrowsePath, BrowseRequest, ContextOwned, DateTime, MessageInfo,
    MessageSecurityMode, NodeId, QualifiedName, ReadRequest, ReadValueId, RelativePath, RelativePathElement,
    RequestHeader, TimestampsToReturn, TranslateBrowsePathsToNodeIdsRequest,
};
use ua_proto::crypto::SecurityPolicyId;
use ua_proto::guard::Sharing;
use ua_proto::server::ConnId;

use crate::fuzz::services::log_in;
use crate::world::{Peer, RawPeer, Setup, URL, World, variable_id};

/// What is asked about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Its value.
    Read,
    /// What it leads to.
    Browse,
    /// A path that begins at it.
    TranslateFrom,
    /// A path from a node that everybody sees to it.
    TranslateTo,
}

impl Question {
    /// All.
    pub const ALL: [Self; 4] = [Self::Read, Self::Browse, Self::TranslateFrom, Self::TranslateTo];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Browse => "browse",
            Self::TranslateFrom => "translate.from",
            Self::TranslateTo => "translate.to",
        }
    }
}

/// Which node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// One that the server has and the asker may not know of.
    Hidden,
    /// One that the server does not have; its id has the same form.
    Missing,
    /// One that the asker may see: to show that differences are noticed.
    Visible,
}

/// A client of a guard before a plant of which it may not know everything, all in memory.
pub struct Asker {
    world: World,
    conn: ConnId,
    token: NodeId,
}

impl Default for Asker {
    fn default() -> Self {
        Self::new()
    }
}

impl Asker {
    /// Logged in. Nothing is encrypted, neither before the guard nor behind it.
    ///
    /// # Panics
    /// When the client is not let in.
    #[must_use]
    pub fn new() -> Self {
        let bare = (SecurityPolicyId::None, MessageSecurityMode::None);
        let mut world = Setup::open_to_some().start_guarded(bare, Sharing::Never);
        let now = world.now();
        let conn = world.connect(Peer::Raw(Box::new(RawPeer::unprotected(URL, now))));
        world.run();
        let token = log_in(&mut world, conn).expect("anonymous may log in");
        Self { world, conn, token }
    }

    /// The request, ready to be sent. `which` is 0 or 1, for there are two nodes of each kind.
    #[must_use]
    pub fn prepare(&self, question: Question, asked: Asked, which: u32) -> Vec<u8> {
        let (scope, beyond) = match asked {
            Asked::Hidden => (3, 0),
            Asked::Missing => (3, 500),
            Asked::Visible => (1, 0),
        };
        let node = variable_id(scope, beyond + which);
        let request_header = RequestHeader::new(&self.token, &DateTime::null(), 9);
        match question {
            Question::Read => encoded(&ReadRequest {
                request_header,
                max_age: 0.0,
                timestamps_to_return: TimestampsToReturn::Neither,
                nodes_to_read: Some(vec![ReadValueId {
                    node_id: node,
                    attribute_id: AttributeId::Value as u32,
                    ..ReadValueId::default()
                }]),
            }),
            Question::Browse => encoded(&BrowseRequest {
                request_header,
                nodes_to_browse: Some(vec![BrowseDescription {
                    node_id: node,
                    include_subtypes: true,
                    result_mask: 63,
                    ..BrowseDescription::default()
                }]),
                ..BrowseRequest::default()
            }),
            Question::TranslateFrom => self.path(request_header, node, "Motor"),
            Question::TranslateTo => {
                let name = match (asked, which) {
                    (Asked::Hidden, _) => "vault",
                    (Asked::Missing, 0) => "valve",
                    (Asked::Missing, _) => "motor",
                    (Asked::Visible, _) => "mixer",
                };
                self.path(request_header, NodeId::new(0, 85_u32), name)
            }
        }
    }

    fn path(&self, request_header: RequestHeader, starting_node: NodeId, name: &str) -> Vec<u8> {
        let element = RelativePathElement {
            reference_type_id: NodeId::new(0, 33_u32),
            is_inverse: false,
            include_subtypes: true,
            target_name: QualifiedName::new(1, name),
        };
        let relative_path = RelativePath { elements: Some(vec![element]) };
        encoded(&TranslateBrowsePathsToNodeIdsRequest {
            request_header,
            browse_paths: Some(vec![BrowsePath { starting_node, relative_path }]),
        })
    }

    /// Sends a request and carries everything until its answer is there. Time stands still.
    ///
    /// # Panics
    /// When there is no answer.
    pub fn exchange(&mut self, request: &[u8]) -> Vec<u8> {
        let now = self.world.now();
        let peer = self.world.raw(self.conn).expect("a client that is connected");
        let id = peer.send(request, now).expect("a channel that is open");
        self.world.run();
        let peer = self.world.raw(self.conn).expect("a client that is connected");
        peer.answers.remove(&id).expect("an answer")
    }

    /// What reached the server behind the guard since it was asked last: bodies of requests.
    pub fn reached(&mut self) -> Vec<Vec<u8>> {
        self.world.guarded.as_mut().map(|guarded| std::mem::take(&mut guarded.reached)).unwrap_or_default()
    }

    /// Audit records so far.
    #[must_use]
    pub fn records(&self) -> usize {
        self.world.records.len()
    }
}

fn encoded<T: BinaryEncodable + MessageInfo>(request: &T) -> Vec<u8> {
    let owned = ContextOwned::default();
    let ctx = owned.context();
    let id: NodeId = request.type_id().into();
    let mut body = id.encode_to_vec(&ctx);
    body.extend(request.encode_to_vec(&ctx));
    body
}
