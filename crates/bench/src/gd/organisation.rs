//! The organisation: makes tags for its clients in turn, each as soon as the one before of the same client is stored.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::crypt::{self, Begun, Keys, Shared, Side};
use super::store::Accounts;
use super::wire::{Line, What};
use super::{Configuration, Scenario, period, tag};
use crate::Failed;
use crate::clock::{Stopwatch, Whose, monotonic};
use crate::quiet::{self, LEAST as QUIET, Looks, Quiet};

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
    /// Who looks whether somebody else computes on the processors.
    pub looks: Option<Looks>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Of all of it.
    pub all: Figures,
    /// Of the times in which nobody else computed on the processors, where somebody looked and they are enough.
    pub quiet: Option<Figures>,
}

impl Outcome {
    /// What predictions are compared with.
    #[must_use]
    pub fn counting(&self) -> &Figures {
        self.quiet.as_ref().unwrap_or(&self.all)
    }
}

/// Figures of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Tags that were stored; parts of one, where a part of its time counts.
    pub tags: f64,
    /// In so many seconds; of all of a run from the first begun to the last stored.
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
    let before = organisation.phase(WARM.0, WARM.1)?.ends.len() as u64;
    let store = organisation.accounts(&[])?;
    let own = Whose::Process.cpu();
    let run = organisation.phase(spec.seconds, LEAST)?;
    let processor = Whose::Process.cpu() - own;
    let end = organisation.accounts(&[1])?;
    let at_store = end.seconds - store.seconds;
    let tags = run.ends.len() as u64;
    if end.tags != i64::try_from(before + tags)? {
        return Err(format!("{} tags were made, {} are stored", before + tags, end.tags).into());
    }
    let quiet = spec.looks.as_ref().map(Looks::read).transpose()?;
    let own = |seconds: f64| quiet::own(quiet.as_ref(), seconds);
    let all = run.figures(own(processor + at_store), own(at_store), quiet.as_ref()).ok_or("a run without a tag")?;
    Ok(Outcome { all, quiet: quiet.and_then(|quiet| run.quiet(&all, &quiet)) })
}

/// The tags of a phase.
#[derive(Debug, Default)]
struct Run {
    /// Nanoseconds of the monotonic clock.
    begun: u64,
    /// When each was begun, by the same.
    begins: Vec<u64>,
    /// When each was stored.
    ends: Vec<u64>,
    /// Seconds of each but the first of a client, from the tag before of the same, with the place of its end.
    times: Vec<(usize, f64)>,
}

impl Run {
    /// Of all of it but looks.
    fn figures(&self, processor: f64, at_store: f64, quiet: Option<&Quiet>) -> Option<Figures> {
        let but_looks = |end: u64, seconds: f64| quiet.map_or(seconds, |quiet| quiet.but_looks(end, seconds));
        let last = *self.ends.last()?;
        let seconds = but_looks(last, (last - self.begun) as f64 * 1e-9);
        let times = self.times.iter().map(|(end, time)| but_looks(self.ends[*end], *time)).collect();
        figures((self.ends.len() as f64, seconds), (processor, at_store), times)
    }

    /// Of what was quiet. Work goes on from the beginning of one tag to that of the next; of several clients the first tags are stored late, and the
    /// last ones together.
    fn quiet(&self, all: &Figures, quiet: &Quiet) -> Option<Figures> {
        let (first, others) = self.begins.split_first()?;
        let came = quiet.came(*first, others).filter(|came| came.part.seconds >= QUIET * all.seconds)?;
        let [organisation, at_store] = came.part.used;
        let times = came.times(self.times.iter().map(|(end, time)| (self.ends[*end], *time)));
        figures((came.count, came.without_looks()), (organisation + at_store, at_store), times)
    }
}

impl Figures {
    /// Tags a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.tags / self.seconds
    }

    /// Processor seconds of a tag.
    #[must_use]
    pub fn of_tag(&self) -> f64 {
        self.processor / self.tags
    }
}

fn figures((tags, seconds): (f64, f64), (processor, at_store): (f64, f64), mut times: Vec<f64>) -> Option<Figures> {
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times.get(((times.len() as f64 * share).ceil() as usize).max(1) - 1).copied();
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    Some(Figures { tags, seconds, processor, at_store, mean, p50: at(0.5)?, p95: at(0.95)? })
}

impl Organisation {
    /// Makes tags for so long, and for each client at least so many, and as many for each as for any, of whole periods where it is more than
    /// one: so keys are agreed on as often as they should be, however few tags there are.
    fn phase(&mut self, seconds: f64, least: u64) -> Result<Run, Failed> {
        let (mut run, watch) = (Run { begun: monotonic(), ..Run::default() }, Stopwatch::start());
        let count = self.clients.len();
        for client in &mut self.clients {
            (client.begun, client.before) = (0.0, client.made);
        }
        loop {
            // Each client has one message to send in each turn of all, or says that it has none: the store listens to them in turn.
            let most = self.clients.iter().map(|client| client.made - client.before).max().unwrap_or(0).max(least);
            let wanted = if watch.seconds() < seconds { u64::MAX } else { whole(most, self.period) };
            let mut out = 0_u64;
            for index in 0..self.clients.len() {
                let mut end = None;
                let goes_on = self.clients[index].made - self.clients[index].before < wanted;
                if self.turn(index, goes_on)? {
                    let client = &mut self.clients[index];
                    let now = watch.seconds();
                    if run.ends.len() >= count {
                        run.times.push((run.ends.len(), now - client.begun));
                    }
                    client.begun = now;
                    run.ends.push(run.begun + (now * 1e9) as u64);
                    end = run.ends.last().copied();
                }
                if goes_on && matches!(self.clients[index].state, State::Idle) {
                    run.begins.push(end.unwrap_or_else(monotonic));
                    self.begin(index)?;
                }
                out += u64::from(!matches!(self.clients[index].state, State::Idle));
            }
            if out == 0 {
                return Ok(run);
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
