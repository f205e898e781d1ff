//! Changes of policy, plant and workflow: what is in force is swapped whole, every live token is decided again, and the
//! gates are told before anybody hears that it is done.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use access_model::{Actor, AuditKind, AuditRecord, Epoch, Outcome, Reason};
use pdp::{Change, Marking, Snapshot, redecide};
use store::{NewRevocation, WorkflowState};
use token::control::Revocation;

use super::journal::{load, row};
use super::{Authority, Changed, to_the_end};
use crate::config::PolicyTexts;
use crate::error::AuthorityError;
use crate::files;
use crate::live::{Delta, LiveToken};
use crate::standing::Standing;

/// How often tokens that were issued while others were decided are decided beside, too.
const ROUNDS: usize = 4;
/// Tokens that are copied at once for that.
const AT_ONCE: usize = 64;

impl Authority {
    /// Reads plant, policies and workflow again. Broken files change nothing; the error says where.
    ///
    /// # Errors
    /// A file cannot be read or is broken, the workflow's marking fits nowhere, the change cannot be recorded (then
    /// nothing changes), or the journal cannot be used.
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
        let _one = self.inner.change.lock().await;
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
        let next = loaded.snapshot.with_marking(marking, self.inner.db.next_epoch().await?);
        let detail = format!("{} policies in force", next.policies());
        let record = self.audit(AuditKind::PolicyChanged, by, "policies", Outcome::Allowed, &detail);
        self.put_in_force(record, next, "a change of policy or plant").await
    }

    /// Records a change, then keeps it in the journal and enforces it: a ledger that takes nothing stops it before
    /// anything is different.
    async fn put_in_force(&self, record: AuditRecord, next: Snapshot, why: &str) -> Result<Changed, AuthorityError> {
        let record = AuditRecord { epoch: Some(next.epoch()), ..record };
        let deed = async {
            self.keep_marking(&next, next.marking()).await?;
            self.enforce(next.clone(), why).await
        };
        self.recorded(record, deed).await
    }

    async fn refused_reload(&self, by: &Actor, error: AuthorityError) -> AuthorityError {
        tracing::warn!(%error, "plant, policies or workflow were not taken; the old ones stay in force");
        let outcome = Outcome::Denied(Reason::PolicyBroken);
        let written = self.record(AuditKind::PolicyChanged, by, "policies", outcome, &error.to_string()).await;
        written.err().map_or(error, AuthorityError::Audit)
    }

    /// Fires a transition of the workflow. Returns when every gate that listens was told.
    ///
    /// # Errors
    /// The transition is unknown or not enabled, the step cannot be recorded (then nothing changes), or the journal
    /// cannot be used.
    pub async fn fire(&self, transition: &str, by: &Actor) -> Result<Changed, AuthorityError> {
        let (authority, transition, by) = (self.clone(), transition.to_owned(), by.clone());
        to_the_end(async move { authority.fire_now(&transition, &by).await }).await
    }

    async fn fire_now(&self, transition: &str, by: &Actor) -> Result<Changed, AuthorityError> {
        let _one = self.inner.change.lock().await;
        let snapshot = self.snapshot();
        let marking = match snapshot.workflow().fire(snapshot.marking(), transition) {
            Ok(marking) => marking,
            Err(invalid) => {
                let outcome = Outcome::Denied(Reason::StepNotEnabled);
                self.record(AuditKind::StepChanged, by, transition, outcome, &invalid.to_string()).await?;
                return Err(invalid.into());
            }
        };
        let next = snapshot.with_marking(marking, self.inner.db.next_epoch().await?);
        let steps: Vec<&str> = next.steps().iter().map(String::as_str).collect();
        let detail = format!("the workflow stands in {}", steps.join(", "));
        let record = self.audit(AuditKind::StepChanged, by, transition, Outcome::Allowed, &detail);
        self.put_in_force(record, next, "a step of the workflow").await
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
    pub(super) async fn enforce(&self, snapshot: Snapshot, why: &str) -> Result<Changed, AuthorityError> {
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

    /// What `snapshot` makes of every token that lives. Whoever asks for a token, and the gates, wait for the lock of these: it is not held
    /// meanwhile. What an id grants is changed by [`Self::redecide_all`] alone, one change at a time.
    fn decide_again(&self, snapshot: &Snapshot) -> BTreeMap<String, Change> {
        let mut decided: BTreeMap<String, Change> = BTreeMap::new();
        for _ in 0..ROUNDS {
            let (mut after, before) = (None::<String>, decided.len());
            loop {
                let some: Vec<(String, LiveToken)> = {
                    let live = self.live();
                    let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                    let others = live.grants.range::<str, _>((from, Bound::Unbounded));
                    let others = others.filter(|(id, _)| !decided.contains_key(*id));
                    others.take(AT_ONCE).map(|(id, token)| (id.clone(), token.clone())).collect()
                };
                let Some((last, _)) = some.last() else { break };
                after = Some(last.clone());
                // Not before any of them was issued: it would be given a shorter life than it has.
                let now = self.now().unix;
                decided.extend(some.into_iter().map(|(id, token)| (id, redecide(snapshot, token.asked(), now))));
            }
            if decided.len() == before {
                break;
            }
        }
        decided
    }

    fn redecide_all(&self, snapshot: Snapshot) -> Redecided {
        let mut decided = self.decide_again(&snapshot);
        let keys = self.inner.keys.load();
        let mut live = self.live();
        let now = self.now().unix;
        live.forget(now);
        let mut deltas: BTreeMap<String, Delta> = BTreeMap::new();
        let mut tokens = Vec::new();
        for (id, token) in &mut live.grants {
            let change = decided.remove(id).unwrap_or_else(|| redecide(&snapshot, token.asked(), now));
            let delta = deltas.entry(token.spec.audience.clone()).or_default();
            let what = match change {
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
}

struct Redecided {
    epoch: Epoch,
    tokens: Vec<(String, LiveToken, AuditKind)>,
    published: Result<(), AuthorityError>,
}
