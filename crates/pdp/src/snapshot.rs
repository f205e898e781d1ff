//! A snapshot: plant, policies and workflow parsed once, with the marking and epoch under which questions are
//! answered. A new marking is a new snapshot that shares everything else.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use access_model::{Epoch, MapDigest, Principal, ScopeMap};
use cedar_policy::{Context, EntityUid, RestrictedExpression};

use crate::fault::{Fault, Faults};
use crate::kinds::Kind;
use crate::plant::Plant;
use crate::rules::Rules;
use crate::workflow::{InvalidStep, Marking, Workflow};
use crate::world::World;

/// The texts that make a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// The plant file.
    pub plant: &'a str,
    /// The policies.
    pub policies: &'a str,
    /// The workflow file, if the plant has one.
    pub workflow: Option<&'a str>,
}

/// Everything a decision depends on besides the question.
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) marking: Marking,
    pub(crate) epoch: Epoch,
    pub(crate) facts: Arc<Facts>,
}

pub(crate) struct Loaded {
    pub world: World,
    pub rules: Rules,
}

/// What the marking says, in the form policies read it.
pub(crate) struct Facts {
    pub steps: BTreeSet<String>,
    pub phases: BTreeSet<String>,
    /// The context without an application, then one for each sort of application, made when first needed.
    contexts: Vec<OnceLock<Context>>,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("epoch", &self.epoch).field("steps", &self.facts.steps).finish_non_exhaustive()
    }
}

impl Snapshot {
    /// Parses and checks everything whole. `digest` is how tokens name a scope map.
    ///
    /// # Errors
    /// Every fault of every file, with file, line and hint. Policies are checked only against a plant that is whole.
    pub fn load(sources: Sources<'_>, digest: &dyn Fn(&ScopeMap) -> MapDigest, epoch: Epoch) -> Result<Self, Faults> {
        let plant = Plant::parse(sources.plant);
        let workflow = sources.workflow.map_or_else(|| Ok(Workflow::empty()), Workflow::parse);
        let (plant, workflow) = match (plant, workflow) {
            (Ok(plant), Ok(workflow)) => (plant, workflow),
            (plant, workflow) => return Err(both(plant.err(), workflow.err())),
        };
        let world = World::build(plant, sources.plant, workflow)?;
        let rules = Rules::load(sources.policies, &world)?;
        let world = world.index(&rules.named, digest)?;
        let marking = world.workflow.initial();
        let facts = Arc::new(Facts::new(&world, &marking));
        Ok(Self { loaded: Arc::new(Loaded { world, rules }), marking, epoch, facts })
    }

    /// This snapshot with another marking of the same workflow.
    #[must_use]
    pub fn with_marking(&self, marking: Marking, epoch: Epoch) -> Self {
        let facts = Arc::new(Facts::new(&self.loaded.world, &marking));
        Self { loaded: Arc::clone(&self.loaded), marking, epoch, facts }
    }

    /// This snapshot in these steps, one token each: for cases and what-if questions.
    ///
    /// # Errors
    /// A step that the workflow does not have.
    pub fn in_steps<'s>(&self, steps: impl IntoIterator<Item = &'s str>) -> Result<Self, InvalidStep> {
        let marking = self.workflow().marking_of(steps)?;
        Ok(self.with_marking(marking, self.epoch))
    }

    /// This snapshot after a transition fired.
    ///
    /// # Errors
    /// An unknown transition, or one that is not enabled.
    pub fn fire(&self, transition: &str, epoch: Epoch) -> Result<Self, InvalidStep> {
        let marking = self.workflow().fire(&self.marking, transition)?;
        Ok(self.with_marking(marking, epoch))
    }

    /// The plant.
    #[must_use]
    pub fn plant(&self) -> &Plant {
        &self.loaded.world.plant
    }

    /// The workflow.
    #[must_use]
    pub fn workflow(&self) -> &Workflow {
        &self.loaded.world.workflow
    }

    /// Where the workflow stands.
    #[must_use]
    pub fn marking(&self) -> &Marking {
        &self.marking
    }

    /// The names of the steps that hold a token.
    #[must_use]
    pub fn steps(&self) -> &BTreeSet<String> {
        &self.facts.steps
    }

    /// The number of this snapshot.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// How many policies there are.
    #[must_use]
    pub fn policies(&self) -> usize {
        self.loaded.rules.list.len()
    }

    /// The principal with every role and group the plant gives to this person, or to the application when no person
    /// asks. Break-glass roles are among them only with `break_glass`. Names the plant does not know hold nothing.
    #[must_use]
    pub fn principal(&self, person: Option<&str>, application: Option<&str>, break_glass: bool) -> Principal {
        let plant = self.plant();
        let lasting =
            |role: &&String| break_glass || plant.roles.get(*role).is_some_and(|row| row.break_glass.is_none());
        let of_person = person.and_then(|name| plant.persons.get(name));
        let of_application = application.and_then(|uri| plant.applications.get(uri)).filter(|_| person.is_none());
        let roles = of_person.map(|one| &one.roles).or(of_application.map(|one| &one.roles));
        Principal {
            person: person.map(str::to_owned),
            application: application.map(|uri| access_model::ApplicationUri(uri.to_owned())),
            roles: roles.into_iter().flatten().filter(lasting).cloned().collect(),
            groups: of_person.map(|one| one.groups.clone()).unwrap_or_default(),
        }
    }
}

impl Facts {
    fn new(world: &World, marking: &Marking) -> Self {
        let (steps, phases) = world.standing(marking);
        let contexts = (0..=world.applications.sorts()).map(|_| OnceLock::new()).collect();
        Self { steps, phases, contexts }
    }

    /// The context of a question. Cheap for an asker without break-glass: made once, then shared.
    pub(crate) fn context(
        &self,
        world: &World,
        application: Option<(&EntityUid, usize)>,
        break_glass: bool,
    ) -> Context {
        if break_glass {
            return self.make(world, application.map(|(uid, _)| uid), true);
        }
        let slot = self.contexts.get(application.map_or(0, |(_, number)| number + 1));
        let make = || self.make(world, application.map(|(uid, _)| uid), false);
        slot.map_or_else(make, |slot| slot.get_or_init(make).clone())
    }

    fn make(&self, world: &World, application: Option<&EntityUid>, break_glass: bool) -> Context {
        let set = |kind: Kind, names: &BTreeSet<String>| {
            let uids = names.iter().map(|name| RestrictedExpression::new_entity_uid(world.uid(kind, name)));
            RestrictedExpression::new_set(uids)
        };
        let mut pairs = vec![
            ("steps".to_owned(), set(Kind::Step, &self.steps)),
            ("phases".to_owned(), set(Kind::Phase, &self.phases)),
            ("break_glass".to_owned(), RestrictedExpression::new_bool(break_glass)),
        ];
        if let Some(uid) = application {
            pairs.push(("application".to_owned(), RestrictedExpression::new_entity_uid(uid.clone())));
        }
        // Pairs with distinct keys and plain values always make a context; without one every rule that reads it
        // fails, and a failing rule forbids.
        Context::from_pairs(pairs).unwrap_or_else(|_| Context::empty())
    }
}

fn both(one: Option<Faults>, other: Option<Faults>) -> Faults {
    let all: Vec<Fault> = one.into_iter().chain(other).flat_map(|faults| faults.0).collect();
    Faults(all)
}
