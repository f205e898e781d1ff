//! Changes of accounts, of persons and applications: each is recorded, and an account that is closed takes its tokens with
//! it. [`Books`] makes them in journal and ledger while no authority runs; one that runs tells its gates besides
//! ([`crate::Authority::change_account`]).

use access_model::{Actor, AuditKind, AuditRecord, Epoch, Outcome, Principal, Thumbprint, UnixTime, nobody_at};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use opcua_types::StatusCode;
use store::{Application, ApplicationKind, Db, DbError, Ledger, NewRevocation, Revocation, Unavailable, User};
use token::{Entropy as _, SystemEntropy};
use zeroize::Zeroizing;

use crate::error::AuthorityError;

/// Shorter passwords fall to guessing; in characters.
pub const SHORTEST_PASSWORD: usize = 8;

const APPLICATION_DISABLED: &str = "the application was disabled";

/// What is to become of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountChange {
    /// A person gets this password (its argon2 hash) and is let in; the account is made if there is none. Another password
    /// ends the lines of refresh tokens; tokens that live go on.
    Password {
        /// The person.
        name: String,
        /// PHC string, as [`crate::hash_secret`] makes it.
        hash: String,
    },
    /// A person may show this certificate, too; the account is made if there is none.
    Certificate {
        /// The person.
        name: String,
        /// Of the certificate.
        thumbprint: Thumbprint,
    },
    /// A person is let in no more; their tokens end.
    Disable {
        /// The person.
        name: String,
    },
    /// A person's account goes; their tokens end.
    Remove {
        /// The person.
        name: String,
    },
    /// An application gets this client secret (its argon2 hash) in place of the one before, or has none any more.
    ClientSecret {
        /// ApplicationUri.
        uri: String,
        /// PHC string.
        hash: Option<String>,
        /// Whether the plant file names it: it is then registered, if it is not.
        in_plant: bool,
    },
    /// An application gets no more tokens; those for it end.
    DisableApplication {
        /// ApplicationUri.
        uri: String,
        /// Whether the plant file names it: it is then registered, if it is not.
        in_plant: bool,
    },
    /// An application that was disabled may ask again. What ended stays ended.
    EnableApplication {
        /// ApplicationUri.
        uri: String,
    },
}

/// Why an account was not changed.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// Nobody is called so.
    #[error("there is no account `{0}`")]
    Unknown(String),
    /// Such a name stands for whoever signs in without one.
    #[error("`{0}` is nobody in particular, and nobody may be called so")]
    Reserved(String),
    /// A certificate belongs to one account.
    #[error("the certificate belongs to `{0}`")]
    Taken(String),
    /// The change cannot be recorded.
    #[error(transparent)]
    Audit(#[from] Unavailable),
    /// The journal cannot be used.
    #[error(transparent)]
    Store(#[from] DbError),
    /// The authority could not carry it through.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
}

/// A change that was made, and what is still to be told.
#[derive(Debug)]
#[must_use = "the tokens that ended are to be told and recorded"]
pub struct AccountChanged {
    /// Tokens that ended with the account.
    pub gone: Vec<Revocation>,
    /// Their number in the order of changes.
    pub epoch: Epoch,
    why: &'static str,
    trouble: Option<AccountError>,
}

/// Journal and ledger, at one moment.
#[derive(Clone, Debug)]
pub struct Books {
    /// The journal.
    pub db: Db,
    /// The ledger.
    pub ledger: Ledger,
    /// Whether a change that cannot be recorded is refused.
    pub audit_required: bool,
    /// The time.
    pub now: UnixTime,
}

/// What is written.
enum Row {
    User(User),
    NoUser,
    Application(Application),
}

/// A new client secret: 256 random bits.
#[must_use]
pub fn new_client_secret() -> Zeroizing<String> {
    let mut bytes = Zeroizing::new([0_u8; 32]);
    SystemEntropy::new().fill(bytes.as_mut());
    Zeroizing::new(URL_SAFE_NO_PAD.encode(bytes.as_ref()))
}

impl AccountChange {
    fn name(&self) -> &str {
        match self {
            Self::Password { name, .. }
            | Self::Certificate { name, .. }
            | Self::Disable { name }
            | Self::Remove { name } => name,
            Self::ClientSecret { uri, .. } | Self::DisableApplication { uri, .. } | Self::EnableApplication { uri } => {
                uri
            }
        }
    }

    fn sentence(&self) -> String {
        match self {
            Self::Password { .. } => "a password was set".to_owned(),
            Self::Certificate { thumbprint, .. } => format!("the certificate {thumbprint} was added"),
            Self::Disable { .. } => "the account was disabled".to_owned(),
            Self::Remove { .. } => "the account was removed".to_owned(),
            Self::ClientSecret { hash: Some(_), .. } => "a client secret was set".to_owned(),
            Self::ClientSecret { hash: None, .. } => "the client secret was removed".to_owned(),
            Self::DisableApplication { .. } => APPLICATION_DISABLED.to_owned(),
            Self::EnableApplication { .. } => "the application was enabled".to_owned(),
        }
    }

    /// Why tokens end with it, if they do.
    const fn closes(&self) -> Option<&'static str> {
        match self {
            Self::Disable { .. } => Some("the account was disabled"),
            Self::Remove { .. } => Some("the account was removed"),
            Self::DisableApplication { .. } => Some(APPLICATION_DISABLED),
            _ => None,
        }
    }

    /// Whether it only takes away, so that a missing record does not hold it up.
    const fn must_not_wait(&self) -> bool {
        matches!(self, Self::Disable { .. } | Self::DisableApplication { .. })
    }

    /// Whether these tokens were given to the account.
    fn owns(&self, principal: &Principal) -> bool {
        match self {
            Self::DisableApplication { uri, .. } => principal.application.as_ref().is_some_and(|one| one.0 == *uri),
            _ => principal.person.as_deref() == Some(self.name()),
        }
    }
}

impl Books {
    /// Records a change and makes it. What cannot be recorded is not done; only what is to be disabled is
    /// disabled all the same, and whoever asked is told by [`Books::conclude`].
    ///
    /// # Errors
    /// There is no such account, the certificate is somebody else's, or journal or ledger cannot be used.
    pub async fn change(&self, change: &AccountChange, by: &Actor) -> Result<AccountChanged, AccountError> {
        let row = self.row(change).await?;
        let kept = self.record(AuditKind::AccountChanged, by, change.name(), &change.sentence()).await;
        let trouble = match kept {
            Ok(()) => None,
            Err(error) if change.must_not_wait() => Some(error.into()),
            Err(error) => return Err(error.into()),
        };
        if let Err(error) = self.write(row, change.name()).await {
            let failed = Outcome::Failed(StatusCode::BadInternalError.bits());
            let record = self.entry(AuditKind::AccountChanged, by, change.name(), failed, &error.to_string());
            if let Err(error) = self.ledger.note(&record) {
                tracing::error!(%error, "an audit record was lost");
            }
            return Err(error.into());
        }
        let mut changed = AccountChanged { gone: Vec::new(), epoch: Epoch(0), why: "", trouble };
        if let Some(why) = change.closes() {
            changed.why = why;
            if let Err(error) = self.end_tokens(change, by, &mut changed).await {
                changed.trouble.get_or_insert(error.into());
            }
        }
        Ok(changed)
    }

    /// Records each token that ended; how many there were.
    ///
    /// # Errors
    /// Something could not be recorded or ended; the account is changed all the same.
    pub async fn conclude(&self, changed: AccountChanged, by: &Actor) -> Result<usize, AccountError> {
        let mut trouble = changed.trouble;
        for one in &changed.gone {
            let detail = format!("token {} for {}: {}", one.token, one.audience, changed.why);
            if let Err(error) = self.record(AuditKind::TokenRevoked, by, &one.token, &detail).await {
                trouble.get_or_insert(error.into());
            }
        }
        trouble.map_or(Ok(changed.gone.len()), Err)
    }

    async fn row(&self, change: &AccountChange) -> Result<Row, AccountError> {
        let unknown = || AccountError::Unknown(change.name().to_owned());
        match change {
            AccountChange::ClientSecret { uri, hash, in_plant } => {
                let row = self.application(uri, *in_plant).await?;
                return Ok(Row::Application(Application { secret_hash: hash.clone(), ..row }));
            }
            AccountChange::DisableApplication { uri, in_plant } => {
                let row = self.application(uri, *in_plant).await?;
                return Ok(Row::Application(Application { enabled: false, ..row }));
            }
            AccountChange::EnableApplication { uri } => {
                let row = self.application(uri, false).await?;
                return Ok(Row::Application(Application { enabled: true, ..row }));
            }
            _ => {}
        }
        if matches!(change, AccountChange::Password { .. } | AccountChange::Certificate { .. })
            && nobody_at(change.name()).is_some()
        {
            return Err(AccountError::Reserved(change.name().to_owned()));
        }
        let there = self.db.user(change.name()).await?;
        let or_new = |there: Option<User>| there.unwrap_or_else(|| self.new_user(change.name()));
        Ok(match change {
            AccountChange::Password { hash, .. } => {
                Row::User(User { password_hash: Some(hash.clone()), enabled: true, ..or_new(there) })
            }
            AccountChange::Certificate { thumbprint, .. } => {
                let owner = self.db.user_by_certificate(thumbprint).await?;
                if let Some(other) = owner.filter(|owner| owner.name != change.name()) {
                    return Err(AccountError::Taken(other.name));
                }
                let mut user = or_new(there);
                user.certificates.push(*thumbprint);
                user.certificates.sort_unstable();
                user.certificates.dedup();
                Row::User(user)
            }
            AccountChange::Disable { .. } => Row::User(User { enabled: false, ..there.ok_or_else(unknown)? }),
            _ => {
                there.ok_or_else(unknown)?;
                Row::NoUser
            }
        })
    }

    /// What is registered of an application; one that only the plant file names begins to be.
    async fn application(&self, uri: &str, in_plant: bool) -> Result<Application, AccountError> {
        let there = self.db.application(uri).await?;
        let row = there.or_else(|| in_plant.then(|| self.new_application(uri)));
        row.ok_or_else(|| AccountError::Unknown(uri.to_owned()))
    }

    fn new_user(&self, name: &str) -> User {
        User {
            name: name.to_owned(),
            password_hash: None,
            certificates: Vec::new(),
            roles: Vec::new(),
            groups: Vec::new(),
            enabled: true,
            created: self.now,
        }
    }

    fn new_application(&self, uri: &str) -> Application {
        Application {
            uri: uri.to_owned(),
            name: uri.to_owned(),
            kind: ApplicationKind::Client,
            certificates: Vec::new(),
            secret_hash: None,
            enabled: true,
            created: self.now,
        }
    }

    async fn write(&self, row: Row, name: &str) -> Result<(), DbError> {
        match row {
            Row::User(user) => self.db.put_user(&user).await,
            Row::NoUser => self.db.remove_user(name).await.map(drop),
            Row::Application(application) => self.db.put_application(&application).await,
        }
    }

    /// Ends every token of the account. One that is being made now finds it closed.
    async fn end_tokens(
        &self,
        change: &AccountChange,
        by: &Actor,
        changed: &mut AccountChanged,
    ) -> Result<(), DbError> {
        changed.epoch = self.db.next_epoch().await?;
        for grant in self.db.live_grants(self.now).await? {
            if !change.owns(&grant.principal) {
                continue;
            }
            let revocation = NewRevocation {
                token: grant.token,
                by: by.name.clone(),
                reason: changed.why.to_owned(),
                at: self.now,
                epoch: changed.epoch,
            };
            changed.gone.extend(self.db.revoke(&revocation).await?.revocation());
            self.db.remove_grant(&grant.id).await?;
        }
        Ok(())
    }

    async fn record(&self, kind: AuditKind, by: &Actor, object: &str, detail: &str) -> Result<(), Unavailable> {
        match self.ledger.append(self.entry(kind, by, object, Outcome::Allowed, detail)).await {
            Err(error) if self.audit_required => Err(error),
            Err(error) => {
                tracing::error!(%error, kind = kind.name(), "an audit record was lost");
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }

    fn entry(&self, kind: AuditKind, by: &Actor, object: &str, outcome: Outcome, detail: &str) -> AuditRecord {
        AuditRecord {
            at: self.now,
            kind,
            actor: by.clone(),
            object: object.chars().take(256).collect(),
            outcome,
            detail: detail.chars().take(256).collect(),
            count: 1,
            epoch: None,
            place: None,
        }
    }
}
