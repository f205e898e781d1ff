//! `bench`: runs the measures and appends them to `bench-runs/<date>-<machine>/measures.jsonl`.

use bench::measures;
use bench::record::{Record, table};

fn main() -> std::process::ExitCode {
    let which: Vec<String> = std::env::args().skip(1).collect();
    let wants = |name: &str| which.is_empty() || which.iter().any(|word| word == name);
    let mut records: Vec<Record> = Vec::new();
    if wants("pdp") {
        records.extend(measures::pdp::run(7));
    }
    println!("{}", table(&records));
    std::process::ExitCode::SUCCESS
}
