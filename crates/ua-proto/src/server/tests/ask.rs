//! What a client says: requests, sessions, identities.

use std::time::Duration;

use access_model::{AuditKind, Epoch, Outcome, Reason, Rights, ScopeMap};
use opcua_types::{
    ActivateSessionRequest, ActivateSessionResponse, AnonymousIdentityToken, BinaryDecodable, BinaryEncodable,
    ByteString, ContextOwned, CreateSessionRequest, CreateSessionResponse, DateTime, DecodingOptions, ExtensionObject,
    IssuedIdentityToken, MessageInfo, NodeId, RequestHeader, ResponseHeader, SignatureData, StatusCode,
    UserNameIdentityToken, X509IdentityToken,
};
use pep::{Contact, FailMode};
use token::{Claims, RightsClaim, SealedToken, Signer, map_digest};

use super::keys::{CLIENT, ISSUER, SERVER, SERVER_URI, of};
use super::world::*;
use crate::channel::EncodeError;
use crate::crypto::SecurityPolicyId;
use crate::pki::OwnIdentity;
use crate::server::{ConnId, EndpointSecurity};

impl World {
    /// A header for a request of this session.
    pub(super) fn header(&mut self, token: &NodeId) -> RequestHeader {
        self.next_handle += 1;
        RequestHeader::new(token, &DateTime::null(), self.next_handle)
    }

    /// Sends a request; its answer comes when it comes.
    pub(super) fn send<T: BinaryEncodable + MessageInfo>(&mut self, conn: ConnId, request: &T) -> u32 {
        let owned = ContextOwned::default();
        let ctx = owned.context();
        let id: NodeId = request.type_id().into();
        let mut body = id.encode_to_vec(&ctx);
        body.extend(request.encode_to_vec(&ctx));
        self.send_raw(conn, &body)
    }

    pub(super) fn send_raw(&mut self, conn: ConnId, body: &[u8]) -> u32 {
        let peer = self.peers.get_mut(&conn).unwrap();
        let mut encode = |out: &mut Vec<u8>| {
            out.extend_from_slice(body);
            Ok::<(), EncodeError>(())
        };
        let id = peer.channel.send(&mut encode, self.now).expect("the channel takes requests");
        self.run();
        id
    }

    /// The answer to a request, if it came.
    pub(super) fn answer<T: BinaryDecodable>(&mut self, conn: ConnId, request: u32) -> Option<Result<T, StatusCode>> {
        let body = self.peers.get_mut(&conn)?.answers.remove(&request)?;
        let options = DecodingOptions { max_array_length: 100_000, ..DecodingOptions::default() };
        let owned = ContextOwned::new_default(Default::default(), options);
        let ctx = owned.context();
        let mut stream = body.as_slice();
        let id = NodeId::decode(&mut stream, &ctx).unwrap();
        if id == opcua_types::ObjectId::ServiceFault_Encoding_DefaultBinary {
            return Some(Err(ResponseHeader::decode(&mut stream, &ctx).unwrap().service_result));
        }
        let response = T::decode(&mut stream, &ctx).unwrap();
        assert!(stream.is_empty(), "bytes behind the response");
        Some(Ok(response))
    }

    /// Sends a request and takes its answer.
    pub(super) fn ask<T, R>(&mut self, conn: ConnId, request: &T) -> Result<R, StatusCode>
    where
        T: BinaryEncodable + MessageInfo,
        R: BinaryDecodable,
    {
        let id = self.send(conn, request);
        self.answer(conn, id).expect("an answer")
    }

    pub(super) fn create(&mut self, conn: ConnId) -> Login {
        self.try_create(conn, |_| {}).unwrap()
    }

    pub(super) fn try_create(
        &mut self,
        conn: ConnId,
        change: impl FnOnce(&mut CreateSessionRequest),
    ) -> Result<Login, StatusCode> {
        let peer = &self.peers[&conn];
        let own = peer.own.clone();
        let mut request = CreateSessionRequest {
            request_header: RequestHeader::new(&NodeId::null(), &DateTime::null(), 1),
            endpoint_url: URL.into(),
            session_name: "test".into(),
            client_nonce: ByteString::from(vec![7_u8; 32]),
            requested_session_timeout: 600_000.0,
            ..CreateSessionRequest::default()
        };
        if let Some(own) = &own {
            request.client_certificate = ByteString::from(own.certificate.der().to_vec());
            request.client_description.application_uri = own.certificate.application_uri().unwrap().into();
        }
        change(&mut request);
        let policy = self.peers[&conn].security.0;
        let response: CreateSessionResponse = self.ask(conn, &request)?;
        if let Some(own) = own {
            let message = [own.certificate.der(), request.client_nonce.as_ref()].concat();
            let signature = response.server_signature.signature.as_ref();
            policy
                .algorithms()
                .verify(of(&SERVER, policy).certificate.key(), &message, signature)
                .expect("the server signed");
        }
        Ok(Login { token: response.authentication_token, nonce: response.server_nonce })
    }

    /// The client's signature over the last nonce it knows.
    pub(super) fn signature(&self, conn: ConnId, nonce: &ByteString) -> SignatureData {
        let peer = &self.peers[&conn];
        peer.own.as_ref().map_or_else(SignatureData::default, |own| sign(own, peer.security.0, nonce))
    }

    pub(super) fn activation(
        &mut self,
        conn: ConnId,
        login: &Login,
        identity: ExtensionObject,
    ) -> ActivateSessionRequest {
        ActivateSessionRequest {
            request_header: self.header(&login.token),
            client_signature: self.signature(conn, &login.nonce),
            user_identity_token: identity,
            ..ActivateSessionRequest::default()
        }
    }

    /// Activates; on success the login learns the new nonce.
    pub(super) fn activate(
        &mut self,
        conn: ConnId,
        login: &mut Login,
        identity: ExtensionObject,
    ) -> Result<(), StatusCode> {
        let request = self.activation(conn, login, identity);
        let response: ActivateSessionResponse = self.ask(conn, &request)?;
        assert_ne!(response.server_nonce, login.nonce, "a new nonce with each activation");
        login.nonce = response.server_nonce;
        Ok(())
    }

    /// A connection with a session of this user.
    pub(super) fn log_in(&mut self, security: EndpointSecurity, name: &str) -> (ConnId, Login) {
        let conn = self.connect(security);
        let mut login = self.create(conn);
        let identity = self.user(conn, &login, name, &format!("{name}-password"));
        self.activate(conn, &mut login, identity).unwrap();
        (conn, login)
    }

    /// A connection with a session by token.
    pub(super) fn log_in_by_token(&mut self, token: &SealedToken) -> (ConnId, Login) {
        let conn = self.connect(ENCRYPT);
        let mut login = self.create(conn);
        self.activate(conn, &mut login, clear_token(token.as_bytes())).unwrap();
        (conn, login)
    }

    /// Activates with a user certificate; `nonce` is what the user signs, the last one unless given.
    pub(super) fn activate_x509(
        &mut self,
        conn: ConnId,
        login: &mut Login,
        user: &OwnIdentity,
        nonce: Option<ByteString>,
    ) -> Result<(), StatusCode> {
        let policy = match self.peers[&conn].security.0 {
            SecurityPolicyId::None => SecurityPolicyId::Basic256Sha256,
            policy => policy,
        };
        let identity = ExtensionObject::new(X509IdentityToken {
            policy_id: format!("certificate_{}", policy.name()).into(),
            certificate_data: ByteString::from(user.certificate.der().to_vec()),
        });
        let mut request = self.activation(conn, login, identity);
        request.user_token_signature = sign(user, policy, &nonce.unwrap_or(login.nonce.clone()));
        let response: ActivateSessionResponse = self.ask(conn, &request)?;
        login.nonce = response.server_nonce;
        Ok(())
    }

    /// A user name token, its password encrypted for the server.
    pub(super) fn user(&self, conn: ConnId, login: &Login, name: &str, password: &str) -> ExtensionObject {
        let policy = match self.peers[&conn].security.0 {
            SecurityPolicyId::None => SecurityPolicyId::Basic256Sha256,
            policy => policy,
        };
        let algorithms = policy.algorithms();
        let cipher = crate::crypto::encrypt_legacy_secret(
            algorithms,
            SERVER.certificate.key(),
            password.as_bytes(),
            login.nonce.as_ref(),
        );
        ExtensionObject::new(UserNameIdentityToken {
            policy_id: format!("username_{}", policy.name()).into(),
            user_name: name.into(),
            password: ByteString::from(cipher.unwrap()),
            encryption_algorithm: algorithms.encryption_uri().into(),
        })
    }

    /// Claims for alice from the test's authority, for the usual client, over in `lifetime`.
    pub(super) fn claims(&self, lifetime: Duration) -> Claims {
        let map = ScopeMap::new(SCOPES).unwrap();
        let all = Rights::BROWSE | Rights::READ | Rights::WRITE | Rights::CALL;
        Claims {
            issuer: "authority".into(),
            subject: "alice".into(),
            audience: SERVER_URI.into(),
            expires: self.now.unix + lifetime,
            not_before: self.now.unix,
            issued_at: self.now.unix,
            id: "token-1".into(),
            client: None,
            confirmation: Some(CLIENT.certificate.thumbprint()),
            roles: vec!["Operator".into()],
            groups: Vec::new(),
            rights: Some(RightsClaim::new(map_digest(&map), [(all, vec![1]), (Rights::BROWSE, vec![2])])),
            epoch: Epoch(1),
            padding: 0,
        }
    }

    pub(super) fn token(&self, lifetime: Duration) -> SealedToken {
        token::mint(&self.claims(lifetime), &ISSUER).unwrap()
    }

    /// Records of a kind, with their outcome.
    pub(super) fn outcomes(&self, kind: AuditKind) -> Vec<Outcome> {
        self.records.iter().filter(|record| record.kind == kind).map(|record| record.outcome).collect()
    }

    /// Whether the last record of a kind names this reason.
    pub(super) fn last_reason(&self, kind: AuditKind) -> Option<Reason> {
        self.records.iter().rev().find(|record| record.kind == kind).and_then(|record| match record.outcome {
            Outcome::Denied(reason) => Some(reason),
            _ => None,
        })
    }
}

pub(super) fn sign(own: &OwnIdentity, policy: SecurityPolicyId, nonce: &ByteString) -> SignatureData {
    let message = [of(&SERVER, policy).certificate.der(), nonce.as_ref()].concat();
    SignatureData {
        algorithm: policy.algorithms().signature_uri().into(),
        signature: ByteString::from(policy.algorithms().sign(&own.key, &message).unwrap()),
    }
}

pub(super) fn anonymous() -> ExtensionObject {
    ExtensionObject::new(AnonymousIdentityToken { policy_id: "anonymous".into() })
}

pub(super) fn clear_token(token: &[u8]) -> ExtensionObject {
    issued("jwt_None", token.to_vec(), "")
}

pub(super) fn issued(policy: &str, bytes: Vec<u8>, algorithm: &str) -> ExtensionObject {
    ExtensionObject::new(IssuedIdentityToken {
        policy_id: policy.into(),
        token_data: ByteString::from(bytes),
        encryption_algorithm: algorithm.into(),
    })
}

pub(super) fn mint(claims: &Claims, signer: &Signer) -> SealedToken {
    token::mint(claims, signer).unwrap()
}

/// A gate in contact with its authority.
pub(super) fn contact(fail_mode: FailMode) -> Contact {
    Contact { issuer: "authority".into(), timeout: Duration::from_secs(10), fail_mode }
}
