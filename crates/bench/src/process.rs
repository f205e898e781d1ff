//! What a server process cost: processor time of all its threads, and its peak memory, as the kernel counts them. And how programs are ended.
#![expect(clippy::disallowed_methods, reason = "the one file of this crate that reads the kernel's process accounts")]

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::clock::Stopwatch;

/// The kernel's clock ticks a second, as it shows them to programs: 100 on every architecture that Linux has today.
const TICKS: f64 = 100.0;

/// Seconds in which programs end by themselves, and how often is looked whether they have.
const PATIENCE: f64 = 3.0;
const LOOK: Duration = Duration::from_millis(10);

/// Processor time of a process in seconds: user plus system, all its threads and children, those that ended too. It is
/// told in hundredths of a second, so it wants runs of many seconds.
///
/// # Errors
/// The process is gone or `/proc` cannot be read.
pub fn cpu_seconds(pid: u32) -> io::Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in parentheses may hold anything; fields 14 to 17 are utime, stime, cutime and cstime (proc_pid_stat(5)).
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks: Vec<u64> = fields.skip(11).take(4).filter_map(|word| word.parse().ok()).collect();
    if ticks.len() < 4 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "unexpected stat"));
    }
    Ok(ticks.iter().sum::<u64>() as f64 / TICKS)
}

/// Whether a process has not ended: one that nobody has waited for yet has.
#[must_use]
pub fn is_there(pid: u32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = text.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next());
    state.is_some_and(|state| !matches!(state, "Z" | "X"))
}

/// Tells programs to end (SIGINT), ends those that have not in three seconds, and comes back when none is there any more.
pub fn end_all(programs: &BTreeSet<u32>) {
    let begun = Stopwatch::start();
    let there = || programs.iter().copied().filter(|id| is_there(*id));
    for (signal, patience) in [(Signal::INT, PATIENCE), (Signal::KILL, 2.0 * PATIENCE)] {
        for program in there().filter_map(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
            let _gone = kill_process(program, signal);
        }
        while there().next().is_some() && begun.seconds() < patience {
            std::thread::sleep(LOOK);
        }
    }
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

/// Has the peak of this process begin anew.
///
/// # Errors
/// The system does not allow it.
pub fn forget_peak() -> io::Result<()> {
    fs::write("/proc/self/clear_refs", "5")
}

/// Lets a process with all its threads run on one processor only.
///
/// # Errors
/// `taskset` is missing, or the machine has no such processor.
pub fn pin(pid: u32, processor: usize) -> io::Result<()> {
    taskset(pid, &processor.to_string())
}

/// Lets a process run everywhere again.
///
/// # Errors
/// As [`pin`].
pub fn unpin(pid: u32) -> io::Result<()> {
    taskset(pid, "0-1023")
}

fn taskset(pid: u32, processors: &str) -> io::Result<()> {
    let mut command = std::process::Command::new("taskset");
    command.args(["--all-tasks", "--pid", "--cpu-list", processors, &pid.to_string()]);
    let output = command.output()?;
    let told = || io::Error::other(format!("taskset: {}", String::from_utf8_lossy(&output.stderr)));
    output.status.success().then_some(()).ok_or_else(told)
}

/// The idle states of the first processor. They are the same for all.
const IDLE: &str = "/sys/devices/system/cpu/cpu0/cpuidle";

/// Asks the kernel to have processors without work look for some, where it can and this program may; it does as long as the file is open.
#[must_use]
pub fn poll() -> Option<fs::File> {
    let told = |what: &str| fs::read_to_string(format!("{IDLE}/state0/{what}")).unwrap_or_default();
    if told("name").trim() != "POLL" || told("disable").trim() != "0" {
        return None;
    }
    let mut held = fs::OpenOptions::new().write(true).open("/dev/cpu_dma_latency").ok()?;
    io::Write::write_all(&mut held, &0_i32.to_ne_bytes()).ok()?;
    Some(held)
}

/// How often the first processor has gone to sleep in another way than looking for work.
#[cfg(test)]
pub(crate) fn halts() -> Option<u64> {
    let state = |number: u32| fs::read_to_string(format!("{IDLE}/state{number}/usage")).ok()?.trim().parse().ok();
    (1..10).map_while(state).reduce(|sum: u64, usage| sum + usage)
}

/// The machine's memory.
#[must_use]
pub fn memory_kilobytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// How busy the machine is: the load averages.
#[must_use]
pub fn load() -> String {
    fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned()
}

/// Ticks that the host of this virtual machine gave to others, and all ticks, of all processors together.
#[must_use]
pub fn stolen() -> Option<(f64, f64)> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks = numbers(line);
    // user nice system idle iowait irq softirq steal; what guests take is within user (proc_stat(5)).
    Some((*ticks.get(7)?, ticks.iter().take(8).sum()))
}

/// What the processors have done so far, in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Ticks {
    /// For programs and their kernel.
    busy: f64,
    /// For this program and for those of its children that it has waited for.
    own: f64,
    /// In all.
    all: f64,
}

impl Ticks {
    /// The share of the processors that other programs had from `before` until now, 0 to 1.
    #[must_use]
    pub fn since(&self, before: &Self) -> f64 {
        let others = (self.busy - before.busy) - (self.own - before.own);
        (others / (self.all - before.all).max(1.0)).clamp(0.0, 1.0)
    }
}

/// What the processors have done for whom; none where the kernel does not tell.
#[must_use]
pub fn others() -> Option<Ticks> {
    let told = fs::read_to_string("/proc/stat").ok()?;
    let ticks = numbers(told.lines().next()?.strip_prefix("cpu ")?);
    // user nice system idle iowait irq softirq steal; interrupts belong to nobody (proc_stat(5)).
    let busy = ticks.get(..3)?.iter().sum();
    let told = fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name, which may have spaces, and the state, a letter: the fourth is first, utime stime cutime cstime are 14 to 17
    // (proc_pid_stat(5)).
    let own = numbers(told.rsplit_once(')')?.1);
    Some(Ticks { busy, own: own.get(10..14)?.iter().sum(), all: ticks.iter().take(8).sum() })
}

fn numbers(text: &str) -> Vec<f64> {
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Name of the machine for the records: processor model and number of processors.
#[must_use]
pub fn machine() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cores = text.lines().filter(|line| line.starts_with("processor")).count();
    let model = model_in(&text);
    let word: String =
        model.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    let mut parts: Vec<&str> = word.split('-').filter(|part| !part.is_empty()).collect();
    parts.truncate(6);
    format!("{}-{cores}cpu", parts.join("-"))
}

/// The processor's name, as its maker writes it.
#[must_use]
pub fn model() -> String {
    model_in(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()).to_owned()
}

fn model_in(text: &str) -> &str {
    let line = text.lines().find_map(|line| line.strip_prefix("model name"));
    line.unwrap_or("unknown").trim_matches([' ', '\t', ':'])
}

/// Name and release of the kernel.
#[must_use]
pub fn kernel() -> String {
    let told = |name| fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    format!("{} {}", told("ostype").trim(), told("osrelease").trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_program_does_is_not_what_others_do() {
        let before = Ticks { busy: 1_000.0, own: 100.0, all: 5_000.0 };
        let share = |busy: f64, own: f64| Ticks { busy: 1_000.0 + busy, own: 100.0 + own, all: 5_200.0 }.since(&before);
        assert!((share(150.0, 150.0), share(150.0, 100.0), share(200.0, 0.0)) == (0.0, 0.25, 1.0));
        // Ticks of a child that ended before it was looked at.
        assert!(share(10.0, 20.0) == 0.0 && before.since(&before) == 0.0);
        let now = others().expect("a kernel that tells");
        assert!(now.own > 0.0 && now.own <= now.busy && now.busy <= now.all, "{now:?}");
    }

    #[test]
    fn this_process_has_used_time_and_memory() {
        let pid = std::process::id();
        let mut sum = 0_u64;
        while cpu_seconds(pid).unwrap() < 0.02 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(1));
        }
        assert!(peak_rss(pid).unwrap() > 100_000);
        assert!(cpu_seconds(u32::MAX).is_err());
    }
}
