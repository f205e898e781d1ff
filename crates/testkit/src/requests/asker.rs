//! A client of a guard that asks whatever it is told to, and what of it reaches the server behind the guard.

use opcua_types::{
    CreateSubscriptionRequest, CreateSubscriptionResponse, DateTime, MessageSecurityMode, NodeId, RequestHeader,
    Variant,
};
use ua_proto::crypto::SecurityPolicyId;
use ua_proto::guard::Sharing;
use ua_proto::server::{Answer, ConnId, Input};

use super::Request;
use crate::fuzz::services::{log_in, send};
use crate::world::{Peer, RawPeer, Setup, URL, World};

/// How many requests one session asks, so that what it has made does not fill its bounds.
const ASKED: u32 = 100;

/// The client, of [`Setup::open_to_some`], and the world it lives in.
pub struct Asker {
    world: World,
    conn: ConnId,
    token: NodeId,
    asked: u32,
}

impl Default for Asker {
    fn default() -> Self {
        let none = (SecurityPolicyId::None, MessageSecurityMode::None);
        let mut world = Setup::open_to_some().start_guarded(none, Sharing::Never);
        let now = world.now();
        let conn = world.connect(Peer::Raw(Box::new(RawPeer::unprotected(URL, now))));
        world.run();
        let token = log_in(&mut world, conn).expect("anonymous may log in");
        let subscribe = CreateSubscriptionRequest {
            request_header: RequestHeader::new(&token, &DateTime::null(), 3),
            requested_publishing_interval: 1_000.0,
            requested_lifetime_count: 10_000,
            requested_max_keep_alive_count: 1_000,
            publishing_enabled: true,
            ..CreateSubscriptionRequest::default()
        };
        let made: Option<CreateSubscriptionResponse> = world.ask(conn, &subscribe);
        assert_eq!(made.map(|made| made.subscription_id), Some(1), "the subscription that requests name");
        Self { world, conn, token, asked: 0 }
    }
}

impl Asker {
    /// Asks; gives the messages that reached the server for it, from their type on.
    ///
    /// # Panics
    /// There is no guard in its world.
    pub fn ask(&mut self, request: &Request) -> Vec<Vec<u8>> {
        self.asked += 1;
        if self.asked > ASKED || !self.world.peers.contains_key(&self.conn) {
            *self = Self { asked: 1, ..Self::default() };
        }
        self.reached();
        let message = request.message(&self.token, self.asked);
        send(&mut self.world, self.conn, &message);
        while let Some((id, _)) = self.world.invoked.pop_front() {
            let outputs = vec![Variant::from(7_i32)];
            let answer = Answer { status: opcua_types::StatusCode::Good, input_results: Vec::new(), outputs };
            self.world.plant_input(Input::Answer { id, answer });
        }
        self.world.run();
        self.reached()
    }

    /// The client's message for a request, header and all.
    #[must_use]
    pub fn message(&self, request: &Request) -> Vec<u8> {
        request.message(&self.token, 1)
    }

    fn reached(&mut self) -> Vec<Vec<u8>> {
        let guarded = self.world.guarded.as_mut().expect("there is a guard");
        std::mem::take(&mut guarded.reached)
    }
}
