//! The whole product on one computer: authority, three servers, control streams, ledger, and the plant behind them.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use access_model::{Actor, ScopeMap};
use arc_swap::ArcSwap;
use authority::{Authority, AuthorityConfig, PolicySource, PolicyTexts, hash_secret, system_clock};
use gates::control::Subscription;
use gates::https::Target;
use gates::opcua::wiring::{AuditSink, wrong_credentials};
use gates::pool::Pool;
use opcua_types::MessageSecurityMode;
use pep::{Contact, FailMode, FailState, GateConfig, GateEvent};
use plant::Step;
use plant::equipment::Station;
use plant::station::{Running, SharedLine};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use store::{Application, ApplicationKind, CheckpointKey, Db, KeyKind, Ledger, LedgerConfig, User};
use tokio::sync::{Notify, mpsc, watch};
use ua_proto::channel::ChannelConfig;
use ua_proto::crypto::SecurityPolicyId;
use ua_proto::server::{Identities, IssuedTokens, IssuerEndpoint, ServerConfig, ServerLimits, TokenForm};

use super::danger;
use super::old::{self, Guarded};
use super::story::CAST;
use super::workplace::{AUTHORITY, GUARD, Workplace, station_uri};
use super::{Trouble, Without};
use crate::roles;

const PLANT: &str = include_str!("../../../../examples/batch-plant/plant.toml");
const POLICIES: &str = include_str!("../../../../examples/batch-plant/policies.cedar");
const WORKFLOW: &str = include_str!("../../../../examples/batch-plant/workflow.toml");

/// Life of a quality observer's token in the demo: short enough that a refresh happens while somebody watches.
pub(crate) const OBSERVER_LIFE: Duration = Duration::from_secs(4);

/// Authority and gates are one process here: when a gate hears nothing for long, the computer stands still, and that is not
/// what the demo is about.
const SILENCE: Duration = Duration::from_secs(60);

/// How long servers wait for those that have not logged in, and for a new token: longer than the demo takes on a computer that
/// has much else to do.
const SLOW: Duration = Duration::from_secs(600);

/// Connections that a server lets stand without a login.
pub(crate) const MAX_HALF_OPEN: usize = 64;

/// The running product.
pub(crate) struct Line {
    /// The authority.
    pub(crate) authority: Authority,
    /// Its OPC UA side.
    pub(crate) opcua: roles::authority::Running,
    /// Its HTTPS side.
    pub(crate) https: Target,
    /// The three servers.
    pub(crate) stations: Vec<Running>,
    /// An old server and the guard in front of it.
    pub(crate) guarded: Guarded,
    /// The ledger.
    pub(crate) ledger: Ledger,
    audit: AuditSink,
    way: roles::audit::Way,
    step: watch::Sender<Step>,
    https_running: watch::Sender<bool>,
}

/// Who moves the workflow in the demo.
#[must_use]
pub(crate) fn recipe() -> Actor {
    Actor { name: "recipe".into(), application: Some("urn:trapkey:demo:controller".into()), ..Actor::default() }
}

/// A password that is as good as the demo needs: made for a person of the cast, gone with the process.
#[must_use]
pub(crate) fn password(person: &str) -> String {
    format!("{person}-at-the-demo")
}

impl Line {
    /// Starts everything.
    pub(crate) async fn start(workplace: &Workplace, without: Option<Without>) -> Result<Self, Trouble> {
        let key = CheckpointKey::generate(KeyKind::Ed25519).map_err(|error| Trouble::setup("ledger key", error))?;
        let config = LedgerConfig::default();
        let ledger = Ledger::open(&workplace.ledger(), config, key).map_err(|error| Trouble::setup("ledger", error))?;
        let pool = Pool::new(2, 4_096).map_err(|error| Trouble::setup("threads", error))?;
        let (audit, way) = roles::audit::sink(ledger.clone());
        let authority = open_authority(workplace, &ledger, without).await?;
        let listener = || TcpListener::bind("127.0.0.1:0").map_err(|error| Trouble::setup("a port on loopback", error));
        let party = workplace.party(AUTHORITY)?;
        let identity = Arc::new(ArcSwap::new(Arc::clone(&party.identity)));
        let socket = listener()?;
        let url = socket.local_addr().map_err(|error| Trouble::setup("the authority", error))?;
        let url = format!("opc.tcp://{url}");
        let opcua = roles::authority::Setup {
            authority: authority.clone(),
            config: roles::authority::standard(AUTHORITY, &identity, &workplace.trust, url),
            identity,
            trust: Arc::clone(&workplace.trust),
            listener: socket,
            audit: audit.clone(),
            pool: pool.clone(),
            pki: None,
        };
        let now = gates::clock::now();
        let opcua = roles::authority::start(opcua, now).map_err(|error| Trouble::setup("the authority", error))?;
        let (https, https_running) = serve_https(&authority, workplace).await?;
        let process: SharedLine = Arc::default();
        let (step, steps) = watch::channel(Step::Idle);
        let mut stations = Vec::new();
        for station in Station::ALL {
            let place = Place { workplace, authority: &authority, opcua: &opcua, https: &https, pool: &pool, without };
            stations.push(place.start(station, listener()?, audit.clone(), Arc::clone(&process))?);
        }
        tokio::spawn(plant::station::run(process, stations.clone(), steps));
        in_step(&stations).await?;
        let place = old::Place { workplace, authority: &authority, https: &https, pool: &pool, without };
        let guarded = Guarded::start(&place, audit.clone()).await?;
        Ok(Self { authority, opcua, https, stations, guarded, ledger, audit, way, step, https_running })
    }

    /// Moves the workflow to its next step. The authority has told the gates when it answers; this waits until they have
    /// taken it in, so that what is tried next is tried in the new step on a slow computer too.
    pub(crate) async fn fire(&self, transition: &str, to: Step) -> Result<authority::Changed, Trouble> {
        let changed = self.authority.fire(transition, &recipe()).await;
        let changed = changed.map_err(|error| Trouble::setup("the workflow", error))?;
        self.heard().await?;
        let _nobody_simulates = self.step.send(to);
        Ok(changed)
    }

    /// Waits until every gate knows what it was told; not for ever, what is tried then shows what a gate missed.
    pub(crate) async fn heard(&self) -> Result<(), Trouble> {
        for running in &self.stations {
            let told = self.authority.told(&station_uri(running.station));
            for _ in 0..6_000 {
                let known = running.handle.with(|server, _| server.gate().epoch()).await;
                if known.map_err(|error| Trouble::setup(running.station.name(), error))? >= Some(told) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        let told = self.authority.told(GUARD);
        for _ in 0..6_000 {
            let known = self.guarded.guard.with(|guard, _| guard.front().gate().epoch()).await;
            if known.map_err(|error| Trouble::setup("the guard", error))? >= Some(told) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// The server of a station.
    pub(crate) fn station(&self, station: Station) -> Result<&Running, Trouble> {
        let found = self.stations.iter().find(|running| running.station == station);
        found.ok_or_else(|| Trouble::setup("no such station", station.name()))
    }

    /// Ends everything in order: servers first, then the ledger.
    pub(crate) async fn stop(self) {
        self.guarded.stop().await;
        for station in &self.stations {
            station.handle.stop().await;
        }
        self.opcua.handle.stop().await;
        let _ended = self.https_running.send(true);
        self.way.end(self.audit).await;
    }
}

/// Waits until every gate has the authority's full list: before that it serves nobody.
async fn in_step(stations: &[Running]) -> Result<(), Trouble> {
    for station in stations {
        for tries in 0.. {
            let state = station.handle.with(|server, now| server.gate().fail_state(now)).await;
            match state.map_err(|error| Trouble::setup(station.station.name(), error))? {
                FailState::InStep => break,
                _ if tries < 3_000 => tokio::time::sleep(Duration::from_millis(20)).await,
                other => return Err(Trouble::setup("a gate does not hear its authority", format!("{other:?}"))),
            }
        }
    }
    Ok(())
}

async fn open_authority(
    workplace: &Workplace,
    ledger: &Ledger,
    without: Option<Without>,
) -> Result<Authority, Trouble> {
    let db = Db::in_memory().await.map_err(|error| Trouble::setup("the journal", error))?;
    let now = gates::clock::now().unix;
    for party in workplace.parties() {
        let station = party.uri == GUARD || Station::ALL.into_iter().any(|station| station_uri(station) == party.uri);
        let application = Application {
            uri: party.uri.clone(),
            name: party.uri.rsplit(':').next().unwrap_or_default().to_owned(),
            kind: if station { ApplicationKind::Server } else { ApplicationKind::Client },
            certificates: vec![party.identity.certificate.thumbprint()],
            secret_hash: None,
            enabled: true,
            created: now,
        };
        db.put_application(&application).await.map_err(|error| Trouble::setup("the journal", error))?;
    }
    for person in CAST.iter().filter_map(|cast| cast.person) {
        let hash = hash_secret(&password(person)).map_err(|error| Trouble::setup("a password", error))?;
        let user = User {
            name: person.into(),
            password_hash: Some(hash),
            certificates: Vec::new(),
            roles: Vec::new(),
            groups: Vec::new(),
            enabled: true,
            created: now,
        };
        db.put_user(&user).await.map_err(|error| Trouble::setup("the journal", error))?;
    }
    let config = AuthorityConfig {
        heartbeat: Duration::from_millis(500),
        ..AuthorityConfig::new("https://127.0.0.1/trapkey-demo")
    };
    let source = PolicySource::Texts(texts(without));
    let opened = Authority::open(config, source, db, ledger.clone(), system_clock()).await;
    opened.map_err(|error| Trouble::setup("the authority", error))
}

/// What the permits of the example ask of the recipe.
const STEP_CONDITIONS: [&str; 3] = [
    "context.steps.containsAny(resource.steps)",
    "context.phases.contains(Phase::\"react\")",
    "context.steps.contains(Step::\"idle\")",
];

/// The rule by which observers see the line begins and ends so.
const OBSERVERS: (&str, &str) = ("@id(\"observers-see-the-line\")", "\n};\n");

/// The example plant, in which quality observers see the line by a rule of their own, for tokens that live shortly. What
/// `without` takes away is missing.
fn texts(without: Option<Without>) -> PolicyTexts {
    let lifetime = format!("@lifetime(\"{}s\")", OBSERVER_LIFE.as_secs());
    let rule = POLICIES.split_once(OBSERVERS.0).and_then(|(_, rest)| rest.split_once(OBSERVERS.1));
    let rule = rule.map_or("", |(rule, _)| rule);
    let rule = rule.replace("@lifetime(\"1h\")", &lifetime).replace("Role::\"observer\"", "Role::\"quality_observer\"");
    debug_assert!(rule.contains(&lifetime) && rule.contains("quality_observer"), "the rule of the observers");
    let mut policies = format!("{POLICIES}\n@id(\"quality-observers-see-the-line\"){rule}{}", OBSERVERS.1);
    let group = "name = \"quality\"\nroles = [\"observer\"]";
    debug_assert!(PLANT.contains(group), "the group of the quality observers");
    let mut plant = PLANT.replace(group, &group.replace("observer", "quality_observer"));
    plant.push_str("\n[[role]]\nname = \"quality_observer\"\n");
    plant.push_str(old::PLANT);
    match without {
        Some(Without::Step) => {
            for condition in STEP_CONDITIONS {
                policies = policies.replacen(condition, "true", 1);
            }
        }
        Some(gone @ (Without::Range | Without::Approval)) => {
            let key = if gone == Without::Range { "range =" } else { "approval =" };
            plant = plant.lines().filter(|line| !line.starts_with(key)).collect::<Vec<_>>().join("\n");
        }
        _ => {}
    }
    PolicyTexts { plant, policies, workflow: Some(WORKFLOW.to_owned()) }
}

async fn serve_https(authority: &Authority, workplace: &Workplace) -> Result<(Target, watch::Sender<bool>), Trouble> {
    let party = workplace.party(AUTHORITY)?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.map_err(|error| Trouble::setup("a port on loopback", error))?;
    let port = listener.local_addr().map_err(|error| Trouble::setup("a port on loopback", error))?.port();
    let chain = vec![CertificateDer::from(party.identity.certificate.der().to_vec())];
    let key = PrivateKeyDer::try_from(party.key().to_vec()).map_err(|error| Trouble::setup("TLS", error))?;
    let tls = authority::server_config(chain, key).map_err(|error| Trouble::setup("TLS", error))?;
    let (running, stop) = watch::channel(false);
    tokio::spawn(authority::serve(listener, tls, authority.clone(), stop));
    Ok((Target { host: "127.0.0.1".into(), port, path: String::new() }, running))
}

/// What the stations have in common.
struct Place<'a> {
    workplace: &'a Workplace,
    authority: &'a Authority,
    opcua: &'a roles::authority::Running,
    https: &'a Target,
    pool: &'a Pool,
    without: Option<Without>,
}

impl Place<'_> {
    fn start(
        &self,
        station: Station,
        listener: TcpListener,
        audit: AuditSink,
        line: SharedLine,
    ) -> Result<Running, Trouble> {
        let uri = station_uri(station);
        let snapshot = self.authority.snapshot();
        let missing = || Trouble::setup("the plant file has no server", &uri);
        let (_, server) = snapshot.plant().server(&uri).ok_or_else(missing)?;
        let (events, mut happened) = mpsc::unbounded_channel();
        let gate = |map: ScopeMap| self.gate(&uri, map);
        let setup = plant::station::Setup {
            node_sets: &[],
            import: ua_proto::space::ImportOptions::default(),
            station,
            server,
            config: self.config(station, &listener)?,
            listener,
            gate: &gate,
            audit,
            pool: self.pool.clone(),
            passwords: Arc::new(|_| Box::pin(async { Err(wrong_credentials()) })),
            line,
            events,
            pki: None,
        };
        let running =
            plant::station::start(setup, gates::clock::now()).map_err(|error| Trouble::setup("a station", error))?;
        let gap = Arc::new(Notify::new());
        let subscription = Subscription {
            https: self.workplace.https(&uri)?,
            authority: self.https.clone(),
            audience: uri,
            silence: SILENCE,
        };
        tokio::spawn(gates::control::follow(subscription, running.handle.clone(), Arc::clone(&gap)));
        tokio::spawn(async move {
            while let Some(event) = happened.recv().await {
                if event == GateEvent::NeedFullList {
                    gap.notify_one();
                }
            }
        });
        Ok(running)
    }

    fn gate(&self, uri: &str, map: ScopeMap) -> GateConfig {
        let mut gate = GateConfig::new(uri, map);
        let mut issuer = self.authority.issuer();
        issuer.require_confirmation = true;
        let contact = Contact { issuer: issuer.name.clone(), timeout: SILENCE * 2, fail_mode: FailMode::Closed };
        gate.issuers = vec![issuer];
        gate.danger_without = danger::of_gate(self.without);
        gate.contact = Some(contact);
        gate.expiry_grace = SLOW;
        gate
    }

    fn config(&self, station: Station, listener: &TcpListener) -> Result<ServerConfig, Trouble> {
        let address = listener.local_addr().map_err(|error| Trouble::setup("a port on loopback", error))?;
        let uri = station_uri(station);
        let party = self.workplace.party(&uri)?;
        let endpoints = vec![
            (SecurityPolicyId::Aes256Sha256RsaPss, MessageSecurityMode::SignAndEncrypt),
            (SecurityPolicyId::Basic256Sha256, MessageSecurityMode::SignAndEncrypt),
        ];
        let identity = Arc::new(ArcSwap::new(Arc::clone(&party.identity)));
        let trust = match self.without {
            Some(Without::Trust) => danger::everybody(),
            _ => Arc::clone(&self.workplace.trust),
        };
        let issuer = IssuerEndpoint {
            resource_id: uri.clone(),
            authority_url: self.opcua.url.clone(),
            profile_uri: IssuerEndpoint::PROFILE_OPCUA.into(),
            token_endpoint: Some(self.opcua.service.clone()),
            authorization_endpoint: None,
            request_types: Vec::new(),
            scopes: Vec::new(),
        };
        let forms = TokenForm::ALL.to_vec();
        let mut channel = ChannelConfig::new(identity, trust, endpoints.clone());
        (channel.hello_timeout, channel.open_timeout) = (SLOW, SLOW);
        Ok(ServerConfig {
            application_uri: uri,
            product_uri: "urn:trapkey:demo".into(),
            application_name: format!("{} of the batch line", station.name()),
            endpoint_urls: vec![format!("opc.tcp://{address}")],
            channel: Arc::new(channel),
            endpoints,
            identities: Identities {
                issued: Some(IssuedTokens { issuer, forms }),
                danger_without: danger::of_server(self.without),
                ..Identities::default()
            },
            limits: ServerLimits {
                max_half_open: MAX_HALF_OPEN,
                half_open_time: SLOW,
                danger_turn_newcomers_away: self.without == Some(Without::Admission),
                ..ServerLimits::default()
            },
            audit: ua_proto::server::AuditConfig::default(),
            write_ranges: Vec::new(),
        })
    }
}
