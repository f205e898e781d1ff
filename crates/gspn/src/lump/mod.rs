//! Nets of replicas that are alike: of all markings that differ only in which replica is which, one is explored.
//!
//! What is asked of one replica is the mean over those it can be exchanged with, for the long run and every distribution on the way
//! are the same for all of them. Counts are those of all markings: each explored one stands for as many as it can be exchanged into.

mod symmetry;

use hashbrown::{HashMap, HashSet};

pub(crate) use self::symmetry::Symmetry;
use crate::ask::{Answer, Ask, Checks, Condition, Question, Value, invariant_error};
use crate::chain::{self, At, LongRun};
use crate::components;
use crate::explore::{Space, explore_lumped};
use crate::net::{Kind, Net, semiflows};
use crate::{Budget, Class, Refusal};

/// What a check may be off.
const OFF: f64 = 1e-8;

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
        let mut fixed = HashSet::new();
        for ask in asks {
            match &ask.question {
                // A mean over replicas is meant: a condition on one place has one.
                Question::Probability { condition, .. } if one_place(condition) => {}
                Question::Probability { condition, .. }
                | Question::InitialProbability { condition }
                | Question::PassageMean { condition }
                | Question::PassageQuantile { condition, .. } => {
                    fixed.extend(condition.terms.iter().map(|(place, _, _)| *place));
                }
                _ => {}
            }
        }
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
                known.unanswered = other.unanswered;
                known.values.extend(other.values);
                known.method.extend(other.method);
                known.error.extend(other.error);
                known.checks = worse(&known.checks, &other.checks);
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
        let mut counted: Vec<usize> = Vec::new();
        for ask in asks {
            if let Question::Throughput { transition, .. } = &ask.question {
                counted.extend(&self.transitions[*transition]);
            }
        }
        counted.sort_unstable();
        counted.dedup();
        let space = explore_lumped(net, &counted, self.symmetry.clone(), budget)?;
        let (tangible, vanishing) = space.stand_for(&self.symmetry);
        let all = tangible.zip(vanishing).and_then(|(tangible, vanishing)| tangible.checked_add(vanishing));
        let beyond = budget.markings(all.unwrap_or(u64::MAX)).err();
        let mut solved = Solved {
            lumped: self,
            space,
            long_run: None,
            at: HashMap::new(),
            method: None,
            tangible,
            vanishing,
            beyond,
        };
        let mut answer = Answer::default();
        for ask in asks {
            solved.method = None;
            let value = solved.value(&ask.question, budget);
            if let (Ok(_), Some((method, error))) = (&value, solved.method.take()) {
                answer.method.insert(ask.id.clone(), method);
                answer.error.insert(ask.id.clone(), error);
            }
            match value {
                Ok(Value::Number(value)) if !value.is_finite() => {
                    let why = "the value is more than a number can say";
                    answer.unanswered.insert(ask.id.clone(), Refusal::new(Class::TooLarge, &ask.id, why));
                }
                Ok(value) => drop(answer.values.insert(ask.id.clone(), value)),
                Err(mut refusal) => {
                    refusal.name.clone_from(&ask.id);
                    answer.unanswered.insert(ask.id.clone(), refusal);
                }
            }
        }
        if let Some(Ok(long_run)) = &solved.long_run {
            answer.checks = solved.checks(net, long_run);
            let Checks { residual, flow_balance, invariants } = answer.checks;
            if [residual, flow_balance, invariants].iter().any(|off| off.is_nan() || *off > OFF) {
                let why = "the solution over replicas does not pass its checks";
                return Err(Refusal::new(Class::Unsupported, "", why));
            }
        }
        if asks.is_empty()
            && let Some(refusal) = solved.beyond
        {
            return Err(refusal);
        }
        Ok(answer)
    }
}

fn one_place(condition: &Condition) -> bool {
    condition.terms.iter().all(|(place, _, _)| condition.terms.first().is_some_and(|(first, _, _)| first == place))
}

fn worse(one: &Checks, other: &Checks) -> Checks {
    Checks {
        residual: one.residual.max(other.residual),
        flow_balance: one.flow_balance.max(other.flow_balance),
        invariants: one.invariants.max(other.invariants),
    }
}

struct Solved<'a> {
    lumped: &'a Lumped,
    space: Space,
    long_run: Option<Result<LongRun, Refusal>>,
    at: HashMap<u64, Result<At, Refusal>>,
    /// How the last value was found, where that is worth saying, and how far it may be off, relatively.
    method: Option<(String, f64)>,
    tangible: Option<u64>,
    vanishing: Option<u64>,
    /// All markings are more than the limit.
    beyond: Option<Refusal>,
}

impl Solved<'_> {
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
                Value::Count(orbit.map(|place| self.space.bound(*place)).max().unwrap_or(0))
            }
            Question::MeanTokens { at, .. } | Question::Probability { at, .. } | Question::Throughput { at, .. } => {
                let reward = self.reward(question);
                Value::Number(self.mean(*at, &reward, budget)?)
            }
            Question::InitialProbability { condition } => {
                let holds = self.holds(condition);
                let initial = self.space.initial().iter().filter(|(state, _)| holds[*state as usize]);
                Value::Number(initial.map(|(_, probability)| probability).sum())
            }
            Question::TimeToAbsorption => Value::Number(self.long_run(budget)?.time_to_bottom),
            Question::PassageMean { condition } => {
                let goal = self.holds(condition);
                let reached = chain::passage(self.space.chain(), self.space.initial(), &goal, budget)?;
                if !reached.certain {
                    return Err(unknown());
                }
                Value::Number(reached.mean)
            }
            Question::PassageQuantile { condition, level } => {
                let goal = self.holds(condition);
                let found = chain::quantile(self.space.chain(), self.space.initial(), &goal, *level, budget)?;
                self.method = found.method;
                Value::Number(found.value)
            }
            Question::Sensitivity { .. } => return Err(unknown()),
        })
    }

    fn long_run(&mut self, budget: &mut Budget<'_>) -> Result<&LongRun, Refusal> {
        let Self { space, long_run, .. } = self;
        let solved = long_run.get_or_insert_with(|| chain::long_run(space.chain(), space.initial(), budget));
        solved.as_ref().map_err(Clone::clone)
    }

    /// The mean of `rewards` at a time, or in the long run.
    fn mean(&mut self, at: Option<f64>, rewards: &[f64], budget: &mut Budget<'_>) -> Result<f64, Refusal> {
        let Some(at) = at else {
            let distribution = &self.long_run(budget)?.distribution;
            return Ok(chain::sum(distribution.iter().zip(rewards).map(|(share, reward)| share * reward)));
        };
        let Self { space, at: known, method, .. } = self;
        let (chain, initial) = (space.chain(), space.initial());
        let solved = known.entry(at.to_bits()).or_insert_with(|| chain::at(chain, initial, at, budget));
        let mean = solved.as_mut().map_err(|refusal| refusal.clone())?.mean(chain, rewards, budget)?;
        *method = mean.method;
        Ok(mean.value)
    }

    /// What a question sums up, state by state, as the mean over what is exchanged.
    fn reward(&self, question: &Question) -> Vec<f64> {
        match question {
            Question::MeanTokens { place, .. } => self.orbit_mean(*place, float),
            Question::Probability { condition, .. } => match condition.terms.first() {
                Some((place, _, _)) if one_place(condition) => {
                    self.orbit_mean(*place, |tokens| f64::from(u8::from(condition.allows(*place, tokens))))
                }
                _ => self.holds(condition).into_iter().map(|holds| f64::from(u8::from(holds))).collect(),
            },
            Question::Throughput { transition, .. } => {
                let alike = &self.lumped.transitions[*transition];
                let mut sum = vec![0.0; self.space.chain().len()];
                for transition in alike {
                    sum.iter_mut().zip(self.space.rates(*transition)).for_each(|(sum, rate)| *sum += rate);
                }
                sum.iter_mut().for_each(|sum| *sum /= float(alike.len() as u64));
                sum
            }
            _ => vec![0.0; self.space.chain().len()],
        }
    }

    fn orbit_mean(&self, place: usize, value: impl Fn(u64) -> f64) -> Vec<f64> {
        let orbit = self.lumped.symmetry.orbit(place);
        let count = float(orbit.len() as u64);
        self.map(|tokens| orbit.iter().map(|place| value(tokens[*place])).sum::<f64>() / count)
    }

    fn holds(&self, condition: &Condition) -> Vec<bool> {
        self.map(|tokens| condition.holds(tokens))
    }

    fn map<T>(&self, mut value: impl FnMut(&[u64]) -> T) -> Vec<T> {
        let mut tokens = vec![0; self.space.places()];
        (0..self.space.chain().len())
            .map(|state| {
                self.load(state, &mut tokens);
                value(&tokens)
            })
            .collect()
    }

    fn load(&self, state: usize, tokens: &mut [u64]) {
        #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
        self.space.load(self.space.marking_of(state as u32), tokens);
    }

    /// How many markings `state` stands for, and whether each of them is one that nothing leaves: `None` where they may lead to
    /// each other.
    fn ends(&self, state: usize) -> (Option<u64>, Option<bool>) {
        let mut tokens = vec![0; self.space.places()];
        self.load(state, &mut tokens);
        let size = self.lumped.symmetry.size(&tokens);
        let ends = match self.space.chain().row(state).next() {
            Some(_) => Some(false),
            // With nothing to be exchanged with, whatever fires leads back.
            None if size == Some(1) || !self.space.moves(&tokens) => Some(true),
            None => None,
        };
        (size, ends)
    }

    fn deadlocks(&self) -> Result<u64, Refusal> {
        let mut count = 0_u64;
        for state in 0..self.space.chain().len() {
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
        let chain = self.space.chain();
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

    fn checks(&self, net: &Net, long_run: &LongRun) -> Checks {
        let chain = self.space.chain();
        let mut gains: Vec<f64> =
            (0..chain.len()).map(|state| -long_run.distribution[state] * chain.exit(state)).collect();
        for state in 0..chain.len() {
            for (to, rate) in chain.row(state) {
                gains[to] += long_run.distribution[state] * rate;
            }
        }
        let (mut balance, mut means) = (0.0_f64, vec![0.0; self.space.places()]);
        for (place, mean) in means.iter_mut().enumerate() {
            let tokens = self.orbit_mean(place, float);
            let (mut gain, mut gross) = (0.0, 0.0);
            for (state, tokens) in tokens.iter().enumerate() {
                gain += tokens * gains[state];
                gross += tokens * long_run.distribution[state] * chain.exit(state);
                *mean += tokens * long_run.distribution[state];
            }
            if gross > 0.0 {
                balance = balance.max((gain / gross).abs());
            }
        }
        Checks { residual: long_run.residual, flow_balance: balance, invariants: invariant_error(net, &means) }
    }
}

#[expect(clippy::cast_precision_loss, reason = "tokens beyond 2^53 are meant to 53 bits")]
fn float(count: u64) -> f64 {
    count as f64
}

fn unknown() -> Refusal {
    Refusal::new(Class::Unsupported, "", "this is not known of replicas without exploring all of their markings")
}
