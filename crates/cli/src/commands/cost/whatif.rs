//! `trapkey cost what-if`: settings of OPC UA on this machine, predicted, and held against runs.

mod show;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use bench::distance::States;
use bench::known::{ByState, Known};
use bench::quiet::{self, Probes};
use bench::steps::{Entry, Plan, Program, all, machine, measure, measure_again, versions};
use bench::verify::{self, Told, Verdict, fingerprint};
use clap::{Args, ValueEnum};
use cost::calibration::Calibration;
use cost::choose::Mode;
use cost::quantity;
use cost::whatif::{Grid, Prediction, Setting, Token, Way, predict};
use serde_json::json;

use super::priced::doubts;
use super::{Spend, write};
use crate::answer::Answer;
use crate::failure::Failure;
use crate::{files, stop};

/// Settings, and what they are predicted from.
#[derive(Debug, Args)]
pub(crate) struct WhatIf {
    /// The calibration that `cost measure` wrote (without it this machine is measured first)
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,

    /// Modes of the channel: Basic256Sha256, or nothing
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["none", "sign", "sign-and-encrypt"])]
    mode: Vec<Protection>,

    /// Bits of the RSA keys, as the calibration has them: `measure` has 2048, 3072 and 4096
    #[arg(long, value_delimiter = ',', value_name = "BITS", default_values = ["2048", "4096"], value_parser = whole)]
    key: Vec<u32>,

    /// How clients come to access tokens
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["off", "start-finish"])]
    token: Vec<Tokens>,

    /// How often a token is encrypted: by the channel alone, or for the server's key, too
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["once", "twice"])]
    encrypted: Vec<Encrypted>,

    /// How long keys of channels and access tokens live (`1 h`, `60 s`; a number alone is seconds; 1 s at least)
    #[arg(long, value_delimiter = ',', value_name = "TIME", default_values = ["1 h"], value_parser = lifetime)]
    lifetime: Vec<f64>,

    /// Clients, 1 to 256, each of which asks again when it has its answer
    #[arg(long, value_delimiter = ',', value_name = "COUNT", default_values = ["1", "8", "64"], value_parser = whole)]
    clients: Vec<u32>,

    /// The present setting, by its name in the table, that the others are compared with (without it the first)
    #[arg(long, value_name = "NAME")]
    present: Option<String>,

    /// Write the prediction to this file; its SHA-256 is told before anything is run (those of rounds go to `FILE` with `.round-1.json` behind its stem, and so on)
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Run every row here with our server and a load generator, and print predicted, measured and error
    #[arg(long)]
    verify: bool,

    /// Rounds of `--verify`: each measures the steps again, predicts from them and runs each row once (2 to 100; rows of fewer than 10 do not count)
    #[arg(long, allow_negative_numbers = true, value_name = "COUNT", requires = "verify", default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=100))]
    rounds: u32,

    /// How long each run takes (`400 ms`)
    #[arg(long, value_name = "TIME", requires = "verify", default_value = "400 ms", value_parser = lifetime)]
    run_time: f64,

    #[command(flatten)]
    spend: Spend,
}

/// A mode as it is asked for.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Protection {
    None,
    Sign,
    SignAndEncrypt,
}

/// A flow as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Tokens {
    /// No tokens.
    Off,
    /// RequestAccessToken, one call over OPC UA.
    RequestAccessToken,
    /// StartRequestToken and FinishRequestToken.
    StartFinish,
    /// OAuth2 over HTTPS.
    Oauth2,
}

/// How often a token is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Encrypted {
    Once,
    Twice,
}

/// Where servers of `--verify` are.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// What `bench serve` takes
    #[arg(num_args = 2.., required = true)]
    words: Vec<String>,
}

pub(crate) fn serve(args: &Serve) -> Result<Answer, Failure> {
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    let served = bench::serve::options(&words).and_then(|options| bench::serve::run(&options));
    served.map_err(|error| Failure::unavailable(error.to_string()))?;
    Ok(Answer::silent())
}

pub(crate) fn run(args: &WhatIf) -> Result<Answer, Failure> {
    if args.run_time > 60.0 {
        return Err(Failure::bad_input("`--run-time`: a minute at most"));
    }
    let rounds: Vec<PathBuf> = args.of_rounds().collect();
    let written = args.out.iter().chain(&rounds).map(|path| ("--out", Some(path)));
    files::apart(&written.collect::<Vec<_>>(), args.calibration.as_deref())?;
    if args.verify || args.calibration.is_none() {
        stop::clears()?;
    }
    // Measuring takes minutes: first of all, what is asked for has to make sense.
    let grid = args.grid();
    args.spend.without_model(|_| grid.check())?;
    let calibration = args.calibration()?;
    let foreign = calibration.compare(&machine(), &versions());
    let mut warnings: Vec<String> = foreign.iter().map(ToString::to_string).collect();
    warnings.extend(doubts(&calibration));
    warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    let present = args.present(&grid)?;
    let prediction = args.spend.without_model(|budget| predict(&calibration, &grid, present.as_ref(), budget))?;
    if args.verify && prediction.rows.is_empty() {
        let failure = Failure::bad_input("`--verify`: no row serves a request, so there is nothing to run");
        return Err(failure.help("without `--verify` it is said what keeps each busy; longer lifetimes take less"));
    }
    let text = format!("{:#}\n", json!(prediction));
    let hash = fingerprint(&text);
    if let Some(path) = &args.out {
        write(path, &text)?;
    }
    let mut answer = json!({ "prediction": prediction, "sha256": hash, "warnings": warnings });
    let mut shown = show::predicted(&prediction, &hash);
    if args.verify {
        let (verdict, hashes) = args.hold(&prediction, &calibration, &hash)?;
        shown.push_str(&show::held(&verdict));
        answer["verified"] = json!(verdict);
        answer["verified"]["sha256"] = json!(hashes);
    }
    Ok(Answer::ok(shown, answer))
}

impl WhatIf {
    /// Where the predictions of a round go, from 0.
    fn of_round(&self, round: u32) -> Option<PathBuf> {
        self.out.as_ref().map(|path| path.with_extension(format!("round-{}.json", round + 1)))
    }

    /// Where those of all rounds go.
    fn of_rounds(&self) -> impl Iterator<Item = PathBuf> {
        (0..self.rounds).filter(|_| self.verify).filter_map(|round| self.of_round(round))
    }

    fn calibration(&self) -> Result<Calibration, Failure> {
        if let Some(path) = &self.calibration {
            let read = Calibration::read(&files::text(path)?);
            return read.map_err(|fault| {
                let why = format!("`{}` is no calibration: {}: {fault}", path.display(), fault.class.word());
                Failure::bad_input(why).help("`trapkey cost measure --out FILE` makes one")
            });
        }
        if let Some(path) = &self.out {
            files::exportable(path)?;
        }
        eprintln!("this machine is measured first: `cost measure --out FILE` keeps what is found");
        let measured = measure(&all(), Plan::FULL, &Program::own(&["cost", "step"]), &mut |_| ());
        measured.map_err(|error| Failure::unavailable(format!("a step cannot be measured: {error}")))
    }

    fn grid(&self) -> Grid {
        let mut tokens = Vec::new();
        for token in &self.token {
            let way = match token {
                Tokens::Off => {
                    tokens.push(None);
                    continue;
                }
                Tokens::RequestAccessToken => Way::RequestAccessToken,
                Tokens::StartFinish => Way::StartFinish,
                Tokens::Oauth2 => Way::Oauth2,
            };
            tokens.extend(self.encrypted.iter().map(|it| Some(Token { way, encrypted: *it == Encrypted::Twice })));
        }
        let mode = |mode: &Protection| match mode {
            Protection::None => Mode::None,
            Protection::Sign => Mode::Sign,
            Protection::SignAndEncrypt => Mode::SignAndEncrypt,
        };
        let mut clients = Vec::new();
        self.clients.iter().for_each(|count| clients.extend((!clients.contains(count)).then_some(*count)));
        Grid {
            modes: self.mode.iter().map(mode).collect(),
            bits: self.key.clone(),
            tokens,
            lifetimes: self.lifetime.clone(),
            clients,
        }
    }

    fn present(&self, grid: &Grid) -> Result<Option<Setting>, Failure> {
        let settings = grid.settings();
        let Some(name) = &self.present else { return Ok(settings.first().copied()) };
        let found = settings.iter().find(|setting| setting.name() == *name);
        found.copied().map(Some).ok_or_else(|| {
            let names: Vec<String> = settings.iter().map(Setting::name).collect();
            Failure::bad_input(format!("no setting here has the name `{name}`; there are: {}", names.join(", ")))
        })
    }

    /// The verdict, and the SHA-256 of what each round predicted, told before it ran.
    fn hold(
        &self,
        prediction: &Prediction,
        calibration: &Calibration,
        hash: &str,
    ) -> Result<(Verdict, Vec<String>), Failure> {
        eprintln!("predicted, before anything is run: sha256 {hash}");
        let time = Duration::from_secs_f64(self.run_time);
        let plan = verify::Plan { rounds: self.rounds, time, warm_up: (time / 4).max(Duration::from_millis(50)) };
        let words = ["cost", "serve"].map(str::to_owned);
        let entries: Vec<Entry> = all().into_iter().filter(|it| prediction.steps.contains(&it.name())).collect();
        let (grid, mut hashes) = (self.grid(), Vec::new());
        let mut known = Known::default();
        let unlooked = |why: &bench::Failed| {
            eprintln!("{}", quiet::unlooked(&why.to_string()));
        };
        let probes = Probes::start().inspect_err(unlooked).ok();
        let mut again = |round: u32, states: &mut States| {
            eprintln!("round {} of {}: {} steps are measured", round + 1, self.rounds, entries.len());
            let program = Program::own(&["cost", "step"]);
            let ByState { of, latest } = measure_again(&entries, &program, states, &mut known, probes.as_ref())?;
            let predicted = |newer: &Calibration| {
                self.spend
                    .without_model(|budget| predict(&calibration.renewed(newer), &grid, None, budget))
                    .map_err(Failure::why)
            };
            let now = of.iter().map(|(state, newer)| Ok((*state, predicted(newer)?)));
            let now = ByState { of: now.collect::<Result<BTreeMap<_, _>, bench::Failed>>()?, latest };
            let text = format!("{:#}\n", json!({"distances": states.distances(), "states": now.of, "latest": latest}));
            if let Some(path) = self.of_round(round) {
                write(&path, &text).map_err(Failure::why)?;
            }
            let hash = fingerprint(&text);
            eprintln!(
                "round {} of {}: predicted, sha256 {hash}; {} runs",
                round + 1,
                self.rounds,
                prediction.rows.len()
            );
            hashes.push(hash);
            Ok(now)
        };
        let mut progress = |told: Told<'_>| match told {
            Told::Runs(row) if verify::brief(&row.setting) => {
                let seconds = verify::lasting(&row.setting, plan).as_secs_f64();
                let name = row.setting.name();
                eprintln!("{name}, {} clients; keys and tokens are renewed: {seconds:.0} s", row.clients);
            }
            Told::Runs(_) => {}
            Told::Left(row) => {
                let name = row.setting.name();
                eprintln!(
                    "{name}, {} clients: not run, for by this round's steps renewals alone take a processor",
                    row.clients
                );
            }
            Told::Abandoned(it) => eprintln!("{}, {} clients: begun again: {}", it.setting.name(), it.clients, it.why),
        };
        let verdict = verify::verify(prediction, plan, &words, probes.as_ref(), &mut again, &mut progress)
            .map_err(|error| Failure::unavailable(format!("a row cannot be run: {error}")))?;
        Ok((verdict, hashes))
    }
}

/// One of a list, which may have blanks behind its commas.
fn whole(text: &str) -> Result<u32, String> {
    text.trim().parse().map_err(|_| format!("`{text}` is no whole number such as `8`, or several as in `1,8,64`"))
}

/// Seconds.
fn lifetime(text: &str) -> Result<f64, String> {
    let seconds = quantity::number(text).or_else(|| quantity::seconds(text));
    let given = seconds.filter(|seconds| *seconds > 0.0 && seconds.is_finite());
    given.ok_or_else(|| format!("`{text}` is no time above 0 such as `1 h`, `60 s` or `400 ms`"))
}
