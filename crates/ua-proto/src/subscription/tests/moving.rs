//! Subscriptions that go to another session (OPC 10000-4 §5.14.7), and values that are sent again (OPC 10000-5 §9.2).

use super::*;

/// Two sessions, of which the first one watches nodes 1 and 2, whose first values came.
fn two() -> (Bench, Bench) {
    let mut one = Bench::new();
    one.subscribe(7);
    one.monitor(7, 1, 0.0, 5);
    one.monitor(7, 2, 0.0, 5);
    one.publish();
    one.pass(100 * MS);
    assert_eq!(told(&one.answer().notification_message), [(1, Ok(0)), (2, Ok(0))]);
    (one, Bench::new())
}

fn hand_over(from: &mut Bench, to: &mut Bench, initial: bool) {
    to.now = from.now;
    to.source.values = from.source.values.clone();
    let moving = from.machine.take(7).unwrap();
    let given = to.machine.give(moving, initial, &mut to.source, to.now);
    let sequence = given.map_err(|(status, _)| status).unwrap();
    from.machine.moved(7, sequence, from.now);
}

fn told_next(bench: &mut Bench) -> Vec<Told> {
    bench.publish();
    bench.pass(100 * MS);
    let answers = bench.answers();
    answers.into_iter().flat_map(|(_, response)| told(&response.unwrap().notification_message)).collect()
}

#[test]
fn it_moves_with_its_items_its_queue_and_its_sent_messages() {
    let (mut one, mut other) = two();
    one.set(1, 4);
    hand_over(&mut one, &mut other, false);
    assert_eq!(other.machine.available(7), [1]);
    assert_eq!(other.republish(7, 1), Ok(vec![(1, Ok(0)), (2, Ok(0))]));
    assert_eq!(told_next(&mut other), [(1, Ok(4))]);
    other.set(2, 6);
    assert_eq!(told_next(&mut other), [(2, Ok(6))]);
    assert!(one.machine.is_empty() && one.machine.item_count() == 0);
}

#[test]
fn who_had_it_is_told_once() {
    let (mut one, mut other) = two();
    one.publish();
    hand_over(&mut one, &mut other, false);
    let response = one.answer();
    assert_eq!(response.subscription_id, 7);
    assert_eq!(ended_with(&response.notification_message), Some(StatusCode::GoodSubscriptionTransferred));
    one.publish();
    assert_eq!(one.answers().remove(0).1, Err(StatusCode::BadNoSubscription));
}

#[test]
fn what_the_new_session_may_not_see_stays_behind() {
    let (mut one, mut other) = two();
    one.set(1, 4);
    one.set(2, 5);
    other.source.denied.insert(2, true);
    hand_over(&mut one, &mut other, true);
    assert_eq!(other.republish(7, 1), Err(StatusCode::BadMessageNotAvailable), "it holds a value of node 2");
    assert_eq!(told_next(&mut other), [(1, Ok(4)), (2, Err(StatusCode::BadUserAccessDenied))]);
}

#[test]
fn initial_values_come_where_they_are_asked_for() {
    for (initial, expected) in [(false, vec![]), (true, vec![(1, Ok(0)), (2, Ok(0))])] {
        let (mut one, mut other) = two();
        hand_over(&mut one, &mut other, initial);
        assert_eq!(told_next(&mut other), expected, "initial values: {initial}");
    }
}

#[test]
fn there_must_be_room() {
    use StatusCode as S;
    for (rule, limits, expected) in [
        (
            "subscriptions",
            SubscriptionLimits { max_subscriptions: 0, ..Default::default() },
            S::BadTooManySubscriptions,
        ),
        ("items", SubscriptionLimits { max_items: 1, ..Default::default() }, S::BadTooManyMonitoredItems),
    ] {
        let (mut one, _) = two();
        let mut other = Bench::with(limits);
        let moving = one.machine.take(7).unwrap();
        let Err((status, moving)) = other.machine.give(moving, true, &mut other.source, other.now) else {
            panic!("{rule}: taken");
        };
        assert_eq!(status, expected, "{rule}");
        assert!(one.machine.give(*moving, false, &mut one.source, one.now).is_ok());
        one.set(1, 9);
        assert_eq!(told_next(&mut one), [(1, Ok(9))], "{rule}: it goes on where it was");
    }
}

#[test]
fn values_are_sent_again_on_request() {
    let (mut one, _) = two();
    one.set(2, 3);
    one.machine.resend(7, &mut one.source, one.now).unwrap();
    assert_eq!(told_next(&mut one), [(2, Ok(3)), (1, Ok(0))], "one that waits is not doubled");
    one.source.denied.insert(1, true);
    one.machine.recheck(&mut one.source, one.now);
    one.machine.resend(7, &mut one.source, one.now).unwrap();
    assert_eq!(told_next(&mut one), [(1, Err(StatusCode::BadUserAccessDenied)), (2, Ok(3))]);
    assert_eq!(one.machine.resend(8, &mut one.source, one.now), Err(StatusCode::BadSubscriptionIdInvalid));
}
