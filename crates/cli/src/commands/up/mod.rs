//! `trapkey up`: the roles of the configuration in this process, until it is told to stop.

mod authority;
mod behind;
mod bond;
mod discovery;
mod drain;
mod endpoint;
pub(crate) mod foreign;
pub(crate) mod guard;
mod guests;
mod health;
mod https;
pub(crate) mod layout;
pub(crate) mod local;
mod mode;
mod notify;
pub(crate) mod process;
mod scopes;
mod server;
pub(crate) mod status;
mod turn;
mod zones;

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::authority::Authority;
use gates::opcua::guard::GuardHandle;
use gates::opcua::wiring::AuditSink;
use gates::pool::Pool;
use plant::station::{Running, SharedLine};
use serde_json::json;
use store::{CheckpointKey, KeyKind, Ledger, LedgerConfig};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

pub(crate) use self::behind::Way;
pub(crate) use self::guard::{bond as guard_bond, own as upstream_own};
use self::health::{Board, Phase, Watched};
use self::notify::Notify;
use self::scopes::Laid;
pub(crate) use self::zones::zones_of;
use super::policy::Texts;
use super::{Common, configuration};
use crate::answer::{Answer, Output, line};
use crate::config::{Audit, Config, Place};
use crate::failure::Failure;
use crate::roles;
use crate::stop::{Stop, StopSignal};

/// How often the journal forgets what is over.
const PURGE: Duration = Duration::from_secs(3_600);
/// Private-key operations that may wait for a thread.
const WAITING_JOBS: usize = 4_096;

pub(crate) fn run(common: &Common) -> Result<Answer, Failure> {
    let config = common.config.load()?;
    configuration::problems(&config)?;
    if config.authority.is_none() && config.server.is_empty() && config.guard.is_empty() {
        return Err(Failure::bad_input("the configuration names nothing to run")
            .help("add `[authority]`, a `[[server]]` or a `[[guard]]`; `trapkey config init` writes an example"));
    }
    log(&config)?;
    process::take_descriptors();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(serve(&config, &common.config, common.output));
    runtime.shutdown_timeout(Duration::from_secs(2));
    done.map(|()| Answer::silent())
}

fn log(config: &Config) -> Result<(), Failure> {
    let filter = tracing_subscriber::EnvFilter::try_new(&config.log.filter).map_err(|error| {
        Failure::bad_input(format!("`{}` is no log filter", config.log.filter)).because_of(Some(&error))
    })?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let log = log.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()));
    // A log on a disk that is full must not end the thread that writes to it.
    let log = log.log_internal_errors(false);
    log.try_init().map_err(|error| Failure::unavailable(format!("cannot log: {error}")))
}

/// What is running.
struct Up {
    ledger: Ledger,
    board: Board,
    pool: Pool,
    audit: AuditSink,
    way: roles::audit::Way,
    authority: Option<RunningAuthority>,
    stations: Vec<Running>,
    guards: Vec<GuardHandle>,
    /// Of guards that others stand in for.
    turns: Vec<(String, turn::Turn)>,
    registrations: discovery::Registrations,
    /// Without an authority in this process, the line stays in one step for as long as this lives.
    idle: Option<watch::Sender<plant::Step>>,
}

struct RunningAuthority {
    authority: Authority,
    opcua: roles::authority::Running,
    stop_https: watch::Sender<bool>,
    https: JoinHandle<()>,
}

async fn serve(config: &Config, place: &Place, output: Output) -> Result<(), Failure> {
    let mut stop = StopSignal::new()?;
    let notify = Arc::new(Notify::from_environment());
    let texts = Texts::read(config.plant.clone())?;
    // Who only enforces reads no policies: the rules are the authority's.
    let decided = config.authority.as_ref().map(|_| texts.snapshot()).transpose()?;
    let plant = decided.as_ref().map_or_else(|| texts.plant(), |snapshot| Ok(snapshot.plant().clone()))?;
    configuration::known_servers(config, &plant)?;
    configuration::known_zones(config, &plant, place)?;
    let ledger = open_ledger(config)?;
    process::note(&config.audit.ledger);
    let (audit, way) = roles::audit::sink(ledger.clone());
    let board = Board::new(ledger.clone(), way.meters(), Board::names(config));
    let pool = Pool::new(2, WAITING_JOBS)?;
    let mut up = Up {
        ledger,
        board,
        pool,
        audit,
        way,
        authority: None,
        stations: Vec::new(),
        guards: Vec::new(),
        turns: Vec::new(),
        registrations: discovery::Registrations::new(&config.discovery.register_with),
        idle: None,
    };
    let started = tokio::select! {
        started = start(config, output, (decided.as_ref(), &plant), &mut up) => Some(started),
        _ = stop.heard() => None,
    };
    if let Some(Ok(())) = started {
        notify.say("READY=1");
        tokio::spawn(Arc::clone(&notify).watch(up.board.clone()));
        let asked = stop.heard().await;
        notify.say("STOPPING=1");
        if asked == Stop::Terminate {
            drain::wait(&up, config.operation.drain.get(), &mut stop).await;
        }
    }
    up.stop().await;
    process::forget(&config.audit.ledger);
    started.unwrap_or(Ok(()))
}

async fn start(
    config: &Config,
    output: Output,
    (decided, read): (Option<&pdp::Snapshot>, &pdp::Plant),
    up: &mut Up,
) -> Result<(), Failure> {
    if let Some(address) = config.operation.listen {
        say(output, "health", &format!("http://{}", up.board.serve(address).await?));
    }
    if let (Some(role), Some(snapshot)) = (&config.authority, decided) {
        let running = authority::start(config, role, snapshot, up).await?;
        say(output, "authority", &format!("{} and {}", role.issuer, running.opcua.url));
        up.board.authority_is(running.authority.clone());
        up.board.watch(Watched::Authority(running.opcua.handle.clone()));
        up.authority = Some(running);
    }
    let process: SharedLine = Arc::new(Mutex::new(plant::Line::default()));
    for role in &config.server {
        let running = server::start(role, config, read, up, Arc::clone(&process)).await?;
        say(output, &role.name, &format!("opc.tcp://{}", running.handle.address()));
        up.board.watch(Watched::Server(role.name.clone(), running.handle.clone()));
        up.stations.push(running);
    }
    let mut owns = Vec::new();
    for role in &config.guard {
        let (running, watching, own) = guard::start(role, config, read, up).await?;
        say(output, &role.name, &format!("opc.tcp://{}", running.address()));
        up.turns.extend(watching.turn.clone().map(|turn| (role.name.clone(), turn)));
        up.board.watch(Watched::Guard(role.name.clone(), running.clone(), watching.reach, watching.turn));
        up.guards.push(running);
        owns.push(own);
    }
    let authority = up.authority.as_ref().map(|running| running.authority.clone());
    let plant = scopes::Source::of(authority.clone(), &config.plant);
    for (role, station) in config.server.iter().zip(&up.stations) {
        let zoned = bond::Bond::of(role).zoned(&config.zone);
        let begun = scopes::begun(read, &role.name, &zoned);
        let laid = Laid::Station(station.clone());
        tokio::spawn(scopes::follow((role.name.clone(), zoned), plant.clone(), laid, begun));
        tokio::spawn(zones::follow_ledger(role.name.clone(), up.ledger.clone(), station.handle.clone()));
    }
    for ((role, guard), own) in config.guard.iter().zip(&up.guards).zip(owns) {
        let zoned = guard::bond(role, config)?.zoned(&config.zone);
        let begun = scopes::begun(read, &role.name, &zoned);
        let laid = Laid::Guard(guard.clone(), Box::new(role.clone()), own);
        tokio::spawn(scopes::follow((role.name.clone(), zoned), plant.clone(), laid, begun));
        tokio::spawn(zones::follow_ledger(role.name.clone(), up.ledger.clone(), guard.clone()));
    }
    let names = config.server.iter().map(|role| role.name.clone());
    let servers = names.zip(up.stations.iter().map(|station| station.handle.clone())).collect();
    let guards = config.guard.iter().map(|role| role.name.clone()).zip(up.guards.iter().cloned()).collect();
    tokio::spawn(status::keep(
        config.audit.ledger.clone(),
        status::Running { servers, guards, turns: up.turns.clone() },
    ));
    let (step, steps) = watch::channel(current_step(authority.as_ref()));
    tokio::spawn(plant::station::run(process, up.stations.clone(), steps));
    if let Some(authority) = authority {
        let watching = authority.clone();
        tokio::spawn(async move { watching.watch_files().await });
        tokio::spawn(purge(authority.clone()));
        tokio::spawn(follow_recipe(authority, step));
    } else {
        up.idle = Some(step);
    }
    up.board.enter(Phase::Running);
    Ok(())
}

fn say(output: Output, what: &str, place: &str) {
    let said = match output {
        Output::Text => format!("{what} at {place}"),
        Output::Json => json!({"role": what, "at": place}).to_string(),
    };
    line(&said);
}

impl Up {
    /// Discovery servers are told before, or not at all. Servers first, all at once: each hands its last records over before it is gone. Then who answers over HTTPS, and
    /// last the ledger, when it has what was handed over.
    async fn stop(self) {
        self.registrations.end().await;
        let mut ending = JoinSet::new();
        for station in self.stations {
            ending.spawn(async move { station.handle.stop().await });
        }
        for guard in self.guards {
            ending.spawn(async move { guard.stop().await });
        }
        if let Some(running) = self.authority {
            ending.spawn(async move {
                running.opcua.handle.stop().await;
                let _nobody_serves = running.stop_https.send(true);
                let _serves_no_more = running.https.await;
            });
        }
        while ending.join_next().await.is_some() {}
        self.way.end(self.audit).await;
    }
}

fn open_ledger(config: &Config) -> Result<Ledger, Failure> {
    let key = CheckpointKey::load_or_create(&config.audit.key, KeyKind::Ed25519);
    let key = key.map_err(|error| Failure::from_error(&error))?;
    Ledger::open(&config.audit.ledger, ledger_settings(&config.audit), key).map_err(|error| Failure::from_error(&error))
}

fn ledger_settings(audit: &Audit) -> LedgerConfig {
    LedgerConfig {
        rotate_bytes: u64::from(audit.rotate_mib) * 1024 * 1024,
        sync: crate::config::durability(audit.sync),
        checkpoint_records: audit.checkpoint_records.get(),
        checkpoint_interval: audit.checkpoint_interval.get(),
        queue_records: audit.queue_records.size(),
        ..LedgerConfig::default()
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address)
        .map_err(|error| Failure::unavailable(format!("cannot listen at {address}")).because_of(Some(&error)))
}

/// The simulated step that the workflow stands in.
fn current_step(authority: Option<&Authority>) -> plant::Step {
    let steps = authority.map(|authority| authority.snapshot().steps().clone()).unwrap_or_default();
    steps.iter().find_map(|step| plant::Step::from_name(step)).unwrap_or(plant::Step::Idle)
}

async fn purge(authority: Authority) {
    loop {
        tokio::time::sleep(PURGE).await;
        if let Err(error) = authority.purge().await {
            tracing::warn!(%error, "the journal could not forget what is over");
        }
    }
}

/// Keeps the simulated line in the step of the workflow.
async fn follow_recipe(authority: Authority, step: watch::Sender<plant::Step>) {
    let mut ticks = tokio::time::interval(Duration::from_millis(100));
    loop {
        ticks.tick().await;
        let now = current_step(Some(&authority));
        step.send_if_modified(|before| std::mem::replace(before, now) != now);
        if step.is_closed() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_audit_and_the_store_is_the_setting_that_it_names() {
        let set = |from: &str, to: &str| {
            let text = crate::config::TEMPLATE.replacen(from, to, 1);
            assert!(from == to || text != crate::config::TEMPLATE, "{from}");
            let config = ::config::read(&text, &::config::Overrides::default()).unwrap();
            let gate = server::audit_config(&config.audit);
            format!("{:?} {gate:?}, ", ledger_settings(&config.audit)).replace(" }", ", }")
        };
        let before = set("", "");
        for (from, to, setting) in [
            ("so.\nsync = \"os\"", "so.\nsync = \"disk\"", "sync: Disk,"),
            ("rotate_mib = 64", "rotate_mib = 3", "rotate_bytes: 3145728,"),
            ("on_failure = \"closed\"", "on_failure = \"open\"", "unavailable: Open,"),
            ("denials_per_second = 5", "denials_per_second = 7", "denials_per_second: 7,"),
            ("denial_kinds = 1024", "denial_kinds = 77", "max_denial_kinds: 77,"),
            ("checkpoint_records = 4096", "checkpoint_records = 9", "checkpoint_records: 9,"),
            ("checkpoint_interval = \"1s\"", "checkpoint_interval = \"3s\"", "checkpoint_interval: 3s,"),
            ("queue_records = 65536", "queue_records = 4097", "queue_records: 4097,"),
        ] {
            let after = set(from, to);
            assert!(after.contains(&format!(" {setting}")), "{to}: {after}");
            assert!(!before.contains(&format!(" {setting}")), "{to}: the template says the same: {before}");
        }
        for (word, durability) in [(::config::Sync::Os, store::Sync::Os), (::config::Sync::Disk, store::Sync::Disk)] {
            assert_eq!(crate::config::durability(word), durability, "of the store as well");
        }
    }
}
