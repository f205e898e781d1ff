//! Issuers beside the authority: what their roles and groups may do, and their keys while they rotate them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gates::https::{HttpsClient, Target, client_config};
use gates::opcua::Enforcing;
use gates::opcua::server::Handle;
use pep::{LocalGrant, Who};
use token::{Issuer, VerifyingKey};
use ua_proto::server::Input;

use super::local::granted;
use crate::commands::own::Own;
use crate::config::ForeignIssuer;
use crate::failure::Failure;
use crate::files;

/// How often a file is looked at.
const LOOK: Duration = Duration::from_secs(2);
/// How often an address is asked; sooner while it has not answered yet.
const ASK: Duration = Duration::from_secs(60);
/// Pause after an address has not answered.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where the keys of an issuer are.
#[derive(Clone)]
enum Keys {
    File(PathBuf),
    Address(HttpsClient, Target),
}

/// An issuer that is followed.
pub(super) struct Followed {
    name: String,
    keys: Keys,
    known: Vec<VerifyingKey>,
}

/// The issuers of a server as its gate knows them, and as they are followed. What is in a file is there at once; whoever is
/// asked over HTTPS has no keys until it answers.
pub(super) fn issuers(
    configured: &[ForeignIssuer],
    uri: &str,
    own: &Own,
) -> Result<(Vec<pep::ForeignIssuer>, Vec<Followed>), Failure> {
    let mut all = (Vec::new(), Vec::new());
    for issuer in configured {
        let (keys, known) = place(issuer, own)?;
        let name = issuer.name.clone();
        all.0.push(pep::ForeignIssuer {
            issuer: Issuer { name: name.clone(), keys: known.clone(), require_confirmation: issuer.confirmation },
            audience: issuer.audience.clone().unwrap_or_else(|| uri.to_owned()),
            roles: token::ClaimPath::new(issuer.roles_claim.names().to_vec()).unwrap_or_default(),
        });
        all.1.push(Followed { name, keys, known });
    }
    Ok(all)
}

/// What the roles and groups of issuers may do at a server.
pub(crate) fn grants(configured: &[ForeignIssuer], server: &pdp::plant::Server) -> Result<Vec<LocalGrant>, Failure> {
    let mut grants = Vec::new();
    for issuer in configured {
        for given in &issuer.rights {
            let who = match (&given.role, &given.group) {
                (Some(role), _) => Who::TokenRole { issuer: issuer.name.clone(), role: role.clone() },
                (None, Some(group)) => Who::TokenGroup { issuer: issuer.name.clone(), group: group.clone() },
                (None, None) => continue,
            };
            let rights = vec![granted(&issuer.name, &given.rights, &given.scopes, server)?];
            grants.push(LocalGrant { who, require_encryption: false, roles: Vec::new(), rights });
        }
    }
    Ok(grants)
}

fn place(issuer: &ForeignIssuer, own: &Own) -> Result<(Keys, Vec<VerifyingKey>), Failure> {
    if let Some(path) = &issuer.jwks {
        return Ok((Keys::File(path.clone()), from_file(path)?));
    }
    let url = issuer.jwks_url.as_deref().unwrap_or_default();
    let target = Target::parse(url).map_err(|error| Failure::from_error(&error).into_bad_input())?;
    let mut roots = Vec::new();
    for path in &issuer.ca {
        let certificate = gates::pki::certificate(path);
        roots.push(certificate.map_err(|error| Failure::from_error(&error).into_bad_input())?.der().to_vec());
    }
    if roots.is_empty() {
        roots = own.trust.load().trusted.iter().map(|certificate| certificate.der().to_vec()).collect();
    }
    let tls = client_config(roots, None).map_err(|error| Failure::from_error(&error).into_bad_input())?;
    Ok((Keys::Address(HttpsClient::new(tls, PATIENCE), target), Vec::new()))
}

/// The keys in a file.
pub(super) fn from_file(path: &Path) -> Result<Vec<VerifyingKey>, Failure> {
    let unusable =
        |why: String| Failure::bad_input(format!("`{}` holds no keys that can be used: {why}", path.display()));
    match token::parse_jwks(&files::bytes(path)?) {
        Ok(keys) if keys.is_empty() => Err(unusable("none is for signatures of a kind known here".into())),
        Ok(keys) => Ok(keys),
        Err(error) => Err(unusable(error.to_string())),
    }
}

impl Keys {
    async fn look(&self) -> Result<Vec<VerifyingKey>, String> {
        match self {
            Self::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || from_file(&path).map_err(|failure| failure.in_short()));
                read.await.map_err(|error| error.to_string())?
            }
            Self::Address(https, target) => match https.exchange(target, "GET", "", &[], Vec::new()).await {
                Ok((status, body)) if status.is_success() => match token::parse_jwks(&body) {
                    Ok(keys) if keys.is_empty() => Err("it publishes no key of a kind known here".to_owned()),
                    read => read.map_err(|error| error.to_string()),
                },
                Ok((status, _)) => Err(format!("it answers {status}")),
                Err(error) => Err(error.to_string()),
            },
        }
    }

    const fn pause(&self, well: bool) -> Duration {
        match self {
            Self::File(_) => LOOK,
            Self::Address(..) if well => ASK,
            Self::Address(..) => ASK_AGAIN,
        }
    }
}

impl Followed {
    /// Hands changed keys to the gate for as long as the server runs. What cannot be read changes nothing and is said once.
    pub(super) async fn follow<C: Enforcing>(mut self, server: Handle<C>) {
        let mut said = None;
        let mut well = matches!(self.keys, Keys::File(_));
        let mut first = !well;
        loop {
            let pause = if std::mem::take(&mut first) { Duration::ZERO } else { self.keys.pause(well) };
            tokio::select! {
                () = server.stopped() => return,
                () = tokio::time::sleep(pause) => {}
            }
            let looked = self.keys.look().await;
            well = looked.is_ok();
            let keys = match looked {
                Ok(keys) => keys,
                Err(why) => {
                    if said.as_ref() != Some(&why) {
                        tracing::warn!(issuer = self.name, why, "the keys of an issuer stay as they were");
                        said = Some(why);
                    }
                    continue;
                }
            };
            said = None;
            if token::jwks(&keys) == token::jwks(&self.known) {
                continue;
            }
            self.known = keys.clone();
            let (issuer, count) = (self.name.clone(), keys.len());
            let change = Input::ForeignKeys { issuer, keys };
            if server.with(move |server, now| server.tell(change, now)).await.is_err() {
                return;
            }
            tracing::info!(issuer = self.name, keys = count, "the keys of an issuer have changed");
        }
    }
}
