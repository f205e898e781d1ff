//! `guard.storm`: how long a connected reader waits while 200 clients connect at once; `guard.storm.over_peer`: the same
//! beside open62541, to which reader and storm connect directly.
//!
//! The guard has one processor, as the peer has in its turn. The server behind it, the reader and the clients of the storm
//! have the other. Those clients are a process of their own (`bench storm`) that has the processor only while reader and
//! server leave it: what is measured is the guard, not how long somebody waits for 200 others on the machine they share. The
//! peer knows users, not tokens, and turns away whoever is one too many for it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::task::LocalSet;
use ua_proto::client::Credential;
use zeroize::Zeroizing;

use super::{Bench, runtime};
use crate::Failed;
use crate::clock::Stopwatch;
use crate::fixture::{self, Fixture};
use crate::load::{self, Link, Security, Way};
use crate::process::{pin, unpin};
use crate::random::Random;
use crate::subject::{Subject, open62541};

/// Variables at the server.
const NODES: u32 = 10_000;
/// Clients that connect at once.
const CLIENTS: u32 = 200;
/// The reader's pause between two reads.
const PAUSE: Duration = Duration::from_millis(1);
/// How long it reads before the storm.
const QUIET: Duration = Duration::from_secs(3);

/// Who the clients are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guests {
    /// They have tokens of the authority.
    Tokens,
    /// They are the fixture's user.
    User,
}

impl Guests {
    const fn name(self) -> &'static str {
        match self {
            Self::Tokens => "token",
            Self::User => "user",
        }
    }

    /// By the name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Tokens, Self::User].into_iter().find(|guests| guests.name() == name)
    }

    fn credential(self, folder: &Path, id: &str) -> Result<Credential, Failed> {
        Ok(match self {
            Self::Tokens => Credential::Issued(Zeroizing::new(fixture::token(folder, id)?.as_bytes().to_vec())),
            Self::User => load::user(),
        })
    }
}

/// Takes the measure.
///
/// # Errors
/// A process does not come up, or a client of the storm is turned away by the guard.
pub fn run(bench: &mut Bench) -> Result<(), Failed> {
    let (mut runs, mut pairs) = (Vec::new(), Vec::new());
    let peer = open62541()?;
    for run in 0..bench.runs.min(5) {
        let fixture = Fixture::make()?;
        let server = Subject::ours(&fixture, NODES)?;
        let guard = Subject::guard(&fixture, NODES, (&server, Security::Encrypt), None)?;
        pin(server.pid(), 1)?;
        let (quiet, storm, away) = beside(&fixture, &guard, Guests::Tokens)?;
        if away > 0 {
            return Err(format!("{away} clients of the storm were turned away").into());
        }
        drop((guard, server));
        let direct = Subject::peer(&fixture, NODES)?;
        let (calm, theirs, away) = beside(&fixture, &direct, Guests::User)?;
        eprintln!("  run {}: p99 {quiet:.3} ms, in the storm {storm:.3} ms", run + 1);
        eprintln!("    peer: p99 {calm:.3} ms, in the storm {theirs:.3} ms, {away} clients turned away");
        runs.push(storm / quiet);
        pairs.push((storm, theirs));
    }
    let unit = "p99 in the storm / without it";
    bench.alone("guard.storm", unit, &runs, 3.0, "guard.storm")?;
    bench.paired("guard.storm.over_peer", "ms, 99 of 100", &pairs, &peer, 1.0, "guard.storm")
}

/// The reader's p99 at rest and in the storm, in milliseconds, and how many of the storm were turned away.
fn beside(fixture: &Fixture, subject: &Subject, guests: Guests) -> Result<(f64, f64, u32), Failed> {
    pin(subject.pid(), 0)?;
    pin(std::process::id(), 1)?;
    let taken = runtime()?.block_on(one(fixture, subject, guests));
    unpin(std::process::id())?;
    taken
}

async fn one(fixture: &Fixture, subject: &Subject, guests: Guests) -> Result<(f64, f64, u32), Failed> {
    let credential = guests.credential(fixture.folder(), "reader")?;
    let way = Way::find(fixture, subject.url(), Security::Encrypt, credential).await?;
    let mut reader = Reader { link: Link::open(&way).await?, random: Random::new(1), times: Vec::new() };
    let end = tokio::time::Instant::now() + QUIET;
    while tokio::time::Instant::now() < end {
        reader.read().await?;
    }
    let quiet = p99(&mut reader.times);
    // Not only the nicest there is: the kernel lets a nice thread go on for milliseconds when the reader's answer is there.
    let mut storm = Command::new("chrt");
    storm.args(["--idle", "0"]).arg(std::env::current_exe()?).arg("storm").arg(fixture.folder()).arg(subject.url());
    storm.args([CLIENTS.to_string().as_str(), guests.name()]);
    let mut storm = storm.stdout(std::process::Stdio::piped()).kill_on_drop(true).spawn()?;
    let status = loop {
        tokio::select! {
            biased;
            status = storm.wait() => break status?,
            read = reader.read() => read?,
        }
    };
    if !status.success() {
        return Err("the storm did not come up".into());
    }
    let mut away = String::new();
    if let Some(output) = &mut storm.stdout {
        output.read_to_string(&mut away).await?;
    }
    Ok((quiet, p99(&mut reader.times), away.trim().parse()?))
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

/// `bench storm FOLDER URL COUNT token|user`: connects so many clients at once, ends when all have a session or were turned
/// away, and tells how many were.
///
/// # Errors
/// The server cannot be asked how to connect.
pub fn clients(folder: &str, url: &str, count: u32, guests: Guests) -> Result<(), Failed> {
    let folder = PathBuf::from(folder);
    // The kernel does not always interrupt it when somebody else wants the processor.
    ua_proto::crypto::pause_before_key_use(std::thread::yield_now);
    runtime()?.block_on(LocalSet::new().run_until(async move {
        let way = Way::of(&folder, url, Security::Encrypt, guests.credential(&folder, "storm")?).await?;
        let mut tasks = Vec::new();
        for _ in 0..count {
            let way = way.clone();
            tasks.push(tokio::task::spawn_local(async move { Link::open(&way).await }));
        }
        let (mut open, mut away) = (Vec::new(), 0);
        for task in tasks {
            match task.await? {
                Ok(link) => open.push(link),
                Err(_) => away += 1,
            }
        }
        println!("{away}");
        Ok(())
    }))
}
