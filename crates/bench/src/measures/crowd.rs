//! `guard.items.100k`, `guard.sessions.1000` and `guard.halfopen`: many items, many sessions, and many that are none.
//!
//! The server behind the guard is ours here, because it lets in so many; it knows one user, and the guard is what
//! enforces.

use std::time::Duration;

use access_model::UnixTime;
use gates::opcua::client::address;
use opcua_types::{MonitoredItemNotification, ReadRequest, Variant};
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use ua_proto::client::Credential;
use zeroize::Zeroizing;

use super::{Bench, runtime};
use crate::Failed;
use crate::fixture::{self, Fixture};
use crate::load::{Link, Security, Way, value_of};
use crate::process::pin;
use crate::record::Record;
use crate::serve::ROUND;
use crate::subject::Subject;
use crate::watch::Watch;

/// Items, each on a variable of its own.
const ITEMS: u32 = 100_000;
/// Sessions that share them.
const WATCHERS: u32 = 20;
/// How often each value changes.
const PERIOD: Duration = Duration::from_secs(1);
/// Publishing interval in milliseconds.
const CYCLE: f64 = 20.0;
/// Sessions at once.
const SESSIONS: u32 = 1_000;
/// Items of each of them.
const OF_EACH: u32 = 10;
/// Connections that say nothing.
const SILENT: usize = 1_000;
/// Sessions that ask and never read the answers.
const DEAF: u32 = 50;
/// Reads that each of them sends, of as many values each as there are.
const ASKED: u32 = 200;
const VALUES: u32 = 1_000;

async fn way(fixture: &Fixture, guard: &Subject, security: Security) -> Result<Way, Failed> {
    let credential = match security {
        Security::None => crate::load::user(),
        Security::Encrypt => Credential::Issued(Zeroizing::new(fixture.token("crowd")?.as_bytes().to_vec())),
    };
    Way::find(fixture, guard.url(), security, credential).await
}

/// 100,000 items, distinct values at 1 Hz: no value may be lost, and each must arrive soon after it was set. The guard has
/// one processor, server and client have the other.
///
/// # Errors
/// A process does not come up, or a value is lost.
pub fn items(bench: &mut Bench) -> Result<(), Failed> {
    let fixture = Fixture::make()?;
    let server = Subject::ours_changing(&fixture, ITEMS, (ITEMS, PERIOD), None)?;
    let guard = Subject::guard(&fixture, ITEMS, (&server, Security::Encrypt), None)?;
    pin(guard.pid(), 0)?;
    pin(server.pid(), 1)?;
    pin(std::process::id(), 1)?;
    let time = bench.time * u32::try_from(bench.runs.min(3)).unwrap_or(1);
    let taken = runtime()?.block_on(LocalSet::new().run_until(watch_all(&fixture, &guard, time)));
    crate::process::unpin(std::process::id())?;
    let (mut delays, lost, cpu) = taken?;
    delays.sort_by(f32::total_cmp);
    let at =
        |part: f64| f64::from(delays.get(((delays.len() - 1) as f64 * part) as usize).copied().unwrap_or(f32::NAN));
    eprintln!(
        "  {} values, {lost} lost; median {:.1} ms, p99 {:.1} ms, maximum {:.1} ms; guard {:.0} % of one processor",
        delays.len(),
        at(0.5),
        at(0.99),
        at(1.0),
        cpu * 100.0
    );
    if lost > 0 || delays.len() < ITEMS as usize {
        return Err(format!("{lost} values were lost, {} came", delays.len()).into());
    }
    let unit = "ms, 99 of 100";
    let record = Record::figure("guard.items.100k", unit, at(0.99), 100.0, &bench.command("guard.items"));
    let record = Record { runs: 1, min: at(0.0), max: at(1.0), ..record };
    bench.keep(Some(record), &[(at(0.99), None)])
}

/// Delays in milliseconds, values that are missing, and how much of a processor the guard took.
async fn watch_all(fixture: &Fixture, guard: &Subject, time: Duration) -> Result<(Vec<f32>, u64, f64), Failed> {
    let way = way(fixture, guard, Security::Encrypt).await?;
    let mut watches = Vec::new();
    let share = ITEMS / WATCHERS;
    for nth in 0..WATCHERS {
        let link = Link::open(&way).await?;
        watches.push(Watch::open(link, nth * share..(nth + 1) * share, CYCLE).await?);
    }
    // First values come at once and are not counted.
    let begin = tokio::time::Instant::now() + Duration::from_secs(3);
    let end = begin + time;
    let mut tasks = Vec::new();
    for (nth, mut watch) in (0_u32..).zip(watches) {
        tasks.push(tokio::task::spawn_local(async move {
            let first = nth * share;
            let mut rounds = vec![0.0_f64; share as usize];
            let (mut delays, mut lost) = (Vec::new(), 0_u64);
            loop {
                let counted = tokio::time::Instant::now() >= begin;
                let take = |item: &MonitoredItemNotification, now: UnixTime| {
                    let Some(Variant::Double(value)) = item.value.value else { return };
                    let round = (value / ROUND).floor();
                    let Some(before) = rounds.get_mut((item.client_handle - first) as usize) else { return };
                    if *before > 0.0 && round > *before + 1.0 && counted {
                        lost += (round - *before - 1.0) as u64;
                    }
                    *before = round;
                    if let Some(set) = item.value.source_timestamp.filter(|_| counted) {
                        delays.push((ticks(now) - set.ticks()) as f32 / 10_000.0);
                    }
                };
                tokio::select! {
                    next = watch.next(take) => next?,
                    () = tokio::time::sleep_until(end) => return Ok::<_, Failed>((delays, lost)),
                }
            }
        }));
    }
    tokio::time::sleep_until(begin).await;
    let cpu = guard.cpu()?;
    tokio::time::sleep_until(end).await;
    let cpu = (guard.cpu()? - cpu) / time.as_secs_f64();
    let (mut delays, mut lost) = (Vec::new(), 0);
    for task in tasks {
        let (some, missing) = task.await??;
        delays.extend(some);
        lost += missing;
    }
    Ok((delays, lost, cpu))
}

/// 1,000 encrypted sessions through a guard, each of which has read a value and watches ten.
///
/// # Errors
/// A session is refused.
pub fn sessions(bench: &mut Bench) -> Result<(), Failed> {
    let nodes = SESSIONS * OF_EACH;
    let fixture = Fixture::make()?;
    let server = Subject::ours(&fixture, nodes)?;
    let guard = Subject::guard(&fixture, nodes, (&server, Security::Encrypt), None)?;
    let before = guard.peak()?;
    let peak = runtime()?.block_on(async {
        let way = way(&fixture, &guard, Security::Encrypt).await?;
        let mut watches = Vec::new();
        for nth in 0..SESSIONS {
            let mut link = Link::open(&way).await?;
            link.read(fixture::number(nth)).await?;
            watches.push(Watch::open(link, nth * OF_EACH..(nth + 1) * OF_EACH, 1_000.0).await?);
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        guard.peak()
    })?;
    eprintln!("  {:.1} MB, {:.1} MB before the first", peak / 1e6, before / 1e6);
    let command = bench.command("guard.sessions");
    let record = Record::figure("guard.sessions.1000", "MB", peak / 1e6, 64.0, &command);
    bench.keep(Some(record), &[(peak / 1e6, None)])
}

/// How much the guard's memory grows under 1,000 connections that say nothing and under sessions that ask and never read.
///
/// # Errors
/// A connection is refused that should not be.
pub fn half_open(bench: &mut Bench) -> Result<(), Failed> {
    let fixture = Fixture::make()?;
    let server = Subject::ours(&fixture, VALUES)?;
    let guard = Subject::guard(&fixture, VALUES, (&server, Security::None), None)?;
    let command = bench.command("guard.halfopen");
    let (silent, deaf) = runtime()?.block_on(async {
        let way = way(&fixture, &guard, Security::None).await?;
        Link::open(&way).await?.close().await?;
        let before = guard.peak()?;
        let (host, port) = address(guard.url())?;
        let mut streams = Vec::new();
        for _ in 0..SILENT {
            streams.push(TcpStream::connect((host.as_str(), port)).await?);
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        let silent = guard.peak()? - before;
        drop(streams);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut links = Vec::new();
        for _ in 0..DEAF {
            links.push(Link::open(&way).await?);
        }
        let before = guard.peak()?;
        for link in &mut links {
            for nth in 0..ASKED {
                link.send(values(nth))?;
            }
        }
        let mut sent = 0;
        for _ in 0..100 {
            for link in &mut links {
                sent += link.push()?;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        eprintln!("  {sent} bytes of requests were taken from {DEAF} sessions that do not read");
        Ok::<_, Failed>((silent, guard.peak()? - before))
    })?;
    for (measure, growth) in [("guard.halfopen.silent", silent), ("guard.halfopen.deaf", deaf)] {
        eprintln!("  {measure}: {:.1} MB more", growth / 1e6);
        let record = Record::figure(measure, "MB more", growth / 1e6, 32.0, &command);
        bench.keep(Some(record), &[(growth / 1e6, None)])?;
    }
    Ok(())
}

/// The request for all values, beginning anywhere.
fn values(first: u32) -> ReadRequest {
    let mut request = value_of(fixture::number(0));
    let one = |nth| value_of(fixture::number((first + nth) % VALUES)).nodes_to_read.unwrap_or_default();
    request.nodes_to_read = Some((0..VALUES).flat_map(one).collect());
    request
}

/// A moment as OPC UA counts it: 100 ns since 1601.
fn ticks(now: UnixTime) -> i64 {
    const SINCE_1601: i64 = 116_444_736_000_000_000;
    now.as_micros() * 10 + SINCE_1601
}
