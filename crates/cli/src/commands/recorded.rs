//! What gates recorded of accesses, read from ledgers so that it can be decided again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use access_model::{Action, Place};
use clap::Args;
use pdp::{Access, Snapshot};
use store::{Entry, Selection};

use super::Common;
use crate::commands::audit;
use crate::failure::Failure;

/// Which records.
#[derive(Debug, Args)]
pub(crate) struct From {
    /// The ledger folder, or several [default: that of the configuration]
    #[arg(long, value_name = "FOLDER")]
    ledger: Vec<PathBuf>,
    /// Only accesses at this server: its short name or ApplicationUri
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// Only accesses of this person or application
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Not before this time: RFC 3339 (2026-11-21T12:00:00Z) or how long ago (90s, 15m, 8h, 2d)
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
}

/// Equal accesses.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) access: Access,
    /// As the record names it; empty when it sums up several.
    pub(crate) node: String,
    /// It was denied, or would have been.
    pub(crate) denied: bool,
    /// Why.
    pub(crate) reason: Option<String>,
    /// It was done: allowed, or only observed.
    pub(crate) passed: bool,
    pub(crate) count: u64,
}

/// Everything that was read.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) rows: Vec<Row>,
    /// Accesses that no policy can be asked about again: their records sum up too much.
    pub(crate) unread: u64,
}

type Key = (Access, String, bool, Option<String>, bool);

impl From {
    /// Reads the ledgers.
    pub(crate) fn read(&self, common: &Common, snapshot: &Snapshot) -> Result<Recorded, Failure> {
        let ledgers = match self.ledger.is_empty() {
            true => vec![common.config.load()?.audit.ledger],
            false => self.ledger.clone(),
        };
        let selection = Selection {
            since: self.since.as_deref().map(audit::time).transpose()?,
            until: self.until.as_deref().map(audit::time).transpose()?,
            ..Selection::default()
        };
        let server = match &self.server {
            None => None,
            Some(name) => {
                let unknown = || Failure::bad_input(format!("the plant file has no server `{name}`"));
                Some(snapshot.plant().server(name).ok_or_else(unknown)?.0.to_owned())
            }
        };
        let (mut rows, mut unread): (BTreeMap<Key, u64>, u64) = (BTreeMap::new(), 0);
        for ledger in ledgers {
            let mut reader = Reader::new(snapshot);
            let read = store::each(&ledger, &selection, &mut |entry| {
                let step = entry.kind == STEP;
                // Of which server a record without a place is, nobody can say.
                let there = |uri: &String| entry.place.as_ref().map_or(step, |place| place.server == *uri);
                let wanted = self.actor.as_ref().is_none_or(|actor| *actor == entry.actor || step)
                    && server.as_ref().is_none_or(there);
                if wanted {
                    unread += reader.take(&entry, &mut rows);
                }
                Ok(())
            });
            read.map_err(|error| Failure::from_error(&error).help("`trapkey audit verify` says what is wrong"))?;
        }
        let row = |((access, node, denied, reason, passed), count)| Row { access, node, denied, reason, passed, count };
        Ok(Recorded { rows: rows.into_iter().map(row).collect(), unread })
    }
}

const STEP: &str = "step_changed";
/// What policies are asked about.
const ACCESSES: [&str; 7] = ["read", "browse", "notify", "write", "call", "nodes_changed", "history_changed"];

/// Denials that come from policy; others do not change with it.
const OF_POLICY: [&str; 3] = ["scope_not_granted", "right_missing", "policy_no_permit"];

struct Reader {
    /// Where the workflow stands, by the records of the authority.
    steps: Vec<String>,
    /// By server.
    scopes: BTreeMap<String, Vec<String>>,
    uris: BTreeSet<String>,
}

impl Reader {
    fn new(snapshot: &Snapshot) -> Self {
        let plant = snapshot.plant();
        let scopes = plant.servers.iter().map(|(uri, server)| {
            (uri.clone(), server.scopes.iter().map(|scope| scope.name.clone()).chain(["public".to_owned()]).collect())
        });
        Self {
            steps: snapshot.steps().iter().cloned().collect(),
            scopes: scopes.collect(),
            uris: plant.applications.keys().cloned().collect(),
        }
    }

    /// Takes one record; how many accesses of it cannot be read.
    fn take(&mut self, entry: &Entry, rows: &mut BTreeMap<Key, u64>) -> u64 {
        if entry.kind == STEP && entry.outcome == "allowed" {
            if let Some(steps) = entry.detail.strip_prefix("the workflow stands in ") {
                self.steps = sorted(steps);
            }
            return 0;
        }
        let passed = entry.outcome != "denied";
        let denied = match (entry.outcome, entry.reason.as_deref()) {
            ("denied" | "observed", Some(reason)) if OF_POLICY.contains(&reason) => true,
            ("denied", _) => return 0,
            _ => false,
        };
        let Some(place) = &entry.place else {
            // Older records do not say what was decided about.
            return if ACCESSES.contains(&entry.kind.as_str()) { entry.count } else { 0 };
        };
        let Some(action) = Action::from_name(&place.action) else { return entry.count };
        let steps = if place.steps.is_empty() { self.steps.clone() } else { sorted(&place.steps) };
        let roles = Place::roles_in(&place.roles);
        let application = entry.application.clone().filter(|uri| self.uris.contains(uri));
        let mut add = |scope: &str, node: &str, count: u64| {
            let (who, server) = (entry.actor.clone(), place.server.clone());
            let access = Access {
                who,
                application: application.clone(),
                server,
                scope: scope.to_owned(),
                action,
                steps: steps.clone(),
                roles: roles.clone(),
            };
            *rows.entry((access, node.to_owned(), denied, entry.reason.clone(), passed)).or_default() += count;
        };
        if place.scope == "*" {
            return self.several(&place.server, entry, &mut add);
        }
        let list = nodes(&entry.detail);
        match list {
            Some(list) if entry.kind != "write" => {
                list.into_iter().for_each(|(node, count)| add(&place.scope, &node, count))
            }
            _ => add(&place.scope, &entry.object, entry.count),
        }
        0
    }

    /// A summary of several scopes: `scope=count`, separated by spaces, which names may hold too.
    fn several(&self, server: &str, entry: &Entry, add: &mut impl FnMut(&str, &str, u64)) -> u64 {
        let (mut rest, mut read) = (entry.detail.as_str(), 0);
        let known = self.scopes.get(server).map(Vec::as_slice).unwrap_or_default();
        while !rest.is_empty() {
            let next = known.iter().find_map(|scope| {
                let behind = rest.strip_prefix(scope.as_str())?.strip_prefix('=')?;
                let digits = behind.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(behind.len());
                let (count, behind) = behind.split_at(digits);
                Some((scope, count.parse::<u64>().ok()?, behind.strip_prefix(' ').unwrap_or(behind)))
            });
            let Some((scope, count, behind)) = next else { break };
            add(scope, "", count);
            read += count;
            rest = behind;
        }
        entry.count.saturating_sub(read)
    }
}

fn sorted(steps: &str) -> Vec<String> {
    let mut steps: Vec<String> = steps.split(", ").filter(|step| !step.is_empty()).map(str::to_owned).collect();
    steps.sort_unstable();
    steps
}

/// `node=count`, separated by spaces; none when it is something else.
fn nodes(detail: &str) -> Option<Vec<(String, u64)>> {
    if detail.is_empty() {
        return None;
    }
    let one = |text: &str| {
        let (node, count) = text.rsplit_once('=')?;
        Some((node.to_owned(), count.parse().ok()?))
    };
    detail.split(' ').map(one).collect()
}
