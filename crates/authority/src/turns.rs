//! Whose turn it is when work costs much and anybody may ask for it: passwords to be hashed, secrets to be opened.
//!
//! A few jobs run at once, a bounded number waits in order. Of those that run and wait, one address has a small share, so
//! that the next address is never far from its turn. Failures are counted: for an address, for an account asked from one
//! address, and for an account altogether; beyond the pace, the next attempt is turned away before it costs anything. An
//! account that is guessed at from everywhere stays open to the addresses it was used from before.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use access_model::{Mono, Reason, Refusal};
use aws_lc_rs::digest::{SHA256, digest};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::config::Paces;
use crate::pace::Pace;

/// Running and waiting, altogether.
const INSIDE: usize = 64;
/// Of one address, unless said otherwise.
const SHARE: usize = 8;
/// Pairs of account and address that are remembered for having succeeded.
const FAMILIAR: usize = 4_096;

/// Where an asker comes from: an IPv4 address, or the network of an IPv6 one, which a single host fills as it likes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// `a.b.c.d`.
    V4([u8; 4]),
    /// The /64.
    V6([u8; 8]),
    /// Not an IP address; what it says, shortened.
    Other(String),
}

impl Origin {
    /// Reads `address[:port]`.
    pub(crate) fn of(address: &str) -> Self {
        let parsed = address.parse::<SocketAddr>().map(|socket| socket.ip()).or_else(|_| address.parse());
        parsed.map_or_else(|_| Self::Other(address.chars().take(64).collect()), Self::of_ip)
    }

    pub(crate) fn of_ip(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Self::V4(v4.octets()),
            IpAddr::V6(v6) => {
                let [a, b, c, d, e, f, g, h, ..] = v6.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
        }
    }
}

type Account = [u8; 32];

/// Who asks for a turn.
#[derive(Clone, Debug)]
pub struct Asker {
    origin: Origin,
    account: Account,
}

impl Asker {
    /// Somebody at this address who claims this account.
    #[must_use]
    pub fn new(address: &str, account: &str) -> Self {
        let mut out = [0; 32];
        for (to, from) in out.iter_mut().zip(digest(&SHA256, account.as_bytes()).as_ref()) {
            *to = *from;
        }
        Self { origin: Origin::of(address), account: out }
    }

    fn pair(&self) -> (Account, Origin) {
        (self.account, self.origin.clone())
    }
}

/// Why somebody is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crowded {
    /// Everything is taken.
    Full,
    /// This address has its share.
    Share,
    /// There were too many failures; so long to wait.
    Pace(Duration),
}

impl From<Crowded> for Refusal {
    fn from(crowded: Crowded) -> Self {
        let detail = match crowded {
            Crowded::Full => "too many passwords and secrets are being checked".to_owned(),
            Crowded::Share => "this address has too many passwords and secrets under way".to_owned(),
            Crowded::Pace(wait) => {
                format!(
                    "too many failures of this account or address; the next is looked at in {} s",
                    wait.as_secs() + 1
                )
            }
        };
        Self::new(Reason::TooBusy, detail)
    }
}

/// Who is inside, and what failed before. A function of what it is told and when.
#[derive(Debug)]
struct Counts {
    inside: BTreeMap<Origin, usize>,
    total: usize,
    share: usize,
    addresses: Pace<Origin>,
    pairs: Pace<(Account, Origin)>,
    accounts: Pace<Account>,
    /// Since when.
    familiar: BTreeMap<(Account, Origin), Mono>,
}

impl Counts {
    fn new(paces: &Paces) -> Self {
        let (address, pair, account) =
            (paces.failures_per_address, paces.failures_per_pair, paces.failures_per_account);
        Self {
            inside: BTreeMap::new(),
            total: 0,
            share: SHARE,
            addresses: Pace::new(address.0, address.1),
            pairs: Pace::new(pair.0, pair.1),
            accounts: Pace::new(account.0, account.1),
            familiar: BTreeMap::new(),
        }
    }

    fn keeps_pace(&self, asker: &Asker, now: Mono) -> Result<(), Crowded> {
        let pair = asker.pair();
        let account =
            if self.familiar.contains_key(&pair) { Duration::ZERO } else { self.accounts.wait(&asker.account, now) };
        let wait = self.addresses.wait(&asker.origin, now).max(self.pairs.wait(&pair, now)).max(account);
        if wait.is_zero() { Ok(()) } else { Err(Crowded::Pace(wait)) }
    }

    /// Takes a place among those that run and wait.
    fn enter(&mut self, asker: &Asker, now: Mono) -> Result<(), Crowded> {
        self.keeps_pace(asker, now)?;
        if self.inside.get(&asker.origin).is_some_and(|own| *own >= self.share) {
            return Err(Crowded::Share);
        }
        if self.total >= INSIDE {
            return Err(Crowded::Full);
        }
        *self.inside.entry(asker.origin.clone()).or_default() += 1;
        self.total += 1;
        Ok(())
    }

    /// The wait is over. Counts as a failure until it is known to be none: those that run count too. Those that wait do
    /// not, or many right ones that come together would be taken for guesses.
    fn begin(&mut self, asker: &Asker, now: Mono) -> Result<(), Crowded> {
        self.keeps_pace(asker, now)?;
        self.addresses.count(&asker.origin, now);
        self.pairs.count(&asker.pair(), now);
        self.accounts.count(&asker.account, now);
        Ok(())
    }

    fn leave(&mut self, asker: &Asker) {
        self.total = self.total.saturating_sub(1);
        if let Some(own) = self.inside.get_mut(&asker.origin) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                self.inside.remove(&asker.origin);
            }
        }
    }

    fn succeeded(&mut self, asker: &Asker, now: Mono) {
        let pair = asker.pair();
        self.addresses.give_back(&asker.origin);
        self.pairs.give_back(&pair);
        self.accounts.give_back(&asker.account);
        if self.familiar.len() >= FAMILIAR
            && !self.familiar.contains_key(&pair)
            && let Some(oldest) = self.familiar.iter().min_by_key(|(_, since)| **since).map(|(key, _)| key.clone())
        {
            self.familiar.remove(&oldest);
        }
        self.familiar.insert(pair, now);
    }
}

/// The turns of one kind of work. Clones are the same.
#[derive(Clone, Debug)]
pub struct Turns {
    free: Arc<Semaphore>,
    counts: Arc<Mutex<Counts>>,
    patience: Duration,
}

/// A turn: the work may be done now. Dropped, it makes room for the next.
#[derive(Debug)]
pub(crate) struct Turn {
    place: Place,
    _permit: OwnedSemaphorePermit,
}

/// A place among those that run and wait.
#[derive(Debug)]
struct Place {
    counts: Arc<Mutex<Counts>>,
    asker: Asker,
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.counts).leave(&self.asker);
    }
}

impl Turns {
    /// So many at once; whoever waits longer than `patience` is turned away.
    #[must_use]
    pub fn new(at_once: usize, patience: Duration, paces: &Paces) -> Self {
        let counts = Arc::new(Mutex::new(Counts::new(paces)));
        Self { free: Arc::new(Semaphore::new(at_once.max(1))), counts, patience }
    }

    /// With another share of one address than 8, of the 64 that run and wait.
    #[must_use]
    pub fn with_share(self, share: usize) -> Self {
        lock(&self.counts).share = share.max(1);
        self
    }

    /// Waits for a turn.
    pub(crate) async fn take(&self, asker: &Asker, now: Mono) -> Result<Turn, Refusal> {
        lock(&self.counts).enter(asker, now)?;
        let place = Place { counts: Arc::clone(&self.counts), asker: asker.clone() };
        match timeout(self.patience, Arc::clone(&self.free).acquire_owned()).await {
            Ok(Ok(permit)) => {
                lock(&self.counts).begin(asker, now)?;
                Ok(Turn { place, _permit: permit })
            }
            _ => Err(Crowded::Full.into()),
        }
    }
}

impl Turn {
    /// What was asked was right: it does not count as a failure.
    pub(crate) fn succeeded(&self, now: Mono) {
        lock(&self.place.counts).succeeded(&self.place.asker, now);
    }
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono::from_nanos(seconds * 1_000_000_000)
    }

    /// One attempt that ends at once.
    fn attempt(counts: &mut Counts, address: &str, account: &str, right: bool, now: Mono) -> bool {
        let asker = Asker::new(address, account);
        if counts.enter(&asker, now).is_err() {
            return false;
        }
        let begun = counts.begin(&asker, now);
        counts.leave(&asker);
        if begun.is_err() {
            return false;
        }
        if right {
            counts.succeeded(&asker, now);
        }
        true
    }

    #[test]
    fn an_address_is_one_host() {
        assert_eq!(Origin::of("10.0.0.1:80"), Origin::of("10.0.0.1"));
        assert_eq!(Origin::of("[::ffff:10.0.0.1]:80"), Origin::of("10.0.0.1:9"));
        assert_eq!(Origin::of("[2001:db8::1]:1"), Origin::of("2001:db8::ffff"), "one network of IPv6");
        assert_ne!(Origin::of("[2001:db8:0:1::1]:1"), Origin::of("2001:db8::1"));
        assert_ne!(Origin::of("a"), Origin::of("b"));
    }

    #[test]
    fn an_address_has_its_share_and_leaves_the_rest_to_others() {
        let mut counts = Counts::new(&Paces::default());
        let inside =
            |counts: &mut Counts, address: &str, account: &str| counts.enter(&Asker::new(address, account), at(0));
        for number in 0..SHARE {
            assert_eq!(inside(&mut counts, "10.0.0.1:1", &number.to_string()), Ok(()));
        }
        assert_eq!(inside(&mut counts, "10.0.0.1:2", "one more"), Err(Crowded::Share));
        assert_eq!(inside(&mut counts, "10.0.0.2:1", "olga"), Ok(()), "another address has its own");
        counts.leave(&Asker::new("10.0.0.1:1", "0"));
        assert_eq!(inside(&mut counts, "10.0.0.1:2", "one more"), Ok(()));
        for host in 0..u8::MAX {
            let _ = inside(&mut counts, &format!("10.1.0.{host}"), &host.to_string());
        }
        assert_eq!(counts.total, INSIDE);
        assert_eq!(inside(&mut counts, "10.2.0.1", "y"), Err(Crowded::Full));
    }

    #[test]
    fn guessing_is_slowed_down_and_nobody_else_is() {
        let mut counts = Counts::new(&Paces::default());
        let guesses = (0..1_000).filter(|_| attempt(&mut counts, "10.0.0.1:1", "olga", false, at(0))).count();
        assert_eq!(guesses, 10, "one account from one address");
        let others = (0..1_000).filter(|n| attempt(&mut counts, "10.0.0.1:1", &n.to_string(), false, at(0))).count();
        assert_eq!(others, 20, "all accounts from one address");
        assert!(attempt(&mut counts, "10.0.0.2:1", "olga", true, at(0)), "the account from elsewhere");
        assert!(!attempt(&mut counts, "10.0.0.1:1", "olga", true, at(1)), "even with the right password");
        assert!(attempt(&mut counts, "10.0.0.1:1", "olga", true, at(2)), "later");
        // Over a long time the pace holds.
        let minute = (0..60).filter(|s| attempt(&mut counts, "10.0.0.3:1", "sasha", false, at(100 + s))).count();
        assert_eq!(minute, 10 + 29, "ten at once, then one in two seconds");
    }

    #[test]
    fn an_account_guessed_at_from_everywhere_stays_open_where_it_was_used() {
        let mut counts = Counts::new(&Paces::default());
        assert!(attempt(&mut counts, "10.0.0.1:1", "olga", true, at(0)));
        let guesses =
            (0..200).filter(|host| attempt(&mut counts, &format!("10.9.{host}.1:1"), "olga", false, at(1))).count();
        assert_eq!(guesses, 50);
        assert!(!attempt(&mut counts, "10.8.0.1:1", "olga", true, at(1)), "a place it was never used from");
        assert!(attempt(&mut counts, "10.0.0.1:1", "olga", true, at(1)), "its own place");
        assert!(attempt(&mut counts, "10.8.0.1:1", "sasha", true, at(1)), "another account");
    }

    #[test]
    fn who_is_right_is_never_slowed_down() {
        let mut counts = Counts::new(&Paces::default());
        let right = (0..10_000).filter(|_| attempt(&mut counts, "10.0.0.1:1", "machine", true, at(0))).count();
        assert_eq!(right, 10_000);
    }

    #[tokio::test]
    async fn many_right_ones_of_one_account_that_come_together_all_have_their_turn() {
        let turns = Turns::new(2, Duration::from_secs(600), &Paces::default()).with_share(32);
        let logins: Vec<_> = (0..32)
            .map(|_| {
                let turns = turns.clone();
                tokio::spawn(async move {
                    let turn = turns.take(&Asker::new("10.0.0.1:1", "olga"), at(0)).await?;
                    tokio::task::yield_now().await;
                    turn.succeeded(at(0));
                    Ok::<_, Refusal>(())
                })
            })
            .collect();
        for login in logins {
            assert_eq!(login.await.unwrap(), Ok(()));
        }
        // Wrong ones that come together are at the pace all the same.
        let guesses: Vec<_> = (0..32)
            .map(|_| {
                let turns = turns.clone();
                tokio::spawn(async move { turns.take(&Asker::new("10.0.0.1:1", "sasha"), at(0)).await.is_ok() })
            })
            .collect();
        let mut looked_at = 0;
        for guess in guesses {
            looked_at += usize::from(guess.await.unwrap());
        }
        assert_eq!(looked_at, 10);
    }

    #[tokio::test]
    async fn whoever_waits_too_long_is_turned_away_and_leaves_no_trace() {
        let turns = Turns::new(1, Duration::from_millis(20), &Paces::default());
        let asker = Asker::new("10.0.0.1:1", "olga");
        let held = turns.take(&asker, at(0)).await.unwrap();
        let refused = turns.take(&asker, at(0)).await.unwrap_err();
        assert_eq!(refused.reason, Reason::TooBusy);
        assert_eq!(lock(&turns.counts).total, 1);
        let patient = Turns { patience: Duration::from_secs(60), ..turns.clone() };
        let waiting = tokio::spawn(async move { patient.take(&Asker::new("10.0.0.2:1", "sasha"), at(0)).await });
        tokio::task::yield_now().await;
        drop(held);
        drop(waiting.await.unwrap().unwrap());
        let counts = lock(&turns.counts);
        assert_eq!((counts.total, counts.inside.len()), (0, 0));
    }
}
