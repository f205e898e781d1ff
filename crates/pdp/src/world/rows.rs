//! One Cedar entity for each thing of the plant and the workflow.

use std::collections::{HashMap, HashSet};

use cedar_policy::{Entity, EntityUid, RestrictedExpression};

use super::{internal, scope_uid};
use crate::fault::Faults;
use crate::kinds::{Kind, Kinds};
use crate::plant::{EquipmentPlace, Plant, Scope, ScopeKind, Server};
use crate::workflow::Workflow;

pub(super) type Rows = HashMap<EntityUid, Row>;

/// An entity, and the entities it is part of or names in an attribute; sorted.
pub(super) struct Row {
    pub entity: Entity,
    pub refers_to: Vec<EntityUid>,
}

pub(super) fn all(kinds: &Kinds, plant: &Plant, workflow: &Workflow) -> Result<Rows, Faults> {
    let mut rows = Builder { kinds, rows: HashMap::new() };
    rows.place(plant)?;
    rows.people(plant)?;
    rows.steps(workflow)?;
    for server in plant.servers.values() {
        rows.server(server)?;
    }
    Ok(rows.rows)
}

struct Builder<'a> {
    kinds: &'a Kinds,
    rows: Rows,
}

/// Attributes under construction, with the entities they name.
#[derive(Default)]
struct Attributes {
    values: HashMap<String, RestrictedExpression>,
    refers_to: Vec<EntityUid>,
}

impl Attributes {
    fn words(mut self, name: &str, words: &[String]) -> Self {
        let set = words.iter().map(|word| RestrictedExpression::new_string(word.clone()));
        self.values.insert(name.to_owned(), RestrictedExpression::new_set(set));
        self
    }

    fn word(mut self, name: &str, word: &str) -> Self {
        self.values.insert(name.to_owned(), RestrictedExpression::new_string(word.to_owned()));
        self
    }

    fn entity(mut self, name: &str, uid: EntityUid) -> Self {
        self.refers_to.push(uid.clone());
        self.values.insert(name.to_owned(), RestrictedExpression::new_entity_uid(uid));
        self
    }

    fn entities(mut self, name: &str, uids: Vec<EntityUid>) -> Self {
        let set = uids.iter().cloned().map(RestrictedExpression::new_entity_uid);
        self.values.insert(name.to_owned(), RestrictedExpression::new_set(set));
        self.refers_to.extend(uids);
        self
    }
}

impl Builder<'_> {
    fn add(&mut self, uid: EntityUid, attributes: Attributes, parents: Vec<EntityUid>) -> Result<(), Faults> {
        let mut refers_to = attributes.refers_to;
        refers_to.extend(parents.iter().cloned());
        refers_to.sort_unstable();
        refers_to.dedup();
        let parents: HashSet<EntityUid> = parents.into_iter().collect();
        let entity = Entity::new(uid.clone(), attributes.values, parents).map_err(internal)?;
        self.rows.insert(uid, Row { entity, refers_to });
        Ok(())
    }

    fn named(&self, kind: Kind, names: &[String]) -> Vec<EntityUid> {
        names.iter().map(|name| self.kinds.uid(kind, name)).collect()
    }

    fn place(&mut self, plant: &Plant) -> Result<(), Faults> {
        for (name, site) in &plant.sites {
            let uid = self.kinds.uid(Kind::Site, name);
            self.add(uid, Attributes::default().words("labels", &site.labels), Vec::new())?;
        }
        for (name, zone) in &plant.zones {
            let uid = self.kinds.uid(Kind::Zone, name);
            let site = self.kinds.uid(Kind::Site, &zone.site);
            self.add(uid, Attributes::default().words("labels", &zone.labels), vec![site])?;
        }
        for (name, one) in &plant.equipment {
            let whole = match &one.place {
                EquipmentPlace::Zone(zone) => self.kinds.uid(Kind::Zone, zone),
                EquipmentPlace::PartOf(equipment) => self.kinds.uid(Kind::Equipment, equipment),
            };
            let uid = self.kinds.uid(Kind::Equipment, name);
            self.add(uid, Attributes::default().words("labels", &one.labels), vec![whole])?;
        }
        Ok(())
    }

    /// Roles that a role includes are already in everybody's list, so that narrowing to one role is exact.
    fn people(&mut self, plant: &Plant) -> Result<(), Faults> {
        for role in plant.roles.keys() {
            self.add(self.kinds.uid(Kind::Role, role), Attributes::default(), Vec::new())?;
        }
        for group in plant.groups.keys() {
            self.add(self.kinds.uid(Kind::Group, group), Attributes::default(), Vec::new())?;
        }
        let lasting = |role: &&String| plant.roles.get(*role).is_some_and(|row| row.break_glass.is_none());
        for (name, person) in &plant.persons {
            let roles: Vec<String> = person.roles.iter().filter(lasting).cloned().collect();
            let mut parents = self.named(Kind::Role, &roles);
            parents.extend(self.named(Kind::Group, &person.groups));
            let attributes = Attributes::default()
                .words("labels", &person.labels)
                .word("company", &person.company)
                .entities("assigned", self.named(Kind::Equipment, &person.assigned));
            self.add(self.kinds.uid(Kind::Person, name), attributes, parents)?;
        }
        for (uri, one) in &plant.applications {
            let roles: Vec<String> = one.roles.iter().filter(lasting).cloned().collect();
            let parents = self.named(Kind::Role, &roles);
            let attributes = Attributes::default()
                .words("labels", &one.labels)
                .word("company", &one.company)
                .entities("assigned", self.named(Kind::Equipment, &one.assigned));
            self.add(self.kinds.uid(Kind::Application, uri), attributes, parents)?;
        }
        Ok(())
    }

    fn steps(&mut self, workflow: &Workflow) -> Result<(), Faults> {
        for (phase, procedure) in workflow.phases() {
            let procedure = self.kinds.uid(Kind::Procedure, procedure);
            self.add(procedure.clone(), Attributes::default(), Vec::new())?;
            self.add(self.kinds.uid(Kind::Phase, phase), Attributes::default(), vec![procedure])?;
        }
        for step in workflow.steps() {
            let phase = step.phase.iter().map(|phase| self.kinds.uid(Kind::Phase, phase)).collect();
            self.add(self.kinds.uid(Kind::Step, &step.name), Attributes::default(), phase)?;
        }
        Ok(())
    }

    fn server(&mut self, server: &Server) -> Result<(), Faults> {
        let uid = self.kinds.uid(Kind::Server, &server.name);
        let equipment = self.kinds.uid(Kind::Equipment, &server.equipment);
        self.add(uid.clone(), Attributes::default(), vec![equipment])?;
        for scope in &server.scopes {
            self.scope(server, scope, &uid)?;
        }
        Ok(())
    }

    fn scope(&mut self, server: &Server, scope: &Scope, server_uid: &EntityUid) -> Result<(), Faults> {
        let equipment = self.kinds.uid(Kind::Equipment, &scope.equipment);
        let mut parents = vec![server_uid.clone(), equipment.clone()];
        if let ScopeKind::Method { part_of: Some(whole) } = &scope.kind {
            parents.push(self.kinds.uid(Kind::Scope, &format!("{}/{whole}", server.name)));
        }
        let attributes = Attributes::default()
            .words("labels", &scope.labels)
            .entity("equipment", equipment)
            .entity("server", server_uid.clone())
            .entities("steps", self.named(Kind::Step, &scope.steps));
        let (kind, id) = scope_uid(server, scope);
        self.add(self.kinds.uid(kind, &id), attributes, parents)
    }
}
