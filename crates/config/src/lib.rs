//! The form of `trapkey.toml`: one TOML file with strict keys, then `TRAPKEY__SECTION__KEY` over it.
//!
//! A function of text and variables: no file is read here and no environment. Whether what was written can be used, such as
//! whether the named files exist, the program finds out.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::todo
    )
)]

pub mod nearest;

mod authority;
mod check;
mod claim;
mod endpoint;
mod fault;
mod guard;
mod issuers;
mod limits;
mod operation;
mod overrides;
mod ports;
mod read;
mod sections;
mod server;
mod words;
mod zone;

pub use authority::{Algorithm, Authority, IdentityIssuer, Pace, Paces, Refreshing};
pub use claim::ClaimName;
pub use endpoint::{
    Endpoint, ExpiryGrace, Identity, KeyBits, MAX_REVERSE_CONNECT, MissingCrl, Mode, Policy, TokenSecret,
};
pub use guard::{Guard, GuardMode, Pool, Standby, Turn, Upstream, UpstreamRole, UpstreamSecurity, UpstreamUser, Yield};
pub use limits::{Key, Limits};
pub use operation::{Drain, Operation};
pub use overrides::{Overrides, PREFIX};
pub use read::{At, Invalid, entry, read};
pub use sections::{Audit, Client, Config, Discovery, Log, OnFailure, PlantFiles, Store, Sync};
pub use server::{
    AnonymousRights, Contact, FailMode, ForeignIssuer, LocalRights, LocalUser, Server, Simulated, TokenRights,
};
pub use words::{ApplicationUri, EndpointUrl, HostName, Number, Period};
pub use zone::Zone;

/// A commented configuration with every key.
pub const TEMPLATE: &str = include_str!("trapkey.toml");
