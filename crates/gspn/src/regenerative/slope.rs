//! Derivatives with respect to a rate: central differences of values that are right to many digits.

use super::{ROUNDED as ALIKE, Regenerative, Said};
use crate::Budget;
use crate::ask::{Answer, Ask, Question, Value, is_passage};
use crate::net::{Kind, Net, Rate};

/// By what part the rate is changed at least; also by twice and four times as much.
const STEP: f64 = 1e-3;
/// Multiplications that all differences of a net may take.
const WORK: f64 = 4e9;
/// What may be off of a derivative, relatively, that is said, and what is of any.
const RIGHT: f64 = 1e-4;
const ROUNDED: f64 = 1e-8;
/// By what values differ that are the same but for rounding, relatively.
const SAME: f64 = 1e-12;

const BY_DIFFERENCES: &str = "differences of values without phases";

/// What is said of the derivatives among `asks`: nothing more when that takes too much, or ends in an error.
pub(super) fn slopes(net: &Net, asks: &[Ask], budget: &mut Budget<'_>) -> Vec<(String, Said)> {
    let mut rates: Vec<usize> = asks.iter().filter_map(|ask| of(&ask.question).map(|(_, by)| by)).collect();
    rates.sort_unstable();
    rates.dedup();
    let mut said = Vec::new();
    // Those of passages last: they may take all the time that is left.
    for (by, passages) in rates.iter().map(|by| (*by, false)).chain(rates.iter().map(|by| (*by, true))) {
        let own: Vec<(&Ask, Ask)> = asks
            .iter()
            .filter_map(|ask| {
                let (question, _) = of(&ask.question).filter(|it| it.1 == by && is_passage(it.0) == passages)?;
                Some((ask, Ask { id: ask.id.clone(), question: question.clone() }))
            })
            .collect();
        if own.is_empty() {
            continue;
        }
        let questions: Vec<Ask> = own.iter().map(|(_, question)| question.clone()).collect();
        let Some(rate) = rate(net, by) else { continue };
        let mut values = Vec::new();
        for steps in [1.0, -1.0, 2.0, -2.0, 4.0, -4.0] {
            let changed = scaled(net, by, rate * (1.0 + steps * STEP));
            let Ok(found) = Regenerative::new(&changed, &questions, budget) else { return said };
            #[expect(clippy::cast_precision_loss, reason = "an estimate of work")]
            if rates.len() as f64 * 6.0 * found.effort > WORK {
                return said;
            }
            values.push(found.answer);
        }
        for (ask, _) in own {
            let value = |answer: &Answer| match answer.values.get(&ask.id) {
                Some(Value::Number(value)) => Some(*value),
                _ => None,
            };
            let all: Option<Vec<f64>> = values.iter().map(value).collect();
            // What all values are off in the same way is in no difference.
            let off =
                values.iter().filter_map(|answer| answer.error.get(&ask.id)).fold(0.0_f64, |most, it| most.max(*it));
            let off = (off - ALIKE).max(0.0);
            said.extend(all.and_then(|all| slope(&all, off, rate)).map(|slope| (ask.id.clone(), slope)));
        }
    }
    said
}

/// The derivative from values with the rate changed by one, two and four steps, each up and down; these may be `off` relatively.
fn slope(values: &[f64], off: f64, rate: f64) -> Option<Said> {
    let [up, down, up2, down2, up4, down4] = values else { return None };
    // What does not depend on the rate differs by rounding, and no more digits of it are known than that.
    let [least, most] = [f64::min, f64::max].map(|of| values.iter().copied().fold(*up, of));
    if most - least <= SAME * up.abs() {
        return Some(Said::AtMost((most - least + (SAME + off) * up.abs()) / (STEP * rate)));
    }
    let (one, two, four) = (up - down, up2 - down2, up4 - down4);
    let close = (8.0 * one - two) / (12.0 * STEP * rate);
    let wide = (8.0 * two - four) / (24.0 * STEP * rate);
    // What the higher powers leave is a fifteenth of this, and rounding is as much.
    let error = ((close - wide).abs() + off * up.abs() / (STEP * rate)) / close.abs() + ROUNDED;
    (error <= RIGHT).then_some(Said::Known { value: close, error, method: BY_DIFFERENCES })
}

/// What a derivative is of, and the transition with whose rate; not of a derivative.
fn of(question: &Question) -> Option<(&Question, usize)> {
    match question {
        Question::Sensitivity { of, by } if !matches!(**of, Question::Sensitivity { .. }) => Some((of, *by)),
        _ => None,
    }
}

fn rate(net: &Net, transition: usize) -> Option<f64> {
    match net.transitions()[transition].kind {
        Kind::Timed { rate: Rate::Constant(rate), .. } => Some(rate),
        _ => None,
    }
}

fn scaled(net: &Net, transition: usize, to: f64) -> Net {
    let mut net = net.clone();
    if let Kind::Timed { rate, .. } = &mut net.transitions[transition].kind {
        *rate = Rate::Constant(to);
    }
    net
}
