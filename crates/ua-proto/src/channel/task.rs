//! The server's work for one OPN: everything between its bytes and the bytes of the answer, as one job without state.
//!
//! Failures that an attacker could learn from (does it decrypt, does it verify, is the certificate trusted) run through the
//! same operations and share one code; only the audit learns which it was.

use std::sync::Arc;
use std::time::Duration;

use access_model::{Reason, UnixTime};
use opcua_types::{MessageSecurityMode, StatusCode};
use zeroize::Zeroizing;

use super::ChannelSecurity;
use crate::crypto::{ChannelKeys, KeyAgreement, Role, SecurityPolicy};
use crate::pki::{self, Certificate, OwnIdentity, Purpose, Rejection, TrustList};
use crate::wire::{
    CHUNK_HEADERS, ChunkKind, MessageHeader, MessageKind, Misbehavior, OpenHeader, OpenRequest, OpenResponse,
    SequenceHeader,
};

/// Everything the job needs.
pub(super) struct OpenTask {
    pub(super) policy: &'static dyn SecurityPolicy,
    /// The chunk, and where its protected part begins.
    pub(super) chunk: Zeroizing<Vec<u8>>,
    pub(super) protected_from: usize,
    /// The sender's certificate chain as it came.
    pub(super) sender: Vec<u8>,
    pub(super) own: Arc<OwnIdentity>,
    pub(super) trust: Arc<TrustList>,
    pub(super) now: UnixTime,
    pub(super) agreement: Box<dyn KeyAgreement>,
    pub(super) channel_id: u32,
    pub(super) token_id: u32,
    /// Sequence number of the answer.
    pub(super) reply_sequence: u32,
    /// Modes that are offered with the policy, and the one that is for discovery only.
    pub(super) modes: Vec<MessageSecurityMode>,
    pub(super) discovery: bool,
    pub(super) lifetime: (Duration, Duration),
    /// The channel as it is and the last sequence number, when it is to be renewed.
    pub(super) current: Option<(ChannelSecurity, u32)>,
}

/// A token was made.
pub(super) struct Opened {
    pub(super) security: ChannelSecurity,
    pub(super) trust: Arc<TrustList>,
    pub(super) keys: ChannelKeys,
    pub(super) token_id: u32,
    pub(super) lifetime: Duration,
    /// What was asked for, in milliseconds.
    pub(super) asked_ms: u32,
    pub(super) sequence: u32,
    pub(super) reply_sequence: u32,
    pub(super) reply: Vec<u8>,
}

/// No token was made.
pub(super) struct Refused {
    /// What the peer is told.
    pub(super) told: StatusCode,
    pub(super) told_reason: String,
    /// What really happened.
    pub(super) reason: Reason,
    pub(super) status: StatusCode,
    pub(super) detail: String,
    pub(super) rejected: Option<Vec<u8>>,
}

impl From<Misbehavior> for Refused {
    fn from(fault: Misbehavior) -> Self {
        Self {
            told: fault.status(),
            told_reason: fault.told(),
            reason: fault.reason(),
            status: fault.true_status(),
            detail: fault.to_string(),
            rejected: None,
        }
    }
}

impl Refused {
    /// The certificate is not acceptable: told like a signature that does not verify.
    fn certificate(rejection: Rejection, sender: &[u8]) -> Self {
        Self {
            told: StatusCode::BadSecurityChecksFailed,
            told_reason: String::new(),
            reason: rejection.reason,
            status: rejection.status,
            detail: rejection.detail,
            rejected: Some(sender.to_vec()),
        }
    }
}

/// Why the sender's certificate does not do, and whose key stands in for it.
type Sender = Result<Arc<Certificate>, Rejection>;

impl OpenTask {
    pub(super) fn run(mut self) -> Result<Opened, Refused> {
        let sender = self.open()?;
        let sequence = SequenceHeader::parse(self.chunk.get(self.protected_from..).unwrap_or_default())?;
        let body = self.chunk.get(self.protected_from + crate::wire::SEQUENCE_HEADER..).unwrap_or_default();
        let request = parse_open(self.policy, body, OpenRequest::parse)?;
        self.check(&request, sequence)?;
        self.check_peer(sender.as_ref())?;
        let lifetime = self.lifetime_for(request.lifetime_ms);
        let encrypt = request.mode == MessageSecurityMode::SignAndEncrypt;
        let keys = self.agreement.keys(Role::Server, &request.nonce, encrypt).map_err(|_| Misbehavior::Nonce)?;
        let security = ChannelSecurity {
            channel_id: self.channel_id,
            policy: self.policy.id(),
            mode: request.mode,
            peer: sender,
            own: Some(self.own.clone()),
            discovery_only: self.discovery,
        };
        let reply = self.reply(&request, sequence.request_id, &security, lifetime)?;
        Ok(Opened {
            security,
            trust: self.trust,
            keys,
            token_id: self.token_id,
            lifetime,
            asked_ms: request.lifetime_ms,
            sequence: sequence.number,
            reply_sequence: self.reply_sequence,
            reply,
        })
    }

    /// Decrypts and verifies the chunk in place; returns the validated certificate of its sender.
    fn open(&mut self) -> Result<Option<Arc<Certificate>>, Refused> {
        if self.sender.is_empty() {
            self.policy
                .open_open(&mut self.chunk, self.protected_from, None, None)
                .map_err(|_| Misbehavior::NotAuthentic)?;
            return Ok(None);
        }
        let parsed = Certificate::from_der(&self.sender).map(Arc::new);
        // A certificate that does not do costs the attacker's clock as much as one that does: our own key stands in.
        let usable = parsed.as_ref().ok().filter(|certificate| self.policy.accepts_key(certificate.key())).cloned();
        let key = usable.as_ref().unwrap_or(&self.own.certificate).key();
        let opened = self.policy.open_open(&mut self.chunk, self.protected_from, Some(key), Some(&self.own.key));
        let sender = self.accept(parsed, usable.is_some());
        match (sender, opened) {
            (Ok(certificate), Ok(())) => Ok(Some(certificate)),
            (Ok(_), Err(_)) => Err(Misbehavior::NotAuthentic.into()),
            (Err(rejection), _) => Err(Refused::certificate(rejection, &self.sender)),
        }
    }

    fn accept(&self, parsed: Result<Arc<Certificate>, pki::InvalidCertificate>, usable: bool) -> Sender {
        let certificate = parsed.map_err(|fault| {
            Rejection::new(Reason::CertificateInvalid, StatusCode::BadCertificateInvalid, fault.to_string())
        })?;
        pki::validate(&certificate, &self.trust, Purpose::Client { application_uri: None }, self.now)?;
        if usable {
            return Ok(certificate);
        }
        let detail = "the certificate's key does not fit the security policy";
        Err(Rejection::new(Reason::CertificateKey, StatusCode::BadCertificatePolicyCheckFailed, detail))
    }

    fn check(&self, request: &OpenRequest, sequence: SequenceHeader) -> Result<(), Misbehavior> {
        match &self.current {
            None if !request.issue => return Err(Misbehavior::RequestType),
            None => {}
            Some(_) if request.issue => return Err(Misbehavior::RequestType),
            Some((security, last)) => {
                if !self.policy.sequence_follows(*last, sequence.number) {
                    return Err(Misbehavior::Sequence);
                }
                if security.mode != request.mode {
                    return Err(Misbehavior::RenewalChanged);
                }
            }
        }
        if self.modes.contains(&request.mode) { Ok(()) } else { Err(Misbehavior::Mode) }
    }

    /// A renewal comes from the application that the channel was issued to.
    fn check_peer(&self, sender: Option<&Arc<Certificate>>) -> Result<(), Misbehavior> {
        let Some((security, _)) = &self.current else { return Ok(()) };
        if security.peer.as_deref() == sender.map(AsRef::as_ref) { Ok(()) } else { Err(Misbehavior::RenewalChanged) }
    }

    fn lifetime_for(&self, asked_ms: u32) -> Duration {
        let (least, most) = self.lifetime;
        let asked = if asked_ms == 0 { most } else { Duration::from_millis(asked_ms.into()) };
        let granted = asked.max(least).min(most);
        granted.clamp(Duration::from_millis(1), Duration::from_millis(u32::MAX.into()))
    }

    fn reply(
        &self,
        request: &OpenRequest,
        request_id: u32,
        security: &ChannelSecurity,
        lifetime: Duration,
    ) -> Result<Vec<u8>, Refused> {
        let response = OpenResponse {
            request_handle: request.request_handle,
            status: StatusCode::Good,
            channel_id: self.channel_id,
            token_id: self.token_id,
            lifetime_ms: u32::try_from(lifetime.as_millis()).unwrap_or(u32::MAX),
            nonce: self.agreement.nonce().to_vec().into(),
        };
        let sequence = SequenceHeader { number: self.reply_sequence, request_id };
        let put_body = |out: &mut Vec<u8>| response.put(self.now, out);
        let sealed = seal_open(self.policy, security, sequence, &put_body);
        sealed.map_err(|fault| Refused {
            told: StatusCode::BadInternalError,
            told_reason: String::new(),
            reason: Reason::ChannelSecurity,
            status: StatusCode::BadInternalError,
            detail: format!("the answer could not be sealed: {fault}"),
            rejected: None,
        })
    }
}

/// Reads the body of an OPN that was opened. Under the policies of elliptic curves there is nothing to pad, but one stack
/// (open62541) writes the size of no padding all the same: a zero, which was signed with the rest.
pub(super) fn parse_open<T>(
    policy: &dyn SecurityPolicy,
    body: &[u8],
    parse: fn(&[u8]) -> Result<T, Misbehavior>,
) -> Result<T, Misbehavior> {
    match (parse(body), body) {
        (Err(Misbehavior::Trailing), [body @ .., 0]) if policy.id().is_ecc() => parse(body),
        (parsed, _) => parsed,
    }
}

/// A whole OPN chunk, sealed from our identity for the peer's certificate. A private-key operation.
pub(super) fn seal_open(
    policy: &dyn SecurityPolicy,
    security: &ChannelSecurity,
    sequence: SequenceHeader,
    put_body: &dyn Fn(&mut Vec<u8>) -> Result<(), Misbehavior>,
) -> Result<Vec<u8>, Misbehavior> {
    let ends = security.own.as_ref().zip(security.peer.as_ref());
    let chain = ends.map(|(own, _)| own.certificate.chain());
    let thumbprint = ends.map(|(_, peer)| peer.thumbprint_sha1());
    let mut chunk = Vec::with_capacity(CHUNK_HEADERS + 512 + chain.as_ref().map_or(0, |chain| chain.len() + 1024));
    MessageHeader::begin(MessageKind::Open, ChunkKind::Final, &mut chunk);
    let header = OpenHeader {
        channel_id: security.channel_id,
        policy_uri: policy.id().uri(),
        sender: chain.as_deref(),
        receiver: thumbprint.as_ref().map(|print| print.as_slice()),
        end: 0,
    };
    header.put(&mut chunk);
    let protected_from = chunk.len();
    sequence.put(&mut chunk);
    put_body(&mut chunk)?;
    let (own, peer) = (ends.map(|(own, _)| &*own.key), ends.map(|(_, peer)| peer.key()));
    policy.seal_open(&mut chunk, protected_from, own, peer).map_err(|_| Misbehavior::NotAuthentic)?;
    Ok(chunk)
}
