//! CreateSession, and what is checked before the session is used.

use std::time::Duration;

use access_model::Now;
use opcua_types::{
    ApplicationDescription, ApplicationType, ByteString, CreateSessionRequest, CreateSessionResponse, ExtensionObject,
    LocalizedText, StatusCode, UAString,
};

use super::{Activated, ClientEvent, ClientSession, Established, MIN_NONCE, Stage, status_of};
use crate::Entropy;
use crate::client::endpoints::compare_endpoints;
use crate::client::link::Purpose;
use crate::client::message::Request;
use crate::crypto::SecurityPolicyId;
use crate::pki::Certificate;
use crate::wire::KeyHeader;

impl ClientSession {
    pub(super) fn create(&mut self, now: Now, entropy: &mut dyn Entropy) {
        if self.session.take().is_some_and(|session| session.used) {
            self.events.push_back(ClientEvent::Lost);
        }
        self.attempt = None;
        self.stage = Stage::Creating;
        self.client_nonce = vec![0; MIN_NONCE];
        entropy.fill(&mut self.client_nonce);
        let own = self.security().and_then(|security| security.own.clone());
        let application = &self.config.application;
        let request = CreateSessionRequest {
            request_header: Default::default(),
            client_description: ApplicationDescription {
                application_uri: application.uri.as_str().into(),
                product_uri: application.product_uri.as_str().into(),
                application_name: LocalizedText::new("", &application.name),
                application_type: ApplicationType::Client,
                gateway_server_uri: UAString::null(),
                discovery_profile_uri: UAString::null(),
                discovery_urls: None,
            },
            server_uri: UAString::null(),
            endpoint_url: self.config.url.as_str().into(),
            session_name: self.config.session_name.as_str().into(),
            client_nonce: ByteString::from(self.client_nonce.clone()),
            client_certificate: own.map_or_else(ByteString::null, |own| own.certificate.chain().into()),
            requested_session_timeout: self.config.session_timeout.as_secs_f64() * 1_000.0,
            max_response_message_size: self.config.limits.max_message,
        };
        if let Err(error) =
            self.send(Request::CreateSession(request), Purpose::Create, self.config.request_timeout, now)
        {
            self.fail(status_of(error));
        }
    }

    pub(super) fn created(&mut self, response: CreateSessionResponse, now: Now) {
        match self.check_created(&response) {
            Ok(()) => {
                let server_key = match self.server_key(&response.response_header.additional_header) {
                    Ok(key) => key,
                    Err(status) => return self.fail(status),
                };
                let milliseconds = response.revised_session_timeout.max(1_000.0);
                self.session = Some(Established {
                    id: response.session_id,
                    token: response.authentication_token,
                    nonce: response.server_nonce.value.unwrap_or_default(),
                    server_key,
                    timeout: Duration::try_from_secs_f64(milliseconds / 1_000.0).unwrap_or(Duration::MAX),
                    used: false,
                });
                self.stage = Stage::Activating(Activated::Fresh);
                self.begin_activation(Activated::Fresh, self.credential.clone(), now);
            }
            Err(status) => self.fail(status),
        }
    }

    /// The server's ephemeral key, if secrets are encrypted with one. It must be signed by the server: whoever could put
    /// another in its place would read the secret.
    pub(in crate::client) fn server_key(&self, header: &ExtensionObject) -> Result<Option<Vec<u8>>, StatusCode> {
        if !self.config.choice.wants_key() {
            return Ok(None);
        }
        let policy = self.config.choice.token_security;
        let peer = self.security().and_then(|security| security.peer.clone());
        let peer = peer.ok_or(StatusCode::BadCertificateInvalid)?;
        let key = KeyHeader::read(header).key.ok_or(StatusCode::BadSecurityPolicyRejected)?;
        policy
            .algorithms()
            .verify(peer.key(), &key.public, &key.signature)
            .map_err(|_| StatusCode::BadSecurityChecksFailed)?;
        Ok(Some(key.public))
    }

    #[cfg(test)]
    pub(in crate::client) fn server_key_for_tests(&self) -> Option<Vec<u8>> {
        self.session.as_ref().and_then(|session| session.server_key.clone())
    }

    /// What the client shall check before it uses the session (OPC 10000-4 §5.7.2): the endpoints are those of discovery,
    /// the certificate is the channel's, and the server can sign with it.
    fn check_created(&self, response: &CreateSessionResponse) -> Result<(), StatusCode> {
        if let Some(discovered) = &self.config.discovered {
            compare_endpoints(discovered, response.server_endpoints.as_deref().unwrap_or_default())?;
        }
        let security = self.security().ok_or(StatusCode::BadSecureChannelClosed)?;
        if security.policy == SecurityPolicyId::None {
            return Ok(());
        }
        let nonce = response.server_nonce.value.as_deref().unwrap_or_default();
        if nonce.len() < MIN_NONCE {
            return Err(StatusCode::BadNonceInvalid);
        }
        let (peer, own) = security.peer.as_ref().zip(security.own.as_ref()).ok_or(StatusCode::BadCertificateInvalid)?;
        let shown = response.server_certificate.value.as_deref().unwrap_or_default();
        if !Certificate::from_der(shown).is_ok_and(|shown| shown.der() == peer.der()) {
            return Err(StatusCode::BadCertificateInvalid);
        }
        let signature = response.server_signature.signature.value.as_deref().unwrap_or_default();
        let algorithms = security.policy.algorithms();
        // Most servers sign our leaf certificate, some the chain as we sent it.
        let signed = |certificate: &[u8]| {
            let message = [certificate, &self.client_nonce].concat();
            algorithms.verify(peer.key(), &message, signature).is_ok()
        };
        if signed(own.certificate.der()) || signed(&own.certificate.chain()) {
            Ok(())
        } else {
            Err(StatusCode::BadApplicationSignatureInvalid)
        }
    }
}
