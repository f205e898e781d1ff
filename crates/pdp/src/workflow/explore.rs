//! Which markings a workflow can reach. A net in which some step can gather ever more tokens is refused: its
//! reachable markings could neither be listed nor checked.

use std::collections::{BTreeMap, VecDeque};

use super::file::span_of;
use super::{Marking, Workflow};
use crate::fault::{FaultList, Faults, Origin};

/// The most reachable markings a workflow may have.
pub const MAX_MARKINGS: usize = 50_000;

/// What can happen in a workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Every marking that can be reached, the initial one first.
    pub markings: Vec<Marking>,
    /// Transitions that never fire.
    pub dead: Vec<String>,
    /// Markings in which nothing can fire.
    pub stuck: Vec<Marking>,
}

enum Unbounded {
    Step(String),
    TooMany,
}

impl Workflow {
    /// Every marking that can be reached from the initial one.
    #[must_use]
    pub fn reach(&self) -> Reach {
        self.explore().unwrap_or_else(|_| Reach { markings: vec![self.initial()], dead: Vec::new(), stuck: Vec::new() })
    }

    pub(super) fn check_bounded(&self, text: &str) -> Result<(), Faults> {
        let mut faults = FaultList::new(Origin::Workflow, text);
        match self.explore() {
            Ok(_) => {}
            Err(Unbounded::Step(step)) => {
                let message = format!("step `{step}` can gather ever more tokens");
                let hint = "some transition gives more than it takes; balance its `from` and `to`".to_owned();
                faults.add(span_of(text, &step, 0), message, Some(hint));
            }
            Err(Unbounded::TooMany) => {
                faults.add(0..0, format!("more than {MAX_MARKINGS} markings can be reached"), None);
            }
        }
        faults.finish()
    }

    /// Breadth first. A marking that covers one on its own way from the start can be pumped (Karp and Miller 1969).
    fn explore(&self) -> Result<Reach, Unbounded> {
        let mut number: BTreeMap<Marking, usize> = BTreeMap::from([(self.initial(), 0)]);
        let mut order: Vec<(Marking, Option<usize>)> = vec![(self.initial(), None)];
        let mut open = VecDeque::from([0_usize]);
        let mut fired = vec![false; self.transitions.len()];
        let mut stuck = Vec::new();
        while let Some(at) = open.pop_front() {
            let Some((marking, _)) = order.get(at).cloned() else { continue };
            let mut moved = false;
            for (transition, seen) in self.transitions.iter().zip(&mut fired) {
                let ready = transition.from.iter().all(|(step, weight)| marking.tokens(*step) >= *weight);
                if !ready {
                    continue;
                }
                (moved, *seen) = (true, true);
                let next = self.moved(&marking, transition).map_err(|_| Unbounded::Step(self.step_name(0)))?;
                if number.contains_key(&next) {
                    continue;
                }
                self.refuse_pump(&next, at, &order)?;
                if order.len() >= MAX_MARKINGS {
                    return Err(Unbounded::TooMany);
                }
                number.insert(next.clone(), order.len());
                open.push_back(order.len());
                order.push((next, Some(at)));
            }
            if !moved {
                stuck.push(marking);
            }
        }
        let dead = self.transitions.iter().zip(&fired).filter(|(_, fired)| !**fired);
        let dead = dead.map(|(transition, _)| transition.name.clone()).collect();
        Ok(Reach { markings: order.into_iter().map(|(marking, _)| marking).collect(), dead, stuck })
    }

    fn refuse_pump(&self, next: &Marking, from: usize, order: &[(Marking, Option<usize>)]) -> Result<(), Unbounded> {
        let mut at = Some(from);
        while let Some((earlier, before)) = at.and_then(|at| order.get(at)) {
            if next.covers(earlier) {
                let grown = next.0.iter().zip(&earlier.0).position(|(now, then)| now > then);
                return Err(Unbounded::Step(self.step_name(grown.unwrap_or(0))));
            }
            at = *before;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "[[procedure]]\nname = \"batch\"\n[[step]]\nname = \"idle\"\ntokens = 1\n[[step]]\nname = \"charge\"\n";

    fn net(rest: &str) -> Result<Workflow, String> {
        Workflow::parse(&format!("{HEAD}{rest}")).map_err(|faults| faults.to_string())
    }

    #[test]
    fn a_round_recipe_fires_in_order_only() {
        let net = net("[[transition]]\nname = \"start\"\nfrom = [\"idle\"]\nto = [\"charge\"]\n\
                       [[transition]]\nname = \"end\"\nfrom = [\"charge\"]\nto = [\"idle\"]\n")
        .unwrap();
        let idle = net.initial();
        assert_eq!(net.enabled(&idle).collect::<Vec<_>>(), ["start"]);
        let refused = net.fire(&idle, "end").unwrap_err();
        assert_eq!(refused.to_string(), "transition `end` is not enabled: nothing in charge");
        let charge = net.fire(&idle, "start").unwrap();
        assert_eq!(net.marked(&charge).collect::<Vec<_>>(), ["charge"]);
        assert_eq!(net.marking(&net.to_map(&charge)), Ok(charge.clone()));
        assert_eq!(net.fire(&charge, "end"), Ok(idle));
        let reach = net.reach();
        assert_eq!((reach.markings.len(), reach.dead.len(), reach.stuck.len()), (2, 0, 0));
    }

    #[test]
    fn faults_say_where() {
        for (rule, rest, want) in [
            (
                "unknown step",
                "[[transition]]\nname = \"t\"\nfrom = [\"idle\"]\nto = [\"chrge\"]\n",
                "line 11, column 7: no step is called `chrge` (help: did you mean `charge`?)",
            ),
            (
                "unbounded",
                "[[transition]]\nname = \"t\"\nfrom = [\"idle\"]\nto = [\"idle\", \"charge\"]\n",
                "line 7, column 8: step `charge` can gather ever more tokens",
            ),
            ("source", "[[transition]]\nname = \"t\"\nfrom = []\nto = [\"idle\"]\n", "takes from no step"),
            ("weight", "[[transition]]\nname = \"t\"\nfrom = [{ step = \"idle\", weight = 0 }]\nto = []\n", "weight 0"),
            (
                "twice",
                "[[step]]\nname = \"idle\"\n[[transition]]\nname = \"t\"\nfrom = [\"idle\"]\nto = []\n",
                "line 9, column 8: step `idle` is defined twice",
            ),
            (
                "phase",
                "[[step]]\nname = \"x\"\nphase = \"p\"\n[[transition]]\nname = \"t\"\nfrom = [\"idle\"]\nto = []\n",
                "line 10, column 9: no phase is called `p`",
            ),
            ("key", "[[transition]]\nname = \"t\"\nform = [\"idle\"]\nto = []\n", "did you mean `from`?"),
            ("syntax", "[[transition\n", "line 8"),
        ] {
            let said = net(rest).unwrap_err();
            assert!(said.contains(want), "{rule}: {said}");
        }
    }

    #[test]
    fn json_is_the_same_net() {
        let toml =
            net("[[transition]]\nname = \"start\"\nfrom = [\"idle\"]\nto = [{ step = \"charge\", weight = 2 }]\n");
        let json = r#"{ "procedure": [{ "name": "batch" }],
            "step": [{ "name": "idle", "tokens": 1 }, { "name": "charge" }],
            "transition": [{ "name": "start", "from": ["idle"], "to": [{ "step": "charge", "weight": 2 }] }] }"#;
        assert_eq!(Workflow::parse(json).ok(), toml.ok());
        let said = Workflow::parse("{ \"procedure\": [],\n \"stp\": [] }").unwrap_err().to_string();
        assert!(said.starts_with("workflow line 2"), "{said}");
    }

    #[test]
    fn dead_and_stuck_are_reported() {
        let net = net("[[transition]]\nname = \"go\"\nfrom = [\"idle\"]\nto = [\"charge\"]\n\
                       [[transition]]\nname = \"both\"\nfrom = [\"idle\", \"charge\"]\nto = [\"charge\"]\n")
        .unwrap();
        let reach = net.reach();
        assert_eq!(reach.dead, ["both"]);
        assert_eq!(reach.stuck.len(), 1);
    }
}
