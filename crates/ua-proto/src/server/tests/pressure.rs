//! Too many, too much, too long: what one peer can cost, and that others are served meanwhile (DESIGN D2).

use std::time::Duration;

use access_model::{AuditKind, Outcome, Reason};
use opcua_types::*;

use super::ask::*;
use super::keys::CLIENT;
use super::services::value_of;
use super::world::*;
use crate::server::{ConnId, Input, ServerLimits};

#[test]
fn half_open_connections_make_room_for_those_who_log_in() {
    let limits = ServerLimits { max_half_open: 100, ..ServerLimits::default() };
    let mut world = Setup { limits, ..Setup::default() }.start();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    for peer in 10_000..11_000 {
        world.input(Input::Accepted { conn: ConnId(peer), peer: "attacker".into() });
    }
    assert!(world.server.load().0 <= 101, "{:?}", world.server.load());
    assert!(world.read_one(conn, &login, "Setpoint").is_ok(), "who is in stays in");
    let (late, login) = world.log_in(ENCRYPT, "alice");
    assert!(world.read_one(late, &login, "Setpoint").is_ok(), "and others still get in");
    world.pass(Duration::from_secs(2));
    assert_eq!(turned_away(&world), 901, "each that made room is counted");
    let records = world.records.iter().filter(|record| record.outcome == Outcome::Denied(Reason::TooBusy));
    assert!(records.count() < 20, "in few records");
}

/// How many the ledger knows to have been turned away because there were too many.
fn turned_away(world: &World) -> u64 {
    let refused = world
        .records
        .iter()
        .filter(|record| record.kind == AuditKind::ChannelOpened && record.outcome == Outcome::Denied(Reason::TooBusy));
    refused.map(|record| record.count).sum()
}

#[test]
fn connections_are_bounded() {
    let limits = ServerLimits { max_connections: 2, ..ServerLimits::default() };
    let mut world = Setup { limits, ..Setup::default() }.start();
    world.log_in(ENCRYPT, "alice");
    world.log_in(ENCRYPT, "alice");
    let third = world.dial(ENCRYPT, &CLIENT.clone());
    world.run();
    assert!(world.peers[&third].closed.is_some());
    assert_eq!(world.server.load(), (2, 2));
    assert_eq!(world.peers[&third].closed, Some(StatusCode::BadTcpServerTooBusy));
    assert_eq!(turned_away(&world), 1);
}

#[test]
fn one_address_does_not_take_every_place() {
    let limits = ServerLimits { max_connections_per_address: 3, ..ServerLimits::default() };
    let mut world = Setup { limits, ..Setup::default() }.start();
    let mut crowd = |peers: std::ops::Range<u64>, address: &str| {
        for peer in peers {
            world.input(Input::Accepted { conn: ConnId(peer), peer: format!("{address}:{}", 1_000 + peer) });
        }
        world.server.load().0
    };
    assert_eq!(crowd(100..110, "192.0.2.1"), 3, "the oldest that had not logged in made room");
    assert_eq!(crowd(200..210, "192.0.2.2"), 6, "another address has places of its own");
    assert_eq!(crowd(300..310, "[2001:db8::1]"), 9);
    assert_eq!(crowd(400..410, "[2001:db8::2]"), 9, "one network is one peer");
    for conn in [107, 108, 109] {
        world.input(Input::Disconnected { conn: ConnId(conn) });
    }
    assert_eq!(world.server.load().0, 6);
    let mut crowd = |peer: u64| {
        world.input(Input::Accepted { conn: ConnId(peer), peer: "192.0.2.1:1".into() });
        world.server.load().0
    };
    assert_eq!([crowd(500), crowd(501), crowd(502), crowd(503)], [7, 8, 9, 9], "who leaves leaves a place");
}

#[test]
fn who_is_logged_in_does_not_make_room_for_its_own_address() {
    let limits = ServerLimits { max_connections_per_address: 1, ..ServerLimits::default() };
    let mut world = Setup { limits, ..Setup::default() }.start();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let address = format!("10.0.0.{}", conn.0);
    world.input(Input::Accepted { conn: ConnId(500), peer: format!("{address}:500") });
    assert_eq!(world.server.load().0, 1, "there is no room for another");
    assert!(world.read_one(conn, &login, "Setpoint").is_ok());
    assert_eq!(turned_away(&world), 1);
}

#[test]
fn a_connection_that_never_logs_in_ends() {
    let mut world = World::new();
    let silent = world.connect(ENCRYPT);
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    world.pass(Duration::from_secs(31));
    assert!(world.peers[&silent].closed.is_some());
    assert!(world.read_one(conn, &login, "Setpoint").is_ok());
    let close = CloseSessionRequest { request_header: world.header(&login.token), delete_subscriptions: true };
    world.ask::<_, CloseSessionResponse>(conn, &close).unwrap();
    world.pass(Duration::from_secs(31));
    assert!(world.peers[&conn].closed.is_some(), "nor one whose sessions are closed");
}

#[test]
fn the_oldest_session_that_was_not_activated_makes_room() {
    let limits = ServerLimits { max_sessions: 2, ..ServerLimits::default() };
    let mut world = Setup { limits, ..Setup::default() }.start();
    let first = world.connect(ENCRYPT);
    let mut oldest = world.create(first);
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let third = world.connect(ENCRYPT);
    let mut newest = world.create(third);
    assert_eq!(world.activate(first, &mut oldest, anonymous()), Err(StatusCode::BadSessionIdInvalid));
    world.activate(third, &mut newest, anonymous()).unwrap();
    let fourth = world.connect(ENCRYPT);
    assert_eq!(world.try_create(fourth, |_| {}).err(), Some(StatusCode::BadTooManySessions));
    assert!(world.read_one(conn, &login, "Setpoint").is_ok());
}

#[test]
fn jobs_are_bounded_and_those_who_come_too_many_are_turned_away() {
    let limits = ServerLimits { max_jobs: 2, max_waiting_jobs: 3, ..ServerLimits::default() };
    let mut world = Setup { limits, ..Setup::default() }.start();
    let (conn, login) = world.log_in(BARE, "alice");
    world.hold_jobs = true;
    let dialled: Vec<ConnId> = (0..10).map(|_| world.dial(ENCRYPT, &CLIENT.clone())).collect();
    world.run();
    assert_eq!(world.held_jobs.len(), 2, "no more than the pool may run");
    let away = dialled.iter().filter(|conn| world.peers[conn].closed.is_some()).count();
    assert_eq!(away, 5, "two run, three wait");
    assert_eq!(turned_away(&world), 5);
    assert!(world.read_one(conn, &login, "Setpoint").is_ok(), "nobody waits for a signature of others");
    while let Some(job) = world.held_jobs.pop_front() {
        world.finish(job);
        world.run();
    }
    let open = dialled.iter().filter(|conn| world.peers[conn].channel.security().is_some()).count();
    assert_eq!(open, 5);
}

#[test]
fn parked_requests_of_a_session_are_bounded() {
    let limits = ServerLimits { max_parked_per_session: 3, ..ServerLimits::default() };
    let mut world = Setup { limits, ..Setup::default() }.start();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    world.ledger = None;
    let request = world.write_request(&login, vec![(id("Setpoint"), Variant::from(1.0))]);
    for _ in 0..3 {
        world.send(conn, &request);
    }
    let fourth = world.send(conn, &request);
    assert_eq!(world.answer::<WriteResponse>(conn, fourth).unwrap().err(), Some(StatusCode::BadTooManyOperations));
}

#[test]
fn a_peer_that_never_reads_is_not_served_further_and_others_are() {
    let limits = ServerLimits { max_unsent: 50_000, max_backlog: 100_000, ..ServerLimits::default() };
    let mut world = Setup { limits, ..Setup::default() }.start();
    let (deaf, deaf_login) = world.log_in(ENCRYPT, "alice");
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    world.peers.get_mut(&deaf).unwrap().deaf = true;
    for _ in 0..200 {
        let request = ReadRequest {
            request_header: world.header(&deaf_login.token),
            nodes_to_read: Some(vec![value_of("Note"); 500]),
            timestamps_to_return: TimestampsToReturn::Both,
            max_age: 0.0,
        };
        world.send(deaf, &request);
        let backlog = world.server.outgoing(deaf).map_or(0, |bytes| bytes.len());
        assert!(backlog <= 100_000, "{backlog}");
        if backlog > 50_000 {
            assert!(!world.server.wants_input(deaf));
        }
    }
    let stuck = !world.server.wants_input(deaf);
    assert!(stuck, "nothing more is taken from it");
    world.peers.get_mut(&deaf).unwrap().deaf = false;
    world.input(Input::Drained { conn: deaf, unsent: 60_000 });
    assert!(!world.server.wants_input(deaf), "what the shell holds counts too");
    if let Some(bytes) = world.server.outgoing(deaf) {
        bytes.clear();
    }
    world.input(Input::Drained { conn: deaf, unsent: 0 });
    assert!(world.read_one(conn, &login, "Setpoint").is_ok());
}

/// Asks for so much that some of it has to wait.
fn shout(world: &mut World, conn: ConnId, login: &Login) {
    let request = ReadRequest {
        request_header: world.header(&login.token),
        nodes_to_read: Some(vec![value_of("Note"); 500]),
        timestamps_to_return: TimestampsToReturn::Both,
        max_age: 0.0,
    };
    world.send(conn, &request);
}

#[test]
fn a_peer_that_takes_nothing_is_cut_off_in_time_and_its_session_can_go_on_elsewhere() {
    let mut world = World::new();
    let (deaf, mut login) = world.log_in(ENCRYPT, "alice");
    world.peers.get_mut(&deaf).unwrap().deaf = true;
    shout(&mut world, deaf, &login);
    world.pass(Duration::from_secs(20));
    // To speak is not to listen.
    shout(&mut world, deaf, &login);
    world.pass(Duration::from_secs(9));
    assert!(world.peers[&deaf].closed.is_none());
    world.pass(Duration::from_secs(2));
    assert!(world.peers[&deaf].closed.is_some());
    assert_eq!(world.server.load(), (0, 1), "the connection is gone and what waited for it");
    let why: Vec<_> = world.records.iter().filter(|record| record.kind == AuditKind::ChannelClosed).collect();
    let [record] = why.as_slice() else { panic!("{why:?}") };
    assert_eq!(record.outcome, Outcome::Denied(Reason::PeerNotReading));
    assert_eq!(record.actor.name, "alice");
    let back = world.connect(ENCRYPT);
    let identity = world.user(back, &login, "alice", "alice-password");
    world.activate(back, &mut login, identity).unwrap();
    assert!(world.read_one(back, &login, "Setpoint").is_ok());
}

#[test]
fn a_peer_that_reads_slowly_stays() {
    let mut world = World::new();
    let (slow, login) = world.log_in(ENCRYPT, "alice");
    world.peers.get_mut(&slow).unwrap().deaf = true;
    (0..10).for_each(|_| shout(&mut world, slow, &login));
    for turn in 0..8 {
        world.pass(Duration::from_secs(25));
        let waiting = world.server.outgoing(slow).map_or(0, |bytes| bytes.len());
        assert!(waiting > 0 && world.peers[&slow].closed.is_none(), "turn {turn}");
        // The shell takes from the front what the peer takes; the timer or the next input sees it.
        let taken: Vec<u8> = world.server.outgoing(slow).unwrap().drain(..100).collect();
        assert_eq!(taken.len(), 100);
        if turn % 2 == 0 {
            world.input(Input::Drained { conn: slow, unsent: 0 });
        }
    }
}

#[test]
fn responses_larger_than_the_client_takes_become_faults() {
    let mut world = World::new();
    let conn = world.connect(ENCRYPT);
    let mut login = world.try_create(conn, |request| request.max_response_message_size = 8_192).unwrap();
    let identity = world.user(conn, &login, "alice", "alice-password");
    world.activate(conn, &mut login, identity).unwrap();
    let many = vec![value_of("Note"); 1_000];
    assert_eq!(world.read(conn, &login, many).err(), Some(StatusCode::BadResponseTooLarge));
    assert!(world.read_one(conn, &login, "Note").is_ok());
}
