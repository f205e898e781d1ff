//! The client's work for one OPN: sealing the request, and opening the answer. Two jobs without state.

use access_model::UnixTime;
use opcua_types::MessageSecurityMode;
use zeroize::Zeroizing;

use super::ChannelSecurity;
use super::task::{parse_open, seal_open};
use crate::crypto::{ChannelKeys, KeyAgreement, Role, SecurityPolicy};
use crate::wire::{Misbehavior, OpenRequest, OpenResponse, SEQUENCE_HEADER, SequenceHeader};

/// Makes an OPN.
pub(super) struct SealTask {
    pub(super) policy: &'static dyn SecurityPolicy,
    pub(super) security: ChannelSecurity,
    pub(super) sequence: SequenceHeader,
    pub(super) request: OpenRequest,
    pub(super) at: UnixTime,
}

impl SealTask {
    pub(super) fn run(self) -> Result<Vec<u8>, Misbehavior> {
        let put_body = |out: &mut Vec<u8>| self.request.put(self.at, out);
        seal_open(self.policy, &self.security, self.sequence, &put_body)
    }
}

/// Opens the answer to an OPN whose clear header was checked.
pub(super) struct AnswerTask {
    pub(super) security: ChannelSecurity,
    pub(super) chunk: Zeroizing<Vec<u8>>,
    pub(super) protected_from: usize,
    /// The last sequence number, when the channel is renewed.
    pub(super) last: Option<u32>,
    pub(super) request_id: u32,
    pub(super) agreement: Box<dyn KeyAgreement>,
}

/// A token.
pub(super) struct Answer {
    pub(super) security: ChannelSecurity,
    pub(super) keys: ChannelKeys,
    pub(super) token_id: u32,
    pub(super) lifetime_ms: u32,
    pub(super) sequence: u32,
}

impl AnswerTask {
    pub(super) fn run(mut self) -> Result<Answer, Misbehavior> {
        let policy = self.security.policy.algorithms();
        let ends = self.security.peer.as_ref().zip(self.security.own.as_ref());
        let (peer, own) = (ends.map(|(peer, _)| peer.key()), ends.map(|(_, own)| &*own.key));
        policy.open_open(&mut self.chunk, self.protected_from, peer, own).map_err(|_| Misbehavior::NotAuthentic)?;
        let content = self.chunk.get(self.protected_from..).unwrap_or_default();
        let sequence = SequenceHeader::parse(content)?;
        if self.last.is_some_and(|last| !policy.sequence_follows(last, sequence.number)) {
            return Err(Misbehavior::Sequence);
        }
        if sequence.request_id != self.request_id {
            return Err(Misbehavior::UnknownRequest);
        }
        let response = parse_open(policy, content.get(SEQUENCE_HEADER..).unwrap_or_default(), OpenResponse::parse)?;
        if response.status.is_bad() || response.lifetime_ms == 0 {
            return Err(Misbehavior::Body);
        }
        if response.channel_id != self.security.channel_id {
            return Err(Misbehavior::OtherChannel);
        }
        let encrypt = self.security.mode == MessageSecurityMode::SignAndEncrypt;
        let keys = self.agreement.keys(Role::Client, &response.nonce, encrypt).map_err(|_| Misbehavior::Nonce)?;
        Ok(Answer {
            security: self.security,
            keys,
            token_id: response.token_id,
            lifetime_ms: response.lifetime_ms,
            sequence: sequence.number,
        })
    }
}
