//! The server's core and a client in one process, for callgrind: see `bench::measures::instructions`. A program of its
//! own, so that a build that permits everything never stands where the real one is looked for.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let folder = PathBuf::from(std::env::args_os().nth(1).unwrap_or_default());
    match bench::measures::instructions::in_memory(&folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("in_memory: {error}");
            ExitCode::FAILURE
        }
    }
}
