//! What a command says when it did its work, and how it is printed.

use std::io::{IsTerminal, Write};

use clap::ValueEnum;
use serde_json::Value;

use crate::screen::harmless;

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    #[default]
    Text,
    /// One JSON value for programs (one a line where a command goes on printing).
    Json,
}

/// How a run ended. The numbers are part of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It was done, or the answer is yes.
    Ok,
    /// It was done and the answer is no: denied, broken, failed cases.
    Negative,
    /// The command line, the configuration or a file is wrong.
    BadInput,
    /// Something that is needed could not be reached or used.
    Unavailable,
}

impl Exit {
    /// The number for the shell.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Negative => 1,
            Self::BadInput => 2,
            Self::Unavailable => 3,
        }
    }
}

/// The result of a command, in both forms.
#[derive(Debug)]
pub(crate) struct Answer {
    exit: Exit,
    text: String,
    json: Value,
}

impl Answer {
    /// Done, or yes.
    pub(crate) fn ok(text: impl Into<String>, json: Value) -> Self {
        Self { exit: Exit::Ok, text: text.into(), json }
    }

    /// Yes or no.
    pub(crate) fn verdict(yes: bool, text: impl Into<String>, json: Value) -> Self {
        Self { exit: if yes { Exit::Ok } else { Exit::Negative }, ..Self::ok(text, json) }
    }

    /// It could not be done, and this is why.
    pub(crate) fn unavailable(text: impl Into<String>, json: Value) -> Self {
        Self { exit: Exit::Unavailable, ..Self::ok(text, json) }
    }

    /// A command that has printed everything already.
    pub(crate) fn silent() -> Self {
        Self::ok("", Value::Null)
    }

    pub(crate) fn print(self, output: Output) -> Exit {
        let printed = match output {
            // Names in it are somebody else's, and files keep them as they are.
            Output::Text if std::io::stdout().is_terminal() => harmless(&self.text).into_owned(),
            Output::Text => self.text,
            Output::Json if self.json.is_null() => String::new(),
            Output::Json => format!("{:#}", self.json),
        };
        if printed.is_empty() || line(printed.trim_end_matches('\n')) { self.exit } else { Exit::Unavailable }
    }
}

/// Prints one line; whether somebody took it. A reader that closed the pipe is no reason to panic.
pub(crate) fn line(text: &str) -> bool {
    writeln!(std::io::stdout().lock(), "{text}").is_ok()
}

/// A table with aligned columns, for people.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(head.get(column).map(|name| name.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut text = String::new();
    let head: Vec<String> = head.iter().map(|name| name.to_uppercase()).collect();
    // A name may have anything in it, and a row is one line.
    let sign = |letter: char| if letter.is_control() { '?' } else { letter };
    for row in std::iter::once(&head).chain(rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.extend(cell.chars().map(sign));
            line.extend(std::iter::repeat_n(' ', width + 2 - cell.chars().count()));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
