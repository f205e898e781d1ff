//! `trapkey cost`: models of applications, secured, laid as nets and solved; settings chosen; this machine calibrated.

mod choose;
mod measure;
mod priced;
mod simulate;
mod watch;
mod whatif;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand, ValueEnum, value_parser};
use cost::choose::Effort;
use cost::read::{Beside, Language, price_list, read_beside};
use cost::solve::{Busy, Solution, questions, solve};
use cost::{Fault, Model, Secured, net, print, weave};
use gspn::{Budget, Limits, Progress};
use serde_json::json;

use self::priced::Prices;
use super::Common;
use super::model::{limit, telling};
use crate::answer::{Answer, table};
use crate::failure::{Failure, SourceFault};
use crate::files;

/// Bytes of a line that are too many to look through for what is wrong.
const MUCH: usize = 100;

/// What to do with models of applications.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Put the mechanisms that annotations ask for into a model, and print it at one of three steps
    Weave(Weave),
    /// Throughput, response time, busy nodes and what the time is spent on, in the long run
    Solve(Solve),
    /// Throughput, mean and percentiles of response times, and busy nodes, of requests that are followed one by one as chance has them
    ///
    /// Answers where the net of `solve` is too large. Each rate and time has its 95 % interval; the same seed makes the same figures on every machine.
    Simulate(simulate::Simulate),
    /// Look at every setting that the annotations allow, rank those that meet the constraints, and say what the others fail
    ///
    /// Exit codes: 0 a setting can be chosen, 1 none meets all constraints, 2 the model or a constraint is wrong, 3 a limit was reached
    /// (`--time`, `--markings`) or there is no answer.
    Choose(Box<choose::Choose>),
    /// Measure what single steps cost on this machine, and write the calibration
    ///
    /// Signatures, encryption, tokens, decisions, audit records, channels, handshakes, sockets: each step in processes of its own, in
    /// less than two minutes. The machine should have nothing else to do.
    Measure(measure::Measure),
    /// Predict what settings of OPC UA cost on a calibrated machine: throughput, response times, crowds that connect
    ///
    /// From steps that were measured alone; nothing is fitted. `--verify` runs every row and prints the error; an error above the goal is a
    /// row, no failure.
    WhatIf(Box<whatif::WhatIf>),
    /// A server of `what-if --verify`
    #[command(hide = true)]
    Serve(whatif::Serve),
    /// One process of `measure`
    #[command(hide = true)]
    Step(measure::Step),
    /// Watch a running Trapkey: which of its stages takes longer than it did, since when, and what that does to its clients
    ///
    /// Ends with `--once`, after `--for`, or by SIGINT. Exit codes: 0 no alarm stands, 1 a stage is outside of its band, 2 wrong arguments or
    /// files, 3 no alarm, and figures are out of reach.
    Watch(watch::Watch),
}

/// The step that is printed.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Step {
    /// As it was written, as a Mermaid diagram.
    Annotated,
    /// With the mechanisms in it, as a Mermaid diagram.
    Secured,
    /// As a stochastic Petri net; its JSON is what `trapkey model solve` reads.
    Net,
}

/// A model and which of its annotations count.
#[derive(Debug, Args)]
struct Source {
    /// The model: TOML (`.toml`), a Mermaid sequence diagram (`.mmd`) or UML as Papyrus writes it (`.uml`)
    #[arg(value_name = "MODEL")]
    model: PathBuf,

    /// Prices of operations: TOML with `[price]` only, besides those in the model; or a calibration (`.json`) of `cost measure`, in place of
    /// those in the model. `PLATFORM=FILE.json` where nodes are of several platforms, given once for each
    #[arg(long, value_name = "FILE")]
    prices: Vec<String>,

    /// The configuration whose annotations count (without it all do; `none`: no annotation)
    #[arg(long, value_name = "NAME")]
    configuration: Option<String>,

    /// The interaction of a UML file that is solved, where several are a `GaScenario`
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,

    /// Stereotypes of UML that are not read and say nothing that counts here (`A,B`, or once for each)
    #[arg(long, value_name = "STEREOTYPE", value_delimiter = ',', value_parser = name)]
    leave_out: Vec<String>,
}

/// A name in a list: the blank behind a comma is none of it.
#[expect(clippy::unnecessary_wraps, reason = "what clap asks for")]
fn name(text: &str) -> Result<String, std::convert::Infallible> {
    Ok(text.trim().to_owned())
}

/// A model, and what to print of it.
#[derive(Debug, Args)]
pub(crate) struct Weave {
    #[command(flatten)]
    source: Source,

    /// What to print
    #[arg(long = "as", value_enum, default_value = "secured", value_name = "STEP")]
    step: Step,
}

/// A model, and what its solution may cost.
#[derive(Debug, Args)]
pub(crate) struct Solve {
    #[command(flatten)]
    source: Source,

    #[command(flatten)]
    spend: Spend,
}

/// What a solution may cost.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Spend {
    /// The most markings that a net may reach
    #[arg(
        long,
        allow_negative_numbers = true,
        default_value_t = Limits::default().markings,
        value_name = "COUNT",
        value_parser = value_parser!(u64).range(1..)
    )]
    markings: u64,

    /// The most time (`30 s`, `2 min`; a number alone is seconds)
    #[arg(long, allow_hyphen_values = true, default_value = "30 s", value_name = "TIME", value_parser = limit)]
    time: f64,
}

impl Spend {
    /// Does `work` on a model within the limits.
    pub(crate) fn within<T>(self, work: impl FnOnce(&mut Budget<'_>) -> Result<T, Fault>) -> Result<T, Failure> {
        self.shared(alone(work))
    }

    /// Does `work` within the limits that is none on a model which could be simulated.
    pub(crate) fn without_model<T>(self, work: impl FnOnce(&mut Budget<'_>) -> Result<T, Fault>) -> Result<T, Failure> {
        self.spent(alone(work), "")
    }

    /// Does `work` on a model within the limits, on all processors.
    pub(crate) fn shared<T>(self, work: impl FnOnce(&Effort<'_>) -> Result<T, Fault>) -> Result<T, Failure> {
        self.spent(work, "; `trapkey cost simulate` follows requests one by one instead")
    }

    fn spent<T>(self, work: impl FnOnce(&Effort<'_>) -> Result<T, Fault>, or: &str) -> Result<T, Failure> {
        if self.time.is_nan() || self.time <= 0.0 {
            return Err(Failure::bad_input(format!("`--time {}`: above 0", self.time)));
        }
        let started = gates::clock::now();
        let go_on = |_: Progress| gates::clock::now().mono.since(started.mono).as_secs_f64() < self.time;
        let limits = Limits { markings: self.markings, ..Limits::default() };
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        work(&Effort { limits, threads, go_on: &go_on }).map_err(|fault| {
            let help = match (fault.class, fault.name.as_str()) {
                (cost::Class::Unanswered, "time") => Some(format!("`--time TIME` allows more than {} s", self.time)),
                (cost::Class::Unanswered, "markings") => {
                    Some(format!("`--markings COUNT` allows more than {}{or}", self.markings))
                }
                (cost::Class::Unanswered, "memory") if !or.is_empty() => {
                    Some(format!("the memory of a net is no option here{or}"))
                }
                _ => None,
            };
            let failure = unsolved(&fault);
            help.into_iter().fold(failure, Failure::help)
        })
    }
}

/// Work of one thread, which tells how far it is.
fn alone<T>(work: impl FnOnce(&mut Budget<'_>) -> Result<T, Fault>) -> impl FnOnce(&Effort<'_>) -> Result<T, Fault> {
    |effort| {
        let mut tell = telling();
        let mut go_on = |progress| {
            tell(progress);
            (effort.go_on)(progress)
        };
        work(&mut Budget::new(effort.limits, &mut go_on))
    }
}

/// A model that was read, and has no answer: it is wrong, or a limit was reached, which is said by the word that `model` has for it.
fn unsolved(fault: &Fault) -> Failure {
    let is_limit = ["time", "markings", "memory"].contains(&fault.name.as_str());
    let unanswered = fault.class == cost::Class::Unanswered;
    let class = if unanswered && is_limit { cost::Class::TooLarge } else { fault.class };
    let message = format!("{}: {fault}", class.word());
    match (fault.class, fault.name.as_str()) {
        (cost::Class::TooLarge, "par") => Failure::unavailable(message)
            .help("`trapkey cost simulate` follows requests one by one, however many are inside"),
        (cost::Class::TooLarge, "sequence") => Failure::unavailable(message),
        _ if unanswered => Failure::unavailable(message),
        _ => Failure::bad_input(message),
    }
}

pub(crate) fn run(command: Command, common: &Common) -> Result<Answer, Failure> {
    match command {
        Command::Choose(args) => choose::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Measure(args) => measure::run(&args),
        Command::Step(args) => measure::step(&args),
        Command::WhatIf(args) => whatif::run(&args),
        Command::Serve(args) => whatif::serve(&args),
        Command::Watch(args) => watch::run(&args, common),
        Command::Weave(args) => woven(&args),
        Command::Solve(args) => {
            let model = args.source.read()?;
            let secured = weave(&model);
            let solution = args.spend.within(|budget| solve(&secured, budget))?;
            Ok(taken(&args.source, &secured, shown(&solution), json!(solution)))
        }
    }
}

/// An answer about the first way of each annotation that has several, which is said in front.
fn taken(source: &Source, secured: &Secured, shown: String, mut json: serde_json::Value) -> Answer {
    let taken = secured.taken();
    let said: String = taken.iter().map(|way| format!("the first of several ways: {way}\n")).collect();
    let between = if said.is_empty() { "" } else { "\n" };
    json["taken"] = json!(taken);
    json["of"] = source.told();
    Answer::ok(format!("{said}{between}{shown}"), json)
}

fn woven(args: &Weave) -> Result<Answer, Failure> {
    let woven = || Ok::<_, Failure>(weave(&args.source.read()?));
    match args.step {
        Step::Annotated => {
            let model = args.source.whole()?;
            Ok(Answer::ok(print::annotated(&model), json!(model)))
        }
        Step::Secured => {
            let secured = woven()?;
            Ok(Answer::ok(print::secured(&secured), json!(secured)))
        }
        Step::Net => {
            let laid = net::lay(&woven()?).map_err(|fault| unsolved(&fault))?;
            Ok(Answer::ok(print::net(&laid), net::document(&laid, &questions(&laid))))
        }
    }
}

impl Source {
    /// What is read.
    fn files(&self) -> impl Iterator<Item = &Path> {
        let prices = self.prices.iter().map(|given| Path::new(priced::parts(given).1));
        std::iter::once(self.model.as_path()).chain(prices)
    }

    /// What an answer is of: two of one file may be of different configurations.
    fn told(&self) -> serde_json::Value {
        let model = self.model.display().to_string();
        let (prices, left_out) = (&self.prices, &self.leave_out);
        json!({ "model": model, "prices": prices, "configuration": self.configuration, "scenario": self.scenario, "left_out": left_out })
    }

    /// A model in which nothing is secured in two ways at once.
    fn read(&self) -> Result<Model, Failure> {
        let model = self.whole()?;
        match model.undivided() {
            Ok(()) => Ok(model),
            Err(fault) => {
                Err(Failure::bad_input(format!("{}: {fault}; say it with `--configuration`", fault.class.word())))
            }
        }
    }

    fn whole(&self) -> Result<Model, Failure> {
        let Some(language) = self.model.to_str().and_then(Language::of) else {
            let message = format!("`{}`: a model ends in `.toml`, `.mmd` or `.uml`", self.model.display());
            return Err(Failure::bad_input(message));
        };
        let text = if language == Language::Xmi { files::xml(&self.model)? } else { files::text(&self.model)? };
        let fails = |path: &Path, text: &Arc<str>, message: String, fault: Fault| {
            let what = Fault { line: None, ..fault.clone() };
            let what = format!("{}: {what}", fault.class.word());
            let help = match fault.class {
                cost::Class::Doubled if fault.name == "GaScenario" => {
                    Some("name the interaction that is meant with `--scenario`".to_owned())
                }
                cost::Class::UnknownStereotype => {
                    Some(format!("if it says nothing of times, sizes or load: `--leave-out {}`", fault.name))
                }
                _ => None,
            };
            match fault.line {
                None => Failure::bad_input(format!("{message}: {what}")),
                Some(line) => {
                    let span = place(text, line, &fault.name);
                    let fault = SourceFault { file: path.to_owned(), text: text.clone(), span, message: what, help };
                    Failure::in_files(message, vec![fault])
                }
            }
        };
        let failure = |fault: Fault| {
            fails(&self.model, &text, format!("`{}` is no model that can be used", self.model.display()), fault)
        };
        let prices = self.prices.iter().map(|given| Prices::read(given)).collect::<Result<Vec<_>, _>>()?;
        let mut lists =
            prices.iter().filter_map(|it| if let Prices::List(path, list) = it { Some((path, list)) } else { None });
        let (list, another) = (lists.next(), lists.next());
        if another.is_some() {
            return Err(Failure::bad_input("`--prices`: one price list, and calibrations besides"));
        }
        if let Some((path, list)) = list {
            let message = format!("`{}` is no list of prices that can be used", path.display());
            price_list(list).map_err(|fault| fails(path, list, message, fault))?;
        }
        let beside = Beside {
            prices: list.map(|(_, list)| &**list),
            scenario: self.scenario.as_deref(),
            left_out: &self.leave_out,
        };
        let mut model = read_beside(&text, language, beside).map_err(failure)?;
        let mut measured: Vec<(String, &Prices)> = Vec::new();
        for prices in &prices {
            let Some(platform) = prices.platform(&model)? else { continue };
            if measured.iter().any(|(other, _)| *other == platform) {
                let message = format!("`--prices`: two calibrations of the platform `{platform}`: which is meant?");
                return Err(Failure::bad_input(message).help(
                    "leave one of them out, or say with `--prices PLATFORM=FILE.json` of which other platform it is",
                ));
            }
            measured.push((platform, prices));
        }
        for (platform, prices) in measured {
            prices.lay(&platform, &mut model)?;
        }
        match self.configuration.as_deref().map(str::trim) {
            None => Ok(model),
            Some("none") => Ok(model.plain()),
            Some(name) => model.configuration(name).map_err(failure),
        }
    }
}

/// A line, from 1, without what is blank around it; of one in which much stands, the name that the fault is about, if it stands there once.
fn place(text: &str, line: usize, about: &str) -> (usize, usize) {
    let start = [0].into_iter().chain(text.match_indices('\n').map(|(at, _)| at + 1)).nth(line - 1).unwrap_or(0);
    let line = text[start..].lines().next().unwrap_or("");
    let start = start + line.len() - line.trim_start().len();
    let line = line.trim();
    let named = about.split_once(' ').map_or(about, |(_, name)| name);
    let mut found = line.match_indices(named);
    match (found.next(), found.next()) {
        (Some((at, _)), None) if line.len() > MUCH && !named.is_empty() => (start + at, start + at + named.len()),
        _ => (start, start + line.len()),
    }
}

fn shown(solution: &Solution) -> String {
    let mut text = format!(
        "throughput     {:.6}/s\nresponse time  {} (mean)\nrequests there {:.4} (mean)\n",
        solution.throughput,
        seconds(solution.response),
        solution.inside
    );
    for (name, rate) in [("aborted", solution.aborted), ("turned away", solution.turned_away)] {
        if rate > 0.0 {
            text.push_str(&format!("{name:<14} {rate:.6}/s\n"));
        }
    }
    text.push('\n');
    text.push_str(&busy(&solution.nodes));
    if !solution.pools.is_empty() {
        text.push('\n');
        let held = solution.pools.iter().map(|it| vec![it.pool.clone(), format!("{:.2} %", it.utilisation * 100.0)]);
        text.push_str(&table(&["pool", "held"], &held.collect::<Vec<_>>()));
    }
    text.push('\n');
    let spent = solution.spent.iter().map(|it| {
        let share = if solution.response > 0.0 { it.seconds / solution.response * 100.0 } else { 0.0 };
        let beside = if it.beside { " (beside others)" } else { "" };
        let on = format!("{}{beside}", it.on);
        vec![on, seconds(it.seconds), format!("{share:.1} %"), it.annotation.clone().unwrap_or_default()]
    });
    text.push_str(&table(&["the time goes to", "a request", "share", "asked for by"], &spent.collect::<Vec<_>>()));
    text
}

fn busy(nodes: &[Busy]) -> String {
    let rows = nodes.iter().map(|it| vec![it.node.clone(), format!("{:.2} %", it.utilisation * 100.0)]);
    table(&["node", "busy"], &rows.collect::<Vec<_>>())
}

/// Writes a picture or table to a file, whole; replaces one that is there.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    files::export(path, |file| file.write_all(text.as_bytes()))
}

/// Four digits that count, and the unit.
fn seconds(seconds: f64) -> String {
    let digits = |value: f64| match value {
        it if it < 10.0 => format!("{it:.3}"),
        it if it < 100.0 => format!("{it:.2}"),
        it if it < 1_000.0 => format!("{it:.1}"),
        it => format!("{it:.0}"),
    };
    match seconds {
        it if it < 1e-6 => format!("{:.1} ns", it * 1e9),
        it if it < 1e-3 => format!("{} us", digits(it * 1e6)),
        it if it < 1.0 => format!("{} ms", digits(it * 1e3)),
        it if it < 1e9 => format!("{} s", digits(it)),
        it => format!("{it:.3e} s"),
    }
}
