//! Bytes that nobody meant: whatever comes, in whatever pieces, a channel neither panics nor delivers what was not sent.

use std::sync::OnceLock;

use opcua_types::MessageSecurityMode;
use proptest::prelude::*;

use super::{MODES, POLICIES, Wire, World, closed, messages, opened};
use crate::channel::{ChannelEvent, ClientChannel, ServerChannel};
use crate::crypto::SecurityPolicyId;
use crate::testing::{Counting, noon};

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| World::new(2048, 2048))
}

/// An open channel of any kind.
fn any_channel() -> impl Strategy<Value = Wire> {
    let protected = (prop::sample::select(POLICIES.to_vec()), prop::sample::select(MODES.to_vec()));
    let kinds = prop_oneof![Just((SecurityPolicyId::None, MessageSecurityMode::None)), protected];
    kinds.prop_map(|(policy, mode)| {
        let wire = world().connect(policy, mode);
        assert!(opened(&wire.at_client));
        wire
    })
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Wire({:?})", self.server.security().map(|security| (security.policy, security.mode)))
    }
}

fn drain(server: &mut ServerChannel) -> Vec<ChannelEvent> {
    let mut seen = Vec::new();
    while let Some(event) = server.poll_event() {
        if let ChannelEvent::Job(job) = event {
            let (id, outcome) = job.run();
            server.job_done(id, outcome, noon(), &mut Counting(5));
        } else {
            seen.push(event);
        }
    }
    seen
}

/// Headers that lead deeper than noise alone.
fn start() -> impl Strategy<Value = Vec<u8>> {
    let kinds = prop::sample::select(vec![b"HEL", b"ACK", b"ERR", b"OPN", b"MSG", b"CLO"]);
    let parts = prop::sample::select(vec![b'F', b'C', b'A']);
    (kinds, parts, 0u32..600, prop::collection::vec(any::<u8>(), 0..600)).prop_map(|(kind, part, size, body)| {
        let mut out = kind.to_vec();
        out.push(part);
        out.extend_from_slice(&size.to_le_bytes());
        out.extend_from_slice(&body);
        out
    })
}

fn noise() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![prop::collection::vec(any::<u8>(), 0..2000), start()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn noise_never_panics_a_new_server_channel(pieces in prop::collection::vec(noise(), 1..6)) {
        let mut server = ServerChannel::new(1, world().config.clone(), noon());
        for piece in &pieces {
            server.receive(piece, noon(), &mut Counting(1));
            prop_assert!(!opened(&drain(&mut server)));
        }
        prop_assert!(server.held() <= 64 * 1024);
    }

    #[test]
    fn noise_never_panics_an_open_channel_or_gets_through(mut wire in any_channel(), piece in noise()) {
        let protected = wire.server.security().unwrap().is_signed();
        wire.server.receive(&piece, wire.now, &mut Counting(1));
        let mut seen = drain(&mut wire.server);
        prop_assert!(!protected || messages(&mut seen).is_empty());
        wire.client.receive(&piece, wire.now, &mut Counting(1));
    }

    #[test]
    fn noise_never_panics_a_new_client_channel(pieces in prop::collection::vec(noise(), 1..6)) {
        let config = std::sync::Arc::new(world().client_config(POLICIES[0], MODES[1]));
        let mut client = ClientChannel::new(config, noon()).unwrap();
        for piece in &pieces {
            client.receive(piece, noon(), &mut Counting(1));
        }
    }

    #[test]
    fn messages_arrive_whole_in_any_pieces(
        mut wire in any_channel(),
        bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 1..5),
        long in 0usize..200_000,
        cuts in prop::collection::vec(1usize..70_000, 1..20),
    ) {
        let mut sent = bodies;
        sent.push(vec![0x5a; long]);
        let ids: Vec<u32> = sent.iter().map(|body| wire.ask(body)).collect();
        let bytes = std::mem::take(wire.client.outgoing());
        let mut rest = bytes.as_slice();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at((*cut).min(rest.len()));
            wire.server.receive(piece, wire.now, &mut Counting(1));
            rest = after;
        }
        wire.collect();
        let expected: Vec<(u32, Vec<u8>)> = ids.into_iter().zip(sent).collect();
        prop_assert_eq!(wire.requests(), expected);
    }

    #[test]
    fn a_changed_byte_never_changes_a_protected_message(
        (policy, mode) in (prop::sample::select(POLICIES.to_vec()), prop::sample::select(MODES.to_vec())),
        body in prop::collection::vec(any::<u8>(), 0..200),
        place in any::<prop::sample::Index>(),
        flip in 1u8..,
    ) {
        let mut wire = world().connect(policy, mode);
        wire.ask(&body);
        let mut bytes = std::mem::take(wire.client.outgoing());
        let at = place.index(bytes.len());
        bytes[at] ^= flip;
        wire.server.receive(&bytes, wire.now, &mut Counting(1));
        wire.collect();
        prop_assert!(wire.requests().is_empty());
        // A size that grew makes the server wait for more; everything else ends the channel.
        prop_assert!(closed(&wire.at_server).is_some() || (4..8).contains(&at));
    }

    #[test]
    fn a_changed_byte_in_an_open_never_opens(place in any::<prop::sample::Index>(), flip in 1u8..) {
        let mut wire = Wire::new(world(), world().client_config(POLICIES[2], MODES[1]));
        wire.slow = true;
        while wire.client_jobs.is_empty() {
            wire.step();
        }
        wire.work();
        let mut bytes = std::mem::take(wire.client.outgoing());
        let at = place.index(bytes.len());
        bytes[at] ^= flip;
        wire.server.receive(&bytes, wire.now, &mut Counting(1));
        wire.collect();
        wire.work();
        prop_assert!(!opened(&wire.at_server), "{}", at);
    }
}

/// Every proper prefix of a chunk waits, and one byte more does not break it.
#[test]
fn a_chunk_may_stop_anywhere() {
    for (policy, mode) in [(SecurityPolicyId::None, MessageSecurityMode::None), (POLICIES[0], MODES[1])] {
        let mut wire = world().connect(policy, mode);
        for cut in 1..100 {
            wire.ask(b"a body of some length, so that there are many places to stop");
            let bytes = std::mem::take(wire.client.outgoing());
            let cut = cut.min(bytes.len() - 1);
            wire.server.receive(&bytes[..cut], wire.now, &mut Counting(1));
            wire.collect();
            assert!(wire.requests().is_empty());
            wire.server.receive(&bytes[cut..], wire.now, &mut Counting(1));
            wire.collect();
            assert_eq!(wire.requests().len(), 1, "{policy} cut at {cut}");
        }
    }
}
