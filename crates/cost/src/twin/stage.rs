//! One stage: learned, then held against what was learned; what it takes while it is in its band is the reference of later watches.

use std::collections::VecDeque;

use super::Settings;
use super::detect::{self, Change, LEARN, Reference, Side, Sums};
use super::moving::{Batch, Estimate, Moving};
use super::reading::Sum;

/// Uses that a batch has at least.
const BATCH: f64 = 8.0;
/// Batches that a reference is made of at most: later ones count, the first are dropped.
const MAX_LEARNED: usize = 4_096;

/// What a stage is held against.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Known {
    pub(super) reference: Reference,
    /// What is said of it.
    pub(super) estimate: Estimate,
    /// Smallest and largest mean of a batch.
    pub(super) range: (f64, f64),
    /// Whether the variation is that of single times, and not what means of batches say of it.
    pub(super) single: bool,
}

/// What has happened to a stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Happened {
    Learned,
    /// With when it began.
    Left(Side, f64),
    /// With when it had begun.
    Returned(Side, f64),
}

#[derive(Debug, Clone, Default)]
pub(super) struct Stage {
    pending: Option<Batch>,
    /// When the first batch of the reference began, and the batches.
    learning: Option<(f64, Vec<Batch>)>,
    pub(super) known: Option<Known>,
    pub(super) now: Moving,
    sums: Sums,
    /// For each side what came since nothing spoke for it.
    runs: [Option<(f64, Moving)>; 2],
    /// What came since batches now and then speak for slower.
    now_and_then: Option<(f64, Moving)>,
    /// Since when the alarm that stands is so.
    pub(super) since: Option<f64>,
    /// When it was used last.
    pub(super) used: Option<f64>,
    /// The latest batches of those that nothing spoke against: a reference that drifts within the band.
    pub(super) recent: VecDeque<Batch>,
}

impl Stage {
    pub(super) fn known(known: Known) -> Self {
        Self { known: Some(known), ..Self::default() }
    }

    /// What was counted in a span.
    pub(super) fn take(&mut self, from: f64, to: f64, sum: Sum, with: &Settings, threshold: f64) -> Option<Happened> {
        if sum.count <= 0.0 {
            return None;
        }
        self.used = Some(to);
        let pending = self.pending.get_or_insert(Batch { from, to, sum: Sum::default() });
        pending.to = to;
        pending.sum.add(sum);
        if pending.sum.count < BATCH {
            return None;
        }
        let batch = self.pending.take()?;
        self.now.take(&batch, with.half_life);
        match self.known {
            Some(known) if with.once => self.decide(&known.reference, &batch, with),
            Some(known) => self.compare(&known.reference, &batch, with, threshold),
            None => self.learn(batch, with),
        }
    }

    fn learn(&mut self, batch: Batch, with: &Settings) -> Option<Happened> {
        let (begun, batches) = self.learning.get_or_insert((batch.from, Vec::new()));
        if batches.len() >= MAX_LEARNED {
            batches.remove(0);
        }
        batches.push(batch);
        if batches.len() < LEARN || batch.to - *begun < with.learn {
            return None;
        }
        self.known = known(batches);
        self.recent = std::mem::take(batches).into();
        self.learning = None;
        self.known.map(|_| Happened::Learned)
    }

    /// One batch alone is an alarm or not.
    fn decide(&mut self, reference: &Reference, batch: &Batch, with: &Settings) -> Option<Happened> {
        let side = detect::at_once(reference, batch.logarithm(), batch.sum.count, with.band)?;
        self.sums.raise(side)?;
        self.since = Some(batch.from);
        Some(Happened::Left(side, batch.from))
    }

    fn compare(&mut self, reference: &Reference, batch: &Batch, with: &Settings, threshold: f64) -> Option<Happened> {
        let change = self.sums.take(reference, batch.logarithm(), batch.sum.count, with.band, threshold);
        if self.sums.alarm().is_some() && change.is_none() {
            return None;
        }
        for (side, run) in [Side::Slower, Side::Faster].into_iter().zip(&mut self.runs) {
            if self.sums.is_quiet(side) {
                *run = None;
            } else {
                run.get_or_insert_with(|| (batch.from, Moving::default())).1.take(batch, f64::INFINITY);
            }
        }
        if self.sums.now_and_then() {
            let run = self.now_and_then.get_or_insert_with(|| (batch.from, Moving::default()));
            run.1.take(batch, f64::INFINITY);
        } else {
            self.now_and_then = None;
        }
        if self.sums.alarm().is_none() && self.runs.iter().all(Option::is_none) {
            self.drift(*batch, reference.batches, with);
        }
        match change? {
            Change::Left(side) => {
                let counted = self.now_and_then.take().filter(|_| self.sums.counted());
                let run = counted.or_else(|| self.runs[usize::from(side == Side::Faster)].take());
                // What came before belongs to another time.
                let (since, now) = run.unwrap_or_else(|| (batch.from, self.now.clone()));
                (self.now, self.since) = (now, Some(since));
                Some(Happened::Left(side, since))
            }
            Change::Returned(side) => {
                let since = self.since.take().unwrap_or(batch.from);
                self.runs = Default::default();
                let mut now = Moving::default();
                now.take(batch, with.half_life);
                self.now = now;
                Some(Happened::Returned(side, since))
            }
        }
    }

    /// One more batch that is in the band. As many are kept as the reference is made of, and those of the time that one is learned for.
    fn drift(&mut self, batch: Batch, batches: usize, with: &Settings) {
        self.recent.push_back(batch);
        let enough = batches.clamp(LEARN, MAX_LEARNED);
        while self.recent.len() > enough
            && self
                .recent
                .front()
                .is_some_and(|old| self.recent.len() > MAX_LEARNED || batch.to - old.from > with.learn)
        {
            self.recent.pop_front();
        }
    }

    /// The alarm that stands.
    pub(super) const fn alarm(&self) -> Option<Side> {
        self.sums.alarm()
    }

    /// Whether a batch was held against a reference.
    pub(super) fn is_judged(&self) -> bool {
        self.known.is_some() && self.now.estimate().is_some()
    }

    /// How often it was used while its reference was taken, and lately.
    pub(super) fn uses(&self) -> (f64, f64) {
        let pending = self.pending.map_or(0.0, |batch| batch.sum.count);
        let lately = self.now.estimate().map_or(0.0, |it| it.uses) + pending;
        (self.known.map_or(0.0, |known| known.estimate.uses), lately)
    }

    /// Batches that were learned of those that are needed.
    #[expect(clippy::cast_precision_loss, reason = "batches")]
    pub(super) fn learned(&self) -> f64 {
        let batches = self.learning.as_ref().map_or(0, |(_, batches)| batches.len());
        if self.known.is_some() { 1.0 } else { (batches as f64 / LEARN as f64).min(1.0) }
    }

    /// What a later watch may hold it against: what it takes within its band, of no fewer batches than the reference; else the
    /// reference, or what was learned so far if that is one already. An alarm is held against the reference itself: else what drifts
    /// slowly enough could go anywhere.
    pub(super) fn worth_keeping(&self) -> Option<Known> {
        let Some(reference) = self.known else {
            return self.learning.as_ref().filter(|(_, it)| it.len() >= LEARN).and_then(|(_, it)| known(it));
        };
        let enough = reference.reference.batches.clamp(LEARN, MAX_LEARNED);
        let recent: Vec<Batch> = self.recent.iter().copied().collect();
        Some(known(&recent).filter(|_| recent.len() >= enough).unwrap_or(reference))
    }
}

fn known(batches: &[Batch]) -> Option<Known> {
    let logarithms: Vec<_> = batches.iter().map(|batch| (batch.logarithm(), batch.sum.count)).collect();
    let mut moving = Moving::default();
    batches.iter().for_each(|batch| moving.take(batch, f64::INFINITY));
    let range =
        logarithms.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), (x, _)| (low.min(x.exp()), high.max(x.exp())));
    Some(Known { reference: Reference::learned(&logarithms)?, estimate: moving.estimate()?, range, single: true })
}
