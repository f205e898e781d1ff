//! At a time: a net with fixed times as a cascade of equations without any.
//!
//! Let `z(t)` be the distribution over the states, and `i(t)` how fast a clock of delay `d` begins in each. At `t` it ends where exponential
//! times alone have led what began at `t - d`: with `E` for that, `i(t - d) E` leaves its states and goes on as its end leads. So `z` is a
//! sum of functions shifted by the fixed times that may have ended, `z(t) = f0(t) + f1(t - d) + f2(t - 2d) ...`, of which the first is what
//! would be without an end, each other one what the ends of the one before add and take away, and none has a step but where it begins. All
//! of them together are one system of linear equations with constant coefficients: uniformization sums it up. What is taken away may be as
//! much as what is there; how much was added and taken away in all says how far a value may be off.

use super::course::Course;
use super::system::System;
use crate::chain::poisson;
use crate::{Budget, Progress, Refusal};

/// Multiplications that a cascade may take, and numbers that may be kept of it.
const WORK: f64 = 4e9;
const KEPT: f64 = 2e7;
/// Sums of fixed times that may have ended, and numbers of each kind that may be kept of all states in all of them.
const LEVELS: usize = 2_000;
const SHARES: usize = 4_000_000;
/// Weights of steps less than this part of the largest are left out: what many steps, or very few, lead to counts, too.
const CUT: f64 = 1e-290;
/// How close a time may be to a step, relatively, and a step that is none beside a value.
const BESIDE: f64 = 1e-9;
const STEP: f64 = 1e-9;
/// Sums of fixed times that are as close as this are the same, but for what was rounded.
const SAME: f64 = 1e-14;

/// What is summed up: of each state, and of each end of a fixed time by the state in which it comes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reward {
    pub(super) states: Vec<f64>,
    pub(super) ends: Vec<f64>,
}

/// A value at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Found {
    /// And how far it may be off.
    Value(f64, f64),
    /// It is one just before this time, and another just behind it.
    Step(f64, f64),
    /// Something happens at this time with a probability above 0: there is no rate.
    Burst,
}

/// One of the functions.
struct Level {
    /// The sum of fixed times after which it begins, and how many of each that may be: there may be other ways to the same sum.
    shift: f64,
    counts: Vec<u32>,
    /// What it follows: the clock that ended last, and the level in which that began.
    below: Vec<(usize, usize)>,
    /// What there is at its beginning, by state: of it what begins a clock right there, and what had to end for that.
    start: Vec<f64>,
    begun: Vec<f64>,
    ended: Vec<f64>,
    /// Where clocks may begin in it at any time.
    begins: Vec<bool>,
}

/// Sums by level and step, from which the value at any time until the last follows.
pub(super) struct Cascade {
    rate: f64,
    /// Multiplications that it took, about.
    pub(super) work: f64,
    levels: Vec<f64>,
    /// For each reward and each level whether it counts what ends right at its beginning.
    bursts: Vec<Vec<bool>>,
    /// For each reward, each level and each step what it adds, and how much was added up for it.
    sums: Vec<Vec<Vec<(f64, f64)>>>,
}

impl Cascade {
    /// The cascade for some rewards until a time. `None` where that takes too much.
    pub(super) fn new(
        system: &System<'_>,
        courses: &[Course],
        rewards: &[Reward],
        until: f64,
        budget: &mut Budget<'_>,
    ) -> Result<Option<Self>, Refusal> {
        let states = system.runs.len();
        let Some(levels) = levels(system, courses, until, budget)? else { return Ok(None) };
        let fastest = (0..states).map(|state| system.chain.exit(state)).fold(0.0, f64::max);
        let rate = fastest.max(1.0 / until).min(f64::MAX);
        let steps = rate * until + 40.0 * (rate * until).sqrt() + 200.0;
        let ends: usize = courses.iter().map(|course| course.ends.len()).sum();
        #[expect(clippy::cast_precision_loss, reason = "an estimate of work")]
        let (work, kept) = {
            let each = (system.chain.edges() + ends + (3 + 2 * rewards.len()) * states) as f64;
            (steps * levels.len() as f64 * each, steps * (levels.len() * rewards.len() * 2) as f64)
        };
        if work > WORK || kept > KEPT {
            return Ok(None);
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "compared with `KEPT` just above")]
        budget.bytes((levels.len() * states * 48) as u64 + kept as u64 * 8)?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "work is bounded just above")]
        let steps = steps as usize;
        let mut sums = vec![vec![Vec::with_capacity(steps); levels.len()]; rewards.len()];
        let mut now: Vec<Vec<f64>> = levels.iter().map(|level| level.start.clone()).collect();
        let mut begins = vec![vec![0.0; states]; levels.len()];
        let (mut ends, mut gains) = (vec![0.0; states], vec![0.0; states]);
        let mut looked = 0.0;
        for step in 0..steps {
            for (index, level) in levels.iter().enumerate() {
                ends.fill(0.0);
                for (clock, below) in &level.below {
                    follow(system, courses, *clock, &begins[*below], &mut ends);
                }
                let (begins, here) = (&mut begins[index], &mut now[index]);
                begins.fill(0.0);
                gains.fill(0.0);
                for (state, share) in here.iter().enumerate().filter(|(_, share)| **share != 0.0) {
                    gains[state] -= share * system.chain.exit(state);
                    for (to, moves) in system.chain.row(state) {
                        gains[to] += share * moves;
                        if system.begins(state, to) {
                            begins[to] += share * moves;
                        }
                    }
                }
                lead(system, &ends, &mut gains, begins);
                for (reward, sums) in rewards.iter().zip(&mut sums) {
                    sums[index].push(reward.of(here, &ends));
                }
                here.iter_mut().zip(&gains).for_each(|(here, gain)| *here += gain / rate);
            }
            #[expect(clippy::cast_precision_loss, reason = "an estimate of work")]
            let done = work / steps as f64;
            looked += done;
            if looked > 1e6 {
                looked = 0.0;
                budget.look(Progress::Solving { sweeps: step as u64, error: 1.0 })?;
            }
        }
        let bursts = |reward: &Reward| {
            let counts =
                |level: &Level| level.ended.iter().zip(&reward.ends).any(|(share, worth)| share * worth != 0.0);
            levels.iter().map(counts).collect()
        };
        let bursts = rewards.iter().map(bursts).collect();
        let levels = levels.iter().map(|level| level.shift).collect();
        Ok(Some(Self { rate, work, levels, bursts, sums }))
    }

    /// The value of a reward at a time, by its number.
    pub(super) fn at(&self, reward: usize, time: f64) -> Found {
        let beside = |shift: f64| shift > 0.0 && (shift - time).abs() <= BESIDE * time;
        let (mut value, mut step, mut most, mut burst) = (0.0, 0.0, 0.0, false);
        for (level, shift) in self.levels.iter().enumerate() {
            if *shift > time && !beside(*shift) {
                continue;
            }
            let (sum, all) = self.added(reward, level, (time - shift).max(0.0));
            most += all;
            value += sum;
            if beside(*shift) {
                burst |= self.bursts[reward][level];
                // Not what it has come to since then.
                step += self.sums[reward][level].first().map_or(0.0, |(start, _)| *start);
            }
        }
        let off = self.off(time, most);
        if burst {
            Found::Burst
        } else if step.abs() > (STEP * value.abs()).max(off) {
            // No 0 with a sign.
            Found::Step((value - step).max(0.0) + 0.0, value.max(0.0) + 0.0)
        } else {
            Found::Value(value, off)
        }
    }

    /// The value just behind a time, whether there is a step or not, and how far it may be off.
    pub(super) fn behind(&self, reward: usize, time: f64) -> (f64, f64) {
        let (mut value, mut most) = (0.0, 0.0);
        for (level, shift) in self.levels.iter().enumerate().filter(|(_, shift)| **shift <= time) {
            let (sum, all) = self.added(reward, level, time - shift);
            value += sum;
            most += all;
        }
        (value, self.off(time, most))
    }

    /// What a level adds so long after its beginning, and how much was added up for it.
    fn added(&self, reward: usize, level: usize, time: f64) -> (f64, f64) {
        let weights = poisson(self.rate * time, CUT);
        let steps = self.sums[reward][level].iter().skip(weights.first);
        weights
            .weights
            .iter()
            .zip(steps)
            .fold((0.0, 0.0), |(value, most), (weight, (sum, all))| (value + weight * sum, most + weight * all))
    }

    /// What rounding may do: each step rounds what it adds up, and some of that goes on to the next.
    fn off(&self, time: f64, most: f64) -> f64 {
        most * (4.0 * f64::EPSILON * (1.0 + self.rate * time).sqrt() + 1e-15)
    }
}

impl Reward {
    /// What it sums up to, and how much was added up for it.
    fn of(&self, here: &[f64], ends: &[f64]) -> (f64, f64) {
        let (mut sum, mut all) = (0.0, 0.0);
        for (share, worth) in here.iter().zip(&self.states).chain(ends.iter().zip(&self.ends)) {
            sum += share * worth;
            all += (share * worth).abs();
        }
        (sum, all)
    }
}

/// Adds to `ends` where the times of one clock end that began as `begun` says.
fn follow(system: &System<'_>, courses: &[Course], clock: usize, begun: &[f64], ends: &mut [f64]) {
    for (state, share) in begun.iter().enumerate() {
        if *share != 0.0 && system.runs[state] == Some(clock) {
            courses[state].ends.iter().for_each(|(end, part)| ends[*end as usize] += share * part);
        }
    }
}

/// Takes `ends` from the states in which clocks end to where these ends lead, which may begin clocks.
fn lead(system: &System<'_>, ends: &[f64], gains: &mut [f64], begins: &mut [f64]) {
    for (state, share) in ends.iter().enumerate().filter(|(_, share)| **share != 0.0) {
        let Some(clock) = system.clock(state) else { continue };
        gains[state] -= share;
        for (to, part) in clock.leads(state) {
            gains[to] += share * part;
            if system.runs[to].is_some() {
                begins[to] += share * part;
            }
        }
    }
}

/// The functions that begin until `until` and may be more than nothing, each behind those that it follows. `None` when there are too many.
fn levels(
    system: &System<'_>,
    courses: &[Course],
    until: f64,
    budget: &mut Budget<'_>,
) -> Result<Option<Vec<Level>>, Refusal> {
    let states = system.runs.len();
    let until = until * (1.0 + 2.0 * BESIDE);
    let mut first = Level::new(0.0, vec![0; system.clocks.len()], states);
    for (state, share) in system.initial {
        let state = *state as usize;
        first.start[state] += share;
        if system.runs[state].is_some() {
            first.begun[state] += share;
        }
    }
    // Those to come by the time at which they begin: whatever ended before, what begins at one time is one.
    let mut open = vec![first];
    let mut levels: Vec<Level> = Vec::new();
    while let Some(mut level) = open.pop() {
        level.fill(system, courses, &levels);
        for (clock, it) in system.clocks.iter().enumerate() {
            let begins = (0..states).any(|state| level.begins[state] && system.runs[state] == Some(clock));
            if !begins || level.shift + it.delay > until {
                continue;
            }
            let mut counts = level.counts.clone();
            counts[clock] += 1;
            // Not step by step: what is rounded would add up.
            let shift = counts.iter().zip(&system.clocks).map(|(count, it)| f64::from(*count) * it.delay).sum::<f64>();
            // The next one stands last.
            let at = open.partition_point(|other| other.shift > shift * (1.0 + SAME));
            if open.get(at).is_none_or(|other| other.shift < shift * (1.0 - SAME)) {
                if levels.len() + open.len() + 1 >= LEVELS || (levels.len() + open.len()) * states > SHARES {
                    return Ok(None);
                }
                open.insert(at, Level::new(shift, counts, states));
            }
            open[at].below.push((clock, levels.len()));
        }
        levels.push(level);
        budget.look(Progress::Solving { sweeps: levels.len() as u64, error: 1.0 })?;
    }
    Ok(Some(levels))
}

impl Level {
    fn new(shift: f64, counts: Vec<u32>, states: usize) -> Self {
        Self {
            shift,
            counts,
            below: Vec::new(),
            start: vec![0.0; states],
            begun: vec![0.0; states],
            ended: vec![0.0; states],
            begins: vec![false; states],
        }
    }

    /// What there is at its beginning, and where clocks may begin in it, from the levels below.
    fn fill(&mut self, system: &System<'_>, courses: &[Course], done: &[Self]) {
        let mut open: Vec<usize> = Vec::new();
        let mut ends = vec![false; self.start.len()];
        for (clock, below) in &self.below {
            follow(system, courses, *clock, &done[*below].begun, &mut self.ended);
            for state in (0..ends.len()).filter(|it| done[*below].begins[*it] && system.runs[*it] == Some(*clock)) {
                courses[state].ends.iter().for_each(|(end, _)| ends[*end as usize] = true);
            }
        }
        lead(system, &self.ended, &mut self.start, &mut self.begun);
        for state in (0..ends.len()).filter(|state| ends[*state]) {
            open.push(state);
            for (to, _) in system.clock(state).into_iter().flat_map(|clock| clock.leads(state)) {
                open.push(to);
                self.begins[to] |= system.runs[to].is_some();
            }
        }
        for state in 0..self.start.len() {
            self.begins[state] |= self.begun[state] != 0.0;
            if self.start[state] != 0.0 {
                open.push(state);
            }
        }
        let mut seen = vec![false; self.start.len()];
        while let Some(state) = open.pop() {
            if !std::mem::replace(&mut seen[state], true) {
                for (to, _) in system.chain.row(state) {
                    self.begins[to] |= system.begins(state, to);
                    open.push(to);
                }
            }
        }
    }
}
