//! Tests of the channel: each rule by name, then both ends against each other, then noise.

mod client_rules;
mod flight;
mod handshake;
mod noise;
mod renewal;
mod rules;

use std::sync::Arc;
use std::time::Duration;

use access_model::Now;
use arc_swap::ArcSwap;
use opcua_types::{MessageSecurityMode, StatusCode};

use super::{ChannelAudit, ChannelConfig, ChannelEvent, ClientChannel, ClientChannelConfig, ServerChannel};
use crate::Job;
use crate::crypto::SecurityPolicyId;
use crate::pki::{OwnIdentity, SharedTrust};
use crate::testing::{Counting, noon, trusting, versatile};

pub(super) const POLICIES: [SecurityPolicyId; 5] = [
    SecurityPolicyId::Basic256Sha256,
    SecurityPolicyId::Aes128Sha256RsaOaep,
    SecurityPolicyId::Aes256Sha256RsaPss,
    SecurityPolicyId::EccNistP256,
    SecurityPolicyId::EccCurve25519,
];
pub(super) const MODES: [MessageSecurityMode; 2] = [MessageSecurityMode::Sign, MessageSecurityMode::SignAndEncrypt];

/// A server's configuration that offers everything, and the handles a test turns.
pub(super) struct World {
    pub(super) config: Arc<ChannelConfig>,
    pub(super) server: OwnIdentity,
    pub(super) client: OwnIdentity,
    pub(super) server_trust: SharedTrust,
    pub(super) client_trust: SharedTrust,
}

impl World {
    pub(super) fn new(server_bits: usize, client_bits: usize) -> Self {
        Self::with(server_bits, client_bits, |_| {})
    }

    pub(super) fn with(server_bits: usize, client_bits: usize, change: impl FnOnce(&mut ChannelConfig)) -> Self {
        let server = versatile("server", server_bits, 1);
        let client = versatile("client", client_bits, 2);
        let (server_trust, client_trust) = (trusting(&[&client]), trusting(&[&server]));
        let mut offered = vec![(SecurityPolicyId::None, MessageSecurityMode::None)];
        POLICIES.iter().for_each(|policy| offered.extend(MODES.map(|mode| (*policy, mode))));
        let own = Arc::new(ArcSwap::from_pointee(server.clone()));
        let mut config = ChannelConfig::new(own, server_trust.clone(), offered);
        change(&mut config);
        Self { config: Arc::new(config), server, client, server_trust, client_trust }
    }

    pub(super) fn client_config(&self, policy: SecurityPolicyId, mode: MessageSecurityMode) -> ClientChannelConfig {
        let mut config = ClientChannelConfig::unprotected("opc.tcp://plant.example:4840/");
        config.policy = policy;
        config.mode = mode;
        config.lifetime = Duration::from_secs(100);
        if policy != SecurityPolicyId::None {
            config.identity = Some(Arc::new(self.client.clone()));
            config.server_certificate = Some(of(&self.server, policy).certificate.clone());
            config.trust = Some(self.client_trust.clone());
            config.server_uri = Some("urn:test:server".into());
            config.host = Some("plant.example".into());
        }
        config
    }

    pub(super) fn connect(&self, policy: SecurityPolicyId, mode: MessageSecurityMode) -> Wire {
        self.connect_with(self.client_config(policy, mode))
    }

    pub(super) fn connect_with(&self, client: ClientChannelConfig) -> Wire {
        let mut wire = Wire::new(self, client);
        wire.run();
        wire
    }
}

/// The identity that an application uses under `policy`.
pub(super) fn of(identity: &OwnIdentity, policy: SecurityPolicyId) -> Arc<OwnIdentity> {
    OwnIdentity::for_policy(&Arc::new(identity.clone()), policy).unwrap()
}

/// A server and a client and what happened at each.
pub(super) struct Wire {
    pub(super) now: Now,
    pub(super) entropy: Counting,
    pub(super) server: ServerChannel,
    pub(super) client: ClientChannel,
    pub(super) at_server: Vec<ChannelEvent>,
    pub(super) at_client: Vec<ChannelEvent>,
    pub(super) server_jobs: Vec<Job>,
    pub(super) client_jobs: Vec<Job>,
    /// Jobs wait in the lists instead of being run at once.
    pub(super) slow: bool,
}

impl Wire {
    pub(super) fn new(world: &World, client: ClientChannelConfig) -> Self {
        let now = noon();
        Self {
            now,
            entropy: Counting(7),
            server: ServerChannel::new(77, world.config.clone(), now),
            client: ClientChannel::new(Arc::new(client), now).unwrap(),
            at_server: Vec::new(),
            at_client: Vec::new(),
            server_jobs: Vec::new(),
            client_jobs: Vec::new(),
            slow: false,
        }
    }

    /// Moves bytes and jobs until nothing moves any more.
    pub(super) fn run(&mut self) {
        while self.step() {}
    }

    pub(super) fn step(&mut self) -> bool {
        let up = std::mem::take(self.client.outgoing());
        let down = std::mem::take(self.server.outgoing());
        let mut moved = !up.is_empty() || !down.is_empty();
        self.server.receive(&up, self.now, &mut self.entropy);
        self.client.receive(&down, self.now, &mut self.entropy);
        self.collect();
        if !self.slow {
            moved |= self.work();
        }
        moved
    }

    /// Runs the jobs that wait.
    pub(super) fn work(&mut self) -> bool {
        let (server, client) = (std::mem::take(&mut self.server_jobs), std::mem::take(&mut self.client_jobs));
        let any = !server.is_empty() || !client.is_empty();
        for job in server {
            let (id, outcome) = job.run();
            self.server.job_done(id, outcome, self.now, &mut self.entropy);
        }
        for job in client {
            let (id, outcome) = job.run();
            self.client.job_done(id, outcome, self.now, &mut self.entropy);
        }
        self.collect();
        any
    }

    pub(super) fn collect(&mut self) {
        while let Some(event) = self.server.poll_event() {
            match event {
                ChannelEvent::Job(job) => self.server_jobs.push(job),
                other => self.at_server.push(other),
            }
        }
        while let Some(event) = self.client.poll_event() {
            match event {
                ChannelEvent::Job(job) => self.client_jobs.push(job),
                other => self.at_client.push(other),
            }
        }
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
        self.server.handle_timeout(self.now);
        self.client.handle_timeout(self.now, &mut self.entropy);
        self.collect();
    }

    /// Sends a request and gives its id.
    pub(super) fn ask(&mut self, body: &[u8]) -> u32 {
        self.client.send(&mut |out| put(out, body), self.now).unwrap()
    }

    pub(super) fn answer(&mut self, request_id: u32, body: &[u8]) {
        self.server.send(request_id, &mut |out| put(out, body), self.now).unwrap();
    }

    /// The bodies the server got and did not take yet.
    pub(super) fn requests(&mut self) -> Vec<(u32, Vec<u8>)> {
        messages(&mut self.at_server)
    }

    pub(super) fn responses(&mut self) -> Vec<(u32, Vec<u8>)> {
        messages(&mut self.at_client)
    }
}

pub(super) fn put(out: &mut Vec<u8>, body: &[u8]) -> Result<(), super::EncodeError> {
    out.extend_from_slice(body);
    Ok(())
}

fn messages(events: &mut Vec<ChannelEvent>) -> Vec<(u32, Vec<u8>)> {
    let mut found = Vec::new();
    events.retain_mut(|event| match event {
        ChannelEvent::Message { request_id, body } => {
            found.push((*request_id, std::mem::take(body)));
            false
        }
        _ => true,
    });
    found
}

/// How the channel ended, if it did.
pub(super) fn closed(events: &[ChannelEvent]) -> Option<StatusCode> {
    events.iter().find_map(|event| match event {
        ChannelEvent::Closed { status } => Some(*status),
        _ => None,
    })
}

/// The last audit that gives a reason.
pub(super) fn refusal(events: &[ChannelEvent]) -> Option<&ChannelAudit> {
    events.iter().rev().find_map(|event| match event {
        ChannelEvent::Audit(audit) if audit.reason.is_some() => Some(audit),
        _ => None,
    })
}

pub(super) fn opened(events: &[ChannelEvent]) -> bool {
    events.iter().any(|event| matches!(event, ChannelEvent::Opened))
}

pub(super) fn renewed(events: &[ChannelEvent]) -> usize {
    events.iter().filter(|event| matches!(event, ChannelEvent::Renewed)).count()
}
