//! Requests that wait for something outside: a job, a login, a record, a method. Bounded per session and timed.

use std::collections::BTreeMap;

use opcua_types::CallMethodResult;

use super::activate::Activation;
use super::audit::AuditId;
use super::services::{call, history_update, write};
use super::timers::SessionKey;
use super::{ConnId, InvokeId};
use crate::space::NodeRef;

/// One parked request.
pub(crate) struct Parked {
    pub(crate) conn: ConnId,
    pub(crate) request_id: u32,
    pub(crate) handle: u32,
    pub(crate) session: SessionKey,
    pub(crate) what: What,
}

/// What it waits for, and what it goes on with.
pub(crate) enum What {
    /// CreateSession: the server's signature; the URL that the client is told.
    Create(String),
    /// ActivateSession: proof, login or grant.
    Activate(Box<Activation>),
    /// Write: the record.
    Write(Vec<write::Planned>),
    /// HistoryUpdate: the record.
    History(Vec<history_update::Planned>),
    /// Call: the record.
    Recording(Vec<call::Planned>),
    /// Call: the methods.
    Calling(Calling),
}

/// Method calls that left, and what has come back of them.
pub(crate) struct Calling {
    /// Whose session it was when they left.
    pub(crate) user: Option<String>,
    /// The grant was over at some moment since. What was obtained under it is not told, even when it lives again.
    pub(crate) over: bool,
    /// Object and method of each item that left.
    pub(crate) nodes: Vec<Option<(NodeRef, NodeRef)>>,
    pub(crate) results: Vec<Option<CallMethodResult>>,
}

/// All parked requests.
#[derive(Default)]
pub(crate) struct ParkedRequests {
    requests: BTreeMap<u64, Parked>,
    audits: BTreeMap<AuditId, u64>,
    calls: BTreeMap<InvokeId, (u64, usize)>,
    last: u64,
    last_call: u64,
}

impl ParkedRequests {
    pub(crate) fn add(&mut self, parked: Parked) -> u64 {
        self.last += 1;
        self.requests.insert(self.last, parked);
        self.last
    }

    /// A number for something else that waits outside.
    pub(crate) fn reserve(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(crate) fn wait_for_record(&mut self, audit: AuditId, id: u64) {
        self.audits.insert(audit, id);
    }

    /// The request that waited for this record.
    pub(crate) fn recorded(&mut self, audit: AuditId) -> Option<u64> {
        self.audits.remove(&audit)
    }

    pub(crate) fn wait_for_call(&mut self, id: u64, at: usize) -> InvokeId {
        self.last_call += 1;
        let call = InvokeId(self.last_call);
        self.calls.insert(call, (id, at));
        call
    }

    /// The request, and the item of it, that waited for this call.
    pub(crate) fn called(&mut self, call: InvokeId) -> Option<(u64, usize)> {
        self.calls.remove(&call)
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut Parked> {
        self.requests.get_mut(&id)
    }

    pub(crate) fn take(&mut self, id: u64) -> Option<Parked> {
        let parked = self.requests.remove(&id)?;
        match parked.what {
            What::Write(_) | What::History(_) | What::Recording(_) => self.audits.retain(|_, waiting| *waiting != id),
            What::Calling(_) => self.calls.retain(|_, (waiting, _)| *waiting != id),
            What::Create(_) | What::Activate(_) => {}
        }
        Some(parked)
    }

    /// The grant of a session ended: the calls that are out were made under it.
    pub(crate) fn grant_over(&mut self, session: SessionKey) {
        for parked in self.requests.values_mut().filter(|parked| parked.session == session) {
            if let What::Calling(calling) = &mut parked.what {
                calling.over = true;
            }
        }
    }

    /// Requests of a session that fit, in the order in which they came.
    pub(crate) fn of_session(&self, session: SessionKey, fits: impl Fn(&Parked) -> bool) -> Vec<u64> {
        let of = |(_, parked): &(&u64, &Parked)| parked.session == session && fits(parked);
        self.requests.iter().filter(of).map(|(id, _)| *id).collect()
    }
}
