//! What the demo found out: one line each, told as it happens, kept for the end.

use std::io::{IsTerminal, Write};

use serde::Serialize;

/// One thing that was expected, and what came of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Check {
    /// The part of the demo: a recipe step, `refresh`, `revocation`, `attack`, `audit`.
    pub(crate) part: String,
    /// Who did what.
    pub(crate) what: String,
    /// What had to come of it.
    pub(crate) expected: String,
    /// What came of it.
    pub(crate) found: String,
    /// Whether the two agree.
    pub(crate) passed: bool,
}

/// Where outcomes begin on the screen.
const COLUMN: usize = 64;

/// Collects checks and tells them to whoever watches.
pub(crate) struct Report {
    checks: Vec<Check>,
    tell: bool,
    colour: bool,
}

impl Report {
    /// A report; with `tell`, every line also goes to the terminal at once.
    #[must_use]
    pub(crate) fn new(tell: bool) -> Self {
        Self { checks: Vec::new(), tell, colour: tell && std::io::stdout().is_terminal() }
    }

    /// Something for the eye alone.
    pub(crate) fn say(&self, line: &str) {
        if self.tell {
            // Nobody is left to tell when the terminal is gone; the checks go on.
            let _gone = writeln!(std::io::stdout(), "{line}");
        }
    }

    /// A heading.
    pub(crate) fn head(&self, line: &str) {
        self.say(&format!("\n{}", self.paint("1;36", line)));
    }

    /// Notes what was expected and found.
    pub(crate) fn check(&mut self, part: &str, what: &str, expected: &str, found: &str) {
        self.check_noting(part, what, expected, found, "");
    }

    /// The same, with a word behind it for the eye.
    pub(crate) fn check_noting(&mut self, part: &str, what: &str, expected: &str, found: &str, note: &str) {
        let passed = expected == found;
        let (mark, colour) = if passed { ("✓", "32") } else { ("✗", "1;31") };
        let outcome = if passed { found.to_owned() } else { format!("{found}, but {expected} was expected") };
        // What is allowed stands out from what is refused, and what changed from what did not.
        let outcome = match (passed, found.starts_with("Bad_")) {
            (true, false) => self.paint("32", &outcome),
            (true, true) => self.paint("33", &outcome),
            (false, _) => self.paint("1;31", &outcome),
        };
        let gap = " ".repeat(COLUMN.saturating_sub(what.chars().count()).max(1));
        let note = if note.is_empty() { String::new() } else { self.paint("1", &format!("  {note}")) };
        self.say(&format!("  {} {what}{gap}{outcome}{note}", self.paint(colour, mark)));
        self.checks.push(Check {
            part: part.into(),
            what: what.into(),
            expected: expected.into(),
            found: found.into(),
            passed,
        });
    }

    /// Everything found so far.
    #[must_use]
    pub(crate) fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// Checks that did not pass.
    #[must_use]
    pub(crate) fn failed(&self) -> usize {
        self.checks.iter().filter(|check| !check.passed).count()
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}
