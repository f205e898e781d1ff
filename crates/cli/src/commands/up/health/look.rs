//! One look at everything: what `/readyz` and `/metrics` are made of.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::authority::Authority;
use access_model::{Epoch, UnixTime};
use gates::opcua::Enforcing;
use gates::opcua::server::Handle;
use pep::{FailState, GateMeter, ZoneState};
use store::Health;
use ua_proto::server::ServerMeters;

use super::super::turn::{Standing, Turn};
use super::{Board, Phase, Watched};
use crate::roles::audit::WayMeters;

/// A thread that does not answer within this time is stuck.
const PATIENCE: Duration = Duration::from_secs(5);

/// Everything, at one moment.
#[derive(Debug)]
pub(super) struct View {
    pub(super) phase: Phase,
    /// When the program was started.
    pub(super) started: UnixTime,
    pub(super) ledger: Health,
    pub(super) way: Arc<WayMeters>,
    pub(super) authority: Option<Issuing>,
    pub(super) parts: Vec<Part>,
    /// Those that do not listen yet.
    pub(super) missing: Vec<String>,
}

/// The authority in this program.
#[derive(Debug)]
pub(super) struct Issuing {
    pub(super) epoch: Epoch,
    /// Why its journal does not answer.
    pub(super) trouble: Option<String>,
    pub(super) issued: u64,
    pub(super) refused: u64,
    pub(super) whole: Authority,
}

/// One listener.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) address: SocketAddr,
    /// `None` when it does not answer.
    pub(super) state: Option<State>,
    /// Of a guard: why its server is out of reach, if it is, and since when if that was looked at.
    pub(super) upstream: Option<Option<(String, Option<UnixTime>)>>,
    /// Of a guard that another stands in for.
    pub(super) turn: Option<Standing>,
}

/// How a listener stands with its authority.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) state: FailState,
    pub(super) epoch: Option<Epoch>,
    /// Since when it is lost.
    pub(super) since: Option<UnixTime>,
}

/// What a thread says of itself.
#[derive(Debug)]
pub(super) struct State {
    /// Processor time that its thread has had.
    pub(super) cpu: Duration,
    pub(super) connections: usize,
    pub(super) sessions: usize,
    pub(super) subscriptions: usize,
    pub(super) grants: usize,
    /// Bytes held for all clients, and of these for those that have not logged in.
    pub(super) held: (usize, usize),
    /// How it stands with its authority; `None` when it has none.
    pub(super) link: Option<Link>,
    /// What is left while nothing can be recorded.
    pub(super) ledger: FailState,
    pub(super) zones: Vec<ZoneState>,
    pub(super) meters: Arc<ServerMeters>,
    pub(super) gate: Arc<GateMeter>,
}

impl View {
    pub(super) async fn of(board: &Board) -> Self {
        let running = board.running();
        let authority = match &running.authority {
            None => None,
            Some(authority) => {
                let trouble = match tokio::time::timeout(PATIENCE, authority.journal_answers()).await {
                    Ok(answer) => answer.err().map(|error| error.to_string()),
                    Err(_) => Some("the journal does not answer".to_owned()),
                };
                let (issued, refused) = authority.tokens();
                let epoch = authority.snapshot().epoch();
                Some(Issuing { epoch, trouble, issued, refused, whole: authority.clone() })
            }
        };
        let mut parts = Vec::new();
        for watched in &running.watched {
            parts.push(Part::of(watched).await);
        }
        let here = |name: &&String| !parts.iter().any(|part| part.name == **name);
        Self {
            phase: board.phase(),
            started: board.0.started,
            ledger: board.0.ledger.health(),
            way: Arc::clone(&board.0.meters),
            authority,
            missing: board.0.expected.iter().filter(here).cloned().collect(),
            parts,
        }
    }

    /// Whether every thread answers.
    pub(super) fn is_alive(&self) -> bool {
        self.parts.iter().all(|part| part.state.is_some())
    }
}

impl Part {
    async fn of(watched: &Watched) -> Self {
        let (kind, address, state, upstream) = match watched {
            Watched::Authority(handle) => ("authority", handle.address(), State::of(handle).await, None),
            Watched::Server(_, handle) => ("server", handle.address(), State::of(handle).await, None),
            Watched::Guard(_, handle, reach, _) => {
                let seen = handle.with(|guard, _| (guard.is_mapped(), guard.upstream_trouble()));
                let trouble = match tokio::time::timeout(PATIENCE, seen).await {
                    Ok(Ok((_, Some(trouble)))) => {
                        let since = reach.trouble().map(|(_, since)| since);
                        Some((format!("a session upstream ended: {trouble}"), since))
                    }
                    Ok(Ok((mapped, None))) => match reach.trouble() {
                        Some((trouble, since)) => Some((trouble, Some(since))),
                        None => (!mapped).then(|| ("it is being looked at".to_owned(), None)),
                    },
                    _ => Some(("the guard does not answer".to_owned(), None)),
                };
                ("guard", handle.address(), State::of(handle).await, Some(trouble))
            }
        };
        let turn = match watched {
            Watched::Guard(_, _, _, turn) => turn.as_ref().map(Turn::standing),
            _ => None,
        };
        Self { name: watched.name().to_owned(), kind, address, state, upstream, turn }
    }
}

impl State {
    async fn of<C: Enforcing>(handle: &Handle<C>) -> Option<Self> {
        let asked = handle.with(|core, now| {
            let (front, gate) = (core.front(), core.gate());
            let (connections, sessions) = front.load();
            Self {
                cpu: processor_time(),
                connections,
                sessions,
                subscriptions: core.subscriptions(),
                grants: gate.len(),
                held: (front.held(), front.held_for_strangers()),
                link: gate.config().contact.is_some().then(|| Link {
                    state: gate.fail_state(now),
                    epoch: gate.epoch(),
                    since: gate.lost_since(now).map(|since| ago(now.mono.since(since), now.unix)),
                }),
                ledger: gate.ledger_state(now),
                zones: gate.zone_states(now),
                meters: Arc::clone(front.meters()),
                gate: Arc::clone(gate.meter()),
            }
        });
        tokio::time::timeout(PATIENCE, asked).await.ok()?.ok()
    }
}

/// Of the thread that asks: each listener has one.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn ago(span: Duration, now: UnixTime) -> UnixTime {
    UnixTime::from_micros(now.as_micros().saturating_sub(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
}
