//! What has to be right behind a guard: its server answers as configured, and nobody reaches it around the guard.

use std::sync::Arc;
use std::time::Duration;

use access_model::Mode;
use arc_swap::ArcSwap;
use client::{Client, ClientApplication, ClientOptions, Login};
use opcua_types::{EndpointDescription, MessageSecurityMode, UserTokenType};
use ua_proto::crypto::SecurityPolicyId;

use super::{Findings, PATIENCE, Standing};
use crate::commands::up::status::{GuardStatus, TurnStatus};
use crate::commands::up::{Way, upstream_own};
use crate::config::{Guard, GuardMode};

/// What closes the way round, whoever the server is.
const CLOSE: &str = "let only the guard reach that port (firewall, or a network of their own)";

/// What the guard does with denials: by its own word when it runs, else by its configuration.
pub(super) fn mode(role: &Guard, running: Option<&GuardStatus>, findings: &mut Findings) {
    let what = format!("mode of {}", role.name);
    let configured = match role.mode {
        GuardMode::Enforce => Mode::Enforce,
        GuardMode::Observe => Mode::Observe,
    };
    let told = running.map(|running| Mode::from_name(&running.mode));
    let ordered = if told == Some(Some(configured)) { "" } else { ", by order of the authority" };
    match (told, configured) {
        (Some(Some(Mode::Observe)), _) => findings.add(
            Standing::Warning,
            what,
            format!(
                "observes{ordered}: nothing is denied, only recorded; `trapkey guard mode {} enforce` locks",
                role.name
            ),
        ),
        (Some(Some(Mode::Enforce)), _) => {
            findings.add(Standing::Ok, what, format!("enforces{ordered}"));
        }
        // Another release wrote what this one cannot read.
        (Some(None), _) => findings.add(Standing::Warning, what, "what the running guard says of it cannot be read"),
        (None, Mode::Observe) => {
            let text = "does not run; it is configured to observe: until the authority orders otherwise nothing is denied, \
                        only recorded; `trapkey guard mode` shows and switches it";
            findings.add(Standing::Warning, what, text);
        }
        (None, Mode::Enforce) => {
            findings.add(
                Standing::Ok,
                what,
                "does not run; it is configured to enforce, unless the authority orders otherwise",
            );
        }
    }
}

pub(super) async fn look(role: &Guard, findings: &mut Findings) {
    let (what, url) = (format!("upstream of {}", role.name), role.upstream.url.as_str());
    let endpoints = match client::endpoints(url, PATIENCE).await {
        Ok(endpoints) => endpoints,
        Err(_) if role.upstream.listen.is_some() => {
            return findings.add(Standing::Ok, what, format!("{url} is not reached from here: it is to call"));
        }
        Err(error) => return findings.add(Standing::Warning, what, format!("{url}: {error}")),
    };
    let chosen = upstream_own(role)
        .and_then(|own| {
            let identity = Arc::new(ArcSwap::new(Arc::clone(&own.identity)));
            Way::of(role, &own, identity)
        })
        .map_err(|failure| failure.in_short())
        .and_then(|way| way.choose(&endpoints));
    match chosen.as_deref() {
        Ok([one, ..]) => {
            let detail = format!("{url} takes {:?} with {:?}", one.token.token_type, one.endpoint.security_mode);
            findings.add(Standing::Ok, what, detail);
        }
        Ok([]) => findings.add(Standing::Failed, what, format!("{url} lists no endpoints")),
        Err(cause) => findings.add(Standing::Failed, what, format!("{url}: {cause}")),
    }
    around(role, &endpoints, findings).await;
}

/// Whose turn it is, as the program that runs says: one that stands by does not listen, and need not.
pub(super) fn turn(name: &str, turn: &TurnStatus, findings: &mut Findings) {
    let role = if turn.active { "serves" } else { "stands by" };
    let since = store::rfc3339(access_model::UnixTime::from_seconds(turn.since));
    let other = if turn.other { "the other guard answers" } else { "the other guard does not answer" };
    let standing = if turn.other { Standing::Ok } else { Standing::Warning };
    let detail = format!("{role} since {since}, last turn {}; {other}", turn.term);
    findings.add(standing, format!("turn of {name}"), detail);
}

/// Tries what a stranger would try: a session without security and without a name.
async fn around(role: &Guard, endpoints: &[EndpointDescription], findings: &mut Findings) {
    let (what, url) = (format!("the way around {}", role.name), role.upstream.url.as_str());
    let stranger = ClientApplication {
        uri: "urn:trapkey:doctor".to_owned(),
        product_uri: "urn:trapkey".to_owned(),
        name: "trapkey doctor".to_owned(),
    };
    let mut options = ClientOptions::new(url, stranger).danger_without_security();
    options.login = Login::Anonymous;
    options.request_timeout = PATIENCE;
    match tokio::time::timeout(PATIENCE * 3, Client::connect(options)).await {
        Ok(Ok(client)) => {
            // Whether it is closed in order tells nothing.
            let _late = tokio::time::timeout(Duration::from_secs(1), client.close()).await;
            let text = "anybody who reaches it has a session without a certificate and without a name";
            findings.add(Standing::Warning, what, format!("{url}: {text}; {CLOSE}"));
        }
        Ok(Err(_)) | Err(_) => match open_ways(endpoints) {
            ways if ways.is_empty() => {
                findings.add(Standing::Ok, what, format!("{url} wants a name and a certificate"))
            }
            ways => {
                let text = format!("{url} refused a stranger, but lists {}", ways.join(" and "));
                findings.add(
                    Standing::Warning,
                    what,
                    format!("{text}; let it trust the guard's certificate alone, or {CLOSE}"),
                );
            }
        },
    }
}

/// What the server lists that a guard's policies would not have anybody do.
fn open_ways(endpoints: &[EndpointDescription]) -> Vec<&'static str> {
    let bare = |one: &&EndpointDescription| one.security_mode == MessageSecurityMode::None;
    let discovery = |one: &&EndpointDescription| {
        SecurityPolicyId::from_uri(one.security_policy_uri.as_ref()) == Some(SecurityPolicyId::None)
    };
    let anonymous = |one: &EndpointDescription| {
        one.user_identity_tokens.iter().flatten().any(|token| token.token_type == UserTokenType::Anonymous)
    };
    let mut ways = Vec::new();
    if endpoints.iter().any(|one| bare(&one) && discovery(&one)) {
        ways.push("an endpoint without security");
    }
    if endpoints.iter().any(anonymous) {
        ways.push("sessions without a name");
    }
    ways
}
