//! JANI, for Storm and other checkers: a continuous-time Markov chain, or a Markov automaton where there are immediates.
//!
//! One automaton with one location and a variable for each place. The immediates of one priority are one edge with a destination
//! for each, whose probability is its weight over those that are enabled: the choice that a net makes here. In a Markov automaton the
//! timed transitions that change a marking alike are one edge with the sum of their rates: readers see one rate from state to state.

use hashbrown::HashMap;
use serde_json::{Value, json};

use crate::net::{Arc, Kind, Net, Rate, Servers, Transition};
use crate::{Class, Refusal};

pub(super) fn write(net: &Net) -> Result<String, Refusal> {
    if let Some(name) = net.places().iter().map(|place| &place.name).find(|name| name.starts_with('#')) {
        return Err(Refusal::new(Class::Unsupported, name, "JANI has no names that begin with `#`: rename it"));
    }
    let (mut lone, mut priorities) = (Vec::new(), Vec::new());
    for transition in net.transitions() {
        match &transition.kind {
            Kind::Timed { rate, servers } => lone.push(timed(net, transition, rate, *servers)),
            Kind::Immediate { priority, .. } => priorities.push(*priority),
            Kind::Deterministic { .. } | Kind::Phase(_) => {
                let why = "JANI has no words for a time that is not exponential in a Markov automaton";
                return Err(Refusal::new(Class::Unsupported, &transition.name, why));
            }
        }
    }
    priorities.sort_unstable();
    priorities.dedup();
    let (sort, timed) = if priorities.is_empty() { ("ctmc", lone) } else { ("ma", joined(lone)) };
    let mut edges: Vec<Value> = timed.into_iter().map(|edge| edge.written(net)).collect();
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

/// All of these, or any; `usual` where there is none. By halves: a chain of thousands, each inside the next, is more than readers of JSON take.
fn chain(op: &str, parts: impl IntoIterator<Item = Value>, usual: Value) -> Value {
    let mut parts: Vec<Value> = parts.into_iter().collect();
    while parts.len() > 1 {
        let mut before = parts.into_iter();
        let mut after = Vec::new();
        while let Some(left) = before.next() {
            after.push(match before.next() {
                Some(right) => operation(op, &left, &right),
                None => left,
            });
        }
        parts = after;
    }
    parts.pop().unwrap_or(usual)
}

fn place(net: &Net, index: usize) -> Value {
    net.places().get(index).map_or(Value::Null, |place| Value::from(place.name.as_str()))
}

fn enabled(net: &Net, transition: &Transition) -> Value {
    let inputs = transition.inputs.iter().map(|arc| operation("≥", &place(net, arc.place), &json!(arc.count)));
    let inhibitors = transition.inhibitors.iter().map(|arc| operation("<", &place(net, arc.place), &json!(arc.count)));
    chain("∧", inputs.chain(inhibitors), json!(true))
}

/// What a firing adds to a place that it changes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Change {
    More(u64),
    Less(u64),
}

/// The places that a firing changes, in their order.
type Effect = Vec<(usize, Change)>;

fn effect(transition: &Transition) -> Effect {
    let count = |arcs: &[Arc], place: usize| arcs.iter().find(|arc| arc.place == place).map_or(0, |arc| arc.count);
    let mut places: Vec<usize> = transition.inputs.iter().chain(&transition.outputs).map(|arc| arc.place).collect();
    places.sort_unstable();
    places.dedup();
    let changed = places.into_iter().filter_map(|index| {
        let (taken, put) = (count(&transition.inputs, index), count(&transition.outputs, index));
        match (put.checked_sub(taken), taken.checked_sub(put)) {
            (Some(0), _) => None,
            (Some(more), _) => Some((index, Change::More(more))),
            (None, less) => Some((index, Change::Less(less.unwrap_or(0)))),
        }
    });
    changed.collect()
}

fn assignments(net: &Net, effect: &[(usize, Change)]) -> Vec<Value> {
    let assigned = effect.iter().map(|(index, change)| {
        let name = place(net, *index);
        let value = match change {
            Change::More(more) => operation("+", &name, &json!(more)),
            Change::Less(less) => operation("-", &name, &json!(less)),
        };
        json!({"ref": name, "value": value})
    });
    assigned.collect()
}

/// An edge that takes time: what it changes, and when and at which rate each transition does.
struct Timed {
    effect: Effect,
    parts: Vec<(Value, Value)>,
}

impl Timed {
    fn written(self, net: &Net) -> Value {
        let alike = self.parts.windows(2).all(|pair| matches!(pair, [(one, _), (other, _)] if one == other));
        let (guard, rate) = if alike {
            let guard = self.parts.first().map(|(guard, _)| guard.clone());
            (guard.unwrap_or(json!(true)), chain("+", self.parts.into_iter().map(|(_, rate)| rate), json!(0)))
        } else {
            let any = chain("∨", self.parts.iter().map(|(guard, _)| guard.clone()), json!(false));
            let rates =
                self.parts.iter().map(|(guard, rate)| json!({"op": "ite", "if": guard, "then": rate, "else": 0}));
            (any, chain("+", rates, json!(0)))
        };
        json!({
            "location": "all",
            "rate": {"exp": rate},
            "guard": {"exp": guard},
            "destinations": [{"location": "all", "assignments": assignments(net, &self.effect)}]
        })
    }
}

/// One edge for all that change a marking alike, where the first of them stood.
fn joined(edges: Vec<Timed>) -> Vec<Timed> {
    let mut at: HashMap<Effect, usize> = HashMap::new();
    let mut joined: Vec<Timed> = Vec::new();
    for edge in edges {
        let index = *at.entry(edge.effect.clone()).or_insert(joined.len());
        match joined.get_mut(index) {
            Some(first) => first.parts.extend(edge.parts),
            None => joined.push(edge),
        }
    }
    joined
}

fn timed(net: &Net, transition: &Transition, rate: &Rate, servers: Servers) -> Timed {
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
    Timed { effect: effect(transition), parts: vec![(guard, rate)] }
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
            Kind::Immediate { weight, priority: own, by } if own == priority => {
                let weight = by.map_or(json!(weight), |by| operation("*", &json!(weight), &place(net, by)));
                level.push((transition, weight));
            }
            Kind::Immediate { priority: own, .. } if own > priority => above.push(enabled(net, transition)),
            _ => {}
        }
    }
    let any = chain("∨", level.iter().map(|(transition, _)| enabled(net, transition)), json!(false));
    let not_above = above.into_iter().map(|enabled| json!({"op": "¬", "exp": enabled}));
    let guard = chain("∧", std::iter::once(any).chain(not_above), json!(true));
    let share = |transition: &Transition, weight: &Value| json!({"op": "ite", "if": enabled(net, transition), "then": weight, "else": 0});
    let sum = chain("+", level.iter().map(|(transition, weight)| share(transition, weight)), json!(0));
    let alone = level.len() == 1;
    let destinations = level.iter().map(|(transition, weight)| {
        let mut destination = json!({"location": "all", "assignments": assignments(net, &effect(transition))});
        if let (false, Some(members)) = (alone, destination.as_object_mut()) {
            let part = operation("/", &share(transition, weight), &sum);
            members.insert("probability".to_owned(), json!({"exp": part}));
        }
        destination
    });
    let destinations: Vec<Value> = destinations.collect();
    json!({"location": "all", "guard": {"exp": guard}, "destinations": destinations})
}
