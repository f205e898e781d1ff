//! Connections, counted by where they come from: one address has a share of them and a pace at which it may open new
//! ones, so that it cannot take all places or all handshakes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use access_model::Mono;

use crate::pace::Pace;
use crate::turns::Origin;

/// Who is connected. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    counts: Arc<Mutex<Counts>>,
    share: usize,
}

#[derive(Debug)]
struct Counts {
    /// As many keys as there are connections at most.
    open: BTreeMap<Origin, usize>,
    pace: Pace<Origin>,
}

/// The place of one connection; dropped, it is free.
#[derive(Debug)]
pub(super) struct Place {
    counts: Arc<Mutex<Counts>>,
    origin: Origin,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = lock(&self.counts);
        if let Some(own) = counts.open.get_mut(&self.origin) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                counts.open.remove(&self.origin);
            }
        }
    }
}

impl Arrivals {
    /// At most `share` connections of one address, and new ones of it at this pace.
    pub(super) fn new(share: usize, arrivals: (u32, Duration)) -> Self {
        let counts = Counts { open: BTreeMap::new(), pace: Pace::new(arrivals.0, arrivals.1) };
        Self { counts: Arc::new(Mutex::new(counts)), share: share.max(1) }
    }

    /// A place for a connection from this address, unless it has its share or comes too fast: then, why.
    pub(super) fn enter(&self, address: IpAddr, now: Mono) -> Result<Place, &'static str> {
        let origin = Origin::of_ip(address);
        let mut counts = lock(&self.counts);
        if !counts.pace.wait(&origin, now).is_zero() {
            return Err("this address opens connections too fast");
        }
        counts.pace.count(&origin, now);
        let own = counts.open.entry(origin.clone()).or_default();
        if *own >= self.share {
            return Err("this address has too many connections");
        }
        *own += 1;
        Ok(Place { counts: Arc::clone(&self.counts), origin })
    }
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_share_of_the_connections_and_a_pace() {
        let arrivals = Arrivals::new(3, crate::Paces::default().arrivals);
        let (one, other): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let at = |millis: u64| Mono::from_nanos(millis * 1_000_000);
        let mut held: Vec<Place> = (0..3).map(|_| arrivals.enter(one, at(0)).unwrap()).collect();
        assert!(arrivals.enter(one, at(0)).is_err(), "its share");
        held.push(arrivals.enter(other, at(0)).unwrap());
        held.remove(0);
        drop(arrivals.enter(one, at(0)).unwrap());
        drop(held);
        assert!(lock(&arrivals.counts).open.is_empty(), "nothing is left behind");
        let opened = (0..1_000).filter(|_| arrivals.enter(one, at(0)).is_ok()).count();
        assert_eq!(opened, 195, "five came before");
        assert!(arrivals.enter(other, at(0)).is_ok());
        assert!(arrivals.enter(one, at(10)).is_ok(), "one each ten milliseconds");
        assert!(arrivals.enter(one, at(10)).is_err());
    }
}
