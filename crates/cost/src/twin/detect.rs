//! When a stage has left its band: a cumulative sum on the logarithms of mean times, with a bound on false alarms.
//!
//! *What is compared.* Times of a stage come in batches of some uses; `x` is the logarithm of a batch's mean. The reference says where `x`
//! lies (`centre`) and how it spreads (`spread`, for batches of `uses`). The band is `centre ± edge`, the edge `ln(1 + band)` and three
//! standard errors of the centre on top, so that what is not known of the reference is inside. How far a batch is beyond an edge, in units
//! of its spread, is its score; scores are cut at ±4, so that one stall is no shift. Upwards `S = max(0, S + score - 1/2)`, downwards the
//! same; an alarm is raised when `S` passes `h` (Page, *Continuous inspection schemes*, Biometrika 1954).
//!
//! *Now and then.* A stage that is slow in every third batch, or stalls in every tenth, has a mean that is far beyond the edge, and sums that the
//! batches between take back. So batches that are well beyond the upper edge are counted, too: `T = max(0, T + ln(p/q))` for such a one and
//! `ln((1-p)/(1-q))` for another, where a share `q` of them is let pass and `p` is looked for (`NOW_AND_THEN`); past the logarithm of the
//! batches that false alarms are to be apart, it is one (Page's test of likelihoods: at a share of `q` or less they are
//! at least so far apart; Lorden, *Annals of Mathematical Statistics* 1971). Such an alarm ends when nothing speaks for it any more.
//!
//! *The bound.* While the true centre is within the band, a score has a mean of at most 0 and a spread of at most 1. The mean number of
//! batches to a false alarm on one side is then at least `(e^b - b - 1) * 2` with `b = h + 1.166` (Siegmund, *Sequential Analysis*, 1985; for
//! the allowance of 1/2), and that at the edge itself: in the middle of the band it is far more. `h` is chosen so that over all stages and both sides
//! false alarms are at least as far apart as asked.
//!
//! *What is on the safe side.* The spread is the upper end of its 99 % interval, and larger by what batches that follow each other have in
//! common; a batch of fewer uses than those of the reference is taken to spread by as much more as single uses would, one of more uses by no less.

/// Scores are cut here.
const CUT: f64 = 4.0;
/// What a score must pass to count towards an alarm: half of the smallest shift that is looked for.
const ALLOWANCE: f64 = 0.5;
/// What a walk overshoots its threshold by, of a normal walk.
const OVERSHOOT: f64 = 1.166;
/// The sum at which an alarm ends: beside 930 batches on the edge of the band.
const CLEAR: f64 = 5.0;
/// How many spreads a batch is beyond the upper edge that is counted, the share of such batches that is let pass, and the one that is looked for:
/// on the edge itself 1 of 44 is two spreads beyond it, and 1 of 30,000 four.
const NOW_AND_THEN: [(f64, f64, f64); 2] = [(2.0, 0.05, 0.25), (CUT, 0.01, 0.1)];
/// Batches that a reference has at least.
pub(super) const LEARN: usize = 20;

/// Where the logarithm of the mean of a batch lies, and how it spreads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reference {
    /// Its centre.
    pub centre: f64,
    /// Its standard deviation, as it was seen.
    pub spread: f64,
    /// The same on the safe side.
    safe: f64,
    /// Batches that it is made of.
    pub batches: usize,
    /// Uses in each, mean.
    pub uses: f64,
}

impl Reference {
    /// Of batches in the order in which they came: the logarithm of each one's mean, and its uses. `None` for fewer than three.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "batches")]
    pub fn learned(batches: &[(f64, f64)]) -> Option<Self> {
        let count = batches.len();
        if count < 3 {
            return None;
        }
        let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / count as f64;
        let centre = mean(&mut batches.iter().map(|(x, _)| *x));
        let uses = mean(&mut batches.iter().map(|(_, uses)| *uses));
        let squares: f64 = batches.iter().map(|(x, _)| (x - centre).powi(2)).sum();
        let products: f64 = batches.windows(2).map(|pair| (pair[0].0 - centre) * (pair[1].0 - centre)).sum();
        // Of few batches little is known about that.
        let most = 0.8 * (count as f64 / 30.0).min(1.0);
        let common = if squares > 0.0 { (products / squares).clamp(0.0, most) } else { 0.0 };
        Some(Self::new(centre, (squares / (count - 1) as f64).sqrt(), count, uses, common))
    }

    /// As it was written down; `mean` and `deviation` are of the means of batches, not of their logarithms.
    #[must_use]
    pub fn recorded(mean: f64, deviation: f64, batches: usize, uses: f64) -> Option<Self> {
        if batches < 3 || mean <= 0.0 || !mean.is_finite() || !deviation.is_finite() {
            return None;
        }
        let variance = (1.0 + (deviation / mean).powi(2)).ln();
        Some(Self::new(mean.ln() - variance / 2.0, variance.sqrt(), batches, uses, 0.0))
    }

    /// The same where no more is known of the spread than that all lies between two times: it is no larger than half of what lies between
    /// their logarithms (Popoviciu).
    #[must_use]
    pub(super) fn between(self, centre: f64, least: f64, most: f64) -> Self {
        let spread = (most / least).ln() / 2.0;
        if !(least > 0.0 && spread.is_finite() && spread > self.spread) {
            return self;
        }
        Self::new(centre.ln(), spread, self.batches, self.uses, 0.0)
    }

    #[expect(clippy::cast_precision_loss, reason = "batches")]
    fn new(centre: f64, spread: f64, batches: usize, uses: f64, common: f64) -> Self {
        let freedom = (batches - 1) as f64;
        let unknown = (freedom / lowest_percent(freedom)).sqrt();
        // Equal times are no proof that all will be equal.
        let safe = (spread * unknown * ((1.0 + common) / (1.0 - common)).sqrt()).max(0.01);
        Self { centre, spread, safe, batches, uses: uses.max(1.0) }
    }

    /// How far the edges of a band are from the centre.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "batches")]
    pub fn edge(&self, band: f64) -> f64 {
        band.ln_1p() + 3.0 * self.safe / (self.batches as f64).sqrt()
    }

    /// A batch's distance from the centre, and its spread. The logarithm of the mean of few is too small by half of its variance.
    pub(super) fn distance(&self, x: f64, uses: f64) -> (f64, f64) {
        let fewer = (self.uses / uses.max(1.0)).max(1.0);
        let bias = (self.spread * self.spread * (fewer - 1.0) / 2.0).min(1.0);
        (x + bias - self.centre, self.safe * fewer.sqrt())
    }
}

/// A distribution of chi squared has 1 % below this; by Wilson and Hilferty, right to 2 % from 5 degrees of freedom on, too small for fewer.
fn lowest_percent(freedom: f64) -> f64 {
    let step = 2.0 / (9.0 * freedom);
    (freedom * (1.0 - step - 2.326_348 * step.sqrt()).powi(3)).max(0.01)
}

/// The threshold at which false alarms on one side are at least so many batches apart, mean.
#[must_use]
pub fn threshold(batches: f64) -> f64 {
    let run = |b: f64| 2.0 * (b.exp() - b - 1.0);
    let (mut low, mut high) = (0.0, 60.0);
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if run(middle) < batches { low = middle } else { high = middle }
    }
    (high - OVERSHOOT).max(CLEAR)
}

/// The threshold of counts of which false alarms are as far apart as sums with this one.
fn often(threshold: f64) -> f64 {
    threshold + OVERSHOOT + std::f64::consts::LN_2
}

/// Which way a stage has left its band.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// It takes longer.
    Slower,
    /// It takes less time.
    Faster,
}

/// The two sums of a stage.
#[derive(Debug, Clone, Default)]
pub struct Sums {
    up: f64,
    down: f64,
    /// While an alarm stands: how far the way back has come.
    back: f64,
    /// Of batches now and then.
    counts: [f64; 2],
    /// Whether these have raised the alarm that stands.
    counted: bool,
    alarm: Option<Side>,
}

/// What a batch has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It has left its band.
    Left(Side),
    /// It has come back.
    Returned(Side),
}

impl Sums {
    /// One more batch.
    pub fn take(&mut self, reference: &Reference, x: f64, uses: f64, band: f64, threshold: f64) -> Option<Change> {
        let (distance, spread) = reference.distance(x, uses);
        let edge = reference.edge(band);
        let score = |beyond: f64| (beyond / spread).clamp(-CUT, CUT) - ALLOWANCE;
        self.up = (self.up + score(distance - edge)).max(0.0);
        self.down = (self.down + score(-distance - edge)).max(0.0);
        let often = often(threshold);
        for (count, (beyond, passed, wanted)) in self.counts.iter_mut().zip(NOW_AND_THEN) {
            let is = distance > edge + beyond * spread;
            let step = if is { wanted / passed } else { (1.0 - wanted) / (1.0 - passed) };
            // What is past the threshold says no more.
            *count = (*count + step.ln()).clamp(0.0, 1.1 * often);
        }
        match self.alarm {
            None => {
                let side = [(self.up, Side::Slower), (self.down, Side::Faster)];
                let side = side.into_iter().find(|(sum, _)| *sum > threshold).map(|(_, side)| side);
                self.counted = side.is_none() && self.counts.iter().any(|count| *count > often);
                let side = side.or(self.counted.then_some(Side::Slower))?;
                (self.alarm, self.back) = (Some(side), 0.0);
                Some(Change::Left(side))
            }
            Some(side) => {
                let inside = if side == Side::Slower { edge - distance } else { edge + distance };
                self.back = (self.back + score(inside)).max(0.0);
                if self.back <= CLEAR || self.counted && self.now_and_then() {
                    return None;
                }
                *self = Self::default();
                Some(Change::Returned(side))
            }
        }
    }

    /// Raises an alarm that something else has found; `None` if one stands.
    pub(super) const fn raise(&mut self, side: Side) -> Option<()> {
        if self.alarm.is_some() {
            return None;
        }
        self.alarm = Some(side);
        Some(())
    }

    /// The alarm that stands.
    #[must_use]
    pub const fn alarm(&self) -> Option<Side> {
        self.alarm
    }

    /// Whether batches now and then speak for slower.
    #[must_use]
    pub fn now_and_then(&self) -> bool {
        self.counts.iter().any(|count| *count > 0.0)
    }

    /// Whether they have raised the alarm that stands.
    #[must_use]
    pub const fn counted(&self) -> bool {
        self.counted
    }

    /// Whether nothing speaks for this side.
    #[must_use]
    pub fn is_quiet(&self, side: Side) -> bool {
        let sum = if side == Side::Slower { self.up } else { self.down };
        sum <= 0.0
    }
}

/// Whether one batch alone is so far beyond an edge that it is an alarm: four spreads, 1 of 30,000 on the edge itself.
#[must_use]
pub fn at_once(reference: &Reference, x: f64, uses: f64, band: f64) -> Option<Side> {
    let (distance, spread) = reference.distance(x, uses);
    let beyond = reference.edge(band) + CUT * spread;
    if distance > beyond {
        Some(Side::Slower)
    } else if distance < -beyond {
        Some(Side::Faster)
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
