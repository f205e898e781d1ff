//! The engine beside stormpy, on the JANI that we write, and beside Sirio, on the PNPRO: as many states, and the same long-run
//! probabilities.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use gspn::ask::{self, Answer, Ask, Compare, Condition, Question, Value};
use gspn::formats::{Format, write};
use gspn::net::{Kind, Net, Rate, Servers, Transition, build};
use gspn::{Budget, Class, Limits, Refusal, json};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::json;

use crate::made::{Parts, nets};

/// Another solver of nets.
struct Peer {
    name: &'static str,
    format: Format,
    /// Further words on its command line.
    more: &'static [&'static str],
}

const STORMPY: Peer = Peer { name: "stormpy", format: Format::Jani, more: &[] };
const SIRIO: Peer = Peer { name: "sirio", format: Format::Pnpro, more: &["--cap", "8"] };

/// A net, what is asked of it, and our answers: `p0`, `p1`, .. for the conditions, and the counts.
struct Case {
    name: String,
    net: Net,
    conditions: Vec<String>,
    ours: Answer,
    /// Whether it has fixed times, which we promise to 1 %.
    fixed: bool,
    /// Whether it may end in several ways.
    ends: bool,
}

impl Case {
    /// `conditions` are places and the least tokens in them.
    fn of(name: String, net: Net, conditions: &[(usize, u64)]) -> Result<Self, Refusal> {
        let mut asks = vec![
            Ask { id: "tangible".into(), question: Question::Tangible },
            Ask { id: "vanishing".into(), question: Question::Vanishing },
        ];
        for (index, (place, least)) in conditions.iter().enumerate() {
            let condition = Condition { terms: vec![(*place, Compare::GreaterOrEqual, *least)] };
            asks.push(Ask { id: format!("p{index}"), question: Question::Probability { condition, at: None } });
        }
        let fixed = net.transitions().iter().any(|transition| matches!(transition.kind, Kind::Deterministic { .. }));
        if !fixed {
            asks.push(Ask { id: "ends".into(), question: Question::BottomComponents });
        }
        let mut go_on = |_| true;
        let ours = ask::answer(&net, &asks, &mut Budget::new(Limits::default(), &mut go_on))?;
        let conditions =
            conditions.iter().map(|(place, least)| format!("{} >= {least}", net.places()[*place].name)).collect();
        let ends = ours.values.get("ends").is_some_and(|ends| *ends != Value::Count(1));
        Ok(Self { name, net, conditions, ours, fixed, ends })
    }

    /// Adds what the peer found otherwise.
    fn differences(&self, peer: &Peer, theirs: &serde_json::Value, differences: &mut String) {
        for count in ["tangible", "vanishing"] {
            let other = theirs[count].as_u64().map(Value::Count);
            if other.is_some_and(|other| other != self.ours.values[count]) {
                writeln!(differences, "{}: {:?} {count} here, {other:?} there", self.name, self.ours.values[count])
                    .unwrap();
            }
        }
        // Sirio has one solver.
        let one = [theirs.clone()];
        let solved = theirs["solved"].as_array().map_or(&one[..], Vec::as_slice);
        assert!(solved.len() >= if peer.name == "stormpy" { 3 } else { 1 }, "{}: {theirs}", self.name);
        // A residual says how the shares in one end are to each other, and not how likely each end is: of nets with several ends the
        // answers of solvers that stop for it alone are not compared.
        let exact = |answer: &&serde_json::Value| {
            !self.ends || !answer["solver"].as_str().is_some_and(|solver| solver.starts_with("gmm++"))
        };
        let solved: Vec<_> = solved.iter().filter(exact).collect();
        assert!(!solved.is_empty(), "{}: {theirs}", self.name);
        for answer in solved {
            for (index, condition) in self.conditions.iter().enumerate() {
                let Value::Number(own) = self.ours.values[&format!("p{index}")] else { panic!("{:?}", self.ours) };
                let other = answer["values"][index].as_f64().unwrap();
                let apart = if self.fixed { 0.01 * other.max(1e-4) } else { 1e-8 };
                if (own - other).abs() > apart || other.is_nan() {
                    let solver = &answer["solver"];
                    writeln!(differences, "{}: {solver} of {condition}: {own} here, {other} there", self.name).unwrap();
                }
            }
        }
    }
}

impl Peer {
    /// The starter of the program; none, with a line that says so, when it is not installed.
    fn program(&self) -> Option<PathBuf> {
        let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers");
        let peers = std::env::var_os("TRAPKEY_PEERS_DIR").map_or(default, PathBuf::from);
        let path = peers.join(format!("bin/{}-steady", self.name));
        if path.exists() {
            return Some(path);
        }
        println!("SKIPPED {}: {} is not there; `make peers` installs it", self.name, path.display());
        assert!(
            std::env::var("TRAPKEY_PEERS").as_deref() != Ok("required"),
            "a required peer is missing: {}",
            self.name
        );
        None
    }

    /// How many of the cases the peer solved, all as we did; a process for all of them.
    fn agrees(&self, called: &str, cases: &[Case]) -> Option<usize> {
        let program = self.program()?;
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let mut jobs = String::new();
        for case in cases {
            let model = folder.join(format!("{}-{called}-{}.net", self.name, case.name));
            std::fs::write(&model, write(&case.net, self.format).unwrap()).unwrap();
            writeln!(jobs, "{}\t{}", model.display(), case.conditions.join("\t")).unwrap();
        }
        let file = folder.join(format!("{}-{called}.jobs", self.name));
        std::fs::write(&file, jobs).unwrap();
        let output = Command::new(program).arg("--jobs").arg(file).args(self.more).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        let answers: Vec<serde_json::Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(answers.len(), cases.len(), "{said}");
        let mut differences = String::new();
        let mut solved = 0;
        for (case, theirs) in cases.iter().zip(&answers) {
            if let Some(why) = theirs["refused"].as_str() {
                println!("{} refuses {}: {why}", self.name, case.name);
                continue;
            }
            case.differences(self, theirs, &mut differences);
            solved += 1;
        }
        assert!(differences.is_empty(), "{}:\n{differences}", self.name);
        Some(solved)
    }
}

/// Both peers have the counts and probabilities that we have: `places` hold at least so many.
fn compare(name: &str, net: &serde_json::Value, places: &[(&str, u64)]) {
    let document = json::read(json!({"net": net}).to_string().as_bytes()).unwrap();
    let conditions: Vec<_> = places.iter().map(|(place, least)| (document.net.place(place).unwrap(), *least)).collect();
    let cases = [Case::of(name.into(), document.net, &conditions).unwrap()];
    for peer in [STORMPY, SIRIO] {
        assert!(peer.agrees(name, &cases).is_none_or(|solved| solved == 1), "{} refuses {name}", peer.name);
    }
}

/// The tokens that a firing adds to each place.
fn effect(net: &Net, transition: &Transition) -> Vec<i64> {
    let mut effect = vec![0; net.places().len()];
    transition.inputs.iter().for_each(|arc| effect[arc.place] -= i64::try_from(arc.count).unwrap());
    transition.outputs.iter().for_each(|arc| effect[arc.place] += i64::try_from(arc.count).unwrap());
    effect
}

/// Whether each marking that is ever reached is reached again and again, and there are several and not many: what Sirio's analysis by stochastic
/// state classes takes for granted. With exponential times for the fixed ones the markings are the same, or more.
fn goes_on(net: &Net) -> bool {
    let transitions = net.transitions().iter().cloned().map(|transition| match transition.kind {
        Kind::Deterministic { .. } => {
            Transition { kind: Kind::Timed { rate: Rate::Constant(1.0), servers: Servers::Finite(1) }, ..transition }
        }
        _ => transition,
    });
    let net = build("", net.places().to_vec(), transitions.collect()).unwrap();
    let asks =
        [("ends", Question::BottomComponents), ("until", Question::TimeToAbsorption), ("many", Question::Tangible)];
    let asks = asks.map(|(id, question)| Ask { id: id.into(), question });
    let mut go_on = |_| true;
    ask::answer(&net, &asks, &mut Budget::new(Limits::default(), &mut go_on)).is_ok_and(|answer| {
        answer.values["ends"] == Value::Count(1)
            && answer.values["until"] == Value::Number(0.0)
            && matches!(answer.values["many"], Value::Count(2..=40))
    })
}

/// So many random nets, the same in each run, that have an answer, with each place that changes.
fn drawn(parts: Parts, count: usize, wanted: impl Fn(&Net) -> bool) -> Vec<Case> {
    let mut runner = TestRunner::deterministic();
    let nets = nets(parts);
    let mut cases = Vec::new();
    while cases.len() < count {
        let net = nets.new_tree(&mut runner).unwrap().current();
        // Of a place that nothing changes Storm's conditions say nothing.
        let changes = |place: &usize| net.transitions().iter().any(|transition| effect(&net, transition)[*place] != 0);
        let conditions: Vec<_> = (0..net.places().len()).filter(changes).map(|place| (place, 1)).collect();
        if conditions.is_empty() || !wanted(&net) {
            continue;
        }
        match Case::of(format!("{}", cases.len()), net, &conditions) {
            Ok(case) => cases.push(case),
            Err(refusal) => assert!(matches!(refusal.class, Class::TimelessTrap | Class::Unsupported), "{refusal:?}"),
        }
    }
    cases
}

/// Whether it begins in a vanishing marking: stormpy takes all the tangible ones after it for equally likely.
fn begins_at_once(net: &Net) -> bool {
    let tokens = |place: usize| net.places()[place].tokens;
    net.transitions().iter().any(|transition| {
        matches!(transition.kind, Kind::Immediate { .. })
            && transition.inputs.iter().all(|arc| tokens(arc.place) >= arc.count)
            && transition.inhibitors.iter().all(|arc| tokens(arc.place) < arc.count)
    })
}

/// Random nets, the same in each run: some end, some have several ends.
#[test]
fn random_nets_with_stormpy() {
    let cases = drawn(Parts::default(), 150, |net| !begins_at_once(net));
    if let Some(solved) = STORMPY.agrees("random", &cases) {
        assert_eq!(solved, cases.len());
    }
}

#[test]
fn random_nets_with_sirio() {
    let immediate = |net: &Net| net.transitions().iter().any(|it| matches!(it.kind, Kind::Immediate { .. }));
    let cases = drawn(Parts::default(), 100, |net| !immediate(net));
    if let Some(solved) = SIRIO.agrees("timed", &cases) {
        assert_eq!(solved, 100);
    }
    let cases = drawn(Parts { back: true, ..Parts::default() }, 100, |net| immediate(net) && goes_on(net));
    if let Some(solved) = SIRIO.agrees("immediate", &cases) {
        assert!(solved >= 60, "sirio solves only {solved}");
    }
}

/// Fixed times, for which Sirio's answers are exact and ours good to 1 %: a queue served in a fixed time, and a machine that a clock stops
/// for care unless it breaks first. Nothing takes what a clock waits for and puts it back: with Sirio that begins it anew.
#[test]
fn fixed_times_with_sirio() {
    let queue = json!({"places": [{"name": "queue"}, {"name": "room", "tokens": 4}],
    "transitions": [
        {"name": "arrive", "kind": "timed", "rate": 1.2, "in": {"room": 1}, "out": {"queue": 1}},
        {"name": "serve", "kind": "deterministic", "delay": 0.7, "in": {"queue": 1}, "out": {"room": 1}},
    ]});
    let machine = json!({"places": [{"name": "up", "tokens": 1}, {"name": "choose"}, {"name": "care"}, {"name": "broken"}],
    "transitions": [
        {"name": "clock", "kind": "deterministic", "delay": 3, "in": {"up": 1}, "out": {"care": 1}},
        {"name": "fail", "kind": "timed", "rate": 0.25, "in": {"up": 1}, "out": {"choose": 1}},
        {"name": "mild", "kind": "immediate", "weight": 3, "in": {"choose": 1}, "out": {"care": 1}},
        {"name": "hard", "kind": "immediate", "in": {"choose": 1}, "out": {"broken": 1}},
        {"name": "clean", "kind": "timed", "rate": 2, "in": {"care": 1}, "out": {"up": 1}},
        {"name": "mend", "kind": "deterministic", "delay": 1.5, "in": {"broken": 1}, "out": {"up": 1}},
    ]});
    let cases = [("fixed queue", queue), ("fixed machine", machine)].map(|(name, net)| {
        let net = json::read(json!({"net": net}).to_string().as_bytes()).unwrap().net;
        let conditions: Vec<_> = (0..net.places().len()).map(|place| (place, 1)).collect();
        Case::of(name.replace(' ', "-"), net, &conditions).unwrap()
    });
    assert!(SIRIO.agrees("fixed", &cases).is_none_or(|solved| solved == 2));
}

#[test]
fn a_queue() {
    let net = json!({
    "places": [{"name": "queue"}, {"name": "room", "tokens": 20}],
    "transitions": [
        {"name": "arrive", "kind": "timed", "rate": 2.0, "in": {"room": 1}, "out": {"queue": 1}},
        {"name": "serve", "kind": "timed", "rate": 0.9, "servers": 3, "in": {"queue": 1}, "out": {"room": 1}},
    ]});
    compare("queue", &net, &[("queue", 1), ("queue", 3), ("queue", 20)]);
}

/// Weights among immediates, a priority above them, and as many repairs at once as there are broken.
#[test]
fn immediates_with_weights_and_priorities() {
    let net = json!({
    "places": [{"name": "idle", "tokens": 6}, {"name": "choose"}, {"name": "good"}, {"name": "bad"}],
    "transitions": [
        {"name": "come", "kind": "timed", "rate": 2.0, "in": {"idle": 1}, "out": {"choose": 1}},
        {"name": "well", "kind": "immediate", "weight": 3, "in": {"choose": 1}, "out": {"good": 1}},
        {"name": "ill", "kind": "immediate", "weight": 1, "in": {"choose": 1}, "out": {"bad": 1}},
        {"name": "pair", "kind": "immediate", "priority": 2, "in": {"choose": 1, "bad": 3}, "out": {"good": 2, "idle": 2}},
        {"name": "serve", "kind": "timed", "rate": 3.0, "in": {"good": 1}, "out": {"idle": 1}},
        {"name": "repair", "kind": "timed", "rate": 0.7, "servers": "inf", "in": {"bad": 1}, "out": {"idle": 1}},
    ]});
    compare("immediates", &net, &[("good", 1), ("good", 4), ("bad", 1), ("bad", 3)]);
}

/// Two timed ways from a state to the same other, in a net with immediates: their rates are added up.
#[test]
fn two_ways_to_the_same_state() {
    let net = json!({
    "places": [{"name": "A", "tokens": 1}, {"name": "B"}, {"name": "C"}],
    "transitions": [
        {"name": "a", "kind": "timed", "rate": 1, "in": {"A": 1}, "out": {"B": 1}},
        {"name": "b", "kind": "timed", "rate": 2, "in": {"A": 1}, "out": {"B": 1}},
        {"name": "c", "kind": "timed", "rate": 4, "in": {"B": 1}, "out": {"A": 1}},
        {"name": "i", "kind": "immediate", "in": {"C": 1}, "out": {"A": 1}},
    ]});
    compare("two-ways", &net, &[("A", 1), ("B", 1)]);
}

/// Several tokens along an arc, an inhibitor, and two stages that share a machine.
#[test]
fn batches_an_inhibitor_and_a_shared_machine() {
    let net = json!({
    "places": [{"name": "raw", "tokens": 8}, {"name": "half"}, {"name": "done"}, {"name": "machine", "tokens": 2},
               {"name": "first"}, {"name": "second"}],
    "transitions": [
        {"name": "take", "kind": "immediate", "weight": 2, "in": {"half": 1, "machine": 1}, "out": {"second": 1}},
        {"name": "load", "kind": "timed", "rate": 5.0, "in": {"raw": 2, "machine": 1}, "out": {"first": 1}, "inhibit": {"half": 3}},
        {"name": "cut", "kind": "timed", "rate": 1.5, "servers": "inf", "in": {"first": 1}, "out": {"half": 2, "machine": 1}},
        {"name": "drill", "kind": "timed", "rate": 0.8, "servers": "inf", "in": {"second": 1}, "out": {"done": 1, "machine": 1}},
        {"name": "ship", "kind": "timed", "rate": 0.6, "servers": 2, "in": {"done": 2}, "out": {"raw": 2}},
    ]});
    compare("batches", &net, &[("raw", 2), ("first", 1), ("second", 2), ("done", 2), ("done", 7)]);
}
