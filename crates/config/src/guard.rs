//! `[[guard]]`: a guard in front of a server that the plant already has.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::endpoint::with_endpoint;
use crate::server::{Contact, FailMode, ForeignIssuer};
use crate::words::{ApplicationUri, EndpointUrl, Period};

with_endpoint! {
    /// A guard: clients meet it instead of the server behind it.
    pub struct Guard {
        /// Short name in the plant file.
        pub name: String,
        /// The server behind it.
        pub upstream: Upstream,
        /// Issuer of its authority; without the key that of `[authority]`, or of the first `[[server]]`.
        #[serde(default)]
        pub authority: Option<String>,
        /// The authority's OPC UA address, where clients get their tokens; found as `authority` is.
        #[serde(default)]
        pub authority_opcua: Option<String>,
        /// Whether denials hold, until the authority orders otherwise.
        #[serde(default)]
        pub mode: GuardMode,
        /// What it does when it has lost its authority; besides what its zones say, or without the key what they say alone,
        /// or `closed` where there is none.
        #[serde(default)]
        pub fail_mode: Option<FailMode>,
        /// How long `last_known_good` lasts.
        #[serde(default = "crate::server::default_grace")]
        pub last_known_good_for: Contact,
        /// It has lost its authority when it heard nothing for this long.
        #[serde(default = "crate::server::default_contact")]
        pub contact_timeout: Contact,
        /// Whether passwords are taken over channels without any security.
        #[serde(default)]
        pub danger_passwords_without_security: bool,
        /// Whether sessions share sessions at the server, one for each user there: small controllers allow few.
        #[serde(default)]
        pub pool: Pool,
        /// The guard that stands in for it, if there is one.
        #[serde(default)]
        pub standby: Option<Standby>,
        /// Issuers beside the authority whose tokens are taken.
        #[serde(default)]
        pub issuer: Vec<ForeignIssuer>,
    }
}

/// Another guard with the same certificate and server; one of the two serves at a time.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Standby {
    /// Where the other asks this one.
    pub listen: SocketAddr,
    /// Where this one asks the other.
    pub peer: SocketAddr,
    /// How long a turn lasts that is not renewed.
    #[serde(default = "default_turn")]
    pub turn: Turn,
    /// How long a guard that does not reach its server keeps its turn while the other says that it does.
    #[serde(default = "default_yield")]
    pub yield_after: Yield,
}

/// How long a turn lasts.
pub type Turn = Period<500, 6_000>;

/// How long a guard waits for its server while the other reaches it.
pub type Yield = Period<1_000, 3_600_000>;

fn default_yield() -> Yield {
    Period::near(60_000)
}

fn default_turn() -> Turn {
    Period::near(3_000)
}

/// Whether sessions share sessions at the server behind a guard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pool {
    /// Each has its own.
    #[default]
    Never,
    /// Those share for which the server has no room.
    #[serde(alias = "when-full")]
    WhenFull,
    /// All share.
    Always,
}

/// What a guard does with denials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardMode {
    /// They hold.
    #[default]
    Enforce,
    /// They are recorded, and everything passes: to learn what a plant does before it is locked.
    Observe,
}

/// The server behind a guard: its URL, or a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Upstream {
    /// Where it is.
    pub url: EndpointUrl,
    /// Where the guard waits for it to call, in place of dialling `url`: which it then has to name.
    pub listen: Option<SocketAddr>,
    /// The ApplicationUri that it has to name when it calls.
    pub server_uri: Option<ApplicationUri>,
    /// The one certificate that it may have; without it, any that the guard's folder trusts.
    pub certificate: Option<PathBuf>,
    /// How messages to it are protected.
    pub security: UpstreamSecurity,
    /// Who the guard is there.
    pub user: Option<UpstreamUser>,
    /// Who it is there for sessions with a role; the first that fits is taken.
    pub role: Vec<UpstreamRole>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    url: EndpointUrl,
    #[serde(default)]
    listen: Option<SocketAddr>,
    #[serde(default)]
    server_uri: Option<ApplicationUri>,
    #[serde(default)]
    certificate: Option<PathBuf>,
    #[serde(default)]
    security: UpstreamSecurity,
    #[serde(default)]
    user: Option<UpstreamUser>,
    #[serde(default)]
    role: Vec<UpstreamRole>,
}

impl<'de> Deserialize<'de> for Upstream {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct UrlOrTable;
        impl<'de> Visitor<'de> for UrlOrTable {
            type Value = Upstream;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the URL of a server, or a table with `url`")
            }

            fn visit_str<E: Error>(self, url: &str) -> Result<Upstream, E> {
                let url = EndpointUrl::deserialize(serde::de::value::StrDeserializer::new(url))?;
                Ok(Upstream {
                    url,
                    listen: None,
                    server_uri: None,
                    certificate: None,
                    security: UpstreamSecurity::default(),
                    user: None,
                    role: Vec::new(),
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Upstream, A::Error> {
                let Table { url, listen, server_uri, certificate, security, user, role } =
                    Table::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Upstream { url, listen, server_uri, certificate, security, user, role })
            }
        }
        deserializer.deserialize_any(UrlOrTable)
    }
}

/// How messages between a guard and its server are protected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamSecurity {
    /// Signed and encrypted.
    #[default]
    SignAndEncrypt,
    /// Signed, readable by whoever listens.
    Sign,
    /// Not at all: the server is old, and whoever is between it and the guard is it.
    None,
}

/// Who a guard is at its server: somebody with a password, or with a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct UpstreamUser {
    /// The name.
    #[serde(default)]
    pub name: Option<String>,
    /// A file with the password, which only its owner may read.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// The certificate.
    #[serde(default)]
    pub certificate: Option<PathBuf>,
    /// Its key.
    #[serde(default)]
    pub key: Option<PathBuf>,
}

impl UpstreamUser {
    /// Whether it is one of the two, and whole.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        matches!(
            (&self.name, &self.password_file, &self.certificate, &self.key),
            (Some(_), Some(_), None, None) | (None, None, Some(_), Some(_))
        )
    }
}

/// Who a guard is at its server for sessions with a role.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct UpstreamRole {
    /// The role, of the plant file.
    pub role: String,
    /// Who.
    pub user: UpstreamUser,
}

impl Upstream {
    /// Every user of it.
    pub fn users(&self) -> impl Iterator<Item = &UpstreamUser> {
        self.user.iter().chain(self.role.iter().map(|role| &role.user))
    }
}

impl Guard {
    /// Makes each path in it relative to the folder of its file.
    pub(crate) fn relative_to(&mut self, folder: &Path) {
        let users = self.upstream.user.iter_mut().chain(self.upstream.role.iter_mut().map(|role| &mut role.user));
        let of_users = users.flat_map(|user| [&mut user.password_file, &mut user.certificate, &mut user.key]);
        let named = of_users.chain([&mut self.upstream.certificate]).filter_map(Option::as_mut);
        let issuers = self.issuer.iter_mut().flat_map(|issuer| issuer.jwks.iter_mut().chain(issuer.ca.iter_mut()));
        for path in named.chain([&mut self.pki]).chain(issuers) {
            *path = folder.join(&path);
        }
    }
}
