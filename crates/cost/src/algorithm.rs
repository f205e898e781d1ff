//! Names of algorithms, keys and modes, as settings and price lists write them.

use std::fmt;

use serde::{Serialize, Serializer};

/// A key of a signature or of asymmetric encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// RSA with a modulus of so many bits.
    Rsa(u32),
    /// ECDSA on the NIST curve of so many bits.
    Ecdsa(u32),
    /// Ed25519.
    Ed25519,
    /// Ed448.
    Ed448,
    /// A shared key: the code of a message (HMAC) stands where a signature would, as in OPC UA's mode Sign.
    Hmac(u32),
}

impl Key {
    /// Of `rsa-2048`, `ecdsa-p256`, `ed25519`.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        match text {
            "ed25519" => Some(Self::Ed25519),
            "ed448" => Some(Self::Ed448),
            "hmac-sha256" => Some(Self::Hmac(256)),
            "hmac-sha384" => Some(Self::Hmac(384)),
            "ecdsa-p256" => Some(Self::Ecdsa(256)),
            "ecdsa-p384" => Some(Self::Ecdsa(384)),
            "ecdsa-p521" => Some(Self::Ecdsa(521)),
            _ => {
                let bits = text.strip_prefix("rsa-")?.parse().ok()?;
                (512..=16384).contains(&bits).then_some(Self::Rsa(bits))
            }
        }
    }

    /// Symmetric strength in bits (NIST SP 800-57 part 1, table 2; a modulus between two rows counts as the lower).
    #[must_use]
    pub fn strength(self) -> u32 {
        match self {
            Self::Rsa(bits) => match bits {
                0..1024 => 0,
                1024..2048 => 80,
                2048..3072 => 112,
                3072..7680 => 128,
                7680..15360 => 192,
                _ => 256,
            },
            Self::Ecdsa(bits) => bits / 2,
            Self::Ed25519 => 128,
            Self::Ed448 => 224,
            Self::Hmac(bits) => bits / 2,
        }
    }

    /// The bits that its name says.
    #[must_use]
    pub fn bits(self) -> u32 {
        match self {
            Self::Rsa(bits) | Self::Ecdsa(bits) | Self::Hmac(bits) => bits,
            Self::Ed25519 => 256,
            Self::Ed448 => 448,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rsa(bits) => write!(f, "rsa-{bits}"),
            Self::Ecdsa(bits) => write!(f, "ecdsa-p{bits}"),
            Self::Ed25519 => f.write_str("ed25519"),
            Self::Ed448 => f.write_str("ed448"),
            Self::Hmac(bits) => write!(f, "hmac-sha{bits}"),
        }
    }
}

/// What signs: a key, and with RSA its padding, for each is a step of its own in calibrations and price lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheme {
    /// The key.
    pub key: Key,
    /// With RSA: PSS (RFC 8017 section 8.1), not PKCS #1 v1.5 (section 8.2).
    pub pss: bool,
}

impl From<Key> for Scheme {
    fn from(key: Key) -> Self {
        Self { key, pss: false }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let padding = if self.pss && matches!(self.key, Key::Rsa(_)) { "-pss" } else { "" };
        write!(f, "{}{padding}", self.key)
    }
}

/// What encrypts a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cipher {
    /// By a shared key: AES of so many bits in a mode, or ChaCha20.
    Symmetric {
        /// Its name as in price lists: `aes-256-cbc`, `chacha20-poly1305`.
        name: &'static str,
        /// Bits of the key.
        bits: u32,
        /// Whether the mode proves that nothing was changed.
        authenticated: bool,
    },
    /// By the receiver's public key, block by block.
    Asymmetric {
        /// The receiver's key; RSA.
        key: Key,
        /// Bytes of each block that padding takes: 66 for OAEP with SHA-256, 42 with SHA-1, 11 for PKCS #1 v1.5.
        padding: u32,
    },
}

/// The symmetric ciphers: name, bits, whether it is authenticated.
pub(crate) const SYMMETRIC: [(&str, u32, bool); 9] = [
    ("aes-128-cbc", 128, false),
    ("aes-192-cbc", 192, false),
    ("aes-256-cbc", 256, false),
    ("aes-128-ctr", 128, false),
    ("aes-256-ctr", 256, false),
    ("aes-128-gcm", 128, true),
    ("aes-192-gcm", 192, true),
    ("aes-256-gcm", 256, true),
    ("chacha20-poly1305", 256, true),
];

impl Cipher {
    /// Of `aes-256-cbc` and its like, or `rsa-2048-oaep-sha256`, `rsa-2048-oaep-sha1`, `rsa-2048-pkcs1`.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        if let Some((name, bits, authenticated)) = SYMMETRIC.iter().find(|(name, ..)| *name == text) {
            return Some(Self::Symmetric { name, bits: *bits, authenticated: *authenticated });
        }
        let paddings = [("-oaep-sha256", 66), ("-oaep-sha1", 42), ("-pkcs1", 11)];
        let (key, padding) = paddings.iter().find_map(|(end, bytes)| Some((text.strip_suffix(end)?, *bytes)))?;
        let key = Key::read(key)?;
        (matches!(key, Key::Rsa(bits) if bits / 8 > padding)).then_some(Self::Asymmetric { key, padding })
    }

    /// Blocks that a message of `bytes` is encrypted in; a shared key does it in one go.
    pub(crate) fn blocks(&self, bytes: u64) -> u64 {
        match self {
            Self::Symmetric { .. } => 1,
            Self::Asymmetric { .. } => bytes.div_ceil(self.room()).max(1),
        }
    }

    /// Bytes of a message that one block of RSA holds; a shared key has no blocks.
    pub(crate) fn room(&self) -> u64 {
        match self {
            Self::Symmetric { .. } => u64::MAX,
            Self::Asymmetric { key, padding } => u64::from((key.bits() / 8).saturating_sub(*padding)).max(1),
        }
    }

    /// Bytes that such a message has when it is encrypted: with its vector (NIST SP 800-38A), filled up to whole blocks (RFC 5652 section
    /// 6.3), or with nonce and tag (RFC 5116 section 5, RFC 8439 section 2.8); of RSA so many blocks.
    pub(crate) fn sealed(&self, bytes: u64) -> u64 {
        match self {
            Self::Symmetric { authenticated: true, .. } => bytes.saturating_add(12 + 16),
            Self::Symmetric { name, .. } if name.ends_with("cbc") => (bytes / 16).saturating_add(2).saturating_mul(16),
            Self::Symmetric { .. } => bytes.saturating_add(16),
            Self::Asymmetric { key, .. } => self.blocks(bytes).saturating_mul(u64::from(key.bits() / 8)),
        }
    }

    /// What it is called in calibrations and price lists, behind `encrypt` and `decrypt`: there `rsa-2048` is OAEP with SHA-1.
    pub(crate) fn step(&self) -> String {
        match self {
            Self::Asymmetric { key, padding: 42 } => key.to_string(),
            other => other.to_string(),
        }
    }

    /// Symmetric strength in bits.
    #[must_use]
    pub fn strength(&self) -> u32 {
        match self {
            Self::Symmetric { bits, .. } => *bits,
            Self::Asymmetric { key, .. } => key.strength(),
        }
    }
}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Symmetric { name, .. } => f.write_str(name),
            Self::Asymmetric { key, padding } => {
                let padding = match padding {
                    66 => "oaep-sha256",
                    42 => "oaep-sha1",
                    _ => "pkcs1",
                };
                write!(f, "{key}-{padding}")
            }
        }
    }
}

/// A hash function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hash {
    /// Only for old data: broken against collisions.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl Hash {
    /// Of `sha-256` and its like.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        match text {
            "sha-1" => Some(Self::Sha1),
            "sha-256" => Some(Self::Sha256),
            "sha-384" => Some(Self::Sha384),
            "sha-512" => Some(Self::Sha512),
            _ => None,
        }
    }

    /// Bytes of a digest.
    #[must_use]
    pub fn bytes(self) -> u32 {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sha1 => "sha-1",
            Self::Sha256 => "sha-256",
            Self::Sha384 => "sha-384",
            Self::Sha512 => "sha-512",
        })
    }
}

macro_rules! by_name {
    ($($type:ty),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )*};
}
by_name!(Key, Cipher, Hash);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for name in ["rsa-1024", "rsa-4096", "ecdsa-p384", "ed25519", "ed448", "hmac-sha256"] {
            assert_eq!(Key::read(name).unwrap().to_string(), name);
        }
        for name in ["aes-256-cbc", "chacha20-poly1305", "rsa-2048-oaep-sha256", "rsa-3072-pkcs1"] {
            assert_eq!(Cipher::read(name).unwrap().to_string(), name);
        }
        for name in ["sha-1", "sha-256", "sha-384", "sha-512"] {
            assert_eq!(Hash::read(name).unwrap().to_string(), name);
        }
        for name in ["rsa-12", "rsa-", "ecdsa-p255", "des"] {
            assert_eq!((Key::read(name), Cipher::read(name), Hash::read(name)), (None, None, None), "{name}");
        }
    }

    #[test]
    fn what_is_encrypted_is_longer() {
        for (name, bytes, sealed) in [
            ("aes-256-cbc", 15, 16 + 16),
            ("aes-256-cbc", 16, 16 + 32),
            ("aes-128-ctr", 100, 116),
            ("aes-256-gcm", 100, 128),
            ("chacha20-poly1305", 0, 28),
            ("rsa-2048-oaep-sha256", 190, 256),
            ("rsa-2048-oaep-sha256", 191, 512),
            ("rsa-3072-pkcs1", 0, 384),
        ] {
            assert_eq!(Cipher::read(name).unwrap().sealed(bytes), sealed, "{name} {bytes}");
        }
    }

    #[test]
    fn each_padding_of_rsa_is_a_step() {
        for (cipher, step) in [
            ("aes-128-gcm", "aes-128-gcm"),
            ("rsa-2048-oaep-sha1", "rsa-2048"),
            ("rsa-3072-oaep-sha256", "rsa-3072-oaep-sha256"),
            ("rsa-4096-pkcs1", "rsa-4096-pkcs1"),
        ] {
            assert_eq!(Cipher::read(cipher).unwrap().step(), step);
        }
        for (key, pss, step) in [
            (Key::Rsa(2048), false, "rsa-2048"),
            (Key::Rsa(2048), true, "rsa-2048-pss"),
            (Key::Ed25519, true, "ed25519"),
        ] {
            assert_eq!(Scheme { key, pss }.to_string(), step);
        }
    }

    #[test]
    fn strength_never_falls_with_the_bits() {
        let strengths: Vec<u32> = (512..=16384).step_by(256).map(|bits| Key::Rsa(bits).strength()).collect();
        assert!(strengths.is_sorted());
    }
}
