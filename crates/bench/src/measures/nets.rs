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

/// The group under which they are asked for.
const GROUP: &str = "gspn";
/// Firings in a run of the simulation.
const FIRINGS: u64 = 10_000_000;

/// Seconds after which Sirio gives up.
const CAP: &str = "120";
/// Bytes that a tangible state and an edge may take, and those that they should.
const MOST: (f64, f64) = (60.0, 24.0);
const WANTED: (f64, f64) = (24.0, 8.0);
/// Customers of the stiff networks of at most 600 states, and of those of about 1e5: 462 and 98,280.
const STIFF: [(&str, u32, f64); 2] = [("gspn.stiff.600", 6, 1e-9), ("gspn.stiff.100k", 23, 1e-7)];

/// Takes all of them; those with a peer only where it is installed.
///
/// # Errors
/// A process fails, or both do not find the same.
pub fn run(bench: &mut Bench) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    small(bench, folder.path())?;
    simulation(bench)?;
    stiff(bench)?;
    let sirio = if installed("sirio") { beside_sirio(bench, folder.path()) } else { Ok(()) };
    let stormpy = if installed("stormpy") { beside_stormpy(bench, folder.path()) } else { Ok(()) };
    // One peer that fails does not cost the other.
    sirio.and(stormpy)
}

fn beside_stormpy(bench: &mut Bench, folder: &Path) -> Result<(), Failed> {
    let peer = Peer { name: "stormpy 2.0.0".into(), build: "wheel of PyPI, JANI as we write it".into() };
    generation(bench, folder, &peer)?;
    solution(bench, folder, &peer)
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

/// The slowest net under a thousand states, in milliseconds from the bytes to the values.
fn small(bench: &mut Bench, folder: &Path) -> Result<(), Failed> {
    let nets = [polling(6), closed(7), manufacturing(2)];
    let nets = nets.iter().map(|net| files(folder, net, Format::Jani)).collect::<Result<Vec<_>, _>>()?;
    let mut runs = Vec::new();
    for _ in 0..bench.runs {
        let mut worst = 0.0_f64;
        for (own, _) in &nets {
            let here = ours("solve", own)?.seconds * 1e3;
            let name = own.file_stem().unwrap_or_default().to_string_lossy();
            bench.row(&Run { measure: "gspn.small", of: Some(&name), here, peer: None }, "ms")?;
            worst = worst.max(here);
        }
        runs.push(worst);
    }
    bench.alone("gspn.small", "ms", &runs, 1.0, GROUP)
}

/// Nanoseconds a firing: 8 million a second are 125.
fn simulation(bench: &mut Bench) -> Result<(), Failed> {
    let net = polling(6).to_string().into_bytes();
    let runs = (0..bench.runs).map(|_| firing(&net, FIRINGS)).collect::<Result<Vec<_>, _>>()?;
    bench.alone("gspn.simulate", "ns a firing", &runs, 125.0, GROUP)
}

/// The worst relative error of a probability in the worst of the networks: nothing random, so one run.
fn stiff(bench: &mut Bench) -> Result<(), Failed> {
    for (measure, customers, goal) in STIFF {
        let mut worst = 0.0_f64;
        for network in networks(customers) {
            let (states, here) = network.worst(LIMITS)?;
            let words = format!("worst relative error of {states} probabilities");
            bench.row(&Run { measure, of: Some(network.name), here, peer: None }, &format!("{words}: {here:.1e}"))?;
            worst = if worst.is_nan() || here <= worst { worst } else { here };
        }
        bench.alone(measure, "relative error", &[worst], goal, GROUP)?;
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

/// Generation beside Sirio, with nets that it can take: it is some hundred times slower.
fn beside_sirio(bench: &mut Bench, folder: &Path) -> Result<(), Failed> {
    const MEASURE: &str = "gspn.generate.sirio";
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
            let (own, other) = files(folder, net, Format::Pnpro)?;
            let (_, warm) = files(folder, warm, Format::Pnpro)?;
            let here = ours("generate", &own)?;
            let mut command = Command::new(subject::peers().join("bin/sirio-steady"));
            let there = told(command.arg(&other).arg("--warm").arg(&warm).args(["--cap", CAP, "--generate-only"]))?;
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
    bench.paired(MEASURE, "s", &times, &peer, 0.005, GROUP)
}

/// The worst net of each run, in time and in memory.
fn generation(bench: &mut Bench, folder: &Path, peer: &Peer) -> Result<(), Failed> {
    const TIME: &str = "gspn.generate.stormpy";
    const MEMORY: &str = "gspn.memory.stormpy";
    // The peer takes minutes for the large ones.
    let (stations, customers, pallets) = if bench.quick { (12, 22, 4) } else { (15, 38, 6) };
    let nets = [(polling(stations), "wait1 >= 1"), (closed(customers), "q1 >= 1"), (manufacturing(pallets), "P1 >= 1")];
    let (mut times, mut bytes, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.runs.min(3) {
        let (mut slowest, mut largest, mut most) = ((0.0, f64::INFINITY), (0.0, f64::INFINITY), 0.0_f64);
        for (net, condition) in &nets {
            let (own, jani) = files(folder, net, Format::Jani)?;
            let (here, there) = (ours("generate", &own)?, theirs(&["--generate-only"], &jani, condition)?);
            let name = net["name"].as_str().unwrap_or_default();
            if here.tangible != there.tangible {
                return Err(format!("{name}: {} states here, {} there", here.tangible, there.tangible).into());
            }
            let memory = |told: &Told| told.memory_bytes.ok_or("this system does not tell the peak of memory");
            let time = (here.generate_seconds, there.generate_seconds);
            let memory = (memory(&here)? as f64, memory(&there)? as f64);
            let words = format!("s for {} states and {} edges", here.tangible, here.edges);
            bench.row(&Run { measure: TIME, of: Some(name), here: time.0, peer: Some(time.1) }, &words)?;
            let (limit, goal) = (part(memory.0, &here, MOST), part(memory.0, &here, WANTED));
            let words = format!(
                "bytes: {limit:.2} of {} a state and {} an edge, {goal:.2} of {} and {}",
                MOST.0, MOST.1, WANTED.0, WANTED.1
            );
            bench.row(&Run { measure: MEMORY, of: Some(name), here: memory.0, peer: Some(memory.1) }, &words)?;
            (slowest, largest, most) = (worse(time, slowest), worse(memory, largest), most.max(limit));
        }
        times.push(slowest);
        bytes.push(largest);
        parts.push(most);
    }
    bench.paired(TIME, "s", &times, peer, 0.2, GROUP)?;
    bench.paired(MEMORY, "bytes", &bytes, peer, 0.5, GROUP)?;
    bench.alone("gspn.memory", "of 60 bytes a state and 24 an edge", &parts, 1.0, GROUP)
}

/// One probability of two nets, which both must find; the peer's fastest of its solvers.
fn solution(bench: &mut Bench, folder: &Path, peer: &Peer) -> Result<(), Failed> {
    let nets = [(polling(10), "wait1 >= 1"), (closed(15), "q1 >= 1")];
    let mut times = Vec::new();
    for _ in 0..bench.runs.min(3) {
        let mut slowest = (0.0, f64::INFINITY);
        for (net, condition) in &nets {
            let (own, jani) = files(folder, net, Format::Jani)?;
            let (here, there) = (ours("solve", &own)?, theirs(&[], &jani, condition)?);
            let same = here.values.len() == there.values.len()
                && here.values.iter().zip(&there.values).all(|(one, other)| (one - other).abs() <= 1e-8);
            if !same {
                return Err(format!("{}: {:?} here, {:?} there", net["name"], here.values, there.values).into());
            }
            let time = (here.seconds, there.seconds);
            let run = Run { measure: "gspn.solve.stormpy", of: net["name"].as_str(), here: time.0, peer: Some(time.1) };
            bench.row(&run, "s")?;
            slowest = worse(time, slowest);
        }
        times.push(slowest);
    }
    bench.paired("gspn.solve.stormpy", "s", &times, peer, 0.125, GROUP)
}
