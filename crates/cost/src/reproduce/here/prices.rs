//! Which measured step stands where in the model.

use std::collections::{BTreeMap, BTreeSet};

use super::pause::among;
use super::spread::{Spread, body};
use super::{Pause, Setting};
use crate::calibration::{Calibration, Sample};
use crate::model::{Duration, Price};
use crate::{Class, Fault};

/// Bytes that encryption adds: the initialisation vector, and what fills the last block (half a block on average is not true of one length).
const VECTOR: u64 = 16;
/// Bytes of a block.
const BLOCK: u64 = 16;

/// Seconds between two messages where the name of the step says nothing of a pause, by how such steps begin: they take turns with an
/// answer.
const USUAL_MESSAGES: ([&str; 3], f64) = (["write ", "read ", "exchange "], 250e-6);

const LOST: &str = "lose processor";
/// And while the other end is at work.
const BESIDE: &str = "lose neighbour";
const INTERRUPTION: &str = "lose interruption";
/// How such steps begin that say what is lost of the time in which an end waits; timed with each exchange of messages.
const AWAY: &str = "lose asleep";

/// Timings so many times as long as the median of their step were interrupted by something that is no part of it, and are left out; not
/// those of inserts.
pub const INTERRUPTED: f64 = 3.0;
/// Steps of which every timing counts, by how their names begin: checkpoints come now and then, and belong to them.
const WHOLE: &str = "store ";
/// Steps that are no times on the clock, by how their names begin: nothing interrupts them.
const ACCOUNTS: [&str; 3] = ["exchange organisation", "exchange store", "lose "];

/// Steps of an exchange of keys, by how their names begin: as often as that, and not once for each tag.
const OF_EXCHANGES: [&str; 2] = ["encrypt rsa-", "decrypt rsa-"];

/// Measured steps, and which of them were used.
pub(super) struct Steps<'a> {
    calibration: &'a Calibration,
    setting: &'a Setting,
    /// Seconds from one tag to the next.
    interval: f64,
    /// Seconds between two of a step at least.
    since: f64,
    used: BTreeSet<String>,
}

impl<'a> Steps<'a> {
    pub(super) fn new(calibration: &'a Calibration, setting: &'a Setting) -> Self {
        Self { calibration, setting, interval: 0.0, since: 0.0, used: BTreeSet::new() }
    }

    /// From now on a tag comes so many seconds after the one before.
    pub(super) const fn every(&mut self, interval: f64) {
        self.interval = interval;
    }

    /// Names of the steps that were asked for.
    pub(super) fn used(self) -> Vec<String> {
        self.used.into_iter().collect()
    }

    /// Seconds of a step on so many bytes: as they were measured, or on the line through other sizes, or of the only size; done by who was at
    /// work before.
    pub(super) fn time(&mut self, name: &str, bytes: u64) -> Result<Duration, Fault> {
        self.after(name, bytes, false)
    }

    /// The same, done by who was at work before or has slept.
    pub(super) fn after(&mut self, name: &str, bytes: u64, sleep: bool) -> Result<Duration, Fault> {
        let (plain, cv2) = self.plain(name, bytes)?;
        Ok(Duration { mean: (plain + self.longer(name, sleep)).max(0.0), cv2 })
    }

    /// How the times of a step on so many bytes are spread: of who was at work before, and of who has slept.
    pub(super) fn spreads(&mut self, name: &str, bytes: u64) -> Result<[Spread; 2], Fault> {
        let plain = self.plain(name, bytes)?.0;
        let exact = self.calibration.step(name, bytes).map(|step| step.wall);
        let spread = Spread::of(&exact.map_or_else(|| self.sample(name), Ok)?, plain);
        Ok([false, true].map(|sleep| spread.longer(self.longer(name, sleep))))
    }

    /// Seconds of a step without a [`Pause`], and their squared coefficient of variation.
    fn plain(&mut self, name: &str, bytes: u64) -> Result<(f64, f64), Fault> {
        let exact = self.calibration.step(name, bytes).map(|step| step.wall);
        let sample = exact.map_or_else(|| self.sample(name), Ok)?;
        self.used.insert(name.to_owned());
        let law = self.calibration.law(name).filter(|_| exact.is_none());
        let all = law.map_or(sample.mean, |law| law.at(bytes));
        let cv2 = if sample.mean > 0.0 { (sample.sd / sample.mean).powi(2) } else { 0.0 };
        Ok((all * (1.0 - self.interrupted(name, &sample)?), cv2))
    }

    /// The share of a step's timings that is interruptions: what others and the kernel take of a processor is counted once, as lost.
    fn interrupted(&mut self, name: &str, sample: &Sample) -> Result<f64, Fault> {
        if ACCOUNTS.iter().any(|it| name.starts_with(it)) {
            return Ok(0.0);
        }
        let longest = if name.starts_with(WHOLE) { f64::INFINITY } else { (INTERRUPTED - 1.0) * sample.p50 };
        let gaps = self.sample(INTERRUPTION)?;
        Ok(self.lost()? * Spread::of(&gaps, gaps.mean).part_up_to(longest))
    }

    /// Seconds that a step takes longer (or less) than without a [`Pause`], because so much time lies between two of it, in which its end
    /// worked or slept: others have taken a part of the caches by then, and its helpers went to sleep, too. The checkpoints of inserts, once in
    /// some hundred times, say nothing of that, and are left out. Of one who has slept where no such step was timed, as of one who has worked.
    /// Where there are several clients, of messages over as many lines, if those were timed.
    fn longer(&mut self, name: &str, sleep: bool) -> f64 {
        let (beginnings, apart) = USUAL_MESSAGES;
        let usual = if beginnings.iter().any(|it| name.starts_with(it)) { apart } else { Pause::USUAL };
        let interval = self.interval(name);
        let among = among(self.setting.clients);
        let among = if self.pair(name, &among).is_some() { among } else { String::new() };
        let usual_time = |sample: &Sample| if name.starts_with(WHOLE) { body(sample) } else { sample.mean };
        let (mut points, mut since) = (Vec::new(), interval);
        let pauses = Pause::ALL.into_iter().filter(|pause| pause.is_asleep() == sleep);
        let usual = (!sleep).then(|| (usual, String::new()));
        for (seconds, ending) in usual.into_iter().chain(pauses.map(|pause| (pause.seconds(), pause.ending()))) {
            let ending = format!("{ending}{among}");
            if ending.is_empty() {
                points.push((seconds, 0.0));
                continue;
            }
            let Some((later, step)) = self.pair(name, &ending) else { continue };
            since = (interval - step.p50).max(self.since);
            // Nothing makes a step faster than it ever was.
            points.push((seconds, usual_time(&later).max(step.min) - usual_time(&step)));
            self.used.insert(format!("{name}{ending}"));
        }
        if points.is_empty() {
            return self.longer(name, false);
        }
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        let next = points.iter().position(|point| since <= point.0).unwrap_or(points.len());
        match (next.checked_sub(1).and_then(|before| points.get(before)), points.get(next)) {
            // Others take of the caches ever less, the more they have.
            (Some(from), Some(to)) => from.1 + (to.1 - from.1) * (since / from.0).ln() / (to.0 / from.0).ln(),
            (one, other) => one.or(other).map_or(0.0, |point| point.1),
        }
    }

    /// A step with another ending, and the same on as many bytes without.
    fn pair(&self, name: &str, ending: &str) -> Option<(Sample, Sample)> {
        let other = format!("{name}{ending}");
        let other = self.calibration.steps.iter().find(|step| step.name() == other)?;
        Some((other.wall, self.calibration.step(name, other.bytes)?.wall))
    }

    /// Seconds from one of a step to the next.
    #[expect(clippy::cast_precision_loss, reason = "a small number of messages")]
    fn interval(&self, name: &str) -> f64 {
        let rare = OF_EXCHANGES.iter().any(|it| name.starts_with(it));
        self.interval * if rare { self.setting.period.max(1) as f64 } else { 1.0 }
    }

    /// One client's store sleeps until each of its tags comes.
    const fn alone(&self) -> bool {
        self.setting.clients == 1
    }

    fn sample(&mut self, name: &str) -> Result<Sample, Fault> {
        let step = self.calibration.steps.iter().find(|step| step.name() == name);
        let step = step.ok_or_else(|| Fault::new(Class::NoPrice, name, "this step was not measured"))?;
        self.used.insert(name.to_owned());
        Ok(step.wall)
    }

    /// Bytes of a signature, where tags are signed.
    fn signature(&self) -> u64 {
        if self.setting.configuration == "SC0" { 0 } else { u64::from(self.setting.key / 8) }
    }

    /// Bytes of what is encrypted.
    pub(super) fn clear(&self) -> u64 {
        self.setting.tag + self.signature()
    }

    /// Bytes of a message.
    pub(super) fn message(&self) -> u64 {
        if self.setting.configuration == "SC2" { (self.clear() / BLOCK + 1) * BLOCK + VECTOR } else { self.clear() }
    }

    /// An operation of the model.
    pub(super) fn operation(&mut self, name: &str) -> Result<Duration, Fault> {
        let (message, clear) = (self.message(), self.clear());
        match name {
            "genGDinfo" => self.time("generate tag", 0),
            "storeGDinfo" => self.after(&format!("store {}", self.setting.database), clear, self.alone()),
            other => self.time(other, message),
        }
    }

    /// Seconds of the store that pass while it waits for the medium: processor time that is not used.
    pub(super) fn store_waits(&mut self) -> Result<f64, Fault> {
        let name = format!("store {}", self.setting.database);
        let any = || self.calibration.steps.iter().find(|step| step.name() == name);
        let step = self.calibration.step(&name, self.clear()).or_else(any);
        let step = step.ok_or_else(|| Fault::new(Class::NoPrice, name.as_str(), "this step was not measured"))?;
        let waits = if step.wall.mean > 0.0 { (1.0 - step.cpu.mean / step.wall.mean).max(0.0) } else { 0.0 };
        Ok(waits * self.after(&name, self.clear(), self.alone())?.mean)
    }

    /// Seconds from the end of a write until the other side, which slept, begins to read.
    pub(super) fn wake(&mut self) -> Result<f64, Fault> {
        let parts = ["write message", "read message", "write answer", "read answer"];
        Ok(self.rest("exchange message", &parts)? / 2.0)
    }

    /// Seconds of delay for each second that an end sleeps: some times a second its processor is somebody else's when a message comes, for
    /// milliseconds. Nothing where that was not measured.
    pub(super) fn away(&mut self) -> f64 {
        let all = self.calibration.steps.iter().filter(|step| step.name().starts_with(AWAY));
        let (mut sum, mut count) = (0.0, 0.0);
        for step in all {
            self.used.insert(step.name());
            (sum, count) = (sum + step.wall.mean, count + 1.0);
        }
        if count > 0.0 { (sum / count).clamp(0.0, 0.9) } else { 0.0 }
    }

    /// Seconds from the end of a write until the other side begins to read, of one client's messages: at any time one of the two sleeps.
    pub(super) fn latency(&mut self) -> Result<f64, Fault> {
        // An exchange of keys has three of its own in the model.
        let exchanges = if self.setting.configuration == "SC2" { super::fresh(self.setting) } else { 0.0 };
        let messages = 2.0 + 3.0 * exchanges;
        let away = if self.alone() { self.away() * self.interval / messages } else { 0.0 };
        Ok(self.wake()? + away)
    }

    /// What a step of messages takes that is in none of its parts. Those are as long as where the step was timed: where messages follow each
    /// other at once a write was timed, too, and is shorter, but no exchange was.
    fn rest(&mut self, all: &str, parts: &[&str]) -> Result<f64, Fault> {
        let bytes = self.message();
        let among = among(self.setting.clients);
        let among = if self.pair(all, &among).is_some() { among } else { String::new() };
        let apart = |pause: &Pause| self.pair(all, &format!("{}{among}", pause.ending())).map(|_| pause.seconds());
        let timed = Pause::ALL.iter().filter(|pause| !pause.is_asleep()).filter_map(apart);
        self.since = timed.fold(USUAL_MESSAGES.1, f64::min);
        let mut rest = self.time(all, bytes)?.mean;
        for part in parts {
            rest -= self.time(part, bytes)?.mean;
        }
        self.since = 0.0;
        Ok(rest.max(0.0))
    }

    /// Processor seconds that going to sleep and waking up costs, of the organisation and of the store.
    pub(super) fn sleeps(&mut self) -> Result<(f64, f64), Fault> {
        let organisation = self.rest("exchange organisation", &["write message", "read answer"])?;
        Ok((organisation, self.rest("exchange store", &["read message", "write answer"])?))
    }

    /// The share of a processor that is taken from whoever computes, by others and by the kernel.
    pub(super) fn lost(&mut self) -> Result<f64, Fault> {
        Ok(self.sample(LOST)?.mean.clamp(0.0, 0.9))
    }

    /// The part of that which the kernel does not count as processor time of whoever lost it: what interrupts take, it does.
    pub(super) fn uncounted(&mut self) -> Result<f64, Fault> {
        let step = self.calibration.steps.iter().find(|step| step.name() == LOST);
        let step = step.ok_or_else(|| Fault::new(Class::NoPrice, LOST, "this step was not measured"))?;
        // All that is uncounted is lost.
        Ok(step.cpu.mean.clamp(0.0, self.lost()?))
    }

    /// The shares of their processors that the organisation and the store lose while the other is at work: most of what the store does is to insert.
    pub(super) fn beside(&mut self) -> Result<[f64; 2], Fault> {
        let store = format!("{BESIDE}-{}", self.setting.database);
        let mut share = |name: &str| Ok::<_, Fault>(self.sample(name)?.mean.clamp(0.0, 0.9));
        Ok([share(BESIDE)?, share(&store)?])
    }

    /// The price list of the operations that mechanisms consist of, as far as this setting needs them.
    pub(super) fn prices(&mut self) -> Result<BTreeMap<String, Price>, Fault> {
        let mut prices = BTreeMap::new();
        let mut put = |name: &str, time: Duration| {
            prices.insert(
                name.to_owned(),
                Price { each: time.mean, per_byte: 0.0, cv2: time.cv2, error: 0.0, energy: 0.0 },
            );
        };
        if self.setting.configuration == "SC0" {
            return Ok(prices);
        }
        let (key, tag, clear) = (self.setting.key, self.setting.tag, self.clear());
        put("hash sha-256", self.time("hash sha-256", tag)?);
        put(&format!("sign rsa-{key}"), self.time(&format!("sign rsa-{key}"), 0)?);
        if self.setting.configuration == "SC1" {
            return Ok(prices);
        }
        put("encrypt aes-256-cbc", self.time("encrypt aes-256-cbc", clear)?);
        put("decrypt aes-256-cbc", self.after("decrypt aes-256-cbc", clear, self.alone())?);
        if self.setting.period > 0 {
            let exchanged = u64::from(key / 8);
            put(&format!("encrypt rsa-{key}"), self.time(&format!("encrypt rsa-{key}"), 0)?);
            put(&format!("decrypt rsa-{key}"), self.time(&format!("decrypt rsa-{key}"), 0)?);
            put("combineKeys", self.time("combineKeys", 0)?);
            // The library counts no processor time of a message; here each is written and read by somebody.
            let (made, write) = (self.time("generateKey", 0)?, self.time("write message", exchanged)?);
            put("generateKey", Duration { mean: made.mean + write.mean, cv2: write.cv2 });
            put("checkNonce", self.time("read message", exchanged)?);
        }
        Ok(prices)
    }
}
