//! `trapkey model`: stochastic Petri nets, solved and checked.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use gspn::ask::Value;
use gspn::json::Document;
use gspn::{Budget, Limits, Progress, Refusal};
use serde_json::json;

use crate::answer::{Answer, table};
use crate::failure::Failure;
use crate::files;

/// Work that lasts longer says how far it has come, this often.
const SAY: f64 = 1.0;

/// What to do with nets.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Answer the questions of a net exactly
    ///
    /// The answer is one JSON object with `--output json`. Exit codes: 0 answered (single questions may be left open, with
    /// the reason), 3 refused: the class, a sentence, a name and, where there is one, the firings that lead to the bad marking.
    Solve(Solve),
    /// Read and explore a net: its markings, deadlocks and classes, or why it has no end
    Check(Solve),
}

/// A net and what its solution may cost.
#[derive(Debug, Args)]
pub(crate) struct Solve {
    /// The net as JSON; `-` is the standard input
    #[arg(value_name = "NET")]
    net: PathBuf,

    /// The most markings, tangible and vanishing (a `limit` in the net counts if it is smaller)
    #[arg(long, default_value_t = Limits::default().markings, value_name = "COUNT")]
    markings: u64,

    /// The most memory
    #[arg(long, default_value_t = Limits::default().bytes >> 20, value_name = "MIB")]
    memory: u64,

    /// The most time
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS")]
    time: f64,
}

pub(crate) fn run(command: Command) -> Result<Answer, Failure> {
    match command {
        Command::Solve(args) => args.answer(|document| document),
        Command::Check(args) => args.answer(|document| {
            use gspn::ask::{Ask, Question};
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
        }),
    }
}

impl Solve {
    fn answer(&self, asked: impl FnOnce(Document) -> Document) -> Result<Answer, Failure> {
        if self.time.is_nan() || self.time <= 0.0 {
            return Err(Failure::bad_input(format!("`--time {}`: above 0", self.time)));
        }
        let text = files::bytes(&self.net)?;
        let started = gates::clock::now();
        let answered = gspn::json::read(&text).map(asked).and_then(|document| {
            let markings = document.limit.unwrap_or(u64::MAX).min(self.markings);
            let limits = Limits { markings, bytes: self.memory.saturating_mul(1 << 20) };
            let mut said = SAY;
            let mut go_on = |progress: Progress| {
                let seconds = gates::clock::now().mono.since(started.mono).as_secs_f64();
                if seconds > said {
                    said = seconds + SAY;
                    say(seconds, progress);
                }
                seconds < self.time
            };
            gspn::ask::answer(&document.net, &document.asks, &mut Budget::new(limits, &mut go_on))
        });
        match answered {
            Ok(answer) => Ok(shown(&answer)),
            Err(refusal) => Ok(refused(&refusal)),
        }
    }
}

fn say(seconds: f64, progress: Progress) {
    let text = match progress {
        Progress::Exploring { tangible, done, vanishing, edges } => {
            format!("exploring: {done} of {tangible} tangible markings so far, {vanishing} vanishing, {edges} edges")
        }
        Progress::Simulating { firings } => format!("simulating: {firings} firings so far"),
        Progress::Solving { sweeps, error } => format!("solving: {sweeps} sweeps, last change {error:.1e}"),
    };
    // Nobody is left to tell when the pipe is closed.
    let _said = writeln!(std::io::stderr().lock(), "{seconds:6.1} s  {text}");
}

fn shown(answer: &gspn::ask::Answer) -> Answer {
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
        rows.push(vec![id.clone(), "-".to_owned(), refusal.why.clone()]);
    }
    Answer::ok(table(&["question", "value", "remark"], &rows), json!(answer))
}

fn refused(refusal: &Refusal) -> Answer {
    let mut text = format!("refused: {refusal}\n");
    if !refusal.trace.is_empty() {
        text.push_str(&format!("  reached by firing: {}\n", refusal.trace.join(", ")));
    }
    Answer::unavailable(text, json!(refusal))
}
