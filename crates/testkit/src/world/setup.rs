//! How a world is made: a small plant behind a gate.

use std::sync::Arc;
use std::time::Duration;

use access_model::{Rights, ScopeIndex, ScopeMap};
use arc_swap::ArcSwap;
use opcua_types::{Argument, MessageSecurityMode, NodeId, Variant};
use pep::{Contact, Gate, GateConfig, LocalGrant, LocalScopes, Who};
use token::Issuer;
use ua_proto::channel::ChannelConfig;
use ua_proto::crypto::SecurityPolicyId;
use ua_proto::guard::Sharing;
use ua_proto::server::{
    AuditConfig, EndpointSecurity, Identities, IssuedTokens, IssuerEndpoint, Server, ServerConfig, ServerLimits,
    TokenForm,
};
use ua_proto::space::{AccessLevel, NewMethod, NewVariable, ServerFacts, Space, SpaceConfig, ns0};

use super::World;
use super::guarded::{Guarded, open_plant};
use crate::Counting;
use crate::clock::Clock;
use crate::keys::{AUTHORITY, CLIENT_A, CLIENT_B, SERVER, SERVER_URI, USER, trusting};

/// Where the server is said to be.
pub const URL: &str = "opc.tcp://plant.example:4840";
/// The authority's issuer name.
pub const AUTHORITY_NAME: &str = "https://authority.example";
/// The scopes of the plant, after `public`.
pub const SCOPES: [&str; 3] = ["reactor", "mixer", "vault"];
/// How many variables each scope has.
pub const VARIABLES: u32 = 2;

/// The id of a variable: `scope` counts from 1, as in the map.
#[must_use]
pub fn variable_id(scope: u32, which: u32) -> NodeId {
    NodeId::new(1, 1_000 * scope + which)
}

/// The id of the method of a scope.
#[must_use]
pub fn method_id(scope: u32) -> NodeId {
    NodeId::new(1, 1_000 * scope + 900)
}

/// The plant's scope map.
///
/// # Panics
/// Never: the names are fit.
#[must_use]
pub fn scope_map() -> ScopeMap {
    ScopeMap::new(SCOPES).expect("the names are fit")
}

/// What may be changed before a world starts.
pub struct Setup {
    /// The endpoints for sessions.
    pub endpoints: Vec<EndpointSecurity>,
    /// Rights without a token.
    pub local: Vec<LocalGrant>,
    /// Whether the gate listens to the authority.
    pub contact: Option<Contact>,
    /// Bounds.
    pub limits: ServerLimits,
    /// Audit.
    pub audit: AuditConfig,
    /// How long an expired session waits for a new token.
    pub grace: Duration,
}

impl Default for Setup {
    fn default() -> Self {
        use MessageSecurityMode::{Sign, SignAndEncrypt};
        Self {
            endpoints: vec![
                (SecurityPolicyId::Aes128Sha256RsaOaep, SignAndEncrypt),
                (SecurityPolicyId::Basic256Sha256, Sign),
            ],
            local: Vec::new(),
            contact: None,
            limits: ServerLimits::default(),
            audit: AuditConfig::default(),
            grace: Duration::from_secs(60),
        }
    }
}

impl Setup {
    /// A plant that anyone may do anything in, without any protection: for throwing bytes at its services.
    #[must_use]
    pub fn open_to_all() -> Self {
        let all = LocalGrant {
            who: Who::Anonymous,
            require_encryption: false,
            roles: vec!["Operator".into()],
            rights: vec![(Rights::ALL, LocalScopes::All)],
        };
        Self {
            endpoints: vec![(SecurityPolicyId::None, MessageSecurityMode::None)],
            local: vec![all],
            audit: AuditConfig { events: Some("vault".into()), ..AuditConfig::default() },
            ..Self::default()
        }
    }

    /// As [`Setup::open_to_all`], where nobody may do more with the mixer than see it, or know of the vault.
    #[must_use]
    pub fn open_to_some() -> Self {
        let named = |name: &str| LocalScopes::Named(vec![name.into()]);
        let some = LocalGrant {
            who: Who::Anonymous,
            require_encryption: false,
            roles: Vec::new(),
            rights: vec![(Rights::ALL, named(SCOPES[0])), (Rights::BROWSE, named(SCOPES[1]))],
        };
        Self { local: vec![some], audit: AuditConfig::default(), ..Self::open_to_all() }
    }

    /// The world.
    ///
    /// # Panics
    /// When the setup contradicts itself.
    #[must_use]
    pub fn start(self) -> World {
        let clock = Clock::default();
        let (config, gate) = self.front(&clock);
        World::new(Server::new(config, plant(), gate, Box::new(Counting(7))), clock)
    }

    /// The world with a guard, which enforces; the plant behind it lets everybody do everything and is reached with this
    /// security, in sessions of one's own or shared ones.
    ///
    /// # Panics
    /// When the setup contradicts itself.
    #[must_use]
    pub fn start_guarded(self, upstream: EndpointSecurity, pool: Sharing) -> World {
        let clock = Clock::default();
        let (config, gate) = self.front(&clock);
        let guarded = Guarded::new(config, gate, (upstream, pool), clock.now());
        let plant = open_plant(upstream, ServerFacts::default(), clock.now());
        let mut world = World::new(plant, clock);
        world.guarded = Some(Box::new(guarded));
        world.run();
        world
    }

    /// What clients see, and the gate.
    fn front(self, clock: &Clock) -> (ServerConfig, Gate) {
        let anonymous = self.local.iter().any(|grant| grant.who == Who::Anonymous);
        let gate = GateConfig {
            issuers: vec![Issuer {
                name: AUTHORITY_NAME.into(),
                keys: vec![AUTHORITY.public()],
                require_confirmation: true,
            }],
            local: self.local,
            contact: self.contact,
            expiry_grace: self.grace,
            ..GateConfig::new(SERVER_URI, scope_map())
        };
        let identity = Arc::new(ArcSwap::new(SERVER.clone()));
        let channel = ChannelConfig::new(identity, trusting(&[&CLIENT_A, &CLIENT_B]), self.endpoints.clone());
        let config = ServerConfig {
            application_uri: SERVER_URI.into(),
            product_uri: "urn:testkit:product".into(),
            application_name: "testkit".into(),
            endpoint_urls: vec![URL.into()],
            channel: Arc::new(channel),
            endpoints: self.endpoints,
            identities: identities(anonymous),
            limits: self.limits,
            audit: self.audit,
            write_ranges: Vec::new(),
        };
        (config, Gate::new(gate, clock.now()).expect("the setup is consistent"))
    }
}

fn identities(anonymous: bool) -> Identities {
    let issuer = IssuerEndpoint {
        resource_id: SERVER_URI.into(),
        authority_url: AUTHORITY_NAME.into(),
        profile_uri: IssuerEndpoint::PROFILE_OAUTH2.into(),
        token_endpoint: Some("/token".into()),
        authorization_endpoint: None,
        request_types: vec!["client_credentials".into()],
        scopes: Vec::new(),
    };
    Identities {
        anonymous,
        user_name: true,
        certificate: Some(trusting(&[&USER])),
        issued: Some(IssuedTokens { issuer, forms: TokenForm::ALL.to_vec() }),
        ..Identities::default()
    }
}

/// For each scope a folder with variables and a method.
pub(super) fn plant() -> Space {
    let config = SpaceConfig { application_uri: SERVER_URI.into(), namespaces: Vec::new() };
    let mut space = Space::new(config).expect("an empty space");
    let objects = ns0::find_numeric(85).expect("the Objects folder");
    for (scope, name) in (1..).zip(SCOPES) {
        let index = ScopeIndex(scope);
        let folder = space.add_folder(objects, Some(NodeId::new(1, name)), name, index).expect("a folder");
        for which in 0..VARIABLES {
            let id = Some(variable_id(scope, which));
            let value = Variant::from(i32::try_from(which).unwrap_or_default());
            let name = format!("{name}-{which}");
            let variable = NewVariable::new(folder, id, &name, value, index);
            let node = space.add_variable(variable.access(AccessLevel::READ_WRITE)).expect("a variable");
            // Small, so that the oldest values go while a test still runs.
            if which == 0 {
                space.historize(node, 16, true).expect("a history");
            }
        }
        let input =
            Argument { name: "level".into(), data_type: NodeId::new(0, 6_u32), value_rank: -1, ..Argument::default() };
        let argument_ids = [901, 902].map(|offset| Some(NodeId::new(1, 1_000 * scope + offset)));
        let method = NewMethod {
            id: Some(method_id(scope)),
            argument_ids,
            parent: folder,
            name: "Start",
            name_namespace: None,
            inputs: vec![input],
            outputs: vec![Argument {
                name: "batch".into(),
                data_type: NodeId::new(0, 6_u32),
                value_rank: -1,
                ..Argument::default()
            }],
            scope: index,
        };
        space.add_method(method).expect("a method");
    }
    space
}
