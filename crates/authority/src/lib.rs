//! The authorization service: who may have a token, and what happens to tokens that live.
//!
//! [`Authority`] is the core: it authenticates, decides with `pdp`, mints with `token`, keeps a journal and an audit
//! trail in `store`, and decides every live token again whenever policy, plant or workflow change. Three faces ask it:
//! HTTPS ([`serve`]: OAuth2, AuthZEN, administration, the control stream of [`control`]), an OPC UA endpoint
//! ([`Authority::answer`]), and the program it is part of. It imports no gate: `cli` joins it to `gates::opcua`.

mod accounts;
mod approvals;
mod clock;
mod config;
pub mod control;
mod core;
mod denial;
mod error;
mod files;
mod flood;
mod guests;
mod http;
mod identify;
mod issue;
mod keys;
mod leases;
mod live;
mod opcua;
mod pace;
mod passwords;
mod refresh;
mod standing;
#[cfg(test)]
mod tests;
mod turns;

pub use accounts::{AccountChange, AccountChanged, AccountError, Books, SHORTEST_PASSWORD, new_client_secret};
pub use approvals::{AnswerError, Second, Waiting};
pub use clock::{Clock, system_clock};
pub use config::{AuthorityConfig, Paces, PolicySource, PolicyTexts};
pub use core::{Authority, Changed, Switched};
pub use error::AuthorityError;
pub use guests::{Guest, GuestRequest};
pub use http::{InvalidTls, PASSWORD, Peer, ShownCertificate, router, serve, server_config, server_config_showing};
pub use identify::Client;
pub use issue::{Flow, Issued, Refreshing, TokenRequest};
pub use opcua::{IMPLICIT, ISSUED, OpcUaKeys, USER_NAME};
pub use passwords::{MAX_SECRET, Passwords, hash_secret};
pub use turns::{Asker, Turns};
