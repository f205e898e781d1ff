//! Random nets against a second solver, see `by_hand`.

use std::cell::Cell;

use gspn::ask::{self, Answer, Ask, Compare, Condition, Question, Value};
use gspn::net::{Arc, Kind, Net, Place, Rate, Servers, Transition, build};
use gspn::{Budget, Class, Limits, Refusal};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::by_hand::questions::{Generator, holds};
use crate::by_hand::{Naive, fixed, naive};
use crate::made;

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
    // The reference takes the cube of their number: minutes where a net has thousands.
    prop_assume!(Naive::of(net).markings.len() <= 150);
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
    fn random_nets_have_one_answer(net in made::nets(made::Parts { tables: true, crowds: true, ..Default::default() })) {
        same(&net)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn hundreds_of_immediates_that_never_fire_change_nothing(net in made::nets(made::Parts::default())) {
        let (mut places, mut transitions) = (net.places().to_vec(), net.transitions().to_vec());
        for index in 0..200 {
            let inputs = vec![Arc { place: places.len(), count: 1 }];
            places.push(Place { name: format!("never{index}"), tokens: 0 });
            let (name, kind) = (format!("at once{index}"), Kind::Immediate { weight: 1.0, priority: 1 + index % 3, by: None });
            transitions.push(Transition { name, kind, inputs, outputs: Vec::new(), inhibitors: Vec::new() });
        }
        let more = build("", places, transitions).unwrap();
        let asks = questions(&net, &[("", None)]);
        match (solve(&net, &asks), solve(&more, &asks)) {
            (Ok(one), Ok(other)) => for (id, value) in one.values {
                match (value, &other.values[&id]) {
                    (Value::Number(one), Value::Number(other)) => {
                        prop_assert!((one - other).abs() <= 1e-9 * one.abs().max(1e-6), "{}: {} and {}", id, one, other);
                    }
                    (one, other) => prop_assert_eq!(&one, other),
                }
            },
            (one, other) => prop_assert_eq!(one.map(drop).map_err(|it| it.class), other.map(drop).map_err(|it| it.class)),
        }
    }

    /// Without counts of vanishing markings not all orders of immediates are followed.
    #[test]
    fn what_is_asked_besides_changes_no_answer(
        net in made::nets(made::Parts { tables: true, crowds: true, ..Default::default() })
    ) {
        let asks = questions(&net, &[("", None)]);
        let counts = |ask: &&Ask| ask.question == Question::Vanishing;
        let some: Vec<Ask> = asks.iter().filter(|ask| !counts(ask)).cloned().collect();
        match (solve(&net, &some), solve(&net, &asks)) {
            (Ok(one), Ok(other)) => for (id, value) in one.values {
                match (value, &other.values[&id]) {
                    (Value::Number(one), Value::Number(other)) => {
                        prop_assert!((one - other).abs() <= 1e-9 * one.abs().max(1e-6), "{}: {} and {}", id, one, other);
                    }
                    (one, other) => prop_assert_eq!(&one, other),
                }
            },
            (one, other) => prop_assert_eq!(one.map(drop).map_err(|it| it.class), other.map(drop).map_err(|it| it.class)),
        }
    }

    #[test]
    fn random_nets_with_phases_have_one_answer(
        net in made::nets(made::Parts { tables: true, phases: true, crowds: true, ..Default::default() })
    ) {
        same(&net)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Markings of many words, few of which ever change.
    #[test]
    fn hundreds_of_places_that_never_change_change_nothing(
        net in made::nets(made::Parts { tables: true, crowds: true, ..Default::default() })
    ) {
        const APART: usize = 130;
        let of = |index: usize| Place { name: format!("still{index}"), tokens: u64::from(index % APART == 1) };
        let mut places: Vec<Place> = (0..net.places().len() * APART).map(of).collect();
        net.places().iter().enumerate().for_each(|(index, place)| places[index * APART] = place.clone());
        let move_apart = |arcs: &mut Vec<Arc>| arcs.iter_mut().for_each(|arc| arc.place *= APART);
        let transitions = net.transitions().iter().cloned().map(|mut it| {
            [&mut it.inputs, &mut it.outputs, &mut it.inhibitors].into_iter().for_each(move_apart);
            match &mut it.kind {
                Kind::Immediate { by: Some(place), .. } | Kind::Timed { rate: Rate::ByTokens { place, .. }, .. } => *place *= APART,
                _ => {}
            }
            it
        });
        let more = build("", places, transitions.collect()).unwrap();
        let asks = questions(&net, &[("", None)]);
        let apart = asks.iter().cloned().map(|mut ask| {
            if let Question::MeanTokens { place, .. } = &mut ask.question {
                *place *= APART;
            }
            ask
        });
        match (solve(&net, &asks), solve(&more, &apart.collect::<Vec<_>>())) {
            (Ok(one), Ok(other)) => prop_assert_eq!(one.values, other.values),
            (one, other) => prop_assert_eq!(one.map(drop).map_err(|it| it.class), other.map(drop).map_err(|it| it.class)),
        }
    }
}

/// Fixed times to the one percent that is promised, by a method without phases.
#[test]
fn random_nets_with_fixed_times_have_one_answer() {
    fixed_times(made::Parts { tables: true, fixed: true, back: true, crowds: true, ..Default::default() }, 500, 1000);
}

/// The same beside clocks that go through phases.
#[test]
fn random_nets_with_fixed_times_and_phases_have_one_answer() {
    fixed_times(made::Parts { fixed: true, phases: true, back: true, ..Default::default() }, 200, 400);
}

fn fixed_times(parts: made::Parts, cases: u32, least: u32) {
    let (answered, open) = (Cell::new(0_u32), Cell::new(0_u32));
    let mut runner = TestRunner::new(ProptestConfig { cases, max_global_rejects: 20_000, ..ProptestConfig::default() });
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
    assert!(answered.get() > 20 * open.get() && answered.get() > least, "{answered:?} and {open:?} without an answer");
}

/// All five tokens meet in p3 about once in 1e20 rounds, and then one of p4 is gone for good: it is what stays, however rare it was.
#[test]
fn what_hardly_ever_happens_has_happened_in_the_long_run() {
    let place = |index: usize, tokens: u64| Place { name: format!("p{index}"), tokens };
    let places = [3, 0, 1, 1, 1].iter().enumerate().map(|(index, tokens)| place(index, *tokens)).collect();
    let arcs = |arcs: &[(usize, u64)]| arcs.iter().map(|(place, count)| Arc { place: *place, count: *count }).collect();
    let timed = |rate: f64, servers: Servers| Kind::Timed { rate: Rate::Constant(rate), servers };
    let one = || Servers::Finite(1);
    let transition = |name: &str, kind, inputs: &[_], outputs: &[_], inhibitors: &[_]| Transition {
        name: name.into(),
        kind,
        inputs: arcs(inputs),
        outputs: arcs(outputs),
        inhibitors: arcs(inhibitors),
    };
    let transitions = vec![
        transition("t0", timed(3.625, Servers::Infinite), &[(2, 1)], &[(0, 1)], &[]),
        transition("t1", Kind::Deterministic { delay: 2.125 }, &[(0, 1)], &[(3, 1)], &[(0, 2)]),
        transition("t2", timed(0.125, one()), &[(4, 1), (3, 1)], &[(0, 1)], &[(2, 1), (0, 1)]),
        transition("t0back", timed(1.5, one()), &[(0, 1)], &[(2, 1)], &[]),
        transition("t1back", timed(1.5, one()), &[(3, 1)], &[(0, 1)], &[]),
    ];
    let net = build("", places, transitions).unwrap();
    let wanted = fixed::long_run(&net, &Naive::of(&net)).unwrap();
    let answer = solve(&net, &questions(&net, &[("", None)])).unwrap();
    assert_eq!(answer.values["mean p4"], Value::Number(0.0));
    // What is about 1e-17 has no one percent that could be promised.
    for id in ["mean p0", "mean p2", "mean p4", "rate t0", "rate t2", "rate t3"] {
        let (Value::Number(value), wanted) = (&answer.values[id], wanted[id]) else { panic!("{id}: {answer:?}") };
        assert!((value - wanted).abs() <= 1e-2 * wanted + 1e-9, "{id} is {value}, and {wanted} is wanted");
    }
}

const LEVELS: [f64; 3] = [0.05, 0.5, 0.97];

/// Counts, classes, bounds, starts and passages to `condition`.
fn every_question(net: &Net, condition: &Condition) -> Result<(), TestCaseError> {
    let ask = |id: &str, question| Ask { id: id.into(), question };
    let where_ = || condition.clone();
    let mut asks = vec![
        ask("deadlocks", Question::Deadlocks),
        ask("classes", Question::BottomComponents),
        ask("at first", Question::InitialProbability { condition: where_() }),
        ask("absorbed", Question::TimeToAbsorption),
        ask("passage", Question::PassageMean { condition: where_() }),
    ];
    asks.extend((0..net.places().len()).map(|place| ask(&format!("most {place}"), Question::Bound { place })));
    asks.extend(
        LEVELS.map(|level| ask(&format!("by {level}"), Question::PassageQuantile { condition: where_(), level })),
    );
    let found = Naive::of(net);
    if found.markings.len() > 60 || found.trapped() {
        return Ok(());
    }
    let answer = solve(net, &asks).unwrap();
    let by_hand = Generator::of(net, &found);
    let number = |id: &str| match answer.values.get(id) {
        Some(Value::Number(value)) => Ok(*value),
        _ => Err(TestCaseError::fail(format!("{id}: {:?}", answer.unanswered.get(id)))),
    };
    let close = |id: &str, wanted: f64| {
        let value = number(id)?;
        let off = (value - wanted).abs();
        prop_assert!(off <= 1e-8 * wanted.abs() + 1e-13, "{} is {}, and {} is wanted", id, value, wanted);
        Ok(())
    };
    prop_assert_eq!(answer.values["deadlocks"], Value::Count(by_hand.deadlocks()));
    let (closed, classes) = by_hand.closed();
    prop_assert_eq!(answer.values["classes"], Value::Count(classes));
    for place in 0..net.places().len() {
        prop_assert_eq!(answer.values[&format!("most {place}")], Value::Count(by_hand.bound(place)));
    }
    close("absorbed", by_hand.time_to(&closed).unwrap())?;
    let goal = by_hand.goal(|marking| holds(condition, marking));
    close("at first", by_hand.initially(&goal))?;
    match by_hand.time_to(&goal) {
        Some(mean) => close("passage", mean)?,
        None => prop_assert_eq!(answer.unanswered["passage"].class, Class::Unsupported),
    }
    for level in LEVELS {
        let id = format!("by {level}");
        let Some(Value::Number(time)) = answer.values.get(&id) else {
            // It is never that likely: not even long after what would be the time of most.
            prop_assert_eq!(answer.unanswered[&id].class, Class::Unsupported);
            prop_assert!(by_hand.by(&goal, 20.0).is_none_or(|share| share <= level + 1e-9));
            continue;
        };
        let (Some(before), Some(after)) =
            (by_hand.by(&goal, time * (1.0 - 1e-7)), by_hand.by(&goal, time * (1.0 + 1e-7)))
        else {
            continue;
        };
        prop_assert!(before <= level + 1e-12 || *time == 0.0, "{} at {}: {} before", id, time, before);
        prop_assert!(after >= level - 1e-12, "{} at {}: {} after", id, time, after);
    }
    Ok(())
}

fn conditions() -> impl Strategy<Value = Condition> {
    let compare = prop_oneof![
        Just(Compare::Equal),
        Just(Compare::NotEqual),
        Just(Compare::Less),
        Just(Compare::LessOrEqual),
        Just(Compare::Greater),
        Just(Compare::GreaterOrEqual)
    ];
    // Places that every net has.
    prop::collection::vec((0_usize..2, compare, 0_u64..3), 1..3).prop_map(|terms| Condition { terms })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn random_nets_have_one_answer_to_every_question(
        net in made::nets(made::Parts { tables: true, phases: true, crowds: true, ..Default::default() }),
        back in made::nets(made::Parts { tables: true, phases: true, back: true, crowds: true, ..Default::default() }),
        condition in conditions(),
    ) {
        every_question(&net, &condition)?;
        every_question(&back, &condition)?;
    }
}
