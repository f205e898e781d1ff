//! Processor time as the kernel counts it, in nanoseconds.
#![expect(clippy::disallowed_methods, reason = "reads the kernel's accounts of processes")]

use std::fs;
use std::io::ErrorKind;

use crate::Failed;

/// What a file of a thread says that ends while it is read (ESRCH).
const NO_SUCH_PROCESS: i32 = 3;

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
            Err(error) if error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(NO_SUCH_PROCESS) => {
                continue;
            }
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
