//! A folder that exists as long as the demo: certificates for everybody, made new each time, and the ledger.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use gates::https::{HttpsClient, client_config};
use gates::pki::make::{Application, self_signed};
use plant::equipment::Station;
use ua_proto::crypto::PrivateKey;
use ua_proto::pki::{Certificate, OwnIdentity, SharedTrust, TrustList};
use zeroize::Zeroizing;

use super::Trouble;
use super::story::CAST;
use super::witness::PATIENCE;

/// ApplicationUri of the authority.
pub(crate) const AUTHORITY: &str = "urn:trapkey:demo:authority";
/// ApplicationUri of a mixer that knows nothing of Trapkey.
pub(crate) const OLD: &str = "urn:trapkey:demo:old";
/// ApplicationUri of the guard in front of it.
pub(crate) const GUARD: &str = "urn:trapkey:demo:guard";
/// ApplicationUri of somebody whom nobody trusts.
pub(crate) const STRANGER: &str = "urn:trapkey:demo:stranger";

/// One application's certificate and key.
#[derive(Clone)]
pub(crate) struct Party {
    /// Its ApplicationUri.
    pub(crate) uri: String,
    /// Certificate and key as the cores use them.
    pub(crate) identity: Arc<OwnIdentity>,
    key: Arc<Zeroizing<Vec<u8>>>,
}

/// Everybody's certificates and one folder.
pub(crate) struct Workplace {
    folder: tempfile::TempDir,
    parties: BTreeMap<String, Party>,
    /// What everybody but the stranger trusts.
    pub(crate) trust: SharedTrust,
}

/// The ApplicationUri of a station, as the plant file has it.
#[must_use]
pub(crate) fn station_uri(station: Station) -> String {
    format!("urn:trapkey:demo:{}", station.name().to_lowercase())
}

impl Workplace {
    /// Makes the folder and the certificates, two at a time.
    pub(crate) async fn make() -> Result<Self, Trouble> {
        let folder = tempfile::Builder::new().prefix("trapkey-demo-").tempdir().map_err(Trouble::folder)?;
        let mut uris: Vec<String> = vec![AUTHORITY.into(), STRANGER.into(), OLD.into(), GUARD.into()];
        uris.extend(Station::ALL.map(station_uri));
        uris.extend(CAST.iter().map(|cast| cast.application.to_owned()));
        let now = gates::clock::now().unix;
        let making: Vec<_> =
            uris.into_iter().map(|uri| tokio::task::spawn_blocking(move || Party::make(uri, now))).collect();
        let mut parties = BTreeMap::new();
        for made in making {
            let party = made.await.map_err(|error| Trouble::setup("a certificate was not made", error))??;
            parties.insert(party.uri.clone(), party);
        }
        let trusted = parties.values().filter(|party| party.uri != STRANGER);
        let trusted = trusted.map(|party| Arc::clone(&party.identity.certificate)).collect();
        let trust = Arc::new(ArcSwap::from_pointee(TrustList { trusted, ..TrustList::default() }));
        Ok(Self { folder, parties, trust })
    }

    /// The folder.
    #[must_use]
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where the ledger is.
    #[must_use]
    pub(crate) fn ledger(&self) -> PathBuf {
        self.folder().join("audit")
    }

    /// An application's certificate and key.
    pub(crate) fn party(&self, uri: &str) -> Result<&Party, Trouble> {
        self.parties.get(uri).ok_or_else(|| Trouble::setup("no such party", uri))
    }

    /// Everybody.
    pub(crate) fn parties(&self) -> impl Iterator<Item = &Party> {
        self.parties.values()
    }

    /// An HTTPS client that proves to be `uri` and trusts the authority alone.
    pub(crate) fn https(&self, uri: &str) -> Result<HttpsClient, Trouble> {
        let root = self.party(AUTHORITY)?.identity.certificate.der().to_vec();
        let party = self.party(uri)?;
        let config = client_config([root], Some((vec![party.identity.certificate.der().to_vec()], party.key.to_vec())));
        let config = config.map_err(|error| Trouble::setup("TLS for a client", error))?;
        Ok(HttpsClient::new(config, PATIENCE))
    }
}

impl Party {
    fn make(uri: String, now: access_model::UnixTime) -> Result<Self, Trouble> {
        let name = uri.rsplit(':').next().unwrap_or("application").to_owned();
        let failed = |error: &dyn std::fmt::Display| Trouble::setup("a certificate was not made", error);
        let made = self_signed(&Application::local(&name, &uri), now).map_err(|error| failed(&error))?;
        let certificate = Certificate::from_der(&made.der).map_err(|error| failed(&error))?;
        let key = PrivateKey::from_der(&made.key_der).map_err(|error| failed(&error))?;
        let identity = OwnIdentity::new(certificate, key).map_err(|error| failed(&error))?;
        Ok(Self { uri, identity: Arc::new(identity), key: Arc::new(made.key_der) })
    }

    /// The private key as PKCS#8.
    #[must_use]
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }
}
