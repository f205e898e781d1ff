//! Sessions over time: other channels, other users, time-outs, the end.

use std::time::Duration;

use access_model::{AuditKind, Reason};
use opcua_types::*;

use super::ask::*;
use super::keys::{OTHER, trust};
use super::services::attribute_of;
use super::world::*;
use crate::server::{Input, ServerLimits};

#[test]
fn a_session_moves_to_a_channel_with_the_same_certificate_and_user() {
    let mut world = World::new();
    let (old, mut login) = world.log_in(ENCRYPT, "alice");
    let new = world.connect(ENCRYPT);
    assert_eq!(
        world.read_one(new, &login, "Setpoint"),
        Err(StatusCode::BadSecureChannelIdInvalid),
        "not before it moved"
    );
    let identity = world.user(new, &login, "alice", "alice-password");
    world.activate(new, &mut login, identity).unwrap();
    assert!(world.read_one(new, &login, "Setpoint").is_ok());
    assert_eq!(
        world.read_one(old, &login, "Setpoint"),
        Err(StatusCode::BadSecureChannelIdInvalid),
        "the old channel is out"
    );
    assert_eq!(world.last_reason(AuditKind::Read), Some(Reason::SessionChannel));
}

#[test]
fn a_session_does_not_move_to_another_certificate_policy_mode_or_user() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let foreign = world.connect_as(ENCRYPT, &OTHER.clone());
    let signed = world.connect(SIGN);
    let bare = world.connect(BARE);
    for target in [foreign, signed, bare] {
        let mut stolen = login.clone();
        let identity = world.user(target, &login, "alice", "alice-password");
        let refused = world.activate(target, &mut stolen, identity);
        assert_eq!(refused, Err(StatusCode::BadSecureChannelIdInvalid));
        assert_eq!(world.last_reason(AuditKind::SessionActivated), Some(Reason::SessionChannel));
    }
    let same = world.connect(ENCRYPT);
    let mut other_user = login.clone();
    let identity = world.user(same, &login, "bob", "bob-password");
    assert_eq!(world.activate(same, &mut other_user, identity), Err(StatusCode::BadUserAccessDenied));
    let mut nobody = login.clone();
    assert_eq!(world.activate(same, &mut nobody, anonymous()), Err(StatusCode::BadUserAccessDenied));
    assert!(world.read_one(conn, &login, "Setpoint").is_ok(), "the session stays where it was");
}

#[test]
fn an_anonymous_session_moves_only_where_its_token_cannot_be_seen() {
    for (security, expected) in [
        (ENCRYPT, Ok(())),
        (SIGN, Err(StatusCode::BadSecureChannelIdInvalid)),
        (BARE, Err(StatusCode::BadSecureChannelIdInvalid)),
    ] {
        let mut world = World::new();
        let conn = world.connect(security);
        let mut login = world.create(conn);
        world.activate(conn, &mut login, anonymous()).unwrap();
        let other = world.connect(security);
        assert_eq!(world.activate(other, &mut login, anonymous()), expected, "{security:?}");
    }
}

#[test]
fn a_token_session_moves_with_the_same_subject_only() {
    let mut world = World::new();
    let token = world.token(Duration::from_secs(600));
    let (_, mut login) = world.log_in_by_token(&token);
    let new = world.connect(ENCRYPT);
    let mut claims = world.claims(Duration::from_secs(600));
    claims.subject = "bob".into();
    claims.id = "token-2".into();
    let other = mint(&claims, &super::keys::ISSUER);
    let refused = world.activate(new, &mut login, clear_token(other.as_bytes()));
    assert_eq!(refused, Err(StatusCode::BadIdentityTokenRejected));
    assert_eq!(world.last_reason(AuditKind::SessionActivated), Some(Reason::TokenSubject));
    world.activate(new, &mut login, clear_token(token.as_bytes())).unwrap();
    assert!(world.read_one(new, &login, "Setpoint").is_ok());
}

#[test]
fn another_user_may_log_in_on_the_same_channel() {
    let mut world = World::new();
    let (conn, mut login) = world.log_in(ENCRYPT, "alice");
    let identity = world.user(conn, &login, "bob", "bob-password");
    world.activate(conn, &mut login, identity).unwrap();
    assert_eq!(world.read_one(conn, &login, "Setpoint"), Err(StatusCode::BadNodeIdUnknown), "alice's rights are gone");
    assert_eq!(world.read_one(conn, &login, "Speed"), Ok(Variant::from(7_i32)));
    let token = world.token(Duration::from_secs(600));
    world.activate(conn, &mut login, clear_token(token.as_bytes())).unwrap();
    assert_eq!(world.read_one(conn, &login, "Speed"), Err(StatusCode::BadUserAccessDenied));
    assert_eq!(world.server.gate().len(), 1, "grants are given back");
}

#[test]
fn the_first_activation_is_bound_to_the_creating_channel() {
    let mut world = World::new();
    let conn = world.connect(ENCRYPT);
    let login = world.create(conn);
    let other = world.connect(ENCRYPT);
    let mut elsewhere = login.clone();
    assert_eq!(world.activate(other, &mut elsewhere, anonymous()), Err(StatusCode::BadSecureChannelIdInvalid));
    let mut here = login;
    assert_eq!(world.activate(conn, &mut here, anonymous()), Ok(()));
}

#[test]
fn two_sessions_on_one_channel_do_not_mix() {
    let mut world = World::new();
    let (conn, alice) = world.log_in(ENCRYPT, "alice");
    let mut bob = world.create(conn);
    let identity = world.user(conn, &bob, "bob", "bob-password");
    world.activate(conn, &mut bob, identity).unwrap();
    assert!(world.read_one(conn, &alice, "Setpoint").is_ok());
    assert_eq!(world.read_one(conn, &bob, "Setpoint"), Err(StatusCode::BadNodeIdUnknown));
    assert_eq!(world.read_one(conn, &bob, "Speed"), Ok(Variant::from(7_i32)));
}

#[test]
fn a_session_used_before_it_is_activated_is_closed() {
    let mut world = World::new();
    let conn = world.connect(ENCRYPT);
    let mut login = world.create(conn);
    assert_eq!(world.read_one(conn, &login, "Setpoint"), Err(StatusCode::BadSessionNotActivated));
    assert_eq!(world.activate(conn, &mut login, anonymous()), Err(StatusCode::BadSessionIdInvalid));
}

#[test]
fn guessed_tokens_open_nothing() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let Identifier::ByteString(real) = &login.token.identifier else { panic!("an opaque token") };
    let mut flipped = real.as_ref().to_vec();
    *flipped.last_mut().unwrap() ^= 1;
    let mut other_slot = real.as_ref().to_vec();
    other_slot[0] ^= 1;
    let cut = real.as_ref()[..20].to_vec();
    for bytes in [flipped, other_slot, cut, Vec::new(), vec![0; 36], vec![0xff; 1_000]] {
        let guess = Login { token: NodeId::new(0, ByteString::from(bytes)), nonce: ByteString::null() };
        assert_eq!(world.read_one(conn, &guess, "Setpoint"), Err(StatusCode::BadSessionIdInvalid));
    }
    for node in [NodeId::null(), NodeId::new(0, 7_u32), NodeId::new(1, ByteString::from(real.as_ref().to_vec()))] {
        let guess = Login { token: node, nonce: ByteString::null() };
        assert_eq!(world.read_one(conn, &guess, "Setpoint"), Err(StatusCode::BadSessionIdInvalid));
    }
    assert_eq!(world.last_reason(AuditKind::Read), Some(Reason::NoGrant), "guessing is on record");
    let mut guess = Login { token: NodeId::new(0, ByteString::from(vec![0; 36])), nonce: ByteString::null() };
    let identity = anonymous();
    assert_eq!(world.activate(conn, &mut guess, identity), Err(StatusCode::BadSessionIdInvalid));
    assert_eq!(world.last_reason(AuditKind::SessionActivated), Some(Reason::NoGrant), "by activating, too");
    let close = CloseSessionRequest { request_header: world.header(&guess.token), delete_subscriptions: true };
    assert_eq!(world.ask::<_, CloseSessionResponse>(conn, &close).err(), Some(StatusCode::BadSessionIdInvalid));
    assert_eq!(world.last_reason(AuditKind::SessionClosed), Some(Reason::NoGrant), "by closing, too");
}

#[test]
fn a_silent_session_times_out_and_a_used_one_does_not() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    for _ in 0..3 {
        world.pass(Duration::from_secs(500));
        assert!(world.read_one(conn, &login, "Setpoint").is_ok());
    }
    world.pass(Duration::from_secs(601));
    assert_eq!(world.server.load().1, 0);
    assert_eq!(world.read_one(conn, &login, "Setpoint"), Err(StatusCode::BadSessionIdInvalid));
}

#[test]
fn closing_a_session_answers_what_it_waits_for() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let request = world.call_request(&login, vec![(id("Unit"), id("Reset"), vec![Variant::from(1.0)])]);
    let pending = world.send(conn, &request);
    let other = world.connect(ENCRYPT);
    let close = CloseSessionRequest { request_header: world.header(&login.token), delete_subscriptions: true };
    assert_eq!(world.ask::<_, CloseSessionResponse>(other, &close).err(), Some(StatusCode::BadSecureChannelIdInvalid));
    world.ask::<_, CloseSessionResponse>(conn, &close).unwrap();
    assert_eq!(world.answer::<CallResponse>(conn, pending), Some(Err(StatusCode::BadSessionClosed)));
    assert_eq!(world.read_one(conn, &login, "Setpoint"), Err(StatusCode::BadSessionIdInvalid));
    assert!(world.server.gate().is_empty());
}

#[test]
fn a_lost_connection_keeps_an_activated_session_and_drops_others() {
    let mut world = World::new();
    let (conn, mut login) = world.log_in(ENCRYPT, "alice");
    let _unused = world.create(conn);
    assert_eq!(world.server.load(), (1, 2));
    world.input(Input::Disconnected { conn });
    assert_eq!(world.server.load(), (0, 1));
    let new = world.connect(ENCRYPT);
    let identity = world.user(new, &login, "alice", "alice-password");
    world.activate(new, &mut login, identity).unwrap();
    assert!(world.read_one(new, &login, "Setpoint").is_ok());
}

#[test]
fn requests_time_out_when_their_client_says_so() {
    let mut world = World::new();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let mut request = world.call_request(&login, vec![(id("Unit"), id("Reset"), vec![Variant::from(1.0)])]);
    request.request_header.timeout_hint = 1_000;
    world.ledger = None;
    let pending = world.send(conn, &request);
    world.pass(Duration::from_millis(999));
    assert!(world.answer::<CallResponse>(conn, pending).is_none());
    world.pass(Duration::from_millis(1));
    assert_eq!(world.answer::<CallResponse>(conn, pending), Some(Err(StatusCode::BadTimeout)));
    assert!(world.invoked.is_empty(), "a call whose time is over is not made");
}

#[test]
fn distrusted_certificates_end_their_channels_and_sessions() {
    let mut world = World::new();
    let (conn, _) = world.log_in(ENCRYPT, "alice");
    let bare = world.connect(BARE);
    world.server.config.channel.trust.store(trust(&[&OTHER]).load_full());
    world.input(Input::TrustChanged);
    assert!(world.peers[&conn].closed.is_some());
    assert!(world.peers[&bare].closed.is_none());
    assert_eq!(world.server.load(), (1, 0));
}

#[test]
fn distrusted_user_certificates_end_their_sessions() {
    let mut world = World::new();
    let conn = world.connect(ENCRYPT);
    let mut login = world.create(conn);
    world.activate_x509(conn, &mut login, &super::keys::USER, None).unwrap();
    world.input(Input::TrustChanged);
    assert!(world.read_one(conn, &login, "Setpoint").is_ok());
    let trusted = world.server.config.identities.certificate.clone().unwrap();
    trusted.store(trust(&[&OTHER]).load_full());
    world.input(Input::TrustChanged);
    assert_eq!(world.read_one(conn, &login, "Setpoint"), Err(StatusCode::BadSessionIdInvalid));
    assert!(world.peers[&conn].closed.is_none(), "the application is trusted as before");
}

#[test]
fn shutdown_tells_everybody() {
    let mut world = World::new();
    let (conn, _) = world.log_in(ENCRYPT, "alice");
    world.input(Input::Shutdown);
    assert!(world.peers[&conn].closed.is_some());
    assert_eq!(world.server.load(), (0, 0));
    assert!(world.server.gate().is_empty());
}

#[test]
fn sessions_per_connection_are_bounded_until_they_are_activated() {
    let limits = ServerLimits { max_unactivated_per_connection: 2, ..ServerLimits::default() };
    let mut world = Setup { limits, ..Setup::default() }.start();
    let conn = world.connect(BARE);
    let mut first = world.create(conn);
    world.create(conn);
    assert_eq!(world.try_create(conn, |_| {}).err(), Some(StatusCode::BadTooManySessions));
    world.activate(conn, &mut first, anonymous()).unwrap();
    assert!(world.try_create(conn, |_| {}).is_ok());
}

#[test]
fn before_the_end_clients_are_told_and_no_session_begins() {
    let mut world = World::new();
    let (conn, mut login) = world.log_in(ENCRYPT, "alice");
    let standard = |world: &mut World, login: &Login, id: u32| {
        let node = attribute_of(&NodeId::new(0, id), AttributeId::Value);
        world.read(conn, login, vec![node]).unwrap().remove(0).value
    };
    world.input(Input::Drain { seconds: 7 });
    for (id, said) in [(2259, Variant::Int32(4)), (2992, Variant::UInt32(7)), (2267, Variant::Byte(0))] {
        assert_eq!(standard(&mut world, &login, id), Some(said), "i={id}");
    }
    assert!(world.read_one(conn, &login, "Setpoint").is_ok(), "who is there goes on");
    let identity = world.user(conn, &login, "alice", "alice-password");
    world.activate(conn, &mut login, identity).unwrap();
    let late = world.connect(BARE);
    assert_eq!(world.try_create(late, |_| {}).err(), Some(StatusCode::BadShutdown));
    world.input(Input::Drain { seconds: 6 });
    assert_eq!(standard(&mut world, &login, 2992), Some(Variant::UInt32(6)), "the time that is left");
}
