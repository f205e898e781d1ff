//! One of the line's OPC UA servers, put together and running: equipment, scopes, gate and sockets.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use access_model::{Now, Refusal, UnixTime};
use gates::opcua::server::{ServerHandle, Shell};
use gates::opcua::wiring::{Application, AuditSink, Credentials, Local};
use gates::pki::PkiStore;
use gates::pool::Pool;
use opcua_types::{DataValue, QualifiedName, StatusCode, Variant};
use pep::{Gate, GateConfig, GateEvent};
use tokio::sync::mpsc;
use ua_proto::event::NewEvent;
use ua_proto::server::{Answer, Input, Invocation, Server, ServerConfig};
use ua_proto::space::{ImportOptions, NodeRef, ServerFacts, Space, SpaceConfig, ns0};

use crate::equipment::{self, Station};
use crate::process::{self, Line, Occurrence, Step};
use crate::scoping::{self, Uncovered};

/// How many events a station keeps.
const EVENTS: usize = 1_000;

/// Who may receive events of the scope of this name may receive audit events; a plant file without it lets nobody.
const AUDIT_SCOPE: &str = "audit";

/// Checks a user name and password, taking as long for an unknown user as for a wrong password; says of a password that
/// it had no time to look at that it is too busy.
pub type Passwords = Arc<dyn Fn(Credentials) -> Checked + Send + Sync>;

/// What a check of a password will say.
pub type Checked = Pin<Box<dyn Future<Output = Result<(), Refusal>> + Send>>;

/// The line as all three servers share it.
pub type SharedLine = Arc<Mutex<Line>>;

/// Why a station cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Unstarted {
    /// The plant file does not know the station.
    #[error("the plant file has no server `{0}`")]
    NoServer(String),
    /// The plant file does not fit the equipment.
    #[error(transparent)]
    Unfit(#[from] scoping::Unfit),
    /// The gate cannot be set up.
    #[error(transparent)]
    Gate(#[from] pep::InvalidGate),
    /// A node set cannot be taken in; the first is its number in [`Setup::node_sets`].
    #[error("node set {0}: {1}")]
    NodeSet(usize, ua_proto::space::NodeSetError),
    /// A node cannot be added.
    #[error(transparent)]
    Space(#[from] ua_proto::space::SpaceError),
    /// The socket or the thread.
    #[error("the server cannot be started: {0}")]
    System(#[from] std::io::Error),
}

/// What a station is started with.
pub struct Setup<'a> {
    /// Which.
    pub station: Station,
    /// NodeSet2 texts with nodes that it has besides, each behind those it builds on.
    pub node_sets: &'a [Arc<str>],
    /// How they are taken in.
    pub import: ImportOptions,
    /// The plant file's server of that name gives the scopes.
    pub server: &'a pdp::plant::Server,
    /// Where it listens.
    pub listener: TcpListener,
    /// Identities, endpoints and bounds.
    pub config: ServerConfig,
    /// Given the map of its scopes, how the gate is set up.
    pub gate: &'a dyn Fn(access_model::ScopeMap) -> GateConfig,
    /// The way to the ledger.
    pub audit: AuditSink,
    /// Runs private-key operations.
    pub pool: Pool,
    /// Users with passwords.
    pub passwords: Passwords,
    /// The line.
    pub line: SharedLine,
    /// Told what happens to grants.
    pub events: mpsc::UnboundedSender<GateEvent>,
    /// Where rejected certificates are kept.
    pub pki: Option<PkiStore>,
}

/// A running station.
#[derive(Clone)]
pub struct Running {
    /// Which.
    pub station: Station,
    /// The server.
    pub handle: ServerHandle,
    points: Arc<BTreeMap<&'static str, NodeRef>>,
    uncovered: Arc<Mutex<Uncovered>>,
}

/// Why a station does not take a changed plant file.
#[derive(Debug, thiserror::Error)]
pub enum Unchanged {
    /// The plant file does not fit the equipment.
    #[error(transparent)]
    Unfit(#[from] scoping::Unfit),
    /// The gate cannot be set up so.
    #[error(transparent)]
    Gate(#[from] pep::InvalidGate),
    /// It has stopped.
    #[error(transparent)]
    Stopped(#[from] gates::opcua::server::Stopped),
}

/// Starts a station.
///
/// # Errors
/// As [`Unstarted`] lists.
pub fn start(setup: Setup<'_>, now: Now) -> Result<Running, Unstarted> {
    let mut space =
        Space::new(SpaceConfig { application_uri: setup.config.application_uri.clone(), namespaces: Vec::new() })?;
    equipment::add(&mut space, setup.station)?;
    for (number, text) in setup.node_sets.iter().enumerate() {
        let imported = space.import(text, &setup.import).map_err(|fault| Unstarted::NodeSet(number, fault))?;
        if !imported.without_value.is_empty() {
            let count = imported.without_value.len();
            tracing::warn!(server = %setup.server.name, node_set = number, count, "values of unknown structures are left out");
        }
    }
    let mut uncovered = Uncovered::default();
    uncovered.note(&space, setup.server)?;
    let map = scoping::apply(&mut space, setup.server)?;
    let mut config = setup.config;
    space.historize_events(ns0::SERVER, EVENTS, false)?;
    config.audit.events.get_or_insert_with(|| AUDIT_SCOPE.to_owned());
    space.set_server_facts(facts(&config, now.unix));
    let points: BTreeMap<&'static str, NodeRef> = setup
        .station
        .points()
        .iter()
        .filter_map(|p| Some((p.path, space.find(&equipment::node_id(p.path))?)))
        .collect();
    let gate = Gate::new((setup.gate)(map), now)?;
    let mut server = Server::new(config, space, gate, Box::new(token::SystemEntropy::default()));
    server.set_interlocks(setup.server.interlocks());
    let points = Arc::new(points);
    let behind = Behind {
        station: setup.station,
        paths: points.iter().map(|(path, node)| (*node, *path)).collect(),
        line: setup.line,
        passwords: setup.passwords,
        events: setup.events,
        pki: setup.pki,
    };
    let shell = Shell { pool: setup.pool, audit: setup.audit, application: Box::new(move || Box::new(behind)) };
    let handle = gates::opcua::server::start(setup.listener, server, shell)?;
    Ok(Running { station: setup.station, handle, points, uncovered: Arc::new(Mutex::new(uncovered)) })
}

fn facts(config: &ServerConfig, started: UnixTime) -> ServerFacts {
    ServerFacts {
        product_uri: config.product_uri.clone(),
        manufacturer: "Trapkey".into(),
        product: config.application_name.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        started,
        build_date: started,
        limits: config.limits.operations,
        ..ServerFacts::default()
    }
}

impl Running {
    /// Takes the scopes and interlocks of a changed plant file, all at once or not at all. Gives whether the map that tokens
    /// index is another; then every session needs a new token.
    ///
    /// # Errors
    /// The changed file does not fit; everything stays as it was.
    pub async fn lay_out(&self, server: pdp::plant::Server) -> Result<bool, Unchanged> {
        let uncovered = Arc::clone(&self.uncovered);
        let change = move |running: &mut Server, now| {
            let mut uncovered = uncovered.lock().unwrap_or_else(PoisonError::into_inner);
            let map = uncovered.note(running.space(), &server)?;
            let arrange = |space: &mut Space| {
                uncovered.restore(space);
                if let Err(unfit) = scoping::apply(space, &server) {
                    // It fitted a moment ago, before the same nodes.
                    tracing::error!(%unfit, "some nodes are in no scope");
                }
                Vec::new()
            };
            let another = running.lay_out(map, arrange, now)?;
            running.set_interlocks(server.interlocks());
            Ok(another)
        };
        self.handle.with(change).await?
    }

    /// Puts what the line measures into the address space.
    pub async fn show(&self, line: &Line) {
        let measured = line.measured;
        let values: [(&str, Variant); 7] = [
            ("Mixer.Measurements.Level", measured.mixer_level.into()),
            ("Mixer.Measurements.Speed", measured.mixer_speed.into()),
            ("Reactor.Measurements.Level", measured.reactor_level.into()),
            ("Reactor.Measurements.Temperature", measured.reactor_temperature.into()),
            ("Reactor.Measurements.Pressure", measured.reactor_pressure.into()),
            ("Reactor.Measurements.Conversion", measured.conversion.into()),
            ("Filler.Measurements.Bottles", measured.bottles.into()),
        ];
        let points = Arc::clone(&self.points);
        let shown = self.handle.with(move |server, now| {
            for (path, value) in values {
                if let Some(node) = points.get(path) {
                    server.handle_input(Input::SetValue { node: *node, value: DataValue::value_only(value) }, now);
                }
            }
        });
        // A server that has stopped has nothing to show.
        let _stopped = shown.await;
    }
}

impl Running {
    /// Tells those who listen what happened to this station.
    async fn tell(&self, occurrences: Vec<Occurrence>) {
        let points = Arc::clone(&self.points);
        let told = self.handle.with(move |server, now| {
            for Occurrence { source, severity, message } in occurrences {
                if let Some(node) = points.get(source) {
                    let event_type = ns0::BASE_EVENT_TYPE;
                    let (source, message, fields) = (*node, message.to_owned(), Vec::new());
                    // What was measured is for who may read it.
                    let values = vec![(QualifiedName::new(1, "Value"), source)];
                    let event = NewEvent { event_type, source, severity, message, fields, values };
                    server.handle_input(Input::Event(event), now);
                }
            }
        });
        // A server that has stopped tells nobody.
        let _stopped = told.await;
    }
}

/// Lets the line run with the recipe until the step's sender is gone, ten times a second.
pub async fn run(line: SharedLine, stations: Vec<Running>, mut step: tokio::sync::watch::Receiver<Step>) {
    let tick = std::time::Duration::from_millis(100);
    let mut ticks = tokio::time::interval(tick);
    let mut before = line.lock().unwrap_or_else(PoisonError::into_inner).measured;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            changed = step.changed() => if changed.is_err() { return },
        }
        let now = {
            let mut line = line.lock().unwrap_or_else(PoisonError::into_inner);
            line.advance(*step.borrow(), tick);
            *line
        };
        let happened: Vec<Occurrence> = process::occurrences(&before, &now.measured).collect();
        before = now.measured;
        for station in &stations {
            station.show(&now).await;
            if !happened.is_empty() {
                station.tell(happened.clone()).await;
            }
        }
    }
}

/// What stands behind a station's server.
struct Behind {
    station: Station,
    paths: BTreeMap<NodeRef, &'static str>,
    line: SharedLine,
    passwords: Passwords,
    events: mpsc::UnboundedSender<GateEvent>,
    pki: Option<PkiStore>,
}

impl Application for Behind {
    fn invoke(&self, call: Invocation) -> Local<Answer> {
        let recipe = self.station.recipe();
        let halt = [false, true].into_iter().find(|halt| {
            call.method == equipment::node_id(&format!("{recipe}.{}", if *halt { "Stop" } else { "Start" }))
        });
        let answer = match halt {
            Some(halt) => {
                let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
                line.halted[self.station as usize] = halt;
                Answer { status: StatusCode::Good, input_results: Vec::new(), outputs: vec![Variant::Boolean(true)] }
            }
            None => Answer { status: StatusCode::BadNotImplemented, input_results: Vec::new(), outputs: Vec::new() },
        };
        Box::pin(async move { answer })
    }

    fn authenticate(&self, credentials: Credentials) -> Local<Result<(), Refusal>> {
        Box::pin((self.passwords)(credentials))
    }

    fn written(&self, node: NodeRef, value: &DataValue) {
        let Some(Variant::Double(value)) = value.value else { return };
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let set = &mut line.set;
        match self.paths.get(&node).copied() {
            Some("Mixer.Setpoints.Speed") => set.mixer_speed = value,
            Some("Mixer.Setpoints.Dose") => set.mixer_dose = value,
            Some("Mixer.Valves.Inlet") => set.mixer_inlet = value,
            Some("Reactor.Temperature.Setpoint") => set.reactor_temperature = value,
            Some("Filler.Setpoints.Rate") => set.filler_rate = value,
            _ => {}
        }
    }

    fn gate_event(&self, event: GateEvent) {
        let _nobody_listens = self.events.send(event);
    }

    fn rejected(&self, certificate: &[u8]) {
        if let Some(pki) = &self.pki {
            pki.reject_der(certificate);
        }
    }
}
