//! Persons who may log in at one server without a token: their proofs, and rights that depend on no authority.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use access_model::{Refusal, Rights};
use arc_swap::ArcSwap;
use argon2::PasswordHash;
use authority::{Asker, Paces, Turns};
use gates::opcua::wiring::{Credentials, wrong_credentials};
use gates::pki::{PkiError, PkiStore};
use pep::{LocalGrant, LocalScopes, Who};
use plant::station::Passwords;
use ua_proto::pki::{Certificate, SharedTrust, TrustList};

use crate::commands::own::Own;
use crate::config::{LocalUser, Server};
use crate::failure::Failure;
use crate::nearest::nearest;

/// Passwords that are checked at a time; further ones wait.
const AT_A_TIME: usize = 2;
/// Those of one address that may be checked and wait: a terminal server brings a whole shift.
const SHARE: usize = 32;
/// How long one waits. Whoever waits longer is told that the server is too busy, not that the password is wrong.
const PATIENCE: Duration = Duration::from_secs(10);
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
        checks(self.hashes).map_err(|refusal| Failure::from_error(&refusal))
    }
}

/// Checks names and passwords against these hashes.
fn checks(hashes: BTreeMap<String, String>) -> Result<Passwords, Refusal> {
    if hashes.is_empty() {
        return Ok(Arc::new(|_| Box::pin(async { Err(wrong_credentials()) })));
    }
    let turns = Turns::new(AT_A_TIME, PATIENCE, &Paces::default()).with_share(SHARE);
    let (hashes, checks) = (Arc::new(hashes), Arc::new(authority::Passwords::new(turns)?));
    let clock = authority::system_clock();
    Ok(Arc::new(move |credentials: Credentials| {
        let hash = hashes.get(&credentials.name).cloned();
        let (checks, now) = (Arc::clone(&checks), clock().mono);
        Box::pin(async move {
            let asker = Asker::new(&credentials.address, &credentials.name);
            let right = checks.check(&credentials.password, hash, &asker, now).await?;
            right.then_some(()).ok_or_else(wrong_credentials)
        })
    }))
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

#[cfg(test)]
mod tests {
    use access_model::Reason;

    use super::*;

    /// The outcomes of logins that come at once from one address.
    async fn logins(checks: &Passwords, number: usize, name: &str, password: &str) -> Vec<Option<Reason>> {
        let credentials = |port: usize| Credentials {
            name: name.to_owned(),
            password: password.as_bytes().to_vec().into(),
            address: format!("10.0.0.1:{port}"),
        };
        let all: Vec<_> = (0..number).map(|port| tokio::spawn(checks(credentials(port)))).collect();
        let mut outcomes = Vec::new();
        for one in all {
            outcomes.push(one.await.unwrap().err().map(|refusal| refusal.reason));
        }
        outcomes
    }

    #[tokio::test]
    async fn a_shift_that_logs_in_at_once_is_let_in_and_no_right_password_is_called_wrong() {
        let hash = authority::hash_secret("olgas password").unwrap();
        let checks = checks([("olga".to_owned(), hash)].into()).unwrap();
        assert_eq!(logins(&checks, 12, "olga", "olgas password").await, vec![None; 12]);
        let crowd = logins(&checks, 100, "olga", "olgas password").await;
        let busy = crowd.iter().filter(|one| **one == Some(Reason::TooBusy)).count();
        assert!(crowd.iter().all(|one| [None, Some(Reason::TooBusy)].contains(one)), "{crowd:?}");
        assert!(busy > 0, "the queue is bounded: {crowd:?}");
    }

    #[tokio::test]
    async fn guesses_are_slowed_down_and_wrong_ones_are_all_alike() {
        let hash = authority::hash_secret("olgas password").unwrap();
        let checks = checks([("olga".to_owned(), hash)].into()).unwrap();
        for (name, password) in [("olga", "guessed"), ("nobody", "olgas password"), ("nobody", "nobody has this one")] {
            assert_eq!(logins(&checks, 1, name, password).await, [Some(Reason::UserCredentials)], "{name} {password}");
        }
        let guesses = logins(&checks, 32, "sasha", "guessed").await;
        assert!(guesses.contains(&Some(Reason::UserCredentials)), "{guesses:?}");
        assert!(guesses.contains(&Some(Reason::TooBusy)), "not looked at: {guesses:?}");
    }
}
