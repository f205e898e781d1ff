//! The tidy checks: what no compiler looks at, and what would rot without a test. Each check lists its faults as sentences with a place;
//! an empty list is a pass. They read tracked files only, so that an editor's leftovers never fail a build.

#![expect(clippy::disallowed_methods, reason = "a chore reads the workspace's files; it is no part of the product")]

pub mod danger;
pub mod holes;
pub mod text;
pub mod walls;

use std::path::{Path, PathBuf};
use std::process::Command;

/// One tidy check.
pub struct Check {
    /// The name under which faults are printed.
    pub name: &'static str,
    /// Finds the faults below the workspace's root, or says why it cannot look.
    pub run: fn(&Path) -> Result<Vec<String>, String>,
}

/// Every check, in the order in which they run.
pub const CHECKS: &[Check] = &[
    Check { name: "imports follow the table", run: walls::imports },
    Check { name: "no runtime in a pure crate", run: walls::runtimes },
    Check { name: "one clippy configuration", run: text::one_clippy_file },
    Check { name: "every Rust file says what it is", run: text::file_headers },
    Check { name: "file names say something", run: text::file_names },
    Check { name: "nothing of one machine in a tracked file", run: text::machine_traces },
    Check { name: "links in documents lead somewhere", run: text::links },
    Check { name: "commands in documents exist", run: text::make_targets },
    Check { name: "what takes a check away stays in the demo", run: danger::stay_in_the_demo },
    Check { name: "every hole is closed by a test that exists", run: holes::tests_exist },
];

/// The workspace's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new(".")).to_path_buf()
}

/// A tracked text file: its path from the root, with forward slashes, and its text.
pub(crate) struct Tracked {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// The tracked files that are text. A file that is deleted but not yet committed is passed over.
pub(crate) fn tracked(root: &Path) -> Result<Vec<Tracked>, String> {
    let listing = run(root, "git", &["ls-files", "-z"])?;
    let files = listing.split('\0').filter(|path| !path.is_empty());
    Ok(files.filter_map(|path| Some(Tracked { path: path.to_owned(), text: read(&root.join(path))? })).collect())
}

/// The text of a file, if it is there and is text.
pub(crate) fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// What a command prints; its complaint if it fails.
pub(crate) fn run(root: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .output()
        .map_err(|error| format!("`{program}` did not start: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("`{program} {}`: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
    }
}

/// The cargo that runs this build.
pub(crate) fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}
