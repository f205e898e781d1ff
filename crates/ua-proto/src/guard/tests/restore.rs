//! Subscriptions over the loss of the connection, the session and the server upstream: the client notices by its values
//! alone, and gets none that it may not have.

use std::sync::Arc;
use std::time::Duration;

use access_model::{Rights, ScopeIndex, UnixTime};
use opcua_types::*;

use super::monitoring::transfer;
use super::subscriptions::{publish, set, subscribe};
use super::world::*;
use crate::client::CallId;
use crate::server::ConnId;
use crate::space::{NewVariable, ServerFacts, ns0};

const SECOND: Duration = Duration::from_secs(1);

/// Upstream sessions that survive their connection: a channel without a certificate cannot show that it is the same client.
fn moving() -> World {
    World::with(|config| {
        let mut session = session_config(ENCRYPT, "anonymous");
        session.keep_alive = SECOND * 5;
        session.session_timeout = SECOND * 20;
        config.upstream[0].session = Arc::new(session);
    })
}

/// Number of the message; handle, value and raw status of each of its notifications.
type Told = (u32, Vec<(u32, String, u32)>);

fn told(world: &mut World, client: ConnId, call: CallId) -> Option<Told> {
    let response = PublishResponse::try_from(world.answer(client, call)?.expect("no fault")).unwrap();
    let message = response.notification_message;
    let changes =
        message.notification_data.iter().flatten().filter_map(|part| part.inner_as::<DataChangeNotification>());
    let items = changes.flat_map(|change| change.monitored_items.iter().flatten());
    let values = items.map(|item| {
        let value = item.value.value.as_ref().map_or_else(String::new, ToString::to_string);
        (item.client_handle, value, item.value.status().bits())
    });
    Some((message.sequence_number, values.collect()))
}

/// A client with one subscription whose first values it has, and some Publish requests that wait.
fn watching(world: &mut World, client: ConnId, nodes: &[&str]) -> (u32, Vec<CallId>) {
    let (subscription, _) = subscribe(world, client, nodes);
    let first = publish(world, client, &[]);
    world.pass(SECOND * 2);
    assert_eq!(told(world, client, first).unwrap().1.len(), nodes.len());
    (subscription, (0..6).map(|_| publish(world, client, &[])).collect())
}

/// What the requests were told, keep-alives left out.
fn all(world: &mut World, client: ConnId, calls: &[CallId]) -> Vec<Told> {
    let told = calls.iter().filter_map(|call| told(world, client, *call));
    told.filter(|(_, values)| !values.is_empty()).collect()
}

const OVERFLOW: u32 = 0x0480;

#[test]
fn after_a_cut_the_session_goes_on_and_what_was_under_way_is_had_again() {
    let mut world = moving();
    let client = world.client();
    let (_, calls) = watching(&mut world, client, &["Setpoint"]);
    world.hold = true;
    set(&mut world, "Setpoint", 21.0);
    world.pass(SECOND * 2);
    assert!(!world.held.is_empty(), "the value is on the way");
    world.cut_upstream();
    world.hold = false;
    world.pass(SECOND * 2);
    assert_eq!(world.plant.load().1, 1, "the session of before");
    assert_eq!(all(&mut world, client, &calls), [(2, vec![(100, "21".into(), 0)])]);
    set(&mut world, "Setpoint", 22.0);
    world.pass(SECOND * 2);
    assert_eq!(all(&mut world, client, &calls), [(3, vec![(100, "22".into(), 0)])], "nothing is told twice");
}

#[test]
fn at_a_server_that_starts_anew_subscriptions_are_made_again_with_ids_and_numbers_kept() {
    let mut world = World::new();
    let client = world.client();
    let (subscription, calls) = watching(&mut world, client, &["Setpoint", "Note"]);
    world.restart_plant(space(false));
    set(&mut world, "Setpoint", 5.0);
    world.pass(SECOND * 5);
    let values = [(100, "5".to_owned(), OVERFLOW), (101, "note".to_owned(), OVERFLOW)];
    assert_eq!(all(&mut world, client, &calls), [(2, values.to_vec())], "what was missed is told by the Overflow bit");
    set(&mut world, "Setpoint", 6.0);
    world.pass(SECOND * 2);
    assert_eq!(all(&mut world, client, &calls), [(3, vec![(100, "6".into(), 0)])]);
    let request = SetMonitoringModeRequest {
        subscription_id: subscription,
        monitoring_mode: MonitoringMode::Disabled,
        monitored_item_ids: Some(vec![1, 2]),
        ..SetMonitoringModeRequest::default()
    };
    let response: SetMonitoringModeResponse = world.ask(client, request).unwrap();
    assert_eq!(response.results, Some(vec![StatusCode::Good; 2]), "the client's ids mean the same items");
}

#[test]
fn changes_of_subscriptions_and_items_are_made_again_as_they_were_last() {
    let mut world = World::new();
    let client = world.client();
    let (subscription, items) = subscribe(&mut world, client, &["Setpoint", "Note"]);
    let request = ModifySubscriptionRequest {
        subscription_id: subscription,
        requested_publishing_interval: 3_000.0,
        requested_lifetime_count: 900,
        requested_max_keep_alive_count: 20,
        priority: 7,
        ..ModifySubscriptionRequest::default()
    };
    let _: ModifySubscriptionResponse = world.ask(client, request).unwrap();
    let request = SetPublishingModeRequest {
        publishing_enabled: false,
        subscription_ids: Some(vec![subscription]),
        ..SetPublishingModeRequest::default()
    };
    let _: SetPublishingModeResponse = world.ask(client, request).unwrap();
    let change = MonitoredItemModifyRequest {
        monitored_item_id: items[0].monitored_item_id,
        requested_parameters: MonitoringParameters {
            client_handle: 900,
            sampling_interval: 500.0,
            queue_size: 3,
            ..MonitoringParameters::default()
        },
    };
    let request = ModifyMonitoredItemsRequest {
        subscription_id: subscription,
        timestamps_to_return: TimestampsToReturn::Server,
        items_to_modify: Some(vec![change]),
        ..ModifyMonitoredItemsRequest::default()
    };
    let _: ModifyMonitoredItemsResponse = world.ask(client, request).unwrap();
    let request = DeleteMonitoredItemsRequest {
        subscription_id: subscription,
        monitored_item_ids: Some(vec![items[1].monitored_item_id]),
        ..DeleteMonitoredItemsRequest::default()
    };
    let _: DeleteMonitoredItemsResponse = world.ask(client, request).unwrap();
    world.reached.clear();
    world.restart_plant(space(false));
    world.pass(SECOND * 5);
    let ctx = ContextOwned::default();
    let reached = world.reached.clone();
    let created = world.at_plant(ObjectId::CreateSubscriptionRequest_Encoding_DefaultBinary);
    let expected = CreateSubscriptionRequest {
        requested_publishing_interval: 3_000.0,
        requested_lifetime_count: 900,
        requested_max_keep_alive_count: 20,
        publishing_enabled: false,
        priority: 7,
        ..CreateSubscriptionRequest::default()
    };
    assert_eq!(created, [body_of(&expected)]);
    world.reached = reached;
    let items = world.at_plant(ObjectId::CreateMonitoredItemsRequest_Encoding_DefaultBinary);
    let header = crate::guard::desk::encoded(&RequestHeader::default());
    let whole = [header, items[0].clone()].concat();
    let items = CreateMonitoredItemsRequest::decode(&mut whole.as_slice(), &ctx.context()).unwrap();
    assert_eq!(items.timestamps_to_return, TimestampsToReturn::Server);
    let items = items.items_to_create.unwrap();
    assert_eq!(items.len(), 1, "not the one that was deleted");
    assert_eq!(items[0].item_to_monitor, value_of(id("Setpoint")));
    assert_eq!((items[0].requested_parameters.sampling_interval, items[0].requested_parameters.queue_size), (500.0, 3));
}

#[test]
fn while_the_server_is_away_the_subscription_says_that_it_is_there() {
    let mut world = World::new();
    let client = world.client();
    let (_, calls) = watching(&mut world, client, &["Setpoint"]);
    world.unplugged = true;
    world.restart_plant(space(false));
    world.pass(SECOND * 40);
    let keep_alives = calls.iter().filter_map(|call| told(&mut world, client, *call)).collect::<Vec<_>>();
    assert!(keep_alives.len() >= 2, "{keep_alives:?}");
    assert!(keep_alives.iter().all(|(sequence, values)| *sequence == 2 && values.is_empty()), "{keep_alives:?}");
    world.unplugged = false;
    world.pass(SECOND * 45);
    assert_eq!(all(&mut world, client, &calls), [(2, vec![(100, "20".into(), OVERFLOW)])]);
}

/// A client that hears of the server's absence may connect anew, and gives up a subscription that it cannot have back.
#[test]
fn while_the_server_is_away_a_session_can_have_its_own_subscriptions_back_and_no_others() {
    let mut world = World::new();
    let (client, other) = (world.client(), world.client());
    let (subscription, calls) = watching(&mut world, client, &["Setpoint"]);
    world.unplugged = true;
    world.restart_plant(space(false));
    world.pass(SECOND);
    for (rule, who, ids, expected) in [
        ("its own", client, vec![subscription], Ok(vec![(StatusCode::Good, vec![1])])),
        ("another's", other, vec![subscription], Err(StatusCode::BadServerNotConnected)),
        ("another one beside", client, vec![subscription, 99], Err(StatusCode::BadServerNotConnected)),
        ("none", client, vec![], Err(StatusCode::BadServerNotConnected)),
    ] {
        assert_eq!(transfer(&mut world, who, &ids), expected, "{rule}");
    }
    world.unplugged = false;
    world.pass(SECOND * 45);
    assert_eq!(all(&mut world, client, &calls), [(2, vec![(100, "20".into(), OVERFLOW)])], "its changes go on");
    assert_eq!(transfer(&mut world, client, &[]), Err(StatusCode::BadNothingToDo));
}

#[test]
fn a_session_that_the_server_has_dropped_meanwhile_is_replaced() {
    let mut world = moving();
    let client = world.client();
    let (_, calls) = watching(&mut world, client, &["Setpoint"]);
    world.unplugged = true;
    world.cut_upstream();
    world.pass(SECOND * 30);
    assert_eq!(world.plant.load().1, 0);
    world.unplugged = false;
    world.pass(SECOND * 45);
    assert_eq!(all(&mut world, client, &calls), [(2, vec![(100, "20".into(), OVERFLOW)])]);
}

#[test]
fn what_may_not_be_read_any_more_is_not_restored_before_the_right_is_back() {
    let mut world = World::new();
    let client = world.client_by_token(vec![(Rights::ALL, 1)], SECOND * 10);
    let (_, mut calls) = watching(&mut world, client, &["Setpoint"]);
    world.unplugged = true;
    world.restart_plant(space(false));
    world.pass(SECOND * 12);
    world.unplugged = false;
    world.reached.clear();
    world.pass(SECOND * 15);
    let reached = world.reached.clone();
    assert_eq!(world.at_plant(ObjectId::CreateSubscriptionRequest_Encoding_DefaultBinary).len(), 1, "it is restored");
    world.reached = reached;
    assert!(world.at_plant(ObjectId::CreateMonitoredItemsRequest_Encoding_DefaultBinary).is_empty());
    let denied = StatusCode::BadUserAccessDenied.bits();
    assert_eq!(all(&mut world, client, &calls), [(2, vec![(100, String::new(), denied)])]);
    let token = world.token("alice", vec![(Rights::ALL, 1)], SECOND * 600);
    world.peers.get_mut(&client).unwrap().session.reactivate(token, world.now);
    world.run();
    calls.extend((0..2).map(|_| publish(&mut world, client, &[])));
    world.pass(SECOND * 3);
    assert_eq!(all(&mut world, client, &calls), [(3, vec![(100, "20".into(), OVERFLOW)])]);
}

#[test]
fn a_value_from_before_a_right_ended_is_not_had_again_when_it_is_back() {
    let mut world = moving();
    let client = world.client_by_token(vec![(Rights::ALL, 1)], SECOND * 10);
    let (_, mut calls) = watching(&mut world, client, &["Setpoint"]);
    world.hold = true;
    set(&mut world, "Setpoint", 99.0);
    world.pass(SECOND * 2);
    world.unplugged = true;
    world.cut_upstream();
    world.hold = false;
    world.pass(SECOND * 8);
    let token = world.token("alice", vec![(Rights::ALL, 1)], SECOND * 600);
    world.peers.get_mut(&client).unwrap().session.reactivate(token, world.now);
    world.run();
    calls.extend((0..2).map(|_| publish(&mut world, client, &[])));
    set(&mut world, "Setpoint", 100.0);
    world.unplugged = false;
    world.pass(SECOND * 15);
    assert_eq!(world.plant.load().1, 1, "the session of before, which still has the message with 99");
    let seen = all(&mut world, client, &calls);
    let values: Vec<String> = seen.into_iter().flat_map(|(_, values)| values).map(|(_, value, _)| value).collect();
    assert!(values.contains(&"100".to_owned()) && !values.contains(&"99".to_owned()), "{values:?}");
}

#[test]
fn an_item_that_the_server_will_not_make_again_is_told_by_its_status() {
    let mut world = World::new();
    let client = world.client();
    let (subscription, calls) = watching(&mut world, client, &["Setpoint", "Note"]);
    let mut other =
        crate::space::Space::new(crate::space::SpaceConfig { application_uri: PLANT.into(), namespaces: Vec::new() })
            .unwrap();
    let objects = ns0::find_numeric(85).unwrap();
    let unit = other.add_folder(objects, Some(id("Unit")), "Unit", ScopeIndex(1)).unwrap();
    let value = Variant::from(1.0_f64);
    other.add_variable(NewVariable::new(unit, Some(id("Setpoint")), "Setpoint", value, ScopeIndex(1))).unwrap();
    other.set_server_facts(ServerFacts::default());
    world.restart_plant(other);
    world.pass(SECOND * 5);
    let mut seen: Vec<_> = all(&mut world, client, &calls).into_iter().flat_map(|(_, values)| values).collect();
    seen.sort();
    let unknown = StatusCode::BadNodeIdUnknown.bits();
    assert_eq!(seen, [(100, "1".to_owned(), OVERFLOW), (101, String::new(), unknown)]);
    let request = DeleteMonitoredItemsRequest {
        subscription_id: subscription,
        monitored_item_ids: Some(vec![2]),
        ..DeleteMonitoredItemsRequest::default()
    };
    let response: DeleteMonitoredItemsResponse = world.ask(client, request).unwrap();
    assert_eq!(response.results, Some(vec![StatusCode::Good]));
}

#[test]
fn a_server_that_starts_anew_is_looked_at_anew() {
    let mut world = World::new();
    let client = world.client();
    let (_, calls) = watching(&mut world, client, &["Setpoint"]);
    // Of the same name, but no longer in the unit.
    let mut other =
        crate::space::Space::new(crate::space::SpaceConfig { application_uri: PLANT.into(), namespaces: Vec::new() })
            .unwrap();
    let objects = ns0::find_numeric(85).unwrap();
    other.add_folder(objects, Some(id("Unit")), "Unit", ScopeIndex(1)).unwrap();
    let value = Variant::from(1.0_f64);
    other.add_variable(NewVariable::new(objects, Some(id("Setpoint")), "Setpoint", value, ScopeIndex(1))).unwrap();
    other.set_server_facts(ServerFacts { started: UnixTime::from_seconds(1_700_000_000), ..ServerFacts::default() });
    world.restart_plant(other);
    world.pass(SECOND * 5);
    let response: ReadResponse = world.ask(client, read(&["Setpoint"])).unwrap();
    assert_eq!(response.results.unwrap()[0].status(), StatusCode::BadNodeIdUnknown);
    let seen: Vec<_> = all(&mut world, client, &calls).into_iter().flat_map(|(_, values)| values).collect();
    assert_eq!(seen, [(100, String::new(), StatusCode::BadUserAccessDenied.bits())]);
}

#[test]
fn under_other_namespaces_subscriptions_and_aliases_end() {
    let mut world = World::new();
    let client = world.client();
    let (_, calls) = watching(&mut world, client, &["Setpoint"]);
    let config = crate::space::SpaceConfig { application_uri: "urn:test:other".into(), namespaces: vec![PLANT.into()] };
    let mut other = crate::space::Space::new(config).unwrap();
    other.set_server_facts(ServerFacts::default());
    world.restart_plant(other);
    world.pass(SECOND * 5);
    let answers: Vec<_> = calls.iter().filter_map(|call| world.answer(client, *call)).collect();
    let changes = answers.into_iter().filter_map(|answer| {
        let response = PublishResponse::try_from(answer.unwrap()).ok()?;
        let data = response.notification_message.notification_data?;
        data[0].inner_as::<StatusChangeNotification>().map(|change| change.status)
    });
    assert_eq!(changes.collect::<Vec<_>>(), [StatusCode::BadSubscriptionIdInvalid]);
}

#[test]
fn no_upstream_session_survives_its_client_over_a_cut() {
    let mut world = moving();
    let client = world.client();
    watching(&mut world, client, &["Setpoint"]);
    world.unplugged = true;
    world.cut_upstream();
    let now = world.now;
    world.peers.get_mut(&client).unwrap().session.close(now, &mut token::SystemEntropy::new());
    world.run();
    assert_eq!((world.guard.front().load().1, world.plant.load().1), (0, 1));
    world.unplugged = false;
    world.pass(SECOND * 5);
    assert_eq!((world.plant.load().1, world.guard.upstream_load()), (0, 0), "it was looked for and closed");
}

#[test]
fn a_session_that_cannot_be_found_again_is_not_looked_for_for_ever() {
    let mut world = moving();
    let client = world.client();
    world.unplugged = true;
    world.cut_upstream();
    let now = world.now;
    world.peers.get_mut(&client).unwrap().session.close(now, &mut token::SystemEntropy::new());
    world.run();
    world.pass(SECOND * 60);
    world.dials = 0;
    world.pass(SECOND * 600);
    assert_eq!((world.dials, world.guard.upstream_load()), (0, 0));
}

#[test]
fn requests_do_not_hang_while_a_server_hangs() {
    let mut world = World::new();
    let client = world.client();
    world.hold = true;
    world.cut_upstream();
    world.pass(SECOND);
    let hanging = world.send(client, read(&["Setpoint"]));
    world.pass(SECOND * 31);
    let answer = world.answer(client, hanging).expect("an answer within the longest time");
    let expected = [StatusCode::BadTimeout, StatusCode::BadServerNotConnected];
    assert!(expected.contains(&answer.unwrap_err()));
}
