//! Both ends against each other, for every policy, mode and key size.

use std::sync::Arc;

use access_model::{AuditKind, Reason};
use opcua_types::{MessageSecurityMode, StatusCode};

use super::{MODES, POLICIES, Wire, World, closed, of, opened, put, refusal};
use crate::channel::{ChannelEvent, ClientChannel, SendError};
use crate::crypto::{SecurityPolicyId, tally};
use crate::pki::TrustList;
use crate::testing::{identity, noon, trusting};

/// Bodies around the capacity of one chunk, empty and large.
const SIZES: [usize; 9] = [0, 1, 100, 8_000, 65_400, 65_472, 65_512, 65_600, 300_000];

fn exchange(wire: &mut Wire, body: &[u8]) {
    let id = wire.ask(body);
    wire.run();
    assert_eq!(wire.requests(), [(id, body.to_vec())]);
    let answer: Vec<u8> = body.iter().map(|byte| !byte).collect();
    wire.answer(id, &answer);
    wire.run();
    assert_eq!(wire.responses(), [(id, answer)]);
}

fn bodies() -> impl Iterator<Item = Vec<u8>> {
    SIZES.into_iter().map(|size| (0..size).map(|at| (at * 7 % 251) as u8).collect())
}

#[test]
fn without_protection_a_channel_opens_and_carries_messages() {
    let mut wire = World::new(2048, 2048).connect(SecurityPolicyId::None, MessageSecurityMode::None);
    assert!(opened(&wire.at_server) && opened(&wire.at_client));
    bodies().for_each(|body| exchange(&mut wire, &body));
    let security = wire.server.security().unwrap();
    assert!(security.peer.is_none() && !security.is_encrypted() && !security.discovery_only);
}

#[test]
fn every_policy_mode_and_key_size_opens_and_carries_messages() {
    for bits in [(2048, 2048), (3072, 3072), (4096, 4096), (2048, 4096), (4096, 2048)] {
        let world = World::new(bits.0, bits.1);
        for policy in POLICIES {
            for mode in MODES {
                let mut wire = world.connect(policy, mode);
                assert!(opened(&wire.at_server) && opened(&wire.at_client), "{policy} {mode:?} {bits:?}");
                let at_server = wire.server.security().unwrap();
                assert_eq!((at_server.policy, at_server.mode, at_server.channel_id), (policy, mode, 77));
                assert_eq!(at_server.peer.as_ref().unwrap().der(), of(&world.client, policy).certificate.der());
                assert_eq!(at_server.is_encrypted(), mode == MessageSecurityMode::SignAndEncrypt);
                bodies().for_each(|body| exchange(&mut wire, &body));
            }
        }
    }
}

#[test]
fn encryption_hides_the_body_and_signing_alone_does_not() {
    let world = World::new(2048, 2048);
    let secret = b"the recipe of the day, in plain words";
    for (mode, hidden) in [(MODES[0], false), (MODES[1], true)] {
        let mut wire = world.connect(SecurityPolicyId::Basic256Sha256, mode);
        wire.ask(secret);
        let seen = wire.client.outgoing().windows(secret.len()).any(|window| window == secret);
        assert_eq!(seen, !hidden, "{mode:?}");
    }
}

#[test]
fn a_channel_for_discovery_is_marked_when_none_is_not_offered() {
    let world =
        World::with(2048, 2048, |config| config.offered.retain(|(policy, _)| *policy != SecurityPolicyId::None));
    let mut wire = world.connect(SecurityPolicyId::None, MessageSecurityMode::None);
    assert!(wire.server.security().unwrap().discovery_only);
    exchange(&mut wire, b"GetEndpoints");
    // It takes no large messages.
    wire.ask(&vec![0; 70_000]);
    wire.run();
    assert_eq!(closed(&wire.at_server), Some(StatusCode::BadRequestTooLarge));
}

#[test]
fn with_discovery_off_an_unprotected_channel_is_refused() {
    let world = World::with(2048, 2048, |config| {
        config.offered.retain(|(policy, _)| *policy != SecurityPolicyId::None);
        config.discovery = false;
    });
    let wire = world.connect(SecurityPolicyId::None, MessageSecurityMode::None);
    assert_eq!(closed(&wire.at_server), Some(StatusCode::BadSecurityPolicyRejected));
    assert_eq!(closed(&wire.at_client), Some(StatusCode::BadSecurityPolicyRejected));
}

#[test]
fn what_could_be_an_oracle_is_told_alike_and_audited_apart() {
    let world = World::new(2048, 2048);
    let config = || world.client_config(SecurityPolicyId::Basic256Sha256, MODES[1]);
    let mut told = Vec::new();
    let mut reasons = Vec::new();
    let mut work = Vec::new();
    // The OPN begins behind Hello; the protected part is its last 512 bytes and more.
    for case in ["trusted", "untrusted", "flipped", "other signer"] {
        let mut config = config();
        if case == "untrusted" {
            config.identity = Some(Arc::new(identity("stranger", 2048, 3)));
        }
        if case == "other signer" {
            let mut mixed = world.client.clone();
            mixed.key = identity("stranger", 2048, 3).key;
            config.identity = Some(Arc::new(mixed));
        }
        let mut wire = Wire::new(&world, config);
        wire.slow = true;
        while wire.client_jobs.is_empty() {
            wire.step();
        }
        wire.work();
        if case == "flipped" {
            let out = wire.client.outgoing();
            let last = out.len() - 100;
            out[last] ^= 1;
        }
        wire.step();
        tally::take();
        wire.work();
        let done = tally::take();
        let answer = wire.server.outgoing().clone();
        if case == "trusted" {
            assert_eq!(&answer[..3], b"OPN");
            assert_eq!(done.signatures, 1, "of the answer");
            work.push(tally::Work { signatures: 0, ..done });
            continue;
        }
        work.push(done);
        assert_eq!(closed(&wire.at_server), Some(StatusCode::BadSecurityChecksFailed), "{case}");
        told.push(answer);
        reasons.push(refusal(&wire.at_server).unwrap().reason.unwrap());
    }
    assert!(told.windows(2).all(|pair| pair[0] == pair[1]), "the answers differ: {told:?}");
    assert_eq!(reasons, [Reason::CertificateUntrusted, Reason::ChannelSecurity, Reason::ChannelSecurity]);
    assert!(work[0].decryptions > 0 && work[0].verifications > 0);
    assert!(work.windows(2).all(|pair| pair[0] == pair[1]), "the work differs: {work:?}");
}

#[test]
fn a_rejected_certificate_is_reported_for_the_store() {
    let world = World::new(2048, 2048);
    let mut config = world.client_config(SecurityPolicyId::Aes256Sha256RsaPss, MODES[1]);
    let stranger = identity("stranger", 2048, 3);
    config.identity = Some(Arc::new(stranger.clone()));
    let wire = world.connect_with(config);
    let audit = refusal(&wire.at_server).unwrap();
    assert_eq!(audit.kind, AuditKind::ChannelOpened);
    assert_eq!(audit.status, StatusCode::BadCertificateUntrusted);
    assert_eq!(audit.rejected.as_deref(), Some(stranger.certificate.der()));
    assert_eq!(closed(&wire.at_client), Some(StatusCode::BadSecurityChecksFailed));
}

#[test]
fn a_client_refuses_a_server_it_does_not_trust_or_that_is_another() {
    let world = World::new(2048, 2048);
    type Change = fn(&mut crate::channel::ClientChannelConfig);
    let cases: [(&str, Change, Reason); 5] = [
        ("untrusted", |c| c.trust = Some(trusting(&[])), Reason::CertificateUntrusted),
        ("uri", |c| c.server_uri = Some("urn:test:other".into()), Reason::CertificateUri),
        ("host", |c| c.host = Some("elsewhere.example".into()), Reason::CertificateHost),
        ("no identity", |c| c.identity = None, Reason::ChannelPolicy),
        ("mode", |c| c.mode = MessageSecurityMode::None, Reason::ChannelPolicy),
    ];
    for (name, change, reason) in cases {
        let mut config = world.client_config(SecurityPolicyId::Basic256Sha256, MODES[1]);
        change(&mut config);
        let refused = ClientChannel::new(Arc::new(config), noon()).err().map(|rejection| rejection.reason);
        assert_eq!(refused, Some(reason), "{name}");
    }
}

#[test]
fn a_client_refuses_an_answer_from_another_server() {
    let world = World::new(2048, 2048);
    let impostor = World::new(2048, 2048);
    // The impostor has its own certificate but gets the messages for the other: it cannot open them.
    impostor.config.identity.store(Arc::new(identity("impostor", 2048, 3)));
    let mut wire = Wire::new(&impostor, world.client_config(SecurityPolicyId::Basic256Sha256, MODES[1]));
    wire.run();
    assert_eq!(closed(&wire.at_server), Some(StatusCode::BadCertificateInvalid));
    assert!(!opened(&wire.at_client));
}

#[test]
fn trust_that_ends_while_the_opening_is_worked_on_ends_the_opening() {
    let world = World::new(2048, 2048);
    let mut wire = Wire::new(&world, world.client_config(SecurityPolicyId::Basic256Sha256, MODES[1]));
    wire.slow = true;
    while wire.server_jobs.is_empty() {
        wire.step();
        if wire.server_jobs.is_empty() {
            wire.work();
        }
    }
    let job = wire.server_jobs.remove(0);
    let (id, outcome) = job.run();
    world.server_trust.store(Arc::new(TrustList::default()));
    wire.server.job_done(id, outcome, wire.now, &mut wire.entropy);
    wire.collect();
    assert!(!opened(&wire.at_server));
    assert_eq!(closed(&wire.at_server), Some(StatusCode::BadSecurityChecksFailed));
}

#[test]
fn a_trust_list_change_closes_live_channels_that_it_no_longer_covers() {
    let world = World::new(2048, 2048);
    let mut wire = world.connect(SecurityPolicyId::Basic256Sha256, MODES[0]);
    wire.server.recheck_trust(wire.now);
    wire.collect();
    assert_eq!(closed(&wire.at_server), None);
    world.server_trust.store(Arc::new(TrustList::default()));
    wire.server.recheck_trust(wire.now);
    wire.collect();
    assert_eq!(closed(&wire.at_server), Some(StatusCode::BadSecurityChecksFailed));
    assert_eq!(refusal(&wire.at_server).unwrap().reason, Some(Reason::CertificateUntrusted));
}

#[test]
fn messages_too_large_for_the_peer_are_not_sent_and_the_channel_lives() {
    let world = World::new(2048, 2048);
    let mut config = world.client_config(SecurityPolicyId::Basic256Sha256, MODES[1]);
    config.limits.max_message = 10_000;
    let mut wire = world.connect_with(config);
    let id = wire.ask(b"a");
    wire.run();
    wire.requests();
    let sent = wire.server.send(id, &mut |out| put(out, &[0; 10_001]), wire.now);
    assert_eq!(sent, Err(SendError::TooLarge));
    assert!(wire.server.outgoing().is_empty());
    wire.answer(id, &[1; 10_000]);
    wire.run();
    assert_eq!(wire.responses(), [(id, vec![1; 10_000])]);
    let too_large = vec![0; world.config.limits.max_message as usize + 1];
    let asked = wire.client.send(&mut |out| put(out, &too_large), wire.now);
    assert_eq!(asked, Err(SendError::TooLarge));
    exchange(&mut wire, b"still here");
}

#[test]
fn a_failed_encoding_leaves_nothing_behind() {
    let world = World::new(2048, 2048);
    let mut wire = world.connect(SecurityPolicyId::Basic256Sha256, MODES[1]);
    let failed = wire.client.send(
        &mut |out| {
            out.extend_from_slice(b"half");
            Err(crate::channel::EncodeError(StatusCode::BadEncodingError))
        },
        wire.now,
    );
    assert!(matches!(failed, Err(SendError::Encode(_))));
    assert!(wire.client.outgoing().is_empty());
    exchange(&mut wire, b"whole");
}

#[test]
fn an_aborted_answer_reaches_the_client_and_the_channel_lives() {
    let world = World::new(2048, 2048);
    for mode in MODES {
        let mut wire = world.connect(SecurityPolicyId::Aes128Sha256RsaOaep, mode);
        let id = wire.ask(b"a");
        wire.run();
        wire.requests();
        wire.server.abort(id, StatusCode::BadResponseTooLarge, wire.now).unwrap();
        wire.run();
        let aborted = wire.at_client.iter().any(|event| {
            matches!(event, ChannelEvent::Aborted { request_id, status }
                if *request_id == id && *status == StatusCode::BadResponseTooLarge)
        });
        assert!(aborted);
        exchange(&mut wire, b"more");
    }
}

#[test]
fn an_orderly_end_is_seen_at_both_ends() {
    let world = World::new(2048, 2048);
    for policy in SecurityPolicyId::ALL {
        let mode = if policy == SecurityPolicyId::None { MessageSecurityMode::None } else { MODES[1] };
        let mut wire = world.connect(policy, mode);
        wire.client.close(wire.now);
        wire.run();
        assert_eq!(closed(&wire.at_client), Some(StatusCode::Good));
        assert_eq!(closed(&wire.at_server), Some(StatusCode::Good), "{policy}");
        assert!(wire.server.outgoing().is_empty());
        assert_eq!(wire.server.poll_timeout(), None);
    }
}

#[test]
fn every_request_gets_one_answer() {
    let mut wire = World::new(2048, 2048).connect(SecurityPolicyId::None, MessageSecurityMode::None);
    let id = wire.ask(b"a");
    wire.run();
    wire.answer(id, b"b");
    assert_eq!(wire.server.send(id, &mut |out| put(out, b"c"), wire.now), Err(SendError::UnknownRequest));
    let other = wire.ask(b"d");
    wire.run();
    wire.server.forget(other);
    assert_eq!(wire.server.send(other, &mut |out| put(out, b"e"), wire.now), Err(SendError::UnknownRequest));
}
