//! What one look at a running Trapkey says of its stages, and what happened between two looks.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::exposition::{Exposition, Histogram, Labels, Sample};
use crate::{Class, Fault};

/// The most stages of one program.
const MAX_STAGES: usize = 1_024;

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
    /// It is not a Trapkey, or it has more stages than are taken.
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
                let listener = labels.get("listener").cloned().unwrap_or_default();
                reading.stages.insert(Place { listener, what }, sum(histogram));
            }
        }
        if reading.stages.len() > MAX_STAGES {
            return Err(Fault::new(Class::TooLarge, "metrics", format!("more than {MAX_STAGES} stages")));
        }
        let samples = |name: &str| exposition.family(name).map_or(&[][..], |family| family.samples.as_slice());
        for sample in samples("trapkey_listener_cpu_seconds").iter().filter(|sample| counts(sample)) {
            reading.thread(sample).cpu = sample.value;
        }
        for sample in samples("trapkey_decisions").iter().filter(|sample| counts(sample)) {
            reading.thread(sample).items = sample.value;
        }
        for sample in samples("trapkey_sessions").iter().filter(|sample| sample.value.is_finite()) {
            if let Some(listener) = sample.labels.get("listener") {
                reading.sessions.insert(listener.clone(), sample.value);
            }
        }
        Ok(reading)
    }

    fn thread(&mut self, sample: &Sample) -> &mut Thread {
        self.threads.entry(sample.labels.get("listener").cloned().unwrap_or_default()).or_default()
    }

    /// What happened since an earlier look. `None` when the program was started anew meanwhile: some figure is smaller than it was, or
    /// gone.
    #[must_use]
    pub fn since(&self, before: &Self) -> Option<Span> {
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

/// A time within a bucket is taken to be in its middle, on a scale of ratios; above all bounds, at twice the last one.
fn sum(histogram: &Histogram) -> Sum {
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
    let finite = |value: f64| if value.is_finite() { value } else { 0.0 };
    Sum { count: finite(count), seconds: finite(seconds), squares: finite(squares * scale) }
}

#[cfg(test)]
mod tests {
    use super::super::exposition::read;
    use super::*;

    fn text(activations: u64, seconds: f64, cpu: f64) -> String {
        format!(
            "# TYPE trapkey_build info\ntrapkey_build_info{{version=\"1\"}} 1\n\
             # TYPE trapkey_session_setup_seconds histogram\n# UNIT trapkey_session_setup_seconds seconds\n\
             trapkey_session_setup_seconds_sum{{listener=\"m\",kind=\"server\",stage=\"activate_here\"}} {seconds}\n\
             trapkey_session_setup_seconds_count{{listener=\"m\",kind=\"server\",stage=\"activate_here\"}} {activations}\n\
             trapkey_session_setup_seconds_bucket{{le=\"0.1\",listener=\"m\",kind=\"server\",stage=\"activate_here\"}} {activations}\n\
             trapkey_session_setup_seconds_bucket{{le=\"+Inf\",listener=\"m\",kind=\"server\",stage=\"activate_here\"}} {activations}\n\
             # TYPE trapkey_decisions counter\ntrapkey_decisions_total{{listener=\"m\",kind=\"server\"}} 10\n\
             # TYPE trapkey_listener_cpu_seconds counter\n# UNIT trapkey_listener_cpu_seconds seconds\n\
             trapkey_listener_cpu_seconds_total{{listener=\"m\",kind=\"server\"}} {cpu}\n# EOF\n"
        )
    }

    fn reading(activations: u64, seconds: f64, cpu: f64, at: f64) -> Reading {
        Reading::of(&read(&text(activations, seconds, cpu)).unwrap(), at).unwrap()
    }

    #[test]
    fn what_happened_between_two_looks_is_their_difference() {
        let (one, two) = (reading(10, 0.5, 1.0, 100.0), reading(14, 0.9, 1.5, 110.0));
        let span = two.since(&one).unwrap();
        let sum = span.stages[&Place { listener: "m".into(), what: What::Activate }];
        assert_eq!((span.from, span.to, sum.count), (100.0, 110.0, 4.0));
        assert!((sum.seconds - 0.4).abs() < 1e-12 && (sum.variation() - 0.01).abs() < 1e-9, "{sum:?}");
        assert_eq!(span.threads["m"], Thread { cpu: 0.5, items: 0.0 });
    }

    #[test]
    fn a_program_that_was_started_anew_is_no_difference() {
        let one = reading(10, 0.5, 1.0, 0.0);
        for (rule, two) in [
            ("fewer were counted", reading(9, 0.6, 1.5, 1.0)),
            ("they took less", reading(10, 0.4, 1.5, 1.0)),
            ("the thread is new", reading(10, 0.5, 0.5, 1.0)),
        ] {
            assert_eq!(two.since(&one), None, "{rule}");
        }
        let gone = Reading { stages: BTreeMap::new(), ..reading(10, 0.5, 1.0, 1.0) };
        assert_eq!(gone.since(&one), None);
        assert!(reading(10, 0.5, 1.0, 1.0).since(&one).is_some(), "no traffic is no restart");
    }

    #[test]
    fn other_programs_are_refused_and_places_have_names() {
        let other = read("# TYPE a gauge\na 1\n# EOF\n").unwrap();
        assert_eq!(Reading::of(&other, 0.0).unwrap_err().class, Class::Missing);
        for what in What::ALL {
            for listener in ["", "mixer", "two words"] {
                let place = Place { listener: listener.into(), what };
                assert_eq!(Place::of(&place.to_string()), Some(place));
            }
        }
        assert_eq!(Place::of("mixer nothing"), None);
    }
}
