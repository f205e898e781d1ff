//! Nets that are closed networks of queues, however many customers there are: exact answers without exploring markings.
//!
//! Each transition takes one token from one place and puts it into one, and looks at nothing else; servers that are tokens themselves are
//! taken out before ([`held`]). Then the long run is a product
//! over the places (Jackson; Gordon and Newell), and what is asked follows from sums over all ways to spread the tokens (Buzen's
//! convolution; the mean of a place with one server by mean value analysis). Sums only grow, so nothing cancels.

mod held;
mod network;
mod shared;
mod station;
mod sums;
pub(crate) mod wide;

pub(crate) use self::held::{Held, without as without_servers};
use self::network::Networks;
use self::shared::Shared;
use self::sums::Sums;
use crate::ask::{Answer, Ask, Checks, Condition, Question, Value};
use crate::bounds::Jobs;
use crate::{Budget, Class, Net, Refusal};

/// Markings beyond which a net with product form is not explored when nothing asks for it.
const WORTH: u64 = 300;
/// What a check may be off.
const OFF: f64 = 1e-8;

/// A net with product form.
#[derive(Debug)]
pub(crate) struct Product {
    networks: Networks,
    /// For each place, whether it belongs to a station with tokens as servers.
    held: Vec<Option<Held>>,
    /// For each place of a queue among others for the same servers, which part of the station's customers are its own.
    parts: Vec<Option<f64>>,
    /// Tangible markings that can be reached at least.
    markings: u64,
}

impl Product {
    /// `None` where the net has no such form.
    pub(crate) fn of(net: &Net) -> Option<Self> {
        // Where tokens come or go there is no closed network, whatever is a server: that is seen before the net is copied.
        if net.transitions().iter().any(|it| it.inputs.is_empty() || it.outputs.is_empty()) {
            return None;
        }
        let (net, mut held) = held::without(net)?;
        let (net, shared) = shared::without(net, &mut held)?;
        let networks = network::find(&net, &shared)?;
        let mut parts = vec![None; held.len()];
        for Shared { busy, .. } in &shared {
            let all: f64 = busy.iter().map(|place| networks.visits[*place]).sum();
            for (part, held) in parts.iter_mut().zip(&held) {
                if let Some(own) = held.and_then(|held| held.own).filter(|own| busy.contains(own)) {
                    *part = Some(if all > 0.0 { networks.visits[own] / all } else { 0.0 });
                }
            }
        }
        let markings = networks
            .networks
            .iter()
            .map(|it| ways(it.customers, it.stations.len() as u64))
            .fold(1, u64::saturating_mul);
        Some(Self { networks, held, parts, markings })
    }

    /// Answers `asks`: by exploring, or by the product where the markings go beyond the limit or many need not be explored. What `alike`
    /// says counts where they go beyond: many of them may be alike.
    ///
    /// # Errors
    /// Those of `explore`, where nothing can be said without it.
    pub(crate) fn answer(
        &self,
        asks: &[Ask],
        budget: &mut Budget<'_>,
        alike: impl FnOnce(&[Ask], Refusal, &mut Budget<'_>) -> Result<Answer, Refusal>,
        explore: impl FnOnce(&[Ask], &mut Budget<'_>) -> Result<Answer, Refusal>,
    ) -> Result<Answer, Refusal> {
        let beyond = budget.markings(self.markings).err();
        // Before anything else takes the time that there is.
        let mut known = nothing(asks, &too_large());
        if self.markings > WORTH {
            known = self.fill(asks, known, budget);
        }
        let left: Vec<Ask> = asks.iter().filter(|ask| known.unanswered.contains_key(&ask.id)).cloned().collect();
        if left.is_empty() && !asks.is_empty() {
            return Ok(known);
        }
        let explored = match beyond {
            Some(refusal) => alike(&left, refusal, budget),
            None => explore(&left, budget),
        };
        known.unanswered.clear();
        match explored {
            Ok(answer) => known.extend(answer),
            Err(refusal) if refusal.class == Class::TooLarge => {
                known.extend(nothing(&left, &refusal));
                let known = self.fill(asks, known, budget);
                return if known.values.is_empty() { Err(refusal) } else { Ok(known) };
            }
            Err(refusal) => return Err(refusal),
        }
        Ok(self.fill(asks, known, budget))
    }

    /// Customers and demands of each network in which every place has servers of one rate.
    pub(crate) fn jobs(&self) -> Vec<Jobs> {
        let Networks { networks, of_place, parts, visits, .. } = &self.networks;
        let jobs =
            networks.iter().enumerate().filter(|(_, network)| network.customers > 0).filter_map(|(side, network)| {
                let (mut think, mut demands) = (0.0, Vec::new());
                for station in &network.stations {
                    match (station.service.delay(), station.service.servers()) {
                        (Some(delay), _) => think += station.visits * delay,
                        (None, Some((time, servers))) => demands.push((station.visits * time, servers)),
                        (None, None) => return None,
                    }
                }
                let firings = parts.iter().enumerate().filter_map(|(transition, part)| {
                    let (place, part) = (*part)?;
                    (of_place[place] == side).then_some((transition, part * visits[place]))
                });
                Some(Jobs { customers: station::number(network.customers), think, demands, firings: firings.collect() })
            });
        jobs.collect()
    }

    fn knows(&self, question: &Question) -> bool {
        match question {
            // How customers of several queues are mixed is not summed up.
            Question::Probability { condition, .. } if condition.terms.iter().any(|it| self.parts[it.0].is_some()) => {
                false
            }
            Question::MeanTokens { at, .. } | Question::Probability { at, .. } | Question::Throughput { at, .. } => {
                at.is_none()
            }
            Question::BottomComponents => true,
            Question::Deadlocks => {
                self.networks.networks.iter().any(|network| network.customers > 0 && network.stations.len() > 1)
            }
            Question::Bound { place } => {
                let network = &self.networks.networks[self.networks.of_place[*place]];
                self.held[*place].is_none()
                    && network.whole
                    && network.stations.iter().any(|station| station.place == *place)
            }
            _ => false,
        }
    }

    /// Answers among `asks` what is too large in `known`.
    fn fill(&self, asks: &[Ask], mut known: Answer, budget: &mut Budget<'_>) -> Answer {
        let open = |ask: &&Ask| {
            let refused = known.unanswered.get(&ask.id);
            self.knows(&ask.question) && refused.is_some_and(|refusal| refusal.class == Class::TooLarge)
        };
        let open: Vec<&Ask> = asks.iter().filter(open).collect();
        if open.is_empty() {
            return known;
        }
        let solved: Result<Vec<Sums<'_>>, Refusal> =
            self.networks.networks.iter().map(|network| Sums::new(network, budget)).collect();
        let Ok(solved) = solved else { return known };
        let invariants = solved.iter().map(Sums::off).fold(0.0, f64::max);
        let checks = Checks { residual: self.networks.residual, flow_balance: self.networks.residual, invariants };
        if !(checks.residual <= OFF && checks.invariants <= OFF) {
            return known;
        }
        for ask in open {
            match self.value(&ask.question, &solved, budget) {
                Ok(Value::Number(value)) if !value.is_finite() => {}
                Ok(value) => {
                    known.unanswered.remove(&ask.id);
                    known.values.insert(ask.id.clone(), value);
                }
                Err(mut refusal) => {
                    refusal.name.clone_from(&ask.id);
                    known.unanswered.insert(ask.id.clone(), refusal);
                }
            }
        }
        known.checks = known.checks.worse(&checks);
        known
    }

    fn value(&self, question: &Question, solved: &[Sums<'_>], budget: &mut Budget<'_>) -> Result<Value, Refusal> {
        let Networks { networks, of_place, parts, visits, .. } = &self.networks;
        Ok(match question {
            Question::MeanTokens { place, .. } if let Some(held) = self.held[*place] => {
                let side = of_place[held.station];
                let station = networks[side].stations.iter().position(|station| station.place == held.station);
                let part = self.parts[*place].unwrap_or(1.0);
                Value::Number(match station {
                    Some(station) => part * solved[side].expect(station, |customers| held.tokens(customers), budget)?,
                    None => station::number(held.tokens(0)),
                })
            }
            Question::MeanTokens { place, .. } => {
                let side = of_place[*place];
                let station = networks[side].stations.iter().position(|station| station.place == *place);
                Value::Number(station.map_or(0.0, |station| solved[side].mean(station)))
            }
            Question::Throughput { transition, .. } => {
                let rate = |(place, part): (usize, f64)| part * visits[place] * solved[of_place[place]].rate();
                Value::Number(parts[*transition].map_or(0.0, rate))
            }
            Question::Probability { condition, .. } => Value::Number(self.probability(condition, solved, budget)?),
            Question::BottomComponents => Value::Count(1),
            Question::Deadlocks => Value::Count(0),
            Question::Bound { place } => Value::Count(networks[of_place[*place]].customers),
            _ => return Err(too_large()),
        })
    }

    fn probability(&self, condition: &Condition, solved: &[Sums<'_>], budget: &mut Budget<'_>) -> Result<f64, Refusal> {
        let Networks { networks, of_place, .. } = &self.networks;
        let mut asked: Vec<Vec<usize>> = vec![Vec::new(); networks.len()];
        for (place, compare, count) in &condition.terms {
            let held = self.held[*place];
            let place = held.map_or(*place, |held| held.station);
            let side = of_place[place];
            match networks[side].stations.iter().position(|station| station.place == place) {
                Some(station) if !asked[side].contains(&station) => asked[side].push(station),
                Some(_) => {}
                // In the end nobody is at such a place whenever time passes.
                None if compare.holds(held.map_or(0, |held| held.tokens(0)), *count) => {}
                None => return Ok(0.0),
            }
        }
        let mut probability = 1.0;
        for (solved, stations) in solved.iter().zip(&asked) {
            if !stations.is_empty() {
                let allows = |station: usize, customers: u64| {
                    let at = |place: usize| match self.held[place] {
                        Some(held) if held.station == station => Some(held.tokens(customers)),
                        None if place == station => Some(customers),
                        _ => None,
                    };
                    condition
                        .terms
                        .iter()
                        .all(|(place, compare, count)| at(*place).is_none_or(|tokens| compare.holds(tokens, *count)))
                };
                probability *= solved.probability(stations, allows, budget)?;
            }
        }
        Ok(probability)
    }
}

fn nothing(asks: &[Ask], refusal: &Refusal) -> Answer {
    let unanswered = asks.iter().map(|ask| (ask.id.clone(), refusal.clone())).collect();
    Answer { unanswered, ..Answer::default() }
}

fn too_large() -> Refusal {
    Refusal::new(Class::TooLarge, "markings", "this is not known without exploring the markings")
}

/// In how many ways customers spread over stations.
fn ways(customers: u64, stations: u64) -> u64 {
    let others = stations.saturating_sub(1).min(customers);
    let sum = u128::from(customers) + u128::from(stations.saturating_sub(1));
    let mut ways = 1_u128;
    for step in 0..u128::from(others) {
        ways = ways.saturating_mul(sum - step) / (step + 1);
        if ways > u128::from(u64::MAX) {
            return u64::MAX;
        }
    }
    u64::try_from(ways).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::ways;

    #[test]
    fn ways_to_spread_are_binomial() {
        assert_eq!(ways(3, 2), 4);
        assert_eq!(ways(2, 4), 10);
        assert_eq!(ways(0, 4), 1);
        assert_eq!(ways(7, 1), 1);
        assert_eq!(ways(1_000_000, 3), 500_001_500_001);
        assert_eq!(ways(1_000_000, 9), u64::MAX);
    }
}
