//! The recipe runs: in every step everybody tries everything, one token is renewed unnoticed, one is revoked.

use std::time::Duration;

use access_model::Actor as Person;
use client::{Watch, WatchOptions};
use plant::Step;
use plant::equipment::{Station, node_id};
use store::TokenFilter;
use tokio::time::Instant;

use super::Trouble;
use super::actors::Actor;
use super::line::Line;
use super::report::Report;
use super::story::{Act, PROBES, Probe};

/// The transitions of the workflow with the steps they lead to.
const RECIPE: [(&str, Step); 6] = [
    ("start", Step::Charge),
    ("charged", Step::Heat),
    ("hot", Step::React),
    ("converted", Step::Discharge),
    ("empty", Step::Clean),
    ("cleaned", Step::Idle),
];

/// Who watches the whole time: the quality observer, position in the cast.
const OBSERVER: usize = 3;

fn expected(probe: &Probe, step: Step) -> &'static str {
    if probe.allowed(step) { "allowed" } else { "Bad_UserAccessDenied" }
}

fn words(actor: &Actor, probe: &Probe) -> String {
    let act = match probe.act {
        Act::Read => "reads",
        Act::Write(_) => "writes",
        Act::Call => "calls",
    };
    format!("{} ({}) {act} {}", actor.cast.name(), actor.cast.title, probe.path)
}

/// Runs the recipe once, from idle to idle.
pub(crate) async fn run(line: &Line, actors: &[Actor], report: &mut Report, pace: Duration) -> Result<(), Trouble> {
    let mut before: Vec<bool> = Vec::new();
    report.head("step idle: everybody has signed in; each tries everything they could want");
    try_everything(actors, Step::Idle, &mut before, report).await?;
    for (transition, step) in RECIPE {
        tokio::time::sleep(pace).await;
        let changed = line.fire(transition, step).await?;
        report.head(&format!(
            "step {} (epoch {}); of the tokens {}, {}, {}",
            step.name(),
            changed.epoch.0,
            tokens(changed.revoked, "ended"),
            tokens(changed.narrowed, "lost rights"),
            tokens(changed.widened, "gained rights")
        ));
        try_everything(actors, step, &mut before, report).await?;
    }
    Ok(())
}

async fn try_everything(
    actors: &[Actor],
    step: Step,
    before: &mut Vec<bool>,
    report: &mut Report,
) -> Result<(), Trouble> {
    let mut now = Vec::new();
    for (nth, probe) in PROBES.iter().enumerate() {
        let Some(actor) = actors.get(probe.who) else { continue };
        let what = words(actor, probe);
        let found = actor.attempt(probe).await?;
        let allowed = found == "allowed";
        let note = match (before.get(nth), allowed) {
            (Some(false), true) => "<- gained",
            (Some(true), false) => "<- lost",
            _ => "",
        };
        now.push(allowed);
        report.check_noting(step.name(), &what, expected(probe, step), &found, note);
    }
    *before = now;
    Ok(())
}

/// A number of tokens, in words.
fn tokens(number: usize, what: &str) -> String {
    match number {
        0 => format!("none {what}"),
        1 => format!("1 {what}"),
        many => format!("{many} {what}"),
    }
}

/// The observer's view of the reactor's temperature, from the first step to the last.
pub(crate) struct View {
    watch: Watch,
    generation: u64,
    values: u64,
    faults: u64,
}

impl View {
    /// Begins to watch.
    pub(crate) async fn begin(actors: &[Actor]) -> Result<Self, Trouble> {
        let client =
            actors.get(OBSERVER).ok_or_else(|| Trouble::setup("no observer", OBSERVER))?.client(Station::Reactor)?;
        let options = WatchOptions { publishing_interval: Duration::from_millis(20), ..WatchOptions::default() };
        let watch = client.watch(&[node_id("Reactor.Measurements.Temperature")], options).await;
        let watch = watch.map_err(|error| Trouble::setup("the observer's watch", error))?;
        Ok(Self { watch, generation: client.token_generation(), values: 0, faults: 0 })
    }

    /// Counts what has come since the last look.
    async fn look(&mut self, wait: Duration) -> Option<bool> {
        let change = tokio::time::timeout(wait, self.watch.next()).await.ok()??;
        let good = change.value.status().is_good();
        if good {
            self.values += 1
        } else {
            self.faults += 1
        }
        Some(good)
    }

    /// Waits until the token was renewed at least once, watching all the while: no fault may show.
    pub(crate) async fn refreshed(&mut self, actors: &[Actor], report: &mut Report) -> Result<(), Trouble> {
        let client =
            actors.get(OBSERVER).ok_or_else(|| Trouble::setup("no observer", OBSERVER))?.client(Station::Reactor)?;
        let end = Instant::now() + super::line::OBSERVER_LIFE * 2;
        while client.token_generation() <= self.generation && Instant::now() < end {
            self.look(Duration::from_millis(100)).await;
        }
        for _ in 0..5 {
            self.look(Duration::from_millis(200)).await;
        }
        report.head("refresh: the observer's token lives 4 s and is renewed on the running session");
        let renewed = client.token_generation() > self.generation;
        report.check("refresh", "the token was renewed", "yes", if renewed { "yes" } else { "no" });
        report.check("refresh", "values that failed meanwhile", "0", &self.faults.to_string());
        report.check("refresh", "sessions the observer needed", "1", &client.session_count().to_string());
        report.say(&format!("  {} values came through", self.values));
        self.generation = client.token_generation();
        Ok(())
    }

    /// Revokes the observer's token and measures how long its session still sees values.
    pub(crate) async fn revoked(&mut self, line: &Line, report: &mut Report) -> Result<(), Trouble> {
        let now = gates::clock::now().unix;
        let filter = TokenFilter { subject: Some("quinn".into()), live_at: Some(now), ..TokenFilter::default() };
        let tokens = line.authority.db().tokens(&filter).await.map_err(|error| Trouble::setup("the journal", error))?;
        while self.look(Duration::ZERO).await.is_some() {}
        let by = Person { name: "ada".into(), ..Person::default() };
        for token in &tokens {
            let revoked = line.authority.revoke(&token.id, &by, "shown at the demo").await;
            revoked.map_err(|error| Trouble::setup("the revocation", error))?;
        }
        let acknowledged = Instant::now();
        let end = Instant::now() + Duration::from_secs(2);
        let (mut last, mut silenced) = (None, None);
        while silenced.is_none() && Instant::now() < end {
            match self.look(Duration::from_millis(200)).await {
                Some(true) => last = Some(acknowledged.elapsed()),
                Some(false) => silenced = Some(acknowledged.elapsed()),
                None => {}
            }
        }
        report.head("revocation: the observer's token is revoked while its session watches");
        report.check(
            "revocation",
            "the watched value",
            "Bad_UserAccessDenied",
            if silenced.is_some() { "Bad_UserAccessDenied" } else { "still comes" },
        );
        let millis = |at: Option<Duration>| at.map_or("none".into(), |at| format!("{:.1} ms", at.as_secs_f64() * 1e3));
        report.say(&format!(
            "  last value after the acknowledgement: {}; silent after {}",
            millis(last),
            millis(silenced)
        ));
        // The session may be silenced once more before the new token counts: each of the tokens was revoked.
        let end = Instant::now() + Duration::from_secs(5);
        let mut back = None;
        while back != Some(true) && Instant::now() < end {
            back = self.look(Duration::from_millis(200)).await;
        }
        let found = if back == Some(true) { "yes" } else { "no" };
        report.check("revocation", "with a new token the value comes back", "yes", found);
        Ok(())
    }
}
