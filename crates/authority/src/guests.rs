//! Grants on behalf of clients that cannot carry a token: a guard asks, for its own server and for nobody else's. What it
//! saw proven (a channel's certificate, a user's signature) it vouches for; passwords and registrations are checked here.

use access_model::{Reason, Refusal, Thumbprint};
use pdp::plant::SignIn;
use zeroize::Zeroizing;

use crate::core::{Authority, unavailable};
use crate::issue::{Flow, Issued, Refreshing, TokenRequest};
use crate::refresh::way_of;

/// A guard's question for a grant of one of its clients.
#[derive(Clone, Debug)]
pub struct GuestRequest {
    /// The guard's ApplicationUri: whom the token is for, and who must ask.
    pub audience: String,
    /// The certificate that the asker has proven to hold.
    pub guard: Thumbprint,
    /// The certificate of the client's channel, which the guard saw proven; none over a channel without security.
    pub client: Option<Thumbprint>,
    /// The client's network address.
    pub address: Option<String>,
    /// Who the client says it is.
    pub guest: Guest,
}

/// Who a client without a token says it is.
#[derive(Clone)]
pub enum Guest {
    /// A person, by password.
    UserName {
        /// The name.
        name: String,
        /// The password.
        password: Zeroizing<String>,
    },
    /// The person with this certificate; the guard saw its signature.
    Certificate(Thumbprint),
    /// Nobody: `anonymous@<server>`.
    Anonymous,
    /// Whoever the token before was for, by the refresh token that came with it.
    Renewal(Zeroizing<String>),
}

impl std::fmt::Debug for Guest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UserName { name, .. } => write!(f, "UserName({name})"),
            Self::Certificate(certificate) => write!(f, "Certificate({certificate})"),
            Self::Anonymous => f.write_str("Anonymous"),
            Self::Renewal(_) => f.write_str("Renewal"),
        }
    }
}

impl Authority {
    /// A token for a guard to keep, bound to its client's certificate, or to the guard's own when the client has none.
    ///
    /// # Errors
    /// The asker is not the server it asks for, the plant file lets nobody sign in there like this, or as
    /// [`Authority::issue`]. Either way there is an audit record.
    pub async fn issue_to_guest(&self, request: &GuestRequest) -> Result<Issued, Refusal> {
        let address = request.address.clone();
        let asked = match self.admit_guest(request).await {
            Ok(asked) => asked,
            Err(refusal) => {
                self.record_refusal(&request.name(), address.as_deref(), &refusal).await?;
                return Err(refusal);
            }
        };
        let confirmation = request.client.unwrap_or(request.guard);
        match asked {
            Admitted::Goes(secret) => self.refresh_guest(&secret, confirmation, &request.audience, address).await,
            Admitted::Comes { way, person, application } => {
                let question = TokenRequest {
                    flow: Flow::Guest,
                    person: Some(person),
                    application,
                    confirmation,
                    audience: request.audience.clone(),
                    roles: None,
                    break_glass: None,
                    padding: 0,
                    refresh: Refreshing::Guest(way),
                    address,
                };
                self.issue(&question).await
            }
        }
    }

    async fn admit_guest(&self, request: &GuestRequest) -> Result<Admitted, Refusal> {
        // A guard speaks for its own server only: the token is of use nowhere else, so nobody else has any business.
        self.client_by_uri(&request.audience, request.guard).await?;
        let snapshot = self.snapshot();
        let server = snapshot.plant().servers.get(&request.audience);
        let none = || Refusal::new(Reason::UnknownAudience, format!("the plant has no server `{}`", request.audience));
        let server = server.ok_or_else(none)?;
        let way = match &request.guest {
            Guest::UserName { .. } => SignIn::UserName,
            Guest::Certificate(_) => SignIn::X509,
            Guest::Anonymous => SignIn::Anonymous,
            Guest::Renewal(secret) => way_of(secret)
                .ok_or_else(|| Refusal::new(Reason::UserCredentials, "the renewal is none that a guard was given"))?,
        };
        // A way that the plant file does not list any more ends the lines that began by it, too.
        if !server.sign_in.contains(&way) {
            let text =
                format!("nobody signs in at `{}` by `{}`: the plant file does not list it", server.name, way.name());
            return Err(Refusal::new(Reason::IdentityNotAccepted, text));
        }
        let person = match &request.guest {
            Guest::Renewal(secret) => return Ok(Admitted::Goes(secret.clone())),
            Guest::UserName { name, password } => {
                let address = request.address.as_deref().unwrap_or("a guard");
                self.person_by_password(name, password, address).await?
            }
            Guest::Certificate(certificate) => self.guest_by_certificate(*certificate).await?,
            Guest::Anonymous => format!("anonymous@{}", server.name),
        };
        let application = match request.client {
            Some(client) => self.application_of_guest(client).await?,
            None => None,
        };
        // Without a known application it is the guard that asks, which policies see as no application at all.
        let application = application.unwrap_or_else(|| request.audience.clone());
        Ok(Admitted::Comes { way, person, application })
    }

    /// The registered application that owns a client's certificate, if there is one that the plant knows; one that was
    /// switched off is turned away.
    async fn application_of_guest(&self, certificate: Thumbprint) -> Result<Option<String>, Refusal> {
        let known = self.inner.db.application_by_certificate(&certificate).await.map_err(unavailable)?.is_some();
        match self.client_by_certificate(certificate).await {
            Ok(client) => Ok(Some(client.uri).filter(|uri| self.snapshot().plant().applications.contains_key(uri))),
            Err(refusal) if known || refusal.reason != Reason::UnknownClient => Err(refusal),
            Err(_) => Ok(None),
        }
    }

    async fn guest_by_certificate(&self, certificate: Thumbprint) -> Result<String, Refusal> {
        let user = self.inner.db.user_by_certificate(&certificate).await.map_err(unavailable)?;
        let unknown = || Refusal::new(Reason::UserCredentials, format!("no user has the certificate {certificate}"));
        user.filter(|user| user.enabled).map(|user| user.name).ok_or_else(unknown)
    }
}

enum Admitted {
    /// With this refresh token.
    Goes(Zeroizing<String>),
    Comes {
        way: SignIn,
        person: String,
        application: String,
    },
}

impl GuestRequest {
    /// Whom the audit names when there is no grant.
    fn name(&self) -> String {
        match &self.guest {
            Guest::UserName { name, .. } => name.clone(),
            Guest::Certificate(certificate) => certificate.to_string(),
            Guest::Anonymous => "anonymous".to_owned(),
            Guest::Renewal(_) => self.audience.clone(),
        }
    }
}
