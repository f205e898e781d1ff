//! Checks on the text of tracked files: what a file is called, what it says about itself, where its links lead, and that nothing of the
//! machine it was written on stays in it.

use std::collections::BTreeSet;
use std::path::Path;

use crate::{Tracked, tracked};

/// Words that say nothing about what is in a file.
const EMPTY_WORDS: [&str; 7] = ["manager", "handler", "helper", "helpers", "util", "utils", "misc"];

/// Beginnings of paths that exist on one machine only.
const MACHINE_PATHS: [&str; 5] = ["/root/", "/home/", "/work/", "/Users/", "/tmp/bash_jobs"];

/// Pieces of the names of package registries' hosts. Where packages come from is the installed client's business.
const HOST_PIECES: [&str; 9] = [
    "index.crates",
    "static.crates",
    "npmjs",
    "pythonhosted",
    "pypi.org",
    "repo.maven",
    "repo1.maven",
    "proxy.golang",
    "deb.debian",
];

/// A second `clippy.toml` inside a crate would replace the first, bans and all.
pub fn one_clippy_file(root: &Path) -> Result<Vec<String>, String> {
    let files = tracked(root)?;
    let named = files.iter().filter(|file| file.path.ends_with("clippy.toml"));
    let second = named.filter(|file| file.path != "clippy.toml");
    Ok(second.map(|file| format!("{}: it would replace the root's clippy.toml", file.path)).collect())
}

/// A Rust file opens with `//!`: what it is, and what it leaves out.
pub fn file_headers(root: &Path) -> Result<Vec<String>, String> {
    let files = tracked(root)?;
    let rust = files.iter().filter(|file| file.path.ends_with(".rs") && file.path.starts_with("crates/"));
    let bare = rust.filter(|file| !opens_with_a_header(&file.text));
    Ok(bare.map(|file| format!("{}: open it with `//!` and say what it is", file.path)).collect())
}

fn opens_with_a_header(text: &str) -> bool {
    text.lines()
        .find(|line| !line.trim().is_empty() && !line.starts_with("#!["))
        .is_some_and(|line| line.starts_with("//!"))
}

/// No file is called after a word that fits everything.
pub fn file_names(root: &Path) -> Result<Vec<String>, String> {
    let files = tracked(root)?;
    Ok(files.iter().filter_map(empty_word).collect())
}

fn empty_word(file: &Tracked) -> Option<String> {
    let name = file.path.rsplit('/').next()?.to_ascii_lowercase();
    let word = EMPTY_WORDS.into_iter().find(|word| name.split(['.', '-', '_']).any(|part| part == *word))?;
    Some(format!("{}: `{word}` says nothing; name what it does", file.path))
}

/// No absolute path of one machine, no registry host, no lock file that pins one.
pub fn machine_traces(root: &Path) -> Result<Vec<String>, String> {
    let mut faults = Vec::new();
    for file in tracked(root)?.iter().filter(|file| !may_hold_traces(&file.path)) {
        for (number, line) in file.text.lines().enumerate() {
            for trace in traces(line) {
                faults.push(format!("{}:{}: `{trace}` belongs to one machine", file.path, number + 1));
            }
        }
    }
    Ok(faults)
}

/// This file names the traces; `Cargo.lock` is cargo's own and names its source by the index's public address.
fn may_hold_traces(path: &str) -> bool {
    path == "crates/xtask/src/text.rs" || path.ends_with("Cargo.lock")
}

fn traces(line: &str) -> Vec<&'static str> {
    let path_at = |piece: &&str| {
        line.match_indices(*piece)
            .any(|(at, _)| !line[..at].ends_with(|before: char| before.is_alphanumeric() || "._-/}*".contains(before)))
    };
    let paths = MACHINE_PATHS.into_iter().filter(path_at);
    paths.chain(HOST_PIECES.into_iter().filter(|piece| line.contains(piece))).collect()
}

/// Relative links in Markdown lead to a file or folder.
pub fn links(root: &Path) -> Result<Vec<String>, String> {
    let mut faults = Vec::new();
    for file in tracked(root)?.iter().filter(|file| file.path.ends_with(".md")) {
        let folder = root.join(&file.path).parent().map(Path::to_path_buf).unwrap_or_default();
        for target in relative_links(&file.text) {
            let path = target.split('#').next().unwrap_or_default();
            if !path.is_empty() && !folder.join(path).exists() {
                faults.push(format!("{}: the link to `{target}` leads nowhere", file.path));
            }
        }
    }
    Ok(faults)
}

fn relative_links(text: &str) -> Vec<&str> {
    let candidates = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    candidates.filter(|target| !target.contains("://") && !target.starts_with("mailto:")).collect()
}

/// A `make` command that a document prints is a target of the Makefile.
pub fn make_targets(root: &Path) -> Result<Vec<String>, String> {
    let files = tracked(root)?;
    let makefile = files.iter().find(|file| file.path == "Makefile").ok_or("there is no Makefile")?;
    let targets: BTreeSet<&str> = makefile.text.lines().filter_map(target_of).collect();
    let mut faults = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        for name in make_commands(&file.text).filter(|name| !targets.contains(name)) {
            faults.push(format!("{}: `make {name}` is not a target", file.path));
        }
    }
    Ok(faults)
}

fn target_of(line: &str) -> Option<&str> {
    let (name, _) = line.split_once(':')?;
    (!name.is_empty() && name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-')).then_some(name)
}

fn make_commands(text: &str) -> impl Iterator<Item = &str> {
    let inline = text.split('`').skip(1).step_by(2);
    inline.flat_map(str::lines).filter_map(|code| code.trim().strip_prefix("make ")?.split_whitespace().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_this_machine_is_seen_and_a_relative_one_is_not() {
        let cases = [
            ("an absolute path", "see /root/notes", 1),
            ("in quotes", "open(\"/home/me/key\")", 1),
            ("a path inside a project", "crates/work/main", 0),
            ("a variable before it", "${BASE}/work/keys", 0),
            ("a registry", "resolved: https://registry.npmjs", 1),
            ("nothing", "let root = workspace();", 0),
        ];
        for (rule, line, found) in cases {
            assert_eq!(traces(line).len(), found, "{rule}");
        }
    }

    #[test]
    fn a_header_may_follow_an_attribute_but_not_code() {
        assert!(opens_with_a_header("//! What it is.\n"));
        assert!(opens_with_a_header("#![allow(missing_docs)]\n//! What it is.\n"));
        assert!(!opens_with_a_header("use std::fmt;\n//! Too late.\n"));
        assert!(!opens_with_a_header(""));
    }

    #[test]
    fn empty_words_are_found_as_words_only() {
        let named = |path: &str| empty_word(&Tracked { path: path.to_owned(), text: String::new() }).is_some();
        assert!(named("crates/x/src/session_manager.rs"));
        assert!(named("scripts/util.sh"));
        assert!(!named("crates/x/src/utility_power.rs"));
        assert!(!named("crates/x/src/manage.rs"));
    }

    #[test]
    fn only_relative_links_are_followed() {
        assert_eq!(relative_links("[a](docs/a.md) [b](https://example.org) [c](#here)"), ["docs/a.md", "#here"]);
    }
}
