//! Issuing: decide, mint, remember, record. Whoever asks was authenticated before.

use std::sync::Arc;

use access_model::{
    Actor, ApplicationUri, AuditKind, Outcome, Principal, Reason, Refusal, Thumbprint, UnixTime, nobody_at,
};
use pdp::plant::SignIn;
use pdp::{Grant, NoGrant, Snapshot, Unasked};
use store::{Issue, IssuedToken, NewRevocation, Overtaken};
use token::{Claims, RightsClaim, SealedToken, SystemEntropy, mint, new_id};
use tokio::sync::OwnedSemaphorePermit;

use crate::core::{Authority, row, unavailable};
use crate::denial;
use crate::live::LiveToken;

/// The most bytes that padding adds.
const MAX_PADDING: usize = 200 * 1_024;
/// Evaluations of a policy for one token that are done where they are asked for: some milliseconds.
const AT_ONCE: usize = 5_000;
/// How often a decision is made again because the policy changed meanwhile.
const RETRIES: usize = 8;

/// How a token was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// OAuth2 client credentials.
    ClientCredentials,
    /// RFC 8693 token exchange for a person.
    Exchange,
    /// A refresh token.
    Refresh,
    /// A guard, for a client without a token.
    Guest,
    /// OPC UA StartRequestToken and FinishRequestToken.
    RequestToken,
    /// OPC UA RequestAccessToken.
    RequestAccessToken,
    /// An administrator.
    Administration,
}

impl Flow {
    /// The word in the journal.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::ClientCredentials => "client_credentials",
            Self::Exchange => "exchange",
            Self::Refresh => "refresh",
            Self::Guest => "guest",
            Self::RequestToken => "request_token",
            Self::RequestAccessToken => "request_access_token",
            Self::Administration => "administration",
        }
    }
}

/// A question for a token. Person and application were authenticated.
#[derive(Clone, Debug)]
pub struct TokenRequest {
    /// How it was asked.
    pub flow: Flow,
    /// The person, if one asks.
    pub person: Option<String>,
    /// The application.
    pub application: String,
    /// The certificate the token is bound to.
    pub confirmation: Thumbprint,
    /// The server: its ApplicationUri.
    pub audience: String,
    /// Only these roles; `None`: all.
    pub roles: Option<Vec<String>>,
    /// Why, when the glass is broken.
    pub break_glass: Option<String>,
    /// So much longer than it needs to be.
    pub padding: usize,
    /// Whether a refresh token is wanted, and the family it continues.
    pub refresh: Refreshing,
    /// The network address of the asker.
    pub address: Option<String>,
}

/// Whether a refresh token comes with the access token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refreshing {
    /// None.
    No,
    /// One that begins a family.
    New,
    /// One that begins a family, for a guard whose client signed in like this.
    Guest(SignIn),
    /// One that goes on in this line.
    In {
        /// The line.
        family: String,
        /// When it ends.
        ends: UnixTime,
        /// How the client of a guard signed in.
        way: Option<SignIn>,
    },
}

impl Refreshing {
    /// How the client of a guard signed in.
    pub(crate) const fn way(&self) -> Option<SignIn> {
        match self {
            Self::No | Self::New => None,
            Self::Guest(way) => Some(*way),
            Self::In { way, .. } => *way,
        }
    }
}

/// Whether person and application had an account when the asking began. One that is closed meanwhile wins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accounts {
    pub person: bool,
    pub application: bool,
}

/// A token that was issued.
#[derive(Debug)]
pub struct Issued {
    /// The token: a secret.
    pub token: SealedToken,
    /// Its `jti`.
    pub id: String,
    /// Its `exp`.
    pub expires: UnixTime,
    /// The roles it was decided with.
    pub roles: Vec<String>,
    /// Steps of the workflow whose end may take some of its rights.
    pub depends_on: Vec<String>,
    /// The refresh token and when it ends.
    pub refresh: Option<(String, UnixTime)>,
}

/// The turn of somebody about whom many policies are asked; few are asked without one.
pub(crate) type Turn = Option<OwnedSemaphorePermit>;

impl Authority {
    /// Issues a token, or says why not. Either way there is an audit record before this returns.
    ///
    /// # Errors
    /// Policy gives nothing, a name is unknown, the account is disabled, or journal or ledger cannot be used.
    pub async fn issue(&self, request: &TokenRequest) -> Result<Issued, Refusal> {
        self.issue_in_turn(request, None).await
    }

    /// The same for somebody who may have a turn already.
    pub(crate) async fn issue_in_turn(&self, request: &TokenRequest, turn: Turn) -> Result<Issued, Refusal> {
        let kind = if request.flow == Flow::Refresh { AuditKind::TokenRefreshed } else { AuditKind::TokenIssued };
        let by = request.actor();
        let begun = self.now().mono;
        match self.try_issue(request, turn).await {
            Ok(issued) => {
                self.inner.issuing.observe_shared(self.now().mono.since(begun));
                let detail =
                    format!("token {} by {} until {}", issued.id, request.flow.word(), issued.expires.as_seconds());
                self.loud(request, &issued.id).await?;
                let written = self.record(kind, &by, &request.audience, Outcome::Allowed, &detail).await;
                if let Err(error) = written {
                    self.live().grants.remove(&issued.id);
                    return Err(unavailable(error));
                }
                self.inner.issued.add_shared(1);
                Ok(issued)
            }
            Err(refusal) => {
                self.inner.refused.add_shared(1);
                let outcome = Outcome::Denied(refusal.reason);
                let detail = format!("{}: {}", request.flow.word(), refusal.detail);
                self.record(kind, &by, &request.audience, outcome, &detail).await.map_err(unavailable)?;
                Err(refusal)
            }
        }
    }

    /// Break-glass is recorded by itself, with its reason, and shown to whoever watches the log.
    async fn loud(&self, request: &TokenRequest, id: &str) -> Result<(), Refusal> {
        let Some(reason) = &request.break_glass else { return Ok(()) };
        let by = request.actor();
        tracing::warn!(who = by.name, audience = request.audience, %reason, token = id, "break-glass");
        let detail = format!("token {id}: {reason}");
        self.record(AuditKind::BreakGlass, &by, &request.audience, Outcome::Allowed, &detail).await.map_err(unavailable)
    }

    async fn try_issue(&self, request: &TokenRequest, mut turn: Turn) -> Result<Issued, Refusal> {
        if let Some(person) = request.person.as_deref().filter(|person| nobody_at(person).is_some())
            && request.refresh.way() != Some(SignIn::Anonymous)
        {
            // Whatever store of users says so: an account or an identity provider would speak for nobody.
            let text = format!("`{person}` is nobody in particular, and nobody may be called so");
            return Err(Refusal::new(Reason::IdentityNotAccepted, text));
        }
        let accounts = self.accounts(request).await?;
        if request.padding > 0 && (!self.inner.config.allow_padding || request.padding > MAX_PADDING) {
            return Err(Refusal::new(Reason::TokenTooLarge, "padding is off, or too long"));
        }
        let fresh = new_id(&mut SystemEntropy::new());
        let id = match &request.refresh {
            Refreshing::In { family, .. } => format!("{family}.{fresh}"),
            Refreshing::No | Refreshing::New | Refreshing::Guest(_) => fresh,
        };
        for _ in 0..RETRIES {
            if let Some(issued) = self.decide_and_mint(request, accounts, &id, turn.take()).await? {
                return Ok(issued);
            }
        }
        Err(Refusal::new(Reason::TooBusy, "the policy changed faster than a token could be issued"))
    }

    /// `None` when the policy changed between the decision and the moment the token would have begun to live: a change
    /// that had not seen it could not have withdrawn it.
    pub(crate) async fn decide_and_mint(
        &self,
        request: &TokenRequest,
        accounts: Accounts,
        id: &str,
        turn: Turn,
    ) -> Result<Option<Issued>, Refusal> {
        let turn = if turn.is_some() { turn } else { self.turn(&request.audience).await? };
        let now = self.now().unix;
        let snapshot = self.snapshot();
        let principal = request.principal(&snapshot);
        let (grant, turn) = self.granted(request, &snapshot, &principal, now, turn).await?;
        let grant = match grant {
            Ok(grant) => grant,
            Err(none) => return Err(self.nothing_granted(request, &snapshot, &principal, &none, now, turn).await),
        };
        // Others decide while this one is signed and written down.
        drop(turn);
        let expires = UnixTime::from_seconds(grant.spec.not_after.as_seconds());
        let sealed = self.seal(request, &principal, &grant, id, now)?;
        let live = LiveToken {
            principal: principal.clone(),
            break_glass: request.break_glass.clone(),
            spec: grant.spec.clone(),
            expires,
        };
        {
            let mut state = self.live();
            if state.epoch != snapshot.epoch() {
                return Ok(None);
            }
            state.grants.insert(id.to_owned(), live.clone());
        }
        let kept = self.keep(request, accounts, &live, id, now).await;
        let refresh = match kept.map_err(unavailable).and_then(|kept| kept.map_err(overtaken)) {
            Ok(refresh) => refresh,
            Err(refusal) => {
                self.live().grants.remove(id);
                return Err(refusal);
            }
        };
        self.catch_up(&live, id).await?;
        Ok(Some(Issued {
            token: sealed,
            id: id.to_owned(),
            expires,
            roles: principal.roles,
            depends_on: grant.depends_on.into_iter().collect(),
            refresh,
        }))
    }

    /// Deciding by many policies takes long enough for everything else in this program to wait for it: that is done beside, in turn. Whose turn
    /// does not come in a third of the time that an asker waits is told so.
    pub(crate) async fn turn(&self, audience: &str) -> Result<Turn, Refusal> {
        if pdp::evaluations(&self.snapshot(), audience) <= AT_ONCE {
            return Ok(None);
        }
        let turn = Arc::clone(&self.inner.deciding).acquire_owned();
        let turn = tokio::time::timeout(self.inner.config.patience / 3, turn).await;
        turn.ok().and_then(Result::ok).map(Some).ok_or_else(|| {
            Refusal::new(
                Reason::TooBusy,
                "others are decided about, which takes long under so many policies: ask again",
            )
        })
    }

    /// What policies grant, with the turn of whoever needs one: it goes along, for a job whose asker hung up still takes its thread.
    async fn granted(
        &self,
        request: &TokenRequest,
        snapshot: &Snapshot,
        principal: &Principal,
        now: UnixTime,
        turn: Turn,
    ) -> Result<(Result<Grant, NoGrant>, Turn), Refusal> {
        let (audience, break_glass) = (&request.audience, request.break_glass.as_deref());
        if turn.is_none() {
            return Ok((pdp::grant(snapshot, principal, audience, now, break_glass), None));
        }
        let (snapshot, principal, audience) = (snapshot.clone(), principal.clone(), audience.clone());
        let break_glass = request.break_glass.clone();
        let work = move || (pdp::grant(&snapshot, &principal, &audience, now, break_glass.as_deref()), turn);
        let busy = |_| Refusal::new(Reason::TooBusy, "what policies grant was not decided to the end");
        tokio::task::spawn_blocking(work).await.map_err(busy)
    }

    /// Nothing is granted: what it would take is looked for beside, for whoever asked was authenticated.
    async fn nothing_granted(
        &self,
        request: &TokenRequest,
        snapshot: &Snapshot,
        principal: &Principal,
        none: &NoGrant,
        now: UnixTime,
        turn: Turn,
    ) -> Refusal {
        let mut refusal = refused(none);
        if !matches!(none, NoGrant::Nothing { .. }) {
            return refusal;
        }
        let (snapshot, principal, audience) = (snapshot.clone(), principal.clone(), request.audience.clone());
        let break_glass = request.break_glass.clone();
        let work = move || {
            let _turn = turn;
            denial::nothing(&snapshot, &principal, &audience, now, break_glass.as_deref())
        };
        if let Ok(Some(more)) = tokio::task::spawn_blocking(work).await {
            refusal.detail = format!("{}; {more}", refusal.detail);
        }
        refusal
    }

    /// A change that came between the first breath of a token and its row in the journal wrote to a row that was not
    /// there: what it decided is written again.
    pub(crate) async fn catch_up(&self, minted: &LiveToken, id: &str) -> Result<(), Refusal> {
        let now = self.now().unix;
        let db = &self.inner.db;
        let current = self.live().grants.get(id).cloned();
        match current {
            Some(current) if current.spec == minted.spec => Ok(()),
            Some(current) => db.put_grant(&row(id, &current, now)).await.map_err(unavailable),
            None => {
                let why = "withdrawn while it was issued";
                let epoch = self.snapshot().epoch();
                let revocation =
                    NewRevocation { token: id.into(), by: "policy".into(), reason: why.into(), at: now, epoch };
                db.revoke(&revocation).await.map_err(unavailable)?;
                db.remove_grant(id).await.map_err(unavailable)?;
                // Not that policies grant nothing: a guard that observes lets in whom they grant nothing.
                Err(Refusal::new(Reason::TokenRevoked, why))
            }
        }
    }

    fn seal(
        &self,
        request: &TokenRequest,
        principal: &Principal,
        grant: &Grant,
        id: &str,
        now: UnixTime,
    ) -> Result<SealedToken, Refusal> {
        let claims = Claims {
            issuer: self.inner.config.issuer.clone(),
            subject: principal.name().to_owned(),
            audience: request.audience.clone(),
            expires: grant.spec.not_after,
            not_before: now,
            issued_at: now,
            id: id.to_owned(),
            client: request.application_known().map(str::to_owned),
            confirmation: Some(request.confirmation),
            roles: principal.roles.clone(),
            groups: principal.groups.clone(),
            rights: Some(RightsClaim::from(&grant.spec)),
            epoch: grant.spec.epoch,
            padding: request.padding,
        };
        let keys = self.inner.keys.load();
        mint(&claims, &keys.current).map_err(|error| Refusal::new(Reason::TokenTooLarge, error.to_string()))
    }

    /// Writes token, grant and refresh token at once, unless an account or the line ended since the asking began.
    async fn keep(
        &self,
        request: &TokenRequest,
        accounts: Accounts,
        live: &LiveToken,
        id: &str,
        now: UnixTime,
    ) -> Result<Result<Option<(String, UnixTime)>, Overtaken>, store::DbError> {
        let token = IssuedToken {
            id: id.to_owned(),
            subject: live.principal.name().to_owned(),
            application: Some(request.application.clone()),
            audience: request.audience.clone(),
            confirmation: Some(request.confirmation),
            flow: request.flow.word().to_owned(),
            issued: now,
            not_before: now,
            expires: live.expires,
            epoch: live.spec.epoch,
            revoked: None,
        };
        let refresh = self.refresh_token(request, live, id, now);
        let issue = Issue {
            token: &token,
            grant: &row(id, live, now),
            refresh: refresh.as_ref().map(|(_, refresh)| refresh),
            goes_on: matches!(request.refresh, Refreshing::In { .. }),
            person: request.person.as_deref().map(|person| (person, accounts.person)),
            application: (&request.application, accounts.application),
        };
        let done = self.inner.db.issue(issue).await?;
        Ok(done.map(|()| refresh.map(|(secret, refresh)| (secret, refresh.expires))))
    }

    /// Whose accounts there are; closed ones are refused.
    async fn accounts(&self, request: &TokenRequest) -> Result<Accounts, Refusal> {
        let db = &self.inner.db;
        let application = db.application(&request.application).await.map_err(unavailable)?;
        if application.as_ref().is_some_and(|row| !row.enabled) {
            return Err(Refusal::new(Reason::UnknownClient, "the application is disabled"));
        }
        let user = match &request.person {
            Some(name) => db.user(name).await.map_err(unavailable)?,
            None => None,
        };
        if user.as_ref().is_some_and(|row| !row.enabled) {
            return Err(Refusal::new(Reason::UserCredentials, "the user is disabled"));
        }
        Ok(Accounts { person: user.is_some(), application: application.is_some() })
    }
}

impl TokenRequest {
    pub(crate) fn actor(&self) -> Actor {
        Actor {
            name: self.person.clone().unwrap_or_else(|| self.application.clone()),
            application: Some(self.application.clone()),
            address: self.address.clone(),
            session: None,
        }
    }

    /// A server that asks for a token for itself asks for a client that nobody has registered.
    fn application_known(&self) -> Option<&str> {
        let guest = matches!(self.flow, Flow::Guest | Flow::Refresh) && self.person.is_some();
        Some(self.application.as_str()).filter(|uri| !guest || *uri != self.audience)
    }

    fn principal(&self, snapshot: &Snapshot) -> Principal {
        let whole = snapshot.principal(self.person.as_deref(), self.application_known(), self.break_glass.is_some());
        let wanted = |role: &String| self.roles.as_ref().is_none_or(|wanted| wanted.contains(role));
        Principal {
            roles: whole.roles.into_iter().filter(wanted).collect(),
            application: self.application_known().map(|uri| ApplicationUri(uri.to_owned())),
            ..whole
        }
    }
}

fn refused(none: &NoGrant) -> Refusal {
    let reason = match none {
        NoGrant::Nothing { .. } => Reason::PolicyNoPermit,
        NoGrant::Unasked(Unasked::UnknownServer(_) | Unasked::UnknownScope(..)) => Reason::UnknownAudience,
        NoGrant::Unasked(Unasked::UnknownApplication(_) | Unasked::Nobody) => Reason::UnknownClient,
        NoGrant::Unasked(Unasked::UnknownPerson(_)) => Reason::PolicyNoPermit,
        NoGrant::Unasked(Unasked::NoReason | Unasked::NoBreakGlassRole(_)) => Reason::PolicyForbids,
    };
    Refusal::new(reason, none.to_string())
}

fn overtaken(overtaken: Overtaken) -> Refusal {
    match overtaken {
        Overtaken::Person => Refusal::new(Reason::UserCredentials, "the user's account was closed meanwhile"),
        Overtaken::Application => Refusal::new(Reason::UnknownClient, "the application's account was closed meanwhile"),
        Overtaken::Line => {
            Refusal::new(Reason::UserCredentials, "the line of refresh tokens was cut meanwhile or is over")
        }
    }
}
