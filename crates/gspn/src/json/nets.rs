//! The member `net`.

use hashbrown::HashMap;

use super::member::{self, Members};
use super::tree::Tree;
use crate::net::{self, Arc, Kind, Net, PHASES, Phase, Place, Rate, Servers, Tokens, Transition};
use crate::{Class, Refusal};

/// Reads the net of a document.
pub(super) fn read(name: &str, tree: Tree<'_>) -> Result<Net, Refusal> {
    let mut members = Members::of(tree, "net")?;
    let places = members.list("places")?;
    let transitions = members.list("transitions")?;
    members.end()?;
    let places =
        places.into_iter().enumerate().map(|(index, tree)| place(index, tree)).collect::<Result<Vec<_>, _>>()?;
    let mut known = HashMap::with_capacity(places.len());
    for (index, place) in places.iter().enumerate() {
        known.entry(place.name.clone()).or_insert(index);
    }
    let transitions = transitions
        .into_iter()
        .enumerate()
        .map(|(index, tree)| transition(index, tree, &known))
        .collect::<Result<Vec<_>, _>>()?;
    net::build(name, places, transitions)
}

fn place(index: usize, tree: Tree<'_>) -> Result<Place, Refusal> {
    let mut members = Members::of(tree, &format!("net.places[{index}]"))?;
    let name = members.text("name")?;
    members.call(&name);
    let tokens = members.whole("tokens")?.unwrap_or(0);
    members.end()?;
    Ok(Place { name: name.into_owned(), tokens })
}

fn transition(index: usize, tree: Tree<'_>, places: &HashMap<String, usize>) -> Result<Transition, Refusal> {
    let mut members = Members::of(tree, &format!("net.transitions[{index}]"))?;
    let name = members.text("name")?;
    members.call(&name);
    let kind = kind(&mut members, places)?;
    let inputs = arcs(&mut members, "in", places)?;
    let outputs = arcs(&mut members, "out", places)?;
    let inhibitors = arcs(&mut members, "inhibit", places)?;
    members.end()?;
    Ok(Transition { name: name.into_owned(), kind, inputs, outputs, inhibitors })
}

fn arcs(members: &mut Members<'_>, key: &str, places: &HashMap<String, usize>) -> Result<Vec<Arc>, Refusal> {
    let mut arcs = Vec::new();
    for (name, tree) in members.pairs(key)? {
        let place = place_of(members, key, &name, places)?;
        let count = match tree {
            Tree::Whole(count) => count,
            // Named only where it may be wrong.
            other => member::whole(&other, &format!("{key}.{name}"), members.path())?,
        };
        arcs.push(Arc { place, count });
    }
    Ok(arcs)
}

fn place_of(members: &Members<'_>, key: &str, name: &str, places: &HashMap<String, usize>) -> Result<usize, Refusal> {
    places
        .get(name)
        .copied()
        .ok_or_else(|| members.wrong(format!("`{key}` names the place `{name}`, and there is none")))
}

/// When a transition fires, from its own members.
pub(super) fn kind(members: &mut Members<'_>, places: &HashMap<String, usize>) -> Result<Kind, Refusal> {
    match &*members.text("kind")? {
        "timed" => Ok(Kind::Timed { rate: rate(members, places)?, servers: servers(members)? }),
        "immediate" => {
            let weight = members.number("weight")?.unwrap_or(1.0);
            let priority = members.whole("priority")?.unwrap_or(1);
            let priority = u32::try_from(priority)
                .map_err(|_| members.wrong(format!("`priority` is {priority}: at most {}", u32::MAX)))?;
            let by = match members.take("weight_by") {
                None => None,
                Some(Tree::Text(name)) => Some(place_of(members, "weight_by", &name, places)?),
                Some(other) => {
                    return Err(members
                        .wrong(format!("`weight_by` is {}, and the name of an input place is wanted", other.sort())));
                }
            };
            Ok(Kind::Immediate { weight, priority, by })
        }
        "deterministic" => Ok(Kind::Deterministic { delay: members.need_number("delay")? }),
        "phase" => phase(members).map(Kind::Phase),
        other => {
            Err(members.wrong(format!("`kind` is `{other}`: one of `timed`, `immediate`, `deterministic`, `phase`")))
        }
    }
}

fn rate(members: &mut Members<'_>, places: &HashMap<String, usize>) -> Result<Rate, Refusal> {
    let constant = members.number("rate")?;
    let table = members.take("rate_by_tokens");
    match (constant, table) {
        (Some(rate), None) => Ok(Rate::Constant(rate)),
        (None, Some(tree)) => {
            let mut table = Members::of(tree, members.path())?;
            let name = table.text("place")?;
            let place = place_of(&table, "place", &name, places)?;
            let rates = table.list("rates")?;
            let rates =
                rates.iter().map(|rate| member::number(rate, "rates", table.path())).collect::<Result<_, _>>()?;
            table.end()?;
            Ok(Rate::ByTokens { place, rates })
        }
        (Some(_), Some(_)) => Err(members.wrong("`rate` and `rate_by_tokens` stand side by side: give one".to_owned())),
        (None, None) => Err(members.wrong("a timed transition needs `rate` or `rate_by_tokens`".to_owned())),
    }
}

fn servers(members: &mut Members<'_>) -> Result<Servers, Refusal> {
    match members.take("servers") {
        None => Ok(Servers::Finite(1)),
        Some(Tree::Text(word)) if word == "inf" => Ok(Servers::Infinite),
        Some(tree @ (Tree::Whole(_) | Tree::Number(_))) => {
            Ok(Servers::Finite(member::whole(&tree, "servers", members.path())?))
        }
        Some(_) => Err(members.wrong("`servers` is a whole number from 1, or `inf`".to_owned())),
    }
}

fn phase(members: &mut Members<'_>) -> Result<Phase, Refusal> {
    let path = members.path().to_owned();
    match (members.take("erlang"), members.take("hyper"), members.take("coxian")) {
        (Some(tree), None, None) => {
            let mut erlang = Members::of(tree, &path)?;
            let stages = erlang.whole("k")?.ok_or_else(|| erlang.wrong("`k` is missing".to_owned()))?;
            let stages = stage_count(stages, &erlang)?;
            let rate = erlang.need_number("rate")?;
            erlang.end()?;
            Ok(Phase::Erlang { stages, rate })
        }
        (None, Some(tree), None) => Ok(Phase::Hyper(pairs(tree, "hyper", &path, None)?)),
        (None, None, Some(tree)) => Ok(Phase::Coxian(pairs(tree, "coxian", &path, Some(0.0))?)),
        (None, None, None) => {
            Err(members.wrong("a phase transition needs one of `erlang`, `hyper`, `coxian`".to_owned()))
        }
        _ => Err(members.wrong("more than one of `erlang`, `hyper`, `coxian`: give one".to_owned())),
    }
}

fn stage_count(stages: Tokens, erlang: &Members<'_>) -> Result<u32, Refusal> {
    u32::try_from(stages).map_err(|_| {
        Refusal::new(Class::TooLarge, erlang.path(), format!("its time has {stages} phases: at most {PHASES}"))
    })
}

/// Pairs of numbers; the last may have only its first where `missing` gives the second.
fn pairs(tree: Tree<'_>, key: &str, path: &str, missing: Option<f64>) -> Result<Vec<(f64, f64)>, Refusal> {
    let items = member::list(tree, key, path)?;
    let count = items.len();
    let mut pairs = Vec::new();
    for (index, item) in items.into_iter().enumerate() {
        let numbers = member::list(item, key, path)?;
        let numbers = numbers.iter().map(|tree| member::number(tree, key, path)).collect::<Result<Vec<_>, _>>()?;
        match (numbers.as_slice(), missing) {
            ([first, second], _) => pairs.push((*first, *second)),
            ([first], Some(second)) if index + 1 == count => pairs.push((*first, second)),
            _ => return Err(Refusal::invalid(path, format!("`{key}` is a list of pairs of numbers"))),
        }
    }
    if pairs.is_empty() {
        return Err(Refusal::invalid(path, format!("`{key}` has no phases: at least one")));
    }
    Ok(pairs)
}
