//! Operations that woven steps ask for, what may be without a price included.

use std::collections::BTreeSet;

use cost::mechanism::Part;
use cost::model::Step;
use cost::{Model, weave};

/// Those of a model.
pub(crate) fn asked(model: &Model, all: &mut BTreeSet<String>) {
    weave(model).model().sequences.iter().for_each(|sequence| steps(&sequence.steps, all));
}

fn steps(steps: &[Step], asked: &mut BTreeSet<String>) {
    for step in steps {
        match step {
            Step::Choice(ways) => ways.iter().for_each(|(_, ways)| self::steps(ways, asked)),
            Step::Par(branches) => branches.iter().for_each(|steps| self::steps(steps, asked)),
            Step::Protect(protect) => parts(&protect.parts, asked),
            _ => {}
        }
    }
}

fn parts(parts: &[Part], asked: &mut BTreeSet<String>) {
    for part in parts {
        match part {
            Part::Work { work, .. } => asked.extend(work.operation.clone()),
            Part::Either { then, otherwise, .. } => {
                self::parts(then, asked);
                self::parts(otherwise, asked);
            }
            Part::Use { parts, .. } => self::parts(parts, asked),
            Part::Message { .. } | Part::Unawaited { .. } | Part::Check { .. } => {}
        }
    }
}
