//! What the tests of tokens share.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

use access_model::{Epoch, MapDigest, Rights, Thumbprint, UnixTime};
use token::{Algorithm, Claims, Expectation, Issuer, MAX_TOKEN_LEN, RightsClaim, Signer};

pub const NOW: UnixTime = UnixTime::from_seconds(1_790_000_000);
pub const AUDIENCE: &str = "urn:plant-west.example.com:batch:reactor-line-1";
pub const ISSUER: &str = "https://authority.plant-west.example.com:8443";

pub fn seconds(offset: i64) -> UnixTime {
    UnixTime::from_seconds(NOW.as_seconds() + offset)
}

/// Claims with everything a real token carries.
pub fn claims(rights: Option<RightsClaim>) -> Claims {
    Claims {
        issuer: ISSUER.into(),
        subject: "maria.keller@plant-west.example.com".into(),
        audience: AUDIENCE.into(),
        expires: seconds(300),
        not_before: NOW,
        issued_at: NOW,
        id: "q83vEjRWeJCrze8SNFZ4kA".into(),
        client: Some("urn:plant-west.example.com:hmi-3:operator-client".into()),
        confirmation: Some(Thumbprint([0xA5; 32])),
        roles: vec!["Operator".into(), "ShiftLead".into()],
        groups: vec!["line-1".into()],
        rights,
        epoch: Epoch(4_711),
        padding: 0,
    }
}

pub fn rights<const N: usize>(entries: [(Rights, &[u32]); N]) -> RightsClaim {
    RightsClaim::new(MapDigest([7; 16]), entries.map(|(held, scopes)| (held, scopes.iter().copied())))
}

pub fn some_rights() -> RightsClaim {
    let operate = Rights::BROWSE | Rights::READ | Rights::WRITE;
    rights([(Rights::BROWSE | Rights::READ, &[1, 2, 3, 40]), (operate, &[4, 5]), (operate | Rights::CALL, &[9])])
}

pub fn issuer(signer: &Signer) -> Issuer {
    Issuer { name: ISSUER.into(), keys: vec![signer.public()], require_confirmation: true }
}

pub fn expectation(issuers: &[Issuer]) -> Expectation<'_> {
    Expectation { issuers, audience: AUDIENCE, now: NOW, max_len: MAX_TOKEN_LEN }
}

pub fn signer() -> Signer {
    Signer::generate(Algorithm::Es256).unwrap()
}
