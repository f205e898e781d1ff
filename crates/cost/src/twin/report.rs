//! How a program stands at one moment.

use gspn::{Budget, Limits};
use serde::Serialize;

use super::cause::Suspect;
use super::detect::Side;
use super::moving::Estimate;
use super::predict::{self, Figures};
use super::reading::{Place, What};
use super::stage::Stage;
use super::{Processor, Twin};

/// Listeners whose nets are solved at a look.
const MAX_OUTLOOKS: usize = 32;

/// A stage of a way, the listener that has it, and how often it is met: before, and now.
type Met<'a> = (What, &'a str, (f64, f64));

/// How a program stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Looks that gave figures.
    pub looks: u64,
    /// Seconds that its figures have been out of reach, if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gone: Option<f64>,
    /// Its stages, those outside of their bands first, the farthest before all.
    pub stages: Vec<Seen>,
    /// What stages that are slower together have in common.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspect: Option<Suspect>,
    /// Programs that answer in turn, where it is not one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub programs: Option<usize>,
    /// What clients have of it, of 32 listeners at most.
    pub outlook: Vec<Outlook>,
}

/// How a stage stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It has no reference yet.
    Learning,
    /// It was not used often enough to be held against its reference.
    NotJudged,
    /// The figures spoke of it, and do no more.
    Lacking,
    /// It takes what it may.
    InBand,
    /// What it takes is above its band, and that is not certain enough for an alarm.
    Above,
    /// What it takes is below its band, and that is not certain enough for an alarm.
    Below,
    /// An alarm stands: it takes longer.
    Slower,
    /// An alarm stands: it takes less time.
    Faster,
}

impl State {
    /// Whether what the stage takes was held against its reference.
    #[must_use]
    pub const fn is_judged(self) -> bool {
        !matches!(self, Self::Learning | Self::NotJudged | Self::Lacking)
    }

    /// Whether it is outside of its band, and no alarm.
    #[must_use]
    pub const fn is_uncertain(self) -> bool {
        matches!(self, Self::Above | Self::Below)
    }
}

/// What is known of a stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Seen {
    /// Listener and stage.
    pub stage: String,
    /// How it stands.
    pub state: State,
    /// The way in which it is outside of its band.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alarm: Option<Side>,
    /// Seconds ago that it left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<f64>,
    /// The stage that is waited for within this one and explains the alarm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
    /// What it took, as it was learned or read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<Estimate>,
    /// The edges of its band, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub band: Option<(f64, f64)>,
    /// What it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<Estimate>,
    /// Share of what is needed for a reference.
    pub learned: f64,
    /// Seconds ago that it was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<f64>,
}

/// What clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Connect, open a channel, make and activate a session.
    Login,
    /// One item of a request that changes nothing.
    Request,
    /// One item of a request whose record is awaited.
    Change,
}

impl Way {
    /// Whether who does this waits for such a stage.
    #[must_use]
    pub const fn meets(self, what: What) -> bool {
        use What::{Activate, Authority, Create, Decision, Issue, LedgerWrite, OpenChannel, Upstream};
        match self {
            Self::Login => matches!(what, OpenChannel | Create | Activate | Authority | Issue),
            Self::Request => matches!(what, Decision | Upstream),
            Self::Change => matches!(what, Decision | Upstream | LedgerWrite),
        }
    }
}

/// What clients have of a listener.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outlook {
    /// Its short name.
    pub listener: String,
    /// What they do.
    pub way: Way,
    /// With the stages as the reference has them.
    pub before: Figures,
    /// With the stages as they are; nothing while nobody does it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<Figures>,
    /// Sessions there are.
    pub sessions: u32,
    /// Items a second at which the listener's thread is full: before and now, where its processor time is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<(f64, f64)>,
}

impl Twin {
    /// How the program stands at `now`.
    #[must_use]
    pub fn report(&self, now: f64) -> Report {
        let mut stages: Vec<Seen> = self.stages.keys().map(|place| self.seen(place, now)).collect();
        let far = |seen: &Seen| match (seen.alarm, &seen.reference, &seen.now) {
            (Some(_), Some(reference), Some(now)) => (now.mean / reference.mean).ln().abs(),
            _ => 0.0,
        };
        stages.sort_by(|one, other| far(other).total_cmp(&far(one)));
        let listeners: std::collections::BTreeSet<&str> =
            self.stages.keys().map(|place| place.listener.as_str()).filter(|name| !name.is_empty()).collect();
        let ways = [Way::Login, Way::Request, Way::Change];
        let outlook = listeners.into_iter().take(MAX_OUTLOOKS).flat_map(|name| ways.map(|way| self.outlook(name, way)));
        Report {
            looks: self.looks,
            gone: self.gone.map(|since| now - since),
            stages,
            suspect: self.suspect(),
            programs: self.swapped.then_some(self.last.len()),
            outlook: outlook.flatten().collect(),
        }
    }

    fn seen(&self, place: &Place, now: f64) -> Seen {
        let stage = &self.stages[place];
        let band = stage.known.map(|known| {
            let (centre, edge) = (known.estimate.mean.ln(), known.reference.edge(self.settings.band));
            ((centre - edge).exp(), (centre + edge).exp())
        });
        Seen {
            stage: place.to_string(),
            state: self.state(place, stage, band),
            alarm: stage.alarm(),
            since: stage.since.map(|since| now - since),
            within: self.within(place),
            reference: stage.known.map(|known| known.estimate),
            band,
            now: stage.now.estimate(),
            learned: stage.learned(),
            used: stage.used.map(|used| now - used),
        }
    }

    fn state(&self, place: &Place, stage: &Stage, band: Option<(f64, f64)>) -> State {
        let lacking = self.last.last().is_some_and(|last| last.lacking.contains(place));
        match (stage.alarm(), band, stage.now.estimate()) {
            (Some(Side::Slower), ..) => State::Slower,
            (Some(Side::Faster), ..) => State::Faster,
            (None, ..) if lacking => State::Lacking,
            (None, None, _) => State::Learning,
            (None, Some(_), None) => State::NotJudged,
            (None, Some((_, high)), Some(now)) if now.mean > high => State::Above,
            (None, Some((low, _)), Some(now)) if now.mean < low => State::Below,
            (None, Some(_), Some(_)) => State::InBand,
        }
    }

    /// What a stage takes: as the reference has it, and now.
    fn taken(&self, listener: &str, what: What) -> Option<(Estimate, Estimate)> {
        let stage = self.stage(listener, what)?;
        let known = stage.known?;
        let mut before = known.estimate;
        let now = stage.now.estimate().unwrap_or(before);
        if !known.single {
            // Single times are taken to have spread as they do now: means of batches do not tell how they did.
            before.variation = now.variation;
        }
        Some((before, now))
    }

    fn outlook(&self, listener: &str, way: Way) -> Option<Outlook> {
        let (mut before, mut now) = (Vec::new(), Vec::new());
        for (what, listener, times) in self.stages_of(listener, way)? {
            if let Some((was, is)) = self.taken(listener, what) {
                before.push((was, times.0));
                now.push((is, times.1));
            }
        }
        let processor = self.threads.get(listener).filter(|_| way == Way::Request);
        let each = processor.and_then(|it| Processor::each(it.before).zip(Processor::each(it.now)));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "cut to what a net takes")]
        let sessions = self.sessions.get(listener).map_or(1, |it| it.clamp(1.0, 10_000.0) as u32);
        let mut go_on = |_| true;
        let budget = &mut Budget::new(Limits { markings: 20_000, ..Limits::default() }, &mut go_on);
        Some(Outlook {
            listener: listener.to_owned(),
            way,
            before: predict::figures(&before, each.map(|(before, _)| before), sessions, budget)?,
            now: self
                .comes(listener, way)
                .then(|| predict::figures(&now, each.map(|(_, now)| now), sessions, budget))
                .flatten(),
            sessions,
            limit: each.map(|(before, now)| (1.0 / before, 1.0 / now)),
        })
    }

    /// The stages of a way. `None` when what makes it that way was never seen.
    fn stages_of<'a>(&self, listener: &'a str, way: Way) -> Option<Vec<Met<'a>>> {
        let own = |what| (what, listener, (1.0, 1.0));
        Some(match way {
            Way::Login => {
                self.taken(listener, What::Activate)?;
                let authority = (What::Authority, listener, self.asks(listener));
                vec![own(What::OpenChannel), own(What::Create), own(What::Activate), authority]
            }
            Way::Request => {
                self.taken(listener, What::Upstream).or_else(|| self.taken(listener, What::Decision))?;
                vec![own(What::Decision), own(What::Upstream)]
            }
            Way::Change => {
                self.taken("", What::LedgerWrite)?;
                let mut stages = self.stages_of(listener, Way::Request)?;
                stages.push((What::LedgerWrite, "", (1.0, 1.0)));
                stages
            }
        })
    }

    /// The share of logins that ask the authority: while the references were taken, and lately.
    fn asks(&self, listener: &str) -> (f64, f64) {
        let uses = |what| self.stage(listener, what).map_or((0.0, 0.0), Stage::uses);
        let (asked, all) = (uses(What::Authority), uses(What::Activate));
        ((asked.0 / all.0.max(1.0)).min(1.0), (asked.1 / all.1.max(1.0)).min(1.0))
    }

    /// Whether somebody was seen to do this.
    fn comes(&self, listener: &str, way: Way) -> bool {
        let used =
            |listener: &str, what| self.stage(listener, what).is_some_and(|stage| stage.now.estimate().is_some());
        let asks = || used(listener, What::Upstream) || used(listener, What::Decision);
        match way {
            Way::Login => used(listener, What::Activate),
            Way::Request => asks(),
            Way::Change => used("", What::LedgerWrite) && asks(),
        }
    }

    fn stage(&self, listener: &str, what: What) -> Option<&Stage> {
        self.stages.get(&Place { listener: listener.to_owned(), what })
    }
}
