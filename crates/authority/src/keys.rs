//! Signing keys. One signs; the next one is published before it signs, so that a gate knows it in time; the ones before
//! stay published until no token they signed can live.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use access_model::UnixTime;
use serde::{Deserialize, Serialize};
use token::{Algorithm, Issuer, Signer, VerifyingKey, jwks};

use crate::error::AuthorityError;
use crate::files;

/// The keys of one moment.
#[derive(Clone)]
pub(crate) struct KeyRing {
    pub current: Arc<Signer>,
    next: Arc<Signer>,
    /// Each with the time it stops being published.
    retired: Vec<(VerifyingKey, UnixTime)>,
    /// The retired keys' private halves are gone; their files name the public ones.
    certificate: Arc<Vec<u8>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    current: String,
    next: String,
    retired: Vec<(String, i64)>,
}

impl KeyRing {
    /// The keys in this folder, or new ones.
    pub(crate) async fn open(
        folder: Option<&Path>,
        algorithm: Algorithm,
        uri: &str,
        now: UnixTime,
    ) -> Result<Self, AuthorityError> {
        if let Some(path) = folder.map(list)
            && let Some(text) = files::read_secret_if_there(&path).await?
        {
            let ring =
                Self::from_text(&text, uri, now).map_err(|error| error.unwrap_or(AuthorityError::KeyList(path)))?;
            // Another algorithm was configured: the old keys leave as in any other rotation.
            return if ring.current.algorithm() == algorithm {
                Ok(ring)
            } else {
                ring.replaced(folder, algorithm, uri, now).await
            };
        }
        let ring = Self::new(Signer::generate(algorithm)?, Signer::generate(algorithm)?, Vec::new(), uri, now)?;
        ring.save(folder).await?;
        Ok(ring)
    }

    /// The next key signs from now on; the current one stays published for `overlap`.
    pub(crate) async fn rotate(
        &self,
        folder: Option<&Path>,
        algorithm: Algorithm,
        uri: &str,
        now: UnixTime,
        overlap: Duration,
    ) -> Result<Self, AuthorityError> {
        let mut retired: Vec<_> = self.retired.iter().filter(|(_, until)| *until > now).cloned().collect();
        retired.push((self.current.public(), now + overlap));
        let next = Arc::new(Signer::generate(algorithm)?);
        let certificate = Arc::new(certificate(&self.next, uri, now)?);
        let ring = Self { current: Arc::clone(&self.next), next, retired, certificate };
        ring.save(folder).await?;
        Ok(ring)
    }

    async fn replaced(
        &self,
        folder: Option<&Path>,
        algorithm: Algorithm,
        uri: &str,
        now: UnixTime,
    ) -> Result<Self, AuthorityError> {
        let mut retired = self.retired.clone();
        retired.push((self.current.public(), now + Duration::from_secs(24 * 3_600)));
        let ring = Self::new(Signer::generate(algorithm)?, Signer::generate(algorithm)?, retired, uri, now)?;
        ring.save(folder).await?;
        Ok(ring)
    }

    fn new(
        current: Signer,
        next: Signer,
        retired: Vec<(VerifyingKey, UnixTime)>,
        uri: &str,
        now: UnixTime,
    ) -> Result<Self, AuthorityError> {
        let certificate = Arc::new(certificate(&current, uri, now)?);
        Ok(Self { current: Arc::new(current), next: Arc::new(next), retired, certificate })
    }

    fn from_text(text: &str, uri: &str, now: UnixTime) -> Result<Self, Option<AuthorityError>> {
        let stored: Stored = serde_json::from_str(text).map_err(|_| None)?;
        let signer = |pem: &str| Signer::from_pkcs8_pem(pem).map_err(|error| Some(error.into()));
        let mut retired = Vec::new();
        for (jwk, until) in stored.retired {
            let key = VerifyingKey::from_jwk(jwk.as_bytes()).map_err(|error| Some(error.into()))?;
            retired.push((key, UnixTime::from_seconds(until)));
        }
        Self::new(signer(&stored.current)?, signer(&stored.next)?, retired, uri, now).map_err(Some)
    }

    async fn save(&self, folder: Option<&Path>) -> Result<(), AuthorityError> {
        let Some(folder) = folder else { return Ok(()) };
        let stored = Stored {
            current: self.current.to_pkcs8_pem().to_string(),
            next: self.next.to_pkcs8_pem().to_string(),
            retired: self.retired.iter().map(|(key, until)| (key.jwk(), until.as_seconds())).collect(),
        };
        let text = zeroize::Zeroizing::new(serde_json::to_string_pretty(&stored).unwrap_or_default());
        files::write_secret(&list(folder), &text).await
    }

    /// The published keys: the one that signs, the next, and those that signed what may still live.
    pub(crate) fn published(&self, now: UnixTime) -> Vec<VerifyingKey> {
        let retired = self.retired.iter().filter(|(_, until)| *until > now).map(|(key, _)| key.clone());
        [self.current.public(), self.next.public()].into_iter().chain(retired).collect()
    }

    pub(crate) fn jwks(&self, now: UnixTime) -> String {
        jwks(&self.published(now))
    }

    /// ServiceCertificate (OPC 10000-12 §9.6.4): a certificate of the key that signs.
    pub(crate) fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    /// What a gate needs to accept our tokens.
    pub(crate) fn issuer(&self, name: &str, now: UnixTime) -> Issuer {
        Issuer { name: name.to_owned(), keys: self.published(now), require_confirmation: true }
    }
}

fn list(folder: &Path) -> PathBuf {
    folder.join("signing-keys.json")
}

/// Self-signed, for ten years: whoever trusts it was given it by the administrator or over a trusted channel.
fn certificate(signer: &Signer, uri: &str, now: UnixTime) -> Result<Vec<u8>, AuthorityError> {
    let failed = |error: rcgen::Error| AuthorityError::Certificate(error.to_string());
    let key = rcgen::KeyPair::from_pem(&signer.to_pkcs8_pem()).map_err(failed)?;
    let mut params = rcgen::CertificateParams::new(Vec::new()).map_err(failed)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, "Trapkey token signing");
    let name = uri.try_into().map_err(failed)?;
    params.subject_alt_names = vec![rcgen::SanType::URI(name)];
    params.key_usages = vec![rcgen::KeyUsagePurpose::DigitalSignature];
    let day = Duration::from_secs(86_400);
    let now = rcgen::date_time_ymd(1970, 1, 1) + now.since(UnixTime::from_seconds(0));
    params.not_before = now - day;
    params.not_after = now + 3_650 * day;
    Ok(params.self_signed(&key).map_err(failed)?.der().to_vec())
}
