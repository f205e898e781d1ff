//! Random nets against a second solver, see `by_hand`.

mod by_hand;
mod made;

use std::cell::Cell;

use by_hand::{Naive, fixed, naive};
use gspn::ask::{self, Answer, Ask, Question, Value};
use gspn::net::{Kind, Net};
use gspn::{Budget, Class, Limits, Refusal};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

const AT: f64 = 0.7;

fn questions(net: &Net, times: &[(&str, Option<f64>)]) -> Vec<Ask> {
    let mut asks = vec![
        Ask { id: "tangible".into(), question: Question::Tangible },
        Ask { id: "vanishing".into(), question: Question::Vanishing },
    ];
    for (when, at) in times {
        for place in 0..net.places().len() {
            asks.push(Ask { id: format!("mean{when} p{place}"), question: Question::MeanTokens { place, at: *at } });
        }
        for transition in 0..net.transitions().len() {
            let question = Question::Throughput { transition, at: *at };
            asks.push(Ask { id: format!("rate{when} t{transition}"), question });
        }
    }
    asks
}

fn solve(net: &Net, asks: &[Ask]) -> Result<Answer, Refusal> {
    let mut go_on = |_| true;
    ask::answer(net, asks, &mut Budget::new(Limits::default(), &mut go_on))
}

fn counts(answer: &Answer, found: &Naive) -> Result<(), TestCaseError> {
    prop_assert_eq!(answer.values["tangible"], Value::Count(found.count(false)));
    prop_assert_eq!(answer.values["vanishing"], Value::Count(found.count(true)));
    Ok(())
}

/// Every mean and every throughput, in the long run and soon.
fn same(net: &Net) -> Result<(), TestCaseError> {
    let answer = solve(net, &questions(net, &[("", None), ("@", Some(AT))]));
    let Some((found, wanted)) = naive(net, AT) else {
        prop_assert_eq!(answer.unwrap_err().class, Class::TimelessTrap);
        return Ok(());
    };
    let answer = answer.unwrap();
    counts(&answer, &found)?;
    for (id, wanted) in wanted {
        let Some(Value::Number(value)) = answer.values.get(&id) else {
            return Err(TestCaseError::fail(format!("{id}: {:?}", answer.unanswered.get(&id))));
        };
        let off = (value - wanted).abs();
        prop_assert!(off <= 1e-7 * wanted.abs().max(1e-3), "{} is {}, and {} is wanted", id, value, wanted);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn random_nets_have_one_answer(net in made::nets(made::Parts { tables: true, ..Default::default() })) {
        same(&net)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn random_nets_with_phases_have_one_answer(
        net in made::nets(made::Parts { tables: true, phases: true, ..Default::default() })
    ) {
        // The reference takes the cube of their number.
        prop_assume!(Naive::of(&net).markings.len() <= 150);
        same(&net)?;
    }
}

/// Fixed times to the one percent that is promised, by a method without phases.
#[test]
fn random_nets_with_fixed_times_have_one_answer() {
    let (answered, open) = (Cell::new(0_u32), Cell::new(0_u32));
    let parts = made::Parts { tables: true, fixed: true, back: true, ..Default::default() };
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 500, max_global_rejects: 20_000, ..ProptestConfig::default() });
    let outcome = runner.run(&made::nets(parts), |net| {
        let is_fixed = |kind: &Kind| matches!(kind, Kind::Deterministic { .. });
        prop_assume!(net.transitions().iter().any(|it| is_fixed(&it.kind)));
        let found = Naive::of(&net);
        // One that never runs is not worth a case.
        prop_assume!(found.markings.len() <= 100 && found.expiry.iter().any(|ends| !ends.is_empty()));
        let answer = solve(&net, &questions(&net, &[("", None)]));
        let (trapped, two) = (found.trapped(), found.two_fixed);
        if trapped || two {
            let class = answer.unwrap_err().class;
            prop_assert!(class == Class::TimelessTrap && trapped || class == Class::Unsupported && two, "{:?}", class);
            return Ok(());
        }
        let answer = answer.unwrap();
        counts(&answer, &found)?;
        let Some(wanted) = fixed::long_run(&net, &found) else { return Err(TestCaseError::reject("left too rarely")) };
        for (id, wanted) in wanted {
            let Some(Value::Number(value)) = answer.values.get(&id) else {
                open.set(open.get() + 1);
                continue;
            };
            answered.set(answered.get() + 1);
            let (off, said) = ((value - wanted).abs(), answer.error.get(&id).copied().unwrap_or(0.0));
            prop_assert!(
                off <= 1e-2 * wanted.abs() + 1e-9,
                "{} is {} ({:e}), and {} is wanted",
                id,
                value,
                said,
                wanted
            );
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(answered.get() > 20 * open.get() && answered.get() > 1000, "{answered:?} and {open:?} without an answer");
}
