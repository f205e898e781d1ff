//! The Debian package: made of this build, installed into a root of its own, run there by the line of its unit, removed,
//! purged. Needs root and the tools of Debian; says so where they are missing.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::up::{Up, until};

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

/// What a command says, if it succeeds.
fn said(command: &mut Command) -> String {
    let done = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{command:?}: {out}{err}");
    out.into_owned()
}

fn there(program: &str) -> bool {
    Command::new("sh")
        .args(["-c", &format!("command -v {program} >/dev/null")])
        .status()
        .is_ok_and(|done| done.success())
}

/// A root with nothing but users, names of hosts, and the libraries of this program.
struct Root(tempfile::TempDir);

impl Root {
    fn new() -> Self {
        let root = Self(tempfile::tempdir().unwrap());
        for folder in ["etc", "tmp", "proc", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"] {
            std::fs::create_dir_all(root.path(folder)).unwrap();
        }
        for file in ["var/lib/dpkg/status", "var/lib/dpkg/available"] {
            std::fs::write(root.path(file), "").unwrap();
        }
        std::fs::write(root.path("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
        std::fs::write(root.path("etc/group"), "root:x:0:\n").unwrap();
        std::fs::write(root.path("etc/hosts"), "127.0.0.1 localhost\n").unwrap();
        let libraries = said(Command::new("ldd").arg(env!("CARGO_BIN_EXE_trapkey")));
        for library in libraries.split_whitespace().filter(|word| word.starts_with('/')) {
            let to = root.path(&library[1..]);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(library, to).unwrap();
        }
        std::fs::set_permissions(root.0.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        root
    }

    fn path(&self, inside: &str) -> PathBuf {
        self.0.path().join(inside.trim_start_matches('/'))
    }

    fn dpkg(&self, args: &[&str]) -> String {
        let root = format!("--root={}", self.0.path().display());
        // There is no shell in there: the scripts are told where it is.
        said(Command::new("dpkg").args([&root, "--force-script-chrootless", "--force-depends"]).args(args))
    }

    /// The program, as the user of the package.
    fn as_user(&self) -> Command {
        let mut command = Command::new("chroot");
        command.args(["--userspec=trapkey:trapkey", &self.0.path().display().to_string()]);
        command
    }
}

fn package(folder: &Path) -> String {
    let script = here().join("package.sh");
    // To pack a debug build takes long.
    said(
        Command::new(script)
            .env("TRAPKEY_DEB_COMPRESSION", "none")
            .args([env!("CARGO_BIN_EXE_trapkey"), &folder.display().to_string()]),
    )
    .trim()
    .to_owned()
}

#[test]
fn the_package_is_installed_runs_by_its_unit_and_leaves_what_it_should() {
    let root_here = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    if !root_here || !["dpkg", "dpkg-deb", "useradd", "chroot", "strip"].iter().all(|tool| there(tool)) {
        return println!("SKIPPED: the package is installed by root, with the tools of Debian");
    }
    let folder = tempfile::tempdir().unwrap();
    let package = package(folder.path());
    let control = said(Command::new("dpkg-deb").args(["--field", &package]));
    assert!(control.contains("Package: trapkey") && control.contains(env!("CARGO_PKG_VERSION")), "{control}");
    if there("lintian") {
        said(Command::new("lintian").args(["--fail-on", "error", &package]));
    }
    let root = Root::new();
    root.dpkg(&["-i", &package]);
    let (etc, var) = (root.path("etc/trapkey"), root.path("var/lib/trapkey"));
    let users = std::fs::read_to_string(root.path("etc/passwd")).unwrap();
    let user: u32 =
        users.lines().find(|line| line.starts_with("trapkey:")).unwrap().split(':').nth(2).unwrap().parse().unwrap();
    let standing = std::fs::metadata(&var).unwrap();
    assert_eq!((standing.uid(), standing.mode() & 0o777), (user, 0o700));
    let config = std::fs::metadata(etc.join("trapkey.toml")).unwrap();
    assert_eq!(
        (config.uid(), config.mode() & 0o777),
        (0, 0o640),
        "the program reads its configuration and cannot write it"
    );

    // As README.Debian says, with ports that are free.
    let examples = root.path("usr/share/doc/trapkey/examples/batch-plant");
    for file in ["plant.toml", "policies.cedar", "workflow.toml"] {
        std::fs::copy(examples.join(file), etc.join(file)).unwrap();
    }
    let mut text = std::fs::read_to_string(etc.join("trapkey.toml")).unwrap();
    assert!(!text.contains("\"var/") && !text.contains("\"pki/"), "nothing is written below /etc");
    for known in ["8443", "4841", "4850", "4851", "4852"] {
        text = text.replace(&format!(":{known}\""), &format!(":{}\"", testkit::ports::free()));
    }
    std::fs::write(etc.join("trapkey.toml"), text).unwrap();
    let exec = line(&root.path("usr/lib/systemd/system/trapkey.service"), "ExecStart=");
    let made = ["/usr/bin/trapkey", "certs", "init", "--folder", "/var/lib/trapkey/pki"];
    said(root.as_user().args(made).env("TRAPKEY_CONFIG", "/etc/trapkey/trapkey.toml"));

    let ear = UnixDatagram::bind(root.path("tmp/notify")).unwrap();
    std::fs::set_permissions(root.path("tmp/notify"), std::fs::Permissions::from_mode(0o777)).unwrap();
    ear.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let log = std::fs::File::create(folder.path().join("log")).unwrap();
    let mut up = Up(root
        .as_user()
        .args(exec.split_whitespace())
        .env("NOTIFY_SOCKET", "/tmp/notify")
        .env("WATCHDOG_USEC", "1000000")
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap());
    let log = || std::fs::read_to_string(folder.path().join("log")).unwrap();
    let hear = || {
        let mut word = [0; 64];
        let length = ear.recv(&mut word).unwrap_or_else(|error| panic!("{error}: {}", log()));
        String::from_utf8_lossy(&word[..length]).into_owned()
    };
    assert_eq!(hear(), "READY=1");
    assert_eq!(hear(), "WATCHDOG=1");
    let pid = up.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    until("it says that it ends", || hear() == "STOPPING=1");
    assert!(up.0.wait().unwrap().success(), "{}", log());
    assert!(var.join("var/ledger").is_dir() && var.join("pki/mixer").is_dir());

    root.dpkg(&["-i", &package]);
    root.dpkg(&["-r", "trapkey"]);
    assert!(!root.path("usr/bin/trapkey").exists());
    assert!(var.join("var/ledger").is_dir() && etc.join("trapkey.toml").exists(), "removing keeps what is its owner's");
    root.dpkg(&["-P", "trapkey"]);
    assert!(!var.exists() && !etc.join("trapkey.toml").exists(), "purging does not");
}

/// The rest of the first line that begins so.
fn line(unit: &Path, start: &str) -> String {
    let text = std::fs::read_to_string(unit).unwrap();
    text.lines().find_map(|line| line.strip_prefix(start)).unwrap_or_else(|| panic!("no {start}")).to_owned()
}

#[test]
fn the_units_are_sound_and_leave_the_program_little() {
    for unit in ["trapkey.service", "trapkey@.service"] {
        let unit = here().join("systemd").join(unit);
        for (key, value) in [
            ("Type=", "notify"),
            ("User=", "trapkey"),
            ("NoNewPrivileges=", "yes"),
            ("CapabilityBoundingSet=", ""),
            ("ProtectSystem=", "strict"),
            ("MemoryDenyWriteExecute=", "yes"),
            ("RestrictAddressFamilies=", "AF_INET AF_INET6 AF_UNIX"),
            ("SystemCallFilter=", "@system-service"),
        ] {
            assert_eq!(line(&unit, key), value, "{key}");
        }
    }
    if !there("systemd-analyze") {
        return println!("SKIPPED: there is no systemd-analyze");
    }
    // With the program and the instance in their places.
    let folder = tempfile::tempdir().unwrap();
    for (from, to) in [("trapkey.service", "trapkey.service"), ("trapkey@.service", "trapkey@press.service")] {
        let text = std::fs::read_to_string(here().join("systemd").join(from)).unwrap();
        let text = text.replace("/usr/bin/trapkey", env!("CARGO_BIN_EXE_trapkey"));
        let unit = folder.path().join(to);
        std::fs::write(&unit, text).unwrap();
        let unit = unit.display().to_string();
        let verified = Command::new("systemd-analyze").args(["verify", "--man=no", &unit]).output().unwrap();
        let faults = String::from_utf8_lossy(&verified.stderr).into_owned();
        let ours: Vec<&str> = faults.lines().filter(|line| line.contains("trapkey")).collect();
        assert!(ours.is_empty(), "{ours:#?}");
        let known = ["security", "--offline=true", "--threshold=20", &unit];
        let exposure = Command::new("systemd-analyze").args(known).output().unwrap();
        let table = String::from_utf8_lossy(&exposure.stdout);
        assert!(exposure.status.success(), "{table}{}", String::from_utf8_lossy(&exposure.stderr));
    }
}
