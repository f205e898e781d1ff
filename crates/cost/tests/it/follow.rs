//! Requests that are followed one by one, beside nets that are solved and formulas.

#[allow(dead_code, reason = "words of parallel fragments are for other files")]
use cost::choose::{Estimate, Followed, SEED, follow};
use cost::solve::solve;
use cost::{Class, weave};

use crate::branches::{TWO, changed, loaded, model, within};

fn followed(text: &str, seed: u64) -> Followed {
    within(|budget| follow(&model(text), seed, budget)).unwrap_or_else(|fault| panic!("{fault}\n{text}"))
}

/// Half an interval more than the interval: of a dozen figures one lies outside of it now and then.
fn holds(what: &str, got: Estimate, wanted: f64) {
    assert!((got.value - wanted).abs() <= 1.5 * got.plus_minus, "{what}: {got:?}, and {wanted} is wanted");
    assert!(got.plus_minus <= 0.02 * got.value, "{what}: {got:?} says little");
}

const ONE: &str = "[workload]\narrivals = \"60/s\"\nroom = 500\n[node.a]\n[component.x]\nnode = \"a\"\n\
    [[sequence.main]]\ndo = \"it\"\nby = \"x\"\ntime = \"10 ms\"\n";

#[test]
fn one_queue_has_the_percentiles_of_its_formula() {
    let found = followed(ONE, SEED);
    // Poisson arrivals, exponential times, one server: what a request takes is exponential, too.
    let rate = 100.0 - 60.0;
    for (what, got, level) in [("p50", found.p50, 0.5), ("p95", found.p95, 0.95), ("p99", found.p99, 0.99)] {
        holds(what, got, -f64::ln(1.0 - level) / rate);
    }
    holds("mean", found.mean, 1.0 / rate);
    assert_eq!((found.throughput.value, found.turned_away.value), (60.0, 0.0));
    assert!((found.nodes[0].utilisation - 0.6).abs() < 1e-12, "{:?}", found.nodes);
    assert_eq!(followed(ONE, SEED), found);
    assert_ne!(followed(ONE, SEED + 1).mean, found.mean);
}

#[test]
fn a_net_that_can_be_solved_says_the_same() {
    let pool = "[pool.lines]\nsize = 1\n[[sequence.far]]\nacquire = \"lines\"\n[[sequence.far]]\ndo = \"held\"\nby = \"x\"\ntime = \"5 ms\"\n[[sequence.far]]\nrelease = \"lines\"\n";
    for load in ["clients = 3\nthink = \"15 ms\"", "arrivals = \"35/s\"\nroom = 3"] {
        let text = loaded(load) + pool;
        let solved = within(|budget| solve(&weave(&model(&text)), budget)).unwrap();
        let found = followed(&text, 7);
        holds("mean", found.mean, solved.response);
        holds("throughput", found.throughput, solved.throughput);
        if solved.turned_away > 0.0 {
            assert!((found.turned_away.value - solved.turned_away).abs() <= 1.5 * found.turned_away.plus_minus);
        }
        for (got, wanted) in found.nodes.iter().zip(&solved.nodes) {
            assert!((got.utilisation - wanted.utilisation).abs() <= 0.01, "{got:?} {wanted:?}");
        }
    }
}

#[test]
fn what_takes_no_time_has_no_long_run() {
    let closed = changed(ONE, &[("arrivals = \"60/s\"\nroom = 500", "clients = 3"), ("time = \"10 ms\"", "time = 0")]);
    let solved = within(|budget| solve(&weave(&model(&closed)), budget)).unwrap_err();
    let found = within(|budget| follow(&model(&closed), SEED, budget)).unwrap_err();
    assert_eq!((&solved, solved.class), (&found, Class::Invalid));
    assert!(solved.why.starts_with("nothing in it takes time: give a step a time"), "{solved}");
}

/// Clients who think, and arrivals, are a long run though what they ask for is done at once.
#[test]
fn what_takes_no_time_is_done_at_once_where_time_passes_between_requests() {
    for load in ["clients = 1\nthink = \"10 ms\"", "clients = 3\nthink = \"30 ms\"", "arrivals = \"100/s\"\nroom = 4"] {
        for threads in ["", "\nthreads = 1"] {
            let load = format!("{load}{threads}");
            let text =
                changed(ONE, &[("time = \"10 ms\"", "time = 0"), ("arrivals = \"60/s\"\nroom = 500", load.as_str())]);
            let solved = within(|budget| solve(&weave(&model(&text)), budget)).unwrap();
            let found = followed(&text, SEED);
            let rates = [found.throughput.value, solved.throughput].map(|rate| (rate / 100.0 - 1.0).abs() < 1e-9);
            assert_eq!((rates, solved.response), ([true, true], 0.0), "{load}: {found:?} {solved:?}");
            let nothing = Estimate { value: 0.0, plus_minus: 0.0 };
            assert_eq!([found.mean, found.p50, found.p95, found.p99], [nothing; 4], "{load}");
            assert_eq!((found.nodes[0].utilisation, found.turned_away.value), (0.0, 0.0), "{load}");
        }
    }
}

/// More requests inside of a parallel fragment than have places of their own; nobody waits, so that all take as long as one alone.
#[test]
fn what_is_too_large_a_net_is_followed() {
    let text = changed(
        TWO,
        &[
            ("[node.a]", "[node.a]\ncores = 50"),
            ("[node.b]", "[node.b]\ncores = 50"),
            ("clients = 1", "clients = 40\nthink = \"20 ms\""),
        ],
    );
    let refused = within(|budget| solve(&weave(&model(&text)), budget)).unwrap_err();
    assert_eq!((refused.class, refused.name.as_str()), (Class::TooLarge, "par"));
    let (one, other) = (0.01, 0.02);
    let longer = one + other - 1.0 / (1.0 / one + 1.0 / other);
    let found = followed(&text, SEED);
    holds("mean", found.mean, longer);
    holds("throughput", found.throughput, 40.0 / (0.02 + longer));
    // The longer of two: the product of both distributions.
    let share = |time: f64| (1.0 - f64::exp(-time / one)) * (1.0 - f64::exp(-time / other));
    for (what, got, level) in [("p50", found.p50, 0.5), ("p95", found.p95, 0.95), ("p99", found.p99, 0.99)] {
        let near = [-1.5, 1.5].map(|way| share(got.value + way * got.plus_minus));
        assert!(near[0] <= level && level <= near[1], "{what}: {got:?}");
    }
}

/// After years of simulated time there are digits left for a microsecond.
#[test]
fn what_is_short_and_rare_is_not_lost_in_the_time_between() {
    let rare = |load: &str, time: &str| {
        let text = changed(ONE, &[("arrivals = \"60/s\"\nroom = 500", load), ("10 ms", time)]);
        followed(&text, 3)
    };
    for (load, time, mean) in [
        ("clients = 1\nthink = \"24 h\"", "1 us", 1e-6),
        ("arrivals = \"1/h\"\nroom = 5", "20 ns", 20e-9),
        ("arrivals = \"1e-9/s\"\nroom = 3\nthreads = 1", "5 ms", 5e-3),
    ] {
        let found = rare(load, time);
        holds(load, found.mean, mean);
        for (what, got, level) in [("p50", found.p50, 0.5), ("p95", found.p95, 0.95), ("p99", found.p99, 0.99)] {
            holds(what, got, -f64::ln(1.0 - level) * mean);
        }
    }
}

/// A lock in front of the only core: who waits for either is served as he came, so that each waits for all others.
#[test]
fn who_waits_for_a_pool_is_served_as_he_came() {
    let steps = "[pool.k]\nsize = 1\n[[sequence.main]]\nacquire = \"k\"\n[[sequence.main]]\ndo = \"s\"\nby = \"x\"\ntime = \"5 ms\"\n\
        [[sequence.main]]\nrelease = \"k\"\n[[sequence.main]]\ndo = \"t\"\nby = \"x\"\ntime = \"3 ms\"\n";
    let text = changed(ONE, &[("arrivals = \"60/s\"\nroom = 500", "clients = 4")]);
    let text = text.split("[[sequence.main]]").next().unwrap().to_owned() + steps;
    let found = followed(&text, SEED);
    holds("mean", found.mean, 0.032);
    // Four exponential times of 5 ms and four of 3 ms: by their convolution.
    for (what, got, wanted) in [("p50", found.p50, 0.030_54), ("p95", found.p95, 0.053_34), ("p99", found.p99, 0.065_5)]
    {
        holds(what, got, wanted);
    }
}
