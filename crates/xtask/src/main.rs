//! Chores of the workspace that are not part of the product. Today there is one: `cargo run -p xtask -- tidy`, the same checks that
//! `cargo test` runs through `tests/tidy.rs`.

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => tidy(),
        _ => {
            eprintln!("usage: cargo run -p xtask -- tidy");
            ExitCode::from(2)
        }
    }
}

fn tidy() -> ExitCode {
    let mut faults = 0;
    for check in xtask::CHECKS {
        match (check.run)(&xtask::root()) {
            Ok(found) => {
                faults += found.len();
                found.iter().for_each(|fault| println!("{}: {fault}", check.name));
            }
            Err(reason) => {
                faults += 1;
                println!("{}: could not run: {reason}", check.name);
            }
        }
    }
    println!("{} checks, {faults} faults", xtask::CHECKS.len());
    if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
