//! One life: the world, what ought to be true in it, and the steps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use access_model::{Action, AuditKind, Epoch, Outcome, UnixTime};
use opcua_types::{
    AttributeId, BrowseDescription, BrowseDirection, BrowseRequest, CallMethodRequest, CallRequest,
    CreateMonitoredItemsRequest, CreateSubscriptionRequest, DataChangeNotification, DataValue, MessageSecurityMode,
    MonitoredItemCreateRequest, MonitoringMode, MonitoringParameters, NodeId, PublishRequest, ReadRequest, ReadValueId,
    StatusCode, TimestampsToReturn, Variant, WriteRequest, WriteValue,
};
use pep::{Contact, FailMode};
use testkit::keys::{AUTHORITY, CLIENT_A, CLIENT_B, SERVER, SERVER_URI, trusting};
use testkit::world::{
    AUTHORITY_NAME, Peer, SCOPES, SessionPeer, Setup, URL, VARIABLES, World, method_id, scope_map, variable_id,
};
use token::control::{Replacement, Revocation, Update, seal};
use token::{Claims, RightsClaim, map_digest, mint};
use ua_proto::client::{
    CallId, ClientApplication, ClientEvent, ClientSession, ClientSessionConfig, Credential, EndpointWish, Request,
    Response, choose_endpoint,
};
use ua_proto::crypto::SecurityPolicyId;
use ua_proto::guard::Sharing;
use ua_proto::server::{Answer, Audited, ConnId, Input};
use ua_proto::space::ServerFacts;
use zeroize::Zeroizing;

use super::books::Books;
use super::model::{Grant, Held, Minted, rights_of};

mod judge;
mod wire;

#[derive(Clone, Debug)]
pub enum Step {
    Renew {
        client: usize,
        held: Held,
        life: u64,
    },
    Read(usize),
    /// What the server says that the session may do.
    ReadAccess(usize),
    Browse(usize),
    Write {
        client: usize,
        scope: u32,
    },
    Call {
        client: usize,
        scope: u32,
    },
    AnswerCalls,
    Subscribe(usize),
    /// The application sets a value.
    Change {
        scope: u32,
        which: u32,
    },
    /// Milliseconds.
    Wait(u64),
    /// Seconds on the wall clock alone.
    SetWall(i64),
    Revoke(usize),
    Replace {
        client: usize,
        held: Held,
    },
    LoseAuthority,
    FullList,
    /// Cuts the connection and makes a new one.
    Cut(usize),
    /// Whether the ledger acknowledges.
    Ledger(bool),
    /// Cuts what is between the guard and the plant.
    CutUpstream,
    /// The plant is killed and starts anew; `later`: its StartTime says so.
    RestartUpstream {
        later: bool,
    },
    /// Whether the plant can be reached.
    Plug(bool),
    /// Whether what the plant sends is kept back.
    Hold(bool),
}

/// What was asked, to know what an answer is about.
#[derive(Clone, Debug)]
enum Asked {
    Read,
    Access,
    Browse,
    Write {
        scope: u32,
    },
    Call {
        scope: u32,
        /// The grant was over once while the call was under way.
        over: bool,
    },
    Subscribe,
    Items(Vec<(u32, u32)>),
    Publish,
}

struct Client {
    conn: ConnId,
    grant: Option<Grant>,
    current: Minted,
    trying: Option<Minted>,
    /// The last token that was refused; the client may come back to it.
    refused: Option<Minted>,
    asked: BTreeMap<CallId, Asked>,
    subscription: Option<u32>,
    /// Items of the subscription, by handle.
    items: BTreeSet<u32>,
    /// Items whose last notification was a denial.
    silent: BTreeSet<u32>,
    /// Last value heard, by item.
    heard: BTreeMap<u32, i32>,
    /// Was turned away and does not ask again at once.
    turned_away: bool,
}

/// What was seen at the clients' ends.
#[derive(Debug, Default)]
pub struct Seen {
    pub read: u64,
    pub written: u64,
    pub called: u64,
    pub heard: u64,
    /// Items that reached the plant's socket.
    pub reached: u64,
}

pub struct Life {
    world: World,
    clients: Vec<Client>,
    values: BTreeMap<(u32, u32), i32>,
    minted: u32,
    epoch: u64,
    revoked: BTreeSet<String>,
    replaced: BTreeMap<String, Replacement>,
    held_after: BTreeMap<String, Held>,
    in_step: bool,
    /// The ledger has kept somebody waiting in this life.
    slow_ledger: bool,
    /// The plant behind the guard was out of reach in this life.
    rough: bool,
    /// What the clients got, and what the audit says of it.
    books: Books,
    pub seen: Seen,
}

impl Life {
    pub fn new() -> Self {
        let contact = Contact {
            issuer: AUTHORITY_NAME.into(),
            timeout: Duration::from_secs(1_000_000),
            fail_mode: FailMode::Closed,
        };
        Self::start(Setup { contact: Some(contact), ..Setup::default() }.start())
    }

    /// A life behind a guard. Over a protected connection its upstream sessions survive their connections; an unprotected
    /// one is looked at.
    pub fn guarded(protected: bool, pool: Sharing) -> Self {
        let contact = Contact {
            issuer: AUTHORITY_NAME.into(),
            timeout: Duration::from_secs(1_000_000),
            fail_mode: FailMode::Closed,
        };
        let upstream = if protected {
            (SecurityPolicyId::Basic256Sha256, MessageSecurityMode::Sign)
        } else {
            (SecurityPolicyId::None, MessageSecurityMode::None)
        };
        Self::start(Setup { contact: Some(contact), ..Setup::default() }.start_guarded(upstream, pool))
    }

    fn start(world: World) -> Self {
        let mut life = Self {
            world,
            clients: Vec::new(),
            values: first_values(),
            minted: 0,
            epoch: 0,
            revoked: BTreeSet::new(),
            replaced: BTreeMap::new(),
            held_after: BTreeMap::new(),
            in_step: false,
            slow_ledger: false,
            rough: false,
            books: Books::default(),
            seen: Seen::default(),
        };
        life.full_list();
        for client in 0..2 {
            life.connect(client);
        }
        life.settle();
        for client in &life.clients {
            assert!(client.grant.as_ref().is_some_and(Grant::is_live), "a client with a good token gets in");
        }
        life
    }

    fn connect(&mut self, client: usize) {
        let own = [&CLIENT_A, &CLIENT_B][client];
        let endpoints = self.world.endpoints();
        let wish = EndpointWish { policies: vec![SecurityPolicyId::Aes128Sha256RsaOaep], ..EndpointWish::default() };
        let choice = choose_endpoint(&endpoints, &wish).expect("an endpoint that takes tokens");
        let uri = own.certificate.application_uri().expect("an ApplicationUri").to_owned();
        let application = ClientApplication { uri, product_uri: "urn:testkit:product".into(), name: "life".into() };
        let config = ClientSessionConfig {
            identity: Some(Arc::clone(own)),
            trust: Some(trusting(&[&SERVER])),
            channel_lifetime: Duration::from_secs(60),
            ..ClientSessionConfig::new(URL, choice, application)
        };
        let token = self.mint(client, [2, 1, 0], 60);
        let session =
            ClientSession::new(Arc::new(config), credential(&token), self.world.now()).expect("a good certificate");
        let conn = self.world.connect(Peer::Session(Box::new(SessionPeer::new(session))));
        self.clients.push(Client {
            conn,
            grant: None,
            current: token,
            trying: None,
            refused: None,
            asked: BTreeMap::new(),
            subscription: None,
            items: BTreeSet::new(),
            silent: BTreeSet::new(),
            heard: BTreeMap::new(),
            turned_away: false,
        });
        self.world.run();
    }

    fn mint(&mut self, client: usize, held: Held, life: u64) -> Minted {
        self.minted += 1;
        let (id, now) = (format!("token-{}", self.minted), self.world.now());
        let own = [&CLIENT_A, &CLIENT_B][client];
        let expires = UnixTime::from_seconds((now.unix + Duration::from_secs(life)).as_seconds());
        let claims = Claims {
            issuer: AUTHORITY_NAME.into(),
            subject: format!("user-{client}"),
            audience: SERVER_URI.into(),
            expires,
            not_before: now.unix,
            issued_at: now.unix,
            id: id.clone(),
            client: own.certificate.application_uri().map(str::to_owned),
            confirmation: Some(own.certificate.thumbprint()),
            roles: vec![],
            groups: vec![],
            rights: Some(claim(held)),
            epoch: Epoch(self.epoch),
            padding: 0,
        };
        Minted {
            bytes: mint(&claims, &AUTHORITY).unwrap().as_bytes().to_vec(),
            id,
            held,
            issued: UnixTime::from_seconds(now.unix.as_seconds()),
            expires,
        }
    }

    pub fn take(&mut self, step: Step) {
        match step {
            Step::Renew { client, held, life } => {
                let token = self.mint(client, held, life);
                let now = self.world.now();
                self.clients[client].trying = Some(token.clone());
                self.session(client).reactivate(credential(&token), now);
                self.world.run();
            }
            Step::Read(client) => self.read(client, AttributeId::Value, Asked::Read),
            Step::ReadAccess(client) => self.read(client, AttributeId::UserAccessLevel, Asked::Access),
            Step::Browse(client) => {
                let objects = BrowseDescription {
                    node_id: NodeId::new(0, 85_u32),
                    browse_direction: BrowseDirection::Forward,
                    result_mask: 63,
                    ..BrowseDescription::default()
                };
                let request = BrowseRequest { nodes_to_browse: Some(vec![objects]), ..BrowseRequest::default() };
                self.ask(client, request, Asked::Browse);
            }
            Step::Write { client, scope } => self.write(client, scope),
            Step::Call { client, scope } => {
                let call = CallMethodRequest {
                    object_id: NodeId::new(1, SCOPES[scope as usize - 1]),
                    method_id: method_id(scope),
                    input_arguments: Some(vec![Variant::from(1_i32)]),
                };
                let request = CallRequest { methods_to_call: Some(vec![call]), ..CallRequest::default() };
                self.ask(client, request, Asked::Call { scope, over: false });
            }
            Step::AnswerCalls => {
                while let Some((id, _)) = self.world.invoked.pop_front() {
                    let answer =
                        Answer { status: StatusCode::Good, input_results: vec![], outputs: vec![Variant::from(7_i32)] };
                    self.world.plant_input(Input::Answer { id, answer });
                }
            }
            Step::Subscribe(client) => {
                if self.clients[client].subscription.is_none() {
                    let request = CreateSubscriptionRequest {
                        requested_publishing_interval: 100.0,
                        requested_lifetime_count: 10_000,
                        requested_max_keep_alive_count: 10,
                        publishing_enabled: true,
                        ..CreateSubscriptionRequest::default()
                    };
                    self.ask(client, request, Asked::Subscribe);
                }
            }
            Step::Change { scope, which } => {
                let value = self.values.get_mut(&(scope, which)).unwrap();
                *value += 10;
                let value = DataValue {
                    value: Some(Variant::from(*value)),
                    status: Some(StatusCode::Good),
                    ..DataValue::default()
                };
                let node = self.world.server.space().find(&variable_id(scope, which)).unwrap();
                self.world.plant_input(Input::SetValue { node, value });
            }
            Step::Wait(millis) => self.wait(millis),
            Step::SetWall(by) => {
                self.world.clock.set_wall(by);
                self.world.tick();
            }
            Step::Revoke(client) => {
                let Some(id) = self.clients[client].grant.as_ref().map(|grant| grant.token.id.clone()) else { return };
                self.revoked.insert(id.clone());
                self.replaced.remove(&id);
                self.held_after.remove(&id);
                let expires = self.world.now().unix + Duration::from_secs(1_000);
                self.delta(|update| update.revoked.push(Revocation { id, expires }));
            }
            Step::Replace { client, held } => {
                let Some(id) = self.clients[client].grant.as_ref().map(|grant| grant.token.id.clone()) else { return };
                if !self.revoked.contains(&id) {
                    let end = self.world.now().unix + Duration::from_secs(100_000);
                    let entry = Replacement { id: id.clone(), rights: claim(held), not_after: end, expires: end };
                    self.replaced.insert(id.clone(), entry.clone());
                    self.held_after.insert(id, held);
                    self.delta(|update| update.replaced.push(entry));
                }
            }
            Step::LoseAuthority => {
                self.in_step = false;
                self.world.input(Input::ContactLost);
            }
            Step::FullList => self.full_list(),
            Step::Cut(client) => {
                let (conn, now) = (self.clients[client].conn, self.world.now());
                self.world.cut(conn);
                let Some(Peer::Session(mut peer)) = self.world.peers.remove(&conn) else { panic!("a client is lost") };
                self.clients[client].asked.clear();
                peer.session.reconnect(now).expect("the same certificate");
                peer.down = None;
                self.clients[client].conn = self.world.connect(Peer::Session(peer));
                self.world.run();
            }
            Step::Ledger(kept) => {
                self.slow_ledger |= !kept;
                self.world.ledger = kept.then_some(Audited::Kept);
                self.world.release_audits();
            }
            Step::CutUpstream => {
                self.be_rough();
                self.world.cut_upstream();
            }
            Step::RestartUpstream { later } => {
                self.be_rough();
                self.values = first_values();
                let started = if later { self.world.now().unix } else { UnixTime::default() };
                self.world.restart_upstream(ServerFacts { started, ..ServerFacts::default() });
            }
            Step::Plug(plugged) => {
                self.rough |= !plugged;
                self.world.plug_upstream(plugged);
            }
            Step::Hold(hold) => {
                self.be_rough();
                self.world.hold_upstream(hold);
            }
        }
        self.settle();
    }

    /// From now on the plant may be out of reach, and answers lost.
    fn be_rough(&mut self) {
        self.rough = true;
        self.books.rough = true;
    }

    /// Time passes from deadline to deadline, so that every arrival is judged by the moment at which it came.
    fn wait(&mut self, millis: u64) {
        let end = self.world.now().after(Duration::from_millis(millis)).mono;
        while self.world.step(end) {
            self.settle();
        }
        self.settle();
    }

    fn session(&mut self, client: usize) -> &mut ClientSession {
        match self.world.peers.get_mut(&self.clients[client].conn) {
            Some(Peer::Session(peer)) => &mut peer.session,
            _ => panic!("client {client} is lost"),
        }
    }

    fn ask(&mut self, client: usize, request: impl Into<Request>, asked: Asked) {
        let now = self.world.now();
        if let Ok(id) = self.session(client).request(request.into(), Some(Duration::from_secs(3_000)), now) {
            self.clients[client].asked.insert(id, asked);
        }
        self.world.run();
    }

    fn read(&mut self, client: usize, attribute: AttributeId, asked: Asked) {
        let nodes = variables().map(|(scope, which)| ReadValueId {
            node_id: variable_id(scope, which),
            attribute_id: attribute as u32,
            ..ReadValueId::default()
        });
        let request = ReadRequest {
            timestamps_to_return: TimestampsToReturn::Neither,
            nodes_to_read: Some(nodes.collect()),
            ..ReadRequest::default()
        };
        self.ask(client, request, asked);
    }

    fn write(&mut self, client: usize, scope: u32) {
        let value = self.values[&(scope, 0)] + 10;
        let value = WriteValue {
            node_id: variable_id(scope, 0),
            attribute_id: AttributeId::Value as u32,
            value: DataValue { value: Some(Variant::from(value)), ..DataValue::default() },
            ..WriteValue::default()
        };
        self.ask(
            client,
            WriteRequest { nodes_to_write: Some(vec![value]), ..WriteRequest::default() },
            Asked::Write { scope },
        );
    }

    fn update(&self, previous: Option<Epoch>) -> Update {
        Update {
            issuer: AUTHORITY_NAME.into(),
            audience: SERVER_URI.into(),
            epoch: Epoch(self.epoch),
            previous,
            issued_at: self.world.now().unix,
            revoked: vec![],
            replaced: vec![],
            approved: vec![],
            mode: None,
        }
    }

    fn delta(&mut self, fill: impl FnOnce(&mut Update)) {
        self.epoch += 1;
        let mut update = self.update(Some(Epoch(self.epoch - 1)));
        fill(&mut update);
        self.tell(&update);
    }

    fn full_list(&mut self) {
        self.epoch += 1;
        let expires = self.world.now().unix + Duration::from_secs(1_000);
        let revoked = self.revoked.iter().map(|id| Revocation { id: id.clone(), expires }).collect();
        let replaced = self.replaced.values().cloned().collect();
        let update = Update { revoked, replaced, ..self.update(None) };
        self.tell(&update);
    }

    /// The update is applied; the model learns it in the same moment.
    fn tell(&mut self, update: &Update) {
        self.in_step = true;
        for grant in self.clients.iter_mut().filter_map(|client| client.grant.as_mut()) {
            grant.see(self.world.clock.now());
            grant.revoked |= self.revoked.contains(&grant.token.id);
            grant.replaced = self.held_after.get(&grant.token.id).copied();
        }
        self.world.input(Input::ControlUpdate(&seal(update, &AUTHORITY).unwrap()));
    }

    /// The life ends well: the authority is there, everybody gets a good token, and what they may hear they have heard.
    pub fn finish(&mut self) {
        self.take(Step::Ledger(true));
        if self.rough {
            self.take(Step::Plug(true));
            self.take(Step::Hold(false));
            // The longest pause before the guard tries again.
            self.wait(40_000);
        }
        self.full_list();
        self.take(Step::AnswerCalls);
        // The authority's clock was set back too, so what it says is good for long must be good for longer than that.
        let (now, latest) = (self.world.now(), self.world.clock.latest());
        let life = 80 + latest.unix.since(now.unix).as_secs();
        for client in 0..self.clients.len() {
            // One that could not log in for long was sent away.
            if !self.session(client).is_active() {
                self.take(Step::Cut(client));
            }
            self.take(Step::Renew { client, held: [1, 2, 3], life });
            self.take(Step::Subscribe(client));
        }
        for (scope, which) in variables() {
            self.take(Step::Change { scope, which });
        }
        self.wait(3_000);
        for client in 0..self.clients.len() {
            self.take(Step::Read(client));
            assert!(self.is_served(client) && self.session(client).is_active(), "client {client} is not back");
            for (scope, which) in variables().filter(|(scope, _)| *scope != 3) {
                let heard = self.clients[client].heard.get(&(10 * scope + which)).copied();
                assert_eq!(heard, Some(self.values[&(scope, which)]), "client {client} has not heard {scope}/{which}");
            }
        }
        // One session ends with counts that no summary has taken yet, the other with its second.
        let now = self.world.now();
        self.session(0).close(now, &mut testkit::Counting(1));
        (self.clients[0].grant, self.clients[0].subscription) = (None, None);
        self.world.run();
        self.wait(3_000);
        let counted = self.books.close();
        let counted = |kind: AuditKind| counted.get(kind.name()).copied().unwrap_or(0);
        if self.rough {
            return;
        }
        assert_eq!(counted(AuditKind::Read), self.seen.read, "values read, and what the audit counts");
        assert_eq!(counted(AuditKind::Notify), self.seen.heard, "values heard, and what the audit counts");
    }
}

fn first_values() -> BTreeMap<(u32, u32), i32> {
    variables().map(|(scope, which)| ((scope, which), which.try_into().unwrap())).collect()
}

fn claim(held: Held) -> RightsClaim {
    let entries = held.iter().zip(1_u32..).map(|(number, scope)| (rights_of(*number), [scope]));
    RightsClaim::new(map_digest(&scope_map()), entries)
}

fn credential(token: &Minted) -> Credential {
    Credential::Issued(Zeroizing::new(token.bytes.clone()))
}

fn variables() -> impl Iterator<Item = (u32, u32)> {
    (1..=3).flat_map(|scope| (0..VARIABLES).map(move |which| (scope, which)))
}

fn number(value: &DataValue) -> Option<i32> {
    match value.value {
        Some(Variant::Int32(number)) => Some(number),
        _ => None,
    }
}
