//! The rows of the state table of OPC 10000-4 §5.14.1.2 that concern requests and messages, and the services around them.

use opcua_types::{DeleteSubscriptionsRequest, ModifySubscriptionRequest, SetPublishingModeRequest};

use super::*;

fn deletion(ids: &[u32]) -> DeleteSubscriptionsRequest {
    DeleteSubscriptionsRequest { request_header: RequestHeader::dummy(), subscription_ids: Some(ids.to_vec()) }
}

fn publishing(ids: &[u32], publishing_enabled: bool) -> SetPublishingModeRequest {
    SetPublishingModeRequest {
        request_header: RequestHeader::dummy(),
        publishing_enabled,
        subscription_ids: Some(ids.to_vec()),
    }
}

#[test]
fn row_4_a_request_waits_for_the_cycle() {
    let mut bench = Bench::new();
    bench.subscribe(7);
    bench.monitor(7, 1, 0.0, 5);
    bench.publish();
    assert_eq!(bench.answers(), []);
    bench.pass(99 * MS);
    assert_eq!(bench.answers(), []);
    bench.pass(MS);
    let response = bench.answer();
    assert_eq!((response.subscription_id, response.notification_message.sequence_number), (7, 1));
    assert_eq!(told(&response.notification_message), [(1, Ok(0))]);
    assert_eq!(response.available_sequence_numbers, Some(vec![1]));
}

#[test]
fn row_7_the_first_cycle_sends_a_keep_alive_with_the_next_number() {
    let mut bench = Bench::new();
    bench.subscribe(7);
    bench.publish();
    bench.pass(100 * MS);
    let response = bench.answer();
    assert_eq!(response.notification_message.notification_data, None);
    assert_eq!(response.notification_message.sequence_number, 1);
    // A keep-alive does not use the number up.
    bench.monitor(7, 1, 0.0, 5);
    bench.publish();
    bench.pass(100 * MS);
    assert_eq!(bench.answer().notification_message.sequence_number, 1);
}

#[test]
fn rows_15_and_16_keep_alives_come_every_third_quiet_cycle() {
    let mut bench = Bench::new();
    bench.subscribe(7);
    for _ in 0..4 {
        bench.publish();
    }
    let mut times = Vec::new();
    for cycle in 1..=10 {
        bench.pass(100 * MS);
        times.extend(bench.answers().iter().map(|_| cycle));
    }
    assert_eq!(times, [1, 4, 7, 10]);
}

#[test]
fn rows_8_and_10_a_late_subscription_is_served_at_once() {
    let mut bench = Bench::new();
    bench.subscribe(7);
    bench.monitor(7, 1, 0.0, 5);
    bench.pass(150 * MS);
    bench.publish();
    assert_eq!(told(&bench.answer().notification_message), [(1, Ok(0))]);
}

#[test]
fn row_11_a_late_subscription_with_nothing_to_say_sends_a_keep_alive_at_once() {
    let mut bench = Bench::new();
    bench.subscribe(7);
    bench.pass(150 * MS);
    bench.publish();
    assert_eq!(bench.answer().notification_message.notification_data, None);
}

#[test]
fn row_5_more_notifications_are_sent_without_waiting() {
    let mut bench = Bench::new();
    bench.subscribe_with(7, 0, 2);
    for node in 1..=5 {
        bench.monitor(7, node, 0.0, 5);
    }
    bench.publish();
    bench.pass(100 * MS);
    let first = bench.answer();
    assert!(first.more_notifications);
    assert_eq!(told(&first.notification_message), [(1, Ok(0)), (2, Ok(0))]);
    bench.publish();
    bench.publish();
    let rest = bench.answers();
    let rest: Vec<_> = rest.into_iter().map(|(_, response)| response.unwrap()).collect();
    assert_eq!(told(&rest[0].notification_message), [(3, Ok(0)), (4, Ok(0))]);
    assert_eq!(told(&rest[1].notification_message), [(5, Ok(0))]);
    assert_eq!((rest[0].more_notifications, rest[1].more_notifications), (true, false));
    assert_eq!(rest[1].notification_message.sequence_number, 3);
}

#[test]
fn values_of_one_item_keep_their_order_across_messages() {
    let mut bench = Bench::new();
    bench.subscribe_with(7, 0, 2);
    bench.monitor(7, 1, 0.0, 5);
    (1..=4).for_each(|number| bench.set(1, number));
    bench.publish_times(3);
    bench.pass(100 * MS);
    let all: Vec<Told> =
        bench.answers().into_iter().flat_map(|(_, response)| told(&response.unwrap().notification_message)).collect();
    assert_eq!(all, [(1, Ok(0)), (1, Ok(1)), (1, Ok(2)), (1, Ok(3)), (1, Ok(4))]);
}

#[test]
fn row_19_a_disabled_subscription_keeps_alive_and_keeps_its_values() {
    let mut bench = Bench::new();
    bench.subscribe(7);
    bench.monitor(7, 1, 0.0, 5);
    assert_eq!(
        bench.machine.set_publishing_mode(&publishing(&[7, 8], false)),
        [StatusCode::Good, StatusCode::BadSubscriptionIdInvalid]
    );
    bench.publish();
    bench.pass(100 * MS);
    assert_eq!(bench.answer().notification_message.notification_data, None);
    bench.machine.set_publishing_mode(&publishing(&[7], true));
    bench.publish();
    bench.pass(100 * MS);
    assert_eq!(told(&bench.answer().notification_message), [(1, Ok(0))]);
}

#[test]
fn rows_20_and_21_republish_gives_what_was_sent_until_it_is_acknowledged() {
    let mut bench = Bench::new();
    bench.subscribe(7);
    bench.monitor(7, 1, 0.0, 5);
    bench.publish();
    bench.pass(100 * MS);
    assert_eq!(bench.answer().available_sequence_numbers, Some(vec![1]));
    assert_eq!(bench.republish(7, 1), Ok(vec![(1, Ok(0))]));
    assert_eq!(bench.republish(7, 2), Err(StatusCode::BadMessageNotAvailable));
    assert_eq!(bench.republish(8, 1), Err(StatusCode::BadSubscriptionIdInvalid));
    bench.set(1, 5);
    bench.publish_with(Some(&[acknowledge(7, 1), acknowledge(7, 1), acknowledge(8, 1)]));
    bench.pass(100 * MS);
    let response = bench.answer();
    assert_eq!(
        response.results,
        Some(vec![StatusCode::Good, StatusCode::BadSequenceNumberUnknown, StatusCode::BadSubscriptionIdInvalid])
    );
    assert_eq!(response.available_sequence_numbers, Some(vec![2]));
    assert_eq!(bench.republish(7, 1), Err(StatusCode::BadMessageNotAvailable));
}

#[test]
fn row_27_a_forgotten_subscription_ends_with_a_status_change() {
    let mut bench = Bench::new();
    bench.subscribe(7);
    bench.monitor(7, 1, 0.0, 5);
    bench.pass(899 * MS);
    assert_eq!(bench.machine.len(), 1);
    bench.pass(MS);
    assert_eq!((bench.machine.len(), bench.machine.item_count()), (0, 0));
    bench.publish();
    let response = bench.answer();
    assert_eq!(response.subscription_id, 7);
    assert_eq!(ended_with(&response.notification_message), Some(StatusCode::BadTimeout));
    let request = bench.publish();
    assert_eq!(bench.answers(), [(request, Err(StatusCode::BadNoSubscription))]);
}

#[test]
fn waiting_requests_keep_a_subscription_alive() {
    let mut bench = Bench::new();
    bench.subscribe(7);
    bench.publish_times(20);
    bench.pass(3_000 * MS);
    assert_eq!(bench.machine.len(), 1);
}

#[test]
fn one_request_too_many_turns_the_oldest_away() {
    let mut bench = Bench::with(SubscriptionLimits { max_publish_requests: 2, ..SubscriptionLimits::default() });
    bench.subscribe(7);
    let oldest = bench.publish();
    bench.publish();
    assert_eq!(bench.answers(), []);
    bench.publish();
    assert_eq!(bench.answers(), [(oldest, Err(StatusCode::BadTooManyPublishRequests))]);
}

#[test]
fn the_important_subscription_gets_the_only_request() {
    let mut bench = Bench::new();
    bench.subscribe_with(7, 1, 0);
    bench.subscribe_with(8, 9, 0);
    bench.publish();
    bench.pass(100 * MS);
    assert_eq!(bench.answer().subscription_id, 8);
    // Late ones too; then the one that waits.
    bench.pass(1_000 * MS / 4);
    bench.publish();
    assert_eq!(bench.answer().subscription_id, 7);
}

#[test]
fn equals_take_turns() {
    let mut bench = Bench::with(SubscriptionLimits { max_notifications: 1, ..SubscriptionLimits::default() });
    for id in [7, 8] {
        bench.subscribe(id);
        for node in 0..6 {
            bench.monitor(id, node, 0.0, 5);
        }
    }
    bench.pass(100 * MS);
    let mut order = Vec::new();
    for _ in 0..4 {
        bench.publish();
        order.push(bench.answer().subscription_id);
    }
    assert_eq!(order, [7, 8, 7, 8]);
}

#[test]
fn deleting_the_last_subscription_answers_what_waits() {
    let mut bench = Bench::new();
    bench.subscribe(7);
    let request = bench.publish();
    assert_eq!(bench.machine.delete(&deletion(&[7, 7])), [StatusCode::Good, StatusCode::BadSubscriptionIdInvalid]);
    assert_eq!(bench.answers(), [(request, Err(StatusCode::BadNoSubscription))]);
    assert_eq!(bench.machine.poll_timeout(), None);
}

#[test]
fn closing_the_session_answers_what_waits() {
    let mut bench = Bench::new();
    bench.subscribe(7);
    let request = bench.publish();
    bench.machine.close(StatusCode::BadSessionClosed);
    assert_eq!(bench.answers(), [(request, Err(StatusCode::BadSessionClosed))]);
}

#[test]
fn cancel_answers_by_handle() {
    let mut bench = Bench::new();
    bench.subscribe(7);
    bench.publish();
    let second = bench.publish();
    assert_eq!(bench.machine.cancel(second), 1);
    assert_eq!(bench.machine.cancel(second), 0);
    assert_eq!(bench.answers(), [(second, Err(StatusCode::BadRequestCancelledByClient))]);
}

#[test]
fn requested_times_are_revised_into_the_limits() {
    let mut bench = Bench::new();
    // requested interval, lifetime, keep-alive => revised
    let cases = [
        (100.0, 30, 10, (100.0, 30, 10)),
        (100.0, 10, 10, (100.0, 30, 10)),
        (0.0, 30, 0, (5.0, 30, 1)),
        (-1.0, 0, 0, (5.0, 3, 1)),
        (f64::NAN, 3, 1, (5.0, 3, 1)),
        (f64::INFINITY, u32::MAX, u32::MAX, (3_600_000.0, 30_000, 10_000)),
    ];
    bench.subscribe(7);
    for (interval, lifetime, keep_alive, expected) in cases {
        let request = ModifySubscriptionRequest {
            request_header: RequestHeader::dummy(),
            subscription_id: 7,
            requested_publishing_interval: interval,
            requested_lifetime_count: lifetime,
            requested_max_keep_alive_count: keep_alive,
            max_notifications_per_publish: 0,
            priority: 0,
        };
        let revised = bench.machine.modify(&request, bench.now).unwrap();
        let revised =
            (revised.revised_publishing_interval, revised.revised_lifetime_count, revised.revised_max_keep_alive_count);
        assert_eq!(revised, expected, "{interval} {lifetime} {keep_alive}");
    }
}

#[test]
fn sent_messages_are_kept_within_bounds() {
    let limits = SubscriptionLimits { max_retained_messages: 3, max_retained_values: 2, ..Default::default() };
    let mut bench = Bench::with(limits);
    bench.subscribe(7);
    bench.monitor(7, 1, 0.0, 5);
    let mut available = None;
    for number in 1..=6 {
        bench.set(1, number);
        bench.publish();
        bench.pass(100 * MS);
        available = bench.answer().available_sequence_numbers;
    }
    // The first message held two values, all others one.
    assert_eq!(available, Some(vec![5, 6]));
}

#[test]
fn one_subscription_too_many_is_refused() {
    let mut bench = Bench::with(SubscriptionLimits { max_subscriptions: 1, ..SubscriptionLimits::default() });
    bench.subscribe(7);
    let request = CreateSubscriptionRequest { request_header: RequestHeader::dummy(), ..Default::default() };
    assert_eq!(bench.machine.create(8, &request, bench.now), Err(StatusCode::BadTooManySubscriptions));
}
