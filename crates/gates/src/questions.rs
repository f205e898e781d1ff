//! Carries the questions of a gate to its authority: a second person is to approve of a change. The answers come with the
//! updates of the control stream.

use std::sync::Arc;

use pep::Question;
use serde::Serialize;
use tokio::sync::Notify;

use crate::control::Subscription;
use crate::opcua::Enforcing;
use crate::opcua::server::Handle;

#[derive(Serialize)]
struct Asked<'a> {
    id: &'a str,
    subject: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<&'a str>,
    roles: &'a [String],
    within: u64,
    change: &'a str,
}

/// Carries questions until the server or guard stops. `asks` says that there are some. One that does not arrive is asked
/// again when the change is tried again.
pub async fn carry<C: Enforcing>(subscription: Subscription, server: Handle<C>, asks: Arc<Notify>) {
    loop {
        tokio::select! {
            () = server.stopped() => return,
            () = asks.notified() => {}
        }
        while let Ok(Some(question)) = server.with(|server, _| server.question()).await {
            if let Err(cause) = ask(&subscription, &question).await {
                tracing::warn!(id = question.id, cause, "the authority was not asked for a second person");
            }
        }
    }
}

async fn ask(subscription: &Subscription, question: &Question) -> Result<(), String> {
    let asked = Asked {
        id: &question.id,
        subject: &question.subject,
        client: question.client.as_deref(),
        roles: &question.roles,
        within: question.within.as_secs(),
        change: &question.change,
    };
    let body = serde_json::to_vec(&asked).map_err(|error| error.to_string())?;
    let path = format!("/control/v1/questions?audience={}", crate::control::percent(&subscription.audience));
    let json = [("content-type", "application/json")];
    let answer = subscription.https.exchange(&subscription.authority, "POST", &path, &json, body).await;
    match answer {
        Ok((status, _)) if status.is_success() => Ok(()),
        Ok((status, _)) => Err(format!("it answers {status}")),
        Err(error) => Err(error.to_string()),
    }
}
