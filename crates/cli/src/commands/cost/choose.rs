//! `trapkey cost choose`: constraints in, ranked settings out.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::{Args, ValueEnum};
use cost::choose::{Minimum, Mode, Outcome, SEED, Trial, Wanted, check, choose_told, csv, svg, text, trial};
use cost::quantity;
use gspn::Budget;
use serde_json::json;

use super::{Source, Spend, seconds, write};
use crate::answer::{Answer, table};
use crate::commands::model::say;
use crate::failure::Failure;
use crate::files;
use crate::screen::paragraphs;

/// Milliseconds from one line of progress to the next.
const SAY: u64 = 1000;

/// A model, and what is wanted of its settings.
#[derive(Debug, Args)]
pub(crate) struct Choose {
    #[command(flatten)]
    source: Source,

    /// Half of the requests within this time (`20 ms`, `50us`; a number alone is milliseconds)
    #[arg(long, allow_hyphen_values = true, value_name = "TIME", value_parser = time)]
    p50: Option<f64>,

    /// 95 % of the requests within this time (`20 ms`, `50us`; a number alone is milliseconds)
    #[arg(long, allow_hyphen_values = true, value_name = "TIME", value_parser = time)]
    p95: Option<f64>,

    /// 99 % of the requests within this time (`20 ms`, `50us`; a number alone is milliseconds)
    #[arg(long, allow_hyphen_values = true, value_name = "TIME", value_parser = time)]
    p99: Option<f64>,

    /// Mean time of at most this (`20 ms`)
    #[arg(long, allow_hyphen_values = true, value_name = "TIME", value_parser = time)]
    mean: Option<f64>,

    /// Requests that come to an open workload, which must not be more than can be carried; of a closed one what its clients must get
    /// (`500/s`, `30/min`; a number alone is a second). How many of them may be turned away says `--loss`
    #[arg(long, allow_hyphen_values = true, visible_alias = "load", value_name = "RATE", value_parser = rate)]
    rate: Option<f64>,

    /// No node busier than this (`70 %`; a number alone is percent)
    #[arg(long, allow_hyphen_values = true, value_name = "PERCENT", value_parser = percent)]
    cpu: Option<f64>,

    /// At most this share of the requests turned away (`0.1 %`; a number alone is percent)
    #[arg(long, allow_hyphen_values = true, value_name = "PERCENT", value_parser = percent)]
    loss: Option<f64>,

    /// What a request may take of energy (`2 J`, `0.5 Wh`; a number alone is joules)
    #[arg(long, allow_hyphen_values = true, value_name = "ENERGY", value_parser = energy)]
    energy: Option<f64>,

    /// What machines and energy may cost (`0.3/h`, `200/month`; a number alone is an hour)
    #[arg(long, allow_hyphen_values = true, value_name = "MONEY", value_parser = money)]
    money: Option<f64>,

    /// Share of time in which enough machines of each node must be up (`99.9 %`, `0.999`)
    #[arg(long, allow_hyphen_values = true, value_name = "SHARE", value_parser = availability)]
    availability: Option<f64>,

    /// What is wanted of times, rate and load must hold, too, while one machine is down of any node that can fail or has several in any setting
    #[arg(long)]
    one_down: bool,

    /// What must be protected wherever it is annotated
    #[arg(long, value_enum, default_value = "none", value_name = "MODE")]
    min_mode: Modes,

    /// Bits of strength (NIST SP 800-57) of everything that is annotated: what is left out has none (a level of the
    /// model, `--min-level`, may demand strength of what is done alone)
    #[arg(long, allow_negative_numbers = true, value_name = "BITS")]
    min_strength: Option<u32>,

    /// Bits of each RSA key, of everything that is annotated: what protects nothing is below it, and what is protected
    /// without an RSA key is not
    #[arg(long, allow_negative_numbers = true, value_name = "BITS")]
    min_rsa: Option<u32>,

    /// A security level that the model declares (`[level.2]`), with those below it
    #[arg(long, allow_negative_numbers = true, value_name = "LEVEL")]
    min_level: Option<u32>,

    /// Solve this many settings, picked by chance, once more by their whole nets, and say how far that is from what was said
    #[arg(long, allow_negative_numbers = true, default_value_t = 0, value_name = "COUNT")]
    check: usize,

    /// Run the first choice, request by request as chance has it, and hold what was said of it against that
    #[arg(long)]
    verify: bool,

    /// Of the random numbers of `--verify`; another seed makes another run
    #[arg(long, allow_negative_numbers = true, default_value_t = SEED, requires = "verify", value_name = "NUMBER")]
    seed: u64,

    /// Write all settings to this file as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    /// Write the front to this file as a picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    #[command(flatten)]
    spend: Spend,
}

/// What must be protected.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Modes {
    /// Optional annotations may be left out.
    None,
    /// Integrity, origin and peers.
    Sign,
    /// Confidentiality, too.
    SignAndEncrypt,
}

pub(super) fn run(args: &Choose) -> Result<Answer, Failure> {
    files::apart(&[("--csv", args.csv.as_ref()), ("--svg", args.svg.as_ref())], args.source.files())?;
    for path in args.csv.iter().chain(&args.svg) {
        files::exportable(path)?;
    }
    let model = args.source.read()?;
    let mode = match args.min_mode {
        Modes::None => Mode::None,
        Modes::Sign => Mode::Sign,
        Modes::SignAndEncrypt => Mode::SignAndEncrypt,
    };
    let wanted = Wanted {
        p50: args.p50,
        p95: args.p95,
        p99: args.p99,
        mean: args.mean,
        rate: args.rate,
        cpu: args.cpu,
        loss: args.loss,
        energy: args.energy,
        money: args.money,
        availability: args.availability,
        one_down: args.one_down,
        minimum: Minimum { mode, strength: args.min_strength, rsa: args.min_rsa, level: args.min_level },
    };
    let (choice, checked, run) = args.spend.shared(|effort| {
        let choice = choose_told(&model, &wanted, effort, &settled())?;
        // A choice that was made is told, whatever comes of checking it.
        let checked = check(&model, &choice, args.check, effort);
        let mut go_on = |progress| (effort.go_on)(progress);
        let run = args.verify.then(|| trial(&model, &choice, args.seed, &mut Budget::new(effort.limits, &mut go_on)));
        Ok((choice, checked, run))
    })?;
    if let Some(path) = &args.csv {
        write(path, &csv(&choice))?;
    }
    if let Some(path) = &args.svg {
        write(path, &svg(&choice))?;
    }
    let (mut said, mut answer) = (paragraphs(&text(&choice)), json!(choice));
    answer["of"] = args.source.told();
    match checked {
        Ok(checked) => {
            if !checked.is_empty() {
                let worst = checked.iter().map(|it| it.off).fold(0.0, f64::max);
                let count = checked.len();
                let again = if choice.reduced { "" } else { ", as those that were not simulated were before" };
                said.push_str(&format!(
                    "\n{count} settings solved by their whole nets{again}: {worst:.1e} off at most\n"
                ));
            }
            if checked.is_empty() && args.check > 0 {
                said.push_str(
                    "\nnothing checked by whole nets: all settings were simulated, for their nets are too large, or do not tell percentiles\n",
                );
            }
            answer["checked"] = json!(checked);
        }
        Err(fault) => {
            said.push_str(&format!("\nnot checked by whole nets: {fault}; fewer settings, or a longer `--time`\n"));
            answer["unchecked"] = json!(fault);
        }
    }
    match run {
        Some(Ok(run)) => {
            said.push_str(&run.as_ref().map_or("\nno run: nothing was chosen\n".to_owned(), held));
            answer["run"] = json!(run);
        }
        Some(Err(fault)) => {
            let why = if fault.name == "time" { "the time was over: `--time TIME` allows more" } else { &fault.why };
            said.push_str(&format!("\nthe first choice was not run: {why}\n"));
            answer["not_run"] = json!(fault);
        }
        None => {}
    }
    if choice.ranked.is_empty() && choice.settings.iter().any(Outcome::is_unknown) {
        return Ok(Answer::unavailable(said, answer));
    }
    Ok(Answer::verdict(!choice.ranked.is_empty(), said, answer))
}

/// Says now and then how many settings are done, where that takes long.
fn settled() -> impl Fn(usize, usize) + Sync {
    let (started, next) = (gates::clock::mono(), AtomicU64::new(SAY));
    move |done, of| {
        let millis = gates::clock::mono().since(started).as_millis().try_into().unwrap_or(u64::MAX);
        let due = next.load(Ordering::Relaxed);
        if millis >= due && next.compare_exchange(due, millis + SAY, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            say(millis as f64 / 1e3, &format!("choosing: {done} of {of} settings so far"));
        }
    }
}

/// What a run showed, in words.
fn held(run: &Trial) -> String {
    let rows = run.figures.iter().map(|it| {
        let shown = |value: f64| if it.figure == "throughput" { format!("{value:.2}/s") } else { seconds(value) };
        let seen = format!("{} ± {}", shown(it.seen), shown(it.plus_minus));
        vec![it.figure.to_owned(), shown(it.predicted), seen, format!("{:+.2} %", it.error * 100.0)]
    });
    let table = table(&["first choice", "predicted", "run", "error"], &rows.collect::<Vec<_>>());
    let (runs, s) = (run.runs, if run.runs == 1 { "" } else { "s" });
    format!(
        "\n{} requests of the first choice, as chance had them in {runs} run{s} (seed {}):\n{table}",
        run.requests, run.seed
    )
}

/// Seconds.
fn time(text: &str) -> Result<f64, String> {
    let seconds = quantity::number(text).map(|number| number / 1e3).or_else(|| quantity::seconds(text));
    above_zero(text, seconds, "a time above 0 such as `20 ms`, `50us` or `0.5 s`")
}

/// A second.
fn rate(text: &str) -> Result<f64, String> {
    let rate = quantity::number(text).or_else(|| quantity::a_second(text));
    above_zero(text, rate, "a rate above 0 such as `500/s`, `30/min` or `2/h`")
}

/// A share.
fn percent(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let percent = quantity::number(text.strip_suffix('%').unwrap_or(text));
    let percent = percent.filter(|percent| *percent <= 100.0);
    above_zero(text, percent.map(|percent| percent / 100.0), "percent above 0 and at most 100 such as `70 %`")
}

/// Joules.
fn energy(text: &str) -> Result<f64, String> {
    let joules = quantity::number(text).or_else(|| quantity::joules(text));
    above_zero(text, joules, "an energy above 0 such as `2 J`, `300 mJ` or `0.5 Wh`")
}

/// An hour.
fn money(text: &str) -> Result<f64, String> {
    let money = quantity::number(text).or_else(|| quantity::an_hour(text));
    above_zero(text, money, "money above 0 such as `0.3/h`, `5/day`, `200/month` or `900/year`")
}

/// A share below 1: nothing is up at all times.
fn availability(text: &str) -> Result<f64, String> {
    let share = quantity::share(text).filter(|share| *share < 1.0);
    above_zero(text, share, "a share above 0 and below 1 such as `99.9 %` or `0.999`")
}

fn above_zero(text: &str, value: Option<f64>, wanted: &str) -> Result<f64, String> {
    value.filter(|value| *value > 0.0).ok_or_else(|| format!("`{text}`: {wanted} is wanted"))
}
