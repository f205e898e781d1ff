//! How far two processors are apart: how long a line of the cache takes from one to the other.
//!
//! A host moves the processors of a virtual machine about on its chip, and nothing in the machine says so. Within one part of a chip a line
//! takes 30 to 60 ns, from part to part 170 to 210 (AMD Zen 5); it stays so for one to forty seconds, and everything that two processors have
//! to do with each other takes a quarter or more longer meanwhile. What is compared has to be of one such state.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::clock::Stopwatch;
use crate::record::median;
use crate::{Failed, place};

/// A distance is of a state up to this ratio to the nearest that was met in it, and nothing in a state is further from anything else than the
/// other ratio. Within one part of a chip there are nearer and further places, too, which matter little.
const ALIKE: f64 = 1.6;
const WIDTH: f64 = 3.0;
/// Times that the line goes there and back in a batch, and batches; the first one only wakes the processors up.
const TURNS: u32 = 300;
const BATCHES: usize = 10;
/// Seconds in which a batch ends, unless one of the processors is somebody else's all the time.
const PATIENCE: f64 = 0.2;
/// Times that the distance is measured where a processor is somebody else's.
const ASKED: u32 = 5;
/// Times that a step, or a run, is taken anew because the machine has changed its state meanwhile.
pub const TRIES: u32 = 3;
/// Turns of waiting after which the time is looked at.
const LOOK: u32 = 1 << 14;

/// A line of the cache for itself.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicU32);

impl Line {
    /// Writes this, and waits until the line is here for that: otherwise it is in no hurry, and its times spread more.
    fn tell(&self, value: u32) {
        self.0.swap(value, Ordering::SeqCst);
    }

    /// Waits until the other end has written this; false when that takes too long.
    fn wait(&self, value: u32, watch: &Stopwatch) -> bool {
        let mut turns = 0_u32;
        while self.0.load(Ordering::Acquire) != value {
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(LOOK) && watch.seconds() > PATIENCE {
                return false;
            }
        }
        true
    }
}

/// Seconds that a line of the cache takes from one of the processors to the other: the median of some batches, 2 ms in all. None where
/// somebody else has a processor all that time; batches in which that is so are left out.
///
/// # Errors
/// There are no such processors.
pub fn measure((one, other): (usize, usize)) -> Result<Option<f64>, Failed> {
    let batches = (0..=BATCHES).map(|_| batch(one, other)).collect::<Result<Vec<_>, _>>()?;
    Ok(median(&batches.into_iter().skip(1).flatten().collect::<Vec<_>>()))
}

fn batch(one: usize, other: usize) -> Result<Option<f64>, Failed> {
    let (line, watch) = (Line::default(), Stopwatch::start());
    std::thread::scope(|scope| {
        let answers = scope.spawn(|| {
            place::keep_to(other).map_err(|error| error.to_string())?;
            for turn in 0..TURNS {
                if !line.wait(2 * turn + 1, &watch) {
                    break;
                }
                line.tell(2 * turn + 2);
            }
            Ok::<(), String>(())
        });
        let asks = scope.spawn(|| {
            place::keep_to(one).map_err(|error| error.to_string())?;
            let mut begun = 0.0;
            let all = (0..TURNS).all(|turn| {
                // The first turn has the other end's start in it.
                if turn == 1 {
                    begun = watch.seconds();
                }
                line.tell(2 * turn + 1);
                line.wait(2 * turn + 2, &watch)
            });
            let seconds = watch.seconds() - begun;
            Ok::<_, String>(all.then_some(seconds / f64::from(2 * (TURNS - 1))))
        });
        let (asked, answered) = (asks.join(), answers.join());
        let ended = "a thread that times the processors has ended";
        answered.map_err(|_| ended)??;
        Ok(asked.map_err(|_| ended)??)
    })
}

/// The states that were met, in the order in which they were.
#[derive(Debug, Clone)]
pub struct States {
    processors: Option<(usize, usize)>,
    known: Vec<State>,
    /// The one that was met last.
    last: Option<usize>,
}

/// What was met of a state: the shortest distance and the longest, seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct State {
    shortest: f64,
    longest: f64,
}

impl State {
    const fn with(self, distance: f64) -> Self {
        Self { shortest: self.shortest.min(distance), longest: self.longest.max(distance) }
    }

    /// How far a distance is from what was met of it, as a ratio; none where it is too far to be of it.
    fn apart(self, distance: f64) -> Option<f64> {
        let apart = (self.shortest / distance).max(distance / self.longest).max(1.0);
        let with = self.with(distance);
        (apart <= ALIKE && with.longest <= WIDTH * with.shortest).then_some(apart)
    }
}

impl States {
    /// Of these processors; none was met yet. Where there is only one, there is one state, and it has no distance.
    #[must_use]
    pub const fn new(processors: Option<(usize, usize)>) -> Self {
        Self { processors, known: Vec::new(), last: None }
    }

    /// The shortest distance and the longest of each, seconds.
    #[must_use]
    pub fn distances(&self) -> Vec<[f64; 2]> {
        self.known.iter().map(|state| [state.shortest, state.longest]).collect()
    }

    /// The present one, as its place among them. Somebody who keeps a processor is waited for, for some seconds; after that it is the one
    /// that was met last.
    ///
    /// # Errors
    /// As [`measure`]; none was met yet, and the processors are not free.
    pub fn now(&mut self) -> Result<usize, Failed> {
        let Some(processors) = self.processors else { return Ok(0) };
        for _ in 0..ASKED {
            if let Some(distance) = measure(processors)? {
                let place = place_of(&mut self.known, distance);
                self.last = Some(place);
                return Ok(place);
            }
        }
        self.last.ok_or_else(|| "how far the processors are apart cannot be measured: others keep them".into())
    }
}

impl States {
    /// Does something while the machine stays in one state, for which it is done anew where that changes meanwhile, [`TRIES`] times at most;
    /// gives the state at the end.
    ///
    /// # Errors
    /// As [`Self::now`] and `done`.
    pub fn within<T>(&mut self, mut done: impl FnMut() -> Result<T, Failed>) -> Result<(usize, T), Failed> {
        let mut before = self.now()?;
        for _ in 1..TRIES {
            let found = done()?;
            let after = self.now()?;
            if before == after {
                return Ok((after, found));
            }
            before = after;
        }
        let found = done()?;
        Ok((self.now()?, found))
    }
}

/// The nearest state of which the distance is one; else it is of a new one.
fn place_of(known: &mut Vec<State>, distance: f64) -> usize {
    let of = known.iter().enumerate().filter_map(|(place, state)| Some((place, state.apart(distance)?)));
    let nearest = of.min_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(place, _)| place);
    if let Some(place) = nearest {
        known[place] = known[place].with(distance);
        return place;
    }
    known.push(State { shortest: distance, longest: distance });
    known.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_that_are_alike_are_one_state() {
        for (rule, met, wanted) in [
            (
                "two parts of a chip",
                &[41.0, 50.0, 185.0, 34.0, 65.0, 172.0, 60.0, 213.0][..],
                &[0, 0, 1, 0, 0, 1, 0, 1][..],
            ),
            ("one that is far from all is one of its own", &[60.0, 900.0, 61.0, 880.0], &[0, 1, 0, 1]),
            ("none grows for ever", &[40.0, 60.0, 90.0, 119.0, 125.0], &[0, 0, 0, 0, 1]),
            ("the nearest", &[50.0, 100.0, 70.0, 72.0], &[0, 1, 0, 0]),
        ] {
            let mut known = Vec::new();
            let told: Vec<usize> = met.iter().map(|distance| place_of(&mut known, *distance)).collect();
            assert_eq!(told, wanted, "{rule}");
        }
    }

    #[test]
    fn a_line_takes_longer_to_another_processor_than_nothing_and_less_than_a_message() {
        let Some(processors) = place::pair() else {
            println!("SKIPPED: this program may use only one processor");
            return;
        };
        let Some(distance) = measure(processors).unwrap() else {
            println!("SKIPPED: others keep the processors");
            return;
        };
        assert!(distance > 1e-10 && distance < 1e-3, "{distance}");
        let mut states = States::new(Some(processors));
        let state = states.now().unwrap();
        assert!(state < states.distances().len());
        let mut alone = States::new(None);
        assert_eq!((alone.now().unwrap(), alone.distances().len()), (0, 0), "one processor");
        assert!(measure((processors.0, 1 << 20)).is_err(), "there is none");
        assert!(measure((1 << 20, processors.1)).is_err(), "there is none");
    }
}
