//! Security tokens: when they are renewed, which is used, and when they end.

use std::sync::Arc;
use std::time::Duration;

use opcua_types::{MessageSecurityMode, StatusCode};

use super::{MODES, Wire, World, closed, opened, refusal, renewed};
use crate::channel::SendError;
use crate::crypto::SecurityPolicyId;
use crate::pki::TrustList;
use crate::testing::{identity, trusting};

const POLICY: SecurityPolicyId = SecurityPolicyId::Basic256Sha256;

/// The token id in the clear header of the first chunk.
fn token(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[12..16].try_into().unwrap())
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn wire() -> (World, Wire) {
    let world = World::new(2048, 2048);
    let wire = world.connect(POLICY, MODES[1]);
    (world, wire)
}

#[test]
fn the_client_renews_at_three_quarters_of_the_lifetime() {
    let (_world, mut wire) = wire();
    wire.pass(secs(74));
    wire.run();
    assert_eq!(renewed(&wire.at_client), 0);
    wire.pass(secs(1));
    wire.run();
    assert_eq!((renewed(&wire.at_client), renewed(&wire.at_server)), (1, 1));
    // And again, 75 seconds later.
    assert_eq!(wire.client.poll_timeout(), Some(wire.now.mono + secs(75)));
}

#[test]
fn a_channel_without_protection_is_renewed_alike() {
    let world = World::new(2048, 2048);
    let mut wire = world.connect(SecurityPolicyId::None, MessageSecurityMode::None);
    for _ in 0..5 {
        wire.pass(secs(75));
        wire.run();
    }
    assert_eq!((renewed(&wire.at_client), renewed(&wire.at_server)), (5, 5));
    assert_eq!(closed(&wire.at_server), None);
}

#[test]
fn the_server_sends_under_the_old_token_until_the_first_use_of_the_new() {
    let (_world, mut wire) = wire();
    let (first, second) = (wire.ask(b"1"), wire.ask(b"2"));
    wire.run();
    wire.requests();
    wire.pass(secs(75));
    wire.run();
    assert_eq!(renewed(&wire.at_server), 1);
    wire.answer(first, b"a");
    let old = token(wire.server.outgoing());
    wire.run();
    let third = wire.ask(b"3");
    let used = token(wire.client.outgoing());
    assert_ne!(used, old, "the client uses the new token at once");
    wire.run();
    wire.answer(second, b"b");
    assert_eq!(token(wire.server.outgoing()), used);
    wire.answer(third, b"c");
    wire.run();
    assert_eq!(wire.responses().len(), 3);
}

#[test]
fn the_server_accepts_the_old_token_until_it_ends_and_no_longer() {
    for (wait, accepted) in [(24, true), (25, false)] {
        let (_world, mut wire) = wire();
        wire.slow = true;
        wire.pass(secs(75));
        wire.work();
        // The renewal is out, its answer is not here: this request is under the old token.
        let renewal = std::mem::take(wire.client.outgoing());
        wire.ask(b"under the old token");
        let late = std::mem::take(wire.client.outgoing());
        wire.server.receive(&renewal, wire.now, &mut wire.entropy);
        wire.collect();
        wire.work();
        assert_eq!(renewed(&wire.at_server), 1);
        wire.now = wire.now.after(secs(wait));
        wire.server.handle_timeout(wire.now);
        wire.server.receive(&late, wire.now, &mut wire.entropy);
        wire.collect();
        assert_eq!(wire.requests().len(), usize::from(accepted), "{wait}");
        let expected = (!accepted).then_some(StatusCode::BadSecureChannelTokenUnknown);
        assert_eq!(closed(&wire.at_server), expected, "{wait}");
    }
}

#[test]
fn the_server_closes_a_channel_whose_token_ended() {
    let (_world, mut wire) = wire();
    // A client that sleeps.
    wire.now = wire.now.after(secs(99));
    wire.server.handle_timeout(wire.now);
    wire.collect();
    assert_eq!(closed(&wire.at_server), None);
    wire.now = wire.now.after(secs(1));
    wire.server.handle_timeout(wire.now);
    wire.collect();
    assert_eq!(closed(&wire.at_server), Some(StatusCode::BadSecureChannelTokenUnknown));
}

#[test]
fn an_expired_token_opens_nothing_even_before_the_timer_runs() {
    let (_world, mut wire) = wire();
    wire.ask(b"too late");
    let bytes = std::mem::take(wire.client.outgoing());
    wire.now = wire.now.after(secs(100));
    wire.server.receive(&bytes, wire.now, &mut wire.entropy);
    wire.collect();
    assert!(wire.requests().is_empty());
    assert_eq!(closed(&wire.at_server), Some(StatusCode::BadSecureChannelTokenUnknown));
}

#[test]
fn neither_end_sends_under_an_expired_token() {
    let (_world, mut wire) = wire();
    let id = wire.ask(b"a");
    wire.run();
    wire.now = wire.now.after(secs(100));
    assert_eq!(wire.server.send(id, &mut |_| Ok(()), wire.now), Err(SendError::NotOpen));
    assert_eq!(wire.client.send(&mut |_| Ok(()), wire.now), Err(SendError::NotOpen));
}

#[test]
fn the_client_accepts_server_messages_a_quarter_longer_and_no_longer() {
    for (wait, accepted) in [(124, true), (125, false)] {
        let (_world, mut wire) = wire();
        let id = wire.ask(b"a");
        wire.run();
        wire.answer(id, b"late");
        let bytes = std::mem::take(wire.server.outgoing());
        wire.now = wire.now.after(secs(wait));
        wire.client.receive(&bytes, wire.now, &mut wire.entropy);
        wire.collect();
        assert_eq!(wire.responses().len(), usize::from(accepted), "{wait}");
        assert_eq!(closed(&wire.at_client).is_none(), accepted, "{wait}");
    }
}

#[test]
fn the_client_gives_up_when_the_last_token_is_over() {
    let (_world, mut wire) = wire();
    wire.pass(secs(75));
    // The renewal is never answered.
    wire.client_jobs.clear();
    wire.now = wire.now.after(secs(50));
    wire.client.handle_timeout(wire.now, &mut wire.entropy);
    wire.collect();
    assert_eq!(closed(&wire.at_client), Some(StatusCode::BadSecureChannelTokenUnknown));
    assert_eq!(wire.client.poll_timeout(), None);
}

#[test]
fn messages_sent_during_a_renewal_wait_and_keep_their_order() {
    let (_world, mut wire) = wire();
    let early = wire.ask(b"early");
    wire.run();
    wire.requests();
    wire.slow = true;
    wire.pass(secs(75));
    assert_eq!(wire.client_jobs.len(), 1);
    let mut ids = vec![wire.ask(b"during the sealing")];
    assert!(wire.client.outgoing().is_empty(), "it would take the renewal's sequence number");
    wire.work();
    ids.push(wire.ask(b"after it"));
    wire.step();
    // The server works on the renewal: what follows waits, and so do answers.
    assert_eq!(wire.server_jobs.len(), 1);
    assert!(!wire.server.wants_input() && wire.requests().is_empty());
    wire.answer(early, b"answer");
    assert!(wire.server.outgoing().is_empty());
    wire.slow = false;
    wire.run();
    let arrived: Vec<u32> = wire.requests().into_iter().map(|(id, _)| id).collect();
    assert_eq!(arrived, ids);
    assert_eq!(wire.responses(), [(early, b"answer".to_vec())]);
    assert_eq!((renewed(&wire.at_client), renewed(&wire.at_server)), (1, 1));
    assert_eq!(closed(&wire.at_client), None);
}

#[test]
fn the_certificate_is_validated_again_at_every_renewal() {
    let (world, mut wire) = wire();
    world.server_trust.store(Arc::new(TrustList::default()));
    wire.pass(secs(75));
    wire.run();
    assert_eq!(closed(&wire.at_server), Some(StatusCode::BadSecurityChecksFailed));
    assert_eq!(refusal(&wire.at_server).unwrap().status, StatusCode::BadCertificateUntrusted);
}

#[test]
fn the_client_validates_the_server_again_at_every_renewal() {
    let (world, mut wire) = wire();
    world.client_trust.store(Arc::new(TrustList::default()));
    wire.pass(secs(75));
    assert_eq!(closed(&wire.at_client), Some(StatusCode::BadCertificateUntrusted));
}

#[test]
fn a_new_server_certificate_leaves_live_channels_alone_and_overlaps() {
    let (world, mut wire) = wire();
    let fresh = identity("server", 2048, 4);
    world.config.identity.store(Arc::new(fresh.clone().succeeding(&world.server)));
    // The live channel renews with the certificate it knows.
    wire.pass(secs(75));
    wire.run();
    assert_eq!((renewed(&wire.at_client), closed(&wire.at_server)), (1, None));
    // A client that still holds the old certificate gets in, one with the new too.
    assert!(opened(&world.connect(POLICY, MODES[1]).at_client));
    let mut config = world.client_config(POLICY, MODES[1]);
    config.server_certificate = Some(fresh.certificate.clone());
    config.trust = Some(trusting(&[&fresh]));
    let wire = world.connect_with(config);
    assert!(opened(&wire.at_client));
    assert_eq!(wire.server.security().unwrap().own.as_ref().unwrap().certificate, fresh.certificate);
}

#[test]
fn lifetimes_are_granted_within_the_bounds() {
    for (asked, granted) in [(1, 60), (100, 100), (0, 3600), (86_400, 3600)] {
        let world = World::new(2048, 2048);
        let mut config = world.client_config(SecurityPolicyId::None, MessageSecurityMode::None);
        config.lifetime = secs(asked);
        let wire = world.connect_with(config);
        assert_eq!(wire.server.poll_timeout(), Some(wire.now.mono + secs(granted)), "{asked}");
    }
}

#[test]
fn sequence_numbers_wrap_on_every_policy() {
    for (policy, mode) in [(SecurityPolicyId::None, MessageSecurityMode::None), (POLICY, MODES[0]), (POLICY, MODES[1])]
    {
        let mut wire = World::new(2048, 2048).connect(policy, mode);
        wire.client.set_sequence(u32::MAX - 1026, 500);
        wire.server.set_sequence(500, u32::MAX - 1026);
        for _ in 0..6 {
            let id = wire.ask(b"over the edge");
            wire.run();
            assert_eq!(wire.requests().len(), 1, "{policy}");
            wire.answer(id, b"answer");
            wire.run();
        }
        assert_eq!(closed(&wire.at_server), None);
    }
}
