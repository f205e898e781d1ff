//! `gspn.*`: the solver of nets, beside stormpy where it is installed. Each figure is of a process of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use gspn::formats::{Format, write};
use gspn::json;

use super::Bench;
use crate::nets::{Told, closed, firing, manufacturing, polling};
use crate::record::Peer;
use crate::{Failed, files, subject};

/// The group under which they are asked for.
const GROUP: &str = "gspn";
/// Firings in a run of the simulation.
const FIRINGS: u64 = 10_000_000;

/// Takes all of them; those with a peer only where it is installed.
///
/// # Errors
/// A process fails, or both do not find the same.
pub fn run(bench: &mut Bench) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    small(bench, folder.path())?;
    simulation(bench)?;
    let peer = Peer { name: "stormpy 2.0.0".into(), build: "wheel of PyPI, JANI as we write it".into() };
    generation(bench, folder.path(), &peer)?;
    solution(bench, folder.path(), &peer)
}

/// A net as a file for each of the two.
fn files(folder: &Path, net: &serde_json::Value) -> Result<(PathBuf, PathBuf), Failed> {
    let bytes = net.to_string().into_bytes();
    let refused = |refusal: gspn::Refusal| Failed::from(format!("{}: {}", refusal.name, refusal.why));
    let document = json::read(&bytes).map_err(refused)?;
    let name = net["name"].as_str().unwrap_or("net");
    let (own, jani) = (folder.join(format!("{name}.json")), folder.join(format!("{name}.jani")));
    files::write(&own, &bytes)?;
    files::write(&jani, write(&document.net, Format::Jani).map_err(refused)?)?;
    Ok((own, jani))
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
    let nets = nets.iter().map(|net| files(folder, net)).collect::<Result<Vec<_>, _>>()?;
    let mut runs = Vec::new();
    for _ in 0..bench.runs {
        let mut worst = 0.0_f64;
        for (own, _) in &nets {
            worst = worst.max(ours("solve", own)?.seconds * 1e3);
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

/// The worst net of each run, in time and in memory.
fn generation(bench: &mut Bench, folder: &Path, peer: &Peer) -> Result<(), Failed> {
    // The peer takes minutes for the large ones.
    let (stations, customers, pallets) = if bench.quick { (12, 22, 4) } else { (15, 38, 6) };
    let nets = [(polling(stations), "wait1 >= 1"), (closed(customers), "q1 >= 1"), (manufacturing(pallets), "P1 >= 1")];
    let (mut times, mut bytes) = (Vec::new(), Vec::new());
    for _ in 0..bench.runs.min(3) {
        let (mut slowest, mut largest) = ((0.0, f64::INFINITY), (0.0, f64::INFINITY));
        for (net, condition) in &nets {
            let (own, jani) = files(folder, net)?;
            let (here, there) = (ours("generate", &own)?, theirs(&["--generate-only"], &jani, condition)?);
            if here.tangible != there.tangible {
                return Err(format!("{}: {} states here, {} there", net["name"], here.tangible, there.tangible).into());
            }
            let memory = |told: &Told| told.memory_bytes.ok_or("this system does not tell the peak of memory");
            let (time, memory) =
                ((here.generate_seconds, there.generate_seconds), (memory(&here)? as f64, memory(&there)? as f64));
            eprintln!(
                "  {}: {} states, {} edges, {:.3} s here, {:.3} there, {:.1} MB here, {:.1} there",
                net["name"],
                here.tangible,
                here.edges,
                time.0,
                time.1,
                memory.0 / 1e6,
                memory.1 / 1e6
            );
            let worse =
                |one: (f64, f64), other: (f64, f64)| if one.0 / one.1 > other.0 / other.1 { one } else { other };
            (slowest, largest) = (worse(time, slowest), worse(memory, largest));
        }
        times.push(slowest);
        bytes.push(largest);
    }
    bench.paired("gspn.generate.stormpy", "s", &times, peer, 0.2, GROUP)?;
    bench.paired("gspn.generate.memory.stormpy", "bytes", &bytes, peer, 0.5, GROUP)
}

/// One probability of two nets, which both must find; the peer's fastest of its solvers.
fn solution(bench: &mut Bench, folder: &Path, peer: &Peer) -> Result<(), Failed> {
    let nets = [(polling(10), "wait1 >= 1"), (closed(15), "q1 >= 1")];
    let mut times = Vec::new();
    for _ in 0..bench.runs.min(3) {
        let mut slowest = (0.0, f64::INFINITY);
        for (net, condition) in &nets {
            let (own, jani) = files(folder, net)?;
            let (here, there) = (ours("solve", &own)?, theirs(&[], &jani, condition)?);
            let same = here.values.len() == there.values.len()
                && here.values.iter().zip(&there.values).all(|(one, other)| (one - other).abs() <= 1e-8);
            if !same {
                return Err(format!("{}: {:?} here, {:?} there", net["name"], here.values, there.values).into());
            }
            eprintln!("  {}: {:.4} s here, {:.4} there", net["name"], here.seconds, there.seconds);
            if here.seconds / there.seconds > slowest.0 / slowest.1 {
                slowest = (here.seconds, there.seconds);
            }
        }
        times.push(slowest);
    }
    bench.paired("gspn.solve.stormpy", "s", &times, peer, 0.125, GROUP)
}
