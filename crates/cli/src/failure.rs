//! What a command says when it could not do its work: a sentence, its causes, what to do, and for files the place.

use std::error::Error;
use std::fmt;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode};
use serde_json::{Value, json};

use crate::answer::{Exit, Output, line};
use crate::screen::harmless;

/// Letters of a line that are shown, and those of them that stand before what is marked.
const WIDEST: usize = 120;
const BEFORE: usize = 24;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    causes: Vec<String>,
    help: Option<String>,
    faults: Vec<SourceFault>,
}

/// One wrong place in one file.
#[derive(Clone, Debug)]
pub(crate) struct SourceFault {
    /// The file, as it was named.
    pub(crate) file: PathBuf,
    /// Its text.
    pub(crate) text: Arc<str>,
    /// First byte and byte behind the last.
    pub(crate) span: (usize, usize),
    /// What is wrong.
    pub(crate) message: String,
    /// What to write instead.
    pub(crate) help: Option<String>,
}

impl Failure {
    /// What failed and why, in one line, for somebody who says where.
    pub(crate) fn why(self) -> String {
        [vec![self.message], self.causes].concat().join(": ")
    }

    /// The caller gave something wrong.
    pub(crate) fn bad_input(message: impl Into<String>) -> Self {
        Self { exit: Exit::BadInput, message: message.into(), causes: Vec::new(), help: None, faults: Vec::new() }
    }

    /// Something needed could not be reached or used.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self { exit: Exit::Unavailable, ..Self::bad_input(message) }
    }

    /// Asked, and the answer is no.
    pub(crate) fn denied(message: impl Into<String>) -> Self {
        Self { exit: Exit::Negative, ..Self::bad_input(message) }
    }

    /// Something needed could not be used, with everything the error says.
    pub(crate) fn from_error(error: &dyn Error) -> Self {
        Self::unavailable(error.to_string()).because_of(error.source())
    }

    /// Files with wrong places in them.
    pub(crate) fn in_files(message: impl Into<String>, faults: Vec<SourceFault>) -> Self {
        Self { faults, ..Self::bad_input(message) }
    }

    /// The same failure as another kind.
    pub(crate) fn into_bad_input(self) -> Self {
        Self { exit: Exit::BadInput, ..self }
    }

    /// With the chain of causes, each once.
    pub(crate) fn because_of(mut self, mut cause: Option<&dyn Error>) -> Self {
        while let Some(error) = cause {
            let text = error.to_string();
            if self.causes.last() != Some(&text) && !self.message.ends_with(&text) {
                self.causes.push(text);
            }
            cause = error.source();
        }
        self
    }

    /// With what to do.
    pub(crate) fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// All of it on one line.
    pub(crate) fn in_short(&self) -> String {
        let fault = self.faults.first().map(|fault| {
            let (line, _) = fault.place();
            format!("{}:{line}: {}", fault.file.display(), fault.message)
        });
        let mut parts: Vec<&str> = vec![fault.as_deref().unwrap_or(&self.message)];
        parts.extend(self.causes.iter().map(String::as_str));
        parts.join(": ")
    }

    pub(crate) fn print(self, output: Output) -> Exit {
        match output {
            Output::Json => {
                line(&format!("{:#}", self.json()));
            }
            Output::Text => eprint!("{}", self.text()),
        }
        self.exit
    }

    fn json(&self) -> Value {
        let kind = match self.exit {
            Exit::Ok => "ok",
            Exit::Negative => "denied",
            Exit::BadInput => "bad_input",
            Exit::Unavailable => "unavailable",
        };
        let faults: Vec<Value> = self.faults.iter().map(SourceFault::json).collect();
        let (message, causes, help) = (&self.message, &self.causes, &self.help);
        json!({"error": {"kind": kind, "message": message, "causes": causes, "help": help, "faults": faults}})
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for fault in &self.faults {
            text.push_str(&fault.render());
        }
        let causes = if text.is_empty() { self.causes.as_slice() } else { &[] };
        text.push_str(&format!("error: {}\n", harmless(&self.message)));
        for cause in causes {
            text.push_str(&format!("  because: {}\n", harmless(cause)));
        }
        if let Some(help) = &self.help {
            text.push_str(&format!("  help: {}\n", harmless(help)));
        }
        text
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::from_error(&error)
    }
}

/// A file that cannot be read, named as it was given.
pub(crate) fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    let failure = Failure::bad_input(format!("cannot read `{}`", path.display())).because_of(Some(error));
    // What another name or another file would cure.
    let named = matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::IsADirectory | ErrorKind::FileTooLarge | ErrorKind::PermissionDenied
    );
    if named { failure } else { Failure { exit: Exit::Unavailable, ..failure } }
}

impl SourceFault {
    /// Line and column, both from 1.
    fn place(&self) -> (usize, usize) {
        let before = self.text.get(..self.span.0.min(self.text.len())).unwrap_or(&self.text);
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        (before.matches('\n').count() + 1, column)
    }

    fn json(&self) -> Value {
        let (line, column) = self.place();
        let file = self.file.display().to_string();
        json!({"file": file, "line": line, "column": column, "message": self.message, "help": self.help})
    }

    /// The text with its long lines cut, a marked one around where the mark begins; and where the mark is in it.
    fn shown(&self) -> (String, (usize, usize)) {
        let length = self.text.len();
        let marked = [self.span.0.min(length), self.span.1.min(length)];
        let (mut text, mut span, mut start) = (String::with_capacity(length), [0; 2], 0);
        for line in self.text.split_inclusive('\n') {
            let body = line.trim_end_matches(['\n', '\r']);
            let kept = window(body, marked[0].saturating_sub(start));
            let ellipsis = |cut: bool| if cut { "…" } else { "" };
            let before = ellipsis(kept.start > 0);
            for (mark, shown) in marked.iter().zip(&mut span) {
                if (start..=start + line.len()).contains(mark) {
                    *shown = text.len() + before.len() + (mark - start).clamp(kept.start, kept.end) - kept.start;
                }
            }
            text.extend([before, &harmless(&body[kept.clone()]), ellipsis(kept.end < body.len()), &line[body.len()..]]);
            start += line.len();
        }
        (text, (span[0], span[1].max(span[0])))
    }

    fn render(&self) -> String {
        let theme = if std::io::IsTerminal::is_terminal(&std::io::stderr()) {
            GraphicalTheme::unicode()
        } else {
            GraphicalTheme::unicode_nocolor()
        };
        let (shown, span) = self.shown();
        let source = NamedSource::new(self.file.display().to_string(), shown);
        let rendered = Rendered { fault: self, source, span };
        let mut text = String::new();
        let handler = GraphicalReportHandler::new_themed(theme).with_width(110).with_links(false);
        if handler.render_report(&mut text, &rendered).is_err() {
            let (line, column) = self.place();
            text = format!("{}:{line}:{column}: {}\n", self.file.display(), self.message);
        }
        text
    }
}

/// The part of a line that is shown: all of it, or so many letters from a few before `mark` on.
fn window(line: &str, mark: usize) -> Range<usize> {
    if line.chars().count() <= WIDEST {
        return 0..line.len();
    }
    let mark = line.floor_char_boundary(mark);
    let start = line[..mark].char_indices().rev().nth(BEFORE - 1).map_or(0, |(at, _)| at);
    let end = line[start..].char_indices().nth(WIDEST).map_or(line.len(), |(at, _)| start + at);
    start..end
}

/// A fault in the form the renderer asks for.
struct Rendered<'a> {
    fault: &'a SourceFault,
    source: NamedSource<String>,
    span: (usize, usize),
}

impl fmt::Debug for Rendered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fault.message)
    }
}

impl fmt::Display for Rendered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&harmless(&self.fault.message))
    }
}

impl Error for Rendered<'_> {}

impl Diagnostic for Rendered<'_> {
    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let (start, end) = self.span;
        let label = LabeledSpan::new(Some("here".into()), start, end.saturating_sub(start));
        Some(Box::new(std::iter::once(label)))
    }

    fn help(&self) -> Option<Box<dyn fmt::Display + '_>> {
        self.fault.help.as_deref().map(|help| Box::new(harmless(help)) as Box<dyn fmt::Display>)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, span: (usize, usize)) -> (String, String) {
        let (file, message) = (PathBuf::from("a.uml"), "no".to_owned());
        let (text, (start, end)) = SourceFault { file, text: text.into(), span, message, help: None }.shown();
        let marked = text[start..end].to_owned();
        (text, marked)
    }

    #[test]
    fn what_a_terminal_would_obey_is_no_part_of_a_failure() {
        let (text, marked) = shown("one\u{7}\u{9b}two\r\n", (6, 9));
        assert_eq!((text.as_str(), marked.as_str()), ("one?\u{bf}two\r\n", "two"));
        let message = "no \u{1b}[2J".to_owned();
        let fault =
            SourceFault { file: "a".into(), text: "x".into(), span: (0, 1), message: message.clone(), help: None };
        let failure = Failure::in_files(message, vec![fault]).help("\u{1b}c");
        assert!(!failure.text().contains('\u{1b}'), "{}", failure.text());
    }

    #[test]
    fn long_lines_are_cut_around_what_is_marked() {
        let short = "one\ntwo\r\nthree";
        assert_eq!(shown(short, (4, 7)), (short.to_owned(), "two".to_owned()));
        assert_eq!(shown(short, (14, 99)).1, short[14..]);
        assert_eq!(shown("", (0, 0)), (String::new(), String::new()));
        let long = format!("é{}mark{}é\nlast", "a".repeat(300), "b".repeat(300));
        let at = long.find("mark").unwrap();
        let (text, marked) = shown(&long, (at, at + 4));
        assert_eq!(marked, "mark");
        assert_eq!(text, format!("…{}mark{}…\nlast", "a".repeat(BEFORE), "b".repeat(WIDEST - BEFORE - 4)));
        // All of it, its beginning, its end, what stands behind it.
        for (span, wanted) in [
            ((0, long.len() - 5), format!("é{}", "a".repeat(WIDEST - 1))),
            ((long.len() - 7, long.len() - 5), "é".to_owned()),
            ((long.len() - 4, long.len()), "last".to_owned()),
        ] {
            let (text, marked) = shown(&long, span);
            assert_eq!(marked, wanted, "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= WIDEST + 2), "{text}");
        }
    }
}
