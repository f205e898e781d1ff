//! `[[server]]`: a resource server.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::claim::ClaimName;
use crate::endpoint::with_endpoint;
use crate::words::Period;

/// A time within which contact is lost, or with which something goes on without it.
pub type Contact = Period<100, 31_622_400_000>;

with_endpoint! {
    /// A resource server with simulated equipment.
    pub struct Server {
        /// Short name in the plant file.
        pub name: String,
        /// Which equipment is simulated.
        pub simulate: Simulated,
        /// NodeSet2 files whose nodes it has besides, each behind those it builds on.
        #[serde(default)]
        pub node_sets: Vec<PathBuf>,
        /// Issuer of its authority: its HTTPS base address.
        pub authority: String,
        /// The authority's OPC UA address, where clients get their tokens.
        pub authority_opcua: String,
        /// What it does when it has lost its authority; besides what its zones say, or without the key what they say alone,
        /// or `closed` where there is none.
        #[serde(default)]
        pub fail_mode: Option<FailMode>,
        /// How long `last_known_good` lasts.
        #[serde(default = "default_grace")]
        pub last_known_good_for: Contact,
        /// It has lost its authority when it heard nothing for this long.
        #[serde(default = "default_contact")]
        pub contact_timeout: Contact,
        /// Persons of the plant file who may log in without a token.
        #[serde(default)]
        pub user: Vec<LocalUser>,
        /// What the roles of these persons may do here, whatever the authority says.
        #[serde(default)]
        pub local: Vec<LocalRights>,
        /// What may be done by whoever does not say who it is.
        #[serde(default)]
        pub anonymous: Vec<AnonymousRights>,
        /// Issuers beside the authority whose tokens are taken.
        #[serde(default)]
        pub issuer: Vec<ForeignIssuer>,
    }
}

/// Somebody who may log in at a server without a token.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LocalUser {
    /// A person of the plant file, whose roles they have.
    pub name: String,
    /// Hash of the password (argon2, PHC string).
    #[serde(default)]
    pub password: Option<String>,
    /// The person's certificate.
    #[serde(default)]
    pub certificate: Option<PathBuf>,
}

/// Rights of a role at one server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LocalRights {
    /// The role.
    pub role: String,
    /// The rights, in the words of policies: `browse`, `read`, `write`, `call` ...
    pub rights: Vec<String>,
    /// The scopes; all of the server when there are none.
    #[serde(default)]
    pub scopes: Vec<String>,
}

/// Rights of sessions without identity at one server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AnonymousRights {
    /// The rights, in the words of policies.
    pub rights: Vec<String>,
    /// The scopes; all of the server when there are none.
    #[serde(default)]
    pub scopes: Vec<String>,
}

/// An issuer that is not the authority, such as Keycloak or Entra: it says who somebody is, the server what they may do.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ForeignIssuer {
    /// `iss` of its tokens, letter by letter.
    pub name: String,
    /// A file with its keys (JWKS); followed when it changes.
    #[serde(default)]
    pub jwks: Option<PathBuf>,
    /// Where it publishes them.
    #[serde(default)]
    pub jwks_url: Option<String>,
    /// Certificates of whoever may answer there, PEM or DER; the server's trusted ones when there are none.
    #[serde(default)]
    pub ca: Vec<PathBuf>,
    /// `aud` of its tokens for this server; the ApplicationUri without the key.
    #[serde(default)]
    pub audience: Option<String>,
    /// Whether its tokens must name the client's certificate (`cnf`).
    #[serde(default = "yes")]
    pub confirmation: bool,
    /// The claim of its tokens with the roles: names from the outermost in, with dots between them.
    #[serde(default)]
    pub roles_claim: ClaimName,
    /// What its roles and groups may do here.
    #[serde(default)]
    pub rights: Vec<TokenRights>,
}

/// What a role or group of a foreign issuer may do.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRights {
    /// One of the token's `roles`.
    #[serde(default)]
    pub role: Option<String>,
    /// One of the token's `groups`.
    #[serde(default)]
    pub group: Option<String>,
    /// The rights, in the words of policies.
    pub rights: Vec<String>,
    /// The scopes; all of the server when there are none.
    #[serde(default)]
    pub scopes: Vec<String>,
}

const fn yes() -> bool {
    true
}

/// The equipment that is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Simulated {
    /// A mixer.
    Mixer,
    /// A reactor.
    Reactor,
    /// A filler.
    Filler,
}

/// What a server does when it has lost its authority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailMode {
    /// Nothing is allowed.
    #[default]
    Closed,
    /// What a grant allows to see stays allowed.
    ReadOnly,
    /// Grants stay as they were, for a while.
    LastKnownGood,
}

pub(crate) fn default_grace() -> Contact {
    Period::near(900_000)
}

pub(crate) fn default_contact() -> Contact {
    Period::near(3_000)
}
