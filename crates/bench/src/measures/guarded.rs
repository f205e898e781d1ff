//! `guard.read.*`: what a guard costs and adds, in front of the same peer that is asked directly in the same run.
//!
//! Numerator is the guard's own processor time, denominator the server's for reads that come without a guard, in the same
//! security mode; the guard speaks that mode on both sides. It has a rule for each of the 100,000 variables and a session
//! upstream for each of its own.

use std::time::Duration;

use ua_proto::client::Credential;
use zeroize::Zeroizing;

use super::services::accounted;
use super::{Bench, runtime};
use crate::Failed;
use crate::awake::Awake;
use crate::clock::Stopwatch;
use crate::fixture::{self, Fixture};
use crate::load::{self, Link, Security, Way};
use crate::random::Random;
use crate::record::{Record, median};
use crate::subject::Subject;

/// Variables at the server.
const NODES: u32 = 100_000;
/// Connections that read.
const CONNECTIONS: usize = 20;
/// Reads one after the other in one run, on one connection.
const ALONE: usize = 5_000;

/// Who logs in at the guard: with a token where the channel is encrypted, by name where it is not.
fn credential(fixture: &Fixture, security: Security) -> Result<Credential, Failed> {
    Ok(match security {
        Security::None => load::user(),
        Security::Encrypt => Credential::Issued(Zeroizing::new(fixture.token("guarded")?.as_bytes().to_vec())),
    })
}

/// The processor time of one Read.
///
/// # Errors
/// A process does not come up or answers wrongly.
pub fn reads(bench: &mut Bench, security: Security) -> Result<(), Failed> {
    let (measure, group, goal) = match security {
        Security::None => ("guard.read.none.cpu_over_direct", "guard.read.none", 3.0),
        Security::Encrypt => ("guard.read.encrypt.cpu_over_direct", "guard.read.encrypt", 2.2),
    };
    let fixture = Fixture::make()?;
    let peer = Subject::peer(&fixture, NODES)?;
    let guard = Subject::guard(&fixture, NODES, (&peer, security), None)?;
    let (mut runs, mut all) = (Vec::new(), 0);
    runtime()?.block_on(async {
        let through = Way::find(&fixture, guard.url(), security, credential(&fixture, security)?).await?;
        let direct = Way::find(&fixture, peer.url(), security, load::user()).await?;
        let read = async |subject: &Subject, way: &Way| load::reads(subject, way, CONNECTIONS, NODES, bench.time).await;
        for run in 0..bench.runs {
            let (here, there) = if run % 2 == 0 {
                let here = read(&guard, &through).await?;
                (here, read(&peer, &direct).await?)
            } else {
                let there = read(&peer, &direct).await?;
                (read(&guard, &through).await?, there)
            };
            eprintln!(
                "  run {}: guard {:.2} us at {:.0}/s, peer directly {:.2} us at {:.0}/s",
                run + 1,
                here.micros,
                here.rate,
                there.micros,
                there.rate
            );
            runs.push((here.micros, there.micros));
            all += here.all;
        }
        Ok::<(), Failed>(())
    })?;
    accounted(&fixture, &guard, all)?;
    bench.paired(measure, "us", &runs, &bench.peer()?, goal, group)
}

/// The time that a guard adds to a Read when nothing else goes on, on processors that are kept awake.
///
/// # Errors
/// As [`reads`].
pub fn latencies(bench: &mut Bench) -> Result<(), Failed> {
    for (security, goal) in [(Security::None, 0.06), (Security::Encrypt, 0.10)] {
        let fixture = Fixture::make()?;
        let peer = Subject::peer(&fixture, NODES)?;
        let guard = Subject::guard(&fixture, NODES, (&peer, security), None)?;
        let mut runs = Vec::new();
        runtime()?.block_on(async {
            let through = Way::find(&fixture, guard.url(), security, credential(&fixture, security)?).await?;
            let direct = Way::find(&fixture, peer.url(), security, load::user()).await?;
            let mut through = Link::open(&through).await?;
            let mut direct = Link::open(&direct).await?;
            let _awake = Awake::start()?;
            for run in 0..bench.runs {
                let (here, there) = turns(&mut through, &mut direct, run as u64).await?;
                eprintln!("  {} run {}: {here:.4} ms, directly {there:.4} ms", security.name(), run + 1);
                runs.push(here - there);
            }
            Ok::<(), Failed>(())
        })?;
        let measure = format!("guard.read.latency.{}", security.name());
        let record = Record::alone(&measure, "ms added", &runs, goal, &bench.command("guard.latency"));
        let runs: Vec<_> = runs.iter().map(|added| (*added, None)).collect();
        bench.keep(record, &runs)?;
    }
    Ok(())
}

/// Median times of a Read in milliseconds: through the guard and directly, in turns of 50.
async fn turns(through: &mut Link, direct: &mut Link, seed: u64) -> Result<(f64, f64), Failed> {
    let mut random = Random::new(seed);
    let (mut here, mut there) = (Vec::with_capacity(ALONE), Vec::with_capacity(ALONE));
    while here.len() < ALONE {
        for (link, times) in [(&mut *through, &mut here), (&mut *direct, &mut there)] {
            for _ in 0..50 {
                let stopwatch = Stopwatch::start();
                link.read(fixture::number(random.below(NODES))).await?;
                times.push(stopwatch.seconds() * 1e3);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    Ok((median(&here).unwrap_or(f64::NAN), median(&there).unwrap_or(f64::NAN)))
}
