//! What one look at a running Trapkey says of its stages, and what happened between two looks.

mod counted;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use self::counted::{Contradiction, Counted, counted, digits};
use super::exposition::{Exposition, Family, Kind, Labels, Sample};
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
    /// From a guard's call to its server until a session there is active.
    UpstreamOpen,
    /// From a guard's request to its server's answer.
    Upstream,
    /// From a record that somebody awaits until it is kept.
    LedgerWrite,
    /// The authority makes and signs a token.
    Issue,
}

impl What {
    /// All, in the order in which a request meets them.
    pub const ALL: [Self; 11] = [
        Self::Hello,
        Self::OpenChannel,
        Self::Create,
        Self::Activate,
        Self::Authority,
        Self::Token,
        Self::Issue,
        Self::UpstreamOpen,
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
            Self::UpstreamOpen => "upstream_open",
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
            Self::UpstreamOpen => "from the guard's call to the server behind it until a session there is active",
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
            Self::UpstreamOpen => "the server behind the guard, the way to it, the length of keys",
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
    /// The place of such a name: all but what is done for a whole program are of a listener.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        let (listener, word) = name.rsplit_once(' ').unwrap_or(("", name));
        let what = What::ALL.into_iter().find(|what| what.word() == word)?;
        if listener.is_empty() != matches!(what, What::LedgerWrite | What::Issue) {
            return None;
        }
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
    /// Since it started; of stages that are lacking, as they were when they were seen last.
    stages: BTreeMap<Place, Counted>,
    threads: BTreeMap<String, Thread>,
    /// Stages that the program has had and does not speak of.
    pub(super) lacking: BTreeSet<Place>,
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
    /// What cannot follow from the look before, each as a sentence: nothing is taken of it.
    pub contradictions: Vec<String>,
}

impl Reading {
    /// What is read of a program at a moment.
    ///
    /// # Errors
    /// It is not a Trapkey, has more stages or listeners than are taken, the same one twice, a name that no configuration has, a family of
    /// another type, a figure without end, or a sum that its buckets cannot hold.
    pub fn of(exposition: &Exposition, at: f64) -> Result<Self, Fault> {
        if exposition.family("trapkey_build").is_none() {
            return Err(Fault::new(
                Class::Missing,
                "trapkey_build",
                "this is not a Trapkey: its figures lack the family",
            ));
        }
        let mut reading = Self { at, started: started(exposition)?, ..Self::default() };
        for (name, what) in [
            ("trapkey_session_setup_seconds", None),
            ("trapkey_token_seconds", Some(What::Token)),
            ("trapkey_decision_seconds", Some(What::Decision)),
            ("trapkey_upstream_open_seconds", Some(What::UpstreamOpen)),
            ("trapkey_upstream_latency_seconds", Some(What::Upstream)),
            ("trapkey_ledger_write_seconds", Some(What::LedgerWrite)),
            ("trapkey_authority_issue_seconds", Some(What::Issue)),
        ] {
            reading.timed(exposition, name, what)?;
        }
        let finite = |sample: &&Sample| sample.value.is_finite();
        let counts = |sample: &&Sample| sample.suffix == "_total" && sample.value.is_finite();
        for sample in samples(exposition, "trapkey_listener_cpu_seconds", Kind::Counter)?.iter().filter(counts) {
            reading.thread(sample)?.cpu = sample.value;
        }
        for sample in samples(exposition, "trapkey_decisions", Kind::Counter)?.iter().filter(counts) {
            reading.thread(sample)?.items = sample.value;
        }
        for sample in samples(exposition, "trapkey_sessions", Kind::Gauge)?.iter().filter(finite) {
            reading.sessions.insert(listener(&sample.labels, "trapkey_sessions")?, sample.value);
        }
        if [reading.stages.len(), reading.threads.len(), reading.sessions.len()].iter().any(|count| *count > MAX_STAGES)
        {
            let why = format!("more than {MAX_STAGES} stages or listeners");
            return Err(Fault::new(Class::TooLarge, "metrics", why));
        }
        Ok(reading)
    }

    /// The stages of a family of times.
    fn timed(&mut self, exposition: &Exposition, name: &str, what: Option<What>) -> Result<(), Fault> {
        let Some(family) = family(exposition, name, Kind::Histogram)? else { return Ok(()) };
        let histograms = family.histograms().map_err(|why| Fault::new(Class::Invalid, name, why))?;
        for (labels, histogram) in &histograms {
            let Some(what) = what.or_else(|| staged(labels)) else { continue };
            let counted = counted(histogram).ok_or_else(|| Fault::new(Class::Invalid, name, "counts without end"))?;
            if !counted.adds_up(digits(counted.sum.seconds)) {
                let why = format!("the sum of {labels:?} does not add up: its buckets cannot hold it");
                return Err(Fault::new(Class::Invalid, name, why));
            }
            let place = Place { listener: listener(labels, name)?, what };
            if self.stages.insert(place, counted).is_some() {
                return Err(Fault::new(Class::Doubled, name, "two listeners have the same name"));
            }
        }
        Ok(())
    }

    fn thread(&mut self, sample: &Sample) -> Result<&mut Thread, Fault> {
        Ok(self.threads.entry(listener(&sample.labels, "trapkey_decisions")?).or_default())
    }

    /// Whether there is anything of this listener.
    pub(super) fn listens(&self, name: &str) -> bool {
        let stage = |place: &Place| place.listener == name && !self.lacking.contains(place);
        self.threads.contains_key(name) || self.sessions.contains_key(name) || self.stages.keys().any(stage)
    }

    /// What happened since an earlier look. `None` when the program was started anew meanwhile: it says so, or does not say when it was
    /// started and some figure is smaller than it was.
    #[must_use]
    pub fn since(&self, before: &Self) -> Option<Span> {
        if self.started != before.started {
            return None;
        }
        let (mut stages, mut threads, mut contradictions) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for (place, new) in &self.stages {
            match new.since(&before.stages.get(place).copied().unwrap_or_default()) {
                Ok(sum) => {
                    stages.insert(place.clone(), sum);
                }
                Err(Contradiction::Less) if self.started.is_none() => return None,
                Err(why) => contradictions.push(format!("`{place}` {}", why.word())),
            }
        }
        for (name, new) in &self.threads {
            let old = before.threads.get(name).copied().unwrap_or_default();
            if new.items >= old.items && new.cpu >= old.cpu {
                threads.insert(name.clone(), Thread { cpu: new.cpu - old.cpu, items: new.items - old.items });
            } else if self.started.is_none() {
                return None;
            } else {
                let why = Contradiction::Less.word();
                contradictions.push(format!("the thread of `{name}` {why}"));
            }
        }
        Some(Span { from: before.at, to: self.at, stages, threads, contradictions })
    }

    /// Keeps what an earlier look at the same run has of stages that are lacking now: what happened meanwhile is known when they are back.
    /// Gives those that were not lacking then.
    pub(super) fn keep(&mut self, before: &Self) -> Vec<Place> {
        for (place, old) in before.stages.iter().filter(|(_, old)| old.sum.count > 0.0) {
            // A program that always has other listeners does not make its watcher grow.
            if self.stages.len() < MAX_STAGES && !self.stages.contains_key(place) {
                self.stages.insert(place.clone(), *old);
                self.lacking.insert(place.clone());
            }
        }
        for (name, old) in &before.threads {
            if self.threads.len() < MAX_STAGES {
                self.threads.entry(name.clone()).or_insert(*old);
            }
        }
        self.lacking.difference(&before.lacking).cloned().collect()
    }
}

/// A family, which must be of its type.
fn family<'a>(exposition: &'a Exposition, name: &str, kind: Kind) -> Result<Option<&'a Family>, Fault> {
    match exposition.family(name) {
        Some(family) if family.kind != kind => {
            let why = format!("is no {}: no Trapkey says that", format!("{kind:?}").to_lowercase());
            Err(Fault::new(Class::Invalid, name, why))
        }
        found => Ok(found),
    }
}

fn samples<'a>(exposition: &'a Exposition, name: &str, kind: Kind) -> Result<&'a [Sample], Fault> {
    Ok(family(exposition, name, kind)?.map_or(&[], |family| family.samples.as_slice()))
}

/// When the program says that it was started.
fn started(exposition: &Exposition) -> Result<Option<f64>, Fault> {
    let name = "trapkey_start_time_seconds";
    match samples(exposition, name, Kind::Gauge)?.first().map(|sample| sample.value) {
        Some(seconds) if !seconds.is_finite() || seconds < 0.0 => Err(Fault::new(Class::Invalid, name, "is no moment")),
        started => Ok(started),
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

#[cfg(test)]
mod tests;
