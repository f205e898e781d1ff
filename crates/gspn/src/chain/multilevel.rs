//! Multilevel aggregation (Takahashi; Horton, Leutenegger): what sweeps settle slowly is settled between groups of states, and
//! groups of groups.
//!
//! A group takes part in the chain of groups with the rates that its states have on the whole, and hands its new weight down to
//! them. Only sums, products and quotients of numbers above 0 occur: rates that are far apart cost no digits, and neither do groups
//! that hardly know of each other. Whether it settled is seen from the changes; where groups are nearly apart it is solved
//! from another start, too, and both must agree; else what flows between groups must balance (`basins`), and where it does not, the
//! cycles go on with groups that are each of one side.

use super::ahead::{Course, Past, WINDOW};
use super::basins::{Between, between};
use super::level::{Groups, Level, NOTHING, together};
use super::solve::{Component, normalize, sum};
use crate::Refusal;
use crate::{Budget, Progress};

/// States that are solved directly.
const DIRECT: usize = 120;
/// Estimated relative error of a state at which the cycles end, up to [`MANY`] states and beyond.
const CLOSE: f64 = 1e-12;
const MANY: usize = 100_000;
const CLOSE_ENOUGH: f64 = 1e-10;
/// Relative change of a state from cycle to cycle that may be rounding: where it falls no more.
const ROUNDED: f64 = 1e-11;
/// Cycles.
const MOST: usize = 400;
/// Groups are made anew in each of the first cycles and then every so many: with better weights the flows are known better.
const ANEW: usize = 6;
/// What all levels but the first may have of its edges and states: groups may lead to ever more others.
const MORE: usize = 2;
/// States from which on the clock is looked at within a cycle.
const LONG: usize = 100_000;
/// Cycles after which a change that is still more than this is slow: weights that fall over a long way. Then groups are made otherwise and
/// are taken twice as far as their chain says, because what is wrong within them hides half of what is wrong between; but not for ever.
const PATIENT: usize = 18;
const SLOW: f64 = 0.1;
const FARTHER: usize = 120;
/// How far two solutions may be apart, relatively and state by state.
const AGREE: f64 = 1e-9;
/// How often the cycles go on because groups that hardly know of each other do not balance.
const AGAIN: usize = 8;
/// What states have that matter to most questions: with less, a state among [`MANY`] counts as if it had so much where that is enough.
const COMMON: f64 = 1e-30;
/// What states count for at least meanwhile: those that matter are to be reached from each other by way of such.
const RARE: f64 = 1e-40;
/// After so many cycles the states that have more than this are solved by themselves first, where they are few: that is hardly more than
/// they will have in the end.
const EARLY: usize = 8;
const CORE: f64 = 1e-100;

/// The stationary distribution; `None` when the cycles do not settle. With `twice` it is solved from two starts.
pub(super) fn stationary(level: &Level<'_>, twice: bool, budget: &mut Budget<'_>) -> Result<Option<Vec<f64>>, Refusal> {
    let found = above(level, NOTHING, twice, budget)?;
    Ok(found.filter(|weights| together(&level.starts, &level.sources, weights, [NOTHING; 2])))
}

/// The same where it is enough that rare states are right to as much as this times what others are right to relatively; nothing where all
/// are.
pub(super) fn commonly_stationary(
    level: &Level<'_>,
    budget: &mut Budget<'_>,
) -> Result<Option<(Vec<f64>, f64)>, Refusal> {
    if level.len() <= MANY {
        return Ok(stationary(level, false, budget)?.map(|weights| (weights, 0.0)));
    }
    let Some(weights) = above(level, RARE, false, budget)? else { return Ok(None) };
    if weights.iter().all(|weight| *weight >= COMMON) {
        return Ok(Some((weights, 0.0)));
    }
    if together(&level.starts, &level.sources, &weights, [RARE, COMMON]) {
        return Ok(Some((weights, COMMON)));
    }
    Ok(settled(level, weights, budget)?.map(|weights| (weights, 0.0)))
}

/// The stationary distribution from weights of which those of common states are right.
pub(super) fn settled(
    level: &Level<'_>,
    weights: Vec<f64>,
    budget: &mut Budget<'_>,
) -> Result<Option<Vec<f64>>, Refusal> {
    let found = balanced(level, weights, NOTHING, budget)?;
    Ok(found.filter(|found| together(&level.starts, &level.sources, found, [NOTHING; 2])))
}

/// The same, where states that have less than `least` count as if they had so much.
fn above(level: &Level<'_>, least: f64, twice: bool, budget: &mut Budget<'_>) -> Result<Option<Vec<f64>>, Refusal> {
    // The chain twice, the chains of groups, and some vectors.
    budget.bytes((level.sources.len() * 50 + level.len() * 200) as u64)?;
    #[expect(clippy::cast_precision_loss, reason = "fewer than 2^32")]
    let start = vec![1.0 / level.len() as f64; level.len()];
    if !twice {
        return balanced(level, start, least, budget);
    }
    #[expect(clippy::cast_precision_loss, reason = "fewer than 2^32")]
    let other = (0..level.len()).map(|state| 1.0 / (state + 1) as f64).collect();
    let Some(found) = from(level, start, least, &[], budget)? else { return Ok(None) };
    let Some(other) = from(level, other, least, &[], budget)? else { return Ok(None) };
    let agree = |(one, other): (&f64, &f64)| (one - other).abs() <= AGREE * one.max(least);
    Ok(found.iter().zip(&other).all(agree).then_some(found))
}

/// Where the cycles lead from `weights` once groups that hardly know of each other balance.
fn balanced(
    level: &Level<'_>,
    weights: Vec<f64>,
    least: f64,
    budget: &mut Budget<'_>,
) -> Result<Option<Vec<f64>>, Refusal> {
    let (mut weights, mut sides) = (weights, Vec::new());
    for _ in 0..AGAIN {
        match from(level, weights, least, &sides, budget)? {
            Some(found) => weights = found,
            None => return Ok(None),
        }
        match between(level, &weights, least, budget)? {
            Between::Balanced => return Ok(Some(weights)),
            Between::Apart(of) => sides = of,
            Between::Many => return Ok(None),
        }
    }
    Ok(None)
}

/// Where the cycles lead from `weights`, with groups each of one side, where it is said what side each state is of.
fn from(
    level: &Level<'_>,
    mut weights: Vec<f64>,
    least: f64,
    sides: &[u32],
    budget: &mut Budget<'_>,
) -> Result<Option<Vec<f64>>, Refusal> {
    let close = if level.len() > MANY { CLOSE_ENOUGH } else { CLOSE };
    let mut groups = Vec::new();
    let (mut past, mut course) = (Past::default(), Course::default());
    // The last changes, the latest first, and by what they fell from cycle to cycle.
    let (mut changes, mut falls) = (Vec::new(), Vec::new());
    // Whether groups are taken farther, whether they may be, and what there was before they were.
    let (mut farther, mut may_go, mut turn) = (false, true, None);
    for cycle in 0..MOST {
        let slow = cycle == PATIENT && changes.first().is_some_and(|it| *it > SLOW);
        farther = may_go && cycle < FARTHER && (farther || slow);
        if slow {
            turn = Some(weights.clone());
        }
        if cycle < ANEW || farther && cycle < PATIENT + ANEW || cycle.is_multiple_of(ANEW) {
            groups.clear();
        }
        if cycle == EARLY && least >= RARE && sides.is_empty() && core(level, &mut weights, budget)? {
            (past, course) = (Past::default(), Course::default());
            (changes, falls) = (Vec::new(), Vec::new());
        }
        let before = weights.clone();
        let far = Progress::Solving { sweeps: cycle as u64, error: changes.first().copied().unwrap_or(1.0) };
        cycle_over(level, &mut weights, &mut groups, (farther, sides), far, budget)?;
        normalize(&mut weights);
        let change = weights.iter().zip(&before).fold(0.0_f64, |most, (now, before)| {
            let size = now.max(least);
            if size > 0.0 && !now.is_nan() { most.max((now - before).abs() / size) } else { f64::INFINITY }
        });
        // Weights that all fell below what a number can say do not change any more, and are no solution.
        let lost = weights.iter().all(|weight| *weight <= 0.0);
        if lost || change.is_infinite() && cycle > ANEW {
            let Some(before) = turn.take().filter(|_| farther) else { return Ok(None) };
            // Groups that were taken farther led nowhere: it goes on from before that.
            (weights, may_go) = (before, false);
            (past, course) = (Past::default(), Course::default());
            (changes, falls) = (Vec::new(), Vec::new());
            continue;
        }
        if !past.is_empty() || !course.is_empty() {
            falls.insert(0, change / changes[0]);
            falls.truncate(3 * WINDOW);
        }
        changes.insert(0, change);
        changes.truncate(2 * WINDOW);
        // What is left falls as slowly as the changes did.
        let fall = falls.iter().copied().fold(0.5, f64::max).min(0.999);
        let error = change * fall / (1.0 - fall);
        budget.look(Progress::Solving { sweeps: cycle as u64, error })?;
        let rounded =
            change < ROUNDED && changes.len() == 2 * WINDOW && changes.iter().all(|earlier| change > 0.7 * earlier);
        if (falls.len() > WINDOW && error < close) || change == 0.0 || rounded {
            return Ok(Some(weights));
        }
        if farther {
            course.ahead(&before, &mut weights, least.min(NOTHING));
            normalize(&mut weights);
        } else if let Some(ahead) = past.ahead(&before, &weights, least.min(NOTHING)) {
            weights = ahead;
            normalize(&mut weights);
        }
    }
    Ok(None)
}

/// Solves the states of which most have more than [`CORE`] as if there were no others, where they are few; whether they were solved.
fn core(level: &Level<'_>, weights: &mut [f64], budget: &mut Budget<'_>) -> Result<bool, Refusal> {
    let states = level.likely(weights, CORE);
    if states.len() < DIRECT || 2 * states.len() > level.len() {
        return Ok(false);
    }
    let mut start: Vec<f64> = states.iter().map(|state| weights[*state as usize]).collect();
    normalize(&mut start);
    let Some(found) = from(&level.inner(&states), start, RARE, &[], budget)? else { return Ok(false) };
    states.iter().zip(found).for_each(|(state, weight)| weights[*state as usize] = weight);
    normalize(weights);
    Ok(true)
}

/// One cycle on `level`: sweeps, the groups twice, sweeps; `farther` takes the groups twice as far as their chain says, and where it is said
/// what side each state is of, a group has those of one. `groups` holds those of each depth, and is filled where it is short. Of millions of states a cycle takes seconds, so the clock is looked at on its way;
/// `far` is how far the cycles have come.
pub(super) fn cycle_over(
    level: &Level<'_>,
    weights: &mut [f64],
    groups: &mut Vec<Groups>,
    (farther, sides): (bool, &[u32]),
    far: Progress,
    budget: &mut Budget<'_>,
) -> Result<(), Refusal> {
    let room = MORE * (level.sources.len() + level.len());
    descend(level, weights, groups, (0, room, farther), sides, &mut |states| {
        if states > LONG { budget.look(far) } else { Ok(()) }
    })
}

/// The same at a depth, where the levels below may have so many edges and states: what is beyond is left to sweeps. `look` is asked before
/// each part of the work, with the number of states.
fn descend(
    level: &Level<'_>,
    weights: &mut [f64],
    groups: &mut Vec<Groups>,
    (depth, room, farther): (usize, usize, bool),
    sides: &[u32],
    look: &mut dyn FnMut(usize) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    if level.len() <= DIRECT {
        level.eliminate(weights);
        return Ok(());
    }
    for backward in [false, true] {
        look(level.len())?;
        level.sweep(weights, backward);
    }
    if groups.len() == depth {
        look(level.len())?;
        groups.push(level.group(weights, farther, sides));
    }
    let here = std::mem::take(&mut groups[depth]);
    if here.len() < level.len() {
        look(level.len())?;
        let coarse = level.coarse(&here, weights);
        if let Some(room) = room.checked_sub(coarse.sources.len() + coarse.len()) {
            let before = here.sums(weights);
            let mut now = before.clone();
            let (below, sides) = ((depth + 1, room, farther), here.sides(sides));
            descend(&coarse, &mut now, groups, below, &sides, look)?;
            if (depth > 0 || farther) && coarse.len() > DIRECT && 2 * coarse.len() < level.len() {
                descend(&coarse, &mut now, groups, below, &sides, look)?;
            }
            if farther {
                normalize(&mut now);
            }
            here.scale(weights, &before, &now, farther);
        }
    }
    groups[depth] = here;
    for backward in [false, true] {
        look(level.len())?;
        level.sweep(weights, backward);
    }
    Ok(())
}

/// Time spent in each state of `component` when `inflow`, which is not below 0, comes in from outside and all of it leaves in the
/// end; `None` when it does not settle.
///
/// What leaves comes in again: then the times are the weights of a chain without an exit. Where `end` names a state, it stands for
/// the outside: what enters it has left.
pub(super) fn occupancy(
    component: &Component<'_>,
    inflow: &[f64],
    end: Option<usize>,
    twice: bool,
    budget: &mut Budget<'_>,
) -> Result<Option<Vec<f64>>, Refusal> {
    let count = component.nodes.len();
    let outside = end.unwrap_or(count);
    let total = sum(inflow.iter().enumerate().filter(|(state, _)| *state != outside).map(|(_, inflow)| *inflow));
    if total == 0.0 {
        return Ok(Some(vec![0.0; count]));
    }
    let exits = component.nodes.iter().map(|node| component.chain.exit(*node as usize));
    #[expect(clippy::cast_precision_loss, reason = "fewer than 2^32")]
    let again = sum(exits) / count as f64;
    let edges = component.edges() + 2 * count;
    let own = (12 * (edges + count)) as u64;
    budget.bytes(component.bytes() + own)?;
    let budget = &mut budget.beside(own);
    let level = returning(component, inflow, (outside, edges), again / total);
    // However little time is spent in a state, it may be much against what is spent outside.
    let Some(mut weights) = above(&level, 0.0, twice, budget)? else { return Ok(None) };
    // The outside is left `again` times a time unit, and each time `total` comes in.
    let unit = total / (weights[outside] * again);
    weights.iter_mut().for_each(|weight| *weight *= unit);
    weights.truncate(count);
    if let Some(end) = end {
        weights[end] = 0.0;
    }
    Ok(Some(weights))
}

/// The chain of a component in which what leaves, or enters `outside`, comes in again with the rates `inflow` times `factor`. It has no more
/// than `most` edges.
fn returning(
    component: &Component<'_>,
    inflow: &[f64],
    (outside, most): (usize, usize),
    factor: f64,
) -> Level<'static> {
    let count = component.nodes.len();
    let mut starts = Vec::with_capacity(count + 2);
    starts.push(0_u32);
    let (mut sources, mut rates) = (Vec::with_capacity(most), Vec::with_capacity(most));
    let mut exits = Vec::with_capacity(count + 1);
    #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
    for (local, node) in component.nodes.iter().enumerate() {
        for (from, rate) in component.incoming.column(*node as usize) {
            if let Some(from) = component.local(from).filter(|from| *from != outside) {
                sources.push(from as u32);
                rates.push(rate);
            }
        }
        if local != outside && inflow[local] > 0.0 {
            sources.push(outside as u32);
            rates.push(inflow[local] * factor);
        }
        starts.push(sources.len() as u32);
        exits.push(component.chain.exit(*node as usize));
    }
    let total =
        sum(inflow.iter().enumerate().filter(|(state, _)| *state != outside).map(|(_, inflow)| inflow * factor));
    if outside < count {
        exits[outside] = total;
    } else {
        for (local, node) in component.nodes.iter().enumerate() {
            let onward = component.chain.row(*node as usize).filter(|(to, _)| component.local(*to).is_none());
            let leaves: f64 = onward.map(|(_, rate)| rate).sum();
            if leaves > 0.0 {
                #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
                sources.push(local as u32);
                rates.push(leaves);
            }
        }
        #[expect(clippy::cast_possible_truncation, reason = "no more edges than states and edges")]
        starts.push(sources.len() as u32);
        exits.push(total);
    }
    Level { starts: starts.into(), sources: sources.into(), rates: rates.into(), exits: exits.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    /// A ring in which each state has the same weight.
    fn ring(states: u32) -> Level<'static> {
        let sources: Vec<u32> = (0..states).map(|state| (state + states - 1) % states).collect();
        let ones = vec![1.0; sources.len()];
        let starts: Vec<u32> = (0..=states).collect();
        Level { starts: starts.into(), sources: sources.into(), rates: ones.clone().into(), exits: ones.into() }
    }

    /// How often a cycle looks at the clock, which says stop at the last of so many looks.
    fn looks(states: u32, last: usize) -> (usize, bool) {
        let level = ring(states);
        let (mut weights, mut looks) = (vec![1.0; level.len()], 0);
        let mut go_on = |_| {
            looks += 1;
            looks < last
        };
        let far = Progress::Solving { sweeps: 0, error: 1.0 };
        let mut budget = Budget::new(Limits::default(), &mut go_on);
        let went = cycle_over(&level, &mut weights, &mut Vec::new(), (true, &[]), far, &mut budget).is_ok();
        (looks, went)
    }

    /// Of many states the clock is looked at before each sweep and each chain of groups, and a cycle ends where it says so.
    #[test]
    fn a_long_cycle_looks_at_the_clock_on_its_way() {
        assert_eq!(looks(1000, usize::MAX), (0, true));
        let (whole, went) = looks(150_000, usize::MAX);
        assert!(went && whole >= 6, "{whole} looks");
        for last in 1..=whole {
            assert_eq!(looks(150_000, last), (last, false));
        }
    }

    /// A walk on a square, one way up at 3 for each 2 down and the other way the reverse: the chain, and its distribution, which is
    /// the product of those of both ways.
    fn square(side: usize) -> (Level<'static>, Vec<f64>) {
        let (mut starts, mut sources, mut rates) = (vec![0], Vec::new(), Vec::new());
        let (mut exits, mut wanted) = (vec![0.0; side * side], Vec::new());
        for (x, y) in (0..side).flat_map(|x| (0..side).map(move |y| (x, y))) {
            let mut from = |there: bool, x: usize, y: usize, rate: f64| {
                if there {
                    sources.push((x * side + y) as u32);
                    rates.push(rate);
                    exits[x * side + y] += rate;
                }
            };
            from(x > 0, x.wrapping_sub(1), y, 3.0);
            from(x + 1 < side, x + 1, y, 2.0);
            from(y > 0, x, y.wrapping_sub(1), 2.0);
            from(y + 1 < side, x, y + 1, 3.0);
            starts.push(sources.len() as u32);
            wanted.push(1.5_f64.powi(x as i32 - y as i32));
        }
        normalize(&mut wanted);
        (Level { starts: starts.into(), sources: sources.into(), rates: rates.into(), exits: exits.into() }, wanted)
    }

    /// Rare states are known as well as common ones once they are settled.
    #[test]
    fn rare_states_are_known_well_once_they_are_settled() {
        let (level, wanted) = square(340);
        let mut go_on = |_| true;
        let mut budget = Budget::new(Limits::default(), &mut go_on);
        let (common, least) = commonly_stationary(&level, &mut budget).unwrap().expect("settled");
        assert_eq!(least, COMMON);
        let off = |found: &[f64], least: f64| {
            let off = found.iter().zip(&wanted).map(|(found, wanted)| (found - wanted).abs() / wanted.max(least));
            off.fold(0.0, f64::max)
        };
        assert!(off(&common, least) < 1e-9, "{:e}", off(&common, least));
        let rare = off(&common, 0.0);
        let whole = settled(&level, common, &mut budget).unwrap().expect("settled");
        assert!(off(&whole, 0.0) < 1e-9 && off(&whole, 0.0) < rare, "{:e} {rare:e}", off(&whole, 0.0));
    }

    /// A walk on a line with two wells beside one on which nothing hangs: the chain, and its distribution.
    fn wells(long: usize, wide: usize) -> (Level<'static>, Vec<f64>) {
        #[expect(clippy::cast_precision_loss, reason = "hundreds")]
        let depth = |x: usize| {
            let at = 2.0 * x as f64 / long as f64 - 1.0;
            60.0 * (2.5 * at * at - 1.0).powi(2) + at
        };
        let (mut starts, mut sources, mut rates) = (vec![0], Vec::new(), Vec::new());
        let (mut exits, mut wanted) = (vec![0.0; long * wide], Vec::new());
        for (x, y) in (0..long).flat_map(|x| (0..wide).map(move |y| (x, y))) {
            let mut from = |there: bool, other: usize, z: usize, rate: &dyn Fn() -> f64| {
                if there {
                    let rate = rate();
                    sources.push((other * wide + z) as u32);
                    rates.push(rate);
                    exits[other * wide + z] += rate;
                }
            };
            from(x > 0, x.wrapping_sub(1), y, &|| ((depth(x - 1) - depth(x)) / 2.0).exp());
            from(x + 1 < long, x + 1, y, &|| ((depth(x + 1) - depth(x)) / 2.0).exp());
            from(y > 0, x, y.wrapping_sub(1), &|| 0.7);
            from(y + 1 < wide, x, y + 1, &|| 1.0);
            starts.push(sources.len() as u32);
            wanted.push((-depth(x)).exp() * 0.7_f64.powi(y as i32));
        }
        normalize(&mut wanted);
        (Level { starts: starts.into(), sources: sources.into(), rates: rates.into(), exits: exits.into() }, wanted)
    }

    /// Two wells that hardly know of each other come to their weights from wrong ones, and over groups of which none reaches over the hill.
    #[test]
    fn wells_come_to_their_weights_over_groups_of_one_side() {
        let (level, wanted) = wells(120, 30);
        let mut go_on = |_| true;
        let mut budget = Budget::new(Limits::default(), &mut go_on);
        let mut wrong = wanted.clone();
        wrong[60 * 30..].iter_mut().for_each(|weight| *weight *= 1e-5);
        // On the hill there is as much as comes from both sides.
        (0..400).for_each(|at| level.sweep(&mut wrong, at % 2 == 0));
        normalize(&mut wrong);
        let Between::Apart(sides) = between(&level, &wrong, NOTHING, &mut budget).unwrap() else {
            panic!("they are seen to be apart")
        };
        assert!(sides[10 * 30] != sides[110 * 30] && sides.iter().all(|side| *side < 4), "{:?}", sides.iter().max());
        for mutual in [false, true] {
            let groups = level.group(&wrong, mutual, &sides);
            let of_groups = groups.sides(&sides);
            let (mut own, ones) = (vec![0.0; level.len()], vec![1.0; level.len()]);
            groups.spread(&mut own, &ones, &of_groups.iter().map(|side| f64::from(*side)).collect::<Vec<f64>>());
            assert!(
                own.iter().zip(&sides).all(|(own, side)| *own == f64::from(*side)) && groups.len() < level.len() / 2
            );
        }
        for found in
            [from(&level, wrong.clone(), NOTHING, &sides, &mut budget), balanced(&level, wrong, NOTHING, &mut budget)]
        {
            let found = found.unwrap().expect("settled");
            assert!(found.iter().zip(&wanted).all(|(found, wanted)| (found - wanted).abs() < 1e-9 * wanted));
        }
    }

    /// Cycles until the distribution of a square is known, which is what detailed balance says.
    fn cycles(side: usize) -> u64 {
        let (level, wanted) = square(side);
        let mut cycles = 0;
        let mut go_on = |far| {
            if let Progress::Solving { sweeps, .. } = far {
                cycles = sweeps;
            }
            true
        };
        let mut budget = Budget::new(Limits::default(), &mut go_on);
        let found = stationary(&level, false, &mut budget).unwrap().expect("settled");
        for (found, wanted) in found.iter().zip(&wanted) {
            assert!((found - wanted).abs() < 1e-9 * wanted, "{found:e} {wanted:e}");
        }
        cycles
    }

    /// Weights that fall over a long way take hardly more cycles the longer it is.
    #[test]
    fn wide_squares_take_about_as_many_cycles_as_narrow_ones() {
        let (narrow, wide) = (cycles(60), cycles(240));
        assert!(wide < 60 && wide < narrow + 20, "{narrow} {wide}");
    }
}
