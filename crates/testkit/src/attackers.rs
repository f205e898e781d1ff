//! A peer without manners: it opens a genuine channel and then sends what it likes, message by message.
//!
//! `trapkey demo --attack` and tests use it where a well-behaved client would refuse to do such a thing. It moves bytes
//! over whatever stream it is given and takes the time as a function.

use std::io::{self, Read, Write};
use std::sync::Arc;

use access_model::Now;
use opcua_types::{
    ActivateSessionRequest, ActivateSessionResponse, ApplicationDescription, BinaryDecodable, BinaryEncodable,
    ByteString, ContextOwned, CreateSessionRequest, CreateSessionResponse, DecodingOptions, ExtensionObject,
    IssuedIdentityToken, MessageInfo, NamespaceMap, NodeId, ObjectId, RequestHeader, ServiceFault, SignatureData,
    StatusCode, TypeLoaderCollection, UAString, UserTokenType,
};
use token::SystemEntropy;
use ua_proto::channel::{ChannelEvent, ClientChannel, ClientChannelConfig, EncodeError};
use ua_proto::crypto::encrypt_legacy_secret;

/// A raw peer on an open channel.
pub struct RawPeer<S> {
    stream: S,
    channel: ClientChannel,
    config: Arc<ClientChannelConfig>,
    entropy: SystemEntropy,
    now: fn() -> Now,
    context: ContextOwned,
}

/// A session that was created and is not activated yet.
pub struct RawSession {
    /// The session's authentication token.
    pub authentication: NodeId,
    /// The nonce that the next activation must be made for.
    pub nonce: ByteString,
    /// The server's certificate.
    pub certificate: ByteString,
    /// PolicyId and IssuedToken policies of the endpoint that encrypt the token.
    pub policy_id: UAString,
}

/// What the parts of an activation are made for.
#[derive(Clone, Copy, Debug)]
pub struct Nonces<'a> {
    /// The nonce inside the encrypted token.
    pub secret: &'a ByteString,
    /// The nonce that the application signs.
    pub signature: &'a ByteString,
}

fn broken(why: impl std::fmt::Display) -> io::Error {
    io::Error::other(why.to_string())
}

impl<S: Read + Write> RawPeer<S> {
    /// Opens a channel over a connected stream, as its configuration says.
    ///
    /// # Errors
    /// The stream ends or the server refuses the channel.
    pub fn open(stream: S, config: Arc<ClientChannelConfig>, now: fn() -> Now) -> io::Result<Self> {
        let channel =
            ClientChannel::new(Arc::clone(&config), now()).map_err(|_| broken("the identity does not fit"))?;
        let context = ContextOwned::new(NamespaceMap::new(), TypeLoaderCollection::new(), DecodingOptions::default());
        let mut peer = Self { stream, channel, config, entropy: SystemEntropy::new(), now, context };
        peer.until(|event| matches!(event, ChannelEvent::Opened).then_some(()))?;
        Ok(peer)
    }

    /// Moves bytes and runs jobs until `found` has what it wants.
    fn until<T>(&mut self, mut found: impl FnMut(ChannelEvent) -> Option<T>) -> io::Result<T> {
        let mut buffer = [0; 16 * 1024];
        loop {
            while let Some(event) = self.channel.poll_event() {
                match event {
                    ChannelEvent::Job(job) => {
                        let (id, outcome) = job.run();
                        self.channel.job_done(id, outcome, (self.now)(), &mut self.entropy);
                    }
                    ChannelEvent::Closed { status } => return Err(broken(status)),
                    event => {
                        if let Some(wanted) = found(event) {
                            return Ok(wanted);
                        }
                    }
                }
            }
            let outgoing = std::mem::take(self.channel.outgoing());
            self.stream.write_all(&outgoing)?;
            let received = self.stream.read(&mut buffer)?;
            let bytes = buffer.get(..received).filter(|bytes| !bytes.is_empty());
            let bytes = bytes.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
            self.channel.receive(bytes, (self.now)(), &mut self.entropy);
        }
    }

    /// Sends a request and waits for its response; a fault gives its status.
    ///
    /// # Errors
    /// The stream ends, the channel closes, or the response cannot be decoded.
    pub fn ask<Q, R>(&mut self, request: &Q) -> io::Result<Result<R, StatusCode>>
    where
        Q: BinaryEncodable + MessageInfo,
        R: BinaryDecodable,
    {
        let context = self.context.context();
        let mut encode = |out: &mut Vec<u8>| {
            NodeId::from(request.type_id()).encode(out, &context).map_err(EncodeError::from)?;
            request.encode(out, &context).map_err(EncodeError::from)
        };
        self.channel.send(&mut encode, (self.now)()).map_err(broken)?;
        let body = self.until(|event| match event {
            ChannelEvent::Message { body, .. } => Some(body),
            _ => None,
        })?;
        let context = self.context.context();
        let mut rest = body.as_slice();
        let kind = NodeId::decode(&mut rest, &context).map_err(broken)?;
        if kind == ObjectId::ServiceFault_Encoding_DefaultBinary {
            let fault = ServiceFault::decode(&mut rest, &context).map_err(broken)?;
            return Ok(Err(fault.response_header.service_result));
        }
        R::decode(&mut rest, &context).map(Ok).map_err(broken)
    }

    /// Creates a session.
    ///
    /// # Errors
    /// As [`RawPeer::ask`], or the server refuses it, or takes no encrypted tokens.
    pub fn create_session(&mut self, application_uri: &str) -> io::Result<RawSession> {
        let certificate = self.config.identity.as_ref().map(|own| own.certificate.der().to_vec()).unwrap_or_default();
        let mut nonce = vec![0; 32];
        token::Entropy::fill(&mut self.entropy, &mut nonce);
        let request = CreateSessionRequest {
            client_description: ApplicationDescription {
                application_uri: application_uri.into(),
                ..Default::default()
            },
            endpoint_url: self.config.endpoint_url.as_str().into(),
            session_name: "raw".into(),
            client_nonce: ByteString::from(nonce),
            client_certificate: ByteString::from(certificate),
            requested_session_timeout: 60_000.0,
            ..Default::default()
        };
        let created: CreateSessionResponse = self.ask(&request)?.map_err(broken)?;
        let endpoints = created.server_endpoints.unwrap_or_default();
        let uri = self.config.policy.uri();
        let endpoint = endpoints
            .iter()
            .find(|one| one.security_policy_uri.as_ref() == uri && one.security_mode == self.config.mode);
        let policies = endpoint.and_then(|endpoint| endpoint.user_identity_tokens.clone()).unwrap_or_default();
        let encrypted = policies.into_iter().find(|policy| {
            policy.token_type == UserTokenType::IssuedToken && !policy.security_policy_uri.as_ref().ends_with("#None")
        });
        Ok(RawSession {
            authentication: created.authentication_token,
            nonce: created.server_nonce,
            certificate: created.server_certificate,
            policy_id: encrypted.ok_or_else(|| broken("the endpoint takes no encrypted tokens"))?.policy_id,
        })
    }

    /// Activates `session` with a token in the legacy form. An honest client takes both nonces, the one the token is
    /// encrypted for and the one the application signs, from the session itself.
    ///
    /// # Errors
    /// As [`RawPeer::ask`]; what the server says comes back as a status.
    pub fn activate(&mut self, session: &RawSession, token: &[u8], made_for: Nonces<'_>) -> io::Result<StatusCode> {
        let policy = self.config.policy.algorithms();
        let (Some(own), Some(server)) = (self.config.identity.clone(), self.config.server_certificate.clone()) else {
            return Err(broken("the channel is not protected"));
        };
        let secret = encrypt_legacy_secret(policy, server.key(), token, made_for.secret.as_ref()).map_err(broken)?;
        let user = IssuedIdentityToken {
            policy_id: session.policy_id.clone(),
            token_data: ByteString::from(secret),
            encryption_algorithm: policy.encryption_uri().into(),
        };
        let proven = [session.certificate.as_ref(), made_for.signature.as_ref()].concat();
        let signature = policy.sign(&own.key, &proven).map_err(broken)?;
        let request = ActivateSessionRequest {
            request_header: RequestHeader {
                authentication_token: session.authentication.clone(),
                ..Default::default()
            },
            client_signature: SignatureData {
                algorithm: policy.signature_uri().into(),
                signature: ByteString::from(signature),
            },
            user_identity_token: ExtensionObject::from_message(user),
            ..Default::default()
        };
        let answer = self.ask::<_, ActivateSessionResponse>(&request)?;
        Ok(answer.map_or_else(|status| status, |activated| activated.response_header.service_result))
    }
}
