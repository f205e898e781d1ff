//! The authority itself: its state and what it is opened from. How it changes, revokes, records and remembers are the
//! rooms beside.

mod account;
mod change;
mod journal;
mod mode;
mod record;
mod revoke;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use access_model::meter::{Counter, Histogram, LONG};
use access_model::{Actor, AuditKind, Epoch, Now, Outcome};
use arc_swap::ArcSwap;
use pdp::Snapshot;
use store::{Db, Ledger};
use token::VerifyingKey;
use tokio::sync::{Semaphore, watch};
use ua_proto::pki::SharedTrust;

use self::journal::{load, restore, stored_marking};
use crate::approvals::Questions;
use crate::clock::Clock;
use crate::config::{AuthorityConfig, PolicySource};
use crate::error::AuthorityError;
use crate::files;
use crate::flood::Flood;
use crate::http::Budget;
use crate::keys::KeyRing;
use crate::leases::Leases;
use crate::live::Live;
use crate::opcua::{OpcUaKeys, Pending, Replays};
use crate::passwords::Passwords;
use crate::standing::Standing;
use crate::turns::Turns;

pub(crate) use journal::row;
pub use mode::Switched;
pub(crate) use record::unavailable;
pub(crate) use revoke::family;

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
    /// Secrets to be opened, signatures of persons to be checked.
    pub proofs: Turns,
    /// Certificate and key of the OPC UA side, once it is there.
    pub opcua: OnceLock<OpcUaKeys>,
    /// What issuers have taken back, for certificates shown over HTTPS.
    pub revoked: OnceLock<SharedTrust>,
    pub replays: Mutex<Replays>,
    pub pending: Mutex<Pending>,
    pub flood: Mutex<Flood>,
    pub bodies: Budget,
    live: Mutex<Live>,
    source: PolicySource,
    rotated: watch::Sender<()>,
    /// Tokens that were issued, and asks for one that were refused.
    pub issued: Counter,
    pub refused: Counter,
    /// How long a token took to be decided, made and signed; of those that were issued, without their records.
    pub issuing: Histogram,
    /// One change at a time: epochs reach the gates in their order.
    pub change: tokio::sync::Mutex<()>,
    /// Threads that decide for those who ask, where that takes long.
    pub deciding: Arc<Semaphore>,
    /// Changes that wait for a second person.
    pub questions: Mutex<Questions>,
    /// Whose turn it is among guards.
    pub leases: Mutex<Leases>,
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
        let turns = || Turns::new(config.password_jobs, config.patience / 3, &config.paces);
        let passwords = Passwords::new(turns()).map_err(|_| AuthorityError::Thread)?;
        let proofs = turns();
        let authority = Self {
            inner: Arc::new(Inner {
                keys: ArcSwap::from_pointee(keys),
                standing: ArcSwap::from_pointee(Standing::new(snapshot)),
                pending: Mutex::new(Pending::default()),
                flood: Mutex::default(),
                bodies: Budget::default(),
                live: Mutex::new(live),
                rotated: watch::Sender::new(()),
                issued: Counter::default(),
                refused: Counter::default(),
                issuing: Histogram::new(LONG),
                change: tokio::sync::Mutex::new(()),
                deciding: Arc::new(Semaphore::new(deciding())),
                questions: Mutex::default(),
                leases: Mutex::new(Leases::new(clock())),
                passwords,
                proofs,
                opcua: OnceLock::new(),
                revoked: OnceLock::new(),
                replays: Mutex::default(),
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

    /// How many tokens were issued since it was opened, and how many asks for one were refused.
    #[must_use]
    pub fn tokens(&self) -> (u64, u64) {
        (self.inner.issued.get(), self.inner.refused.get())
    }

    /// How long tokens took to be decided, made and signed.
    #[must_use]
    pub fn issuing(&self) -> &Histogram {
        &self.inner.issuing
    }

    /// Whether the journal answers.
    ///
    /// # Errors
    /// It does not.
    pub async fn journal_answers(&self) -> Result<(), store::DbError> {
        self.inner.db.application("").await.map(drop)
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

    /// Gives the authority the revocation lists to hold certificates against that are shown over HTTPS: those count by their
    /// registration, and a registration does not outlive its certificate. The first call counts.
    pub fn heed_revocations(&self, lists: SharedTrust) {
        let _ = self.inner.revoked.set(lists);
    }

    /// The journal.
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.inner.db
    }

    /// The epoch of the last update that the gates of a server were sent: a gate that has reached it knows everything.
    #[must_use]
    pub fn told(&self, audience: &str) -> Epoch {
        self.live().told(audience)
    }

    pub(crate) fn live(&self) -> MutexGuard<'_, Live> {
        self.inner.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next key signs from now on.
    ///
    /// # Errors
    /// A key cannot be made or kept, or the change not recorded.
    pub async fn rotate_keys(&self, by: &Actor) -> Result<(), AuthorityError> {
        let _one = self.inner.change.lock().await;
        let config = &self.inner.config;
        let ring = KeyRing::clone(&self.inner.keys.load());
        let (folder, now) = (config.key_folder.as_deref(), self.now().unix);
        // Published keys: the one that signs, then the next.
        let published = ring.published(now);
        let next = published.get(1).map(VerifyingKey::kid).unwrap_or_default();
        let detail = format!("tokens are signed with the key {next} from now on");
        let record = self.audit(AuditKind::ConfigurationChanged, by, "signing key", Outcome::Allowed, &detail);
        let deed = async {
            let ring = ring.rotate(folder, config.algorithm, &config.issuer, now, config.key_overlap).await?;
            self.inner.keys.store(Arc::new(ring));
            Ok(())
        };
        self.recorded(record, deed).await?;
        self.inner.rotated.send_replace(());
        Ok(())
    }

    /// Tells whenever another key signs: what shows the signing certificate is then to be brought in step.
    #[must_use]
    pub fn rotations(&self) -> watch::Receiver<()> {
        self.inner.rotated.subscribe()
    }
}

/// Half of the processors: the others are for whoever does not ask for a token.
fn deciding() -> usize {
    std::thread::available_parallelism().map_or(1, |all| all.get().div_ceil(2))
}

/// Carries a change through even when nobody waits for it any more: an administrator who hangs up must not leave a change
/// in the journal that no gate hears of.
pub(crate) async fn to_the_end<T: Send + 'static, E: From<AuthorityError> + Send + 'static>(
    change: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Result<T, E> {
    tokio::spawn(change).await.map_err(|_| AuthorityError::Thread)?
}
