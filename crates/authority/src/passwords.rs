//! Passwords and client secrets: argon2id, on a bounded number of threads, with the same work for names that nobody
//! has.

use std::sync::Arc;

use access_model::{Mono, Reason, Refusal};
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Argon2, Params};
use token::{Entropy, SystemEntropy};
use zeroize::Zeroizing;

use crate::turns::{Asker, Turns};

/// Longer secrets are refused before any hashing.
pub const MAX_SECRET: usize = 1_024;

/// Checks secrets, each when it is its asker's turn.
pub struct Passwords {
    turns: Turns,
    /// The hash of a secret that nobody knows.
    dummy: Arc<str>,
    /// How many secrets were hashed.
    #[cfg(test)]
    hashed: Arc<std::sync::atomic::AtomicUsize>,
}

/// The argon2id hash of a secret, as the store keeps it (PHC string). Takes tens of milliseconds and 19 MiB.
///
/// # Errors
/// A secret that is empty or longer than [`MAX_SECRET`].
pub fn hash_secret(secret: &str) -> Result<String, Refusal> {
    let unusable = || Refusal::new(Reason::UserCredentials, "a secret has 1 to 1024 bytes");
    if secret.is_empty() || secret.len() > MAX_SECRET {
        return Err(unusable());
    }
    let mut bytes = [0_u8; 16];
    SystemEntropy::new().fill(&mut bytes);
    let salt = SaltString::encode_b64(&bytes).map_err(|_| unusable())?;
    argon2().hash_password(secret.as_bytes(), &salt).map(|hash| hash.to_string()).map_err(|_| unusable())
}

/// OWASP's smallest set for argon2id: 19 MiB, two passes, one lane.
fn argon2() -> Argon2<'static> {
    let params = Params::new(19_456, 2, 1, None).unwrap_or_default();
    Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params)
}

impl Passwords {
    /// Checks them in these turns.
    ///
    /// # Errors
    /// The hash that stands for unknown names cannot be made.
    pub fn new(turns: Turns) -> Result<Self, Refusal> {
        let dummy = hash_secret("nobody has this one")?;
        Ok(Self {
            turns,
            dummy: dummy.into(),
            #[cfg(test)]
            hashed: Arc::default(),
        })
    }

    /// The hash of a new secret, when it is the asker's turn.
    pub(crate) async fn hash(&self, secret: Zeroizing<String>, asker: &Asker, now: Mono) -> Result<String, Refusal> {
        let turn = self.turns.take(asker, now).await?;
        let work = move || {
            let hash = hash_secret(&secret);
            turn.succeeded(now);
            hash
        };
        let busy = |_| Refusal::new(Reason::TooBusy, "a secret was not hashed to the end");
        tokio::task::spawn_blocking(work).await.map_err(busy)?
    }

    /// Whether the secret fits the hash (PHC string), when it is the asker's turn. No hash: the same work, and no.
    ///
    /// # Errors
    /// [`Reason::TooBusy`]: too many are waiting, the turn did not come in time, or there were too many failures.
    pub async fn check(&self, secret: &[u8], hash: Option<String>, asker: &Asker, now: Mono) -> Result<bool, Refusal> {
        if secret.len() > MAX_SECRET {
            return Ok(false);
        }
        let turn = self.turns.take(asker, now).await?;
        let (secret, dummy) = (Zeroizing::new(secret.to_vec()), Arc::clone(&self.dummy));
        #[cfg(test)]
        let hashed = Arc::clone(&self.hashed);
        let work = move || {
            let hash = hash.as_deref().and_then(|hash| PasswordHash::new(hash).ok());
            let known = hash.is_some();
            // Nobody's hash, and one that is none, cost as much as somebody's.
            let Some(hash) = hash.or_else(|| PasswordHash::new(&dummy).ok()) else { return false };
            #[cfg(test)]
            hashed.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let fits = argon2().verify_password(&secret, &hash).is_ok();
            if known && fits {
                turn.succeeded(now);
            }
            known && fits
        };
        // The turn goes along: a job whose asker hung up still takes its thread.
        let busy = |_| Refusal::new(Reason::TooBusy, "a password was not checked to the end");
        tokio::task::spawn_blocking(work).await.map_err(busy)
    }

    /// How many secrets were hashed since it was asked last.
    #[cfg(test)]
    pub(crate) fn hashed(&self) -> usize {
        self.hashed.swap(0, std::sync::atomic::Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn asker() -> Asker {
        Asker::new("10.0.0.1:1", "olga")
    }

    #[tokio::test]
    async fn only_the_right_secret_of_a_known_name_fits() {
        let passwords = Passwords::new(Turns::new(1, Duration::from_secs(5), &crate::Paces::default())).unwrap();
        let hash = hash_secret("open sesame").unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
        for (rule, secret, hash, want) in [
            ("right", "open sesame", Some(hash.clone()), true),
            ("wrong", "open sesam", Some(hash.clone()), false),
            ("unknown name", "open sesame", None, false),
            ("the dummy's own secret", "nobody has this one", None, false),
            ("no hash at all", "x", Some("plain".into()), false),
            ("too long", &"x".repeat(MAX_SECRET + 1), Some(hash.clone()), false),
        ] {
            assert_eq!(passwords.check(secret.as_bytes(), hash, &asker(), Mono::ZERO).await, Ok(want), "{rule}");
            assert_eq!(passwords.hashed(), usize::from(secret.len() <= MAX_SECRET), "{rule}: the same work for all");
        }
    }

    #[tokio::test]
    async fn more_than_the_bound_are_turned_away() {
        let turns = Turns::new(1, Duration::from_millis(50), &crate::Paces::default());
        let passwords = Passwords::new(turns.clone()).unwrap();
        let held = turns.take(&asker(), Mono::ZERO).await.unwrap();
        let refused = passwords.check(b"x", None, &asker(), Mono::ZERO).await.unwrap_err();
        assert_eq!(refused.reason, Reason::TooBusy);
        drop(held);
        assert_eq!(passwords.check(b"x", None, &asker(), Mono::ZERO).await, Ok(false));
    }

    #[test]
    fn unusable_secrets_are_refused() {
        assert!(hash_secret("").is_err());
        assert!(hash_secret(&"x".repeat(MAX_SECRET + 1)).is_err());
    }
}
