//! The gate's rules, one by one.

use access_model::{Action, Mono, Now, Reason, Rights, ScopeIndex, ScopeMap, Thumbprint, UnixTime};
use pep::{
    Admission, Change, ChannelBinding, Contact, FailMode, FailState, Gate, GateConfig, GateEvent, Identity,
    InvalidGate, LocalGrant, LocalScopes, Standing, Who,
};
use token::Claims;
use token::control::Update;

use crate::common::{
    AUDIENCE, Authority, CLIENT, FOREIGN, ISSUER, READ, binding, claims, delta, denied, events, full, map, replacement,
    revocation, rights, seconds, start,
};

/// The wall clock moved by so many seconds, the monotonic one left alone.
fn wall(now: Now, by: i64) -> Now {
    Now { unix: UnixTime::from_micros(now.unix.as_micros() + by * 1_000_000), ..now }
}

#[test]
fn a_token_grants_what_it_says_and_public() {
    let authority = Authority::new();
    let mut gate = authority.gate();
    let now = start();
    let grant = gate.present(&authority.token(&claims("a", now)), &binding(), now).unwrap();
    let cases = [
        (Action::Read, 1, None),
        (Action::Write, 1, None),
        (Action::Read, 2, None),
        (Action::Write, 2, Some(Reason::RightMissing)),
        (Action::Browse, 1, Some(Reason::RightMissing)),
        (Action::Read, 3, Some(Reason::ScopeNotGranted)),
        (Action::Read, 4, Some(Reason::ScopeNotGranted)),
        (Action::Read, ScopeIndex::NOWHERE.0, Some(Reason::ScopeNotGranted)),
        (Action::Browse, ScopeIndex::PUBLIC.0, None),
        (Action::Read, ScopeIndex::PUBLIC.0, None),
        (Action::Write, ScopeIndex::PUBLIC.0, Some(Reason::RightMissing)),
        (Action::Call, ScopeIndex::PUBLIC.0, Some(Reason::RightMissing)),
    ];
    for (action, scope, wanted) in cases {
        assert_eq!(denied(&gate, grant, action, scope, now), wanted, "{action:?} on {scope}");
        let held = gate.rights(grant, ScopeIndex(scope), now);
        assert_eq!(held.contains(action.needed()), wanted.is_none(), "rights of {action:?} on {scope}");
    }
    assert_eq!(gate.role_permissions(grant, ScopeIndex(1), now), [("Operator", READ | Rights::WRITE)]);
    assert_eq!(gate.claims(grant).unwrap().subject, "maria");
    assert_eq!(gate.grants().map(|(id, facts)| (id, facts.subject.as_str())).collect::<Vec<_>>(), [(grant, "maria")]);
    assert_eq!(gate.standing(grant, now), Standing::Live { until: now.mono + seconds(300) });
}

#[test]
fn every_refusal_of_a_token_has_its_reason() {
    let authority = Authority::new();
    let now = start();
    let good = claims("a", now);
    let with = |change: fn(&mut Claims)| {
        let mut claims = good.clone();
        change(&mut claims);
        authority.token(&claims)
    };
    let thief = ChannelBinding { certificate: Some(Thumbprint([8; 32])), ..binding() };
    let plain = ChannelBinding { certificate: None, application: None, encrypted: false, address: None };
    let other_app = ChannelBinding { application: Some("urn:other".into()), ..binding() };
    let cases = [
        (Reason::TokenMalformed, "no token", b"x".to_vec(), binding()),
        (Reason::TokenAudience, "for another server", with(|c| c.audience = "urn:other".into()), binding()),
        (Reason::TokenExpired, "over", with(|c| c.expires = start().unix), binding()),
        (Reason::TokenConfirmation, "stolen", authority.token(&good), thief),
        (Reason::TokenConfirmation, "stolen, and no certificate", authority.token(&good), plain),
        (Reason::TokenConfirmation, "issued to another application", authority.token(&good), other_app),
        (Reason::TokenUnbound, "bound to nothing", with(|c| c.confirmation = None), binding()),
        (Reason::ScopeMapMismatch, "another map", with(|c| c.rights.as_mut().unwrap().map.0 = [9; 16]), binding()),
        (Reason::TokenRights, "beyond the map", with(|c| c.rights = Some(rights(&[(READ, &[4])]))), binding()),
    ];
    for (wanted, case, token, binding) in cases {
        let mut gate = authority.gate();
        let refusal = gate.present(&token, &binding, now).unwrap_err();
        assert_eq!((refusal.reason, gate.len()), (wanted, 0), "{case}");
    }
}

#[test]
fn grants_are_bounded_and_ids_are_not_used_again() {
    let authority = Authority::new();
    let now = start();
    let mut gate = Gate::new(GateConfig { max_grants: 2, ..authority.config() }, now).unwrap();
    let token = authority.token(&claims("a", now));
    let first = gate.present(&token, &binding(), now).unwrap();
    gate.present(&token, &binding(), now).unwrap();
    assert_eq!(gate.present(&token, &binding(), now).unwrap_err().reason, Reason::TooBusy);
    gate.release(first);
    gate.release(first);
    assert_eq!(gate.len(), 1);
    let next = gate.present(&token, &binding(), now).unwrap();
    assert_ne!(first, next);
    assert_eq!(denied(&gate, first, Action::Read, 1, now), Some(Reason::NoGrant));
    assert_eq!(gate.standing(first, now), Standing::Gone);
    assert_eq!(denied(&gate, next, Action::Read, 1, now), None);
}

#[test]
fn a_grant_expires_waits_and_ends() {
    let authority = Authority::new();
    let mut gate = authority.gate();
    let now = start();
    let grant = gate.present(&authority.token(&claims("a", now)), &binding(), now).unwrap();
    assert_eq!(gate.poll_timeout(), Some(now.mono + seconds(300)));
    let last = now.after(seconds(300) - std::time::Duration::from_micros(1));
    gate.handle_timeout(last);
    assert_eq!(denied(&gate, grant, Action::Read, 1, last), None);
    let over = now.after(seconds(300));
    assert_eq!(denied(&gate, grant, Action::Read, 1, over), Some(Reason::GrantExpired), "before any timer ran");
    gate.handle_timeout(over);
    assert_eq!(events(&mut gate), [GateEvent::Expired(grant)]);
    assert_eq!(gate.standing(grant, over), Standing::Expired { since: over.mono });
    assert_eq!(gate.rights(grant, ScopeIndex::PUBLIC, over), Rights::NONE, "not even public");
    assert_eq!(gate.poll_timeout(), Some(over.mono + seconds(60)));
    gate.handle_timeout(over.after(seconds(60)));
    assert_eq!(events(&mut gate), [GateEvent::Ended(grant)]);
    assert_eq!((gate.len(), gate.poll_timeout()), (0, None));
}

#[test]
fn a_wall_clock_set_back_never_extends_a_grant() {
    let authority = Authority::new();
    let mut gate = authority.gate();
    let now = start();
    let grant = gate.present(&authority.token(&claims("a", now)), &binding(), now).unwrap();
    let back = wall(now.after(seconds(299)), -3_600);
    gate.handle_timeout(back);
    assert_eq!(denied(&gate, grant, Action::Read, 1, back), None);
    let over = wall(now.after(seconds(300)), -3_600);
    assert_eq!(denied(&gate, grant, Action::Read, 1, over), Some(Reason::GrantExpired));
}

#[test]
fn a_wall_clock_set_forward_ends_a_grant_for_good() {
    let authority = Authority::new();
    let mut gate = authority.listening(FailMode::Closed);
    let now = start();
    let grant = gate.present(&authority.token(&claims("a", now)), &binding(), now).unwrap();
    let ahead = wall(now.after(seconds(1)), 300);
    assert_eq!(denied(&gate, grant, Action::Read, 1, ahead), Some(Reason::GrantExpired));
    assert!(gate.is_due(ahead) && gate.poll_timeout().is_some_and(|next| next > ahead.mono));
    gate.handle_timeout(ahead);
    assert!(!gate.is_due(ahead));
    assert_eq!(events(&mut gate), [GateEvent::Expired(grant)]);
    let back = now.after(seconds(2));
    gate.on_update(&authority.seal(&full(2, back)), back).unwrap();
    gate.handle_timeout(back);
    assert_eq!(denied(&gate, grant, Action::Read, 1, back), Some(Reason::GrantExpired));
}

#[test]
fn a_wall_clock_set_back_brings_no_token_back() {
    // Whether the gate has held a grant, been asked in vain, or only been awake when the wall clock was right.
    type Before = fn(&mut Gate, &[u8], Now);
    let authority = Authority::new();
    let before: [(&str, Before); 4] = [
        ("presented while it was good", |gate, token, now| drop(gate.present(token, &binding(), now))),
        ("presented when it was over", |gate, token, now| {
            drop(gate.present(token, &binding(), now.after(seconds(400))))
        }),
        ("never seen", |_, _, _| {}),
        ("a clock that was late and corrected", |gate, _, now| {
            let corrected = wall(now.after(seconds(1)), 1_000);
            assert!(gate.is_due(corrected), "a step forward is looked at even without grants");
            gate.handle_timeout(corrected);
        }),
    ];
    for (case, before) in before {
        let mut gate = authority.gate();
        let now = start();
        let token = authority.token(&claims("a", now));
        before(&mut gate, &token, now);
        let back = wall(now.after(seconds(401)), -400);
        let refusal = gate.present(&token, &binding(), back).unwrap_err();
        assert_eq!(refusal.reason, Reason::TokenExpired, "{case}");
        assert!(refusal.detail.contains("the wall clock was set back by"), "{case}: {}", refusal.detail);
        assert!(gate.clock_behind(back) >= seconds(400), "{case}");
    }
}

#[test]
fn what_was_minted_by_a_right_clock_is_taken_by_a_gate_whose_clock_was_set_back() {
    let authority = Authority::new();
    let mut gate = authority.gate();
    let right = start().after(seconds(1_000));
    gate.handle_timeout(right);
    let back = wall(right.after(seconds(1)), -3_600);
    let grant = gate.present(&authority.token(&claims("a", right)), &binding(), back).unwrap();
    let (last, over) = (right.after(seconds(299)), right.after(seconds(300)));
    assert_eq!(denied(&gate, grant, Action::Read, 1, wall(last, -3_600)), None);
    assert_eq!(denied(&gate, grant, Action::Read, 1, wall(over, -3_600)), Some(Reason::GrantExpired), "and no longer");
}

#[test]
fn a_new_token_refreshes_at_once_and_revives() {
    let authority = Authority::new();
    let mut gate = authority.listening(FailMode::LastKnownGood(seconds(100_000)));
    let now = start();
    let grant = gate.present(&authority.token(&claims("a", now)), &binding(), now).unwrap();
    let later = now.after(seconds(200));
    gate.represent(grant, &authority.token(&claims("b", later)), &binding(), later).unwrap();
    assert_eq!(events(&mut gate), [], "a refresh with equal rights goes unnoticed");
    assert_eq!(gate.standing(grant, later), Standing::Live { until: later.mono + seconds(300) });
    gate.on_update(&authority.seal(&Update { revoked: vec![revocation("a", later)], ..delta(2, later) }), later)
        .unwrap();
    assert_eq!(denied(&gate, grant, Action::Read, 1, later), None, "the old token is not the grant any more");
    gate.on_update(&authority.seal(&Update { revoked: vec![revocation("b", later)], ..delta(3, later) }), later)
        .unwrap();
    assert_eq!(denied(&gate, grant, Action::Read, 1, later), Some(Reason::GrantRevoked));
    assert_eq!(events(&mut gate), [GateEvent::Revoked(grant)]);
    let refused = gate.represent(grant, &authority.token(&claims("b", later)), &binding(), later).unwrap_err();
    assert_eq!(refused.reason, Reason::TokenRevoked);
    gate.represent(grant, &authority.token(&claims("c", later)), &binding(), later).unwrap();
    assert_eq!(events(&mut gate), [GateEvent::Changed(grant, Change::Renewed)]);
    assert_eq!(denied(&gate, grant, Action::Read, 1, later), None);
}

#[test]
fn a_refused_refresh_leaves_the_grant_as_it_was() {
    let authority = Authority::new();
    let mut gate = authority.gate();
    let now = start();
    let grant = gate.present(&authority.token(&claims("a", now)), &binding(), now).unwrap();
    let before = gate.standing(grant, now);
    let someone = Claims { subject: "tom".into(), ..claims("b", now) };
    let foreign = Claims { issuer: FOREIGN.into(), ..claims("b", now) };
    let elsewhere = Claims { audience: "urn:other".into(), ..claims("b", now) };
    for (reason, claims) in
        [(Reason::TokenSubject, someone), (Reason::TokenSubject, foreign), (Reason::TokenAudience, elsewhere)]
    {
        let refusal = gate.represent(grant, &authority.token(&claims), &binding(), now).unwrap_err();
        assert_eq!((refusal.reason, gate.standing(grant, now)), (reason, before));
        assert_eq!(gate.claims(grant).unwrap().id.as_deref(), Some("a"));
    }
    gate.release(grant);
    let gone = gate.represent(grant, &authority.token(&claims("b", now)), &binding(), now);
    assert_eq!(gone.unwrap_err().reason, Reason::NoGrant);
}

#[test]
fn updates_narrow_widen_end_and_restore() {
    let authority = Authority::new();
    let mut gate = authority.listening(FailMode::Closed);
    let now = start();
    let grant = gate.present(&authority.token(&claims("a", now)), &binding(), now).unwrap();
    let replace = |epoch, entries: &[(Rights, &[u32])]| {
        authority.seal(&Update { replaced: vec![replacement("a", entries, now)], ..delta(epoch, now) })
    };
    gate.on_update(&replace(2, &[(READ, &[1])]), now).unwrap();
    assert_eq!(denied(&gate, grant, Action::Write, 1, now), Some(Reason::RightMissing));
    assert_eq!(denied(&gate, grant, Action::Read, 2, now), Some(Reason::ScopeNotGranted));
    gate.on_update(&replace(3, &[(READ, &[1, 2, 3])]), now).unwrap();
    assert_eq!(denied(&gate, grant, Action::Read, 3, now), None);
    let mut ending = replacement("a", &[(READ, &[1])], now);
    ending.not_after = now.unix;
    gate.on_update(&authority.seal(&Update { replaced: vec![ending], ..delta(4, now) }), now).unwrap();
    assert_eq!(denied(&gate, grant, Action::Read, 1, now), Some(Reason::GrantExpired));
    gate.on_update(&authority.seal(&full(5, now)), now).unwrap();
    assert_eq!(denied(&gate, grant, Action::Write, 1, now), None, "the full list does not name it: as minted");
    let wanted = [
        GateEvent::Changed(grant, Change::Narrowed),
        GateEvent::Changed(grant, Change::Widened),
        GateEvent::Expired(grant),
        GateEvent::Changed(grant, Change::Widened),
    ];
    assert_eq!(events(&mut gate), wanted);
    let mut foreign_map = replacement("a", &[(READ, &[1])], now);
    foreign_map.rights.map.0 = [9; 16];
    gate.on_update(&authority.seal(&Update { replaced: vec![foreign_map], ..delta(6, now) }), now).unwrap();
    assert_eq!(
        denied(&gate, grant, Action::Read, 1, now),
        Some(Reason::GrantRevoked),
        "rights of another map are none"
    );
}

#[test]
fn what_is_said_before_a_token_comes_holds_when_it_comes() {
    let authority = Authority::new();
    let mut gate = authority.listening(FailMode::Closed);
    let now = start();
    let said = Update {
        revoked: vec![revocation("a", now)],
        replaced: vec![replacement("b", &[(READ, &[3])], now)],
        ..delta(2, now)
    };
    gate.on_update(&authority.seal(&said), now).unwrap();
    let refusal = gate.present(&authority.token(&claims("a", now)), &binding(), now).unwrap_err();
    assert_eq!(refusal.reason, Reason::TokenRevoked);
    let grant = gate.present(&authority.token(&claims("b", now)), &binding(), now).unwrap();
    assert_eq!(denied(&gate, grant, Action::Read, 3, now), None);
    assert_eq!(denied(&gate, grant, Action::Read, 1, now), Some(Reason::ScopeNotGranted));
}

#[test]
fn revocations_without_room_make_older_tokens_worthless() {
    let authority = Authority::new();
    let now = start();
    let contact = Some(Contact { issuer: ISSUER.into(), timeout: seconds(10), fail_mode: FailMode::Closed });
    let mut gate = Gate::new(GateConfig { contact, max_remembered: 2, ..authority.config() }, now).unwrap();
    let revoked = ["a", "b", "c"].map(|id| revocation(id, now)).to_vec();
    gate.on_update(&authority.seal(&Update { revoked, ..full(1, now) }), now).unwrap();
    for id in ["a", "b", "c", "innocent"] {
        let refusal = gate.present(&authority.token(&claims(id, now)), &binding(), now).unwrap_err();
        assert_eq!(refusal.reason, Reason::TokenRevoked, "{id}");
    }
    let later = now.after(seconds(1));
    gate.present(&authority.token(&claims("fresh", later)), &binding(), later).unwrap();
}

#[test]
fn a_gap_asks_for_the_full_list_and_serves_under_the_fail_mode() {
    let authority = Authority::new();
    let now = start();
    for (fail_mode, state, read, write) in [
        (FailMode::Closed, FailState::Closed, Some(Reason::AuthorityLost), Some(Reason::AuthorityLost)),
        (FailMode::ReadOnly, FailState::ReadOnly, None, Some(Reason::AuthorityLost)),
        (FailMode::LastKnownGood(seconds(5)), FailState::LastKnown, None, None),
    ] {
        let mut gate = authority.listening(fail_mode);
        let grant = gate.present(&authority.token(&claims("a", now)), &binding(), now).unwrap();
        let other = gate.present(&authority.token(&claims("b", now)), &binding(), now).unwrap();
        let skipped = Update { revoked: vec![revocation("b", now)], ..delta(3, now) };
        gate.on_update(&authority.seal(&skipped), now).unwrap();
        let wanted = [GateEvent::NeedFullList, GateEvent::Revoked(other), GateEvent::FailMode(state)];
        assert_eq!(events(&mut gate), wanted, "{fail_mode:?}");
        assert_eq!(denied(&gate, grant, Action::Read, 1, now), read, "{fail_mode:?}");
        assert_eq!(denied(&gate, grant, Action::Write, 1, now), write, "{fail_mode:?}");
        gate.on_update(&authority.seal(&full(3, now)), now).unwrap();
        assert_eq!(events(&mut gate), [GateEvent::FailMode(FailState::InStep)]);
        assert_eq!(denied(&gate, grant, Action::Write, 1, now), None);
        assert_eq!(denied(&gate, other, Action::Read, 1, now), Some(Reason::GrantRevoked), "stays revoked");
    }
}

#[test]
fn silence_is_loss_of_contact() {
    let authority = Authority::new();
    let mut gate = authority.listening(FailMode::LastKnownGood(seconds(5)));
    let now = start();
    let grant = gate.present(&authority.token(&claims("a", now)), &binding(), now).unwrap();
    let local = gate
        .present(&authority.token(&Claims { issuer: FOREIGN.into(), ..claims("f", now) }), &binding(), now)
        .unwrap();
    assert_eq!(gate.poll_timeout(), Some(now.mono + seconds(10)));
    let quiet = now.after(seconds(10));
    gate.handle_timeout(quiet);
    assert_eq!(events(&mut gate), [GateEvent::FailMode(FailState::LastKnown)]);
    assert_eq!(denied(&gate, grant, Action::Write, 1, quiet), None);
    assert_eq!(gate.poll_timeout(), Some(now.mono + seconds(15)));
    let closed = now.after(seconds(15));
    assert_eq!(denied(&gate, grant, Action::Read, 1, closed), Some(Reason::AuthorityLost), "before any timer ran");
    gate.handle_timeout(closed);
    assert_eq!(events(&mut gate), [GateEvent::FailMode(FailState::Closed)]);
    assert_eq!(gate.standing(grant, closed), Standing::Suspended { reason: Reason::AuthorityLost });
    assert_eq!(denied(&gate, local, Action::Read, 1, closed), None, "a foreign token does not depend on the authority");
    let refusal = gate.present(&authority.token(&claims("b", closed)), &binding(), closed).unwrap_err();
    assert_eq!(refusal.reason, Reason::AuthorityLost);
    gate.on_contact(closed);
    assert_eq!(events(&mut gate), [GateEvent::NeedFullList], "a sign of life does not say what was missed");
    assert_eq!(denied(&gate, grant, Action::Read, 1, closed), Some(Reason::AuthorityLost));
    let heartbeat = Update { previous: Some(access_model::Epoch(1)), ..full(1, closed) };
    gate.on_update(&authority.seal(&heartbeat), closed).unwrap();
    assert_eq!(denied(&gate, grant, Action::Read, 1, closed), None, "a heartbeat at our epoch does");
}

#[test]
fn a_gate_that_starts_serves_nothing_before_the_first_full_list() {
    let authority = Authority::new();
    let now = start();
    let contact =
        Contact { issuer: ISSUER.into(), timeout: seconds(10), fail_mode: FailMode::LastKnownGood(seconds(999)) };
    let mut gate = Gate::new(GateConfig { contact: Some(contact), ..authority.config() }, now).unwrap();
    assert_eq!((gate.poll_event(), gate.fail_state(now)), (Some(GateEvent::NeedFullList), FailState::Closed));
    let token = authority.token(&claims("a", now));
    assert_eq!(gate.present(&token, &binding(), now).unwrap_err().reason, Reason::AuthorityLost);
    gate.on_update(&authority.seal(&Update { revoked: vec![revocation("a", now)], ..full(7, now) }), now).unwrap();
    assert_eq!(gate.present(&token, &binding(), now).unwrap_err().reason, Reason::TokenRevoked);
}

#[test]
fn updates_out_of_place_change_nothing() {
    let authority = Authority::new();
    let now = start();
    let mut gate = authority.listening(FailMode::Closed);
    gate.on_update(&authority.seal(&full(5, now)), now).unwrap();
    let grant = gate.present(&authority.token(&claims("a", now)), &binding(), now).unwrap();
    events(&mut gate);
    let revoke = |update: Update| Update { revoked: vec![revocation("a", now)], ..update };
    let old_delta = revoke(delta(5, now));
    gate.on_update(&authority.seal(&old_delta), now).unwrap();
    let later = now.after(seconds(301));
    let cases = [
        (Reason::ProtocolMisbehavior, revoke(full(4, now)), now),
        (Reason::TokenAudience, Update { audience: "urn:other".into(), ..revoke(full(6, now)) }, now),
        (Reason::TokenIssuer, Update { issuer: FOREIGN.into(), ..revoke(full(6, now)) }, now),
        (Reason::TokenExpired, revoke(full(6, now)), later),
    ];
    for (reason, update, at) in cases {
        assert_eq!(gate.on_update(&authority.seal(&update), at).unwrap_err().reason, reason);
    }
    assert_eq!((events(&mut gate), denied(&gate, grant, Action::Read, 1, now)), (vec![], None));
    let deaf = authority.gate().on_update(&authority.seal(&full(1, now)), now);
    assert_eq!(deaf.unwrap_err().reason, Reason::TokenIssuer);
}

#[test]
fn local_grants_join_and_depend_on_the_channel() {
    let authority = Authority::new();
    let now = start();
    let named = |who, require_encryption, role: &str, held, scope: &str| LocalGrant {
        who,
        require_encryption,
        roles: vec![role.into()],
        rights: vec![(held, LocalScopes::Named(vec![scope.into()]))],
    };
    let engineer = Thumbprint([3; 32]);
    let all = LocalGrant {
        who: Who::Certificate(engineer),
        require_encryption: true,
        roles: vec!["Engineer".into()],
        rights: vec![(Rights::ALL, LocalScopes::All)],
    };
    let local = vec![
        named(Who::User("maria".into()), true, "Operator", Rights::WRITE, "mixer"),
        named(Who::Authenticated, false, "Observer", READ, "mixer"),
        all,
    ];
    let mut gate = Gate::new(GateConfig { local, ..authority.config() }, now).unwrap();
    let maria = Identity::User { name: "maria".into() };
    let mut admit =
        |identity: &Identity, encrypted| match gate.admit(identity, &ChannelBinding { encrypted, ..binding() }, now) {
            Admission::Granted(grant) => {
                let roles = gate.claims(grant).unwrap().roles.clone();
                Ok((roles.join(" "), gate.rights(grant, ScopeIndex(1), now), gate.rights(grant, ScopeIndex(3), now)))
            }
            Admission::Refused(refusal) => Err(refusal.reason),
            Admission::Ask(request) => panic!("{request:?}"),
        };
    assert_eq!(admit(&maria, true), Ok(("Observer Operator".into(), READ | Rights::WRITE, Rights::NONE)));
    assert_eq!(admit(&maria, false), Ok(("Observer".into(), READ, Rights::NONE)));
    let person = Identity::Certificate { subject: "CN=eve".into(), thumbprint: engineer };
    assert_eq!(admit(&person, true), Ok(("Engineer Observer".into(), Rights::ALL, Rights::ALL)));
    assert_eq!(
        admit(&Identity::Anonymous, true),
        Err(Reason::IdentityNotAccepted),
        "anonymous is off unless configured"
    );
}

#[test]
fn an_unknown_identity_is_asked_about_where_that_is_configured() {
    let authority = Authority::new();
    let mut gate = Gate::new(GateConfig { ask: true, ..authority.config() }, start()).unwrap();
    let Admission::Ask(request) = gate.admit(&Identity::Anonymous, &binding(), start()) else { panic!("not asked") };
    assert_eq!((request.audience.as_str(), request.binding), (AUDIENCE, binding()));
}

#[test]
fn roles_of_a_foreign_token_become_rights_where_configured() {
    let authority = Authority::new();
    let now = start();
    let local = vec![LocalGrant {
        who: Who::TokenRole { issuer: FOREIGN.into(), role: "Operator".into() },
        require_encryption: false,
        roles: vec![],
        rights: vec![(READ, LocalScopes::Named(vec!["tank".into()]))],
    }];
    let mut gate = Gate::new(GateConfig { local, ..authority.config() }, now).unwrap();
    let foreign = Claims { issuer: FOREIGN.into(), confirmation: None, rights: None, ..claims("f", now) };
    let grant = gate.present(&authority.token(&foreign), &ChannelBinding::default(), now).unwrap();
    assert_eq!(denied(&gate, grant, Action::Read, 3, now), None);
    let ours = Claims { rights: None, ..claims("a", now) };
    let grant = gate.present(&authority.token(&ours), &binding(), now).unwrap();
    assert_eq!(
        denied(&gate, grant, Action::Read, 3, now),
        Some(Reason::ScopeNotGranted),
        "the rule names another issuer"
    );
    assert_eq!(denied(&gate, grant, Action::Read, 0, now), None);
}

#[test]
fn rotated_keys_and_removed_issuers() {
    let authority = Authority::new();
    let mut gate = authority.gate();
    let now = start();
    let ours = gate.present(&authority.token(&claims("a", now)), &binding(), now).unwrap();
    let foreign = gate
        .present(&authority.token(&Claims { issuer: FOREIGN.into(), ..claims("f", now) }), &binding(), now)
        .unwrap();
    let mut issuers = gate.config().issuers.clone();
    issuers.truncate(1);
    gate.set_issuers(issuers.clone(), now).unwrap();
    assert_eq!(events(&mut gate), [GateEvent::Revoked(foreign)]);
    assert_eq!(denied(&gate, ours, Action::Read, 1, now), None);
    issuers.push(issuers[0].clone());
    assert_eq!(gate.set_issuers(issuers, now), Err(InvalidGate::DuplicateIssuer(ISSUER.into())));
    assert_eq!(gate.config().issuers.len(), 1);
}

#[test]
fn contradicting_configurations_are_refused() {
    let authority = Authority::new();
    let config = || authority.config();
    let contact = Some(Contact { issuer: "x".into(), timeout: seconds(1), fail_mode: FailMode::Closed });
    let lost = LocalGrant {
        who: Who::Anonymous,
        require_encryption: false,
        roles: vec![],
        rights: vec![(READ, LocalScopes::Named(vec!["nowhere".into()]))],
    };
    let cases = [
        (InvalidGate::NoAudience, GateConfig { audience: String::new(), ..config() }),
        (InvalidGate::UnknownIssuer("x".into()), GateConfig { contact, ..config() }),
        (InvalidGate::UnknownScope("nowhere".into()), GateConfig { local: vec![lost], ..config() }),
        (InvalidGate::TooManyGrants(usize::MAX), GateConfig { max_grants: usize::MAX, ..config() }),
    ];
    for (wanted, config) in cases {
        assert_eq!(Gate::new(config, start()).map(|_| ()), Err(wanted));
    }
}

#[test]
fn far_ends_of_time_do_not_overflow() {
    let authority = Authority::new();
    let mut gate = authority.gate();
    let now = start();
    let eternal = Claims { expires: UnixTime::from_seconds(i64::MAX / 1_000_000), ..claims("a", now) };
    let grant = gate.present(&authority.token(&eternal), &binding(), now).unwrap();
    let end = Now { mono: Mono::from_nanos(u64::MAX - 1), ..now };
    gate.handle_timeout(end);
    assert_ne!(gate.standing(grant, end), Standing::Gone);
    assert_eq!(map().len(), 4);
    assert_eq!(binding().certificate, Some(CLIENT));
}

#[test]
fn another_map_ends_every_grant_until_a_token_for_it_comes() {
    let authority = Authority::new();
    let now = start();
    let local = |scope: &str| LocalGrant {
        who: Who::Anonymous,
        require_encryption: false,
        roles: Vec::new(),
        rights: vec![(READ, LocalScopes::Named(vec![scope.into()]))],
    };
    let config = GateConfig { local: vec![local("mixer")], ..authority.config() };
    let mut gate = Gate::new(config, now).unwrap();
    let old = authority.token(&claims("a", now));
    let grant = gate.present(&old, &binding(), now).unwrap();
    let Admission::Granted(nobody) = gate.admit(&Identity::Anonymous, &binding(), now) else { panic!("refused") };
    assert_eq!(gate.set_map(map(), now), Ok(false), "the same map changes nothing");
    assert_eq!(denied(&gate, grant, Action::Read, 1, now), None);
    let unfit = ScopeMap::new(["reactor"]).unwrap();
    assert_eq!(gate.set_map(unfit, now), Err(InvalidGate::UnknownScope("mixer".into())));
    assert_eq!(denied(&gate, grant, Action::Read, 1, now), None, "what does not fit changes nothing");

    // The new scope comes first: positions of the old map name other scopes now.
    let new = ScopeMap::new(["vault", "mixer", "reactor", "tank"]).unwrap();
    assert_eq!(gate.set_map(new.clone(), now), Ok(true));
    assert_eq!(events(&mut gate), [GateEvent::Revoked(grant), GateEvent::Revoked(nobody)]);
    for scope in 0..5 {
        assert_eq!(denied(&gate, grant, Action::Read, scope, now), Some(Reason::GrantRevoked));
        assert_eq!(denied(&gate, nobody, Action::Read, scope, now), Some(Reason::GrantRevoked));
    }
    assert_eq!(gate.present(&old, &binding(), now).unwrap_err().reason, Reason::ScopeMapMismatch);
    let rights = token::RightsClaim::new(token::map_digest(&new), [(READ, vec![2])]);
    let fresh = authority.token(&Claims { rights: Some(rights), ..claims("b", now) });
    gate.represent(grant, &fresh, &binding(), now).unwrap();
    assert_eq!(denied(&gate, grant, Action::Read, 2, now), None);
    assert_eq!(denied(&gate, grant, Action::Read, 1, now), Some(Reason::ScopeNotGranted));
    let Admission::Granted(again) = gate.admit(&Identity::Anonymous, &binding(), now) else { panic!("refused") };
    assert_eq!(denied(&gate, again, Action::Read, 2, now), None, "local grants follow the name");
    assert_eq!(denied(&gate, again, Action::Read, 1, now), Some(Reason::ScopeNotGranted));
}
