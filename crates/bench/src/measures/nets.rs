//! `gspn.*`: the solver of nets, beside stormpy and Sirio where they are installed. Each figure is of a process of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use gspn::formats::{Format, write};
use gspn::json;

use super::Bench;
use crate::journal::Run;
use crate::nets::{LIMITS, Told, closed, firing, kanban, manufacturing, polling};
use crate::record::Peer;
use crate::stiff::networks;
use crate::{Failed, files, subject};

const TIME: &str = "gspn.generate.stormpy";
const MEMORY: &str = "gspn.memory.stormpy";
const SMALL: [&str; 2] = ["gspn.small", "gspn.small.again"];
const SOLVE: &str = "gspn.solve.stormpy";
/// Firings in a run of the simulation.
const FIRINGS: u64 = 10_000_000;

/// Seconds after which Sirio gives up, and stormpy with the chain or with one of its solvers; where the chain alone is wanted, it has longer.
const CAP: f64 = 120.0;
const CHAIN_CAP: f64 = 600.0;
/// Bytes that a tangible state and an edge may take, and those that they should.
const MOST: (f64, f64) = (60.0, 24.0);
const WANTED: (f64, f64) = (24.0, 8.0);
/// Customers of the stiff networks of at most 600 states, and of those of about 1e5: 462 and 98,280.
const STIFF: [(&str, u32, f64); 2] = [("gspn.stiff.600", 6, 1e-9), ("gspn.stiff.100k", 23, 1e-7)];

fn stormpy() -> Peer {
    Peer { name: "stormpy 2.0.0".into(), build: "wheel of PyPI, JANI as we write it".into() }
}

/// Whether a peer is there; it is said when it is not.
fn installed(peer: &str) -> bool {
    let there = subject::peers().join(format!("bin/{peer}-steady")).exists();
    if !there {
        println!("gspn.*.{peer}: skipped, {peer} is not installed (make peers)");
    }
    there
}

/// A net as a file for us, and one in another format for a peer.
fn files(folder: &Path, net: &serde_json::Value, format: Format) -> Result<(PathBuf, PathBuf), Failed> {
    let bytes = net.to_string().into_bytes();
    let refused = |refusal: gspn::Refusal| Failed::from(format!("{}: {}", refusal.name, refusal.why));
    let document = json::read(&bytes).map_err(refused)?;
    let name = net["name"].as_str().unwrap_or("net");
    let (own, other) = (folder.join(format!("{name}.json")), folder.join(format!("{name}.peer")));
    files::write(&own, &bytes)?;
    files::write(&other, write(&document.net, format).map_err(refused)?)?;
    Ok((own, other))
}

fn told(command: &mut Command) -> Result<Told, Failed> {
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said.lines().last().filter(|_| output.status.success());
    let line = line.ok_or_else(|| format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))?;
    Ok(serde_json::from_str(line)?)
}

fn ours(what: &str, file: &Path) -> Result<Told, Failed> {
    told(Command::new(std::env::current_exe()?).args(["net", what]).arg(file))
}

fn theirs(more: &[&str], file: &Path, condition: &str) -> Result<Told, Failed> {
    told(Command::new(subject::peers().join("bin/stormpy-steady")).arg(file).args(["--where", condition]).args(more))
}

/// The slowest net under a thousand states, in milliseconds from the bytes to the values: where nothing was solved before in its process,
/// and where it was.
///
/// # Errors
/// A process fails.
pub fn small(bench: &mut Bench) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let nets = [polling(6), closed(7), manufacturing(2)];
    let nets = nets.iter().map(|net| files(folder.path(), net, Format::Jani)).collect::<Result<Vec<_>, _>>()?;
    let mut runs = [Vec::new(), Vec::new()];
    for _ in 0..bench.runs {
        let mut worst = [0.0_f64; 2];
        for (own, _) in &nets {
            let told = ours("solve", own)?;
            let again = told.again_seconds.ok_or("a small net took long")?;
            let name = own.file_stem().unwrap_or_default().to_string_lossy();
            for ((measure, seconds), worst) in SMALL.into_iter().zip([told.seconds, again]).zip(&mut worst) {
                let here = seconds * 1e3;
                bench.row(&Run { measure, of: Some(&name), here, peer: None }, "ms")?;
                *worst = worst.max(here);
            }
        }
        runs.iter_mut().zip(worst).for_each(|(runs, worst)| runs.push(worst));
    }
    SMALL.into_iter().zip(&runs).try_for_each(|(measure, runs)| bench.alone(measure, "ms", runs, 1.0, "gspn.small"))
}

/// Nanoseconds a firing: 8 million a second are 125.
///
/// # Errors
/// The net cannot be simulated.
pub fn simulation(bench: &mut Bench) -> Result<(), Failed> {
    let net = polling(6).to_string().into_bytes();
    let runs = (0..bench.runs).map(|_| firing(&net, FIRINGS)).collect::<Result<Vec<_>, _>>()?;
    bench.alone("gspn.simulate", "ns a firing", &runs, 125.0, "gspn.simulate")
}

/// The worst relative error of a probability in the worst of the networks: nothing random, so one run.
///
/// # Errors
/// A net is not solved.
pub fn stiff(bench: &mut Bench) -> Result<(), Failed> {
    for (measure, customers, goal) in STIFF {
        let mut worst = 0.0_f64;
        for network in networks(customers) {
            let (states, here) = network.worst(LIMITS)?;
            let words = format!("worst relative error of {states} probabilities");
            bench.row(&Run { measure, of: Some(network.name), here, peer: None }, &format!("{words}: {here:.1e}"))?;
            worst = if worst.is_nan() || here <= worst { worst } else { here };
        }
        bench.alone(measure, "relative error", &[worst], goal, "gspn.stiff")?;
    }
    Ok(())
}

/// Our figure and the peer's.
type Pair = (f64, f64);

/// Whichever is worse beside the peer.
fn worse(one: Pair, other: Pair) -> Pair {
    if one.0 / one.1 > other.0 / other.1 { one } else { other }
}

/// What `here` needs of the bytes that states and edges may take.
fn part(here: f64, told: &Told, (state, edge): (f64, f64)) -> f64 {
    here / (state * told.tangible as f64 + edge * told.edges as f64)
}

/// Generation beside Sirio, with nets that it can take: it is some hundred times slower. Nothing where it is not installed.
///
/// # Errors
/// A process fails, or both do not find the same.
pub fn beside_sirio(bench: &mut Bench) -> Result<(), Failed> {
    const MEASURE: &str = "gspn.generate.sirio";
    if !installed("sirio") {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let peer = Peer { name: "Sirio 2.0.3".into(), build: "Maven Central, PNPRO as we write it, warmed for 3 s".into() };
    let nets = if bench.quick {
        [(closed(12), closed(7)), (kanban(2), kanban(1))]
    } else {
        [(closed(22), closed(7)), (kanban(3), kanban(1))]
    };
    let mut times = Vec::new();
    for _ in 0..bench.runs.min(3) {
        let mut slowest = (0.0, f64::INFINITY);
        for (net, warm) in &nets {
            let (own, other) = files(folder.path(), net, Format::Pnpro)?;
            let (_, warm) = files(folder.path(), warm, Format::Pnpro)?;
            let here = ours("generate", &own)?;
            let mut command = Command::new(subject::peers().join("bin/sirio-steady"));
            let there = told(command.arg(&other).arg("--warm").arg(&warm).args([
                "--cap",
                &CAP.to_string(),
                "--generate-only",
            ]))?;
            let name = net["name"].as_str().unwrap_or_default();
            if !there.capped && here.tangible != there.tangible {
                return Err(format!("{name}: {} states here, {} there", here.tangible, there.tangible).into());
            }
            let time = (here.generate_seconds, there.generate_seconds);
            let capped = if there.capped { "; the peer gave up, so its time is this at least" } else { "" };
            let words = format!("s for {} states{capped}", here.tangible);
            bench.row(&Run { measure: MEASURE, of: Some(name), here: time.0, peer: Some(time.1) }, &words)?;
            slowest = worse(time, slowest);
        }
        times.push(slowest);
    }
    bench.paired(MEASURE, "s", &times, &peer, 0.005, "gspn.sirio")
}

/// Generation beside stormpy, in time and in memory; nothing where it is not installed. What was taken before a process failed is kept.
///
/// # Errors
/// A process fails, or both do not find the same.
pub fn generation(bench: &mut Bench) -> Result<(), Failed> {
    const GROUP: &str = "gspn.generate";
    if !installed("stormpy") {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let mut taken = Generated::default();
    let end = generations(bench, folder.path(), &mut taken);
    if !taken.parts.is_empty() {
        bench.paired(TIME, "s", &taken.times, &stormpy(), 0.2, GROUP)?;
        bench.paired(MEMORY, "bytes", &taken.bytes, &stormpy(), 0.5, GROUP)?;
        bench.alone("gspn.memory", "of 60 bytes a state and 24 an edge", &taken.parts, 1.0, GROUP)?;
    }
    end
}

/// The worst net of each run.
#[derive(Default)]
struct Generated {
    times: Vec<Pair>,
    bytes: Vec<Pair>,
    parts: Vec<f64>,
}

fn generations(bench: &mut Bench, folder: &Path, taken: &mut Generated) -> Result<(), Failed> {
    // The peer takes minutes for the large ones.
    let (stations, customers, pallets) = if bench.quick { (12, 22, 4) } else { (15, 38, 6) };
    let mut nets = nets_of(stations, customers, pallets);
    for _ in 0..bench.runs.min(3) {
        let (mut slowest, mut largest, mut most) = ((0.0, f64::INFINITY), (0.0, f64::INFINITY), 0.0_f64);
        for (net, condition, before) in &mut nets {
            let (own, jani) = files(folder, net, Format::Jani)?;
            let here = ours("generate", &own)?;
            let there =
                once(before, || theirs(&["--generate-only", "--cap", &CHAIN_CAP.to_string()], &jani, condition))?;
            let name = net["name"].as_str().unwrap_or_default();
            if !there.capped && here.tangible != there.tangible {
                return Err(format!("{name}: {} states here, {} there", here.tangible, there.tangible).into());
            }
            let capped =
                if there.capped { "; the peer gave up, so its time and memory are these at least" } else { "" };
            let memory = |told: &Told| told.memory_bytes.ok_or("this system does not tell the peak of memory");
            let time = (here.generate_seconds, there.generate_seconds);
            let memory = (memory(&here)? as f64, memory(&there)? as f64);
            let words = format!("s for {} states and {} edges{capped}", here.tangible, here.edges);
            bench.row(&Run { measure: TIME, of: Some(name), here: time.0, peer: Some(time.1) }, &words)?;
            let (limit, goal) = (part(memory.0, &here, MOST), part(memory.0, &here, WANTED));
            let words = format!(
                "bytes: {limit:.2} of {} a state and {} an edge, {goal:.2} of {} and {}",
                MOST.0, MOST.1, WANTED.0, WANTED.1
            );
            bench.row(&Run { measure: MEMORY, of: Some(name), here: memory.0, peer: Some(memory.1) }, &words)?;
            (slowest, largest, most) = (worse(time, slowest), worse(memory, largest), most.max(limit));
        }
        taken.times.push(slowest);
        taken.bytes.push(largest);
        taken.parts.push(most);
    }
    Ok(())
}

/// One probability of each net, which both must find; the peer's fastest of its solvers; nothing where it is not installed. What was
/// taken before a process failed is kept.
///
/// # Errors
/// A process fails, or both do not find the same.
pub fn solution(bench: &mut Bench) -> Result<(), Failed> {
    if !installed("stormpy") {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let mut times = Vec::new();
    let taken = solutions(bench, folder.path(), &mut times);
    if times.is_empty() { taken } else { bench.paired(SOLVE, "s", &times, &stormpy(), 0.125, "gspn.solve").and(taken) }
}

/// The worst net of each run.
fn solutions(bench: &mut Bench, folder: &Path, times: &mut Vec<Pair>) -> Result<(), Failed> {
    let (stations, customers, pallets) = if bench.quick { (10, 15, 3) } else { (15, 38, 6) };
    let mut nets = nets_of(stations, customers, pallets);
    for _ in 0..bench.runs.min(3) {
        let mut slowest = (0.0, f64::INFINITY);
        for (net, condition, before) in &mut nets {
            let (own, jani) = files(folder, net, Format::Jani)?;
            let here = ours("solve", &own)?;
            let there = once(before, || theirs(&["--cap", &CAP.to_string()], &jani, condition))?;
            let same = here.values.len() == there.values.len()
                && here.values.iter().zip(&there.values).all(|(one, other)| (one - other).abs() <= 1e-8);
            if !same && !there.capped {
                return Err(format!("{}: {:?} here, {:?} there", net["name"], here.values, there.values).into());
            }
            let run = Run { measure: SOLVE, of: net["name"].as_str(), here: here.seconds, peer: Some(there.seconds) };
            bench.row(&run, &solvers(&there))?;
            slowest = worse((here.seconds, there.seconds), slowest);
        }
        times.push(slowest);
    }
    Ok(())
}

/// The nets beside stormpy, what is asked of each, and what the peer said of it before.
fn nets_of(stations: u32, customers: u32, pallets: u32) -> [(serde_json::Value, &'static str, Option<Told>); 3] {
    let nets = [(polling(stations), "wait1 >= 1"), (closed(customers), "q1 >= 1"), (manufacturing(pallets), "P1 >= 1")];
    nets.map(|(net, condition)| (net, condition, None))
}

/// What the peer says of a net. Where it gave up in one run, it is not waited for in the next.
fn once(before: &mut Option<Told>, ask: impl FnOnce() -> Result<Told, Failed>) -> Result<Told, Failed> {
    if before.as_ref().is_none_or(|told| !told.capped) {
        *before = Some(ask()?);
    }
    Ok(before.clone().unwrap_or_default())
}

/// What became of the peer's solvers.
fn solvers(there: &Told) -> String {
    let mut words = if there.capped {
        format!("s; the peer gave up after {CAP} s, so its time is this at least")
    } else {
        format!("s; the peer by {}", there.solver)
    };
    for (became, names) in [("stopped, being slower or at the cap", &there.stopped), ("not near enough", &there.missed)]
    {
        if !names.is_empty() {
            words += &format!("; {became}: {}", names.join(" | "));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_solver_of_the_peer_is_told() {
        let there = Told { solver: "sor, visits".into(), stopped: vec!["eigen, visits".into()], ..Told::default() };
        assert_eq!(solvers(&there), "s; the peer by sor, visits; stopped, being slower or at the cap: eigen, visits");
        let missed = vec!["sor, visits".into(), "sor, equations".into()];
        let there = Told { capped: true, missed, ..Told::default() };
        let wanted = "s; the peer gave up after 120 s, so its time is this at least; not near enough: sor, visits | sor, equations";
        assert_eq!(solvers(&there), wanted);
    }
}
