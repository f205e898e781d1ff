//! Predictions of settings held against runs: our server as a process of its own, the load generator in this one, each client in a closed
//! loop. Each of the two keeps to a processor, and neither processor halts: see [`Awake`]. A run has no authority; a token is shown once,
//! when a session is made. For each repetition all clients connect at once, before they read.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use cost::calibration::{Sample, summary};
use cost::choose::Mode;
use cost::whatif::{Prediction, Row, Setting};
use opcua_types::MessageSecurityMode;
use serde::Serialize;
use tokio::task::LocalSet;
use tokio::time::sleep;
use ua_proto::client::Credential;
use ua_proto::crypto::SecurityPolicyId;
use zeroize::Zeroizing;

use crate::awake::Awake;
use crate::clock::Stopwatch;
use crate::fixture::{self, Fixture};
use crate::load::{Link, Way};
use crate::measures::runtime;
use crate::random::Random;
use crate::subject::Subject;
use crate::{Failed, place, record};

/// Variables of the server, as many as where a Read is measured alone.
const NODES: u32 = 10_000;
/// A row counts if half of its 95 % interval is at most this, relative.
pub const MEASURABLE: f64 = 0.02;
/// The goal of the largest error of a row that counts.
pub const WORST: f64 = 0.02;
/// The goal of the median.
pub const MEDIAN: f64 = 0.01;

/// How thoroughly a prediction is held against runs.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Repetitions of each row, at least 2.
    pub runs: u32,
    /// How long each takes.
    pub time: Duration,
    /// How long clients are at work before each.
    pub warm_up: Duration,
}

/// A row and what was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Held {
    /// The setting.
    pub setting: Setting,
    /// Clients.
    pub clients: u32,
    /// Requests a second as predicted.
    pub predicted: f64,
    /// As measured: the mean of the repetitions.
    pub measured: f64,
    /// Half of the 95 % interval of the mean, relative.
    pub half_width: f64,
    /// Predicted over measured, minus 1: above 0 the prediction is too good.
    pub error: f64,
    /// Whether it was measured well enough to count.
    pub measurable: bool,
    /// What 95 of 100 answers took at most, in seconds, as predicted and as measured.
    pub p95: (f64, f64),
    /// Seconds of processor time of the server a request, as predicted and as measured.
    pub cpu: (f64, f64),
    /// Seconds until all clients are connected that begin at once, as predicted and as measured: the median of
    /// the repetitions.
    pub storm: (f64, f64),
    /// Repetitions.
    pub runs: u64,
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
    /// Whether at least four rows in five count, and the goals are met.
    pub met: bool,
}

/// SHA-256 of what was predicted, in hexadecimal: told before the first run, so that nobody can predict what is known already.
#[must_use]
pub fn fingerprint(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs all rows of a prediction. `words` start this program as a server: see [`Subject::ours_by`].
///
/// # Errors
/// A server does not come up, or a client is refused.
pub fn verify(
    prediction: &Prediction,
    plan: Plan,
    words: &[String],
    progress: &mut dyn FnMut(&Row),
) -> Result<Verdict, Failed> {
    let processors = place::pair();
    let mut rows = Vec::new();
    let mut kept: Option<((u32, &str), Fixture, Subject)> = None;
    for row in &prediction.rows {
        progress(row);
        let bits = if row.setting.bits == 0 { 2_048 } else { row.setting.bits };
        // One policy each way: a client takes the first that is offered.
        let tokens =
            if row.setting.token.is_some_and(|token| token.encrypted) { "tokens=encrypted" } else { "tokens=clear" };
        let (_, fixture, subject) = match kept.take() {
            Some(there) if there.0 == (bits, tokens) => kept.insert(there),
            _ => {
                let fixture = Fixture::of(u16::try_from(bits)?)?;
                let processor = processors.map(|it| format!("processor={}", it.1));
                let more = ["sign=too", "anonymous=too", tokens].into_iter().chain(processor.as_deref());
                let subject = Subject::ours_by(words, &fixture, NODES, &more.collect::<Vec<_>>())?;
                kept.insert(((bits, tokens), fixture, subject))
            }
        };
        rows.push(std::thread::scope(|scope| {
            // The thread keeps to its processor for good, so it is one of its own.
            let held = scope.spawn(|| {
                processors
                    .map_or(Ok(()), |it| place::keep_to(it.0))
                    .and_then(|()| held(row, fixture, subject, plan, processors))
                    .map_err(told)
            });
            held.join().map_err(|_| "the load generator has ended".to_owned()).flatten()
        })?);
    }
    Ok(judged(rows))
}

fn told(error: Failed) -> String {
    error.to_string()
}

fn held(
    row: &Row,
    fixture: &Fixture,
    subject: &Subject,
    plan: Plan,
    processors: Option<(usize, usize)>,
) -> Result<Held, Failed> {
    let found = runtime()?.block_on(async {
        let way = way(&row.setting, fixture, subject).await?;
        LocalSet::new().run_until(run(subject, &way, row.clients, plan, processors)).await
    })?;
    let few = || Failed::from("too few repetitions");
    let rate: Sample = summary(&found.rates).ok_or_else(few)?;
    let (measured, half_width) = (rate.mean, rate.error());
    let mut waits = found.waits;
    waits.sort_by(f64::total_cmp);
    let p95 = waits.get((waits.len() * 95).div_ceil(100).max(1) - 1).copied().ok_or_else(few)?;
    Ok(Held {
        setting: row.setting,
        clients: row.clients,
        predicted: row.throughput.value,
        measured,
        half_width,
        error: row.throughput.value / measured - 1.0,
        measurable: half_width <= MEASURABLE,
        p95: (row.response.p95, p95),
        cpu: (row.server_busy.value / row.throughput.value, found.cpu),
        storm: (row.storm_here.value, record::median(&found.storms).ok_or_else(few)?),
        runs: rate.n,
    })
}

async fn way(setting: &Setting, fixture: &Fixture, subject: &Subject) -> Result<Way, Failed> {
    let parts = match setting.mode {
        Mode::None => (SecurityPolicyId::None, MessageSecurityMode::None),
        Mode::Sign => (SecurityPolicyId::Basic256Sha256, MessageSecurityMode::Sign),
        Mode::SignAndEncrypt => (SecurityPolicyId::Basic256Sha256, MessageSecurityMode::SignAndEncrypt),
    };
    let credential = match setting.token {
        None => Credential::Anonymous,
        Some(_) => Credential::Issued(Zeroizing::new(fixture.token("verify")?.as_bytes().to_vec())),
    };
    let own = (fixture::identity(fixture.folder(), "client")?, fixture::trust(fixture.folder(), &["server"])?);
    Way::over(subject.url(), parts, credential, own).await
}

/// What repetitions gave.
#[derive(Debug, Default)]
struct Found {
    rates: Vec<f64>,
    /// Seconds of processor time of the server, over all repetitions, and in the end for a request.
    cpu: f64,
    waits: Vec<f64>,
    /// Seconds until all were connected.
    storms: Vec<f64>,
}

/// Clients that connect at once.
async fn storm(way: &Way, clients: u32, found: &mut Found) -> Result<Vec<Link>, Failed> {
    let watch = Stopwatch::start();
    let opening: Vec<_> = (0..clients)
        .map(|_| {
            let way = way.clone();
            tokio::task::spawn_local(async move { Link::open(&way).await })
        })
        .collect();
    let mut links = Vec::new();
    for link in opening {
        links.push(link.await??);
    }
    found.storms.push(watch.seconds());
    Ok(links)
}

/// Answers beyond this are not kept one by one.
const MOST_WAITS: usize = 1_000_000;

/// Repetitions, each with connections of its own: how messages of few clients meet each other stays for as long as their connections do, and
/// is another way with others.
async fn run(
    subject: &Subject,
    way: &Way,
    clients: u32,
    plan: Plan,
    processors: Option<(usize, usize)>,
) -> Result<Found, Failed> {
    let (mut found, mut all) = (Found::default(), 0);
    for _ in 0..plan.runs.max(2) {
        all += once(subject, way, clients, plan, processors, &mut found).await?;
    }
    if all == 0 {
        return Err("nothing was answered in the time".into());
    }
    found.cpu /= all as f64;
    Ok(found)
}

/// One repetition; gives how many requests were answered while it counted.
async fn once(
    subject: &Subject,
    way: &Way,
    clients: u32,
    plan: Plan,
    processors: Option<(usize, usize)>,
    found: &mut Found,
) -> Result<u64, Failed> {
    let (ended, counted) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let (done, waits) = (Rc::new(Cell::new(0_u64)), Rc::new(RefCell::new(std::mem::take(&mut found.waits))));
    let mut tasks = Vec::new();
    for (client, mut link) in (0_u64..).zip(storm(way, clients, found).await?) {
        let (ended, counted) = (Rc::clone(&ended), Rc::clone(&counted));
        let (done, waits) = (Rc::clone(&done), Rc::clone(&waits));
        tasks.push(tokio::task::spawn_local(async move {
            let mut random = Random::new(client + 1);
            while !ended.get() {
                let watch = Stopwatch::start();
                link.read(fixture::number(random.below(NODES))).await?;
                done.set(done.get() + 1);
                if counted.get() && waits.borrow().len() < MOST_WAITS {
                    waits.borrow_mut().push(watch.seconds());
                }
            }
            link.close().await
        }));
    }
    // Not while all connect: the server's threads for keys give way to whoever wants the processor, and would share it with those.
    let _awake = processors.map_or_else(Awake::start, |(one, other)| Awake::on([one, other]))?;
    sleep(plan.warm_up).await;
    counted.set(true);
    let (watch, cpu, first) = (Stopwatch::start(), subject.cpu()?, done.get());
    sleep(plan.time).await;
    let answered = done.get() - first;
    found.rates.push(answered as f64 / watch.seconds());
    found.cpu += subject.cpu()? - cpu;
    ended.set(true);
    for task in tasks {
        task.await??;
    }
    found.waits = waits.take();
    Ok(answered)
}

/// What rows say together.
fn judged(rows: Vec<Held>) -> Verdict {
    let errors: Vec<f64> = rows.iter().filter(|row| row.measurable).map(|row| row.error).collect();
    let sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    let worst = sizes.iter().copied().reduce(f64::max);
    let median = record::median(&sizes);
    let bias = (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64);
    let enough = errors.len() * 5 >= rows.len() * 4;
    let met = enough && worst.is_some_and(|it| it <= WORST) && median.is_some_and(|it| it <= MEDIAN);
    Verdict { measurable: errors.len(), rows, worst, median, bias, met }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(error: f64, half_width: f64) -> Held {
        Held {
            setting: Setting::NONE,
            clients: 1,
            predicted: 100.0 * (1.0 + error),
            measured: 100.0,
            half_width,
            error,
            measurable: half_width <= MEASURABLE,
            p95: (1.0, 1.0),
            cpu: (1.0, 1.0),
            storm: (1.0, 1.0),
            runs: 10,
        }
    }

    #[test]
    fn only_rows_that_were_measured_well_count_and_most_must_be() {
        let good = judged(vec![row(0.005, 0.01); 5]);
        assert!(good.met && good.bias.is_some_and(|bias| (bias - 0.005).abs() < 1e-12));
        let with = |last: Held| judged([vec![row(0.005, 0.01); 4], vec![last]].concat());
        assert!(with(row(0.5, 0.03)).met, "one row in five may be left out");
        assert!(!with(row(0.021, 0.02)).met, "overlapping intervals are no excuse");
        assert!(!judged([vec![row(0.005, 0.01); 3], vec![row(0.0, 0.03); 2]].concat()).met);
        let none = judged(vec![row(0.0, 1.0)]);
        assert!(!none.met && none.worst.is_none() && none.bias.is_none());
        let signs = judged(vec![row(0.01, 0.0), row(-0.01, 0.0)]);
        assert!(signs.bias.is_some_and(|bias| bias.abs() < 1e-12) && signs.worst == Some(0.01));
    }

    #[test]
    fn a_fingerprint_is_the_hash_that_everybody_knows() {
        assert_eq!(fingerprint("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
