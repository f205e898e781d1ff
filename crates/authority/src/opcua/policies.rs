//! The UserTokenPolicies of the service: which identities FinishRequestToken and RequestAccessToken take, and what protects
//! the secret or signature of each (OPC 10000-4 §7.41, OPC 10000-12 §9.6.6).

use opcua_types::{UAString, UserTokenPolicy, UserTokenType};
use ua_proto::crypto::SecurityPolicyId;

/// PolicyId of the implicit flow.
pub const IMPLICIT: &str = "implicit";
/// PolicyId of a user name whose password is in clear inside the encrypted channel. With the name of a security policy
/// behind it (`username-Basic256Sha256`), the password is encrypted with that policy besides.
pub const USER_NAME: &str = "username";
/// PolicyId of a token of an identity provider, as [`USER_NAME`].
pub const ISSUED: &str = "jwt";
/// Before the name of a security policy: PolicyId of a user certificate.
const CERTIFICATE: &str = "certificate";
const JWT: &str = "http://opcfoundation.org/UA/UserToken#JWT";
/// What secrets are encrypted and signatures made with.
const ENCRYPTED: [SecurityPolicyId; 3] =
    [SecurityPolicyId::Aes256Sha256RsaPss, SecurityPolicyId::Aes128Sha256RsaOaep, SecurityPolicyId::Basic256Sha256];

/// What an identity is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The session's own user.
    Implicit,
    /// A user name with a password.
    UserName,
    /// A user certificate.
    Certificate,
    /// A token of an identity provider.
    Issued,
}

/// One policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TokenPolicy {
    pub(super) kind: Kind,
    /// What protects the secret or makes the signature; `None` for nothing of its own.
    pub(super) security: SecurityPolicyId,
}

impl TokenPolicy {
    /// Every policy, the better protected first: of a service that takes tokens of identity providers or not, and that
    /// has a certificate of its own to encrypt for or not.
    pub(super) fn all(issued: bool, certificate: bool) -> Vec<Self> {
        let of = |kind| ENCRYPTED.into_iter().map(move |security| Self { kind, security });
        let clear = |kind| Self { kind, security: SecurityPolicyId::None };
        let mut all = vec![clear(Kind::Implicit)];
        if certificate {
            all.extend(of(Kind::Certificate));
            all.extend(of(Kind::UserName));
        }
        all.push(clear(Kind::UserName));
        if issued {
            all.extend(of(Kind::Issued).filter(|_| certificate));
            all.push(clear(Kind::Issued));
        }
        all
    }

    /// PolicyId.
    pub(super) fn id(self) -> String {
        let kind = match self.kind {
            Kind::Implicit => IMPLICIT,
            Kind::UserName => USER_NAME,
            Kind::Certificate => CERTIFICATE,
            Kind::Issued => ISSUED,
        };
        if self.security == SecurityPolicyId::None {
            kind.to_owned()
        } else {
            format!("{kind}-{}", self.security.name())
        }
    }

    pub(super) fn described(self) -> UserTokenPolicy {
        let token_type = match self.kind {
            Kind::Implicit => UserTokenType::Anonymous,
            Kind::UserName => UserTokenType::UserName,
            Kind::Certificate => UserTokenType::Certificate,
            Kind::Issued => UserTokenType::IssuedToken,
        };
        UserTokenPolicy {
            policy_id: self.id().into(),
            token_type,
            issued_token_type: if self.kind == Kind::Issued { JWT.into() } else { UAString::null() },
            issuer_endpoint_url: UAString::null(),
            security_policy_uri: self.security.uri().into(),
        }
    }

    pub(super) fn is_clear(self) -> bool {
        self.security == SecurityPolicyId::None
    }
}
