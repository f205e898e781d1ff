//! A PostgreSQL server of our own: found where distributions put it, started in a folder of its own, on a socket there and nowhere else, as
//! somebody without rights where we are root (PostgreSQL refuses root), and stopped at the end.
#![expect(clippy::disallowed_methods, reason = "looks for the programs and the user that PostgreSQL needs")]

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, geteuid, kill_process};

use super::database::USER;
use super::launch;
use crate::Failed;
use crate::clock::Stopwatch;
use crate::scratch::{self, Scratch, Started};

/// Seconds in which it must be there.
const PATIENCE: f64 = 30.0;

/// A running server.
#[derive(Debug)]
pub struct Server {
    child: Child,
    _started: Started,
    folder: Scratch,
}

/// Where its programs are: the newest under `/usr/lib/postgresql`, or what `pg_config` says.
#[must_use]
pub fn find() -> Option<PathBuf> {
    let has_all = |folder: &PathBuf| ["initdb", "postgres", "pg_isready"].iter().all(|name| folder.join(name).exists());
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = installed
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort();
    let newest = versions.into_iter().rev().map(|(_, folder)| folder).find(&has_all);
    newest.or_else(|| {
        let told = Command::new("pg_config").arg("--bindir").output().ok()?;
        Some(PathBuf::from(String::from_utf8(told.stdout).ok()?.trim())).filter(has_all)
    })
}

/// Its version, as it tells it.
#[must_use]
pub fn version(programs: &Path) -> String {
    let told = Command::new(programs.join("postgres")).arg("--version").output().ok();
    told.map(|told| String::from_utf8_lossy(&told.stdout).trim().to_owned()).unwrap_or_default()
}

impl Server {
    /// Makes a database below `medium` and starts the server on one processor.
    ///
    /// # Errors
    /// It does not start, or there is nobody without rights to start it as.
    pub fn start(programs: &Path, medium: &Path, processor: usize) -> Result<Self, Failed> {
        let folder = Scratch::below(medium)?;
        let user = if geteuid().is_root() { Some(unprivileged()?) } else { None };
        if let Some((user, group)) = user {
            std::os::unix::fs::chown(folder.path(), Some(user), Some(group))?;
        }
        let as_nobody = |mut command: Command| {
            command.current_dir(folder.path()).stdin(Stdio::null());
            if let Some((user, group)) = user {
                command.uid(user).gid(group);
            }
            command
        };
        let data = folder.path().join("data").display().to_string();
        let words = ["-D", &data, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"];
        let mut initdb = Command::new(programs.join("initdb"));
        initdb.args(words);
        let made = scratch::output(&mut as_nobody(initdb))?;
        if !made.status.success() {
            return Err(format!("initdb: {}", String::from_utf8_lossy(&made.stderr).trim()).into());
        }
        let socket = format!("unix_socket_directories={}", folder.path().display());
        let settings = [
            "listen_addresses=",
            &socket,
            "autovacuum=off",
            "checkpoint_timeout=1d",
            "max_wal_size=8GB",
            "logging_collector=off",
            "log_min_messages=fatal",
        ];
        let mut command = launch::ending_with_us(processor, &programs.join("postgres"));
        command.args(["-D", &data]).args(settings.iter().flat_map(|setting| ["-c", *setting]));
        let (child, started) = scratch::start(as_nobody(command).stdout(Stdio::null()).stderr(Stdio::null()))
            .map_err(|it| launch::unstarted(&it))?;
        let mut server = Self { child, _started: started, folder };
        let watch = Stopwatch::start();
        loop {
            let mut ask = Command::new(programs.join("pg_isready"));
            ask.args(["--quiet", "--timeout=5", "--username", USER, "--host"]).arg(server.folder.path());
            if ask.status()?.success() {
                return Ok(server);
            }
            if let Some(status) = server.child.try_wait()? {
                return Err(format!("PostgreSQL ended: {status}").into());
            }
            if watch.seconds() > PATIENCE {
                return Err("PostgreSQL does not come up".into());
            }
        }
    }

    /// Where its socket is.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGINT: it ends its connections and itself.
        if let Some(process) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _gone = kill_process(process, Signal::INT);
        }
        let _waited = self.child.wait();
    }
}

/// Who has no rights: `postgres` where there is one, else `nobody`.
fn unprivileged() -> Result<(u32, u32), Failed> {
    let users = fs::read_to_string("/etc/passwd")?;
    let of = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    of("postgres").or_else(|| of("nobody")).ok_or_else(|| "neither `postgres` nor `nobody` is a user here".into())
}
