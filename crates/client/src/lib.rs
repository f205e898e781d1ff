//! The OPC UA client that keeps its access token fresh.
//!
//! [`Client::connect`] asks the server how it wants to be logged in to, fetches an access token from the authority that
//! the server names, opens a session and keeps it: the token is renewed before it ends, a denial is answered with a fresh
//! token and one more try (what is watched goes on by itself), a lost connection is made again and subscriptions are
//! filled anew. Works with any OPC UA
//! server; one without tokens is used with a name, a certificate or nobody.
//!
//! ```no_run
//! use client::{Client, ClientApplication, ClientOptions};
//!
//! # async fn example(identity: ua_proto::pki::OwnIdentity, trust: ua_proto::pki::SharedTrust) -> Result<(), client::ClientError> {
//! let application =
//!     ClientApplication { uri: "urn:me".into(), product_uri: "urn:trapkey".into(), name: "example".into() };
//! let mut options = ClientOptions::new("opc.tcp://mixer:4840", application);
//! options.identity = Some(identity.into());
//! options.trust = Some(trust);
//! let client = Client::connect(options).await?;
//! let speed = client.read(&["ns=2;s=mixer.speed".parse().expect("a NodeId")]).await?;
//! # Ok(()) }
//! ```

mod authority;
mod connection;
mod denials;
mod error;
mod events;
mod explicit;
mod history;
mod known;
mod nodes;
mod oauth;
mod operations;
mod options;
mod publisher;
mod session;
mod tokens;
mod watch;

pub use connection::Client;
pub use error::{ClientError, TokenError};
pub use events::{EventOptions, EventWatch};
pub use gates::opcua::client::{CallError, Callers, Calls, DialError, Reconnect, Way, endpoints, servers};
pub use known::{InvalidAuthority, KnownAuthority};
pub use options::{AuthorityAccess, ClientOptions, Login};
pub use ua_proto::channel::Expected;
pub use ua_proto::client::{AuthorityProfile, ClientApplication, NoEndpoint, Request, Response, TokenIssuer};
pub use watch::{Change, Deadband, Watch, WatchOptions};
