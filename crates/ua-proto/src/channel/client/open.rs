//! How a client's channel is issued and renewed: the request, the jobs, and the answer.

use std::time::Duration;

use access_model::{Mono, Now};
use opcua_types::StatusCode;
use zeroize::Zeroizing;

use super::{ClientChannel, Exchange, Open, Phase, Stage};
use crate::channel::client_task::{Answer, AnswerTask, SealTask};
use crate::channel::incoming::{Incoming, ReceiveToken};
use crate::channel::outgoing::{Outgoing, SendToken};
use crate::channel::{ChannelEvent, ChannelSecurity};
use crate::crypto::SecurityPolicyId;
use crate::wire::{Misbehavior, OpenHeader, OpenRequest, SequenceHeader};
use crate::{Entropy, Job, JobId};

impl ClientChannel {
    /// Starts an OPN: issue or renew.
    pub(super) fn ask(&mut self, now: Now, entropy: &mut dyn Entropy) {
        let policy = self.config.policy.algorithms();
        let request_id = self.next_request();
        let (security, number) = match &mut self.phase {
            Phase::Open(open) => {
                open.renew_at = Mono::NEVER;
                (open.security.clone(), open.outgoing.hold())
            }
            _ => (self.config.security(0), policy.first_sequence()),
        };
        let agreement = policy.agree(entropy, self.config.key_layout);
        let request = OpenRequest {
            request_handle: request_id,
            issue: security.channel_id == 0,
            mode: self.config.mode,
            nonce: agreement.nonce().to_vec().into(),
            lifetime_ms: u32::try_from(self.config.lifetime.as_millis()).unwrap_or(u32::MAX),
        };
        let sequence = SequenceHeader { number, request_id };
        let task = SealTask { policy, security, sequence, request, at: now.unix };
        let id = self.next_job();
        self.exchange = Some(Exchange { stage: Stage::Sealing(id), sequence, agreement: Some(agreement) });
        if self.config.policy == SecurityPolicyId::None {
            let sealed = task.run();
            self.sealed(sealed, now);
        } else {
            self.events.push_back(ChannelEvent::Job(Job::new(id, move || task.run())));
        }
    }

    pub(super) fn sealed(&mut self, sealed: Result<Vec<u8>, Misbehavior>, now: Now) {
        let (Ok(chunk), Some(exchange)) = (sealed, &mut self.exchange) else {
            return self.fail(StatusCode::BadSecurityChecksFailed);
        };
        exchange.stage = Stage::Waiting;
        let number = exchange.sequence.number;
        self.output.extend_from_slice(&chunk);
        if let Phase::Open(open) = &mut self.phase
            && open.outgoing.release(number, &mut self.output, now.mono).is_err()
        {
            self.fail(StatusCode::BadSecureChannelTokenUnknown);
        }
    }

    /// The server's answer to an OPN.
    pub(super) fn answer(&mut self, chunk: &[u8], now: Now) -> Result<(), Misbehavior> {
        let Some(exchange) = self.exchange.as_mut().filter(|exchange| exchange.stage == Stage::Waiting) else {
            return Err(Misbehavior::OutOfOrder);
        };
        let header = OpenHeader::parse(chunk)?;
        let (channel_id, last) = match &self.phase {
            Phase::Open(open) if open.incoming.is_assembling() => return Err(Misbehavior::Interleaved),
            Phase::Open(open) => (open.security.channel_id, Some(open.incoming.sequence())),
            _ => (0, None),
        };
        if header.channel_id == 0 || (channel_id != 0 && header.channel_id != channel_id) {
            return Err(Misbehavior::OtherChannel);
        }
        let security = self.config.security(header.channel_id);
        check_header(&header, &security)?;
        let task = AnswerTask {
            security,
            chunk: Zeroizing::new(chunk.to_vec()),
            protected_from: header.end,
            last,
            request_id: exchange.sequence.request_id,
            agreement: exchange.agreement.take().ok_or(Misbehavior::OutOfOrder)?,
        };
        if self.config.policy == SecurityPolicyId::None {
            let answer = task.run()?;
            self.answered(answer, now);
            return Ok(());
        }
        self.jobs = self.jobs.wrapping_add(1);
        let id = JobId(u64::from(self.jobs));
        exchange.stage = Stage::Answering(id);
        self.events.push_back(ChannelEvent::Job(Job::new(id, move || task.run())));
        Ok(())
    }

    pub(super) fn answered(&mut self, answer: Answer, now: Now) {
        self.exchange = None;
        let lifetime = Duration::from_millis(answer.lifetime_ms.into());
        let until = now.mono + lifetime;
        let send = SendToken { id: answer.token_id, until, cipher: answer.keys.send };
        // What the server sent before it saw the new token may arrive late (OPC 10000-4 §5.6.2.1).
        let receive = ReceiveToken { id: answer.token_id, until: until + lifetime / 4, cipher: answer.keys.receive };
        let renew_at = now.mono + lifetime * 3 / 4;
        if let Phase::Open(open) = &mut self.phase {
            open.incoming.renew(answer.sequence, receive);
            open.outgoing.renew(send, false);
            open.renew_at = renew_at;
            return self.events.push_back(ChannelEvent::Renewed);
        }
        let policy = self.config.policy.algorithms();
        let (id, limits) = (answer.security.channel_id, &self.config.limits);
        let incoming = Incoming::new(policy, id, answer.sequence, receive, limits.max_message, limits.max_chunks);
        // The OPN carried the first number.
        let outgoing = Outgoing::new(policy, id, policy.first_sequence(), send, self.peer);
        let security = answer.security;
        let open = Open { incoming, outgoing, waiting: Vec::new(), security, renew_at };
        self.phase = Phase::Open(Box::new(open));
        self.events.push_back(ChannelEvent::Opened);
    }
}

/// The answer comes from the server we asked, for us, under the policy we asked for.
fn check_header(header: &OpenHeader<'_>, security: &ChannelSecurity) -> Result<(), Misbehavior> {
    if header.policy_uri != security.policy.uri() {
        return Err(Misbehavior::Policy);
    }
    let Some((peer, own)) = security.peer.as_ref().zip(security.own.as_ref()) else { return Ok(()) };
    let sender = header.sender.unwrap_or_default();
    if !sender.starts_with(peer.der()) {
        return Err(Misbehavior::RenewalChanged);
    }
    if header.receiver != Some(own.certificate.thumbprint_sha1().as_slice()) {
        return Err(Misbehavior::OtherReceiver);
    }
    Ok(())
}
