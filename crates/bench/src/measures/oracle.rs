//! `guard.oracle`: whether the times of a guard's answers tell hidden nodes from missing ones. Client, guard and server are in
//! one process, so that no network blurs what there is to see: an attacker sees less.
//!
//! Of each question 10,000 answers about hidden nodes and 10,000 about missing ones are timed in a random order, and the two
//! samples are held against each other (Kolmogorov, Smirnov). The figure is their distance, in units of the distance that two
//! samples of one distribution exceed once in a hundred times: above 1, p is below 0.01. The same is done with answers about
//! missing nodes held back for a while, as if hidden ones were answered early: that must be seen, or the measure is blind.

use testkit::oracle::{Asked, Asker, Question};

use super::Bench;
use crate::Failed;
use crate::clock::Stopwatch;
use crate::random::Random;
use crate::record::median;
use crate::statistics::{distance, p_value};

/// Answers of each kind.
const SAMPLES: usize = 10_000;
/// Not counted: caches and branch predictors get warm.
const WARM_UP: usize = 1_000;
/// How much earlier hidden nodes are answered in the control, in seconds.
const EARLY: f64 = 20e-6;
/// Kolmogorov's distribution leaves 0.01 above this.
const CRITICAL: f64 = 1.627_6;

/// Times the answers to every question.
///
/// # Errors
/// The control is not seen, or a figure cannot be kept.
pub fn run(bench: &mut Bench) -> Result<(), Failed> {
    let samples = if bench.quick { SAMPLES / 5 } else { SAMPLES };
    for question in Question::ALL {
        let mut random = Random::new(0x6b73);
        let mut figures = Vec::new();
        for run in 0..bench.runs {
            let Compared { figure, p, later } = compare(question, samples, 0.0, &mut random);
            let control = compare(question, samples, EARLY, &mut random).p;
            let name = question.name();
            eprintln!(
                "  {name} run {}: p = {p:.4}, hidden {later:+.0} ns in the median; control p = {control:.2e}",
                run + 1
            );
            if control > 0.01 {
                return Err(format!("an answer that comes 20 us early is not seen (p = {control})").into());
            }
            figures.push(figure);
        }
        let unit = "distance of hidden and missing / distance at p = 0.01";
        bench.alone(&format!("guard.oracle.{}", question.name()), unit, &figures, 1.0, "guard.oracle")?;
    }
    Ok(())
}

/// What two samples say.
struct Compared {
    /// Their distance in units of the critical one.
    figure: f64,
    p: f64,
    /// Nanoseconds by which the median of hidden nodes is later.
    later: f64,
}

fn compare(question: Question, samples: usize, early: f64, random: &mut Random) -> Compared {
    let (hidden, missing) = times(question, samples, early, random);
    let distance = distance(&hidden, &missing);
    let figure = distance * (samples as f64 / 2.0).sqrt() / CRITICAL;
    let later = median(&hidden).zip(median(&missing)).map_or(0.0, |(hidden, missing)| (hidden - missing) * 1e9);
    Compared { figure, p: p_value(distance, samples, samples), later }
}

/// Seconds to the answers about hidden nodes and about missing ones.
fn times(question: Question, samples: usize, early: f64, random: &mut Random) -> (Vec<f64>, Vec<f64>) {
    let mut asker = Asker::new();
    let (mut hidden, mut missing) = (Vec::with_capacity(samples), Vec::with_capacity(samples));
    let kinds = [Asked::Hidden, Asked::Missing];
    let prepared = kinds.map(|asked| [0, 1].map(|which| asker.prepare(question, asked, which)));
    for round in 0..WARM_UP + samples {
        let first = random.below(2) as usize;
        for kind in [first, 1 - first] {
            let request = &prepared[kind][random.below(2) as usize];
            let watch = Stopwatch::start();
            let _answer = asker.exchange(request);
            let mut took = watch.seconds();
            if kinds[kind] == Asked::Missing && early > 0.0 {
                let until = took + early;
                while took < until {
                    took = watch.seconds();
                }
            }
            if round >= WARM_UP {
                [&mut hidden, &mut missing][kind].push(took);
            }
        }
        asker.reached();
    }
    (hidden, missing)
}
