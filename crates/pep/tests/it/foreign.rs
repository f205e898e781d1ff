//! Issuers that are not the authority: what they say counts for who somebody is, and their keys are their own.

use access_model::{Action, Now, Reason};
use pep::{ChannelBinding, ForeignIssuer, Gate, GateConfig, InvalidGate, LocalGrant, LocalScopes, Who};
use token::{Algorithm, Claims, Issuer, Signer, mint};

use crate::common::{AUDIENCE, Authority, FOREIGN, ISSUER, READ, claims, denied, map, start};

const API: &str = "api://mixer";

/// A gate with a foreign issuer beside the authority, whose role `Operator` may read everything.
fn gate(authority: &Authority, require_confirmation: bool) -> Gate {
    let keys = vec![authority.foreign.public()];
    let local = LocalGrant {
        who: Who::TokenRole { issuer: FOREIGN.into(), role: "Operator".into() },
        require_encryption: false,
        roles: Vec::new(),
        rights: vec![(READ, LocalScopes::All)],
    };
    let config = GateConfig {
        issuers: vec![authority.config().issuers.remove(0)],
        foreign: vec![ForeignIssuer {
            issuer: Issuer { name: FOREIGN.into(), keys, require_confirmation },
            audience: API.into(),
            roles: Default::default(),
        }],
        local: vec![local],
        ..GateConfig::new(AUDIENCE, map())
    };
    Gate::new(config, start()).unwrap()
}

fn said(now: Now) -> Claims {
    Claims {
        issuer: FOREIGN.into(),
        audience: API.into(),
        confirmation: None,
        client: None,
        rights: None,
        roles: vec!["Operator".into()],
        ..claims("f", now)
    }
}

fn anybody() -> ChannelBinding {
    ChannelBinding::default()
}

#[test]
fn foreign_issuers_survive_the_rotation_of_the_authoritys_keys() {
    let (authority, now) = (Authority::new(), start());
    let mut gate = gate(&authority, false);
    let token = authority.token(&said(now));
    let grant = gate.present(&token, &anybody(), now).unwrap();
    let next = Signer::generate(Algorithm::Es256).unwrap();
    let rotated = Issuer { name: ISSUER.into(), keys: vec![next.public()], require_confirmation: true };
    gate.set_issuers(vec![rotated], now).unwrap();
    assert_eq!(denied(&gate, grant, Action::Read, 2, now), None, "the grant stands");
    assert!(gate.present(&token, &anybody(), now).is_ok(), "and the next is taken");

    gate.set_foreign_keys(FOREIGN, vec![next.public()]).unwrap();
    let refused = gate.present(&token, &anybody(), now).unwrap_err();
    assert_eq!(refused.reason, Reason::TokenUnknownKey, "its own rotation counts");
    let renewed = mint(&said(now), &next).unwrap();
    assert!(gate.present(renewed.as_bytes(), &anybody(), now).is_ok());
    let unknown = gate.set_foreign_keys("https://else", Vec::new());
    assert_eq!(unknown, Err(InvalidGate::UnknownIssuer("https://else".into())));
}

#[test]
fn a_foreign_issuer_says_who_somebody_is_and_nothing_else() {
    let (authority, now) = (Authority::new(), start());
    let mut gate = gate(&authority, false);
    let sound = said(now);
    for (what, claims, reason) in [
        ("decides", Claims { rights: claims("f", now).rights, ..sound.clone() }, Reason::TokenRights),
        ("names another audience", Claims { audience: AUDIENCE.into(), ..sound.clone() }, Reason::TokenAudience),
        ("calls itself the authority", Claims { issuer: ISSUER.into(), ..sound.clone() }, Reason::TokenUnknownKey),
    ] {
        let token = mint(&claims, &authority.foreign).unwrap();
        let refused = gate.present(token.as_bytes(), &anybody(), now).unwrap_err();
        assert_eq!(refused.reason, reason, "{what}");
    }
    let ours = mint(&sound, &authority.signer).unwrap();
    let refused = gate.present(ours.as_bytes(), &anybody(), now).unwrap_err();
    assert_eq!(refused.reason, Reason::TokenUnknownKey, "the authority's key does not sign for it");
    let nobody = Claims { roles: vec!["Somebody".into()], ..sound.clone() };
    let grant = gate.present(&authority.token(&nobody), &anybody(), now).unwrap();
    assert!(denied(&gate, grant, Action::Read, 2, now).is_some(), "a role that is not mapped gives nothing");
}

#[test]
fn a_certificate_is_asked_for_where_it_is_configured() {
    let (authority, now) = (Authority::new(), start());
    let refused = gate(&authority, true).present(&authority.token(&said(now)), &anybody(), now).unwrap_err();
    assert_eq!(refused.reason, Reason::TokenUnbound);
}

#[test]
fn one_name_is_one_issuer() {
    let authority = Authority::new();
    let config = gate(&authority, false).config().clone();
    let twice = Gate::new(GateConfig { issuers: authority.config().issuers, ..config.clone() }, start());
    assert_eq!(twice.err(), Some(InvalidGate::DuplicateIssuer(FOREIGN.into())));
    let mut silent = config;
    silent.foreign[0].audience.clear();
    assert_eq!(Gate::new(silent, start()).err(), Some(InvalidGate::NoAudience));
}
