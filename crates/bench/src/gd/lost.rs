//! What one end loses of its processor without having a part in it: to others on it, and to the other end beside it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cost::calibration::{Step, summary};
use cost::reproduce::here::Pause;

use super::disturb::Disturb;
use super::steps::{Spec, step};
use crate::clock::{Stopwatch, Timing, Whose, monotonic};
use crate::quiet::{self, Samples};
use crate::{Failed, place};

/// A gap in a loop that does nothing but look at the clock, from which on somebody else had the processor.
const GAP: f64 = 1.5e-6;
/// Seconds until the other processor does what it is told to.
const SETTLES: f64 = 1e-3;
/// Times that it is alone and beside the other, and batches of what others take: short ones, for somebody else computes on a part of a long one.
const TIMES: u32 = 10;
const BATCHES: u32 = 25;

/// Times an operation with the other processor at work and without, in turns, and gives the share of speed that is lost meanwhile.
pub(super) fn neighbour(
    spec: &Spec,
    processor: usize,
    algorithm: &str,
    op: &mut dyn FnMut() -> Result<(), Failed>,
) -> Result<Vec<Step>, Failed> {
    let (works, ends) = (AtomicBool::new(false), AtomicBool::new(false));
    let [alone, beside] = std::thread::scope(|scope| {
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
        let mut times = [Samples::default(), Samples::default()];
        let found = (0..TIMES).try_for_each(|_| {
            for (samples, busy) in times.iter_mut().zip([false, true]) {
                works.store(busy, Ordering::Relaxed);
                let settles = Stopwatch::start();
                while settles.seconds() < SETTLES {
                    op()?;
                }
                let (all, mut count) = (Stopwatch::start(), 0);
                while count < 3 || all.seconds() < spec.seconds / f64::from(2 * TIMES) {
                    let watch = Stopwatch::start();
                    op()?;
                    samples.push(watch.timing());
                    count += 1;
                }
            }
            Ok::<(), Failed>(())
        });
        ends.store(true, Ordering::Relaxed);
        other.join().map_err(|_| "the other processor's thread has ended")??;
        found.map(|()| times)
    })?;
    let quiet = spec.quiet()?;
    // Without what interrupted one of them, which is no part of it.
    let mean = |times: Samples| Ok::<_, Failed>(step("lose", algorithm, 0, &times.counting(quiet.as_ref()))?.wall.mean);
    let share = (1.0 - mean(alone)? / mean(beside)?).max(0.0);
    let mut step = step("lose", algorithm, 0, &[share, share])?;
    step.wall = summary(&[share, share]).ok_or("no time was measured")?;
    step.cpu = step.wall;
    Ok(vec![step])
}

/// The share of a processor that is taken from whoever computes without a break, seconds lost of each second; and as processor time the part
/// of it that the kernel's accounts do not have, either: what interrupts take it counts as work of whoever they interrupt.
///
/// And how long each of the interruptions took: a step whose timings hold short ones has them already.
pub(super) fn processor(spec: &Spec) -> Result<Vec<Step>, Failed> {
    let (mut batches, mut gaps) = (Vec::new(), Samples::default());
    for _ in 0..BATCHES {
        let (from, all, before) = (monotonic(), Stopwatch::start(), Whose::Process.cpu());
        let (mut last, mut gone) = (0.0, 0.0);
        while last < spec.seconds / f64::from(BATCHES) {
            let end = monotonic();
            let now = all.until(end);
            if now - last > GAP {
                gone += now - last;
                gaps.push(Timing { end, seconds: now - last });
            }
            last = now;
        }
        let counted = Whose::Process.cpu() - before;
        batches.push(((from, monotonic()), gone, counted));
    }
    let quiet = spec.quiet()?;
    let own = |seconds: f64| quiet::own(quiet.as_ref(), seconds);
    let (mut shares, mut uncounted) = (Samples::of_parts(), Samples::of_parts());
    let looking = |span| quiet.as_ref().map_or(0.0, |quiet| quiet.looking(span));
    let lasts = |span: (u64, u64)| (span.1 - span.0) as f64 * 1e-9;
    for (span, gone, counted) in batches {
        let looking = looking(span);
        let (seconds, counted) = (lasts(span) - looking, own(counted));
        // Of a batch that is nothing but looks there is no share.
        if seconds > 0.0 {
            shares.add(span, (gone - looking).max(0.0) / seconds);
            uncounted.add(span, (1.0 - counted / seconds).max(0.0));
        }
    }
    if let Some(quiet) = &quiet {
        gaps.leave_looks_out(quiet);
    }
    let [shares, uncounted, mut gaps] = [shares, uncounted, gaps].map(|it| it.counting(quiet.as_ref()));
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
