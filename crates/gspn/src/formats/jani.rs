//! JANI, for Storm and other checkers: a continuous-time Markov chain, or a Markov automaton where there are immediates.
//!
//! One automaton with one location and a variable for each place. The immediates of one priority are one edge with a destination
//! for each, whose probability is its weight over those that are enabled: the choice that a net makes here.

use serde_json::{Value, json};

use crate::net::{Arc, Kind, Net, Rate, Servers, Transition};
use crate::{Class, Refusal};

pub(super) fn write(net: &Net) -> Result<String, Refusal> {
    if let Some(name) = net.places().iter().map(|place| &place.name).find(|name| name.starts_with('#')) {
        return Err(Refusal::new(Class::Unsupported, name, "JANI has no names that begin with `#`: rename it"));
    }
    let mut edges = Vec::new();
    let mut priorities = Vec::new();
    for transition in net.transitions() {
        match &transition.kind {
            Kind::Timed { rate, servers } => edges.push(timed(net, transition, rate, *servers)),
            Kind::Immediate { priority, .. } => priorities.push(*priority),
            Kind::Deterministic { .. } | Kind::Phase(_) => {
                let why = "JANI has no words for a time that is not exponential in a Markov automaton";
                return Err(Refusal::new(Class::Unsupported, &transition.name, why));
            }
        }
    }
    priorities.sort_unstable();
    priorities.dedup();
    let sort = if priorities.is_empty() { "ctmc" } else { "ma" };
    edges.extend(priorities.into_iter().map(|priority| immediate(net, priority)));
    let variables: Vec<Value> = net
        .places()
        .iter()
        .map(|place| json!({"name": place.name, "type": "int", "initial-value": place.tokens}))
        .collect();
    let model = json!({
        "jani-version": 1,
        "name": net.name(),
        "type": sort,
        "features": ["derived-operators"],
        "variables": variables,
        "properties": [],
        "automata": [{
            "name": "net", "locations": [{"name": "all"}], "initial-locations": ["all"], "edges": edges
        }],
        "system": {"elements": [{"automaton": "net"}]}
    });
    Ok(format!("{model:#}\n"))
}

fn operation(op: &str, left: &Value, right: &Value) -> Value {
    json!({"op": op, "left": left, "right": right})
}

/// All of these, or any; `usual` where there is none.
fn chain(op: &str, parts: impl IntoIterator<Item = Value>, usual: Value) -> Value {
    parts.into_iter().reduce(|left, right| operation(op, &left, &right)).unwrap_or(usual)
}

fn place(net: &Net, index: usize) -> Value {
    net.places().get(index).map_or(Value::Null, |place| Value::from(place.name.as_str()))
}

fn enabled(net: &Net, transition: &Transition) -> Value {
    let inputs = transition.inputs.iter().map(|arc| operation("≥", &place(net, arc.place), &json!(arc.count)));
    let inhibitors = transition.inhibitors.iter().map(|arc| operation("<", &place(net, arc.place), &json!(arc.count)));
    chain("∧", inputs.chain(inhibitors), json!(true))
}

fn assignments(net: &Net, transition: &Transition) -> Vec<Value> {
    let count = |arcs: &[Arc], place: usize| arcs.iter().find(|arc| arc.place == place).map_or(0, |arc| arc.count);
    let mut places: Vec<usize> = transition.inputs.iter().chain(&transition.outputs).map(|arc| arc.place).collect();
    places.sort_unstable();
    places.dedup();
    let changed = places.into_iter().filter_map(|index| {
        let (taken, put) = (count(&transition.inputs, index), count(&transition.outputs, index));
        let name = place(net, index);
        let value = match (put.checked_sub(taken), taken.checked_sub(put)) {
            (Some(0), _) => return None,
            (Some(more), _) => operation("+", &name, &json!(more)),
            (None, less) => operation("-", &name, &json!(less.unwrap_or(0))),
        };
        Some(json!({"ref": name, "value": value}))
    });
    changed.collect()
}

fn timed(net: &Net, transition: &Transition, rate: &Rate, servers: Servers) -> Value {
    let degrees = transition.inputs.iter().map(|arc| match arc.count {
        1 => place(net, arc.place),
        count => json!({"op": "floor", "exp": operation("/", &place(net, arc.place), &json!(count))}),
    });
    let most = match servers {
        Servers::Finite(servers) => Some(json!(servers)),
        Servers::Infinite => None,
    };
    let (mut guard, one) = (enabled(net, transition), rate_of(net, rate));
    if let Rate::ByTokens { .. } = rate {
        guard = operation("∧", &guard, &operation(">", &one, &json!(0)));
    }
    let rate = match servers {
        Servers::Finite(1) => one,
        _ => operation("*", &one, &chain("min", degrees.chain(most), json!(1))),
    };
    json!({
        "location": "all",
        "rate": {"exp": rate},
        "guard": {"exp": guard},
        "destinations": [{"location": "all", "assignments": assignments(net, transition)}]
    })
}

fn rate_of(net: &Net, rate: &Rate) -> Value {
    match rate {
        Rate::Constant(rate) => json!(rate),
        Rate::ByTokens { place: index, rates } => {
            let mut entries = rates.iter().enumerate().rev();
            let last = entries.next().map_or(json!(0), |(_, rate)| json!(rate));
            entries.fold(last, |other, (tokens, rate)| {
                json!({"op": "ite", "if": operation("=", &place(net, *index), &json!(tokens)), "then": rate, "else": other})
            })
        }
    }
}

fn immediate(net: &Net, priority: u32) -> Value {
    let (mut level, mut above) = (Vec::new(), Vec::new());
    for transition in net.transitions() {
        match transition.kind {
            Kind::Immediate { weight, priority: own } if own == priority => level.push((transition, weight)),
            Kind::Immediate { priority: own, .. } if own > priority => above.push(enabled(net, transition)),
            _ => {}
        }
    }
    let any = chain("∨", level.iter().map(|(transition, _)| enabled(net, transition)), json!(false));
    let not_above = above.into_iter().map(|enabled| json!({"op": "¬", "exp": enabled}));
    let guard = chain("∧", std::iter::once(any).chain(not_above), json!(true));
    let share = |transition: &Transition, weight: f64| json!({"op": "ite", "if": enabled(net, transition), "then": weight, "else": 0});
    let sum = chain("+", level.iter().map(|(transition, weight)| share(transition, *weight)), json!(0));
    let alone = level.len() == 1;
    let destinations = level.iter().map(|(transition, weight)| {
        let mut destination = json!({"location": "all", "assignments": assignments(net, transition)});
        if let (false, Some(members)) = (alone, destination.as_object_mut()) {
            let part = operation("/", &share(transition, *weight), &sum);
            members.insert("probability".to_owned(), json!({"exp": part}));
        }
        destination
    });
    let destinations: Vec<Value> = destinations.collect();
    json!({"location": "all", "guard": {"exp": guard}, "destinations": destinations})
}
