//! DESIGN invariant 2: after rights end nothing obtained under them leaves, by any of the ways out.

use super::*;

const DENIED: Result<i32, StatusCode> = Err(StatusCode::BadUserAccessDenied);

fn told_next(bench: &mut Bench) -> Vec<Told> {
    bench.publish();
    bench.pass(100 * MS);
    let answers = bench.answers();
    answers.into_iter().flat_map(|(_, response)| told(&response.unwrap().notification_message)).collect()
}

#[test]
fn an_unreadable_item_is_created_and_reports_its_denial_once() {
    let mut bench = Bench::new();
    bench.source.denied.insert(1, true);
    bench.subscribe(7);
    bench.monitor(7, 1, 0.0, 5);
    assert_eq!(told_next(&mut bench), [(1, DENIED)]);
    bench.set(1, 3);
    assert_eq!(told_next(&mut bench), []);
    assert_eq!(bench.source.delivered, 0);
}

#[test]
fn a_computed_unreadable_item_resumes_by_itself() {
    let mut bench = Bench::new();
    bench.source.denied.insert(1, true);
    bench.source.computed.insert(1, true);
    bench.subscribe(7);
    bench.monitor(7, 1, 10.0, 5);
    assert_eq!(told_next(&mut bench), [(1, DENIED)]);
    bench.source.denied.clear();
    assert_eq!(told_next(&mut bench), [(1, Ok(0))]);
}

#[test]
fn silence_drops_queue_and_sent_messages_and_says_so_once() {
    let mut bench = Bench::new();
    bench.subscribe(7);
    bench.monitor(7, 1, 0.0, 5);
    assert_eq!(told_next(&mut bench), [(1, Ok(0))]);
    assert_eq!(bench.republish(7, 1), Ok(vec![(1, Ok(0))]));
    bench.set(1, 1);
    bench.set(1, 2);
    bench.machine.silence();
    bench.source.denied.insert(1, true);
    assert_eq!(bench.republish(7, 1), Err(StatusCode::BadMessageNotAvailable));
    bench.set(1, 3);
    assert_eq!(told_next(&mut bench), [(1, DENIED)]);
    bench.set(1, 4);
    bench.machine.silence();
    assert_eq!(told_next(&mut bench), []);
}

#[test]
fn rights_that_return_bring_the_present_value_and_nothing_of_the_pause() {
    let mut bench = Bench::new();
    bench.subscribe(7);
    bench.monitor(7, 1, 0.0, 5);
    told_next(&mut bench);
    bench.machine.silence();
    assert_eq!(told_next(&mut bench), [(1, DENIED)]);
    bench.set(1, 8);
    bench.set(1, 9);
    bench.machine.recheck(&mut bench.source, bench.now);
    assert_eq!(told_next(&mut bench), [(1, Ok(9))]);
    bench.set(1, 10);
    assert_eq!(told_next(&mut bench), [(1, Ok(10))]);
    assert_eq!(bench.republish(7, 1), Err(StatusCode::BadMessageNotAvailable), "sent under the old rights");
}

#[test]
fn narrowing_silences_only_what_is_no_longer_covered() {
    let mut bench = Bench::new();
    bench.subscribe(7);
    bench.monitor(7, 1, 0.0, 5);
    bench.monitor(7, 2, 0.0, 5);
    assert_eq!(told_next(&mut bench), [(1, Ok(0)), (2, Ok(0))]);
    bench.set(2, 1);
    assert_eq!(told_next(&mut bench), [(2, Ok(1))]);
    bench.set(1, 5);
    bench.set(2, 5);
    bench.source.denied.insert(1, true);
    bench.machine.recheck(&mut bench.source, bench.now);
    assert_eq!(bench.republish(7, 1), Err(StatusCode::BadMessageNotAvailable), "holds a value of node 1");
    assert_eq!(bench.republish(7, 2), Ok(vec![(2, Ok(1))]));
    assert_eq!(told_next(&mut bench), [(1, DENIED), (2, Ok(5))]);
}

#[test]
fn a_refresh_that_changes_nothing_is_not_noticed() {
    let mut bench = Bench::new();
    bench.subscribe(7);
    bench.monitor(7, 1, 0.0, 5);
    told_next(&mut bench);
    bench.set(1, 1);
    bench.machine.recheck(&mut bench.source, bench.now);
    assert_eq!(told_next(&mut bench), [(1, Ok(1))]);
    assert_eq!(bench.republish(7, 1), Ok(vec![(1, Ok(0))]));
}

/// The machine does not trust that it was told in time: a value is checked once more when it leaves.
#[test]
fn a_queued_value_does_not_leave_although_nobody_called_silence() {
    let mut bench = Bench::new();
    bench.subscribe(7);
    bench.monitor(7, 1, 0.0, 5);
    told_next(&mut bench);
    bench.set(1, 1);
    bench.set(1, 2);
    bench.source.denied.insert(1, true);
    assert_eq!(told_next(&mut bench), [(1, DENIED)]);
    assert_eq!(bench.republish(7, 1), Err(StatusCode::BadMessageNotAvailable));
}

#[test]
fn every_value_that_leaves_was_counted_once() {
    let mut bench = Bench::new();
    bench.subscribe(7);
    bench.monitor(7, 1, 0.0, 5);
    bench.set(1, 1);
    let told = told_next(&mut bench).len();
    assert_eq!(bench.source.delivered, told);
    bench.republish(7, 1).unwrap();
    assert_eq!(bench.source.delivered, told * 2);
}
