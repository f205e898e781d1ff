//! Nets of replicas: one of all markings that differ only in which replica is which gives the answers of all of them.

use std::ops::Range;

use gspn::ask::{self, Answer, Ask, Compare, Condition, Question, Value};
use gspn::net::{Arc, Kind, Net, Place, Rate, Servers, Transition, build};
use gspn::{Budget, Class, Limits, Refusal};
use proptest::prelude::*;
use serde_json::json;

fn answer(net: &Net, asks: &[Ask], markings: u64) -> Result<Answer, Refusal> {
    ask::answer(net, asks, &mut Budget::new(Limits { markings, ..Limits::default() }, &mut |_| true))
}

/// A transition of one replica. Places below `own` are the replica's, the others everybody's.
#[derive(Debug, Clone)]
struct Part {
    kind: Kind,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    inhibitor: Option<(usize, u64)>,
}

/// Replicas of `own` places each and shared places behind them, in the order of `order`, which says where each replica stands.
fn replicas(own: &[u64], shared: &[u64], parts: &[Part], count: usize) -> Net {
    let mut places = Vec::new();
    for replica in 0..count {
        places.extend(
            own.iter().enumerate().map(|(at, tokens)| Place { name: format!("p{at} of {replica}"), tokens: *tokens }),
        );
    }
    places.extend(shared.iter().enumerate().map(|(at, tokens)| Place { name: format!("s{at}"), tokens: *tokens }));
    let mut transitions = Vec::new();
    // Part after part, every second with the replicas the other way round: the order says nothing.
    for (index, part) in parts.iter().enumerate() {
        for step in 0..count {
            let replica = if index % 2 == 0 { step } else { count - 1 - step };
            let to = |place: usize| {
                if place < own.len() { replica * own.len() + place } else { (count - 1) * own.len() + place }
            };
            let arcs = |places: &[usize]| {
                let mut arcs: Vec<Arc> = Vec::new();
                for place in places {
                    match arcs.iter_mut().find(|arc| arc.place == to(*place)) {
                        Some(arc) => arc.count += 1,
                        None => arcs.push(Arc { place: to(*place), count: 1 }),
                    }
                }
                arcs
            };
            let kind = match &part.kind {
                Kind::Timed { rate: Rate::ByTokens { place, rates }, servers } => {
                    Kind::Timed { rate: Rate::ByTokens { place: to(*place), rates: rates.clone() }, servers: *servers }
                }
                Kind::Immediate { weight, priority, by: Some(_) } => {
                    let by = part.inputs.last().map(|place| to(*place));
                    Kind::Immediate { weight: *weight, priority: *priority, by }
                }
                kind => kind.clone(),
            };
            let inhibitors = part.inhibitor.map(|(place, count)| Arc { place: to(place), count });
            transitions.push(Transition {
                name: format!("t{index} of {replica}"),
                kind,
                inputs: arcs(&part.inputs),
                outputs: arcs(&part.outputs),
                inhibitors: inhibitors.into_iter().collect(),
            });
        }
    }
    build("", places, transitions).unwrap()
}

/// Every part puts as many tokens as it takes, so that all places are bounded.
fn nets(counts: Range<usize>) -> impl Strategy<Value = (Net, usize)> {
    (1_usize..4, 0_usize..3, counts).prop_flat_map(|(own, shared, count)| {
        let places = own + shared;
        let kind = prop_oneof![
            5 => (1_u32..40, prop_oneof![Just(Servers::Finite(1)), Just(Servers::Finite(2)), Just(Servers::Infinite)])
                .prop_map(|(rate, servers)| Kind::Timed { rate: Rate::Constant(f64::from(rate) / 8.0), servers }),
            1 => (0..places, prop::collection::vec(0_u32..20, 1..4)).prop_map(|(place, rates)| Kind::Timed {
                rate: Rate::ByTokens { place, rates: rates.into_iter().map(f64::from).collect() },
                servers: Servers::Finite(1),
            }),
            2 => (1_u32..10, 1_u32..3, prop::option::of(Just(0)))
                .prop_map(|(weight, priority, by)| Kind::Immediate { weight: f64::from(weight), priority, by }),
        ];
        let moved = prop::collection::vec((0..places, 0..places), 1..3);
        let part = (kind, moved, prop::option::weighted(0.2, (0..places, 1_u64..3)));
        let parts = prop::collection::vec(part, 1..5);
        (prop::collection::vec(0_u64..2, own), prop::collection::vec(0_u64..3, shared), parts).prop_map(
            move |(own, shared, parts)| {
                let parts: Vec<Part> = parts
                    .into_iter()
                    .map(|(kind, moved, inhibitor)| Part {
                        kind,
                        inputs: moved.iter().map(|(from, _)| *from).collect(),
                        outputs: moved.iter().map(|(_, to)| *to).collect(),
                        inhibitor,
                    })
                    .collect();
                (replicas(&own, &shared, &parts, count), own.len() * count)
            },
        )
    })
}

fn one(place: usize, compare: Compare, count: u64) -> Condition {
    Condition { terms: vec![(place, compare, count)] }
}

/// What can be asked of each place and transition, in the long run and early.
fn means(net: &Net, count: u64) -> Vec<Question> {
    let mut all = Vec::new();
    for at in [None, Some(0.4)] {
        for place in 0..net.places().len() {
            all.push(Question::MeanTokens { place, at });
            all.push(Question::Probability { condition: one(place, Compare::LessOrEqual, count), at });
        }
        all.extend((0..net.transitions().len()).map(|transition| Question::Throughput { transition, at }));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn replicas_exchanged_or_not_have_the_same_answers((net, replicated) in nets(4..6), count in 0_u64..4) {
        let mut asks = Vec::new();
        let mut ask = |question| asks.push(Ask { id: format!("q{}", asks.len()), question });
        means(&net, count).into_iter().for_each(&mut ask);
        for place in 0..net.places().len() {
            ask(Question::Bound { place });
        }
        for place in replicated..net.places().len() {
            ask(Question::PassageMean { condition: one(place, Compare::Less, count) });
            ask(Question::InitialProbability { condition: one(place, Compare::Less, count) });
        }
        for question in [Question::Tangible, Question::Vanishing, Question::Deadlocks, Question::BottomComponents, Question::TimeToAbsorption] {
            ask(question);
        }
        let lumped = answer(&net, &asks, 20_000);
        // A question about all places at once leaves nothing to exchange.
        let terms = (0..net.places().len()).map(|place| (place, Compare::GreaterOrEqual, 0)).collect();
        asks.push(Ask { id: "all".into(), question: Question::Probability { condition: Condition { terms }, at: None } });
        let plain = answer(&net, &asks, 20_000);
        let (lumped, plain) = match (lumped, plain) {
            (Ok(lumped), Ok(plain)) => (lumped, plain),
            (Err(one), Err(other)) => {
                prop_assert_eq!(one, other);
                return Ok(());
            }
            // What is too large for one need not be for the other.
            (Ok(_), Err(other)) if other.class == Class::TooLarge => return Ok(()),
            (one, other) => return Err(TestCaseError::fail(format!("{one:?} and {other:?}"))),
        };
        for (id, other) in &plain.values {
            match (lumped.values.get(id), other) {
                (Some(Value::Number(one)), Value::Number(other)) => {
                    prop_assert!((one - other).abs() <= 1e-7 * other.abs().max(1e-5), "{} is {}, and {} is wanted", id, one, other);
                }
                (Some(one), other) => prop_assert_eq!(one, other, "{}", id),
                (None, _) => prop_assert!(id == "all", "{id} is left open: {:?}", lumped.unanswered.get(id)),
            }
        }
        prop_assert!(lumped.checks.invariants <= 1e-9 && lumped.checks.flow_balance <= 1e-9);
    }

    #[test]
    fn derivatives_are_the_same_with_all_but_one_replica_exchanged((net, replicated) in nets(5..7), by in 0_usize..64, count in 0_u64..4) {
        let constant = |it: &usize| matches!(net.transitions()[*it].kind, Kind::Timed { rate: Rate::Constant(_), .. });
        let rates: Vec<usize> = (0..net.transitions().len()).filter(constant).collect();
        prop_assume!(!rates.is_empty());
        let by = rates[by % rates.len()];
        let mut asks = Vec::new();
        let mut ask = |of| {
            let question = Question::Sensitivity { of: Box::new(of), by };
            asks.push(Ask { id: format!("q{}", asks.len()), question });
        };
        means(&net, count).into_iter().for_each(&mut ask);
        for place in replicated..net.places().len() {
            ask(Question::PassageMean { condition: one(place, Compare::Less, count) });
        }
        ask(Question::TimeToAbsorption);
        let lumped = answer(&net, &asks, 20_000);
        let terms = (0..net.places().len()).map(|place| (place, Compare::GreaterOrEqual, 0)).collect();
        asks.push(Ask { id: "all".into(), question: Question::Probability { condition: Condition { terms }, at: None } });
        let plain = answer(&net, &asks, 20_000);
        let (Ok(lumped), Ok(plain)) = (lumped, plain) else { return Ok(()) };
        for (id, other) in &plain.values {
            match (lumped.values.get(id), other) {
                (Some(Value::Number(one)), Value::Number(other)) => {
                    prop_assert!((one - other).abs() <= 1e-6 * other.abs().max(1e-4), "{} is {}, and {} is wanted", id, one, other);
                }
                (Some(one), other) => prop_assert_eq!(one, other, "{}", id),
                (None, _) => prop_assert!(id == "all", "{id} is left open: {:?}", lumped.unanswered.get(id)),
            }
        }
    }
}

/// Thirty machines that are mended while a mender is there: a thousand million markings. Of whether he is there, in the long run `a / (a + b)`,
/// the derivative is that of two states; one machine's own rate keeps it apart from 29 others.
#[test]
fn derivatives_of_many_replicas_are_those_of_few() {
    let machines = |count: usize| {
        let timed = |name: String, rate: f64, from: [&str; 2], to: [&str; 2]| {
            let arcs = |places: [&str; 2]| {
                places.iter().map(|it| (it.to_string(), json!(1))).collect::<serde_json::Map<_, _>>()
            };
            json!({"name": name, "kind": "timed", "rate": rate, "in": arcs(from), "out": arcs(to)})
        };
        let mut places = vec![json!({"name": "there", "tokens": 1}), json!({"name": "away"})];
        let mut transitions = vec![
            json!({"name": "leaves", "kind": "timed", "rate": 0.5, "in": {"there": 1}, "out": {"away": 1}}),
            json!({"name": "comes", "kind": "timed", "rate": 1, "in": {"away": 1}, "out": {"there": 1}}),
        ];
        for machine in 0..count {
            let (up, down) = (format!("up{machine}"), format!("down{machine}"));
            places.extend([json!({"name": up, "tokens": 1}), json!({"name": down})]);
            transitions.push(json!({"name": format!("fails{machine}"), "kind": "timed", "rate": 0.1, "in": {&up: 1}, "out": {&down: 1}}));
            transitions.push(timed(format!("mended{machine}"), 1.0, [&down, "there"], [&up, "there"]));
        }
        let of = |place: &str, by: &str| json!({"id": format!("{place} {by}"), "kind": "sensitivity", "of": {"kind": "mean_tokens", "place": place}, "wrt": by});
        let ask = json!([
            of("away", "leaves"),
            of("down0", "leaves"),
            of("down1", "fails1"),
            of("down0", "fails1"),
            of("away", "fails1")
        ]);
        let net = gspn::json::read(
            json!({"net": {"places": places, "transitions": transitions}, "ask": ask}).to_string().as_bytes(),
        )
        .unwrap();
        answer(&net.net, &net.asks, Limits::default().markings).unwrap()
    };
    let (few, many) = (machines(2), machines(30));
    let of = |answer: &Answer, id: &str| match answer.values.get(id) {
        Some(Value::Number(value)) => *value,
        _ => panic!("{id}: {answer:?}"),
    };
    // d/da of a / (a + b), at a half and one.
    assert!((of(&many, "away leaves") - 4.0 / 9.0).abs() < 1e-9, "{many:?}");
    for id in ["down0 leaves", "down1 fails1"] {
        assert!(of(&few, id) > 0.1 && (of(&few, id) - of(&many, id)).abs() < 1e-9, "{id}: {few:?} {many:?}");
    }
    for id in ["down0 fails1", "away fails1"] {
        assert!(of(&many, id).abs() < 1e-9, "{id}: {many:?}");
    }
}

/// Twelve clients think in two steps and share three servers: millions of markings, of which 300 are explored.
#[test]
fn twelve_clients_at_three_servers_are_few_markings() {
    const CLIENTS: usize = 12;
    let (think, serve) = (0.7, 2.0);
    let part = |kind, inputs: &[usize], outputs: &[usize]| Part {
        kind,
        inputs: inputs.to_vec(),
        outputs: outputs.to_vec(),
        inhibitor: None,
    };
    let timed = |rate| Kind::Timed { rate: Rate::Constant(rate), servers: Servers::Finite(1) };
    let (first, second, waits, served, free) = (0, 1, 2, 3, 4);
    let net = replicas(
        &[1, 0, 0, 0],
        &[3],
        &[
            part(timed(2.0 * think), &[first], &[second]),
            part(timed(2.0 * think), &[second], &[waits]),
            part(Kind::Immediate { weight: 1.0, priority: 1, by: None }, &[waits, free], &[served]),
            part(timed(serve), &[served], &[first, free]),
        ],
        CLIENTS,
    );
    let place = |name: &str| net.place(name).unwrap();
    let asks = [
        ("rate", Question::Throughput { transition: net.transition("t3 of 5").unwrap(), at: None }),
        ("starts", Question::Throughput { transition: net.transition("t2 of 7").unwrap(), at: None }),
        ("waits", Question::MeanTokens { place: place("p2 of 0"), at: None }),
        ("one waits", Question::Probability { condition: one(place("p2 of 11"), Compare::Equal, 1), at: None }),
        ("all free", Question::Probability { condition: one(place("s0"), Compare::Equal, 3), at: None }),
        ("all busy", Question::PassageMean { condition: one(place("s0"), Compare::Equal, 0) }),
        ("markings", Question::Tangible),
    ];
    let asks: Vec<Ask> = asks.into_iter().map(|(id, question)| Ask { id: id.into(), question }).collect();
    let found = answer(&net, &asks, 100_000).unwrap();
    assert_eq!(found.unanswered["markings"].class, Class::TooLarge);
    // However long a client thinks on average, it is the mean that counts: a chain of births and deaths.
    let clients = CLIENTS as f64;
    let mut weights = vec![1.0];
    for here in 1..=CLIENTS {
        let next = weights[here - 1] * (clients - here as f64 + 1.0) * think / (serve * (here as f64).min(3.0));
        weights.push(next);
    }
    let sum: f64 = weights.iter().sum();
    let mean = |value: &dyn Fn(f64) -> f64| {
        weights.iter().enumerate().map(|(n, weight)| weight / sum * value(n as f64)).sum::<f64>()
    };
    let waiting = mean(&|here| (here - 3.0).max(0.0)) / clients;
    let rate = serve * mean(&|here| here.min(3.0)) / clients;
    for (id, wanted) in
        [("rate", rate), ("starts", rate), ("waits", waiting), ("one waits", waiting), ("all free", 1.0 / sum)]
    {
        let Value::Number(value) = found.values[id] else { panic!("{id}") };
        assert!((value - wanted).abs() <= 1e-9 * wanted, "{id} is {value}, and {wanted} is wanted");
    }
    assert!(found.values.contains_key("all busy"));
    // The count is that of all markings: think once or twice, be served, or wait while three others are served.
    let choose = |from: u64, of: u64| (0..of).fold(1, |ways, step| ways * (from - step) / (step + 1));
    let served: u64 = (0..=3).map(|served| choose(12, served) * 2_u64.pow(12 - served as u32)).sum();
    let waiting: u64 = (1..=9).map(|waits| choose(12, 3) * choose(9, waits) * 2_u64.pow(9 - waits as u32)).sum();
    let counted = answer(&net, &asks, 20_000_000).unwrap();
    assert_eq!(counted.values["markings"], Value::Count(served + waiting));
}

/// So many rings of four places that know nothing of each other.
fn rings(count: usize, asks: &serde_json::Value) -> Answer {
    let (mut places, mut transitions) = (Vec::new(), Vec::new());
    for ring in 0..count {
        for step in 0..4_usize {
            let name = |step: usize| format!("c{ring}_{}", step % 4);
            places.push(json!({"name": name(step), "tokens": u32::from(step == 0)}));
            transitions.push(json!({"name": format!("t{ring}_{step}"), "kind": "timed", "rate": step + 1, "in": {name(step): 1}, "out": {name(step + 1): 1}}));
        }
    }
    let net = json!({"net": {"places": places, "transitions": transitions}, "ask": asks});
    let net = gspn::json::read(net.to_string().as_bytes()).unwrap();
    answer(&net.net, &net.asks, Limits::default().markings).unwrap()
}

/// A net with product form has more markings than the limit; those that matter are few.
#[test]
fn rings_that_are_alike_are_lumped_where_the_product_knows_nothing() {
    let ask = json!([{"id": "m", "kind": "mean_tokens", "place": "c0_1", "at": 1.0}]);
    let (one, many) = (rings(1, &ask), rings(12, &ask));
    let (Value::Number(one), Value::Number(many)) = (one.values["m"], many.values["m"]) else { panic!("{many:?}") };
    assert!((one - many).abs() <= 1e-9 * one, "{one} {many}");
}

/// A question that keeps two replicas apart does not take its answer from one that does not.
#[test]
fn a_question_about_two_replicas_does_not_cost_the_others() {
    let late = json!({"id": "m", "kind": "mean_tokens", "place": "c0_1", "at": 1.0});
    let all: Vec<_> = (0..12).map(|ring| json!([format!("c{ring}_1"), "==", 1])).collect();
    let asks = json!([late, {"id": "all", "kind": "prob", "at": 1.0, "where": all}, {"id": "two", "kind": "prob", "at": 1.0, "where": &all[..2]}]);
    let (one, many) = (rings(1, &json!([late])), rings(12, &asks));
    let Value::Number(one) = one.values["m"] else { panic!("{one:?}") };
    for (id, wanted) in [("m", one), ("two", one * one)] {
        assert!(matches!(many.values[id], Value::Number(value) if (value - wanted).abs() <= 1e-9 * wanted), "{many:?}");
    }
    assert_eq!(many.unanswered["all"].class, Class::TooLarge);
}

/// Twelve clients that start at once and choose one of two ways before any time has passed: half a million vanishing markings, of which 78 are
/// explored at the start.
#[test]
fn clients_that_choose_at_once_are_few_vanishing_markings() {
    let part = |kind, from: usize, to: usize| Part { kind, inputs: vec![from], outputs: vec![to], inhibitor: None };
    let timed = |rate| Kind::Timed { rate: Rate::Constant(rate), servers: Servers::Finite(1) };
    let choice = |weight| Kind::Immediate { weight, priority: 1, by: None };
    let (chooses, slow, fast) = (0, 1, 2);
    let parts = [
        part(choice(1.0), chooses, slow),
        part(choice(3.0), chooses, fast),
        part(timed(1.0), slow, chooses),
        part(timed(3.0), fast, chooses),
    ];
    let net = replicas(&[1, 0, 0], &[], &parts, 12);
    let at = Some(1.0);
    let asks = [
        ("slow", Question::MeanTokens { place: net.place("p1 of 4").unwrap(), at }),
        ("chosen", Question::Throughput { transition: net.transition("t0 of 9").unwrap(), at }),
        ("vanishing", Question::Vanishing),
    ];
    let asks: Vec<Ask> = asks.into_iter().map(|(id, question)| Ask { id: id.into(), question }).collect();
    let found = answer(&net, &asks, 100_000).unwrap();
    // A client is slow with 1/4 at first, begins to be so at 3/4 of the rest, and ends to be so at 3/4 of its rate.
    let part = 0.5 - 0.25 * f64::exp(-1.5);
    for (id, wanted) in [("slow", part), ("chosen", (part + 3.0 * (1.0 - part)) / 4.0)] {
        let Value::Number(value) = found.values[id] else { panic!("{id}") };
        assert!((value - wanted).abs() <= 1e-9 * wanted, "{id} is {value}, and {wanted} is wanted");
    }
    assert_eq!(found.unanswered["vanishing"].class, Class::TooLarge);
    let counted = answer(&net, &asks[2..], 20_000_000).unwrap();
    assert_eq!(counted.values["vanishing"], Value::Count(3_u64.pow(12) - 2_u64.pow(12)));
}
