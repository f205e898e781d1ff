//! What every OPC UA side that clients see is configured with: of a resource server, of a guard.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::limits::Limits;
use crate::words::{EndpointUrl, HostName, Number, Period};

/// Keys of a section beside those that every endpoint side has. The keys stand in one table of the file, so that each
/// fault has its place; in the program the endpoint side is one [`Endpoint`] wherever it comes from.
macro_rules! with_endpoint {
    ($(#[$meta:meta])* pub struct $section:ident { $($(#[$about:meta])* pub $key:ident: $kind:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
        #[serde(deny_unknown_fields)]
        pub struct $section {
            $($(#[$about])* pub $key: $kind,)*
            /// Where it listens.
            pub listen: std::net::SocketAddr,
            /// The URL that clients are told which dialled no host of its own.
            #[serde(default)]
            pub url: Option<$crate::EndpointUrl>,
            /// Host names and addresses under which clients reach it, beside those in its certificate.
            #[serde(default)]
            pub names: Vec<$crate::HostName>,
            /// Clients that it connects to, because they cannot reach it.
            #[serde(default)]
            pub reverse_connect: Vec<$crate::EndpointUrl>,
            /// Whether other servers may register here to be found.
            #[serde(default)]
            pub discovery_server: bool,
            /// Its folder of certificates; `pki/NAME` without the key.
            #[serde(default)]
            pub pki: std::path::PathBuf,
            /// What becomes of a certificate whose issuer has no revocation list, or an outdated one.
            #[serde(default)]
            pub missing_crl: $crate::MissingCrl,
            /// Bits of the shortest RSA key that is accepted.
            #[serde(default = "crate::endpoint::shortest_key")]
            pub min_key_bits: $crate::KeyBits,
            /// Bits of the longest RSA key that is accepted.
            #[serde(default = "crate::endpoint::longest_key")]
            pub max_key_bits: $crate::KeyBits,
            /// The message security modes of its endpoints.
            #[serde(default = "crate::endpoint::default_modes")]
            pub modes: Vec<$crate::Mode>,
            /// The security policies of its endpoints.
            #[serde(default = "crate::endpoint::default_policies")]
            pub policies: Vec<$crate::Policy>,
            /// Whether sessions without any security are taken as well.
            #[serde(default)]
            pub danger_without_security: bool,
            /// How clients may prove who they are.
            #[serde(default = "crate::endpoint::default_identities")]
            pub identities: Vec<$crate::Identity>,
            /// How a token may be protected inside the channel.
            #[serde(default = "crate::endpoint::default_token_secrets")]
            pub token_secrets: Vec<$crate::TokenSecret>,
            /// How long a session outlives its token.
            #[serde(default = "crate::endpoint::default_expiry_grace")]
            pub expiry_grace: $crate::ExpiryGrace,
            /// Bounds.
            #[serde(default)]
            pub limits: $crate::Limits,
        }

        impl $section {
            /// The endpoint side alone.
            #[must_use]
            pub fn endpoint(&self) -> $crate::Endpoint {
                $crate::Endpoint {
                    listen: self.listen,
                    url: self.url.clone(),
                    names: self.names.clone(),
                    reverse_connect: self.reverse_connect.clone(),
                    discovery_server: self.discovery_server,
                    pki: self.pki.clone(),
                    missing_crl: self.missing_crl,
                    min_key_bits: self.min_key_bits,
                    max_key_bits: self.max_key_bits,
                    modes: self.modes.clone(),
                    policies: self.policies.clone(),
                    danger_without_security: self.danger_without_security,
                    identities: self.identities.clone(),
                    token_secrets: self.token_secrets.clone(),
                    expiry_grace: self.expiry_grace,
                    limits: self.limits.clone(),
                }
            }
        }
    };
}

pub(crate) use with_endpoint;

/// Bits of an RSA key.
pub type KeyBits = Number<2_048, 4_096>;
/// How long a session outlives its token.
pub type ExpiryGrace = Period<0, 86_400_000>;

/// Most clients that one side connects to.
pub const MAX_REVERSE_CONNECT: usize = 16;

/// The side of a server or guard that clients see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The URL that clients are told which dialled no host of its own.
    pub url: Option<EndpointUrl>,
    /// Host names and addresses under which clients reach it, beside those in its certificate.
    pub names: Vec<HostName>,
    /// Clients that it connects to.
    pub reverse_connect: Vec<EndpointUrl>,
    /// Whether other servers may register here.
    pub discovery_server: bool,
    /// Its folder of certificates.
    pub pki: PathBuf,
    /// What becomes of a certificate whose issuer has no revocation list, or an outdated one.
    pub missing_crl: MissingCrl,
    /// Bits of the shortest RSA key that is accepted.
    pub min_key_bits: KeyBits,
    /// Bits of the longest RSA key that is accepted.
    pub max_key_bits: KeyBits,
    /// The message security modes of its endpoints.
    pub modes: Vec<Mode>,
    /// The security policies of its endpoints.
    pub policies: Vec<Policy>,
    /// Whether sessions without any security are taken as well.
    pub danger_without_security: bool,
    /// How clients may prove who they are.
    pub identities: Vec<Identity>,
    /// How a token may be protected inside the channel.
    pub token_secrets: Vec<TokenSecret>,
    /// How long a session outlives its token.
    pub expiry_grace: ExpiryGrace,
    /// Bounds.
    pub limits: Limits,
}

/// How messages are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Signed, readable by whoever listens.
    Sign,
    /// Signed and encrypted.
    SignAndEncrypt,
}

/// A security policy, by its name in the standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Policy {
    /// RSA with PSS and OAEP-SHA256, AES-256.
    #[serde(rename = "Aes256_Sha256_RsaPss")]
    Aes256Sha256RsaPss,
    /// RSA, AES-128.
    #[serde(rename = "Aes128_Sha256_RsaOaep")]
    Aes128Sha256RsaOaep,
    /// RSA, AES-256.
    #[serde(rename = "Basic256Sha256")]
    Basic256Sha256,
    /// P-256, AES-128.
    #[serde(rename = "ECC_nistP256")]
    EccNistP256,
    /// Ed25519 and X25519, ChaCha20-Poly1305.
    #[serde(rename = "ECC_curve25519")]
    EccCurve25519,
}

impl Policy {
    /// Those with RSA keys, the strongest first.
    pub const RSA: [Self; 3] = [Self::Aes256Sha256RsaPss, Self::Aes128Sha256RsaOaep, Self::Basic256Sha256];

    /// The name in the standard: what follows `#` in the policy's URI.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes256Sha256RsaPss => "Aes256_Sha256_RsaPss",
            Self::Aes128Sha256RsaOaep => "Aes128_Sha256_RsaOaep",
            Self::Basic256Sha256 => "Basic256Sha256",
            Self::EccNistP256 => "ECC_nistP256",
            Self::EccCurve25519 => "ECC_curve25519",
        }
    }
}

/// A way to prove who one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Identity {
    /// An access token.
    Token,
    /// Name and password.
    UserName,
    /// A person's certificate.
    X509,
    /// None.
    Anonymous,
}

/// How a token is protected inside the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenSecret {
    /// By the channel alone, which then has to encrypt.
    Clear,
    /// As EncryptedSecret.
    EncryptedSecret,
    /// In the legacy form, in blocks of RSA.
    LegacyRsa,
}

/// What becomes of a certificate whose issuer has no revocation list, or an outdated one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MissingCrl {
    /// It is refused.
    #[default]
    Refuse,
    /// It counts as not revoked.
    Accept,
}

pub(crate) const fn shortest_key() -> KeyBits {
    Number::near(2_048)
}

pub(crate) const fn longest_key() -> KeyBits {
    Number::near(4_096)
}

pub(crate) fn default_modes() -> Vec<Mode> {
    vec![Mode::SignAndEncrypt]
}

pub(crate) fn default_policies() -> Vec<Policy> {
    Policy::RSA.to_vec()
}

pub(crate) fn default_identities() -> Vec<Identity> {
    vec![Identity::Token, Identity::UserName, Identity::X509]
}

pub(crate) fn default_token_secrets() -> Vec<TokenSecret> {
    vec![TokenSecret::Clear, TokenSecret::EncryptedSecret, TokenSecret::LegacyRsa]
}

pub(crate) const fn default_expiry_grace() -> ExpiryGrace {
    Period::near(60_000)
}
