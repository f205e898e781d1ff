//! The sums of a closed network over all ways to spread its customers, and what follows from them.

use super::network::Network;
use super::station::{Station, delays, number};
use super::wide::Wide;
use crate::{Budget, Class, Progress, Refusal};

/// Products that one question about several places may take.
const WORK: usize = 2_000_000_000;

/// A solved network.
#[derive(Debug)]
pub(super) struct Sums<'a> {
    network: &'a Network,
    customers: usize,
    /// By customers, from none to all.
    all: Vec<Wide>,
    /// Mean customers at each station.
    means: Vec<f64>,
}

impl<'a> Sums<'a> {
    /// Solves a network.
    ///
    /// # Errors
    /// [`Class::TooLarge`] where it needs more memory or time than the budget.
    pub(super) fn new(network: &'a Network, budget: &mut Budget<'_>) -> Result<Self, Refusal> {
        let rows = 6 + u64::from(network.stations.len().max(1).ilog2());
        budget.bytes(network.customers.saturating_mul(rows * size_of::<Wide>() as u64))?;
        let customers = usize::try_from(network.customers).map_err(|_| overflow())?;
        let mut found = Self { network, customers, all: Vec::new(), means: vec![0.0; network.stations.len()] };
        found.all = found.without(&[], budget)?;
        let queues: Vec<usize> = (0..network.stations.len()).filter(|at| found.delay(*at).is_none()).collect();
        let time = network.stations.iter().filter_map(|it| Some(it.visits * it.service.delay()?)).sum();
        found.tabled(delays(time, customers), &queues, budget)?;
        let rate = found.rate();
        for (at, station) in network.stations.iter().enumerate() {
            if let Some(delay) = station.service.delay() {
                found.means[at] = rate * station.visits * delay;
            } else if let Some(time) = station.service.single() {
                // A customer that arrives sees the network with one customer less.
                let demand = Wide::of(station.visits) * Wide::of(time);
                found.means[at] =
                    found.all.windows(2).fold(0.0, |mean, sums| (demand * sums[0]).over(sums[1]) * (1.0 + mean));
            }
        }
        Ok(found)
    }

    fn delay(&self, station: usize) -> Option<f64> {
        self.network.stations[station].service.delay()
    }

    /// Departures per time unit from where visits are 1.
    pub(super) fn rate(&self) -> f64 {
        if self.customers == 0 { 0.0 } else { self.all[self.customers - 1].over(self.all[self.customers]) }
    }

    /// Mean customers at a station.
    pub(super) fn mean(&self, station: usize) -> f64 {
        self.means[station]
    }

    /// How far the means are from all customers in sum, relatively.
    pub(super) fn off(&self) -> f64 {
        let customers = number(self.customers as u64);
        if self.customers == 0 { 0.0 } else { (self.means.iter().sum::<f64>() - customers).abs() / customers }
    }

    /// The sums of all stations but these.
    fn without(&self, out: &[usize], budget: &mut Budget<'_>) -> Result<Vec<Wide>, Refusal> {
        let stations = || self.network.stations.iter().enumerate().filter(|(at, _)| !out.contains(at));
        let time = stations().filter_map(|(_, it)| Some(it.visits * it.service.delay()?)).sum();
        let mut sums = delays(time, self.customers);
        for (_, station) in stations().filter(|(_, station)| station.service.delay().is_none()) {
            budget.look(Progress::Solving { sweeps: 0, error: 0.0 })?;
            sums = station.join(&sums, budget)?;
        }
        Ok(sums)
    }

    /// The means of stations with several servers or a table, by the sums of all others: halves of `queues` are left out in turn.
    fn tabled(&mut self, sums: Vec<Wide>, queues: &[usize], budget: &mut Budget<'_>) -> Result<(), Refusal> {
        let tabled = |at: &usize| self.network.stations[*at].service.single().is_none();
        if !queues.iter().any(tabled) {
            return Ok(());
        }
        if let [at] = queues {
            let weights = self.network.stations[*at].weights(self.customers);
            let sum = weights
                .iter()
                .zip(sums.iter().rev())
                .enumerate()
                .fold(Wide::ZERO, |sum, (count, (one, rest))| sum + Wide::of(number(count as u64)) * *one * *rest);
            self.means[*at] = sum.over(self.all[self.customers]);
            return Ok(());
        }
        let (left, right) = queues.split_at(queues.len() / 2);
        for (stay, go) in [(left, right), (right, left)] {
            if stay.iter().any(|at| self.network.stations[*at].service.single().is_none()) {
                let mut joined = sums.clone();
                for at in go {
                    joined = self.network.stations[*at].join(&joined, budget)?;
                }
                self.tabled(joined, stay, budget)?;
            }
        }
        Ok(())
    }

    /// The mean of `value` of the customers at a station.
    pub(super) fn expect(
        &self,
        station: usize,
        value: impl Fn(u64) -> u64,
        budget: &mut Budget<'_>,
    ) -> Result<f64, Refusal> {
        let others = self.without(&[station], budget)?;
        let weights = self.network.stations[station].weights(self.customers);
        let sum =
            weights.iter().zip(others.iter().rev()).enumerate().fold(Wide::ZERO, |sum, (count, (one, rest))| {
                sum + Wide::of(number(value(count as u64))) * *one * *rest
            });
        Ok(sum.over(self.all[self.customers]))
    }

    /// The probability that each of these stations has as many customers as `allows` says of its place.
    pub(super) fn probability(
        &self,
        stations: &[usize],
        allows: impl Fn(usize, u64) -> bool,
        budget: &mut Budget<'_>,
    ) -> Result<f64, Refusal> {
        let mut sums = self.without(stations, budget)?;
        let mut masked: Vec<Vec<(usize, Wide)>> =
            stations.iter().map(|at| self.masked(&self.network.stations[*at], &allows)).collect();
        masked.sort_by_key(Vec::len);
        let Some(last) = masked.pop() else { return Ok(1.0) };
        if stations.len() == self.network.stations.len()
            && let Some(first) = masked.pop()
        {
            // Nobody is anywhere else: there is nothing to add this one to.
            sums.fill(Wide::ZERO);
            first.into_iter().for_each(|(count, weight)| sums[count] = weight);
        }
        let work =
            masked.iter().map(|weights| weights.len().saturating_mul(self.customers)).fold(0, usize::saturating_add);
        if work > WORK {
            let why = "the condition is about several places with many tokens each, which takes too long";
            return Err(Refusal::new(Class::TooLarge, "time", why));
        }
        for weights in masked {
            budget.look(Progress::Solving { sweeps: 0, error: 0.0 })?;
            let joined = (0..=self.customers).map(|all| {
                let here = weights.iter().take_while(|(count, _)| *count <= all);
                here.fold(Wide::ZERO, |sum, (count, weight)| sum + *weight * sums[all - count])
            });
            sums = joined.collect();
        }
        let sum = last.iter().fold(Wide::ZERO, |sum, (count, weight)| sum + *weight * sums[self.customers - count]);
        Ok(sum.over(self.all[self.customers]).min(1.0))
    }

    /// The weights of the numbers of customers that are allowed at a station.
    fn masked(&self, station: &Station, allows: &impl Fn(usize, u64) -> bool) -> Vec<(usize, Wide)> {
        let weights = station.weights(self.customers).into_iter().enumerate();
        weights.filter(|(count, _)| allows(station.place, *count as u64)).collect()
    }
}

fn overflow() -> Refusal {
    Refusal::new(Class::TooLarge, "memory", "there are more tokens than this machine counts")
}
