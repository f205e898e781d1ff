//! Items: when a value is looked at, what of it is reported, and the bounds.

use opcua_types::{DeleteMonitoredItemsRequest, SetMonitoringModeRequest};

use super::*;

fn mode(subscription_id: u32, id: u32, monitoring_mode: MonitoringMode) -> SetMonitoringModeRequest {
    SetMonitoringModeRequest {
        request_header: RequestHeader::dummy(),
        subscription_id,
        monitoring_mode,
        monitored_item_ids: Some(vec![id]),
    }
}

fn all_told(bench: &mut Bench) -> Vec<Told> {
    bench.publish();
    bench.pass(100 * MS);
    let answers = bench.answers();
    answers.into_iter().flat_map(|(_, response)| told(&response.unwrap().notification_message)).collect()
}

#[test]
fn interval_zero_reports_every_change() {
    let mut bench = Bench::new();
    bench.subscribe(7);
    bench.monitor(7, 1, 0.0, 10);
    for number in [1, 1, 2, 3] {
        bench.set(1, number);
    }
    assert_eq!(all_told(&mut bench), [(1, Ok(0)), (1, Ok(1)), (1, Ok(2)), (1, Ok(3))]);
}

#[test]
fn a_sampling_interval_coalesces_changes_and_ends_with_the_last() {
    let mut bench = Bench::new();
    bench.subscribe(7);
    bench.monitor(7, 1, 20.0, 10);
    let looked = bench.source.samples;
    for number in 1..=9 {
        bench.pass(5 * MS);
        bench.set(1, number);
    }
    bench.pass(20 * MS);
    // The first look gave 0; then every 20 ms the value of that moment: 45 ms of changes are two or three looks.
    let told: Vec<i32> = all_told(&mut bench).into_iter().filter_map(|(_, number)| number.ok()).collect();
    assert_eq!(told.first(), Some(&0));
    assert_eq!(told.last(), Some(&9));
    assert!(told.len() <= 5, "{told:?}");
    bench.pass(1_000 * MS);
    let quiet = bench.source.samples;
    bench.pass(1_000 * MS);
    assert_eq!(bench.source.samples, quiet, "a quiet value is not looked at");
    assert!(quiet > looked);
}

#[test]
fn a_change_after_a_pause_is_taken_at_once() {
    let mut bench = Bench::new();
    bench.subscribe(7);
    bench.monitor(7, 1, 500.0, 10);
    bench.pass(700 * MS);
    bench.set(1, 4);
    bench.publish_times(3);
    bench.pass(100 * MS);
    let told: Vec<Told> =
        bench.answers().into_iter().flat_map(|(_, response)| told(&response.unwrap().notification_message)).collect();
    assert!(told.contains(&(1, Ok(4))), "{told:?}");
}

#[test]
fn a_computed_value_is_sampled_in_cycles() {
    let mut bench = Bench::new();
    bench.source.computed.insert(1, true);
    bench.subscribe(7);
    bench.monitor(7, 1, 20.0, 10);
    assert_eq!(bench.machine.poll_watch(), None);
    bench.source.values.insert(1, 5);
    bench.pass(20 * MS);
    bench.source.values.insert(1, 6);
    bench.pass(20 * MS);
    assert_eq!(all_told(&mut bench), [(1, Ok(0)), (1, Ok(5)), (1, Ok(6))]);
}

#[test]
fn disabled_forgets_sampling_queues_reporting_reports() {
    let mut bench = Bench::new();
    bench.subscribe(7);
    let id = bench.monitor_as(7, 1, MonitoringMode::Sampling, 0.0, 3).monitored_item_id;
    bench.set(1, 1);
    assert_eq!(all_told(&mut bench), []);
    let set = |bench: &mut Bench, to| bench.machine.set_monitoring_mode(&mode(7, id, to), &mut bench.source, bench.now);
    assert_eq!(set(&mut bench, MonitoringMode::Reporting), Ok(vec![StatusCode::Good]));
    assert_eq!(all_told(&mut bench), [(1, Ok(0)), (1, Ok(1))]);
    bench.set(1, 2);
    set(&mut bench, MonitoringMode::Disabled).unwrap();
    bench.set(1, 3);
    assert_eq!(all_told(&mut bench), []);
    bench.set(1, 3);
    set(&mut bench, MonitoringMode::Reporting).unwrap();
    assert_eq!(all_told(&mut bench), [(1, Ok(3))]);
}

#[test]
fn deleted_items_say_nothing_more_and_free_their_place() {
    let mut bench = Bench::with(SubscriptionLimits { max_items: 1, ..SubscriptionLimits::default() });
    bench.subscribe(7);
    let id = bench.monitor(7, 1, 0.0, 3);
    let refused = bench.monitor_as(7, 2, MonitoringMode::Reporting, 0.0, 3);
    assert_eq!(refused.status_code, StatusCode::BadTooManyMonitoredItems);
    let request = DeleteMonitoredItemsRequest {
        request_header: RequestHeader::dummy(),
        subscription_id: 7,
        monitored_item_ids: Some(vec![id, id]),
    };
    assert_eq!(bench.machine.delete_items(&request), Ok(vec![StatusCode::Good, StatusCode::BadMonitoredItemIdInvalid]));
    let watch: Vec<WatchChange> = std::iter::from_fn(|| bench.machine.poll_watch()).collect();
    assert_eq!(watch, [WatchChange::Added(NodeRef(1)), WatchChange::Removed(NodeRef(1))]);
    bench.monitor(7, 2, 0.0, 3);
    assert_eq!(all_told(&mut bench), [(2, Ok(0))]);
}

#[test]
fn queues_share_one_budget() {
    let limits = SubscriptionLimits { max_queued_values: 12, max_queue_size: 10, ..SubscriptionLimits::default() };
    let mut bench = Bench::with(limits);
    bench.subscribe(7);
    let sizes: Vec<u32> = [99, 5, 5]
        .into_iter()
        .map(|size| bench.monitor_as(7, 1, MonitoringMode::Reporting, 0.0, size).revised_queue_size)
        .collect();
    assert_eq!(sizes, [10, 2, 1]);
}

#[test]
fn sampling_intervals_are_revised() {
    let mut bench = Bench::new();
    bench.source.computed.insert(2, true);
    bench.subscribe(7);
    // node (2 is computed), requested => revised; the publishing interval is 100 ms
    for (node, requested, revised) in [
        (1, 0.0, 0.0),
        (2, 0.0, 5.0),
        (1, -1.0, 100.0),
        (2, -1.0, 100.0),
        (1, 1.0, 5.0),
        (1, 250.0, 250.0),
        (1, f64::NAN, 100.0),
        (1, f64::INFINITY, 86_400_000.0),
    ] {
        let result = bench.monitor_as(7, node, MonitoringMode::Reporting, requested, 1);
        assert_eq!(result.revised_sampling_interval, revised, "node {node}, {requested}");
    }
}

#[test]
fn timestamps_are_those_that_were_asked_for() {
    use TimestampsToReturn as T;
    for (wanted, source, server) in
        [(T::Source, true, false), (T::Server, false, true), (T::Both, true, true), (T::Neither, false, false)]
    {
        let mut bench = Bench::new();
        bench.subscribe(7);
        let request = CreateMonitoredItemsRequest {
            request_header: RequestHeader::dummy(),
            subscription_id: 7,
            timestamps_to_return: wanted,
            items_to_create: Some(vec![MonitoredItemCreateRequest {
                item_to_monitor: ReadValueId { node_id: NodeId::new(1, 1_u32), attribute_id: 13, ..Default::default() },
                monitoring_mode: MonitoringMode::Reporting,
                requested_parameters: MonitoringParameters::default(),
            }]),
        };
        bench.machine.create_items(&request, &mut bench.source, bench.now).unwrap();
        bench.publish();
        bench.pass(100 * MS);
        let response = bench.answer();
        let parts = response.notification_message.notification_data.unwrap();
        let values = parts[0].inner_as::<DataChangeNotification>().unwrap();
        let value = &values.monitored_items.as_ref().unwrap()[0].value;
        assert_eq!(
            (value.source_timestamp.is_some(), value.server_timestamp.is_some()),
            (source, server),
            "{wanted:?}"
        );
    }
}

#[test]
fn an_index_range_cuts_and_a_range_without_data_is_a_status() {
    let mut bench = Bench::new();
    bench.subscribe(7);
    let request = CreateMonitoredItemsRequest {
        request_header: RequestHeader::dummy(),
        subscription_id: 7,
        timestamps_to_return: TimestampsToReturn::Both,
        items_to_create: Some(vec![MonitoredItemCreateRequest {
            item_to_monitor: ReadValueId {
                node_id: NodeId::new(1, 1_u32),
                attribute_id: 13,
                index_range: "3".parse().unwrap(),
                ..Default::default()
            },
            monitoring_mode: MonitoringMode::Reporting,
            requested_parameters: MonitoringParameters::default(),
        }]),
    };
    bench.machine.create_items(&request, &mut bench.source, bench.now).unwrap();
    assert_eq!(all_told(&mut bench), [(0, Err(StatusCode::BadIndexRangeNoData))]);
}

#[test]
fn requests_without_work_or_with_nonsense_fail_as_a_whole() {
    let mut bench = Bench::new();
    bench.subscribe(7);
    let mut request = CreateMonitoredItemsRequest {
        request_header: RequestHeader::dummy(),
        subscription_id: 7,
        timestamps_to_return: TimestampsToReturn::Both,
        items_to_create: None,
    };
    let mut create = |request: &_| bench.machine.create_items(request, &mut bench.source, bench.now);
    assert_eq!(create(&request), Err(StatusCode::BadNothingToDo));
    request.timestamps_to_return = TimestampsToReturn::Invalid;
    assert_eq!(create(&request), Err(StatusCode::BadTimestampsToReturnInvalid));
    request.subscription_id = 8;
    assert_eq!(create(&request), Err(StatusCode::BadSubscriptionIdInvalid));
}
