//! How a server or guard is tied to its authority: whose tokens it takes, and what it does when that one is lost.

use std::sync::Arc;
use std::time::Duration;

use access_model::ScopeMap;
use gates::control::Subscription;
use gates::https::{HttpsClient, Target};
use gates::opcua::Enforcing;
use gates::opcua::server::Handle;
use pep::{Contact, FailMode, FailState, GateConfig, GateEvent};
use tokio::sync::{Notify, mpsc};
use ua_proto::server::{Input, IssuedTokens, IssuerEndpoint};

use super::zones::{self, Zoned};
use super::{Up, endpoint};
use crate::config::{Endpoint, FailMode as ConfiguredFailMode, Server, Zone};
use crate::failure::Failure;

/// Pause between two attempts to reach an authority that is not there yet.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How often the authority's keys are looked at.
const LOOK_FOR_KEYS: Duration = Duration::from_secs(5);

/// The tie.
pub(crate) struct Bond {
    /// The short name of who is tied.
    pub(crate) name: String,
    /// Issuer: the authority's HTTPS base address.
    pub(crate) authority: String,
    /// Where clients get their tokens.
    pub(crate) authority_opcua: String,
    /// What it does without its authority, if it says so itself.
    pub(crate) fail_mode: Option<ConfiguredFailMode>,
    /// How long `last_known_good` lasts.
    pub(crate) grace: Duration,
    /// Contact is lost after this much silence.
    pub(crate) timeout: Duration,
}

impl Bond {
    pub(super) fn of(role: &Server) -> Self {
        Self {
            name: role.name.clone(),
            authority: role.authority.clone(),
            authority_opcua: role.authority_opcua.clone(),
            fail_mode: role.fail_mode,
            grace: role.last_known_good_for.get(),
            timeout: role.contact_timeout.get(),
        }
    }

    fn own_mode(&self) -> Option<FailMode> {
        self.fail_mode.map(|mode| zones::mode(mode, self.grace))
    }

    /// What it holds to with these zones of the configuration.
    pub(super) fn zoned(&self, zones: &[Zone]) -> Zoned {
        Zoned { zones: zones.to_vec(), own: self.own_mode() }
    }

    pub(super) fn target(&self) -> Result<Target, Failure> {
        Target::parse(&self.authority).map_err(|error| Failure::from_error(&error).into_bad_input())
    }

    /// The authority before it has given its keys: nobody's token is good.
    pub(super) fn without_keys(&self) -> token::Issuer {
        let name = self.authority.trim_end_matches('/').to_owned();
        token::Issuer { name, keys: Vec::new(), require_confirmation: true }
    }

    /// The authority's keys, asked for until it answers: without them no token can be checked.
    pub(super) async fn issuer(&self, https: &HttpsClient, target: &Target) -> token::Issuer {
        let issuer = self.without_keys();
        loop {
            match keys(https, target).await {
                Ok(keys) => return token::Issuer { keys, ..issuer },
                Err(cause) => {
                    let (server, authority) = (&self.name, &issuer.name);
                    tracing::warn!(server, authority, cause, "waiting for the keys of the authority");
                }
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    pub(super) fn gate(&self, side: &Endpoint, uri: &str, map: ScopeMap, issuer: &token::Issuer) -> GateConfig {
        let contact = Contact {
            issuer: issuer.name.clone(),
            timeout: self.timeout,
            fail_mode: self.own_mode().unwrap_or_default(),
        };
        let mut gate = GateConfig::new(uri, map);
        gate.issuers = vec![issuer.clone()];
        gate.contact = Some(contact);
        endpoint::bound_gate(&mut gate, side);
        gate
    }

    /// How tokens come in, and where they are to be had.
    pub(super) fn issued(&self, side: &Endpoint, uri: &str, up: &Up) -> IssuedTokens {
        let issuer = IssuerEndpoint {
            resource_id: uri.to_owned(),
            authority_url: self.authority_opcua.clone(),
            profile_uri: IssuerEndpoint::PROFILE_OPCUA.into(),
            token_endpoint: up.authority.as_ref().map(|running| running.opcua.service.clone()),
            authorization_endpoint: None,
            request_types: Vec::new(),
            scopes: Vec::new(),
        };
        IssuedTokens { issuer, forms: endpoint::token_forms(side) }
    }

    /// Feeds who is tied with keys and updates until it stops. `happened` is what its gate tells.
    pub(super) fn follow<C: Enforcing>(
        &self,
        issuer: token::Issuer,
        (https, authority, uri): (HttpsClient, Target, &str),
        mut happened: mpsc::UnboundedReceiver<GateEvent>,
        handle: &Handle<C>,
    ) {
        tokio::spawn(follow_keys(issuer, https.clone(), authority.clone(), handle.clone()));
        let gap = Arc::new(Notify::new());
        let subscription = Subscription { https, authority, audience: uri.to_owned(), silence: self.timeout };
        tokio::spawn(gates::control::follow(subscription.clone(), handle.clone(), Arc::clone(&gap)));
        let asks = Arc::new(Notify::new());
        tokio::spawn(gates::questions::carry(subscription, handle.clone(), Arc::clone(&asks)));
        let name = self.name.clone();
        tokio::spawn(async move {
            while let Some(event) = happened.recv().await {
                match event {
                    // Only a stream that runs has missed something; the next begins with the full list anyway.
                    GateEvent::NeedFullList => gap.notify_waiters(),
                    GateEvent::Question => asks.notify_one(),
                    GateEvent::FailMode(FailState::InStep) => tracing::info!(name, "in step with the authority"),
                    GateEvent::FailMode(state) => tracing::warn!(name, ?state, "contact with the authority is lost"),
                    GateEvent::Ledger(FailState::InStep) => tracing::info!(name, "what passes is recorded again"),
                    GateEvent::Ledger(state) => tracing::warn!(name, ?state, "nothing can be recorded"),
                    _ => {}
                }
            }
        });
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
async fn follow_keys<C: Enforcing>(mut issuer: token::Issuer, https: HttpsClient, target: Target, server: Handle<C>) {
    loop {
        tokio::time::sleep(if issuer.keys.is_empty() { ASK_AGAIN } else { LOOK_FOR_KEYS }).await;
        let Ok(keys) = keys(&https, &target).await else { continue };
        if token::jwks(&keys) == token::jwks(&issuer.keys) {
            continue;
        }
        issuer.keys = keys;
        let issuers = vec![issuer.clone()];
        let told = server.with(move |server, now| server.tell(Input::Issuers(issuers), now)).await;
        if told.is_err() {
            return;
        }
        tracing::info!(issuer = issuer.name, keys = issuer.keys.len(), "the keys of the authority have changed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_a_servers_tie_to_its_authority_is_the_setting_that_it_names() {
        for (mode, expected) in [
            ("closed", FailMode::Closed),
            ("read_only", FailMode::ReadOnly),
            ("last_known_good", FailMode::LastKnownGood(Duration::from_secs(960))),
        ] {
            let servers = crate::config::TEMPLATE.find("[[server]]").unwrap();
            let (before, mixer) = crate::config::TEMPLATE.split_at(servers);
            let mut mixer = mixer.to_owned();
            for (from, to) in [
                ("fail_mode = \"closed\"", format!("fail_mode = \"{mode}\"")),
                ("last_known_good_for = \"15m\"", "last_known_good_for = \"16m\"".to_owned()),
                ("contact_timeout = \"3s\"", "contact_timeout = \"4s\"".to_owned()),
                ("authority = \"https://localhost:8443\"", "authority = \"https://other:1/\"".to_owned()),
                (
                    "authority_opcua = \"opc.tcp://localhost:4841\"",
                    "authority_opcua = \"opc.tcp://other:2\"".to_owned(),
                ),
            ] {
                assert!(mixer.contains(from), "{from}");
                mixer = mixer.replacen(from, &to, 1);
            }
            let config = ::config::read(&format!("{before}{mixer}"), &::config::Overrides::default()).unwrap();
            let (role, map) = (&config.server[0], ScopeMap::new(["a"]).unwrap());
            let bond = Bond::of(role);
            let gate = bond.gate(&role.endpoint(), "urn:a", map, &bond.without_keys());
            let contact = gate.contact.unwrap();
            assert_eq!((contact.fail_mode, contact.timeout), (expected, Duration::from_secs(4)), "{mode}");
            assert_eq!(
                (contact.issuer.as_str(), gate.issuers[0].name.as_str()),
                ("https://other:1", "https://other:1")
            );
            assert_eq!(bond.target().unwrap().host, "other");
            assert_eq!(bond.authority_opcua, "opc.tcp://other:2", "where clients are sent for tokens");
        }
    }
}
