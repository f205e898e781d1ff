//! Asks the authority for a grant on behalf of a client that cannot carry a token. The password goes there over mutually
//! authenticated TLS and nowhere else.

use access_model::{Reason, Refusal, Thumbprint};
use bytes::Bytes;
use gates::https::{HttpsClient, Target};
use pep::{GrantRequest, Identity};
use serde::{Deserialize, Deserializer, Serialize};
use ua_proto::server::{AskSecret, FetchedGrant, Secret};
use zeroize::Zeroizing;

#[derive(Serialize)]
struct Question<'a> {
    audience: &'a str,
    by: By<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum By<'a> {
    UserName { name: &'a str, password: &'a str },
    X509(String),
    Anonymous,
    Renewal(&'a str),
}

#[derive(Deserialize)]
struct Given {
    access_token: Hushed,
    renewal: Option<Hushed>,
    bound_to: String,
}

/// A text that leaves nothing behind.
struct Hushed(Zeroizing<Vec<u8>>);

impl<'de> Deserialize<'de> for Hushed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(Zeroizing::new(text.into_bytes())))
    }
}

#[derive(Deserialize)]
struct Refused {
    error: String,
    error_description: Option<String>,
}

/// A token for the client, or why there is none; an authority that does not answer grants nothing.
pub(super) async fn ask(
    https: &HttpsClient,
    authority: &Target,
    request: &GrantRequest,
    secret: Option<AskSecret>,
) -> Result<FetchedGrant, Refusal> {
    let question = question(request, secret.as_ref())?;
    let body = body(&question).map_err(|error| lost(error.to_string()))?;
    let json = [("content-type", "application/json")];
    let answer = https.exchange(authority, "POST", "/guard/v1/grants", &json, body).await;
    let (status, body) = answer.map_err(|error| lost(error.to_string()))?;
    if !status.is_success() {
        let refused: Option<Refused> = serde_json::from_slice(&body).ok();
        let reason = refused.as_ref().and_then(|refused| Reason::from_word(&refused.error));
        let detail = refused.and_then(|refused| refused.error_description);
        let detail = detail.unwrap_or_else(|| format!("the authority answered {status}"));
        return Err(Refusal::new(reason.unwrap_or(Reason::AuthorityLost), detail));
    }
    let given: Given = serde_json::from_slice(&body).map_err(|_| lost("its answer cannot be read".to_owned()))?;
    let bound_to = pdp::plant::parse_thumbprint(&given.bound_to).map_err(|error| lost(error.to_string()))?;
    let secret = |Hushed(bytes)| Secret(bytes);
    Ok(FetchedGrant { token: secret(given.access_token), renewal: given.renewal.map(secret), own: Some(bound_to) })
}

/// The question as it is sent, in one place that is wiped when it is sent.
fn body(question: &Question<'_>) -> serde_json::Result<Bytes> {
    let secret = match &question.by {
        By::UserName { name, password } => name.len() + password.len(),
        By::Renewal(secret) => secret.len(),
        By::X509(_) | By::Anonymous => 0,
    };
    // A letter may take six; what grows is copied, and the copy stays.
    let mut body = Zeroizing::new(Vec::with_capacity(1_024 + 6 * (secret + question.audience.len())));
    serde_json::to_writer(&mut *body, question)?;
    Ok(Bytes::from_owner(body))
}

fn question<'a>(request: &'a GrantRequest, secret: Option<&'a AskSecret>) -> Result<Question<'a>, Refusal> {
    let wrong = || Refusal::new(Reason::UserCredentials, "the password is no text");
    let text = |secret: &'a Secret| std::str::from_utf8(&secret.0).map_err(|_| wrong());
    let by = match (secret, &request.identity) {
        (Some(AskSecret::Renewal(secret)), _) => By::Renewal(text(secret)?),
        (Some(AskSecret::Password(password)), Identity::User { name }) => {
            By::UserName { name, password: text(password)? }
        }
        (None, Identity::Certificate { thumbprint, .. }) => By::X509(thumbprint.to_string()),
        (None, Identity::Anonymous) => By::Anonymous,
        (_, identity) => {
            let detail = format!("nothing proves that the client is `{}`", identity.name());
            return Err(Refusal::new(Reason::IdentityNotAccepted, detail));
        }
    };
    let client = request.binding.certificate.as_ref().map(Thumbprint::to_string);
    Ok(Question { audience: &request.audience, by, client, address: request.binding.address.as_deref() })
}

fn lost(cause: String) -> Refusal {
    Refusal::new(Reason::AuthorityLost, format!("the authority cannot be asked: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_does_not_outgrow_its_place() {
        let password = "\u{1}\"".repeat(500);
        let by = By::UserName { name: "olga", password: &password };
        let question =
            Question { audience: "urn:mixer", by, client: Some("ab".repeat(32)), address: Some("10.0.0.9:50000") };
        let text = serde_json::to_vec(&question).unwrap();
        assert!(text.len() <= 1_024 + 6 * (4 + password.len() + 9), "no copy is left behind");
        assert_eq!(body(&question).unwrap(), text);
    }
}
