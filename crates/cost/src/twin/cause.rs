//! What explains an alarm: a stage that another one holds, or something that many have in common.

use serde::Serialize;

use super::detect::Side;
use super::reading::{Place, What};
use super::stage::Stage;
use super::{Event, Twin};

/// What stages that moved together have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Suspect {
    /// Most stages of different kinds that compute take longer: the processor, or who else wants it.
    Processor,
    /// Stages that use the private key of a listener take longer, and others that compute do not.
    Keys,
}

/// A stage takes in what another one takes, where that accounts for so much of how far it moved.
const EXPLAINS: f64 = 0.5;

impl What {
    /// Stages of the whole program that are waited for within this one.
    const fn holds(self) -> &'static [Self] {
        match self {
            Self::Authority => &[Self::Issue, Self::LedgerWrite],
            _ => &[],
        }
    }

    /// Whether it is computing, and nothing that comes over a network or from a disk.
    const fn computes(self) -> bool {
        matches!(self, Self::OpenChannel | Self::Create | Self::Activate | Self::Token | Self::Decision | Self::Issue)
    }
}

impl Stage {
    /// By how many seconds it is slower than its reference, while an alarm says so.
    fn slower_by(&self) -> Option<f64> {
        self.alarm().filter(|side| *side == Side::Slower)?;
        Some(self.now.estimate()?.mean - self.known?.estimate.mean)
    }
}

impl Twin {
    /// The stage within this one that moved, and by so much that it explains the alarm.
    pub(super) fn within(&self, place: &Place) -> Option<String> {
        let moved = self.stages.get(place)?.slower_by()?;
        // A gate asks an authority elsewhere: what that one waits for, its own watch says.
        let here = self.stages.contains_key(&Place { listener: String::new(), what: What::Issue });
        let inner = place.what.holds().iter().filter(|_| here).filter_map(|what| {
            let inner = Place { listener: String::new(), what: *what };
            Some((self.stages.get(&inner)?.slower_by()?, inner))
        });
        let (most, inner) = inner.max_by(|one, other| one.0.total_cmp(&other.0))?;
        (most >= EXPLAINS * moved).then(|| inner.to_string())
    }

    /// Says of alarms what is within them. Alarms of one look may explain each other.
    pub(super) fn explain(&self, events: &mut [Event]) {
        for event in events {
            if let Event::Alarm { stage, within, .. } = event {
                *within = Place::of(stage).and_then(|place| self.within(&place));
            }
        }
    }

    /// What the stages that take longer have in common.
    pub(super) fn suspect(&self) -> Option<Suspect> {
        let computes = || self.stages.iter().filter(|(place, stage)| place.what.computes() && stage.is_judged());
        let slower = || computes().filter(|(_, stage)| stage.alarm() == Some(Side::Slower)).map(|(place, _)| place);
        let mut kinds: Vec<What> = slower().map(|place| place.what).collect();
        kinds.sort_unstable();
        kinds.dedup();
        if kinds.len() >= 3 && 2 * slower().count() > computes().count() {
            return Some(Suspect::Processor);
        }
        let both = |place: &Place| {
            let create = Place { what: What::Create, ..place.clone() };
            place.what == What::OpenChannel && slower().any(|other| *other == create)
        };
        let keys = |what: &What| matches!(what, What::OpenChannel | What::Create | What::Activate);
        (slower().any(both) && kinds.iter().all(keys)).then_some(Suspect::Keys)
    }
}
