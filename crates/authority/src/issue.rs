//! Issuing: decide, mint, remember, record. Whoever asks was authenticated before.

use access_model::{Actor, ApplicationUri, AuditKind, Outcome, Principal, Reason, Refusal, Thumbprint, UnixTime};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pdp::{Grant, NoGrant, Snapshot, Unasked};
use store::{IssuedToken, NewRevocation, RefreshToken};
use token::{Claims, Entropy, RightsClaim, SealedToken, SystemEntropy, mint, new_id};

use crate::core::{Authority, family, row, unavailable};
use crate::live::LiveToken;

/// The most bytes that padding adds.
const MAX_PADDING: usize = 200 * 1_024;
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
    /// One that goes on in this family.
    In(String),
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

impl Authority {
    /// Issues a token, or says why not. Either way there is an audit record before this returns.
    ///
    /// # Errors
    /// Policy gives nothing, a name is unknown, the account is disabled, or journal or ledger cannot be used.
    pub async fn issue(&self, request: &TokenRequest) -> Result<Issued, Refusal> {
        let kind = if request.flow == Flow::Refresh { AuditKind::TokenRefreshed } else { AuditKind::TokenIssued };
        let by = request.actor();
        match self.try_issue(request).await {
            Ok(issued) => {
                let detail =
                    format!("token {} by {} until {}", issued.id, request.flow.word(), issued.expires.as_seconds());
                self.loud(request, &issued.id).await?;
                let written = self.record(kind, &by, &request.audience, Outcome::Allowed, &detail).await;
                if let Err(error) = written {
                    self.live().grants.remove(&issued.id);
                    return Err(unavailable(error));
                }
                Ok(issued)
            }
            Err(refusal) => {
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

    async fn try_issue(&self, request: &TokenRequest) -> Result<Issued, Refusal> {
        self.enabled(request).await?;
        if request.padding > 0 && (!self.inner.config.allow_padding || request.padding > MAX_PADDING) {
            return Err(Refusal::new(Reason::TokenTooLarge, "padding is off, or too long"));
        }
        let fresh = new_id(&mut SystemEntropy::new());
        let id = match &request.refresh {
            Refreshing::In(family) => format!("{family}.{fresh}"),
            Refreshing::No | Refreshing::New => fresh,
        };
        for _ in 0..RETRIES {
            if let Some(issued) = self.decide_and_mint(request, &id).await? {
                return Ok(issued);
            }
        }
        Err(Refusal::new(Reason::TooBusy, "the policy changed faster than a token could be issued"))
    }

    /// `None` when the policy changed between the decision and the moment the token would have begun to live: a change
    /// that had not seen it could not have withdrawn it.
    async fn decide_and_mint(&self, request: &TokenRequest, id: &str) -> Result<Option<Issued>, Refusal> {
        let now = self.now().unix;
        let snapshot = self.snapshot();
        let principal = request.principal(&snapshot);
        let grant = pdp::grant(&snapshot, &principal, &request.audience, now, request.break_glass.as_deref());
        let grant = grant.map_err(|none| refused(&none))?;
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
        let kept = self.keep(request, &live, id, now).await;
        let refresh = match kept {
            Ok(refresh) => refresh,
            Err(error) => {
                self.live().grants.remove(id);
                return Err(unavailable(error));
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

    /// A change that came between the first breath of a token and its row in the journal wrote to a row that was not
    /// there: what it decided is written again.
    async fn catch_up(&self, minted: &LiveToken, id: &str) -> Result<(), Refusal> {
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
                Err(Refusal::new(Reason::PolicyNoPermit, why))
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
            client: Some(request.application.clone()),
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

    async fn keep(
        &self,
        request: &TokenRequest,
        live: &LiveToken,
        id: &str,
        now: UnixTime,
    ) -> Result<Option<(String, UnixTime)>, store::DbError> {
        let db = &self.inner.db;
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
        db.put_token(&token).await?;
        db.put_grant(&row(id, live, now)).await?;
        // Broken glass is explained again, not refreshed.
        let family = match &request.refresh {
            _ if request.break_glass.is_some() => return Ok(None),
            Refreshing::No => return Ok(None),
            Refreshing::New | Refreshing::In(_) => family(id).to_owned(),
        };
        let secret = refresh_secret(&family);
        let expires = now + self.inner.config.refresh_lifetime;
        let refresh = RefreshToken {
            hash: hash(&secret),
            principal: live.principal.clone(),
            audience: request.audience.clone(),
            confirmation: Some(request.confirmation),
            family,
            expires,
        };
        db.put_refresh(&refresh).await?;
        Ok(Some((secret, expires)))
    }

    async fn enabled(&self, request: &TokenRequest) -> Result<(), Refusal> {
        let db = &self.inner.db;
        let application = db.application(&request.application).await.map_err(unavailable)?;
        if application.is_some_and(|row| !row.enabled) {
            return Err(Refusal::new(Reason::UnknownClient, "the application is disabled"));
        }
        let Some(name) = &request.person else { return Ok(()) };
        let user = db.user(name).await.map_err(unavailable)?;
        if user.is_some_and(|row| !row.enabled) {
            return Err(Refusal::new(Reason::UserCredentials, "the user is disabled"));
        }
        Ok(())
    }

    /// A new token for a refresh token. It works once, and only for the certificate it was given to; used again, it
    /// takes its whole family with it.
    ///
    /// # Errors
    /// Unknown, used, expired, another certificate or server, or as [`Authority::issue`].
    pub async fn refresh(
        &self,
        secret: &str,
        confirmation: Thumbprint,
        audience: Option<&str>,
        address: Option<String>,
    ) -> Result<Issued, Refusal> {
        let now = self.now().unix;
        let unknown = |detail: &str| Refusal::new(Reason::UserCredentials, detail);
        let found = self.inner.db.take_refresh(&hash(secret), now).await.map_err(unavailable)?;
        let Some(found) = found else {
            // Names of lines are no secrets: only who holds a line can cut it by showing a used member.
            let family = family(secret);
            let cut = self.inner.db.remove_refresh_family_of(family, &confirmation).await.map_err(unavailable)?;
            let refusal = unknown("the refresh token is unknown, over or was used before");
            let by = Actor { name: "unknown".into(), address, ..Actor::default() };
            let detail = format!("{}; {cut} of its family withdrawn", refusal.detail);
            let outcome = Outcome::Denied(refusal.reason);
            let object = if cut > 0 { family } else { "" };
            self.record(AuditKind::TokenRefreshed, &by, object, outcome, &detail).await.map_err(unavailable)?;
            return Err(refusal);
        };
        let application = found.principal.application.clone().map(|uri| uri.0).unwrap_or_default();
        let request = TokenRequest {
            flow: Flow::Refresh,
            person: found.principal.person.clone(),
            application,
            confirmation,
            audience: found.audience.clone(),
            roles: Some(found.principal.roles.clone()),
            break_glass: None,
            padding: 0,
            refresh: Refreshing::In(found.family.clone()),
            address,
        };
        if found.confirmation != Some(confirmation) || audience.is_some_and(|audience| audience != found.audience) {
            self.inner.db.remove_refresh_family(&found.family).await.map_err(unavailable)?;
            let refusal =
                Refusal::new(Reason::TokenConfirmation, "the refresh token belongs to another certificate or server");
            let outcome = Outcome::Denied(refusal.reason);
            let by = request.actor();
            self.record(AuditKind::TokenRefreshed, &by, &found.audience, outcome, &refusal.detail)
                .await
                .map_err(unavailable)?;
            return Err(refusal);
        }
        self.issue(&request).await
    }
}

impl TokenRequest {
    fn actor(&self) -> Actor {
        Actor {
            name: self.person.clone().unwrap_or_else(|| self.application.clone()),
            application: Some(self.application.clone()),
            address: self.address.clone(),
            session: None,
        }
    }

    fn principal(&self, snapshot: &Snapshot) -> Principal {
        let whole = snapshot.principal(self.person.as_deref(), Some(&self.application), self.break_glass.is_some());
        let wanted = |role: &String| self.roles.as_ref().is_none_or(|wanted| wanted.contains(role));
        Principal {
            roles: whole.roles.into_iter().filter(wanted).collect(),
            application: Some(ApplicationUri(self.application.clone())),
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

/// The family in front lets a used token take the rest of its line with it.
fn refresh_secret(family: &str) -> String {
    let mut bytes = [0_u8; 32];
    SystemEntropy::new().fill(&mut bytes);
    format!("{family}.{}", URL_SAFE_NO_PAD.encode(bytes))
}

/// 256 random bits need no slow hash.
fn hash(secret: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, secret.as_bytes()))
}
