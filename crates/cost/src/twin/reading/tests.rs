//! What is taken out of a text, what is between two, and what no Trapkey says.

use super::super::exposition::{Histogram, read};
use super::*;

fn text(activations: u64, seconds: f64, cpu: f64) -> String {
    format!(
        "# TYPE trapkey_build info\ntrapkey_build_info{{version=\"1\"}} 1\n\
         # TYPE trapkey_session_setup_seconds histogram\n# UNIT trapkey_session_setup_seconds seconds\n\
         trapkey_session_setup_seconds_sum{{listener=\"m\",kind=\"server\",stage=\"activate_here\"}} {seconds}\n\
         trapkey_session_setup_seconds_count{{listener=\"m\",kind=\"server\",stage=\"activate_here\"}} {activations}\n\
         trapkey_session_setup_seconds_bucket{{le=\"0.1\",listener=\"m\",kind=\"server\",stage=\"activate_here\"}} {activations}\n\
         trapkey_session_setup_seconds_bucket{{le=\"+Inf\",listener=\"m\",kind=\"server\",stage=\"activate_here\"}} {activations}\n\
         # TYPE trapkey_decisions counter\ntrapkey_decisions_total{{listener=\"m\",kind=\"server\"}} 10\n\
         # TYPE trapkey_listener_cpu_seconds counter\n# UNIT trapkey_listener_cpu_seconds seconds\n\
         trapkey_listener_cpu_seconds_total{{listener=\"m\",kind=\"server\"}} {cpu}\n# EOF\n"
    )
}

fn reading(activations: u64, seconds: f64, cpu: f64, at: f64) -> Reading {
    Reading::of(&read(&text(activations, seconds, cpu)).unwrap(), at).unwrap()
}

#[test]
fn what_happened_between_two_looks_is_their_difference() {
    let (one, two) = (reading(10, 0.5, 1.0, 100.0), reading(14, 0.9, 1.5, 110.0));
    let span = two.since(&one).unwrap();
    let sum = span.stages[&Place { listener: "m".into(), what: What::Activate }];
    assert_eq!((span.from, span.to, sum.count), (100.0, 110.0, 4.0));
    assert!((sum.seconds - 0.4).abs() < 1e-12 && (sum.variation() - 0.01).abs() < 1e-9, "{sum:?}");
    assert_eq!(span.threads["m"], Thread { cpu: 0.5, items: 0.0 });
}

/// Times of another speed long ago are scaled by what they were off, and not by what the later ones are.
#[test]
fn how_times_spread_between_two_looks_does_not_hang_on_what_was_before() {
    let of = |slow: f64, fast: f64, seconds: f64| {
        let buckets = [(0.001, 0.0), (0.0025, fast), (0.01, fast), (0.025, fast + slow), (f64::INFINITY, fast + slow)];
        counted::counted(&Histogram { buckets: buckets.to_vec(), sum: Some(seconds), count: Some(fast + slow) })
            .unwrap()
    };
    for (rule, slow, each) in
        [("slower before", 4_900.0, 0.011), ("at the upper end before", 4_900.0, 0.0249), ("nothing before", 0.0, 0.0)]
    {
        let before = of(slow, 0.0, slow * each);
        let mut last = before;
        for look in 1..=5 {
            let fast = 400.0 * f64::from(look);
            let now = of(slow, fast, slow * each + fast * 0.00235);
            let sum = now.since(&last).unwrap();
            assert!((sum.variation() - 0.01).abs() < 1e-6, "{rule}: {}", sum.variation());
            last = now;
        }
        // A fifth of the next ones is slow.
        let next = of(slow + 200.0, 2_800.0, slow * each + 2_800.0 * 0.00235 + 200.0 * 0.02);
        let variation = next.since(&last).unwrap().variation();
        assert!((1.2..2.2).contains(&variation), "{rule}: {variation}");
    }
}

#[test]
fn a_program_that_was_started_anew_is_no_difference() {
    let one = reading(10, 0.5, 1.0, 0.0);
    for (rule, two) in [
        ("fewer were counted", reading(9, 0.6, 1.5, 1.0)),
        ("they took less", reading(10, 0.4, 1.5, 1.0)),
        ("the thread is new", reading(10, 0.5, 0.5, 1.0)),
    ] {
        assert_eq!(two.since(&one), None, "{rule}");
    }
    let gone = Reading { stages: BTreeMap::new(), ..reading(10, 0.5, 1.0, 1.0) };
    assert!(gone.since(&one).is_some(), "who is silent about a stage was not started anew");
    assert!(reading(10, 0.5, 1.0, 1.0).since(&one).is_some(), "no traffic is no restart");
}

#[test]
fn what_says_that_it_was_started_at_another_time_is_another_program() {
    let told = |seconds: &str| {
        let gauge = "# TYPE trapkey_start_time_seconds gauge\ntrapkey_start_time_seconds ";
        let text = text(10, 0.5, 1.0).replace("# EOF", &format!("{gauge}{seconds}\n# EOF"));
        Reading::of(&read(&text).unwrap(), 1.0)
    };
    let at = |seconds: &str| told(seconds).unwrap();
    for none in ["NaN", "+Inf", "-1"] {
        assert_eq!(told(none).unwrap_err().class, Class::Invalid, "{none}");
    }
    let one = at("1700000000.125");
    assert!(at("1700000000.125").since(&one).is_some());
    assert_eq!(at("1700000000.126").since(&one), None, "nothing is smaller, and it is another");
    assert_eq!(reading(10, 0.5, 1.0, 2.0).since(&one), None, "one that does not say it is another than one that does");
}

#[test]
fn what_no_trapkey_says_is_refused() {
    let whole = text(10, 0.5, 1.0);
    for (rule, from, to, class) in [
        ("a name that clears the screen", "listener=\"m\"", "listener=\"\u{1b}[2J\"", Class::Invalid),
        ("a name of two lines", "listener=\"m\"", "listener=\"m\\nALARM\"", Class::Invalid),
        ("a name that runs backwards", "listener=\"m\"", "listener=\"m\u{202e}\"", Class::Invalid),
        ("a time without end", "stage=\"activate_here\"} 0.5", "stage=\"activate_here\"} +Inf", Class::Invalid),
        ("counts without end", "} 10\n", "} +Inf\n", Class::Invalid),
        (
            "more time than the buckets hold",
            "stage=\"activate_here\"} 0.5",
            "stage=\"activate_here\"} 1000000",
            Class::Invalid,
        ),
        ("times of another type", "setup_seconds histogram", "setup_seconds gaugehistogram", Class::Invalid),
        (
            "a counter of another type",
            "TYPE trapkey_decisions counter",
            "TYPE trapkey_decisions unknown",
            Class::Invalid,
        ),
    ] {
        let lie = whole.replace(from, to);
        assert_ne!(lie, whole, "{rule}");
        let fault = Reading::of(&read(&lie).unwrap(), 0.0).unwrap_err();
        assert_eq!(fault.class, class, "{rule}: {fault}");
    }
    let long = whole.replace("listener=\"m\"", &format!("listener=\"{}\"", "m".repeat(MAX_NAME + 1)));
    assert_eq!(Reading::of(&read(&long).unwrap(), 0.0).unwrap_err().class, Class::Invalid);
    let block = |kind: &str| {
        let labels = format!("listener=\"m\",kind=\"{kind}\"");
        format!("trapkey_token_seconds_count{{{labels}}} 1\ntrapkey_token_seconds_bucket{{{labels},le=\"+Inf\"}} 1\n")
    };
    let two = format!("# TYPE trapkey_token_seconds histogram\n{}{}# EOF", block("guard"), block("server"));
    let two = whole.replace("# EOF", &two);
    assert_eq!(Reading::of(&read(&two).unwrap(), 0.0).unwrap_err().class, Class::Doubled);
    let many: String = (0..=MAX_STAGES).map(|n| format!("trapkey_sessions{{listener=\"{n}\"}} 1\n")).collect();
    let many = whole.replace("# EOF", &format!("# TYPE trapkey_sessions gauge\n{many}# EOF"));
    assert_eq!(Reading::of(&read(&many).unwrap(), 0.0).unwrap_err().class, Class::TooLarge);
}

/// Times in buckets up to 1 ms, 10 ms, and above.
fn buckets(counts: [u64; 3], seconds: f64) -> Result<Reading, Fault> {
    let name = "trapkey_upstream_latency_seconds";
    let [one, ten, all] = [counts[0], counts[0] + counts[1], counts.iter().sum()];
    let text = format!(
        "# TYPE trapkey_build info\ntrapkey_build_info{{version=\"1\"}} 1\n# TYPE trapkey_start_time_seconds gauge\n\
         trapkey_start_time_seconds 5\n# TYPE {name} histogram\n{name}_sum {seconds}\n{name}_count {all}\n\
         {name}_bucket{{le=\"0.001\"}} {one}\n{name}_bucket{{le=\"0.01\"}} {ten}\n{name}_bucket{{le=\"+Inf\"}} {all}\n# EOF\n"
    );
    Reading::of(&read(&text).unwrap(), 1.0)
}

#[test]
fn a_sum_is_one_that_its_buckets_can_hold() {
    // Counts, seconds, whether that can be: but for eight times that were counted while somebody looked.
    for (counts, seconds, sound) in [
        ([0, 0, 0], 0.0, true),
        ([1_000, 0, 0], 0.5, true),
        ([1_000, 0, 0], 1.005, true),
        ([1_000, 0, 0], 1.5, false),
        ([0, 1_000, 0], 5.0, true),
        ([0, 1_000, 0], 11.0, false),
        ([0, 1_000, 0], 0.5, false),
        ([0, 1_000, 1], 1e6, true),
        ([0, 0, 1_000], 9.95, true),
        ([0, 0, 1_000], 5.0, false),
    ] {
        assert_eq!(buckets(counts, seconds).is_ok(), sound, "{counts:?} {seconds}");
    }
    // A long life has room for much; what happened between two looks has not.
    let before = buckets([0, 1_000_000, 0], 5_000.0).unwrap();
    for (more, sound) in [(5.0, true), (10.05, true), (11.0, false), (0.5, false), (1_000.0, false)] {
        let span = buckets([0, 1_001_000, 0], 5_000.0 + more).unwrap().since(&before).unwrap();
        assert_eq!((span.stages.len(), span.contradictions.len()), if sound { (1, 0) } else { (0, 1) }, "{more}");
    }
}

#[test]
fn other_programs_are_refused_and_places_have_names() {
    let other = read("# TYPE a gauge\na 1\n# EOF\n").unwrap();
    assert_eq!(Reading::of(&other, 0.0).unwrap_err().class, Class::Missing);
    for what in What::ALL {
        for listener in ["", "mixer", "two words"] {
            let place = Place { listener: listener.into(), what };
            let is = listener.is_empty() == matches!(what, What::LedgerWrite | What::Issue);
            assert_eq!(Place::of(&place.to_string()), is.then_some(place), "{listener} {what:?}");
        }
    }
    assert_eq!(Place::of("mixer nothing"), None);
}
