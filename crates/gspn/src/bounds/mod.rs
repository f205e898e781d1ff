//! Bounds of long-run means and throughputs without exploring a net: never a value, and never far more work than reading it. Only where there are
//! immediates its first markings are looked at, whether time may stop there.
//!
//! Every net whose arcs bound its tokens has those of a linear program over what all long runs keep to (after Chiola, Anglano,
//! Campos, Colom, Silva). Closed queueing networks have the asymptotic ones and those of balanced jobs (Zahorjan, Sevcik, Eager,
//! Galler) besides.

mod jobs;
mod program;

use std::collections::BTreeMap;

use serde::Serialize;

use self::program::{Program, timeless};
use crate::ask::{Ask, Question};
use crate::product::Product;
use crate::{Budget, Class, Net, Refusal};

/// The value of a question is not below `low` and not above `high`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bound {
    /// At least 0.
    pub low: f64,
    /// Finite.
    pub high: f64,
    /// What says so: of `low`, then of `high`.
    pub by: [&'static str; 2],
}

/// Bounds of all questions.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Bounds {
    /// By the question's name.
    pub bounds: BTreeMap<String, Bound>,
    /// By the question's name: why it has none.
    pub unanswered: BTreeMap<String, Refusal>,
}

/// Bounds what `asks` want of the long run of `net`: mean tokens and throughputs.
///
/// # Errors
/// When no question has bounds, because the net is too large, its arcs do not bound its tokens, or its rates are too far apart; where its first
/// markings show that time may stop for ever ([`Class::TimelessTrap`]).
pub fn bounds(net: &Net, asks: &[Ask], budget: &mut Budget<'_>) -> Result<Bounds, Refusal> {
    if let Some(trap) = timeless(net, budget) {
        return Err(trap);
    }
    let program = Program::new(net, budget)?;
    let jobs = Product::of(net).map(|product| product.jobs()).unwrap_or_default();
    let mut found = Bounds::default();
    for ask in asks {
        let bound = match &ask.question {
            Question::MeanTokens { place, at: None } => program.mean(*place, budget),
            Question::Throughput { transition, at: None } => program.throughput(*transition, budget),
            _ => Err(Refusal::new(
                Class::Unsupported,
                &ask.id,
                "only mean tokens and throughputs of the long run have bounds",
            )),
        };
        match bound {
            Ok((low, high)) if low.is_finite() && high.is_finite() && low <= high => {
                let mut bound = Bound { low, high, by: ["linear program"; 2] };
                if let Question::Throughput { transition, .. } = &ask.question {
                    jobs.iter().for_each(|jobs| jobs.tighten(*transition, &mut bound));
                }
                found.bounds.insert(ask.id.clone(), bound);
            }
            Ok(_) => {
                let why = "the arcs and rates of the net leave it without a bound";
                found.unanswered.insert(ask.id.clone(), Refusal::new(Class::Unsupported, &ask.id, why));
            }
            Err(mut refusal) => {
                refusal.name.clone_from(&ask.id);
                found.unanswered.insert(ask.id.clone(), refusal);
            }
        }
    }
    Ok(found)
}

pub(crate) use self::jobs::Jobs;
pub(crate) use self::program::endless;
