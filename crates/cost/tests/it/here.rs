//! Predictions for the machine at hand: what holds of them whatever was measured.

use cost::Class;
use cost::calibration::{Calibration, Step, fit};
use cost::reproduce::here::{Prediction, Setting, by_net, predict};
use gspn::{Budget, Limits};

use crate::measured;

const MICRO: f64 = 1e-6;

/// Steps with these microseconds, none of which varies.
fn calibration(steps: &[(&str, u64, f64)]) -> Calibration {
    let each = |(name, bytes, time): &(&str, u64, f64)| {
        let times = [time * MICRO, time * MICRO];
        measured::step(name, *bytes, &times, &times)
    };
    let steps: Vec<Step> = steps.iter().map(each).collect();
    let law = |name: &str| fit(&steps.iter().filter(|step| step.name() == name).collect::<Vec<_>>());
    let laws = ["encrypt aes-256-cbc", "decrypt aes-256-cbc"].into_iter().filter_map(law).collect();
    measured::calibration(steps, laws)
}

fn usual() -> Vec<(&'static str, u64, f64)> {
    vec![
        ("generate tag", 1500, 60.0),
        ("hash sha-256", 1500, 2.0),
        ("sign rsa-2048", 0, 300.0),
        ("encrypt aes-256-cbc", 1000, 1.0),
        ("encrypt aes-256-cbc", 2000, 2.0),
        ("decrypt aes-256-cbc", 1000, 1.0),
        ("decrypt aes-256-cbc", 2000, 1.5),
        ("encrypt rsa-2048", 0, 20.0),
        ("decrypt rsa-2048", 0, 280.0),
        ("generateKey", 0, 1.0),
        ("combineKeys", 0, 1.0),
        ("write message", 1500, 10.0),
        ("write message-awake", 1500, 6.0),
        ("read message", 1500, 3.0),
        ("write answer", 1500, 8.0),
        ("write answer-awake", 1500, 5.0),
        ("read answer", 1500, 2.0),
        ("exchange message", 1500, 33.0),
        ("exchange organisation", 1500, 15.0),
        ("exchange store", 1500, 13.0),
        ("store sqlite", 1500, 100.0),
        ("lose processor", 0, 0.0),
        ("lose interruption", 0, 0.0),
        ("lose neighbour", 0, 0.0),
        ("lose neighbour-sqlite", 0, 0.0),
    ]
}

fn setting(configuration: &str, clients: u32, period: u64) -> Setting {
    let (configuration, database) = (configuration.to_owned(), "sqlite".to_owned());
    Setting { configuration, key: 2048, database, clients, period, tag: 1500 }
}

fn predicted(steps: &[(&str, u64, f64)], setting: &Setting) -> Prediction {
    let mut go_on = |_| true;
    predict(&calibration(steps), setting, &mut Budget::new(Limits::default(), &mut go_on)).unwrap()
}

fn net(setting: &Setting) -> f64 {
    let mut go_on = |_| true;
    by_net(&calibration(&usual()), setting, &mut Budget::new(Limits::default(), &mut go_on)).unwrap()
}

fn near(here: f64, wanted: f64, relative: f64, what: &str) {
    assert!((here / wanted - 1.0).abs() <= relative, "{what}: {here} instead of {wanted}");
}

#[test]
fn one_client_waits_for_the_sum_of_all_steps() {
    // 60 + 10 + 3 + 100 + 8 + 2 and twice 5 until somebody is awake; signed 302 more; encrypted 1.758 and 1.379 more on 1756 bytes.
    for (configuration, micros) in [("SC0", 193.0), ("SC1", 495.0), ("SC2", 498.134)] {
        let it = predicted(&usual(), &setting(configuration, 1, 0));
        near(it.throughput, 1e6 / micros, 1e-4, configuration);
        near(net(&setting(configuration, 1, 0)), it.throughput, 1e-9, "the net");
        near(it.p95, micros * MICRO, 1e-4, "p95");
        // 3 and 2 for going to sleep and waking up, and nobody computes in the 10 until they are awake.
        near(it.processor, (micros - 10.0 + 5.0) * MICRO, 1e-4, "processor");
    }
}

#[test]
fn many_clients_are_served_as_fast_as_the_busier_node_allows_and_wait_for_all_before_them() {
    for (configuration, busiest) in [("SC0", 111.0), ("SC1", 374.0)] {
        for clients in [8, 64] {
            let it = predicted(&usual(), &setting(configuration, clients, 0));
            near(it.throughput, 1e6 / busiest, 0.002, configuration);
            near(net(&setting(configuration, clients, 0)), it.throughput, 0.01, "the net");
            near(it.p95, busiest * MICRO * f64::from(clients), 0.01, "p95");
        }
    }
}

#[test]
fn each_end_loses_of_its_own_speed_what_it_loses_while_the_other_works() {
    // Alone, the store would have 111 for each and the organisation 68 meanwhile; signing, the organisation has 374, and the store 111.
    for (rule, configuration, organisation, store, micros) in [
        ("the store has most to do", "SC0", 0.0, 0.2, 111.0 / (1.0 - 0.2 * 68.0 / 111.0)),
        ("what the other loses costs nothing", "SC0", 0.2, 0.0, 111.0),
        ("nor here", "SC1", 0.0, 0.2, 374.0),
        ("the organisation has most to do", "SC1", 0.2, 0.0, 374.0 / (1.0 - 0.2 * 111.0 / 374.0)),
    ] {
        let lost = |(name, bytes, micros): (&'static str, u64, f64)| match name {
            "lose neighbour" => (name, bytes, organisation / MICRO),
            "lose neighbour-sqlite" => (name, bytes, store / MICRO),
            _ => (name, bytes, micros),
        };
        let steps: Vec<_> = usual().into_iter().map(lost).collect();
        let it = predicted(&steps, &setting(configuration, 8, 0));
        near(it.throughput, 1e6 / micros, 0.003, rule);
        // One client's ends work one after the other.
        near(predicted(&steps, &setting("SC0", 1, 0)).throughput, 1e6 / 193.0, 1e-4, rule);
    }
}

#[test]
fn a_processor_that_is_away_when_a_message_comes_costs_a_share_of_the_time_in_which_somebody_waits() {
    let mut steps = usual();
    steps.extend([("lose asleep", 1500, 0.03 / MICRO), ("lose asleep-after-50us", 1500, 0.01 / MICRO)]);
    // One client's ends wait for each other at any time; of several clients the busier end never does.
    for (configuration, clients, period, share) in
        [("SC0", 1, 0, 0.98), ("SC1", 1, 0, 0.98), ("SC2", 1, 4, 0.98), ("SC0", 8, 0, 1.0), ("SC1", 64, 0, 1.0)]
    {
        let setting = setting(configuration, clients, period);
        let (before, it) = (predicted(&usual(), &setting), predicted(&steps, &setting));
        near(it.throughput, before.throughput * share, 1e-3, configuration);
        near(it.processor, before.processor, 1e-3, "nobody computes meanwhile");
        near(it.p95, before.p95 / share, 2e-3, "p95");
        assert!(it.parameters.iter().any(|name| name == "lose asleep-after-50us"), "{:?}", it.parameters);
    }
    // Whatever a calibration says, somebody is back some time.
    steps.push(("lose asleep-after-1500us", 1500, 1e6 / MICRO));
    let it = predicted(&steps, &setting("SC1", 1, 0));
    assert!(it.throughput > 0.0 && it.p95.is_finite(), "{it:?}");
}

#[test]
fn a_step_takes_as_long_as_after_the_time_that_lies_between_two_of_it() {
    let mut steps = usual();
    steps.extend([("store sqlite-asleep-250us", 1500, 120.0), ("store sqlite-asleep-1500us", 1500, 140.0)]);
    // The store of one client sleeps before each tag: 20 more up to 250 after the last, which is at 350 from begin to begin; and 40 at 1500,
    // by the logarithm of the time: of x microseconds, 515 + 20 ln((x - 100) / 250) / ln 6.
    for (configuration, micros) in [("SC0", 213.0), ("SC1", 520.812)] {
        let one = setting(configuration, 1, 0);
        let it = predicted(&steps, &one);
        near(it.throughput, 1e6 / micros, 1e-4, configuration);
        near(it.p95, micros * MICRO, 1e-4, "p95");
        assert!(it.parameters.iter().any(|name| name == "store sqlite-asleep-250us"), "{:?}", it.parameters);
    }
    // The store of 64 clients does nothing else, and never sleeps: 111 for each, of which 11 without it.
    near(predicted(&steps, &setting("SC0", 64, 0)).throughput, 1e6 / 111.0, 0.002, "one after the other");
    let mut steps = usual();
    steps.extend([("write message-after-1500us", 1500, 12.5), ("exchange message-after-1500us", 1500, 35.5)]);
    near(predicted(&steps, &setting("SC0", 1, 0)).throughput, 1e6 / 193.0, 1e-4, "messages are timed with pauses");
    // An exchange takes 33 of 496.
    let more = 2.5 * (463.0_f64 / 250.0).ln() / 6.0_f64.ln();
    near(predicted(&steps, &setting("SC1", 1, 0)).throughput, 1e6 / (495.0 + more), 1e-4, "and longer ones");
}

/// Lines that are used in turn are not as much in the caches as one line.
#[test]
fn messages_of_several_clients_take_as_long_as_over_as_many_lines() {
    let mut steps = usual();
    for lines in ["-among-64", "-after-15us-among-64"] {
        let more = |(name, bytes, time): &(&'static str, u64, f64)| {
            let message = name.starts_with("write ") || name.starts_with("read ");
            message.then(|| (&*format!("{name}{lines}").leak(), *bytes, time + 1.5))
        };
        steps.extend(usual().iter().filter_map(more));
    }
    let every = |clients| 1e6 / predicted(&steps, &setting("SC0", clients, 0)).throughput;
    near(every(64), 111.0 + 3.0, 0.002, "the store reads and writes");
    near(every(8), 111.0, 0.002, "as over one line, where others were not timed");
    near(every(1), 193.0, 1e-4, "one line");
    let it = predicted(&steps, &setting("SC0", 64, 0));
    assert!(it.parameters.iter().any(|name| name == "read message-among-64"), "{:?}", it.parameters);
}

/// No exchange was timed where messages follow each other at once, where a write is shorter: what is in an exchange beside its writes and
/// reads stays what it is.
#[test]
fn sleeping_takes_as_much_processor_time_where_a_write_is_shorter() {
    // Short ones are no shorter than they ever were.
    let predicted = |later: &[(&str, u64, f64)], clients: u32| {
        let mut steps = calibration(&[&usual()[..], later].concat());
        let can_be_short = ["write message", "write message-among-8", "write answer", "exchange store"];
        for step in steps.steps.iter_mut().filter(|step| can_be_short.contains(&step.name().as_str())) {
            step.wall.min = 1.0 * MICRO;
        }
        let mut go_on = |_| true;
        predict(&steps, &setting("SC0", clients, 0), &mut Budget::new(Limits::default(), &mut go_on)).unwrap()
    };
    // What is not in the seconds that the organisation works is going to sleep and waking up: it does so for each tag, 111 us after the last.
    let sleeping = |later: &[(&str, u64, f64)]| {
        let it = predicted(later, 8);
        it.processor - it.at_store - it.organisation / it.throughput
    };
    let among = [("write message-among-8", 1500, 10.0), ("exchange organisation-among-8", 1500, 15.0)];
    let shorter = [&among[..], &[("write message-after-15us-among-8", 1500, 4.0)]].concat();
    near(sleeping(&among), 3.0 * MICRO, 0.01, "as it is");
    near(sleeping(&shorter), 3.0 * MICRO, 0.01, "a shorter write");
    // Where an exchange was timed after as short a pause, it is compared with a write after the same: 11.9 with a read of 3 and a write of 7.2.
    let it = predicted(&[("write answer-after-50us", 1500, 4.0), ("exchange store-after-50us", 1500, 8.0)], 1);
    near(it.at_store - it.store / it.throughput, 1.69 * MICRO, 0.05, "both are shorter");
}

/// What interrupts a processor is measured by itself, and stands in the timings of steps that are long enough to hold it.
#[test]
fn an_interruption_counts_once() {
    let with = |lost: f64, interruption: f64| -> Vec<_> {
        let change = |(name, bytes, time)| match name {
            "lose processor" => (name, bytes, lost / MICRO),
            "lose interruption" => (name, bytes, interruption),
            _ => (name, bytes, time),
        };
        usual().into_iter().map(change).collect()
    };
    let every = |steps: &[_]| 1e6 / predicted(steps, &setting("SC1", 64, 0)).throughput;
    // 374, of which the signature has 300: one of 400 is held by it and by nothing else, one of a second by nothing.
    near(every(&with(0.1, 1e6)), 374.0 / 0.9, 1e-3, "left out of all steps, and lost");
    near(every(&with(0.1, 400.0)), (374.0 - 0.1 * 300.0) / 0.9, 1e-3, "in the signature");
    near(every(&with(0.1, 1.0)), 374.0, 1e-3, "in all steps");
}

/// One that is misspelt would be no price, and nobody would know.
#[test]
fn a_step_after_a_pause_or_over_lines_that_nothing_looks_for_is_refused() {
    for (name, bytes, class, part) in [
        ("store sqlite-after-25us", 1500, Class::Unknown, "known: -after-5us"),
        ("store sqlite-after-250", 1500, Class::Unknown, "`-after-250`"),
        ("store sqlite-asleep-50us", 1500, Class::Unknown, "known: -after-5us"),
        ("store sqlit-after-250us", 1500, Class::NoPrice, "`store sqlit` on 1500 bytes"),
        ("store sqlite-after-250us", 1600, Class::NoPrice, "on 1600 bytes"),
        ("read message-among-1", 1500, Class::Unknown, "`-among-1` is no number of lines"),
        ("read message-among-all", 1500, Class::Unknown, "`-among-all`"),
        ("read message-after-25us-among-8", 1500, Class::Unknown, "known: -after-5us"),
        ("read message-among-8", 1600, Class::NoPrice, "`read message` on 1600 bytes"),
    ] {
        let mut steps = usual();
        steps.push((name, bytes, 120.0));
        let mut go_on = |_| true;
        let mut budget = Budget::new(Limits::default(), &mut go_on);
        let fault = predict(&calibration(&steps), &setting("SC0", 1, 0), &mut budget).expect_err(name);
        assert_eq!((fault.class, fault.name.as_str()), (class, name));
        assert!(fault.to_string().contains(part), "{fault}");
    }
}

#[test]
fn two_ends_that_are_as_fast_keep_each_other_awake_and_sending_costs_less() {
    let with = |wake: f64, store: f64| -> Vec<_> {
        let change = |(name, bytes, time)| match name {
            "generate tag" => (name, bytes, 95.0),
            "store sqlite" => (name, bytes, store),
            "exchange message" => (name, bytes, 23.0 + 2.0 * wake),
            _ => (name, bytes, time),
        };
        usual().into_iter().map(change).collect()
    };
    let every = |wake, store| 1e6 / predicted(&with(wake, store), &setting("SC0", 8, 0)).throughput;
    // The store takes 8 to wake the organisation, which has 103 to do for a tag when nobody sleeps, and 5 when it does not sleep.
    assert!((every(2.0, 107.0) - 118.0).abs() < 0.1, "it sleeps whenever it waits: {}", every(2.0, 107.0));
    assert!((every(2.0, 97.0) - 105.0).abs() < 0.1, "it still sends when the next answer comes: {}", every(2.0, 97.0));
    assert!((105.0..107.0).contains(&every(40.0, 97.0)), "while it wakes up, they come: {}", every(40.0, 97.0));
    let processor = |store| predicted(&with(2.0, store), &setting("SC0", 8, 0)).processor - store * MICRO;
    assert!(processor(97.0) < processor(107.0) - 2.0 * MICRO, "{} {}", processor(97.0), processor(107.0));
}

#[test]
fn an_exchange_of_keys_costs_its_share_and_is_what_the_slowest_wait_for() {
    let (none, tenth) = (predicted(&usual(), &setting("SC2", 1, 0)), predicted(&usual(), &setting("SC2", 1, 10)));
    let added = 1e6 / tenth.throughput - 1e6 / none.throughput;
    // A tenth of two wraps, two unwraps, two halves, two combined keys, two writes and reads; and of the ways, three in the net.
    near(added, 0.1 * (40.0 + 560.0 + 2.0 + 2.0 + 20.0 + 6.0 + 15.0), 0.01, "an exchange");
    assert!(tenth.p95 > none.p95 + 500.0 * MICRO, "one in ten is slower: {} {}", none.p95, tenth.p95);
}

#[test]
fn what_was_not_measured_is_named_and_only_what_is_needed_is_counted() {
    let signed = predicted(&usual(), &setting("SC1", 8, 0));
    assert!(signed.parameters.iter().any(|name| name == "sign rsa-2048"));
    assert!(signed.parameters.iter().all(|name| !name.contains("aes")), "{:?}", signed.parameters);
    let without: Vec<_> = usual().into_iter().filter(|(name, ..)| *name != "sign rsa-2048").collect();
    let mut go_on = |_| true;
    let mut budget = Budget::new(Limits::default(), &mut go_on);
    let fault = predict(&calibration(&without), &setting("SC1", 1, 0), &mut budget).unwrap_err();
    assert_eq!((fault.class, fault.name.as_str()), (Class::NoPrice, "sign rsa-2048"));
    let fault = predict(&calibration(&usual()), &setting("SC9", 1, 0), &mut budget).unwrap_err();
    assert_eq!(fault.class, Class::NoSuchName);
    predict(&calibration(&without), &setting("SC0", 1, 0), &mut budget).unwrap();
}
