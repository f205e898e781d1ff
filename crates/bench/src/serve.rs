//! `bench serve`: our resource server as a process of its own, as it stands in a plant: enforce mode, tokens and user
//! names, the audit in a ledger on disk. Only the address space is made up.
//!
//! The password is compared as the peer compares it, in clear: a slow password hash is a choice that both could make
//! and would hide what the protocol costs.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use access_model::{Refusal, Rights};
use arc_swap::ArcSwap;
use gates::clock;
use gates::control::{Subscription, follow};
use gates::https::Target;
use gates::opcua::server::{ServerHandle, Shell, start};
use gates::opcua::wiring::{Application, AuditRequest, AuditUnavailable, Credentials, Local, wrong_credentials};
use gates::pool::Pool;
use opcua_types::{DataValue, MessageSecurityMode, NodeId, StatusCode, Variant};
use pep::{Contact, FailMode, Gate, GateConfig, GateEvent, LocalGrant, LocalScopes, Who};
use store::{CheckpointKey, KeyKind, Ledger, LedgerConfig};
use tokio::sync::{Notify, mpsc};
use ua_proto::channel::ChannelConfig;
use ua_proto::crypto::SecurityPolicyId;
use ua_proto::server::{
    Answer, AuditConfig, Identities, Input, Invocation, IssuedTokens, IssuerEndpoint, Server, ServerConfig,
    ServerLimits, TokenForm,
};
use ua_proto::space::{NewVariable, NodeRef, ServerFacts, Space, SpaceConfig, ns0};

use crate::Failed;
use crate::fixture::{self, ISSUER, NAMESPACE, PASSWORD, PER_FOLDER, SERVER_URI, USER};

/// Variables that change every [`PERIOD`] when there is an authority.
pub const CHANGING: u32 = 100;
/// How often they change.
pub const PERIOD: Duration = Duration::from_millis(10);
/// The control stream is silent for no longer than this: three heartbeats.
const SILENCE: Duration = Duration::from_secs(3);

/// Audit records on their way to the ledger.
const AUDIT_QUEUE: usize = 65_536;

/// What `bench serve` is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// The fixture's folder.
    pub folder: PathBuf,
    /// Variables to make.
    pub nodes: u32,
    /// The authority whose control stream the gate follows; it is then the issuer of tokens. The first
    /// [`CHANGING`] variables change all the time.
    pub authority: Option<String>,
}

/// Serves until standard input ends.
///
/// # Errors
/// The server cannot be started.
pub fn run(options: &Options) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let handle = launch(options)?;
        println!("{{\"step\": \"listening\", \"ok\": true, \"port\": {}}}", handle.address().port());
        let (ended, end) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let _read = std::io::stdin().read_to_end(&mut Vec::new());
            ended.send(())
        });
        let _ended = end.await;
        handle.stop().await;
        Ok(())
    })
}

fn launch(options: &Options) -> Result<ServerHandle, Failed> {
    let ledger = CheckpointKey::generate(KeyKind::Ed25519)?;
    let folder = options.folder.join(format!("audit-{}", std::process::id()));
    let ledger = Ledger::open(&folder, LedgerConfig::default(), ledger)?;
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port();
    let server = server(&options.folder, options.nodes, port, options.authority.as_deref())?;
    let changing: Vec<NodeRef> =
        (0..CHANGING).filter_map(|nth| server.space().find(&NodeId::new(2, fixture::number(nth)))).collect();
    let (audit, records) = mpsc::channel(AUDIT_QUEUE);
    tokio::spawn(keep(records, ledger));
    let gap = Arc::new(Notify::new());
    let application = NoMethods { gap: Arc::clone(&gap) };
    let shell = Shell { pool: Pool::new(2, 1_024)?, audit, application: Box::new(|| Box::new(application)) };
    let handle = start(listener, server, shell)?;
    if let Some(authority) = &options.authority {
        let subscription = Subscription {
            https: fixture::https(&options.folder, "server")?,
            authority: Target::parse(authority)?,
            audience: SERVER_URI.into(),
            silence: SILENCE,
        };
        tokio::spawn(follow(subscription, handle.clone(), gap));
        tokio::spawn(change(handle.clone(), changing));
    }
    Ok(handle)
}

/// Gives the variables new values, again and again.
async fn change(handle: ServerHandle, nodes: Vec<NodeRef>) {
    let mut ticks = tokio::time::interval(PERIOD);
    let mut count = 0.0;
    loop {
        ticks.tick().await;
        count += 1.0;
        let nodes = nodes.clone();
        let changed = handle.with(move |server, now| {
            for node in nodes {
                let value = DataValue::value_only(Variant::Double(count));
                server.handle_input(Input::SetValue { node, value }, now);
            }
        });
        if changed.await.is_err() {
            return;
        }
    }
}

/// The server core over `nodes` variables.
///
/// # Errors
/// The fixture cannot be read.
pub fn server(folder: &Path, nodes: u32, port: u16, authority: Option<&str>) -> Result<Server, Failed> {
    let endpoints = vec![
        (SecurityPolicyId::Basic256Sha256, MessageSecurityMode::SignAndEncrypt),
        (SecurityPolicyId::None, MessageSecurityMode::None),
    ];
    let identity = Arc::new(ArcSwap::new(fixture::identity(folder, "server")?));
    let channel = ChannelConfig::new(identity, fixture::trust(folder, "client")?, endpoints.clone());
    let config = ServerConfig {
        application_uri: SERVER_URI.into(),
        product_uri: "urn:trapkey".into(),
        application_name: "bench".into(),
        endpoint_urls: vec![format!("opc.tcp://127.0.0.1:{port}")],
        channel: Arc::new(channel),
        endpoints,
        identities: identities(),
        limits: ServerLimits::default(),
        audit: AuditConfig::default(),
        write_ranges: Vec::new(),
    };
    let gate = Gate::new(gate(folder, authority)?, clock::now())?;
    Ok(Server::new(config, space(nodes)?, gate, Box::new(token::SystemEntropy::new())))
}

fn identities() -> Identities {
    let issuer = IssuerEndpoint {
        resource_id: SERVER_URI.into(),
        authority_url: ISSUER.into(),
        profile_uri: IssuerEndpoint::PROFILE_OAUTH2.into(),
        token_endpoint: Some("/token".into()),
        authorization_endpoint: None,
        request_types: Vec::new(),
        scopes: Vec::new(),
    };
    let issued = IssuedTokens { issuer, forms: TokenForm::ALL.to_vec() };
    Identities { user_name: true, issued: Some(issued), ..Identities::default() }
}

/// A token gives its 1,000 scopes; the user who logs in by name gets the same rights on the same scopes.
fn gate(folder: &Path, authority: Option<&str>) -> Result<GateConfig, Failed> {
    let name = authority.unwrap_or(ISSUER).to_owned();
    let issuer =
        token::Issuer { name: name.clone(), keys: vec![fixture::issuer_key(folder)?], require_confirmation: true };
    let local = LocalGrant {
        who: Who::User(USER.into()),
        require_encryption: false,
        roles: vec!["Operator".into()],
        rights: vec![(Rights::BROWSE | Rights::READ, LocalScopes::All)],
    };
    let contact = authority.map(|_| Contact { issuer: name, timeout: SILENCE, fail_mode: FailMode::Closed });
    let usual = GateConfig::new(SERVER_URI, fixture::scopes());
    Ok(GateConfig { issuers: vec![issuer], local: vec![local], contact, ..usual })
}

/// Variables with unique names of 12 to 24 characters, 1,000 a folder, spread over all scopes.
fn space(nodes: u32) -> Result<Space, Failed> {
    let mut space = Space::new(SpaceConfig { application_uri: SERVER_URI.into(), namespaces: vec![NAMESPACE.into()] })?;
    space.set_server_facts(ServerFacts::default());
    let mut names = Names(0x9e37_79b9_7f4a_7c15);
    let mut folder = ns0::OBJECTS;
    for nth in 0..nodes {
        let scope = fixture::scope(nth);
        if nth % PER_FOLDER == 0 {
            let id = NodeId::new(2, fixture::number(nth) - 1);
            folder = space.add_folder(ns0::OBJECTS, Some(id), &names.next(nth), scope)?;
        }
        let id = NodeId::new(2, fixture::number(nth));
        let name = names.next(nth);
        space.add_variable(NewVariable::new(folder, Some(id), &name, Variant::Double(f64::from(nth)), scope))?;
    }
    Ok(space)
}

/// Unique names: eight characters hold the number, the rest is random.
struct Names(u64);

impl Names {
    fn next(&mut self, number: u32) -> String {
        let mut name = format!("{number:08x}");
        let length = 12 + (self.draw() % 13) as usize;
        while name.len() < length {
            name.push(char::from(b'a' + (self.draw() % 26) as u8));
        }
        name
    }

    fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Brings records to the ledger; who waits for one hears when it is written.
async fn keep(mut records: mpsc::Receiver<AuditRequest>, ledger: Ledger) {
    while let Some(AuditRequest { record, ack }) = records.recv().await {
        match ack {
            None => {
                if let Err(error) = ledger.note(&record) {
                    tracing::error!(%error, "an audit record was lost");
                }
            }
            Some(ack) => {
                let written = ledger.append(&record);
                tokio::spawn(async move { ack.send(written.await.map(drop).map_err(|_| AuditUnavailable)) });
            }
        }
    }
}

/// A server without methods and with one user.
struct NoMethods {
    /// Asks for the full list of updates.
    gap: Arc<Notify>,
}

impl Application for NoMethods {
    fn invoke(&self, _call: Invocation) -> Local<Answer> {
        Box::pin(async {
            Answer { status: StatusCode::BadMethodInvalid, input_results: Vec::new(), outputs: Vec::new() }
        })
    }

    fn authenticate(&self, credentials: Credentials) -> Local<Result<(), Refusal>> {
        let known = credentials.name == USER && *credentials.password == *PASSWORD.as_bytes();
        Box::pin(async move { known.then_some(()).ok_or_else(wrong_credentials) })
    }

    fn gate_event(&self, event: GateEvent) {
        if matches!(event, GateEvent::NeedFullList) {
            self.gap.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::SCOPES;

    #[test]
    fn every_variable_is_found_under_its_number() {
        let space = space(2_500).unwrap();
        for nth in [0, 999, 1_000, 2_499] {
            let node = space.find(&NodeId::new(2, fixture::number(nth))).unwrap();
            assert_eq!(space.scope(node), fixture::scope(nth));
            assert_eq!(space.value(node, Default::default()).value, Some(Variant::Double(f64::from(nth))));
        }
    }

    #[test]
    fn the_rights_reach_every_scope() {
        assert_eq!(fixture::scopes().len(), SCOPES as usize + 1);
        assert_eq!((fixture::scope(0).0, fixture::scope(SCOPES - 1).0), (1, SCOPES));
    }
}
