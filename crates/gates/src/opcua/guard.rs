//! A guard in front of an OPC UA server: the same shell as a resource server's, and connections to the server behind it.
//!
//! To compose one: make a [`ua_proto::guard::Guard`] from the `ServerConfig` that clients see (its own certificate,
//! endpoints, identities, limits), a `GuardConfig` (how to reach the upstream server, as whom, and which node lies in
//! which scope) and a gate over the scope map, and start it here with the same [`Shell`] as a server. The application's
//! `invoke` and `written` are never called: methods and values are the upstream server's.

use std::io;
use std::net::TcpListener;

use ua_proto::guard::Guard;

use super::client::Way;
use super::server::{Handle, Shell, start_core};

/// A running guard.
pub type GuardHandle = Handle<Guard>;

/// Starts a guard on its own thread. It connects to its upstream server at once, and again whenever it has to.
///
/// # Errors
/// The listener cannot be used or the operating system refuses a thread.
pub fn start(listener: TcpListener, guard: Guard, shell: Shell) -> io::Result<GuardHandle> {
    start_core(listener, guard, shell, Way::Dial)
}

/// The same in front of a server that is reached in this way.
///
/// # Errors
/// As [`start`].
pub fn start_over(way: Way, listener: TcpListener, guard: Guard, shell: Shell) -> io::Result<GuardHandle> {
    start_core(listener, guard, shell, way)
}
