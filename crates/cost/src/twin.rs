//! The twin of a running Trapkey: it is told what the program's figures say, keeps what its stages take current, and says which stage has
//! left its band, since when, and what that does to predictions.
//!
//! Nothing is read from a network here and no clock is looked at: a shell brings texts and times. [`exposition`] reads a text strictly,
//! [`reading`] takes the stages out of it, [`detect`] has the rule for alarms and its bound on false ones.

mod cause;
pub mod detect;
pub mod exposition;
mod moving;
mod predict;
pub mod reading;
mod record;
mod report;
mod stage;

#[cfg(test)]
mod random;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Serialize;

pub use cause::Suspect;
pub use detect::Side;
pub use moving::Estimate;
pub use predict::Figures;
pub use record::{OPERATION, check};
pub use report::{Outlook, Report, Seen, State, Way};

use self::reading::{Place, Reading, Span, Thread};
use self::stage::{Happened, Stage};
use crate::calibration::Calibration;
use crate::{Class, Fault};

/// How the twin watches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// How far a stage may be from its reference, as a share of it: 0.5 is from two thirds to one and a half.
    pub band: f64,
    /// Seconds that false alarms are apart at least, mean, all stages together.
    pub false_alarms: f64,
    /// Seconds between two looks.
    pub interval: f64,
    /// Seconds that a stage without a reference is learned for, at least.
    pub learn: f64,
    /// Seconds after which what was measured counts half.
    pub half_life: f64,
    /// Two looks are all there will be: the batch between them decides alone, and only what is far outside is an alarm.
    pub once: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { band: 0.5, false_alarms: 30.0 * 86_400.0, interval: 10.0, learn: 300.0, half_life: 300.0, once: false }
    }
}

/// What a look has shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A stage has its reference.
    Learned {
        /// Which.
        stage: String,
        /// What it took.
        took: Estimate,
    },
    /// A stage has left its band.
    Alarm {
        /// Which.
        stage: String,
        /// Which way.
        side: Side,
        /// Seconds ago that it began.
        since: f64,
        /// What it took.
        before: Estimate,
        /// What it has taken since.
        now: Estimate,
        /// So many times as long.
        factor: f64,
        /// The stage that is waited for within this one and explains it.
        #[serde(skip_serializing_if = "Option::is_none")]
        within: Option<String>,
    },
    /// A stage is back in its band.
    Cleared {
        /// Which.
        stage: String,
        /// Which way it had left.
        side: Side,
        /// How many seconds it was outside.
        lasted: f64,
    },
    /// The program was started anew: what it had counted is gone, what is known of it stays. It says so, or counts less and does not say
    /// when it was started.
    Restarted,
    /// Two programs answer in turn where one was expected, as behind a load balancer. Each is held against what it said itself; the stages of
    /// both are taken together.
    Swapped {
        /// How many have answered.
        programs: usize,
    },
    /// The same run of the program speaks no longer of stages that it spoke of. They are held against what they were when they are back.
    Lacks {
        /// Which.
        stages: Vec<String>,
    },
    /// The same run of the program says what cannot follow from what it said before: nothing is taken of that.
    Contradicts {
        /// What.
        why: String,
    },
    /// Its figures are out of reach.
    Gone {
        /// Why.
        why: String,
    },
    /// They are back.
    Back {
        /// Seconds that they were out of reach.
        after: f64,
    },
}

/// Items of a thread from which on it is said what one takes.
const FEW: f64 = 100.0;
/// Looks in which something that happens is known, mostly.
const LATELY: usize = 64;
/// Programs behind one address that are told apart.
const MAX_PROGRAMS: usize = 8;

/// What is known of one program.
#[derive(Debug, Clone)]
pub struct Twin {
    settings: Settings,
    stages: BTreeMap<Place, Stage>,
    threads: BTreeMap<String, Processor>,
    sessions: BTreeMap<String, f64>,
    /// The last look at each program that has answered, the latest at the end.
    last: Vec<Reading>,
    /// Whether they answer in turn.
    swapped: bool,
    /// Since when its figures are out of reach.
    gone: Option<f64>,
    looks: u64,
}

/// Processor time of a listener's thread and what it did with it, half of it forgotten after a half-life.
#[derive(Debug, Clone, Default)]
struct Processor {
    now: Thread,
    /// The same while its stages were learned.
    before: Thread,
    /// When the last looks were, and what each has found: it takes some until something that happened is known.
    lately: VecDeque<(f64, Thread)>,
    /// Whether one of its stages is outside of its band.
    alarmed: bool,
}

impl Processor {
    /// Seconds of one item; where items are few, the rest of what the thread does counts more than they do.
    fn each(thread: Thread) -> Option<f64> {
        (thread.items >= FEW).then(|| thread.cpu / thread.items)
    }

    /// What was found in a span, with since when a stage of it is outside of its band, if one is.
    fn take(&mut self, more: Thread, (from, to): (f64, f64), since: Option<f64>, half_life: f64) {
        let faded = |thread: Thread, seconds: f64| {
            let fade = (-seconds.max(0.0) / half_life).exp2();
            Thread { cpu: thread.cpu * fade, items: thread.items * fade }
        };
        let sum = |one: Thread, other: Thread| Thread { cpu: one.cpu + other.cpu, items: one.items + other.items };
        if self.lately.len() >= LATELY {
            self.lately.pop_front();
        }
        self.lately.push_back((to, more));
        self.now = sum(faded(self.now, to - from), more);
        if std::mem::replace(&mut self.alarmed, since.is_some()) != since.is_some() {
            // What came before belongs to another time, as it does for stages, and what came since to this one.
            let begun = since.unwrap_or(from);
            let all = |of: fn(f64, f64) -> bool| {
                let of_it = self.lately.iter().filter(|(at, _)| of(*at, begun));
                of_it.map(|(at, thread)| faded(*thread, to - at)).fold(Thread::default(), sum)
            };
            let (before, now) = (all(|at, begun| at <= begun), all(|at, begun| at > begun));
            self.now = now;
            if since.is_some() && before.items >= FEW {
                self.before = before;
            }
        }
        // What it was before is what it is until something happens.
        if since.is_none() && self.now.items >= FEW {
            self.before = self.now;
        }
    }
}

impl Twin {
    /// Of a program of which nothing is known but what a calibration has of its stages.
    #[must_use]
    pub fn new(settings: Settings, reference: Option<&Calibration>) -> Self {
        let steps = reference.map_or(&[][..], |it| it.steps.as_slice());
        let known = steps.iter().filter_map(record::known);
        Self {
            settings,
            stages: known.map(|(place, known)| (place, Stage::known(known))).collect(),
            threads: BTreeMap::new(),
            sessions: BTreeMap::new(),
            last: Vec::new(),
            swapped: false,
            gone: None,
            looks: 0,
        }
    }

    /// A text of figures that came at `at`, in seconds of a clock that does not step.
    ///
    /// # Errors
    /// It is no text of figures, or not of a Trapkey, or does not say any more when the program was started. Nothing has changed then.
    pub fn text(&mut self, text: &str, at: f64) -> Result<Vec<Event>, Fault> {
        let reading = Reading::of(&exposition::read(text)?, at)?;
        if reading.started.is_none() && self.last.iter().any(|last| last.started.is_some()) {
            let why = "is lacking, and was there before: nobody knows which program this is";
            return Err(Fault::new(Class::Missing, "trapkey_start_time_seconds", why));
        }
        Ok(self.look(reading))
    }

    /// One look.
    pub fn look(&mut self, reading: Reading) -> Vec<Event> {
        let mut events = Vec::new();
        if let Some(since) = self.gone.take() {
            events.push(Event::Back { after: reading.at - since });
        }
        self.looks += 1;
        self.sessions.clone_from(&reading.sessions);
        let now = reading.at;
        let span = match self.compared(reading, &mut events) {
            Some(span) => span,
            None => return events,
        };
        events.extend(span.contradictions.into_iter().map(|why| Event::Contradicts { why }));
        let threshold = self.threshold();
        for (place, sum) in span.stages {
            // A program that always has other listeners does not make its watcher grow.
            if self.stages.len() >= reading::MAX_STAGES && !self.stages.contains_key(&place) {
                continue;
            }
            let stage = self.stages.entry(place.clone()).or_default();
            if let Some(happened) = stage.take(span.from, span.to, sum, &self.settings, threshold) {
                events.extend(event(&place, stage, happened, now));
            }
        }
        self.explain(&mut events);
        self.threads(&span.threads, span.from, span.to);
        events
    }

    /// What happened since the last look at the same program, which is kept.
    fn compared(&mut self, mut reading: Reading, events: &mut Vec<Event>) -> Option<Span> {
        let known = self.last.iter().position(|last| last.started == reading.started);
        let before = known.map(|index| self.last.remove(index));
        // It had answered, and then another.
        let returned = before.is_some() && known != Some(self.last.len());
        let span = before.as_ref().and_then(|before| reading.since(before));
        let first = self.last.is_empty() && before.is_none();
        let lacking = before.filter(|_| span.is_some()).map(|before| reading.keep(&before)).unwrap_or_default();
        if !lacking.is_empty() {
            events.push(Event::Lacks { stages: lacking.iter().map(Place::to_string).collect() });
        }
        if self.last.len() >= MAX_PROGRAMS {
            self.last.remove(0);
        }
        self.last.push(reading);
        if returned && !self.swapped {
            self.swapped = true;
            events.push(Event::Swapped { programs: self.last.len() });
        } else if span.is_none() && !first && !self.swapped {
            events.push(Event::Restarted);
        }
        span
    }

    /// Its figures could not be had. Says so once.
    pub fn gone(&mut self, at: f64, why: &str) -> Option<Event> {
        if self.gone.is_some() {
            return None;
        }
        self.gone = Some(at);
        Some(Event::Gone { why: why.to_owned() })
    }

    /// Whether its figures are out of reach.
    #[must_use]
    pub const fn is_gone(&self) -> bool {
        self.gone.is_some()
    }

    /// Whether an alarm stands.
    #[must_use]
    pub fn is_alarmed(&self) -> bool {
        self.stages.values().any(|stage| stage.alarm().is_some())
    }

    /// The stages outside of their bands, each with the way.
    #[must_use]
    pub fn alarms(&self) -> Vec<(String, Side)> {
        self.stages.iter().filter_map(|(place, stage)| Some((place.to_string(), stage.alarm()?))).collect()
    }

    /// How many stages a look could say something of: they have a reference and were used often enough since.
    #[must_use]
    pub fn judged(&self) -> usize {
        self.stages.values().filter(|stage| stage.is_judged()).count()
    }

    /// Listeners that references are of and the figures do not have.
    #[must_use]
    pub fn strangers(&self) -> Vec<String> {
        let Some(last) = self.last.last() else { return Vec::new() };
        let known = self.stages.iter().filter(|(place, stage)| stage.known.is_some() && !place.listener.is_empty());
        let names: BTreeSet<&String> = known.map(|(place, _)| &place.listener).collect();
        names.into_iter().filter(|name| !last.listens(name)).cloned().collect()
    }

    /// The names of its stages.
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.stages.keys().map(Place::to_string)
    }

    /// The sum at which an alarm is raised.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "stages")]
    pub fn threshold(&self) -> f64 {
        let sides = 2.0 * self.stages.len().max(1) as f64;
        detect::threshold(sides * self.settings.false_alarms / self.settings.interval)
    }

    fn stages(&self) -> impl Iterator<Item = (&Place, &Stage)> {
        self.stages.iter()
    }

    fn threads(&mut self, more: &BTreeMap<String, Thread>, from: f64, to: f64) {
        self.threads.retain(|name, _| more.contains_key(name));
        for (name, more) in more {
            let of_it = |(place, _): &(&Place, &Stage)| place.listener == *name;
            let alarmed = self.stages.iter().filter(of_it).filter(|(_, stage)| stage.alarm().is_some());
            let since = alarmed.filter_map(|(_, stage)| stage.since).reduce(f64::min);
            self.threads.entry(name.clone()).or_default().take(*more, (from, to), since, self.settings.half_life);
        }
    }
}

fn event(place: &Place, stage: &Stage, happened: Happened, at: f64) -> Option<Event> {
    let name = place.to_string();
    let before = stage.known.map(|known| known.estimate)?;
    Some(match happened {
        Happened::Learned => Event::Learned { stage: name, took: before },
        Happened::Left(side, since) => {
            let now = stage.now.estimate()?;
            Event::Alarm {
                stage: name,
                side,
                since: at - since,
                before,
                now,
                factor: now.mean / before.mean,
                within: None,
            }
        }
        Happened::Returned(side, since) => Event::Cleared { stage: name, side, lasted: at - since },
    })
}
