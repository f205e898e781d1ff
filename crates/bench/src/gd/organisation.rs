//! The organisation: makes tags for its clients in turn, each as soon as the one before of the same client is stored.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::crypt::{self, Begun, Keys, Shared, Side};
use super::store::Accounts;
use super::wire::{Line, What};
use super::{Configuration, Scenario, period, tag};
use crate::Failed;
use crate::clock::{Stopwatch, Whose};

/// Seconds and tags of each client before anything counts.
pub(super) const WARM: (f64, u64) = (0.05, 3);

/// Tags of each client that count at least.
const LEAST: u64 = 6;

/// What it is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Spec {
    /// What is run.
    pub scenario: Scenario,
    /// Share of messages for which no new key is agreed on.
    pub reuse: f64,
    /// For how long tags are counted.
    pub seconds: f64,
    /// Where the keys are.
    pub keys: PathBuf,
    /// Where the store listens.
    pub store: SocketAddr,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Tags that were counted.
    pub tags: u64,
    /// From the first begun to the last stored.
    pub seconds: f64,
    /// Processor seconds of both processes, the database's included.
    pub processor: f64,
    /// Of these, the store's and the database's.
    pub at_store: f64,
    /// Seconds from one stored tag of a client to its next: mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95 of 100 took no longer.
    pub p95: f64,
}

enum State {
    Idle,
    /// The first message of an exchange is out; the tag waits.
    Exchanging(Begun),
    /// The tag is out.
    Waiting,
}

struct Client {
    line: Line,
    shared: Option<Shared>,
    state: State,
    message: Vec<u8>,
    begun: f64,
    made: u64,
    /// Made before the phase that is run.
    before: u64,
}

struct Organisation {
    clients: Vec<Client>,
    keys: Option<Keys>,
    encrypts: bool,
    period: u64,
    text: String,
    signature: Vec<u8>,
}

/// Runs the scenario.
///
/// # Errors
/// Anything that is not as it should be; a tag that was not stored is such a thing.
pub fn run(spec: &Spec) -> Result<Outcome, Failed> {
    let scenario = &spec.scenario;
    let keys = match scenario.configuration {
        Configuration::Sc0 => None,
        _ => Some(Keys::read(&spec.keys, Side::Organisation, scenario.key)?),
    };
    let mut clients = Vec::new();
    for _ in 0..scenario.clients {
        let line = Line::connect(spec.store)?;
        let message = Vec::with_capacity(4096);
        clients.push(Client { line, shared: None, state: State::Idle, message, begun: 0.0, made: 0, before: 0 });
    }
    let encrypts = scenario.configuration == Configuration::Sc2;
    // Without keys there is nothing to agree on.
    let period = if encrypts { period(spec.reuse) } else { 0 };
    let mut organisation = Organisation { clients, keys, encrypts, period, text: String::new(), signature: Vec::new() };
    let (before, _, _) = organisation.phase(WARM.0, WARM.1)?;
    let store = organisation.accounts(&[])?;
    let own = Whose::Process.cpu();
    let (tags, seconds, mut times) = organisation.phase(spec.seconds, LEAST)?;
    let processor = Whose::Process.cpu() - own;
    let end = organisation.accounts(&[1])?;
    let at_store = end.seconds - store.seconds;
    if end.tags != i64::try_from(before + tags)? {
        return Err(format!("{} tags were made, {} are stored", before + tags, end.tags).into());
    }
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times.get(((times.len() as f64 * share).ceil() as usize).max(1) - 1).copied();
    let none = "a run without a tag";
    Ok(Outcome {
        tags,
        seconds,
        processor: processor + at_store,
        at_store,
        mean: times.iter().sum::<f64>() / times.len() as f64,
        p50: at(0.5).ok_or(none)?,
        p95: at(0.95).ok_or(none)?,
    })
}

impl Organisation {
    /// Makes tags for so long, and for each client at least so many, and as many for each as for any, of whole periods where it is more than
    /// one: so keys are agreed on as often as they should be, however few tags there are. Gives how many, how long it took until the last was stored, and the time of each but the first
    /// of a client.
    fn phase(&mut self, seconds: f64, least: u64) -> Result<(u64, f64, Vec<f64>), Failed> {
        let watch = Stopwatch::start();
        let (mut tags, mut end, mut times) = (0, 0.0, Vec::new());
        let count = self.clients.len() as u64;
        for client in &mut self.clients {
            (client.begun, client.before) = (0.0, client.made);
        }
        loop {
            // Each client has one message to send in each turn of all, or says that it has none: the store listens to them in turn.
            let most = self.clients.iter().map(|client| client.made - client.before).max().unwrap_or(0).max(least);
            let wanted = if watch.seconds() < seconds { u64::MAX } else { whole(most, self.period) };
            let mut out = 0_u64;
            for index in 0..self.clients.len() {
                let goes_on = self.clients[index].made - self.clients[index].before < wanted;
                if self.turn(index, goes_on)? {
                    let client = &mut self.clients[index];
                    end = watch.seconds();
                    if tags >= count {
                        times.push(end - client.begun);
                    }
                    client.begun = end;
                    tags += 1;
                }
                if goes_on && matches!(self.clients[index].state, State::Idle) {
                    self.begin(index)?;
                }
                out += u64::from(!matches!(self.clients[index].state, State::Idle));
            }
            if out == 0 {
                return Ok((tags, end, times));
            }
        }
    }

    /// What a client does with what it has got; true when its tag is stored.
    fn turn(&mut self, index: usize, goes_on: bool) -> Result<bool, Failed> {
        let client = &mut self.clients[index];
        let stored = match std::mem::replace(&mut client.state, State::Idle) {
            State::Waiting => {
                client.line.expect(What::Stored)?;
                true
            }
            State::Exchanging(begun) => {
                let second = client.line.expect(What::Answer)?;
                let (shared, nonce) = crypt::finish(self.keys.as_ref().ok_or("no keys")?, &begun, second)?;
                client.shared.insert(shared).seal(&mut client.message)?;
                client.line.send(What::First, &[&nonce, &client.message])?;
                client.state = State::Waiting;
                return Ok(false);
            }
            State::Idle => false,
        };
        if !goes_on {
            client.line.send(What::Pass, &[])?;
        }
        Ok(stored)
    }

    /// genGDinfo, what secures it, send.
    fn begin(&mut self, index: usize) -> Result<(), Failed> {
        let clients = self.clients.len();
        let client = &mut self.clients[index];
        let number = client.made;
        client.made += 1;
        tag::generate(u32::try_from(index)?, number, &mut self.text);
        client.message.clear();
        client.message.extend_from_slice(self.text.as_bytes());
        let Some(keys) = &self.keys else {
            client.line.send(What::Tag, &[&client.message])?;
            client.state = State::Waiting;
            return Ok(());
        };
        keys.sign(self.text.as_bytes(), &mut self.signature)?;
        client.message.extend_from_slice(&self.signature);
        client.state = State::Waiting;
        if !self.encrypts {
            return client.line.send(What::Tag, &[&client.message]);
        }
        let due = is_due(number, (index, clients), self.period);
        match &client.shared {
            Some(shared) if !due => {
                shared.seal(&mut client.message)?;
                client.line.send(What::Sealed, &[&client.message])
            }
            _ => {
                let (begun, first) = crypt::begin(keys)?;
                client.line.send(What::Begin, &[&first])?;
                client.state = State::Exchanging(begun);
                Ok(())
            }
        }
    }

    /// The accounts of the store, while nothing is under way; with the tags in its database where `count` is not empty.
    fn accounts(&mut self, count: &[u8]) -> Result<Accounts, Failed> {
        let (first, others) = self.clients.split_first_mut().ok_or("no clients")?;
        first.line.send(What::Accounts, &[count])?;
        let told = serde_json::from_slice(first.line.expect(What::Accounts)?)?;
        for client in others {
            client.line.send(What::Pass, &[])?;
        }
        Ok(told)
    }
}

/// Whether a client agrees on keys for its tag of this number: all of them spread that evenly over a period.
fn is_due(number: u64, (index, clients): (usize, usize), period: u64) -> bool {
    let later = index as u64 * period / (clients as u64).max(1);
    period > 0 && (number + later).is_multiple_of(period)
}

/// At least so many tags of each client, whole periods where they are more than one.
fn whole(least: u64, period: u64) -> u64 {
    if period > 0 && least > period { least.next_multiple_of(period) } else { least }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first tags of each client do not count.
    #[test]
    fn keys_are_agreed_on_once_a_period_however_few_tags_there_are() {
        for (clients, tags) in [(1, 23), (1, 55), (8, LEAST), (8, 26), (64, LEAST), (64, 11)] {
            let tags = whole(tags, 10);
            let due =
                |index: usize| (WARM.1..WARM.1 + tags).filter(move |number| is_due(*number, (index, clients), 10));
            let exchanges = (0..clients).flat_map(due).count() as f64;
            assert!((exchanges - 0.1 * (clients as u64 * tags) as f64).abs() < 1.0, "{clients} {tags}: {exchanges}");
        }
        assert_eq!((whole(7, 0), whole(10, 10), whole(11, 10)), (7, 10, 20));
        assert!(!is_due(0, (0, 1), 0));
    }
}
