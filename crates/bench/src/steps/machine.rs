//! Where and of what calibrations are taken.

use cost::calibration::{Machine, Versions};

use crate::process;

/// This machine.
#[must_use]
pub fn machine() -> Machine {
    let cores = std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX));
    Machine { cpu: word(process::model()), cores, kernel: word(process::kernel()) }
}

/// This program and its library of cryptography.
#[must_use]
pub fn versions() -> Versions {
    Versions {
        program: env!("CARGO_PKG_VERSION").into(),
        library: concat!("aws-lc-rs ", env!("AWS_LC_RS_VERSION")).into(),
        build: if cfg!(debug_assertions) { "debug" } else { "release" }.into(),
    }
}

/// As a calibration takes it, whatever the kernel says.
fn word(text: String) -> String {
    let text: String = text.chars().filter(|letter| !letter.is_control()).take(80).collect();
    if text.trim().is_empty() { "unknown".into() } else { text.trim().into() }
}
