//! Parallel fragments: a request becomes a token in each branch, and one again when all of them have come to their ends.
//!
//! *Whose branch is whose.* Tokens have no names: where several requests are inside of one fragment, branches of different ones would be joined
//! with each other, and requests would leave that have not done all they have to. So each that may be inside at once has places of its own,
//! a *slot*; a request takes any that is free. Slots are alike, and the solver looks at one of all markings that differ in which is which. Who
//! follows requests one by one ([`Form::Shared`]) tells them apart itself, and where only work is summed up ([`Form::InOrder`]) branches may as
//! well be done one after the other.
//!
//! *Cores.* One core cannot be in two branches: the request gives its core back before, each branch takes its own, and behind them none is held.
//!
//! *Aborts.* Where a check fails in a branch, that branch ends; the others go on to their ends, and then the request is aborted.

use super::builder;
use super::steps::{Cursor, Front, Layer};
use super::{Form, MAX_STEPS};
use crate::mechanism::Part;
use crate::model::{Branches, Model, Step};
use crate::{Class, Fault};

/// Slots of a fragment. Two branches of one step have four markings at least, and so many slots more than anybody can look at.
const MAX_SLOTS: u32 = 16;

/// One fragment takes as much of the stack as so many sequences inside each other.
const STACK: usize = 4;

/// A fragment as it was laid: where a request is told apart, its places are those of one slot.
#[derive(Debug, Clone)]
pub struct Fragment {
    /// Where a request comes to it.
    pub at: usize,
    /// Where each branch begins, ends well, and ends because a check failed.
    pub branches: Vec<[usize; 3]>,
    /// Where the request is when all branches have ended well.
    pub then: usize,
    /// Where it is when one has not, if a check can fail.
    pub failed: Option<usize>,
    /// The transitions that do this.
    pub transitions: Vec<usize>,
    /// Its places, those of fragments inside of it too.
    pub places: std::ops::Range<usize>,
}

/// What a fragment is in.
#[derive(Debug, Clone)]
pub(super) struct Around {
    /// What the request holds of pools.
    pub(super) holds: Vec<(usize, u32)>,
    /// Whether that is a branch of another one.
    pub(super) beside: bool,
    /// Where the request is then, where it is when all branches are done, and where if one of them failed.
    places: [usize; 3],
}

impl Layer<'_> {
    pub(super) fn parallel(&mut self, branches: &Branches, at: &mut Front) -> Result<(), Fault> {
        let from = self.release(at);
        let (then, failed) = (self.builder.place("all branches done", 0), self.builder.place("a branch failed", 0));
        let (holds, beside) = (self.builder.holding().to_vec(), self.builder.set_beside(true));
        let around = Around { holds, beside, places: [from, then, failed] };
        let (abort, aborts) = (self.abort, self.aborts);
        self.deep += STACK;
        // What a branch gives back is its own.
        self.builder.set_holding(Vec::new());
        if self.form == Form::InOrder {
            self.in_order(branches, &around)?;
        } else {
            self.slots(branches, &around)?;
        }
        self.deep -= STACK;
        let fails = self.aborts;
        (self.abort, self.aborts) = (abort, aborts);
        self.builder.set_beside(beside);
        self.builder.set_holding(around.holds);
        *at = vec![Cursor { place: then, holds: None }];
        if self.form == Form::InOrder {
            let fails = any(branches.iter().map(|steps| self::fails(self.model, steps)));
            self.check("all branches", 1.0 - fails, at);
        } else if fails {
            self.abort_from(Cursor { place: failed, holds: None });
        }
        Ok(())
    }

    /// As many slots as there may be requests inside.
    fn slots(&mut self, branches: &Branches, around: &Around) -> Result<(), Fault> {
        let slots = if self.form == Form::Shared { 1 } else { self.inside(&around.holds) };
        if slots > MAX_SLOTS {
            return Err(too_many(slots, &format!("{MAX_SLOTS} are laid at most")).at(branches.line));
        }
        let most = std::mem::replace(&mut self.most, 1);
        // Inside of a slot there is one only.
        let copies = self.builder.set_copies(1);
        self.builder.set_copies(copies.saturating_mul(slots));
        for slot in 0..slots {
            let (stages, laid) = (self.builder.stages(), self.laid);
            let free = (slots > 1).then(|| self.builder.place("slot", 1));
            self.slot(branches, around, free)?;
            let each = self.laid - laid;
            if slot > 0 {
                // What the first is, all are.
                self.builder.keep_stages(stages);
            } else if each.saturating_mul(slots as usize).saturating_add(laid) > MAX_STEPS {
                let many = format!("with its {each} steps that is more than {MAX_STEPS} in all");
                return Err(too_many(slots, &many).at(branches.line));
            }
        }
        self.builder.set_copies(copies);
        self.most = most;
        Ok(())
    }

    /// The most requests that are inside at once: all that are served, or fewer, for each holds something that is scarce.
    fn inside(&self, holding: &[(usize, u32)]) -> u32 {
        let pools = holding.iter().map(|(pool, count)| self.model.pools[*pool].size / count.max(&1));
        pools.fold(self.most, u32::min).max(1)
    }

    /// One slot: a token in the first place while all is well, in the second after a check failed.
    fn slot(&mut self, branches: &[Vec<Step>], around: &Around, free: Option<usize>) -> Result<(), Fault> {
        let [from, then, failed] = around.places;
        let first = self.builder.places();
        let (well, ill) = (self.builder.place("in parallel", 0), self.builder.place("in parallel, failed", 0));
        let (mut places, mut transitions, mut fails) = (Vec::with_capacity(branches.len()), Vec::new(), false);
        for steps in branches {
            let [start, end, lost] = ["branch", "branch done", "branch failed"].map(|it| self.builder.place(it, 0));
            (self.abort, self.aborts) = (lost, false);
            self.branch(steps, start, end)?;
            for now in [well, ill].into_iter().filter(|_| self.aborts) {
                transitions.push(self.builder.immediate(
                    "branch fails",
                    builder::ROUTE,
                    1.0,
                    &[lost, now],
                    &[end, ill],
                ));
            }
            fails |= self.aborts;
            places.push([start, end, lost]);
        }
        self.aborts = fails;
        let all = |first: usize, pick: usize| -> Vec<usize> {
            std::iter::once(first).chain(places.iter().map(|branch| branch[pick])).collect()
        };
        let slot = |place: usize| -> Vec<usize> { std::iter::once(place).chain(free).collect() };
        let mut put = |layer: &mut Self, name: &str, from: &[usize], to: &[usize]| {
            transitions.push(layer.builder.immediate(name, builder::ROUTE, 1.0, from, to));
        };
        put(self, "fork", &slot(from), &all(well, 0));
        put(self, "join", &all(well, 1), &slot(then));
        self.builder.wait(well, around);
        if fails {
            put(self, "join", &all(ill, 1), &slot(failed));
            self.builder.wait(ill, around);
        }
        let failed = fails.then_some(failed);
        let own = first..self.builder.places();
        self.fragments.push(Fragment { at: from, branches: places, then, failed, transitions, places: own });
        Ok(())
    }

    /// A branch from where it begins to where it ends.
    fn branch(&mut self, steps: &[Step], start: usize, end: usize) -> Result<(), Fault> {
        let mut at = vec![Cursor { place: start, holds: None }];
        self.steps(steps, &mut at)?;
        let last = self.release(&mut at);
        self.builder.immediate("branch ends", builder::ROUTE, 1.0, &[last], &[end]);
        Ok(())
    }

    /// One branch after the other, whether those before it came to their ends or not.
    fn in_order(&mut self, branches: &[Vec<Step>], around: &Around) -> Result<(), Fault> {
        let [mut from, then, _] = around.places;
        for (branch, steps) in branches.iter().enumerate() {
            let end = if branch + 1 == branches.len() { then } else { self.builder.place("branch done", 0) };
            self.abort = end;
            self.branch(steps, from, end)?;
            from = end;
        }
        Ok(())
    }
}

fn too_many(slots: u32, many: &str) -> Fault {
    let why = format!(
        "{slots} requests may be inside of a parallel fragment at once, each in places of its own, and {many}: fewer clients, less `room`, `threads`, or a pool around it let fewer in"
    );
    Fault::new(Class::TooLarge, "par", why)
}

/// The probability that a check fails.
fn fails(model: &Model, steps: &[Step]) -> f64 {
    let of = |step: &Step| match step {
        Step::Choice(ways) => ways.iter().map(|(share, steps)| share * fails(model, steps)).sum(),
        Step::Par(branches) => any(branches.iter().map(|steps| fails(model, steps))),
        Step::Ref { sequence, times } => {
            let once = fails(model, &model.sequences[*sequence].steps);
            1.0 - (1.0 - once).powi(i32::try_from(*times).unwrap_or(i32::MAX))
        }
        Step::Protect(protect) => in_parts(&protect.parts),
        Step::Operation(_) | Step::Send(_) | Step::Acquire(_) | Step::Release(_) => 0.0,
    };
    any(steps.iter().map(of))
}

fn in_parts(parts: &[Part]) -> f64 {
    any(parts.iter().map(|part| match part {
        Part::Either { probability, then, otherwise, .. } => {
            probability * in_parts(then) + (1.0 - probability) * in_parts(otherwise)
        }
        Part::Use { parts, .. } => in_parts(parts),
        Part::Check { passes, .. } => 1.0 - passes,
        Part::Work { .. } | Part::Message { .. } | Part::Unawaited { .. } => 0.0,
    }))
}

/// That one of several things happens which have nothing to do with each other.
fn any(all: impl Iterator<Item = f64>) -> f64 {
    all.fold(0.0, |one, other| one + other - one * other)
}
