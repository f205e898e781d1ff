//! A net that is named on the command line, in whatever format, with its questions.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use cost::read::Language;
use gspn::ask::{Ask, Question};
use gspn::formats::{self, Beside, Format};
use gspn::json::{self, Document};
use gspn::{Net, Refusal};

use crate::failure::Failure;
use crate::files;

/// A net and what belongs to it.
#[derive(Debug, Args)]
pub(super) struct Source {
    /// The net; `-` is the standard input
    #[arg(value_name = "NET")]
    net: PathBuf,

    /// The format of the net (without it what the file looks like)
    #[arg(long, value_enum, value_name = "FORMAT")]
    from: Option<From>,

    /// The net of a file that holds several, by its name
    #[arg(long = "net", value_name = "NAME")]
    chosen: Option<String>,

    /// The value of a constant of a PNPRO or eDSPN net, for the one in the file or where there is none; once for each
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,

    /// When the transitions of an ISO PNML net fire: a JSON object with a rate, or the members of a transition, for each name
    #[arg(long, value_name = "FILE")]
    rates: Option<PathBuf>,

    /// Questions for a net that has none of its own: a JSON object with `ask`, or the list of them alone
    #[arg(long, value_name = "FILE")]
    ask: Option<PathBuf>,
}

impl Source {
    /// What is read.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(&self.net).chain(&self.rates).chain(&self.ask).map(PathBuf::as_path)
    }
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a name, `=` and a value are wanted: `N=5`")?;
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() || value.is_empty() {
        return Err("a name, `=` and a value are wanted: `N=5`".to_owned());
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// A format that nets are read from.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum From {
    /// This program's own JSON.
    Json,
    /// A project of the GreatSPN editor.
    Pnpro,
    /// PNML of PIPE and Storm, or of ISO/IEC 15909-2 with `--rates`.
    Pnml,
    /// TimeNET's eDSPN.
    Edspn,
}

impl From {
    fn format(self) -> Format {
        match self {
            Self::Json => Format::Json,
            Self::Pnpro => Format::Pnpro,
            Self::Pnml => Format::Pnml,
            Self::Edspn => Format::Edspn,
        }
    }
}

impl Source {
    /// The net and its questions, or why it is refused.
    pub(super) fn read(&self) -> Result<Result<Document, Refusal>, Failure> {
        let text = files::finite_bytes(&self.net)?;
        let optional = |path: &Option<PathBuf>| path.as_deref().map(files::finite_bytes).transpose();
        let (rates, questions) = (optional(&self.rates)?, optional(&self.ask)?);
        let format = self.from.map(From::format).or_else(|| Format::of(&text));
        // TOML may begin as a list of JSON does, which is no net either.
        let no_net = format.is_none() || self.from.is_none() && text.trim_ascii_start().starts_with(b"[");
        if no_net && self.net.to_str().and_then(Language::of).is_some() {
            let why = "this is named as the model of an application, which is no net: `trapkey cost solve` solves it, and `trapkey cost \
                       weave --as net` prints its net";
            return Ok(Err(Refusal::invalid("document", why)));
        }
        // What looks like nothing that is known is told what is wrong with it as JSON.
        let format = format.unwrap_or(Format::Json);
        let read = || {
            let rates = rates.as_deref().map(json::read_rates).transpose()?.unwrap_or_default();
            let beside = Beside { rates: &rates, net: self.chosen.as_deref(), set: &self.set };
            let mut document = formats::read_beside(&text, format, &beside)?;
            if let Some(questions) = &questions {
                if !document.asks.is_empty() {
                    return Err(Refusal::invalid(
                        "ask",
                        "the net has questions of its own, and others are given beside it",
                    ));
                }
                document.asks = json::read_asks(questions, &document.net)?;
            }
            // A net of another tool has no questions; JSON without any means none.
            if document.asks.is_empty() && questions.is_none() && format != Format::Json {
                document.asks = usual(&document.net, None);
            }
            Ok(document)
        };
        Ok(read())
    }
}

/// What is asked where nobody asked: the mean tokens of each place, how often each transition fires.
pub(super) fn usual(net: &Net, at: Option<f64>) -> Vec<Ask> {
    let places = net
        .places()
        .iter()
        .enumerate()
        .map(|(place, it)| Ask { id: format!("tokens of {}", it.name), question: Question::MeanTokens { place, at } });
    let transitions = net.transitions().iter().enumerate().map(|(transition, it)| Ask {
        id: format!("firings of {}", it.name),
        question: Question::Throughput { transition, at },
    });
    places.chain(transitions).collect()
}
