//! `trapkey model solve`, `transient` and `check`.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;

use access_model::Mono;
use clap::{Args, value_parser};
use gspn::ask::{Ask, Question, Value};
use gspn::json::Document;
use gspn::{Budget, Class, Limits, Net, Refusal, explore, formats};
use serde_json::json;

use super::source::{Source, usual};
use super::{gone, limit, progress, refused, structure};
use crate::answer::{Answer, table};
use crate::failure::Failure;
use crate::files;

/// What a solution may cost.
#[derive(Debug, Args)]
struct Cost {
    /// The most markings, tangible and vanishing (a `limit` in the net counts if it is smaller)
    #[arg(
        long,
        allow_negative_numbers = true,
        default_value_t = Limits::default().markings,
        value_name = "COUNT",
        value_parser = value_parser!(u64).range(1..)
    )]
    markings: u64,

    /// The most memory
    #[arg(
        long,
        allow_negative_numbers = true,
        default_value_t = Limits::default().bytes >> 20,
        value_name = "MIB",
        value_parser = value_parser!(u64).range(1..)
    )]
    memory: u64,

    /// The most time (`30 s`, `2 min`; a number alone is seconds)
    #[arg(long, allow_hyphen_values = true, default_value = "30 s", value_name = "TIME", value_parser = limit)]
    time: f64,
}

/// A net, and what its solution may cost.
#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    source: Source,

    #[command(flatten)]
    cost: Cost,
}

/// A net, what its solution may cost, and files for the states.
#[derive(Debug, Args)]
pub(crate) struct Solve {
    #[command(flatten)]
    source: Source,

    #[command(flatten)]
    cost: Cost,

    /// Write the table of states as CSV: number, probability at time 0, the tokens of each place, phases
    #[arg(long, value_name = "FILE")]
    states: Option<PathBuf>,

    /// Write the generator of the Markov chain as MatrixMarket
    #[arg(long, value_name = "FILE")]
    generator: Option<PathBuf>,
}

/// A net, and points in time.
#[derive(Debug, Args)]
pub(crate) struct Transient {
    #[command(flatten)]
    source: Source,

    /// The points in time, from 0: questions about the long run are asked for each of them instead
    #[arg(long, allow_negative_numbers = true, required = true, value_delimiter = ',', value_name = "TIME", value_parser = at)]
    at: Vec<f64>,

    #[command(flatten)]
    cost: Cost,
}

impl Check {
    pub(super) fn answer(&self) -> Result<Answer, Failure> {
        let read = self.source.read()?.map(|document| {
            let kinds = [
                ("tangible", Question::Tangible),
                ("vanishing", Question::Vanishing),
                ("deadlocks", Question::Deadlocks),
                ("classes", Question::BottomComponents),
            ];
            let bounds = document.net.places().iter().enumerate();
            let bounds = bounds.map(|(place, it)| (format!("bound of {}", it.name), Question::Bound { place }));
            let asks = kinds.into_iter().map(|(id, question)| (id.to_owned(), question)).chain(bounds);
            let asks = asks.map(|(id, question)| Ask { id, question }).collect();
            Document { asks, ..document }
        });
        self.cost.solve_and(read, |net, text, answer| structure::add(net, &gspn::net::structure(net), text, answer))
    }
}

impl Transient {
    pub(super) fn answer(&self) -> Result<Answer, Failure> {
        let timed = at_times(&self.at);
        self.cost.solve(self.source.read()?.and_then(timed))
    }
}

/// Asks a document's questions about the long run (or the usual ones) for points in time instead.
pub(super) fn at_times(times: &[f64]) -> impl FnOnce(Document) -> Result<Document, Refusal> {
    move |mut document: Document| {
        if document.asks.is_empty() {
            document.asks = usual(&document.net, None);
        }
        let mut once: Vec<f64> = Vec::new();
        times.iter().for_each(|time| once.extend((!once.contains(time)).then_some(*time)));
        let asks = std::mem::take(&mut document.asks);
        document.asks = asks.into_iter().flat_map(|ask| timed(ask, &once)).collect();
        let mut seen = BTreeSet::new();
        match document.asks.iter().find(|ask| !seen.insert(ask.id.as_str())) {
            Some(twice) => Err(Refusal::invalid(
                &twice.id,
                "a question has this name, and `--at` gives it to another one, too: call one of them otherwise",
            )),
            None => Ok(document),
        }
    }
}

/// A point in time.
pub(super) fn at(text: &str) -> Result<f64, String> {
    let time = text.trim().parse().ok().filter(|time: &f64| time.is_finite() && *time >= 0.0);
    time.ok_or_else(|| format!("`{text}` is no point in time, from 0, such as `0.5`, or several as in `0,0.5,20`"))
}

/// A question about the long run, or of its derivative, for each point in time; others as they are.
fn timed(ask: Ask, times: &[f64]) -> Vec<Ask> {
    let asked = times.iter().filter_map(|time| {
        let mut asked = ask.clone();
        let mut question = &mut asked.question;
        while let Question::Sensitivity { of, .. } = question {
            question = of.as_mut();
        }
        match question {
            Question::MeanTokens { at, .. } | Question::Probability { at, .. } | Question::Throughput { at, .. } => {
                if at.replace(*time).is_some() {
                    return None;
                }
            }
            _ => return None,
        }
        if times.len() > 1 {
            asked.id = format!("{} at {time}", ask.id);
        }
        Some(asked)
    });
    let asked: Vec<Ask> = asked.collect();
    if asked.is_empty() { vec![ask] } else { asked }
}

impl Solve {
    pub(super) fn answer(&self) -> Result<Answer, Failure> {
        let written = [("--states", self.states.as_ref()), ("--generator", self.generator.as_ref())];
        files::apart(&written, self.source.files())?;
        let read = self.source.read()?;
        let mut rest = Cost { ..self.cost };
        if let (Ok(document), true) = (&read, self.states.is_some() || self.generator.is_some()) {
            let started = gates::clock::mono();
            if let Err(refusal) = self.write(document, started)? {
                return Ok(refused(&refusal));
            }
            rest.time -= gates::clock::mono().since(started).as_secs_f64();
            if rest.time <= 0.0 {
                return Ok(refused(&late("before anything was answered")));
            }
        }
        let asked = read.as_ref().is_ok_and(|document| !document.asks.is_empty());
        rest.solve_and(read, |_, text, _| {
            if !asked {
                text.push_str(NOTHING);
            }
        })
    }

    /// Explores the net and writes what is asked for, in the time from `started` on.
    fn write(&self, document: &Document, started: Mono) -> Result<Result<(), Refusal>, Failure> {
        let mut go_on = progress(self.cost.time)?;
        let budget = &mut Budget::new(self.cost.limits(document), &mut go_on);
        let space =
            formats::markovian(&document.net).and_then(|()| explore::explore(&document.net, 1, &[], &[], budget));
        let space = match space {
            Ok(space) => space,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let mut over = false;
        let mut timed = |path: &Option<PathBuf>, write: &dyn Fn(&mut dyn Write) -> io::Result<()>| {
            let Some(path) = path else { return Ok(()) };
            files::export(path, |file| {
                let mut file = Timed { file, started, time: self.cost.time, written: 0, over: false };
                let written = write(&mut file);
                over |= file.over;
                written
            })
        };
        let written = timed(&self.states, &|file| formats::states(&document.net, &space, file))
            .and_then(|()| timed(&self.generator, &|file| formats::generator(&space, file)));
        if over { Ok(Err(late("while files were written"))) } else { written.map(Ok) }
    }
}

/// A file that is written as long as there is time.
struct Timed<'a> {
    file: &'a mut dyn Write,
    started: Mono,
    time: f64,
    /// Pieces.
    written: u32,
    over: bool,
}

/// Pieces that are written from one look at the clock to the next.
const PIECES: u32 = 4_096;

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written = self.written.wrapping_add(1);
        if self.written.is_multiple_of(PIECES) {
            self.over |= gates::clock::mono().since(self.started).as_secs_f64() > self.time;
        }
        if self.over { Err(io::Error::from(io::ErrorKind::TimedOut)) } else { self.file.write(bytes) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn late(when: &str) -> Refusal {
    Refusal::new(Class::TooLarge, "time", format!("the limit of time was reached {when}: allow more time"))
}

/// What is said to whom an empty table would say nothing.
const NOTHING: &str = "nothing was asked: the net is valid and was explored in full; put questions under `ask` in its file, or give them \
                       with `--ask FILE`\n";

impl Cost {
    fn limits(&self, document: &Document) -> Limits {
        let markings = document.limit.unwrap_or(u64::MAX).min(self.markings);
        Limits { markings, bytes: self.memory.saturating_mul(1 << 20) }
    }

    fn solve(&self, read: Result<Document, Refusal>) -> Result<Answer, Failure> {
        self.solve_and(read, |_, _, _| {})
    }

    /// `add` says more of a net that was answered.
    fn solve_and(
        &self,
        read: Result<Document, Refusal>,
        add: impl FnOnce(&Net, &mut String, &mut serde_json::Value),
    ) -> Result<Answer, Failure> {
        let mut go_on = progress(self.time)?;
        let gone = gone(self.time);
        let answered = read.and_then(|document| {
            let budget = &mut Budget::new(self.limits(&document), &mut go_on).sharing(&gone);
            gspn::ask::answer(&document.net, &document.asks, budget).map(|answer| (document.net, answer))
        });
        Ok(match answered {
            Ok((net, answer)) => {
                let (mut text, mut said) = (shown(&answer), json!(answer));
                add(&net, &mut text, &mut said);
                Answer::ok(text, said)
            }
            Err(refusal) => refused(&refusal),
        })
    }
}

fn shown(answer: &gspn::ask::Answer) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (id, value) in &answer.values {
        let number = match value {
            Value::Count(count) => count.to_string(),
            Value::Number(number) => format!("{number}"),
        };
        let how = answer.method.get(id).map(|method| match answer.error.get(id) {
            Some(error) => format!("{method}; off by about {error:.1e}"),
            None => method.clone(),
        });
        rows.push(vec![id.clone(), number, how.unwrap_or_default()]);
    }
    for (id, refusal) in &answer.unanswered {
        rows.push(vec![id.clone(), "-".to_owned(), super::open(refusal)]);
    }
    table(&["question", "value", "remark"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_as_long_as_there_is_time() {
        let (mut sink, started) = (Vec::new(), gates::clock::mono());
        for (time, pieces) in [(f64::INFINITY, 3 * PIECES), (0.0, PIECES - 1)] {
            sink.clear();
            let mut file = Timed { file: &mut sink, started, time, written: 0, over: false };
            let written = (0..3 * PIECES).take_while(|_| file.write_all(b"x").is_ok()).count();
            let over = file.over;
            assert_eq!((written, sink.len(), over), (pieces as usize, pieces as usize, time == 0.0));
        }
    }
}
