//! Every way in which a peer can break the transport or the channel, with the code that it is told.

use access_model::Reason;
use opcua_types::StatusCode;

/// How a peer broke the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misbehavior {
    /// The message type is none of ours.
    #[error("the message type is unknown")]
    UnknownMessage,
    /// The chunk kind is unknown, or not allowed for this message type.
    #[error("the chunk kind is unknown or not allowed for this message type")]
    UnknownChunk,
    /// The size in the header is smaller than the header.
    #[error("the message is smaller than its header")]
    SizeTooSmall,
    /// The chunk is larger than the negotiated buffer.
    #[error("the chunk is larger than the negotiated buffer")]
    ChunkTooLarge,
    /// A field is cut off by the end of the message.
    #[error("a field is cut off by the end of the message")]
    Truncated,
    /// A field is longer than it may be.
    #[error("a field is longer than it may be")]
    FieldTooLong,
    /// A string is not UTF-8.
    #[error("a string is not UTF-8")]
    NotUtf8,
    /// Bytes follow the last field.
    #[error("bytes follow the last field")]
    Trailing,
    /// The endpoint URL is longer than 4,096 bytes.
    #[error("the endpoint URL is longer than 4,096 bytes")]
    UrlTooLong,
    /// A ReverseHello names a server that is not expected, or not under this URL.
    #[error("the server that calls is not expected")]
    UnknownCaller,
    /// A buffer size is below the minimum, or an Acknowledge exceeds what Hello offered.
    #[error("a buffer size is outside its bounds")]
    BufferSize,
    /// A message that is not expected now.
    #[error("the message is not expected now")]
    OutOfOrder,
    /// The message names another channel.
    #[error("the message names another channel")]
    OtherChannel,
    /// The message names a security token that is unknown or over.
    #[error("the security token is unknown or over")]
    TokenUnknown,
    /// The chunk does not decrypt or verify.
    #[error("the chunk does not decrypt or verify")]
    NotAuthentic,
    /// The sequence number does not follow the one before.
    #[error("the sequence number does not follow the one before")]
    Sequence,
    /// A chunk of one message came between the chunks of another.
    #[error("chunks of two messages are interleaved")]
    Interleaved,
    /// The request id belongs to a request that still waits for its answer.
    #[error("the request id is in use")]
    RequestIdInUse,
    /// At a client: the response answers nothing that was asked.
    #[error("the response answers no request")]
    UnknownRequest,
    /// The message body is larger than allowed, or comes in too many chunks.
    #[error("the message is larger than allowed")]
    MessageTooLarge,
    /// More bytes than a peer in this state may make us hold.
    #[error("the peer sent more than it may before it is known")]
    TooMuch,
    /// The security policy is unknown or not offered.
    #[error("the security policy is unknown or not offered")]
    Policy,
    /// The security mode is not offered with this policy.
    #[error("the security mode is not offered with this policy")]
    Mode,
    /// The OPN is for another certificate than ours.
    #[error("the message is for another certificate than ours")]
    OtherReceiver,
    /// An issue on an open channel, or a renew on one that is not open.
    #[error("the request type does not fit the channel's state")]
    RequestType,
    /// A renew with another policy, mode or certificate.
    #[error("the renewal changes the policy, the mode or the certificate")]
    RenewalChanged,
    /// The nonce has a wrong length.
    #[error("the nonce has a wrong length")]
    Nonce,
    /// The body of an OPN cannot be decoded.
    #[error("the body cannot be decoded")]
    Body,
}

impl Misbehavior {
    /// What the peer is told (facts section 5.1). Faults that could be an oracle share one code.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::UnknownMessage | Self::UnknownChunk | Self::OutOfOrder => StatusCode::BadTcpMessageTypeInvalid,
            Self::ChunkTooLarge => StatusCode::BadTcpMessageTooLarge,
            Self::SizeTooSmall | Self::Truncated | Self::FieldTooLong | Self::NotUtf8 | Self::Trailing | Self::Body => {
                StatusCode::BadDecodingError
            }
            Self::UrlTooLong | Self::UnknownCaller => StatusCode::BadTcpEndpointUrlInvalid,
            Self::BufferSize | Self::TooMuch => StatusCode::BadTcpNotEnoughResources,
            Self::OtherChannel => StatusCode::BadTcpSecureChannelUnknown,
            Self::TokenUnknown => StatusCode::BadSecureChannelTokenUnknown,
            Self::NotAuthentic
            | Self::Sequence
            | Self::Interleaved
            | Self::RequestIdInUse
            | Self::UnknownRequest
            | Self::RenewalChanged => StatusCode::BadSecurityChecksFailed,
            Self::MessageTooLarge => StatusCode::BadRequestTooLarge,
            Self::Policy => StatusCode::BadSecurityPolicyRejected,
            Self::Mode => StatusCode::BadSecurityModeRejected,
            Self::OtherReceiver => StatusCode::BadCertificateInvalid,
            Self::RequestType => StatusCode::BadRequestTypeInvalid,
            Self::Nonce => StatusCode::BadNonceInvalid,
        }
    }

    /// The true code, for the audit.
    #[must_use]
    pub const fn true_status(self) -> StatusCode {
        match self {
            Self::Sequence => StatusCode::BadSequenceNumberInvalid,
            other => other.status(),
        }
    }

    /// The word for logs, metrics and audit.
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self {
            Self::NotAuthentic | Self::TokenUnknown | Self::RenewalChanged | Self::OtherReceiver => {
                Reason::ChannelSecurity
            }
            Self::Policy | Self::Mode => Reason::ChannelPolicy,
            Self::TooMuch => Reason::TooBusy,
            _ => Reason::ProtocolMisbehavior,
        }
    }

    /// The sentence for the peer: empty when it could help an attacker (OPC 10000-6 §6.7.3).
    #[must_use]
    pub fn told(self) -> String {
        if self.status() == StatusCode::BadSecurityChecksFailed { String::new() } else { self.to_string() }
    }
}
