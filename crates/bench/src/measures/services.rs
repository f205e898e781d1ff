//! `ua.read.none.20`, `ua.read.encrypt.20` and `ua.connect.encrypt.user`: processor time of the server for one operation.
//!
//! Our server checks every read against a token with 1,000 scopes over the 100,000 variables, and keeps its audit on
//! disk. On the channel without protection, where tokens have no place, a user with the same rights logs in by name, as
//! at the peer.

use std::time::Duration;

use access_model::AuditKind;
use ua_proto::client::Credential;
use zeroize::Zeroizing;

use super::{Bench, runtime};
use crate::Failed;
use crate::fixture::Fixture;
use crate::load::{self, Cost, Security, Way};
use crate::subject::Subject;

/// Variables at each server.
const NODES: u32 = 100_000;
/// Connections that read.
const CONNECTIONS: usize = 20;

/// The figures for Read.
///
/// # Errors
/// A server does not come up or answers wrongly.
pub fn reads(bench: &mut Bench, security: Security) -> Result<(), Failed> {
    let (measure, group) = match security {
        Security::None => ("ua.read.none.20", "read.none"),
        Security::Encrypt => ("ua.read.encrypt.20", "read.encrypt"),
    };
    let fixture = Fixture::make()?;
    let credential = match security {
        Security::None => load::user(),
        Security::Encrypt => Credential::Issued(Zeroizing::new(fixture.token("reads")?.as_bytes().to_vec())),
    };
    let time = bench.time;
    let one = async |subject: &Subject, way: &Way| load::reads(subject, way, CONNECTIONS, NODES, time).await;
    let ours = Subject::ours(&fixture, NODES)?;
    let (runs, all) = pairs(bench, &fixture, &ours, security, credential, one)?;
    accounted(&fixture, &ours, all)?;
    bench.paired(measure, "us", &runs, &bench.peer()?, 1.0, group)
}

/// The figure for connecting.
///
/// # Errors
/// As [`reads`].
pub fn connects(bench: &mut Bench) -> Result<(), Failed> {
    let fixture = Fixture::make()?;
    let time = bench.time;
    let one = async |subject: &Subject, way: &Way| load::connects(subject, way, time).await;
    let ours = Subject::ours(&fixture, NODES)?;
    let (runs, _) = pairs(bench, &fixture, &ours, Security::Encrypt, load::user(), one)?;
    bench.paired("ua.connect.encrypt.user", "us", &runs, &bench.peer()?, 1.0, "connect")
}

/// The figure counts only if the audit on disk holds every single read.
pub(super) fn accounted(fixture: &Fixture, ours: &Subject, all: u64) -> Result<(), Failed> {
    // Summaries are a second late, the ledger 10 ms.
    runtime()?.block_on(async { tokio::time::sleep(Duration::from_millis(1_500)).await });
    let folder = fixture.path(&format!("audit-{}", ours.pid()));
    let entries = store::tail(&folder, usize::MAX)?;
    let kept: u64 = entries.iter().filter(|entry| entry.kind == AuditKind::Read.name()).map(|entry| entry.count).sum();
    if kept == all { Ok(()) } else { Err(format!("the audit holds {kept} of {all} reads").into()) }
}

/// Takes turns: ours and the peer, then the peer and ours, and so on. `credential` is for ours. Returns all operations of
/// ours, too.
fn pairs(
    bench: &Bench,
    fixture: &Fixture,
    ours: &Subject,
    security: Security,
    credential: Credential,
    one: impl AsyncFn(&Subject, &Way) -> Result<Cost, Failed>,
) -> Result<(Vec<(f64, f64)>, u64), Failed> {
    let peer = Subject::peer(fixture, NODES)?;
    runtime()?.block_on(async {
        let our_way = Way::find(fixture, ours.url(), security, credential).await?;
        let peer_way = Way::find(fixture, peer.url(), security, load::user()).await?;
        let (mut runs, mut all) = (Vec::new(), 0);
        for run in 0..bench.runs {
            let (here, there) = if run % 2 == 0 {
                let here = one(ours, &our_way).await?;
                (here, one(&peer, &peer_way).await?)
            } else {
                let there = one(&peer, &peer_way).await?;
                (one(ours, &our_way).await?, there)
            };
            eprintln!(
                "  run {}: {:.2} us at {:.0}/s, peer {:.2} us at {:.0}/s",
                run + 1,
                here.micros,
                here.rate,
                there.micros,
                there.rate
            );
            runs.push((here.micros, there.micros));
            all += here.all;
        }
        Ok((runs, all))
    })
}
