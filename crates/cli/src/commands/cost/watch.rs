//! `trapkey cost watch`: looks at the figures of running programs, keeps what their stages take current, and says which one moved.

mod end;
mod kept;
mod scrape;
mod show;

use std::collections::VecDeque;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use access_model::UnixTime;
use clap::Args;
use cost::calibration::Calibration;
use cost::twin::{Event, Settings, Twin};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::end::End;
use self::kept::Kept;
use self::scrape::Address;
use super::super::{Common, block_on};
use super::priced::doubts;
use crate::answer::{Answer, Output, line};
use crate::commands::audit::shown;
use crate::commands::model::with_unit;
use crate::failure::Failure;
use crate::files;
use crate::screen::page;
use crate::stop::StopSignal;

/// Which programs, and how.
#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// Where programs tell of themselves, `http://HOST:PORT` (without one: `listen` in `[operation]` of the configuration)
    #[arg(value_name = "URL")]
    programs: Vec<String>,

    /// What the stages took, as an earlier watch has written it with `--out`; stages that are not in it are learned
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,

    /// Learn a stage without a reference for so long at least, and for twenty batches of eight uses
    #[arg(long, default_value = "5m", value_name = "TIME", value_parser = span)]
    learn: Duration,

    /// Time between two looks
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = span)]
    interval: Duration,

    /// How far a stage may be from its reference, in percent: 50 is from two thirds of it to one and a half
    #[arg(long, allow_hyphen_values = true, default_value_t = 50.0, value_name = "PERCENT", value_parser = percent)]
    band: f64,

    /// False alarms are at least so far apart, mean, over all stages of a program
    #[arg(long, default_value = "30d", value_name = "TIME", value_parser = span)]
    false_alarms: Duration,

    /// End after this time
    #[arg(long = "for", value_name = "TIME", value_parser = span, conflicts_with = "once")]
    time: Option<Duration>,

    /// Look twice, one interval apart, hold what happened between against the reference (`--calibration`), and end
    #[arg(long, requires = "calibration")]
    once: bool,

    /// Keep the references in this file as the stages are now, with all else that `--calibration` has: written after each look, whole
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A program that is watched.
struct Program {
    address: Address,
    twin: Twin,
    /// Whether its figures were ever had.
    met: bool,
    /// Why they could not be had at the last look.
    why: String,
    /// How often it was looked at.
    looks: u64,
    /// What has happened lately, for the page.
    lately: VecDeque<String>,
}

/// How long an answer is waited for, where looks are closer to each other.
const PATIENCE: Duration = Duration::from_secs(10);
/// Events that stand below the page.
const LATELY: usize = 6;

pub(super) fn run(args: &Watch, common: &Common) -> Result<Answer, Failure> {
    let addresses = match &*args.programs {
        [] => vec![configured(common)?],
        given => given.iter().map(|url| Address::of(url)).collect::<Result<Vec<_>, _>>()?,
    };
    let mut others = addresses.iter().enumerate();
    if let Some((_, twice)) = others.find(|(at, address)| addresses.iter().take(*at).any(|other| other == *address)) {
        return Err(Failure::bad_input(format!("`{twice}` is named twice: it is one program")));
    }
    let calibration = args.calibration.as_deref().map(read).transpose()?;
    if args.once && !calibration.iter().flat_map(|it| &it.steps).any(|step| step.operation == cost::twin::OPERATION) {
        let message = "the calibration has nothing of a watch: there is no reference for one look";
        return Err(Failure::bad_input(message).help("let `trapkey cost watch --for 10m --out FILE` write one"));
    }
    warn_of(calibration.as_ref());
    let settings = Settings {
        band: args.band / 100.0,
        false_alarms: args.false_alarms.as_secs_f64(),
        interval: args.interval.as_secs_f64(),
        learn: args.learn.as_secs_f64(),
        once: args.once,
        ..Settings::default()
    };
    let new = |address| Program {
        address,
        twin: Twin::new(settings, calibration.as_ref()),
        met: false,
        why: "there was no answer yet".to_owned(),
        looks: 0,
        lately: VecDeque::new(),
    };
    let mut programs: Vec<Program> = addresses.into_iter().map(new).collect();
    let mut kept = args.out.as_deref().map(|path| Kept::new(path, calibration));
    let is_read = block_on(watch(args, &mut programs, kept.as_mut(), common.output))?;
    let end = End::of(args.once, &programs);
    match kept.as_mut().map_or(Ok(()), |kept| kept.keep(&programs)) {
        Ok(()) if !is_read => Ok(Answer::unavailable(String::new(), Value::Null)),
        Ok(()) => Ok(end.answer(common.output)),
        Err(failure) => end.failed(failure, common.output),
    }
}

/// The address of the configuration.
fn configured(common: &Common) -> Result<Address, Failure> {
    let config = common.config.load()?;
    match config.operation.listen {
        Some(address) => Address::of(&format!("http://{address}")),
        None => {
            let message = "the configuration has no `listen` in `[operation]`: the program shows no figures";
            Err(Failure::bad_input(message).help("add it, or name where the program tells of itself"))
        }
    }
}

fn read(path: &Path) -> Result<Calibration, Failure> {
    let text = files::text(path)?;
    let read = Calibration::read(&text).and_then(|it| cost::twin::check(&it).map(|()| it));
    read.map_err(|fault| Failure::bad_input(format!("`{}`: {}: {fault}", path.display(), fault.class.word())))
}

/// References hold for the machine that they were taken on.
fn warn_of(calibration: Option<&Calibration>) {
    let Some(calibration) = calibration else { return };
    let foreign = calibration.compare(&bench::steps::machine(), &bench::steps::versions());
    let warnings = foreign.iter().map(ToString::to_string).chain(doubts(calibration));
    warnings.for_each(|warning| eprintln!("warning: {warning}"));
}

/// Whether somebody read what was said, to the end.
async fn watch(
    args: &Watch,
    programs: &mut [Program],
    mut kept: Option<&mut Kept<'_>>,
    output: Output,
) -> Result<bool, Failure> {
    let mut stop = StopSignal::new()?;
    let deadline = args.time.and_then(|time| gates::clock::instant(gates::clock::mono() + time));
    let screen = output == Output::Text && std::io::stdout().is_terminal();
    // Each is looked at by itself: one that is silent does not keep the others waiting.
    let (said, mut heard) = mpsc::channel(programs.len());
    let mut looking = JoinSet::new();
    for (index, program) in programs.iter().enumerate() {
        looking.spawn(look(index, program.address.clone(), args.interval, said.clone()));
    }
    loop {
        let (index, text, at) = tokio::select! {
            Some(look) = heard.recv() => look,
            () = passed(deadline) => return Ok(true),
            _ = stop.heard() => return Ok(true),
        };
        let Some(program) = programs.get_mut(index).filter(|program| !args.once || program.looks < 2) else { continue };
        let events = program.look(text, at);
        if !program.say(&events, output, screen) {
            return Ok(false);
        }
        if screen {
            let all = programs.iter().map(|program| program.page() + &program.lately());
            print!("\x1b[H\x1b[J{}", page(&all.collect::<Vec<_>>().join("\n")));
            let _nobody_looks = std::io::Write::flush(&mut std::io::stdout());
        }
        // A disk that is full now may have room again at the next look; at the end it is an error.
        if let Some(kept) = &mut kept {
            kept.try_to_keep(programs);
        }
        if args.once && programs.iter().all(|program| program.looks >= 2) {
            return Ok(true);
        }
    }
}

/// Which program, its figures or why they cannot be had, and when that was known.
type Look = (usize, Result<String, String>, f64);

/// Looks at one program for ever.
async fn look(index: usize, address: Address, interval: Duration, said: mpsc::Sender<Look>) {
    let mut ticks = tokio::time::interval(interval);
    // After a sleep of the machine one look is enough.
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let text = address.figures(interval.max(PATIENCE)).await;
        if said.send((index, text, seconds_now())).await.is_err() {
            return;
        }
    }
}

async fn passed(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn seconds_now() -> f64 {
    gates::clock::mono().since(access_model::Mono::ZERO).as_secs_f64()
}

impl Program {
    fn look(&mut self, text: Result<String, String>, at: f64) -> Vec<Event> {
        self.looks += 1;
        let looked = text.and_then(|text| self.twin.text(&text, at).map_err(|fault| fault.to_string()));
        match looked {
            Ok(events) => {
                self.met = true;
                events
            }
            Err(why) => {
                let event = self.twin.gone(at, &why);
                self.why = why;
                event.into_iter().collect()
            }
        }
    }

    /// Prints what has happened; whether somebody reads it.
    fn say(&mut self, events: &[Event], output: Output, screen: bool) -> bool {
        let now = gates::clock::now().unix;
        let said = |event| show::event(event, |ago| shown(before(now, ago)));
        match output {
            Output::Json => {
                let report = self.twin.report(seconds_now());
                let (at, program) = (shown(now), self.address.to_string());
                line(&json!({ "at": at, "program": program, "events": events, "report": report }).to_string())
            }
            Output::Text if screen => {
                // How far learning has come stands in the page.
                let told = events.iter().filter(|event| !matches!(event, Event::Learned { .. }));
                self.lately.extend(told.map(|event| format!("{} {}", in_seconds(now), show::briefly(event))));
                self.lately.drain(..self.lately.len().saturating_sub(LATELY));
                true
            }
            Output::Text => {
                events.iter().all(|event| line(&format!("{} {} {}", shown(now), self.address, said(event))))
            }
        }
    }

    /// What has happened, the last below.
    fn lately(&self) -> String {
        let lines = self.lately.iter().map(|event| format!("{event}\n"));
        if self.lately.is_empty() { String::new() } else { format!("\nlately:\n{}", lines.collect::<String>()) }
    }

    fn page(&self) -> String {
        let now = gates::clock::now().unix;
        let report = self.twin.report(seconds_now());
        show::page(&self.address.to_string(), &report, &in_seconds(now), &self.why, |ago| in_seconds(before(now, ago)))
    }
}

/// A moment as a page says it.
fn in_seconds(at: UnixTime) -> String {
    shown(at).chars().take(19).collect::<String>() + "Z"
}

/// So many seconds ago, by the wall clock as it is now: steps that it made meanwhile do not count.
fn before(now: UnixTime, ago: f64) -> UnixTime {
    #[expect(clippy::cast_possible_truncation, reason = "cut to what the type has")]
    UnixTime::from_micros(now.as_micros().saturating_sub((ago * 1e6) as i64))
}

/// A time with its unit.
fn span(text: &str) -> Result<Duration, String> {
    let seconds = with_unit(text).ok_or_else(|| format!("`{text}` is no time such as `10s`, `5 min` or `30 d`"))?;
    if (0.1..=1e9).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(format!("`{text}`: 100 ms to 30 years"))
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let number: f64 = text.trim_end_matches('%').trim().parse().map_err(|_| format!("`{text}` is no number"))?;
    if (5.0..=100_000.0).contains(&number) { Ok(number) } else { Err(format!("`{text}`: 5 to 100000")) }
}
