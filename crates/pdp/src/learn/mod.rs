//! From a recording to policies: the least that lets everything pass that was recorded, by role and step.
//!
//! A right goes to the role of whoever used it that the fewest others have; whoever has no role, or is not in the plant
//! file, gets one. Nodes that no scope names get scopes of their own, which list just them. What comes out is loaded and
//! every access is decided again under it before anybody sees it ([`Proposal::uncovered`]).

mod scopes;
mod write;

use std::collections::{BTreeMap, BTreeSet};

use access_model::{Action, Effect, MapDigest, ScopeMap, UnixTime};

use crate::fault::Faults;
use crate::plant::{Plant, Server};
use crate::replay::Access;
use crate::snapshot::{Snapshot, Sources};

pub use scopes::NewScope;

/// One kind of access with what was counted of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What was done.
    pub access: Access,
    /// To which node, as records name it; empty when it was not told apart.
    pub node: String,
    /// How often.
    pub count: u64,
    /// Enforcement would have turned it away under the policies of that time.
    pub against: bool,
}

/// Whom a policy is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whose {
    /// Whoever has a role.
    Role(String),
    /// One person of the plant file, who has no role there.
    Person(String),
    /// One application of the plant file, which has no role there.
    Application(String),
}

impl Whose {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Role(name) | Self::Person(name) | Self::Application(name) => name,
        }
    }
}

/// One policy of a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its id.
    pub id: String,
    /// For whom.
    pub whose: Whose,
    /// What, sorted.
    pub actions: Vec<Action>,
    /// At which server: its short name.
    pub server: String,
    /// In which scopes, sorted.
    pub scopes: Vec<String>,
    /// In which markings, each a set of steps; none: in every one.
    pub steps: Vec<Vec<String>>,
    /// Who used it.
    pub used_by: BTreeSet<String>,
    /// Who has the role besides: wider than observed.
    pub also: BTreeSet<String>,
    /// How many nodes were touched, and how many further ones of these scopes are known that were not: wider than
    /// observed. What a subtree holds besides nobody knows here.
    pub nodes: (usize, usize),
    /// How many accesses it is for.
    pub count: u64,
}

/// How much of what was recorded a proposal permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// So many accesses were recorded and chosen.
    pub recorded: u64,
    /// So many of them the proposal permits, decided again.
    pub permitted: u64,
    /// So many cannot be granted at all.
    pub left_out: u64,
}

/// What is proposed.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The policies.
    pub policies: String,
    /// The plant file, when something has to be added to it.
    pub plant: Option<String>,
    /// The policies one by one.
    pub rules: Vec<Rule>,
    /// Roles that were added, with who gets them.
    pub roles: BTreeMap<String, BTreeSet<String>>,
    /// Scopes that were added.
    pub scopes: Vec<NewScope>,
    /// Accesses that were recorded so often in all.
    pub recorded: u64,
    /// The same by role (by name, where somebody has none) and by where the workflow stood; empty where no step was told.
    pub coverage: BTreeMap<(String, String), Coverage>,
    /// What cannot be granted, and why: it is not among what was chosen.
    pub left_out: Vec<(Seen, &'static str)>,
    /// Of what was chosen, what the proposal does not permit: nothing, or it must not be used.
    pub uncovered: Vec<Seen>,
}

/// Proposes policies for these accesses. `sources` are plant and workflow as they are; their policies have no say.
///
/// # Errors
/// The plant cannot be read, or what was made of it cannot: then nothing is proposed.
pub fn propose(
    sources: Sources<'_>,
    seen: Vec<Seen>,
    digest: &dyn Fn(&ScopeMap) -> MapDigest,
    at: UnixTime,
) -> Result<Proposal, Faults> {
    let plant = Plant::parse(sources.plant)?;
    let workflow = sources.workflow.map(crate::workflow::Workflow::parse).transpose()?;
    let recorded = seen.iter().map(|one| one.count).sum();
    let (mut chosen, left_out) = scopes::sort_out(&plant, seen);
    let scopes = scopes::name(&plant, &mut chosen);
    let people = People::of(&plant, &chosen);
    let steps: BTreeSet<Vec<String>> = match &workflow {
        Some(workflow) => workflow.steps().iter().map(|step| vec![step.name.clone()]).collect(),
        None => BTreeSet::new(),
    };
    let rules = rules(&plant, &chosen, &people, &steps);
    let changed = (!scopes.is_empty() || !people.added.is_empty())
        .then(|| write::plant(sources.plant, &plant, &scopes, &people.added));
    let policies = write::policies(&rules, &plant);
    let with = Sources { plant: changed.as_deref().unwrap_or(sources.plant), policies: &policies, ..sources };
    let snapshot = Snapshot::load(with, digest, access_model::Epoch(0))?;
    let permits = |one: &Seen| one.access.decide(&snapshot, at) == Ok(Effect::Permit);
    let uncovered: Vec<Seen> = chosen.iter().filter(|one| !permits(one)).cloned().collect();
    let coverage = coverage(&people.roles_used(&plant, &chosen), &chosen, &left_out, &permits);
    let roles = people.added;
    Ok(Proposal { policies, plant: changed, rules, roles, scopes, recorded, coverage, left_out, uncovered })
}

/// By role and step. `roles` are those of what was chosen, in order.
fn coverage(
    roles: &[String],
    chosen: &[Seen],
    left_out: &[(Seen, &'static str)],
    permits: &dyn Fn(&Seen) -> bool,
) -> BTreeMap<(String, String), Coverage> {
    let mut all: BTreeMap<(String, String), Coverage> = BTreeMap::new();
    for (one, role) in chosen.iter().zip(roles) {
        let covered = all.entry((role.clone(), one.access.steps.join(" and "))).or_default();
        covered.recorded = covered.recorded.saturating_add(one.count);
        covered.permitted = covered.permitted.saturating_add(if permits(one) { one.count } else { 0 });
    }
    for (one, _) in left_out {
        let access = &one.access;
        let whose = if access.roles.is_empty() { access.who.clone() } else { access.roles.join(", ") };
        let covered = all.entry((whose, access.steps.join(" and "))).or_default();
        covered.left_out = covered.left_out.saturating_add(one.count);
    }
    all
}

/// Who was there, and by which role each is to be let in.
struct People {
    /// Role by person or application.
    roles: BTreeMap<String, Vec<String>>,
    /// How many have a role.
    holders: BTreeMap<String, BTreeSet<String>>,
    /// Roles that are new, with who gets them.
    added: BTreeMap<String, BTreeSet<String>>,
}

impl People {
    fn of(plant: &Plant, chosen: &[Seen]) -> Self {
        let mut people = Self { roles: BTreeMap::new(), holders: BTreeMap::new(), added: BTreeMap::new() };
        let lasting = |role: &&String| plant.roles.get(*role).is_some_and(|row| row.break_glass.is_none());
        let persons = plant.persons.iter().map(|(name, one)| (name, &one.roles));
        for (name, roles) in persons.chain(plant.applications.iter().map(|(uri, one)| (uri, &one.roles))) {
            let roles: Vec<String> = roles.iter().filter(lasting).cloned().collect();
            for role in &roles {
                people.holders.entry(role.clone()).or_default().insert(name.clone());
            }
            people.roles.insert(name.clone(), roles);
        }
        for name in chosen.iter().filter_map(|one| Self::name(plant, &one.access)) {
            if people.roles.contains_key(&name) {
                continue;
            }
            let base = format!("learned-{}", word(&name));
            let role = free(&base, |role| plant.roles.contains_key(role) || people.added.contains_key(role));
            people.holders.entry(role.clone()).or_default().insert(name.clone());
            people.added.entry(role.clone()).or_default().insert(name.clone());
            people.roles.insert(name, vec![role]);
        }
        people
    }

    fn name(plant: &Plant, access: &Access) -> Option<String> {
        if plant.applications.contains_key(&access.who) {
            return Some(access.who.clone());
        }
        plant.servers.get(&access.server).map(|server| access.person(server))
    }

    /// By the role that the fewest have, or by name. A role that was given since the record was made is not what it was
    /// done by, as long as one of those is left that were.
    fn whose(&self, plant: &Plant, name: &str, held: &[String]) -> Option<Whose> {
        let holders = |role: &String| self.holders.get(role).map_or(0, BTreeSet::len);
        let roles = self.roles.get(name)?;
        let fewest = |of_then: bool| {
            let roles = roles.iter().filter(|role| !of_then || held.contains(role));
            roles.min_by_key(|role| (holders(role), role.as_str()))
        };
        let role = fewest(true).or_else(|| fewest(false));
        Some(match role {
            Some(role) => Whose::Role(role.clone()),
            None if plant.applications.contains_key(name) => Whose::Application(name.to_owned()),
            None => Whose::Person(name.to_owned()),
        })
    }
}

impl People {
    /// For each access the name of the role, or person, that it is granted to.
    fn roles_used(&self, plant: &Plant, chosen: &[Seen]) -> Vec<String> {
        let whose = |one: &Seen| {
            let name = Self::name(plant, &one.access)?;
            Some(self.whose(plant, &name, &one.access.roles)?.name().to_owned())
        };
        chosen.iter().map(|one| whose(one).unwrap_or_else(|| one.access.who.clone())).collect()
    }
}

/// A right in one scope: in which markings, by whom, on which nodes.
#[derive(Default)]
struct Use {
    steps: BTreeSet<Vec<String>>,
    by: BTreeSet<String>,
    nodes: BTreeSet<String>,
    count: u64,
}

type Where<'a> = (Whose, &'a str, String);

fn rules(plant: &Plant, chosen: &[Seen], people: &People, all_steps: &BTreeSet<Vec<String>>) -> Vec<Rule> {
    let mut uses: BTreeMap<Where<'_>, BTreeMap<Action, Use>> = BTreeMap::new();
    let mut known: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for one in chosen.iter().filter(|one| one.access.scope != "public") {
        let Some(server) = plant.servers.get(&one.access.server) else { continue };
        let Some(name) = People::name(plant, &one.access) else { continue };
        let Some(whose) = people.whose(plant, &name, &one.access.roles) else { continue };
        known.entry((server.name.clone(), one.access.scope.clone())).or_default().insert(one.node.clone());
        let place = uses.entry((whose, &server.name, one.access.scope.clone())).or_default();
        // Who does anything somewhere has to know that it is there. History is changed by two rights.
        let actions = match one.access.action {
            Action::UpdateHistory => vec![Action::InsertHistory, Action::ModifyHistory, Action::Browse],
            Action::Browse => vec![Action::Browse],
            action => vec![action, Action::Browse],
        };
        for (nth, action) in actions.into_iter().enumerate() {
            let place = place.entry(action).or_default();
            place.steps.insert(one.access.steps.clone());
            place.by.insert(name.clone());
            place.nodes.insert(one.node.clone());
            place.count = place.count.saturating_add(if nth == 0 { one.count } else { 0 });
        }
    }
    for server in plant.servers.values() {
        for scope in &server.scopes {
            let nodes = known.entry((server.name.clone(), scope.name.clone())).or_default();
            nodes.extend(scope.covers.iter().filter_map(|covered| match covered {
                crate::plant::Covered::Node(node) => Some(node.clone()),
                _ => None,
            }));
        }
    }
    grouped(plant, uses, people, &known, all_steps)
}

/// One rule for all scopes in which a role did the same in the same steps.
fn grouped(
    plant: &Plant,
    uses: BTreeMap<Where<'_>, BTreeMap<Action, Use>>,
    people: &People,
    known: &BTreeMap<(String, String), BTreeSet<String>>,
    all_steps: &BTreeSet<Vec<String>>,
) -> Vec<Rule> {
    type Key = (Whose, String, Vec<Vec<String>>, Vec<Action>, Option<String>);
    let mut groups: BTreeMap<Key, Vec<(String, Use)>> = BTreeMap::new();
    for ((whose, server, scope), actions) in uses {
        let mut by_steps: BTreeMap<Vec<Vec<String>>, (Vec<Action>, Use)> = BTreeMap::new();
        for (action, used) in actions {
            let (held, whole) = by_steps.entry(condition(&used.steps, all_steps)).or_default();
            held.push(action);
            whole.by.extend(used.by);
            whole.nodes.extend(used.nodes);
            whole.count = whole.count.saturating_add(used.count);
        }
        for (steps, (actions, used)) in by_steps {
            // A rule for a scope is one for the methods that are part of it, unless it is about nothing else.
            let alone = write::stands_alone(plant, server, &scope).then(|| scope.clone());
            let key = (whose.clone(), server.to_owned(), steps, actions, alone);
            groups.entry(key).or_default().push((scope.clone(), used));
        }
    }
    let mut rules: Vec<Rule> = Vec::new();
    for ((whose, server, steps, actions, _), places) in groups {
        let used_by: BTreeSet<String> = places.iter().flat_map(|(_, used)| used.by.iter().cloned()).collect();
        let holders = match &whose {
            Whose::Role(role) => people.holders.get(role).cloned().unwrap_or_default(),
            _ => BTreeSet::new(),
        };
        let nodes = places.iter().fold((0, 0), |(touched, further), (scope, used)| {
            let all = known.get(&(server.clone(), scope.clone())).map_or(0, |all| all.union(&used.nodes).count());
            (touched + used.nodes.len(), further + all.saturating_sub(used.nodes.len()))
        });
        let what = if actions.iter().any(|action| action.changes()) { "changes" } else { "sees" };
        let when = steps.first().map(|steps| format!("-in-{}", word(&steps.join("-")))).unwrap_or_default();
        let first = places.first().map(|(scope, _)| word(scope)).unwrap_or_default();
        let base = format!("{}-{what}-{}-{first}{when}", word(whose.name()), word(&server));
        rules.push(Rule {
            id: free(&base, |id| rules.iter().any(|rule| rule.id == id)),
            count: places.iter().map(|(_, used)| used.count).sum(),
            scopes: places.into_iter().map(|(scope, _)| scope).collect(),
            also: holders.difference(&used_by).cloned().collect(),
            whose,
            actions,
            server,
            steps,
            used_by,
            nodes,
        });
    }
    rules
}

/// In which markings: none to name when no step was told, or when it was done in every single step.
fn condition(seen: &BTreeSet<Vec<String>>, all: &BTreeSet<Vec<String>>) -> Vec<Vec<String>> {
    if seen.iter().any(Vec::is_empty) || (!all.is_empty() && all.is_subset(seen)) {
        return Vec::new();
    }
    seen.iter().cloned().collect()
}

/// A name as a word of ids: letters, digits and hyphens.
fn word(text: &str) -> String {
    let mut word = String::new();
    for letter in text.chars() {
        match letter {
            letter if letter.is_ascii_alphanumeric() => word.push(letter.to_ascii_lowercase()),
            _ if word.ends_with('-') || word.is_empty() => {}
            _ => word.push('-'),
        }
    }
    let word = word.trim_end_matches('-');
    let short: String = word.chars().take(48).collect();
    if short.is_empty() { "one".to_owned() } else { short }
}

/// A name like this one that is free.
fn free(base: &str, taken: impl Fn(&str) -> bool) -> String {
    if !taken(base) {
        return base.to_owned();
    }
    let mut names = (2_u32..).map(|number| format!("{base}-{number}"));
    names.find(|name| !taken(name)).unwrap_or_default()
}

/// The server of an access.
fn server<'p>(plant: &'p Plant, access: &Access) -> Option<&'p Server> {
    plant.servers.get(&access.server)
}
