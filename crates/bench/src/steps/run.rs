//! Each step in a process of its own, in turns.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use cost::algorithm::{Cipher, Key};
use cost::calibration::{Calibration, SCHEMA, Step, Unit, fit, summary};

use super::{Bed, Computes, Entry, Timings, all, machine, versions};
use crate::awake::Awake;
use crate::clock::{self, Stopwatch};
use crate::distance::States;
use crate::known::{ByState, Known};
use crate::quiet::{self, Probes, TRIES, quietest};
use crate::record::median;
use crate::{Failed, process, scratch};

/// A timing this many times further from the median than half of all are was interrupted.
const FAR: f64 = 12.0;
/// How far half of all timings are from the median at least, relative: clocks are not better than that.
const FINE: f64 = 2e-3;
/// Nothing that interrupts takes less than so many seconds: a single use that takes less than that more than others did not find in its caches what it needed.
const QUICK: f64 = 2e-6;
/// No process measures shorter than this, however little time is left.
const SHORTEST: Duration = Duration::from_millis(10);

/// How thoroughly steps are measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Processes that measure each step, one after the other.
    pub rounds: u32,
    /// How long each measures, at most.
    pub time: Duration,
    /// How long all of them may take with what starts and ends them: where a machine is slow at that, each measures shorter.
    pub within: Duration,
    /// Whether the calibration says that it was quick.
    pub quick: bool,
}

impl Plan {
    /// Less than two minutes.
    pub const FULL: Self =
        Self { rounds: 5, time: Duration::from_millis(100), within: Duration::from_secs(110), quick: false };
    /// Each step once, for as long as in [`Self::FULL`]: what they are in this minute.
    pub const MOMENT: Self =
        Self { rounds: 1, time: Duration::from_millis(100), within: Duration::from_secs(60), quick: true };
    /// A quarter of [`Self::FULL`].
    pub const QUICK: Self =
        Self { rounds: 3, time: Duration::from_millis(25), within: Duration::from_secs(40), quick: true };

    /// How long the next of `left` processes measures, when `done` have taken `gone`, of which they measured for `measured`.
    fn next(&self, (done, left): (u32, u32), gone: Duration, measured: Duration) -> Duration {
        let around = gone.saturating_sub(measured).checked_div(done).unwrap_or_default();
        let share = self.within.saturating_sub(gone).checked_div(left).unwrap_or_default();
        share.saturating_sub(around).clamp(SHORTEST.min(self.time), self.time)
    }
}

/// How this program is started to measure one step: with these words, and behind them what [`child`] takes.
#[derive(Clone, Debug)]
pub struct Program {
    /// Where it is.
    pub path: PathBuf,
    /// The words in front.
    pub words: Vec<String>,
}

impl Program {
    /// The program that runs.
    #[must_use]
    pub fn own(words: &[&str]) -> Self {
        Self { path: "/proc/self/exe".into(), words: words.iter().map(|word| (*word).to_owned()).collect() }
    }
}

/// How far it is.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// Processes that have ended.
    pub done: u32,
    /// Processes in all.
    pub all: u32,
    /// The step that is next.
    pub step: &'a str,
}

/// Measures these steps.
///
/// # Errors
/// A step cannot be done, or the program not be started.
pub fn measure(
    entries: &[Entry],
    plan: Plan,
    program: &Program,
    progress: &mut dyn FnMut(Told<'_>),
) -> Result<Calibration, Failed> {
    let bed = Bed::make()?;
    let before = process::others();
    // Before anybody keeps the processors awake: where that takes programs without end, none of them would be idle.
    let probes = Probes::start().inspect_err(|why| eprintln!("{}", quiet::unlooked(&why.to_string()))).ok();
    // As in the runs that predictions are held against.
    let awake = Awake::start()?;
    let mut found: Vec<Vec<Timings>> = entries.iter().map(|_| Vec::new()).collect();
    let (mut done, all) = (0, entries.len() as u32 * plan.rounds);
    let (watch, mut measured) = (Stopwatch::start(), Duration::ZERO);
    for round in 0..plan.rounds {
        let mut order: Vec<usize> = (0..entries.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let id = entries[index].id();
            progress(Told { done, all, step: &id });
            let time = plan.next((done, all - done), Duration::from_secs_f64(watch.seconds()), measured);
            found[index].push(one(program, bed.folder(), &id, time, probes.as_ref())?.1);
            done += 1;
            measured += time;
        }
    }
    let steps = entries.iter().zip(&found).map(|(entry, found)| step(entry, found)).collect::<Result<Vec<_>, _>>()?;
    // They have to have ended: their time is that of this process only then.
    drop((awake, probes));
    let others = before.zip(process::others()).map_or(0.0, |(before, after)| after.since(&before));
    Ok(calibration(steps, plan.quick, others))
}

/// Measures these steps once each, for the state in which the machine is ([`crate::distance`]), which is the same before and after. `known`
/// has what was measured before in this state and in others, and keeps what is new; so there is a calibration for each state. Where somebody looks
/// whether others compute on the processors, what was quiet counts.
///
/// # Errors
/// As [`measure`].
pub fn measure_again(
    entries: &[Entry],
    program: &Program,
    states: &mut States,
    known: &mut Known,
    probes: Option<&Probes>,
) -> Result<ByState<Calibration>, Failed> {
    let (bed, plan) = (Bed::make()?, Plan::MOMENT);
    let _awake = Awake::start()?;
    let (watch, mut measured) = (Stopwatch::start(), Duration::ZERO);
    for (done, entry) in (0..).zip(entries) {
        let left = entries.len() as u32 - done;
        let time = plan.next((done, left), Duration::from_secs_f64(watch.seconds()), measured);
        let (state, (quiet, found)) = states.within(|| one(program, bed.folder(), &entry.id(), time, probes))?;
        known.keep(state, quiet, vec![step(entry, &[found])?]);
        measured += time;
    }
    known.each(|steps| Ok(calibration(steps, plan.quick, 0.0)))
}

fn calibration(steps: Vec<Step>, quick: bool, others: f64) -> Calibration {
    let mut sized: BTreeMap<String, Vec<&Step>> = BTreeMap::new();
    for step in &steps {
        sized.entry(step.name()).or_default().push(step);
    }
    let laws = sized.values().filter_map(|steps| fit(steps)).collect();
    let (schema, taken, machine, versions) = (SCHEMA, clock::today(), machine(), versions());
    Calibration { schema, taken, machine, versions, quick, others, steps, laws }
}

/// One round of one step: the share of its time that was quiet, and what counts of it.
fn one(
    program: &Program,
    bed: &Path,
    id: &str,
    time: Duration,
    probes: Option<&Probes>,
) -> Result<(f64, Timings), Failed> {
    quietest(probes, TRIES, || {
        let found = timed(program, bed, id, time)?;
        probes.map_or(Ok(found.clone()), |probes| Ok(found.counting(&probes.looks().read()?)))
    })
}

/// All of it.
fn timed(program: &Program, bed: &Path, id: &str, time: Duration) -> Result<Timings, Failed> {
    let mut command = Command::new(&program.path);
    command.args(&program.words).arg(bed).arg(id).arg(time.as_micros().to_string());
    let output = scratch::output(command.stdin(Stdio::null()))?;
    if !output.status.success() {
        return Err(format!("{id}: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("{id}: {error}").into())
}

/// What a process does that [`measure`] has started: measures one step and prints its [`Timings`] as JSON. The words are the folder
/// of the [`Bed`], [`Entry::id`] and microseconds.
///
/// # Errors
/// There is no such step, or it cannot be done.
pub fn child(words: &[&str]) -> Result<(), Failed> {
    let [folder, id, micros] = words else { return Err("a folder, a step and microseconds are needed".into()) };
    let time = Duration::from_micros(micros.parse()?);
    let entry = all().into_iter().find(|entry| entry.id() == *id).ok_or_else(|| format!("there is no step `{id}`"))?;
    let timings = entry.run(&Bed::open(Path::new(folder)), time)?;
    println!("{}", serde_json::to_string(&timings)?);
    Ok(())
}

/// What the rounds of a step say together.
fn step(entry: &Entry, rounds: &[Timings]) -> Result<Step, Failed> {
    let none = || Failed::from(format!("{}: there are no timings", entry.id()));
    let cpu: Vec<f64> = rounds.iter().flat_map(|round| round.cpu.iter().copied()).collect();
    let wall: Vec<f64> = rounds.iter().flat_map(|round| round.wall.iter().copied()).collect();
    let alone = rounds.iter().all(|round| round.computes == Computes::Always);
    let limit = limit(&cpu, if alone { QUICK } else { 0.0 }).ok_or_else(none)?;
    let kept = |times: &[f64]| -> Vec<f64> { times.iter().copied().filter(|time| *time <= limit).collect() };
    // A round that is slower as a whole was not interrupted: the machine was another one.
    let moment = |round: &Timings| summary(&kept(&round.cpu)).or_else(|| summary(&round.cpu));
    let moments = rounds.iter().filter_map(moment).map(|round| round.mean).collect();
    let left = kept(&cpu);
    Ok(Step {
        operation: entry.operation.into(),
        algorithm: entry.algorithm.clone(),
        bits: bits(&entry.algorithm),
        bytes: entry.bytes,
        unit: Unit::Seconds,
        // Rounds choose for themselves; the smallest is the one that averages least.
        batch: rounds.iter().map(|round| round.batch).min().unwrap_or(1),
        left_out: (cpu.len() - left.len()) as u64,
        cpu: summary(&left).ok_or_else(none)?,
        wall: summary(&wall).ok_or_else(none)?,
        moments,
    })
}

/// What timings above were interrupted; what takes less than `quick` more than most was not.
fn limit(cpu: &[f64], quick: f64) -> Option<f64> {
    let middle = median(cpu)?;
    let distances: Vec<f64> = cpu.iter().map(|time| (time - middle).abs()).collect();
    Some(middle + (FAR * median(&distances)?.max(FINE * middle)).max(quick))
}

/// Bits of the key that an algorithm uses, where its name says so.
fn bits(algorithm: &str) -> Option<u32> {
    if let Some(key) = Key::read(algorithm.trim_end_matches("-pss")) {
        return Some(key.bits());
    }
    match Cipher::read(algorithm)? {
        Cipher::Symmetric { bits, .. } => Some(bits),
        Cipher::Asymmetric { key, .. } => Some(key.bits()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry::new("sign", "rsa-2048-pss", 32, |_| Err("never done".into()))
    }

    #[test]
    fn processes_measure_shorter_where_starting_them_takes_long() {
        let millis = Duration::from_millis;
        let plan = Plan { rounds: 1, time: millis(100), within: millis(1_000), quick: true };
        assert_eq!(plan.next((0, 8), millis(0), millis(0)), millis(100));
        assert_eq!(plan.next((0, 20), millis(0), millis(0)), millis(50));
        // The first five took 20 ms each besides: 25 ms remain for each of the others.
        assert_eq!(plan.next((5, 10), millis(550), millis(450)), millis(25));
        assert_eq!(plan.next((5, 10), millis(2_000), millis(450)), SHORTEST);
        let mut gone = (millis(0), millis(0));
        for done in 0..20 {
            let time = plan.next((done, 20 - done), gone.0, gone.1);
            gone = (gone.0 + time + millis(30), gone.1 + time);
        }
        assert!(gone.0 <= millis(1_000), "{gone:?}");
    }

    #[test]
    fn what_was_interrupted_is_left_out_and_counted() {
        let round = |cpu: &[f64]| Timings { cpu: cpu.to_vec(), wall: cpu.to_vec(), ..Timings::of(4) };
        let step = step(&entry(), &[round(&[1.0, 1.01, 0.99]), round(&[1.02, 0.98, 9.0])]).unwrap();
        assert_eq!((step.left_out, step.cpu.n, step.wall.n, step.bits), (1, 5, 6, Some(2_048)));
        assert!((step.cpu.mean - 1.0).abs() < 1e-9 && step.wall.max == 9.0);
        assert_eq!(step.moments.len(), 2);
    }

    #[test]
    fn single_uses_that_missed_their_caches_count() {
        let times = [0.30e-6, 0.31e-6, 0.30e-6, 0.32e-6, 0.30e-6, 1.1e-6, 15e-6];
        for (rule, none, left_out) in
            [("an interruption", Timings::alone(), 1), ("of many uses in one timing", Timings::of(128), 2)]
        {
            let round = Timings { cpu: times.to_vec(), wall: times.to_vec(), ..none };
            assert_eq!(step(&entry(), &[round]).unwrap().left_out, left_out, "{rule}");
        }
    }

    #[test]
    fn a_round_that_is_slower_as_a_whole_is_a_moment_too() {
        let round = |cpu: &[f64]| Timings { cpu: cpu.to_vec(), wall: cpu.to_vec(), ..Timings::of(4) };
        let step = step(&entry(), &[round(&[1.0; 4]), round(&[1.1; 3])]).unwrap();
        assert!(step.left_out == 3 && step.moments.len() == 2 && (step.moments[1] - 1.1).abs() < 1e-9, "{step:?}");
    }

    #[test]
    fn a_step_without_timings_is_an_error() {
        assert!(step(&entry(), &[]).is_err());
        let none = Timings { cpu: vec![f64::NAN], wall: vec![1.0], ..Timings::of(1) };
        assert!(step(&entry(), &[none]).is_err());
    }
}
