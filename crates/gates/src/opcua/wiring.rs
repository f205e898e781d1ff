//! What an OPC UA server shell needs from outside: who keeps the audit, who answers methods, who knows passwords.

use std::future::Future;
use std::pin::Pin;

use access_model::{AuditRecord, Reason, Refusal};
use opcua_types::DataValue;
use pep::{GateEvent, GrantRequest};
use tokio::sync::{mpsc, oneshot};
use ua_proto::server::{Answer, AskSecret, FetchedGrant, Invocation};
use ua_proto::space::NodeRef;
use zeroize::Zeroizing;

/// The ledger could not take a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the audit ledger cannot be written")]
pub struct AuditUnavailable;

/// Resolves when a record is safely kept, or cannot be.
pub type AuditAck = oneshot::Sender<Result<(), AuditUnavailable>>;

/// One record on its way to the ledger, with the acknowledgement that somebody waits for.
#[derive(Debug)]
pub struct AuditRequest {
    /// The record.
    pub record: AuditRecord,
    /// Whom to tell that it is kept.
    pub ack: Option<AuditAck>,
}

/// The bounded way to the ledger.
pub type AuditSink = mpsc::Sender<AuditRequest>;

/// A future that stays on the server's thread.
pub type Local<T> = Pin<Box<dyn Future<Output = T>>>;

/// A user name and password to be checked. The password is wiped when this is dropped.
pub struct Credentials {
    /// The user name.
    pub name: String,
    /// The password.
    pub password: Zeroizing<Vec<u8>>,
    /// The network address that asks.
    pub address: String,
}

/// One refusal for an unknown user and a wrong password.
#[must_use]
pub fn wrong_credentials() -> Refusal {
    Refusal::new(Reason::UserCredentials, "the user is unknown or the password wrong")
}

/// What stands behind a server: its methods and its users.
pub trait Application {
    /// Answers a method call that was permitted and audited.
    fn invoke(&self, call: Invocation) -> Local<Answer>;

    /// Whether this user exists and this is the password. Takes as long for an unknown user as for a wrong password.
    ///
    /// # Errors
    /// [`wrong_credentials`] for both, or [`Reason::TooBusy`] when the password was not looked at.
    fn authenticate(&self, credentials: Credentials) -> Local<Result<(), Refusal>>;

    /// Fetches a token for a client that has none.
    fn fetch_grant(&self, request: GrantRequest, _secret: Option<AskSecret>) -> Local<Result<FetchedGrant, Refusal>> {
        let refusal =
            Refusal::new(Reason::IdentityNotAccepted, format!("no authority grants `{}` anything", request.audience));
        Box::pin(async move { Err(refusal) })
    }

    /// A client wrote a value; it is in the address space already.
    fn written(&self, _node: NodeRef, _value: &DataValue) {}

    /// Something happened to a grant or to the gate.
    fn gate_event(&self, _event: GateEvent) {}

    /// A certificate was rejected.
    fn rejected(&self, _certificate: &[u8]) {}
}
