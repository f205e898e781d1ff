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
mod rounds;
mod verdict;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use cost::choose::Mode;
use cost::whatif::{Prediction, REFRESHED, Row, Setting};
use opcua_types::MessageSecurityMode;
use tokio::task::LocalSet;
use tokio::time::sleep;
use ua_proto::client::Credential;
use ua_proto::crypto::SecurityPolicyId;
use zeroize::Zeroizing;

pub use verdict::{Abandoned, Held, MEASURABLE, MEDIAN, Renewed, Unrun, Verdict, WORST};

use answers::{Answers, Found, Sums};
use rounds::{Rounds, foreseen};
use verdict::judged;

use crate::awake::Awake;
use crate::clock::{Stopwatch, monotonic};
use crate::distance::{States, TRIES};
use crate::fixture::{self, Fixture};
use crate::known::ByState;
use crate::load::{Link, Way};
use crate::measures::runtime;
use crate::quiet::Probes;
use crate::random::Random;
use crate::subject::Subject;
use crate::{Failed, place, state};

/// Variables of the server, as many as where a Read is measured alone.
const NODES: u32 = 10_000;

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

#[cfg(test)]
mod tests {
    use super::*;

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
