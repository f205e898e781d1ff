//! What both servers and the load generator share: certificates, the issuer of tokens, the user, the scopes and the
//! numbers of the nodes. It lies in a folder that goes with the fixture, so that server processes can read it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use access_model::{Epoch, Rights, ScopeIndex, ScopeMap};
use arc_swap::ArcSwap;
use gates::clock;
use gates::https::{HttpsClient, client_config};
use gates::pki::make::{Application, self_signed};
use token::{Algorithm, Claims, RightsClaim, SealedToken, Signer, VerifyingKey};
use ua_proto::crypto::PrivateKey;
use ua_proto::pki::{Certificate, OwnIdentity, SharedTrust, TrustList};

use crate::scratch::Scratch;
use crate::{Failed, files};

/// The server's ApplicationUri and the `aud` of its tokens.
pub const SERVER_URI: &str = "urn:trapkey:bench:server";
/// The load generator's ApplicationUri.
pub const CLIENT_URI: &str = "urn:trapkey:bench:client";
/// `iss` of the tokens.
pub const ISSUER: &str = "https://authority.bench";
/// The user of the sessions that log in with a name.
pub const USER: &str = "operator";
/// That user's password.
pub const PASSWORD: &str = "correct horse battery staple";
/// The namespace of the variables; its index is 2 at both servers.
pub const NAMESPACE: &str = "urn:trapkey:bench";
/// Variables in one folder.
pub const PER_FOLDER: u32 = 1_000;
/// Scopes that a session has rights on.
pub const SCOPES: u32 = 1_000;

/// The number of variable `nth` in namespace 2. Folders take part in the numbering.
#[must_use]
pub const fn number(nth: u32) -> u32 {
    nth + nth / PER_FOLDER + 2
}

/// The scope of variable `nth`.
#[must_use]
pub const fn scope(nth: u32) -> ScopeIndex {
    ScopeIndex(1 + nth % SCOPES)
}

/// The scopes of the server.
#[must_use]
pub fn scopes() -> ScopeMap {
    ScopeMap::new((0..SCOPES).map(|nth| format!("scope-{nth:04}"))).expect("distinct names")
}

/// The folder.
#[derive(Debug)]
pub struct Fixture {
    folder: Scratch,
}

impl Fixture {
    /// Makes certificates (RSA-2048) and keys.
    ///
    /// # Errors
    /// They cannot be made or written.
    pub fn make() -> Result<Self, Failed> {
        Self::of(2_048)
    }

    /// The same with RSA keys of so many bits for the server and the client.
    ///
    /// # Errors
    /// As [`Fixture::make`]; 2048, 3072 and 4096 bits can be made.
    pub fn of(bits: u16) -> Result<Self, Failed> {
        let fixture = Self { folder: Scratch::new()? };
        let names = [
            ("server", SERVER_URI),
            // Stands in front of the server under the name of the server.
            ("guard", SERVER_URI),
            ("client", CLIENT_URI),
            ("authority", "urn:trapkey:bench:authority"),
            ("admin", "urn:trapkey:bench:admin"),
        ];
        for (name, uri) in names {
            let key_bits = if matches!(name, "server" | "client") { bits } else { 2_048 };
            let made = self_signed(&Application { key_bits, ..Application::local(name, uri) }, clock::now().unix)?;
            files::write(&fixture.path(&format!("{name}.der")), &made.der)?;
            files::write(&fixture.path(&format!("{name}.key.pem")), made.key_pem.as_bytes())?;
            files::write(&fixture.path(&format!("{name}.key.der")), &made.key_der)?;
        }
        let signer = Signer::generate(Algorithm::Es256)?;
        files::write(&fixture.path("issuer.pkcs8"), signer.to_pkcs8())?;
        files::write(&fixture.path("issuer.jwk"), signer.public().jwk())?;
        Ok(fixture)
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A file in it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A token for the load generator with rights on all scopes.
    ///
    /// # Errors
    /// It cannot be minted.
    pub fn token(&self, id: &str) -> Result<SealedToken, Failed> {
        token(self.folder(), id)
    }
}

/// As [`Fixture::token`], for the fixture in `folder`.
///
/// # Errors
/// It cannot be minted.
pub fn token(folder: &Path, id: &str) -> Result<SealedToken, Failed> {
    let signer = Signer::from_pkcs8_der(&files::read(&folder.join("issuer.pkcs8"))?)?;
    let client = Certificate::from_der(&files::read(&folder.join("client.der"))?)?;
    let map = token::map_digest(&scopes());
    let now = clock::now().unix;
    let claims = Claims {
        issuer: ISSUER.into(),
        subject: USER.into(),
        audience: SERVER_URI.into(),
        expires: now + Duration::from_secs(7_200),
        not_before: now,
        issued_at: now,
        id: id.into(),
        client: Some(CLIENT_URI.into()),
        confirmation: Some(client.thumbprint()),
        roles: vec!["Operator".into()],
        groups: Vec::new(),
        rights: Some(RightsClaim::new(map, [(Rights::BROWSE | Rights::READ, 1..=SCOPES)])),
        epoch: Epoch(1),
        padding: 0,
    };
    Ok(token::mint(&claims, &signer)?)
}

/// A certificate of the fixture in `folder` with its key.
///
/// # Errors
/// It cannot be read.
pub fn identity(folder: &Path, name: &str) -> Result<Arc<OwnIdentity>, Failed> {
    let certificate = Certificate::from_der(&files::read(&folder.join(format!("{name}.der")))?)?;
    let key = PrivateKey::from_pem(&files::read(&folder.join(format!("{name}.key.pem")))?)?;
    Ok(Arc::new(OwnIdentity::new(certificate, key)?))
}

/// TLS with a certificate of the fixture in `folder`, for a server with the authority's certificate.
///
/// # Errors
/// It cannot be read.
pub fn https(folder: &Path, name: &str) -> Result<HttpsClient, Failed> {
    let read = |file: String| files::read(&folder.join(file));
    let identity = (vec![read(format!("{name}.der"))?], read(format!("{name}.key.der"))?);
    let tls = client_config([read("authority.der".into())?], Some(identity))?;
    Ok(HttpsClient::new(tls, Duration::from_secs(5)))
}

/// Trust in certificates of the fixture in `folder`.
///
/// # Errors
/// They cannot be read.
pub fn trust(folder: &Path, names: &[&str]) -> Result<SharedTrust, Failed> {
    let mut trusted = Vec::new();
    for name in names {
        trusted.push(Arc::new(Certificate::from_der(&files::read(&folder.join(format!("{name}.der")))?)?));
    }
    Ok(Arc::new(ArcSwap::from_pointee(TrustList { trusted, ..TrustList::default() })))
}

/// The key that verifies the fixture's tokens.
///
/// # Errors
/// It cannot be read.
pub fn issuer_key(folder: &Path) -> Result<VerifyingKey, Failed> {
    Ok(VerifyingKey::from_jwk(&files::read(&folder.join("issuer.jwk"))?)?)
}
