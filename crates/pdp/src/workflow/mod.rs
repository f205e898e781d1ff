//! The workflow of a plant: a Petri net whose places are the steps of a recipe (ISA-88: a procedure has phases, a
//! phase has steps). Its marking is a fact for policy; a grant that needs a step ends when the marking leaves it.
//! Format: `docs/reference/workflow.md`.

mod explore;
mod file;

use std::collections::{BTreeMap, BTreeSet};

use crate::fault::{FaultList, Faults, Origin, suggest};
use file::span_of;

pub use explore::{MAX_MARKINGS, Reach};

/// The largest workflow file that is read, in bytes.
pub const MAX_WORKFLOW_FILE: usize = 4 << 20;
/// The most steps, and the most transitions, of one workflow.
pub const MAX_NODES: usize = 4_096;

/// A checked net: every name defined, every marking that can be reached bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workflow {
    steps: Vec<Step>,
    phases: BTreeMap<String, String>,
    transitions: Vec<Transition>,
    initial: Marking,
}

/// A place of the net.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// The phase it belongs to.
    pub phase: Option<String>,
}

/// A transition of the net.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Its name.
    pub name: String,
    /// Steps and how many tokens each gives up.
    from: Vec<(usize, u32)>,
    /// Steps and how many tokens each receives.
    to: Vec<(usize, u32)>,
}

/// How many tokens each step holds, in the order of [`Workflow::steps`].
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Marking(Vec<u32>);

/// Why a transition did not fire or a marking was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidStep {
    /// No such transition.
    #[error("no transition is called `{0}`")]
    UnknownTransition(String),
    /// No such step.
    #[error("no step is called `{0}`")]
    UnknownStep(String),
    /// The transition needs tokens that are not there.
    #[error("transition `{transition}` is not enabled: nothing in {}", .missing.join(", "))]
    NotEnabled {
        /// The transition.
        transition: String,
        /// The steps that hold too few tokens.
        missing: Vec<String>,
    },
    /// The marking holds more tokens than a number can count.
    #[error("step `{0}` would hold too many tokens")]
    Overflow(String),
}

impl Workflow {
    /// Reads and checks a workflow, TOML, or JSON when it starts with `{`.
    ///
    /// # Errors
    /// Every fault with its line: syntax, unknown keys, steps or phases used but not defined, names defined twice,
    /// transitions that take from nothing, weights of zero, and a net whose markings are not bounded.
    pub fn parse(text: &str) -> Result<Self, Faults> {
        let mut faults = FaultList::new(Origin::Workflow, text);
        if text.len() > MAX_WORKFLOW_FILE {
            faults.add(0..0, format!("the file has {} bytes, at most {MAX_WORKFLOW_FILE} are read", text.len()), None);
            faults.finish()?;
            return Ok(Self::empty());
        }
        let file = file::read(text)?;
        let workflow = build(text, &file, &mut faults);
        faults.finish()?;
        workflow.check_bounded(text)?;
        Ok(workflow)
    }

    /// A plant without a workflow: no steps, nothing to fire.
    #[must_use]
    pub fn empty() -> Self {
        Self { steps: Vec::new(), phases: BTreeMap::new(), transitions: Vec::new(), initial: Marking::default() }
    }

    /// The steps, in the order of the file.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The phases, each with its procedure.
    pub fn phases(&self) -> impl Iterator<Item = (&str, &str)> {
        self.phases.iter().map(|(phase, procedure)| (phase.as_str(), procedure.as_str()))
    }

    /// The names of the transitions, in the order of the file.
    pub fn transitions(&self) -> impl Iterator<Item = &str> {
        self.transitions.iter().map(|transition| transition.name.as_str())
    }

    /// The marking at the start.
    #[must_use]
    pub fn initial(&self) -> Marking {
        self.initial.clone()
    }

    /// Whether a step has this name.
    #[must_use]
    pub fn has_step(&self, name: &str) -> bool {
        self.steps.iter().any(|step| step.name == name)
    }

    /// The names of the steps that hold a token, in the order of the file.
    pub fn marked<'a>(&'a self, marking: &'a Marking) -> impl Iterator<Item = &'a str> {
        self.steps.iter().zip(&marking.0).filter(|(_, tokens)| **tokens > 0).map(|(step, _)| step.name.as_str())
    }

    /// The tokens of every step that holds one, by name: what a store keeps.
    #[must_use]
    pub fn to_map(&self, marking: &Marking) -> BTreeMap<String, u32> {
        let pairs = self.steps.iter().zip(&marking.0).filter(|(_, tokens)| **tokens > 0);
        pairs.map(|(step, tokens)| (step.name.clone(), *tokens)).collect()
    }

    /// The marking with these tokens, everything else empty.
    ///
    /// # Errors
    /// A step that this workflow does not have.
    pub fn marking(&self, tokens: &BTreeMap<String, u32>) -> Result<Marking, InvalidStep> {
        if let Some(unknown) = tokens.keys().find(|name| !self.has_step(name)) {
            return Err(InvalidStep::UnknownStep(unknown.clone()));
        }
        Ok(Marking(self.steps.iter().map(|step| tokens.get(&step.name).copied().unwrap_or(0)).collect()))
    }

    /// The marking with one token in each of these steps.
    ///
    /// # Errors
    /// A step that this workflow does not have.
    pub fn marking_of<'s>(&self, steps: impl IntoIterator<Item = &'s str>) -> Result<Marking, InvalidStep> {
        self.marking(&steps.into_iter().map(|step| (step.to_owned(), 1)).collect())
    }

    /// The transitions that can fire, in the order of the file.
    pub fn enabled<'a>(&'a self, marking: &'a Marking) -> impl Iterator<Item = &'a str> {
        let ready =
            |transition: &&Transition| transition.from.iter().all(|(at, weight)| marking.tokens(*at) >= *weight);
        self.transitions.iter().filter(ready).map(|transition| transition.name.as_str())
    }

    /// The marking after a transition fired.
    ///
    /// # Errors
    /// An unknown transition, or one that is not enabled.
    pub fn fire(&self, marking: &Marking, transition: &str) -> Result<Marking, InvalidStep> {
        let found = self.transitions.iter().find(|one| one.name == transition);
        let found = found.ok_or_else(|| InvalidStep::UnknownTransition(transition.to_owned()))?;
        let lacking = found.from.iter().filter(|(at, weight)| marking.tokens(*at) < *weight);
        let missing: Vec<String> = lacking.map(|(at, _)| self.step_name(*at)).collect();
        if !missing.is_empty() {
            return Err(InvalidStep::NotEnabled { transition: transition.to_owned(), missing });
        }
        self.moved(marking, found)
    }

    fn moved(&self, marking: &Marking, transition: &Transition) -> Result<Marking, InvalidStep> {
        let mut next = marking.clone();
        next.0.resize(self.steps.len(), 0);
        for (at, weight) in &transition.from {
            if let Some(tokens) = next.0.get_mut(*at) {
                *tokens = tokens.saturating_sub(*weight);
            }
        }
        for (at, weight) in &transition.to {
            if let Some(tokens) = next.0.get_mut(*at) {
                *tokens = tokens.checked_add(*weight).ok_or_else(|| InvalidStep::Overflow(self.step_name(*at)))?;
            }
        }
        Ok(next)
    }

    fn step_name(&self, at: usize) -> String {
        self.steps.get(at).map(|step| step.name.clone()).unwrap_or_default()
    }
}

impl Marking {
    fn tokens(&self, at: usize) -> u32 {
        self.0.get(at).copied().unwrap_or(0)
    }

    /// Whether every step holds at least as many tokens as in `other`, and some step more.
    fn covers(&self, other: &Self) -> bool {
        self != other && self.0.iter().zip(&other.0).all(|(mine, theirs)| mine >= theirs)
    }
}

fn build(text: &str, file: &file::File, faults: &mut FaultList<'_>) -> Workflow {
    let procedures = define(text, "procedure", file.procedure.iter().map(|one| one.name.as_str()), faults);
    let phases = define(text, "phase", file.phase.iter().map(|one| one.name.as_str()), faults);
    let steps = define(text, "step", file.step.iter().map(|one| one.name.as_str()), faults);
    define(text, "transition", file.transition.iter().map(|one| one.name.as_str()), faults);
    for phase in &file.phase {
        known(text, "procedure", &phase.procedure, &procedures, faults);
    }
    for phase in file.step.iter().filter_map(|step| step.phase.as_ref()) {
        known(text, "phase", phase, &phases, faults);
    }
    if file.step.len() > MAX_NODES || file.transition.len() > MAX_NODES {
        faults.add(0..0, format!("more than {MAX_NODES} steps or transitions"), None);
    }
    let order: BTreeMap<&str, usize> =
        file.step.iter().enumerate().map(|(at, step)| (step.name.as_str(), at)).collect();
    let mut arcs = |arcs: &[file::Arc]| {
        let mut all: BTreeMap<usize, u32> = BTreeMap::new();
        for (name, weight) in arcs.iter().map(file::Arc::parts) {
            known(text, "step", name, &steps, faults);
            if weight == 0 {
                faults.add(span_of(text, name, 0), format!("the arc of `{name}` has weight 0"), None);
            }
            if let Some(at) = order.get(name) {
                let sum = all.entry(*at).or_default();
                *sum = sum.saturating_add(weight);
            }
        }
        all.into_iter().collect::<Vec<_>>()
    };
    let mut transitions = Vec::with_capacity(file.transition.len());
    for one in &file.transition {
        transitions.push(Transition { name: one.name.clone(), from: arcs(&one.from), to: arcs(&one.to) });
    }
    for one in transitions.iter().filter(|one| one.from.is_empty()) {
        let message = format!("transition `{}` takes from no step, so it could fire for ever", one.name);
        faults.add(span_of(text, &one.name, 0), message, Some("name a step in `from`".into()));
    }
    if !file.step.is_empty() && file.step.iter().all(|step| step.tokens == 0) {
        let hint = Some("write `tokens = 1` at the step the recipe starts in".to_owned());
        faults.add(
            span_of(text, &file.step.first().map(|s| s.name.clone()).unwrap_or_default(), 0),
            "no step holds a token",
            hint,
        );
    }
    Workflow {
        steps: file.step.iter().map(|step| Step { name: step.name.clone(), phase: step.phase.clone() }).collect(),
        phases: file.phase.iter().map(|phase| (phase.name.clone(), phase.procedure.clone())).collect(),
        transitions,
        initial: Marking(file.step.iter().map(|step| step.tokens).collect()),
    }
}

fn define<'f>(
    text: &str,
    kind: &str,
    names: impl Iterator<Item = &'f str>,
    faults: &mut FaultList<'_>,
) -> BTreeSet<&'f str> {
    let mut defined = BTreeSet::new();
    for name in names {
        if name.is_empty() || name.len() > 256 || name.chars().any(char::is_control) {
            let message = format!("{kind} `{name}` is empty, longer than 256 bytes or holds a control character");
            faults.add(span_of(text, name, 0), message, None);
        }
        if !defined.insert(name) {
            faults.add(span_of(text, name, 1), format!("{kind} `{name}` is defined twice"), None);
        }
    }
    defined
}

fn known(text: &str, kind: &str, name: &str, defined: &BTreeSet<&str>, faults: &mut FaultList<'_>) {
    if !defined.contains(name) {
        let hint = suggest(name, defined.iter().copied());
        faults.add(span_of(text, name, 0), format!("no {kind} is called `{name}`"), hint);
    }
}
