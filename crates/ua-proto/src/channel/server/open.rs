//! How a server's channel is issued and renewed: what can be checked without a key, the job, and its outcome.

use std::sync::Arc;

use access_model::{AuditKind, Now};
use opcua_types::{MessageSecurityMode, StatusCode};
use zeroize::Zeroizing;

use super::{Open, Phase, ServerChannel, trusted};
use crate::channel::incoming::{Incoming, ReceiveToken};
use crate::channel::outgoing::{Outgoing, SendToken};
use crate::channel::task::{OpenTask, Opened, Refused};
use crate::channel::{ChannelAsked, ChannelConfig, ChannelEvent, ChannelSecurity};
use crate::crypto::{KeyLayout, SecurityPolicyId};
use crate::pki::OwnIdentity;
use crate::wire::{Misbehavior, OpenHeader};
use crate::{Entropy, Job, JobId};

impl ServerChannel {
    /// Checks what can be seen of an OPN without a key, and hands the rest to a job.
    pub(super) fn open(&mut self, chunk: &[u8], now: Now, entropy: &mut dyn Entropy) -> Result<(), Misbehavior> {
        let header = OpenHeader::parse(chunk)?;
        let task = self.task(&header, chunk, now, entropy)?;
        if task.policy.id() == SecurityPolicyId::None {
            let outcome = task.run();
            self.open_done(outcome, now);
            return Ok(());
        }
        self.jobs = self.jobs.wrapping_add(1);
        let id = JobId::of_channel(self.channel_id, self.jobs);
        self.job = Some(id);
        self.events.push_back(ChannelEvent::Job(Job::new(id, move || task.run())));
        Ok(())
    }

    fn task(
        &mut self,
        header: &OpenHeader<'_>,
        chunk: &[u8],
        now: Now,
        entropy: &mut dyn Entropy,
    ) -> Result<OpenTask, Misbehavior> {
        let policy = SecurityPolicyId::from_uri(header.policy_uri).ok_or(Misbehavior::Policy)?;
        let renewal = matches!(self.phase, Phase::Open(_));
        self.asked = Some(ChannelAsked { renewal, policy, mode: None, lifetime_ms: 0 });
        let config = self.config.clone();
        let modes = modes_of(&config, policy);
        let discovery = policy == SecurityPolicyId::None && modes.is_empty() && config.discovery;
        if modes.is_empty() && !discovery {
            return Err(Misbehavior::Policy);
        }
        let (own, current, reply_sequence) = self.standing(header, policy)?;
        let algorithms = policy.algorithms();
        self.tokens = self.tokens.wrapping_add(1).max(1);
        Ok(OpenTask {
            policy: algorithms,
            chunk: Zeroizing::new(chunk.to_vec()),
            protected_from: header.end,
            sender: header.sender.filter(|_| policy != SecurityPolicyId::None).unwrap_or_default().to_vec(),
            own,
            trust: config.trust.load_full(),
            now: now.unix,
            agreement: algorithms.agree(entropy, KeyLayout::default()),
            channel_id: self.channel_id,
            token_id: self.tokens,
            reply_sequence,
            modes: if discovery { vec![MessageSecurityMode::None] } else { modes },
            discovery,
            lifetime: (config.lifetime_min, config.lifetime_max),
            current,
        })
    }

    /// The identity that the OPN is for, the channel as it stands, and the sequence number of the answer.
    #[expect(clippy::type_complexity, reason = "three facts that are needed once, in one place")]
    fn standing(
        &mut self,
        header: &OpenHeader<'_>,
        policy: SecurityPolicyId,
    ) -> Result<(Arc<OwnIdentity>, Option<(ChannelSecurity, u32)>, u32), Misbehavior> {
        let protected = policy != SecurityPolicyId::None;
        if protected && header.sender.is_none() {
            return Err(Misbehavior::NotAuthentic);
        }
        let receiver = header.receiver.unwrap_or_default();
        match &mut self.phase {
            Phase::Open(open) => {
                if header.channel_id != self.channel_id {
                    return Err(Misbehavior::OtherChannel);
                }
                if open.incoming.is_assembling() {
                    return Err(Misbehavior::Interleaved);
                }
                if open.security.policy != policy {
                    return Err(Misbehavior::RenewalChanged);
                }
                let own = open.security.own.clone().ok_or(Misbehavior::OtherReceiver)?;
                if protected && own.certificate.thumbprint_sha1() != receiver {
                    return Err(Misbehavior::OtherReceiver);
                }
                let current = (open.security.clone(), open.incoming.sequence());
                Ok((own, Some(current), open.outgoing.hold()))
            }
            _ => {
                if header.channel_id != 0 {
                    return Err(Misbehavior::OtherChannel);
                }
                let current = self.config.identity.load_full();
                let algorithms = policy.algorithms();
                let own = if protected {
                    // During an overlap a client may still hold the certificate before this one. A certificate of another
                    // kind than the policy's opens nothing, whoever it belongs to.
                    let found = current.by_thumbprint(receiver);
                    let fits = |own: &OwnIdentity| algorithms.accepts_key(own.certificate.key());
                    Arc::new(found.filter(fits).ok_or(Misbehavior::OtherReceiver)?)
                } else {
                    current.for_bare_channels()
                };
                Ok((own, None, algorithms.first_sequence()))
            }
        }
    }

    pub(super) fn open_done(&mut self, outcome: Result<Opened, Refused>, now: Now) {
        match outcome {
            Ok(opened) => self.opened(opened, now),
            Err(refused) => {
                self.audit(
                    AuditKind::ChannelOpened,
                    Some(refused.reason),
                    refused.status,
                    refused.detail,
                    refused.rejected,
                );
                self.end(refused.told, &refused.told_reason);
            }
        }
    }

    fn opened(&mut self, opened: Opened, now: Now) {
        if let Some(asked) = &mut self.asked {
            (asked.mode, asked.lifetime_ms) = (Some(opened.security.mode), opened.asked_ms);
        }
        // The trust list may have changed while the job ran.
        if !Arc::ptr_eq(&opened.trust, &self.config.trust.load_full())
            && let Err(rejection) = trusted(&opened.security, &self.config.trust.load_full(), now)
        {
            self.audit(AuditKind::ChannelOpened, Some(rejection.reason), rejection.status, rejection.detail, None);
            return self.end(StatusCode::BadSecurityChecksFailed, "");
        }
        let until = now.mono + opened.lifetime;
        let receive = ReceiveToken { id: opened.token_id, until, cipher: opened.keys.receive };
        let send = SendToken { id: opened.token_id, until, cipher: opened.keys.send };
        self.output.extend_from_slice(&opened.reply);
        if let Phase::Open(open) = &mut self.phase {
            open.incoming.renew(opened.sequence, receive);
            open.outgoing.renew(send, true);
            let released = open.outgoing.release(opened.reply_sequence, &mut self.output, now.mono);
            self.deadline = until;
            self.events.push_back(ChannelEvent::Renewed);
            if released.is_err() {
                self.end(StatusCode::BadSecureChannelTokenUnknown, "");
            }
            return;
        }
        self.start(opened.security, opened.sequence, opened.reply_sequence, receive, send);
        self.deadline = until;
    }

    fn start(
        &mut self,
        security: ChannelSecurity,
        sequence: u32,
        reply_sequence: u32,
        receive: ReceiveToken,
        send: SendToken,
    ) {
        let limits = &self.config.limits;
        let policy = security.policy.algorithms();
        let max_message = if security.discovery_only {
            limits.max_discovery_message.min(limits.max_message)
        } else {
            limits.max_message
        };
        let incoming = Incoming::new(policy, self.channel_id, sequence, receive, max_message, limits.max_chunks);
        let outgoing = Outgoing::new(policy, self.channel_id, reply_sequence, send, self.peer);
        let peer = security.peer.as_ref().map_or("without protection", |peer| peer.subject());
        let detail = format!("{} {:?}: {peer}", security.policy, security.mode);
        self.phase = Phase::Open(Box::new(Open { incoming, outgoing, pending: Vec::new(), asked: 0, security }));
        self.events.push_back(ChannelEvent::Opened);
        self.audit(AuditKind::ChannelOpened, None, StatusCode::Good, detail, None);
    }
}

/// The modes that endpoints offer with `policy`.
fn modes_of(config: &ChannelConfig, policy: SecurityPolicyId) -> Vec<MessageSecurityMode> {
    config.offered.iter().filter(|(offered, _)| *offered == policy).map(|(_, mode)| *mode).collect()
}
