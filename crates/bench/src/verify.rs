//! Predictions of settings held against runs: our server as a process of its own, the load generator in this one, each client in a closed
//! loop. Each of the two keeps to a processor, and neither processor halts: see [`Awake`]. A run has no authority, which is another
//! computer: tokens are made before it. For each run all clients connect at once, before they read; where keys and tokens live briefly,
//! they are renewed during it.
//!
//! This goes in rounds. A machine is faster in one minute than in the next, and where the memory of a process lies makes a difference as
//! long as it lives; so each round predicts anew, from steps measured in that moment, and then runs each row once, with servers of its own.
//! A row is predicted for each state of the machine that shows from inside ([`crate::distance`]), and a run is held against the one in which it
//! began and ended; one in which keys and tokens are renewed takes many seconds, and is of the state in which it began. Rounds in which it was another machine than in most all the same are told apart by what they predict: see [`state`].

mod answers;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use cost::choose::Mode;
use cost::whatif::{Prediction, REFRESHED, Row, Setting};
use opcua_types::MessageSecurityMode;
use serde::Serialize;
use tokio::task::LocalSet;
use tokio::time::sleep;
use ua_proto::client::Credential;
use ua_proto::crypto::SecurityPolicyId;
use zeroize::Zeroizing;

use answers::{Answers, Found, Sums};

use crate::awake::Awake;
use crate::clock::{Stopwatch, monotonic};
use crate::distance::{States, TRIES};
use crate::fixture::{self, Fixture};
use crate::known::ByState;
use crate::load::{Link, Way};
use crate::measures::runtime;
use crate::quiet::Probes;
use crate::random::Random;
use crate::record::{half, median};
use crate::state::{Beside, Foreseen};
use crate::subject::Subject;
use crate::{Failed, place, state};

/// Variables of the server, as many as where a Read is measured alone.
const NODES: u32 = 10_000;
/// A row counts if half of its 95 % interval is at most this, relative.
pub const MEASURABLE: f64 = 0.02;
/// The goal of the largest error of a row that counts.
pub const WORST: f64 = 0.02;
/// The goal of the median.
pub const MEDIAN: f64 = 0.01;

/// Seconds up to which a lifetime is short enough for runs in which keys and tokens are renewed, and lifetimes that such a run takes: four
/// times keys are renewed, and three or four times a token is.
const BRIEF: f64 = 20.0;
const LIFETIMES: f64 = 3.0;

/// Connections of their own that a run is spread over, one set after the other: with each of them messages meet each other in another way, and
/// stay with it.
const SITTINGS: u32 = 4;

/// How thoroughly a prediction is held against runs.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Rounds, in each of which each row is predicted and run, at least 2; rows of fewer than 10 do not count.
    pub rounds: u32,
    /// How long a run takes.
    pub time: Duration,
    /// How long clients are at work before it.
    pub warm_up: Duration,
}

/// Predicts the same rows once more for each state of the machine, from steps as they are now, and keeps what it predicts where nobody can
/// change it afterwards.
pub type Again<'a> = dyn FnMut(u32, &mut States) -> Result<ByState<Prediction>, Failed> + 'a;

/// A row and what was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Held {
    /// The setting.
    pub setting: Setting,
    /// Clients.
    pub clients: u32,
    /// Requests a second as predicted: the median of the runs that count. They are those in the commonest state where they are enough, else each
    /// state is as heavy as it was common: see [`state::alike`].
    pub predicted: f64,
    /// As measured: the median of the same.
    pub measured: f64,
    /// Half of the 95 % interval of that median (bootstrap), relative.
    pub half_width: f64,
    /// Predicted over measured, minus 1: above 0 the prediction is too good.
    pub error: f64,
    /// The same of all rounds, those that do not count with the others, and half of the 95 % interval of what was measured, relative.
    pub all: (f64, f64),
    /// The error of each of all rounds: the median, and half of its 95 % interval (bootstrap). What makes the machine faster in one round than
    /// in another is in both, and not in this.
    pub by_round: (f64, f64),
    /// What the rounds predict over what was predicted before them, minus 1: how far the machine is from the one of the calibration.
    pub moved: f64,
    /// Whether it was measured well enough to count.
    pub measurable: bool,
    /// What 95 of 100 answers took at most, in seconds, as predicted and as measured: medians of the rounds that count.
    pub p95: (f64, f64),
    /// Seconds of processor time of the server a request, as predicted and as measured.
    pub cpu: (f64, f64),
    /// Seconds until all clients are connected that begin at once, as predicted and as measured.
    pub storm: (f64, f64),
    /// What was renewed in a run.
    pub renewed: Renewed,
    /// Runs that count.
    pub runs: u64,
}

/// How often all clients together did so in a run: the mean of the runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Renewed {
    /// Keys of a channel.
    pub keys: f64,
    /// Another token was shown.
    pub tokens: f64,
}

/// All rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// One for each row of the prediction.
    pub rows: Vec<Held>,
    /// Rows that count.
    pub measurable: usize,
    /// The largest error of a row that counts, whatever its sign.
    pub worst: Option<f64>,
    /// The median of them.
    pub median: Option<f64>,
    /// The mean of the errors with their signs.
    pub bias: Option<f64>,
    /// Rounds, from 1, that found the machine in another state than most did, and do not count.
    pub apart: Vec<u32>,
    /// Rounds.
    pub rounds: usize,
    /// How far the slowest of them and the fastest are off the middle by what was predicted in them, relative.
    pub wandered: Option<[f64; 2]>,
    /// How long a line of the cache took from one processor to the other in each state in which the machine was met, seconds: the shortest and
    /// the longest.
    pub distances: Vec<[f64; 2]>,
    /// Share of the runs that were in each.
    pub states: Vec<f64>,
    /// Share of the time of runs that counts: nobody else computed on the cores in it. None where nobody looked, and all of it does.
    pub quiet: Option<f64>,
    /// Runs that did not come to their end, or not in the state in which they began, and were begun again.
    pub abandoned: Vec<Abandoned>,
    /// Rows without a run that counts: renewals alone were predicted to take all of a processor in the rounds that do. They are rows that do
    /// not count.
    pub unrun: Vec<Unrun>,
    /// Whether at least four rows in five count, and the goals are met.
    pub met: bool,
}

/// A run of which nothing counts: it did not come to its end, or the machine became another one meanwhile.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Abandoned {
    /// Of which round, from 1.
    pub round: u32,
    /// The setting.
    pub setting: Setting,
    /// Clients.
    pub clients: u32,
    /// Why it ended.
    pub why: String,
}

/// A row without a run that counts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Unrun {
    /// The setting.
    pub setting: Setting,
    /// Clients.
    pub clients: u32,
}

/// What a verification is at.
#[derive(Debug, Clone, Copy)]
pub enum Told<'a> {
    /// A row is run.
    Runs(&'a Row),
    /// A row is not run in this round, in which renewals alone are predicted to take all of a processor.
    Left(&'a Row),
    /// A run has not come to its end.
    Abandoned(&'a Abandoned),
}

/// SHA-256 of what was predicted, in hexadecimal: told before the first run, so that nobody can predict what is known already.
#[must_use]
pub fn fingerprint(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs all rows of a prediction in rounds; before each, `again` predicts them anew. A row that is near its end may be past it by what one
/// of them predicts: it is not run then. `words` start this program as a server: see [`Subject::ours_by`].
///
/// # Errors
/// A server does not come up, a run does not come to its end in three tries, `again` fails, or no row has a run that counts.
pub fn verify(
    prediction: &Prediction,
    plan: Plan,
    words: &[String],
    probes: Option<&Probes>,
    again: &mut Again<'_>,
    progress: &mut dyn FnMut(Told<'_>),
) -> Result<Verdict, Failed> {
    let place = Place { processors: place::pair(), probes };
    let processors = place.processors;
    let mut states = States::new(processors);
    let mut fixtures: BTreeMap<u32, Fixture> = BTreeMap::new();
    let mut all: Vec<Rounds> = prediction.rows.iter().map(|_| Rounds::default()).collect();
    let mut abandoned = Vec::new();
    let rounds = plan.rounds.max(2);
    for round in 0..rounds {
        let foreseen = again(round, &mut states)?;
        let mut order: Vec<usize> = (0..all.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        let mut kept = None;
        for index in order {
            let row = &prediction.rows[index];
            if foreseen.of.values().all(|now| same(now, row).is_none()) {
                progress(Told::Left(row));
                continue;
            }
            progress(Told::Runs(row));
            let run = |state: &mut Asked<'_>| -> Result<(usize, Found), Failed> {
                let server = server(row, &mut fixtures, kept.take(), words, processors)?;
                let fixture = fixtures.get(&server.bits).ok_or("no keys")?;
                let state = state()?;
                let found = apart(row, fixture, &server.subject, plan, place)?;
                kept = Some(server);
                Ok((state, found))
            };
            let stays = !brief(&row.setting);
            let (state, found) = to_its_end(run, stays, &mut || states.now(), |why| {
                let (setting, clients) = of(row);
                let it = Abandoned { round: round + 1, setting, clients, why: why.to_string() };
                progress(Told::Abandoned(&it));
                abandoned.push(it);
            })?;
            if let Some(now) = same(foreseen.at(state)?, row) {
                all[index].add(round, state, now, found)?;
            }
        }
    }
    let foreseen = foreseen(&all, rounds);
    let (counted, wandered) = (state::counted(&foreseen), state::wandered(&foreseen));
    let (distances, of) = (states.distances(), all.iter().flat_map(|row| &row.singles).map(|single| single.state));
    let shares = state::shares(of, distances.len());
    let (mut rows, mut unrun) = (Vec::new(), Vec::new());
    for (row, rounds) in prediction.rows.iter().zip(&all) {
        if rounds.chosen(&counted).next().is_none() {
            unrun.push(Unrun { setting: row.setting, clients: row.clients });
        } else {
            rows.push(rounds.held(row, &counted, state::common(&shares)).ok_or("a figure is no number")?);
        }
    }
    if rows.is_empty() {
        return Err("by what each round predicted, renewals alone take all of a processor in every row".into());
    }
    let apart = (1..).zip(&counted).filter(|(_, counted)| !**counted).map(|(round, _)| round).collect();
    let rounds = counted.len();
    let (lasted, counted) = all.iter().fold((0.0, 0.0), |sum, row| (sum.0 + row.seconds.0, sum.1 + row.seconds.1));
    let quiet = probes.map(|_| counted / lasted);
    Ok(Verdict { apart, rounds, wandered, distances, states: shares, quiet, abandoned, ..judged(rows, unrun) })
}

/// Tells the state of the machine.
type Asked<'a> = dyn FnMut() -> Result<usize, Failed> + 'a;

/// Begins a run anew until one comes to its end, and if it `stays`, in the state in which it began, which it gives with what it found:
/// [`TRIES`] times at most; `ended` hears why each of the others does not count. A last run in which the state changed counts all the same.
fn to_its_end<T>(
    mut run: impl FnMut(&mut Asked<'_>) -> Result<(usize, T), Failed>,
    stays: bool,
    state: &mut Asked<'_>,
    mut ended: impl FnMut(&Failed),
) -> Result<(usize, T), Failed> {
    for _ in 1..TRIES {
        match run(state) {
            Ok((began, _)) if stays && state()? != began => ended(&"the machine changed its state meanwhile".into()),
            Ok(found) => return Ok(found),
            Err(why) => ended(&why),
        }
    }
    run(state)
}

/// A server that runs, and for what it was started.
struct Server {
    bits: u32,
    tokens: &'static str,
    subject: Subject,
}

/// The one of a row: `kept` where it is of this kind.
fn server(
    row: &Row,
    fixtures: &mut BTreeMap<u32, Fixture>,
    kept: Option<Server>,
    words: &[String],
    processors: Option<(usize, usize)>,
) -> Result<Server, Failed> {
    let bits = if row.setting.bits == 0 { 2_048 } else { row.setting.bits };
    // One policy each way: a client takes the first that is offered.
    let encrypted = row.setting.token.is_some_and(|token| token.encrypted);
    let tokens = if encrypted { "tokens=encrypted" } else { "tokens=clear" };
    if let Some(kept) = kept.filter(|it| (it.bits, it.tokens) == (bits, tokens)) {
        return Ok(kept);
    }
    let fixture = match fixtures.entry(bits) {
        Entry::Occupied(there) => there.into_mut(),
        Entry::Vacant(free) => free.insert(Fixture::of(u16::try_from(bits)?)?),
    };
    let processor = processors.map(|it| format!("processor={}", it.1));
    let more = ["sign=too", "anonymous=too", "lifetimes=brief", tokens].into_iter().chain(processor.as_deref());
    let subject = Subject::ours_by(words, fixture, NODES, &more.collect::<Vec<_>>())?;
    Ok(Server { bits, tokens, subject })
}

/// What a row is about.
fn of(row: &Row) -> (Setting, u32) {
    (row.setting, row.clients)
}

/// The row of another prediction that is about the same.
fn same<'a>(prediction: &'a Prediction, row: &Row) -> Option<&'a Row> {
    prediction.rows.iter().find(|other| of(other) == of(row))
}

/// Where runs are.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// The load generator's processor and the server's.
    processors: Option<(usize, usize)>,
    /// Who looks at them.
    probes: Option<&'a Probes>,
}

/// A run, from a thread of its own: it keeps to its processor for good.
fn apart(row: &Row, fixture: &Fixture, subject: &Subject, plan: Plan, place: Place<'_>) -> Result<Found, Failed> {
    let run = || -> Result<Found, Failed> {
        place.processors.map_or(Ok(()), |it| place::keep_to(it.0))?;
        runtime()?.block_on(async {
            let way = way(&row.setting, subject, fixture).await?;
            let sittings = if brief(&row.setting) { 1 } else { SITTINGS };
            let time = lasting(&row.setting, plan) / sittings;
            let plan = Plan { time, warm_up: plan.warm_up / sittings, ..plan };
            let mut found = Found::default();
            for _ in 0..sittings {
                let renewing = renewing(&row.setting, fixture, row.clients, plan)?;
                let sitting = LocalSet::new().run_until(once(subject, &way, renewing, plan, place)).await?;
                found.add(sitting, sittings);
            }
            Ok(found)
        })
    };
    let ended = std::thread::scope(|scope| scope.spawn(|| run().map_err(|error| error.to_string())).join());
    Ok(ended.map_err(|_| "the load generator has ended")??)
}

/// What the rounds say of a row.
#[derive(Debug, Clone, Default)]
struct Rounds {
    singles: Vec<Single>,
    /// Sums of the runs.
    renewed: Renewed,
    /// Their seconds, and how many of these count.
    seconds: (f64, f64),
}

/// A run.
#[derive(Debug, Clone, Copy)]
struct Single {
    /// The round, from 0.
    round: u32,
    /// The state of the machine.
    state: usize,
    predicted: Figures,
    measured: Figures,
    /// Requests a second of all of its time.
    whole: f64,
    /// Whether only what was quiet counts.
    quiet: bool,
}

/// Requests a second, and the other figures of [`Held`].
#[derive(Debug, Clone, Copy)]
struct Figures {
    rate: f64,
    p95: f64,
    cpu: f64,
    storm: f64,
}

impl Rounds {
    fn add(&mut self, round: u32, state: usize, row: &Row, found: Found) -> Result<(), Failed> {
        if found.all.answered == 0.0 {
            return Err("nothing was answered in the time".into());
        }
        self.renewed.keys += found.renewed.keys;
        self.renewed.tokens += found.renewed.tokens;
        let (storm, all) = (found.storm, found.all.seconds);
        let (whole, quiet) = (found.all.answered / all, found.is_quiet());
        let mut found = found.counting();
        self.seconds = (self.seconds.0 + all, self.seconds.1 + found.seconds);
        found.waits.sort_by(f64::total_cmp);
        let (waits, at) = (&found.waits, (found.waits.len() * 95).div_ceil(100).max(1) - 1);
        let (rate, answered) = (row.throughput.value, found.answered);
        let predicted = Figures {
            rate,
            p95: row.response.p95.value,
            cpu: row.server_busy.value / rate,
            storm: row.storm_here.value,
        };
        let p95 = *waits.get(at).ok_or("nobody waited for an answer")?;
        let measured = Figures { rate: answered / found.seconds, p95, cpu: found.cpu / answered, storm };
        self.singles.push(Single { round, state, predicted, measured, whole, quiet });
        Ok(())
    }

    /// Those of rounds that are `counted`.
    fn chosen<'a>(&'a self, counted: &'a [bool]) -> impl Iterator<Item = Single> + 'a {
        let counts = |single: &&Single| counted.get(single.round as usize).is_some_and(|counted| *counted);
        self.singles.iter().filter(counts).copied()
    }

    /// Of the rounds that are `counted`.
    fn held(&self, row: &Row, counted: &[bool], common: Option<usize>) -> Option<Held> {
        let chosen = state::quiet(&self.chosen(counted).collect::<Vec<_>>(), |single| single.quiet);
        let groups = state::alike(&chosen, |single| single.state, common);
        let beside = |groups: &[Vec<Single>], of: fn(&Figures) -> f64| {
            let values = |group: &[Single], which: fn(&Single) -> &Figures| {
                group.iter().map(|single| of(which(single))).collect::<Vec<_>>()
            };
            let all = |which: fn(&Single) -> &Figures| groups.iter().map(|it| values(it, which)).collect::<Vec<_>>();
            Beside::of(&all(|single| &single.predicted), &all(|single| &single.measured))
        };
        let both = |of| beside(&groups, of).map(|it| (it.predicted, it.measured));
        let every = |of: fn(&Single) -> f64| [self.singles.iter().map(of).collect::<Vec<_>>()];
        let whole = Beside::of(&every(|it| it.predicted.rate), &every(|it| it.whole))?;
        let rate = beside(&groups, |it| it.rate)?;
        let errors = self.singles.iter().map(|single| single.predicted.rate / single.measured.rate - 1.0);
        let (errors, every): (Vec<f64>, _) = (errors.collect(), self.singles.len() as f64);
        Some(Held {
            setting: row.setting,
            clients: row.clients,
            predicted: rate.predicted,
            measured: rate.measured,
            half_width: rate.half_width,
            error: rate.error,
            all: (whole.error, whole.half_width),
            by_round: (median(&errors)?, half(&errors)?),
            moved: rate.predicted / row.throughput.value - 1.0,
            measurable: rate.measurable(MEASURABLE),
            p95: both(|it| it.p95)?,
            cpu: both(|it| it.cpu)?,
            storm: both(|it| it.storm)?,
            renewed: Renewed { keys: self.renewed.keys / every, tokens: self.renewed.tokens / every },
            runs: rate.runs as u64,
        })
    }
}

/// What each of so many rounds predicted of each row that was run in it.
fn foreseen(all: &[Rounds], rounds: u32) -> Vec<Vec<Foreseen>> {
    let mut foreseen = vec![vec![None; all.len()]; rounds as usize];
    for (row, single) in all.iter().enumerate().flat_map(|(row, it)| it.singles.iter().map(move |single| (row, single)))
    {
        if let Some(of) = foreseen.get_mut(single.round as usize).and_then(|round| round.get_mut(row)) {
            *of = Some((single.state, single.predicted.rate));
        }
    }
    foreseen
}

async fn way(setting: &Setting, subject: &Subject, fixture: &Fixture) -> Result<Way, Failed> {
    let parts = match setting.mode {
        Mode::None => (SecurityPolicyId::None, MessageSecurityMode::None),
        Mode::Sign => (SecurityPolicyId::Basic256Sha256, MessageSecurityMode::Sign),
        Mode::SignAndEncrypt => (SecurityPolicyId::Basic256Sha256, MessageSecurityMode::SignAndEncrypt),
    };
    let credential = if setting.token.is_some() { token(fixture, "first")? } else { Credential::Anonymous };
    let own = (fixture::identity(fixture.folder(), "client")?, fixture::trust(fixture.folder(), &["server"])?);
    let way = Way::over(subject.url(), parts, credential, own).await?;
    // Without protection there is nothing to renew, however briefly other rows live.
    let lifetime = if setting.mode == Mode::None { Setting::NONE.lifetime } else { setting.lifetime };
    Ok(way.living(Duration::from_secs_f64(lifetime)))
}

fn token(fixture: &Fixture, id: &str) -> Result<Credential, Failed> {
    Ok(Credential::Issued(Zeroizing::new(fixture.token(id)?.as_bytes().to_vec())))
}

/// How long a run takes: some lifetimes where keys and tokens live briefly.
#[must_use]
pub fn lasting(setting: &Setting, plan: Plan) -> Duration {
    if brief(setting) { plan.time.max(Duration::from_secs_f64(LIFETIMES * setting.lifetime)) } else { plan.time }
}

/// Whether keys and tokens live so briefly that they are renewed in a run.
#[must_use]
pub fn brief(setting: &Setting) -> bool {
    setting.mode != Mode::None && setting.lifetime <= BRIEF
}

/// What one client does by the clock during a run.
struct Renewing {
    /// Whether that is anything.
    brief: bool,
    /// What it shows, the last one first.
    tokens: Vec<Credential>,
    /// Seconds after which the next is shown.
    every: f64,
}

/// One for each client, with tokens for the whole run.
fn renewing(setting: &Setting, fixture: &Fixture, clients: u32, plan: Plan) -> Result<Vec<Renewing>, Failed> {
    let (brief, every) = (brief(setting), REFRESHED * setting.lifetime);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few")]
    let later = if brief { ((plan.warm_up + plan.time).as_secs_f64() / every).ceil() as usize + 1 } else { 0 };
    let count = if setting.token.is_some() { 1 + later } else { 0 };
    let of =
        |client: u32| (0..count).map(|nth| token(fixture, &format!("{client}-{nth}"))).collect::<Result<_, Failed>>();
    (0..clients).map(|client| Ok(Renewing { brief, tokens: of(client)?, every })).collect()
}

impl Renewing {
    /// How the client connects.
    fn first(&mut self, way: &Way) -> Way {
        self.tokens.pop().map_or_else(|| way.clone(), |credential| way.showing(credential))
    }

    /// Renews what it is time for; `watch` tells since when the token is shown. Whether another is shown now.
    async fn keep_time(&mut self, link: &mut Link, watch: &mut Stopwatch) -> Result<bool, Failed> {
        if !self.brief {
            return Ok(false);
        }
        link.keep_time();
        if watch.seconds() < self.every {
            return Ok(false);
        }
        let Some(token) = self.tokens.pop() else { return Ok(false) };
        *watch = Stopwatch::start();
        link.refresh(token).await?;
        Ok(true)
    }
}

/// Clients that connect at once.
async fn storm(ways: Vec<Way>) -> Result<(Vec<Link>, f64), Failed> {
    let watch = Stopwatch::start();
    let opening: Vec<_> =
        ways.into_iter().map(|way| tokio::task::spawn_local(async move { Link::open(&way).await })).collect();
    let mut links = Vec::new();
    for link in opening {
        links.push(link.await??);
    }
    Ok((links, watch.seconds()))
}

/// From when the server is watched until answers count.
const SETTLES: Duration = Duration::from_millis(5);

/// One sitting, with connections of its own: how messages of few clients meet each other stays for as long as their connections do, and is
/// another way with others.
async fn once(
    subject: &Subject,
    way: &Way,
    mut renewing: Vec<Renewing>,
    plan: Plan,
    place: Place<'_>,
) -> Result<Found, Failed> {
    let (ended, counted) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let mut renewed = Renewed::default();
    let polling = Awake::polling();
    let answers = Rc::new(RefCell::new(Answers::default()));
    let (links, storm) = storm(renewing.iter_mut().map(|it| it.first(way)).collect()).await?;
    let mut tasks = Vec::new();
    for (client, (mut link, mut renewing)) in (0_u64..).zip(links.into_iter().zip(renewing)) {
        let (ended, counted) = (Rc::clone(&ended), Rc::clone(&counted));
        let answers = Rc::clone(&answers);
        tasks.push(tokio::task::spawn_local(async move {
            let mut random = Random::new(client + 1);
            let (mut since, mut tokens) = (Stopwatch::start(), 0_u32);
            let mut begun = monotonic();
            while !ended.get() {
                if renewing.keep_time(&mut link, &mut since).await? {
                    (tokens, begun) = (tokens + 1, monotonic());
                }
                link.read(fixture::number(random.below(NODES))).await?;
                // The next request is sent at once, and a clock that is looked at twice for each is a part of what is measured.
                let end = monotonic();
                if counted.get() {
                    answers.borrow_mut().push(begun, end);
                }
                begun = end;
            }
            let keys = link.renewals();
            link.close().await?;
            Ok::<_, Failed>((keys, tokens))
        }));
    }
    // Not while all connect: the server's threads for keys give way to whoever wants the processor, and would share it with those that work.
    let awake = || place.processors.map_or_else(Awake::start, |(one, other)| Awake::on([one, other]));
    let _awake = polling.map_or_else(awake, Ok)?;
    sleep(plan.warm_up).await;
    if let Some(probes) = place.probes {
        probes.begin()?;
        // The load generator's processor time is nobody's.
        probes.watch(1, subject.pid())?;
        sleep(SETTLES).await;
    }
    counted.set(true);
    let (begun, watch, cpu) = (monotonic(), Stopwatch::start(), subject.cpu()?);
    sleep(plan.time).await;
    counted.set(false);
    let (seconds, cpu) = (watch.seconds(), subject.cpu()? - cpu);
    ended.set(true);
    let quiet = place.probes.map(|probes| probes.looks().read()).transpose()?;
    for task in tasks {
        let (keys, tokens) = task.await??;
        renewed.keys += f64::from(keys);
        renewed.tokens += f64::from(tokens);
    }
    let answers = answers.take();
    let (all, quiet) = match quiet {
        Some(quiet) => (answers.but_looks((begun, seconds), cpu, &quiet), answers.quiet(begun, &quiet)),
        None => (Sums { answered: answers.count as f64, seconds, cpu, waits: answers.waits }, Sums::default()),
    };
    Ok(Found { all, quiet, storm, renewed })
}

/// What rows say together.
fn judged(rows: Vec<Held>, unrun: Vec<Unrun>) -> Verdict {
    let errors: Vec<f64> = rows.iter().filter(|row| row.measurable).map(|row| row.error).collect();
    let sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    let worst = sizes.iter().copied().reduce(f64::max);
    let median = median(&sizes);
    let bias = (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64);
    let enough = errors.len() * 5 >= (rows.len() + unrun.len()) * 4;
    let met = enough && worst.is_some_and(|it| it <= WORST) && median.is_some_and(|it| it <= MEDIAN);
    let (apart, abandoned, distances, states) = Default::default();
    let (rounds, wandered, quiet, measurable) = (0, None, None, errors.len());
    Verdict {
        measurable,
        rows,
        worst,
        median,
        bias,
        apart,
        rounds,
        wandered,
        distances,
        states,
        quiet,
        abandoned,
        unrun,
        met,
    }
}

#[cfg(test)]
mod tests {
    use cost::whatif::{Figure, Response};

    use super::*;

    fn row(error: f64, half_width: f64) -> Held {
        Held {
            setting: Setting::NONE,
            clients: 1,
            predicted: 100.0 * (1.0 + error),
            measured: 100.0,
            half_width,
            error,
            all: (error, half_width),
            by_round: (error, 0.0),
            moved: 0.0,
            measurable: half_width <= MEASURABLE,
            p95: (1.0, 1.0),
            cpu: (1.0, 1.0),
            storm: (1.0, 1.0),
            renewed: Renewed::default(),
            runs: 10,
        }
    }

    #[test]
    fn only_rows_that_were_measured_well_count_and_most_must_be() {
        let all_run = |rows: Vec<Held>| judged(rows, vec![]);
        let good = all_run(vec![row(0.005, 0.01); 5]);
        assert!(good.met && good.bias.is_some_and(|bias| (bias - 0.005).abs() < 1e-12));
        let with = |last: Held| all_run([vec![row(0.005, 0.01); 4], vec![last]].concat());
        assert!(with(row(0.5, 0.03)).met, "one row in five may be left out");
        assert!(!with(row(0.021, 0.02)).met, "overlapping intervals are no excuse");
        assert!(!all_run([vec![row(0.005, 0.01); 3], vec![row(0.0, 0.03); 2]].concat()).met);
        let none = all_run(vec![row(0.0, 1.0)]);
        assert!(!none.met && none.worst.is_none() && none.bias.is_none());
        let signs = all_run(vec![row(0.01, 0.0), row(-0.01, 0.0)]);
        assert!(signs.bias.is_some_and(|bias| bias.abs() < 1e-12) && signs.worst == Some(0.01));
        for (without, met) in [(1, true), (2, false)] {
            let unrun = vec![Unrun { setting: Setting::NONE, clients: 1 }; without];
            assert_eq!(judged(vec![row(0.005, 0.01); 4], unrun).met, met, "{without} rows were not run");
        }
    }

    /// Two states of the machine: what is measured in the rarer one widens no interval, and is in no median; all rounds stand beside.
    #[test]
    fn rounds_of_another_state_do_not_count() {
        let figure = |value: f64| Figure { value, error: 0.0 };
        let one = figure(1.0);
        let row = Row {
            setting: Setting::NONE,
            clients: 1,
            throughput: figure(100.0),
            saturation: one,
            response: Response { mean: one, p50: one, p95: one, p99: one },
            server_busy: one,
            storm: one,
            storm_here: one,
            limited_by: "server",
            largest: (String::new(), 1.0),
            difference: None,
        };
        let run = |rounds: &mut Rounds, round: u32, state: usize, (predicted, answered): (f64, u64)| {
            let all = Sums { answered: answered as f64, seconds: 1.0, cpu: 1.0, waits: vec![0.5] };
            let found = Found { all, ..Found::default() };
            rounds.add(round, state, &Row { throughput: figure(predicted), ..row.clone() }, found).unwrap();
        };
        let mut rounds = Rounds::default();
        for round in 0..16 {
            // Predicted too high where it is slow, and measured as slow.
            run(&mut rounds, round, 0, if round % 4 == 3 { (80.0, 70) } else { (101.0, 100) });
        }
        let which = state::counted(&foreseen(std::slice::from_ref(&rounds), 16));
        assert!((0..16).all(|round| which[round] == (round % 4 != 3)));
        let held = rounds.held(&row, &which, Some(0)).unwrap();
        assert_eq!((held.runs, held.measured, held.half_width, held.measurable), (12, 100.0, 0.0, true));
        assert!((held.error - 0.01).abs() < 1e-12 && (held.by_round.0 - 0.01).abs() < 1e-12);
        assert!(held.all.1 > MEASURABLE, "{:?}", held.all);
        let few = which.iter().enumerate().map(|(at, it)| *it && at > 3).collect::<Vec<_>>();
        let few = rounds.held(&row, &few, Some(0)).unwrap();
        assert!(few.runs == 9 && !few.measurable, "nine rounds");
        // Where the distance of the processors tells them apart, each round counts, and the row is of the commoner state.
        let mut rounds = Rounds::default();
        for round in 0..16 {
            let slow = round % 3 == 2;
            run(&mut rounds, round, usize::from(slow), if slow { (80.0, 70) } else { (101.0, 100) });
        }
        let which = state::counted(&foreseen(std::slice::from_ref(&rounds), 16));
        assert_eq!(which, [true; 16]);
        let held = rounds.held(&row, &which, Some(0)).unwrap();
        assert_eq!((held.runs, held.measured, held.half_width, held.measurable), (11, 100.0, 0.0, true));
        // A row that was near its end was not run in some rounds: its runs stay with the rounds in which they were.
        let (mut always, mut seldom) = (Rounds::default(), Rounds::default());
        for round in 0..16 {
            let slow = round % 4 == 3;
            run(&mut always, round, 0, if slow { (80.0, 70) } else { (101.0, 100) });
            if round % 2 == 1 {
                run(&mut seldom, round, 0, if slow { (8.0, 7) } else { (10.0, 10) });
            }
        }
        let which = state::counted(&foreseen(&[always.clone(), always, seldom.clone()], 16));
        assert!((0..16).all(|round| which[round] == (round % 4 != 3)));
        let held = seldom.held(&row, &which, Some(0)).unwrap();
        assert_eq!((held.runs, held.measured, held.measurable), (4, 10.0, false));
        seldom.singles.retain(|single| single.round % 4 == 3);
        assert_eq!(seldom.chosen(&which).count(), 0);
    }

    #[test]
    fn runs_that_do_not_come_to_their_end_are_begun_again_and_listed() {
        let tried = |good: usize, stays: bool, states: &[usize]| {
            let (mut count, mut list, mut states) = (0, Vec::new(), states.iter().copied());
            let run = |state: &mut Asked<'_>| {
                count += 1;
                let began = state()?;
                if count < good { Err(format!("run {count} was cut off").into()) } else { Ok((began, count)) }
            };
            let found = to_its_end(run, stays, &mut || Ok(states.next().unwrap()), |why| list.push(why.to_string()));
            (found.map_err(|why| why.to_string()), list)
        };
        let cut = |count: usize| (1..=count).map(|it| format!("run {it} was cut off")).collect::<Vec<_>>();
        let moved = |count| vec!["the machine changed its state meanwhile".to_owned(); count];
        for (rule, good, stays, states, found, why) in [
            ("at once", 1, true, &[4, 4][..], Ok((4, 1)), vec![]),
            ("in the end", 2, true, &[0, 1, 1], Ok((1, 2)), cut(1)),
            ("with the last", 3, true, &[0; 3], Ok((0, 3)), cut(2)),
            ("it ends", 4, true, &[0; 3], Err("run 3 was cut off".into()), cut(2)),
            ("in another state", 1, true, &[0, 1, 1, 1], Ok((1, 2)), moved(1)),
            ("in one that never stays", 1, true, &[0, 1, 1, 0, 0], Ok((0, 3)), moved(2)),
            ("one that takes long", 1, false, &[1], Ok((1, 1)), vec![]),
            ("one that takes long and is begun again", 2, false, &[1, 0], Ok((0, 2)), cut(1)),
        ] {
            assert_eq!(tried(good, stays, states), (found, why), "{rule}");
        }
    }

    #[test]
    fn a_fingerprint_is_the_hash_that_everybody_knows() {
        assert_eq!(fingerprint("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
