//! What limits a setting, what of it takes the most, and what less of that would bring.

use std::borrow::Cow;
use std::collections::BTreeMap;

use gspn::Budget;
use gspn::ask::{Question, derivatives};
use gspn::net::{Kind, Transition};
use serde::Serialize;

use super::alone::Alone;
use super::figures::Solved;
use super::service::Service;
use super::simulated::{self, FOR_MOST, FOR_SLOPES, Figure};
use super::{short, times};
use crate::model::{Model, Workload};
use crate::net::{self, Form, Laid, Stage, What};
use crate::{Class, Fault, solve, weave};

/// Where threads that are all at work carry so much of what the scarcest resource could, that is what is full.
const NEARLY: f64 = 0.999;

/// Requests that are there at all times where nothing limits them, at least and at most; and how many times as many as the scarcest resource
/// can have under way.
const MANY: [f64; 2] = [1024.0, 65_536.0];
const TIMES: f64 = 8.0;
/// So many times less than its limit by one part in so many requests a resource carries that is as good as full: others are nearly as scarce.
const SHARE: f64 = 4.0;

/// What a setting saturates first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bottleneck {
    /// The node whose cores are all busy first, the connector whose line is, the pool whose units are all held, `threads`, or `request`: no more can be there (room,
    /// clients), and not so many threads are needed.
    pub resource: String,
    /// How busy it is under the load, 0 to 1; of a pool whose holders wait (`waits`) the load over what is carried.
    pub utilisation: f64,
    /// What of it takes the most.
    pub what: String,
    /// The share of its time that this takes, 0 to 1. So much (in %) more can be carried when that takes 1 % less: the elasticity.
    pub share: f64,
    /// Requests a second that could be carried, aborted ones included, if that took no time: nothing that is done about it brings more. None where nothing else
    /// would take time.
    pub bound: Option<f64>,
    /// What would saturate then.
    pub then: String,
    /// Whether nothing else is full when all threads are at work, or all are there who can be, or all units of a pool are held: those that have one wait for each other.
    /// `share` is the elasticity alone then, and `bound` an upper bound.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
    /// Whether requests do several things at once, and so wait for the longest of them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub beside: bool,
    /// Whether that is an upper bound: requests of several threads wait for each other, and what that costs then is not known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_most: bool,
    /// The annotation that asks for it, by its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotation: Option<usize>,
    /// The setting that differs in this annotation only, is protected as demanded, and carries the most, if that is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead: Option<usize>,
    /// Requests that are served at once, at most.
    #[serde(skip)]
    at_once: u32,
}

/// What is used up by requests: a node by its index, the line of a connector by its index among those that take time, a pool by its index, or
/// the threads (the room or the clients, where those are fewer).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resource {
    Node(usize),
    Line(usize),
    Pool(usize),
    Threads,
}

/// Connectors whose bytes take time.
fn lines(model: &Model) -> impl Iterator<Item = &str> {
    model.connectors.iter().filter(|it| it.bytes_a_second.is_some()).map(|it| it.name.as_str())
}

impl Resource {
    fn name(self, model: &Model) -> String {
        match self {
            Self::Node(node) => model.nodes[node].name.clone(),
            Self::Line(line) => lines(model).nth(line).unwrap_or_default().to_owned(),
            Self::Pool(pool) => model.pools[pool].name.clone(),
            Self::Threads if threads(model).is_none() => "request".to_owned(),
            Self::Threads => "threads".to_owned(),
        }
    }

    /// Where a service says what of it a request takes.
    fn index(self, model: &Model) -> Option<usize> {
        match self {
            Self::Node(node) => Some(node),
            Self::Line(line) => Some(model.nodes.len() + line),
            Self::Pool(pool) => Some(model.nodes.len() + lines(model).count() + pool),
            Self::Threads => None,
        }
    }
}

/// How many requests each resource can carry, aborted ones included. Of one that does several things at once, `alone` says how long it takes.
fn limits(model: &Model, service: &Service, one: bool, alone: Option<&Alone>) -> Vec<(Resource, f64)> {
    let nodes = model.nodes.iter().enumerate();
    let mut limits: Vec<_> =
        nodes.map(|(node, it)| (Resource::Node(node), f64::from(it.all_cores()) / service.cores(node))).collect();
    let all = lines(model)
        .enumerate()
        .map(|(line, _)| (Resource::Line(line), 1.0))
        .chain(model.pools.iter().enumerate().map(|(pool, it)| (Resource::Pool(pool), f64::from(it.size))));
    limits.extend(all.map(|(it, there)| (it, there / takes(model, service, it, alone))));
    limits.retain(|(_, limit)| limit.is_finite());
    limits.push((Resource::Threads, f64::from(at_once(model, one)) / takes(model, service, Resource::Threads, alone)));
    limits
}

/// Seconds for which a request has one of a resource.
fn takes(model: &Model, service: &Service, resource: Resource, alone: Option<&Alone>) -> f64 {
    match (resource, alone) {
        (Resource::Threads, Some(alone)) => alone.mean,
        (Resource::Pool(pool), Some(alone)) => alone.pools[pool],
        _ => resource.index(model).map_or_else(|| service.mean(), |index| service.cores(index)),
    }
}

/// Requests that are served at once, at most.
fn at_once(model: &Model, one: bool) -> u32 {
    if one { 1 } else { model.at_once() }
}

/// The threads, if there are as few as requests that can be there.
fn threads(model: &Model) -> Option<u32> {
    model.threads().filter(|threads| *threads <= model.workload.jobs())
}

/// So many requests that more would carry no more, where several are served at once: all threads, or all that can be there. Where some wait
/// for units of a pool, those who hold one wait for others, too, and of very many a part will do; where nobody does, and there are far more
/// than the scarcest resource needs, that is as good as full. Who does several things at once may always wait for himself, and what one of his
/// branches holds of a pool, or all of them do, nobody knows but the net.
fn crowd(model: &Model, service: &Service, one: bool) -> Option<u32> {
    let (all, parallel) = (model.at_once(), model.is_parallel());
    let one = one && !parallel;
    if one || threads(model).is_some() {
        return threads(model).filter(|_| !one);
    }
    if model.pools.iter().any(|pool| parallel || pool.is_short(all)) {
        return Some(many(model, service).min(all));
    }
    (!is_full(model, service, all)).then_some(all)
}

/// Whether one of so many requests may wait for a core or a line that others have, where what is left of a service is done.
fn may_wait(model: &Model, [service, left]: [&Service; 2], requests: u32) -> bool {
    const SOME: f64 = 1e-6;
    let is_used = |index: usize| left.cores(index) > SOME * service.cores(index);
    let (nodes, lines) = (model.nodes.len(), lines(model).count());
    let mut scarce = (0..nodes).filter(|node| model.nodes[*node].all_cores() < requests);
    scarce.any(is_used) || requests > 1 && (nodes..nodes + lines).any(is_used)
}

/// Whether so many keep the scarcest resource as good as full, where several cores are one that is as much quicker and a time in which nobody
/// waits (Seidmann, Schweitzer and Shalev-Oren 1987). Behind one long visit of a resource those gather who have short ones before them, and
/// then all are away at once: who may have to wait so many times longer than in the mean is worth as much less. That is a rule of thumb,
/// and held against nets by a test.
pub(super) fn is_full(model: &Model, service: &Service, requests: u32) -> bool {
    let all = limits(model, service, false, None);
    let queue = |resource: &Resource| matches!(resource, Resource::Node(_) | Resource::Line(_));
    let queues: Vec<_> = all.into_iter().filter(|(resource, _)| queue(resource)).collect();
    let times: Vec<f64> = queues.iter().map(|(_, limit)| 1.0 / limit).collect();
    let delay = service.mean() - times.iter().sum::<f64>();
    if !fill(requests, delay, &times) {
        return false;
    }
    let longest = times.iter().copied().fold(0.0, f64::max);
    let unlike = queues.iter().zip(&times).filter_map(|((resource, _), time)| {
        let unlike = service.unlike(resource.index(model)?, matches!(resource, Resource::Line(_)));
        Some((unlike - 1.0) * time / longest)
    });
    let gather = 1.0 + unlike.fold(0.0, f64::max);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not above what there are")]
    let worth = (f64::from(requests) / gather) as u32;
    gather <= 1.0 + 1e-9 || fill(worth, delay, &times)
}

/// Whether so many keep the one of these queues with the longest time as good as full, and nobody waits for `delay`: by mean value analysis, as if times
/// were exponential. It goes through their numbers one by one only where two bounds do not say it, and those meet soon: more than
/// (delay and times) / (longest time) / `AS_GOOD` always fill it.
fn fill(requests: u32, delay: f64, times: &[f64]) -> bool {
    const AS_GOOD: f64 = 1e-4;
    let longest = times.iter().copied().fold(0.0, f64::max);
    let (full, alone) = ((1.0 - AS_GOOD) / longest, delay + times.iter().sum::<f64>());
    let most = f64::from(requests);
    if most / alone < full {
        return false;
    }
    // None of the others makes a request wait longer than the longest time.
    if most / (alone + (most - 1.0) * longest) >= full {
        return true;
    }
    let mut there = vec![0.0; times.len()];
    (1..=requests).any(|others| {
        let time = delay + times.iter().zip(&there).map(|(own, there)| own * (1.0 + there)).sum::<f64>();
        let rate = f64::from(others) / time;
        there.iter_mut().zip(times).for_each(|(there, own)| *there = rate * own * (1.0 + *there));
        rate >= full
    })
}

/// The net in which as many are at work at all times as can be, where those wait for each other. Where they could wait for ever, it is
/// as many as there are.
fn crowded(model: &Model, service: &Service, one: bool) -> Result<Option<(Model, Laid)>, Fault> {
    let Some(at_work) = crowd(model, service, one) else { return Ok(None) };
    // A thread that is free is had at once by somebody who waits for it, and then for a core like the others; who comes because there is room
    // for one more comes a moment later.
    let threads = threads(model).map(|_| at_work).filter(|threads| *threads < model.workload.jobs());
    let clients = at_work.saturating_add(u32::from(threads.is_some()));
    let mut model = model.clone();
    (model.workload, model.threads_on) = (Workload::Closed { clients, think: 0.0, threads }, None);
    let laid = net::lay_as(&weave(&model), Form::Shared)?;
    Ok((model.is_parallel() || times::hindered(&model, &laid, at_work)).then_some((model, laid)))
}

/// Requests beside which more would carry no more that could be told from what chance does to runs.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two numbers")]
fn many(model: &Model, service: &Service) -> u32 {
    if model.embraces {
        return model.at_once();
    }
    let limits = limits(model, service, false, None).into_iter().map(|(_, limit)| limit);
    let under_way = limits.fold(f64::INFINITY, f64::min) * service.mean();
    (TIMES * under_way).clamp(MANY[0], MANY[1]) as u32
}

/// How many requests can be carried, aborted ones included: what the scarcest resource can, or less where those who are served wait for each other.
#[derive(Debug)]
pub(super) struct Carried {
    /// Requests a second, and half of the 95 % interval where they were simulated.
    pub(super) rate: Figure,
    /// What was simulated.
    crowd: Option<Box<Crowd>>,
}

/// Runs in which as many are at work as can be.
#[derive(Debug)]
struct Crowd {
    workload: Workload,
    laid: Laid,
    requests: usize,
}

impl Carried {
    /// How much more is carried, relative, for each part by which the times of stages grow, of a request that takes so long in the mean. What
    /// counts less beside others has a `weight` below 1.
    pub(super) fn slope(
        &self,
        of: impl Fn(&Stage) -> bool,
        mean: f64,
        weight: f64,
        budget: &mut Budget<'_>,
    ) -> Result<Option<f64>, Fault> {
        let Some(Crowd { workload, laid, requests }) = self.crowd.as_deref() else { return Ok(None) };
        let step = simulated::step(laid, &of, mean, simulated::STEP);
        let requests = simulated::enough((*requests).clamp(FOR_MOST, FOR_SLOPES[1]), weight);
        let mut run =
            |factor: f64| simulated::longer(laid, *workload, requests, |it| if of(it) { factor } else { 1.0 }, budget);
        let (low, high) = (run(1.0 - step)?, run(1.0 + step)?);
        Ok(Some(low.leave_to(&high).surely() / ((1.0 + step) / (1.0 - step)).ln()))
    }
}

/// How many requests can be carried.
pub(super) fn carried(model: &Model, service: &Service, one: bool, budget: &mut Budget<'_>) -> Result<Carried, Fault> {
    let alone = Alone::of(model, budget)?;
    let limits = limits(model, service, one, alone.as_ref());
    let least = limits.into_iter().map(|(_, limit)| limit).fold(f64::INFINITY, f64::min);
    let exactly = |value: f64| Carried { rate: Figure { value, half: 0.0 }, crowd: None };
    // As full as its limit says, as far as many who wait show: so much less it may be.
    let as_good_as = |rate: f64, half: f64| Carried {
        rate: Figure { value: least, half: (least - rate).max(0.0).max(half) },
        crowd: None,
    };
    let (are_threads, all) = (threads(model).is_some(), at_once(model, one));
    let Some((model, laid)) = crowded(model, service, one)? else { return Ok(exactly(least)) };
    let clients = model.at_once();
    let full = if clients < all { least * (1.0 - SHARE / f64::from(clients)) } else { least };
    match times::exact(budget, |budget| solve::of(&model, &*apart(&model, &laid)?, budget))? {
        Some(all_at_work) => {
            let carried = all_at_work.throughput + all_at_work.aborted;
            Ok(if carried >= full { as_good_as(carried, 0.0) } else { exactly(carried) })
        }
        None => {
            let seen = simulated::crowded(&laid, model.workload, budget)?;
            let rate = seen.leave();
            // Of many who wait runs cannot tell what is full from what is as good as full.
            let unsure = if are_threads { 0.0 } else { rate.half };
            if rate.value + unsure >= full {
                return Ok(as_good_as(rate.value, unsure));
            }
            let crowd = Crowd { workload: model.workload, laid, requests: seen.requests };
            Ok(Carried { rate, crowd: Some(Box::new(crowd)) })
        }
    }
}

/// The net whose markings say what a model does: that in which no two requests share a place of a parallel fragment.
fn apart<'l>(model: &Model, laid: &'l Laid) -> Result<Cow<'l, Laid>, Fault> {
    if laid.fragments.is_empty() { Ok(Cow::Borrowed(laid)) } else { net::lay(&weave(model)).map(Cow::Owned) }
}

/// What all threads at work would carry more, in %, if something took 1 % less: that of which it is most.
fn most_felt(model: &Model, solved: &Solved, budget: &mut Budget<'_>) -> Result<Option<(What, f64)>, Fault> {
    if solved.carried.crowd.is_some() {
        return most_felt_of_long(&solved.service, &solved.carried, budget);
    }
    let Some((crowd, laid)) = crowded(model, &solved.service, false)? else { return Ok(None) };
    if laid.fragments.is_empty() {
        return most_felt_of_net(&laid, budget);
    }
    match times::exact(budget, |budget| most_felt_of_net(&net::lay(&weave(&crowd))?, budget)) {
        Ok(Some(found)) => return Ok(found),
        Err(fault) if fault.class != Class::Unanswered || fault.name == "time" => return Err(fault),
        _ => {}
    }
    // Of markings that are alike all are looked at here, which may be too many: a run says it then.
    let crowd = Crowd { workload: crowd.workload, laid, requests: simulated::REQUESTS[0] };
    let carried = Carried { rate: solved.carried.rate, crowd: Some(Box::new(crowd)) };
    most_felt_of_long(&solved.service, &carried, budget)
}

/// The same of a net that is solved.
fn most_felt_of_net(laid: &Laid, budget: &mut Budget<'_>) -> Result<Option<(What, f64)>, Fault> {
    // As many come as leave, and not all of them come to their end.
    let came = Question::Throughput { transition: laid.begin, at: None };
    let found = derivatives(&laid.net, &[came], budget)?.swap_remove(0)?;
    let mut felt: BTreeMap<&What, f64> = BTreeMap::new();
    for stage in laid.stages.iter().filter(|stage| stage.mean > 0.0) {
        let leads_on = |it: &Transition| matches!(it.kind, Kind::Timed { .. }) && it.inputs[0].place == stage.place;
        let transition = laid.net.transitions().iter().position(leads_on);
        let elasticity = transition.and_then(|transition| found.elasticity(&laid.net, transition));
        *felt.entry(&stage.what).or_default() += elasticity.unwrap_or(0.0) * f64::from(stage.copies);
    }
    let most = felt.into_iter().max_by(|one, other| one.1.total_cmp(&other.1));
    Ok(most.map(|(what, elasticity)| (what.clone(), elasticity)))
}

/// The same where it is simulated, of the few things that take the longest.
fn most_felt_of_long(
    service: &Service,
    carried: &Carried,
    budget: &mut Budget<'_>,
) -> Result<Option<(What, f64)>, Fault> {
    const FEW: usize = 3;
    let mut sums: Vec<(&What, f64)> = service.sums().map(|(what, seconds, _)| (what, seconds)).collect();
    sums.sort_by(|one, other| other.1.total_cmp(&one.1));
    let mut most: Option<(What, f64)> = None;
    for (what, _) in sums.into_iter().take(FEW) {
        let Some(slope) = carried.slope(|stage| stage.what == *what, service.mean(), 1.0, budget)? else { break };
        if most.as_ref().is_none_or(|(_, felt)| -slope > *felt) {
            most = Some((what.clone(), -slope));
        }
    }
    Ok(most)
}

/// What limits a setting.
pub(super) fn of(model: &Model, solved: &Solved, budget: &mut Budget<'_>) -> Result<Option<Bottleneck>, Fault> {
    let (service, one, plain) = (&solved.service, solved.one, &solved.plain);
    let rate = plain.rate;
    let alone = Alone::of(model, budget)?;
    let limits = limits(model, service, one, alone.as_ref());
    let least = limits.iter().copied().min_by(|one, other| one.1.total_cmp(&other.1));
    let Some((resource, limit)) = least else { return Ok(None) };
    let part = |resource: Resource, seconds: f64, cores: &[f64]| {
        let takes = takes(model, service, resource, alone.as_ref());
        match (resource, resource.index(model)) {
            // Who waits for other branches holds it, too: of what that is, nothing is said.
            (Resource::Pool(pool), _) if alone.is_some() => seconds * f64::from(model.pools[pool].most) / takes,
            (_, Some(index)) => cores[index] / takes,
            (_, None) => seconds / takes,
        }
    };
    // The scarcest is full when all threads are at work, or these wait for each other and none is. Of what is done at once not all counts.
    let by_itself = alone.is_none() || matches!(resource, Resource::Node(_) | Resource::Line(_));
    let is_full = plain.carried >= limit * NEARLY;
    let felt = if is_full && by_itself { None } else { most_felt(model, solved, budget)? };
    let (resource, utilisation, what, share) = if let Some((what, share)) = felt {
        let is_held = |(resource, _): &&(Resource, f64)| match resource {
            Resource::Pool(_) => threads(model).is_none(),
            resource => *resource == Resource::Threads,
        };
        match limits.iter().filter(is_held).min_by(|one, other| one.1.total_cmp(&other.1)) {
            Some((pool @ Resource::Pool(_), _)) => (*pool, rate / plain.carried, what, share),
            _ => (Resource::Threads, rate * plain.served / f64::from(at_once(model, one)), what, share),
        }
    } else {
        let node = resource.index(model);
        let Some((what, seconds, cores)) = service.largest(node) else { return Ok(None) };
        let share = part(resource, seconds, &cores);
        (resource, rate / limit, what.clone(), share)
    };
    // Without it each resource has less to do.
    let Some((_, seconds, cores)) = service.sums().find(|(other, ..)| **other == what) else { return Ok(None) };
    let without = limits.iter().map(|(resource, limit)| {
        let left = 1.0 - part(*resource, seconds, &cores);
        // What is left of a sum without its only part is rounding.
        (*resource, if left > 1e-9 { limit / left } else { f64::INFINITY })
    });
    let Some((then, bound)) = without.min_by(|one, other| one.1.total_cmp(&other.1)) else { return Ok(None) };
    // As many as can be there keep that full, or what is full without it.
    let all = at_once(model, one);
    let left = service.without(&what);
    let is_full_then =
        threads(model).is_some() || !may_wait(model, [service, &left], all) || self::is_full(model, &left, all);
    let (what, annotation) = match &what {
        What::Step(name) | What::Waiting(name) => (format!("`{name}`"), None),
        What::Parallel => ("parallel branches".to_owned(), None),
        What::Security(annotation, mechanism) => {
            (format!("{} ({})", mechanism.word(), solve::about(model, *annotation)), Some(*annotation))
        }
        What::Phase(annotation, phase) => {
            (format!("{phase} ({})", solve::about(model, *annotation)), Some(*annotation))
        }
    };
    Ok(Some(Bottleneck {
        resource: resource.name(model),
        utilisation: utilisation.clamp(0.0, 1.0),
        what,
        share,
        bound: Some(bound).filter(|bound| bound.is_finite()),
        then: then.name(model),
        waits: !is_full || !by_itself,
        beside: alone.is_some(),
        at_most: bound.is_finite() && (!is_full_then || crowded(model, service, one)?.is_some()),
        annotation,
        instead: None,
        at_once: all,
    }))
}

impl Bottleneck {
    /// As a sentence; `instead` is the other setting in words, and what it carries.
    pub(super) fn sentence(&self, carried: f64, instead: Option<(String, f64)>) -> String {
        let named = |resource: &str| match resource {
            "threads" => "the threads".to_owned(),
            "request" if self.at_once == 1 => "the one request that can be there".to_owned(),
            "request" => format!("the {} requests that can be there", self.at_once),
            node => format!("`{node}`"),
        };
        let percent = |share: f64| short((share * 1000.0).round() / 10.0);
        let then = |most: &str| match self.bound {
            Some(bound) => format!("{} would be full at {}/s{most}", named(&self.then), short(bound)),
            None => "nothing would ever be full".to_owned(),
        };
        let other = |words: &str, then: f64| format!("; with `{words}` instead it would be {}/s", short(then));
        if self.waits {
            let (first, now) = match self.resource.as_str() {
                "threads" | "request" => ("full first", "busy now"),
                // Those who hold another one may wait for it, and hold all of that.
                _ => ("scarcest", "of what it carries now"),
            };
            let why = if self.beside { "for the longest of their branches, and " } else { "" };
            return format!(
                "{first}: {}, at {}/s ({} % {now}), as those that have one wait {why}for what others have; what counts most is {}: 1 % less of it carries {} % more, and without it {}{}",
                named(&self.resource),
                short(carried),
                percent(self.utilisation),
                self.what,
                short(self.share),
                then(" at most"),
                instead.map(|(words, then)| other(&words, then)).unwrap_or_default(),
            );
        }
        let mut text = format!(
            "full first: {}, at {}/s ({} % busy now); {} % of what {} is {}: 1 % less of it carries {} % more, and without it {}",
            named(&self.resource),
            short(carried),
            percent(self.utilisation),
            percent(self.share),
            if self.resource == "threads" || self.resource == "request" && self.at_once > 1 {
                "they do"
            } else {
                "it does"
            },
            self.what,
            short(self.share),
            then(if self.at_most { " at most" } else { "" }),
        );
        if let Some((words, then)) = instead {
            text.push_str(&other(&words, then));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::fill;

    /// Of queues that are as long as each other, n requests keep each busy for n / (n + queues - 1) of the time.
    #[test]
    fn so_many_fill_what_they_do_one_by_one() {
        for (queues, least) in [(1, 1), (2, 9_999), (3, 19_998)] {
            let times = vec![0.01; queues];
            assert_eq!([least - 1, least + 1, u32::MAX].map(|it| it > 0 && fill(it, 0.0, &times)), [false, true, true]);
        }
        // Ten thousand are always under way behind it, and their number varies by a hundred.
        assert_eq!([10_000, 10_272, 10_273].map(|it| fill(it, 100.0, &[0.01])), [false, false, true]);
    }
}
