//! What one end loses of its processor without having a part in it: to others on it, and to the other end beside it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cost::calibration::{Step, summary};
use cost::reproduce::here::Pause;

use super::disturb::Disturb;
use super::steps::{BATCHES, step};
use crate::clock::{Stopwatch, Whose};
use crate::{Failed, place, record};

/// A gap in a loop that does nothing but look at the clock, from which on somebody else had the processor.
const GAP: f64 = 1.5e-6;
/// Seconds until the other processor does what it is told to.
const SETTLES: f64 = 1e-3;

/// Times an operation with the other processor at work and without, in turns, and gives the share of speed that is lost meanwhile.
pub(super) fn neighbour(
    seconds: f64,
    processor: usize,
    algorithm: &str,
    op: &mut dyn FnMut() -> Result<(), Failed>,
) -> Result<Vec<Step>, Failed> {
    let (works, ends) = (AtomicBool::new(false), AtomicBool::new(false));
    let shares = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let kept = place::keep_to(processor).map_err(|error| error.to_string());
            let mut disturb = Disturb::new();
            while kept.is_ok() && !ends.load(Ordering::Relaxed) {
                if works.load(Ordering::Relaxed) {
                    disturb.run(Pause::USUAL);
                } else {
                    std::thread::park_timeout(Duration::from_micros(200));
                }
            }
            kept
        });
        let mut shares = Vec::new();
        let found = (0..2 * BATCHES).try_for_each(|_| {
            let mut rate = |busy: bool| {
                works.store(busy, Ordering::Relaxed);
                let settles = Stopwatch::start();
                while settles.seconds() < SETTLES {
                    op()?;
                }
                let (all, mut count) = (Stopwatch::start(), 0.0);
                while count < 3.0 || all.seconds() < seconds / f64::from(4 * BATCHES) {
                    op()?;
                    count += 1.0;
                }
                Ok::<f64, Failed>(count / all.seconds())
            };
            let (alone, beside) = (rate(false)?, rate(true)?);
            shares.push(1.0 - beside / alone);
            Ok::<(), Failed>(())
        });
        ends.store(true, Ordering::Relaxed);
        other.join().map_err(|_| "the other processor's thread has ended")??;
        found.map(|()| shares)
    })?;
    // Each was interrupted as often as the other on the whole, not one by one.
    let middle = record::median(&shares).ok_or("no time was measured")?.max(0.0);
    let mut step = step("lose", algorithm, 0, &[middle, middle])?;
    step.wall = summary(&[middle, middle]).ok_or("no time was measured")?;
    step.cpu = step.wall;
    Ok(vec![step])
}

/// The share of a processor that is taken from whoever computes without a break, seconds lost of each second; and as processor time the part
/// of it that the kernel's accounts do not have, either: what interrupts take it counts as work of whoever they interrupt.
///
/// And how long each of the interruptions took: a step whose timings hold short ones has them already.
pub(super) fn processor(seconds: f64) -> Result<Vec<Step>, Failed> {
    let (mut shares, mut uncounted, mut gaps) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..BATCHES {
        let (all, before) = (Stopwatch::start(), Whose::Process.cpu());
        let (mut last, mut gone) = (0.0, 0.0);
        while last < seconds / f64::from(BATCHES) {
            let now = all.seconds();
            if now - last > GAP {
                gone += now - last;
                gaps.push(now - last);
            }
            last = now;
        }
        shares.push(gone / last);
        uncounted.push((1.0 - (Whose::Process.cpu() - before) / all.seconds()).max(0.0));
    }
    if gaps.is_empty() {
        gaps.push(0.0);
    }
    let of = |name: &str, wall: &[f64], cpu: &[f64]| {
        let mut step = step("lose", name, 0, wall)?;
        step.left_out = 0;
        step.wall = summary(wall).ok_or("no time was measured")?;
        step.cpu = summary(cpu).ok_or("no time was measured")?;
        Ok::<Step, Failed>(step)
    };
    Ok(vec![of("processor", &shares, &uncounted)?, of("interruption", &gaps, &gaps)?])
}
