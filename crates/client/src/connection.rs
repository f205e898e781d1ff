//! The client as a whole: connecting, and keeping the token fresh.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use access_model::Mono;
use gates::clock;
use opcua_types::{EndpointDescription, NodeId, UserTokenType};
use tokio::sync::{Mutex, mpsc};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until};
use ua_proto::client::Credential;
use zeroize::Zeroizing;

use crate::denials::{Denials, freshen};
use crate::error::{ClientError, TokenError};
use crate::options::{ClientOptions, Login};
use crate::publisher::{self, Order};
use crate::session::{Found, Session, discover};
use crate::tokens::{Fetched, TokenSource};

/// A token younger than the first is not replaced because of a denial: the next would say the same. Each fresh token that
/// does not help doubles the time, up to the second.
const FRESH: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));
/// Pause after a failed renewal; doubles up to the second.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));

/// A connected client. Clones use the same session; the last one dropped closes it.
#[derive(Clone)]
pub struct Client {
    pub(crate) core: Arc<Core>,
    pub(crate) orders: mpsc::Sender<Order>,
    _tasks: Arc<Tasks>,
}

/// What the client's operations and its tasks share.
pub(crate) struct Core {
    pub(crate) session: Session,
    source: Option<TokenSource>,
    endpoint: EndpointDescription,
    /// Counts the tokens the session was activated with.
    generation: AtomicU64,
    /// The generation that the activation under way begins when it succeeds; 0 while there is none.
    under_way: AtomicU64,
    token: Mutex<Held>,
    /// How old a token has to be before a denial replaces it, in milliseconds.
    fresh: AtomicU64,
    /// What became of the things that are watched.
    pub(crate) denials: Denials,
}

/// When a token was fetched last, and when the next is due.
#[derive(Clone, Copy)]
struct Held {
    at: Option<Mono>,
    /// From when on that token is old however few seconds it lives: a denial replaces it.
    old: Mono,
    renew: Mono,
}

struct Tasks(Vec<AbortHandle>);

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

impl Client {
    /// Connects: discovery, choice of an endpoint, a token if the endpoint wants one, session.
    ///
    /// # Errors
    /// The first step that fails. Once connected, the client comes back by itself.
    pub async fn connect(options: ClientOptions) -> Result<Self, ClientError> {
        let found = discover(&options).await?;
        let source = token_source(&found, &options)?;
        let mut fetched = None;
        let credential = match (options.login.credential(), &source) {
            (Some(credential), _) => credential,
            (None, Some(source)) => {
                let token = source.fetch().await?;
                let credential = Credential::Issued(token.token.clone());
                fetched = Some(token);
                credential
            }
            (None, None) => Credential::Anonymous,
        };
        let session = Session::open(&options, &found, credential).await?;
        let held = fetched.as_ref().map_or(Held::NONE, Held::of);
        let core = Arc::new(Core {
            session,
            source,
            endpoint: found.choice.endpoint,
            generation: AtomicU64::new(1),
            under_way: AtomicU64::new(0),
            token: Mutex::new(held),
            fresh: AtomicU64::new(millis(FRESH.0)),
            denials: Denials::default(),
        });
        let (orders, taken) = mpsc::channel(16);
        let mut tasks = vec![tokio::spawn(publisher::run(Arc::clone(&core), taken)).abort_handle()];
        if core.source.is_some() {
            tasks.push(tokio::spawn(renew(Arc::clone(&core))).abort_handle());
            tasks.push(tokio::spawn(freshen(Arc::clone(&core))).abort_handle());
        }
        Ok(Self { core, orders, _tasks: Arc::new(Tasks(tasks)) })
    }

    /// The endpoint that was chosen.
    #[must_use]
    pub fn endpoint(&self) -> &EndpointDescription {
        &self.core.endpoint
    }

    /// How many tokens the session has been activated with; does not grow without tokens.
    #[must_use]
    pub fn token_generation(&self) -> u64 {
        self.core.generation()
    }

    /// Whether the session is active at this moment.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.core.session.state.borrow().active
    }

    /// How many sessions there have been: one more each time the server did not keep the one before.
    #[must_use]
    pub fn session_count(&self) -> u64 {
        self.core.session.state.borrow().sessions
    }

    /// Waits until there is an active session, for as long as a request may take.
    ///
    /// # Errors
    /// There was none in time.
    pub async fn ready(&self) -> Result<(), ClientError> {
        self.core.session.ready().await
    }

    /// Activates the running session with this token, for callers that get tokens themselves.
    ///
    /// # Errors
    /// The server refuses it.
    pub async fn present(&self, token: Zeroizing<Vec<u8>>) -> Result<(), ClientError> {
        self.core.session.activate(Credential::Issued(token)).await
    }

    /// Fetches a fresh token and activates the running session with it.
    ///
    /// # Errors
    /// The authority or the server refuses; the client does not get its tokens itself; the token is fresh already.
    pub async fn renew(&self) -> Result<(), ClientError> {
        self.core.refresh(self.core.generation()).await
    }

    /// Closes the sessions to server and authority in order.
    pub async fn close(self) {
        self.core.session.handle.close().await;
        if let Some(source) = &self.core.source {
            source.close().await;
        }
    }
}

impl Held {
    const NONE: Self = Self { at: None, old: Mono::ZERO, renew: Mono::ZERO };

    fn of(fetched: &Fetched) -> Self {
        let due = fetched.at.mono + fetched.renew_after();
        Self { at: Some(fetched.at.mono), old: due, renew: due }
    }

    /// Whether the token is too young to be replaced because of a denial.
    fn is_fresh(&self, least: Duration, now: Mono) -> bool {
        self.at.is_some_and(|at| now.since(at) < least) && now < self.old
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Core {
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The newest generation that what the server says now may be of.
    pub(crate) fn generation_under_way(&self) -> u64 {
        self.under_way.load(Ordering::Acquire).max(self.generation())
    }

    /// Replaces the token of generation `seen`; does nothing when somebody else did meanwhile.
    pub(crate) async fn refresh(&self, seen: u64) -> Result<(), ClientError> {
        let source = self.source.as_ref().ok_or(TokenError::NoIssuer)?;
        let mut held = self.token.lock().await;
        if self.generation() > seen {
            return Ok(());
        }
        let fresh = Duration::from_millis(self.fresh.load(Ordering::Relaxed));
        if held.is_fresh(fresh, clock::now().mono) {
            return Err(TokenError::AlreadyFresh.into());
        }
        let fetched = source.fetch().await?;
        let next = Held::of(&fetched);
        (held.at, held.old) = (next.at, next.old);
        self.under_way.store(self.generation() + 1, Ordering::Release);
        let activated = self.session.activate(Credential::Issued(fetched.token.clone())).await;
        if activated.is_ok() {
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
        self.under_way.store(0, Ordering::Release);
        activated?;
        *held = next;
        Ok(())
    }

    /// Whether a fresh token turned a denial into a permission.
    pub(crate) fn fresh_token_helped(&self, helped: bool) {
        let (least, most) = (millis(FRESH.0), millis(FRESH.1));
        let next = if helped { least } else { self.fresh.load(Ordering::Relaxed).saturating_mul(2).min(most) };
        self.fresh.store(next, Ordering::Relaxed);
    }

    async fn renew_at(&self) -> Instant {
        let due = self.token.lock().await.renew;
        clock::instant(due).unwrap_or_else(Instant::now)
    }
}

/// Where tokens come from: only when the chosen endpoint takes them and the client is to fetch them.
fn token_source(found: &Found, options: &ClientOptions) -> Result<Option<TokenSource>, ClientError> {
    let fetches = matches!(options.login, Login::Automatic | Login::Token);
    if found.choice.token.token_type != UserTokenType::IssuedToken || !fetches {
        return Ok(None);
    }
    let application_uri = found.choice.endpoint.server.application_uri.as_ref();
    let options = options.showing(found.choice.policy);
    Ok(Some(TokenSource::new(found.choice.issuer.clone(), application_uri, &options)?))
}

/// Renews the token when it is due, and at once when the server refuses it (after a reconnection with an old one).
async fn renew(core: Arc<Core>) {
    let mut state = core.session.state.clone();
    let mut refusals = state.borrow_and_update().refusals;
    let mut pause = RETRY.0;
    loop {
        let due = core.renew_at().await;
        tokio::select! {
            () = sleep_until(due) => {}
            refused = state.wait_for(|now| now.refusals > refusals) => if refused.is_err() {
                return;
            },
        }
        let outcome = core.refresh(core.generation()).await;
        refusals = state.borrow_and_update().refusals;
        match outcome {
            Ok(()) => pause = RETRY.0,
            Err(error) => {
                tracing::warn!(%error, "the access token was not renewed");
                sleep(pause).await;
                pause = (pause * 2).min(RETRY.1);
            }
        }
    }
}

impl Client {
    /// The namespaces of the server, by their numbers.
    ///
    /// # Errors
    /// The Read service fails.
    pub async fn namespaces(&self) -> Result<Vec<String>, ClientError> {
        crate::authority::namespaces(&self.core.session).await
    }

    /// Turns `nsu=<uri>;i=1` or `ns=2;i=1` into a NodeId of this server.
    ///
    /// # Errors
    /// The namespaces cannot be read.
    pub async fn node_id(&self, text: &str) -> Result<Option<NodeId>, ClientError> {
        if text.starts_with("nsu=") {
            return Ok(crate::nodes::expanded(text, &self.namespaces().await?));
        }
        Ok(text.parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_is_due_is_not_too_young_to_be_replaced() {
        let at = |millis: u64| Mono::from_nanos(millis * 1_000_000);
        let short = Held { at: Some(at(0)), old: at(3_200), renew: at(3_200) };
        let long = Held { at: Some(at(0)), old: at(2_880_000), renew: at(2_880_000) };
        for (rule, held, least, now, fresh) in [
            ("none was fetched", Held::NONE, 5_000, 1, false),
            ("just fetched", short, 250, 249, true),
            ("old enough", short, 250, 250, false),
            ("others did not help", short, 5_000, 3_199, true),
            ("others did not help, but it is due", short, 5_000, 3_200, false),
            ("others did not help, and it lives long", long, 5_000, 4_999, true),
            ("others did not help, but it is old enough", long, 5_000, 5_000, false),
        ] {
            assert_eq!(held.is_fresh(Duration::from_millis(least), at(now)), fresh, "{rule}");
        }
    }
}
