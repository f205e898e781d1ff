//! Few runs that carry most of a mean: until they have come the others agree with each other, and on too little.

use gspn::json::{self, Document};
use gspn::simulate::{Estimate, Plan, simulate};
use gspn::{Budget, Class, Limits, Refusal};
use serde_json::{Value, json};

fn read(document: &Value) -> Document {
    json::read(document.to_string().as_bytes()).unwrap()
}

fn estimate(document: &Document, plan: Plan) -> Result<Estimate, Refusal> {
    let found = simulate(&document.net, &document.asks, plan, &mut Budget::new(Limits::default(), &mut |_| true));
    let found = found.unwrap();
    let [ask] = document.asks.as_slice() else { panic!("one question") };
    found.estimates.get(&ask.id).copied().ok_or_else(|| found.unanswered[&ask.id].clone())
}

/// How many of the seeds have an interval that holds `wanted`, and how many say that it is as small as was wanted.
fn covering(document: &Value, wanted: f64, relative: f64, firings: u64, seeds: u64) -> (usize, usize) {
    let document = read(document);
    let found: Vec<Estimate> = (1..=seeds)
        .map(|seed| estimate(&document, Plan { seed, relative, firings }).unwrap_or_else(|refusal| panic!("{refusal}")))
        .collect();
    let inside = found.iter().filter(|it| it.low <= wanted && wanted <= it.high).count();
    assert!(found.iter().all(|it| !it.reached || it.half_width <= 1.01 * relative * it.mean), "{found:?}");
    (inside, found.iter().filter(|it| it.reached).count())
}

fn timed(name: &str, rate: f64, from: &str, to: &str) -> Value {
    json!({"name": name, "kind": "timed", "rate": rate, "in": {from: 1}, "out": {to: 1}})
}

/// One way in `rare` of a hundred lasts long.
fn race(rare: f64, fix: f64) -> Value {
    json!({"net": {"places": [{"name": "a", "tokens": 1}, {"name": "b"}, {"name": "c"}],
        "transitions": [timed("ok", 100.0 - rare, "a", "c"), timed("bad", rare, "a", "b"), timed("fix", fix, "b", "c")]},
        "ask": [{"id": "until", "kind": "passage_mean", "where": [["c", "==", 1]]}]})
}

#[test]
fn a_passage_of_few_long_runs_is_as_wide_as_they_make_it() {
    // Two and a half million runs, of which 25 are long: seven times as many firings are not enough for one percent.
    let (inside, reached) = covering(&race(0.001, 1e-5), 1.01, 0.01, 2_500_000, 20);
    assert_eq!(reached, 0);
    assert!(inside >= 17, "{inside} of 20");
    // Here they are, for every second one of the seeds would else have stopped before a long run came.
    let (inside, reached) = covering(&race(0.05, 0.0005), 1.01, 0.2, 50_000_000, 40);
    assert_eq!(reached, 40);
    assert!(inside >= 34, "{inside} of 40");
    let phases = json!({"net": {"places": [{"name": "a", "tokens": 1}, {"name": "b"}, {"name": "c"}], "transitions": [
        {"name": "h", "kind": "phase", "hyper": [[0.999, 100], [0.001, 0.001]], "in": {"a": 1}, "out": {"b": 1}},
        timed("r", 100.0, "b", "c"), timed("d", 50.0, "c", "a")]},
        "ask": [{"id": "until", "kind": "passage_mean", "where": [["c", "==", 1]]}]});
    let (inside, reached) = covering(&phases, 1.01999, 0.2, 50_000_000, 40);
    assert_eq!(reached, 40);
    assert!(inside >= 34, "{inside} of 40");
}

#[test]
fn tokens_at_a_time_of_few_runs_are_as_uncertain_as_those_make_them() {
    let net = |many: u64, others: u64| {
        json!({"net": {"places": [{"name": "a", "tokens": 1}, {"name": "b"}, {"name": "big"}], "transitions": [
            {"name": "ok", "kind": "immediate", "weight": others, "in": {"a": 1}, "out": {"b": 1}},
            {"name": "bad", "kind": "immediate", "weight": 1, "in": {"a": 1}, "out": {"big": many}},
            {"name": "x", "kind": "timed", "rate": 1, "in": {"b": 1}, "out": {"big": 1}}]},
            "ask": [{"id": "big", "kind": "mean_tokens", "place": "big", "at": 1}]})
    };
    let wanted = |many: f64, others: f64| (many + others * (1.0 - (-1.0_f64).exp())) / (others + 1.0);
    let (inside, reached) = covering(&net(100_000, 99_999), wanted(1e5, 99_999.0), 0.01, 2_000_000, 20);
    assert_eq!(reached, 0);
    assert!(inside >= 17, "{inside} of 20");
    let (inside, reached) = covering(&net(2000, 1999), wanted(2e3, 1999.0), 0.1, 50_000_000, 40);
    assert_eq!(reached, 40);
    assert!(inside >= 34, "{inside} of 40");
}

/// Of a net that is too large to be solved, what has come says how many runs are enough: of the long ones more than a few.
#[test]
fn a_few_long_runs_say_little_of_how_long_they_are() {
    let mut document = race(2.0, 0.02);
    let net = &mut document["net"];
    net["places"].as_array_mut().unwrap().extend([json!({"name": "more", "tokens": 30_000}), json!({"name": "less"})]);
    net["transitions"].as_array_mut().unwrap().push(timed("beside", 1e-9, "more", "less"));
    let (inside, reached) = covering(&document, 1.01, 0.3, 50_000_000, 100);
    assert_eq!(reached, 100);
    assert!(inside >= 88, "{inside} of 100");
}

/// None of the runs stays away for ever, and some would.
#[test]
fn a_passage_that_need_not_come_has_no_mean() {
    let mut document = race(0.001, 1e-5);
    document["net"]["transitions"].as_array_mut().unwrap().truncate(2);
    document["net"]["transitions"][1]["rate"] = json!(1e-9);
    let refusal = estimate(&read(&document), Plan { firings: 1_000_000, ..Plan::default() }).unwrap_err();
    assert_eq!(refusal.class, Class::Unsupported);
    assert!(refusal.why.contains("there is no mean time"), "{refusal}");
}

/// With a fixed time the value alone is known, and is against what short runs agree on.
#[test]
fn runs_that_agree_on_what_is_not_so_are_no_estimate() {
    let mut document = race(0.001, 1e-5);
    document["net"]["transitions"][2] =
        json!({"name": "fix", "kind": "deterministic", "delay": 1e7, "in": {"b": 1}, "out": {"c": 1}});
    let refusal = estimate(&read(&document), Plan { firings: 50_000, seed: 1, relative: 0.05 }).unwrap_err();
    assert_eq!(refusal.class, Class::TooLarge);
    assert!(refusal.why.contains("the runs agree on"), "{refusal}");
}

/// Each question has its own: what is said of one does not hang on the order in which they are asked.
#[test]
fn the_order_of_questions_changes_nothing() {
    let mut document = race(0.05, 0.0005);
    let asks = document["ask"].as_array_mut().unwrap();
    asks.extend([
        json!({"id": "out", "kind": "passage_mean", "where": [["a", "==", 0]]}),
        json!({"id": "at", "kind": "mean_tokens", "place": "b", "at": 0.1}),
        json!({"id": "median", "kind": "passage_quantile", "where": [["c", "==", 1]], "p": 0.5}),
    ]);
    let found = |document: &Value| {
        let document = read(document);
        let plan = Plan { relative: 0.2, ..Plan::default() };
        let found = simulate(&document.net, &document.asks, plan, &mut Budget::new(Limits::default(), &mut |_| true));
        let found = found.unwrap();
        assert!(found.unanswered.is_empty(), "{found:?}");
        found.estimates
    };
    let one = found(&document);
    document["ask"].as_array_mut().unwrap().reverse();
    assert_eq!(one, found(&document));
}

/// What never happens is no reason to begin again and again at the start, which what goes round once in a while has to get away from first.
#[test]
fn beside_what_never_happens_runs_are_long() {
    let document = json!({"net": {"places": [{"name": "a", "tokens": 1}, {"name": "b"}, {"name": "up", "tokens": 1}, {"name": "down"}],
        "transitions": [timed("go", 0.01, "a", "b"), timed("come", 0.01, "b", "a"), timed("fall", 50.0, "up", "down"), timed("rise", 50.0, "down", "up"),
            {"name": "never", "kind": "timed", "rate": 1.0, "in": {"b": 2}, "out": {"a": 2}}]},
        "ask": [{"id": "come", "kind": "throughput", "transition": "come"}, {"id": "never", "kind": "throughput", "transition": "never"}]});
    let document = read(&document);
    let inside = |seed| {
        let plan = Plan { seed, relative: 0.02, firings: 300_000 };
        let found =
            simulate(&document.net, &document.asks, plan, &mut Budget::new(Limits::default(), &mut |_| true)).unwrap();
        assert_eq!(found.unanswered["never"].class, Class::Unsupported);
        let come = found.estimates["come"];
        come.low <= 0.005 && 0.005 <= come.high
    };
    let inside = (1..=40).filter(|seed| inside(*seed)).count();
    assert!(inside >= 36, "{inside} of 40");
}
