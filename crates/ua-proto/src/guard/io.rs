//! What goes into a guard and what comes out of it.

use crate::{Job, JobId, JobOutcome, server};

/// Names one connection to the upstream server; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// Something that happened outside, on one of the two sides.
#[derive(Debug)]
pub enum Input<'a> {
    /// On the side of the clients, or to the guard as a whole: what a [`server::Server`] takes.
    Down(server::Input<'a>),
    /// On a connection to the upstream server.
    Up {
        /// Which.
        link: LinkId,
        /// What.
        event: Upstream<'a>,
    },
}

/// Something that happened on a connection to the upstream server.
#[derive(Debug)]
pub enum Upstream<'a> {
    /// The connection that [`Output::Dial`] asked for is made.
    Connected,
    /// Bytes came.
    Bytes(&'a [u8]),
    /// The connection is over, or could not be made.
    Lost,
    /// A job of [`Output::UpstreamJob`] is done.
    JobDone {
        /// Which.
        id: JobId,
        /// What [`Job::run`] gave.
        outcome: JobOutcome,
    },
}

/// Something to do outside.
#[derive(Debug)]
pub enum Output {
    /// On the side of the clients: what a [`server::Server`] asks for. `Invoke` and `Written` do not occur.
    Down(server::Output),
    /// Connect to the upstream server.
    Dial {
        /// The connection's name from now on.
        link: LinkId,
        /// An `opc.tcp` URL.
        url: String,
    },
    /// [`super::Guard::upstream_outgoing`] holds bytes for this connection.
    UpstreamSend {
        /// Which.
        link: LinkId,
    },
    /// Close this connection; it is forgotten here.
    UpstreamClose {
        /// Which.
        link: LinkId,
    },
    /// Run this on the pool.
    UpstreamJob {
        /// The connection it is for.
        link: LinkId,
        /// The job. Its id is the connection's own: two connections may use the same.
        job: Job,
    },
}
