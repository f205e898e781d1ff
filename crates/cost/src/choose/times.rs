//! How long requests take: distributions, by the reduction to a queue where one is served at a time, by the whole net where several
//! threads serve side by side and nobody in service waits for anybody, and else by following one request (`tagged`). Where that net has too
//! many markings, some requests take no time and others wait for each other, or a request does several things at once, requests are simulated
//! (`simulated`).
//!
//! *Several threads.* Whoever comes waits until a thread is free, first come, first served, and is then served without waiting for a core or a
//! line: so what it waits and what its service takes are independent, and the transform of the sum is the product of theirs. It waits
//! until so many have left that no more are there than threads; who comes later changes nothing. That time is a passage of
//! the whole net without arrivals, from the markings that arriving requests make.

use gspn::chain::long_run;
use gspn::explore::explore;
use gspn::{Budget, Limits, Progress};

use super::adjoint::{self, Felt};
use super::complex::Complex;
use super::invert::{self, Likely};
use super::passage::Passage;
use super::queue::{self, Desk, Entered, Queue};
use super::service::Service;
use super::simulated::{self, Simulated};
use super::tagged;
use crate::model::{Model, Workload};
use crate::net::{self, Form, Laid, What};
use crate::{Class, Fault, solve, weave};

/// Markings up to which a net is solved.
const MARKINGS: u64 = 100_000;

/// Requests in the long run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flow {
    /// That leave a second, aborted ones included.
    pub(super) rate: f64,
    /// Mean time.
    pub(super) mean: f64,
    /// The part of it after a thread was there.
    pub(super) served: f64,
    /// That are turned away a second.
    pub(super) turned_away: f64,
}

impl Flow {
    /// With what each may be off.
    pub(super) fn plus(self, off: Self) -> Self {
        Self {
            rate: self.rate + off.rate,
            mean: self.mean + off.mean,
            served: self.served + off.served,
            turned_away: self.turned_away + off.turned_away,
        }
    }
}

/// The distribution of times.
#[derive(Debug)]
pub(super) enum Times {
    /// Nobody asked.
    Unknown,
    /// One request is served at a time: where requests come to that are let in.
    One(Box<Entered>),
    /// Several are.
    Several {
        /// Share of those that wait for a thread.
        waiting: f64,
        /// How long they do.
        wait: Box<Passage>,
    },
    /// Several are, and wait for each other: how long one takes that is followed.
    Followed(Box<Passage>),
    /// Their net is too large: what a run of them showed.
    Simulated(Box<Simulated>),
}

/// What is to be solved.
#[derive(Debug, Clone, Copy)]
pub(super) struct Task<'a> {
    /// The model in one setting.
    pub(super) model: &'a Model,
    /// Whether at most one request is served at a time.
    pub(super) one: bool,
    /// The percentiles that are told of several threads, and those of them that something is asked of, which runs must know.
    pub(super) levels: &'a [f64],
    pub(super) asked: &'a [f64],
}

/// The long run of one setting.
pub(super) fn solve(task: Task<'_>, service: &Service, budget: &mut Budget<'_>) -> Result<(Flow, Times), Fault> {
    let model = task.model;
    if task.one {
        let queue: Queue = service.queue(model.workload, budget)?;
        let (mean, served) = (queue.response(), service.mean());
        let flow = Flow { rate: queue.rate, mean, served, turned_away: queue.turned_away };
        return Ok((flow, Times::One(Box::new(queue.entered()))));
    }
    // Nobody follows one request through the markings of a net where it is in several places at once.
    if (task.levels.is_empty() || !model.is_parallel())
        && let Some(found) = exact(budget, |budget| by_net(task, service, budget))?.flatten()
    {
        return Ok(found);
    }
    let laid = net::lay_as(&weave(model), Form::Shared)?;
    let seen = simulated::known(&laid, model.workload, task.asked, budget)?;
    Ok((seen.flow().0, Times::Simulated(Box::new(seen))))
}

/// What a net says that has no more markings than are solved, or nothing. Fewer may be allowed, and then more are refused.
pub(super) fn exact<T>(
    budget: &mut Budget<'_>,
    solve: impl FnOnce(&mut Budget<'_>) -> Result<T, Fault>,
) -> Result<Option<T>, Fault> {
    let allowed = budget.limits();
    let limits = Limits { markings: allowed.markings.min(MARKINGS), ..allowed };
    let mut go_on = |progress| budget.look(progress).is_ok();
    let found = solve(&mut Budget::new(limits, &mut go_on));
    // Too many requests in parallel fragments, or more markings than are solved: not than are allowed.
    let too_large = found.as_ref().err().is_some_and(|fault| match (fault.class, fault.name.as_str()) {
        (Class::TooLarge, "par") => true,
        (Class::Unanswered, "markings" | "memory") => allowed.markings > MARKINGS,
        _ => false,
    });
    if too_large { Ok(None) } else { found.map(Some) }
}

/// By the markings of the net; nothing where they do not say it.
fn by_net(task: Task<'_>, service: &Service, budget: &mut Budget<'_>) -> Result<Option<(Flow, Times)>, Fault> {
    let percentiles = !task.levels.is_empty();
    let mut model = std::borrow::Cow::Borrowed(task.model);
    if let (Workload::Closed { think, .. }, true) = (task.model.workload, percentiles)
        && think <= 0.0
    {
        // So short that nothing changes: who has an answer asks again.
        if let Workload::Closed { think, .. } = &mut model.to_mut().workload {
            *think = service.mean() * super::MOMENT;
        }
    }
    let laid = net::lay(&weave(&model))?;
    let unhindered = unhindered(&model, &laid);
    let mut followed = None;
    if percentiles && unhindered.is_none() {
        // A request is followed from its first step on: one without any cannot be.
        if !service.always_takes_time() {
            return Ok(None);
        }
        // First of all, for of nets that are too large it is the larger one.
        followed = Some(tagged::explored(&laid, budget)?);
    }
    let solution = solve::of(&model, &laid, budget)?;
    let (rate, mean) = (solution.throughput + solution.aborted, solution.response);
    let flow = Flow { rate, mean, served: mean - solution.queued, turned_away: solution.turned_away };
    if !percentiles {
        return Ok(Some((flow, Times::Unknown)));
    }
    let times = match (unhindered, followed) {
        (Some(threads), _) => several(&model, &laid, threads, service.takes_time(), budget)?,
        (None, Some(followed)) => Times::Followed(Box::new(tagged::response(&laid, &followed, mean, budget)?)),
        (None, None) => Times::Unknown,
    };
    Ok(Some((flow, times)))
}

/// How many threads there are, if nobody who has one waits for anything.
fn unhindered(model: &Model, laid: &Laid) -> Option<u32> {
    let threads = model.threads()?.min(model.workload.jobs());
    (!hindered(model, laid, threads)).then_some(threads)
}

/// Whether some of so many requests may wait for a core, a line or a pool that others have.
pub(super) fn hindered(model: &Model, laid: &Laid, threads: u32) -> bool {
    // Who waits for a line waits for one message at a time, and a pool has a place only if somebody may wait for it. They may have the name of
    // a node, so their places tell, not their names.
    let waited_for = |place: &usize| laid.lines.contains(place) || laid.pools.contains(place);
    if laid.net.transitions().iter().any(|it| it.inputs.iter().any(|arc| waited_for(&arc.place))) {
        return true;
    }
    !laid.stages.iter().all(|stage| match &stage.what {
        What::Waiting(name) => model.nodes.iter().any(|node| node.name == *name && node.all_cores() >= threads),
        _ => true,
    })
}

/// Where arriving requests find more than all threads at work, and how long these take until a thread is free. A share `taking` of the
/// requests takes time: the others are gone in the moment in which they find a thread, and are no edges.
fn several(model: &Model, laid: &Laid, threads: u32, taking: f64, budget: &mut Budget<'_>) -> Result<Times, Fault> {
    let space = explore(&laid.net, 1, &[], &[laid.begin], budget)?;
    let chain = space.chain();
    let run = long_run(chain, space.initial(), budget)?;
    let Some(begins) = space.watched(laid.begin).map(|watched| &watched.chain) else {
        return Err(Fault::new(Class::Unanswered, "begin", "the net has no arrivals that take time"));
    };
    let mut come = vec![0.0; chain.len()];
    for (state, share) in run.distribution.iter().enumerate() {
        begins.row(state).for_each(|(to, rate)| come[to] += share * rate);
    }
    let mut tokens = vec![0; space.places()];
    let mut at_work = |state: usize| {
        space.load(space.marking_of(u32::try_from(state).unwrap_or(u32::MAX)), &mut tokens);
        u64::from(model.workload.jobs()).saturating_sub(tokens[laid.source]) <= u64::from(threads)
    };
    let goal: Vec<bool> = (0..chain.len()).map(&mut at_work).collect();
    let waiting: f64 = come.iter().zip(&goal).filter(|(_, goal)| !**goal).map(|(share, _)| share).sum();
    let all = waiting + (come.iter().sum::<f64>() - waiting) / taking;
    let least = all * 1e-15;
    come.iter_mut().filter(|share| **share < least).for_each(|share| *share = 0.0);
    let wait = Passage::new(chain.len(), |state| without(chain, begins, state), &come, &goal);
    Ok(Times::Several { waiting: waiting / all, wait: Box::new(wait) })
}

/// The edges of a state but those of `begins`. An arrival adds a request, and nothing else does: its edges are nobody else's.
pub(super) fn without<'c>(
    chain: &'c gspn::chain::Chain,
    begins: &gspn::chain::Chain,
    state: usize,
) -> impl Iterator<Item = (usize, f64)> + 'c {
    let begun: Vec<usize> = begins.row(state).map(|(to, _)| to).collect();
    chain.row(state).filter(move |(to, _)| !begun.contains(to))
}

impl Times {
    /// The probability that a request takes no longer than `time`.
    pub(super) fn within(&self, service: &Service, time: f64, budget: &mut Budget<'_>) -> Result<f64, Fault> {
        match self {
            Self::Simulated(seen) => Ok(seen.within(time)),
            _ => Ok(self.likely(service, time, budget)?.within),
        }
    }

    /// How likely it is that a request takes no longer than `time`, where that was not simulated.
    pub(super) fn likely(&self, service: &Service, time: f64, budget: &mut Budget<'_>) -> Result<Likely, Fault> {
        match self {
            Self::Unknown | Self::Simulated(_) => {
                Err(Fault::new(Class::Unanswered, "percentiles", "nobody asked for them"))
            }
            Self::Followed(passage) => passage.likely(time, budget, |_, it| it),
            Self::One(entered) => {
                let mut stopped = budget.look(Progress::Solving { sweeps: 0, error: 0.0 });
                let mut desk = Desk::default();
                let found = invert::likely(time, |s| {
                    if stopped.is_ok() {
                        stopped = budget.look(Progress::Solving { sweeps: 0, error: 0.0 });
                    }
                    // Of what is given up any number will do.
                    if stopped.is_ok() { queue::transform(service, entered, s, &mut desk) } else { s }
                });
                stopped?;
                found
            }
            Self::Several { waiting, wait } => {
                let mut g = Vec::new();
                wait.likely(time, budget, |s, waited| {
                    service.transform(s, &mut g);
                    let own = service.begin.iter().zip(&g).map(|(begin, g)| g.times(*begin));
                    let own = own.fold(Complex::real(1.0 - service.takes_time()), Complex::plus);
                    waited.times(*waiting).plus(Complex::real(1.0 - waiting)).by(own)
                })
            }
        }
    }

    /// What the probability of at most `time` feels of all prices, where that can be said at once.
    pub(super) fn felt(
        &self,
        service: &Service,
        time: f64,
        likely: Likely,
        budget: &mut Budget<'_>,
    ) -> Result<Option<Felt>, Fault> {
        match self {
            Self::One(entered) => adjoint::felt(service, entered, (time, likely.plain), budget).map(Some),
            _ => Ok(None),
        }
    }

    /// What a probability grows by for each part by which a price does, when it has grown by `step`.
    pub(super) fn slope(&self, felt: &Felt, service: &Service, price: usize, then: &Self, step: f64) -> Option<f64> {
        match (self, then) {
            (Self::One(now), Self::One(then)) => felt.slope(service, price, now, then, step),
            _ => None,
        }
    }

    /// The time by which a share `level` of the requests is done; near `guess`.
    pub(super) fn quantile(
        &self,
        service: &Service,
        level: f64,
        guess: f64,
        budget: &mut Budget<'_>,
    ) -> Result<f64, Fault> {
        if let Self::Simulated(seen) = self {
            return Ok(seen.quantile(level).value);
        }
        if let Self::Several { waiting, .. } = self
            && (1.0 - waiting) * (1.0 - service.takes_time()) >= level
        {
            return Ok(0.0);
        }
        invert::quantile(level, guess, |time| self.likely(service, time, budget))
    }
}
