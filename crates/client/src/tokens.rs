//! Where access tokens come from, and when the next one is due.

use std::time::Duration;

use access_model::{Now, Thumbprint, UnixTime};
use gates::clock;
use gates::https::{HttpsClient, Target};
use token::{Entropy, SystemEntropy, danger_peek_unverified};
use tokio::sync::Mutex;
use ua_proto::client::{AuthorityProfile, TokenIssuer};
use zeroize::Zeroizing;

use crate::authority::OpcUaAuthority;
use crate::error::TokenError;
use crate::known::KnownAuthority;
use crate::oauth::{self, Grant};
use crate::options::{ClientOptions, Login};

/// Life assumed for a token that does not say when it ends.
const UNKNOWN_LIFE: Duration = Duration::from_secs(60);

/// An access token and when it was valid from and until, by our clock.
pub(crate) struct Fetched {
    pub(crate) token: Zeroizing<Vec<u8>>,
    pub(crate) at: Now,
    pub(crate) life: Duration,
    /// What the next one can be had for, instead of asking with a password again.
    pub(crate) refresh: Option<Zeroizing<String>>,
}

impl Fetched {
    /// A token that was just received. `expires` is what the authority said about it, if it said something.
    pub(crate) fn new(token: Zeroizing<Vec<u8>>, expires: Option<UnixTime>, at: Now) -> Self {
        // Only for the timing of our own renewal; whoever checks the token checks its signature too. The token counts in
        // whole seconds, so it may end before what the authority said.
        let own = danger_peek_unverified(&token).ok().and_then(|peeked| expiry(&peeked.payload));
        let expires = expires.into_iter().chain(own).min();
        let life = expires.map_or(UNKNOWN_LIFE, |expires| expires.since(at.unix));
        Self { token, at, life, refresh: None }
    }

    /// How long after it was fetched the next one is to be fetched: 80 % of its life, or up to a twentieth of it sooner,
    /// so that many clients do not ask at once.
    pub(crate) fn renew_after(&self) -> Duration {
        let mut byte = [0];
        SystemEntropy::new().fill(&mut byte);
        renewal(self.life, byte[0])
    }
}

fn renewal(life: Duration, random: u8) -> Duration {
    life.mul_f64(0.8 - 0.05 * f64::from(random) / 255.0).max(Duration::from_millis(200))
}

fn expiry(payload: &str) -> Option<UnixTime> {
    let claims: serde_json::Value = serde_json::from_str(payload).ok()?;
    claims.get("exp")?.as_i64().map(UnixTime::from_seconds)
}

/// The authority of one server.
pub(crate) struct TokenSource {
    resource: String,
    issuer: TokenIssuer,
    /// Whether the authority gets a secret only once its certificate is one of those that are known.
    to_prove: bool,
    options: ClientOptions,
    /// The open session to an authority that is an OPC UA server: opening it costs far more than a token does (P0 section
    /// 7, optimisation 1).
    opcua: Mutex<Option<OpcUaAuthority>>,
    /// The refresh token that came with the last token.
    refresh: Mutex<Option<Zeroizing<String>>>,
}

impl TokenSource {
    /// The source of tokens for the server with this ApplicationUri. What the options say about the authority holds; what
    /// only the endpoint says is looked at first.
    pub(crate) fn new(
        named: Option<TokenIssuer>,
        application_uri: &str,
        options: &ClientOptions,
    ) -> Result<Self, TokenError> {
        let (issuer, to_prove) = match &options.issuer {
            Some(configured) => (configured.clone(), false),
            None => named.ok_or(TokenError::NoIssuer).and_then(|named| believable(named, application_uri, options))?,
        };
        let resource =
            if issuer.resource_id.is_empty() { application_uri.to_owned() } else { issuer.resource_id.clone() };
        Ok(Self {
            resource,
            issuer,
            to_prove,
            options: options.clone(),
            opcua: Mutex::new(None),
            refresh: Mutex::new(None),
        })
    }

    /// Fetches a token; what it can be refreshed with is kept for the next time.
    pub(crate) async fn fetch(&self) -> Result<Fetched, TokenError> {
        let mut fetched = match self.issuer.profile {
            AuthorityProfile::OpcUa => self.ask_opcua().await,
            AuthorityProfile::OAuth2 => self.ask_oauth().await,
            AuthorityProfile::Other => Err(TokenError::UnknownProfile(self.issuer.authority_url.clone())),
        }?;
        *self.refresh.lock().await = fetched.refresh.take();
        Ok(fetched)
    }

    /// With the refresh token, if there is one and it still counts; else with what the person or the client has.
    async fn ask_oauth(&self) -> Result<Fetched, TokenError> {
        let access = &self.options.authority;
        let https = access.https.as_ref().ok_or_else(|| TokenError::NoHttps(self.issuer.authority_url.clone()))?;
        let https = if self.to_prove { https.clone().pinned(pins(&access.known)) } else { https.clone() };
        let kept = self.refresh.lock().await.take();
        if let Some(secret) = kept {
            match self.ask_oauth_with(&https, Grant::Refresh(&secret)).await {
                Err(TokenError::Refused { reason, .. }) => tracing::debug!(reason, "the refresh token is over"),
                Err(error) => {
                    *self.refresh.lock().await = Some(secret);
                    return Err(error);
                }
                fetched => return fetched,
            }
        }
        match &access.login {
            Login::UserName { name, password } => self.ask_oauth_with(&https, Grant::Password { name, password }).await,
            Login::ThisToken(token) => {
                let token = std::str::from_utf8(token).map_err(|_| TokenError::Malformed)?;
                self.ask_oauth_with(&https, Grant::Subject(token)).await
            }
            Login::Certificate(_) => Err(TokenError::NoWay(self.issuer.authority_url.clone())),
            Login::Anonymous | Login::Automatic | Login::Token => self.ask_oauth_with(&https, Grant::Client).await,
        }
    }

    async fn ask_oauth_with(&self, https: &HttpsClient, grant: Grant<'_>) -> Result<Fetched, TokenError> {
        let access = &self.options.authority;
        let asked = oauth::Asked {
            issuer: &self.issuer,
            resource: &self.resource,
            client_id: &self.options.application.uri,
            secret: access.client_secret.as_deref().map(String::as_str),
            grant,
            roles: &access.roles,
        };
        oauth::fetch(https, &asked).await
    }

    /// Over the open session; when that turns out to be gone, once more over a new one. A new one that needs no password
    /// is tried first when there is a refresh token.
    async fn ask_opcua(&self) -> Result<Fetched, TokenError> {
        let mut kept = self.opcua.lock().await;
        if let Some(authority) = &*kept {
            match self.ask_over(authority).await {
                Err(TokenError::Unreachable { source, .. }) => {
                    tracing::debug!(%source, "the session to the authority is gone");
                }
                // It was open for refreshing only.
                Err(TokenError::NoWay(_)) => {}
                outcome => return outcome,
            }
            if let Some(authority) = kept.take() {
                authority.close().await;
            }
        }
        if self.refresh.lock().await.is_some()
            && self.options.authority.login.gives_a_secret()
            && let Ok(authority) = OpcUaAuthority::open_nameless(&self.issuer, &self.options, self.to_prove).await
        {
            match self.ask_over(&authority).await {
                Ok(fetched) => {
                    *kept = Some(authority);
                    return Ok(fetched);
                }
                Err(error) => {
                    tracing::debug!(%error, "the token was not refreshed");
                    authority.close().await;
                }
            }
        }
        let authority = OpcUaAuthority::open(&self.issuer, &self.options, self.to_prove).await?;
        let outcome = self.ask_over(&authority).await;
        *kept = Some(authority);
        outcome
    }

    /// Asks over an open session: with the refresh token where a password would have to be shown again.
    async fn ask_over(&self, authority: &OpcUaAuthority) -> Result<Fetched, TokenError> {
        let kept = if authority.knows_the_person() { None } else { self.refresh.lock().await.take() };
        if let Some(secret) = kept {
            match authority.refresh(&self.resource, &secret).await {
                Err(TokenError::Refused { reason, .. }) => tracing::debug!(reason, "the refresh token is over"),
                Err(TokenError::NoMethod(_)) => {}
                Err(error) => {
                    *self.refresh.lock().await = Some(secret);
                    return Err(error);
                }
                fetched => return fetched,
            }
        }
        authority.request(&self.resource, &self.options.authority.roles).await
    }

    pub(crate) async fn close(&self) {
        if let Some(authority) = self.opcua.lock().await.take() {
            authority.close().await;
        }
    }
}

fn pins(known: &[KnownAuthority]) -> Vec<Thumbprint> {
    let pin = |one: &KnownAuthority| if let KnownAuthority::Certificate(pin) = one { Some(*pin) } else { None };
    known.iter().filter_map(pin).collect()
}

/// The time on the clock of this process.
pub(crate) fn now() -> Now {
    clock::now()
}

/// An issuer that came with an endpoint, and whether its certificate must still show that it may be given secrets. A hostile
/// server would like a token for another server, and the client's secrets for itself.
fn believable(
    named: TokenIssuer,
    application_uri: &str,
    options: &ClientOptions,
) -> Result<(TokenIssuer, bool), TokenError> {
    if !named.resource_id.is_empty() && named.resource_id != application_uri {
        let (named, server) = (named.resource_id, application_uri.to_owned());
        return Err(TokenError::OtherResource { named, server });
    }
    let access = &options.authority;
    let secret = match named.profile {
        AuthorityProfile::OpcUa => access.login.gives_a_secret(),
        AuthorityProfile::OAuth2 => access.client_secret.is_some() || access.login.gives_a_secret(),
        AuthorityProfile::Other => false,
    };
    if !secret {
        return Ok((named, false));
    }
    if let Some(elsewhere) = elsewhere(&named) {
        return Err(TokenError::UnknownAuthority(elsewhere));
    }
    if access.known.iter().any(|known| known.is_at(&named.authority_url)) {
        return Ok((named, false));
    }
    let may_show = |known: &KnownAuthority| match known {
        KnownAuthority::Url(_) => false,
        KnownAuthority::Application(_) => named.profile == AuthorityProfile::OpcUa,
        KnownAuthority::Certificate(_) => true,
    };
    if access.known.iter().any(may_show) {
        Ok((named, true))
    } else {
        Err(TokenError::UnknownAuthority(named.authority_url))
    }
}

/// A token endpoint at another host than the authority's: whoever is trusted is not who would get the secret.
fn elsewhere(named: &TokenIssuer) -> Option<String> {
    let endpoint = named.token_endpoint.as_deref().filter(|_| named.profile == AuthorityProfile::OAuth2)?;
    if !endpoint.to_ascii_lowercase().starts_with("https://") {
        return None;
    }
    let place = |url: &str| Target::parse(url).ok().map(|target| (target.host.to_ascii_lowercase(), target.port));
    let same = place(endpoint).is_some_and(|there| place(&named.authority_url) == Some(there));
    (!same).then(|| endpoint.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ua_proto::client::ClientApplication;

    #[test]
    fn an_endpoint_gets_neither_secrets_nor_tokens_for_others_by_naming_an_authority() {
        let me = ClientApplication { uri: "urn:me".into(), product_uri: "urn:me".into(), name: "me".into() };
        let issuer = |profile, url: &str, resource: &str| TokenIssuer {
            resource_id: resource.into(),
            authority_url: url.into(),
            profile,
            token_endpoint: None,
            authorization_endpoint: None,
            request_types: Vec::new(),
            scopes: Vec::new(),
        };
        let (opcua, oauth) = (AuthorityProfile::OpcUa, AuthorityProfile::OAuth2);
        let token = || Login::ThisToken(Zeroizing::new(b"a.b.c".to_vec()));
        let password = || Login::UserName { name: "olga".into(), password: Zeroizing::new("secret".into()) };
        let secret = || Some(Zeroizing::new("secret".to_owned()));
        let known = |text: &str| text.parse::<KnownAuthority>().unwrap();
        let ours = vec![known("https://as/"), known("opc.tcp://AS:4840")];
        let application = vec![known("urn:as")];
        let pinned = vec![known(&"00".repeat(32))];
        for (rule, profile, url, resource, login, client_secret, known, accepted) in [
            ("its own uri", opcua, "opc.tcp://evil", "urn:server", Login::Anonymous, None, vec![], true),
            ("no name: its own", opcua, "opc.tcp://evil", "", Login::Anonymous, None, vec![], true),
            ("another server's", opcua, "opc.tcp://as:4840", "urn:other", Login::Anonymous, None, ours.clone(), false),
            ("a secret to anybody", oauth, "https://evil", "", Login::Anonymous, secret(), vec![], false),
            ("a secret to a stranger", oauth, "https://evil", "", Login::Anonymous, secret(), ours.clone(), false),
            ("a secret to ours", oauth, "https://as", "", Login::Anonymous, secret(), ours.clone(), true),
            ("no secret", oauth, "https://evil", "", Login::Anonymous, None, ours.clone(), true),
            ("a password to a stranger", opcua, "opc.tcp://evil", "", password(), None, ours.clone(), false),
            ("a password to ours", opcua, "opc.tcp://as:4840/", "", password(), None, ours.clone(), true),
            ("a password, nothing configured", opcua, "opc.tcp://as", "", password(), None, vec![], false),
            ("a token of others to a stranger", opcua, "opc.tcp://evil", "", token(), None, ours.clone(), false),
            ("a pin, still to be shown", opcua, "opc.tcp://evil", "", password(), None, pinned.clone(), true),
            ("a pin, still to be shown", oauth, "https://evil", "", Login::Anonymous, secret(), pinned, true),
            ("a pin that HTTPS cannot show", oauth, "https://evil", "", Login::Anonymous, secret(), application, false),
        ] {
            let mut options = ClientOptions::new("opc.tcp://server", me.clone());
            (options.authority.login, options.authority.client_secret) = (login, client_secret);
            options.authority.known = known;
            let named = issuer(profile, url, resource);
            assert_eq!(TokenSource::new(Some(named.clone()), "urn:server", &options).is_ok(), accepted, "{rule}");
            options.issuer = Some(named);
            assert!(TokenSource::new(None, "urn:server", &options).is_ok(), "{rule}, but configured");
        }
    }

    #[test]
    fn a_token_endpoint_elsewhere_gets_no_secret() {
        let me = ClientApplication { uri: "urn:me".into(), product_uri: "urn:me".into(), name: "me".into() };
        let mut options = ClientOptions::new("opc.tcp://server", me);
        options.authority.client_secret = Some(Zeroizing::new("secret".to_owned()));
        options.authority.known = vec!["https://as:443/".parse().unwrap(), "00".repeat(32).parse().unwrap()];
        for (endpoint, accepted) in [
            (None, true),
            (Some("/oauth2/token"), true),
            (Some("https://as/token"), true),
            (Some("https://AS:443/token"), true),
            (Some("https://as:8443/token"), false),
            (Some("https://evil/token"), false),
            (Some("HTTPS://evil/token"), false),
            (Some("https://as@evil/token"), false),
        ] {
            let named = TokenIssuer {
                resource_id: String::new(),
                authority_url: "https://as:443".into(),
                profile: AuthorityProfile::OAuth2,
                token_endpoint: endpoint.map(str::to_owned),
                authorization_endpoint: None,
                request_types: Vec::new(),
                scopes: Vec::new(),
            };
            let source = TokenSource::new(Some(named), "urn:server", &options);
            assert_eq!(source.is_ok(), accepted, "{endpoint:?}");
        }
    }

    #[test]
    fn renewal_comes_between_three_quarters_and_four_fifths_of_the_life() {
        let life = Duration::from_secs(100);
        assert_eq!(renewal(life, 0), Duration::from_secs(80));
        assert_eq!(renewal(life, 255), Duration::from_secs(75));
        assert_eq!(renewal(Duration::ZERO, 0), Duration::from_millis(200), "a dead token does not make a busy loop");
    }
}
