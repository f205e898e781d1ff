//! Clients that the server connects to.

use std::time::Duration;

use opcua_types::StatusCode;

use super::ask::anonymous;
use super::keys::{CLIENT, SERVER_URI};
use super::world::*;
use crate::server::*;
use crate::wire::{MESSAGE_HEADER, ReverseHello};

const FIRST: &str = "opc.tcp://client:4841";
const SECOND: &str = "opc.tcp://other:4841";

fn second(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn calling(urls: &[&str]) -> World {
    let mut world = World::new();
    world.input(Input::CallClients(urls.iter().map(|url| (*url).to_owned()).collect()));
    world
}

fn calls(world: &mut World) -> Vec<usize> {
    std::mem::take(&mut world.calls).into_iter().map(|(client, _)| client).collect()
}

/// The connection is made; what the server says on it.
fn made(world: &mut World, client: usize, conn: u64) -> Vec<u8> {
    let conn = ConnId(conn);
    world.server.handle_input(Input::Called { client, conn, peer: "10.0.9.9:4841".into() }, world.now);
    let said = world.server.outgoing(conn).map(std::mem::take).unwrap_or_default();
    world.run();
    said
}

#[test]
fn a_client_is_told_who_calls_and_logs_in_there() {
    let mut world = calling(&[FIRST, SECOND]);
    assert_eq!(world.calls, [(0, FIRST.to_owned()), (1, SECOND.to_owned())]);
    calls(&mut world);
    let said = made(&mut world, 0, 1_000);
    let hello = ReverseHello::parse(&said[MESSAGE_HEADER..]).unwrap();
    assert_eq!(hello, ReverseHello { server_uri: SERVER_URI.into(), endpoint_url: URL.into() });
    assert!(calls(&mut world).is_empty(), "one that stands is enough");

    world.speak(ConnId(1_000), ENCRYPT, &CLIENT, true);
    world.run();
    let mut login = world.create(ConnId(1_000));
    world.activate(ConnId(1_000), &mut login, anonymous()).unwrap();
    world.pass(second(100));
    assert_eq!(calls(&mut world), [0], "the next is made as soon as one is used");
    made(&mut world, 0, 1_001);
    assert_eq!(world.server.load(), (2, 1));
}

#[test]
fn an_idle_connection_outlives_the_time_for_hello_but_not_for_ever() {
    let mut world = calling(&[FIRST]);
    calls(&mut world);
    made(&mut world, 0, 1_000);
    world.pass(second(500_000));
    assert_eq!((world.server.load(), calls(&mut world).len()), ((1, 0), 0));
    world.pass(second(101_000));
    assert_eq!((world.server.load(), calls(&mut world).len()), ((0, 0), 1), "a client that is gone is noticed");
}

#[test]
fn what_a_client_takes_without_opening_a_channel_is_bounded_like_a_strangers() {
    let mut world = calling(&[FIRST]);
    made(&mut world, 0, 1_000);
    world.speak(ConnId(1_000), BARE, &CLIENT, true);
    let hello = std::mem::take(world.peers.get_mut(&ConnId(1_000)).unwrap().channel.outgoing());
    world.peers.clear();
    world.input(Input::Bytes { conn: ConnId(1_000), bytes: &hello });
    calls(&mut world);
    world.pass(second(11_000));
    assert_eq!(world.server.load(), (0, 0), "it said Hello and no more");
}

/// Lets time pass until the client is called, or `most` is over; how long that took, up to a hundredth of `least` more.
fn called_after(world: &mut World, least: Duration, most: Duration) -> Option<Duration> {
    let (start, step) = (world.now.mono, least / 100);
    while world.now.mono.since(start) <= most {
        world.pass(step);
        if !calls(world).is_empty() {
            return Some(world.now.mono.since(start));
        }
    }
    None
}

#[test]
fn who_does_not_want_to_be_called_is_called_less_and_less() {
    let mut world = calling(&[FIRST]);
    assert_eq!(calls(&mut world), [0]);
    for round in 0..60 {
        match round % 3 {
            0 => world.input(Input::NotCalled { client: 0 }),
            1 => {
                made(&mut world, 0, 2_000 + round);
                world.input(Input::Disconnected { conn: ConnId(2_000 + round) });
            }
            _ => {
                made(&mut world, 0, 2_000 + round);
                let mut refused = Vec::new();
                crate::wire::ErrorMessage::put(StatusCode::BadTcpEndpointUrlInvalid, "", &mut refused);
                world.input(Input::Bytes { conn: ConnId(2_000 + round), bytes: &refused });
            }
        }
        assert_eq!(world.server.load(), (0, 0), "round {round}");
        // Half a second, doubled up to a minute, less a quarter at most so that not all call as one.
        let pause = second((500 << round.min(7)).min(60_000));
        let took = called_after(&mut world, pause * 3 / 4, pause);
        assert!(took.is_some_and(|took| took >= pause * 3 / 4), "round {round}: {took:?} of {pause:?}");
    }
}

#[test]
fn a_connection_that_is_not_made_in_time_is_tried_again_and_closed_when_it_comes_after_all() {
    let mut world = calling(&[FIRST]);
    calls(&mut world);
    world.pass(second(15_000));
    made(&mut world, 0, 1_000);
    assert_eq!(world.server.load(), (0, 0), "too late");
    world.pass(second(1_000));
    assert_eq!(calls(&mut world), [0]);
    made(&mut world, 0, 1_001);
    made(&mut world, 0, 1_002);
    assert_eq!(world.server.load(), (1, 0), "nobody asked for a second");
    made(&mut world, 7, 1_003);
    assert_eq!(world.server.load(), (1, 0), "nobody knows that client");
}

#[test]
fn other_clients_are_called_instead() {
    let mut world = calling(&[FIRST]);
    made(&mut world, 0, 1_000);
    calls(&mut world);
    world.input(Input::CallClients(vec![SECOND.to_owned(); MAX_CALLED + 4]));
    assert_eq!(calls(&mut world).len(), MAX_CALLED, "only so many");
    assert_eq!(world.server.load(), (0, 0), "the first hears of no more");
    world.input(Input::Shutdown);
    world.pass(second(120_000));
    assert!(calls(&mut world).is_empty());
}

#[test]
fn a_server_about_to_end_calls_nobody() {
    let mut world = calling(&[FIRST, SECOND]);
    calls(&mut world);
    made(&mut world, 0, 1_000);
    world.input(Input::Drain { seconds: 600 });
    assert_eq!(world.server.load(), (0, 0), "the first finds the server that comes next");
    made(&mut world, 1, 1_001);
    assert_eq!(world.server.load(), (0, 0), "so does who was being called");
    world.input(Input::Drain { seconds: 599 });
    world.pass(second(120_000));
    assert!(calls(&mut world).is_empty());
}

#[test]
fn calls_make_nobody_give_way() {
    let limits = ServerLimits { max_connections: 1, ..ServerLimits::default() };
    let mut world = Setup { limits, ..Setup::default() }.start();
    let stranger = world.connect(BARE);
    world.input(Input::CallClients(vec![FIRST.to_owned()]));
    made(&mut world, 0, 1_000);
    assert_eq!((world.server.load(), world.peers[&stranger].closed), ((1, 0), None));
}
