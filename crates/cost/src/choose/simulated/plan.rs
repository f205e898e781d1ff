//! The net of a model as one request sees it: what it comes to, where it waits, what it takes along and gives back.

use gspn::net::{Arc, Kind, Rate, Transition};
use hashbrown::HashSet;

use super::super::turns::in_turn;
use crate::net::{Laid, Stage};
use crate::{Class, Fault};

/// Where a request leaves.
pub(super) const END: usize = usize::MAX;

/// From one place to the next.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    /// A place, or [`END`].
    pub(super) to: usize,
    /// The resource of which some are given back, and how many.
    pub(super) gives: Option<(usize, u32)>,
}

/// What a request meets in a place.
#[derive(Debug, Clone)]
pub(super) enum Stop {
    /// It stays for so many exponential times in a row, each with this mean in seconds.
    Time { stages: u32, mean: f64, then: Way },
    /// It goes on at once; weights add up to the last of them.
    Choose(Vec<(f64, Way)>),
    /// It waits for so many of a resource. Who has something to give back, where too few are free, does that meanwhile, and goes elsewhere.
    Wait { resource: usize, count: u32, then: Way, otherwise: Option<Way> },
    /// It does all of a parallel fragment at once, which has this number.
    Fork(usize),
    /// A branch has come to its end: well, or because a check failed.
    Ended(bool),
    /// Nobody comes here.
    Nowhere,
}

/// A parallel fragment.
#[derive(Debug, Clone)]
pub(super) struct Fork {
    /// Where its branches begin.
    pub(super) starts: Vec<usize>,
    /// Where the request goes on when all have ended well, and where if one has not.
    pub(super) then: usize,
    pub(super) failed: usize,
}

/// All places of a net that was laid of a model.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) stops: Vec<Stop>,
    /// Where a request begins.
    pub(super) start: usize,
    /// Of each resource how many there are.
    pub(super) resources: Vec<u32>,
    /// The parallel fragments.
    pub(super) forks: Vec<Fork>,
    /// The one that is had before all others.
    pub(super) threads: Option<usize>,
    /// Of each place whether those who wait there are served as they came.
    pub(super) in_turn: Vec<bool>,
    /// Whether somebody may wait for a pool.
    pub(super) has_pools: bool,
}

impl Plan {
    /// The plan of a net; the times of each stage are longer by a factor.
    pub(super) fn new(laid: &Laid, longer: impl Fn(&Stage) -> f64) -> Result<Self, Fault> {
        let places = laid.net.places();
        let mut resource = vec![None; places.len()];
        laid.resources.iter().enumerate().for_each(|(index, place)| resource[*place] = Some(index));
        let mut factors = vec![1.0; places.len()];
        laid.stages.iter().for_each(|stage| factors[stage.place] = longer(stage));
        let own = |arcs: &[Arc]| arcs.iter().map(|arc| arc.place).find(|place| resource[*place].is_none());
        let count = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX);
        let held = |arcs: &[Arc]| arcs.iter().find_map(|arc| Some((resource[arc.place]?, count(arc.count))));
        let mut stops = vec![Stop::Nowhere; places.len()];
        let mut start = laid.source;
        let forks = branches(laid, &mut stops);
        let joins = laid.fragments.iter().flat_map(|it| &it.transitions).copied().collect::<HashSet<_>>();
        for (index, it) in laid.net.transitions().iter().enumerate().filter(|(index, _)| !joins.contains(index)) {
            let Some((from, to)) = own(&it.inputs).zip(own(&it.outputs)) else { return Err(unknown(it)) };
            if index == laid.begin {
                start = to;
                continue;
            }
            let then = Way { to: if to == laid.source { END } else { to }, gives: held(&it.outputs) };
            let stop = match (&it.kind, held(&it.inputs), &mut stops[from]) {
                (Kind::Timed { rate: Rate::Constant(rate), .. }, None, Stop::Nowhere) => {
                    Stop::Time { stages: 1, mean: factors[from] / rate, then }
                }
                (Kind::Immediate { .. }, Some((resource, count)), Stop::Nowhere) => {
                    Stop::Wait { resource, count, then, otherwise: None }
                }
                // It fires only where the one before does not: its priority is lower.
                (Kind::Immediate { priority, .. }, None, Stop::Wait { otherwise: otherwise @ None, .. })
                    if *priority < crate::net::TAKEN =>
                {
                    *otherwise = Some(then);
                    continue;
                }
                (Kind::Immediate { weight, .. }, None, Stop::Nowhere) => Stop::Choose(vec![(*weight, then)]),
                (Kind::Immediate { weight, .. }, None, Stop::Choose(ways)) => {
                    let before = ways.last().map_or(0.0, |(sum, _)| *sum);
                    ways.push((before + weight, then));
                    continue;
                }
                _ => return Err(unknown(it)),
            };
            stops[from] = stop;
        }
        let threads = laid.queue.and_then(|queue| match stops[queue] {
            Stop::Wait { resource, .. } => Some(resource),
            _ => None,
        });
        let resources = laid.resources.iter().map(|place| count(places[*place].tokens)).collect();
        let (in_turn, has_pools) = (in_turn(laid), !laid.pools.is_empty());
        let mut plan = Self { stops, start, resources, forks, threads, in_turn, has_pools };
        plan.join();
        Ok(plan)
    }

    /// The shortest mean time of a stage; infinite where nothing takes time.
    pub(super) fn shortest(&self) -> f64 {
        let of = |stop: &Stop| {
            if let Stop::Time { mean, .. } = stop { Some(*mean).filter(|mean| *mean > 0.0) } else { None }
        };
        self.stops.iter().filter_map(of).fold(f64::INFINITY, f64::min)
    }

    /// Times in a row that are as long, and between which nothing happens, become one.
    fn join(&mut self) {
        let mut coming = vec![0_u32; self.stops.len()];
        let mut come = |way: &Way| {
            if way.to != END {
                coming[way.to] += 1;
            }
        };
        come(&Way { to: self.start, gives: None });
        for stop in &self.stops {
            match stop {
                Stop::Time { then, .. } => come(then),
                Stop::Wait { then, otherwise, .. } => otherwise.iter().chain([then]).for_each(&mut come),
                Stop::Choose(ways) => ways.iter().for_each(|(_, way)| come(way)),
                Stop::Fork(fork) => {
                    let Fork { starts, then, failed } = &self.forks[*fork];
                    starts.iter().chain([then, failed]).for_each(|to| come(&Way { to: *to, gives: None }));
                }
                Stop::Ended(_) | Stop::Nowhere => {}
            }
        }
        for first in 0..self.stops.len() {
            while let Some((both, next)) = self.with_next(first, &coming) {
                self.stops[first] = both;
                self.stops[next] = Stop::Nowhere;
            }
        }
    }

    /// The stop with the one behind it in it, and which one that is.
    fn with_next(&self, first: usize, coming: &[u32]) -> Option<(Stop, usize)> {
        let Stop::Time { stages, mean, then } = self.stops[first] else { return None };
        if then.gives.is_some() || then.to == END || coming[then.to] > 1 {
            return None;
        }
        match self.stops[then.to] {
            Stop::Time { stages: more, mean: other, then: last } if (mean / other - 1.0).abs() < 1e-12 => {
                Some((Stop::Time { stages: stages + more, mean, then: last }, then.to))
            }
            _ => None,
        }
    }
}

/// The parallel fragments of a net in which all requests share them.
fn branches(laid: &Laid, stops: &mut [Stop]) -> Vec<Fork> {
    let mut forks = Vec::new();
    for it in &laid.fragments {
        stops[it.at] = Stop::Fork(forks.len());
        for [_, end, lost] in &it.branches {
            stops[*end] = Stop::Ended(true);
            if it.failed.is_some() {
                stops[*lost] = Stop::Ended(false);
            }
        }
        let starts = it.branches.iter().map(|[start, ..]| *start).collect();
        forks.push(Fork { starts, then: it.then, failed: it.failed.unwrap_or(END) });
    }
    forks
}

fn unknown(it: &Transition) -> Fault {
    Fault::new(Class::Unanswered, "simulation", format!("nobody knows how a request goes through `{}`", it.name))
}
