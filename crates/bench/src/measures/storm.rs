//! `guard.storm`: how long a connected reader waits while 200 clients connect at once.
//!
//! The guard has one processor. The server behind it, the reader and the clients of the storm have the other; those
//! clients are a process of their own that yields to the reader (`bench storm`), so that what is measured is the guard.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Command;
use tokio::task::LocalSet;
use ua_proto::client::Credential;
use zeroize::Zeroizing;

use super::{Bench, runtime};
use crate::Failed;
use crate::clock::Stopwatch;
use crate::fixture::{self, Fixture};
use crate::load::{Link, Security, Way};
use crate::process::{pin, unpin};
use crate::random::Random;
use crate::record::Record;
use crate::subject::Subject;

/// Variables at the server.
const NODES: u32 = 10_000;
/// Clients that connect at once.
const CLIENTS: u32 = 200;
/// The reader's pause between two reads.
const PAUSE: Duration = Duration::from_millis(1);
/// How long it reads before the storm.
const QUIET: Duration = Duration::from_secs(3);

/// Takes the measure.
///
/// # Errors
/// A process does not come up, or a client of the storm is turned away.
pub fn run(bench: &mut Bench) -> Result<(), Failed> {
    let mut runs = Vec::new();
    for run in 0..bench.runs.min(5) {
        let fixture = Fixture::make()?;
        let server = Subject::ours(&fixture, NODES)?;
        let guard = Subject::guard(&fixture, NODES, (&server, Security::Encrypt), None)?;
        pin(guard.pid(), 0)?;
        pin(server.pid(), 1)?;
        pin(std::process::id(), 1)?;
        let taken = runtime()?.block_on(one(&fixture, &guard));
        unpin(std::process::id())?;
        let (quiet, storm) = taken?;
        eprintln!("  run {}: p99 {quiet:.3} ms, in the storm {storm:.3} ms", run + 1);
        runs.push(storm / quiet);
    }
    let unit = "p99 in the storm / without it";
    let record = Record::alone("guard.storm", unit, &runs, 3.0, &bench.command("guard.storm"));
    let runs: Vec<_> = runs.iter().map(|ratio| (*ratio, None)).collect();
    bench.keep(record, &runs)
}

async fn one(fixture: &Fixture, guard: &Subject) -> Result<(f64, f64), Failed> {
    let token = Credential::Issued(Zeroizing::new(fixture.token("reader")?.as_bytes().to_vec()));
    let way = Way::find(fixture, guard.url(), Security::Encrypt, token).await?;
    let mut reader = Reader { link: Link::open(&way).await?, random: Random::new(1), times: Vec::new() };
    let end = tokio::time::Instant::now() + QUIET;
    while tokio::time::Instant::now() < end {
        reader.read().await?;
    }
    let quiet = p99(&mut reader.times);
    // The nicest there is: it takes what the reader leaves.
    let mut storm = Command::new("nice");
    storm.args(["-n", "19"]).arg(std::env::current_exe()?).args([
        "storm",
        &fixture.folder().to_string_lossy(),
        guard.url(),
    ]);
    let mut storm = storm.arg(CLIENTS.to_string()).kill_on_drop(true).spawn()?;
    let status = loop {
        tokio::select! {
            biased;
            status = storm.wait() => break status?,
            read = reader.read() => read?,
        }
    };
    if !status.success() {
        return Err("a client of the storm was turned away".into());
    }
    Ok((quiet, p99(&mut reader.times)))
}

struct Reader {
    link: Link,
    random: Random,
    times: Vec<f64>,
}

impl Reader {
    async fn read(&mut self) -> Result<(), Failed> {
        tokio::time::sleep(PAUSE).await;
        let stopwatch = Stopwatch::start();
        self.link.read(fixture::number(self.random.below(NODES))).await?;
        self.times.push(stopwatch.seconds() * 1e3);
        Ok(())
    }
}

fn p99(times: &mut Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    let at = ((times.len().saturating_sub(1)) as f64 * 0.99).ceil() as usize;
    let p99 = times.get(at).copied().unwrap_or(f64::NAN);
    times.clear();
    p99
}

/// `bench storm FOLDER URL COUNT`: connects so many clients at once and ends when all have a session.
///
/// # Errors
/// One is turned away.
pub fn clients(folder: &str, url: &str, count: u32) -> Result<(), Failed> {
    let folder = PathBuf::from(folder);
    runtime()?.block_on(LocalSet::new().run_until(async move {
        let way = way(&folder, url).await?;
        let mut tasks = Vec::new();
        for _ in 0..count {
            let way = way.clone();
            tasks.push(tokio::task::spawn_local(async move { Link::open(&way).await }));
        }
        let mut open = Vec::new();
        for task in tasks {
            open.push(task.await??);
        }
        Ok(())
    }))
}

async fn way(folder: &Path, url: &str) -> Result<Way, Failed> {
    let token = Credential::Issued(Zeroizing::new(fixture::token(folder, "storm")?.as_bytes().to_vec()));
    Way::of(folder, url, Security::Encrypt, token).await
}
