//! Processor time as the kernel counts it, in nanoseconds.
#![expect(clippy::disallowed_methods, reason = "reads the kernel's accounts of processes")]

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;

use crate::Failed;

/// What a file of a thread says that ends while it is read (ESRCH).
const NO_SUCH_PROCESS: i32 = 3;

/// What the kernel counts of one thread, to be asked again and again.
#[derive(Debug)]
pub struct Account {
    file: File,
    used: u64,
}

impl Account {
    /// Of each thread that a process has now.
    ///
    /// # Errors
    /// It is gone, or this kernel keeps no such accounts.
    pub fn of(process: u32) -> Result<Vec<Self>, Failed> {
        let mut accounts = Vec::new();
        for thread in fs::read_dir(format!("/proc/{process}/task"))? {
            match File::open(thread?.path().join("schedstat")) {
                // This thread has ended meanwhile.
                Err(error) if is_gone(&error) => {}
                file => accounts.push(Self { file: file?, used: 0 }),
            }
        }
        Ok(accounts)
    }

    /// Nanoseconds of processor time that it has used, user and system, exact for a thread that does not run, else as of its last tick; what it had used the
    /// last time for one that has ended.
    pub fn used(&mut self) -> u64 {
        let mut text = [0; 64];
        let count = self.file.read_at(&mut text, 0).unwrap_or(0);
        let first = text[..count].split(|byte| !byte.is_ascii_digit()).next();
        let used = first.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        self.used = used.unwrap_or(self.used);
        self.used
    }
}

fn is_gone(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(NO_SUCH_PROCESS)
}

/// Seconds of processor time that the threads have used which another process has, user and system. Exact for one that is asleep; one that runs
/// is told as of its last tick.
///
/// # Errors
/// It is gone, or this kernel keeps no such accounts.
pub fn of(process: u32) -> Result<f64, Failed> {
    let mut sum = None;
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let text = match fs::read_to_string(thread?.path().join("schedstat")) {
            // This thread has ended meanwhile.
            Err(error) if is_gone(&error) => continue,
            text => text?,
        };
        let spent = text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
        sum = Some(sum.unwrap_or(0) + spent.ok_or("no schedstat")?);
    }
    Ok(sum.ok_or("no schedstat")? as f64 * 1e-9)
}

/// Two processors that this program may use; none where it may use only one.
#[must_use]
pub fn processors() -> Option<(usize, usize)> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let mut found = list.trim().split(',').flat_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse().unwrap_or(0_usize), last.parse().unwrap_or(0_usize));
        first..=last
    });
    Some((found.next()?, found.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Whose;

    #[test]
    fn work_shows_in_the_accounts() {
        let before = Whose::Process.cpu();
        let mut sum = 0_u64;
        while Whose::Process.cpu() < before + 0.01 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(1));
        }
        assert!(of(std::process::id()).unwrap() >= 0.0);
        assert!(of(u32::MAX).is_err());
    }
}
