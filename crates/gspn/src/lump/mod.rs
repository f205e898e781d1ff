//! Nets of replicas that are alike: of all markings that differ only in which replica is which, one is explored.
//!
//! What is asked of one replica is the mean over those it can be exchanged with, for the long run and every distribution on the way
//! are the same for all of them. Counts are those of all markings: each explored one stands for as many as it can be exchanged into.

mod symmetry;

use hashbrown::HashSet;

pub(crate) use self::symmetry::Symmetry;
use crate::ask::{Answer, Answers, Ask, Checks, Condition, Derives, Question, Solution, Value, fired, float, in_turn};
use crate::components;
use crate::explore::explore_lumped;
use crate::net::{Kind, Net, semiflows};
use crate::{Budget, Class, Refusal};

/// A net of replicas, and what of it must stay where it is for the questions about it.
#[derive(Debug)]
pub(crate) struct Lumped {
    symmetry: Symmetry,
    /// For each transition those that it is exchanged with.
    transitions: Vec<Vec<usize>>,
}

impl Lumped {
    /// `None` where there are too few replicas, a place without a bound that a sum of tokens proves, or a clock.
    pub(crate) fn of(net: &Net, asks: &[Ask]) -> Option<Self> {
        let clock = |kind: &Kind| matches!(kind, Kind::Deterministic { .. } | Kind::Phase(_));
        if net.transitions().iter().any(|it| clock(&it.kind)) {
            return None;
        }
        let fixed: HashSet<usize> = asks.iter().flat_map(|ask| named(&ask.question, net)).collect();
        let symmetry = Symmetry::of(net, &fixed)?;
        if semiflows::bounds(net).iter().any(Option::is_none) {
            return None;
        }
        let transitions = symmetry.transitions(net);
        Some(Self { symmetry, transitions })
    }

    /// Answers `asks`; what is not known in this way is answered by `explore`, if that can.
    ///
    /// # Errors
    /// Those of `explore`, where nothing else is answered.
    pub(crate) fn answer(
        &self,
        net: &Net,
        asks: &[Ask],
        budget: &mut Budget<'_>,
        explore: impl FnOnce(&[Ask], &mut Budget<'_>) -> Result<Answer, Refusal>,
    ) -> Result<Answer, Refusal> {
        let mut known = match self.solve(net, asks, budget) {
            Ok(known) => known,
            // The way to a bad marking is known only where nothing was exchanged.
            Err(refusal) if refusal.class != Class::TooLarge => return explore(asks, budget),
            Err(refusal) => return Err(refusal),
        };
        let left: Vec<Ask> = asks.iter().filter(|ask| !known.values.contains_key(&ask.id)).cloned().collect();
        let beyond = left.iter().filter_map(|ask| known.unanswered.get(&ask.id)).any(|it| it.class == Class::TooLarge);
        if beyond && known.values.is_empty() {
            let refusal = known.unanswered.into_values().find(|it| it.class == Class::TooLarge);
            return Err(refusal.unwrap_or_else(|| Refusal::new(Class::TooLarge, "", "too large")));
        }
        if left.is_empty() && !asks.is_empty() || beyond {
            return Ok(known);
        }
        match explore(&left, budget) {
            Ok(other) => {
                known.unanswered.clear();
                known.extend(other);
                Ok(known)
            }
            Err(refusal) if refusal.class == Class::TooLarge && !known.values.is_empty() => {
                known.unanswered = left.into_iter().map(|ask| (ask.id, refusal.clone())).collect();
                Ok(known)
            }
            Err(refusal) => Err(refusal),
        }
    }

    fn solve(&self, net: &Net, asks: &[Ask], budget: &mut Budget<'_>) -> Result<Answer, Refusal> {
        let (counted, watched) = fired(asks, |transition| self.transitions[transition].clone());
        let space = explore_lumped(net, &counted, &watched, self.symmetry.clone(), budget)?;
        let (tangible, vanishing) = space.stand_for(&self.symmetry);
        let all = tangible.zip(vanishing).and_then(|(tangible, vanishing)| tangible.checked_add(vanishing));
        let beyond = budget.markings(all.unwrap_or(u64::MAX)).err();
        let mut solved = Solved { lumped: self, net, solution: Solution::new(space), tangible, vanishing, beyond };
        let (answer, failed) = in_turn(&mut solved, asks, budget);
        if let Some(refusal) = failed {
            return Err(refusal);
        }
        if asks.is_empty()
            && let Some(refusal) = solved.beyond
        {
            return Err(refusal);
        }
        Ok(answer)
    }

    /// The mean of what `value` says of the tokens of each place that `place` can be exchanged with.
    fn orbit_mean(&self, place: usize, tokens: impl Fn(usize) -> u64, value: impl Fn(u64) -> f64) -> f64 {
        let orbit = self.symmetry.orbit(place);
        orbit.iter().map(|place| value(tokens(*place))).sum::<f64>() / float(orbit.len() as u64)
    }
}

/// Places that must stay where they are for a question, in their order.
pub(crate) fn named(question: &Question, net: &Net) -> Vec<usize> {
    let mut places: Vec<usize> = match question {
        // A mean over replicas is meant: a condition on one place has one.
        Question::Probability { condition, .. } if one_place(condition) => Vec::new(),
        Question::Probability { condition, .. }
        | Question::InitialProbability { condition }
        | Question::PassageMean { condition }
        | Question::PassageQuantile { condition, .. } => condition.terms.iter().map(|(place, _, _)| *place).collect(),
        // One rate changes, and no other.
        Question::Sensitivity { of, by } => {
            let by = &net.transitions()[*by];
            let arcs = by.inputs.iter().chain(&by.outputs).chain(&by.inhibitors);
            named(of, net).into_iter().chain(arcs.map(|arc| arc.place)).collect()
        }
        _ => Vec::new(),
    };
    places.sort_unstable();
    places.dedup();
    places
}

fn one_place(condition: &Condition) -> bool {
    condition.terms.iter().all(|(place, _, _)| condition.terms.first().is_some_and(|(first, _, _)| first == place))
}

struct Solved<'a> {
    lumped: &'a Lumped,
    net: &'a Net,
    solution: Solution,
    tangible: Option<u64>,
    vanishing: Option<u64>,
    /// All markings are more than the limit.
    beyond: Option<Refusal>,
}

impl Answers for Solved<'_> {
    fn value(&mut self, question: &Question, budget: &mut Budget<'_>) -> Result<Value, Refusal> {
        let counts = matches!(
            question,
            Question::Tangible
                | Question::Vanishing
                | Question::Deadlocks
                | Question::BottomComponents
                | Question::Bound { .. }
        );
        if let (true, Some(refusal)) = (counts, &self.beyond) {
            return Err(refusal.clone());
        }
        Ok(match question {
            Question::Tangible => Value::Count(self.tangible.ok_or_else(unknown)?),
            Question::Vanishing => Value::Count(self.vanishing.ok_or_else(unknown)?),
            Question::Deadlocks => Value::Count(self.deadlocks()?),
            Question::BottomComponents => Value::Count(self.bottoms()?),
            Question::Bound { place } => {
                let orbit = self.lumped.symmetry.orbit(*place).iter();
                Value::Count(orbit.map(|place| self.solution.space.bound(*place)).max().unwrap_or(0))
            }
            Question::MeanTokens { at, .. } | Question::Probability { at, .. } | Question::Throughput { at, .. } => {
                let reward = self.reward(question);
                Value::Number(self.solution.mean(*at, &reward, budget)?)
            }
            Question::InitialProbability { condition } => Value::Number(self.solution.initially(condition)),
            Question::TimeToAbsorption => Value::Number(self.solution.time_to_bottom(budget)?),
            Question::PassageMean { condition } => {
                let reached = self.solution.passage(condition, budget)?;
                if !reached.certain {
                    return Err(unknown());
                }
                Value::Number(reached.mean)
            }
            Question::PassageQuantile { condition, level } => {
                Value::Number(self.solution.quantile(condition, *level, budget)?)
            }
            // Of several rates that are alike one alone would change.
            Question::Sensitivity { by, .. } if self.lumped.transitions[*by].len() > 1 => return Err(unknown()),
            Question::Sensitivity { of, by } => Value::Number(self.sensitivity(of, *by, budget)?),
        })
    }

    fn solution(&mut self) -> &mut Solution {
        &mut self.solution
    }

    fn check(&self, budget: &mut Budget<'_>) -> Result<Checks, Refusal> {
        self.solution.check(self.net, Some(&self.lumped.symmetry), budget)
    }
}

impl Derives for Solved<'_> {
    fn net(&self) -> &Net {
        self.net
    }

    fn alike<'a>(&'a self, transition: &'a usize) -> &'a [usize] {
        &self.lumped.transitions[*transition]
    }

    /// As the mean over what is exchanged.
    fn reward(&self, question: &Question) -> Vec<f64> {
        let Self { lumped, solution, .. } = self;
        match question {
            Question::MeanTokens { place, .. } => {
                solution.markings().map(|tokens| lumped.orbit_mean(*place, tokens, float)).collect()
            }
            Question::Probability { condition, .. } => match condition.terms.first() {
                Some((place, _, _)) if one_place(condition) => {
                    let allows = |tokens| f64::from(u8::from(condition.allows(*place, tokens)));
                    solution.markings().map(|tokens| lumped.orbit_mean(*place, tokens, allows)).collect()
                }
                _ => solution.holds(condition).into_iter().map(|holds| f64::from(u8::from(holds))).collect(),
            },
            Question::Throughput { transition, .. } => {
                let alike = &lumped.transitions[*transition];
                let mut sum = vec![0.0; solution.space.chain().len()];
                for transition in alike {
                    sum.iter_mut().zip(solution.space.rates(*transition)).for_each(|(sum, rate)| *sum += rate);
                }
                sum.iter_mut().for_each(|sum| *sum /= float(alike.len() as u64));
                sum
            }
            _ => vec![0.0; solution.space.chain().len()],
        }
    }
}

impl Solved<'_> {
    /// How many markings `state` stands for, and whether each of them is one that nothing leaves: `None` where they may lead to
    /// each other.
    fn ends(&self, state: usize) -> (Option<u64>, Option<bool>) {
        let mut tokens = vec![0; self.solution.space.places()];
        self.solution.load(state, &mut tokens);
        let size = self.lumped.symmetry.size(&tokens);
        let ends = match self.solution.space.chain().row(state).next() {
            Some(_) => Some(false),
            // With nothing to be exchanged with, whatever fires leads back.
            None if size == Some(1) || !self.solution.space.moves(&tokens) => Some(true),
            None => None,
        };
        (size, ends)
    }

    fn deadlocks(&self) -> Result<u64, Refusal> {
        let mut count = 0_u64;
        for state in 0..self.solution.space.chain().len() {
            match self.ends(state) {
                (Some(size), Some(true)) => count = count.checked_add(size).ok_or_else(unknown)?,
                (_, Some(false)) => {}
                _ => return Err(unknown()),
            }
        }
        Ok(count)
    }

    /// Closed classes: one with a marking that exchanges leave as it is stands for itself, a deadlock for all that it can be
    /// exchanged into; of others it is not known.
    fn bottoms(&self) -> Result<u64, Refusal> {
        let chain = self.solution.space.chain();
        let components = components::of(chain);
        let mut count = 0_u64;
        for component in 0..components.len() {
            let nodes = components.nodes(component);
            let leaves = |node: &u32| chain.row(*node as usize).any(|(to, _)| components.of[to] as usize != component);
            if nodes.iter().any(leaves) {
                continue;
            }
            let alone = nodes.iter().any(|node| self.ends(*node as usize).0 == Some(1));
            let classes = match nodes {
                _ if alone => 1,
                [node] => match self.ends(*node as usize) {
                    (Some(size), Some(true)) => size,
                    _ => return Err(unknown()),
                },
                _ => return Err(unknown()),
            };
            count = count.checked_add(classes).ok_or_else(unknown)?;
        }
        Ok(count)
    }
}

fn unknown() -> Refusal {
    Refusal::new(Class::Unsupported, "", "this is not known of replicas without exploring all of their markings")
}
