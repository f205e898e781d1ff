//! Sessions that share one upstream: each gets what is its own, and no id of one is worth anything to another.

use std::time::Duration;

use opcua_types::*;

use super::layout::layout;
use super::subscriptions::{publish, set, subscribe, told};
use super::world::*;
use crate::client::{CallId, Response};
use crate::guard::{Input, Sharing, Upstream};
use crate::server::{ConnId, ServerLimits};

const SECOND: Duration = Duration::from_secs(1);

fn sharing(how: Sharing) -> World {
    World::with(|config| config.pool = how)
}

fn values(world: &mut World, client: ConnId, calls: &[CallId]) -> Vec<(u32, String)> {
    calls.iter().filter_map(|call| told(world, client, *call)).flat_map(|(_, values)| values).collect()
}

#[test]
fn sessions_share_one_upstream_and_it_ends_with_the_last() {
    let mut world = sharing(Sharing::Always);
    let clients = [world.client(), world.client(), world.client()];
    assert_eq!((world.plant.load().1, world.guard.upstream_load()), (1, 1));
    for client in clients {
        let response: ReadResponse = world.ask(client, read(&["Setpoint", "Secret"])).unwrap();
        let statuses: Vec<_> = response.results.unwrap().iter().map(DataValue::status).collect();
        assert_eq!(statuses, [StatusCode::Good, StatusCode::BadNodeIdUnknown]);
    }
    subscribe(&mut world, clients[0], &["Setpoint"]);
    world.reached.clear();
    for (left, client) in [(1, clients[0]), (1, clients[1]), (0, clients[2])] {
        let now = world.now;
        world.peers.get_mut(&client).unwrap().session.close(now, &mut token::SystemEntropy::new());
        world.run();
        assert_eq!((world.plant.load().1, world.guard.upstream_load()), (left, left));
        let deleted = world.at_plant(ObjectId::DeleteSubscriptionsRequest_Encoding_DefaultBinary).len();
        assert_eq!(deleted, usize::from(client == clients[0]), "its subscriptions end with it");
    }
}

#[test]
fn each_hears_of_its_own_subscription_whoever_asked_the_server() {
    let mut world = sharing(Sharing::Always);
    let (one, other) = (world.client(), world.client());
    subscribe(&mut world, one, &["Setpoint"]);
    subscribe(&mut world, other, &["Note", "Pressure"]);
    let first = publish(&mut world, one, &[]);
    world.pass(SECOND * 3);
    assert_eq!(values(&mut world, one, &[first]), [(100, "20".to_owned())]);
    // The other's values came to the first one's request, and wait for its own.
    let second = publish(&mut world, other, &[]);
    world.pass(SECOND * 3);
    let expected = [(100, "note".to_owned()), (101, "1.5".to_owned())];
    assert_eq!(values(&mut world, other, &[second]), expected);
    let calls = [one, other].map(|client| publish(&mut world, client, &[]));
    set(&mut world, "Note", "new");
    set(&mut world, "Setpoint", 21.0);
    world.pass(SECOND * 3);
    assert_eq!(values(&mut world, one, &calls[..1]), [(100, "21".to_owned())]);
    assert_eq!(values(&mut world, other, &calls[1..]), [(100, "new".to_owned())]);
}

/// Everything that has an id, taken by a session that it is not of.
#[test]
fn no_id_is_worth_anything_to_another_session() {
    use StatusCode as S;
    let mut world = sharing(Sharing::Always);
    let (one, other) = (world.client(), world.client());
    let (subscription, items) = subscribe(&mut world, one, &["Setpoint"]);
    let (mine, _) = subscribe(&mut world, other, &["Note"]);
    let item = items[0].monitored_item_id;
    let call = publish(&mut world, one, &[]);
    world.pass(SECOND * 2);
    assert!(told(&mut world, one, call).is_some());
    let objects = BrowseDescription { node_id: id("Unit"), result_mask: 63, ..BrowseDescription::default() };
    let browse = BrowseRequest {
        requested_max_references_per_node: 1,
        nodes_to_browse: Some(vec![objects]),
        ..BrowseRequest::default()
    };
    let browsed: BrowseResponse = world.ask(one, browse).unwrap();
    let point = browsed.results.unwrap()[0].continuation_point.clone();
    assert!(!point.is_null_or_empty());
    let ids = Some(vec![subscription]);

    let table: [(&str, Result<Vec<StatusCode>, StatusCode>); 8] = [
        (
            "subscription, deleted",
            world
                .ask(other, DeleteSubscriptionsRequest { subscription_ids: ids.clone(), ..Default::default() })
                .map(|response: DeleteSubscriptionsResponse| response.results.unwrap()),
        ),
        (
            "subscription, silenced",
            world
                .ask(other, SetPublishingModeRequest { subscription_ids: ids, ..Default::default() })
                .map(|response: SetPublishingModeResponse| response.results.unwrap()),
        ),
        (
            "subscription, modified",
            world
                .ask(other, ModifySubscriptionRequest { subscription_id: subscription, ..Default::default() })
                .map(|_: ModifySubscriptionResponse| Vec::new()),
        ),
        (
            "message, had again",
            world
                .ask(
                    other,
                    RepublishRequest {
                        subscription_id: subscription,
                        retransmit_sequence_number: 1,
                        ..Default::default()
                    },
                )
                .map(|_: RepublishResponse| Vec::new()),
        ),
        (
            "item, by its subscription",
            world
                .ask(
                    other,
                    DeleteMonitoredItemsRequest {
                        subscription_id: subscription,
                        monitored_item_ids: Some(vec![item]),
                        ..Default::default()
                    },
                )
                .map(|response: DeleteMonitoredItemsResponse| response.results.unwrap()),
        ),
        (
            "item, by a subscription of one's own",
            world
                .ask(
                    other,
                    SetMonitoringModeRequest {
                        subscription_id: mine,
                        monitored_item_ids: Some(vec![item + 1]),
                        ..Default::default()
                    },
                )
                .map(|response: SetMonitoringModeResponse| response.results.unwrap()),
        ),
        (
            "continuation point",
            world
                .ask(other, BrowseNextRequest { continuation_points: Some(vec![point.clone()]), ..Default::default() })
                .map(|response: BrowseNextResponse| {
                    response.results.unwrap().iter().map(|result| result.status_code).collect()
                }),
        ),
        ("message, acknowledged", {
            let call = publish(&mut world, other, &[(subscription, 1)]);
            world.pass(SECOND * 2);
            world
                .answer(other, call)
                .unwrap()
                .map(|response| PublishResponse::try_from(response).unwrap().results.unwrap())
        }),
    ];
    let statuses = [
        Ok(vec![S::BadSubscriptionIdInvalid]),
        Ok(vec![S::BadSubscriptionIdInvalid]),
        Err(S::BadSubscriptionIdInvalid),
        Err(S::BadSubscriptionIdInvalid),
        Err(S::BadSubscriptionIdInvalid),
        Ok(vec![S::BadMonitoredItemIdInvalid]),
        Ok(vec![S::BadContinuationPointInvalid]),
        Ok(vec![S::BadSubscriptionIdInvalid]),
    ];
    for ((kind, told), expected) in table.into_iter().zip(statuses) {
        assert_eq!(told, expected, "{kind}");
    }
    let next = BrowseNextRequest { continuation_points: Some(vec![point]), ..Default::default() };
    let response: BrowseNextResponse = world.ask(one, next).unwrap();
    assert_eq!(response.results.unwrap()[0].status_code, S::Good, "it is still its owner's");
}

/// What came under a grant that is over stays away, also when it came to another session's request.
#[test]
fn what_came_for_a_grant_that_is_over_does_not_leave_under_the_next() {
    let mut world = sharing(Sharing::Always);
    let all = vec![(access_model::Rights::ALL, 1)];
    let one = world.client_by_token(all.clone(), SECOND * 600);
    let other = world.client();
    subscribe(&mut world, one, &["Setpoint"]);
    subscribe(&mut world, other, &["Note"]);
    let first = publish(&mut world, one, &[]);
    let _others: Vec<CallId> = (0..9).map(|_| publish(&mut world, other, &[])).collect();
    world.pass(SECOND * 3);
    assert_eq!(values(&mut world, one, &[first]), [(100, "20".to_owned())]);
    set(&mut world, "Setpoint", 77.0);
    world.pass(SECOND * 3);
    world.hold = true;
    set(&mut world, "Setpoint", 88.0);
    let token = world.token("bob", all, SECOND * 600);
    world.reactivate(one, token);
    world.release();
    world.pass(SECOND * 3);
    let calls: Vec<CallId> = (0..4).map(|_| publish(&mut world, one, &[])).collect();
    world.pass(SECOND * 5);
    let values = values(&mut world, one, &calls);
    assert!(values.contains(&(100, "88".to_owned())), "{values:?}");
    assert!(!values.contains(&(100, "77".to_owned())), "{values:?}");
}

#[test]
fn registered_nodes_are_nobodys_but_their_own_ids() {
    let mut world = sharing(Sharing::Always);
    let client = world.client();
    let nodes = Some(vec![id("Setpoint"), id("Note")]);
    let request = RegisterNodesRequest { nodes_to_register: nodes.clone(), ..Default::default() };
    world.reached.clear();
    let response: RegisterNodesResponse = world.ask(client, request).unwrap();
    assert_eq!(response.registered_node_ids, nodes);
    let request = UnregisterNodesRequest { nodes_to_unregister: nodes, ..Default::default() };
    let _: UnregisterNodesResponse = world.ask(client, request).unwrap();
    assert!(world.reached.is_empty(), "the server has no alias that another session could use");
    let request = RegisterNodesRequest { nodes_to_register: Some(vec![id("Secret")]), ..Default::default() };
    let refused: Result<RegisterNodesResponse, _> = world.ask(client, request);
    assert_eq!(refused.unwrap_err(), StatusCode::BadNodeIdUnknown);
}

#[test]
fn subscriptions_that_share_are_restored_each_for_itself() {
    let mut world = sharing(Sharing::Always);
    let clients = [world.client(), world.client()];
    let mut calls = Vec::new();
    for (client, node) in clients.into_iter().zip(["Setpoint", "Note"]) {
        subscribe(&mut world, client, &[node]);
        let first = publish(&mut world, client, &[]);
        world.pass(SECOND * 2);
        assert!(told(&mut world, client, first).is_some());
        calls.push((0..4).map(|_| publish(&mut world, client, &[])).collect::<Vec<_>>());
    }
    world.restart_plant(space(false));
    world.pass(SECOND * 6);
    assert_eq!(world.plant.load().1, 1);
    for ((client, calls), value) in clients.into_iter().zip(calls).zip(["20", "note"]) {
        assert_eq!(values(&mut world, client, &calls), [(100, value.to_owned())]);
    }
}

#[test]
fn where_the_server_has_no_room_sessions_share_if_that_is_configured() {
    let mut world = sharing(Sharing::WhenFull);
    let clients: Vec<_> = (0..25).map(|_| world.client()).collect();
    world.pass(SECOND * 5);
    assert_eq!(world.plant.load().1, 20);
    for client in &clients {
        let response: ReadResponse = world.ask(*client, read(&["Setpoint"])).unwrap();
        assert_eq!(response.results.unwrap()[0].status(), StatusCode::Good);
    }
    let codes = world
        .records
        .iter()
        .filter(|record| record.outcome == access_model::Outcome::Failed(StatusCode::BadTooManySessions.bits()));
    assert_eq!(codes.count(), 6, "each that was turned away is in the audit");
}

/// Nobody hears of the room that the server does not have: not even who asks before that is known.
#[test]
fn who_finds_no_room_is_served_from_the_first_request_on() {
    let mut world = sharing(Sharing::WhenFull);
    for number in 0..25 {
        world.hold = true;
        let client = world.client();
        let call = world.send(client, read(&["Setpoint"]));
        world.run();
        world.hold = false;
        world.release();
        world.pass(SECOND);
        match world.answer(client, call) {
            Some(Ok(Response::Read(response))) => {
                assert_eq!(response.results.unwrap()[0].status(), StatusCode::Good, "client {number}");
            }
            other => panic!("client {number}: {other:?}"),
        }
    }
    assert_eq!(world.plant.load().1, 20);
}

/// Sessions that came before the server was looked at, or while it was away, ask for room all at once.
#[test]
fn the_shared_session_has_its_room_before_the_others() {
    let away = |world: &mut World| {
        world.unplugged = true;
        world.cut_upstream();
    };
    let unmapped = |world: &mut World| {
        world.hold = true;
        world.guard.lay_out(layout(&SCOPES, rules()), world.now).unwrap();
        world.run();
    };
    for (name, before) in [("away", &away as &dyn Fn(&mut World)), ("not looked at", &unmapped)] {
        let mut world = sharing(Sharing::WhenFull);
        before(&mut world);
        let clients: Vec<_> = (0..25).map(|_| world.client()).collect();
        world.pass(SECOND);
        world.unplugged = false;
        world.release();
        world.pass(SECOND * 4);
        assert_eq!(world.plant.load().1, 20, "{name}");
        for client in clients {
            let response: ReadResponse = world.ask(client, read(&["Setpoint"])).expect(name);
            assert_eq!(response.results.unwrap()[0].status(), StatusCode::Good, "{name}");
        }
    }
}

/// Where others have taken all the room there is not even a session to share: that is told, and served when there is.
#[test]
fn who_finds_no_session_to_share_is_told_and_served_later() {
    let mut world = sharing(Sharing::WhenFull);
    world.bound_plant(ServerLimits { max_sessions: 0, ..ServerLimits::default() });
    let clients = [world.client(), world.client()];
    for client in clients {
        let call = world.send(client, read(&["Setpoint"]));
        world.pass(SECOND * 2);
        assert_eq!(world.answer(client, call).map(|answer| answer.err()), Some(Some(StatusCode::BadTooManySessions)));
    }
    world.bound_plant(ServerLimits { max_sessions: 1, ..ServerLimits::default() });
    world.pass(SECOND * 40);
    for client in clients {
        let response: ReadResponse = world.ask(client, read(&["Setpoint"])).unwrap();
        assert_eq!(response.results.unwrap()[0].status(), StatusCode::Good);
    }
}

/// A server that turns the shared session away for a reason of its own may take others.
#[test]
fn nobody_waits_for_a_shared_session_that_was_refused() {
    let mut world = sharing(Sharing::WhenFull);
    world.hold = true;
    let client = world.client();
    let call = world.send(client, read(&["Setpoint"]));
    world.run();
    let dialed: Vec<_> = world.wires.values().copied().collect();
    assert_eq!(dialed.len(), 1, "the shared one comes first");
    world.held.clear();
    let mut refusal = b"ERRF".to_vec();
    for word in [16, StatusCode::BadTcpNotEnoughResources.bits(), u32::MAX] {
        refusal.extend_from_slice(&word.to_le_bytes());
    }
    world.guard.handle_input(Input::Up { link: dialed[0], event: Upstream::Bytes(&refusal) }, world.now);
    world.release();
    world.pass(Duration::from_millis(1));
    let answer = world.answer(client, call).expect("an answer").and_then(ReadResponse::try_from).unwrap();
    assert_eq!(answer.results.unwrap()[0].status(), StatusCode::Good);
    assert_eq!(world.plant.load().1, 1, "that of the client");
    world.pass(SECOND);
    assert_eq!(world.plant.load().1, 2, "and the shared one, later");
}

#[test]
fn roles_do_not_share_with_one_another() {
    let mut world = World::with(|config| {
        config.pool = Sharing::Always;
        let mut identity = config.upstream[0].clone();
        identity.role = Some("Operator".to_owned());
        config.upstream.insert(0, identity);
    });
    world.client();
    world.client_by_roles(&["Operator"]);
    world.client_by_roles(&["Operator"]);
    assert_eq!(world.plant.load().1, 2);
}
