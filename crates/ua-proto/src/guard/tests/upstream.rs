//! The server behind the guard: restarted, out of reach, full, or hostile.

use std::time::Duration;

use opcua_types::*;

use super::world::*;
use crate::guard::{Input, Upstream};
use crate::space::NewVariable;
use crate::space::ns0;
use access_model::ScopeIndex;

#[test]
fn each_session_has_a_session_of_its_own_that_ends_with_it() {
    let mut world = World::new();
    let clients = [world.client(), world.client(), world.client()];
    assert_eq!((world.plant.load().1, world.guard.upstream_load()), (3, 3), "and none to look around any more");
    for (left, client) in [(2, clients[0]), (1, clients[1]), (0, clients[2])] {
        let now = world.now;
        world.peers.get_mut(&client).unwrap().session.close(now, &mut token::SystemEntropy::new());
        world.run();
        assert_eq!((world.plant.load().1, world.guard.upstream_load()), (left, left));
    }
}

/// The one that looked around, and that of each client; a server that stands still while one is opened shows.
#[test]
fn how_long_each_took_to_open_is_counted() {
    let mut world = World::new();
    let opened = |world: &World| {
        let opened = &world.guard.front.meters().upstream_open;
        (opened.count(), opened.sum())
    };
    let (before, _) = opened(&world);
    assert_eq!(before, 1, "to look around");
    world.client();
    let (one, sum) = opened(&world);
    assert_eq!(one, 2);
    world.hold = true;
    world.client();
    world.pass(Duration::from_secs(3));
    assert_eq!(opened(&world).0, one, "nothing is told of one that is not open yet");
    world.release();
    let (two, longer) = opened(&world);
    assert_eq!(two, 3);
    let took = longer.saturating_sub(sum);
    assert!((Duration::from_secs(3)..Duration::from_secs(4)).contains(&took), "{took:?}");
}

#[test]
fn while_the_server_is_away_requests_fail_and_the_session_stays() {
    let mut world = World::new();
    let client = world.client();
    world.unplugged = true;
    let broken = world.plant.load();
    assert_eq!(broken.1, 1);
    world.restart_plant(space(false));
    let refused: Result<ReadResponse, _> = world.ask(client, read(&["Setpoint"]));
    assert_eq!(refused.unwrap_err(), StatusCode::BadServerNotConnected);
    world.unplugged = false;
    world.pass(Duration::from_secs(5));
    let response: ReadResponse = world.ask(client, read(&["Setpoint"])).unwrap();
    assert_eq!(response.results.unwrap()[0].status(), StatusCode::Good);
}

#[test]
fn a_request_that_was_out_when_the_connection_broke_is_not_answered_well() {
    let mut world = World::new();
    let client = world.client();
    world.hold = true;
    let (reading, writing) =
        (world.send(client, read(&["Setpoint"])), world.send(client, write(vec![("Setpoint", 1.0.into())])));
    world.held.clear();
    world.hold = false;
    world.restart_plant(space(false));
    assert_eq!(world.answer(client, reading).unwrap().unwrap_err(), StatusCode::BadCommunicationError);
    let written = WriteResponse::try_from(world.answer(client, writing).unwrap().unwrap()).unwrap();
    assert_eq!(written.results, Some(vec![StatusCode::BadCommunicationError]));
}

#[test]
fn a_session_without_a_server_ends_after_the_grace() {
    let mut world = World::new();
    let client = world.client();
    world.unplugged = true;
    world.restart_plant(space(false));
    world.pass(Duration::from_secs(180));
    assert_eq!(world.guard.front().load().1, 0);
    let events = &world.peers[&client].events;
    assert!(!events.is_empty(), "{events:?}");
}

#[test]
fn after_a_restart_with_other_namespaces_nothing_is_forwarded_under_the_old_ones() {
    let mut world = World::new();
    let client = world.client();
    // Index 1 is another namespace now, with nodes of the same names; the plant's own went to index 2.
    let config = crate::space::SpaceConfig { application_uri: "urn:test:other".into(), namespaces: vec![PLANT.into()] };
    let mut other = crate::space::Space::new(config).unwrap();
    let objects = ns0::find_numeric(85).unwrap();
    for namespace in [1_u16, 2] {
        let unit = NodeId::new(namespace, "Unit");
        let unit = other.add_folder(objects, Some(unit), "Unit", ScopeIndex(1)).unwrap();
        let value = Variant::from(i32::from(namespace));
        let node = NodeId::new(namespace, "Setpoint");
        other.add_variable(NewVariable::new(unit, Some(node), "Setpoint", value, ScopeIndex(1))).unwrap();
    }
    other.set_server_facts(crate::space::ServerFacts::default());
    world.restart_plant(other);
    world.pass(Duration::from_secs(5));
    let nodes = [1_u16, 2].map(|namespace| value_of(NodeId::new(namespace, "Setpoint")));
    let request = ReadRequest { nodes_to_read: Some(nodes.to_vec()), ..ReadRequest::default() };
    let response: ReadResponse = world.ask(client, request).unwrap();
    let values = response.results.unwrap();
    assert_eq!(values[0].status(), StatusCode::BadNodeIdUnknown, "it is in no scope any more");
    assert_eq!(values[1].value, Some(Variant::from(2)));
}

#[test]
fn a_server_without_room_for_sessions_is_told_of() {
    let mut world = World::new();
    let clients: Vec<_> = (0..21).map(|_| world.client()).collect();
    let refused: Result<ReadResponse, _> = world.ask(clients[20], read(&["Setpoint"]));
    assert_eq!(refused.unwrap_err(), StatusCode::BadTooManySessions);
    let response: ReadResponse = world.ask(clients[19], read(&["Setpoint"])).unwrap();
    assert_eq!(response.results.unwrap()[0].status(), StatusCode::Good);
}

/// Answers of the plant with one byte changed, cut, or grown, anywhere: an answer or a fault comes, never a panic.
#[test]
fn no_bytes_of_the_server_do_harm() {
    for at in 0..400 {
        let mut world = World::new();
        let client = world.client();
        world.hold = true;
        let calls = [
            world.send(client, read(&["Setpoint", "Note", "Secret"])),
            world.send(client, write(vec![("Setpoint", 1.0.into())])),
        ];
        for (nth, (link, mut bytes)) in std::mem::take(&mut world.held).into_iter().enumerate() {
            // Behind the chunk's headers, so that the message itself arrives.
            let place = 24 + at / 4;
            if let Some(byte) = bytes.get_mut(place) {
                *byte = match (at + nth) % 4 {
                    0 => byte.wrapping_add(1),
                    1 => 0xff,
                    2 => 0x80,
                    _ => 0,
                };
            }
            world.guard.handle_input(Input::Up { link, event: Upstream::Bytes(&bytes) }, world.now);
        }
        world.hold = false;
        world.run();
        world.pass(Duration::from_secs(60));
        for call in calls {
            assert!(world.answer(client, call).is_some(), "byte {at}");
        }
    }
}
