//! The way of one request through a net that was laid for it alone. It waits for nobody, so the place that it is in says all: cores and
//! lines are there whenever it comes. Exploring the markings would find the same, and look at each place in each of them.

use gspn::net::{Kind, Rate};
use gspn::{Budget, Progress};

use crate::net::Sketch;
use crate::{Class, Fault};

/// Places between two looks at the clock.
const LOOK: usize = 1 << 12;
/// Bytes of a way from one place to another.
const WAY: u64 = 16;

/// Where the request spends time, in an order in which every way leads forward.
#[derive(Debug)]
pub(super) struct Walk {
    /// The places.
    pub(super) places: Vec<usize>,
    /// Probability of beginning in each; what is missing to 1 takes no time at all.
    pub(super) begin: Vec<f64>,
    /// Ways to later ones, with their rates: those of the first place first; and where those of each begin, and end.
    pub(super) ways: Vec<(usize, f64)>,
    pub(super) starts: Vec<usize>,
    /// Rate of coming to the end, or of being aborted.
    pub(super) done: Vec<f64>,
    /// Rate of being aborted, and the probability of being so without having taken time.
    pub(super) aborted: (Vec<f64>, f64),
    /// The same of coming to the end.
    pub(super) finished: (Vec<f64>, f64),
}

/// A transition, as the request sees it.
#[derive(Debug, Clone, Copy)]
struct Move {
    transition: usize,
    to: usize,
    /// A rate, or a weight and its priority.
    speed: f64,
    priority: Option<u32>,
}

/// Where a place leads to without taking time: places that take time, the end and the abort, each with its share.
type Lead = Vec<(usize, f64)>;

struct Walker<'a> {
    laid: &'a Sketch,
    /// Those of the first place first; and where those of each begin, and end.
    moves: Vec<Move>,
    starts: Vec<usize>,
    /// Of each place that takes no time and has one way, the place that stands for it, else the place itself.
    same: Vec<usize>,
    /// Of places that take no time and have several ways, where those lead to.
    leads: Vec<Lead>,
    /// Ways in `leads` and in the walk.
    count: u64,
}

/// The walk of the request that is alone in `laid`.
pub(super) fn walk(laid: &Sketch, budget: &mut Budget<'_>) -> Result<Walk, Fault> {
    let mut walker = Walker::new(laid);
    let start = walker.moves(laid.source).first().map_or(laid.source, |begin| begin.to);
    let order = walker.order(start, budget)?;
    for (index, place) in order.iter().rev().enumerate() {
        if index % LOOK == 0 {
            budget.bytes(walker.count * WAY)?;
            budget.look(Progress::Exploring {
                tangible: 0,
                done: index as u64,
                vanishing: index as u64,
                edges: walker.count,
            })?;
        }
        walker.lead(*place);
    }
    // As many lead on from places that take time.
    budget.bytes(walker.count * 2 * WAY)?;
    Ok(walker.end(&order, start))
}

impl<'a> Walker<'a> {
    fn new(laid: &'a Sketch) -> Self {
        let places = laid.places.len();
        let mut is_resource = vec![false; places];
        laid.resources.iter().for_each(|place| is_resource[*place] = true);
        let mut found = Vec::with_capacity(laid.transitions.len());
        for (transition, it) in laid.transitions.iter().enumerate() {
            let own = |arcs: &[gspn::net::Arc]| arcs.iter().map(|arc| arc.place).find(|place| !is_resource[*place]);
            let (speed, priority) = match &it.kind {
                Kind::Timed { rate: Rate::Constant(rate), .. } => (*rate, None),
                Kind::Immediate { weight, priority, .. } => (*weight, Some(*priority)),
                // No other kind is laid.
                _ => continue,
            };
            if let Some((from, to)) = own(&it.inputs).zip(own(&it.outputs)) {
                found.push((from, Move { transition, to, speed, priority }));
            }
        }
        // Those of one place stay in their order.
        found.sort_by_key(|(from, _)| *from);
        let mut starts = vec![0; places + 1];
        found.iter().for_each(|(from, _)| starts[from + 1] += 1);
        (0..places).for_each(|place| starts[place + 1] += starts[place]);
        let moves = found.into_iter().map(|(_, it)| it).collect();
        Self { laid, moves, starts, same: (0..places).collect(), leads: vec![Lead::new(); places], count: 0 }
    }

    /// What stands for having been aborted: no place has this number.
    fn abort(&self) -> usize {
        self.same.len()
    }

    fn moves(&self, place: usize) -> &[Move] {
        &self.moves[self.starts[place]..self.starts[place + 1]]
    }

    fn takes_time(&self, place: usize) -> bool {
        let moves = self.moves(place);
        !moves.is_empty() && moves.iter().all(|it| it.priority.is_none())
    }

    /// The places that are reached from `start`, each before those that it leads to.
    fn order(&self, start: usize, budget: &mut Budget<'_>) -> Result<Vec<usize>, Fault> {
        let mut before = vec![0_usize; self.same.len()];
        let mut reached = vec![false; self.same.len()];
        let mut open = vec![start];
        reached[start] = true;
        let mut found = 0_u64;
        while let Some(place) = open.pop() {
            found += 1;
            budget.markings(found)?;
            if self.moves(place).is_empty() {
                return Err(Fault::new(Class::Unanswered, "service", "from one of its places nothing leads on"));
            }
            for to in self.moves(place).iter().map(|it| it.to).filter(|to| *to != self.laid.source) {
                before[to] += 1;
                if !std::mem::replace(&mut reached[to], true) {
                    open.push(to);
                }
            }
        }
        let mut order = Vec::new();
        let mut ready = vec![start];
        while let Some(place) = ready.pop() {
            order.push(place);
            for to in self.moves(place).iter().map(|it| it.to).filter(|to| *to != self.laid.source) {
                before[to] -= 1;
                if before[to] == 0 {
                    ready.push(to);
                }
            }
        }
        if order.len() as u64 == found {
            return Ok(order);
        }
        Err(Fault::new(Class::Unanswered, "service", "its phases lead back to earlier ones"))
    }

    /// Where a place leads to, when those that it leads to are known.
    fn lead(&mut self, place: usize) {
        if self.takes_time(place) {
            return;
        }
        let moves = self.moves(place);
        let first = moves.iter().filter_map(|it| it.priority).max();
        let fires = || moves.iter().filter(|it| it.priority == first);
        if let (Some(only), None) = (fires().next(), fires().nth(1)) {
            self.same[place] = self.target(only);
            return;
        }
        let all: f64 = fires().map(|it| it.speed).sum();
        let mut lead = Lead::new();
        for it in fires() {
            self.follow(it, it.speed / all, &mut lead);
        }
        merge(&mut lead);
        self.count += lead.len() as u64;
        self.leads[place] = lead;
    }

    /// What stands for the place that a move leads to.
    fn target(&self, it: &Move) -> usize {
        if Some(it.transition) == self.laid.aborted { self.abort() } else { self.same[it.to] }
    }

    /// Adds where a move leads to, a part of which is taken.
    fn follow(&self, it: &Move, part: f64, lead: &mut Lead) {
        let target = self.target(it);
        match self.leads.get(target).filter(|further| !further.is_empty()) {
            Some(further) => lead.extend(further.iter().map(|(to, share)| (*to, part * share))),
            None => lead.push((target, part)),
        }
    }

    /// The walk, when it is known where each place leads to.
    fn end(self, order: &[usize], start: usize) -> Walk {
        let places: Vec<usize> = order.iter().copied().filter(|place| self.takes_time(*place)).collect();
        let mut index = vec![usize::MAX; self.same.len()];
        places.iter().enumerate().for_each(|(position, place)| index[*place] = position);
        let (end, abort) = (self.laid.source, self.abort());
        let (mut begin, mut at_once, mut ends_at_once) = (vec![0.0; places.len()], 0.0, 0.0);
        let mut first = Lead::new();
        let come = Move { transition: self.laid.begin, to: start, speed: 1.0, priority: None };
        self.follow(&come, 1.0, &mut first);
        for (to, share) in first.drain(..) {
            match to {
                to if to == abort => at_once += share,
                to if to == end => ends_at_once += share,
                to => begin[index[to]] += share,
            }
        }
        let mut walk = Walk {
            begin,
            ways: Vec::with_capacity(places.len()),
            starts: vec![0],
            done: vec![0.0; places.len()],
            aborted: (vec![0.0; places.len()], at_once),
            finished: (vec![0.0; places.len()], ends_at_once),
            places: Vec::new(),
        };
        for (position, place) in places.iter().enumerate() {
            let mut lead = std::mem::take(&mut first);
            for it in self.moves(*place) {
                self.follow(it, it.speed, &mut lead);
            }
            merge(&mut lead);
            for (to, rate) in lead.drain(..) {
                if to == abort {
                    walk.aborted.0[position] += rate;
                } else if to == end {
                    walk.finished.0[position] += rate;
                }
                if to == abort || to == end { walk.done[position] += rate } else { walk.ways.push((index[to], rate)) }
            }
            walk.starts.push(walk.ways.len());
            first = lead;
        }
        walk.places = places;
        walk
    }
}

/// Each target once.
fn merge(lead: &mut Lead) {
    lead.sort_unstable_by_key(|(to, _)| *to);
    lead.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
}
