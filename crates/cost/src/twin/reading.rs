//! What one look at a running Trapkey says of its stages, and what happened between two looks.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::exposition::{Exposition, Histogram, Labels, Sample};
use crate::{Class, Fault};

/// The most stages of one program, and the most listeners.
pub(super) const MAX_STAGES: usize = 1_024;
/// The longest name of a listener, in bytes.
const MAX_NAME: usize = 256;

/// Where time goes. Each is measured by itself: none holds another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// From a connection to its Hello: the network and the client.
    Hello,
    /// From Hello to the open channel: keys of both sides, and the way between them.
    OpenChannel,
    /// From CreateSession to its answer.
    Create,
    /// From ActivateSession to its answer, without what the authority was asked meanwhile.
    Activate,
    /// What the authority is asked in the name of a client.
    Authority,
    /// A token is verified.
    Token,
    /// One decision.
    Decision,
    /// From a guard's request to its server's answer.
    Upstream,
    /// From a record that somebody awaits until it is kept.
    LedgerWrite,
    /// The authority makes and signs a token.
    Issue,
}

impl What {
    /// All, in the order in which a request meets them.
    pub const ALL: [Self; 10] = [
        Self::Hello,
        Self::OpenChannel,
        Self::Create,
        Self::Activate,
        Self::Authority,
        Self::Token,
        Self::Issue,
        Self::Decision,
        Self::Upstream,
        Self::LedgerWrite,
    ];

    /// As it is written.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Hello => "hello",
            Self::OpenChannel => "open_channel",
            Self::Create => "create",
            Self::Activate => "activate",
            Self::Authority => "authority",
            Self::Token => "token",
            Self::Decision => "decision",
            Self::Upstream => "upstream",
            Self::LedgerWrite => "ledger_write",
            Self::Issue => "issue",
        }
    }
}

impl What {
    /// From what to what it is measured.
    #[must_use]
    pub const fn span(self) -> &'static str {
        match self {
            Self::Hello => "from the connection of a client to its Hello",
            Self::OpenChannel => "from the Hello of a client to its open channel",
            Self::Create => "from CreateSession to its answer",
            Self::Activate => "from ActivateSession to its answer, without what the authority is asked meanwhile",
            Self::Authority => "what the authority is asked for a client",
            Self::Token => "one token is verified, and its rights are read",
            Self::Decision => "one item of a request is decided by the table of the grant",
            Self::Upstream => "from the guard's request to the answer of the server behind it",
            Self::LedgerWrite => "from a record that somebody awaits until it is kept",
            Self::Issue => "the authority decides, makes and signs a token",
        }
    }

    /// What to look at when it takes longer.
    #[must_use]
    pub const fn look_at(self) -> &'static str {
        match self {
            Self::Hello => "the clients, and the network or firewall between",
            Self::OpenChannel => "the way to the clients, the length of keys, who else uses the processor",
            Self::Create => "the length of the server's key, who else uses the processor",
            Self::Activate => "how passwords are kept, the length of keys, who else uses the processor",
            Self::Authority => "the authority (its own watch says which stage), and the way to it",
            Self::Token => "how long tokens have become (groups, roles, rights), who else uses the processor",
            Self::Decision => "who else uses the processor, and which build of Trapkey it is",
            Self::Upstream => "the server behind the guard, and the way to it",
            Self::LedgerWrite => "the disk of the audit ledger",
            Self::Issue => "the number of policies, and the database of the authority",
        }
    }
}

/// A stage at a listener, or of the whole program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The short name of the listener; empty for what all share.
    pub listener: String,
    /// The stage.
    pub what: What,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.what.word();
        if self.listener.is_empty() { f.write_str(word) } else { write!(f, "{} {word}", self.listener) }
    }
}

impl Place {
    /// The place of such a name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        let (listener, word) = name.rsplit_once(' ').unwrap_or(("", name));
        let what = What::ALL.into_iter().find(|what| what.word() == word)?;
        Some(Self { listener: listener.to_owned(), what })
    }
}

/// How often something happened, how many seconds it took in all, and the sum of the squares of the times as far as buckets tell.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sum {
    /// How often.
    pub count: f64,
    /// Seconds.
    pub seconds: f64,
    /// Seconds squared.
    pub squares: f64,
}

impl Sum {
    /// Both together.
    pub(super) fn add(&mut self, more: Self) {
        self.count += more.count;
        self.seconds += more.seconds;
        self.squares += more.squares;
    }

    /// Both, the first weighed.
    pub(super) fn fade(&mut self, weight: f64) {
        self.count *= weight;
        self.seconds *= weight;
        self.squares *= weight;
    }

    /// The squared coefficient of variation of single times, 0.01 to 100; 1 where nothing is known.
    #[must_use]
    pub fn variation(&self) -> f64 {
        let mean = self.seconds / self.count;
        let variation = self.squares / self.count / (mean * mean) - 1.0;
        if variation.is_finite() { variation.clamp(0.01, 100.0) } else { 1.0 }
    }
}

/// What a listener's thread has done.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Thread {
    /// Processor seconds.
    pub cpu: f64,
    /// Items that were decided.
    pub items: f64,
}

/// One look.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// When, by a clock that does not step. Seconds.
    pub at: f64,
    /// When the program says that it was started, by its own clock: another time is another program. Seconds of UNIX time.
    pub(super) started: Option<f64>,
    /// Since it started.
    stages: BTreeMap<Place, Sum>,
    threads: BTreeMap<String, Thread>,
    /// Sessions of each listener now.
    pub(super) sessions: BTreeMap<String, f64>,
}

/// What happened between two looks.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// When it began.
    pub from: f64,
    /// When it ended.
    pub to: f64,
    /// Of each stage, what was counted; those without traffic too.
    pub stages: BTreeMap<Place, Sum>,
    /// Of each listener's thread.
    pub threads: BTreeMap<String, Thread>,
}

impl Reading {
    /// What is read of a program at a moment.
    ///
    /// # Errors
    /// It is not a Trapkey, has more stages or listeners than are taken, the same one twice, a name that no configuration has, or a
    /// figure without end.
    pub fn of(exposition: &Exposition, at: f64) -> Result<Self, Fault> {
        if exposition.family("trapkey_build").is_none() {
            return Err(Fault::new(
                Class::Missing,
                "trapkey_build",
                "this is not a Trapkey: its figures lack the family",
            ));
        }
        let mut reading = Self { at, ..Self::default() };
        let whole: [(&str, Option<What>); 6] = [
            ("trapkey_session_setup_seconds", None),
            ("trapkey_token_seconds", Some(What::Token)),
            ("trapkey_decision_seconds", Some(What::Decision)),
            ("trapkey_upstream_latency_seconds", Some(What::Upstream)),
            ("trapkey_ledger_write_seconds", Some(What::LedgerWrite)),
            ("trapkey_authority_issue_seconds", Some(What::Issue)),
        ];
        for (name, what) in whole {
            let Some(family) = exposition.family(name) else { continue };
            let histograms = family.histograms().map_err(|why| Fault::new(Class::Invalid, name, why))?;
            for (labels, histogram) in &histograms {
                let Some(what) = what.or_else(|| staged(labels)) else { continue };
                let sum = sum(histogram).ok_or_else(|| Fault::new(Class::Invalid, name, "counts without end"))?;
                let place = Place { listener: listener(labels, name)?, what };
                if reading.stages.insert(place, sum).is_some() {
                    return Err(Fault::new(Class::Doubled, name, "two listeners have the same name"));
                }
            }
        }
        let samples = |name: &str| exposition.family(name).map_or(&[][..], |family| family.samples.as_slice());
        let started = samples("trapkey_start_time_seconds").first().map(|sample| sample.value);
        reading.started = started.filter(|seconds| seconds.is_finite());
        for sample in samples("trapkey_listener_cpu_seconds").iter().filter(|sample| counts(sample)) {
            reading.thread(sample)?.cpu = sample.value;
        }
        for sample in samples("trapkey_decisions").iter().filter(|sample| counts(sample)) {
            reading.thread(sample)?.items = sample.value;
        }
        for sample in samples("trapkey_sessions").iter().filter(|sample| sample.value.is_finite()) {
            reading.sessions.insert(listener(&sample.labels, "trapkey_sessions")?, sample.value);
        }
        if [reading.stages.len(), reading.threads.len(), reading.sessions.len()].iter().any(|count| *count > MAX_STAGES)
        {
            let why = format!("more than {MAX_STAGES} stages or listeners");
            return Err(Fault::new(Class::TooLarge, "metrics", why));
        }
        Ok(reading)
    }

    fn thread(&mut self, sample: &Sample) -> Result<&mut Thread, Fault> {
        Ok(self.threads.entry(listener(&sample.labels, "trapkey_decisions")?).or_default())
    }

    /// What happened since an earlier look. `None` when the program was started anew meanwhile: it says so, or some figure is smaller
    /// than it was, or gone.
    #[must_use]
    pub fn since(&self, before: &Self) -> Option<Span> {
        if self.started != before.started {
            return None;
        }
        let mut stages = BTreeMap::new();
        for (place, old) in &before.stages {
            let new = self.stages.get(place).copied().unwrap_or_default();
            // Sums of doubles that were written as text may differ in their last digits.
            if new.count < old.count || new.seconds < old.seconds * (1.0 - 1e-9) {
                return None;
            }
        }
        for (place, new) in &self.stages {
            let old = before.stages.get(place).copied().unwrap_or_default();
            let grown = |new: f64, old: f64| (new - old).max(0.0);
            let sum = Sum {
                count: grown(new.count, old.count),
                seconds: grown(new.seconds, old.seconds),
                squares: grown(new.squares, old.squares),
            };
            stages.insert(place.clone(), sum);
        }
        let mut threads = BTreeMap::new();
        for (name, new) in &self.threads {
            let old = before.threads.get(name).copied().unwrap_or_default();
            if new.items < old.items || new.cpu < old.cpu {
                return None;
            }
            threads.insert(name.clone(), Thread { cpu: new.cpu - old.cpu, items: new.items - old.items });
        }
        Some(Span { from: before.at, to: self.at, stages, threads })
    }
}

/// The name of a listener. It will be shown: what could move the cursor of a terminal, or turn the direction of a line, is no name.
fn listener(labels: &Labels, family: &str) -> Result<String, Fault> {
    let name = labels.get("listener").map_or("", String::as_str);
    let turns = |letter: char| matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if name.len() > MAX_NAME || name.chars().any(|letter| letter.is_control() || turns(letter)) {
        let why = "a listener has a name that no configuration has: with control characters, or too long";
        return Err(Fault::new(Class::Invalid, family, why));
    }
    Ok(name.to_owned())
}

fn counts(sample: &Sample) -> bool {
    sample.suffix == "_total" && sample.value.is_finite()
}

/// Which stage of setting a session up. `activate` holds `authority`, so `activate_here` is taken in its place.
fn staged(labels: &Labels) -> Option<What> {
    match labels.get("stage")?.as_str() {
        "hello" => Some(What::Hello),
        "open_channel" => Some(What::OpenChannel),
        "create" => Some(What::Create),
        "activate_here" => Some(What::Activate),
        "authority" => Some(What::Authority),
        _ => None,
    }
}

/// A time within a bucket is taken to be in its middle, on a scale of ratios; above all bounds, at twice the last one. `None` of what
/// has no end.
fn sum(histogram: &Histogram) -> Option<Sum> {
    let (mut below, mut before, mut squares, mut middles) = (0.0_f64, 0.0, 0.0, 0.0);
    for (bound, count) in &histogram.buckets {
        let here = count - before;
        let middle = match (bound.is_finite(), below > 0.0) {
            (false, _) => 2.0 * below,
            (true, true) => (below * bound).sqrt(),
            (true, false) => bound / 2.0,
        };
        squares += here * middle * middle;
        middles += here * middle;
        (below, before) = (if bound.is_finite() { *bound } else { below }, *count);
    }
    let seconds = histogram.sum.unwrap_or(middles).max(0.0);
    let count = histogram.count.unwrap_or(before);
    // The sum is exact: what the middles are off, their squares are off twice.
    let scale = if middles > 0.0 && seconds > 0.0 { (seconds / middles).powi(2) } else { 1.0 };
    let squares = squares * scale;
    [count, seconds, squares].iter().all(|value| value.is_finite()).then_some(Sum { count, seconds, squares })
}

#[cfg(test)]
mod tests;
