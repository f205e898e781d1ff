//! `trapkey demo`: a batch line on this computer alone, in which rights come and go with the recipe.
//!
//! Authority, three resource servers, a guard in front of an old one, ledger and a client for each role run in this process and talk over loopback as
//! they would over a plant's network. Every expectation is checked; `--once` fails when one is not met.

mod actors;
mod attack;
mod danger;
mod interlock;
mod line;
mod old;
mod play;
mod report;
mod story;
mod witness;
mod workplace;

use std::fmt;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::answer::{Answer, Output};
use crate::failure::Failure;
use crate::stop::StopSignal;
use report::Report;

/// Options of `trapkey demo`
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Run the recipe once, check everything and end: exit code 0 only when all is as expected
    #[arg(long)]
    once: bool,
    /// Also play attacks and show how each is refused
    #[arg(long)]
    attack: bool,
    /// Keep everything running after the recipe, until Ctrl-C
    #[arg(long, conflicts_with = "once")]
    keep: bool,
    /// Take one protection away, to see that the demo notices
    #[arg(long, value_enum, hide = true)]
    danger_without: Option<Without>,
}

/// A protection that can be taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Without {
    /// Tokens are good after their end.
    Expiry,
    /// Tokens for other servers are good.
    Audience,
    /// Tokens are good on whatever channel.
    Confirmation,
    /// Tokens are good whatever their signature.
    Signature,
    /// Tokens are good whatever their algorithm.
    Algorithm,
    /// Secrets are good for whatever session.
    Nonce,
    /// Activations need no signature of the application.
    ClientSignature,
    /// Every certificate is trusted.
    Trust,
    /// Every token gives every right.
    Rights,
    /// Rights do not depend on the step.
    Step,
    /// Values have no range.
    Range,
    /// Nothing takes two persons.
    Approval,
    /// Grants outlive their revocation.
    Revocation,
    /// A crowd of idle connections keeps its places.
    Admission,
}

/// The demo could not be set up or broke off.
#[derive(Debug)]
pub(crate) struct Trouble(String);

impl Trouble {
    fn setup(what: &str, error: impl fmt::Display) -> Self {
        Self(format!("{what}: {error}"))
    }

    fn folder(error: std::io::Error) -> Self {
        Self::setup("a temporary folder", error)
    }
}

/// Runs the demo. Whatever ends it, its folder is gone when this returns: nothing runs any more that could write there.
pub(crate) fn run(args: &DemoArgs, output: Output) -> Result<Answer, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut report = Report::new(output == Output::Text);
    let (workplace, played) = runtime.block_on(play(args, &mut report));
    runtime.shutdown_timeout(Duration::from_secs(2));
    drop(workplace);
    match played {
        Ok(Some(ledger)) => Ok(conclude(&report, &ledger)),
        Ok(None) => Ok(Answer::verdict(false, "\nthe demo was stopped before its end\n", json!({"stopped": true}))),
        Err(trouble) => Err(Failure::unavailable(format!("the demo broke off: {}", trouble.0))),
    }
}

fn conclude(report: &Report, ledger: &store::Report) -> Answer {
    let (failed, all) = (report.failed(), report.checks().len());
    let json: Value = json!({
        "checks": report.checks(), "passed": all - failed, "failed": failed,
        "audit": {"records": ledger.records, "checkpoints": ledger.checkpoints, "sound": ledger.first_break.is_none()},
    });
    let text = format!(
        "\n{} of {all} checks passed; {} audit records, chain {}\n",
        all - failed,
        ledger.records,
        if ledger.first_break.is_none() { "verified" } else { "BROKEN" }
    );
    Answer::verdict(failed == 0 && ledger.first_break.is_none(), text, json)
}

/// What the ledger's check says; none when somebody stopped the demo before there was anything to conclude.
type Played = Result<Option<store::Report>, Trouble>;

async fn play(args: &DemoArgs, report: &mut Report) -> (Option<workplace::Workplace>, Played) {
    let stop = StopSignal::new().map_err(|error| Trouble::setup("signals", error));
    let mut stop = match stop {
        Ok(stop) => stop,
        Err(trouble) => return (None, Err(trouble)),
    };
    report.say("a batch line on this computer: certificates are being made ...");
    let made = tokio::select! {
        made = workplace::Workplace::make() => made,
        _ = stop.heard() => return (None, Ok(None)),
    };
    let workplace = match made {
        Ok(workplace) => workplace,
        Err(trouble) => return (None, Err(trouble)),
    };
    let ended = on_stage(args, &workplace, report, &mut stop).await;
    if ended.is_err() {
        last_words(&workplace, report);
    }
    (Some(workplace), ended)
}

/// What the ledger knows of a demo that broke off.
fn last_words(workplace: &workplace::Workplace, report: &Report) {
    report.head("the ledger's last words");
    for entry in store::tail(&workplace.ledger(), 8).unwrap_or_default() {
        let reason = entry.reason.as_deref().unwrap_or("");
        report.say(&format!(
            "  {} {} {} {reason} {} {}",
            entry.kind, entry.outcome, entry.actor, entry.object, entry.detail
        ));
    }
}

/// From the first server to the last record of the ledger; a signal ends the play, and the line in order.
async fn on_stage(
    args: &DemoArgs,
    workplace: &workplace::Workplace,
    report: &mut Report,
    stop: &mut StopSignal,
) -> Played {
    if let Some(without) = args.danger_without {
        report.say(&format!("SABOTAGED: one protection is taken away ({without:?})"));
    }
    let line = line::Line::start(workplace, args.danger_without).await?;
    let played = tokio::select! {
        played = acts(args, workplace, (&line, &mut *report)) => played.map(Some),
        _ = stop.heard() => Ok(None),
    };
    if let Ok(Some((guest, actors))) = played {
        if args.keep {
            report.say("\neverything keeps running; Ctrl-C ends it");
            stop.heard().await;
        }
        guest.leave().await;
        for actor in actors {
            actor.leave().await;
        }
        let key = line.ledger.key().clone();
        line.stop().await;
        let sound = store::verify(&workplace.ledger(), Some(&key));
        return sound.map(Some).map_err(|error| Trouble::setup("the ledger", error));
    }
    line.stop().await;
    played.map(|_| None)
}

/// The recipe, and what else is asked for.
async fn acts(
    args: &DemoArgs,
    workplace: &workplace::Workplace,
    (line, report): (&line::Line, &mut Report),
) -> Result<(old::Guest, Vec<actors::Actor>), Trouble> {
    report.say(&format!("{:<9} at {} and https://127.0.0.1:{}", "Authority", line.opcua.url, line.https.port));
    for station in &line.stations {
        report.say(&format!("{:<9} at opc.tcp://{}", station.station.name(), station.handle.address()));
    }
    report.say(&format!("{:<9} at opc.tcp://{}, in front of an old mixer", "Guard", line.guarded.guard.address()));
    let mut witness = witness::Witness::begin(workplace, args.danger_without.is_some())?;
    let guest = old::Guest::enter(line, workplace, (report, &mut witness)).await?;
    let actors = actors::Actor::all(line, workplace).await?;
    let mut view = play::View::begin(&actors).await?;
    let pace = Duration::from_millis(if args.once { 200 } else { 1_500 });
    play::run(line, (&actors, &guest), (report, &mut witness), pace).await?;
    view.refreshed(&actors, (report, &mut witness)).await?;
    view.revoked(line, (report, &mut witness)).await?;
    if args.attack || args.once {
        attack::run(line, workplace, (report, &mut witness)).await?;
    }
    Ok((guest, actors))
}
