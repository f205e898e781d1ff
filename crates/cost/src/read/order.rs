//! An order that cannot be: a message carries an attribute with its signature, and the step that makes the attribute comes later only, or in
//! another branch of a parallel fragment, of which nobody knows whether it comes before. What a step made that is done sometimes may be there;
//! what no step makes is signed by who sends it, and is no concern of this file.

use std::collections::BTreeMap;

use crate::model::{Model, Operation, Property, Send, Step};
use crate::{Class, Fault};

/// Steps that are looked at, repetitions of sequences included, and sequences inside each other: a model with more is refused when its
/// net is laid.
const MOST: usize = crate::net::MAX_STEPS;
const MAX_DEEP: usize = 500;

/// A walk through what a request does.
struct Walk<'m> {
    model: &'m Model,
    /// Attributes that a step before may have made, and those in the order in which they were.
    made: Vec<bool>,
    trail: Vec<usize>,
    /// For each attribute a step that makes it,
    makers: BTreeMap<usize, &'m str>,
    /// and the first message that carries it before, and whether that is in a parallel fragment.
    early: BTreeMap<usize, (&'m str, bool)>,
    /// Parallel fragments around what is looked at.
    parallel: usize,
    left: usize,
}

/// Refuses a model in which a signature would go over a connector, and be looked at, before it is made.
pub(super) fn possible(model: &Model) -> Result<(), Fault> {
    let signed = |property| matches!(property, Property::DataIntegrity | Property::DataOriginAuthentication);
    let signed: Vec<_> = model.annotations.iter().filter(|annotation| signed(annotation.property)).collect();
    let (Some(first), false) = (model.sequences.first(), signed.is_empty()) else { return Ok(()) };
    let mut walk = Walk {
        model,
        made: vec![false; model.attributes.len()],
        trail: Vec::new(),
        makers: BTreeMap::new(),
        early: BTreeMap::new(),
        parallel: 0,
        left: MOST,
    };
    walk.steps(&first.steps, 0);
    for annotation in signed {
        let (Some((message, beside)), Some(maker)) = (walk.early.get(&annotation.on), walk.makers.get(&annotation.on))
        else {
            continue;
        };
        let (when, has) = if *beside { ("before or while", "makes") } else { ("before", "has made") };
        let why = format!(
            "`{message}` carries `{}` with its signature {when} `{maker}` {has} it, which cannot be: `{maker}` is to come first",
            model.target(annotation)
        );
        return Err(Fault::new(Class::Invalid, annotation.property.word(), why).at(annotation.line));
    }
    Ok(())
}

impl<'m> Walk<'m> {
    fn steps(&mut self, steps: &'m [Step], deep: usize) {
        for step in steps {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            match step {
                Step::Operation(Operation { name, returns: Some(attribute), .. }) => {
                    self.makers.entry(*attribute).or_insert(name);
                    self.make(*attribute);
                }
                Step::Send(Send { name, carries, .. }) => {
                    for attribute in carries.iter().filter(|attribute| !self.made[**attribute]) {
                        self.early.entry(*attribute).or_insert((name, self.parallel > 0));
                    }
                }
                Step::Ref { sequence, .. } if deep < MAX_DEEP => {
                    let model = self.model;
                    self.steps(&model.sequences[*sequence].steps, deep + 1);
                }
                Step::Choice(ways) => self.apart(ways.iter().map(|(_, steps)| steps), deep),
                Step::Par(branches) => {
                    self.parallel += 1;
                    self.apart(branches.iter(), deep);
                    self.parallel -= 1;
                }
                Step::Operation(_) | Step::Ref { .. } | Step::Acquire(_) | Step::Release(_) | Step::Protect(_) => {}
            }
        }
    }

    /// No way or branch knows what another one makes; behind them all of it may be there.
    fn apart(&mut self, ways: impl Iterator<Item = &'m Vec<Step>>, deep: usize) {
        let (before, mut all) = (self.trail.len(), Vec::new());
        for steps in ways {
            self.steps(steps, deep);
            for made in self.trail.split_off(before) {
                self.made[made] = false;
                all.push(made);
            }
        }
        all.into_iter().for_each(|made| self.make(made));
    }

    fn make(&mut self, attribute: usize) {
        if !std::mem::replace(&mut self.made[attribute], true) {
            self.trail.push(attribute);
        }
    }
}
