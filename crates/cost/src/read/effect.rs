//! What would be read and change nothing: a sequence that no request runs through, an annotation on what no step uses, a pool of which nobody
//! acquires anything. They are refused, for who wrote them meant something; of a model with several scenarios, what belongs to the others is left out.

use std::collections::BTreeSet;

use crate::model::{Annotation, Model, Property, Sequence, Setting, Step};
use crate::{Class, Fault};

/// Sequences that these steps refer to.
pub(super) fn refs(steps: &[Step], found: &mut Vec<usize>) {
    for step in steps {
        match step {
            Step::Ref { sequence, .. } => found.push(*sequence),
            Step::Choice(ways) => ways.iter().for_each(|(_, steps)| refs(steps, found)),
            Step::Par(branches) => branches.iter().for_each(|steps| refs(steps, found)),
            Step::Operation(_) | Step::Send(_) | Step::Acquire(_) | Step::Release(_) | Step::Protect(_) => {}
        }
    }
}

/// Refuses a pool of which no step acquires anything, in whatever scenario. `lines` are those of the pools.
pub(super) fn acquired(model: &Model, lines: &[usize]) -> Result<(), Fault> {
    fn mark(steps: &[Step], found: &mut [bool]) {
        for step in steps {
            match step {
                Step::Acquire(units) => found[units.of] = true,
                Step::Choice(ways) => ways.iter().for_each(|(_, steps)| mark(steps, found)),
                Step::Par(branches) => branches.iter().for_each(|steps| mark(steps, found)),
                _ => {}
            }
        }
    }
    let mut found = vec![false; model.pools.len()];
    model.sequences.iter().for_each(|it| mark(&it.steps, &mut found));
    let Some(lost) = found.iter().position(|found| !found) else { return Ok(()) };
    let why = "no step acquires anything of it: nobody ever waits for it";
    Err(Fault::new(Class::NoEffect, format!("pool {}", model.pools[lost].name), why).at(lines[lost]))
}

/// Leaves what a request runs through. `lines` are those of the sequences; `scenarios` says that the others are other scenarios.
pub(super) fn only(model: &mut Model, lines: &[usize], scenarios: bool) -> Result<(), Fault> {
    let reached = reached(&model.sequences);
    if !scenarios && let Some(lost) = reached.iter().position(|reached| !reached) {
        let (first, name) = (&model.sequences[0].name, &model.sequences[lost].name);
        let why = format!("no request runs through it: they begin with `{first}`, from which no `ref` leads here");
        return Err(Fault::new(Class::NoEffect, format!("sequence {name}"), why).at(lines[lost]));
    }
    let all = Used::of(model, &model.sequences);
    keep(&mut model.sequences, &reached);
    let used = Used::of(model, &model.sequences);
    for annotation in &model.annotations {
        if let Some((key, why)) = all.in_vain(annotation) {
            let why = format!("`{key}` has no effect on `{}`: {why}", model.target(annotation));
            return Err(Fault::new(Class::NoEffect, annotation.property.word(), why).at(annotation.line));
        }
    }
    if let Some(lost) = model.annotations.iter().find(|annotation| !all.has(annotation)) {
        let why = format!("it has no effect on `{}`: {}", model.target(lost), missing(lost.property));
        return Err(Fault::new(Class::NoEffect, lost.property.word(), why).at(lost.line));
    }
    model.annotations.retain(|annotation| used.has(annotation));
    model.annotations.iter_mut().for_each(|annotation| used.only(annotation));
    Ok(())
}

/// What is run through from the first. Chains of references may be long, so the way stands in a list.
fn reached(sequences: &[Sequence]) -> Vec<bool> {
    let mut reached = vec![false; sequences.len()];
    let mut next = vec![0];
    while let Some(at) = next.pop() {
        if !std::mem::replace(&mut reached[at], true) {
            refs(&sequences[at].steps, &mut next);
        }
    }
    reached
}

/// Leaves those, and numbers the references anew.
fn keep(sequences: &mut Vec<Sequence>, reached: &[bool]) {
    let mut places = Vec::with_capacity(reached.len());
    let mut count = 0;
    for reached in reached {
        places.push(count);
        count += usize::from(*reached);
    }
    if count == sequences.len() {
        return;
    }
    let mut kept = reached.iter();
    sequences.retain(|_| kept.next().is_some_and(|kept| *kept));
    sequences.iter_mut().for_each(|sequence| moved(&mut sequence.steps, &places));
}

fn moved(steps: &mut [Step], places: &[usize]) {
    for step in steps {
        match step {
            Step::Ref { sequence, .. } => *sequence = places[*sequence],
            Step::Choice(ways) => ways.iter_mut().for_each(|(_, steps)| moved(steps, places)),
            Step::Par(branches) => branches.iter_mut().for_each(|steps| moved(steps, places)),
            Step::Operation(_) | Step::Send(_) | Step::Acquire(_) | Step::Release(_) | Step::Protect(_) => {}
        }
    }
}

/// What an annotation waits for in vain.
const fn missing(property: Property) -> &'static str {
    match property {
        Property::DataConfidentiality | Property::SecureChannel | Property::SecureTunnel => "no message goes over it",
        Property::DataIntegrity => "no step returns it and no message carries it",
        Property::DataOriginAuthentication => "no step returns it",
        Property::PeerEntityAuthentication => "no message goes from or to it",
        Property::CertifiedKey => "it takes part in no step",
    }
}

/// What steps use: connectors that carry messages, attributes that are returned, carried, and sent by their owners, components that send or
/// receive, and compute.
struct Used {
    connectors: Vec<bool>,
    returned: Vec<bool>,
    carried: Vec<bool>,
    sent: Vec<bool>,
    talking: Vec<bool>,
    computing: Vec<bool>,
    /// Connectors to those who certify keys and issue tokens, over which mechanisms alone may send something.
    ways: BTreeSet<usize>,
}

impl Used {
    fn of(model: &Model, sequences: &[Sequence]) -> Self {
        let none = |count: usize| vec![false; count];
        let (attributes, components) = (model.attributes.len(), model.components.len());
        let settings = model.annotations.iter().flat_map(|annotation| annotation.alternatives.iter().flatten());
        let mut used = Self {
            connectors: none(model.connectors.len()),
            returned: none(attributes),
            carried: none(attributes),
            sent: none(attributes),
            talking: none(components),
            computing: none(components),
            ways: settings.flat_map(Setting::authorities).collect(),
        };
        sequences.iter().for_each(|sequence| used.steps(&sequence.steps, model));
        used
    }

    fn steps(&mut self, steps: &[Step], model: &Model) {
        for step in steps {
            match step {
                Step::Operation(it) => {
                    self.computing[it.by] = true;
                    if let Some(returned) = it.returns {
                        self.returned[returned] = true;
                    }
                }
                Step::Send(it) => {
                    self.connectors[it.over] = true;
                    let (from, to) = model.ends(it);
                    (self.talking[from], self.talking[to]) = (true, true);
                    for carried in &it.carries {
                        self.carried[*carried] = true;
                        self.sent[*carried] |= model.attributes[*carried].of == from;
                    }
                }
                Step::Choice(ways) => ways.iter().for_each(|(_, steps)| self.steps(steps, model)),
                Step::Par(branches) => branches.iter().for_each(|steps| self.steps(steps, model)),
                Step::Ref { .. } | Step::Acquire(_) | Step::Release(_) | Step::Protect(_) => {}
            }
        }
    }

    /// A parameter that nothing depends on which steps do with the attribute, and why.
    fn in_vain(&self, annotation: &Annotation) -> Option<(&'static str, &'static str)> {
        if annotation.property != Property::DataIntegrity {
            return None;
        }
        let some = |said: fn(&Setting) -> bool| annotation.alternatives.iter().flatten().any(said);
        if !self.carried[annotation.on] && some(|way| way.valid < 1.0) {
            return Some(("valid", "no message carries it, and so nobody looks at its signature"));
        }
        let signed = self.returned[annotation.on] || self.sent[annotation.on];
        let unsigned = !signed && some(|way| way.engine.is_some());
        unsigned.then_some(("engine", "no step returns it and its component never sends it, and so nobody signs it"))
    }

    /// Leaves of an annotation what counts without the other scenarios.
    fn only(&self, annotation: &mut Annotation) {
        while let Some((key, _)) = self.in_vain(annotation) {
            for way in annotation.alternatives.iter_mut().flatten() {
                if key == "valid" {
                    way.valid = 1.0;
                } else {
                    way.engine = None;
                }
            }
        }
    }

    fn has(&self, annotation: &Annotation) -> bool {
        let on = annotation.on;
        match annotation.property {
            Property::DataConfidentiality | Property::SecureChannel => self.connectors[on],
            Property::SecureTunnel => self.connectors[on] || self.ways.contains(&on),
            Property::DataIntegrity => self.returned[on] || self.carried[on],
            Property::DataOriginAuthentication => self.returned[on],
            Property::PeerEntityAuthentication => self.talking[on],
            Property::CertifiedKey => self.talking[on] || self.computing[on],
        }
    }
}
