//! Requests under way on one channel: who asked, what answer is expected, and until when.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use access_model::{Mono, Now};
use opcua_types::{ExtensionObject, NodeId, StatusCode};

use super::codec::Codec;
use super::message::{Asker, RawRequest, Request, Response, Service};
use crate::Job;
use crate::channel::{ChannelAudit, ChannelEvent, ClientChannel, SendError};

/// Why a request is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The caller asked, under this id.
    Caller(CallId),
    Create,
    Activate,
    KeepAlive,
    Close,
}

/// Names a request of the caller until it was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

struct Waiting {
    purpose: Purpose,
    service: Service,
    handle: u32,
    deadline: Mono,
}

/// What a link reports.
pub(super) enum LinkEvent {
    Job(Job),
    Opened,
    Audit(ChannelAudit),
    Answer(Purpose, Result<Response, StatusCode>),
    Closed(StatusCode),
}

/// A channel with its requests.
pub(super) struct Link {
    pub(super) channel: ClientChannel,
    /// How often its keys were renewed.
    pub(super) renewals: u32,
    waiting: BTreeMap<u32, Waiting>,
    handle: u32,
}

impl Link {
    pub(super) fn new(channel: ClientChannel) -> Self {
        Self { channel, renewals: 0, waiting: BTreeMap::new(), handle: 0 }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn send(
        &mut self,
        codec: &Codec,
        (mut request, additional_header): (Request, ExtensionObject),
        (purpose, session): (Purpose, &NodeId),
        timeout: Duration,
        now: Now,
    ) -> Result<(), SendError> {
        self.handle = self.handle.wrapping_add(1).max(1);
        let hint = if let Request::Raw(RawRequest { hint: Some(hint), .. }) = &request { *hint } else { timeout };
        let asker = Asker { session, handle: self.handle, timeout: hint, now };
        request.set_header(&asker, additional_header);
        let id = self.channel.send(&mut |out| request.encode(&asker, codec, out), now)?;
        let deadline = now.mono + timeout;
        let waiting = Waiting { purpose, service: request.service(), handle: self.handle, deadline };
        self.waiting.insert(id, waiting);
        Ok(())
    }

    /// Turns what the channel reports into events; late and unknown answers are dropped.
    pub(super) fn drain(&mut self, codec: &Codec, events: &mut VecDeque<LinkEvent>) {
        while let Some(event) = self.channel.poll_event() {
            match event {
                ChannelEvent::Job(job) => events.push_back(LinkEvent::Job(job)),
                ChannelEvent::Opened => events.push_back(LinkEvent::Opened),
                ChannelEvent::Renewed => self.renewals = self.renewals.saturating_add(1),
                ChannelEvent::Message { request_id, body } => {
                    if let Some(waiting) = self.waiting.remove(&request_id) {
                        let answer = waiting.service.read(codec, waiting.handle, &body);
                        events.push_back(LinkEvent::Answer(waiting.purpose, answer));
                    }
                    self.channel.recycle(body);
                }
                ChannelEvent::Aborted { request_id, status } => {
                    if let Some(waiting) = self.waiting.remove(&request_id) {
                        events.push_back(LinkEvent::Answer(waiting.purpose, Err(status)));
                    }
                }
                ChannelEvent::Audit(audit) => events.push_back(LinkEvent::Audit(audit)),
                ChannelEvent::Closed { status } => events.push_back(LinkEvent::Closed(status)),
            }
        }
    }

    /// Gives up on requests whose time is over.
    pub(super) fn expire(&mut self, now: Now, events: &mut VecDeque<LinkEvent>) {
        if self.waiting.values().all(|waiting| waiting.deadline > now.mono) {
            return;
        }
        let (over, kept) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(_, waiting)| waiting.deadline <= now.mono);
        self.waiting = kept;
        let over: BTreeMap<u32, Waiting> = over;
        let timed_out =
            over.into_values().map(|waiting| LinkEvent::Answer(waiting.purpose, Err(StatusCode::BadTimeout)));
        events.extend(timed_out);
    }

    /// The connection is over: nothing will be answered any more.
    pub(super) fn abandon(self) -> impl Iterator<Item = Purpose> {
        self.waiting.into_values().map(|waiting| waiting.purpose)
    }

    pub(super) fn poll_timeout(&self) -> Option<Mono> {
        let deadlines = self.waiting.values().map(|waiting| waiting.deadline);
        deadlines.chain(self.channel.poll_timeout()).min()
    }
}
