//! Passwords and client secrets: argon2id, on a bounded number of threads, with the same work for names that nobody
//! has.

use std::sync::Arc;

use access_model::{Reason, Refusal};
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Argon2, Params};
use token::{Entropy, SystemEntropy};
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

/// Longer secrets are refused before any hashing.
pub const MAX_SECRET: usize = 1_024;

/// Checks secrets.
pub(crate) struct Passwords {
    free: Arc<Semaphore>,
    /// The hash of a secret that nobody knows.
    dummy: Arc<str>,
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
    pub(crate) fn new(jobs: usize) -> Result<Self, Refusal> {
        let dummy = hash_secret("nobody has this one")?;
        Ok(Self { free: Arc::new(Semaphore::new(jobs.max(1))), dummy: dummy.into() })
    }

    /// Whether the secret fits the hash. No hash: the same work, and no.
    pub(crate) async fn check(&self, secret: &str, hash: Option<String>) -> Result<bool, Refusal> {
        if secret.len() > MAX_SECRET {
            return Ok(false);
        }
        let busy = || Refusal::new(Reason::TooBusy, "too many passwords are being checked");
        let permit = Arc::clone(&self.free).try_acquire_owned().map_err(|_| busy())?;
        let (secret, dummy) = (Zeroizing::new(secret.to_owned()), Arc::clone(&self.dummy));
        let work = move || {
            let _permit = permit;
            let known = hash.is_some();
            let fits = verify(&secret, hash.as_deref().unwrap_or(&dummy));
            known && fits
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| busy())
    }
}

fn verify(secret: &str, hash: &str) -> bool {
    PasswordHash::new(hash).is_ok_and(|hash| argon2().verify_password(secret.as_bytes(), &hash).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_right_secret_of_a_known_name_fits() {
        let passwords = Passwords::new(1).unwrap();
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
            assert_eq!(passwords.check(secret, hash).await, Ok(want), "{rule}");
        }
    }

    #[tokio::test]
    async fn more_than_the_bound_are_turned_away() {
        let passwords = Passwords::new(1).unwrap();
        let held = Arc::clone(&passwords.free).try_acquire_owned().unwrap();
        assert_eq!(passwords.check("x", None).await.unwrap_err().reason, Reason::TooBusy);
        drop(held);
        assert_eq!(passwords.check("x", None).await, Ok(false));
    }

    #[test]
    fn unusable_secrets_are_refused() {
        assert!(hash_secret("").is_err());
        assert!(hash_secret(&"x".repeat(MAX_SECRET + 1)).is_err());
    }
}
