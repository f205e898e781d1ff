//! What the tests of the gate share: an authority with a key, tokens, clocks.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

use std::time::Duration;

use access_model::{Action, Epoch, Mono, Now, Operation, Reason, Rights, ScopeIndex, ScopeMap, Thumbprint, UnixTime};
use pep::{ChannelBinding, Contact, FailMode, Gate, GateConfig, GateEvent, GrantId, Verdict};
use token::control::{Replacement, Revocation, Update, seal};
use token::{Algorithm, Claims, Issuer, RightsClaim, Signer, map_digest, mint};

pub const AUDIENCE: &str = "urn:plant:reactor";
pub const ISSUER: &str = "https://authority.example";
pub const FOREIGN: &str = "https://keycloak.example/realms/plant";
pub const CLIENT: Thumbprint = Thumbprint([7; 32]);
pub const READ: Rights = Rights::READ;

pub fn start() -> Now {
    Now { mono: Mono::from_nanos(5_000_000_000), unix: UnixTime::from_seconds(1_790_000_000) }
}

pub const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

pub fn map() -> ScopeMap {
    ScopeMap::new(["mixer", "reactor", "tank"]).unwrap()
}

pub fn binding() -> ChannelBinding {
    ChannelBinding {
        certificate: Some(CLIENT),
        application: Some("urn:hmi".into()),
        encrypted: true,
        address: Some("192.0.2.1:4840".into()),
    }
}

pub struct Authority {
    pub signer: Signer,
    pub foreign: Signer,
}

impl Authority {
    pub fn new() -> Self {
        Self {
            signer: Signer::generate(Algorithm::EdDsa).unwrap(),
            foreign: Signer::generate(Algorithm::EdDsa).unwrap(),
        }
    }

    pub fn config(&self) -> GateConfig {
        let ours = Issuer { name: ISSUER.into(), keys: vec![self.signer.public()], require_confirmation: true };
        let foreign = Issuer { name: FOREIGN.into(), keys: vec![self.foreign.public()], require_confirmation: false };
        GateConfig { issuers: vec![ours, foreign], ..GateConfig::new(AUDIENCE, map()) }
    }

    /// A gate that listens to nobody.
    pub fn gate(&self) -> Gate {
        Gate::new(self.config(), start()).unwrap()
    }

    /// A gate in step with the authority at epoch 1, which loses contact after 10 s of silence.
    pub fn listening(&self, fail_mode: FailMode) -> Gate {
        let contact = Some(Contact { issuer: ISSUER.into(), timeout: seconds(10), fail_mode });
        let mut gate = Gate::new(GateConfig { contact, ..self.config() }, start()).unwrap();
        assert_eq!(events(&mut gate), [GateEvent::NeedFullList]);
        gate.on_update(&self.seal(&full(1, start())), start()).unwrap();
        events(&mut gate);
        gate
    }

    pub fn token(&self, claims: &Claims) -> Vec<u8> {
        let signer = if claims.issuer == FOREIGN { &self.foreign } else { &self.signer };
        mint(claims, signer).unwrap().as_bytes().to_vec()
    }

    pub fn seal(&self, update: &Update) -> Vec<u8> {
        seal(update, &self.signer).unwrap()
    }
}

/// A token for five minutes that may read and write scope 1, and read scope 2.
pub fn claims(id: &str, now: Now) -> Claims {
    Claims {
        issuer: ISSUER.into(),
        subject: "maria".into(),
        audience: AUDIENCE.into(),
        expires: now.unix + seconds(300),
        not_before: now.unix,
        issued_at: now.unix,
        id: id.into(),
        client: Some("urn:hmi".into()),
        confirmation: Some(CLIENT),
        roles: vec!["Operator".into()],
        groups: vec![],
        rights: Some(rights(&[(READ | Rights::WRITE, &[1]), (READ, &[2])])),
        epoch: Epoch(1),
        padding: 0,
    }
}

pub fn rights(entries: &[(Rights, &[u32])]) -> RightsClaim {
    RightsClaim::new(map_digest(&map()), entries.iter().map(|(held, scopes)| (*held, scopes.iter().copied())))
}

pub fn full(epoch: u64, now: Now) -> Update {
    Update {
        issuer: ISSUER.into(),
        audience: AUDIENCE.into(),
        epoch: Epoch(epoch),
        previous: None,
        issued_at: now.unix,
        revoked: vec![],
        replaced: vec![],
        approved: vec![],
        mode: None,
    }
}

pub fn delta(epoch: u64, now: Now) -> Update {
    Update { previous: Some(Epoch(epoch - 1)), ..full(epoch, now) }
}

pub fn revocation(id: &str, now: Now) -> Revocation {
    Revocation { id: id.into(), expires: now.unix + seconds(300) }
}

pub fn replacement(id: &str, entries: &[(Rights, &[u32])], now: Now) -> Replacement {
    let end = now.unix + seconds(300);
    Replacement { id: id.into(), rights: rights(entries), not_after: end, expires: end }
}

pub fn events(gate: &mut Gate) -> Vec<GateEvent> {
    std::iter::from_fn(|| gate.poll_event()).collect()
}

pub fn operation(action: Action, scope: u32) -> Operation {
    Operation { action, scope: ScopeIndex(scope), node: 99 }
}

/// `None` for a permit.
pub fn denied(gate: &Gate, grant: GrantId, action: Action, scope: u32, now: Now) -> Option<Reason> {
    match gate.check(grant, operation(action, scope), now) {
        Verdict::Permit(permit) => {
            assert_eq!(permit.spend().0, operation(action, scope));
            None
        }
        Verdict::Deny(denial) => Some(denial.reason),
    }
}
