//! `bench [--quick] [measure...]`: takes the measures and appends them to `bench-runs/<date>-<machine>/measures.jsonl`.
//!
//! `bench serve ...`, `bench guard ...`, `bench storm ...` and `bench authority FOLDER` make it one of the measured processes.
//! `bench steps [--quick]` measures single steps and prints the calibration; `bench step ...` is one process of it.
//! `bench gd ...` is one process of the scenario of P4, which `trapkey reproduce p4 --measure` runs.
//! `bench order` finds out how `trapkey` is laid out best.

use std::path::PathBuf;
use std::process::ExitCode;

use bench::Failed;
use bench::authority;
use bench::guard;
use bench::load::Security;
use bench::measures::{Bench, bytes, choices, crowd, guarded, instructions, lag, nets, oracle, pdp, services, storm};
use bench::real;
use bench::record::table;
use bench::serve;
use bench::steps;

type Measure = fn(&mut Bench) -> Result<(), Failed>;

/// The measures by the names under which they are asked for.
const MEASURES: [(&str, Measure); 24] = [
    ("read.none", |bench| services::reads(bench, Security::None)),
    ("read.encrypt", |bench| services::reads(bench, Security::Encrypt)),
    ("connect", services::connects),
    ("node.bytes", bytes::nodes),
    ("idle.rss", bytes::idle),
    ("check.instructions", instructions::run),
    ("pdp", pdp::run),
    ("revocation.lag", lag::run),
    ("guard.read.none", |bench| guarded::reads(bench, Security::None)),
    ("guard.read.encrypt", |bench| guarded::reads(bench, Security::Encrypt)),
    ("guard.latency", guarded::latencies),
    ("guard.items", crowd::items),
    ("guard.sessions", crowd::sessions),
    ("guard.storm", storm::run),
    ("guard.halfopen", crowd::half_open),
    ("guard.lag", lag::guarded),
    ("guard.oracle", oracle::run),
    ("gspn.small", nets::small),
    ("gspn.simulate", nets::simulation),
    ("gspn.stiff", nets::stiff),
    ("gspn.sirio", nets::beside_sirio),
    ("gspn.generate", nets::generation),
    ("gspn.solve", nets::solution),
    ("cost.choose", choices::run),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["serve", words @ ..] => serve::options(words).and_then(|options| serve::run(&options)),
        ["guard", words @ ..] => guard::options(words).and_then(|options| guard::run(&options)),
        ["order"] => real::order(),
        ["storm", folder, url, count, guests] => count
            .parse()
            .map_err(Failed::from)
            .and_then(|count| Ok((count, storm::Guests::named(guests).ok_or("bench storm: token or user")?)))
            .and_then(|(count, guests)| storm::clients(folder, url, count, guests)),
        ["step", words @ ..] => steps::child(words),
        ["steps", words @ ..] => measure_steps(words.contains(&"--quick")),
        ["net", what, file] => bench::nets::run(what, &PathBuf::from(file)),
        ["gd", part, told] => bench::gd::part::run(part, told),
        ["gd", part] => bench::gd::part::run(part, "null"),
        ["authority", folder] => authority::run(&PathBuf::from(folder)),
        words => take(words),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The calibration of this machine.
fn measure_steps(quick: bool) -> Result<(), Failed> {
    let plan = if quick { steps::Plan::QUICK } else { steps::Plan::FULL };
    let mut told = |told: steps::Told<'_>| eprintln!("{}/{} {}", told.done, told.all, told.step);
    let calibration = steps::measure(&steps::all(), plan, &steps::Program::own(&["step"]), &mut told)?;
    print!("{}", calibration.write()?);
    Ok(())
}

/// Whether a word asks for a measure: by its name, or by what several begin with (`gspn`, `guard.read`).
fn asks(word: &str, name: &str) -> bool {
    name.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn take(words: &[&str]) -> Result<(), Failed> {
    let (quick, wanted): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| **word == "--quick");
    if let Some(unknown) = wanted.iter().find(|word| !MEASURES.iter().any(|(name, _)| asks(word, name))) {
        let names: Vec<&str> = MEASURES.iter().map(|(name, _)| *name).collect();
        return Err(format!("there is no measure `{unknown}`; there are {}", names.join(", ")).into());
    }
    let mut bench = Bench::open(!quick.is_empty())?;
    let mut failed = Vec::new();
    for (name, measure) in MEASURES {
        if wanted.is_empty() || wanted.iter().any(|word| asks(word, name)) {
            eprintln!("{name}");
            // One measure that cannot be taken does not cost the others.
            if let Err(error) = measure(&mut bench) {
                eprintln!("  not taken: {error}");
                failed.push(name);
            }
        }
    }
    println!("{}", table(bench.records()));
    if failed.is_empty() { Ok(()) } else { Err(format!("not taken: {}", failed.join(", ")).into()) }
}
