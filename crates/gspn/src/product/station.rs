//! A station of a network with product form: how fast it serves, and what it adds to the sums over all ways to spread customers.

use super::wide::Wide;
use crate::net::{Rate, Servers};
use crate::{Budget, Progress, Refusal};

/// Numbers of customers up to which the rates of a station may differ.
const LONGEST: u64 = 1_000_000;
/// Additions between two looks at the clock.
const LOOK: usize = 1 << 20;

/// How fast a station serves: the rate with one customer, with two and so on, and what comes after.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Service {
    /// Each above 0.
    first: Vec<f64>,
    after: After,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum After {
    /// The rate stays.
    Same(f64),
    /// Each customer has a server of this rate.
    Each(f64),
}

impl Service {
    /// Of a transition that takes single tokens, with at most `customers` there; `None` where it stands still with some.
    pub(super) fn of(rate: &Rate, servers: Servers, customers: u64) -> Option<Self> {
        let one = [0.0];
        let (rates, last): (&[f64], u64) = match rate {
            Rate::Constant(_) => (&one, 0),
            Rate::ByTokens { rates, .. } => (rates, rates.len() as u64 - 1),
        };
        let at = |count: u64| match rate {
            Rate::Constant(rate) => *rate,
            Rate::ByTokens { .. } => rates[usize::try_from(count.min(last)).unwrap_or(0)],
        };
        let (servers, after) = match servers {
            Servers::Finite(servers) if servers < customers => (servers, After::Same(at(last) * number(servers))),
            _ => (customers, After::Each(at(last))),
        };
        let same = if matches!(after, After::Same(_)) { servers } else { 1 };
        if last.max(same).min(customers) > LONGEST {
            return None;
        }
        let first: Vec<f64> = (1..last.max(same).min(customers.saturating_add(1)))
            .map(|count| at(count) * number(count.min(servers)))
            .collect();
        let (After::Same(rate) | After::Each(rate)) = after;
        let serves = |rate: &f64| *rate > 0.0 && rate.is_finite() && (1.0 / rate).is_finite();
        (serves(&rate) && first.iter().all(serves)).then_some(Self { first, after })
    }

    /// Firings per time unit with `count` customers, at least one.
    fn rate(&self, count: usize) -> f64 {
        match (self.first.get(count - 1), self.after) {
            (Some(rate), _) => *rate,
            (None, After::Same(rate)) => rate,
            (None, After::Each(rate)) => rate * number(count as u64),
        }
    }

    /// The time of one customer, where each has a server.
    pub(super) fn delay(&self) -> Option<f64> {
        match self.after {
            After::Each(rate) if self.first.is_empty() => Some(1.0 / rate),
            _ => None,
        }
    }

    /// The time of one customer and the number of servers, where all are of one rate.
    pub(super) fn servers(&self) -> Option<(f64, f64)> {
        let After::Same(all) = self.after else { return None };
        let one = *self.first.first().unwrap_or(&all);
        let alike = self.first.iter().zip(1_u64..).all(|(rate, count)| *rate == one * number(count));
        let servers = number(self.first.len() as u64 + 1);
        (alike && all == one * servers).then_some((1.0 / one, servers))
    }

    /// The time of one customer, where there is one server.
    pub(super) fn single(&self) -> Option<f64> {
        match self.after {
            After::Same(rate) if self.first.is_empty() => Some(1.0 / rate),
            _ => None,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts beyond 2^53 are meant to 53 bits")]
pub(super) fn number(count: u64) -> f64 {
    count as f64
}

/// A place where customers wait and are served.
#[derive(Debug)]
pub(super) struct Station {
    pub(super) place: usize,
    /// Departures, relative to those of the other stations.
    pub(super) visits: f64,
    pub(super) service: Service,
}

impl Station {
    /// What each number of customers here weighs, from none to `customers`.
    pub(super) fn weights(&self, customers: usize) -> Vec<Wide> {
        let visits = Wide::of(self.visits);
        let mut weights = vec![Wide::ONE];
        let mut weight = Wide::ONE;
        for count in 1..=customers {
            weight = weight * visits * Wide::of(1.0 / self.service.rate(count));
            weights.push(weight);
        }
        weights
    }

    /// Adds this station to `sums`, by customers from none to all.
    pub(super) fn join(&self, sums: &[Wide], budget: &mut Budget<'_>) -> Result<Vec<Wide>, Refusal> {
        let customers = sums.len() - 1;
        let (known, again) = match self.service.after {
            After::Same(rate) => (self.service.first.len(), Some(Wide::of(self.visits) * Wide::of(1.0 / rate))),
            After::Each(_) => (customers, None),
        };
        let weights = self.weights(known.min(customers));
        let mut joined = Vec::with_capacity(sums.len());
        let (mut tail, mut work) = (Wide::ZERO, 0);
        for all in 0..=customers {
            let mut sum = Wide::ZERO;
            // The last known weight begins the tail, in which each is the one before times the same.
            let here = if again.is_some() { known } else { known + 1 };
            for (weight, rest) in weights.iter().take(here).zip(sums[..=all].iter().rev()) {
                sum += *weight * *rest;
            }
            if let Some(again) = again {
                tail = tail * again;
                if all >= known {
                    tail += weights[known] * sums[all - known];
                }
                sum += tail;
            }
            joined.push(sum);
            work += 1 + here.min(all);
            if work >= LOOK {
                work = 0;
                budget.look(Progress::Solving { sweeps: 0, error: 0.0 })?;
            }
        }
        Ok(joined)
    }
}

/// The sums of stations in which each customer has a server, `time` being the sum of their visits times their delays.
pub(super) fn delays(time: f64, customers: usize) -> Vec<Wide> {
    let time = Wide::of(time);
    let mut weight = Wide::ONE;
    let mut sums = vec![weight];
    for count in 1..=customers {
        weight = weight * time * Wide::of(1.0 / number(count as u64));
        sums.push(weight);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(rate: Rate, servers: Servers) -> Vec<f64> {
        let service = Service::of(&rate, servers, 6).unwrap();
        (1..=6).map(|count| service.rate(count)).collect()
    }

    fn table(rates: &[f64]) -> Rate {
        Rate::ByTokens { place: 0, rates: rates.to_vec() }
    }

    #[test]
    fn the_rate_of_a_station_is_that_of_its_transition() {
        assert_eq!(service(Rate::Constant(2.0), Servers::Finite(1)), [2.0; 6]);
        assert_eq!(service(Rate::Constant(2.0), Servers::Finite(3)), [2.0, 4.0, 6.0, 6.0, 6.0, 6.0]);
        assert_eq!(service(Rate::Constant(2.0), Servers::Finite(9)), [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
        assert_eq!(service(Rate::Constant(2.0), Servers::Infinite), [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
        assert_eq!(service(table(&[0.0, 5.0, 1.0, 3.0]), Servers::Finite(1)), [5.0, 1.0, 3.0, 3.0, 3.0, 3.0]);
        assert_eq!(service(table(&[7.0]), Servers::Finite(1)), [7.0; 6]);
        assert_eq!(service(table(&[0.0, 5.0, 1.0]), Servers::Finite(4)), [5.0, 2.0, 3.0, 4.0, 4.0, 4.0]);
        assert_eq!(service(table(&[0.0, 5.0, 1.0]), Servers::Infinite), [5.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(service(table(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]), Servers::Finite(1))[5], 6.0);
        assert_eq!(Service::of(&table(&[1.0, 0.0, 2.0]), Servers::Finite(1), 6), None);
    }
}
