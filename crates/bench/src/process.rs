//! What a server process cost: processor time of all its threads, and its peak memory, as the kernel counts them.
#![expect(clippy::disallowed_methods, reason = "the one file of this crate that reads the kernel's process accounts")]

use std::fs;
use std::io;

/// Processor time of a process: user plus system, all threads, in seconds.
///
/// # Errors
/// The process is gone or `/proc` cannot be read.
pub fn cpu_seconds(pid: u32) -> io::Result<f64> {
    // The clock-tick counters of /proc/PID/stat count 10 ms; the scheduler's own account is in nanoseconds a thread.
    let mut nanos: u64 = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let path = thread?.path().join("schedstat");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let first = text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
        nanos += first.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unexpected schedstat"))?;
    }
    Ok(nanos as f64 / 1e9)
}

/// Peak resident memory of a process in bytes (`VmHWM`).
///
/// # Errors
/// As [`cpu_seconds`].
pub fn peak_rss(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()).and_then(|word| word.parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no VmHWM"))
}

/// Name of the machine for the records: processor model and number of processors.
#[must_use]
pub fn machine() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cores = text.lines().filter(|line| line.starts_with("processor")).count();
    let model = text
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or("unknown")
        .trim_matches([' ', '\t', ':']);
    let word: String =
        model.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    let mut parts: Vec<&str> = word.split('-').filter(|part| !part.is_empty()).collect();
    parts.truncate(6);
    format!("{}-{cores}cpu", parts.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_used_time_and_memory() {
        let pid = std::process::id();
        assert!(cpu_seconds(pid).unwrap() > 0.0);
        assert!(peak_rss(pid).unwrap() > 100_000);
        assert!(cpu_seconds(u32::MAX).is_err());
    }
}
