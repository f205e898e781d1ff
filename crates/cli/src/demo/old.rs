//! An old mixer without any security of its own, and the guard in front of it: a client that cannot carry a token signs in
//! by name there, and its rights come and go with the recipe like everybody's.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use access_model::{AuditRecord, Rights, ScopeMap};
use arc_swap::ArcSwap;
use client::{Client, ClientApplication, ClientOptions, Login};
use gates::control::Subscription;
use gates::https::Target;
use gates::opcua::guard::GuardHandle;
use gates::opcua::server::Shell;
use gates::opcua::wiring::{AuditRequest, AuditSink};
use gates::pool::Pool;
use opcua_types::{MessageSecurityMode, Variant};
use pep::{Contact, FailMode, FailState, Gate, GateConfig, GateEvent, LocalGrant, LocalScopes, Who};
use plant::Step;
use plant::equipment::Station;
use plant::station::Running;
use tokio::sync::{Notify, mpsc};
use ua_proto::channel::ChannelConfig;
use ua_proto::client::{ClientSessionConfig, Credential, EndpointWish, choose_endpoint};
use ua_proto::crypto::SecurityPolicyId;
use ua_proto::guard::{Guard, GuardConfig};
use ua_proto::server::{Identities, OnBare, ServerConfig, ServerLimits};
use zeroize::Zeroizing;

use super::actors::{Outcome, name};
use super::line::{Line, password};
use super::report::Report;
use super::witness::{Wanted, Witness};
use super::workplace::{GUARD, OLD, Workplace};
use super::{Trouble, Without, danger};
use crate::commands::up::guard::Behind;
use crate::commands::up::layout;

/// What the plant file of the demo says besides the example's.
pub(crate) const PLANT: &str = r#"
[[server]]
name = "old-mixer"
uri = "urn:trapkey:demo:guard"
equipment = "mixer-1"
sign_in = ["user_name"]

[[server.scope]]
name = "line"
subtrees = ["nsu=urn:trapkey:demo:old;s=Mixer"]
labels = ["measurement"]

[[server.scope]]
name = "speed"
nodes = ["nsu=urn:trapkey:demo:old;s=Mixer.Setpoints.Speed"]
labels = ["setpoint"]
steps = ["charge"]

[[server.scope]]
name = "inlet"
nodes = ["nsu=urn:trapkey:demo:old;s=Mixer.Valves.Inlet"]
labels = ["actuator"]
steps = ["charge"]
range = { low = 0.0, high = 100.0 }

[[server.scope]]
name = "outlet"
nodes = ["nsu=urn:trapkey:demo:old;s=Mixer.Valves.Outlet"]
labels = ["actuator"]
steps = ["charge"]
approval = { role = "process_engineer", within = "10m" }
"#;

const SPEED: &str = "nsu=urn:trapkey:demo:old;s=Mixer.Setpoints.Speed";
/// Whose application signs in by name.
const HMI: &str = "urn:trapkey:demo:hmi";
const BARE: (SecurityPolicyId, MessageSecurityMode) = (SecurityPolicyId::None, MessageSecurityMode::None);

/// The old server and its guard.
pub(crate) struct Guarded {
    old: Running,
    /// The guard.
    pub(crate) guard: GuardHandle,
}

/// Where both are started.
pub(crate) struct Place<'a> {
    pub(crate) workplace: &'a Workplace,
    pub(crate) authority: &'a authority::Authority,
    pub(crate) https: &'a Target,
    pub(crate) pool: &'a Pool,
    pub(crate) without: Option<Without>,
}

impl Guarded {
    /// Starts both; the guard is known to its authority and knows its server when this returns.
    pub(crate) async fn start(place: &Place<'_>, audit: AuditSink) -> Result<Self, Trouble> {
        let old = place.old()?;
        let url = format!("opc.tcp://{}", old.handle.address());
        let guard = place.guard(&url, audit).await?;
        for tries in 0.. {
            let state = guard.with(|guard, now| (guard.front().gate().fail_state(now), guard.is_mapped())).await;
            match state.map_err(|error| Trouble::setup("the guard", error))? {
                (FailState::InStep, true) => break,
                _ if tries < 750 => tokio::time::sleep(Duration::from_millis(20)).await,
                other => return Err(Trouble::setup("the guard does not get ready", format!("{other:?}"))),
            }
        }
        Ok(Self { old, guard })
    }

    /// Guard first.
    pub(crate) async fn stop(&self) {
        self.guard.stop().await;
        self.old.handle.stop().await;
    }
}

impl Place<'_> {
    /// A mixer that does whatever anybody asks for.
    fn old(&self) -> Result<Running, Trouble> {
        let listener = listener()?;
        let snapshot = self.authority.snapshot();
        let (_, server) =
            snapshot.plant().server("mixer").ok_or_else(|| Trouble::setup("the plant file has no server", "mixer"))?;
        let anybody = |map: ScopeMap| GateConfig {
            local: vec![LocalGrant {
                who: Who::Anonymous,
                require_encryption: false,
                roles: Vec::new(),
                rights: vec![(Rights::ALL, LocalScopes::All)],
            }],
            ..GateConfig::new(OLD, map)
        };
        let (events, _nobody_listens) = mpsc::unbounded_channel();
        let setup = plant::station::Setup {
            node_sets: &[],
            import: ua_proto::space::ImportOptions::default(),
            station: Station::Mixer,
            server,
            config: self.config(OLD, vec![BARE], &listener)?,
            listener,
            gate: &anybody,
            audit: nowhere(),
            pool: self.pool.clone(),
            passwords: Arc::new(|_| Box::pin(async { Err(gates::opcua::wiring::wrong_credentials()) })),
            line: Arc::default(),
            events,
            pki: None,
        };
        plant::station::start(setup, gates::clock::now()).map_err(|error| Trouble::setup("the old server", error))
    }

    async fn guard(&self, url: &str, audit: AuditSink) -> Result<GuardHandle, Trouble> {
        let failed = |error: &dyn std::fmt::Display| Trouble::setup("the guard", error);
        let snapshot = self.authority.snapshot();
        let (_, server) = snapshot.plant().server(GUARD).ok_or_else(|| failed(&"the plant file does not have it"))?;
        let layout = layout::of(server).map_err(|failure| failed(&failure.in_short()))?;
        let listener = listener()?;
        let protected = (SecurityPolicyId::Aes256Sha256RsaPss, MessageSecurityMode::SignAndEncrypt);
        let config = ServerConfig {
            identities: Identities { user_name: true, on_bare: OnBare::Anonymous, ..Identities::default() },
            ..self.config(GUARD, vec![protected], &listener)?
        };
        let mut gate = GateConfig { ask: true, ..GateConfig::new(GUARD, layout.map.clone()) };
        let issuer = self.authority.issuer();
        let contact =
            Contact { issuer: issuer.name.clone(), timeout: Duration::from_secs(3), fail_mode: FailMode::Closed };
        gate.issuers = vec![token::Issuer { require_confirmation: true, ..issuer }];
        gate.danger_without = danger::of_gate(self.without);
        gate.contact = Some(contact);
        let now = gates::clock::now();
        let behind = GuardConfig {
            interlocks: layout.interlocks,
            ..GuardConfig::new(upstream(url).await?, Credential::Anonymous, layout.rules)
        };
        let entropy = || -> Box<dyn ua_proto::Entropy + Send> { Box::new(token::SystemEntropy::new()) };
        let gate = Gate::new(gate, now).map_err(|error| failed(&error))?;
        let guard = Guard::new(config, behind, gate, (entropy(), entropy()), now).map_err(|error| failed(&error))?;
        let (events, mut happened) = mpsc::unbounded_channel();
        let https = self.workplace.https(GUARD)?;
        let application = Behind { https: https.clone(), authority: self.https.clone(), events, pki: None };
        let shell = Shell { pool: self.pool.clone(), audit, application: Box::new(move || Box::new(application)) };
        let handle = gates::opcua::guard::start(listener, guard, shell).map_err(|error| failed(&error))?;
        let gap = Arc::new(Notify::new());
        let silence = Duration::from_millis(1_500);
        let subscription = Subscription { https, authority: self.https.clone(), audience: GUARD.to_owned(), silence };
        tokio::spawn(gates::control::follow(subscription.clone(), handle.clone(), Arc::clone(&gap)));
        let asks = Arc::new(Notify::new());
        tokio::spawn(gates::questions::carry(subscription, handle.clone(), Arc::clone(&asks)));
        tokio::spawn(async move {
            while let Some(event) = happened.recv().await {
                match event {
                    GateEvent::NeedFullList => gap.notify_one(),
                    GateEvent::Question => asks.notify_one(),
                    _ => {}
                }
            }
        });
        Ok(handle)
    }

    fn config(
        &self,
        uri: &str,
        endpoints: Vec<(SecurityPolicyId, MessageSecurityMode)>,
        listener: &TcpListener,
    ) -> Result<ServerConfig, Trouble> {
        let address = listener.local_addr().map_err(|error| Trouble::setup("a port on loopback", error))?;
        let identity = Arc::new(ArcSwap::new(Arc::clone(&self.workplace.party(uri)?.identity)));
        Ok(ServerConfig {
            application_uri: uri.to_owned(),
            product_uri: "urn:trapkey:demo".into(),
            application_name: uri.rsplit(':').next().unwrap_or_default().to_owned(),
            endpoint_urls: vec![format!("opc.tcp://{address}")],
            channel: Arc::new(ChannelConfig::new(identity, Arc::clone(&self.workplace.trust), endpoints.clone())),
            endpoints,
            identities: Identities { anonymous: true, ..Identities::default() },
            limits: ServerLimits::default(),
            audit: ua_proto::server::AuditConfig::default(),
            write_ranges: Vec::new(),
        })
    }
}

fn listener() -> Result<TcpListener, Trouble> {
    TcpListener::bind("127.0.0.1:0").map_err(|error| Trouble::setup("a port on loopback", error))
}

/// The old server keeps no ledger: nobody would read it.
fn nowhere() -> AuditSink {
    let (sink, mut records) = mpsc::channel::<AuditRequest>(256);
    tokio::spawn(async move {
        while let Some(AuditRequest { record, ack }) = records.recv().await {
            let _forgotten: AuditRecord = record;
            if let Some(ack) = ack {
                let _nobody_waits = ack.send(Ok(()));
            }
        }
    });
    sink
}

async fn upstream(url: &str) -> Result<ClientSessionConfig, Trouble> {
    let endpoints = client::endpoints(url, Duration::from_secs(10)).await;
    let endpoints = endpoints.map_err(|error| Trouble::setup("the old server", error))?;
    let wish = EndpointWish {
        policies: vec![SecurityPolicyId::None],
        modes: vec![MessageSecurityMode::None],
        identities: vec![Credential::Anonymous.kind()],
        danger_clear_secrets: false,
    };
    let choice = choose_endpoint(&endpoints, &wish).map_err(|error| Trouble::setup("the old server", error))?;
    let application =
        ClientApplication { uri: GUARD.to_owned(), product_uri: "urn:trapkey:demo".into(), name: "guard".into() };
    Ok(ClientSessionConfig::new(url, choice, application))
}

/// Olga at the old mixer, through a client that knows nothing of tokens.
pub(crate) struct Guest(Client);

impl Guest {
    /// Signs in; a wrong password is tried before.
    pub(crate) async fn enter(
        line: &Line,
        workplace: &Workplace,
        (report, witness): (&mut Report, &mut Witness),
    ) -> Result<Self, Trouble> {
        report.head("an old mixer without security stands behind a guard; clients sign in there by name");
        let wanted = Wanted { application: Some(HMI), ..Wanted::from_now(&["session_activated"], "denied", "") };
        let seen = match Client::connect(options(line, workplace, "a guess")?).await {
            Ok(_) => "let in".to_owned(),
            Err(client::ClientError::Refused(status)) => name(status),
            Err(error) => error.to_string(),
        };
        let found = format!("{seen}, audited as {}", witness.reason(&wanted, "user_credentials", true).await?);
        let expected = "Bad_UserAccessDenied, audited as user_credentials";
        report.check("guard", "somebody guesses olga's password at the guard", expected, &found);
        let wanted = Wanted { application: Some(HMI), ..Wanted::from_now(&["session_activated"], "allowed", "olga") };
        let client = Client::connect(options(line, workplace, &password("olga"))?).await;
        let client = client.map_err(|error| Trouble::setup("olga at the guard", error))?;
        let known = if witness.find(&wanted).await?.is_some() { "let in, audited" } else { "let in, not audited" };
        report.check("guard", "olga signs in at the guard with her password", "let in, audited", known);
        Ok(Self(client))
    }

    /// She writes the old mixer's speed: allowed while it is charged.
    pub(crate) async fn try_it(
        &self,
        step: Step,
        (report, witness): (&mut Report, &mut Witness),
    ) -> Result<(), Trouble> {
        let since = gates::clock::now().unix;
        let node = self.0.node_id(SPEED).await.map_err(|error| Trouble::setup("the old mixer", error))?;
        let node = node.ok_or_else(|| Trouble::setup("the old mixer", "has lost its namespace"))?;
        let seen: Outcome = match self.0.write(vec![(node.clone(), Variant::Double(240.0))]).await {
            Ok(statuses) => statuses.first().map_or_else(
                || "no answer".to_owned(),
                |status| {
                    if status.is_good() { "allowed".to_owned() } else { name(*status) }
                },
            ),
            Err(error) => error.to_string(),
        };
        let allowed = seen == "allowed";
        let wanted = Wanted {
            objects: vec![node.to_string()],
            application: Some(HMI),
            since,
            ..Wanted::from_now(&["write"], if allowed { "allowed" } else { "denied" }, "olga")
        };
        let found = if allowed {
            format!("{seen}, {}", if witness.find(&wanted).await?.is_some() { "audited" } else { "not audited" })
        } else {
            format!("{seen}, audited as {}", witness.reason(&wanted, "right_missing", step != Step::Charge).await?)
        };
        let expected =
            if step == Step::Charge { "allowed, audited" } else { "Bad_UserAccessDenied, audited as right_missing" };
        report.check(step.name(), "olga, signed in by name, writes the old mixer's speed", expected, &found);
        Ok(())
    }

    /// The client that she uses.
    pub(crate) fn client(&self) -> &Client {
        &self.0
    }

    /// She leaves.
    pub(crate) async fn leave(self) {
        self.0.close().await;
    }
}

fn options(line: &Line, workplace: &Workplace, password: &str) -> Result<ClientOptions, Trouble> {
    let url = format!("opc.tcp://{}", line.guarded.guard.address());
    let application = ClientApplication { uri: HMI.into(), product_uri: "urn:stock:client".into(), name: "hmi".into() };
    let mut options = ClientOptions::new(url, application);
    options.identity = Some(Arc::clone(&workplace.party(HMI)?.identity));
    options.trust = Some(Arc::clone(&workplace.trust));
    options.login = Login::UserName { name: "olga".into(), password: Zeroizing::new(password.to_owned()) };
    options.request_timeout = Duration::from_secs(10);
    Ok(options)
}
