//! What all peers together may make a server hold: shares under pressure, and who gives way (DESIGN D2).

use access_model::{AuditKind, Outcome, Reason};
use opcua_types::*;
use proptest::prelude::*;

use super::services::value_of;
use super::world::*;
use crate::server::{ConnId, Input, ServerLimits};

/// What goes beyond the bound before anybody can be closed: one answer, and what is too little to be counted.
const SLACK: usize = 256 * 1024;

fn world(max_held: usize) -> World {
    let limits = ServerLimits { max_held, ..ServerLimits::default() };
    Setup { limits, ..Setup::default() }.start()
}

fn deaf(world: &mut World) -> (ConnId, Login) {
    let (conn, login) = world.log_in(BARE, "alice");
    world.peers.get_mut(&conn).unwrap().deaf = true;
    (conn, login)
}

/// Asks for so many values; the answer has some 30 bytes for each.
fn ask(world: &mut World, conn: ConnId, login: &Login, values: usize) {
    let request = ReadRequest {
        request_header: world.header(&login.token),
        nodes_to_read: Some(vec![value_of("Note"); values]),
        timestamps_to_return: TimestampsToReturn::Both,
        max_age: 0.0,
    };
    world.send(conn, &request);
}

fn unread(world: &mut World) -> usize {
    let all: Vec<ConnId> = world.peers.keys().copied().collect();
    all.into_iter().filter_map(|conn| world.server.outgoing(conn).map(|bytes| bytes.len())).sum()
}

fn closed(world: &World) -> Vec<(Reason, u64)> {
    let closed = world.records.iter().filter(|record| record.kind == AuditKind::ChannelClosed);
    closed
        .filter_map(|record| match record.outcome {
            Outcome::Denied(reason) => Some((reason, record.count)),
            _ => None,
        })
        .collect()
}

#[test]
fn many_who_never_read_hold_no_more_than_few_and_nobody_else_suffers() {
    const MOST: usize = 3 << 20;
    let mut world = world(MOST);
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    let crowd: Vec<_> = (0..40).map(|_| deaf(&mut world)).collect();
    for _ in 0..30 {
        for (deaf, login) in &crowd {
            ask(&mut world, *deaf, login, 500);
            assert!(world.server.held() <= MOST, "{}", world.server.held());
        }
        assert!(world.read_one(conn, &login, "Setpoint").is_ok(), "who listens is served");
    }
    // A third of the bound is given out in shares; each goes beyond its own by one answer at most.
    let unread = unread(&mut world);
    assert!((MOST / 3 / 2..MOST / 3 + 40 * 20_000).contains(&unread), "{unread}");
    assert_eq!(closed(&world), [], "it is enough that nothing more is taken from them");
    let (late, login) = world.log_in(ENCRYPT, "alice");
    assert!(world.read_one(late, &login, "Setpoint").is_ok(), "and others get in");
}

#[test]
fn few_may_hold_more_each_than_many() {
    let held = |peers: usize| {
        let mut world = world(3 << 20);
        let crowd: Vec<_> = (0..peers).map(|_| deaf(&mut world)).collect();
        for _ in 0..60 {
            crowd.iter().for_each(|(conn, login)| ask(&mut world, *conn, login, 500));
        }
        unread(&mut world) / peers
    };
    let (one, ten) = (held(1), held(10));
    assert!(one > 300_000 && ten < 150_000, "{one} {ten}");
}

#[test]
fn beyond_the_bound_those_who_hold_most_are_closed_and_the_ledger_knows_why() {
    const MOST: usize = 1 << 20;
    let mut world = world(MOST);
    let (small, small_login) = deaf(&mut world);
    ask(&mut world, small, &small_login, 50);
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    for _ in 0..90 {
        let (big, big_login) = deaf(&mut world);
        // Who holds nothing is served, whatever comes of it.
        ask(&mut world, big, &big_login, 1_000);
        assert!(unread(&mut world) <= MOST + SLACK);
    }
    world.pass(std::time::Duration::from_secs(2));
    assert!(world.server.held() <= MOST);
    assert!(world.read_one(conn, &login, "Setpoint").is_ok());
    assert!(world.peers[&small].closed.is_none(), "the big ones give way");
    let closed = closed(&world);
    assert!(!closed.is_empty() && closed.iter().all(|(reason, _)| *reason == Reason::PeerNotReading), "{closed:?}");
    let told = world.records.iter().find(|record| record.outcome == Outcome::Denied(Reason::PeerNotReading)).unwrap();
    assert!(told.detail.contains("the most of") && told.actor.name == "alice", "{told:?}");
}

#[test]
fn messages_that_never_end_count_as_well() {
    const MOST: usize = 2 << 20;
    let mut world = world(MOST);
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    for _ in 0..10 {
        let (hog, hog_login) = world.log_in(BARE, "alice");
        let value = Variant::from(ByteString::from(vec![7_u8; 1_000_000]));
        let request = world.write_request(&hog_login, vec![(id("Note"), value)]);
        let owned = ContextOwned::default();
        let mut body = NodeId::from(request.type_id()).encode_to_vec(&owned.context());
        body.extend(request.encode_to_vec(&owned.context()));
        let now = world.now;
        let peer = world.peers.get_mut(&hog).unwrap();
        let write = &mut |out: &mut Vec<u8>| {
            out.extend_from_slice(&body);
            Ok(())
        };
        peer.channel.send(write, now).unwrap();
        let bytes = std::mem::take(peer.channel.outgoing());
        // All but the end of it.
        for part in bytes[..900_000].chunks(60_000) {
            world.input(Input::Bytes { conn: hog, bytes: part });
        }
        assert!(world.server.held() <= MOST + SLACK, "{}", world.server.held());
        assert!(world.read_one(conn, &login, "Setpoint").is_ok());
    }
    world.pass(std::time::Duration::from_secs(2));
    assert_eq!(world.server.load().0, 3, "two of them fit beside who is served");
    assert!(closed(&world).iter().all(|(reason, _)| *reason == Reason::TooBusy), "{:?}", closed(&world));
}

#[test]
fn who_was_held_back_goes_on_when_others_have_read() {
    let mut world = world(3 << 20);
    let crowd: Vec<_> = (0..20).map(|_| deaf(&mut world)).collect();
    for _ in 0..20 {
        crowd.iter().for_each(|(conn, login)| ask(&mut world, *conn, login, 500));
    }
    let (waits, _) = crowd[0];
    assert!(!world.server.wants_input(waits));
    for (conn, _) in &crowd[1..] {
        world.hear(*conn);
    }
    assert!(world.server.wants_input(waits), "though it has read nothing itself");
    world.hear(waits);
    for (conn, _) in &crowd {
        assert_eq!(world.peers[conn].answers.len(), 20, "nothing is lost");
    }
    assert_eq!(world.server.held(), 0);
}

/// One step of a life.
#[derive(Clone, Debug)]
enum Step {
    Ask(usize, usize),
    Deaf(usize),
    Hear(usize),
    Leave(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let peer = 0..8_usize;
    prop_oneof![
        6 => (peer.clone(), 1..1_000_usize).prop_map(|(peer, values)| Step::Ask(peer, values)),
        2 => peer.clone().prop_map(Step::Deaf),
        2 => peer.clone().prop_map(Step::Hear),
        1 => peer.prop_map(Step::Leave),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_bound_holds_and_every_request_is_answered_or_its_connection_closed(
        steps in proptest::collection::vec(step(), 1..80)
    ) {
        const MOST: usize = 100_000;
        let mut world = world(MOST);
        let crowd: Vec<_> = (0..8).map(|_| world.log_in(BARE, "alice")).collect();
        let mut asked = [0_usize; 8];
        for step in steps {
            match step {
                Step::Ask(peer, values) => {
                    let (conn, login) = &crowd[peer];
                    if world.peers.get(conn).is_some_and(|peer| peer.closed.is_none()) {
                        ask(&mut world, *conn, login, values);
                        asked[peer] += 1;
                    }
                }
                Step::Deaf(peer) => {
                    if let Some(peer) = world.peers.get_mut(&crowd[peer].0) {
                        peer.deaf = true;
                    }
                }
                Step::Hear(peer) => world.hear(crowd[peer].0),
                Step::Leave(peer) => {
                    let conn = crowd[peer].0;
                    world.input(Input::Disconnected { conn });
                    world.peers.remove(&conn);
                }
            }
            // One answer, and for each what is too little to be counted.
            prop_assert!(unread(&mut world) <= MOST + 50_000);
        }
        for (conn, _) in &crowd {
            world.hear(*conn);
        }
        world.pass(std::time::Duration::from_secs(1));
        for ((conn, _), asked) in crowd.iter().zip(asked) {
            if let Some(peer) = world.peers.get(conn).filter(|peer| peer.closed.is_none()) {
                prop_assert_eq!(peer.answers.len(), asked);
            }
        }
        prop_assert_eq!(world.server.held(), 0);
    }
}
