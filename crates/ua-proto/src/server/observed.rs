//! What a gate that observes learns: who did what to which node, and what enforcement would have said. Counts are exact;
//! their records are few. What is new is told within a second, what goes on is summed up in windows that grow.
//!
//! Nothing here is counted as allowed unless enforcement would have allowed it: a would-be denial has groups of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use access_model::{Action, Actor, AuditKind, AuditRecord, Epoch, Mono, Now, Outcome, Place, Reason, ScopeIndex};
use opcua_types::NodeId;

use super::audit::event;

/// When something new is told, and the longest window over which what goes on is summed up.
const WINDOWS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));

/// Most nodes of one session that are told apart; what comes on top is counted for its scope alone.
const MAX_NODES: usize = 4_096;

/// The longest list of nodes in one record, in bytes.
const MAX_DETAIL: usize = 1_024;

/// The longest name of a node that is told, in bytes.
const MAX_NAME: usize = 256;

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sight {
    pub(crate) kind: AuditKind,
    pub(crate) action: Action,
    pub(crate) scope: ScopeIndex,
    /// What enforcement would have said no for.
    pub(crate) against: Option<Reason>,
}

#[derive(Debug, Default)]
struct Group {
    nodes: BTreeMap<String, u64>,
    /// Of nodes that are not told apart.
    others: u64,
}

/// What one session did since it was last told of, and which nodes are known already.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    groups: BTreeMap<Sight, Group>,
    known: usize,
    pause: Duration,
    due: Option<Mono>,
}

impl Observed {
    /// Counts one.
    pub(crate) fn count(&mut self, sight: Sight, node: String, now: Now) {
        let group = self.groups.entry(sight).or_default();
        let new = match group.nodes.get_mut(&node) {
            Some(count) => {
                *count = count.saturating_add(1);
                false
            }
            None if self.known < MAX_NODES => {
                group.nodes.insert(node, 1);
                self.known += 1;
                true
            }
            None => {
                group.others = group.others.saturating_add(1);
                false
            }
        };
        if new {
            self.pause = WINDOWS.0;
        }
        let due = now.mono + self.pause.max(WINDOWS.0);
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
    }

    /// When it is to be told.
    pub(crate) fn due(&self) -> Option<Mono> {
        self.due
    }

    /// Another step or another mode: what was known has to be seen again.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// The records of everything since the last time; nothing is left to be told.
    pub(crate) fn tell(&mut self, told: &Telling<'_>, now: Now) -> Vec<AuditRecord> {
        self.due = None;
        self.pause = (self.pause.max(WINDOWS.0) * 2).min(WINDOWS.1);
        let mut records = Vec::new();
        for (sight, group) in &mut self.groups {
            let mut list = List::default();
            for (node, count) in group.nodes.iter_mut().filter(|(_, count)| **count > 0) {
                let entry = format!("{node}={count}");
                if !list.fits(&entry) {
                    records.push(told.record(sight, std::mem::take(&mut list), now));
                }
                list.add(&entry, node, std::mem::take(count));
            }
            if list.nodes > 0 {
                records.push(told.record(sight, list, now));
            }
            let others = std::mem::take(&mut group.others);
            if others > 0 {
                let list = List { count: others, first: "further nodes".to_owned(), ..List::default() };
                records.push(told.record(sight, list, now));
            }
        }
        records
    }
}

/// Nodes with their counts.
#[derive(Default)]
struct List {
    text: String,
    first: String,
    nodes: usize,
    count: u64,
}

impl List {
    fn fits(&self, entry: &str) -> bool {
        self.nodes == 0 || self.text.len() + 1 + entry.len() <= MAX_DETAIL
    }

    fn add(&mut self, entry: &str, node: &str, count: u64) {
        if self.nodes == 0 {
            node.clone_into(&mut self.first);
        } else {
            self.text.push(' ');
        }
        self.text.push_str(entry);
        self.nodes += 1;
        self.count = self.count.saturating_add(count);
    }
}

/// Whose records they are.
pub(crate) struct Telling<'a> {
    pub(crate) actor: &'a Actor,
    pub(crate) epoch: Option<Epoch>,
    pub(crate) server: &'a str,
    pub(crate) steps: &'a str,
    pub(crate) roles: &'a str,
    pub(crate) scope: &'a dyn Fn(ScopeIndex) -> String,
}

impl Telling<'_> {
    fn record(&self, sight: &Sight, list: List, now: Now) -> AuditRecord {
        let outcome = sight.against.map_or(Outcome::Allowed, Outcome::Observed);
        let object = if list.nodes > 1 { format!("{} nodes", list.nodes) } else { list.first };
        let place = Place {
            server: self.server.to_owned(),
            scope: (self.scope)(sight.scope),
            action: sight.action,
            steps: self.steps.to_owned(),
            roles: self.roles.to_owned(),
        };
        AuditRecord {
            detail: list.text,
            count: list.count.max(1),
            epoch: self.epoch,
            place: Some(Box::new(place)),
            ..event(now, sight.kind, self.actor, object, outcome)
        }
    }
}

/// The name of a node with the URI of its namespace, which stays what it is when the server numbers anew. A space ends a
/// name in a list, so those inside are escaped; a name without end is cut.
pub(crate) fn name(id: &NodeId, namespaces: &[String]) -> String {
    let text = match namespaces.get(usize::from(id.namespace)).filter(|_| id.namespace > 0) {
        Some(uri) => format!("nsu={uri};{}", id.identifier),
        None => id.to_string(),
    };
    let mut name = String::with_capacity(text.len());
    for letter in text.chars() {
        if name.len() >= MAX_NAME {
            name.push('…');
            break;
        }
        match letter {
            '%' => name.push_str("%25"),
            ' ' => name.push_str("%20"),
            letter if letter.is_control() || letter.is_whitespace() => name.push_str("%0A"),
            letter => name.push(letter),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use access_model::UnixTime;

    fn at(seconds: u64) -> Now {
        Now { mono: Mono::from_nanos(seconds * 1_000_000_000), unix: UnixTime::from_seconds(1_000) }
    }

    fn sight(against: Option<Reason>) -> Sight {
        Sight { kind: AuditKind::Read, action: Action::Read, scope: ScopeIndex(1), against }
    }

    fn told(observed: &mut Observed, seconds: u64) -> Vec<AuditRecord> {
        let actor = Actor::default();
        let scope = |_| "line".to_owned();
        let (server, steps, roles) = ("urn:s", "fill", "observer");
        observed.tell(&Telling { actor: &actor, epoch: None, server, steps, roles, scope: &scope }, at(seconds))
    }

    #[test]
    fn a_would_be_denial_is_never_summed_up_with_what_is_allowed() {
        let mut observed = Observed::default();
        for against in [None, Some(Reason::RightMissing), None, Some(Reason::RightMissing), None] {
            observed.count(sight(against), "ns=1;s=a".into(), at(0));
        }
        let records = told(&mut observed, 1);
        let seen: Vec<_> = records.iter().map(|record| (record.outcome, record.count)).collect();
        assert_eq!(seen, [(Outcome::Allowed, 3), (Outcome::Observed(Reason::RightMissing), 2)]);
        let place = records[0].place.as_ref().unwrap();
        assert_eq!((place.steps.as_str(), place.roles.as_str()), ("fill", "observer"));
        assert!(told(&mut observed, 2).is_empty(), "told once");
    }

    #[test]
    fn windows_grow_while_nothing_is_new_and_counts_stay_exact() {
        let mut observed = Observed::default();
        let (mut records, mut counted, mut said) = (0, 0, 0);
        for second in 0..3_600 {
            observed.count(sight(None), "ns=1;s=a".into(), at(second));
            counted += 1;
            if observed.due().is_some_and(|due| due <= at(second).mono) {
                let all = told(&mut observed, second);
                records += all.len();
                said += all.iter().map(|record| record.count).sum::<u64>();
            }
        }
        said += told(&mut observed, 3_600).iter().map(|record| record.count).sum::<u64>();
        assert_eq!(said, counted);
        assert!(records < 20, "{records} records of an hour in which nothing was new");
        observed.count(sight(None), "ns=1;s=b".into(), at(4_000));
        assert_eq!(observed.due(), Some(at(4_001).mono), "what is new is told at once");
    }

    #[test]
    fn nodes_are_bounded_and_none_is_uncounted() {
        let mut observed = Observed::default();
        for node in 0..MAX_NODES + 100 {
            observed.count(sight(Some(Reason::ScopeNotGranted)), format!("ns=1;i={node}"), at(0));
        }
        let records = told(&mut observed, 1);
        assert_eq!(records.iter().map(|record| record.count).sum::<u64>(), (MAX_NODES + 100) as u64);
        assert!(records.iter().all(|record| record.detail.len() <= MAX_DETAIL));
        assert_eq!(records.last().unwrap().object, "further nodes");
    }

    #[test]
    fn names_hold_no_space() {
        let namespaces = ["http://opcfoundation.org/UA/".to_owned(), "urn:a plant".to_owned()];
        assert_eq!(name(&NodeId::new(1, "Line 1%\n"), &namespaces), "nsu=urn:a%20plant;s=Line%201%25%0A");
        assert_eq!(name(&NodeId::new(0, 2_258_u32), &namespaces), "i=2258");
        assert!(name(&NodeId::new(7, "a".repeat(5_000)), &namespaces).len() < 300);
    }
}
