//! One resource server of `trapkey up`: its endpoints, its gate, and what keeps both in step with the authority.

use std::sync::Arc;

use arc_swap::ArcSwap;
use pep::GateConfig;
use plant::equipment::Station;
use plant::station::{Running, SharedLine, Unstarted};
use tokio::sync::mpsc;
use ua_proto::server::{AuditConfig, AuditFailMode, Identities, ServerConfig};

use super::bond::Bond;
use super::discovery::registration;
use super::local::Local;
use super::{Up, endpoint, foreign, listen};
use crate::commands::nodeset;
use crate::config::{Audit, Config, Identity, OnFailure, Server, Simulated};
use crate::failure::Failure;
use crate::files;

/// Starts it, once its authority has given its keys.
pub(super) async fn start(
    role: &Server,
    config: &Config,
    plant: &pdp::Plant,
    up: &Up,
    process: SharedLine,
) -> Result<Running, Failure> {
    let side = role.endpoint();
    let own = endpoint::own(&side)?;
    let https = own.https()?;
    let bond = Bond::of(role);
    let target = bond.target()?;
    let missing = || Failure::bad_input(format!("the plant file has no server `{}`", role.name));
    let (uri, server) = plant.server(&role.name).ok_or_else(missing)?;
    own.is_for(&role.name, uri)?;
    let local = Local::of(role, plant, server)?;
    let zones = bond.zoned(&config.zone).of(plant, server);
    // Whoever needs no token need not wait for the authority's keys.
    let (foreign, followed) = foreign::issuers(&role.issuer, uri, &own)?;
    let waits = local.is_nobody() && foreign.is_empty() && taken(role, Identity::Token);
    let issuer = if waits { bond.issuer(&https, &target).await } else { bond.without_keys() };
    let identity = Arc::new(ArcSwap::new(Arc::clone(&own.identity)));
    let listener = listen(role.listen)?;
    let (events, happened) = mpsc::unbounded_channel();
    let mut grants = local.grants.clone();
    grants.extend(foreign::grants(&role.issuer, server)?);
    let node_sets = role.node_sets.iter().map(|file| files::text(file)).collect::<Result<Vec<_>, _>>()?;
    let setup = plant::station::Setup {
        node_sets: &node_sets,
        import: nodeset::options(),
        station: match role.simulate {
            Simulated::Mixer => Station::Mixer,
            Simulated::Reactor => Station::Reactor,
            Simulated::Filler => Station::Filler,
        },
        server,
        config: ServerConfig {
            audit: audit_config(&config.audit),
            identities: Identities {
                anonymous: taken(role, Identity::Anonymous),
                user_name: local.by_password(),
                certificate: local.by_certificate(&own)?,
                issued: taken(role, Identity::Token).then(|| bond.issued(&side, uri, up)),
                ..endpoint::identities(&side.limits)
            },
            ..endpoint::server_config(&side, (uri, &role.name), (&own, &identity), listener.local_addr()?)?
        },
        listener,
        gate: &|map| GateConfig {
            local: grants.clone(),
            foreign: foreign.clone(),
            zones: zones.clone(),
            ..bond.gate(&side, uri, map, &issuer)
        },
        audit: up.audit.clone(),
        pool: up.pool.clone(),
        passwords: local.passwords()?,
        line: process,
        events,
        pki: Some(own.store.clone()),
    };
    up.registrations.add(&registration(&setup.config, side.discovery_server), &own, &identity, None);
    let running = plant::station::start(setup, gates::clock::now()).map_err(|error| match &error {
        Unstarted::NodeSet(number, fault) => match (role.node_sets.get(*number), node_sets.get(*number)) {
            (Some(file), Some(text)) => nodeset::fault(file.clone(), Arc::clone(text), fault),
            _ => Failure::from_error(&error),
        },
        _ => Failure::from_error(&error),
    })?;
    if side.discovery_server {
        let _stopped = running.handle.with(|server, _| server.serve_discovery()).await;
    }
    endpoint::call_clients(&side, &running.handle).await;
    own.keep_in_step(identity, &running.handle);
    bond.follow(issuer, (https, target, uri), happened, &running.handle);
    for issuer in followed {
        tokio::spawn(issuer.follow(running.handle.clone()));
    }
    Ok(running)
}

fn taken(role: &Server, identity: Identity) -> bool {
    role.identities.contains(&identity)
}

pub(super) fn audit_config(ledger: &Audit) -> AuditConfig {
    let unavailable = match ledger.on_failure {
        OnFailure::Closed => AuditFailMode::Closed,
        OnFailure::Open => AuditFailMode::Open,
    };
    AuditConfig {
        unavailable,
        denials_per_second: ledger.denials_per_second.short(),
        max_denial_kinds: ledger.denial_kinds.size(),
        ..AuditConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Servers and guards alike.
    #[test]
    fn denials_are_recorded_as_configured() {
        let text = crate::config::TEMPLATE
            .replace("denials_per_second = 5", "denials_per_second = 7")
            .replace("denial_kinds = 1024", "denial_kinds = 77")
            .replace("on_failure = \"closed\"", "on_failure = \"open\"");
        let config = ::config::read(&text, &crate::config::Overrides::default()).unwrap();
        let audit = audit_config(&config.audit);
        assert_eq!((audit.denials_per_second, audit.max_denial_kinds), (7, 77));
        assert_eq!(audit.unavailable, AuditFailMode::Open);
    }
}
