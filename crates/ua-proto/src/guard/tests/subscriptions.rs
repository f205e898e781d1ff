//! Subscriptions through the guard: values of the moment's rights, numbers without a gap, nothing after the end.

use std::time::Duration;

use access_model::Rights;
use opcua_types::*;

use super::world::*;
use crate::client::CallId;
use crate::server::{ConnId, Input};

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// Creates a subscription with reporting items on these nodes; the client handle is the place in the list plus 100.
pub(super) fn subscribe(world: &mut World, client: ConnId, nodes: &[&str]) -> (u32, Vec<MonitoredItemCreateResult>) {
    let request = CreateSubscriptionRequest {
        requested_publishing_interval: 1_000.0,
        requested_lifetime_count: 600,
        requested_max_keep_alive_count: 10,
        publishing_enabled: true,
        ..CreateSubscriptionRequest::default()
    };
    let created: CreateSubscriptionResponse = world.ask(client, request).unwrap();
    let items = nodes.iter().zip(100..).map(|(name, client_handle)| MonitoredItemCreateRequest {
        item_to_monitor: value_of(id(name)),
        monitoring_mode: MonitoringMode::Reporting,
        requested_parameters: MonitoringParameters {
            client_handle,
            sampling_interval: 0.0,
            queue_size: 10,
            discard_oldest: true,
            ..MonitoringParameters::default()
        },
    });
    let request = CreateMonitoredItemsRequest {
        subscription_id: created.subscription_id,
        timestamps_to_return: TimestampsToReturn::Both,
        items_to_create: Some(items.collect()),
        ..CreateMonitoredItemsRequest::default()
    };
    let response: CreateMonitoredItemsResponse = world.ask(client, request).unwrap();
    (created.subscription_id, response.results.unwrap())
}

pub(super) fn publish(world: &mut World, client: ConnId, acknowledged: &[(u32, u32)]) -> CallId {
    let acknowledgement = |(subscription_id, sequence_number): &(u32, u32)| SubscriptionAcknowledgement {
        subscription_id: *subscription_id,
        sequence_number: *sequence_number,
    };
    world.send(
        client,
        PublishRequest {
            subscription_acknowledgements: Some(acknowledged.iter().map(acknowledgement).collect()),
            ..PublishRequest::default()
        },
    )
}

/// Handle and value of each notification, with the number of the message; a value that is missing is its status.
pub(super) fn told(world: &mut World, client: ConnId, call: CallId) -> Option<(u32, Vec<(u32, String)>)> {
    let answer = world.answer(client, call)?;
    let response = PublishResponse::try_from(answer.expect("no fault")).unwrap();
    let message = response.notification_message;
    let mut values = Vec::new();
    for part in message.notification_data.unwrap_or_default() {
        let change = part.inner_as::<DataChangeNotification>().expect("data changes");
        for item in change.monitored_items.iter().flatten() {
            let value = match &item.value.value {
                Some(value) => value.to_string(),
                None => item.value.status().to_string(),
            };
            values.push((item.client_handle, value));
        }
    }
    Some((message.sequence_number, values))
}

pub(super) fn set(world: &mut World, name: &str, value: impl Into<Variant>) {
    let node = world.plant.space().find(&id(name)).unwrap();
    let now = world.now;
    world.plant.handle_input(Input::SetValue { node, value: DataValue::value_only(value) }, now);
    world.run();
}

#[test]
fn values_come_by_the_rights_of_each_item() {
    let mut world = World::new();
    let client = world.client();
    let (_, results) = subscribe(&mut world, client, &["Setpoint", "Speed", "Secret", "Nothing"]);
    let statuses: Vec<StatusCode> = results.iter().map(|result| result.status_code).collect();
    use StatusCode as S;
    assert_eq!(statuses, [S::Good, S::Good, S::BadNodeIdUnknown, S::BadNodeIdUnknown]);
    let call = publish(&mut world, client, &[]);
    let mut seen = Vec::new();
    seen.extend(told(&mut world, client, call).into_iter().flat_map(|(_, values)| values));
    let second = publish(&mut world, client, &[]);
    world.pass(SECOND * 2);
    for call in [call, second] {
        seen.extend(told(&mut world, client, call).into_iter().flat_map(|(_, values)| values));
    }
    seen.sort();
    let denied = StatusCode::BadUserAccessDenied.to_string();
    assert_eq!(seen, [(100, "20".to_owned()), (101, denied)]);
    // The plant samples nothing for what may not be read.
    for (name, value) in [("Speed", 8), ("Setpoint", 21), ("Secret", 1)] {
        set(&mut world, name, f64::from(value));
    }
    let call = publish(&mut world, client, &[]);
    world.pass(SECOND * 2);
    assert_eq!(told(&mut world, client, call).unwrap().1, [(100, "21".to_owned())]);
}

#[test]
fn as_many_publish_requests_wait_upstream_as_here() {
    let mut world = World::new();
    let client = world.client();
    subscribe(&mut world, client, &["Setpoint"]);
    world.pass(SECOND * 2);
    world.reached.clear();
    assert!(world.at_plant(ObjectId::PublishRequest_Encoding_DefaultBinary).is_empty(), "none without the client");
    let calls: Vec<CallId> = (0..3).map(|_| publish(&mut world, client, &[])).collect();
    world.pass(SECOND * 2);
    let mut sequences = calls.iter().filter_map(|call| told(&mut world, client, *call)).map(|(sequence, _)| sequence);
    assert_eq!(sequences.next(), Some(1));
}

#[test]
fn when_a_grant_ends_each_item_says_so_once_and_no_number_is_left_out() {
    let mut world = World::new();
    let client = world.client_by_token(vec![(Rights::ALL, 1)], Duration::from_secs(10));
    let (subscription, _) = subscribe(&mut world, client, &["Setpoint", "Note"]);
    let call = publish(&mut world, client, &[]);
    world.pass(SECOND * 2);
    let (sequence, values) = told(&mut world, client, call).unwrap();
    assert_eq!((sequence, values.len()), (1, 2));
    let waiting: Vec<CallId> = (0..4).map(|_| publish(&mut world, client, &[])).collect();
    // Sampled before the end, delivered never.
    world.hold = true;
    set(&mut world, "Setpoint", 99.0);
    world.pass(Duration::from_secs(9));
    world.release();
    set(&mut world, "Note", "after");
    world.pass(SECOND * 5);
    let mut seen = Vec::new();
    let mut sequences = vec![sequence];
    for call in &waiting {
        if let Some((sequence, values)) = told(&mut world, client, *call)
            && !values.is_empty()
        {
            sequences.push(sequence);
            seen.extend(values);
        }
    }
    seen.sort();
    let denied = StatusCode::BadUserAccessDenied.to_string();
    assert_eq!(seen, [(100, denied.clone()), (101, denied)]);
    assert_eq!(sequences, [1, 2]);
    let refused: Result<RepublishResponse, _> = world.ask(
        client,
        RepublishRequest {
            subscription_id: subscription,
            retransmit_sequence_number: 1,
            ..RepublishRequest::default()
        },
    );
    assert_eq!(refused.unwrap_err(), StatusCode::BadUserAccessDenied);

    // A new token: the present values come, and what was told before the end cannot be had again.
    let token = world.token("alice", vec![(Rights::ALL, 1)], Duration::from_secs(600));
    world.peers.get_mut(&client).unwrap().session.reactivate(token, world.now);
    world.run();
    let refused: Result<RepublishResponse, _> = world.ask(
        client,
        RepublishRequest {
            subscription_id: subscription,
            retransmit_sequence_number: 1,
            ..RepublishRequest::default()
        },
    );
    assert_eq!(refused.unwrap_err(), StatusCode::BadMessageNotAvailable);
    let calls: Vec<CallId> = (0..2).map(|_| publish(&mut world, client, &[])).collect();
    world.pass(SECOND * 3);
    let mut seen = Vec::new();
    for call in waiting.iter().chain(&calls) {
        seen.extend(told(&mut world, client, *call).into_iter().flat_map(|(_, values)| values));
    }
    seen.sort();
    assert_eq!(seen, [(100, "99".to_owned()), (101, "after".to_owned())]);
}

#[test]
fn messages_are_acknowledged_and_had_again_here() {
    let mut world = World::new();
    let client = world.client();
    let (subscription, _) = subscribe(&mut world, client, &["Setpoint"]);
    let call = publish(&mut world, client, &[]);
    world.pass(SECOND * 2);
    assert_eq!(told(&mut world, client, call).unwrap().0, 1);
    let again = |sequence| RepublishRequest {
        subscription_id: subscription,
        retransmit_sequence_number: sequence,
        ..RepublishRequest::default()
    };
    let response: RepublishResponse = world.ask(client, again(1)).unwrap();
    assert_eq!(response.notification_message.sequence_number, 1);
    set(&mut world, "Setpoint", 1.0);
    let call = publish(&mut world, client, &[(subscription, 1), (subscription, 7), (999, 1)]);
    world.pass(SECOND * 2);
    let response = PublishResponse::try_from(world.answer(client, call).unwrap().unwrap()).unwrap();
    use StatusCode as S;
    let expected = [S::Good, S::BadSequenceNumberUnknown, S::BadSubscriptionIdInvalid];
    assert_eq!(response.results, Some(expected.to_vec()));
    assert_eq!(response.notification_message.sequence_number, 2);
    let gone: Result<RepublishResponse, _> = world.ask(client, again(1));
    assert_eq!(gone.unwrap_err(), S::BadMessageNotAvailable);
}

#[test]
fn a_subscription_is_its_sessions_own() {
    let mut world = World::new();
    let (one, other) = (world.client(), world.client());
    let (subscription, items) = subscribe(&mut world, one, &["Setpoint"]);
    let (mine, _) = subscribe(&mut world, other, &["Setpoint"]);
    assert_ne!(subscription, mine, "numbers are unique among sessions");
    let ids = Some(vec![subscription]);
    let delete = DeleteSubscriptionsRequest { subscription_ids: ids.clone(), ..Default::default() };
    let response: DeleteSubscriptionsResponse = world.ask(other, delete.clone()).unwrap();
    assert_eq!(response.results, Some(vec![StatusCode::BadSubscriptionIdInvalid]));
    let mode = SetPublishingModeRequest { publishing_enabled: false, subscription_ids: ids, ..Default::default() };
    let response: SetPublishingModeResponse = world.ask(other, mode).unwrap();
    assert_eq!(response.results, Some(vec![StatusCode::BadSubscriptionIdInvalid]));
    let items = DeleteMonitoredItemsRequest {
        subscription_id: subscription,
        monitored_item_ids: Some(vec![items[0].monitored_item_id, 77]),
        ..DeleteMonitoredItemsRequest::default()
    };
    let refused: Result<DeleteMonitoredItemsResponse, _> = world.ask(other, items.clone());
    assert_eq!(refused.unwrap_err(), StatusCode::BadSubscriptionIdInvalid);
    let response: DeleteMonitoredItemsResponse = world.ask(one, items).unwrap();
    assert_eq!(response.results, Some(vec![StatusCode::Good, StatusCode::BadMonitoredItemIdInvalid]));
    let response: DeleteSubscriptionsResponse = world.ask(one, delete).unwrap();
    assert_eq!(response.results, Some(vec![StatusCode::Good]));
    let refused = publish(&mut world, one, &[]);
    assert_eq!(world.answer(one, refused).unwrap().unwrap_err(), StatusCode::BadNoSubscription);
}

#[test]
fn filters_that_nobody_here_understands_are_refused() {
    let mut world = World::new();
    let client = world.client();
    let (subscription, _) = subscribe(&mut world, client, &["Note"]);
    let item = |attribute_id: AttributeId, filter: ExtensionObject| MonitoredItemCreateRequest {
        item_to_monitor: ReadValueId { attribute_id: attribute_id as u32, ..value_of(id("Setpoint")) },
        monitoring_mode: MonitoringMode::Reporting,
        requested_parameters: MonitoringParameters { filter, queue_size: 1, ..MonitoringParameters::default() },
    };
    let request = CreateMonitoredItemsRequest {
        subscription_id: subscription,
        timestamps_to_return: TimestampsToReturn::Neither,
        items_to_create: Some(vec![
            item(AttributeId::EventNotifier, ExtensionObject::null()),
            item(AttributeId::Value, ExtensionObject::from_message(EventFilter::default())),
            item(AttributeId::Value, ExtensionObject::from_message(DataChangeFilter::default())),
        ]),
        ..CreateMonitoredItemsRequest::default()
    };
    let response: CreateMonitoredItemsResponse = world.ask(client, request).unwrap();
    let statuses: Vec<StatusCode> = response.results.unwrap().iter().map(|result| result.status_code).collect();
    use StatusCode as S;
    assert_eq!(statuses[..2], [S::BadEventFilterInvalid, S::BadMonitoredItemFilterUnsupported]);
    assert_eq!(statuses[2], StatusCode::Good);
}

#[test]
fn a_subscription_of_which_nothing_is_told_says_that_it_is_there() {
    let mut world = World::new();
    let client = world.client();
    subscribe(&mut world, client, &["Setpoint"]);
    let first = publish(&mut world, client, &[]);
    world.pass(SECOND * 2);
    assert!(told(&mut world, client, first).is_some());
    let quiet = publish(&mut world, client, &[]);
    world.pass(SECOND * 15);
    assert_eq!(told(&mut world, client, quiet), Some((2, Vec::new())), "a keep-alive with the next number");
}
