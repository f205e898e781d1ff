//! What means and throughputs of every long run keep to, as a linear program: flows balance at each place, means are mixtures of
//! markings that the firings allow, and a transition fires no faster and (mostly) no slower than its tokens let it.

use hashbrown::HashMap;
use microlp::{ComparisonOp, Error, OptimizationDirection, Problem, Variable};

use crate::explore::explore;
use crate::net::{Arc, Kind, Net, Phase, Rate, Servers, Transition, semiflows};
use crate::{Budget, Class, Limits, Progress, Refusal};

/// Places and transitions up to which a program is made.
const LARGEST: usize = 1_000;
/// Markings that are looked at for a proof that there is no end of them.
const FIRST: u64 = 20_000;
/// How far apart rates may be.
const APART: f64 = 1e6;
/// What an optimum may be off, in part of itself and of the largest rate.
const SLACK: (f64, f64) = (1e-6, 1e-9);

/// A constraint: `sum of coefficients times variables` against a number.
type Constraint = (Vec<(usize, f64)>, ComparisonOp, f64);

/// The program of a net. Variables are mean tokens by place, throughputs by transition over `unit`, firings by transition.
#[derive(Debug)]
pub(super) struct Program {
    places: usize,
    transitions: usize,
    /// By variable, from 0.
    most: Vec<f64>,
    constraints: Vec<Constraint>,
    /// The largest rate.
    unit: f64,
}

#[expect(clippy::cast_precision_loss, reason = "bounds to six digits")]
fn float(count: u64) -> f64 {
    count as f64
}

impl Program {
    /// # Errors
    /// [`Class::TooLarge`] for a net of many nodes, [`Class::Unsupported`] where its structure bounds no tokens of some place, or
    /// rates are too far apart.
    pub(super) fn new(net: &Net, budget: &mut Budget<'_>) -> Result<Self, Refusal> {
        let (places, transitions) = (net.places().len(), net.transitions().len());
        if places > LARGEST || transitions > LARGEST {
            let why = format!("more than {LARGEST} places or transitions make a program that takes too long");
            let which = if places > LARGEST { "places" } else { "transitions" };
            return Err(Refusal::new(Class::TooLarge, which, why));
        }
        let unit = unit(net)?;
        let mut program = Self { places, transitions, most: Vec::new(), constraints: Vec::new(), unit };
        program.most = vec![f64::INFINITY; places + 2 * transitions];
        program.flows(net);
        for (place, bound) in semiflows::bounds(net).into_iter().enumerate() {
            program.most[place] = match bound {
                Some(bound) => float(bound),
                None => program.tokens(net, place, budget)?,
            };
        }
        for index in 0..transitions {
            program.transition(net, index);
        }
        program.choices(net);
        Ok(program)
    }

    /// The most and the least mean tokens of a place.
    pub(super) fn mean(&self, place: usize, budget: &mut Budget<'_>) -> Result<(f64, f64), Refusal> {
        let (low, high) = self.range(place, budget)?;
        Ok((low, high.min(self.most[place])))
    }

    /// The least and the largest throughput of a transition.
    pub(super) fn throughput(&self, transition: usize, budget: &mut Budget<'_>) -> Result<(f64, f64), Refusal> {
        let (low, high) = self.range(self.fires(transition), budget)?;
        Ok((low * self.unit, high * self.unit))
    }

    fn fires(&self, transition: usize) -> usize {
        self.places + transition
    }

    fn range(&self, variable: usize, budget: &mut Budget<'_>) -> Result<(f64, f64), Refusal> {
        let low = self.best(variable, OptimizationDirection::Minimize, budget)?;
        let high = self.best(variable, OptimizationDirection::Maximize, budget)?;
        let slack = |value: f64| SLACK.0 * value.abs() + SLACK.1;
        Ok(((low - slack(low)).max(0.0), high + slack(high)))
    }

    fn best(&self, variable: usize, way: OptimizationDirection, budget: &mut Budget<'_>) -> Result<f64, Refusal> {
        budget.look(Progress::Solving { sweeps: 0, error: 0.0 })?;
        let mut problem = Problem::new(way);
        let add = |(index, most): (usize, &f64)| problem.add_var(f64::from(u8::from(index == variable)), (0.0, *most));
        let variables: Vec<Variable> = self.most.iter().enumerate().map(add).collect();
        for (sum, sort, number) in &self.constraints {
            let sum: Vec<(Variable, f64)> = sum.iter().map(|(index, by)| (variables[*index], *by)).collect();
            problem.add_constraint(sum, *sort, *number);
        }
        let found = match problem.solve() {
            Ok(outcome) if outcome.is_optimal() => outcome.solution().map(microlp::Solution::objective),
            Err(Error::Unbounded) => return Ok(f64::INFINITY),
            _ => None,
        };
        let why = "what its arcs and rates say of its long run contradicts itself, or was not solved: it may have none (`check` tells)";
        found.ok_or_else(|| Refusal::new(Class::Unsupported, "", why))
    }

    /// Flows balance, and a mean marking is the initial one and what firings change of it.
    fn flows(&mut self, net: &Net) {
        let mut flows = vec![Vec::new(); self.places];
        let mut marking: Vec<Vec<(usize, f64)>> = (0..self.places).map(|place| vec![(place, 1.0)]).collect();
        for (index, it) in net.transitions().iter().enumerate() {
            for (place, change) in changes(it) {
                flows[place].push((self.fires(index), change));
                marking[place].push((self.fires(index) + self.transitions, -change));
            }
        }
        for (place, (flow, marking)) in flows.into_iter().zip(marking).enumerate() {
            self.constraints.push((flow, ComparisonOp::Eq, 0.0));
            self.constraints.push((marking, ComparisonOp::Eq, float(net.places()[place].tokens)));
        }
    }

    /// The most tokens of a place that no sum of tokens bounds.
    fn tokens(&self, net: &Net, place: usize, budget: &mut Budget<'_>) -> Result<f64, Refusal> {
        let most = self.best(place, OptimizationDirection::Maximize, budget)?;
        if most.is_finite() {
            return Ok((most * (1.0 + SLACK.0) + SLACK.1).floor());
        }
        let why = "its arcs alone do not bound its tokens, so neither are means bounded";
        Err(endless(net, budget).unwrap_or_else(|| Refusal::new(Class::Unsupported, &net.places()[place].name, why)))
    }

    /// How fast and how slow one transition fires for its mean tokens.
    fn transition(&mut self, net: &Net, index: usize) {
        let it = &net.transitions()[index];
        let fires = self.fires(index);
        let (fast, slow, servers) = match &it.kind {
            Kind::Immediate { .. } => return self.immediate(it),
            Kind::Timed { rate: Rate::Constant(rate), servers } => (*rate, Some(*rate), *servers),
            Kind::Timed { rate: Rate::ByTokens { place, rates }, servers } => {
                let needed = it.inputs.iter().find(|arc| arc.place == *place).map_or(0, |arc| arc.count);
                let reached = rates.iter().zip(0_u64..).enumerate().filter(|(entry, (_, tokens))| {
                    float(*tokens) <= self.most[*place] && (*tokens >= needed || entry + 1 == rates.len())
                });
                let reached = reached.map(|(_, (rate, _))| rate);
                let (low, high) =
                    reached.fold((f64::INFINITY, 0.0_f64), |(low, high), rate| (low.min(*rate), high.max(*rate)));
                (high, Some(low), *servers)
            }
            Kind::Deterministic { delay } => (1.0 / delay, None, Servers::Finite(1)),
            Kind::Phase(phase) => (hazard(phase), None, Servers::Finite(1)),
        };
        let servers = if let Servers::Finite(servers) = servers { float(servers) } else { f64::INFINITY };
        let (fast, slow) = (fast / self.unit, slow.map(|slow| slow / self.unit));
        // At most as often as its servers, and as each input place, allow.
        let degree = |most: &[f64], arc: &Arc| (most[arc.place] / float(arc.count)).floor();
        let allowed = it.inputs.iter().map(|arc| degree(&self.most, arc)).fold(servers, f64::min);
        self.most[fires] = fast * allowed;
        for arc in &it.inputs {
            let sum = vec![(fires, 1.0), (arc.place, -fast / float(arc.count))];
            self.constraints.push((sum, ComparisonOp::Le, 0.0));
        }
        let Some(slow) = slow.filter(|slow| *slow > 0.0 && allowed > 0.0) else { return };
        // The degree of one place is at least a line through its tokens, that of several at least the sum of theirs less what all
        // but the smallest can be; what an inhibitor stops is at most its tokens over its multiplicity.
        let (mut sum, mut number, mut largest) = (vec![(fires, 1.0)], 0.0, 0.0_f64);
        for arc in &it.inputs {
            let count = float(arc.count);
            let part = (servers / degree(&self.most, arc)).min(1.0) / count;
            sum.push((arc.place, -slow * part));
            number -= slow * part * (count - 1.0);
            largest = largest.max(degree(&self.most, arc).min(servers));
        }
        match it.inputs.len() {
            0 => number += slow * servers,
            inputs => number -= slow * largest * float(inputs as u64 - 1),
        }
        for arc in &it.inhibitors {
            let stops = slow * allowed / float(arc.count);
            match sum.iter_mut().find(|(variable, _)| *variable == arc.place) {
                Some((_, by)) => *by += stops,
                None => sum.push((arc.place, stops)),
            }
        }
        if number.is_finite() && sum.iter().all(|(_, by)| by.is_finite()) {
            self.constraints.push((sum, ComparisonOp::Ge, number));
        }
    }

    /// While time passes no immediate is enabled.
    fn immediate(&mut self, it: &Transition) {
        if let ([arc], []) = (it.inputs.as_slice(), it.inhibitors.as_slice()) {
            self.most[arc.place] = self.most[arc.place].min(float(arc.count - 1));
        }
    }

    /// Transitions that are always enabled together share their firings by weight or by rate.
    fn choices(&mut self, net: &Net) {
        let mut first: HashMap<_, (usize, f64)> = HashMap::new();
        for (index, it) in net.transitions().iter().enumerate() {
            let (sort, part) = match &it.kind {
                Kind::Immediate { weight, priority, by: None } => ((u64::from(*priority), false), *weight),
                Kind::Timed { rate: Rate::Constant(rate), servers } => {
                    let servers = if let Servers::Finite(servers) = servers { *servers } else { 0 };
                    ((servers, true), *rate)
                }
                _ => continue,
            };
            let key = (sort, sorted(&it.inputs), sorted(&it.inhibitors));
            match first.get(&key) {
                None => drop(first.insert(key, (index, part))),
                Some((other, share)) => {
                    let larger = share.max(part);
                    let sum = vec![(self.fires(index), share / larger), (self.fires(*other), -part / larger)];
                    self.constraints.push((sum, ComparisonOp::Eq, 0.0));
                }
            }
        }
    }
}

/// The proof that some place gathers tokens without end, where the first markings show it.
pub(crate) fn endless(net: &Net, budget: &mut Budget<'_>) -> Option<Refusal> {
    first(net, Class::Unbounded, budget)
}

/// The proof that time may stop for ever, where the first markings show it: then there is no long run, and nothing bounds what is none.
pub(super) fn timeless(net: &Net, budget: &mut Budget<'_>) -> Option<Refusal> {
    let immediate = |it: &Transition| matches!(it.kind, Kind::Immediate { .. });
    if net.transitions().iter().any(immediate) { first(net, Class::TimelessTrap, budget) } else { None }
}

/// What the first markings are refused for, where it is of that class.
fn first(net: &Net, class: Class, budget: &mut Budget<'_>) -> Option<Refusal> {
    let limits = Limits { markings: FIRST.min(budget.limits().markings), bytes: budget.limits().bytes };
    let mut go_on = |progress| budget.look(progress).is_ok();
    let refusal = explore(net, 1, &[], &[], &mut Budget::new(limits, &mut go_on)).err()?;
    (refusal.class == class).then_some(refusal)
}

fn sorted(arcs: &[Arc]) -> Vec<(usize, u64)> {
    let mut arcs: Vec<(usize, u64)> = arcs.iter().map(|arc| (arc.place, arc.count)).collect();
    arcs.sort_unstable();
    arcs
}

/// What one firing changes, place by place.
fn changes(it: &Transition) -> Vec<(usize, f64)> {
    let mut changes: Vec<(usize, f64)> = it.outputs.iter().map(|arc| (arc.place, float(arc.count))).collect();
    for arc in &it.inputs {
        match changes.iter_mut().find(|(place, _)| *place == arc.place) {
            Some((_, change)) => *change -= float(arc.count),
            None => changes.push((arc.place, -float(arc.count))),
        }
    }
    changes.retain(|(_, change)| *change != 0.0);
    changes
}

/// The most firings per time unit of being enabled, however often the clock is reset.
fn hazard(phase: &Phase) -> f64 {
    match phase {
        // The longer it runs, the sooner it ends: a reset never helps.
        Phase::Erlang { stages, rate } => rate / f64::from(*stages),
        Phase::Hyper(phases) => phases.iter().map(|(_, rate)| *rate).fold(0.0, f64::max),
        Phase::Coxian(phases) => phases.iter().map(|(rate, onward)| rate * (1.0 - onward)).fold(0.0, f64::max),
    }
}

/// The largest rate.
fn unit(net: &Net) -> Result<f64, Refusal> {
    let (mut least, mut most) = ((f64::INFINITY, ""), (0.0_f64, ""));
    for it in net.transitions() {
        let rates = match &it.kind {
            Kind::Timed { rate: Rate::Constant(rate), .. } => vec![*rate],
            Kind::Timed { rate: Rate::ByTokens { rates, .. }, .. } => rates.clone(),
            Kind::Deterministic { delay } => vec![1.0 / delay],
            Kind::Phase(phase) => vec![hazard(phase)],
            Kind::Immediate { .. } => Vec::new(),
        };
        for rate in rates.into_iter().filter(|rate| *rate > 0.0) {
            if rate < least.0 {
                least = (rate, &it.name);
            }
            if rate > most.0 {
                most = (rate, &it.name);
            }
        }
    }
    if most.0 / least.0 > APART {
        let why = format!(
            "it fires at up to {:e} and `{}` at {:e}: rates are more than {APART:e} apart, which a linear program does not bear",
            most.0, least.1, least.0
        );
        return Err(Refusal::new(Class::Unsupported, most.1, why));
    }
    Ok(if most.0 > 0.0 { most.0 } else { 1.0 })
}
