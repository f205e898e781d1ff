//! The recipe runs: in every step everybody tries everything, one token is renewed unnoticed, one is revoked.

use std::time::Duration;

use access_model::{Actor as Person, UnixTime};
use client::{Watch, WatchOptions};
use opcua_types::DataValue;
use plant::Step;
use plant::equipment::{Station, node_id};
use store::TokenFilter;
use tokio::time::Instant;
use ua_proto::space::date_time;

use super::Trouble;
use super::actors::Actor;
use super::interlock;
use super::line::{Line, recipe};
use super::old::Guest;
use super::report::Report;
use super::story::{Act, PROBES, Probe};
use super::witness::{AGAIN, PATIENCE, Wanted, Witness};

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
/// What whoever must not see a value sees.
const DENIED: &str = "Bad_UserAccessDenied";
/// So many values that come after a revocation was heard show that it ended nothing.
const GOES_ON: usize = 5;

/// What must come of it, and what the ledger must know. Permitted reads are summed up there and not looked for.
fn expected(probe: &Probe, step: Step) -> String {
    match (probe.allowed(step), probe.act) {
        (true, Act::Read) => "allowed".into(),
        (true, _) => "allowed, audited".into(),
        (false, _) => format!("Bad_UserAccessDenied, audited as {}", probe.denial()),
    }
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
pub(crate) async fn run(
    line: &Line,
    (actors, guest): (&[Actor], &Guest),
    (report, witness): (&mut Report, &mut Witness),
    pace: Duration,
) -> Result<(), Trouble> {
    let mut before: Vec<bool> = Vec::new();
    report.head("step idle: everybody has signed in; each tries everything they could want");
    try_everything(actors, Step::Idle, &mut before, (report, witness)).await?;
    guest.try_it(Step::Idle, (report, witness)).await?;
    let mover = recipe();
    for (transition, step) in RECIPE {
        tokio::time::sleep(pace).await;
        let wanted =
            Wanted { objects: vec![transition.into()], ..Wanted::from_now(&["step_changed"], "allowed", &mover.name) };
        let changed = line.fire(transition, step).await?;
        report.head(&format!(
            "step {} (epoch {}); of the tokens {}, {}, {}",
            step.name(),
            changed.epoch.0,
            tokens(changed.revoked, "ended"),
            tokens(changed.narrowed, "lost rights"),
            tokens(changed.widened, "gained rights")
        ));
        let known = audited(witness.find(&wanted).await?.is_some());
        report.check(step.name(), &format!("the recipe moves on: {transition}"), "audited", known);
        try_everything(actors, step, &mut before, (report, witness)).await?;
        guest.try_it(step, (report, witness)).await?;
        if step == Step::Charge {
            interlock::show(guest.client(), line, (report, witness)).await?;
        }
    }
    Ok(())
}

fn audited(known: bool) -> &'static str {
    if known { "audited" } else { "not audited" }
}

async fn try_everything(
    actors: &[Actor],
    step: Step,
    before: &mut Vec<bool>,
    (report, witness): (&mut Report, &mut Witness),
) -> Result<(), Trouble> {
    let mut outcomes = Vec::new();
    for probe in &PROBES {
        let Some(actor) = actors.get(probe.who) else { continue };
        let (mut since, mut seen) = (gates::clock::now().unix, actor.attempt(probe).await?);
        for _ in 0..AGAIN {
            // Four seconds may pass between two lines when a computer has much to do: his token has ended meanwhile.
            if probe.who != OBSERVER || probe.allowed(step) == (seen == "allowed") {
                break;
            }
            (since, seen) = (gates::clock::now().unix, actor.attempt(probe).await?);
        }
        outcomes.push((probe, actor, since, seen));
    }
    let mut now = Vec::new();
    for (nth, (probe, actor, since, seen)) in outcomes.into_iter().enumerate() {
        let what = words(actor, probe);
        let allowed = seen == "allowed";
        let found = testified(witness, (probe, step), actor, since, seen).await?;
        let note = match (before.get(nth), allowed) {
            (Some(false), true) => "<- gained",
            (Some(true), false) => "<- lost",
            _ => "",
        };
        now.push(allowed);
        report.check_noting(step.name(), &what, &expected(probe, step), &found, note);
    }
    *before = now;
    Ok(())
}

/// What was seen, with what the ledger knows of it.
async fn testified(
    witness: &mut Witness,
    (probe, step): (&Probe, Step),
    actor: &Actor,
    since: UnixTime,
    seen: String,
) -> Result<String, Trouble> {
    let (allowed, expected) = (seen == "allowed", probe.allowed(step));
    let kinds = [probe.act.kind()];
    let mut objects = vec![node_id(probe.target()).to_string()];
    if probe.denial() == "grant_revoked" {
        // A request that is turned away as a whole is not looked into.
        objects.push(String::new());
    }
    let wanted = Wanted {
        kinds: &kinds,
        outcome: if allowed { "allowed" } else { "denied" },
        actor: actor.cast.principal(),
        application: Some(actor.cast.application),
        objects,
        since,
    };
    Ok(match (allowed, probe.act) {
        (true, Act::Read) => seen,
        (true, _) => format!("{seen}, {}", audited(witness.find(&wanted).await?.is_some())),
        (false, _) => {
            format!("{seen}, audited as {}", witness.reason(&wanted, probe.denial(), !expected).await?)
        }
    })
}

/// A number of tokens, in words.
fn tokens(number: usize, what: &str) -> String {
    match number {
        0 => format!("none {what}"),
        1 => format!("1 {what}"),
        many => format!("{many} {what}"),
    }
}

/// What a revocation came to.
struct Revoked {
    seen: &'static str,
    reason: String,
    /// Whether the ledger knows of each token who revoked it.
    known: bool,
    last: Option<Duration>,
    silenced: Option<Duration>,
}

/// The observer's view of the reactor's temperature, from the first step to the last.
pub(crate) struct View {
    watch: Watch,
    generation: u64,
    values: u64,
    faults: u64,
    /// When it began.
    since: UnixTime,
}

impl View {
    /// Begins to watch.
    pub(crate) async fn begin(actors: &[Actor]) -> Result<Self, Trouble> {
        let client =
            actors.get(OBSERVER).ok_or_else(|| Trouble::setup("no observer", OBSERVER))?.client(Station::Reactor)?;
        let since = gates::clock::now().unix;
        let options = WatchOptions {
            publishing_interval: Duration::from_millis(20),
            lifetime_count: 30_000,
            ..WatchOptions::default()
        };
        let watch = client.watch(&[node_id("Reactor.Measurements.Temperature")], options).await;
        let watch = watch.map_err(|error| Trouble::setup("the observer's watch", error))?;
        Ok(Self { watch, generation: client.token_generation(), values: 0, faults: 0, since })
    }

    /// Counts what has come since the last look.
    async fn look(&mut self, wait: Duration) -> Option<bool> {
        Some(self.next(wait).await?.status().is_good())
    }

    async fn next(&mut self, wait: Duration) -> Option<DataValue> {
        let change = tokio::time::timeout(wait, self.watch.next()).await.ok()??;
        let good = change.value.status().is_good();
        if good {
            self.values += 1
        } else {
            self.faults += 1
        }
        Some(change.value)
    }

    /// Waits until the token was renewed at least once, watching all the while: no fault may show. A computer that stands
    /// still for as long as the token lives renews it too late: then the next renewal is watched.
    pub(crate) async fn refreshed(
        &mut self,
        actors: &[Actor],
        (report, witness): (&mut Report, &mut Witness),
    ) -> Result<(), Trouble> {
        let client =
            actors.get(OBSERVER).ok_or_else(|| Trouble::setup("no observer", OBSERVER))?.client(Station::Reactor)?;
        for round in 0..AGAIN {
            if round > 0 {
                (self.generation, self.faults) = (client.token_generation(), 0);
            }
            let end = Instant::now() + PATIENCE;
            while client.token_generation() <= self.generation && Instant::now() < end {
                self.look(Duration::from_millis(100)).await;
            }
            for _ in 0..5 {
                self.look(Duration::from_millis(200)).await;
            }
            if self.faults == 0 {
                break;
            }
        }
        report.head("refresh: the observer's token lives 4 s and is renewed on the running session");
        let renewed = client.token_generation() > self.generation;
        report.check("refresh", "the token was renewed", "yes", if renewed { "yes" } else { "no" });
        report.check("refresh", "values that failed meanwhile", "0", &self.faults.to_string());
        report.check("refresh", "sessions the observer needed", "1", &client.session_count().to_string());
        let wanted = Wanted { since: self.since, ..Wanted::from_now(&["token_refreshed"], "allowed", "quinn") };
        let known = witness.find(&wanted).await?.is_some();
        report.check("refresh", "the ledger knows of the new token", "audited", audited(known));
        report.say(&format!("  {} values came through", self.values));
        self.generation = client.token_generation();
        Ok(())
    }

    /// Revokes the observer's token and measures how long its session still sees values; once more when the token was over
    /// before it was revoked.
    pub(crate) async fn revoked(
        &mut self,
        line: &Line,
        (report, witness): (&mut Report, &mut Witness),
    ) -> Result<(), Trouble> {
        report.head("revocation: the observer's token is revoked while its session watches");
        let mut shown = self.revoke_once(line, witness).await?;
        for _ in 0..AGAIN {
            if shown.seen != DENIED || shown.reason == "grant_revoked" {
                break;
            }
            shown = self.revoke_once(line, witness).await?;
        }
        let (found, expected) = (format!("{}, audited as {}", shown.seen, shown.reason), "audited as grant_revoked");
        report.check("revocation", "the watched value", &format!("{DENIED}, {expected}"), &found);
        let known = audited(shown.known);
        report.check("revocation", "the ledger knows who revoked each token", "audited", known);
        let millis = |at: Option<Duration>| at.map_or("none".into(), |at| format!("{:.1} ms", at.as_secs_f64() * 1e3));
        report.say(&format!(
            "  last value after the acknowledgement: {}; silent after {}",
            millis(shown.last),
            millis(shown.silenced)
        ));
        // The session may be silenced once more before the new token counts: each of the tokens was revoked. Then the
        // client waits a while before it asks again, and on a busy computer the password takes its time.
        let found = if self.good().await { "yes" } else { "no" };
        report.check("revocation", "with a new token the value comes back", "yes", found);
        Ok(())
    }

    /// Waits for a value.
    async fn good(&mut self) -> bool {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if self.look(Duration::from_millis(200)).await == Some(true) {
                return true;
            }
        }
        false
    }

    /// Revokes what the observer's session stands on.
    async fn revoke_once(&mut self, line: &Line, witness: &mut Witness) -> Result<Revoked, Trouble> {
        while self.look(Duration::ZERO).await.is_some() {}
        self.good().await;
        let now = gates::clock::now().unix;
        let filter = TokenFilter { subject: Some("quinn".into()), live_at: Some(now), ..TokenFilter::default() };
        let tokens = line.authority.db().tokens(&filter).await.map_err(|error| Trouble::setup("the journal", error))?;
        while self.look(Duration::ZERO).await.is_some() {}
        let ids: Vec<String> = tokens.iter().map(|token| token.id.clone()).collect();
        let wanted = |kinds, outcome, actor, objects| Wanted { objects, ..Wanted::from_now(kinds, outcome, actor) };
        let silence = wanted(&["grant_revoked"], "denied", "quinn", ids.clone());
        let each = ids.into_iter().map(|id| wanted(&["token_revoked"], "allowed", "ada", vec![id]));
        let each: Vec<Wanted<'_>> = each.collect();
        let by = Person { name: "ada".into(), ..Person::default() };
        for token in &tokens {
            let revoked = line.authority.revoke(&token.id, &by, "shown at the demo").await;
            revoked.map_err(|error| Trouble::setup("the revocation", error))?;
        }
        let (last, silenced) = self.silence(line).await?;
        let seen = if silenced.is_some() { DENIED } else { "still comes" };
        let reason = witness.reason(&silence, "grant_revoked", silenced.is_some()).await?;
        let mut known = true;
        for revoked in &each {
            known &= witness.find(revoked).await?.is_some();
        }
        Ok(Revoked { seen, reason, known, last, silenced })
    }

    /// When the last value came after this moment, and when the first denial did; no denial, when values go on that the
    /// server sent after its gate had heard.
    async fn silence(&mut self, line: &Line) -> Result<(Option<Duration>, Option<Duration>), Trouble> {
        let acknowledged = Instant::now();
        let mut last = None;
        let mut heard = None;
        let mut since = 0;
        while acknowledged.elapsed() < PATIENCE && since < GOES_ON {
            match self.next(Duration::from_millis(200)).await {
                Some(value) if value.status().is_good() => {
                    last = Some(acknowledged.elapsed());
                    since += usize::from(heard.is_some_and(|heard| value.server_timestamp > Some(heard)));
                }
                Some(_) => return Ok((last, Some(acknowledged.elapsed()))),
                None => {}
            }
            if heard.is_none() && last.is_some() {
                line.heard().await?;
                heard = Some(date_time(gates::clock::now().unix));
            }
        }
        Ok((last, None))
    }
}
