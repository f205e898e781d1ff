//! What is made at the server for clients that have given up or gone: nothing of it stays there.

use opcua_types::*;

use super::subscriptions::{SECOND, subscribe};
use super::world::*;
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
