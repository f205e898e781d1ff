//! What a command says when it could not do its work: a sentence, its causes, what to do, and for files the place.

use std::error::Error;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode};
use serde_json::{Value, json};

use crate::answer::{Exit, Output, line};

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
        if text.is_empty() {
            text = format!("error: {}\n", self.message);
            for cause in &self.causes {
                text.push_str(&format!("  because: {cause}\n"));
            }
        } else {
            text.push_str(&format!("error: {}\n", self.message));
        }
        if let Some(help) = &self.help {
            text.push_str(&format!("  help: {help}\n"));
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
    let named = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory | ErrorKind::FileTooLarge);
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

    fn render(&self) -> String {
        let theme = if std::io::IsTerminal::is_terminal(&std::io::stderr()) {
            GraphicalTheme::unicode()
        } else {
            GraphicalTheme::unicode_nocolor()
        };
        let source = NamedSource::new(self.file.display().to_string(), self.text.to_string());
        let rendered = Rendered { fault: self, source };
        let mut text = String::new();
        let handler = GraphicalReportHandler::new_themed(theme).with_width(110).with_links(false);
        if handler.render_report(&mut text, &rendered).is_err() {
            let (line, column) = self.place();
            text = format!("{}:{line}:{column}: {}\n", self.file.display(), self.message);
        }
        text
    }
}

/// A fault in the form the renderer asks for.
struct Rendered<'a> {
    fault: &'a SourceFault,
    source: NamedSource<String>,
}

impl fmt::Debug for Rendered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fault.message)
    }
}

impl fmt::Display for Rendered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fault.message)
    }
}

impl Error for Rendered<'_> {}

impl Diagnostic for Rendered<'_> {
    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let (start, end) = self.fault.span;
        let length = self.fault.text.len();
        let (start, end) = (start.min(length), end.min(length));
        let label = LabeledSpan::new(Some("here".into()), start, end.saturating_sub(start));
        Some(Box::new(std::iter::once(label)))
    }

    fn help(&self) -> Option<Box<dyn fmt::Display + '_>> {
        self.fault.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }
}
