//! Random lives of a session against a simple model of what a client may see.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const NODES: u32 = 4;

#[derive(Clone, Debug)]
enum Event {
    Change(u32),
    Deny(u32),
    Allow(u32),
    /// The grant ends although single rights stay as they are.
    Silence,
    Recheck,
    Publish(bool),
    Republish(u32),
    Pass(u16),
    Add(u32, bool),
    Resubscribe,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0..NODES).prop_map(Event::Change),
        1 => (0..NODES).prop_map(Event::Deny),
        1 => (0..NODES).prop_map(Event::Allow),
        1 => Just(Event::Silence),
        2 => Just(Event::Recheck),
        6 => any::<bool>().prop_map(Event::Publish),
        1 => (0_u32..20).prop_map(Event::Republish),
        6 => (0_u16..250).prop_map(Event::Pass),
        1 => ((0..NODES), any::<bool>()).prop_map(|(node, every)| Event::Add(node, every)),
        1 => Just(Event::Resubscribe),
    ]
}

/// What the model knows: the numbers grow by one with every change anywhere, so a number tells when it was current.
struct Model {
    clock: i32,
    /// Values older than this were obtained under rights that ended since, by node.
    floor: BTreeMap<u32, i32>,
    /// The last number told, by subscription and node. One item for each pair.
    last: BTreeMap<(u32, u32), i32>,
    sequences: BTreeMap<u32, u32>,
    open: BTreeSet<u32>,
    /// Acknowledge these next.
    seen: Vec<SubscriptionAcknowledgement>,
}

fn check(bench: &mut Bench, model: &mut Model) {
    for (request, outcome) in bench.answers() {
        assert!(model.open.remove(&request), "answered twice or never asked");
        let Ok(response) = outcome else { continue };
        let (id, message) = (response.subscription_id, &response.notification_message);
        if ended_with(message).is_some() {
            continue;
        }
        let expected = *model.sequences.entry(id).or_insert(1);
        assert_eq!(message.sequence_number, expected, "messages are numbered without a gap");
        let told = told(message);
        if message.notification_data.is_some() {
            assert!(!told.is_empty(), "a message that is no keep-alive says something");
            model.sequences.insert(id, expected + 1);
            model.seen.push(acknowledge(id, expected));
        }
        for (node, number) in told {
            let Ok(number) = number else {
                model.last.remove(&(id, node));
                continue;
            };
            let floor = model.floor.get(&node).copied().unwrap_or(0);
            assert!(number >= floor, "value {number} of node {node} was obtained before {floor}");
            let last = model.last.insert((id, node), number);
            assert!(last.is_none_or(|last| number > last), "values arrive in order, none twice");
        }
    }
}

fn run(events: Vec<Event>) {
    let mut bench = Bench::with(SubscriptionLimits { max_publish_requests: 5, ..SubscriptionLimits::default() });
    let mut model = Model {
        clock: 0,
        floor: BTreeMap::new(),
        last: BTreeMap::new(),
        sequences: BTreeMap::new(),
        open: BTreeSet::new(),
        seen: Vec::new(),
    };
    let mut subscription = 1;
    let mut monitored = BTreeSet::new();
    bench.subscribe_with(subscription, 0, 3);
    for event in events {
        match event {
            Event::Change(node) => {
                model.clock += 1;
                bench.set(node, model.clock);
            }
            Event::Deny(node) => {
                bench.source.denied.insert(node, true);
                bench.machine.recheck(&mut bench.source, bench.now);
                model.floor.insert(node, model.clock + 1);
            }
            Event::Allow(node) => {
                if bench.source.denied.remove(&node).is_some() {
                    let present = bench.source.values.get(&node).copied().unwrap_or(0);
                    model.floor.insert(node, present);
                    bench.machine.recheck(&mut bench.source, bench.now);
                }
            }
            Event::Silence => {
                bench.machine.silence();
                for node in 0..NODES {
                    model.floor.insert(node, bench.source.values.get(&node).copied().unwrap_or(0));
                }
            }
            Event::Recheck => bench.machine.recheck(&mut bench.source, bench.now),
            Event::Publish(acknowledging) => {
                let seen = if acknowledging { std::mem::take(&mut model.seen) } else { Vec::new() };
                let request = bench.publish_with(Some(&seen));
                model.open.insert(request);
            }
            Event::Republish(sequence) => {
                for (node, number) in bench.republish(subscription, sequence).unwrap_or_default() {
                    assert!(bench.source.may(NodeRef(node)) || number.is_err());
                    let floor = model.floor.get(&node).copied().unwrap_or(0);
                    assert!(number.is_ok_and(|number| number >= floor) || number.is_err());
                }
            }
            Event::Pass(milliseconds) => bench.pass(u32::from(milliseconds) * MS),
            Event::Add(node, every) => {
                if !bench.machine.is_empty() && monitored.insert(node) {
                    bench.monitor(subscription, node, if every { 0.0 } else { 50.0 }, 4);
                }
            }
            Event::Resubscribe => {
                if bench.machine.is_empty() {
                    subscription += 1;
                    monitored.clear();
                    bench.subscribe_with(subscription, 0, 3);
                }
            }
        }
        check(&mut bench, &mut model);
    }
    // With every right back and requests enough, the client ends up with the present values.
    for node in std::mem::take(&mut bench.source.denied).into_keys() {
        model.floor.insert(node, bench.source.values.get(&node).copied().unwrap_or(0));
    }
    bench.machine.recheck(&mut bench.source, bench.now);
    for _ in 0..10 {
        let request = bench.publish();
        model.open.insert(request);
        bench.pass(60 * MS);
        check(&mut bench, &mut model);
    }
    if !bench.machine.is_empty() {
        for node in monitored {
            let present = bench.source.values.get(&node).copied().unwrap_or(0);
            assert_eq!(model.last.get(&(subscription, node)), Some(&present), "node {node}");
        }
    }
    bench.machine.close(StatusCode::BadSessionClosed);
    check(&mut bench, &mut model);
    assert!(model.open.is_empty(), "every request has an answer in the end");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_client_sees_ordered_values_it_had_a_right_to_and_in_the_end_the_present(
        events in prop::collection::vec(event(), 1..80)
    ) {
        run(events);
    }
}
