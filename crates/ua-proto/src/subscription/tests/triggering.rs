//! SetTriggering (OPC 10000-4 §5.13.1.6, §5.13.5).

use super::*;
use opcua_types::SetTriggeringRequest;

const GONE: StatusCode = StatusCode::BadMonitoredItemIdInvalid;

fn link(
    bench: &mut Bench,
    item: u32,
    add: &[u32],
    remove: &[u32],
) -> Result<(Vec<StatusCode>, Vec<StatusCode>), StatusCode> {
    let request = SetTriggeringRequest {
        request_header: RequestHeader::dummy(),
        subscription_id: 7,
        triggering_item_id: item,
        links_to_add: Some(add.to_vec()),
        links_to_remove: Some(remove.to_vec()),
    };
    bench.machine.set_triggering(&request)
}

fn told_next(bench: &mut Bench) -> Vec<Told> {
    bench.publish();
    bench.pass(100 * MS);
    let answers = bench.answers();
    answers.into_iter().flat_map(|(_, response)| told(&response.unwrap().notification_message)).collect()
}

/// Item 1 triggers item 2, which samples; the first values are gone.
fn triggered(mode: MonitoringMode, linked: MonitoringMode) -> (Bench, u32, u32) {
    let mut bench = Bench::new();
    bench.subscribe(7);
    let one = bench.monitor_as(7, 1, mode, 0.0, 5).monitored_item_id;
    let two = bench.monitor_as(7, 2, linked, 0.0, 5).monitored_item_id;
    assert_eq!(link(&mut bench, one, &[two], &[]), Ok((vec![StatusCode::Good], vec![])));
    told_next(&mut bench);
    (bench, one, two)
}

#[test]
fn what_is_reported_by_mode() {
    use MonitoringMode::{Disabled, Reporting, Sampling};
    let both = [(1, Ok(5)), (2, Ok(0)), (2, Ok(3))];
    // rule, mode of the triggering item, of the linked one => reported after the trigger
    let rows: [(&str, _, _, &[Told]); 5] = [
        ("a sampling item reports what it holds", Reporting, Sampling, &both),
        ("an item that only samples triggers too", Sampling, Sampling, &both[1..]),
        ("a disabled item triggers nothing", Disabled, Sampling, &[]),
        ("a disabled item is not triggered", Reporting, Disabled, &both[..1]),
        ("a reporting item reports anyway", Reporting, Reporting, &[(2, Ok(3)), (1, Ok(5))]),
    ];
    for (rule, mode, linked, expected) in rows {
        let (mut bench, ..) = triggered(mode, linked);
        bench.set(2, 3);
        if linked == Sampling {
            assert_eq!(told_next(&mut bench), [], "{rule}: nothing before the trigger");
        }
        bench.set(1, 5);
        let mut seen = told_next(&mut bench);
        let mut expected = expected.to_vec();
        seen.sort_by_key(|(handle, _)| *handle);
        expected.sort_by_key(|(handle, _)| *handle);
        assert_eq!(seen, expected, "{rule}");
    }
}

#[test]
fn one_trigger_sets_free_what_is_there_and_nothing_that_comes_later() {
    let (mut bench, ..) = triggered(MonitoringMode::Reporting, MonitoringMode::Sampling);
    bench.set(1, 1);
    bench.set(2, 8);
    bench.set(2, 9);
    assert_eq!(told_next(&mut bench), [(1, Ok(1)), (2, Ok(0))]);
    assert_eq!(told_next(&mut bench), []);
    bench.set(1, 2);
    assert_eq!(told_next(&mut bench), [(1, Ok(2)), (2, Ok(8)), (2, Ok(9))]);
}

#[test]
fn links_are_answered_one_by_one() {
    let mut bench = Bench::with(SubscriptionLimits { max_links: 2, ..SubscriptionLimits::default() });
    bench.subscribe(7);
    let ids: Vec<u32> = (1..=4).map(|node| bench.monitor(7, node, 0.0, 1)).collect();
    let (good, full) = (StatusCode::Good, StatusCode::BadTooManyMonitoredItems);
    type Row<'a> = (&'a str, u32, &'a [u32], &'a [u32], Result<(Vec<StatusCode>, Vec<StatusCode>), StatusCode>);
    let rows: [Row<'_>; 8] = [
        ("nothing to do", ids[0], &[], &[], Err(StatusCode::BadNothingToDo)),
        ("no such triggering item", 99, &[ids[1]], &[], Err(GONE)),
        ("no such linked item", ids[0], &[99, ids[1]], &[], Ok((vec![GONE, good], vec![]))),
        ("twice is once", ids[0], &[ids[1]], &[], Ok((vec![good], vec![]))),
        ("links are bounded", ids[1], &[ids[2], ids[3]], &[], Ok((vec![good, full], vec![]))),
        ("not linked", ids[0], &[], &[ids[3]], Ok((vec![], vec![GONE]))),
        ("removed first", ids[0], &[ids[3]], &[ids[1]], Ok((vec![good], vec![good]))),
        ("and gone", ids[0], &[], &[ids[1]], Ok((vec![], vec![GONE]))),
    ];
    for (rule, item, add, remove, expected) in rows {
        assert_eq!(link(&mut bench, item, add, remove), expected, "{rule}");
    }
}

/// A link gives no right: the linked item's own node decides, when the value leaves.
#[test]
fn a_triggered_item_reports_only_by_the_right_of_its_own_node() {
    let (mut bench, ..) = triggered(MonitoringMode::Reporting, MonitoringMode::Sampling);
    bench.set(2, 3);
    bench.source.denied.insert(2, true);
    bench.set(1, 5);
    assert_eq!(told_next(&mut bench), [(1, Ok(5)), (2, Err(StatusCode::BadUserAccessDenied))]);
    bench.set(1, 6);
    assert_eq!(told_next(&mut bench), [(1, Ok(6))], "the denial is told once");
    assert_eq!(bench.republish(7, 3), Ok(vec![(1, Ok(6))]));
}

/// Nor does it tell when a value changes that the session may not see.
#[test]
fn an_item_whose_values_may_not_be_seen_triggers_nothing() {
    let (mut bench, ..) = triggered(MonitoringMode::Sampling, MonitoringMode::Sampling);
    bench.source.denied.insert(1, true);
    bench.machine.recheck(&mut bench.source, bench.now);
    bench.set(2, 3);
    bench.set(1, 5);
    assert_eq!(told_next(&mut bench), []);
}

#[test]
fn an_item_that_is_gone_is_not_triggered() {
    let (mut bench, _, two) = triggered(MonitoringMode::Reporting, MonitoringMode::Sampling);
    let request = opcua_types::DeleteMonitoredItemsRequest {
        request_header: RequestHeader::dummy(),
        subscription_id: 7,
        monitored_item_ids: Some(vec![two]),
    };
    bench.machine.delete_items(&request).unwrap();
    bench.set(1, 5);
    assert_eq!(told_next(&mut bench), [(1, Ok(5))]);
}
