//! The authority itself: its state, and the changes that reach every gate.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use access_model::{Actor, AuditKind, AuditRecord, Epoch, Now, Outcome, Reason, Refusal, UnixTime};
use arc_swap::ArcSwap;
use pdp::{Change, LiveGrant, Marking, Snapshot, redecide};
use store::{Db, Ledger, NewRevocation, Revoked, TokenFilter, WorkflowState};
use token::control::Revocation;

use crate::clock::Clock;
use crate::config::{AuthorityConfig, PolicySource, PolicyTexts};
use crate::error::AuthorityError;
use crate::files;
use crate::flood::Flood;
use crate::keys::KeyRing;
use crate::live::{Delta, Live, LiveToken};
use crate::opcua::Pending;
use crate::passwords::Passwords;
use crate::standing::Standing;

/// The authorization service. Clones are the same one.
#[derive(Clone)]
pub struct Authority {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub config: AuthorityConfig,
    pub clock: Clock,
    pub db: Db,
    pub ledger: Ledger,
    pub keys: ArcSwap<KeyRing>,
    pub standing: ArcSwap<Standing>,
    pub passwords: Passwords,
    pub pending: Mutex<Pending>,
    pub flood: Mutex<Flood>,
    live: Mutex<Live>,
    source: PolicySource,
    /// One change at a time: epochs reach the gates in their order.
    change: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("issuer", &self.inner.config.issuer).finish_non_exhaustive()
    }
}

/// What a change did to the tokens that live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// The snapshot after it.
    pub epoch: Epoch,
    /// Tokens that are over.
    pub revoked: usize,
    /// Tokens that lost rights.
    pub narrowed: usize,
    /// Tokens that gained rights.
    pub widened: usize,
}

impl Authority {
    /// Opens an authority: loads plant, policies and workflow, takes over marking, revocations and live tokens from the
    /// journal, and decides every live token again.
    ///
    /// # Errors
    /// A file, the journal or a key cannot be used, or the files are broken.
    pub async fn open(
        config: AuthorityConfig,
        source: PolicySource,
        db: Db,
        ledger: Ledger,
        clock: Clock,
    ) -> Result<Self, AuthorityError> {
        let now = clock().unix;
        let epoch = db.next_epoch().await?;
        let texts = files::read(&source).await?;
        let loaded = load(texts, epoch).await?;
        let marking = stored_marking(&db, &config.workflow_name, &loaded.snapshot).await?;
        let snapshot =
            marking.map_or_else(|| loaded.snapshot.clone(), |marking| loaded.snapshot.with_marking(marking, epoch));
        let keys = KeyRing::open(config.key_folder.as_deref(), config.algorithm, &config.issuer, now).await?;
        let live = restore(&db, &config.issuer, &snapshot, now).await?;
        let passwords = Passwords::new(config.password_jobs).map_err(|_| AuthorityError::Thread)?;
        let authority = Self {
            inner: Arc::new(Inner {
                keys: ArcSwap::from_pointee(keys),
                standing: ArcSwap::from_pointee(Standing::new(snapshot)),
                pending: Mutex::new(Pending::default()),
                flood: Mutex::default(),
                live: Mutex::new(live),
                change: tokio::sync::Mutex::new(()),
                passwords,
                config,
                clock,
                db,
                ledger,
                source,
            }),
        };
        // What changed while we were away is decided now, before anybody subscribes.
        let snapshot = authority.snapshot();
        authority.enforce(snapshot, "a restart").await?;
        Ok(authority)
    }

    /// How it is set up.
    #[must_use]
    pub fn config(&self) -> &AuthorityConfig {
        &self.inner.config
    }

    /// Both clocks.
    #[must_use]
    pub fn now(&self) -> Now {
        (self.inner.clock)()
    }

    /// The snapshot in force.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.inner.standing.load().snapshot.clone()
    }

    /// What a gate needs to accept our tokens and updates.
    #[must_use]
    pub fn issuer(&self) -> token::Issuer {
        self.inner.keys.load().issuer(&self.inner.config.issuer, self.now().unix)
    }

    /// The published keys, as a JSON Web Key Set.
    #[must_use]
    pub fn jwks(&self) -> String {
        self.inner.keys.load().jwks(self.now().unix)
    }

    /// ServiceCertificate (OPC 10000-12 §9.6.4), DER: it verifies the tokens that are signed now.
    #[must_use]
    pub fn service_certificate(&self) -> Vec<u8> {
        self.inner.keys.load().certificate().to_vec()
    }

    /// The journal.
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.inner.db
    }

    pub(crate) fn live(&self) -> MutexGuard<'_, Live> {
        self.inner.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next key signs from now on.
    ///
    /// # Errors
    /// A key cannot be made or kept.
    pub async fn rotate_keys(&self, by: &Actor) -> Result<(), AuthorityError> {
        let _one = self.inner.change.lock().await;
        let config = &self.inner.config;
        let ring = KeyRing::clone(&self.inner.keys.load());
        let (folder, now) = (config.key_folder.as_deref(), self.now().unix);
        let ring = ring.rotate(folder, config.algorithm, &config.issuer, now, config.key_overlap).await?;
        let detail = format!("tokens are signed with the key {} from now on", ring.current.kid());
        self.inner.keys.store(Arc::new(ring));
        self.record(AuditKind::ConfigurationChanged, by, "signing key", Outcome::Allowed, &detail).await?;
        Ok(())
    }

    /// Reads plant, policies and workflow again. Broken files change nothing; the error says where.
    ///
    /// # Errors
    /// A file cannot be read or is broken, the workflow's marking fits nowhere, or the journal cannot be used.
    pub async fn reload(&self, by: &Actor) -> Result<Changed, AuthorityError> {
        let texts = match files::read(&self.inner.source).await {
            Ok(texts) => texts,
            Err(error) => return Err(self.refused_reload(by, error).await),
        };
        self.replace(texts, by).await
    }

    /// Puts these texts in force, as [`Authority::reload`] does with files.
    ///
    /// # Errors
    /// As [`Authority::reload`].
    pub async fn replace(&self, texts: PolicyTexts, by: &Actor) -> Result<Changed, AuthorityError> {
        let (authority, by) = (self.clone(), by.clone());
        to_the_end(async move { authority.replace_now(texts, &by).await }).await
    }

    async fn replace_now(&self, texts: PolicyTexts, by: &Actor) -> Result<Changed, AuthorityError> {
        let one = self.inner.change.lock().await;
        // Broken texts must not use up an epoch that gates would miss.
        let loaded = match load(texts, Epoch(0)).await {
            Ok(loaded) => loaded,
            Err(error) => return Err(self.refused_reload(by, error).await),
        };
        let old = self.snapshot();
        let kept = loaded.snapshot.workflow().marking(&old.workflow().to_map(old.marking()));
        let marking = match kept {
            // A plant that had no workflow starts its first one.
            Ok(_) if old.workflow().steps().is_empty() => loaded.snapshot.workflow().initial(),
            Ok(marking) => marking,
            Err(lost) => return Err(self.refused_reload(by, AuthorityError::LostStep(lost)).await),
        };
        self.keep_marking(&loaded.snapshot, &marking).await?;
        let epoch = self.inner.db.next_epoch().await?;
        let detail = format!("{} policies in force", loaded.snapshot.policies());
        let changed = self.enforce(loaded.snapshot.with_marking(marking, epoch), "a change of policy or plant").await?;
        drop(one);
        self.record(AuditKind::PolicyChanged, by, "policies", Outcome::Allowed, &detail).await?;
        Ok(changed)
    }

    async fn refused_reload(&self, by: &Actor, error: AuthorityError) -> AuthorityError {
        tracing::warn!(%error, "plant, policies or workflow were not taken; the old ones stay in force");
        let outcome = Outcome::Denied(Reason::PolicyForbids);
        let written = self.record(AuditKind::PolicyChanged, by, "policies", outcome, &error.to_string()).await;
        written.err().map_or(error, AuthorityError::Audit)
    }

    /// Fires a transition of the workflow. Returns when every gate that listens was told.
    ///
    /// # Errors
    /// The transition is unknown or not enabled, or the journal cannot be used.
    pub async fn fire(&self, transition: &str, by: &Actor) -> Result<Changed, AuthorityError> {
        let (authority, transition, by) = (self.clone(), transition.to_owned(), by.clone());
        to_the_end(async move { authority.fire_now(&transition, &by).await }).await
    }

    async fn fire_now(&self, transition: &str, by: &Actor) -> Result<Changed, AuthorityError> {
        let one = self.inner.change.lock().await;
        let snapshot = self.snapshot();
        let marking = match snapshot.workflow().fire(snapshot.marking(), transition) {
            Ok(marking) => marking,
            Err(invalid) => {
                let outcome = Outcome::Denied(Reason::PolicyForbids);
                self.record(AuditKind::StepChanged, by, transition, outcome, &invalid.to_string()).await?;
                return Err(invalid.into());
            }
        };
        self.keep_marking(&snapshot, &marking).await?;
        let epoch = self.inner.db.next_epoch().await?;
        let next = snapshot.with_marking(marking, epoch);
        let steps: Vec<&str> = next.steps().iter().map(String::as_str).collect();
        let detail = format!("the workflow stands in {}", steps.join(", "));
        let changed = self.enforce(next, "a step of the workflow").await?;
        drop(one);
        self.record(AuditKind::StepChanged, by, transition, Outcome::Allowed, &detail).await?;
        Ok(changed)
    }

    async fn keep_marking(&self, snapshot: &Snapshot, marking: &Marking) -> Result<(), AuthorityError> {
        let name = &self.inner.config.workflow_name;
        let version = self.inner.db.workflow(name).await?.map_or(0, |state| state.version);
        let marking = serde_json::to_string(&snapshot.workflow().to_map(marking)).unwrap_or_default();
        let net = String::new();
        let state = WorkflowState { name: name.clone(), net, marking, version, changed: self.now().unix };
        self.inner.db.put_workflow(&state).await?;
        Ok(())
    }

    /// Puts a snapshot in force: every live token is decided again, the gates are told, then the journal.
    async fn enforce(&self, snapshot: Snapshot, why: &str) -> Result<Changed, AuthorityError> {
        let authority = self.clone();
        let work = move || authority.redecide_all(snapshot);
        let done = tokio::task::spawn_blocking(work).await.map_err(|_| AuthorityError::Thread)?;
        let mut changed = Changed { epoch: done.epoch, ..Changed::default() };
        for (id, token, what) in &done.tokens {
            let (kind, count) = match what {
                AuditKind::GrantRevoked => (AuditKind::GrantRevoked, &mut changed.revoked),
                AuditKind::GrantNarrowed => (AuditKind::GrantNarrowed, &mut changed.narrowed),
                _ => (AuditKind::GrantWidened, &mut changed.widened),
            };
            *count += 1;
            let by = Actor { name: token.principal.name().to_owned(), ..Actor::default() };
            let detail = format!("token {id} for {} after {why}", token.spec.audience);
            self.note(kind, &by, id, Outcome::Allowed, &detail);
            self.journal(id, token, *what, done.epoch, why).await?;
        }
        done.published?;
        Ok(changed)
    }

    async fn journal(
        &self,
        id: &str,
        token: &LiveToken,
        what: AuditKind,
        epoch: Epoch,
        why: &str,
    ) -> Result<(), AuthorityError> {
        let now = self.now().unix;
        if what == AuditKind::GrantRevoked {
            let revocation =
                NewRevocation { token: id.to_owned(), by: "policy".into(), reason: why.to_owned(), at: now, epoch };
            self.inner.db.revoke(&revocation).await?;
            self.inner.db.remove_grant(id).await?;
        } else {
            self.inner.db.put_grant(&row(id, token, now)).await?;
        }
        Ok(())
    }

    fn redecide_all(&self, snapshot: Snapshot) -> Redecided {
        let now = self.now().unix;
        let keys = self.inner.keys.load();
        let mut live = self.live();
        live.forget(now);
        let mut deltas: BTreeMap<String, Delta> = BTreeMap::new();
        let mut tokens = Vec::new();
        for (id, token) in &mut live.grants {
            let asked =
                LiveGrant { principal: &token.principal, break_glass: token.break_glass.as_deref(), spec: &token.spec };
            let delta = deltas.entry(token.spec.audience.clone()).or_default();
            let what = match redecide(&snapshot, asked, now) {
                Change::Same => continue,
                Change::Revoked(_) => {
                    delta.revoked.push(Revocation { id: id.clone(), expires: token.expires });
                    AuditKind::GrantRevoked
                }
                Change::Narrowed(grant) => {
                    token.spec = grant.spec;
                    delta.replaced.push(token.replacement(id));
                    AuditKind::GrantNarrowed
                }
                Change::Widened(grant) => {
                    token.spec = grant.spec;
                    delta.replaced.push(token.replacement(id));
                    AuditKind::GrantWidened
                }
            };
            tokens.push((id.clone(), token.clone(), what));
        }
        let epoch = snapshot.epoch();
        live.epoch = epoch;
        self.inner.standing.store(Arc::new(Standing::new(snapshot)));
        let mut published = Ok(());
        for (audience, delta) in deltas {
            if delta.revoked.is_empty() && delta.replaced.is_empty() {
                continue;
            }
            let told = live.publish(&audience, epoch, delta, &keys.current, now);
            published = published.and(told.map_err(AuthorityError::from));
        }
        Redecided { epoch, tokens, published }
    }

    /// Revokes a token. Returns when every gate that listens was told; whether there was something to revoke.
    ///
    /// # Errors
    /// The journal cannot be used.
    pub async fn revoke(&self, id: &str, by: &Actor, reason: &str) -> Result<Option<bool>, AuthorityError> {
        let (authority, id, by, reason) = (self.clone(), id.to_owned(), by.clone(), reason.to_owned());
        to_the_end(async move { authority.revoke_now(&id, &by, &reason).await }).await
    }

    async fn revoke_now(&self, id: &str, by: &Actor, reason: &str) -> Result<Option<bool>, AuthorityError> {
        let one = self.inner.change.lock().await;
        let now = self.now().unix;
        let epoch = self.inner.db.next_epoch().await?;
        let new =
            NewRevocation { token: id.to_owned(), by: by.name.clone(), reason: reason.to_owned(), at: now, epoch };
        let revoked = self.inner.db.revoke(&new).await?;
        if revoked != Revoked::Unknown {
            // What the token was refreshed from would give the next one.
            self.inner.db.remove_refresh_family(family(id)).await?;
        }
        let revocation = match revoked {
            Revoked::Unknown => return Ok(None),
            Revoked::Already => return Ok(Some(false)),
            Revoked::New(revocation) => revocation,
        };
        let delta = Delta {
            revoked: vec![Revocation { id: id.to_owned(), expires: revocation.expires }],
            replaced: Vec::new(),
        };
        let keys = self.inner.keys.load();
        self.live().publish(&revocation.audience, epoch, delta, &keys.current, now)?;
        drop(one);
        self.inner.db.remove_grant(id).await?;
        let detail = format!("token {id} for {}: {reason}", revocation.audience);
        self.record(AuditKind::TokenRevoked, by, id, Outcome::Allowed, &detail).await?;
        Ok(Some(true))
    }

    /// Forgets what has ended; for a timer of minutes.
    ///
    /// # Errors
    /// The journal cannot be used.
    pub async fn purge(&self) -> Result<u64, AuthorityError> {
        let now = self.now().unix;
        self.live().forget(now);
        self.inner.pending.lock().unwrap_or_else(PoisonError::into_inner).forget(now);
        // Revocations and tokens are kept a day for those who look them up.
        let before = UnixTime::from_micros(now.as_micros().saturating_sub(86_400_000_000));
        Ok(self.inner.db.purge(before).await?)
    }

    /// Reloads whenever a file changes, and forgets what ended, until dropped.
    pub async fn watch_files(&self) {
        let by = Actor { name: "file watch".into(), ..Actor::default() };
        let mut seen = files::stamps(&self.inner.source).await;
        let mut rounds = 0_u32;
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            rounds = rounds.wrapping_add(1);
            if rounds.is_multiple_of(300)
                && let Err(error) = self.purge().await
            {
                tracing::warn!(%error, "what has ended could not be forgotten");
            }
            let stamps = files::stamps(&self.inner.source).await;
            if stamps != seen {
                seen = stamps;
                // A refusal was logged and recorded; the next change is tried again.
                let _ = self.reload(&by).await;
            }
        }
    }

    /// Writes a record and waits until it is kept; when it cannot be, the configuration says whether that matters.
    pub(crate) async fn record(
        &self,
        kind: AuditKind,
        by: &Actor,
        object: &str,
        outcome: Outcome,
        detail: &str,
    ) -> Result<(), store::Unavailable> {
        self.keep_record(self.audit(kind, by, object, outcome, detail)).await
    }

    pub(crate) async fn keep_record(&self, record: AuditRecord) -> Result<(), store::Unavailable> {
        match self.inner.ledger.append(&record).await {
            Err(error) if self.inner.config.audit_required => Err(error),
            Err(error) => {
                tracing::error!(%error, kind = record.kind.name(), "an audit record was lost");
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }

    /// Writes a record that nobody waits for.
    pub(crate) fn note(&self, kind: AuditKind, by: &Actor, object: &str, outcome: Outcome, detail: &str) {
        self.note_record(self.audit(kind, by, object, outcome, detail));
    }

    pub(crate) fn note_record(&self, record: AuditRecord) {
        if let Err(error) = self.inner.ledger.note(&record) {
            tracing::error!(%error, kind = record.kind.name(), "an audit record was lost");
        }
    }

    pub(crate) fn audit(
        &self,
        kind: AuditKind,
        by: &Actor,
        object: &str,
        outcome: Outcome,
        detail: &str,
    ) -> AuditRecord {
        let end = detail.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= 1_024).last();
        AuditRecord {
            at: self.now().unix,
            kind,
            actor: by.clone(),
            object: object.chars().take(256).collect(),
            outcome,
            detail: detail.get(..end.unwrap_or(0)).unwrap_or_default().to_owned(),
            count: 1,
            epoch: Some(self.inner.standing.load().snapshot.epoch()),
        }
    }
}

struct Redecided {
    epoch: Epoch,
    tokens: Vec<(String, LiveToken, AuditKind)>,
    published: Result<(), AuthorityError>,
}

/// Carries a change through even when nobody waits for it any more: an administrator who hangs up must not leave a change
/// in the journal that no gate hears of.
async fn to_the_end<T: Send + 'static>(
    change: impl Future<Output = Result<T, AuthorityError>> + Send + 'static,
) -> Result<T, AuthorityError> {
    tokio::spawn(change).await.map_err(|_| AuthorityError::Thread)?
}

/// The line of refresh tokens that a token belongs to: it is called like the first token of the line.
pub(crate) fn family(id: &str) -> &str {
    id.split_once('.').map_or(id, |(first, _)| first)
}

pub(crate) fn row(id: &str, token: &LiveToken, now: UnixTime) -> store::Grant {
    store::Grant {
        id: id.to_owned(),
        principal: token.principal.clone(),
        spec: token.spec.clone(),
        token: id.to_owned(),
        expires: token.expires,
        changed: now,
    }
}

pub(crate) fn unavailable(error: impl std::fmt::Display) -> Refusal {
    Refusal::new(Reason::AuditUnavailable, error.to_string())
}

async fn load(texts: PolicyTexts, epoch: Epoch) -> Result<Standing, AuthorityError> {
    let work = move || Standing::load(&texts, epoch);
    let loaded = tokio::task::spawn_blocking(work).await.map_err(|_| AuthorityError::Thread)?;
    Ok(loaded?)
}

async fn stored_marking(db: &Db, name: &str, snapshot: &Snapshot) -> Result<Option<Marking>, AuthorityError> {
    let Some(state) = db.workflow(name).await? else { return Ok(None) };
    let tokens: BTreeMap<String, u32> = serde_json::from_str(&state.marking).unwrap_or_default();
    if tokens.is_empty() {
        return Ok(None);
    }
    snapshot.workflow().marking(&tokens).map(Some).map_err(AuthorityError::LostStep)
}

/// Live tokens and what the gates were told about them, from the journal.
async fn restore(db: &Db, issuer: &str, snapshot: &Snapshot, now: UnixTime) -> Result<Live, AuthorityError> {
    let mut live = Live::new(issuer, snapshot.epoch());
    let mut deltas: BTreeMap<String, Delta> = BTreeMap::new();
    for gone in db.live_revocations(now).await? {
        let delta = deltas.entry(gone.audience).or_default();
        delta.revoked.push(Revocation { id: gone.token, expires: gone.expires });
    }
    let filter = TokenFilter { live_at: Some(now), ..TokenFilter::default() };
    let minted: BTreeMap<String, Epoch> =
        db.tokens(&filter).await?.into_iter().map(|one| (one.id, one.epoch)).collect();
    for grant in db.live_grants(now).await? {
        let Some(epoch) = minted.get(&grant.token) else { continue };
        let time_box = |role: &String| snapshot.plant().roles.get(role).is_some_and(|row| row.break_glass.is_some());
        let break_glass = grant.principal.roles.iter().any(time_box).then(|| "given before a restart".to_owned());
        let token = LiveToken { principal: grant.principal, break_glass, spec: grant.spec, expires: grant.expires };
        if token.spec.epoch != *epoch {
            deltas.entry(token.spec.audience.clone()).or_default().replaced.push(token.replacement(&grant.token));
        }
        live.grants.insert(grant.token, token);
    }
    for (audience, delta) in deltas {
        live.restore(&audience, delta);
    }
    Ok(live)
}
