//! What must be in the ledger before it happens, and what does not happen when the ledger takes nothing.

use hyper::StatusCode;
use serde_json::json;

use super::world::*;
use crate::AuthorityError;

/// Olga's tokens before and after show whether a change was enforced.
async fn standing(world: &World) -> (access_model::Epoch, Vec<String>, usize, Vec<u64>, String) {
    let authority = &world.authority;
    let kept = authority.db().workflow("plant").await.unwrap().map_or(String::new(), |state| state.marking);
    let steps = authority.snapshot().steps().iter().cloned().collect();
    let epochs = authority.live().grants.values().map(|token| token.spec.epoch.0).collect();
    (authority.snapshot().epoch(), steps, authority.snapshot().policies(), epochs, kept)
}

#[tokio::test]
async fn a_change_that_cannot_be_recorded_does_not_happen() {
    let world = World::new().await;
    world.olga().await;
    let (before, jwks) = (standing(&world).await, world.authority.jwks());
    world.ledger.close().await;
    let mut other = texts();
    other.policies = "@id(\"none\") forbid(principal, action, resource);\n".into();
    let fired = world.authority.fire("start", &by()).await;
    assert!(matches!(fired, Err(AuthorityError::Audit(_))), "{fired:?}");
    let replaced = world.authority.replace(other, &by()).await;
    assert!(matches!(replaced, Err(AuthorityError::Audit(_))), "{replaced:?}");
    let rotated = world.authority.rotate_keys(&by()).await;
    assert!(matches!(rotated, Err(AuthorityError::Audit(_))), "{rotated:?}");
    assert_eq!(standing(&world).await, before);
    assert_eq!(world.authority.jwks(), jwks);
    let path = "/admin/v1/workflow/fire";
    let (status, body) =
        world.ask(Some(&world.admin), "POST", path, Body::Json(json!({ "transition": "start" }))).await;
    assert_eq!((status, &body["error"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("audit_unavailable")));
}

#[tokio::test]
async fn where_the_ledger_may_be_lost_changes_go_on() {
    let world = World::with(|config| config.audit_required = false).await;
    world.ledger.close().await;
    world.authority.fire("start", &by()).await.unwrap();
    assert!(world.authority.snapshot().steps().contains("charge"));
}

#[tokio::test]
async fn broken_files_and_steps_that_are_not_enabled_have_reasons_of_their_own() {
    let world = World::new().await;
    let admin = Some(&world.admin);
    for transition in ["charged", "no such"] {
        let body = Body::Json(json!({ "transition": transition }));
        let (status, said) = world.ask(admin, "POST", "/admin/v1/workflow/fire", body).await;
        assert_eq!((status, &said["error"]), (StatusCode::CONFLICT, &json!("step_not_enabled")), "{transition}");
    }
    let mut broken = texts();
    broken.policies = "permit (".into();
    world.authority.replace(broken, &by()).await.unwrap_err();
    let audit = world.audit().await;
    let reasons = |kind: &str| {
        let of_kind = audit.iter().filter(|one| one.kind == kind);
        of_kind.map(|one| one.reason.clone().unwrap_or_default()).collect::<Vec<_>>()
    };
    assert_eq!(reasons("step_changed"), ["step_not_enabled"; 2]);
    assert_eq!(reasons("policy_changed"), ["policy_broken"]);
}
