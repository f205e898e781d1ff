//! The client's side without I/O: discovery, endpoint choice, sessions with every kind of identity, requests and answers.
//!
//! [`Discovery`] asks a server for its endpoints, [`choose_endpoint`] picks one and a way to log in, [`ClientSession`] is
//! the session. Fetching access tokens, sockets, and what a subscription's values mean to somebody are not here: they are
//! the business of the crate `client`.

mod codec;
mod config;
mod credential;
mod discovery;
mod endpoints;
mod issuer;
mod link;
mod message;
mod session;

pub use config::{ClientApplication, ClientSessionConfig};
pub use credential::Credential;
pub use discovery::{Discovery, Question};
pub use endpoints::{EndpointChoice, EndpointWish, NoEndpoint, choose_channel, choose_endpoint, compare_endpoints};
pub use issuer::{AuthorityProfile, InvalidIssuer, TokenIssuer};
pub use link::CallId;
pub use message::{RawRequest, Request, Response};
pub use session::{Activated, ClientEvent, ClientSession, RequestError};

#[cfg(test)]
mod tests;
