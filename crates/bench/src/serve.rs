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
use gates::opcua::Enforcing;
use gates::opcua::server::{Handle, ServerHandle, Shell, start};
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

use crate::fixture::{self, ISSUER, NAMESPACE, PASSWORD, PER_FOLDER, SERVER_URI, USER};
use crate::{Failed, place};

/// How often values change, each time a part of those that do.
const TICK: Duration = Duration::from_millis(10);
/// The control stream is silent for no longer than this: three heartbeats.
const SILENCE: Duration = Duration::from_secs(3);

/// How often is looked whether the ledger still takes records.
const LOOK: Duration = Duration::from_millis(100);
/// Audit records on their way to the ledger.
const AUDIT_QUEUE: usize = 65_536;
/// How briefly keys of a channel may live where that is told.
const BRIEFEST: Duration = Duration::from_secs(1);
/// A value that changed is the number of the round by this, and the number of the variable.
pub const ROUND: f64 = 1_000_000.0;

/// What `bench serve` is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// The fixture's folder.
    pub folder: PathBuf,
    /// Variables to make.
    pub nodes: u32,
    /// The authority whose control stream the gate follows; it is then the issuer of tokens.
    pub authority: Option<String>,
    /// How many variables, the first ones, get another value how often.
    pub changing: Option<(u32, Duration)>,
    /// Offer Basic256Sha256 in mode Sign, too.
    pub sign: bool,
    /// Take anonymous sessions, too, with the rights of the user.
    pub anonymous: bool,
    /// Forms of tokens that are offered; none for all of them.
    pub tokens: Option<TokenForm>,
    /// Keep to this processor.
    pub processor: Option<usize>,
    /// Keys of a channel may live as briefly as a second, instead of a minute at least.
    pub brief: bool,
}

/// The words behind `bench serve`.
///
/// # Errors
/// They are not such words.
pub fn options(words: &[&str]) -> Result<Options, Failed> {
    let [folder, nodes, more @ ..] = words else {
        return Err(
            "bench serve FOLDER NODES [authority=URL] [changing=COUNT/MILLISECONDS] [sign=too] [anonymous=too] \
             [tokens=clear|encrypted] [processor=NUMBER] [lifetimes=brief]"
                .into(),
        );
    };
    let mut options = Options {
        folder: Path::new(folder).to_owned(),
        nodes: nodes.parse()?,
        authority: None,
        changing: None,
        sign: false,
        anonymous: false,
        tokens: None,
        processor: None,
        brief: false,
    };
    for word in more {
        match word.split_once('=') {
            Some(("sign", "too")) => options.sign = true,
            Some(("anonymous", "too")) => options.anonymous = true,
            Some(("tokens", "clear")) => options.tokens = Some(TokenForm::Clear),
            Some(("tokens", "encrypted")) => options.tokens = Some(TokenForm::LegacyRsa),
            Some(("processor", number)) => options.processor = Some(number.parse()?),
            Some(("lifetimes", "brief")) => options.brief = true,
            Some(("authority", url)) => options.authority = Some(url.to_owned()),
            Some(("changing", words)) => {
                let (count, period) = words.split_once('/').ok_or("changing=COUNT/MILLISECONDS")?;
                options.changing = Some((count.parse()?, Duration::from_millis(period.parse()?)));
            }
            _ => return Err(format!("`{word}` means nothing to `bench serve`").into()),
        }
    }
    Ok(options)
}

/// Serves until standard input ends.
///
/// # Errors
/// The server cannot be started.
pub fn run(options: &Options) -> Result<(), Failed> {
    options.processor.map_or(Ok(()), place::keep_to)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let mut endpoints = endpoints();
        endpoints.extend(options.sign.then_some((SecurityPolicyId::Basic256Sha256, MessageSecurityMode::Sign)));
        let mut config = config_of(&options.folder, "server", port, endpoints, options.brief)?;
        let mut gate = gate(&options.folder, options.authority.as_deref())?;
        config.identities.anonymous = options.anonymous;
        if options.anonymous {
            gate.local.extend(gate.local.first().cloned().map(|user| LocalGrant { who: Who::Anonymous, ..user }));
        }
        if let (Some(form), Some(issued)) = (options.tokens, &mut config.identities.issued) {
            issued.forms = vec![form];
        }
        let server = server_of(config, gate, options.nodes)?;
        let (count, period) = options.changing.unwrap_or_default();
        let changing: Vec<NodeRef> =
            (0..count).filter_map(|nth| server.space().find(&NodeId::new(2, fixture::number(nth)))).collect();
        let gap = Arc::new(Notify::new());
        let handle = start(listener, server, shell(&options.folder, &gap)?)?;
        stay_in_step(&options.folder, options.authority.as_deref(), &handle, gap)?;
        tokio::spawn(change(handle.clone(), changing, period));
        until_told(handle).await;
        Ok(())
    })
}

/// Says where it listens and waits for the end of standard input.
pub(crate) async fn until_told<C: Send + 'static>(handle: Handle<C>) {
    println!("{{\"step\": \"listening\", \"ok\": true, \"port\": {}}}", handle.address().port());
    let (ended, end) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _read = std::io::stdin().read_to_end(&mut Vec::new());
        ended.send(())
    });
    let _ended = end.await;
    handle.stop().await;
}

/// A shell with a ledger on disk.
pub(crate) fn shell(folder: &Path, gap: &Arc<Notify>) -> Result<Shell, Failed> {
    let ledger = CheckpointKey::generate(KeyKind::Ed25519)?;
    let folder = folder.join(format!("audit-{}", std::process::id()));
    let ledger = Ledger::open(&folder, LedgerConfig::default(), ledger)?;
    let (audit, records) = mpsc::channel(AUDIT_QUEUE);
    tokio::spawn(keep(records, ledger));
    let application = NoMethods::new(gap);
    Ok(Shell { pool: Pool::new(2, 1_024)?, audit, application: Box::new(|| Box::new(application)) })
}

/// Follows the control stream of the authority, if there is one.
pub(crate) fn stay_in_step<C: Enforcing>(
    folder: &Path,
    authority: Option<&str>,
    handle: &Handle<C>,
    gap: Arc<Notify>,
) -> Result<(), Failed> {
    let Some(authority) = authority else { return Ok(()) };
    let subscription = Subscription {
        https: fixture::https(folder, "server")?,
        authority: Target::parse(authority)?,
        audience: SERVER_URI.into(),
        silence: SILENCE,
    };
    tokio::spawn(follow(subscription, handle.clone(), gap));
    Ok(())
}

/// Gives each variable a new value every `period`, a part of them at each tick. No two values are the same: each is the
/// number of the round and of the variable.
async fn change(handle: ServerHandle, nodes: Vec<NodeRef>, period: Duration) {
    let ticks_of_round = u32::try_from(period.as_millis() / TICK.as_millis()).unwrap_or(1).max(1);
    let at_once = nodes.len().div_ceil(ticks_of_round as usize);
    if at_once == 0 {
        return;
    }
    let mut ticks = tokio::time::interval(TICK);
    for round in 1_u32.. {
        for (part, nodes) in (0..).zip(nodes.chunks(at_once)) {
            ticks.tick().await;
            let nodes = nodes.to_vec();
            let changed = handle.with(move |server, now| {
                for (at, node) in (part * at_once..).zip(nodes) {
                    let value = Variant::Double(f64::from(round) * ROUND + at as f64);
                    server.handle_input(Input::SetValue { node, value: DataValue::value_only(value) }, now);
                }
            });
            if changed.await.is_err() {
                return;
            }
        }
    }
}

/// The server core over `nodes` variables.
///
/// # Errors
/// The fixture cannot be read.
pub fn server(folder: &Path, nodes: u32, port: u16, authority: Option<&str>) -> Result<Server, Failed> {
    server_of(config(folder, "server", port)?, gate(folder, authority)?, nodes)
}

fn server_of(config: ServerConfig, gate: GateConfig, nodes: u32) -> Result<Server, Failed> {
    let gate = Gate::new(gate, clock::now())?;
    Ok(Server::new(config, space(nodes)?, gate, Box::new(token::SystemEntropy::new())))
}

/// What is offered unless more is asked for.
fn endpoints() -> Vec<(SecurityPolicyId, MessageSecurityMode)> {
    vec![
        (SecurityPolicyId::Basic256Sha256, MessageSecurityMode::SignAndEncrypt),
        (SecurityPolicyId::None, MessageSecurityMode::None),
    ]
}

/// What clients meet, with this certificate.
pub(crate) fn config(folder: &Path, certificate: &str, port: u16) -> Result<ServerConfig, Failed> {
    config_of(folder, certificate, port, endpoints(), false)
}

fn config_of(
    folder: &Path,
    certificate: &str,
    port: u16,
    endpoints: Vec<(SecurityPolicyId, MessageSecurityMode)>,
    brief: bool,
) -> Result<ServerConfig, Failed> {
    let identity = Arc::new(ArcSwap::new(fixture::identity(folder, certificate)?));
    let mut channel = ChannelConfig::new(identity, fixture::trust(folder, &["client", "guard"])?, endpoints.clone());
    if brief {
        channel.lifetime_min = BRIEFEST;
    }
    Ok(ServerConfig {
        application_uri: SERVER_URI.into(),
        product_uri: "urn:trapkey".into(),
        application_name: "bench".into(),
        endpoint_urls: vec![format!("opc.tcp://127.0.0.1:{port}")],
        channel: Arc::new(channel),
        endpoints,
        identities: identities(),
        // Behind a guard with 1,000 sessions stands a server with one more: the guard looks at it itself.
        limits: ServerLimits { max_sessions: 2_000, ..ServerLimits::default() },
        audit: AuditConfig::default(),
        write_ranges: Vec::new(),
    })
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
pub(crate) fn gate(folder: &Path, authority: Option<&str>) -> Result<GateConfig, Failed> {
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

/// Brings records to the ledger; who waits for one hears when it is written. Where it takes none any more the program ends: what a server without
/// its audit does is no measure of one that has it.
async fn keep(mut records: mpsc::Receiver<AuditRequest>, ledger: Ledger) {
    loop {
        let asked = tokio::time::timeout(LOOK, records.recv()).await;
        if !ledger.health().is_available() {
            std::process::exit(3);
        }
        match asked {
            // Most are waited for by nobody, and fail behind: that is looked for when there is none, too.
            Err(_) => {}
            Ok(None) => return,
            Ok(Some(AuditRequest { record, ack: None })) => {
                if let Err(error) = ledger.note(&record) {
                    tracing::error!(%error, "an audit record was lost");
                }
            }
            Ok(Some(AuditRequest { record, ack: Some(ack) })) => {
                let written = ledger.append(&record);
                tokio::spawn(async move { ack.send(written.await.map(drop).map_err(|_| AuditUnavailable)) });
            }
        }
    }
}

/// A server without methods and with one user.
pub(crate) struct NoMethods {
    /// Asks for the full list of updates.
    gap: Arc<Notify>,
}

impl NoMethods {
    /// Who hears of it tells `gap` that the full list of updates is needed.
    pub(crate) fn new(gap: &Arc<Notify>) -> Self {
        Self { gap: Arc::clone(gap) }
    }
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
