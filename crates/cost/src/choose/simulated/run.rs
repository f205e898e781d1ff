//! Requests one after the other through the places of a plan.
//!
//! Where requests wait for what is waited for nowhere else (`turns`), they are served as they came; elsewhere in no order: each of those who wait is
//! as likely to be next. Each request, and each of its branches, has random numbers of its own, so that two plans that differ in one time see the same
//! requests.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

use gspn::simulate::Stream;
use gspn::{Budget, Progress};

use super::chance::{Chance, Of};
use super::plan::{END, Plan, Stop, Way};
use crate::model::Workload;
use crate::{Class, Fault};

/// Requests that leave between two marks.
pub(super) const MARK: usize = 128;
/// Events between two looks at the clock.
const SLICE: u64 = 1 << 12;
/// The clock may show so many times the shortest time of a stage; more would leave too few digits for that.
const CLOCK: f64 = 68_719_476_736.0;
/// Who comes next from outside.
const OUTSIDE: u32 = u32::MAX;

/// What was counted since the run began.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    /// Requests that came, those that were turned away included.
    pub(super) came: u64,
    pub(super) turned_away: u64,
    /// Seconds that those who have left waited for a thread, all together.
    pub(super) queued: f64,
    /// When it was, in seconds.
    pub(super) now: f64,
}

#[derive(Debug, Clone)]
struct Request {
    place: usize,
    came: f64,
    queued: f64,
    stream: Stream,
    /// Whose branch this is, if it is one; and what tells its random numbers from those of others.
    parent: u32,
    name: u64,
    /// Branches that were begun in all, that have not come to their ends, and whether one of these failed.
    begun: u64,
    open: u32,
    failed: bool,
}

impl Request {
    fn new(place: usize, came: f64, name: u64, stream: Stream) -> Self {
        Self { place, came, queued: 0.0, stream, parent: OUTSIDE, name, begun: 0, open: 0, failed: false }
    }
}

/// A run, as far as it has come.
pub(super) struct Run<'a> {
    plan: &'a Plan,
    load: Workload,
    chance: Chance,
    now: f64,
    /// Seconds until the clock was last put to 0, and what it may show.
    before: f64,
    most: f64,
    /// What ends when, by the bits of its time, and whose it is.
    next: BinaryHeap<Reverse<(u64, u32)>>,
    requests: Vec<Request>,
    /// Places in `requests` that nobody has.
    free: Vec<u32>,
    /// Those of branches that have come to their ends.
    ended: Vec<u32>,
    /// Who goes on at once, and from where.
    going: Vec<(u32, usize)>,
    /// Of each resource how many are free, and the places in which somebody waits for it.
    left: Vec<u32>,
    wanted: Vec<Vec<usize>>,
    /// Who waits in each place, as they came where they are served so, and who waits for a thread.
    waiting: Vec<VecDeque<u32>>,
    queue: VecDeque<u32>,
    /// Resources of which something may be had.
    stirred: Vec<usize>,
    /// Places from which those go elsewhere who do not get what they want at once.
    trying: Vec<usize>,
    number: u64,
    arrivals: Stream,
    order: Stream,
    counts: Counts,
    /// What was counted whenever so many more had left.
    pub(super) marks: Vec<Counts>,
}

impl<'a> Run<'a> {
    pub(super) fn new(plan: &'a Plan, load: Workload, chance: Chance) -> Self {
        let jobs = load.jobs();
        let nobody = |client: u32| {
            let stream = chance.stream(Of::Client, client.into());
            Request::new(plan.start, 0.0, 0, stream)
        };
        let mut run = Self {
            plan,
            load,
            chance,
            now: 0.0,
            before: 0.0,
            most: plan.shortest() * CLOCK,
            next: BinaryHeap::new(),
            requests: (0..jobs).map(nobody).collect(),
            free: (0..jobs).rev().collect(),
            ended: Vec::new(),
            going: Vec::new(),
            left: plan.resources.clone(),
            wanted: vec![Vec::new(); plan.resources.len()],
            waiting: vec![VecDeque::new(); plan.stops.len()],
            queue: VecDeque::new(),
            stirred: Vec::new(),
            trying: Vec::new(),
            number: 0,
            arrivals: chance.stream(Of::Arrivals, 0),
            order: chance.stream(Of::Order, 0),
            counts: Counts::default(),
            marks: vec![Counts::default()],
        };
        match load {
            Workload::Open { .. } => run.somebody_comes(),
            Workload::Closed { .. } => {
                run.free.clear();
                (0..jobs).for_each(|client| run.thinks(client));
            }
        }
        run
    }

    /// Goes on until so many have left in all; `left` hears of each how long it was there.
    pub(super) fn until(&mut self, many: usize, left: &mut Vec<f64>, budget: &mut Budget<'_>) -> Result<(), Fault> {
        let mut events = 0;
        while left.len() < many {
            events += 1;
            if events % SLICE == 0 {
                budget.look(Progress::Simulating { firings: events })?;
            }
            let Some(Reverse((time, who))) = self.next.pop() else {
                return Err(Fault::new(Class::Unanswered, "simulation", "requests wait for each other for ever"));
            };
            self.now = f64::from_bits(time);
            if self.now > self.most {
                self.put_clock_back();
            }
            match (who, self.load) {
                (OUTSIDE, _) => {
                    self.somebody_comes();
                    self.counts.came += 1;
                    match self.free.pop() {
                        Some(who) => self.begins(who, left),
                        None => self.counts.turned_away += 1,
                    }
                }
                (who, _) if self.requests[who as usize].place == END => {
                    self.counts.came += 1;
                    self.begins(who, left);
                }
                (who, _) => self.goes_on(who, left),
            }
            self.settle(left);
        }
        Ok(())
    }

    /// Puts the clock to 0, and all that is noted of it back as far.
    fn put_clock_back(&mut self) {
        let by = std::mem::replace(&mut self.now, 0.0);
        self.before += by;
        let sooner = |Reverse((time, who))| Reverse(((f64::from_bits(time) - by).max(0.0).to_bits(), who));
        self.next = std::mem::take(&mut self.next).into_iter().map(sooner).collect();
        self.requests.iter_mut().for_each(|request| request.came -= by);
        // Who waits has had the time taken off at which that began.
        self.queue.iter().for_each(|who| self.requests[*who as usize].queued += by);
    }

    fn at(&mut self, later: f64, who: u32) {
        // Times are not below 0, so their bits are in their order.
        self.next.push(Reverse(((self.now + later).to_bits(), who)));
    }

    fn somebody_comes(&mut self) {
        if let Workload::Open { rate, .. } = self.load {
            let later = self.arrivals.exponential() / rate;
            self.at(later, OUTSIDE);
        }
    }

    /// A client thinks before its next request.
    fn thinks(&mut self, client: u32) {
        self.requests[client as usize].place = END;
        if let Workload::Closed { think, .. } = self.load {
            let later = if think > 0.0 { self.requests[client as usize].stream.exponential() * think } else { 0.0 };
            self.at(later, client);
        }
    }

    fn begins(&mut self, who: u32, left: &mut Vec<f64>) {
        self.number += 1;
        let stream = self.chance.stream(Of::Request, self.number);
        self.requests[who as usize] = Request::new(self.plan.start, self.now, self.number, stream);
        self.comes_to(who, self.plan.start, left);
    }

    /// The time of a request in its place is over.
    fn goes_on(&mut self, who: u32, left: &mut Vec<f64>) {
        if let Stop::Time { then, .. } = self.plan.stops[self.requests[who as usize].place] {
            self.takes(who, then, left);
        }
    }

    fn takes(&mut self, who: u32, way: Way, left: &mut Vec<f64>) {
        let to = self.gives(way);
        self.comes_to(who, to, left);
    }

    fn gives(&mut self, way: Way) -> usize {
        if let Some((resource, count)) = way.gives {
            self.left[resource] += count;
            self.stirred.push(resource);
        }
        way.to
    }

    /// On to the next place in which time passes, and so with all branches that begin.
    fn comes_to(&mut self, who: u32, place: usize, left: &mut Vec<f64>) {
        self.going.push((who, place));
        while let Some((who, place)) = self.going.pop() {
            self.goes_to(who, place, left);
        }
    }

    fn goes_to(&mut self, who: u32, mut place: usize, left: &mut Vec<f64>) {
        let plan = self.plan;
        while place != END {
            match &plan.stops[place] {
                Stop::Time { stages, mean, .. } => {
                    let request = &mut self.requests[who as usize];
                    request.place = place;
                    let later = request.stream.erlang(*stages) * mean;
                    return self.at(later, who);
                }
                Stop::Choose(ways) => place = self.chooses(who, ways),
                Stop::Wait { resource, otherwise, .. } => {
                    if otherwise.is_some() {
                        self.trying.push(place);
                    }
                    return self.waits(who, place, *resource);
                }
                Stop::Fork(fork) => {
                    self.requests[who as usize].place = place;
                    return self.forks(who, *fork);
                }
                Stop::Ended(well) => return self.ends(who, *well),
                Stop::Nowhere => return,
            }
        }
        self.leaves(who, left);
    }

    fn chooses(&mut self, who: u32, ways: &[(f64, Way)]) -> usize {
        let [.., (all, last)] = ways else { return END };
        let way = if ways.len() == 1 {
            *last
        } else {
            let chance = self.requests[who as usize].stream.uniform() * all;
            ways.iter().find(|(sum, _)| chance < *sum).map_or(*last, |(_, way)| *way)
        };
        self.gives(way)
    }

    /// All branches begin.
    fn forks(&mut self, who: u32, fork: usize) {
        let starts = &self.plan.forks[fork].starts;
        let parent = &mut self.requests[who as usize];
        let (name, first) = (parent.name, parent.begun);
        parent.begun += starts.len() as u64;
        (parent.open, parent.failed) = (u32::try_from(starts.len()).unwrap_or(u32::MAX), false);
        for (start, number) in starts.iter().zip(first..) {
            let name = name.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number + 1);
            let stream = self.chance.stream(Of::Branch, name);
            let branch = Request { parent: who, ..Request::new(*start, self.now, name, stream) };
            let own = self.ended.pop().unwrap_or_else(|| u32::try_from(self.requests.len()).unwrap_or(OUTSIDE));
            match self.requests.get_mut(own as usize) {
                Some(place) => *place = branch,
                None => self.requests.push(branch),
            }
            self.going.push((own, *start));
        }
    }

    /// A branch is at its end: the last of them goes on as the request.
    fn ends(&mut self, who: u32, well: bool) {
        let parent = self.requests[who as usize].parent;
        self.ended.push(who);
        let Some(request) = self.requests.get_mut(parent as usize) else { return };
        request.open = request.open.saturating_sub(1);
        request.failed |= !well;
        if let (0, Stop::Fork(fork)) = (request.open, &self.plan.stops[request.place]) {
            let fork = &self.plan.forks[*fork];
            self.going.push((parent, if request.failed { fork.failed } else { fork.then }));
        }
    }

    fn waits(&mut self, who: u32, place: usize, resource: usize) {
        self.requests[who as usize].place = place;
        self.stirred.push(resource);
        if Some(resource) == self.plan.threads {
            self.requests[who as usize].queued -= self.now;
            return self.queue.push_back(who);
        }
        if self.waiting[place].is_empty() {
            self.wanted[resource].push(place);
        }
        self.waiting[place].push_back(who);
    }

    fn leaves(&mut self, who: u32, left: &mut Vec<f64>) {
        let request = &self.requests[who as usize];
        left.push(self.now - request.came);
        self.counts.queued += request.queued;
        if left.len().is_multiple_of(MARK) {
            self.marks.push(Counts { now: self.before + self.now, ..self.counts });
        }
        match self.load {
            Workload::Open { .. } => self.free.push(who),
            Workload::Closed { .. } => self.thinks(who),
        }
    }

    /// Whoever can have what he waits for has it: threads first. Who has not then, and has something to give back meanwhile, does so.
    fn settle(&mut self, left: &mut Vec<f64>) {
        loop {
            while let Some(who) = self.next_served() {
                let stop = &self.plan.stops[self.requests[who as usize].place];
                let Stop::Wait { resource, then, count, .. } = *stop else { continue };
                self.left[resource] -= count;
                // There may be more of it, and more who wait.
                self.stirred.push(resource);
                self.takes(who, then, left);
            }
            let waiting = &self.waiting;
            self.trying.retain(|place| !waiting[*place].is_empty());
            let Some(one) = pick(&mut self.order, self.trying.len()) else { return };
            let place = self.trying.swap_remove(one);
            let Stop::Wait { resource, otherwise: Some(otherwise), .. } = self.plan.stops[place] else { continue };
            let Some(who) = self.waiting[place].pop_back() else { continue };
            if self.waiting[place].is_empty() {
                self.wanted[resource].retain(|wanted| *wanted != place);
            }
            self.takes(who, otherwise, left);
        }
    }

    /// Who gets what he waits for: threads first. Where somebody may want a core in the same moment in which he gets a unit of a pool, it
    /// counts which comes first, and anybody who can be served is as likely, as in the net.
    fn next_served(&mut self) -> Option<u32> {
        while let Some(resource) = self.threads_first() {
            if self.plan.has_pools && Some(resource) != self.plan.threads {
                self.stirred.clear();
                return self.served(0..self.wanted.len());
            }
            let who = if Some(resource) == self.plan.threads {
                self.begins_with_thread(resource)
            } else {
                self.served(resource..resource + 1)
            };
            if who.is_some() {
                return who;
            }
        }
        None
    }

    fn threads_first(&mut self) -> Option<usize> {
        let threads = self.stirred.iter().position(|resource| Some(*resource) == self.plan.threads);
        threads.map(|at| self.stirred.swap_remove(at)).or_else(|| self.stirred.pop())
    }

    fn begins_with_thread(&mut self, threads: usize) -> Option<u32> {
        let who = if self.left[threads] > 0 { self.queue.pop_front()? } else { return None };
        self.requests[who as usize].queued += self.now;
        Some(who)
    }

    /// Who gets the next of one of these resources, if somebody waits for whom there is enough.
    fn served(&mut self, of: Range<usize>) -> Option<u32> {
        let (plan, left, wanted) = (self.plan, &self.left, &self.wanted);
        let enough = |resource: usize, place: usize| matches!(plan.stops[place], Stop::Wait { count, .. } if count <= left[resource]);
        let places =
            of.flat_map(|resource| wanted[resource].iter().enumerate().map(move |(at, place)| (resource, at, *place)));
        let places = places.filter(|(resource, _, place)| enough(*resource, *place));
        let many = |place: usize| self.waiting[place].len();
        let all = places.clone().map(|(.., place)| many(place)).sum();
        let mut chosen = pick(&mut self.order, all)?;
        let mut found = None;
        for it in places {
            found = Some(it);
            match chosen.checked_sub(many(it.2)) {
                Some(left) => chosen = left,
                None => break,
            }
        }
        let (resource, at, place) = found?;
        let who = match &mut self.waiting[place] {
            waiting if self.plan.in_turn[place] => waiting.pop_front(),
            waiting => waiting.swap_remove_back(chosen),
        }?;
        if self.waiting[place].is_empty() {
            self.wanted[resource].swap_remove(at);
        }
        Some(who)
    }
}

/// One of so many.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "requests")]
fn pick(stream: &mut Stream, many: usize) -> Option<usize> {
    match many {
        0 => None,
        1 => Some(0),
        _ => Some(((stream.uniform() * many as f64) as usize).min(many - 1)),
    }
}
