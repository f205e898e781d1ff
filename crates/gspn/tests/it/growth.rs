//! Nets that gather tokens without end in ways that exploring alone does not show, and nets alike that do not.

use std::collections::HashSet;

use gspn::net::{Net, Transition};
use gspn::{Budget, Class, Limits, Refusal, ask, json};
use serde_json::{Map, Value, json};

use crate::firing::{enabled, priority};

/// A transition: kind (0 is timed, else the priority of an immediate), inputs, outputs, inhibitors.
type Row<'a> = (&'a str, u64, &'a [(&'a str, u64)], &'a [(&'a str, u64)], &'a [(&'a str, u64)]);

fn net(places: &[(&str, u64)], rows: &[Row<'_>]) -> Net {
    let arcs =
        |arcs: &[(&str, u64)]| arcs.iter().map(|(at, count)| ((*at).to_owned(), json!(count))).collect::<Map<_, _>>();
    let places: Vec<Value> = places.iter().map(|(name, tokens)| json!({"name": name, "tokens": tokens})).collect();
    let row = |(name, priority, inputs, outputs, inhibitors): &Row<'_>| {
        let mut it = json!({"name": name, "in": arcs(inputs), "out": arcs(outputs), "inhibit": arcs(inhibitors)});
        if *priority > 0 {
            it["kind"] = json!("immediate");
            it["priority"] = json!(priority);
        } else {
            it["kind"] = json!("timed");
            it["rate"] = json!(1.0);
        }
        it
    };
    let rows: Vec<Value> = rows.iter().map(row).collect();
    json::read(json!({"net": {"places": places, "transitions": rows}}).to_string().as_bytes()).unwrap().net
}

fn refusal(net: &Net, markings: u64) -> Option<Refusal> {
    let mut go_on = |_| true;
    let limits = Limits { markings, ..Limits::default() };
    ask::answer(net, &[], &mut Budget::new(limits, &mut go_on)).err()
}

fn fired(it: &Transition, marking: &[u64]) -> Vec<u64> {
    let mut next = marking.to_vec();
    it.inputs.iter().for_each(|arc| next[arc.place] -= arc.count);
    it.outputs.iter().for_each(|arc| next[arc.place] += arc.count);
    next
}

/// What may follow a marking.
fn firing<'a>(net: &'a Net, marking: &'a [u64]) -> impl Iterator<Item = &'a Transition> {
    let urgent = net.transitions().iter().filter(|it| enabled(it, marking)).map(priority).max();
    net.transitions().iter().filter(move |it| enabled(it, marking) && Some(priority(it)) == urgent)
}

/// Whether there are no more markings than so many, looked at one by one.
fn ends(net: &Net, most: usize) -> bool {
    let initial: Vec<u64> = net.places().iter().map(|place| place.tokens).collect();
    let (mut seen, mut left) = (HashSet::from([initial.clone()]), vec![initial]);
    while let Some(marking) = left.pop() {
        for it in firing(net, &marking) {
            let next = fired(it, &marking);
            if seen.insert(next.clone()) {
                left.push(next);
            }
        }
        if seen.len() > most {
            return false;
        }
    }
    true
}

/// Fires the trace of a refusal; the place that it names holds more behind it than at the beginning of what is fired again.
fn grows(net: &Net, refusal: &Refusal) {
    assert_eq!(refusal.class, Class::Unbounded, "{refusal:?}");
    let mut marking: Vec<u64> = net.places().iter().map(|place| place.tokens).collect();
    let mut before = vec![marking.clone()];
    for name in &refusal.trace {
        let it = firing(net, &marking).find(|it| it.name == *name);
        marking = fired(it.unwrap_or_else(|| panic!("`{name}` of {refusal:?} at {marking:?}")), &marking);
        before.push(marking.clone());
    }
    let place = net.place(&refusal.name).unwrap();
    let less = |earlier: &Vec<u64>| {
        earlier[place] < marking[place] && earlier.iter().zip(&marking).all(|(earlier, later)| earlier <= later)
    };
    assert!(before.iter().any(less), "{refusal:?}");
}

/// Tokens of a control go round, and with each turn all tokens of `a` become twice, or once and one more, as many.
fn counters() -> Vec<(&'static str, Net)> {
    let places = &[("s", 1), ("r", 0), ("a", 1), ("b", 0)];
    let back: Row<'_> = ("back", 0, &[("r", 1), ("b", 1)], &[("r", 1), ("a", 1)], &[]);
    let turn: Row<'_> = ("turn", 0, &[("r", 1)], &[("s", 1)], &[("b", 1)]);
    vec![
        (
            "doubled",
            net(
                places,
                &[
                    ("move", 0, &[("s", 1), ("a", 1)], &[("s", 1), ("b", 2)], &[]),
                    ("switch", 0, &[("s", 1)], &[("r", 1)], &[("a", 1)]),
                    back,
                    turn,
                ],
            ),
        ),
        (
            "one more",
            net(
                places,
                &[
                    ("move", 0, &[("s", 1), ("a", 1)], &[("s", 1), ("b", 1)], &[]),
                    ("switch", 0, &[("s", 1)], &[("r", 1), ("b", 1)], &[("a", 1)]),
                    back,
                    turn,
                ],
            ),
        ),
        (
            "one more, from where few are left",
            net(
                places,
                &[
                    ("move", 0, &[("s", 1), ("a", 1)], &[("s", 1), ("b", 1)], &[]),
                    ("switch", 0, &[("s", 1)], &[("r", 1), ("b", 1)], &[("a", 20)]),
                    back,
                    turn,
                ],
            ),
        ),
        (
            "two steps for each token",
            net(
                &[("s", 1), ("r", 0), ("a", 2), ("b", 0), ("h", 0)],
                &[
                    ("take", 0, &[("s", 1), ("a", 1)], &[("h", 1)], &[]),
                    ("put", 0, &[("h", 1)], &[("s", 1), ("b", 2)], &[]),
                    ("switch", 0, &[("s", 1)], &[("r", 1)], &[("a", 1)]),
                    back,
                    turn,
                ],
            ),
        ),
        (
            "at once, by priorities alone",
            net(
                places,
                &[
                    ("start", 0, &[("s", 1)], &[("r", 1)], &[]),
                    ("move", 3, &[("r", 1), ("a", 1)], &[("r", 1), ("b", 2)], &[]),
                    ("all moved", 2, &[("r", 1)], &[("s", 1)], &[]),
                    ("back", 4, &[("s", 1), ("b", 1)], &[("s", 1), ("a", 1)], &[]),
                ],
            ),
        ),
    ]
}

#[test]
fn what_is_done_once_for_each_token_is_done_more_often_each_time() {
    for (name, net) in counters() {
        let refusal = refusal(&net, 2_000).unwrap_or_else(|| panic!("{name}"));
        grows(&net, &refusal);
        assert!(refusal.why.ends_with("again and again, some of them more often each time"), "{name}: {}", refusal.why);
    }
}

/// The same machines with an end: one token fewer on the way back, a limit, nothing that is added.
#[test]
fn what_comes_to_an_end_is_not_refused() {
    let places = &[("s", 1), ("r", 0), ("a", 5), ("b", 0)];
    let switch: Row<'_> = ("switch", 0, &[("s", 1)], &[("r", 1)], &[("a", 1)]);
    let back: Row<'_> = ("back", 0, &[("r", 1), ("b", 1)], &[("r", 1), ("a", 1)], &[]);
    let turn: Row<'_> = ("turn", 0, &[("r", 1)], &[("s", 1)], &[("b", 1)]);
    for (name, first, rest) in [
        ("as many", ("move", 0, &[("s", 1), ("a", 1)][..], &[("s", 1), ("b", 1)][..], &[][..]), [switch, back, turn]),
        (
            "up to fifty",
            ("move", 0, &[("s", 1), ("a", 1)][..], &[("s", 1), ("b", 2)][..], &[("b", 50)][..]),
            [switch, back, turn],
        ),
        (
            "as many, from where few are left",
            ("move", 0, &[("s", 1), ("a", 1)][..], &[("s", 1), ("b", 1)][..], &[][..]),
            [("switch", 0, &[("s", 1)][..], &[("r", 1)][..], &[("a", 3)][..]), back, turn],
        ),
        (
            "two become three, and one is always left",
            ("move", 0, &[("s", 1), ("a", 2)][..], &[("s", 1), ("b", 3)][..], &[][..]),
            [("switch", 0, &[("s", 1)][..], &[("r", 1)][..], &[("a", 1)][..]), back, turn],
        ),
    ] {
        let net = net(places, &[first, rest[0], rest[1], rest[2]]);
        assert!(ends(&net, 2_000), "{name}");
        assert_eq!(refusal(&net, 4_000).map(|refusal| refusal.class), None, "{name}");
    }
}

/// Forty tokens move freely among nine places, more than 4e8 markings; growth begins where all of them are in the last.
#[test]
fn growth_behind_hundreds_of_millions_of_markings_is_found() {
    let names: Vec<String> = (0..9).map(|place| format!("p{place}")).collect();
    let mut places: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 0)).collect();
    places[0].1 = 40;
    places.push(("q", 0));
    let pairs = || names.iter().flat_map(|from| names.iter().filter(move |to| *to != from).map(move |to| (from, to)));
    let called: Vec<String> = pairs().map(|(from, to)| format!("{from} to {to}")).collect();
    let arcs: Vec<[(&str, u64); 2]> = pairs().map(|(from, to)| [(from.as_str(), 1), (to.as_str(), 1)]).collect();
    let mut rows: Vec<Row<'_>> =
        called.iter().zip(&arcs).map(|(name, arcs)| (name.as_str(), 0, &arcs[..1], &arcs[1..], &[][..])).collect();
    rows.push(("end", 0, &[("p8", 40)], &[("q", 1)], &[]));
    rows.push(("grow", 0, &[("q", 1)], &[("q", 2)], &[]));
    let net = net(&places, &rows);
    let refusal = refusal(&net, 8_000_000).unwrap();
    grows(&net, &refusal);
    assert_eq!(refusal.trace.len(), 42, "no way is shorter: {:?}", refusal.trace);
}

/// Five queues fill, each up to 20, and one firing takes all of that and leaves one token elsewhere.
#[test]
fn growth_that_many_firings_pay_for_is_found() {
    let names = ["a", "b", "c", "d", "e"];
    let mut places: Vec<(&str, u64)> = names.iter().map(|name| (*name, 0)).collect();
    places.push(("z", 0));
    let called: Vec<String> = names.iter().map(|name| format!("to {name}")).collect();
    let arcs: Vec<[(&str, u64); 2]> = names.iter().map(|name| [(*name, 1), (*name, 20)]).collect();
    let all: Vec<(&str, u64)> = names.iter().map(|name| (*name, 20)).collect();
    let arrivals = called.iter().zip(&arcs).map(|(name, arcs)| -> Row<'_> { (name, 0, &[], &arcs[..1], &arcs[1..]) });
    let rows: Vec<Row<'_>> = arrivals.chain([("take all", 0, &all[..], &[("z", 1)][..], &[][..])]).collect();
    let net = net(&places, &rows);
    let refusal = refusal(&net, 8_000_000).unwrap();
    grows(&net, &refusal);
    assert_eq!((refusal.name.as_str(), refusal.trace.len()), ("z", 101), "{refusal:?}");
}

/// Two switches of a control, and what moves tokens while it stands one way or the other: what is refused as unbounded has no end.
#[test]
fn machines_made_by_chance_with_few_markings_are_never_said_to_grow() {
    let mut state = 1_u64;
    let mut chance = |most: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((state >> 33) % most).unwrap()
    };
    let (mut finite, mut unbounded, mut climbing) = (0, 0, 0);
    for _ in 0..6_000 {
        let (control, data) = (["s", "r"], ["a", "b", "c"]);
        let places = [("s", 1), ("r", 0), ("a", chance(3) as u64), ("b", chance(2) as u64), ("c", 0)];
        let names: Vec<String> = (0..4 + chance(2)).map(|index| format!("t{index}")).collect();
        let made: Vec<_> = (0..names.len())
            .map(|index| {
                let own = if index < 4 { index % 2 } else { chance(2) };
                let (mut inputs, mut outputs) = (vec![(control[own], 1)], vec![(control[own], 1)]);
                let mut inhibitors = Vec::new();
                if index < 2 {
                    outputs[0].0 = control[1 - own];
                    outputs.extend((chance(3) == 0).then(|| (data[chance(3)], 1)));
                    inhibitors.extend((chance(6) > 0).then(|| (data[chance(3)], 1 + chance(6) as u64 / 5)));
                } else {
                    let from = chance(3);
                    inputs.push((data[from], 1 + chance(8) as u64 / 7));
                    outputs.push((data[(from + 1 + chance(2)) % 3], 1 + chance(2) as u64));
                    inhibitors.extend((chance(8) == 0).then(|| (data[chance(3)], 1 + chance(3) as u64)));
                }
                let priority = if chance(5) == 0 { 1 + chance(2) as u64 } else { 0 };
                (priority, inputs, outputs, inhibitors)
            })
            .collect();
        let rows: Vec<Row<'_>> =
            names.iter().zip(&made).map(|(name, it)| (name.as_str(), it.0, &it.1[..], &it.2[..], &it.3[..])).collect();
        let net = net(&places, &rows);
        let ends = ends(&net, 1_500);
        finite += usize::from(ends);
        if let Some(refusal) = refusal(&net, 2_000).filter(|refusal| refusal.class == Class::Unbounded) {
            assert!(!ends, "{refusal:?} of {rows:?} from {places:?}");
            grows(&net, &refusal);
            unbounded += 1;
            climbing += usize::from(refusal.why.contains("more often"));
        }
    }
    println!("{finite} finite, {unbounded} unbounded, {climbing} climbing");
    assert!(finite > 1_000 && unbounded > 300 && climbing > 50, "{finite} {unbounded} {climbing}");
}

/// Two counters that empty each other, and grow by one each time; an immediate that needs more of one than stops it changes nothing.
#[test]
fn what_never_fires_hides_no_growth() {
    let rows: [Row<'_>; 4] = [
        ("up", 0, &[("x", 1)], &[("y", 1), ("a", 1)], &[("b", 1)]),
        ("over", 0, &[("y", 1), ("a", 1)], &[("y", 1), ("b", 1)], &[]),
        ("turn", 0, &[("y", 1)], &[("x", 1)], &[("a", 1)]),
        ("back", 0, &[("x", 1), ("b", 1)], &[("x", 1), ("a", 1)], &[]),
    ];
    let places = [("a", 1), ("b", 0), ("x", 1), ("y", 0)];
    let dead: Row<'_> = ("dead", 1, &[("a", 10)], &[("x", 1)], &[("a", 9)]);
    for rows in [rows.to_vec(), [rows.as_slice(), &[dead]].concat()] {
        let refused = refusal(&net(&places, &rows), 100_000).unwrap();
        assert_eq!(refused.class, Class::Unbounded, "{refused:?}");
    }
    // One that fires once there are ten takes the growth away, or stays.
    let fires: Row<'_> = ("fires", 1, &[("a", 10)], &[], &[("a", 11)]);
    let refused = refusal(&net(&places, &[rows.as_slice(), &[fires]].concat()), 100_000);
    assert!(refused.is_none_or(|it| it.class != Class::Unbounded));
}
