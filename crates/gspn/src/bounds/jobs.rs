//! Bounds of a closed queueing network by its demands alone.

use super::Bound;

/// A closed network: customers, and what one of them needs on a round.
#[derive(Debug, Clone)]
pub(crate) struct Jobs {
    pub(crate) customers: f64,
    /// Time where each customer has a server.
    pub(crate) think: f64,
    /// Time at each place with servers, and how many.
    pub(crate) demands: Vec<(f64, f64)>,
    /// Firings of each transition a round, where it takes part.
    pub(crate) firings: Vec<(usize, f64)>,
}

impl Jobs {
    /// Rounds per time unit, at least and at most, and what says so.
    fn rounds(&self) -> [(f64, f64, &'static str); 2] {
        let (customers, think) = (self.customers, self.think);
        let all: f64 = self.demands.iter().map(|(time, _)| time).sum();
        let worst = self.demands.iter().map(|(time, servers)| time / servers).fold(0.0, f64::max);
        let saturated = if worst > 0.0 { 1.0 / worst } else { f64::INFINITY };
        let asymptotic =
            (customers / (customers * all + think), saturated.min(customers / (all + think)), "asymptotic bounds");
        if self.demands.is_empty() || self.demands.iter().any(|(_, servers)| *servers > 1.0) {
            return [asymptotic; 2];
        }
        #[expect(clippy::cast_precision_loss, reason = "a bound needs no more digits")]
        let even = all / self.demands.len() as f64;
        let others = customers - 1.0;
        let low = customers / (all + think + others * worst / (1.0 + think / (customers * all)));
        let high = saturated.min(customers / (all + think + others * even / (1.0 + think / all)));
        [asymptotic, (low, high, "balanced jobs")]
    }

    /// Makes the bound of a throughput tighter where this can.
    pub(crate) fn tighten(&self, transition: usize, bound: &mut Bound) {
        let Some((_, firings)) = self.firings.iter().find(|(index, _)| *index == transition) else { return };
        for (low, high, by) in self.rounds() {
            // A few units in the last place are lost on the way.
            let (low, high) = (low * firings * (1.0 - 1e-12), high * firings * (1.0 + 1e-12));
            if low > bound.low {
                (bound.low, bound.by[0]) = (low, by);
            }
            if high < bound.high {
                (bound.high, bound.by[1]) = (high, by);
            }
        }
    }
}
