//! `trapkey model convert` and `draw`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gspn::formats::{self, Format};
use serde_json::json;

use super::refused;
use super::source::{Source, usual};
use crate::answer::Answer;
use crate::failure::Failure;
use crate::files;

/// A net, and the format that it is wanted in.
#[derive(Debug, Args)]
pub(crate) struct Convert {
    #[command(flatten)]
    source: Source,

    /// The format to write
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: To,

    /// The file to write, replaced if it is there (without it the standard output)
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A net, and how it is drawn.
#[derive(Debug, Args)]
pub(crate) struct Draw {
    #[command(flatten)]
    source: Source,

    /// A picture (as without any of the two)
    #[arg(long, conflicts_with = "dot")]
    svg: bool,

    /// For Graphviz
    #[arg(long)]
    dot: bool,

    /// The file to write, replaced if it is there (without it the standard output)
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A format that nets are written in.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum To {
    /// This program's own JSON.
    Json,
    /// A project of the GreatSPN editor.
    Pnpro,
    /// PNML as Storm reads it, which takes infinitely many servers for one there, and has them all from `jani`.
    Pnml,
    /// PNML as PIPE reads it.
    Pipe,
    /// For Storm and other checkers.
    Jani,
    /// For Graphviz.
    Dot,
    /// A picture.
    Svg,
}

impl Convert {
    pub(super) fn answer(&self) -> Result<Answer, Failure> {
        let format = match self.to {
            To::Json => Format::Json,
            To::Pnpro => Format::Pnpro,
            To::Pnml => Format::Pnml,
            To::Pipe => Format::Pipe,
            To::Jani => Format::Jani,
            To::Dot => Format::Dot,
            To::Svg => Format::Svg,
        };
        written(&self.source, format, self.out.as_ref(), true)
    }
}

impl Draw {
    pub(super) fn answer(&self) -> Result<Answer, Failure> {
        written(&self.source, if self.dot { Format::Dot } else { Format::Svg }, self.out.as_ref(), false)
    }
}

/// Writes a net, and says of what is to be read again that its questions are left out.
fn written(source: &Source, format: Format, out: Option<&PathBuf>, again: bool) -> Result<Answer, Failure> {
    files::apart(&[("--out", out)], source.files())?;
    let read = source.read()?.and_then(|document| {
        // Those that nobody asked are not missed.
        let asked = document.asks != usual(&document.net, None);
        Ok((formats::write(&document.net, format)?, if asked { document.asks.len() } else { 0 }))
    });
    let (text, asks) = match read {
        Ok(found) => found,
        Err(refusal) => return Ok(refused(&refusal)),
    };
    if again && asks > 0 {
        let s = if asks == 1 { "" } else { "s" };
        eprintln!("note: {asks} question{s} left out: a net is written without what is asked of it");
    }
    let Some(path) = out else { return Ok(Answer::ok(text.clone(), json!({"text": text}))) };
    files::export(path, |file| file.write_all(text.as_bytes()))?;
    let path = path.display().to_string();
    Ok(Answer::ok(format!("wrote {path}\n"), json!({"written": path})))
}
