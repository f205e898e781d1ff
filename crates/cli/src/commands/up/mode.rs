//! A guard that observes is told where the workflow stands, for what it records; and that it observes is said loudly.

use std::time::Duration;

use access_model::Mode;
use gates::https::{HttpsClient, Target};
use gates::opcua::guard::GuardHandle;
use serde::Deserialize;

/// How old the step in a record may be.
const ASK: Duration = Duration::from_millis(500);

#[derive(Deserialize)]
struct Told {
    #[serde(default)]
    steps: Vec<String>,
}

/// Asks the authority for the steps while the guard observes, until the guard stops. An authority that does not answer
/// leaves the last ones.
pub(super) async fn follow_steps((https, authority, uri): (HttpsClient, Target, String), guard: GuardHandle) {
    let path = format!("/control/v1/map?audience={}", crate::commands::admin::percent(&uri));
    let mut observed = false;
    loop {
        let Ok(mode) = guard.with(|guard, _| guard.front().gate().mode()).await else { return };
        let observes = mode == Mode::Observe;
        if std::mem::replace(&mut observed, observes) != observes {
            match mode {
                Mode::Observe => tracing::warn!(guard = uri, "OBSERVES: nothing is denied, only recorded"),
                Mode::Enforce => tracing::info!(guard = uri, "enforces from now on"),
            }
        }
        if observes
            && let Ok((status, body)) = https.exchange(&authority, "GET", &path, &[], Vec::new()).await
            && status.is_success()
            && let Ok(told) = serde_json::from_slice::<Told>(&body)
        {
            let steps = told.steps.join(", ");
            if guard.with(move |guard, now| guard.set_steps(steps, now)).await.is_err() {
                return;
            }
        }
        tokio::select! {
            () = guard.stopped() => return,
            () = tokio::time::sleep(ASK) => {}
        }
    }
}
