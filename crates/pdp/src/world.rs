//! A plant and its workflow as Cedar entities, built once per snapshot, with an index from the names of a request to
//! them. Decisions borrow the entities; only an asker whose roles differ from the registered ones gets a small set of
//! its own.

mod rows;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use access_model::{Action, MapDigest, ScopeMap};
use cedar_policy::{Entities, Entity, EntityUid, RestrictedExpression, Schema};
use smol_str::SmolStr;

use crate::alike::{self, Askers, Place};
use crate::fault::{FaultList, Faults, Origin, suggest};
use crate::kinds::{Kind, Kinds};
use crate::plant::{Plant, Scope, ScopeKind, Server};
use crate::workflow::{Marking, Workflow};
use rows::{Row, Rows};

/// The schema that policies are checked against.
pub const SCHEMA: &str = include_str!("plant.cedarschema");

pub(crate) struct World {
    pub plant: Plant,
    pub workflow: Workflow,
    pub schema: Schema,
    pub entities: Entities,
    pub persons: Askers,
    pub applications: Askers,
    pub servers: HashMap<SmolStr, Place>,
    steps: HashMap<EntityUid, Arc<[EntityUid]>>,
    kinds: Kinds,
    rows: Rows,
}

/// Actions that a policy decides; `update_history` is insert and modify together.
pub(crate) fn decided_actions() -> impl Iterator<Item = Action> {
    Action::ALL.into_iter().filter(|action| *action != Action::UpdateHistory)
}

impl World {
    pub(crate) fn build(plant: Plant, plant_text: &str, workflow: Workflow) -> Result<Self, Faults> {
        check_steps(&plant, plant_text, &workflow)?;
        let kinds = Kinds::new().map_err(internal)?;
        let schema = Schema::from_str(SCHEMA).map_err(internal)?;
        let rows = rows::all(&kinds, &plant, &workflow)?;
        // Errors of the entity store must not depend on the order of a hash map.
        #[expect(clippy::disallowed_methods, reason = "sorted in the next line")]
        let mut list: Vec<(&EntityUid, &Row)> = rows.iter().collect();
        list.sort_unstable_by_key(|(uid, _)| *uid);
        let entities = list.into_iter().map(|(_, row)| row.entity.clone());
        let entities = Entities::from_entities(entities, Some(&schema)).map_err(internal)?;
        let (persons, applications, servers) = (Askers::default(), Askers::default(), HashMap::new());
        let steps = HashMap::new();
        Ok(Self { plant, workflow, schema, entities, persons, applications, servers, steps, kinds, rows })
    }

    /// Makes the index that decisions go through, once it is known which things the rules name.
    pub(crate) fn index(
        mut self,
        named: &BTreeSet<EntityUid>,
        digest: &dyn Fn(&ScopeMap) -> MapDigest,
    ) -> Result<Self, Faults> {
        self.persons = alike::persons(&self, named);
        self.applications = alike::applications(&self, named);
        let mut servers: HashMap<SmolStr, Place> = HashMap::new();
        let mut before: Option<SmolStr> = None;
        for (uri, server) in &self.plant.servers {
            let other = before.as_ref().and_then(|uri| servers.get(uri));
            let place = alike::place(&self, server, named, digest, other)?;
            let uri = SmolStr::from(uri.as_str());
            servers.insert(uri.clone(), place);
            before = Some(uri);
        }
        self.servers = servers;
        self.steps = self.steps_of_examples();
        Ok(self)
    }

    pub(crate) fn uid(&self, kind: Kind, id: &str) -> EntityUid {
        self.kinds.uid(kind, id)
    }

    pub(crate) fn knows(&self, uid: &EntityUid) -> bool {
        self.rows.contains_key(uid)
    }

    /// What an entity is part of or names, sorted.
    pub(crate) fn refers_to(&self, uid: &EntityUid) -> &[EntityUid] {
        self.rows.get(uid).map_or(&[], |row| &row.refers_to)
    }

    /// The steps and phases that a scope names which stands in for all that are like it.
    pub(crate) fn steps_of(&self, example: &EntityUid) -> &[EntityUid] {
        self.steps.get(example).map_or(&[], |steps| steps)
    }

    /// Scopes that name the same steps share one list.
    fn steps_of_examples(&self) -> HashMap<EntityUid, Arc<[EntityUid]>> {
        let is_step = |uid: &&EntityUid| matches!(Kind::of(uid), Some(Kind::Step | Kind::Phase));
        let mut lists: BTreeSet<Arc<[EntityUid]>> = BTreeSet::new();
        let mut steps = HashMap::new();
        for uri in self.plant.servers.keys() {
            for alike in self.servers.get(uri.as_str()).into_iter().flat_map(Place::sorts) {
                let list: Arc<[EntityUid]> = self.refers_to(&alike.example).iter().filter(is_step).cloned().collect();
                let list = lists.get(&list).cloned().unwrap_or(list);
                lists.insert(Arc::clone(&list));
                steps.insert(alike.example.clone(), list);
            }
        }
        steps
    }

    /// Ids of one kind, sorted.
    pub(crate) fn ids(&self, kind: Kind) -> Vec<&str> {
        #[expect(clippy::disallowed_methods, reason = "sorted below")]
        let of_kind = self.rows.keys().filter(|uid| Kind::of(uid) == Some(kind));
        let mut ids: Vec<&str> = of_kind.map(|uid| uid.id().unescaped()).collect();
        ids.sort_unstable();
        ids
    }

    /// The entities that a decision about `about` can see when `asker` holds just `roles`, and, for what-if
    /// questions, is also assigned to some equipment.
    pub(crate) fn narrowed(
        &self,
        asker: &EntityUid,
        roles: &[String],
        assigned: Option<&str>,
        about: impl IntoIterator<Item = EntityUid>,
    ) -> Result<Entities, Faults> {
        let is_role = |uid: &EntityUid| Kind::of(uid) == Some(Kind::Role);
        let roles: BTreeSet<EntityUid> = roles.iter().map(|role| self.uid(Kind::Role, role)).collect();
        let mut wanted: Vec<EntityUid> = about.into_iter().chain(roles.iter().cloned()).collect();
        let mut list = Vec::new();
        if let Some(row) = self.rows.get(asker) {
            let (uid, mut attributes, parents) = row.entity.clone().into_inner();
            if let Some(more) = assigned.filter(|_| Kind::of(&uid) == Some(Kind::Person)) {
                let person = self.plant.persons.get(uid.id().unescaped());
                let names =
                    person.into_iter().flat_map(|person| person.assigned.iter().map(String::as_str)).chain([more]);
                let uids: Vec<EntityUid> = names.map(|name| self.uid(Kind::Equipment, name)).collect();
                wanted.extend(uids.iter().cloned());
                let set = uids.into_iter().map(RestrictedExpression::new_entity_uid);
                attributes.insert("assigned".to_owned(), RestrictedExpression::new_set(set));
            }
            let parents = parents.into_iter().filter(|parent| !is_role(parent)).chain(roles).collect();
            list.push(Entity::new(uid, attributes, parents).map_err(internal)?);
            wanted.extend(row.refers_to.iter().filter(|uid| !is_role(uid)).cloned());
        }
        let mut seen: HashSet<EntityUid> = HashSet::from([asker.clone()]);
        while let Some(uid) = wanted.pop() {
            if let Some(row) = self.rows.get(&uid).filter(|_| seen.insert(uid)) {
                list.push(row.entity.clone());
                wanted.extend(row.refers_to.iter().cloned());
            }
        }
        let actions = self.schema.action_entities().map_err(internal)?;
        Entities::from_entities(list.into_iter().chain(actions.iter().cloned()), None).map_err(internal)
    }

    /// The steps and phases a marking stands in.
    pub(crate) fn standing(&self, marking: &Marking) -> (BTreeSet<String>, BTreeSet<String>) {
        let steps: BTreeSet<String> = self.workflow.marked(marking).map(str::to_owned).collect();
        let phases = steps.iter().filter_map(|step| self.phase_of(step)).map(str::to_owned).collect();
        (steps, phases)
    }

    /// The phase of a step.
    pub(crate) fn phase_of(&self, step: &str) -> Option<&str> {
        self.workflow.steps().iter().find(|one| one.name == step).and_then(|one| one.phase.as_deref())
    }
}

/// `Scope::"server/scope"` or `Method::"server/method"`.
pub(crate) fn scope_uid(server: &Server, scope: &Scope) -> (Kind, String) {
    let kind = match scope.kind {
        ScopeKind::Nodes => Kind::Scope,
        ScopeKind::Method { .. } => Kind::Method,
    };
    (kind, format!("{}/{}", server.name, scope.name))
}

/// Steps that scopes name must be steps of the workflow.
fn check_steps(plant: &Plant, text: &str, workflow: &Workflow) -> Result<(), Faults> {
    let mut faults = FaultList::new(Origin::Plant, text);
    let known: BTreeSet<&str> = workflow.steps().iter().map(|step| step.name.as_str()).collect();
    for scope in plant.servers.values().flat_map(|server| &server.scopes) {
        for step in scope.steps.iter().filter(|step| !known.contains(step.as_str())) {
            let quoted = format!("\"{step}\"");
            let at = text.find(&quoted).unwrap_or(0);
            let hint = suggest(step, known.iter().copied());
            let message = format!("scope `{}` names step `{step}`, which the workflow does not have", scope.name);
            faults.add(at..at + quoted.len(), message, hint);
        }
    }
    faults.finish()
}

/// What cannot happen with a checked plant; said, not panicked, if it does.
pub(crate) fn internal(error: impl Display) -> Faults {
    let mut faults = FaultList::new(Origin::Plant, "");
    faults.add(0..0, format!("the plant cannot be turned into entities: {error}"), None);
    faults.finish().err().unwrap_or(Faults(Vec::new()))
}
