//! Persons who may log in at one server without a token: their proofs, and rights that depend on no authority.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use access_model::Rights;
use arc_swap::ArcSwap;
use argon2::{Argon2, PasswordHash, PasswordVerifier as _};
use gates::opcua::wiring::Credentials;
use gates::pki::{PkiError, PkiStore};
use pep::{LocalGrant, LocalScopes, Who};
use plant::station::Passwords;
use tokio::sync::Semaphore;
use ua_proto::pki::{Certificate, SharedTrust, TrustList};

use crate::commands::own::Own;
use crate::config::{LocalUser, Server};
use crate::failure::Failure;
use crate::nearest::nearest;

/// Passwords that are checked at a time; further ones are refused.
const AT_A_TIME: usize = 2;
/// How often the lists of users are brought in line with those of the server.
const LOOK: Duration = Duration::from_millis(500);

/// Who may log in here, and for what.
pub(crate) struct Local {
    /// Hashes by name.
    hashes: BTreeMap<String, String>,
    certificates: Vec<Arc<Certificate>>,
    /// What the gate grants.
    pub(super) grants: Vec<LocalGrant>,
}

impl Local {
    /// Reads the persons of a server.
    pub(crate) fn of(role: &Server, plant: &pdp::Plant, server: &pdp::plant::Server) -> Result<Self, Failure> {
        let mut local = Self { hashes: BTreeMap::new(), certificates: Vec::new(), grants: Vec::new() };
        for rights in &role.local {
            if !plant.roles.contains_key(&rights.role) {
                return Err(unknown("role", &rights.role, plant.roles.keys()));
            }
        }
        for user in &role.user {
            let person = plant.persons.get(&user.name);
            let person = person.ok_or_else(|| unknown("person", &user.name, plant.persons.keys()))?;
            let held = role.local.iter().filter(|rights| person.roles.contains(&rights.role));
            let rights = held
                .map(|given| granted(&given.role, &given.rights, &given.scopes, server))
                .collect::<Result<Vec<_>, _>>()?;
            for who in local.proofs(user)? {
                let (roles, rights) = (person.roles.clone(), rights.clone());
                local.grants.push(LocalGrant { who, require_encryption: false, roles, rights });
            }
        }
        let whoever = role.anonymous.iter().map(|given| granted("anonymous", &given.rights, &given.scopes, server));
        let rights = whoever.collect::<Result<Vec<_>, _>>()?;
        if !rights.is_empty() {
            let roles = vec!["Anonymous".to_owned()];
            local.grants.push(LocalGrant { who: Who::Anonymous, require_encryption: false, roles, rights });
        }
        Ok(local)
    }

    /// How a user is known to the gate.
    fn proofs(&mut self, user: &LocalUser) -> Result<Vec<Who>, Failure> {
        let mut proofs = Vec::new();
        if let Some(hash) = &user.password {
            if PasswordHash::new(hash).is_err() {
                return Err(Failure::bad_input(format!("the password of `{}` is no hash", user.name))
                    .help("`trapkey user hash` makes one"));
            }
            self.hashes.insert(user.name.clone(), hash.clone());
            proofs.push(Who::User(user.name.clone()));
        }
        if let Some(path) = &user.certificate {
            let certificate = certificate(path)?;
            proofs.push(Who::Certificate(certificate.thumbprint()));
            self.certificates.push(Arc::new(certificate));
        }
        if proofs.is_empty() {
            return Err(Failure::bad_input(format!("`{}` has neither a password nor a certificate", user.name)));
        }
        Ok(proofs)
    }

    /// Whether nobody may log in without a token.
    pub(super) fn is_nobody(&self) -> bool {
        self.grants.is_empty()
    }

    /// Whether somebody has a password.
    pub(super) fn by_password(&self) -> bool {
        !self.hashes.is_empty()
    }

    /// The certificates of those who have one; who signed and revoked them is what the server itself goes by.
    ///
    /// # Errors
    /// The server's lists cannot be read.
    pub(super) fn by_certificate(&self, own: &Own) -> Result<Option<SharedTrust>, Failure> {
        if self.certificates.is_empty() {
            return Ok(None);
        }
        let users = UserTrust { users: self.certificates.clone(), store: own.store.clone() };
        let list = Arc::new(ArcSwap::from_pointee(users.list().map_err(|error| Failure::from_error(&error))?));
        tokio::spawn(users.follow(Arc::clone(&own.trust), Arc::clone(&list)));
        Ok(Some(list))
    }

    /// Checks names and passwords; an unknown name costs as much as a wrong password.
    pub(super) fn passwords(self) -> Result<Passwords, Failure> {
        if self.hashes.is_empty() {
            return Ok(Arc::new(|_| Box::pin(async { false })));
        }
        let nobody = authority::hash_secret("nobody has this one").map_err(|error| Failure::from_error(&error))?;
        let (hashes, free) = (Arc::new(self.hashes), Arc::new(Semaphore::new(AT_A_TIME)));
        Ok(Arc::new(move |credentials: Credentials| {
            let known = hashes.get(&credentials.name).cloned();
            let (nobody, free) = (nobody.clone(), Arc::clone(&free));
            Box::pin(async move {
                let Ok(turn) = free.try_acquire_owned() else { return false };
                let check = move || {
                    let _turn = turn;
                    let hash = known.as_deref().unwrap_or(&nobody);
                    let fits = PasswordHash::new(hash)
                        .is_ok_and(|hash| Argon2::default().verify_password(&credentials.password, &hash).is_ok());
                    fits && known.is_some()
                };
                tokio::task::spawn_blocking(check).await.unwrap_or(false)
            })
        }))
    }
}

/// The trust list of users beside the one of applications.
struct UserTrust {
    users: Vec<Arc<Certificate>>,
    store: PkiStore,
}

impl UserTrust {
    fn list(&self) -> Result<TrustList, PkiError> {
        let mut list = self.store.load()?;
        let trusted = std::mem::replace(&mut list.trusted, self.users.clone());
        list.issuers.extend(trusted);
        Ok(list)
    }

    /// Follows the server's lists; it ends with the server, which holds the other end.
    async fn follow(self, server: SharedTrust, list: SharedTrust) {
        let mut seen = server.load_full();
        while Arc::strong_count(&list) > 1 {
            tokio::time::sleep(LOOK).await;
            let now = server.load_full();
            if !Arc::ptr_eq(&seen, &now)
                && let Ok(new) = self.list()
            {
                list.store(Arc::new(new));
                seen = now;
            }
        }
    }
}

fn certificate(path: &Path) -> Result<Certificate, Failure> {
    gates::pki::certificate(path).map_err(|error| Failure::from_error(&error).into_bad_input())
}

fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a String>) -> Failure {
    let failure = Failure::bad_input(format!("the plant file has no {what} `{name}`"));
    match nearest(name, known.map(String::as_str)) {
        Some(near) => failure.help(format!("did you mean `{near}`?")),
        None => failure,
    }
}

/// The rights that words name, on the scopes that words name.
pub(super) fn granted(
    whose: &str,
    words: &[String],
    scopes: &[String],
    server: &pdp::plant::Server,
) -> Result<(Rights, LocalScopes), Failure> {
    let mut rights = Rights::NONE;
    for word in words {
        let names = || Rights::ALL.iter().map(|(_, name)| name);
        let failure = || {
            let failure = Failure::bad_input(format!("`{word}` of `{whose}` is no right"));
            match nearest(word, names()) {
                Some(near) => failure.help(format!("did you mean `{near}`?")),
                None => failure,
            }
        };
        rights |= Rights::from_name(word).ok_or_else(failure)?;
    }
    for scope in scopes {
        let known = || server.numbered().map(|(_, scope)| &scope.name);
        if !known().any(|name| name == scope) {
            return Err(unknown("scope of this server", scope, known()));
        }
    }
    Ok((rights, if scopes.is_empty() { LocalScopes::All } else { LocalScopes::Named(scopes.to_vec()) }))
}
