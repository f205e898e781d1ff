//! Things that no rule can tell apart: same kind, same place, same attributes, and none of them named by a rule. One of
//! them stands in for all. A grant judges it once, and a decision touches few entities, however many the plant has.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use access_model::{Interlock, MapDigest, ScopeIndex, ScopeMap};
use cedar_policy::EntityUid;
use smol_str::SmolStr;

use crate::fault::Faults;
use crate::kinds::Kind;
use crate::plant::{Plant, Scope, Server};
use crate::world::{World, internal, scope_uid};

/// A person or an application that may ask; shared by all that are alike.
pub(crate) struct Asker {
    /// The one that stands in for all.
    pub uid: EntityUid,
    /// Number of the sort.
    pub number: usize,
    /// Roles held always, sorted; one list for all who hold the same.
    pub roles: Arc<[String]>,
    /// Roles held only with a reason, sorted, each with its time box.
    pub emergency: Vec<(String, Duration)>,
}

/// Everyone of one kind who may ask.
#[derive(Default)]
pub(crate) struct Askers {
    by_name: HashMap<SmolStr, u32>,
    all: Vec<Asker>,
    roles: BTreeSet<Arc<[String]>>,
}

impl Askers {
    /// How many sorts there are.
    pub(crate) fn sorts(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Asker> {
        let number = self.by_name.get(name)?;
        usize::try_from(*number).ok().and_then(|number| self.all.get(number))
    }
}

/// By the name of a scope.
pub(crate) type Positions = HashMap<SmolStr, (u32, u32)>;

/// A server that may be asked about.
pub(crate) struct Place {
    pub digest: MapDigest,
    /// For each scope, its position (without `public`) and its sort. Servers of one make share it: the fewer maps a
    /// decision may look into, the more of them are at hand.
    by_name: Arc<Positions>,
    sorts: Vec<Alike>,
    /// Of the scopes in which something holds, by their positions.
    interlocks: BTreeMap<u32, Interlock>,
}

/// Scopes that are alike.
pub(crate) struct Alike {
    /// The one that stands in for all.
    pub example: EntityUid,
    /// All of them, in the map.
    pub members: Vec<ScopeIndex>,
}

impl Place {
    /// The scope that stands in for this one, and the position of this one.
    pub(crate) fn scope(&self, name: &str) -> Option<(&EntityUid, u32)> {
        let (position, sort) = self.by_name.get(name)?;
        let sort = usize::try_from(*sort).ok().and_then(|sort| self.sorts.get(sort))?;
        Some((&sort.example, *position))
    }

    pub(crate) fn sorts(&self) -> &[Alike] {
        &self.sorts
    }

    /// What holds for values in the scope at this position.
    pub(crate) fn interlock(&self, position: u32) -> Option<&Interlock> {
        self.interlocks.get(&position)
    }
}

pub(crate) fn persons(world: &World, named: &BTreeSet<EntityUid>) -> Askers {
    let mut sorts = BTreeMap::new();
    let mut askers = Askers::default();
    for (name, one) in &world.plant.persons {
        let uid = world.uid(Kind::Person, name);
        let itself = Some(&uid).filter(|uid| named.contains(uid)).cloned();
        let key = (itself, &one.roles, &one.groups, &one.assigned, &one.company, &one.labels);
        let number = *sorts.entry(key).or_insert_with(|| askers.add(&world.plant, uid, &one.roles));
        askers.by_name.insert(name.as_str().into(), number);
    }
    askers
}

pub(crate) fn applications(world: &World, named: &BTreeSet<EntityUid>) -> Askers {
    let mut sorts = BTreeMap::new();
    let mut askers = Askers::default();
    for (uri, one) in &world.plant.applications {
        let uid = world.uid(Kind::Application, uri);
        let itself = Some(&uid).filter(|uid| named.contains(uid)).cloned();
        let key = (itself, &one.roles, &one.assigned, &one.company, &one.labels);
        let number = *sorts.entry(key).or_insert_with(|| askers.add(&world.plant, uid, &one.roles));
        askers.by_name.insert(uri.as_str().into(), number);
    }
    askers
}

impl Askers {
    /// Adds a sort and gives its number.
    fn add(&mut self, plant: &Plant, uid: EntityUid, held: &[String]) -> u32 {
        let time_box = |role: &String| plant.roles.get(role).and_then(|row| row.break_glass);
        let roles: Arc<[String]> = held.iter().filter(|role| time_box(role).is_none()).cloned().collect();
        let roles = self.roles.get(&roles).cloned().unwrap_or(roles);
        self.roles.insert(Arc::clone(&roles));
        let emergency = held.iter().filter_map(|role| time_box(role).map(|limit| (role.clone(), limit))).collect();
        let number = self.all.len();
        self.all.push(Asker { uid, number, roles, emergency });
        u32::try_from(number).unwrap_or(u32::MAX)
    }
}

/// The index of a server; `before` is another one, perhaps of the same make.
pub(crate) fn place(
    world: &World,
    server: &Server,
    named: &BTreeSet<EntityUid>,
    digest: &dyn Fn(&ScopeMap) -> MapDigest,
    before: Option<&Place>,
) -> Result<Place, Faults> {
    type Key<'a> = (Option<Kind>, &'a [EntityUid], &'a [String], Option<EntityUid>);
    let map = server.scope_map().map_err(internal)?;
    let mut numbers: BTreeMap<Key<'_>, u32> = BTreeMap::new();
    let mut sorts: Vec<Alike> = Vec::new();
    let mut by_name = Positions::with_capacity(server.scopes.len());
    for (position, scope) in (0_u32..).zip(&server.scopes) {
        let uid = world.scope_uid(server, scope);
        let itself = Some(&uid).filter(|uid| named.contains(uid)).cloned();
        let key = (Kind::of(&uid), world.refers_to(&uid), scope.labels.as_slice(), itself);
        let fresh = u32::try_from(sorts.len()).unwrap_or(u32::MAX);
        let sort = *numbers.entry(key).or_insert(fresh);
        if sort == fresh {
            sorts.push(Alike { example: uid, members: Vec::new() });
        }
        if let Some(alike) = usize::try_from(sort).ok().and_then(|sort| sorts.get_mut(sort)) {
            alike.members.push(ScopeIndex(position.saturating_add(1)));
        }
        by_name.insert(scope.name.as_str().into(), (position, sort));
    }
    let bound = (0_u32..).zip(&server.scopes).filter(|(_, scope)| !scope.interlock.is_empty());
    let interlocks = bound.map(|(position, scope)| (position, scope.interlock.clone())).collect();
    let same = before.filter(|place| *place.by_name == by_name).map(|place| Arc::clone(&place.by_name));
    Ok(Place { digest: digest(&map), by_name: same.unwrap_or_else(|| Arc::new(by_name)), sorts, interlocks })
}

impl World {
    fn scope_uid(&self, server: &Server, scope: &Scope) -> EntityUid {
        let (kind, id) = scope_uid(server, scope);
        self.uid(kind, &id)
    }
}
