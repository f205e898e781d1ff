//! Settings solved once more in full: the markings of the whole net, without the reduction.

use gspn::Budget;
use gspn::ask::{self, Ask, Compare, Condition, Question, Value};
use gspn::chain::long_run;
use gspn::explore::explore;
use gspn::net::{Arc, Kind, Place, Transition};
use serde::Serialize;

use super::{Choice, asked};
use crate::model::{Model, Workload};
use crate::net::{self, Laid};
use crate::{Class, Fault, solve, weave};

/// How a setting came out in full, against what was said of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verified {
    /// Its index.
    pub setting: usize,
    /// Requests a second.
    pub throughput: f64,
    /// Mean time.
    pub mean: f64,
    /// 99 % of the requests are faster; none where it was not asked or nobody could say.
    pub p99: Option<f64>,
    /// The largest difference, relative.
    pub off: f64,
}

/// Solves one setting of a choice in full.
///
/// # Errors
/// When the solver refuses its net.
pub fn verify(model: &Model, choice: &Choice, setting: usize, budget: &mut Budget<'_>) -> Result<Verified, Fault> {
    let said =
        choice.settings.get(setting).ok_or_else(|| Fault::new(Class::NoSuchName, "setting", "there is no such"))?;
    let chosen = asked(model, &choice.wanted)?.chosen(&said.ways);
    let laid = net::lay(&weave(&chosen))?;
    let solution = solve::of(&chosen, &laid, budget)?;
    let mut pairs = vec![(solution.throughput, said.throughput)];
    pairs.extend(said.mean.map(|mean| (solution.response, mean)));
    let mut p99 = None;
    if let Some(said) = said.p99 {
        let found = quantile(&chosen, &laid, 0.99, budget)?;
        pairs.push((found, said));
        p99 = Some(found);
    }
    let off = pairs.iter().map(|(found, said)| (said / found - 1.0).abs()).fold(0.0, f64::max);
    Ok(Verified { setting, throughput: solution.throughput, mean: solution.response, p99, off })
}

/// First come, first served: whoever comes has left when all that were there have. So the net runs empty, without arrivals, from the
/// markings that arriving requests make.
fn quantile(model: &Model, laid: &Laid, level: f64, budget: &mut Budget<'_>) -> Result<f64, Fault> {
    let space = explore(&laid.net, 1, &[], &[], budget)?;
    let chain = space.chain();
    let run = long_run(chain, space.initial(), budget)?;
    let mut places: Vec<Place> = laid.net.places().iter().map(|it| Place { tokens: 0, ..it.clone() }).collect();
    places.push(Place { name: "at first".to_owned(), tokens: 1 });
    let at_first = places.len() - 1;
    let mut transitions: Vec<Transition> = laid.net.transitions().to_vec();
    let Some(begin) = laid.net.transitions().get(laid.begin).cloned() else {
        return Err(Fault::new(Class::Unanswered, "begin", "the net has no arrivals"));
    };
    transitions.remove(laid.begin);
    let mut tokens = vec![0; space.places()];
    for (state, share) in run.distribution.iter().enumerate() {
        space.load(space.marking_of(u32::try_from(state).unwrap_or(u32::MAX)), &mut tokens);
        #[expect(clippy::cast_precision_loss, reason = "clients")]
        let weight = match model.workload {
            Workload::Closed { .. } => share * tokens[laid.source] as f64,
            Workload::Open { .. } => share * f64::from(u8::from(tokens[laid.source] > 0)),
        };
        if weight <= 1e-14 {
            continue;
        }
        for arc in &begin.inputs {
            tokens[arc.place] -= arc.count;
        }
        for arc in &begin.outputs {
            tokens[arc.place] += arc.count;
        }
        let outputs = tokens.iter().enumerate().filter(|(_, count)| **count > 0);
        let outputs = outputs.map(|(place, count)| Arc { place, count: *count }).collect();
        transitions.push(Transition {
            name: format!("at first {state}"),
            kind: Kind::Immediate { weight, priority: 9 },
            inputs: vec![Arc { place: at_first, count: 1 }],
            outputs,
            inhibitors: Vec::new(),
        });
    }
    let net = gspn::net::build("running empty", places, transitions)?;
    let condition = Condition { terms: vec![(laid.source, Compare::Equal, u64::from(model.workload.jobs()))] };
    let question = Question::PassageQuantile { condition, level };
    let answer = ask::answer(&net, &[Ask { id: "quantile".to_owned(), question }], budget)?;
    match (answer.values.get("quantile"), answer.unanswered.get("quantile")) {
        (Some(Value::Number(time)), _) => Ok(*time),
        (_, Some(refusal)) => Err(Fault::new(Class::Unanswered, "quantile", refusal.why.clone())),
        _ => Err(Fault::new(Class::Unanswered, "quantile", "it has no value")),
    }
}
