//! Who asks: applications by certificate or client secret, persons by password or by the token of an identity provider.
//! Failures of one group share one reason and one amount of work; what really happened goes to the audit.

use std::collections::BTreeSet;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use access_model::{Actor, AuditKind, AuditRecord, Outcome, Reason, Refusal, Thumbprint, nobody_at};
use token::{Expectation, MAX_TOKEN_LEN, verify};

use crate::core::{Authority, unavailable};
use crate::flood::{Fate, Flood};
use crate::turns::Asker;

/// An application that proved itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its ApplicationUri.
    pub uri: String,
    /// The certificate that tokens for it are bound to.
    pub certificate: Thumbprint,
}

impl Authority {
    /// The application that owns this certificate, which the caller saw proven.
    ///
    /// # Errors
    /// Nobody owns it, its owner is disabled, or the journal cannot be used.
    pub async fn client_by_certificate(&self, certificate: Thumbprint) -> Result<Client, Refusal> {
        let unknown =
            || Refusal::new(Reason::UnknownClient, format!("no application has the certificate {certificate}"));
        let found = self.inner.db.application_by_certificate(&certificate).await.map_err(unavailable)?;
        if let Some(row) = found {
            return if row.enabled { Ok(Client { uri: row.uri, certificate }) } else { Err(unknown()) };
        }
        let uri = self.inner.standing.load().pinned.get(&certificate).cloned().ok_or_else(unknown)?;
        let disabled = self.inner.db.application(&uri).await.map_err(unavailable)?.is_some_and(|row| !row.enabled);
        if disabled { Err(unknown()) } else { Ok(Client { uri, certificate }) }
    }

    /// The application that proves itself with a certificate *and* claims this uri, as OPC UA clients do.
    ///
    /// # Errors
    /// As [`Authority::client_by_certificate`], or the certificate is another application's.
    pub async fn client_by_uri(&self, uri: &str, certificate: Thumbprint) -> Result<Client, Refusal> {
        let client = self.client_by_certificate(certificate).await?;
        if client.uri == uri {
            return Ok(client);
        }
        Err(Refusal::new(Reason::UnknownClient, format!("the certificate of `{}` was shown by `{uri}`", client.uri)))
    }

    /// The application with this id and secret. Its tokens are bound to its registered certificate: the one it shows,
    /// or the only one it has.
    ///
    /// # Errors
    /// Unknown application or wrong secret (one reason, one amount of work), no or several registered certificates, or
    /// too much at once.
    pub async fn client_by_secret(
        &self,
        id: &str,
        secret: &str,
        shown: Option<Thumbprint>,
        address: &str,
    ) -> Result<Client, Refusal> {
        let row = self.inner.db.application(id).await.map_err(unavailable)?.filter(|row| row.enabled);
        let hash = row.as_ref().and_then(|row| row.secret_hash.clone());
        if !self.inner.passwords.check(secret.as_bytes(), hash, &Asker::new(address, id), self.now().mono).await? {
            return Err(Refusal::new(Reason::UnknownClient, "the client is unknown or its secret wrong"));
        }
        let mut certificates: BTreeSet<Thumbprint> = row.into_iter().flat_map(|row| row.certificates).collect();
        certificates.extend(self.snapshot().plant().applications.get(id).and_then(|one| one.thumbprint));
        let certificate = match shown {
            Some(shown) if certificates.contains(&shown) => Some(shown),
            Some(_) => None,
            None => certificates.first().copied().filter(|_| certificates.len() == 1),
        };
        let unbound = || Refusal::new(Reason::TokenUnbound, "no one certificate is registered to bind a token to");
        Ok(Client { uri: id.to_owned(), certificate: certificate.ok_or_else(unbound)? })
    }

    /// The person with this name and password, who asks from this network address (`ip[:port]`, or another mark of
    /// where the asker is; it has a share of the work and a pace of failures).
    ///
    /// # Errors
    /// Unknown name or wrong password (one reason, one amount of work), or too much at once.
    pub async fn person_by_password(&self, name: &str, password: &str, address: &str) -> Result<String, Refusal> {
        let row = self.inner.db.user(name).await.map_err(unavailable)?.filter(|row| row.enabled);
        let hash = row.and_then(|row| row.password_hash);
        if self.inner.passwords.check(password.as_bytes(), hash, &Asker::new(address, name), self.now().mono).await? {
            return Ok(name.to_owned());
        }
        Err(Refusal::new(Reason::UserCredentials, "the user is unknown or the password wrong"))
    }

    /// The person an identity provider vouches for (RFC 8693 `subject_token`). It must be meant for us.
    ///
    /// # Errors
    /// Whatever is wrong with the token.
    pub fn person_by_token(&self, subject_token: &[u8]) -> Result<String, Refusal> {
        let expected = Expectation {
            issuers: &self.inner.config.identity_issuers,
            audience: &self.inner.config.issuer,
            now: self.now().unix,
            max_len: MAX_TOKEN_LEN,
        };
        verify(subject_token, &expected).map(|claims| claims.subject.clone())
    }

    /// The roles of whoever owns this certificate, an application or a user: for administration.
    ///
    /// # Errors
    /// Nobody owns it, or the journal cannot be used.
    pub async fn roles_by_certificate(&self, certificate: Thumbprint) -> Result<(String, Vec<String>), Refusal> {
        let user = self.inner.db.user_by_certificate(&certificate).await.map_err(unavailable)?;
        let snapshot = self.snapshot();
        if let Some(user) = user.filter(|user| user.enabled && nobody_at(&user.name).is_none()) {
            let roles = snapshot.principal(Some(&user.name), None, false).roles;
            return Ok((user.name, roles));
        }
        let client = self.client_by_certificate(certificate).await?;
        let roles = snapshot.principal(None, Some(&client.uri), false).roles;
        Ok((client.uri, roles))
    }

    /// Records that somebody could not be authenticated.
    pub(crate) async fn record_refusal(
        &self,
        name: &str,
        address: Option<&str>,
        refusal: &Refusal,
    ) -> Result<(), Refusal> {
        match self.take_refusal(name, address, refusal) {
            Some(record) => self.keep_record(record).await.map_err(unavailable),
            None => Ok(()),
        }
    }

    /// The same, for refusals that nobody waits for.
    pub(crate) fn note_refusal(&self, name: &str, address: Option<&str>, refusal: &Refusal) {
        if let Some(record) = self.take_refusal(name, address, refusal) {
            self.note_record(record);
        }
    }

    /// The record of a refusal, unless it is one of so many that it is only counted.
    fn take_refusal(&self, name: &str, address: Option<&str>, refusal: &Refusal) -> Option<AuditRecord> {
        let name = name.chars().take(256).collect();
        let by = Actor { name, address: address.map(str::to_owned), ..Actor::default() };
        let outcome = Outcome::Denied(refusal.reason);
        let record = self.audit(AuditKind::TokenIssued, &by, "", outcome, &refusal.detail);
        let (fate, due) = self.flood().take(refusal.reason.word(), record.at.as_seconds(), record);
        due.into_iter().for_each(|record| self.note_record(record));
        match fate {
            Fate::Record(record) => Some(record),
            Fate::First => {
                let authority = self.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    let due = authority.flood().end();
                    due.into_iter().for_each(|record| authority.note_record(record));
                });
                None
            }
            Fate::Counted => None,
        }
    }

    fn flood(&self) -> MutexGuard<'_, Flood> {
        self.inner.flood.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
