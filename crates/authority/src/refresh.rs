//! Refresh tokens: each works once and for its certificate, and all that come from one token are a line that can be cut and
//! has an end.

use access_model::{Actor, AuditKind, Outcome, Reason, Refusal, Thumbprint, UnixTime};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pdp::plant::SignIn;
use store::RefreshToken;
use token::{Entropy, SystemEntropy};

use crate::core::{Authority, family, unavailable};
use crate::issue::{Flow, Issued, Refreshing, TokenRequest};
use crate::live::LiveToken;

impl Authority {
    /// A new token for a refresh token. It works once, and only for the certificate it was given to; used again, it
    /// takes its whole family with it. Who is only told to ask again keeps it.
    ///
    /// # Errors
    /// Unknown, used, expired, another certificate or server, or as [`Authority::issue`].
    pub async fn refresh(
        &self,
        secret: &str,
        confirmation: Thumbprint,
        audience: Option<&str>,
        address: Option<String>,
    ) -> Result<Issued, Refusal> {
        self.refresh_of(secret, confirmation, (audience, false), address).await
    }

    /// The same for a guard, whose clients' certificates the guard alone saw proven: it spends, and cuts, what guards were
    /// given for its own server, and nobody spends that elsewhere.
    pub(crate) async fn refresh_guest(
        &self,
        secret: &str,
        confirmation: Thumbprint,
        audience: &str,
        address: Option<String>,
    ) -> Result<Issued, Refusal> {
        self.refresh_of(secret, confirmation, (Some(audience), true), address).await
    }

    async fn refresh_of(
        &self,
        secret: &str,
        confirmation: Thumbprint,
        (audience, guard): (Option<&str>, bool),
        address: Option<String>,
    ) -> Result<Issued, Refusal> {
        let now = self.now().unix;
        let unknown = |detail: &str| Refusal::new(Reason::UserCredentials, detail);
        let way = way_of(secret);
        let (fits, only) = (guard == way.is_some(), audience.filter(|_| guard));
        // Whoever waits for a turn has used nothing yet: it may hang up, and show the token again.
        let of = self.inner.db.refresh_audience(&hash(secret)).await.map_err(unavailable)?.filter(|_| fits);
        let turn = match of {
            Some(of) => match self.turn(&of).await {
                Ok(turn) => turn,
                Err(refusal) => {
                    self.inner.refused.add_shared(1);
                    let by = Actor { name: "unknown".into(), address, ..Actor::default() };
                    let (kind, outcome) = (AuditKind::TokenRefreshed, Outcome::Denied(refusal.reason));
                    self.record(kind, &by, &of, outcome, &refusal.detail).await.map_err(unavailable)?;
                    return Err(refusal);
                }
            },
            None => None,
        };
        let found = match fits {
            true => self.inner.db.take_refresh_for(&hash(secret), only, now).await.map_err(unavailable)?,
            false => None,
        };
        let Some(found) = found else {
            // Names of lines are no secrets: only who holds a line can cut it by showing a used member.
            let family = family(secret);
            let cut = match fits {
                true => self.inner.db.remove_refresh_family_of(family, &confirmation, only).await,
                false => Ok(0),
            };
            let cut = cut.map_err(unavailable)?;
            let refusal = unknown("the refresh token is unknown, over or was used before");
            let by = Actor { name: "unknown".into(), address, ..Actor::default() };
            let detail = format!("{}; {cut} of its family withdrawn", refusal.detail);
            let outcome = Outcome::Denied(refusal.reason);
            let object = if cut > 0 { family } else { "" };
            self.record(AuditKind::TokenRefreshed, &by, object, outcome, &detail).await.map_err(unavailable)?;
            return Err(refusal);
        };
        let application = found.principal.application.clone().map_or_else(|| found.audience.clone(), |uri| uri.0);
        let request = TokenRequest {
            flow: Flow::Refresh,
            person: found.principal.person.clone(),
            application,
            confirmation,
            audience: found.audience.clone(),
            roles: Some(found.principal.roles.clone()),
            break_glass: None,
            padding: 0,
            refresh: Refreshing::In { family: found.family.clone(), ends: found.ends, way },
            address,
        };
        if found.confirmation != Some(confirmation) || audience.is_some_and(|audience| audience != found.audience) {
            self.inner.db.remove_refresh_family(&found.family).await.map_err(unavailable)?;
            let refusal =
                Refusal::new(Reason::TokenConfirmation, "the refresh token belongs to another certificate or server");
            let outcome = Outcome::Denied(refusal.reason);
            let by = request.actor();
            self.record(AuditKind::TokenRefreshed, &by, &found.audience, outcome, &refusal.detail)
                .await
                .map_err(unavailable)?;
            return Err(refusal);
        }
        let issued = self.issue_in_turn(&request, turn).await;
        if issued.as_ref().is_err_and(|refusal| refusal.reason == Reason::TooBusy) {
            self.inner.db.put_refresh_back(&found).await.map_err(unavailable)?;
        }
        issued
    }

    /// The refresh token beside a token, and its secret. Broken glass is explained again, not refreshed.
    pub(crate) fn refresh_token(
        &self,
        request: &TokenRequest,
        live: &LiveToken,
        id: &str,
        now: UnixTime,
    ) -> Option<(String, RefreshToken)> {
        let config = &self.inner.config;
        let ends = match &request.refresh {
            _ if request.break_glass.is_some() => return None,
            Refreshing::No => return None,
            Refreshing::New | Refreshing::Guest(_) => now + config.refresh_line,
            Refreshing::In { ends, .. } => *ends,
        };
        let family = family(id).to_owned();
        let secret = refresh_secret(&family, request.refresh.way());
        let refresh = RefreshToken {
            hash: hash(&secret),
            principal: live.principal.clone(),
            audience: request.audience.clone(),
            confirmation: Some(request.confirmation),
            family,
            expires: ends.min(now + config.refresh_lifetime),
            ends,
        };
        Some((secret, refresh))
    }
}

/// What the refresh tokens of a guard's client end with: how it signed in. No base64 has the first letter, and the hash
/// that is kept covers it, so that it cannot be changed.
const WAYS: [(SignIn, &str); 3] = [(SignIn::UserName, "~u"), (SignIn::X509, "~x"), (SignIn::Anonymous, "~a")];

/// How the client of a guard signed in, of a refresh token that a guard was given.
pub(crate) fn way_of(secret: &str) -> Option<SignIn> {
    WAYS.iter().find(|(_, mark)| secret.ends_with(mark)).map(|(way, _)| *way)
}

/// The family in front lets a used token take the rest of its line with it.
fn refresh_secret(family: &str, way: Option<SignIn>) -> String {
    let mut bytes = [0_u8; 32];
    SystemEntropy::new().fill(&mut bytes);
    let mark = WAYS.iter().find(|(known, _)| Some(*known) == way).map_or("", |(_, mark)| mark);
    format!("{family}.{}{mark}", URL_SAFE_NO_PAD.encode(bytes))
}

/// 256 random bits need no slow hash.
pub(crate) fn hash(secret: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, secret.as_bytes()))
}
