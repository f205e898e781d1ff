//! The authority of `trapkey up`: its settings, its journal, its OPC UA side and its HTTPS.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use authority::{Authority, AuthorityConfig, Paces, PolicySource, system_clock};
use opcua_types::MessageSecurityMode;
use store::{Application, ApplicationKind, Db, DbConfig};
use ua_proto::channel::ChannelConfig;
use ua_proto::pki::OwnIdentity;
use ua_proto::server::{Identities, ServerConfig};

use super::{RunningAuthority, Up, endpoint, foreign, https, listen};
use crate::commands::certs::Kind;
use crate::commands::own::Own;
use crate::config::{Algorithm, Authority as AuthorityRole, Config, Identity, OnFailure, Pace};
use crate::failure::Failure;
use crate::{files, roles};

/// Starts it.
pub(super) async fn start(
    config: &Config,
    role: &AuthorityRole,
    snapshot: &pdp::Snapshot,
    up: &Up,
) -> Result<RunningAuthority, Failure> {
    let trust = endpoint::trust_settings(role.missing_crl, role.min_key_bits, role.max_key_bits);
    let own = Own::load_as(&role.pki, trust)?;
    let place = DbConfig { path: config.store.database.clone(), sync: crate::config::durability(config.store.sync) };
    let db = Db::open(&place).await.map_err(|error| Failure::from_error(&error))?;
    if let Some(folder) = &role.register {
        register(&db, folder, snapshot).await?;
    }
    let settings = settings(config, role)?;
    let plant = config.plant.clone();
    let source = PolicySource::Files { plant: plant.file, policies: plant.policies, workflow: plant.workflow };
    let authority = Authority::open(settings, source, db, up.ledger.clone(), system_clock()).await;
    let authority = authority.map_err(|error| Failure::from_error(&error))?;
    let identity = Arc::new(ArcSwap::new(Arc::clone(&own.identity)));
    let listener = listen(role.opcua)?;
    let setup = roles::authority::Setup {
        authority: authority.clone(),
        config: opcua(role, (&own, &identity), listener.local_addr()?)?,
        identity: Arc::clone(&identity),
        trust: Arc::clone(&own.trust),
        listener,
        audit: up.audit.clone(),
        pool: up.pool.clone(),
        pki: Some(own.store.clone()),
    };
    let opcua = roles::authority::start(setup, gates::clock::now()).map_err(|error| Failure::from_error(&error))?;
    own.keep_in_step(identity, &opcua.handle);
    let (stop_https, https) = https::serve(&authority, role).await?;
    Ok(RunningAuthority { authority, opcua, stop_https, https })
}

/// What it decides and issues by.
fn settings(config: &Config, role: &AuthorityRole) -> Result<AuthorityConfig, Failure> {
    let identity_issuers = role.identity_issuer.iter().map(|issuer| {
        let keys = foreign::from_file(&issuer.jwks)?;
        Ok(token::Issuer { name: issuer.name.clone(), keys, require_confirmation: false })
    });
    let pace = |pace: Pace| (pace.burst.short(), pace.every.get());
    Ok(AuthorityConfig {
        algorithm: match role.algorithm {
            Algorithm::Es256 => token::Algorithm::Es256,
            Algorithm::Rs256 => token::Algorithm::Rs256,
            Algorithm::EdDsa => token::Algorithm::EdDsa,
        },
        key_folder: Some(role.keys.clone()),
        key_overlap: role.key_overlap.get(),
        refresh_lifetime: role.refresh_lifetime.get(),
        refresh_line: role.refresh_line.get(),
        request_access_token: role.request_access_token,
        allow_padding: role.allow_padding,
        identity_issuers: identity_issuers.collect::<Result<_, Failure>>()?,
        admin_roles: role.admin_roles.clone(),
        evaluator_roles: role.evaluator_roles.clone(),
        heartbeat: role.heartbeat.get(),
        pending_lifetime: role.pending_lifetime.get(),
        pending_max: role.pending.size(),
        password_jobs: role.password_jobs.size(),
        connections: role.connections.size(),
        connections_per_address: role.connections_per_address.size(),
        paces: Paces {
            arrivals: pace(role.paces.arrivals),
            failures_per_address: pace(role.paces.failures_per_address),
            failures_per_account: pace(role.paces.failures_per_account),
            failures_per_pair: pace(role.paces.failures_per_account_and_address),
        },
        patience: role.patience.get(),
        audit_required: config.audit.on_failure == OnFailure::Closed,
        ..AuthorityConfig::new(role.issuer.trim_end_matches('/'))
    })
}

/// What OPC UA clients see of it.
fn opcua(
    role: &AuthorityRole,
    (own, identity): (&Own, &Arc<ArcSwap<OwnIdentity>>),
    address: SocketAddr,
) -> Result<ServerConfig, Failure> {
    let url = role.url.as_ref().map(|url| url.as_str());
    let urls = endpoint::urls(url, &role.names, own, address)?;
    let policies = endpoint::policies(&role.policies, own)?;
    let endpoints: Vec<_> = policies.into_iter().map(|id| (id, MessageSecurityMode::SignAndEncrypt)).collect();
    let mut channel = ChannelConfig::new(Arc::clone(identity), Arc::clone(&own.trust), endpoints.clone());
    endpoint::bound_channel(&mut channel, &role.limits);
    let taken = |identity| role.identities.contains(&identity);
    Ok(ServerConfig {
        endpoint_urls: urls,
        channel: Arc::new(channel),
        endpoints,
        identities: Identities {
            anonymous: taken(Identity::Anonymous),
            user_name: taken(Identity::UserName),
            // Whoever has a certificate of the plant may show it; whose it is, the accounts say.
            certificate: taken(Identity::X509).then(|| Arc::clone(&own.trust)),
            ..endpoint::identities(&role.limits)
        },
        limits: endpoint::server_limits(&role.limits),
        ..roles::authority::standard(&own.uri()?, identity, &own.trust, String::new())
    })
}

/// Registers each application that has a certificate below `folder`; who was switched off stays off.
async fn register(db: &Db, folder: &Path, snapshot: &pdp::Snapshot) -> Result<(), Failure> {
    let mut found: BTreeMap<String, Vec<access_model::Thumbprint>> = BTreeMap::new();
    for path in files::folders(folder)? {
        for kind in Kind::there(&path) {
            let certificate = gates::pki::certificate(&kind.certificate(&path));
            let certificate = certificate.map_err(|error| Failure::from_error(&error))?;
            if let Some(uri) = certificate.application_uri() {
                found.entry(uri.to_owned()).or_default().push(certificate.thumbprint());
            }
        }
    }
    for (uri, mut certificates) in found {
        let there = db.application(&uri).await.map_err(|error| Failure::from_error(&error))?;
        certificates.extend(there.iter().flat_map(|known| known.certificates.iter().copied()));
        certificates.sort_unstable();
        certificates.dedup();
        let server = snapshot.plant().servers.contains_key(&uri);
        let application = Application {
            name: there.as_ref().map_or_else(|| uri.clone(), |known| known.name.clone()),
            kind: if server { ApplicationKind::Server } else { ApplicationKind::Client },
            certificates,
            secret_hash: there.as_ref().and_then(|known| known.secret_hash.clone()),
            enabled: there.as_ref().is_none_or(|known| known.enabled),
            created: there.as_ref().map_or_else(|| gates::clock::now().unix, |known| known.created),
            uri,
        };
        db.put_application(&application).await.map_err(|error| Failure::from_error(&error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of `[authority]`, each with another value than the template's, and what the authority then keeps to.
    const KEYS: [(&str, &str, &str); 16] = [
        ("issuer", "\"https://plant.test:1/\"", "issuer: \"https://plant.test:1\","),
        ("algorithm", "\"EdDSA\"", "algorithm: EdDsa,"),
        ("keys", "\"elsewhere\"", "key_folder: Some(\"elsewhere\"),"),
        ("key_overlap", "\"25h\"", "key_overlap: 90000s,"),
        ("refresh_lifetime", "\"7h\"", "refresh_lifetime: 25200s,"),
        ("refresh_line", "\"13h\"", "refresh_line: 46800s,"),
        ("request_access_token", "true", "request_access_token: true,"),
        ("allow_padding", "true", "allow_padding: true,"),
        ("admin_roles", "[\"chief\"]", "admin_roles: [\"chief\"],"),
        ("evaluator_roles", "[\"judge\"]", "evaluator_roles: [\"judge\"],"),
        ("heartbeat", "\"1100ms\"", "heartbeat: 1.1s,"),
        ("pending_lifetime", "\"61s\"", "pending_lifetime: 61s,"),
        ("pending", "1025", "pending_max: 1025,"),
        ("password_jobs", "3", "password_jobs: 3,"),
        ("connections", "513", "connections: 513,"),
        ("patience", "\"31s\"", "patience: 31s,"),
    ];
    const PACES: [(&str, &str); 4] = [
        ("arrivals", "arrivals: (201, 11ms),"),
        ("failures_per_address", "failures_per_address: (202, 12ms),"),
        ("failures_per_account", "failures_per_account: (203, 13ms),"),
        ("failures_per_account_and_address", "failures_per_pair: (204, 14ms),"),
    ];

    /// The template with another value for a key of this section.
    fn with(text: &str, section: &str, key: &str, value: &str) -> String {
        let from = text.find(section).unwrap();
        let at = from + text[from..].find(&format!("\n{key} = ")).unwrap_or_else(|| panic!("{key}")) + 1;
        let end = at + text[at..].find('\n').unwrap();
        format!("{}{key} = {value}{}", &text[..at], &text[end..])
    }

    fn set(text: &str) -> String {
        let config = ::config::read(text, &::config::Overrides::default()).unwrap_or_else(|error| panic!("{error}"));
        format!("{:?}", settings(&config, config.authority.as_ref().unwrap()).unwrap()).replace(" }", ", }")
    }

    #[test]
    fn every_key_of_the_authority_is_the_setting_that_it_names() {
        let before = set(crate::config::TEMPLATE);
        for (key, value, setting) in KEYS {
            let after = set(&with(crate::config::TEMPLATE, "[authority]", key, value));
            assert!(after.contains(&format!(" {setting}")), "`{key}` is not `{setting}`: {after}");
            assert!(!before.contains(&format!(" {setting}")), "`{key}`: the template says the same");
        }
        for (number, (key, setting)) in (1..).zip(PACES) {
            let value = format!("{{ burst = {}, every = \"{}ms\" }}", 200 + number, 10 + number);
            let after = set(&with(crate::config::TEMPLATE, "[authority.paces]", key, &value));
            assert!(after.contains(&format!(" {setting}")), "`{key}` is not `{setting}`: {after}");
        }
        let open = set(&with(crate::config::TEMPLATE, "[audit]", "on_failure", "\"open\""));
        assert!(before.contains("audit_required: true,") && open.contains("audit_required: false,"));
        let few = set(&with(crate::config::TEMPLATE, "[authority]", "connections_per_address", "127"));
        assert!(few.contains("connections_per_address: 127,"), "{few}");
    }

    #[test]
    fn an_identity_provider_is_known_by_its_name_and_its_keys() {
        let folder = tempfile::tempdir().unwrap();
        let signer = token::Signer::generate(token::Algorithm::Es256).unwrap();
        let file = folder.path().join("realm.json");
        files::create(&file, token::jwks(&[signer.public()]).as_bytes(), false).unwrap();
        let more = format!(
            "[[authority.identity_issuer]]\nname = \"https://idp\"\njwks = {:?}\n\n[[server]]\n",
            file.display().to_string()
        );
        let text = crate::config::TEMPLATE.replacen("[[server]]\n", &more, 1);
        let config = ::config::read(&text, &::config::Overrides::default()).unwrap();
        let set = settings(&config, config.authority.as_ref().unwrap()).unwrap();
        let known: Vec<_> =
            set.identity_issuers.iter().map(|one| (one.name.as_str(), token::jwks(&one.keys))).collect();
        assert_eq!(known, [("https://idp", token::jwks(&[signer.public()]))]);
    }
}
