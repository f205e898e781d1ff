//! Rounds: in each every step is timed anew, every row is predicted from that and written into the register, and only then every row is run
//! once, in an order that changes. So the last of the rounds is no further from its steps than the first, whatever the machine does meanwhile.
//!
//! A machine whose processors are now nearer to each other, now further apart ([`crate::distance`]) is several machines: each step is kept as of
//! the state in which it was timed, a row is predicted for each of them, and a run is compared with what was predicted for the state in which
//! it began and ended.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cost::calibration::Calibration;
use cost::reproduce::here::Prediction;
use serde::Serialize;
use serde_json::json;

use super::calibrate::{Bench, calibration};
use super::launch::Launch;
use super::organisation::{self, Outcome};

use super::register::{Entry, Event, Register};
use super::{Kind, Scenario, accounts, crypt, postgres, predict, store};
use crate::awake::Awake;
use crate::clock::Stopwatch;
use crate::distance::{States, TRIES};
use crate::known::{ByState, Known};
use crate::quiet::{self, Probes};
use crate::random::Random;
use crate::scratch::Scratch;
use crate::state::RUNS;
use crate::{Failed, files, process};

/// How much longer a round may take than the one before, which part of it steps and runs are at least, and what of that is left at least.
const SPREAD: f64 = 1.03;
/// The same of all rounds that are still wanted: steps and runs are taken again in some.
const UNEVEN: f64 = 1.15;
const TIMED: f64 = 0.75;
const LEAST: f64 = 0.35;

/// What is done.
#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    /// Rounds.
    pub rounds: u32,
    /// Seconds of one run.
    pub seconds: f64,
    /// Seconds of timing one step.
    pub step_seconds: f64,
    /// No round begins that would not end within so many seconds. Steps and runs are shorter where fewer rounds than a row needs would.
    pub limit: f64,
    /// Sizes of RSA keys.
    pub keys: Vec<u32>,
    /// Numbers of clients.
    pub clients: Vec<u32>,
    /// Share of messages for which no new key is agreed on.
    pub reuse: f64,
    /// Databases that are asked for.
    pub databases: Vec<Kind>,
    /// Where databases are; whatever it is, its part is in the steps.
    pub medium: PathBuf,
    /// Shorter than it should be.
    pub quick: bool,
    /// How often a step that met others on the cores is timed at most; a run of nothing but such is begun again once, if this is more than 1.
    pub tries: u32,
}

impl Plan {
    /// About half an hour, or up to five minutes. A machine whose speed wanders for tens of seconds is met better by many short rounds than
    /// by a few long ones: between two of them it has become another.
    #[must_use]
    pub fn new(quick: bool) -> Self {
        let (rounds, seconds, limit) = if quick { (10, 0.15, 292.0) } else { (60, 0.28, 1_860.0) };
        Self {
            rounds,
            seconds,
            step_seconds: 0.05,
            limit,
            keys: super::KEYS.to_vec(),
            clients: super::CLIENTS.to_vec(),
            reuse: 0.9,
            databases: vec![Kind::Sqlite, Kind::Postgres],
            // How long a disk takes to sync is its own affair, and differs from one second to the next.
            medium: files::memory(),
            quick,
            tries: quiet::TRIES,
        }
    }
}

/// One row in one round.
#[derive(Debug, Clone, Serialize)]
pub struct Single {
    /// Of the round, from 1.
    pub round: u32,
    /// The row.
    pub scenario: Scenario,
    /// The state of the machine, as its place among the distances of the series.
    pub state: usize,
    /// In the register.
    pub prediction_id: String,
    /// What was predicted for this state.
    pub prediction: Prediction,
    /// In the register.
    pub run_id: String,
    /// What came of it.
    pub outcome: Outcome,
}

/// Everything that was found.
#[derive(Debug, Clone, Serialize)]
pub struct Series {
    /// In the register.
    pub id: String,
    /// What was done.
    pub plan: Plan,
    /// Model of the processor.
    pub machine: String,
    /// How long a line of the cache took from one processor to the other in each state in which the machine was met, seconds: the shortest and
    /// the longest.
    pub distances: Vec<[f64; 2]>,
    /// All rows of all rounds.
    pub singles: Vec<Single>,
    /// What could not be measured, and why.
    pub unmeasured: Vec<String>,
    /// Share of the processors' time that the host gave to others meanwhile, as far as it tells.
    pub stolen: f64,
    /// Why nobody looked whether others compute on the processors, where that is so: then all of the time counts.
    pub unlooked: Option<String>,
    /// Every prediction and run of this folder, earlier series included.
    pub register: Vec<Entry>,
    /// Seconds for all of it.
    pub seconds: f64,
}

/// What is predicted of a row.
struct Foreseen {
    row: Scenario,
    id: String,
    /// Of its line in the register.
    hash: String,
    of: ByState<Prediction>,
}

struct Place<'a> {
    launch: &'a Launch,
    plan: &'a Plan,
    processors: (usize, usize),
    keys: PathBuf,
    databases: Vec<(Kind, PathBuf)>,
    probes: Option<&'a Probes>,
}

/// Does it, with the register in `folder`; `say` hears how far it is.
///
/// # Errors
/// Something that every row needs is missing, or the register cannot be written.
pub fn measure(launch: &Launch, plan: &Plan, folder: &Path, say: &mut dyn FnMut(&str)) -> Result<Series, Failed> {
    let watch = Stopwatch::start();
    let mut register = Register::open(folder)?;
    let id = format!("s{}", register.number());
    register.write(Event::Series, &id, "series", plan)?;
    let mut series = Series {
        id,
        plan: plan.clone(),
        machine: process::machine(),
        distances: Vec::new(),
        singles: Vec::new(),
        unmeasured: Vec::new(),
        stolen: 0.0,
        unlooked: None,
        register: Vec::new(),
        seconds: 0.0,
    };
    let before = process::stolen();
    match accounts::processors() {
        None => {
            series.unlooked = Some("there is only one".into());
            series.unmeasured.push("every row: this program may use only one processor, the scenario has two".into())
        }
        Some(processors) => {
            let scratch = Scratch::below(&plan.medium)?;
            let server = server(plan, processors.1, &mut series.unmeasured);
            let probes = Probes::start().inspect_err(|error| series.unlooked = Some(error.to_string())).ok();
            let (keys, probes) = (scratch.path().to_owned(), probes.as_ref());
            let mut place = Place { launch, plan, processors, keys, databases: Vec::new(), probes };
            if plan.databases.contains(&Kind::Sqlite) {
                place.databases.push((Kind::Sqlite, scratch.path().to_owned()));
            }
            if let Some(server) = &server {
                place.databases.push((Kind::Postgres, server.folder().to_owned()));
            }
            crypt::make_keys(&place.keys, &plan.keys)?;
            // Both processors are kept from halting, so that waking up costs what it costs and not what the host likes.
            let _awake = Awake::start().inspect_err(|error| {
                series.unmeasured.push(format!("waking up without the host's part: {error}"));
            });
            place.rounds(&mut register, &mut series, &watch, say)?;
        }
    }
    let after = process::stolen();
    series.stolen =
        before.zip(after).map_or(0.0, |(before, after)| (after.0 - before.0) / (after.1 - before.1).max(1.0));
    series.register = register.entries()?;
    series.seconds = watch.seconds();
    Ok(series)
}

fn server(plan: &Plan, processor: usize, unmeasured: &mut Vec<String>) -> Option<postgres::Server> {
    if !plan.databases.contains(&Kind::Postgres) {
        return None;
    }
    let started = postgres::find()
        .ok_or_else(|| {
            Failed::from("it is not installed (initdb and postgres, in /usr/lib/postgresql or where pg_config says)")
        })
        .and_then(|programs| postgres::Server::start(&programs, &plan.medium, processor));
    started.inspect_err(|why| unmeasured.push(format!("rows with PostgreSQL: {why}"))).ok()
}

impl Place<'_> {
    fn rounds(
        &self,
        register: &mut Register,
        series: &mut Series,
        watch: &Stopwatch,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), Failed> {
        let kinds: Vec<Kind> = self.databases.iter().map(|(kind, _)| *kind).collect();
        let mut rows = Scenario::all(&kinds, &self.plan.keys, &self.plan.clients);
        let (mut random, mut last, mut pace, mut plan) = (Random::new(1), 0.0_f64, 1.0_f64, self.plan.clone());
        let (mut states, mut known) = (States::new(Some(self.processors)), Known::default());
        for round in 1..=self.plan.rounds {
            let begun = watch.seconds();
            if begun + last * SPREAD > plan.limit {
                say(&format!("round {round} would take longer than there is time"));
                break;
            }
            let wanted = plan.rounds.min(u32::try_from(RUNS).unwrap_or(u32::MAX)).saturating_sub(round - 1);
            let needed = pace * shorter(last * UNEVEN, wanted, plan.limit - begun);
            let shorter = needed.max(LEAST);
            if needed < LEAST && plan.tries > 1 {
                // Rounds are as long as they are because others compute nearly all of the time: the next try meets them, too.
                plan.tries = 1;
                say(&format!("for {wanted} more rounds to end in time, nothing that met others is tried again"));
            } else if shorter < pace {
                pace = shorter;
                (plan.seconds, plan.step_seconds) = (self.plan.seconds * pace, self.plan.step_seconds * pace);
                say(&format!(
                    "for {wanted} more rounds to end in time, steps and runs are {:.0} % as long",
                    pace * 100.0
                ));
            }
            shuffle(&mut rows, &mut random);
            say(&format!("round {round} of {}", self.plan.rounds));
            let met = (&mut states, &mut known);
            let place = Place {
                plan: &plan,
                keys: self.keys.clone(),
                databases: self.databases.clone(),
                launch: self.launch,
                ..*self
            };
            if let Err(error) = place.round(round, &rows, met, register, series, say) {
                if series.singles.is_empty() {
                    return Err(error);
                }
                // What was found until then stands.
                series
                    .unmeasured
                    .push(format!("round {round} after {} runs, and all later ones: {error}", series.singles.len()));
                break;
            }
            last = watch.seconds() - begun;
        }
        series.distances = states.distances();
        Ok(())
    }

    /// Times every step, predicts every row, and runs it.
    fn round(
        &self,
        round: u32,
        rows: &[Scenario],
        (states, known): (&mut States, &mut Known),
        register: &mut Register,
        series: &mut Series,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), Failed> {
        let bench = Bench {
            launch: self.launch,
            processors: self.processors,
            keys: &self.keys,
            databases: &self.databases,
            seconds: self.plan.step_seconds,
            quick: self.plan.quick,
            probes: self.probes,
            tries: self.plan.tries,
        };
        bench.calibrate(rows, states, known)?;
        for foreseen in self.foresee(round, rows, known, states, register)? {
            self.try_out(round, &foreseen, states, register, series, say)?;
        }
        register.sign()
    }

    /// Predicts every row, and writes that into the register.
    fn foresee(
        &self,
        round: u32,
        rows: &[Scenario],
        known: &Known,
        states: &States,
        register: &mut Register,
    ) -> Result<Vec<Foreseen>, Failed> {
        let of = known.each(|steps| calibration(steps, self.plan.quick))?;
        let steps = format!("c{}", register.number());
        let Plan { seconds, step_seconds, .. } = self.plan;
        let more =
            json!({"distances": states.distances(), "states": of.of, "seconds": seconds, "step_seconds": step_seconds});
        register.write(Event::Calibrated, &steps, "steps", &more)?;
        let mut foreseen = Vec::new();
        let latest = of.latest;
        for (row, of) in rows.iter().zip(self.predict(rows, &of.of)?) {
            let id = format!("p{}", register.number());
            let more = json!({"round": round, "steps": steps, "states": of, "latest": latest});
            let hash = register.write(Event::Predicted, &id, &row.name(), &more)?;
            foreseen.push(Foreseen { row: *row, id, hash, of: ByState { of, latest } });
        }
        Ok(foreseen)
    }

    /// Predicts rows for each of these states, on both processors: nothing is timed meanwhile.
    fn predict(
        &self,
        rows: &[Scenario],
        states: &BTreeMap<usize, Calibration>,
    ) -> Result<Vec<BTreeMap<usize, Prediction>>, Failed> {
        let predict = |row: &Scenario| {
            let of = states.iter().map(|(state, steps)| Ok((*state, predict::of(steps, row, self.plan.reuse)?)));
            of.collect::<Result<BTreeMap<_, _>, Failed>>()
        };
        let half = rows.len().div_ceil(2).max(1);
        std::thread::scope(|scope| {
            let parts: Vec<_> = rows
                .chunks(half)
                .map(|part| scope.spawn(move || part.iter().map(predict).collect::<Result<Vec<_>, _>>()))
                .collect();
            let mut all = Vec::new();
            for part in parts {
                all.extend(part.join().map_err(|_| "a thread that predicts has ended")??);
            }
            Ok(all)
        })
    }

    /// Runs what was predicted; where the machine changes its state meanwhile, once more.
    fn try_out(
        &self,
        round: u32,
        foreseen: &Foreseen,
        states: &mut States,
        register: &Register,
        series: &mut Series,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), Failed> {
        let (row, name) = (foreseen.row, foreseen.row.name());
        let (mut state, mut was_loud) = (states.now()?, false);
        for attempt in 1.. {
            // One that was not quiet is no try.
            if attempt > TRIES + u32::from(was_loud) {
                break;
            }
            let mut run_id = format!("r{}", foreseen.id.trim_start_matches('p'));
            if attempt > 1 {
                run_id = format!("{run_id}.{attempt}");
            }
            let more = json!({"prediction": foreseen.id, "sha256": foreseen.hash, "state": state});
            register.write(Event::Begun, &run_id, &name, &more)?;
            let run = self.run(&row);
            let after = states.now()?;
            let why = match run {
                Err(error) => error.to_string(),
                Ok(_) if after != state => "the machine changed its state meanwhile".to_owned(),
                Ok(Outcome { quiet: None, .. }) if self.probes.is_some() && self.plan.tries > 1 && !was_loud => {
                    was_loud = true;
                    "others computed on the cores nearly all of the time".to_owned()
                }
                Ok(outcome) => {
                    register.write(Event::Ended, &run_id, &name, &outcome)?;
                    let prediction = foreseen.of.at(state)?.clone();
                    let prediction_id = foreseen.id.clone();
                    let single = Single { round, scenario: row, state, prediction_id, prediction, run_id, outcome };
                    series.singles.push(single);
                    return Ok(());
                }
            };
            say(&format!("{name}: {why}"));
            register.write(Event::Abandoned, &run_id, &name, &json!({"why": why}))?;
            state = after;
        }
        Ok(())
    }

    /// Runs a row once.
    fn run(&self, row: &Scenario) -> Result<Outcome, Failed> {
        let at = self.databases.iter().find(|(kind, _)| *kind == row.database);
        let database = at.map(|(_, folder)| folder.clone()).ok_or("this database is not there")?;
        let keys = self.keys.clone();
        let told = store::Spec { scenario: *row, keys: keys.clone(), database };
        if let Some(probes) = self.probes {
            probes.begin()?;
        }
        let store = self.launch.start(self.processors.1, "store", &told)?;
        let watch = |place, process| self.probes.map_or(Ok(()), |probes| probes.watch(place, process));
        store.processes().try_for_each(|process| watch(1, process))?;
        let (reuse, seconds, at) = (self.plan.reuse, self.plan.seconds, store.at());
        let looks = self.probes.map(|probes| probes.looks().clone());
        let told = organisation::Spec { scenario: *row, reuse, seconds, keys, store: at, looks };
        let outcome = self.launch.ask_seen(self.processors.0, "organisation", &told, |process| watch(0, process))?;
        store.end()?;
        Ok(outcome)
    }
}

/// What is left of the times of steps and runs for so many rounds to end in so many seconds, if each would take so long: there must be enough of them.
fn shorter(round: f64, rounds: u32, left: f64) -> f64 {
    let share = left / (f64::from(rounds) * round);
    // Programs take as long to start and to end.
    if share < 1.0 { (1.0 - (1.0 - share) / TIMED).max(0.0) } else { 1.0 }
}

fn shuffle(rows: &mut [Scenario], random: &mut Random) {
    for place in (1..rows.len()).rev() {
        let other = random.below(u32::try_from(place).unwrap_or(u32::MAX - 1) + 1) as usize;
        rows.swap(place, other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_as_short_as_ten_of_them_need() {
        for (rule, round, rounds, left, wanted) in [
            ("none was yet", 0.0, 10, 292.0, 1.0),
            ("they end in time", 28.0, 9, 264.0, 1.0),
            ("a tenth is too much, of three quarters", 30.0, 9, 243.0, 1.0 - 0.1 / 0.75),
            ("there are enough", 30.0, 0, 20.0, 1.0),
            ("nothing would do", 100.0, 9, 192.0, 0.0),
        ] {
            assert!((shorter(round, rounds, left) - wanted).abs() < 1e-12, "{rule}: {}", shorter(round, rounds, left));
        }
    }
}
