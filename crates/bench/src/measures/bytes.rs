//! `ua.node.bytes` and `ua.idle.rss`: memory, as the kernel counts a process's peak.

use std::collections::BTreeSet;

use opcua_types::{
    BrowseDescription, BrowseDirection, BrowseNextRequest, BrowseNextResponse, BrowseRequest, BrowseResponse,
    BrowseResult, NodeId, ObjectId, ViewDescription,
};

use super::{Bench, runtime};
use crate::Failed;
use crate::fixture::Fixture;
use crate::load::{self, Link, Security, Way};
use crate::real::Real;
use crate::record::Record;
use crate::subject::Subject;

/// Variables at our server.
const NODES: u32 = 5_000_000;
/// Variables at the peer: its bytes a variable do not depend on the number, and so many it takes in a minute.
const PEER_NODES: u32 = 500_000;
/// Nodes browsed in one request.
const BATCH: usize = 20;

/// Bytes a variable: the peak with many minus the peak with none, divided by their number.
///
/// # Errors
/// A server does not come up.
pub fn nodes(bench: &mut Bench) -> Result<(), Failed> {
    let fixture = Fixture::make()?;
    let mut runs = Vec::new();
    for run in 0..bench.runs {
        let many = Subject::ours(&fixture, NODES)?.peak()?;
        let none = Subject::ours(&fixture, 0)?.peak()?;
        let here = (many - none) / f64::from(NODES);
        let many = Subject::peer(&fixture, PEER_NODES)?.peak()?;
        let none = Subject::peer(&fixture, 0)?.peak()?;
        let there = (many - none) / f64::from(PEER_NODES);
        eprintln!("  run {}: {here:.1} B, peer {there:.1} B", run + 1);
        runs.push((here, there));
    }
    let mut peer = bench.peer()?;
    peer.build = format!("{}; {PEER_NODES} nodes", peer.build);
    bench.paired("ua.node.bytes", "B", &runs, &peer, 0.1, "node.bytes")
}

/// Peak memory of `trapkey up` with one server after a client has browsed all types.
///
/// # Errors
/// As [`nodes`], or browsing fails.
pub fn idle(bench: &mut Bench) -> Result<(), Failed> {
    let fixture = Fixture::make()?;
    let real = Real::make()?;
    let mut runs = Vec::new();
    for run in 0..bench.runs {
        let (ours, peer) = (real.up(&[])?, Subject::peer(&fixture, 0)?);
        let (here, nodes) = after_browsing(&ours, async |ours| real.way(ours).await)?;
        let (there, theirs) =
            after_browsing(&peer, async |peer| Way::find(&fixture, peer.url(), Security::Encrypt, load::user()).await)?;
        eprintln!("  run {}: {here:.2} MB over {nodes} nodes, peer {there:.2} MB over {theirs} nodes", run + 1);
        runs.push((here, there));
    }
    // The goal is a size, not a ratio; the peer's size stands beside it.
    let record = Record::paired("ua.idle.rss", "MB", &runs, &bench.peer()?, 12.0, &bench.command("idle.rss"));
    let record = record.map(|record| Record { absolute: true, ..record });
    let runs: Vec<_> = runs.iter().map(|(here, there)| (*here, Some(*there))).collect();
    bench.keep(record, &runs)
}

fn after_browsing(
    subject: &Subject,
    way: impl AsyncFnOnce(&Subject) -> Result<Way, Failed>,
) -> Result<(f64, usize), Failed> {
    runtime()?.block_on(async {
        let nodes = browse_everything(&way(subject).await?).await?;
        Ok((subject.peak()? / 1e6, nodes))
    })
}

/// Logs in and browses every node from Root; returns how many there are.
///
/// # Errors
/// The server refuses.
pub async fn browse_everything(way: &Way) -> Result<usize, Failed> {
    let mut link = Link::open(way).await?;
    let nodes = browse_all(&mut link, ObjectId::RootFolder.into()).await?;
    link.close().await?;
    Ok(nodes)
}

/// Follows every forward reference from `from`; returns how many nodes there are.
async fn browse_all(link: &mut Link, from: NodeId) -> Result<usize, Failed> {
    let mut seen = BTreeSet::from([from.to_string()]);
    let mut open = vec![from];
    while !open.is_empty() {
        let batch: Vec<NodeId> = open.drain(..open.len().min(BATCH)).collect();
        let request = BrowseRequest {
            request_header: Default::default(),
            view: ViewDescription::default(),
            requested_max_references_per_node: 0,
            nodes_to_browse: Some(batch.into_iter().map(everything).collect()),
        };
        let answer: BrowseResponse = link.call(request).await?;
        let mut results = answer.results.unwrap_or_default();
        while !results.is_empty() {
            let more = take(results, &mut seen, &mut open)?;
            results = Vec::new();
            if !more.is_empty() {
                let request = BrowseNextRequest {
                    request_header: Default::default(),
                    release_continuation_points: false,
                    continuation_points: Some(more),
                };
                let answer: BrowseNextResponse = link.call(request).await?;
                results = answer.results.unwrap_or_default();
            }
        }
    }
    Ok(seen.len())
}

fn everything(node_id: NodeId) -> BrowseDescription {
    BrowseDescription {
        node_id,
        browse_direction: BrowseDirection::Forward,
        reference_type_id: NodeId::null(),
        include_subtypes: true,
        node_class_mask: 0,
        result_mask: 63,
    }
}

/// Notes the targets that are new; returns the continuation points.
fn take(
    results: Vec<BrowseResult>,
    seen: &mut BTreeSet<String>,
    open: &mut Vec<NodeId>,
) -> Result<Vec<opcua_types::ByteString>, Failed> {
    let mut more = Vec::new();
    for result in results {
        if result.status_code.is_bad() {
            return Err(format!("browsing failed with {}", result.status_code).into());
        }
        for reference in result.references.unwrap_or_default() {
            let target = reference.node_id.node_id;
            if seen.insert(target.to_string()) {
                open.push(target);
            }
        }
        if result.continuation_point.value.as_ref().is_some_and(|point| !point.is_empty()) {
            more.push(result.continuation_point);
        }
    }
    Ok(more)
}
