//! The steps of the scenario in the order in which the program takes its clients: the organisation and the store each take one message of
//! each client in turn, so that nobody overtakes anybody.

use std::collections::BTreeMap;

use super::Setting;
use super::prices::Steps;
use super::spread::Spread;
use crate::Fault;

/// Rounds through all clients at least, and tags.
const LEAST: (u64, u64) = (60, 20_000);

/// What one end does from the message that it got until it has sent its own.
#[derive(Debug, Clone)]
struct Visit {
    /// All but the sending, step by step: of an end that was at work before, and of one that slept until the message came.
    work: Vec<[Spread; 2]>,
    /// Sending to an end that sleeps, which has to be woken.
    to_asleep: Spread,
    /// Sending to one that is at work.
    to_awake: Spread,
}

/// A message: what the organisation does from the answer before it until it is sent, and what the store does with it.
type Visits = [Visit; 2];

/// How far a tag is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// A tag with a key that is shared, or that needs none.
    Usual,
    /// One for which a key is agreed on: its first message.
    Begins,
    /// Its second.
    Ends,
}

/// What a tag takes.
#[derive(Debug, Clone)]
pub(super) struct Work {
    /// By [`Stage`].
    visits: [Visits; 3],
    /// Whether keys are agreed on.
    exchange: bool,
    /// Until somebody who sleeps is awake; and how much longer for each second of sleep.
    wake: f64,
    away: f64,
    /// Part of the processors that the programs have.
    speed: f64,
    /// Part of its processor that each end loses while the other works.
    beside: [f64; 2],
}

/// What comes of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) throughput: f64,
    pub(super) p95: f64,
    /// How often for each tag the organisation and the store fell asleep.
    pub(super) slept: (f64, f64),
    /// Seconds for each tag that the organisation and the store worked.
    pub(super) worked: (f64, f64),
}

impl Work {
    pub(super) fn of(steps: &mut Steps<'_>, setting: &Setting) -> Result<Self, Fault> {
        let (key, message, clear) = (setting.key, steps.message(), steps.clear());
        let exchanged = u64::from(key / 8);
        let secured = setting.configuration != "SC0";
        let encrypted = setting.configuration == "SC2";
        let mut visit = |work: &[(&str, u64, bool)], sends: &str, bytes: u64| {
            let awake = format!("{sends}-awake");
            let ([to_asleep, _], [to_awake, _]) = (steps.spreads(sends, bytes)?, steps.spreads(&awake, bytes)?);
            let steps = work.iter().filter(|(.., counts)| *counts).map(|(name, bytes, _)| steps.spreads(name, *bytes));
            let work = steps.collect::<Result<_, Fault>>()?;
            Ok::<_, Fault>(Visit { work, to_asleep, to_awake })
        };
        let (sign, store) = (format!("sign rsa-{key}"), format!("store {}", setting.database));
        let made = [
            ("read answer", message, true),
            ("generate tag", 0, true),
            ("hash sha-256", setting.tag, secured),
            (sign.as_str(), 0, secured),
        ];
        let sealed = [("encrypt aes-256-cbc", clear, encrypted)];
        let kept =
            [("read message", message, true), ("decrypt aes-256-cbc", clear, encrypted), (store.as_str(), clear, true)];
        let (asks, answers) = ("write message", "write answer");
        let usual = [visit(&[&made[..], &sealed[..]].concat(), asks, message)?, visit(&kept, answers, message)?];
        let exchange = encrypted && setting.period > 0;
        let visits = if exchange {
            let (wrap, unwrap) = (format!("encrypt rsa-{key}"), format!("decrypt rsa-{key}"));
            let (wrap, unwrap) = ((wrap.as_str(), 0, true), (unwrap.as_str(), 0, true));
            let begin = [&made[..], &[("generateKey", 0, true), wrap]].concat();
            let answer = [("read message", exchanged, true), unwrap, ("generateKey", 0, true), wrap];
            let combine = ("combineKeys", 0, true);
            let finish = [&[("read message", exchanged, true), unwrap, combine], &sealed[..]].concat();
            let first = [visit(&begin, asks, exchanged)?, visit(&answer, asks, exchanged)?];
            let last = [&[combine], &kept[..]].concat();
            [usual, first, [visit(&finish, asks, message)?, visit(&last, answers, message)?]]
        } else {
            [usual.clone(), usual.clone(), usual]
        };
        let beside = if setting.clients > 1 { steps.beside()? } else { [0.0; 2] };
        Ok(Self { visits, exchange, wake: steps.wake()?, away: steps.away(), speed: 1.0 - steps.lost()?, beside })
    }
}

/// One end of the connections: the organisation, or the store.
#[derive(Debug, Clone, Copy, Default)]
struct End {
    /// Until when it is done with what it did.
    free: f64,
    /// Whose message it takes next.
    client: usize,
    /// Since when it works on a message and when it will have done all but the sending, if it has one; without one it sleeps.
    sends: Option<(f64, f64)>,
    /// Seconds of work, and of those while the other end worked, too.
    worked: f64,
    both: f64,
}

/// A client: which tag it makes, how far it is, and when its last tag was stored.
#[derive(Debug, Clone, Copy)]
struct Client {
    number: u64,
    stage: Stage,
    last: Option<f64>,
    /// When what the organisation waits for is there, and what the store waits for; and whether it wakes somebody.
    there: [Option<(f64, bool)>; 2],
}

/// Goes through it: once to see how much of its work each end does while the other works, and once with what that costs. The same steps
/// give the same numbers.
pub(super) fn run(work: &Work, setting: &Setting) -> Found {
    let (first, ends) = through(work, setting, [work.speed; 2]);
    if work.beside == [0.0; 2] {
        return first;
    }
    let both = |end: End| if end.worked > 0.0 { end.both / end.worked } else { 0.0 };
    let speed = |end: usize| work.speed * (1.0 - work.beside[end] * both(ends[end]));
    through(work, setting, [speed(0), speed(1)]).0
}

fn through(work: &Work, setting: &Setting, speeds: [f64; 2]) -> (Found, [End; 2]) {
    let clients = (0..u64::from(setting.clients.max(1)))
        .map(|number| Client { number, stage: Stage::Usual, last: None, there: [Some((0.0, false)), None] })
        .collect();
    let rounds = LEAST.0.max(LEAST.1 / u64::from(setting.clients.max(1)));
    let mut run = Run {
        work,
        speeds,
        period: setting.period.max(1),
        shares: BTreeMap::new(),
        clients,
        ends: [End::default(); 2],
        counts: false,
        begun: 0.0,
        times: Vec::new(),
        slept: [0; 2],
    };
    run.take(0);
    for round in 0..rounds {
        // The first quarter only fills the queues.
        if round == rounds / 4 {
            (run.counts, run.begun) = (true, run.ends[ORGANISATION].free);
            for end in &mut run.ends {
                (end.worked, end.both) = (0.0, 0.0);
            }
        }
        run.round();
    }
    let ends = run.ends;
    (run.found(), ends)
}

/// The part of a write after which whoever begins to wait finds the message before it has fallen asleep.
const THERE: f64 = 0.5;

const ORGANISATION: usize = 0;

struct Run<'a> {
    work: &'a Work,
    speeds: [f64; 2],
    period: u64,
    /// Of each step: by stage, end, and its place among those of the end.
    shares: BTreeMap<(usize, usize, usize), Shares>,
    clients: Vec<Client>,
    ends: [End; 2],
    counts: bool,
    begun: f64,
    times: Vec<f64>,
    slept: [u64; 2],
}

impl Run<'_> {
    /// Until the organisation has sent a message of each client.
    fn round(&mut self) {
        let mut left = self.clients.len();
        while left > 0 {
            // Whoever sends first: at that moment it is known whether the other is at work.
            let [organisation, store] = self.ends.map(|end| end.sends.map_or(f64::INFINITY, |(_, at)| at));
            let end = usize::from(store < organisation);
            if organisation.min(store) == f64::INFINITY {
                return;
            }
            left -= usize::from(end == ORGANISATION);
            self.send(end);
        }
    }

    /// An end sends what it has worked on, and takes the next message.
    fn send(&mut self, end: usize) {
        let other = 1 - end;
        let End { client, sends: Some((since, at)), .. } = self.ends[end] else { return };
        let stage = self.clients[client].stage as usize;
        let visit = &self.work.visits[stage][end];
        let place = visit.work.len();
        let mut time = |way: &Spread, place| way.time(share(&mut self.shares, (stage, end, place))) / self.speeds[end];
        let awake = time(&visit.to_awake, place);
        // One that has nothing to work on, and had sent what it did before this is there.
        let waits = self.ends[other].sends.is_none();
        let asleep = waits && self.ends[other].free <= at + THERE * awake;
        let sent = at + if asleep { time(&visit.to_asleep, place + 1) } else { awake };
        let both = self.ends[other].sends.map_or(0.0, |(from, _)| (sent - from.max(since)).max(0.0));
        self.clients[client].there[other] = Some((sent, asleep));
        self.ends[other].both += both;
        let this = &mut self.ends[end];
        (this.free, this.client, this.sends) = (sent, (client + 1) % self.clients.len(), None);
        this.both += both;
        this.worked += sent - since;
        if waits {
            self.take(other);
        }
        self.take(end);
    }

    /// An end looks for its next message, and sleeps if it is not there.
    fn take(&mut self, end: usize) {
        let End { free, client: index, .. } = self.ends[end];
        let Some((there, slept)) = self.clients[index].there[end].take() else { return };
        let late = self.work.wake + self.work.away * (there - free).max(0.0);
        let at = if slept { there + late } else { there.max(free) };
        self.slept[end] += u64::from(slept && self.counts);
        if end == ORGANISATION {
            self.begin(index, at);
        }
        let stage = self.clients[index].stage as usize;
        let work = &self.work.visits[stage][end].work;
        let mut time = |(place, ways): (usize, &[Spread; 2])| {
            ways[usize::from(slept)].time(share(&mut self.shares, (stage, end, place)))
        };
        let seconds: f64 = work.iter().enumerate().map(&mut time).sum();
        self.ends[end].sends = Some((at, at + seconds / self.speeds[end]));
    }

    /// The organisation has what it waited for: the tag before is stored, or the second message of an exchange is there.
    fn begin(&mut self, index: usize, at: f64) {
        let client = &mut self.clients[index];
        if client.stage == Stage::Begins {
            client.stage = Stage::Ends;
        } else {
            if let Some(last) = client.last.replace(at).filter(|_| self.counts) {
                self.times.push(at - last);
            }
            let due = self.work.exchange && client.number.is_multiple_of(self.period);
            client.stage = if due { Stage::Begins } else { Stage::Usual };
        }
        client.number += u64::from(client.stage != Stage::Begins);
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of tags")]
    fn found(mut self) -> Found {
        self.times.sort_by(f64::total_cmp);
        let tags = self.times.len().max(1) as f64;
        let p95 = self.times.get((self.times.len() * 95).div_ceil(100).max(1) - 1).copied().unwrap_or(0.0);
        let slept = (self.slept[0] as f64 / tags, self.slept[1] as f64 / tags);
        let throughput = tags / (self.ends[ORGANISATION].free - self.begun);
        let worked = (self.ends[0].worked / tags, self.ends[1].worked / tags);
        Found { throughput, p95, slept, worked }
    }
}

fn share(shares: &mut BTreeMap<(usize, usize, usize), Shares>, step: (usize, usize, usize)) -> f64 {
    let seed = (step.0 * 2 + step.1) * 16 + step.2;
    shares.entry(step).or_insert_with(|| Shares { left: Vec::new(), chance: Chance(seed as u64 + 7) }).next()
}

/// Shares from 0 to 1 in which as many of each size come as there should: what takes a hundred times as long, once in a thousand times, comes
/// neither never nor twice as often.
struct Shares {
    left: Vec<u16>,
    chance: Chance,
}

/// Sizes of shares that are told apart.
const SIZES: u16 = 4_096;

impl Shares {
    fn next(&mut self) -> f64 {
        if self.left.is_empty() {
            self.left = (0..SIZES).collect();
        }
        let drawn = (self.chance.share() * self.left.len() as f64) as usize;
        let size = self.left.swap_remove(drawn.min(self.left.len() - 1));
        (f64::from(size) + self.chance.share()) / f64::from(SIZES)
    }
}

/// Repeatable chance: SplitMix64.
struct Chance(u64);

impl Chance {
    /// From 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are meant")]
    fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::summary;

    /// A step that always takes so many microseconds.
    fn always(micros: f64) -> Spread {
        let sample = summary(&[micros * 1e-6; 4]).unwrap();
        Spread::of(&sample, sample.mean)
    }

    /// Tags a second of so many clients whose organisation and store have so many microseconds of work for each; waking somebody takes ten.
    fn tags(organisation: f64, store: f64, clients: u32) -> f64 {
        let visit = |work| Visit { work: vec![[always(work); 2]], to_asleep: always(13.0), to_awake: always(3.0) };
        let usual = [visit(organisation), visit(store)];
        let visits = [usual.clone(), usual.clone(), usual];
        let work = Work { visits, exchange: false, wake: 7e-6, away: 0.0, speed: 1.0, beside: [0.0; 2] };
        let (configuration, database) = ("SC0".to_owned(), "sqlite".to_owned());
        run(&work, &Setting { configuration, key: 0, database, clients, period: 0, tag: 0 }).throughput
    }

    #[test]
    fn who_still_sends_is_not_asleep_and_who_sleeps_has_to_be_woken() {
        // The store has ended its work and sends, when the organisation, a little slower, begins to send: nobody has to be woken.
        for clients in [8, 64] {
            assert!((tags(17.0, 16.0, clients) * 20e-6 - 1.0).abs() < 0.02, "{}", tags(17.0, 16.0, clients));
        }
        // One that has done long ago what it had sleeps each time.
        assert!((tags(40.0, 1.0, 8) * 53e-6 - 1.0).abs() < 1e-6, "{}", tags(40.0, 1.0, 8));
        // Alone, each waits for the other: two works, two wakings.
        assert!((tags(40.0, 10.0, 1) * 90e-6 - 1.0).abs() < 1e-6, "{}", tags(40.0, 10.0, 1));
    }

    #[test]
    fn shares_of_each_size_come_as_often_as_they_should() {
        let mut shares = Shares { left: Vec::new(), chance: Chance(7) };
        let drawn: Vec<f64> = (0..2 * SIZES).map(|_| shares.next()).collect();
        for tenth in 0..10 {
            let size = |share: &&f64| (**share * 10.0) as u16 == tenth;
            let count = drawn.iter().filter(size).count();
            assert!(count.abs_diff(usize::from(SIZES) / 5) <= 4, "{tenth}: {count}");
        }
        // Their order says nothing.
        let middle = |pair: &[f64]| (pair[0] - 0.5) * (pair[1] - 0.5) * 12.0;
        let correlation = drawn.windows(2).map(middle).sum::<f64>() / f64::from(2 * SIZES);
        assert!(correlation.abs() < 0.05, "{correlation}");
    }
}
