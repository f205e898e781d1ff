//! One request followed through the whole net, where those in service wait for each other: how long it takes is a passage.
//!
//! Each place of requests gets a second one for the request that is followed, each transition a second one that moves it, over the same cores,
//! lines, pools and threads. Where those who wait are served as they came (`turns`), who comes after the followed one waits behind it; elsewhere
//! each of them is as likely to be next, the followed one, too.
//!
//! A closed workload follows one of its clients for ever; of an open one, an arriving request is followed where nobody is. Where it comes to is
//! what arriving requests find in the long run of the net as it was. The mean of the passage must be what Little's law says of that
//! net, or there is no answer.

use gspn::Budget;
use gspn::chain::long_run;
use gspn::explore::{Space, explore};
use gspn::net::{Arc, Kind, Net, Place, Transition};
use hashbrown::HashMap;

use super::passage::Passage;
use super::turns::in_turn;
use crate::net::Laid;
use crate::{Class, Fault};

/// The net with somebody who is followed.
struct Followed {
    net: Net,
    /// The followed one is not there.
    away: usize,
    /// The transition with which it comes.
    comes: usize,
}

/// The net with somebody who is followed, and its markings.
pub(super) struct Explored {
    followed: Followed,
    space: Space,
}

/// The markings of a net with somebody who is followed: the most that there will be.
pub(super) fn explored(laid: &Laid, budget: &mut Budget<'_>) -> Result<Explored, Fault> {
    let followed = follow(laid)?;
    let space = explore(&followed.net, 1, &[], &[followed.comes], budget)?;
    Ok(Explored { followed, space })
}

/// How long a request takes; `mean` is what is known of it.
pub(super) fn response(laid: &Laid, explored: &Explored, mean: f64, budget: &mut Budget<'_>) -> Result<Passage, Fault> {
    let Explored { followed, space } = explored;
    let chain = space.chain();
    let Some(comes) = space.watched(followed.comes).map(|watched| &watched.chain) else {
        return Err(Fault::new(Class::Unanswered, "percentiles", "the net has no arrivals that take time"));
    };
    let mut tokens = vec![0; space.places()];
    let mut come = vec![0.0; chain.len()];
    let mut goal = vec![false; chain.len()];
    let mut away: HashMap<Vec<u64>, usize> = HashMap::new();
    for (state, goal) in goal.iter_mut().enumerate() {
        space.load(space.marking_of(u32::try_from(state).unwrap_or(u32::MAX)), &mut tokens);
        *goal = tokens[followed.away] > 0;
        if *goal && laid.open {
            let own = tokens.get(..laid.net.places().len()).unwrap_or(&tokens);
            away.insert(own.to_vec(), state);
        }
    }
    let mut arrive = |state: usize, share: f64| {
        comes.row(state).for_each(|(to, rate)| come[to] += share * rate);
    };
    if laid.open {
        let plain = explore(&laid.net, 1, &[], &[], budget)?;
        let run = long_run(plain.chain(), plain.initial(), budget)?;
        let mut tokens = vec![0; plain.places()];
        for (state, share) in run.distribution.iter().enumerate() {
            plain.load(plain.marking_of(u32::try_from(state).unwrap_or(u32::MAX)), &mut tokens);
            if let Some(state) = away.get(&tokens) {
                arrive(*state, *share);
            }
        }
    } else {
        let run = long_run(chain, space.initial(), budget)?;
        run.distribution.iter().enumerate().for_each(|(state, share)| arrive(state, *share));
    }
    let least = come.iter().sum::<f64>() * 1e-15;
    come.iter_mut().filter(|share| **share < least).for_each(|share| *share = 0.0);
    let mut passage = Passage::new(chain.len(), |state| chain.row(state), &come, &goal);
    let found = passage.mean(budget)?;
    if (found / mean - 1.0).abs() < 1e-6 {
        return Ok(passage);
    }
    let why = format!("the mean time of a request that is followed is {found} s, that of all is {mean} s");
    Err(Fault::new(Class::Unanswered, "percentiles", why))
}

/// The second places and transitions.
fn follow(laid: &Laid) -> Result<Followed, Fault> {
    let own = laid.net.places().len();
    let mut resource = vec![false; own];
    laid.resources.iter().for_each(|place| resource[*place] = true);
    let mut places: Vec<Place> = laid.net.places().to_vec();
    // The second place of place p is the own + p-th; those of resources stay empty.
    let second = |place: usize| if resource[place] { place } else { own + place };
    let mark = mark(&laid.net);
    places.extend((0..own).map(|place| Place { name: format!("{mark} {place}"), tokens: 0 }));
    let away = own + laid.source;
    places[away].tokens = 1;
    if !laid.open {
        places[laid.source].tokens = places[laid.source].tokens.saturating_sub(1);
    }
    let turns = in_turn(laid);
    let mut gates = vec![None; own];
    for start in (0..own).filter(|place| turns[*place]) {
        let behind = places.len();
        let more = |name: &str, tokens| Place { name: format!("{mark} {name} {start}"), tokens };
        places.extend([more("behind", 0), more("not at", 1), more("at", 0)]);
        gates[start] = Some(Gate { start, second: second(start), behind, clear: behind + 1, all: behind + 2 });
    }
    let gate = |arcs: &[Arc]| arcs.iter().find_map(|arc| gates[arc.place]);
    let mut net = Second { transitions: Vec::new(), mark: &mark };
    let mut comes = 0;
    for (index, it) in laid.net.transitions().iter().enumerate() {
        let moved = |arcs: &[Arc]| arcs.iter().map(|arc| Arc { place: second(arc.place), ..*arc }).collect::<Vec<_>>();
        let (leaves, enters) = (gate(&it.inputs), gate(&it.outputs));
        // The others.
        let mut they = it.clone();
        they.inputs.extend(leaves.map(|gate| arc(gate.all)));
        they.outputs.extend(enters.map(|gate| arc(gate.all)));
        let (mut inputs, mut outputs) = (moved(&it.inputs), moved(&it.outputs));
        inputs.extend(leaves.map(|gate| arc(gate.all)));
        outputs.extend(enters.map(|gate| arc(gate.all)));
        inputs.extend(enters.map(|gate| arc(gate.clear)));
        outputs.extend(leaves.map(|gate| arc(gate.clear)));
        if index == laid.begin {
            comes = net.transitions.len();
            if laid.open {
                inputs.push(arc(laid.source));
            }
        } else if laid.open && (index == laid.end || Some(index) == laid.aborted) {
            outputs.push(arc(laid.source));
        }
        // Who waits in no order counts one by one: the followed one as much as each of the others. Of those in a row the first counts for all.
        let counts = matches!(it.kind, Kind::Immediate { by: Some(_), .. });
        let (mine, theirs) = match leaves {
            Some(gate) => (Some(gate.all), Some(gate.all)),
            None => (None, it.inputs.iter().map(|arc| arc.place).find(|place| !resource[*place])),
        };
        net.put(it, (inputs, outputs), leaves.map(|gate| gate.start), mine.filter(|_| counts));
        net.others(&they, enters, theirs.filter(|_| counts));
    }
    for gate in gates.iter().flatten() {
        let kind = Kind::Immediate { weight: 1.0, priority: crate::net::FIRST, by: None };
        let (inputs, outputs) = (vec![arc(gate.behind)], vec![arc(gate.start)]);
        let name = format!("{mark} {} moves up", gate.start);
        net.transitions.push(Transition { name, kind, inputs, outputs, inhibitors: vec![arc(gate.second)] });
    }
    Ok(Followed { net: gspn::net::build("followed", places, net.transitions)?, away, comes })
}

/// What no place of the net begins with.
fn mark(net: &Net) -> String {
    let mut mark = "\u{25b8}".to_owned();
    while net.places().iter().any(|it| it.name.starts_with(&mark)) {
        mark.push('\u{25b8}');
    }
    mark
}

/// Where requests wait and are served as they came.
#[derive(Clone, Copy)]
struct Gate {
    start: usize,
    /// The followed one waits.
    second: usize,
    /// Others that came after.
    behind: usize,
    /// The followed one does not wait.
    clear: usize,
    /// All who wait.
    all: usize,
}

const fn arc(place: usize) -> Arc {
    Arc { place, count: 1 }
}

struct Second<'a> {
    transitions: Vec<Transition>,
    mark: &'a str,
}

impl Second<'_> {
    /// A transition like another, which fires only while `not` is empty and counts as the tokens of `by` say, where there are such.
    fn put(&mut self, like: &Transition, arcs: (Vec<Arc>, Vec<Arc>), not: Option<usize>, by: Option<usize>) {
        let name = format!("{} {} {}", self.mark, self.transitions.len(), like.name);
        let mut kind = like.kind.clone();
        if let Kind::Immediate { by: counts, .. } = &mut kind {
            *counts = by;
        }
        let inhibitors = not.map(arc).into_iter().collect();
        self.transitions.push(Transition { name, kind, inputs: arcs.0, outputs: arcs.1, inhibitors });
    }

    /// What the others do: where they come to a gate, behind the followed one while it waits there.
    fn others(&mut self, it: &Transition, enters: Option<Gate>, by: Option<usize>) {
        let Some(gate) = enters else {
            return self.put(it, (it.inputs.clone(), it.outputs.clone()), None, by);
        };
        self.put(it, (it.inputs.clone(), it.outputs.clone()), Some(gate.second), by);
        let behind = |to: &Arc| if to.place == gate.start { Arc { place: gate.behind, ..*to } } else { *to };
        self.put(it, (it.inputs.clone(), it.outputs.iter().map(behind).collect()), Some(gate.clear), by);
    }
}
