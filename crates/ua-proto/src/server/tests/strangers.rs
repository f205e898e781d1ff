//! What strangers hold, on whose connection no session is active: it is never others that pay for it (DESIGN D2).

use access_model::{AuditKind, Outcome, Reason};
use opcua_types::*;
use proptest::prelude::*;

use super::services::value_of;
use super::world::*;
use crate::server::{ConnId, Input, ServerLimits};

const MOST: usize = 2 << 20;
/// An eighth.
const PART: usize = MOST / 8;
/// As much as a shell reads at once.
const READ: usize = 64 * 1024;

fn world() -> World {
    let limits = ServerLimits { max_held: MOST, ..ServerLimits::default() };
    Setup { limits, ..Setup::default() }.start()
}

/// Alice takes nothing of answers of some 80 kB, which is within her share.
fn slow(world: &mut World) -> ConnId {
    let (conn, login) = world.log_in(BARE, "alice");
    world.peers.get_mut(&conn).unwrap().deaf = true;
    let request = ReadRequest {
        request_header: world.header(&login.token),
        nodes_to_read: Some(vec![value_of("Note"); 1_000]),
        timestamps_to_return: TimestampsToReturn::Both,
        max_age: 0.0,
    };
    for _ in 0..4 {
        world.send(conn, &request);
    }
    world.pass(std::time::Duration::from_millis(1));
    assert!(world.server.held() > 50_000, "{}", world.server.held());
    conn
}

/// The beginning of a message of 300 kB on a channel for discovery, as far as the server reads it.
fn begin(world: &mut World, bytes: usize) -> ConnId {
    let conn = world.connect(BARE);
    let now = world.now;
    let Some(peer) = world.peers.get_mut(&conn).filter(|peer| peer.closed.is_none()) else { return conn };
    let write = &mut |out: &mut Vec<u8>| {
        out.extend_from_slice(&[7; 300_000]);
        Ok(())
    };
    peer.channel.send(write, now).unwrap();
    let all = std::mem::take(peer.channel.outgoing());
    for part in all[..bytes].chunks(READ) {
        if world.server.wants_input(conn) {
            world.input(Input::Bytes { conn, bytes: part });
        }
    }
    conn
}

fn is_open(world: &World, conn: ConnId) -> bool {
    world.peers[&conn].closed.is_none()
}

#[test]
fn what_strangers_hold_closes_nobody_that_has_logged_in() {
    for (rule, bytes) in [
        ("a chunk that is not complete", 30_000),
        ("messages that are not complete", 200_000),
        ("little on each", 8_000),
        ("less than is counted", 900),
    ] {
        let mut world = world();
        let (slow, served) = (slow(&mut world), world.log_in(ENCRYPT, "alice"));
        for _ in 0..(4 * MOST / bytes).min(150) {
            begin(&mut world, bytes);
            assert!(world.server.held_for_strangers() <= PART + READ, "{rule}: {}", world.server.held_for_strangers());
            assert!(world.server.held() <= MOST, "{rule}");
        }
        assert!(is_open(&world, slow) && is_open(&world, served.0), "{rule}");
        assert!(world.read_one(served.0, &served.1, "Setpoint").is_ok(), "{rule}");
        let closed: Vec<_> = world.records.iter().filter(|record| record.kind == AuditKind::ChannelClosed).collect();
        let denied = Outcome::Denied(Reason::TooBusy);
        assert!(closed.iter().all(|record| record.outcome == denied && record.actor.name != "alice"), "{closed:?}");
        world.pass(std::time::Duration::from_secs(2));
        let told = world.records.iter().any(|record| record.detail.contains("for all that have not logged in"));
        assert_eq!(told, bytes > 1_024, "{rule}");
    }
}

#[test]
fn strangers_keep_to_their_part_and_newcomers_get_in() {
    let mut world = world();
    let crowd: Vec<ConnId> = (0..60).map(|_| begin(&mut world, 20_000)).collect();
    let held = world.server.held_for_strangers();
    assert!((PART / 2..=PART + READ).contains(&held), "{held}");
    let last = *crowd.last().unwrap();
    assert!(is_open(&world, last) && !is_open(&world, crowd[0]), "the oldest make room");
    assert!(!world.server.wants_input(last), "it holds its share, though it has only begun");
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    assert!(world.read_one(conn, &login, "Setpoint").is_ok());
    for conn in crowd.into_iter().filter(|conn| *conn != last) {
        world.input(Input::Disconnected { conn });
        world.peers.remove(&conn);
    }
    assert!(world.server.wants_input(last), "others need less");
}

#[test]
fn who_logs_in_is_no_stranger_and_is_one_again_afterwards() {
    let mut world = world();
    let slow = slow(&mut world);
    world.input(Input::Drained { conn: slow, unsent: 0 });
    assert_eq!(world.server.held_for_strangers(), 0, "what is held for it is held for alice");
    let (conn, login) = world.log_in(BARE, "alice");
    let request = CloseSessionRequest { request_header: world.header(&login.token), delete_subscriptions: true };
    let answer: Result<CloseSessionResponse, StatusCode> = world.ask(conn, &request);
    assert!(answer.is_ok());
    world.input(Input::Drained { conn, unsent: 9_000 });
    world.input(Input::Drained { conn: slow, unsent: 0 });
    assert!((8_000..=9_000).contains(&world.server.held_for_strangers()), "{}", world.server.held_for_strangers());
    world.input(Input::Disconnected { conn });
    assert_eq!(world.server.held_for_strangers(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn nobody_pays_for_strangers_whatever_they_begin(
        steps in proptest::collection::vec((1_usize..300_000, 0_usize..10), 1..60)
    ) {
        let mut world = world();
        let slow = slow(&mut world);
        let mut crowd = Vec::new();
        for (bytes, leaves) in steps {
            crowd.push(begin(&mut world, bytes));
            if leaves == 0 {
                let conn = crowd.swap_remove(bytes % crowd.len());
                world.input(Input::Disconnected { conn });
                world.peers.remove(&conn);
            }
            prop_assert!(world.server.held_for_strangers() <= PART + READ);
            prop_assert!(is_open(&world, slow));
        }
        for conn in crowd {
            world.input(Input::Disconnected { conn });
        }
        world.input(Input::Drained { conn: slow, unsent: 0 });
        prop_assert_eq!(world.server.held_for_strangers(), 0);
    }
}
