//! A fixed time stands for ever more exponential phases: what their values say of infinitely many, and how far that may be off.
//!
//! Where a value is a smooth function of the fixed time, the error falls with one over the number of phases, so twice a value less the one of
//! half as many phases is far closer. That does not hold near a time at which something happens with certainty or with some
//! probability: there values of few phases agree with each other and with nothing else. So what is asked about a time has to be seen falling
//! in this way, and is not answered next to a time at which a fixed time that began at 0 may end.

use super::solution::Solution;
use super::{Ask, Question};
use crate::net::{Kind, Net, Transition};
use crate::{Budget, Refusal};

/// What one step to twice as many phases leaves of the step before, where the error falls with one over their number: a half, about.
const HALF: std::ops::RangeInclusive<f64> = 0.35..=0.65;
/// Steps that are nothing beside the value.
const NOTHING: f64 = 1e-7;
/// Fixed times in a row that are followed, and jumps that are kept.
const IN_A_ROW: u32 = 64;
const JUMPS: usize = 4_096;
/// Fixed times that may have ended by a time that is asked about: with more of them in a row, phases lose the step that fixed times keep,
/// and what they agree on is the mean over a round.
const STEPS: f64 = 25.0;
/// What is left of the net's way through fixed times by then, where that does not matter any more.
const LEFT: f64 = 1e-6;
/// Between the times that most phases say and those that are, where a time is asked for: the least that is told, in steps.
const SOUGHT: f64 = 10.0;
/// How close a time may be to a jump, in standard deviations of so many phases: nearer by, values of different numbers of phases are alike.
const NEAR: f64 = 0.25;
/// What of the last steps a value at a time may be off at least: that two carried values are alike may be chance.
const CHANCE: f64 = 0.2;
/// Within so many standard deviations of a jump values bend, and their error falls with the root of the number of phases. Steps may look as
/// if it fell faster: there a value is believed to so many of the last ones, and a derivative, which bends more, to four times as many.
const BENT: f64 = 4.0;
const BELIEVED: f64 = 2.0;
const BELIEVED_OF_SLOPES: f64 = 8.0;

/// A time at which something may happen with some probability, and how many fixed times add up to its variance: the sum of their squares.
#[derive(Debug, Clone, Copy)]
pub(super) struct Jump {
    time: f64,
    squares: f64,
}

/// The fixed times of a net.
pub(super) fn delays(net: &Net) -> Vec<f64> {
    net.transitions().iter().filter_map(delay).collect()
}

fn delay(it: &Transition) -> Option<f64> {
    if let Kind::Deterministic { delay } = it.kind { Some(delay) } else { None }
}

/// Times at which fixed times end that begin at time 0, and others behind them.
pub(super) fn jumps(net: &Net, solution: &Solution) -> Vec<Jump> {
    let all = delays(net);
    let mut tokens = vec![0; solution.space.places()];
    let mut now: Vec<Jump> = Vec::new();
    for (state, _) in solution.space.initial() {
        solution.load(*state as usize, &mut tokens);
        let enabled = |it: &&Transition| {
            it.inputs.iter().all(|arc| tokens[arc.place] >= arc.count)
                && it.inhibitors.iter().all(|arc| tokens[arc.place] < arc.count)
        };
        let begun = net.transitions().iter().filter(enabled).filter_map(delay);
        now.extend(begun.map(|delay| Jump { time: delay, squares: delay * delay }));
    }
    let mut jumps: Vec<Jump> = Vec::new();
    for _ in 0..IN_A_ROW {
        now.sort_by(|one, other| one.time.total_cmp(&other.time));
        now.dedup_by(|later, kept| (later.time - kept.time).abs() <= 1e-12 * kept.time);
        jumps.extend(&now);
        if jumps.len() > JUMPS || now.is_empty() {
            break;
        }
        let next = now.iter().flat_map(|jump| {
            all.iter().map(|delay| Jump { time: jump.time + delay, squares: jump.squares + delay * delay })
        });
        now = next.take(JUMPS).collect();
    }
    jumps.truncate(JUMPS);
    jumps
}

/// The points in time, and their questions by number, of which phases cannot tell: so late that more than [`STEPS`] fixed times may have
/// ended, while some still run.
pub(super) fn late(
    net: &Net,
    asks: &[Ask],
    solution: &mut Solution,
    budget: &mut Budget<'_>,
) -> Result<Vec<usize>, Refusal> {
    let fixed: Vec<(&Transition, f64)> = net
        .transitions()
        .iter()
        .filter_map(|it| if let Kind::Deterministic { delay } = it.kind { Some((it, delay)) } else { None })
        .collect();
    let least = fixed.iter().map(|(_, delay)| *delay).filter(|delay| *delay > 0.0).fold(f64::INFINITY, f64::min);
    let runs = |tokens: &[u64]| {
        let enabled = fixed.iter().any(|(it, _)| {
            it.inputs.iter().all(|arc| tokens[arc.place] >= arc.count)
                && it.inhibitors.iter().all(|arc| tokens[arc.place] < arc.count)
        });
        if enabled { 1.0 } else { 0.0 }
    };
    let mut late = Vec::new();
    let mut reward = None;
    for (index, ask) in asks.iter().enumerate() {
        let When::At(time) = asked(&ask.question) else { continue };
        if time <= STEPS * least {
            continue;
        }
        let reward = reward.get_or_insert_with(|| solution.map(runs));
        solution.make_room(time.to_bits(), budget);
        if solution.mean(Some(time), reward, budget)? > LEFT {
            late.push(index);
        }
    }
    Ok(late)
}

/// What a value is with infinitely many phases, and how far that may be off, relatively; `values` are those of ever twice as many
/// phases, `stages` the last number of them.
/// `delays` are the fixed times of the net.
pub(super) fn carried(question: &Question, values: &[f64], stages: u32, jumps: &[Jump], delays: &[f64]) -> (f64, f64) {
    let [.., before, last] = values else { return (f64::NAN, f64::INFINITY) };
    let when = asked(question);
    if matches!(when, When::At(_)) && vanishes(*before, *last) {
        return (0.0, 0.0);
    }
    // Not twice the last less the one before: that may be more than a number can say.
    let limit = |before: f64, last: f64| last + (last - before);
    let found = limit(*before, *last);
    let [.., earlier, _, _] = values else { return (found, f64::INFINITY) };
    let earlier = limit(*earlier, *before);
    let error = if found == earlier { 0.0 } else { ((found - earlier) / found).abs() };
    let share = matches!(question, Question::Probability { .. } | Question::InitialProbability { .. });
    // Values that fall towards 0 too fast for this lead below it, and what they say of each other is nothing.
    let astray = found < 0.0 && !matches!(question, Question::Sensitivity { .. });
    let (least, factor) = match when {
        _ if astray => (0.0, f64::INFINITY),
        When::Ever => (0.0, 1.0),
        When::At(time) => {
            let deviation = |jump: &Jump| (jump.squares / f64::from(stages)).sqrt();
            let beside = |most: f64| jumps.iter().any(|jump| (time - jump.time).abs() <= most * deviation(jump));
            if time > 0.0 && beside(NEAR) || !falls(values) {
                (0.0, f64::INFINITY)
            } else {
                let slope = matches!(question, Question::Sensitivity { .. });
                let believed = if slope { BELIEVED_OF_SLOPES } else { BELIEVED };
                let part = if time > 0.0 && beside(BENT) { believed } else { CHANCE };
                (part * left(values) / found.abs(), 1.0)
            }
        }
        When::Sought => (0.0, SOUGHT * slow(values)),
    };
    let error = error.max(least);
    let error = if error == 0.0 && factor.is_finite() { 0.0 } else { error.max(f64::MIN_POSITIVE) * factor };
    // Between two ends of a clock nothing may happen, and of that phases know nothing: the time may be anywhere in a round.
    let round = match when {
        When::Sought => delays.iter().fold(0.0_f64, |most, delay| most.max(delay / found)),
        _ => 0.0,
    };
    let error = error.max(round);
    (if share { found.clamp(0.0, 1.0) } else { found }, error)
}

/// Whether what cannot be yet at some time is left: with twice as many phases it is the square, about.
fn vanishes(before: f64, last: f64) -> bool {
    (0.0..1e-30).contains(&last) && last <= before.powf(1.7)
}

/// What a question has to do with time.
enum When {
    Ever,
    At(f64),
    /// A time is asked for.
    Sought,
}

fn asked(question: &Question) -> When {
    match question {
        Question::MeanTokens { at: Some(at), .. }
        | Question::Probability { at: Some(at), .. }
        | Question::Throughput { at: Some(at), .. } => When::At(*at),
        Question::PassageQuantile { .. } => When::Sought,
        Question::Sensitivity { of, .. } => asked(of),
        _ => When::Ever,
    }
}

/// Whether a question asks about a time.
pub(super) fn has_time(ask: &Ask) -> bool {
    matches!(asked(&ask.question), When::At(_))
}

/// Steps from value to value, the last three.
fn steps(values: &[f64]) -> Option<[f64; 3]> {
    let [.., a, b, c, d] = values else { return None };
    Some([b - a, c - b, d - c])
}

/// Whether the last steps fall as the error of one over the number of phases does, or there are none.
fn falls(values: &[f64]) -> bool {
    let Some(steps) = steps(values) else { return false };
    let size = values.last().map_or(0.0, |last| last.abs());
    steps.iter().all(|step| step.abs() <= NOTHING * size.max(NOTHING))
        || steps.windows(2).all(|pair| HALF.contains(&(pair[1] / pair[0])))
}

/// What the last steps leave, were each from now on smaller by the root of two only.
fn left(values: &[f64]) -> f64 {
    let root = std::f64::consts::FRAC_1_SQRT_2;
    steps(values).map_or(f64::INFINITY, |[first, before, last]| {
        last.abs().max(root * before.abs()).max(root * root * first.abs())
    })
}

/// How much further than its last step a value still goes, where steps fall more slowly than by a half: with the root of the number of
/// phases at a time that is fixed.
fn slow(values: &[f64]) -> f64 {
    let Some([_, before, last]) = steps(values) else { return f64::INFINITY };
    let part = if last == 0.0 { 0.0 } else { (last / before).abs() };
    if part < 0.9 { (part / (1.0 - part)).max(1.0) } else { f64::INFINITY }
}
