//! Derivatives with respect to the rates: against closed forms, and against differences over random nets.

use gspn::ask::{self, Ask, Compare, Condition, Derivatives, Question, Value};
use gspn::net::{Arc, Kind, Net, Place, Rate, Servers, Transition, build};
use gspn::{Budget, Limits, Refusal};
use proptest::prelude::*;

use crate::made;

fn solve(net: &Net, question: &Question) -> Result<f64, Refusal> {
    let asks = [Ask { id: "it".into(), question: question.clone() }];
    let mut go_on = |_| true;
    let mut answer = ask::answer(net, &asks, &mut Budget::new(Limits::default(), &mut go_on))?;
    match answer.values.get("it") {
        Some(Value::Number(value)) => Ok(*value),
        Some(Value::Count(_)) => panic!("not a count"),
        None => Err(answer.unanswered.remove("it").unwrap()),
    }
}

fn derivatives(net: &Net, questions: &[Question]) -> Result<Vec<Result<Derivatives, Refusal>>, Refusal> {
    let mut go_on = |_| true;
    ask::derivatives(net, questions, &mut Budget::new(Limits::default(), &mut go_on))
}

/// `net` with the rate of `transition` times `factor`.
fn with(net: &Net, transition: usize, factor: f64) -> Net {
    let mut transitions = net.transitions().to_vec();
    if let Kind::Timed { rate: Rate::Constant(rate), .. } = &mut transitions[transition].kind {
        *rate *= factor;
    }
    build("", net.places().to_vec(), transitions).unwrap()
}

fn questions(net: &Net) -> Vec<Question> {
    let some = |place: usize| Condition { terms: vec![(place, Compare::Equal, 0)] };
    let mut questions = vec![Question::TimeToAbsorption];
    for at in [None, Some(0.8)] {
        for place in 0..net.places().len().min(2) {
            questions.push(Question::MeanTokens { place, at });
            questions.push(Question::Probability { condition: some(place), at });
        }
        questions.extend((0..net.transitions().len().min(4)).map(|transition| Question::Throughput { transition, at }));
    }
    for place in 0..2 {
        questions.push(Question::PassageMean { condition: some(place) });
        questions.push(Question::PassageQuantile { condition: some(place), level: 0.4 });
    }
    questions
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn random_nets_have_the_derivatives_of_differences(net in made::nets(made::Parts { tables: true, crowds: true, ..Default::default() })) {
        let questions = questions(&net);
        let Ok(found) = derivatives(&net, &questions) else { return Ok(()) };
        for (question, found) in questions.iter().zip(found) {
            let Ok(found) = found else { continue };
            prop_assert_eq!(Ok(found.value), solve(&net, question));
            for (by, slope) in &found.by_rate {
                let Kind::Timed { rate: Rate::Constant(rate), .. } = net.transitions()[*by].kind else { unreachable!() };
                let slope = match slope {
                    Ok(slope) => *slope,
                    Err(refusal) => return Err(TestCaseError::fail(format!("{question:?} by t{by}: {refusal}"))),
                };
                // Central differences, of the fourth order. A long step may pass over a bend, a short one is lost in rounding: a slope
                // that is wrong agrees with none.
                let at = |step: f64| solve(&with(&net, *by, 1.0 + step), question);
                let mut seen = Vec::new();
                for step in [2e-3, 4e-4, 1e-4] {
                    let (Ok(a), Ok(b), Ok(c), Ok(d)) = (at(step), at(-step), at(2.0 * step), at(-2.0 * step)) else { break };
                    let wanted = (8.0 * (a - b) - (c - d)) / (12.0 * step) / rate;
                    let size = wanted.abs().max(found.value.abs() * 1e-2 / rate);
                    seen.push((wanted, (slope - wanted).abs() <= 1e-5 * size + 1e-12));
                    if seen.iter().any(|(_, agrees)| *agrees) {
                        break;
                    }
                }
                let agrees = seen.is_empty() || seen.iter().any(|(_, agrees)| *agrees);
                prop_assert!(agrees, "{:?} by t{}: {} and one of {:?} is wanted", question, by, slope, seen);
            }
        }
    }
}

fn timed(name: &str, rate: f64, from: &[usize], to: &[usize]) -> Transition {
    let arcs = |places: &[usize]| places.iter().map(|place| Arc { place: *place, count: 1 }).collect();
    let kind = Kind::Timed { rate: Rate::Constant(rate), servers: Servers::Finite(1) };
    Transition { name: name.into(), kind, inputs: arcs(from), outputs: arcs(to), inhibitors: Vec::new() }
}

fn place(name: &str, tokens: u64) -> Place {
    Place { name: name.into(), tokens }
}

#[track_caller]
fn close(found: f64, wanted: f64, error: f64) {
    assert!((found - wanted).abs() <= error * wanted.abs(), "{found}, and {wanted} is wanted");
}

/// M/M/1/K: with few states, and with more than are taken out one by one.
#[test]
fn a_queue_has_the_derivatives_of_its_closed_form() {
    for room in [1_u64, 7, 40, 900, 9_000] {
        let (arrive, serve) = (0.9_f64, 1.0_f64);
        let net = build(
            "",
            vec![place("queue", 0), place("room", room)],
            vec![timed("arrive", arrive, &[1], &[0]), timed("serve", serve, &[0], &[1])],
        )
        .unwrap();
        let questions = [Question::MeanTokens { place: 0, at: None }, Question::Throughput { transition: 1, at: None }];
        let found = derivatives(&net, &questions).unwrap();
        // With x = arrive / serve and n = room + 1: L = x/(1-x) - n x^n/(1-x^n), X = arrive (1 - x^(n-1) (1-x)/(1-x^n)).
        let (x, n) = (arrive / serve, room as f64 + 1.0);
        let power = x.powf(n);
        let by_x = 1.0 / (1.0 - x).powi(2) - n * n * power / x / (1.0 - power).powi(2);
        let [mean, rate] = [0, 1].map(|at| found[at].as_ref().unwrap());
        close(*mean.by_rate[0].1.as_ref().unwrap(), by_x / serve, 1e-8);
        close(*mean.by_rate[1].1.as_ref().unwrap(), -by_x * x / serve, 1e-8);
        close(mean.elasticity(&net, 0).unwrap(), by_x * x / mean.value, 1e-8);
        let turned = power / x * (1.0 - x) / (1.0 - power);
        let turned_by_x = turned * ((n - 1.0) / x - 1.0 / (1.0 - x) + n * power / x / (1.0 - power));
        close(*rate.by_rate[0].1.as_ref().unwrap(), 1.0 - turned - x * turned_by_x, 1e-8);
        let by_serve = x * x * turned_by_x;
        let found = *rate.by_rate[1].1.as_ref().unwrap();
        assert!((found - by_serve).abs() <= 1e-8 * by_serve.max(1e-4), "{found}, and {by_serve} is wanted");
    }
}

/// Many stations in a row until the end: more states than are taken out one by one, which are left for good.
#[test]
fn ways_of_many_states_have_the_derivatives_of_their_closed_form() {
    for length in [50_u64, 3_000] {
        // A walk up at rate `up` and down at rate `down`, until all are up.
        let (up, down) = (1.2, 1.0);
        let net = build(
            "",
            vec![place("down", length), place("up", 0)],
            vec![
                timed("rise", up, &[0], &[1]),
                Transition { inhibitors: vec![Arc { place: 1, count: length }], ..timed("fall", down, &[1], &[0]) },
            ],
        )
        .unwrap();
        let full = Condition { terms: vec![(1, Compare::Equal, length)] };
        let questions = [Question::PassageMean { condition: full }, Question::TimeToAbsorption];
        // With x = down / up: T = 1/up * sum over k < length of (1 + x + .. + x^k).
        let (x, n) = (down / up, length as f64);
        let sum = n / (1.0 - x) - x * (1.0 - x.powf(n)) / (1.0 - x).powi(2);
        let by_x = n / (1.0 - x).powi(2)
            - ((1.0 - (n + 1.0) * x.powf(n)) / (1.0 - x).powi(2) + 2.0 * x * (1.0 - x.powf(n)) / (1.0 - x).powi(3));
        for found in derivatives(&net, &questions).unwrap() {
            let found = found.unwrap();
            close(found.value, sum / up, 1e-9);
            close(*found.by_rate[0].1.as_ref().unwrap(), -sum / up / up - by_x * x / up / up, 1e-8);
            close(*found.by_rate[1].1.as_ref().unwrap(), by_x / up / up, 1e-8);
        }
    }
}

/// A race into two ends: at a time, and the median.
#[test]
fn a_race_has_the_derivatives_of_its_closed_form_at_any_time() {
    let (left, right) = (2.0_f64, 3.0_f64);
    let net = build(
        "",
        vec![place("start", 1), place("left", 0), place("right", 0)],
        vec![timed("left!", left, &[0], &[1]), timed("right!", right, &[0], &[2])],
    )
    .unwrap();
    let holds = |place| Condition { terms: vec![(place, Compare::Greater, 0)] };
    let at = 0.3;
    let over = Condition { terms: vec![(0, Compare::Equal, 0)] };
    let found = derivatives(
        &net,
        &[
            Question::Probability { condition: holds(1), at: Some(at) },
            Question::Throughput { transition: 0, at: Some(at) },
            Question::PassageQuantile { condition: over, level: 0.5 },
            Question::PassageQuantile { condition: holds(1), level: 0.25 },
            Question::Probability { condition: holds(1), at: None },
            Question::Tangible,
            Question::BottomComponents,
        ],
    )
    .unwrap();
    let slope = |question: usize, by: usize| *found[question].as_ref().unwrap().by_rate[by].1.as_ref().unwrap();
    let (all, still) = (left + right, (-(left + right) * at).exp());
    let grows = left / all * at * still;
    close(slope(0, 0), right / all.powi(2) * (1.0 - still) + grows, 1e-9);
    close(slope(0, 1), -left / all.powi(2) * (1.0 - still) + grows, 1e-9);
    close(slope(1, 0), still - left * at * still, 1e-9);
    close(slope(1, 1), -left * at * still, 1e-9);
    close(slope(2, 0), -2.0_f64.ln() / all.powi(2), 1e-9);
    close(slope(2, 1), -2.0_f64.ln() / all.powi(2), 1e-9);
    // 1/4 = left/all (1 - exp(-all T)).
    let time = -(1.0 - 0.25 * all / left).ln() / all;
    let inner = 1.0 - 0.25 * all / left;
    close(slope(3, 0), -time / all - 0.25 * right / left.powi(2) / inner / all, 1e-8);
    close(slope(3, 1), -time / all + 0.25 / left / inner / all, 1e-8);
    close(slope(4, 0), right / all.powi(2), 1e-9);
    close(slope(4, 1), -left / all.powi(2), 1e-9);
    assert_eq!([slope(5, 0), slope(6, 1)], [0.0, 0.0]);
}

/// Two queues in a row, the first of which stops while the second is full, with room for so many each.
fn row_of_two(room: u64) -> Net {
    let place = |name: &str, tokens| Place { name: name.into(), tokens };
    let arc = |place| Arc { place, count: 1 };
    let timed = |name: &str, rate, inputs: &[usize], outputs: &[usize]| Transition {
        name: name.into(),
        kind: Kind::Timed { rate: Rate::Constant(rate), servers: Servers::Finite(1) },
        inputs: inputs.iter().copied().map(arc).collect(),
        outputs: outputs.iter().copied().map(arc).collect(),
        inhibitors: Vec::new(),
    };
    let places = vec![place("a", 0), place("room of a", room), place("b", 0), place("room of b", room)];
    let transitions =
        vec![timed("come", 0.9, &[1], &[0]), timed("go on", 1.0, &[0, 3], &[2, 1]), timed("go", 0.8, &[2], &[3])];
    build("two queues", places, transitions).unwrap()
}

/// Nets of two populations are wide: what their states are worth is found piece by piece.
#[test]
fn derivatives_of_a_wide_net_are_those_of_differences() {
    let net = row_of_two(79);
    let question = Question::MeanTokens { place: 0, at: None };
    let goal = Condition { terms: vec![(0, Compare::GreaterOrEqual, 20), (2, Compare::GreaterOrEqual, 10)] };
    for question in [question, Question::PassageMean { condition: goal }] {
        let found = derivatives(&net, std::slice::from_ref(&question)).unwrap().remove(0).unwrap();
        for (transition, slope) in found.by_rate {
            let Kind::Timed { rate: Rate::Constant(rate), .. } = net.transitions()[transition].kind else { panic!() };
            let at = |factor| solve(&with(&net, transition, factor), &question).unwrap();
            let difference = (at(1.0 + 1e-5) - at(1.0 - 1e-5)) / (2e-5 * rate);
            let slope = slope.unwrap();
            assert!(
                (slope - difference).abs() < 1e-5 * (difference.abs() + found.value / rate),
                "{transition}: {slope} {difference}"
            );
        }
    }
}

/// Where each state counts the same, no rate changes the mean: rounding has no say in it, though rates are far apart.
#[test]
fn what_is_the_same_everywhere_has_no_slope() {
    let timed = |name: &str, rate: f64, from: serde_json::Value, to: serde_json::Value| serde_json::json!({"name": name, "kind": "timed", "rate": rate, "in": from, "out": to});
    let slope = |id: &str, of: serde_json::Value, by: &str| serde_json::json!({"id": id, "kind": "sensitivity", "wrt": by, "of": of});
    let tokens = serde_json::json!({"kind": "mean_tokens", "place": "p0"});
    let later = serde_json::json!({"kind": "mean_tokens", "place": "p0", "at": 3.0});
    let surely = serde_json::json!({"kind": "prob", "where": []});
    let beside = serde_json::json!({"kind": "throughput", "transition": "beside"});
    let document = serde_json::json!({"net": {
        "places": [{"name": "p0", "tokens": 2}, {"name": "p1", "tokens": 3}, {"name": "p2"}, {"name": "p3", "tokens": 1}],
        "transitions": [
            timed("t0", 1.675_188_703_652_834_6e-5, serde_json::json!({"p1": 1}), serde_json::json!({"p2": 1})),
            timed("t1", 0.000_801_767_406_445_326_7, serde_json::json!({"p1": 2}), serde_json::json!({"p1": 1, "p2": 1})),
            timed("t2", 366.323_880_448_205_4, serde_json::json!({"p1": 1}), serde_json::json!({"p3": 1})),
            timed("t3", 0.149_308_052_243_251_26, serde_json::json!({"p0": 1, "p3": 1}), serde_json::json!({"p0": 1, "p1": 1})),
            timed("beside", 0.3, serde_json::json!({"p0": 1}), serde_json::json!({"p0": 1}))]},
        "ask": [slope("tokens", tokens, "t2"), slope("later", later, "t2"), slope("surely", surely, "t2"),
            slope("beside", beside.clone(), "t2"), slope("own", beside, "beside")]});
    let document = gspn::json::read(document.to_string().as_bytes()).unwrap();
    let answer =
        ask::answer(&document.net, &document.asks, &mut Budget::new(Limits::default(), &mut |_| true)).unwrap();
    for (id, wanted) in [("tokens", 0.0), ("later", 0.0), ("surely", 0.0), ("beside", 0.0), ("own", 1.0)] {
        let Some(Value::Number(value)) = answer.values.get(id) else { panic!("{id}: {:?}", answer.unanswered) };
        assert!((value - wanted).abs() <= 1e-12 * wanted, "{id}: {value}, and {wanted} is wanted");
        assert!(!answer.error.contains_key(id), "{id}: {answer:?}");
    }
}
