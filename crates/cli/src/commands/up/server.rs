//! One resource server of `trapkey up`: its endpoints, its gate, and what keeps both in step with the authority.

use std::sync::Arc;
use std::time::Duration;

use access_model::ScopeMap;
use arc_swap::ArcSwap;
use gates::control::Subscription;
use gates::https::{HttpsClient, Target};
use gates::opcua::server::ServerHandle;
use pep::{Contact, FailMode, GateConfig, GateEvent};
use plant::equipment::Station;
use plant::station::{Running, SharedLine};
use tokio::sync::{Notify, mpsc};
use ua_proto::server::{AuditConfig, AuditFailMode, Identities, Input, IssuedTokens, IssuerEndpoint, ServerConfig};

use super::local::Local;
use super::{Up, endpoint, foreign, listen};
use crate::config::{Audit, Endpoint, FailMode as ConfiguredFailMode, Identity, OnFailure, Server, Simulated};
use crate::failure::Failure;

/// Pause between two attempts to reach an authority that is not there yet.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How often the authority's keys are looked at.
const LOOK_FOR_KEYS: Duration = Duration::from_secs(5);

/// Starts it, once its authority has given its keys.
pub(super) async fn start(
    role: &Server,
    ledger: &Audit,
    snapshot: &pdp::Snapshot,
    up: &Up,
    process: SharedLine,
) -> Result<Running, Failure> {
    let side = role.endpoint();
    let own = endpoint::own(&side)?;
    let https = own.https()?;
    let target = Target::parse(&role.authority).map_err(|error| Failure::from_error(&error).into_bad_input())?;
    let missing = || Failure::bad_input(format!("the plant file has no server `{}`", role.name));
    let (uri, server) = snapshot.plant().server(&role.name).ok_or_else(missing)?;
    if own.uri()? != uri {
        let ours = own.uri()?;
        return Err(Failure::bad_input(format!("the certificate of `{}` is for `{ours}`, not for `{uri}`", role.name)));
    }
    let local = Local::of(role, snapshot.plant(), server)?;
    // Whoever needs no token need not wait for the authority's keys.
    let (foreign, followed) = foreign::issuers(&role.issuer, uri, &own)?;
    let waits = local.is_nobody() && foreign.is_empty() && taken(role, Identity::Token);
    let issuer = if waits { issuer(role, &https, &target).await } else { without_keys(role) };
    let identity = Arc::new(ArcSwap::new(Arc::clone(&own.identity)));
    let listener = listen(role.listen)?;
    let (events, mut happened) = mpsc::unbounded_channel();
    let mut grants = local.grants.clone();
    grants.extend(foreign::grants(&role.issuer, server)?);
    let setup = plant::station::Setup {
        station: match role.simulate {
            Simulated::Mixer => Station::Mixer,
            Simulated::Reactor => Station::Reactor,
            Simulated::Filler => Station::Filler,
        },
        server,
        config: ServerConfig {
            audit: AuditConfig {
                denials_per_second: ledger.denials_per_second.short(),
                max_denial_kinds: ledger.denial_kinds.size(),
                ..audit_config(ledger.on_failure)
            },
            identities: Identities {
                anonymous: taken(role, Identity::Anonymous),
                user_name: local.by_password(),
                certificate: local.by_certificate(&own)?,
                issued: taken(role, Identity::Token).then(|| issued(role, &side, uri, up)),
                ..endpoint::identities(&side.limits)
            },
            ..endpoint::server_config(&side, (uri, &role.name), (&own, &identity), listener.local_addr()?)?
        },
        listener,
        gate: &|map| GateConfig {
            local: grants.clone(),
            foreign: foreign.clone(),
            ..gate(role, &side, uri, map, &issuer)
        },
        audit: up.audit.clone(),
        pool: up.pool.clone(),
        passwords: local.passwords()?,
        line: process,
        events,
        pki: Some(own.store.clone()),
    };
    let running = plant::station::start(setup, gates::clock::now()).map_err(|error| Failure::from_error(&error))?;
    own.keep_in_step(identity, &running.handle);
    tokio::spawn(follow_keys(issuer.clone(), https.clone(), target.clone(), running.handle.clone()));
    for issuer in followed {
        tokio::spawn(issuer.follow(running.handle.clone()));
    }
    let gap = Arc::new(Notify::new());
    let silence = role.contact_timeout.get();
    let subscription = Subscription { https, authority: target, audience: uri.to_owned(), silence };
    tokio::spawn(gates::control::follow(subscription, running.handle.clone(), Arc::clone(&gap)));
    tokio::spawn(async move {
        while let Some(event) = happened.recv().await {
            if event == GateEvent::NeedFullList {
                // Only a stream that runs has missed something; the next begins with the full list anyway.
                gap.notify_waiters();
            }
        }
    });
    Ok(running)
}

fn taken(role: &Server, identity: Identity) -> bool {
    role.identities.contains(&identity)
}

fn audit_config(on_failure: OnFailure) -> AuditConfig {
    let unavailable = match on_failure {
        OnFailure::Closed => AuditFailMode::Closed,
        OnFailure::Open => AuditFailMode::Open,
    };
    AuditConfig { unavailable, ..AuditConfig::default() }
}

/// The authority before it has given its keys: nobody's token is good.
fn without_keys(role: &Server) -> token::Issuer {
    token::Issuer { name: issuer_name(role), keys: Vec::new(), require_confirmation: true }
}

fn issuer_name(role: &Server) -> String {
    role.authority.trim_end_matches('/').to_owned()
}

/// The authority's keys, asked for until it answers: without them no token can be checked.
async fn issuer(role: &Server, https: &HttpsClient, target: &Target) -> token::Issuer {
    let name = issuer_name(role);
    loop {
        match keys(https, target).await {
            Ok(keys) => return token::Issuer { name, keys, require_confirmation: true },
            Err(cause) => {
                tracing::warn!(server = role.name, authority = name, cause, "waiting for the keys of the authority");
            }
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

async fn keys(https: &HttpsClient, target: &Target) -> Result<Vec<token::VerifyingKey>, String> {
    match https.exchange(target, "GET", "/oauth2/jwks", &[], Vec::new()).await {
        Ok((status, body)) if status.is_success() => token::parse_jwks(&body).map_err(|error| error.to_string()),
        Ok((status, _)) => Err(format!("it answers {status}")),
        Err(error) => Err(error.to_string()),
    }
}

/// Hands rotated keys to the gate: the authority publishes a new key before it signs with it, and an old one after.
async fn follow_keys(mut issuer: token::Issuer, https: HttpsClient, target: Target, server: ServerHandle) {
    loop {
        tokio::time::sleep(if issuer.keys.is_empty() { ASK_AGAIN } else { LOOK_FOR_KEYS }).await;
        let Ok(keys) = keys(&https, &target).await else { continue };
        if token::jwks(&keys) == token::jwks(&issuer.keys) {
            continue;
        }
        issuer.keys = keys;
        let issuers = vec![issuer.clone()];
        let told = server.with(move |server, now| server.handle_input(Input::Issuers(issuers), now)).await;
        if told.is_err() {
            return;
        }
        tracing::info!(issuer = issuer.name, keys = issuer.keys.len(), "the keys of the authority have changed");
    }
}

fn gate(role: &Server, side: &Endpoint, uri: &str, map: ScopeMap, issuer: &token::Issuer) -> GateConfig {
    let contact = Contact {
        issuer: issuer.name.clone(),
        timeout: role.contact_timeout.get(),
        fail_mode: match role.fail_mode {
            ConfiguredFailMode::Closed => FailMode::Closed,
            ConfiguredFailMode::ReadOnly => FailMode::ReadOnly,
            ConfiguredFailMode::LastKnownGood => FailMode::LastKnownGood(role.last_known_good_for.get()),
        },
    };
    let mut gate = GateConfig::new(uri, map);
    gate.issuers = vec![issuer.clone()];
    gate.contact = Some(contact);
    endpoint::bound_gate(&mut gate, side);
    gate
}

/// How tokens come in, and where they are to be had.
fn issued(role: &Server, side: &Endpoint, uri: &str, up: &Up) -> IssuedTokens {
    let issuer = IssuerEndpoint {
        resource_id: uri.to_owned(),
        authority_url: role.authority_opcua.clone(),
        profile_uri: IssuerEndpoint::PROFILE_OPCUA.into(),
        token_endpoint: up.authority.as_ref().map(|running| running.opcua.service.clone()),
        authorization_endpoint: None,
        request_types: Vec::new(),
        scopes: Vec::new(),
    };
    IssuedTokens { issuer, forms: endpoint::token_forms(side) }
}
