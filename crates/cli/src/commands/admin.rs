//! What only an administrator of a running authority may do: `token issue|revoke|rotate-keys`, `policy reload`, `step`. Over HTTPS, proven by the
//! caller's application certificate.

use std::path::PathBuf;

use clap::Args;
use gates::https::Target;
use serde_json::{Value, json};

use super::own::Own;
use super::{Common, block_on};
use crate::answer::Answer;
use crate::failure::Failure;

/// Which authority, and as whom.
#[derive(Debug, Args)]
pub(crate) struct At {
    /// The authority's HTTPS address [default: `[client]` of the configuration]
    #[arg(long, value_name = "URL")]
    authority: Option<String>,
    /// The administrator's folder of certificates [default: `[client]` of the configuration]
    #[arg(long, value_name = "FOLDER")]
    pki: Option<PathBuf>,
}

/// Lets the authority issue a token.
#[derive(Debug, Args)]
pub(crate) struct Issue {
    #[command(flatten)]
    at: At,
    /// The application it is for; it is bound to the certificate registered for it
    #[arg(long, value_name = "URI")]
    application: String,
    /// The server it is for
    #[arg(long, value_name = "URI")]
    audience: String,
    /// The person it is for
    #[arg(long, value_name = "NAME")]
    person: Option<String>,
    /// Only these roles
    #[arg(long, value_name = "ROLE", value_delimiter = ',')]
    roles: Vec<String>,
    /// Break the glass, for this reason
    #[arg(long, value_name = "REASON")]
    break_glass: Option<String>,
}

/// Revokes a token at once, at every server that listens.
#[derive(Debug, Args)]
pub(crate) struct Revoke {
    #[command(flatten)]
    at: At,
    /// The token's id
    #[arg(allow_hyphen_values = true)]
    id: String,
    /// Why, for the audit
    #[arg(long, default_value = "", hide_default_value = true)]
    reason: String,
}

/// An order without arguments.
#[derive(Debug, Args)]
pub(crate) struct Order {
    #[command(flatten)]
    at: At,
}

/// Shows where the workflow stands, or moves it.
#[derive(Debug, Args)]
pub(crate) struct Step {
    #[command(flatten)]
    at: At,
    /// The transition to fire; without it, the steps and what could be fired are shown
    transition: Option<String>,
}

impl At {
    /// Whether the caller said which authority, or as whom.
    pub(super) fn names_one(&self) -> bool {
        self.authority.is_some() || self.pki.is_some()
    }

    /// Asks; a refusal by the authority is the answer no.
    pub(super) async fn ask(
        &self,
        common: &Common,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value, Failure> {
        self.ask_at(common, (method, &format!("/admin/v1{path}")), None, body).await
    }

    /// The same anywhere, and for a person by a header.
    pub(super) async fn ask_at(
        &self,
        common: &Common,
        (method, path): (&str, &str),
        authorization: Option<&str>,
        body: Option<Value>,
    ) -> Result<Value, Failure> {
        let config = (self.authority.is_none() || self.pki.is_none()).then(|| common.config.load()).transpose()?;
        let section = config.as_ref().map(|config| &config.client);
        let missing = |what: &str, flag: &str| {
            Failure::bad_input(format!("{what} is not known")).help(format!("name it with `{flag}` or in `[client]`"))
        };
        let url = self.authority.clone().or_else(|| section?.authority.clone());
        let url = url.ok_or_else(|| missing("the authority", "--authority"))?;
        let folder = self.pki.clone().or_else(|| section?.pki.clone());
        let folder = folder.ok_or_else(|| missing("the administrator's certificate", "--pki"))?;
        let target = Target::parse(&url).map_err(|error| Failure::from_error(&error).into_bad_input())?;
        let https = Own::load(&folder)?.https()?;
        let json = body.is_some().then_some(("content-type", "application/json"));
        let headers: Vec<(&str, &str)> =
            json.into_iter().chain(authorization.map(|it| ("authorization", it))).collect();
        let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let answer = https.exchange(&target, method, path, &headers, bytes).await;
        let (status, bytes) = answer.map_err(|error| Failure::from_error(&error))?;
        let said: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        if status.is_success() {
            return Ok(said);
        }
        let word = said["error"].as_str().unwrap_or("no reason given");
        let detail = said["error_description"].as_str().map(|detail| format!(": {detail}")).unwrap_or_default();
        let faults = said["faults"].as_array().into_iter().flatten().map(|fault| {
            format!(
                "\n  {} line {}: {}",
                fault["file"].as_str().unwrap_or("file"),
                fault["line"],
                fault["message"].as_str().unwrap_or_default()
            )
        });
        let faults: String = faults.collect();
        let message = format!("the authority refuses ({status}): {word}{detail}{faults}");
        Err(if status.is_server_error() { Failure::unavailable(message) } else { Failure::denied(message) })
    }
}

pub(crate) fn issue(args: &Issue, common: &Common) -> Result<Answer, Failure> {
    let mut wanted = json!({"application": args.application, "audience": args.audience});
    if let Some(person) = &args.person {
        wanted["person"] = person.as_str().into();
    }
    if !args.roles.is_empty() {
        wanted["roles"] = args.roles.clone().into();
    }
    if let Some(reason) = &args.break_glass {
        wanted["break_glass_reason"] = reason.as_str().into();
    }
    let issued = block_on(args.at.ask(common, "POST", "/tokens", Some(wanted)))?;
    let token = issued["access_token"].as_str().unwrap_or_default().to_owned();
    Ok(Answer::ok(token, issued))
}

pub(crate) fn revoke(args: &Revoke, common: &Common) -> Result<Answer, Failure> {
    let path = format!("/tokens/{}?reason={}", percent(&args.id), percent(&args.reason));
    let said = block_on(args.at.ask(common, "DELETE", &path, None))?;
    let text = if said["already"] == true { "was revoked before" } else { "revoked" };
    Ok(Answer::ok(format!("{}: {text}", args.id), said))
}

pub(crate) fn rotate(args: &Order, common: &Common) -> Result<Answer, Failure> {
    let said = block_on(args.at.ask(common, "POST", "/keys/rotate", None))?;
    Ok(Answer::ok("tokens are signed with the next key from now on", said))
}

pub(crate) fn reload(args: &Order, common: &Common) -> Result<Answer, Failure> {
    let said = block_on(args.at.ask(common, "POST", "/reload", None))?;
    Ok(Answer::ok(format!("epoch {}; {}", said["epoch"], changed(&said)), said))
}

/// What a change did to the tokens that live.
fn changed(said: &Value) -> String {
    format!("tokens: {} revoked, {} narrowed, {} widened", said["revoked"], said["narrowed"], said["widened"])
}

pub(crate) fn step(args: &Step, common: &Common) -> Result<Answer, Failure> {
    let words = |value: &Value| {
        let words = value.as_array().into_iter().flatten().filter_map(Value::as_str);
        words.collect::<Vec<_>>().join(", ")
    };
    let Some(transition) = &args.transition else {
        let said = block_on(args.at.ask(common, "GET", "/workflow", None))?;
        let text = format!("step: {}\nnext: {}", words(&said["steps"]), words(&said["enabled"]));
        return Ok(Answer::ok(text, said));
    };
    let body = json!({"transition": transition});
    let said = block_on(args.at.ask(common, "POST", "/workflow/fire", Some(body)))?;
    let text = format!("step: {}\n{}", words(&said["steps"]), changed(&said));
    Ok(Answer::ok(text, said))
}

/// Everything but unreserved characters escaped (RFC 3986 section 2.3).
pub(super) fn percent(text: &str) -> String {
    text.bytes().fold(String::new(), |mut escaped, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
        escaped
    })
}
