//! The rules that a net keeps: names, arcs, numbers.

use hashbrown::{HashMap, HashSet};

use super::{Arc, Kind, Net, Phase, Place, Rate, Servers, Transition};
use crate::{Class, Refusal};

/// The largest weight that may be multiplied with tokens: times 2^64 it is still a number.
const HEAVIEST: f64 = 1e280;

/// How far the probabilities of a hyperexponential time may be from 1 in sum.
const SUM: f64 = 1e-9;
/// Phases that a time may have.
pub(crate) const PHASES: usize = 10_000;
/// Arcs up to which each is compared with those before it.
const FEW: usize = 8;

/// Checks the parts and puts them together.
///
/// # Errors
/// [`crate::Class::Invalid`], naming the place or transition: an empty or doubled name, an arc to a place that does not exist or of
/// multiplicity 0, two arcs of a sort to one place, a number that is not finite or out of its range, infinitely many servers without an input.
/// [`crate::Class::TooLarge`], naming the transition, for a time of more than 10,000 phases.
pub fn build(name: &str, places: Vec<Place>, transitions: Vec<Transition>) -> Result<Net, Refusal> {
    names(&places, &transitions)?;
    sound(&places, &transitions)?;
    Ok(Net { name: name.to_owned(), places, transitions })
}

/// Checks all but names: of a net that is looked at once, by the indices of its parts, nobody asks for those.
///
/// # Errors
/// As [`build`].
pub fn sound(places: &[Place], transitions: &[Transition]) -> Result<(), Refusal> {
    for transition in transitions {
        for (sort, arcs) in
            [("in", &transition.inputs), ("out", &transition.outputs), ("inhibit", &transition.inhibitors)]
        {
            check_arcs(&transition.name, sort, arcs, places)?;
        }
        check_kind(transition, places.len())?;
    }
    Ok(())
}

fn names(places: &[Place], transitions: &[Transition]) -> Result<(), Refusal> {
    let mut seen = HashMap::with_capacity(places.len() + transitions.len());
    let places = places.iter().map(|place| (place.name.as_str(), "place"));
    let transitions = transitions.iter().map(|transition| (transition.name.as_str(), "transition"));
    for (name, what) in places.chain(transitions) {
        if name.is_empty() {
            return Err(Refusal::invalid("name", format!("a {what} has no name")));
        }
        if let Some(other) = seen.insert(name, what) {
            return Err(Refusal::invalid(name, format!("a {what} has the name of a {other}: give each its own")));
        }
    }
    Ok(())
}

fn check_arcs(name: &str, sort: &str, arcs: &[Arc], places: &[Place]) -> Result<(), Refusal> {
    let mut seen = HashSet::new();
    for (index, arc) in arcs.iter().enumerate() {
        let Some(place) = places.get(arc.place) else {
            return Err(Refusal::invalid(name, format!("`{sort}` has an arc to a place that does not exist")));
        };
        if arc.count == 0 {
            return Err(Refusal::invalid(
                name,
                format!("`{sort}` of `{}` is 0: a multiplicity is at least 1", place.name),
            ));
        }
        // A few are looked through faster than they are hashed.
        let twice = if arcs.len() <= FEW {
            arcs[..index].iter().any(|other| other.place == arc.place)
        } else {
            !seen.insert(arc.place)
        };
        if twice {
            return Err(Refusal::invalid(name, format!("`{sort}` names `{}` twice", place.name)));
        }
    }
    Ok(())
}

fn check_kind(transition: &Transition, places: usize) -> Result<(), Refusal> {
    let name = &transition.name;
    match &transition.kind {
        Kind::Timed { rate, servers } => {
            check_rate(name, rate, places)?;
            match servers {
                Servers::Finite(0) => Err(Refusal::invalid(name, "`servers` is 0: at least 1, or `inf`")),
                Servers::Infinite if transition.inputs.is_empty() => {
                    Err(Refusal::invalid(name, "`servers` is `inf` and there is no input arc: nothing bounds its rate"))
                }
                _ => Ok(()),
            }
        }
        Kind::Immediate { weight, priority, by } => {
            positive(name, "weight", *weight)?;
            if by.is_some_and(|by| transition.inputs.iter().all(|arc| arc.place != by)) {
                return Err(Refusal::invalid(
                    name,
                    "`weight_by` names a place from which no arc leads here: name an input place",
                ));
            }
            if by.is_some() && *weight > HEAVIEST {
                return Err(Refusal::invalid(
                    name,
                    format!("`weight` is {weight:e}: with `weight_by` at most {HEAVIEST:e}"),
                ));
            }
            if *priority == 0 { Err(Refusal::invalid(name, "`priority` is 0: at least 1")) } else { Ok(()) }
        }
        Kind::Deterministic { delay } => positive(name, "delay", *delay),
        Kind::Phase(phase) => check_phase(name, phase),
    }
}

fn check_rate(name: &str, rate: &Rate, places: usize) -> Result<(), Refusal> {
    match rate {
        Rate::Constant(rate) => positive(name, "rate", *rate),
        Rate::ByTokens { place, rates } => {
            if *place >= places {
                return Err(Refusal::invalid(name, "`rate_by_tokens` names a place that does not exist"));
            }
            if rates.is_empty() {
                return Err(Refusal::invalid(name, "`rate_by_tokens` has no rates: at least one"));
            }
            match rates.iter().find(|rate| !rate.is_finite() || **rate < 0.0) {
                Some(bad) => {
                    Err(Refusal::invalid(name, format!("`rate_by_tokens` holds {bad}: finite and not below 0")))
                }
                None => Ok(()),
            }
        }
    }
}

fn check_phase(name: &str, phase: &Phase) -> Result<(), Refusal> {
    let phases = match phase {
        Phase::Erlang { stages, .. } => *stages as usize,
        Phase::Hyper(phases) | Phase::Coxian(phases) => phases.len(),
    };
    if phases > PHASES {
        return Err(Refusal::new(Class::TooLarge, name, format!("its time has {phases} phases: at most {PHASES}")));
    }
    match phase {
        Phase::Erlang { stages: 0, .. } => Err(Refusal::invalid(name, "`erlang.k` is 0: at least 1")),
        Phase::Erlang { rate, .. } => positive(name, "erlang.rate", *rate),
        Phase::Hyper(branches) => {
            for (probability, rate) in branches {
                positive(name, "rate in `hyper`", *rate)?;
                positive(name, "probability in `hyper`", *probability)?;
            }
            let sum: f64 = branches.iter().map(|(probability, _)| probability).sum();
            if (sum - 1.0).abs() > SUM {
                return Err(Refusal::invalid(name, format!("the probabilities in `hyper` add up to {sum}, not to 1")));
            }
            Ok(())
        }
        Phase::Coxian(phases) => {
            let Some((last, before)) = phases.split_last() else {
                return Err(Refusal::invalid(name, "`coxian` has no phases: at least one"));
            };
            for (rate, onward) in phases {
                positive(name, "rate in `coxian`", *rate)?;
                if !(0.0..=1.0).contains(onward) {
                    return Err(Refusal::invalid(name, format!("`coxian` goes on with probability {onward}: 0 to 1")));
                }
            }
            if last.1 != 0.0 {
                return Err(Refusal::invalid(name, "the last phase of `coxian` goes on: its probability must be 0"));
            }
            if before.iter().any(|(_, onward)| *onward == 0.0) {
                return Err(Refusal::invalid(
                    name,
                    "`coxian` has a phase that is never reached: only the last goes on with 0",
                ));
            }
            Ok(())
        }
    }
}

fn positive(name: &str, member: &str, value: f64) -> Result<(), Refusal> {
    if value.is_finite() && value > 0.0 {
        Ok(())
    } else {
        Err(Refusal::invalid(name, format!("{member} is {value}: above 0 and finite")))
    }
}
