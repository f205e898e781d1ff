//! Randomness as an argument.

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// A source of random bytes. Cores take it as an argument, so that a test decides what is drawn.
pub trait Entropy {
    /// Overwrites all of `out` with random bytes.
    fn fill(&mut self, out: &mut [u8]);
}

/// The operating system's generator, for shells.
#[derive(Clone, Debug, Default)]
pub struct SystemEntropy(SystemRandom);

impl SystemEntropy {
    /// The generator.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Entropy for SystemEntropy {
    /// A generator that fails ends the process: nonces and ids that can be guessed are worse than no service.
    fn fill(&mut self, out: &mut [u8]) {
        if self.0.fill(out).is_err() {
            std::process::abort();
        }
    }
}

/// A fresh token id (`jti`): 128 random bits as 22 characters of base64url, of which the first is no hyphen: an id is an argument of
/// commands, where a hyphen begins an option. That takes 1/32 of one bit.
pub fn new_id(entropy: &mut dyn Entropy) -> String {
    let mut bytes = [0; 16];
    entropy.fill(&mut bytes);
    let mut id = URL_SAFE_NO_PAD.encode(bytes);
    if id.starts_with('-') {
        bytes[0] ^= 0x80;
        id = URL_SAFE_NO_PAD.encode(bytes);
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_short_and_differ() {
        let mut entropy = SystemEntropy::new();
        let (one, other) = (new_id(&mut entropy), new_id(&mut entropy));
        assert_eq!(one.len(), 22);
        assert_ne!(one, other);
    }

    /// Draws one byte again and again.
    struct Same(u8);

    impl Entropy for Same {
        fn fill(&mut self, out: &mut [u8]) {
            out.fill(self.0);
        }
    }

    #[test]
    fn no_id_looks_like_an_option() {
        for byte in 0..=u8::MAX {
            let id = new_id(&mut Same(byte));
            assert!(!id.starts_with('-'), "{byte}: {id}");
            assert_eq!(id.len(), 22, "{byte}: {id}");
        }
    }
}
