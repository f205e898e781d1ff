//! What is made at the server for clients that have given up or gone: nothing of it stays there.

use opcua_types::*;

use super::services::browse;
use super::subscriptions::{SECOND, subscribe};
use super::world::*;
use crate::guard::links::Owner;
use crate::guard::{Input, Sharing, Upstream};

const DELETE: ObjectId = ObjectId::DeleteSubscriptionsRequest_Encoding_DefaultBinary;

fn create() -> CreateSubscriptionRequest {
    CreateSubscriptionRequest {
        requested_publishing_interval: 1_000.0,
        requested_lifetime_count: 60,
        requested_max_keep_alive_count: 10,
        publishing_enabled: true,
        ..CreateSubscriptionRequest::default()
    }
}

fn items(subscription: u32) -> CreateMonitoredItemsRequest {
    let item = |name: &str| MonitoredItemCreateRequest {
        item_to_monitor: value_of(id(name)),
        monitoring_mode: MonitoringMode::Reporting,
        ..MonitoredItemCreateRequest::default()
    };
    CreateMonitoredItemsRequest {
        subscription_id: subscription,
        timestamps_to_return: TimestampsToReturn::Neither,
        items_to_create: Some(vec![item("Setpoint"), item("Secret"), item("Note")]),
        ..CreateMonitoredItemsRequest::default()
    }
}

#[test]
fn what_a_server_makes_after_the_client_gave_up_is_deleted() {
    let mut world = World::new();
    let client = world.client();
    let (subscription, _) = subscribe(&mut world, client, &["Pressure"]);
    world.hold = true;
    let calls = [world.send_for(client, create(), SECOND * 2), world.send_for(client, items(subscription), SECOND * 2)];
    world.pass(SECOND * 3);
    for call in calls {
        assert_eq!(world.answer(client, call).unwrap().unwrap_err(), StatusCode::BadTimeout);
    }
    world.reached.clear();
    world.release();
    let reached = std::mem::take(&mut world.reached);
    world.reached.clone_from(&reached);
    let deleted = world.at_plant(DELETE);
    assert_eq!(deleted.iter().map(|body| field::<u32>(body).len()).collect::<Vec<_>>(), [1], "the subscription");
    world.reached = reached;
    let deleted = world.at_plant(ObjectId::DeleteMonitoredItemsRequest_Encoding_DefaultBinary);
    let counts: Vec<usize> = deleted.iter().map(|body| field::<u32>(&body[4..]).len()).collect();
    assert_eq!(counts, [2], "the two items that were made");
    let response: CreateMonitoredItemsResponse = world.ask(client, items(subscription)).unwrap();
    assert_eq!(response.results.unwrap()[0].status_code, StatusCode::Good);
}

#[test]
fn what_a_server_makes_for_a_session_that_is_over_is_deleted_from_the_one_that_others_share() {
    let mut world = World::with(|config| config.pool = Sharing::Always);
    let (one, _other) = (world.client(), world.client());
    world.hold = true;
    world.send(one, create());
    world.close(one);
    world.reached.clear();
    world.release();
    let deleted = world.at_plant(DELETE);
    assert_eq!(deleted.iter().map(|body| field::<u32>(body).len()).collect::<Vec<_>>(), [1]);
}

#[test]
fn a_session_that_is_being_made_when_its_client_goes_does_not_stay() {
    let mut world = World::new();
    world.hold = true;
    world.reached.clear();
    let client = world.client();
    let creating =
        |world: &mut World| !world.at_plant(ObjectId::CreateSessionRequest_Encoding_DefaultBinary).is_empty();
    while !creating(&mut world) {
        let (link, bytes) = world.held.pop_front().expect("the channel is opened");
        world.guard.handle_input(Input::Up { link, event: Upstream::Bytes(&bytes) }, world.now);
        world.run();
    }
    assert_eq!(world.plant.load().1, 1);
    world.close(client);
    world.release();
    world.pass(SECOND);
    let closed = world.at_plant(ObjectId::CloseSessionRequest_Encoding_DefaultBinary);
    assert_eq!((closed.len(), world.guard.upstream_load()), (1, 0));
}

/// Requests that go out and are never answered are no sign of life.
#[test]
fn a_server_that_hangs_is_noticed_although_the_client_goes_on_asking() {
    let mut world = World::new();
    let client = world.client();
    world.hold = true;
    let dials = world.dials;
    let mut asked = Vec::new();
    for _ in 0..20 {
        asked.push(world.send(client, read(&["Setpoint"])));
        world.pass(SECOND);
    }
    // A keep-alive after 5 s, 10 s for its answer.
    assert!(world.dials > dials, "the connection is made anew");
    assert!(world.answer(client, asked[0]).is_some_and(|answer| answer.is_err()));
}

/// The points that were given back to the server.
fn released(world: &mut World) -> Vec<usize> {
    let next = world.at_plant(ObjectId::BrowseNextRequest_Encoding_DefaultBinary);
    let released = next.into_iter().filter(|body| body[0] == 1);
    released.map(|body| field::<ByteString>(&body[1..]).len()).collect()
}

#[test]
fn places_to_go_on_browsing_from_that_come_late_are_given_back() {
    for (rule, sharing) in [("waits no longer", Sharing::Never), ("is gone from a shared session", Sharing::Always)] {
        let mut world = World::with(|config| config.pool = sharing);
        let (client, other) = (world.client(), world.client());
        world.hold = true;
        let call = world.send_for(client, browse(&["Unit", "Missing", "Unit"], 1), SECOND * 2);
        if sharing == Sharing::Never {
            world.pass(SECOND * 3);
            assert_eq!(world.answer(client, call).unwrap().unwrap_err(), StatusCode::BadTimeout, "{rule}");
        } else {
            world.close(client);
        }
        world.reached.clear();
        world.release();
        assert_eq!(released(&mut world), [2], "{rule}");
        assert!(world.ask::<ReadResponse>(other, read(&["Setpoint"])).is_ok(), "{rule}");
    }
}

/// What the session has of the server goes with its user.
#[test]
fn places_to_go_on_browsing_from_are_given_back_when_the_session_is_somebody_elses() {
    let mut world = World::new();
    let token = |world: &World, who: &str| world.token(who, vec![(access_model::Rights::ALL, 1)], SECOND * 1_000);
    let ada = token(&world, "ada");
    let client = world.client_with(session_config(ENCRYPT, "jwt_None"), ada);
    let page: BrowseResponse = world.ask(client, browse(&["Unit"], 1)).unwrap();
    assert!(!page.results.unwrap()[0].continuation_point.is_null_or_empty());
    world.reached.clear();
    let bert = token(&world, "bert");
    world.reactivate(client, bert);
    assert_eq!(released(&mut world), [1]);
}

/// The server gives an alias for which its client did not wait.
#[test]
fn an_alias_that_comes_late_is_given_back() {
    let mut world = World::new();
    let client = world.client();
    let register = || RegisterNodesRequest {
        nodes_to_register: Some(vec![id("Setpoint"), id("Pressure")]),
        ..RegisterNodesRequest::default()
    };
    let renamed = |world: &mut World| {
        for (_, bytes) in &mut world.held {
            if let Some(at) = bytes.windows(8).position(|part| part == b"Setpoint") {
                bytes[at..at + 8].copy_from_slice(b"S3tp0int");
            }
        }
    };
    for (rule, kept) in [("nobody has it", false), ("the session has it by another request", true)] {
        world.hold = true;
        let late = world.send_for(client, register(), SECOND * 2);
        world.pass(SECOND * 3);
        assert!(world.answer(client, late).unwrap().is_err(), "{rule}");
        if kept {
            world.send(client, register());
        }
        renamed(&mut world);
        if kept {
            world.held.make_contiguous().reverse();
        }
        world.reached.clear();
        for (link, bytes) in std::mem::take(&mut world.held) {
            world.guard.handle_input(Input::Up { link, event: Upstream::Bytes(&bytes) }, world.now);
        }
        world.release();
        let given_back = world.at_plant(ObjectId::UnregisterNodesRequest_Encoding_DefaultBinary);
        let given_back: Vec<NodeId> = given_back.iter().flat_map(|body| field::<NodeId>(body)).collect();
        assert_eq!(given_back, if kept { Vec::new() } else { vec![id("S3tp0int")] }, "{rule}");
    }
}

#[test]
fn the_alarm_of_a_request_that_was_answered_rings_and_is_set_for_the_next() {
    let mut world = World::new();
    let client = world.client();
    let alarm = |world: &World| {
        let session = world.guard.armed.iter().find(|(owner, _)| matches!(owner, Owner::Session(_)));
        session.map(|(owner, at)| (*owner, *at)).unwrap()
    };
    let start = world.now.mono;
    let call = world.send_for(client, read(&["Pressure"]), SECOND * 2);
    assert!(world.answer(client, call).unwrap().is_ok());
    let (owner, first) = alarm(&world);
    assert_eq!(first, start + SECOND * 2);
    world.pass(SECOND);
    world.hold = true;
    let call = world.send_for(client, read(&["Pressure"]), SECOND * 2);
    assert_eq!(alarm(&world), (owner, first), "an alarm that comes before is left as it is");
    world.pass(SECOND + SECOND / 2);
    assert_eq!(alarm(&world), (owner, start + SECOND * 3));
    world.pass(SECOND);
    assert_eq!(world.answer(client, call).unwrap().unwrap_err(), StatusCode::BadTimeout);
    assert!(world.guard.links[&owner].jobs.is_empty(), "the guard gave it up");
}
