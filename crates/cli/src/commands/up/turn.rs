//! Whose turn it is among two guards that stand in for one another: this one asks the authority, the other and itself for
//! their votes, serves while it has a majority, and stops before it has none any more. How and why:
//! `docs/decisions/0010-two-guards-one-turn.md`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use access_model::turn::{Ballot, Candidate, HolderId, LONGEST_TURN, Vote, Voter, Yielding};
use access_model::{Mono, Now, UnixTime};
use gates::https::{HttpsClient, Target};
use gates::opcua::Enforcing;
use gates::opcua::guard::GuardHandle;
use gates::peer::Pair;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};
use ua_proto::server::Input;

use super::health::Reach;
use crate::commands::own::Own;
use crate::config::Standby;
use crate::failure::Failure;

/// The voters: the guard itself, the other, the authority.
const OWN: usize = 0;
const OTHER: usize = 1;
const AUTHORITY: usize = 2;

/// What one guard asks another, or the authority, in one line.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    holder: u64,
    term: u64,
    span_ms: u64,
    #[serde(default)]
    release: bool,
    /// Whom it found where the other should be, as the authority has to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    other: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
struct Answered {
    given: bool,
    term: u64,
    #[serde(default)]
    to: Option<u64>,
    /// It takes turns with another than the one that asks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    third: bool,
    /// The guard that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    me: Option<u64>,
    /// Whether that reaches the server, and would serve.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    reaches: bool,
}

/// How the turn stands, for those who watch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// Whether this guard serves.
    pub(super) active: bool,
    pub(super) since: UnixTime,
    /// How long a turn lasts that is not renewed.
    pub(super) span: Duration,
    /// The number of the latest turn here.
    pub(super) term: u64,
    /// Whether the other guard, and the authority, answered last time.
    pub(super) reached: (bool, bool),
    /// How often this guard began to serve.
    pub(super) turns: u64,
    /// The other guard, or the authority, takes turns with another than this one.
    pub(super) third: bool,
    /// It leaves the turn to the other, which reaches the server.
    pub(super) yields: bool,
}

/// The turn of one guard; clones are the same.
#[derive(Clone)]
pub(super) struct Turn(Arc<Shared>);

struct Shared {
    me: HolderId,
    /// What is known of the server.
    reach: Reach,
    standing: Mutex<Standing>,
    voter: Mutex<Voter>,
    /// Something has changed, or is to be done: ask now.
    wake: Notify,
    /// The turn is to be given up for good.
    leave: watch::Sender<bool>,
    left: watch::Sender<bool>,
    /// Whether this guard serves.
    serving: watch::Sender<bool>,
}

/// What a guard remembers from one round to the next.
struct Rounds {
    yielding: Yielding,
    /// Whom it found where the other should be.
    other: Option<HolderId>,
    /// Since when it is taken for a third. Whoever has just started may be for a moment.
    third: Option<Mono>,
}

struct Asking {
    turn: Turn,
    name: String,
    pair: Pair,
    standby: Standby,
    https: HttpsClient,
    authority: Target,
    uri: String,
    guard: GuardHandle,
}

impl Turn {
    /// Starts to ask. The guard does not listen until it has its turn.
    pub(super) async fn start(
        (name, uri): (&str, &str),
        standby: &Standby,
        own: &Own,
        (https, authority): (HttpsClient, Target),
        (guard, reach): (&GuardHandle, &Reach),
    ) -> Result<Self, Failure> {
        let _stopped = guard.turn(false).await;
        let listener = tokio::net::TcpListener::bind(standby.listen).await.map_err(|error| {
            Failure::unavailable(format!("cannot listen at {}", standby.listen)).because_of(Some(&error))
        })?;
        let now = gates::clock::now();
        let standing = Standing {
            active: false,
            since: now.unix,
            span: standby.turn.get(),
            term: 0,
            reached: (false, false),
            turns: 0,
            third: false,
            yields: false,
        };
        let me = HolderId(random());
        let mut voter = Voter::new(now);
        voter.between(me, None);
        let turn = Self(Arc::new(Shared {
            me,
            reach: reach.clone(),
            standing: Mutex::new(standing),
            voter: Mutex::new(voter),
            wake: Notify::new(),
            leave: watch::Sender::new(false),
            left: watch::Sender::new(false),
            serving: watch::Sender::new(false),
        }));
        let asking = Asking {
            turn: turn.clone(),
            name: name.to_owned(),
            pair: own.pair()?,
            standby: standby.clone(),
            https,
            authority,
            uri: uri.to_owned(),
            guard: guard.clone(),
        };
        let (votes, pair, stopped) = (turn.clone(), asking.pair.clone(), guard.clone());
        let other = standby.peer.ip();
        tokio::spawn(async move {
            tokio::select! {
                () = stopped.stopped() => {}
                () = pair.answer(listener, other, move |line| votes.reply(line)) => {}
            }
        });
        tokio::spawn(asking.run());
        Ok(turn)
    }

    pub(super) fn standing(&self) -> Standing {
        *self.0.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn standing_mut(&self) -> MutexGuard<'_, Standing> {
        self.0.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn voter(&self) -> MutexGuard<'_, Voter> {
        self.0.voter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows whether this guard serves.
    pub(super) fn serving(&self) -> watch::Receiver<bool> {
        self.0.serving.subscribe()
    }

    /// Whether the guard asks for its turn no more.
    pub(super) fn is_over(&self) -> bool {
        *self.0.left.borrow()
    }

    /// Hands the turn over, if the other guard is there to take it, and asks for it no more. Gives whether it did.
    pub(super) async fn hand_over(&self) -> bool {
        let standing = self.standing();
        if standing.active && !standing.reached.0 {
            return false;
        }
        self.0.leave.send_replace(true);
        self.0.wake.notify_one();
        let mut left = self.0.left.subscribe();
        let _ended = left.wait_for(|left| *left).await;
        standing.active
    }

    fn reaches(&self) -> bool {
        self.0.reach.trouble().is_none()
    }

    /// Whether this guard reaches the server, and is not on its way out.
    fn would_serve(&self) -> bool {
        self.reaches() && !*self.0.leave.borrow() && !self.is_over()
    }

    /// What the other guard asks.
    fn reply(&self, line: &[u8]) -> Vec<u8> {
        let Ok(asked) = serde_json::from_slice::<Asked>(line) else { return b"{}".to_vec() };
        let now = gates::clock::now();
        let answer = if asked.release {
            if self.voter().release(HolderId(asked.holder), asked.term) {
                // The other gave its turn back: it is free at once.
                self.0.wake.notify_one();
            }
            Answered { term: asked.term, ..Answered::default() }
        } else {
            answered(self.voter().ask(asked.ballot(), now), asked.term)
        };
        let answer = Answered { me: Some(self.0.me.0), reaches: self.would_serve(), ..answer };
        serde_json::to_vec(&answer).unwrap_or_default()
    }
}

impl Asked {
    fn of(ballot: Ballot, release: bool) -> Self {
        let span_ms = u64::try_from(ballot.span.as_millis()).unwrap_or(u64::MAX);
        Self { holder: ballot.holder.0, term: ballot.term, span_ms, release, other: None }
    }

    const fn ballot(self) -> Ballot {
        Ballot { holder: HolderId(self.holder), term: self.term, span: Duration::from_millis(self.span_ms) }
    }

    fn line(self) -> Vec<u8> {
        serde_json::to_vec(&self).unwrap_or_default()
    }
}

fn answered(vote: Vote, term: u64) -> Answered {
    match vote {
        Vote::Given => Answered { given: true, term, ..Answered::default() },
        Vote::Refused { to, term } => Answered { term, to: to.map(|to| to.0), ..Answered::default() },
        Vote::Third => Answered { term, third: true, ..Answered::default() },
    }
}

impl Answered {
    fn vote(self) -> Vote {
        match self {
            Self { third: true, .. } => Vote::Third,
            Self { given: true, .. } => Vote::Given,
            Self { to, term, .. } => Vote::Refused { to: to.map(HolderId), term },
        }
    }
}

impl Asking {
    async fn run(self) {
        let span = self.turn.standing().span;
        let mut candidate = Candidate::new(self.turn.0.me, span);
        let mut rounds = Rounds { yielding: Yielding::new(self.standby.yield_after.get()), other: None, third: None };
        let leave = self.turn.0.leave.subscribe();
        loop {
            if *leave.borrow() {
                self.leave(&mut candidate).await;
                break;
            }
            if self.turn.standing().yields {
                self.look(&mut rounds, candidate.ballot(), span / 4).await;
            } else {
                self.round(&mut candidate, &mut rounds, span / 4).await;
            }
            let now = gates::clock::now();
            // Each guard at its own pace, so that two that want their turn do not take the votes from one another for ever.
            let pause = if candidate.until(now).is_some() { span / 3 } else { span / 8 + span / 8 * jitter() / 255 };
            let pause = candidate.until(now).map_or(pause, |until| pause.min(until.mono.since(now.mono)));
            tokio::select! {
                () = self.guard.stopped() => break,
                () = self.turn.0.wake.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        self.turn.0.left.send_replace(true);
    }

    /// Asks all once. The own vote comes last: it alone is of no use, and would keep the other from its turn.
    async fn round(&self, candidate: &mut Candidate, rounds: &mut Rounds, wait: Duration) {
        let asked = gates::clock::now();
        candidate.begin(asked);
        let ballot = candidate.ballot();
        let question = Asked::of(ballot, false);
        let told = Asked { other: rounds.other.map(|other| other.0), ..question };
        let lines = (question.line(), told.line());
        let (other, authority) = tokio::join!(self.other(&lines.0, wait), self.authority(&lines.1, wait));
        for (voter, answer) in [(OTHER, &other), (AUTHORITY, &authority)] {
            if let Ok(answer) = answer {
                candidate.heard(voter, ballot, answer.vote(), asked);
            }
        }
        rounds.other = self.found(&other, rounds.other);
        let now = gates::clock::now();
        if candidate.counts_on(OTHER, now) || candidate.counts_on(AUTHORITY, now) {
            let vote = self.turn.voter().ask(ballot, now);
            candidate.heard(OWN, ballot, vote, now);
        }
        self.tell(rounds, &other, &authority);
        match candidate.until(gates::clock::now()).filter(|_| !self.turn.standing().yields) {
            Some(until) => self.serve(until, ballot.term).await,
            None => {
                self.stand_by().await;
                // Who did not answer may have given its vote all the same.
                let late = other.is_err() || authority.is_err();
                let given = [OWN, OTHER, AUTHORITY].iter().any(|voter| candidate.counts_on(*voter, now));
                let ballot = candidate.give_up();
                if late || given {
                    self.release(ballot, wait).await;
                }
            }
        }
    }

    /// Who answers where the other should be is the other, from now on: nobody else gets this guard's vote.
    fn found(&self, answer: &Result<Answered, String>, before: Option<HolderId>) -> Option<HolderId> {
        let Ok(answer) = answer else { return before };
        let other = answer.me.map(HolderId).filter(|other| *other != self.turn.0.me);
        self.turn.voter().between(self.turn.0.me, other);
        other
    }

    /// Takes account of how it stands with the two others.
    fn tell(&self, rounds: &mut Rounds, other: &Result<Answered, String>, authority: &Result<Answered, String>) {
        if let Err(cause) = other {
            tracing::debug!(name = self.name, cause, "the other guard does not answer");
        }
        let now = gates::clock::now();
        let third = [other, authority].iter().any(|answer| answer.as_ref().is_ok_and(|answer| answer.third));
        let since = if third { *rounds.third.get_or_insert(now.mono) } else { Mono::NEVER };
        rounds.third = rounds.third.filter(|_| third);
        let third = third && now.mono.since(since) >= LONGEST_TURN;
        let other_reaches = other.as_ref().is_ok_and(|answer| answer.reaches);
        let yields = rounds.yielding.look(self.turn.reaches(), other_reaches, now);
        let before = {
            let mut standing = self.turn.standing_mut();
            let before = *standing;
            standing.reached = (other.is_ok(), authority.is_ok());
            (standing.third, standing.yields) = (third, yields);
            before
        };
        if third && !before.third {
            let why = "two others take turns: a third program with this certificate does not serve beside them";
            tracing::error!(name = self.name, why);
        }
        if yields && !before.yields {
            tracing::warn!(name = self.name, "the other guard reaches the server and this one does not: it may serve");
        }
    }

    /// Asks the other how it is, and for nothing; the authority goes on hearing of this guard.
    async fn look(&self, rounds: &mut Rounds, ballot: Ballot, wait: Duration) {
        // What was given back is given back once more, which changes nothing.
        let question = Asked::of(ballot, true);
        let told = Asked { other: rounds.other.map(|other| other.0), ..question };
        let lines = (question.line(), told.line());
        let (other, authority) = tokio::join!(self.other(&lines.0, wait), self.authority(&lines.1, wait));
        rounds.other = self.found(&other, rounds.other);
        self.tell(rounds, &other, &authority);
    }

    async fn other(&self, line: &[u8], wait: Duration) -> Result<Answered, String> {
        let answer = self.pair.ask(self.standby.peer, line, wait).await?;
        serde_json::from_slice(&answer).map_err(|error| error.to_string())
    }

    async fn authority(&self, line: &[u8], wait: Duration) -> Result<Answered, String> {
        let path = format!("/control/v1/turn?audience={}", crate::commands::admin::percent(&self.uri));
        let json = [("content-type", "application/json")];
        let exchange = self.https.exchange(&self.authority, "POST", &path, &json, line.to_vec());
        let answer = tokio::time::timeout(wait, exchange).await.map_err(|_| format!("no answer in {wait:?}"))?;
        let (status, body) = answer.map_err(|error| error.to_string())?;
        if !status.is_success() {
            return Err(format!("it answers {status}"));
        }
        serde_json::from_slice(&body).map_err(|error| error.to_string())
    }

    /// Gives back what was given: also to voters that did not answer, who may have been asked all the same.
    async fn release(&self, ballot: Ballot, wait: Duration) {
        self.turn.voter().release(ballot.holder, ballot.term);
        let line = Asked::of(ballot, true).line();
        let (_other, _authority) = tokio::join!(self.other(&line, wait), self.authority(&line, wait));
    }

    async fn serve(&self, until: Now, term: u64) {
        let _stopped = self.guard.with(move |guard, now| guard.tell(Input::Lease(Some(until)), now)).await;
        let before = {
            let mut standing = self.turn.standing_mut();
            let before = std::mem::replace(&mut standing.active, true);
            standing.term = term;
            if !before {
                (standing.since, standing.turns) = (gates::clock::now().unix, standing.turns + 1);
            }
            before
        };
        if !before {
            let _stopped = self.guard.turn(true).await;
            self.turn.0.serving.send_replace(true);
            tracing::warn!(name = self.name, term, "this guard serves from now on");
        }
    }

    async fn stand_by(&self) {
        let before = {
            let mut standing = self.turn.standing_mut();
            let before = std::mem::replace(&mut standing.active, false);
            if before {
                standing.since = gates::clock::now().unix;
            }
            before
        };
        if before {
            self.turn.0.serving.send_replace(false);
            let _stopped = self.guard.turn(false).await;
            tracing::warn!(name = self.name, "this guard stands by from now on");
        }
    }

    /// Stops serving, and only then gives the turn back.
    async fn leave(&self, candidate: &mut Candidate) {
        self.stand_by().await;
        // What was asked of the guard before is done when it answers.
        let _stopped = self.guard.with(|_, _| ()).await;
        let ballot = candidate.give_up();
        self.release(ballot, self.standby.turn.get() / 4).await;
    }
}

fn random() -> u64 {
    use token::Entropy as _;
    let mut bytes = [0; 8];
    token::SystemEntropy::new().fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

fn jitter() -> u32 {
    u32::try_from(random() % 256).unwrap_or(0)
}
