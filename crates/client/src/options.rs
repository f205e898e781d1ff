//! What a client is told at its start.

use std::sync::Arc;
use std::time::Duration;

use gates::https::HttpsClient;
use gates::opcua::client::{Reconnect, Way};
use opcua_types::{MessageSecurityMode, UserTokenType};
use ua_proto::client::{ClientApplication, Credential, EndpointWish, TokenIssuer};
use ua_proto::crypto::{KeyLayout, SecurityPolicyId};
use ua_proto::pki::{OwnIdentity, SharedTrust};
use zeroize::Zeroizing;

use crate::known::KnownAuthority;

/// Who the client is to a server.
#[derive(Clone, Debug)]
pub enum Login {
    /// An access token if the endpoint takes one, fetched from the authority that it names; else anonymous.
    Automatic,
    /// An access token, fetched from the authority that the endpoint or [`ClientOptions::issuer`] names.
    Token,
    /// This access token, which the caller renews with [`crate::Client::present`].
    ThisToken(Zeroizing<Vec<u8>>),
    /// Nobody.
    Anonymous,
    /// Name and password.
    UserName {
        /// The name.
        name: String,
        /// The password.
        password: Zeroizing<String>,
    },
    /// A user's certificate and key.
    Certificate(Arc<OwnIdentity>),
}

impl Login {
    pub(crate) fn kinds(&self) -> Vec<UserTokenType> {
        match self {
            Self::Automatic => vec![UserTokenType::IssuedToken, UserTokenType::Anonymous],
            Self::Token | Self::ThisToken(_) => vec![UserTokenType::IssuedToken],
            Self::Anonymous => vec![UserTokenType::Anonymous],
            Self::UserName { .. } => vec![UserTokenType::UserName],
            Self::Certificate(_) => vec![UserTokenType::Certificate],
        }
    }

    /// Whether whoever is logged in to learns something that it could use elsewhere.
    pub(crate) const fn gives_a_secret(&self) -> bool {
        matches!(self, Self::UserName { .. } | Self::ThisToken(_))
    }

    /// The credential, unless it is a token that has to be fetched.
    pub(crate) fn credential(&self) -> Option<Credential> {
        match self {
            Self::Automatic | Self::Token => None,
            Self::ThisToken(token) => Some(Credential::Issued(token.clone())),
            Self::Anonymous => Some(Credential::Anonymous),
            Self::UserName { name, password } => {
                Some(Credential::UserName { name: name.clone(), password: password.clone() })
            }
            Self::Certificate(identity) => Some(Credential::Certificate(Arc::clone(identity))),
        }
    }
}

/// How the client asks an authority for tokens.
#[derive(Clone)]
pub struct AuthorityAccess {
    /// Who the client is at an authority that is an OPC UA server.
    pub login: Login,
    /// The roles to ask for; empty asks for all.
    pub roles: Vec<String>,
    /// The way to authorities over HTTPS; its TLS identity is the client's proof.
    pub https: Option<HttpsClient>,
    /// The secret of the client at authorities over HTTPS that want one besides TLS.
    pub client_secret: Option<Zeroizing<String>>,
    /// The authorities that may be given a password or a secret. An endpoint names its authority before anybody has
    /// authenticated the server, and a server may be hostile: passwords, client secrets and tokens of others go to these
    /// and to [`ClientOptions::issuer`] only. Empty: to none that an endpoint names.
    pub known: Vec<KnownAuthority>,
}

impl Default for AuthorityAccess {
    fn default() -> Self {
        Self { login: Login::Anonymous, roles: Vec::new(), https: None, client_secret: None, known: Vec::new() }
    }
}

/// Everything a [`crate::Client`] is told.
#[derive(Clone)]
pub struct ClientOptions {
    /// The server, as `opc.tcp://host:port/path`.
    pub url: String,
    /// How a connection to the server comes about: dialled, or by the server's call (reverse connect). Authorities are
    /// always dialled.
    pub way: Way,
    /// The client as an application.
    pub application: ClientApplication,
    /// The application's certificate and key; needed unless security is switched off.
    pub identity: Option<Arc<OwnIdentity>>,
    /// Whom the client trusts; needed unless security is switched off.
    pub trust: Option<SharedTrust>,
    /// Who the client is.
    pub login: Login,
    /// How it gets tokens.
    pub authority: AuthorityAccess,
    /// The authority, when the endpoint does not name it or names the wrong one.
    pub issuer: Option<TokenIssuer>,
    /// Acceptable security policies, the preferred first.
    pub policies: Vec<SecurityPolicyId>,
    /// Acceptable modes, the preferred first.
    pub modes: Vec<MessageSecurityMode>,
    /// Whether the server's certificate must name the host that was dialled.
    pub check_host: bool,
    /// How long a request may take.
    pub request_timeout: Duration,
    /// How long the server is asked to keep a silent session.
    pub session_timeout: Duration,
    /// How often the session is checked when nothing else goes on.
    pub keep_alive: Duration,
    /// How a lost connection is made again.
    pub reconnect: Reconnect,
    /// The layout of key material that the server uses for ECC_curve25519: implementations differ.
    pub key_layout: KeyLayout,
}

impl ClientOptions {
    /// Options for a server, with the standard times: encrypted, automatic login.
    #[must_use]
    pub fn new(url: impl Into<String>, application: ClientApplication) -> Self {
        let wish = EndpointWish::default();
        Self {
            url: url.into(),
            way: Way::Dial,
            application,
            identity: None,
            trust: None,
            login: Login::Automatic,
            authority: AuthorityAccess::default(),
            issuer: None,
            policies: wish.policies,
            modes: wish.modes,
            check_host: true,
            request_timeout: Duration::from_secs(10),
            session_timeout: Duration::from_secs(60),
            keep_alive: Duration::from_secs(5),
            reconnect: Reconnect::default(),
            key_layout: KeyLayout::default(),
        }
    }

    /// Accepts endpoints without any security. For tests and for servers that have nothing to protect.
    #[must_use]
    pub fn danger_without_security(mut self) -> Self {
        self.policies.push(SecurityPolicyId::None);
        self.modes.push(MessageSecurityMode::None);
        self
    }

    /// These options for the authority of a server that was shown the certificate which `policy` takes: a token is bound to
    /// the certificate that the authority saw, so it must see the same.
    pub(crate) fn showing(&self, policy: SecurityPolicyId) -> Self {
        let fitting = self.identity.as_ref().and_then(|own| OwnIdentity::for_policy(own, policy));
        let identity = fitting.map(|own| Arc::new(OwnIdentity { others: Vec::new(), ..(*own).clone() }));
        Self { identity: identity.or_else(|| self.identity.clone()), way: Way::Dial, ..self.clone() }
    }

    pub(crate) fn wish(&self) -> EndpointWish {
        let own = self.identity.as_ref().filter(|_| self.trust.is_some());
        let able = |policy: SecurityPolicyId| own.is_some_and(|own| OwnIdentity::for_policy(own, policy).is_some());
        EndpointWish {
            // Without a trust list and a certificate whose key the policy takes, no policy but None can be spoken.
            policies: self
                .policies
                .iter()
                .copied()
                .filter(|policy| *policy == SecurityPolicyId::None || able(*policy))
                .collect(),
            modes: self.modes.clone(),
            identities: self.login.kinds(),
            danger_clear_secrets: false,
        }
    }
}
