//! The ledger as a witness: what was done or refused must be there, with who, what and why, and soon.

use std::time::Duration;

use access_model::UnixTime;
use store::{Entry, Follower};
use tokio::time::Instant;

use super::Trouble;
use super::workplace::Workplace;

/// How long a record may take on a computer that stands still now and then. Most are there before the answer; equal ones
/// are summed up for a second.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// The same, where the check has failed already and the record only says how.
const FORLORN: Duration = Duration::from_secs(2);
/// The same, where a record is there and may say all there is to say: another reason than the one that is looked for.
const DOUBTFUL: Duration = Duration::from_secs(10);
/// How often something is shown once more when the observer's token was over before a busy computer came to it.
pub(super) const AGAIN: usize = 5;
/// Records of equal denials may begin this long before the last that they count: a second, unless the computer stands still.
const WINDOW: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(5);

/// Follows the ledger and gives each record away once.
pub(crate) struct Witness {
    follower: Follower,
    entries: Vec<Entry>,
    /// A protection is missing: what is refused may be so for another reason than it should.
    sabotaged: bool,
}

/// The record that is looked for.
#[derive(Clone, Debug)]
pub(crate) struct Wanted<'a> {
    /// What happened, one of these.
    pub(crate) kinds: &'a [&'a str],
    /// `allowed` or `denied`.
    pub(crate) outcome: &'a str,
    /// Who; empty where nobody has proven who they are.
    pub(crate) actor: &'a str,
    /// With which application; `None`: no matter.
    pub(crate) application: Option<&'a str>,
    /// To what, one of these; no matter when there are none.
    pub(crate) objects: Vec<String>,
    /// Not before.
    pub(crate) since: UnixTime,
}

impl<'a> Wanted<'a> {
    /// A record from now on.
    pub(crate) fn from_now(kinds: &'a [&'a str], outcome: &'a str, actor: &'a str) -> Self {
        let since = gates::clock::now().unix;
        Self { kinds, outcome, actor, application: None, objects: Vec::new(), since }
    }

    fn fits(&self, entry: &Entry) -> bool {
        let begun = if entry.count > 1 { entry.at + WINDOW } else { entry.at };
        self.kinds.contains(&entry.kind.as_str())
            && entry.outcome == self.outcome
            && entry.actor == self.actor
            && self.application.is_none_or(|uri| entry.application.as_deref() == Some(uri))
            && (self.objects.is_empty() || self.objects.contains(&entry.object))
            && begun >= self.since
    }
}

impl Witness {
    /// Begins behind what is in the ledger now.
    pub(crate) fn begin(workplace: &Workplace, sabotaged: bool) -> Result<Self, Trouble> {
        let follower = Follower::from_end(&workplace.ledger()).map_err(|error| Trouble::setup("the ledger", error))?;
        Ok(Self { follower, entries: Vec::new(), sabotaged })
    }

    fn look(&mut self) -> Result<(), Trouble> {
        let new = self.follower.poll().map_err(|error| Trouble::setup("the ledger", error))?;
        self.entries.extend(new.into_iter().filter(|entry| {
            !matches!(entry.kind.as_str(), "read" | "browse" | "notify") || entry.outcome != "allowed"
        }));
        Ok(())
    }

    /// The first record that fits, which then is used up; `None` if it does not come.
    pub(crate) async fn find(&mut self, wanted: &Wanted<'_>) -> Result<Option<Entry>, Trouble> {
        self.await_one(|entry| wanted.fits(entry), PATIENCE).await
    }

    async fn await_one(&mut self, fits: impl Fn(&Entry) -> bool, patience: Duration) -> Result<Option<Entry>, Trouble> {
        Ok(self.place(fits, patience).await?.and_then(|at| self.take(at)))
    }

    /// Where the first record stands that fits.
    async fn place(&mut self, fits: impl Fn(&Entry) -> bool, patience: Duration) -> Result<Option<usize>, Trouble> {
        let end = Instant::now() + patience;
        loop {
            // Whoever has waited for too long looks once more: it may be the computer that stood still.
            let late = Instant::now() >= end;
            self.look()?;
            if let Some(at) = self.entries.iter().position(&fits) {
                return Ok(Some(at));
            }
            if late {
                return Ok(None);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// A record of many is used up when it was given away as often.
    fn take(&mut self, at: usize) -> Option<Entry> {
        let entry = self.entries.get_mut(at)?;
        if entry.count <= 1 {
            return Some(self.entries.remove(at));
        }
        entry.count -= 1;
        Some(entry.clone())
    }

    /// Why it was refused, as the ledger says: for the `expected` reason, among others perhaps (a client that is denied
    /// tries again with a fresh token); else for another; `nothing` if the ledger knows of no refusal. What is not `likely`
    /// to be there is not waited for.
    pub(crate) async fn reason(
        &mut self,
        wanted: &Wanted<'_>,
        expected: &str,
        likely: bool,
    ) -> Result<String, Trouble> {
        let mut patience = if likely { PATIENCE } else { FORLORN };
        if likely && self.sabotaged && self.place(|entry| wanted.fits(entry), PATIENCE).await?.is_some() {
            patience = DOUBTFUL;
        }
        let right = |entry: &Entry| wanted.fits(entry) && entry.reason.as_deref() == Some(expected);
        let found = match self.await_one(right, patience).await? {
            None => self.await_one(|entry| wanted.fits(entry), Duration::ZERO).await?,
            found => found,
        };
        Ok(found.and_then(|entry| entry.reason).unwrap_or_else(|| "nothing".into()))
    }

    /// How many events with this reason the records stand for that fit; waits until there are as many as `enough`.
    pub(crate) async fn count(&mut self, wanted: &Wanted<'_>, reason: &str, enough: u64) -> Result<u64, Trouble> {
        let end = Instant::now() + PATIENCE;
        loop {
            self.look()?;
            let fit = self.entries.iter().filter(|entry| wanted.fits(entry) && entry.reason.as_deref() == Some(reason));
            let sum = fit.map(|entry| entry.count).sum();
            if sum >= enough || Instant::now() >= end {
                return Ok(sum);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
