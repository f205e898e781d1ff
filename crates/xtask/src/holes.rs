//! `docs/holes.md` promises that each known bypass is ruled out and names the test that would notice if it came back. This check holds
//! the promise: a row without a test, or with the name of a test that is not there, is a fault.
//!
//! A name is written `crate::test`, where `crate` is the folder below `crates/`; `crate::test#row` also demands that the table test's
//! file contains the row's name; `crate::Item!` means a `compile_fail` example in the documentation of `Item`.

use std::path::Path;

use crate::{Tracked, tracked};

/// Where the table is.
const DOCUMENT: &str = "docs/holes.md";

/// Every row names at least one test, and every test it names exists.
pub fn tests_exist(root: &Path) -> Result<Vec<String>, String> {
    let files = tracked(root)?;
    let document = files.iter().find(|file| file.path == DOCUMENT).ok_or("docs/holes.md is missing")?;
    let mut faults = Vec::new();
    for (number, cells) in rows(&document.text) {
        let names: Vec<&str> =
            cells.last().map(|cell| cell.split('`').skip(1).step_by(2).collect()).unwrap_or_default();
        if names.is_empty() {
            faults.push(format!("{DOCUMENT}:{number}: the row names no test"));
        }
        for name in names.into_iter().filter(|name| !exists(name, &files)) {
            faults.push(format!("{DOCUMENT}:{number}: there is no test `{name}`"));
        }
    }
    Ok(faults)
}

/// The body rows of every table, with their line numbers.
fn rows(text: &str) -> Vec<(usize, Vec<&str>)> {
    let lines: Vec<&str> = text.lines().collect();
    let is_rule = |line: &str| line.starts_with('|') && line.chars().all(|letter| "|-: ".contains(letter));
    let is_head = |at: usize| lines.get(at + 1).is_some_and(|next| is_rule(next));
    let table = lines.iter().enumerate().filter(|(at, line)| line.starts_with('|') && !is_rule(line) && !is_head(*at));
    table.map(|(at, line)| (at + 1, line.trim_matches('|').split('|').map(str::trim).collect())).collect()
}

fn exists(name: &str, files: &[Tracked]) -> bool {
    let Some((folder, test)) = name.split_once("::") else { return false };
    let prefix = format!("crates/{folder}/");
    let mut sources = files.iter().filter(|file| file.path.starts_with(&prefix) && file.path.ends_with(".rs"));
    if let Some(item) = test.strip_suffix('!') {
        return sources.any(|file| has_compile_fail(&file.text, item));
    }
    let (function, row) = test.split_once('#').map_or((test, None), |(function, row)| (function, Some(row)));
    let function = function.rsplit("::").next().unwrap_or(function);
    sources.any(|file| has_test(&file.text, function) && row.is_none_or(|row| file.text.contains(row)))
}

/// Whether a function of that name stands below a test attribute, or inside a `proptest!` block.
fn has_test(text: &str, function: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let heads = [format!("fn {function}("), format!("async fn {function}(")];
    let found = lines.iter().enumerate().filter(|(_, line)| heads.iter().any(|head| line.starts_with(head.as_str())));
    found.into_iter().any(|(at, _)| {
        let above = lines.get(at.saturating_sub(6)..at).unwrap_or_default();
        let attributes = above.iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        attributes.into_iter().any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
    })
}

/// Whether the documentation right above the item holds a `compile_fail` example.
fn has_compile_fail(text: &str, item: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let declares = |line: &str| {
        let mut words = line.split(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
        line.starts_with("pub ") && words.any(|word| word == item)
    };
    lines.iter().enumerate().filter(|(_, line)| declares(line)).any(|(at, _)| {
        let above = lines.iter().take(at).rev().take_while(|line| line.starts_with("///") || line.starts_with("#["));
        above.into_iter().any(|line| line.contains("compile_fail"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Vec<Tracked> {
        vec![Tracked { path: "crates/pep/src/gate.rs".to_owned(), text: text.to_owned() }]
    }

    #[test]
    fn a_name_counts_only_as_a_test() {
        let files = source("#[test]\nfn expired_is_denied() {}\nfn not_a_test() {}\n");
        assert!(exists("pep::expired_is_denied", &files));
        assert!(!exists("pep::not_a_test", &files));
        assert!(!exists("token::expired_is_denied", &files), "another crate");
        assert!(!exists("pep::expired", &files), "a part of a name");
        assert!(!exists("expired_is_denied", &files), "no crate");
    }

    #[test]
    fn a_row_of_a_table_test_must_be_there() {
        let files = source("#[test]\nfn table() { let cases = [(\"wrong audience\", 1)]; }\n");
        assert!(exists("pep::table#wrong audience", &files));
        assert!(!exists("pep::table#wrong issuer", &files));
    }

    #[test]
    fn a_compile_fail_example_belongs_to_its_item() {
        let files = source(
            "/// ```compile_fail\n/// x\n/// ```\n#[must_use]\npub struct Permit(());\n\n/// Plain.\npub struct Other;\n",
        );
        assert!(exists("pep::Permit!", &files));
        assert!(!exists("pep::Other!", &files));
    }

    #[test]
    fn rows_leave_out_heads_and_rules() {
        let found = rows("text\n| a | b |\n|---|---|\n| 1 | `x::y` |\n");
        assert_eq!(found, [(4, vec!["1", "`x::y`"])]);
    }
}
