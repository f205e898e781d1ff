//! What goes through a tunnel: every message over its connector that is not of the tunnel itself, those of handshakes, too. It is cut into
//! packets, sealed and opened, and longer by what the tunnel puts around each packet. Left out: what a tunnel does for itself.

use super::Asked;
use crate::mechanism::{Part, Work};
use crate::model::{Protect, Step};
use crate::protocol::{self, Protocol, unawaited};

/// The tunnels of each connector.
pub(super) struct Tunnels<'a>(pub(super) Vec<Vec<Asked<'a>>>);

impl Tunnels<'_> {
    /// The steps with their messages in tunnels; those of the application are there already.
    pub(super) fn through(&self, steps: Vec<Step>) -> Vec<Step> {
        if self.0.iter().all(Vec::is_empty) {
            return steps;
        }
        steps.into_iter().map(|step| self.step(step)).collect()
    }

    fn step(&self, step: Step) -> Step {
        match step {
            Step::Choice(ways) => {
                Step::Choice(ways.into_iter().map(|(share, steps)| (share, self.through(steps))).collect())
            }
            Step::Par(branches) => Step::Par(branches.map(|steps| self.through(steps))),
            Step::Protect(protect) => Step::Protect(self.protect(protect)),
            other @ (Step::Operation(_) | Step::Send(_) | Step::Ref { .. } | Step::Acquire(_) | Step::Release(_)) => {
                other
            }
        }
    }

    fn protect(&self, mut protect: Protect) -> Protect {
        let Some(tunnels) = protect.over.and_then(|(over, _)| self.0.get(over)) else { return protect };
        // A tunnel is not inside itself.
        for (_, _, setting) in tunnels.iter().filter(|(index, ..)| *index != protect.annotation) {
            if let Some(agreed) = &setting.agreed {
                protect.parts = wrapped(protect.parts, &agreed.protocol);
            }
        }
        protect
    }
}

fn wrapped(parts: Vec<Part>, tunnel: &Protocol) -> Vec<Part> {
    let mut all = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Part::Message { from, bytes, .. } | Part::Unawaited { from, bytes, .. } => {
                let (before, mut after) = tunnel.around(from, bytes);
                if matches!(part, Part::Unawaited { .. }) {
                    after = unawaited(after);
                }
                all.extend(before);
                all.push(match part {
                    Part::Unawaited { name, .. } => Part::Unawaited { name, from, bytes: tunnel.wire(from, bytes) },
                    Part::Message { name, .. } => Part::Message { name, from, bytes: tunnel.wire(from, bytes) },
                    other => other,
                });
                all.extend(after);
            }
            Part::Either { guard, probability, then, otherwise } => {
                let (then, otherwise) = (wrapped(then, tunnel), wrapped(otherwise, tunnel));
                all.push(Part::Either { guard, probability, then, otherwise });
            }
            Part::Use { mechanism, parts } => all.push(Part::Use { mechanism, parts: wrapped(parts, tunnel) }),
            Part::Work { name, by, work } => {
                // What its ends do with a message beside protecting it, they do with what goes out.
                let bytes = if protocol::handles(&work) { tunnel.wire(by, work.bytes) } else { work.bytes };
                all.push(Part::Work { name, by, work: Work { bytes, ..work } });
            }
            check @ Part::Check { .. } => all.push(check),
        }
    }
    all
}
