//! JANI: a Markov chain or automaton.

use gspn::Class;
use gspn::formats::{Format, read, write};

use super::net;

/// The value of a JANI expression in a marking.
fn value(expression: &serde_json::Value, marking: &dyn Fn(&str) -> f64) -> f64 {
    let of = |key: &str| value(&expression[key], marking);
    let truth = |it: bool| f64::from(u8::from(it));
    match expression {
        serde_json::Value::String(name) => marking(name),
        serde_json::Value::Bool(it) => truth(*it),
        serde_json::Value::Number(number) => number.as_f64().unwrap(),
        _ => match expression["op"].as_str().unwrap() {
            "+" => of("left") + of("right"),
            "*" => of("left") * of("right"),
            "/" => of("left") / of("right"),
            "floor" => of("exp").floor(),
            "∧" | "min" => of("left").min(of("right")),
            "∨" => of("left").max(of("right")),
            "≥" => truth(of("left") >= of("right")),
            "<" => truth(of("left") < of("right")),
            ">" => truth(of("left") > of("right")),
            "=" => truth((of("left") - of("right")).abs() < 0.5),
            "ite" if of("if") > 0.5 => of("then"),
            "ite" => of("else"),
            other => panic!("{other}"),
        },
    }
}

/// It is JSON, too: what is written says what it is when it is given back.
#[test]
fn jani_that_is_read_says_that_it_is_only_written() {
    let net = net(r#"{"net": {"places": [{"name": "A", "tokens": 1}], "transitions": [
        {"name": "a", "kind": "timed", "rate": 1, "in": {"A": 1}, "out": {"A": 1}}]}}"#);
    let jani = write(&net, Format::Jani).unwrap();
    let refusal = read(jani.as_bytes(), Format::of(jani.as_bytes()).unwrap(), &[]).unwrap_err();
    assert_eq!((refusal.class, refusal.name.as_str()), (Class::Unsupported, "document"), "{refusal}");
    assert!(refusal.why.starts_with("this is JANI") && refusal.why.contains("PNPRO"), "{refusal}");
}

/// In a Markov automaton Storm keeps one of two timed edges from a state to the same other.
#[test]
fn jani_has_one_timed_edge_for_each_change_of_a_markov_automaton() {
    let timed = r#"
        {"name": "a", "kind": "timed", "rate": 1, "in": {"A": 1}, "out": {"B": 1}},
        {"name": "b", "kind": "timed", "rate": 2, "in": {"A": 1}, "out": {"B": 1}},
        {"name": "few", "kind": "timed", "rate": 8, "in": {"B": 1}, "out": {"A": 1}, "inhibit": {"B": 3}},
        {"name": "many", "kind": "timed", "rate": 16, "servers": "inf", "in": {"B": 2}, "out": {"A": 1, "B": 1}},
        {"name": "table", "kind": "timed", "rate_by_tokens": {"place": "B", "rates": [0, 0, 32]}, "in": {"B": 1}, "out": {"A": 1}},
        {"name": "still", "kind": "timed", "rate": 64, "in": {"A": 1}, "out": {"A": 1}},
        {"name": "idle", "kind": "timed", "rate": 128, "in": {"B": 1}, "out": {"B": 1}}"#;
    let edges = |more: &str| {
        let net = net(&format!(
            r#"{{"net": {{"places": [{{"name": "A", "tokens": 1}}, {{"name": "B"}}, {{"name": "C"}}], "transitions": [{timed}{more}]}}}}"#
        ));
        let jani: serde_json::Value = serde_json::from_str(&write(&net, Format::Jani).unwrap()).unwrap();
        (jani["type"].clone(), jani["automata"][0]["edges"].as_array().unwrap().clone())
    };
    let (sort, alone) = edges("");
    assert_eq!((sort, alone.len()), ("ctmc".into(), 7));
    let (sort, edges) = edges(r#", {"name": "i", "kind": "immediate", "in": {"C": 1}, "out": {"A": 1}}"#);
    assert_eq!((sort, edges.len()), ("ma".into(), 4));
    let both = serde_json::json!({"op": "+", "left": 1.0, "right": 2.0});
    assert_eq!(edges[0]["rate"]["exp"], both, "what is enabled together has no conditions");
    let rates = |a: f64, b: f64| {
        [0, 1, 2].map(|edge| {
            let marking = |name: &str| if name == "A" { a } else { b };
            let [guard, rate] = ["guard", "rate"].map(|part| value(&edges[edge][part]["exp"], &marking));
            if guard > 0.5 { rate } else { 0.0 }
        })
    };
    assert_eq!(rates(0.0, 0.0), [0.0, 0.0, 0.0]);
    assert_eq!(rates(1.0, 0.0), [3.0, 0.0, 64.0]);
    assert_eq!(rates(0.0, 1.0), [0.0, 8.0, 128.0]);
    assert_eq!(rates(1.0, 2.0), [3.0, 8.0 + 16.0 + 32.0, 192.0]);
    assert_eq!(rates(0.0, 4.0), [0.0, 32.0 + 32.0, 128.0]);
}

/// Thousands of conditions each inside the next would be more than a reader takes.
#[test]
fn jani_of_many_transitions_is_not_deep() {
    let timed = |index: usize| {
        format!(
            r#"{{"name": "t{index}", "kind": "timed", "rate": 1, "in": {{"A": {}}}, "out": {{"A": {}}}}}"#,
            index + 1,
            index + 1
        )
    };
    let transitions: Vec<_> = (0..3000).map(timed).collect();
    let net = net(&format!(
        r#"{{"net": {{"places": [{{"name": "A", "tokens": 1}}], "transitions": [{{"name": "i", "kind": "immediate", "in": {{"A": 9999}}}}, {}]}}}}"#,
        transitions.join(",")
    ));
    // serde_json reads 128 levels.
    let jani: serde_json::Value = serde_json::from_str(&write(&net, Format::Jani).unwrap()).unwrap();
    assert_eq!(jani["automata"][0]["edges"].as_array().unwrap().len(), 2);
}

/// A table of thousands, too; each entry is the rate for its number of tokens, and the last for all above.
#[test]
fn jani_has_the_rates_of_a_table() {
    let rates: Vec<u32> = (0..3000).map(|tokens| tokens * 7 % 31).collect();
    let net = net(&format!(
        r#"{{"net": {{"places": [{{"name": "A", "tokens": 1}}], "transitions": [
            {{"name": "t", "kind": "timed", "rate_by_tokens": {{"place": "A", "rates": {rates:?}}}, "in": {{"A": 1}}}}]}}}}"#
    ));
    let jani: serde_json::Value = serde_json::from_str(&write(&net, Format::Jani).unwrap()).unwrap();
    let rate = &jani["automata"][0]["edges"][0]["rate"]["exp"];
    for tokens in [0, 1, 2, 1499, 1500, 2998, 2999, 5000] {
        let wanted = f64::from(rates[tokens.min(2999)]);
        assert!((value(rate, &|_| tokens as f64) - wanted).abs() < 1e-9, "{tokens}");
    }
}

/// What checkers refuse, or would read as another number, is refused here.
#[test]
fn jani_has_only_names_and_numbers_that_checkers_take() {
    let with = |place: &str, tokens: u64, count: u64, servers: u64| {
        let net = net(&format!(
            r#"{{"net": {{"places": [{{"name": "{place}", "tokens": {tokens}}}], "transitions": [
                {{"name": "t", "kind": "timed", "rate": 1, "servers": {servers}, "in": {{"{place}": {count}}}}}]}}}}"#
        ));
        write(&net, Format::Jani).map_err(|refusal| (refusal.class, refusal.name, refusal.why))
    };
    let most = 9_223_372_036_854_775_807;
    for name in ["_x", "_loc_nets", "a__b"] {
        assert!(with(name, most, most, most).is_ok(), "{name}");
    }
    for (refused, name, words) in [
        (with("#x", 1, 1, 1), "#x", "begin with `#`"),
        (with("__x", 1, 1, 1), "__x", "begin with `__`"),
        (with("_loc_net", 1, 1, 1), "_loc_net", "rename it"),
        (with("p", most + 1, 1, 1), "p", "9223372036854775808 is more than checkers"),
        (with("p", 1, most + 1, 1), "t", "at most 9223372036854775807"),
        (with("p", 1, 1, u64::MAX), "t", "18446744073709551615 is more than"),
    ] {
        let (class, named, why) = refused.unwrap_err();
        assert!(class == Class::Unsupported && named == name && why.contains(words), "{named}: {why}");
    }
}

/// Beside each immediate stand the weights of all: 250 of a priority are tens of megabytes.
#[test]
fn jani_that_would_be_too_long_is_refused_before_it_is_made() {
    let with = |count: usize, priority: &dyn Fn(usize) -> usize, name: &str| {
        let immediate = |index| {
            let priority = priority(index);
            format!(r#"{{"name": "i{index}", "kind": "immediate", "priority": {priority}, "in": {{"{name}": 1}}}}"#)
        };
        let transitions: Vec<_> = (0..count).map(immediate).collect();
        let text = format!(
            r#"{{"net": {{"places": [{{"name": "{name}", "tokens": 1}}], "transitions": [{}]}}}}"#,
            transitions.join(", ")
        );
        write(&net(&text), Format::Jani)
    };
    for (text, about) in [
        (with(150, &|_| 1, "A"), 13 << 20),
        (with(300, &|index| index + 1, "A"), 18 << 20),
        (with(20, &|_| 1, &"A".repeat(10_000)), 9 << 20),
    ] {
        let bytes = text.unwrap().len();
        assert!(bytes > about / 2 && bytes < about * 2, "{bytes}");
    }
    for (refused, name) in [
        (with(400, &|_| 1, "A"), "i0"),
        (with(50_000, &|index| 1 + index / 25_000, "A"), "i0"),
        (with(20_000, &|index| index + 1, "A"), "i0"),
        (with(100, &|_| 1, &"A".repeat(10_000)), "i0"),
    ] {
        let refusal = refused.unwrap_err();
        assert_eq!((refusal.class, refusal.name.as_str()), (Class::TooLarge, name), "{refusal}");
        assert!(refusal.why.contains("MiB, and at most 64 are written"), "{refusal}");
    }
}

/// Two wait in one place, and one in another: each is next with the same probability.
#[test]
fn jani_weighs_by_tokens() {
    let net = net(
        r#"{"net": {"places": [{"name": "P", "tokens": 2}, {"name": "Q", "tokens": 1}, {"name": "free", "tokens": 1}],
        "transitions": [
            {"name": "p", "kind": "immediate", "weight": 3, "weight_by": "P", "in": {"P": 1, "free": 1}},
            {"name": "q", "kind": "immediate", "weight": 3, "weight_by": "Q", "in": {"Q": 1, "free": 1}}]}}"#,
    );
    let jani: serde_json::Value = serde_json::from_str(&write(&net, Format::Jani).unwrap()).unwrap();
    let ways = jani["automata"][0]["edges"][0]["destinations"].as_array().unwrap();
    let parts = |p: f64, q: f64| {
        let marking =
            |name: &str| [("P", p), ("Q", q), ("free", 1.0)].iter().find(|(known, _)| *known == name).unwrap().1;
        [0, 1].map(|way: usize| value(&ways[way]["probability"]["exp"], &marking))
    };
    assert_eq!(parts(3.0, 1.0), [0.75, 0.25]);
    assert_eq!(parts(0.0, 2.0), [0.0, 1.0]);
    for format in [Format::Pnml, Format::Pipe, Format::Pnpro] {
        let refusal = write(&net, format).unwrap_err();
        assert!(refusal.name == "p" && refusal.why.contains("a weight that depends on tokens"), "{refusal}");
    }
}
