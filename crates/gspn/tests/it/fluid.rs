//! Flows: what is linear is exact, what saturates is close and says how close, and what flows do not tell is not printed.

use gspn::ask::{self, Value};
use gspn::fluid::{Fluids, fluid};
use gspn::{Budget, Class, Limits, Refusal, json};
use serde_json::json;

fn of(document: &serde_json::Value) -> Result<Fluids, Refusal> {
    let document = json::read(document.to_string().as_bytes()).unwrap();
    fluid(&document.net, &document.asks, &mut Budget::new(Limits::default(), &mut |_| true))
}

fn clients(count: u64, servers: u64, rate: f64, ask: &serde_json::Value) -> serde_json::Value {
    json!({"net": {
    "places": [{"name": "thinking", "tokens": count}, {"name": "arrived"}, {"name": "queue"}],
    "transitions": [
        {"name": "ask", "kind": "timed", "servers": "inf", "rate": 0.5, "in": {"thinking": 1}, "out": {"arrived": 1}},
        {"name": "again", "kind": "immediate", "weight": 1, "in": {"arrived": 1}, "out": {"thinking": 1}},
        {"name": "enter", "kind": "immediate", "weight": 3, "in": {"arrived": 1}, "out": {"queue": 1}},
        {"name": "serve", "kind": "timed", "servers": servers, "rate": rate, "in": {"queue": 1}, "out": {"thinking": 1}},
    ]}, "ask": ask})
}

/// With a server for everybody the means are those of a linear equation, whatever the number of tokens.
#[test]
fn tokens_that_do_not_meet_flow_as_their_means() {
    let ask = json!([
        {"id": "queue", "kind": "mean_tokens", "place": "queue", "at": 0.9},
        {"id": "enters", "kind": "throughput", "transition": "enter", "at": 0.9},
        {"id": "stays", "kind": "throughput", "transition": "again", "at": 0.9},
        {"id": "later", "kind": "mean_tokens", "place": "queue"},
    ]);
    let found = of(&clients(4000, 4000, 2.0, &ask)).unwrap();
    let (come, go) = (0.5 * 0.75, 2.0);
    let queue = 4000.0 * come / (come + go) * (1.0 - (-(come + go) * 0.9_f64).exp());
    for (id, wanted) in
        [("queue", queue), ("enters", come * (4000.0 - queue)), ("stays", come / 3.0 * (4000.0 - queue))]
    {
        let fluid = &found.fluid[id];
        assert!((fluid.value - wanted).abs() <= 1e-5 * wanted, "{id}: {fluid:?}, and {wanted} is wanted");
        assert!(fluid.error <= 1e-4, "{id}: {fluid:?}");
        assert_eq!(fluid.checked.iter().map(|checked| checked.by).collect::<Vec<_>>(), ["solved", "solved"]);
    }
    assert_eq!(found.unanswered["later"].class, Class::Unsupported);
}

/// Servers that saturate: the exact mean of the whole population lies within what smaller ones promise.
#[test]
fn the_error_of_a_flow_is_what_smaller_populations_say() {
    let ask = json!([
        {"id": "soon", "kind": "mean_tokens", "place": "queue", "at": 1.0},
        {"id": "later", "kind": "mean_tokens", "place": "queue", "at": 6.0},
        {"id": "served", "kind": "throughput", "transition": "serve", "at": 6.0},
    ]);
    let document = clients(1600, 200, 1.5, &ask);
    let found = of(&document).unwrap();
    let document = json::read(document.to_string().as_bytes()).unwrap();
    let exact = ask::answer(&document.net, &document.asks, &mut Budget::new(Limits::default(), &mut |_| true)).unwrap();
    for id in ["soon", "later", "served"] {
        let Value::Number(exact) = exact.values[id] else { panic!("{id}") };
        let fluid = &found.fluid[id];
        assert!(
            (fluid.value - exact).abs() <= fluid.error * exact + 1e-5 * exact,
            "{id}: {fluid:?}, and {exact} is exact"
        );
        assert!(fluid.error <= 0.1, "{id}: {fluid:?}");
    }
}

/// How many flows are told of a net, each no farther off its exact value than its error, as a part of the flow.
fn told_within(document: &serde_json::Value, slack: f64) -> usize {
    let found = of(document).unwrap();
    let read = json::read(document.to_string().as_bytes()).unwrap();
    let exact = ask::answer(&read.net, &read.asks, &mut Budget::new(Limits::default(), &mut |_| true)).unwrap();
    for (id, fluid) in &found.fluid {
        let Value::Number(exact) = exact.values[id] else { panic!("{id}") };
        let off = (fluid.value - exact).abs() / fluid.value;
        assert!(off <= fluid.error + slack, "{id}: {fluid:?}, and {exact} is exact: {document}");
    }
    found.fluid.len()
}

/// Where a flow rests at the bend of its servers, chance takes away there what it adds elsewhere: the larger of the smaller populations may be near
/// its own flow for nothing.
#[test]
fn at_a_bend_the_error_holds_though_the_distance_changes_its_sign() {
    let mut told = 0;
    for (tokens, servers, rate, out, back) in [
        (1200, 300, 3.0, 3, 2),
        (1000, 500, 1.0, 1, 1),
        (1200, 200, 0.2, 1, 4),
        (1200, 300, 1.0, 2, 1),
        (1200, 600, 1.0, 1, 2),
    ] {
        let back_servers = if tokens == 1000 { json!(servers) } else { json!("inf") };
        let document = json!({"net": {"places": [{"name": "a", "tokens": tokens}, {"name": "b"}], "transitions": [
            {"name": "t", "kind": "timed", "rate": 1, "servers": servers, "in": {"a": out}, "out": {"b": out}},
            {"name": "u", "kind": "timed", "rate": rate, "servers": back_servers, "in": {"b": back}, "out": {"a": back}}]},
            "ask": [{"id": "a", "kind": "mean_tokens", "place": "a", "at": 60}, {"id": "b", "kind": "mean_tokens", "place": "b", "at": 60},
                {"id": "t", "kind": "throughput", "transition": "t", "at": 60}]});
        told += told_within(&document, 0.0);
    }
    assert!(told >= 12, "{told}");
}

/// Servers that cannot be divided as the tokens are: smaller populations have as many as come next, the net itself is looked at, or there is no
/// value; the error holds in any case.
#[test]
fn servers_that_do_not_divide_have_an_error_that_holds() {
    let ask = json!([
        {"id": "queue", "kind": "mean_tokens", "place": "queue", "at": 20.0},
        {"id": "served", "kind": "throughput", "transition": "serve", "at": 20.0},
    ]);
    let mut told = 0;
    for (count, servers, rate) in [(600, 31, 7.2), (120, 43, 0.66), (400, 7, 22.0), (240, 119, 0.4), (600, 599, 0.1)] {
        let document = clients(count, servers, rate, &ask);
        told += told_within(&document, 1e-9);
    }
    assert!(told >= 5, "{told}");
}

/// Where the whole net is looked at, the error is just what it is off: as a part of the flow, and not of the mean, which is more.
#[test]
fn an_error_is_a_part_of_the_flow() {
    let document = json!({"net": {"places": [{"name": "a", "tokens": 500}, {"name": "b"}], "transitions": [
        {"name": "two", "kind": "timed", "rate": 3, "servers": 62, "in": {"a": 2}, "out": {"b": 2}},
        {"name": "one", "kind": "timed", "rate": 12.5, "in": {"a": 1}, "out": {"b": 1}},
        {"name": "back", "kind": "timed", "rate": 1, "servers": 31, "in": {"b": 1}, "out": {"a": 1}}]},
        "ask": [{"id": "a", "kind": "mean_tokens", "place": "a", "at": 4}]});
    assert_eq!(told_within(&document, 1e-5), 1);
}

/// What has nearly gone is known as well as what is left, however many there were.
#[test]
fn what_decays_is_as_near_as_it_says() {
    for count in [1000_u64, 10_000_000] {
        let document = json!({"net": {"places": [{"name": "a", "tokens": count}, {"name": "b"}], "transitions": [
            {"name": "t", "kind": "timed", "servers": "inf", "rate": 1, "in": {"a": 1}, "out": {"b": 1}}]},
            "ask": [{"id": "early", "kind": "mean_tokens", "place": "a", "at": 0.3},
                {"id": "late", "kind": "mean_tokens", "place": "a", "at": 12}]});
        let found = of(&document).unwrap();
        for (id, time) in [("early", 0.3_f64), ("late", 12.0)] {
            #[expect(clippy::cast_precision_loss, reason = "ten millions")]
            let wanted = count as f64 * (-time).exp();
            let fluid = found.fluid.get(id).unwrap_or_else(|| panic!("{found:?}"));
            let off = (fluid.value - wanted).abs() / wanted;
            assert!(off <= fluid.error && fluid.error < 1e-3, "{count} {id}: {fluid:?}, and {wanted} is exact");
        }
    }
}

/// A single server that is busy half of its time: its queue is made by chance alone, of which a flow has none.
#[test]
fn a_queue_that_only_chance_makes_is_not_printed() {
    let ask = json!([{"id": "queue", "kind": "mean_tokens", "place": "queue", "at": 200.0}]);
    let found = of(&clients(64, 1, 48.0, &ask)).unwrap();
    assert!(found.fluid.is_empty(), "{found:?}");
    assert_eq!(found.unanswered["queue"].class, Class::Unsupported);
}

/// Rates a million apart are no reason for small steps.
#[test]
fn stiff_flows_come_to_rest() {
    let document = json!({"net": {
    "places": [{"name": "a", "tokens": 64}, {"name": "b"}, {"name": "c"}],
    "transitions": [
        {"name": "forth", "kind": "timed", "servers": "inf", "rate": 1e5, "in": {"a": 1}, "out": {"b": 1}},
        {"name": "back", "kind": "timed", "servers": "inf", "rate": 3e5, "in": {"b": 1}, "out": {"a": 1}},
        {"name": "bc", "kind": "timed", "servers": "inf", "rate": 0.4, "in": {"b": 1}, "out": {"c": 1}},
        {"name": "cb", "kind": "timed", "servers": "inf", "rate": 0.1, "in": {"c": 1}, "out": {"b": 1}},
    ]}, "ask": [{"id": "c", "kind": "mean_tokens", "place": "c", "at": 1000.0}]});
    let found = of(&document).unwrap();
    let fluid = found.fluid.get("c").unwrap_or_else(|| panic!("{found:?}"));
    assert!((fluid.value - 32.0).abs() < 1e-3, "{fluid:?}");
}

/// A time that no steps lead to takes nothing from those before it.
#[test]
fn a_time_that_is_never_come_to_is_refused_by_itself() {
    let ask = |id: &str, at: f64| json!({"id": id, "kind": "mean_tokens", "place": "b", "at": at});
    let found = of(&json!({"net": {"places": [{"name": "a", "tokens": 6000}, {"name": "b"}], "transitions": [
        {"name": "forth", "kind": "timed", "servers": "inf", "rate": 1, "in": {"a": 1}, "out": {"b": 1}},
        {"name": "back", "kind": "timed", "servers": "inf", "rate": 2, "in": {"b": 1}, "out": {"a": 1}}]},
        "ask": [ask("soon", 0.5), ask("late", 1e300), ask("rest", 100.0)]}))
    .unwrap();
    for (id, value) in [("soon", 2_000.0 * (1.0 - (-1.5_f64).exp())), ("rest", 2_000.0)] {
        let fluid = found.fluid.get(id).unwrap_or_else(|| panic!("{found:?}"));
        assert!((fluid.value - value).abs() < 1e-3, "{fluid:?}");
    }
    let late = &found.unanswered["late"];
    assert_eq!((late.class, late.name.as_str()), (Class::TooLarge, "late"), "{late:?}");
}

#[test]
fn what_is_no_flow_is_refused_by_name() {
    let mut document = clients(10, 1, 1.0, &json!([{"id": "q", "kind": "mean_tokens", "place": "queue", "at": 1.0}]));
    document["net"]["transitions"][3]["inhibit"] = json!({"thinking": 9});
    let refused = of(&document).unwrap_err();
    assert_eq!((refused.class, refused.name.as_str()), (Class::Unsupported, "serve"));
}

fn queue(asks: &serde_json::Value, others: &[serde_json::Value]) -> serde_json::Value {
    let mut transitions = vec![
        json!({"name": "go", "kind": "timed", "rate": 2.0, "in": {"queue": 1}, "out": {"left": 1}}),
        json!({"name": "forget", "kind": "timed", "servers": "inf", "rate": 1.0, "in": {"left": 1}}),
    ];
    transitions.extend(others.iter().cloned());
    json!({"net": {"places": [{"name": "queue", "tokens": 400}, {"name": "left"}], "transitions": transitions}, "ask": asks})
}

/// Who comes from nowhere comes for ever: a flow for that has no population behind it that ends.
#[test]
fn what_gathers_tokens_is_no_flow() {
    let asks = json!([{"id": "q", "kind": "mean_tokens", "place": "queue", "at": 1.0}]);
    let comes = json!({"name": "come", "kind": "timed", "rate": 1.0, "out": {"queue": 1}});
    let refused = of(&queue(&asks, &[comes])).unwrap_err();
    assert_eq!((refused.class, refused.name.as_str()), (Class::Unbounded, "queue"));
    assert_eq!(refused.trace, ["come"]);
    // Two come back for one that left: it takes three firings to see.
    let doubles = json!({"name": "double", "kind": "timed", "servers": "inf", "rate": 0.1, "in": {"left": 1}, "out": {"queue": 2}});
    let refused = of(&queue(&asks, &[doubles])).unwrap_err();
    assert_eq!(refused.class, Class::Unbounded);
    assert!(refused.trace.contains(&"double".to_owned()), "{:?}", refused.trace);
}

/// Tokens that only become fewer, which no sum that stays the same tells.
#[test]
fn what_only_leaves_is_a_flow() {
    let asks = json!([{"id": "left", "kind": "mean_tokens", "place": "left", "at": 0.5}]);
    let mut document = queue(&asks, &[]);
    document["net"]["transitions"][0]["servers"] = json!("inf");
    let fluid = &of(&document).unwrap().fluid["left"];
    // Each by itself: served at rate 2, forgotten at rate 1.
    let wanted = 400.0 * 2.0 * ((-0.5_f64).exp() - (-1.0_f64).exp());
    assert!((fluid.value - wanted).abs() <= 1e-5 * wanted, "{fluid:?}, and {wanted} is wanted");
}

/// No weights say so, and the first markings do not: whether tokens end is left open, and no number is printed.
#[test]
fn what_is_not_known_to_end_is_refused() {
    let document = json!({"net": {
    "places": [{"name": "a", "tokens": 40_000}, {"name": "b"}, {"name": "c"}],
    "transitions": [
        {"name": "ab", "kind": "timed", "servers": "inf", "rate": 1.0, "in": {"a": 1}, "out": {"b": 1}},
        {"name": "grow", "kind": "timed", "rate": 1.0, "in": {"b": 50_000}, "out": {"b": 50_000, "c": 1}},
    ]}, "ask": [{"id": "c", "kind": "mean_tokens", "place": "c", "at": 1.0}]});
    let refused = of(&document).unwrap_err();
    assert_eq!((refused.class, refused.name.as_str()), (Class::Unsupported, "c"));
}

/// Servers that are tokens, and weights times the tokens that wait, say the same as servers that are a number and weights alone.
#[test]
fn servers_and_weights_by_tokens_flow_as_those_without() {
    let ask = json!([
        {"id": "thinking", "kind": "mean_tokens", "place": "thinking", "at": 3.0},
        {"id": "queue", "kind": "mean_tokens", "place": "queue", "at": 3.0},
        {"id": "enters", "kind": "throughput", "transition": "enter", "at": 3.0},
        {"id": "served", "kind": "throughput", "transition": "serve", "at": 3.0},
    ]);
    let plain = of(&clients(1600, 200, 1.5, &ask)).unwrap();
    let mut document = clients(1600, 200, 1.5, &ask);
    let net = &mut document["net"];
    net["places"].as_array_mut().unwrap().extend([json!({"name": "busy"}), json!({"name": "free", "tokens": 200})]);
    let transitions = net["transitions"].as_array_mut().unwrap();
    for at in [1, 2] {
        transitions[at]["weight_by"] = json!("arrived");
    }
    transitions[3] = json!({"name": "serve", "kind": "timed", "servers": "inf", "rate": 1.5, "in": {"busy": 1}, "out": {"thinking": 1, "free": 1}});
    transitions.push(json!({"name": "take", "kind": "immediate", "in": {"queue": 1, "free": 1}, "out": {"busy": 1}}));
    let asks = document["ask"].as_array_mut().unwrap();
    for place in ["busy", "free"] {
        asks.push(json!({"id": place, "kind": "mean_tokens", "place": place, "at": 3.0}));
    }
    let found = of(&document).unwrap();
    let value = |found: &Fluids, id: &str| found.fluid.get(id).unwrap_or_else(|| panic!("{id}: {found:?}")).value;
    for id in ["thinking", "enters", "served"] {
        let (one, other) = (value(&plain, id), value(&found, id));
        assert!((one - other).abs() <= 1e-9 * one, "{id}: {one} and {other}");
    }
    let (waiting, busy) = (value(&found, "queue"), value(&found, "busy"));
    assert!((waiting + busy - value(&plain, "queue")).abs() <= 1e-9 * waiting, "{found:?}");
    assert!((busy - 200.0).abs() < 1e-9, "{found:?}");
    let document = json::read(document.to_string().as_bytes()).unwrap();
    let exact = ask::answer(&document.net, &document.asks, &mut Budget::new(Limits::default(), &mut |_| true)).unwrap();
    for (id, fluid) in &found.fluid {
        let Value::Number(exact) = exact.values[id] else { panic!("{id}") };
        assert!(
            (fluid.value - exact).abs() <= fluid.error * exact + 1e-5 * exact,
            "{id}: {fluid:?}, and {exact} is exact"
        );
    }
}

/// One weight times the tokens and one without: they share by how many there are.
#[test]
fn a_share_that_hangs_on_the_tokens_is_no_flow() {
    let ask = json!([{"id": "q", "kind": "mean_tokens", "place": "queue", "at": 1.0}]);
    let mut document = clients(16, 2, 1.5, &ask);
    document["net"]["transitions"][2]["weight_by"] = json!("arrived");
    let refused = of(&document).unwrap_err();
    assert_eq!((refused.class, refused.name.as_str()), (Class::Unsupported, "enter"));
}
