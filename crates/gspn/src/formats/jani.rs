//! JANI, for Storm and other checkers: a continuous-time Markov chain, or a Markov automaton where there are immediates.
//!
//! One automaton with one location and a variable for each place. The immediates of one priority are one edge with a destination
//! for each, whose probability is its weight over those that are enabled: the choice that a net makes here. In a Markov automaton the
//! timed transitions that change a marking alike are one edge with the sum of their rates: readers see one rate from state to state.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use serde_json::{Value, json};

use crate::net::{Arc, Kind, Net, Place, Rate, Servers, Transition};
use crate::{Class, Refusal};

/// The largest whole number that checkers hold: theirs have a sign.
const HOLDS: u64 = i64::MAX.unsigned_abs();

/// Bytes that are written at most: in memory it is seven times as much, and checkers take more.
const MOST: u64 = 64 << 20;

/// Bytes of a line in a choice between immediates, and of one elsewhere: most of it is how far it is from the left.
const DEEP: u64 = 48;
const FLAT: u64 = 28;

pub(super) fn write(net: &Net) -> Result<String, Refusal> {
    net.places().iter().try_for_each(|place| variable(&place.name))?;
    held(net)?;
    fits(net)?;
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

/// Refuses names that variables of JANI, or of Storm, have not: it keeps some for itself.
fn variable(name: &str) -> Result<(), Refusal> {
    let why = match name {
        _ if name.starts_with('#') => "JANI has no names that begin with `#`: rename it",
        _ if name.starts_with("__") => "Storm takes no names that begin with `__`: rename it",
        "_loc_net" => "Storm has this name for where the automaton is: rename it",
        _ => return Ok(()),
    };
    Err(Refusal::new(Class::Unsupported, name, why))
}

/// Refuses numbers that checkers do not hold.
fn held(net: &Net) -> Result<(), Refusal> {
    let tokens = net.places().iter().map(|place| (&place.name, place.tokens));
    let others = net.transitions().iter().flat_map(|it| {
        let arcs = it.inputs.iter().chain(&it.outputs).chain(&it.inhibitors).map(|arc| arc.count);
        let servers = match it.kind {
            Kind::Timed { servers: Servers::Finite(servers), .. } => Some(servers),
            _ => None,
        };
        arcs.chain(servers).map(|number| (&it.name, number))
    });
    match tokens.chain(others).find(|(_, number)| *number > HOLDS) {
        None => Ok(()),
        Some((name, number)) => {
            let why = format!("{number} is more than checkers that read JANI hold: at most {HOLDS}");
            Err(Refusal::new(Class::Unsupported, name, why))
        }
    }
}

/// The immediates of one priority, by the first of them, and lines of their conditions and weights.
struct Level<'a> {
    first: &'a str,
    count: u64,
    shares: u64,
}

/// Refuses a net that would be too long.
fn fits(net: &Net) -> Result<(), Refusal> {
    let levels = levels(net);
    let rest = elsewhere(net, !levels.is_empty()).saturating_mul(FLAT);
    let (choices, most) = choices(&levels);
    let all = choices.saturating_add(rest);
    if all <= MOST {
        return Ok(());
    }
    let (named, of) = if choices > rest {
        let of = ": beside each immediate transition stand the weights of all of its priority, and the conditions of all above";
        (most, of)
    } else {
        ("", "")
    };
    let why = format!("as JANI this net has about {} MiB, and at most {} are written{of}", all >> 20, MOST >> 20);
    Err(Refusal::new(Class::TooLarge, named, why))
}

fn levels(net: &Net) -> BTreeMap<u32, Level<'_>> {
    let mut levels: BTreeMap<u32, Level<'_>> = BTreeMap::new();
    for transition in net.transitions() {
        if let Kind::Immediate { priority, .. } = transition.kind {
            let fresh = || Level { first: &transition.name, count: 0, shares: 0 };
            let level = levels.entry(priority).or_insert_with(fresh);
            level.count += 1;
            level.shares += 5 + condition(net, transition);
        }
    }
    levels
}

/// Bytes of all choices between immediates, and the first of the priority that has most of them.
fn choices<'a>(levels: &BTreeMap<u32, Level<'a>>) -> (u64, &'a str) {
    let (mut all, mut most, mut above) = (0_u64, ("", 0), 0);
    for level in levels.values().rev() {
        let sums = if level.count > 1 { level.shares.saturating_mul(level.count + 3) } else { level.shares };
        let bytes = sums.saturating_add(above).saturating_mul(DEEP);
        all = all.saturating_add(bytes);
        if bytes > most.1 {
            most = (level.first, bytes);
        }
        above += level.shares;
    }
    (all, most.0)
}

/// Lines of places, of what firings change, and of when timed transitions fire: in a Markov automaton their conditions stand in rates, too.
fn elsewhere(net: &Net, automaton: bool) -> u64 {
    let places = net.places().iter().map(|place| 5 + long(place));
    let transitions = net.transitions().iter().map(|it| {
        let changes = 20 + lines(net, it.inputs.iter().chain(&it.outputs));
        let Kind::Timed { rate, .. } = &it.kind else { return changes };
        let entries = if let Rate::ByTokens { rates, .. } = rate { 9 * rates.len() as u64 } else { 0 };
        changes + (1 + u64::from(automaton)) * (condition(net, it) + entries)
    });
    places.chain(transitions).sum()
}

fn condition(net: &Net, transition: &Transition) -> u64 {
    lines(net, transition.inputs.iter().chain(&transition.inhibitors))
}

/// Lines of what is said of arcs.
fn lines<'a>(net: &Net, arcs: impl Iterator<Item = &'a Arc>) -> u64 {
    arcs.map(|arc| 8 + net.places().get(arc.place).map_or(0, long)).sum()
}

/// A long name counts as more lines.
fn long(place: &Place) -> u64 {
    2 * place.name.len() as u64 / DEEP
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
    let mut places: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    transition.inputs.iter().for_each(|arc| places.entry(arc.place).or_default().0 = arc.count);
    transition.outputs.iter().for_each(|arc| places.entry(arc.place).or_default().1 = arc.count);
    let changed =
        places.into_iter().filter_map(|(index, (taken, put))| match (put.checked_sub(taken), taken.checked_sub(put)) {
            (Some(0), _) => None,
            (Some(more), _) => Some((index, Change::More(more))),
            (None, less) => Some((index, Change::Less(less.unwrap_or(0)))),
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
        Rate::ByTokens { place: index, rates } => table(&place(net, *index), rates, 0),
    }
}

/// The rate by the tokens of a place, of which there are at least `from`. By halves, as in [`chain`].
fn table(place: &Value, rates: &[f64], from: usize) -> Value {
    if let [] | [_] = rates {
        return json!(rates.first().copied().unwrap_or(0.0));
    }
    let (few, many) = rates.split_at(rates.len() / 2);
    let next = from + few.len();
    let fewer = operation("<", place, &json!(next));
    json!({"op": "ite", "if": fewer, "then": table(place, few, from), "else": table(place, many, next)})
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
