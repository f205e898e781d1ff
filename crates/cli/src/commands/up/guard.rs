//! One guard of `trapkey up`: what clients meet in front of a server that the plant already has, what keeps it in step
//! with the authority, and how it reaches that server.

use std::sync::Arc;

use access_model::Refusal;
use arc_swap::ArcSwap;
use gates::https::{HttpsClient, Target};
use gates::opcua::guard::GuardHandle;
use gates::opcua::server::Shell;
use gates::opcua::wiring::{Application, Credentials, Local};
use gates::pki::PkiStore;
use opcua_types::StatusCode;
use pep::{Gate, GateConfig, GateEvent, GrantRequest};
use tokio::sync::{mpsc, oneshot};
use ua_proto::guard::{GuardConfig, GuardLimits, Sharing};
use ua_proto::server::{Answer, AskSecret, FetchedGrant, Identities, Invocation, OnBare, ServerConfig};

use super::bond::Bond;
use super::discovery::registration;
use super::health::Reach;
use super::server::audit_config;
use super::turn::Turn;
use super::{Up, behind, endpoint, foreign, guests, layout, listen};
use crate::commands::own::Own;
use crate::config::{Config, Guard, GuardMode, Identity, Pool};
use crate::failure::Failure;

/// Starts it, once its authority has given its keys. Its server may come later.
pub(super) async fn start(
    role: &Guard,
    config: &Config,
    plant: &pdp::Plant,
    up: &Up,
) -> Result<(GuardHandle, Watching, Own), Failure> {
    let side = role.endpoint();
    let own = own(role)?;
    let https = own.https()?;
    let bond = bond(role, config)?;
    let target = bond.target()?;
    let missing = || Failure::bad_input(format!("the plant file has no server `{}`", role.name));
    let (uri, server) = plant.server(&role.name).ok_or_else(missing)?;
    own.is_for(&role.name, uri)?;
    let layout = layout::of(server)?;
    let issuer = bond.issuer(&https, &target).await;
    let identity = Arc::new(ArcSwap::new(Arc::clone(&own.identity)));
    let reached = behind::reached(&role.upstream)?;
    let way = behind::Way::of(role, &own, Arc::clone(&identity))?.reached(reached.clone());
    let listener = listen(role.listen)?;
    let identities = identities(role, server, &own);
    // What the plant file lets clients sign in with may change; that somebody may be asked about does not.
    let asks = role.identities.iter().any(|identity| *identity != Identity::Token);
    let (foreign, followed) = foreign::issuers(&role.issuer, uri, &own)?;
    let local = foreign::grants(&role.issuer, server)?;
    let front = ServerConfig {
        audit: audit_config(&config.audit),
        identities: Identities {
            issued: role.identities.contains(&Identity::Token).then(|| bond.issued(&side, uri, up)),
            ..identities
        },
        ..endpoint::server_config(&side, (uri, &role.name), (&own, &identity), listener.local_addr()?)?
    };
    let now = gates::clock::now();
    let mode = match role.mode {
        GuardMode::Enforce => access_model::Mode::Enforce,
        GuardMode::Observe => access_model::Mode::Observe,
    };
    let terms = bond.gate(&side, uri, layout.map.clone(), &issuer);
    let zones = bond.zoned(&config.zone).of(plant, server);
    let leased = role.standby.is_some();
    let gate = GateConfig { ask: asks, local, foreign, zones, leased, mode, switchable: true, ..terms };
    let gate = Gate::new(gate, now).map_err(|error| Failure::from_error(&error))?;
    let config = GuardConfig {
        upstream: Vec::new(),
        rules: layout.rules.clone(),
        interlocks: layout.interlocks.clone(),
        restrictions: layout.restrictions.clone(),
        write_ranges: Vec::new(),
        pool: match role.pool {
            Pool::Never => Sharing::Never,
            Pool::WhenFull => Sharing::WhenFull,
            Pool::Always => Sharing::Always,
        },
        hide_timing: true,
        paired: role.standby.is_some(),
        limits: GuardLimits { request_timeout: side.limits.request_timeout.get(), ..GuardLimits::default() },
    };
    let entropy = || -> Box<dyn ua_proto::Entropy + Send> { Box::new(token::SystemEntropy::new()) };
    let known_as = registration(&front, side.discovery_server);
    let guard = ua_proto::guard::Guard::new(front, config, gate, (entropy(), entropy()), now);
    let mut guard = guard.map_err(|error| Failure::from_error(&error))?;
    if side.discovery_server {
        guard.serve_discovery();
    }
    let (events, happened) = mpsc::unbounded_channel();
    let application = Behind { https: https.clone(), authority: target.clone(), events, pki: Some(own.store.clone()) };
    let shell =
        Shell { pool: up.pool.clone(), audit: up.audit.clone(), application: Box::new(move || Box::new(application)) };
    let handle = gates::opcua::guard::start_over(reached, listener, guard, shell)?;
    let reach = Reach::unknown();
    let turn = match &role.standby {
        Some(standby) => {
            let way = (https.clone(), target.clone());
            Some(Turn::start((&role.name, uri), standby, &own, way, (&handle, &reach)).await?)
        }
        None => None,
    };
    // Of two that take turns the one that serves is there.
    let serving = turn.as_ref().map(Turn::serving);
    up.registrations.add(&known_as, &own, &identity, serving.as_ref());
    endpoint::call_clients(&side, &handle).await;
    own.keep_in_step(Arc::clone(&identity), &handle);
    tokio::spawn(super::mode::follow_steps((https.clone(), target.clone(), uri.to_owned()), handle.clone()));
    bond.follow(issuer, (https, target, uri), happened, &handle);
    for issuer in followed {
        tokio::spawn(issuer.follow(handle.clone()));
    }
    let (first, looked) = oneshot::channel();
    tokio::spawn(behind::find(way, handle.clone(), first, reach.clone()));
    behind::looked_at(&handle, looked).await;
    Ok((handle, Watching { reach, turn }, own))
}

/// What is known of a guard besides what its thread says.
pub(super) struct Watching {
    pub(super) reach: Reach,
    /// Of one that another stands in for.
    pub(super) turn: Option<Turn>,
}

/// Its folder of certificates.
pub(crate) fn own(role: &Guard) -> Result<Own, Failure> {
    endpoint::own(&role.endpoint())
}

/// How it is tied to its authority.
pub(crate) fn bond(role: &Guard, config: &Config) -> Result<Bond, Failure> {
    let (authority, authority_opcua) = config.authority_of(role).ok_or_else(|| {
        Failure::bad_input(format!("nothing says which authority the guard `{}` has", role.name))
            .help("write `authority = \"https://...\"` and `authority_opcua = \"opc.tcp://...\"` below `[[guard]]`")
    })?;
    Ok(Bond {
        name: role.name.clone(),
        authority,
        authority_opcua,
        fail_mode: role.fail_mode,
        grace: role.last_known_good_for.get(),
        timeout: role.contact_timeout.get(),
    })
}

/// What clients may sign in with: what the guard is configured to take of what the plant file lets them.
pub(super) fn identities(role: &Guard, server: &pdp::plant::Server, own: &Own) -> Identities {
    use pdp::plant::SignIn;
    let taken = |identity, way| role.identities.contains(&identity) && server.sign_in.contains(&way);
    Identities {
        anonymous: taken(Identity::Anonymous, SignIn::Anonymous),
        user_name: taken(Identity::UserName, SignIn::UserName),
        certificate: taken(Identity::X509, SignIn::X509).then(|| Arc::clone(&own.trust)),
        on_bare: if role.danger_passwords_without_security { OnBare::AnonymousAndUserName } else { OnBare::Anonymous },
        ..endpoint::identities(&role.limits)
    }
}

/// What stands behind a guard on this side: the authority. Methods and values are the upstream server's.
pub(crate) struct Behind {
    pub(crate) https: HttpsClient,
    pub(crate) authority: Target,
    pub(crate) events: mpsc::UnboundedSender<GateEvent>,
    /// Where rejected certificates are kept.
    pub(crate) pki: Option<PkiStore>,
}

impl Application for Behind {
    fn invoke(&self, _: Invocation) -> Local<Answer> {
        let answer = Answer { status: StatusCode::BadInternalError, input_results: Vec::new(), outputs: Vec::new() };
        Box::pin(async move { answer })
    }

    /// The authority knows the passwords; see `fetch_grant`.
    fn authenticate(&self, _: Credentials) -> Local<Result<(), access_model::Refusal>> {
        Box::pin(async { Err(gates::opcua::wiring::wrong_credentials()) })
    }

    fn fetch_grant(&self, request: GrantRequest, secret: Option<AskSecret>) -> Local<Result<FetchedGrant, Refusal>> {
        let (https, authority) = (self.https.clone(), self.authority.clone());
        Box::pin(async move { guests::ask(&https, &authority, &request, secret).await })
    }

    fn gate_event(&self, event: GateEvent) {
        let _nobody_listens = self.events.send(event);
    }

    fn rejected(&self, certificate: &[u8]) {
        if let Some(pki) = &self.pki {
            pki.reject_der(certificate);
        }
    }
}
