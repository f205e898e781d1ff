//! The long run of a secured model, in the words of the application.

use std::collections::BTreeMap;

use gspn::ask::{self, Ask, Checks, Question, Value};
use gspn::net::Kind;
use gspn::{Budget, Progress};
use serde::Serialize;

use crate::model::{Model, Workload};
use crate::net::{self, Laid, What};
use crate::{Class, Fault, Secured};

/// What a model does in the long run. Times are seconds, rates are per second.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Solution {
    /// Requests that come to their end.
    pub throughput: f64,
    /// Requests that a check aborted.
    pub aborted: f64,
    /// Requests that found no room; an open workload only.
    pub turned_away: f64,
    /// Requests that are there, mean.
    pub inside: f64,
    /// Mean time from coming to the end, waiting included.
    pub response: f64,
    /// The part of it without a thread.
    #[serde(skip)]
    pub queued: f64,
    /// For each node its share of busy cores.
    pub nodes: Vec<Busy>,
    /// For each pool its share of held units.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<Held>,
    /// What the mean time of a request is spent on, the longest first.
    pub spent: Vec<Spent>,
    /// Markings that the net can reach and stays in; nothing where only those were counted that differ in more than which of several alike
    /// is which, and there are more than the limit of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub states: Option<u64>,
    /// What the solver checked.
    pub checks: Checks,
}

/// How busy a node is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Busy {
    /// Its name.
    pub node: String,
    /// Share of its cores, 0 to 1.
    pub utilisation: f64,
}

/// How much of a pool is held.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Held {
    /// Its name.
    pub pool: String,
    /// Share of its units, 0 to 1.
    pub utilisation: f64,
}

/// A part of the time of a request.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spent {
    /// On what.
    pub on: String,
    /// The annotation that asked for it: its property and what it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotation: Option<String>,
    /// Seconds, mean over all requests.
    pub seconds: f64,
    /// Whether the request does other things meanwhile, in other branches of a parallel fragment: those seconds are in the ones of the
    /// fragment already.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub beside: bool,
}

/// Lays the net of a model and solves it.
///
/// # Errors
/// As [`net::lay`], and when the solver has no answer: too many markings, a model in which nothing takes time.
pub fn solve(secured: &Secured, budget: &mut Budget<'_>) -> Result<Solution, Fault> {
    of(secured.model(), &net::lay(secured)?, budget)
}

/// The questions that [`solve`] asks about a net.
#[must_use]
pub fn questions(laid: &Laid) -> Vec<Ask> {
    let mut asks = vec![
        Ask { id: "states".to_owned(), question: Question::Tangible },
        Ask { id: "throughput".to_owned(), question: Question::Throughput { transition: laid.end, at: None } },
        mean("source", laid.source),
    ];
    let aborted = laid.aborted.map(|transition| Question::Throughput { transition, at: None });
    asks.extend(aborted.map(|question| Ask { id: "aborted".to_owned(), question }));
    asks.extend(laid.free.iter().enumerate().map(|(node, place)| mean(&format!("free {node}"), *place)));
    asks.extend(laid.stages.iter().enumerate().map(|(stage, it)| mean(&format!("stage {stage}"), it.place)));
    asks.extend(laid.queue.map(|place| mean("queue", place)));
    if laid.open {
        let condition = ask::Condition { terms: vec![(laid.source, ask::Compare::Equal, 0)] };
        asks.push(Ask { id: "full".to_owned(), question: Question::Probability { condition, at: None } });
    }
    asks
}

fn mean(id: &str, place: usize) -> Ask {
    Ask { id: id.to_owned(), question: Question::MeanTokens { place, at: None } }
}

/// Solves a net that was laid of `model`.
pub(crate) fn of(model: &Model, laid: &Laid, budget: &mut Budget<'_>) -> Result<Solution, Fault> {
    if laid.net.transitions().iter().all(|it| matches!(it.kind, Kind::Immediate { .. })) {
        return Err(net::timeless());
    }
    let answer = ask::answer(&laid.net, &questions(laid), budget)?;
    let is_counted =
        |(id, refusal): &(&String, &gspn::Refusal)| *id == "states" && refusal.class == gspn::Class::TooLarge;
    if let Some((id, refusal)) = answer.unanswered.iter().find(|it| !is_counted(it)) {
        // When the time is over, that is nothing of the question's.
        if budget.look(Progress::Answering { done: answer.values.len() as u64 }).is_err() {
            let why = "the limit of time was reached before all figures of its net were known: allow more time";
            return Err(Fault::new(Class::Unanswered, "time", why));
        }
        return Err(Fault::new(Class::Unanswered, asked(model, laid, id), refusal.why.clone()));
    }
    let number = |id: &str| match answer.values.get(id) {
        Some(Value::Number(number)) => *number,
        #[expect(clippy::cast_precision_loss, reason = "a count of markings")]
        Some(Value::Count(count)) => *count as f64,
        None => 0.0,
    };
    let (throughput, aborted) = (number("throughput"), number("aborted"));
    let done = throughput + aborted;
    // What is there is added up, not what is missing taken off: of a thousand places that are nearly all free little would be left.
    let tokens = |stage: usize, copies: u32| number(&format!("stage {stage}")) * f64::from(copies);
    let stages = laid.stages.iter().enumerate().map(|(stage, it)| (it, tokens(stage, it.copies)));
    let stages: Vec<_> = stages.collect();
    // Who does several things at once is there once.
    let whole = stages.iter().filter(|(stage, _)| !stage.beside);
    let inside = number("queue") + whole.map(|(_, tokens)| tokens).sum::<f64>();
    let turned_away = match model.workload {
        Workload::Open { rate, .. } => rate * number("full"),
        Workload::Closed { .. } => 0.0,
    };
    let per_request = |tokens: f64| if done > 0.0 { tokens / done } else { 0.0 };
    let nodes = model.nodes.iter().enumerate().map(|(node, it)| {
        let own = stages.iter().filter(|(stage, _)| stage.on == Some(laid.free[node]));
        // A sum of nothing is -0.
        let busy = own.fold(0.0, |sum, (_, tokens)| sum + tokens);
        Busy { node: it.name.clone(), utilisation: (busy / f64::from(it.all_cores())).clamp(0.0, 1.0) }
    });
    let pools = model.pools.iter().enumerate().map(|(pool, it)| {
        let of = |holds: &[(usize, u32)]| holds.iter().find(|(of, _)| *of == pool).map_or(0.0, |it| f64::from(it.1));
        let held = stages.iter().fold(0.0, |sum, (stage, tokens)| sum + of(&stage.holds) * tokens);
        Held { pool: it.name.clone(), utilisation: (held / f64::from(it.size)).clamp(0.0, 1.0) }
    });
    let mut spent: BTreeMap<((String, Option<String>), bool), f64> = BTreeMap::new();
    for (it, tokens) in &stages {
        *spent.entry((words(model, &it.what), it.beside)).or_default() += per_request(*tokens);
    }
    let queued = per_request(number("queue"));
    if laid.queue.is_some() {
        *spent.entry((("waiting for a thread".to_owned(), None), false)).or_default() += queued;
    }
    let spent =
        spent.into_iter().map(|(((on, annotation), beside), seconds)| Spent { on, annotation, seconds, beside });
    let mut spent: Vec<Spent> = spent.filter(|it| it.seconds > 0.0).collect();
    spent.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    let states = match answer.values.get("states") {
        Some(Value::Count(count)) => Some(*count),
        _ => None,
    };
    let (nodes, pools, response) = (nodes.collect(), pools.collect(), per_request(inside));
    let checks = answer.checks;
    Ok(Solution { throughput, aborted, turned_away, inside, response, queued, nodes, pools, spent, states, checks })
}

/// What a question of [`questions`] is about, in words of the model.
fn asked(model: &Model, laid: &Laid, id: &str) -> String {
    let number = |of: &str| id.strip_prefix(of).and_then(|rest| rest.trim_start().parse::<usize>().ok());
    let node = number("free").and_then(|node| Some(model.nodes.get(node)?.name.clone()));
    let stage = || Some(words(model, &laid.stages.get(number("stage")?)?.what).0);
    node.or_else(stage).unwrap_or_else(|| id.to_owned())
}

fn words(model: &Model, what: &What) -> (String, Option<String>) {
    match what {
        What::Step(name) => (name.clone(), None),
        What::Waiting(name) => (format!("waiting for {name}"), None),
        What::Parallel => ("parallel branches".to_owned(), None),
        What::Security(annotation, mechanism) => (mechanism.word().to_owned(), Some(about(model, *annotation))),
        What::Phase(annotation, phase) => ((*phase).to_owned(), Some(about(model, *annotation))),
    }
}

/// What an annotation asks for, and of what.
pub(crate) fn about(model: &Model, annotation: usize) -> String {
    let annotation = &model.annotations[annotation];
    format!("{} on {}", annotation.property.word(), model.target(annotation))
}
