//! Nets with rates from 1e-6 to 1e6, or parts that hardly know of each other, whose probabilities are known: closed networks of
//! stations. Each state of such a network weighs the product of what its stations weigh (Gordon and Newell), so that every single
//! probability can be held against its own.

use gspn::{Budget, Limits, chain, explore, json};
use serde_json::{Value, json};

use crate::Failed;

/// Customers that go from hubs, which serve all of them at once, to queues and back to the hub.
#[derive(Debug, Clone)]
pub struct Network {
    /// What it is called.
    pub name: &'static str,
    /// How many there are.
    pub customers: u32,
    /// A rate for each station.
    pub rates: Vec<f64>,
    /// How often each station is visited, relatively.
    visits: Vec<f64>,
    /// The stations that are hubs.
    hubs: Vec<usize>,
    /// From a hub to a station, and the weight of that way.
    ways: Vec<(usize, usize, f64)>,
}

/// The networks of the measure: rates far apart, a queue that hardly anybody goes to and that takes its time, and two halves between
/// which one in 3e9 changes. There are `(customers + 5)! / (customers! 5!)` states.
#[must_use]
pub fn networks(customers: u32) -> [Network; 3] {
    let star = |name, rates: [f64; 6], weights: [f64; 5]| {
        let all: f64 = weights.iter().sum();
        let visits = std::iter::once(1.0).chain(weights.iter().map(|weight| weight / all)).collect();
        let ways = weights.iter().enumerate().map(|(queue, weight)| (0, queue + 1, *weight)).collect();
        Network { name, customers, rates: rates.into(), visits, hubs: vec![0], ways }
    };
    let change = 1e-9;
    let part = 1.0 / (3.0 + change);
    [
        star("rates far apart", [1e-6, 2e-6, 1e-3, 1.0, 1e3, 1e6], [1.0, 2.0, 3.0, 4.0, 5.0]),
        star("a part that hardly takes part", [1e3, 1e-6, 1.6e3, 1.9e3, 2.2e3, 1e3], [1e-9, 2.0, 3.0, 4.0, 5.0]),
        Network {
            name: "two halves",
            customers,
            rates: vec![0.5, 1.3, 1.6, 0.7, 1.1, 2.2],
            visits: vec![1.0, part, 2.0 * part, 1.0, part, 2.0 * part],
            hubs: vec![0, 3],
            ways: vec![(0, 1, 1.0), (0, 2, 2.0), (0, 3, change), (3, 4, 1.0), (3, 5, 2.0), (3, 0, change)],
        },
    ]
}

impl Network {
    /// Station `s` is the place of that number; behind them stand those in which a customer who leaves a hub is sent on.
    #[must_use]
    pub fn net(&self) -> Value {
        let queue = |station: usize| format!("q{station}");
        let mut places: Vec<Value> = (0..self.rates.len()).map(|station| json!({"name": queue(station)})).collect();
        places[0] = json!({"name": "q0", "tokens": self.customers});
        let mut transitions = Vec::new();
        let mut hub = 0;
        for (station, rate) in self.rates.iter().enumerate() {
            let is_hub = self.hubs.contains(&station);
            hub = if is_hub { station } else { hub };
            let to = if is_hub { format!("leave{station}") } else { queue(hub) };
            if is_hub {
                places.push(json!({"name": &to}));
            }
            let servers = if is_hub { json!("inf") } else { json!(1) };
            transitions.push(json!({"name": format!("s{station}"), "kind": "timed", "rate": rate, "servers": servers,
                "in": {queue(station): 1}, "out": {to: 1}}));
        }
        for (from, to, weight) in &self.ways {
            transitions.push(json!({"name": format!("from{from}to{to}"), "kind": "immediate", "weight": weight,
                "in": {format!("leave{from}"): 1}, "out": {queue(*to): 1}}));
        }
        json!({"name": self.name, "net": {"places": places, "transitions": transitions}})
    }

    /// The logarithm of what a state weighs.
    fn weight(&self, tokens: &[u64]) -> f64 {
        let mut weight = 0.0;
        for (station, (rate, visits)) in self.rates.iter().zip(&self.visits).enumerate() {
            weight += tokens[station] as f64 * (visits / rate).ln();
            if self.hubs.contains(&station) {
                weight -= (1..=tokens[station]).map(|here| (here as f64).ln()).sum::<f64>();
            }
        }
        weight
    }

    /// How many states it has, and the largest relative error of the long-run probability of one of them.
    ///
    /// # Errors
    /// The net is refused, or its equations are not solved.
    pub fn worst(&self, limits: Limits) -> Result<(usize, f64), Failed> {
        let refused = |refusal: gspn::Refusal| Failed::from(format!("{}: {}", self.name, refusal.why));
        let net = json::read(self.net().to_string().as_bytes()).map_err(refused)?.net;
        let mut go_on = |_| true;
        let mut budget = Budget::new(limits, &mut go_on);
        let space = explore::explore(&net, 1, &[], &[], &mut budget).map_err(refused)?;
        let solved = chain::long_run(space.chain(), space.initial(), &mut budget).map_err(refused)?;
        let mut tokens = vec![0; space.places()];
        let weights: Vec<f64> = (0..u32::try_from(space.chain().len())?)
            .map(|state| {
                space.load(space.marking_of(state), &mut tokens);
                self.weight(&tokens)
            })
            .collect();
        let largest = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let all: f64 = weights.iter().map(|weight| (weight - largest).exp()).sum();
        let wanted = weights.iter().map(|weight| (weight - largest).exp() / all);
        let errors = solved.distribution.iter().zip(wanted).map(|(share, wanted)| ((share - wanted) / wanted).abs());
        // What is no number is no small error.
        let worst = errors.fold(0.0, |worst, error| if error <= worst { worst } else { error });
        Ok((weights.len(), worst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_ones_are_right_in_every_probability() {
        for network in networks(4) {
            let (states, error) = network.worst(Limits::default()).unwrap();
            assert_eq!(states, 126, "{}", network.name);
            assert!(error <= 1e-9, "{}: {error:e}", network.name);
        }
    }

    /// The closed form notices another rate, else it would prove nothing.
    #[test]
    fn another_rate_is_another_answer() {
        for mut network in networks(2) {
            let space = network.worst(Limits::default()).unwrap();
            network.visits[1] *= 1.0 + 1e-6;
            let other = network.worst(Limits::default()).unwrap();
            assert!(other.1 > 1e-7 && space.1 < 1e-9, "{}: {} and {}", network.name, space.1, other.1);
        }
    }
}
