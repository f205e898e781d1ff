//! What goes into the server and what comes out of it.

use std::fmt;

use access_model::{AuditRecord, Refusal, Thumbprint};
use opcua_types::{DataValue, MessageSecurityMode, NodeId, StatusCode, Variant};
use pep::{GateEvent, GrantRequest, Identity};
use zeroize::Zeroizing;

use super::audit::{AuditId, Audited};
use crate::crypto::SecurityPolicyId;
use crate::event::NewEvent;
use crate::space::NodeRef;
use crate::{Job, JobId, JobOutcome};

/// Names a connection; the shell chooses it and does not use it again while the connection lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// Names a login that the shell is asked to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoginId(pub u64);

/// Names a method call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InvokeId(pub u64);

/// Names a grant that the shell is asked to fetch from the authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(pub u64);

/// Something that happened outside.
#[derive(Debug)]
pub enum Input<'a> {
    /// A peer connected.
    Accepted {
        /// Its name from now on.
        conn: ConnId,
        /// Its network address, for the audit.
        peer: String,
    },
    /// These clients are connected to from now on, and no others (reverse connect, OPC 10000-6 §7.1.3): `opc.tcp` URLs, at
    /// most [`MAX_CALLED`](super::MAX_CALLED).
    CallClients(Vec<String>),
    /// The connection of [`Output::CallClient`] is made.
    Called {
        /// Which client.
        client: usize,
        /// The connection's name from now on.
        conn: ConnId,
        /// Its network address, for the audit.
        peer: String,
    },
    /// The connection of [`Output::CallClient`] could not be made.
    NotCalled {
        /// Which client.
        client: usize,
    },
    /// Bytes from a peer.
    Bytes {
        /// Which.
        conn: ConnId,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// Bytes went out to a peer; also to be said after [`Output::Send`] when all went at once and
    /// [`Server::holds_input`](super::Server::holds_input).
    Drained {
        /// Which.
        conn: ConnId,
        /// How many bytes the shell took from [`Server::outgoing`](super::Server::outgoing) and could not hand to the peer yet.
        unsent: usize,
    },
    /// The peer is gone.
    Disconnected {
        /// Which.
        conn: ConnId,
    },
    /// A job is done.
    JobDone {
        /// Which.
        id: JobId,
        /// What [`Job::run`] gave.
        outcome: JobOutcome,
    },
    /// A method call came back.
    Answer {
        /// Which.
        id: InvokeId,
        /// With what.
        answer: Answer,
    },
    /// A login was checked.
    Authenticated {
        /// Which.
        id: LoginId,
        /// Who it is, or why not. Unknown users and wrong passwords must not differ in time or reason.
        result: Result<Identity, Refusal>,
    },
    /// A grant was fetched.
    Fetched {
        /// Which.
        id: AskId,
        /// The token, or why there is none.
        result: Result<FetchedGrant, Refusal>,
    },
    /// A record that asked for it was acknowledged.
    Audited {
        /// Which.
        id: AuditId,
        /// How it went.
        result: Audited,
    },
    /// A signed update from the authority.
    ControlUpdate(&'a [u8]),
    /// The authority was heard of.
    ContactFound,
    /// The authority is out of reach.
    ContactLost,
    /// The ledger takes no records, or takes them again.
    Ledger(Option<pep::LedgerTrouble>),
    /// The zones of the scopes are others.
    Zones(Vec<pep::Zone>),
    /// The gate's turn lasts until one of the two clocks has passed this, or is over.
    Lease(Option<access_model::Now>),
    /// Issuers have rotated their keys. A list that the gate cannot use changes nothing.
    Issuers(Vec<token::Issuer>),
    /// A foreign issuer has rotated its keys. One that the gate does not know changes nothing.
    ForeignKeys {
        /// Its name.
        issuer: String,
        /// All of its keys.
        keys: Vec<token::VerifyingKey>,
    },
    /// The trust list was swapped: live channels are looked at again.
    TrustChanged,
    /// The server's own certificate was swapped.
    IdentityChanged,
    /// The application sets a value.
    SetValue {
        /// Of which variable.
        node: NodeRef,
        /// To what.
        value: DataValue,
    },
    /// Something happened that clients may want to hear of. One that is no event (a type that is none, an unknown source)
    /// changes nothing.
    Event(NewEvent),
    /// The server is about to end: it says so in ServerStatus and makes no more sessions. Said again as time passes.
    Drain {
        /// Until it ends.
        seconds: u32,
    },
    /// Every session ends, every connection is told and closed; new ones may come.
    TurnOut,
    /// The server ends: every connection is told and closed.
    Shutdown,
}

/// Something to do outside.
#[derive(Debug)]
pub enum Output {
    /// [`Server::outgoing`](super::Server::outgoing) holds bytes for this connection.
    Send {
        /// Which.
        conn: ConnId,
    },
    /// Write out what is left, then close the connection; it is forgotten here.
    Close {
        /// Which.
        conn: ConnId,
        /// The last bytes for it.
        rest: Vec<u8>,
    },
    /// Connect to a client.
    CallClient {
        /// Names it in the answer.
        client: usize,
        /// An `opc.tcp` URL.
        url: String,
    },
    /// Run this on the pool.
    Job(Job),
    /// Call a method of the application.
    Invoke {
        /// Names the call.
        id: InvokeId,
        /// The call.
        invocation: Box<Invocation>,
    },
    /// Check a user name and password; the work must be the same for unknown users.
    Authenticate {
        /// Names the login.
        id: LoginId,
        /// The user name.
        name: String,
        /// The password.
        password: Secret,
        /// The network address that asks; empty when it is not known.
        address: String,
    },
    /// Keep a record.
    Audit {
        /// Acknowledge under this id.
        id: Option<AuditId>,
        /// The record.
        record: AuditRecord,
    },
    /// A client wrote a value; it is in the address space already.
    Written {
        /// Of which variable.
        node: NodeRef,
        /// The value as it came.
        value: DataValue,
    },
    /// Fetch a token for a client that has none. What can be proven here was: who holds the channel's certificate, and
    /// the signature of a user with a certificate.
    AskGrant {
        /// Names the request.
        id: AskId,
        /// The request.
        request: Box<GrantRequest>,
        /// What goes with it.
        secret: Option<AskSecret>,
    },
    /// Something happened to a grant or the gate; sessions were taken care of already. On
    /// [`GateEvent::NeedFullList`] fetch the full list from the authority.
    Gate(GateEvent),
    /// A certificate was rejected: keep it where an operator finds it.
    Rejected {
        /// As the peer sent it.
        certificate: Vec<u8>,
    },
}

/// Bytes that are wiped after use and never printed.
#[derive(Clone)]
pub struct Secret(pub Zeroizing<Vec<u8>>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A secret that goes with an ask.
#[derive(Clone, Debug)]
pub enum AskSecret {
    /// The user's password, which nobody here has checked.
    Password(Secret),
    /// The grant goes on: what came with the token before as [`FetchedGrant::renewal`].
    Renewal(Secret),
}

/// A token that was fetched for a client.
#[derive(Clone, Debug)]
pub struct FetchedGrant {
    /// The token.
    pub token: Secret,
    /// What the next one is asked for with, when this one has lived for four fifths of its time.
    pub renewal: Option<Secret>,
    /// SHA-256 of the certificate of our own that the token is bound to when the client's channel proves none.
    pub own: Option<Thumbprint>,
}

/// Who calls a method.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The session.
    pub session: NodeId,
    /// ClientUserId; none when anonymous.
    pub user: Option<String>,
    /// The user's certificate, where it was what proved the user.
    pub user_certificate: Option<Thumbprint>,
    /// Role names of the session's grant.
    pub roles: Vec<String>,
    /// The ApplicationUri that the client's certificate proves.
    pub application: Option<String>,
    /// That certificate.
    pub certificate: Option<Thumbprint>,
    /// How the channel is protected.
    pub policy: SecurityPolicyId,
    /// How the channel is protected.
    pub mode: MessageSecurityMode,
    /// The peer's network address.
    pub address: String,
}

/// A method call on its way to the application.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// Who calls.
    pub caller: Caller,
    /// The object.
    pub object: NodeId,
    /// The method.
    pub method: NodeId,
    /// The method's node.
    pub method_node: NodeRef,
    /// The arguments; number and types fit the method's InputArguments, structures are still the bytes they came in.
    pub inputs: Vec<Variant>,
}

/// What a method gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The status of the call.
    pub status: StatusCode,
    /// The status of each argument, when one was at fault.
    pub input_results: Vec<StatusCode>,
    /// The results.
    pub outputs: Vec<Variant>,
}
