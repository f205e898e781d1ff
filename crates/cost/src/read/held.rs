//! What a request holds of each pool on its way: never more than there is, nothing when it ends, the same whichever way it took. Pools that
//! requests could keep from each other for ever are refused: who holds one and waits for another, while others do it the other way round.
//!
//! Each branch of a parallel fragment is looked at as if it were a request of its own, which holds what was held before, too: it gives back what
//! it acquires, and no more. Together they hold the sum of what each of them does.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::ring::ring;
use crate::model::{Model, Pool, Step, Units};
use crate::{Class, Fault};

/// Steps that are looked at, and sequences inside each other: a model with more is refused when its net is laid.
const MOST: usize = crate::net::MAX_STEPS;
const MAX_DEEP: usize = 500;
/// Pools of a model.
pub(super) const MOST_POOLS: usize = 64;

/// Of each pool what a request holds.
type Held = Vec<u32>;

/// An acquisition while something is held: how much of that, how much is acquired, and where; of several the one after which the fewest
/// requests can all wait.
#[derive(Debug, Clone, Copy)]
struct Nested {
    held: u32,
    more: u32,
    line: usize,
}

struct Walk<'m> {
    model: &'m Model,
    /// The most that are served at once.
    requests: u32,
    held: Held,
    /// What was held before the parallel fragment that is looked at.
    before: Held,
    /// Of each pool the most that is held, and where it was acquired last.
    most: Vec<u32>,
    acquired: Vec<usize>,
    /// Pools that are acquired while another is held, or more of the same: which one, which other.
    while_held: BTreeMap<[usize; 2], Nested>,
    /// What is held after a sequence, by what was before.
    known: HashMap<(usize, Held), Held>,
    left: usize,
}

/// Looks at all that a request does, and says of each pool how much of it is held at most.
pub(super) fn look(model: &mut Model) -> Result<(), Fault> {
    if model.pools.is_empty() {
        return Ok(());
    }
    let none = vec![0; model.pools.len()];
    let mut walk = Walk {
        model,
        requests: requests(model),
        held: none.clone(),
        before: none.clone(),
        most: none.clone(),
        acquired: vec![0; model.pools.len()],
        while_held: BTreeMap::new(),
        known: HashMap::new(),
        left: MOST,
    };
    walk.sequence(0, 0)?;
    if let Some(kept) = walk.held.iter().position(|held| *held > 0) {
        let why = format!(
            "where a request ends, {} of it {} still held: release what is acquired",
            walk.held[kept],
            are(walk.held[kept])
        );
        return Err(walk.fault(kept, why).at(walk.acquired[kept]));
    }
    let Walk { most, while_held, .. } = walk;
    for (pool, most) in model.pools.iter_mut().zip(most) {
        pool.most = most;
    }
    let edges: Vec<[usize; 2]> = while_held.keys().copied().collect();
    model.embraces = edges.iter().any(|[one, other]| one == other) || around(model.pools.len(), &edges).is_some();
    no_embrace(model, &while_held)
}

/// Of one, of several.
const fn are(count: u32) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

impl<'m> Walk<'m> {
    fn fault(&self, pool: usize, why: String) -> Fault {
        Fault::new(Class::Invalid, format!("pool {}", self.model.pools[pool].name), why)
    }

    fn sequence(&mut self, index: usize, deep: usize) -> Result<(), Fault> {
        let before = (index, self.held.clone());
        if let Some(after) = self.known.get(&before) {
            self.held.clone_from(after);
            return Ok(());
        }
        let model = self.model;
        self.steps(&model.sequences[index].steps, index, deep)?;
        self.known.insert(before, self.held.clone());
        Ok(())
    }

    fn steps(&mut self, steps: &'m [Step], of: usize, deep: usize) -> Result<(), Fault> {
        for step in steps {
            if self.left == 0 || deep > MAX_DEEP {
                let why = format!("more than {MOST} steps, or {MAX_DEEP} sequences inside each other: repeat less");
                return Err(Fault::new(Class::TooLarge, "sequence", why));
            }
            self.left -= 1;
            match step {
                Step::Acquire(units) => self.acquire(*units)?,
                Step::Release(units) => self.release(*units)?,
                Step::Ref { sequence, times } => self.refer(*sequence, *times, deep)?,
                Step::Choice(ways) => self.choice(ways, of, deep)?,
                Step::Par(branches) => self.parallel(branches, of, deep)?,
                Step::Operation(_) | Step::Send(_) | Step::Protect(_) => {}
            }
        }
        Ok(())
    }

    fn acquire(&mut self, units: Units) -> Result<(), Fault> {
        let pool = units.of;
        for other in 0..self.held.len() {
            if self.held[other] > 0 {
                self.waits([other, pool], Nested { held: self.held[other], more: units.count, line: units.line });
            }
        }
        self.held[pool] = self.held[pool].saturating_add(units.count);
        self.most[pool] = self.most[pool].max(self.held[pool]);
        self.acquired[pool] = units.line;
        let Pool { size, .. } = self.model.pools[pool];
        if self.held[pool] <= size {
            return Ok(());
        }
        let why =
            format!("a request would hold {} of it and there are {size}: it would wait for ever", self.held[pool]);
        Err(self.fault(pool, why).at(units.line))
    }

    fn release(&mut self, units: Units) -> Result<(), Fault> {
        let (held, before) = (self.held[units.of], self.before[units.of]);
        match held.checked_sub(units.count) {
            Some(left) if left >= before => {
                self.held[units.of] = left;
                return Ok(());
            }
            _ => {}
        }
        let own = held - before;
        let mut why = format!("{} {} released here and {own} {} held", units.count, are(units.count), are(own));
        if before > 0 {
            why += &format!(
                " by this branch: what was acquired before the parallel fragment, {before}, is released behind it"
            );
        }
        Err(self.fault(units.of, why).at(units.line))
    }

    fn refer(&mut self, sequence: usize, times: u32, deep: usize) -> Result<(), Fault> {
        let before = self.held.clone();
        self.sequence(sequence, deep + 1)?;
        if times == 1 {
            return Ok(());
        }
        let Some(pool) = (0..before.len()).find(|pool| before[*pool] != self.held[*pool]) else { return Ok(()) };
        let why = format!(
            "`{}` is done {times} times, and each time leaves {} held for {}: it is to leave as many as it finds",
            self.model.sequences[sequence].name, self.held[pool], before[pool]
        );
        Err(self.fault(pool, why).at(self.acquired[pool]))
    }

    fn choice(&mut self, ways: &'m [(f64, Vec<Step>)], of: usize, deep: usize) -> Result<(), Fault> {
        let before = self.held.clone();
        let mut after: Option<Held> = None;
        for (_, steps) in ways {
            self.held.clone_from(&before);
            self.steps(steps, of, deep + 1)?;
            let Some(first) = &after else {
                after = Some(self.held.clone());
                continue;
            };
            if let Some(pool) = (0..first.len()).find(|pool| first[*pool] != self.held[*pool]) {
                let why = format!(
                    "after one way of a choice in `{}` {} of it {} held, after another {}: all are to leave as many",
                    self.model.sequences[of].name,
                    first[pool],
                    are(first[pool]),
                    self.held[pool]
                );
                return Err(self.fault(pool, why).at(self.acquired[pool]));
            }
        }
        Ok(())
    }
}

impl<'m> Walk<'m> {
    fn parallel(&mut self, branches: &'m [Vec<Step>], of: usize, deep: usize) -> Result<(), Fault> {
        let held = self.held.clone();
        let before = std::mem::replace(&mut self.before, held.clone());
        let most = self.most.clone();
        let nested = std::mem::take(&mut self.while_held);
        // What was found of a sequence before says nothing of what a branch holds in it.
        let known = std::mem::take(&mut self.known);
        let (mut together, mut waits) = (held.clone(), Vec::new());
        for steps in branches {
            self.most.clone_from(&held);
            self.steps(steps, of, deep + 1)?;
            if let Some(pool) = (0..held.len()).find(|pool| held[*pool] != self.held[*pool]) {
                let why = format!(
                    "a branch of a parallel fragment in `{}` leaves {} of it held and finds {}: each is to leave as many as it finds",
                    self.model.sequences[of].name, self.held[pool], held[pool]
                );
                return Err(self.fault(pool, why).at(self.acquired[pool]));
            }
            for (pool, sum) in together.iter_mut().enumerate() {
                *sum = sum.saturating_add(self.most[pool] - held[pool]);
            }
            waits.push(std::mem::take(&mut self.while_held));
            self.known.clear();
        }
        self.while_held = nested;
        for (pools, nested) in all_wait(waits, &held) {
            self.waits(pools, nested);
        }
        self.most = most.iter().zip(&together).map(|(one, other)| *one.max(other)).collect();
        (self.before, self.known) = (before, known);
        Ok(())
    }

    /// Somebody waits for the second of two pools while holding some of the first.
    fn waits(&mut self, pools: [usize; 2], now: Nested) {
        let all = u64::from(self.requests);
        let full = |it: &Nested| u64::from(it.held) * all + u64::from(it.more);
        let worst = self.while_held.entry(pools).or_insert(now);
        if full(&now) > full(worst) {
            *worst = now;
        }
    }
}

/// How branches wait, each while it holds something: where all of them wait for more of one pool, what they hold of it adds up.
fn all_wait(branches: Vec<BTreeMap<[usize; 2], Nested>>, before: &[u32]) -> BTreeMap<[usize; 2], Nested> {
    let mut all: BTreeMap<[usize; 2], Nested> = BTreeMap::new();
    for ([one, other], now) in branches.into_iter().flatten() {
        let both = all.entry([one, other]);
        both.and_modify(|it| {
            if one == other {
                it.held = it.held.saturating_add(now.held - before[one]);
            } else {
                it.held = it.held.max(now.held);
            }
            it.more = it.more.max(now.more);
        })
        .or_insert(now);
    }
    all
}

/// The most requests that are served at once, on as many machines as there may be.
fn requests(model: &Model) -> u32 {
    let jobs = model.workload.jobs();
    let machines = model.threads_on.and_then(|node| model.nodes[node].machines.counts.iter().copied().max());
    let threads = model.workload.threads().map(|threads| threads.saturating_mul(machines.unwrap_or(1)));
    threads.map_or(jobs, |threads| threads.min(jobs))
}

/// That no requests hold what others wait for, and wait for what those hold. That a pool around them lets in fewer at a time is not looked at.
fn no_embrace(model: &Model, while_held: &BTreeMap<[usize; 2], Nested>) -> Result<(), Fault> {
    let requests = requests(model);
    let name = |pool: usize| &model.pools[pool].name;
    let fault = |pool: usize, why: String| Fault::new(Class::Invalid, format!("pool {}", name(pool)), why);
    for ([one, other], nested) in while_held {
        let size = model.pools[*one].size;
        let holding = u64::from(nested.held) * u64::from(requests);
        // Each holds as much as one does who wants more, and less is left than that.
        if one == other && model.pools[*one].is_short(requests) && holding > u64::from(size.saturating_sub(nested.more))
        {
            let why = format!(
                "{} of it {} acquired while {} {} held: where {requests} requests hold so many, what is left of {size} is too little for any, and all wait for ever; acquire all at once, or one after the other",
                nested.more,
                are(nested.more),
                nested.held,
                are(nested.held)
            );
            return Err(fault(*one, why).at(nested.line));
        }
    }
    let waits = |[one, other]: &[usize; 2]| {
        one != other && model.pools[*one].is_short(requests) && model.pools[*other].is_short(requests)
    };
    let edges: Vec<[usize; 2]> = while_held.keys().copied().filter(waits).collect();
    let Some(way) = around(model.pools.len(), &edges) else { return Ok(()) };
    let names: Vec<String> = way.iter().map(|pool| format!("`{}`", name(*pool))).collect();
    let why = format!(
        "requests may wait for each other for ever: {} is acquired while the one before is held: acquire them in one order",
        names.join(", then ")
    );
    let first = way.first().zip(way.get(1)).and_then(|(one, other)| while_held.get(&[*one, *other]));
    Err(fault(way[0], why).at(first.map_or(0, |nested| nested.line)))
}

/// A way over edges between so many pools from one back to itself, both ends included.
fn around(pools: usize, edges: &[[usize; 2]]) -> Option<Vec<usize>> {
    let mut leads = vec![Vec::new(); pools];
    edges.iter().filter(|[one, other]| one != other).for_each(|[one, other]| leads[*one].push(*other));
    ring(&leads)
}
