//! Bytes that nobody meant: whatever comes, in whatever pieces, a channel neither panics nor delivers what was not sent.

use std::sync::OnceLock;

use opcua_types::{MessageSecurityMode, StatusCode};
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
    let kinds = prop::sample::select(vec![b"HEL", b"RHE", b"ACK", b"ERR", b"OPN", b"MSG", b"CLO"]);
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

/// One step in the life of a channel.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The client asks; so many bytes.
    Ask(usize),
    /// The server answers the oldest request.
    Answer,
    /// Bytes move, once.
    Move,
    /// Jobs are done.
    Work,
    /// Seconds pass.
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0usize..5000).prop_map(Step::Ask),
        1 => Just(Step::Ask(150_000)),
        3 => Just(Step::Answer),
        6 => Just(Step::Move),
        4 => Just(Step::Work),
        2 => (1u64..30).prop_map(Step::Pass),
    ]
}

/// Lives a channel; returns what was asked and what arrived, in order.
fn live(wire: &mut Wire, steps: &[Step]) -> Result<(), TestCaseError> {
    type Messages = Vec<(u32, Vec<u8>)>;
    let (mut asked, mut waiting, mut answered) = (Messages::new(), Messages::new(), Messages::new());
    wire.slow = true;
    for (number, step) in steps.iter().enumerate() {
        match *step {
            Step::Ask(size) => {
                let body = vec![number as u8; size];
                if let Ok(id) = wire.client.send(&mut |out| super::put(out, &body), wire.now) {
                    asked.push((id, body));
                }
            }
            Step::Answer => {
                if let Some((id, body)) = (!waiting.is_empty()).then(|| waiting.remove(0)) {
                    let sent = wire.server.send(id, &mut |out| super::put(out, &body), wire.now);
                    prop_assert!(
                        sent.is_ok() || wire.server.is_closed() || wire.server.poll_timeout() <= Some(wire.now.mono)
                    );
                    if sent.is_ok() {
                        answered.push((id, body));
                    }
                }
            }
            Step::Move => drop(wire.step()),
            Step::Work => drop(wire.work()),
            Step::Pass(seconds) => wire.pass(std::time::Duration::from_secs(seconds)),
        }
        let arrived = wire.requests();
        prop_assert!(asked.len() >= arrived.len());
        let expected: Vec<_> = asked.drain(..arrived.len()).collect();
        prop_assert_eq!(&arrived, &expected);
        waiting.extend(arrived);
        let responses = wire.responses();
        prop_assert!(answered.len() >= responses.len());
        let expected: Vec<_> = answered.drain(..responses.len()).collect();
        prop_assert_eq!(&responses, &expected);
        if matches!(step, Step::Pass(_)) {
            prop_assert!(wire.server.poll_timeout().is_none_or(|at| at > wire.now.mono));
            prop_assert!(wire.client.poll_timeout().is_none_or(|at| at > wire.now.mono));
        }
        // A life by the rules ends by time or not at all.
        let fair = [None, Some(StatusCode::BadSecureChannelTokenUnknown)];
        prop_assert!(fair.contains(&closed(&wire.at_server)), "{:?}", wire.at_server);
        prop_assert!(fair.contains(&closed(&wire.at_client)), "{:?}", wire.at_client);
    }
    Ok(())
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
    fn any_life_by_the_rules_keeps_order_and_ends_by_time_only(
        mut wire in any_channel(),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        live(&mut wire, &steps)?;
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
