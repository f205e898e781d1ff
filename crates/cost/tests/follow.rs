//! Requests that are followed one by one, beside nets that are solved and formulas.

#[allow(dead_code, reason = "words of parallel fragments are for other files")]
mod branches;

use cost::choose::{Estimate, Followed, SEED, follow};
use cost::solve::solve;
use cost::{Class, weave};

use branches::{TWO, changed, loaded, model, within};

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
